"""`wirespeed sampling`."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from wirespeed import api, sampling
from wirespeed.commands.fields import spread
from wirespeed.commands.options import FormatOpt, QuietOpt, ScenarioArg, Traffic
from wirespeed.commands.output import emit_json, show, stoppable
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed sampling forwarding\n\n"
    "  wirespeed sampling upf --one-in 4 --set run.packets=200000 --format json\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Traffic):
    """What the command line says."""

    scenario: ScenarioArg
    one_in: Annotated[
        int | None,
        typer.Option(
            "--one-in", metavar="N", min=1, help="Follow one set of the LLC in N (machine.sampling); 8 if left out."
        ),
    ] = None
    form: FormatOpt = "table"
    quiet: QuietOpt = False


@app.command("sampling", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Run with sampled sets and with all, on the same packets: the error of sampling, and what it gains in speed."""
    with contextlib.nullcontext() if given.quiet else Bar() as bar, stoppable():
        found = api.sampling(given.scenario, given.capture, given.table, given.settings, given.seed, given.one_in, bar)
    if given.form == "json":
        emit_json(found)
    else:
        show(sampling.table(found))
    return 0
