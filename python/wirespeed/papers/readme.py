"""The measured numbers in a paper's pages: they come from the last full run, and stand between markers.

    python -m wirespeed.papers.readme 2010-tc-duarte --run    # runs every reading, writes claims.json, fills the pages
    python -m wirespeed.papers.readme                         # fills the pages of all papers from their claims.json
    python -m wirespeed.papers.readme --check                 # exits with 1 where a page and its claims.json differ

`papers/<id>/claims.json` holds what a run came to. Pages are README.md and DEVIATIONS.md of the room, and
`docs/papers/<id>.md`. A block begins with `<!-- begin WHAT -->` on a line of its own and ends with `<!-- end -->`:

    claims READING [ID ...]   the table of claims; of those ids alone, where there are any (`*` stands for any letters)
    notes READING             what statuses do not say
    tally                     how many are reproduced, partly and not, by reading, by this rule and by the loose one
    table NAME [READING]      a table that the room made; of all readings where none is named
    sentences READING         what the paper says with a number, and which row judges it (`sentences.csv`)

A number within a line stands between `<!--= ID -->` and `<!--/-->`: a claim's id, with `@READING` for another than the
default reading. `.status` behind the id has its status in place of the number, `.paper` the paper's value. The id
`tally` is the sentence that a run prints.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from wirespeed import papers
from wirespeed import quantities as q
from wirespeed.errors import InputError
from wirespeed.papers import show
from wirespeed.papers.claim import COUNTED, Expected, Status, tally
from wirespeed.papers.paper import CLAIMS_FILE, Kept, Paper, Progress, Report, no_progress
from wirespeed.papers.sentences import SENTENCES, parse

ROOT: Final = Path(__file__).resolve().parents[3]

Record = Mapping[str, Any]
"""What a run of all readings came to: `readings`, by name, of `claims` by id, `tables` by name, and `tally`."""


def run(
    paper: Paper,
    readings: Sequence[str],
    kept: Kept | None = None,
    threads: int | None = None,
    progress: Progress = no_progress,
) -> Record:
    """Runs a paper under these readings, with seed 0."""
    reports = [
        papers.run(paper, reading=reading, kept=kept, threads=threads, progress=progress)[0] for reading in readings
    ]
    return {"readings": {report.reading: _reading(report) for report in reports}}


def _reading(report: Report) -> dict[str, Any]:
    return {
        "tally": tally(report.claims),
        "claims": {
            claim.expected.id: {
                "ours": _rounded(claim.ours),
                "half_width": _rounded(claim.measured.half_width),
                "status": claim.status.value,
                "loosely": claim.loosely.value,
                "note": claim.note,
            }
            for claim in report.claims
        },
        "tables": {name: [dict(row) for row in rows] for name, rows in report.tables.items() if rows},
    }


def _rounded(value: object) -> object:
    """To six digits, so that a run on another machine writes the same."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def text(record: Record) -> str:
    """The record as JSON, a claim or a row of a table in a line."""
    out = ['{"readings": {']
    readings = list(record["readings"].items())
    for place, (name, of) in enumerate(readings):
        out.append(f' {json.dumps(name)}: {{"tally": {_line(of["tally"])},')
        out.append('  "claims": {')
        out += _separated(f"   {_line(id)}: {_line(claim)}" for id, claim in of["claims"].items())
        out.append('  },\n  "tables": {')
        tables = list(of["tables"].items())
        for n, (table, rows) in enumerate(tables):
            out.append(f"   {_line(table)}: [")
            out += _separated(f"    {_line(row)}" for row in rows)
            out.append("   ]" + ("," if n < len(tables) - 1 else ""))
        out.append("  }}" + ("," if place < len(readings) - 1 else ""))
    return "\n".join([*out, "}}"]) + "\n"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _separated(lines: Iterable[str]) -> list[str]:
    listed = list(lines)
    return [line + "," for line in listed[:-1]] + listed[-1:]


