"""Advice from end to end: which techniques pay on a machine with its traffic, and what to set.

1. Where the machine is: its highest rate without loss, and at what it saturates. A machine that carries the line rate
   shows nothing of what it has in reserve: for the comparison its port and its link to the host are made faster, all
   else stays.
2. All techniques that fit, on and off in a factorial design of resolution IV. All points see the same packets
   (the seeds of replications are the same), so differences are the machine's.
   Each is also run alone, and its highest rate without loss is searched.
3. The best few in every combination: what each does alone, how they work together, which set is best.
4. The cheapest set that carries a wanted rate, tried at that rate.
5. The best set again, by runs until the half-width of the rate is 1 %, and its highest rate without loss.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from wirespeed import quantities
from wirespeed.advise import factorial, techniques
from wirespeed.advise.bench import CONFIRMED_FROM, NDR_WITHIN, Asked, Bench, Measured
from wirespeed.advise.factorial import Effect, Runs
from wirespeed.advise.techniques import Technique
from wirespeed.errors import InputError, nearest
from wirespeed.sweep import until

SCHEMA: Final = "wirespeed.advice/1"
GOALS: Final = ("rate", "ndr", "p99")
# Of sets of many techniques, whose effects are means over half of them each; of each technique alone; of the best.
SEEDS: Final = 1
SEEDS_ALONE: Final = 2
SEEDS_OF_BEST: Final = 2
# Of what relieves PCIe, which are few sets, so that each has to tell of its own chance.
SEEDS_OF_RELIEF: Final = 4
BEST: Final = 4
SMALLER_POOL: Final = "smaller_pool"
"""The pool of `_retried` where `small_pool`, of another size, was tried with the others."""
_MOST_TRIED: Final = 8
_SUBSETS_OF: Final = 8
# Techniques whose own highest rate without loss is searched, where the goal is another.
_MOST_SEARCHED: Final = 4


def advise(asked: Asked) -> dict[str, Any]:
    """Finds the advice; all of it, as JSON has it. Raises InputError for what cannot be advised."""
    faults = []
    if asked.goal not in GOALS:
        faults.append(f"--goal {asked.goal}: must be one of {', '.join(GOALS)}{nearest(asked.goal, GOALS)}")
    if asked.packets < 1000:
        faults.append(f"--packets {asked.packets}: must be at least 1000")
    if faults:
        raise InputError("\n".join(faults))
    started = time.monotonic()
    bench = Bench(asked)
    fit, unfit = techniques.fitting(bench.resolved)
    left_out = techniques.left_out(asked.without, asked.also, fit)
    names = {each.name for each in left_out}
    fit = [each for each in fit if each.name not in names]
    relieving = [each for each in fit if each.name in techniques.RELIEVES_PCIE and bench.why_not([each]) is None]
    fit, clashing = bench.composing(fit)
    unfit = [*unfit, *clashing, *left_out]
    if not fit:
        raise InputError("no technique fits this scenario; `wirespeed tune` searches its settings")
    bench.expected = _expected(len(fit), asked.goal)
    try:
        target = bench.target(asked.target) if asked.target is not None else None
        if target is not None and bench.carries([], target):
            return _answered(bench, asked, target, time.monotonic() - started)
        now = bench.where_it_is()
        link = [] if techniques.FASTER_LINK in asked.without else [techniques.faster_link(bench.resolved)]
        relieving = [*relieving, *link] if now["link_full"] else []
        relief = _relief(bench, relieving) if relieving else None
        screened = _screened(bench, fit, asked.goal)
        best = _best_few(fit, screened, asked.goal)
        combined = _combined(bench, best, asked.goal, _of_others(screened["alone_runs"], fit, best)) if best else None
        reached = None
        if target is not None:
            gains = _gains(fit, screened, relieving, relief)
            # Where PCIe is full below the target, what does not relieve it does not reach that.
            needed = {each.name for each in relieving if gains[each.name] > 0 and target > now["at_line_mpps"]}
            everything = [*fit, *(each for each in relieving if each not in fit)]
            reached = _cheapest(bench, everything, gains, target, needed)
        retried = _retried(bench, fit, combined, asked) if combined is not None else None
        of_best = list(fit)
        if retried is not None and retried["taken"]:
            of_best.append(retried["pool"])
        chosen: list[str] = combined["best"]["techniques"] if combined is not None else []
        confirmed = bench.confirm(techniques.named(chosen, of_best), now)
        confirmed["lifted_ndr"] = None
        if chosen:
            confirmed["lifted_ndr"] = _confirmed_ndr(
                bench, of_best, chosen, confirmed, _known(screened["alone_runs"]["ndr"])
            )
    finally:
        bench.close()
    ranked = _ranked(fit, screened, asked.goal)
    # A pool that fits behind shorter rings, and was tried there, is not one that does not fit; nor what relieves PCIe.
    elsewhere = {each["name"] for each in [*(relief or []), *([retried] if retried else [])]}
    unfit = [each for each in unfit if each.name not in elsewhere]
    return _about(bench, asked) | {
        "now": now | {"lifted_ndr_mpps": screened["lifted_ndr_mpps"], "command": bench.command([])},
        "techniques": ranked,
        "relief": relief,
        "first": _first(bench, fit, ranked, asked.goal),
        "not_fitting": [{"name": each.name, "title": each.title, "why": each.why} for each in unfit],
        "elsewhere": dict(techniques.ELSEWHERE),
        "energy_note": _energy_note(ranked, now),
        "interactions": _of_screening(screened, asked.goal) if combined is None else combined["interactions"],
        "combinations": None if combined is None else combined["sets"],
        "retried": None if retried is None else {key: each for key, each in retried.items() if key != "pool"},
        "best": _described(bench, of_best, chosen) | {"confirmed": confirmed},
        "target": reached,
        "runs": bench.runs,
        "ran": bench.ran,
        "same_for_every_seed": bench.same_for_every_seed,
        "packets": asked.packets,
        "warmup": bench.warmup,
        "seconds": time.monotonic() - started,
    }


def _answered(bench: Bench, asked: Asked, mpps: float, seconds: float) -> dict[str, Any]:
    """The answer where the machine as it is carries the target: nothing else was run, and nothing is ranked."""
    command = bench.command([])
    nothing = {"techniques": [], "titles": [], "set": [], "cost": {}, "cost_words": "nothing", "command": command}
    return _about(bench, asked) | {
        "answered": True,
        "now": {"command": command},
        "techniques": [],
        "relief": None,
        "first": None,
        "not_fitting": [],
        "interactions": [],
        "combinations": None,
        "retried": None,
        "best": nothing,
        "target": {
            "command": bench.command([], mpps=mpps),
            "mpps": mpps,
            "met": True,
            "techniques": [],
            "tried": [{"techniques": [], "carries": True}],
            "packets": bench.target_packets,
        },
        "runs": bench.runs,
        "ran": bench.ran,
        "packets": asked.packets,
        "seconds": seconds,
    }


def _about(bench: Bench, asked: Asked) -> dict[str, Any]:
    """What every answer begins with: of what it is, and what was asked for."""
    return {
        "schema": SCHEMA,
        "scenario": bench.name,
        "name": bench.resolved.get("name", ""),
        "machine": bench.resolved["machine"].get("name", ""),
        "goal": asked.goal,
    }


def _expected(fit: int, goal: str) -> int:
    """How many runs there will be, about: the last ones of a search depend on those before."""
    searched, again, confirmed = 7, 3, 8  # trials of a set's first seed and of a further one; long runs
    one_search = searched + again * (SEEDS_ALONE - 1)
    alone = (fit + 1) * 2 * SEEDS_ALONE + (1 + (fit if goal == "ndr" else min(fit, _MOST_SEARCHED))) * one_search
    combined = 1 << min(BEST, fit)
    # Those of one technique or none have been run.
    joint = combined - 1 - min(BEST, fit)
    combinations = (joint + (joint if goal == "p99" else min(techniques.SHOWN, joint))) * SEEDS_OF_BEST
    if goal == "ndr":
        combinations += combined * (searched + again * (SEEDS_OF_BEST - 1))
    screened = (2 if goal == "p99" else 1) * SEEDS * len(factorial.fractional(fit).on)
    return screened + alone + combinations + confirmed + 2 * (searched + again * (SEEDS_OF_BEST - 1))


def _screened(bench: Bench, fit: Sequence[Technique], goal: str) -> dict[str, Any]:
    """Main effects of all techniques, and groups of interactions."""
    design = factorial.fractional(len(fit))
    sets = [frozenset(each.name for each, on in zip(fit, row, strict=True) if on) for row in design.on]
    responses = bench.measure("screening", sets, fit, SEEDS, sets if goal == "p99" else ())
    main = [[place] for place in range(len(fit))]
    names = ("rate", "p99") if goal == "p99" else ("rate",)
    found: dict[str, Any] = {name: _effects(design, responses[name], main) for name in names}
    # Of many that are looked at some seem to help by chance.
    found["together"] = {name: _effects(design, responses[name], main, True) for name in names}
    # A main effect is confused with interactions of three: what a technique does alone is run too.
    singly = [frozenset[str](), *(frozenset({each.name}) for each in fit)]
    alone = bench.measure("each alone", singly, fit, SEEDS_ALONE, singly)
    found["alone"] = {
        name: [_against(alone[name], place + 1, pooled=True) for place in range(len(fit))] for name in ("rate", "p99")
    }
    losses = [
        _change(alone["loss"].runs, place + 1, pooled=True, within=alone["loss"].within) for place in range(len(fit))
    ]
    found["alone"]["loss"] = [{"change": change, "half_width": wide} for change, wide, _ in losses]
    found["alone"]["energy"] = [_against_known(alone["energy"], place + 1) for place in range(len(fit))]
    ndr = _ndr_alone(bench, fit, singly, alone["rate"].runs, _searched(found["alone"], goal))
    found["alone"]["ndr"] = [_against_ndr(ndr, place + 1, pooled=True) for place in range(len(fit))]
    found["alone_runs"] = {name: of.runs for name, of in alone.items()} | {"ndr": ndr.runs}
    found["lifted_ndr_mpps"] = _mean_rate(ndr, 0)
    if goal == "ndr" and found["lifted_ndr_mpps"] is None:
        raise InputError("--goal ndr: as it is the machine loses packets at any rate; take --goal rate")
    groups = design.aliases()
    # Highest rates without loss are of each alone: what is told of all together is the rate's.
    together = _effects(
        design, responses["p99" if goal == "p99" else "rate"], [list(pairs[0]) for pairs in groups], True
    )
    found["interactions"] = _sure_interactions(fit, groups, together)
    return found


def _searched(alone: Mapping[str, Sequence[Any]], goal: str) -> list[int]:
    """The techniques whose highest rate without loss is searched: all for that goal, else those that surely help."""
    every = range(len(alone["rate"]))
    if goal == "ndr":
        return list(every)

    def helps(place: int) -> float:
        rate, p99 = alone["rate"][place], alone["p99"][place]
        return float(max(rate["pct"] - rate["half_width_pct"], -p99["pct"] - p99["half_width_pct"]))

    most = sorted(every, key=lambda place: -helps(place))[:_MOST_SEARCHED]
    return sorted(place for place in most if helps(place) > 0)


def _ndr_alone(
    bench: Bench, fit: Sequence[Technique], singly: Sequence[frozenset[str]], saturated: Runs, searched: Sequence[int]
) -> Measured:
    """Highest rates without loss of the machine as it is and of each technique `searched`; NaN of the others."""
    places = [0, *(place + 1 for place in searched)]
    of_them = bench.without_loss("NDR of each alone", [singly[each] for each in places], fit, saturated[:, places])
    runs = np.full(saturated.shape, np.nan)
    runs[:, places] = of_them.runs
    return Measured(runs)


def _of_screening(screened: Mapping[str, Any], goal: str) -> list[dict[str, Any]]:
    """Interactions where nothing is combined: of rates without loss there are none, as no set of two was searched."""
    return [] if goal == "ndr" else list(screened["interactions"])


def _sure_interactions(
    fit: Sequence[Technique], groups: Sequence[Sequence[tuple[int, int]]], found: Sequence[Effect]
) -> list[dict[str, Any]]:
    sure = [
        {
            "pairs": [[fit[i].name, fit[j].name] for i, j in pairs],
            # What both bring beyond the product of what each brings: twice the usual effect.
            "pct": 100 * math.expm1(2 * effect.value),
            "half_width_pct": 200 * effect.half_width,
        }
        for pairs, effect in zip(groups, found, strict=True)
        if effect.is_sure
    ]
    return sorted(sure, key=lambda each: -abs(each["pct"]))


def _best_few(fit: Sequence[Technique], screened: Mapping[str, Any], goal: str) -> list[Technique]:
    """Those that surely help, the most first."""
    sign = techniques.sign(goal)
    helps = []
    averages: Sequence[Effect | None] = screened["together"].get(goal) or [None] * len(fit)
    for place, (effect, alone) in enumerate(zip(averages, screened["alone"][goal], strict=True)):
        averaged = sign * 100 * math.expm1(effect.value) if effect is not None and effect.is_sure else 0.0
        single = sign * alone["pct"] if alone is not None else 0.0
        if not (techniques.surely(alone, 1, len(fit)) or techniques.surely(alone, -1, len(fit))):
            single = 0.0
        # What helps alone or among others; of those that do both the more the better.
        helps.append((averaged + single if min(averaged, single) >= 0 else single, place))
    return [fit[place] for value, place in sorted(helps, reverse=True) if value > 0][:BEST]


def _combined(bench: Bench, best: Sequence[Technique], goal: str, alone: Mapping[str, Runs]) -> dict[str, Any]:
    """Every combination of the best few, the others off.

    `alone` are responses of each other technique: of the few sets that are run at the scenario's load, too, they say by
    how much such responses differ.
    """
    design = factorial.full(len(best))
    sets = [frozenset(each.name for each, on in zip(best, row, strict=True) if on) for row in design.on]
    phase = "the best in every combination"
    responses = bench.measure(phase, sets, best, SEEDS_OF_BEST, sets if goal == "p99" else ())
    if goal == "ndr":
        responses["ndr"] = bench.without_loss("NDR of combinations", sets, best, responses["rate"].runs)
    pairs = [[pair] for pair in itertools.combinations(range(len(best)), 2)]
    together = _effects(design, responses[goal], [list(group[0]) for group in pairs], True)
    sign = techniques.sign(goal)
    against_none = _against_ndr if goal == "ndr" else _against_known
    gains = {place: found for place in range(len(sets)) if (found := against_none(responses[goal], place, pooled=True))}
    most = sorted(gains, key=lambda place: -sign * gains[place]["pct"])
    top = gains[most[0]]
    # Of those that cannot be told from the best, the cheapest.
    near = [place for place in gains if sign * (top["pct"] - gains[place]["pct"]) <= _slack(top, gains[place])]
    cheapest = min(
        near,
        key=lambda place: (
            techniques.order(techniques.named(sorted(sets[place]), list(best))),
            -sign * gains[place]["pct"],
        ),
    )
    beside: Mapping[str, Runs] = {}
    if goal != "p99":
        # What else those change that are told of; of sets of one technique that is known.
        shown = {chosen for chosen in sets if len(chosen) < 2} | {
            sets[place] for place in [*most[: techniques.SHOWN], cheapest]
        }
        responses = bench.measure(phase, sets, best, SEEDS_OF_BEST, shown) | {goal: responses[goal]}
        beside = alone
    described: list[dict[str, Any]] = [
        {
            "techniques": sorted(chosen),
            "rate": _against(responses["rate"], place, pooled=True),
            "ndr": gains.get(place) if goal == "ndr" else None,
            "p99": _against_known(responses["p99"], place, beside=beside.get("p99")),
            "energy": _against_known(responses["energy"], place, beside=beside.get("energy")),
            "loss": _mean_or_none(responses["loss"], place),
        }
        for place, chosen in enumerate(sets)
    ]
    if goal == "ndr":
        # Seeds share what a search leaves open.
        together = [replace(each, half_width=math.hypot(each.half_width, NDR_WITHIN)) for each in together]
    return {
        "sets": described,
        "best": described[cheapest],
        "interactions": _sure_interactions(best, pairs, together),
    }


def _retried(bench: Bench, fit: Sequence[Technique], combined: dict[str, Any], asked: Asked) -> dict[str, Any] | None:
    """The pool as small as the rings of the best set allow, added to it; None where rings stay or no pool is smaller.

    How small a pool may be depends on the rings, so what was tried with the others had the pool of the rings as they
    are. It is taken, and stands among the combinations, where it is surely better than the set without it.
    """
    goal, without = asked.goal, combined["best"]
    pool = None
    if "small_pool" not in asked.without:
        pool = techniques.pool_behind(bench.resolved, techniques.named(without["techniques"], list(fit)))
    if pool is None:
        return None
    kept = without["techniques"]
    if pool.name in {each.name for each in fit}:
        # Another size than the one that was tried with the rings as they are, in whose place it comes.
        kept = [name for name in kept if name != pool.name]
        pool = replace(pool, name=SMALLER_POOL)
    sets = [frozenset[str](), frozenset(kept) | {pool.name}]
    on = [*fit, pool]
    if bench.why_not(techniques.named(sorted(sets[1]), on)) is not None:
        return None
    responses = bench.measure("a pool for these rings", sets, on, SEEDS_OF_BEST, sets)
    ndr = bench.without_loss("NDR with that pool", sets, on, responses["rate"].runs) if goal == "ndr" else None
    found: dict[str, Any] = {
        "techniques": sorted(sets[1]),
        "rate": _against(responses["rate"], 1),
        "ndr": None if ndr is None else _against_ndr(ndr, 1),
        "p99": _against(responses["p99"], 1),
        "energy": _against_known(responses["energy"], 1),
        "loss": float(responses["loss"].runs[:, 1].mean()),
    }
    taken = found[goal] is not None and techniques.sign(goal) * (found[goal]["pct"] - without[goal]["pct"]) > _slack(
        found[goal], without[goal]
    )
    told = {"name": pool.name, "title": pool.title, "set": list(pool.overrides), "taken": taken, "with": found}
    if taken:
        combined["sets"].append(found)
        combined["best"] = found
    return {**told, "without": list(without["techniques"]), "pool": pool}


def _slack(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """What two gains may differ by without being told apart; at least a tenth of a percent."""
    return max(math.hypot(a["half_width_pct"], b["half_width_pct"]), 0.1)


def _effects(
    design: factorial.Design, of: Measured, products: Sequence[Sequence[int]], together: bool = False
) -> list[Effect]:
    return factorial.effects(design, of.runs, products, together, of.within)


def _against(of: Measured, place: int, pooled: bool = False) -> dict[str, Any]:
    return against(of.runs, place, pooled, of.within)


def against(
    responses: Runs, place: int, pooled: bool = False, within: Runs | None = None, beside: Runs | None = None
) -> dict[str, Any]:
    """A set against none (the first), seed by seed, in percent with half-width.

    The error is that of the set's own seeds; or, where `pooled` says so, as few seeds say little, each set's own drawn
    towards that of all together: of what is left of responses without the means of seeds and sets. Pooling the changes
    themselves would count the error of the set without techniques, which all of them share, once for each. `within` are
    half-widths of the responses `[set]` where all seeds see the same packets. `beside` are responses of the same kind,
    of other seeds and sets, that are pooled with these.
    """
    mean, wide, degrees = _change(responses, place, pooled, within, beside)
    return {"pct": 100 * math.expm1(mean), "half_width_pct": 100 * math.exp(mean) * wide, "degrees": degrees}


def _change(
    responses: Runs, place: int, pooled: bool, within: Runs | None, beside: Runs | None = None
) -> tuple[float, float, float | None]:
    """The mean change, its half-width, and of how many degrees of freedom that is; None for many. See `against`."""
    from scipy.special import stdtrit

    seeds, sets = responses.shape
    changes = responses - responses[:, :1]
    mean, wide = until.interval([float(x) for x in changes[:, place]])
    if within is not None:
        return mean, math.hypot(within[place], within[0]) if place else 0.0, None
    if not pooled:
        return mean, wide, float(seeds - 1)
    if not place:
        return mean, 0.0, None
    known = [responses, *([beside] if beside is not None and len(beside) == seeds and beside.shape[1] > 1 else [])]
    # Means of sets and of seeds take a part of what there is to know.
    free = float(sum((seeds - 1) * (each.shape[1] - 1) for each in known))
    if sets == 2:
        # One chance for all: a pair of sets says next to nothing of its own.
        variances, degrees = np.full(sets, sum(float((_left(each) ** 2).sum()) for each in known) / free), free
    else:
        rest = [(_left(each) ** 2).sum(axis=0) / (seeds - 1) * each.shape[1] / (each.shape[1] - 1) for each in known]
        variances, degrees = factorial.moderated(np.concatenate(rest), seeds - 1)
        degrees = min(degrees, free)
    return mean, float(stdtrit(degrees, 0.975)) * math.sqrt((variances[place] + variances[0]) / seeds), degrees


def _known(runs: Runs) -> Runs:
    """Responses `[seed, set]` of the sets of which all seeds are known."""
    found: Runs = runs[:, ~np.isnan(runs).any(axis=0)]
    return found


def _of_others(alone: Mapping[str, Runs], fit: Sequence[Technique], best: Sequence[Technique]) -> dict[str, Runs]:
    """Responses of each technique alone, but for the best few: those, and of none, are runs of combinations, too."""
    names = {each.name for each in best}
    places = [place + 1 for place, each in enumerate(fit) if each.name not in names]
    return {name: _known(runs[:, places]) for name, runs in alone.items()}


def _left(responses: Runs) -> Runs:
    """What is left of responses `[seed, set]` without the means of seeds and sets."""
    found: Runs = responses - responses.mean(axis=0) - responses.mean(axis=1, keepdims=True) + responses.mean()
    return found


def _against_ndr(of: Measured, place: int, pooled: bool = False, beside: Runs | None = None) -> dict[str, Any] | None:
    """As `_against_known`, of rates that are found to a share only: that is in the half-width, too."""
    found = _against_known(of, place, pooled, beside)
    if found is None or not place:
        return found
    share = 100 * NDR_WITHIN * (1 + found["pct"] / 100)
    return found | {"half_width_pct": math.hypot(found["half_width_pct"], share)}


def _confirmed_ndr(
    bench: Bench, fit: Sequence[Technique], chosen: Sequence[str], confirmed: Mapping[str, Any], alone: Runs
) -> dict[str, Any]:
    """The highest rate without loss behind the lifted port, as it is and with the best set, on seeds of longer runs.

    `alone` are those of each technique `[seed, set]`: of two seeds and two sets little is known of their chance.
    """
    saturated = [confirmed["saturated_mpps"][side] for side in ("before", "after")]
    sets = [frozenset[str](), frozenset(chosen)]
    ndr = bench.without_loss("NDR of the best", sets, fit, np.log([saturated] * SEEDS_OF_BEST), CONFIRMED_FROM)
    gain: Mapping[str, Any] = _against_ndr(ndr, 1, pooled=True, beside=alone) or {"pct": None, "half_width_pct": None}
    return {"before": _mean_rate(ndr, 0), "after": _mean_rate(ndr, 1), **gain}


def _mean_or_none(of: Measured, place: int) -> float | None:
    mean = float(of.runs[:, place].mean())
    return None if math.isnan(mean) else mean


def _mean_rate(of: Measured, place: int) -> float | None:
    """In Mpps; None where packets are lost at any rate."""
    mean = float(np.exp(of.runs[:, place].mean()))
    return None if math.isnan(mean) else mean


def _against_known(of: Measured, place: int, pooled: bool = True, beside: Runs | None = None) -> dict[str, Any] | None:
    """As `against`, of the sets of which the response is known; None where the set is not among them."""
    responses = of.runs
    known = [each for each in range(responses.shape[1]) if not np.isnan(responses[:, each]).any()]
    if 0 not in known or place not in known:
        return None
    within = None if of.within is None else of.within[known]
    return against(responses[:, known], known.index(place), pooled, within, beside)


def _energy_note(ranked: Sequence[Mapping[str, Any]], now: Mapping[str, Any]) -> str:
    """What is said about energy: what it is of, or why it is not known."""
    if now["energy_nj"] is None:
        return (
            "energy is not known: machine.dram names no standard whose currents are known (machine.dram.currents; "
            "wirespeed presets --kind dram)"
        )
    unknown = [each["name"] for each in ranked if each["alone"]["energy"] is None]
    but = f"; not known with {', '.join(unknown)}, whose DRAM has no currents" if unknown else ""
    return f"energy is DRAM's, a packet sent at the scenario's own load, by its currents: {_nj(now)} as it is{but}"


def _nj(now: Mapping[str, Any]) -> str:
    return f"{quantities.digits(now['energy_nj'])} nJ"


def _relief(bench: Bench, relieving: Sequence[Technique]) -> list[dict[str, Any]]:
    """What each of these brings where PCIe is full, at the port and the link as they are: the cheapest first."""
    measured = bench.at_the_port(relieving, SEEDS_OF_RELIEF)
    rows = [
        {
            "name": each.name,
            "title": each.title,
            "kind": each.kind,
            "set": list(each.overrides),
            "rate": _against(measured, place + 1, pooled=True),
            "command": bench.command([each]),
        }
        for place, each in enumerate(relieving)
    ]
    return sorted(rows, key=lambda row: (list(techniques.WHO).index(row["kind"]), -row["rate"]["pct"]))


def _gains(
    fit: Sequence[Technique],
    screened: Mapping[str, Any],
    relieving: Sequence[Technique],
    relief: Sequence[Mapping[str, Any]] | None,
) -> dict[str, float]:
    """By name, the logarithm of what each technique is to bring: what relieves PCIe at the port that there is."""
    gains = {each.name: effect.value for each, effect in zip(fit, screened["rate"], strict=True)}
    for row in relief or ():
        sure = techniques.surely(row["rate"], 1, len(relieving))
        gains[row["name"]] = math.log1p(row["rate"]["pct"] / 100) if sure else 0.0
    return gains


def _cheapest(
    bench: Bench, fit: Sequence[Technique], gains: Mapping[str, float], mpps: float, needed: Collection[str]
) -> dict[str, Any]:
    """The cheapest set that carries a rate: sets by cost, and of equal cost by what `gains` promise of each.

    Where `needed` names techniques, none of which the target is met without, each set has one of them.
    """
    helpful = [each for each in fit if gains[each.name] > 0]
    helpful = sorted(helpful, key=lambda each: (each.name not in needed, -gains[each.name]))[:_SUBSETS_OF]
    subsets = [subset for size in range(len(helpful) + 1) for subset in itertools.combinations(helpful, size)]
    subsets.sort(
        key=lambda subset: (
            techniques.order(list(subset)),
            -sum(gains[each.name] for each in subset),
        )
    )
    # Of each cost, and of what is needed each, only the most promising: a target is met by what is tried, not by what
    # is promised.
    seen: set[tuple[tuple[int, ...], frozenset[str]]] = set()
    tried: list[dict[str, Any]] = []
    for subset in subsets:
        has = frozenset(each.name for each in subset) & frozenset(needed)
        order = (techniques.order(list(subset)), has)
        if order in seen or len(tried) >= _MOST_TRIED or (needed and not has):
            continue
        if bench.why_not(subset) is not None:
            continue
        seen.add(order)
        met = bench.carries(subset, mpps)
        tried.append({"techniques": [each.name for each in subset], "carries": met})
        if met:
            break
    last = tried[-1]
    chosen = techniques.named(last["techniques"], helpful) if last["carries"] else []
    return {
        "command": bench.command(chosen),
        "mpps": mpps,
        "met": last["carries"],
        "techniques": last["techniques"] if last["carries"] else [],
        "tried": tried,
    }


def _ranked(fit: Sequence[Technique], screened: Mapping[str, Any], goal: str) -> list[dict[str, Any]]:
    rows = []
    for place, each in enumerate(fit):
        alone = screened["alone"]
        rows.append(
            {
                "name": each.name,
                "title": each.title,
                "system": each.system,
                "kind": each.kind,
                "rate": _percent(screened["rate"][place]),
                "p99": _percent(screened["p99"][place]) if "p99" in screened else None,
                "loss": alone["loss"][place],
                "alone": {name: alone[name][place] for name in ("rate", "ndr", "p99", "energy")},
                "cost": each.cost.numbers,
                "cost_words": each.cost.words,
                "set": list(each.overrides),
            }
        )
    sign = techniques.sign(goal)
    # What is not known comes last.
    return sorted(rows, key=lambda row: -sign * row["alone"][goal]["pct"] if row["alone"][goal] else math.inf)


def _first(
    bench: Bench, fit: Sequence[Technique], ranked: Sequence[Mapping[str, Any]], goal: str
) -> dict[str, Any] | None:
    """Of the techniques that surely help alone the cheapest, by who can do it, and of those the best; None for none."""
    helping = techniques.helps(ranked, goal)
    if not helping:
        return None
    (chosen,) = techniques.named([helping[0]["name"]], list(fit))
    return {"technique": chosen.name, **_described(bench, fit, [chosen.name])}


def _percent(effect: Effect) -> dict[str, Any]:
    return {
        "pct": 100 * math.expm1(effect.value),
        "half_width_pct": 100 * math.exp(effect.value) * effect.half_width,
        "sure": effect.is_sure,
    }


def _described(bench: Bench, fit: Sequence[Technique], names: Iterable[str]) -> dict[str, Any]:
    chosen = techniques.named(list(names), list(fit))
    total = techniques.combined(chosen)
    return {
        "techniques": [each.name for each in chosen],
        "titles": [each.title for each in chosen],
        "set": [override for each in chosen for override in each.overrides],
        "cost": total.numbers,
        "cost_words": total.words,
        "command": bench.command(chosen),
        "saturated_command": bench.command(chosen, saturated=True),
    }
