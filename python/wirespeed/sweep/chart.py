"""The charts of a study: each mark is one point of it, with its ±. Nothing is averaged over an axis.

Along the bottom lies the numeric axis with most values, the next axis is a line each, and every combination of the
others is a panel of its own. Where there are more combinations than panels, axes are held at the best point's values,
and the caption says which.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import altair as alt

from wirespeed import quantities as q
from wirespeed import units
from wirespeed.report import charts
from wirespeed.sweep import text
from wirespeed.sweep.metrics import Metric

Row = dict[str, Any]
Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart, and the settings that all its points have."""

    title: str
    chart: alt.LayerChart


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric over what is varied: what a reader has to know of it, names with colours, and charts."""

    captions: tuple[str, ...]
    legend: tuple[tuple[str, str], ...] = ()
    panels: tuple[Panel, ...] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis as it is drawn: numbers (in a unit), or names."""

    name: str
    kind: Literal["number", "name"]
    title: str
    places: Mapping[Any, Any] = field(default_factory=dict)
    """Of each value where it stands: a number, or a label; in the order of the axis."""


def figure(document: Mapping[str, Any], metric: Metric) -> Figure | None:
    """The figure of a metric; None where no axis has two values with a result."""
    measured = [result for result in document["results"] if metric.name in result]
    axes = [axis_of(axis["name"], measured) for axis in document["axes"]]
    axes = [axis for axis in axes if len(axis.places) > 1]
    if not axes:
        return None
    means = {result[metric.name]["mean"] for result in measured}
    if len(means) == 1:
        return Figure((f"{text.value(metric.name, measured[0][metric.name])} at every point.",))
    captions: tuple[str, ...] = () if text.differ(measured, metric.name) else (NO_DIFFERENCE,)
    if document["design"] != "grid":
        return _samples(measured, axes, metric, captions)
    along, by, others = _roles(axes)
    shown, others, held = _held(measured, others, metric)
    captions += tuple(f"Shown at {axis.name}={value}; the other values are in the table." for axis, value in held)
    frame = _Frame(metric, along, by, measured)
    if any(result[metric.name]["half_width"] is not None for result in shown) and not frame.is_heat:
        captions += ("Bars are the 95 % half-widths.",)
        if any(result[metric.name]["half_width"] is None for result in shown):
            captions += ("A point without a bar has no half-width that is known: it is not exact.",)
    panels = []
    for values in itertools.product(*(axis.places for axis in others)):
        here = [r for r in shown if all(r["at"][axis.name] == v for axis, v in zip(others, values, strict=True))]
        if here:
            title = ", ".join(f"{axis.name}={text.at(v)}" for axis, v in zip(others, values, strict=True))
            panels.append(Panel(title, frame.draw(here)))
    legend = () if frame.is_heat or by is None else tuple(zip(by.places, _COLOURS, strict=False))
    legend = tuple((f"{by.name}={text.at(value)}", colour) for value, colour in legend) if by is not None else ()
    return Figure(captions, legend, tuple(panels))


def axis_of(name: str, measured: Sequence[Result]) -> Axis:
    """How an axis is drawn, by its name and the values that have results.

    >>> list(axis_of("traffic.rate", [{"at": {"traffic.rate": r}} for r in ("40 Gbps", "80G")]).places.values())
    [40.0, 80.0]
    >>> list(axis_of("traffic.rate", [{"at": {"traffic.rate": r}} for r in ("50G", "100G")]).places.values())
    [50.0, 100.0]
    """
    values = list(dict.fromkeys(result["at"][name] for result in measured))
    if all(q.is_number(value) for value in values):
        return Axis(name, "number", name, {value: value for value in sorted(values)})
    read = {value: units.parse(value) for value in values if isinstance(value, str)}
    kinds = {each.kind for each in read.values() if each is not None}
    of_rate: units.Kind | None = _RATES.get(name.rpartition(".")[2])
    if of_rate is not None and kinds <= {of_rate, "count"}:
        kinds = {of_rate}  # `100G` leaves the unit out
    if values and len(read) == len(values) and None not in read.values() and len(kinds) == 1:
        numbers = {value: each.value for value, each in read.items() if each is not None}
        scale, unit = _unit(kinds.pop(), max(numbers.values()))
        ordered = sorted(numbers, key=lambda value: numbers[value])
        places = {value: numbers[value] / scale for value in ordered}
        return Axis(name, "number", f"{name}, {unit}" if unit else name, places)
    return Axis(name, "name", name, text.labels({"name": name}, measured))


