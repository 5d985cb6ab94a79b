"""From measurements to a machine: each number is read off one of them, or fitted by simulating the same loop.

| number | from |
|---|---|
| clock | squares and exclusive ors that wait for each other, three cycles and one |
| latencies of L1, L2, LLC | chases through sets that fill half of each, or a quarter |
| size and replacement of the LLC | those whose simulated chases are nearest to chases in windows of 50 ms |
| DRAM's overhead | the simulated chase through DRAM takes what the measured one does |
| misses at a time | half-way between what many chains and what lines in order have under way |
| stream prefetcher | the distance, out of a few, whose simulated reads of the LLC and of DRAM are nearest |
| data bus | reads by all cores at a time |
| cycles an instruction | a copy within L1 |
| TLBs | where pages of 4 KiB begin to cost against huge ones |

What cannot be read off stays as it is assumed, and says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from wirespeed import _wirespeed
from wirespeed.calibrate.measuring import KIB, MIB, Measured

_DISTANCES: Final = (0, 4, 16, 63)
# Of the LLC, in 32nds: half a way of 16 is the least.
_SHARES: Final = (1, 2, 4, 6, 8, 12, 16, 24, 32)
_REPLACEMENTS: Final = ("lru", "random")
_CHANNELS: Final = 4
# DDR5-4800 40-39-39: JEDEC JESD79-5.
_T_CL, _T_RCD, _T_RP, _T_RAS = 16.7, 16.3, 16.3, 32.0
_COPY_INSTRUCTIONS: Final = 5
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
    return [float(each["ns"]) for each in json.loads(_wirespeed.run_loops(scenario, json.dumps(list(loops))))]


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
    # Prefetchers keep more lines under way than loads do; in the model both share what a core may have. One number for
    # both is nearest, by logarithms, half-way.
    alone, chained = found.chains[1], min(found.chains.values())
    far = max(size for operation, size in found.streams if operation == "read")
    loads, ordered = alone / chained, alone / found.streams["read", far]
    it.put(
        "machine.core.outstanding",
        min(max(round(math.sqrt(loads * max(loads, ordered))), 1), 256),
        f"fitted: {loads:.3g} loads by many chains, {ordered:.3g} lines in order are under way; {alone:.3g} ns each",
    )
    most = max(found.chains)
    if chained == found.chains[most] and chained < 0.9 * found.chains[sorted(found.chains)[-2]]:
        it.notes.append(f"misses at a time: still more by {most} chains than by fewer, so loads may have more")
    _caches(it, found)
    _translation(it, found, ghz)
    _dram(it, found)
    _llc(it, found)
    _prefetcher(it, found)
    _overhead(it, found)
    # All before is from short rounds right after a set was read: of the whole LLC. A program has what others leave it.
    _share(it, found)
    _overhead(it, found)
    return it


def _caches(it: Fitted, found: Measured) -> None:
    for level, name, size, ways in ((1, "l1", 32 * KIB, 8), (2, "l2", MIB, 16)):
        cache = found.caches.get(level)
        if cache is None:
            it.notes.append(f"{name}: the kernel does not tell its size; {size >> 10} KiB are assumed")
        bytes = cache.bytes if cache else size
        it.put(f"machine.{name}.size", _size(bytes), "CPUID, by the kernel" if cache else "assumed")
        it.put(f"machine.{name}.ways", cache.ways if cache else ways, "CPUID, by the kernel" if cache else "assumed")
        at = max((size for size in found.chase if size <= bytes // 2), default=min(found.chase))
        latency = found.chase[at]
        it.put(f"machine.{name}.latency", f"{latency:.3g} ns", f"measured: a chase through {_size(at)}")


def _translation(it: Fitted, found: Measured, ghz: float) -> None:
    """From a line a page, against as many lines side by side."""
    small, huge = ({n: ns[way] - _beside(found, n) for n, ns in found.pages.items()} for way in (0, 1))
    first = next((n for n in sorted(small) if small[n] > 2 / ghz), None)
    if first is None:
        it.notes.append("translation: a line a page costs no more than lines side by side; machine.tlb is left out")
        return
    entries = max((n for n in small if n < first), default=first)
    beyond = [n for n in sorted(small) if n >= first]
    latency = max(min(small[n] for n in beyond[:3]), 1 / ghz)
    second = next((n for n in beyond if small[n] > max(3 * latency, latency + 4.0)), None)
    reach = max(n for n in small if second is None or n < second)
    # Where the host backs a guest by small pages, its TLBs hold small pages whatever the guest maps.
    split = huge[first] > 0.7 * small[first]
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
    cache = max((each for level, each in found.caches.items() if level > 2), key=lambda each: each.level, default=None)
    bytes = cache.bytes if cache else 32 * MIB
    if cache is None:
        it.notes.append("LLC: the kernel does not tell its size; 32 MiB are assumed at most")
    l2 = found.caches[2].bytes if 2 in found.caches else MIB
    at = min(found.chase, key=lambda size: abs(math.log(size / max(bytes // 8, 3 * l2))))
    ways = min(cache.ways if cache else 16, 32)
    it.put("machine.llc.ways", ways, "CPUID, by the kernel" if cache else "assumed")
    it.put("machine.llc.latency", f"{found.chase[at]:.3g} ns", f"measured: a chase through {_size(at)}")
    it.put("machine.llc.slices", 8, "assumed")
    it.put("machine.llc.hash", "mixed", "assumed: as near to chance as real ones (validation/ddio)")
    it.put("machine.llc.interval", "0.5 ns", "assumed: an access in two cycles or so")
    it.put("machine.llc.inclusion", "victim", "assumed: as server LLCs since Skylake and Zen are")
    it.put("machine.llc.io_ways", 0, "assumed: virtual devices copy by the core")
    it.put("machine.llc.snoop", f"{found.chase[at]:.3g} ns", "assumed: as long as the LLC")
    it.put("machine.llc.replacement", "random", "assumed")
    it.put("machine.llc.size", _size(bytes), "CPUID, by the kernel" if cache else "assumed")
    _overhead(it, found)


def _share(it: Fitted, found: Measured) -> None:
    """Of the LLC what a program has that runs for long: by 32nds of it, and a way to either side of the nearest."""
    cache = max((each for level, each in found.caches.items() if level > 2), key=lambda each: each.level, default=None)
    bytes, ways = cache.bytes if cache else 32 * MIB, it.values["machine.llc.ways"]
    l2 = found.caches[2].bytes if 2 in found.caches else MIB
    # What a set within L2 takes says nothing of the LLC, and one of twice its size nothing more.
    judged = sorted(size for size in found.windows if l2 < size <= 2 * bytes)
    if not judged:
        it.notes.append("LLC: no window tells what others leave of it; all of it is assumed to be there")
        return
    loops = [{"kind": "chase", "bytes": size} for size in judged]
    seen: dict[tuple[int, str], float] = {}

    def error(size: int, replacement: str) -> float:
        size = max(size // (ways * 512), 1) * ways * 512
        if (size, replacement) not in seen:
            more = {"machine.llc.size": _size(size), "machine.llc.replacement": replacement}
            ns = simulate(it.overrides(**more), loops)
            seen[size, replacement] = sum(math.log(a / found.windows[b]) ** 2 for a, b in zip(ns, judged, strict=True))
        return seen[size, replacement]

    way = bytes // ways
    for replacement in _REPLACEMENTS:
        near = min((bytes * share // 32 for share in _SHARES), key=lambda size: error(size, replacement))
        for size in (near - way, near + way):
            if way <= size <= bytes:
                error(size, replacement)
    (size, replacement), off = min(seen.items(), key=lambda each: each[1])
    whole = "CPUID says" if cache else "is assumed"
    said = f", of {_size(bytes)} that {whole}" if size != bytes else f", as {whole}"
    mean = 100 * (math.exp(math.sqrt(off / len(judged))) - 1)
    source = f"fitted: chases of {_size(judged[0])} to {_size(judged[-1])} in windows, {mean:.0f} % off{said}"
    it.put("machine.llc.size", _size(size), source)
    it.put("machine.llc.replacement", replacement, "fitted: on the same, out of lru and random")
    if size < bytes:
        it.notes.append(f"LLC: {_size(size)} of {_size(bytes)} are there for a program: others use the rest")


def _prefetcher(it: Fitted, found: Measured) -> None:
    llc = max(bytes for operation, bytes in found.streams if operation == "read" and bytes <= 8 * MIB)
    far = max(bytes for operation, bytes in found.streams if operation == "read")
    loops = [{"kind": "stream", "operation": "read", "bytes": bytes} for bytes in (llc, far)]
    wanted = [found.streams["read", bytes] for bytes in (llc, far)]
    best: tuple[float, int] = (math.inf, 0)
    for distance in _DISTANCES:
        ns = simulate(it.overrides(**_streams(distance)), loops)
        error = sum(math.log(a / b) ** 2 for a, b in zip(ns, wanted, strict=True))
        best = min(best, (error, distance))
    for path, value in _streams(best[1]).items():
        it.put(
            path, value, f"fitted: reads of {_size(llc)} and {_size(far)}" if path.endswith("distance") else "assumed"
        )
    if best[1] == 0:
        it.notes.append("prefetcher: reads of the LLC and of DRAM are nearest without one; it is left out")


def _streams(distance: int) -> dict[str, Any]:
    if distance == 0:
        return {}
    return {
        "machine.prefetcher.kind": "stream",
        "machine.prefetcher.degree": min(4, distance),
        "machine.prefetcher.distance": distance,
        "machine.prefetcher.streams": 16,
    }


def _overhead(it: Fitted, found: Measured) -> None:
    """DRAM's overhead, so that a chase through DRAM takes as long."""
    wanted, overhead = found.chase[found.far], 40.0
    loop = [{"kind": "chase", "bytes": found.far}]
    for _ in range(2):
        (ns,) = simulate(it.overrides(**{"machine.dram.overhead": f"{overhead:.3g} ns"}), loop)
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


def _toml(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else str(value)
