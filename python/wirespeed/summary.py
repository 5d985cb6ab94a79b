"""The summary of a run: the document that `wirespeed run --format json` prints, and how it is read.

The dictionaries are typed as they are written by the extension. The functions below turn them into what a reader sees
(ordered attribution, drops with their kind, key numbers), once, for the terminal, the report and the notebook alike.
They accept documents with parts missing or not finite: a partial result is still a result.

Units are in the names: `_ns` nanoseconds, `_mpps` 10^6 packets/s, `_gbps` 10^9 bits/s on the wire (L1: with preamble
and inter-frame gap) unless the name says `_l2_`; shares and losses are in 0..1.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypedDict, cast

from wirespeed import quantities as q

Status = Literal["line_rate", "carries", "rejects", "loses", "partial", "found", "nothing"]


class Verdict(TypedDict, total=False):
    """The answer in words: one headline, why, and what to change.

    `status`: all of line rate is carried; all that was offered, which is less; packets are rejected by a function's
    verdict; packets are lost for want of a resource; the run was stopped; a search found a rate below line rate;
    nothing was measured or found.
    """

    keeps_wire_speed: bool | None
    status: Status
    headline: str
    reasons: list[str]
    advice: list[str]


class Sojourn(TypedDict, total=False):
    """Time from the last bit received to the first bit sent, per packet, after warm-up; intervals at 95 %."""

    mean: float
    half_width: float
    min: float
    p50: float
    p50_half_width: float
    p50_low: float
    p50_high: float | None
    p99: float
    p99_half_width: float
    p99_low: float
    p99_high: float | None
    p999: float
    p999_half_width: float
    p999_low: float
    p999_high: float | None
    max: float


class PacketClass(TypedDict, total=False):
    """Packets of one class of size (or of one flow class), and where their time goes."""

    name: str
    packets: int
    sojourn_ns: Sojourn
    attribution_ns: dict[str, float]


class Level(TypedDict, total=False):
    """One level of the memory system; for DDIO a hit is a write in place."""

    name: str
    hits: int
    misses: int
    hit_rate: float


class Member(TypedDict, total=False):
    """What one function of a chain did."""

    name: str
    packets: int
    dropped: int
    references: int
    reference_share: float
    instructions: int
    instruction_share: float


class FlowTable(TypedDict, total=False):
    """What the user plane's flow tables did, all cores together."""

    flows_per_core: int
    hits: int
    misses: int
    stale: int
    evictions: int
    hit_rate: float


class Neighbour(TypedDict, total=False):
    """What another program on the machine did."""

    name: str
    cores: int
    working_set_bytes: int
    references_per_s: float
    llc_lookups: int
    llc_miss_rate: float | None


class LlcApplication(TypedDict, total=False):
    """What was done at the LLC for an application that it tells apart (`machine.applications`)."""

    of: str
    slices: int | None
    ways: int | None
    llc_lookups: int
    llc_miss_rate: float | None
    skipped: int
    skipped_share: float | None
    skips: bool
    changes: int
    flushed: int
    bypassed: int


class StackedTables(TypedDict, total=False):
    """What the stacked DRAM did that holds tables (`machine.stacked`)."""

    holds: list[str]
    channels: int
    banks: int
    reads: int
    writes: int
    interleaved_share: float | None
    bank_wait_ns: float | None
    busy: float


class PacketBuffer(TypedDict, total=False):
    """What the allocator of `[buffer]` did: packets that got memory, requests that did not, the share left unused."""

    allocation: str
    size_bytes: int
    longest_bytes: int
    packets: int
    stalls: int
    stalls_with_room: int
    too_long: int
    fragmentation: float


class DramControllers(TypedDict, total=False):
    """What controllers at the level of commands did; there only with `machine.dram.controller`.

    Latencies are from the controller's door and back. `banks` counts row hits, misses and conflicts of each bank,
    channel by channel.
    """

    map: str
    queue: int
    order: str
    writes: str
    page: str
    refresh: str
    read_latency_ns: dict[str, float | None]
    forwarded: int
    activates: int
    refreshes: int
    drain_switches: int
    links: dict[str, float] | None
    banks: list[list[int]]


