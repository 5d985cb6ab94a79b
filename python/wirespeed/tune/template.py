"""Any command as a target: a template for its arguments, and where its numbers come from."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wirespeed.errors import InputError, TargetError
from wirespeed.programs.process import Process
from wirespeed.programs.readings import Reading, Stdout
from wirespeed.programs.windows import QUANTILE, estimate
from wirespeed.tune.real import START, failed, fingerprint, processor
from wirespeed.tune.target import Measurement, Settings

_PLACE: Final = re.compile(r"\{([a-zA-Z][\w.]*)(?:=([^{}]*))?\}")
_POLLS_S: Final = 0.02
_SCRIPTS: Final = (".py", ".sh", ".pl", ".rb", ".lua", ".js", ".tcl")
_LEAST, _MOST = 11, 30
_WITHIN: Final = 0.02


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a start is looked at."""

    run_s: float = 2.0
    warmup_s: float = 0.3
    timeout_s: float = 30.0
    """Until its first number is there; and, of a program that ends by itself, until it ends."""

    def __post_init__(self) -> None:
        for name, value in (("--run-for", self.run_s), ("--timeout", self.timeout_s)):
            if not 0 < value <= 3600:
                raise InputError(f"{name} {value:g}: must be above 0 up to 3600 seconds")
        if not 0 <= self.warmup_s <= 3600:
            raise InputError(f"--warmup {self.warmup_s:g}: must be from 0 to 3600 seconds")


