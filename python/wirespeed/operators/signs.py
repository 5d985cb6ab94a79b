"""What operators' counters say by themselves, before anything is simulated: where packets are lost, and what to set.

A ring helps where a core has time left and packets come faster for a while than it takes them. Where cores are busy all
the time none does. Rings that hold more than devices may fill of the LLC send packets to DRAM before a core reads them
(ResQ, NSDI 2018).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wirespeed import _wirespeed, units
from wirespeed import quantities as q
from wirespeed.operators import catalogue
from wirespeed.operators.facts import Measurement, Told, Trust
from wirespeed.operators.joining import Joined
from wirespeed.operators.texts import CUT

# A core of so large a share of busy time, or bursts of so large a share of the largest one, has no time left.
_SATURATED: Final = 0.95
_FULL: Final = 0.85
_LINE: Final = 64
_FRAME: Final = 64


@dataclass(frozen=True, slots=True)
class Finding:
    """What the counters say, and what to do."""

    what: str
    do: str = ""


def findings(joined: Joined, told: Sequence[Told], machine: Mapping[str, Any]) -> list[Finding]:
    """What is to be said of counters and rings; `machine` is the scenario with everything filled in."""
    measured = [each for one in told for each in one.measured]
    found = [*_losses(measured, joined, machine), *_dma(joined, machine)]
    found[:0] = [
        Finding(note, "Save it again, or end the line where it is whole.")
        for note in dict.fromkeys(note for one in told for note in one.notes if CUT in note)
    ]
    if "cpu" not in joined.facts:
        assumed = next(each.value for each in joined.settings if each.path == "machine.processor")
        found.append(Finding(f"No file tells the processor: {assumed} is assumed", "Give `lscpu -J`, too."))
    wasted = [each for each in measured if each.name == "empty_polls"]
    if wasted and min(each.value for each in wasted) > 0:
        least = min(wasted, key=lambda each: each.value)
        found.append(Finding(f"{q.share(least.value)} of the polls of {least.of} find nothing: it has time left"))
    return found


def _sum(measured: Iterable[Measurement], name: str) -> tuple[float, str]:
    """A counter of all ports and cores, and where most of it stands; of files that all count it the largest sum."""
    by_file: dict[str, list[Measurement]] = {}
    for each in measured:
        if each.name == name:
            by_file.setdefault(file_of(each), []).append(each)
    sums = [(sum(each.value for each in several), several) for several in by_file.values()]
    total, most = max(sums, key=lambda found: found[0], default=(0.0, []))
    return total, max(most, key=lambda each: each.value).where if most else ""


def file_of(each: Measurement) -> str:
    """The file that a measurement is of."""
    file, _, line = each.where.rpartition(":")
    return file if line.isdigit() else each.where


def has_time_left(measured: Sequence[Measurement], burst: int) -> bool | None:
    """Whether cores have time left, by busy cycles or by how full their bursts are; None where nothing tells."""
    busy = [each.value for each in measured if each.name == "busy"]
    if busy:
        return max(busy) < _SATURATED
    sizes = [each.value for each in measured if each.name == "packets_per_burst"]
    return max(sizes) < _FULL * burst if sizes else None


def _losses(measured: Sequence[Measurement], joined: Joined, machine: Mapping[str, Any]) -> Iterable[Finding]:
    nic = machine["nic"]
    ring, burst = int(nic["rx_descriptors"]), int(nic["burst"])
    missed, where = _sum(measured, "missed")
    short, place = _sum(measured, "no_descriptor")
    lost, where = (missed, where) if missed else (short, place)
    file = next((file_of(each) for each in measured if each.where == where), "")
    received, _ = _sum([each for each in measured if file_of(each) == file], "received")
    if lost:
        share = f", {q.probability(lost / (lost + received))} of what came," if received else ""
        yield Finding(
            f"{q.count(lost)} packets{share} were lost at the port ({where})", _ring(measured, joined, ring, burst)
        )
    starved, where = _sum(measured, "no_buffer")
    if starved:
        yield Finding(f"{q.count(starved)} refills found no mbuf ({where})", "Make the pool larger, or rings shorter.")
    dropped, where = _sum(measured, "tx_dropped")
    if dropped:
        yield Finding(
            f"{q.count(dropped)} packets were dropped at a full TX ring ({where})",
            "The link or PCIe is full, or the TX ring is shorter than a burst of all cores.",
        )
    if not any((lost, starved, dropped)) and any(each.name in ("missed", "no_descriptor") for each in measured):
        yield Finding("No packet was lost at the port.")


def _ring(measured: Sequence[Measurement], joined: Joined, ring: int, burst: int) -> str:
    """What to do about packets that are lost at the port."""
    left = has_time_left(measured, burst)
    most = joined.whole("rx_most") or limits_of(joined).most
    if left is None:
        return "Whether cores have time left is not told: give cycles, too (show runtime, pmd-perf-show, lcore usage)."
    if not left:
        return "Cores are busy all the time: no ring helps. Take more cores, or fewer cycles a packet."
    if ring >= most:
        return (
            f"Cores have time left, and the RX ring of {ring} is the longest: more queues share what comes in a burst."
        )
    return (
        f"Cores have time left: bursts are longer than the RX ring. Raise nic.rx_descriptors from {ring}, "
        f"up to {most}; `--compare` tries rings."
    )


def limits_of(joined: Joined) -> catalogue.RingLimits:
    """What rings the driver takes: as its output says, else as the shipped driver's do."""
    driver = next((str(each.value) for each in joined.settings if each.path == "nic.driver"), "")
    known = catalogue.LIMITS.get(driver, catalogue.ANY_RING)
    most = joined.whole("rx_most")
    if most is None or joined.facts["rx_most"].trust < Trust.CONFIG:
        return known
    least, multiple = joined.whole("rx_least") or known.least, joined.whole("rx_multiple") or known.multiple
    return catalogue.RingLimits(max(least, 1), most, multiple, known.power)


def _dma(joined: Joined, machine: Mapping[str, Any]) -> Iterable[Finding]:
    """Whether RX rings hold more than devices may fill of the LLC."""
    llc, nic, cores = machine["machine"]["llc"], machine["nic"], int(machine["machine"]["cores"])
    ways = units.ways(llc.get("io_ways", 0))
    room = units.size("llc", str(llc["size"])) // int(llc["ways"]) * ways
    queues = cores * int(nic.get("queues_per_core", 1))
    frame = joined.number("frame_bytes") or _FRAME
    lines = -(-round(frame) // _LINE) + 1  # a descriptor's line beside the packet's
    held = queues * int(nic["rx_descriptors"]) * lines * _LINE
    if not room:
        yield Finding("Device writes go to DRAM: this processor has no ways of the LLC for them.")
    elif held > room:
        fit = _wirespeed.resq_descriptors(room // queues, lines * _LINE)
        yield Finding(
            f"RX rings hold {held / 2**20:.1f} MiB of packets and descriptors, devices fill {room / 2**20:.1f} MiB of "
            "the LLC: packets go to DRAM before a core reads them",
            f"Rings of {fit} fit (ResQ's rule). Lower nic.rx_descriptors, or give devices more ways.",
        )
