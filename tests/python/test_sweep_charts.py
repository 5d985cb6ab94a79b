"""A study's charts say what its points say: each mark is one point, with its ±."""

from __future__ import annotations

import itertools
import re

import pytest

from wirespeed.errors import InputError
from wirespeed.sweep import chart, page, study, text
from wirespeed.sweep.metrics import METRICS


def document(vary, measure, metric="carried_mpps", half_width=0.01, design="grid"):
    """A study of every combination; `measure` is a metric's mean by the values of a point."""
    points = [dict(zip(vary, values, strict=True)) for values in itertools.product(*vary.values())]
    results = [
        {"point": place, "at": at, "error": None, "runs": 1, "same_packets": False}
        | {metric: {"mean": measure(*at.values()), "half_width": half_width}}
        for place, at in enumerate(points)
    ]
    return {
        "name": "a study", "scenario": "x", "build": "x", "design": design, "metrics": [metric], "until": [],
        "replications": [1, 30], "axes": [{"name": name} for name in vary], "results": results,
    }  # fmt: skip


def marks(drawn):
    """The data of all panels: a row each."""
    rows = []
    for panel in drawn.panels:
        spec = panel.chart.to_dict()
        named = {layer.get("data", spec.get("data"))["name"] for layer in spec["layer"]}
        assert len(named) == 1, "all layers of a panel show the same points"
        rows += [(panel, row) for row in spec["datasets"][named.pop()]]
    return rows


AXES = [
    {"machine.llc.size": [1, 2, 3]},
    {"machine.llc.size": [1, 2, 3], "machine.dram.standard": ["ddr4", "ddr5"]},
    {"machine.llc.size": [1, 2, 3], "machine.dram.standard": ["ddr4", "hbm2"], "machine.dram.channels": [1, 2, 6]},
    {"a.x": [1, 2, 3], "a.y": ["m", "n"], "a.z": [1, 2, 6], "a.w": [True, False]},
    {"a.x": list(range(9)), "a.y": list(range(8)), "a.z": [1, 2, 6]},
    {"a.x": ["one", "two", "three"], "a.y": ["m", "n"], "a.z": ["q", "r"]},
]


@pytest.mark.parametrize("vary", AXES)
def test_every_mark_is_one_point_and_every_point_a_mark(vary):
    many = {name: {value: place for place, value in enumerate(values)} for name, values in vary.items()}
    studied = document(
        vary,
        lambda *at: 1.0 + sum(many[name][value] * 10**i for i, (name, value) in enumerate(zip(vary, at, strict=True))),
    )
    drawn = chart.figure(studied, METRICS["carried_mpps"])
    found = marks(drawn)
    by_point = {result["point"]: result for result in studied["results"]}
    for panel, row in found:
        result = by_point[row["point"]]
        assert row["y"] == result["carried_mpps"]["mean"]
        assert row["low"] == pytest.approx(row["y"] - 0.01)
        assert row["high"] == pytest.approx(row["y"] + 0.01)
        for setting in filter(None, panel.title.split(", ")):
            name, _, value = setting.partition("=")
            assert text.at(result["at"][name]) == value
    assert sorted(row["point"] for _, row in found) == sorted(by_point)


def test_axes_that_do_not_fit_are_held_at_the_best_point_and_the_page_says_so():
    vary = {"a.x": [1, 2, 3], "a.y": [1, 2, 3, 4], "a.z": [1, 2, 3, 4], "a.w": [1, 2, 3, 4, 5]}
    studied = document(vary, lambda *at: float(sum(at)))
    drawn = chart.figure(studied, METRICS["carried_mpps"])
    shown = {row["point"] for _, row in marks(drawn)}
    assert len(marks(drawn)) == len(shown) < len(studied["results"])
    held = [line for line in drawn.captions if line.startswith("Shown at ")]
    assert held
    name, value = re.match(r"Shown at ([\w.]+)=(\d+)", held[0]).groups()
    assert all(r["at"][name] == int(value) for r in studied["results"] if r["point"] in shown)
    assert "Shown at " in page.page(studied)


def test_each_mark_has_its_half_width_as_a_bar():
    drawn = chart.figure(document({"a.x": [1, 2, 3]}, float, half_width=0.25), METRICS["carried_mpps"])
    layers = drawn.panels[0].chart.to_dict()["layer"]
    (bars,) = [layer for layer in layers if layer["mark"]["type"] == "rule"]
    assert (bars["encoding"]["y"]["field"], bars["encoding"]["y2"]["field"]) == ("low", "high")
    assert "Bars are the 95 % half-widths." in drawn.captions
    assert not any("without a bar" in line for line in drawn.captions)
    # One that is not bounded has no bar, and is not told to be exact by it.
    studied = document({"a.x": [1, 2, 3]}, float, half_width=0.25)
    studied["results"][1]["carried_mpps"]["half_width"] = None
    assert any("without a bar" in line for line in chart.figure(studied, METRICS["carried_mpps"]).captions)


def y_domain(drawn):
    return next(layer["encoding"]["y"]["scale"]["domain"] for layer in drawn.panels[0].chart.to_dict()["layer"])


def test_an_axis_does_not_zoom_into_noise():
    level = {0: 9.20, 1: 9.14, 3: 9.25, 7: 9.19}
    noisy = document({"machine.llc.io_ways": list(level)}, level.get, half_width=0.15)
    drawn = chart.figure(noisy, METRICS["carried_mpps"])
    assert y_domain(drawn)[0] == 0
    assert chart.NO_DIFFERENCE in drawn.captions
    assert "cannot be told apart" in page.page(noisy)
    sure = chart.figure(
        document({"machine.llc.io_ways": list(level)}, level.get, half_width=0.01), METRICS["carried_mpps"]
    )
    assert 9 < y_domain(sure)[0] < 9.14 - 0.01
    assert chart.NO_DIFFERENCE not in sure.captions


