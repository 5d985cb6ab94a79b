"""`wirespeed presets`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from wirespeed import _wirespeed, terminal
from wirespeed.commands.fields import spread
from wirespeed.commands.output import emit, show
from wirespeed.errors import InputError, nearest, nearest_of

# Names that a message proposes.
_SHOWN: Final = 4

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print the TOML of this one.")] = None
    kind: Annotated[str | None, typer.Option("--kind", help="Of this kind alone: machine, processor, dram, …")] = None


@app.command("presets")
@spread
def answer(given: Options) -> int:
    """List what is shipped: scenarios, machines and their parts, traffic profiles, DRAM, GPUs; print one."""
    rows = [row for row in _wirespeed.presets() if given.kind is None or row[0] == given.kind]
    if not rows:
        kinds = sorted({row[0] for row in _wirespeed.presets()})
        near = nearest(given.kind or "", kinds)
        raise InputError(f"--kind {given.kind}: must be one of {', '.join(kinds)}{near}")
    if given.name is None:
        show(terminal.presets(rows))
    else:
        emit(_wirespeed.preset(_kind(given.name, rows), given.name))
    return 0


def _near(name: str, names: list[str]) -> str:
    """The nearest right names, or those that begin or end so; and what lists all."""
    near = list(nearest_of(name, names, 0.6)) or [each for each in dict.fromkeys(names) if name.lower() in each.lower()]
    shown = ", ".join(f"`{each}`" for each in near[:_SHOWN]) + (", …" if len(near) > _SHOWN else "")
    return (
        f"{f' (did you mean {shown}?)' if near else ''}; `wirespeed presets` lists all, with --kind those of one kind"
    )


def _kind(name: str, rows: list[tuple[str, str, str]]) -> str:
    """The kind of the one preset of this name; of a machine and the processor that it is called after the machine.

    Raises InputError where there is none, or more than one.
    """
    found = [row[0] for row in rows if row[1] == name]
    if not found:
        raise InputError(f"there is no preset `{name}`{_near(name, [row[1] for row in rows])}")
    if found == ["machine", "processor"]:
        return "machine"
    if len(found) > 1:
        raise InputError(f"`{name}` is a {' and a '.join(found)}: say which with --kind")
    return found[0]