class Template:
    """A command with places: `prog --ring {nic.rx_descriptors=1024}`, each with the value of the program as it is.

    A number that is a running total (`reading.counts`) is told per CPU-second of the polling thread, in millions. Any
    other is told as it is: the last one of a program that ends by itself, or the upper quartile of those that come
    within `run_s` of one that goes on; the lower one where `less` is better, as neighbours only ever make it worse.
    """

    def __init__(
        self,
        command: str,
        reading: Reading,
        loss: Reading | None = None,
        thread: str | None = None,
        timing: Timing | None = None,
        less: bool = False,
    ) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as e:
            raise InputError(f"--command {command!r}: {e}") from None
        if not self._words:
            raise InputError(
                "--command: is empty; give the program and its arguments, with places such as {nic.burst=32}"
            )
        self._places: dict[str, str | None] = {}
        for word in self._words:
            for path, value in _PLACE.findall(word):
                self._places[path] = value or self._places.get(path)
        if not self._places:
            raise InputError(f"--command {command!r}: has no place for a setting; write one such as {{nic.burst=32}}")
        for path, value in self._places.items():
            if value is None:
                raise InputError(
                    f"--command: the place {{{path}}} has no value of the program as it is; write {{{path}=VALUE}}"
                )
        if thread is not None:
            try:
                re.compile(thread)
            except re.error as e:
                raise InputError(f"--thread {thread}: is no regular expression: {e}") from None
        self._command, self._reading, self._loss, self._thread = command, reading, loss, thread
        self._timing = timing or Timing()
        self._quantile = 1 - QUANTILE if less else QUANTILE
        self.title = self._words[0]

    @property
    def identity(self) -> str:
        """The command, its program and scripts, what is read, the processor."""
        read = [vars(each) if hasattr(each, "__dict__") else str(each) for each in (self._reading, self._loss)]
        files = [path for word in self._words if (path := shutil.which(word)) or (path := _script(word))]
        stamps = [(path, _digest(path)) for path in files]
        told = [self._thread, str(self._timing), self._quantile]
        return fingerprint("command", self._command, stamps, read, told, processor())

    def check(self, settings: Settings) -> str | None:
        """A setting that the template has no place for."""
        for path in settings:
            if path not in self._places and path != START:
                return f"{path}: the command has no place for it; there are {', '.join(self._places)}"
        return None

    def evaluate(self, settings: Settings, is_stopped: Callable[[], bool]) -> Measurement:
        """One start."""
        begun = time.monotonic()
        try:
            with Process(self._line(settings)) as process:
                values = self._watch(process, is_stopped)
        except TargetError as e:
            return failed(e, begun)
        return Measurement(values, time.monotonic() - begun)

    def deploy(self, settings: Settings) -> str:
        """The command with the settings in their places."""
        return shlex.join(self._line(settings))

    def defaults(self) -> Settings:
        """The values in the template."""
        return {path: value for path, value in self._places.items() if value is not None}

    @contextlib.contextmanager
    def prepared(self) -> Iterator[list[str]]:
        """Nothing needs to be prepared."""
        what = (
            "running total per CPU-second of the polling thread (schedstat)"
            if self._reading.counts
            else "as it is told"
        )
        yield [f"{self._command}: {what}, {self._timing.run_s:g} s a start after {self._timing.warmup_s:g} s"]

    def _line(self, settings: Settings) -> list[str]:
        whole: Mapping[str, object] = {**self.defaults(), **settings}
        return [_PLACE.sub(lambda place: str(whole[place[1]]), word) for word in self._words]

    def _watch(self, process: Process, is_stopped: Callable[[], bool]) -> dict[str, float]:
        first = self._first(process, is_stopped)
        if self._reading.counts:
            return self._count(process, is_stopped)
        numbers = [] if first is None else [first]
        ends = time.monotonic() + self._timing.run_s
        if isinstance(self._reading, Stdout):
            # Of one that ends by itself the last number is the result.
            while process.ended is None and time.monotonic() < ends:
                _pause(process, _POLLS_S, is_stopped, may_end=True)
            self._sound(process)
            numbers = self._reading.all(process.output)
            if process.ended is not None:
                numbers = numbers[-1:]
        else:
            while time.monotonic() < ends:
                _pause(process, self._timing.run_s / _MOST, is_stopped)
                value = self._reading.read(process)
                numbers += [] if value is None else [value]
        if not numbers:
            raise process.hung("has told no number", self._timing.run_s)
        found = estimate(numbers, self._quantile)
        values = {"value": found.value, "windows": float(found.windows)}
        if found.half_width is not None:
            values["half_width"] = found.half_width
        return values | self._lost(process)

    def _count(self, process: Process, is_stopped: Callable[[], bool]) -> dict[str, float]:
        thread = process.polling_thread(self._thread)
        rates: list[float] = []
        window = self._timing.run_s / _LEAST
        lost_before = self._loss.read(process) if self._loss is not None else None
        first: float | None = None
        while True:
            before, used = self._reading.read(process), process.cpu_ns(thread)
            _pause(process, window, is_stopped)
            after, used = self._reading.read(process), process.cpu_ns(thread) - used
            if before is None or after is None:
                raise process.hung("tells no number any more", window)
            first = before if first is None else first
            if used > 0:
                rates.append((after - before) / (used / 1e9))
            elif len(rates) == 0 and after == before:
                raise process.hung("uses no CPU time and counts nothing", window)
            if len(rates) >= _LEAST:
                found = estimate(rates)
                if found.is_within <= _WITHIN or len(rates) >= _MOST:
                    break
        if after == first:
            raise process.hung("counts nothing", self._timing.run_s)
        values = {"cpu_mpps": found.value / 1e6, "windows": float(found.windows)}
        if found.half_width is not None:
            values["half_width"] = found.half_width / 1e6
        if self._loss is None or lost_before is None:
            return values
        lost = (self._loss.read(process) or 0.0) - lost_before
        return values | {"loss": lost / max(lost + after - first, 1.0)}

    def _lost(self, process: Process) -> dict[str, float]:
        value = self._loss.read(process) if self._loss is not None else None
        return {} if value is None else {"loss": value}

    def _first(self, process: Process, is_stopped: Callable[[], bool]) -> float | None:
        """Waits for the first number, and then until it is warm."""
        ends = time.monotonic() + self._timing.timeout_s
        while (value := self._reading.read(process)) is None:
            if process.ended is not None:
                if (value := self._reading.read(process)) is not None:
                    break
                self._sound(process)
                raise TargetError(
                    f"{process.name}: has ended without a number that --reads finds "
                    f"(last line: {process.last_words()})",
                    refused=True,
                )
            if time.monotonic() >= ends:
                raise process.hung("has told no number", self._timing.timeout_s)
            _pause(process, _POLLS_S, is_stopped, may_end=True)
        if self._reading.counts or not isinstance(self._reading, Stdout):
            _pause(process, self._timing.warmup_s, is_stopped)
        return value

    def _sound(self, process: Process) -> None:
        """Raises TargetError where it has ended, and not well."""
        if process.ended:
            how = f"signal {-process.ended}" if process.ended < 0 else f"exit code {process.ended}"
            raise TargetError(
                f"{process.name}: ended with {how} (last line: {process.last_words()})", refused=process.ended > 0
            )


def _digest(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 (a name of PATH)
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _script(word: str) -> str | None:
    """A file that an interpreter runs; other files that are named may be what the program writes."""
    return word if Path(word).suffix in _SCRIPTS and Path(word).is_file() else None


def _pause(process: Process, seconds: float, is_stopped: Callable[[], bool], may_end: bool = False) -> None:
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        if process.ended is not None:
            if may_end:
                return
            process.check()
        if is_stopped():
            raise KeyboardInterrupt
        time.sleep(min(left, _POLLS_S))
