"""Where a study keeps what is finished: one Parquet file a run, under its key, written whole or not at all.

A file appears under its name by a rename, after it was written and synchronized: what is there is complete. So a study
that was stopped or killed goes on from what it finds, and several studies may share a folder.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from wirespeed.errors import InputError
from wirespeed.sweep.work import Outcome

RUNS: Final = "runs"
_META: Final = b"wirespeed.run"
_VALUES: Final = b"wirespeed.values"
_SCHEMA: Final = "wirespeed.sweep-run/1"


class Folder:
    """A context manager; without a path it keeps runs in memory only."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        """Raises InputError where another study writes to the folder, or it is no folder."""
        self._kept: dict[str, Outcome] = {}
        self._drops_failed = False
        self._path = None if path is None else Path(path)
        self._lock: IO[str] | None = None
        if self._path is None:
            return
        if self._path.exists() and not self._path.is_dir():
            raise InputError(f"{self._path}: is a file; a study writes to a folder")
        (self._path / RUNS).mkdir(parents=True, exist_ok=True)
        self._lock = (self._path / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise InputError(
                f"{self._path}: another study writes to this folder; wait for it, or name another"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.close()

    def find(self, keys: Iterable[str]) -> None:
        """Reads what is there of these runs. A file that is damaged counts as not there."""
        if self._path is None:
            return
        there = {file.name for file in os.scandir(self._path / RUNS)}
        for key in keys:
            if key in self._kept or f"{key}.parquet" not in there or (found := _read(self._file(key))) is None:
                continue
            if found.error is None or not self._drops_failed:
                self._kept[key] = found

    def get(self, key: str) -> Outcome | None:
        """What came of a run, if it is finished and was looked for."""
        return self._kept.get(key)

    def forget_failed(self) -> None:
        """Drops what failed, and what will be found to have, so that it runs again."""
        self._drops_failed = True
        self._kept = {key: found for key, found in self._kept.items() if found.error is None}

    def put(self, outcome: Outcome, settings: Mapping[str, Any]) -> None:
        """Keeps a run; `settings` are columns of its file that say what was varied. Raises OSError on a full disk."""
        self._kept[outcome.key] = outcome
        if self._path is None:
            return
        import pyarrow as pa
        from pyarrow import parquet

        about = {
            "schema": _SCHEMA,
            "key": outcome.key,
            "error": outcome.error,
            "seconds": outcome.seconds,
            "cpu_seconds": outcome.cpu_seconds,
            "worker": outcome.worker,
        }
        row = {"key": outcome.key, "error": outcome.error, **settings, **outcome.values}
        table = pa.table({name: [value] for name, value in row.items()})
        names = json.dumps(list(outcome.values))
        table = table.replace_schema_metadata({_META: json.dumps(about), _VALUES: names})
        final = self._file(outcome.key)
        part = final.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as file:
            parquet.write_table(table, file, compression="none", write_statistics=False, use_dictionary=False)
            file.flush()
            os.fsync(file.fileno())
        part.replace(final)

    def _file(self, key: str) -> Path:
        assert self._path is not None
        return self._path / RUNS / f"{key}.parquet"


def _read(file: Path) -> Outcome | None:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(file).read()
        metadata = table.schema.metadata or {}
        about, names = json.loads(metadata[_META]), json.loads(metadata[_VALUES])
        (row,) = table.to_pylist()
        values = {name: row[name] for name in names}
        if about["schema"] != _SCHEMA:
            return None
        return Outcome(about["key"], values, about["error"], about["seconds"], about["cpu_seconds"], about["worker"])
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException):
        return None
