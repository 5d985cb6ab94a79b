"""How often a point is run: a fixed number of times, or until what is measured is known well enough.

The half-width is Student's, at 95 %, over replications with seeds of their own. A rule that stops when the interval is
small stops a little too often when it is small by chance; at least three replications keep that small (Law, "Simulation
Modeling and Analysis", section 9.4.1, asks for the same caution).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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
        if len(values) < LEAST:
            return False
        mean, wide = interval(values)
        return wide <= (abs(mean) * self.width if self.relative else self.width)


@dataclass(frozen=True, slots=True)
class Replications:
    """At least `least` runs of a point, and more until all conditions hold, or `most` are done."""

    least: int = 1
    most: int = 1
    until: tuple[Until, ...] = ()

    def enough(self, done: Sequence[Mapping[str, float | str]]) -> bool:
        """Whether a point with these runs, in order of replication, needs no more."""
        if len(done) < self.least:
            return False
        return len(done) >= self.most or all(each.holds(_column(each.metric, done)) for each in self.until)


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
