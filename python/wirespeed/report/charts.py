"""The line charts of the report, as static SVG: rates over load or time, sojourn over load, sojourn distribution.

Static, because the report has to open offline, print well and stay small: a chart is some ten kilobytes instead of the
900 kB of a bundled script. Colours are CSS variables of the page, so that one drawing serves light and dark mode and
print. The specs are ordinary Vega-Lite; what they draw also stands in a table beside them.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import altair as alt
import vl_convert

from wirespeed import quantities as q
from wirespeed.report.palette import colour
from wirespeed.summary import Predicted
from wirespeed.summary_types import ControlInterval, CurvePoint, DramControllers, IntervalSummary, Sojourn

WIDTH: Final = 430
HEIGHT: Final = 230

OFFERED, CARRIED, TAIL = "var(--offered)", "var(--carried)", "var(--tail)"
_FONT: Final = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
# Room for the labels of an axis, and between them and its title: they are as wide as their fonts make them.
_LABELS: Final = 34
_TITLE: Final = 14
_LOG_TITLE: Final = "sojourn, µs (log scale)"
_QUANTILES: Final = (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart, and what it shows in words."""

    chart: alt.Chart | alt.LayerChart | alt.VConcatChart
    title: str

    def svg(self) -> str:
        """The chart as the report has it."""
        return svg(self.chart, self.title)


# Of the page's colours those that can be read on white and on black.
_ON_ANY: Final[Mapping[str, str]] = {
    "offered": "#7d8896",
    "carried": "#2f8fd0",
    "tail": "#d9692a",
    "ink": "#7d8896",
    "muted": "#7d8896",
    "grid": "#9aa5b166",
    "paper": "#00000000",
}
_VARIABLE: Final = re.compile(r"var\(--([\w-]+)\)")


def for_notebook(chart: Any) -> alt.TopLevelMixin:
    """A chart for where the page's style is not: its colours can be read on light and dark paper."""
    spec = json.dumps(_styled(chart).to_dict())
    found: alt.TopLevelMixin = alt.Chart.from_json(_VARIABLE.sub(lambda name: _ON_ANY[name[1]], spec))
    return found


def rate_over_load(curve: Sequence[CurvePoint]) -> Drawing | None:
    """Offered and carried rate over the offered load, or None where there are not two points to join."""
    rows = [
        {
            "x": p["offered_mpps"],
            "offered": p["offered_mpps"],
            "carried": p["carried_mpps"],
            "words": f"{q.mpps(p['offered_mpps'])} offered, {q.mpps(p['carried_mpps'])} carried, "
            f"loss {q.probability(p.get('loss'))}",
        }
        for p in curve
        if _all_numbers(p.get("offered_mpps"), p.get("carried_mpps"))
    ]
    if len({row["x"] for row in rows}) < 2:
        return None
    chart = _offered_and_carried(rows, alt.Axis(title="offered, Mpps", tickCount=6))
    return Drawing(chart, "Offered and carried packet rate over offered load")


def rate_over_time(series: Sequence[IntervalSummary]) -> Drawing | None:
    """Offered and carried rate over simulated time, or None where there are not two intervals."""
    known = [
        p
        for p in _whole(_while_offered(series))
        if _all_numbers(p.get("start_ns"), p.get("offered_mpps"), p.get("carried_mpps"))
    ]
    if len(known) < 2:
        return None
    scale, unit = _time_scale(known)
    rows = [
        {
            "x": p["start_ns"] / scale,
            "offered": p["offered_mpps"],
            "carried": p["carried_mpps"],
            "words": f"from {q.duration(p['start_ns'])}: {q.mpps(p['offered_mpps'])} offered, "
            f"{q.mpps(p['carried_mpps'])} carried",
        }
        for p in known
    ]
    chart = _offered_and_carried(rows, alt.Axis(title=f"simulated time, {unit}", tickCount=6), points=len(rows) <= 40)
    return Drawing(chart, "Offered and carried packet rate over simulated time")


