"""The page of advice: what to switch on, what each technique brings, how they work together. Nothing is run here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

import altair as alt

from wirespeed.advise import text
from wirespeed.advise.techniques import IS, WORTH, surely
from wirespeed.report import charts
from wirespeed.report.notebook import answer as card
from wirespeed.report.shell import shell, table


def page(document: Mapping[str, Any]) -> str:
    """One HTML document that needs no network."""
    title = f"Advice for {document['name'] or document['scenario']}"
    # The first sentence is the answer; what follows from it stands below.
    answer, *rest = text.headline(document).split(". ", 1)
    under = "".join(f"<p>{escape(line)}.</p>" for line in rest)
    under += "".join(f"<p class=about>{escape(line)}</p>" for line in text.now(document))
    if document.get("answered"):
        run = "".join(f"<p>{escape(label)}:</p>{_code(command)}" for label, command in text.commands(document))
        return shell(title, answer, under, f"<section><h2>Run it</h2>{run}</section>", "keeps")
    under += f"<p class=about>{escape(text.confirmation(document))}</p>"
    more = text.without_loss(document)
    under += f"<p class=about>{escape(more)}</p>" if more else ""
    pool = text.retried(document)
    under += f"<p class=about>{escape(_sentence(pool))}.</p>" if pool else ""
    same = text.seeds(document)
    under += f"<p class=about>{escape(same)}.</p>" if same else ""
    met = text.target(document)
    body = "<section><h2>Run it</h2>"
    body += f"<p>{escape(met)}</p>" if met is not None else ""
    body += "".join(f"<p>{escape(label)}:</p>{_code(command)}" for label, command in text.commands(document))
    first, helping = text.steps(document)
    body += table(first, helping, ("what helps, the cheapest first", "set")) if helping else ""
    body += f"</section><section><h2>Gain against cost</h2><figure class=broad>{_against_cost(document)}</figure>"
    body += f"<p class=note>{escape(_COST_NOTE)}</p>"
    body += f"</section><section><h2>What each technique brings</h2>{_charts(document)}"
    heads, rows = text.ranked(document)
    titles = {
        each["name"]: " · ".join(part for part in (each["title"], each["system"]) if part)
        for each in document["techniques"]
    }
    own_heads, own_rows = text.at_own_load(document)
    own = {row[0]: row[1:] for row in own_rows}
    rows = [[row[0], *row[1:-1], *own[row[0]], row[-1]] for row in rows]
    for who, group in text.by_who(document, rows):
        all_heads = [heads[0], *heads[1:-1], *own_heads[1:], heads[-1]]
        body += f"<h3>{escape(who)}</h3>{table(all_heads, group, under=titles)}"
    over = "batches of packets within a run" if document["same_for_every_seed"] else "seeds"
    body += (
        "<p class=note>Alone: added to the machine as it is. With others: averaged over all others on and off. "
        f"{escape(_sentence(text.ranked_by(document)))}; p99, energy (both alone) and loss at the scenario's own load; "
        f"± is the 95 % half-width over {over}, brackets may be no change at all."
    )
    body += f" {escape(_sentence(document['energy_note']))}.</p></section>"
    if document["combinations"]:
        sets = table(*text.combinations(document), _WORDS)
        body += f"<section><h2>The best few, in every combination</h2>{sets}</section>"
    told = "".join(f"<li>{escape(line)}</li>" for line in text.interactions(document))
    body += f"<section><h2>How they work together</h2><ul>{told}</ul></section>" if told else ""
    left = [[each["name"], each["title"], each["why"]] for each in document["not_fitting"]]
    left += [["", name, where] for name, where in document["elsewhere"].items()]
    body += f"<section><h2>What does not fit here</h2>{table(['technique', 'what it is', 'why'], left, _WORDS)}"
    body += "</section>"
    return shell(title, answer, under, body, text.verdict(document))


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _code(command: str) -> str:
    return f'<div class="code"><pre class="wrapped">{escape(command)}</pre></div>'


# Columns of sentences.
_WORDS: Final = ("together", "what it is", "why")


def _charts(document: Mapping[str, Any]) -> str:
    """What each technique alone changes of what is ranked by, and of p99; and of loss, where it changes."""
    order = [each["name"] for each in document["techniques"]]
    goal = document["goal"]
    drawn = [
        _bars(
            [_bar(each, each["alone"][what], what == "p99", len(order)) for each in document["techniques"]],
            order,
            _TITLES[what],
        )
        for what in (goal, "rate" if goal == "p99" else "p99")
    ]
    losses = [
        {"pct": 100 * each["loss"]["change"], "half_width_pct": 100 * each["loss"]["half_width"]}
        for each in document["techniques"]
    ]
    if any(text.changes_loss(each["loss"]) for each in document["techniques"]):
        bars = [
            _bar(each, loss, True, len(order), 2, 100 * text.LEAST_LOSS)
            for each, loss in zip(document["techniques"], losses, strict=True)
        ]
        drawn.append(_bars(bars, order, "loss at its own load, alone, points"))
        note = ""
    else:
        note = "<p class=note>No technique surely changes the loss at the scenario's own load.</p>"
    return "".join(f"<figure class=bars>{each}</figure>" for each in drawn) + note


_COST_NOTE: Final = (
    "Each point is a technique alone, with its 95 % half-width; those that surely help have their names. Left is "
    "what can be done today, right what has to be built."
)


def _against_cost(document: Mapping[str, Any]) -> str:
    what = document["goal"]
    return charts.svg(gain_against_cost(document, what), f"Gain against cost: {_TITLES[what]}, by who can do it")


def gain_against_cost(document: Mapping[str, Any], what: str) -> alt.LayerChart:
    """What each technique alone changes, over what it takes: from settings to new hardware."""
    rows = [
        _bar(each, each["alone"][what], what == "p99", len(document["techniques"])) | {"who": IS[each["kind"]]}
        for each in document["techniques"]
        if each["alone"][what] is not None
    ]
    # Side by side, in the order of their gains.
    rows = [row | {"place": place} for place, row in enumerate(sorted(rows, key=lambda row: row["y"]))]
    rows = _names_apart(rows)
    base = alt.Chart(charts.data(rows)).encode(
        x=alt.X(
            "who:N", sort=list(IS.values()), axis=alt.Axis(title="what it takes, the cheapest first", labelAngle=0)
        ),
        xOffset=alt.XOffset("place:O"),
    )
    colour = alt.condition("datum.helps", alt.value(charts.CARRIED), alt.value(charts.OFFERED))
    spans = base.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("low:Q", axis=alt.Axis(title=_TITLES[what], tickCount=8)), y2="high:Q", color=colour
    )
    points = base.mark_point(filled=True, size=50).encode(y="y:Q", color=colour, description="words:N")
    names = (
        base.transform_filter("datum.helps")
        .mark_text(align="right", dx=-7, fontSize=12, color="var(--ink)")
        .encode(y="name_y:Q", text="name:N")
    )
    drawn: alt.LayerChart = (spans + points + names).properties(width=2 * charts.WIDTH - 100, height=_COST_HEIGHT)
    return drawn


_COST_HEIGHT: Final = 260
_NAME_HEIGHT: Final = 15


def _names_apart(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows in the order of their gains, with the height of each one's name: as far above the last one's as it takes."""
    span = max((row["high"] for row in rows), default=0.0) - min((row["low"] for row in rows), default=0.0)
    apart = span * _NAME_HEIGHT / _COST_HEIGHT
    last: dict[str, float] = {}
    found = []
    for row in rows:
        height = row["y"]
        if row["helps"]:
            height = max(height, last.get(row["who"], -math.inf) + apart)
            last[row["who"]] = height
        found.append({**row, "name_y": height})
    return found


