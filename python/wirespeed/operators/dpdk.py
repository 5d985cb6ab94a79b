"""DPDK's own outputs: telemetry, testpmd's text, dumps of mempools, and the command lines of testpmd and l3fwd.

A counter of a port is the NIC's, one of forwarding is software's. Telemetry tells of no ring where the driver has no
call for it: the command line, which it carries, does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wirespeed.operators.facts import Told, Trust
from wirespeed.operators.texts import OperatorText, cpus, number, shown, whole

PROGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    "io": ("testpmd-io", ""),
    "mac": ("testpmd-mac", ""),
    "macswap": ("testpmd-mac", "the nearest: mac writes addresses that macswap exchanges"),
}
"""Programs of testpmd's forwarding modes, and what differs."""
_FLAGS: Final[Mapping[str, str]] = {
    "rxq": "rx_queues",
    "rxd": "rx_descriptors",
    "txd": "tx_descriptors",
    "burst": "burst",
    "mbcache": "pool_cache",
    "total-num-mbufs": "pool_size",
    "nb-cores": "cores",
}
_L3FWD: Final[Mapping[str, str]] = {
    "rx-queue-size": "rx_descriptors",
    "tx-queue-size": "tx_descriptors",
    "burst": "burst",
    "rx-burst": "burst",
    "mbcache": "pool_cache",
}
# What a flag of 0 means: whatever the driver has.
_OF_DRIVER: Final = ("rx_descriptors", "tx_descriptors", "burst")


def telemetry(text: OperatorText, told: Told) -> None:
    """Answers of DPDK's telemetry socket, together in one object or one behind the other."""
    answers = _answers(text.documents())
    if not answers:
        raise text.ended("answers such as `/ethdev/stats`")
    line = {name: text.line_of(f'"{name}"') for name, _ in answers}
    words, said = list[str](), None
    for name, answer in answers:
        command = name.partition(",")[0]
        where = line[name]
        if answer is None:
            told.note(f"{name} is not offered by this version or driver", where)
        elif command == "/ethdev/list" and isinstance(answer, list):
            if answer:
                told.fact("ports", len(answer), where)
        elif command in ("/eal/params", "/eal/app_params") and isinstance(answer, list):
            words, said = [*words, *map(str, answer)], where
        elif isinstance(answer, dict):
            _answer(told, command, answer, where)
    if words:
        _command(told, words, said)
    if not told.facts and not told.measured:
        told.note(
            "has nothing that a scenario has: ask for /eal/params, /eal/app_params, /ethdev/info and /mempool/info"
        )


def _answers(documents: Sequence[Any]) -> list[tuple[str, Any]]:
    """Each answer with the request that it answers, where that is known, else with its command."""
    found: list[tuple[str, Any]] = []
    for document in documents:
        for name, value in document.items() if isinstance(document, dict) else ():
            inner = value.get(name.partition(",")[0], value) if isinstance(value, dict) and name[:1] == "/" else value
            if name[:1] == "/":
                found.append((name, inner))
    return found


def _answer(told: Told, command: str, answer: Mapping[str, Any], line: int | None) -> None:
    if command == "/ethdev/stats":
        _port(told, answer, line)
    elif command == "/ethdev/info":
        if (queues := whole(answer.get("nb_rx_queues"))) is not None:
            told.fact("rx_queues", queues, line)
    elif command == "/ethdev/link_status":
        if (speed := number(answer.get("speed"))) and speed < 1e7:
            told.fact("link", speed * 1e6, line)
    elif command in ("/ethdev/rx_queue", "/ethdev/tx_queue"):
        if (ring := whole(answer.get("nb_desc"))) is not None:
            told.fact(f"{command[8:10]}_descriptors", ring, line)
    elif command == "/mempool/info":
        pool(told, {name: str(value) for name, value in answer.items()}, line)
    elif command == "/eal/lcore/usage":
        _usage(told, answer, line)


def _port(told: Told, answer: Mapping[str, Any], line: int | None) -> None:
    names = {"ipackets": "received", "imissed": "missed", "rx_nombuf": "no_buffer"}
    for name, measured in names.items():
        if (value := number(answer.get(name))) is not None:
            told.measure(measured, value, line)
    packets, octets = number(answer.get("ipackets")), number(answer.get("ibytes"))
    if packets and octets:
        told.fact("frame_bytes", octets / packets, line, note="bytes over packets")


def _usage(told: Told, answer: Mapping[str, Any], line: int | None) -> None:
    columns = [answer.get(name) for name in ("lcore_ids", "busy_cycles", "total_cycles")]
    if not all(isinstance(column, list) for column in columns):
        return
    for lcore, busy, total in zip(*columns, strict=False):
        part, whole_ = number(busy), number(total)
        if part is not None and whole_:
            told.measure("busy", part / whole_, line, f"lcore {lcore}")


