"""The summary of a run: the document that `wirespeed run --format json` prints, and how it is read.

`summary_types` has its parts as the extension writes them. The functions below turn them into what a reader sees
(ordered attribution, drops with their kind, key numbers), once, for the terminal, the report and the notebook alike.
They accept documents with parts missing or not finite: a partial result is still a result.

Units are in the names: `_ns` nanoseconds, `_mpps` 10^6 packets/s, `_gbps` 10^9 bits/s on the wire (L1: with preamble
and inter-frame gap) unless the name says `_l2_`; shares and losses are in 0..1.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from wirespeed import _wirespeed
from wirespeed import quantities as q
from wirespeed.summary_types import (
    CoreSummary,
    CurvePoint,
    HotRing,
    LevelSummary,
    NeighbourSummary,
    RoutingTable,
    RunStatus,
    Summary,
    TrafficSummary,
    Trial,
)


class Predicted(CurvePoint, total=False):
    """A point of a curve by closed forms, which know no quantiles."""

    mean_ns: float
    """Mean sojourn."""


Family = Literal["io", "wait", "core", "private", "shared", "dram", "other"]

# Every reason in the order in which a packet meets it, with the part of the machine that it belongs to.
REASONS: Final = cast(Mapping[str, Family], dict(_wirespeed.reasons()))
_ACRONYMS: Final = {
    name.lower(): name for name in ("RX", "TX", "NIC", "FIFO", "TTL", "IP", "PCIe", "DMA", "IPv4", "IPv6")
}
# What packets are lost for (`Loss` in Rust), and what is full then, or empty.
LOSSES: Final[Mapping[str, str]] = {
    "no_rx_descriptor": "a receive ring",
    "no_mbuf": "the pool of mbufs",
    "nic_fifo_full": "the NIC's packet memory",
    "queue_full": "a software queue",
    "no_tx_descriptor": "a transmit ring",
    "no_buffer": "the packet buffer",
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


def core_cycles(summary: Summary, of: Sequence[Sequence[CoreSummary]] | None = None) -> list[Slice]:
    """What a packet's cycles are spent on, over all cores that it passes, or those of the stages `of`.

    The `ns` of the slices are cycles. Of the packets that cores worked on, those that were lost later among them.
    """
    spent: dict[str, float] = {}
    for cores in stages(summary) if of is None else of:
        packets = sum(core["packets"] for core in cores)
        for core in cores:
            for reason, cycles in (core.get("cycles") or {}).items():
                spent[reason] = spent.get(reason, 0.0) + cycles * core["packets"] / packets
    return slices(spent, summary.get("attribution_labels"))


def stages(summary: Summary) -> list[list[CoreSummary]]:
    """The cores that a packet passes one of each: those that receive, and those that work for them."""
    cores = summary.get("cores") or []
    found = [[core for core in cores if core.get("receives", True) == receives] for receives in (True, False)]
    return [stage for stage in found if sum(core["packets"] for core in stage)]


@dataclass(frozen=True, slots=True)
class QueueShare:
    """What came for the rings or queue of a core, as shares in 0..1; `full` and `busy` are averages over time."""

    core: int
    receives: bool
    of_offered: float
    """Of the packets of its stage."""
    offered: int
    lost: int
    of_lost: float
    """Of what its stage loses before a core has it; 0 where that is nothing."""
    full: float | None
    busy: float


def queue_shares(summary: Summary) -> list[QueueShare]:
    """What came for each core's rings or queue and what of it was lost; none where the document does not tell."""
    found = []
    cores = summary.get("cores") or []
    for receives in (True, False):
        stage = [core for core in cores if core.get("receives", True) == receives and q.is_number(core.get("offered"))]
        offered, lost = (sum(core[name] for core in stage) for name in ("offered", "lost"))
        for core in stage if offered else []:
            full = core.get("ring_full")
            found.append(
                QueueShare(
                    core=core["core"],
                    receives=receives,
                    of_offered=core["offered"] / offered,
                    offered=core["offered"],
                    lost=core["lost"],
                    of_lost=core["lost"] / lost if lost else 0.0,
                    full=full if q.is_number(full) else None,
                    busy=core.get("busy") or 0.0,
                )
            )
    return found


