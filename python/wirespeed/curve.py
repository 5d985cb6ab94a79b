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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

from wirespeed import _wirespeed, measured_curve, scenarios, units
from wirespeed import quantities as q
from wirespeed.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

POINTS: Final = 12
ACCESSES: Final = 2048

SVG_MARK: Final = "<!-- wirespeed memory curve -->"
"""What a picture holds, by which it is known as one that may be replaced."""

_NO_PART_OF: Final = "dram = 'commands': "
_CONTROLLER: Final = "machine.dram.controller"
# Shares of reads nearer than this, in percent, are the same.
_SAME_SHARE: Final = 1.0
_CLOCKS: Final = (0.1, 10.0)

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
    """A number of the measurement, and the simulation's: `deviation_pct` is of the measured one.

    Both are None where the simulation has no such point; `note` says why.
    """

    quantity: str
    read_percent: float
    unit: str
    measured: float
    simulated: float | None
    deviation_pct: float | None
    note: str | None


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
    deviation_notes: list[str]


def curve(
    machine: str | os.PathLike[str] | None,
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
    measured_clock: str | float | None = None,
) -> Curve:
    """Bandwidth against latency of a machine's memory; returns the document of `wirespeed memory curve`.

    One core of `machine` (a shipped one, a `.toml` file, or None for what `set` says) chases pointers while `cores`
    others stream, in `points` steps from idle to as much as they can take; `reads` are shares of the lines that memory
    moves, in percent, 50 to 100. `dram` is the model: "commands" or "at-once"; left out, by commands where the machine
    says of which part its DRAM is. `set` overrides settings of the machine as `run` does. `accesses` dependent loads
    are measured at each point. With `measured`, a CSV of a measurement, of `system` where the file has several, the
    document has `deviations`; `measured_clock`, such as "3.2 GHz" (a number is GHz), turns the file's cycles into time.

    Latencies are nanoseconds, their half-widths at 95 %, bandwidths 10^9 bytes a second. Raises InputError for settings
    and machines that cannot be, and rows of the measurement that make no sense.

    >>> from wirespeed import memory
    >>> found = memory.curve("xeon-gold-6140", reads=[100], points=3, cores=2, accesses=256)
    >>> found["dram"]["model"], 80 < found["curves"][0]["idle_ns"] < 100
    ('commands', True)
    """
    shares = [float(share) for share in reads]
    scenario, why = _scenario(machine, dram, _overrides(set))
    beside = _Beside.found(measured, system, measured_clock, shares)
    spec = {
        "streams": cores,
        "reads": shares,
        "points": points,
        "accesses": accesses,
        "at_once": dram == "at-once",
        "seed": seed,
        "threads": threads,
    }
    found: Curve = json.loads(_wirespeed.memory_curve(scenario, json.dumps(spec)))
    if found["dram"]["model"] == "at-once":
        found["notes"] += [*why, _AT_ONCE]
    found["measured"], found["deviations"], found["deviation_notes"] = None, [], []
    if beside is not None:
        read = beside.read(found["frequency_ghz"])
        found["measured"], found["deviations"] = read, deviations(found, read)
        found["deviation_notes"] = _deviation_notes(found, read, beside.clock_ghz)
    return found


_AT_ONCE: Final = "DRAM at once: with many streams its most bandwidth is far below a controller's"


def _overrides(given: scenarios.Overrides) -> list[str]:
    """Settings below `machine`: nothing else is part of a curve. Raises InputError."""
    settings = scenarios.overrides(given)
    for setting in settings:
        path = setting.partition("=")[0].strip()
        if not scenarios.is_within(path, "machine"):
            allowed = "allowed are settings below machine, as in machine.dram.controller.page=closed"
            raise InputError(f"--set {setting}: {allowed}")
    return settings


