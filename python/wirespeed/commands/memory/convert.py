"""`wirespeed memory convert`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from wirespeed import memory
from wirespeed.commands.fields import spread
from wirespeed.commands.memory.trace import TraceFormatOpt
from wirespeed.commands.output import stoppable

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    source: Annotated[str, typer.Argument(metavar="FROM", help="A trace in any format.", show_default=False)]
    target: Annotated[str, typer.Argument(metavar="TO", help="Where the binary form goes.", show_default=False)]
    trace_format: TraceFormatOpt = None


@app.command("convert")
@spread
def answer(given: Options) -> int:
    """Write a trace of memory requests in the binary form, which is read many times as fast as text."""
    with stoppable():
        memory.write_trace(memory.read_trace(given.source, given.trace_format), given.target)
    return 0
