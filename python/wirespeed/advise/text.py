"""Advice in words and tables, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wirespeed import printed
from wirespeed import quantities as q
from wirespeed.advise.techniques import IS, SHOWN, WHO, helps, surely

# Interactions that are told; the document has all that are sure.
_TOLD: Final = 5
ANSWERED: Final = (
    "One run of {packets} packets at the target lost none. Techniques were not tried: without --target they are "
    "ranked, and `wirespeed run --search ndr` finds the highest rate without loss."
)
RANKED_BY: Final = "rate: carried at saturation; NDR: the highest rate without loss; both behind the same port"
# Rejected packets of a share that is told, and a change of loss.
_REJECTED: Final = 1e-3
# A rate at saturation that is less than that without loss by so much is told of, and cores that hit less by so much.
_LESS: Final = 0.02
_LEAKS: Final = 0.02
LEAST_LOSS: Final = 5e-5


def headline(document: Mapping[str, Any]) -> str:
    """What to do, in one line."""
    if document.get("answered"):
        return f"Nothing has to change: {q.mpps(document['target']['mpps'])} go through without loss as it is"
    best = document["best"]
    enough = _is_enough(document)
    nothing = "Nothing has to change: the port's line rate goes through without loss"
    full = _full_link(document)
    if not best["techniques"]:
        if full:
            return full
        return nothing if enough else f"No technique surely helps {_goal(document)}: leave the machine as it is"
    first = _lead(document)
    lead = f"{first}. The best set, " if first else "Switch on "
    tail = ", brings " if first else ": "
    words, gains = _listed(best["titles"]), _gains(document)
    if enough:
        who = f"begins with {first}. The best set, " if first else "switches on "
        return f"{nothing}. Who wants more in reserve {who}{words}{tail}{gains}, behind a faster port"
    if full and document["now"]["lift"] > 1:
        who = f"begin with {first}. There the best set, " if first else "switch on "
        return f"{full}. Behind a link and a port {document['now']['lift']} times as fast, {who}{words}{tail}{gains}"
    return f"{'Begin with ' if first else ''}{lead}{words}{tail}{gains}"


def _gains(document: Mapping[str, Any]) -> str:
    """What the best set brings, of what is ranked by first."""
    confirmed, goal = document["best"]["confirmed"], document["goal"]
    gain = _gain(confirmed["gain_pct"], confirmed["half_width_pct"])
    if goal == "p99":
        best = set(document["best"]["techniques"])
        chosen = next(each for each in document["combinations"] if set(each["techniques"]) == best)
        return f"p99 {_gain(chosen['p99']['pct'], chosen['p99']['half_width_pct'])}, saturated rate {gain}"
    ndr = f"NDR {_known_gain(confirmed['lifted_ndr'])}"
    return f"{ndr}, {gain} at saturation" if goal == "ndr" else f"{gain} at saturation, {ndr}"


def _lead(document: Mapping[str, Any]) -> str:
    """The cheapest change that helps, where the best set takes what is dearer; empty where it does not."""
    first, kinds = document["first"], {each["name"]: each["kind"] for each in document["techniques"]}
    if first is None:
        return ""
    # A pool for shorter rings, which is tried behind all others, is a setting.
    best = {kinds.get(name, "setting") for name in document["best"]["techniques"]}
    if best <= {kinds[first["technique"]]}:
        return ""
    found = next(each for each in document["techniques"] if each["name"] == first["technique"])
    what = {"rate": " at saturation", "ndr": " without loss", "p99": " of p99"}[document["goal"]]
    return f"{first['titles'][0]}, {IS[found['kind']]}: {_alone(found, document['goal'])}{what}"


def now(document: Mapping[str, Any]) -> list[str]:
    """Where the machine is."""
    if document.get("answered"):
        return [ANSWERED.format(packets=q.count(document["target"]["packets"]))]
    at = document["now"]
    ndr = q.mpps(at["ndr_mpps"]) + (", the port's line rate" if at["ndr_at_line_rate"] else "")
    machine = f"As it is ({document['machine']})" if document["machine"] else "As it is"
    lines = [
        f"{machine}: {q.mpps(at['carried_mpps'])} carried, loss {q.probability(at['loss'])}, "
        f"p99 {q.duration(at['p99_ns'])}; highest rate without loss {ndr}.",
    ]
    if at["rejected_share"] >= _REJECTED:
        lines.append(
            f"{q.share(at['rejected_share'])} of the packets are rejected by the function: they count in the highest "
            "rate without loss, since they are not lost, and not in what is carried. A rate without loss may be above "
            "one at saturation for that alone."
        )
    compared = (
        f"Rates are compared with port and PCIe {at['lift']} times as fast: at saturation "
        f"{q.mpps(at['saturated_mpps'])} are carried, without loss {_rate_or_none(at['lifted_ndr_mpps'])}."
    )
    if at["lift"] == 1:
        lines.append(f"Rates are compared at saturation, by line rate offered: {q.mpps(at['saturated_mpps'])} carried.")
    elif at["link_full"]:
        lines.append(
            f"PCIe is full before the machine is ({q.share(at['link_share'], 0)}): it carries "
            f"{q.digits(at['at_line_mpps'])} of {q.mpps(at['line_mpps'])} at line rate. {compared}"
        )
    else:
        lines.append(f"The port is full before the machine is. {compared}")
    lines += [line for line in (_relief(document), full_rings(document), one_more_core(document)) if line]
    return lines


def _full_link(document: Mapping[str, Any]) -> str | None:
    """Where PCIe is full what relieves it: the cheapest that surely does, and what does most; None where it is not."""
    if document["relief"] is None or document["goal"] == "p99":
        return None
    at, helping = document["now"], _relieving(document)
    full = f"PCIe is full at {q.digits(at['at_line_mpps'])} of {q.mpps(at['line_mpps'])}"
    if not helping:
        return f"{full}, and nothing that was tried relieves it"
    most = max(helping, key=lambda each: each["rate"]["pct"])
    told = [helping[0]] if most is helping[0] else [helping[0], most]
    ways = [f"{each['title']} ({IS[each['kind']]}), {_percent(each)}" for each in told]
    return f"{full}: {', or '.join(ways)}"


def _relieving(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What surely relieves PCIe, the cheapest first."""
    tried = document["relief"] or []
    return [each for each in tried if surely(each["rate"], 1, len(tried))]


