"""What operators' files tell, as facts that have a name, a unit, bounds and a place.

A fact is what a scenario is made of; a measurement says how the real thing does. Both keep the file and the line that
they come from. A value that no machine has is refused where it is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from wirespeed.errors import InputError

Value = str | int | float
SLOWEST_CLOCK: Final = 8e8
"""Hz; below it cycles of L2 take longer than the catalogue's LLC. No server is that slow."""
MOST_NOTES: Final = 20
"""Notes of a file that are kept: a foreign file may have one a line."""


class Trust(IntEnum):
    """Whose word counts where two sources of one fact differ: the higher one."""

    DEFAULT = 0
    """What a program takes where nobody says anything."""
    KERNEL = 1
    """What the kernel's driver has, which a DPDK driver replaces."""
    CONFIG = 2
    COMMAND = 3
    RUNNING = 4


@dataclass(frozen=True, slots=True)
class Quality:
    """What a fact is: its words, its unit, and the least and the most of it; text has neither."""

    words: str
    unit: str = ""
    least: float = 1
    most: float = 1 << 32


@dataclass(frozen=True, slots=True)
class Fact:
    """One value of one name, and where it stands."""

    name: str
    value: Value
    where: str
    trust: Trust = Trust.RUNNING
    note: str = ""


@dataclass(frozen=True, slots=True)
class Measurement:
    """How the real thing does: a number of `MEASURED`."""

    name: str
    value: float
    where: str
    of: str = ""
    """Of which core, port or counter."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a program, with the cycles a packet spends there."""

    name: str
    cycles: float
    packets_per_call: float | None
    where: str


@dataclass(slots=True)
class Told:
    """What a file tells as one kind."""

    kind: str
    title: str
    file: str
    facts: list[Fact] = field(default_factory=list)
    measured: list[Measurement] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _seen: dict[tuple[str, Value], Fact] = field(default_factory=dict, repr=False)

    def fact(self, name: str, value: Value, line: int | None, trust: Trust = Trust.RUNNING, note: str = "") -> None:
        """Adds a fact. Raises InputError for a value that is out of bounds."""
        where = place(self.file, line)
        if not isinstance(value, str):
            _judge(FACTS[name], value, where)
        elif not value:
            return
        same = self._seen.get((name, value))
        if same is not None and same.trust >= trust:
            return
        if same is not None:
            self.facts.remove(same)
        self._seen[name, value] = Fact(name, value, where, trust, note)
        self.facts.append(self._seen[name, value])

    def measure(self, name: str, value: float, line: int | None, of: str = "") -> None:
        """Adds a measurement. Raises InputError for a value that is out of bounds."""
        where = place(self.file, line)
        _judge(MEASURED[name], value, where)
        self.measured.append(Measurement(name, value, where, of))

    def note(self, text: str, line: int | None = None) -> None:
        """Adds what a reader has to know, once, and no more than `MOST_NOTES` of it."""
        if len(self.notes) > MOST_NOTES:
            return
        found = f"{place(self.file, line)}: {text}"
        if len(self.notes) == MOST_NOTES:
            found = f"{self.file}: has more of this kind, which is left out"
        if found not in self.notes:
            self.notes.append(found)


def place(file: str, line: int | None) -> str:
    """A file, and a line of it where one is known.

    >>> place("a.txt", 3), place("a.txt", None)
    ('a.txt:3', 'a.txt')
    """
    return file if line is None else f"{file}:{line}"


def _judge(quality: Quality, value: float, where: str) -> None:
    if math.isfinite(value) and quality.least <= value <= quality.most:
        return
    bounds = f"{quality.least:,.16g} to {quality.most:,.16g}"
    raise InputError(f"{where}: {quality.words} {value:.16g}{quality.unit and ' '}{quality.unit}: allowed are {bounds}")


