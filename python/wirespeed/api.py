"""Running, comparing and inspecting: the calls behind `import wirespeed`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, overload

from wirespeed import _wirespeed, again, assumed, misspelt, same_traffic, scenarios
from wirespeed import predict as predictions
from wirespeed.errors import InputError, each_of
from wirespeed.progress import Bar, Callback
from wirespeed.result import Comparison, Result, read
from wirespeed.scenarios import Overrides
from wirespeed.stored import SUMMARY_FILE, TABLES
from wirespeed.tables import Table

PathLike = str | os.PathLike[str]
Scenario = PathLike | Mapping[str, Any]
"""A TOML file, TOML text, the name of a shipped scenario, or its tables as a mapping."""
Operand = Result | Scenario
Search = Literal["ndr", "pdr"]


def run(
    scenario: Scenario,
    capture: PathLike | None = None,
    table: PathLike | None = None,
    set: Overrides = None,
    seed: int | None = None,
    threads: int | None = None,
    search: Search | None = None,
    progress: Callback | bool | None = None,
    lower_loads: bool = False,
) -> Result:
    """Runs a scenario and returns its summary and tables.

    `scenario` is a TOML file, TOML text, the name of a shipped scenario, or its tables as a mapping:
    `{"traffic": {"load": 0.5}}`. `capture` replaces its traffic and `table` its prefix table. `set` overrides single
    settings: `{"machine.llc.core_ways": 8}`. `search` looks for the highest load without loss ("ndr") or with a small
    one ("pdr"). `progress` is called as `progress(phase, done, total, note)`; True shows a bar on stderr. The points of
    a curve and the trials of a search run on `threads` threads, as many as there are cores if None; the result does not
    depend on it. With `lower_loads` a run that loses packets goes on at lower loads, which its report draws
    (`Result.lower_loads`).

    Raises InputError (a ValueError) for a bad scenario, capture, table or override. Ctrl-C ends the run early and
    returns what there is, with `partial` set; while the inputs are still being read there is nothing, and
    KeyboardInterrupt is raised.

        >>> import wirespeed                                                        # doctest: +SKIP
        >>> result = wirespeed.run("forwarding", set={"machine.llc.core_ways": 8})       # doctest: +SKIP
        >>> result.summary["sojourn_ns"]["p99"], polars.DataFrame(result.packets)   # doctest: +SKIP
    """
    judged = _judged(scenario, capture, table, set, seed, search)
    with Bar() if progress is True else nullcontext() as bar:
        callback = bar if progress is True else (progress or None)
        (finished,) = _wirespeed.run([judged], threads=threads, lower_loads=lower_loads, progress=callback)
    return finished_as_result(finished)


@overload
def compare(
    a: Operand, b: Operand, *, set: Overrides = ..., seed: int | None = ..., threads: int | None = ...
) -> Comparison: ...
@overload
def compare(
    a: Operand,
    b: Operand,
    c: Operand,
    /,
    *others: Operand,
    set: Overrides = ...,
    seed: int | None = ...,
    threads: int | None = ...,
) -> list[Comparison]: ...
def compare(
    a: Operand,
    b: Operand,
    *others: Operand,
    set: Overrides = None,
    seed: int | None = None,
    threads: int | None = None,
) -> Comparison | list[Comparison]:
    """Compares b with a, metric by metric, with the significance of each difference; of more operands each with a.

    Each is a Result, a folder that holds one, its summary alone, or a scenario, which is run first with `set` and
    `seed`, on `threads` threads (as many as there are cores if None). Raises InputError where an operand is none of
    these, and KeyboardInterrupt where Ctrl-C ended a run: nothing is compared then.
    """
    first, *rest = operands([a, b, *others], set, seed, threads)
    found = [Comparison.of(first, each) for each in rest]
    return found if others else found[0]


def operands(
    given: Sequence[Operand],
    set: Overrides = None,
    seed: int | None = None,
    threads: int | None = None,
    progress: Callback | None = None,
    capture: PathLike | None = None,
    table: PathLike | None = None,
    judge: Callable[[Sequence[same_traffic.Seen]], None] | None = None,
) -> list[Result]:
    """The results that the operands of a comparison stand for.

    Scenarios are run side by side, on the same packets, and measured from the same packet on; what they share is loaded
    once. `capture` and `table` are those of all scenarios. `judge` gets what decides about the traffic of each, and may
    raise. Raises InputError for the first operand that is no result, folder or scenario, before anything runs, and
    KeyboardInterrupt where Ctrl-C ended a run.
    """
    found: list[Result | _wirespeed.Scenario] = []
    for each in given:
        if isinstance(each, Result):
            found.append(each)
        elif not isinstance(each, Mapping) and is_result(each):
            found.append(read(each))
        else:
            found.append(_judged(each, capture, table, set, seed, None))
    if judge is not None:
        judge([_seen(each) for each in found])
    wanted = [each for each in found if not isinstance(each, Result)]
    finished = _wirespeed.run(wanted, threads=threads, same_packets=True, progress=progress) if wanted else []
    if any(run.partial for run in finished):
        raise KeyboardInterrupt("stopped while running what was to be compared; nothing is compared")
    ran = iter(finished)
    return [each if isinstance(each, Result) else finished_as_result(next(ran)) for each in found]


def _seen(each: Result | _wirespeed.Scenario) -> same_traffic.Seen:
    if isinstance(each, Result):
        return same_traffic.of_run(each.summary, each.scenario)
    return same_traffic.of_scenario(each.resolved)


def is_result(given: PathLike) -> bool:
    """Whether an operand is meant as a result: the folder of one, or a summary alone."""
    path = Path(given)
    return path.is_dir() or (path / SUMMARY_FILE).exists() or again.is_json(again.head_of(path))


def inspect(path: PathLike, progress: Callback | None = None) -> dict[str, Any]:
    """Statistics of a capture: packets, sizes, flows, destinations, rates, Zipf fit, and damage found.

    Raises InputError for a file with nothing usable in it.
    """
    answer: dict[str, Any] = json.loads(_wirespeed.inspect(os.fspath(path), progress))
    return answer


def inspect_table(path: PathLike) -> dict[str, Any]:
    """Statistics of a prefix table (MRT dump or plain list). Raises InputError for a file with nothing usable."""
    answer: dict[str, Any] = json.loads(_wirespeed.inspect_table(os.fspath(path)))
    return answer


def resolve(
    scenario: Scenario,
    capture: PathLike | None = None,
    table: PathLike | None = None,
    set: Overrides = None,
    seed: int | None = None,
) -> str:
    """The scenario checked and with all its defaults filled in, as TOML; nothing is run. Raises InputError."""
    return _judged(scenario, capture, table, set, seed, None).resolved


def predict(
    scenario: Scenario,
    capture: PathLike | None = None,
    table: PathLike | None = None,
    set: Overrides = None,
    seed: int | None = None,
    loads: Sequence[float] = (),
) -> dict[str, Any]:
    """Throughput, waiting and CPI in closed form (the guide, "Predictions"). Raises InputError.

    What packets take on the machine is measured once; `loads` are shares of the line rate that are answered too.
    """
    return predictions.predict(_judged(scenario, capture, table, set, seed, None), loads)


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a scenario."""
    answer: dict[str, Any] = json.loads(_wirespeed.schema())
    return answer


