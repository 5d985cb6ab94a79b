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
    _kept("warm-up", warm_up())
    _kept("sampling", sampling())


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


def warm_up() -> alt.Chart:
    """Reads of DRAM a packet by how many packets were cut, and where a run of the same machine cuts by itself."""
    few = FEW | {"traffic.load": 0.3, "run.packets": 4_000}
    rows = []
    for cut in (1_000, 4_000, 16_000, 64_000, 256_000):
        found = wirespeed.run("forwarding", set=few | {"run.warmup": cut}).summary
        rows.append({"cut": cut, "reads": found["dram"]["reads"] / found["packets"]})
    alone = wirespeed.run("forwarding", set=few | {"run.packets": 40_000}).summary
    mark = [{"cut": alone["warmup_packets"], "words": "cut by itself, for 40,000 packets"}]
    line = alt.Chart(alt.Data(values=rows), width=520, height=200).mark_line(point=True)
    x = alt.X("cut:Q", title="packets cut as warm-up", scale=alt.Scale(type="log", nice=False))
    rule = alt.Chart(alt.Data(values=mark)).mark_rule(strokeDash=[4, 4], color="#c44e00").encode(x="cut:Q")
    words = alt.Chart(alt.Data(values=mark)).mark_text(align="right", dx=-6, y=12, color="#c44e00")
    return (
        line.encode(x=x, y=alt.Y("reads:Q", title="DRAM reads a packet"))
        + rule
        + words.encode(x="cut:Q", text="words:N")
    )


def sampling() -> alt.Chart:
    """How the packets of a sampled run go, as its plan has it."""
    few = FEW | {"traffic.load": 0.1, "run.packets": 120_000}
    plan = wirespeed.run(
        "forwarding", set=few | {"run.sampling": {"windows": 30, "packets": 800, "warmup": 400}}
    ).summary
    its = plan["sampling"]
    kinds = ("without time", "in detail, not counted", "measured")
    rows, at = [], 0
    for window in range(5):
        begins = its["start"] + window * its["every"]
        ends = begins + its["window_warmup"]
        for kind, end in zip(kinds, (begins, ends, ends + its["window_packets"]), strict=True):
            rows.append({"from": at, "to": end, "how": kind})
            at = end
    chart = alt.Chart(alt.Data(values=rows), width=520, height=40).mark_bar()
    return chart.encode(
        x=alt.X("from:Q", title="packets after warm-up", scale=alt.Scale(nice=False)),
        x2="to:Q",
        color=alt.Color(
            "how:N",
            sort=kinds,
            title=None,
            legend=alt.Legend(orient="top", columnPadding=24),
            scale=alt.Scale(domain=kinds, range=["#d9d9d9", "#a6c8e8", "#1f6fb4"]),
        ),
    )


def _kept(name: str, chart: alt.Chart) -> None:
    chart.save(str(FOLDER / f"{name}.svg"))
