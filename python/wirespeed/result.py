"""What a run came to: its summary, its tables, its report."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from wirespeed import _wirespeed, assumed, files, origins, same_traffic, stored
from wirespeed import quantities as q
from wirespeed.errors import InputError
from wirespeed.gate import Metric
from wirespeed.same_traffic import Differing
from wirespeed.slowest import Slowest, slowest
from wirespeed.stored import FILES, REPORT_FILE, SUMMARY_FILE, TABLES
from wirespeed.summary import headline, status
from wirespeed.summary_types import CurvePoint, Summary
from wirespeed.tables import ParquetStream, Table

if TYPE_CHECKING:
    import altair

    from wirespeed._wirespeed import Run
    from wirespeed.lives import Lives

Side = Literal["a", "b"]
SIDES: Final[tuple[Side, ...]] = ("a", "b")


class Result:
    """One run. `summary` is the documented object, `scenario` the resolved TOML; the tables are Arrow streams.

    In a notebook it shows its verdict, key numbers and where the time goes.
    """

    summary: Summary
    scenario: str
    runs: Table
    """One row: run_id, seed, headline numbers, the resolved scenario, version and commit."""
    counters: Table
    """One row per counter: run_id, component, counter, value (float64), unit."""
    packets: Table
    """A systematic sample of packets: times in ns, one `at_<reason>_ns` column per attribution reason."""
    series: Table
    """One row per interval of simulated time: rates in Mpps or GB/s, means in ns, the rest as shares or counts."""

    def __init__(
        self, summary_json: str, scenario: str, tables: Mapping[str, Table], run: Run | None, folder: Path | None
    ) -> None:
        """Made by `wirespeed.run` (then `run` is there) or `wirespeed.read` (then `folder` is, or a summary alone)."""
        self.summary_json = summary_json
        self.summary = json.loads(summary_json)
        self.scenario = scenario
        for name in TABLES:
            setattr(self, name, tables[name])
        self.lower_loads: list[CurvePoint] = json.loads(run.lower_loads_json) if run is not None else []
        """Points at lower loads that the report of an overload draws, of few packets each: no part of the summary."""
        self._run = run
        self._folder = folder

    @property
    def run_id(self) -> str:
        """The hash of the resolved scenario, its files' content and the version: equal ids, equal results."""
        return self.summary.get("run_id", "")

    @property
    def partial(self) -> bool:
        """Whether the run was stopped before its end."""
        return bool(self.summary.get("partial"))

    @contextmanager
    def operand(self) -> Iterator[Run | str]:
        """What the extension compares: a run, or the folder of one."""
        if self._run is not None:
            yield self._run
        elif self._folder is None or not self._folder.is_file():
            yield str(self._folder)
        else:
            # It reads a folder: the file, whatever its name, is given one of its own meanwhile.
            with tempfile.TemporaryDirectory(prefix="wirespeed-") as held:
                (Path(held) / SUMMARY_FILE).write_text(self.summary_json, encoding="utf-8")
                yield held

    def write(
        self, folder: str | os.PathLike[str], report: bool = True, command: str = "", force: bool = False
    ) -> list[Path]:
        """Writes tables, summary, scenario and (if `report`) the HTML report; returns the files written.

        All of them appear, or none; an earlier run of wirespeed in the folder is replaced. `command` is what the report
        names as the way to run again. `force` replaces files that wirespeed did not write, too. Raises OSError where
        the folder cannot be written, and InputError where such files, or links, are in the way, and for a result that
        was read from a folder: its files are there already.
        """
        if self._run is None:
            raise InputError(f"{self._folder}: this result was read from files; copy them, or run again")
        names = [name for name in FILES if report or name != REPORT_FILE]
        return files.write_set(
            folder, lambda into: self._make(into, command if report else None), names=names, stale=FILES, force=force
        )

    def report(self, path: str | os.PathLike[str], command: str = "") -> Path:
        """Writes the self-contained HTML report to `path` and returns it. Raises OSError where that is impossible."""
        return files.write(path, self._page(command))

    def lives(self) -> Lives | None:
        """Lives of packets, where `run.trace` asks for them: `wirespeed.lives.write` makes a trace of them.

        None without, and for a result that was read from files.
        """
        told = self._run.trace_json if self._run is not None else None
        return None if told is None else json.loads(told)

    def slowest(self) -> Slowest | None:
        """The slowest hundredth of the sampled packets beside all of them; None where too few were carried."""
        return slowest(self.packets)

    def _page(self, command: str) -> str:
        from wirespeed.report import page  # drawing costs half a second to import; only who reports pays for it

        told, from_where = assumed.listed(self.scenario), origins.origins(self.summary, self.scenario)
        return page(self.shown, self.scenario, command, told, self.slowest(), from_where.work, from_where.tables)

    @property
    def shown(self) -> Summary:
        """The summary as people see it: with points at lower loads, where they were run, and itself as its curve."""
        if not self.lower_loads or status(self.summary) != "loses":
            return self.summary
        sojourn: Any = self.summary.get("sojourn_ns") or {}
        names = ("load", "offered_mpps", "carried_mpps", "loss", "lost", "packets", "warmup_packets")
        own: dict[str, Any] = {name: self.summary.get(name) for name in names}
        own |= {"p50_ns": sojourn.get("p50"), "p99_ns": sojourn.get("p99")}
        return cast(Summary, {**self.summary, "curve": [*self.lower_loads, cast(CurvePoint, own)]})

    def _make(self, into: Path, command: str | None) -> list[str]:
        """Writes the files into an empty folder; the summary, with checksums of the others, comes last."""
        assert self._run is not None
        made = [Path(path).name for path in self._run.write(str(into)) if Path(path).name != SUMMARY_FILE]
        read_back = {name: files.digest((into / name).read_bytes()) for name in made}
        document = stored.sealed_with(self.summary, self.scenario, read_back)
        (into / SUMMARY_FILE).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if command is not None:
            (into / REPORT_FILE).write_text(self._page(command), encoding="utf-8")
            made.append(REPORT_FILE)
        return [*made, SUMMARY_FILE]

    def plot(self, what: str = "sojourn") -> altair.TopLevelMixin:
        """A chart for a notebook (Altair): the distribution of the sojourn, or another one.

        `what` is "sojourn", "rate over load", "sojourn over load", "rate over time", "machine over time", "mbufs over
        time" or "cache over time". Raises InputError for one that this run has not, with those that it has.
        """
        from wirespeed.report import plot

        return plot(self.summary, what)

    def _repr_html_(self) -> str:
        from wirespeed.report.notebook import card

        return card(self.summary)

    def __repr__(self) -> str:
        state = " (partial)" if self.partial else ""
        return f"<wirespeed result {self.run_id}{state}: {headline(self.summary)}>"


