"""Names of presets that a scenario misspells, all at once, and the lines of a file at which its faults stand.

The extension judges a scenario. It stops at the first preset that it does not find, and knows settings, no lines.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wirespeed import _wirespeed, scenarios, written
from wirespeed.errors import InputError, nearest_of

# Settings that name a preset, and the kinds that they may name.
_NAMING: Final[Mapping[str, tuple[str, ...]]] = {
    "machine.preset": ("machine",),
    "machine.processor": ("processor", "architecture"),
    "machine.dram.standard": ("dram",),
    "machine.gpu.preset": ("gpu",),
    "nic.model": ("nic",),
    "nic.driver": ("driver",),
    "function.program": ("program",),
    "traffic.profile": ("traffic",),
}
# As near as a name has to be to be proposed: one letter in five may be another.
_NEAR: Final = 0.6
_HEADER: Final = re.compile(r"\s*\[\[?\s*(?P<path>[^\]\[]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(r"\s*(?P<path>[\w\-\"']+(?:\s*\.\s*[\w\-\"']+)*)\s*=")
_INDEX: Final = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Name:
    """A name that no preset has: where it stands, and the nearest ones that there are."""

    path: str
    name: str
    where: str
    nearest: tuple[str, ...]
    known: tuple[str, ...]

    @property
    def text(self) -> str:
        """The fault, with what is allowed and what to do."""
        kinds = _NAMING[self.path]
        near = f"did you mean {' or '.join(self.nearest)}? " if self.nearest else ""
        lists = " and ".join(f"`wirespeed presets --kind {kind}`" for kind in kinds)
        return (
            f'{self.where}{self.path} = "{self.name}": no such preset: {near}'
            f"there are {', '.join(self.known)}; {lists} {'say' if len(kinds) > 1 else 'says'} what each is"
        )


def scenario(text: str, origin: str, overrides: Sequence[str], **given: Any) -> _wirespeed.Scenario:
    """The scenario that the extension makes of a text. Raises InputError with all its faults, each with its place."""
    try:
        found = _wirespeed.Scenario(text, origin, list(overrides), **given)
    except InputError as e:
        raise InputError("\n".join(_told(str(e), text, origin, overrides, given))) from None
    # Profiles are looked up by runs only.
    if names := [each for each in wrong_names(text, origin, overrides) if each.path == "traffic.profile"]:
        raise InputError("\n".join(each.text for each in names))
    return found


def _told(message: str, text: str, origin: str, overrides: Sequence[str], given: Mapping[str, Any]) -> Iterator[str]:
    names = wrong_names(text, origin, overrides)
    yield from (each.text for each in names)
    rest = _rest(message, names)
    yield from (placed(line, text, origin, overrides) for line in rest)
    # What the extension did not come to, for want of a preset.
    if names and all(each.nearest for each in names):
        instead = [f"{each.path}={json.dumps(each.nearest[0])}" for each in names]
        try:
            _wirespeed.Scenario(text, origin, [*overrides, *instead], **given)
        except InputError as e:
            for line in _rest(str(e), names):
                if line not in rest:
                    yield f"{placed(line, text, origin, overrides)} (with {' and '.join(instead)})"


def _rest(message: str, names: Sequence[Name]) -> list[str]:
    """The lines of a message that tell of other things than these names."""
    told = [f"{each.path}{joint}{json.dumps(each.name)}: no such " for each in names for joint in (" = ", ": ")]
    return [line for line in message.splitlines() if not any(each in line for each in told)]


def wrong_names(text: str, origin: str, overrides: Sequence[str]) -> list[Name]:
    """Every name in a scenario that no shipped preset has; files of one's own are not judged here."""
    try:
        said = {path: (value, False) for path, value in scenarios.values(tomllib.loads(text))}
    except tomllib.TOMLDecodeError:
        said = {}  # the extension tells where it ends to be TOML
    for path, value in _of(overrides):
        said[path] = (value, True)
    found = []
    for path, kinds in _NAMING.items():
        name, is_override = said.get(path, (None, False))
        known = tuple(each for kind, each, _ in _wirespeed.presets() if kind in kinds)
        if isinstance(name, str) and name not in known and not Path(name).suffix:
            where = "--set " if is_override else f"{_at(origin, line_of(text, path))}: "
            found.append(Name(path, name, where, nearest_of(name, known, _NEAR), known))
    return found


def placed(line: str, text: str, origin: str, overrides: Sequence[str]) -> str:
    """A line of a message with that of the file; as it is where it tells no setting, or one that an override sets."""
    head = f"{origin}: "
    if (bare := re.match(r"(?P<path>[a-z]\w*(?:\.\w+)+) = ", line)) is not None and bare["path"] in _said(text):
        line = f"{head}{line}"  # the extension names no file where a part refuses what it was given
    path = re.match(r"[\w\-]+(?:(?:\.|\[)[\w\-\]]+)*(?=:| =)", line.removeprefix(head))
    if not line.startswith(head) or path is None or any(path[0] == each for each, _ in _of(overrides)):
        return line
    at = line_of(text, path[0])
    return line if at is None else f"{_at(origin, at)}: {line.removeprefix(head)}"


def _said(text: str) -> frozenset[str]:
    """The paths that a text sets."""
    try:
        return frozenset(path for path, _ in scenarios.values(tomllib.loads(text)))
    except tomllib.TOMLDecodeError:
        return frozenset()


def line_of(text: str, path: str) -> int | None:
    """The line at which a setting stands, or the nearest table around it that is written out; None where none is."""
    wanted = _INDEX.sub("", path).split(".")
    best: tuple[int, int] | None = None
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if (header := _HEADER.match(line)) is not None and "=" not in line.partition("#")[0]:
            table = _parts(header["path"])
            here = table
        elif (key := _KEY.match(line)) is not None:
            here = [*table, *_parts(key["path"])]
        else:
            continue
        if wanted[: len(here)] == here and (best is None or len(here) > best[0]):
            best = (len(here), number)
    return None if best is None else best[1]


def _parts(path: str) -> list[str]:
    return [part.strip().strip("\"'") for part in path.split(".")]


def _at(origin: str, line: int | None) -> str:
    return origin if line is None else f"{origin}:{line}"


def _of(overrides: Sequence[str]) -> Iterator[tuple[str, object]]:
    """The settings of overrides; a value that is no TOML is text."""
    for override in overrides:
        path, read = written.parsed(override)
        if isinstance(read, Mapping):
            yield from scenarios.values(read, f"{path}.")
        yield path, read