def pool(told: Told, fields: Mapping[str, str], line: int | None) -> None:
    """What a mempool tells of itself, in telemetry or in a dump."""
    values = {name: whole(value) for name, value in fields.items()}
    if (size := values.get("size")) is None:
        return
    told.fact("pool_size", size, line)
    if (cache := values.get("cache_size")) is not None:
        told.fact("pool_cache", cache, line)
    parts = [values.get(name) for name in ("elt_size", "header_size", "trailer_size")]
    known = [part for part in parts if part is not None]
    element = values.get("total_obj_size") or (sum(known) if len(known) == len(parts) else None)
    if element:
        told.fact("pool_element", element, line)
    cached, common = values.get("total_cache_count"), values.get("common_pool_count")
    if cached is not None and common is not None and cached + common <= size:
        told.measure("pool_used", size - cached - common, line)


def mempools(text: OperatorText, told: Told) -> None:
    """Dumps of mempools, as testpmd's `dump_mempool` and OVS' `netdev-dpdk/get-mempool-info` print them."""
    found = list(_dumps(text))
    if not any("size" in fields for _, fields in found):
        raise text.ended("`size=` of a mempool")
    for line, fields in found:
        pool(told, fields, line)
        if (ops := fields.get("ops_name", "")).strip("<>"):
            told.fact("pool_order", "lifo" if "stack" in ops else "fifo", line, note=ops)


def _dumps(text: OperatorText) -> Iterator[tuple[int, dict[str, str]]]:
    begin, fields = 0, dict[str, str]()
    for n, line in text:
        if re.match(r"mempool <.{1,200}>@", line):
            if fields:
                yield begin, fields
            begin, fields = n, {}
        elif begin and (pair := re.fullmatch(r"\s+(\w+)(?:=|: )(\S+)", line)) is not None:
            fields.setdefault(pair[1], pair[2])
        elif not line.startswith(" "):
            if fields:
                yield begin, fields
            begin, fields = 0, {}
    if fields:
        yield begin, fields


# Marks of testpmd's text. Echoed commands may cut any line, so each is looked for on its own.
_POOL: Final = re.compile(r"testpmd: create a new mbuf pool <.*>: n=(\d{1,12}), size=(\d{1,12}), socket=\d+")
_MODE: Final = re.compile(r"\s*(\w+) packet forwarding - ports=(\d{1,6}) - cores=(\d{1,6}) - streams=(\d{1,6}).*")
_BURST: Final = re.compile(r"\s*\w+ packet forwarding packets/burst=(-?\d{1,9})")
_QUEUES: Final = re.compile(r"\s*port \d+: RX queue number: (-?\d{1,9}) Tx queue number: (-?\d{1,9})")
_DESC: Final = re.compile(r"\s*(RX|TX) desc=(-?\d{1,12}) - .*")
_CYCLES: Final = re.compile(
    r"\s*CPU cycles/packet=(-?[\d.]{1,20}) \((total|busy) cycles=\d+ / total \w+ packets=\d+\) at (\d{1,6}) MHz Clock"
)
_BURSTS: Final = re.compile(r"\s*RX-bursts : (\d{1,20}) \[(.*)\]")
_PPS: Final = re.compile(r"\s*Rx-pps:\s+(-?\d{1,20})\s+Rx-bps:\s+(-?\d{1,25})")
_INFO: Final[Mapping[str, str]] = {
    "Max possible number of RXDs per queue": "rx_most",
    "Min possible number of RXDs per queue": "rx_least",
    "RXDs number alignment": "rx_multiple",
}


def testpmd(text: OperatorText, told: Told) -> None:
    """What dpdk-testpmd prints: its configuration, its ports, and how many cycles a packet took it."""
    for n, line in text:
        _configured(told, line, n)
        _device(told, line, n)
    if not any(fact.name in ("cores", "rx_descriptors", "burst") for fact in told.facts) and not _has_counts(text):
        raise text.ended("testpmd's configuration (`show config fwd`) or statistics")
    _counted(text, told)
    told.facts.reverse()  # what is printed last is what holds
    told.facts.sort(key=lambda fact: -fact.trust)


def _has_counts(text: OperatorText) -> bool:
    return "NIC statistics for port" in text.body or "Forward statistics" in text.body


