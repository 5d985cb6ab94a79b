"""A study from end to end: what runs, what is known already, and what came of it."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wirespeed import csvs, files, scenarios
from wirespeed.errors import InputError, nearest
from wirespeed.progress import Callback
from wirespeed.sweep import engine as engines
from wirespeed.sweep import until
from wirespeed.sweep.folder import Folder
from wirespeed.sweep.plan import Ask, PathLike, Plan
from wirespeed.sweep.work import Outcome, Task
from wirespeed.tables import Table

if TYPE_CHECKING:
    import altair
    import pyarrow

SCHEMA: Final = "wirespeed.sweep/1"
RESULTS_FILE: Final = "results.parquet"
CSV_FILE: Final = "results.csv"
DOCUMENT_FILE: Final = "sweep.json"
PAGE_FILE: Final = "sweep.html"
FILES: Final = (RESULTS_FILE, CSV_FILE, DOCUMENT_FILE, PAGE_FILE)
ENGINES: Final = ("threads", "local", "dask")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Study:
    """A finished study. Reading it twice gives the same bytes, however often it was stopped and whoever ran it."""

    rows: Sequence[Row]
    """A run each, by point and replication: `point`, `replication`, what is varied, `seed`, `key`, `error`, and
    every number of the run's summary by dotted name."""
    document: Mapping[str, Any]
    """What was asked for, and per point the mean of each metric with its 95 % half-width over replications."""
    ran: int = 0
    """Runs that were not known before."""
    refused: Sequence[str] = ()
    """Files of finished runs, and of warm machines, that were not used, each with the reason."""

    @property
    def failed(self) -> int:
        """Runs that came to an error."""
        return sum(row["error"] is not None for row in self.rows)

    @property
    def table(self) -> Table:
        """The rows as a table that polars, pandas and pyarrow read."""
        return Table("sweep", _arrow(self.rows, self.document))

    def write(self, folder: PathLike, force: bool = False) -> list[Path]:
        """Writes results.parquet, results.csv, sweep.json and sweep.html, all or none; returns the files.

        In the CSV file a text that a spreadsheet would take for a formula begins with a quote. Raises OSError, and
        InputError where links, or without `force` files that wirespeed did not write, are in the way.
        """
        return files.write_set(folder, self._make, names=FILES, force=force)

    def _make(self, into: Path) -> Sequence[str]:
        from pyarrow import parquet

        from wirespeed.sweep.page import page  # drawing costs half a second to import

        parquet.write_table(_arrow(self.rows, self.document), into / RESULTS_FILE)
        (into / CSV_FILE).write_bytes(csvs.table(self.rows).encode())
        (into / DOCUMENT_FILE).write_text(json.dumps(self.document, indent=2) + "\n", encoding="utf-8")
        (into / PAGE_FILE).write_text(page(self.document), encoding="utf-8")
        return FILES

    def plot(self, metric: str | None = None) -> altair.TopLevelMixin:
        """A chart for a notebook (Altair): a metric over what is varied, the first of the study's if None.

        Raises InputError for a metric that the study has not, and where there are no two points to tell.
        """
        from wirespeed.report import charts
        from wirespeed.sweep import page

        shown = self.document["metrics"]
        metric = shown[0] if metric is None else metric
        if metric not in shown:
            raise InputError(f"plot {metric!r}: this study has {', '.join(shown)}{nearest(metric, shown)}")
        drawn = page.plot(self.document, metric)
        if drawn is None:
            raise InputError(f"plot {metric!r}: no two points with other values; `rows` has what there is")
        return charts.for_notebook(drawn)

    def _repr_html_(self) -> str:
        from wirespeed.sweep.page import fragment

        return fragment(self.document)

    def __repr__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"<wirespeed study: {self.document['points']} points, {len(self.rows)} runs{failed}>"