# What the machine does over time: the field of an interval, its factor, the axis' title and what full means.
_ACTIVITY: Final[Sequence[tuple[str, float, str, float | None]]] = (
    ("core_busy", 100.0, "busy, %", 100.0),
    ("ring_packets", 1.0, "in rings, packets", None),
    ("llc_hit_rate", 100.0, "LLC hits, %", 100.0),
    ("dram_gb_per_s", 1.0, "DRAM, GB/s", None),
)


def machine_over_time(series: Sequence[IntervalSummary]) -> Drawing | None:
    """What cores, rings, LLC and DRAM do over simulated time, or None where nothing of it was measured."""
    series = _while_offered(series)
    scale, unit = _time_scale(series)
    panels = []
    for field, factor, title, most in _ACTIVITY:
        values: list[tuple[float, object]] = [(p.get("start_ns", math.nan), p.get(field)) for p in series]
        rows = [
            {"x": start / scale, "y": value * factor}
            for start, value in values
            if q.is_number(start) and isinstance(value, int | float) and q.is_number(value)
        ]
        if len(rows) < 2:
            continue
        domain = alt.Scale(domain=[0, most]) if most is not None else alt.Scale(zero=True)
        panel = alt.Chart(data(rows)).mark_line(strokeWidth=1.5, color=CARRIED)
        axis = alt.Axis(title=title, tickCount=3, minExtent=_LABELS, titlePadding=_TITLE)
        panels.append((panel, alt.Y("y:Q", axis=axis, scale=domain)))
    if not panels:
        return None
    drawn = []
    for place, (panel, y) in enumerate(panels):
        last = place == len(panels) - 1
        axis = alt.Axis(title=f"simulated time, {unit}" if last else None, labels=last, tickCount=6)
        x = alt.X("x:Q", axis=axis, scale=alt.Scale(nice=False, zero=False))
        drawn.append(panel.encode(x=x, y=y).properties(width=WIDTH, height=HEIGHT / len(_ACTIVITY)))
    return Drawing(alt.vconcat(*drawn, spacing=8), "Cores, rings, LLC and DRAM over simulated time")


# Where mbufs are, from what holds the fewest usually to what holds the most.
_MBUFS: Final = {
    "mbufs_queued": ("queued", colour("burst")),
    "mbufs_sending": ("with cores, or sent and not freed", colour("tx_queue")),
    "mbufs_descriptors": ("in descriptors", colour("ring")),
    "mbufs_free": ("free", "var(--grid)"),
}


def mbufs_over_time(series: Sequence[IntervalSummary]) -> Drawing | None:
    """The pool's mbufs by where they are, over simulated time; None where it was not measured."""
    scale, unit = _time_scale(series)
    rows = []
    for p in series:
        start = p.get("start_ns", math.nan)
        values: list[tuple[str, object]] = [(field, p.get(field)) for field in _MBUFS]
        rows += [
            {"x": start / scale, "y": value, "state": _MBUFS[field][0], "order": order}
            for order, (field, value) in enumerate(values)
            if q.is_number(start) and isinstance(value, int | float) and q.is_number(value)
        ]
    if len(rows) < 2 * len(_MBUFS):
        return None
    # Where mbufs never are is no part of the picture.
    used = {row["state"] for row in rows if row["y"]}
    rows = [row for row in rows if row["state"] in used]
    names, colours = zip(*(each for each in _MBUFS.values() if each[0] in used), strict=True)
    chart = (
        alt.Chart(data(rows))
        .mark_area()
        .encode(
            x=alt.X(
                "x:Q",
                axis=alt.Axis(title=f"simulated time, {unit}", tickCount=6),
                scale=alt.Scale(nice=False, zero=False),
            ),
            y=alt.Y("y:Q", stack="zero", axis=alt.Axis(title="mbufs", titlePadding=16, tickCount=4, format="~s")),
            color=alt.Color(
                "state:N",
                scale=alt.Scale(domain=list(names), range=list(colours)),
                legend=alt.Legend(title=None, orient="top", columns=4, columnPadding=24),
            ),
            order=alt.Order("order:Q"),
        )
        .properties(width=WIDTH, height=HEIGHT / 2)
    )
    return Drawing(chart, "Mbufs by where they are over simulated time")


