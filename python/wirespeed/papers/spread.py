"""The mean of a few independent values, and how well it is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats


def mean(values: Sequence[float]) -> tuple[float, float]:
    """The mean of independent values and the half-width of its 95 % confidence interval (Student's t).

    Infinite for a single value: nothing is known of its spread.

    >>> [round(x, 3) for x in mean([1.0, 2.0, 3.0])]
    [2.0, 2.484]
    >>> mean([1.0])
    (1.0, inf)
    """
    if len(values) < 2:
        return float(values[0]), float("inf")
    return float(np.mean(values)), float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values))
