"""How often a point is run: a fixed number of times, or until what is measured is known well enough.

The half-width is Student's, at 95 %, over replications with seeds of their own. A rule that stops when the interval is
small stops a little too often when it is small by chance; at least three replications keep that small (Law, "Simulation
Modeling and Analysis", section 9.4.1, asks for the same caution).

A capture is replayed from its first packet on, whatever the seed: replications see the same packets, and what they
differ by (where mbufs lie) says nothing about others. There the half-width is that of one run, by means of consecutive
batches of its packets, and no more runs are made.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wirespeed.errors import InputError
from wirespeed.sweep.metrics import METRICS, Metric, metric

LEAST: Final = 3
MOST: Final = 30
# By the unit that a metric is shown in; without one it is in that of the column.
_UNITS: Final[Mapping[str, dict[str, float]]] = {
    "µs": {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6},
    "Mpps": {"mpps": 1.0},
    "Gbps": {"gbps": 1.0},
    "GB/s": {"gb/s": 1.0},
}
_WORDS: Final = re.compile(r"\s*([\w.]+)\s+([\d.eE+-]+)\s*(%|[A-Za-zµ/]*)\s*")


@dataclass(frozen=True, slots=True)
class Until:
    """A wanted half-width of the mean over replications: a share of it, or a number in the unit of the column."""

    metric: Metric
    width: float
    relative: bool
    text: str

    def holds(self, values: Sequence[float]) -> bool:
        """Whether replications with these values are enough. A value that never varies is known."""
        return len(values) >= LEAST and self.is_met(*interval(values))

    def is_met(self, mean: float, wide: float) -> bool:
        """Whether a mean with that half-width is known as well as is wanted."""
        return wide <= (abs(mean) * self.width if self.relative else self.width)


@dataclass(frozen=True, slots=True)
class Replications:
    """At least `least` runs of a point, and more until all conditions hold, or `most` are done."""

    least: int = 1
    most: int = 1
    until: tuple[Until, ...] = ()

    def enough(self, done: Sequence[Mapping[str, float | str]], replays: bool = False) -> bool:
        """Whether a point with these runs, in order of replication, needs no more. `replays`: it has a capture."""
        if len(done) < self.least:
            return False
        if len(done) >= self.most or (replays and see_the_same(done)):
            return True
        values = [(each, _column(each.metric, done)) for each in self.until]
        # What none of the runs reports no further one is waited for to report.
        return all(each.holds(column) or not column for each, column in values)


def replications(number: int | None, until: Sequence[str], most: int | None) -> Replications:
    """From the command line. Raises InputError for what cannot be met."""
    if number is not None and number < 1:
        raise InputError(f"--replications {number}: must be at least 1")
    if not until:
        if most is not None:
            raise InputError("--most-replications: needs --until, which says when fewer are enough")
        return Replications(number or 1, number or 1)
    least = max(number or LEAST, LEAST)
    most = MOST if most is None else most
    if most < least:
        raise InputError(f"--most-replications {most}: must be at least {least}")
    return Replications(least, most, tuple(parse(text) for text in until))


def parse(text: str) -> Until:
    """`carried_mpps 1%` or `p99 200 ns`.

    >>> parse("carried_mpps 1%").width, parse("p99 0.2 us").width
    (0.01, 200.0)
    """
    found = _WORDS.fullmatch(text)
    if found is None:
        raise InputError(
            f"--until {text!r}: must be METRIC WIDTH, for example 'carried_mpps 1%' or 'p99 200 ns'; "
            f"metrics are {', '.join(METRICS)}"
        )
    name, number, unit = found.groups()
    try:
        width = float(number)
    except ValueError:
        width = math.nan
    wanted = metric(name)
    if not (math.isfinite(width) and width > 0):
        raise InputError(f"--until {text!r}: the half-width must be a number above 0")
    if unit == "%":
        # Of a share, `loss 0.1%` would mean two things: it means a share of the loss, as everywhere.
        return Until(wanted, width / 100, True, text)
    units = _UNITS.get(wanted.unit, {}) | {"": 1.0}
    if unit.lower() not in units:
        raise InputError(f"--until {text!r}: the unit is %{''.join(f', {each}' for each in units if each)} or none")
    return Until(wanted, width * units[unit.lower()], False, text)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and 95 % half-width (Student) of independent values; the half-width of one value is infinite.

    >>> interval([1.0, 2.0, 3.0])  # doctest: +ELLIPSIS
    (2.0, 2.48413...)
    """
    from scipy.special import stdtrit

    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return mean, math.inf
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return mean, float(stdtrit(n - 1, 0.975)) * math.sqrt(variance / n)


def see_the_same(runs: Sequence[Mapping[str, object]]) -> bool:
    """Whether several runs of a capture in rounds saw the same packets at the same times.

    What was offered is equal to the bit then; arrivals that are drawn differ by seed.

    >>> see_the_same([{"offered_mpps": 9.13}, {"offered_mpps": 9.13}]), see_the_same([{"offered_mpps": 9.13}])
    (True, False)
    """
    offered = [run.get("offered_mpps") for run in runs]
    return len(offered) > 1 and None not in offered and len(set(offered)) == 1


def within(of: Metric, run: Mapping[str, Any]) -> float | None:
    """The half-width of a metric by the batches of one run; None where none is reported."""
    if of.name in ("carried_gbps", "carried_mpps"):
        wide, mean = _of_batches(run, "carried_mpps"), run.get("carried_mpps")
        return wide * run[of.column] / mean if wide is not None and mean else wide
    if of.name == "dram_energy":
        return _of_batches(run, "dram_energy")
    wide = run.get({"loss": "loss_half_width", "mean": "sojourn_ns.half_width"}.get(of.name, f"{of.column}_half_width"))
    return float(wide) if isinstance(wide, int | float) else None


def _of_batches(run: Mapping[str, Any], name: str) -> float | None:
    from scipy.special import stdtrit

    count, variance = run.get(f"batches.{name}.count"), run.get(f"batches.{name}.variance")
    if count is None or variance is None:
        return None
    return float(stdtrit(count - 1, 0.975)) * math.sqrt(variance / count)


def seed(first: int, replication: int) -> int:
    """The seed of a replication: the scenario's own for the first, then drawn from it. All points have the same.

    >>> seed(7, 0), seed(7, 1) == seed(7, 1), seed(7, 1) == seed(8, 1)
    (7, True, False)
    """
    if replication == 0:
        return first
    drawn = hashlib.blake2b(f"{first}/{replication}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") >> 16  # TOML's integers have a sign


def _column(of: Metric, done: Sequence[Mapping[str, float | str]]) -> list[float]:
    values = [run.get(of.column) for run in done]
    return [value for value in values if isinstance(value, int | float)]
