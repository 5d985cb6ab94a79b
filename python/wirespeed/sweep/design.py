"""Where the points of a study lie: on a grid, or spread over the whole space by a Latin hypercube or a Sobol sequence.

Both are SciPy's (`scipy.stats.qmc`): a Latin hypercube with the discrepancy of random ones (McKay, Beckman and Conover,
Technometrics 1979), and a Sobol sequence with Owen's scrambling, which is balanced for 2^n points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

from wirespeed.errors import InputError, nearest
from wirespeed.sweep.axes import Axis, Level

DESIGNS: Final = ("grid", "latin", "sobol")
MOST_POINTS: Final = 100_000

Point = tuple[Level, ...]
"""A level of each axis."""


def points(axes: Sequence[Axis], design: str, samples: int | None, seed: int) -> list[Point]:
    """The points, in order; the last axis turns fastest on a grid.

    Raises InputError for an unknown design, for samples on a grid or none elsewhere, and for too many points.
    """
    if design not in DESIGNS:
        raise InputError(f"--design {design}: must be one of {', '.join(DESIGNS)}{nearest(design, DESIGNS)}")
    if design == "grid":
        if samples is not None:
            raise InputError("--samples: a grid has as many points as its values make; use --design latin or sobol")
        _count("the grid", math.prod(len(axis.levels) for axis in axes))
        return list(itertools.product(*(axis.levels for axis in axes)))
    if samples is None:
        raise InputError(f"--design {design} needs --samples N, the number of points")
    if samples < 1:
        raise InputError(f"--samples {samples}: must be at least 1")
    _count("--samples", samples)
    return [
        tuple(axis.at(share) for axis, share in zip(axes, shares, strict=True))
        for shares in _shares(len(axes), design, samples, seed)
    ]


def _shares(dimensions: int, design: str, samples: int, seed: int) -> list[list[float]]:
    from scipy.stats import qmc  # half a second to import: only who samples pays for it

    if design == "latin":
        drawn = qmc.LatinHypercube(dimensions, rng=seed).random(samples)
    else:
        # Drawn in a power of two, as the sequence is balanced only then, and cut.
        drawn = qmc.Sobol(dimensions, rng=seed).random_base2(math.ceil(math.log2(samples)))[:samples]
    return [[float(share) for share in row] for row in drawn]


def _count(what: str, points: int) -> None:
    if points > MOST_POINTS:
        raise InputError(f"{what}: {points:,} points; at most {MOST_POINTS:,} are allowed: give fewer values")
