"""`wirespeed inspect`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from wirespeed import api, buffers, files, terminal
from wirespeed.commands.fields import spread
from wirespeed.commands.options import Form, FormatOpt, QuietOpt
from wirespeed.commands.output import emit_json, show, stoppable
from wirespeed.errors import InputError
from wirespeed.progress import Bar

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A capture or a prefix table; with --rows also a scenario, a profile, edge, packmime or fixed=BYTES.",
            show_default=False,
        ),
    ]
    form: FormatOpt = "table"
    quiet: QuietOpt = False
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            metavar="W",
            help="Show instead how many DRAM rows W references to a packet buffer touch, by way of allocation.",
            show_default=False,
        ),
    ] = None
    heat: Annotated[
        Path | None,
        typer.Option(
            "--heat", metavar="FILE", help="With --rows: draw rows over time as SVG to this file.", show_default=False
        ),
    ] = None


@app.command("inspect")
@spread
def answer(given: Options) -> int:
    """Show what a capture holds: packets, sizes, flows, destinations, rates, damage; or what a prefix table holds."""
    if given.rows is not None:
        return _rows(given.file, given.rows, given.heat, given.form)
    if given.heat is not None:
        raise InputError("--heat draws what --rows counts: give --rows W, too")
    # What `<(zcat file)` names is no regular file, and can be read all the same.
    if not Path(given.file).exists() or Path(given.file).is_dir():
        what = "no such file" if not Path(given.file).is_dir() else "is a folder"
        raise InputError(f"{given.file}: {what}")
    document = _inspected(given.file, given.quiet)
    if given.form == "json":
        emit_json(document)
    else:
        show(terminal.inspection(given.file, document))
    return 0


def _rows(what: str, window: int, heat: Path | None, form: Form) -> int:
    with stoppable():
        found = buffers.rows_touched(what, window)
    if heat is not None:
        files.write(heat, buffers.heat_map(found))
    if form == "json":
        emit_json(found)
    else:
        show(buffers.rows_table(found))
    return 0


def _inspected(file: str, quiet: bool) -> dict[str, Any]:
    """Reads the file as a capture, else as a prefix table; if it is neither, says why for both."""
    try:
        with Bar(quiet=quiet) as bar:
            return api.inspect(file, bar)
    except InputError as as_capture:
        if not Path(file).is_file():
            raise InputError(
                f"{as_capture}\n  a pipe is read as a capture only: write a prefix table to a file"
            ) from None
        try:
            return api.inspect_table(file)
        except InputError as as_table:
            raise InputError(
                f"{file}: neither a capture nor a prefix table\n"
                f"  as a capture: {as_capture}\n  as a prefix table: {as_table}"
            ) from None
