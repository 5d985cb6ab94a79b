"""What a paper claims, what was measured, and what the two come to."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from wirespeed import quantities as q
from wirespeed.errors import InputError

Value: TypeAlias = float | str | bool | None

COLUMNS: Final = ("id", "claim", "where", "paper", "unit", "tolerance_pct", "kind")


class Kind(StrEnum):
    """How far the model knew the answer, and whether the row is evidence at all."""

    predicted = "predicted"
    """The model was fixed before who built it knew the number."""
    seen = "seen"
    """Nothing was fitted on it, but who built the model knew it, or knew what a model of it comes to."""
    calibrated = "calibrated"
    """A parameter was fitted on this number."""
    in_sample = "in-sample"
    """The reading of the text was chosen on this number."""
    dependent = "dependent"
    """It says what other rows say already."""
    arithmetic = "arithmetic"
    """It follows from the paper's own numbers, without a model."""
    identity = "identity"
    """It holds by construction of the program."""

    @property
    def is_counted(self) -> bool:
        """Whether a row of this kind says anything about the model; the others are listed and never counted."""
        return self in (Kind.predicted, Kind.seen)


class Status(StrEnum):
    """What a claim came to."""

    reproduced = "reproduced"
    partly = "partly"
    not_reproduced = "not"
    listed = "listed"
    """Not judged: its kind is no evidence."""


COUNTED: Final = (Status.reproduced, Status.partly, Status.not_reproduced)
NEAR: Final = 2.0
"""How many times larger or smaller than the paper's a number may be and still be `partly`."""


@dataclass(frozen=True, slots=True)
class Part:
    """A direction or an order, by how much it holds here.

    `margin` is above 0 where the direction is the paper's, in whatever unit; `half_width` is that of its 95 %
    confidence interval, 0 for what is computed without chance. Where the paper prints the size of the effect,
    `factor` is ours over the paper's. `noise_counts_for_it` marks claims of "no worse": the loose rule lets those
    hold within the noise.

    >>> Part(0.3, 0.1).holds, Part(0.05, 0.1).holds, Part(0.3, 0.1, factor=16.0).holds
    (True, False, False)
    """

    margin: float
    half_width: float = 0.0
    factor: float | None = None
    noise_counts_for_it: bool = False

    @property
    def holds(self) -> bool:
        """Whether the margin exceeds its half-width, and the size, where there is one, is within a factor of two."""
        return self.margin > self.half_width and (self.factor is None or is_near(self.factor))

    @property
    def is_undecided(self) -> bool:
        """Whether the noise is larger than the margin."""
        return abs(self.margin) <= self.half_width

    @property
    def holds_loosely(self) -> bool:
        """Whether the mean alone has the direction."""
        return self.margin > 0 or (self.noise_counts_for_it and self.margin >= -self.half_width)


Parts: TypeAlias = Part | Mapping[str, Part]


def fact(held: bool) -> Part:
    """A part that has no size: it is so or it is not."""
    return Part(1.0 if held else -1.0)


