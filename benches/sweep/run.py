#!/usr/bin/env python3
"""Two local workers against one, with two independent processes as the limit; and what a point costs beside its run.

The machine may be shared with others, so wall time says little. One worker and two workers do the same points, and the
CPU time of each point is taken, loading included. Compared is what workers with a core each would have taken: the next
point goes to whoever is free, in the order of the study, as the engine does it. Beside it stands the CPU time of the
worker that did most; where others keep the host busy, a worker that gets more of it takes more points, and that says
how the host was shared rather than how the study was. The limit is the same work split over two plain processes that
know nothing of each other, measured in the same run: what it loses to caches and memory that cores share, no engine can
win back.

Overhead is CPU of driver and worker over points, less the CPU of the same runs in one plain loop.

Ends with 1 where a requirement is missed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

from wirespeed import _wirespeed
from wirespeed.sweep import Ask, Plan, study
from wirespeed.sweep.engine import Local
from wirespeed.sweep.folder import Folder
from wirespeed.sweep.work import Task, work

SETTINGS = {"run.curve": [], "run.warmup": 2000, "function.forward.prefixes": 100_000}
SPEED_UP = 0.6
OVERHEAD_MS = 20.0


def ask(points: int, packets: int) -> Ask:
    """A grid over load and descriptors."""
    return Ask(
        "forwarding",
        vary={"traffic.load": f"0.1..1.0/{points // 4}", "nic.rx_descriptors": [256, 512, 1024, 2048]},
        set={**SETTINGS, "run.packets": packets},
    )


def cpu(who: int) -> float:
    """User and system seconds so far."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def loop(tasks: Sequence[Task], give: Connection) -> None:
    """Runs tasks one after the other; tells wall and CPU seconds of all but the first, which loads."""
    work(tasks[0])
    began, used = time.perf_counter(), cpu(resource.RUSAGE_SELF)
    for task in tasks[1:]:
        work(task)
    give.send((time.perf_counter() - began, cpu(resource.RUSAGE_SELF) - used))


def independent(parts: Sequence[Sequence[Task]]) -> list[tuple[float, float]]:
    """Plain processes side by side: wall and CPU seconds of each."""
    context = multiprocessing.get_context("spawn")
    running = []
    for part in parts:
        take, give = context.Pipe(duplex=False)
        process = context.Process(target=loop, args=(part, give))
        process.start()
        running.append((process, take))
    found = [take.recv() for _, take in running]
    for process, _ in running:
        process.join()
    return found


def swept(asked: Ask, jobs: int) -> tuple[float, float, float, float, float]:
    """Of a sweep into a fresh folder: wall seconds, CPU seconds of workers and driver, of the worker that did most, and
    what workers with a core each would have taken.
    """
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        driver, children = cpu(resource.RUSAGE_SELF), cpu(resource.RUSAGE_CHILDREN)
        found = study.run(asked, folder, Local(jobs))
        assert found.failed == 0, found
        spent = (
            time.perf_counter() - began,
            cpu(resource.RUSAGE_CHILDREN) - children,
            cpu(resource.RUSAGE_SELF) - driver,
        )
        by_worker: dict[str, float] = {}
        busy = [0.0] * jobs
        with Folder(folder) as kept:
            keys = [row["key"] for row in found.rows]
            kept.find(keys)
            for run in filter(None, map(kept.get, keys)):
                by_worker[run.worker] = by_worker.get(run.worker, 0.0) + run.cpu_seconds
                busy[busy.index(min(busy))] += run.cpu_seconds
        return (*spent, max(by_worker.values()), max(busy))


def main() -> int:
    """Measures and judges."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=120)
    parser.add_argument("--packets", type=int, default=20_000)
    given = parser.parse_args()
    if (os.cpu_count() or 1) < 2:
        print("benches/sweep: not run: needs two cores", file=sys.stderr)
        return 2
    asked = ask(given.points, given.packets)
    plan = Plan(asked)
    tasks = [plan.task(place, 0) for place in plan.sound]

    start_cost()  # what the driver imports once is no cost of a point
    starting = start_cost()
    ((alone_wall, alone_cpu),) = independent([tasks])
    halves = independent([tasks[0::2], tasks[1::2]])
    # Work that a core would have done in the time it was given, had it not been shared: CPU seconds of the slower half.
    limit = max(used for _, used in halves) / alone_cpu

    one_wall, one_cpu, one_driver, _, one_core = swept(asked, 1)
    two_wall, two_cpu, two_driver, two_busiest, two_cores = swept(asked, 2)
    ratio = two_cores / one_core
    overhead = (one_cpu + one_driver - alone_cpu) / len(tasks) * 1e3

    per_point = overhead - starting / len(tasks) * 1e3
    print(f"{len(tasks)} points of {given.packets} packets, {alone_cpu / len(tasks) * 1e3:.0f} ms of CPU each")
    print(f"one worker {one_cpu:.2f} s of CPU ({one_wall:.2f} s of wall), two {two_cpu:.2f} s ({two_wall:.2f} s)")
    print(
        f"driver {one_driver:.2f} s and {two_driver:.2f} s of CPU; one plain loop {alone_cpu:.2f} s, {alone_wall:.2f} s"
    )
    print(
        f"two workers over one, CPU-normalised: {ratio:.3f} (the one that did most: {two_busiest / one_core:.3f}); "
        f"two independent processes: {limit:.3f}"
    )
    print(f"overhead a point: {per_point:.2f} ms of CPU, start and end of the study ({starting:.2f} s) aside")
    met = ratio <= SPEED_UP and per_point < OVERHEAD_MS
    print("requirements met" if met else f"MISSED: at most {SPEED_UP} and under {OVERHEAD_MS} ms are required")
    return 0 if met else 1


def start_cost() -> float:
    """CPU seconds of a study of one short run: worker, imports, table, page."""
    small = Ask("forwarding", vary={"traffic.load": [0.1]}, set={**SETTINGS, "run.packets": 1000})
    _, used, driver, _, _ = swept(small, 1)
    return used + driver


if __name__ == "__main__":
    assert _wirespeed.version()
    sys.exit(main())
