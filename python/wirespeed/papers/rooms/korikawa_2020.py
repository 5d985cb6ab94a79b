"""Korikawa, Kawabata, He, Oki: LLC slices and interleaved 3D-stacked DRAM, IEEE Access 2020.

Three architectures by the model `studies::slices`; readings and axes are in `papers/2020-access-korikawa/study.toml`.
"""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from wirespeed import _wirespeed
from wirespeed import quantities as q
from wirespeed.papers import Figure, Measured, Outcome, Paper, Part, Request, fact, figures

ARCHITECTURES: Final = {"proposed": "Proposed", "no_llc": "Without LLC", "shared_llc": "With LLC"}
# A hue each in every figure, and shades of it where one has several lines.
_HUES: Final = {
    "Proposed": ("#2f5d8c", "#5b8fc4", "#9cc0e4"),
    "Without LLC": ("#d96c06", "#f39a48", "#fbc998"),
    "With LLC": ("#b3261e", "#dc6a64", "#f0b0ac"),
}
_SHORT: Final = {"proposed": "proposed", "no_llc": "none", "shared_llc": "shared"}

# What "worse" means, of each of the three measures.
_MEASURES: Final[Mapping[str, tuple[str, int]]] = {
    "blocking": ("blocking", 1),
    "wait": ("wait_ns", 1),
    "throughput": ("throughput_per_us", -1),
}


