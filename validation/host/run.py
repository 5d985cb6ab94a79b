"""`make bench-host`: dpdk-testpmd on this machine against the simulator with this machine's calibrated preset.

Two tables are measured and simulated: packets per CPU-second by pool and packet size (null devices, no per-core cache),
and by ring and packet size (memif). The machine is calibrated (`machine.toml` beside this file is written anew), and
what others leave of its LLC measured before the tables and after them.
One number of the simulation is fitted, work per packet besides copies and the pool, on the points that EXPECTED says;
those are judged by nothing. Writes reference.csv and the tables between the markers of README.md. Exit code 1 where a
requirement is not met, 3 where testpmd is missing.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import math
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wirespeed import _wirespeed
from wirespeed.calibrate.calibration import calibrate
from wirespeed.errors import TargetError
from wirespeed.programs import hugepages, testpmd
from wirespeed.programs.testpmd import BUFFERS, BURST, CACHE, DESCRIPTORS, KIND, Sampling, Setup
from wirespeed.tune.choice import forward_loop
from wirespeed.tune.programs import spearman
from wirespeed.tune.real import processor

HERE = Path(__file__).parent
POOLS = [2048 << i for i in range(8)]
RINGS = [64 << i for i in range(8)]
POOL_SIZES = (64, 256, 512, 1024, 1500)
RING_SIZES = (64, 512, 1500)
# Set before the runs that are judged: issue "The real machine".
MOST_CLIFF_FACTOR, LEAST_RANK = 1.5, 0.8
# A column whose best is not this much above its worst has no cliff.
CLIFF = 1.5
MARKS = ("<!-- tables: make bench-host -->", "<!-- end of tables -->")


def points() -> list[dict[str, Any]]:
    """Both tables, those that are fitted on first."""
    pool = [{"table": "pool", "size": size, "x": x} for x in POOLS for size in POOL_SIZES]
    ring = [{"table": "ring", "size": size, "x": x} for x in RINGS for size in RING_SIZES]
    for each in (pool[0], ring[0]):
        each["fitted"] = True
    return pool + ring


def setup(point: dict[str, Any]) -> tuple[Setup, dict[str, object]]:
    if point["table"] == "pool":
        return Setup(point["size"], "null"), {BUFFERS: point["x"], CACHE: 0, KIND: "fifo", BURST: 32}
    settings: dict[str, object] = {DESCRIPTORS: point["x"], BUFFERS: 8192, CACHE: 250, KIND: "fifo", BURST: 32}
    return Setup(point["size"], "memif"), settings


def measure(rows: list[dict[str, Any]], say: Callable[[str], None]) -> None:
    most = max(made.bytes(settings) for made, settings in map(setup, rows))
    with hugepages.at_least(most) as huge:
        for number, row in enumerate(rows):
            made, settings = setup(row)
            found = made.measure(settings, Sampling())
            row["measured"] = found.rate.value / 1e6
            row["half_width"] = (found.rate.half_width or 0.0) / 1e6
            row["loss"] = found.loss
            row["pages"] = "huge" if huge else "4 KiB"
            say(f"{number + 1} of {len(rows)}: {row['table']} {row['x']}, {row['size']} B: {row['measured']:.2f} M")


def simulate(rows: list[dict[str, Any]], machine: Path, say: Callable[[str], None]) -> dict[str, int]:
    scenario = _wirespeed.Scenario("", "bench-host", [f"machine.preset={json.dumps(str(machine))}"])

    def rate(row: dict[str, Any], instructions: int) -> float:
        made, settings = setup(row)
        loop = forward_loop(made.whole(settings), made.devices, made.size, instructions=instructions)
        (timed,) = json.loads(_wirespeed.run_loops(scenario, json.dumps([loop])))
        return 1e3 / timed["ns"]

    fitted = {}
    for table in ("pool", "ring"):
        (on,) = (row for row in rows if row["table"] == table and row.get("fitted"))
        low, high = 0, 2000
        while high - low > 1:
            middle = (low + high) // 2
            if rate(on, middle) > on["measured"]:
                low = middle
            else:
                high = middle
        fitted[table] = low
    for number, row in enumerate(rows):
        row["simulated"] = rate(row, fitted[row["table"]])
        say(f"simulated {number + 1} of {len(rows)}")
    return fitted


def cliff(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Where a column falls through the geometric mean of its best and worst, between points by logarithms; None without
    a cliff."""
    if max(ys) < CLIFF * min(ys):
        return None
    middle = math.sqrt(max(ys) * min(ys))
    for i in range(len(xs) - 1, 0, -1):
        if ys[i] < middle <= ys[i - 1]:
            share = math.log(ys[i - 1] / middle) / math.log(ys[i - 1] / ys[i])
            return xs[i - 1] * (xs[i] / xs[i - 1]) ** share
    return None


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for table, sizes in (("pool", POOL_SIZES), ("ring", RING_SIZES)):
        own = [row for row in rows if row["table"] == table]
        judged = [row for row in own if not row.get("fitted")]
        rank = spearman([(row["simulated"], row["measured"]) for row in judged])
        found.append(
            {
                "what": f"{table}: rank correlation of {len(judged)} points",
                "came": rank,
                "wanted": f">= {LEAST_RANK}",
                "met": rank is not None and rank >= LEAST_RANK,
            }
        )
        for size in sizes:
            column = [row for row in own if row["size"] == size]
            xs = [row["x"] for row in column]
            ours, theirs = (cliff(xs, [row[name] for row in column]) for name in ("simulated", "measured"))
            what = f"{table}, {size} B: cliff simulated at {_at(ours)}, measured at {_at(theirs)}"
            if ours is None or theirs is None:
                found.append(
                    {"what": what, "came": None, "wanted": "both or neither", "met": ours is None and theirs is None}
                )
            else:
                factor = max(ours / theirs, theirs / ours)
                found.append(
                    {
                        "what": what,
                        "came": factor,
                        "wanted": f"factor <= {MOST_CLIFF_FACTOR}",
                        "met": factor <= MOST_CLIFF_FACTOR,
                    }
                )
    return found


