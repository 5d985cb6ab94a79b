"""Workloads of copies on a machine with and without a copy table (`crates/studies/src/copies`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from rich.table import Table

from wirespeed import _wirespeed, printed

__all__ = ["METHODS", "compare", "run"]

METHODS: Final[Mapping[str, Mapping[str, Any]]] = {
    "loads and stores": {"by": "loads"},
    "non-temporal stores": {"by": "non-temporal"},
    "DMA, polled": {"by": "dma", "setup": 1000, "notice": {"by": "polling", "clocks": 300}},
    "DMA, interrupt": {"by": "dma", "setup": 1000, "notice": {"by": "interrupt", "clocks": 4000}},
    "engine, synchronous": {"by": "controller", "retires": "sync", "setup": 20, "window": 128},
    "engine, with bypass": {"by": "controller", "retires": "sync-bypass", "setup": 20, "window": 128},
    "engine, asynchronous": {"by": "controller", "retires": "async", "setup": 20, "window": 128},
    "copy table": {"by": "table"},
}
"""Who may copy, the common way first; "engine" is one in the memory controller. Setup times are assumed (`DmaEngine`
and `ControllerEngine` in `crates/machine/src/copy_table/rivals.rs`)."""
COMMON: Final = "loads and stores"


def run(
    workload: Mapping[str, Any],
    method: str | Mapping[str, Any] = "table",
    *,
    machine: Mapping[str, Any] | None = None,
    costs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Runs a workload; returns clocks, instructions, copies, hit rates and what happened in the caches.

    `workload` has a `kind` (stream, receive, vhost, messages) and what differs from its defaults; `method` says who
    copies (loads, non-temporal, dma, controller, table), by name or with settings; `machine` and `costs` what differs
    from table 2 of Duarte and Wong (IEEE TC 2010). Raises InputError with the path of what cannot be.

    >>> run({"kind": "stream", "rounds": 10})["copies"]
    10
    """
    by = {"by": method} if isinstance(method, str) else dict(method)
    experiment = {"machine": dict(machine or {}), "costs": dict(costs or {}), "method": by, "workload": dict(workload)}
    return dict(json.loads(_wirespeed.run_copies(json.dumps(experiment))))


def compare(
    workload: Mapping[str, Any], *, machine: Mapping[str, Any] | None = None, costs: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Runs a workload by every method of METHODS; what `run` returns, with `name` and `reduction_pct`.

    The reduction is of the time of loads and stores. The copy table is there only for the method that uses it.

    >>> [row["name"] for row in compare({"kind": "stream", "rounds": 10})][-1]
    'copy table'
    """
    rows: list[dict[str, Any]] = []
    for name, method in METHODS.items():
        there = {**(machine or {}), "table": method["by"] == "table"}
        found = run(workload, method, machine=there, costs=costs)
        rows.append({"name": name, **found})
    common = next(row["clocks"] for row in rows if row["name"] == COMMON)
    return [{**row, "reduction_pct": 100 * (1 - row["clocks"] / common) if common else None} for row in rows]


def sentence(rows: list[dict[str, Any]], item: str) -> str:
    """The answer: which method takes least, and where the copy table is."""
    best = min(rows, key=lambda row: row["clocks"])
    words = f"{best['name']} takes least, {best['clocks_per_item']:,.0f} clocks a {item}"
    if best["reduction_pct"] is not None:
        words += f", {best['reduction_pct']:.0f} % less than {COMMON}"
    ours = next((row for row in rows if row["name"] == "copy table"), best)
    if ours is not best and ours["reduction_pct"] is not None:
        words += f"; the copy table saves {ours['reduction_pct']:.0f} %"
    return f"{words[:1].upper()}{words[1:]}."


def table(rows: list[dict[str, Any]], item: str) -> Table:
    """The methods beside each other, for people; `item` is what is copied in the mean."""
    heads = ("method", ">clocks", ">time saved", ">instructions", ">L1 hit", ">fills", ">hits")
    shown = printed.table(*heads, title=f"A {item} in the mean")
    for row in rows:
        counts, items = row["counts"], max(row["items"], 1)
        saved = "-" if row["reduction_pct"] is None else f"{row['reduction_pct']:.1f} %"
        by_table = [counts["lines_by_table"] / items, counts["table_hits"] / items]
        shown.add_row(
            row["name"],
            f"{row['clocks_per_item']:,.0f}",
            saved,
            f"{row['instructions'] / items:,.0f}",
            f"{100 * row['read_hit']:.1f} %",
            *(f"{n:.1f}" if any(by_table) else "-" for n in by_table),
        )
    shown.caption = "Fills and hits are lines of the copy table; time saved is beside loads and stores."
    shown.caption_justify = "left"
    return shown
