"""Bandwidth against latency of a machine's memory: simulated, beside what was measured, as a table and a picture.

`wirespeed.memory.curve` is the function to call. What is simulated is in `studies::curve`; here a machine is found,
a measurement is read (`wirespeed.measured_curve`), and both are put beside each other.
"""

from __future__ import annotations

import itertools
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

from wirespeed import _wirespeed, measured_curve, scenarios
from wirespeed import quantities as q
from wirespeed.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

POINTS: Final = 12
ACCESSES: Final = 2048

_CONTROLLER: Final = "machine.dram.controller"

DramModel: TypeAlias = Literal["commands", "at-once"]


class Point(TypedDict):
    """A load and what a dependent load takes under it: GB/s of lines read and written, nanoseconds."""

    delay_ns: float
    bandwidth_gb_per_s: float
    read_percent: float
    latency_ns: float
    half_width_ns: float | None
    behind_llc_ns: float
    controller_ns: float
    all_reads_ns: float | None
    row_hit_rate: float | None
    accesses: int
    parts_ns: dict[str, float]


class ReadShare(TypedDict):
    """The curve of a share of reads."""

    read_percent: float
    stores: float
    idle_ns: float
    most_gb_per_s: float
    points: list[Point]


class Deviation(TypedDict):
    """A number of the measurement, and the simulation's: `deviation_pct` is of the measured one."""

    quantity: str
    read_percent: float
    unit: str
    measured: float
    simulated: float
    deviation_pct: float


class Curve(TypedDict):
    """The document of `wirespeed memory curve`; fields are described in the guide, "Bandwidth against latency"."""

    schema: str
    machine: str
    frequency_ghz: float
    dram: dict[str, Any]
    streams: int
    streams_are: str
    seed: int
    accesses: int
    unloaded_ns: dict[str, float]
    curves: list[ReadShare]
    notes: list[str]
    measured: measured_curve.Measured | None
    deviations: list[Deviation]


def curve(
    machine: str | os.PathLike[str],
    *,
    reads: Sequence[float] = (100, 50),
    points: int = POINTS,
    cores: int | None = None,
    dram: DramModel | None = None,
    set: scenarios.Overrides = None,
    accesses: int = ACCESSES,
    seed: int = 1,
    threads: int | None = None,
    measured: str | os.PathLike[str] | None = None,
    system: str | None = None,
) -> Curve:
    """Bandwidth against latency of a machine's memory; returns the document of `wirespeed memory curve`.

    One core of `machine` (a shipped one, or a `.toml` file) chases pointers while `cores` others stream, in `points`
    steps from idle to as much as they can take; `reads` are shares of the lines that memory moves, in percent, 50 to
    100. `dram` is the model: "commands" or "at-once"; as the machine says when left out. `set` overrides settings as
    `run` does. `accesses` dependent loads are measured at each point. With `measured`, a CSV of a measurement, of
    `system` where the file has several, the document has `deviations`.

    Latencies are nanoseconds, their half-widths at 95 %, bandwidths 10^9 bytes a second. Raises InputError for settings
    and machines that cannot be, and rows of the measurement that make no sense.

    >>> from wirespeed import memory
    >>> found = memory.curve("xeon-gold-6140", reads=[100], points=3, cores=2, accesses=256)
    >>> found["dram"]["model"], 80 < found["curves"][0]["idle_ns"] < 100
    ('at-once', True)
    """
    settings = _settings(machine, dram, scenarios.overrides(set))
    scenario = _wirespeed.Scenario("", "curve", settings)
    # Before anything runs: a file that cannot be read costs no time.
    if measured is not None:
        text = measured_curve.text_of(measured)
        measured_curve.parsed(os.fspath(measured), text, 1.0, system)
    elif system is not None:
        raise InputError(f"system = {system!r}: names one of a measurement: give measured, too")
    spec = {
        "streams": cores,
        "reads": [float(share) for share in reads],
        "points": points,
        "accesses": accesses,
        "at_once": dram == "at-once",
        "seed": seed,
        "threads": threads,
    }
    found: Curve = json.loads(_wirespeed.memory_curve(scenario, json.dumps(spec)))
    found["measured"] = None
    found["deviations"] = []
    if measured is not None:
        beside = measured_curve.parsed(os.fspath(measured), text, found["frequency_ghz"], system)
        found["measured"], found["deviations"] = beside, deviations(found, beside)
    return found


