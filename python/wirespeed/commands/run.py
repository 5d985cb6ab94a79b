"""`wirespeed run`, and what `demo` and `predict` share with it: a run, and where its result goes."""

from __future__ import annotations

import shlex
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import typer

from wirespeed import api, files, lives, questions, terminal
from wirespeed.commands import options
from wirespeed.commands.exits import EXIT_STOPPED
from wirespeed.commands.fields import spread
from wirespeed.commands.options import FormatOpt, QuietOpt, ScenarioArg, ThreadsOpt, Traffic
from wirespeed.commands.output import emit, say, show, show_command, stoppable
from wirespeed.console import Console
from wirespeed.progress import Bar
from wirespeed.result import Result
from wirespeed.stored import FILES, REPORT_FILE, earlier

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed run forwarding\n\n"
    "  wirespeed run forwarding --capture trace.pcap.gz --table rib.gz --out results\n\n"
    "  wirespeed run my.toml --set machine.llc.core_ways=8 --search ndr\n\n"
    "  wirespeed run forwarding --format json | jq .sojourn_ns.p99\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C (the partial result is written and marked)."
)

Search: TypeAlias = Literal["ndr", "pdr"]
OutOpt = Annotated[
    Path | None,
    options.out(
        "Write tables (Parquet), summary.json, scenario.toml and report.html to this folder.", callback=options.no_file
    ),
]

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Traffic):
    """What a run is made with, and where its result goes."""

    threads: ThreadsOpt = None
    out: OutOpt = None
    force: options.ForceOpt = False
    form: FormatOpt = "table"
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Write no report.html.", rich_help_panel=options.OUTPUT)
    ] = False
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Print all that was counted: hit rates, DRAM, what each function takes, and more answers.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = False
    quiet: QuietOpt = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Kept):
    """What the command line says."""

    scenario: ScenarioArg
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Write the lives of some packets as a trace for Perfetto (.json, .json.gz), and a page beside it: "
            "the slowest, and those in a ring that loses one. --set run.trace.slowest=100 says how many.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None
    search: Annotated[
        Search | None,
        typer.Option(
            "--search",
            help="Search the highest load without loss (ndr) or with a small one (pdr), as in RFC 2544.",
            rich_help_panel=options.TRAFFIC,
        ),
    ] = None


@app.command("run", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Send traffic through a packet function on a machine; say whether it keeps wire speed and where time goes."""
    if given.trace is not None:
        lives.check(given.trace, given.force)
    return run(given.scenario, given, given.search, given.trace)


def _traced(scenario: str, given: Kept) -> Kept:
    """With packets to write down, unless the scenario says which."""
    resolved = api.resolve(scenario, given.capture, given.table, given.settings, given.seed)
    if "trace" in tomllib.loads(resolved)["run"]:
        return given
    return replace(given, settings=[*(given.settings or []), "run.trace={}"])


def run(scenario: str, given: Kept, search: Search | None = None, trace: Path | None = None) -> int:
    """Runs a scenario, writes and prints its result; the exit code."""
    if given.out is not None:
        # Before anything runs: what is in the way there would cost the result.
        names = [name for name in FILES if not given.no_report or name != REPORT_FILE]
        files.judge(given.out, names, given.force)
    asked = given if trace is None else _traced(scenario, given)
    reports = given.out is not None and not given.no_report
    result = simulate(scenario, asked, given.quiet, search, given.threads, lower_loads=reports)
    before, written = None, []
    if given.out is not None:
        before = earlier(given.out)
        command = shlex.join(["wirespeed", *sys.argv[1:]])
        written = result.write(given.out, not given.no_report, command, given.force)
    told = result.lives() if trace is not None else None
    if trace is not None and told is not None:
        _say_trace(lives.write(told, trace, result.summary, given.force), given.quiet)
    if given.form == "json":
        emit(result.summary_json)
    else:
        show(terminal.run_summary(result.shown, result.scenario, result.slowest(), given.details))
        if not result.partial:
            _, command = questions.to_type(result.summary, *_typed(scenario, given, search))
            gap = "\n" if given.details else ""  # else it stands below what names --details
            show_command("What do I type next?", command, gap)
    if not given.quiet:
        _say_where(given, written)
        if given.out is not None and before is not None:
            say(f"replaced run {before} in {given.out}")
    return EXIT_STOPPED if result.partial else 0


def _typed(scenario: str, given: Kept, search: Search | None) -> tuple[list[str], list[str], str]:
    """The words that run this again, those that ask for advice on it, and a folder beside the one that was given."""
    words = [scenario]
    for option, value in (("--capture", given.capture), ("--table", given.table)):
        words += [option, str(value)] if value is not None else []
    words += [word for setting in given.settings or [] for word in ("--set", setting)]
    again = ["wirespeed", "run", *words]
    again += ["--seed", str(given.seed)] if given.seed is not None else []
    again += ["--search", search] if search is not None else []
    return again, ["wirespeed", "advise", *words], "" if given.out is None else f"{given.out}-next"


def simulate(
    scenario: str,
    given: Traffic,
    quiet: bool,
    search: Search | None = None,
    threads: int | None = None,
    *,
    lower_loads: bool = False,
) -> Result:
    """Runs a scenario with its progress on stderr."""
    with stoppable(), Bar(quiet=quiet) as bar:
        return api.run(
            scenario,
            capture=given.capture,
            table=given.table,
            set=given.settings,
            seed=given.seed,
            threads=threads,
            search=search,
            progress=bar,
            lower_loads=lower_loads,
        )


def _say_trace(written: list[Path], quiet: bool) -> None:
    if not quiet:
        trace, page = written
        say(f"wrote {trace} (open it at ui.perfetto.dev) and {page}")


def _say_where(given: Kept, written: list[Path]) -> None:
    """Says on stderr where the results lie, or how to keep them."""
    console = Console(stderr=True)
    if given.out is None:
        if given.form == "table":
            console.print("\nAdd --out DIR to keep tables and a report.", style="dim", highlight=False)
        return
    report = next((str(file) for file in written if file.name == REPORT_FILE), None)
    console.print()
    console.print(terminal.written(str(given.out), [file.name for file in written], report), highlight=False)
