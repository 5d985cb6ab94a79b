"""Hasan, Chandra, Vijaykumar, ISCA 2003: row locality in a network processor's packet buffer."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from wirespeed import _wirespeed
from wirespeed.errors import InputError
from wirespeed.papers import Figure, Measured, Outcome, Paper, Part, Request, figures

ID: Final = "2003-isca-hasan"
SYSTEMS: Final = (
    "ref-base",
    "ref-ideal",
    "our-base",
    "f-alloc",
    "l-alloc",
    "p-alloc",
    "batch",
    "block",
    "ideal-plus",
    "all-pf",
    "prev-pf",
    "adapt",
    "adapt-pf",
)
COMPARED: Final = ("ref-base", "all-pf", "adapt-pf")
APPLICATIONS: Final = ("l3fwd16", "nat", "firewall")
ALLOCATED: Final = ("l-alloc", "p-alloc")
SIZES: Final = (64, 256, 1024)
SWEEP: Final = (1, 2, 4, 8, 16)
DATA: Final = "../shared/data/traces/"
TRAFFIC: Final[Mapping[str, str]] = {
    "edge": "edge",
    "packmime": "packmime",
    "isp": "isp",
    "auckland": DATA + "auckland_20000125.tsh.gz",
    "isp-nz": DATA + "isp_nz_20100113.pcap.gz",
}
READINGS: Final[Mapping[str, str]] = {
    "edge": "packets of an edge link's sizes (mean 541 bytes), ports uniform: what the three numbers were fitted on",
    "packmime": "HTTP connections as the PackMime tool makes them, simplified",
    "isp": "the default profile of this program",
    "auckland": "the public trace auckland_20000125, looped",
    "isp-nz": "the public trace isp_nz_20100113, looped",
}

# Whose gain over which the text prints, of L3fwd16 with each number of banks; of the others it is over REF_BASE.
STEPS: Final[Mapping[str, str]] = {
    "ref-ideal": "ref-base",
    "l-alloc": "ref-base",
    "p-alloc": "ref-base",
    "batch": "p-alloc",
    "block": "batch",
    "all-pf": "block",
    "prev-pf": "batch",
}

# The four techniques in the paper's order: the column that has each and those before, and the one that lacks it.
ADDED: Final[Mapping[str, tuple[str, str]]] = {
    "allocation": ("p-alloc", "our-base"),
    "batching": ("batch", "p-alloc"),
    "blocks": ("block", "batch"),
    "prefetch": ("all-pf", "block"),
}
# ALL+PF without one of them. Fixed buffers are those of OUR_BASE.
LEFT_OUT: Final[Mapping[str, dict[str, Any]]] = {
    "allocation": {"system": "all-pf", "allocation": "fixed"},
    "batching": {"system": "all-pf", "batch": 1},
    "blocks": {"system": "prev-pf"},
    "prefetch": {"system": "block"},
}

Run = dict[str, Any]
Key = tuple[str, str, int]


def measure(request: Request) -> Outcome:
    """What the claims asked for need, on the traffic of the reading."""
    parameters = request.parameters("scenario.toml")
    traffic = find(TRAFFIC[request.reading])
    tables = columns(request)
    batches = {
        size: run("l3fwd16", "batch", 4, traffic, batch=size)
        for size in (SWEEP if request.wants("figure5-peak", "figure5-batches") else ())
    }
    blocks = {
        (banks, size): run("l3fwd16", "batch", banks, traffic, block=size, batch=max(4, size))
        for banks in (2, 4)
        for size in (SWEEP if request.wants("figure6-levels", "figure6-banks") else ())
    }
    idle = {
        (mhz, size): run("l3fwd16", "ref-base", 4, f"fixed={size}", mhz=mhz)
        for mhz in (200, 400)
        for size in SIZES
        if request.wants(f"idle-engine-{mhz}-{size}", f"idle-dram-{mhz}-{size}", "compute-bound")
    }
    without = {
        (technique, banks): run("l3fwd16", banks=banks, traffic=traffic, **change)
        for technique, change in LEFT_OUT.items()
        for banks in (2, 4)
        if request.wants("increments-4")
    }
    faster = [run("l3fwd16", "ref-ideal", 4, traffic, mhz=600)] if request.wants("utilization-600-mhz") else []
    runs: list[Run] = [run(*key, traffic) for key in tables]
    extra = [*batches.values(), *blocks.values(), *idle.values(), *without.values(), *faster]
    found = study(request, runs + extra, parameters["calibration"], parameters["study"], "tables and figures")
    points = iter(found)
    table = {key: next(points) for key in tables}
    by_batch = {size: next(points) for size in batches}
    by_block = {key: next(points) for key in blocks}
    by_idle = {key: next(points) for key in idle}
    by_left_out = {key: next(points) for key in without}
    measured = throughputs(request, table)
    measured |= locality(table) | utilization(request, table, next(points, None))
    measured |= trends(request, table, by_batch, by_block)
    if request.wants("compute-bound"):
        measured["compute-bound"] = compute_bound(by_idle)
    for (mhz, size), point in by_idle.items():
        measured[f"idle-engine-{mhz}-{size}"] = number(point, "engine_idle", 100)
        measured[f"idle-dram-{mhz}-{size}"] = number(point, "sdram_idle", 100)
    notes = [f"traffic: {point['traffic']}" for point in list(table.values())[:1]]
    rows = [{"calibration": "2-bank column", **flat(point)} for point in found]
    if request.reading == "edge" and request.wants("in-sample-rms"):
        every = all_columns()
        in_sample_runs = [run(*key, traffic) for key in every]
        settings = {**parameters["study"], "seeds": 2}
        seen = study(request, in_sample_runs, parameters["in_sample"], settings, "in-sample fit")
        measured["in-sample-rms"] = rms(request, dict(zip(every, seen, strict=True)), every)
        rows += [{"calibration": "in-sample: all 38", **flat(point)} for point in seen]
    elif request.wants("in-sample-rms"):
        measured["in-sample-rms"] = Measured(note="fitted on the reading `edge` alone")
    if request.wants("packmime"):
        measured["packmime"] = similar(request, table, parameters)
    measured = {id: value for id, value in measured.items() if id in request.claims}
    return Outcome(
        measured,
        rows,
        drawn(by_batch, by_block, request.paper.printed()),
        notes,
        tables={"traffic": traffic_table(table), "techniques": techniques_table(request, table, by_left_out)},
    )


def all_columns() -> list[Key]:
    """The 38 throughputs of tables 1 to 10: application, system, banks."""
    tables: list[Key] = [("l3fwd16", system, banks) for system in SYSTEMS for banks in (2, 4)]
    return tables + [(app, system, banks) for app in ("nat", "firewall") for system in COMPARED for banks in (2, 4)]


def columns(request: Request) -> list[Key]:
    """Those of the 38 that the claims asked for are judged by."""
    l3fwd16 = {banks: [("l3fwd16", system, banks) for system in SYSTEMS] for banks in (2, 4)}
    others = [key for key in all_columns() if key[0] != "l3fwd16"]
    # What claims need beside the throughput that they are named after.
    needs: dict[str, list[Key]] = {
        "rms-2": l3fwd16[2],
        "rms-4": l3fwd16[4],
        "rms-applications": others,
        "order-2": l3fwd16[2],
        "order-4": l3fwd16[4],
        "order-applications": others,
        "mean-gain": [(app, system, 4) for app in APPLICATIONS for system in ("ref-base", "all-pf")],
        "packmime": [("l3fwd16", system, 4) for system in COMPARED],
        "increments-4": [("l3fwd16", system, banks) for pair in ADDED.values() for system in pair for banks in (2, 4)],
    }
    needs |= {id: list(pair) for id, pair in gains().items()}
    needs |= {f"rows-{system}-{side}": [("l3fwd16", system, 4)] for system in ALLOCATED for side in ("input", "output")}
    needs |= {
        f"utilization-{app}-{system}": [(app, system, 4)] for app in APPLICATIONS for system in ("ref-base", "all-pf")
    }
    wanted = {key for id, keys in needs.items() if request.wants(id) for key in keys}
    return [key for key in all_columns() if key in wanted or request.wants(name(key))]


def gains() -> dict[str, tuple[Key, Key]]:
    """The gains that the text prints: which throughput over which, by the id of the claim."""
    pairs = {("l3fwd16", after): before for after, before in STEPS.items()}
    pairs |= {(app, system): "ref-base" for app in ("nat", "firewall") for system in ("all-pf", "adapt-pf")}
    return {
        f"gain-{app}-{after}-{banks}": ((app, after, banks), (app, before, banks))
        for (app, after), before in pairs.items()
        for banks in (2, 4)
    }


def traffic_table(table: Mapping[Key, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What depends on the traffic, as a row: of the room's README. Nothing where not all of it was run."""
    if set(table) != set(all_columns()):
        return []
    pairs = {
        "L3fwd16: REF_BASE, ALL+PF, REF_IDEAL": [("l3fwd16", s, 4) for s in ("ref-base", "all-pf", "ref-ideal")],
        "NAT: REF_BASE, ALL+PF": [("nat", s, 4) for s in ("ref-base", "all-pf")],
        "Firewall: REF_BASE, ALL+PF": [("firewall", s, 4) for s in ("ref-base", "all-pf")],
    }
    rows = table["l3fwd16", "p-alloc", 4]
    return [
        {
            "mean gain of ALL+PF, 4 banks": f"{mean_gain(table)[0]:.1f} %",
            **{words: ", ".join(f"{gbps(table, *key):.2f}" for key in keys) for words, keys in pairs.items()},
            "rows in 16 references, P_ALLOC: input, output": ", ".join(
                f"{rows[f'rows_{side}']['mean']:.1f}" for side in ("input", "output")
            ),
        }
    ]