def _settings(machine: str | os.PathLike[str], dram: str | None, given: list[str]) -> list[str]:
    """What makes the machine, with its DRAM by commands where that is asked for."""
    if dram not in (None, "commands", "at-once"):
        raise InputError(f"dram = {dram!r}: allowed are commands and at-once")
    settings = [*scenarios.overrides({"machine.preset": os.fspath(machine)}), *given]
    if dram != "commands":
        return settings
    # A controller is refused until it has a part.
    without = [each for each in settings if not each.strip().startswith(_CONTROLLER)]
    own = tomllib.loads(_wirespeed.Scenario("", "curve", without).resolved)["machine"]["dram"]
    if "standard" not in own:
        if "currents" not in own:
            raise InputError(
                "dram = 'commands': the machine does not say which part its DRAM is made of: "
                "give one with --set machine.dram.standard=ddr4-2666v (wirespeed presets --kind dram lists them)"
            )
        part = tomllib.loads(_wirespeed.preset("dram", own["currents"]))
        part["ranks"] = max(own["banks"] // (part.get("groups", 1) * part["banks"]), 1)
        settings += scenarios.overrides({"machine.dram.standard": part, "machine.dram.channels": own["channels"]})
    if "controller" not in own and len(without) == len(given) + 1:
        settings.append(f"{_CONTROLLER}.order=fr-fcfs=16")
    return settings


def latency_at(points: Sequence[Mapping[str, Any]], bandwidth: float) -> float | None:
    """The latency at a bandwidth in GB/s, by a line between the points beside it; None beyond them.

    >>> latency_at([{"bandwidth_gb_per_s": 0, "latency_ns": 80}, {"bandwidth_gb_per_s": 10, "latency_ns": 90}], 5)
    85.0
    """
    known = [(p["bandwidth_gb_per_s"], p["latency_ns"]) for p in points if p["latency_ns"] is not None]
    known.sort()
    for (low, first), (high, second) in itertools.pairwise(known):
        if low <= bandwidth <= high:
            share = (bandwidth - low) / (high - low) if high > low else 0.5
            return float(first + (second - first) * share)
    return None


_SHARES: Final = {"a quarter": 0.25, "half": 0.5}


def deviations(found: Curve, measured: measured_curve.Measured) -> list[Deviation]:
    """How far the simulation is from the measurement, of each share of reads that both have.

    Idle latency, latency at a quarter and at half of the bandwidth that was measured at most, and that bandwidth.
    """
    rows: list[Deviation] = []

    def add(quantity: str, percent: float, unit: str, was: float | None, simulated: float | None) -> None:
        if was is not None and simulated is not None and was > 0:
            deviation = (simulated / was - 1) * 100
            rows.append(
                {
                    "quantity": quantity,
                    "read_percent": percent,
                    "unit": unit,
                    "measured": was,
                    "simulated": simulated,
                    "deviation_pct": deviation,
                }
            )

    for simulated in found["curves"]:
        percent = simulated["read_percent"]
        beside = next((c for c in measured["curves"] if abs(c["read_percent"] - percent) < 1.0), None)
        if beside is None:
            continue
        add("idle latency", percent, "ns", beside["idle_ns"], simulated["idle_ns"])
        for words, share in _SHARES.items():
            at = beside["most_gb_per_s"] * share
            was, now = latency_at(beside["points"], at), latency_at(simulated["points"], at)
            add(f"latency at {words} of the most", percent, "ns", was, now)
        add("most bandwidth", percent, "GB/s", beside["most_gb_per_s"], simulated["most_gb_per_s"])
    return rows


def table(found: Curve) -> RenderableType:
    """The document as a person reads it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    dram = found["dram"]
    model = f"DRAM by commands ({dram['standard']})" if dram["model"] == "commands" else "DRAM that answers at once"
    channels = f"{dram['channels']} channels, {q.digits(dram['peak_gb_per_s'])} GB/s of pins"
    parts = " + ".join(f"{name} {ns:.1f}" for name, ns in found["unloaded_ns"].items() if name != "sum")
    out: list[RenderableType] = [
        Text(f"{found['machine']}: {model}, {channels}", "bold"),
        Text(f"one core chases pointers, {found['streams']} stream: {found['streams_are']}"),
        Text(f"a closed row on an idle machine: {parts} = {found['unloaded_ns']['sum']:.1f} ns"),
        *(Text(note) for note in found["notes"]),
    ]
    for each in found["curves"]:
        most = f"{each['most_gb_per_s']:.1f} GB/s at most"
        title = f"{each['read_percent']:g} % reads: idle {each['idle_ns']:.1f} ns, {most}"
        drawn = Table(title=title, title_justify="left", box=None)
        for head in ("GB/s", "of pins", "reads", "core, ns", "behind LLC", "controller", "all reads", "hits"):
            drawn.add_column(head, justify="right", no_wrap=True)
        for point in each["points"]:
            width = point["half_width_ns"]
            drawn.add_row(
                f"{point['bandwidth_gb_per_s']:.1f}",
                q.share(point["bandwidth_gb_per_s"] / dram["peak_gb_per_s"]),
                f"{point['read_percent']:.0f} %",
                f"{point['latency_ns']:.1f}" + ("" if width is None else f" ± {width:.1f}"),
                f"{point['behind_llc_ns']:.1f}",
                f"{point['controller_ns']:.1f}",
                q.MISSING if point["all_reads_ns"] is None else f"{point['all_reads_ns']:.1f}",
                q.share(point["row_hit_rate"]),
            )
        out += [Text(), drawn]
    if found["measured"] is not None:
        out += [Text(), _deviations_table(found["measured"], found["deviations"])]
    return Group(*out)


def _deviations_table(measured: measured_curve.Measured, rows: Sequence[Deviation]) -> RenderableType:
    from rich.table import Table

    drawn = Table(title=f"measured: {measured['system']} ({measured['note']})", title_justify="left", box=None)
    for head in ("", "reads", "measured", "simulated", "deviation"):
        drawn.add_column(head, justify="right" if head else "left", no_wrap=True)
    for row in rows:
        numbers = [f"{row[name]:.1f} {row['unit']}" for name in ("measured", "simulated")]
        drawn.add_row(row["quantity"], f"{row['read_percent']:g} %", *numbers, f"{row['deviation_pct']:+.1f} %")
    return drawn


def chart(found: Curve) -> str:
    """Latency over bandwidth, a line for each share of reads, and the measurement's as dashes, as an SVG document."""
    import altair as alt  # drawing costs a quarter of a second to import
    import vl_convert

    kinds = [("simulated", found["curves"])]
    if found["measured"] is not None:
        kinds.append(("measured", found["measured"]["curves"]))  # type: ignore[arg-type]
    rows = [
        {
            "x": p["bandwidth_gb_per_s"],
            "y": p["latency_ns"],
            "reads": f"{c['read_percent']:g} % reads",
            "kind": kind,
            "n": n,
        }
        for kind, curves in kinds
        for c in curves
        for n, p in enumerate(c["points"])
        if p["latency_ns"] is not None
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("x:Q", title="bandwidth, GB/s", scale=alt.Scale(zero=True)),
        y=alt.Y("y:Q", title="latency of a dependent load, ns", scale=alt.Scale(zero=True)),
        color=alt.Color("reads:N", legend=alt.Legend(title=None, orient="top")),
        order=alt.Order("n:Q"),
    )
    kind = alt.Legend(title=None, orient="top")
    names = [name for name, _ in kinds]
    dash = alt.StrokeDash(
        "kind:N", sort=names, scale=alt.Scale(domain=names, range=[[1, 0], [5, 4]][: len(names)]), legend=kind
    )
    drawn = base.mark_line(strokeWidth=2).encode(strokeDash=dash)
    layers = alt.layer(drawn, base.mark_point(filled=True, size=20)).properties(
        width=520, height=320, title=found["machine"]
    )
    return vl_convert.vegalite_to_svg(layers.configure(background="white").to_dict())
