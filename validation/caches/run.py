"""Counts hits and misses of three levels of caches, and compares them with those of two independent programs.

    python validation/caches/run.py

Exits with 1 where a count differs.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wirespeed import memory

REFERENCE = Path(__file__).with_name("reference.csv")
LOADS, LINES = 5_000_000, 1 << 20
LEVELS = "32KiB/8, 1MiB/16, 16MiB/16"

Addresses = npt.NDArray[np.uint64]


def uniform() -> Addresses:
    """Loads of lines that are all as likely."""
    return np.random.Generator(np.random.PCG64(42)).integers(0, LINES, LOADS).astype(np.uint64) * 64


def zipf() -> Addresses:
    """Loads by Zipf's law, s = 0.99, by the inverse of the distribution; ranks are scattered over the lines."""
    weights = np.arange(1, LINES + 1, dtype=np.float64) ** -0.99
    cumulative = np.cumsum(weights) / weights.sum()
    ranks = np.searchsorted(cumulative, np.random.Generator(np.random.PCG64(42)).random(LOADS))
    places = np.random.Generator(np.random.PCG64(7)).permutation(LINES)
    return places[np.minimum(ranks, LINES - 1)].astype(np.uint64) * 64


TRACES: Mapping[str, Callable[[], Addresses]] = {"uniform": uniform, "zipf": zipf}


def compared() -> list[dict[str, Any]]:
    """A row for each line of the reference, with the counts that were found."""
    with REFERENCE.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    found = {
        name: {level["name"]: level for level in memory.simulate_cache(make(), LEVELS)["levels"]}
        for name, make in TRACES.items()
    }
    return [line | {"found": found[line["trace"]][line["level"]]} for line in lines]


def main() -> int:
    """Prints the table; 1 where a count differs."""
    rows = compared()
    equal = [(int(row["hits"]), int(row["misses"])) == (row["found"]["hits"], row["found"]["misses"]) for row in rows]
    print("trace    level  hits, misses of the reference      here")
    for row, same in zip(rows, equal, strict=True):
        hits, misses = row["found"]["hits"], row["found"]["misses"]
        print(
            f"{row['trace']:9}{row['level']:7}{int(row['hits']):>9} {int(row['misses']):>9}{hits:>15} {misses:>9}"
            f"{'' if same else '  differs'}"
        )
    return int(not all(equal))


if __name__ == "__main__":
    sys.exit(main())
