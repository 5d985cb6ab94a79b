"""The summary of a run as the extension writes it, `wirespeed.run/1`.

Made by `make schema` from the fields of the extension: change those.
"""

from __future__ import annotations

from typing import Literal, TypedDict

# How a run ended.
RunStatus = Literal[
    # Line rate was offered, and nothing was lost.
    "line_rate",
    # Less than line rate was offered, and nothing was lost.
    "carries",
    # Packets were lost for want of a resource.
    "loses",
    # Nothing was lost, but the function rejected more than 1 %.
    "rejects",
    # The run was ended early.
    "partial",
    # A search found a rate below line rate.
    "found",
    # No verdict: no packet was measured, also of a run ended early; no rate was found; or so few packets were offered
    # that rings and NIC memory take in all, so that none could be lost.
    "nothing",
]


# What holds a rate back, or comes nearest to it.
RateLimit = Literal[
    # A core.
    "core",
    # The NIC's own packet rate, or that of one of its queues.
    "nic",
    # PCIe.
    "pcie",
    # DRAM.
    "dram",
    # Walks of the IOMMU.
    "iommu",
    # The GPU: its kernels, or copies to it and back.
    "gpu",
    # Something else: a ring, a pool, a queue, the packet buffer.
    "other",
]


# What is asked of the model.
AnswerKind = Literal[
    # Packets a second.
    "rate",
    # Time of a packet.
    "latency",
    # Hit rates of the NIC's writes.
    "hits",
]


class ModelError(TypedDict, total=False):
    """How far predictions were from what servers did that share parts with this one."""

    kind: AnswerKind
    """What is asked."""
    shared: list[str]
    """What those servers share with this one; empty where none was measured."""
    rows: int
    """Measurements, none of which anything was fitted on."""
    sources: int
    """Who measured."""
    low: float | None
    """Nine in ten predictions, or all where there are fewer than 20, were above this: predicted over measured less
    1; of hits the difference of shares. Null where none was measured.
    """
    high: float | None
    """They were below this."""
    beyond: int
    """Measurements beyond these ends, which are not told."""


class RunVerdict(TypedDict, total=False):
    """The answer in words."""

    status: RunStatus
    """How the run ended."""
    keeps_wire_speed: bool | None
    """Whether line rate was carried without loss; null where that was not tried: less was offered, much of it was
    rejected, or the run was ended early.
    """
    loss_is_known: bool
    """Whether a packet could have been lost: false where none was measured, or where rings and NIC memory take in
    all that were offered. Then a loss of 0 says nothing, and comparisons, conditions and sweeps have no loss.
    """
    limit: RateLimit | None
    """What holds the rate back, or comes nearest to it; null where no packet was measured."""
    headroom: float | None
    """So much more could be offered, as a share of what was, until that has no time left; null where packets were
    lost or none was measured.
    """
    beyond_model_error: bool | None
    """Whether the answer to wire speed stands beyond the model's error on servers that share parts with this one:
    what is left is more than that, or what is lacking. Null where none was measured, or there is no such answer.
    """
    model_errors: list[ModelError]
    """How far off predictions were on such servers, by what is asked."""
    headline: str
    """The answer in one sentence."""
    reasons: list[str]
    """Why: what was measured that makes it so."""
    details: list[str]
    """What was seen beside that: where time goes, what caches did, how the machine was warmed."""
    advice: list[str]
    """What to try, each with the setting that tries it."""


# Why measurement began when it did.
WarmUpEnd = Literal[
    # The scenario says so.
    "given",
    # Everything had settled.
    "settled",
    # Something had not, but it had taken as long as it may.
    "limit",
]


# What is watched to tell whether a machine is warm.
WarmthMeasure = Literal[
    # Lines in the LLC.
    "llc_lines",
    # Reads and writes of DRAM a packet, for cores and devices.
    "dram_accesses",
    # Device writes that hit in the LLC, a packet.
    "ddio_hits",
    # Mbufs that have been used.
    "mbufs",
    # Sojourns.
    "sojourn",
]


class WarmUpSummary(TypedDict, total=False):
    """What was cut at the start, and why."""

    packets: int
    """How many were offered before measurement began."""
    untimed: int
    """Of those, how many went through the machine without time, only to leave it warm."""
    end: WarmUpEnd
    """What decided."""
    unsettled: list[WarmthMeasure]
    """What had not settled."""
    llc_lines: int
    """Lines in the LLC when measurement began."""
    llc_capacity: int
    """Lines that fit into it."""
    mbufs: int
    """Mbufs in the pool."""
    stored: int
    """Packets that got an mbuf by then."""
    taken_over: int
    """Lines that the LLC began with: those of another machine that was warm, from which this one started; 0 where
    it started from nothing.
    """
    settled_after: int | None
    """Of the packets sent in detail after those without time, after how many the sojourn had settled by MSER-5;
    `None` if too few were sent to tell.
    """
    why: str
    """All that in words."""


class Sampling(TypedDict, total=False):
    """How a run was sampled."""

    of: int
    """Packets that the windows stand for: those of the run, or as many as had come where there were fewer or it was
    stopped.
    """
    windows: int
    """Windows that were measured."""
    window_packets: int
    """Packets of each."""
    window_warmup: int
    """Packets in detail before each."""
    every: int
    """Packets from the beginning of one window to that of the next."""
    start: int
    """Packets before the first window, its own warm-up included."""
    in_detail: int
    """Packets that went in detail: windows, what came before them, and what came until all of their packets had
    left.
    """
    untimed: int
    """Packets without time before each, at most."""
    left_out: int
    """Packets before those, which the machine has not seen."""
    lost_between: int
    """Packets lost between windows, where nothing is timed."""
    timed_in_full: str | None
    """Why all of the run was timed after all, and windows were tried in vain; `None` if it was not."""


