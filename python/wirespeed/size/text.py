"""A sizing in words and tables, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from wirespeed import printed
from wirespeed import quantities as q
from wirespeed.size.dimensions import BY_NAME
from wirespeed.summary import FEW_REJECTED, LIMITS

_CAUSES: Final[Mapping[str, str]] = {
    "rate": "the rate",
    "loss": "the loss",
    "p99": "the 99th percentile",
    "stalls": "stalls of the system",
    "start": "it does not start",
}
_SHORT: Final[Mapping[str, str]] = {"start": "its start"}
# Told of each machine that was tried, by name; cores have a column of their own.
_SHOWN: Final = ("receivers", "queues", "rings", "pool", "burst", "io_ways", "core_ways")
_ROWS: Final = 16


def headline(document: Mapping[str, Any]) -> str:
    """The answer in one sentence."""
    best, goal = document["nearest"], document["target"]
    if not document["met"]:
        what = {"rate": f"carries {_carried(best)}", "p99": f"has a p99 of {q.duration(best['p99_ns'])}"}
        said = what.get(best["cause"], f"loses up to {q.probability(best['loss_upper_95'] + best['stall_loss'])}")
        return f"Not met by any machine that was tried: the nearest, {machine(document)}, {said}"
    rate, lost, verb = q.mpps(goal["mpps"]), q.probability(_bound(best)), "carry" if _many(best) else "carries"
    does = f"{machine(document)} {verb} {rate} with a loss below {lost} and a p99 of {_p99(best)}"
    if (share := _rejected(best)) > FEW_REJECTED:
        does += f"; {q.share(share)} of the packets are rejected by the function itself, whatever the machine"
    return f"Met already: {does}" if document["already"] else _capital(does)


def _rejected(trial: Mapping[str, Any]) -> float:
    """The share of packets that are neither carried nor lost: what the function rejects, a rate that it polices say."""
    offered, carried = float(trial["offered_mpps"] or 0.0), float(trial["carried_mpps"] or 0.0)
    return 0.0 if offered <= 0.0 else 1.0 - carried / offered - float(trial["loss"] or 0.0)


def machine(document: Mapping[str, Any]) -> str:
    """The machine of the answer: cores, and what else is another there."""
    best = document["nearest"]
    others = [f"{q.count(best['machine'][name])} {BY_NAME[name].title}" for name in _SHOWN if name in best["changed"]]
    cores = "one core" if not _many(best) else f"{best['machine']['cores']} cores"
    return f"{cores} with {_listed(others)}" if others else cores


def facts(document: Mapping[str, Any]) -> list[str]:
    """What is said below the headline, one fact a line."""
    lines = [_as_it_is(document)] if not document["already"] else []
    if document["short"] is not None:
        lines += _lacking(document)
    if document["already"]:
        lines.append("Less may be enough, too: --least looks for fewer cores.")
    lines.append(_margin(document))
    if (beside := _beside_the_model(document)) is not None:
        lines.append(beside)
    lines.append(_shown(document))
    if document["nearest"]["p99_high"] is None:
        lines.append("Its p99 has no interval: what waits does so for long beside the run; --p99 asks for one.")
    if (ring := _ring(document)) is not None:
        lines.append(ring)
    return lines


def to_set(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: settings that change."""
    rows = [[each["path"], q.count(each["from"]), q.count(each["to"]), each["who"]] for each in document["changes"]]
    return ["what to set", "as it is", "to", "who"], rows