class Comparison:
    """Two runs side by side: `metrics` by name, each with both values, the change and its significance."""

    def __init__(self, document: str, differing: Sequence[Differing] = ()) -> None:
        """`document` is the comparison as the extension writes it, in JSON; `differing` are settings of the traffic."""
        self.document: dict[str, Any] = json.loads(document)
        self.differing = [] if self.identical_traffic else list(differing)
        self.document["different_traffic"] = [{"setting": d.path, "a": d.a, "b": d.b} for d in self.differing]
        self.metrics: dict[str, Metric] = {m["metric"]: m for m in self.document["metrics"]}
        for side in self.unmeasured:
            for metric in self.metrics.values():
                metric.update(_without(side))
        if self._is_one_run:
            # Quantiles have no pairs, so that chance is in their half-width even beside themselves.
            for metric in self.metrics.values():
                if q.is_number(metric.get("half_width_pct")):
                    metric["half_width_pct"] = 0.0

    @classmethod
    def of(cls, a: Result, b: Result) -> Comparison:
        """Two runs, and what of their traffic differs."""
        with a.operand() as one, b.operand() as other:
            document = _wirespeed.compare(one, other)
        of_a, of_b = (same_traffic.of_run(each.summary, each.scenario) for each in (a, b))
        return cls(document, same_traffic.differing(of_a, of_b, (a.summary, b.summary)))

    @property
    def _is_one_run(self) -> bool:
        """Whether both sides are the same run: equal ids, equal results, so nothing differs, nor could by chance."""
        ids = [(self.document.get(side) or {}).get("run_id") for side in SIDES]
        return bool(ids[0]) and ids[0] == ids[1] and all(m.get("a") == m.get("b") for m in self.metrics.values())

    @property
    def unmeasured(self) -> tuple[Side, ...]:
        """The sides whose run measured no packet, as one that is stopped in its warm-up: then nothing is compared."""
        return tuple(side for side in SIDES if (self.document.get(side) or {}).get("packets") == 0)

    @property
    def without_loss(self) -> tuple[Side, ...]:
        """The sides whose run measured packets, but too few to lose one: of them no loss is known."""
        loss = self.metrics.get("loss")
        if loss is None:
            return ()
        return tuple(side for side in SIDES if not q.is_number(loss.get(side)) and side not in self.unmeasured)

    @property
    def identical_traffic(self) -> bool:
        """Whether both runs saw the same packets at the same times: only then differences are due to the machine."""
        return bool(self.document.get("identical_traffic"))

    def name(self, side: str) -> str:
        """The name and run id of side `a` or `b`."""
        about = self.document.get(side) or {}
        return f"{about.get('name', side)} ({about.get('run_id', '?')})"

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Metric, both values, the change with its half-width and a word on it, where not both values are zero.

        None where a run measured nothing.
        """
        if self.unmeasured:
            return []
        return [
            (name, value_text(m, m.get("a")), value_text(m, m.get("b")), change_text(m), judgement(m))
            for name, m in self.metrics.items()
            if m.get("a") or m.get("b")
        ]

    def _repr_html_(self) -> str:
        head = "".join(f"<th style='text-align:left'>{h}</th>" for h in ("metric", "a", "b", "change", ""))
        body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in self.rows())
        if nothing := nothing_text(self):
            return f"<p>a: {escape(self.name('a'))}<br>b: {escape(self.name('b'))}</p><p><b>{escape(nothing)}</b></p>"
        told = traffic_text(self)
        note = f"<p><b>{escape(told)}</b></p>" if told else ""
        return (
            f"<p>a: {escape(self.name('a'))}<br>b: {escape(self.name('b'))}</p>{note}"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    def __repr__(self) -> str:
        if nothing := nothing_text(self):
            return f"<wirespeed comparison: {nothing}>"
        changed = [f"{name} {change_text(m)}" for name, m in self.metrics.items() if m.get("significant")]
        return f"<wirespeed comparison: {', '.join(changed) or 'no significant difference'}>"


def nothing_text(pair: Comparison) -> str | None:
    """That there is nothing to compare, and which run measured nothing; None where both measured."""
    if not pair.unmeasured:
        return None
    who = "Neither run" if len(pair.unmeasured) == len(SIDES) else pair.unmeasured[0]
    measured = "measured a packet" if len(pair.unmeasured) == len(SIDES) else "measured no packet"
    return f"{who} {measured} after warm-up: there is nothing to compare."


def traffic_text(pair: Comparison) -> str | None:
    """That both did not see the same packets, and what differs; None where they did, or nothing is compared."""
    if pair.identical_traffic or pair.unmeasured:
        return None
    if not pair.differing:
        return (
            "The runs saw other packets of the same traffic (seed, length or warm-up differ, or what a search found): "
            "half-widths are wider for it."
        )
    return (
        "The runs did not see the same traffic: differences are not due to the machine alone. What differs: "
        f"{', '.join(each.text for each in pair.differing)}."
    )


def _without(side: Side) -> Metric:
    """What a metric has of a run that measured nothing. Of it the time for each reason is reported as 0."""
    none: Metric = {"change_pct": None, "half_width_pct": None, "significant": False, "better": None}
    return none | (Metric(a=None) if side == "a" else Metric(b=None, b_half_width=None))


def value_text(metric: Metric, value: float | None) -> str:
    """A metric's value in its unit."""
    unit = metric.get("unit")
    if unit == "ns":
        return q.duration(value)
    if unit == "Mpps":
        return q.mpps(value)
    return q.probability(value) if metric.get("metric") == "loss" else f"{q.digits(value)} {unit or ''}".rstrip()


