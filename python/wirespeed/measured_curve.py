"""Measured curves of bandwidth against latency, from CSV files.

Three kinds are told apart by their heads: a plain one (`read_percent,bandwidth_GBps,latency_ns`), points of Mess
(`latency` in `latency_unit_as_published`), and results of Intel's Memory Latency Checker as FD.io's CSIT prints them,
of both sockets together. Lines that begin with # are passed over. A row that makes no sense is an error with its line.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from wirespeed.errors import InputError, nearest

PLAIN: Final = ("read_percent", "bandwidth_GBps", "latency_ns")
MESS: Final = ("system", "read_percent", "bandwidth_GBps", "latency", "latency_unit_as_published")
MLC: Final = ("testbed", "measurement", "inject_delay_or_case", "bandwidth_MBps", "latency_ns")

# What of the most bandwidth a reading may be below zero: Mess takes what an idle system moves off what it counts.
NOISE: Final = 0.01
# Below this share of the most bandwidth a point is idle.
IDLE: Final = 0.02
# No load makes a load so much faster than on an idle machine.
BELOW_IDLE: Final = 0.8

CYCLES: Final = "cpu_cycles"
AS_PUBLISHED: Final = "as published"

# Characters of a head that an error repeats.
_SHOWN: Final = 200
_SEPARATORS: Final = {";": ";", "\t": "tabs"}
_MIXES: Final = {"ALL Reads": 100.0, "3:1 Reads-Writes": 75.0, "2:1 Reads-Writes": 200 / 3, "1:1 Reads-Writes": 50.0}
_SOCKETS: Final = {"both_sockets": 2.0}


class MeasuredPoint(TypedDict):
    """GB/s and nanoseconds; no latency where only bandwidth was measured."""

    bandwidth_gb_per_s: float
    latency_ns: float | None


class MeasuredShare(TypedDict):
    """What was measured with a share of reads; the idle latency is None where none is known."""

    read_percent: float
    idle_ns: float | None
    most_gb_per_s: float
    points: list[MeasuredPoint]


class Measured(TypedDict):
    """A measurement: its file, whose it is, how its numbers were read, and its curves.

    `clock_ghz` is what cycles were turned into time by; None where the file has none.
    """

    file: str
    system: str
    note: str
    clock_ghz: float | None
    curves: list[MeasuredShare]


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    read_percent: float
    gb_per_s: float
    latency_ns: float | None


def read(path: str | os.PathLike[str], clock_ghz: float, system: str | None = None) -> Measured:
    """Reads a measurement; `clock_ghz` turns CPU cycles into time, `system` chooses where a file has several.

    Raises InputError for a file that cannot be read, one of another kind, and rows that make no sense.
    """
    return parsed(os.fspath(path), text_of(path), clock_ghz, system)


def text_of(path: str | os.PathLike[str]) -> str:
    """What a file says; of a pipe that is known once. Raises InputError."""
    name = os.fspath(path)
    try:
        # Spreadsheets write a byte order mark.
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as e:
        raise InputError(f"{name}: cannot be read: {e.strerror}") from None
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(f"{name}: is not text: allowed is a CSV file in UTF-8")
    return text


def parsed(name: str, text: str, clock_ghz: float, system: str | None = None) -> Measured:
    """As `read`, of what the file `name` says."""
    heads, lines = _split(name, text)
    if set(MLC) <= set(heads):
        return _mlc(name, _of_system(name, lines, "testbed", system))
    if set(MESS) <= set(heads):
        lines = _of_system(name, lines, "system", system)
        rows = [_mess_row(name, line, row, clock_ghz) for line, row in lines]
        cycles = any(row["latency_unit_as_published"] == CYCLES for _, row in lines)
        note = f"cycles at {clock_ghz:g} GHz" if cycles else AS_PUBLISHED
        return _measured(name, lines[0][1]["system"], note, rows, clock_ghz if cycles else None)
    if system is not None:
        raise InputError(f"{name}: system = {system!r}: the file names no systems: leave it out")
    rows = [_plain_row(name, line, row) for line, row in lines]
    return _measured(name, Path(name).stem, AS_PUBLISHED, rows)


def _refuse_other(name: str, at: int, heads: Sequence[str]) -> None:
    """Raises InputError for a head that is of no kind."""
    if any(set(kind) <= set(heads) for kind in (PLAIN, MESS, MLC)):
        return
    whole = ",".join(heads) or "nothing"
    came = whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}…"
    other = next((words for mark, words in _SEPARATORS.items() if mark in came and len(heads) == 1), None)
    hint = f" (fields are separated by {other} here: write commas, and points in numbers)" if other else ""
    kinds = ", or ".join(",".join(kind) for kind in (PLAIN, MESS, MLC))
    raise InputError(f"{name}:{at}: the head is {came}{hint}: allowed are {kinds}")


def _split(name: str, text: str) -> tuple[list[str], _Lines]:
    """A head that is of a kind, and the rows by their lines."""
    # A blank line in its place leaves the others their numbers.
    reader = csv.reader("\n" if line.startswith("#") else line for line in io.StringIO(text))
    heads: list[str] = []
    lines: _Lines = []
    try:
        for fields in reader:
            row = [field.strip() for field in fields]
            if not row:
                continue
            if not heads:
                heads = row
                _refuse_other(name, reader.line_num, heads)
                continue
            if len(row) != len(heads):
                came = f"{len(row)} field{'' if len(row) == 1 else 's'} ({','.join(row)})"
                hint = " (decimals stand behind a point)" if len(row) > len(heads) else ""
                raise InputError(f"{name}:{reader.line_num}: {came}: allowed are {len(heads)}, as in the head{hint}")
            lines.append((reader.line_num, dict(zip(heads, row, strict=True))))
    except csv.Error as e:
        raise InputError(f"{name}:{reader.line_num}: is not CSV: {e}") from None
    _refuse_other(name, 1, heads)
    return heads, lines


_Lines = list[tuple[int, dict[str, str]]]


def _of_system(name: str, lines: _Lines, column: str, system: str | None) -> _Lines:
    """The lines of a system; of the only one if none is named."""
    systems = list(dict.fromkeys(row[column] for _, row in lines))
    if not systems:
        raise InputError(f"{name}: has no rows: at least one is wanted behind the head")
    if system is None and len(systems) > 1:
        raise InputError(f"{name}: has several systems, {', '.join(systems)}: choose one with --system")
    if system is not None and system not in systems:
        raise InputError(f"{name}: no system {system!r}{nearest(system, systems)}: it has {', '.join(systems)}")
    return [(line, row) for line, row in lines if row[column] == (system or systems[0])]


def _number(name: str, line: int, row: Mapping[str, str | None], column: str, allowed: str) -> float:
    text = row.get(column)
    try:
        value = float(text or "")
    except ValueError:
        raise InputError(f"{name}:{line}: {column} = {text!r}: {allowed}") from None
    if not math.isfinite(value):
        raise InputError(f"{name}:{line}: {column} = {text}: {allowed}")
    return value


def _latency(name: str, line: int, row: Mapping[str, str | None], column: str, unit: str) -> float:
    value = _number(name, line, row, column, f"allowed is a number of {unit} above 0")
    if value <= 0:
        raise InputError(f"{name}:{line}: {column} = {value:g}: allowed is a number of {unit} above 0")
    return value


def _percent(name: str, line: int, row: Mapping[str, str | None]) -> float:
    percent = _number(name, line, row, "read_percent", "allowed are 0 to 100 percent")
    if not 0 <= percent <= 100:
        raise InputError(f"{name}:{line}: read_percent = {percent:g}: allowed are 0 to 100 percent")
    return percent


_BANDWIDTH: Final = "allowed is a number of GB/s, 0 or more"


def _plain_row(name: str, line: int, row: dict[str, str]) -> _Row:
    percent = _percent(name, line, row)
    bandwidth = _number(name, line, row, "bandwidth_GBps", _BANDWIDTH)
    return _Row(line, percent, bandwidth, _latency(name, line, row, "latency_ns", "ns"))


def _mess_row(name: str, line: int, row: dict[str, str], clock_ghz: float) -> _Row:
    units = {CYCLES: 1 / clock_ghz, "ns": 1.0}
    unit = row["latency_unit_as_published"]
    if unit not in units:
        raise InputError(f"{name}:{line}: latency_unit_as_published = {unit!r}: allowed are {', '.join(units)}")
    percent = _percent(name, line, row)
    bandwidth = _number(name, line, row, "bandwidth_GBps", _BANDWIDTH)
    return _Row(line, percent, bandwidth, _latency(name, line, row, "latency", unit) * units[unit])


def _measured(name: str, system: str, note: str, rows: list[_Row], clock_ghz: float | None = None) -> Measured:
    if not rows:
        raise InputError(f"{name}: has no rows: at least one is wanted behind the head")
    shares = sorted({row.read_percent for row in rows}, reverse=True)
    curves = [_share(name, share, [row for row in rows if row.read_percent == share]) for share in shares]
    return {"file": name, "system": system, "note": note, "clock_ghz": clock_ghz, "curves": curves}


def _share(name: str, share: float, rows: list[_Row]) -> MeasuredShare:
    """The curve of a share; its idle latency is the mean of its points with next to no load; None without."""
    most = max(row.gb_per_s for row in rows)
    for row in rows:
        if row.gb_per_s < -NOISE * max(most, 0.0):
            raise InputError(
                f"{name}:{row.line}: bandwidth_GBps = {row.gb_per_s:g}: {_BANDWIDTH} "
                f"(down to -{NOISE:.0%} of the most, {most:g}, is taken for noise around 0)"
            )
    idle = _idle(rows, most)
    for row in rows:
        if row.latency_ns is not None and idle is not None and row.latency_ns < BELOW_IDLE * idle:
            least = f"{BELOW_IDLE:.0%} or more of the idle latency, {idle:.4g} ns"
            came = f"latency = {row.latency_ns:.4g} ns at {row.gb_per_s:g} GB/s"
            raise InputError(f"{name}:{row.line}: {came}: allowed is {least}")
    points: list[MeasuredPoint] = [
        {"bandwidth_gb_per_s": max(row.gb_per_s, 0.0), "latency_ns": row.latency_ns} for row in rows
    ]
    return {"read_percent": share, "idle_ns": idle, "most_gb_per_s": most, "points": points}


def _idle(rows: list[_Row], most: float) -> float | None:
    at_rest = [row.latency_ns for row in rows if row.gb_per_s <= IDLE * most and row.latency_ns is not None]
    return sum(at_rest) / len(at_rest) if at_rest else None


def _mlc(name: str, lines: _Lines) -> Measured:
    """Of one socket: bandwidths of both are halved."""
    idle = next(
        (_latency(name, line, row, "latency_ns", "ns") for line, row in lines if row["measurement"] == "idle_latency"),
        None,
    )
    rows = list(_mlc_rows(name, lines))
    found = _measured(name, lines[0][1]["testbed"], "of both sockets, halved", rows)
    for each in found["curves"]:
        each["idle_ns"] = idle if idle is not None else each["idle_ns"]
    return found


def _mlc_rows(name: str, lines: _Lines) -> Iterator[_Row]:
    for line, row in lines:
        measurement, case = row["measurement"], row["inject_delay_or_case"]
        sockets = next((n for words, n in _SOCKETS.items() if measurement.endswith(words)), 1.0)
        loaded = measurement.startswith("loaded_latency_all_reads")
        if not loaded and not (measurement.startswith("max_bandwidth") and case in _MIXES):
            continue
        megabytes = _number(name, line, row, "bandwidth_MBps", "allowed is a number of MB/s, 0 or more")
        if megabytes < 0:
            raise InputError(f"{name}:{line}: bandwidth_MBps = {megabytes:g}: allowed is a number of MB/s, 0 or more")
        latency = _latency(name, line, row, "latency_ns", "ns") if loaded else None
        yield _Row(line, 100.0 if loaded else _MIXES[case], megabytes / 1e3 / sockets, latency)
