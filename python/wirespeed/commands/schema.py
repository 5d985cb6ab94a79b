"""`wirespeed schema`."""

from __future__ import annotations

import typer

from wirespeed import _wirespeed
from wirespeed.commands.output import emit

app = typer.Typer()


@app.command("schema")
def answer() -> int:
    """Print the JSON Schema of a scenario, for editors and checks."""
    emit(_wirespeed.schema())
    return 0