def is_near(factor: float) -> bool:
    """Whether ours over the paper's is at most a factor of two, both ways.

    >>> is_near(2.0), is_near(0.5), is_near(2.1), is_near(-1.0)
    (True, True, False, False)
    """
    return 1 / NEAR <= factor <= NEAR


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
    `holds` says by how much the direction or order holds: one part, or several by name; of a number, by how much it is
    on the right side (of 0 for a change, of the case it is compared with for others). `note` says in a sentence what
    the status does not.
    """

    ours: Value = None
    half_width: float | None = None
    holds: Parts | None = None
    note: str = ""

    @property
    def parts(self) -> Mapping[str, Part]:
        """All parts by name; a single one has none."""
        if self.holds is None:
            return {}
        return {"": self.holds} if isinstance(self.holds, Part) else self.holds

    @property
    def held(self) -> tuple[int, int]:
        """How many parts hold, and how many there are."""
        return sum(part.holds for part in self.parts.values()), len(self.parts)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that was judged.

    >>> row = Expected("w", "latency", "fig. 1", 333.0, "ns", 5.0, Kind.seen)
    >>> Claim(row, Measured(340.0)).status.value, Claim(row, Measured(400.0, holds=Part(1.0))).status.value
    ('reproduced', 'partly')
    >>> Claim(row, Measured(700.0, holds=Part(1.0))).status.value
    'not'
    """

    expected: Expected
    measured: Measured
    reading: str = ""

    @property
    def ours(self) -> Value:
        """The number, or of a trend how far it holds, in words."""
        if self.measured.ours is not None:
            return self.measured.ours
        held, parts = self.measured.held
        if not parts:
            return None
        if held == parts:
            return "holds"
        return "does not hold" if held == 0 else f"holds in {held} of {parts}"

    @property
    def deviation_pct(self) -> float | None:
        """(ours - paper) / |paper| in percent; None for trends, and where the paper has zero and ours is not."""
        paper, ours = self.expected.paper, self.measured.ours
        if isinstance(paper, str) or not q.is_number(ours):
            return None
        if paper == 0:
            return 0.0 if ours == 0 else None
        return (ours - paper) / abs(paper) * 100

    @property
    def status(self) -> Status:
        """Computed, never written: `listed` where the kind is no evidence, else as `judged` has it."""
        return self.judged if self.expected.kind.is_counted else Status.listed

    @property
    def judged(self) -> Status:
        """What it would come to if it were counted.

        A number within its tolerance is `reproduced`, if its half-width is below the tolerance, too; one outside is
        `partly` on the right side and within a factor of two. A trend is `reproduced` where all parts hold, `partly`
        where most do.
        """
        held, parts = self.measured.held
        deviation = self.deviation_pct
        if isinstance(self.expected.paper, str):
            if parts and held == parts:
                return Status.reproduced
            return Status.partly if held * 2 > parts else Status.not_reproduced
        if deviation is not None and self._is_within(deviation) and self._is_known():
            return Status.reproduced
        near = deviation is not None and is_near(_factor(deviation, self.expected.paper))
        return Status.partly if near and parts and held == parts else Status.not_reproduced

    @property
    def loosely(self) -> Status:
        """What a rule would say that counts every row, asks the mean alone, and calls the right side `partly`."""
        parts = [part.holds_loosely for part in self.measured.parts.values()]
        is_number = not isinstance(self.expected.paper, str)
        if is_number and self.deviation_pct is not None and self._is_within(self.deviation_pct):
            return Status.reproduced
        if parts and all(parts):
            return Status.partly if is_number else Status.reproduced
        return Status.partly if not is_number and sum(parts) * 2 > len(parts) else Status.not_reproduced

    def _is_within(self, deviation_pct: float) -> bool:
        tolerance = self.expected.tolerance_pct
        return tolerance is not None and abs(deviation_pct) <= tolerance

    def _is_known(self) -> bool:
        """Whether the half-width is below the tolerance: else being within is chance."""
        paper, half_width, tolerance = self.expected.paper, self.measured.half_width, self.expected.tolerance_pct
        if half_width is None or isinstance(paper, str) or tolerance is None or paper == 0:
            return True
        return half_width == 0 or half_width / abs(paper) * 100 < tolerance

    @property
    def note(self) -> str:
        """The note of the measurement, and which parts of a trend do not hold, and why."""
        fails = {name: part for name, part in self.measured.parts.items() if name and not part.holds}
        words = []
        for why, names in (
            ("not for", [name for name, part in fails.items() if not part.is_undecided]),
            ("within the noise for", [name for name, part in fails.items() if part.is_undecided]),
        ):
            shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            words += [f"{why} {shown}"] if names else []
        alone = self.measured.parts.get("")
        if isinstance(self.expected.paper, str) and alone is not None and alone.is_undecided:
            words.append("the difference is within the noise")
        if self._is_by_chance():
            words.append("within the tolerance, but the half-width is not")
        return "; ".join(w for w in (*words, self.measured.note) if w)

    def _is_by_chance(self) -> bool:
        return self.deviation_pct is not None and self._is_within(self.deviation_pct) and not self._is_known()

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


def _factor(deviation_pct: float, paper: float) -> float:
    """Ours over the paper's, of the deviation from it."""
    return 1 + deviation_pct / 100 * (1 if paper > 0 else -1)


_LISTED: Final = {
    "fitted": (Kind.calibrated, Kind.in_sample),
    "dependent on others": (Kind.dependent,),
    "arithmetic on the paper's numbers": (Kind.arithmetic,),
    "true by construction": (Kind.identity,),
}


def tally(claims: Sequence[Claim]) -> str:
    """How many of the counted claims are reproduced; the listed ones are named apart.

    >>> row = Expected("w", "latency", "fig. 1", 333.0, "ns", 5.0, Kind.seen)
    >>> fitted = Expected("v", "rate", "fig. 1", 1.0, "Gbps", 5.0, Kind.calibrated)
    >>> tally([Claim(row, Measured(340.0)), Claim(fitted, Measured(1.0))])
    '1 of 1 counted claims reproduced, 0 partly, 0 not; 1 row listed, not counted: 1 fitted'
    """
    found = Counter(claim.status for claim in claims)
    counted = sum(found[status] for status in COUNTED)
    words = (
        f"{found[Status.reproduced]} of {counted} counted claims reproduced, {found[Status.partly]} partly, "
        f"{found[Status.not_reproduced]} not"
    )
    listed = {
        name: n for name, kinds in _LISTED.items() if (n := sum(claim.expected.kind in kinds for claim in claims))
    }
    if not listed:
        return words
    rows = f"{(n := sum(listed.values()))} row{'s' if n > 1 else ''} listed, not counted"
    return f"{words}; {rows}: " + ", ".join(f"{n} {name}" for name, n in listed.items())


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
