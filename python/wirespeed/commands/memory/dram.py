"""`wirespeed memory dram`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from wirespeed import memory, terminal
from wirespeed.commands.fields import spread
from wirespeed.commands.memory.trace import TraceFormatOpt, TraceOpt
from wirespeed.commands.options import FormatOpt
from wirespeed.commands.output import emit_json, show, stoppable

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed memory dram --preset ddr4-2400u --trace stream.rw\n\n"
    "  wirespeed memory dram --map 'row bank column group' --trace stream.rw --format json | jq .peak_share\n\n"
    "  wirespeed memory dram --preset ddr5-4800b --offered every=20 --writes drain=32/24/8 --trace mixed.rw.zst\n\n"
    "[bold]wirespeed presets --kind dram[/bold] lists presets, and with a name prints one, to change."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    trace: TraceOpt
    preset: Annotated[
        str, typer.Option("--preset", metavar="NAME", help="A shipped DRAM standard, or a TOML file (.toml).")
    ] = memory.PRESET
    mapping: Annotated[
        str | None,
        typer.Option(
            "--map",
            metavar="PARTS",
            help="Parts of the address from high to low, as in 'row bank group column'; behind 'permuted:' with "
            "bank bits XORed with row bits; or a TOML file of bit fields (.toml).",
            show_default="row rank bank group column channel",
        ),
    ] = None
    offered: Annotated[
        str,
        typer.Option(
            "--offered",
            metavar="LOAD",
            help="saturated (each request as soon as it is accepted), every=CLOCKS, or trace (its own clocks).",
        ),
    ] = "saturated"
    queue: Annotated[
        int | None, typer.Option("--queue", metavar="N", min=0, help="Entries of a queue.", show_default="32")
    ] = None
    order: Annotated[
        str | None,
        typer.Option(
            "--order",
            metavar="ORDER",
            help="fr-fcfs[=CAP], fcfs[=PREFETCH], batch=direction/SIZE/PREFETCH or batch=bank-parity/SIZE/PREFETCH.",
            show_default="fr-fcfs",
        ),
    ] = None
    writes: Annotated[
        str | None,
        typer.Option("--writes", metavar="HOW", help="mixed, or drain=QUEUE/HIGH/LOW.", show_default="mixed"),
    ] = None
    page: Annotated[
        str | None,
        typer.Option(
            "--page", metavar="HOW", help="open, closed or adaptive=CLOCKS.", show_default="open; closed with HMC"
        ),
    ] = None
    refresh: Annotated[
        str | None, typer.Option("--refresh", metavar="HOW", help="all-bank, per-bank or off.", show_default="all-bank")
    ] = None
    trace_format: TraceFormatOpt = None
    form: FormatOpt = "table"


@app.command("dram", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Run requests through a DRAM: bandwidth and where the rest of it goes, latencies, rows."""
    with stoppable():
        document = memory.simulate_dram(
            memory.read_trace(given.trace, given.trace_format),
            given.preset,
            map=given.mapping,
            offered=given.offered,
            queue=given.queue,
            order=given.order,
            writes=given.writes,
            page=given.page,
            refresh=given.refresh,
        )
    if given.form == "json":
        emit_json(document)
    else:
        show(terminal.memory_dram(document))
    return 0