class Sojourn(TypedDict, total=False):
    """Time from the last bit received to the first bit sent, per packet, after warm-up; intervals at 95 %.

    The ends of an interval lie unevenly about a quantile in the tail.
    """

    mean: float
    """Their mean."""
    min: float
    """The shortest."""
    p50: float
    """Half are not longer."""
    p99: float
    """99 % are not longer."""
    p999: float
    """99.9 % are not longer."""
    max: float
    """The longest."""
    half_width: float | None
    """Half-width of the mean's interval; null where too few packets were seen."""
    p50_half_width: float | None
    """Half-width of the median's interval."""
    p50_low: float
    """The lower end of the median's interval."""
    p50_high: float | None
    """The upper end of the median's interval; null where too few packets were seen to bound it."""
    p99_half_width: float | None
    """Half-width of the 99 % quantile's interval; null where too few packets were seen to bound it."""
    p99_low: float
    """The lower end of the 99 % quantile's interval."""
    p99_high: float | None
    """The upper end of the 99 % quantile's interval; null where too few packets were seen to bound it."""
    p999_half_width: float | None
    """Half-width of the 99.9 % quantile's interval; null where too few packets were seen to bound it."""
    p999_low: float
    """The lower end of the 99.9 % quantile's interval."""
    p999_high: float | None
    """The upper end of the 99.9 % quantile's interval; null where too few packets were seen to bound it."""


class Times(TypedDict, total=False):
    """Times of packets, from the last bit received to the first bit sent, in nanoseconds."""

    mean: float
    """Their mean."""
    min: float
    """The shortest."""
    p50: float
    """Half are not longer."""
    p99: float
    """99 % are not longer."""
    p999: float
    """99.9 % are not longer."""
    max: float
    """The longest."""


class PacketClass(TypedDict, total=False):
    """Packets of one class of frame size, and where their time goes."""

    name: str
    """Its frames, in bytes."""
    packets: int
    """Packets carried."""
    sojourn_ns: Times
    """Time from the last bit received to the first bit sent."""
    attribution_ns: dict[str, float]
    """Mean nanoseconds a packet by reason."""


class LevelSummary(TypedDict, total=False):
    """One level of the memory system.

    For DDIO a hit is a device write in place; for DMA reads it is a read that a cache served. A line of a packet
    that a device has written is a `first touch` where a core's load or store comes for it first, and a `first
    prefetch` where a prefetch does, the core's own or its prefetcher's: a hit if a cache still has the line. It is
    one of the two, once: a load behind a prefetch is neither. Lines that nobody asks for, and what devices write to
    an L2, are neither, and with several sockets or tails of receive queues none is counted.
    """

    name: str
    """`L1d`, `L2`, `LLC`, `DDIO`, `first touch`, `first prefetch` or `DMA read`."""
    hits: int
    """Lookups that found what they looked for."""
    misses: int
    """Lookups that did not."""
    hit_rate: float | None
    """Hits over lookups."""


class LlcByCores(TypedDict, total=False):
    """What one kind of core asked of the LLC."""

    cores: str
    """`receiving` (all, where there is no pipeline) or `working`."""
    lookups: int
    """Lookups of the LLC."""
    miss_rate: float
    """Misses over lookups."""


class ClassSummary(TypedDict, total=False):
    """A class of service that is set, and what all who are in it did."""

    clos: int
    """Its number."""
    ways: int | None
    """Its mask of ways."""
    cores: list[int]
    """Cores that it names."""
    neighbours: list[str]
    """Neighbours that it names."""
    llc_lookups: int
    """Lookups of the LLC."""
    llc_miss_rate: float | None
    """Misses over lookups."""
    llc_bytes: int
    """Bytes that it has brought in and are there at the end."""


class CopyTable(TypedDict, total=False):
    """What the copy table did. All counts are of lines but `searches`."""

    fills: int
    """Lines copied: by a pointer, or at once where the source may not be in the LLC (those are `settled`, too)."""
    hits: int
    """Reads of a copy that were served from its source."""
    settled: int
    """Copies written to DRAM: before a write, for want of an entry, or because the source left the LLC."""
    searches: int
    """Searches of a class by target, or of all entries by source: what content-addressable memories do."""
    fallbacks: int
    """Pieces of copies, of a line or less, that were left to loads and stores: not a whole line, or not aligned
    alike.
    """


class CopyEngineSummary(TypedDict, total=False):
    """What the copy engine did. Its device accesses count in the levels `DDIO` and `DMA read`."""

    by: str
    """`non-temporal`, `dma` or `controller`."""
    copies: int
    """Copies, or with non-temporal stores pieces of a line or less."""
    lines: int
    """Lines of the target that it has written."""
    cleaned: int
    """Modified lines of the source that had to go to DRAM first."""
    waits: int
    """Accesses that waited for a copy under way."""


# One direction of a link between sockets.
LinkSummary = TypedDict(
    "LinkSummary",
    {
        # The socket that it leaves.
        "from": int,
        # The socket that it leads to.
        "to": int,
        # Bandwidth, that of messages without data included.
        "gb_per_s": float,
        # Share of time that it was busy.
        "busy": float,
        # Time that messages waited for those before them.
        "waited_ns": float,
    },
    total=False,
)


class Sockets(TypedDict, total=False):
    """What went between sockets."""

    local_reads: int
    """Lines that cores, devices and copy engines read from the DRAM of their own socket."""
    remote_reads: int
    """The same of another socket's DRAM."""
    remote_llc: int
    """Lines that came from another socket's LLC."""
    remote_snoops: int
    """Lines that came from a private cache of another socket."""
    remote_writes: int
    """Lines written to another socket's DRAM."""
    links: list[LinkSummary]
    """Each direction of each link."""


