"""Pictures of the documentation, made from real runs whenever it is built.

A picture is drawn again when the program, its data or this file is newer. With `PICTURES=short` in the environment, as
tests have it, runs are short; such a picture is never new enough, so that the next build draws it again.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import altair as alt
import rich.console
import rich.text

import wirespeed
from wirespeed import _wirespeed

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
STUDY = ROOT / "examples" / "five-systems" / "results.json"
TECHNIQUES = ROOT / "examples" / "techniques"
SERVER_STUDY = ROOT / "papers" / "2020-access-korikawa" / "server.json"
SHORT = os.environ.get("PICTURES") == "short"
LOADS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
FEW = {"run.packets": 20_000, "run.curve": [], "traffic.profile": "min64", "machine.cores": 2, "mempool.size": 16_384}
QUICK = {"run.packets": 20_000, "run.curve": [], "function.forward.prefixes": 100_000}
LEAST = {"run.packets": 1_000, "run.warmup": 1_000, "function.forward.prefixes": 1_000}
"""Of short runs."""
WIDTH = 96
"""Columns of a terminal."""
STATUSES = ["reproduced", "partly", "not", "listed"]
MAPS = ("row bank group column", "row bank column group", "row column bank group", "column row bank group")
MACHINES = (
    "xeon-e5-2697a-v4",
    "xeon-gold-6140",
    "xeon-platinum-8380",
    "xeon-platinum-8480",
    "epyc-7402p",
)


def draw() -> None:
    """Writes every picture that lacks, or is older than what it is made from."""
    FOLDER.mkdir(exist_ok=True)
    sources = [
        Path(__file__),
        Path(_wirespeed.__file__),
        STUDY,
        SERVER_STUDY,
        *TECHNIQUES.glob("*"),
        *(ROOT / "papers").glob("*/claims.json"),
    ]
    newest = max(source.stat().st_mtime for source in sources)
    files = {name: FOLDER / f"{name}.svg" for name in PICTURES}
    old = [name for name, file in files.items() if not file.exists() or file.stat().st_mtime < newest]
    # Runs do not hold the interpreter's lock.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, made in zip(old, pool.map(lambda name: PICTURES[name](), old), strict=True):
            if isinstance(made, str):
                files[name].write_text(made, encoding="utf-8")
            else:
                made.save(str(files[name]))
            if SHORT:
                os.utime(files[name], (0, 0))


def front() -> alt.HConcatChart:
    """What two, three and four cores carry, and where a packet's time goes as the load of two grows."""
    return alt.hconcat(carried(), time_by_load()).resolve_scale(color="independent")


def carried() -> alt.Chart:
    """Carried against offered, by cores."""
    rows = []
    for cores in (2, 3, 4):
        for load in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
            its = _quick("forwarding-64b", {"machine.cores": cores, "traffic.load": load})
            rows.append({"offered": its["offered_mpps"], "carried": its["carried_mpps"], "cores": str(cores)})
    chart = alt.Chart(alt.Data(values=rows), width=260, height=220).mark_line(point=True)
    return chart.encode(
        x=alt.X("offered:Q", title="offered, Mpps"),
        y=alt.Y("carried:Q", title="carried, Mpps"),
        color=alt.Color("cores:N", title="cores", legend=alt.Legend(orient="top")),
    )


def time_by_load() -> alt.Chart:
    """Mean time of a packet by reason, of two cores."""
    rows = []
    for load in LOADS:
        its = _quick("forwarding-64b", {"machine.cores": 2, "traffic.load": load})
        parts = sorted(its["attribution_ns"].items(), key=lambda part: -part[1])
        rows += [{"load": load, "ns": ns, "why": its["attribution_labels"][name]} for name, ns in parts[:4]]
    chart = alt.Chart(alt.Data(values=rows), width=260, height=220).mark_bar(size=22)
    return chart.encode(
        x=alt.X("load:Q", title="offered load, share of line rate", scale=alt.Scale(nice=False, padding=14)),
        y=alt.Y("ns:Q", title="where the mean packet's time goes", stack="normalize", axis=alt.Axis(format="%")),
        color=alt.Color("why:N", title=None, legend=alt.Legend(orient="top", columns=2)),
    )


