"""The page without a server: what `server` does, for a worker of a browser, which has neither threads nor files.

A worker asks by name and gets JSON. Runs are another worker's: `wanted` says what to run, `ran` what came of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from wirespeed import _wirespeed
from wirespeed.errors import InputError
from wirespeed.explore import answers, runs, talk
from wirespeed.explore.answers import Told
from wirespeed.explore.place import Given, Place
from wirespeed.explore.runs import Runs
from wirespeed.explore.talk import Refined, RefusedError, Talk
from wirespeed.result import Result
from wirespeed.slowest import Slowest
from wirespeed.stored import TABLES

GIVEN: Final = "forwarding"
"""The scenario that the page begins with."""


class Page:
    """What is kept between questions of one page."""

    def __init__(self, capture: str | None = None) -> None:
        """`capture` is a file of the page, which all packets are taken from. Raises InputError."""
        self._talk = _Alone(Given(GIVEN, capture=None if capture is None else Path(capture)))

    def ask(self, what: str, question: str, found: Any = None) -> str:
        """The answer to a question as a list of what the page is told; `found` is what the other worker has run."""
        try:
            document = json.loads(question)
            told = list(self._told(what, document, found))
        except (InputError, RefusedError) as e:
            told = [answers.refused(e)]
        except Exception as e:
            told = [answers.bug(e)]
        return json.dumps(told)

    def _told(self, what: str, document: Mapping[str, Any], found: Any) -> Iterator[Told]:
        if what == "scene":
            yield answers.scene(self._talk, str(document.get("scenario", "")))
            return
        asked = talk.asked(document)
        if what == "answer":
            yield answers.first(self._talk, asked)
        elif what == "form":
            yield from answers.formed(self._talk.profiled(asked))
        elif what == "wanted":
            yield self._talk.wanted(asked, document["kind"])
        else:
            results = [_result(each) for each in json.loads(found)]
            refined = Refined(dict(zip(asked.machines, results, strict=True)), document["seconds"])
            yield from answers.ran(document["kind"], refined, self._talk.comparison(asked))


class _Alone(Talk):
    """A talk in one thread: nothing is under way while it answers, and it begins no run."""

    def _begin(self) -> None:
        """Looks ahead at nothing: the worker has other questions to answer."""

    def _other(self, scenario: str) -> Given:
        """A file of the page is replayed in all scenarios."""
        return Given(scenario, capture=self._given.capture)

    def _runs(self, place: Place) -> Runs:
        return _NoRuns(place)

    def profiled(self, about: talk.Asked) -> dict[str, Any]:
        """Closed forms by side, of this very machine: what was not profiled is profiled now."""
        scene = self._scene(about.scenario)
        self._judge(scene, about)
        found: dict[str, Any] = {}
        for side, chosen in about.machines.items():
            try:
                scene.forms.measure(chosen)
                found[side] = scene.forms.answer(chosen)
            except InputError as e:
                found[side] = str(e)
        return found

    def wanted(self, about: talk.Asked, kind: str) -> Told:
        """What to run, as the simulator is asked, and what to say meanwhile."""
        scene = self._scene(about.scenario)
        self._judge(scene, about)
        is_long = kind == "long"
        settings = runs.settings(runs.LONG if is_long else runs.PACKETS, talk.LOADS if is_long else ())
        scenarios = [scene.place.judge(chosen, settings).resolved for chosen in about.machines.values()]
        near = scene.place.judge({}, runs.settings(runs.PACKETS, ())).resolved
        words = talk.long_words() if is_long else talk.short_words()
        phases = {phase: talk.said_of(phase, words) for phase in ("load", "warm-up", "run")}
        question = {"what": "run", "scenarios": scenarios, "near": near, "same_packets": True}
        return {"question": question, "phases": phases}


class _NoRuns(Runs):
    """Runs of a page: those of the other worker."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def close(self) -> None:
        """Nothing is under way here."""


class _Ran(Result):
    """A run of the other worker, whose tables stay there."""

    def slowest(self) -> Slowest | None:
        """Not told: it is a question to the table of packets."""
        return None


def _result(told: Mapping[str, Any]) -> Result:
    run: Any = _wirespeed.Run(**told)  # the page's own extension: see crates/web
    tables: dict[str, Any] = dict.fromkeys(TABLES)
    return _Ran(run.summary_json, run.resolved, tables, run, None)
