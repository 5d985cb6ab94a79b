"""`wirespeed emit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from wirespeed import files, operators
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import QuietOpt, ScenarioArg
from wirespeed.commands.output import emit, say

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed emit mine.toml --for vpp --out startup.conf\n\n"
    "  wirespeed emit forwarding,nic.rx_descriptors=512 --for testpmd --device 0000:3b:00.0 --device 0000:3b:00.1\n\n"
    "Exit code: 0 fine, 2 bad input."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    scenario: ScenarioArg
    program: Annotated[
        str,
        typer.Option("--for", metavar="PROGRAM", help=f"Whose: {', '.join(operators.PROGRAMS)}.", show_default=False),
    ]
    device: Annotated[
        list[str] | None,
        typer.Option("--device", metavar="ADDRESS", help="PCI address of a port; once a port.", show_default=False),
    ] = None
    first_core: Annotated[int, typer.Option("--first-core", metavar="N", help="The first core, which manages.")] = 1
    out: Annotated[Path | None, options.out("Write it to this file; else it is printed.", metavar="FILE")] = None
    quiet: QuietOpt = False


@app.command("emit", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Write a scenario as the configuration of VPP, testpmd, l3fwd, Open vSwitch, Suricata or grout."""
    where = operators.Deployment(tuple(given.device or ()), given.first_core)
    configuration = operators.emit(given.scenario, given.program, where)
    if given.out is None:
        emit(configuration.rstrip("\n"))
        return 0
    files.write(given.out, configuration)
    if not given.quiet:
        say(f"wrote {given.out}")
    return 0
