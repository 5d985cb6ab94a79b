"""Counters of the processor, and results of a lab: `perf stat -x`, `-j`, Intel PCM, and CSIT.

They set little of a scenario. They say how the real thing does, beside which a prediction stands. `LLC-load-misses` are
of cores' demand alone; PCM's rows are of an interval, and its memory columns GB of that interval.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wirespeed.operators.facts import Told
from wirespeed.operators.texts import OperatorText, number, shown

_EVENTS: Final[Mapping[str, str]] = {
    "cycles": "cycles",
    "cpu-cycles": "cycles",
    "instructions": "instructions",
    "LLC-load-misses": "llc_misses",
}
_EVENT: Final = re.compile(r"[A-Za-z][\w.\-/:]*(?:/[^/]{0,200}/\w*)?")
_ABSENT: Final = ("<not supported>", "<not counted>")


def perf(text: OperatorText, told: Told) -> None:
    """`perf stat -x,` and `perf stat -j`: events, summed over processors and intervals."""
    rows = list(_perf_json(text) if text.documents() else _perf_rows(text, told))
    if not rows:
        raise text.ended("a line of an event (value, unit, event)")
    sums: dict[str, tuple[float, int | None]] = {}
    for given, event, enabled, line in rows:
        name = _EVENTS.get(re.sub(r"^cpu\w*/(.*)/$", r"\1", event).partition(":")[0])
        found = number(given)
        if found is None:
            told.note(f"{event} is {shown(given)}: unknown, and not 0", line)
        elif name is not None:
            sums[name] = sums.get(name, (0.0, None))[0] + found, line
            if enabled is not None and enabled < 100:
                told.note(f"{event} was counted {enabled:g} % of the time, and scaled", line)
    for measured, (value, place) in sums.items():
        told.measure(measured, value, place)
    if sums.get("cycles", (0,))[0] and "instructions" in sums:
        told.measure("ipc", sums["instructions"][0] / sums["cycles"][0], sums["cycles"][1])
    if not sums:
        told.note("counts nothing that is compared: cycles, instructions, LLC-load-misses")


def _perf_rows(text: OperatorText, told: Told) -> Iterator[tuple[str, str, float | None, int | None]]:
    """Rows of CSV. Which columns lead depends on options, so the event is looked for: a name behind value and unit."""
    for n, line in text:
        if not line.strip() or line.startswith("#"):
            continue
        mark = ";" if line.count(";") > line.count(",") else ","
        cells = [cell.strip() for cell in line.split(mark)]
        place = next((i for i in range(2, len(cells)) if _is_event(cells, i)), None)
        if place is None:
            if not (len(cells) > 4 and not any(cells[1:-2])):  # a row of a metric alone has no event
                told.note(f"is no event: {shown(line)}", n)
            continue
        enabled = number(cells[place + 2]) if len(cells) > place + 2 else None
        yield cells[place - 2], cells[place], enabled, n


def _is_event(cells: list[str], place: int) -> bool:
    value = cells[place - 2]
    is_value = value in _ABSENT or (number(value) is not None and not value.startswith("S"))
    runs = len(cells) > place + 1 and number(cells[place + 1]) is not None
    return is_value and runs and _EVENT.fullmatch(cells[place]) is not None


def _perf_json(text: OperatorText) -> Iterator[tuple[str, str, float | None, int | None]]:
    for document in text.documents():
        if isinstance(document, dict) and isinstance(document.get("event"), str):
            event = document["event"]
            yield (
                str(document.get("counter-value", "")),
                event,
                number(document.get("pcnt-running")),
                text.line_of(f'"{event}"'),
            )


def pcm(text: OperatorText, told: Told) -> None:
    """`pcm -csv`, `pcm-memory -csv` and `pcm-pcie -csv -e`: the last row of the whole system."""
    rows = _cells(text)
    heads = [i for i, (_, row) in enumerate(rows) if {"IPC", "ItoM", "Mem Read (MB/s)", "Memory"} & set(row)]
    if not heads:
        raise text.ended("a line of column names")
    head = heads[0]
    if rows[head][1][:1] == ["Skt"]:
        _strange(told, [(n, row) for n, row in rows if len(row) < len(rows[head][1])])
        _pcm_pcie(told, rows[head][1], rows[head + 1 :])
        return
    groups = rows[head - 1][1] if head else []
    columns = [(group, name) for group, name in zip([*groups, *[""] * len(rows[head][1])], rows[head][1], strict=False)]
    data = [(n, row) for n, row in rows[head + 1 :] if len(row) >= len(columns) - 1]
    _strange(
        told, [(n, row) for n, row in [*rows[: max(head - 1, 0)], *rows[head + 1 :]] if len(row) < len(columns) - 1]
    )
    if not data:
        raise text.ended("a row of numbers below the names")
    line, last = data[-1]
    values = {
        (group if group == "System" else "", name): found
        for (group, name), cell in zip(columns, last, strict=False)
        if group == "System" and (found := number(cell)) is not None
    }
    _pcm_system(told, values, line)
    if not told.measured:
        told.note("has no column of the whole system that is compared (IPC, L3MISS, READ, WRITE)", line)


def _cells(text: OperatorText) -> list[tuple[int, list[str]]]:
    """Rows of a CSV by ; or , without quotes' help in lines that are none."""
    found = []
    for n, line in text:
        if line.strip():
            mark = ";" if line.count(";") > line.count(",") else ","
            try:
                found.append((n, [cell.strip() for cell in next(csv.reader([line], delimiter=mark))]))
            except (csv.Error, StopIteration):
                raise text.refuse(n, "is no line of CSV") from None
    return found


