"""Recorded programs: where the header that records lies, and what a recording holds.

A recording is what `function.kind = "trace"` makes again on a simulated machine: the memory references that a program
of one's own made for each packet.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from wirespeed import _wirespeed

INCLUDE: Final = Path(__file__).parent / "include"
"""The folder of `wirespeed_probe.h`."""

_MOST_PLACES: Final = 20


def describe(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a recording whole.

    Returns `format`, `packets`, `dropped`, `mean_bytes`, `references`, `instructions` (0 where the recording does not
    tell), `dependent`, `outside`, `headroom`, `unfinished`, and `places`: for the packet, its mbuf and each region
    `name`, `base`, `bytes`, `shared`, `named`, `references`, `stores` and touched `lines` of 64 bytes. Raises
    InputError for what is no recording, with the line and what was expected there.
    """
    found: dict[str, Any] = json.loads(_wirespeed.describe_recording(path))
    return found


def page(found: dict[str, Any]) -> Group:
    """What `describe` says, for people."""
    packets = found["packets"]
    per_packet = found["references"] / packets
    instructions = f"{found['instructions'] / packets:,.1f}" if found["instructions"] else "no"
    head = [
        f"{packets:,} packets of {found['mean_bytes']:,.0f} B in the mean ({found['format']}), "
        f"{found['dropped']:,} dropped",
        f"a packet: {per_packet:,.1f} references, {instructions} instructions, {found['dependent'] / packets:,.1f} "
        "references whose address waits for another",
    ]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("where", overflow="ellipsis", no_wrap=True)
    for name in ("size", "touched", "a packet", "stores"):
        table.add_column(name, justify="right")
    table.add_column("cores")
    shown = sorted(found["places"], key=lambda place: -place["references"])
    for place in shown[:_MOST_PLACES]:
        own = place["base"] is None
        table.add_row(
            place["name"],
            "" if own else _bytes(place["bytes"]),
            "" if own else _bytes(64 * place["lines"]),
            f"{place['references'] / packets:,.2f}",
            f"{place['stores'] / place['references']:.0%}" if place["references"] else "-",
            "" if own else "share it" if place["shared"] else "one each",
        )
    rest = []
    if len(shown) > _MOST_PLACES:
        rest.append(f"and {len(shown) - _MOST_PLACES} more (--format json)")
    if found["outside"]:
        rest.append(f"{found['outside']:,} references between packets are left out")
    if found["headroom"]:
        rest.append(f"{found['headroom']:,} references before packets are taken for their first byte")
    if found["unfinished"]:
        rest.append("it ends within a packet, which is left out")
    return Group(*map(Text, head), table, *map(Text, rest))


def _bytes(n: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:,.1f} {unit}"
    return f"{n} B"
