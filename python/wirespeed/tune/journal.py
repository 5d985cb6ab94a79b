"""Measurements kept in a file, so that a search that was stopped, or killed, runs nothing twice.

One JSON object a line, the first names the target. A line is written and synchronized before its measurement is used,
and carries a checksum. What a kill leaves of a last line is cut off.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from wirespeed import files, sealed
from wirespeed.errors import InputError
from wirespeed.tune.knobs import key
from wirespeed.tune.target import Measurement, Settings

SCHEMA: Final = "wirespeed.tuning-journal/2"
# How every journal begins.
_HEAD: Final = f'{{"schema": "{SCHEMA}"'.encode()


class Journal:
    """A context manager; without a path it keeps measurements in memory only."""

    def __init__(self, path: str | os.PathLike[str] | None, identity: str) -> None:
        """Raises InputError where the file is of another target, is damaged, or is in use."""
        self._kept: dict[str, Measurement] = {}
        self._file: IO[bytes] | None = None
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            files.refuse_link(path)
            self._file = Path(path).open("a+b")  # noqa: SIM115 (closed by __exit__)
            try:
                self._read(Path(path), self._file, identity)
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, settings: Settings) -> Measurement | None:
        """What these settings came to, if they were evaluated."""
        return self._kept.get(key(settings))

    def put(self, settings: Settings, found: Measurement) -> None:
        """Keeps a measurement."""
        self._kept[key(settings)] = found
        self._write(
            {
                "settings": dict(settings),
                "values": dict(found.values),
                "seconds": found.seconds,
                "infeasible": found.infeasible,
            }
        )

    def _read(self, path: Path, file: IO[bytes], identity: str) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{path}: another search writes to this journal; wait for it, or name another") from None
        file.seek(0)
        text = file.read()
        whole = text.rfind(b"\n") + 1
        lines = text[:whole].splitlines()
        if not lines:
            if not (_HEAD.startswith(text) or text.startswith(_HEAD)):
                raise InputError(f"{path}: is no journal of a search ({SCHEMA}); name another file")
            file.truncate(0)
            self._write({"schema": SCHEMA, "target": identity})
            return
        head = _object(path, 1, lines[0])
        if head.get("schema") != SCHEMA:
            raise InputError(f"{path}: is no journal of a search ({SCHEMA}); name another file")
        _refuse_damaged(path, 1, head)
        file.truncate(whole)
        if head.get("target") != identity:
            raise InputError(
                f"{path}: is the journal of another scenario, other --set, other files or another version; "
                "name another file"
            )
        for number, line in enumerate(lines[1:], 2):
            kept = _object(path, number, line)
            _refuse_damaged(path, number, kept)
            try:
                found = Measurement(kept["values"], kept["seconds"], kept["infeasible"])
                self._kept[key(kept["settings"])] = found
            except (KeyError, TypeError):
                raise InputError(f"{path}, line {number}: is no measurement; delete the line") from None

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            return
        self._file.write(json.dumps(sealed.seal(line)).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        found = sealed.parse(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path}, line {number}: is not a JSON object; {_what_to_do(number)}")
    return found


def _refuse_damaged(path: Path, number: int, found: dict[str, Any]) -> None:
    if not sealed.is_whole(found):
        raise InputError(f"{path}, line {number}: does not fit its checksum: damaged, or edited; {_what_to_do(number)}")


def _what_to_do(number: int) -> str:
    return "delete the line, and it is measured again" if number > 1 else "name another file"
