"""Advice as tables: a row a technique, and a row a combination of the best few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wirespeed.tables import Column, Rows, Table

_CHANGES: Final = ("rate", "ndr", "p99", "energy")
_COSTS: Final = ("sram_bits", "cores", "ways", "shader_cores")


def techniques(document: Mapping[str, Any]) -> Table:
    """A row a technique, the best first: what it takes, what to set, and what it changes, in percent with half-widths.

    `rate_pct` and the like are of the technique alone; `with_others_pct` is the rate's, averaged over all others;
    `loss_change` is a difference of shares.
    """
    columns: dict[str, Column] = {"name": "string", "title": "string", "kind": "string", "set": "string"}
    columns |= dict.fromkeys(_COSTS, "int64")
    columns |= {f"{of}_{part}": "double" for of in (*_CHANGES, "with_others") for part in ("pct", "half_width_pct")}
    columns |= {"loss_change": "double", "loss_half_width": "double"}
    rows = [
        {
            **{name: each[name] for name in ("name", "title", "kind")},
            "set": " ".join(each["set"]),
            **{name: each["cost"][name] for name in _COSTS},
            **_changes(each["alone"]),
            **_change("with_others", each["rate"]),
            "loss_change": each["loss"]["change"],
            "loss_half_width": each["loss"]["half_width"],
        }
        for each in document["techniques"]
    ]
    return Table("techniques", Rows(columns, rows))


def combinations(document: Mapping[str, Any]) -> Table:
    """A row a combination of the best few: its techniques, and what it changes, in percent with half-widths."""
    columns: dict[str, Column] = {"techniques": "string"}
    columns |= {f"{of}_{part}": "double" for of in _CHANGES for part in ("pct", "half_width_pct")}
    columns |= {"loss": "double"}
    rows = [
        {"techniques": " + ".join(each["techniques"]), **_changes(each), "loss": each["loss"]}
        for each in document["combinations"] or []
    ]
    return Table("combinations", Rows(columns, rows))


def _changes(found: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: value for of in _CHANGES for name, value in _change(of, found[of]).items()}


def _change(of: str, change: Mapping[str, float] | None) -> dict[str, float | None]:
    return {f"{of}_{part}": None if change is None else change[part] for part in ("pct", "half_width_pct")}