def sweep(
    scenario: PathLike | Mapping[str, Any],
    vary: Iterable[str] | Mapping[str, Any] | None = None,
    *,
    cases: Mapping[str, scenarios.Overrides] | None = None,
    set: scenarios.Overrides = None,
    design: str = "grid",
    samples: int | None = None,
    seed: int | None = None,
    replications: int | None = None,
    until: Sequence[str] = (),
    most_replications: int | None = None,
    metrics: Sequence[str] = (),
    capture: PathLike | None = None,
    table: PathLike | None = None,
    near: scenarios.Overrides = (),
    out: PathLike | None = None,
    engine: str = "threads",
    jobs: int | None = None,
    scheduler: str | None = None,
    executor: Executor | None = None,
    retry_failed: bool = False,
    progress: Callback | None = None,
) -> Study:
    """Runs a scenario over the values of some of its settings.

    `vary` maps dotted paths to values, or to a range: `{"machine.llc.slices": [1, 4, 8], "traffic.load":
    "0.1..1.0/10"}`. `cases` are bundles of settings by name, an axis of their own. `design` is "grid" (every
    combination), "latin" or "sobol" (`samples` points, drawn by `seed`; a range without a step is an interval then). A
    point runs `replications` times, with seeds that are the same at all points, or `until` half-widths such as
    "carried_mpps 1%" are met (at least 3 times, at most `most_replications`, 30). `metrics` are those that the page
    shows.

    The scenario's machine, with the settings of `near`, warms up from nothing, once a seed, and is kept on disk for all
    workers; points take over what its caches hold and go on until their own state has settled. With None, and where
    `run.warmup` says how much is cut, each warms up from nothing, as `wirespeed.run` does: what it measures differs by
    chance, and takes up to four times as long.

    Runs go to `jobs` threads of this process (the simulator runs outside of Python's lock), to as many processes
    (engine "local": a script that is run needs `if __name__ == "__main__":` then), to the Dask cluster of `scheduler`
    (engine "dask"), or to any `concurrent.futures.Executor`. With `out`, finished runs are kept there and never run
    again: a study that was stopped, or killed, goes on where it was. The result depends on none of this.

    Raises InputError before anything runs for unknown settings, empty ranges, settings that clash, a scheduler that
    does not answer, and workers with another build. A run that fails is recorded with its error; where every run
    failed, InputError has the first. Ctrl-C raises KeyboardInterrupt.

        >>> study = wirespeed.sweep("forwarding", {"traffic.load": "0.1..1.0/10"})          # doctest: +SKIP
        >>> polars.DataFrame(study.table)                                                   # doctest: +SKIP
    """
    ask = Ask(
        scenarios.as_text(scenario), vary, cases or {}, set, design, samples, seed, replications, until,
        most_replications, metrics, capture, table, near,
    )  # fmt: skip
    found = run(ask, out, chosen(engine, jobs, scheduler, executor), retry_failed, progress)
    refuse_failed(found)
    return found


def refuse_failed(found: Study) -> None:
    """Raises InputError where every run failed."""
    if found.failed == len(found.rows):
        raise InputError(f"every run failed; the first: {found.rows[0]['error']}")


def chosen(engine: str, jobs: int | None, scheduler: str | None, executor: Executor | None) -> engines.Engine:
    """The engine that is asked for. Raises InputError where the words contradict each other."""
    if executor is not None:
        if scheduler is not None or engine != ENGINES[0]:
            raise InputError("executor, engine, scheduler: give one of them")
        return engines.Given(executor, jobs)
    if engine not in ENGINES:
        raise InputError(f"--engine {engine}: must be one of {', '.join(ENGINES)}{nearest(engine, ENGINES)}")
    if engine != "dask":
        if scheduler is not None:
            raise InputError(f"--scheduler {scheduler}: goes with --engine dask")
        return engines.Threads(jobs) if engine == "threads" else engines.Local(jobs)
    if scheduler is None:
        raise InputError("--engine dask needs --scheduler ADDRESS, for example tcp://10.0.0.1:8786")
    if jobs is not None:
        raise InputError("--jobs: the cluster has as many workers as it has; leave it out")
    from wirespeed.sweep.cluster import Dask  # the only file that knows Dask

    return Dask(scheduler)


def run(
    ask: Ask,
    out: PathLike | None,
    engine: engines.Engine,
    retry_failed: bool = False,
    progress: Callback | None = None,
) -> Study:
    """As `sweep`, of what is asked for, on an engine."""
    plan = Plan(ask)
    with Folder(out) as folder:
        runs = _Runs(plan, folder, retry_failed, progress)
        waiting = list(runs.begin())
        try:
            if waiting:
                with engines.running(engine, plan.files) as executor:
                    engines.run(engine, executor, waiting, runs.finished, runs.tell)
        except KeyboardInterrupt:
            how = f"; run it again with --out {os.fspath(out)} to go on" if out is not None else ""
            raise KeyboardInterrupt(f"stopped after {runs.ran} runs{how}") from None
    rows = runs.rows()
    return Study(rows, _document(plan, rows), runs.ran, tuple(folder.refused))


