"""`wirespeed memory dma`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, cast

import typer

from wirespeed import dma, memory
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import FormatOpt
from wirespeed.commands.output import emit_json, show, stoppable
from wirespeed.errors import InputError

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed memory dma xeon-gold-6140 --cache cold,device\n\n"
    "  wirespeed memory dma xeon-gold-6140 --windows '64 KiB,512 KiB,4 MiB' --set machine.iommu.iotlb_entries=64\n\n"
    "  wirespeed memory dma mine.toml --bytes 64,256,1024 --in-flight 32 --format json | jq '.points[].gbps'"
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    machine: Annotated[
        str, typer.Argument(metavar="MACHINE", help="A shipped machine, or a TOML file (.toml).", show_default=False)
    ]
    windows: Annotated[
        str, typer.Option("--windows", metavar="SIZE,…", help="Pieces of memory that are read of, up to 16 GiB.")
    ] = "4 KiB"
    sizes: Annotated[str, typer.Option("--bytes", metavar="N,…", help="Bytes of a read, 1 to 4096.")] = "64"
    cache: Annotated[
        str,
        typer.Option(
            "--cache",
            metavar="WHO,…",
            help="Who has the window: cold (nobody), device (the LLC, after the device wrote it), host (after a core).",
        ),
    ] = "cold"
    order: Annotated[
        str, typer.Option("--order", metavar="ORDER", help="Which read comes next: random or sequential.")
    ] = "random"
    in_flight: Annotated[int, typer.Option("--in-flight", metavar="N", min=1, max=1024, help="Reads at a time.")] = 1
    reads: Annotated[
        int, typer.Option("--reads", metavar="N", min=16, max=10_000_000, help="Reads that are measured.")
    ] = dma.READS
    settings: Annotated[
        list[str] | None, options.setting(", for example [bold]machine.iommu.iotlb_entries=64[/bold]")
    ] = None
    seed: Annotated[int, options.seed("Seed of addresses: the same seed gives the same times, bit for bit")] = 1
    form: FormatOpt = "table"


@app.command("dma", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Ask what a DMA read takes as a device sees it: by window, size and cache, with or without an IOMMU."""
    with stoppable():
        found = memory.dma(
            given.machine,
            windows=[window.strip() for window in given.windows.split(",")],
            bytes=_integers(given.sizes),
            cache=cast("list[dma.Cache]", [who.strip() for who in given.cache.split(",")]),
            order=cast("dma.Order", given.order),
            in_flight=given.in_flight,
            reads=given.reads,
            set=given.settings,
            seed=given.seed,
        )
    if given.form == "json":
        emit_json(found)
    else:
        show(dma.table(found))
    return 0


def _integers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--bytes {text}: allowed are numbers of bytes between commas, as in 64,256") from None
