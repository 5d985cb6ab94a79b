"""The page of a sizing: the answer, what to set and where, what was tried. Nothing is run here."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, Final

import altair as alt

from wirespeed import quantities as q
from wirespeed.report import charts
from wirespeed.report.notebook import answer
from wirespeed.report.shell import shell, table
from wirespeed.size import text

_MEETS: Final = "meets the target"
_FAILS: Final = "does not"
_WORDS: Final = ("where", "also changed", "who", "target")
_NOTE: Final = (
    "<p class=note>Each dot is a machine that was tried under the target; the dashed line is the target, "
    "bars are 95 % half-widths. A machine that carries it may still miss the loss or the 99th percentile.</p>"
)


def page(document: Mapping[str, Any]) -> str:
    """One HTML document that needs no network."""
    under = "".join(f"<p class=about>{escape(line)}</p>" for line in text.facts(document))
    body = "<section><h2>What to set</h2>"
    rows = text.to_set(document)[1]
    if rows:
        places = dict(text.where(document))
        heads = ["setting", "as it is", "to", "who", "where"]
        body += table(heads, [[*row, places[row[0]]] for row in rows], _WORDS)
    else:
        body += "<p>Nothing: the machine stays as it is.</p>"
    for label, command in text.commands(document):
        body += f'<p>{escape(label)}:</p><div class="code"><pre class="wrapped">{escape(command)}</pre></div>'
    body += "</section><section><h2>What was tried</h2>"
    drawn = chart(document)
    body += f"<figure>{charts.svg(drawn, 'Rate over cores')}</figure>{_NOTE}" if drawn is not None else ""
    body += f"{table(*text.tried(document), _WORDS)}{_asked(document)}</section>"
    title = f"Size for {document['name'] or document['scenario']}"
    return shell(title, text.headline(document), under, body, text.verdict(document))


def fragment(document: Mapping[str, Any]) -> str:
    """What a notebook shows: the answer, what to set, and what to run."""
    heads, rows = text.to_set(document)
    changes = table(heads, rows) if rows else ""
    return answer(
        text.headline(document), text.verdict(document), text.facts(document), text.commands(document), changes
    )


def _asked(document: Mapping[str, Any]) -> str:
    goal = document["target"]
    within = "" if goal["p99_ns"] is None else f", p99 at most {q.duration(goal['p99_ns'])}"
    asked = f"Asked for: {goal['text']} ({q.mpps(goal['mpps'])}), loss at most {q.probability(goal['loss'])}{within}."
    values = "; ".join(
        f"{name} {_range(each['values'])}" for name, each in document["dimensions"].items() if len(each["values"]) > 1
    )
    return f"<p class=note>{escape(asked)} Searched: {escape(values)}.</p>"


def _range(values: list[int]) -> str:
    is_whole = values == list(range(values[0], values[-1] + 1))
    return f"{values[0]} to {values[-1]}" if is_whole else ", ".join(map(str, values))


def chart(document: Mapping[str, Any]) -> alt.LayerChart | None:
    """Rate carried over cores of every machine that was tried; None where all have the same number."""
    rows = [
        {
            "cores": each["machine"]["cores"],
            "mpps": each["carried_mpps"],
            "low": max(each["carried_mpps"] - (each["carried_half_width"] or 0.0), 0.0),
            "high": each["carried_mpps"] + (each["carried_half_width"] or 0.0),
            "which": _MEETS if each["outcome"] == "meets" else _FAILS,
            "words": f"{text.label(each)}: {q.mpps(each['carried_mpps'])}, {each['why']}",
        }
        for each in document["tried"]
        if each["packets"]
    ]
    if len({row["cores"] for row in rows}) < 2:
        return None
    domain = [_MEETS, _FAILS]
    colour = alt.Color(
        "which:N",
        scale=alt.Scale(domain=domain, range=[charts.CARRIED, charts.TAIL]),
        legend=alt.Legend(title=None, orient="top", columnPadding=24),
    )
    x = alt.X("cores:O", title="cores", axis=alt.Axis(labelAngle=0))
    axis, scale = alt.Axis(title="carried, Mpps", tickCount=5, titlePadding=12), alt.Scale(zero=True)
    y = alt.Y("mpps:Q", axis=axis, scale=scale)
    dots = alt.Chart(charts.data(rows)).mark_point(filled=True, size=60, opacity=0.8)
    wanted = charts.data([{"mpps": document["target"]["mpps"]}])
    goal = alt.Chart(wanted).mark_rule(color="var(--ink)", strokeDash=[4, 3])
    bars = alt.Chart(charts.data(rows)).mark_rule(strokeWidth=1.5)
    layers = [
        goal.encode(y=alt.Y("mpps:Q")),
        bars.encode(x=x, y=alt.Y("low:Q", axis=axis, scale=scale), y2="high:Q", color=colour),
        dots.encode(x=x, y=y, color=colour, description="words:N"),
    ]
    return alt.LayerChart(layer=layers, width=charts.WIDTH, height=charts.HEIGHT)
