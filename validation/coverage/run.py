"""How often 95 % intervals hold over seeds: `python validation/coverage/run.py [--seeds N] [--later N] [--write]`.

Each scenario is run with that many seeds. An interval holds if it contains the mean of the values of all seeds. The
first `--later` of them run once more with twice the warm-up: where a run begins on a warm machine nothing shifts but
by chance. With `--kept FILE` runs are kept in it, a line each, and none is run twice.
`--write` puts the tables between the markers of README.md. Exit code 1 where a requirement is not met.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import wirespeed

HERE: Final = Path(__file__).parent
MARKS: Final = ("<!-- tables: validation/coverage/run.py -->", "<!-- end of tables -->")
# A scenario, and what is set of it.
CASES: Final[Mapping[str, tuple[str, Mapping[str, object]]]] = {
    "table": ("forwarding", {"function.forward.prefixes": 100_000, "run.packets": 80_000}),
    "busy": ("forwarding", {"machine.cores": 1, "traffic.load": 0.85, "run.packets": 80_000}),
    "bursts": (
        "forwarding",
        {
            "machine.cores": 2,
            "traffic.load": 0.35,
            "traffic.arrivals": {"on_off": {"on": "5 us", "off": "10 us"}},
            "run.packets": 80_000,
        },
    ),
    "loss": (
        "forwarding",
        {
            "machine.cores": 1,
            "machine.core.frequency": "2 GHz",
            "traffic.load": 0.95,
            "nic.rx_descriptors": 256,
            "run.packets": 80_000,
        },
    ),
    "upf": ("upf", {"run.packets": 30_000}),
}
# What may shift, in half-widths; how much of what is beyond; how often intervals are to hold.
MOST_SHIFT, FAR, MOST_FAR = 0.2, 1.5, 0.05
LEAST, MOST, LEAST_OF_ONE = 0.92, 0.98, 0.89

Intervals = dict[str, tuple[float, float, float]]


def intervals(summary: Mapping[str, Any]) -> Intervals:
    """The value, low and high of each measure."""
    sojourn = summary["sojourn_ns"]
    mean, half = sojourn["mean"], sojourn["half_width"]
    found: Intervals = {"mean": (mean, mean - half, mean + half)} if half is not None else {}
    for name in ("p50", "p99", "p999"):
        low, high = sojourn[f"{name}_low"], sojourn[f"{name}_high"]
        if low is not None and high is not None:
            found[name] = (sojourn[name], low, high)
    loss, half = summary["loss"], summary["loss_half_width"]
    if loss and half is not None:
        found["loss"] = (loss, loss - half, loss + half)
    return found


def run(case: str, seed: int, warmup: int | None = None) -> tuple[Intervals, Mapping[str, Any]]:
    scenario, settings = CASES[case]
    given = {**settings, "run.curve": []} | ({} if warmup is None else {"run.warmup": warmup})
    summary = wirespeed.run(scenario, set=given, seed=seed, threads=1).summary
    return intervals(summary), summary["warmup"]


Once = tuple[Intervals, Intervals | None, Mapping[str, Any]]


def once(case: str, seed: int, again: bool) -> Once:
    """A run, the same with twice its warm-up if `again`, and the warm-up."""
    first, warmup = run(case, seed)
    later = run(case, seed, 2 * int(warmup["packets"]))[0] if again else None
    return first, later, warmup


class Kept:
    """Runs in a file, a line each."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._runs: dict[tuple[str, int, bool], Once] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        for case, seed, again, of in map(json.loads, lines):
            self._runs[case, seed, again] = of

    def once(self, case: str, seed: int, again: bool) -> Once:
        """The run, made unless it is there."""
        key = (case, seed, again)
        if key not in self._runs:
            self._runs[key] = once(*key)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([*key, self._runs[key]]) + "\n")
        return self._runs[key]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--later", type=int, help="as many as seeds unless said")
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    seeds = range(1, given.seeds + 1)
    again = [given.later is None or seed <= given.later for seed in seeds]
    kept = Kept(given.kept)
    held: dict[str, dict[str, int]] = {}
    shifts: dict[str, list[float]] = {}
    about: list[list[object]] = []
    with ThreadPoolExecutor(2) as pool:
        for case in given.cases:
            runs = list(pool.map(kept.once, [case] * len(seeds), seeds, again))
            for measure in ("mean", "p50", "p99", "p999", "loss"):
                values = [first[measure] for first, *_ in runs if measure in first]
                if len(values) < len(seeds):
                    continue
                truth = statistics.fmean(value for value, *_ in values)
                held.setdefault(measure, {})[case] = sum(low <= truth <= high for _, low, high in values)
                for first, later, _ in runs:
                    value, low, high = first[measure]
                    if later is not None and measure in later and high > low:
                        shifts.setdefault(measure, []).append((later[measure][0] - value) / ((high - low) / 2))
            packets = [warmup["packets"] for *_, warmup in runs]
            open_ = sum(bool(warmup["unsettled"]) for *_, warmup in runs)
            about.append([case, f"{min(packets):,} to {max(packets):,}", open_])
            print(f"{case}: {held} {open_} of {len(seeds)} not settled", file=sys.stderr, flush=True)
    failed = []
    rows: list[list[object]] = []
    for measure, of in held.items():
        share = sum(of.values()) / (len(of) * len(seeds))
        signed = statistics.fmean(shifts[measure])
        far = sum(abs(shift) > FAR for shift in shifts[measure]) / len(shifts[measure])
        rows.append(
            [measure, *(of.get(case, "") for case in given.cases), f"{share:.1%}", f"{signed:+.2f}", f"{far:.1%}"]
        )
        if not LEAST <= share <= MOST or min(of.values()) < LEAST_OF_ONE * len(seeds):
            failed.append(f"{measure}: intervals hold in {share:.1%}")
        if abs(signed) > MOST_SHIFT or far > MOST_FAR:
            failed.append(f"{measure}: shifts by {signed:+.2f} half-widths, {far:.1%} by more than {FAR}")
    text = table(["", *given.cases, "pooled", "shift, half-widths", f"beyond {FAR}"], rows)
    text += ["", *table(["", "packets of warm-up", "runs in which something had not settled"], about)]
    print("\n".join(text))
    if given.write:
        page = (HERE / "README.md").read_text(encoding="utf-8")
        before, _, rest = page.partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        (HERE / "README.md").write_text(
            f"{before}{MARKS[0]}\n\n" + "\n".join(text) + f"\n\n{MARKS[1]}{after}", encoding="utf-8"
        )
    print(*failed, sep="\n", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