def techniques_table(
    request: Request, table: Mapping[Key, Mapping[str, Any]], without: Mapping[tuple[str, int], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What each technique adds to those before it, and what ALL+PF loses without it, in percent: a row a technique."""

    def gain(ratio: float, half_width: float) -> str:
        return f"{100 * (ratio - 1):.1f} ± {100 * half_width:.1f} %"

    rows = []
    for technique, (after, before) in ADDED.items() if without else ():
        row = {"technique": technique}
        for banks in (2, 4):
            there = [papers_number(request, f"l3fwd16-{system}-{banks}") for system in (after, before)]
            row[f"added, {banks} banks"] = gain(*over(table["l3fwd16", after, banks], table["l3fwd16", before, banks]))
            row[f"the paper, {banks} banks"] = f"{100 * (there[0] / there[1] - 1):.1f} %"
        for banks in (2, 4):
            row[f"left out, {banks} banks"] = gain(*over(without[technique, banks], table["l3fwd16", "all-pf", banks]))
        rows.append(row)
    return rows


def increments(table: Mapping[Key, Mapping[str, Any]]) -> Measured:
    """That each technique adds to those before it, with 4 banks."""
    return Measured(
        holds={
            technique: more(table["l3fwd16", after, 4], table["l3fwd16", before, 4])
            for technique, (after, before) in ADDED.items()
        }
    )


def compute_bound(by_idle: Mapping[tuple[int, int], Mapping[str, Any]]) -> Measured:
    """That engines are what is short at 200 MHz and memory at 400: for each size, by which of them is idle for less."""
    parts = {}
    for (mhz, size), point in by_idle.items():
        engine, dram = (point[name] for name in ("engine_idle", "sdram_idle"))
        more_idle = (dram, engine) if mhz == min(mhz for mhz, _ in by_idle) else (engine, dram)
        parts[f"{mhz} MHz, {size} bytes"] = Part(
            more_idle[0]["mean"] - more_idle[1]["mean"],
            math.hypot(engine["half_width"] or 0.0, dram["half_width"] or 0.0),
        )
    return Measured(holds=parts)


def find(traffic: str) -> str:
    """The traffic, if it is no file or one that is there."""
    if "/" in traffic and not Path(traffic).is_file():
        raise InputError(f"{traffic}: no such file; this reading replays it: run from the root of the repository")
    return traffic


def run(application: str, system: str, banks: int, traffic: str, **more: object) -> Run:
    """What the extension module runs."""
    return {"application": application, "system": system, "banks": banks, "traffic": traffic, **more}


def study(
    request: Request, runs: Sequence[Run], calibration: Mapping[str, Any], settings: Mapping[str, Any], phase: str
) -> list[dict[str, Any]]:
    """A point a run, `request.threads` at a time; those that are kept are not run again."""

    def one(spec: Mapping[str, Any]) -> dict[str, Any]:
        point: dict[str, Any] = json.loads(_wirespeed.study_network_processor(json.dumps(spec)))["runs"][0]
        return point

    specs = [{"calibration": dict(calibration), "runs": [each], "seed": request.seed, **settings} for each in runs]
    keys = [request.kept.key(spec) for spec in specs]
    points = {key: point for key in keys if (point := request.kept.get(key)) is not None}
    missing = {key: spec for key, spec in zip(keys, specs, strict=True) if key not in points}
    done = sum(key in points for key in keys)
    threads = request.threads or os.cpu_count() or 1
    pool = ThreadPoolExecutor(threads)
    try:
        under_way = {pool.submit(one, spec): key for key, spec in missing.items()}
        while under_way:
            # Looked at now and then, so that Ctrl-C is heard.
            finished, _ = wait(under_way, timeout=0.2, return_when=FIRST_COMPLETED)
            for each in finished:
                key = under_way.pop(each)
                points[key] = each.result()
                request.kept.add(key, points[key])
                done += keys.count(key)
            request.progress(phase, done, len(runs), f"{len(under_way)} to go" if under_way else "")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    request.progress(phase, len(runs), len(runs), "")
    return [points[key] for key in keys]


def number(point: Mapping[str, Any], field: str, scale: float = 1.0) -> Measured:
    """A mean over the seeds with its half-width."""
    value, half_width = point[field]["mean"], point[field]["half_width"]
    return Measured(value * scale, None if half_width is None else half_width * scale)


def gbps(table: Mapping[Key, Mapping[str, Any]], *key: Any) -> float:
    """Throughput of a column."""
    return float(table[key]["gbps"]["mean"])


def relative(point: Mapping[str, Any], field: str) -> float:
    """The half-width of a mean over it; 0 where there is none."""
    return float(point[field]["half_width"] or 0.0) / float(point[field]["mean"])


def over(a: Mapping[str, Any], b: Mapping[str, Any], field: str = "gbps") -> tuple[float, float]:
    """A mean of `a` over that of `b`, and the half-width of the ratio."""
    ratio = float(a[field]["mean"]) / float(b[field]["mean"])
    return ratio, ratio * math.hypot(relative(a, field), relative(b, field))


def more(a: Mapping[str, Any], b: Mapping[str, Any], field: str = "gbps") -> Part:
    """That `a` has more than `b`, by their ratio."""
    ratio, half_width = over(a, b, field)
    return Part(ratio - 1, half_width)


def name(key: Key) -> str:
    """The id of a throughput."""
    return f"{key[0]}-{key[1]}-{key[2]}"


def papers_number(request: Request, id: str) -> float:
    """The paper's number of a claim."""
    return next(float(row.paper) for row in request.paper.expected(False) if row.id == id)


def throughputs(request: Request, table: Mapping[Key, Mapping[str, Any]]) -> dict[str, Measured]:
    """Tables 1 to 4 and 6 to 10."""
    measured = {name(key): number(point, "gbps") for key, point in table.items()}
    for id, (after, before) in gains().items():
        if request.wants(id):
            ratio, half_width = over(table[after], table[before])
            gain, wide = 100 * (ratio - 1), 100 * half_width
            measured[id] = Measured(gain, wide, holds=Part(gain, wide))
    sets = {
        "rms-2": [key for key in table if key[0] == "l3fwd16" and key[2] == 2],
        "rms-4": [key for key in table if key[0] == "l3fwd16" and key[2] == 4],
        "rms-applications": [key for key in table if key[0] != "l3fwd16"],
    }
    return measured | {id: rms(request, table, keys) for id, keys in sets.items() if request.wants(id)}


def rms(request: Request, table: Mapping[Key, Mapping[str, Any]], keys: Sequence[Key]) -> Measured:
    """How far throughputs are from the paper's, root mean square."""
    deviations = [gbps(table, *key) / papers_number(request, name(key)) - 1 for key in keys]
    value = math.sqrt(sum(d * d for d in deviations) / len(deviations)) * 100
    worst = max(range(len(keys)), key=lambda i: abs(deviations[i]))
    within = sum(abs(d) <= 0.05 for d in deviations)
    note = f"{value:.1f} %; {within} of {len(keys)} within 5 %, {name(keys[worst])} {deviations[worst] * 100:+.1f} %"
    # A small change of each deviation moves the root of the mean square by its share of it.
    moves = [d * (1 + d) * relative(table[key], "gbps") for d, key in zip(deviations, keys, strict=True)]
    half_width = 1e4 * math.hypot(*moves) / (len(keys) * value)
    return Measured(holds=Part(5 - value, half_width), note=note)


def locality(table: Mapping[Key, Mapping[str, Any]]) -> dict[str, Measured]:
    """Table 5."""
    return {
        f"rows-{system}-{side}": number(table["l3fwd16", system, 4], f"rows_{side}")
        for system in ALLOCATED
        for side in ("input", "output")
        if ("l3fwd16", system, 4) in table
    }


def utilization(
    request: Request, table: Mapping[Key, Mapping[str, Any]], at_600: Mapping[str, Any] | None
) -> dict[str, Measured]:
    """Table 11 and the gain of section 6.9."""
    measured = {
        f"utilization-{app}-{system}": number(table[app, system, 4], "sdram_utilization", 100)
        for app in APPLICATIONS
        for system in ("ref-base", "all-pf")
        if (app, system, 4) in table
    }
    if at_600 is not None:
        measured["utilization-600-mhz"] = number(at_600, "sdram_utilization", 100)
    if request.wants("mean-gain"):
        gain, half_width = mean_gain(table)
        measured["mean-gain"] = Measured(gain, half_width, holds=Part(gain, half_width))
    return measured


def mean_gain(table: Mapping[Key, Mapping[str, Any]]) -> tuple[float, float]:
    """Of ALL+PF over REF_BASE with 4 banks, over the three applications, in percent, and its half-width."""
    ratios = [over(table[app, "all-pf", 4], table[app, "ref-base", 4]) for app in APPLICATIONS]
    mean = sum(ratio for ratio, _ in ratios) / len(ratios)
    return 100 * (mean - 1), 100 * math.hypot(*(half_width for _, half_width in ratios)) / len(ratios)


def trends(
    request: Request,
    table: Mapping[Key, Mapping[str, Any]],
    by_batch: Mapping[int, Mapping[str, Any]],
    by_block: Mapping[tuple[int, int], Mapping[str, Any]],
) -> dict[str, Measured]:
    """Orders of columns, figures 5 and 6: those of the claims asked for."""
    measured = {}
    for banks in (2, 4):
        if request.wants(f"order-{banks}"):
            measured[f"order-{banks}"] = ordered(request, table, banks)
    if request.wants("increments-4"):
        measured["increments-4"] = increments(table)
    if request.wants("order-applications"):
        parts = {}
        for app in ("nat", "firewall"):
            for banks in (2, 4):
                for system in ("all-pf", "adapt-pf"):
                    better = more(table[app, system, banks], table[app, "ref-base", banks])
                    parts[f"{app} {system} {banks} banks"] = better
            for system in COMPARED:
                parts[f"{app} {system} with more banks"] = more(table[app, system, 4], table[app, system, 2])
        measured["order-applications"] = Measured(holds=parts)
    return measured | figure5(by_batch) | figure6(by_block)


def ordered(request: Request, table: Mapping[Key, Mapping[str, Any]], banks: int) -> Measured:
    """Whether columns that are more than 1 % apart in the paper come in its order here."""
    paper = {system: papers_number(request, f"l3fwd16-{system}-{banks}") for system in SYSTEMS}
    ranked = sorted(SYSTEMS, key=lambda system: paper[system])
    parts = {
        f"{low} < {high}": more(table["l3fwd16", high, banks], table["l3fwd16", low, banks])
        for i, low in enumerate(ranked)
        for high in ranked[i + 1 :]
        if paper[high] / paper[low] > 1.01
    }
    return Measured(holds=parts, note="pairs that are more than 1 % apart in the paper")


def figure5(by_batch: Mapping[int, Mapping[str, Any]]) -> dict[str, Measured]:
    """Throughput and batches over the maximum batch size; nothing where it was not run."""
    if not by_batch:
        return {}
    speed = {size: point["gbps"]["mean"] for size, point in by_batch.items()}
    grown = {side: over(by_batch[4], by_batch[1], f"batch_{side}") for side in SIDES}
    (writes, writes_wide), (reads, reads_wide) = grown["writes"], grown["reads"]
    return {
        "figure5-peak": Measured(
            holds={
                "grows from 1 to 2": more(by_batch[2], by_batch[1]),
                "grows from 2 to 4": more(by_batch[4], by_batch[2]),
                "drops from 4 to 8": more(by_batch[4], by_batch[8]),
            },
            note=", ".join(f"{size}: {value:.2f}" for size, value in speed.items()) + " Gbps",
        ),
        "figure5-batches": Measured(
            holds=Part(writes - reads, math.hypot(writes_wide, reads_wide)),
            note=f"from 1 to 4: writes {writes:.2f} ± {writes_wide:.2f} times, reads {reads:.2f} ± {reads_wide:.2f}",
        ),
    }


def figure6(by_block: Mapping[tuple[int, int], Mapping[str, Any]]) -> dict[str, Measured]:
    """Throughput and batches over the maximum block size; nothing where it was not run."""
    if not by_block:
        return {}
    parts = {}
    for banks in (2, 4):
        for small, large in pairwise(SWEEP[:4]):
            parts[f"grows from {small} to {large}, {banks} banks"] = more(
                by_block[banks, large], by_block[banks, small]
            )
        last, last_wide = over(by_block[banks, 16], by_block[banks, 8])
        before, before_wide = over(by_block[banks, 8], by_block[banks, 4])
        # From 8 on it grows by less than half of what the step before brought, and half a percent.
        parts[f"levels off at 8, {banks} banks"] = Part(
            (before - 1) / 2 + 0.005 - (last - 1), math.hypot(before_wide / 2, last_wide)
        )
    batches = {f"block {size}": more(by_block[4, size], by_block[2, size], "batch_reads") for size in SWEEP}
    return {"figure6-levels": Measured(holds=parts), "figure6-banks": Measured(holds=batches)}


SIDES: Final = ("reads", "writes")


def similar(request: Request, table: Mapping[Key, Mapping[str, Any]], parameters: Mapping[str, Any]) -> Measured:
    """The gains of the techniques on the PackMime-like trace beside those of this reading's."""
    runs = [run("l3fwd16", system, 4, "packmime") for system in COMPARED]
    points = study(request, runs, parameters["calibration"], parameters["study"], "PackMime")
    made = dict(zip(COMPARED, points, strict=True))
    parts, words = {}, []
    for system in COMPARED[1:]:
        here, here_wide = over(table["l3fwd16", system, 4], table["l3fwd16", "ref-base", 4])
        there, there_wide = over(made[system], made["ref-base"])
        parts[f"{system} within 10 points"] = Part(0.1 - abs(here - there), math.hypot(here_wide, there_wide))
        words.append(f"{system} {(here - 1) * 100:+.0f} % here, {(there - 1) * 100:+.0f} % there")
    return Measured(holds=parts, note="; ".join(words))


def flat(point: Mapping[str, Any]) -> dict[str, Any]:
    """A point as a row of points.csv."""
    row: dict[str, Any] = dict(point["run"])
    for field, value in point.items():
        if isinstance(value, Mapping) and "mean" in value:
            row[field] = value["mean"]
            row[f"{field}_half_width"] = value["half_width"]
    return row


def drawn(
    by_batch: Mapping[int, Mapping[str, Any]],
    by_block: Mapping[tuple[int, int], Mapping[str, Any]],
    printed: Mapping[str, float],
) -> list[Figure]:
    """Figures 5 and 6: throughput above, observed batches below; those that were run.

    Tables 4 and 6 print the throughputs of batches and blocks of 4; of the rest of the curves nothing is printed.
    """
    speed = [
        {"size": size, "y": p["gbps"]["mean"], "by": "4 banks", "wide": p["gbps"]["half_width"]}
        for size, p in by_batch.items()
    ]
    seen = [
        {"size": size, "y": p[f"batch_{side}"]["mean"], "by": side} for side in SIDES for size, p in by_batch.items()
    ]
    blocks = [
        {"size": size, "y": p["gbps"]["mean"], "by": f"{banks} banks", "wide": p["gbps"]["half_width"]}
        for (banks, size), p in by_block.items()
    ]
    observed = [
        {"size": size, "y": p["batch_reads"]["mean"], "by": f"{banks} banks"} for (banks, size), p in by_block.items()
    ]

    def panel(points: Sequence[Mapping[str, Any]], x_title: str, **more: Any) -> Any:
        return figures.lines(points, x="size", y="y", by="by", x_title=x_title, log_x=True, **more)

    batch, block = "maximum batch size", "maximum output block size, cells"
    batched = [{"size": 4, "y": printed["l3fwd16-batch-4"], "by": "4 banks"}]
    blocked = [{"size": 4, "y": printed[f"l3fwd16-block-{banks}"], "by": f"{banks} banks"} for banks in (2, 4)]
    gbps = {"y_title": "Gbps", "half_width": "wide"}
    figures5_and_6 = [
        Figure(
            "figure5", "Packet throughput over the maximum batch size", panel(speed, batch, printed=batched, **gbps)
        ),
        Figure("figure5-batches", "Observed batch size", panel(seen, batch, y_title="transfers")),
        Figure(
            "figure6",
            "Packet throughput over the maximum output block size",
            panel(blocks, block, printed=blocked, **gbps),
        ),
        Figure("figure6-batches", "Observed output batch size", panel(observed, block, y_title="transfers")),
    ]
    return [*(figures5_and_6[:2] if by_batch else ()), *(figures5_and_6[2:] if by_block else ())]


PAPER = Paper(
    id=ID,
    title="Efficient use of memory bandwidth to improve network processor throughput",
    authors="J. Hasan, S. Chandra, T. N. Vijaykumar",
    venue="ISCA",
    entry="inproceedings",
    year=2003,
    doi="10.1145/859618.859653",
    readings=READINGS,
    default_readings=("edge",),
    measure=measure,
)
