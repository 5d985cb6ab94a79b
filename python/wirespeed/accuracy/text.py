"""What `wirespeed accuracy` prints: a line a row, medians by source and kind, and why rows could not be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wirespeed import printed
from wirespeed import quantities as q
from wirespeed.accuracy.documents import Accuracy, Judged, Spread

# Characters of a metric, and what of a line is left for a case and a source beside the other columns.
_METRIC: Final = 18
_BESIDE_CASE: Final = 55
_BESIDE_SOURCE: Final = 62
_LEAST: Final = 12
_UNITS: Final[Mapping[str | None, str]] = {"%": " %", "points": " pt", None: ""}
_SIGNIFICANT: Final = 4


def summary(document: Accuracy, width: int = 80) -> RenderableType:
    """The document for people: rows source by source, then medians, then what could not be asked."""
    rows = document["rows"]
    out: list[RenderableType] = []
    for source in dict.fromkeys(row["source"] for row in rows):
        out += [_rows(source, [row for row in rows if row["source"] == source], width), Text()]
    if document["overall"]["counted"]:
        out += [_groups(document, width), Text(), _kinds(document), Text()]
    out += [Text(line) for line in _closing(document)]
    if any(row["error"] is None for row in rows):
        out += [Text(), *_not_asked(rows)]
    return Group(*out)


def error(value: float | None, unit: str | None) -> str:
    """An error with its sign and unit.

    >>> error(-3.25, "%"), error(0.04, "points"), error(None, "%")
    ('-3.2 %', '+0.0 pt', '–')
    """
    return q.MISSING if value is None else f"{value:+.1f}{_UNITS.get(unit, '')}"


def _rows(source: str, rows: Sequence[Judged], width: int) -> Table:
    shown = printed.table("case", "metric", ">measured", ">predicted", ">error", title=source)
    _cut(shown, 0, width - _BESIDE_CASE)
    _cut(shown, 1, _METRIC)
    for row in rows:
        name, relative, _ = row["metric"].partition(" relative to ")
        measured = row["measured"]
        shown.add_row(
            row["case"],
            f"{name} ratio" if relative else name,
            f"{q.digits(measured, _SIGNIFICANT)} {row['unit']}".rstrip() if q.is_number(measured) else str(measured),
            q.digits(row["predicted"], _SIGNIFICANT),
            _error(row),
        )
    return shown


def _error(row: Judged) -> str:
    """The error, in brackets where it does not count."""
    if row["error"] is None:
        return "not asked"
    words = error(row["error"], row["error_unit"])
    return f"({words})" if row["fitted"] else words


def _cut(shown: Table, place: int, width: int) -> None:
    """A column of names that keep to one line."""
    column = shown.columns[place]
    column.overflow, column.no_wrap, column.max_width = "ellipsis", True, max(width, _LEAST)


def _groups(document: Accuracy, width: int) -> Table:
    shown = printed.table("source", "kind", *_HEADS, title="By source and kind")
    _cut(shown, 0, width - _BESIDE_SOURCE)
    for group in document["sources"]:
        if group["errors"]["n"]:
            shown.add_row(group["source"], group["kind"], *_cells(group["errors"], group["error_unit"]))
    return shown


def _kinds(document: Accuracy) -> Table:
    shown = printed.table(
        "kind", ">sources", ">of them", *_HEADS, title="By kind: the median of sources' medians, and of all rows"
    )
    shown.columns[0].no_wrap = True
    for each in document["kinds"]:
        if each["errors"]["n"]:
            unit = each["error_unit"]
            median = _size(each["median_of_medians"], unit)
            shown.add_row(each["kind"], str(each["sources"]), median, *_cells(each["errors"], unit))
    return shown


_HEADS: Final = (">n", ">median", ">in 10", ">in 20", ">worst", ">bias")


def _cells(errors: Spread, unit: str) -> list[str]:
    return [
        str(errors["n"]),
        _size(errors["median_abs"], unit),
        *(q.share(errors[name], 0) for name in ("within_10", "within_20")),
        error(errors["worst"], unit),
        error(errors["median"], unit),
    ]


def _size(value: float | None, unit: str) -> str:
    return error(value, unit).removeprefix("+")


def _closing(document: Accuracy) -> list[str]:
    """What was counted, and what the columns mean."""
    of = document["overall"]
    lines = [
        f"Rows: {of['rows']}, of which {of['counted']} count, {of['fitted']} are fitted (in brackets) and do not, and "
        f"{of['not_asked']} could not be asked.",
        f"Runs are of {of['packets']:,} packets where a row does not say. wirespeed {document['version']}.",
    ]
    medians = [
        f"{median:.1f} {words}"
        for median, words in (
            (of["median_of_medians_percent"], "% where errors are relative"),
            (of["median_of_medians_points"], "points of hits and loss"),
        )
        if median is not None
    ]
    if medians:
        lines.insert(0, f"Median over sources of their median errors: {', '.join(medians)}.")
        lines.append("in 10, in 20: share of rows within 10 and 20 % (pt: points); bias: the median with its sign.")
    return lines


def _not_asked(rows: Sequence[Judged]) -> list[RenderableType]:
    """Each reason once, with the rows that it is of."""
    reasons: dict[str, list[Judged]] = {}
    for row in rows:
        if row["error"] is None:
            reasons.setdefault(row["error_text"] or "", []).append(row)
    out: list[RenderableType] = [Text("Could not be asked", "bold")]
    for reason, its in reasons.items():
        more = f" and {len(its) - _NAMED} more" if len(its) > _NAMED else ""
        out.append(Text(f"{', '.join(row['place'] for row in its[:_NAMED])}{more}: {reason}"))
    return out


_NAMED: Final = 3
