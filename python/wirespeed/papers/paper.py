"""A paper, what it is asked for, and what it answers."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from wirespeed import _wirespeed, files, sealed
from wirespeed.papers import takes
from wirespeed.papers.claim import Claim, Expected, Measured, parse_expected
from wirespeed.papers.figures import Figure

EXPECTED: Final = "expected.csv"
EXPECTED_AT_REAL_SIZE: Final = "expected-real-size.csv"
CLAIMS_FILE: Final = "claims.json"
KEPT_FILE: Final = "kept.jsonl"

Point = Mapping[str, Any]


class Progress(Protocol):
    """What is told of a run: the phase, how much of how much is done, and a note."""

    def __call__(self, phase: str, done: int, total: int, note: str, /) -> None:
        """May raise KeyboardInterrupt."""


def no_progress(_phase: str, _done: int, _total: int, _note: str, /) -> None:
    """Tells nobody."""


class Kept:
    """Finished points by what they are points of; in a file of JSON lines if one is given, else for this run only.

    A point whose line was cut off by a crash, or does not fit its checksum, is computed again.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = folder / KEPT_FILE if folder is not None else None
        self._points: dict[str, Any] = {}
        self._is_cut_off = False
        if self._path is not None and self._path.exists():
            text = self._path.read_text(encoding="utf-8", errors="replace")
            self._is_cut_off = bool(text) and not text.endswith("\n")
            for line in text.splitlines():
                try:
                    kept = sealed.parse(line)
                    if sealed.is_whole(kept):
                        self._points[kept["key"]] = kept["point"]
                except (ValueError, TypeError, AttributeError, KeyError):
                    continue

    @staticmethod
    def key(of: Any) -> str:
        """The name of a point: a hash of everything that it depends on, with the version of wirespeed."""
        text = json.dumps([_wirespeed.version(), of], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def get(self, key: str) -> Any | None:
        """The point of that name, or None."""
        return self._points.get(key)

    def add(self, key: str, point: Any) -> None:
        """Remembers a point, at once."""
        self._points[key] = point
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            files.refuse_link(self._path)
            with self._path.open("a", encoding="utf-8") as file:
                if self._is_cut_off:
                    # What comes next begins a line of its own.
                    file.write("\n")
                    self._is_cut_off = False
                file.write(json.dumps(sealed.seal({"key": key, "point": point})) + "\n")


@dataclass(frozen=True, slots=True)
class Request:
    """What a paper is asked for."""

    paper: Paper
    reading: str
    claims: frozenset[str]
    real_size: bool
    seed: int
    threads: int | None
    kept: Kept
    progress: Progress

    def wants(self, *ids: str) -> bool:
        """Whether one of these claims is asked for."""
        return any(id in self.claims for id in ids)

    def parameters(self, name: str) -> dict[str, Any]:
        """A TOML file of the paper's room."""
        return tomllib.loads(self.paper.file(name))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out: a measurement for each claim asked for, by id; the points behind them; figures; notes in words.

    `tables` are what the room's README shows beside the claims, by name: rows of cells that are ready to be read.
    """

    measured: Mapping[str, Measured]
    points: Sequence[Point] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    tables: Mapping[str, Sequence[Point]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper: where it appeared, the ways it can be read, and how its claims are measured."""

    id: str
    title: str
    authors: str
    venue: str
    year: int
    doi: str
    """Empty where it has none."""
    readings: Mapping[str, str]
    """Name, and in a sentence what is assumed where the text is open."""
    measure: Callable[[Request], Outcome] = field(repr=False)
    entry: Literal["article", "inproceedings", "misc"] = "misc"
    """What BibTeX calls it."""
    volume: str = ""
    default_readings: tuple[str, ...] = ()
    """Those that are run if none is named; all of them if empty."""
    real_size: bool = False
    """Whether it has a mode with the sizes of real machines, with claims of its own (`expected-real-size.csv`)."""
    real_size_readings: tuple[str, ...] = ()
    """Those that are run at real size if none is named; `default_readings` if empty."""

    def file(self, name: str) -> str:
        """The text of a file of `papers/<id>/`. Raises FileNotFoundError with what there is."""
        text = _wirespeed.paper_file(self.id, name)
        if text is None:
            there = [file for room, file in _wirespeed.paper_files() if room == self.id]
            raise FileNotFoundError(f"papers/{self.id}/{name} is not carried; there are {', '.join(there) or 'none'}")
        return text

    def printed(self) -> dict[str, float]:
        """The numbers that the paper prints, by claim."""
        return {row.id: row.paper for row in self.expected() if not isinstance(row.paper, str)}

    @property
    def takes(self) -> takes.Takes | None:
        """How long the default readings took when that was measured last; None where it was not."""
        text = _wirespeed.paper_file(self.id, takes.TAKES)
        return None if text is None else takes.parse(text, f"papers/{self.id}/{takes.TAKES}")

    def expected(self, real_size: bool = False) -> list[Expected]:
        """The claims, in the order of the file."""
        name = EXPECTED_AT_REAL_SIZE if real_size else EXPECTED
        return parse_expected(self.file(name), f"papers/{self.id}/{name}")


@dataclass(frozen=True, slots=True)
class Report:
    """A paper under one reading: claims judged, points and figures."""

    paper: Paper
    reading: str
    claims: list[Claim]
    points: list[Point]
    figures: list[Figure]
    notes: Sequence[str] = ()
    tables: Mapping[str, Sequence[Point]] = field(default_factory=dict)
