"""`wirespeed sensitivity`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from wirespeed import api, assumed, printed, quantities
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import FormatOpt, QuietOpt, ScenarioArg, ThreadsOpt, Traffic
from wirespeed.commands.output import emit, emit_json, show, stoppable
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed sensitivity forwarding\n\n"
    "  wirespeed sensitivity my.toml --by 0.5 --set traffic.load=0.9\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Traffic):
    """What the command line says."""

    scenario: ScenarioArg
    share: Annotated[
        float, typer.Option("--by", metavar="SHARE", help="Change each number by this share: 0.2 is a fifth more.")
    ] = assumed.SHARE
    packets: Annotated[int, options.count("--packets", "Packets of each run.", least=1_000)] = assumed.PACKETS
    threads: ThreadsOpt = None
    form: FormatOpt = "table"
    quiet: QuietOpt = False


@app.command("sensitivity", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Say which numbers of a machine are assumed or fitted, and how much each of them matters."""
    with stoppable(), Bar(quiet=given.quiet) as bar:
        found = api.sensitivity(
            given.scenario,
            given.capture,
            given.table,
            given.settings,
            given.seed,
            given.share,
            given.packets,
            given.threads,
            bar,
        )
    if given.form == "json":
        emit_json(found.document())
        return 0
    show(Text(found.sentence(), "bold"))
    rows = [each for each in found.effects if each.size > assumed.MATTERS]
    if rows:
        emit("")
        show(_table(rows))
    left = len([each for each in found.effects if not each.why]) - len(rows)
    if left:
        emit(f"\n {left} more move nothing by {assumed.MATTERS:.1%} or more.")
    for each in (each for each in found.effects if each.why):
        show(Text(f" {each.assumed.path} = {each.assumed.value}: {each.why}"))
    return 0


def _table(rows: list[assumed.Effect]) -> Table:
    """What each number moves, the largest first."""
    table = printed.table("assumed or fitted", ">is", ">carried", ">core time", ">sojourn", ">DRAM")
    for each in rows:
        moved = (each.carried, each.core_time, each.sojourn, each.dram)
        table.add_row(each.assumed.path, str(each.assumed.value), *(_percent(part) for part in moved))
    return table


def _percent(part: float | None) -> str:
    return quantities.change(None if part is None else round(100 * part, 1))