class _Runs:
    """Which runs of each point are wanted, known and under way."""

    def __init__(self, plan: Plan, folder: Folder, retry_failed: bool, progress: Callback | None) -> None:
        self._plan, self._folder, self._progress = plan, folder, progress
        self._retry_failed = retry_failed
        self._tasks: dict[int, list[Task]] = {place: [] for place in plan.sound}
        self._points: dict[str, list[int]] = {}
        self._open = len(plan.sound)
        self._known = 0
        self._failed = 0
        self.ran = 0

    def begin(self) -> Iterator[Task]:
        """What is to be run at first: of each point what is not known of its least number of runs."""
        for place in self._tasks:
            for replication in range(self._plan.replications.least):
                self._add(place, replication)
        self._folder.find(task.key for tasks in self._tasks.values() for task in tasks)
        if self._retry_failed:
            self._folder.forget_failed()
        wanted: list[list[Task]] = []
        for place, tasks in self._tasks.items():
            missing = [task for task in tasks if self._folder.get(task.key) is None]
            wanted.append(missing or self._more(place))
        self._known = sum(self._folder.get(key) is not None for key in self._points)
        # Whoever comes with a new seed first makes the machine that others of it begin near, and these wait for it. So
        # one point begins with all seeds, the one of which most is made last, and the others come a seed after another.
        first = next((tasks for tasks in wanted if tasks), [])
        ordered = [*first[::-1], *(task for of_seed in itertools.zip_longest(*wanted) for task in of_seed if task)]
        yield from {task.key: task for task in ordered}.values()

    def finished(self, outcome: Outcome) -> list[Task]:
        """Keeps what came of a run, and says what is to be run because of it."""
        places = self._points[outcome.key]
        self._folder.put(outcome, {"seed": self._seed(outcome.key), **self._plan.values(places[0])})
        self._folder.refused += outcome.refused
        self.ran += 1
        self._failed += outcome.error is not None
        more: dict[str, Task] = {}
        for place in places:
            if all(self._folder.get(task.key) is not None for task in self._tasks[place]):
                more |= {task.key: task for task in self._more(place)}
        return list(more.values())

    def tell(self) -> None:
        """Tells how far everything is."""
        if self._progress is not None:
            note = f"{self._failed} failed" if self._failed else ""
            self._progress("sweep", self._known + self.ran, len(self._points), note)

    def rows(self) -> list[Row]:
        """Every run, in order."""
        return [
            {
                "point": place,
                "replication": replication,
                **self._plan.values(place),
                "seed": None if task is None else self._plan.seed(place, replication),
                "key": None if task is None else task.key,
                "error": outcome.error,
                **{name: value for name, value in outcome.values.items() if name not in _OWN},
            }
            for place in range(len(self._plan.points))
            for replication, (task, outcome) in enumerate(self._of(place))
        ]

    def _of(self, place: int) -> list[tuple[Task | None, Outcome]]:
        why = self._plan.why_not(place)
        if why is not None:
            return [(None, Outcome("", error=why))]
        found = [(task, self._folder.get(task.key)) for task in self._tasks[place]]
        return [(task, outcome) for task, outcome in found if outcome is not None]

    def _more(self, place: int) -> list[Task]:
        """The next run that a point wants and that is not known, when all before it are."""
        while True:
            done = [found for task in self._tasks[place] if (found := self._folder.get(task.key)) is not None]
            if any(found.error is not None for found in done):
                return []
            if self._plan.replications.enough([found.values for found in done], self._plan.replays(place)):
                return []
            task = self._add(place, len(done))
            self._folder.find([task.key])
            if self._folder.get(task.key) is None:
                return [task]
            self._known += 1

    def _add(self, place: int, replication: int) -> Task:
        task = self._plan.task(place, replication)
        self._tasks[place].append(task)
        self._points.setdefault(task.key, []).append(place)
        return task

    def _seed(self, key: str) -> int:
        place = self._points[key][0]
        replication = next(i for i, task in enumerate(self._tasks[place]) if task.key == key)
        return self._plan.seed(place, replication)


_OWN: Final = frozenset({"point", "replication", "seed", "key", "error"})


def _document(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    by_point: dict[int, list[Row]] = {}
    for row in rows:
        by_point.setdefault(row["point"], []).append(row)
    results = []
    for place, runs in by_point.items():
        means: dict[str, Any] = {}
        same = plan.replays(place) and until.see_the_same(runs)
        for metric in plan.metrics:
            values = [run[metric.column] for run in runs if run.get(metric.column) is not None]
            if values:
                mean, over_runs = until.interval(values)
                wide = over_runs if len(values) > 1 else None
                if same:
                    by_batches = until.within(metric, runs[0])
                    wide = None if by_batches is None else max(by_batches, over_runs)
                elif len(runs) == 1:
                    wide = until.within(metric, runs[0])
                means[metric.name] = {"mean": mean, "half_width": wide}
        error = next((run["error"] for run in runs if run["error"] is not None), None)
        started = sum(run["key"] is not None for run in runs)
        # Of the first run: its seed is that of the first run of every other point.
        warmup = runs[0].get("warmup_packets")
        about = {"point": place, "at": plan.values(place), "runs": started, "same_packets": same, "error": error}
        results.append({**about, "warmup_packets": None if warmup is None else int(warmup), **means})
    return {"schema": SCHEMA, **plan.document(), "results": results}


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _arrow(rows: Sequence[Row], document: Mapping[str, Any]) -> pyarrow.Table:
    import pyarrow as pa

    about = {name: value for name, value in document.items() if name != "results"}
    columns = {}
    for name in _columns(rows):
        values = [row.get(name) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            values = [None if value is None else str(value) for value in values]
        elif kinds == {int, float}:
            values = [None if value is None else float(value) for value in values]
        columns[name] = pa.array(values, pa.string() if not kinds else None)
    return pa.table(columns).replace_schema_metadata({b"wirespeed.sweep": json.dumps(about)})
