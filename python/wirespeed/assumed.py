"""What is assumed of a machine, and how much each such number matters.

Presets say beside each number where it comes from, or that it is assumed. Here those words are read again: the numbers
of a scenario's parts that are assumed and that nothing has replaced. How much one matters is found by runs on the same
packets, in each of which one of them is changed by a share; the others stay.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wirespeed import _wirespeed, units
from wirespeed.errors import InputError
from wirespeed.progress import Callback as Progress

MARKS: Final = ("assumed", "fitted")
"""Words of a comment by which a number has no source of its own."""
_AS_ABOVE: Final = "likewise"
"""A comment that says of a number what the one above says of another."""
SHARE: Final = 0.2
"""By how much each number is changed, where nothing is said."""
MATTERS: Final = 0.005
"""What moves nothing by as much is counted, not listed: chance moves as much."""
PACKETS: Final = 20_000
"""Packets of each run."""
_PARTS: Final = (
    ("machine.processor", ("processor", "architecture")),
    ("nic.model", ("nic",)),
    ("nic.driver", ("driver",)),
    ("function.program", ("program",)),
    ("machine.preset", ("machine",)),
)
"""Where a file names a part, and the kinds that it may be of."""
_CHOSEN: Final = frozenset({"machine.cores", "nic.ports", "nic.rate", "nic.burst", "mempool.size", "mempool.cache"})
"""What a user of a machine chooses: nothing that a machine is."""
_DEFAULT_DRIVER: Final = tuple(f"nic.driver.{what}_instructions" for what in ("rx", "post", "tx", "free", "call"))
_STAGES: Final = "function.program.stages"
_OF_THE_DEFAULT: Final = "of the order of the scalar path of i40e in DPDK 22.11; no driver is named"
_LINE: Final = re.compile(r"(?P<key>[\w.-]+)\s*=\s*(?P<value>\"[^\"]*\"|[^#\"]*?)\s*#\s*(?P<says>.*)")
_CYCLES: Final = re.compile(r"([\d.]+) cycles?")
_CLOCK: Final = "machine.core.frequency"
_ROUNDED: Final = 0.01
"""By what share a time that was given in cycles may differ from them."""
_NUMBER: Final = re.compile(r"(?P<number>[\d._]+)(?P<unit>.*)")


@dataclass(frozen=True, slots=True)
class Assumed:
    """A number that is assumed: its setting, its value as it is written, the part that says so, and what it says."""

    path: str
    value: str | float
    part: str
    says: str

    def changed(self, share: float) -> str | int | float | None:
        """The number, more by a share of it; None where it is none, or zero. A whole number grows by one at least.

        >>> Assumed("nic.pcie.latency", "250 ns", "", "").changed(0.2), Assumed("a", 7, "", "").changed(0.1)
        ('300 ns', 8)
        """
        if not self.value:
            return None
        if isinstance(self.value, int):
            return max(self.value + 1, round(self.value * (1 + share)))
        if isinstance(self.value, float):
            return self.value * (1 + share)
        found = _NUMBER.fullmatch(self.value)
        if found is None or units.parse(self.value) is None or not float(found["number"].replace("_", "")):
            return None
        return f"{float(found['number'].replace('_', '')) * (1 + share):.6g}{found['unit']}"

    def moved(self, changed: str | float) -> float:
        """By what share `changed` is more.

        >>> Assumed("a", 8, "", "").moved(10), Assumed("b", "250 ns", "", "").moved("375 ns")
        (0.25, 0.5)
        """
        if isinstance(self.value, str):
            before, after = (_NUMBER.fullmatch(str(each)) for each in (self.value, changed))
            return float(after["number"]) / float(before["number"].replace("_", "")) - 1 if before and after else 0.0
        return float(changed) / self.value - 1


@dataclass(frozen=True, slots=True)
class Effect:
    """How much a changed number moves results, as shares; None of all where the machine cannot be with it."""

    assumed: Assumed
    changed: str | float | None
    core_time: float | None = None
    """Time of a core that a packet takes."""
    sojourn: float | None = None
    """The mean."""
    dram: float | None = None
    """Reads and writes of DRAM a packet."""
    carried: float | None = None
    """What is carried."""
    why: str = ""
    """Why there is none."""

    @property
    def size(self) -> float:
        """The largest of what it moves of the core's time, of the sojourn and of what is carried."""
        return max(abs(moved or 0.0) for moved in (self.core_time, self.sojourn, self.carried))


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The effects, the largest first, and by what share each number was changed."""

    share: float
    effects: tuple[Effect, ...]

    def sentence(self) -> str:
        """The answer in a line or two."""
        told = [each for each in self.effects if not each.why]
        if not told:
            return f"{_count(len(self.effects))}."
        apart = math.sqrt(sum((each.core_time or 0.0) ** 2 for each in told))
        parts = []
        for name, of in (
            ("carried", "what is carried"),
            ("core_time", "a core's time a packet"),
            ("sojourn", "the sojourn"),
        ):
            most = max(told, key=lambda each: abs(getattr(each, name) or 0.0))
            if name != "carried" or abs(most.carried or 0.0) >= MATTERS:
                parts.append(f"{of} by at most {_percent(getattr(most, name))} ({most.assumed.path})")
        return (
            f"{_count(len(self.effects))}. {100 * self.share:.3g} % more of one moves {', '.join(parts)}. If all err "
            f"by as much, apart from each other, core time is off by {_percent(apart)}."
        )

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "schema": "wirespeed.sensitivity/1",
            "share": self.share,
            "effects": [
                {
                    "setting": each.assumed.path,
                    "value": each.assumed.value,
                    "changed": each.changed,
                    "core_time": each.core_time,
                    "sojourn": each.sojourn,
                    "dram": each.dram,
                    "carried": each.carried,
                    "part": each.assumed.part,
                    "says": each.assumed.says,
                    "why": each.why or None,
                }
                for each in self.effects
            ],
        }


def _count(numbers: int) -> str:
    what = "setting of this machine is" if numbers == 1 else "settings of this machine are"
    return f"{numbers or 'No'} {what} assumed or fitted"


def _percent(part: float | None) -> str:
    return f"{100 * abs(part or 0.0):.2g} %"


def numbers(resolved: str) -> list[Assumed]:
    """What is assumed of a scenario's machine and holds, by its checked text with all defaults filled in."""
    holds = tomllib.loads(resolved)
    found: dict[str, Assumed] = {}
    for part, text in _texts(holds):
        if any(_is_marked(line) for line in _in_lists(text)):
            said = "stands in a list of stages; function.program.instructions sets all of them"
            found.setdefault(_STAGES, Assumed(_STAGES, "instructions", part, said))
        for path, value, says in _lines(text):
            if not _is_marked(says) or path in _CHOSEN or path in found:
                continue
            if (now := _holding(holds, path, _value(value))) is not None:
                found[path] = Assumed(path, now, part, says)
    if _at(holds, "nic.driver") is None:
        usual = _usual_driver()
        found |= {path: Assumed(path, usual[path], "", _OF_THE_DEFAULT) for path in _DEFAULT_DRIVER if path in usual}
    return list(found.values())


