"""Kinds of files that are known, told apart by what they hold, and read.

A file may hold outputs of several commands behind each other: each kind whose mark it has reads it. Where nothing is
recognised, or a kind that is asked for does not fit, the error lists what is known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wirespeed.errors import InputError, nearest
from wirespeed.operators import (
    counters,
    dpdk,
    ethtool,
    grout,
    hosts,
    openvswitch,
    suricata,
    vpp,
)
from wirespeed.operators.facts import Told
from wirespeed.operators.texts import CUT, OperatorText, opened, shown


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """A kind of file: what prints it, how it is recognised and how it is read."""

    name: str
    source: str
    """The command that prints it, or the file that it is."""
    read: Callable[[OperatorText, Told], None]
    mark: str = ""
    """A pattern that a line of its text has and no other kind's; empty where it is JSON alone."""
    holds: Callable[[Any], bool] | None = None
    """Whether a JSON document is of this kind."""
    line: str = ""
    """What each line looks like, where its reader does not say itself which one it does not know."""


# Lines of threads of Open vSwitch, and of their histograms.
_PMD: Final = (
    r"Time:.*|Measurement.*|Displaying.*|pmd thread.*|main thread.*|Histograms.*|-+"
    r"|\s+-?\s*[A-Za-z][\w.() /]*(:|\s).*|\s+[\d>].*"
)
# Lines of `name: value`, and their headings.
_PAIRS: Final = r"\s*[A-Za-z][\w ,()./-]*:.*"


def _with_key(*names: str) -> Callable[[Any], bool]:
    """Whether a document is an object with one of these keys."""
    return lambda document: isinstance(document, dict) and any(name in document for name in names)


def _answers(document: Any) -> bool:
    return isinstance(document, dict) and any(re.match(r"/(ethdev|eal|mempool|ring|info)\b", name) for name in document)


def _hardware(document: Any) -> bool:
    rows = document if isinstance(document, list) else [document]
    return any(isinstance(row, dict) and "class" in row and "id" in row for row in rows)


def _stats(document: Any) -> bool:
    return isinstance(document, dict) and document.get("event_type") == "stats"


# A value, a unit, an event and its time; something before the value where options ask for it.
_PERF: Final = (
    r"^[^#{\n]*,(<not (supported|counted)>|[\d.]+),\w*,[A-Za-z][\w.:/=-]*,\d+,\d"
    r"|^(<not \w+>|[\d.]+)[,;]\w*[,;][A-Za-z][\w.:/=-]*[,;]\d+[,;]"
)