def _strange(told: Told, rows: Sequence[tuple[int, list[str]]]) -> None:
    """Notes the first row that has too few cells."""
    for n, row in rows[:1]:
        told.note(f"is no row of numbers, and is passed over: {shown(','.join(row))}", n)


def _pcm_system(told: Told, values: Mapping[tuple[str, str], float], line: int) -> None:
    """What a row of pcm or pcm-memory says; pcm's memory columns are GB an interval, taken as a second's."""
    system = {name: value for (_, name), value in values.items()}
    if "IPC" in system:
        told.measure("ipc", system["IPC"], line)
    if "L3MISS" in system:
        told.measure("llc_misses", system["L3MISS"] * 1e6, line)
    for pcm_name, memory, name in (("READ", "Read", "memory_read"), ("WRITE", "Write", "memory_write")):
        if pcm_name in system:
            told.measure(name, system[pcm_name] * 1e9, line)
            told.note("READ and WRITE are of an interval, taken as one second (`pcm 1`)", line)
        elif memory in system:
            told.measure(name, system[memory] * 1e6, line)


def _pcm_pcie(told: Told, head: list[str], rows: list[tuple[int, list[str]]]) -> None:
    """Device writes of whole lines (ItoM) that missed the LLC, where `-e` tells misses and totals apart."""
    place = head.index("ItoM")
    sums = {"(Total)": 0.0, "(Miss)": 0.0}
    line = 0
    for n, row in rows:
        mark = next((mark for mark in sums if row[-1].endswith(mark)), None)
        value = number(row[place].split("(")[0]) if len(row) > place else None
        if mark and value is not None:
            sums[mark] += value
            line = n
    if not line:
        told.note("has no rows of misses: run `pcm-pcie -csv -e`")
    elif sums["(Total)"] > 0:
        told.measure("io_write_misses", min(sums["(Miss)"] / sums["(Total)"], 1), line)


_TEST: Final = re.compile(
    r"(?P<nic>[a-z0-9]+?)-(?P<frame>\d{2,5})b-(?P<threads>\d{1,3})t(?P<cores>\d{1,3})c-(?P<suite>[\w-]+)"
)
_SUITES: Final = (
    (r"ip4base|ip4scale", "vpp-ip4-dpdk"),
    (r"l2xcbase|l2xc", "vpp-l2xc"),
    (r"l2patch", "vpp-l2patch"),
    (r"l3fwd", "l3fwd"),
    (r"testpmd", "testpmd-io"),
)


def csit(text: OperatorText, told: Told) -> None:
    """A result of FD.io CSIT: the test, and the rates that it found, of both directions together."""
    results = [each for each in text.documents() if isinstance(each, dict) and isinstance(each.get("result"), dict)]
    if not results:
        raise text.ended("`result` of a CSIT test")
    for result in results[:1]:
        name = str(result.get("test_id") or result.get("test_name_long") or "")
        line = text.line_of('"test_id"')
        if (found := _TEST.search(name)) is not None:
            _test(told, found, line)
        else:
            told.note(f"the name of the test says no NIC, frame and cores: {shown(name)}", line)
        _rates(text, told, result["result"])
        if result.get("passed") is False:
            told.note("the test did not pass", text.line_of('"passed"'))
    if len(results) > 1:
        told.note(f"has {len(results)} results; the first is taken")


def _test(told: Told, found: re.Match[str], line: int | None) -> None:
    told.fact("frame_bytes", int(found["frame"]), line, note="of the test's name")
    told.fact("cores", int(found["cores"]), line, note="of the test's name")
    told.fact("nic", found["nic"], line, note="of the test's name")
    program = next((program for suite, program in _SUITES if re.search(suite, found["suite"])), None)
    if program is None:
        told.note(f"no shipped program is the suite {shown(found['suite'])}", line)
    else:
        told.fact("program", program, line, note="of the test's name")


def _rates(text: OperatorText, told: Told, result: Mapping[str, Any]) -> None:
    for name in ("ndr", "pdr"):
        rate = _at(result, name, "lower", "rate")
        value = number(rate.get("value")) if rate else None
        if value is not None and rate.get("unit") == "pps":
            line = text.line_of(f'"{name}"')
            told.measure(name, value, line)
            if name == "ndr":
                told.fact("packet_rate", value, line, note="NDR, both directions")
    average = number((_at(result, "receive_rate", "rate") or {}).get("avg"))
    if average is not None:
        told.measure("received_rate", average, text.line_of('"receive_rate"'))
    if not told.measured:
        told.note("has no rate in packets a second")


def _at(document: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """A part of a document by its path; nothing where there is none."""
    found: Any = document
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
