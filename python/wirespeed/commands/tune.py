"""`wirespeed tune`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from wirespeed import files
from wirespeed.commands import options
from wirespeed.commands.exits import EXIT_TARGET
from wirespeed.commands.fields import spread
from wirespeed.commands.options import CaptureOpt, EachPointSetOpt, ForceOpt, QuietOpt, TableOpt, TablesOrJsonOpt
from wirespeed.commands.output import emit_json, say, show, show_command, stoppable
from wirespeed.errors import InputError
from wirespeed.progress import Bar
from wirespeed.tune import choice, programs, search, text, tuning
from wirespeed.tune.search import Plan

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed tune upf --knob nic.rx_descriptors=128..4096*2 --knob mempool.size=8192..262144*2 --out tuned\n\n"
    "  wirespeed tune my.toml --knob nic.rx_descriptors=256,1024 --knob mempool.kind=fifo,lifo --metric p99 "
    "--loss-limit 0.001\n\n"
    "  wirespeed tune --target testpmd --out tuned\n\n"
    "  wirespeed tune --target command --command 'prog --ring {nic.rx_descriptors=1024}' --reads 'stdout:Mpps: (.*)' "
    "--knob nic.rx_descriptors=128..4096*2\n\n"
    "Values: a list (256,512), a range by a factor (128..4096*2) or by a step (16..64+16).\n\n"
    "A search that was stopped goes on where it was when it is run again with the same journal or folder.\n\n"
    "Exit code: 0 fine, 2 bad input, 3 a program that was measured is missing, has died or hung, 130 stopped by Ctrl-C."
)
_SEARCH, _PROGRAM = "Search", "Real programs"

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCENARIO]",
            help="A TOML file, or the name of a shipped scenario; nothing with --target.",
            show_default=False,
        ),
    ] = None
    knobs: Annotated[
        list[str] | None,
        typer.Option(
            "--knob",
            metavar="PATH=VALUES",
            help="A setting and the values to try, for example [bold]nic.rx_descriptors=128..4096*2[/bold]. "
            "May be given several times; testpmd and ovs-dpdk have usual ones.",
            show_default=False,
            rich_help_panel=_SEARCH,
        ),
    ] = None
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="METRIC",
            help=f"{', '.join(text.METRIC_WORDS)}; of a real program {', '.join(text.PROGRAM_WORDS)}.",
            show_default="carried_mpps, of a real program cpu_mpps",
            rich_help_panel=_SEARCH,
        ),
    ] = None
    loss_limit: Annotated[
        float | None,
        typer.Option(
            "--loss-limit",
            metavar="SHARE",
            help="The largest loss that the best settings may have, for example 0.001; no limit if left out "
            "(testpmd: 0.0001).",
            rich_help_panel=_SEARCH,
        ),
    ] = None
    evaluations: Annotated[
        int | None,
        typer.Option(
            "--evaluations",
            metavar="N",
            min=1,
            help="Points of the joint search.",
            show_default=f"{tuning.EVALUATIONS}, of a real program {programs.EVALUATIONS}",
            rich_help_panel=_SEARCH,
        ),
    ] = None
    grid: Annotated[
        bool, typer.Option("--grid", help="Also run every combination, as the truth.", rich_help_panel=_SEARCH)
    ] = False
    seed: Annotated[int, options.seed("Seed of the search; that of the simulation is --set run.seed=N", _SEARCH)] = 0
    batch: Annotated[
        int,
        typer.Option(
            "--batch",
            metavar="N",
            min=1,
            help="Points that are proposed at a time: more keep more cores busy, fewer learn sooner.",
            rich_help_panel=_SEARCH,
        ),
    ] = search.BATCH
    jobs: Annotated[int | None, options.jobs("Evaluations at a time", _SEARCH, 1)] = None
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal",
            metavar="FILE",
            help="Keep measurements in this file, and use those that are in it.",
            show_default="journal.jsonl in the folder of --out",
            rich_help_panel=_SEARCH,
        ),
    ] = None
    capture: CaptureOpt = None
    table: TableOpt = None
    settings: EachPointSetOpt = None
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="MACHINE",
            help="With testpmd: simulate every point on this machine, too: a file that "
            "[bold]wirespeed calibrate[/bold] has written, or a shipped machine.",
            show_default=False,
            rich_help_panel=_PROGRAM,
        ),
    ] = None
    program: Annotated[
        Literal["testpmd", "ovs-dpdk", "vpp", "command"] | None,
        typer.Option(
            "--target",
            help="Tune a real program on this machine, in place of a simulated scenario.",
            show_default=False,
            rich_help_panel=_PROGRAM,
        ),
    ] = None
    defaults: Annotated[
        Literal["testpmd", "paper"],
        typer.Option(
            "--from",
            help="What testpmd has where nothing is set: its own defaults, or 5GC2ache's 4096 descriptors and "
            "262140 mbufs, with no per-core cache, which is our assumption and most of the gain.",
            rich_help_panel=_PROGRAM,
        ),
    ] = "testpmd"
    size: Annotated[
        int,
        options.size("--size", "Bytes of a packet.", rich_help_panel=_PROGRAM),
    ] = 1500
    devices: Annotated[
        Literal["memif", "null"],
        typer.Option(
            "--devices", help="testpmd's virtual devices: memif has rings, null has none.", rich_help_panel=_PROGRAM
        ),
    ] = "memif"
    cpu: Annotated[
        int | None,
        typer.Option(
            "--cpu",
            metavar="N",
            help="The core of the polling thread.",
            show_default="the last one",
            rich_help_panel=_PROGRAM,
        ),
    ] = None
    starts: Annotated[
        int,
        typer.Option(
            "--starts",
            metavar="N",
            min=1,
            help="How often the best points and the program as it is are started again.",
            rich_help_panel=_PROGRAM,
        ),
    ] = programs.STARTS
    command: Annotated[
        str | None,
        typer.Option(
            "--command",
            metavar="TEMPLATE",
            help="With --target command: the program and its arguments, each setting as {PATH=VALUE as it is}.",
            show_default=False,
            rich_help_panel=_PROGRAM,
        ),
    ] = None
    reads: Annotated[
        str | None,
        typer.Option(
            "--reads",
            metavar="SOURCE",
            help="Where its number comes from: stdout:REGEX, telemetry:PREFIX\\[/COUNTER] (DPDK's file prefix) or "
            "prometheus:URL#SERIES.",
            show_default=False,
            rich_help_panel=_PROGRAM,
        ),
    ] = None
    loss_reads: Annotated[
        str | None,
        typer.Option(
            "--loss-reads",
            metavar="SOURCE",
            help="Where its loss comes from: a share, or with a running total a number of packets.",
            show_default=False,
            rich_help_panel=_PROGRAM,
        ),
    ] = None
    counts: Annotated[
        bool,
        typer.Option(
            "--counts",
            help="The number is a running total: tell it per CPU-second of the polling thread "
            "(always so by telemetry).",
            rich_help_panel=_PROGRAM,
        ),
    ] = False
    thread: Annotated[
        str | None,
        typer.Option(
            "--thread",
            metavar="REGEX",
            help="The name of the polling thread.",
            show_default="the busiest one",
            rich_help_panel=_PROGRAM,
        ),
    ] = None
    run_for: Annotated[
        float,
        typer.Option("--run-for", metavar="SECONDS", help="How long a start is measured.", rich_help_panel=_PROGRAM),
    ] = 2.0
    warmup: Annotated[
        float,
        typer.Option("--warmup", metavar="SECONDS", help="How long it works before that.", rich_help_panel=_PROGRAM),
    ] = 0.3
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="How long to wait for its first number before it is said to hang.",
            rich_help_panel=_PROGRAM,
        ),
    ] = 30.0
    out: Annotated[Path | None, options.out("Write tuning.json, tuning.html and the journal to this folder.")] = None
    form: TablesOrJsonOpt = "table"
    force: ForceOpt = False
    quiet: QuietOpt = False


@app.command("tune", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Search the settings that are best together; compare with one at a time, ResQ's rule and every combination."""
    if (given.scenario is None) == (given.program is None):
        raise InputError("give a SCENARIO to tune a simulated machine, or --target to tune a real program")
    if given.out is not None:
        files.judge(given.out, tuning.FILES, given.force)
    found = _scenario(given, given.scenario) if given.scenario is not None else _program(given)
    return _told(found, given)


