"""Options that several commands have, written once: what runs use as traffic, routes and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TRAFFIC = "Traffic and machine"
"""The panel that they are shown in."""

CaptureOpt = Annotated[
    Path | None,
    typer.Option(
        "--capture",
        metavar="FILE",
        help="Use this capture as traffic: pcap, pcapng, TSH or ERF; plain, .gz, .xz or .zst.",
        rich_help_panel=TRAFFIC,
    ),
]
TableOpt = Annotated[
    Path | None,
    typer.Option(
        "--table",
        metavar="FILE",
        help="Use this prefix table: MRT TABLE_DUMP(_V2) or a plain list, also compressed.",
        rich_help_panel=TRAFFIC,
    ),
]
EachPointSetOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override one setting at every point. May be given several times.",
        show_default=False,
        rich_help_panel=TRAFFIC,
    ),
]