@dataclass(frozen=True, slots=True)
class _Beside:
    """A measurement that is sound and has a share of reads in common with what is simulated."""

    name: str
    text: str
    system: str | None
    clock_ghz: float | None

    @classmethod
    def found(
        cls,
        measured: str | os.PathLike[str] | None,
        system: str | None,
        clock: str | float | None,
        reads: Sequence[float],
    ) -> _Beside | None:
        """Raises InputError before anything runs: what cannot be read or compared costs no time."""
        if measured is None:
            for name, value in (("system", system), ("measured_clock", clock)):
                if value is not None:
                    raise InputError(f"{name} = {value!r}: is of a measurement: give measured, too")
            return None
        ghz = None if clock is None else _ghz(clock)
        beside = cls(os.fspath(measured), measured_curve.text_of(measured), system, ghz)
        read = beside.read(1.0)
        if ghz is not None and read["clock_ghz"] is None:
            raise InputError(f"{beside.name}: measured_clock = {clock!r}: its latencies are nanoseconds: leave it out")
        _refuse_nothing_in_common(beside.name, [each["read_percent"] for each in read["curves"]], reads)
        return beside

    def read(self, machine_ghz: float) -> measured_curve.Measured:
        return measured_curve.parsed(self.name, self.text, self.clock_ghz or machine_ghz, self.system)


def _ghz(clock: str | float) -> float:
    """A frequency in GHz, as scenarios take it: a bare number is GHz."""
    low, high = _CLOCKS
    found = units.parse(str(clock))
    ghz = 0.0
    if found is not None and found.kind == "frequency":
        ghz = found.value / 1e9
    elif found is not None and found.kind == "count" and str(clock).strip()[-1:].isdigit():
        ghz = found.value
    if not low <= ghz <= high:
        raise InputError(f"measured_clock = {clock!r}: allowed are {low:g} to {high:g} GHz, as in '3.2 GHz'")
    return ghz


def _refuse_nothing_in_common(name: str, measured: Sequence[float], reads: Sequence[float]) -> None:
    # Shares that cannot be are told by who simulates.
    if any(_is_among(share, measured) for share in reads) or not all(50 <= share <= 100 for share in reads):
        return
    can_be = [share for share in measured if share >= 50]
    remedy = f"give --reads {_listed(can_be, ',')}" if can_be else "allowed are shares of 50 to 100 percent"
    came = f"measured are {_listed(measured)} % reads, simulated {_listed(reads)}"
    raise InputError(f"{name}: {came}: nothing is in common: {remedy}")


def _is_among(share: float, shares: Sequence[float]) -> bool:
    return any(abs(share - each) < _SAME_SHARE for each in shares)


def _listed(shares: Sequence[float], between: str = ", ") -> str:
    return between.join(f"{share:.4g}" for share in shares)


def _scenario(
    machine: str | os.PathLike[str] | None, dram: str | None, given: list[str]
) -> tuple[_wirespeed.Scenario, list[str]]:
    """The machine, by commands where that is asked for or possible; and why it is not, where a part is known."""
    if dram not in (None, "commands", "at-once"):
        raise InputError(f"dram = {dram!r}: allowed are commands and at-once")
    preset = {} if machine is None else {"machine.preset": os.fspath(machine)}
    settings = [*scenarios.overrides(preset), *given]
    if dram == "commands":
        return _made(_by_commands(settings)), []
    if dram is None:
        try:
            return _made(_by_commands(settings)), []
        except InputError as e:
            # What is wrong without commands, too, is told below.
            why = str(e).partition("\n")[0].removeprefix(_NO_PART_OF)
        return _made(settings), [f"not by commands: {why}"]
    return _made(settings), []


def _made(settings: list[str]) -> _wirespeed.Scenario:
    return _wirespeed.Scenario("", "curve", settings)


