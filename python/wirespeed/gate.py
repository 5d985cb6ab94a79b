"""Conditions on a comparison, for CI: `p99 > +5%`, `loss > 0.001`, `p99 > 20 us`, `carried_mpps < 5 Mpps`.

A condition is `METRIC OP VALUE`. With a sign and `%` the value is a change against the first operand; else it is an
absolute value of the other operand, with a unit (time: ns us ms s; rate: pps kpps Mpps Gpps; energy a packet: pJ nJ uJ;
loss: none, or `%`).

A condition *fails* a build only where it holds significantly: for every value within the 95 % half-width around what
was measured. It is *ok* where it holds for none of them. Where it holds for some of them the runs cannot tell: it is
*within noise*, whichever side the measured value is on; more packets decide it.
It fails too where the other operand has no value and the baseline has one: a machine that forwards nothing has no p99
to be below a limit. Where neither has one it is *not known*, and that is no pass; nor is the loss of a run of so few
packets that none could be lost.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypedDict

from wirespeed import quantities as q
from wirespeed import units
from wirespeed.errors import InputError, nearest
from wirespeed.summary import REASONS


class Metric(TypedDict, total=False):
    """One metric of a comparison: `a` is the baseline; percentages are relative to it and may be null."""

    metric: str
    unit: str
    a: float | None
    b: float | None
    change_pct: float | None
    half_width_pct: float | None
    b_half_width: float | None
    significant: bool
    better: bool | None


Op = Literal[">", "<", ">=", "<="]
Outcome = Literal["fails", "within noise", "ok", "not known"]

NO_PASS: Final[tuple[Outcome, ...]] = ("fails", "not known")
"""Outcomes that fail a build."""
UNDECIDED: Final[Outcome] = "within noise"
"""What the runs cannot tell: no failure, and no pass either."""

METRICS: Final = ("p50", "p99", "p999", "mean", "loss", "carried_mpps", "dram_energy", *REASONS)
_ALIASES: Final = {"p99.9": "p999", "p50.0": "p50", "median": "p50", "carried": "carried_mpps"}
_OPS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
# Of metrics that are no times: the kind of an absolute value, what the metric's unit is in its base unit, and words.
_KINDS: Final[Mapping[str, tuple[str, float, str, str]]] = {
    "carried_mpps": ("packets", 1e6, "5 Mpps", "pps kpps Mpps Gpps"),
    "dram_energy": ("energy", 1.0, "50 nJ", "pJ nJ uJ"),
}
_ENERGY: Final[Mapping[str, float]] = {"pJ": 1e-3, "nJ": 1.0, "uJ": 1e3, "µJ": 1e3, "μJ": 1e3}
_FORM: Final = re.compile(
    r"\s*(?P<metric>[A-Za-z_][\w.]*)\s*(?P<op>>=|<=|>|<)\s*"
    r"(?P<sign>[+-]?)(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>%|[A-Za-zµμ/]*)\s*",
)
_EXAMPLES: Final = "for example 'p99 > +5%', 'p99 > 20 us', 'loss > 0.001' or 'carried_mpps < 5 Mpps'"


@dataclass(frozen=True, slots=True)
class Condition:
    """`metric op value`; `value` is percent where `relative`, else in ns, Mpps or a share."""

    text: str
    metric: str
    op: Op
    value: float
    relative: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a condition came to: what was observed and its half-width, in the unit of the condition's value."""

    condition: Condition
    outcome: Outcome
    observed: float
    half_width: float
    why: str = ""
    """Why there is nothing to judge, where there is not."""

    @property
    def sentence(self) -> str:
        """The judgement in words."""
        if self.why:
            return f"{self.condition.text}: {self.why}"
        seen, wide = _shown(self.condition, self.observed), _shown_width(self.condition, self.half_width)
        if self.condition.relative and wide:
            seen = seen.removesuffix(" %")
        holds = _OPS[self.condition.op](self.observed, self.condition.value)
        says = {
            "fails": "holds",
            "within noise": "cannot be told: it holds "
            + ("for the measured value, but not" if holds else "not for the measured value, but perhaps")
            + " for all within its half-width; more packets decide",
            "ok": "does not hold",
            "not known": "may hold or not",
        }[self.outcome]
        verb = "changed by" if self.condition.relative else "is"
        return f"{self.condition.text} {says}: {self.condition.metric} {verb} {seen}{wide}"


def parse(text: str) -> Condition:
    """Reads a condition. Raises InputError that says what is allowed.

    >>> parse("p99 > +5%").relative, parse("p99 > 20 us").value
    (True, 20000.0)
    """
    where = f"--fail-if {text!r}"
    form = _FORM.fullmatch(text)
    if form is None:
        raise InputError(f"{where}: must be METRIC OP VALUE with OP one of > < >= <=, {_EXAMPLES}")
    metric = _ALIASES.get(form["metric"], form["metric"])
    if metric not in METRICS:
        raise InputError(
            f"{where}: there is no metric `{metric}`{nearest(metric, METRICS)}; metrics are: {', '.join(METRICS)}"
        )
    number = float(form["sign"] + form["number"])
    if not math.isfinite(number):
        raise InputError(f"{where}: {form['number']} is out of range")
    if form["sign"] and form["unit"] == "%":
        return Condition(text.strip(), metric, _op(form["op"]), number, relative=True)
    return Condition(text.strip(), metric, _op(form["op"]), _absolute(where, metric, form, number), relative=False)