def listed(resolved: str) -> str:
    """What is assumed of a scenario's machine, in a sentence; empty where nothing is."""
    found = [f"{each.path} = {each.value}" for each in numbers(resolved)]
    return f"{_count(len(found))}: {', '.join(found)}." if found else ""


def sensitivity(
    judge: Callable[[Mapping[str, object]], _wirespeed.Scenario],
    share: float = SHARE,
    packets: int = PACKETS,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Sensitivity:
    """How much each assumed number of a scenario matters; `judge` makes it, with settings beside its own.

    Raises InputError for a share that is none, and KeyboardInterrupt where Ctrl-C ended a run.
    """
    if not 0 < share <= 1:
        raise InputError(f"--by {share:g}: above 0 and at most 1, as 0.2 for a fifth more")
    short = {"run.packets": packets, "run.curve": []}
    first = judge(short)
    for name in ("search", "sampling"):
        if tomllib.loads(first.resolved)["run"].get(name):
            raise InputError(f"run.{name}: numbers are compared under one load, each by a whole run; leave it out")
    wanted, varied, effects = [first], [], []
    for each in numbers(first.resolved):
        changed = each.changed(share)
        if changed is None:
            effects.append(Effect(each, None, why="a choice, not a number that can be more by a share"))
            continue
        try:
            wanted.append(judge({**short, each.path: changed}))
        except InputError as error:
            said = str(error).splitlines()[0].removeprefix(f"{each.path} = {changed}: ")
            effects.append(Effect(each, changed, why=f"not changed, {changed} is refused: {said}"))
        else:
            varied.append((each, changed))
    finished = _wirespeed.run(wanted, threads=threads, same_packets=True, progress=progress)
    if any(run.partial for run in finished):
        raise KeyboardInterrupt("stopped while numbers were changed; nothing is told")
    base, *others = (_measures(json.loads(run.summary_json)) for run in finished)
    for (each, changed), other in zip(varied, others, strict=True):
        # A whole number is changed by one at least: its effect is told of the share that was asked for.
        scale = share / each.moved(changed)
        core_time, sojourn, dram, carried = (
            scale * (b / a - 1) if a else None for a, b in zip(base, other, strict=True)
        )
        effects.append(Effect(each, changed, core_time, sojourn, dram, carried))
    return Sensitivity(share, tuple(sorted(effects, key=lambda effect: -effect.size)))


def _measures(summary: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """Time of a core that a packet takes, mean sojourn, reads and writes of DRAM, and what is carried."""
    cores, dram = summary["cores"], summary["dram"]
    busy = sum(core["busy"] for core in cores) * summary["simulated_s"] / sum(core["packets"] for core in cores)
    return busy, summary["sojourn_ns"]["mean"] or 0.0, dram["reads"] + dram["writes"], summary["carried_mpps"]


def _texts(holds: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and texts of the parts that a scenario names, each before those that it stands on: what is nearer holds."""
    shipped = {(kind, name) for kind, name, _ in _wirespeed.presets()}
    for path, kinds in reversed(_PARTS):
        name = _name(holds, path)
        while name is not None:
            kind = next((kind for kind in kinds if (kind, name) in shipped), None)
            text = _wirespeed.preset(kind, name) if kind is not None else _own(name)
            if text is None:
                break
            yield f"{kind} {name}" if kind is not None else name, text
            under = _name(tomllib.loads(text), path)
            name = under if under != name else None


def _own(name: str) -> str | None:
    """The text of a part in a file of one's own; None where it is not there, seen from this folder."""
    try:
        text = Path(name).read_text(encoding="utf-8")
        tomllib.loads(text)
    except (OSError, ValueError):
        return None
    return text


def _in_lists(text: str) -> Iterator[str]:
    """The settings of a file that stand in a list of tables, which have no path."""
    in_list = False
    for line in text.splitlines():
        if line.startswith("["):
            in_list = line.startswith("[[")
        elif in_list and "=" in line:
            yield line


def _name(settings: Mapping[str, Any], path: str) -> str | None:
    """The name of a part, which is a text or the `preset` of a table."""
    named = _at(settings, path)
    named = named.get("preset") if isinstance(named, Mapping) else named
    return named if isinstance(named, str) else None


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Path, value and comment of each setting of a file that has a comment; those in a list of tables have no path."""
    table: str | None = ""
    above = ""
    for line in text.splitlines():
        if line.startswith("["):
            table, above = None if line.startswith("[[") else line.strip("[] ").split("]")[0] + ".", ""
        elif table is not None and (found := _LINE.match(line)):
            above = above if found["says"].strip() == _AS_ABOVE else found["says"]
            yield table + found["key"], found["value"], above


def _value(written: str) -> str | int | float | None:
    """A number, or a text, as TOML has it."""
    try:
        value = tomllib.loads(f"it = {written}")["it"]
    except tomllib.TOMLDecodeError:
        return None
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _is_marked(words: str) -> bool:
    return any(mark in words for mark in MARKS)


def _holding(holds: Mapping[str, Any], path: str, written: str | float | None) -> str | float | None:
    """What holds at a path, if it is what a part has written; cycles are a time there."""
    at = _at(holds, path)
    cycles = _CYCLES.fullmatch(written) if isinstance(written, str) else None
    if cycles is None:
        return written if _same(at, written) else None
    now, clock = (units.parse(each) if isinstance(each, str) else None for each in (at, _at(holds, _CLOCK)))
    if now is None or clock is None or abs(now.value * clock.value / float(cycles[1]) - 1) > _ROUNDED:
        return None
    return str(at)


def _same(one: object, other: object) -> bool:
    """Whether two settings say the same: `"24.75 MiB"` is `"25344 KiB"`."""
    if isinstance(one, str) and isinstance(other, str):
        first, second = units.parse(one), units.parse(other)
        return first == second if first is not None else one == other
    return one == other


def _at(settings: Mapping[str, Any], path: str) -> Any:
    """What stands at a path; None where nothing does."""
    at: Any = settings
    for key in path.split("."):
        at = at.get(key) if isinstance(at, Mapping) else None
    return at


def _usual_driver() -> dict[str, int]:
    """The instructions of the driver that stands where none is named."""
    schema = json.loads(_wirespeed.schema())
    settings = schema["$defs"]["DriverSpec"]["properties"]
    return {path: settings[path.rpartition(".")[2]]["default"] for path in _DEFAULT_DRIVER}
