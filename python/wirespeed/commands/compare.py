"""`wirespeed compare`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from wirespeed import api, comparing, files, gate, scenarios, terminal
from wirespeed.commands import options
from wirespeed.commands.exits import EXIT_CONDITION, EXIT_UNDECIDED
from wirespeed.commands.fields import spread
from wirespeed.commands.options import ForceOpt, FormatOpt, QuietOpt, ThreadsOpt, Traffic
from wirespeed.commands.output import emit, emit_json, say, show, stoppable
from wirespeed.errors import InputError, each_of
from wirespeed.progress import Bar
from wirespeed.result import Comparison
from wirespeed.same_traffic import Differing, differing

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed compare forwarding forwarding,machine.llc.core_ways=4\n\n"
    "  wirespeed compare forwarding upf --capture trace.pcap.gz --out compared\n\n"
    "  wirespeed compare baseline.json forwarding --fail-if 'p99 > +5%'\n\n"
    "  wirespeed compare before/ after/ --fail-if 'p99 > +5%' --fail-if 'loss > 0.001'\n\n"
    "A condition is METRIC OP VALUE: a change (+5%, -2%), or a value (20 us, 0.001, 5 Mpps). Metrics are p50, p99, "
    "p999, mean, loss, carried_mpps and the attribution reasons. It fails only where it holds for the whole 95 % "
    "half-width, or where b has no value and a has one; it passes only where it holds for no part of that. Runs of "
    "different traffic are judged only with --different-traffic.\n\n"
    "Exit code: 0 fine, 1 a condition fails or has no value to judge, 2 bad input, 4 none fails but a half-width is "
    "too wide to tell (more packets decide), 130 stopped by Ctrl-C."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Traffic):
    """What the command line says."""

    operands: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C]...",
            help="Scenarios, result folders, or a summary.json alone; all are compared with the first. "
            "SCENARIO,PATH=VALUE is a scenario with one setting changed.",
            show_default=False,
        ),
    ]
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            metavar="CONDITION",
            help="Exit with 1 where this holds significantly: 'p99 > +5%', 'loss > 0.001'. May be given several times.",
            show_default=False,
        ),
    ] = None
    different_traffic: Annotated[
        bool,
        typer.Option(
            "--different-traffic",
            help="Judge --fail-if even where load, capture, packets or line rate differ between the runs.",
            show_default=False,
        ),
    ] = False
    threads: ThreadsOpt = None
    out: Annotated[
        Path | None,
        options.out("Write comparison.json and comparison.html to this folder.", callback=options.no_file),
    ] = None
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit",
            metavar="FILE",
            help="Write the conditions of --fail-if as JUnit's XML, which CI shows.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None
    force: ForceOpt = False
    form: FormatOpt = "table"
    quiet: QuietOpt = False


@app.command("compare", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Compare runs on identical traffic, with the significance of each difference; gate a build on it."""
    conditions = each_of(given.fail_if or [], gate.parse)
    _judge(given)

    def judge_traffic(found: Sequence[Sequence[Differing]]) -> None:
        if conditions and not given.different_traffic:
            _refuse_other_traffic(given.operands, found)

    with stoppable(), Bar(quiet=given.quiet) as bar:
        results = api.operands(
            given.operands,
            scenarios.overrides(given.settings),
            given.seed,
            given.threads,
            bar,
            given.capture,
            given.table,
            # Before anything runs; what only a run tells, as the content of some files, is judged after it.
            lambda seen: judge_traffic([differing(seen[0], other) for other in seen[1:]]),
        )
    pairs = [api.compare(results[0], other) for other in results[1:]]
    judge_traffic([pair.differing for pair in pairs])
    judged = [[gate.judge(condition, pair.metrics) for condition in conditions] for pair in pairs]
    outcomes = {judgement.outcome for judgements in judged for judgement in judgements}
    failed = not outcomes.isdisjoint(gate.NO_PASS)
    document = comparing.document(pairs, judged)
    labels = results[0].summary.get("attribution_labels")
    if given.out is not None:
        page = comparing.page(given.operands, pairs, judged, labels)
        _write(given.out, document, page, given)
    if given.junit is not None:
        files.write(given.junit, comparing.junit(given.operands, judged))
    if given.form == "json":
        emit_json(document)
    else:
        _show(given.operands, pairs, judged, labels)
    if failed:
        return EXIT_CONDITION
    if gate.UNDECIDED in outcomes:
        if not given.quiet:
            say("a condition cannot be told: its half-width is too wide; raise run.packets (exit code 4)")
        return EXIT_UNDECIDED
    return 0


def _judge(given: Options) -> None:
    """Raises InputError for what cannot be compared."""
    if len(given.operands) < 2:
        raise InputError("compare needs at least two operands: scenarios or result folders")
    if given.junit is not None and not given.fail_if:
        raise InputError(f"--junit {given.junit}: has the conditions of --fail-if, and there is none; give one")
    if not all(api.is_result(each) for each in given.operands):
        return
    for_running = {
        "--set": bool(given.settings),
        "--seed": given.seed is not None,
        "--threads": given.threads is not None,
        "--capture": given.capture is not None,
        "--table": given.table is not None,
    }
    if said := [name for name, is_given in for_running.items() if is_given]:
        verb = "is" if len(said) == 1 else "are"
        raise InputError(
            f"{', '.join(said)} {verb} for running scenarios, but all operands are results that were written before"
        )


def _refuse_other_traffic(operands: Sequence[str], found: Sequence[Sequence[Differing]]) -> None:
    """Raises InputError where conditions would judge the traffic with the machine."""
    faults = [
        f"--fail-if: b = {name}: sees other traffic than a = {operands[0]}: {', '.join(each.text for each in settings)}"
        for name, settings in zip(operands[1:], found, strict=True)
        if settings
    ]
    if faults:
        raise InputError(
            "\n".join(faults)
            + "\na condition would judge the traffic with the machine: give all the same (--capture, --table, "
            "--set traffic.load=…), or say --different-traffic where it is meant"
        )


def _write(folder: Path, document: dict[str, Any], page: str, given: Options) -> None:
    written = json.dumps(document, indent=2, allow_nan=False) + "\n"
    files.write_texts(folder, {"comparison.json": written, "comparison.html": page}, force=given.force)
    if not given.quiet:
        say(f"wrote {folder / 'comparison.html'} and comparison.json")


def _show(
    operands: Sequence[str],
    pairs: Sequence[Comparison],
    judged: Sequence[Sequence[gate.Judgement]],
    labels: dict[str, str] | None,
) -> None:
    if len(pairs) > 1:
        emit(comparing.overview(operands[0], pairs))
    for other, pair, judgements in zip(operands[1:], pairs, judged, strict=True):
        if len(pairs) > 1:
            emit("")
        show(terminal.comparison(pair, judgements, (operands[0], other), labels))