def copy_table() -> alt.LayerChart:
    """What a copy table changes at 30 % load, with half-widths."""
    sides = [_run("vhost", QUICK | {"run.packets": 50_000} | more) for more in ({}, {"machine.copy_table": {}})]
    names = {"mean": "mean sojourn", "p50": "median sojourn", "p99": "p99 sojourn", "p999": "p99.9 sojourn"}
    rows = []
    for metric, its in wirespeed.compare(*sides).metrics.items():
        if metric in names:
            change, half = its["change_pct"], its["half_width_pct"] or 0.0  # a short run has none
            rows.append({"what": names[metric], "change": change, "low": change - half, "high": change + half})
    chart = alt.Chart(alt.Data(values=rows), width=460, height=120).encode(y=alt.Y("what:N", title=None, sort=None))
    x = alt.X("low:Q", title="change by the copy table, %")
    return chart.mark_rule(strokeWidth=3).encode(x=x, x2="high:Q") + chart.mark_point(filled=True).encode(x="change:Q")


def copy_table_by_load() -> alt.Chart:
    """The 99th percentile over load, with and without."""
    rows = []
    for how, more in (("loads and stores", {}), ("copy table", {"machine.copy_table": {}})):
        for load in (0.2, 0.4, 0.6, 0.8):
            its = _quick("vhost", {"traffic.load": load} | more)
            rows.append({"x": load, "y": its["sojourn_ns"]["p99"] / 1000, "series": how})
    return _lines(rows, "offered load, share of line rate", "p99 sojourn, µs")


def claims() -> alt.Chart:
    """Claims of all papers by status, of their first readings."""
    rows = []
    for file in sorted((ROOT / "papers").glob("*/claims.json")):
        readings = json.loads(file.read_text(encoding="utf-8"))["readings"]
        statuses = [claim["status"] for claim in next(iter(readings.values()))["claims"].values()]
        rows += [{"paper": file.parent.name, "status": kind, "n": statuses.count(kind)} for kind in STATUSES]
    chart = alt.Chart(alt.Data(values=rows), width=460, height=150).mark_bar()
    colour = alt.Scale(domain=STATUSES, range=["#2a7f4f", "#e0a030", "#b8433a", "#c9ced6"])
    return chart.encode(
        x=alt.X("n:Q", title="claims of the first reading"),
        y=alt.Y("paper:N", title=None),
        color=alt.Color("status:N", title=None, scale=colour, legend=alt.Legend(orient="top")),
    )


def dma_windows() -> alt.Chart:
    """A DMA read by the window it is in, with an IO-TLB of 128 entries and without."""
    rows = []
    windows = "64 KiB,256 KiB,512 KiB,1 MiB,4 MiB,16 MiB"
    for how, more in (("IO-TLB of 128 pages of 4 KiB", ["--set", "machine.iommu.iotlb_entries=128"]), ("no IOMMU", [])):
        found = _json("memory", "dma", "xeon-gold-6140", "--windows", windows, "--reads", "5000", *more)
        rows += [{"x": p["window_bytes"] / 1024, "y": p["read_ns"]["mean"], "series": how} for p in found["points"]]
    return _lines(rows, "window, KiB", "a read of 64 bytes, ns", log_x=True)


