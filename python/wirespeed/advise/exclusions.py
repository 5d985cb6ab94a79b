"""Which settings exclude each other, as the simulator's table of them says.

Nothing is known here: `_wirespeed.exclusions` has the pairs, the reasons and what to do, and refuses scenarios by them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from wirespeed import _wirespeed, written

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExcludedSetting:
    """A setting by its path, in which `*` is any name: whatever it is set to, or some values of it."""

    path: tuple[str, ...]
    values: frozenset[str]

    def within(self, settings: Settings) -> str | None:
        """As `settings`, tables within tables, have it: its path, and its value where that matters; None without it."""
        return next(self._found(self.path, settings, ""), None)

    def _found(self, path: tuple[str, ...], at: object, under: str) -> Iterator[str]:
        if not path:
            word = ("true" if at else "false") if isinstance(at, bool) else str(at)
            if at is not None and not self.values:
                yield under
            elif word in self.values:
                yield f"{under} = {word}"
        elif isinstance(at, Mapping):
            for name in at if path[0] == "*" else (path[0],):
                if name in at:
                    yield from self._found(path[1:], at[name], f"{under}.{name}" if under else name)


@dataclass(frozen=True, slots=True)
class ExcludedPair:
    """Two settings that a scenario may not have together, and why."""

    one: ExcludedSetting
    other: ExcludedSetting
    reason: str


@cache
def pairs() -> tuple[ExcludedPair, ...]:
    """All of them."""

    def setting(of: Mapping[str, Any]) -> ExcludedSetting:
        return ExcludedSetting(tuple(of["path"].split(".")), frozenset(of.get("is", ())))

    rows = json.loads(_wirespeed.exclusions())
    return tuple(ExcludedPair(setting(row["one"]), setting(row["other"]), row["reason"]) for row in rows)


def between(first: Settings, second: Settings) -> str | None:
    """The pair of which one side is in `first` and the other in `second`, and why; None where there is none."""
    for pair in pairs():
        for one, other in ((pair.one, pair.other), (pair.other, pair.one)):
            if (here := one.within(first)) and (there := other.within(second)):
                return f"{here} and {there} exclude each other: {pair.reason}"
    return None


def tables(overrides: Iterable[str]) -> dict[str, Any]:
    """Overrides as tables within tables.

    >>> tables(["nic.rings=shared", "mempool.start={near_slice=8}"])
    {'nic': {'rings': 'shared'}, 'mempool': {'start': {'near_slice': 8}}}
    """
    out: dict[str, Any] = {}
    for path, value in map(written.parsed, overrides):
        *front, last = path.split(".")
        at = out
        for name in front:
            under = at.get(name, {})
            # What is one word is a preset, of which something else is set.
            at[name] = under if isinstance(under, dict) else {"preset": under}
            at = at[name]
        at[last] = value
    return out
