"""What commands print: results to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import RenderableType

from wirespeed import console, files, terminal
from wirespeed.commands.exits import EXIT_STOPPED
from wirespeed.console import Console
from wirespeed.errors import InputError

_INDENT: Final = "  "


def emit(text: str) -> None:
    """Prints to stdout. A reader that has left (`| head`) is no error, and does not change the exit code."""
    try:
        console.emit(text)
    except BrokenPipeError:
        discard_stdout()


def emit_json(document: Any) -> None:
    """Prints a document as JSON."""
    emit(json.dumps(document, indent=2, allow_nan=False))


def show(renderable: RenderableType) -> None:
    """Prints to stdout what people read."""
    emit(terminal.text(renderable, Console()).rstrip("\n"))


def show_command(label: str, command: str, gap: str = "\n") -> None:
    """Prints a command to be copied, below what it is: folded where a terminal shows it, else in one piece."""
    width = Console().width - len(_INDENT) if sys.stdout.isatty() else sys.maxsize
    lines = "\n".join(console.folded(line, width) for line in command.splitlines())
    emit(f"{gap}{label}\n{textwrap.indent(lines, _INDENT)}")


def say(text: str) -> None:
    """Prints to stderr."""
    print(f"wirespeed: {text}", file=sys.stderr)


def say_refused(refused: Iterable[str]) -> None:
    """Names each file of finished runs or warm machines that was not used, with the reason, to stderr."""
    for each in refused:
        say(each)


def judge_svg(svg: Path, mark: str, command: str, read: Path | None, option: str = "the rows") -> None:
    """Raises InputError for what a picture cannot be written to, and for a file that `command` did not write.

    `mark` is what its pictures hold; `read` is a file that the command reads, by the name of `option`.
    """
    if svg.suffix.lower() != ".svg":
        raise InputError(f"--svg {svg}: allowed are names that end in .svg")
    if read is not None and svg.resolve() == read.resolve():
        raise InputError(f"--svg {svg}: is the file of {option}; name another file")
    if not svg.parent.is_dir():
        raise InputError(f"--svg {svg}: {svg.parent} is no folder; make it, or name another")
    files.refuse_link(svg)
    if svg.exists() and not (svg.is_file() and mark in svg.read_text(encoding="utf-8", errors="replace")):
        raise InputError(f"--svg {svg}: was not written by `wirespeed {command}`; name another file, or move it away")


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Says why there is no result where Ctrl-C left none; typer would drop the message."""
    try:
        yield
    except KeyboardInterrupt as e:
        say(f"{e if e.args else 'stopped'}")
        raise typer.Exit(EXIT_STOPPED) from None


def discard_stdout() -> None:
    """What is printed from here on goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
