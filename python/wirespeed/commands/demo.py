"""`wirespeed demo`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from wirespeed.commands import run
from wirespeed.commands.fields import spread

SCENARIO: Final = "forwarding"
FOLDER: Final = "wirespeed-demo"

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(run.Kept):
    """What the command line says."""

    out: run.OutOpt = Path(FOLDER)


@app.command("demo")
@spread
def answer(given: Options) -> int:
    """Run the shipped forwarding scenario and write its report: nothing to prepare, nothing to download."""
    return run.run(SCENARIO, given)
