"""Real programs as targets of the search: `dpdk-testpmd`, Open vSwitch with DPDK, or any command.

A target is measured in fresh starts. One that refuses to start with some settings is recorded as such; one that dies or
hangs is killed with its children and recorded, too, and the command ends with an exit code other than 0.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol

from wirespeed.errors import InputError, TargetError
from wirespeed.programs import hugepages, testpmd
from wirespeed.programs.testpmd import Sampling, Setup
from wirespeed.tune.target import Measurement, Settings

TARGETS: Final = ("testpmd", "ovs-dpdk", "vpp", "command")

# Which of several starts of the same settings.
START: Final = "start"


class Program(Protocol):
    """A target that is a program of this machine."""

    title: str
    """What is tuned, for people."""

    @property
    def identity(self) -> str:
        """Changes whenever a measurement kept from an earlier search would no longer hold."""

    def check(self, settings: Settings) -> str | None:
        """Why it cannot start with these settings, found without running; None where it can."""

    def evaluate(self, settings: Settings, is_stopped: Callable[[], bool]) -> Measurement:
        """Starts it with these settings and measures it."""

    def deploy(self, settings: Settings) -> str:
        """The command line that runs it with these settings."""

    def defaults(self) -> Settings:
        """What it has where a setting is not given, as far as that is known."""

    def prepared(self) -> contextlib.AbstractContextManager[list[str]]:
        """Stands around a search; gives notes on how it is measured. Raises TargetError where it is not installed."""


class Forwarder:
    """`dpdk-testpmd`."""

    def __init__(self, setup: Setup, sampling: Sampling, most_buffers: int) -> None:
        self._setup, self._sampling, self._most_buffers = setup, sampling, most_buffers
        self._huge: bool | None = None
        self.title = f"dpdk-testpmd, {setup.size} B over {setup.devices} devices, from {_DEFAULTS[setup.defaults]}"

    @property
    def identity(self) -> str:
        """The set-up, the program, the processor, and how it is sampled."""
        path = shutil.which(testpmd.PROGRAM)
        stamp = Path(path).stat().st_mtime_ns if path else 0
        return fingerprint("testpmd", asdict(self._setup), stamp, processor(), asdict(self._sampling))

    def check(self, settings: Settings) -> str | None:
        """What testpmd would refuse."""
        return self._setup.check(_without_start(settings))

    def evaluate(self, settings: Settings, is_stopped: Callable[[], bool]) -> Measurement:
        """One start."""
        begun = time.monotonic()
        try:
            found = self._setup.measure(_without_start(settings), self._sampling, is_stopped, self._huge)
        except TargetError as e:
            return failed(e, begun)
        values = {"cpu_mpps": found.rate.value / 1e6, "loss": found.loss, "windows": float(found.rate.windows)}
        if found.rate.half_width is not None:
            values["half_width"] = found.rate.half_width / 1e6
        return Measurement(values, time.monotonic() - begun)

    def deploy(self, settings: Settings) -> str:
        """Lines to paste into a shell of root; they run what was measured."""
        return self._setup.script(_without_start(settings), self._huge is not False)

    def defaults(self) -> Settings:
        """Those of testpmd, or 5GC2ache's with what it does not say assumed."""
        return self._setup.whole({})

    @contextlib.contextmanager
    def prepared(self) -> Iterator[list[str]]:
        """With hugepages for the largest pool, where they can be had."""
        testpmd.require()
        most = max(self._setup.bytes({}), self._setup.bytes({testpmd.BUFFERS: self._most_buffers}))
        with hugepages.at_least(most) as huge:
            self._huge = huge
            pages = "hugepages" if huge else "--no-huge: no hugepages are free and /sys does not let us have more"
            yield [
                f"packets per CPU-second of the polling thread (schedstat) on core {self._setup.core}, upper "
                f"quartile of windows of {self._sampling.window_s * 1e3:.0f} ms until its half-width is below "
                f"{self._sampling.within:.0%}, at most {self._sampling.most}; {pages}"
            ]


_DEFAULTS: Final[Mapping[str, str]] = {
    "paper": "5GC2ache's rings and pool without a per-core cache, which is assumed",
    "testpmd": "its own defaults",
}


DIED: Final = "died"


def failed(error: TargetError, begun: float) -> Measurement:
    """The measurement of a point that did not work; marked where it was not by refusing to start."""
    values = {} if error.refused else {DIED: 1.0}
    return Measurement(values, time.monotonic() - begun, str(error))


def processor() -> str:
    """The processor's name and the number of cores."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        return f"{names[0] if names else 'unknown'} x{len(names)}"
    return "unknown"


def fingerprint(*parts: Any) -> str:
    """A short hash of what makes a target."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _without_start(settings: Settings) -> dict[str, object]:
    return {path: value for path, value in settings.items() if path != START}


def require_vpp() -> None:
    """Raises TargetError where VPP is not installed."""
    if shutil.which("vpp") is None or shutil.which("vppctl") is None:
        raise TargetError(
            "vpp: is not installed (neither Debian nor Ubuntu has it; packages are at fd.io); any program can be tuned "
            "by --target command"
        )


def version_of(command: list[str]) -> str:
    """The first line of what a program says of its version."""
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise InputError(f"{command[0]}: {e}") from None
    return (found.stdout or found.stderr).partition("\n")[0]
