"""Tables as CSV, of which no cell is a formula to a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

# What a spreadsheet takes for the beginning of a formula (OWASP, "CSV Injection").
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV with a column for every name that occurs; a text that looks like a formula begins with a quote.

    >>> table([{"a": "=1+1", "b": -1.5}, {"a": "x", "c": "-"}]).splitlines()
    ['a,b,c', "'=1+1,-1.5,", "x,,'-"]
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_cell(name) for name in names])
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
