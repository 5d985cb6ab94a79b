"""Whether two runs see the same kind of traffic, by the settings that make it; and which of them differ.

Runs of equal settings may still see other packets: another seed, length or warm-up draws others of the same kind. That
adds chance, and no bias. Another load, capture or size of packets does add a bias: what changed is then no matter of
the machine alone. A load that a search found is an answer and no setting.
"""

from __future__ import annotations

import filecmp
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wirespeed import quantities as q
from wirespeed import scenarios
from wirespeed.summary_types import Summary

# Settings outside `traffic` that decide which packets come, or when.
_OTHERS: Final = ("nic.rate", "function.forward.prefixes", "function.forward.next_hops", "function.forward.table")
# Settings that name files, by the kind that a summary's `inputs` have.
_FILES: Final[Mapping[str, str]] = {
    "traffic.capture": "capture",
    "traffic.profile": "profile",
    "function.forward.table": "table",
}
# The profile of a scenario that names neither one nor a capture.
_PROFILE: Final = "isp"
# Of a summary without a scenario: a mean or a rate that differs by less is the same but for chance.
_BY_CHANCE: Final = 0.01
_UNSET: Final = "unset"


@dataclass(frozen=True, slots=True)
class Seen:
    """What decides which packets a run sees: settings by path, and the files they name by what they hold."""

    settings: Mapping[str, object]
    files: Mapping[str, str | Path]
    """The hash of the content where it was read, else where it lies."""
    is_known: bool = True
    """Whether the scenario is there; else `settings` are what the summary tells."""


@dataclass(frozen=True, slots=True)
class Differing:
    """A setting of the traffic that differs, with both values as text."""

    path: str
    a: str
    b: str

    @property
    def text(self) -> str:
        """The setting with both values."""
        return f"{self.path} ({self.a} in a, {self.b} in b)"


def of_scenario(resolved: str) -> Seen:
    """Of a scenario that is to run: `resolved` is its TOML with defaults filled in."""
    settings = _deciding(dict(scenarios.values(tomllib.loads(resolved))))
    return Seen(settings, {path: Path(str(settings[path])) for path in _FILES if path in settings})


def of_run(summary: Summary, resolved: str) -> Seen:
    """Of a run: by its scenario, and by its summary where that is all there is."""
    try:
        settings = dict(scenarios.values(tomllib.loads(resolved)))
    except tomllib.TOMLDecodeError:
        settings = {}
    if not settings:
        return Seen(_told(summary), {}, is_known=False)
    settings = _deciding(settings)
    read = {each.get("kind"): each.get("blake3") for each in summary.get("inputs") or ()}
    files = {path: str(read[kind]) for path, kind in _FILES.items() if path in settings and read.get(kind)}
    return Seen(settings, files)


def differing(a: Seen, b: Seen, told: tuple[Summary, Summary] | None = None) -> list[Differing]:
    """The settings of the traffic that differ; `told` are the summaries, for where one has no scenario."""
    if not (a.is_known and b.is_known):
        return [] if told is None else _apart(_told(told[0]), _told(told[1]))
    paths = dict.fromkeys((*a.settings, *b.settings))
    found = [Differing(path, _text(a, path), _text(b, path)) for path in paths if path not in _FILES]
    found += [Differing(path, _text(a, path), _text(b, path)) for path in _FILES if _is_other_file(a, b, path)]
    return [each for each in found if each.path in _FILES or each.a != each.b]


def _is_other_file(a: Seen, b: Seen, path: str) -> bool:
    """Whether a setting names files of other content; what cannot be known yet is not other."""
    if (path in a.settings) != (path in b.settings):
        return True
    one, other = a.files.get(path), b.files.get(path)
    if isinstance(one, str) and isinstance(other, str):
        return one != other
    if not isinstance(one, Path) or not isinstance(other, Path) or one == other:
        return False
    if one.is_file() and other.is_file():
        return not filecmp.cmp(one, other, shallow=False)
    return not (one.suffix or other.suffix)  # names of what is shipped; a file that lies elsewhere is read later


def _deciding(settings: Mapping[str, object]) -> dict[str, object]:
    users = ("function.upf.", "function.kind") if settings.get("function.kind") == "upf" else ()
    found = {
        path: value for path, value in settings.items() if path.startswith(("traffic.", *users)) or path in _OTHERS
    }
    return found if "traffic.capture" in found else {"traffic.profile": _PROFILE, **found}


def _text(seen: Seen, path: str) -> str:
    return str(seen.settings.get(path, _UNSET))


def _told(summary: Summary) -> dict[str, object]:
    """What a summary tells of its traffic."""
    traffic = summary.get("traffic") or {}
    found = {
        "source": traffic.get("source"),
        "mean frame, bytes": traffic.get("mean_frame_bytes"),
        # What a search found is an answer.
        "offered, Mpps": None if summary.get("search") else summary.get("offered_mpps"),
        "line rate, Gbps": summary.get("line_rate_gbps"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _apart(a: Mapping[str, object], b: Mapping[str, object]) -> list[Differing]:
    found = []
    for name in (each for each in a if each in b):
        one, other = a[name], b[name]
        if q.is_number(one) and q.is_number(other):
            is_same = abs(one - other) <= _BY_CHANCE * max(abs(one), abs(other))
            one, other = q.digits(one), q.digits(other)
        else:
            is_same = one == other
        if not is_same:
            found.append(Differing(name, str(one), str(other)))
    return found