def _unit(kind: units.Kind, largest: float) -> tuple[float, str]:
    choices = _AXIS_UNITS.get(kind, ())
    return next(((scale, unit) for scale, unit in choices if largest >= scale), choices[-1] if choices else (1.0, ""))


def _roles(axes: Sequence[Axis]) -> tuple[Axis, Axis | None, list[Axis]]:
    """What lies along the bottom, what is a line each, and what is a panel each."""
    along = max(axes, key=lambda axis: (-_KINDS.index(axis.kind), len(axis.places)))
    rest = [axis for axis in axes if axis is not along]
    by = next((axis for axis in rest if len(axis.places) <= _LINES), rest[0] if rest else None)
    return along, by, [axis for axis in rest if axis is not by]


def _held(
    measured: Sequence[Result], others: list[Axis], metric: Metric
) -> tuple[Sequence[Result], list[Axis], list[tuple[Axis, str]]]:
    """The results that fit into panels, the axes of the panels, and the axes that had to be held with their value."""
    best = max(measured, key=lambda result: metric.better * result[metric.name]["mean"])
    held: list[tuple[Axis, str]] = []
    while math.prod(len(axis.places) for axis in others) > _PANELS:
        axis = max(others, key=lambda each: len(each.places))
        others = [each for each in others if each is not axis]
        value = best["at"][axis.name]
        measured = [result for result in measured if result["at"][axis.name] == value]
        held.append((axis, f"{text.at(value)} (where the best point is)"))
    return measured, others, held


