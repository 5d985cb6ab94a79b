"""What a run of a paper leaves in a folder."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wirespeed import files
from wirespeed import quantities as q
from wirespeed.papers import latex
from wirespeed.papers.claim import Claim, tally
from wirespeed.papers.figures import page
from wirespeed.papers.paper import CLAIMS_FILE, Point, Report

PARQUET_FILE: Final = "claims.parquet"
LATEX_FILE: Final = "claims.tex"
POINTS_FILE: Final = "points.csv"
FIGURES_FILE: Final = "figures.html"


def write(reports: Sequence[Report], folder: Path, force: bool = False) -> list[Path]:
    """Writes the claims as JSON, Parquet and LaTeX, points.csv, figures.html and an SVG a figure; returns the files.

    Raises InputError where links, or without `force` files that wirespeed did not write, are in the way.
    """
    texts = _texts(reports)

    def make(into: Path) -> list[str]:
        from pyarrow import parquet

        for name, text in texts.items():
            (into / name).write_bytes(text.encode())
        parquet.write_table(arrow([claim for report in reports for claim in report.claims]), into / PARQUET_FILE)
        return [*texts, PARQUET_FILE]

    return files.write_set(folder, make, names=[*texts, PARQUET_FILE], force=force)


def _texts(reports: Sequence[Report]) -> dict[str, str]:
    claims = [claim.document() for report in reports for claim in report.claims]
    texts = {
        CLAIMS_FILE: json.dumps(claims, indent=2, allow_nan=False) + "\n",
        LATEX_FILE: latex.claims([(report.paper.id, report.reading, report.claims) for report in reports]),
    }
    points = [{"reading": report.reading, **point} for report in reports for point in report.points]
    if points:
        texts[POINTS_FILE] = table(points)
    drawn = []
    for report in reports:
        for figure in report.figures:
            svg = figure.svg()
            texts[f"{figure.name}-{report.reading}.svg"] = svg
            drawn.append((report.reading, figure, svg))
    if drawn:
        tallies = {report.reading: tally(report.claims) for report in reports}
        texts[FIGURES_FILE] = page(reports[0].paper.title, tallies, claims, drawn)
    return texts


def arrow(claims: Sequence[Claim]) -> Any:
    """Claims as an Arrow table of the fields of claims.json.

    A column has one type, and `paper` and `ours` are numbers of some claims and words of others: words stand in
    `paper_words` and `ours_words`.
    """
    import pyarrow as pa

    numbers = ("paper", "ours", "half_width", "deviation_pct", "tolerance_pct")
    words = ("id", "claim", "where", "paper_words", "ours_words", "unit", "kind", "status", "reading", "note")
    rows = []
    for document in (claim.document() for claim in claims):
        split = {name: document[name] for name in ("paper", "ours")}
        for name, value in split.items():
            document[name] = value if q.is_number(value) else None
            document[f"{name}_words"] = value if isinstance(value, str) else None
        rows.append(document)
    schema = pa.schema([(name, pa.string()) for name in words] + [(name, pa.float64()) for name in numbers])
    return pa.Table.from_pylist(rows, schema=schema)


def table(points: Sequence[Point]) -> str:
    """Points as CSV; a column for every name that occurs."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for point in points for name in point)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(points)
    return out.getvalue()
