"""Four ways to choose settings: a joint search, one knob after another, every combination, and ResQ's rule.

All ask one `Evaluator`, which runs equal settings once, however often and by whomever they are wanted.

Joint search: tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011) as Optuna has it, with constraints.
Points are proposed in batches of fixed size and told in order, so the result depends on seed and batch, not on how
many run at a time; a search that is run again over its journal takes the same steps. A point that was proposed before
is replaced by a neighbour of the best one that is new, or a random new one: no evaluation is spent twice.

One after another: the order of 5GC2ache (descriptors, then buffers), then the other knobs as given, each at its best
before the next.

ResQ (Tootoonchian et al., NSDI 2018): as many receive buffers as fit into the ways that devices write to.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from wirespeed import _wirespeed, units
from wirespeed.errors import InputError, nearest
from wirespeed.progress import Callback
from wirespeed.tune import knobs as space
from wirespeed.tune.journal import Journal
from wirespeed.tune.knobs import Knob
from wirespeed.tune.target import Measurement, Settings, Target

Direction = Literal["maximize", "minimize"]

# What can be tuned for: the value of a measurement, and which way is better. `ndr` and `pdr` also set `run.search`.
METRICS: Final[Mapping[str, tuple[str, Direction]]] = {
    "carried_mpps": ("carried_mpps", "maximize"),
    "carried_gbps": ("carried_gbps", "maximize"),
    "loss": ("loss", "minimize"),
    "mean": ("mean_ns", "minimize"),
    "p50": ("p50_ns", "minimize"),
    "p99": ("p99_ns", "minimize"),
    "p999": ("p999_ns", "minimize"),
    "ndr": ("search_mpps", "maximize"),
    "pdr": ("search_mpps", "maximize"),
}
# Of real programs: packets per CPU-second of the polling thread, in millions; or what the program tells itself.
PROGRAM_METRICS: Final[Mapping[str, tuple[str, Direction]]] = {
    "cpu_mpps": ("cpu_mpps", "maximize"),
    "highest": ("value", "maximize"),
    "lowest": ("value", "minimize"),
}
_ALL_METRICS: Final = {**METRICS, **PROGRAM_METRICS}

DESCRIPTORS: Final = "nic.rx_descriptors"
BUFFERS: Final = "mempool.size"
_PAPERS_ORDER: Final = (DESCRIPTORS, BUFFERS)

# Points that are proposed at a time.
BATCH: Final = 4
# Between two looks at whether Ctrl-C was pressed.
_HEARS_EVERY_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How settings are searched; see `wirespeed.tune`. What is None is as usual of what is tuned."""

    metric: str | None = None
    loss_limit: float | None = None
    evaluations: int | None = None
    grid: bool = False
    seed: int = 0
    batch: int = BATCH
    journal: str | os.PathLike[str] | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    """What is wanted: a metric, at a loss of at most `loss_limit` (no limit if None)."""

    metric: str
    loss_limit: float | None = None

    def __post_init__(self) -> None:
        if self.metric not in _ALL_METRICS:
            raise InputError(
                f"--metric {self.metric}: must be one of {', '.join(METRICS)}{nearest(self.metric, METRICS)}"
            )
        if self.loss_limit is not None and not 0 <= self.loss_limit <= 1:
            raise InputError(f"--loss-limit {self.loss_limit:g}: must be a share from 0 to 1, for example 0.001")

    @property
    def direction(self) -> Direction:
        """Which way is better."""
        return _ALL_METRICS[self.metric][1]

    def value(self, found: Measurement) -> float | None:
        """The metric, or None where there is none: it did not start, or nothing was carried."""
        return found.values.get(_ALL_METRICS[self.metric][0])

    def excess(self, found: Measurement) -> float:
        """Loss above the limit; at most 0 where the limit is kept. A search of throughput keeps it by itself."""
        if self.loss_limit is None or self.metric in ("ndr", "pdr"):
            return 0.0
        return found.values.get("loss", 1.0) - self.loss_limit

    def is_met(self, found: Measurement) -> bool:
        """Whether it started, was measured and kept the limit."""
        return self.value(found) is not None and self.excess(found) <= 0

    def rank(self, found: Measurement) -> tuple[float, ...]:
        """Smaller is better: what keeps the limit by metric, then what does not by loss, then what cannot start."""
        value = self.value(found)
        if value is None:
            return (2.0,)
        cost = -value if self.direction == "maximize" else value
        loss = found.values.get("loss", 1.0)
        return (0.0, cost, loss) if self.excess(found) <= 0 else (1.0, self.excess(found), cost)

    def gain_pct(self, found: Measurement, before: Measurement) -> float | None:
        """How much better in percent, positive where better."""
        new, old = self.value(found), self.value(before)
        if new is None or old is None or old == 0:
            return None
        change = (new - old) / abs(old) * 100
        return change if self.direction == "maximize" else -change


@dataclass(frozen=True, slots=True)
class Point:
    """Settings and what they came to."""

    settings: Settings
    found: Measurement