def maps() -> alt.Chart:
    """Bandwidth of a stream by the order in which address bits choose row, bank, group and column."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "stream.rw"
        trace.write_text("".join(f"R {64 * line:x}\n" for line in range(100_000)), encoding="utf-8")
        for parts in MAPS:
            found = _json("memory", "dram", "--preset", "ddr4-2400u", "--map", parts, "--trace", str(trace))
            rows.append({"x": found["bandwidth_gb_per_s"], "y": parts})
    return _bars(rows, "GB/s of a stream of reads, peak 19.2")


def controllers() -> alt.Chart:
    """What one channel carries where every line goes to DRAM: banks reserved at once, and controllers."""
    rows = []
    one = {"machine.dram.standard": "ddr4-2666v", "machine.dram.channels": 1, "machine.llc.io_ways": 0}
    for how, more in (
        ("reserved at once", {}),
        ("FR-FCFS", {"machine.dram.controller": {}}),
        ("in order", {"machine.dram.controller.order": "fcfs"}),
    ):
        for load in (0.1, 0.2, 0.4, 0.6, 0.8):
            its = _quick("forwarding", one | {"traffic.load": load} | more)
            rows.append({"x": its["offered_gbps"], "y": its["carried_gbps"], "series": how})
    return _lines(rows, "offered, Gbps", "carried, Gbps")


def drivers() -> alt.Chart:
    """What one core carries by driver and program."""
    rows = []
    for nic, driver in (("xl710", "i40e"), ("xl710", "i40e-scalar"), ("e810", "ice"), ("connectx-5", "mlx5")):
        more = {"nic.model": nic, "nic.driver": driver, "function.program": "l3fwd"}
        its = _quick("forwarding-64b", {"machine.cores": 1, "traffic.load": 0.4} | more)
        rows.append({"x": its["carried_mpps"], "y": f"{nic}, {driver}"})
    return _bars(rows, "Mpps of one core of a Xeon Gold 6140, l3fwd")


def machines() -> alt.Chart:
    """What a core of each shipped machine carries."""
    rows = []
    for machine in MACHINES:
        few = {"machine.preset": machine, "machine.cores": 1, "traffic.load": 0.6}
        rows.append({"x": _quick("forwarding-64b", few)["carried_mpps"], "y": machine})
    return _bars(rows, "Mpps of one core, 64-byte packets")


def functions() -> alt.Chart:
    """Cycles of a packet by function."""
    rows = []
    for name in ("forwarding", "classify", "inspect", "nat", "router-chain", "upf", "vhost"):
        its = _quick(name, {"run.packets": 4_000})
        cycles = sum(sum(core["cycles"].values()) * core["packets"] for core in its["cores"])
        packets = sum(core["packets"] for core in its["cores"])
        rows.append({"x": cycles / max(packets, 1), "y": name})
    return _bars(rows, "cycles a packet")


def predictions() -> alt.Chart:
    """Mean time of a packet, simulated and by closed forms."""
    loads = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
    rows = [
        {"x": load, "y": _quick("forwarding-64b", {"traffic.load": load})["sojourn_ns"]["mean"], "series": "simulated"}
        for load in loads
    ]
    asked = [word for load in loads for word in ("--load", str(load))]
    few = ("--set", "function.forward.prefixes=100000", "--set", "run.packets=20000")
    found = _json("predict", "forwarding-64b", *asked, *few)["loads"]
    rows += [{"x": one["load"], "y": one["sojourn_ns"], "series": "closed forms"} for one in found]
    return _lines(rows, "offered load, share of line rate", "mean sojourn, ns")


def rings() -> alt.Chart:
    """Device writes that find their line in the LLC, by receive descriptors."""
    rows = []
    for ring in (128, 256, 512, 1024, 2048, 4096):
        few = {"nic.rx_descriptors": ring, "mempool.size": 32_768, "mempool.kind": "fifo", "traffic.load": 0.5}
        found = next(level for level in _quick("forwarding", few)["levels"] if level["name"] == "DDIO")
        rows.append({"x": ring, "y": 100 * found["hit_rate"], "series": "DDIO"})
    return _lines(rows, "receive descriptors of a queue", "device writes that hit, %", log_x=True)


def sockets() -> alt.Chart:
    """A core beside the NIC's socket and one on the other."""
    rows = []
    for where, core in (("the NIC's socket", 0), ("the other socket", 1)):
        few = {"machine.preset": "2x-xeon-gold-6140", "machine.sockets.cores": [core], "traffic.load": 0.3}
        its = _quick("forwarding", few)
        parts = sorted(its["attribution_ns"].items(), key=lambda part: -part[1])[:6]
        rows += [{"where": where, "ns": ns, "why": its["attribution_labels"][name]} for name, ns in parts]
    chart = alt.Chart(alt.Data(values=rows), width=460, height=90).mark_bar()
    return chart.encode(
        x=alt.X("ns:Q", title="mean sojourn, ns"),
        y=alt.Y("where:N", title=None),
        color=alt.Color("why:N", title=None, legend=alt.Legend(orient="top", columns=3)),
    )


