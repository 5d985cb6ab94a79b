"""From measurements to a machine: each number is read off one of them, or fitted by simulating the same loop.

| number | from |
|---|---|
| clock | squares and exclusive ors that wait for each other, three cycles and one |
| latencies of L1, L2, LLC | chases through sets that fill half of L1, up to half of L2, four times L2 |
| LLC: size, replacement, tenants | those whose simulated chases, by one chain and by several, are nearest to windows' |
| DRAM's overhead | the simulated chase through DRAM takes what the measured one does |
| misses at a time | what many chains have under way |
| what enters a core | lines read in order from the LLC |
| what enters L1 | blocks copied within L2 |
| stream prefetcher | distance, lines under way and waiting, out of a few, whose simulated reads are nearest, in |
| | order and of blocks with room between them |
| data bus | reads by all cores at a time |
| instructions under way | the window of which simulated loads of random lines are nearest |
| cycles an instruction | a copy within L1 |
| TLBs | where a line a page begins to cost against lines side by side, in small pages and in huge ones |
| page walks | lines a page apart, beyond the TLBs' reach |

What cannot be read off stays as it is assumed, and says so.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Any, Final

from wirespeed import _wirespeed
from wirespeed.calibrate.measuring import (
    KEPT_APART,
    KEPT_LINES,
    KIB,
    MIB,
    CacheLevel,
    Measured,
    cores,
    random_loads,
    read_blocks,
)

_DISTANCES: Final = (4, 8, 16, 24)
# Distances that are about as near as the nearest one cannot be told from it: the least of them.
_AS_NEAR: Final = 1.25
# Instructions under way at a time: a queue or the registers may run out before the reorder buffer does.
_WINDOWS: Final = (64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512)
# Copies within L1 are so much faster than within L2 where it is not the instructions that take the time.
_FASTER: Final = 1.2
# Huge pages that cost so much of what small ones do beyond the first-level TLB are split in it.
_AS_SMALL: Final = 0.4
# So many points between the reaches of the TLBs tell what the second takes.
_HITS: Final = 3
_PAGE_AND_LINE: Final = 4096 + 64
# An LLC has sets for whole pages, unless that is as coarse a step as an eighth of it.
_PAGES_AT_LEAST: Final = 8
# A prefetcher drops what cannot go out at once, or lets this many lines wait.
_WAITING: Final = 64
# Where the search for an LLC's size begins, by where a chase leaves it; and how far it steps, in size and in what
# others bring in.
_STARTS: Final = (0.5, 0.7, 1.0, 1.4, 2.0)
_STEPS: Final = ((1.25, 2.0), (1.12, 1.4), (1.06, 1.2))
_REPEATS: Final = 3
# The fit simulates machines that are smaller by up to so much; sets stay larger than the least.
_SMALLER: Final = 8
_LEAST_SET: Final = 768 * KIB
# Chases of up to so many times more or less than where they leave the LLC tell how they do.
_NEAR: Final = 2.2
# A fit that is off by less than so much needs no further number; a further number has to take off so much of the error.
_ENOUGH: Final = 1.15
_CLEARLY: Final = 0.7
_REPLACEMENTS: Final = ("lru", "random")
_CHANNELS: Final = 4
# DDR5-4800 40-39-39: JEDEC JESD79-5.
_T_CL, _T_RCD, _T_RP, _T_RAS = 16.7, 16.3, 16.3, 32.0
# Of a load of many chains, as in `studies::loops`.
_CHASE_INSTRUCTIONS: Final = 8
# Of a line: four loads and four stores of 16 bytes, and the loop.
_COPY_INSTRUCTIONS: Final = 12
# A multiplication and an exclusive or.
_CYCLES: Final = 4


@dataclass(slots=True)
class Fitted:
    """Numbers of a machine, and where each comes from."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, path: str, value: Any, source: str) -> None:
        """A number and its source."""
        self.values[path], self.sources[path] = value, source

    def overrides(self, **more: Any) -> list[str]:
        """As `--set` takes them, without the prefix of a number that is one."""
        whole = {**self.values, **more}
        return [f"{path}={_toml(value)}" for path, value in whole.items() if path.startswith("machine.")]