def sensitivity(
    scenario: Scenario,
    capture: PathLike | None = None,
    table: PathLike | None = None,
    set: Overrides = None,
    seed: int | None = None,
    share: float = assumed.SHARE,
    packets: int = assumed.PACKETS,
    threads: int | None = None,
    progress: Callback | None = None,
) -> assumed.Sensitivity:
    """How much each number matters that is assumed of the machine: it is changed by `share`, on the same packets.

    Raises InputError, and KeyboardInterrupt where Ctrl-C ended a run.
    """
    settings = scenarios.overrides(set)

    def judge(more: Mapping[str, object]) -> _wirespeed.Scenario:
        return _judged(scenario, capture, table, [*settings, *scenarios.overrides(more)], seed, None)

    return assumed.sensitivity(judge, share, packets, threads, progress)


def _judged(
    scenario: Scenario,
    capture: PathLike | None,
    table: PathLike | None,
    set: Overrides,
    seed: int | None,
    search: Search | None,
) -> _wirespeed.Scenario:
    found = scenarios.find(scenario)
    settings = [*found.overrides, *scenarios.overrides(set)]
    options = {
        "run.seed": ("--seed", seed),
        "run.search": ("--search", search),
        "traffic.capture": ("--capture", capture),
        "function.forward.table": ("--table", table),
    }
    given = {path: option for path, option in options.items() if option[1] is not None}
    checks = [
        lambda: scenarios.judge(settings, given),
        lambda: _judge_seed(seed),
        lambda: _judge_files({"--capture": capture, "--table": table}),
    ]
    each_of(checks, lambda check: check())
    files = {"capture": _path(capture), "table": _path(table)}
    return misspelt.scenario(found.text, found.origin, settings, **files, seed=seed, search=search)


def _judge_seed(seed: int | None) -> None:
    if seed is not None and not 0 <= seed < 1 << 63:
        raise InputError(f"seed = {seed}: must be 0 or more, and below 2^63")


def _judge_files(given: Mapping[str, PathLike | None]) -> None:
    """Raises InputError for all files that are not there, before any is read."""
    missing = [
        f"{option} {os.fspath(path)}: cannot be read: No such file or directory"
        for option, path in given.items()
        if path is not None and not Path(path).exists()
    ]
    if missing:
        raise InputError("\n".join(missing))


def finished_as_result(finished: _wirespeed.Run) -> Result:
    """What the extension has run, as what people get."""
    tables = {name: Table(name, finished.table(name)) for name in TABLES}
    return Result(finished.summary_json, finished.resolved, tables, finished, None)


def _path(path: PathLike | None) -> str | None:
    return None if path is None else os.fspath(path)
