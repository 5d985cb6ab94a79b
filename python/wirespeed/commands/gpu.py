"""`wirespeed gpu`."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from wirespeed import files, units
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import OUTPUT, TRAFFIC, CaptureOpt, QuietOpt, TableOpt, TablesOrJsonOpt
from wirespeed.commands.output import emit_json, judge_svg, show, stoppable
from wirespeed.errors import InputError
from wirespeed.gpu import PRESET, gpu, shown
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed gpu lookup --preset h100 --rate '100 Gbps'\n\n"
    "  wirespeed gpu check,lookup,ttl --preset hermes --vary gpu.cores=2..16*2 --svg cores.svg\n\n"
    "  wirespeed gpu classify --preset mine.toml --system hermes --format json | jq .points\n\n"
    "[bold]wirespeed presets --kind gpu[/bold] lists GPUs, [bold]wirespeed presets h100[/bold] prints one.\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)
_GPU: Final = "GPU"

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    what: Annotated[
        str,
        typer.Argument(
            metavar="[FUNCTION|CHAIN|SCENARIO]",
            help="forward, check, lookup, ttl, classify, inspect, fragment; several with commas; or a scenario.",
        ),
    ] = "forward"
    preset: Annotated[
        str, typer.Option("--preset", metavar="GPU", help="A shipped GPU, or a TOML file.", rich_help_panel=_GPU)
    ] = PRESET
    settings: Annotated[
        list[str] | None,
        options.setting(
            " of the GPU, the kernel or the work: [bold]batch.packets=8192[/bold], kernel.registers=64, "
            "workload.rules.count=500",
            _GPU,
        ),
    ] = None
    system: Annotated[
        Literal["hermes", "batch", "both"],
        typer.Option(
            "--system",
            help="A kernel that stays and takes packets as they come, batches that are copied, or both.",
            rich_help_panel=_GPU,
        ),
    ] = "both"
    vary: Annotated[
        str | None,
        typer.Option(
            "--vary",
            metavar="PATH=VALUES",
            help="A row for each value: a list, FIRST..LAST*2, +STEP or /COUNT; FIRST..LAST alone has up to 8.",
            show_default=False,
            rich_help_panel=_GPU,
        ),
    ] = None
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            metavar="RATE",
            help="Offer so much on the wire, as '100 Gbps', and measure delay.",
            show_default="the scenario's, or 90 % of what is carried",
            rich_help_panel=TRAFFIC,
        ),
    ] = None
    packet_rate: Annotated[
        str | None,
        typer.Option(
            "--packet-rate",
            metavar="RATE",
            help="Offer so many packets, as '30 Mpps'.",
            show_default=False,
            rich_help_panel=TRAFFIC,
        ),
    ] = None
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="A traffic profile: isp, imix, min64.",
            show_default="isp",
            rich_help_panel=TRAFFIC,
        ),
    ] = None
    capture: CaptureOpt = None
    table: TableOpt = None
    packets: Annotated[
        int | None,
        options.count(
            "--packets",
            "Packets of a run; as many as settle it if left out.",
            show_default=False,
            rich_help_panel=TRAFFIC,
        ),
    ] = None
    seed: Annotated[int, options.seed("Seed of traffic, tables and arrivals", TRAFFIC)] = 0
    threads: Annotated[int | None, options.threads("Points at a time.")] = None
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg",
            metavar="FILE",
            help="Draw the roofline, or rates over what is varied, as SVG to this file (.svg).",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None
    form: TablesOrJsonOpt = "table"
    quiet: QuietOpt = False


@app.command("gpu", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Run packet functions on a GPU: rate, delay, SIMD efficiency, occupancy, and what binds."""
    # Drawing costs a quarter of a second to import.
    chart = None if given.svg is None else importlib.import_module("wirespeed.gpu.chart")
    if given.svg is not None and chart is not None:
        judge_svg(given.svg, chart.SVG_MARK, "gpu", None)
    with stoppable(), Bar(quiet=given.quiet, unit="points") as bar:
        found = gpu(
            given.what,
            given.preset,
            given.settings,
            system=given.system,
            rate=_rate(given),
            vary=given.vary,
            profile=given.profile,
            capture=given.capture,
            table=given.table,
            packets=given.packets,
            seed=given.seed,
            threads=given.threads,
            progress=bar,
        )
    if given.form == "json":
        emit_json(found)
    else:
        show(shown.summary(found))
    if given.svg is not None and chart is not None:
        files.write(given.svg, chart.chart(found))
    return 0


def _rate(given: Options) -> str | None:
    """What is offered. Raises InputError for two rates, and for packets that are bits."""
    if given.packet_rate is None:
        return given.rate
    if given.rate is not None:
        raise InputError(
            f"--rate {given.rate} and --packet-rate {given.packet_rate}: both say how much is offered; give one of them"
        )
    if units.rate("--packet-rate", given.packet_rate).kind != "packets":
        raise InputError(f"--packet-rate {given.packet_rate}: is of bits; write --rate, or packets such as '30 Mpps'")
    return given.packet_rate
