"""Where a scenario comes from: a TOML file, TOML text, or the name of one that is shipped.

What a scenario means is judged by the extension only; here it is found and its overrides are written as TOML.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wirespeed import again, kinds
from wirespeed._wirespeed import preset, presets
from wirespeed.errors import InputError, nearest

Overrides = Mapping[str, object] | Iterable[str] | None

# A comma that starts `path=value`; commas inside a value, as in [1,2], do not.
_OVERRIDE_COMMA = re.compile(r",(?=[A-Za-z_][\w.\-\[\]]*=)")
_BARE_KEY = re.compile(r"[\w-]+(?:\.[\w-]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Scenario:
    """TOML text, where it came from (relative paths in it start there), and overrides that belong to it."""

    text: str
    origin: str
    overrides: tuple[str, ...] = ()


def find(scenario: str | os.PathLike[str] | Mapping[str, object]) -> Scenario:
    """The scenario that a file, a shipped name, TOML text (anything with a line break) or a mapping stands for.

    `NAME,path=value,…` adds overrides to it. Raises InputError with the nearest name for an unknown one.
    """
    if isinstance(scenario, Mapping):
        scenario = as_text(scenario)
    if isinstance(scenario, str) and "\n" in scenario:
        return Scenario(scenario, "<text>")
    try:
        spelled = os.fspath(scenario)
    except TypeError:
        kind = type(scenario).__name__
        raise InputError(
            f"a scenario is a TOML file, TOML text, the name of a shipped one or a dict, not a {kind}"
        ) from None
    if Path(spelled).exists():
        return Scenario(_read(spelled), spelled)
    name, *overrides = _OVERRIDE_COMMA.split(spelled)
    if overrides and Path(name).exists():
        return Scenario(_read(name), name, tuple(overrides))
    shipped = scenario_names()
    if name in shipped:
        return Scenario(preset("scenario", name), name, tuple(overrides))
    if name.endswith(".toml") or os.sep in name:
        raise InputError(f"{name}: no such file{nearest(Path(name).stem, shipped)}")
    raise InputError(
        f"scenario `{name}`: no such file, and no shipped scenario of that name{nearest(name, shipped)}; "
        f"shipped are: {', '.join(shipped)}"
    )


def as_text(scenario: str | os.PathLike[str] | Mapping[str, object]) -> str | os.PathLike[str]:
    r"""A mapping as TOML text, which `find` takes as any other; what is no mapping stays.

    >>> as_text({"traffic": {"load": 0.5}, "run.seed": 7})
    'traffic = {"load" = 0.5}\nrun.seed = 7\n'
    """
    if not isinstance(scenario, Mapping):
        return scenario
    return "".join(f"{_key(name)} = {toml_value(value)}\n" for name, value in scenario.items()) or "\n"


# Settings of which one replaces the others, and what they say.
_RATES: Final = ("traffic.load", "traffic.rate", "traffic.packet_rate", "traffic.speed")
_OF_A_PROFILE: Final = tuple(f"traffic.{name}" for name in ("profile", "sizes", "mix", "flows", "payload"))


def both_say(path: str, other: str) -> str | None:
    """What two settings both say, where one would replace the other; None where both hold.

    >>> both_say("traffic.load", "traffic.rate"), both_say("traffic.flows.count", "traffic.capture")
    ('how much is offered', 'what the traffic is')
    >>> both_say("traffic.profile", "traffic.flows.count") is None
    True
    """
    if path == other:
        return "the same"
    if path in _RATES and other in _RATES:
        return "how much is offered"
    for capture, profile in ((path, other), (other, path)):
        if capture == "traffic.capture" and any(is_within(profile, each) for each in _OF_A_PROFILE):
            return "what the traffic is"
    return None


def is_within(path: str, other: str) -> bool:
    """Whether a path is another, or a part of it."""
    return path == other or path.startswith(f"{other}.")


def judge(settings: Iterable[str], options: Mapping[str, tuple[str, object]]) -> None:
    """Raises InputError where an option and a setting say the same thing in different ways.

    `options` are names and values by the path that each sets.
    """
    for path, value in ((path.strip(), value.strip().strip('"')) for path, _, value in map(_parted, settings)):
        for of_option, (option, its) in options.items():
            what = both_say(path, of_option)
            if what is not None and not (path == of_option and value == str(its)):
                what = path if what == "the same" else what
                raise InputError(f"{option} and --set {path}: both say {what}; give one of them")


def _parted(setting: str) -> tuple[str, str, str]:
    return setting.partition("=")


def scenario_names() -> list[str]:
    """The shipped scenarios."""
    return [name for kind, name, _ in presets() if kind == "scenario"]


def overrides(given: Overrides) -> list[str]:
    """Overrides as the extension takes them: `path=value` with the value in TOML.

    >>> overrides({"machine.llc.core_ways": 8, "machine.dram.all_hits": True}), overrides(["seed=2"])
    (['machine.llc.core_ways=8', 'machine.dram.all_hits=true'], ['seed=2'])
    """
    if given is None:
        return []
    if isinstance(given, str):
        raise InputError(f"set = {given!r}: must be a mapping of paths to values, or a list of 'path=value'")
    if isinstance(given, Mapping):
        return [f"{path}={toml_value(value)}" for path, value in given.items()]
    out = list(given)
    for override in out:
        path, equals, _ = override.partition("=")
        if not equals or not path.strip():
            raise InputError(f"set {override!r}: must be PATH=VALUE, for example machine.llc.core_ways=8")
    return out


def toml_value(value: object) -> str:
    """A Python value as TOML on one line.

    >>> toml_value([1, 2.5, "a b", True]), toml_value({"rate": "10 Gbps"})
    ('[1, 2.5, "a b", true]', '{"rate" = "10 Gbps"}')
    """
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | os.PathLike):
        # JSON strings are TOML basic strings, but for DEL, which TOML wants escaped.
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_value(str(k))} = {toml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    raise InputError(f"set: {value!r} ({type(value).__name__}) has no form in TOML; use a number, a text or a list")


def _key(path: str) -> str:
    """A key of a table: dotted paths are paths, as in `--set`."""
    return path if _BARE_KEY.fullmatch(path) else toml_value(path)


def plain(value: object) -> object:
    """A number or an array of numpy's, or a column of a table, as what Python has for it; anything else as it is.

    Numpy's float64 is a float too, but is not spelled as one.
    """
    return value.tolist() if hasattr(value, "tolist") else value


def _read(path: str) -> str:
    if (kept := again.scenario(path)) is not None:
        return kept
    if Path(path).is_dir():
        raise InputError(f"{path}: is a folder; a scenario is a TOML file (results in a folder: wirespeed.read)")
    try:
        if (kind := kinds.of(Path(path))) is not None:
            option = {"capture": "--capture", "prefix table": "--table"}[kind]
            raise InputError(
                f"{path}: is a {kind}, and no scenario: give it to one, `wirespeed run forwarding "
                f"{option} {shlex.quote(path)}`"
            )
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise InputError(f"{path}: is not UTF-8 text (byte {e.start}); a scenario is a TOML file") from None
    except OSError as e:
        raise InputError(f"{path}: {e.strerror or e}") from None
