"""`wirespeed predict`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer
from rich.text import Text

from wirespeed import api, predict
from wirespeed.commands import run
from wirespeed.commands.fields import spread
from wirespeed.commands.options import FormatOpt, QuietOpt, ScenarioArg, Traffic
from wirespeed.commands.output import emit, emit_json, show, stoppable

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed predict forwarding\n\n"
    "  wirespeed predict forwarding --load 0.1 --load 0.5 --load 0.9\n\n"
    "  wirespeed predict forwarding --set traffic.load=0.9 --check\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Traffic):
    """What the command line says."""

    scenario: ScenarioArg
    check: Annotated[bool, typer.Option("--check", help="Simulate too, and show the error.")] = False
    loads: Annotated[
        list[float] | None,
        typer.Option("--load", metavar="SHARE", help="Answer for this share of the line rate, too; repeatable."),
    ] = None
    form: FormatOpt = "table"
    quiet: QuietOpt = False


@app.command("predict", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Predict throughput, waiting and CPI in closed form, from the function's own instructions and misses."""
    with stoppable():
        found = api.predict(given.scenario, given.capture, given.table, given.settings, given.seed, given.loads or ())
    compared = None
    if given.check:
        compared = predict.errors(found, run.simulate(given.scenario, given, given.quiet).summary)
    if given.form == "json":
        emit_json({**found, "beside_simulation": compared})
        return 0
    show(Text(predict.sentence(found), "bold"))
    for shown in predict.table(found, compared):
        emit("")
        show(shown)
    if compared is None:
        show(predict.stated(found))
    return 0
