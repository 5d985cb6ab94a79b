"""Runs PacketMill's sweep of made work and compares cycles and LLC loads a packet with what was measured.

    python validation/packetmill/run.py [FOLDER]

FOLDER has the unpacked csv files of `packetmill_wp_detailed`; left out, the archive of ../shared/data is read.
"""

from __future__ import annotations

import statistics
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import wirespeed

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = ROOT.parent / "shared" / "data" / "validation" / "packetmill_asplos21_csv.tar.xz"
SCENARIO = Path(__file__).with_name("scenario.toml")
SWEEP = "packetmill_wp_detailed/csv/Vanilla"
HZ = 2.3e9
WINDOWS_PER_S = 10
"""The reference's counters are of windows of 100 ms."""

Point = tuple[int, int, int]
"""Accesses N, footprint S in MB, rounds W."""

FITTED: tuple[Point, ...] = ((1, 0, 0), (1, 0, 20), (5, 1, 0))
JUDGED: tuple[Point, ...] = tuple((n, s, w) for n in (1, 3, 5) for s in (1, 2, 4, 8, 12, 16, 20) for w in (4, 12, 20))


def measured(folder: Path | None) -> tuple[dict[Point, float], dict[Point, float]]:
    """Cycles and LLC loads a packet, by point: the median of five runs."""

    def table(name: str) -> dict[Point, float]:
        rows = (line.split() for line in _lines(folder, f"{name}.csv"))
        return {(int(r[0]), int(r[1]), int(r[2])): statistics.median(map(float, r[3:])) for r in rows}

    rate, loads = table("PPS"), table("LLC-loads-avg-C0")
    return {p: HZ / rate[p] for p in rate}, {p: loads[p] * WINDOWS_PER_S / rate[p] for p in rate}


def _lines(folder: Path | None, name: str) -> Iterator[str]:
    if folder is not None:
        yield from (folder / f"Vanilla{name}").read_text().splitlines()
        return
    with tarfile.open(ARCHIVE) as archive:
        member = next(m for m in archive if m.name.endswith(SWEEP + name))
        file = archive.extractfile(member)
        if file is None:
            raise SystemExit(f"{ARCHIVE}: {member.name} is no file")
        yield from file.read().decode().splitlines()


def simulated(point: Point) -> tuple[float, float]:
    """Cycles and LLC loads a packet of the model."""
    n, s, w = point
    # Until all but one line in fifty of the array has been touched: the reference ran for 17 s.
    lines = s * 2**20 // 64
    work = {
        "function.work.accesses": n,
        "function.work.footprint": f"{s} MiB" if s else "64 B",
        "function.work.rounds": w,
        "run.warmup": max(20_000, 4 * lines // n),
    }
    summary = wirespeed.run(SCENARIO, set=work).summary
    llc = next(level for level in summary["levels"] if level["name"] == "LLC")
    served = summary["packets"] - summary["lost"]
    return HZ / (summary["carried_mpps"] * 1e6), (llc["hits"] + llc["misses"]) / served


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if folder is None and not ARCHIVE.exists():
        print(f"{ARCHIVE} is not there; give the folder of the csv files")
        return 77
    cycles, loads = measured(folder)
    off: list[float] = []
    added: list[float] = []
    print("what     N  S  W   cycles a packet            LLC loads a packet, over S = 0")
    print("                  measured  model              measured  model")
    base = {n: simulated((n, 0, 0))[1] for n in (1, 3, 5)}
    for point in (*FITTED, *JUDGED):
        ours, ours_loads = simulated(point)
        deviation = ours / cycles[point] - 1
        n, s, w = point
        more, ours_more = loads[point] - loads[n, 0, 0], ours_loads - base[n]
        print(
            f"{'fitted' if point in FITTED else 'judged'}  {n:2} {s:2} {w:2}  {cycles[point]:8.0f} {ours:6.0f}"
            f" {deviation:+7.1%}      {more:8.2f} {ours_more:6.2f}",
            flush=True,
        )
        if point in JUDGED:
            off.append(deviation)
            added.append((ours - simulated_base(n, w)) - (cycles[point] - cycles[n, 0, w]))
    mean = statistics.mean(map(abs, off))
    print(
        f"cycles of {len(off)} points that were not fitted: mean deviation {mean:.1%}, largest {max(map(abs, off)):.1%}"
    )
    print(f"cycles added by the footprint: mean error {statistics.mean(map(abs, added)):.0f}")
    return 0


_BASES: dict[tuple[int, int], float] = {}


def simulated_base(n: int, w: int) -> float:
    """Cycles a packet of the model without a footprint."""
    if (n, w) not in _BASES:
        _BASES[n, w] = simulated((n, 0, w))[0]
    return _BASES[n, w]


if __name__ == "__main__":
    sys.exit(main())
