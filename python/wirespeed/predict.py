"""Predictions in closed form beside the simulation, and how far they are from it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.table import Table

from wirespeed import _wirespeed
from wirespeed.errors import InputError

STATED_ERROR: Final = {"carried": 3.2, "sojourn": 4.9, "CPI": 13.0}
"""The largest errors in percent beside simulation, measured on the scenarios that the guide lists ("Predictions")."""

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
    found, *others = (json.loads(answer) for answer in answers)
    found["loads"] = [{"load": load, **other} for load, other in zip(loads, others, strict=True)]
    found["profile_ms"] = (profiled - begun) * 1e3
    found["solve_ms"] = (solved - profiled) * 1e3 / len(answers)
    found["wall_ms"] = (time.perf_counter() - begun) * 1e3
    found["stated_error_pct"] = dict(STATED_ERROR)
    return dict(found)


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


def table(found: dict[str, Any], compared: list[dict[str, Any]] | None = None) -> list[Table]:
    """The prediction for people, and beside the simulation where there was one."""
    shown = Table(title="Prediction", show_header=False)
    shown.add_column("what")
    shown.add_column("value", justify="right")

    def number(name: str, unit: str) -> str:
        value = found[name]
        return f"none ({found['bound']} full)" if value is None else f"{value:,.3f} {unit}".rstrip()

    for name, label, unit in (
        ("offered_mpps", "offered", "Mpps"),
        ("carried_mpps", "carried", "Mpps"),
        ("rejected_mpps", "rejected by the function", "Mpps"),
        ("capacity_mpps", "capacity", "Mpps"),
        ("utilisation", "utilisation of a core", ""),
        ("busiest_core_share", "share of the busiest core", ""),
        ("service_ns", "service of a packet", "ns"),
        ("waiting_ns", "waiting", "ns"),
        ("sojourn_ns", "sojourn", "ns"),
        ("instructions", "instructions a packet", ""),
        ("cpi_inf", "CPI without misses", ""),
        ("fcp", "finite cache penalty", ""),
        ("cpi", "CPI", ""),
        ("mr1", "mr1, L1 misses an instruction", ""),
        ("mr2", "mr2, L2 misses an instruction", ""),
        ("mr_llc", "LLC misses an instruction", ""),
        ("dram_utilisation", "utilisation of DRAM", ""),
        ("profile_ms", "reading and profiling took", "ms"),
        ("solve_ms", "closed forms took", "ms"),
    ):
        shown.add_row(label, number(name, unit))
    shown.add_row("bound by", str(found["bound"]))
    for words in found["left_out"]:
        shown.add_row("left out", words)
    out = [shown]
    if found["loads"]:
        out.append(_loads(found["loads"]))
    if compared is not None:
        beside = Table(title="Beside the simulation")
        for name in ("what", "predicted", "simulated", "error"):
            beside.add_column(name, justify="left" if name == "what" else "right")
        for row in compared:
            cells = ["-" if row[k] is None else f"{row[k]:,.3f}" for k in ("predicted", "simulated")]
            error = "-" if row["error_pct"] is None else f"{row['error_pct']:+.1f} %"
            beside.add_row(row["what"], *cells, error)
        out.append(beside)
    return out


def _loads(answers: list[dict[str, Any]]) -> Table:
    """Answers under several loads, one a line."""
    shown = Table(title="Under other loads")
    for name in ("load", "Mpps", "utilisation", "waiting, ns", "sojourn, ns", "bound by"):
        shown.add_column(name, justify="left" if name == "bound by" else "right", no_wrap=True)
    for answer in answers:
        times = ("none" if answer[k] is None else f"{answer[k]:,.1f}" for k in ("waiting_ns", "sojourn_ns"))
        shown.add_row(
            f"{answer['load']:g}",
            f"{answer['carried_mpps']:,.3f}",
            f"{answer['utilisation']:.3f}",
            *times,
            answer["bound"],
        )
    return shown
