"""Closed forms while the hand moves: an answer at once, from what was profiled before.

A profile (see `wirespeed.predict`) takes some 0.4 s and answers for any load in microseconds. What was profiled is
answered as it is. Anything else begins at the profile that differs in the fewest controls, and takes for each of these
the factor that the same move had where it was profiled: moves are taken to multiply, and an answer says so. It says
too which settings of its machine closed forms do not look at; a machine with a GPU has none.
"""

from __future__ import annotations

import json
import threading
import tomllib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from wirespeed import _wirespeed, predict
from wirespeed import quantities as q
from wirespeed.errors import InputError
from wirespeed.explore.controls import LOAD, Control
from wirespeed.explore.place import Chosen, Place
from wirespeed.summary import Predicted

PACKETS: Final = 10_000
"""Packets of a profile's scenario: caches are filled for a run as long as this, and more is slower."""
CURVE: Final = tuple(step / 10 for step in range(1, 11))
# A choice of so many is looked at ahead early.
_FEW: Final = 10
# Profiles that are kept: the first 60 of `forwarding` take 15 MiB.
_MOST: Final = 1000
_FACTORED: Final = (
    *("offered_mpps", "rejected_mpps", "capacity_mpps", "service_ns", "waiting_ns", "sojourn_ns"),
    *("utilisation", "cpi", "dram_utilisation"),
)
_OFFERED: Final = "offered load"
_GPU: Final = "machine.gpu: closed forms let cores work on all packets; runs know the GPU"
Key = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What closed forms say of a machine, and over loads."""

    found: Mapping[str, Any]
    curve: list[Predicted]
    factored: tuple[str, ...] = ()
    """Labels of controls whose moves were profiled elsewhere, and taken over as factors."""
    unseen: tuple[str, ...] = ()
    """Labels of controls whose moves nobody has profiled: of them the answer knows nothing."""
    left_out: tuple[str, ...] = ()
    """Settings that closed forms do not look at, and what is taken in their place."""

    @property
    def is_profiled(self) -> bool:
        """Whether this very machine was profiled."""
        return not (self.factored or self.unseen)

    @property
    def is_exact(self) -> bool:
        """Whether this very machine was profiled, and all of it looked at."""
        return self.is_profiled and not self.left_out


@dataclass(frozen=True, slots=True)
class _Known:
    profile: _wirespeed.Profile
    ceiling: float

    def at(self, load: float | None) -> dict[str, Any]:
        return predict.within(json.loads(self.profile.predict(load)), self.ceiling)


class Forms:
    """The profiles of a place."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: OrderedDict[Key, _Known] = OrderedDict()
        self._refused: dict[Key, str] = {}
        self._lock = threading.Lock()
        self._one = threading.Lock()

    def has(self, chosen: Chosen) -> bool:
        """Whether this machine was profiled, whatever its load, or has no closed form."""
        key = _key(chosen)
        with self._lock:
            return key in self._known or key in self._refused

    def measure(self, chosen: Chosen) -> None:
        """Profiles a machine, if it was not. Raises InputError for one that has no closed form."""
        key = _key(chosen)
        with self._one:  # two at a time would each take twice as long
            if not self.has(chosen):
                self._measure(key)
        if (why := self._refused.get(key)) is not None:
            raise InputError(why)

    def _measure(self, key: Key) -> None:
        packets = min(PACKETS, int(self._place.resolved["run"]["packets"]))
        scenario = self._place.judge(dict(key), [f"run.packets={packets}", "run.curve=[]"])
        try:
            resolved = tomllib.loads(scenario.resolved)
            if resolved["machine"].get("gpu"):
                raise InputError(_GPU)
            found = _Known(_wirespeed.Profile(scenario), predict.nic_ceiling(resolved))
        except InputError as e:
            with self._lock:
                self._refused[key] = str(e)
            return
        with self._lock:
            self._known[key] = found
            while len(self._known) > _MOST:
                del self._known[next(each for each in self._known if each)]

    def answer(self, chosen: Chosen) -> Answer | None:
        """An answer at once; None where nothing was profiled yet. Raises InputError where there is no closed form."""
        load = float(chosen[LOAD]) if chosen.get(LOAD) else None
        with self._lock:
            if (why := self._refused.get(_key(chosen))) is not None:
                raise InputError(why)
            known = dict(self._known)
        wanted = dict(_key(chosen))
        if not known:
            return None
        begin = min(known, key=lambda each: len(_differing(dict(each), wanted)))
        moves, factored, unseen = [], [], []
        for name in _differing(dict(begin), wanted):
            control = self._place.controls[name]
            found = self._move(known, control, dict(begin).get(name, ""), wanted.get(name, ""))
            if found is None:
                unseen.append(control.label)
            else:
                moves.append(found[0])
                factored.append(found[1])
        return Answer(
            found=_at(known[begin], moves, load),
            left_out=_left_out([known[begin], *(after for _, after in moves)], load),
            curve=[_point(_at(known[begin], moves, each), each) for each in CURVE],
            factored=tuple(factored),
            unseen=tuple(unseen),
        )

    @staticmethod
    def _move(
        known: Mapping[Key, _Known], control: Control, before: str, after: str
    ) -> tuple[tuple[_Known, _Known], str] | None:
        """Profiles before and after a move, and its name; of a slider the nearest move there is."""
        at = _index(control, after)
        places = range(len(control.positions)) if control.kind == "slider" and at is not None else ()
        nearest = sorted(places, key=lambda place: abs(place - (at or 0)))
        for value in (after, *(control.positions[place].value for place in nearest)):
            pair = None if value == before else _pair(known, control.name, before, value)
            if pair is not None:
                label = control.label if value == after else f"{control.label} as at {control.words(value)}"
                return (known[pair[0]], known[pair[1]]), label
        return None


