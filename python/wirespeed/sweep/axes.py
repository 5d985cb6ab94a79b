"""Axes of a study: what is varied, and the levels it takes.

An axis is a parameter with values, an interval that samples are drawn from, or a set of cases, each of which is a
bundle of settings under a name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wirespeed import scenarios
from wirespeed.errors import InputError
from wirespeed.tune import knobs

OPTION: Final = "--vary"
CASE: Final = "case"
_INTERVAL: Final = re.compile(r"\s*([^.\s]+(?:\.\d+)?)\s*\.\.\s*([^*+/\s]+)\s*")

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Level:
    """A value of an axis as tables show it, and the overrides it stands for."""

    value: Value
    overrides: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """What is varied: its name, its levels, and for an interval its ends, that samples may lie between."""

    name: str
    levels: tuple[Level, ...]
    ends: tuple[float, float] | None = None
    whole: bool = False
    """Whether samples between the ends are whole numbers."""

    @property
    def paths(self) -> frozenset[str]:
        """The settings it touches."""
        return frozenset(_path(override) for level in self.levels for override in level.overrides)

    def at(self, share: float) -> Level:
        """The level at a share, 0 up to 1, of the axis: between the ends, or one of the levels, all as likely."""
        if self.ends is None:
            return self.levels[min(int(share * len(self.levels)), len(self.levels) - 1)]
        low, high = self.ends
        if self.whole:
            return level(self.name, min(math.floor(low + share * (high - low + 1)), int(high)))
        return level(self.name, float(f"{low + share * (high - low):.9g}"))


def level(path: str, value: Any) -> Level:
    """A parameter at a value."""
    value = scenarios.plain(value)
    shown = value if isinstance(value, Value) else scenarios.toml_value(value)
    return Level(shown, tuple(scenarios.overrides({path: value})))


def parse(text: str, sampled: bool = False) -> Axis:
    """An axis as the command line has it; where points are `sampled`, FIRST..LAST is an interval.

    >>> [level.value for level in parse("machine.llc.slices=1,4,8").levels]
    [1, 4, 8]
    >>> parse("traffic.load=0.1..1.0", sampled=True).ends
    (0.1, 1.0)
    """
    path, _, given = text.partition("=")
    found = _INTERVAL.fullmatch(given) if sampled else None
    if found is None:
        knob = knobs.parse(text, OPTION)
        return Axis(knob.path, tuple(level(knob.path, value) for value in knob.values))
    low, high = (knobs.parse(f"{path}={end}", OPTION).values[0] for end in found.groups())
    if any(isinstance(end, bool | str) for end in (low, high)):
        raise InputError(f"{OPTION} {text}: an interval is FIRST..LAST of two numbers; list anything else with commas")
    first, last = float(low), float(high)  # type: ignore[arg-type]
    if first >= last:
        raise InputError(f"{OPTION} {text}: the interval is empty, its end is not above its start; swap them")
    path, whole = path.strip(), isinstance(low, int) and isinstance(high, int)
    return Axis(path, (level(path, low), level(path, high)), (first, last), whole)


def given(vary: Iterable[str] | Mapping[str, Any] | None, sampled: bool) -> list[Axis]:
    """Axes of the command line, or of a mapping of paths to values (or to a range such as "0.1..1.0/10")."""
    if vary is None:
        return []
    if isinstance(vary, str):
        raise InputError(f"vary = {vary!r}: must be a mapping of paths to values, or a list of 'path=values'")
    if not isinstance(vary, Mapping):
        return [parse(text, sampled) for text in vary]
    return [
        parse(f"{path}={values}", sampled)
        if isinstance(values, str)
        else Axis(path, tuple(level(path, value) for value in knobs.knob(path, _listed(path, values), OPTION).values))
        for path, values in scenarios.leaves(vary, "vary").items()
    ]


def cases(bundles: Mapping[str, scenarios.Overrides]) -> list[Axis]:
    """The axis `case`, whose levels are bundles of settings; none where there is no bundle."""
    levels = tuple(Level(name, tuple(scenarios.overrides(bundle))) for name, bundle in bundles.items())
    return [Axis(CASE, levels)] if levels else []


def judge(
    axes: Sequence[Axis], fixed: Sequence[str], options: Mapping[str, tuple[str, object]], replicated: bool
) -> None:
    """Raises InputError where axes, or an axis and a setting that is given, set the same thing.

    `fixed` are overrides given with `--set`, `options` names and values of other options by the path that each sets.
    """
    if not axes:
        raise InputError(f"there is nothing to vary: give at least one {OPTION} PATH=VALUES")
    scenarios.judge(fixed, options)
    taken: dict[str, str] = {_path(override): "--set" for override in fixed}
    taken |= {path: name for path, (name, _) in options.items()}
    for axis in axes:
        if any(axis.name == other.name for other in axes if other is not axis):
            raise InputError(f"{OPTION} {axis.name}: is given twice; put all its values into one")
        for path in sorted(axis.paths):
            for other, by in taken.items():
                if _clash(path, other):
                    raise InputError(
                        f"{OPTION} {axis.name}: sets {path}, but {by} sets {other}, and only one of them would hold; "
                        "leave one out"
                    )
        taken |= dict.fromkeys(axis.paths, f"{OPTION} {axis.name}")
        if replicated and "run.seed" in axis.paths:
            raise InputError(
                f"{OPTION} run.seed: replications have seeds of their own; leave out --replications and --until, "
                "or run.seed"
            )


def _clash(path: str, other: str) -> bool:
    nested = scenarios.is_within(path, other) or scenarios.is_within(other, path)
    return nested or scenarios.both_say(path, other) is not None


def _path(override: str) -> str:
    return override.partition("=")[0].strip()


def _listed(path: str, values: object) -> list[object]:
    if isinstance(values, Iterable):
        return [scenarios.plain(value) for value in values]
    raise InputError(f"{OPTION} {path}: {values!r} is one value; give a list of values, or use `set`")
