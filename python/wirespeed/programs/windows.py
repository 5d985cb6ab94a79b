"""One number out of many short windows, and how far to trust it.

Neighbours on a shared machine take cache and memory bandwidth, so they make a program slower and never faster: of its
windows the upper quartile is told, which leaves them out unless they are there three quarters of the time. The
half-width is that of the quantile by order statistics at 95 %, without any assumption on the distribution; as long as
there are too few windows for one it is None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

QUANTILE: Final = 0.75
_COVERAGE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A quantile and its half-width."""

    value: float
    half_width: float | None
    windows: int

    @property
    def is_within(self) -> float:
        """The half-width as a share of the value; infinite as long as it is not known."""
        return math.inf if self.half_width is None or self.value <= 0 else self.half_width / self.value


def estimate(rates: Sequence[float], quantile: float = QUANTILE) -> Estimate:
    """The quantile of windows (linear between neighbours), with its half-width.

    >>> estimate([1.0, 1.0, 1.0, 1.0]).value
    1.0
    """
    ordered = sorted(rates)
    n = len(ordered)
    if n == 0:
        raise ValueError("no windows")
    bounds = _bounds(n, quantile)
    wide = None if bounds is None else (ordered[bounds[1]] - ordered[bounds[0]]) / 2
    return Estimate(_quantile(ordered, quantile), wide, n)


def _quantile(ordered: Sequence[float], quantile: float) -> float:
    place = quantile * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _bounds(n: int, quantile: float) -> tuple[int, int] | None:
    """The places between which the quantile lies with 95 %: as narrow as there are; None where n is too small."""
    below = [math.comb(n, k) * quantile**k * (1 - quantile) ** (n - k) for k in range(n + 1)]
    best: tuple[int, int] | None = None
    for low in range(n):
        inside = 0.0
        for high in range(low + 1, n):
            inside += below[high]
            if inside >= _COVERAGE:
                if best is None or high - low < best[1] - best[0]:
                    best = (low, high)
                break
    return best
