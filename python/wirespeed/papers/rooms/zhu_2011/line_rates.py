"""Hermes at line rates of routers, with what the NIC takes of memory: factors by rate, batch and application.

The paper names 40 Gbps as the least that core routers are asked for; that rate is judged. Where the factors meet the
paper's is interpolated between rates, linear in the rate's logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

from wirespeed import quantities as q
from wirespeed.papers import Measured, Part, spread
from wirespeed.papers.rooms.zhu_2011.study import PANELS, Panels, Seeds, at

# What the paper reports, and whether the largest or the mean of four applications is compared with it.
_FACTORS: Final = {
    "throughput": ("throughput_gbps", "router-gain", " x"),
    "mean delay": ("delay_ns", "router-delay", " %"),
    "interquartile range": ("delay_iqr_ns", "router-variance", " %"),
}
_ENTRIES: Final = {"FIFO": "most_posted", "DCQ": "most_uncommitted"}


def factor(panels: Panels, gbps: float, name: str, size: int, measure: str) -> float:
    """Throughput of the best Hermes over batches of `size`; of a delay, by how many percent it is lower."""
    base = panels.lines.batches[gbps, name, size]
    ratios = [panels.ratio(setting, base, measure) for setting in panels.lines.hermes[gbps, name]]
    return max(ratios) if measure == "throughput_gbps" else 100 * (1 - min(ratios))


def overall(panels: Panels, gbps: float, size: int, measure: str) -> float:
    """As the abstract has it: the best application's throughput; of a delay the mean of four."""
    each = [factor(panels, gbps, name, size, measure) for name in PANELS]
    return max(each) if measure == "throughput_gbps" else sum(each) / len(each)


def measured(seeds: Seeds) -> dict[str, Measured]:
    """The rows at the rate that is judged, and what the paper says of waits and entries."""
    lines, size = seeds.first.lines, seeds.first.study.parameters["runs"]["batch"]
    out = {}
    for measure, id, unit in _FACTORS.values():
        value, wide = seeds.mean(partial(overall, gbps=lines.judged, size=size, measure=measure))
        least = 1.0 if measure == "throughput_gbps" else 0.0
        words = seeds.words(_factor_of(lines.judged, size, measure), unit)
        out[id] = Measured(value, wide, holds=Part(value - least, wide), note=f"batches of {size}: {words}")
    return out | _by_mcw(seeds) | _entries(seeds) | _first_wait(seeds)


def _by_mcw(seeds: Seeds) -> dict[str, Measured]:
    """Whether the fewest concurrent warps have the longest delay at that rate, too."""

    def worst(panels: Panels, name: str) -> float:
        settings = panels.lines.hermes[panels.lines.judged, name]
        first, *others = (panels.study.of(setting, "delay_ns") for setting in settings)
        return 100 * (first / max(others) - 1)

    return {"router-mcw": Measured(holds=seeds.parts(worst), note=f"above the next: {seeds.words(worst, ' %')}")}


def _entries(seeds: Seeds) -> dict[str, Measured]:
    """Entries of task FIFO and DCQ in use at most, at line rates up to the one that is judged."""
    lines, preset = seeds.first.lines, seeds.first.study.preset["hermes"]
    have = {"FIFO": preset["fifo"], "DCQ": preset["dcq"]["entries"]}

    def most(panels: Panels, what: str, low: float, high: float) -> float:
        rates = [gbps for gbps in lines.gbps if low <= gbps <= high]
        settings = [setting for gbps in rates for name in PANELS for setting in panels.lines.hermes[gbps, name]]
        return max(panels.study.of(setting, _ENTRIES[what]) for setting in settings)

    def parts(low: float, high: float) -> dict[str, float]:
        return {what: max(most(panels, what, low, high) for panels in seeds.panels) for what in have}

    within = parts(0.0, lines.judged)
    at_all = parts(0.0, math.inf)
    words = ", ".join(f"{what} {within[what]:,.0f}, at all rates {at_all[what]:,.0f}" for what in have)
    holds = {what: Part(have[what] - within[what]) for what in have}
    return {"entries-suffice": Measured(holds=holds, note=f"at most in use up to {lines.judged:g} Gbps: {words}")}


