"""Predictions in closed form beside the simulation, and how far they are from it."""

from __future__ import annotations

import json
import math
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from wirespeed import _wirespeed, ceilings, printed
from wirespeed import quantities as q
from wirespeed.errors import InputError
from wirespeed.summary import FEW_REJECTED

STATED_ERROR: Final = {"carried": 1.5, "sojourn": 6.4, "CPI": 16.3}
"""The largest errors in percent beside simulation, measured on the scenarios that the guide lists ("Predictions")."""

LONG_QUEUES: Final = 0.9
"""A core that is busy more of the time has queues that closed forms know by their mean burst only: a sojourn is about
right there, and is told so. `forwarding-one-core`, 93 to 100 % busy: 11 to 47 % too long."""

COMPARED: Final = (
    ("carried_mpps", "carried, Mpps"),
    ("sojourn_ns", "mean sojourn, ns"),
    ("cpi", "CPI"),
)


def predict(scenario: _wirespeed.Scenario, loads: Sequence[float] = ()) -> dict[str, Any]:
    """Predicts a scenario that was judged, and under `loads`, shares of the line rate; their answers are in `loads`.

    `profile_ms` is what reading the input took, and measuring what packets take on the machine; `solve_ms` what the
    closed forms took then, once for each load; `wall_ms` is all of it. Raises InputError.
    """
    for load in loads:
        if not 0 < load <= 1:
            raise InputError(f"--load {load:g}: must be a share of the port's line rate, above 0 up to 1")
    begun = time.perf_counter()
    profile = _wirespeed.Profile(scenario)
    profiled = time.perf_counter()
    answers = [profile.predict(load) for load in (None, *loads)]
    solved = time.perf_counter()
    ceiling = nic_ceiling(tomllib.loads(scenario.resolved))
    found, *others = (within(json.loads(answer), ceiling) for answer in answers)
    found["loads"] = [{"load": load, **other} for load, other in zip(loads, others, strict=True)]
    found["profile_ms"] = (profiled - begun) * 1e3
    found["solve_ms"] = (solved - profiled) * 1e3 / len(answers)
    found["wall_ms"] = (time.perf_counter() - begun) * 1e3
    found["stated_error_pct"] = dict(STATED_ERROR)
    return dict(found)


def nic_ceiling(settings: Mapping[str, Any]) -> float:
    """What the NIC of a resolved scenario takes at most, in Mpps."""
    cores = (settings.get("pipeline") or {}).get("rx_cores", settings["machine"]["cores"])
    return ceilings.nic_mpps(settings, cores)


def has_long_queues(found: Mapping[str, Any]) -> bool:
    """Whether a sojourn by closed forms is no more than about right: a core is busy nearly all of the time."""
    busy = found.get("utilisation")
    return found.get("sojourn_ns") is not None and q.is_number(busy) and busy > LONG_QUEUES


def stays(found: Mapping[str, Any]) -> str:
    """How long a packet stays, by closed forms, and whether that is only about right."""
    told = q.duration(found["sojourn_ns"])
    return f"about {told}, queues are long here" if has_long_queues(found) else told


def within(found: dict[str, Any], ceiling: float) -> dict[str, Any]:
    """An answer of closed forms, which leave out how fast the NIC takes packets, within that."""
    found["nic_mpps"] = None if ceiling == math.inf else ceiling
    if found["capacity_mpps"] is not None and found["capacity_mpps"] > ceiling:
        found["capacity_mpps"] = ceiling
    if found["offered_mpps"] > ceiling:
        found |= {"carried_mpps": ceiling, "sojourn_ns": None, "waiting_ns": None, "bound": _NIC}
    found["long_queues"] = has_long_queues(found)
    return found


