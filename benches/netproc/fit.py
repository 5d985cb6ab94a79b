"""Fits the numbers that Hasan et al. (ISCA 2003) do not give to their throughputs; prints the nearest set, and how near.

    python benches/netproc/fit.py [all|column] [PACKETS [SEEDS]]

`all`: to all 38 throughputs, at the length of the run that is judged (2 seeds of 30,000 packets): `[in_sample]`.
`column`: to the 13 of L3fwd16 with 2 banks: `[calibration]`. The search goes from the numbers of `scenario.toml`, one
number at a time by steps that are halved, until no step helps: it finds the bottom of a valley, which need not be the
deepest. Runs have the same traffic throughout, so that a difference is one of the numbers.
"""

import json
import math
import sys
import tomllib
from pathlib import Path

from wirespeed import _wirespeed
from wirespeed.papers import find
from wirespeed.papers.rooms import hasan_2003 as room

ROOM = Path(__file__).parents[2] / "papers" / "2003-isca-hasan"
# First steps; numbers of clocks and slots go by one.
STEPS = {"drain_ns": 128, "handshake": 32, "in_flight": 16, "receive_slots": 1, "t_rp": 1, "t_rcd": 1}
LEAST = 1


def main() -> int:
    what = sys.argv[1] if len(sys.argv) > 1 else "all"
    packets = int(sys.argv[2]) if len(sys.argv) > 2 else 30_000
    seeds = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    parameters = tomllib.loads((ROOM / "scenario.toml").read_text(encoding="utf-8"))
    paper = {row.id: float(row.paper) for row in find(room.ID).expected() if row.unit == "Gbps"}
    keys = [("l3fwd16", system, banks) for system in room.SYSTEMS for banks in (2, 4)]
    keys += [(app, system, banks) for app in ("nat", "firewall") for system in room.COMPARED for banks in (2, 4)]
    if what == "column":
        keys = [key for key in keys if key[0] == "l3fwd16" and key[2] == 2]
    runs = [room.run(*key, "edge") for key in keys]
    study = {**parameters["study"], "packets": packets, "warm_up": packets // 3, "seeds": seeds}
    seen: dict[tuple[int, ...], float] = {}

    def deviation(numbers: dict[str, int]) -> float:
        """Root mean square over the throughputs, in percent."""
        place = tuple(numbers.values())
        if place not in seen:
            spec = {"calibration": numbers, "runs": runs, "seed": 0, **study}
            found = json.loads(_wirespeed.study_network_processor(json.dumps(spec)))["runs"]
            off = [run["gbps"]["mean"] / paper[room.name(key)] - 1 for key, run in zip(keys, found, strict=True)]
            seen[place] = math.sqrt(sum(d * d for d in off) / len(off)) * 100
            print(f"{seen[place]:.3f} % {numbers}", file=sys.stderr, flush=True)
        return seen[place]

    best = min((parameters["calibration"], parameters["in_sample"]), key=deviation)
    steps = dict(STEPS)
    while True:
        before = deviation(best)
        for name in STEPS:
            for step in (steps[name], -steps[name]):
                tried = {**best, name: max(best[name] + step, LEAST)}
                while deviation(tried) < deviation(best):
                    best = tried
                    tried = {**best, name: max(best[name] + step, LEAST)}
        if deviation(best) == before:
            if all(step == 1 for step in steps.values()) or max(steps["drain_ns"], steps["handshake"]) <= 4:
                break
            steps = {name: max(step // 2, 1) for name, step in steps.items()}
    print(f"{deviation(best):.2f} % over {len(keys)} throughputs, {seeds} seeds of {packets} packets")
    print("\n".join(f"{name} = {value}" for name, value in best.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