class Dram(TypedDict, total=False):
    """DRAM accesses by what they met in the row buffer, and how the data bus spent its time (`share`).

    `energy_nj` is by cause, and `energy_nj_per_packet` all of it over the packets carried; both are null where the
    currents of the devices are not known, and `energy_missing` says why.
    """

    reads: int
    writes: int
    row_hits: int
    row_misses: int
    row_conflicts: int
    bandwidth_gb_per_s: float
    peak_gb_per_s: float
    share: dict[str, float]
    energy_nj: dict[str, float] | None
    energy_nj_per_packet: float | None
    energy_missing: str | None
    controllers: DramControllers


class CopyTable(TypedDict, total=False):
    """What a copy table did, in lines: copied, read, written to DRAM after all, searched for, left to software."""

    fills: int
    hits: int
    settled: int
    searches: int
    fallbacks: int


class CopyEngine(TypedDict, total=False):
    """What a copy engine did: who it is, copies, lines written and cleaned before, accesses that waited."""

    by: str
    copies: int
    lines: int
    cleaned: int
    waits: int


class Core(TypedDict, total=False):
    """One core: shares of time, and its work per packet."""

    core: int
    packets: int
    busy: float
    polling: float
    instructions_per_packet: float
    cycles_per_packet: float


class CurvePoint(TypedDict, total=False):
    """One point of a curve over load; `load` is the offered share of line rate."""

    load: float
    offered_mpps: float
    carried_mpps: float
    loss: float
    lost: int
    packets: int
    warmup_packets: int
    p50_ns: float
    p99_ns: float


# `pass` is a keyword in Python, hence the functional form.
Trial = TypedDict(
    "Trial",
    {
        "load": float,
        "offered_mpps": float,
        "carried_mpps": float,
        "loss": float,
        "lost": int,
        "packets": int,
        "warmup_packets": int,
        "p50_ns": float,
        "p99_ns": float,
        "pass": bool,
    },
    total=False,
)


class Interval(TypedDict, total=False):
    """One interval of the run's time series: packets by their arrival, cores and memory by when they worked."""

    start_ns: float
    width_ns: float
    offered_mpps: float
    carried_mpps: float
    loss: float
    sojourn_mean_ns: float
    ring_packets: float
    mbufs_descriptors: float
    mbufs_queued: float
    mbufs_sending: float
    mbufs_free: float
    llc_hit_rate: float
    dram_gb_per_s: float
    core_busy: float


class ControlInterval(TypedDict, total=False):
    """One interval of the policy that sets the LLC's ways: what was in force, seen and decided."""

    at_ns: float
    io_ways: int
    core_ways: int
    state: str | None
    decided_io_ways: int | None
    received: int
    busy: float
    received_pps: float | None
    ddio_write_miss_rate: float | None
    llc_miss_rate: list[float | None]
    llc_bytes: list[int]


class Policy(TypedDict, total=False):
    """The policy that set the LLC's ways, and what came of it."""

    kind: str
    interval_ns: float
    changes: int
    io_ways: int | None
    ways: int
    intervals: list[ControlInterval]


class Search(TypedDict, total=False):
    """An RFC 2544 search: the highest load at which the loss is within `loss_limit`, and its trials."""

    kind: str
    mpps: float
    gbps: float
    load: float
    loss_limit: float
    packets: int
    sufficient_packets: int
    trials: list[Trial]


class Finding(TypedDict, total=False):
    """Something in the input that could not be used, at a byte offset."""

    offset: int
    what: str


class DamageCount(TypedDict, total=False):
    """How much of one kind of damage there is, and the first of it."""

    kind: str
    count: int
    offset: int
    what: str