# In the order in which parts of one file are told. Marks are of one line each, matched with re.MULTILINE.
KINDS: Final = (
    OperatorKind("lscpu", "lscpu, lscpu -J", hosts.lscpu, r"^Model name:\s", _with_key("lscpu"), line=_PAIRS),
    OperatorKind(
        "lscpu-caches",
        "lscpu --caches, also -J",
        hosts.lscpu_caches,
        r"^NAME\s.*ONE-SIZE",
        _with_key("caches"),
        line=r"(NAME|L\d[a-z]?)\s.*",
    ),
    OperatorKind(
        "numactl", "numactl -H", hosts.numactl, r"^available: \d+ nodes? \(", line=r"(available|node|\s*\d+:).*"
    ),
    OperatorKind("lshw", "lshw -json", hosts.lshw, holds=_hardware),
    OperatorKind(
        "dmidecode",
        "dmidecode -t memory",
        hosts.dmidecode,
        r"^(# dmidecode|Handle 0x[0-9A-F]+, DMI type)",
        line=r"(#|Handle |Getting |SMBIOS|\d+ structures|Table at).*|\s+[A-Za-z].*|[A-Z][\w /()-]*",
    ),
    OperatorKind("ethtool-i", "ethtool -i DEV", ethtool.info, r"^(bus-info|expansion-rom-version):", line=_PAIRS),
    OperatorKind("ethtool-g", "ethtool -g DEV", ethtool.rings, r"^Ring parameters for \S+:", line=_PAIRS),
    OperatorKind("ethtool-l", "ethtool -l DEV", ethtool.channels, r"^Channel parameters for \S+:", line=_PAIRS),
    OperatorKind("ethtool-c", "ethtool -c DEV", ethtool.coalescing, r"^Coalesce parameters for \S+:", line=_PAIRS),
    OperatorKind("ethtool-k", "ethtool -k DEV", ethtool.features, r"^Features for \S+:", line=_PAIRS),
    OperatorKind("ethtool-S", "ethtool -S DEV", ethtool.statistics, r"^NIC statistics:"),
    OperatorKind(
        "vpp-hardware",
        "vppctl show hardware-interfaces",
        vpp.hardware,
        r"^[ \t]+rx: queues \d+ \(max|^ +Name +Idx +Link +Hardware",
        line=r"\s{2,}\S.*|\S+\s+\d+\s+(up|down)\s.*",
    ),
    OperatorKind(
        "vpp-runtime", "vppctl show runtime", vpp.runtime, r"^[ \t]*Name\s+State\s+Calls\s+Vectors|vector rates in "
    ),
    OperatorKind(
        "vpp-buffers",
        "vppctl show buffers",
        vpp.buffers,
        r"^Pool Name\s+Index\s+NUMA",
        line=r"Pool Name.*|\S+(\s+\d+){2,}.*",
    ),
    OperatorKind("vpp-startup", "VPP's startup.conf", vpp.startup, r"^[ \t]*(cpu|buffers|dpdk|unix)\s*\{"),
    OperatorKind("telemetry", "dpdk-telemetry.py, answers by request", dpdk.telemetry, holds=_answers),
    OperatorKind(
        "testpmd",
        "dpdk-testpmd's output",
        dpdk.testpmd,
        r"^testpmd[:>]|packet forwarding - ports=|NIC statistics for port \d|Forward statistics for port \d",
    ),
    OperatorKind(
        "command",
        "a command line of dpdk-testpmd or dpdk-l3fwd",
        dpdk.command_line,
        r"^[ \t]*(sudo )?\S*(testpmd|l3fwd)\s+(-|\\)",
    ),
    OperatorKind(
        "mempool",
        "a dump of mempools: dump_mempool, netdev-dpdk/get-mempool-info",
        dpdk.mempools,
        r"^mempool <.*>@",
        line=r"mempool .*|ring .*|\s+[a-z][\w \[\]/:]*[=:].*|\s+(no statistics|internal cache|stats).*",
    ),
    OperatorKind(
        "ovs-stats",
        "ovs-appctl dpif-netdev/pmd-stats-show",
        openvswitch.pmd_stats,
        r"^[ \t]+packets received: \d",
        line=_PMD,
    ),
    OperatorKind(
        "ovs-perf",
        "ovs-appctl dpif-netdev/pmd-perf-show",
        openvswitch.pmd_perf,
        r"^[ \t]+- Used TSC cycles:|^Measurement duration:",
        line=_PMD,
    ),
    OperatorKind(
        "ovs-rxq",
        "ovs-appctl dpif-netdev/pmd-rxq-show",
        openvswitch.pmd_rxq,
        r"^[ \t]+port: \S+\s+queue-id:",
        line=_PMD,
    ),
    OperatorKind("ovs-vsctl", "ovs-vsctl commands", openvswitch.commands, r"^[ \t]*(sudo )?ovs-vsctl\s"),
    OperatorKind("suricata", "suricata.yaml", suricata.configuration, r"^dpdk:|^%YAML 1\.1"),
    OperatorKind(
        "suricata-stats",
        "Suricata's stats.log, or eve.json",
        suricata.statistics,
        r"^Counter\s+\| TM Name|^Date: .*\(uptime:",
        _stats,
    ),
    OperatorKind(
        "grout",
        "grcli commands",
        grout.commands,
        r"^[ \t]*(grcli )?(interface add port|affinity cpus set|graph config set)\s",
    ),
    OperatorKind(
        "grout-stats",
        "grcli stats show software",
        grout.statistics,
        r"^[ \t]*NODE\s.*PACKETS",
        line=r"\s*(NODE|[a-z]\w*)\s.*",
    ),
    OperatorKind(
        "perf",
        "perf stat -x, or -j",
        counters.perf,
        _PERF,
        _with_key("counter-value"),
    ),
    OperatorKind(
        "pcm", "pcm, pcm-memory or pcm-pcie with -csv", counters.pcm, r"^(Date[,;]Time[,;]|Skt,|[,;]*System[,;])"
    ),
    OperatorKind("csit", "a result of FD.io CSIT", counters.csit, holds=_with_key("test_type", "test_id")),
)
"""All kinds."""


