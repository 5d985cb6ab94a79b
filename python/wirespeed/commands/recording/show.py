"""`wirespeed recording show`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from wirespeed import recording
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.console import Console

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recording, plain or .gz, .xz, .zst.")]
    form: Annotated[options.Form, options.form("A table for people, or JSON.", None)] = "table"


@app.command("show")
@spread
def answer(given: Options) -> int:
    """Show what a recording holds: packets, references, instructions, and the memory they go to."""
    found = recording.describe(given.file)
    console = Console(highlight=False)
    if given.form == "json":
        console.out(json.dumps(found, indent=2, allow_nan=False), highlight=False)
    else:
        console.print(recording.page(found))
    return 0
