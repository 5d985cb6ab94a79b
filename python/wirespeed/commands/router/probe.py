"""`wirespeed router probe`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import typer

from wirespeed import router
from wirespeed.commands.exits import EXIT_NO_GPU
from wirespeed.commands.fields import spread
from wirespeed.commands.options import TablesOrJsonOpt
from wirespeed.commands.output import emit, emit_json, show, stoppable
from wirespeed.commands.router.options import DriverOpt

_EPILOG: Final = f"Exit code: 0 a GPU that can be used, {EXIT_NO_GPU} none (the reason is told), 2 bad input."

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    driver: DriverOpt = None
    form: TablesOrJsonOpt = "table"


@app.command("probe", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Say what this machine's GPU offers to the router, or why there is none that it can use."""
    with stoppable():
        found = router.probe(given.driver)
    gpu = found["gpu"]
    if given.form == "json":
        emit_json(found)
    elif gpu is None:
        emit(found["reason"])
    else:
        show(router.offer_table(gpu))
    return 0 if gpu is not None else EXIT_NO_GPU
