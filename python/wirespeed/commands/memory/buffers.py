"""`wirespeed memory buffers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from wirespeed import buffers
from wirespeed.commands.fields import spread
from wirespeed.commands.options import FormatOpt
from wirespeed.commands.output import emit_json, show, stoppable

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed memory buffers\n\n"
    "  wirespeed memory buffers --memory ddr5-6400b --order fr-fcfs --seeds 2 --format json | jq '.rows[].gain_pct'"
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    memories: Annotated[
        list[str] | None,
        typer.Option("--memory", metavar="PRESET", help="A DRAM standard; may be given several times."),
    ] = None
    orders: Annotated[
        list[str] | None,
        typer.Option("--order", metavar="ORDER", help="As of memory dram; may be given several times."),
    ] = None
    pages: Annotated[
        list[str] | None,
        typer.Option("--page", metavar="HOW", help="open, closed or adaptive=CLOCKS; may be given several times."),
    ] = None
    traffic: Annotated[
        str, typer.Option("--traffic", metavar="WHAT", help="edge, packmime, a profile, a capture or a scenario.")
    ] = "edge"
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Runs of each.")] = 5
    form: FormatOpt = "table"


@app.command("buffers", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Compare ways to allocate packet buffers on DRAM of today: throughput, gain, row hits, latency."""
    lists = {"memories": given.memories, "orders": given.orders, "pages": given.pages}
    with stoppable():
        found = buffers.compare(
            traffic=buffers.traffic_of(given.traffic),
            seeds=given.seeds,
            **{name: values for name, values in lists.items() if values},
        )
    if given.form == "json":
        emit_json(found)
    else:
        show(buffers.comparison_table(found))
    return 0
