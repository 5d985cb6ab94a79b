"""`wirespeed size`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from wirespeed import files, operators
from wirespeed.commands import options
from wirespeed.commands.exits import EXIT_UNMET
from wirespeed.commands.fields import spread
from wirespeed.commands.options import (
    CaptureOpt,
    EachPointSetOpt,
    ForceOpt,
    QuietOpt,
    RoutesOpt,
    SeedOpt,
    TableOpt,
    TablesOrJsonOpt,
    TakesRoutes,
    ThreadsOpt,
)
from wirespeed.commands.output import emit, emit_json, say, say_refused, show, show_command, stoppable
from wirespeed.errors import InputError
from wirespeed.progress import Bar
from wirespeed.size import FILES, Sizing, aim, sizing, text
from wirespeed.size.dimensions import BY_NAME

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed size forwarding-64b --target '60 Mpps'\n\n"
    "  wirespeed size my.toml --capture trace.pcap.gz --target '90 Gbps' --loss 1e-6 --p99 '20 us' --out sized\n\n"
    "  wirespeed size upf --target '12 Mpps' --vary cores=2..12 --fix rings --fix burst=32\n\n"
    "  wirespeed size forwarding-64b --target '60 Mpps' --emit vpp\n\n"
    "Exit code: 0 the target is met, 1 by nothing that was tried, 2 bad input, 130 stopped by Ctrl-C."
)
_SIZE: Final = "Size"

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TakesRoutes):
    """What the command line says."""

    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="A TOML file, or the name of a shipped scenario.")]
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="RATE",
            help="The rate to carry: [bold]'40 Mpps'[/bold], '90 Gbps'.",
            show_default=False,
            rich_help_panel=_SIZE,
        ),
    ]
    loss: Annotated[
        float,
        typer.Option("--loss", metavar="SHARE", help="The largest loss, shown at 95 %.", rich_help_panel=_SIZE),
    ] = aim.LOSS
    p99: Annotated[
        str | None,
        typer.Option(
            "--p99",
            metavar="TIME",
            help="The largest 99th percentile of the sojourn, as in '20 us'; any if left out.",
            show_default=False,
            rich_help_panel=_SIZE,
        ),
    ] = None
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="NAME=VALUES",
            help=f"Values to try of {', '.join(BY_NAME)}: [bold]cores=1..16[/bold], rings=512..4096*2. "
            "May be given several times.",
            show_default=False,
            rich_help_panel=_SIZE,
        ),
    ] = None
    fix: Annotated[
        list[str] | None,
        typer.Option(
            "--fix",
            metavar="NAME[=VALUE]",
            help="Leave this as it is, or at a value. May be given several times.",
            show_default=False,
            rich_help_panel=_SIZE,
        ),
    ] = None
    least: Annotated[
        bool,
        typer.Option(
            "--least", help="Look for less, too, where the machine is enough as it is.", rich_help_panel=_SIZE
        ),
    ] = False
    packets: Annotated[
        int | None,
        options.count(
            "--packets",
            "Confirm a machine with no more packets than that; 3 / loss, which is what shows the loss, if left out.",
            rich_help_panel=_SIZE,
            show_default=False,
        ),
    ] = None
    capture: CaptureOpt = None
    table: TableOpt = None
    routes: RoutesOpt = None
    settings: EachPointSetOpt = None
    seed: SeedOpt = None
    threads: ThreadsOpt = None
    out: Annotated[
        Path | None,
        options.out(
            "Write size.json, size.html, the answer's scenario size.toml, and what was tried (Parquet, CSV) here."
        ),
    ] = None
    force: ForceOpt = False
    program: Annotated[
        str | None,
        typer.Option(
            "--emit",
            metavar="PROGRAM",
            help=f"Print the answer as the configuration of one of {', '.join(operators.PROGRAMS)}, too.",
            show_default=False,
            rich_help_panel=options.OUTPUT,
        ),
    ] = None
    form: TablesOrJsonOpt = "table"
    quiet: QuietOpt = False


@app.command("size", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Find the least machine that carries a rate: cores, queues, rings, mempool, burst and LLC ways."""
    if given.out is not None:
        files.judge(given.out, FILES, given.force)
    if given.program is not None:
        operators.judge(given.program, "--emit")
        if given.form == "json":
            raise InputError(
                "--emit and --format json: one object has no configuration behind it; leave out one of them"
            )
    with stoppable(), Bar(quiet=given.quiet, unit="runs") as bar:
        wish = _wish(given, bar)
        found = Sizing(*sizing.size(wish))
    written = found.write(given.out, given.force) if given.out is not None else []
    if given.form == "json":
        emit_json(found.document)
    else:
        show(text.summary(found.document))
        for label, command in text.commands(found.document):
            show_command(label, command)
    if given.program is not None:
        warning = "" if found.met else "# DOES NOT MEET THE TARGET: the nearest that was tried.\n"
        emit(f"\n{warning}{operators.emit(found.scenario, given.program)}".rstrip("\n"))
    if not given.quiet:
        say_refused(wish.refused)
    if written and not given.quiet:
        say(f"wrote {', '.join(file.name for file in written)} to {given.out}")
    return 0 if found.met else EXIT_UNMET


def _wish(given: Options, bar: Bar) -> aim.Wish:
    return aim.Wish(
        given.scenario,
        given.target,
        loss=given.loss,
        p99=given.p99,
        vary=given.vary or [],
        fix=given.fix or [],
        least=given.least,
        packets=given.packets,
        capture=given.capture,
        table=given.table,
        set=given.settings,
        seed=given.seed,
        threads=given.threads,
        progress=bar,
    )
