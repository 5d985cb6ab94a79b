"""A result in a folder: which files it has, and whether they are as they were written, all by one run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wirespeed import files, sealed
from wirespeed.errors import InputError

TABLES: Final = ("runs", "counters", "packets", "series")
SUMMARY_FILE: Final = "summary.json"
SCENARIO_FILE: Final = "scenario.toml"
REPORT_FILE: Final = "report.html"
SCHEMA: Final = "wirespeed.run/1"
FILES: Final = (*(f"{name}.parquet" for name in TABLES), SCENARIO_FILE, REPORT_FILE, SUMMARY_FILE)
"""The files of a run; the summary, which holds the checksums of the others, is the last to appear."""
NEEDED: Final = (
    *("schema", "run_id", "seed", "version", "name", "verdict", "packets", "carried_mpps", "loss", "sojourn_ns"),
    *("attribution_ns", "batches", "traffic"),
)
"""What there is nothing to show or to compare without."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a folder holds: the summary as it was measured, the scenario, and the digests of the files by name."""

    measured: Mapping[str, Any]
    scenario: str
    digests: Mapping[str, str]


def load(folder: str | os.PathLike[str]) -> Stored:
    """A result that is whole. Raises InputError where there is none, or where a file is not as its run wrote it."""
    base = Path(folder)
    try:
        text = (base / SUMMARY_FILE).read_bytes()
        scenario = (base / SCENARIO_FILE).read_bytes()
    except OSError as e:
        raise InputError(
            f"{base}: holds no result of wirespeed ({Path(e.filename or '').name}: {e.strerror}); "
            "write one with `wirespeed run SCENARIO --out FOLDER`"
        ) from None
    summary = judged(base / SUMMARY_FILE, text)
    digests: Mapping[str, str] = summary["files"]
    gone = [name for name in _READ if name in digests and not (base / name).is_file()]
    if gone:
        raise InputError(f"{base}: {', '.join(gone)}: missing, which the run wrote; {_AGAIN}")
    for name in _READ:
        if (base / name).is_file():
            content = scenario if name == SCENARIO_FILE else (base / name).read_bytes()
            _refuse_other(base / name, content, digests.get(name, ""), summary["run_id"])
    return Stored(_measured(summary), scenario.decode(), digests)


def lone(path: Path) -> Stored:
    """A summary without the files of its run, as a baseline that is kept, or what `--format json` prints.

    Its scenario is empty where it has none. Raises InputError for what is none, or is not as it was written.
    """
    try:
        text = path.read_bytes()
    except OSError as e:
        raise InputError(f"{path}: {e.strerror or e}") from None
    summary = judged(path, text, sealed_only=False)
    return Stored(_measured(summary), str(summary.get(_SCENARIO) or ""), {})


def _measured(summary: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in summary.items() if name not in (*_SEALS, _SCENARIO)}


def sealed_with(summary: Mapping[str, Any], scenario: str, digests: Mapping[str, str]) -> dict[str, Any]:
    """A summary as it is written: with its scenario, the digests of the files beside it, and its own checksum."""
    return sealed.seal({**summary, _SCENARIO: scenario, "files": digests})


def earlier(folder: str | os.PathLike[str]) -> str | None:
    """The id of the run whose summary lies in a folder; None where there is none that can be read."""
    try:
        found = sealed.parse((Path(folder) / SUMMARY_FILE).read_bytes())
        return str(found["run_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def judged(path: Path, text: bytes, sealed_only: bool = True) -> dict[str, Any]:
    """A summary that is whole; where not `sealed_only` also one that was printed. Raises InputError for others."""
    try:
        summary = sealed.parse(text)
    except ValueError as e:
        raise InputError(f"{path}: is not JSON: {e}; {_AGAIN}") from None
    if not isinstance(summary, dict) or summary.get("schema") != SCHEMA:
        raise InputError(f"{path}: is no summary of a run ({SCHEMA})")
    is_sealed = sealed_only or any(name in summary for name in (*_SEALS, _SCENARIO))
    missing = [name for name in (*NEEDED, *(_SEALS if is_sealed else ())) if name not in summary]
    if missing:
        raise InputError(f"{path}: {', '.join(missing)}: missing, which every summary has; {_AGAIN}")
    if is_sealed and (not sealed.is_whole(summary) or not isinstance(summary["files"], dict)):
        raise InputError(f"{path}: its checksum is of other content: it was edited, or is damaged; {_AGAIN}")
    return summary


def _refuse_other(path: Path, content: bytes, digest: str, run_id: str) -> None:
    """Raises InputError for a file that is not the one that was written beside its summary."""
    if files.digest(content) == digest:
        return
    found = _RUN_ID.search(content)
    other = None if found is None else found.group(1).decode()
    if other is not None and other != run_id:
        raise InputError(
            f"{path}: is of run {other}, {SUMMARY_FILE} beside it of run {run_id}: "
            f"files of two runs are mixed; {_AGAIN}"
        )
    raise InputError(f"{path}: is not as run {run_id} wrote it: it was edited, or is damaged; {_AGAIN}")


_READ: Final = (*(f"{name}.parquet" for name in TABLES), SCENARIO_FILE)
# What a summary says of its files, and of itself; no part of what was measured.
_SEALS: Final = ("files", sealed.CHECKSUM)
# So that the summary alone is enough to run again.
_SCENARIO: Final = "scenario"
_AGAIN: Final = "run it again (`wirespeed run FOLDER/scenario.toml --out ANOTHER`), or take the files as they were"
# As the footer of a Parquet file has its metadata: the name, the type and length of its value, the value.
_RUN_ID: Final = re.compile(rb"wirespeed\.run_id..([0-9a-f]{16,64})", re.DOTALL)