def read(path: str | os.PathLike[str], kind: str | None = None) -> list[Told]:
    """What a file tells, as each kind that it is. Raises InputError with file and line, and OSError."""
    return read_text(opened(path), kind)


def read_text(text: OperatorText, kind: str | None = None) -> list[Told]:
    """As `read`, of a text."""
    found = [_named(kind)] if kind is not None else recognised(text)
    told = [Told(each.name, each.source, text.file) for each in found]
    for each, into in zip(found, told, strict=True):
        _read(each, text, into)
    if text.cut and not (text.documents() and text.rest.rstrip().endswith(("}", "]"))):
        where = f"{text.file}:{len(text.lines) + 1}"
        told[0].notes.insert(0, f"{where}: {CUT}: {shown(text.rest)}")
    if len(found) == 1 and not text.documents():
        _pass_over(found[0], text, told[0])
    told[0].notes[:0] = [note for note in text.notes if note not in told[0].notes]
    return told


def _pass_over(kind: OperatorKind, text: OperatorText, told: Told) -> None:
    """Notes the first line that is none of a kind's."""
    strange = [(n, line) for n, line in text if kind.line and line.strip() and not re.fullmatch(kind.line, line)]
    if strange:
        n, line = strange[0]
        more = f", and {len(strange) - 1} more" if len(strange) > 1 else ""
        told.note(f"is no line of {kind.source}, and is passed over{more}: {shown(line)}", n)


def _read(kind: OperatorKind, text: OperatorText, told: Told) -> None:
    try:
        kind.read(text, told)
    except InputError as e:
        raise InputError(f"{e} (read as {kind.name}: {kind.source})") from None


def recognised(text: OperatorText) -> list[OperatorKind]:
    """The kinds that a text is. Raises InputError where it is none."""
    by_mark = [kind for kind in KINDS if kind.mark and re.search(kind.mark, text.body, re.MULTILINE)]
    if by_mark:
        return by_mark
    try:
        documents = text.documents()
    except InputError as e:
        raise InputError(f"{e}. If it is no JSON: {unknown()}") from None
    by_document = [kind for kind in KINDS if kind.holds is not None and any(map(kind.holds, documents))]
    if by_document:
        return by_document
    line, first = next(((n, line) for n, line in enumerate(text.content.split("\n"), 1) if line.strip()), (1, ""))
    raise text.refuse(line, f"came {shown(first)}: {unknown()}")


def unknown() -> str:
    """The end of an error about what is not recognised."""
    known = f"{listed(KINDS)}; pfcp (a capture of a mobile core: pcap, pcapng)"
    return f"no kind of file that is known; known are: {known}. `--kind NAME` reads it as one of them"


def listed(kinds: Iterable[OperatorKind]) -> str:
    """Kinds with what prints them."""
    return "; ".join(f"{kind.name} ({kind.source})" for kind in kinds)


def _named(name: str) -> OperatorKind:
    found = next((kind for kind in KINDS if kind.name == name), None)
    if found is None:
        names: Sequence[str] = [kind.name for kind in KINDS]
        raise InputError(f"--kind {name}: must be one of {', '.join(names)}{nearest(name, names)}")
    return found
