"""Options that several commands have, written once: traffic, routes and settings of runs, and what is shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from wirespeed import kinds, scenarios, units
from wirespeed.errors import InputError

TRAFFIC = "Traffic and machine"
OUTPUT = "Output"
"""The panels that they are shown in."""


def one_of_each(settings: list[str] | None) -> list[str] | None:
    """Settings of a command line, of which no two say how much is offered, or what the traffic is. Raises InputError.

    Of a path that is given twice the later value holds, as with any option.
    """
    paths = [setting.partition("=")[0].strip() for setting in settings or []]
    for place, path in enumerate(paths):
        for other in (each for each in paths[:place] if each != path):
            if (what := scenarios.both_say(path, other)) is not None:
                raise InputError(f"--set {path} and --set {other}: both say {what}; give one of them")
    return settings


def a_capture(given: Path | None) -> Path | None:
    """A file for `--capture`. Raises InputError for what is a prefix table: it is told before anything runs."""
    return _of_kind(given, "--capture", "capture", "--table")


def a_table(given: Path | None) -> Path | None:
    """A file for `--table`. Raises InputError for what is a capture."""
    return _of_kind(given, "--table", "prefix table", "--capture")


def _of_kind(given: Path | None, option: str, wanted: kinds.Kind, other: str) -> Path | None:
    if given is not None and (found := kinds.of(given)) not in (None, wanted):
        raise InputError(f"{option} {given}: is a {found}, not a {wanted}: {option} and {other} swapped?")
    return given


CaptureOpt = Annotated[
    Path | None,
    typer.Option(
        "--capture",
        metavar="FILE",
        help="Use this capture as traffic: pcap, pcapng, TSH or ERF; plain, .gz, .xz or .zst.",
        callback=a_capture,
        rich_help_panel=TRAFFIC,
    ),
]
TableOpt = Annotated[
    Path | None,
    typer.Option(
        "--table",
        metavar="FILE",
        help="Use this prefix table: MRT TABLE_DUMP(_V2) or a plain list, also compressed.",
        callback=a_table,
        rich_help_panel=TRAFFIC,
    ),
]
EachPointSetOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override one setting at every point. May be given several times.",
        callback=one_of_each,
        show_default=False,
        rich_help_panel=TRAFFIC,
    ),
]
TablesOrJsonOpt = Annotated[
    Literal["table", "json"],
    typer.Option("--format", help="Tables to read, or one JSON object.", rich_help_panel=OUTPUT),
]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=OUTPUT)]

ForceOpt = Annotated[
    bool,
    typer.Option(
        "--force", help="Replace files that wirespeed did not write, too, in --out's folder.", rich_help_panel=OUTPUT
    ),
]


def out(says: str) -> Any:
    """The option `--out`, a folder; `says` is what goes there."""
    return typer.Option("--out", metavar="DIR", help=says, rich_help_panel=OUTPUT)


def count(name: str, says: str, least: int = 1, **more: Any) -> Any:
    """An option of a count, which may be written `20k` or `1M`."""
    return _number(name, units.count, "N", says, least, more)


def size(name: str, says: str, least: int = 1, **more: Any) -> Any:
    """An option of a size, which may be written `32 KiB`; a bare number is bytes."""
    return _number(name, units.size, "SIZE", says, least, more)


def _number(
    name: str, read: Callable[[str, str], int], stands: str, says: str, least: int, more: dict[str, Any]
) -> Any:
    def parsed(given: str | int) -> int:
        if isinstance(given, int):
            return given  # the default
        try:
            value = read(name, given)
        except InputError as e:
            # An InputError is a ValueError, of which the command line would tell the value alone.
            raise typer.BadParameter(str(e).removeprefix(f"{name} ")) from None
        if value < least:
            raise typer.BadParameter(f"{given!r}: must be at least {least}")
        return value

    return typer.Option(name, metavar=stands, parser=parsed, help=says, **more)


def setting(says: str, panel: str) -> Any:
    """The option `--set` of what is no scenario; `says` stands behind "Override one setting"."""
    return typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help=f"Override one setting{says}. May be given several times.",
        show_default=False,
        rich_help_panel=panel,
    )


def seed(says: str, panel: str) -> Any:
    """The option `--seed`; `says` is of what."""
    return typer.Option("--seed", metavar="N", min=0, help=f"{says}.", rich_help_panel=panel)


def jobs(says: str, panel: str, least: int | None = None) -> Any:
    """The option `--jobs`; `says` is what runs side by side."""
    return typer.Option(
        "--jobs",
        metavar="N",
        min=least,
        help=f"{says}; as many as there are cores if left out. The result does not depend on it.",
        show_default=False,
        rich_help_panel=panel,
    )
