"""Where a study keeps what is finished: one Parquet file a run, under its key, written whole or not at all.

A file appears under its name by a rename, after it was written and synchronized: what is there is complete. So a study
that was stopped or killed goes on from what it finds, and several studies may share a folder. A file holds the checksum
of its own bytes, and the key it was written under: one that was damaged, or lies under another's name, counts as not
there.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from wirespeed import files, sealed
from wirespeed.errors import InputError
from wirespeed.sweep.work import Outcome

RUNS: Final = "runs"
_META: Final = b"wirespeed.run"
_VALUES: Final = b"wirespeed.values"
_SCHEMA: Final = "wirespeed.sweep-run/2"
# Where a file has its checksum; the checksum is that of the file with zeros in this place.
_CHECKSUM: Final = re.compile(rb'"blake2b": "([0-9a-f]{32})"')
_NO_CHECKSUM: Final = "0" * 32


class Folder:
    """A context manager; without a path it keeps runs in memory only."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        """Raises InputError where another study writes to the folder, or it is no folder."""
        self._kept: dict[str, Outcome] = {}
        self.refused: list[str] = []
        """Files that are not used, and why."""
        self._drops_failed = False
        self._path = None if path is None else Path(path)
        self._lock: IO[str] | None = None
        if self._path is None:
            return
        if self._path.exists() and not self._path.is_dir():
            raise InputError(f"{self._path}: is a file; a study writes to a folder")
        files.refuse_link(self._path / RUNS)
        files.refuse_link(self._path / _LOCK)
        (self._path / RUNS).mkdir(parents=True, exist_ok=True)
        self._lock = os.fdopen(os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise InputError(
                f"{self._path}: another study writes to this folder; wait for it, or name another"
            ) from None
        # What a kill left of a file that was being written: nobody else writes here now.
        for part in (self._path / RUNS).glob(f".*{files.PART}"):
            with contextlib.suppress(OSError):
                part.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.close()

    def find(self, keys: Iterable[str]) -> None:
        """Reads what is there of these runs. A file that is damaged, or of another run, counts as not there."""
        if self._path is None:
            return
        there = {file.name for file in os.scandir(self._path / RUNS)}
        for key in keys:
            if key in self._kept or f"{key}.parquet" not in there:
                continue
            try:
                found = parse(self._file(key).read_bytes(), key)
            except (OSError, ValueError) as e:
                self.refused.append(f"{self._file(key)}: {e}; it is run again")
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
        files.write(self._file(outcome.key), serialize(outcome, settings))

    def _file(self, key: str) -> Path:
        assert self._path is not None
        return self._path / RUNS / f"{key}.parquet"


def serialize(outcome: Outcome, settings: Mapping[str, Any]) -> bytes:
    """A run as a Parquet file of one row, with its checksum."""
    import pyarrow as pa
    from pyarrow import parquet

    about = {
        "schema": _SCHEMA,
        "blake2b": _NO_CHECKSUM,
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
    file = io.BytesIO()
    parquet.write_table(table, file, compression="none", write_statistics=False, use_dictionary=False)
    content = file.getvalue()
    place = _place(content)
    return content[: place.start] + files.digest(content).encode() + content[place.stop :]


def parse(content: bytes, key: str) -> Outcome:
    """The run that a file holds. Raises ValueError where it is not as it was written, or not of that key."""
    import pyarrow as pa
    from pyarrow import parquet

    place = _place(content)
    blank = content[: place.start] + _NO_CHECKSUM.encode() + content[place.stop :]
    if files.digest(blank).encode() != content[place]:
        raise ValueError("its checksum is of other content: it is damaged, or was edited")
    try:
        table = parquet.ParquetFile(io.BytesIO(content)).read()
        metadata = table.schema.metadata or {}
        about, names = sealed.parse(metadata[_META]), sealed.parse(metadata[_VALUES])
        (row,) = table.to_pylist()
        values = {name: row[name] for name in names}
        found = Outcome(about["key"], values, about["error"], about["seconds"], about["cpu_seconds"], about["worker"])
        schema = about["schema"]
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as e:
        raise ValueError(f"it is no file of a run ({e})") from None
    if schema != _SCHEMA:
        raise ValueError(f"it is a {schema}, not a {_SCHEMA}")
    if found.key != key:
        raise ValueError(f"it is of another run, {found.key}")
    return found


_LOCK: Final = ".lock"


def _place(content: bytes) -> slice:
    """Where the checksum stands."""
    found = list(_CHECKSUM.finditer(content))
    if len(found) != 1:
        raise ValueError("it has no checksum: it is damaged, or of an earlier build")
    return slice(*found[0].span(1))
