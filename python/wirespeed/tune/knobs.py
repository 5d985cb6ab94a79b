"""Knobs: settings with the values that are tried."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wirespeed import scenarios
from wirespeed.errors import InputError, each_of
from wirespeed.tune.target import Settings, Target

MOST_VALUES: Final = 1000
MOST_POINTS: Final = 100_000
# Points that are judged to find one in which a value is accepted.
_JUDGED: Final = 2000

_ROUNDING: Final = 1e-9
_RANGE: Final = re.compile(r"\s*([^.\s]+(?:\.\d+)?)\s*\.\.\s*([^*+/\s]+)\s*(?:([*+/])\s*(\S+))?\s*")


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting by its dotted path, and its values: numbers from small to large, else as given."""

    path: str
    values: tuple[object, ...]

    @property
    def is_ordered(self) -> bool:
        """Whether all values are numbers: then near values are alike, and the search may use that."""
        return all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)


def parse(text: str, option: str = "--knob") -> Knob:
    """A knob as the command line has it; `option` is what errors call it.

    >>> parse("mempool.size=8192..65536*2").values, parse("nic.burst=16..64+16").values
    ((8192, 16384, 32768, 65536), (16, 32, 48, 64))
    >>> parse("mempool.kind=fifo,lifo").values
    ('fifo', 'lifo')
    >>> parse("traffic.load=0.2..1.0/5").values
    (0.2, 0.4, 0.6, 0.8, 1.0)
    """
    path, equals, given = text.partition("=")
    path = path.strip()
    if not equals or not path:
        raise InputError(
            f"{option} {text!r}: must be PATH=VALUES, for example nic.rx_descriptors=256,512,1024 "
            "or mempool.size=8192..65536*2"
        )
    found = _RANGE.fullmatch(given)
    where = f"{option} {path}"
    values = _range(where, given, *found.groups()) if found else [_value(where, part) for part in given.split(",")]
    return knob(path, values, option)


def knob(path: str, values: Iterable[object], option: str = "--knob") -> Knob:
    """A knob of values; raises InputError where there is none, or one twice."""
    listed = tuple(scenarios.plain(value) for value in values)
    if not listed:
        raise InputError(f"{option} {path}: there are no values; give at least one")
    if len(listed) > MOST_VALUES:
        raise InputError(f"{option} {path}: {len(listed)} values; at most {MOST_VALUES} are allowed: use a larger step")
    for place, value in enumerate(listed):
        if value in listed[:place]:
            raise InputError(f"{option} {path}: the value {value} is given twice")
    found = Knob(path, listed)
    return Knob(path, tuple(sorted(listed, key=_size))) if found.is_ordered else found


def knobs(given: Iterable[str] | Mapping[str, Iterable[object] | str]) -> list[Knob]:
    """Knobs of the command line, or of a mapping of paths to values (or to a range such as "8192..65536*2")."""
    found = each_of(given.items(), lambda each: _given(*each)) if isinstance(given, Mapping) else each_of(given, parse)
    if not found:
        raise InputError("there is nothing to tune: give at least one --knob PATH=VALUES")
    paths = [each.path for each in found]
    if twice := [path for path in dict.fromkeys(paths) if paths.count(path) > 1]:
        raise InputError("\n".join(f"--knob {path}: is given twice; put all its values into one" for path in twice))
    if (whole := size(found)) > MOST_POINTS:
        raise InputError(f"the knobs span {whole:,} points; at most {MOST_POINTS:,} are allowed: give fewer values")
    return found


def _given(path: str, values: Iterable[object] | str) -> Knob:
    return parse(f"{path}={values}") if isinstance(values, str) else knob(path, values)


def size(of: Sequence[Knob]) -> int:
    """How many points the grid has."""
    return math.prod(len(each.values) for each in of)


def grid(of: Sequence[Knob]) -> Iterator[dict[str, object]]:
    """Every combination; the last knob turns fastest."""
    for values in itertools.product(*(each.values for each in of)):
        yield dict(zip((each.path for each in of), values, strict=True))


