"""The scenario that a result was run from: a folder of a run, or any of its Parquet files, is enough to run again."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wirespeed.errors import InputError
from wirespeed.stored import SUMMARY_FILE, load

# The name of the resolved scenario in the metadata of each table's file.
_SCENARIO: Final = b"wirespeed.scenario"
_PARQUET: Final = b"PAR1"


def scenario(path: str) -> str | None:
    """The resolved scenario, with its seed, of a result; None for what is no result.

    Raises InputError for a result that is damaged, and for a Parquet file of another program.
    """
    found = Path(path)
    if found.is_dir():
        return load(found).scenario if (found / SUMMARY_FILE).exists() else None
    if not found.is_file():
        return None  # a pipe would be waited for
    try:
        with found.open("rb") as file:
            if file.read(len(_PARQUET)) != _PARQUET:
                return None
    except OSError:
        return None  # as a scenario it is told what is wrong with it
    import pyarrow as pa
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(found).metadata or {}
        return bytes(metadata[_SCENARIO]).decode()
    except (KeyError, UnicodeDecodeError):
        raise InputError(f"{path}: is a Parquet file that no run of wirespeed wrote: it names no scenario") from None
    except (OSError, pa.ArrowException) as e:
        raise InputError(f"{path}: is a Parquet file that cannot be read: {e}") from None