def errors(found: dict[str, Any], summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The prediction beside a simulation's summary: name, predicted, simulated, and the error in percent."""
    sojourn = summary.get("sojourn_ns") or {}
    cores = [core for core in summary.get("cores") or () if core.get("instructions_per_packet")]
    cycles = sum(core["cycles_per_packet"] for core in cores)
    simulated = {
        "carried_mpps": summary.get("carried_mpps"),
        "sojourn_ns": sojourn.get("mean"),
        "cpi": cycles / sum(core["instructions_per_packet"] for core in cores) if cores else None,
    }
    rows = []
    for name, label in COMPARED:
        ours, theirs = found.get(name), simulated.get(name)
        if theirs is None:
            continue
        error = 100 * (ours - theirs) / theirs if ours is not None and theirs else None
        rows.append({"what": label, "predicted": ours, "simulated": theirs, "error_pct": error})
    return rows


def stated(found: dict[str, Any]) -> str:
    """How far off such a prediction may be."""
    parts = ", ".join(f"{what} {percent:g} %" for what, percent in found["stated_error_pct"].items())
    return f"Errors beside simulation, at most, on the scenarios of the guide: {parts}. For this one: --check."


def sentence(found: Mapping[str, Any]) -> str:
    """The answer: what is carried, of what could be, and how long a packet stays."""
    offered, capacity = found["offered_mpps"], found["capacity_mpps"]
    part = "all" if carries_all(found) else q.mpps(found["carried_mpps"])
    if part == "all" and (rejected := found["rejected_mpps"] or 0.0) > FEW_REJECTED * offered:
        part = f"all but the {q.mpps(rejected)} that the function rejects"
    queued = "queues grow without end" if found["sojourn_ns"] is None else f"a packet stays {stays(found)}"
    return f"Carries {part} of {q.mpps(offered)} offered and could carry {q.mpps(capacity)}; {queued}."


def carries_all(found: Mapping[str, Any]) -> bool:
    """Whether all is carried that the function does not reject."""
    return bool(found["carried_mpps"] >= _ALL * (found["offered_mpps"] - (found["rejected_mpps"] or 0.0)))


def table(found: dict[str, Any], compared: list[dict[str, Any]] | None = None) -> list[RenderableType]:
    """The prediction for people, and beside the simulation where there was one."""
    shown = printed.table("", ">")
    for name, label, text in _ROWS:
        if name == "nic_mpps" and found[name] is None:
            continue
        about = name in _OF_QUEUES and found.get("long_queues")
        known = None if found[name] is None else f"{'about ' if about else ''}{text(found[name])}"
        shown.add_row(label, f"none ({found['bound']} full)" if known is None else known)
    shown.add_row("bound by", str(found["bound"]))
    out: list[RenderableType] = [shown]
    if any(each.get("long_queues") for each in (found, *found["loads"])):
        busy = q.share(LONG_QUEUES, 0)
        out.append(Text(f" about: a core is busy more than {busy} of the time, queues are long there", "dim"))
    if found["left_out"]:
        out.append(Text("\n".join(f" left out: {words}" for words in found["left_out"]), "dim"))
    if found["loads"]:
        out.append(_loads(found["loads"]))
    if compared is not None:
        beside = printed.table("", ">predicted", ">simulated", ">error", title="Beside the simulation")
        for row in compared:
            cells = [q.digits(row[k], 4) for k in ("predicted", "simulated")]
            error = q.MISSING if row["error_pct"] is None else f"{row['error_pct']:+.1f} %"
            beside.add_row(row["what"], *cells, error)
        out.append(beside)
    return out


def _loads(answers: list[dict[str, Any]]) -> Table:
    """Answers under several loads, one a line."""
    shown = printed.table(
        ">load", ">carried", ">utilisation", ">waiting", ">sojourn", "bound by", title="Under other loads"
    )
    for answer in answers:
        about = "about " if answer.get("long_queues") else ""
        times = ("none" if answer[k] is None else f"{about}{q.duration(answer[k])}" for k in _OF_QUEUES)
        utilisation = q.share(answer["utilisation"])
        shown.add_row(f"{answer['load']:g}", q.mpps(answer["carried_mpps"]), utilisation, *times, answer["bound"])
    return shown


_ALL: Final = 0.999
_NIC: Final = "NIC"
_OF_QUEUES: Final = ("waiting_ns", "sojourn_ns")
_ROWS: Final[tuple[tuple[str, str, Callable[[float], str]], ...]] = (
    ("offered_mpps", "offered", q.mpps),
    ("carried_mpps", "carried", q.mpps),
    ("rejected_mpps", "rejected by the function", q.mpps),
    ("capacity_mpps", "capacity", q.mpps),
    ("nic_mpps", "the NIC takes at most", q.mpps),
    ("utilisation", "utilisation of a core", q.share),
    ("busiest_core_share", "share of the busiest core", q.share),
    ("service_ns", "service of a packet", q.duration),
    ("waiting_ns", "waiting", q.duration),
    ("sojourn_ns", "sojourn", q.duration),
    ("instructions", "instructions a packet", q.digits),
    ("cpi_inf", "CPI without misses", q.digits),
    ("fcp", "finite cache penalty", q.digits),
    ("cpi", "CPI", q.digits),
    ("mr1", "mr1, L1 misses an instruction", q.digits),
    ("mr2", "mr2, L2 misses an instruction", q.digits),
    ("mr_llc", "LLC misses an instruction", q.digits),
    ("dram_utilisation", "utilisation of DRAM", q.share),
    ("profile_ms", "reading and profiling took", lambda ms: q.duration(ms * 1e6)),
    ("solve_ms", "closed forms took", lambda ms: q.duration(ms * 1e6)),
)
