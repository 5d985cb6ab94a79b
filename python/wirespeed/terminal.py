"""What the command line prints: a summary, a comparison, an inspection, as text that fits a narrow terminal.

Every function returns something that rich prints; names and texts from documents are never taken as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from wirespeed import comparing, questions
from wirespeed import quantities as q
from wirespeed.gate import Judgement
from wirespeed.printed import points
from wirespeed.printed import table as _table
from wirespeed.result import Comparison, traffic_text
from wirespeed.slowest import Slowest
from wirespeed.summary import (
    FEW_REJECTED,
    Family,
    KeyNumber,
    Slice,
    brief_numbers,
    by_others_text,
    control_text,
    copying,
    core_cycles,
    core_cycles_text,
    curve_text,
    damages,
    drops,
    energy_text,
    flow_table_text,
    gpu_text,
    gpu_waits_text,
    headline,
    holds,
    iommu_text,
    key_numbers,
    levels,
    mark,
    measured,
    memory_share,
    packet_buffer_text,
    placing_text,
    policy_text,
    queue_shares,
    search_rejects_text,
    search_with_stalls,
    seen,
    slices,
    stacked_text,
    storage_text,
    trial_rejected,
    warnings,
)
from wirespeed.summary_types import Summary

# The widest that a summary gets: beyond this the eye loses the line.
_WIDEST: Final = 100
# What a verdict that keeps says again of what stands below it: the loss, and the busiest core.
_TOLD_BELOW: Final = ("No loss in ", "Core ")
# Reasons that make up less than this are summed up in one line.
_SMALL_SHARE: Final = 0.02
# What the names in an inspection mean, where spaces for underscores do not say it.
_WORDS: Final[Mapping[str, str]] = {
    "mean_bytes": "mean frame, bytes",
    "captured_share": "kept by the capture",
    "duration_s": "duration, s",
    "mean_mpps": "mean, Mpps",
    "mean_gbps": "mean, Gbps",
    "peak_1ms_mpps": "peak in 1 ms, Mpps",
    "peak_1ms_gbps": "peak in 1 ms, Gbps",
    "peak_10ms_mpps": "peak in 10 ms, Mpps",
    "peak_10ms_gbps": "peak in 10 ms, Gbps",
    "size_classes": "packets by size class",
    "to_64": "up to 64 bytes",
    "to_576": "65 to 576 bytes",
    "to_1499": "577 to 1,499 bytes",
    "above": "1,500 bytes and more",
    "sizes": "packets by size, bytes",
    "flow_popularity": "packets of flows: fit to Zipf's law",
    "destination_popularity": "packets of destinations: fit to Zipf's law",
    "flows_per_destination": "flows of destinations: fit to Zipf's law",
    "zipf": "exponent",
    "ks": "Kolmogorov-Smirnov distance",
    "top_share": "share of the first rank",
    "top_tenth_share": "share of the first tenth",
    "destination_lru_hits": "share of packets to one of the n last destinations",
    "ipv4": "IPv4",
    "ipv6": "IPv6",
    "not_ip": "not IP",
    "vlan": "VLAN",
    "mpls": "MPLS",
    "gtp_u": "GTP-U",
    "pfcp": "PFCP",
    "first": "first findings",
    "count": "places",
}
# Of a core's cycles, where all is told in short.
_CYCLES_SHOWN: Final = 2
# Columns between pieces of text that stand side by side.
_GAP: Final = 3
_TRIALS_SHOWN: Final = 12
_FINDINGS_SHOWN: Final = 3
# Rows of a list in an inspection.
_ROWS_SHOWN: Final = 16
# Columns by which rows are large or small: of sizes and of prefix lengths.
_COUNTED: Final = ("packets", "prefixes")

_COLOURS: Final[Mapping[Family, str]] = {
    "io": "magenta",
    "wait": "blue",
    "core": "bright_black",
    "private": "green",
    "shared": "cyan",
    "dram": "yellow",
    "other": "red",
}
# Where a data bus's time goes, in the order of the bar; what is left is idle.
_BUS: Final[tuple[tuple[str, str, Family], ...]] = (
    ("data", "data", "private"),
    ("bank_group", "bank group (tCCD_L)", "shared"),
    ("turnaround", "turnaround", "io"),
    ("row_miss", "opening rows", "dram"),
    ("bank_conflict", "bank conflicts", "other"),
    ("refresh", "refresh", "wait"),
)
# Neighbours in the bar differ in shade too, so that it reads without colour.
_SHADES: Final = "█▓▒░▚▖"
_REST: Final = "·"


def text(renderable: RenderableType, console: Console) -> str:
    """What `console` would print, as text with the console's colours."""
    with console.capture() as captured:
        console.print(renderable, width=min(console.width, _WIDEST), highlight=False)
    return "\n".join(line.rstrip(" ") for line in captured.get().split("\n"))


