"""The page of a study: its metrics over its axes as curves and heat maps, and a table. Nothing is run here."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, Final

import altair as alt

from wirespeed.report import charts
from wirespeed.report.shell import shell, table
from wirespeed.sweep import chart, text
from wirespeed.sweep.metrics import METRICS

_ROWS: Final = 2000
_SHOWN: Final = 20


def page(document: Mapping[str, Any]) -> str:
    """One HTML document that needs no network."""
    figures = []
    for name in document["metrics"]:
        drawn = chart.figure(document, METRICS[name])
        if drawn is not None:
            figures.append(figure(drawn, METRICS[name].title))
    heads, rows = text.rows(document)
    axes = len(document["axes"])
    heads[:axes] = text.shortened(heads[:axes])
    told = [*text.extremes(document), *text.widths(document), *text.warm_ups(document)]
    best = "".join(f"<li>{escape(line[:1].upper() + line[1:])}</li>" for line in told)
    failed = "".join(
        f"<li><code>{escape(where)}</code>: {escape(why)}</li>" for where, why in text.errors(document)[:_ROWS]
    )
    more = f"<p class=note>{len(rows) - _ROWS} more points are in results.csv.</p>" if len(rows) > _ROWS else ""
    return shell(
        f"Sweep of {document['name'] or document['scenario']}",
        text.headline(document),
        f"<p class=about>{escape(text.counted(document))}.</p><ul class=reasons>{best}</ul>",
        f"<div class=grid>{''.join(figures)}</div>"
        f"<section><h2>All points</h2>{table(heads, rows[:_ROWS])}{more}"
        f"<p class=note>{_of_what(document)}Built by {escape(document['build'])}.</p></section>"
        + (f"<section><h2>Without a result</h2><ul>{failed}</ul></section>" if failed else ""),
    )


def fragment(document: Mapping[str, Any]) -> str:
    """What a notebook shows: the answer and the first points, without a style of its own."""
    heads, rows = text.rows(document)
    more = f"<p>and {len(rows) - _SHOWN} more</p>" if len(rows) > _SHOWN else ""
    told = "".join(f"<li>{escape(line)}</li>" for line in (*text.extremes(document), *text.warm_ups(document)))
    return (
        f"<p><b>{escape(text.headline(document))}</b><br>{escape(text.counted(document))}</p>"
        f"<ul>{told}</ul>{table(heads, rows[:_SHOWN])}{more}"
    )


def plot(document: Mapping[str, Any], metric: str) -> alt.VConcatChart | None:
    """The panels of a metric below each other, with the colours' names; None where nothing tells points apart."""
    drawn = chart.figure(document, METRICS[metric])
    if drawn is None or not drawn.panels:
        return None
    names = [alt.TitleParams(panel.title or METRICS[metric].title, anchor="start") for panel in drawn.panels]
    panels = [panel.chart.properties(title=name) for panel, name in zip(drawn.panels, names, strict=True)]
    if drawn.legend:
        rows = [{"name": name, "colour": colour} for name, colour in drawn.legend]
        keys = alt.Chart(charts.data(rows)).mark_point(filled=True, size=80, opacity=1)
        panels.insert(0, keys.encode(
            y=alt.Y("name:N", title=None, sort=[row["name"] for row in rows], axis=alt.Axis(labelLimit=300)),
            color=alt.Color("colour:N", scale=None),
        ).properties(height=16 * len(rows)))  # fmt: skip
    whole: alt.VConcatChart = alt.vconcat(*panels, spacing=8).resolve_scale(color="independent")
    return whole


def figure(of: chart.Figure, title: str) -> str:
    """A figure as HTML: title, legend, panels and captions. Charts of several panels take the whole width."""
    legend = "".join(
        f'<li><span class="swatch" style="background:{colour}"></span>{escape(name)}</li>' for name, colour in of.legend
    )
    panels = "".join(
        f"<figure>{f'<figcaption>{escape(panel.title)}</figcaption>' if panel.title else ''}"
        f"{charts.svg(panel.chart, ' '.join(filter(None, (title, panel.title))))}</figure>"
        for panel in of.panels
    )
    captions = "".join(f"<p class=note>{escape(line)}</p>" for line in of.captions)
    return (
        f"<section{' class=wide' if len(of.panels) > 1 else ''}><h2>{escape(title)}</h2>"
        + (f'<ul class="keys">{legend}</ul>' if legend else "")
        + (f'<div class="panels">{panels}</div>' if panels else "")
        + f"{captions}</section>"
    )


def _of_what(document: Mapping[str, Any]) -> str:
    """The sentence that says what ± is; empty where no point has a half-width."""
    known = [result for result in document["results"] if text.has_width(result, document["metrics"])]
    batches = sum(text.is_of_batches(result) for result in known)
    if not known:
        return ""
    if not batches:
        return "± is the 95 % half-width, over replications. "
    if batches < len(known):
        return (
            "± is the 95 % half-width, over replications; where there is one run, or all see the same packets, of "
            "batches of packets of one run. "
        )
    return "± is the 95 % half-width, of batches of packets of one run. "
