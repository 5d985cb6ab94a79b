"""How near runs of which windows are timed come to the same runs timed whole: `python validation/sampling/run.py`.

`--packets` says how many each has. `--write` puts the table between the markers of README.md. Exit code 1 where rates
differ by more than 1 %, mean sojourns by more than 2 %, or p99 by more than 3 %.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import wirespeed

HERE: Final = Path(__file__).parent
MARKS: Final = ("<!-- table: validation/sampling/run.py -->", "<!-- end of table -->")
CASES: Final[Mapping[str, tuple[str, Mapping[str, object]]]] = {
    "forwarding": ("forwarding", {}),
    "forwarding at line rate": ("forwarding", {"traffic.load": 1.0}),
    "one core, 90 % busy": ("forwarding", {"machine.cores": 1, "traffic.load": 0.72}),
    "bursts of 5 us": (
        "forwarding",
        {"machine.cores": 2, "traffic.load": 0.35, "traffic.arrivals": {"on_off": {"on": "5 us", "off": "10 us"}}},
    ),
    "overload": ("forwarding", {"machine.cores": 1, "traffic.load": 0.95, "nic.rx_descriptors": 256}),
    "nat": ("nat", {}),
    "upf": ("upf", {}),
    "vhost": ("vhost", {}),
}
# By how much they may differ.
MOST: Final = {"rate": 0.01, "mean": 0.02, "p99": 0.03}


def timed(scenario: str, given: Mapping[str, object]) -> tuple[Mapping[str, Any], float]:
    """The summary of a run, and the CPU seconds that it took."""
    began = time.process_time()
    summary = wirespeed.run(scenario, set={**given, "run.curve": []}, threads=1).summary
    return summary, time.process_time() - began


def row(name: str, packets: int, windows: int) -> tuple[list[str], list[str]]:
    """A line of the table, and what lies too far apart."""
    scenario, settings = CASES[name]
    given = {**settings, "run.packets": packets}
    whole, took = timed(scenario, given)
    sampled, took_less = timed(scenario, {**given, "run.sampling": {"windows": windows}})
    in_full = sampled["sampling"]["timed_in_full"]
    if in_full is not None:
        return [name, f"timed in full: {in_full}", *[""] * 5, f"{took_less / took:.2f}"], []
    sojourn, near = whole["sojourn_ns"], sampled["sojourn_ns"]
    off = {"rate": sampled["carried_mpps"] / whole["carried_mpps"] - 1}
    off |= {measure: near[measure] / sojourn[measure] - 1 for measure in ("mean", "p99", "p999")}
    half = near["half_width"] / near["mean"]
    shares = [f"{value:+.2%}" for value in off.values()]
    loss = f"{whole['loss']:.2%} and {sampled['loss']:.2%}" if whole["loss"] else "none"
    far = [
        f"{name}: {measure} is {off[measure]:+.2%} off" for measure, most in MOST.items() if abs(off[measure]) > most
    ]
    return [name, *shares, f"{half:.2%}", loss, f"{took_less / took:.2f}"], far


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=2_000_000)
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    head = [
        "scenario",
        "carried rate",
        "mean",
        "p99",
        "p99.9",
        "stated ± of the mean",
        "loss, whole and sampled",
        "CPU time",
    ]
    lines, far = [head, ["---"] * len(head)], []
    for name in CASES:
        cells, apart = row(name, given.packets, given.windows)
        print(" | ".join(cells), flush=True)
        lines.append(cells)
        far += apart
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    if given.write:
        page = (HERE / "README.md").read_text(encoding="utf-8")
        before, _, rest = page.partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        (HERE / "README.md").write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")
    print(*far, sep="\n", file=sys.stderr)
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
