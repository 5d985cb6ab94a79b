"""`wirespeed papers list`."""

from __future__ import annotations

import typer

from wirespeed import papers
from wirespeed.commands.output import show
from wirespeed.papers import show as text

app = typer.Typer()


@app.command("list")
def answer() -> int:
    """List the papers that can be run, with the ways to read them."""
    show(text.papers(papers.papers()))
    return 0