def ahead(controls: Iterable[Control], chosen: Chosen) -> Iterator[dict[str, str]]:
    """The machines that a hand may move to next, the nearest first: steps of sliders, and from the start all else."""
    movable = [each for each in controls if each.name != LOAD]
    sliders = [each for each in movable if each.kind == "slider"]
    few = [each for each in movable if each.kind == "choice" and len(each.positions) <= _FEW]
    many = [each for each in movable if each.kind == "choice" and each not in few]
    yield from _steps(sliders, chosen, 1)
    if chosen:
        return
    for others, step in ((few, 2), ([each for each in movable if each.kind == "switch"], 3)):
        for each in others:
            yield from (_with(chosen, each.name, position.value) for position in each.positions if position.value)
        yield from _steps(sliders, chosen, step)
    for step in range(4, max((len(each.positions) for each in sliders), default=0)):
        yield from _steps(sliders, chosen, step)
    for each in many:
        yield from (_with(chosen, each.name, position.value) for position in each.positions if position.value)


def _steps(sliders: Iterable[Control], chosen: Chosen, step: int) -> Iterator[dict[str, str]]:
    """Each slider so many positions up, and down."""
    for each in sliders:
        at = _index(each, chosen.get(each.name, ""))
        for to in () if at is None else (at + step, at - step):
            if 0 <= to < len(each.positions):
                yield _with(chosen, each.name, each.positions[to].value)


def _index(control: Control, value: str) -> int | None:
    return next((place for place, each in enumerate(control.positions) if each.value == value), None)


def _with(chosen: Chosen, name: str, value: str) -> dict[str, str]:
    moved = {**chosen, name: value}
    return {name: value for name, value in moved.items() if value}


def _key(chosen: Chosen) -> Key:
    return frozenset((name, value) for name, value in chosen.items() if name != LOAD and value)


def _differing(a: Chosen, b: Chosen) -> list[str]:
    return [name for name in {**a, **b} if a.get(name, "") != b.get(name, "")]


def _pair(known: Mapping[Key, _Known], name: str, before: str, after: str) -> tuple[Key, Key] | None:
    """Two profiles that differ in this move alone."""
    for key in known:
        values = dict(key)
        if values.get(name, "") == after and (other := _key(_with(values, name, before))) in known:
            return other, key
    return None


def _at(begin: _Known, moves: list[tuple[_Known, _Known]], load: float | None) -> dict[str, Any]:
    found = begin.at(load)
    bounds = [found["bound"]]
    for before, after in moves:
        one, other = before.at(load), after.at(load)
        bounds.append(other["bound"])
        for name in _FACTORED:
            found[name] = _factored(found.get(name), one.get(name), other.get(name))
    if not moves:
        return found
    offered, capacity = found["offered_mpps"], found["capacity_mpps"]
    is_full = q.is_number(offered) and q.is_number(capacity) and offered > capacity
    found["carried_mpps"] = capacity if is_full else (offered or 0.0) - (found["rejected_mpps"] or 0.0)
    full = next((each for each in bounds if each != _OFFERED), "not known")
    found["bound"] = full if is_full else _OFFERED
    if is_full:
        found["sojourn_ns"] = found["waiting_ns"] = None
    found["long_queues"] = predict.has_long_queues(found)
    return found


def _left_out(profiles: Iterable[_Known], load: float | None) -> tuple[str, ...]:
    """What any of them leaves out, each once."""
    return tuple(dict.fromkeys(words for each in profiles for words in each.at(load)["left_out"]))


def _factored(value: float | None, before: float | None, after: float | None) -> float | None:
    if value is None or before is None or after is None:
        return None
    return value * after / before if before else value + after


def _point(found: Mapping[str, Any], load: float) -> Predicted:
    point: Predicted = {"load": load, "offered_mpps": found["offered_mpps"], "carried_mpps": found["carried_mpps"]}
    if found["sojourn_ns"] is not None:
        point["mean_ns"] = found["sojourn_ns"]
    return point
