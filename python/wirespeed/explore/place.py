"""A scenario that is explored: its controls, and the machine that positions of them stand for."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from wirespeed import _wirespeed, api, scenarios
from wirespeed.advise import techniques
from wirespeed.errors import InputError, nearest
from wirespeed.explore import controls
from wirespeed.explore.controls import Control

Chosen = Mapping[str, str]
"""Values by the names of controls; who is not in it stands as in the scenario."""
# A comma within a value that `NAME,path=value` would take for the next setting.
_AMBIGUOUS: Final = re.compile(r",\s*[A-Za-z_][\w.\-\[\]]*\s*=")


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says of the scenario."""

    scenario: str
    capture: os.PathLike[str] | None = None
    table: os.PathLike[str] | None = None
    settings: Sequence[str] = ()
    seed: int | None = None


class Place:
    """A scenario and what can be moved in it."""

    def __init__(self, given: Given) -> None:
        """Raises InputError for a scenario that is none, or that cannot be run in short pieces."""
        self.given = given
        self.resolved = tomllib.loads(self._resolve([]))
        for setting in ("search", "sampling"):
            if self.resolved["run"].get(setting):
                raise InputError(f"run.{setting}: a page shows short runs; leave it out of the scenario")
        self.controls = {each.name: each for each in controls.of_scenario(self.resolved)}

    @cached_property
    def title(self) -> str:
        """What the scenario calls itself."""
        return str(self.resolved.get("name") or self.given.scenario)

    def overrides(self, chosen: Chosen) -> list[str]:
        """The settings of what is chosen, techniques last: they are settings of the machine that the others make.

        Raises InputError with all that is wrong.
        """
        faults: list[str] = []
        moved: list[str] = []
        wanted: list[str] = []
        for name, value in chosen.items():
            control = self.controls.get(name)
            if control is None:
                faults.append(f"{name}: there is no such control{nearest(name, self.controls)}")
            elif control.kind == "switch" and value == controls.ON:
                wanted.append(name)
            else:
                try:
                    moved += control.overrides(value)
                except InputError as e:
                    faults.append(str(e))
        if faults:
            raise InputError("\n".join(faults))
        return [*moved, *(o for each in self.techniques(moved, wanted) for o in each.overrides)]

    def techniques(self, moved: Sequence[str], wanted: Sequence[str]) -> list[techniques.Technique]:
        """The techniques that are switched on, on the machine that settings make. Raises InputError."""
        if not wanted:
            return []
        machine = tomllib.loads(self._resolve(moved))
        return [controls.technique(machine, name) for name in wanted]

    def judge(self, chosen: Chosen, more: Sequence[str]) -> _wirespeed.Scenario:
        """The scenario of what is chosen, with `more` settings. Raises InputError."""
        return _wirespeed.Scenario(self._resolve(self.overrides(chosen)), "<explore>", list(more))

    def command(self, chosen: Chosen) -> str:
        """The command line that runs it."""
        return shlex.join(["wirespeed", "run", *self._words(self.overrides(chosen))])

    def comparison(self, a: Chosen, b: Chosen) -> str | None:
        """The command line that compares two; None where a setting cannot stand in the name of an operand."""
        sides = [self._last([*self.given.settings, *self.overrides(chosen)]) for chosen in (a, b)]
        if any(_AMBIGUOUS.search(override) for side in sides for override in side):
            return None
        operands = [",".join([self.given.scenario, *side]) for side in sides]
        return shlex.join(["wirespeed", "compare", *operands, *self._options()])

    def blamed(self, message: str, chosen: Chosen, moved: str) -> str:
        """The control beside which an error belongs: of what is chosen one that it names, the one moved last first.

        Where it names none of these, the one moved last, or the only one.
        """
        named = [name for name, each in self.controls.items() if _is_named(each, message)]
        ours = [name for name in named if name in chosen]
        if moved in ours or not ours:
            return moved or (next(iter(chosen)) if len(chosen) == 1 else next(iter(named), ""))
        return ours[0]

    def _words(self, overrides: Sequence[str]) -> list[str]:
        settings = self._last([*self.given.settings, *overrides])
        return [self.given.scenario, *self._options(), *(text for each in settings for text in ("--set", each))]

    def _options(self) -> list[str]:
        given = self.given
        said = (("--capture", given.capture), ("--table", given.table), ("--seed", given.seed))
        return [text for option, value in said if value is not None for text in (option, str(value))]

    def _resolve(self, overrides: Sequence[str]) -> str:
        given = self.given
        settings = self._last([*given.settings, *overrides])
        return api.resolve(given.scenario, given.capture, given.table, settings, given.seed)

    @staticmethod
    def _last(settings: Sequence[str]) -> list[str]:
        """Of settings that say the same, the last: a page moves what the command line set."""
        kept: dict[str, str] = {}
        for each in settings:
            path = each.partition("=")[0].strip()
            for other in [other for other in kept if scenarios.both_say(path, other) is not None]:
                del kept[other]
            kept[path] = each
        return list(kept.values())


def _is_named(control: Control, message: str) -> bool:
    if message.startswith((f"{control.label}:", f"{control.name}:")):
        return True
    return any(re.search(rf"(?<![\w.]){re.escape(path)}(?![\w.])", message) for path in control.paths)
