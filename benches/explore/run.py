"""How long the page of `wirespeed explore` takes to answer: closed forms at once, and a run of 20,000 packets behind.

Moves are made one after the other, as by a hand that rests after each: times are from the question to the answer's last
byte, without a browser. The page profiles a machine and runs it at the same time, on a thread each; here one comes after
the other, so that each has its CPU time, which on a machine that others use tells more than the clock. Beside each first
answer of machines that were not profiled stands how far it was off.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from wirespeed.explore import answers
from wirespeed.explore.forms import Answer
from wirespeed.explore.place import Given
from wirespeed.explore.talk import Asked, Talk

FIRST_MS, REFINED_MS = 100.0, 2000.0
MOVES = (
    {"load": "0.8"},
    {"load": "0.8", "cores": "6"},
    {"load": "0.8", "cores": "6", "rx": "256"},
    {"cores": "2", "burst": "64"},
    {"ddio": "0"},
    {"ddio": "6", "rx": "4096"},
    {"iommu": "4 KiB"},
    {"sizes": "512", "load": "0.9"},
    {"pool": "65536", "order": "lifo"},
    {"processor": "xeon-platinum-8380"},
    {"nic": "connectx-5", "cores": "8"},
    {"prefetcher": "on", "core_ways": "8"},
)


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What work answers, and its milliseconds by the clock and of CPU."""
    begun, used = time.perf_counter(), time.process_time()
    found = work()
    return found, (time.perf_counter() - begun) * 1e3, (time.process_time() - used) * 1e3


def refined(about: Talk, asked: Asked) -> dict[str, Any]:
    """The first run; nothing is drawn."""
    for kind, found in about.refine(asked):
        if kind == "short":
            return found.results["a"].summary
    raise SystemExit("no run came")


def off(found: Any, exact: Any) -> str:
    """How far a first answer is off, in percent, of capacity and mean sojourn."""
    if not isinstance(found, Answer) or not isinstance(exact, Answer):
        return "-"
    if found.is_exact:
        return "profiled"
    parts = []
    for name in ("capacity_mpps", "sojourn_ns"):
        one, other = found.found[name], exact.found[name]
        parts.append(f"{100 * (one / other - 1):+.1f}" if one and other else "-")
    return " / ".join(parts)


def main() -> int:
    """Prints a line a move, and says whether the times were kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="?", default="forwarding")
    parser.add_argument("--ahead", type=float, default=60.0, help="seconds to look ahead before the first move")
    given = parser.parse_args()
    about = Talk(Given(given.scenario))
    _, ms, cpu = timed(lambda: refined(about, Asked(given.scenario, "bench", 0, {})))
    print(f"{given.scenario}: first run after {ms:,.0f} ms, {cpu:,.0f} ms of CPU; load {os.getloadavg()[0]:.1f}")
    time.sleep(given.ahead)
    about._profile_near = lambda *_: None  # type: ignore[method-assign] # what is looked ahead is no part of a move
    print("move; first answer, profile, run, ms (CPU); first answer off in capacity / sojourn, %; sojourn, ± ns")
    firsts, profiles, runs = [], [], []
    for turn, chosen in enumerate(MOVES, 1):
        asked = Asked(given.scenario, "bench", turn, chosen)
        forms = about._scene(given.scenario).forms
        known = forms.answer(chosen)
        _, first, first_cpu = timed(lambda asked=asked: answers.line(answers.first(about, asked)))
        _, profile, profile_cpu = timed(lambda chosen=chosen: forms.measure(chosen))
        summary, run, run_cpu = timed(lambda asked=asked: refined(about, asked))
        firsts.append((first, first_cpu))
        profiles.append((profile, profile_cpu))
        runs.append((run, run_cpu))
        sojourn = summary["sojourn_ns"]
        print(
            f"{chosen}; {first:.0f} ({first_cpu:.0f}), {profile:.0f} ({profile_cpu:.0f}), "
            f"{run:.0f} ({run_cpu:.0f}); {off(known, forms.answer(chosen))}; "
            f"{sojourn['mean']:.0f} ± {sojourn['half_width']:.1f}"
        )
    about.close()
    for name, found in (("first", firsts), ("profile", profiles), ("run", runs)):
        clock, cpu_ms = zip(*found, strict=True)
        print(
            f"{name}: median {statistics.median(clock):.0f} ms, most {max(clock):.0f} ms; "
            f"of CPU median {statistics.median(cpu_ms):.0f} ms, most {max(cpu_ms):.0f} ms"
        )
    kept = max(first for first, _ in firsts) <= FIRST_MS and max(run for run, _ in runs) <= REFINED_MS
    print("kept" if kept else f"not kept: {FIRST_MS:.0f} ms and {REFINED_MS:.0f} ms")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
