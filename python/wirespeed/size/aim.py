"""What is asked for: a rate, and the loss and the 99th percentile that it is to be carried with."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wirespeed import scenarios, units
from wirespeed.errors import InputError
from wirespeed.progress import Callback

PathLike = str | os.PathLike[str]

LOSS: Final = 1e-5
# None lost of n bounds the loss by 3/n at 95 % (the rule of three: 0.95 = 1 - (1 - 3/n)^n).
RULE_OF_THREE: Final = 3.0
# Of fewer packets nobody bounds a 99th percentile.
_LEAST_PACKETS: Final = 30_000
_OF_THE_SEARCH: Final = ("run.packets", "run.search", "run.sampling")


_LEAST_LOSS: Final = 1e-9
"""A loss that takes three billion packets to be shown."""
_LEAST_RUN: Final = 1_000


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for, as the command line or a caller has it; see `wirespeed.size`."""

    scenario: PathLike
    target: str
    loss: float = LOSS
    p99: str | None = None
    vary: Iterable[str] | Mapping[str, object] = ()
    fix: Iterable[str] = ()
    least: bool = False
    packets: int | None = None
    capture: PathLike | None = None
    table: PathLike | None = None
    set: scenarios.Overrides = None
    seed: int | None = None
    threads: int | None = None
    progress: Callback | None = field(default=None, compare=False)
    refused: list[str] = field(default_factory=list, compare=False)
    """Filled with the files of warm machines that were not used, each with the reason."""


@dataclass(frozen=True, slots=True)
class Aim:
    """A wish that is sound: the rate as it was said, the loss, the 99th percentile in ns."""

    rate: units.Quantity
    text: str
    loss: float
    p99_ns: float | None
    needed: int
    """Packets that show the loss where none is lost."""
    packets: int
    """Packets that a machine is confirmed with."""

    @property
    def shown(self) -> float:
        """The loss that so many packets show at 95 % where none is lost, if that is more than what is asked for."""
        return max(self.loss, RULE_OF_THREE / self.packets)

    @property
    def offered(self) -> str:
        """The setting that offers the rate."""
        if self.rate.kind == "packets":
            return f'traffic.packet_rate="{self.rate.value / 1e6:.9g} Mpps"'
        return f'traffic.rate="{self.rate.value / 1e9:.9g} Gbps"'

    @property
    def offered_words(self) -> str:
        """The same as one types it."""
        return self.offered.replace('"', "")

    def mpps(self, line_mpps: float, line_gbps: float) -> float:
        """The rate in packets, of traffic of which the port carries so much."""
        return self.rate.value / 1e6 if self.rate.kind == "packets" else self.rate.value / 1e9 / line_gbps * line_mpps


def aim(wish: Wish, faults: list[str]) -> Aim | None:
    """What is asked for; None where it cannot be read. What is wrong is added to `faults`."""
    rate = p99 = None
    try:
        rate = units.rate("--target", wish.target)
    except InputError as e:
        faults.append(str(e))
    if wish.p99 is not None:
        found = units.parse(wish.p99)
        if found is None or found.kind != "time" or found.value <= 0:
            faults.append(f"--p99 {wish.p99!r}: must be a time above 0, for example '20 us' or '1 ms'")
        else:
            p99 = found.value * 1e9
    if not _LEAST_LOSS <= wish.loss < 1:
        no = "no run shows so little; " if 0 <= wish.loss < _LEAST_LOSS else ""
        faults.append(
            f"--loss {wish.loss:g}: {no}must be a share from {_LEAST_LOSS:g} on and below 1, for example 1e-6"
        )
    if wish.packets is not None and wish.packets < _LEAST_RUN:
        faults.append(f"--packets {wish.packets}: must be at least {_LEAST_RUN:,}")
    for path in (each.partition("=")[0].strip() for each in scenarios.overrides(wish.set)):
        if (what := scenarios.both_say(path, "traffic.load" if path != "traffic.load" else "traffic.rate")) is not None:
            faults.append(f"--set {path}: --target says {what.removesuffix(' is offered')} is offered; leave it out")
        if path in _OF_THE_SEARCH:
            faults.append(f"--set {path}: how runs are made is the search's; --packets N bounds their length")
    if rate is None or not _LEAST_LOSS <= wish.loss < 1:
        return None
    needed = max(math.ceil(RULE_OF_THREE / wish.loss), _LEAST_PACKETS)
    packets = needed if wish.packets is None else min(needed, wish.packets)
    return Aim(rate, wish.target, wish.loss, p99, needed, packets)


def line_gbps(of: Mapping[str, Any]) -> float:
    """The line rate of a port."""
    rate = of["nic"]["rate"]
    return float(rate) if isinstance(rate, int | float) else units.rate("nic.rate", str(rate)).value / 1e9


def beyond(wish: Wish, line_mpps: float, gbps: float) -> str:
    """What is said of a target that is more than the port brings."""
    return (
        f"--target {wish.target}: is more than the port's line rate, {line_mpps:.4g} Mpps or {gbps:g} Gbps of this "
        "traffic; give less, or raise nic.rate"
    )
