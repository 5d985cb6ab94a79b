"""Pictures of the documentation, made from real runs whenever it is built."""

from __future__ import annotations

import json
from pathlib import Path

import altair as alt

import wirespeed

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
LOADS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
FEW = {"run.packets": 20_000, "run.curve": [], "traffic.profile": "min64", "machine.cores": 2, "mempool.size": 16_384}


def draw() -> None:
    """Writes every picture that lacks, or whose data is newer."""
    FOLDER.mkdir(exist_ok=True)
    data = ROOT / "examples" / "five-systems" / "results.json"
    _kept("five-systems", five_systems(json.loads(data.read_text(encoding="utf-8"))))
    _kept("delay-by-load", delay_by_load())


def five_systems(results: dict) -> alt.Chart:
    """What each technique brings at saturation."""
    base = results["base_mpps"]
    rows = []
    for name, (value, _) in results["effects"].items():
        alone = sum(results["saturated_mpps"][name]) / len(results["saturated_mpps"][name])
        rows.append({"technique": name, "gain": 100 * (alone / base - 1), "how": "alone"})
        rows.append({"technique": name, "gain": value, "how": "among the others"})
    chart = alt.Chart(alt.Data(values=rows), width=520, height=220).mark_bar()
    return chart.encode(
        y=alt.Y("technique:N", sort="-x", title=None),
        yOffset="how:N",
        x=alt.X("gain:Q", title="more packets at saturation, %"),
        color=alt.Color(
            "how:N", title=None, legend=alt.Legend(orient="top"), scale=alt.Scale(range=["#4c78a8", "#f58518"])
        ),
    )


def delay_by_load() -> alt.Chart:
    """Sojourn against load, of one small machine."""
    rows = []
    for load in LOADS:
        sojourn = wirespeed.run("forwarding", set=FEW | {"traffic.load": load}).summary["sojourn_ns"]
        rows += [{"load": load, "us": sojourn[name] / 1000, "what": name} for name in ("p50", "p99")]
    chart = alt.Chart(alt.Data(values=rows), width=520, height=220).mark_line(point=True)
    return chart.encode(
        x=alt.X("load:Q", title="offered load, share of line rate"),
        y=alt.Y("us:Q", title="sojourn, µs", scale=alt.Scale(type="log")),
        color=alt.Color("what:N", title=None),
    )


def _kept(name: str, chart: alt.Chart) -> None:
    chart.save(str(FOLDER / f"{name}.svg"))