def run_summary(
    summary: Summary, scenario: str = "", slow: Slowest | None = None, whole: bool = True
) -> RenderableType:
    """The verdict, key numbers and where the time goes of one run; with `whole` all else that was counted.

    `scenario` is the resolved TOML, `slow` the slowest of the sampled packets.
    """
    summary = measured(summary)
    parts: list[RenderableType] = [_verdict(summary, whole), _about(summary, whole)]
    parts += [Text(f"! {warning}", style="yellow") for warning in warnings(summary)]
    parts += [Text(), _numbers(key_numbers(summary) if whole else brief_numbers(summary))]
    parts += _asked_next(summary, scenario, slow) if whole else []
    parts += _cycles_go(summary, whole)
    parts += _time_goes(summary, whole)
    counted = [
        *_levels(summary),
        *_queues(summary),
        *_dram_controllers(summary),
        *_energy(summary),
        *_copying(summary),
        *_members(summary),
        *_flow_table(summary),
        *_neighbours(summary),
        *_applications(summary),
        *_iommu(summary),
        *_gpu(summary),
        *_stacked(summary),
        *_packet_buffer(summary),
        *_placing(summary),
    ]
    parts += counted if whole else []
    parts += _drops(summary)
    parts += _search(summary)
    parts += _damage(summary)
    parts += _notes(summary)
    # What is typed next stands below it, and says the same of a run that keeps.
    parts += _advice(summary) if whole or not holds(summary) else []
    if counted and not whole:
        parts += [
            Text(),
            Text("What else was counted, and three more answers: --details, or the report of --out", "dim"),
        ]
    return Group(*parts)