# Room for the longest name: a browser's font may be wider than that of which the drawing was measured.
_NAMES: Final = alt.Axis(labelLimit=200, minExtent=118)
_TITLES: Final = {
    "rate": "rate at saturation, alone, %",
    "ndr": "highest rate without loss, alone, %",
    "p99": "99th percentile of sojourn at its own load, alone, %",
}


def _bar(
    technique: Mapping[str, Any],
    change: Mapping[str, float] | None,
    less_is_better: bool,
    of: int,
    decimals: int = 1,
    worth: float = WORTH,
) -> dict[str, Any]:
    """A row of a chart of so many; a change that is not known has no bar."""
    if change is None:
        return {"name": technique["name"], "y": None, "low": None, "high": None, "helps": False, "words": "not known"}
    pct, wide = change["pct"], change["half_width_pct"]
    return {
        "name": technique["name"],
        "y": pct,
        "low": pct - wide,
        "high": pct + wide,
        "helps": surely(change, -1 if less_is_better else 1, of, worth),
        "words": f"{technique['title']}: {pct:+.{decimals}f} ± {wide:.{decimals}f}",
    }


def chart(document: Mapping[str, Any], what: str) -> alt.LayerChart:
    """What each technique alone changes of the rate, the rate without loss ("ndr") or the 99th percentile."""
    techniques = document["techniques"]
    rows = [_bar(each, each["alone"][what], what == "p99", len(techniques)) for each in techniques]
    return _chart(rows, [each["name"] for each in techniques], _TITLES[what])


def fragment(document: Mapping[str, Any]) -> str:
    """What a notebook shows: what to do, what to run, and what each technique brings."""
    if document.get("answered"):
        return card(text.headline(document), text.verdict(document), text.now(document), text.commands(document), "")
    facts = [*text.now(document), text.confirmation(document)]
    ranked = table(*text.ranked(document))
    return card(text.headline(document), text.verdict(document), facts, text.commands(document), ranked)


def _bars(rows: Sequence[Mapping[str, Any]], order: Sequence[str], title: str) -> str:
    return charts.svg(_chart(rows, order, title), f"What each technique changes: {title}")


def _chart(rows: Sequence[Mapping[str, Any]], order: Sequence[str], title: str) -> alt.LayerChart:
    """The change that each technique makes, with its interval; those that surely help stand out."""
    base = alt.Chart(charts.data([dict(row) for row in rows])).encode(
        y=alt.Y("name:N", sort=list(order), title=None, axis=_NAMES)
    )
    bars = base.mark_bar(height=12).encode(
        x=alt.X("y:Q", axis=alt.Axis(title=title, tickCount=8)),
        color=alt.condition("datum.helps", alt.value(charts.CARRIED), alt.value(charts.OFFERED)),
        description="words:N",
    )
    spans = base.mark_rule(strokeWidth=1.5, color="var(--ink)").encode(x=alt.X("low:Q", title=title), x2="high:Q")
    drawn: alt.LayerChart = (bars + spans).properties(width=charts.WIDTH, height=22 * len(rows))
    return drawn
