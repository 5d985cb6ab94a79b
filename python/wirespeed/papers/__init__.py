"""Papers run again: what a paper claims, what comes out here, and whether that is the same.

`wirespeed papers list`, `run ID` and `cite ID` are this package on the command line. A paper is

1. a room `papers/<id>/` at the root of the repository, with `expected.csv` (the paper's claims), parameters as TOML,
   README.md and DEVIATIONS.md. Its CSV and TOML files are carried by the extension module, so an installed package has
   them: after a change of one of them, build again.
2. a module in `wirespeed/papers/rooms/`, found by being there; it defines `PAPER`, and importing it does nothing else.

`expected.csv` has a row a claim. The tolerance stands there before the run it judges, and no number of the paper stands
anywhere else:

    id,claim,where,paper,unit,tolerance_pct,kind
    p99,99th percentile of sojourn at 10 Mpps,fig. 7,12.5,us,10,seen
    order,A is faster than B at every load,"fig. 7, section V",holds,,,predicted

`paper` is a number, or text where the claim is a trend or an order (then `tolerance_pct` is empty). `kind` says how
far the model knew the answer (`Kind`). `predicted` and `seen` are counted. `calibrated`, `in-sample`, `dependent`,
`arithmetic` and `identity` are listed and never counted. The smallest module, `rooms/somebody_2020.py`:

    from wirespeed.papers import Measured, Outcome, Paper, Part, Request

    def measure(request: Request) -> Outcome:
        speed = float(request.parameters("scenario.toml")["speed"])   # papers/<id>/scenario.toml
        points = [{"load": load, "us": load * speed} for load in (1.0, 2.0, 3.0)]
        return Outcome(
            measured={
                "p99": Measured(points[-1]["us"], half_width=0.2),
                "order": Measured(holds={f"load {p['load']:g}": Part(p["us"], half_width=0.1) for p in points}),
            },
            points=points,
        )

    PAPER = Paper(
        id="2020-venue-somebody", title="...", authors="...", venue="...", year=2020, doi="10.1109/...",
        readings={"literal": "as the text has it"}, measure=measure,
    )

What `measure` may use: `request.wants("p99")` (leave out what nobody asked for), `request.reading`, `request.seed`,
`request.threads`, `request.real_size`, `request.progress(phase, done, total, note)`, and `request.kept`, which
remembers finished points in the `--out` folder so that a run that was stopped goes on where it was. Figures are
altair charts: `figures.lines(...)` draws the usual one, `Figure(name, caption, chart)` takes any.

The status of a claim is computed (`Claim.status`), never written. A number within its tolerance is `reproduced`, if its
half-width is within the tolerance, too. One outside is `partly` if `Measured.holds` says that it is on the right side
and it is within a factor of two of the paper's, else `not`. A part of a trend holds where its margin exceeds its
half-width. A trend is `reproduced` if all its parts hold, `partly` if most do, else `not`.

`sentences.csv` says which row judges what the paper says with a number (`wirespeed.papers.sentences`). A room's README
has its measured numbers between markers. `python -m wirespeed.papers.readme ID --run` runs the paper
under all readings, writes `papers/<id>/claims.json` and fills the markers (`wirespeed.papers.readme`).
`python -m wirespeed.papers.clock ID` measures how long it takes, for `wirespeed papers list`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Sequence

from wirespeed.errors import InputError, nearest
from wirespeed.papers import rooms
from wirespeed.papers.claim import Claim, Expected, Kind, Measured, Part, Status, fact, parse_expected, tally
from wirespeed.papers.figures import Figure
from wirespeed.papers.paper import Kept, Outcome, Paper, Progress, Report, Request, no_progress

__all__ = [
    "Claim",
    "Expected",
    "Figure",
    "Kept",
    "Kind",
    "Measured",
    "Outcome",
    "Paper",
    "Part",
    "Report",
    "Request",
    "Status",
    "fact",
    "find",
    "papers",
    "parse_expected",
    "run",
    "tally",
]

ALL_READINGS = "all"


def papers() -> list[Paper]:
    """All papers, by id."""
    modules = (importlib.import_module(f"{rooms.__name__}.{m.name}") for m in pkgutil.iter_modules(rooms.__path__))
    return sorted((module.PAPER for module in modules), key=lambda paper: paper.id)


def find(id: str) -> Paper:
    """The paper of that id, or of the only id that holds `id`. Raises InputError with the ids there are."""
    known = papers()
    exact = [paper for paper in known if paper.id == id]
    found = exact or [paper for paper in known if id and id.lower() in paper.id]
    if len(found) == 1:
        return found[0]
    ids = [paper.id for paper in known]
    raise InputError(f"paper `{id}`: allowed are {', '.join(ids)}{nearest(id, ids)}")


def run(
    paper: Paper,
    *,
    claims: Sequence[str] = (),
    reading: str | None = None,
    real_size: bool = False,
    seed: int = 0,
    threads: int | None = None,
    kept: Kept | None = None,
    progress: Progress = no_progress,
) -> list[Report]:
    """Runs a paper under one reading (all that it runs by default if None, every one if "all"): a report for each.

    `claims` are ids, or parts of ids or of a claim's words; none means all. Raises InputError for a claim or reading
    that there is not, and for `real_size` where the paper has no such mode.
    """
    if real_size and not paper.real_size:
        with_it = ", ".join(p.id for p in papers() if p.real_size)
        raise InputError(f"--real-size: {paper.id} has no other sizes than its own (papers that have: {with_it})")
    expected = paper.expected(real_size)
    wanted = selected(expected, claims)

    def told(phase: str, done: int, total: int, note: str, /) -> None:
        # Whoever gave a part of an id sees at once which paper it is.
        progress(f"{paper.id}, {phase}", done, total, note)

    kept = kept or Kept()
    reports = []
    for name in chosen(paper, reading, real_size):
        request = Request(
            paper=paper,
            reading=name,
            claims=frozenset(row.id for row in wanted),
            real_size=real_size,
            seed=seed,
            threads=threads,
            kept=kept,
            progress=told,
        )
        outcome = paper.measure(request)
        judged = [Claim(row, outcome.measured[row.id], name) for row in wanted if row.id in outcome.measured]
        if missing := [row.id for row in wanted if row.id not in outcome.measured]:
            raise KeyError(f"{paper.id} measured nothing for {', '.join(missing)}")
        found = (list(outcome.points), list(outcome.figures), outcome.notes, outcome.tables)
        reports.append(Report(paper, name, judged, *found))
    return reports


def chosen(paper: Paper, reading: str | None, real_size: bool = False) -> tuple[str, ...]:
    """The readings that a word of the command line means."""
    if reading is None and real_size and paper.real_size_readings:
        return paper.real_size_readings
    if reading is None:
        return paper.default_readings or tuple(paper.readings)
    if reading == ALL_READINGS:
        return tuple(paper.readings)
    if reading not in paper.readings:
        names = [*paper.readings, ALL_READINGS]
        raise InputError(f"--reading {reading}: {paper.id} has {', '.join(names)}{nearest(reading, names)}")
    return (reading,)


def selected(expected: Iterable[Expected], patterns: Sequence[str]) -> list[Expected]:
    """The claims that the patterns name, in the order of the file: an id, or a part of id, words or place."""
    rows = list(expected)
    if not patterns:
        return rows
    kept: set[str] = set()
    for pattern in patterns:
        exact = {row.id for row in rows if row.id == pattern}
        word = pattern.lower()
        found = exact or {row.id for row in rows if word and word in f"{row.id}\n{row.claim}\n{row.where}".lower()}
        if not found:
            ids = [row.id for row in rows]
            raise InputError(f"--claim {pattern}: no such claim; there are {', '.join(ids)}{nearest(pattern, ids)}")
        kept |= found
    return [row for row in rows if row.id in kept]
