"""A study in words and tables, for the terminal and the page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wirespeed import printed
from wirespeed import quantities as q
from wirespeed.sweep import until
from wirespeed.sweep.metrics import METRICS

# Points that a terminal shows; all are in the files.
_SHOWN: Final = 40
_ERRORS_SHOWN: Final = 5
_WARM_UP: Final = "run.warmup"
_NUMBER: Final = re.compile(r"-?[\d.,]+(?: [^\W\d]+)?")


def headline(document: Mapping[str, Any]) -> str:
    """The answer: where the first metric that tells points apart is best, and which axis moves it."""
    measured = {name: [r for r in document["results"] if name in r] for name in document["metrics"]}
    name = next((name for name, results in measured.items() if differ(results, name)), None)
    if name is None:
        titles = [METRICS[each].title for each, results in measured.items() if len(results) > 1]
        if not titles:
            return counted(document)
        listed = " or ".join(filter(None, (", ".join(titles[:-1]), titles[-1])))
        return f"{listed[:1]}{listed[1:].lower()} of no point can be told from those of another"
    best = _best(measured[name], name)
    moved = _moved(document, name)
    most = "highest" if METRICS[name].better > 0 else "lowest"
    tied = sum(r is not best and _is_level(best[name], r[name]) for r in measured[name])
    beside = f", and {tied} more {'point is' if tied == 1 else 'points are'} as good" if tied else ""
    answer = f"{METRICS[name].title} is {most} at {_where(best, short=True)}: {value(name, best[name])}{beside}"
    return f"{answer}. {moved}" if moved else answer


def counted(document: Mapping[str, Any]) -> str:
    """How much was run, and of what."""
    results = document["results"]
    runs = sum(result["runs"] for result in results)
    words = f"{_several(len(results), 'point')}, {_several(runs, 'run')} of {document['name'] or document['scenario']}"
    lost = _lost(document)
    return f"{words}; {lost}" if lost else words


def differ(measured: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Whether any point can be told from the one with the highest or the lowest mean."""
    if len(measured) < 2:
        return False
    ends = (max(measured, key=lambda r: r[name]["mean"])[name], min(measured, key=lambda r: r[name]["mean"])[name])
    return any(not _is_level(end, result[name]) for end in ends for result in measured)


def effects(document: Mapping[str, Any], name: str) -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any]] | None]:
    """Of each axis the two points that differ in it alone and are farthest apart; None where no two can be told apart.

    In a grid every value meets all others, and an axis with one value that has results says nothing.
    """
    found: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]] | None] = {}
    if document.get("design", "grid") != "grid":
        return found
    measured = [result for result in document["results"] if name in result]
    for axis in (axis["name"] for axis in document["axes"]):
        groups: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
        for result in measured:
            groups.setdefault(tuple(v for k, v in result["at"].items() if k != axis), []).append(result)
        ends = [(_worst(group, name), _best(group, name)) for group in groups.values() if len(group) > 1]
        if ends:
            sure = [(a, b) for a, b in ends if not _is_level(a[name], b[name])]
            found[axis] = max(sure, key=lambda pair: _factor(pair, name)) if sure else None
    return found


def _moved(document: Mapping[str, Any], name: str) -> str:
    """Which axis moves a metric most, and which do not move it."""
    found = effects(document, name)
    moving = {axis: pair for axis, pair in found.items() if pair is not None}
    if not moving or len(found) < 2:
        return ""
    short = dict(zip(found, shortened(list(found)), strict=True))
    most = max(moving, key=lambda axis: _factor(moving[axis], name))
    a, b = (METRICS[name].text(each[name]["mean"]) for each in moving[most])
    still = [short[axis] for axis in found if axis not in moving]
    words = f"{short[most]} moves it most, {a} to {b} with all else equal"
    return f"{words}; {' and '.join(still)} {'does' if len(still) == 1 else 'do'} not measurably" if still else words


def _factor(pair: tuple[Mapping[str, Any], Mapping[str, Any]], name: str) -> float:
    low, high = sorted(abs(each[name]["mean"]) for each in pair)
    return high / low if low else math.inf