def _at(x: float | None) -> str:
    return "none" if x is None else f"{x:,.0f}"


def tables(rows: list[dict[str, Any]], judged: list[dict[str, Any]], about: str) -> str:
    lines = [about, ""]
    for table, sizes, head in (("pool", POOL_SIZES, "mbufs"), ("ring", RING_SIZES, "descriptors")):
        lines += [f"| {head} | " + " | ".join(f"{size} B" for size in sizes) + " |", "|---|" + "---|" * len(sizes)]
        for x in sorted({row["x"] for row in rows if row["table"] == table}):
            cells = []
            for size in sizes:
                (row,) = (row for row in rows if row["table"] == table and row["x"] == x and row["size"] == size)
                cells.append(
                    f"{row['measured']:.2f} / {row['simulated']:.2f}" + (" (fitted)" if row.get("fitted") else "")
                )
            lines.append(f"| {x} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += ["| requirement | wanted | came | met |", "|---|---|---|---|"]
    lines += [
        f"| {each['what']} | {each['wanted']} | {'' if each['came'] is None else format(each['came'], '.2f')} "
        f"| {'yes' if each['met'] else '**no**'} |"
        for each in judged
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", type=Path, help="a preset of this machine, in place of a new calibration")
    parser.add_argument("--out", type=Path, default=HERE, help="where machine.toml, reference.csv and README.md lie")
    given = parser.parse_args()
    say = lambda text: print(f"bench-host: {text}", file=sys.stderr, flush=True)  # noqa: E731
    rows = points()
    machine = given.machine or given.out / "machine.toml"
    try:
        testpmd.require()
        if given.machine is None:
            say("calibrating")
            calibrate(judge=False, meanwhile=lambda: measure(rows, say)).write(machine)
        else:
            measure(rows, say)
    except TargetError as e:
        print(f"bench-host: {e}", file=sys.stderr)
        return 3
    fitted = simulate(rows, machine, say)
    judged = judge(rows)
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    about = (
        f"Measured on {date}: {processor()}, Linux {platform.release()}, one core, {rows[0]['pages']} pages. Millions "
        "of packets per CPU-second, measured / simulated. Fitted, on the points marked: "
        f"{fitted['pool']} instructions a packet and stream between null devices, {fitted['ring']} with memif."
    )
    whole = tables(rows, judged, about)
    with (given.out / "reference.csv").open("w", newline="") as file:
        print(
            f"# dpdk-testpmd (dpdk-dev), {processor()}, Linux {platform.release()}, {date}; make bench-host",
            file=file,
        )
        names = ["table", "x", "size", "measured_mpps", "half_width_mpps", "loss", "simulated_mpps", "fitted_on"]
        out = csv.writer(file, lineterminator="\n")
        out.writerow(names)
        for row in rows:
            out.writerow(
                [
                    row["table"],
                    row["x"],
                    row["size"],
                    f"{row['measured']:.4f}",
                    f"{row['half_width']:.4f}",
                    f"{row['loss']:.2g}",
                    f"{row['simulated']:.4f}",
                    int(row.get("fitted", False)),
                ]
            )
    readme = given.out / "README.md"
    if readme.exists() and MARKS[0] in (text := readme.read_text()):
        before, after = text.partition(MARKS[0])[0], text.partition(MARKS[1])[2]
        readme.write_text(f"{before}{MARKS[0]}\n{whole}\n{MARKS[1]}{after}")
    print(whole)
    return 0 if all(each["met"] for each in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