def where(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where each setting that changes is set on a server."""
    return [(each["path"], each["where"]) for each in document["changes"]]


def tried(document: Mapping[str, Any], most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: what was tried, by cores, each with its rate, loss and 99th percentile."""
    shown = [each for each in document["tried"] if each["packets"]]
    shown.sort(key=lambda each: (each["machine"]["cores"], len(each["changed"]), each["outcome"] != "meets"))
    if most is not None and len(shown) > most:
        # The answer, the machine as it is and what is nearest to them are what one looks for.
        by_rate = sorted(shown, key=lambda each: (each["outcome"] != "meets", -each["carried_mpps"]))
        kept = [document["nearest"]["machine"], document["now"]["machine"]]
        kept += [each["machine"] for each in by_rate][: most - 2]
        shown = [each for each in shown if each["machine"] in kept]
    return ["cores", "also changed", "carried, Mpps", "loss", "p99", "target"], [
        _row(each, document["target"]["loss"]) for each in shown
    ]


def commands(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What to run: a label and a command line."""
    what = "Run it under the target" if document["met"] else "Run the nearest under the target"
    return [(what, str(document["command"]))]


def summary(document: Mapping[str, Any]) -> RenderableType:
    """What the command prints before the command line."""
    parts: list[RenderableType] = [Text(headline(document), "bold"), Text()]
    parts.append(printed.points(facts(document)))
    heads, rows = to_set(document)
    if rows:
        parts += [Text(), _table([heads[0], f">{heads[1]}", f">{heads[2]}", heads[3]], rows)]
        parts += [Padding(Text(f"{path}: {place}", "dim"), (0, 0, 0, 1)) for path, place in where(document)]
    heads, rows = tried(document, _ROWS)
    parts += [Text(), _table([f">{heads[0]}", heads[1], *(f">{head}" for head in heads[2:5]), heads[5]], rows)]
    left = sum(bool(each["packets"]) for each in document["tried"]) - len(rows)
    if left:
        parts.append(Text(f" and {left} more (--out DIR, or --format json)", "dim"))
    return Group(*parts)


def verdict(document: Mapping[str, Any]) -> str:
    """The box of the headline: green where the target is met, amber where that is by less than the model's error."""
    if not document["met"]:
        return "fails"
    return "open" if document["margin"]["beyond_model_error"] is False else "keeps"


def label(trial: Mapping[str, Any]) -> str:
    """What is another there than as it is, beside cores."""
    # The pool follows cores and rings, and is told where it alone is another.
    shown = [name for name in _SHOWN if name in trial["changed"] and (name != "pool" or trial["changed"] == ["pool"])]
    return ", ".join(f"{name} {q.count(trial['machine'][name])}" for name in shown)


def _row(trial: Mapping[str, Any], allowed: float) -> list[str]:
    wide = trial["carried_half_width"]
    carried = q.digits(trial["carried_mpps"], 4) + ("" if not wide else f" ± {q.digits(wide, 2)}")
    lost = f"< {q.probability(_bound(trial))}" if not trial["lost"] else q.probability(trial["loss"])
    return [str(trial["machine"]["cores"]), label(trial), carried, lost, _p99(trial), _outcome(trial, allowed)]


def _p99(trial: Mapping[str, Any]) -> str:
    """The 99th percentile of the sojourn, with its half-width where that is known."""
    return q.interval(trial["p99_ns"], _wide(trial))


def _wide(trial: Mapping[str, Any]) -> float | None:
    """The half-width of the 99th percentile: to the end that is further off."""
    ends = [trial["p99_low"], trial["p99_high"]]
    return None if None in ends else max(abs(end - trial["p99_ns"]) for end in ends)


def _outcome(trial: Mapping[str, Any], allowed: float) -> str:
    if trial["outcome"] == "open":
        return "not tried to the end"
    if trial["cause"] == "rate" and trial["loss"] <= allowed and trial["lost"]:
        # So few were lost that it may be within what is allowed, and so many that it may not.
        return "loss not shown"
    return "meets" if trial["outcome"] == "meets" else f"misses {_SHORT.get(trial['cause'], trial['cause'])}"


def _as_it_is(document: Mapping[str, Any]) -> str:
    now = document["now"]
    cores = now["machine"]["cores"]
    about = f"As it is ({document['machine'] or 'the machine'}, {cores} {'core' if cores == 1 else 'cores'})"
    if now["outcome"] == "meets":
        return f"{about} the target is met, too."
    return f"{about} it does not: {now['why']}; {_carried(now)} carried, p99 {q.duration(now['p99_ns'])}."


def _lacking(document: Mapping[str, Any]) -> list[str]:
    short = document["short"]
    lines = [f"What is missed is {_CAUSES.get(short['cause'], 'unknown')}; what limits is {LIMITS[short['limit']]}."]
    if short["grow"]:
        most = {name: each["values"][-1] for name, each in document["dimensions"].items()}
        ends = [f"{BY_NAME[name].title} (tried up to {most[name]})" for name in short["grow"]]
        lines.append(f"What would have to grow: {_listed(ends)}.")
        if short["cores_by_share"] is not None:
            lines.append(f"At what each core carries here it would take {short['cores_by_share']} cores.")
    else:
        lines.append("No dimension that may be varied here brings more: it is another machine, or another program.")
    return lines


def _margin(document: Mapping[str, Any]) -> str:
    margin, goal = document["margin"], document["target"]
    carried = q.mpps(margin["saturated_mpps"])
    if margin["lossless_at_line"]:
        return f"It carries line rate, too: {carried}. Its parts have time for {_share(margin['share'])} of the target."
    line = q.mpps(goal["line_mpps"])
    return f"Where line rate is offered, {line}, it carries {carried}: {_share(margin['share'])} of the target."


def _share(share: float) -> str:
    return f"{100 * (1 + share):,.0f} %"


def _beside_the_model(document: Mapping[str, Any]) -> str | None:
    margin = document["margin"]
    if margin["error_high"] is None:
        return "No server was measured that shares the part which limits here: how far off the rate is, is not known."
    range_ = f"{margin['error_low'] * 100:+.0f} to {margin['error_high'] * 100:+.0f} %"
    if not document["met"]:
        return f"The model's error on servers that share parts with this one is {range_}."
    if margin["beyond_model_error"]:
        return f"That is beyond the model's error of {range_} on servers that share parts with this one."
    cores = margin["cores_beyond_error"]
    has_less = cores is not None and document["nearest"]["machine"]["cores"] < cores
    more = f"; with {cores} cores, by the same share a core, it would be" if has_less else ""
    return f"That is not beyond the model's error of {range_} on servers that share parts with this one{more}."


def _shown(document: Mapping[str, Any]) -> str:
    best, goal = document["nearest"], document["target"]
    lost = "none" if not best["lost"] else q.count(best["lost"])
    text = f"{_capital(lost)} of {q.count(best['packets'])} packets lost: below {q.probability(_bound(best))} at 95 %"
    if best["outcome"] == "meets" and goal["shown_loss"] > goal["loss"] * (1 + 1e-9):
        needed = q.count(goal["needed_packets"])
        text += f"; {q.probability(goal['loss'])} takes {needed} (leave out --packets)"
    return f"{text}. An overload of less than {q.share(goal['overload_shown'], 2)} would not show."


def _ring(document: Mapping[str, Any]) -> str | None:
    least, best = document["least_ring"], document["nearest"]
    if least is None or not document["met"]:
        return None
    stalls = best["stalls"]
    against = (
        "no stalls of the system are in the scenario (machine.core.stalls): keep more than that"
        if stalls is None
        else f"the longest stall takes rings of {stalls['least_descriptors'] or 'more than may be'}"
    )
    if least >= best["machine"]["rings"]:
        return None
    return f"Rings of {q.count(least)} descriptors meet it, too; {against}."


def _bound(trial: Mapping[str, Any]) -> float:
    return float(trial["loss_upper_95"] + trial["stall_loss"])


def _carried(trial: Mapping[str, Any]) -> str:
    return f"{q.digits(trial['carried_mpps'])} of {q.mpps(trial['offered_mpps'])}"


def _many(trial: Mapping[str, Any]) -> bool:
    return bool(trial["machine"]["cores"] != 1)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    table = printed.table(*heads)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