_CACHE: Final = 1 << 34
FACTS: Final[Mapping[str, Quality]] = {
    "cpu": Quality("processor"),
    "cpu_vendor": Quality("vendor of the processor"),
    "cpu_family": Quality("family of the processor", least=0, most=1 << 16),
    "cpu_number": Quality("model number of the processor", least=0, most=1 << 16),
    "cpu_stepping": Quality("stepping of the processor", least=0, most=1 << 16),
    "hypervisor": Quality("hypervisor"),
    "frequency": Quality("clock", "Hz", SLOWEST_CLOCK, 2e10),
    "tsc": Quality("clock of the TSC", "Hz", 1e7, 2e10),
    "sockets": Quality("sockets", most=64),
    "cores_per_socket": Quality("cores of a socket", most=1024),
    "threads_per_core": Quality("threads of a core", most=8),
    "numa_nodes": Quality("NUMA nodes", most=1024),
    "l1_bytes": Quality("L1 data cache", "B", 1024, _CACHE),
    "l1_ways": Quality("ways of L1", most=32),
    "l2_bytes": Quality("L2", "B", 1024, _CACHE),
    "l2_ways": Quality("ways of L2", most=32),
    "llc_bytes": Quality("LLC", "B", 1024, _CACHE),
    "llc_ways": Quality("ways of the LLC", most=32),
    "dimms": Quality("DIMMs", most=4096),
    "dimm_channels": Quality("channels with DIMMs, of a socket", most=4096),
    "dimm_rate": Quality("rate of DIMMs", "MT/s", 100, 20000),
    "dimm_type": Quality("type of DIMMs"),
    "nic": Quality("NIC"),
    "nic_id": Quality("PCI id of the NIC"),
    "driver": Quality("driver"),
    "link": Quality("speed of a port", "bit/s", 1e6, 1.6e12),
    "ports": Quality("ports", most=1024),
    "cores": Quality("cores that forward", most=1024),
    "rx_queues": Quality("RX queues of a port", most=4096),
    "all_rx_queues": Quality("RX queues of all ports", most=65536),
    "rx_descriptors": Quality("RX descriptors", most=65536),
    "tx_descriptors": Quality("TX descriptors", most=65536),
    "rx_least": Quality("least RX ring of the driver", least=0, most=65536),
    "rx_most": Quality("largest RX ring of the driver", most=65536),
    "rx_multiple": Quality("multiple of RX descriptors", most=65536),
    "burst": Quality("burst", most=1024),
    "pool_size": Quality("mbufs of the pool"),
    "pool_cache": Quality("mbufs that a core keeps", least=0, most=65536),
    "pool_element": Quality("bytes of an mbuf", "B", 64, 1 << 20),
    "pool_order": Quality("order of the pool"),
    "program": Quality("program"),
    "function": Quality("what the program does"),
    "sessions": Quality("file of sessions"),
    "capture": Quality("capture of users' packets"),
    "tunnel_address": Quality("address of the user plane"),
    "packet_rate": Quality("packet rate", "packets/s", 1e-3, 1e12),
    "frame_bytes": Quality("mean frame", "B", 1, 65536),
}
"""What facts there are."""

_COUNT: Final = float(1 << 64)
MEASURED: Final[Mapping[str, Quality]] = {
    "cycles_per_packet": Quality("cycles a packet", "TSC cycles", 0, 1e12),
    "work_per_packet": Quality("cycles a packet, polls that find nothing left out", "TSC cycles", 0, 1e12),
    "inner_per_packet": Quality("cycles a packet, without the input node", "TSC cycles", 0, 1e12),
    "packets_per_burst": Quality("packets a burst", "", 0, 65536),
    "busy": Quality("share of time that cores are busy", "", 0, 1),
    "empty_polls": Quality("share of polls that find nothing", "", 0, 1),
    "received": Quality("packets received", "", 0, _COUNT),
    "missed": Quality("packets lost at the port (missed)", "", 0, _COUNT),
    "no_descriptor": Quality("packets lost for want of a descriptor", "", 0, _COUNT),
    "no_buffer": Quality("refills without an mbuf", "", 0, _COUNT),
    "tx_dropped": Quality("packets dropped at a full TX ring", "", 0, _COUNT),
    "pool_used": Quality("mbufs in use", "", 0, _COUNT),
    "upcalls": Quality("packets that no cache of flows knew", "", 0, _COUNT),
    "received_rate": Quality("packets received", "packets/s", 0, 1e12),
    "ndr": Quality("highest rate without loss, both directions", "packets/s", 0, 1e12),
    "pdr": Quality("highest rate with a small loss, both directions", "packets/s", 0, 1e12),
    "ipc": Quality("instructions a cycle", "", 0, 64),
    "llc_misses": Quality("LLC misses", "", 0, _COUNT),
    "memory_read": Quality("read of DRAM", "B/s", 0, 1e14),
    "memory_write": Quality("written to DRAM", "B/s", 0, 1e14),
    "io_write_misses": Quality("share of device writes that miss the LLC", "", 0, 1),
    "cycles": Quality("core cycles", "", 0, _COUNT),
    "instructions": Quality("instructions", "", 0, _COUNT),
}
"""What is measured, none of which a scenario sets."""