def change_text(metric: Metric) -> str:
    """The change in percent with its half-width."""
    percent, wide = metric.get("change_pct"), metric.get("half_width_pct")
    if percent is None:
        if not _both_known(metric):
            return q.MISSING
        return "from zero" if metric.get("b") else "0 %"
    if not wide:
        return q.change(percent)
    # Beside its width a change that rounds to nothing is none.
    if percent >= q.MULTIPLE:
        return f"{q.change(percent)} ± {q.digits(wide / 100, 2)}"
    told = "0" if abs(percent) < q.LEAST_CHANGE else q.change(percent).removesuffix(" %")
    return f"{told} ± {q.digits(wide, 2)} %"


def judgement(metric: Metric) -> str:
    """Better, worse, other (a change that is neither), or noise; nothing where a value lacks."""
    if not _both_known(metric):
        return ""
    if metric.get("a") == metric.get("b"):
        return "same"
    if not metric.get("significant"):
        return "noise"
    return {True: "better", False: "worse"}.get(metric.get("better"), "differs")  # type: ignore[arg-type]


def _both_known(metric: Metric) -> bool:
    return q.is_number(metric.get("a")) and q.is_number(metric.get("b"))


def read(folder: str | os.PathLike[str]) -> Result:
    """A result that `Result.write` or `--out` wrote; or its summary alone, a file, as a baseline that is kept.

    Its tables are read from Parquet on demand, by pyarrow or polars; a summary alone has none, and reading one raises
    InputError. Raises InputError where the folder holds no result, where a file was changed or damaged since it was
    written, and where files of two runs are mixed.
    """
    base = Path(folder)
    if base.is_file():
        kept = stored.lone(base)
        missing = {name: Table(name, _Missing(base, name)) for name in TABLES}
        return Result(json.dumps(kept.measured, ensure_ascii=False), kept.scenario, missing, None, base)
    found = stored.load(folder)
    tables = {
        name: Table(name, ParquetStream(str(base / f"{name}.parquet"), found.digests.get(f"{name}.parquet")))
        for name in TABLES
    }
    return Result(json.dumps(found.measured, ensure_ascii=False), found.scenario, tables, None, base)


@dataclass(frozen=True, slots=True)
class _Missing:
    """The table of a run of which only the summary is there."""

    path: Path
    name: str

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        raise InputError(f"{self.path}: is a summary alone, without the table `{self.name}`; read the run's folder")
