"""`wirespeed accuracy`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import typer

from wirespeed import csvs, files
from wirespeed.accuracy import accuracy, judging, rows, text
from wirespeed.accuracy.documents import Accuracy, Judged
from wirespeed.commands import options, output
from wirespeed.commands.exits import EXIT_CONDITION
from wirespeed.commands.fields import spread
from wirespeed.commands.options import QuietOpt
from wirespeed.commands.output import emit, emit_json, say, show, stoppable
from wirespeed.console import Console
from wirespeed.errors import InputError
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed accuracy --only ixy\n\n"
    "  wirespeed accuracy --template > mine.csv\n\n"
    "  wirespeed accuracy mine.csv --svg mine.svg --fail-above 15\n\n"
    "Errors are in percent of what was measured, of hits and loss in percentage points (pt). Rows that cannot be asked "
    "are listed with the reason.\n\n"
    "Exit code: 0 fine, 1 a median is above --fail-above, 2 bad input, 130 stopped by Ctrl-C."
)
Form: TypeAlias = Literal["table", "json", "csv"]

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    measured: Annotated[
        Path | None,
        typer.Argument(metavar="CSV", help="Rows of measurements.", show_default="the published ones that are shipped"),
    ] = None
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="TEXT", help="Rows in whose source, case or machine this text is."),
    ] = None
    jobs: Annotated[int | None, options.jobs("Runs at a time, each a process", options.TRAFFIC, least=1)] = None
    fail_above: Annotated[
        float | None,
        typer.Option(
            "--fail-above",
            metavar="PERCENT",
            min=0.0,
            help="Exit with 1 where the median error of a source's rows of a kind is above, in percent or points.",
        ),
    ] = None
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg", metavar="FILE", help="Draw predicted over measured as SVG to this file (.svg).", show_default=False
        ),
    ] = None
    errors: Annotated[
        Path | None,
        typer.Option(
            "--errors",
            metavar="FILE",
            help="Write errors by parts to this file (.json), as verdicts of a build of wirespeed read them.",
            show_default=False,
        ),
    ] = None
    template: Annotated[
        bool, typer.Option("--template", help="Print a CSV to begin with, and exit; nothing is run.")
    ] = False
    form: Annotated[Form, options.form("Tables to read, one JSON object, or the rows as CSV.")] = "table"
    quiet: QuietOpt = False


@app.command("accuracy", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Predict what was measured on real servers, published or yours; say how far predictions are off, and by what."""
    if given.template:
        emit(rows.template().rstrip("\n"))
        return 0
    if given.svg is not None:
        from wirespeed.accuracy import chart  # drawing costs a quarter of a second to import

        output.judge_svg(given.svg, chart.SVG_MARK, "accuracy", given.measured)
    if given.errors is not None:
        if given.only is not None:
            raise InputError(f"--errors {given.errors} with --only {given.only}: it is of all rows; leave --only out")
        _judge_errors(given.errors)
    with stoppable(), Bar(quiet=given.quiet, unit="runs") as bar:
        found = accuracy(given.measured, only=given.only, engine="local", jobs=given.jobs, progress=bar)
    match given.form:
        case "json":
            emit_json(found)
        case "csv":
            emit(csvs.table([_flat(row) for row in found["rows"]]).replace("\r\n", "\n").rstrip("\n"))
        case _:
            show(text.summary(found, Console().width))
    if given.svg is not None:
        files.write(given.svg, chart.chart(found))
    if given.errors is not None:
        files.write(given.errors, judging.errors_by_parts(found))
    return 0 if given.fail_above is None else _judged(found, given.fail_above)


def _judge_errors(path: Path) -> None:
    """Raises InputError for what errors cannot be written to, and for a file that holds something else."""
    if path.suffix.lower() != ".json":
        raise InputError(f"--errors {path}: allowed are names that end in .json")
    if not path.parent.is_dir():
        raise InputError(f"--errors {path}: {path.parent} is no folder; make it, or name another")
    files.refuse_link(path)
    if path.exists() and not judging.are_errors(path.read_text(encoding="utf-8", errors="replace")):
        raise InputError(f"--errors {path}: holds something else than errors by parts; name another file")


def _judged(found: Accuracy, percent: float) -> int:
    """The exit code of a condition; where no row counts it cannot be judged."""
    if not found["overall"]["counted"]:
        say(f"--fail-above {percent:g}: no row counts, so there is no median to judge")
        return EXIT_CONDITION
    for group in (above := judging.above(found, percent)):
        median, unit = group["errors"]["median_abs"], group["error_unit"]
        say(f"--fail-above {percent:g}: {group['source']}, {group['kind']}: the median error is {median:.1f} {unit}")
    return EXIT_CONDITION if above else 0


def _flat(row: Judged) -> Judged:
    """A row whose settings are one cell."""
    return row | {"settings": "; ".join(row["settings"] or ())}
