"""Options that commands of the router have in common."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from wirespeed.commands import options

SOURCE, HOW = "Packets and routes", "How it runs"
"""The panels that they are shown in."""

RoutesOpt = Annotated[
    Path | None,
    options.table("Use this prefix table: MRT or a plain list, also compressed.", SOURCE, show_default="a made one"),
]
DriverOpt = Annotated[
    str | None,
    typer.Option(
        "--driver",
        metavar="FILE",
        help="The GPU driver's library.",
        show_default="libcuda.so.1",
        rich_help_panel=HOW,
    ),
]
MadeSeedOpt = Annotated[int, options.seed("Seed of what is made", SOURCE)]


@dataclass(frozen=True, kw_only=True)  # no slots: it is one of two bases
class Function:
    """What is done with each packet."""

    function: Annotated[
        str,
        typer.Option(
            "--function",
            metavar="NAME,NAME",
            help="What is done with each packet: forward, check, lookup, ttl, classify, inspect, fragment, or several, "
            "one after the other.",
            rich_help_panel=SOURCE,
        ),
    ] = "forward"
    search: Annotated[
        Literal["linear", "tuple-space"] | None,
        typer.Option(
            "--search", help="How classify searches its rules.", show_default="linear", rich_help_panel=SOURCE
        ),
    ] = None
    method: Annotated[
        Literal["aho-corasick", "bloom"],
        typer.Option("--method", help="How inspect searches payloads.", rich_help_panel=SOURCE),
    ] = "aho-corasick"
    structure: Annotated[
        Literal["dir24", "poptrie"] | None,
        typer.Option("--structure", help="By what lookup finds routes.", show_default="dir24", rich_help_panel=SOURCE),
    ] = None
    mtu: Annotated[
        int | None,
        typer.Option(
            "--mtu",
            metavar="BYTES",
            min=68,
            max=65535,
            help="fragment cuts IPv4 packets that are longer.",
            show_default="1500",
            rich_help_panel=SOURCE,
        ),
    ] = None
    rules: Annotated[
        Path | None,
        typer.Option(
            "--rules",
            metavar="FILE",
            help="Rules to classify by, in the form of ClassBench.",
            show_default="made ones",
            rich_help_panel=SOURCE,
        ),
    ] = None
    patterns: Annotated[
        Path | None,
        typer.Option(
            "--patterns",
            metavar="FILE",
            help="Strings to inspect for; a packet with one is dropped.",
            show_default="made ones",
            rich_help_panel=SOURCE,
        ),
    ] = None


# Their words on the command line have a hyphen where the router's settings have an underscore.
_WORDS: Final = frozenset({"search", "method", "structure", "mode", "xdp_copy"})
_SHOWN: Final = frozenset({"form", "quiet", "csv"})


def settings(given: Function) -> dict[str, Any]:
    """What the command line says as `wirespeed.router` takes it: but for what is shown, the fields by their names."""
    said = {field.name: getattr(given, field.name) for field in fields(given) if field.name not in _SHOWN}
    return {name: value.replace("-", "_") if name in _WORDS and value else value for name, value in said.items()}
