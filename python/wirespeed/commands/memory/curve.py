"""`wirespeed memory curve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from wirespeed import curve, files, memory
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import FormatOpt
from wirespeed.commands.output import emit_json, judge_svg, show, stoppable
from wirespeed.errors import InputError

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed memory curve xeon-gold-6140 --reads 100\n\n"
    "  wirespeed memory curve mine.toml --reads 100,75,50 --cores 11 --measured measured.csv --svg curve.svg\n\n"
    "  wirespeed memory curve epyc-7402p --set machine.core.outstanding=32 --format json | jq '.curves[].most_gb_per_s'"
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    machine: Annotated[
        str, typer.Argument(metavar="MACHINE", help="A shipped machine, or a TOML file (.toml).", show_default=False)
    ]
    reads: Annotated[
        str,
        typer.Option(
            "--reads",
            metavar="PERCENT,…",
            help="Shares of reads of the lines that memory moves, 50 to 100: a store reads its line, then writes it.",
        ),
    ] = "100,50"
    points: Annotated[
        int, typer.Option("--points", metavar="N", min=3, max=100, help="Points of a curve, from idle to the most.")
    ] = curve.POINTS
    cores: Annotated[
        int | None,
        typer.Option(
            "--cores",
            metavar="N",
            min=1,
            max=63,
            help="Cores that stream, beside the one that chases pointers.",
            show_default="all but one of a core a slice of the LLC, or of machine.cores",
        ),
    ] = None
    dram: Annotated[
        str | None,
        typer.Option(
            "--dram",
            metavar="MODEL",
            help="commands (controllers that reorder, every timing) or at-once (banks and buses reserved in order).",
            show_default="commands where the machine says which part its DRAM is of",
        ),
    ] = None
    settings: Annotated[
        list[str] | None, options.setting(", for example [bold]machine.dram.controller.page=closed[/bold]")
    ] = None
    accesses: Annotated[
        int,
        typer.Option("--accesses", metavar="N", min=256, max=1_000_000, help="Dependent loads measured at a point."),
    ] = curve.ACCESSES
    seed: Annotated[int, options.seed("Seed of addresses: the same seed gives the same curve, bit for bit")] = 1
    threads: Annotated[
        int | None,
        options.threads("Points at a time; as many as there are cores if left out. No result depends on it."),
    ] = None
    measured: Annotated[
        Path | None,
        typer.Option(
            "--measured",
            metavar="FILE",
            help="Put a measurement beside it: a CSV of read_percent,bandwidth_GBps,latency_ns, of Mess, or of MLC.",
            show_default=False,
        ),
    ] = None
    system: Annotated[
        str | None,
        typer.Option(
            "--system", metavar="NAME", help="Whose rows of --measured, where it has several.", show_default=False
        ),
    ] = None
    measured_clock: Annotated[
        str | None,
        typer.Option(
            "--measured-clock",
            metavar="FREQUENCY",
            help="The measured processor's, as in '3.2 GHz': turns latencies of --measured that are cycles into time.",
            show_default="this machine's",
        ),
    ] = None
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg", metavar="FILE", help="Draw latency over bandwidth as SVG to this file (.svg).", show_default=False
        ),
    ] = None
    form: FormatOpt = "table"


@app.command("curve", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Measure a machine's memory: latency of a dependent load while other cores stream, beside a measurement."""
    if given.svg is not None:
        judge_svg(given.svg, curve.SVG_MARK, "memory curve", given.measured, "--measured")
    with stoppable():
        found = memory.curve(
            given.machine,
            reads=_shares(given.reads),
            points=given.points,
            cores=given.cores,
            dram=cast("curve.DramModel | None", given.dram),
            set=given.settings,
            accesses=given.accesses,
            seed=given.seed,
            threads=given.threads,
            measured=given.measured,
            system=given.system,
            measured_clock=given.measured_clock,
        )
    if given.form == "json":
        emit_json(found)
    else:
        show(curve.table(found))
    if given.svg is not None:
        files.write(given.svg, curve.chart(found))
    return 0


def _shares(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--reads {text}: allowed are shares in percent between commas, as in 100,75,50") from None