class Supplied(TypedDict, total=False):
    """Lines that came from a core, by the state in which it had them."""

    modified: int
    """Modified."""
    exclusive: int
    """Exclusive."""
    shared: int
    """Shared."""


class SnoopingSummary(TypedDict, total=False):
    """What snooping did."""

    broadcasts: int
    """Requests that all private caches heard of."""
    lookups: int
    """Private caches that were looked up for them: those of a core count as one."""
    supplied: Supplied
    """Lines that came from a core, by the state in which it had them."""
    invalidations: int
    """Lines that cores gave up for others that write, one for each core."""
    waited_ns: float
    """Time that broadcasts waited for the wires, each as long as the core that heard of it last."""


class LlcApplication(TypedDict, total=False):
    """What was done at the LLC for an application that it tells apart (`machine.applications`)."""

    of: str
    """Its name."""
    slices: int | None
    """Slices that hold only its lines at the end; null: what everyone has."""
    ways: int | None
    """Ways that it is held to; null: all."""
    llc_lookups: int
    """Lookups of the LLC."""
    llc_miss_rate: float | None
    """Misses over lookups."""
    skipped_share: float | None
    """Skipped over all L2 misses."""
    skips: bool
    """Whether it skips the LLC at the end."""
    skipped: int
    """L2 misses that went to memory past the LLC."""
    bypassed: int
    """Lines that left L2 and were not put into the LLC."""
    changes: int
    """How often it began to skip the LLC, or to use it."""
    flushed: int
    """Lines that had to leave the LLC since the application does not use it any more, or slices changed hands."""


class IommuSummary(TypedDict, total=False):
    """What the IOMMU did that translates addresses of devices (`machine.iommu`)."""

    page_bytes: int
    """Bytes of a page."""
    hits: int
    """Lookups that the IO-TLB has answered: one for each page of a request."""
    misses: int
    """Lookups that it has not: as many walks."""
    references: int
    """Entries of page tables that walks have read from memory."""
    joined: int
    """Hits that waited for a walk that was under way for their page."""
    walked_ns: float
    """What walks took, without time for a walk to begin. Nothing is added where time stands still."""
    waited_ns: float
    """What requests waited for their translations."""
    unmapped: int
    """Buffers that cores have unmapped; none where they stay mapped."""
    invalidations: int
    """Invalidations: as many, or one of everything for many of them."""
    invalidating_ns: float
    """What cores waited for them."""
    hit_rate: float | None
    """Hits of the IO-TLB over lookups."""
    walk_ns: float | None
    """Mean time of a walk, its loads among it."""


class StackedTables(TypedDict, total=False):
    """What the stacked DRAM did that holds tables (`machine.stacked`)."""

    holds: list[str]
    """What lies there."""
    channels: int
    """Its channels."""
    banks: int
    """Banks of a channel."""
    reads: int
    """Lines read."""
    writes: int
    """Lines written, each on every channel."""
    interleaved_share: float | None
    """Share of reads that began while another bank of their channel was busy."""
    bank_wait_ns: float | None
    """Mean time that a read waited for a bank."""
    busy: float
    """Share of time that banks were busy."""


class ReadLatency(TypedDict, total=False):
    """Latencies of reads from the controllers' door and back, waiting before it included."""

    mean: float
    """Their mean."""
    min: float
    """The shortest."""
    p50: float
    """Half are not longer."""
    p99: float
    """99 % are not longer."""
    p999: float
    """99.9 % are not longer."""
    max: float
    """The longest."""
    n: int
    """How many."""
    p90: float
    """90 % are not longer."""


# Shares of time for which packets were on a cube's links.
CubeLinks = TypedDict(
    "CubeLinks",
    {
        # Requests.
        "to": float,
        # Answers.
        "from": float,
    },
    total=False,
)


class ChannelLoad(TypedDict, total=False):
    """How much of the work a channel had."""

    bursts: int
    """Bursts that went over its data bus."""
    data: float
    """Share of its time in which the bus carried data."""
    idle: float
    """Share of its time in which it had nothing to do."""


class DramControllers(TypedDict, total=False):
    """What controllers at the level of commands did."""

    map: str
    """Where a line lies."""
    queue: int
    """Entries of a channel's queue."""
    order: str
    """Which request is next."""
    writes: str
    """Where writes wait."""
    page: str
    """When rows are closed."""
    refresh: str
    """Which refresh is used."""
    read_latency_ns: ReadLatency
    """Latencies of reads from the controllers' door and back, waiting before it included."""
    forwarded: int
    """Reads answered from the write queue."""
    activates: int
    """Rows opened."""
    refreshes: int
    """Refresh commands."""
    drain_switches: int
    """Starts and ends of write drains."""
    links: CubeLinks | None
    """Shares of time for which packets were on a cube's links; null without a cube."""
    channels: list[ChannelLoad]
    """Each channel."""
    banks: list[list[int]]
    """Row hits, misses and conflicts of each bank, channel by channel."""


class DramEnergy(TypedDict, total=False):
    """DRAM energy by cause."""

    total: float
    """All of it."""
    activate: float
    """Activates with their precharges."""
    read: float
    """Read bursts."""
    write: float
    """Write bursts."""
    refresh: float
    """Refreshes."""
    background: float
    """Standby, rows open or closed."""


