"""The command `wirespeed calibrate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wirespeed import files, terminal
from wirespeed import quantities as q
from wirespeed.calibrate import MARK, busy
from wirespeed.console import Console
from wirespeed.errors import InputError
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed calibrate --out mine.toml\n\n"
    "  wirespeed run forwarding --set machine.preset=mine.toml\n\n"
    "  wirespeed tune --target testpmd --machine mine.toml --out tuned\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)


def add(app: typer.Typer, show: Callable[[str], None], stoppable: Callable[[], AbstractContextManager[None]]) -> None:
    """Adds the command to `app`; `show` prints to stdout, `stoppable` stands around what Ctrl-C may end."""

    @app.command("calibrate", epilog=_EPILOG)
    def calibrate(
        out: Annotated[
            Path | None,
            typer.Option("--out", metavar="FILE", help="Write the machine to this file.", show_default=False),
        ] = None,
        cpu: Annotated[
            int | None,
            typer.Option("--cpu", metavar="N", help="The core that is measured.", show_default="the last one"),
        ] = None,
        judge: Annotated[
            bool, typer.Option("--judge/--no-judge", help="Judge the machine by loops that it was not fitted on.")
        ] = True,
        form: Annotated[
            Literal["table", "json"], typer.Option("--format", help="Tables to read, or one JSON object.")
        ] = "table",
        quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    ) -> int:
        """Measure this machine: a preset for simulations, each number with its measurement, and the preset's errors."""
        from wirespeed.calibrate.calibration import calibrate as measure

        if out is not None and out.is_dir():
            raise IsADirectoryError(21, "is a folder; name a file", str(out))
        if out is not None:
            _refuse_foreign(out)
        if not quiet and (told := busy.words(busy.others())):
            print(f"wirespeed: {told}", file=sys.stderr)
        with stoppable(), Bar(quiet=quiet, unit="loops") as bar:
            found = measure(cpu, judge, bar)
        if out is not None:
            found.write(out)
        if form == "json":
            show(json.dumps(found.document, indent=2, allow_nan=False))
        else:
            show(terminal.text(_summary(found.document), Console()).rstrip("\n"))
        if not quiet:
            where = (
                f"wrote {out}; use it as machine.preset" if out is not None else "add --out FILE to keep the machine"
            )
            print(f"wirespeed: {where}", file=sys.stderr)
        return 0


def _refuse_foreign(out: Path) -> None:
    """Raises InputError for a link, and for a file that this command did not write."""
    files.refuse_link(out)
    if out.is_file() and MARK not in out.read_text(encoding="utf-8", errors="replace"):
        raise InputError(f"{out}: was not written by `wirespeed calibrate`; name another file, or move it away")


def _summary(document: Mapping[str, Any]) -> RenderableType:
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