class Traffic(TypedDict, total=False):
    """Where the packets came from and what was wrong with them; equal ids, equal packets."""

    id: str
    source: str
    packets_in_file: int
    damage: list[Finding]
    damage_count: int
    damage_by_kind: list[DamageCount]
    damage_skipped_bytes: int
    mean_frame_bytes: float


class RoutingTable(TypedDict, total=False):
    """The routing table and what was wrong with it."""

    source: str
    format: str
    compression: str
    duplicates: int
    damage: list[Finding]
    damage_count: int
    damage_by_kind: list[DamageCount]
    damage_skipped_bytes: int


class WarmUp(TypedDict, total=False):
    """What was cut at the start, and why; `end` is given, settled or limit."""

    packets: int
    end: str
    mbufs: int
    stored: int
    settled_after: int | None
    why: str


class InputFile(TypedDict, total=False):
    """A file that decides over the result, by its content."""

    kind: str
    name: str
    blake3: str


class Summary(TypedDict, total=False):
    """The documented object that describes one run; `schema` is `wirespeed.run/1`."""

    schema: str
    run_id: str
    seed: int
    version: str
    commit: str
    name: str
    partial: bool
    verdict: Verdict
    packets: int
    warmup_packets: int
    warmup: WarmUp
    stationary: bool
    offered_mpps: float
    carried_mpps: float
    offered_gbps: float
    carried_gbps: float
    offered_l2_gbps: float
    carried_l2_gbps: float
    line_rate_gbps: float
    load: float
    loss: float
    loss_half_width: float
    loss_upper_95: float
    drops: dict[str, int]
    drop_kinds: dict[str, str]
    lost: int
    rejected: int
    sojourn_ns: Sojourn
    attribution_ns: dict[str, float]
    attribution_labels: dict[str, str]
    classes: list[PacketClass]
    sojourn_cdf: list[list[float]]
    levels: list[Level]
    copy_table: CopyTable | None
    copy_engine: CopyEngine | None
    members: list[Member] | None
    flow_table: FlowTable | None
    neighbours: list[Neighbour]
    applications: list[LlcApplication]
    stacked: StackedTables | None
    packet_buffer: PacketBuffer | None
    llc_bytes: dict[str, int]
    dram: Dram
    cores: list[Core]
    curve: list[CurvePoint]
    series: list[Interval]
    search: Search | None
    policy: Policy | None
    traffic: Traffic
    routes: dict[str, int]
    table: RoutingTable
    inputs: list[InputFile]
    machine: dict[str, Any]
    notes: list[str]
    batches: dict[str, list[float]]
    wall_s: float
    load_s: float
    simulated_s: float
    packets_per_wall_s: float


Family = Literal["io", "wait", "core", "private", "shared", "dram", "other"]

# Every reason in the order in which a packet meets it, with the part of the machine that it belongs to.
# A test holds that this is the order and the set that the extension writes.
REASONS: Final[Mapping[str, Family]] = {
    "pcie": "io",
    "dma_memory": "io",
    "ring": "wait",
    "queue": "wait",
    "burst": "wait",
    "core": "core",
    "l1": "private",
    "l2": "private",
    "tlb": "private",
    "interconnect": "shared",
    "socket_link": "shared",
    "slice_queue": "shared",
    "llc": "shared",
    "snoop": "shared",
    "mshr": "shared",
    "dram_queue": "dram",
    "bank_busy": "dram",
    "row_hit": "dram",
    "row_miss": "dram",
    "row_conflict": "dram",
    "bus": "dram",
    "turnaround": "dram",
    "refresh": "dram",
    "copy": "other",
    "lock": "wait",
    "commit": "wait",
    "tx_queue": "wait",
}
_ACRONYMS: Final = {
    name.lower(): name for name in ("RX", "TX", "NIC", "FIFO", "TTL", "IP", "PCIe", "DMA", "IPv4", "IPv6")
}
_PLACE: Final[Mapping[str, int]] = {reason: place for place, reason in enumerate(REASONS)}


