"""DMA reads: what a read of the host's memory takes as a device sees it, by window, size and who has the window.

`wirespeed.memory.dma` is the function to call. What is simulated is in `studies::dma`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

from wirespeed import _wirespeed, scenarios
from wirespeed import quantities as q

if TYPE_CHECKING:
    from rich.console import RenderableType

READS: Final = 20_000

Cache: TypeAlias = Literal["cold", "device", "host"]
Order: TypeAlias = Literal["random", "sequential"]


class DmaPoint(TypedDict):
    """Reads of `bytes` bytes of a window: nanoseconds, Gbps of data, and the share of lines that a cache answered."""

    window_bytes: int
    bytes: int
    cache: Cache
    read_ns: dict[str, float]
    parts_ns: dict[str, float]
    gbps: float
    cached_share: float
    iommu: dict[str, Any] | None


class DmaReads(TypedDict):
    """The document of `wirespeed memory dma`; fields are described in the guide, "DMA reads"."""

    schema: str
    machine: str
    order: Order
    reads: int
    in_flight: int
    seed: int
    pcie: dict[str, float]
    points: list[DmaPoint]
    notes: list[str]


def dma(
    machine: str | os.PathLike[str] | None,
    *,
    windows: Sequence[str | int] = ("4 KiB",),
    bytes: Sequence[int] = (64,),
    cache: Sequence[Cache] = ("cold",),
    order: Order = "random",
    in_flight: int = 1,
    reads: int = READS,
    set: scenarios.Overrides = None,
    seed: int = 1,
) -> DmaReads:
    """What DMA reads of a machine's memory take, as a device sees them; returns the document of `wirespeed memory dma`.

    The NIC of `machine` (a shipped one, a `.toml` file, or None for what `set` says) reads pieces of `bytes` bytes of a
    window, `in_flight` at a time, in an `order`. `cache` says who has the window: nobody ("cold"), the I/O ways of the
    LLC after the device has written it ("device"), or caches after a core has ("host"). All of `windows`, `bytes` and
    `cache` are asked for, `reads` reads each. `set` overrides settings as `run` does: `machine.iommu` and `nic` count.

    Times are nanoseconds from a request's first bit to its data's last one. Raises InputError for settings and machines
    that cannot be.

    >>> from wirespeed import memory
    >>> found = memory.dma("xeon-gold-6140", windows=["4 KiB", "4 MiB"], set={"machine.iommu.iotlb_entries": 64})
    >>> [round(point["iommu"]["hit_rate"], 1) for point in found["points"]]
    [1.0, 0.1]
    """
    preset = {} if machine is None else {"machine.preset": os.fspath(machine)}
    settings = [*scenarios.overrides(preset), *scenarios.overrides(set)]
    spec = {
        "windows": [f"{window} B" if isinstance(window, int) else window for window in windows],
        "bytes": list(bytes),
        "cache": list(cache),
        "order": order,
        "in_flight": in_flight,
        "reads": reads,
        "seed": seed,
    }
    found: DmaReads = json.loads(_wirespeed.dma_reads(_wirespeed.Scenario("", "dma", settings), json.dumps(spec)))
    return found


def _size(count: int) -> str:
    """Bytes in the largest unit that leaves no rest.

    >>> _size(4096), _size(3 << 19), _size(1 << 30)
    ('4 KiB', '1536 KiB', '1 GiB')
    """
    units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")]
    size, unit = next((size, unit) for size, unit in units if count % size == 0)
    return f"{count // size} {unit}"


_IN_CACHES: Final[Mapping[str, str]] = {
    "cold": "cold: no cache has the window",
    "device": "device: the device has written the window before",
    "host": "host: a core has written the window before",
}


def table(found: DmaReads) -> RenderableType:
    """The document as a person reads it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    at_a_time = "one at a time" if found["in_flight"] == 1 else f"{found['in_flight']} at a time"
    points = found["points"]
    columns: dict[str, list[str]] = {
        "window": [_size(p["window_bytes"]) for p in points],
        "read": [f"{p['bytes']} B" for p in points],
        "cache": [p["cache"] for p in points],
        "mean, ns": [f"{p['read_ns']['mean']:.1f}" for p in points],
        "PCIe": [f"{p['parts_ns']['pcie']:.1f}" for p in points],
        "memory": [f"{p['parts_ns']['memory']:.1f}" for p in points],
        "IOMMU": [q.MISSING if p["iommu"] is None else f"{p['parts_ns']['iommu']:.1f}" for p in points],
        "IO-TLB hits": [q.MISSING if p["iommu"] is None else q.share(p["iommu"]["hit_rate"]) for p in points],
        "cached": [q.share(p["cached_share"]) for p in points],
        "Gbps": [q.MISSING if found["in_flight"] == 1 else f"{p['gbps']:.2f}" for p in points],
    }
    drawn = Table(title=f"{found['machine']}: DMA reads, {at_a_time}", title_justify="left", box=None)
    kept = {head: cells for head, cells in columns.items() if any(cell != q.MISSING for cell in cells)}
    for head in kept:
        drawn.add_column(head, justify="left" if head == "cache" else "right", no_wrap=True)
    for cells in zip(*kept.values(), strict=True):
        drawn.add_row(*cells)
    told = [_IN_CACHES[who] for who in dict.fromkeys(p["cache"] for p in points)]
    return Group(drawn, *(Text(note) for note in [*told, *found["notes"]]))
