"""The report of a run: one HTML file that needs no network, for a reader who has never seen wirespeed.

It is made of the summary and the resolved scenario alone; nothing here can run a simulation (import-linter holds that).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import altair as alt
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from wirespeed import quantities as q
from wirespeed import questions
from wirespeed.errors import InputError, nearest
from wirespeed.report import charts, icicle, path
from wirespeed.report.palette import colour, ink
from wirespeed.slowest import Slowest
from wirespeed.summary import (
    Slice,
    banks_text,
    by_others_text,
    copying,
    core_cycles,
    core_cycles_text,
    curve_packets_text,
    curve_text,
    damages,
    drops,
    energy_text,
    flow_table_text,
    gpu_text,
    gpu_waits_text,
    headline,
    hot_text,
    iommu_text,
    key_numbers,
    levels,
    mark,
    measured,
    packet_buffer_text,
    partial_text,
    pcie_use,
    placing_text,
    policy_text,
    queue_shares,
    search_rejects_text,
    search_with_stalls,
    seen,
    slices,
    stacked_text,
    trial_rejected,
    warnings,
)
from wirespeed.summary_types import Summary

# Parts of the stacked bar that are narrower than this share of its row carry no number.
_LABELLED_SHARE: Final = 0.08
# Wider ones end with a line.
_LINED_SHARE: Final = 0.01
# Neighbours in a stacked bar that are thinner than this are drawn as one.
_THIN: Final = 0.004
# What takes less of a core's cycles is not told by name.
_LEAST_SHARE: Final = 0.002
# Where link and NIC take more of the mean than this, they are drawn as short as that, and all else to one scale.
_FOLDED_ABOVE: Final = 0.6
_FOLDED: Final = 0.14
_MORE: Final = re.compile(r'<a class="more" href="#(?P<to>[\w-]+)"[^>]*>[^<]*</a>')
# Where a page names a place, and where it refers to one.
_PLACE: Final = re.compile(r'(\b(?:id="|aria-labelledby="|data-copy="|href="#)|url\(#)(?=[^")])')
_LINK: Final = frozenset({"nic", "pcie"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one colour of a bar: a part, or neighbours that are too thin to be drawn each."""

    parts: Sequence[Slice]
    drawn: float
    """The share of the bar that they have, as drawn."""

    @property
    def most(self) -> Slice:
        """The largest of its parts, which gives the colour."""
        return max(self.parts, key=lambda part: part.ns)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the stacked bar: a class of packets, its mean sojourn, and its parts in path order."""

    name: str
    packets: str
    mean: str
    width: float
    parts: Sequence[Slice]
    pieces: Sequence[Piece]
    """What of them is drawn, in the same order."""


def page(
    summary: Summary,
    scenario: str,
    command: str = "",
    assumed: str = "",
    slow: Slowest | None = None,
    work: str = "",
    tables: Sequence[tuple[str, str]] = (),
) -> str:
    """The report as an HTML document.

    `scenario` is the resolved TOML, `command` how the run was started, `assumed` what of the machine is assumed,
    `slow` the slowest of the sampled packets, `work` where instructions and their cycles come from, `tables` the names
    and sizes of what packets are looked up in (`wirespeed.origins`).
    """
    summary = measured(summary)
    drawn = render(
        "page.html.j2",
        **(_told(summary) | _pictures(summary, slow)),
        top="h1",
        replies=(replies := questions.ten(summary, scenario, slow, assumed)),
        seen=[*(seen(summary, "reasons") if replies else []), *seen(summary, "details")],
        search=summary.get("search"),
        gpu_waits=gpu_waits_text(summary),
        scenario=scenario,
        command=command,
        assumed=assumed,
        work=work,
        tables=tables,
        version=summary.get("version") or "",
    )
    return _linked(drawn)


def verdict(summary: Summary, at: str = "", top: str = "h3") -> str:
    """The verdict and the key numbers as a part of a page; `at` begins names of places, `top` is its heading."""
    summary = measured(summary)
    told = render("verdict.html.j2", **_told(summary), top=top, replies=(), seen=seen(summary, "details"))
    return named(_linked(told), at)


def pictures(summary: Summary, slow: Slowest | None = None, at: str = "") -> str:
    """The pictures as a part of a page; `at` begins the names of its places there."""
    summary = measured(summary)
    return named(_linked(render("pictures.html.j2", **_pictures(summary, slow), replies=(), search=None)), at)


def named(part: str, at: str) -> str:
    """A part of a page with the names of its places, and what refers to them, begun by `at`.

    >>> named('<h2 id="time">Time</h2><a href="#time">', "b-")
    '<h2 id="b-time">Time</h2><a href="#b-time">'
    """
    return _PLACE.sub(lambda found: f"{found[1]}{at}", part)


def render(template: str, script: str = "script.js", policy: str = "", before: str = "", **given: Any) -> str:
    """A template of the reports, filled in; `policy` adds to what its page may do, `before` to what its script does."""
    environment = _environment()
    code = before + environment.get_template(script).render()
    # A browser runs this script and no other, whatever else might get into the page.
    script_hash = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script_hash}'{policy}"
    shared = {"q": q, "colour": colour, "ink": ink, "script": code, "policy": Markup(allowed)}
    return environment.get_template(template).render(**shared, **given)


def _linked(drawn: str) -> str:
    """A page without links to sections that it has not: which there are is known only when it is drawn."""
    return _MORE.sub(lambda found: found[0] if f'id="{found["to"]}"' in drawn else "", drawn)


def _told(summary: Summary) -> dict[str, Any]:
    """What a verdict says, by its names in the template."""
    return {
        "s": summary,
        "verdict": summary.get("verdict") or {},
        "mark": mark(summary),
        "headline": headline(summary),
        "reach": curve_text(summary),
        "partial": partial_text(summary),
        "policy_did": policy_text(summary),
        "warnings": warnings(summary),
        "numbers": key_numbers(summary),
        "drops": drops(summary),
        "traffic": summary.get("traffic") or {},
        "line_rate": q.gbps(rate) if q.is_number(rate := summary.get("line_rate_gbps")) else "",
        "machine": _named(summary.get("machine") or {}),
    }


def _pictures(summary: Summary, slow: Slowest | None) -> dict[str, Any]:
    """What pictures are drawn from, by its names in the template."""
    rows, cells = stacked(summary), icicle.icicle(summary)
    return {
        "s": summary,
        "levels": levels(summary),
        "by_others": by_others_text(summary),
        "queues": queue_shares(summary),
        "hot": hot_text(summary),
        "cycles": core_cycles(summary),
        "cycles_text": core_cycles_text(summary),
        "cells": cells,
        "cell_rows": icicle.rows(cells),
        "narrow": icicle.NARROW,
        "stops": path.path(summary, slow),
        "short": path.SHORT,
        "slow": slow,
        "rows": rows,
        "folded": q.duration(cut) if (cut := _cut(rows)) else None,
        "legend": legend(rows),
        "labelled_share": _LABELLED_SHARE,
        "lined_share": _LINED_SHARE,
        "pcie": pcie_use(summary),
        "least_share": _LEAST_SHARE,
        "curve": summary.get("curve") or [],
        **_drawn_charts(summary),
        "curve_packets": curve_packets_text(summary),
        "drops": drops(summary),
        "damages": damages(summary),
        "copying": copying(summary),
        "gpu": gpu_text(summary),
        "iommu": iommu_text(summary),
        "stacked": stacked_text(summary),
        "flow_table": flow_table_text(summary),
        "packet_buffer": packet_buffer_text(summary),
        "placing": placing_text(summary),
        "dram": summary.get("dram") or {},
        "energy": energy_text(summary),
        "banks": banks_text(summary),
        "search_stalls": search_with_stalls(summary),
        "search_rejects": search_rejects_text(summary),
        "trial_rejected": trial_rejected,
    }


def _drawn_charts(summary: Summary) -> dict[str, str | None]:
    """The line charts by their names in the template; None where there is nothing to draw."""
    curve, series = summary.get("curve") or [], summary.get("series") or []
    over_load = charts.rate_over_load(curve)
    drawn = {
        "rate_chart": over_load or charts.rate_over_time(series),
        "latency_chart": charts.sojourn_over_load(curve),
        "cdf_chart": charts.sojourn_distribution(summary.get("sojourn_cdf") or [], summary.get("sojourn_ns") or {}),
        "machine_chart": charts.machine_over_time(series),
        "mbuf_chart": charts.mbufs_over_time(series),
        "policy_chart": charts.cache_over_time((summary.get("policy") or {}).get("intervals") or []),
        "bank_chart": _banks(summary),
    }
    pictures = {name: None if each is None else each.svg() for name, each in drawn.items()}
    return {**pictures, "rate_over": "load" if over_load else "time"}


def _banks(summary: Summary) -> charts.Drawing | None:
    controllers = (summary.get("dram") or {}).get("controllers")
    return None if controllers is None else charts.banks(controllers)


def plot(summary: Summary, what: str) -> alt.TopLevelMixin:
    """A chart of a run for a notebook. Raises InputError for one that this run has not, with those that it has."""
    curve, series = summary.get("curve") or [], summary.get("series") or []
    policy = summary.get("policy") or {}
    drawn = {
        "sojourn": charts.sojourn_distribution(summary.get("sojourn_cdf") or [], summary.get("sojourn_ns") or {}),
        "rate over load": charts.rate_over_load(curve),
        "sojourn over load": charts.sojourn_over_load(curve),
        "rate over time": charts.rate_over_time(series),
        "machine over time": charts.machine_over_time(series),
        "mbufs over time": charts.mbufs_over_time(series),
        "cache over time": charts.cache_over_time(policy.get("intervals") or []),
        "banks": _banks(summary),
    }
    found = drawn.get(what)
    if found is None:
        has = [name for name, each in drawn.items() if each is not None]
        raise InputError(f"plot {what!r}: this run has {', '.join(has) or 'nothing to draw'}{nearest(what, has)}")
    return charts.for_notebook(found.chart)


def _named(machine: Mapping[str, Any]) -> dict[str, Any]:
    """What a machine says of itself in a word: a part that it does not name is no row."""
    return {k: v for k, v in machine.items() if v is not None and not isinstance(v, dict | list)}


def stacked(summary: Summary) -> list[Row]:
    """All packets, then each class, on one scale: the longest mean sojourn fills the width."""
    labels = summary.get("attribution_labels")
    found = summary.get("classes") or []
    classes = [
        _row(
            c.get("name", ""),
            c.get("packets"),
            q.interval((c.get("sojourn_ns") or {}).get("mean"), None),
            c.get("attribution_ns"),
            labels,
        )
        for c in found
    ]
    # Those that got through, as in the classes: what is lost or rejected has no sojourn.
    through = sum(c.get("packets") or 0 for c in found) if found else summary.get("packets")
    sojourn = summary.get("sojourn_ns") or {}
    mean = q.interval(sojourn.get("mean"), sojourn.get("half_width"))
    whole = _row("all packets", through, mean, summary.get("attribution_ns"), labels)
    rows = [row for row in [whole, *classes] if row.parts]
    cut = _cut(rows)
    longest = max((row.width - (cut if _link_ns(row) else 0.0) for row in rows), default=1.0)
    return [_drawn(row, cut, longest) for row in rows]


def _link_ns(row: Row) -> float:
    return sum(part.ns for part in row.parts if part.reason in _LINK)


def _folds(row: Row) -> bool:
    """Whether link and NIC leave too little of a bar for all else to be seen; something else has to be there."""
    return _FOLDED_ABOVE < _link_ns(row) / sum(part.ns for part in row.parts) < 1


def _cut(rows: Sequence[Row]) -> float:
    """The time of link and NIC that all rows have, where it is drawn short, else 0: what is beyond it is to scale."""
    if not rows or not _folds(rows[0]):
        return 0.0
    return min(link for row in rows if (link := _link_ns(row)) > 0)


def _drawn(row: Row, cut: float, longest: float) -> Row:
    """A row with its bar's length, as a share of the longest, and those of its parts in it."""
    if not cut:
        return replace(row, width=row.width / longest, pieces=_pieces(row.parts, [part.share for part in row.parts]))
    link, rest = _link_ns(row), (1 - _FOLDED) / longest
    drawn_link = _FOLDED + (link - cut) * rest
    lengths = [part.ns * (drawn_link / link if part.reason in _LINK else rest) for part in row.parts]
    width = sum(lengths)
    return replace(row, width=width, pieces=_pieces(row.parts, [length / width for length in lengths]))


