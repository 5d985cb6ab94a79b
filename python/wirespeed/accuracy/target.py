"""What was measured: a number in a unit, and how far a prediction is from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wirespeed.accuracy import metrics
from wirespeed.accuracy.metrics import Metric
from wirespeed.accuracy.rows import Row
from wirespeed.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class Target:
    """A measured number; a prediction in the metric's own unit times `scale` is in the row's."""

    measured: float
    scale: float
    in_points: bool

    def predicted(self, own: float) -> float:
        """A prediction in the row's unit."""
        return own * self.scale

    def error(self, own: float) -> float:
        """How far a prediction is off, in percent of what was measured, or in percentage points.

        >>> Target(10.0, 1.0, False).error(11.0), Target(90.0, 100.0, True).error(0.88)
        (10.0, -2.0)
        """
        off = own * self.scale - self.measured
        return off / self.scale * 100 if self.in_points else off / self.measured * 100


def of(row: Row, metric: Metric) -> Target:
    """What was measured for a row. Raises InputError for a kind, number or unit that makes no sense."""
    kind, unit = row["kind"], row["unit"]
    if kind not in metrics.KINDS:
        allowed = ", ".join(metrics.KINDS)
        raise InputError(f"kind {kind!r}: allowed are {allowed}{nearest(kind, metrics.KINDS)}")
    in_points = metrics.KINDS[kind] == "points"
    measured = _number(row["measured"], in_points)
    if in_points and not metric.is_share:
        raise InputError(
            f"kind {kind}: its error is in points of a share, and {row['metric']} is none: allowed are rates of hits "
            "and misses, and loss"
        )
    scale = metrics.factor(metric, unit)
    if in_points and measured > scale:
        raise InputError(
            f"measured {row['measured']}: is more than all: unit % is for percent, none for shares of 0 to 1"
        )
    return Target(measured, scale, in_points)


def _number(text: str, may_be_zero: bool) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found) or found < 0 or (found == 0 and not may_be_zero):
        allowed = "a number, 0 or more" if may_be_zero else "a number above 0"
        raise InputError(f"measured {text!r}: allowed is {allowed}; its unit has a column of its own")
    return found