def key(settings: Settings) -> str:
    """Equal for equal settings."""
    return json.dumps(dict(settings), sort_keys=True)


def judge(of: Sequence[Knob], target: Target) -> None:
    """Raises InputError, with the target's own words, for a value that no combination with the others makes sound.

    A pool too small for the longest rings is no mistake; an unknown name is. Where the grid is large, so many points
    of it are judged for each value as `_JUDGED` says.
    """
    faults = []
    for each in of:
        others = [other for other in of if other is not each]
        for value in each.values:
            alone = target.check({each.path: value})
            if alone is None:
                continue
            points = itertools.islice(grid(others), _JUDGED) if others else iter(())
            if all(target.check({**point, each.path: value}) is not None for point in points):
                faults.append(f"--knob {each.path}, value {value}: {alone}")
    if faults:
        raise InputError("\n".join(faults))


def _size(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _range(where: str, given: str, first: str, last: str, sign: str | None, by: str | None) -> list[object]:
    low, high = _number(where, given, first), _number(where, given, last)
    if sign == "/":
        return _even(where, given, low, high, _number(where, given, by or ""))
    if by is None and not (isinstance(low, int) and isinstance(high, int)):
        says = "; with --design latin or sobol it is an interval" if where.startswith("--vary") else ""
        raise InputError(
            f"{where}={given}: in which steps? Give {given.strip()}/COUNT for so many values at equal distances, or "
            f"FIRST..LAST+STEP{says}"
        )
    step = _number(where, given, by) if by is not None else 1
    factor = sign == "*"
    if factor and (step <= 1 or low <= 0):
        raise InputError(f"{where}={given}: never ends; FIRST..LAST*FACTOR needs FIRST above 0, FACTOR above 1")
    if not factor and step <= 0:
        raise InputError(f"{where}={given}: never ends; FIRST..LAST+STEP needs STEP above 0")
    if low > high:
        raise InputError(f"{where}={given}: the range is empty, {first} is above {last}; swap them")
    values: list[object] = []
    # Of floats the last may miss its end by rounding; each is reckoned from the first, so that errors do not add up.
    whole = all(isinstance(each, int) for each in (low, high, step))
    end = high if whole else high + _ROUNDING * (abs(high) if factor else step)
    while len(values) <= MOST_VALUES:
        value = low * step ** len(values) if factor else low + step * len(values)
        if value > end:
            break
        values.append(value if isinstance(value, int) else float(f"{value:.12g}"))
    if len(values) > MOST_VALUES:
        doubled = f"{first}..{last}*2, or " if low > 0 else ""
        raise InputError(
            f"{where}={given}: has more values than the at most {MOST_VALUES} that are allowed; take {doubled}"
            f"{first}..{last}/10 for ten of them"
        )
    return values


def _even(where: str, given: str, low: float, high: float, count: float) -> list[object]:
    """So many values at equal distances, both ends among them; whole numbers where ends and distance are."""
    if low >= high:
        raise InputError(f"{where}={given}: the range is empty, its end is not above its start; swap them")
    if not isinstance(count, int) or not 2 <= count <= MOST_VALUES:
        raise InputError(f"{where}={given}: FIRST..LAST/COUNT needs a COUNT of 2 to {MOST_VALUES}")
    whole = isinstance(low, int) and isinstance(high, int) and (high - low) % (count - 1) == 0
    if whole:
        return [low + i * (high - low) // (count - 1) for i in range(count)]
    return [float(f"{low + i * (high - low) / (count - 1):.12g}") for i in range(count)]


def _number(where: str, given: str, text: str) -> int | float:
    value = _value(where, text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(
            f"{where}={given}: {text} is no number; a range is FIRST..LAST/COUNT, FIRST..LAST+STEP or "
            "FIRST..LAST*FACTOR, "
            "anything else is listed with commas"
        )
    return value


def _value(where: str, text: str) -> object:
    text = text.strip().strip('"')
    if not text:
        raise InputError(f"{where}: a value is empty; list values with single commas")
    if text in ("true", "false"):
        return text == "true"
    plain = text.replace("_", "")
    for kind in (int, float):
        try:
            value = kind(plain)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return text