def judge(condition: Condition, metrics: Mapping[str, Metric]) -> Judgement:
    """Whether the condition holds for the whole interval (fails), for a part of it (within noise), or not (ok).

    Of an operand without a value see this module's header. `metrics` are those of one comparison, by name. Raises
    InputError where the comparison lacks the metric.
    """
    metric = metrics.get(condition.metric)
    if metric is None:
        raise InputError(
            f"--fail-if {condition.text!r}: the runs do not report `{condition.metric}`"
            f"{nearest(condition.metric, metrics)}; they report: {', '.join(metrics)}"
        )
    if (without := _without(condition, metric, metrics)) is not None:
        return without
    observed, half_width = _change(metric) if condition.relative else _value(metric)
    holds = _OPS[condition.op]
    if math.isnan(half_width):  # unbounded, as a quantile of too few packets: the comparison's own word decides
        sure: Outcome = "fails" if holds(observed, condition.value) else "ok"
        return Judgement(condition, sure if metric.get("significant") else UNDECIDED, observed, half_width)
    ends = [holds(observed + sign * half_width, condition.value) for sign in (-1, 1)]
    outcome: Outcome = "fails" if all(ends) else UNDECIDED if any(ends) else "ok"
    return Judgement(condition, outcome, observed, half_width)


def _without(condition: Condition, metric: Metric, metrics: Mapping[str, Metric]) -> Judgement | None:
    """The judgement where a value that is wanted is not there."""
    name = condition.metric
    dead = [side for side in ("a", "b") if _carries_nothing(metrics, side)]
    # A reason of no packet is reported as 0: it is not measured.
    has = {side: q.is_number(metric.get(side)) and not (side in dead and name in REASONS) for side in ("a", "b")}
    if has["b"] and (has["a"] or not condition.relative):
        return None
    nothing = {side: ": nothing was carried" if side in dead else "" for side in ("a", "b")}
    if name == "loss" and not has["b"] and q.is_number(metrics.get("carried_mpps", {}).get("b")):
        why = "b offered too few packets to lose one (rings and NIC memory take them in; raise run.packets)"
        return Judgement(condition, "not known", math.nan, math.nan, why)
    if has["a"]:
        return Judgement(condition, "fails", math.nan, math.nan, f"b has no {name}{nothing['b']}")
    if has["b"]:
        return Judgement(condition, "not known", math.nan, math.nan, f"a has no {name} to compare with{nothing['a']}")
    return Judgement(condition, "not known", math.nan, math.nan, f"neither has a {name}{nothing['b']}")


def _carries_nothing(metrics: Mapping[str, Metric], side: Literal["a", "b"]) -> bool:
    return metrics.get("carried_mpps", {}).get(side) == 0


def _change(metric: Metric) -> tuple[float, float]:
    """The relative change in percent and its half-width; a change from zero is infinite, and 0 -> 0 is none."""
    a, b, percent = metric.get("a"), metric.get("b"), metric.get("change_pct")
    if percent is not None and not math.isnan(percent):
        return percent, _half_width_pct(metric)
    if a is not None and b is not None and not math.isnan(a) and not math.isnan(b):
        if a == b:
            return 0.0, 0.0
        if a == 0:
            return math.copysign(math.inf, b), math.nan
    return math.nan, math.nan


def _value(metric: Metric) -> tuple[float, float]:
    """The value of the other operand and its half-width, in the metric's unit.

    Where that is not known it is the half-width of the difference, which is no less unless both saw the same packets.
    """
    a, b = metric.get("a"), metric.get("b")
    if b is None:
        return math.nan, math.nan
    if a is None or metric.get("b_half_width") is not None:
        return b, _number(metric.get("b_half_width"))
    if a == b == 0:
        return 0.0, 0.0  # what neither saw is judged as it was seen
    return b, (abs(a) * _half_width_pct(metric) / 100 if a else _number(metric.get("b_half_width")))


def _half_width_pct(metric: Metric) -> float:
    return _number(metric.get("half_width_pct"))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _absolute(where: str, metric: str, form: re.Match[str], number: float) -> float:
    unit = form["unit"]
    if metric == "loss":
        if unit not in ("", "%"):
            raise InputError(f"{where}: a loss is a share such as 0.001 or 0.1%, it has no unit `{unit}`")
        return number / 100 if unit == "%" else number
    kind, scale, example, allowed = _KINDS.get(metric, ("time", 1e-9, "20 us", "ns us ms s"))
    if metric == "dram_energy" and unit in _ENERGY:
        return number * _ENERGY[unit]
    found = units.parse(f"{number!r} {unit}")
    if found is not None and found.kind == kind:
        return float(f"{found.value / scale:.12g}")
    if unit == "%":
        raise InputError(f"{where}: say the direction of a change: +{form['number']}% or -{form['number']}%")
    came = f"`{unit}` is not a unit of {metric}" if unit else f"an absolute {metric} needs a unit"
    raise InputError(f"{where}: {came}; allowed are {allowed} (as in {example}), or a change such as +5%")


def _op(text: str) -> Op:
    match text:
        case ">" | "<" | ">=" | "<=":
            return text
        case _:
            raise AssertionError(text)  # the pattern lets no other through


def _shown(condition: Condition, value: float) -> str:
    if condition.relative:
        return q.change_pct(value)
    if condition.metric == "loss":
        return q.probability(value)
    if condition.metric == "dram_energy":
        return f"{q.digits(value)} nJ"
    return q.mpps(value) if condition.metric == "carried_mpps" else q.duration(value)


def _shown_width(condition: Condition, half_width: float) -> str:
    if not math.isfinite(half_width):
        return ""
    return f" ± {_shown(condition, half_width).lstrip('+')}"