class _Frame:
    """What all panels of a figure share: the axes, the colours and the range of the metric."""

    def __init__(self, metric: Metric, along: Axis, by: Axis | None, measured: Sequence[Result]) -> None:
        self._metric, self._along, self._by = metric, along, by
        self.is_heat = by is not None and len(by.places) > _LINES
        self._domain = _domain(measured, metric)
        self._has_differences = text.differ(measured, metric.name)

    def draw(self, results: Sequence[Result]) -> alt.LayerChart:
        rows = [self._row(result) for result in results]
        if self.is_heat:
            return self._heat(rows)
        return self._names(rows) if self._along.kind == "name" else self._curves(self._pieces(rows))

    def _row(self, result: Result) -> Row:
        at, by = result["at"], self._by
        row = _row(result, self._metric)
        return row | {
            "x": self._along.places[at[self._along.name]],
            "by": "" if by is None else str(by.places[at[by.name]]),
        }

    def _pieces(self, rows: list[Row]) -> list[Row]:
        """A line ends where a point has no result: nothing was measured there."""
        order = {place: rank for rank, place in enumerate(self._along.places.values())}
        found: list[Row] = []
        for by in dict.fromkeys(row["by"] for row in rows):
            line = sorted((row for row in rows if row["by"] == by), key=lambda row: order[row["x"]])
            piece, last = 0, None
            for row in line:
                if last is not None and order[row["x"]] != order[last] + 1:
                    piece += 1
                last = row["x"]
                found.append(row | {"piece": f"{by} {piece}"})
        return found

    def _x(self) -> alt.X:
        if self._along.kind == "number":
            return alt.X("x:Q", axis=_ticks_along(self._along), scale=alt.Scale(zero=False, nice=False, padding=8))
        return alt.X("x:O", title=self._along.title, sort=list(self._along.places.values()), axis=_PLAIN)

    def _colour(self) -> Any:
        if self._by is None:
            return alt.value(charts.CARRIED)
        names = [str(place) for place in self._by.places.values()]
        return alt.Color("by:N", legend=None, scale=alt.Scale(domain=names, range=list(_COLOURS[: len(names)])))

    def _curves(self, rows: list[Row]) -> alt.LayerChart:
        y = functools.partial(_value, alt.Y, self._metric, self._domain)
        base = alt.Chart(charts.data(rows)).encode(x=self._x(), y=y("y"), color=self._colour())
        line = base.mark_line(strokeWidth=2).encode(detail="piece:N")
        bars = base.mark_rule(strokeWidth=1.5).encode(y=y("low"), y2="high:Q")
        dots = base.mark_point(filled=True, size=36, opacity=1).encode(description="words:N")
        return _sized(alt.layer(line, bars, dots))

    def _names(self, rows: list[Row]) -> alt.LayerChart:
        """Names stand beside each other's marks, below each other: they are long, and no line leads between them."""
        names = list(self._along.places.values())
        x = functools.partial(_value, alt.X, self._metric, self._domain)
        y = alt.Y("x:N", sort=names, title=self._along.title, axis=alt.Axis(labelLimit=160))
        base = alt.Chart(charts.data(rows)).encode(x=x("y"), y=y, color=self._colour())
        if self._by is not None:
            base = base.encode(yOffset=alt.YOffset("by:N", sort=[str(each) for each in self._by.places.values()]))
        bars = base.mark_rule(strokeWidth=1.5).encode(x=x("low"), x2="high:Q")
        dots = base.mark_point(filled=True, size=36, opacity=1).encode(description="words:N")
        each = _NAME_HEIGHT + (_OFFSET_HEIGHT * len(self._by.places) if self._by is not None else 0)
        return _sized(alt.layer(bars, dots), max(len(names) * each, _NAME_HEIGHT * 3))

    def _heat(self, rows: list[Row]) -> alt.LayerChart:
        assert self._by is not None
        base = alt.Chart(charts.data(rows)).encode(
            x=alt.X("x:O", title=self._along.title, sort=list(self._along.places.values()), axis=_PLAIN),
            y=alt.Y("by:O", title=self._by.title, sort=[str(each) for each in self._by.places.values()]),
        )
        legend = alt.Legend(title=self._metric.unit, orient="right", gradientLength=160, format=ticks(self._domain))
        scale = alt.Scale(scheme="viridis", domain=list(self._domain))
        return _sized(alt.layer(base.mark_rect().encode(color=alt.Color("y:Q", scale=scale, legend=legend),
                                                        description="words:N")))  # fmt: skip


def _samples(measured: Sequence[Result], axes: Sequence[Axis], metric: Metric, captions: tuple[str, ...]) -> Figure:
    """A panel an axis; the other settings of a dot differ from those of its neighbours."""
    domain = _domain(measured, metric)
    panels = []
    for axis in axes[:_PANELS]:
        rows = [_row(result, metric) | {"x": axis.places[result["at"][axis.name]]} for result in measured]
        x = (
            alt.X("x:Q", axis=_ticks_along(axis), scale=alt.Scale(zero=False, nice=False, padding=8))
            if axis.kind == "number"
            else alt.X("x:O", title=axis.title, sort=list(axis.places.values()), axis=_PLAIN)
        )
        y = functools.partial(_value, alt.Y, metric, domain)
        base = alt.Chart(charts.data(rows)).encode(x=x, y=y("y"))
        bars = base.mark_rule(color=charts.CARRIED, opacity=0.5).encode(y=y("low"), y2="high:Q")
        dots = base.mark_point(filled=True, size=30, opacity=0.7, color=charts.CARRIED).encode(description="words:N")
        panels.append(Panel(f"over {axis.name}", _sized(alt.layer(bars, dots))))
    more = len(axes) - len(panels)
    captions += ("Each dot is a point of the study; settings that a panel does not show differ from dot to dot.",)
    captions += (f"{more} more axes are in the table.",) if more else ()
    return Figure(captions, (), tuple(panels))


