"""The design of the study of techniques, and what its runs say: effects, tables, a picture. Nothing is run here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import altair as alt
import numpy as np
from scipy.special import stdtrit

from wirespeed.advise.factorial import Design, Effect, effects

FACTORS: Final = ("short_rings", "wide_io", "drop_dead", "shared_ring", "nic_payload", "stash_header")
SETTINGS: Final = ("short_rings", "wide_io")
"""Those that an operator sets today; all others take another NIC, driver or processor."""
COPYING: Final = {"nic_payload": "copy_table"}
"""Where packets are copied, a payload that stays in the NIC is read through PCIe for each copy: no factor there."""
ALONE: Final = (
    *("hot_mbufs", "long_bursts", "prefetcher", "bisected_ring", "payload_past", "packet_buffer"),
    "nic_payload",
)
"""What excludes a factor, or was not made one: tried against the base alone."""
BASE_COLUMNS: Final = 5
# Box, Hunter and Hunter, "Statistics for Experimenters", 2nd ed., table 6.22: 2^(6-1) of resolution VI, F = ABCDE, so
# I = ABCDEF. Main effects are mixed up with interactions of five, and those of two with those of four. A factor is the
# product of base columns, as bits.
WORDS: Final = (0b00001, 0b00010, 0b00100, 0b01000, 0b10000, 0b11111)
MEASURES: Final[Mapping[str, tuple[str, str]]] = {
    "rate": ("carried_mpps", "carried at line rate, %"),
    "p99": ("p99_ns", "p99 at half of that, %"),
    "dram": ("dram_half", "DRAM at half of that, B a packet"),
    "dram_saturated": ("dram_saturated", "DRAM at line rate, B a packet"),
}
BESIDE: Final = ("alone", "chosen")
"""Parts whose sets are compared with the base one by one."""
LOGS: Final = ("rate", "p99")
"""Measures of which effects are ratios."""
WORTH_PCT: Final = 2.0
"""A technique that is expected to bring less than this to a set is left out of it."""
TOLD_PCT: Final = 3.0
"""Interactions smaller than this are in `effects.csv` alone."""

Set = tuple[str, ...]
Row = Mapping[str, Any]
Where = tuple[str, str]
"""A server and a function."""


def design() -> Design:
    """32 sets of six techniques, an even number in each; the first has none."""
    on = np.zeros((1 << BASE_COLUMNS, len(WORDS)), dtype=np.bool_)
    for run, factor in np.ndindex(*on.shape):
        # A product of -1 where a base column is off. All words are odd, so the first run has all off.
        on[run, factor] = (WORDS[factor] & ~run).bit_count() % 2 == 0
    return Design(WORDS, on)


def factors(function: str) -> Set:
    """The six of a function."""
    return tuple(COPYING.get(name, name) if function == "vhost" else name for name in FACTORS)


def sets(function: str) -> list[Set]:
    """Those of the design."""
    return [tuple(itertools.compress(factors(function), row)) for row in design().on]


def named(chosen: Iterable[str]) -> str:
    """A set as a word."""
    return "+".join(chosen) or "base"


def responses(
    rows: Sequence[Row], parts: Sequence[str], where: Where, measure: str, chosen: Sequence[Set]
) -> np.ndarray:
    """`[seed, set]`, of ratios their logarithms."""
    column = MEASURES[measure][0]
    found = {
        (int(row["seed"]), row["set"]): float(row[column])
        for row in rows
        if row["part"] in parts and (row["server"], row["function"]) == where
    }
    seeds = sorted({seed for seed, _ in found})
    values = np.array([[found[seed, named(each)] for each in chosen] for seed in seeds])
    return np.log(values) if measure in LOGS else values


def cells(rows: Sequence[Row]) -> list[Where]:
    """Servers and functions, in the order of the rows."""
    return list(dict.fromkeys((row["server"], row["function"]) for row in rows if row["part"] == "design"))


def of_design(rows: Sequence[Row], where: Where, measure: str) -> dict[Set, Effect]:
    """Main effects, and of each pair by how much more both bring than one by one; in % or bytes.

    A main effect is the mean over all others on and off. All intervals of pairs hold together (Bonferroni).
    """
    names = factors(where[1])
    values = responses(rows, ["design"], where, measure, sets(where[1]))
    single = [(i,) for i in range(len(names))]
    pairs = list(itertools.combinations(range(len(names)), 2))
    found = dict(zip(single, effects(design(), values, single), strict=True))
    # What all four corners say: twice the effect of a model whose terms add up.
    for pair, each in zip(pairs, effects(design(), values, pairs, together=True), strict=True):
        found[pair] = Effect(2 * each.value, 2 * each.half_width)
    return {tuple(names[i] for i in term): _shown(each, measure) for term, each in found.items()}


def _shown(effect: Effect, measure: str) -> Effect:
    if measure not in LOGS:
        return effect
    ratio = math.exp(effect.value)
    return Effect(100 * (ratio - 1), 100 * ratio * effect.half_width)


def against_base(rows: Sequence[Row], where: Where, measure: str) -> dict[Set, Effect]:
    """What sets that were tried beside the base change, seed by seed; in % or bytes.

    Sets and seeds are a layout of two ways: what neither explains is the error, pooled over all sets of a cell.
    """
    chosen = _tried(rows, where)
    values = responses(rows, BESIDE, where, measure, chosen)
    seeds, count = values.shape
    rest = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    degrees = (seeds - 1) * (count - 1)
    wide = math.inf
    if degrees:
        wide = float(stdtrit(degrees, 0.975)) * math.sqrt(2 * float((rest**2).sum()) / degrees / seeds)
    mean = values.mean(axis=0)
    base = mean[chosen.index(())]
    return {
        each: _shown(Effect(float(value - base), wide), measure)
        for each, value in zip(chosen, mean, strict=True)
        if each
    }


def _tried(rows: Sequence[Row], where: Where) -> list[Set]:
    of_cell = (row["set"] for row in rows if row["part"] in BESIDE and (row["server"], row["function"]) == where)
    return [() if name == "base" else tuple(name.split("+")) for name in dict.fromkeys(of_cell)]


def table_of_effects(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A row an effect."""
    found = []
    for where, measure in itertools.product(cells(rows), MEASURES):
        its = {"design": of_design(rows, where, measure)}
        if _tried(rows, where):
            its["beside"] = against_base(rows, where, measure)
        for part, terms in its.items():
            joint = " × " if part == "design" else "+"
            found += [
                {
                    **dict(zip(("server", "function"), where, strict=True)),
                    "measure": measure,
                    "part": part,
                    "term": joint.join(term),
                    "value": round(each.value, 2),
                    "half_width": round(each.half_width, 2),
                }
                for term, each in terms.items()
            ]
    return found


