"""`wirespeed recording include`."""

from __future__ import annotations

import typer

from wirespeed import recording
from wirespeed.console import Console

app = typer.Typer()


@app.command("include")
def answer() -> int:
    """Print the folder of wirespeed_probe.h, for a compiler's [bold]-I[/bold]."""
    Console(highlight=False, soft_wrap=True).out(str(recording.INCLUDE), highlight=False)
    return 0