@dataclass(frozen=True, slots=True)
class Slice:
    """One part of a mean sojourn: `ns` nanoseconds that are charged to `reason`, `share` of the whole."""

    reason: str
    label: str
    family: Family
    ns: float
    share: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Packets dropped for one reason; `kind` is `lost` for want of resources, or `rejected` by a verdict."""

    reason: str
    label: str
    kind: Literal["lost", "rejected"]
    packets: int


@dataclass(frozen=True, slots=True)
class KeyNumber:
    """A headline number: what it is, its value as text, and a detail that may be empty."""

    label: str
    value: str
    detail: str


def slices(attribution_ns: Mapping[str, float] | None, labels: Mapping[str, str] | None) -> list[Slice]:
    """The parts of a mean sojourn in path order, without those that are zero; reasons not known here come last."""
    parts = {r: float(ns) for r, ns in (attribution_ns or {}).items() if q.is_number(ns) and ns > 0}
    whole = sum(parts.values())
    ordered = sorted(parts, key=lambda reason: _PLACE.get(reason, len(_PLACE)))
    return [
        Slice(reason, label(reason, labels), REASONS.get(reason, "other"), parts[reason], parts[reason] / whole)
        for reason in ordered
    ]


def label(name: str, labels: Mapping[str, str] | None) -> str:
    """The words for a reason: its label where the document has one, else its name with spaces."""
    return (labels or {}).get(name) or name.replace("_", " ")


def drops(summary: Summary) -> list[Drop]:
    """Drops with at least one packet: losses first, then verdicts, each by how many."""
    found = [
        Drop(reason, _words(reason), _kind(reason, summary), int(packets))
        for reason, packets in (summary.get("drops") or {}).items()
        if q.is_number(packets) and packets > 0
    ]
    return sorted(found, key=lambda drop: (drop.kind != "lost", -drop.packets, drop.reason))


@dataclass(frozen=True, slots=True)
class Count:
    """A count with words for people."""

    label: str
    n: int


@dataclass(frozen=True, slots=True)
class Copying:
    """What made copies in place of loads and stores, and what it did."""

    title: str
    counts: list[Count]
    note: str


_COPY_TABLE: Final = (
    ("fills", "copied by a pointer"),
    ("hits", "copies read from their source"),
    ("settled", "copies written to DRAM"),
    ("fallbacks", "pieces left to software"),
    ("searches", "searches"),
)


_COPY_ENGINE: Final = (
    ("copies", "copies"),
    ("lines", "lines written"),
    ("cleaned", "lines cleaned before"),
    ("waits", "accesses that waited"),
)
_ENGINES: Final = {"non-temporal": "Non-temporal stores", "dma": "DMA engine", "controller": "Engine at the controller"}


def copying(summary: Summary) -> Copying | None:
    """What made copies, a copy table or its rivals; none where loads and stores did."""

    def counts(found: Mapping[str, Any], names: tuple[tuple[str, str], ...]) -> list[Count]:
        return [Count(words, int(n)) for name, words in names if q.is_number(n := found.get(name))]

    if table := summary.get("copy_table"):
        note = (
            "Lines. A copy that is settled has been written to DRAM after all; a piece that is left to software was no "
            "whole line, or not aligned alike on both sides."
        )
        return Copying("Copy table", counts(table, _COPY_TABLE), note)
    if engine := summary.get("copy_engine"):
        by = str(engine.get("by"))
        note = (
            "A copy by non-temporal stores is a piece of a line; cleaned are modified lines that DRAM had to get first."
        )
        return Copying(_ENGINES.get(by, by), counts(engine, _COPY_ENGINE), note)
    return None


def stacked_text(summary: Summary) -> str | None:
    """What the stacked DRAM did, in a sentence; None without one."""
    found = summary.get("stacked")
    if not found:
        return None
    parts = [
        f"{q.count(found.get('reads'))} reads",
        f"{q.count(found.get('writes'))} writes, each on all {found.get('channels')} channels",
        f"{q.share(found.get('interleaved_share'))} of reads interleaved",
        f"{q.digits(found.get('bank_wait_ns') or 0)} ns wait for a bank",
        f"banks busy {q.share(found.get('busy'))}",
    ]
    return f"{', '.join(found.get('holds') or ())}: {'; '.join(parts)}"


def flow_table_text(summary: Summary) -> str | None:
    """How often the user plane knew a packet's flow, in a sentence; None without a flow table."""
    found = summary.get("flow_table")
    if not found:
        return None
    room, stale, left = q.count(found["flows_per_core"]), q.count(found["stale"]), q.count(found["evictions"])
    return (
        f"{q.share(found.get('hit_rate'))} of packets are of a known flow, room for {room} a core; {stale} came after "
        f"a change of their session, {left} flows had to leave for another"
    )


