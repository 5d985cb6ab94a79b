"""The command `wirespeed`.

Results go to stdout, everything else to stderr. Exit codes: 0 fine, 1 a `--fail-if` or `--fail-above` condition fails
or cannot be judged, points of a sweep failed as they ran, or no machine meets a target, 2 bad input, 3 a program that
was to be measured is missing, has died or hangs, 70 a bug in wirespeed, 130 stopped by Ctrl-C (what there is by then is
written and marked as partial).
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from wirespeed import _wirespeed, interrupt
from wirespeed.commands.exits import EXIT_BUG, EXIT_INPUT, EXIT_STOPPED, EXIT_TARGET
from wirespeed.commands.output import discard_stdout, emit, say
from wirespeed.console import guarded
from wirespeed.errors import InputError, TargetError

# In the order in which help lists them, and the module of `wirespeed.commands` that has each.
COMMANDS: Final = {
    "run": "run",
    "predict": "predict",
    "explore": "explore",
    "import": "importing",
    "emit": "emitting",
    "doctor": "doctor",
    "cost": "cost",
    "demo": "demo",
    "compare": "compare",
    "inspect": "inspect",
    "schema": "schema",
    "presets": "presets",
    "size": "size",
    "tune": "tune",
    "copies": "copies",
    "sweep": "sweep",
    "advise": "advise",
    "slices": "slices",
    "microengines": "microengines",
    "gpu": "gpu",
    "calibrate": "calibrate",
    "memory": "memory",
    "accuracy": "accuracy",
    "sensitivity": "sensitivity",
    "papers": "papers",
    "recording": "recording",
    "router": "router",
}


class _Loaded(MutableMapping[str, Any]):
    """The commands, each loaded when somebody asks for it: all of them take as long as a short run."""

    def __init__(self) -> None:
        self._there: dict[str, Any] = {}

    def __getitem__(self, word: str) -> Any:
        if word not in self._there:
            # As a group of one, so that typer adds nothing to the command that belongs to the whole.
            whole = typer.Typer(rich_markup_mode="rich")
            whole.add_typer(import_module(f"wirespeed.commands.{COMMANDS[word]}").app)
            self._there[word] = typer.main.get_group(whole).commands[word]
        return self._there[word]

    def __setitem__(self, word: str, command: Any) -> None:
        self._there[word] = command

    def __delitem__(self, word: str) -> None:
        del self._there[word]

    def __contains__(self, word: object) -> bool:
        return word in COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(TyperGroup):
    """`wirespeed` as a group of them."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Loaded()


app = typer.Typer(
    name="wirespeed",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Runs the command and exits with its code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks µ still gets its numbers
    with guarded():
        code = _answer()
        _leave(code)


def _answer() -> int:
    """Runs the command; its exit code."""
    try:
        interrupt.hand_over()
        answer = app(prog_name="wirespeed", standalone_mode=False)
    except TargetError as e:
        return _complain(str(e), EXIT_TARGET)
    except InputError as e:
        return _complain(str(e), EXIT_INPUT)
    except OSError as e:
        # The file is the user's: a full disk, a folder that may not be written.
        return _complain(f"{e.filename}: {e.strerror}" if e.filename else str(e), EXIT_INPUT)
    except KeyboardInterrupt:
        return _complain("stopped", EXIT_STOPPED)
    except Exception as e:
        return _usage(e)
    return answer if isinstance(answer, int) else 0


def _complain(message: str, code: int) -> int:
    say(message)
    return code


def _usage(error: Exception) -> int:
    """Prints a wrong use of the command line as such; anything else is a bug, and its traceback is wanted."""
    show, exit_code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if show is None or exit_code is None:
        traceback.print_exception(error)
        return _complain(f"this is a bug; please report it with the lines above ({_version()})", EXIT_BUG)
    if type(error).__name__ == "NoArgsIsHelpError":
        show()
        return EXIT_INPUT
    from typer import rich_utils

    rich_utils.rich_format_error(error)  # type: ignore[arg-type]
    return int(exit_code)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version and exit.")] = False,
) -> None:
    """Tell whether a packet processor's memory system keeps wire speed, and what to change so that it does.

    Start with [bold]wirespeed demo[/bold].
    """
    if version:
        emit(_version())
        raise typer.Exit


def _leave(code: int) -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
    sys.exit(code)


def _version() -> str:
    return f"wirespeed {_wirespeed.version()} (commit {_wirespeed.commit()})"


if __name__ == "__main__":
    main()
