"""The page of a tuning: its methods as a table, its points as a chart, the best as a command. Nothing is run here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any, Final

import altair as alt

from wirespeed import quantities as q
from wirespeed.report import charts
from wirespeed.report.shell import shell, table
from wirespeed.tune import text

_WIDTH: Final = 620
_HEIGHT: Final = 340
# A point of several methods is shown as of the first of these; the grid has all of them.
_SHOWN_AS: Final = ("joint search", "one at a time", "ResQ's rule", "grid")
_COLOURS: Final = (charts.TAIL, charts.CARRIED, "var(--good)", charts.OFFERED)
_LIMIT: Final = "var(--bad)"
_KNOBS_NOTE: Final = "<p class=note>Each dot is a point that was measured; the line joins the best at each value.</p>"
_FRONT_NOTE: Final = (
    "<p class=note>Every point that was measured. The line joins those that no other one beats in both (Pareto front)."
    "</p>"
)


def page(document: Mapping[str, Any]) -> str:
    """One HTML document that needs no network."""
    knobs, settings = text.settings(document)
    notes = "".join(f"<p class=note>{escape(note)}</p>" for note in text.notes(document))
    failed = [point for point in document["points"] if point["infeasible"]]
    reasons = "".join(
        f"<li><code>{escape(_words(p['settings']))}</code>: {escape(p['infeasible'])}</li>" for p in failed
    )
    stopped = (
        f"<details><summary>{len(failed)} points cannot start</summary><ul>{reasons}</ul></details>" if failed else ""
    )
    panels = "".join(f"<figure>{charts.svg(drawn, path)}</figure>" for path, drawn in by_knob(document))
    over_loss = chart(document)
    command = f'<div class="code"><pre class="wrapped">{escape(document["command"])}</pre></div>'
    body = (
        f"<section><h2>Run the best</h2>{command}"
        f"</section><section><h2>Best settings of each way</h2>{table(knobs, settings)}</section>"
        f"<section><h2>How it was found</h2>{table(*text.methods(document))}{notes}</section>"
        + (
            f"<section><h2>What each knob brings</h2><div class=panels>{panels}</div>{_KNOBS_NOTE}</section>"
            if panels
            else ""
        )
        + (f"<section><h2>Against loss</h2><figure>{over_loss}</figure>{_FRONT_NOTE}</section>" if over_loss else "")
        + f"{_predictions(document)}{stopped}"
    )
    verdict = "keeps" if document["keeps_the_limit"] else "open"
    return shell(f"Tuning of {document['scenario']}", text.headline(document), "", body, verdict)


def by_knob(document: Mapping[str, Any]) -> list[tuple[str, alt.LayerChart]]:
    """Of each knob every measured point over its values, and the best at each; none for a knob with one value."""
    own = document.get("defaults") or {}
    sign = -1.0 if document["direction"] == "minimize" else 1.0
    measured = [point for point in document["points"] if q.is_number(point["value"])]
    found = []
    for path in document["knobs"]:
        rows = [
            {
                "x": str(point["settings"].get(path, own.get(path, text.UNCHANGED))),
                "y": point["value"] / text.scale(document),
                **_ends(document, point),
                "words": f"{_words(point['settings']) or text.UNCHANGED}: {text.value(document, point['value'])}",
            }
            for point in measured
        ]
        places = sorted({row["x"] for row in rows}, key=_place)
        if len(places) < 2:
            continue
        best = [max((row for row in rows if row["x"] == x), key=lambda row: sign * row["y"]) for x in places]
        x = alt.X("x:O", sort=places, title=path, axis=alt.Axis(labelAngle=0, labelOverlap=True))
        axis = alt.Axis(title=text.axis(document), titlePadding=12, tickCount=5)
        y = alt.Y("y:Q", axis=axis)
        dots = alt.Chart(charts.data(rows)).mark_point(filled=True, size=24, opacity=0.45, color=charts.OFFERED)
        line = alt.Chart(charts.data(best)).mark_line(color=charts.CARRIED, strokeWidth=2, point=True)
        layers = [dots.encode(x=x, y=y, description="words:N"), line.encode(x=x, y=y)]
        if any("low" in row for row in rows):
            bars = dots.transform_filter("isValid(datum.low)").mark_rule(color=charts.OFFERED, opacity=0.45)
            layers.insert(0, bars.encode(x=x, y=alt.Y("low:Q", axis=axis), y2="high:Q"))
        drawn = alt.LayerChart(layer=layers, width=charts.WIDTH, height=charts.HEIGHT)
        found.append((path, drawn))
    return found


def _ends(document: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, float]:
    """From where to where a measured value is; nothing where that is not known."""
    wide = (point.get("values") or {}).get("half_width")
    if not q.is_number(wide) or document["metric"] == "loss":  # it is of the rate
        return {}
    return {f"{end}": (point["value"] + sign * wide) / text.scale(document) for end, sign in (("low", -1), ("high", 1))}


def _place(value: str) -> tuple[int, float, str]:
    """Numbers from small to large, then names."""
    try:
        return (0, float(value), "")
    except ValueError:
        return (1, 0.0, value)


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
    y = alt.Y("simulated:Q", title=f"simulated: {text.axis(document)}", scale=alt.Scale(domain=[0, most]))
    points = alt.Chart(alt.InlineData(values=drawn)).mark_point(filled=True, opacity=0.65).encode(x=x, y=y)
    ends = alt.InlineData(values=[{"measured": 0, "simulated": 0}, {"measured": most, "simulated": most}])
    line = alt.Chart(ends).mark_line(color="var(--muted)", strokeDash=[4, 3]).encode(x=x, y=y)
    whole = alt.LayerChart(layer=[line, points], width=_HEIGHT, height=_HEIGHT)
    return (
        "<section><h2>Simulated beside measured</h2><p class=note>On the dashed line both are equal.</p>"
        f"<figure>{charts.svg(whole, 'Simulated beside measured')}</figure>{table(heads, rows)}</section>"
    )


def chart(document: Mapping[str, Any]) -> str | None:
    """Every measured point, metric over loss, with the front and the limit, as SVG; None where all lose the same."""
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
    if len({row["loss"] for row in rows}) < 2:
        return None
    x = alt.X("loss:Q", scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(title="loss, %", tickCount=6))
    y = alt.Y("value:Q", scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(title=text.axis(document), tickCount=6))
    rows.sort(key=lambda row: -_SHOWN_AS.index(row["method"]) if row["method"] in _SHOWN_AS else 1)  # grid below
    order = [name for name in _SHOWN_AS if any(row["method"] == name for row in rows)]
    colours = [colour for name, colour in zip(_SHOWN_AS, _COLOURS, strict=True) if name in order]
    scale = alt.Scale(domain=[*order, "as it is"], range=[*colours, "var(--ink)"])
    legend = alt.Legend(title=None, orient="top", columns=3, columnPadding=24)
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y)
    points = base.mark_point(filled=True, size=42, opacity=0.65).encode(
        color=alt.Color("method:N", scale=scale, legend=legend), description="words:N"
    )
    front = base.transform_filter("datum.front").mark_line(
        interpolate="step-after", strokeWidth=1.5, color="var(--muted)"
    )
    layers: list[alt.Chart] = [front, points]
    limit = document["loss_limit"]
    if limit is not None and math.isfinite(limit):
        at = alt.InlineData(values=[{"loss": 100 * limit}])
        layers.append(alt.Chart(at).mark_rule(color=_LIMIT, strokeDash=[4, 3]).encode(x="loss:Q"))
    drawn = alt.LayerChart(layer=layers, width=_WIDTH, height=_HEIGHT)
    return charts.svg(drawn, f"{text.ALL_WORDS[document['metric']]} over loss")


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{path}={value}" for path, value in settings.items())
