"""Workloads of copies on a machine with and without a copy table (`crates/studies/src/copies`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from wirespeed import _wirespeed, printed
from wirespeed.errors import InputError
from wirespeed.options import a_capture

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


class Kind(StrEnum):
    """What is copied."""

    stream = "stream"
    receive = "receive"
    vhost = "vhost"
    messages = "messages"


# The fewest CPUs a workload makes sense with; messages go round at least three.
_CPUS: Final = {Kind.stream: 1, Kind.receive: 1, Kind.vhost: 2, Kind.messages: 3}


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


def _settings(given: list[str]) -> dict[str, dict[str, Any]]:
    """`workload.x=1` and so on as nested tables."""
    out: dict[str, dict[str, Any]] = {"workload": {}, "machine": {}, "costs": {}}
    for text in given:
        path, equals, value = text.partition("=")
        keys = [key.strip() for key in path.split(".")]
        if not equals or len(keys) < 2 or keys[0] not in out:
            raise InputError(
                f"--set {text}: a path and a value are wanted that begin with {', '.join(out)}, for example "
                "workload.session_packets=10"
            )
        at: dict[str, Any] = out[keys[0]]
        for key in keys[1:-1]:
            at = at.setdefault(key, {})
            if not isinstance(at, dict):
                raise InputError(f"--set {text}: `{key}` has a value already and is no table")
        try:
            at[keys[-1]] = json.loads(value)
        except ValueError:
            at[keys[-1]] = value.strip()
    return out


def sentence(rows: list[dict[str, Any]], item: str) -> str:
    """The answer: which method takes least, and where the copy table is."""
    best = min(rows, key=lambda row: row["clocks"])
    words = f"{best['name']} takes least, {best['clocks_per_item']:,.0f} clocks a {item}"
    if best["reduction_pct"] is not None:
        words += f", {best['reduction_pct']:.0f} % less than {COMMON}"
    table = next((row for row in rows if row["name"] == "copy table"), best)
    if table is not best and table["reduction_pct"] is not None:
        words += f"; the copy table saves {table['reduction_pct']:.0f} %"
    return f"{words[:1].upper()}{words[1:]}."


def _table(rows: list[dict[str, Any]], item: str) -> Table:
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


def add(
    app: typer.Typer,
    show: Callable[[RenderableType], None],
    emit: Callable[[str], None],
    stoppable: Callable[[], AbstractContextManager[None]],
) -> None:
    """Adds the command to `app`; `show` and `emit` print to stdout, `stoppable` stands around what Ctrl-C may end."""

    @app.command(
        "copies",
        epilog="Examples:\n\n"
        "  wirespeed copies receive --capture trace.pcap.gz --reads\n\n"
        "  wirespeed copies receive --set workload.session_packets=10 --set workload.nic_data=placed\n\n"
        "  wirespeed copies messages --set machine.cpus=8\n\n"
        "Settings begin with workload, machine (caches, CPUs) or costs (clocks). The same copies on a whole server: "
        "wirespeed run socket and wirespeed run vhost.\n\n"
        "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C.",
    )
    def copies(
        kind: Annotated[Kind, typer.Argument(metavar="WORKLOAD", help="stream, receive, vhost or messages.")],
        capture: Annotated[
            Path | None,
            typer.Option(
                "--capture",
                metavar="FILE",
                help="Receive the TCP segments of this capture.",
                callback=a_capture,
            ),
        ] = None,
        reads: Annotated[
            bool | None,
            typer.Option("--reads/--no-reads", help="Whether what is received is read.", show_default=False),
        ] = None,
        settings: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="PATH=VALUE", help="Override one setting. May be given several times."),
        ] = None,
        form: Annotated[str, typer.Option("--format", metavar="table|json", help="How to print.")] = "table",
    ) -> int:
        """Compare a copy table with other ways to copy, on the CPU of the paper that describes it."""
        if form not in ("table", "json"):
            raise InputError(f"--format {form}: allowed are table and json")
        given = _settings(settings or [])
        workload: dict[str, Any] = {"kind": kind.value, **given["workload"]}
        if capture is not None:
            if kind is not Kind.receive:
                raise InputError(f"--capture goes with the workload receive, not with {kind.value}")
            workload["packets"] = {**workload.get("packets", {}), "capture": str(capture)}
        if reads is not None:
            if kind not in (Kind.receive, Kind.messages):
                raise InputError(f"--reads goes with the workloads receive and messages, not with {kind.value}")
            workload["reads"] = reads
        machine = {"cpus": _CPUS[kind], **given["machine"]}
        if "table" in machine:
            raise InputError("machine.table: each method says by itself whether the table is there (remove it)")
        with stoppable():
            rows = compare(workload, machine=machine, costs=given["costs"])
        if form == "json":
            emit(json.dumps({"workload": workload, "machine": machine, "methods": rows}, indent=2))
        else:
            item = {Kind.stream: "round", Kind.messages: "message"}.get(kind, "packet")
            show(Text(f"{sentence(rows, item)}\n"))
            show(_table(rows, item))
        return 0
