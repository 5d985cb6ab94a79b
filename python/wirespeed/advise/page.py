"""The page of advice: what to switch on, what each technique brings, how they work together. Nothing is run here."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, Final

import altair as alt

from wirespeed.advise import text
from wirespeed.report import charts
from wirespeed.sweep.page import shell, table


def page(document: Mapping[str, Any]) -> str:
    """One HTML document that needs no network."""
    best = document["best"]
    under = "".join(f"<p class=about>{escape(line)}</p>" for line in text.now(document))
    under += f"<p class=about>{escape(text.confirmation(document))}</p>"
    more = text.without_loss(document)
    under += f"<p class=about>{escape(more)}</p>" if more else ""
    same = text.seeds(document)
    under += f"<p class=about>{escape(same)}.</p>" if same else ""
    met = text.target(document)
    body = "<section><h2>Run it</h2>" + _code(best["command"])
    body += "<p>As its rate was compared, at saturation:</p>" + _code(best["saturated_command"])
    if met is not None:
        body += f"<p>{escape(met)}</p>{_code(document['target']['command'])}"
    body += f"</section><section><h2>What each technique brings</h2><figure class=bars>{_bars(document)}</figure>"
    heads, rows = text.ranked(document)
    titles = {
        each["name"]: " · ".join(part for part in (each["title"], each["system"]) if part)
        for each in document["techniques"]
    }
    own_heads, own_rows = text.at_own_load(document)
    own = {row[0]: row[1:] for row in own_rows}
    rows = [[row[0], *row[1:-1], *own[row[0]], row[-1]] for row in rows]
    body += table([heads[0], *heads[1:-1], *own_heads[1:], heads[-1]], rows, under=titles)
    over = "batches of packets within a run" if document["same_for_every_seed"] else "seeds"
    body += (
        "<p class=note>Alone: added to the machine as it is. With others: averaged over all others on and off. "
        "Rates are at saturation, NDR is the highest rate without loss behind the same port; p99, energy (both alone) "
        "and loss at the scenario's own load; ± is the 95 % "
        f"half-width over {over}, brackets may be no change at all."
    )
    body += f" {escape(document['energy_note'][:1].upper() + document['energy_note'][1:])}.</p></section>"
    if document["combinations"]:
        sets = table(*text.combinations(document), _WORDS)
        body += f"<section><h2>The best few, in every combination</h2>{sets}</section>"
    told = "".join(f"<li>{escape(line)}</li>" for line in text.interactions(document))
    body += f"<section><h2>How they work together</h2><ul>{told}</ul></section>" if told else ""
    left = [[each["name"], each["title"], each["why"]] for each in document["not_fitting"]]
    left += [["", name, where] for name, where in document["elsewhere"].items()]
    body += f"<section><h2>What does not fit here</h2>{table(['technique', 'what it is', 'why'], left, _WORDS)}"
    body += "</section>"
    return shell(f"Advice for {document['name'] or document['scenario']}", text.headline(document), under, body)


def _code(command: str) -> str:
    return f'<div class="code"><pre>{escape(command)}</pre></div>'


# Columns of sentences.
_WORDS: Final = ("together", "what it is", "why")


def _bars(document: Mapping[str, Any]) -> str:
    """The change that each technique makes, with its interval, as SVG."""
    goal = document["goal"]
    rows = [
        {
            "name": each["name"],
            "y": alone["pct"],
            "low": alone["pct"] - alone["half_width_pct"],
            "high": alone["pct"] + alone["half_width_pct"],
            "helps": (alone["pct"] > 0) == (goal != "p99") and abs(alone["pct"]) > alone["half_width_pct"],
            "words": f"{each['title']}: {alone['pct']:+.1f} %",
        }
        for each in document["techniques"]
        for alone in [each["alone"][goal]]
        if alone is not None
    ]
    titles = {"rate": "rate at saturation, %", "ndr": "highest rate without loss, %"}
    title = titles.get(goal, "99th percentile of sojourn, %")
    base = alt.Chart(charts.data(rows)).encode(y=alt.Y("name:N", sort=None, title=None))
    bars = base.mark_bar(height=12).encode(
        x=alt.X("y:Q", axis=alt.Axis(title=title, tickCount=8)),
        color=alt.condition("datum.helps", alt.value(charts.CARRIED), alt.value(charts.OFFERED)),
        description="words:N",
    )
    spans = base.mark_rule(strokeWidth=1.5, color="var(--ink)").encode(x=alt.X("low:Q", title=title), x2="high:Q")
    drawn = (bars + spans).properties(width=charts.WIDTH, height=22 * len(rows))
    return charts.svg(drawn, f"What each technique changes: {title}")
