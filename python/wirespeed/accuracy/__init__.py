"""Accuracy: predictions beside what others measured on real machines, row by row, and how far off they are.

`wirespeed accuracy` is this package on the command line. Rows are read in `rows`, what they ask for is in `settings`
and `metrics`; `running` runs each thing once, and `judging` says how far predictions are from measurements.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import Any

from wirespeed.accuracy import judging, running
from wirespeed.accuracy import rows as reading
from wirespeed.accuracy.documents import Accuracy
from wirespeed.accuracy.rows import Row
from wirespeed.errors import InputError
from wirespeed.progress import Callback
from wirespeed.sweep import study

__all__ = ["Accuracy", "accuracy"]


def accuracy(
    rows: str | os.PathLike[str] | Iterable[Mapping[str, Any]] | None = None,
    *,
    only: str | None = None,
    engine: str = "threads",
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Callback | None = None,
) -> Accuracy:
    """Predicts what was measured, row by row; returns the document of `wirespeed accuracy`.

    `rows` is a CSV file, or mappings of its columns to values; left out, the published measurements of real servers
    that are shipped. Columns are `source`, `case`, `machine`, `set`, `metric`, `measured`, `unit`, `kind` and `fitted`
    (the guide, "Accuracy"). `only` keeps the rows in whose source, case or machine that text is. Each distinct run is
    made once, `jobs` at a time, in threads, in processes (engine "local": a script that is run needs
    `if __name__ == "__main__":` then), or on an executor; the result does not depend on it, but for `wall_s`.

    `error` of a row is in percent of what was measured, for hits and loss in percentage points. A row that cannot be
    asked has its reason in `error_text`. Raises InputError for a file without a head or rows, and where `only` leaves
    none; KeyboardInterrupt on Ctrl-C.

    >>> import wirespeed
    >>> row = {"source": "lab", "case": "offered is carried", "machine": "xeon-gold-6140", "measured": 1.0,
    ...        "set": "traffic.packet_rate=1 Mpps; run.packets=2000; function.forward.prefixes=100",
    ...        "metric": "carried_mpps", "kind": "rate"}
    >>> round(wirespeed.accuracy([row])["rows"][0]["error"], 3)
    0.0
    """
    known = _rows(rows)
    wanted = [row for row in known if _has(row, only)]
    if not wanted:
        raise InputError(f"--only {only}: no source, case or machine of {len(known)} rows has it{_sources(known)}")
    answers = running.answers(wanted, known, study.chosen(engine, jobs, None, executor), progress)
    return judging.document(wanted, answers)


def _rows(given: str | os.PathLike[str] | Iterable[Mapping[str, Any]] | None) -> list[Row]:
    if given is None:
        return reading.shipped()
    return reading.read(given) if isinstance(given, str | os.PathLike) else reading.given(given)


def _has(row: Row, text: str | None) -> bool:
    return text is None or any(text.lower() in row[name].lower() for name in ("source", "case", "machine"))


def _sources(rows: list[Row]) -> str:
    names = list(dict.fromkeys(row["source"] for row in rows))
    return f"; sources are {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