def _best(results: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return max(results, key=lambda result: METRICS[name].better * result[name]["mean"])


def _worst(results: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return min(results, key=lambda result: METRICS[name].better * result[name]["mean"])


def _several(n: int, what: str) -> str:
    return f"{q.count(n)} {what}{'' if n == 1 else 's'}"


def closing(document: Mapping[str, Any]) -> str | None:
    """Of points without a result how many there are, where the first one is and why; None where there are none."""
    found = errors(document)
    if not found:
        return None
    where, why = found[0]
    return f"of {q.count(len(document['results']))} points {_lost(document)}; the first is {where}: {why}"


def _lost(document: Mapping[str, Any]) -> str:
    """How many points have no result: refused by the scenario's rules before they ran, or failed as they ran."""
    wrong, broken = len(errors(document)), failed(document)
    told = [f"{q.count(wrong - broken)} cannot start"] if wrong > broken else []
    told += [f"{q.count(broken)} failed"] if broken else []
    return ", ".join(told)


def failed(document: Mapping[str, Any]) -> int:
    """Points that failed as they ran."""
    return sum(result["error"] is not None and result["runs"] > 0 for result in document["results"])


def value(name: str, of: Mapping[str, Any] | None) -> str:
    """The mean of a metric with its half-width."""
    if of is None:
        return q.MISSING
    metric, wide = METRICS[name], of["half_width"]
    if metric.unit == "µs":
        return q.interval(of["mean"], wide)
    shown = metric.text(of["mean"])
    if not wide or not of["mean"] or metric.unit == "%":
        return shown
    return f"{shown} ± {q.digits(100 * wide / abs(of['mean']), 2)} %"


def at(level: object) -> str:
    """A value of an axis, as `--set` takes it.

    >>> at(True), at(0.1), at("imix")
    ('true', '0.1', 'imix')
    """
    return str(level).lower() if isinstance(level, bool) else str(level)


def extremes(document: Mapping[str, Any]) -> list[str]:
    """Of each metric, where it is best."""
    lines = []
    for name in document["metrics"]:
        measured = [result for result in document["results"] if name in result]
        if len({result[name]["mean"] for result in measured}) < 2:
            continue
        best = _best(measured, name)
        equal = [result for result in measured if result is not best and _is_level(best[name], result[name])]
        title = METRICS[name].title
        same = [result for result in equal if result[name]["mean"] == best[name]["mean"]]
        if len(same) == len(equal) > 1 and len(equal) < len(measured) - 1:
            shown = value(name, best[name])
            lines.append(f"{title}: {shown} at {len(same) + 1} of {len(measured)} points, which are the best")
            continue
        if len(equal) == len(measured) - 1:
            lines.append(f"{title}: no point is surely better than the others; best measured {value(name, best[name])}")
            continue
        line = f"{title}: best at {_where(best)}, {value(name, best[name])}"
        if len(equal) == 1:
            line += f"; {_where(equal[0])} cannot be told from it"
        elif equal:
            line += f"; {len(equal)} more points cannot be told from it"
        if best[name]["half_width"] is None:
            line += f" ({_without_interval(best)})"
        lines.append(line)
    return lines


def widths(document: Mapping[str, Any]) -> list[str]:
    """What there is to say about half-widths: runs that are the same, and wanted ones that are not met."""
    lines = []
    sound = [result for result in document["results"] if result["error"] is None]
    known = [result for result in sound if has_width(result, document["metrics"])]
    if any(result["runs"] == 1 for result in known):
        lines.append(
            "one run a point: half-widths are those of batches of its packets; --replications or --until tell what "
            "other packets change"
        )
    same = sum(result["same_packets"] for result in sound)
    if same:
        where = "all points" if same == len(sound) else f"{same} of {len(sound)} points"
        are_known = any(result["same_packets"] for result in known)
        of_what = "half-widths there are those of batches of one run; " if are_known else ""
        lines.append(
            f"the runs of {where} see the same packets: the capture is the same for every seed; {of_what}"
            "more packets (run.packets) say more, more runs do not"
        )
    few = [result for result in sound if result["runs"] and "loss" not in result]
    if few and "loss" in document["metrics"]:
        lines.append(
            f"loss is not known of {_places(few, sound)}: rings and NIC memory take in all packets; raise run.packets"
        )
    for each in map(until.parse, document["until"]):
        name = each.metric.name
        lacking = [result for result in sound if name not in result]
        if lacking:
            lines.append(f"{name} has no value at {_places(lacking, sound)}: {each.text!r} is not waited for there")
        values = [result[name] for result in sound if name in result]
        missed = [of for of in values if of["half_width"] is None or not each.is_met(of["mean"], of["half_width"])]
        if missed:
            lines.append(f"{each.text!r} is not met at {len(missed)} of {len(values)} points")
    return lines


def warm_ups(document: Mapping[str, Any]) -> list[str]:
    """That points are measured from different packets on, where nobody wanted it."""
    cut = {n for result in document["results"] if (n := result.get("warmup_packets")) is not None}
    if len(cut) < 2:
        return []
    varied = [override for axis in document["axes"] for level in axis["overrides"] for override in level]
    if any(override.partition("=")[0].strip() == _WARM_UP for override in varied):
        return []
    return [
        "points are not measured from the same packet on: their warm-ups end by themselves, after "
        f"{q.count(min(cut))} to {q.count(max(cut))} packets; --set {_WARM_UP}={max(cut)} measures all from one on"
    ]


def has_width(result: Mapping[str, Any], metrics: Sequence[str]) -> bool:
    """Whether any of the metrics has a half-width at a point; a search for the highest rate has none in one run."""
    return any(name in result and result[name]["half_width"] is not None for name in metrics)


def is_of_batches(result: Mapping[str, Any]) -> bool:
    """Whether half-widths of a point are those of batches of packets of one run, and not over replications."""
    return bool(result["runs"] == 1 or result["same_packets"])


def _without_interval(result: Mapping[str, Any]) -> str:
    return "one run a point, and none tells an interval of it" if result["runs"] == 1 else "without intervals"


def _places(some: Sequence[Mapping[str, Any]], of: Sequence[Mapping[str, Any]]) -> str:
    if len(some) == 1 < len(of):
        return _where(some[0])
    return "any point" if len(some) == len(of) else f"{len(some)} of {len(of)} points"


def _is_level(best: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a mean differs from the best by no more than both half-widths together allow."""
    return bool(abs(best["mean"] - other["mean"]) <= math.hypot(best["half_width"] or 0.0, other["half_width"] or 0.0))


def _where(result: Mapping[str, Any], short: bool = False) -> str:
    names = shortened(list(result["at"])) if short else list(result["at"])
    return ", ".join(f"{name}={at(level)}" for name, level in zip(names, result["at"].values(), strict=True))


def rows(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: a point each."""
    axes = [axis["name"] for axis in document["axes"]]
    names = {axis["name"]: labels(axis, document["results"]) for axis in document["axes"]}
    metrics = document["metrics"]
    heads = [*axes, *metrics, *(["runs"] if document["replications"][1] > 1 else [])]
    out = []
    for result in document["results"]:
        row = [names[axis][result["at"][axis]] for axis in axes]
        row += [
            _no_result(result) if result["error"] and name not in result else value(name, result.get(name))
            for name in metrics
        ]
        out.append(row + ([str(result["runs"])] if document["replications"][1] > 1 else []))
    return heads, out


def _no_result(result: Mapping[str, Any]) -> str:
    return "failed" if result["runs"] else "no start"


def labels(axis: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> dict[object, str]:
    """Values of an axis for a table: of paths the names of the files, where those tell them apart."""
    values = dict.fromkeys(result["at"][axis["name"]] for result in results)
    names = {value: Path(value).name if isinstance(value, str) and "/" in value else at(value) for value in values}
    return names if len(set(names.values())) == len(names) else {value: at(value) for value in values}


def shortened(paths: Sequence[str]) -> list[str]:
    """Each dotted path by its shortest end that no other has.

    >>> shortened(["machine.llc.ways", "machine.l2.ways", "traffic.load"])
    ['llc.ways', 'l2.ways', 'load']
    """
    found = []
    for place, path in enumerate(paths):
        others = [f".{other}" for other in (*paths[:place], *paths[place + 1 :])]
        parts = path.split(".")
        ends = [".".join(parts[-count:]) for count in range(1, len(parts) + 1)]
        found.append(next((end for end in ends if not any(each.endswith(f".{end}") for each in others)), path))
    return found


def errors(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Points that failed, and why."""
    return [(_where(result), result["error"]) for result in document["results"] if result["error"] is not None]


def tables(document: Mapping[str, Any], width: int) -> list[Table]:
    """The points in tables that are no wider than that where they can be: axes in each, and as many metrics as fit."""
    heads, cells = rows(document)
    axes = len(document["axes"])
    # A path is known by its end, and eighty columns are soon full.
    heads[:axes] = shortened(heads[:axes])
    shown = cells[:_SHOWN]
    wide = [max(len(cell) for cell in column) + 2 for column in zip(heads, *shown, strict=True)]
    blocks: list[list[int]] = [[]]
    for place in range(axes, len(heads)):
        taken = [sum(wide[:axes]) + sum(wide[each] for each in block) for block in blocks]
        fitting = [block for block, used in zip(blocks, taken, strict=True) if not block or used + wide[place] <= width]
        # In order, but for the number of runs: it stands where there is room.
        if heads[place] != "runs":
            fitting = [block for block in fitting if block is blocks[-1]]
        if not fitting:
            blocks.append([])
            fitting = blocks[-1:]
        fitting[-1].append(place)
    found = []
    for block in blocks:
        columns = [*range(axes), *block]
        table = Table(box=None, header_style="dim", padding=(0, 1, 0, 1))
        for place in columns:
            # What is wider than the window wraps: a number that is cut off is another one.
            fits = sum(wide[:axes]) + wide[place] <= width
            is_name = place == 0 and not all(_NUMBER.fullmatch(row[0]) for row in shown)
            table.add_column(
                heads[place], justify="left" if is_name else "right", no_wrap=fits and place >= axes, overflow="fold"
            )
        for row in shown:
            table.add_row(*(Text(row[place]) for place in columns))
        found.append(table)
    return found


def summary(document: Mapping[str, Any], width: int = 80) -> RenderableType:
    """What the command prints, in so many columns."""
    parts: list[RenderableType] = [Text(headline(document), "bold"), Text(counted(document), "dim")]
    for table in tables(document, width):
        parts += [Text(), table]
    cells = document["results"]
    if len(cells) > _SHOWN:
        parts.append(Text(f" … and {len(cells) - _SHOWN} more", "dim"))
    parts += [Text(), printed.points(extremes(document))]
    parts.append(printed.points([*widths(document), *warm_ups(document)], "yellow"))
    wrong = errors(document)
    parts += [Text(f"· no result at {where}: {why}", "red") for where, why in wrong[:_ERRORS_SHOWN]]
    if len(wrong) > _ERRORS_SHOWN:
        parts.append(Text(f"· … and at {len(wrong) - _ERRORS_SHOWN} more points", "red"))
    return Group(*parts)
