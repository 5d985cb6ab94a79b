"""`wirespeed papers cite`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from wirespeed import _wirespeed, papers
from wirespeed.commands.fields import spread
from wirespeed.commands.output import emit
from wirespeed.papers import cite

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="A paper; all of them if left out.", show_default=False)
    ] = None


@app.command("cite")
@spread
def answer(given: Options) -> int:
    """Print BibTeX of this project and of the papers."""
    cited = papers.papers() if given.id is None else [papers.find(given.id)]
    emit(cite.entries(cited, _wirespeed.commit()))
    return 0