def _relief(document: Mapping[str, Any]) -> str | None:
    """What each that may relieve PCIe brings at the port that there is."""
    tried = document["relief"]
    if tried is None:
        return None
    brings = ", ".join(f"{each['title']} {_percent(each)}" for each in tried)
    return f"At the port and the link that there are: {brings}."


def _percent(technique: Mapping[str, Any]) -> str:
    return _effect({**technique["rate"], "sure": _is_sure(technique["rate"])})


def full_rings(document: Mapping[str, Any]) -> str | None:
    """Why less is carried at saturation than without loss, where rings that are full push buffers out of the LLC."""
    at = document["now"]
    saturated, lossless, hits = at["saturated_mpps"], at["lifted_ndr_mpps"], at["llc_hits"]
    if lossless is None or saturated >= (1 - _LESS) * lossless:
        return None
    if not (q.is_number(hits["own"]) and q.is_number(hits["saturated"]) and hits["own"] - hits["saturated"] > _LEAKS):
        return None
    rings, room = at["rings"], _mib(at["io_bytes"])
    held = "the full ring holds" if rings["rings"] == 1 else f"{q.count(rings['rings'])} full rings hold"
    return (
        f"Why {q.mpps(saturated)} at saturation is less than {q.mpps(lossless)} without loss: "
        f"{held} {q.count(rings['mbufs'])} buffers, which push each other out of the {room} "
        f"of the LLC that devices fill, so that cores find {q.share(hits['saturated'], 0)} of what they ask of the LLC "
        f"there, and {q.share(hits['own'], 0)} at the scenario's own load."
    )


def one_more_core(document: Mapping[str, Any]) -> str | None:
    """What one more core brings, in Mpps; None where it was not tried."""
    core = next((each for each in document["techniques"] if each["name"] == "core"), None)
    if core is None:
        return None
    at = document["now"]
    told = []
    for what, name, mpps in (("at saturation", "rate", "saturated_mpps"), ("without loss", "ndr", "lifted_ndr_mpps")):
        change, rate = core["alone"][name], at[mpps]
        if change is not None and rate is not None:
            then = f"{q.digits(rate * change['pct'] / 100)} ± {q.digits(rate * change['half_width_pct'] / 100, 2)} Mpps"
            told.append(f"{then if _is_sure(change) else f'({then})'} {what}")
    return f"One more core brings {' and '.join(told)}." if told else None


