"""What commands print: results to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import typer
from rich.console import RenderableType

from wirespeed import console, terminal
from wirespeed.commands.exits import EXIT_STOPPED
from wirespeed.console import Console


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


def say(text: str) -> None:
    """Prints to stderr."""
    print(f"wirespeed: {text}", file=sys.stderr)


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
