"""A study, judged before anything runs: its points, what each sets, and the key that each run is known by."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from wirespeed import _wirespeed, files, scenarios
from wirespeed.errors import InputError, nearest
from wirespeed.sweep import axes as space
from wirespeed.sweep import design, until, work
from wirespeed.sweep.axes import Axis, Level, Value
from wirespeed.sweep.design import Point
from wirespeed.sweep.metrics import SEARCHED, Metric, metric
from wirespeed.sweep.until import Replications
from wirespeed.sweep.work import Files, Task

PathLike = str | os.PathLike[str]
# Options that say what a setting says, with its path.
_OPTIONS: Final = {"capture": "traffic.capture", "table": "function.forward.table"}
SHOWN: Final = ("carried_mpps", "loss", "p99")

# One title for all points: those that are the same scenario by other settings are the same run.
_TITLE: Final = ("name=a point of a study",)


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked for, as the command line, a study file or a caller has it."""

    scenario: PathLike
    vary: Iterable[str] | Mapping[str, Any] | None = None
    cases: Mapping[str, scenarios.Overrides] = field(default_factory=dict)
    set: scenarios.Overrides = None
    design: str = "grid"
    samples: int | None = None
    seed: int | None = None
    replications: int | None = None
    until: Sequence[str] = ()
    most_replications: int | None = None
    metrics: Sequence[str] = ()
    capture: PathLike | None = None
    table: PathLike | None = None
    near: scenarios.Overrides = ()
    """Settings of a machine that all points begin near, of the scenario's own where there are none: it warms up from
    nothing, once a seed, and the others take over what its caches hold. With None each point warms up from
    nothing."""


