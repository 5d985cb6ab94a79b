"""Runs what rows ask for, each distinct run and curve of memory once, and says what came of each row."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from wirespeed import curve, dma, files
from wirespeed.accuracy import metrics, settings, target
from wirespeed.accuracy.metrics import Columns, Metric
from wirespeed.accuracy.rows import Row
from wirespeed.accuracy.settings import Asked
from wirespeed.accuracy.target import Target
from wirespeed.errors import InputError, nearest
from wirespeed.progress import Callback
from wirespeed.sweep import engine as engines
from wirespeed.sweep.engine import Engine
from wirespeed.sweep.work import Outcome, Task

PARTS: Final[Mapping[str, str]] = {
    "core": "machine.core",
    "nic": "machine.nic",
    "driver": "machine.driver",
    "limit": "verdict.limit",
}
"""Columns of a row, and where a run tells them."""


@dataclass(slots=True)
class Answer:
    """What came of a row: the prediction in the metric's own unit, or why there is none."""

    target: Target | None = None
    asked: Asked | None = None
    predicted: float | None = None
    error: str | None = None
    wall_s: float | None = None
    parts: Mapping[str, str | None] = field(default_factory=dict)
    """By which parts the machine of its run is known, and what held its rate back: PARTS."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A number of a run or of a curve: `key` is what answers it."""

    key: str
    metric: Metric


@dataclass(slots=True)
class Bench:
    """Runs and curves that rows want, and what came of them."""

    tasks: dict[str, Task] = field(default_factory=dict)
    curves: dict[str, Asked] = field(default_factory=dict)
    dma: dict[str, Asked] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def want(self, asked: Asked, metric: Metric) -> _Wanted:
        """A number that is wanted. Raises InputError where the machine or its settings cannot be."""
        if metric.of_memory:
            key = files.digest(json.dumps([asked.machine(), asked.reads]).encode())
            self.curves[key] = asked
        elif metric.of_dma:
            key = files.digest(json.dumps(["dma", asked.settings, asked.dma_reads()]).encode())
            self.dma[key] = asked
        else:
            task = asked.task(metric.search)
            key = task.key
            self.tasks[key] = task
        return _Wanted(key, metric)

    def run(self, engine: Engine, progress: Callback | None) -> None:
        """Runs all that is wanted. Raises KeyboardInterrupt on Ctrl-C."""
        total = len(self.tasks) + len(self.curves) + len(self.dma)

        def told() -> None:
            if progress is not None:
                progress("accuracy", len(self.outcomes), total, "")

        def finished(outcome: Outcome) -> Sequence[Task]:
            self.outcomes[outcome.key] = outcome
            return ()

        told()
        if self.tasks:
            with engines.running(engine, ()) as executor:
                engines.run(engine, executor, self.tasks.values(), finished, told)
        for key, asked in self.curves.items():
            self.outcomes[key] = _measured(key, asked, engine.workers)
            told()
        for key, asked in self.dma.items():
            self.outcomes[key] = _read(key, asked)
            told()

    def number(self, wanted: _Wanted) -> float:
        """The number. Raises InputError where what was to answer failed, or does not report it."""
        outcome = self.outcomes[wanted.key]
        if outcome.error is not None:
            raise InputError(outcome.error)
        if wanted.metric.of_dma:
            return float(outcome.values[wanted.metric.name])
        return _of_memory(wanted, outcome) if wanted.metric.of_memory else metrics.value(wanted.metric, outcome.values)

    def parts(self, wanted: _Wanted) -> dict[str, str | None]:
        """By which parts its machine is known, and what held its rate back; nothing of what is no run."""
        values = self.outcomes[wanted.key].values
        return {name: str(values[column]) if column in values else None for name, column in PARTS.items()}

    def seconds(self, wanted: _Wanted) -> float:
        """What its run took."""
        return self.outcomes[wanted.key].seconds


