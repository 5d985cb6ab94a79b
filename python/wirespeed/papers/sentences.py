"""What a paper says with a number, and which row judges it: `sentences.csv` of a room."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from wirespeed.errors import InputError
from wirespeed.papers.claim import Status

SENTENCES: Final = "sentences.csv"
COLUMNS: Final = ("where", "says", "rows", "why_not")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence in other words. It has rows that judge it, or a reason why none does."""

    where: str
    says: str
    rows: tuple[str, ...]
    """Ids of `expected.csv`, in its order."""
    why_not: str

    def judged(self, statuses: Mapping[str, str]) -> str:
        """By what, and what that came to; `statuses` are those of a run, by id.

        >>> Sentence("fig. 1", "A is faster", ("a", "b"), "").judged({"a": "not", "b": "not"})
        '`a`, `b`: 2 not'
        >>> Sentence("fig. 1", "A has 8 cores", (), "a parameter").judged({})
        'not judged: a parameter'
        """
        if not self.rows:
            return f"not judged: {self.why_not}"
        named = ", ".join(f"`{id}`" for id in self.rows[:_NAMED])
        more = f" and {len(self.rows) - _NAMED} more" if len(self.rows) > _NAMED else ""
        if len(self.rows) == 1:
            return f"{named}: {statuses[self.rows[0]]}"
        found = Counter(statuses[id] for id in self.rows)
        return f"{named}{more}: " + ", ".join(f"{found[status]} {status}" for status in Status if found[status])


_NAMED: Final = 4


def parse(text: str, origin: str, ids: Sequence[str]) -> list[Sentence]:
    """Reads `sentences.csv`, whose `rows` are ids or patterns of ids (`gain-*`).

    Raises InputError with file and line for all that cannot be used.
    """
    reader = csv.DictReader(io.StringIO(text))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise InputError(f"{origin}: the first line must be {','.join(COLUMNS)}")
    found, faults = [], []
    for row in reader:
        at = f"{origin}:{reader.line_num}"
        if None in row or None in row.values():
            faults.append(f"{at}: {len(COLUMNS)} fields are wanted ({', '.join(COLUMNS)}); quote what holds commas")
            continue
        patterns = row["rows"].split()
        faults += [f"{at}: no row is called `{each}`" for each in patterns if not _matching(ids, [each])]
        if bool(patterns) == bool(row["why_not"]):
            faults.append(f"{at}: rows that judge it are wanted, or a reason why none does, and not both")
        found.append(Sentence(row["where"], row["says"], tuple(_matching(ids, patterns)), row["why_not"]))
    if faults:
        raise InputError("\n".join(faults))
    return found


def _matching(ids: Iterable[str], patterns: Sequence[str]) -> list[str]:
    return [id for id in ids if any(fnmatchcase(id, pattern) for pattern in patterns)]
