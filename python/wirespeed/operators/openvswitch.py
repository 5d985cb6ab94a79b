"""Open vSwitch with DPDK: statistics of its polling threads, and the commands that configure it.

Cycles are those of the TSC. `avg processing cycles per packet` leaves out polls that find nothing; the other one does
not. Receive bursts are 32 at most, and no setting changes that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Final

from wirespeed.operators.facts import Told, Trust
from wirespeed.operators.texts import OperatorText, number, shown, whole

BURST: Final = 32
"""NETDEV_MAX_BURST."""
CACHE: Final = 512
"""Mbufs that each core keeps."""
_SHARED_POOL: Final = 262144
_THREAD: Final = re.compile(r"pmd thread numa_id (\d{1,5}) core_id (\d{1,5}):")
_CYCLES: Final = re.compile(r"\s*avg( processing)? cycles per packet: (-?[\d.]{1,20}) \((\d{1,25})/(\d{1,25})\)")
_STATS: Final = re.compile(r"\s*([a-z][a-z. ]+): (-?[\d.]{1,25})(?:\s*\(([\d.]{1,8})%\))?")
_PERF: Final = re.compile(r"\s*-?\s*([A-Za-z][A-Za-z ()]+):\s+(-?\d{1,25})\b\s*(?:\((.*)\))?.*")
_NEAREST: Final = "the nearest: a search by tuple space, as megaflows are searched; caches of exact flows are left out"


def _program(told: Told, line: int | None) -> None:
    told.fact("function", "classify", line, Trust.DEFAULT, _NEAREST)
    told.fact("burst", BURST, line, Trust.DEFAULT, "NETDEV_MAX_BURST")
    told.fact("pool_cache", CACHE, line, Trust.DEFAULT, "OVS' own")


def _threads(text: OperatorText) -> Iterator[tuple[int, str, list[tuple[int, str]]]]:
    """Line, name and lines of each polling thread."""
    begin, name, found = 0, "", list[tuple[int, str]]()
    for n, line in [*text, (len(text.lines) + 1, "end:")]:
        if (line[:1].strip() and line.rstrip().endswith(":")) or line == "Histograms":
            if name:
                yield begin, name, found
            match = _THREAD.match(line)
            begin, name, found = n, f"core {match[2]}" if match else "", []
        elif name:
            found.append((n, line))


def _of_threads(text: OperatorText, told: Told, take: Callable[[Told, str, list[tuple[int, str]]], bool]) -> None:
    threads = list(_threads(text))
    active = sum(take(told, name, lines) for _, name, lines in threads)
    if not threads:
        raise text.ended("`pmd thread numa_id N core_id C:` with its lines")
    if not active:
        last = threads[-1][0]
        told.note("no thread has its cycles a packet: none took a packet, or the output was cut", last)
    told.fact("cores", len(threads), threads[0][0], note="polling threads")
    _program(told, threads[0][0])


def pmd_stats(text: OperatorText, told: Told) -> None:
    """`ovs-appctl dpif-netdev/pmd-stats-show`."""
    _of_threads(text, told, _stats)


def _stats(told: Told, name: str, lines: list[tuple[int, str]]) -> bool:
    told_cycles = False
    packets, upcalls = 0.0, 0.0
    for n, line in lines:
        if (found := _CYCLES.fullmatch(line)) is not None:
            if float(found[4]) > 0:
                told.measure("work_per_packet" if found[1] else "cycles_per_packet", number(found[2]) or 0, n, name)
                told_cycles = True
        elif (found := _STATS.fullmatch(line)) is not None:
            words, value = found[1].strip(), number(found[2]) or 0
            if words == "packets received":
                packets = value
                told.measure("received", value, n, name)
            elif words == "processing cycles" and found[3]:
                told.measure("busy", min((number(found[3]) or 0) / 100, 1), n, name)
            elif words.startswith("miss with"):
                upcalls += value
            elif words == "avg. packets per output batch" and value:
                told.measure("packets_per_burst", value, n, name)
        elif line.strip():
            told.note(f"is no statistic: {shown(line)}", n)
    if packets and upcalls:
        told.measure("upcalls", upcalls, lines[0][0], name)
    return told_cycles


def pmd_perf(text: OperatorText, told: Told) -> None:
    """`ovs-appctl dpif-netdev/pmd-perf-show`: the same, with rates, and polls that found nothing."""
    _of_threads(text, told, _perf)
    rates = [each.value for each in told.measured if each.name == "received_rate"]
    if rates:
        told.fact("packet_rate", sum(rates), None, note="Rx packets of all threads")


def _perf(told: Told, name: str, lines: list[tuple[int, str]]) -> bool:
    values: dict[str, tuple[float, str, int]] = {}
    for n, text in lines:
        if (found := _PERF.fullmatch(text)) is not None:
            values[found[1].strip()] = float(found[2]), found[3] or "", n
    cycles, _, place = values.get("Used TSC cycles", (0.0, "", 0))
    packets, rate, line = values.get("Rx packets", (0.0, "", 0))
    if not packets or not cycles:
        return False
    told.measure("received", packets, line, name)
    told.measure("cycles_per_packet", cycles / packets, place, name)
    if (per_packet := re.search(r"(\d{1,12}) cycles/pkt", rate)) is not None:
        told.measure("work_per_packet", float(per_packet[1]), line, name)
    if (kpps := re.search(r"(\d{1,12}) Kpps", rate)) is not None and float(kpps[1]):
        told.measure("received_rate", float(kpps[1]) * 1e3, line, name)
    iterations, _, _ = values.get("Iterations", (0.0, "", 0))
    idle, _, at = values.get("idle iterations", (0.0, "", 0))
    if iterations and at:
        told.measure("empty_polls", min(idle / iterations, 1), at, name)
    _, batch, at = values.get("Tx batches", (0.0, "", 0))
    if (size := re.match(r"([\d.]{1,9}) pkts/batch", batch)) is not None:
        told.measure("packets_per_burst", number(size[1]) or 0, at, name)
    upcalls, _, at = values.get("Upcalls", (0.0, "", 0))
    if upcalls:
        told.measure("upcalls", upcalls, at, name)
    return True


_QUEUE: Final = re.compile(r"\s*port: (\S+)\s+queue-id:\s+(\d{1,5}) \((enabled|disabled)\)\s+pmd usage:\s+(.*)")


def pmd_rxq(text: OperatorText, told: Told) -> None:
    """`ovs-appctl dpif-netdev/pmd-rxq-show`: which thread polls which queue, and how busy it is with it."""
    ports, queues, threads = set[str](), 0, 0
    for begin, name, lines in _threads(text):
        threads += 1
        usage, known = 0.0, False
        for n, line in lines:
            if (found := _QUEUE.fullmatch(line)) is not None:
                ports.add(found[1])
                queues += found[3] == "enabled"
                share = re.fullmatch(r"(\d{1,3}) %\s*", found[4])
                usage, known = usage + float(share[1]) / 100 if share else usage, known or share is not None
            elif not re.match(r"\s*(isolated|overhead)\s*:", line) and line.strip():
                told.note(f"is no queue: {shown(line)}", n)
        if known:
            told.measure("busy", min(usage, 1), begin, name)
    if not queues:
        raise text.ended("a queue of a polling thread")
    told.fact("cores", threads, None, note="polling threads")
    told.fact("ports", len(ports), None)
    told.fact("all_rx_queues", queues, None)
    _program(told, None)


def commands(text: OperatorText, told: Told) -> None:
    """`ovs-vsctl` commands: ports with their rings and queues, and the mask of cores that poll."""
    ports = queues = 0
    for n, line in text:
        try:
            words = shlex.split(line, comments=True)
        except ValueError as e:
            raise text.refuse(n, f"is no command line: {str(e).lower()}") from None
        if not words:
            continue
        settings = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
        if "ovs-vsctl" not in words[0] and "sudo" not in words[0]:
            told.note(f"is no ovs-vsctl command: {shown(line)}", n)
            continue
        if (mask := settings.get("other_config:pmd-cpu-mask")) is not None:
            told.fact("cores", _bits(text, mask, n), n, Trust.CONFIG, "bits of pmd-cpu-mask")
        if settings.get("type") == "dpdk" or "options:dpdk-devargs" in settings:
            ports += 1
            queues += _whole(text, settings.get("options:n_rxq", "1"), n)
        for option, fact in (
            ("n_rxq", "rx_queues"),
            ("n_rxq_desc", "rx_descriptors"),
            ("n_txq_desc", "tx_descriptors"),
        ):
            if (value := settings.get(f"options:{option}")) is not None:
                told.fact(fact, _whole(text, value, n), n, Trust.CONFIG)
    if not told.facts and not ports:
        raise text.ended("`pmd-cpu-mask`, or an Interface of `type=dpdk`")
    if ports:
        told.fact("ports", ports, None, Trust.CONFIG)
        told.fact("all_rx_queues", queues, None, Trust.CONFIG)
    for fact in ("rx_descriptors", "tx_descriptors"):
        told.fact(fact, 2048, None, Trust.DEFAULT, "OVS' default")
    told.fact("pool_size", _SHARED_POOL, None, Trust.DEFAULT, "OVS' shared pool")
    _program(told, None)


def _bits(text: OperatorText, mask: str, line: int) -> int:
    if re.fullmatch(r"(0x)?[0-9a-fA-F]{1,256}", mask) is None or not (bits := int(mask, 16).bit_count()):
        raise text.refuse(line, f"pmd-cpu-mask {shown(mask)}: must be hexadecimal with a bit a core, such as 0xc")
    return bits


def _whole(text: OperatorText, value: str, line: int) -> int:
    if (found := whole(value)) is None:
        raise text.refuse(line, f"came {shown(value)}; must be a whole number")
    return found
