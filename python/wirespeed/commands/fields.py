"""Options of a command line from the fields of a dataclass.

typer reads options from a function's parameters, and has no way of its own to read them from a class. Here a command is
a function of one dataclass, whose fields are annotated as typer's parameters are:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        size: Annotated[int, typer.Option("--size")] = 64

    @app.command("cost")
    @spread
    def answer(given: Options) -> int: ...
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, get_type_hints

import typer

__all__ = ["group", "spread"]

Given = TypeVar("Given")


def spread(answer: Callable[[Given], int]) -> Callable[..., int]:
    """`answer` as typer wants it: a parameter for each field of the dataclass that `answer` takes."""
    (of,) = (each for name, each in get_type_hints(answer).items() if name != "return")
    annotations = get_type_hints(of, include_extras=True)  # a field of a base class is resolved where that stands

    def entry(**said: Any) -> int:
        return answer(of(**said))

    entry.__doc__ = answer.__doc__
    entry.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # `inspect` and typer look for it
        [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
                annotation=annotations[field.name],
            )
            for field in dataclasses.fields(of)
        ]
    )
    return entry


def group(name: str, says: str, commands: list[ModuleType]) -> typer.Typer:
    """A group of commands, in the order in which help lists them."""
    app = typer.Typer(name=name, no_args_is_help=True, rich_markup_mode="rich", help=says)
    for command in commands:
        app.add_typer(command.app)
    return app