def hot_text(summary: Summary) -> str | None:
    """Which ring or software queue is hot, in a sentence; None where none is, or an older document does not tell."""
    hot = summary.get("hot_ring")
    return None if hot is None else f"One {hot_name(hot)} is hot: {hot['text']}."


def hot_name(hot: HotRing) -> str:
    """What overflows, in a word or two."""
    return "ring" if hot["receives"] else "software queue"


def core_cycles_text(summary: Summary) -> str:
    """What a packet takes of cores, in a sentence; empty where nothing is known."""
    parts = core_cycles(summary)
    if not parts:
        return ""
    work = sum(
        sum((core.get("instructions_per_packet") or 0.0) * core["packets"] for core in cores)
        / sum(core["packets"] for core in cores)
        for cores in stages(summary)
    )
    memory = memory_share(summary)
    busiest = max(summary["cores"], key=lambda core: core["busy"])
    return (
        f"{q.digits(sum(part.ns for part in parts))} cycles and {q.digits(work)} instructions a packet; "
        f"memory's share is {q.share(memory, 0)}: cycles that wait for LLC, other cores and DRAM. "
        f"The busiest core, {busiest['core']}, is busy "
        f"{q.share(busiest['busy'], 0)} of the time."
    )


_MEMORY: Final[tuple[Family, ...]] = ("shared", "dram")


def memory_cycles(summary: Summary, families: Collection[Family] = _MEMORY) -> float | None:
    """The cycles a packet that wait for memory beyond L2: the LLC, other cores and DRAM; None where none are known."""
    parts = core_cycles(summary)
    return sum(part.ns for part in parts if part.family in families) if parts else None


def memory_share(summary: Summary) -> float | None:
    """Memory's share, wherever it is told: of the cycles that a packet takes of cores, those of `memory_cycles`.

    L1, L2 and TLB are not in it, nor are locks and copies. None where no cycles are known.
    """
    cycles = memory_cycles(summary)
    return None if cycles is None else cycles / sum(part.ns for part in core_cycles(summary))


def seen(summary: Summary, part: Literal["reasons", "details"]) -> list[str]:
    """What a verdict saw, for people, who are told memory's share by cycles beside it.

    What a verdict says of memory is of a packet's own time in a core, without the time of the others of its burst, and
    counts L1 and L2 in: another number, which would stand beside `memory_share` under the same name.
    """
    told: list[str] = (summary.get("verdict") or {}).get(part) or []
    kept = [each for each in told if not (each.startswith(_OWN_TIME) and memory_share(summary) is not None)]
    return [q.multiples(each) for each in kept]


_OWN_TIME: Final = "While a core works on a packet itself, it waits for memory"


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


def iommu_text(summary: Summary) -> str | None:
    """What translation of devices' addresses took, in a sentence; None without it."""
    found = summary.get("iommu")
    if not found:
        return None
    pages = f"pages of {q.count(found['page_bytes'] // 1024)} KiB"
    told = f"{pages}: {q.share(found.get('hit_rate'))} of lookups hit the IO-TLB"
    if found["misses"]:
        loads = q.digits(found["references"] / found["misses"])
        told += f"; {q.count(found['misses'])} walks of {q.digits(found['walk_ns'] or 0)} ns, {loads} loads each"
    if unmapped := found.get("unmapped"):
        each = q.digits(found.get("invalidating_ns", 0.0) / unmapped)
        told += (
            f"; {q.count(unmapped)} buffers unmapped by {q.count(found.get('invalidations', 0))} invalidations, "
            f"for which cores waited {each} ns a buffer"
        )
    return told


_GPU_LIMITS: Final[Mapping[str, str]] = {
    "kernel": "its kernels have no room for more",
    "copy_in": "copies to it have no room for more",
    "copy_back": "copies back have no room for more",
    "one_batch_at_a_time": "one batch after the other leaves no room for more",
    "fifo": "its FIFO has no room for more tasks",
    "dispatcher": "its dispatcher finds no more tasks",
    "arrivals": "it has room for more",
}


