"""VPP's outputs: `show hardware-interfaces`, `show runtime` and `show buffers`; and `startup.conf`.

Cycles are those of the TSC. A node's clocks are a packet's; of a node that is called without packets, a call's. Left
out: interfaces of VPP's own drivers other than DPDK's and rdma, memif, and what `show errors` has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from wirespeed.operators.facts import Node, Told, Trust
from wirespeed.operators.texts import OperatorText, cpus, number, shown, size, whole

VECTOR: Final = 256
"""Packets of a frame, VLIB_FRAME_SIZE: fixed when VPP is built."""
_PLUGIN: Final = "vpp-ip4-dpdk"
_RING: Final = re.compile(
    r"\s+(rx|tx): queues (\d{1,9}) \(max \d+\), desc (-?\d{1,20}) "
    r"\(min (\d{1,9}) max (\d{1,9}) align (\d{1,9})\)"
)
_LINK: Final = re.compile(r"\s+Link speed: ([\d.]{1,9}) ([GM])bps")
_COUNTER: Final = re.compile(r"\s+(rx frames ok|rx bytes ok|rx missed|rx no bufs|tx errors)\s+(-?\d{1,25})")
_FAMILY: Final = re.compile(r"\s{2,4}(Intel|Mellanox|Broadcom|Amazon|Virtio|VMware|Cisco)\b.*")
_PCI: Final = re.compile(r"\s+pci: device ([0-9a-f]{4}):([0-9a-f]{4}) .*")


def hardware(text: OperatorText, told: Told) -> None:
    """`show hardware-interfaces`: ports, rings, queues, and what the NIC lost."""
    ports = 0
    received: tuple[float, int] | None = None
    for n, line in text:
        if (found := _RING.fullmatch(line)) is not None:
            ports += found[1] == "rx"
            _ring(told, found, n)
        elif (found := _LINK.fullmatch(line)) is not None and (speed := number(found[1])):
            told.fact("link", speed * {"G": 1e9, "M": 1e6}[found[2]], n)
        elif (found := _FAMILY.fullmatch(line)) is not None:
            told.fact("nic", line.strip(), n)
        elif (found := _PCI.fullmatch(line)) is not None:
            told.fact("nic_id", f"{found[1]}:{found[2]}", n)
        elif (found := re.match(r"\s+rx burst function: (\w+?)_recv", line)) is not None:
            told.fact("driver", found[1], n)
        elif (found := _COUNTER.fullmatch(line)) is not None:
            received = _counter(told, found, n, received)
    if not ports:
        raise text.ended("a port of DPDK (`rx: queues …, desc …`)")
    told.fact("ports", ports, None)


def _ring(told: Told, found: re.Match[str], line: int) -> None:
    way = found[1]
    told.fact(f"{way}_descriptors", int(found[3]), line)
    if way == "rx":
        told.fact("rx_queues", int(found[2]), line)
        told.fact("rx_least", int(found[4]), line)
        told.fact("rx_most", int(found[5]), line)
        told.fact("rx_multiple", max(1, int(found[6])), line)


def _counter(
    told: Told, found: re.Match[str], line: int, received: tuple[float, int] | None
) -> tuple[float, int] | None:
    """Takes a counter; what was received is kept for the bytes that follow."""
    name, value = found[1], int(found[2])
    measured = {"rx frames ok": "received", "rx missed": "missed", "rx no bufs": "no_buffer", "tx errors": "tx_dropped"}
    if name in measured:
        told.measure(measured[name], value, line)
    if name == "rx frames ok":
        return value, line
    if name == "rx bytes ok" and received is not None and received[0] > 0:
        told.fact("frame_bytes", value / received[0], line, note="bytes over packets")
    return received


# Columns of a node: calls, vectors, suspends, clocks, vectors a call. A state may be two words.
_THREAD: Final = re.compile(r"Thread (\d{1,6}) (\S+)(?: \(lcores? [\d, ]+\))?")
_TIME: Final = re.compile(r"Time ([\d.]{1,20}), .*")
_RATES: Final = re.compile(r"\s*vector rates in ([\d.e+]{1,20}), out ([\d.e+]{1,20}), drop ([\d.e+]{1,20}).*")
_NODE: Final = re.compile(
    r"(?P<name>\S+)\s+(?P<state>[a-z][a-z -]*?)\s+(?P<calls>-?\d{1,25})\s+(?P<vectors>-?\d{1,25})\s+\d{1,25}\s+"
    r"(?P<clocks>-?[\d.]+(?:e[-+]?\d{1,3})?)\s+(?P<a_call>-?[\d.]+)"
)
_POLLS: Final = ("polling", "interrupt", "interrupt wa")


@dataclass(slots=True)
class _Thread:
    name: str
    line: int
    nodes: list[tuple[Node, float, float, str]] = field(default_factory=list)
    """A node, its packets, its calls and its state."""
    rate: float | None = None

    @property
    def packets(self) -> float:
        """What its input nodes took in."""
        return sum(vectors for node, vectors, _, _ in self.nodes if node.name.endswith("-input") and _is_input(node))

    def total(self, nodes: list[Node]) -> float:
        weights = {id(node): vectors or calls for node, vectors, calls, _ in self.nodes}
        return sum(node.cycles * weights[id(node)] for node in nodes)


def _is_input(node: Node) -> bool:
    """Whether a node takes packets from a device."""
    return node.name.removesuffix("-input") in ("dpdk", "rdma", "avf", "memif", "virtio", "af-packet", "vmxnet3", "tap")


def runtime(text: OperatorText, told: Told) -> None:
    """`show runtime`: where cycles go, node by node, and packets a vector."""
    threads, column = _threads(text, told)
    workers = [thread for thread in threads if thread.packets > 0]
    if not threads or not any(thread.nodes for thread in threads):
        raise text.ended("nodes of a thread (`clear runtime`, wait, `show runtime`)")
    if column == "Packet-Time":
        raise text.refuse(text.line_of(column), "has times and no clocks; leave `time` out of `show runtime`")
    named = [thread for thread in threads if thread.name.startswith("vpp_wk")]
    told.fact("cores", len(named) or 1, (named or threads)[0].line)
    if not workers:
        told.note("no thread took a packet in: send traffic, `clear runtime`, wait, `show runtime`")
    for thread in workers:
        _measure(told, thread)
    rates = [thread.rate for thread in workers if thread.rate]
    if rates:
        told.fact("packet_rate", sum(rates), workers[0].line, note="`vector rates in` of all threads")
    if workers:
        busiest = max(workers, key=lambda thread: thread.packets)
        told.nodes = [node for node, vectors, _, _ in busiest.nodes if vectors]
        _program(told, busiest)


def _threads(text: OperatorText, told: Told) -> tuple[list[_Thread], str]:
    found: list[_Thread] = []
    column = ""
    for n, line in text:
        if (begin := _THREAD.fullmatch(line.strip())) is not None:
            found.append(_Thread(begin[2], n))
        elif not found and _TIME.match(line):
            found.append(_Thread("vpp_main", n))  # without workers older versions print no thread
        elif (rates := _RATES.match(line)) is not None and found:
            found[-1].rate = number(rates[1])
        elif (node := _NODE.fullmatch(line.strip())) is not None and found:
            _take(found[-1], node, told.file, n)
        elif (head := re.search(r"\b(Clocks|Packet-Clocks|Packet-Time|Max Node Clocks)\b", line)) is not None:
            column = head[1]
        elif line.strip() and not _TIME.match(line) and not line.startswith("---"):
            told.note(f"is no node: {shown(line)}", n)
    return found, column


def _take(thread: _Thread, found: re.Match[str], file: str, line: int) -> None:
    clocks, calls, vectors = number(found["clocks"]), float(found["calls"]), float(found["vectors"])
    if clocks is None or min(clocks, calls, vectors) < 0:
        raise OperatorText(file, "").refuse(line, f"node {found['name']} has a number below 0; counters never have")
    node = Node(found["name"], clocks, number(found["a_call"]), f"{file}:{line}")
    thread.nodes.append((node, vectors, calls, found["state"]))


def _measure(told: Told, thread: _Thread) -> None:
    """Cycles a packet of a thread, with polls that find nothing and without its input node, and packets a vector."""
    per_packet = [node for node, vectors, calls, state in thread.nodes if vectors or state in _POLLS]
    told.measure("cycles_per_packet", thread.total(per_packet) / thread.packets, thread.line, thread.name)
    inner = [node for node, vectors, _, _ in thread.nodes if vectors and not _is_input(node)]
    if inner:
        told.measure("inner_per_packet", thread.total(inner) / thread.packets, thread.line, thread.name)
    sizes = [
        (vectors, vectors / calls)
        for node, vectors, calls, _ in thread.nodes
        if calls and vectors and not _is_input(node)
    ]
    if sizes:
        told.measure("packets_per_burst", max(sizes)[1], thread.line, thread.name)
    told.measure("received", thread.packets, thread.line, thread.name)
    if thread.rate is not None:
        told.measure("received_rate", thread.rate, thread.line, thread.name)


def _program(told: Told, thread: _Thread) -> None:
    """The shipped program whose nodes these are."""
    names = {node.name for node, vectors, _, _ in thread.nodes if vectors}
    line = thread.line
    told.fact("burst", VECTOR, line, note="VLIB_FRAME_SIZE")
    if "ip4-lookup" in names:
        own = "rdma-input" in names or "avf-input" in names
        told.fact("program", "vpp-ip4" if own else _PLUGIN, line, note="ip4-lookup took packets")
    elif "l2-patch" in names:
        told.fact("program", "vpp-l2patch", line, note="l2-patch took packets")
    elif "l2-input" in names:
        told.fact("program", "vpp-l2xc", line, note="l2-input took packets")
    else:
        told.fact("program", _PLUGIN, line, Trust.DEFAULT, "the nearest: no node of a shipped VPP path took packets")
    extra = sorted(name for name in names - _KNOWN if not _OF_INTERFACE.fullmatch(name))
    if extra:
        told.note(f"nodes that the program leaves out: {', '.join(extra[:8])}{' …' if len(extra) > 8 else ''}", line)


# Nodes of an interface, whose names are cut where they are long.
_OF_INTERFACE: Final = re.compile(r".*\d(-output|-tx|-ou?|-t)")
_KNOWN: Final = {
    "dpdk-input",
    "rdma-input",
    "ethernet-input",
    "ip4-input",
    "ip4-input-no-checksum",
    "ip4-lookup",
    "ip4-rewrite",
    "ip4-load-balance",
    "interface-output",
    "l2-input",
    "l2-output",
    "l2-fwd",
    "l2-patch",
}


def buffers(text: OperatorText, told: Told) -> None:
    """`show buffers`: the pools, whose columns run together where numbers are wide."""
    total = used = 0
    begun = False
    for n, line in text:
        if "Pool Name" in line and "Total" in line:
            begun = True
        elif begun and line.strip():
            row = re.fullmatch(r"(\S.*?)\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)", line.strip())
            if row is None or any(len(row[i]) > 12 for i in range(2, 7)):
                told.note(f"is no pool, or its columns run together: {shown(line)}", n)
                continue
            total += int(row[3])
            used += int(row[6])
            if (element := re.search(r"\s(\d{3,6})$", row[1])) is not None:
                told.fact("pool_element", int(element[1]), n, note="Size")
            told.fact("pool_size", int(row[3]), n)
    if not begun or not total:
        raise text.ended("a pool below `Pool Name … Total Avail Cached Used`")
    told.measure("pool_used", used, None)
    told.fact("pool_order", "lifo", None, Trust.DEFAULT, "vlib keeps a stack a thread")


@dataclass(slots=True)
class _Section:
    words: list[str]
    line: int
    parts: list[_Section] = field(default_factory=list)


def startup(text: OperatorText, told: Told) -> None:
    """`startup.conf`: workers, rings, queues and buffers."""
    root = _parsed(text)
    sections = {part.words[0]: part for part in root.parts}
    _strange(told, root)
    if "cpu" in sections:
        _cpu(text, told, sections["cpu"])
    if "buffers" in sections:
        for setting in sections["buffers"].parts:
            if setting.words[0] == "buffers-per-numa" and len(setting.words) > 1:
                told.fact("pool_size", _counted(text, setting), setting.line, Trust.CONFIG)
    if "dpdk" in sections:
        _devices(text, told, sections["dpdk"])
    if not told.facts:
        raise text.ended(
            "a setting that a scenario has: cpu { corelist-workers }, buffers { buffers-per-numa }, dpdk { dev }"
        )
    told.fact("burst", VECTOR, None, Trust.DEFAULT, "VLIB_FRAME_SIZE")
    told.fact("program", _PLUGIN, None, Trust.DEFAULT, "a configuration tells no path: IPv4 is assumed")
    told.fact("pool_order", "lifo", None, Trust.DEFAULT, "vlib keeps a stack a thread")


_NAME: Final = re.compile(r"[A-Za-z_/][\w./-]*|[\w:.]+")


def _strange(told: Told, root: _Section) -> None:
    """Notes what is no name of a setting, and what stands outside of sections."""
    waiting = [(part, True) for part in root.parts]
    while waiting:
        part, is_outside = waiting.pop()
        if _NAME.fullmatch(part.words[0]) is None or (is_outside and not part.parts and len(part.words) > 1):
            told.note(f"is no setting, and is passed over: {shown(' '.join(part.words))}", part.line)
        waiting.extend((inner, False) for inner in part.parts)


def _cpu(text: OperatorText, told: Told, section: _Section) -> None:
    for setting in section.parts:
        if setting.words[0] == "corelist-workers":
            found = cpus(" ".join(setting.words[1:]))
            if not found:
                raise text.refuse(setting.line, f"corelist-workers {shown(' '.join(setting.words[1:]))}: write 2-3,5")
            told.fact("cores", len(found), setting.line, Trust.CONFIG)
        elif setting.words[0] == "workers":
            told.fact("cores", _counted(text, setting), setting.line, Trust.CONFIG)


_DEVICE: Final = {
    "num-rx-queues": "rx_queues",
    "num-tx-queues": "",
    "num-rx-desc": "rx_descriptors",
    "num-tx-desc": "tx_descriptors",
}


def _devices(text: OperatorText, told: Told, section: _Section) -> None:
    """Devices, each with what `dev default` says and it does not; a device overrides setting by setting."""
    default: dict[str, tuple[int, int]] = {}
    devices: list[dict[str, tuple[int, int]]] = []
    for part in section.parts:
        if part.words[0] != "dev" or len(part.words) < 2:
            continue
        own = {
            setting.words[0]: (_counted(text, setting), setting.line)
            for setting in part.parts
            if setting.words[0] in _DEVICE
        }
        if part.words[1] == "default":
            default = own
        else:
            devices.append(own)
    for device in devices or [{}]:
        for name, (value, line) in {**default, **device}.items():
            if _DEVICE[name]:
                told.fact(_DEVICE[name], value, line, Trust.CONFIG)
    if devices:
        told.fact("ports", len(devices), section.line, Trust.CONFIG)
        queues = [{"num-rx-queues": (1, section.line), **default, **device}["num-rx-queues"][0] for device in devices]
        told.fact("all_rx_queues", sum(queues), section.line, Trust.CONFIG)


def _counted(text: OperatorText, setting: _Section) -> int:
    value = setting.words[1] if len(setting.words) > 1 else ""
    found = whole(value)
    if found is None:
        found = size(value)
    if found is None:
        raise text.refuse(setting.line, f"{setting.words[0]} {shown(value)}: must be a whole number")
    return found


def _parsed(text: OperatorText) -> _Section:
    """The tree of braces: a setting is the words of its line, a section what stands before its brace."""
    root = _Section([], 1)
    stack = [root]
    words: list[str] = []
    at = 1
    for n, token in _tokens(text):
        if token == "{":
            if not words:
                raise text.refuse(n, "came `{` without a name before it")
            stack[-1].parts.extend(_Section(each, at) for each in _settings(words))
            stack.append(stack[-1].parts[-1])
            words = []
        elif token in ("}", "\n"):
            if words:
                stack[-1].parts.extend(_Section(each, at) for each in _settings(words))
                words = []
            if token == "}":
                if len(stack) == 1:
                    raise text.refuse(n, "came `}` that closes nothing")
                stack.pop()
        else:
            at = n if not words else at
            words.append(token)
    if len(stack) > 1:
        raise text.refuse(stack[-1].line, f"`{' '.join(stack[-1].words)} {{` is never closed; save the whole file")
    return root


# What begins a setting where several stand on one line.
_KEYS: Final = {
    *_DEVICE,
    "dev",
    "main-core",
    "corelist-workers",
    "workers",
    "skip-cores",
    "buffers-per-numa",
    "default",
    "page-size",
    "plugin",
    "no-multi-seg",
    "no-tx-checksum-offload",
    "uio-driver",
    "telemetry",
    "name",
}


def _settings(words: list[str]) -> Iterator[list[str]]:
    """Settings that stand on one line; the word behind `dev` and `plugin` is a name, even where it is `default`."""
    found: list[str] = []
    for word in words:
        if found and word in _KEYS and found not in (["dev"], ["plugin"]):
            yield found
            found = []
        found.append(word)
    if found:
        yield found


def _tokens(text: OperatorText) -> Iterator[tuple[int, str]]:
    for n, line in text:
        bare = line.partition("#")[0]
        for token in re.findall(r"[{}]|[^\s{}]+", bare):
            yield n, token
        yield n, "\n"
