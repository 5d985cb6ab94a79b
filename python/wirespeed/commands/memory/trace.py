"""Options of a trace of memory requests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TraceOpt = Annotated[
    Path,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Requests, as text (rw, Ramulator, DRAMsim3, lackey, DynamoRIO) or binary, plain, .gz, .xz or .zst.",
        show_default=False,
    ),
]
TraceFormatOpt = Annotated[
    str | None,
    typer.Option(
        "--trace-format",
        metavar="FORMAT",
        help="rw, ramulator, dramsim3, lackey, dynamorio or binary; told from the first line if left out.",
        show_default=False,
    ),
]
