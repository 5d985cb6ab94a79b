"""`wirespeed microengines`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from wirespeed import microengines
from wirespeed import quantities as q
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import OUTPUT, TRAFFIC, QuietOpt, TablesOrJsonOpt
from wirespeed.commands.output import emit, emit_json, show, stoppable
from wirespeed.microengines import Application
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed microengines\n\n"
    "  wirespeed microengines --set sdram.prefetch=true --set sdram.batch=4 --set transmit.block=4\n\n"
    "  wirespeed microengines mine.toml --application nat --traffic packmime --format json | jq .gbps\n\n"
    "[bold]wirespeed presets ixp1200[/bold] prints what there is to set; --show prints it with the settings given.\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)
_PROCESSOR: Final = "Processor"

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    processor: Annotated[
        str, typer.Argument(metavar="[PROCESSOR]", help="A shipped network processor, or a TOML file.")
    ] = microengines.PRESET
    settings: Annotated[
        list[str] | None, options.setting(", for example [bold]sdram.queues=bank_parity[/bold]", _PROCESSOR)
    ] = None
    application: Annotated[
        Application,
        typer.Option("--application", help="What is done to packets.", rich_help_panel=_PROCESSOR),
    ] = Application.l3fwd16
    traffic: Annotated[
        str,
        typer.Option(
            "--traffic",
            metavar="WHAT",
            help="edge, packmime, fixed=BYTES, a profile, a capture, or a scenario, whose traffic it is.",
            rich_help_panel=TRAFFIC,
        ),
    ] = "edge"
    packets: Annotated[
        int, typer.Option("--packets", metavar="N", min=1, help="Packets of a run.", rich_help_panel=TRAFFIC)
    ] = 30_000
    warm_up: Annotated[
        int,
        typer.Option("--warm-up", metavar="N", min=0, help="Packets before these.", rich_help_panel=TRAFFIC),
    ] = 10_000
    seeds: Annotated[
        int,
        typer.Option("--seeds", metavar="N", min=1, help="Runs of other seeds.", rich_help_panel=TRAFFIC),
    ] = 5
    seed: Annotated[int, options.seed("The first seed", TRAFFIC)] = 0
    window: Annotated[
        int,
        typer.Option(
            "--rows", metavar="W", min=1, help="References in which rows are counted.", rich_help_panel=OUTPUT
        ),
    ] = 16
    form: TablesOrJsonOpt = "table"
    only_show: Annotated[
        bool, typer.Option("--show", help="Print the processor as TOML, and run nothing.", rich_help_panel=OUTPUT)
    ] = False
    quiet: QuietOpt = False


@app.command("microengines", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Run a network processor: multithreaded engines, packet buffer, SDRAM controller, each with its switches."""
    if given.only_show:
        emit(microengines.spec(given.processor, given.settings, application=given.application))
        return 0
    with stoppable(), Bar(quiet=given.quiet, unit="runs") as bar:
        bar(f"{given.seeds} runs of {q.count(given.warm_up + given.packets)} packets", 0, 0, "")
        found = microengines.run(
            given.processor,
            given.settings,
            application=given.application,
            traffic=given.traffic,
            packets=given.packets,
            warm_up=given.warm_up,
            seeds=given.seeds,
            seed=given.seed,
            window=given.window,
        )
    if given.form == "json":
        emit_json(found)
    else:
        show(microengines.table(found))
    return 0
