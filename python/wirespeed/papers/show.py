"""Claims as a table that fits a terminal of 60 columns and uses one of 100."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wirespeed import quantities as q
from wirespeed.papers.claim import Claim, Status, tally
from wirespeed.papers.paper import Paper, Report

_STYLES: Final = {
    Status.reproduced: "green",
    Status.partly: "yellow",
    Status.not_reproduced: "red",
    Status.listed: "dim",
}
_RULE: Final = (
    "reproduced: within the tolerance, or every part of a trend beyond its half-width. partly: the right side and "
    "within a factor of two, or most parts. listed: fitted, dependent, arithmetic or true by construction; not counted."
)
# From this width on, where a claim stands and how far it was known have columns of their own.
_WIDE: Final = 96


def papers(known: Sequence[Paper]) -> RenderableType:
    """The papers there are, with their readings."""
    parts: list[RenderableType] = []
    for paper in known:
        parts.append(Text(paper.id, "bold"))
        parts.append(Padding(Text(about(paper)), (0, 0, 0, 2)))
        readings = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
        for name, words in paper.readings.items():
            readings.add_row(Text(name, "cyan"), Text(words))
        parts += [Padding(readings, (0, 0, 1, 2))]
    return Group(*parts) if parts else Text("no papers")


def about(paper: Paper) -> str:
    """Who, what, where, and how long it takes; what is not known is omitted."""
    who = f"{paper.authors}: " if paper.authors else ""
    where = ", ".join(part for part in (f"{paper.venue} {paper.volume}".rstrip(), str(paper.year)) if part)
    doi = f" doi:{paper.doi}" if paper.doi else ""
    takes = f" Takes {taken}." if (taken := paper.takes) else ""
    return f"{who}{paper.title}. {where}.{doi}{takes}"


def reports(all_of: Sequence[Report]) -> RenderableType:
    """Each report: what was read how, its claims, how many hold, and notes."""
    parts: list[RenderableType] = []
    for report in all_of:
        parts += [Text(f"{report.paper.id}, reading {report.reading}", "bold")]
        parts += [Text(report.paper.readings[report.reading], "dim"), Text(), Claims(report.claims), Text()]
        parts += [Text(tally(report.claims), "bold"), Text(_RULE, "dim")]
        parts += [Text(f"note: {note}", "dim") for note in report.notes]
        parts.append(Text())
    return Group(*parts[:-1])


class Claims:
    """The table; on a narrow terminal the place and kind of a claim stand below its words."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self._claims = claims

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= _WIDE
        table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("claim", overflow="fold", ratio=1)
        if wide:
            table.add_column("where", overflow="fold", max_width=16)
        for name in ("paper", "ours", "dev.", "tol."):
            table.add_column(name, justify="right", overflow="fold", max_width=14)
        if wide:
            table.add_column("kind", no_wrap=True)
        table.add_column("status", no_wrap=True)
        for claim in self._claims:
            row = claim.expected
            words = Text(row.claim)
            if not wide:
                words.append(f"\n{row.where}; {row.kind.value}", "dim")
            if claim.note:
                words.append(f"\n{claim.note}", "dim italic")
            tolerance = "" if row.tolerance_pct is None else f"{row.tolerance_pct:g} %"
            deviation = "" if claim.deviation_pct is None else q.change_pct(claim.deviation_pct)
            numbers = [Text(cell) for cell in (value(row.paper, row.unit), ours(claim), deviation, tolerance)]
            status = Text(claim.status.value, _STYLES[claim.status])
            place, kind = ([Text(row.where)], [Text(row.kind.value)]) if wide else ([], [])
            table.add_row(words, *place, *numbers, *kind, status)
        yield table


def value(number: object, unit: str) -> str:
    """A number with its unit, or a word as it is.

    >>> value(89.8, "Gbps"), value("holds", ""), value(None, "ns")
    ('89.8 Gbps', 'holds', '–')
    """
    if q.is_number(number):
        return f"{q.digits(number)} {unit}".rstrip()
    return q.MISSING if number is None else str(number)


def ours(claim: Claim) -> str:
    """Our number with its half-width, in as many digits as the half-width leaves sense for."""
    wide, number = claim.measured.half_width, claim.ours
    if q.is_number(number) and q.is_number(wide) and wide > 0:
        return f"{q.digits(number)} ± {q.digits(wide, 2)}"
    return value(number, "")
