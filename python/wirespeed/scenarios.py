"""Where a scenario comes from: a TOML file, TOML text, or the name of one that is shipped.

What a scenario means is judged by the extension only; here it is found and its overrides are written as TOML.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from wirespeed import again, kinds
from wirespeed._wirespeed import preset, presets, schema
from wirespeed.errors import InputError, each_of, nearest

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
    shipped = scenario_names()

    def is_there(name: str) -> bool:
        # A folder that is named as a shipped scenario holds results of it.
        return Path(name).exists() and not (name in shipped and Path(name).is_dir())

    if is_there(spelled):
        return Scenario(_read(spelled), spelled)
    name, *overrides = _OVERRIDE_COMMA.split(spelled)
    if overrides and is_there(name):
        return Scenario(_read(name), name, tuple(overrides))
    if name in shipped:
        return Scenario(preset("scenario", name), name, tuple(overrides))
    if name.endswith(".toml") or os.sep in name:
        raise InputError(f"{name}: no such file{nearest(Path(name).stem, shipped)}")
    raise InputError(
        f"scenario `{name}`: no such file, and no shipped scenario of that name{nearest(name, shipped)}; "
        f"shipped are: {', '.join(shipped)}; `wirespeed presets --kind scenario` says what each is"
    )


def as_text(scenario: str | os.PathLike[str] | Mapping[str, object]) -> str | os.PathLike[str]:
    r"""A mapping as TOML text, which `find` takes as any other; what is no mapping stays.

    Dotted keys are paths, as in `--set`, and may stand beside tables. Raises InputError with all that is wrong.

    >>> as_text({"machine": {"cores": 2}, "machine.llc.core_ways": 8})
    'machine = {"cores" = 2, "llc" = {"core_ways" = 8}}\n'
    """
    if not isinstance(scenario, Mapping):
        return scenario
    faults: list[str] = []
    tables: dict[str, Any] = {}
    _nest(tables, scenario, "", faults)
    lines = [f"{_key(name)} = {_toml(value, name, 'scenario', faults)}\n" for name, value in tables.items()]
    if faults:
        raise InputError("\n".join(dict.fromkeys(faults)))
    return "".join(lines) or "\n"


def _nest(into: dict[str, Any], given: Mapping[str, object], under: str, faults: list[str]) -> None:
    """Adds the settings of a mapping to tables, a table for each part of a path."""
    for key, value in given.items():
        if not _is_key(key, under, "scenario", faults):
            continue
        # A name that is no path of bare words stays one key.
        *front, last = key.split(".") if _BARE_KEY.fullmatch(key) else [key]
        at: Any = into
        for part in front:
            at = at.setdefault(part, {}) if isinstance(at, dict) else None
        path = f"{under}{key}"
        if not isinstance(at, dict) or (last in at and not (isinstance(at[last], dict) and isinstance(value, Mapping))):
            faults.append(f"scenario: {path} and a part of its path are both given; give one of them")
        elif isinstance(value, Mapping):
            _nest(at.setdefault(last, {}), value, f"{path}.", faults)
        else:
            at[last] = value


def _is_key(key: object, under: str, what: str, faults: list[str]) -> bool:
    if isinstance(key, str):
        return True
    faults.append(
        f"{what}: {under}{key!r} is no name of a setting: keys are texts, such as 'machine' or 'traffic.load'"
    )
    return False


def leaves(given: Mapping[str, object], what: str = "set") -> dict[str, object]:
    """Single settings by dotted path, of tables within tables.

    A table is taken apart as far as the scenario knows settings in it: the others of the table stay as they are. What
    is a choice of several forms, as `traffic.sizes`, is one setting. Raises InputError with all that is wrong.

    >>> leaves({"machine": {"llc": {"core_ways": 8}, "cores": 2}, "traffic.sizes": {"fixed": 64}})
    {'machine.llc.core_ways': 8, 'machine.cores': 2, 'traffic.sizes': {'fixed': 64}}
    """
    faults: list[str] = []
    found: dict[str, object] = {}
    for path, value in _leaves(given, "", what, faults):
        if path in found:
            faults.append(f"{what}: {path} is given twice; give one of them")
        found[path] = value
    if faults:
        raise InputError("\n".join(faults))
    return found


def _leaves(given: Mapping[str, object], under: str, what: str, faults: list[str]) -> Iterator[tuple[str, object]]:
    for key, value in given.items():
        if not _is_key(key, under, what, faults):
            continue
        path = f"{under}{key}"
        if isinstance(value, Mapping) and value and _is_table(path):
            yield from _leaves(value, f"{path}.", what, faults)
        else:
            yield path, value


def _is_table(path: str) -> bool:
    """Whether a path of a scenario is a table of settings, and no choice of several forms, nor anything else."""
    known = _schema()
    at: Mapping[str, Any] | None = known
    for key in path.split("."):
        at = None if at is None else at.get("properties", {}).get(key, at.get("additionalProperties"))
        at = _form(at, known["$defs"]) if isinstance(at, Mapping) else None
    return at is not None and ("properties" in at or isinstance(at.get("additionalProperties"), Mapping))


def _form(node: Mapping[str, Any], parts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a node of the schema says of a value that is there; None where that is one of several forms."""
    while True:
        if "$ref" in node:
            node = parts[node["$ref"].rpartition("/")[2]]
        elif "oneOf" in node or "anyOf" in node:
            forms = [each for each in node.get("oneOf", node.get("anyOf")) if each.get("type") != "null"]
            if len(forms) != 1:
                return None
            node = forms[0]
        else:
            return node


