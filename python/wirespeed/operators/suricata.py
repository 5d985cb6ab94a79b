"""Suricata: the `dpdk` section of its YAML, and its statistics as stats.log or eve.json.

Suricata counts no cycles. A statistic is a total since its start; the last of them holds, and two of them make a rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import yaml

from wirespeed.operators.facts import Told, Trust
from wirespeed.operators.texts import OperatorText, number, shown, whole

BURST: Final = 32
"""BURST_SIZE of its DPDK source."""
_NEAREST: Final = "the nearest: Aho-Corasick over payloads; decoding, flows and streams are left out"
_SETTINGS: Final[Mapping[str, str]] = {
    "rx-descriptors": "rx_descriptors",
    "tx-descriptors": "tx_descriptors",
    "mempool-cache-size": "pool_cache",
}
_AUTO: Final = "auto"


def _program(told: Told, line: int | None) -> None:
    told.fact("function", "inspect", line, Trust.DEFAULT, _NEAREST)
    told.fact("burst", BURST, line, Trust.DEFAULT, "BURST_SIZE")


def configuration(text: OperatorText, told: Told) -> None:
    """`suricata.yaml`: interfaces of DPDK with threads, rings and pools."""
    interfaces = _interfaces(text)
    default = next((each for each in interfaces if _word(each, "interface") == "default"), {})
    devices = [{**default, **each} for each in interfaces if each is not default]
    if not devices:
        raise text.ended("an entry of `dpdk: interfaces:`")
    sizes = []
    for device in devices:
        _device(text, told, device)
        if (size := _count(text, told, device, "mempool-size")) is not None:
            sizes.append(size)
    threads = [_count(text, told, device, "threads") for device in devices]
    line = _line(devices[0]["interface"]) if "interface" in devices[0] else None
    told.fact("ports", len(devices), line, Trust.CONFIG)
    known = [each for each in threads if each is not None]
    if len(known) == len(devices):
        told.fact("cores", sum(known), line, Trust.CONFIG, "threads of all interfaces")
        told.fact("all_rx_queues", sum(known), line, Trust.CONFIG, "a thread has a queue of its own")
    if len(sizes) == len(devices):
        told.fact("pool_size", sum(sizes), line, Trust.CONFIG, "mempool-size of all interfaces")
    _program(told, line)


def _device(text: OperatorText, told: Told, device: Mapping[str, yaml.Node]) -> None:
    for name, fact in _SETTINGS.items():
        if (value := _count(text, told, device, name)) is not None:
            told.fact(fact, value, _line(device[name]), Trust.CONFIG)


def _count(text: OperatorText, told: Told, device: Mapping[str, yaml.Node], name: str) -> int | None:
    """A number of a device; None where it is `auto` or left out. Raises InputError for anything else."""
    if name not in device:
        return None
    value, line = _word(device, name), _line(device[name])
    if value == _AUTO:
        told.note(f"{name} is auto: the number is Suricata's own, and is not told", line)
        return None
    if (found := whole(value)) is None:
        raise text.refuse(line, f"{name} {shown(value)}: must be a whole number or auto")
    return found


def _interfaces(text: OperatorText) -> list[dict[str, yaml.Node]]:
    """Entries of `dpdk: interfaces:`. Raises InputError with the line where it is no YAML."""
    try:
        root = yaml.compose(text.body, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark else None
        raise text.refuse(line, f"is no YAML: {e.problem or 'it breaks off'}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise text.refuse(None, "is no YAML that can be read") from None
    dpdk = _map(_map(root).get("dpdk"))
    listed = dpdk.get("interfaces")
    if not isinstance(listed, yaml.SequenceNode):
        raise text.ended("`dpdk:` with `interfaces:`")
    return [found for each in listed.value if (found := _map(each))]


def _map(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {name.value: value for name, value in node.value if isinstance(name, yaml.ScalarNode)}


def _word(device: Mapping[str, yaml.Node], name: str) -> str:
    node = device.get(name)
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


Counts = dict[str, tuple[float, int | None]]
_COUNTERS: Final[Mapping[str, str]] = {
    "capture.packets": "received",
    "capture.dpdk.imissed": "missed",
    "capture.dpdk.no_mbufs": "no_buffer",
    "capture.tx_errors": "tx_dropped",
}
_ROW: Final = re.compile(r"(\S+)\s+\| (.+?)\s+\| (-?\d{1,25})\s*")
_DATE: Final = re.compile(r"Date: .{8,40} \(uptime: (\d{1,6})d, (\d{1,2})h (\d{1,2})m (\d{1,2})s\)")


def statistics(text: OperatorText, told: Told) -> None:
    """stats.log, or the `stats` records of eve.json."""
    records = list(_eve(text) if text.documents() else _log(text, told))
    if not records:
        raise text.ended("a block of counters (`Date: …`, `Counter | TM Name | Value`)")
    _, counts = records[-1]
    for counter, name in _COUNTERS.items():
        if counter in counts:
            told.measure(name, *counts[counter], counter)
    packets, octets = counts.get("decoder.pkts"), counts.get("decoder.bytes")
    if packets and octets and packets[0] > 0 and octets[0] > 0:
        told.fact("frame_bytes", octets[0] / packets[0], octets[1], note="decoder.bytes over decoder.pkts")
    _rate(told, records)
    _program(told, None)


def _rate(told: Told, records: list[tuple[float, Counts]]) -> None:
    """What came at the port between the last two records that differ in time: decoded and missed."""
    end, last = records[-1]
    before = next(((at, counts) for at, counts in reversed(records[:-1]) if at < end), None)
    if before is None or "decoder.pkts" not in last or "decoder.pkts" not in before[1]:
        told.note("has one reading: a packet rate needs two, of different times")
        return
    names = ("decoder.pkts", "capture.dpdk.imissed")
    grown = [last[name][0] - before[1].get(name, (0.0, None))[0] for name in names if name in last]
    if min(grown) < 0:
        told.note("a counter fell between the last readings: it was reset, and there is no rate")
    elif sum(grown) > 0:
        rate = sum(grown) / (end - before[0])
        told.fact("packet_rate", rate, last["decoder.pkts"][1], note="decoded and missed between two readings")


def _log(text: OperatorText, told: Told) -> Iterator[tuple[float, Counts]]:
    at, counts = 0.0, Counts()
    for n, line in text:
        if (date := _DATE.match(line)) is not None:
            if counts:
                yield at, counts
            days, hours, minutes, seconds = (int(date[i]) for i in range(1, 5))
            at, counts = ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds, {}
        elif (row := _ROW.fullmatch(line)) is not None:
            value, _ = counts.get(row[1], (0.0, None))
            counts[row[1]] = (float(row[3]) if row[2] == "Total" else value + float(row[3])), n
        elif line.strip() and not line.startswith(("---", "Counter")):
            told.note(f"is no counter: {shown(line)}", n)
    if counts:
        yield at, counts


def _eve(text: OperatorText) -> Iterator[tuple[float, Counts]]:
    line = text.line_of('"event_type"')
    for record in text.documents():
        stats = record.get("stats") if isinstance(record, dict) else None
        if not isinstance(stats, dict):
            continue
        counts = {name: (value, line) for name, value in _flat(stats)}
        try:
            at = datetime.fromisoformat(str(record.get("timestamp"))).timestamp()
        except (ValueError, OverflowError, OSError):
            at = counts.get("uptime", (0.0, None))[0]
        yield at, counts


def _flat(stats: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    waiting: list[tuple[str, Any]] = [("", stats)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend((f"{path}.{name}" if path else str(name), each) for name, each in value.items())
        elif (found := number(value)) is not None:
            yield path, found