def _mib(size: float) -> str:
    return f"{q.digits(size / 2**20, 2)} MiB"


def steps(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: what surely helps alone, the cheapest first, and what to set."""
    goal = document["goal"]
    heads = ["what helps, the cheapest first", "takes", {"ndr": "NDR"}.get(goal, goal), "set"]
    return heads, [
        [each["title"], IS[each["kind"]], _alone(each, goal), " ".join(each["set"])]
        for each in helps(document["techniques"], goal)
    ]


def ranked_by(document: Mapping[str, Any]) -> str:
    """What the rates of the table count; they count different packets where a function rejects some."""
    if document["now"]["rejected_share"] < _REJECTED:
        return RANKED_BY
    return f"{RANKED_BY}; packets that the function rejects count in NDR alone"


def ranked(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: a technique each, the best first: rates. A change that may be none is in brackets."""
    heads = ["technique", "rate, alone", "with others", "NDR, alone", "cost"]
    rows = []
    for each in document["techniques"]:
        # Bits of SRAM that a chip lacks say that it is another one.
        kind = {"hardware": "new chip", "software": "software", "bios": "BIOS"}.get(each["kind"], "nothing")
        cost = kind if each["cost_words"] == "nothing" else each["cost_words"]
        rows.append([each["name"], _alone(each, "rate"), _short(each["rate"]), _alone(each, "ndr"), cost])
    return heads, rows


def by_who(document: Mapping[str, Any], rows: list[list[str]]) -> list[tuple[str, list[list[str]]]]:
    """Rows that begin with a technique, in groups of who can do it; what can be done today comes first."""
    kinds = {each["name"]: each["kind"] for each in document["techniques"]}
    groups = [(words, [row for row in rows if kinds[row[0]] == kind]) for kind, words in WHO.items()]
    return [(words, found) for words, found in groups if found]


def at_own_load(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: what each technique changes alone at the scenario's own load, in the order of `ranked`."""
    heads = ["technique", "p99", "energy", "loss"]
    rows = []
    for each in document["techniques"]:
        loss = each["loss"]
        change = "0"
        if changes_loss(loss):
            change = f"{100 * loss['change']:+.2f} ± {100 * loss['half_width']:.2f} points"
        rows.append([each["name"], _alone(each, "p99"), _alone(each, "energy"), change])
    return heads, rows


def changes_loss(loss: Mapping[str, float]) -> bool:
    """Whether a change of loss is surely one, and large enough to be told."""
    return abs(loss["change"]) > max(loss["half_width"], LEAST_LOSS)


def combinations(document: Mapping[str, Any], most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: combinations of the best few, best first; with `most` so many, each alone, no energy."""
    sign = 1 if document["goal"] == "p99" else -1
    goal = document["goal"]

    def by_gain(found: Mapping[str, Any]) -> float:
        return math.inf if found[goal] is None else float(sign * found[goal]["pct"])

    sets = sorted(document["combinations"] or [], key=by_gain)
    if most is not None:
        sets = [each for place, each in enumerate(sets) if place < most or len(each["techniques"]) == 1]
    rows = [
        [
            " + ".join(each["techniques"]) or "as it is",
            _gain(each["rate"]["pct"], each["rate"]["half_width_pct"]),
            _or_missing(each["p99"]),
            q.MISSING if each["loss"] is None else q.probability(each["loss"]),
        ]
        for each in sets
    ]
    heads = ["together", "rate", "p99", "loss"]
    more = {"energy": 3} if most is None else {}
    if document["goal"] == "ndr":
        more["ndr"] = 1
    for name, place in more.items():
        heads.insert(place, {"ndr": "NDR"}.get(name, name))
        for row, each in zip(rows, sets, strict=True):
            row.insert(place, _or_missing(each[name]))
    return heads, rows


def interactions(document: Mapping[str, Any]) -> list[str]:
    """What techniques do to each other, in sentences."""
    lines = []
    for each in document["interactions"][:_TOLD]:
        pairs = " or ".join(f"{a} with {b}" for a, b in each["pairs"])
        more = "more" if (each["pct"] > 0) == (document["goal"] != "p99") else "less"
        by = f"{q.digits(abs(each['pct']), 2)} ± {q.digits(each['half_width_pct'], 2)} %"
        lines.append(f"{pairs}: together they bring {more} than one by one, by {by}")
    return lines


def confirmation(document: Mapping[str, Any]) -> str:
    """What the long runs say."""
    found = document["best"]["confirmed"]
    rate, wide, ndr = found["saturated_mpps"], found["half_width_mpps"], found["ndr_mpps"]
    runs = f"Confirmed by {found['runs']} longer runs"
    if found["same_packets"]:
        runs = "In longer runs, of the same capture"
    behind, lifted = found["lifted_ndr"], ""
    if behind is not None:
        pair = f"{_rate_or_none(behind['before'])} and {_rate_or_none(behind['after'])}"
        lifted = f"; without loss {pair}, {_known_gain(behind)}"
    # At the port itself a search without an interval would only say it again.
    real = f"; at the real port {q.mpps(ndr['before'])} and {q.mpps(ndr['after'])} without loss"
    return (
        f"{runs}: {_rate(rate['before'], wide['before'])} as it is, "
        f"{_rate(rate['after'], wide['after'])} with the best, "
        f"{_gain(found['gain_pct'], found['half_width_pct'])}{lifted}"
        f"{real if document['now']['lift'] > 1 or behind is None else ''}."
    )


def without_loss(document: Mapping[str, Any]) -> str | None:
    """What is said where a technique alone surely brings more without loss than the set that is best by rate."""
    found, best = document["best"]["confirmed"]["lifted_ndr"], document["best"]["techniques"]
    if document["goal"] != "rate" or found is None or found["pct"] is None:
        return None
    others = [each for each in document["techniques"] if each["name"] not in best and each["alone"]["ndr"] is not None]
    top = max(others, key=lambda each: each["alone"]["ndr"]["pct"], default=None)
    if top is None or top["alone"]["ndr"]["pct"] - top["alone"]["ndr"]["half_width_pct"] <= found["pct"]:
        return None
    return f"{top['name']} alone brings more without loss ({_alone(top, 'ndr')}): --goal ndr ranks by that"


def retried(document: Mapping[str, Any]) -> str | None:
    """What came of the pool that shorter rings allow."""
    found = document["retried"]
    if found is None:
        return None
    goal = document["goal"]
    gain = _or_missing(found["with"][goal])
    kept = "taken" if found["taken"] else "no sure gain over the set without it, so left out"
    what = {"rate": "at saturation", "ndr": "without loss", "p99": "of p99"}[goal]
    return f"{found['title']} ({', '.join(found['set'])}): with it the set brings {gain} {what}: {kept}"


def seeds(document: Mapping[str, Any]) -> str | None:
    """What is said where seeds change nothing."""
    if not document["same_for_every_seed"]:
        return None
    return (
        "The capture is the same for every seed: ± is that of batches of packets within a run, as if the runs that are "
        "compared had seen different packets, so it is wider than it need be; of NDR it is the search's alone. Another "
        "capture would say more"
    )


def target(document: Mapping[str, Any]) -> str | None:
    """The cheapest set that carries the wanted rate."""
    found = document["target"]
    if found is None:
        return None
    if not found["met"]:
        return f"No set of {len(found['tried'])} that were tried carries {q.mpps(found['mpps'])} without loss."
    chosen = " + ".join(found["techniques"]) or "the machine as it is"
    return f"Cheapest that carries {q.mpps(found['mpps'])} without loss: {chosen}."


def commands(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What to run: a label and a command line each; where one command is two of them, both labels are one."""
    best, goal, goal_is_rate = document["best"], document["target"], document["goal"] != "p99"
    if document.get("answered"):
        return [("Run it as it is, at the target", goal["command"])]
    found: list[tuple[str, str]] = []
    if _is_enough(document):
        found.append(("Run it as it is, which keeps line rate", document["now"]["command"]))
    found += [
        (f"Run it with what relieves PCIe at least cost, {each['name']}", each["command"])
        for each in (_relieving(document)[:1] if goal_is_rate else [])
    ]
    first = document["first"]
    if first is not None and _lead(document):
        found.append((f"Run it with the cheapest change that helps, {first['technique']}", first["command"]))
    if best["techniques"]:
        label = "Run it with more in reserve, behind the port that it has" if _is_enough(document) else "Run the best"
        found.append((label, best["command"]))
    elif not found:
        found.append(("Run it as it is", best["command"]))
    if goal is not None and goal["met"]:
        same = [place for place, (_, command) in enumerate(found) if command == goal["command"]]
        if same:
            found[same[0]] = (f"{found[same[0]][0]}; it is the cheapest that carries the target", goal["command"])
        else:
            found.append(("Run the cheapest that carries the target", goal["command"]))
    what = "the best" if best["techniques"] else "it"
    found.append((f"Run {what} as its rate was compared, at saturation", best["saturated_command"]))
    return found


def summary(document: Mapping[str, Any]) -> RenderableType:
    """What the command prints before the command line."""
    parts: list[RenderableType] = [Text(headline(document), "bold"), Text(), *(Text(line) for line in now(document))]
    if document.get("answered"):
        return Group(*parts)
    first, helping = steps(document)
    parts += [Text(), _table(first[:3], [row[:3] for row in helping])] if helping else []
    heads, rows = ranked(document)
    parts += [Text(), _table(heads, rows, by_who(document, rows))]
    parts.append(Text(" with others: averaged over all others on and off; (…) may be no change at all", "dim"))
    parts.append(Text(f" {ranked_by(document)}", "dim"))
    parts += [Text(), Text("At the scenario's own load, alone", "bold"), _table(*at_own_load(document))]
    if document["combinations"]:
        parts += [Text(), _table(*combinations(document, SHOWN))]
    same = seeds(document)
    maybe = [without_loss(document), retried(document), f"{same}." if same else None, target(document)]
    told = [*interactions(document), confirmation(document), *(line for line in maybe if line)]
    beside = [str(document["energy_note"])]
    if document["not_fitting"]:
        names = ", ".join(each["name"] for each in document["not_fitting"])
        beside.append(f"does not fit here: {names} (reasons: --out DIR, or --format json)")
    return Group(*parts, Text(), printed.points(told), printed.points(beside, "dim"))


def verdict(document: Mapping[str, Any]) -> str:
    """The box of the headline: green where nothing has to change."""
    return "keeps" if document.get("answered") or _is_enough(document) else "plain"


def _is_enough(document: Mapping[str, Any]) -> bool:
    """Whether there is nothing to gain but reserve: line rate goes through as it is."""
    return bool(document["goal"] != "p99" and document["now"]["ndr_at_line_rate"])


def _goal(document: Mapping[str, Any]) -> str:
    return {
        "rate": "the rate at saturation",
        "ndr": "the highest rate without loss",
        "p99": "the 99th percentile of the sojourn",
    }[document["goal"]]


def _effect(effect: Mapping[str, Any]) -> str:
    shown = _gain(effect["pct"], effect["half_width_pct"])
    return shown if effect["sure"] else f"({shown})"


def _short(effect: Mapping[str, Any]) -> str:
    """A change without its half-width."""
    shown = f"{effect['pct']:+.1f} %"
    return shown if effect["sure"] else f"({shown})"


def _alone(technique: Mapping[str, Any], what: str) -> str:
    effect = technique["alone"][what]
    return q.MISSING if effect is None else _effect({**effect, "sure": _is_sure(effect)})


def _is_sure(effect: Mapping[str, Any]) -> bool:
    return bool(abs(effect["pct"]) > effect["half_width_pct"])


def _gain(percent: float, wide: float) -> str:
    """A change in percent with its half-width, both to the same decimal."""
    decimals = 1 if abs(percent) >= 0.95 or wide >= 0.95 else 2
    return f"{percent:+.{decimals}f} ± {wide:.{decimals}f} %"


def _or_missing(change: Mapping[str, float] | None) -> str:
    return q.MISSING if change is None else _gain(change["pct"], change["half_width_pct"])


def _known_gain(found: Mapping[str, Any]) -> str:
    """A gain, in brackets where it may be none."""
    return q.MISSING if found["pct"] is None else _effect({**found, "sure": _is_sure(found)})


def _rate_or_none(mpps: float | None) -> str:
    return "none" if mpps is None else q.mpps(mpps)


def _rate(mean: float, wide: float) -> str:
    return f"{q.digits(mean)} ± {q.digits(wide, 2)} Mpps"


def _listed(titles: list[str]) -> str:
    return titles[0] if len(titles) == 1 else f"{', '.join(titles[:-1])} and {titles[-1]}"


def _table(heads: list[str], rows: list[list[str]], groups: list[tuple[str, list[list[str]]]] | None = None) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 1))
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", overflow="fold", no_wrap=bool(place))
    for words, group in groups or [("", rows)]:
        if words:
            table.add_row(Text(words, "bold"))
        for row in group:
            table.add_row(*(Text(cell) for cell in row))
    return table