def expected(rows: Sequence[Row], where: Where, measure: str) -> Callable[[Set], float]:
    """What the design's main effects and interactions of two say of any set, over the base: a logarithm."""
    names = factors(where[1])
    values = responses(rows, ["design"], where, measure, sets(where[1]))
    terms = [each for size in (1, 2) for each in itertools.combinations(range(len(names)), size)]
    halves = [each.value / 2 for each in effects(design(), values, terms)]

    def of(chosen: Set) -> float:
        signs = [1 if name in chosen else -1 for name in names]
        changes = (math.prod(signs[i] for i in term) - (-1) ** len(term) for term in terms)
        return sum(half * change for half, change in zip(halves, changes, strict=True))

    return of


def recommended(rows: Sequence[Row], where: Where, among: Sequence[str]) -> Set:
    """The set that is expected to carry most; where none carries more, the one with the least p99.

    Techniques that bring it less than `WORTH_PCT` are left out, those that bring least first.
    """
    every = [tuple(c) for size in range(len(among) + 1) for c in itertools.combinations(among, size)]
    least = math.log1p(WORTH_PCT / 100)
    for measure, sign in (("rate", 1), ("p99", -1)):
        model = expected(rows, where, measure)
        best = max(every, key=lambda each, model=model, sign=sign: sign * model(each))
        while best:
            fewer = [tuple(name for name in best if name != out) for out in best]
            next_best = max(fewer, key=lambda each, model=model, sign=sign: sign * model(each))
            if sign * (model(best) - model(next_best)) >= least:
                break
            best = next_best
        if best:
            return best
    return ()


