"""A comparison in words and as a page: what differs surely, in a sentence, and each metric by the name that people use.

Nothing is run here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from html import escape
from typing import Any, Final
from xml.etree import ElementTree

from wirespeed.gate import NO_PASS, UNDECIDED, Judgement, Outcome
from wirespeed.result import SIDES, Comparison, change_text, judgement, nothing_text, traffic_text, value_text
from wirespeed.summary import label

TITLES: Final[Mapping[str, str]] = {
    "carried_mpps": "Carried rate",
    "loss": "Loss",
    "mean": "Mean sojourn",
    "p50": "Median sojourn",
    "p99": "p99 sojourn",
    "p999": "p99.9 sojourn",
    "dram_energy": "DRAM energy a packet",
}
"""What a comparison begins with; the others are reasons that time goes to."""

ANSWERED: Final = ("carried_mpps", "loss", "p99", "mean")
"""The metrics that decide, the first first."""

LEAST_PCT: Final = 1.0
"""A change of less percent is no reason to choose: half-widths are of chance alone, and many metrics are looked at."""

_KINDS: Final = ("better", "worse", "better and worse", "not surely other", "not known")


def title(name: str, labels: Mapping[str, str] | None = None) -> str:
    """The words for a metric; `labels` are those of a run's reasons.

    >>> title("p99"), title("slice_queue"), title("mshr", {"mshr": "all outstanding misses in use"})
    ('p99 sojourn', 'slice queue', 'all outstanding misses in use')
    """
    return TITLES.get(name) or label(name, labels)


def sentence(pair: Comparison) -> str:
    """What differs surely between a and b, of what decides; or that there is nothing to compare."""
    if nothing := nothing_text(pair):
        return nothing
    if not pair.without_loss:
        return _sure(pair, "carried rate, loss or sojourn")
    few = "both runs" if len(pair.without_loss) == len(SIDES) else f"the run of {pair.without_loss[0]}"
    return f"{_sure(pair, 'carried rate or sojourn')} Loss is not known: {few} offered too few packets to lose one."


def overview(first: str, pairs: Sequence[Comparison]) -> str:
    """How many of several operands are surely better or worse than the first, in what decides."""
    kinds = Counter(_kind(pair) for pair in pairs)
    told = [f"{kinds[kind]} {'is' if kinds[kind] == 1 else 'are'} {kind}" for kind in _KINDS if kinds[kind]]
    return f"Of {len(pairs)} beside {first}, {', '.join(told)}."


def _kind(pair: Comparison) -> str:
    if nothing_text(pair):
        return "not known"
    better, worse = (bool(found) for found in _moved(pair)[0].values())
    if better and worse:
        return "better and worse"
    return "better" if better else "worse" if worse else "not surely other"


def _moved(pair: Comparison) -> tuple[dict[str, list[str]], list[str]]:
    """What decides and surely differs, in words, by whether that is better or worse; and what does so by little."""
    sure: dict[str, list[str]] = {"better": [], "worse": []}
    small: list[str] = []
    for name in ANSWERED:
        metric = pair.metrics.get(name)
        if metric is not None and (word := judgement(metric)) in sure:
            values = f"{value_text(metric, metric.get('a'))} to {value_text(metric, metric.get('b'))}"
            percent = metric.get("change_pct")
            kept = small if percent is not None and abs(percent) < LEAST_PCT else sure[word]
            kept.append(f"{title(name).lower()} {change_text(metric)} ({values})")
    return sure, small


def _sure(pair: Comparison, compared: str) -> str:
    sure, small = _moved(pair)
    if pair.differing:
        begin = "The runs saw different traffic; b is"
    elif not pair.identical_traffic:
        begin = "The runs saw other packets of the same traffic; b is"
    elif not any(sure.values()) and small:
        return f"No difference of {LEAST_PCT:g} % or more in {compared}; sure but small: {small[0]}."
    elif not any(sure.values()):
        return f"No sure difference in {compared}."
    else:
        begin = "b is"
    told = [f"{word}: {', '.join(found)}" for word, found in sure.items() if found]
    return f"{begin} {'; '.join(told) or 'not surely better or worse'}."


def rows(pair: Comparison, labels: Mapping[str, str] | None = None) -> list[tuple[str, str, str, str, str]]:
    """As `Comparison.rows`, with words for names; what decides is there even where it is zero on both sides.

    None where a run measured nothing.
    """
    if pair.unmeasured:
        return []
    return [
        (title(name, labels), value_text(m, m.get("a")), value_text(m, m.get("b")), change_text(m), judgement(m))
        for name, m in pair.metrics.items()
        if m.get("a") or m.get("b") or name in ANSWERED
    ]


def page(
    names: Sequence[str],
    pairs: Sequence[Comparison],
    judged: Sequence[Sequence[Judgement]],
    labels: Mapping[str, str] | None = None,
) -> str:
    """One HTML document that needs no network; `names` are the operands as they were given, the baseline first."""
    from wirespeed.report.shell import shell, table  # drawing costs half a second to import

    body = ""
    for name, pair, judgements in zip(names[1:], pairs, judged, strict=True):
        met = "".join(f"<li>{escape(_marked(each))}</li>" for each in judgements)
        metrics = [list(row) for row in rows(pair, labels)]
        body += (
            f"<section><h2>{escape(name)}</h2>"
            # Of two operands the sentence is the page's headline.
            + (f"<p>{escape(sentence(pair))}</p>" if len(pairs) > 1 else "")
            + (f"<p class=note>{escape(told)}</p>" if (told := traffic_text(pair)) else "")
            + (f"<ul>{met}</ul>" if met else "")
            + (table(["metric", "a", "b", "change", "b is"], metrics) if metrics else "")
            + f"<p class=note>a: {escape(names[0])}, {escape(pair.name('a'))}.<br>"
            + f"b: {escape(name)}, {escape(pair.name('b'))}.</p></section>"
        )
    outcomes = {each.outcome for judgements in judged for each in judgements}
    headline = sentence(pairs[0]) if len(pairs) == 1 else overview(names[0], pairs)
    verdict = _verdict(outcomes)
    return shell(f"Compared with {names[0]}", headline, "", body, verdict)


def _verdict(outcomes: Set[Outcome]) -> str:
    """The box of the headline: red where a condition fails, amber where one cannot be told, green where all pass."""
    if not outcomes.isdisjoint(NO_PASS):
        return "fails"
    if UNDECIDED in outcomes:
        return "open"
    return "keeps" if outcomes else "plain"


def document(pairs: Sequence[Comparison], judged: Sequence[Sequence[Judgement]]) -> dict[str, Any]:
    """The comparison as JSON has it."""
    outcomes = {each.outcome for judgements in judged for each in judgements}
    return {
        "schema": "wirespeed.comparisons/1",
        "failed": not outcomes.isdisjoint(NO_PASS),
        "undecided": UNDECIDED in outcomes,
        "comparisons": [
            pair.document
            | {
                "sentence": sentence(pair),
                "conditions": [
                    {"condition": j.condition.text, "metric": j.condition.metric, "outcome": j.outcome}
                    for j in judgements
                ],
            }
            for pair, judgements in zip(pairs, judged, strict=True)
        ],
    }


def junit(names: Sequence[str], judged: Sequence[Sequence[Judgement]]) -> str:
    """The conditions as JUnit's XML, which CI shows: a suite an operand, a case a condition."""
    root = ElementTree.Element("testsuites", name="wirespeed compare")
    for name, judgements in zip(names[1:], judged, strict=True):
        failed = [each for each in judgements if each.outcome in NO_PASS]
        suite = ElementTree.SubElement(root, "testsuite", name=f"{name} beside {names[0]}")
        suite.set("tests", str(len(judgements)))
        suite.set("failures", str(len(failed)))
        suite.set("skipped", str(sum(each.outcome == UNDECIDED for each in judgements)))
        for each in judgements:
            case = ElementTree.SubElement(suite, "testcase", classname="wirespeed.compare", name=each.condition.text)
            tag = "failure" if each in failed else "skipped" if each.outcome == UNDECIDED else "system-out"
            told = ElementTree.SubElement(case, tag)
            told.text = each.sentence
            if tag != "system-out":
                told.set("message", each.sentence)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _marked(found: Judgement) -> str:
    mark = {"fails": "✗", "within noise": "~", "ok": "✓", "not known": "?"}[found.outcome]
    return f"{mark} {found.sentence}"
