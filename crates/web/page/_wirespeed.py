"""The extension as the page has it: the same names, answered by the module of WebAssembly.

Of what the extension can do here is what `wirespeed.explore` asks; any other name is missing, and says so.
"""

from __future__ import annotations

import json
from typing import Any

from wirespeed_page import ask as _ask_page  # the worker's


class InputError(ValueError):
    """Input that cannot be used: what came, what is allowed."""


def _ask(**question: Any) -> Any:
    told = json.loads(_ask_page(json.dumps(question)))
    return answered(told)


def answered(told: dict[str, Any]) -> Any:
    """What an answer holds. Raises InputError for what the input is to blame for."""
    if (error := told.get("error")) is None:
        return told["ok"]
    if error["kind"] in ("input", "memory"):
        raise InputError(error["words"])
    if error["kind"] == "stopped":
        raise KeyboardInterrupt(error["words"])
    raise RuntimeError(error["words"])


_SHIPPED = [tuple(each) for each in _ask(what="presets")]
_ABOUT = _ask(what="about")


def version() -> str:
    return str(_ABOUT["version"])


def commit() -> str:
    return str(_ABOUT["commit"])


def presets() -> list[tuple[str, str, str]]:
    return [(kind, name, title) for kind, name, title, _ in _SHIPPED]


def preset(kind: str, name: str) -> str:
    for of, called, _, text in _SHIPPED:
        if (of, called) == (kind, name):
            return str(text)
    raise InputError(f"{kind} {name!r}: no such preset here")


def exclusions() -> str:
    return str(_ask(what="exclusions"))


def reasons() -> list[tuple[str, str]]:
    return [(name, family) for name, family in _ask(what="reasons")]


def file_settings() -> list[str]:
    return list(_ask(what="file_settings"))


def pool_of(**holders: Any) -> int:
    pool = _ask(what="pool_of", **holders)
    if pool is None:
        raise InputError("mempool.size: more mbufs than there are numbers (have fewer or shorter rings)")
    return int(pool)


class Scenario:
    def __init__(
        self,
        text: str,
        origin: str,
        overrides: list[str],
        *,
        capture: str | None = None,
        table: str | None = None,
        seed: int | None = None,
        search: str | None = None,
    ) -> None:
        if search is not None:
            raise InputError("search: a page shows short runs")
        asked = {"text": text, "origin": origin, "set": overrides, "capture": capture, "table": table, "seed": seed}
        self.resolved: str = _ask(what="scenario", **asked)


class Profile:
    def __init__(self, scenario: Scenario) -> None:
        self._number = _ask(what="profile", scenario=scenario.resolved)

    def predict(self, load: float | None = None) -> str:
        return json.dumps(_ask(what="predict", profile=self._number, load=load))


class Run:
    """A run of the other worker."""

    def __init__(self, summary: dict[str, Any], resolved: str, partial: bool, lives: Any) -> None:
        self.summary = summary
        self.summary_json = json.dumps(summary)
        self.resolved = resolved
        self.partial = partial
        self.run_id = summary.get("run_id") or ""
        self.lower_loads_json = "[]"  # a page asks for none
        self.trace_json = None if lives is None else json.dumps(lives)


def compare(a: Run, b: Run) -> str:
    return json.dumps(_ask(what="compare", a=a.summary, b=b.summary))


def __getattr__(name: str) -> Any:
    """Names that others of the package import, and nobody calls here."""
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_: Any, **__: Any) -> Any:
        raise InputError(f"{name}: is not in a page; install wirespeed for it")

    return missing
