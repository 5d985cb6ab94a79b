"""The errors that are not bugs here: input that cannot be used, and programs that fail while they are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TypeVar

from wirespeed._wirespeed import InputError

__all__ = ["InputError", "TargetError", "each_of", "nearest", "nearest_of"]


_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class TargetError(Exception):
    """A program that was to be measured cannot be started, has died or hangs: what happened and what to do."""

    def __init__(self, message: str, refused: bool = False) -> None:
        """`refused`: it ended by itself before it began to work, as one does that does not like its settings."""
        super().__init__(message)
        self.refused = refused


def each_of(given: Iterable[_Given], make: Callable[[_Given], _Made]) -> list[_Made]:
    """What `make` gives for each. Raises InputError with the faults of all of them, not of the first alone."""
    made, faults = [], []
    for one in given:
        try:
            made.append(make(one))
        except InputError as e:
            faults.append(str(e))
    if faults:
        raise InputError("\n".join(faults))
    return made


def nearest(name: str, names: Iterable[str], least: float = 0.5) -> str:
    """The end of a message about an unknown name: the nearest right one, if it is as like as `least`, or nothing.

    >>> nearest("forwad", ["forward", "nat"])
    ' (did you mean `forward`?)'
    """
    close = nearest_of(name, names, least)
    return f" (did you mean `{close[0]}`?)" if close else ""


def nearest_of(name: str, names: Iterable[str], least: float = 0.5, most: int = 2) -> tuple[str, ...]:
    """The right names that are as like an unknown one as `least`, the nearest first, `most` of them.

    >>> nearest_of("xeon-gold-6141", ["xeon-gold-6140", "zen-2", "xeon-gold-6146"])
    ('xeon-gold-6146', 'xeon-gold-6140')
    """
    by_case = {each.lower(): each for each in names}
    return tuple(by_case[each] for each in get_close_matches(name.lower(), by_case, n=most, cutoff=least))
