"""`wirespeed doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from wirespeed import doctor
from wirespeed.commands.fields import spread
from wirespeed.commands.options import FormatOpt
from wirespeed.commands.output import emit_json, show

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    root: Annotated[Path, typer.Option("--root", metavar="DIR", help="Look below this folder.")] = Path("/")
    form: FormatOpt = "table"


@app.command("doctor")
@spread
def answer(given: Options) -> int:
    """Tell what this machine offers to set and to read, what is missing, and what to do. Changes nothing."""
    found = doctor.survey(given.root)
    if given.form == "json":
        emit_json(found)
    else:
        show(doctor.page(found))
    return 0
