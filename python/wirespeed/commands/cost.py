"""`wirespeed cost`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from wirespeed import cost
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import FormatOpt
from wirespeed.commands.output import emit, emit_json, show

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    size: Annotated[int, options.size("--size", "The cache's capacity.", 1024)] = 1 << 20
    address: Annotated[int, typer.Option("--address", metavar="BITS", min=16, max=64, help="Address bits.")] = 32
    form: FormatOpt = "table"


@app.command("cost")
@spread
def answer(given: Options) -> int:
    """Show what a copy table and other techniques cost in bits and area."""
    found = cost.document(given.size, given.address)
    if given.form == "json":
        emit_json(found)
        return 0
    show(Text(cost.sentence(found), "bold"))
    for shown in cost.tables(found):
        emit("")
        show(shown)
    return 0
