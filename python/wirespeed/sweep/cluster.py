"""Runs tasks on a cluster of Dask, by the address of its scheduler. The only file that imports Dask.

Slurm, PBS and LSF start the workers by dask-jobqueue (the guide, "On a cluster"): what is needed here is the address.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Executor
from typing import Any, Final

from wirespeed.errors import InputError, nearest
from wirespeed.sweep import work
from wirespeed.sweep.work import Files

try:
    import distributed
except ImportError:
    raise InputError("--engine dask needs Dask: pip install 'wirespeed[cluster]'") from None

# Schemes of addresses without a port.
_WITHOUT_PORT: Final = ("inproc",)
_ANSWERS_WITHIN_S: Final = 15.0
_CONNECT: Any = distributed.Client  # untyped


class Dask:
    """A cluster. What it loses with a worker Dask runs again; what takes its workers down again and again fails."""

    died: tuple[type[BaseException], ...] = (distributed.scheduler.KilledWorker,)

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler
        self._client: Any = None
        self._threads = 1

    @property
    def workers(self) -> int:
        """Threads of all workers, as they are now; more may join."""
        with contextlib.suppress(OSError):  # where the scheduler has ended, runs under way say so
            self._threads = max(1, sum(int(threads) for threads in self._client.nthreads().values()))
        return self._threads

    def start(self, files: Files) -> Executor:
        """Asks every worker who it is. Raises InputError where nobody answers, or one does not fit."""
        _judge(self._scheduler)
        try:
            self._client = _CONNECT(self._scheduler, timeout=_ANSWERS_WITHIN_S, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as e:
            raise InputError(
                f"--scheduler {self._scheduler}: no scheduler of Dask answers there ({e}); start one with "
                "`dask scheduler`, or by dask-jobqueue"
            ) from None
        try:
            self._client.wait_for_workers(1, timeout=_ANSWERS_WITHIN_S)
        except TimeoutError:
            raise InputError("--scheduler: the cluster has no worker; start one with `dask worker ADDRESS`") from None
        try:
            found = self._client.run(work.identify, files, on_error="return")
        except ImportError as e:
            raise InputError(f"--scheduler: the scheduler cannot run this wirespeed: {e}; install it there") from None
        for worker, answer in found.items():
            if isinstance(answer, BaseException):
                raise InputError(f"worker {worker} cannot run wirespeed: {answer}; install it there")
        wrong = work.differences(list(found.values()))
        if wrong is not None:
            raise InputError(wrong)
        executor: Executor = self._client.get_executor(pure=False)
        return executor

    def again(self) -> Executor | None:
        """The client finds its scheduler again by itself, or not at all."""
        return None

    def stop(self) -> None:
        """Takes back what waits, and leaves the cluster as it is."""
        if self._client is not None:
            self._client.close()


def _judge(scheduler: str) -> None:
    """Raises InputError for what is no address: a client of it would try for half a minute, and complain as it ends."""
    where = f"--scheduler {scheduler}: is no address of a scheduler"
    example = "as in tcp://10.0.0.1:8786"
    try:
        scheme, place = distributed.comm.addressing.parse_address(scheduler)
    except (TypeError, ValueError) as e:
        raise InputError(f"{where}: {e}; {example}") from None
    known = sorted({"inproc", "tcp", "tls", "ws", "wss", *distributed.comm.registry.backends})
    if scheme not in known:
        raise InputError(f"{where}: {scheme}:// must be one of {', '.join(known)}{nearest(scheme, known)}, {example}")
    if scheme in _WITHOUT_PORT:
        return
    try:
        host, port = distributed.comm.addressing.parse_host_port(place)
    except ValueError:
        host, port = place, 0
    if not host or not 0 < port < 1 << 16:
        raise InputError(f"{where}: it needs a host and a port from 1 to 65535, {example} (Dask's own is 8786)")
