"""A packet's cycles as an icicle: all of them on top, then the stages, the parts of the machine, and the reasons.

Each row divides the one above it. In a browser a cell can be opened: then it is as wide as the page. Instructions of a
chain are divided by its functions, as many as each executed; what is left is the driver's and the run loop's. Of a
function alone driver and program are one: a run counts their instructions together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from wirespeed.report.palette import colour, ink
from wirespeed.summary import Family, Slice, core_cycles, stages
from wirespeed.summary_types import CoreSummary, Summary

# Parts of the machine, from the core outwards, with the colour of one of their reasons.
_PARTS: Final[Sequence[tuple[str, str, tuple[Family, ...]]]] = (
    ("instructions and stalls", "core", ("core",)),
    ("L1, L2 and TLB", "l2", ("private",)),
    ("LLC and other cores", "llc", ("shared",)),
    ("DRAM", "row_miss", ("dram",)),
    ("locks and queues", "lock", ("wait",)),
    ("devices and copies", "copy", ("io", "other")),
)
# Cells that are narrower than this share of the page carry no words until they are opened.
NARROW: Final = 0.07
# Less than this share of the cycles is drawn with what it belongs to and not by itself.
_LEAST: Final = 0.0005


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its row, where it begins and how wide it is as shares of the page, and what it holds."""

    row: int
    left: float
    width: float
    label: str
    cycles: float
    colour: str
    ink: str


def icicle(summary: Summary) -> list[Cell]:
    """The cells, each after the one that it divides; none where no cycles are known."""
    parts = core_cycles(summary)
    whole = sum(part.ns for part in parts)
    if not whole:
        return []
    found = stages(summary)
    return list(_cells(summary, parts, whole, found))


def rows(cells: Sequence[Cell]) -> int:
    """How many rows the cells have."""
    return max((cell.row for cell in cells), default=-1) + 1


def _cells(
    summary: Summary, parts: Sequence[Slice], whole: float, found: Sequence[Sequence[CoreSummary]]
) -> Iterator[Cell]:
    yield Cell(0, 0.0, 1.0, "cycles a packet", whole, "var(--soft)", "var(--ink)")
    if len(found) == 1:
        yield from _divided(summary, 1, 0.0, whole, parts)
        return
    left = 0.0
    for stage in found:
        of_stage = core_cycles({**summary, "cores": list(stage)})
        cycles = sum(part.ns for part in of_stage)
        name = "receiving core" if stage[0].get("receives", True) else "working core"
        yield Cell(1, left, cycles / whole, name, cycles, "var(--edge)", "var(--ink)")
        yield from _divided(summary, 2, left, whole, of_stage, has_members=False)
        left += cycles / whole


def _divided(
    summary: Summary, row: int, left: float, whole: float, parts: Sequence[Slice], has_members: bool = True
) -> Iterator[Cell]:
    """The parts of the machine side by side, and below each its reasons."""
    for name, of, families in _PARTS:
        mine = [part for part in parts if part.family in families]
        cycles = sum(part.ns for part in mine)
        if cycles < _LEAST * whole:
            continue
        yield Cell(row, left, cycles / whole, name, cycles, colour(of), ink(of))
        below = [(part.label, part.ns, part.reason) for part in mine]
        if of == "core" and has_members:
            # What stalls a core is no instructions: no function has it.
            executing = sum(part.ns for part in mine if part.reason == "core")
            if members := _members(summary, executing):
                below = [*members, *(each for each in below if each[2] != "core")]
        at = left
        for label, spent, reason in below:
            if spent >= _LEAST * whole:
                yield Cell(row + 1, at, spent / whole, label, spent, colour(reason), ink(reason))
            at += spent / whole
        left += cycles / whole


def _members(summary: Summary, cycles: float) -> list[tuple[str, float, str]]:
    """What the functions of a chain take of the cycles of instructions, by how many they executed."""
    members = summary.get("members") or []
    executed = sum(
        (core.get("instructions_per_packet") or 0.0) * core["packets"] for core in summary.get("cores") or []
    )
    own = sum(member["instructions"] for member in members)
    if not members or executed < own:
        return []
    shares = [(member["name"], member["instructions"] / executed) for member in members]
    shares.append(("driver and the rest", 1 - own / executed))
    return [(name, cycles * share, "core") for name, share in shares]