def pages() -> alt.Chart:
    """What page sizes of an IOMMU cost."""
    rows = []
    for page in ("off", "1 GiB", "2 MiB", "4 KiB"):
        more = {} if page == "off" else {"machine.iommu.page": page}
        rows.append({"x": _quick("forwarding", more | {"traffic.load": 0.3})["sojourn_ns"]["mean"], "y": page})
    return _bars(rows, "mean sojourn, ns")


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


def three_architectures(study: dict) -> alt.Chart:
    """What an overloaded server carries, by table, memory and way to use the LLC."""
    rows = []
    for case, found in study["cases"].items():
        table, way, memory, load = case.split(" / ")
        if load == "rate":
            rows += [{"table": table, "LLC": way, "memory": memory, "mpps": value} for value in found["value"]]
    order = {name: list(dict.fromkeys(row[name] for row in rows)) for name in ("table", "LLC", "memory")}
    base = alt.Chart(alt.Data(values=rows), width=105, height=190)
    colours = alt.Scale(domain=order["LLC"], range=["#4c78a8", "#54a24b", "#f58518"])
    return (
        base.mark_point(filled=True, size=45)
        .encode(
            y=alt.Y("memory:N", sort=order["memory"], title=None),
            yOffset=alt.YOffset("LLC:N", sort=order["LLC"]),
            x=alt.X("mpps:Q", title="Mpps", scale=alt.Scale(zero=False)),
            color=alt.Color("LLC:N", scale=colours, title="tables and LLC", legend=alt.Legend(orient="top")),
        )
        .facet(column=alt.Column("table:N", sort=order["table"], title=None))
        .resolve_scale(x="independent")
    )


def techniques() -> alt.TopLevelMixin:
    """What each technique of the study of techniques brings, by function and server."""
    spec = importlib.util.spec_from_file_location("findings_of_techniques", TECHNIQUES / "findings.py")
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{TECHNIQUES}: has no findings.py")
    findings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(findings)
    with (TECHNIQUES / "results.csv").open(encoding="utf-8", newline="") as lines:
        return findings.chart(list(csv.DictReader(lines)))


def delay_by_load() -> alt.Chart:
    """Sojourn against load, of one small machine."""
    rows = []
    for load in LOADS:
        sojourn = _run("forwarding", FEW | {"traffic.load": load}).summary["sojourn_ns"]
        rows += [{"load": load, "us": sojourn[name] / 1000, "what": name} for name in ("p50", "p99")]
    chart = alt.Chart(alt.Data(values=rows), width=520, height=220).mark_line(point=True)
    return chart.encode(
        x=alt.X("load:Q", title="offered load, share of line rate"),
        y=alt.Y("us:Q", title="sojourn, µs (log scale)", scale=alt.Scale(type="log")),
        color=alt.Color("what:N", title=None),
    )


def warm_up() -> alt.Chart:
    """Reads of DRAM a packet by how many packets were cut, and where a run of the same machine cuts by itself."""
    few = FEW | {"traffic.load": 0.3, "run.packets": 4_000}
    rows = []
    for cut in (1_000, 4_000, 16_000, 64_000, 256_000):
        found = _run("forwarding", few | {"run.warmup": cut}).summary
        rows.append({"cut": cut, "reads": found["dram"]["reads"] / found["taken_packets"]})
    alone = _run("forwarding", few | {"run.packets": 40_000}).summary
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
    few = FEW | (LEAST if SHORT else {}) | {"traffic.load": 0.1, "run.packets": 120_000}
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


