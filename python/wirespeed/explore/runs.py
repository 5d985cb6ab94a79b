"""Short runs behind the closed forms, near one machine that is warm: the scenario as it is.

That machine warms up once, on a thread of its own, whatever the hand does meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from wirespeed import _wirespeed, api, files
from wirespeed.errors import InputError
from wirespeed.explore.place import Chosen, Place
from wirespeed.result import Result

PACKETS = 20_000
"""Packets of the first run of a machine."""
LONG = 100_000
CURVE_PACKETS = 20_000
Go = Callable[[str, int, int], bool]
"""Told the phase, what is done and of how many; answers whether to go on."""
Refused = Callable[[Sequence[str]], None]
"""Told files that were not used, each with the reason."""


class StoppedError(Exception):
    """The hand moved on, or the page is gone."""


class Runs:
    """The runs of a place."""

    def __init__(self, place: Place, threads: int | None = None, refused: Refused | None = None) -> None:
        """`refused` is told, by whichever thread runs, the files of warm machines that were not used."""
        self._place = place
        self._threads = threads
        self._refused = refused
        self._warm = threading.Event()
        self._stop = threading.Event()
        self._error: str | None = None
        self.progress: tuple[str, int, int] = ("", 0, 0)
        """Where the warm-up of the scenario as it is stands."""
        base = place.judge({}, settings(PACKETS, ()))
        self._stock = _wirespeed.Stock(base, files.warm_folder())
        self._thread = threading.Thread(target=self._begin, args=(base,), daemon=True)
        self._thread.start()

    def await_warm(self, go: Go) -> None:
        """Waits for the machine that others begin near. Raises StoppedError, and InputError where it cannot run."""
        while not self._warm.wait(0.1):
            if not go(*self.progress):
                raise StoppedError
        if self._error is not None:
            raise InputError(self._error)

    def run(self, machines: Sequence[Chosen], packets: int, loads: Sequence[float], go: Go) -> list[Result]:
        """Runs machines on the same packets. Raises StoppedError where `go` says so, and InputError."""

        def tell(phase: str, done: int, total: int, _: str) -> None:
            if not go(phase, done, total):
                raise KeyboardInterrupt

        judged = [self._place.judge(chosen, settings(packets, loads)) for chosen in machines]
        try:
            finished = _wirespeed.run(
                judged, threads=self._threads, same_packets=True, progress=tell, stock=self._stock
            )
        except KeyboardInterrupt:
            raise StoppedError from None
        finally:
            self._tell_refused()
        if any(each.partial for each in finished):
            raise StoppedError
        return [api.finished_as_result(each) for each in finished]

    def close(self) -> None:
        """Ends the warm-up, if it is under way."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _begin(self, base: _wirespeed.Scenario) -> None:
        def tell(phase: str, done: int, total: int, _: str) -> None:
            self.progress = (phase, done, total)
            if self._stop.is_set():
                raise KeyboardInterrupt

        try:
            _wirespeed.run([base], threads=1, progress=tell, stock=self._stock)
        except (InputError, RuntimeError, OSError, MemoryError) as e:
            self._error = f"{e}"
        except KeyboardInterrupt:
            self._error = "stopped"
        finally:
            self._tell_refused()
            self._warm.set()

    def _tell_refused(self) -> None:
        if (found := self._stock.refused()) and self._refused is not None:
            self._refused(found)


def settings(packets: int, loads: Sequence[float]) -> list[str]:
    """The settings of a run, and of its curve."""
    curve = ", ".join(f"{each:g}" for each in loads)
    return [f"run.packets={packets}", f"run.curve=[{curve}]", f"run.curve_packets={CURVE_PACKETS}"]
