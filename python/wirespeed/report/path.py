"""The path of a packet as a strip: NIC, PCIe, ring, core and TX, with the time that a packet stays in each.

What NIC and PCIe take of every packet, however idle the machine is, is told apart and, where it would hide all else,
not drawn to scale. Of PCIe it is the reason `pcie`, the transfer as on an idle link, so that it is one number
everywhere. The NIC has no such reason: of that it is the least that any sampled packet took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wirespeed.report.palette import colour
from wirespeed.slowest import Slowest
from wirespeed.summary import REASONS, Slice, slices
from wirespeed.summary_types import Summary

# The stops in path order: the name, the reason that gives the colour, and the reasons that are charged there.
_STOPS: Final[Sequence[tuple[str, str, frozenset[str]]]] = (
    ("NIC", "nic", frozenset({"nic"})),
    ("PCIe and DMA", "pcie", frozenset({"pcie", "pcie_queue", "dma_memory", "iommu"})),
    ("ring", "ring", frozenset({"ring", "queue"})),
    ("core", "core", frozenset()),
    ("GPU", "gpu", frozenset({"gpu_fill", "gpu_queue", "gpu_copy", "gpu"})),
    ("TX", "tx_queue", frozenset({"commit", "tx_queue"})),
)
_ELSEWHERE: Final = frozenset().union(*(of for _, _, of in _STOPS))
# A stop of machines that have one.
_IF_ANY: Final = "GPU"
# Where a packet takes time though nothing is in its way.
_NIC, _PCIE = "nic", "pcie"
SHORT: Final = 0.14
"""The share of a stop's bar that idle time has where it is drawn short."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop on the path; times are means in nanoseconds."""

    name: str
    colour: str
    ns: float
    share: float
    idle_ns: float
    """What packets take of it on an idle machine, on average; 0 where that is nothing, or not known."""
    slow_ns: float | None
    """The time of the slowest hundredth, None where no sample tells."""
    folded: bool
    """Whether that is drawn short: to the scale of the rest it would be longer."""
    drawn: float
    """What is drawn to scale, as a share of the largest of the stops: all, or what is more than is drawn short."""
    most: Slice | None
    """The largest part, where there are several."""


def path(summary: Summary, slow: Slowest | None) -> list[Stop]:
    """The stops of a packet's path; none where no time is known."""
    parts = slices(summary.get("attribution_ns"), summary.get("attribution_labels"))
    whole = sum(part.ns for part in parts)
    found = []
    for name, of, reasons in _STOPS:
        mine = [part for part in parts if (part.reason in reasons if reasons else part.reason not in _ELSEWHERE)]
        if name == _IF_ANY and not mine:
            continue
        ns = sum(part.ns for part in mine)
        found.append((name, of, reasons, mine, ns, _idle(of, mine, ns, slow)))
    longest = max((ns - idle for *_, ns, idle in found), default=0.0)
    # What is not drawn short may be the longest then, and more fit that scale: each turn has fewer that do not.
    for _ in found:
        is_folded = [idle > SHORT / (1 - SHORT) * longest for *_, idle in found]
        to_scale = [ns - idle * folds for (*_, ns, idle), folds in zip(found, is_folded, strict=True)]
        longest = max(to_scale, default=0.0)
    return [
        Stop(
            name=name,
            colour=colour(of),
            ns=ns,
            share=ns / whole,
            idle_ns=idle,
            slow_ns=None if slow is None else _sum(slow.slow_parts_ns, reasons or set(REASONS) - _ELSEWHERE),
            folded=folds,
            drawn=drawn / longest if longest else 0.0,
            most=max(mine, key=lambda part: part.ns) if len(mine) > 1 else None,
        )
        for (name, of, reasons, mine, ns, idle), folds, drawn in zip(found, is_folded, to_scale, strict=True)
        if parts
    ]


def _idle(of: str, mine: Sequence[Slice], ns: float, slow: Slowest | None) -> float:
    """What of a stop an idle machine takes, too."""
    if of == _PCIE:
        return sum(part.ns for part in mine if part.reason == _PCIE)
    return min(slow.least_ns.get(_NIC, 0.0), ns) if of == _NIC and slow is not None else 0.0


def _sum(times: Mapping[str, float], reasons: frozenset[str] | set[str]) -> float:
    return sum(ns for reason, ns in times.items() if reason in reasons)
