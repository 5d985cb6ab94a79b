"""What was measured beside what the scenario predicts, and the same scenario with other RX rings.

Measured cycles are the TSC's, predicted ones the core's: they are compared as nanoseconds where the TSC's
clock is told, else as they are. Loss that was measured is of its own time and traffic, and is not a rate.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from wirespeed import api
from wirespeed.operators.facts import MEASURED, Measurement, Told
from wirespeed.operators.joining import Joined
from wirespeed.operators.signs import file_of, limits_of
from wirespeed.operators.written import toml
from wirespeed.progress import Callback

PACKETS: Final = 20_000
"""Packets of each run, unless the command says otherwise."""
_STEPS: Final = (-2, -1, 0, 1, 2)


@dataclass(frozen=True, slots=True)
class Pair:
    """A measurement, and the prediction that stands beside it; None where the simulator has none."""

    name: str
    measured: float
    predicted: float | None
    unit: str
    where: str


@dataclass(frozen=True, slots=True)
class Ring:
    """The scenario with an RX ring of this length."""

    rx_descriptors: int
    is_now: bool
    carried_mpps: float
    loss: float | None
    cycles_per_packet: float | None
    p99_ns: float
    dram_reads_per_packet: float


def compare(
    joined: Joined,
    told: Sequence[Told],
    packets: int = PACKETS,
    threads: int | None = None,
    progress: Callback | None = None,
) -> tuple[list[Pair], list[Ring]]:
    """Runs the scenario at its own ring and at rings around it, on the same packets. Raises InputError."""
    now = int(str(next(each.value for each in joined.settings if each.path == "nic.rx_descriptors")))
    lengths = _lengths(joined, now)
    scenarios = [_with(joined, length, max(lengths), packets) for length in lengths]
    results = api.operands(scenarios, threads=threads, progress=progress)
    summaries: list[Mapping[str, Any]] = [result.summary for result in results]
    measured = [each for one in told for each in one.measured]
    pairs = _pairs(joined, measured, summaries[lengths.index(now)])
    return pairs, [_ring(length, length == now, summary) for length, summary in zip(lengths, summaries, strict=True)]


def _lengths(joined: Joined, now: int) -> list[int]:
    """The ring as it is, and as many powers of two around it as the driver and the simulator take."""
    limits = limits_of(joined)
    burst = int(str(next(each.value for each in joined.settings if each.path == "nic.burst")))
    least = max(64, burst)
    around = {limits.nearest(round(now * 2.0**step)) for step in _STEPS}
    return sorted({length for length in around if least <= length <= 1 << 16} | {now})


def _with(joined: Joined, length: int, longest: int, packets: int) -> dict[str, Any]:
    """The scenario with another ring, and a pool that the longest one leaves enough of."""
    by_path = {each.path: each.value for each in joined.settings}
    queues = int(str(by_path["machine.cores"])) * int(str(by_path.get("nic.queues_per_core", 1)))
    grown = (longest - int(str(by_path["nic.rx_descriptors"]))) * queues
    pool = min(int(str(by_path["mempool.size"])) + max(grown, 0), 1 << 24)
    changes = {"nic.rx_descriptors": length, "mempool.size": pool}
    return {**tomllib.loads(toml(joined, (), changes)), "run": {"packets": packets}}


def _ring(length: int, is_now: bool, summary: Mapping[str, Any]) -> Ring:
    # Those that wait in a ring at the end have read nothing yet.
    taken = max(int(summary["taken_packets"]), 1)
    return Ring(
        length,
        is_now,
        summary["carried_mpps"],
        summary["loss"] if summary["verdict"]["loss_is_known"] else None,
        _mean(summary, "cycles_per_packet"),
        summary["sojourn_ns"]["p99"],
        summary["dram"]["reads"] / taken,
    )


def _mean(summary: Mapping[str, Any], name: str) -> float | None:
    """A number of cores, in the mean over their packets."""
    cores = [each for each in summary["cores"] if each.get(name) is not None and each["packets"]]
    packets = sum(each["packets"] for each in cores)
    return sum(each[name] * each["packets"] for each in cores) / packets if packets else None


def _pairs(joined: Joined, measured: Sequence[Measurement], summary: Mapping[str, Any]) -> list[Pair]:
    tsc = joined.number("tsc")
    ghz = summary["machine"]["core_ghz"]
    cycles = _mean(summary, "cycles_per_packet")
    busy = [each["busy"] for each in summary["cores"]]
    predicted = {
        "work_per_packet": cycles,
        "packets_per_burst": _mean(summary, "packets_per_burst"),
        "busy": max(busy, default=None),
        "received_rate": summary["carried_mpps"] * 1e6,
    }
    if any(each.name == "busy" for each in measured) or (joined.number("packet_rate") is None):
        predicted.pop("received_rate")
    found = []
    for each in _together(measured):
        if each.name in ("cycles_per_packet", "work_per_packet"):
            value, other, unit = each.value, _polled(each.name, cycles, summary), "cycles"
            if tsc is not None:
                value, other, unit = value / tsc * 1e9, None if other is None else other / ghz, "ns"
            found.append(Pair(each.name, value, other, unit, _where(each)))
        elif each.name in predicted:
            found.append(Pair(each.name, each.value, predicted[each.name], MEASURED[each.name].unit, _where(each)))
    return found


def _together(measured: Sequence[Measurement]) -> Iterator[Measurement]:
    """A measurement of all cores of a file as one: rates as their sum, anything else as its mean."""
    by_file: dict[tuple[str, str], list[Measurement]] = {}
    for each in measured:
        by_file.setdefault((each.name, file_of(each)), []).append(each)
    for (name, _), several in by_file.items():
        total = sum(each.value for each in several)
        first = several[0]
        of = first.of if len(several) == 1 else f"{'sum' if name == 'received_rate' else 'mean'} of {len(several)}"
        value = total if name == "received_rate" else total / len(several)
        yield Measurement(name, value, first.where, of)


def _polled(name: str, cycles: float | None, summary: Mapping[str, Any]) -> float | None:
    """Predicted cycles a packet; of `cycles_per_packet` with those of polls that find nothing."""
    if cycles is None or name == "work_per_packet":
        return cycles
    shares = [(each["busy"], each["polling"]) for each in summary["cores"]]
    busy = sum(share for share, _ in shares)
    return cycles * (busy + sum(share for _, share in shares)) / busy if busy else None


def _where(each: Measurement) -> str:
    return f"{each.where}{each.of and f' ({each.of})'}"


def document(pairs: Sequence[Pair], rings: Sequence[Ring]) -> dict[str, Any]:
    """Predictions beside measurements, as JSON has them."""
    return {"measured": [asdict(each) for each in pairs], "rings": [asdict(each) for each in rings]}
