"""Rows of measurements, from a CSV file or from mappings, and the template of such a file.

What makes a file unusable (no head, a column that is missing) is an InputError. What is wrong with a row is the row's:
it is kept with its fault, and the others go on. Lines that begin with # are passed over.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from wirespeed import measured_curve, scenarios
from wirespeed.errors import InputError, nearest

COLUMNS: Final[Mapping[str, str]] = {
    "source": "who measured: rows of a source are counted together",
    "case": "what was measured, in words; 'relative to' names a row by it",
    "machine": "a shipped machine, a machine file (.toml), or parts: processor=…; nic=…; driver=…; program=…",
    "set": "settings as of --set, several by ';'; also scenario=NAME_OR_FILE and frequency=…",
    "metric": "a field of a run's summary, as carried_mpps or levels.DDIO.hit_rate; or METRIC relative to CASE",
    "measured": "the number that was measured: the target, and never a setting",
    "unit": "its unit: Mpps, cycles, us, %, GB/s; left out, the metric's own",
    "kind": "rate, cycles, latency, bandwidth (errors in percent), hits or loss (in percentage points)",
    "fitted": "what of the machine was fitted on this row: such a row is shown and not counted",
}
"""The columns, and what each holds."""
OPTIONAL: Final = ("set", "unit", "fitted")
NEEDED: Final = tuple(name for name in COLUMNS if name not in OPTIONAL)

_EXAMPLES: Final = (
    {
        "source": "my lab, 2026-05",
        "case": "one core, 64 B",
        "machine": "xeon-gold-6140",
        "set": "traffic.load=1; machine.cores=1; frequency=3.0 GHz; function.forward.prefixes=1000",
        "metric": "carried_mpps",
        "measured": "24.1",
        "unit": "Mpps",
        "kind": "rate",
        "fitted": "",
    },
    {
        "source": "my lab, 2026-05",
        "case": "two cores, 64 B",
        "machine": "xeon-gold-6140",
        "set": "traffic.load=1; machine.cores=2; frequency=3.0 GHz; function.forward.prefixes=1000",
        "metric": "carried_mpps relative to one core, 64 B",
        "measured": "1.9",
        "unit": "",
        "kind": "rate",
        "fitted": "",
    },
)


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it was given: where it stands, the folder that its paths start at, its fields, and what is wrong."""

    place: str
    folder: Path
    fields: Mapping[str, str]
    fault: str | None = None

    def __getitem__(self, column: str) -> str:
        return self.fields.get(column, "")


def template() -> str:
    """A CSV file to begin with: what each column holds, and two rows."""
    out = io.StringIO()
    for name, words in COLUMNS.items():
        left_out = "; may be left out" if name in OPTIONAL else ""
        out.write(f"# {name}: {words}{left_out}\n")
    out.write("# Other columns are kept. A text with a comma stands in double quotes.\n")
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_EXAMPLES)
    return out.getvalue()


def shipped() -> list[Row]:
    """The rows that are shipped: published measurements of real servers, file by file."""
    folder = resources.files("wirespeed.accuracy").joinpath("servers")
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".csv"))
    return [row for name in names for row in parsed(name, folder.joinpath(name).read_text("utf-8"), Path())]


def read(path: str | os.PathLike[str]) -> list[Row]:
    """The rows of a CSV file. Raises InputError where it cannot be read, or its head lacks a column."""
    return parsed(os.fspath(path), measured_curve.text_of(path), Path(path).parent)


def given(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows of mappings by column; a `set` that is a mapping is settings by path. Raises InputError for what is none."""
    found = []
    for number, each in enumerate(rows, 1):
        if not isinstance(each, Mapping):
            raise InputError(f"row {number}: is a {type(each).__name__}: allowed are mappings of columns to values")
        if missing := [name for name in NEEDED if name not in each]:
            raise InputError(f"row {number}: {_missing(missing, list(each))}")
        found.append(Row(f"row {number}", Path(), {str(name): _text(value) for name, value in each.items()}))
    if not found:
        raise InputError("there are no rows")
    return found


def parsed(name: str, text: str, folder: Path) -> list[Row]:
    """As `read`, of what the file `name` says."""
    heads: list[str] = []
    found = []
    for line, fields in _lines(name, text):
        if not heads:
            heads = fields
            _judge_heads(name, line, heads)
            continue
        fault = None
        if len(fields) != len(heads):
            came = f"{len(fields)} fields" if len(fields) != 1 else "1 field"
            fault = f"has {came}: allowed are {len(heads)}, as in the head; a text with a comma stands in quotes"
        found.append(Row(f"{name}:{line}", folder, dict(zip(heads, fields, strict=False)), fault))
    if not found:
        raise InputError(f"{name}: has no rows: `wirespeed accuracy --template` prints a file to begin with")
    return found


def _lines(name: str, text: str) -> Iterator[tuple[int, list[str]]]:
    # A blank line in its place leaves the others their numbers.
    reader = csv.reader("\n" if line.startswith("#") else line for line in io.StringIO(text))
    try:
        for fields in reader:
            row = [field.strip() for field in fields]
            if any(row):
                yield reader.line_num, row
    except csv.Error as e:
        raise InputError(f"{name}:{reader.line_num}: is no CSV: {e}") from None


def _judge_heads(name: str, line: int, heads: list[str]) -> None:
    where = f"{name}:{line}: the head"
    if missing := [each for each in NEEDED if each not in heads]:
        raise InputError(f"{where} {_missing(missing, heads)}")
    if twice := [each for each in heads if heads.count(each) > 1]:
        raise InputError(f"{where} has the column {twice[0] or '(without a name)'} more than once: leave one out")


def _missing(missing: list[str], there: list[str]) -> str:
    near = nearest(missing[0], [each for each in there if each not in COLUMNS])
    instead = near.replace("did you mean", "in place of").rstrip("?)") + ")" if near else ""
    return (
        f"has no column {', '.join(missing)}{instead}: needed are {', '.join(NEEDED)}; {', '.join(OPTIONAL)} may be "
        "left out; `wirespeed accuracy --template` prints them"
    )


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(scenarios.overrides(value))
    return "" if value is None else str(value)
