"""`wirespeed memory dram`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

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
    "  wirespeed memory dram --preset ddr5-4800b,ddr5-5600b,lpddr5x-8533 --by channel --trace stream.rw\n\n"
    "[bold]wirespeed presets --kind dram[/bold] lists presets, and with a name prints one, to change."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    trace: TraceOpt
    presets: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="A shipped DRAM standard, or a TOML file (.toml); several, by commas or times, are a row each.",
            show_default=memory.PRESET,
        ),
    ] = None
    channels: Annotated[
        int | None,
        typer.Option(
            "--channels",
            metavar="N",
            min=1,
            help="Channels, a power of two; a map that names none spreads lines over them.",
            show_default="the preset's",
        ),
    ] = None
    speed: Annotated[
        int | None,
        typer.Option(
            "--speed",
            metavar="MT/S",
            min=1,
            help="Another data rate, from half the preset's to twice: the shipped preset of the family for it, or else "
            "timings that keep their ns, rounded up to clocks, or their clocks where the standard counts clocks.",
            show_default="the preset's",
        ),
    ] = None
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
        str | None,
        typer.Option(
            "--refresh",
            metavar="HOW",
            help="all-bank, per-bank, same-bank (DDR5) or off.",
            show_default="all-bank; per-bank with LPDDR5X",
        ),
    ] = None
    by: Annotated[
        Literal["channel", "bank"] | None,
        typer.Option("--by", help="Show the load of each, and how uneven it is.", show_default="neither"),
    ] = None
    trace_format: TraceFormatOpt = None
    form: FormatOpt = "table"


@app.command("dram", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Run requests through a DRAM: bandwidth and where the rest of it goes, latencies, rows."""
    presets = [name.strip() for names in given.presets or [memory.PRESET] for name in names.split(",")]
    with stoppable():
        documents = memory.compare_drams(
            memory.read_trace(given.trace, given.trace_format),
            presets,
            map=given.mapping,
            offered=given.offered,
            queue=given.queue,
            order=given.order,
            writes=given.writes,
            page=given.page,
            refresh=given.refresh,
            channels=given.channels,
            speed=given.speed,
        )
    if given.form == "json":
        emit_json(documents if len(documents) > 1 else documents[0])
    elif len(documents) > 1:
        show(terminal.memory_drams(documents, given.by))
    else:
        show(terminal.memory_dram(documents[0], given.by))
    return 0