@cache
def _schema() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(schema())
    return found


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
    faults = []
    parts = (setting.partition("=") for setting in settings)
    for path, value in ((path.strip(), value.strip().strip('"')) for path, _, value in parts):
        for of_option, (option, its) in options.items():
            what = both_say(path, of_option)
            if what is not None and not (path == of_option and value == str(its)):
                what = path if what == "the same" else what
                faults.append(f"{option} and --set {path}: both say {what}; give one of them")
    if faults:
        raise InputError("\n".join(faults))


def scenario_names() -> list[str]:
    """The shipped scenarios."""
    return [name for kind, name, _ in presets() if kind == "scenario"]


def overrides(given: Overrides) -> list[str]:
    """Overrides as the extension takes them: `path=value` with the value in TOML. Tables are taken apart: see `leaves`.

    >>> overrides({"machine": {"llc": {"core_ways": 8}}, "machine.dram.all_hits": True}), overrides(["seed=2"])
    (['machine.llc.core_ways=8', 'machine.dram.all_hits=true'], ['seed=2'])
    """
    if given is None:
        return []
    if isinstance(given, str):
        raise InputError(f"set = {given!r}: must be a mapping of paths to values, or a list of 'path=value'")
    if isinstance(given, Mapping):
        faults: list[str] = []
        found = [f"{path}={_toml(value, path, 'set', faults)}" for path, value in leaves(given).items()]
        if faults:
            raise InputError("\n".join(faults))
        return found
    out = list(given)
    each_of(out, _refuse_no_override)
    return out


def values(table: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, object]]:
    """All that tables within tables hold, by dotted path; `leaves` keeps choices of several forms whole."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from values(value, f"{under}{name}.")
        else:
            yield f"{under}{name}", value


def _refuse_no_override(override: str) -> None:
    path, equals, _ = override.partition("=")
    if not equals or not path.strip():
        raise InputError(f"set {override!r}: must be PATH=VALUE, for example machine.llc.core_ways=8")


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


def _toml(value: object, path: str, what: str, faults: list[str]) -> str:
    """As `toml_value`; what has no form there is added to `faults`, with its path."""
    if isinstance(value, Mapping):
        parts = [
            f"{toml_value(name)} = {_toml(inner, f'{path}.{name}', what, faults)}"
            for name, inner in value.items()
            if _is_key(name, f"{path}.", what, faults)
        ]
        return "{" + ", ".join(parts) + "}"
    try:
        return toml_value(value)
    except InputError:
        least = "; leave it out" if value is None else "; use a number, a text or a list"
        faults.append(f"{what}: {path}: {value!r} ({type(value).__name__}) has no form in TOML{least}")
        return ""


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
