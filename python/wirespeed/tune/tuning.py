"""A tuning from end to end: what was tried, what is best, how to run it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wirespeed import api, files, scenarios
from wirespeed.errors import InputError, nearest
from wirespeed.progress import Callback
from wirespeed.tune import knobs as space
from wirespeed.tune import search
from wirespeed.tune.journal import Journal
from wirespeed.tune.knobs import Knob
from wirespeed.tune.search import BATCH, Goal, Plan, Point, Tried
from wirespeed.tune.target import Settings, Simulated

SCHEMA: Final = "wirespeed.tuning/1"
DOCUMENT_FILE: Final = "tuning.json"
JOURNAL_FILE: Final = "journal.jsonl"
PAGE_FILE: Final = "tuning.html"
FILES: Final = (DOCUMENT_FILE, PAGE_FILE)
EVALUATIONS: Final = 60


@dataclass(frozen=True, slots=True)
class Tuning:
    """A finished tuning. `document` is all of it, as JSON has it."""

    document: Mapping[str, Any]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The best settings found, by dotted path: what `set` of `wirespeed.run` takes."""
        found: Mapping[str, Any] = self.document["best"]["settings"]
        return found

    @property
    def command(self) -> str:
        """The command line that runs the best settings."""
        return str(self.document["command"])

    def write(self, folder: str | os.PathLike[str], force: bool = False) -> list[Path]:
        """Writes tuning.json and tuning.html, both or none; returns the files.

        Raises OSError where that is impossible, and InputError where links, or without `force` files that wirespeed did
        not write, are in the way.
        """
        from wirespeed.tune.page import page  # drawing costs half a second to import

        texts = {DOCUMENT_FILE: json.dumps(self.document, indent=2) + "\n", PAGE_FILE: page(self.document)}
        return files.write_texts(folder, texts, force=force)

    def __repr__(self) -> str:
        return f"<wirespeed tuning: {self.document['metric']} {self.document['best']['value']} by {self.command}>"


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked for, as the command line or a caller has it; see `tune`."""

    scenario: api.PathLike
    knobs: Iterable[str] | Mapping[str, Iterable[object] | str]
    plan: Plan
    capture: api.PathLike | None = None
    table: api.PathLike | None = None
    set: scenarios.Overrides = None
    jobs: int | None = None


def tune(
    scenario: api.Scenario,
    knobs: Iterable[str] | Mapping[str, Iterable[object] | str],
    metric: str = "carried_mpps",
    loss_limit: float | None = None,
    evaluations: int = EVALUATIONS,
    grid: bool = False,
    seed: int = 0,
    jobs: int | None = None,
    batch: int = BATCH,
    journal: api.PathLike | None = None,
    capture: api.PathLike | None = None,
    table: api.PathLike | None = None,
    set: scenarios.Overrides = None,
    progress: Callback | None = None,
) -> Tuning:
    """Searches the settings of a scenario that are best together, and compares ways to choose them.

    `knobs` maps dotted paths to the values to try: `{"nic.rx_descriptors": [128, 512, 2048], "mempool.size":
    "8192..65536*2"}`. `metric` is carried_mpps, carried_gbps, loss, mean, p50, p99, p999, or ndr and pdr, which
    search the highest rate (without loss; at a loss of `loss_limit`) at every point. `loss_limit` is the largest
    loss, as a share, that the best settings may have. The joint search proposes at most `evaluations` points, `batch`
    at a time; `grid` also runs every combination. `jobs` evaluations run at a time, as many as there are cores if
    None. The result depends on `seed` and `batch`, not on `jobs`. `journal` is a file that keeps measurements: what
    is in it is not run again.

    Raises InputError before anything runs for an unknown setting, a value that is never accepted, a knob given twice
    or without values, or a loss limit outside 0 to 1. Settings that cannot start are no error: they are recorded with
    the reason. Ctrl-C raises KeyboardInterrupt; a journal then holds what is finished.
    """
    plan = Plan(
        metric=metric,
        loss_limit=loss_limit,
        evaluations=evaluations,
        grid=grid,
        seed=seed,
        batch=batch,
        journal=journal,
    )
    return run(Ask(scenarios.as_text(scenario), knobs, plan, capture, table, set, jobs), progress)


def run(ask: Ask, progress: Callback | None = None) -> Tuning:
    """As `tune`, of what is asked for."""
    plan = ask.plan
    metric = "carried_mpps" if plan.metric is None else plan.metric
    evaluations = EVALUATIONS if plan.evaluations is None else plan.evaluations
    jobs = (os.cpu_count() or 1) if ask.jobs is None else ask.jobs
    found = space.knobs(ask.knobs)
    if metric not in search.METRICS:
        raise InputError(
            f"--metric {metric}: must be one of {', '.join(search.METRICS)}{nearest(metric, search.METRICS)}"
        )
    goal = Goal(metric, plan.loss_limit)
    for name, value in (("evaluations", evaluations), ("batch", plan.batch), ("jobs", jobs)):
        if value < 1:
            raise InputError(f"{name} = {value}: must be at least 1")
    overrides = [*scenarios.overrides(ask.set), *_searching(goal)]
    target = Simulated(ask.scenario, ask.capture, ask.table, overrides)
    space.judge(found, target)
    with Journal(plan.journal, target.identity) as kept:
        evaluator = search.Evaluator(target, kept, jobs, progress)
        with search.resumed(evaluator, plan.journal):
            (base,) = evaluator.measure([{}], "the scenario as it is", 0, 1)
            if base.infeasible is not None:
                raise InputError(base.infeasible)
            ways = [
                search.resq(found, evaluator, target, target.resolved),
                search.one_at_a_time(found, evaluator, goal),
                search.joint(found, evaluator, goal, evaluations, plan.batch, plan.seed),
            ]
            ways += [search.grid(found, evaluator)] if plan.grid else []
    tried = [way for way in ways if way.points]
    best = min((one for way in tried if (one := way.best(goal))), key=lambda point: goal.rank(point.found))
    about = {
        "scenario": os.fspath(ask.scenario),
        "seed": plan.seed,
        "batch": plan.batch,
        "evaluations": evaluations,
        "ran": evaluator.ran,
        "command": _command(ask, [*overrides, *_spelled(best.settings)]),
    }
    return Tuning(document(found, goal, Point({}, base), ways, best, about))


def _command(ask: Ask, overrides: Sequence[str]) -> str:
    """The command line that runs the scenario with these settings."""
    command = ["wirespeed", "run", os.fspath(ask.scenario)]
    for option, given in (("--capture", ask.capture), ("--table", ask.table)):
        command += [option, os.fspath(given)] if given is not None else []
    return shlex.join([*command, *(text for override in overrides for text in ("--set", override))])


def _searching(goal: Goal) -> list[str]:
    if goal.metric not in ("ndr", "pdr"):
        return []
    limit = [f"run.loss_limit={goal.loss_limit!r}"] if goal.loss_limit is not None else []
    return [f'run.search="{goal.metric}"', *limit]


def document(
    knobs: Sequence[Knob],
    goal: Goal,
    base: Point,
    ways: Sequence[Tried],
    best: Point,
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """A tuning as JSON has it; `about` has what else there is to say, at least `scenario` and `command`."""
    tried = [way for way in ways if way.points]
    points = {space.key(point.settings): point for way in tried for point in way.points} | {space.key({}): base}
    points |= {space.key(point.settings): point for way in tried for point in way.finalists}
    front = _front(list(points.values()), goal)
    return {
        "schema": SCHEMA,
        "metric": goal.metric,
        "direction": goal.direction,
        "loss_limit": goal.loss_limit,
        **about,
        "knobs": {each.path: list(each.values) for each in knobs},
        "points_of_the_grid": space.size(knobs),
        "base": _point(base, goal, base),
        "methods": [_method(way, goal, base) for way in ways],
        "best": _point(best, goal, base),
        "keeps_the_limit": goal.is_met(best.found),
        "points": [
            _point(point, goal, base)
            | {"methods": [way.method for way in tried if _has(way, name)], "on_front": name in front}
            for name, point in points.items()
        ],
    }


def _spelled(settings: Settings) -> list[str]:
    """Overrides as one types them: words without quotes."""
    return [
        f"{path}={value}" if isinstance(value, str) else scenarios.overrides({path: value})[0]
        for path, value in settings.items()
    ]


def _method(way: Tried, goal: Goal, base: Point) -> dict[str, Any]:
    best = way.best(goal)
    return {
        "method": way.method,
        "note": way.note,
        "best": _point(best, goal, base) if best is not None else None,
        "evaluations": len(way.points),
        "infeasible": sum(point.found.infeasible is not None for point in way.points),
        "seconds": sum(point.found.seconds for point in way.points),
    }


def _point(point: Point, goal: Goal, base: Point) -> dict[str, Any]:
    return {
        "settings": dict(point.settings),
        "value": goal.value(point.found),
        "loss": point.found.values.get("loss"),
        "keeps_the_limit": goal.is_met(point.found),
        "gain_pct": goal.gain_pct(point.found, base.found),
        "values": dict(point.found.values),
        "seconds": point.found.seconds,
        "infeasible": point.found.infeasible,
    }


def _has(way: Tried, name: str) -> bool:
    return any(space.key(point.settings) == name for point in way.points)


def _front(points: Sequence[Point], goal: Goal) -> frozenset[str]:
    """The points that no other one beats in both metric and loss (Pareto front)."""
    sign = -1.0 if goal.direction == "maximize" else 1.0
    costs = [
        (found.values["loss"], sign * value, space.key(point.settings))
        for point in points
        for found in [point.found]
        if (value := goal.value(found)) is not None and "loss" in found.values
    ]
    front: dict[str, None] = {}  # in order
    least = float("inf")
    for _, cost, name in sorted(costs):
        if cost < least:
            least = cost
            front[name] = None
    return frozenset(front)
