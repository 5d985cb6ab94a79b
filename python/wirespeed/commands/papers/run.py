"""`wirespeed papers run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from wirespeed import papers
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import ForceOpt, FormatOpt, QuietOpt
from wirespeed.commands.output import emit_json, say, show, stoppable
from wirespeed.papers import show as text
from wirespeed.papers import written
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed papers run 2020-access-korikawa --out results\n\n"
    "  wirespeed papers run 2020-access-korikawa --claim throughput --reading A --format json\n\n"
    "--out writes claims.json, claims.parquet, claims.tex (booktabs), points.csv, figures.html and an SVG a figure. "
    "Finished points are kept there, too: a run that was stopped goes on where it was.\n\n"
    "Exit code: 0 fine (whatever the claims come to), 2 bad input, 130 stopped by Ctrl-C."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A paper ([bold]wirespeed papers list[/bold] lists them).", show_default=False
        ),
    ]
    claim: Annotated[
        list[str] | None,
        typer.Option(
            "--claim",
            metavar="CLAIM",
            help="Only claims of this id, or with this in id, words or place. May be given several times.",
            show_default=False,
        ),
    ] = None
    reading: Annotated[
        str | None,
        typer.Option(
            "--reading", metavar="NAME", help="One way to read what the text leaves open, or all.", show_default=False
        ),
    ] = None
    real_size: Annotated[
        bool, typer.Option("--real-size", help="Sizes of real machines in place of the paper's, where it has both.")
    ] = False
    seed: Annotated[int, options.seed("Seed of all random streams")] = 0
    threads: Annotated[int | None, options.threads("Points at a time; all cores if left out.")] = None
    out: Annotated[Path | None, options.out("Write claims, points and figures to this folder.", None)] = None
    force: ForceOpt = False
    form: FormatOpt = "table"
    quiet: QuietOpt = False


@app.command("run", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Run a paper's study and judge its claims: reproduced, partly, not, or listed."""
    found = papers.find(given.id)
    if found.id != given.id and not given.quiet:
        say(f"{given.id}: taken as {found.id}" + (f"; takes {takes}" if (takes := found.takes) else ""))
    with stoppable(), Bar(quiet=given.quiet, unit="points") as bar:
        reports = papers.run(
            found,
            claims=given.claim or [],
            reading=given.reading,
            real_size=given.real_size,
            seed=given.seed,
            threads=given.threads,
            kept=papers.Kept(given.out),
            progress=bar,
        )
    files = written.write(reports, given.out, given.force) if given.out is not None else []
    if given.form == "json":
        emit_json([judged.document() for report in reports for judged in report.claims])
    else:
        show(text.reports(reports))
    if files and not given.quiet:
        say(f"wrote {len(files)} files to {given.out}")
    return 0