class Plan:
    """The points of a study and their runs."""

    def __init__(self, ask: Ask) -> None:
        """Raises InputError for what cannot be studied: see `wirespeed.sweep`."""
        if isinstance(ask.until, str) or isinstance(ask.metrics, str):
            raise InputError("until, metrics: must be lists of texts")
        if ask.seed is not None and ask.seed < 0:
            raise InputError(f"--seed {ask.seed}: must be 0 or more")
        self.replications: Replications = until.replications(ask.replications, ask.until, ask.most_replications)
        self.metrics: list[Metric] = [metric(name) for name in _metrics(ask)]
        self._found = scenarios.find(ask.scenario)
        self._files = {name: None if path is None else os.fspath(path) for name, path in _files(ask).items()}
        self._digests: dict[str, str] = {}
        self._lacking: dict[str, str | None] = {}
        given = [*self._found.overrides, *scenarios.overrides(ask.set)]
        search = _search(self.metrics)
        self.set = given if search is None else [*given, f'run.search="{search}"']
        self.ask = ask
        self.axes: list[Axis] = [*space.cases(ask.cases), *space.given(ask.vary, ask.design != "grid")]
        options: dict[str, tuple[str, object]] = {
            path: (f"--{name}", self._files[name]) for name, path in _OPTIONS.items() if self._files[name] is not None
        }
        if search is not None:
            options["run.search"] = (f"--metric {search}", search)
        space.judge(self.axes, given, options, self.replications.most > 1)
        touched = {override.partition("=")[0].strip() for override in given}.union(*(axis.paths for axis in self.axes))
        # A point is a run: the scenario's curve over load would be eight more.
        self._first = [] if "run.curve" in touched else ["run.curve=[]"]
        if ask.seed is not None and ask.design == "grid":
            raise InputError(
                f"--seed {ask.seed}: draws the samples of --design latin and sobol, and a grid has none; that of the "
                f"simulation is --set run.seed={ask.seed}"
            )
        self._base = self._resolve((), title=())
        self.base = tomllib.loads(self._base)
        near = None if ask.near is None else scenarios.overrides(ask.near)
        # A title may name files by where they lie.
        near = None if near is None else [*near, 'name="what points begin near"']
        self._near = "" if near is None else _wirespeed.Scenario(self._base, "<near>", near).resolved
        self.points: list[Point] = design.points(self.axes, ask.design, ask.samples, ask.seed or 0)
        self._resolved: list[tuple[str, str | None]] = [self._judged(point) for point in self.points]
        self._refuse()

    @property
    def files(self) -> Files:
        """The files that runs need, with their sizes."""
        return tuple((path, Path(path).stat().st_size) for path in sorted(self._digests))

    @property
    def sound(self) -> list[int]:
        """The points that can start."""
        return [place for place, (_, why) in enumerate(self._resolved) if why is None]

    def why_not(self, place: int) -> str | None:
        """Why a point cannot start."""
        return self._resolved[place][1]

    def values(self, place: int) -> dict[str, Value]:
        """What is varied at a point: values by the axis' name."""
        return {axis.name: at.value for axis, at in zip(self.axes, self.points[place], strict=True)}

    def overrides(self, place: int) -> list[str]:
        """What a point adds to the scenario."""
        return [override for at in self.points[place] for override in at.overrides]

    def replays(self, place: int) -> bool:
        """Whether a point's traffic is a capture in rounds, which every seed starts at the first packet."""
        traffic = tomllib.loads(self._resolved[place][0]).get("traffic", {})
        return "capture" in traffic and "rounds" in traffic

    def seed(self, place: int, replication: int) -> int:
        """The seed of a run."""
        return until.seed(tomllib.loads(self._resolved[place][0])["run"].get("seed", 0), replication)

    def task(self, place: int, replication: int) -> Task:
        """A run of a sound point: its scenario with the replication's seed, and its key."""
        text = self._resolved[place][0]
        if replication:
            text = _wirespeed.Scenario(text, "<point>", [f"run.seed={self.seed(place, replication)}"]).resolved
        known, inputs = self._by_content(text)
        build = work.build()
        near = "\n" + json.dumps(self._by_content(self._near)[0], sort_keys=True) if self._near else ""
        key = files.digest(f"{build}\n{json.dumps(known, sort_keys=True)}{near}".encode())
        return Task(key, text, build, "\n".join(sorted(inputs)), self._near)

    def _by_content(self, text: str) -> tuple[dict[str, Any], list[str]]:
        """A resolved scenario with the content of its files in place of their paths; and each path with its content."""
        known = tomllib.loads(text)
        inputs = []
        for holder, name, path in _named(known):
            digest = self._digest(path)
            holder[name] = digest  # whatever the file is called
            inputs.append(f"{path} {digest}")
        return known, inputs

    def document(self) -> dict[str, Any]:
        """What was asked for, as JSON."""
        ask = self.ask
        return {
            "scenario": os.fspath(ask.scenario) if "\n" not in os.fspath(ask.scenario) else "<text>",
            "name": self.base.get("name", ""),
            "set": self.set,
            "capture": self._files["capture"],
            "table": self._files["table"],
            "design": ask.design,
            "samples": ask.samples,
            "seed": ask.seed or 0,
            "replications": [self.replications.least, self.replications.most],
            "until": [each.text for each in self.replications.until],
            "axes": [
                {
                    "name": axis.name,
                    "values": [level.value for level in axis.levels],
                    "ends": axis.ends,
                    "overrides": [list(level.overrides) for level in axis.levels],
                }
                for axis in self.axes
            ],
            "points": len(self.points),
            "metrics": [each.name for each in self.metrics],
            "build": work.build(),
        }

    def _resolve(self, overrides: Sequence[str], title: Sequence[str] = _TITLE) -> str:
        given = self._files
        return _wirespeed.Scenario(
            self._found.text,
            self._found.origin,
            [*self._first, *self.set, *overrides, *title],
            capture=given["capture"],
            table=given["table"],
        ).resolved

    def _judged(self, point: Point) -> tuple[str, str | None]:
        try:
            text = self._resolve([override for at in point for override in at.overrides])
        except InputError as e:
            return "", str(e)
        return text, self._lacks(text)

    def _lacks(self, text: str) -> str | None:
        """What a resolved scenario names that is not there: files are opened, and profiles looked up, by runs only."""
        document = tomllib.loads(text)
        for _, _, path in _named(document):
            if path not in self._lacking:
                self._lacking[path] = _unreadable(Path(path))
            if (why := self._lacking[path]) is not None:
                return why
        profile = document.get("traffic", {}).get("profile")
        return None if profile is None else _no_profile(profile)

    def _refuse(self) -> None:
        """Raises InputError for a level that no point makes sound; a combination that cannot start is no mistake."""
        own = self._lacks(self._base)
        if own is not None and all(why == own for _, why in self._resolved):
            raise InputError(own)
        for place, axis in enumerate(self.axes):
            starts: dict[Level, bool] = {}
            for point, (_, why) in zip(self.points, self._resolved, strict=True):
                starts[point[place]] = starts.get(point[place], False) or why is None
            # Of an interval a part may be out of reach.
            for level in (level for level, starts_somewhere in starts.items() if not starts_somewhere):
                alone = self._judged((level,))[1]
                if alone is not None and (axis.ends is None or not self.sound):
                    raise InputError(f"{space.OPTION} {axis.name}, value {level.value}: {alone}")
        if not self.sound:
            raise InputError(f"no point of the study can start; of the first: {self._resolved[0][1]}")

    def _digest(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = files.digest_of(path)
        return self._digests[path]


def read(path: PathLike) -> Ask | None:
    """A study file; None for a file that is none (it has no `scenario`). Raises InputError for a wrong one.

    Relative paths in it start at its folder.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8") if file.suffix == ".toml" and file.is_file() else ""
        document = tomllib.loads(text)
    except (OSError, ValueError):
        return None  # as a scenario it is told what is wrong with it
    if "scenario" not in document:
        return None
    _wirespeed.refuse_counted_masks(text, str(file))
    allowed = [each.name for each in fields(Ask)]
    for name in document:
        if name not in allowed:
            raise InputError(f"{file}: {name}: must be one of {', '.join(allowed)}{nearest(name, allowed)}")
    kinds = {"vary": dict, "cases": dict, "set": dict, "near": dict, "until": list, "metrics": list}
    kinds |= {"design": str, "scenario": str, "capture": str, "table": str}
    for name, value in document.items():
        wanted = kinds.get(name, int)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise InputError(f"{file}: {name} = {value!r}: must be {_KINDS[wanted]}")
    for name, bundle in document.get("cases", {}).items():
        if not isinstance(bundle, dict):
            raise InputError(f"{file}: cases.{name}: must be a table of settings")
        document["cases"][name] = scenarios.leaves(bundle, f"cases.{name}")
    for name in ("vary", "set", "near"):
        if name in document:
            document[name] = scenarios.leaves(document[name], name)
    for name in ("scenario", "capture", "table"):
        beside = file.parent / str(document.get(name, ""))
        if name in document and beside.is_file():
            document[name] = str(beside)
    return Ask(**document)


def _named(document: dict[str, Any]) -> Iterator[tuple[Any, Any, str]]:
    """The files that a resolved scenario names, which are absolute there: what holds each, under which name, its path.

    Which settings are files is Rust's to say; a `*` in a path stands for each of a list.
    """
    for path in _wirespeed.file_settings():
        holders: list[Any] = [document]
        *steps, last = path.split(".")
        for step in steps:
            holders = [inner for holder in holders for inner in _inner(holder, step)]
        for holder in holders:
            names = range(len(holder)) if last == "*" else [last] if last in holder else []
            yield from ((holder, name, holder[name]) for name in names if str(holder[name]).startswith("/"))


def _inner(holder: Any, step: str) -> list[Any]:
    found = holder if step == "*" else [holder[step]] if step in holder else []
    return [each for each in found if isinstance(each, dict | list)]


def _unreadable(path: Path) -> str | None:
    if not path.exists():
        return f"{path}: no such file"
    if not path.is_file():
        return f"{path}: is no regular file, which all runs of a study could read; write it to one"
    return None if os.access(path, os.R_OK) else f"{path}: may not be read"


def _no_profile(name: str) -> str | None:
    """Why a profile is none that is shipped; paths of files have an extension."""
    shipped = [each for kind, each, _ in _wirespeed.presets() if kind == "traffic"]
    if Path(name).suffix or name in shipped:
        return None
    return (
        f"traffic.profile {name!r}: no shipped profile has that name{nearest(name, shipped)}; shipped are "
        f"{', '.join(shipped)}, and a file of your own is named with its extension"
    )


_KINDS: Final = {dict: "a table", list: "a list", str: "a text", int: "a whole number"}


def _files(ask: Ask) -> dict[str, PathLike | None]:
    return {"capture": ask.capture, "table": ask.table}


def _metrics(ask: Ask) -> list[str]:
    wanted = [*ask.metrics, *(until.parse(text).metric.name for text in ask.until)]
    return list(dict.fromkeys(wanted or SHOWN))


def _search(metrics: Sequence[Metric]) -> str | None:
    """A highest rate is searched at each point where it is wanted."""
    wanted = [each.name for each in metrics if each.name in SEARCHED]
    if len(wanted) > 1:
        raise InputError("--metric ndr and --metric pdr: a point searches one of them; leave one out")
    return wanted[0] if wanted else None
