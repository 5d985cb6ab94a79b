"""`wirespeed sweep`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from wirespeed import files, scenarios, terminal
from wirespeed.commands import options
from wirespeed.commands.exits import EXIT_INCOMPLETE
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
from wirespeed.commands.output import emit, emit_json, say, say_refused, stoppable
from wirespeed.console import Console
from wirespeed.errors import InputError
from wirespeed.progress import Bar
from wirespeed.sweep import axes, plan, study, text
from wirespeed.sweep.plan import Ask

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed sweep forwarding --vary machine.llc.slices=1,4,8 --vary traffic.load=0.1..1.0/10\n\n"
    "  wirespeed sweep forwarding --vary traffic.load=0.5..1.0/6 --until 'p99 2%'\n\n"
    "  wirespeed sweep my.toml --design sobol --samples 256 --vary nic.rx_descriptors=64..4096 "
    "--vary traffic.load=0.1..1\n\n"
    "  wirespeed sweep study.toml --engine dask --scheduler tcp://10.0.0.1:8786\n\n"
    "Values: a list (1,4,8), so many at equal distances (0.1..1.0/10), a range by a step (16..64+16) or by a factor "
    "(128..4096*2); with --design latin or sobol FIRST..LAST is an interval.\n\n"
    "A study that was stopped, or killed, goes on where it was when it is run again with the same folder.\n\n"
    "Exit code: 0 fine (points that the scenario's rules refuse are listed), 1 points failed as they ran (all others "
    "are written), 2 bad input or every point failed, 130 stopped by Ctrl-C."
)
_STUDY, _WHERE = "Study", "Where it runs"
DEFAULT_FOLDER: Final = "wirespeed-sweep"

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TakesRoutes):
    """What the command line says."""

    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO|STUDY",
            help="A scenario's file or shipped name, or a study file (it has `scenario = …`).",
        ),
    ]
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="PATH=VALUES",
            help="A setting and its values, for example [bold]traffic.load=0.1..1.0/10[/bold]. "
            "May be given several times.",
            show_default=False,
            rich_help_panel=_STUDY,
        ),
    ] = None
    design: Annotated[
        str | None,
        typer.Option("--design", help="grid, latin (hypercube) or sobol.", show_default="grid", rich_help_panel=_STUDY),
    ] = None
    samples: Annotated[
        int | None,
        typer.Option("--samples", metavar="N", help="Points of latin and sobol.", rich_help_panel=_STUDY),
    ] = None
    seed: Annotated[
        int | None,
        options.seed(
            "Seed of latin and sobol; that of the simulation is --set run.seed=N", _STUDY, least=None, show_default="0"
        ),
    ] = None
    replications: Annotated[
        int | None,
        typer.Option(
            "--replications",
            metavar="N",
            help="Runs of each point, with seeds of their own.",
            show_default="1",
            rich_help_panel=_STUDY,
        ),
    ] = None
    until: Annotated[
        list[str] | None,
        typer.Option(
            "--until",
            metavar="'METRIC WIDTH'",
            help="Run each point until this 95 % half-width is met, for example [bold]'carried_mpps 1%'[/bold].",
            show_default=False,
            rich_help_panel=_STUDY,
        ),
    ] = None
    most_replications: Annotated[
        int | None,
        typer.Option(
            "--most-replications",
            metavar="N",
            help="With --until: the most runs of a point.",
            show_default="30",
            rich_help_panel=_STUDY,
        ),
    ] = None
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="METRIC",
            help="What to show. May be given several times. ndr and pdr are searched at each point.",
            show_default="carried_mpps, loss, p99",
            rich_help_panel=_STUDY,
        ),
    ] = None
    cold: Annotated[
        bool,
        typer.Option(
            "--cold",
            help="Warm up each point from nothing, as [bold]run[/bold] does; without it points begin with what the "
            "caches of the scenario's own machine hold, and settle in a fraction of the time, but for those with a "
            "[bold]run.warmup[/bold].",
            rich_help_panel=_STUDY,
        ),
    ] = False
    capture: CaptureOpt = None
    table: TableOpt = None
    routes: RoutesOpt = None
    settings: EachPointSetOpt = None
    engine: Annotated[
        str, typer.Option("--engine", help="local (processes), threads or dask.", rich_help_panel=_WHERE)
    ] = "local"
    jobs: Annotated[int | None, options.jobs("Processes or threads of this machine", _WHERE)] = None
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="Dask's scheduler.", rich_help_panel=_WHERE),
    ] = None
    retry: Annotated[
        bool, typer.Option("--retry-failed", help="Run again what failed before.", rich_help_panel=_WHERE)
    ] = False
    out: Annotated[
        Path, options.out("Keep finished runs, results.parquet, results.csv, sweep.json and sweep.html here.")
    ] = Path(DEFAULT_FOLDER)
    force: ForceOpt = False
    form: TablesOrJsonOpt = "table"
    quiet: QuietOpt = False


@app.command("sweep", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Run a scenario over values of its settings, on all cores or on a cluster; nothing is run twice."""
    ask = asked(given)
    files.judge(given.out, study.FILES, given.force)
    with stoppable(), Bar(quiet=given.quiet, unit="runs") as bar:
        engine = study.chosen(given.engine, given.jobs, given.scheduler, None)
        found = study.run(ask, given.out, engine, given.retry, bar)
    written = found.write(given.out, given.force)
    if given.form == "json":
        emit_json(found.document)
    else:
        console = Console()
        emit(terminal.text(text.summary(found.document, console.width), console).rstrip("\n"))
    if not given.quiet:
        say_refused(found.refused)
        say(f"wrote {', '.join(file.name for file in written)} to {given.out}")
    if found.failed < len(found.rows) and (lacking := text.closing(found.document)) is not None:
        say(lacking)
    study.refuse_failed(found)
    return EXIT_INCOMPLETE if text.failed(found.document) else 0


def asked(given: Options) -> Ask:
    """What is asked for; what the command line says goes before what a study file says, axes and settings are added."""
    said: dict[str, Any] = {name: getattr(given, name) for name in _ASKED if getattr(given, name) not in (None, [])}
    found = plan.read(given.scenario)
    if given.cold:
        said["near"] = None
    if found is None:
        return Ask(given.scenario, vary=given.vary, set=given.settings, **said)
    if given.vary:
        found = replace(found, vary=_varied(given.scenario, found, given.vary))
    return replace(found, set=[*scenarios.overrides(found.set), *(given.settings or [])], **said)


_ASKED: Final = (
    *("design", "samples", "seed", "replications", "most_replications", "until", "metrics", "capture", "table"),
)
"""Options that replace what a study file says."""


def _varied(file: str, found: Ask, vary: list[str]) -> dict[str, Any]:
    """The axes of a study file with those of the command line. Raises InputError for one that is given twice."""
    varied: dict[str, Any] = dict(found.vary or {})  # type: ignore[arg-type] # of a file it is a table
    both = sorted({axis.partition("=")[0].strip() for axis in vary} & set(varied))
    if both:
        raise InputError(f"--vary {both[0]}: {file} varies it too; leave it out of one of them")
    for axis in vary:
        path, equals, values = axis.partition("=")
        if not equals or path.strip() in varied:
            axes.parse(axis)  # says what is wrong with it
            raise InputError(f"--vary {path.strip()}: is given twice; put all its values into one")
        varied[path.strip()] = values
    return varied
