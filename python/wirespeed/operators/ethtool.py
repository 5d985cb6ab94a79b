"""Outputs of ethtool: `-i`, `-g`, `-l`, `-c`, `-k` and `-S`.

Rings and queues are the kernel's: a DPDK driver replaces them, so whatever tells of that driver wins. A device that is
bound to vfio-pci has no ethtool at all. Counters are cumulative, and a name means something else on another driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from wirespeed.operators.facts import Told, Trust
from wirespeed.operators.texts import OperatorText, shown, whole

_KERNEL: Final = "the kernel's, which a DPDK driver replaces"
_PAIR: Final = re.compile(r"\s*([^:]+):\s*(.*?)\s*")


def info(text: OperatorText, told: Told) -> None:
    """`ethtool -i`: the driver."""
    fields = {found[1]: (found[2], n) for n, line in text if (found := _PAIR.fullmatch(line)) is not None}
    if "driver" not in fields or "bus-info" not in fields:
        raise text.ended("`driver` and `bus-info`")
    told.fact("driver", *fields["driver"], Trust.KERNEL)
    told.note(f"is of {fields['bus-info'][0] or 'no PCI address'}", fields["bus-info"][1])


def rings(text: OperatorText, told: Told) -> None:
    """`ethtool -g`: rings, and how long they may be."""
    most, now = _sections(text)
    for fact, name in (("rx_descriptors", "RX"), ("tx_descriptors", "TX")):
        value, line = now.get(name, ("", None))
        if (found := whole(value)) is not None:
            told.fact(fact, found, line, Trust.KERNEL, _KERNEL)
        elif line is not None:
            told.note(f"{name} is not told: {shown(value)}", line)
    value, line = most.get("RX", ("", None))
    if (found := whole(value)) is not None:
        told.fact("rx_most", found, line, Trust.KERNEL, _KERNEL)


def channels(text: OperatorText, told: Told) -> None:
    """`ethtool -l`: queues."""
    _, now = _sections(text)
    value, line = now.get("Combined", ("", None))
    if not whole(value):
        value, line = now.get("RX", ("", None))
    if (found := whole(value)) is not None:
        told.fact("rx_queues", found, line, Trust.KERNEL, _KERNEL)
    else:
        told.note("queues are not told", line)


def _sections(text: OperatorText) -> tuple[dict[str, tuple[str, int]], dict[str, tuple[str, int]]]:
    """What may be set, and what is. Raises InputError where one of them is missing, or has no line of RX or TX."""
    found: dict[str, dict[str, tuple[str, int]]] = {}
    section = ""
    for n, line in text:
        if line.startswith(("Pre-set maximums", "Current hardware settings")):
            section = line.split()[0]
            found[section] = {}
        elif section and (pair := _PAIR.fullmatch(line)) is not None:
            found[section][pair[1]] = pair[2], n
    for section, words in (("Pre-set", "`Pre-set maximums`"), ("Current", "`Current hardware settings`")):
        if "RX" not in found.get(section, {}) or "TX" not in found[section]:
            raise text.ended(f"RX and TX of {words}")
    return found["Pre-set"], found["Current"]


def coalescing(text: OperatorText, told: Told) -> None:
    """`ethtool -c`: when interrupts come, which a core that polls has none of."""
    fields = {found[1]: found[2] for _, line in text if (found := _PAIR.fullmatch(line)) is not None}
    if "rx-usecs" not in fields:
        raise text.ended("`rx-usecs`")
    told.note(f"interrupts wait {shown(fields['rx-usecs'])} µs; cores that poll have none, and none are modelled")


def features(text: OperatorText, told: Told) -> None:
    """`ethtool -k`: offloads, of which those that join packets change what arrives."""
    fields = {found[1]: (found[2], n) for n, line in text if (found := _PAIR.fullmatch(line)) is not None}
    if "rx-checksumming" not in fields:
        raise text.ended("`rx-checksumming`")
    for name in ("large-receive-offload", "generic-receive-offload", "rx-gro-hw"):
        value, line = fields.get(name, ("", None))
        if value.startswith("on"):
            told.note(f"{name} is on: packets of the kernel are joined; a program on DPDK takes each", line)


class Counters(NamedTuple):
    """Counters of a driver by what they mean; each pattern is one layer, summed once."""

    missed: str
    no_descriptor: str
    no_buffer: str


# By what no other driver has; counters and layers: Linux, drivers/net/ethernet/{intel/{ixgbe,i40e,ice},mellanox/mlx5}.
_DRIVERS: Final[Mapping[str, tuple[str, Counters]]] = {
    "mlx5": (
        r"rx_discards_phy|rx_out_of_buffer|rx_packets_phy",
        Counters("rx_discards_phy", "rx_out_of_buffer", r"rx\d+_buff_alloc_err"),
    ),
    "i40e": (
        r"port\.rx_.*",
        Counters(
            r"port\.rx_discards|port\.rx_dropped", r"rx_dropped|rx_missed_errors", r"rx_alloc_fail|rx_pg_alloc_fail"
        ),
    ),
    "ice": (r".*\.nic", Counters(r"rx_dropped\.nic", "rx_dropped", r"rx_alloc_fail|rx_pg_alloc_fail")),
    "ixgbe": (
        r"rx_no_dma_resources|rx_no_buffer_count",
        Counters("rx_missed_errors", "rx_no_dma_resources", r"alloc_rx_page_failed|alloc_rx_buff_failed"),
    ),
}
_OTHERS: Final = Counters("rx_missed_errors", "rx_drops|rx_dropped", "rx_no_mbuf|rx_alloc_fail")


def statistics(text: OperatorText, told: Told) -> None:
    """`ethtool -S`: what was received, and what was lost where."""
    counters: dict[str, tuple[int, int]] = {}
    begun = False
    for n, row in text:
        if row.startswith("NIC statistics"):
            begun = True
        elif begun and (found := re.fullmatch(r"\s+(\S+):\s*(-?\d{1,25})", row)) is not None:
            counters[found[1]] = int(found[2]), n
        elif row.strip():
            told.note(f"is no counter: {shown(row)}", n)
    if not begun or not counters:
        raise text.ended("the counters of `NIC statistics`")
    driver, meanings = _meanings(counters)
    told.note(f"counters are read as those of {driver}")
    for name, pattern in meanings._asdict().items():
        for counter, (value, line) in counters.items():
            if re.fullmatch(pattern, counter):
                told.measure(name, value, line, counter)
    packets = _first(counters, "rx_packets_phy", "port.rx_unicast", "rx_packets")
    octets = _first(counters, "rx_bytes_phy", "port.rx_bytes", "rx_bytes")
    if packets is not None:
        told.measure("received", *packets)
        if octets is not None and packets[0] > 0:
            is_wire = "rx_bytes" not in counters or counters["rx_bytes"] != octets
            note = f"bytes over packets{', with the FCS' if is_wire else ''}"
            told.fact("frame_bytes", octets[0] / packets[0], octets[1], note=note)
    for counter, (value, line) in counters.items():
        if value and re.search(r"^tx_flow_control_xoff|link_xoff_tx|^tx_global_pause$|^tx_pause_ctrl_phy", counter):
            told.note(f"{value} pause frames were sent: losses moved to the sender, and none here proves nothing", line)


def _meanings(counters: Mapping[str, object]) -> tuple[str, Counters]:
    for driver, (mark, meanings) in _DRIVERS.items():
        if any(re.fullmatch(mark, name) for name in counters):
            return driver, meanings
    return "no driver that is known", _OTHERS


def _first(counters: Mapping[str, tuple[int, int]], *names: str) -> tuple[int, int] | None:
    return next((counters[name] for name in names if name in counters), None)