class DramSummary(TypedDict, total=False):
    """DRAM accesses by what they met in the row buffer, and how the data bus spent its time."""

    reads: int
    """Lines read."""
    writes: int
    """Lines written."""
    row_hits: int
    """Found their row open."""
    row_misses: int
    """Found the bank closed."""
    row_conflicts: int
    """Found another row open."""
    bandwidth_gb_per_s: float
    """Bandwidth, reads and writes."""
    peak_gb_per_s: float
    """What all channels can move."""
    share: dict[str, float]
    """Shares of the data buses' time: `data` and `idle`; with `machine.dram.controller` also `turnaround`,
    `bank_group` (bursts of one bank group are further apart), `row_miss`, `bank_conflict` and `refresh`.
    """
    controllers: DramControllers
    """What controllers at the level of commands did; missing without `machine.dram.controller`."""
    energy_nj_per_packet: float | None
    """DRAM energy over `sent_packets`; null where the currents of the devices are not known
    (`machine.dram.currents` or `standard`).
    """
    energy_missing: str | None
    """Why energy is not known; null where it is."""
    energy_nj: DramEnergy | None
    """DRAM energy by cause; null where it is not known."""


class Pcie(TypedDict, total=False):
    """What went over PCIe, each way."""

    to_host_gbps: float
    """Payload towards the host."""
    from_host_gbps: float
    """Payload from the host."""
    to_host_link_gbps: float
    """The same towards the host with framing and headers, and what the NIC asks for what it reads."""
    from_host_link_gbps: float
    """The same from the host with framing and headers."""
    rate_gbps: float
    """What the link carries each way, framing and headers included."""


class CoreSummary(TypedDict, total=False):
    """One core: shares of time, and its work per packet."""

    core: int
    """Its number."""
    packets: int
    """Packets it took from its ring."""
    offered: int
    """Packets that came for its receive rings, or for its software queue, those that were lost among them."""
    lost: int
    """Of those, packets lost before it had them: for want of a descriptor, an mbuf or room."""
    doorbells: int
    """Doorbells that its driver rang: writes of the tail register of its receive queue, for a refill, or of a
    transmit queue, for what a burst sends there.
    """
    receives: bool
    """Whether it polls queues of the NIC; others take packets from a software queue."""
    ring_packets: float
    """Packets that waited in its receive rings or software queue, on average over time."""
    ring_full: float
    """The same as a share of what those hold."""
    busy: float
    """Share of time in bursts."""
    polling: float
    """Share of time in which it looked for packets in vain."""
    packets_per_burst: float | None
    """Packets of a burst, on average."""
    instructions_per_packet: float | None
    """Instructions a packet, polling in vain not counted."""
    cycles_per_packet: float | None
    """Busy cycles a packet."""
    cycles: dict[str, float]
    """What they are spent on: cycles a packet by reason, of bursts that are over."""


class HotRing(TypedDict, total=False):
    """A ring that gets more than its share of the packets and loses, while other cores of its stage have time left."""

    core: int
    """The core whose ring it is."""
    receives: bool
    """Whether it is that core's receive ring; else the software queue into which receiving cores put what it works
    on.
    """
    cores: int
    """Cores of its stage: an even share of the packets is one over this."""
    of_offered: float
    """Its share of the packets that came to the stage."""
    of_lost: float
    """Its share of what the stage lost before a core had it."""
    full: float
    """How full it was on average over time, as a share."""
    busy: float
    """Share of time that its core was busy."""
    others_busy: float
    """The same of the other cores of the stage, on average."""
    busy_if_even: float
    """The same of each core if packets were spread evenly, at what a packet takes of the core that is full; more
    than 1 where the stage would lose still. Cores with time left have short bursts, and take longer for each
    packet.
    """
    even_mpps: float
    """Packets a microsecond that the stage would carry then, by its cores alone."""
    text: str
    """What is uneven, in a sentence without its full stop."""
    remedy: str
    """What spreads packets anew, in words that follow "by"."""


class StallsSummary(TypedDict, total=False):
    """What stalls of the system cost: the busiest core that receives, and the packets of all cores."""

    every_s: float
    """Seconds from the end of one to the next, in the mean."""
    longest_ns: float
    """The longest."""
    packets: float
    """Packets that come to the core in the longest."""
    descriptors: int
    """Descriptors of its receive rings that are there for them."""
    loss: float
    """Lost over offered packets by stalls alone: what comes beyond those descriptors, in the mean over the lengths,
    times how often.
    """
    least_descriptors: int | None
    """The least `nic.rx_descriptors` that survives the longest; null where that is more than a ring may have."""
    drain_ns: float | None
    """From the end of the longest until the core has worked off what came meanwhile; null where it never does."""
    delayed: float | None
    """The share of packets that come in a stall of their core or before its backlog is gone; null where it never
    is.
    """
    p99_ns: float | None
    """The sojourn that 99 % do not exceed, those packets among them. `sojourn_ns` is without stalls."""
    p999_ns: float | None
    """The sojourn that 99.9 % do not exceed, those packets among them."""


class MempoolSummary(TypedDict, total=False):
    """The pool of packet buffers."""

    size: int
    """Its mbufs."""
    starved: bool
    """Whether drivers found it empty."""
    rx_nombuf: int
    """Mbufs that drivers wanted in vain, counted at each try."""


class PacketBufferSummary(TypedDict, total=False):
    """What the allocator of `[buffer]` did."""

    allocation: str
    """Which allocator it is."""
    size_bytes: int
    """The buffer's memory."""
    longest_bytes: int
    """The longest packet that it is built for."""
    packets: int
    """Packets that got memory."""
    stalls: int
    """Requests that had to wait: there was no memory, or the frontier's next page was not empty."""
    stalls_with_room: int
    """Requests that had to wait although enough cells were free somewhere."""
    too_long: int
    """Requests for more than the longest packet that the buffer was built for; they are among the stalls."""
    fragmentation: float
    """The share of the memory taken that holds no byte of a packet, averaged over the grants."""