def read(paper: Paper, root: Path = ROOT) -> Record:
    """The record of the last full run. Raises InputError where there is none."""
    path = root / "papers" / paper.id / CLAIMS_FILE
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise InputError(
            f"{path}: cannot be read ({e}); `python -m wirespeed.papers.readme {paper.id} --run` writes it"
        ) from None
    return record


def pages(paper: Paper, root: Path = ROOT) -> list[Path]:
    """The pages of a paper that there are."""
    room = root / "papers" / paper.id
    every = (room / "README.md", room / "DEVIATIONS.md", root / "docs" / "papers" / f"{paper.id}.md")
    return [page for page in every if page.is_file()]


_BLOCK: Final = re.compile(r"(<!-- begin (?P<what>[^\n]*?) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
_INLINE: Final = re.compile(r"(<!--= (?P<what>[^\n]*?) -->)(?P<body>[^\n]*?)(<!--/-->)")


def filled(page: str, paper: Paper, record: Record, where: str = "page") -> str:
    """The page with everything between its markers as the record has it. Raises InputError for an unknown marker."""

    def block(found: re.Match[str]) -> str:
        return found[1] + _block(found["what"], paper, record, where) + found[4]

    def inline(found: re.Match[str]) -> str:
        return found[1] + _inline(found["what"], paper, record, where) + found[4]

    return _INLINE.sub(inline, _BLOCK.sub(block, page))


def _block(what: str, paper: Paper, record: Record, where: str) -> str:
    kind, *words = what.split()
    if kind == "claims" and words:
        of = _of(record, words[0], where, what)
        wanted = [row for row in paper.expected() if not words[1:] or any(fnmatch(row.id, id) for id in words[1:])]
        return _claims(wanted, of["claims"])
    if kind == "notes" and len(words) == 1:
        claims = _of(record, words[0], where, what)["claims"]
        return "".join(f"- `{id}`: {claim['note']}.\n" for id, claim in claims.items() if claim["note"])
    if kind == "tally" and not words:
        return _tallies(record)
    if kind == "sentences" and len(words) == 1:
        return _sentences(paper, _of(record, words[0], where, what)["claims"])
    if kind == "table" and words:
        names = words[1:] or [name for name, of in record["readings"].items() if words[0] in of["tables"]]
        rows = [
            ({"reading": name} if len(names) > 1 else {}) | row
            for name in names
            for row in _of(record, name, where, what)["tables"].get(words[0], ())
        ]
        if rows:
            return markdown(rows)
    raise InputError(
        f"{where}: `<!-- begin {what} -->`: no such block; there are claims, notes, tally, table and sentences"
    )


def _of(record: Record, reading: str, where: str, what: str) -> Any:
    if reading not in record["readings"]:
        raise InputError(f"{where}: `{what}`: was run under {', '.join(record['readings'])}, not under {reading}")
    return record["readings"][reading]


def _inline(what: str, paper: Paper, record: Record, where: str) -> str:
    id, _, reading = what.partition("@")
    id, _, field = id.partition(".")
    of = _of(record, reading or papers.chosen(paper, None)[0], where, what)
    if id == "tally":
        return str(of["tally"])
    if id not in of["claims"] or field not in ("", "status", "paper"):
        raise InputError(f"{where}: `<!--= {what} -->`: no such claim, or no such field of one")
    if field == "paper":
        return next(show.value(row.paper, row.unit) for row in paper.expected() if row.id == id)
    claim = of["claims"][id]
    return str(claim["status"]) if field else ours(claim)


def ours(claim: Mapping[str, Any]) -> str:
    """A number with its half-width, in as many digits as that leaves sense for; of a trend how far it holds."""
    number, wide = claim["ours"], claim["half_width"]
    if q.is_number(number) and q.is_number(wide) and wide > 0:
        return f"{q.digits(number)} ± {q.digits(wide, 2)}"
    return show.value(number, "")


def _claims(rows: Sequence[Expected], claims: Mapping[str, Mapping[str, Any]]) -> str:
    return markdown(
        [
            {
                "claim": row.claim,
                "where": row.where,
                "paper": show.value(row.paper, row.unit),
                "ours": ours(claims[row.id]),
                "deviation": _deviation(row, claims[row.id]["ours"]),
                "tolerance": "" if row.tolerance_pct is None else f"{row.tolerance_pct:g} %",
                "kind": row.kind.value,
                "status": claims[row.id]["status"],
            }
            for row in rows
        ]
    )


def _deviation(row: Expected, number: object) -> str:
    if isinstance(row.paper, str) or not q.is_number(number) or row.paper == 0:
        return ""
    return q.change_pct((number - row.paper) / abs(row.paper) * 100)


def _sentences(paper: Paper, claims: Mapping[str, Mapping[str, Any]]) -> str:
    path = ROOT / "papers" / paper.id / SENTENCES
    origin = str(path.relative_to(ROOT))
    if not path.is_file():
        raise InputError(f"{origin}: lacks")
    ids = [row.id for row in paper.expected()]
    statuses = {id: claim["status"] for id, claim in claims.items()}
    return markdown(
        [
            {"where": each.where, "what the paper says": each.says, "judged by": each.judged(statuses)}
            for each in parse(path.read_text(encoding="utf-8"), origin, ids)
        ]
    )


def _tallies(record: Record) -> str:
    rows: list[dict[str, Any]] = []
    for name, of in record["readings"].items():
        for rule, field in (("loose", "loosely"), ("as judged", "status")):
            found = Counter(claim[field] for claim in of["claims"].values())
            rows.append(
                {
                    "reading": name,
                    "rule": rule,
                    **{status.value: found[status] for status in COUNTED},
                    "listed, not counted": found[Status.listed],
                }
            )
    return markdown(rows)


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a table of Markdown; the columns are those of the first row.

    >>> print(markdown([{"a": 1, "b": "x"}]), end="")
    | a | b |
    |---|---|
    | 1 | x |
    """
    heads = list(rows[0])
    lines = [heads, ["---"] * len(heads), *([str(row.get(head, "")) for head in heads] for row in rows)]
    lines = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
    return text.replace("| --- " * len(heads) + "|", "|---" * len(heads) + "|")


def fill(paper: Paper, root: Path = ROOT, check: bool = False) -> list[Path]:
    """Fills a paper's pages from its record; returns those that differed. With `check` none is written."""
    record = read(paper, root)
    differing = []
    for page in pages(paper, root):
        before = page.read_text(encoding="utf-8")
        after = filled(before, paper, record, str(page.relative_to(root)))
        if after != before:
            differing.append(page)
            if not check:
                page.write_text(after, encoding="utf-8")
    return differing


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m wirespeed.papers.readme", description=__doc__.partition("\n")[0])
    parser.add_argument("id", nargs="*", help="papers; all if none is named")
    parser.add_argument("--run", action="store_true", help="run every reading first, and write claims.json")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a page differs")
    parser.add_argument("--kept", type=Path, help="a folder that keeps finished points, as --out of a run does")
    parser.add_argument("--threads", type=int, help="points at a time; all cores if omitted")
    given = parser.parse_args(arguments)
    differing: list[Path] = []
    try:
        for paper in [papers.find(id) for id in given.id] or papers.papers():
            if given.run:
                record = run(paper, tuple(paper.readings), Kept(given.kept), given.threads, _told)
                (ROOT / "papers" / paper.id / CLAIMS_FILE).write_text(text(record), encoding="utf-8")
            differing += fill(paper, ROOT, given.check)
    except InputError as e:
        sys.stderr.write(f"error: {e}\n")
        return 2
    for page in differing:
        sys.stdout.write(f"{page.relative_to(ROOT)}: {'differs from claims.json' if given.check else 'written'}\n")
    return 1 if given.check and differing else 0


def _told(phase: str, done: int, total: int, note: str, /) -> None:
    sys.stderr.write(f"{phase}: {done} of {total} {note}\n")


if __name__ == "__main__":
    sys.exit(main())