def _pieces(parts: Sequence[Slice], drawn: Sequence[float]) -> list[Piece]:
    """Parts as they are drawn: neighbours thinner than a line are one piece, so that none is drawn too wide."""
    pieces: list[Piece] = []
    for part, share in zip(parts, drawn, strict=True):
        thin = share < _THIN and part.reason not in _LINK
        last = pieces[-1] if pieces else None
        if thin and last is not None and last.drawn < _THIN and last.most.reason not in _LINK:
            pieces[-1] = Piece([*last.parts, part], last.drawn + share)
        else:
            pieces.append(Piece([part], share))
    return pieces


def legend(rows: Sequence[Row]) -> list[Slice]:
    """Each reason that occurs in any row, once, in path order."""
    seen = {part.reason: part for row in reversed(rows) for part in row.parts}
    ordered = slices({reason: part.ns for reason, part in seen.items()}, None)
    return [seen[each.reason] for each in ordered]


def _row(
    name: str,
    packets: int | None,
    mean: str,
    attribution_ns: dict[str, float] | None,
    labels: dict[str, str] | None,
) -> Row:
    parts = slices(attribution_ns, labels)
    return Row(name, q.count(packets), mean, sum(part.ns for part in parts), parts, [])


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("wirespeed.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = q.unbroken
    return environment
