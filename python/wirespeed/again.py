"""The scenario that a result was run from: a folder of a run, or any of its files, is enough to run again."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Final

from wirespeed.errors import InputError
from wirespeed.stored import SCENARIO_FILE, SUMMARY_FILE, load, lone

# The name of the resolved scenario in the metadata of each table's file.
_SCENARIO: Final = b"wirespeed.scenario"
_PARQUET: Final = b"PAR1"
_REPORT: Final = b"<!doctype html"
# Where a report shows the resolved scenario.
_SHOWN: Final = re.compile(r'<pre id="scenario">(.*?)</pre>', re.DOTALL)
_HEAD: Final = 64


def scenario(path: str) -> str | None:
    """The resolved scenario, with its seed, of a result; None for what is no result.

    Raises InputError for a result that is damaged, for a Parquet file or page of another program, and for a summary
    that has no scenario.
    """
    found = Path(path)
    if found.is_dir():
        return load(found).scenario if (found / SUMMARY_FILE).exists() else None
    head = head_of(found)
    if head.startswith(_PARQUET):
        return _of_table(found)
    if head.lower().startswith(_REPORT):
        return _of_report(found)
    return _of_summary(found) if is_json(head) else None


def head_of(path: Path) -> bytes:
    """The first bytes of a file; none of a pipe, which would be waited for, nor of what cannot be read."""
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""  # as a scenario it is told what is wrong with it


def is_json(head: bytes) -> bool:
    """Whether a file that begins so is an object of JSON: no TOML begins with a brace."""
    return head.lstrip().startswith(b"{")


def _of_summary(path: Path) -> str:
    """The scenario in a summary; in one of before it stood in the file beside it alone."""
    if kept := lone(path).scenario:
        return kept
    if path.name == SUMMARY_FILE and (path.parent / SCENARIO_FILE).is_file():
        return load(path.parent).scenario
    raise InputError(
        f"{path}: is a summary without its scenario, as --format json prints it; run {SCENARIO_FILE} of its folder"
    )


def _of_report(path: Path) -> str:
    found = _SHOWN.search(path.read_text(encoding="utf-8", errors="replace"))
    if found is None:
        raise InputError(f"{path}: is a page that shows no scenario; give the report of a run, or a TOML file")
    return unescape(found[1])


def _of_table(path: Path) -> str:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(path).metadata or {}
        return bytes(metadata[_SCENARIO]).decode()
    except (KeyError, UnicodeDecodeError):
        raise InputError(f"{path}: is a Parquet file that no run of wirespeed wrote: it names no scenario") from None
    except (OSError, pa.ArrowException) as e:
        raise InputError(f"{path}: is a Parquet file that cannot be read: {e}") from None
