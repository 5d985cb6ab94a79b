"""`wirespeed calibrate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from wirespeed import files
from wirespeed.calibrate import MARK, busy, text
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.output import emit_json, say, show, stoppable
from wirespeed.errors import InputError
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed calibrate --out mine.toml\n\n"
    "  wirespeed run forwarding --set machine.preset=mine.toml\n\n"
    "  wirespeed tune --target testpmd --machine mine.toml --out tuned\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    out: Annotated[
        Path | None, options.out("Write the machine to this file.", None, metavar="FILE", show_default=False)
    ] = None
    cpu: Annotated[
        int | None,
        typer.Option("--cpu", metavar="N", help="The core that is measured.", show_default="the last one"),
    ] = None
    judge: Annotated[
        bool, typer.Option("--judge/--no-judge", help="Judge the machine by loops that it was not fitted on.")
    ] = True
    form: Annotated[options.Form, options.form("Tables to read, or one JSON object.", None)] = "table"
    quiet: Annotated[bool, options.quiet(None)] = False


@app.command("calibrate", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Measure this machine: a preset for simulations, each number with its measurement, and the preset's errors."""
    from wirespeed.calibrate.calibration import calibrate  # fitting needs scipy, which takes long to import

    if given.out is not None:
        _judge(given.out)
    if not given.quiet and (told := busy.words(busy.others())):
        say(told)
    with stoppable(), Bar(quiet=given.quiet, unit="loops") as bar:
        found = calibrate(given.cpu, given.judge, bar)
    if given.out is not None:
        found.write(given.out)
    if given.form == "json":
        emit_json(found.document)
    else:
        show(text.summary(found.document))
    if not given.quiet:
        kept = given.out is not None
        say(f"wrote {given.out}; use it as machine.preset" if kept else "add --out FILE to keep the machine")
    return 0


def _judge(out: Path) -> None:
    """Raises for a folder, a link, and a file that this command did not write."""
    if out.is_dir():
        raise IsADirectoryError(21, "is a folder; name a file", str(out))
    files.refuse_link(out)
    if out.is_file() and MARK not in out.read_text(encoding="utf-8", errors="replace"):
        raise InputError(f"{out}: was not written by `wirespeed calibrate`; name another file, or move it away")
