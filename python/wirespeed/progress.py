"""Progress on stderr: a bar with rate and time left on a terminal, an occasional plain line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from wirespeed import quantities as q
from wirespeed.console import Console

Callback = Callable[[str, int, int, str], None]

# A plain log gets a line when a phase begins and then at most this often.
_LINE_EVERY_S: Final = 10.0


class Bar:
    """A context manager that is also the callback that a run wants: `bar(phase, done, total, note)`."""

    def __init__(self, label: str = "", quiet: bool = False, unit: str = "pkt") -> None:
        """`label` says what is under way when there are several; `unit` is what is counted."""
        self._label = label
        self._unit = unit
        self._console = Console(stderr=True)
        self._shown = self._console.is_terminal and not quiet
        self._lines = not self._console.is_terminal and not quiet
        self._line_phase = ""
        self._line_at = time.monotonic()
        self._began = (self._line_at, 0)
        self._phase: str | None = None
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %"),
            _Rate(unit),
            TimeRemainingColumn(compact=True),
            console=self._console,
            transient=True,
            expand=True,
        )
        self._task = self._progress.add_task("", total=None, visible=False)

    def __enter__(self) -> Self:
        if self._shown:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._progress.stop()

    def __call__(self, phase: str, done: int, total: int, note: str) -> None:
        """Shows that `done` of `total` are done in `phase`."""
        words = " ".join(part for part in (self._label, phase, note) if part)
        if self._shown:
            if phase != self._phase:
                self._phase = phase
                self._progress.reset(self._task, total=total or None, completed=done, visible=True)
            self._progress.update(self._task, description=words, completed=done, total=total or None)
        elif self._lines:
            self._line(words, phase, done, total)

    def _line(self, words: str, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if phase != self._line_phase:
            self._line_phase, self._began = phase, (now, done)
        if now - self._line_at < _LINE_EVERY_S:
            return
        self._line_at = now
        part = f" {done / total:.0%}" if total else ""
        counted = f"{q.short_count(done)} {self._unit}"
        since, before = self._began
        if total > done > before and now > since:
            rate = (done - before) / (now - since)
            counted += f", {q.short_count(rate)} {self._unit}/s, {_left((total - done) / rate)} left"
        print(f"wirespeed: {words}{part} ({counted})", file=sys.stderr, flush=True)


def _left(seconds: float) -> str:
    """A time as a clock shows it.

    >>> _left(65.2), _left(3725)
    ('1:05', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Rate(ProgressColumn):
    """How many are done a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """The rate, or nothing before it is known."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{q.short_count(speed)} {self._unit}/s", style="dim")