def answers(rows: Sequence[Row], known: Sequence[Row], engine: Engine, progress: Callback | None) -> list[Answer]:
    """What came of each of `rows`; those that others are relative to are looked up among `known`."""
    bench = Bench()
    found = [Answer() for _ in rows]
    wanted: dict[int, tuple[_Wanted, ...]] = {}
    for place, (row, answer) in enumerate(zip(rows, found, strict=True)):
        try:
            wanted[place] = _wanted(row, known, answer, bench)
        except InputError as e:
            answer.error = str(e)
    bench.run(engine, progress)
    for place, numbers in wanted.items():
        answer = found[place]
        answer.wall_s, answer.parts = bench.seconds(numbers[0]), bench.parts(numbers[0])
        try:
            answer.predicted = _predicted([bench.number(each) for each in numbers])
        except InputError as e:
            answer.error = str(e)
    return found


def _wanted(row: Row, known: Sequence[Row], answer: Answer, bench: Bench) -> tuple[_Wanted, ...]:
    """The row's own number, and behind it the one that it is divided by."""
    if row.fault is not None:
        raise InputError(row.fault)
    metric = metrics.parse(row["metric"])
    answer.target = target.of(row, metric)
    answer.asked = settings.of(row)
    own = Metric(metric.name)
    numbers = [(answer.asked, own)]
    if metric.base is not None:
        numbers.append((_base(row, metric.base, known), own))
    return tuple(bench.want(asked, metric) for asked, metric in numbers)


def _base(row: Row, case: str, known: Sequence[Row]) -> Asked:
    """What the row asks for that this one is relative to: of the same source, by its case."""
    of_source = [each for each in known if each["source"] == row["source"] and each is not row]
    named = [each for each in of_source if each["case"] == case and each.fault is None]
    if not named:
        cases = list(dict.fromkeys(each["case"] for each in of_source))
        raise InputError(
            f"metric: relative to {case!r}: no other row of this source has that case{nearest(case, cases)}"
        )
    asked = list(dict.fromkeys(settings.of(each) for each in named))
    if len(asked) > 1:
        places = ", ".join(each.place for each in named)
        raise InputError(f"metric: relative to {case!r}: rows of that case differ in machine or set: {places}")
    return asked[0]


def _predicted(numbers: Sequence[float]) -> float:
    if len(numbers) == 1:
        return numbers[0]
    own, base = numbers
    if base == 0:
        raise InputError("the prediction that this one is relative to is 0")
    return own / base


def _measured(key: str, asked: Asked, threads: int) -> Outcome:
    """The curve of a machine's memory: `idle_ns`, `most` and the points, as what a run reports."""
    begun = time.perf_counter()
    try:
        found = curve.curve(None, reads=[asked.reads], set=asked.machine(), threads=threads)
    except InputError as e:
        return Outcome(key, error=str(e), seconds=time.perf_counter() - begun)
    (share,) = found["curves"]
    values: dict[str, float | str] = {"idle_ns": share["idle_ns"], "most": share["most_gb_per_s"]}
    values["points"] = json.dumps([[p["bandwidth_gb_per_s"], p["latency_ns"]] for p in share["points"]])
    return Outcome(key, values, seconds=time.perf_counter() - begun)


def _read(key: str, asked: Asked) -> Outcome:
    """DMA reads of a window: what each of the metrics is."""
    begun = time.perf_counter()
    try:
        found = dma.dma(None, set=asked.settings, **asked.dma_reads())
    except InputError as e:
        return Outcome(key, error=str(e), seconds=time.perf_counter() - begun)
    (point,) = found["points"]
    values: dict[str, float | str] = {
        "pcie.dma_read_ns": point["read_ns"]["mean"],
        "pcie.dma_read_gbps": point["gbps"],
    }
    return Outcome(key, values, seconds=time.perf_counter() - begun)


def _of_memory(wanted: _Wanted, outcome: Outcome) -> float:
    values: Columns = outcome.values
    at = wanted.metric.at_gb_per_s
    if at is None:
        return float(values["idle_ns" if wanted.metric.name == "memory.idle_ns" else "most"])
    points: list[Mapping[str, float]] = [
        {"bandwidth_gb_per_s": gb_per_s, "latency_ns": ns} for gb_per_s, ns in json.loads(str(values["points"]))
    ]
    found = curve.latency_at(points, at)
    if found is None:
        raise InputError(f"metric {wanted.metric.name}: not reached: most is {values['most']:.1f} GB/s")
    return found
