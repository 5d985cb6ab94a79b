"""Where the numbers behind a run's cycles come from: instructions, cycles of each, and the tables that packets meet.

Instructions times cycles an instruction are most of many results, so they stand beside the picture of cycles with what
they were counted or fitted on. It is read from the scenario and from the comments of its parts; nothing runs here.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from wirespeed import _wirespeed, assumed
from wirespeed import quantities as q
from wirespeed.summary_types import Summary

_PROGRAM: Final = "function.program"
_CPI: Final = "machine.core.cpi"
# Functions of which wirespeed has no code: their instructions are given.
_SET: Final[Mapping[str, str]] = {"work": "as they were set", "trace": "those of the recording"}
_NO_CODE: Final = frozenset({"program", *_SET})
_NO_DRIVER: Final = "no driver is named, so that one like i40e's is assumed"
# Functions that look into something of a size: its name, the setting of a file for it, and where its default stands.
_SIZED: Final[Mapping[str, tuple[str, str, str]]] = {
    "classify": ("rules", "rules", "ClassificationSpec"),
    "inspect": ("strings", "patterns", "InspectionSpec"),
    "firewall": ("rules of the firewall", "rules", "FilterSpec"),
}


@dataclass(frozen=True, slots=True)
class Origins:
    """What is told beside the cycles, and names and sizes of tables; the first is empty where no core worked."""

    work: str = ""
    tables: tuple[tuple[str, str], ...] = ()


def origins(summary: Summary, resolved: str) -> Origins:
    """What a run's summary and its resolved scenario tell of it."""
    holds = tomllib.loads(resolved)
    return Origins(_work(summary, holds, resolved), tuple(_tables(summary, holds)))


def _work(summary: Summary, holds: Mapping[str, Any], resolved: str) -> str:
    cpi = (holds.get("machine") or {}).get("core", {}).get("cpi")
    executed = any(core.get("instructions_per_packet") for core in summary.get("cores") or [])
    if not executed or not q.is_number(cpi):
        return ""
    marked = {each.path: each for each in assumed.numbers(resolved)}
    says = f" is {marked[_CPI].says}" if _CPI in marked else " is as it was set"
    told = f"What instructions take is their number times {cpi} cycles: {_CPI}{says}. "
    return f"{told}{q.capital('; '.join([*_of_functions(holds, marked), _of_driver(holds)]))}."


def _of_functions(holds: Mapping[str, Any], marked: Mapping[str, assumed.Assumed]) -> list[str]:
    """Where instructions of each function come from."""
    kinds = list(dict.fromkeys(_kinds(holds)))
    own = [kind for kind in kinds if kind not in _NO_CODE]
    told = []
    if own:
        it = "it" if len(own) == 1 else "them"
        told.append(f"those of {', '.join(own)} are what wirespeed's own code for {it} executes")
    if "program" in kinds:
        program = (holds.get("function") or {}).get("program") or {}
        name = program.get("preset")
        if not _as_shipped("program", name, ("function", "program"), program):
            told.append("those of the program are as they were set")
        else:
            is_assumed = any(path.startswith(_PROGRAM) for path in marked if path.endswith(("instructions", "stages")))
            told.append(f"those of {name} {'are in part assumed' if is_assumed else 'were counted'}")
    told += [f"those of {kind} are {said}" for kind, said in _SET.items() if kind in kinds]
    if (holds.get("machine") or {}).get("gpu"):
        told.append("what a GPU executes is not among them")
    return told


def _of_driver(holds: Mapping[str, Any]) -> str:
    driver = (holds.get("nic") or {}).get("driver")
    if not driver:
        return _NO_DRIVER
    name = driver.get("preset")
    if not _as_shipped("driver", name, ("nic", "driver"), driver):
        return "those of the driver are as they were set"
    return f"those of the driver {name} are as its preset says"


def _as_shipped(kind: str, name: object, path: tuple[str, str], holds: Mapping[str, Any]) -> bool:
    """Whether a shipped part holds with the instructions that its file has."""
    if not isinstance(name, str) or (kind, name) not in {(each, of) for each, of, _ in _wirespeed.presets()}:
        return False
    table: Any = tomllib.loads(_wirespeed.preset(kind, name))
    for step in path:
        table = table.get(step) or {}
    return _instructions(table).items() <= _instructions(holds).items() and "instructions" not in holds


def _instructions(table: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of instructions in a part, those of its stages by their place."""
    found = {key: value for key, value in table.items() if key.endswith("instructions")}
    for place, stage in enumerate(table.get("stages") or []):
        found |= {f"{place} {key}": value for key, value in _instructions(stage).items()}
    return found


def _kinds(holds: Mapping[str, Any]) -> list[str]:
    """The functions that packets go through."""
    function = holds.get("function") or {}
    chain = function.get("chain") or []
    if function.get("kind") == "chain" and isinstance(chain, list):
        return [each if isinstance(each, str) else str(each.get("kind", "")) for each in chain]
    return [str(function.get("kind", "forward"))]


def _tables(summary: Summary, holds: Mapping[str, Any]) -> list[tuple[str, str]]:
    table, routes = summary.get("table") or {}, summary.get("routes") or {}
    found = []
    if source := table.get("source"):
        families = (("IPv4", routes.get("ipv4")), ("IPv6", routes.get("ipv6")))
        sizes = [f"{q.count(n)} {name}" for name, n in families if n]
        made = str(source).split(",")[0] if table.get("format") == "synthetic" else str(source)
        # Functions without routes have a table of none.
        found += [("routes", f"{', '.join(sizes)} ({made})")] if sizes else []
    definitions = json.loads(_wirespeed.schema())["$defs"]
    for kind in dict.fromkeys(_kinds(holds)):
        if kind not in _SIZED:
            continue
        name, file, of = _SIZED[kind]
        settings = (holds.get("function") or {}).get(kind) or {}
        made = settings.get("made", definitions[of]["properties"]["made"]["default"])
        found.append((name, f"of {settings[file]}" if settings.get(file) else f"{q.count(made)} (made)"))
    return found
