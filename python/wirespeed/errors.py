"""The errors that are not bugs here: input that cannot be used, and programs that fail while they are measured."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from wirespeed._wirespeed import InputError

__all__ = ["InputError", "TargetError", "nearest"]


class TargetError(Exception):
    """A program that was to be measured cannot be started, has died or hangs: what happened and what to do."""

    def __init__(self, message: str, refused: bool = False) -> None:
        """`refused`: it ended by itself before it began to work, as one does that does not like its settings."""
        super().__init__(message)
        self.refused = refused


def nearest(name: str, names: Iterable[str], least: float = 0.5) -> str:
    """The end of a message about an unknown name: the nearest right one, if it is as like as `least`, or nothing.

    >>> nearest("forwad", ["forward", "nat"])
    ' (did you mean `forward`?)'
    """
    close = get_close_matches(name, list(names), n=1, cutoff=least)
    return f" (did you mean `{close[0]}`?)" if close else ""