PICTURES: dict[str, Callable[[], alt.TopLevelMixin | str]] = {
    "front": front,
    "five-systems": lambda: five_systems(json.loads(STUDY.read_text(encoding="utf-8"))),
    "techniques": techniques,
    "three-architectures": lambda: three_architectures(json.loads(SERVER_STUDY.read_text(encoding="utf-8"))),
    "delay-by-load": delay_by_load,
    "warm-up": warm_up,
    "sampling": sampling,
    "cores": carried,
    "copy-table": copy_table,
    "copy-table-load": copy_table_by_load,
    "claims": claims,
    "dma-windows": dma_windows,
    "maps": maps,
    "controllers": controllers,
    "drivers": drivers,
    "machines": machines,
    "functions": functions,
    "predictions": predictions,
    "rings": rings,
    "sockets": sockets,
    "pages": pages,
    # All rows are predicted and held by `tests/house/accuracy.py`: a short picture has one of them.
    "accuracy-ddio": lambda: _drawn("accuracy", "--only", "128 descriptors" if SHORT else "ddio"),
    "memory-curve": lambda: _drawn(
        "memory", "curve", "xeon-gold-6140", "--points", "5", "--accesses", "256" if SHORT else "512"
    ),
    "gpu-roofline": lambda: _drawn("gpu", "check,lookup,ttl", "--preset", "h100"),
    "gpu-batch": lambda: _drawn(
        "gpu", "ttl", "--preset", "h100", "--system", "batch", "--vary", "batch.packets=32..8192*4"
    ),
    "screen-run": lambda: _screen(
        "run forwarding-64b --set traffic.load=0.47 --set machine.cores=3 --set run.packets=100k"
        " --set function.forward.prefixes=100000"
    ),
    "screen-compare": lambda: _screen(
        "compare forwarding-64b forwarding-64b,machine.llc.core_ways=2 --set run.packets=50k"
        " --set function.forward.prefixes=100000"
    ),
    "screen-cost": lambda: _screen("cost"),
    "screen-error": lambda: _screen("run forwarding --set machine.llc.core_wys=8"),
}


def _quick(scenario: str, more: dict[str, Any]) -> dict[str, Any]:
    """The summary of a short run; one that several pictures ask for runs once."""
    return _known(scenario, json.dumps(QUICK | more, sort_keys=True))


@functools.cache
def _known(scenario: str, settings: str) -> dict[str, Any]:
    return _run(scenario, json.loads(settings)).summary


def _run(scenario: str, settings: dict[str, Any]) -> wirespeed.Result:
    """A run, or a short one."""
    return wirespeed.run(scenario, set=settings | LEAST if SHORT else settings)


def _words(*words: str) -> list[str]:
    return [sys.executable, "-m", "wirespeed", *words]


def _json(*words: str) -> dict[str, Any]:
    """What a command answers."""
    return json.loads(subprocess.run(_words(*words, "--format", "json"), check=True, capture_output=True).stdout)


def _drawn(*words: str) -> str:
    """What a command draws."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture.svg"
        subprocess.run(_words(*words, "--svg", str(file)), check=True, capture_output=True)
        return file.read_text(encoding="utf-8")


def _screen(command: str) -> str:
    """A terminal after a command, as it is. A short run has settings more, which a terminal after it does not show."""
    words = command.split()
    if SHORT and words[0] in ("run", "compare"):
        words += [word for path, value in LEAST.items() for word in ("--set", f"{path}={value}")]
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    shown = subprocess.run(_words(*words), env=environment, capture_output=True, text=True, check=False)
    problem = "" if shown.stdout else shown.stderr
    text = rich.text.Text.from_ansi(shown.stdout + problem)
    console = rich.console.Console(width=WIDTH, record=True, file=io.StringIO())
    console.print(text)
    return console.export_svg(title=f"wirespeed {command}")


def _lines(rows: list[dict[str, Any]], x: str, y: str, *, log_x: bool = False) -> alt.Chart:
    """Lines of `x` and `y`, one a `series`."""
    chart = alt.Chart(alt.Data(values=rows), width=460, height=220).mark_line(point=True)
    return chart.encode(
        x=alt.X("x:Q", title=x, scale=alt.Scale(type="log", base=2, nice=False) if log_x else alt.Scale()),
        y=alt.Y("y:Q", title=y),
        color=alt.Color("series:N", title=None, legend=alt.Legend(orient="top")),
    )


def _bars(rows: list[dict[str, Any]], x: str) -> alt.Chart:
    """A bar for each `y`, as long as its `x`."""
    chart = alt.Chart(alt.Data(values=rows), width=460, height=22 * len(rows)).mark_bar()
    return chart.encode(x=alt.X("x:Q", title=x), y=alt.Y("y:N", title=None, sort=None))
