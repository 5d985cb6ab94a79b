"""What a worker does: it runs one point and sends back its numbers. Tables and traffic stay loaded between points.

A worker may be a process of this machine, or of another. It needs the same build of wirespeed, and the files that the
scenario names at the same place.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, Final

from wirespeed import _wirespeed, files
from wirespeed.errors import InputError
from wirespeed.sweep.metrics import columns

Files = tuple[tuple[str, int], ...]
"""Paths with their sizes."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run: its key, the resolved scenario as TOML, the build that has to run it, and what identifies its files.

    `near` is the resolved scenario of the machine that it begins near, if there is one.
    """

    key: str
    scenario: str
    build: str
    inputs: str = ""
    near: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a task: `values` of the summary by column, or an `error`."""

    key: str
    values: Mapping[str, float | str] = field(default_factory=dict)
    error: str | None = None
    seconds: float = 0.0
    """What it took on the worker, of wall time and of CPU, and where that was: no part of the result."""
    cpu_seconds: float = 0.0
    worker: str = ""
    refused: tuple[str, ...] = ()
    """Files of warm machines that were not used, each with the reason: no part of the result either."""


class VersionMismatchError(RuntimeError):
    """A worker has another build than the driver."""


# One per process and set of files, and of those one for each machine that others begin near: tables take seconds to
# load and 100 MiB to keep.
_stocks: dict[str, dict[str, _wirespeed.Stock]] = {}
# Such machines at a time: a few warm servers are kept for each.
_MOST_NEAR: Final = 3
_stocks_lock = threading.Lock()
_own = threading.local()


def work(task: Task) -> Outcome:
    """Runs a task. Bad settings, and bugs, are its outcome; only another build is raised."""
    if task.build != build():
        raise VersionMismatchError(f"{_here()} has wirespeed {build()}, the driver {task.build}")
    started, used = time.perf_counter(), time.process_time()
    try:
        scenario = _wirespeed.Scenario(task.scenario, "<point>", [])
        stock = _stock(task)
        (run,) = _wirespeed.run([scenario], threads=1, stock=stock, progress=_go_on)
        refused = tuple(stock.refused())
        summary: dict[str, Any] = json.loads(run.summary_json)
        if summary.get("partial"):
            raise KeyboardInterrupt
        values, error = columns(summary), None
    except (InputError, RuntimeError, OSError, MemoryError) as e:
        values, error, refused = {}, f"{e}", ()
    spent = time.perf_counter() - started, time.process_time() - used
    return Outcome(task.key, values, error, *spent, _here(), refused)


def build() -> str:
    """Version and commit."""
    return f"{_wirespeed.version()} ({_wirespeed.commit()})"


def identify(files: Files = ()) -> dict[str, Any]:
    """Who a worker is, and which of `files` it lacks, or has in another size."""
    return {
        "build": build(),
        "python": platform.python_version(),
        "worker": _here(),
        "missing": [path for path, size in files if _size(path) != size],
    }


def differences(found: Sequence[Mapping[str, Any]]) -> str | None:
    """What keeps workers, as they identify themselves, from working for this driver."""
    for each in found:
        if each["build"] != build():
            return (
                f"worker {each['worker']} has wirespeed {each['build']}, this is {build()}: "
                "install the same build on both"
            )
        if each["missing"]:
            return (
                f"worker {each['worker']} does not have {', '.join(each['missing'])} as it is here: "
                "put the files on storage that all workers see under the same path"
            )
    return None


def prepare() -> None:
    """Called once in each local worker: Ctrl-C is the driver's to hear, and a worker whose driver died ends too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_outlive_not, args=(parent,), daemon=True).start()


def heed(stop: threading.Event) -> None:
    """Called once in each worker that is a thread: what it runs ends early when `stop` is set."""
    _own.stop = stop


def _go_on(*_: object) -> None:
    """Told of progress, now and then."""
    stop: threading.Event | None = getattr(_own, "stop", None)
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt


def _outlive_not(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _stock(task: Task) -> _wirespeed.Stock:
    with _stocks_lock:
        if task.inputs not in _stocks:
            _stocks.clear()
            _stocks[task.inputs] = {"": _wirespeed.Stock()}
        of_files = _stocks[task.inputs]
        if task.near not in of_files:
            if len(of_files) > _MOST_NEAR:
                del of_files[list(of_files)[1]]
            of_files[task.near] = of_files[""].near(_wirespeed.Scenario(task.near, "<near>", []), files.warm_folder())
        return of_files[task.near]


def _here() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return -1