@dataclass(slots=True)
class Tried:
    """What one way of choosing tried, each point once, in its order."""

    method: str
    points: list[Point] = field(default_factory=list)
    note: str = ""
    """Why it tried nothing, or what it came to in words."""
    finalists: list[Point] = field(default_factory=list)
    """Its best points measured again: the best of many noisy measurements is partly luck."""

    def best(self, goal: Goal) -> Point | None:
        """The best point, of those measured again where there are any; the earliest of equals."""
        return min(self.finalists or self.points, key=lambda point: goal.rank(point.found), default=None)

    def add(self, settings: Sequence[Settings], found: Sequence[Measurement]) -> None:
        """Adds points that it has not yet."""
        had = {space.key(point.settings) for point in self.points}
        for each, measured in zip(settings, found, strict=True):
            if space.key(each) not in had:
                had.add(space.key(each))
                self.points.append(Point(each, measured))


class Evaluator:
    """Measures batches of settings on `jobs` threads, and each setting once."""

    def __init__(self, target: Target, journal: Journal, jobs: int, progress: Callback | None = None) -> None:
        self._target, self._journal, self._jobs = target, journal, jobs
        self._progress = progress
        self.ran = 0
        """Evaluations that were run, not taken from the journal."""

    def measure(self, wanted: Sequence[Settings], phase: str = "", done: int = 0, total: int = 0) -> list[Measurement]:
        """Measurements in the order of `wanted`. Ctrl-C raises KeyboardInterrupt; what is finished by then is kept."""
        missing = {space.key(each): each for each in wanted if self._journal.get(each) is None}
        known = len(wanted) - len(missing)
        stop = threading.Event()
        with ThreadPoolExecutor(self._jobs) as pool:
            running: dict[Future[Measurement], Settings] = {
                pool.submit(self._one, each, stop): each for each in missing.values()
            }
            try:
                left = set(running)
                while left:
                    finished, left = wait(left, timeout=_HEARS_EVERY_S, return_when=FIRST_COMPLETED)
                    for future in finished:
                        self._journal.put(running[future], future.result())
                        self.ran += 1
                        known += 1
                    if self._progress is not None:
                        self._progress(phase, done + known, total, "")
            except BaseException:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise
        return [found for each in wanted if (found := self._journal.get(each)) is not None]

    def _one(self, settings: Settings, stop: threading.Event) -> Measurement:
        why = self._target.check(settings)
        return Measurement(infeasible=why) if why is not None else self._target.evaluate(settings, stop.is_set)


def grid(knobs: Sequence[Knob], evaluator: Evaluator) -> Tried:
    """Every combination."""
    tried = Tried("grid")
    wanted = list(space.grid(knobs))
    tried.add(wanted, evaluator.measure(wanted, "grid", 0, len(wanted)))
    return tried


def one_at_a_time(knobs: Sequence[Knob], evaluator: Evaluator, goal: Goal) -> Tried:
    """Each knob at its best before the next: descriptors, buffers, then the others as given."""
    tried = Tried("one at a time")
    place = {path: number for number, path in enumerate(_PAPERS_ORDER)}
    order = sorted(knobs, key=lambda each: place.get(each.path, len(place)))
    total = 1 + sum(len(each.values) for each in order)
    chosen: Settings = {}
    tried.add([chosen], evaluator.measure([chosen], tried.method, 0, total))
    for knob in order:
        wanted = [{**chosen, knob.path: value} for value in knob.values]
        found = evaluator.measure(wanted, tried.method, len(tried.points), total)
        tried.add(wanted, found)
        best = tried.best(goal)
        chosen = best.settings if best is not None else chosen
    return tried