def _by_commands(settings: list[str]) -> list[str]:
    """Settings with a part and a controller for the DRAM. Raises InputError where no part is known."""
    # A controller is refused until it has a part.
    without = [each for each in settings if not each.strip().startswith(_CONTROLLER)]
    own = tomllib.loads(_made(without).resolved)["machine"]["dram"]
    more: list[str] = []
    if "standard" not in own:
        if "currents" not in own:
            raise InputError(
                f"{_NO_PART_OF}the machine does not say which part its DRAM is made of: "
                "give one with --set machine.dram.standard=ddr4-2666v (wirespeed presets --kind dram lists them)"
            )
        part = tomllib.loads(_wirespeed.preset("dram", own["currents"]))
        part["ranks"] = max(own["banks"] // (part.get("groups", 1) * part["banks"]), 1)
        more += scenarios.overrides({"machine.dram.standard": part, "machine.dram.channels": own["channels"]})
    if "controller" not in own and len(without) == len(settings):
        more.append(f"{_CONTROLLER}.order=fr-fcfs=16")
    return [*settings, *more]


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

    Idle latency where it was measured, latency at a quarter and at half of the bandwidth that was measured at most, and
    that bandwidth.
    """
    rows: list[Deviation] = []
    for simulated in found["curves"]:
        percent = simulated["read_percent"]
        beside = next((c for c in measured["curves"] if _is_among(percent, [c["read_percent"]])), None)
        if beside is not None:
            rows += _deviations_of(simulated, beside)
    return rows


def _deviations_of(simulated: ReadShare, measured: measured_curve.MeasuredShare) -> list[Deviation]:
    """Of a share of reads; a load that the simulation does not reach keeps its row."""
    rows: list[Deviation] = []

    def add(quantity: str, unit: str, was: float | None, now: float | None, note: str | None = None) -> None:
        if was is not None and was > 0:
            rows.append(
                {
                    "quantity": quantity,
                    "read_percent": simulated["read_percent"],
                    "unit": unit,
                    "measured": was,
                    "simulated": now,
                    "deviation_pct": None if now is None else (now / was - 1) * 100,
                    "note": note if now is None else None,
                }
            )

    most, least = simulated["most_gb_per_s"], min(point["bandwidth_gb_per_s"] for point in simulated["points"])
    add("idle latency", "ns", measured["idle_ns"], simulated["idle_ns"])
    for words, share in _SHARES.items():
        at = measured["most_gb_per_s"] * share
        was, now = latency_at(measured["points"], at), latency_at(simulated["points"], at)
        note = f"not reached: most is {most:.1f} GB/s" if at > most else f"not reached: least is {least:.1f} GB/s"
        add(f"latency at {words} of the most", "ns", was, now, note)
    add("most bandwidth", "GB/s", measured["most_gb_per_s"], most)
    return rows


def _deviation_notes(found: Curve, measured: measured_curve.Measured, given_ghz: float | None) -> list[str]:
    """What to know of the deviations: whose clock cycles are of, and what is not compared."""
    notes = []
    if measured["clock_ghz"] is not None and given_ghz is None:
        taken = f"cycles are taken at {measured['clock_ghz']:g} GHz, this machine's"
        notes.append(f"{taken}: --measured-clock gives the measured processor's")
    reads = [each["read_percent"] for each in found["curves"]]
    compared = [each for each in measured["curves"] if _is_among(each["read_percent"], reads)]
    without = [each["read_percent"] for each in compared if each["idle_ns"] is None]
    if without:
        least = f"no point below {measured_curve.IDLE * 100:g} % of the most bandwidth"
        notes.append(f"no idle latency of {_listed(without)} % reads: {least}")
    rest = [each["read_percent"] for each in measured["curves"] if each not in compared]
    if rest:
        notes.append(f"measured and not simulated: {_listed(rest)} % reads")
    return notes


def _titled(found: Curve) -> str:
    """Machine and model of DRAM."""
    dram = found["dram"]
    if dram["model"] != "commands":
        return f"{found['machine']}: DRAM that answers at once"
    name = found["machine"].removesuffix(f" with dram.standard={dram['standard']}")
    return f"{name}: DRAM by commands ({dram['standard']})"


def table(found: Curve) -> RenderableType:
    """The document as a person reads it."""
    from rich.console import Group
    from rich.text import Text

    dram = found["dram"]
    channels = f"{dram['channels']} channels, {q.digits(dram['peak_gb_per_s'])} GB/s of pins"
    out: list[RenderableType] = [
        Text(f"{_titled(found)}, {channels}", "bold"),
        Text(f"one core chases pointers, {found['streams']} stream: {found['streams_are']}"),
        *(Text(line) for line in _unloaded(found)),
        *(Text(note) for note in found["notes"]),
    ]
    for each in found["curves"]:
        out += [Text(), _curve_table(each, dram["peak_gb_per_s"])]
    if found["measured"] is not None:
        out += [Text(), _deviations_table(found["measured"], found["deviations"])]
        out += [Text(note) for note in found["deviation_notes"]]
    return Group(*out)


_ABOVE_UNLOADED: Final = {"refresh": "refreshes", "row_conflict": "rows left open"}


def _unloaded(found: Curve) -> list[str]:
    """What a load takes on an idle machine by parts, and by what the idle latency is above their sum."""
    whole = found["unloaded_ns"]["sum"]
    parts = " + ".join(f"{name} {ns:.1f}" for name, ns in found["unloaded_ns"].items() if name != "sum")
    lines = [f"a closed row on an idle machine: {parts} = {whole:.1f} ns"]
    idle = next((each["points"][0] for each in found["curves"]), None)
    if found["dram"]["model"] == "commands" and idle is not None:
        above = idle["latency_ns"] - whole
        why = [words for part, words in _ABOVE_UNLOADED.items() if idle["parts_ns"].get(part, 0) > 0]
        if above >= 0.05 and why:
            lines.append(f"idle is {above:.1f} ns above that, by {' and '.join(why)}")
    return lines


def _curve_table(share: ReadShare, peak_gb_per_s: float) -> RenderableType:
    from rich.table import Table

    most = f"{share['most_gb_per_s']:.1f} GB/s at most"
    title = f"{share['read_percent']:g} % reads: idle {share['idle_ns']:.1f} ns, {most}"
    points = sorted(share["points"], key=lambda point: point["bandwidth_gb_per_s"])
    widths = ["" if p["half_width_ns"] is None else f" ± {p['half_width_ns']:.1f}" for p in points]
    columns = {
        "GB/s": [f"{p['bandwidth_gb_per_s']:.1f}" for p in points],
        "of pins": [q.share(p["bandwidth_gb_per_s"] / peak_gb_per_s) for p in points],
        "reads": [f"{p['read_percent']:.0f} %" for p in points],
        "latency, ns": [f"{p['latency_ns']:.1f}{width}" for p, width in zip(points, widths, strict=True)],
        "behind LLC": [f"{p['behind_llc_ns']:.1f}" for p in points],
        "controller": [f"{p['controller_ns']:.1f}" for p in points],
        "all reads": [q.MISSING if p["all_reads_ns"] is None else f"{p['all_reads_ns']:.1f}" for p in points],
        "row hits": [q.share(p["row_hit_rate"]) for p in points],
    }
    kept = {head: cells for head, cells in columns.items() if any(cell != q.MISSING for cell in cells)}
    drawn = Table(title=title, title_justify="left", box=None)
    for head in kept:
        # A word a line: beside each other they would be wider than their numbers, and than 80 columns.
        drawn.add_column(head.replace(" ", "\n"), justify="right", vertical="bottom", no_wrap=True)
    for cells in zip(*kept.values(), strict=True):
        drawn.add_row(*cells)
    return drawn


def _deviations_table(measured: measured_curve.Measured, rows: Sequence[Deviation]) -> RenderableType:
    from rich.table import Table

    drawn = Table(title=f"measured: {measured['system']} ({measured['note']})", title_justify="left", box=None)
    for head in ("", "reads", "measured", "simulated", "deviation"):
        drawn.add_column(head, justify="right" if head else "left", no_wrap=True)
    for row in rows:
        was, now, by = row["measured"], row["simulated"], row["deviation_pct"]
        drawn.add_row(
            row["quantity"],
            f"{row['read_percent']:g} %",
            f"{was:.1f} {row['unit']}",
            q.MISSING if now is None else f"{now:.1f} {row['unit']}",
            row["note"] if by is None else f"{by:+.1f} %",
        )
    return drawn


def chart(found: Curve) -> str:
    """Latency over bandwidth, a line for each share of reads, and the measurement's as dashes, as an SVG document."""
    import altair as alt  # drawing costs a quarter of a second to import

    from wirespeed.report import charts

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
        width=520, height=320, title=_titled(found)
    )
    return charts.picture(layers).replace(">", f">{SVG_MARK}", 1)