_OF_ENTRIES: Final = (
    "entries-worse",
    "entries-flatten",
    "entries-flatten-throughput",
    "hits-fall",
    "small-table",
    "benefit-falls",
    "none-overtakes",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A point of a figure: architecture and what is swept."""

    architecture: str
    entries_per_line: int = 32
    slices: int = 28
    cores: int = 28
    alpha: float = 0.83
    entries: int = 20_000
    outstanding: int = 1
    rho: float = 0.7
    limit: int = 100
    skip: float | None = None
    """The LLC miss rate from which on the application skips the LLC; never if None."""


class Study:
    """The settings of a reading, and what came of them."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.parameters = request.parameters("study.toml")
        self._default: dict[str, Any] = json.loads(_wirespeed.slices_spec())
        self._found: dict[tuple[Setting, bool], dict[str, Any]] = {}

    def spec(self, setting: Setting) -> dict[str, Any]:
        """The specification of a setting."""
        spec = copy.deepcopy(self._default)
        spec["architecture"] = setting.architecture
        spec["reading"] = self.parameters["readings"][self._request.reading]
        spec["line_bytes"] = setting.entries_per_line * spec["entry_bytes"]
        spec["outstanding"], spec["limit"] = setting.outstanding, setting.limit
        spec["applications"][0] |= {
            "cores": setting.cores,
            "slices": setting.slices,
            "alpha": setting.alpha,
            "entries": setting.entries,
            "rho": setting.rho,
        }
        if setting.skip is not None:
            spec["applications"][0]["skip"] = {"threshold": setting.skip}
        if self._request.real_size:
            for level in ("l1", "l2", "slice", "shared"):
                spec["caches"][level] |= self.parameters["real_size"][level]
        return spec

    def run(self, settings: Iterable[Setting], careful: bool = False) -> None:
        """Simulates what was not yet; `careful` takes the many and long runs."""
        wanted: list[tuple[Setting, bool, str, str]] = []
        for setting in dict.fromkeys(settings):
            if (setting, careful) in self._found:
                continue
            spec, runs = self.spec(setting), 1
            if self._request.real_size:
                spec["requests"] = self.parameters["real_size"]["requests"]
            else:
                length = self.parameters["paper"]
                runs = length["runs"] if careful else length["figure_runs"]
                spec["requests"] = length["requests"] if careful else length["figure_requests"]
            point = {"spec": spec, "seed": self._request.seed, "runs": runs}
            key = self._request.kept.key(point)
            if (kept := self._request.kept.get(key)) is not None:
                self._found[setting, careful] = kept
            else:
                wanted.append((setting, careful, key, json.dumps(point)))
        done = 0

        def keep(place: int, outcome: str) -> None:
            nonlocal done
            setting, careful, key, _ = wanted[place]
            self._found[setting, careful] = json.loads(outcome)
            self._request.kept.add(key, self._found[setting, careful])
            done += 1
            self._request.progress("points", done, len(wanted), f"reading {self._request.reading}")

        if wanted:
            self._request.progress("points", 0, len(wanted), f"reading {self._request.reading}")
            _wirespeed.run_slices([point for *_, point in wanted], keep, self._request.threads)

    def of(self, setting: Setting, careful: bool = False) -> dict[str, Any]:
        """The outcome of a setting that was run."""
        return self._found[setting, careful]

    def points(self) -> list[dict[str, Any]]:
        """Every outcome as a row, with its setting."""
        rows = []
        for (setting, careful), outcome in self._found.items():
            row: dict[str, Any] = {name: getattr(setting, name) for name in Setting.__slots__}
            row["by"], row["careful"] = ARCHITECTURES[setting.architecture], careful
            for name, value in outcome.items():
                if isinstance(value, dict):
                    row[name], row[f"{name}_half_width"] = value["value"], value["half_width"]
                elif name == "parts_ns":
                    row |= {f"ns_{part}": ns for part, ns in value}
                elif name not in {"notes", "skipping", "applications"}:
                    row[name] = value
            rows.append(row)
        return rows


def measure(request: Request) -> Outcome:
    """Runs what the claims need, judges them, and draws the figures that all of it gives."""
    study = Study(request)
    axes, scale = study.parameters["axes"], _Scale(study.parameters, request.real_size)
    base = Setting("proposed", entries=scale.entries(20_000))
    each = list(ARCHITECTURES)

    def with_(**changes: Any) -> list[Setting]:
        return [_changed(base, architecture=architecture, **changes) for architecture in each]

    by_line = {n: with_(entries_per_line=n) for n in axes["entries_per_line"]}
    by_slices = {alpha: [_changed(base, slices=n, alpha=alpha) for n in axes["slices"]] for alpha in axes["alphas"]}
    at_cores = {
        f"Proposed, L = {n}": [_changed(base, cores=c, slices=n) for c in axes["cores"]]
        for n in axes["slices_at_cores"]
    } | {ARCHITECTURES[a]: [_changed(base, architecture=a, cores=c) for c in axes["cores"]] for a in each[1:]}
    by_entries = {a: [_changed(base, architecture=a, entries=scale.entries(n)) for n in axes["entries"]] for a in each}
    extra = study.parameters["interleaving"]
    acting = [
        _changed(base, architecture=a, outstanding=o, rho=rho, limit=extra["limit"])
        for a in ("proposed", "no_llc")
        for o in extra["outstanding"]
        for rho in extra["rho"]
    ]

    out: dict[str, Measured] = {}
    numbers = [id for id in request.claims if id.split("-")[0] in {"throughput", "wait", "blocking", "latency"}]
    if numbers:
        study.run(with_(), careful=True)
        _numbers(out, study, with_(), "")
        if request.real_size:
            small = [_changed(s, entries=study.parameters["real_size"]["small_entries"]) for s in with_()]
            study.run(small, careful=True)
            _numbers(out, study, small, "-small")
    if request.wants("line-worse", "line-best", "line-hits-fall"):
        study.run(s for row in by_line.values() for s in row)
        _lines(out, study, by_line)
    if request.wants("slices-better", "slices-steep", "slices-half", "alpha-better"):
        study.run(s for row in by_slices.values() for s in row)
        _slices(out, study, by_slices)
    if request.wants("cores-better", "slices-at-cores", "none-beats-4", "16-beats-none", "28-beats-none"):
        study.run(s for row in at_cores.values() for s in row)
        _cores(out, study, at_cores)
    if request.wants(*_OF_ENTRIES):
        study.run(s for row in by_entries.values() for s in row)
        _entries(out, study, by_entries)
    if request.wants("skip-as-none"):
        large = [scale.entries(n) for n in axes["skipping_entries"]]
        skipping = [_changed(base, entries=n, skip=study.parameters["skipping"]["threshold"]) for n in large]
        none = [_changed(base, architecture="no_llc", entries=n) for n in large]
        study.run([*skipping, *none])
        _skipping(out, study, skipping, none)
    if request.wants("interleaving-used"):
        study.run(with_())
        study.run(acting)
        _interleaving(out, study, with_(), acting)
    if request.real_size and len(request.claims) == len(request.paper.expected(True)):
        # The smaller table is swept too: its points and figures stand beside the others.
        small_entries = study.parameters["real_size"]["small_entries"]
        ratio = small_entries / base.entries
        everything = [s for rows in (by_line, by_slices, at_cores, by_entries) for row in rows.values() for s in row]
        study.run(_changed(s, entries=round(s.entries * ratio)) for s in everything)
    points = study.points()
    return Outcome(
        out,
        points,
        _figures(points, base, {} if request.real_size else _printed(request)),
        _notes(request),
        tables={"numbers": _table(out)},
    )


def _table(out: Mapping[str, Measured]) -> list[dict[str, Any]]:
    """The nine numbers at B/b = 32 in three rows; nothing where they were not asked for."""

    def cell(id: str, unit: str) -> str:
        number, wide = out[id].ours, out[id].half_width
        return f"{q.digits(number) if q.is_number(number) else q.MISSING} ± {q.digits(wide, 2)} {unit}"

    return [
        {
            "architecture": words,
            "throughput": cell(f"throughput-{_SHORT[name]}", "Gbps"),
            "wait": cell(f"wait-{_SHORT[name]}", "ns"),
            "blocking": cell(f"blocking-{_SHORT[name]}", "%"),
        }
        for name, words in ARCHITECTURES.items()
        if f"throughput-{_SHORT[name]}" in out
    ]


class _Scale:
    """Table sizes: the paper's, or those of the same ratio to the LLC at real size."""

    def __init__(self, parameters: Mapping[str, Any], real_size: bool) -> None:
        self._factor = parameters["real_size"]["entries"] / parameters["paper"]["entries"] if real_size else 1.0

    def entries(self, of_paper: int) -> int:
        return round(of_paper * self._factor)


def _changed(setting: Setting, **changes: Any) -> Setting:
    return Setting(**({name: getattr(setting, name) for name in Setting.__slots__} | changes))


def _numbers(out: dict[str, Measured], study: Study, settings: Sequence[Setting], suffix: str) -> None:
    found = {_SHORT[s.architecture]: study.of(s, careful=True) for s in settings}
    for name, outcome in found.items():
        blocking, wait, rate = outcome["blocking"], outcome["wait_ns"], outcome["throughput_gbps"]
        out[f"throughput-{name}{suffix}"] = Measured(rate["value"], rate["half_width"], note=_mark(outcome))
        out[f"wait-{name}{suffix}"] = Measured(wait["value"], wait["half_width"], note=_mark(outcome))
        out[f"blocking-{name}{suffix}"] = Measured(
            blocking["value"] * 100, blocking["half_width"] * 100, note=_mark(outcome)
        )
    for against in ("shared", "none"):
        ours, other = found["proposed"], found[against]
        for id, field, sign in (
            ("latency-cut", "wait_ns", -1),
            ("throughput-gain", "throughput_per_us", 1),
            ("blocking-cut", "blocking", -1),
        ):
            a, b = ours[field], other[field]
            if not b["value"]:
                out[f"{id}-{against}{suffix}"] = Measured(note="nothing is blocked in either")
                continue
            ratio = a["value"] / b["value"]
            spread = ratio * math.hypot(_relative(a), _relative(b))
            change = sign * (ratio - 1) * 100
            out[f"{id}-{against}{suffix}"] = Measured(change, spread * 100, holds=Part(change, spread * 100))


def _relative(figure: Mapping[str, float]) -> float:
    return figure["half_width"] / figure["value"] if figure["value"] else 0.0


def _mark(outcome: Mapping[str, Any]) -> str:
    limit = outcome["saturated"]
    words = [] if limit is None else ["the limit K blocks" if limit == "limit" else f"saturated: {limit} are busy"]
    return "; ".join(words + ([] if outcome["steady"] else ["waits still have a trend"]))


def _worse(study: Study, a: Setting, b: Setting, measure: str, no_better: bool = True) -> Part:
    """That b is worse than a; with `no_better` the loose rule takes noise for it."""
    field, sign = _MEASURES[measure]
    return _more(study.of(a)[field], study.of(b)[field], sign, no_better)


def _more(x: Mapping[str, float], y: Mapping[str, float], sign: int = 1, no_less: bool = False) -> Part:
    """That y is above x, or with a sign of -1 below."""
    noise = math.hypot(x["half_width"], y["half_width"])
    return Part(sign * (y["value"] - x["value"]), noise, noise_counts_for_it=no_less)


def _monotone(
    study: Study, rows: Mapping[str, Sequence[Setting]], axis: Callable[[Setting], object]
) -> dict[str, Part]:
    """Of each row and measure: every step is worse, and the wait from end to end."""
    parts = {}
    for name, row in rows.items():
        for measure in _MEASURES:
            for a, b in pairwise(row):
                parts[f"{name} {measure} {axis(a)} to {axis(b)}"] = _worse(study, a, b, measure)
        parts[f"{name} wait from end to end"] = _worse(study, row[0], row[-1], "wait", no_better=False)
    return parts


def _beats(study: Study, ours: Sequence[Setting], others: Sequence[Setting], axis: str) -> dict[str, Part]:
    """That the mean wait is lower and the mean throughput higher, setting by setting."""
    parts = {}
    for a, b in zip(ours, others, strict=True):
        parts[f"{axis} = {getattr(a, axis)}: wait"] = _worse(study, a, b, "wait", no_better=False)
        parts[f"{axis} = {getattr(a, axis)}: throughput"] = _worse(study, a, b, "throughput")
    return parts


def _lines(out: dict[str, Measured], study: Study, by_line: Mapping[int, Sequence[Setting]]) -> None:
    rows = {ARCHITECTURES[a]: [row[i] for row in by_line.values()] for i, a in enumerate(ARCHITECTURES)}
    out["line-worse"] = Measured(holds=_monotone(study, rows, lambda s: s.entries_per_line))
    best = _beats(study, rows["Proposed"], rows["Without LLC"], "entries_per_line")
    shared = _beats(study, rows["Proposed"], rows["With LLC"], "entries_per_line")
    out["line-best"] = Measured(holds=best | {f"{name} (shared)": held for name, held in shared.items()})
    out["line-hits-fall"] = Measured(holds=_hits_fall(study, rows, lambda s: s.entries_per_line))


def _hits_fall(
    study: Study, rows: Mapping[str, Sequence[Setting]], axis: Callable[[Setting], object]
) -> dict[str, Part]:
    """Of each row and level of caches: every step hits less."""
    return {
        f"{name}: {level} {axis(a)} to {axis(b)}": _more(study.of(a)[level], study.of(b)[level], -1, no_less=True)
        for name, row in rows.items()
        for level in ("l1_hits", "l2_hits", "llc_hits")
        for a, b in pairwise(row)
        if study.of(a)[level]["value"] is not None and study.of(b)[level]["value"] is not None
    }


def _slices(out: dict[str, Measured], study: Study, by_slices: Mapping[float, Sequence[Setting]]) -> None:
    rows = {f"alpha {alpha:g}": list(reversed(row)) for alpha, row in by_slices.items()}
    out["slices-better"] = Measured(holds=_monotone(study, rows, lambda s: s.slices))
    steep, half, alphas = {}, {}, {}
    for alpha, row in by_slices.items():
        wait = {s.slices: study.of(s)["wait_ns"] for s in row}
        steep[f"alpha {alpha:g}"] = _sum((1 / 7, wait[1]), (-1 / 7 - 1 / 20, wait[8]), (1 / 20, wait[28]))
        rate = {s.slices: study.of(s)["throughput_per_us"] for s in row}
        half[f"alpha {alpha:g}: wait"] = _sum((1.10, wait[28]), (-1, wait[16]))
        half[f"alpha {alpha:g}: throughput"] = _sum((1, rate[16]), (-0.98, rate[28]))
    for (low, worse), (high, better) in pairwise(by_slices.items()):
        for a, b in zip(better, worse, strict=True):
            for measure in _MEASURES:
                alphas[f"L = {a.slices}: {measure}, alpha {low:g} to {high:g}"] = _worse(study, a, b, measure)
    out |= {
        "slices-steep": Measured(holds=steep),
        "slices-half": Measured(holds=half),
        "alpha-better": Measured(holds=alphas),
    }


def _sum(*terms: tuple[float, Mapping[str, float]]) -> Part:
    """That a sum of means, each with its factor, is above 0."""
    return Part(
        sum(factor * mean["value"] for factor, mean in terms),
        math.hypot(*(factor * mean["half_width"] for factor, mean in terms)),
    )


def _cores(out: dict[str, Measured], study: Study, at_cores: Mapping[str, Sequence[Setting]]) -> None:
    rows = {name: list(reversed(row)) for name, row in at_cores.items()}
    out["cores-better"] = Measured(holds=_monotone(study, rows, lambda s: s.cores))
    proposed = {n: at_cores[f"Proposed, L = {n}"] for n in (4, 16, 28)}
    none = at_cores["Without LLC"]
    more = {
        f"C = {a.cores}: L = {a.slices} to {b.slices}, {measure}": _worse(study, b, a, measure)
        for few, many in pairwise((4, 16, 28))
        for a, b in zip(proposed[few], proposed[many], strict=True)
        for measure in _MEASURES
    }
    out |= {
        "slices-at-cores": Measured(holds=more),
        "none-beats-4": Measured(holds=_beats(study, none, proposed[4], "cores")),
        "16-beats-none": Measured(holds=_beats(study, proposed[16], none, "cores")),
        "28-beats-none": Measured(holds=_beats(study, proposed[28], none, "cores")),
    }


def _entries(out: dict[str, Measured], study: Study, by_entries: Mapping[str, Sequence[Setting]]) -> None:
    rows = {ARCHITECTURES[a]: row for a, row in by_entries.items()}
    out["entries-worse"] = Measured(holds=_monotone(study, rows, lambda s: s.entries))
    flatten: dict[str, dict[str, Part]] = {"wait_ns": {}, "blocking": {}, "throughput_per_us": {}}
    for name, row in rows.items():
        x = [s.entries for s in row]
        for field, parts in flatten.items():
            y = [study.of(s)[field] for s in row]
            sign = -1 if field == "throughput_per_us" else 1
            first, last = sign / (x[2] - x[0]), sign / (x[6] - x[4])
            parts[f"{name}: {field}"] = _sum((first, y[2]), (-first, y[0]), (-last, y[6]), (last, y[4]))
    gains = [_gain(study, a, b) for a, b in zip(by_entries["proposed"], by_entries["no_llc"], strict=True)]
    named = [f"{a.entries} to {b.entries}" for a, b in pairwise(by_entries["proposed"][1:])]
    out |= {
        "entries-flatten": Measured(holds=flatten["wait_ns"] | flatten["blocking"]),
        "entries-flatten-throughput": Measured(holds=flatten["throughput_per_us"]),
        "hits-fall": Measured(holds=_hits_fall(study, rows, lambda s: s.entries)),
        "small-table": Measured(
            holds=Part(gains[1]["value"] - 0.10, gains[1]["half_width"]), note=f"wait is {gains[1]['value']:.0%} lower"
        ),
        "benefit-falls": Measured(
            holds={
                words: _more(x, y, -1, no_less=True) for words, (x, y) in zip(named, pairwise(gains[1:]), strict=True)
            },
            note="gain in wait: " + ", ".join(f"{gain['value']:.1%}" for gain in gains),
        ),
        "none-overtakes": Measured(
            holds=Part(-gains[-1]["value"], gains[-1]["half_width"]),
            note=f"Proposed's wait is {gains[-1]['value']:.1%} lower at the largest N",
        ),
    }


def _gain(study: Study, ours: Setting, other: Setting) -> dict[str, float]:
    """By what share the wait is lower, and its half-width."""
    a, b = study.of(ours)["wait_ns"], study.of(other)["wait_ns"]
    ratio = a["value"] / b["value"]
    return {"value": 1 - ratio, "half_width": ratio * math.hypot(_relative(a), _relative(b))}


def _skipping(out: dict[str, Measured], study: Study, proposed: Sequence[Setting], none: Sequence[Setting]) -> None:
    """Where no LLC is faster: an application that skips the LLC waits as long as without one, within 5 %."""
    out["skip-as-none"] = Measured(
        holds={f"N = {a.entries}": _alike(study, a, b, 0.05) for a, b in zip(proposed, none, strict=True)},
        note=", ".join(
            f"{a.entries}: {study.of(a)['wait_ns']['value']:.0f} and {study.of(b)['wait_ns']['value']:.0f} ns"
            for a, b in zip(proposed, none, strict=True)
        ),
    )


def _alike(study: Study, a: Setting, b: Setting, within: float) -> Part:
    gain = _gain(study, a, b)
    return Part(within - abs(gain["value"]), gain["half_width"])


def _interleaving(
    out: dict[str, Measured], study: Study, settings: Sequence[Setting], acting: Sequence[Setting]
) -> None:
    shares = [study.of(s)["interleaved"]["value"] or 0.0 for s in settings]
    most = max(acting, key=lambda s: study.of(s)["interleaved"]["value"] or 0.0)
    found = study.of(most)
    out["interleaving-used"] = Measured(
        holds=fact(max(shares) > 0),
        note=f"{max(shares):.2%} of requests are interleaved: blocking cores leave a channel idle; with "
        f"{most.outstanding} outstanding a core, rho {most.rho:g} and {ARCHITECTURES[most.architecture]}, "
        f"{found['interleaved']['value']:.0%} are",
    )


def _printed(request: Request) -> dict[str, dict[str, float]]:
    """The nine numbers that the paper prints, all of one setting: by architecture and measure."""
    numbers = request.paper.printed()
    return {
        architecture: {
            "blocking": numbers[f"blocking-{name}"] / 100,
            "wait_ns": numbers[f"wait-{name}"],
            "throughput_gbps": numbers[f"throughput-{name}"],
        }
        for architecture, name in (("proposed", "proposed"), ("no_llc", "none"), ("shared_llc", "shared"))
    }


def _colours(names: Iterable[str]) -> dict[str, str]:
    """The colour of each line of a figure: of its architecture, that of Proposed where its name has none."""
    found: dict[str, str] = {}
    used: Counter[str] = Counter()
    for name in dict.fromkeys(names):
        hue = next((each for each in _HUES if name.startswith(each)), "Proposed")
        found[name] = _HUES[hue][used[hue] % len(_HUES[hue])]
        used[hue] += 1
    return found


def _figures(
    points: Sequence[Mapping[str, Any]], base: Setting, printed: Mapping[str, Mapping[str, float]]
) -> list[Figure]:
    """The paper's figures, as far as their points are there, with the numbers that it prints."""
    drawn = []
    measures = (
        ("blocking", "blocking probability"),
        ("wait_ns", "average effective waiting time, ns"),
        ("throughput_gbps", "throughput of 64-byte packets, Gbps"),
    )
    plain = {name: getattr(base, name) for name in Setting.__slots__ if name != "architecture"}

    def those(*free: str) -> list[dict[str, Any]]:
        fixed = {name: value for name, value in plain.items() if name not in free}
        return [
            dict(point)
            for point in points
            if not point["careful"] and all(point[name] == value for name, value in fixed.items())
        ]

    sweeps: tuple[tuple[int, str, list[dict[str, Any]], Callable[[Mapping[str, Any]], str], str, bool], ...] = (
        (13, "entries_per_line", those("entries_per_line"), lambda p: p["by"], "entries in a cache line", True),
        (
            16,
            "slices",
            [p for p in those("slices", "alpha") if p["architecture"] == "proposed"],
            lambda p: f"alpha {p['alpha']:g}",
            "assigned LLC slices",
            False,
        ),
        (
            19,
            "cores",
            [p for p in those("cores", "slices") if p["slices"] in {4, 16, 28}],
            lambda p: f"{p['by']}, L = {p['slices']}" if p["architecture"] == "proposed" else p["by"],
            "assigned cores",
            False,
        ),
        (22, "entries", those("entries"), lambda p: p["by"], "entries of the table", False),
    )
    for number, axis, rows, by, words, log in sweeps:
        if len({row[axis] for row in rows}) < 3:
            continue
        named = sorted(({**row, "by": by(row)} for row in rows), key=lambda row: (row["by"], row[axis]))
        theirs = [
            {axis: row[axis], "by": row["by"], **printed[row["architecture"]]}
            for row in named
            if printed and all(row[name] == value for name, value in plain.items())
        ]
        colours = _colours(row["by"] for row in named)
        for place, (field, title) in enumerate(measures):
            chart = figures.lines(
                named,
                x=axis,
                y=field,
                by="by",
                x_title=words,
                y_title=title,
                half_width=f"{field}_half_width",
                log_x=log,
                printed=theirs,
                colours=colours,
            )
            drawn.append(Figure(f"fig{number + place}", f"{title} over {words}", chart))
        if number == 22:
            drawn.append(_hit_rates(named, axis, words))
    acting = [p for p in those("outstanding", "rho", "limit") if p["limit"] != base.limit]
    return [*drawn, _acting(acting)] if acting else drawn


def _hit_rates(points: Sequence[Mapping[str, Any]], axis: str, words: str) -> Figure:
    hits = [
        {axis: point[axis], "hits": point[f"{level}_hits"], "by": f"{point['by']}: {level}"}
        for point in points
        for level in ("l1", "l2", "llc")
    ]
    shades = _colours(hit["by"] for hit in hits)
    chart = figures.lines(hits, x=axis, y="hits", by="by", x_title=words, y_title="hit rate", colours=shades)
    return Figure("fig25", "Hit rate of each cache level over entries of the table", chart)


def _acting(points: Sequence[Mapping[str, Any]]) -> Figure:
    named = ({**point, "by": f"{point['by']}, rho {point['rho']:g}"} for point in points)
    rows = sorted(named, key=lambda row: (row["by"], row["outstanding"]))
    chart = figures.lines(
        rows,
        x="outstanding",
        y="interleaved",
        by="by",
        x_title="packets that a core works on at a time",
        y_title="share of memory requests that are interleaved",
        colours=_colours(row["by"] for row in rows),
    )
    return Figure("interleaving", "Where interleaving acts (not in the paper)", chart)


def _notes(request: Request) -> list[str]:
    if request.real_size:
        return ["caches of 64 KiB, 512 KiB and 28 x 1 MiB; tables of 2^27 entries (and 2^24 where it says so)"]
    return ["readings A and B were chosen on the numbers at B/b = 32: those are in-sample, the trends are not"]


PAPER: Final = Paper(
    id="2020-access-korikawa",
    title="Packet Processing Architecture Using Last-Level-Cache Slices and Interleaved 3D-Stacked DRAM",
    authors="T. Korikawa, A. Kawabata, F. He, E. Oki",
    venue="IEEE Access",
    volume="8",
    entry="article",
    year=2020,
    doi="10.1109/ACCESS.2020.2981540",
    readings={
        "literal": "Entries lie in order of popularity, as the text has it; a slice holds 2 lines; hits copy.",
        "A": "Popular entries lie anywhere in the table; a slice holds 2 lines; a hit copies the line, which stays.",
        "B": "As A, but all slices share one LRU of 4096 B and are servers only; a hit moves the line to L1.",
    },
    real_size=True,
    real_size_readings=("A",),
    measure=measure,
)