class NicCache(TypedDict, total=False):
    """What became of the lines that the NIC wrote past the LLC into its SRAM for the tails of receive queues."""

    cells: int
    """Lines of a queue."""
    written: int
    """By the NIC into them."""
    gathered: int
    """To DRAM: together with others of their queue, or by themselves before a copy engine in the memory controller
    reads them there or a part of them is written past the caches.
    """
    bypassed: int
    """Given up as the NIC read them to send them, from here or from a cache that had them, too."""
    replaced: int
    """Taken over by a core or the LLC, or written anew."""
    to_cores: int
    """Loads of cores and reads of DMA engines that they have answered; the line stays until it is written."""


class PlacingCounters(TypedDict, total=False):
    """What became of received packets beside the LLC's I/O ways."""

    foreign_buffers: int
    """Buffers that the NIC took of another core's ring than that of the core that the packet was for."""
    held_packets: int
    """Packets that waited in the NIC's memory, for want of a descriptor or of a credit of their flow."""
    uncredited_packets: int
    """Packets that found no credit of their flow, or others of it waiting."""
    kept_packets: int
    """Packets of which the payload stayed in the NIC."""
    l2_lines: int
    """Lines that the NIC wrote to an L2."""
    memory_lines: int
    """Lines that it wrote past the caches, as it was told to."""
    dropped_lines: int
    """Lines that cores gave up because they were dead, and that a cache had."""
    spared_writebacks: int
    """Those of them that were modified, and would have been written back."""


class CurvePoint(TypedDict, total=False):
    """A run at one load: a point of the curve."""

    load: float
    """Offered share of line rate."""
    offered_mpps: float
    """Offered rate."""
    carried_mpps: float
    """Carried rate."""
    loss: float
    """Lost over offered packets."""
    lost: int
    """Packets lost for want of a resource."""
    packets: int
    """Packets offered after warm-up."""
    warmup_packets: int
    """Packets offered before."""
    p50_ns: float
    """Median sojourn."""
    p99_ns: float
    """The sojourn that 99 % do not exceed."""
    ring_growth: float | None
    """What the ring of a core held more at the end than at the beginning, over the packets that came to it: the
    largest share of all cores, 0 where that may be chance. What loses nothing yet, but has such a ring, is an
    overload. Null where nobody looked: traffic that comes in bursts, systems that stall cores.
    """
    least_ring_growth: float | None
    """A smaller one would not show, nor would an overload by less; null likewise."""


class IntervalSummary(TypedDict, total=False):
    """One interval of the run's time series: packets by their arrival, cores and memory by when they worked.

    The table `series` has a column for each field.
    """

    start_ns: float
    """When it began, from the end of warm-up on."""
    width_ns: float
    """How long it is."""
    offered_mpps: float
    """Offered rate of the packets that arrived in it."""
    carried_mpps: float
    """Carried rate of the packets that arrived in it."""
    loss: float | None
    """Lost over offered packets."""
    sojourn_mean_ns: float | None
    """Their mean sojourn."""
    ring_packets: float | None
    """Packets in all receive rings, on average."""
    mbufs_descriptors: float | None
    """Mbufs in receive descriptors, to be filled or with packets that wait, on average."""
    mbufs_queued: float | None
    """Mbufs in software queues, on average."""
    mbufs_sending: float | None
    """Mbufs in bursts and transmit rings, on average."""
    mbufs_free: float | None
    """Mbufs in the pool and its caches, on average."""
    llc_hit_rate: float | None
    """Share of the cores' LLC lookups that hit."""
    dram_gb_per_s: float | None
    """DRAM bandwidth."""
    core_busy: float | None
    """Share of time that cores were busy, on average over them."""


class ControlInterval(TypedDict, total=False):
    """What one interval showed and what was decided."""

    at_ns: float
    """When it ended, in nanoseconds of simulated time."""
    io_ways: int
    """Ways of devices in force during it."""
    core_ways: int
    """Ways of receiving cores in force during it."""
    state: str | None
    """The allocator's state at its end; nothing of other policies."""
    decided_io_ways: int | None
    """Ways of devices from its end on, where the policy changed something."""
    received: int
    """Packets that receiving cores took during it: counted, and not as read."""
    busy: float
    """The share of it that receiving cores were busy in the mean: counted, and not as read."""
    received_pps: float | None
    """Packets received a second, as read."""
    ddio_write_miss_rate: float | None
    """Share of device writes that missed, as read."""
    llc_miss_rate: list[float | None]
    """LLC miss rate of receiving and of working cores, as read."""
    llc_bytes: list[int]
    """Bytes of LLC that devices, receiving cores, working cores and others have brought in."""


class PolicySummary(TypedDict, total=False):
    """The policy that set the LLC's ways, and what came of it."""

    kind: str
    """Which it is."""
    interval_ns: float
    """How often it decides."""
    changes: int
    """Decisions that changed something."""
    io_ways: int | None
    """Ways of devices at the end."""
    ways: int
    """Ways of the LLC."""
    intervals: list[ControlInterval]
    """Its intervals from the first packet on."""


# One trial of a search.
Trial = TypedDict(
    "Trial",
    {
        # Offered share of line rate.
        "load": float,
        # Offered rate.
        "offered_mpps": float,
        # Carried rate.
        "carried_mpps": float,
        # Lost over offered packets.
        "loss": float,
        # Packets lost for want of a resource.
        "lost": int,
        # Packets offered after warm-up.
        "packets": int,
        # Packets offered before.
        "warmup_packets": int,
        # Median sojourn.
        "p50_ns": float,
        # The sojourn that 99 % do not exceed.
        "p99_ns": float,
        # What the ring of a core held more at the end than at the beginning, over the packets that came to it: the
        # largest share of all cores, 0 where that may be chance. What loses nothing yet, but has such a ring, is an
        # overload. Null where nobody looked: traffic that comes in bursts, systems that stall cores.
        "ring_growth": float | None,
        # A smaller one would not show, nor would an overload by less; null likewise.
        "least_ring_growth": float | None,
        # Whether its loss is within the limit, that by stalls among it.
        "pass": bool,
        # Lost over offered packets by stalls of the system alone; null where none were placed.
        "stall_loss": float | None,
    },
    total=False,
)


