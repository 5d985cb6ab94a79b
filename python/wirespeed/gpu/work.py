"""What a GPU does to packets: a function, a chain or a scenario's, with its tables and traffic."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wirespeed import misspelt, scenarios
from wirespeed.errors import InputError, nearest

APPLICATIONS: Final[Mapping[str, str]] = {
    "forward": "forward",
    "check": "check_header",
    "lookup": "lookup",
    "ttl": "dec_ttl",
    "classify": "classify_tuple_space",
    "classify_linear": "classify",
    "inspect": "inspect_aho_corasick",
    "inspect_bloom": "inspect",
    "fragment": "fragment",
}
"""Functions by a scenario's word, with the simulator's."""
_NO_GPU: Final = ("upf", "nat", "firewall", "work", "trace", "program")
"""Kinds of a scenario that have no form for the lanes of a warp."""
_CHANGE: Final = frozenset({"forward", "ttl", "fragment"})
# Registers of a lane as ptxas (CUDA 13.0, sm_90) reports them of the router's shipped kernels: those for one function
# of headers, and those for any function and any chain (`Program::is_any`).
_REGISTERS: Final[Mapping[str, tuple[int, int]]] = {"hermes": (40, 80), "batch": (28, 80)}
_ANY: Final = frozenset({"inspect", "inspect_bloom", "fragment", "classify"})
_TRAFFIC: Final = ("profile", "capture", "sizes", "mix", "flows", "rounds", "payload")
# Packets whose lanes are recorded, which runs take in turn: few where a lane is long.
_RECORDED: Final = 16_384
_RECORDED_LONG: Final = 1024


@dataclass(frozen=True, slots=True)
class Work:
    """Functions in their order, and the rest of a workload of the simulator."""

    functions: tuple[str, ...]
    workload: Mapping[str, Any]
    load: Mapping[str, Any] | None = None
    """How much a scenario offers; None where nobody says."""
    notes: tuple[str, ...] = ()

    @property
    def is_long(self) -> bool:
        """Whether a lane takes so many instructions that fewer of them are simulated."""
        return is_long(self.functions)

    @property
    def results(self) -> str:
        """What of a packet goes back over the link: its frame where it was changed, else a verdict."""
        return "frames" if any(name in _CHANGE for name in self.functions) else "verdicts"

    def kernel(self, system: str, registers: int | None, shared: int) -> dict[str, int]:
        """What a lane and a warp hold."""
        usual = _REGISTERS[system][len(self.functions) > 1 or self.functions[0] in _ANY]
        return {"registers": registers or usual, "shared": shared}


def is_long(functions: Iterable[str]) -> bool:
    """Whether a function goes through payloads, or through rules one by one."""
    return any(name.startswith(("inspect", "classify_linear")) for name in functions)


def find(what: str | os.PathLike[str], capture: str | None, table: str | None, profile: str | None) -> Work:
    """A function, functions in a row (`check,lookup,ttl`), or a scenario by name or file. Raises InputError."""
    spelled = os.fspath(what)
    names = [name.strip() for name in spelled.split(",")]
    # `NAME,path=value` is a scenario with overrides.
    is_scenario = spelled in scenarios.scenario_names() or spelled.endswith(".toml") or "=" in spelled
    if is_scenario:
        return _of_scenario(spelled, capture, table, profile)
    judged(names)
    traffic = {"profile": profile or "isp"} if capture is None else {"capture": os.fspath(Path(capture).resolve())}
    routes = {} if table is None else {"file": os.fspath(Path(table).resolve())}
    return Work(tuple(names), _workload(tuple(names), traffic, routes))


def judged(names: list[str]) -> None:
    """Raises InputError for functions that are unknown, or that no GPU runs; all at once."""
    words = [*APPLICATIONS, *(name for name in scenarios.scenario_names() if name not in _NO_GPU)]
    faults = []
    for name in names:
        if name in _NO_GPU:
            faults.append(
                f"{name}: has no form for the lanes of a warp; a GPU runs {', '.join(APPLICATIONS)} "
                "(`wirespeed run` has it on a CPU)"
            )
        elif name not in APPLICATIONS:
            faults.append(
                f"{name}: no such function{nearest(name, words)}; a GPU runs {', '.join(APPLICATIONS)}, chains of them "
                "(check,lookup,ttl), and scenarios of these"
            )
    if len(names) > 1 and "fragment" in names[:-1]:
        faults.append("fragment: is the last of a chain, since what follows would see the first fragment alone")
    if len(names) > 6:
        faults.append(f"{len(names)} functions: up to 6 are a chain")
    if faults:
        raise InputError("\n".join(faults))


def _workload(functions: tuple[str, ...], traffic: Mapping[str, Any], routes: Mapping[str, Any]) -> dict[str, Any]:
    first, *then = (APPLICATIONS[name] for name in functions)
    return {
        "application": first,
        "then": then,
        "traffic": dict(traffic),
        "packets": _RECORDED_LONG if is_long(functions) else _RECORDED,
        "routes": dict(routes),
        "rules": {"count": 1000},
        # As a scenario's: 2,000 made strings, whole payloads.
        "strings": {"count": 2000, "depth": 0},
        "fragment": {},
    }


def _of_scenario(name: str, capture: str | None, table: str | None, profile: str | None) -> Work:
    found = scenarios.find(name)
    overrides = [*found.overrides, *([f'traffic.profile="{profile}"'] if profile else [])]
    resolved = tomllib.loads(
        misspelt.scenario(found.text, found.origin, overrides, capture=capture, table=table).resolved
    )
    function, traffic = resolved.get("function", {}), resolved.get("traffic", {})
    kind = function.get("kind", "forward")
    names = [_of_kind(each, function) for each in (function["chain"] if kind == "chain" else [kind])]
    judged(names)
    forward, rules, strings = (function.get(section, {}) for section in ("forward", "classify", "inspect"))
    routes = {key: forward[key] for key in ("prefixes", "next_hops") if key in forward}
    if "table" in forward:
        routes = {"file": forward["table"]}
    workload = _workload(tuple(names), {key: traffic[key] for key in _TRAFFIC if key in traffic}, routes)
    workload["rules"] = {"count": rules.get("made", 1000)} | _rules(rules.get("rules"))
    workload["strings"] = {"count": strings.get("made", 2000), "depth": strings.get("depth", 0)}
    if "patterns" in strings:
        raise InputError(
            f"function.inspect.patterns = {strings['patterns']}: a GPU is given made strings; leave it out"
        )
    workload["fragment"] = {key: function.get("fragment", {})[key] for key in ("mtu",) if "fragment" in function}
    notes = ["the GPU looks routes up by DIR-24-8"] if "lookup" in function else []
    return Work(tuple(names), workload, _load(resolved), tuple(notes))


def _of_kind(kind: str, function: Mapping[str, Any]) -> str:
    """A kind with how it is done."""
    if kind == "classify" and function.get("classify", {}).get("search") == "linear":
        return "classify_linear"
    if kind == "inspect" and function.get("inspect", {}).get("method") == "bloom":
        return "inspect_bloom"
    return kind


def _rules(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"function.classify.rules = {path}: cannot be read as rules, a line each: {e}") from None
    return {"text": text, "count": max(1, sum(1 for line in text.splitlines() if line.strip()))}


def _load(resolved: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a scenario offers, as the simulator's load of a whole GPU."""
    traffic = resolved.get("traffic", {})
    if "packet_rate" in traffic:
        return {"packets": traffic["packet_rate"]}
    if "rate" in traffic:
        return {"l1": traffic["rate"]}
    if "load" in traffic:
        return {"line_share": {"share": traffic["load"], "line": resolved["nic"]["rate"]}}
    return None
