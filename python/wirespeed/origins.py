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

_CPI: Final = "machine.core.cpi"
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
    driver, program = (summary.get("machine") or {}).get("driver"), _program(holds)
    if program:
        is_assumed = any(path.startswith("function.program") for path in marked)
        told += f"Those of {program} {'are in part assumed' if is_assumed else 'were counted'}; "
    else:
        told += f"Those of {_functions(holds)} are what wirespeed's own code for it executes; "
    return f"{told}{f'those of the driver {driver} are as its preset says' if driver else _NO_DRIVER}."


def _program(holds: Mapping[str, Any]) -> str:
    program = (holds.get("function") or {}).get("program")
    named = program.get("preset") if isinstance(program, Mapping) else program
    return named if isinstance(named, str) else ("the program" if program else "")


def _kinds(holds: Mapping[str, Any]) -> list[str]:
    """The functions that packets go through."""
    function = holds.get("function") or {}
    chain = function.get("chain") or []
    if function.get("kind") == "chain" and isinstance(chain, list):
        return [each if isinstance(each, str) else str(each.get("kind", "")) for each in chain]
    return [str(function.get("kind", "forward"))]


def _functions(holds: Mapping[str, Any]) -> str:
    return ", ".join(_kinds(holds))


def _tables(summary: Summary, holds: Mapping[str, Any]) -> list[tuple[str, str]]:
    table, routes = summary.get("table") or {}, summary.get("routes") or {}
    found = []
    if source := table.get("source"):
        families = (("IPv4", routes.get("ipv4")), ("IPv6", routes.get("ipv6")))
        sizes = [f"{q.count(n)} {name}" for name, n in families if n]
        made = str(source).split(",")[0] if table.get("format") == "synthetic" else str(source)
        found.append(("routes", f"{', '.join(sizes) or 'none'} ({made})"))
    definitions = json.loads(_wirespeed.schema())["$defs"]
    for kind in dict.fromkeys(_kinds(holds)):
        if kind not in _SIZED:
            continue
        name, file, of = _SIZED[kind]
        settings = (holds.get("function") or {}).get(kind) or {}
        made = settings.get("made", definitions[of]["properties"]["made"]["default"])
        found.append((name, f"of {settings[file]}" if settings.get(file) else f"{q.count(made)} (made)"))
    return found