def test_no_axis_goes_below_nothing_and_what_is_equal_everywhere_is_a_sentence():
    shown = chart.figure(document({"a.x": [1, 2]}, {1: 0.1, 2: 0.9}.get, "p99", 0.3), METRICS["p99"])
    assert y_domain(shown)[0] >= 0
    assert all(row["low"] >= 0 for _, row in marks(shown))
    lossless = document({"a.x": [1, 2]}, {1: 0.0, 2: 0.0}.get, "loss", None)
    drawn = chart.figure(lossless, METRICS["loss"])
    assert drawn.captions == ("0 at every point.",)
    assert not drawn.panels


def test_rates_and_ways_are_numbers():
    rates = chart.figure(
        document({"traffic.rate": ["80 Gbps", "40G", "100 Gbit/s"]}, lambda r: float(len(r))), METRICS["carried_mpps"]
    )
    spec = rates.panels[0].chart.to_dict()
    assert spec["layer"][0]["encoding"]["x"]["type"] == "quantitative"
    assert spec["layer"][0]["encoding"]["x"]["axis"]["title"] == "traffic.rate, Gbps"
    assert sorted(row["x"] for _, row in marks(rates)) == [40, 80, 100]
    for setting in ("machine.llc.core_ways", "machine.llc.io_ways"):
        counts = chart.figure(document({setting: [2, 4, 8]}, float), METRICS["carried_mpps"])
        assert counts.panels[0].chart.to_dict()["layer"][0]["encoding"]["x"]["type"] == "quantitative"


def test_a_line_ends_where_a_point_has_no_result():
    studied = document({"a.x": [1, 2, 3, 4], "a.y": ["m", "n"]}, lambda x, y: float(x))
    failed = next(r for r in studied["results"] if r["at"] == {"a.x": 3, "a.y": "m"})
    del failed["carried_mpps"]
    pieces = {(row["x"], row["by"]): row["piece"] for _, row in marks(chart.figure(studied, METRICS["carried_mpps"]))}
    assert pieces[1, "m"] == pieces[2, "m"] != pieces[4, "m"]
    assert pieces[1, "n"] == pieces[4, "n"] != pieces[1, "m"]


def test_samples_are_drawn_over_every_axis():
    studied = document({"a.x": [1, 2, 3], "a.y": [1.5, 2.5]}, lambda x, y: x + y, design="sobol")
    drawn = chart.figure(studied, METRICS["carried_mpps"])
    assert [panel.title for panel in drawn.panels] == ["over a.x", "over a.y"]
    assert len(marks(drawn)) == 2 * len(studied["results"])


def test_the_legend_is_of_html_that_wraps_and_not_of_the_drawing():
    names = ["ddr4-2666v", "ddr5-4800b", "hbm2-2000"]
    studied = document({"a.x": [1, 2], "machine.dram.standard": names}, lambda x, s: x + float(names.index(s)))
    drawn = page.page(studied)
    assert drawn.count('class="swatch"') == 3
    assert "role-legend" not in drawn


# --- the headline ---


def test_the_headline_is_the_best_point_with_its_width_and_which_axis_moves_it():
    vary = {"machine.llc.size": [1, 2], "machine.dram.channels": [1, 2, 6]}
    studied = document(vary, lambda size, channels: 10.0 + channels)
    told = text.headline(studied)
    assert told.startswith("Carried rate is highest at size=1, channels=6: 16.00 Mpps ± ")
    assert "and 1 more point is as good" in told
    assert "channels moves it most, 11.00 Mpps to 16.00 Mpps with all else equal" in told
    assert told.endswith("size does not measurably")
    assert text.counted(studied) == "6 points, 6 runs of a study"


def test_the_headline_is_of_a_metric_that_tells_points_apart():
    studied = document({"a.x": [1, 2]}, {1: 200.0, 2: 300.0}.get, "p99")
    for result in studied["results"]:
        result["carried_mpps"] = {"mean": 9.0, "half_width": 0.1}
    studied["metrics"] = ["carried_mpps", "p99"]
    assert text.headline(studied).startswith("99th percentile of sojourn is lowest at x=1: 200.000 ± 0.010 ns")


def test_the_headline_says_where_nothing_tells_points_apart():
    studied = document({"a.x": [1, 2]}, {1: 200.0, 2: 200.5}.get, "p99", half_width=1.0)
    assert text.headline(studied) == "99th percentile of sojourn of no point can be told from those of another"


def test_a_best_value_of_many_points_is_told_as_that():
    studied = document({"a.x": [1, 2, 3, 4]}, {1: 0.0, 2: 0.0, 3: 0.0, 4: 0.2}.get, "loss", None)
    assert text.extremes(studied) == ["Loss: 0 at 3 of 4 points, which are the best"]


def test_a_notebook_shows_the_answer_and_the_first_points():
    studied = document({"a.x": list(range(30))}, float)
    shown = study.Study([], studied)._repr_html_()
    assert text.headline(studied) in shown
    assert shown.count("<tr>") == 21
    assert "and 10 more" in shown


def test_a_study_is_plotted_for_a_notebook():
    studied = study.Study([], document({"a.x": [1, 2, 3], "a.y": ["p", "q"]}, lambda x, y: float(x)))
    drawn = studied.plot()
    assert "var(--" not in drawn.to_json()
    assert "a.y=q" in drawn.to_json()
    with pytest.raises(InputError, match="this study has"):
        studied.plot("nothing")
