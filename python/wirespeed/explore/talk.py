"""What a page asks and is told: answers at once, and a stream of finer ones that ends when the hand moves on."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final

from wirespeed import comparing, predict, scenarios
from wirespeed import quantities as q
from wirespeed.errors import InputError, nearest
from wirespeed.explore import runs
from wirespeed.explore.controls import Control
from wirespeed.explore.forms import Answer, Forms, ahead
from wirespeed.explore.place import Chosen, Given, Place
from wirespeed.explore.runs import Go, Runs, StoppedError
from wirespeed.result import Comparison, Result

Told = dict[str, Any]
SIDES: Final = ("a", "b")
# Scenarios that are kept warm: tables of each take some 100 MiB.
_MOST: Final = 2
# Pages whose last move is remembered.
_PAGES: Final = 64
_LONGEST: Final = 80
_PHASES: Final = {"": "Beginning", "load": "Reading", "warm-up": "Warm-up", "run": "Under way"}
LOADS: Final = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page asks about."""

    scenario: str
    page: str
    turn: int
    a: Chosen
    b: Chosen | None = None
    side: str = "a"
    moved: str = ""
    """The side and the control that were moved last."""

    @property
    def machines(self) -> dict[str, Chosen]:
        """The machines by side."""
        return {"a": self.a} if self.b is None else {"a": self.a, "b": self.b}


def asked(document: object) -> Asked:
    """What a page sent. Raises InputError for what is no question."""
    if not isinstance(document, Mapping):
        raise InputError("a question is a JSON object")
    a, b = (_chosen(document.get(side)) for side in SIDES)
    turn = document.get("turn")
    if not isinstance(turn, int):
        raise InputError("turn: must be a whole number")
    words = [str(document.get(name, ""))[:_LONGEST] for name in ("scenario", "page", "side", "moved")]
    return Asked(words[0], words[1], turn, a or {}, b, words[2] if words[2] in SIDES else "a", words[3])


def _chosen(found: object) -> dict[str, str] | None:
    if found is None:
        return None
    if not isinstance(found, Mapping) or not all(isinstance(each, str) for pair in found.items() for each in pair):
        raise InputError("a, b: must be objects of texts, control by control")
    long = next((name for name, value in found.items() if max(len(name), len(value)) > _LONGEST), None)
    if long is not None:
        raise InputError(f"{long[:_LONGEST]}: is longer than {_LONGEST} characters")
    return {name: value for name, value in found.items() if value}


class RefusedError(Exception):
    """Settings that are refused: the message of each side, with the control beside which it belongs."""

    def __init__(self, faults: dict[str, tuple[str, str]]) -> None:
        super().__init__("; ".join(message for message, _ in faults.values()))
        self.faults = faults


@dataclass(slots=True)
class _Scene:
    place: Place
    forms: Forms
    runs: Runs


