"""`wirespeed schema`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import typer

from wirespeed import _wirespeed
from wirespeed.commands.fields import spread
from wirespeed.commands.output import emit

app = typer.Typer()

_SCHEMAS: Final = {"scenario": _wirespeed.schema, "summary": _wirespeed.summary_schema}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    of: Annotated[Literal["scenario", "summary"], typer.Option("--of", help="A scenario, or the summary of a run.")] = (
        "scenario"
    )


@app.command("schema")
@spread
def answer(given: Options) -> int:
    """Print the JSON Schema of a scenario or of a run's summary, for editors and checks."""
    emit(_SCHEMAS[given.of]())
    return 0