class SearchWithoutStalls(TypedDict, total=False):
    """What a search would have found without stalls of the system."""

    mpps: float
    """The rate."""
    gbps: float
    """The same in bits."""
    load: float
    """The same as a share of line rate."""
    bound: bool
    """Whether stalls make the rate that was found a lower one: they overflow the rings of a core."""
    trial_s: float
    """Seconds of a trial by which stalls count (RFC 2544, section 24): what they lose in it in the mean, if that is
    a packet or more.
    """
    stalls: float
    """Stalls of a core in that time, in the mean."""
    trials: int
    """Trials that only this took."""


class SearchSummary(TypedDict, total=False):
    """A search by RFC 2544: the highest load at which the loss is within `loss_limit`, and its trials."""

    kind: str
    """`ndr`, without loss, or `pdr`, with a loss within `loss_limit`."""
    mpps: float
    """The rate found; 0 where none was."""
    gbps: float
    """The same in bits."""
    load: float
    """The same as a share of line rate."""
    loss_limit: float
    """The loss that passes."""
    packets: int
    """Packets of a trial."""
    sufficient_packets: int
    """Packets that an overload by the resolution needs to fill receive rings and NIC memory."""
    trials: list[Trial]
    """All of them, in their order."""
    without_stalls: SearchWithoutStalls | None
    """The same without the system's stalls; null where none were placed, and where no rate passed."""


class FindingSummary(TypedDict, total=False):
    """Something in the input that could not be used."""

    offset: int
    """Bytes from the start of the (decompressed) input."""
    what: str
    """What came and what was expected; of a text with its line."""


# Why a part of an input was not used.
DamageKind = Literal[
    # The input ends inside a record.
    "truncated",
    # The compressed stream is broken; what it gave before is used.
    "compression",
    # A length or field that cannot be.
    "corrupt",
    # A record of a kind that is not read.
    "unsupported",
]


class DamageCount(TypedDict, total=False):
    """How much of one kind of damage there is, and where it begins."""

    kind: DamageKind
    """Why."""
    count: int
    """How many findings of this kind."""
    offset: int
    """Where the first of them is, in bytes from the start of the (decompressed) input."""
    what: str
    """What came there; of a text with its line."""


class TrafficSummary(TypedDict, total=False):
    """Where the packets came from. What is wrong with them is of captures."""

    id: str
    """Runs with equal ones see the same packets at the same times."""
    source: str
    """The capture or the profile."""
    arrivals: str
    """How packets come, in words: at equal gaps, Poisson, in bursts."""
    flows: int
    """Flows that there are at a time, of made traffic."""
    mean_frame_bytes: float
    """Mean frame with FCS."""
    packets_in_file: int
    """Packets of a capture."""
    damage: list[FindingSummary]
    """The first findings."""
    damage_count: int
    """How many there are."""
    damage_by_kind: list[DamageCount]
    """How many of each kind, with the first of it."""
    damage_skipped_bytes: int
    """Bytes that were skipped to find the next readable record."""


class MachineSummary(TypedDict, total=False):
    """The machine of the scenario."""

    preset: str | None
    """The shipped machine or file that it is made of."""
    name: str
    """Its title."""
    core: str | None
    """The processor or architecture whose core it has: what the processor stands on and an instruction's cycles are
    from. Null where that is the scenario's own.
    """
    nic: str | None
    """The shipped NIC, or the file of one's own."""
    driver: str | None
    """The shipped driver."""
    cores: int
    """Cores that run the packet function."""
    core_ghz: float
    """Their frequency."""
    ports: int
    """Ports of the NIC."""
    rx_descriptors: int
    """Descriptors of a receive queue."""
    io_ways: int
    """How many ways of the LLC devices may fill; 0: no DDIO."""


class Member(TypedDict, total=False):
    """What one function of a chain did."""

    name: str
    """Its name."""
    packets: int
    """Packets that came to it."""
    dropped: int
    """Packets that it dropped."""
    references: int
    """Its references, prefetches not counted."""
    reference_share: float
    """Its share of the chain's."""
    instructions: int
    """Its instructions."""
    instruction_share: float
    """Its share of the chain's."""


class FlowTableSummary(TypedDict, total=False):
    """What the user plane's flow tables did, all cores together."""

    flows_per_core: int
    """Flows that a core has room for."""
    hits: int
    """Packets whose flow was there and as its session is."""
    misses: int
    """Packets whose flow was not."""
    stale: int
    """Of the misses, those whose flow was there but older than its session's latest change."""
    evictions: int
    """Flows that had to leave for another."""
    hit_rate: float | None
    """Hits over packets."""


class ControlSummary(TypedDict, total=False):
    """What a control plane did."""

    readings: int
    """Readings of all packet cores' counters."""
    updates: int
    """Routes written."""
    updates_per_s: float
    """Routes written a second."""
    lines: int
    """Lines of tables written."""
    invalidated: int
    """Copies that other cores gave up for that."""
    taken: int
    """Lines that it took from another core's private caches."""


class StorageSummary(TypedDict, total=False):
    """What a storage device did."""

    written_gbps: float
    """What it wrote into memory."""
    write_hit_rate: float | None
    """Its writes, by line, of lines that a cache had, over all: 0 with direct cache access off, but for what cores
    have still.
    """
    blocks_read_per_s: float
    """Blocks that cores read a second."""