class Talk:
    """All that is kept between questions. Threads of the server share it."""

    def __init__(self, given: Given, threads: int | None = None, refused: runs.Refused | None = None) -> None:
        """Raises InputError for a scenario that cannot be explored; `refused` is told files that were not used."""
        self._given = given
        self._threads = threads
        self._refused = refused
        self._scenes: OrderedDict[str, _Scene] = OrderedDict()
        self._lock = threading.Lock()
        # One run at a time: two would each take twice as long.
        self._running = threading.Lock()
        self._turns: OrderedDict[str, int] = OrderedDict()
        self._ended = threading.Event()
        self._moved = threading.Event()
        self._last: tuple[_Scene, Asked] | None = None
        self._scene(given.scenario)
        self._begin()

    def _begin(self) -> None:
        """Looks ahead from here on."""
        self._thread = threading.Thread(target=self._look_ahead, daemon=True)
        self._thread.start()

    @property
    def scenarios(self) -> list[str]:
        """What can be explored: what was given, then what is shipped."""
        return list(dict.fromkeys([self._given.scenario, *scenarios.scenario_names()]))

    def place(self, scenario: str) -> Place:
        """A scenario by its name. Raises InputError."""
        return self._scene(scenario).place

    def comparison(self, about: Asked) -> str | None:
        """The command line that compares both machines; None where there is none."""
        return None if about.b is None else self._scene(about.scenario).place.comparison(about.a, about.b)

    def close(self) -> None:
        """Ends what is under way."""
        self._ended.set()
        self._moved.set()
        for each in list(self._scenes.values()):
            each.runs.close()
        self._thread.join(timeout=5)

    def answer(self, about: Asked) -> Iterator[tuple[str, Any]]:
        """Closed forms at once, by side: an Answer, or why there is none. What is under way for the page ends.

        Raises InputError, and RefusedError for settings that are refused.
        """
        self._turn(about)
        scene = self._scene(about.scenario)
        self._judge(scene, about)
        for side, chosen in about.machines.items():
            yield side, self._formed(scene, chosen)

    def refine(self, about: Asked) -> Iterator[tuple[str, Any]]:
        """What comes after: `progress`, then `form`, `short`, `long` by what was found. Ends when the hand moves on.

        Raises InputError, and RefusedError for settings that are refused.
        """
        self._turn(about)
        scene = self._scene(about.scenario)
        self._judge(scene, about)
        try:
            with self._alone(about):
                self._last = (scene, about)
                yield from self._refined(scene, about)
        except StoppedError:
            yield "stopped", None
        finally:
            self._moved.set()

    def _refined(self, scene: _Scene, about: Asked) -> Iterator[tuple[str, Any]]:
        begun = time.perf_counter()
        machines = list(about.machines.values())

        def form(_: Go) -> dict[str, Answer | str | None]:
            for chosen in machines:
                with contextlib.suppress(InputError):  # told with the answer
                    scene.forms.measure(chosen)
            return {side: self._formed(scene, chosen) for side, chosen in about.machines.items()}

        def run(packets: int, loads: Sequence[float]) -> Callable[[Go], Refined]:
            def whole(go: Go) -> Refined:
                scene.runs.await_warm(go)
                found = scene.runs.run(machines, packets, loads, go)
                return Refined(dict(zip(about.machines, found, strict=True)), time.perf_counter() - begun)

            return whole

        # A profile takes half a second: the run does not wait for it.
        works: dict[str, Callable[[Go], Any]] = {"short": run(runs.PACKETS, ())}
        if not all(scene.forms.has(chosen) for chosen in machines):
            works["form"] = form
        yield from self._watched(about, works, short_words())
        words = long_words()
        yield from self._watched(about, {"long": run(runs.LONG, LOADS)}, words)

    def _watched(self, about: Asked, works: Mapping[str, Callable[[Go], Any]], words: str) -> Iterator[tuple[str, Any]]:
        """Works on a thread each: tells the progress of all, and what each has found. Raises what they raise."""
        told: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        left = threading.Event()

        def go(phase: str, done: int, total: int) -> bool:
            said = said_of(phase, words)
            told.put(("progress", {"words": said, "done": done, "total": total}))
            return self._is_current(about) and not left.is_set()

        def whole(name: str, work: Callable[[Go], Any]) -> None:
            try:
                told.put((name, work(go)))
            except BaseException as e:
                told.put(("raised", e))

        threads = {name: threading.Thread(target=whole, args=(name, work), daemon=True) for name, work in works.items()}
        for thread in threads.values():
            thread.start()
        waiting = set(works)
        try:
            while waiting:
                kind, found = told.get()
                if kind == "raised":
                    raise found
                waiting.discard(kind)
                # What was drawn meanwhile is late: of progress the last is told.
                if kind != "progress" or told.empty():
                    yield kind, found
        finally:
            left.set()  # who asked may be gone: a generator that is closed ends its runs
            for name, thread in threads.items():
                if name != "form":  # a profile goes on: it is kept, and nobody has to wait for it
                    thread.join()

    def _judge(self, scene: _Scene, about: Asked) -> None:
        faults = {}
        for side, chosen in about.machines.items():
            try:
                scene.place.judge(chosen, [])
            except InputError as e:
                moved = about.moved if about.side == side else ""
                faults[side] = (str(e), scene.place.blamed(str(e), chosen, moved))
        if faults:
            raise RefusedError(faults)

    @staticmethod
    def _formed(scene: _Scene, chosen: Chosen) -> Answer | str | None:
        try:
            return scene.forms.answer(chosen)
        except InputError as e:
            return str(e)

    def _scene(self, scenario: str) -> _Scene:
        """A scenario's scene; one that is new is made. Only names that are offered are read."""
        with self._lock:
            if (found := self._scenes.get(scenario)) is not None:
                self._scenes.move_to_end(scenario)
                return found
            if scenario not in self.scenarios:
                known = self.scenarios
                raise InputError(
                    f"scenario `{scenario}`: is not offered here{nearest(scenario, known)}; "
                    f"offered are {', '.join(known)}"
                )
            place = Place(self._given if scenario == self._given.scenario else self._other(scenario))
            made = _Scene(place, Forms(place), self._runs(place))
            self._scenes[scenario] = made
            while len(self._scenes) > _MOST:
                _, old = self._scenes.popitem(last=False)
                threading.Thread(target=old.runs.close, daemon=True).start()
            return made

    def _other(self, scenario: str) -> Given:
        """What is said of a scenario that the command line does not name."""
        return Given(scenario)

    def _runs(self, place: Place) -> Runs:
        return Runs(place, self._threads, self._refused)

    def _turn(self, about: Asked) -> None:
        with self._lock:
            self._turns[about.page] = max(about.turn, self._turns.get(about.page, about.turn))
            self._turns.move_to_end(about.page)
            while len(self._turns) > _PAGES:
                self._turns.popitem(last=False)

    def _is_current(self, about: Asked) -> bool:
        return self._turns.get(about.page) == about.turn and not self._ended.is_set()

    @contextlib.contextmanager
    def _alone(self, about: Asked) -> Iterator[None]:
        while not self._running.acquire(timeout=0.05):
            if not self._is_current(about):
                raise StoppedError
        try:
            if not self._is_current(about):
                raise StoppedError
            yield
        finally:
            self._running.release()

    def _look_ahead(self) -> None:
        """Profiles machines that the hand may move to next, whenever nothing runs.

        No error ends it: nobody has asked yet, and who asks for that machine is told.
        """
        for scene in list(self._scenes.values()):
            with contextlib.suppress(Exception):
                scene.forms.measure({})
        while not self._ended.is_set():
            self._moved.wait()
            self._moved.clear()
            if self._last is not None and not self._ended.is_set():
                with contextlib.suppress(Exception):
                    self._profile_near(*self._last)

    def _profile_near(self, scene: _Scene, about: Asked) -> None:
        controls: list[Control] = list(scene.place.controls.values())
        starts = list(about.machines.values())
        for chosen in [*starts, *([{}] if {} not in starts else [])]:
            for near in ({}, *ahead(controls, chosen)):
                if self._ended.is_set() or self._running.locked() or self._moved.is_set():
                    return
                if not scene.forms.has(near):
                    with contextlib.suppress(Exception):
                        scene.forms.measure(near)