def gpu_text(summary: Summary) -> str | None:
    """What went over the GPU, in a sentence; None without one."""
    found: Mapping[str, Any] | None = summary.get("gpu")
    if not found:
        return None
    stays = found.get("posting") == "persistent"
    batches = "tasks" if stays else "batches"
    if not found.get("packets"):
        return f"{found['attached']}: none of its {batches} was back by the last arrival"
    times = ", ".join(
        f"{name} {q.digits(found.get(key) or 0)} ns"
        for name, key in (
            ("fill", "fill_ns"),
            ("wait", "queue_ns"),
            ("bus" if stays else "copies", "copy_ns"),
            ("warp" if stays else "kernel", "kernel_ns"),
        )
    )
    memory = found.get("memory_gb_per_s")
    where = (
        f"{q.share(found.get('llc_miss_rate'))} of its lookups miss the server's LLC"
        if memory is None
        else f"its memory carries {q.digits(memory)} GB/s"
    )
    return (
        f"{found['attached']}{', a kernel that stays' if stays else ''}: {q.count(found['packets'])} packets in "
        f"{q.count(found['batches'])} {batches}, {q.share(found.get('fill'))} full, "
        f"{q.count(found['late_batches'])} of them {'less than full' if stays else 'by time-out'}; "
        f"a packet takes {times}; "
        f"{q.share(found.get('simd_efficiency'))} of lanes at work; {where}; {_GPU_LIMITS[found['limited_by']]}"
    )


# A share of batches that is most of them.
_MOST: Final = 0.5
# A share of the mean sojourn that is told where no other part is larger.
_MUCH: Final = 1 / 3


def gpu_waits_text(summary: Summary) -> str | None:
    """That what a packet waits for longest is its batch, and the settings that say how long; None where it is not."""
    found = summary.get("gpu") or {}
    mean, batches = (summary.get("sojourn_ns") or {}).get("mean"), found.get("batches") or 0
    parts = summary.get("attribution_ns") or {}
    waits = parts.get("gpu_fill")
    if not q.is_number(mean) or not q.is_number(waits) or not batches:
        return None
    if (
        found.get("posting") == "persistent"
        or waits <= _MUCH * mean
        or waits < max(filter(q.is_number, parts.values()))
    ):
        return None
    late = (found.get("late_batches") or 0) / batches
    full = f"{q.share(late, 0)} of batches go by time-out, {q.share(found.get('fill'), 0)} full on average"
    setting = (
        "machine.gpu.timeout bounds that wait, and a machine.gpu.batch that fills sooner ends it"
        if late > _MOST
        else "a smaller machine.gpu.batch fills sooner"
    )
    return (
        f"{q.share(waits / mean, 0)} of the mean sojourn ({q.duration(waits)} of {q.duration(mean)}) is waiting for a "
        f"GPU batch to fill, and no limit of the machine: {full}; {setting}. Shorter waits make more launches, for "
        "which the GPU has to have time."
    )


def policy_text(summary: Summary) -> str | None:
    """What a policy made of the LLC's ways, in a sentence; None without one."""
    found = summary.get("policy") or {}
    if not found.get("kind"):
        return None
    changes, ways = found.get("changes") or 0, found.get("io_ways")
    times = "nothing" if not changes else "the LLC's ways once" if changes == 1 else f"the LLC's ways {changes:,} times"
    at_end = "" if ways is None else f": devices have {ways} of {found.get('ways')} ways at the end"
    return f"The policy ({found['kind']}) changed {times}{at_end}."


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


_PLACED: Final = {
    "foreign_buffers": "buffers of other cores taken",
    "kept_packets": "packets whose payload stayed in the NIC",
    "held_packets": "packets waited in the NIC's memory",
    "uncredited_packets": "packets found no credit of their flow",
    "l2_lines": "lines written to L2",
    "memory_lines": "lines written past the caches",
    "dropped_lines": "dead lines given up",
    "spared_writebacks": "write-backs spared",
}


