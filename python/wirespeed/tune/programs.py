"""A tuning of a real program from end to end: what was tried, what is best, how to run it.

The search is the simulator's own (`wirespeed.tune.search`), one evaluation at a time, since two programs under test
would measure each other. What differs: measurements have noise. So the best few points of each way of choosing are
started again, in turns, and judged by the median of those starts alone: the best of many noisy measurements is partly
luck. The scenario as it is is measured as often.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from wirespeed.errors import InputError, TargetError
from wirespeed.progress import Callback
from wirespeed.tune import knobs as space
from wirespeed.tune import search
from wirespeed.tune.journal import Journal
from wirespeed.tune.knobs import Knob
from wirespeed.tune.real import DIED, START, Program
from wirespeed.tune.search import Evaluator, Goal, Plan, Point, Tried
from wirespeed.tune.target import Measurement, Settings
from wirespeed.tune.tuning import Tuning, document

EVALUATIONS: Final = 48
STARTS: Final = 3
# So many of each way's best points are started again.
_FINALISTS: Final = 3
# Loss below this is none: what is under way in a ring when a window ends.
NO_LOSS: Final = 1e-4

Predict = Callable[[Settings], Mapping[str, float] | None]
"""What a simulation says of settings, by the metrics' names; None where it cannot."""


def tune_program(
    target: Program,
    knobs: Iterable[str] | Mapping[str, Iterable[object] | str],
    plan: Plan,
    starts: int = STARTS,
    predict: Predict | None = None,
    progress: Callback | None = None,
) -> Tuning:
    """Searches the settings of a program that are best together, on this machine.

    `knobs` and `plan` are as for `wirespeed.tune`. `starts` is how often the best points and the program as it is are
    started for what is told of them. `predict` is asked for each point.

    Raises InputError before anything is started for knobs that cannot be, and TargetError where the program is not
    installed, or dies or hangs as it is. With `died` in the document there were others that did.
    """
    found = space.knobs(knobs)
    goal, evaluations = _judged(plan, starts)
    space.judge(found, target)
    begun = time.monotonic()
    with target.prepared() as notes, Journal(plan.journal, target.identity) as kept:
        evaluator = Evaluator(target, kept, 1, progress)
        with search.resumed(evaluator, plan.journal):
            base = _again([{}], evaluator, starts, "the program as it is")[0]
            if base.found.infeasible is not None:
                raise TargetError(base.found.infeasible)
            ways = [search.joint(found, evaluator, goal, evaluations, plan.batch, plan.seed)]
            _settle(ways, evaluator, goal, starts)
            joint_s = time.monotonic() - begun
            ways.insert(0, search.one_at_a_time(found, evaluator, goal))
            ways += [search.grid(found, evaluator)] if plan.grid else []
            _settle(ways, evaluator, goal, starts)
    candidates = [one for way in ways if (one := way.best(goal)) is not None]
    best = min([*candidates, base], key=lambda point: goal.rank(point.found))
    about = {
        "scenario": target.title,
        "command": target.deploy(best.settings),
        "seed": plan.seed,
        "batch": plan.batch,
        "evaluations": evaluations,
        "starts": starts,
        "ran": evaluator.ran,
        "notes": notes,
        "died": _died([base, *(point for way in ways for point in [*way.points, *way.finalists])]),
        "wall_s": time.monotonic() - begun,
        "joint_wall_s": joint_s,
        "defaults": dict(target.defaults()),
    }
    whole = document(found, goal, base, ways, best, about)
    return Tuning(_predicted(whole, goal, predict) if predict is not None else whole)


def _judged(plan: Plan, starts: int) -> tuple[Goal, int]:
    """What is wanted, and how many points are searched for it. Raises InputError."""
    metric = "cpu_mpps" if plan.metric is None else plan.metric
    evaluations = EVALUATIONS if plan.evaluations is None else plan.evaluations
    if metric not in search.PROGRAM_METRICS:
        raise InputError(f"--metric {metric}: of a real program must be one of {', '.join(search.PROGRAM_METRICS)}")
    goal = Goal(metric, plan.loss_limit)
    for name, value in (("evaluations", evaluations), ("batch", plan.batch), ("starts", starts)):
        if value < 1:
            raise InputError(f"{name} = {value}: must be at least 1")
    return goal, evaluations


