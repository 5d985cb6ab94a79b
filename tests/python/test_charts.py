"""Every chart of every page: `conftest` judges what any test draws; here is that it would find faults."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import pytest

import charted
import summaries
from wirespeed import papers
from wirespeed.papers import figures
from wirespeed.report import charts
from wirespeed.report import page as report
from wirespeed.size import page as size_page
from wirespeed.tune import page as tune_page

ROWS = [{"x": 1.0, "y": 2.0, "low": 1.5, "high": 2.5, "name": "a"}]


def lines(x: str | None = "offered, Mpps", y: str | None = "sojourn, µs", bars: bool = True) -> dict[str, Any]:
    base = alt.Chart(charts.data(ROWS)).encode(x=alt.X("x:Q", title=x))
    layers = [base.mark_line().encode(y=alt.Y("y:Q", title=y))]
    layers += [base.mark_rule().encode(y="low:Q", y2="high:Q")] if bars else []
    return dict(alt.layer(*layers).to_dict())


def test_a_chart_with_units_and_bars_has_no_fault() -> None:
    assert charted.faults(lines()) == []


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (lines(x="offered"), "the axis x names no unit: ['offered']"),
        (lines(y=""), "the axis y names no unit: ['']"),
        (lines(bars=False), "data have errors, and no bars show them"),
        ({"vconcat": [lines(), lines(y="latency")]}, "the axis y names no unit"),
        (alt.Chart(charts.data(ROWS)).mark_bar().encode(x="name:N", y="mean(y):Q").to_dict(), "averages unseen: mean"),
    ],
)
def test_a_fault_is_found(spec: dict[str, Any], fault: str) -> None:
    assert any(each.startswith(fault) for each in charted.faults(spec)), charted.faults(spec)


def test_a_logarithmic_axis_that_does_not_say_so_is_a_fault() -> None:
    def drawn(title: str) -> list[str]:
        y = alt.Y("y:Q", title=title, scale=alt.Scale(type="log"))
        return charted.faults(alt.Chart(charts.data([{"x": 1, "y": 2}])).mark_line().encode(y=y).to_dict())

    assert drawn("sojourn, µs") == ["the axis y is logarithmic and does not say so: ['sojourn, µs']"]
    assert drawn("sojourn, µs (log scale)") == []


def test_a_setting_is_its_own_unit_and_an_axis_below_another_has_none() -> None:
    assert charted.faults(lines(x="machine.llc.core_ways", y="carried, Mpps")) == []
    upper = alt.Chart(charts.data(ROWS)).mark_line().encode(
        x=alt.X("x:Q", axis=alt.Axis(title=None, labels=False)), y=alt.Y("y:Q", title="busy, %")
    )  # fmt: skip
    assert charted.faults(upper.to_dict()) == ["data have errors, and no bars show them"]


def test_the_report_of_a_run_is_drawn_and_judged(judged_charts: list[str]) -> None:
    report(summaries.sound(), "[machine]")
    assert len(judged_charts) >= 3


def test_a_sizings_chart_shows_the_half_widths_of_its_rates() -> None:
    def tried(cores: int, mpps: float, wide: float | None) -> dict[str, Any]:
        rates = {"carried_mpps": mpps, "carried_half_width": wide, "packets": 1000, "outcome": "meets", "why": "meets"}
        return {"machine": {"cores": cores}, "changed": [], **rates}

    document = {"target": {"mpps": 20.0}, "tried": [tried(1, 10.0, 1.0), tried(2, 20.0, None)]}
    drawn = size_page.chart(document)
    assert drawn is not None
    spec = drawn.to_dict()
    assert charted.faults(spec) == []
    (bars,) = [layer for layer in spec["layer"] if "y2" in layer["encoding"]]
    rows = spec["datasets"][bars["data"]["name"]] if "name" in bars["data"] else bars["data"]["values"]
    assert [(row["low"], row["high"]) for row in rows] == [(9.0, 11.0), (20.0, 20.0)]


@pytest.mark.parametrize("wide", [0.5, None])
def test_a_tunings_chart_shows_half_widths_where_they_are_known(wide: float | None) -> None:
    points = [
        {"settings": {"nic.burst": burst}, "value": 8.0 + burst / 32, "values": {"half_width": wide}}
        for burst in (16, 32)
    ]
    document = {"knobs": ["nic.burst"], "points": points, "direction": "maximize", "metric": "carried_mpps"}
    ((_, drawn),) = tune_page.by_knob(document)
    spec = drawn.to_dict()
    assert charted.faults(spec) == []
    assert any("y2" in layer["encoding"] for layer in spec["layer"]) == (wide is not None)


def test_lines_of_papers_have_bars_where_a_half_width_is_named(judged_charts: list[str]) -> None:
    points = [{"n": n, "gbps": math.sqrt(n), "wide": 0.1, "by": "a"} for n in (1, 4, 9)]
    drawn = figures.lines(points, x="n", y="gbps", by="by", x_title="cores", y_title="Gbps", half_width="wide")
    assert charted.faults(drawn.to_dict()) == []
    papers.Figure("f", "A figure", drawn).svg()
    assert len(judged_charts) == 1
