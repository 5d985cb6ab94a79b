"""A calibration for people: what was measured, and how far simulations of it are off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wirespeed import quantities as q


def summary(document: Mapping[str, Any]) -> RenderableType:
    """The machine, its bandwidths, what it was judged by, and what could not be determined."""
    machine = document["machine"]
    latency = [machine[f"machine.{level}.latency"] for level in ("l1", "l2", "llc")]
    chase = document["measured"]["chase_ns"]
    far = max(chase, key=int)
    sizes = [machine[f"machine.{level}.size"] for level in ("l1", "l2", "llc")]
    facts = Table.grid(padding=(0, 2))
    rows = [
        ("Clock", machine["machine.core.frequency"], ""),
        ("L1d", latency[0], sizes[0]),
        ("L2", latency[1], sizes[1]),
        ("LLC", latency[2], f"{sizes[2]}, {machine['machine.llc.replacement']}"),
        ("DRAM", f"{q.digits(chase[far])} ns", f"{_bandwidth(document)} read by all cores"),
        ("Misses at a time", str(machine["machine.core.outstanding"]), _prefetched(machine)),
    ]
    if "machine.tlb.l1_entries" in machine:
        reach = f"{machine['machine.tlb.l1_entries']} and {machine['machine.tlb.l2_entries']} pages"
        rows.append(("TLB", reach, f"second level +{machine['machine.tlb.l2_latency']}"))
    for row in rows:
        facts.add_row(*row)
    parts: list[RenderableType] = [
        Text(f"{document['processor']}, core {document['core']}, in {q.digits(document['seconds'], 2)} s", "bold"),
        Text(),
        facts,
        Text(),
        _curves(document),
    ]
    if document["judged"]:
        table = Table(box=None, header_style="dim", padding=(0, 1, 0, 1))
        for place, head in enumerate(("not fitted on", "measured", "simulated", "error")):
            table.add_column(head, justify="right" if place else "left", no_wrap=True)
        for each in document["judged"]:
            ns = (q.digits(each["measured_ns"]), q.digits(each["simulated_ns"]))
            table.add_row(each["loop"], f"{ns[0]} ns", f"{ns[1]} ns", q.change(each["error_pct"]))
        mean = f"In the mean a factor of {1 + document['geometric_error_pct'] / 100:.2f} off"
        parts += [Text(), table, Text(), Text(mean)]
    parts += [Text(f"· not determined: {note}", "dim") for note in document["not_determined"]]
    return Group(*parts)


def _prefetched(machine: Mapping[str, Any]) -> str:
    queue = machine.get("machine.core.outstanding_prefetches")
    return "no prefetcher" if queue is None else f"beside {queue} of its prefetcher"


def _curves(document: Mapping[str, Any]) -> Table:
    """Bandwidths by operation and set."""
    streams = document["measured"]["streams_ns"]
    sets = sorted({int(name.split()[1]) for name in streams})
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 1))
    table.add_column("GB/s")
    for bytes in sets:
        table.add_column(f"{bytes >> 10} KiB" if bytes < 1 << 20 else f"{bytes >> 20} MiB", justify="right")
    for operation in dict.fromkeys(name.split()[0] for name in streams):
        row = [q.digits(64 / streams[f"{operation} {bytes}"]) for bytes in sets]
        table.add_row(operation.replace("_", " "), *row)
    return table


def _bandwidth(document: Mapping[str, Any]) -> str:
    shared = document["measured"]["shared_read_ns"]
    return f"{q.digits(max(64 * int(number) / ns for number, ns in shared.items()))} GB/s"
