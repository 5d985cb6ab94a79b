"""Options that several commands have, each written once.

An option that reads the same everywhere is a type, such as `QuietOpt`; one that says something else of each command is
a function, such as `seed`, which takes the words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer

from wirespeed import kinds, scenarios, units
from wirespeed.errors import InputError

TRAFFIC = "Traffic and machine"
OUTPUT = "Output"
"""The panels that they are shown in."""

Form: TypeAlias = Literal["table", "json"]
"""How a command prints its result."""


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


def capture(says: str, panel: str | None = None, **more: Any) -> Any:
    """The option `--capture`."""
    return _file("--capture", says, panel, callback=a_capture, **more)


def table(says: str, panel: str | None = None, **more: Any) -> Any:
    """The option `--table`, a prefix table."""
    return _file("--table", says, panel, callback=a_table, **more)


def _file(name: str, says: str, panel: str | None, **more: Any) -> Any:
    return typer.Option(name, metavar="FILE", help=says, rich_help_panel=panel, **more)


def setting(says: str, panel: str | None = None, **more: Any) -> Any:
    """The option `--set`; `says` stands behind "Override one setting"."""
    return typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help=f"Override one setting{says}. May be given several times.",
        show_default=False,
        rich_help_panel=panel,
        **more,
    )


def seed(says: str, panel: str | None = None, least: int | None = 0, **more: Any) -> Any:
    """The option `--seed`; `says` is of what."""
    return typer.Option("--seed", metavar="N", min=least, help=f"{says}.", rich_help_panel=panel, **more)


def threads(says: str, panel: str | None = None, least: int = 1, **more: Any) -> Any:
    """The option `--threads`; `says` is what runs on them."""
    return typer.Option("--threads", metavar="N", min=least, help=says, rich_help_panel=panel, **more)


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


def out(says: str, panel: str | None = OUTPUT, metavar: str = "DIR", **more: Any) -> Any:
    """The option `--out`; `says` is what goes there."""
    return typer.Option("--out", metavar=metavar, help=says, rich_help_panel=panel, **more)


def no_file(given: Path | None) -> Path | None:
    """A folder for `--out`. Raises InputError for a file before anything runs: what was simulated would be lost."""
    if given is not None and given.is_file():
        raise InputError(f"--out {given}: is a file; results are written to a folder")
    return given


def form(says: str, panel: str | None = OUTPUT, **more: Any) -> Any:
    """The option `--format`."""
    return typer.Option("--format", help=says, rich_help_panel=panel, **more)


def quiet(panel: str | None = OUTPUT) -> Any:
    """The option `--quiet`."""
    return typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=panel)


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


ScenarioArg = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="A TOML file, or the name of a shipped scenario ([bold]wirespeed presets[/bold] lists them).",
        show_default=False,
    ),
]
CaptureOpt = Annotated[
    Path | None,
    capture("Use this capture as traffic: pcap, pcapng, TSH or ERF; plain, .gz, .xz or .zst.", TRAFFIC),
]
TableOpt = Annotated[
    Path | None,
    table("Use this prefix table: MRT TABLE_DUMP(_V2) or a plain list, also compressed.", TRAFFIC),
]
Routes: TypeAlias = Literal["default", "rewrite"]
"""What packets do that the routing table has no route to, other than being rejected."""
_ROUTES: Final[Mapping[Routes, str]] = {
    "default": "function.forward.default_route=true",
    "rewrite": "traffic.destinations=routed",
}
RoutesOpt = Annotated[
    Routes | None,
    typer.Option(
        "--routes",
        help="Packets of a capture whose destinations the table does not know are rejected. "
        "[bold]default[/bold]: they go by a default route. [bold]rewrite[/bold]: each such destination becomes one "
        "that the table knows, the same each time, so flows stay flows.",
        show_default=False,
        rich_help_panel=TRAFFIC,
    ),
]
SetOpt = Annotated[
    list[str] | None,
    setting(
        ", for example [bold]machine.llc.core_ways=8[/bold] (cores may fill 8 ways, as CAT sets it)",
        TRAFFIC,
        callback=one_of_each,
    ),
]
EachPointSetOpt = Annotated[list[str] | None, setting(" at every point", TRAFFIC, callback=one_of_each)]
SeedOpt = Annotated[
    int | None, seed("Seed of all random streams: the same seed gives the same result, bit for bit", TRAFFIC)
]
ThreadsOpt = Annotated[
    int | None,
    threads(
        "Simulate so many points of a curve, trials of a search or scenarios at a time; as many as there are cores if "
        "left out. The result does not depend on it."
    ),
]
ForceOpt = Annotated[
    bool,
    typer.Option(
        "--force", help="Replace files that wirespeed did not write, too, in --out's folder.", rich_help_panel=OUTPUT
    ),
]
FormatOpt = Annotated[Form, form("A summary to read, or one JSON object.")]
TablesOrJsonOpt = Annotated[Form, form("Tables to read, or one JSON object.")]
QuietOpt = Annotated[bool, quiet()]


class TakesRoutes:
    """Options with `routes`, which are a setting like any other, the last, once they have been read."""

    __slots__ = ()
    routes: RoutesOpt
    settings: list[str] | None

    def __post_init__(self) -> None:
        """Moves `routes` to `settings`."""
        if self.routes is not None:
            object.__setattr__(self, "settings", [*(self.settings or []), _ROUTES[self.routes]])
            object.__setattr__(self, "routes", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic(TakesRoutes):
    """What a scenario is run with."""

    capture: CaptureOpt = None
    table: TableOpt = None
    routes: RoutesOpt = None
    settings: SetOpt = None
    seed: SeedOpt = None
