"""Colours of the attribution reasons: one hue per part of the machine, shades within it.

The hues are chosen after Okabe and Ito's colour-blind-safe set: blue waits, grey work, yellow private caches, green
shared cache, vermilion DRAM, purple device. Neighbours in the bar are told apart by a gap too, never by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_COLOURS: Final[Mapping[str, str]] = {
    "nic": "#7b3a68",
    "pcie": "#a5558c",
    "pcie_queue": "#5b6fc4",
    "dma_memory": "#d59cc2",
    "iommu": "#7a2f63",
    "ring": "#0a5a9c",
    "queue": "#3478b4",
    "burst": "#6aa5d8",
    "core": "#868e9b",
    "stall": "#5d6573",
    "doorbell": "#8d4fa8",
    "l1": "#f0dc6e",
    "l2": "#dcbd2c",
    "tlb": "#b3960e",
    "interconnect": "#9bd8c4",
    "socket_link": "#7fcab1",
    "slice_queue": "#57bb9c",
    "llc": "#0a8f68",
    "snoop": "#0b6f53",
    "mshr": "#06513d",
    "dram_path": "#5c1f03",
    "dram_queue": "#7d2a05",
    "bank_busy": "#a63c0b",
    "row_hit": "#e8a06a",
    "row_miss": "#d55e00",
    "row_conflict": "#b84a06",
    "bus": "#f0b98f",
    "turnaround": "#f3c6a4",
    "refresh": "#f6d3b8",
    "copy": "#1f2937",
    "lock": "#274b8f",
    "gpu_fill": "#5f8f3a",
    "gpu_queue": "#86b35f",
    "gpu_copy": "#b5d69a",
    "gpu": "#3c6b1c",
    "commit": "#9cc4ea",
    "tx_queue": "#4d86c6",
}
_UNKNOWN: Final = "#4b5563"
# A luminance from which black has more contrast than white.
_BRIGHT: Final = 0.192


def colour(reason: str) -> str:
    """The colour of a reason; grey for one that is not known here."""
    return _COLOURS.get(reason, _UNKNOWN)


def ink(reason: str) -> str:
    """Black or white, whichever has more contrast with the reason's colour."""
    return "#111" if luminance(colour(reason)) > _BRIGHT else "#fff"


def luminance(drawn: str) -> float:
    """The relative luminance of `#rrggbb`, 0 of black to 1 of white, as WCAG 2.2 defines it."""
    channels = (int(drawn[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
