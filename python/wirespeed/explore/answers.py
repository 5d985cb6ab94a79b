"""What a page is sent: parts of it as HTML, made by the report's templates."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from wirespeed import _wirespeed, predict, report
from wirespeed import quantities as q
from wirespeed.explore import talk
from wirespeed.explore.forms import Answer
from wirespeed.explore.talk import Asked, Refined, RefusedError, Talk
from wirespeed.report import live, shell
from wirespeed.summary import headline

Told = dict[str, Any]
_BUG: Final = "this is a bug; please report it with what was chosen"


def page(about: Talk, given: str) -> str:
    """The page itself."""
    return live.page(given, about.scenarios, _wirespeed.version())


def scene(about: Talk, scenario: str) -> Told:
    """The controls of a scenario. Raises InputError."""
    place = about.place(scenario)
    drawn = {side: live.controls(place.controls.values(), side) for side in talk.SIDES}
    return {"title": place.title, "controls": drawn}


def first(about: Talk, asked: Asked) -> Told:
    """What closed forms say at once. Raises InputError and RefusedError."""
    begun = time.perf_counter()
    place = about.place(asked.scenario)
    found = dict(about.answer(asked))
    told = _formed(found)
    spent = time.perf_counter() - begun
    for side, chosen in asked.machines.items():
        told["sides"][side] |= {"command": place.command(chosen), "stage": f"Closed forms, {q.duration(spent * 1e9)}."}
    return told


def finer(about: Talk, asked: Asked) -> Iterator[Told]:
    """What comes after, piece by piece. Raises InputError and RefusedError."""
    has_run = False
    for kind, found in about.refine(asked):
        has_run = has_run or isinstance(found, Refined)
        if kind == "progress":
            yield {"progress": found}
        elif kind == "form" and not has_run:  # what was run says more
            yield from formed(found)
        elif isinstance(found, Refined):
            yield from ran(kind, found, about.comparison(asked))


def formed(found: Mapping[str, Answer | str | None]) -> Iterator[Told]:
    """What closed forms say once all is profiled: words at once, then pictures."""
    yield _formed(found) | {"kind": "form"}
    yield {"sides": {side: _curves(each) for side, each in found.items()}, "kind": "formPictures"}


def ran(kind: str, found: Refined, comparison: str | None) -> Iterator[Told]:
    """What runs found: verdicts at once, then a picture a side. `comparison` is the command that compares both."""
    yield _refined(found, comparison) | {"kind": kind}
    for side, result in found.results.items():
        drawn = report.pictures(result.summary, result.slowest(), f"{side}-")
        yield {"sides": {side: {"pictures": drawn}}, "kind": f"{kind}Pictures"}


def refused(error: Exception) -> Told:
    """An error as a page shows it."""
    if isinstance(error, RefusedError):
        return {"faults": {side: list(fault) for side, fault in error.faults.items()}}
    return {"error": str(error)}


def bug(error: Exception) -> Told:
    """An error that is no input's fault, as a page shows it: its traceback is no reader's."""
    words = f"{_BUG} ({_wirespeed.version()}): {type(error).__name__}: {error}"
    return {"error": words}


def line(told: Told) -> bytes:
    """A piece as a line of JSON."""
    # Half a surrogate pair, which a question may hold, has no UTF-8: its escape is JSON.
    return json.dumps(told, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def _formed(found: Mapping[str, Answer | str | None]) -> Told:
    sides: dict[str, Told] = {
        side: {"verdict": _verdict(each), "says": _words(each), "longQueues": _has_long_queues(each)}
        for side, each in found.items()
    }
    answers = [each for each in found.values() if isinstance(each, Answer)]
    words = [_words(each) for each in found.values()]
    told: Told = {"sides": sides, "told": " ".join(words)}
    if len(found) > 1:
        difference = talk.formed_difference(*answers) if len(answers) == len(found) else ""
        told["difference"] = f"<p>{escape(difference)}</p>"
        told["told"] = difference or told["told"]
    return told


def _has_long_queues(found: Answer | str | None) -> bool:
    return isinstance(found, Answer) and predict.has_long_queues(found.found)


def _words(found: Answer | str | None) -> str:
    if isinstance(found, Answer):
        return talk.sentence(found)
    return "Profiling: the first answer comes with it." if found is None else f"No closed form: {found}"


def _verdict(found: Answer | str | None) -> str:
    if not isinstance(found, Answer):
        return f'<p class="warning">{escape(_words(found))}</p>'
    about = (found.factored, found.unseen, found.left_out)
    return live.formed(live.Formed(_words(found), predict.carries_all(found.found), found.found, found.curve, *about))


def _curves(found: Answer | str | None) -> dict[str, str]:
    return {"pictures": live.curves(found.curve)} if isinstance(found, Answer) else {}


def _refined(found: Refined, command: str | None) -> Told:
    seconds = q.duration(found.seconds * 1e9)
    sides = {
        side: {
            "verdict": report.verdict(each.summary, f"{side}-"),
            "stage": f"Run of {q.count(each.summary['packets'])} packets, after {seconds}.",
            "says": headline(each.summary),
        }
        for side, each in found.results.items()
    }
    told: Told = {"sides": sides, "told": " ".join(headline(each.summary) for each in found.results.values())}
    if (pair := found.pair) is not None:
        sentence, rows = talk.difference(pair)
        heads = ["metric", "a", "b", "change", "b is"]
        typed = "" if command is None else _typed(command)
        table = f"<details><summary>All numbers</summary>{shell.table(heads, rows)}</details>" if rows else ""
        told |= {"difference": f"<p>{escape(sentence)}</p>{table}{typed}", "told": sentence}
    return told


def _typed(command: str) -> str:
    button = '<button type="button" data-copy="both-command" hidden>Copy</button>'
    return f'<div class="code">{button}<pre class="typed" id="both-command">{escape(command)}</pre></div>'
