"""A table of results that other libraries read without copying, through the Arrow C stream interface."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wirespeed import files
from wirespeed.errors import InputError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class ArrowStream(Protocol):
    """Anything that hands out an Arrow C stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Table:
    """A table that `polars.DataFrame(t)`, `pandas.DataFrame.from_arrow(t)` and `pyarrow.table(t)` read as it is.

    Times are in nanoseconds, rates in 10^6 packets/s; the unit is in the column's name.
    """

    def __init__(self, name: str, source: ArrowStream) -> None:
        """`source` holds the data; it is asked each time the table is read."""
        self.name = name
        self._source = source

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._source.__arrow_c_stream__(requested_schema)

    def to_polars(self) -> polars.DataFrame:
        """This table for polars. Raises ImportError with what to install where it is missing."""
        try:
            import polars
        except ImportError:
            raise ImportError("polars is not installed: pip install 'wirespeed[polars]'") from None
        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """This table for pandas 3 or newer. Raises ImportError with what to install where it is missing."""
        try:
            import pandas
        except ImportError:
            raise ImportError("pandas is not installed: pip install 'wirespeed[pandas]'") from None
        return pandas.DataFrame.from_arrow(self)

    def to_arrow(self) -> pyarrow.Table:
        """This table for pyarrow, which wirespeed brings along."""
        import pyarrow

        return pyarrow.table(self)

    def __repr__(self) -> str:
        return f"<wirespeed table `{self.name}`: read it with polars.DataFrame(t), or t.to_pandas()>"


class ParquetStream:
    """A Parquet file as an Arrow C stream, read when it is asked for, by pyarrow or polars."""

    def __init__(self, path: str, digest: str | None = None) -> None:
        """`digest` is what the file's content has to have; reading another raises InputError."""
        self._path, self._digest = path, digest

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        content = Path(self._path).read_bytes()
        if self._digest is not None and files.digest(content) != self._digest:
            raise InputError(f"{self._path}: was changed since the result was read; read the folder again")
        return _parquet(self._path, content).__arrow_c_stream__(requested_schema)


def _parquet(path: str, content: bytes) -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        pass
    else:
        return pyarrow.parquet.read_table(pyarrow.BufferReader(content))
    try:
        import polars
    except ImportError:
        raise ImportError(f"reading {path} needs pyarrow or polars: pip install pyarrow") from None
    return polars.read_parquet(io.BytesIO(content))