def _configured(told: Told, line: str, n: int) -> None:
    if (found := _POOL.fullmatch(line)) is not None:
        told.fact("pool_size", int(found[1]), n)
    elif (found := _MODE.fullmatch(line)) is not None:
        told.fact("ports", int(found[2]), n)
        told.fact("cores", int(found[3]), n)
        told.fact("all_rx_queues", int(found[4]), n, note="streams")
        _mode(told, found[1], n, Trust.RUNNING)
    elif (found := _BURST.fullmatch(line)) is not None:
        told.fact("burst", int(found[1]), n)
    elif (found := _QUEUES.fullmatch(line)) is not None:
        told.fact("rx_queues", int(found[1]), n)
    elif (found := _DESC.fullmatch(line)) is not None:
        if found[2] == "0":
            told.note(f"{found[1]} descriptors are the driver's own number, which is not told", n)
        else:
            told.fact(f"{found[1].lower()}_descriptors", int(found[2]), n)
    elif (found := re.fullmatch(r"testpmd: preferred mempool ops selected: (\w+)", line)) is not None:
        told.fact("pool_order", "lifo" if "stack" in found[1] else "fifo", n, note=found[1])


def _mode(told: Told, mode: str, line: int | None, trust: Trust) -> None:
    program, differs = PROGRAMS.get(mode, ("testpmd-mac", f"the nearest: there is no testpmd {mode}"))
    told.fact("program", program, line, trust, differs)
    if differs:
        told.note(f"testpmd in mode {mode} is taken as {program}: {differs}", line)


def _device(told: Told, line: str, n: int) -> None:
    name, _, value = line.partition(": ")
    if name == "Driver name":
        told.fact("driver", value.strip().removeprefix("net_"), n)
    elif name == "Link speed" and (speed := re.fullmatch(r"([\d.]{1,9}) ([GM])bps\s*", value)) is not None:
        told.fact("link", (number(speed[1]) or 0) * {"G": 1e9, "M": 1e6}[speed[2]], n)
    elif name in _INFO and (limit := whole(value)) is not None:
        told.fact(_INFO[name], limit, n)
    elif name == "Devargs" and (size := re.search(r"\bsize=(\d{1,6})", value)) is not None:
        told.fact("frame_bytes", int(size[1]), n, note="the null device's")


def _counted(text: OperatorText, told: Told) -> None:
    """Measurements: of each port the last block, and cycles as they were printed last."""
    last: dict[str, tuple[str, float, int, str]] = {}
    port, rates = "", dict[str, tuple[float, int]]()
    for n, line in text:
        if (found := re.search(r"(NIC|Forward) statistics for port (\d{1,6})", line)) is not None:
            port = f"{found[1]} port {found[2]}"
        elif (found := re.search(r"RX-packets: (-?\d{1,25})\s+RX-missed: (-?\d{1,25})", line)) is not None:
            last[f"{port} received"] = "received", float(found[1]), n, port
            last[f"{port} missed"] = "missed", float(found[2]), n, port
        elif (found := re.search(r"RX-nombuf:\s+(-?\d{1,25})", line)) is not None:
            last[f"{port} nombuf"] = "no_buffer", float(found[1]), n, port
        elif (found := re.search(r"TX-packets: \d+\s+TX-dropped: (-?\d{1,25})", line)) is not None and "Forw" in port:
            last[f"{port} tx"] = "tx_dropped", float(found[1]), n, port
        elif (found := _PPS.fullmatch(line)) is not None and float(found[1]) > 0:
            rates[port] = float(found[1]), n
        elif (found := _CYCLES.fullmatch(line)) is not None:
            name = "work_per_packet" if found[2] == "busy" else "cycles_per_packet"
            last[name] = name, number(found[1]) or 0, n, ""
            told.fact("tsc", float(found[3]) * 1e6, n)
        elif (found := _BURSTS.fullmatch(line)) is not None and (mean := _mean_burst(found[2])) is not None:
            last[f"{port} bursts"] = "packets_per_burst", mean, n, port
    for name, value, place, of in last.values():
        told.measure(name, value, place, of)
    if rates:
        rate, place = sum(value for value, _ in rates.values()), max(n for _, n in rates.values())
        told.fact("packet_rate", rate, place, note="Rx-pps of all ports, since the show before")


def _mean_burst(shares: str) -> float | None:
    """The mean of `12% of 0 pkts + 80% of 32 pkts + 8% of other`; what is other has no size and is left out."""
    found = [(float(part[1]), float(part[2])) for part in re.finditer(r"(\d{1,3})% of (\d{1,5}) pkts", shares)]
    known = sum(share for share, size in found if size > 0)
    return sum(share * size for share, size in found) / known if known else None