# Who brought lines into the LLC, in the order of `llc_bytes`.
_OWNERS: Final = {
    "devices": colour("pcie"),
    "receiving cores": colour("ring"),
    "working cores": colour("burst"),
    "others": colour("core"),
}


# States of the allocator, those that it is to keep first.
_STATES: Final = {
    "no bottleneck": colour("llc"),
    "balance": colour("interconnect"),
    "DDIO bottleneck": colour("row_miss"),
    "core bottleneck": colour("l2"),
}


def _stays(intervals: Sequence[ControlInterval], scale: float) -> list[dict[str, float | str]]:
    """From when to when the allocator was in which state; nothing of other policies."""
    stays: list[dict[str, float | str]] = []
    begun = 0.0
    for each in intervals:
        state, end = each.get("state"), each["at_ns"] / scale
        if state is not None and stays and stays[-1]["state"] == state:
            stays[-1]["end"] = end
        elif state is not None:
            stays.append({"begin": begun, "end": end, "state": state})
        begun = end
    return stays


def cache_over_time(intervals: Sequence[ControlInterval]) -> Drawing | None:
    """States of the allocator, ways of devices, and LLC occupancy by who brought lines in, over simulated time.

    None below two intervals; no states of other policies.
    """
    if len(intervals) < 2:
        return None
    last = intervals[-1]["at_ns"]
    scale, unit = next((s for s in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")) if last >= s[0]), (1.0, "ns"))
    axis = alt.Axis(title=None, labels=False, tickCount=6)
    x = alt.X("x:Q", axis=axis, scale=alt.Scale(nice=False, zero=False))
    steps = [{"x": i["at_ns"] / scale, "y": i["io_ways"]} for i in intervals]
    ways = (
        alt.Chart(data(steps))
        .mark_line(strokeWidth=1.5, color=CARRIED, interpolate="step-before")
        .encode(x=x, y=alt.Y("y:Q", axis=alt.Axis(title="I/O ways", tickMinStep=1, tickCount=4)))
        .properties(width=WIDTH, height=HEIGHT / 4)
    )
    stays = _stays(intervals, scale)
    states = [state for state in _STATES if any(stay["state"] == state for stay in stays)]
    band = (
        alt.Chart(data(stays))
        .mark_rect()
        .encode(
            x=alt.X("begin:Q", axis=axis, scale=alt.Scale(nice=False, zero=False)),
            x2="end:Q",
            color=alt.Color(
                "state:N",
                sort=states,
                scale=alt.Scale(domain=states, range=[_STATES[name] for name in states]),
                legend=alt.Legend(title=None, orient="top", columns=4, columnPadding=24, symbolType="square"),
            ),
        )
        .properties(width=WIDTH, height=HEIGHT / 16)
    )
    owners = [
        {"x": i["at_ns"] / scale, "y": count / 2**20, "owner": owner}
        for i in intervals
        for owner, count in zip(_OWNERS, i["llc_bytes"], strict=True)
    ]
    shown = [owner for place, owner in enumerate(_OWNERS) if any(i["llc_bytes"][place] > 0 for i in intervals)]
    occupancy = (
        alt.Chart(data([row for row in owners if row["owner"] in shown]))
        .mark_area()
        .encode(
            x=x.axis(alt.Axis(title=f"simulated time, {unit}", tickCount=6)),
            y=alt.Y("y:Q", stack="zero", axis=alt.Axis(title="LLC, MiB", tickCount=4)),
            color=alt.Color(
                "owner:N",
                sort=shown,
                scale=alt.Scale(domain=shown, range=[_OWNERS[name] for name in shown]),
                legend=alt.Legend(title=None, orient="top", columns=4, columnPadding=24, symbolType="square"),
            ),
        )
        .properties(width=WIDTH, height=HEIGHT / 2)
    )
    shown_charts = [band, ways, occupancy] if stays else [ways, occupancy]
    stacked = alt.vconcat(*shown_charts, spacing=8).resolve_scale(color="independent")
    words = "States of the allocator, ways" if stays else "Ways"
    return Drawing(stacked, f"{words} of devices and occupancy of the LLC over simulated time")


_BANKS_IN_WORDS: Final = 256


def banks(controllers: DramControllers) -> Drawing | None:
    """How many requests each bank of DRAM had, a row a channel; None below two banks."""
    met, channels = controllers.get("banks") or [], len(controllers.get("channels") or [])
    if len(met) < 2 or not channels or len(met) % channels:
        return None
    of_a_channel = len(met) // channels
    # Words for each of a thousand banks would be most of a page's bytes.
    in_words = len(met) <= _BANKS_IN_WORDS
    rows: list[dict[str, Any]] = []
    for place, (hits, misses, conflicts) in enumerate(met):
        channel, bank = divmod(place, of_a_channel)
        row: dict[str, Any] = {"bank": bank, "channel": channel, "requests": hits + misses + conflicts}
        if in_words:
            met_by = f"{hits} row hits, {misses} misses, {conflicts} conflicts"
            row["words"] = f"channel {channel}, bank {bank}: {met_by}"
        rows.append(row)
    # As many rows as there are channels, each high enough to be seen, and labels that stay apart.
    height = max(min(HEIGHT, 22 * channels), 22)
    every = [bank for bank in range(of_a_channel) if bank % math.ceil(of_a_channel / 16) == 0]
    numbers = [channel for channel in range(channels) if channel % math.ceil(channels * 14 / height) == 0]
    busiest = max(row["requests"] for row in rows) or 1
    chart = (
        alt.Chart(data(rows))
        .mark_rect(color=colour("row_miss"), aria=in_words)
        .encode(
            x=alt.X("bank:O", axis=alt.Axis(title="bank", labelAngle=0, values=every)),
            y=alt.Y("channel:O", axis=alt.Axis(title="channel", values=numbers, titlePadding=_TITLE)),
            opacity=alt.Opacity("requests:Q", scale=alt.Scale(domain=[0, busiest], range=[0.05, 1.0]), legend=None),
            **({"description": "words:N"} if in_words else {}),
        )
        .properties(width=WIDTH, height=height)
    )
    return Drawing(chart, f"Requests by bank of {channels} {'channel' if channels == 1 else 'channels'} of DRAM")


def _while_offered(series: Sequence[IntervalSummary]) -> Sequence[IntervalSummary]:
    """The series up to the last interval in which a packet came: after that rings run dry, whatever the machine."""
    last = max((place for place, p in enumerate(series) if p.get("offered_mpps")), default=-1)
    return series[: last + 1] or series


def _whole(series: Sequence[IntervalSummary]) -> list[IntervalSummary]:
    """The intervals without those that are cut short: a packet in a nanosecond is a rate that nothing has."""
    widths = [width for p in series if q.is_number(width := p.get("width_ns"))]
    least = statistics.median(widths) / 2 if widths else 0.0
    return [p for p in series if not q.is_number(width := p.get("width_ns")) or width >= least]


def _time_scale(series: Sequence[IntervalSummary]) -> tuple[float, str]:
    """Nanoseconds in the unit that suits the last interval, and its name."""
    last = max((p["start_ns"] for p in series if q.is_number(p.get("start_ns"))), default=0.0)
    return next((s for s in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")) if last >= s[0]), (1.0, "ns"))


def sojourn_over_load(curve: Sequence[CurvePoint | Predicted]) -> Drawing | None:
    """Median and 99th percentile of the sojourn over the offered load, of closed forms the mean.

    None where there are not two points.
    """
    rows = [
        {
            "x": p["offered_mpps"],
            "us": ns / 1e3,
            "which": which,
            "words": f"{q.mpps(p['offered_mpps'])} offered: {which} {q.duration(ns)}",
        }
        for p in curve
        for which, ns in (("p50", p.get("p50_ns")), ("p99", p.get("p99_ns")), ("mean", p.get("mean_ns")))
        if isinstance(ns, int | float) and _all_numbers(p.get("offered_mpps"), ns) and ns > 0
    ]
    if len({row["x"] for row in rows}) < 2:
        return None
    x = alt.X("x:Q", axis=alt.Axis(title="offered, Mpps", tickCount=6))
    y = alt.Y("us:Q", scale=alt.Scale(type="log", nice=False, padding=8), axis=_log_axis(rows))
    lines = {"p50": CARRIED, "p99": TAIL, "mean": CARRIED}
    seen = [which for which in lines if any(row["which"] == which for row in rows)]
    scale = alt.Scale(domain=seen, range=[lines[which] for which in seen])
    colour = alt.Color("which:N", scale=scale, legend=_legend())
    base = alt.Chart(data(rows)).encode(x=x, y=y, color=colour)
    chart = base.mark_line(strokeWidth=2) + base.mark_point(filled=True, size=46, opacity=1).encode(
        description="words:N"
    )
    what = "Mean" if seen == ["mean"] else "Median and 99th percentile of"
    return Drawing(chart.properties(width=WIDTH, height=HEIGHT), f"{what} sojourn over load")


def sojourn_distribution(cdf: Sequence[Sequence[float]], sojourn: Sojourn) -> Drawing | None:
    """The share of packets that took at most a time, over that time (logarithmic); None below two points."""
    rows = [{"us": p[0] / 1e3, "share": p[1]} for p in cdf if len(p) == 2 and _all_numbers(*p) and p[0] > 0]
    if len({row["us"] for row in rows}) < 2:
        return None
    x = alt.X(
        "us:Q",
        scale=alt.Scale(type="log", nice=False, padding=6),
        axis=_log_axis(rows),
    )
    y = alt.Y(
        "share:Q", scale=alt.Scale(domain=[0, 1.0]), axis=alt.Axis(format="%", title="packets within", tickCount=5)
    )
    line = alt.Chart(data(rows)).mark_line(strokeWidth=2, color=CARRIED).encode(x=x, y=y)
    area = alt.Chart(data(rows)).mark_area(color=CARRIED, opacity=0.12).encode(x=x, y=y)
    marks = _quantile_marks(sojourn)
    if not marks:
        return Drawing((area + line).properties(width=WIDTH, height=HEIGHT), "Distribution of sojourn")
    base = alt.Chart(data(marks)).encode(x=x)
    rules = base.mark_rule(color=TAIL, strokeDash=[4, 3]).encode(description="words:N")
    # Labels stand at different heights: p99 and p99.9 are often close together. They sit on the empty side.
    named = base.encode(y="at:Q", text="label:N")
    # A label may lie across another's line.
    behind = named.mark_text(align="right", dx=-5, fontSize=12, stroke="var(--paper)", strokeWidth=4, aria=False)
    words = named.mark_text(align="right", dx=-5, fontSize=12, color="var(--ink)")
    return Drawing(
        (area + line + rules + behind + words).properties(width=WIDTH, height=HEIGHT),
        "Distribution of sojourn: " + ", ".join(mark["words"] for mark in marks),
    )


def _quantile_marks(sojourn: Sojourn) -> list[dict[str, Any]]:
    out = []
    for height, (name, part) in zip((0.66, 0.44, 0.22), _QUANTILES, strict=True):
        ns = sojourn.get(name)
        if not isinstance(ns, int | float) or not math.isfinite(ns) or ns <= 0:
            continue
        label = f"{part * 100:g} %: {q.duration(ns)}"
        out.append({"us": ns / 1e3, "at": height, "label": label, "words": f"{part * 100:g} % within {q.duration(ns)}"})
    return out


def _offered_and_carried(rows: list[dict[str, Any]], axis: alt.Axis, points: bool = True) -> alt.LayerChart:
    long = [
        {"x": row["x"], "mpps": row[which], "which": which, "words": row["words"]}
        for which in ("offered", "carried")
        for row in rows
    ]
    domain = ["offered", "carried"]
    colour = alt.Color("which:N", scale=alt.Scale(domain=domain, range=[OFFERED, CARRIED]), legend=_legend())
    base = alt.Chart(data(long)).encode(
        x=alt.X("x:Q", axis=axis, scale=alt.Scale(nice=False, zero=False)),
        y=alt.Y("mpps:Q", axis=alt.Axis(title="Mpps", tickCount=5, titlePadding=_TITLE), scale=alt.Scale(zero=True)),
        color=colour,
    )
    # What is offered is a broad line behind: where all is carried the two are one.
    wide = alt.StrokeWidth("which:N", scale=alt.Scale(domain=domain, range=[6, 2]), legend=None)
    layers = [base.mark_line().encode(strokeWidth=wide)]
    if points:
        carried = base.transform_filter("datum.which === 'carried'")
        layers.append(carried.mark_point(filled=True, size=46, opacity=1).encode(description="words:N"))
    return alt.LayerChart(layer=layers, width=WIDTH, height=HEIGHT)


def _log_axis(rows: Sequence[Mapping[str, Any]]) -> alt.Axis:
    """Ticks at 1, 2, 5 of each decade seen, at powers of ten where there are many, evenly within one."""
    values = [float(row["us"]) for row in rows]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if high - low <= 3 else (1,)
    ticks = [step * 10.0**decade for decade in range(low, high + 1) for step in steps]
    shown = [t for t in ticks if min(values) * 0.98 <= t <= max(values) * 1.02]
    if len(shown) < 3:  # less than a decade: ticks at equal distances say more
        return alt.Axis(tickCount=6, title=_LOG_TITLE, titlePadding=_TITLE, format="~g", labelOverlap="greedy")
    return alt.Axis(values=shown, title=_LOG_TITLE, titlePadding=_TITLE, format="~g", labelOverlap="greedy")


def _legend() -> alt.Legend:
    return alt.Legend(title=None, orient="top", direction="horizontal", symbolType="stroke", symbolStrokeWidth=3)


def data(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Rows as the data of a chart."""
    return alt.InlineData(values=rows)


def _all_numbers(*values: object) -> bool:
    return all(q.is_number(value) for value in values)


def svg(chart: alt.Chart | alt.LayerChart | alt.VConcatChart, title: str) -> str:
    """The chart as an SVG element that takes the width of its box and says in words what it shows.

    In a box that is narrower than it was drawn it scrolls: smaller, its words could not be read.
    """
    # What it is made of was judged part by part; to judge the whole again takes a third of the time of drawing it.
    drawn = vl_convert.vegalite_to_svg(_styled(chart).to_dict(validate=False))
    prefix = re.sub(r"\W+", "-", title.split(":")[0].lower())
    drawn = re.sub(r'id="([^"]+)"', rf'id="{prefix}-\1"', drawn)
    drawn = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", drawn)
    # What a mark says to a screen reader it also says to a mouse that rests on it.
    drawn = re.sub(r'(<path [^>]*aria-label="([^"]+)"[^>]*)/>', r"\1><title>\2</title></path>", drawn)
    drawn = re.sub(r' (?:xmlns(?::\w+)?|version)="[^"]*"', "", drawn)
    drawn = re.sub(
        r'<svg class="marks" width="(\d+)" height="\d+"', r'<svg class="chart" style="min-width:\1px"', drawn, count=1
    )
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def picture(chart: Any) -> str:
    """The chart as a file of its own, in colours of its own on white."""
    sized = chart.configure(
        background="white",
        axis=alt.AxisConfig(labelFontSize=12, titleFontSize=12),
        legend=alt.LegendConfig(labelFontSize=12, titleFontSize=12),
    )
    return str(vl_convert.vegalite_to_svg(sized.to_dict()))


def _styled(chart: Any) -> Any:
    """The chart in the style of all of them."""
    return chart.configure(
        background="transparent",
        font=_FONT,
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            labelColor="var(--muted)",
            titleColor="var(--muted)",
            titleFontWeight="normal",
            gridColor="var(--grid)",
            domainColor="var(--grid)",
            tickColor="var(--grid)",
            labelFontSize=12,
            titleFontSize=12,
        ),
        legend=alt.LegendConfig(labelColor="var(--ink)", labelFontSize=12),
    )