def tables(rows: Sequence[Row]) -> str:
    """What the page shows."""
    found = table_of_effects(rows)
    index = {(each["part"], each["measure"], each["server"], each["function"], each["term"]): each for each in found}
    parts = {
        "recommended": _recommended(rows, index),
        "effects": _effects(rows, index),
        "pairs": _pairs(found),
        "alone": _others(rows, index),
    }
    lines = []
    for name, its in parts.items():
        lines += [f"<!-- --8<-- [start:{name}] -->", "", *its, f"<!-- --8<-- [end:{name}] -->", ""]
    return "\n".join(lines)


def _head(first: str, rows: Sequence[Row]) -> list[str]:
    names = [f"{function}, {server} G" for server, function in cells(rows)]
    return [f"| {first} | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]


def _cell(found: Mapping[str, Any] | None, unit: str, digits: int = 1) -> str:
    if found is None:
        return "–"
    value, wide = float(found["value"]), float(found["half_width"])
    if not math.isfinite(wide):
        return f"{value:+.{digits}f}{unit}"  # of one seed
    text = f"{value:+.{digits}f} ± {wide:.{digits}f}{unit}"
    return text if abs(value) > wide else f"({text})"


def _recommended(rows: Sequence[Row], index: Mapping[tuple[str, ...], Any]) -> list[str]:
    lines = [
        "| server, function | set | carried at line rate | without loss | p99 at half | DRAM at half |",
        "|---|---|---|---|---|---|",
    ]
    for where in cells(rows):
        its = [row for row in rows if (row["server"], row["function"]) == where]
        searched = {row["set"]: float(row["ndr_mpps"]) for row in its if row["part"] == "search"}
        for chosen in dict.fromkeys(row["set"] for row in its if row["part"] == "chosen"):
            ndr = f"{searched[chosen]:.1f} Mpps" if chosen in searched else "–"
            means = {name: _mean(rows, where, chosen, column) for name, (column, _) in MEASURES.items()}
            if chosen == "base":
                shown = [f"{means['rate']:.1f} Mpps", ndr, f"{means['p99'] / 1e3:.2f} µs", f"{means['dram']:.0f} B"]
            else:
                rate, p99 = (_cell(index["beside", name, *where, chosen], " %") for name in LOGS)
                if chosen in searched and searched.get("base"):
                    ndr += f", {100 * (searched[chosen] / searched['base'] - 1):+.0f} %"
                shown = [rate, ndr, p99, f"{means['dram']:.0f} B"]
            words = "as it is" if chosen == "base" else ", ".join(f"`{name}`" for name in chosen.split("+"))
            lines.append(f"| {where[0]} Gbps, {where[1]} | {words} | {' | '.join(shown)} |")
    return [*lines, ""]


def _mean(rows: Sequence[Row], where: Where, chosen: str, column: str) -> float:
    """Over seeds, of a set that was tried beside the base; NaN where it was not."""
    found = {
        row["seed"]: float(row[column])
        for row in rows
        if row["part"] in BESIDE and (row["server"], row["function"], row["set"]) == (*where, chosen)
    }
    return float(np.mean(list(found.values()))) if found else math.nan


def _effects(rows: Sequence[Row], index: Mapping[tuple[str, ...], Any]) -> list[str]:
    lines = []
    for measure, title in (("rate", "carried, %"), ("p99", "p99, %")):
        lines += _head(title, rows)
        for name in (*FACTORS, *COPYING.values()):
            found = [_cell(index.get(("design", measure, *where, name)), "") for where in cells(rows)]
            lines.append(f"| `{name}` | {' | '.join(found)} |")
        lines.append("")
    return lines


def _pairs(found: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| server, function | pair | carried, together more than one by one |", "|---|---|---|"]
    sure = [
        each
        for each in found
        if (each["part"], each["measure"]) == ("design", "rate")
        and " × " in each["term"]
        and abs(float(each["value"])) > max(float(each["half_width"]), TOLD_PCT)
    ]
    for each in sure:
        pair = " with ".join(f"`{name}`" for name in each["term"].split(" × "))
        lines.append(f"| {each['server']} Gbps, {each['function']} | {pair} | {_cell(each, ' %')} |")
    return [*lines, ""]


def _others(rows: Sequence[Row], index: Mapping[tuple[str, ...], Any]) -> list[str]:
    lines = []
    for measure, title in (("rate", "alone: carried, %"), ("p99", "alone: p99, %")):
        lines += _head(title, rows)
        for name in dict.fromkeys((*FACTORS, *COPYING.values(), *ALONE)):
            found = [_cell(index.get(("beside", measure, *where, name)), "") for where in cells(rows)]
            if any(each != "–" for each in found):
                lines.append(f"| `{name}` | {' | '.join(found)} |")
        lines.append("")
    lines += _head("alone: DRAM, B a packet", rows)
    for name in dict.fromkeys(("base", *FACTORS, *COPYING.values(), *ALONE)):
        found = [_mean(rows, where, name, "dram_half") for where in cells(rows)]
        if not all(math.isnan(each) for each in found):
            words = "as it is" if name == "base" else f"`{name}`"
            lines.append(f"| {words} | {' | '.join('–' if math.isnan(each) else f'{each:.1f}' for each in found)} |")
    return [*lines, ""]


def chart(rows: Sequence[Row]) -> alt.TopLevelMixin:
    """Effects with their intervals, a panel a function and server: filled over all others, hollow alone."""
    values = [
        {
            "server": f"{each['server']} Gbps",
            "function": each["function"],
            "technique": each["term"],
            "measure": each["measure"],
            "part": each["part"],
            "value": float(each["value"]),
            "from": float(each["value"]) - float(each["half_width"]),
            "to": float(each["value"]) + float(each["half_width"]),
            "which": "a setting" if each["term"] in SETTINGS else "new hardware, firmware or driver",
        }
        for each in table_of_effects(rows)
        if each["term"] in factors(each["function"])
    ]
    panels = (_panel(values, measure, MEASURES[measure][1]) for measure in LOGS)
    return alt.hconcat(*panels).configure(background="white")


def _panel(values: Sequence[Mapping[str, Any]], measure: str, title: str) -> alt.FacetChart:
    its = alt.Data(values=[each for each in values if each["measure"] == measure])
    base = alt.Chart(its, width=150, height=110)
    y = alt.Y("technique:N", sort=[*FACTORS, *COPYING.values()], title=None)
    # Told apart in print without colour, too: by shape.
    kinds = alt.Scale(range=["#0072b2", "#d55e00"])
    colour = alt.Color("which:N", title=None, legend=alt.Legend(orient="bottom"), scale=kinds)
    shape = alt.Shape("which:N", title=None, legend=alt.Legend(orient="bottom"))
    zero = base.mark_rule(color="#888888").encode(x=alt.datum(0))
    averaged = base.transform_filter("datum.part == 'design'")
    x = alt.X("value:Q", title=title)
    bars = averaged.mark_rule(strokeWidth=2, color="#555555").encode(y=y, x=alt.X("from:Q", title=title), x2="to:Q")
    points = averaged.mark_point(filled=True, size=40, opacity=1).encode(y=y, x=x, color=colour, shape=shape)
    alone = base.transform_filter("datum.part == 'beside'").mark_point(filled=False, size=45, opacity=1)
    hollow = alone.encode(y=y, x=x, color=colour, shape=shape)
    return (zero + bars + points + hollow).facet(
        row=alt.Row("function:N", title=None), column=alt.Column("server:N", title=None)
    )
