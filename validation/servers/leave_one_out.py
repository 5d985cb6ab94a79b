"""Leaves one source out of all that is fitted, and predicts its rates and cycles by what the others say.

    python validation/servers/leave_one_out.py           # some minutes

What was fitted on the source that is left out is fitted on another one in its place. Where no other says anything of
it, it is what it is without a fit: nothing, or another architecture's. `without` says which. All rows of the source
count then.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import wirespeed
from wirespeed.accuracy import rows as reading

Row = dict[str, Any]

CPI, STALL = 0.33, 28.0
"""Of Skylake-SP, as they are shipped."""
OLDER: Final = (CPI, 62.0)
"""Of the core next to Ivy Bridge's, Haswell's, by CSIT's l2patch."""
# One core's cycles on Skylake's core, by a source that is not PacketMill.
OTHERS: Final = ("CX-4 rdma, 1 worker", "CX-4 mlx5, 1 worker", "CX-5 rdma, 1 worker", "CX-5 mlx5, 1 worker")
# A doorbell a packet, by a source that is not ixy.
RUNG: Final = "NAT, 1 core"
# What Intel says of one clock: Sunny Cove over Skylake 1.18, Golden Cove over Cypress Cove 1.19.
GAIN: Final = 1.18 * 1.19


@dataclass(frozen=True)
class Without:
    """What the rows of a source are set to when it is left out: by a text that a row's machine has."""

    settings: Mapping[str, Sequence[str]]
    words: str


def refitted() -> Without:
    """Skylake's two numbers by VPP's cycles a packet alone: least squares of relative errors."""
    rows = [row for row in _rows("VPP IPv4") if row["case"] in OTHERS and row["metric"] == "cycles_per_packet"]
    at = np.array([[CPI, STALL], [0.25, STALL], [CPI, 10.0]])
    cycles = np.array([[found["predicted"] for found in _predicted(rows, _core(*point))] for point in at])
    measured = np.array([float(row["measured"]) for row in rows])
    by_cpi = (cycles[0] - cycles[1]) / (CPI - 0.25)
    by_stall = (cycles[0] - cycles[2]) / (STALL - 10.0)
    slope = np.column_stack([by_cpi, by_stall]) / measured[:, None]
    (more_cpi, more_stall), *_ = np.linalg.lstsq(slope, (measured - cycles[0]) / measured, rcond=None)
    cpi, stall = CPI + more_cpi, STALL + more_stall
    if stall < 0:
        cpi, stall = CPI + float(slope[:, 0] @ ((measured - cycles[2]) / measured) / (slope[:, 0] @ slope[:, 0])), 0.0
    words = f"cpi {cpi:.3f} and packet_stall {stall:.0f} cycles by VPP; no queue_interval"
    return Without({"": [*_core(cpi, stall), "nic.queue_interval=0 ns"]}, words)


def rung() -> Without:
    """ixy's core as the one next to it, and its doorbells by the one program of another source that rings one a packet.

    How long a doorbell is under way is a line through two runs. That says nothing of what ringing itself takes, nor of
    pipelines.
    """
    (row,) = (row for row in _rows("PacketMill") if row["case"] == RUNG)
    at = np.array([100.0, 200.0])
    # What ringing itself takes is fitted on ixy, too.
    rung = "nic.doorbell=0 ns"
    rates = [_predicted([row], [rung, f"nic.doorbell_interval={ns:.0f} ns"])[0]["predicted"] for ns in at]
    times = 1.0 / np.array(rates)
    slope = float(times[1] - times[0]) / float(at[1] - at[0])
    interval = max(float(at[0]) + (1.0 / float(row["measured"]) - float(times[0])) / slope, 0.0)
    settings = [*_core(*OLDER), f"nic.doorbell_interval={interval:.1f} ns"]
    settings += [f"nic.{each}=0 ns" for each in ("doorbell", "rx_pipeline", "tx_pipeline")]
    words = f"a core as Haswell's; doorbell_interval {interval:.0f} ns by PacketMill's NAT; no doorbell, no pipelines"
    return Without({"": settings}, words)


def _core(cpi: float, stall: float) -> list[str]:
    return [f"machine.core.cpi={cpi:.4f}", f"machine.core.packet_stall={stall:.1f} cycles"]


def without() -> dict[str, Without]:
    """What each source's rows are set to when it is left out."""
    rapids = _core(CPI / GAIN, STALL / GAIN)
    return {
        "PacketMill": refitted(),
        "VPP IPv4": Without(
            {"": ["nic.packet_interval=0 ns"], "xeon-platinum-8562y": rapids},
            "Emerald Rapids by Intel's gains of its cores at one clock; no packet_interval",
        ),
        "ixy": rung(),
        "CSIT VPP": Without({"": _core(CPI, STALL)}, "a core as Skylake's"),
    }


def _rows(source: str) -> list[Row]:
    found = [row for row in reading.shipped() if row["source"].startswith(source)]
    return [{name: row[name] for name in reading.COLUMNS} | {"fitted": ""} for row in found]


def _predicted(rows: Sequence[Row], more: Sequence[str]) -> list[dict[str, Any]]:
    asked = [row | {"set": "; ".join([row["set"], *more])} for row in rows]
    return wirespeed.accuracy(asked)["rows"]


def left_out(rows: Sequence[Row], left: Without) -> list[float]:
    """Errors of a source's rows where it is left out."""
    asked = []
    for row in rows:
        more = [text for part, settings in left.settings.items() if part in row["machine"] for text in settings]
        asked.append(row | {"set": "; ".join([row["set"], *more])})
    return _errors(_predicted(asked, []))


def _errors(rows: Sequence[dict[str, Any]]) -> list[float]:
    wrong = [f"{row['case']}: {row['error_text']}" for row in rows if row["error"] is None]
    if wrong:
        raise SystemExit("\n".join(wrong))
    return [abs(row["error"]) for row in rows]


def main() -> int:
    """Prints a line a source, and the median over sources."""
    medians = []
    print(f"{'left out':18}{'rows':>5}{'median':>9}{'in 18 %':>9}{'as shipped':>12}  by what")
    for source, left in without().items():
        rows = [row for row in _rows(source) if row["kind"] in ("rate", "cycles")]
        shipped, errors = _errors(_predicted(rows, [])), left_out(rows, left)
        medians.append(statistics.median(errors))
        near = sum(error <= 18 for error in errors)
        print(f"{source:18}{len(errors):5}{medians[-1]:8.1f}%{near:9}{statistics.median(shipped):11.1f}%  {left.words}")
    print(f"median over sources: {statistics.median(medians):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
