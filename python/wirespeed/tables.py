"""A table of results that other libraries read without copying, through the Arrow C stream interface."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

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

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes this table as its name ends: .parquet, .csv or .arrow (an IPC file); returns the file.

        Raises InputError for another ending, and OSError where the file cannot be written.
        """
        ending = Path(path).suffix.lower()
        if ending not in _WRITERS:
            raise InputError(f"{path}: a table is written as {', '.join(_WRITERS)}, by how its name ends")
        return files.write(path, content_of(self.to_arrow(), ending))

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


Column = Literal["string", "double", "int64", "bool"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a document as an Arrow stream: columns by name with their types; null for None."""

    columns: Mapping[str, Column]
    rows: Sequence[Mapping[str, Any]]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow as pa

        schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in self.columns.items()])
        return pa.Table.from_pylist([dict(row) for row in self.rows], schema=schema).__arrow_c_stream__()


def content_of(table: pyarrow.Table, ending: str) -> bytes:
    """A table as the bytes of a file whose name ends so: `.parquet`, `.csv` or `.arrow`."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    out = io.BytesIO()
    if ending == ".parquet":
        parquet.write_table(table, out)
    elif ending == ".csv":
        csv.write_csv(table, out)
    else:
        with pa.ipc.new_file(out, table.schema) as file:
            file.write_table(table)
    return out.getvalue()


def written(tables: Sequence[Table]) -> dict[str, str | bytes]:
    """Tables as files of a folder, by name: Parquet and CSV of each."""
    return {f"{each.name}{kind}": content_of(each.to_arrow(), kind) for each in tables for kind in (".parquet", ".csv")}


_WRITERS: Final = (".parquet", ".csv", ".arrow")