def packet_buffer_text(summary: Summary) -> str | None:
    """What the packet buffer did, in a sentence; None where packets lie in their mbufs."""
    found = summary.get("packet_buffer")
    if not found:
        return None
    parts = [
        f"{found.get('allocation')}, {q.digits((found.get('size_bytes') or 0) / 2**20)} MiB",
        f"{q.share(found.get('fragmentation'))} of the memory taken holds no packet",
        f"{q.count(found.get('stalls'))} requests found no room"
        + (
            f", {q.count(found.get('stalls_with_room'))} though cells were free"
            if found.get("stalls_with_room")
            else ""
        ),
    ]
    if found.get("too_long"):
        parts.append(f"{q.count(found.get('too_long'))} packets were longer than buffer.longest")
    return "; ".join(parts)


def _words(name: str) -> str:
    return " ".join(_ACRONYMS.get(word, word) for word in name.split("_"))


def _kind(reason: str, summary: Summary) -> Literal["lost", "rejected"]:
    told = (summary.get("drop_kinds") or {}).get(reason)
    if told == "lost":
        return "lost"
    return "rejected" if told == "rejected" else drop_kind(reason)


def drop_kind(reason: str) -> Literal["lost", "rejected"]:
    """Whether a drop is for want of resources (a full or empty buffer) or a function's verdict on the packet."""
    wanting = reason.endswith("_full") or reason.startswith(("no_rx", "no_tx", "no_mbuf", "mempool"))
    return "lost" if wanting else "rejected"


@dataclass(frozen=True, slots=True)
class Mark:
    """How a verdict looks: a symbol, and whether it is good, bad or to be read first."""

    symbol: str
    tone: Literal["good", "open", "bad"]


def mark(summary: Summary) -> Mark:
    """The mark of a verdict. It is green only where every packet of a whole run was carried."""
    return _MARKS[status(summary)]


def status(summary: Summary) -> Status | None:
    """What came of what was offered; None where no packet was measured, or nothing says."""
    if not summary.get("packets"):
        return None
    told = (summary.get("verdict") or {}).get("status")
    if told is not None and told in _MARKS:
        return told
    if summary.get("partial"):
        return "partial"
    if summary.get("lost"):
        return "loses"
    if summary.get("rejected"):
        return "rejects"
    if (summary.get("verdict") or {}).get("keeps_wire_speed") is None and "lost" not in summary:
        return None
    offered, line = summary.get("offered_gbps"), summary.get("line_rate_gbps")
    is_line = q.is_number(offered) and q.is_number(line) and offered >= _LINE_RATE * line > 0
    return "line_rate" if is_line else "carries"


_MARKS: Final[Mapping[Status | None, Mark]] = {
    "line_rate": Mark("✓", "good"),
    "carries": Mark("✓", "good"),
    "rejects": Mark("!", "open"),
    "partial": Mark("!", "open"),
    "loses": Mark("✗", "bad"),
    "found": Mark("✓", "open"),
    "nothing": Mark("?", "open"),
    None: Mark("?", "open"),
}
# Rates are drawn: what is offered at line rate is that within chance.
_LINE_RATE: Final = 0.99


