"""The page of a tuning: its methods as a table, its points as a chart, the best as a command. Nothing is run here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any, Final

import altair as alt
import vl_convert

from wirespeed import quantities as q
from wirespeed.tune import text

_WIDTH: Final = 620
_HEIGHT: Final = 340
# A point of several methods is shown as of the first of these; the grid has all of them.
_SHOWN_AS: Final = ("joint search", "one at a time", "ResQ's rule", "grid")
_COLOURS: Final = ("#d55e00", "#0a5a9c", "#0a8f68", "#b6bcc6")
_LIMIT: Final = "#d55e00"
_STYLE: Final = (
    "body{font:16px/1.5 Helvetica Neue,Helvetica,Arial,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "td,th{padding:.25rem .75rem;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}pre{background:#f4f4f4;padding:.75rem;white-space:pre-wrap}svg{max-width:100%;"
    "height:auto}p.note{color:#555}"
)


def page(document: Mapping[str, Any]) -> str:
    """One HTML document that needs no network."""
    heads, rows = text.methods(document)
    knobs, settings = text.settings(document)
    notes = "".join(f"<p class=note>{escape(note)}</p>" for note in text.notes(document))
    failed = [point for point in document["points"] if point["infeasible"]]
    reasons = "".join(
        f"<li><code>{escape(_words(p['settings']))}</code>: {escape(p['infeasible'])}</li>" for p in failed
    )
    stopped = (
        f"<details><summary>{len(failed)} points cannot start</summary><ul>{reasons}</ul></details>" if failed else ""
    )
    title = f"Tuning of {escape(str(document['scenario']))}"
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{title}</title>"
        f"<style>{_STYLE}</style><h1>{title}</h1><p>{escape(text.headline(document))}</p>"
        f"<pre>{escape(document['command'])}</pre>{_table(heads, rows)}<h2>Best settings of each</h2>"
        f"{_table(knobs, settings)}{notes}<h2>All points</h2>"
        f"<p>{escape(text.ALL_WORDS[document['metric']])} over loss. "
        "The line joins the points that no other one beats in both (Pareto front).</p>"
        f"{chart(document) or '<p>No point was measured.</p>'}{_predictions(document)}{stopped}</html>\n"
    )


def _predictions(document: Mapping[str, Any]) -> str:
    """Measured beside simulated, as a chart and as a table; nothing where nothing was simulated."""
    if document.get("prediction") is None:
        return ""
    heads, rows = text.predictions(document)
    if not rows:
        return ""
    drawn = [
        {"measured": point["value"] / text.scale(document), "simulated": point["predicted"] / text.scale(document)}
        for point in document["points"]
        if q.is_number(point["value"]) and q.is_number(point.get("predicted"))
    ]
    most = max(max(each.values()) for each in drawn)
    x = alt.X("measured:Q", title=f"measured: {text.axis(document)}", scale=alt.Scale(domain=[0, most]))
    y = alt.Y("simulated:Q", title="simulated", scale=alt.Scale(domain=[0, most]))
    points = alt.Chart(alt.InlineData(values=drawn)).mark_point(filled=True, opacity=0.65).encode(x=x, y=y)
    ends = alt.InlineData(values=[{"measured": 0, "simulated": 0}, {"measured": most, "simulated": most}])
    line = alt.Chart(ends).mark_line(color="#888", strokeDash=[4, 3]).encode(x=x, y=y)
    whole = alt.LayerChart(layer=[line, points], width=_HEIGHT, height=_HEIGHT).configure(background="white")
    return (
        "<h2>Simulated beside measured</h2><p>On the dashed line both are equal.</p>"
        f"{vl_convert.vegalite_to_svg(whole.to_dict())}{_table(heads, rows)}"
    )


def chart(document: Mapping[str, Any]) -> str | None:
    """Every measured point, metric over loss, with the front and the limit, as SVG; None where there is no point."""
    rows = [
        {
            "loss": 100 * point["loss"],
            "value": point["value"] / text.scale(document),
            "method": next((name for name in _SHOWN_AS if name in point["methods"]), "as it is"),
            "front": point["on_front"],
            "words": f"{_words(point['settings']) or 'as it is'}: {text.value(document, point['value'])}, "
            f"loss {q.probability(point['loss'])}",
        }
        for point in document["points"]
        if q.is_number(point["value"]) and q.is_number(point["loss"])
    ]
    if not rows:
        return None
    spread = max(row["loss"] for row in rows) - min(row["loss"] for row in rows)
    x = alt.X("loss:Q", title="loss, %", scale=alt.Scale(zero=False, padding=12, nice=spread > 0))
    y = alt.Y("value:Q", title=text.axis(document), scale=alt.Scale(zero=False, padding=12))
    rows.sort(key=lambda row: -_SHOWN_AS.index(row["method"]) if row["method"] in _SHOWN_AS else 1)  # grid below
    order = [name for name in _SHOWN_AS if any(row["method"] == name for row in rows)]
    colours = [colour for name, colour in zip(_SHOWN_AS, _COLOURS, strict=True) if name in order]
    scale = alt.Scale(domain=[*order, "as it is"], range=[*colours, "#111"])
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y)
    points = base.mark_point(filled=True, size=42, opacity=0.65).encode(
        color=alt.Color("method:N", scale=scale, legend=alt.Legend(title=None, orient="top")), description="words:N"
    )
    front = base.transform_filter("datum.front").mark_line(interpolate="step-after", strokeWidth=1.5, color="#444")
    layers: list[alt.Chart] = [front, points]
    limit = document["loss_limit"]
    if limit is not None and math.isfinite(limit):
        at = alt.InlineData(values=[{"loss": 100 * limit}])
        layers.append(alt.Chart(at).mark_rule(color=_LIMIT, strokeDash=[4, 3]).encode(x="loss:Q"))
    drawn = alt.LayerChart(layer=layers, width=_WIDTH, height=_HEIGHT).configure(background="white")
    return vl_convert.vegalite_to_svg(drawn.to_dict())


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{path}={value}" for path, value in settings.items())


def _table(heads: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
