"""`wirespeed memory cache`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from wirespeed import memory, terminal
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.memory.trace import TraceFormatOpt, TraceOpt
from wirespeed.commands.options import FormatOpt
from wirespeed.commands.output import emit_json, show, stoppable

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed memory cache --levels 32KiB/8,1MiB/16,16MiB/16 --trace loads.rw\n\n"
    "  wirespeed memory cache --levels 48KiB/12,2MiB/16:srrip,L3=32MiB/16:victim --trace lackey.txt.gz\n\n"
    "Options of a level stand behind colons: lru, fifo, mru, tree-plru, random, srrip, age=N; non-inclusive, "
    "inclusive, victim; write-back, write-through; write-allocate, write-validate, write-around; next-line=N, "
    "stride=N, stream=N; ways=MASK, class1=MASK to class15=MASK; slices=N, hash=xor-fold, modulo, intel, mixed "
    "or even, ring, mesh=COLUMNS; of the last level io=MASK, io-age=N."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    levels: Annotated[
        str,
        typer.Option(
            "--levels",
            metavar="LEVELS",
            help="Size and ways of each level, the nearest to the core first, as in 32KiB/8,1MiB/16.",
            show_default=False,
        ),
    ]
    trace: TraceOpt
    seed: Annotated[int, options.seed("Seed of random replacement and of the sample")] = 0
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            min=1,
            help="Simulate one of every N sets, and say how far off that may be.",
            show_default=False,
        ),
    ] = None
    trace_format: TraceFormatOpt = None
    form: FormatOpt = "table"


@app.command("cache", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Run requests through a chain of caches: hits and misses of each level."""
    with stoppable():
        trace = memory.read_trace(given.trace, given.trace_format)
        document = memory.simulate_cache(trace, given.levels, seed=given.seed, sample=given.sample)
    if given.form == "json":
        emit_json(document)
    else:
        show(terminal.memory_cache(document))
    return 0