@contextlib.contextmanager
def resumed(evaluator: Evaluator, journal: str | os.PathLike[str] | None) -> Iterator[None]:
    """Says of a search that Ctrl-C ends how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        how = f"; run it again with the journal {journal} to go on" if journal is not None else ""
        raise KeyboardInterrupt(f"stopped after {evaluator.ran} evaluations{how}") from None


def joint(knobs: Sequence[Knob], evaluator: Evaluator, goal: Goal, budget: int, batch: int, seed: int) -> Tried:
    """Tree-structured Parzen estimator over all knobs at once, on at most `budget` points."""
    import optuna  # takes a second to import: only a search pays for it

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=seed))
    tried = Tried("joint search")
    seen: dict[tuple[int, ...], Measurement | None] = {}
    drawn = random.Random(seed)
    budget = min(budget, space.size(knobs))

    def ask() -> tuple[Any, tuple[int, ...]]:
        trial = study.ask()
        return trial, tuple(_suggest(trial, each) for each in knobs)

    def tell(trial: Any, found: Measurement) -> None:
        value = goal.value(found)
        trial.set_constraint("starts", 1.0 if value is None else -1.0)
        if goal.loss_limit is not None:
            trial.set_constraint("loss", goal.excess(found))
        # Of points that break a constraint the sampler looks at the constraint only.
        study.tell(trial, 0.0 if value is None else -value if goal.direction == "maximize" else value)

    while len(seen) < budget:
        asked: list[tuple[Any, tuple[int, ...]]] = []
        for _ in range(min(batch, budget - len(seen))):
            trial, place = ask()
            if place in seen:
                known = seen[place]
                if known is not None:
                    tell(trial, known)
                else:  # proposed twice in this batch: nothing is known to tell
                    study.tell(trial, state=optuna.trial.TrialState.FAIL)
                fresh = _fresh(knobs, seen, goal, drawn)
                study.enqueue_trial(dict(zip((each.path for each in knobs), fresh, strict=True)))
                trial, place = ask()
            seen[place] = None
            asked.append((trial, place))
        wanted = [_settings(knobs, place) for _, place in asked]
        found = evaluator.measure(wanted, tried.method, len(tried.points), budget)
        tried.add(wanted, found)
        for (trial, place), measured in zip(asked, found, strict=True):
            seen[place] = measured
            tell(trial, measured)
    return tried


def resq(knobs: Sequence[Knob], evaluator: Evaluator, target: Target, scenario: Mapping[str, Any]) -> Tried:
    """ResQ's rule with the mean frame of the scenario's own traffic; other knobs stay as the scenario has them.

    Where the scenario's pool is too small for these rings, it is the smallest that is not.
    """
    tried = Tried("ResQ's rule")
    by_path = {each.path: each for each in knobs}
    if DESCRIPTORS not in by_path:
        tried.note = f"sizes {DESCRIPTORS}, which is no knob here"
        return tried
    (base,) = evaluator.measure([{}])
    llc = scenario["machine"]["llc"]
    io_ways = units.ways(llc["io_ways"])
    packets, gbps = base.values.get("offered_mpps", 0.0), base.values.get("offered_l2_gbps", 0.0)
    if io_ways == 0 or packets == 0:
        tried.note = "needs ways that devices write to, and traffic"
        return tried
    io_bytes = _bytes(llc["size"]) * io_ways // int(llc["ways"])
    lines = math.ceil(gbps / packets * 1000 / 8 / 64)
    pipeline = scenario.get("pipeline")
    queues = int(pipeline["rx_cores"] if pipeline else scenario["machine"]["cores"])
    fit = _wirespeed.resq_descriptors(io_bytes // queues, lines * 64)
    sizes = sorted(v for v in by_path[DESCRIPTORS].values if isinstance(v, int))
    chosen = max((v for v in sizes if v <= fit), default=min(sizes, default=0))
    settings: dict[str, object] = {DESCRIPTORS: chosen}
    if BUFFERS in by_path and target.check(settings) is not None:
        pools = sorted(v for v in by_path[BUFFERS].values if isinstance(v, int))
        starting = (v for v in pools if target.check({**settings, BUFFERS: v}) is None)
        pool = next(starting, None)
        settings |= {BUFFERS: pool} if pool is not None else {}
    tried.note = (
        f"{io_bytes / 2**10:,.0f} KiB of I/O ways hold {fit} buffers of {lines * 64} bytes for each of {queues} queues"
    )
    tried.add([settings], evaluator.measure([settings], tried.method, 0, 1))
    return tried


def _suggest(trial: Any, knob: Knob) -> int:
    """The place of a value: numbers by their place in order, so that the estimator knows which are near."""
    if knob.is_ordered:
        return int(trial.suggest_int(knob.path, 0, len(knob.values) - 1))
    return int(trial.suggest_categorical(knob.path, list(range(len(knob.values)))))


def _settings(knobs: Sequence[Knob], place: Sequence[int]) -> dict[str, object]:
    return {each.path: each.values[i] for each, i in zip(knobs, place, strict=True)}


def _fresh(
    knobs: Sequence[Knob],
    seen: Mapping[tuple[int, ...], Measurement | None],
    goal: Goal,
    drawn: random.Random,
) -> tuple[int, ...]:
    """A place not seen: beside the best (one knob one step, or another word), or anywhere."""
    measured = [(goal.rank(found), place) for place, found in seen.items() if found is not None]
    if measured:
        _, best = min(measured)
        beside = []
        for at, knob in enumerate(knobs):
            here = best[at]
            near = [here - 1, here + 1] if knob.is_ordered else range(len(knob.values))
            places = ((*best[:at], i, *best[at + 1 :]) for i in near if 0 <= i < len(knob.values))
            beside += [place for place in places if place not in seen]
        if beside:
            return drawn.choice(beside)
    if 2 * len(seen) < space.size(knobs):
        while (place := tuple(drawn.randrange(len(each.values)) for each in knobs)) in seen:
            pass
        return place
    everywhere = itertools.product(*(range(len(each.values)) for each in knobs))
    return drawn.choice([place for place in everywhere if place not in seen])


def _bytes(size: object) -> int:
    """A size of a resolved scenario: a number of bytes, or text such as `24.75 MiB`."""
    return size if isinstance(size, int) else units.size("machine.llc.size", str(size))
