"""Measures the memory of a Skylake server under load and compares it with what Mess and MLC measured on such servers.

    python validation/memory/run.py [FOLDER]

FOLDER has `mess_skylake_6146.csv` and `csit_mlc.csv`; left out, ../shared/data/validation/servers is read. Exits with 1
where a deviation is beyond its tolerance.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from wirespeed import memory
from wirespeed.curve import Curve, Deviation, latency_at

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT.parent / "shared" / "data" / "validation" / "servers"
MACHINE = Path(__file__).with_name("machine.toml")
STREAMS: Final = 11
"""Twelve cores, of which one chases pointers."""
CLOCK: Final = "3.2 GHz"
"""Of the Xeon Gold 6146 that Mess measured, whose latencies are cycles: its base frequency."""
PAGE: Final = {"machine.dram.controller.page": "adaptive=128"}
"""Assumed: rows are closed when nothing has asked for them for a while."""
TOLERANCES: Final = {"idle latency": 5.0}
TOLERANCE: Final = 10.0
"""In percent, set before the runs."""

# One thing changed at a time, to see what it does.
VARIANTS: Final[Mapping[str, Mapping[str, object]]] = {
    "as it is": {},
    "rows stay open": {"machine.dram.controller.page": "open"},
    "one rank": {"machine.dram.standard": "ddr4-2666v", "machine.dram.channels": 6},
    "write queue of 64, drained from 48 to 16": {"machine.dram.controller.writes": "drain=64/48/16"},
    "writes in the queue of reads": {"machine.dram.controller.writes": "mixed"},
    "no prefetches wait": {"machine.core.waiting_prefetches": 1},
    "10 lines under way in L2 beside L1's": {"machine.core.outstanding_prefetches": 10},
    "2 lines under way in L2 beside L1's": {"machine.core.outstanding_prefetches": 2},
    "victims of the LLC in order": {"machine.llc.hash": "xor_fold"},
}


def simulated(
    measured: Path | None = None, system: str | None = None, clock: str | None = None, **more: object
) -> Curve:
    """The curve of the machine, with settings that differ; `clock` is that of a measurement in cycles."""
    beside = {"measured": measured, "system": system, "measured_clock": clock}
    return memory.curve(MACHINE, cores=STREAMS, dram="commands", set={**PAGE, **more}, **beside)


def rows(found: Curve) -> Iterator[tuple[Deviation, float, bool]]:
    """Each deviation, its tolerance, and whether it is within; a load that is not reached is beyond."""
    for row in found["deviations"]:
        tolerance, by = TOLERANCES.get(row["quantity"], TOLERANCE), row["deviation_pct"]
        yield row, tolerance, by is not None and abs(by) <= tolerance


def printed(found: Curve) -> bool:
    """Prints a comparison; whether all of it is within its tolerance."""
    if found["measured"] is None:
        return False
    print(f"{found['measured']['system']} ({found['measured']['note']})")
    fine = True
    for row, tolerance, within in rows(found):
        numbers = f"{row['measured']:8.1f} {_aligned(row['simulated'], '8.1f')} {row['unit']:5}"
        judged = "" if within else "  beyond"
        reads = f"{row['read_percent']:4g} %"
        by = _aligned(row["deviation_pct"], "+6.1f")
        print(f"{row['quantity']:33} {reads} {numbers} {by} % of {tolerance:g} %{judged}")
        fine &= within
    for note in found["deviation_notes"]:
        print(note)
    return fine


def _aligned(number: float | None, form: str) -> str:
    """A number, or a dash of its width."""
    return "–".rjust(len(format(0.0, form))) if number is None else format(number, form)


def shape(found: Curve) -> None:
    """Prints latency at more loads than are judged."""
    if found["measured"] is None:
        return
    print("share of the most bandwidth measured: latency measured, simulated, ns")
    for measured, here in zip(found["measured"]["curves"], found["curves"], strict=False):
        for share in (0.6, 0.7, 0.8, 0.9, 0.95):
            at = measured["most_gb_per_s"] * share
            pair = [latency_at(each["points"], at) for each in (measured, here)]
            words = " ".join("     –" if ns is None else f"{ns:6.1f}" for ns in pair)
            print(f"{measured['read_percent']:4g} % reads, {share:4.0%}: {words}")


def main() -> int:
    """Prints both comparisons, and what the assumptions do; 1 where a deviation of Mess is beyond its tolerance."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    mess = simulated(folder / "mess_skylake_6146.csv", clock=CLOCK)
    fine = printed(mess)
    shape(mess)
    printed(simulated(folder / "csit_mlc.csv", "skx"))
    for words, settings in VARIANTS.items():
        found = simulated(folder / "mess_skylake_6146.csv", clock=CLOCK, **settings)
        deviations = " ".join(_aligned(row["deviation_pct"], "+6.1f") for row in found["deviations"])
        most = " ".join(f"{each['points'][-1]['latency_ns']:6.1f}" for each in found["curves"])
        print(f"{words:42} {deviations}; ns at the most {most}")
    return int(not fine)


if __name__ == "__main__":
    sys.exit(main())
