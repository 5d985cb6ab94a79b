"""What sampling of sets costs in accuracy and gains in speed: a run beside one that follows all sets."""

from __future__ import annotations

from typing import Any, Final

from rich.table import Table

from wirespeed import quantities as q
from wirespeed.result import Result
from wirespeed.summary import Summary

SETTING: Final = "machine.sampling"
DEFAULT: Final = 8

# What is compared, and where it stands in the summary. Half-widths of these are of chance, which is the same in both
# runs: they say nothing of what sampling adds.
_MEASURED: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("carried_mpps", ("carried_mpps",)),
    ("loss", ("loss",)),
    ("sojourn_ns.mean", ("sojourn_ns", "mean")),
    ("sojourn_ns.p99", ("sojourn_ns", "p99")),
    ("dram.bandwidth_gb_per_s", ("dram", "bandwidth_gb_per_s")),
)
_RATES: Final = ("L1d", "L2", "LLC", "DDIO", "DMA read")


def _value(summary: Summary, *path: str) -> float | None:
    found: Any = summary
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if q.is_number(found) else None


def _miss_rate(summary: Summary, level: str) -> float | None:
    for each in summary.get("levels") or ():
        rate = each.get("hit_rate")
        if each.get("name") == level and q.is_number(rate):
            return 1.0 - rate
    return None


def _stated(summary: Summary, level: str) -> float | None:
    sampling = summary.get("sampling") or {}
    for each in sampling.get("levels") or ():
        if each.get("name") == level:
            return each.get("levels_half_width")
    return None


def errors(sampled: Result, exact: Result) -> dict[str, Any]:
    """A sampled run beside one of the same packets that follows all sets.

    `rows` have `what`, `sampled`, `all`, the `difference` and, for miss rates in absolute terms, the half-width that
    the sampled run `stated`. Of throughputs and times it states none: their half-widths are of chance, which is the
    same in both, so their difference is what sampling adds.
    """
    ours, theirs = sampled.summary, exact.summary
    rows = [_row(what, _value(ours, *path), _value(theirs, *path), None) for what, path in _MEASURED]
    rows += [
        _row(f"{level} misses", _miss_rate(ours, level), _miss_rate(theirs, level), _stated(ours, level))
        for level in _RATES
    ]
    speeds = [_value(summary, "packets_per_wall_s") for summary in (ours, theirs)]
    one_in = (ours.get("sampling") or {}).get("one_in", 1)
    return {"one_in": one_in, "rows": rows, "packets_per_wall_s": {"sampled": speeds[0], "all": speeds[1]}}


def _row(what: str, ours: float | None, theirs: float | None, stated: float | None) -> dict[str, Any]:
    known = ours is not None and theirs is not None
    return {
        "what": what,
        "sampled": ours,
        "all": theirs,
        "difference": ours - theirs if known and ours is not None and theirs is not None else None,
        "stated": stated,
    }


def table(found: dict[str, Any]) -> Table:
    """The comparison for people."""
    shown = Table(title=f"One set in {found['one_in']} beside all sets, on the same packets")
    for column in ("", "sampled", "all", "difference", "stated ±"):
        shown.add_column(column, justify="right" if column else "left")

    def cell(value: float | None, is_rate: bool, sign: str = "") -> str:
        if value is None:
            return "-"
        return f"{100 * value:{sign}.2f} %" if is_rate else f"{value:{sign},.3f}"

    for row in found["rows"]:
        is_rate = row["what"] == "loss" or row["what"].endswith("misses")
        difference = cell(row["difference"], is_rate, "+")
        if not is_rate and row["difference"] is not None and row["all"]:
            difference = f"{100 * row['difference'] / row['all']:+.2f} %"
        shown.add_row(
            row["what"],
            cell(row["sampled"], is_rate),
            cell(row["all"], is_rate),
            difference,
            cell(row["stated"], is_rate),
        )
    speeds = found["packets_per_wall_s"]
    if all(q.is_number(speed) for speed in speeds.values()):
        gain = speeds["sampled"] / speeds["all"]
        shown.add_row(
            "packets/s simulated", q.short_count(speeds["sampled"]), q.short_count(speeds["all"]), f"x {gain:.2f}", ""
        )
    return shown