_MEASURED: Final = frozenset(
    (
        "attribution_ns",
        "levels",
        "llc_by_cores",
        "llc_bytes",
        "clos",
        "copy_table",
        "copy_engine",
        "sockets",
        "snooping",
        "applications",
        "stacked",
        "dram",
        "pcie",
        "cores",
        "packet_buffer",
        "nic_cache",
        "members",
        "flow_table",
        "neighbours",
        "series",
        "simulated_s",
    )
)
"""Parts of a summary that are of packets, or that the machine counts, from the end of warm-up on."""


def measured(summary: Summary) -> Summary:
    """The summary as readers see it: what the machine counted stands there only where a packet was measured.

    A run that is stopped in its warm-up has counts all the same: of the warm-up's last moment, and of no packet.
    """
    if summary.get("packets") or "packets" not in summary:
        return summary
    kept = {name: part for name, part in summary.items() if name not in _MEASURED}
    return cast(Summary, kept)


def levels(summary: Summary) -> list[Level]:
    """The levels of the memory system that the machine has: without I/O ways there is no DDIO."""
    has_ddio = (summary.get("machine") or {}).get("io_ways") != 0
    return [level for level in summary.get("levels") or [] if has_ddio or level.get("name") != "DDIO"]


def headline(summary: Summary) -> str:
    """The verdict in one sentence."""
    text = (summary.get("verdict") or {}).get("headline")
    if text:
        return text
    return "No verdict: no packet was measured." if not summary.get("packets") else "No verdict was given."


def curve_text(summary: Summary) -> str | None:
    """How far the load could go: the highest that was run without loss, and the first with it; None without a curve."""
    if not summary.get("packets"):
        return None
    points = sorted(
        (p for p in summary.get("curve") or [] if q.is_number(p.get("load")) and q.is_number(p.get("loss"))),
        key=lambda p: p["load"],
    )
    if not points:
        return None
    clean = list(itertools.takewhile(lambda p: p["loss"] == 0, points))
    if not clean:
        return f"Packets are lost at every load that was tried, from {q.share(points[0]['load'], 0)} of line rate on."
    load, carried = clean[-1]["load"], clean[-1].get("carried_mpps")
    own = summary.get("load")
    if len(clean) == len(points) and not summary.get("lost") and q.is_number(own) and own > load:
        load, carried = own, summary.get("carried_mpps")
    upto = f"Without loss up to {q.share(load, 1)} of line rate ({q.mpps(carried)})"
    if len(clean) == len(points):
        return f"{upto}, the highest load that was tried."
    return f"{upto}; at {q.share(points[len(clean)]['load'], 1)} {q.probability(points[len(clean)]['loss'])} are lost."


def curve_packets_text(summary: Summary) -> str | None:
    """How many packets a point of the curve stands for, and so what no loss means there; None where nothing says."""
    counts = [n for p in summary.get("curve") or [] if q.is_number(n := p.get("packets")) and n > 0]
    if not counts:
        return None
    least, most = min(counts), max(counts)
    each = q.count(least) if least == most else f"{q.count(least)} to {q.count(most)}"
    return (
        f"Each point stands for {each} packets after a warm-up of its own: where none is lost, the loss is below "
        f"{q.probability(3 / least)} at 95 %."
    )


def loss_text(summary: Summary) -> tuple[str, str]:
    """The loss and what bounds it. Zero loss in n packets is a statement about n: loss < 3/n at 95 %."""
    packets, lost = summary.get("packets") or 0, summary.get("lost") or 0
    loss = summary.get("loss")
    if not packets:
        return q.MISSING, "no packet was measured"
    if not lost:
        upper = summary.get("loss_upper_95")
        bound = f"< {q.probability(upper)} at 95 %" if q.is_number(upper) else ""
        return "0", f"none of {q.count(packets)}{', ' + bound if bound else ''}"
    wide = summary.get("loss_half_width")
    around = f"± {q.probability(wide, 2)}, " if wide and q.is_number(wide) else ""
    return q.probability(loss), f"{around}{q.count(lost)} of {q.count(packets)}"