def said_of(phase: str, words: str) -> str:
    """What a page says while a run is in a phase."""
    return f"{_PHASES.get(phase, phase.capitalize())}: {words}"


def long_words() -> str:
    """What the second run is."""
    return f"run of {q.count(runs.LONG)} packets, and of {len(LOADS)} loads"


def short_words() -> str:
    """What the first run is."""
    return f"run of {q.count(runs.PACKETS)} packets"


@dataclass(frozen=True, slots=True)
class Refined:
    """Runs by side, and what they took with all before them."""

    results: Mapping[str, Result]
    seconds: float

    @property
    def pair(self) -> Comparison | None:
        """Both beside each other."""
        if len(self.results) < len(SIDES):
            return None
        a, b = (self.results[side] for side in SIDES)
        return Comparison.of(a, b)


def difference(pair: Comparison) -> tuple[str, list[list[str]]]:
    """What runs differ in, as `wirespeed compare` has it: a sentence, and rows."""
    return comparing.sentence(pair), [list(row) for row in comparing.rows(pair)]


def formed_difference(a: Answer, b: Answer) -> str:
    """The same by closed forms."""
    parts = []
    for name, label, say in _COMPARED:
        one, other = a.found.get(name), b.found.get(name)
        if q.is_number(one) and q.is_number(other) and one:
            percent = 100 * (other / one - 1)
            if abs(percent) >= comparing.LEAST_PCT:
                parts.append(f"{label} {q.change(percent)} ({say(one)} to {say(other)})")
    told = ", ".join(parts)
    about = "" if a.is_exact and b.is_exact else "about "
    return f"By closed forms, b beside a: {about}{told}." if told else "By closed forms b differs by less than 1 %."


def sentence(answer: Answer) -> str:
    """The answer of closed forms; what is not known is left out."""
    if answer.is_exact:
        return predict.sentence(answer.found)
    found = answer.found
    offered, capacity, stays = (found[name] for name in ("offered_mpps", "capacity_mpps", "sojourn_ns"))
    could = "" if capacity is None else f" and could carry about {q.mpps(capacity)}"
    part = "all" if predict.carries_all(found) else f"about {q.mpps(found['carried_mpps'])}"
    about = f"Carries {part} of {q.mpps(offered)} offered{could}"
    if stays is None:
        return f"{about}; queues grow without end." if answer.is_profiled else f"{about}."
    long = ", queues are long here" if predict.has_long_queues(found) else ""
    return f"{about}; a packet stays about {q.duration(stays)}{long}."


_COMPARED: Final = (
    ("carried_mpps", "carried", q.mpps),
    ("capacity_mpps", "capacity", q.mpps),
    ("sojourn_ns", "mean sojourn", q.duration),
    ("cpi", "CPI", q.digits),
)
