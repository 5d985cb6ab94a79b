"""What a machine that is overloaded would carry at lower loads: a load curve for a run that has none.

A run that loses packets says what gets through at one load. Its report draws more: nearly up to what got through, and
on to what was offered. All points go on from one machine that is as warm as the run's was (`run.curve`): of a colder
one they would be another machine's. They are for the eye: of few packets each, and no part of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from wirespeed import quantities as q
from wirespeed.summary import status
from wirespeed.summary_types import CurvePoint, Summary

PACKETS: Final = 50_000
"""Of each point, at most as many as the run had."""
# Shares of what got through, and of what was offered beyond that. At all of it rings would fill too slowly to show.
_UP_TO: Final = (0.25, 0.5, 0.75, 0.9, 0.95)
_BEYOND: Final = (1 / 3, 2 / 3)
# Of the run that only warms the machine for the points.
_LEAST: Final = 1000


def loads(summary: Summary) -> list[float]:
    """Loads that are worth a point, as shares of line rate; none without loss, or with a curve or search."""
    load, loss = summary.get("load"), summary.get("loss")
    if status(summary) != "loses" or summary.get("curve") or summary.get("search") or summary.get("partial"):
        return []
    if not (q.is_number(load) and q.is_number(loss)) or not 0 < loss < 1 or load <= 0:
        return []
    top = min(load, 1.0)
    through = top * (1 - loss)
    found = [through * share for share in _UP_TO] + [through + (top - through) * share for share in _BEYOND]
    return [float(f"{each:.4g}") for each in found]


def settings(summary: Summary, shares: Sequence[float]) -> list[str]:
    """What runs the scenario of a summary at these loads; whatever it was set to, these come last and hold."""
    packets = max(min(PACKETS, int(summary.get("packets") or PACKETS)), _LEAST)
    curve = ", ".join(map(repr, shares))
    found = [f"run.curve=[{curve}]", f"run.curve_packets={packets}", f"run.packets={_LEAST}"]
    # Left alone, so short a run would be warmed up by as few packets.
    warmup = summary.get("warmup_packets")
    return [*found, f"run.warmup={warmup}"] if warmup else found


def joined(summary: Summary, points: Sequence[CurvePoint]) -> Summary:
    """The summary with these points and its own as its curve: for a page, and not for what is kept."""
    sojourn: Any = summary.get("sojourn_ns") or {}
    names = ("load", "offered_mpps", "carried_mpps", "loss", "lost", "packets", "warmup_packets")
    own: dict[str, Any] = {name: summary.get(name) for name in names}
    own |= {"p50_ns": sojourn.get("p50"), "p99_ns": sojourn.get("p99")}
    return cast(Summary, {**summary, "curve": [*points, cast(CurvePoint, own)]})