def key_numbers(summary: Summary) -> list[KeyNumber]:
    """Offered, carried and loss, then the quantiles of the sojourn with their half-widths."""
    sojourn = summary.get("sojourn_ns") or {}
    loss, loss_detail = loss_text(summary)
    return [
        KeyNumber("Offered", q.gbps(summary.get("offered_gbps")), _rate_detail(summary, "offered")),
        KeyNumber("Carried", q.gbps(summary.get("carried_gbps")), _rate_detail(summary, "carried")),
        KeyNumber("Loss", loss, loss_detail),
        _quantile("Median sojourn", sojourn.get("p50"), sojourn.get("p50_half_width"), "p50"),
        _quantile("99 % within", sojourn.get("p99"), sojourn.get("p99_half_width"), "p99"),
        _quantile("99.9 % within", sojourn.get("p999"), sojourn.get("p999_half_width"), "p99.9"),
    ]


def energy_text(summary: Summary) -> str | None:
    """What DRAM takes a packet and for what, or why that is not known; None where the document does not tell."""
    dram = summary.get("dram") or {}
    each, parts = dram.get("energy_nj_per_packet"), dram.get("energy_nj") or {}
    if q.is_number(each) and parts.get("total"):
        shares = ", ".join(f"{name} {q.share(nj / parts['total'])}" for name, nj in parts.items() if name != "total")
        return f"{q.digits(each)} nJ a packet: {shares}"
    why = dram.get("energy_missing")
    return f"not known: {why}" if why else None


def warnings(summary: Summary) -> list[str]:
    """What a reader has to know before believing the numbers: partial, unsteady, damaged or empty."""
    out = []
    if partial := partial_text(summary):
        out.append(f"Partial result: {partial[:1].lower()}{partial[1:]}")
    elif not summary.get("packets"):
        out.append("No packet was measured after warm-up: there are no numbers.")
    if summary.get("packets") and summary.get("stationary") is False:
        out.append(
            "The run did not reach a steady state: queues still grew or shrank, so means and quantiles depend on "
            "how long it ran."
        )
    for name, part in damages(summary):
        found = part.get("damage_count") or 0
        places = "place" if found == 1 else "places"
        out.append(f"The {name} is damaged in {q.count(found)} {places}; everything readable was used.")
    return out


def partial_text(summary: Summary) -> str | None:
    """What the numbers of a run hold for that was stopped early; None where it was not."""
    if not summary.get("partial"):
        return None
    packets = summary.get("packets")
    if not packets:
        return "The run was stopped before it measured a packet: there are no numbers."
    return f"The run was stopped early; the numbers hold for the {q.count(packets)} packets measured up to that point."


def damages(summary: Summary) -> list[tuple[str, Traffic | RoutingTable]]:
    """The inputs in which something could not be read, each with a name for people."""
    parts: list[tuple[str, Traffic | RoutingTable]] = [
        ("input", summary.get("traffic") or {}),
        ("routing table", summary.get("table") or {}),
    ]
    return [(name, part) for name, part in parts if part.get("damage_count")]


def _quantile(name: str, ns: float | None, half_width: float | None, short: str) -> KeyNumber:
    wide = f" ± {q.duration(half_width)}" if half_width and q.is_number(half_width) else ""
    return KeyNumber(name, q.duration(ns), f"{short}{wide}")


def _rate_detail(summary: Summary, which: Literal["offered", "carried"]) -> str:
    rate = summary.get("offered_mpps") if which == "offered" else summary.get("carried_mpps")
    bits = summary.get("offered_gbps") if which == "offered" else summary.get("carried_gbps")
    line = summary.get("line_rate_gbps")
    parts: Sequence[str] = [q.mpps(rate)] if q.is_number(rate) else []
    if bits is not None and line and q.is_number(bits) and q.is_number(line):
        parts = [*parts, f"{q.share(bits / line, 0)} of line rate"]
    return ", ".join(parts)
