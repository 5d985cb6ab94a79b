"""`wirespeed slices`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from wirespeed import _wirespeed, misspelt, scenarios, slices
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import CaptureOpt, QuietOpt, TableOpt, TablesOrJsonOpt
from wirespeed.commands.output import emit_json, stoppable
from wirespeed.console import Console
from wirespeed.errors import InputError
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed slices\n\n"
    "  wirespeed slices --set applications.0.rho=0.9 --set outstanding=4 --set limit=400\n\n"
    "  wirespeed slices --capture trace.pcap.gz --table rib.bz2 --function forward --real-size\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)
_MODEL: Final = "Slices and stacked DRAM"

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    settings: Annotated[
        list[str] | None,
        options.setting(
            " of the model, for example [bold]limit=400[/bold] or applications.0.slices=16; `--format json` shows all",
            _MODEL,
        ),
    ] = None
    real_size: Annotated[
        bool,
        typer.Option(
            "--real-size",
            help="Caches of 64 KiB, 512 KiB and 28 x 1 MiB in place of the paper's, and 2^27 entries.",
            rich_help_panel=_MODEL,
        ),
    ] = False
    preview: Annotated[bool, typer.Option("--preview", help="Closed forms only: at once.", rich_help_panel=_MODEL)] = (
        False
    )
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, help="Independent runs.", rich_help_panel=_MODEL)
    ] = 1
    seed: Annotated[int, options.seed("Seed", _MODEL)] = 0
    function: Annotated[
        str | None,
        typer.Option(
            "--function",
            metavar="KIND",
            help="Look up what this packet function does (forward, nat, classify, ...), not by the Zipf-like law.",
            show_default=False,
            rich_help_panel=options.TRAFFIC,
        ),
    ] = None
    scenario: Annotated[
        str | None,
        typer.Option(
            "--scenario",
            metavar="SCENARIO",
            help="Whose traffic, tables and function are recorded: a file or a shipped one; else forwarding.",
            show_default=False,
            rich_help_panel=options.TRAFFIC,
        ),
    ] = None
    capture: CaptureOpt = None
    table: TableOpt = None
    packets: Annotated[
        int | None,
        options.count(
            "--packets",
            f"Packets that are recorded and come again after the last; {slices.RECORDED_PACKETS} if left out.",
            show_default=False,
            rich_help_panel=options.TRAFFIC,
        ),
    ] = None
    threads: Annotated[int | None, options.threads("Architectures at a time.")] = None
    form: TablesOrJsonOpt = "table"
    quiet: QuietOpt = False


@app.command("slices", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """LLC slices, a shared LLC and none, over stacked DRAM: side by side, simulated and in closed form."""
    spec = slices.judged(slices.default(given.settings or (), given.real_size))
    with stoppable(), Bar(quiet=given.quiet, unit="runs") as bar:
        lookups = _lookups(given, spec["line_bytes"])
        result = slices.study(spec, lookups, given.runs, given.seed, given.threads, given.preview, bar)
    if given.form == "json":
        emit_json(result)
    else:
        _print(result)
    return 0


def _lookups(given: Options, line_bytes: int) -> _wirespeed.RecordedLookups | None:
    """What a packet function looks up, where there is traffic; None for lookups by the Zipf-like law."""
    if all(each is None for each in (given.function, given.scenario, given.capture, given.table)):
        if given.packets is not None:
            raise InputError(
                "--packets without traffic: lookups by the Zipf-like law are not of packets "
                "(give --function, --scenario, --capture or --table, or --set requests=N)"
            )
        return None
    found = scenarios.find(given.scenario or "forwarding")
    overrides = [*found.overrides, *([f"function.kind={given.function}"] if given.function else [])]
    capture, table = (None if path is None else os.fspath(path) for path in (given.capture, given.table))
    resolved = misspelt.scenario(found.text, found.origin, overrides, capture=capture, table=table)
    return slices.record(resolved, given.packets or slices.RECORDED_PACKETS, line_bytes)


def _print(result: Mapping[str, Any]) -> None:
    console = Console(file=sys.stdout)
    console.print(Text(slices.sentence(result), "bold"))
    for shown in slices.tables(result):
        console.print()
        console.print(shown)
    for note in slices.notes(result):
        console.print(f"Note: {note}", highlight=False)
    if any(row["errors"] for row in result["architectures"]):
        taken = "lookups as independent, and " if result["lookups"] is None else ""
        console.print(
            "In brackets: closed form less simulation, in percent of it, of shares in points. Closed forms take "
            f"{taken}DRAM without interleaving.",
            highlight=False,
        )
