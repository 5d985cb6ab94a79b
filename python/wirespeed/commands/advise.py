"""`wirespeed advise`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from wirespeed import files
from wirespeed.advise import FILES, Advice, advice, bench, text
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import (
    CaptureOpt,
    EachPointSetOpt,
    ForceOpt,
    QuietOpt,
    RoutesOpt,
    TableOpt,
    TablesOrJsonOpt,
    TakesRoutes,
)
from wirespeed.commands.output import emit_json, say, say_refused, show, show_command, stoppable
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed advise forwarding\n\n"
    "  wirespeed advise my.toml --capture trace.pcap.gz --target '12 Mpps'\n\n"
    "  wirespeed advise upf --goal p99 --without core\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)
_ADVICE: Final = "Advice"
DEFAULT_FOLDER: Final = "wirespeed-advice"

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TakesRoutes):
    """What the command line says."""

    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="A TOML file, or the name of a shipped scenario.")]
    goal: Annotated[
        str,
        typer.Option(
            "--goal",
            help="What techniques are ranked by: rate (at saturation), ndr (without loss) or p99.",
            rich_help_panel=_ADVICE,
        ),
    ] = "rate"
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="RATE",
            help="Also find the cheapest set that carries this without loss: [bold]'20 Mpps'[/bold], '90 Gbps'.",
            show_default=False,
            rich_help_panel=_ADVICE,
        ),
    ] = None
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="NAME",
            help="Leave out this technique. May be given several times.",
            show_default=False,
            rich_help_panel=_ADVICE,
        ),
    ] = None
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME",
            help="Also try this, which is tried only where it is asked for: [bold]gpu[/bold], [bold]gpu_card[/bold].",
            show_default=False,
            rich_help_panel=_ADVICE,
        ),
    ] = None
    packets: Annotated[
        int,
        options.count("--packets", "Packets of each run of the comparison.", rich_help_panel=_ADVICE),
    ] = bench.PACKETS
    jobs: Annotated[int | None, options.jobs("Processes", _ADVICE)] = None
    capture: CaptureOpt = None
    table: TableOpt = None
    routes: RoutesOpt = None
    settings: EachPointSetOpt = None
    out: Annotated[
        Path, options.out("Keep finished runs, advice.json, advice.html and its tables (Parquet, CSV) here.")
    ] = Path(DEFAULT_FOLDER)
    force: ForceOpt = False
    form: TablesOrJsonOpt = "table"
    quiet: QuietOpt = False


@app.command("advise", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Say which techniques pay on this machine with this traffic, what they cost, and what to set."""
    files.judge(given.out, FILES, given.force)
    with stoppable(), Bar(quiet=given.quiet, unit="runs") as bar:
        asked = _asked(given, bar)
        found = Advice(advice.advise(asked))
    written = found.write(given.out, given.force)
    if given.form == "json":
        emit_json(found.document)
    else:
        show(text.summary(found.document))
        for label, command in text.commands(found.document):
            show_command(label, command)
    if not given.quiet:
        say_refused(asked.refused)
        say(f"wrote {', '.join(file.name for file in written)} to {given.out}")
    return 0


def _asked(given: Options, bar: Bar) -> bench.Asked:
    return bench.Asked(
        given.scenario,
        capture=given.capture,
        table=given.table,
        set=given.settings,
        goal=given.goal,
        target=given.target,
        without=given.without or [],
        also=given.also or [],
        packets=given.packets,
        jobs=given.jobs,
        out=given.out,
        progress=bar,
        in_processes=True,
    )
