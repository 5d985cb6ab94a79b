"""A sizing as a table: a row a machine that was tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wirespeed.tables import Column, Rows, Table

_SAYS: Final[Mapping[str, Column]] = {
    "outcome": "string",
    "cause": "string",
    "why": "string",
    "packets": "int64",
    "offered_mpps": "double",
    "carried_mpps": "double",
    "carried_half_width": "double",
    "loss": "double",
    "loss_upper_95": "double",
    "p99_ns": "double",
    "p99_low": "double",
    "p99_high": "double",
    "headroom": "double",
}


def tried(document: Mapping[str, Any]) -> Table:
    """A row a machine, in the order in which they were tried: its dimensions, whether it meets the target, its rates.

    Rates are in Mpps, times in nanoseconds, losses are shares; a row of a machine that did not start has no packets.
    """
    dimensions = list(document["dimensions"])
    columns: dict[str, Column] = dict.fromkeys(dimensions, "int64")
    columns |= {"changed": "string", **_SAYS}
    rows = [
        {
            **{name: each["machine"].get(name) for name in dimensions},
            "changed": " ".join(each["changed"]),
            **{name: each.get(name) for name in _SAYS},
        }
        for each in document["tried"]
    ]
    return Table("tried", Rows(columns, rows))
