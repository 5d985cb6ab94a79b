"""How far predictions are from measurements: the error of each row, and medians over rows, sources and kinds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Final

from wirespeed.accuracy import metrics, settings
from wirespeed.accuracy.documents import NEAR, Accuracy, Group, Judged, OfKind, Spread
from wirespeed.accuracy.rows import COLUMNS, Row
from wirespeed.accuracy.running import PARTS, Answer
from wirespeed.sweep import work

SCHEMA: Final = "wirespeed.accuracy/1"
_BY_PARTS: Final = ("source", "core", "nic", "driver", "kind", "limit", "error")


def document(rows: Sequence[Row], answers: Sequence[Answer]) -> Accuracy:
    """All that is printed, of rows and what came of them."""
    judged = [row_of(row, answer) for row, answer in zip(rows, answers, strict=True)]
    groups = _groups(judged)
    return {
        "schema": SCHEMA,
        "version": work.build(),
        "rows": judged,
        "sources": groups,
        "kinds": [_of_kind(kind, groups, judged) for kind in metrics.KINDS if any(g["kind"] == kind for g in groups)],
        "overall": _overall(judged, groups),
    }


def row_of(row: Row, answer: Answer) -> Judged:
    """A row as it was given, `predicted` in its unit, its error, and why there is none."""
    judged: Judged = {name: row[name] for name in COLUMNS} | dict(row.fields)
    target, own = answer.target, answer.predicted
    predicted = error = None
    if target is not None:
        judged["measured"] = target.measured
        if own is not None:
            predicted, error = target.predicted(own), target.error(own)
    return judged | {
        "place": row.place,
        "predicted": predicted,
        "error": error,
        "error_unit": metrics.KINDS.get(row["kind"]),
        "error_text": answer.error,
        **{name: answer.parts.get(name) for name in PARTS},
        "scenario": None if answer.asked is None else answer.asked.scenario,
        "settings": None if answer.asked is None else list(answer.asked.settings),
        "wall_s": answer.wall_s,
    }


def is_counted(row: Judged) -> bool:
    """Whether a row counts: it was answered, and nothing was fitted on it."""
    return row["error"] is not None and not row["fitted"]


def errors_by_parts(document: Accuracy) -> str:
    """The rows that count, as runs read them for the model's error, in JSON.

    A rate in relation to another is no rate, and says nothing of one.
    """
    kept = [row for row in document["rows"] if is_counted(row) and " relative to " not in row["metric"]]
    rows = [{name: row[name] for name in _BY_PARTS[:-1]} | {"error": round(row["error"], 1)} for row in kept]
    return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]\n"


def are_errors(text: str) -> bool:
    """Whether a file holds errors by parts, or nothing of them yet."""
    try:
        rows = json.loads(text)
    except ValueError:
        return False
    return isinstance(rows, list) and all(isinstance(row, dict) and tuple(row) == _BY_PARTS for row in rows)


def above(document: Accuracy, percent: float) -> list[Group]:
    """The groups whose median error is above so many percent, or points."""
    return [each for each in document["sources"] if (each["errors"]["median_abs"] or 0.0) > percent]


def spread(rows: Iterable[Judged]) -> Spread:
    """Medians of the rows that count, the shares that are near, and the worst."""
    counted = [row for row in rows if is_counted(row)]
    if not counted:
        return dict.fromkeys(Spread.__annotations__) | {"n": 0}  # type: ignore[return-value]
    errors = [row["error"] for row in counted]
    sizes = [abs(each) for each in errors]
    worst = max(counted, key=lambda row: abs(row["error"]))
    near = [sum(size <= limit for size in sizes) / len(sizes) for limit in NEAR]
    return {
        "n": len(counted),
        "median_abs": statistics.median(sizes),
        "median": statistics.median(errors),
        "within_10": near[0],
        "within_20": near[1],
        "worst": worst["error"],
        "worst_case": worst["case"],
    }


def _groups(judged: Sequence[Judged]) -> list[Group]:
    names = dict.fromkeys((row["source"], row["kind"]) for row in judged)
    found: list[Group] = []
    for source, kind in names:
        rows = [row for row in judged if (row["source"], row["kind"]) == (source, kind)]
        found.append(
            {
                "source": source,
                "kind": kind,
                "error_unit": metrics.KINDS.get(kind, ""),
                "fitted": sum(bool(row["fitted"]) for row in rows),
                "not_asked": sum(row["error"] is None for row in rows),
                "errors": spread(rows),
            }
        )
    return found


def _of_kind(kind: str, groups: Sequence[Group], judged: Sequence[Judged]) -> OfKind:
    medians = _medians(group for group in groups if group["kind"] == kind)
    return {
        "kind": kind,
        "error_unit": metrics.KINDS[kind],
        "sources": len(medians),
        "median_of_medians": statistics.median(medians) if medians else None,
        "errors": spread(row for row in judged if row["kind"] == kind),
    }


def _overall(judged: Sequence[Judged], groups: Sequence[Group]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "packets": settings.PACKETS,
        "rows": len(judged),
        "counted": sum(map(is_counted, judged)),
        "fitted": sum(bool(row["fitted"]) and row["error"] is not None for row in judged),
        "not_asked": sum(row["error"] is None for row in judged),
    }
    for unit, name in (("%", "percent"), ("points", "points")):
        medians = _medians(group for group in groups if group["error_unit"] == unit)
        found[f"median_of_medians_{name}"] = statistics.median(medians) if medians else None
    return found


def _medians(groups: Iterable[Group]) -> list[float]:
    found = (group["errors"]["median_abs"] for group in groups)
    return [median for median in found if median is not None]