class NeighbourSummary(TypedDict, total=False):
    """What another program on the machine did."""

    name: str
    """Its name."""
    cores: int
    """Cores that it runs on."""
    working_set_bytes: int
    """The memory that it works on."""
    references_per_s: float
    """Its references."""
    llc_lookups: int
    """Lookups of the LLC."""
    llc_miss_rate: float | None
    """Misses over lookups."""
    control: ControlSummary | None
    """What it did as a control plane; null of other programs."""
    storage: StorageSummary | None
    """What its device did; of storage devices."""


# Where a GPU finds packets and tables.
GpuMemory = Literal[
    # In memory of its own: packets are copied there and back over PCIe.
    "discrete",
    # In the server's: its L2 asks the LLC, as cores' do, and sees what they have written.
    "integrated",
]


# How packets come to the warps of a GPU.
GpuPosting = Literal[
    # In batches, for each of which a kernel is launched.
    "batches",
    # In tasks of a warp at most, which a kernel that stays takes from a FIFO: as Hermes, and as the project's router.
    "persistent",
]


class GpuSummary(TypedDict, total=False):
    """The GPU, its batches, and what packets spent there."""

    attached: GpuMemory
    """Where packets and tables are for it."""
    posting: GpuPosting
    """Whether packets come in batches, or in tasks that kernels take which stay."""
    share: float
    """The share of flows that go to it."""
    packets: int
    """Packets that came back."""
    batches: int
    """Batches that were launched, or tasks."""
    late_batches: int
    """Of them, those whose time was up before they were full."""
    fill: float | None
    """Packets of a batch, over those of a full one."""
    fill_ns: float | None
    """Until its batch was full, mean nanoseconds a packet."""
    queue_ns: float | None
    """Until the GPU had room, the same."""
    copy_ns: float | None
    """In copies to it and back, the same."""
    kernel_ns: float | None
    """In its kernel, the launch counted, or in its warp, the same."""
    simd_efficiency: float | None
    """Lanes that take part in an instruction, of those a warp has."""
    instructions_per_packet: float | None
    """Instructions of its lane a packet."""
    sectors_per_packet: float | None
    """Sectors of 32 B a packet that its shader cores asked for."""
    l2_hit_rate: float | None
    """Hits in its L2, of the loads that reach it."""
    llc_lookups: int | None
    """Lookups of the server's LLC; null of one that does not ask it."""
    llc_miss_rate: float | None
    """Misses over them."""
    flushed_lines: int | None
    """Lines that cores have flushed from all caches for one that is not coherent; null for others."""
    memory_gb_per_s: float | None
    """What its own memory carried; null of an integrated one."""
    kernel_busy: float
    """Share of time in which a kernel ran, or was launched; of kernels that stay, the share of warps that had a
    task.
    """
    copy_in_busy: float
    """Share of time in which a batch was copied to it."""
    copy_back_busy: float
    """Share of time in which a batch was copied back."""
    fifo_full: float | None
    """Of kernels that stay: the share of the FIFO's entries that were taken, and of what a discrete one's
    dispatcher can find; else null.
    """
    dispatcher_busy: float | None
    """See `fifo_full`."""
    limited_by: str
    """What has no room for more: `kernel`, `copy_in`, `copy_back`, `one_batch_at_a_time`, `fifo`, or `dispatcher`;
    else `arrivals`.
    """


class LlcBytes(TypedDict, total=False):
    """Bytes of the LLC at the end, by who has brought them in."""

    devices: int
    """Devices."""
    receiving: int
    """Cores that receive."""
    working: int
    """Cores that work on what others have received."""
    others: int
    """All others."""


class Routes(TypedDict, total=False):
    """Routes in use."""

    ipv4: int
    """Of IPv4."""
    ipv6: int
    """Of IPv6."""


class RoutingTable(TypedDict, total=False):
    """The routing table, and what was wrong with it."""

    source: str
    """The file's name, or what was made."""
    format: str
    """How it was written."""
    compression: str
    """How that was compressed."""
    duplicates: int
    """Entries for a prefix that had a route already."""
    damage: list[FindingSummary]
    """The first findings."""
    damage_count: int
    """How many there are."""
    damage_by_kind: list[DamageCount]
    """How many of each kind, with the first of it."""
    damage_skipped_bytes: int
    """Bytes that were skipped to find the next readable record."""


class InputFile(TypedDict, total=False):
    """A file that was read."""

    kind: str
    """What it is for: capture, profile, table."""
    name: str
    """Its name without folders."""
    blake3: str
    """The BLAKE3 hash of its content, in hex; of a profile, as it is written out."""


