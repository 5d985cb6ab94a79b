"""The document of `wirespeed accuracy`: what is judged, printed and drawn."""

from __future__ import annotations

from typing import Any, Final, TypedDict

NEAR: Final = (10.0, 20.0)
"""Within how many percent, or points, an error is counted as near."""

Judged = dict[str, Any]
"""A row of the document: the columns as given, and what came of them."""


class Spread(TypedDict):
    """Errors of several rows, in percent or points: none of them is counted where `n` is 0."""

    n: int
    median_abs: float | None
    median: float | None
    within_10: float | None
    within_20: float | None
    worst: float | None
    worst_case: str | None


class Group(TypedDict):
    """The rows of a source that are of a kind."""

    source: str
    kind: str
    error_unit: str
    fitted: int
    not_asked: int
    errors: Spread


class OfKind(TypedDict):
    """All rows of a kind: over its sources the median of their medians, and the errors of all rows."""

    kind: str
    error_unit: str
    sources: int
    median_of_medians: float | None
    errors: Spread


class Accuracy(TypedDict):
    """The document of `wirespeed accuracy`; fields are described in the reference, "Results"."""

    schema: str
    version: str
    rows: list[Judged]
    sources: list[Group]
    kinds: list[OfKind]
    overall: dict[str, Any]