def _row(result: Result, metric: Metric) -> Row:
    found = result[metric.name]
    mean, wide = found["mean"] / metric.scale, (found["half_width"] or 0.0) / metric.scale
    low = mean - wide if math.isfinite(wide) else mean
    high = mean + wide if math.isfinite(wide) else mean
    words = ", ".join(f"{name}={text.at(value)}" for name, value in result["at"].items())
    return {
        "point": result.get("point"),
        "y": mean,
        # No metric is below nothing.
        "low": max(low, 0.0) if mean >= 0 else low,
        "high": high,
        "words": f"{words}: {text.value(metric.name, found)}",
    }


def _domain(measured: Sequence[Result], metric: Metric) -> tuple[float, float]:
    """The range of the metric's axis: all bars of it; from zero where no point can be told from another."""
    rows = [_row(result, metric) for result in measured]
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    span = (high - low) or abs(high) or 1.0
    if not text.differ(measured, metric.name) or 0 <= low < _NEAR_ZERO * high:
        return min(low, 0.0), high + _MARGIN * abs(high)
    return max(low - _MARGIN * span, 0.0) if low >= 0 else low - _MARGIN * span, high + _MARGIN * span


def _value(channel: Any, metric: Metric, domain: tuple[float, float], column: str) -> Any:
    """The channel of a metric's values, or of an end of its bars."""
    axis = alt.Axis(title=f"{metric.title}, {metric.unit}", titlePadding=12, tickCount=_TICKS, format=ticks(domain))
    return channel(f"{column}:Q", axis=axis, scale=alt.Scale(domain=list(domain), nice=False))


def _ticks_along(axis: Axis) -> alt.Axis:
    """An axis of numbers: its ticks are the values where there are few, and no halves of what is whole."""
    values = list(axis.places.values())
    is_whole = all(float(value).is_integer() for value in values)
    if len(values) <= _FEW:
        return alt.Axis(title=axis.title, values=values, format=",d" if is_whole else "~g", labelOverlap="greedy")
    least = {"tickMinStep": 1, "format": ",d"} if is_whole else {"format": ticks(values)}
    return alt.Axis(title=axis.title, tickCount=_TICKS, labelOverlap="greedy", **least)


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


def _sized(chart: Any, height: float = charts.HEIGHT) -> alt.LayerChart:
    drawn: alt.LayerChart = chart.properties(width=charts.WIDTH, height=height)
    return drawn


NO_DIFFERENCE: Final = "These points cannot be told apart: what differs is within their ±. The axis begins at zero."

_KINDS: Final = ("number", "name")
# Settings whose values may leave the unit out.
_RATES: Final[Mapping[str, units.Kind]] = {"rate": "bits", "packet_rate": "packets"}
# Lines that can be told apart; more series become a heat map. Panels that a reader still looks at.
_LINES: Final = 6
_PANELS: Final = 12
# Values of an axis that each have a tick, and ticks where there are more.
_FEW: Final = 8
_TICKS: Final = 5
# An axis whose least value is below that share of its greatest begins at zero.
_NEAR_ZERO: Final = 0.3
_MARGIN: Final = 0.06
_NAME_HEIGHT: Final = 28
_OFFSET_HEIGHT: Final = 9
_PLAIN: Final = alt.Axis(labelAngle=0, labelOverlap=True)
_AXIS_UNITS: Final[Mapping[units.Kind, tuple[tuple[float, str], ...]]] = {
    "bits": ((1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1.0, "bps")),
    "packets": ((1e6, "Mpps"), (1e3, "kpps"), (1.0, "pps")),
    "bytes": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "time": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "frequency": ((1e9, "GHz"), (1e6, "MHz"), (1.0, "Hz")),
}
_COLOURS: Final = ("#0a6cb8", "#c2500a", "#0a8f68", "#a5558c", "#868e9b", "#b3960e")