def _died(points: Sequence[Point]) -> list[str]:
    """What was said where a start died or hung, each once."""
    said = [point.found.infeasible or "" for point in points if DIED in point.found.values]
    return list(dict.fromkeys(said))


def _settle(ways: Sequence[Tried], evaluator: Evaluator, goal: Goal, starts: int) -> None:
    """Starts the best points of each way again, in turns, and judges by that."""
    wanted: dict[str, Settings] = {}
    of = {}
    for way in ways:
        sound = [point for point in way.points if point.found.infeasible is None]
        of[way.method] = sorted(sound, key=lambda point: goal.rank(point.found))[:_FINALISTS]
        wanted |= {space.key(point.settings): point.settings for point in of[way.method]}
    again = _again(list(wanted.values()), evaluator, starts, "the best again")
    settled = {space.key(point.settings): point for point in again}
    for way in ways:
        way.finalists = [settled[space.key(point.settings)] for point in of[way.method]]


def _again(settings: Sequence[Settings], evaluator: Evaluator, starts: int, phase: str) -> list[Point]:
    """Points by the median of several starts, in turns, so that what changes on the machine meets all alike."""
    rounds = []
    for start in range(1, starts + 1):
        wanted = [{**each, START: start} for each in settings]
        rounds.append(evaluator.measure(wanted, phase, (start - 1) * len(settings), starts * len(settings)))
    return [Point(each, _median([found[place] for found in rounds])) for place, each in enumerate(settings)]


def _median(found: Sequence[Measurement]) -> Measurement:
    failed = next((each for each in found if each.infeasible is not None), None)
    if failed is not None:
        return failed
    names = set.intersection(*(set(each.values) for each in found))
    values = {name: statistics.median(each.values[name] for each in found) for name in sorted(names)}
    for name in ("cpu_mpps", "value"):
        if name in values:
            values["lowest"] = min(each.values[name] for each in found)
            values["highest"] = max(each.values[name] for each in found)
    if "loss" in values:
        values["loss"] = max(each.values["loss"] for each in found)
    values["starts"] = float(len(found))
    return Measurement(values, sum(each.seconds for each in found))


def _predicted(whole: dict[str, Any], goal: Goal, predict: Predict) -> dict[str, Any]:
    """The document with what a simulation says of each point, and how well that orders them."""
    name = search.PROGRAM_METRICS[goal.metric][0]
    known: dict[str, Mapping[str, float] | None] = {}
    for point in [*whole["points"], whole["base"], whole["best"]]:
        key = space.key(point["settings"])
        if key not in known:
            known[key] = predict(point["settings"])
        said = known[key]
        point["predicted"] = None if said is None else said.get(name)
    pairs = [
        (point["predicted"], point["value"])
        for point in whole["points"]
        if point["predicted"] is not None and point["value"] is not None
    ]
    whole["prediction"] = {"points": len(pairs), "rank_correlation": spearman(pairs)}
    return whole


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The rank correlation of pairs; equal values have their mean rank. None for fewer than three, or without spread.

    >>> spearman([(1, 10), (2, 20), (3, 30)])
    1.0
    """
    if len(pairs) < 3:
        return None
    ranks = [_ranks([pair[side] for pair in pairs]) for side in (0, 1)]
    if any(len(set(each)) == 1 for each in ranks):
        return None
    return statistics.correlation(*ranks)


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ordered)))}
    return [first[value] + (ordered.count(value) - 1) / 2 for value in values]


def knobs_of(given: Sequence[str], usual: Mapping[str, str]) -> list[Knob]:
    """The knobs of the command line, or the target's usual ones where none is given."""
    return space.knobs(list(given) if given else [f"{path}={values}" for path, values in usual.items()])
