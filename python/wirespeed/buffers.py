"""Packet buffers: which DRAM rows they touch, and what row-aware allocation is worth on DRAM of today."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from wirespeed import _wirespeed, misspelt, printed, scenarios
from wirespeed import quantities as q
from wirespeed.errors import InputError

__all__ = ["compare", "comparison_table", "heat_map", "rows_table", "rows_touched", "scenario_of", "traffic_of"]

ROW_BYTES: Final = 4096
BUFFER_BYTES: Final = 2 << 20
PACKETS: Final = 12_000
CELL: Final = 3


def scenario_of(what: str) -> _wirespeed.Scenario | None:
    """The scenario that is meant, a TOML file or a shipped one (also `NAME,path=value`), judged as `run` judges it.

    None of what stands for traffic alone. Raises InputError for a scenario that cannot be.
    """
    name = what.partition(",")[0]
    if name not in scenarios.scenario_names() and not name.endswith(".toml"):
        return None
    found = scenarios.find(what)
    return misspelt.scenario(found.text, found.origin, list(found.overrides))


def traffic_of(what: str) -> str | dict[str, Any]:
    """The traffic of a scenario as it resolves (its table `traffic`), or else `what` itself.

    A capture, a profile (isp, imix, min64), `edge`, `packmime` and `fixed=64` stand for themselves. Raises InputError
    for a scenario that cannot be.
    """
    scenario = scenario_of(what)
    if scenario is None:
        return what
    traffic: dict[str, Any] = tomllib.loads(scenario.resolved).get("traffic", {})
    return traffic


def rows_touched(
    what: str,
    window: int = 16,
    *,
    packets: int = PACKETS,
    row_bytes: int = ROW_BYTES,
    buffer_bytes: int = BUFFER_BYTES,
    seed: int = 0,
) -> dict[str, Any]:
    """Rows that a packet buffer's references touch, by way of allocation.

    Of a scenario (a TOML file, or a shipped one by name) those of its own server on its own DRAM: what its NIC writes
    and reads, with packets in mbufs and in a buffer of each allocation; `own` marks the scenario's. Its DRAM decides
    over rows, its `[buffer]` (or else its pool of mbufs) over sizes, and its `run.seed` over chance. Of a capture, a
    profile, `edge`, `packmime` and `fixed=64` those of the 2003 network processor, with rows of `row_bytes` in a buffer
    of `buffer_bytes`.

    Returns for each allocation the mean of different rows in a window of `window` references that slides: input
    side, output side and both; the share of row hits; fragmentation; and `heat`, references by time and band of rows.
    Raises InputError for a scenario that cannot be, traffic that cannot be read and windows below 1.
    """
    if window < 1 or packets < 1 or row_bytes < 64 or row_bytes & (row_bytes - 1):
        raise InputError(
            f"--rows {window}, packets {packets}, row of {row_bytes} bytes: allowed are 1 and more, and a power of two"
        )
    scenario = scenario_of(what)
    if scenario is not None:
        text = _wirespeed.rows_of_scenario(scenario, window, packets)
    else:
        text = _wirespeed.rows_touched(what, window, packets, row_bytes, buffer_bytes, seed)
    found: dict[str, Any] = json.loads(text)
    return found


def rows_table(found: Mapping[str, Any]) -> Table:
    """Rows touched as a table."""
    kib = found["row_bytes"] / 1024
    title = f"rows of {kib:g} KiB touched in a window of {found['window']} references: {found['note']}"
    is_server = found.get("of") == "server"
    table = Table(title=title, title_justify="left", caption_justify="left")
    for head in ("allocation", "input", "output", "both", "row hits", "unused", "stalls"):
        table.add_column(head, no_wrap=True, justify="left" if head == "allocation" else "right")
    table.caption = "unused: share of the memory taken that holds no packet."
    if is_server:
        table.add_column("DRAM lines", no_wrap=True, justify="right")
        table.caption = (
            "* as the scenario has it. References are the NIC's, before any cache. Row hits are what DRAM finds, "
            "whoever asks, in the lines that it moves a packet. Unused is the share of memory taken without a packet."
        )
    for each in found["allocations"]:
        cells = [
            each["allocation"] + (" *" if each.get("own") else ""),
            *(_number(each[f"rows_{side}"], ".1f") for side in ("input", "output", "both")),
            _number(each["row_hit_rate"], ".0%"),
            _number(each["fragmentation"], ".0%"),
            _number(each["stalls"], "d"),
        ]
        if is_server:
            cells.append(_number(each["dram_lines_per_packet"], ".1f"))
        table.add_row(*cells)
    return table


def _number(value: float | None, form: str) -> str:
    return q.MISSING if value is None else format(value, form)


def heat_map(found: Mapping[str, Any]) -> str:
    """References over time (across) and rows of the buffer (up), a panel an allocation, as an SVG document."""
    import altair as alt  # drawing costs a quarter of a second to import

    from wirespeed.report import charts

    panels = []
    for each in found["allocations"]:
        heat = each["heat"]
        rows = [{"x": column, "y": band, "n": n} for column, band, n in heat["cells"]]
        if not rows:
            continue
        columns = max(row["x"] for row in rows) + 1
        bands = max(row["y"] for row in rows) + 1
        panels.append(
            alt.Chart(alt.InlineData(values=rows))
            .mark_rect()
            .encode(
                x=alt.X("x:O", axis=alt.Axis(labels=False, ticks=False, title="time")),
                y=alt.Y("y:O", sort="descending", axis=alt.Axis(labels=False, ticks=False, title="row")),
                color=alt.Color("n:Q", scale=alt.Scale(scheme="viridis"), legend=None),
            )
            .properties(
                width=CELL * columns,
                height=CELL * bands,
                title=f"{each['allocation']}: {_number(each['rows_both'], '.1f')} rows in {found['window']} references",
            )
        )
    if not panels:
        raise InputError("there is nothing to draw: too few packets (raise --packets)")
    chart = alt.concat(*panels, columns=2).resolve_scale(color="shared")
    return charts.picture(chart)


def compare(**settings: Any) -> dict[str, Any]:
    """Allocators, controllers and blocks on DRAM of today; the document of `wirespeed memory buffers`.

    Settings are `memories`, `allocations`, `orders`, `pages`, `blocks`, `burst`, `ports`, `depth`, `buffer`,
    `traffic`, `requests`, `map`, `rates`, `seed` and `seeds`; what is left out is usual. Throughput is of packet bytes,
    each of which is written and read. Latency is taken at half the peak; where that is more than a row carries
    (`half_peak_is_overload`), it is of an overload and says how long the run was. Raises InputError for what cannot be.
    """
    found: dict[str, Any] = json.loads(_wirespeed.study_packet_buffers(json.dumps(settings)))
    cells = {
        (row["memory"], row["order"], row["page"], row["block"]): row["gbps"]["mean"]
        for row in found["rows"]
        if row["allocation"] == "cells"
    }
    for row in found["rows"]:
        base = cells.get((row["memory"], row["order"], row["page"], row["block"]))
        row["gain_over_cells_pct"] = None if base is None else (row["gbps"]["mean"] / base - 1) * 100
    return found


def comparison_table(found: Mapping[str, Any]) -> Group:
    """Gains as tables, one for each memory, controller and block, with a row for each allocation."""
    rates = "/".join(f"{rate:g}" for rate in found["spec"]["rates"])
    heads = (
        ">Gbps",
        ">over\nfixed",
        ">over\ncells",
        ">row\nhits",
        ">p99 read\nat half\npeak",
        f">memories for\nGbps of\n{rates}",
    )
    tables: dict[str, Table] = {}
    for row in found["rows"]:
        title = f"{row['memory']}, {row['order']}, {row['page']} page, {row['block']} a block"
        table = tables.setdefault(title, printed.table("allocation", *heads, title=title))
        width = row["gbps"]["half_width"]
        over = row["gain_over_cells_pct"]
        latency = row["p99_read_ns_at_half_peak"]["mean"]
        table.add_row(
            row["allocation"],
            f"{row['gbps']['mean']:.1f}" + ("" if width is None else f" ± {width:.1f}"),
            f"{row['gain_pct']['mean']:+.0f} %",
            q.MISSING if over is None else f"{over:+.0f} %",
            q.share(row["row_hit_rate"]["mean"], 0),
            q.MISSING if latency is None else "overload" if row["half_peak_is_overload"] else f"{latency:.0f} ns",
            "/".join(f"{each['memories']:.0f}" for each in row["memories"]),
        )
    return Group(*(part for table in tables.values() for part in (table, Text())))
