"""What the simulator tells of packets, as its JSON has it. Times are picoseconds of simulated time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

# Keys: packet, chosen, frame_bytes, fate, port, sojourn, spans.
Life: TypeAlias = Mapping[str, Any]
# Keys: stage, from, to, core, burst.
Span: TypeAlias = Mapping[str, Any]
# Keys: burst, core, from, to, packets, fetches.
Burst: TypeAlias = Mapping[str, Any]
# Keys: line, access, slice, from, to, served, path.
Fetch: TypeAlias = Mapping[str, Any]
# Keys: packets, bursts, losses.
Lives: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]

# Where a packet can be, in order: its name, and the reason of attribution whose colour it has.
STAGES: Final[Mapping[str, tuple[str, str]]] = {
    "wire_in": ("wire in", "unknown"),
    "nic_in": ("NIC, receive", "nic"),
    "pcie_in": ("PCIe to the host", "pcie"),
    "credits": ("waits for PCIe credits", "pcie_queue"),
    "memory_write": ("written to memory", "dma_memory"),
    "queue": ("waits in a ring", "ring"),
    "gpu": ("with the GPU", "gpu"),
    "core": ("in a burst of a core", "core"),
    "tx_ring": ("transmit ring: doorbell and descriptors", "lock"),
    "pcie_out": ("PCIe to the NIC", "pcie"),
    "nic_out": ("NIC, transmit", "nic"),
    "tx_queue": ("waits for the port", "tx_queue"),
    "wire_out": ("wire out", "unknown"),
}
# Where a slow packet may be slow: what it is called, the stages, and the reasons that attribution has for them.
PLACES: Final[Sequence[tuple[str, frozenset[str], frozenset[str]]]] = (
    (
        "between NIC and memory",
        frozenset({"nic_in", "pcie_in", "credits", "memory_write", "tx_ring", "pcie_out", "nic_out"}),
        frozenset({"nic", "pcie", "pcie_queue", "dma_memory", "iommu"}),
    ),
    ("in a ring", frozenset({"queue"}), frozenset({"ring", "queue"})),
    ("with the GPU", frozenset({"gpu"}), frozenset({"gpu_fill", "gpu_queue", "gpu_copy", "gpu", "commit"})),
    ("behind others for its port", frozenset({"tx_queue"}), frozenset({"tx_queue"})),
    ("in a burst of a core", frozenset({"core"}), frozenset()),
)
"""The last has all other reasons."""
SERVED: Final[Mapping[str, str]] = {
    "llc": "the LLC",
    "snoop": "another core",
    "dram": "memory behind the LLC",
    "engine": "a copy table or buffer",
}
CHOSEN: Final[Mapping[str, str]] = {"slowest": "slow", "loss": "in the ring at a loss", "every": "one in so many"}


def began(lives: Lives) -> int:
    """When the first of them began, in picoseconds."""
    spans = [span["from"] for life in lives["packets"] for span in life["spans"]]
    return min([*spans, *(burst["from"] for burst in lives["bursts"])], default=0)