def _scenario(given: Options, scenario: str) -> tuning.Tuning:
    if not given.knobs:
        raise InputError("there is nothing to tune: give at least one --knob PATH=VALUES")
    ask = tuning.Ask(
        scenario,
        given.knobs,
        _plan(given),
        capture=given.capture,
        table=given.table,
        set=given.settings,
        jobs=given.jobs,
    )
    with stoppable(), Bar(quiet=given.quiet, unit="points") as bar:
        return tuning.run(ask, bar)


def _program(given: Options) -> tuning.Tuning:
    only = {"--capture": given.capture, "--table": given.table, "--set": given.settings, "--jobs": given.jobs}
    if said := [name for name, value in only.items() if value is not None]:
        raise InputError(f"{said[0]}: is for scenarios; leave it out with --target")
    with stoppable(), Bar(quiet=given.quiet, unit="points") as bar:
        return choice.tune(_choice(given), given.knobs or [], _plan(given), given.starts, given.machine, bar)


def _plan(given: Options) -> Plan:
    journal = given.journal
    if journal is None and given.out is not None:
        journal = given.out / tuning.JOURNAL_FILE
    return Plan(
        metric=given.metric,
        loss_limit=given.loss_limit,
        evaluations=given.evaluations,
        grid=given.grid,
        seed=given.seed,
        batch=given.batch,
        journal=journal,
    )


def _choice(given: Options) -> choice.Choice:
    assert given.program is not None
    return choice.Choice(
        target=given.program,
        defaults=given.defaults,
        size=given.size,
        devices=given.devices,
        cpu=given.cpu,
        command=given.command,
        reads=given.reads,
        loss_reads=given.loss_reads,
        counts=given.counts,
        thread=given.thread,
        run_s=given.run_for,
        warmup_s=given.warmup,
        timeout_s=given.timeout,
    )


def _told(found: tuning.Tuning, given: Options) -> int:
    """Prints and writes a tuning: the exit code."""
    written = found.write(given.out, given.force) if given.out is not None else []
    if given.form == "json":
        emit_json(found.document)
    else:
        show(text.summary(found.document))
        show_command("Run the best", found.document["command"])
    if written and not given.quiet:
        say(f"wrote {', '.join(file.name for file in written)} to {given.out}")
    died = found.document.get("died", ())
    if died:
        say(f"{len(died)} starts died or hung, the first: {died[0]}")
    return EXIT_TARGET if died else 0