def simulate(overrides: Sequence[str], loops: Sequence[Mapping[str, Any]]) -> list[float]:
    """Nanoseconds an item of loops on a machine."""
    scenario = _wirespeed.Scenario("", "calibration", list(overrides))

    def one(loop: Mapping[str, Any]) -> float:
        (timed,) = json.loads(_wirespeed.run_loops(scenario, json.dumps([loop])))
        return float(timed["ns"])

    if len(loops) == 1:
        # Ctrl-C stops a simulation of the main thread.
        return [one(loops[0])]
    pool = ThreadPoolExecutor(max(len(cores()), 1))
    try:
        return list(pool.map(one, loops))
    finally:
        # On Ctrl-C only the loops that run already are waited for.
        pool.shutdown(cancel_futures=True)


def fit(found: Measured) -> Fitted:
    """The machine."""
    it = Fitted(notes=found.notes)
    ghz = _CYCLES / found.multiply_ns
    it.put("machine.name", f"{found.model}, calibrated", "")
    it.put("machine.cores", 1, "the core that was measured; how many forward is the scenario's")
    it.put("machine.core.model", "window", "assumed: out of order")
    it.put(
        "machine.core.frequency", f"{ghz:.3g} GHz", f"measured: {found.multiply_ns:.3g} ns a step of {_CYCLES} cycles"
    )
    it.put("machine.core.rob", 320, "assumed: between a Zen 3's 256 and a Golden Cove's 512")
    it.put("machine.core.store_buffer", 64, "assumed: as on current cores")
    it.put("machine.core.poll_cycles", 80, "assumed: an empty rte_eth_rx_burst and the loop around it")
    copy = found.streams["copy", min(bytes for _, bytes in found.streams)]
    cpi = min(max(copy * ghz / _COPY_INSTRUCTIONS, 0.05), 4.0)
    it.put(
        "machine.core.cpi",
        round(cpi, 3),
        f"measured: {copy:.3g} ns to copy a line in L1, {_COPY_INSTRUCTIONS} instructions",
    )
    alone, chained = found.chains[1], min(found.chains.values())
    it.put(
        "machine.core.outstanding",
        min(max(round(alone / chained), 1), 256),
        f"measured: many chains through DRAM, {alone:.3g} ns each",
    )
    in_l1, in_l2 = (found.copies.get(bytes, 0.0) for bytes in found.copied)
    # A copy brings two lines, but for those of random blocks that L1 still has.
    l1 = found.caches[1].bytes if 1 in found.caches else 32 * KIB
    lines = 2 * (1 - l1 / (2 * found.copied[1]))
    if lines < 1:
        it.notes.append("what enters L1: no set was copied that L2 holds and L1 mostly does not")
    elif in_l2 > _FASTER * in_l1:
        source = f"measured: {in_l2:.3g} ns to copy a line of a block within L2, for which {lines:.3g} enter L1"
        it.put("machine.core.l1_fill_interval", f"{in_l2 / lines:.3g} ns", source)
    near = _near(found)
    if near is None:
        it.notes.append("what enters a core: no set was read that the LLC holds and L2 does not")
    else:
        it.put(
            "machine.core.fill_interval",
            f"{found.streams['read', near]:.3g} ns",
            f"measured: lines of {_size(near)} read in order",
        )
    most = max(found.chains)
    if chained == found.chains[most] and chained < 0.9 * found.chains[sorted(found.chains)[-2]]:
        it.notes.append(f"misses at a time: still more by {most} chains than by fewer, so loads may have more")
    _translation(it, found, ghz)
    _caches(it, found)
    _dram(it, found)
    _llc(it, found)
    _walks(it, found)
    # Whatever a program has of the LLC, a set that is far larger comes from DRAM.
    _overhead(it, found, found.far // 8)
    if _share(it, found):
        _overhead(it, found)
    _window(it, found)
    _prefetcher(it, found)
    return it


def _caches(it: Fitted, found: Measured) -> None:
    above, split = 0, it.values.get("machine.tlb.page") == "4 KiB"
    for level, name, size, ways in ((1, "l1", 32 * KIB, 8), (2, "l2", MIB, 16)):
        cache = found.caches.get(level)
        if cache is None:
            it.notes.append(f"{name}: the kernel does not tell its size; {size >> 10} KiB are assumed")
        bytes = cache.bytes if cache else size
        it.put(f"machine.{name}.size", _size(bytes), "CPUID, by the kernel" if cache else "assumed")
        it.put(f"machine.{name}.ways", cache.ways if cache else ways, "CPUID, by the kernel" if cache else "assumed")
        half = [size for size in found.chase if size <= bytes // 2] or [min(found.chase)]
        # Without what pages cost, where that leaves a set of which the level above holds little.
        reach = 4096 * it.values["machine.tlb.l1_entries"] if split else bytes
        at = max([size for size in half if 2 * above <= size <= reach] or half)
        above = bytes
        it.put(f"machine.{name}.latency", f"{_latency(it, found, at):.3g} ns", f"measured: a chase through {_size(at)}")


def _latency(it: Fitted, found: Measured, bytes: int) -> float:
    """What a chase takes without what its pages do, where each is in the second-level TLB."""
    split = it.values.get("machine.tlb.page") == "4 KiB"
    beyond = split and bytes > 4096 * it.values["machine.tlb.l1_entries"]
    return found.chase[bytes] - (_ns(it.values["machine.tlb.l2_latency"]) if beyond else 0.0)


def _translation(it: Fitted, found: Measured, ghz: float) -> None:
    """From a line a page, against as many lines side by side."""
    small, huge = ({n: ns[way] - _beside(found, n) for n, ns in found.pages.items()} for way in (0, 1))
    first = next((n for n in sorted(small) if small[n] > 2 / ghz), None)
    if first is None:
        it.notes.append("translation: a line a page costs no more than lines side by side; machine.tlb is left out")
        return
    entries = max((n for n in small if n < first), default=first)
    # Where the host backs a guest by small pages, its TLBs hold small pages whatever the guest maps.
    split = statistics.median(huge[n] / max(small[n], 1 / ghz) for n in small if n >= first) > _AS_SMALL
    cost = huge if split else small
    beyond = [n for n in sorted(cost) if n >= first]
    latency, second = _second_level(cost, beyond, 1 / ghz)
    reach = max(n for n in cost if second is None or n < second)
    source = "measured: a line a page in pages of 4 KiB and in huge ones"
    it.put("machine.tlb.page", "4 KiB" if split else "2 MiB", source)
    if split:
        it.notes.append(
            "huge pages: reach no further than small ones here, as where a host backs its guest by small ones"
        )
    source = f"measured: lines on {entries} pages cost as much as side by side, on {first} more"
    it.put("machine.tlb.l1_entries", entries, source)
    it.put("machine.tlb.l1_ways", _ways(entries), "assumed")
    if second is None:
        it.notes.append(f"second-level TLB: reaches {reach} pages or more; assumed is that")
    source = "assumed: as many as were tried" if second is None else f"measured: from {second} pages on walks cost"
    it.put("machine.tlb.l2_entries", reach, source)
    it.put("machine.tlb.l2_ways", _ways(reach), "assumed")
    it.put("machine.tlb.l2_latency", f"{latency:.3g} ns", "measured: what a page costs beyond the first level")
    it.put("machine.tlb.walk_cache", 16, "assumed")


def _second_level(cost: Mapping[int, float], beyond: Sequence[int], least: float) -> tuple[float, int | None]:
    """What a hit in the second-level TLB takes, and from how many pages on it does not do."""
    hits: list[float] = []
    for n in beyond:
        latency = max(statistics.median(hits), least) if hits else least
        # Of few pages more than the first level has entries it still holds some.
        if len(hits) >= _HITS and cost[n] > max(3 * latency, latency + 4.0):
            return latency, n
        hits.append(cost[n])
    return max(statistics.median(hits), least), None


def _walks(it: Fitted, found: Measured) -> None:
    """What a page walk takes beside the loads that are simulated: a guest's goes through its host's tables, too."""
    if "machine.tlb.page" not in it.values:
        return
    reach, l2 = it.values["machine.tlb.l2_entries"], _bytes(it.values["machine.l2.size"])
    split = it.values["machine.tlb.page"] == "4 KiB"
    # So many pages that the TLBs hold hardly any of them by the time they come round, and lines that L2 holds.
    beyond = [n for n in sorted(found.pages) if reach < n <= l2 // 2 // 64]
    if not beyond:
        it.notes.append("page walks: no set that L2 holds has more pages than the TLBs; walks take what their loads do")
        return
    pages = beyond[-1]
    small, huge = found.pages[pages]
    # Lines that are a page and a line apart fall into all sets, as the measured ones do.
    loop = {"kind": "chase", "bytes": pages * _PAGE_AND_LINE, "step": _PAGE_AND_LINE}
    (loads,) = simulate(it.overrides(**{"machine.tlb.page": "4 KiB"}), [loop])
    source = f"fitted: lines on {pages} pages take as long as measured"
    if not split:
        it.notes.append("page walks: huge pages cost too little to tell; their walks take what their loads do")
    elif huge > loads:
        it.put("machine.tlb.walk_latency", f"{huge - loads:.3g} ns", f"{source} in huge pages")
    it.put("machine.tlb.shared_walk_latency", f"{max(small - loads, 0.0):.3g} ns", f"{source} in small ones")


def _beside(found: Measured, lines: int) -> float:
    """What a chase through so many lines side by side takes: between sizes that were measured, by logarithms."""
    bytes, sizes = lines * 64, sorted(found.chase)
    above = next((size for size in sizes if size >= bytes), sizes[-1])
    below = max((size for size in sizes if size <= bytes), default=sizes[0])
    if above == below:
        return found.chase[above]
    share = math.log(bytes / below) / math.log(above / below)
    return found.chase[below] + share * (found.chase[above] - found.chase[below])


def _dram(it: Fitted, found: Measured) -> None:
    number, each = min(found.shared_read.items(), key=lambda pair: pair[1] / pair[0])
    whole = each / number
    it.put("machine.dram.channels", _CHANNELS, "assumed: a guest does not see them; the bus is what is measured")
    it.put("machine.dram.banks", 32, "assumed")
    it.put("machine.dram.row", "8 KiB", "assumed")
    for name, ns in (("t_cl", _T_CL), ("t_rcd", _T_RCD), ("t_rp", _T_RP), ("t_ras", _T_RAS)):
        it.put(f"machine.dram.{name}", f"{ns} ns", "assumed: DDR5-4800, JEDEC JESD79-5")
    it.put(
        "machine.dram.t_burst",
        f"{whole * _CHANNELS:.3g} ns",
        f"measured: {64 / whole:.3g} GB/s read by {number} cores at a time, over {_CHANNELS} channels",
    )
    if number == len(found.shared_read):
        it.notes.append(
            f"DRAM's bandwidth: grows with all {number} cores that there are: {64 / whole:.3g} GB/s is a lower bound"
        )
    it.put("machine.dram.t_refi", "3.9 us", "assumed: JESD79-5")
    it.put("machine.dram.t_rfc", "295 ns", "assumed: JESD79-5, 16 Gb devices")
    it.put("machine.dram.overhead", "40 ns", "")


def _llc(it: Fitted, found: Measured) -> None:
    cache = _last_level(found)
    bytes = cache.bytes if cache else 32 * MIB
    if cache is None:
        it.notes.append("LLC: the kernel does not tell its size; 32 MiB are assumed at most")
    l2 = found.l2
    # Well beyond L2, and no further: of a large LLC others may leave little.
    beyond = [size for size in found.chase if size > l2]
    at = min(beyond, key=lambda size: abs(math.log(size / min(4 * l2, max(bytes // 2, 3 * l2 // 2)))))
    ways = min(cache.ways if cache else 16, 32)
    it.put("machine.llc.ways", ways, "CPUID, by the kernel" if cache else "assumed")
    latency = f"{_latency(it, found, at):.3g} ns"
    it.put("machine.llc.latency", latency, f"measured: a chase through {_size(at)}")
    it.put("machine.llc.slices", 8, "assumed")
    it.put("machine.llc.hash", "mixed", "assumed: as near to chance as real ones (validation/ddio)")
    it.put("machine.llc.interval", "0.5 ns", "assumed: an access in two cycles or so")
    it.put("machine.llc.inclusion", "victim", "assumed: as server LLCs since Skylake and Zen are")
    it.put("machine.llc.io_ways", 0, "assumed: virtual devices copy by the core")
    it.put("machine.llc.snoop", latency, "assumed: as long as the LLC")
    it.put("machine.llc.replacement", "random", "assumed")
    it.put("machine.llc.size", _size(bytes), "CPUID, by the kernel" if cache else "assumed")


def _last_level(found: Measured) -> CacheLevel | None:
    return max((each for level, each in found.caches.items() if level > 2), key=lambda each: each.level, default=None)


def _share(it: Fitted, found: Measured) -> bool:
    """What others leave of the LLC: how much is there for a program, and how fast others bring lines in; says if known.

    Of `w` lines that are used `r` times a second all are kept while `w (1 + R / r)` is below the capacity C, where
    others bring in R lines a second. So where a chase by n chains falls out of the LLC, 1 / w = 1 / C + (R / C) t, with
    t the time of an item that DRAM answers: a line through the cliffs of several n gives C and R, from where the
    simulation of the chases near the cliffs is brought to what was measured.
    """
    cache = _last_level(found)
    bytes, l2 = cache.bytes if cache else 32 * MIB, _bytes(it.values["machine.l2.size"])
    # What a set within L2 takes says nothing of the LLC, and one of twice its size nothing more.
    columns: dict[int, dict[int, float]] = {}
    for (chains, size), ns in sorted(found.windows.items()):
        if l2 < size <= 2 * bytes:
            columns.setdefault(chains, {})[size] = ns
    cliffs = {chains: (at, max(column.values())) for chains, column in columns.items() if (at := _cliff(column))}
    if not cliffs:
        it.notes.append("LLC: no window tells what others leave of it; all of it is assumed to be there")
        return False
    judged = [
        (chains, size)
        for chains, (at, _) in cliffs.items()
        for size in columns[chains]
        if at / _NEAR < size < at * _NEAR
    ]
    # Near the cliff a wrong size is farthest off.
    judged.sort(key=lambda point: abs(math.log(point[1] / cliffs[point[0]][0])))
    slowest = [point for point in judged if point[0] == min(cliffs)]
    smaller = _SMALLER
    while smaller > 1 and min(size for _, size in judged) < smaller * _LEAST_SET:
        smaller //= 2
    seen: dict[tuple[_Shared, bool], float] = {}

    def settings(shared: _Shared, smaller: int = 1) -> dict[str, Any]:
        # Others' rate stays: a round through a smaller set takes less time, too.
        size = _whole(it, shared.bytes)["machine.llc.size"]
        if smaller > 1:
            size = _whole(it, _bytes(size) // smaller, pages=False)["machine.llc.size"]
        more = {"machine.llc.size": size, "machine.llc.replacement": shared.replacement}
        return more | ({"machine.llc.tenants": f"{shared.gbps:.3g} Gbps"} if shared.gbps else {})

    def error(shared: _Shared, below: float = math.inf, alone: bool = False) -> float:
        """Squared logarithms over all chases, or over those of the fewest chains alone; some of them reach `below`."""
        if (shared, alone) in seen:
            return seen[shared, alone]
        overrides = it.overrides(**_smaller(it, smaller), **settings(shared, smaller))
        off = 0.0
        # As many at a time as run beside each other: most tries are told from a better one by their first chases.
        for points in _chunks(slowest if alone else judged, max(len(cores()), 1)):
            loops = [{"kind": "chase", "bytes": size // smaller, "chains": chains} for chains, size in points]
            pairs = zip(simulate(overrides, loops), points, strict=True)
            off += sum(math.log(a / columns[chains][size]) ** 2 for a, (chains, size) in pairs)
            if off >= below:
                return off
        seen[shared, alone] = off
        return off

    # Where nobody brings anything in, the fewest chains tell as much as many.
    at = cliffs[min(cliffs)][0]
    one = [
        _search(
            [_Shared(min(round(at * by), bytes), 0.0, each) for by in _STARTS] + [_Shared(bytes, 0.0, each)],
            lambda shared, below: error(shared, below, alone=True),
            bytes,
        )
        for each in _REPLACEMENTS
    ]
    best = min(one, key=error)
    capacity, gbps = _line(list(cliffs.values()), bytes)
    if gbps > 0 and error(best) > len(judged) * math.log(_ENOUGH) ** 2:
        # Two numbers have to do clearly better than one that does not do. The line takes each item for a miss; who is
        # still in the LLC is faster, and keeps more.
        lru, random = (
            _search([_Shared(round(capacity), gbps * by, each) for by in (1, 2)], error, bytes)
            for each in _REPLACEMENTS
        )
        # Both soften a cliff, tenants and random victims: the usual replacement unless the other is clearly nearer.
        shared = random if error(random) < _CLEARLY * error(lru) else lru
        best = shared if error(shared) < _CLEARLY * error(best) else best
    size = settings(best)["machine.llc.size"]
    whole = "CPUID says" if cache else "is assumed"
    said = f", of {_size(bytes)} that {whole}" if size != _size(bytes) else f", as {whole}"
    mean = 100 * (math.exp(math.sqrt(error(best) / len(judged))) - 1)
    by = ", ".join(map(str, cliffs))
    it.put(
        "machine.llc.size", size, f"fitted: chases by {by} chains near where they leave the LLC, {mean:.0f} % off{said}"
    )
    it.put("machine.llc.replacement", best.replacement, "fitted: on the same, out of lru and random")
    if best.gbps:
        it.put("machine.llc.tenants", f"{best.gbps:.3g} Gbps", "fitted: on the same; lines that others bring in")
        it.notes.append(
            f"LLC: others bring {best.gbps / 8:.2g} GB/s into it; {size} of {_size(bytes)} are for who is fast enough"
        )
    elif size != _size(bytes):
        it.notes.append(f"LLC: {size} of {_size(bytes)} are there for a program: others use the rest")
    return True


@dataclass(frozen=True, slots=True)
class _Shared:
    """An LLC that others use: what of it is there, what they bring in, and which line has to go."""

    bytes: int
    gbps: float
    replacement: str


def _search(starts: Sequence[_Shared], error: Callable[[_Shared, float], float], most: int) -> _Shared:
    """The nearest of `starts`, and what is nearer by steps, as factors, in size and in what others bring in.

    `error` of what cannot be the nearest may be any number that is not below the one it is given.
    """
    best, least = starts[0], math.inf

    def nearer(tried: Sequence[_Shared]) -> bool:
        nonlocal best, least
        before = best
        for each in tried:
            if (off := error(each, least)) < least:
                best, least = each, off
        return best != before

    nearer(starts)
    for size, rate in _STEPS:
        for _ in range(_REPEATS):
            tried = [replace(best, bytes=min(round(best.bytes * by), most)) for by in (size, 1 / size)]
            if best.gbps:
                tried += [replace(best, gbps=best.gbps * by) for by in (rate, 1 / rate)]
            if not nearer(tried):
                break
    return best


def _chunks(points: Sequence[tuple[int, int]], most: int) -> Iterator[Sequence[tuple[int, int]]]:
    """The points in order, so many at a time."""
    return (points[at : at + most] for at in range(0, len(points), most))


def _whole(it: Fitted, bytes: int, pages: bool = True) -> dict[str, Any]:
    """An LLC of about so many bytes, up to what it has: of whole sets, and with `pages` of sets for whole pages."""
    granule = it.values["machine.llc.ways"] * it.values["machine.llc.slices"] * 64
    # No finer than it is known, where that is easier to read.
    for least, unit in ((64 * MIB, MIB), (4 * MIB, 64 * KIB)):
        if bytes >= least:
            granule = math.lcm(granule, unit)
            break
    # As in the whole cache, a page's lines go to sets of their own: buffers of 2 KiB leave those of their ends unused.
    page = math.lcm(granule, it.values["machine.llc.ways"] * it.values["machine.llc.slices"] * 4096)
    if pages and bytes >= _PAGES_AT_LEAST * page:
        granule = page
    had = it.values["machine.llc.size"]
    size = max(bytes // granule, 1) * granule
    return {"machine.llc.size": min(_size(size), had, key=_bytes)}


def _smaller(it: Fitted, by: int) -> dict[str, Any]:
    """All but the LLC that holds less, by a factor: a set that is as much smaller takes as long in fewer references."""
    values = it.values
    sizes = {path: _size(_bytes(values[path]) // by) for path in ("machine.l1.size", "machine.l2.size")}
    entries: dict[str, int] = {
        path: max(values[path] // by, 1)
        for path in ("machine.tlb.l1_entries", "machine.tlb.l2_entries", "machine.tlb.walk_cache")
        if path in values
    }
    ways = {
        f"machine.tlb.{level}_ways": _ways(entries[f"machine.tlb.{level}_entries"]) for level in ("l1", "l2") if entries
    }
    # Rows that are open hold less of a smaller set, too.
    row = {"machine.dram.row": _size(_bytes(values["machine.dram.row"]) // by)}
    return sizes | entries | ways | row


def _cliff(column: Mapping[int, float]) -> float | None:
    """Bytes where a chase passes the geometric mean of its fastest and slowest, between sizes by logarithms."""
    sizes = sorted(column)
    low, high = min(column.values()), max(column.values())
    if high < 2 * low:
        return None
    middle = math.sqrt(low * high)
    for below, above in pairwise(sizes):
        if column[below] < middle <= column[above]:
            share = math.log(middle / column[below]) / math.log(column[above] / column[below])
            return float(below * (above / below) ** share)
    return None


def _line(cliffs: Sequence[tuple[float, float]], most: int) -> tuple[float, float]:
    """Capacity in bytes, up to `most`, and Gbps that others bring in, from bytes and nanoseconds an item at cliffs."""
    inverse, ns = [1 / at for at, _ in cliffs], [each for _, each in cliffs]
    mean_inverse, mean_ns = sum(inverse) / len(cliffs), sum(ns) / len(cliffs)
    spread = sum((each - mean_ns) ** 2 for each in ns)
    slope = (
        sum((a - mean_ns) * (b - mean_inverse) for a, b in zip(ns, inverse, strict=True)) / spread if spread else 0.0
    )
    if slope <= 0:
        return min(1 / mean_inverse, most), 0.0
    capacity = 1 / max(mean_inverse - slope * mean_ns, 1 / most)
    # Lines a nanosecond, 64 bytes each.
    rate = sum((capacity * b - 1) / a for a, b in zip(ns, inverse, strict=True)) / len(cliffs)
    return capacity, max(rate, 0.0) * 64 * 8


def _window(it: Fitted, found: Measured) -> None:
    """Instructions under way at a time, by how many independent loads from DRAM that are that far apart overlap."""
    if found.random_ns is None:
        return
    # The chases that tell how many misses there are at a time had to fit.
    least = _CHASE_INSTRUCTIONS * it.values["machine.core.outstanding"]
    windows = [rob for rob in _WINDOWS if rob >= least] or _WINDOWS[-1:]
    wanted, loops = found.random_ns, [random_loads(found.far)]

    def off(rob: int) -> float:
        return abs(math.log(simulate(it.overrides(**{"machine.core.rob": rob}), loops)[0] / wanted))

    # Of those that are as near, where no more loads can be under way: the least.
    rob = min(windows, key=lambda rob: (round(off(rob), 2), rob))
    it.put("machine.core.rob", rob, f"fitted: random loads of {_size(found.far)} take {wanted:.3g} ns each")


def _prefetcher(it: Fitted, found: Measured) -> None:
    near, far = _near(found), max(bytes for operation, bytes in found.streams if operation == "read")
    stream: dict[str, Any] = {"kind": "stream", "operation": "read"}
    # How far one runs ahead shows where that is for nothing: reads in order are the same for many distances.
    whole = [(read_blocks(lines, apart, found.far), ns) for (lines, apart), ns in found.blocks.items()]
    # Whether the LLC holds them shows how much of the room between them comes with them.
    whole += [(read_blocks(KEPT_LINES, KEPT_APART, bytes), ns) for bytes, ns in found.kept_blocks.items()]
    if near is not None:
        whole.append((stream | {"bytes": near}, found.streams["read", near]))
    # So large a set read in order comes from DRAM whatever the LLC holds, and a small one has been filled soon.
    cold = [(stream | {"bytes": far}, found.streams["read", far])]
    small = _whole(it, 2 * _bytes(it.values["machine.l2.size"]))
    # Beside what loads have under way, and not.
    apart = max(found.chains[1] / found.streams["read", far], 1.0)
    queues = sorted({min(max(round(each), 1), 256) for each in (apart - it.values["machine.core.outstanding"], apart)})

    @functools.cache
    def error(ahead: _Ahead) -> float:
        off = 0.0
        for more, judged in ((small, cold), ({}, whole)):
            came = simulate(it.overrides(**ahead.settings(), **more), [loop for loop, _ in judged])
            off += sum(math.log(a / b) ** 2 for a, (_, b) in zip(came, judged, strict=True))
        return off

    # Without blocks little tells one distance from another, and nothing whether lines wait.
    distances, waits = (_DISTANCES, (0, _WAITING)) if found.blocks else (_DISTANCES[::2], (0,))

    def at(distance: int) -> Iterator[_Ahead]:
        return (_Ahead(distance, *each) for each in product(queues, waits))

    # In turn, from a distance in the middle, since it hardly depends on the rest; all combinations take twice as long.
    nearest = min(at(distances[1]), key=error)
    nearest = min((replace(nearest, distance=distance) for distance in distances), key=error)
    nearest = min(*at(nearest.distance), _Ahead(0, 0, 0), key=error)
    best = nearest
    if nearest.distance:
        alike = (replace(nearest, distance=distance) for distance in distances)
        best = next(ahead for ahead in alike if error(ahead) <= _AS_NEAR * error(nearest))
    sets = " and ".join(_size(each) for each in (near, far) if each is not None)
    fitted = f"fitted: reads of {sets}" + (", and of blocks" if found.blocks else "")
    for path, value in best.settings().items():
        of_core = path.startswith("machine.core.")
        it.put(path, value, fitted if of_core or path.endswith("distance") else "assumed")
    if not best.distance:
        it.notes.append("prefetcher: reads of the LLC and of DRAM are nearest without one; it is left out")


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A stream prefetcher: how far it runs ahead in lines (0: there is none), how many are under way, how many wait."""

    distance: int
    under_way: int
    waiting: int

    def settings(self) -> dict[str, Any]:
        if self.distance == 0:
            return {}
        waiting = {"machine.core.waiting_prefetches": self.waiting} if self.waiting else {}
        return {
            "machine.core.outstanding_prefetches": self.under_way,
            **waiting,
            "machine.prefetcher.kind": "stream",
            "machine.prefetcher.degree": min(4, self.distance),
            "machine.prefetcher.distance": self.distance,
            "machine.prefetcher.streams": 16,
        }


def _near(found: Measured) -> int | None:
    """Bytes of the reads in order that the LLC answers, as far as there are any."""
    cache, l2 = _last_level(found), found.l2
    most = cache.bytes // 2 if cache else 8 * MIB
    return max((size for operation, size in found.streams if operation == "read" and l2 < size <= most), default=None)


def _overhead(it: Fitted, found: Measured, llc: int | None = None) -> None:
    """DRAM's overhead, so that a chase through DRAM takes as long; with an LLC of so many bytes, if that is given."""
    wanted, overhead = found.chase[found.far], 40.0
    other = {} if llc is None else _whole(it, llc)
    loop = [{"kind": "chase", "bytes": found.far}]
    for _ in range(2):
        (ns,) = simulate(it.overrides(**other, **{"machine.dram.overhead": f"{overhead:.3g} ns"}), loop)
        overhead = min(max(overhead + wanted - ns, 0.0), 2000.0)
    it.put(
        "machine.dram.overhead",
        f"{overhead:.3g} ns",
        f"fitted: a chase through {_size(found.far)} takes {wanted:.3g} ns",
    )


def _ways(entries: int) -> int:
    return next(ways for ways in (8, 16, 12, 6, 4, 3, 2, 1) if entries % ways == 0)


def _size(bytes: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if bytes >= unit and bytes * 16 % unit == 0:
            return f"{bytes / unit:g} {name}"
    return f"{bytes} B"


def _bytes(size: str) -> int:
    """What `_size` wrote."""
    number, unit = size.split()
    return round(float(number) * {"GiB": 1 << 30, "MiB": MIB, "KiB": KIB, "B": 1}[unit])


def _ns(span: str) -> float:
    """Nanoseconds that were written as such."""
    return float(span.removesuffix(" ns"))


def _toml(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else str(value)
