"""Predicted over measured, a panel a kind and a colour and marker a source, as one SVG document.

Panels of rates, cycles, latency and bandwidth are logarithmic on both axes, so that a percentage is the same distance
everywhere; those of hits and loss are linear, since their errors are in points. Bands are 10 and 20 % (points) wide.
Colours are variables of the document's own style sheet: one drawing serves light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import altair as alt

from wirespeed import quantities as q
from wirespeed.accuracy import metrics
from wirespeed.accuracy.documents import NEAR, Accuracy, Judged
from wirespeed.accuracy.text import error
from wirespeed.report import charts

SVG_MARK: Final = "<!-- wirespeed accuracy -->"
"""What a picture holds, by which it is known as one that may be replaced."""

SIZE: Final = 250
_COLUMNS: Final = 2
# Okabe and Ito's colour-blind-safe set, less black and yellow, which one of the two papers swallows.
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8a6fd1", "#7d8896")
_SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
# Beyond the outermost points, as a factor or in points.
_MARGIN: Final = 1.3
_POINTS: Final = 15.0
_NO_POINTS: Final = "no row has a prediction"

_STYLE: Final = (
    "<style>:root{color-scheme:light dark;--paper:#fff;--ink:#16202c;--muted:#576475;--grid:#dde3ea}"
    "@media(prefers-color-scheme:dark){:root{--paper:#11161d;--ink:#e6ebf1;--muted:#9fadbd;--grid:#2d3845}}"
    "svg{background:var(--paper)}</style>"
)
_HEAD: Final = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1" '


def chart(document: Accuracy) -> str:
    """The picture as an SVG document; rows without a prediction are left out, fitted ones are hollow."""
    rows = [row for row in document["rows"] if row["predicted"] is not None and _is_drawn(row)]
    kinds = [each["kind"] for each in document["kinds"] if any(row["kind"] == each["kind"] for row in rows)]
    sources = list(dict.fromkeys(row["source"] for row in document["rows"]))
    panels = [_panel(kind, [row for row in rows if row["kind"] == kind], sources) for kind in kinds]
    if not panels:
        empty = alt.Chart(charts.data([{"x": 0}])).mark_text(text=_NO_POINTS, color="var(--ink)")
        panels = [empty.properties(width=SIZE, height=SIZE)]
    rowed = [alt.hconcat(*panels[at : at + _COLUMNS]) for at in range(0, len(panels), _COLUMNS)]
    whole = alt.vconcat(*rowed).resolve_scale(color="shared", shape="shared")
    drawn = charts.svg(whole, "Predicted over measured")
    return drawn.replace("<svg ", _HEAD, 1).replace(">", f">{SVG_MARK}{_STYLE}", 1)


def _is_drawn(row: Judged) -> bool:
    """On logarithmic axes nothing is 0."""
    return bool(row["error_unit"] == "points" or row["predicted"] > 0)


def _panel(kind: str, rows: Sequence[Judged], sources: Sequence[str]) -> alt.LayerChart:
    is_log = rows[0]["error_unit"] == "%"
    drawn = [
        {
            "measured": row["measured"] * _scale(row),
            "predicted": row["predicted"] * _scale(row),
            "source": row["source"],
            "fitted": bool(row["fitted"]),
            "words": _words(row),
        }
        for row in rows
    ]
    low, high = _ends(drawn, is_log)
    scale = alt.Scale(type="log" if is_log else "linear", domain=[low, high], nice=False)
    by = " (log scale)" if is_log else ""
    x = alt.X("measured:Q", scale=scale, axis=_axis(f"{_title(kind, rows)}, measured{by}"))
    y = alt.Y("predicted:Q", scale=scale, axis=_axis(f"{_title(kind, rows)}, predicted{by}"))
    base = alt.Chart(charts.data(drawn)).encode(x=x, y=y, description="words:N")
    legend = alt.Legend(title=None, orient="top", direction="vertical", columns=2, labelLimit=270)
    shape = alt.Shape("source:N", scale=alt.Scale(domain=list(sources), range=_round(_SHAPES, sources)), legend=legend)
    colour = alt.Color(
        "source:N", scale=alt.Scale(domain=list(sources), range=_round(_COLOURS, sources)), legend=legend
    )
    marks = [
        base.transform_filter(f"{'' if hollow else '!'}datum.fitted")
        .mark_point(size=44, filled=not hollow, opacity=0.9)
        .encode(shape=shape, color=colour)
        for hollow in (False, True)
    ]
    layers = [*_bands(low, high, is_log, scale), *marks]
    return alt.LayerChart(layer=layers, width=SIZE, height=SIZE)


def _words(row: Judged) -> str:
    measured, predicted = (q.digits(row[name], 4) for name in ("measured", "predicted"))
    off = error(row["error"], row["error_unit"])
    return f"{row['source']}, {row['case']}: measured {measured} {row['unit']}, predicted {predicted}, {off}"


def _bands(low: float, high: float, is_log: bool, scale: alt.Scale) -> list[alt.Chart]:
    """The diagonal, and the two bands around it."""
    steps = [low + (high - low) * place / 40 for place in range(41)]
    if is_log:
        steps = [low * (high / low) ** (place / 40) for place in range(41)]
    x = alt.X("measured:Q", scale=scale)
    layers = []
    for limit in reversed(NEAR):
        rows = []
        for at in steps:
            ends = (at * (1 - limit / 100), at * (1 + limit / 100)) if is_log else (at - limit, at + limit)
            rows.append({"measured": at, "least": max(low, ends[0]), "most": min(high, ends[1])})
        area = alt.Chart(charts.data(rows)).mark_area(color="var(--muted)", opacity=0.13)
        layers.append(area.encode(x=x, y=alt.Y("least:Q", scale=scale), y2="most:Q"))
    diagonal = charts.data([{"measured": each, "predicted": each} for each in (low, high)])
    line = alt.Chart(diagonal).mark_line(color="var(--muted)", strokeWidth=1)
    return [*layers, line.encode(x=x, y=alt.Y("predicted:Q", scale=scale))]


def _ends(rows: Sequence[dict[str, Any]], is_log: bool) -> tuple[float, float]:
    values = [row[name] for row in rows for name in ("measured", "predicted")]
    if is_log:
        return min(values) / _MARGIN, max(values) * _MARGIN
    return max(0.0, math.floor(min(values) - _POINTS)), min(100.0, math.ceil(max(values) + _POINTS))


def _scale(row: Judged) -> float:
    """What takes a row's numbers into the unit of the axis: a metric's own, and percent for shares."""
    metric = metrics.parse(row["metric"])
    return (100.0 if row["error_unit"] == "points" else 1.0) / metrics.factor(metric, row["unit"])


def _title(kind: str, rows: Sequence[Judged]) -> str:
    """The kind with the units of its axis."""
    if rows[0]["error_unit"] == "points":
        return f"{kind} (%)"
    found = [metrics.parse(row["metric"]) for row in rows]
    kinds = dict.fromkeys("ratio" if each.base else metrics.own_unit(each)[0] for each in found)
    units = [_NAMES[each] for each in kinds if each in _NAMES]
    return f"{kind} ({', '.join(units)})" if units else kind


_NAMES: Final = {"packets": "Mpps", "bits": "Gbps", "bytes": "GB/s", "time": "ns", "ratio": "ratios"}


def _axis(title: str) -> alt.Axis:
    return alt.Axis(title=title, tickCount=5, format="~r", labelOverlap="greedy")


def _round(of: Sequence[str], names: Sequence[str]) -> list[str]:
    """One for each name, from the beginning again where there are more names."""
    return [of[place % len(of)] for place in range(len(names))]
