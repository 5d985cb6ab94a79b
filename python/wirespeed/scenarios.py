"""Where a scenario comes from: a TOML file, TOML text, or the name of one that is shipped.

What a scenario means is judged by the extension only; here it is found and its overrides are written as TOML.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wirespeed._wirespeed import preset, presets
from wirespeed.errors import InputError, nearest

Overrides = Mapping[str, object] | Iterable[str] | None

# A comma that starts `path=value`; commas inside a value, as in [1,2], do not.
_OVERRIDE_COMMA = re.compile(r",(?=[A-Za-z_][\w.\-\[\]]*=)")


@dataclass(frozen=True, slots=True)
class Scenario:
    """TOML text, where it came from (relative paths in it start there), and overrides that belong to it."""

    text: str
    origin: str
    overrides: tuple[str, ...] = ()


def find(scenario: str | os.PathLike[str]) -> Scenario:
    """The scenario that a file, a shipped name or TOML text (anything with a line break) stands for.

    `NAME,path=value,…` adds overrides to it. Raises InputError with the nearest name for an unknown one.
    """
    if isinstance(scenario, str) and "\n" in scenario:
        return Scenario(scenario, "<text>")
    spelled = os.fspath(scenario)
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


def scenario_names() -> list[str]:
    """The shipped scenarios."""
    return [name for kind, name, _ in presets() if kind == "scenario"]


def overrides(given: Overrides) -> list[str]:
    """Overrides as the extension takes them: `path=value` with the value in TOML.

    >>> overrides({"machine.llc.ways": 8, "traffic.looped": True}), overrides(["seed=2"])
    (['machine.llc.ways=8', 'traffic.looped=true'], ['seed=2'])
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
            raise InputError(f"set {override!r}: must be PATH=VALUE, for example machine.llc.ways=8")
    return out


def toml_value(value: object) -> str:
    """A Python value as TOML on one line.

    >>> toml_value([1, 2.5, "a b", True]), toml_value({"rate": "10 Gbps"})
    ('[1, 2.5, "a b", true]', '{"rate" = "10 Gbps"}')
    """
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
    if hasattr(value, "item"):  # a number of numpy's
        return toml_value(value.item())
    raise InputError(f"set: {value!r} ({type(value).__name__}) has no form in TOML; use a number, a text or a list")


def _read(path: str) -> str:
    if Path(path).is_dir():
        raise InputError(f"{path}: is a folder; a scenario is a TOML file (results in a folder: wirespeed.read)")
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise InputError(f"{path}: is not UTF-8 text (byte {e.start}); a scenario is a TOML file") from None
    except OSError as e:
        raise InputError(f"{path}: {e.strerror or e}") from None