def command_line(text: OperatorText, told: Told) -> None:
    """A command line of dpdk-testpmd or dpdk-l3fwd, which may go over several lines."""
    for n, words in _commands(text):
        program = words[0].rpartition("/")[2]
        if "testpmd" in program or "l3fwd" in program:
            _command(told, words, n)
        else:
            told.note(f"is no command line that is known: {shown(' '.join(words))}", n)
    if not told.facts:
        raise text.ended("options of dpdk-testpmd or dpdk-l3fwd")


def _commands(text: OperatorText) -> Iterator[tuple[int, list[str]]]:
    waiting, begin = "", 1
    for n, line in text:
        begin = begin if waiting else n
        if line.rstrip().endswith("\\"):
            waiting += line.rstrip()[:-1] + " "
            continue
        try:
            words = shlex.split(waiting + line, comments=True)
        except ValueError as e:
            raise text.refuse(begin, f"is no command line: {str(e).lower()}") from None
        waiting = ""
        if words and words[0] in ("sudo", "$", "#"):
            words = words[1:]
        if words:
            yield begin, words
    if waiting:
        raise text.refuse(begin, "a command line goes on (`\\`), and the file ends; save all of it")


def _command(told: Told, words: Sequence[str], line: int | None) -> None:
    """What the words of a command line set; those of telemetry come in two parts, EAL's and the program's."""
    is_l3fwd = "l3fwd" in words[0] if words else False
    options = dict(_options(words))
    flags = _L3FWD if is_l3fwd or "config" in options else _FLAGS
    for name, fact in flags.items():
        if name not in options:
            continue
        value = whole(options[name])
        if value is None:
            where = told.file if line is None else f"{told.file}:{line}"
            raise OperatorText(where, "").refuse(None, f"--{name} {shown(options[name])}: must be a whole number")
        if value == 0 and fact in _OF_DRIVER:
            told.note(f"--{name}=0 is the driver's own number, which is not told", line)
        else:
            told.fact(fact, value, line, Trust.COMMAND)
    if (ops := options.get("mbuf-pool-ops-name")) is not None:
        told.fact("pool_order", "lifo" if "stack" in ops else "fifo", line, Trust.COMMAND, ops)
    if flags is _L3FWD:
        _l3fwd(told, options, line)
    elif "testpmd" in words[0] or "forward-mode" in options:
        _testpmd(told, options, line)
    if (ports := [words[i + 1] for i, word in enumerate(words[:-1]) if word in ("-a", "--allow")]) or "vdev" in options:
        count = len(ports) + sum(word.startswith("--vdev") for word in words)
        told.fact("ports", count, line, Trust.COMMAND)
    if (size := re.search(r"net_null\w*,.*\bsize=(\d{1,6})", " ".join(words))) is not None:
        told.fact("frame_bytes", int(size[1]), line, Trust.COMMAND, "the null device's")
        told.fact("driver", "null", line, Trust.COMMAND)


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if re.fullmatch(r"--[a-z][a-z0-9-]+", name):
            after = words[place + 1] if place + 1 < len(words) else ""
            yield name[2:], value if equals else "" if after.startswith("-") else after
        elif re.fullmatch(r"-[a-zA-Z]", word) and place + 1 < len(words):
            yield word[1:], words[place + 1]


def _testpmd(told: Told, options: Mapping[str, str], line: int | None) -> None:
    _mode(told, options.get("forward-mode") or "io", line, Trust.COMMAND)
    for name, value in (("cores", 1), ("burst", 32), ("pool_cache", 250), ("rx_queues", 1)):
        told.fact(name, value, line, Trust.DEFAULT, "testpmd's default")


def _l3fwd(told: Told, options: Mapping[str, str], line: int | None) -> None:
    told.fact("program", "l3fwd", line, Trust.COMMAND)
    tuples = re.findall(r"\((\d{1,4}),(\d{1,4}),(\d{1,5})\)", options.get("config", ""))
    if tuples:
        told.fact("cores", len({lcore for _, _, lcore in tuples}), line, Trust.COMMAND)
        told.fact("ports", len({port for port, _, _ in tuples}), line, Trust.COMMAND)
        told.fact("all_rx_queues", len(tuples), line, Trust.COMMAND)
    elif "l" in options and (found := cpus(options["l"])):
        told.fact("cores", len(found), line, Trust.COMMAND)
    for name, value in (("burst", 32), ("rx_descriptors", 1024), ("tx_descriptors", 1024), ("pool_cache", 512)):
        told.fact(name, value, line, Trust.DEFAULT, "l3fwd's default")
    told.note("l3fwd makes its pool itself: max(8192, rings, bursts and caches)", line)