def placing_text(summary: Summary) -> str | None:
    """What became of received packets beside the LLC's I/O ways; None where nothing of it is on."""
    if not summary.get("placing"):
        return None
    found = cast("Mapping[str, int]", summary["placing"])
    parts = [f"{q.count(found[field])} {what}" for field, what in _PLACED.items() if found[field]]
    return "; ".join(parts) or "nothing"


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
    return "lost" if reason in LOSSES else "rejected"


@dataclass(frozen=True, slots=True)
class Mark:
    """How a verdict looks: a symbol, and whether it is good, bad or to be read first."""

    symbol: str
    tone: Literal["good", "open", "bad"]


def mark(summary: Summary) -> Mark:
    """The mark of a verdict, which answers whether wire speed is kept.

    Green where every packet of a whole run was carried at line rate, by the run or by its curve, and by more than the
    model's error. What was carried below line rate alone says neither yes nor no.
    """
    came = status(summary)
    shown = proven(summary) if came == "carries" else None
    found = _MARKS["line_rate" if shown is not None and shown["load"] >= _LINE_RATE else came]
    is_near = (summary.get("verdict") or {}).get("beyond_model_error") is False
    return Mark(found.symbol, "open") if is_near and found.tone == "good" else found


def holds(summary: Summary) -> bool:
    """Whether all that was offered was carried, by more than the model's error: nothing has to be changed."""
    is_near = (summary.get("verdict") or {}).get("beyond_model_error") is False
    return status(summary) in ("line_rate", "carries") and not is_near


def status(summary: Summary) -> RunStatus | None:
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


LIMITS: Final[Mapping[str | None, str]] = {
    "core": "a core",
    "nic": "the NIC's packet rate, or that of a queue",
    "pcie": "PCIe",
    "dram": "DRAM",
    "iommu": "the IOMMU",
    "gpu": "the GPU",
    "other": "a ring, a pool or a queue",
    None: "nothing that was measured",
}
"""What holds a rate back, in words."""

