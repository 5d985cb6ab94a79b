"""The page of `wirespeed explore`: its frame, its controls, and what closed forms say, in the style of the reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wirespeed import predict
from wirespeed import quantities as q
from wirespeed.report import charts, render
from wirespeed.summary import KeyNumber, Predicted

POLICY: Final = "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
"""What the page may do beside showing itself: ask the server that it came from."""


ALONE: Final = " blob: 'wasm-unsafe-eval'; worker-src blob:; img-src data:; base-uri 'none'; form-action 'none'"
"""What it may do where there is no server: begin workers of its own text, and compile what it carries."""


@dataclass(frozen=True, slots=True)
class Formed:
    """What closed forms say of a machine."""

    sentence: str
    carries_all: bool
    found: Mapping[str, Any]
    curve: Sequence[Predicted]
    factored: Sequence[str] = ()
    unseen: Sequence[str] = ()
    left_out: Sequence[str] = ()


def page(given: str, scenarios: Sequence[str], version: str) -> str:
    """The page before anything is asked; `given` is the scenario that it begins with."""
    return render("explore.html.j2", "explore.js", POLICY, given=given, scenarios=scenarios, version=version)


def edition(given: str, scenarios: Sequence[str], version: str, before: str, data: str) -> str:
    """The same page without a server: `before` is script that runs first, `data` is markup that it reads."""
    return render(
        *("explore.html.j2", "explore.js", ALONE, before),
        given=given,
        scenarios=scenarios,
        version=version,
        alone=True,
        data=data,
    )


def controls(found: Iterable[Any], side: str) -> str:
    """Controls, in their groups and order, of a side."""
    groups: dict[str, list[Any]] = {}
    for each in found:
        groups.setdefault(each.group, []).append(each)
    named = [
        {"name": name, "controls": each, "switches": all(control.kind == "switch" for control in each)}
        for name, each in groups.items()
    ]
    return render("controls.html.j2", groups=named, side=side)


def formed(answer: Formed) -> str:
    """The sentence and the numbers of closed forms."""
    found = answer.found
    return render(
        "formed.html.j2",
        sentence=answer.sentence,
        carries=answer.carries_all,
        exact=not (answer.factored or answer.unseen or answer.left_out),
        factored=answer.factored,
        unseen=answer.unseen,
        left_out=answer.left_out,
        numbers=_numbers(found),
    )


def curves(curve: Sequence[Predicted]) -> str:
    """Rates and mean sojourn over load, by closed forms."""
    drawn = (
        ("Offered and carried over load", charts.rate_over_load(curve)),
        ("Sojourn over load", charts.sojourn_over_load(curve)),
    )
    figures = "".join(
        f"<section><h2>{title}</h2><figure>{chart.svg()}</figure><p class=lead>By closed forms.</p></section>"
        for title, chart in drawn
        if chart is not None
    )
    return f'<div class="grid">{figures}</div>'


def _sojourn(found: Mapping[str, Any]) -> KeyNumber:
    if not predict.has_long_queues(found):
        return KeyNumber("Mean sojourn", q.duration(found["sojourn_ns"]), "")
    return KeyNumber("Mean sojourn", f"about {q.duration(found['sojourn_ns'])}", "queues are long here")


def _numbers(found: Mapping[str, Any]) -> list[KeyNumber]:
    service = "" if found.get("service_ns") is None else f"{q.duration(found['service_ns'])} a packet"
    return [
        KeyNumber("Offered", q.mpps(found["offered_mpps"]), ""),
        KeyNumber("Carried", q.mpps(found["carried_mpps"]), f"limit: {found['bound']}"),
        KeyNumber("Could carry", q.mpps(found["capacity_mpps"]), ""),
        _sojourn(found),
        KeyNumber("A core is busy", q.share(found["utilisation"]), service),
        KeyNumber("CPI", q.digits(found["cpi"]), ""),
    ]