def _first_wait(seeds: Seeds) -> dict[str, Measured]:
    """What the first packet of a batch waits until it is full, over the batch's bits at the line rate."""
    lines, size = seeds.first.lines, seeds.first.study.parameters["runs"]["batch"]

    def of_batch(panels: Panels, name: str) -> float:
        setting = panels.lines.batches[lines.judged, name, size]
        return float(panels.study.of(setting, "first_wait_ns") * (setting.load or 0.0) / 1e3 / size)

    def of_warp(panels: Panels, name: str) -> float:
        return panels.study.of(panels.lines.hermes[lines.judged, name][-1], "first_wait_ns")

    value, wide = seeds.mean(lambda p: sum(of_batch(p, name) for name in PANELS) / len(PANELS))
    note = f"of Hermes, until a warp is full: {seeds.words(of_warp, ' ns')}"
    return {"first-wait": Measured(value, wide, note=note)}


def tables(seeds: Seeds) -> dict[str, list[dict[str, Any]]]:
    """Factors by line rate and batch, by application too, and where they meet the paper's; none of a single rate."""
    if len(seeds.first.lines.gbps) == 1:
        return {}
    out: dict[str, list[dict[str, Any]]] = {"line-rates": _all(seeds), "line-rates-meet": _meet(seeds)}
    for words, (measure, _, unit) in _FACTORS.items():
        out[f"line-rates-{words.replace(' ', '-')}"] = [
            {"line rate, Gbps": f"{gbps:,g}", "application": PANELS[name]}
            | {
                f"batches of {size}": seeds.told(at(_factor_at(gbps, size, measure), name)) + unit
                for size in seeds.first.batches
            }
            for gbps in seeds.first.lines.gbps
            for name in PANELS
        ]
    return out


def _factor_of(gbps: float, size: int, measure: str) -> Callable[[Panels, str], float]:
    return lambda panels, name: factor(panels, gbps, name, size, measure)


def _factor_at(gbps: float, size: int, measure: str) -> Callable[[Panels, str], float]:
    if measure == "throughput_gbps":
        return _factor_of(gbps, size, measure)
    return lambda panels, name: -factor(panels, gbps, name, size, measure)


def _overall_at(gbps: float, size: int, measure: str) -> Callable[[Panels], float]:
    sign = 1 if measure == "throughput_gbps" else -1
    return lambda panels: sign * overall(panels, gbps, size, measure)


def _all(seeds: Seeds) -> list[dict[str, Any]]:
    rows = []
    for gbps in seeds.first.lines.gbps:
        for size in seeds.first.batches:
            row: dict[str, Any] = {"line rate, Gbps": f"{gbps:,g}", "batch": size}
            for words, (measure, _, unit) in _FACTORS.items():
                told = seeds.told(_overall_at(gbps, size, measure))
                row["throughput up to" if measure == "throughput_gbps" else words] = told + unit
            rows.append(row)
    return rows


def _meet(seeds: Seeds) -> list[dict[str, Any]]:
    """The least line rate at which a factor is the paper's."""
    printed = seeds.first.study.printed
    rows = []
    for size in seeds.first.batches:
        row: dict[str, Any] = {"batch": size}
        for words, (measure, id, unit) in _FACTORS.items():
            sign = "" if measure == "throughput_gbps" else "-"
            head = f"{words} of {sign}{printed[id]:g}{unit} at, Gbps"
            row[head] = _crossing(seeds, partial(overall, size=size, measure=measure), printed[id])
        rows.append(row)
    return rows


def _crossing(seeds: Seeds, of: Callable[[Panels, float], float], wanted: float) -> str:
    gbps = seeds.first.lines.gbps
    found = [crossing(gbps, [of(panels, rate) for rate in gbps], wanted) for panels in seeds.panels]
    known = [rate for rate in found if rate is not None]
    if len(known) < len(found):
        values = [sum(of(panels, rate) for panels in seeds.panels) / len(seeds.panels) for rate in gbps]
        return f"none in {len(found) - len(known)} of {len(found)} seeds ({min(values):.3g} to {max(values):.3g})"
    value, wide = spread.mean(known)
    if 2 * wide > value:
        # Between rates that are decades apart the least change of a factor moves where it is met.
        low, high = max(r for r in gbps if r <= min(known)), min(r for r in gbps if r >= max(known))
        return f"between {low:,g} and {high:,g}"
    return f"{q.digits(value)} ± {q.digits(wide, 2)}"


def crossing(rates: Sequence[float], values: Sequence[float], wanted: float) -> float | None:
    """The least rate at which values that are linear in the rate's logarithm are `wanted`; None where they never are.

    >>> round(crossing([10, 100], [1.0, 3.0], 2.0), 6), crossing([10, 100], [1.0, 3.0], 4.0)
    (31.622777, None)
    """
    for (low, high), (a, b) in zip(pairwise(rates), pairwise(values), strict=True):
        if a != b and min(a, b) <= wanted <= max(a, b):
            return math.exp(math.log(low) + math.log(high / low) * (wanted - a) / (b - a))
    return None