def comparison(
    pair: Comparison,
    judgements: Sequence[Judgement],
    names: tuple[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> RenderableType:
    """Two runs: what differs surely, metric by metric, and what the conditions came to.

    `names` are the operands as they were given, `labels` the words for reasons.
    """
    parts: list[RenderableType] = [Text(comparing.sentence(pair), "bold")]
    for side, name in zip("ab", names or (pair.name("a"), pair.name("b")), strict=True):
        parts.append(Text.assemble(f"{side}  {name}", (f"  {pair.name(side)}" if names else "", "dim")))
    if told := traffic_text(pair):
        parts.append(Text(f"! {told}", "yellow"))
    table = _table("metric", ">a", ">b", ">change", "")
    styles = {"better": "green", "worse": "red", "noise": "dim", "same": "dim"}
    for *row, word in comparing.rows(pair, labels):
        table.add_row(*(Text(cell) for cell in row), Text(word, styles.get(word, "")))
    parts += [Text(), table] if table.row_count else []
    for judgement in judgements:
        mark, style = {
            "fails": ("✗ fails", "bold red"),
            "within noise": ("~ noise", "yellow"),
            "ok": ("✓ ok", "green"),
            "not known": ("? open", "bold red"),
        }[judgement.outcome]
        parts.append(Text.assemble((f"{mark:8}", style), judgement.sentence))
    if judgements:
        parts.append(
            Text(
                "A condition fails only where it holds for the whole 95 % half-width, or b lacks a value that a has.",
                "dim",
            )
        )
    return Group(*parts)


def inspection(path: str, document: Mapping[str, Any]) -> RenderableType:
    """Statistics of a capture or a prefix table, in the order in which the document has them."""
    return Group(Text(path, "bold"), *_document(document))


def memory_dram(document: Mapping[str, Any], by: str | None = None) -> RenderableType:
    """A DRAM on its own: bandwidth, where the rest of it went, latencies, rows, and the load `by` channel or bank."""
    bandwidth = f"{q.digits(document['bandwidth_gb_per_s'])} GB/s"
    peak = f"{q.share(document['peak_share'])} of the peak of {q.digits(document['peak_gb_per_s'])} GB/s"
    about = [
        document["preset"],
        f"map {document['map']}",
        f"{q.count(document['requests'])} requests, offered {document['offered']}",
        f"{q.count(document['clocks'])} clocks of {q.count(document['clock_mhz'])} MHz",
        f"{q.duration(document['seconds'] * 1e9)} of DRAM time",
    ]
    split = document["bandwidth_split"]
    parts = [Slice(name, label, family, 0.0, split[name]) for name, label, family in _BUS if split[name] > 0]
    table = _table("", "", ">")
    for place, part in enumerate(parts):
        key = Text(_SHADES[place % len(_SHADES)] * 2, _COLOURS[part.family])
        table.add_row(key, Text(part.label), q.share(part.share))
    if split["idle"] > 0:
        table.add_row(Text(_REST * 2, "dim"), Text("idle", "dim"), q.share(split["idle"]))
    latencies = _table("latency, clocks", ">n", ">mean", ">p50", ">p99", ">p99.9", ">max")
    for name in ("read", "write"):
        found = document[f"{name}_latency_clk"]
        if found is not None:
            cells = [q.count(found[key]) for key in ("p50", "p99", "p999", "max")]
            latencies.add_row(f"{name}s", q.count(found["n"]), q.digits(found["mean"], 4), *cells)
    kinds = ("row_hits", "row_misses", "row_conflicts")
    whole = sum(document[kind] for kind in kinds)
    rows = _table("", ">", ">")
    for kind in kinds:
        rows.add_row(
            kind.replace("_", " "), q.count(document[kind]), q.share(document[kind] / whole if whole else None)
        )
    out: list[RenderableType] = [Text(f"{bandwidth}, {peak}", "bold"), _indented(" · ".join(about), "dim")]
    out += [Text(), Text("Where the data bus's time goes", "bold"), Padding(_Bar(parts), (0, 2)), table]
    out += [Text(), latencies, Text(), rows]
    if by is not None:
        out += [Text(), *_dram_load(document, by)]
    if document["explanation"]:
        out += [Text(), Text("Why it is below peak", "bold")]
        out += [_indented(f"→ {each}") for each in document["explanation"]]
    return Group(*out)


_BANKS_SHOWN: Final = 64
_PLACES: Final[Mapping[str, tuple[str, ...]]] = {"channel": ("channel",), "bank": ("channel", "rank", "group", "bank")}


def _dram_load(document: Mapping[str, Any], by: str) -> list[RenderableType]:
    """Requests, row hits and the data bus's time of each channel or bank, and how uneven requests are."""
    uneven = document["most_over_mean"][by]
    said = "no requests" if uneven is None else f"the busiest has {q.digits(uneven)} times the mean of requests"
    rows = document[f"{by}s"]
    if by == "channel":
        rows = [{"channel": place, **each} for place, each in enumerate(rows)]
    # Of what there is one of, nothing is said.
    places = [name for name in _PLACES[by] if any(each[name] for each in rows)] or [by]
    if len(rows) > _BANKS_SHOWN:
        said += f"; the {_ROWS_SHOWN} busiest of {q.count(len(rows))}"
        rows = sorted(rows, key=lambda each: -each["requests"])[:_ROWS_SHOWN]
    table = _table(*places, ">requests", ">row hits", ">bus busy")
    for each in rows:
        hits = each["row_hits"] / each["requests"] if each["requests"] else None
        cells = [str(each[name]) for name in places]
        table.add_row(*cells, q.count(each["requests"]), q.share(hits), q.share(each["data"]))
    return [Text(f"Load by {by}: {said}", "bold"), table]


def memory_drams(documents: Sequence[Mapping[str, Any]], by: str | None = None) -> RenderableType:
    """The same requests on several DRAMs, a row each; latencies in ns, since clocks differ."""
    first = documents[0]
    table = _table("preset", ">GB/s", ">share", ">read ns", ">p99 ns", ">row hits", *([">max/mean"] if by else []))
    for each in documents:
        clock_ns = 1e3 / each["clock_mhz"]
        reads = each["read_latency_clk"]
        whole = sum(each[kind] for kind in ("row_hits", "row_misses", "row_conflicts"))
        table.add_row(
            Text(each["preset"], "bold"),
            f"{q.digits(each['bandwidth_gb_per_s'])} of {q.digits(each['peak_gb_per_s'])}",
            q.share(each["peak_share"]),
            *(q.digits(reads and reads[key] * clock_ns) for key in ("mean", "p99")),
            q.share(each["row_hits"] / whole if whole else None),
            *([q.digits(each["most_over_mean"][by])] if by else []),
        )
    about = f"map {first['map']} · {q.count(first['requests'])} requests, offered {first['offered']}"
    if by:
        about += f" · max/mean of requests by {by}"
    return Group(_indented(about, "dim"), Text(), table)


def memory_cache(document: Mapping[str, Any]) -> RenderableType:
    """A chain of caches on its own: hit rates by level, and what memory sees."""
    took = f"simulated in {q.duration(document['cpu_s'] * 1e9)}"
    about = f"{q.count(document['loads'])} loads, {q.count(document['stores'])} stores, {took}"
    table = _table("", ">hit rate", "", ">hits", ">misses", ">evictions", ">written back")
    sample = document.get("sample")
    for level in document["levels"]:
        rate = level["hit_rate"]
        counts = [q.count(level[key]) for key in ("hits", "misses", "evictions", "writebacks")]
        width = f" ± {q.share(level['hit_rate_half_width'], 2)}" if sample else ""
        table.add_row(Text(level["name"]), q.share(rate) + width, _gauge(rate or 0.0), *counts)
    if sample:
        groups, of = q.count(sample["groups"]), q.count(sample["of"])
        memory = f"estimates from {groups} of {of} groups of sets; ± at 95 %"
    else:
        reads, writes = q.count(document["memory_reads"]), q.count(document["memory_writes"])
        memory = f"memory  {reads} lines read, {writes} lines written"
    for name, key in (("DDIO", "dma_writes"), ("DMA read", "dma_reads")):
        found = document.get(key) or {"hits": 0, "misses": 0}
        if asked := found["hits"] + found["misses"]:
            rate = found["hits"] / asked
            counts = [q.count(found["hits"]), q.count(found["misses"]), "", ""]
            table.add_row(Text(name), q.share(rate), _gauge(rate), *counts)
    out: list[RenderableType] = [Text(f"{q.count(document['accesses'])} accesses", "bold"), _indented(about, "dim")]
    out += [Text(), table, Text(memory)]
    for level in document["levels"]:
        if level.get("slices"):
            out += [Text(), _slices(level)]
    if document.get("classes"):
        out += [Text(), _classes(document["classes"])]
    if document.get("notes"):
        out += [Text(), *(_indented(f"note: {note}") for note in document["notes"])]
    return Group(*out)


def _slices(level: Mapping[str, Any]) -> RenderableType:
    """A level's slices, a row each."""
    has_wires = level["mean_hops"] is not None
    table = _table(f"slices of {level['name']}", ">hit rate", ">hits", ">misses", *([">hops"] if has_wires else []))
    for place, each in enumerate(level["slices"]):
        cells = _outcome(each) + ([q.count(each["hops"])] if has_wires else [])
        table.add_row(str(place), *cells)
    if has_wires:
        table.add_row(Text("mean", "dim"), "", "", "", q.digits(level["mean_hops"], 3))
    return table


def _classes(classes: Sequence[Mapping[str, Any]]) -> RenderableType:
    """What became of each class of service at each level, a row each."""
    table = _table("class", "level", ">hit rate", ">hits", ">misses")
    for of in classes:
        for place, level in enumerate(of["levels"]):
            table.add_row("" if place else str(of["class"]), Text(level["name"]), *_outcome(level))
    return table


def _outcome(counted: Mapping[str, int]) -> list[str]:
    """Hit rate, hits and misses."""
    asked = counted["hits"] + counted["misses"]
    return [q.share(counted["hits"] / asked if asked else None), q.count(counted["hits"]), q.count(counted["misses"])]


def presets(rows: Iterable[tuple[str, str, str]]) -> RenderableType:
    """What is shipped, by kind."""
    parts: list[RenderableType] = []
    kinds: dict[str, list[tuple[str, str]]] = {}
    for kind, name, title in rows:
        kinds.setdefault(kind, []).append((name, title))
    for kind, named in kinds.items():
        table = _table("", "")
        for name, title in named:
            table.add_row(Text(name, "bold"), Text(title))
        parts += [Text(kind if kind in ("traffic", "dram", "microengines") else f"{kind}s", "bold underline"), table]
    return Group(*parts)


def written(folder: str, files: Sequence[str], report: str | None) -> RenderableType:
    """Where the results lie."""
    parts = [Text(f"wrote to {folder}: {', '.join(files)}", "dim")]
    if report:
        parts.append(Text.assemble("report  ", (report, "bold")))
    return Group(*parts)


def _verdict(summary: Summary, whole: bool) -> RenderableType:
    found = mark(summary)
    style = {"good": "bold green", "open": "bold yellow", "bad": "bold red"}[found.tone]
    lines: list[RenderableType] = [Text(f"{found.symbol} {headline(summary)}", style)]
    if (reach := curve_text(summary)) is not None:
        lines.append(_indented(reach, "bold"))
    if (waits := gpu_waits_text(summary)) is not None:
        lines.append(_indented(waits))
    if (policy := policy_text(summary)) is not None:
        lines.append(_indented(policy))
    told = seen(summary, "reasons")
    if not whole and holds(summary):
        told = [reason for reason in told if not reason.startswith(_TOLD_BELOW)]
    lines += [_indented(reason) for reason in told]
    return Group(*lines)


def _about(summary: Summary, whole: bool) -> RenderableType:
    # The run's id stands for its seed; how many packets there are stands beside what became of them.
    more = [f"{q.count(summary.get('packets'))} packets", f"seed {summary.get('seed')}"] if whole else []
    took = [f"{q.digits(summary.get('wall_s'), 2)} s"] if whole else []
    parts = [summary.get("name") or "", *more, f"run {summary.get('run_id')}", *took]
    return _indented(" · ".join(part for part in parts if part), "dim")


def _numbers(numbers: Iterable[KeyNumber]) -> RenderableType:
    table = _table("", ">", "")
    for number in numbers:
        table.add_row(number.label, Text(number.value, "bold"), Text(number.detail, "dim"))
    return table


def _asked_next(summary: Summary, scenario: str, slow: Slowest | None) -> list[RenderableType]:
    found = questions.asked_next(summary, scenario, slow)
    lines = (Padding(Text.assemble((f"{reply.question} ", "bold"), reply.text), (0, 0, 0, 2)) for reply in found)
    return [Text(), *lines] if found else []


def _cycles_go(summary: Summary, whole: bool) -> list[RenderableType]:
    parts = sorted(core_cycles(summary), key=lambda part: -part.ns)
    if not parts:
        return []
    if not whole:
        return _cycles_in_short(summary, parts)
    most = ", ".join(f"{part.label} {q.digits(part.ns)}" for part in parts[:3])
    return [
        Text(),
        Text("Where a core's cycles go", "bold"),
        _indented(core_cycles_text(summary)),
        _indented(f"{most}"),
    ]


def _cycles_in_short(summary: Summary, parts: Sequence[Slice]) -> list[RenderableType]:
    """The same in two lines; `parts` are the largest first."""
    busy = max((core.get("busy") or 0.0 for core in summary.get("cores") or ()), default=0.0)
    a_packet, memory = q.digits(sum(part.ns for part in parts)), q.share(memory_share(summary), 0)
    most = [f"{part.label} {q.digits(part.ns)}" for part in parts[:_CYCLES_SHOWN]]
    if rest := parts[_CYCLES_SHOWN:]:
        most.append(f"{len(rest)} more {q.digits(sum(part.ns for part in rest))}")
    about = f"{a_packet} a packet, memory's share {memory}, busiest {q.share(busy, 0)} busy"
    return [
        Text(),
        Text.assemble(("Where a core's cycles go: ", "bold"), about),
        _indented(", ".join(most)),
    ]


def _time_goes(summary: Summary, whole: bool) -> list[RenderableType]:
    parts = slices(summary.get("attribution_ns"), summary.get("attribution_labels"))
    if not parts:
        return []
    sojourn = summary.get("sojourn_ns") or {}
    mean = q.interval(sojourn.get("mean"), sojourn.get("half_width"))
    shown = [part for part in parts if part.share >= _SMALL_SHARE]
    rest = [part for part in parts if part.share < _SMALL_SHARE]
    head: list[RenderableType] = [
        Text(),
        Text(f"Where the time goes: mean sojourn {mean}", "bold"),
        Padding(_Bar(shown), (0, 2)),
    ]
    if not whole:
        return [*head, _keys(shown, rest)]
    table = _table("", "", ">", ">")
    for place, part in enumerate(shown):
        key = Text(_SHADES[place % len(_SHADES)] * 2, _COLOURS[part.family])
        table.add_row(key, Text(part.label), q.duration(part.ns), q.share(part.share))
    if rest:
        ns, share = sum(part.ns for part in rest), sum(part.share for part in rest)
        words = f"{len(rest)} more"
        table.add_row(Text(_REST * 2, "dim"), Text(words, "dim"), q.duration(ns), q.share(share))
    return [*head, table]


def _keys(shown: Sequence[Slice], rest: Sequence[Slice]) -> RenderableType:
    """The keys of the bar, as many in a line as fit, each with its time and share."""
    keys = [
        Text.assemble((_SHADES[place % len(_SHADES)] * 2, _COLOURS[part.family]), f" {part.label} ", _part(part))
        for place, part in enumerate(shown)
    ]
    if rest:
        ns, share = sum(part.ns for part in rest), sum(part.share for part in rest)
        words = f" {len(rest)} more {q.duration(ns)}, {q.share(share)}"
        keys.append(Text.assemble((_REST * 2, "dim"), (words, "dim")))
    return Padding(_Packed(keys), (0, 0, 0, 2))


def _part(part: Slice) -> str:
    return f"{q.duration(part.ns)}, {q.share(part.share)}"


def _levels(summary: Summary) -> list[RenderableType]:
    found = levels(summary)
    if not found:
        return []
    table = _table("", ">", "", "")
    for level in found:
        rate = level.get("hit_rate")
        of = f"of {q.short_count((level.get('hits') or 0) + (level.get('misses') or 0))}"
        table.add_row(
            Text(str(level.get("name", ""))), q.share(rate), _gauge(rate if q.is_number(rate) else 0.0), Text(of, "dim")
        )
    beside = [_indented(told, "dim")] if (told := by_others_text(summary)) else []
    return [Text(), Text("Hit rates", "bold"), table, *beside]


def _dram_controllers(summary: Summary) -> list[RenderableType]:
    """Where the time of DRAM's data buses goes, and what its reads take, where there are controllers of commands."""
    dram = summary.get("dram") or {}
    found = dram.get("controllers")
    if not found:
        return []
    split = dram["share"]
    slices = [Slice(name, label, family, 0.0, split[name]) for name, label, family in _BUS if split[name] > 0]
    parts = ", ".join(f"{each.label} {q.share(each.share)}" for each in slices)
    reads = found["read_latency_ns"]
    known = [(name, reads.get(name)) for name in ("mean", "p50", "p99", "p999")]
    latency = ", ".join(f"{name} {q.digits(ns)}" for name, ns in known if q.is_number(ns))
    about = f"{found['order']}, writes {found['writes']}, page {found['page']}, refresh {found['refresh']}"
    out: list[RenderableType] = [Text(), Text("DRAM", "bold"), _indented(about, "dim"), Padding(_Bar(slices), (0, 2))]
    out.append(_indented(f"data buses: {parts}, idle {q.share(split['idle'])}"))
    if latency:
        out.append(_indented(f"reads, ns: {latency}"))
    return out


def _energy(summary: Summary) -> list[RenderableType]:
    words = energy_text(summary)
    return [Text(), Text("DRAM energy", "bold"), _indented(words)] if words else []


def _copying(summary: Summary) -> list[RenderableType]:
    packets = summary.get("taken_packets", summary.get("packets")) or 0
    found = copying(summary)
    if found is None:
        return []
    table = _table("", ">", ">", "")
    for row in found.counts:
        a_packet = q.digits(row.n / packets) if packets else "-"
        table.add_row(Text(row.label), q.short_count(row.n), a_packet, Text("a packet", "dim"))
    return [Text(), Text(found.title, "bold"), table]


def _members(summary: Summary) -> list[RenderableType]:
    members = summary.get("members") or []
    if not members:
        return []
    table = _table("", ">", ">", ">", ">")
    table.add_row(*(Text(word, "dim") for word in ("", "packets", "dropped", "instructions", "references")))
    for member in members:
        table.add_row(
            Text(str(member.get("name", ""))),
            q.count(member.get("packets")),
            q.count(member.get("dropped")),
            q.share(member.get("instruction_share")),
            q.share(member.get("reference_share")),
        )
    return [Text(), Text("What each function takes", "bold"), table]


def _flow_table(summary: Summary) -> list[RenderableType]:
    """How often the user plane knew a packet's flow."""
    told = flow_table_text(summary)
    return [Text(), Text("Flow tables", "bold"), Text(told)] if told else []


def _neighbours(summary: Summary) -> list[RenderableType]:
    """What other programs on the machine did, and whose the LLC is."""
    found = summary.get("neighbours") or []
    if not found:
        return []
    table = _table("", ">", ">")
    table.add_row(*(Text(word, "dim") for word in ("", "references a second", "LLC misses")))
    for each in found:
        pace = q.short_count(round(each.get("references_per_s") or 0))
        table.add_row(Text(str(each.get("name", ""))), pace, q.share(each.get("llc_miss_rate")))
    owners = {name: held for name, held in (summary.get("llc_bytes") or {}).items() if q.is_number(held) and held}
    shares = ", ".join(f"{name} {q.digits(held / 2**20)} MiB" for name, held in owners.items())
    control = [_indented(text) for each in found if (text := control_text(each) or storage_text(each))]
    return [Text(), Text("Neighbours", "bold"), table, *control, _indented(f"of the LLC at the end: {shares}")]


def _applications(summary: Summary) -> list[RenderableType]:
    """Whose lines the LLC tells apart, and what that came to."""
    found = summary.get("applications") or []
    if not found:
        return []
    table = _table("", ">", ">", ">", ">")
    table.add_row(*(Text(word, "dim") for word in ("", "slices", "LLC misses", "past the LLC", "not put in")))
    for each in found:
        owned = each.get("slices")
        table.add_row(
            Text(str(each.get("of", ""))),
            "all" if owned is None else str(owned),
            q.share(each.get("llc_miss_rate")),
            q.share(each.get("skipped_share")),
            q.count(each.get("bypassed")),
        )
    lines = [
        _indented(
            f"{each.get('of')}: {'skips the LLC at the end' if each.get('skips') else 'uses the LLC at the end'}, "
            f"{q.count(each.get('changes'))} changes, {q.count(each.get('flushed'))} lines flushed"
        )
        for each in found
        if each.get("changes") or each.get("skips")
    ]
    return [Text(), Text("Applications at the LLC", "bold"), table, *lines]


def _queues(summary: Summary) -> list[RenderableType]:
    """What came for each core's rings or queue, what of it was lost, and how full they were."""
    found = queue_shares(summary)
    if not found:
        return []
    table = _table("", *(f">{head}" for head in ("gets", "offered", "lost", "ring full", "busy")))
    for each in found:
        full, lost = q.share(each.full), Text(q.count(each.lost), "red" if each.lost else "")
        gets = q.share(each.of_offered)
        table.add_row(f"core {each.core}", gets, q.short_count(each.offered), lost, full, q.share(each.busy, 0))
    return [Text(), Text("Rings and queues by core", "bold"), table]


def _iommu(summary: Summary) -> list[RenderableType]:
    told = iommu_text(summary)
    return [] if told is None else [Text(), Text("IOMMU", "bold"), _indented(told)]


def _gpu(summary: Summary) -> list[RenderableType]:
    told = gpu_text(summary)
    return [] if told is None else [Text(), Text("GPU", "bold"), _indented(told)]


def _stacked(summary: Summary) -> list[RenderableType]:
    told = stacked_text(summary)
    return [] if told is None else [Text(), Text("Stacked DRAM", "bold"), _indented(told)]


def _packet_buffer(summary: Summary) -> list[RenderableType]:
    told = packet_buffer_text(summary)
    return [] if told is None else [Text(), Text("Packet buffer", "bold"), _indented(told)]


def _placing(summary: Summary) -> list[RenderableType]:
    told = placing_text(summary)
    return [] if told is None else [Text(), Text("Placing of packets", "bold"), _indented(told)]


def _drops(summary: Summary) -> list[RenderableType]:
    found = drops(summary)
    if not found:
        return []
    table = _table("", ">", "")
    for drop in found:
        style = "red" if drop.kind == "lost" else "dim"
        table.add_row(Text(drop.label), q.count(drop.packets), Text(drop.kind, style))
    return [Text(), Text("Drops by reason", "bold"), table]


def _search(summary: Summary) -> list[RenderableType]:
    search = summary.get("search")
    if not search:
        return []
    kind, limit = str(search.get("kind", "")).upper(), search.get("loss_limit")
    found = f"{kind}: {q.mpps(search.get('mpps'))}, {q.gbps(search.get('gbps'))} (load {q.share(search.get('load'))})"
    trials = search.get("trials") or []
    rejects = any(trial_rejected(trial) > FEW_REJECTED for trial in trials)
    table = _table(">load", ">carried", *([">rejected"] if rejects else []), ">loss", "")
    for trial in trials[-_TRIALS_SHOWN:]:
        word = Text("pass", "green") if trial.get("pass") else Text("fail", "red")
        loss = q.probability(trial.get("loss"))
        rejected = [q.share(trial_rejected(trial))] if rejects else []
        table.add_row(q.share(trial.get("load"), 2), q.mpps(trial.get("carried_mpps")), *rejected, loss, word)
    note = f"loss limit {q.probability(limit)}, {len(trials)} trials"
    beside = [_indented(told) for told in (search_rejects_text(summary), search_with_stalls(summary)) if told]
    return [Text(), Text.assemble((found, "bold"), "  ", (note, "dim")), *beside, table]


def _damage(summary: Summary) -> list[RenderableType]:
    out: list[RenderableType] = []
    for name, part in damages(summary):
        lines = [
            _indented(f"at byte {q.count(each.get('offset'))}: {each.get('what')}", "yellow")
            for each in (part.get("damage") or [])[:_FINDINGS_SHOWN]
        ]
        out += [Text(), Text(f"Damage in the {name}", "bold"), *lines] if lines else []
    return out


def _notes(summary: Summary) -> list[RenderableType]:
    notes = summary.get("notes") or []
    return [Text(), Text("Noted", "bold"), Padding(points(map(str, notes)), (0, 0, 0, 2))] if notes else []


def _advice(summary: Summary) -> list[RenderableType]:
    advice = (summary.get("verdict") or {}).get("advice") or []
    if not advice:
        return []
    return [Text(), Text("What to change", "bold"), *(_indented(f"→ {each}") for each in advice)]


def _document(document: Mapping[str, Any], counts: bool = False) -> list[RenderableType]:
    """Scalars first, then what has parts. What is zero, empty or not known is left out, but for the first line."""
    scalars = _table("", ">" if counts else "")
    out: list[RenderableType] = []
    for key, value in document.items():
        words = _WORDS.get(key, key.replace("_", " "))
        if isinstance(value, Mapping) and {"count", "exact"} == set(value):
            # A count of different things: beyond some size it is an estimate.
            about = "" if value["exact"] else "about "
            scalars.add_row(words, Text(f"{about}{q.count(value['count'])}", "bold"))
        elif isinstance(value, Mapping):
            inner = _document(value, all(isinstance(each, int) for each in value.values()))
            out += [Text(), Text(words, "bold"), Padding(Group(*inner), (0, 0, 0, 1))] if inner else []
        elif isinstance(value, list):
            out += [Text(), Text(words, "bold"), Padding(_list(value), (0, 0, 0, 1))] if value else []
        elif value not in (None, "", 0) and key != "schema":
            scalars.add_row(words, Text(_scalar(key, value), "bold"))
    return [scalars, *out] if scalars.row_count else out


def _list(values: list[Any]) -> RenderableType:
    shown = [value if isinstance(value, Mapping) else dict(enumerate(_row(value))) for value in _largest(values)]
    columns = list(dict.fromkeys(key for value in shown for key in value))
    numeric = {c for c in columns if all(q.is_number(value.get(c)) for value in shown)}
    heads = {c: c.replace("_", " ") if isinstance(c, str) else "" for c in columns}
    table = _table(*(f"{'>' * (c in numeric)}{heads[c]}" for c in columns))
    for value in shown:
        table.add_row(*(Text(_scalar(str(c), value.get(c))) for c in columns))
    left = len(values) - len(shown)
    return Group(table, Text(f" and {left} more (all with --format json)", "dim")) if left else table


def _largest(values: list[Any]) -> list[Any]:
    """As many as are shown, in their order: of counts the largest, else the first."""
    counted = next((c for c in _COUNTED if all(isinstance(value, Mapping) and c in value for value in values)), None)
    if counted is None:
        return values[:_ROWS_SHOWN]
    by_count = sorted(range(len(values)), key=lambda i: values[i][counted], reverse=True)
    return [values[i] for i in sorted(by_count[:_ROWS_SHOWN])]


def _row(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _scalar(key: str, value: Any) -> str:
    if value is None:
        return q.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return q.count(value)
    if isinstance(value, float):
        if key.endswith("_ns"):
            return q.duration(value)
        if "share" in key or (key == "1" and 0 <= value <= 1):  # the second of a pair is a share
            return q.share(value)
        return q.digits(value)
    return str(value)


def _indented(words: str, style: str = "") -> RenderableType:
    return Padding(Text(words, style), (0, 0, 0, 2))


def _gauge(part: float, width: int = 16) -> Text:
    filled = min(width, max(0, round(part * width)))
    return Text("█" * filled + "░" * (width - filled), "cyan")


class _Packed:
    """Pieces of text side by side, as many in a line as fit; none is broken that fits in a line."""

    def __init__(self, pieces: Sequence[Text]) -> None:
        self._pieces = pieces

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = Text()
        for piece in self._pieces:
            if line and line.cell_len + _GAP + piece.cell_len > options.max_width:
                yield line
                line = Text()
            line = piece.copy() if not line else Text.assemble(line, " " * _GAP, piece)
        yield line


class _Bar:
    """Parts side by side, as wide as their share of the whole; what they leave is the rest."""

    def __init__(self, parts: Sequence[Slice]) -> None:
        self._parts = parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        done, covered = 0, 0.0
        for place, part in enumerate(self._parts):
            covered += part.share
            end = round(covered * options.max_width)
            yield Segment(_SHADES[place % len(_SHADES)] * (end - done), Style.parse(_COLOURS[part.family]))
            done = end
        yield Segment(_REST * (options.max_width - done), Style(dim=True))
        yield Segment.line()
