"""A tuning in words and tables, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wirespeed import printed
from wirespeed import quantities as q

METRIC_WORDS: Final[Mapping[str, str]] = {
    "carried_mpps": "Carried rate",
    "carried_gbps": "Carried rate",
    "loss": "Loss",
    "mean": "Mean sojourn",
    "p50": "Median sojourn",
    "p99": "99th percentile of sojourn",
    "p999": "99.9th percentile of sojourn",
    "ndr": "Highest rate without loss",
    "pdr": "Highest rate within the loss limit",
}
PROGRAM_WORDS: Final[Mapping[str, str]] = {
    "cpu_mpps": "Packets per CPU-second",
    "highest": "What it tells",
    "lowest": "What it tells",
}
ALL_WORDS: Final = {**METRIC_WORDS, **PROGRAM_WORDS}

UNCHANGED: Final = "as it is"


def value(document: Mapping[str, Any], number: float | None) -> str:
    """A value of the metric in its unit."""
    metric = document["metric"]
    if metric == "loss":
        return q.probability(number)
    if metric == "carried_gbps":
        return q.gbps(number)
    if metric == "cpu_mpps":
        return q.MISSING if number is None else f"{q.digits(number, 4)} M"
    if metric in PROGRAM_WORDS:
        return q.digits(number, 4)
    if metric in ("carried_mpps", "ndr", "pdr"):
        return q.MISSING if number is None else f"{q.digits(number, 4)} Mpps"
    return q.duration(number)


def scale(document: Mapping[str, Any]) -> float:
    """By what a value is divided on an axis: times are drawn in µs, loss in percent."""
    return {"loss": 0.01, "mean": 1e3, "p50": 1e3, "p99": 1e3, "p999": 1e3}.get(document["metric"], 1.0)


def axis(document: Mapping[str, Any]) -> str:
    """The title of the axis that a metric is drawn on."""
    metric = document["metric"]
    if metric in PROGRAM_WORDS:
        unit = "millions" if metric == "cpu_mpps" else "in its own units"
        return f"{PROGRAM_WORDS[metric].lower()}, {unit}"
    unit = {"loss": "%", "carried_gbps": "Gbps"}.get(metric, "µs" if scale(document) == 1e3 else "Mpps")
    return f"{METRIC_WORDS[metric].lower()}, {unit}"


def headline(document: Mapping[str, Any]) -> str:
    """The best value and what it gains."""
    best, limit = document["best"], document["loss_limit"]
    words = f"{ALL_WORDS[document['metric']]} {value(document, best['value'])}"
    if best["gain_pct"] is not None:
        words += f", {q.change(best['gain_pct'])} against {value(document, document['base']['value'])} as it is"
    if not document["keeps_the_limit"]:
        words += (
            "; no point that was tried keeps the loss limit" if limit is not None else "; no point could be measured"
        )
    return words


def methods(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: what each way to choose came to. `gain` is positive where better, `no start` counts points."""
    truth = next((way["best"] for way in document["methods"] if way["method"] == "grid"), None)
    metric = document["metric"]
    heads = [
        "",
        {"cpu_mpps": "per CPU-s", "highest": "value", "lowest": "value"}.get(
            metric, "carried rate" if metric.startswith("carried") else metric
        ),
        "gain",
        "loss",
        "points",
        "no start",
        "seconds",
    ]
    heads += ["of grid"] if truth else []
    base = document["base"]
    rows = [
        [
            "as it is",
            value(document, base["value"]),
            "",
            q.probability(base["loss"]),
            "1",
            "",
            q.digits(base["seconds"], 2),
        ]
    ]
    rows[0] += [_part(base, truth)] if truth else []
    for way in document["methods"]:
        best = way["best"]
        if best is None:
            continue
        over = "" if best["keeps_the_limit"] else " > limit" if best["loss"] is not None else ""
        row = [
            way["method"],
            value(document, best["value"]),
            q.change(best["gain_pct"]),
            q.probability(best["loss"]) + over,
        ]
        row += [q.count(way["evaluations"]), q.count(way["infeasible"]), q.digits(way["seconds"], 2)]
        rows.append(row + ([_part(best, truth)] if truth else []))
    return heads, rows


def settings(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: each knob's value in the best of each way, and words where what is set already stays."""
    ways = [way for way in document["methods"] if way["best"] is not None]
    rows = [[path, *(str(way["best"]["settings"].get(path, UNCHANGED)) for way in ways)] for path in document["knobs"]]
    own = document.get("defaults")
    if own is None:
        return ["", *(way["method"] for way in ways)], rows
    rows = [[row[0], str(own.get(row[0], "its own")), *row[1:]] for row in rows]
    return ["", "as it is", *(way["method"] for way in ways)], rows


def notes(document: Mapping[str, Any]) -> list[str]:
    """What the ways have to say, and how it was measured."""
    said = [f"measured: {note}" for note in document.get("notes", ())]
    spread = document["best"]["values"]
    if "starts" in spread and {"lowest", "highest"} <= set(spread):
        said.append(
            f"the best of each way and the program as it is: medians of {q.count(spread['starts'])} more starts; "
            f"those of the best were {value(document, spread['lowest'])} to {value(document, spread['highest'])}"
        )
    prediction = document.get("prediction")
    if prediction is not None:
        rank = prediction["rank_correlation"]
        said.append(
            f"simulated beside each point: rank correlation {q.digits(rank, 2) if rank is not None else q.MISSING} "
            f"over {prediction['points']} points"
        )
    said += [f"died or hung: {each}" for each in document.get("died", ())]
    return said + [f"{way['method']}: {way['note']}" for way in document["methods"] if way["note"]]


def predictions(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: measured beside simulated, the program as it is and the best points first."""
    knobs = list(document["knobs"])
    own = document.get("defaults", {})
    sign = -1.0 if document["direction"] == "maximize" else 1.0
    points = [
        point for point in document["points"] if point["value"] is not None and point.get("predicted") is not None
    ]
    points.sort(key=lambda point: (bool(point["settings"]), sign * point["value"]))
    rows = [
        [
            *(str(point["settings"].get(path, own.get(path, "its own"))) for path in knobs),
            value(document, point["value"]),
            value(document, point["predicted"]),
            q.change(100 * (point["predicted"] / point["value"] - 1)) if point["value"] else q.MISSING,
        ]
        for point in points
    ]
    return [*knobs, "measured", "simulated", "difference"], rows


def summary(document: Mapping[str, Any]) -> RenderableType:
    """What the command prints before the command line of the best."""
    parts: list[RenderableType] = [Text(headline(document), "bold"), Text()]
    parts += [_table(*methods(document)), Text(), _table(*settings(document))]
    parts += [Text(), printed.points(notes(document), "dim")]
    return Group(*parts)


def _part(found: Mapping[str, Any], truth: Mapping[str, Any]) -> str:
    if not found["value"] or not truth["value"]:
        return q.MISSING
    return q.share(found["value"] / truth["value"])


def _table(heads: list[str], rows: list[list[str]]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 1))
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