_MARKS: Final[Mapping[RunStatus | None, Mark]] = {
    "line_rate": Mark("✓", "good"),
    "carries": Mark("~", "open"),
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
        "iommu",
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


_OF_LOSS: Final = frozenset(("loss", "loss_half_width", "loss_upper_95"))


def measured(summary: Summary) -> Summary:
    """The summary as readers see it: what the machine counted stands there only where a packet was measured.

    A run that is stopped in its warm-up has counts all the same: of the warm-up's last moment, and of no packet. A run
    that could not have lost a packet has no loss.
    """
    without: frozenset[str] = frozenset()
    if not summary.get("packets") and "packets" in summary:
        without = _MEASURED
    elif not loss_is_known(summary):
        without = _OF_LOSS
    return cast(Summary, {name: part for name, part in summary.items() if name not in without})


def loss_is_known(summary: Summary) -> bool:
    """Whether the run could have lost a packet; where it could not, that none was lost says nothing."""
    return (summary.get("verdict") or {}).get("loss_is_known") is not False


def levels(summary: Summary) -> list[LevelSummary]:
    """The levels of the memory system that the machine has: without I/O ways there is no DDIO."""
    has_ddio = (summary.get("machine") or {}).get("io_ways") != 0
    found = [level for level in summary.get("levels") or [] if has_ddio or level.get("name") != "DDIO"]
    # Who never comes first has nothing to tell.
    return [each for each in found if not str(each.get("name")).startswith("first ") or _looked(each)]


def _looked(level: LevelSummary) -> bool:
    return bool((level.get("hits") or 0) + (level.get("misses") or 0))


# Fewer of the misses of L2 are not worth a word.
_BESIDE: Final = 0.005


def by_others_text(summary: Summary) -> str | None:
    """Why L2 misses more than the LLC is told to look up; None where the two agree."""
    found = {level.get("name"): level for level in levels(summary)}
    l2, llc = found.get("L2"), found.get("LLC")
    if l2 is None or llc is None:
        return None
    missed, asked = l2.get("misses") or 0, (llc.get("hits") or 0) + (llc.get("misses") or 0)
    if not missed or missed - asked <= _BESIDE * missed:
        return None
    skip = ", or go past the LLC" if summary.get("applications") else ""
    copies = " or the copy table" if summary.get("copy_table") else ""
    return (
        f"L2 misses {q.short_count(missed)} lines, the LLC hits or misses {q.short_count(asked)}: the other "
        f"{q.share(1 - asked / missed)} came from other cores' caches{copies}{skip}."
    )


@dataclass(frozen=True, slots=True)
class PcieWay:
    """A direction of the link: its name, what goes there, Gbit/s with headers and, if known, without, and its share."""

    name: str
    what: str
    gbps: float
    payload_gbps: float | None
    share: float


@dataclass(frozen=True, slots=True)
class PcieUse:
    """How full the link to the NIC is, each way, and what packets wait for it."""

    rate_gbps: float
    ways: Sequence[PcieWay]
    text: str

    @property
    def fuller(self) -> PcieWay:
        """The way that ends first."""
        return max(self.ways, key=lambda way: way.share)


def pcie_use(summary: Summary) -> PcieUse | None:
    """The link's two ways; None where nothing of them is known."""
    pcie = summary.get("pcie") or {}
    rate = pcie.get("rate_gbps")
    found = [
        (name, what, pcie.get(link), pcie.get(payload))
        for name, what, link, payload in (
            (
                "towards the host",
                "packets and completions that the NIC writes, and its requests to read",
                "to_host_link_gbps",
                "to_host_gbps",
            ),
            ("from the host", "descriptors and packets that it reads", "from_host_link_gbps", "from_host_gbps"),
        )
    ]
    if not q.is_number(rate) or rate <= 0 or not summary.get("packets"):
        return None
    ways = [
        PcieWay(name, what, gbps, payload if q.is_number(payload) else None, gbps / rate)
        for name, what, gbps, payload in found
        if q.is_number(gbps)
    ]
    if not ways:
        return None
    times: Mapping[str, float] = summary.get("attribution_ns") or {}
    waits = times.get("pcie_queue")
    use = PcieUse(rate, ways, "")
    told = []
    if len({way.share for way in ways}) > 1:
        told.append(f"The fuller way is that {use.fuller.name}.")
    if q.is_number(waits):
        wait = f"A packet waits {q.duration(waits)}" if waits else "No packet waits"
        told.append(f"{wait} for others on the link, beside its own transfer.")
    return replace(use, text=" ".join(told))


def headline(summary: Summary) -> str:
    """The verdict in one sentence."""
    text = (summary.get("verdict") or {}).get("headline")
    if text:
        return text
    return "No verdict: no packet was measured." if not summary.get("packets") else "No verdict was given."


def _points(summary: Summary) -> tuple[list[CurvePoint], list[CurvePoint]]:
    """The points of the curve by load, and the first of them up to the one that loses, or whose rings fill."""
    points = sorted(
        (p for p in summary.get("curve") or [] if q.is_number(p.get("load")) and q.is_number(p.get("loss"))),
        key=lambda p: p["load"],
    )
    return points, list(itertools.takewhile(lambda p: p["loss"] == 0 and not p.get("ring_growth"), points))


def proven(summary: Summary) -> CurvePoint | None:
    """The point of the curve at the highest load that lost nothing; None without one."""
    _, clean = _points(summary)
    return clean[-1] if clean and q.is_number(clean[-1].get("carried_mpps")) else None


def curve_text(summary: Summary) -> str | None:
    """How far the load could go: the highest that was run without loss, and the first with it; None without a curve."""
    if not summary.get("packets"):
        return None
    points, clean = _points(summary)
    if not points:
        return None
    if not clean and not points[0]["loss"]:
        return f"A ring fills at the least load that was tried, {q.share(points[0]['load'], 0)} of line rate."
    if not clean:
        return f"Packets are lost at every load that was tried, from {q.share(points[0]['load'], 0)} of line rate on."
    load, carried = clean[-1]["load"], clean[-1].get("carried_mpps")
    own = summary.get("load")
    holds = not summary.get("lost") and not summary.get("ring_growth")
    if len(clean) == len(points) and holds and q.is_number(own) and own > load:
        load, carried = own, summary.get("carried_mpps")
    upto = f"Without loss up to {q.share(load, 1)} of line rate ({q.mpps(carried)})"
    if len(clean) == len(points):
        return f"{upto}, the highest load that was tried."
    first = points[len(clean)]
    at = f"{upto}; at {q.share(first['load'], 1)} of it"
    if not first["loss"]:
        return f"{at} a ring fills by {q.share(first['ring_growth'], 1)} of what comes to its core."
    told = f"{at} {q.probability(first['loss'])} are lost."
    through = summary.get("carried_mpps")
    # What was offered less says nothing of more.
    is_less = q.is_number(own) and own < load
    if summary.get("lost") and not is_less and q.is_number(through) and q.is_number(carried) and carried > through:
        told += f" This run carries {q.mpps(through)}: at more a longer run may lose, once its rings are full."
    return told


def curve_packets_text(summary: Summary) -> str | None:
    """How many packets a point of the curve stands for, and so what no loss means there; None where nothing says."""
    counts = [n for p in summary.get("curve") or [] if q.is_number(n := p.get("packets")) and n > 0]
    if not counts:
        return None
    least, most = min(counts), max(counts)
    each = q.count(least) if least == most else f"{q.count(least)} to {q.count(most)}"
    unseen = [p.get("least_ring_growth") for p in summary.get("curve") or []]
    looked = [share for share in unseen if q.is_number(share)]
    shows = (
        f" An overload of less than {q.share(max(looked), 1)} of what comes to a core would not show." if looked else ""
    )
    fills = " and no ring fills" if looked and len(looked) == len(unseen) else ""
    return (
        f"All points go on from one warm machine, {each} packets each: where none is lost{fills}, the loss is below"
        f" {q.probability(3 / least)} at 95 %.{shows}"
    )


def loss_text(summary: Summary) -> tuple[str, str]:
    """The loss and what bounds it. Zero loss in n packets is a statement about n: loss < 3/n at 95 %."""
    packets, lost = summary.get("packets") or 0, summary.get("lost") or 0
    loss = summary.get("loss")
    if not packets:
        return q.MISSING, "no packet was measured"
    if not loss_is_known(summary):
        return q.MISSING, f"{q.count(packets)} packets are too few to lose one"
    if not lost:
        upper = summary.get("loss_upper_95")
        bound = f"< {q.probability(upper)} at 95 %" if q.is_number(upper) else ""
        return "0", f"none of {q.count(packets)}{', ' + bound if bound else ''}"
    wide = summary.get("loss_half_width")
    around = f"± {_points_of(wide)}, " if wide and q.is_number(wide) else ""
    return q.probability(loss), f"{around}{q.count(lost)} of {q.count(packets)}"


def _points_of(share: float) -> str:
    """A difference of shares: one in percent would be read as a part of the loss."""
    text = q.probability(share, 2)
    return f"{text.removesuffix('%').rstrip()} points" if text.endswith("%") else text


def key_numbers(summary: Summary) -> list[KeyNumber]:
    """Offered, carried and loss, then the quantiles of the sojourn with their half-widths, and p99.9 with stalls."""
    sojourn = summary.get("sojourn_ns") or {}
    loss, loss_detail = loss_text(summary)
    numbers = [
        KeyNumber("Offered", q.gbps(summary.get("offered_gbps")), _rate_detail(summary, "offered")),
        KeyNumber("Carried", q.gbps(summary.get("carried_gbps")), _rate_detail(summary, "carried")),
        KeyNumber("Loss", loss, loss_detail),
        _quantile("Median sojourn", sojourn, "p50", "p50"),
        _quantile("99 % within", sojourn, "p99", "p99"),
        _quantile("99.9 % within", sojourn, "p999", "p99.9"),
    ]
    stalls = summary.get("stalls") or {}
    if q.is_number(stalls.get("p999_ns")):
        detail = f"p99.9, {q.share(stalls.get('delayed'), 2)} of the packets wait for one"
        numbers.append(KeyNumber("99.9 % with stalls", q.duration(stalls.get("p999_ns")), detail))
    return numbers


def brief_numbers(summary: Summary) -> list[KeyNumber]:
    """The key numbers in as few lines: what is offered where it is not what is carried, and quantiles in one line."""
    offered, carried, loss, median, *quantiles = key_numbers(summary)
    rejects = (summary.get("rejected") or 0) > FEW_REJECTED * (summary.get("packets") or 0)
    if summary.get("packets") and not summary.get("lost") and not rejects and loss_is_known(summary):
        rates = [KeyNumber("Carried", carried.value, f"{carried.detail}, all that is offered")]
        upper = summary.get("loss_upper_95")
        loss = KeyNumber("Loss", loss.value, f"< {q.probability(upper)} at 95 %" if q.is_number(upper) else loss.detail)
    else:
        rates = [offered, carried]
    of = [f"{name} {each.value}{_width(each)}" for name, each in zip(("p99", "p99.9"), quantiles, strict=False)]
    sojourn = KeyNumber("Sojourn", median.value, f"median; {', '.join(of)}")
    return [*rates, loss, sojourn, *quantiles[2:]]


def _width(number: KeyNumber) -> str:
    _, joint, wide = number.detail.partition(" ")
    return f"{joint}{wide}"


def control_text(neighbour: NeighbourSummary) -> str | None:
    """What a control plane did to packet cores; None of other programs."""
    did = neighbour.get("control")
    if not did:
        return None
    updates, lines = q.count(did.get("updates")), q.count(did.get("lines"))
    copies, readings = q.count(did.get("invalidated")), q.count(did.get("readings"))
    wrote = f"{updates} routes written in {lines} lines, for which other cores gave up {copies} copies"
    return f"{neighbour.get('name', '')}: {wrote}; counters read {readings} times"


def storage_text(neighbour: NeighbourSummary) -> str | None:
    """What a storage device wrote, and what cores read of it; None of other programs."""
    did = neighbour.get("storage")
    if not did:
        return None
    wrote = f"{q.digits(did.get('written_gbps') or 0)} Gbps written into memory"
    hits = f"{q.share(did.get('write_hit_rate'))} of it in place of lines that a cache had"
    read = f"{q.short_count(round(did.get('blocks_read_per_s') or 0))} blocks read a second"
    return f"{neighbour.get('name', '')}: {wrote}, {hits}; {read}"


FEW_REJECTED: Final = 0.01
"""A share of rejected packets that is told: more than chance, and than what a table lacks."""
# Verdicts that meter: they let less pass the more is offered.
_POLICED: Final = ("rate_exceeded", "quota_exhausted")


def rejected_text(summary: Summary) -> str | None:
    """How many packets the function rejects and most for what, and what is carried; None of a share that is no matter.

    Carried is what leaves by a port. What is lost lacked a resource; what is rejected is neither.
    """
    packets, rejected = summary.get("packets") or 0, summary.get("rejected") or 0
    if not packets or rejected <= FEW_REJECTED * packets:
        return None
    most = next((drop for drop in drops(summary) if drop.kind == "rejected"), None)
    policed = ", which polices" if most is not None and most.reason in _POLICED else ""
    why = "" if most is None else f', most for "{most.label}"{policed}'
    left = f"{q.mpps(summary.get('carried_mpps'))} of {q.mpps(summary.get('offered_mpps'))} leave by a port"
    return f"The function rejects {q.share(rejected / packets)} of the packets{why}: {left}"


def trial_rejected(trial: Trial) -> float:
    """The share of a trial's packets that the function rejected: what was neither carried nor lost."""
    offered, carried, loss = trial.get("offered_mpps"), trial.get("carried_mpps"), trial.get("loss")
    if not q.is_number(offered) or not q.is_number(carried) or not q.is_number(loss) or offered <= 0:
        return 0.0
    return max(1.0 - carried / offered - loss, 0.0)


def search_rejects_text(summary: Summary) -> str | None:
    """What is carried of the rate that a search found; None where the function rejects hardly any of it."""
    search = summary.get("search") or {}
    at = next((t for t in search.get("trials") or () if t.get("pass") and t.get("load") == search.get("load")), None)
    if at is None or trial_rejected(at) <= FEW_REJECTED:
        return None
    return (
        f"{str(search.get('kind', '')).upper()} is a rate that is offered: of {q.mpps(search.get('mpps'))} the "
        f"function rejects {q.share(trial_rejected(at))}, and {q.mpps(at.get('carried_mpps'))} are carried"
    )


def search_with_stalls(summary: Summary) -> str | None:
    """The rate that a search found with stalls of the system and without; None where none were placed."""
    search = summary.get("search") or {}
    without = search.get("without_stalls")
    if not without:
        return None
    kind = str(search.get("kind", "")).upper()
    trial = f"a trial of {q.count(without.get('trial_s'))} s has {q.digits(without.get('stalls'))} a core"
    if without.get("bound"):
        rates = f"without stalls {q.mpps(without.get('mpps'))}, with stalls {q.mpps(search.get('mpps'))}"
        return f"{kind} {rates}, bound by the ring: {trial}"
    return f"{kind} with stalls and without: {q.mpps(search.get('mpps'))}; {trial}"


def energy_text(summary: Summary) -> str | None:
    """What DRAM takes a packet and for what, or why that is not known; None where the document does not tell."""
    dram = summary.get("dram") or {}
    each, parts = dram.get("energy_nj_per_packet"), dram.get("energy_nj") or {}
    if q.is_number(each) and parts.get("total"):
        causes = {name: nj for name, nj in parts.items() if name != "total" and q.is_number(nj)}
        shares = ", ".join(f"{name} {q.share(nj / parts['total'])}" for name, nj in causes.items())
        return f"{q.digits(each)} nJ a packet: {shares}"
    why = dram.get("energy_missing")
    return f"not known: {why}" if why else None


def banks_text(summary: Summary) -> str | None:
    """How evenly banks and channels of DRAM were used; None where no controller tells of them."""
    controllers = (summary.get("dram") or {}).get("controllers") or {}
    requests = [sum(met) for met in controllers.get("banks") or []]
    channels = controllers.get("channels") or []
    if not sum(requests) or not channels:
        return None
    mean, data = sum(requests) / len(requests), [each["data"] for each in channels]
    ends = list(dict.fromkeys(q.share(end) for end in (min(data), max(data))))
    most = max(range(len(requests)), key=requests.__getitem__)
    channel, bank = divmod(most, len(requests) // len(channels))
    of = f"the busiest, bank {bank} of channel {channel}, {q.share(requests[most] / mean - 1, 0)} more than that"
    return (
        f"The stronger its colour, the more requests a bank had: {q.short_count(round(mean))} on average, {of}. "
        f"Data buses carried data for {' to '.join(ends)} of the time."
    )


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


def damages(summary: Summary) -> list[tuple[str, TrafficSummary | RoutingTable]]:
    """The inputs in which something could not be read, each with a name for people."""
    parts: list[tuple[str, TrafficSummary | RoutingTable]] = [
        ("input", summary.get("traffic") or {}),
        ("routing table", summary.get("table") or {}),
    ]
    return [(name, part) for name, part in parts if part.get("damage_count")]


def _quantile(name: str, sojourn: Mapping[str, Any], of: str, short: str) -> KeyNumber:
    ns, wide, low, high = (sojourn.get(f"{of}{end}") for end in ("", "_half_width", "_low", "_high"))
    around = ""
    if q.is_number(ns) and q.is_number(low) and q.is_number(high):
        around = q.sides(ns, low, high)
    elif wide and q.is_number(wide):
        around = f"± {q.duration(wide)}"
    return KeyNumber(name, q.duration(ns), f"{short} {around}".rstrip())


def _rate_detail(summary: Summary, which: Literal["offered", "carried"]) -> str:
    rate = summary.get("offered_mpps") if which == "offered" else summary.get("carried_mpps")
    bits = summary.get("offered_gbps") if which == "offered" else summary.get("carried_gbps")
    line = summary.get("line_rate_gbps")
    parts: Sequence[str] = [q.mpps(rate)] if q.is_number(rate) else []
    if bits is not None and line and q.is_number(bits) and q.is_number(line):
        parts = [*parts, f"{q.share(bits / line, 0)} of line rate"]
    if which == "carried" and any(member["name"] == "fragment" for member in summary.get("members") or []):
        parts = [*parts, "as packets came, not as pieces leave"]
    return ", ".join(parts)
