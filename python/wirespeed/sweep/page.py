"""The page of a study: its metrics over its axes as curves and heat maps, and a table. Nothing is run here."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any, Final

import altair as alt

from wirespeed import quantities as q
from wirespeed.report import charts
from wirespeed.sweep import text
from wirespeed.sweep.metrics import METRICS, Metric

# Lines that can be told apart; more series become a heat map.
_LINES: Final = 6
_ROWS: Final = 2000
# Values of an axis that each have a tick, and ticks where there are more.
_FEW: Final = 8
_TICKS: Final = 5


def page(document: Mapping[str, Any]) -> str:
    """One HTML document that needs no network."""
    figures = []
    for name in document["metrics"]:
        metric = METRICS[name]
        drawn = chart(document, metric)
        if drawn is not None:
            figures.append(f"<section><h2>{escape(metric.title)}</h2><figure>{drawn}</figure></section>")
    heads, rows = text.rows(document)
    told = [*text.extremes(document), *text.widths(document)]
    best = "".join(f"<li>{escape(line[:1].upper() + line[1:])}</li>" for line in told)
    failed = "".join(
        f"<li><code>{escape(where)}</code>: {escape(why)}</li>" for where, why in text.errors(document)[:_ROWS]
    )
    more = f"<p class=note>{len(rows) - _ROWS} more points are in results.csv.</p>" if len(rows) > _ROWS else ""
    return shell(
        f"Sweep of {document['name'] or document['scenario']}",
        text.headline(document),
        f"<ul class=reasons>{best}</ul>",
        f"<div class=grid>{''.join(figures)}</div>"
        f"<section><h2>All points</h2>{table(heads, rows[:_ROWS])}{more}"
        f"<p class=note>{_of_what(document)}Built by {escape(document['build'])}.</p></section>"
        + (f"<section><h2>Without a result</h2><ul>{failed}</ul></section>" if failed else ""),
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


def shell(title: str, headline: str, under: str, body: str) -> str:
    """A page in the style of the report of a run; `under` and `body` are HTML."""
    style = resources.files("wirespeed.report").joinpath("templates/style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f'<header class="verdict open"><p class="name">{escape(title)}</p><h1>{escape(headline)}</h1>{under}</header>'
        f"{body}</main></body></html>\n"
    )


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: Sequence[str] = (),
    under: Mapping[str, str] | None = None,
) -> str:
    """A table; the first column heads its rows, and columns of the heads in `words` hold sentences, which wrap.

    `under` is what stands below the first cell of a row, by that cell.
    """
    below = {cell: f'<span class="under">{escape(line)}</span>' for cell, line in (under or {}).items()}
    kinds = [' class="words"' if each in words else "" for each in heads]
    head = "".join(f'<th scope="col"{kind}>{escape(each)}</th>' for kind, each in zip(kinds, heads, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{escape(cell)}{below.get(cell, "")}</th>'
            if place == 0
            else f"<td{kinds[place]}>{escape(cell)}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def chart(document: Mapping[str, Any], metric: Metric) -> str | None:
    """A metric over the first two axes that vary, as SVG; over the others it is the mean. None without two values.

    A numeric axis and few series are curves; two axes with many values are a heat map; samples are dots.
    """
    measured = [result for result in document["results"] if metric.name in result]
    axes = [axis["name"] for axis in document["axes"] if len({result["at"][axis["name"]] for result in measured}) > 1]
    if not axes:
        return None
    if document["design"] != "grid":
        return _dots(measured, axes[0], metric)
    numeric = [axis for axis in axes if all(q.is_number(result["at"][axis]) for result in measured)]
    # The axis with most values lies along the bottom.
    along = max(numeric or axes, key=lambda axis: len({result["at"][axis] for result in measured}))
    by = next((axis for axis in axes if axis != along), None)
    rows = _means(measured, along, by, metric)
    title = f"{metric.title} over {along}" + (f" by {by}" if by else "")
    series = len({row["by"] for row in rows})
    if along in numeric and series <= _LINES:
        return charts.svg(_curves(rows, along, by, metric), title)
    if by is not None:
        return charts.svg(_heat(rows, along, by, metric), title)
    bars = alt.Chart(charts.data(rows)).mark_bar(color=charts.CARRIED)
    return charts.svg(
        _sized(bars.encode(x=alt.X("x:N", title=along, sort=None), y=_y(metric, rows), description="words:N")), title
    )


def _means(measured: Sequence[Mapping[str, Any]], along: str, by: str | None, metric: Metric) -> list[dict[str, Any]]:
    cells: dict[tuple[Any, str], list[float]] = {}
    for result in measured:
        key = (result["at"][along], text.at(result["at"][by]) if by else "")
        cells.setdefault(key, []).append(result[metric.name]["mean"])
    return [
        {
            "x": x,
            "by": series,
            "y": statistics.fmean(values) / metric.scale,
            "words": f"{along}={text.at(x)}"
            + (f", {by}={series}" if by else "")
            + f": {metric.text(statistics.fmean(values))}",
        }
        for (x, series), values in cells.items()
    ]


def _curves(rows: list[dict[str, Any]], along: str, by: str | None, metric: Metric) -> alt.LayerChart:
    base = alt.Chart(charts.data(rows)).encode(
        x=alt.X("x:Q", axis=_along(along, rows), scale=alt.Scale(zero=False, nice=False)), y=_y(metric, rows)
    )
    if by is not None:
        order = list(dict.fromkeys(row["by"] for row in rows))
        legend = alt.Legend(title=by, orient="top", direction="horizontal", symbolType="stroke")
        scale = alt.Scale(domain=order, range=list(_COLOURS[: len(order)]))
        base = base.encode(color=alt.Color("by:N", sort=order, scale=scale, legend=legend))
        line = base.mark_line(strokeWidth=2)
    else:
        line = base.mark_line(strokeWidth=2, color=charts.CARRIED)
    dots = base.mark_point(filled=True, size=36, opacity=1).encode(description="words:N")
    drawn: alt.LayerChart = _sized(line + dots)
    return drawn


def _heat(rows: list[dict[str, Any]], along: str, by: str, metric: Metric) -> alt.LayerChart:
    xs, ys = list(dict.fromkeys(row["x"] for row in rows)), list(dict.fromkeys(row["by"] for row in rows))
    base = alt.Chart(charts.data(rows)).encode(
        x=alt.X("x:O", title=along, sort=xs, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y("by:O", title=by, sort=ys),
    )
    shown = ticks([row["y"] for row in rows])
    legend = alt.Legend(title=metric.unit, orient="right", gradientLength=160, format=shown)
    tiles = base.mark_rect().encode(
        color=alt.Color("y:Q", scale=alt.Scale(scheme="viridis", zero=False), legend=legend), description="words:N"
    )
    drawn: alt.LayerChart = _sized(alt.layer(tiles))
    return drawn


def _dots(measured: Sequence[Mapping[str, Any]], along: str, metric: Metric) -> str:
    rows = [
        {
            "x": result["at"][along],
            "y": result[metric.name]["mean"] / metric.scale,
            "words": ", ".join(f"{k}={v}" for k, v in result["at"].items())
            + f": {metric.text(result[metric.name]['mean'])}",
        }
        for result in measured
    ]
    kind = "Q" if all(q.is_number(row["x"]) for row in rows) else "N"
    x = alt.X(f"x:{kind}", axis=_along(along, rows) if kind == "Q" else alt.Axis(title=along))
    dots = alt.Chart(charts.data(rows)).mark_point(filled=True, size=30, opacity=0.7, color=charts.CARRIED)
    return charts.svg(
        _sized(alt.layer(dots.encode(x=x, y=_y(metric, rows), description="words:N"))), f"{metric.title} over {along}"
    )


def _y(metric: Metric, rows: Sequence[Mapping[str, Any]]) -> alt.Y:
    shown = ticks([row["y"] for row in rows])
    axis = alt.Axis(title=f"{metric.title}, {metric.unit}", titlePadding=12, tickCount=_TICKS, format=shown)
    return alt.Y("y:Q", axis=axis, scale=alt.Scale(zero=False, padding=8))


def _along(along: str, rows: Sequence[Mapping[str, Any]]) -> alt.Axis:
    """An axis of numbers: its ticks are the values where there are few, and no halves of what is whole."""
    values = sorted({row["x"] for row in rows})
    is_whole = all(float(value).is_integer() for value in values)
    if len(values) <= _FEW:
        return alt.Axis(title=along, values=values, format=",d" if is_whole else "~g", labelOverlap="greedy")
    least = {"tickMinStep": 1, "format": ",d"} if is_whole else {"format": ticks(values)}
    return alt.Axis(title=along, tickCount=_TICKS, labelOverlap="greedy", **least)


def ticks(values: Sequence[float]) -> str:
    """The format of an axis' labels: as many decimals as tell its ticks apart; of equal values four digits.

    >>> ticks([52.2, 53.1]), ticks([0.0, 120.0]), ticks([9.588, 9.588]), ticks([0.1, 1.0])
    (',.1f', ',.0f', ',.3f', ',.1f')
    """
    span = max(values) - min(values)
    if span > 0:
        decimals = -math.floor(math.log10(span / _TICKS))
    else:
        decimals = 3 - math.floor(math.log10(abs(values[0]))) if values[0] else 0
    return f",.{min(max(decimals, 0), 9)}f"


def _sized(chart: Any) -> Any:
    return chart.properties(width=charts.WIDTH, height=charts.HEIGHT)


_COLOURS: Final = ("#0a6cb8", "#c2500a", "#0a8f68", "#a5558c", "#868e9b", "#b3960e")