class Summary(TypedDict, total=False):
    """The documented object that describes one run.

    Where no packet was measured, numbers that cannot be known are null.
    """

    schema: str
    """`wirespeed.run/1`; changes when a field changes its meaning."""
    run_id: str
    """Hash of the resolved scenario with its seed, of the content of the files it names, and of the version: equal
    ids, equal results, on any machine and wherever the files lie.
    """
    seed: int
    """The seed that it was run with."""
    version: str
    """The program's version."""
    commit: str
    """The program's commit."""
    name: str
    """The scenario's title."""
    partial: bool
    """Whether Ctrl-C ended the run early."""
    verdict: RunVerdict
    """The answer in words."""
    packets: int
    """Packets that were measured, after warm-up and in windows where the run is sampled: carried, `lost` and
    `rejected`. 0 where the run was stopped before; then the machine's counts below are of no packet, and terminal
    and report show none.
    """
    sent_packets: int
    """Packets sent in the time for which the machine's counts are, up to the last arrival, whenever they arrived:
    energy a packet is over this. Of those that were carried some left later, from rings that had filled.
    """
    taken_packets: int
    """Packets that receiving cores took from their rings in that time: counts of the machine a packet are over
    this.
    """
    warmup_packets: int
    """Packets offered before warm-up was over."""
    warmup: WarmUpSummary
    """What was cut at the start, and why."""
    sampling: Sampling | None
    """How the run was sampled; null where all of it was to be timed."""
    stationary: bool | None
    """Whether what was measured shows no trend; null where too few packets were sent to tell."""
    ring_growth: float | None
    """What the ring of a core held more at the last arrival than at the first, over the packets that came to it:
    the largest share of all cores, 0 where that may be chance. Null of windows, of traffic that comes in bursts,
    and where the system stalls cores.
    """
    offered_mpps: float
    """Offered rate over the measured time."""
    carried_mpps: float
    """Carried rate over the measured time."""
    offered_gbps: float
    """Offered rate on the wire."""
    carried_gbps: float
    """Carried rate on the wire."""
    offered_l2_gbps: float
    """Offered rate of frames with FCS."""
    carried_l2_gbps: float
    """Carried rate of frames with FCS."""
    line_rate_gbps: float
    """Line rate of a port."""
    load: float
    """Offered share of it."""
    loss: float
    """Lost over offered packets."""
    loss_half_width: float | None
    """Half-width of its interval at 95 %."""
    loss_upper_95: float
    """The upper end of its interval at 95 %; with none lost 3/`packets`."""
    drops: dict[str, int]
    """Dropped packets by reason, losses and rejections; see below."""
    drop_kinds: dict[str, str]
    """Whether each of these is `lost` or `rejected`."""
    lost: int
    """Packets lost for want of a resource."""
    rejected: int
    """Packets rejected by the function's verdict."""
    sojourn_ns: Sojourn
    """Time from the last bit received to the first bit sent of carried packets."""
    attribution_ns: dict[str, float]
    """Mean nanoseconds a packet by reason; they sum to `sojourn_ns.mean`."""
    attribution_labels: dict[str, str]
    """A few words for each reason."""
    classes: list[PacketClass]
    """By frame size."""
    sojourn_cdf: list[list[float]]
    """Pairs of nanoseconds and the share of packets that took at most that."""
    levels: list[LevelSummary]
    """The levels of the memory system."""
    llc_by_cores: list[LlcByCores]
    """The LLC by the kind of core; empty where classes of service name cores or neighbours."""
    clos: list[ClassSummary] | None
    """Each class of service that is set, and all who are in it; null without `machine.clos`."""
    copy_table: CopyTable | None
    """What the copy table did; null without one."""
    copy_engine: CopyEngineSummary | None
    """What the copy engine did; null without one."""
    sockets: Sockets | None
    """What went between sockets; null of one socket."""
    snooping: SnoopingSummary | None
    """What snooping did; null without `machine.llc.coherence = "snoop"`, where a directory knows who has a line."""
    applications: list[LlcApplication]
    """What was done at the LLC for each application that it tells apart."""
    iommu: IommuSummary | None
    """What the IOMMU did; null without `machine.iommu`."""
    stacked: StackedTables | None
    """What the stacked DRAM did that holds tables; null without `machine.stacked`."""
    dram: DramSummary
    """DRAM."""
    pcie: Pcie
    """PCIe."""
    cores: list[CoreSummary]
    """Each core."""
    hot_ring: HotRing | None
    """The ring or software queue that gets more than its share and loses, while others of its stage have time left;
    null where none is.
    """
    stalls: StallsSummary | None
    """What the system's stalls cost; null without `machine.core.stalls`, and where they come so often that the run
    has them: its own loss and sojourn are then with them.
    """
    mempool: MempoolSummary
    """The pool of packet buffers."""
    packet_buffer: PacketBufferSummary | None
    """What the allocator of `[buffer]` did; null where packets lie in their mbufs."""
    nic_cache: NicCache | None
    """What the NIC's SRAM for the tails of receive queues did; null without `nic.cache_cells`."""
    placing: PlacingCounters | None
    """What became of received packets beside the LLC's I/O ways; null without `nic.rings`, `nic.targets` and
    `nic.drop_dead`.
    """
    curve: list[CurvePoint]
    """The run at other loads."""
    series: list[IntervalSummary]
    """The run by intervals of simulated time."""
    policy: PolicySummary | None
    """What the policy that sets the LLC's ways saw and did; null without one."""
    search: SearchSummary | None
    """The search; null without one."""
    traffic: TrafficSummary
    """Where the packets came from."""
    machine: MachineSummary
    """The machine."""
    members: list[Member] | None
    """What each function of a chain did, in its order; null of a function alone."""
    flow_table: FlowTableSummary | None
    """What the user plane's flow tables did; null without `function.upf.processing.flow_table`."""
    neighbours: list[NeighbourSummary]
    """What each other program on the machine did."""
    gpu: GpuSummary | None
    """What the GPU did that packets went over; null without `machine.gpu`."""
    llc_bytes: LlcBytes
    """Bytes of the LLC at the end, by who has brought them in."""
    routes: Routes
    """Routes in use."""
    table: RoutingTable
    """The routing table."""
    inputs: list[InputFile]
    """The files that decide over the result."""
    notes: list[str]
    """What was assumed or found in the input, in words."""
    batches: dict[str, list[float]]
    """Means of consecutive batches of packets for `carried_mpps`, `loss`, `dram_energy` (nJ a packet sent, where it
    is known), the sojourn's `mean` and each reason: what comparisons test.
    """
    wall_s: float
    """What the host took to simulate.

    Of all fields only this one, `load_s` and `packets_per_wall_s` differ between two runs with the same `run_id`.
    """
    load_s: float
    """What the host took to load tables and traffic."""
    simulated_s: float
    """Simulated time after warm-up."""
    simulated_packets: int
    """Packets simulated, warm-up included."""
    packets_per_wall_s: float
    """Packets simulated a second of the host."""
