"""Runs the traces that three other DRAM simulators were run on, and compares bandwidth and latency.

    python validation/dram/run.py

Exits with 1 where a quantity is out of its tolerance of their mean, or a bandwidth out of that of any of them.
"""

from __future__ import annotations

import csv
import random
import statistics
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wirespeed import memory

REFERENCE = Path(__file__).with_name("reference.csv")
PEERS = ("ramulator_2_1", "dramsim3", "dramsys_5_1")
REQUESTS = 1_000_000
LINE, WINDOW = 64, 1 << 30
MAP = "row bank group column"

Addresses = npt.NDArray[np.uint64]


def stream() -> Addresses:
    """Reads, ascending from 0, round a window of 1 GiB."""
    return np.arange(REQUESTS, dtype=np.uint64) * LINE % WINDOW


def uniform() -> Addresses:
    """Reads of lines drawn from the window, all as likely."""
    drawn = random.Random(0)
    return np.array([drawn.randrange(WINDOW // LINE) * LINE for _ in range(REQUESTS)], dtype=np.uint64)


TRACES: Mapping[str, Callable[[], Addresses]] = {"stream": stream, "random": uniform}


def compared() -> list[dict[str, Any]]:
    """A row for each line of the reference: the peers' mean, what was found, and its deviation from it and from the
    peer that is farthest."""
    with REFERENCE.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    addresses = {name: make() for name, make in TRACES.items()}
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    rows = []
    for line in lines:
        key = (line["trace"], line["offered"])
        if key not in found:
            found[key] = memory.simulate_dram(addresses[key[0]], "ddr4-2400u", map=MAP, offered=key[1])
        report = found[key]
        value = report["bandwidth_gb_per_s"] if line["quantity"] == "bandwidth" else report["read_latency_clk"]["mean"]
        agreed = statistics.fmean(float(line[peer]) for peer in PEERS)
        farthest = max(PEERS, key=lambda peer: abs(value / float(line[peer]) - 1))
        largest = value / float(line[farthest]) - 1
        rows.append(
            line
            | {"agreed": agreed, "value": value, "deviation": value / agreed - 1}
            | {"farthest": farthest, "largest": largest}
        )
    return rows


def is_met(row: Mapping[str, Any]) -> bool:
    """Bandwidth is held to each peer, latency to their mean alone: the peers differ by up to 4.8 % in that."""
    held = [row["deviation"], *([row["largest"]] if row["quantity"] == "bandwidth" else [])]
    return all(abs(deviation) <= float(row["tolerance"]) for deviation in held)


def main() -> int:
    """Prints the table; 1 where a tolerance is not met."""
    rows = compared()
    print("trace, offered, quantity                  peers' mean    here  deviation  tolerance  largest from one")
    for row in rows:
        what = f"{row['trace']}, {row['offered']}, {row['quantity']} ({row['unit']})"
        print(
            f"{what:42}{row['agreed']:11.3f}{row['value']:8.3f}{row['deviation']:+11.2%}{float(row['tolerance']):11.0%}"
            f"{row['largest']:+9.2%} {row['farthest']}"
        )
    return int(not all(is_met(row) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
