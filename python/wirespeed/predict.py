"""Predictions in closed form beside the simulation, and how far they are from it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final

from rich.table import Table

from wirespeed import _wirespeed

STATED_ERROR: Final = {"carried": 3.2, "sojourn": 4.9, "CPI": 13.0}
"""The largest errors in percent beside simulation, measured on the scenarios that the guide lists ("Predictions")."""

COMPARED: Final = (
    ("carried_mpps", "carried, Mpps"),
    ("sojourn_ns", "mean sojourn, ns"),
    ("cpi", "CPI"),
)


def predict(scenario: _wirespeed.Scenario) -> dict[str, Any]:
    """Predicts a scenario that was judged; with `wall_ms`, what it took after and with reading of the input."""
    begun = time.perf_counter()
    found: dict[str, Any] = json.loads(_wirespeed.predict(scenario))
    found["wall_ms"] = (time.perf_counter() - begun) * 1e3
    found["stated_error_pct"] = dict(STATED_ERROR)
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


def table(found: dict[str, Any], compared: list[dict[str, Any]] | None = None) -> list[Table]:
    """The prediction for people, and beside the simulation where there was one."""
    shown = Table(title="Prediction", show_header=False)
    shown.add_column("what")
    shown.add_column("value", justify="right")

    def number(name: str, unit: str) -> str:
        value = found[name]
        return "none (saturated)" if value is None else f"{value:,.3f} {unit}".rstrip()

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
        ("wall_ms", "took", "ms"),
    ):
        shown.add_row(label, number(name, unit))
    shown.add_row("bound by", str(found["bound"]))
    for words in found["left_out"]:
        shown.add_row("left out", words)
    out = [shown]
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
