"""What a paper claims, what was measured, and what the two come to."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from wirespeed import quantities as q
from wirespeed.errors import InputError

Value: TypeAlias = float | str | bool | None

COLUMNS: Final = ("id", "claim", "where", "paper", "unit", "tolerance_pct", "kind")


class Kind(StrEnum):
    """How far the model knew the answer."""

    calibrated = "calibrated"
    """A parameter was fitted on this number."""
    in_sample = "in-sample"
    """The reading of the text was chosen on this number."""
    predicted = "predicted"
    """Nothing was chosen on it."""


class Status(StrEnum):
    """What a claim came to."""

    reproduced = "reproduced"
    partly = "partly"
    not_reproduced = "not"


@dataclass(frozen=True, slots=True)
class Expected:
    """A row of `expected.csv`: what the paper says, and how near is near enough."""

    id: str
    claim: str
    where: str
    paper: float | str
    unit: str
    tolerance_pct: float | None
    kind: Kind


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out here.

    `ours` is a number in the claim's unit (None for a trend), `half_width` that of its 95 % confidence interval.
    `holds` says whether the direction or order holds: for a trend a bool, or one for each of its parts by name; for a
    number, whether it is at least on the right side. `note` says in a sentence what the status does not.
    """

    ours: Value = None
    half_width: float | None = None
    holds: bool | Mapping[str, bool] | None = None
    note: str = ""

    @property
    def parts(self) -> tuple[int, int] | None:
        """How many parts hold, and how many there are."""
        if self.holds is None:
            return None
        parts = self.holds.values() if isinstance(self.holds, Mapping) else (self.holds,)
        return sum(map(bool, parts)), len(parts)

    @property
    def fails(self) -> list[str]:
        """The names of parts that do not hold."""
        return [name for name, held in self.holds.items() if not held] if isinstance(self.holds, Mapping) else []


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that was judged.

    >>> row = Expected("w", "latency", "fig. 1", 333.0, "ns", 5.0, Kind.predicted)
    >>> Claim(row, Measured(340.0)).status.value, Claim(row, Measured(400.0, holds=True)).status.value
    ('reproduced', 'partly')
    """

    expected: Expected
    measured: Measured
    reading: str = ""

    @property
    def ours(self) -> Value:
        """The number, or of a trend how far it holds, in words."""
        if self.measured.ours is not None:
            return self.measured.ours
        if self.measured.parts is None:
            return None
        held, parts = self.measured.parts
        if held == parts:
            return "holds"
        return "does not hold" if held == 0 else f"holds in {held} of {parts}"

    @property
    def deviation_pct(self) -> float | None:
        """(ours - paper) / |paper| in percent; None for trends, and where the paper's number is zero."""
        paper, ours = self.expected.paper, self.measured.ours
        if isinstance(paper, str) or not q.is_number(ours) or paper == 0:
            return None
        return (ours - paper) / abs(paper) * 100

    @property
    def status(self) -> Status:
        """Computed from deviation and tolerance; of a trend from how many of its parts hold."""
        deviation, tolerance = self.deviation_pct, self.expected.tolerance_pct
        is_number = not isinstance(self.expected.paper, str)
        if is_number and deviation is not None and tolerance is not None and abs(deviation) <= tolerance:
            return Status.reproduced
        held, parts = self.measured.parts or (0, 1)
        if held == parts:
            return Status.partly if is_number else Status.reproduced
        return Status.partly if not is_number and held * 2 > parts else Status.not_reproduced

    @property
    def note(self) -> str:
        """The note of the measurement, and which parts of a trend do not hold."""
        fails = self.measured.fails
        shown = ", ".join(fails[:6]) + (f" and {len(fails) - 6} more" if len(fails) > 6 else "")
        return "; ".join(words for words in (f"not for {shown}" if fails else "", self.measured.note) if words)

    def document(self) -> dict[str, Any]:
        """The claim as a JSON object. Numbers that are not finite become null."""
        row = self.expected

        def finite(value: Value) -> Value:
            return None if isinstance(value, float) and not math.isfinite(value) else value

        return {
            "id": row.id,
            "claim": row.claim,
            "where": row.where,
            "paper": row.paper,
            "ours": finite(self.ours),
            "half_width": finite(self.measured.half_width),
            "deviation_pct": finite(self.deviation_pct),
            "tolerance_pct": row.tolerance_pct,
            "kind": row.kind.value,
            "status": self.status.value,
            "unit": row.unit,
            "reading": self.reading,
            "note": self.note,
        }


def parse_expected(text: str, origin: str) -> list[Expected]:
    """Reads `expected.csv`. Raises InputError with file and line for what cannot be used."""
    reader = csv.DictReader(io.StringIO(text))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise InputError(f"{origin}: the first line must be {','.join(COLUMNS)}")
    rows: list[Expected] = []
    for row in reader:
        at = f"{origin}:{reader.line_num}"
        if None in row or None in row.values():
            raise InputError(f"{at}: {len(COLUMNS)} fields are wanted ({', '.join(COLUMNS)}); quote what holds commas")
        paper = number(row["paper"])
        tolerance = number(row["tolerance_pct"])
        if any(row["id"] == other.id for other in rows):
            raise InputError(f"{at}: id {row['id']!r} stands twice")
        if (paper is None) != (tolerance is None) or (tolerance or 0) < 0:
            raise InputError(f"{at}: a number has a tolerance_pct of 0 or more, a trend has none")
        if row["kind"] not in {kind.value for kind in Kind}:
            raise InputError(f"{at}: kind {row['kind']!r}: allowed are {', '.join(kind.value for kind in Kind)}")
        rows.append(
            Expected(
                id=row["id"],
                claim=row["claim"],
                where=row["where"],
                paper=row["paper"] if paper is None else paper,
                unit=row["unit"],
                tolerance_pct=tolerance,
                kind=Kind(row["kind"]),
            )
        )
    return rows


def number(text: str) -> float | None:
    """The number that a cell holds, or None.

    >>> number("12.5"), number("holds"), number("")
    (12.5, None, None)
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
