"""Running, comparing and inspecting: the calls behind `import wirespeed`."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from wirespeed import _wirespeed, scenarios
from wirespeed.progress import Bar, Callback
from wirespeed.result import SUMMARY_FILE, TABLES, Comparison, Result, read
from wirespeed.scenarios import Overrides
from wirespeed.tables import Table

PathLike = str | os.PathLike[str]
Search = Literal["ndr", "pdr"]


def run(
    scenario: PathLike,
    capture: PathLike | None = None,
    table: PathLike | None = None,
    set: Overrides = None,
    seed: int | None = None,
    threads: int = 1,
    search: Search | None = None,
    progress: Callback | bool | None = None,
) -> Result:
    """Runs a scenario and returns its summary and tables.

    `scenario` is a TOML file, TOML text, or the name of a shipped scenario. `capture` replaces its traffic and `table`
    its prefix table. `set` overrides single settings: `{"machine.llc.ways": 8}`. `search` looks for the highest load
    without loss ("ndr") or with a small one ("pdr"). `progress` is called as `progress(phase, done, total, note)`;
    True shows a bar on stderr. The result does not depend on `threads`.

    Raises InputError (a ValueError) for a bad scenario, capture, table or override. Ctrl-C ends the run early and
    returns what there is, with `partial` set.

        >>> import wirespeed                                                        # doctest: +SKIP
        >>> result = wirespeed.run("forwarding", set={"machine.llc.ways": 8})       # doctest: +SKIP
        >>> result.summary["sojourn_ns"]["p99"], polars.DataFrame(result.packets)   # doctest: +SKIP
    """
    found = scenarios.find(scenario)
    with Bar() if progress is True else nullcontext() as bar:
        callback = bar if progress is True else (progress or None)
        finished = _wirespeed.run(
            found.text,
            found.origin,
            [*found.overrides, *scenarios.overrides(set)],
            capture=_path(capture),
            table=_path(table),
            seed=seed,
            threads=threads,
            search=search,
            progress=callback,
        )
    tables = {name: Table(name, finished.table(name)) for name in TABLES}
    return Result(finished.summary_json, finished.resolved, tables, finished, None)


def compare(a: Result | PathLike, b: Result | PathLike, set: Overrides = None, seed: int | None = None) -> Comparison:
    """Compares b with a, metric by metric, with the significance of each difference.

    Each is a Result, a folder that holds one, or a scenario, which is run first with `set` and `seed`. Raises
    InputError where an operand is none of these.
    """
    first, second = (operand(each, set, seed) for each in (a, b))
    return Comparison(_wirespeed.compare(first.operand, second.operand))


def operand(given: Result | PathLike, set: Overrides = None, seed: int | None = None, **options: Any) -> Result:
    """The result that an operand of a comparison stands for; `options` go to `run` if it has to be run."""
    if isinstance(given, Result):
        return given
    if is_folder(given):
        return read(given)
    return run(given, set=set, seed=seed, **options)


def is_folder(given: PathLike) -> bool:
    """Whether an operand is meant as a folder of results."""
    return Path(given).is_dir() or (Path(given) / SUMMARY_FILE).exists()


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
    scenario: PathLike,
    capture: PathLike | None = None,
    table: PathLike | None = None,
    set: Overrides = None,
    seed: int | None = None,
) -> str:
    """The scenario checked and with all its defaults filled in, as TOML; nothing is run. Raises InputError."""
    found = scenarios.find(scenario)
    settings = [*found.overrides, *scenarios.overrides(set)]
    return _wirespeed.resolve(found.text, found.origin, settings, _path(capture), _path(table), seed)


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a scenario."""
    answer: dict[str, Any] = json.loads(_wirespeed.schema())
    return answer


def _path(path: PathLike | None) -> str | None:
    return None if path is None else os.fspath(path)
