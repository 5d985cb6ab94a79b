"""Advice from end to end: which techniques pay on a machine with its traffic, and what to set.

1. Where the machine is: its highest rate without loss, and at what it saturates. A machine that carries the line rate
   shows nothing of what it has in reserve: for the comparison its port and its link to the host are made faster, all
   else stays.
2. All techniques that fit, on and off in a factorial design of resolution IV. All points see the same packets
   (the seeds of replications are the same), so differences are the machine's.
3. The best few in every combination: what each does alone, how they work together, which set is best.
4. The cheapest set that carries a wanted rate, tried at that rate.
5. The best set again, by runs until the half-width of the rate is 1 %, and its highest rate without loss.
"""

from __future__ import annotations

import itertools
import math
import os
import shlex
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from wirespeed import api, quantities, scenarios
from wirespeed.advise import factorial, techniques
from wirespeed.advise.factorial import Effect, Runs
from wirespeed.advise.techniques import Technique, Unfit
from wirespeed.errors import InputError, nearest
from wirespeed.progress import Callback
from wirespeed.sweep import Ask, study, until
from wirespeed.sweep.engine import Local
from wirespeed.sweep.plan import PathLike

SCHEMA: Final = "wirespeed.advice/1"
GOALS: Final = ("rate", "p99")
SEEDS: Final = 2
SEEDS_OF_BEST: Final = 3
BEST: Final = 4
PACKETS: Final = 60_000
# A port that is so many times as fast, and a link to the host: the first at which this share of packets is lost.
_LIFTS: Final = (1, 2, 4, 8, 16)
_SATURATED: Final = 0.3
_LEAST_WARMUP: Final = 20_000
_MOST_TRIED: Final = 8
_CONFIRMED_WITHIN: Final = "carried_mpps 1%"

_Sets = Sequence[frozenset[str]]


@dataclass(frozen=True, slots=True)
class Asked:
    """What advice is asked for; see `wirespeed.advise`."""

    scenario: PathLike
    capture: PathLike | None = None
    table: PathLike | None = None
    set: scenarios.Overrides = None
    goal: str = "rate"
    target: str | None = None
    without: Sequence[str] = ()
    packets: int = PACKETS
    jobs: int | None = None
    out: PathLike | None = None
    progress: Callback | None = field(default=None, compare=False)


def advise(asked: Asked) -> dict[str, Any]:
    """Finds the advice; all of it, as JSON has it. Raises InputError before anything runs for what cannot be advised."""
    if asked.goal not in GOALS:
        raise InputError(f"--goal {asked.goal}: must be one of {', '.join(GOALS)}{nearest(asked.goal, GOALS)}")
    if asked.packets < 1000:
        raise InputError(f"--packets {asked.packets}: must be at least 1000")
    started = time.monotonic()
    bench = _Bench(asked)
    target = _rate(asked.target, bench) if asked.target is not None else None
    fit, unfit = techniques.fitting(bench.resolved)
    left_out = techniques.named(list(asked.without), fit)
    fit, clashing = bench.composing([each for each in fit if each not in left_out])
    unfit = [*unfit, *clashing, *(Unfit(each.name, each.title, "left out with --without") for each in left_out)]
    if not fit:
        raise InputError("no technique fits this scenario; `wirespeed tune` searches its settings")
    try:
        now = bench.where_it_is()
        screened = _screened(bench, fit, asked.goal)
        best = _best_few(fit, screened, asked.goal)
        combined = _combined(bench, best, asked.goal) if best else None
        reached = _cheapest(bench, fit, screened, target) if target is not None else None
        chosen = combined["best"]["techniques"] if combined is not None else []
        confirmed = bench.confirm(techniques.named(chosen, fit), now)
    finally:
        bench.close()
    ranked = _ranked(fit, screened, combined, asked.goal)
    return {
        "schema": SCHEMA,
        "scenario": bench.name,
        "name": bench.resolved.get("name", ""),
        "goal": asked.goal,
        "now": now,
        "techniques": ranked,
        "not_fitting": [{"name": each.name, "title": each.title, "why": each.why} for each in unfit],
        "elsewhere": dict(techniques.ELSEWHERE),
        "energy": None,
        "energy_note": "the server's DRAM model has no currents: energy is left out",
        "interactions": screened["interactions"] if combined is None else combined["interactions"],
        "combinations": None if combined is None else combined["sets"],
        "best": _described(bench, fit, chosen) | {"confirmed": confirmed},
        "target": None if reached is None else reached | {"command": bench.command(techniques.named(reached["techniques"], fit))},
        "runs": bench.runs,
        "ran": bench.ran,
        "packets": asked.packets,
        "warmup": bench.warmup,
        "seconds": time.monotonic() - started,
    }


class _Bench:
    """Runs the scenario with sets of techniques, at saturation and at its own load."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._set = [*scenarios.overrides(asked.set), "run.curve=[]"]
        self.resolved = tomllib.loads(
            api.resolve(asked.scenario, asked.capture, asked.table, self._set)
        )
        if self.resolved["run"].get("search"):
            raise InputError("run.search: advice searches by itself; leave it out of the scenario")
        self.name = "<text>" if "\n" in os.fspath(asked.scenario) else os.fspath(asked.scenario)
        self.warmup = int(self.resolved["run"].get("warmup") or 0)
        self.runs = self.ran = 0
        self._lift: list[str] = []
        self._engine = Local(asked.jobs, held=True)

    def close(self) -> None:
        """Ends the workers."""
        self._engine.close()

    def composing(self, fit: Sequence[Technique]) -> tuple[list[Technique], list[Unfit]]:
        """Techniques that start alone and with all others; those that do not are left out, the last first."""
        kept, out = [], []
        for each in fit:
            for others in (kept, []):
                why = self._why_not([*others, each])
                if why is not None:
                    out.append(Unfit(each.name, each.title, why))
                    break
            else:
                kept.append(each)
        return kept, out

    def where_it_is(self) -> dict[str, Any]:
        """The scenario as it is: its run, its highest rate without loss, and what saturates it."""
        own = self._study("as it is", {"own": []}, ["run.packets=100000"], 1, self.warmup == 0)[0]
        if own["error"] is not None:
            raise InputError(str(own["error"]))
        if self.warmup == 0:
            # All points are measured from the same packet on: after every mbuf was used, and the sojourn had settled.
            settled = int(own.get("warmup_packets") or 0)
            self.warmup = max(settled, int(1.25 * self.resolved["mempool"]["size"]), _LEAST_WARMUP)
        for lift in _LIFTS:
            self._lift = self._lifted(lift)
            (row,) = self._study("saturation", {f"x{lift}": self._lift}, [f"run.packets={self._asked.packets}"], 1)
            if row["error"] is None and row["loss"] >= _SATURATED:
                break
            if lift == 1 and row["error"] is None and row["loss"] > 0.01:
                break  # what it loses at line rate is more than chance: the port is not what limits it
        ndr = self._search([])
        return {
            "carried_mpps": own["carried_mpps"],
            "loss": own["loss"],
            "p99_ns": own.get("sojourn_ns.p99"),
            "load": own["load"],
            "ndr_mpps": ndr["mpps"],
            "ndr_at_line_rate": ndr["load"] >= 1.0,
            "saturated_mpps": row["carried_mpps"],
            "lift": lift,
        }

    def measure(self, phase: str, sets: _Sets, fit: Sequence[Technique], seeds: int) -> dict[str, Runs]:
        """Responses `[replication, set]`: log of the rate at saturation, log of p99 and loss at the scenario's load."""
        by_name = {each.name: each for each in fit}
        cases: dict[str, list[str]] = {}
        for place, chosen in enumerate(sets):
            on = [override for name in sorted(chosen) for override in by_name[name].overrides]
            cases[f"{place} saturated"] = [*on, *self._lift]
            cases[f"{place} own"] = on
        rows = self._study(phase, cases, [f"run.packets={self._asked.packets}"], seeds)
        found = {name: np.full((seeds, len(sets)), np.nan) for name in ("rate", "p99", "loss")}
        for row in rows:
            place, regime = str(row["case"]).split()
            at = (int(row["replication"]), int(place))
            if row["error"] is not None:
                raise InputError(f"with {', '.join(sorted(sets[int(place)])) or 'no technique'}: {row['error']}")
            if regime == "saturated":
                found["rate"][at] = math.log(max(row["carried_mpps"], 1e-9))
            else:
                found["p99"][at] = math.log(max(row.get("sojourn_ns.p99") or 1.0, 1.0))
                found["loss"][at] = row["loss"]
        return found

    def carries(self, chosen: Sequence[Technique], mpps: float) -> bool:
        """Whether a set carries a rate without loss, in a run as long as a trial of a search."""
        on = [override for each in chosen for override in each.overrides]
        offer = f'traffic.packet_rate="{mpps:.6f} Mpps"'
        (row,) = self._study("target", {"target": [*on, offer]}, [f"run.packets={5 * self._asked.packets}"], 1)
        return row["error"] is None and row["loss"] == 0.0

    def confirm(self, chosen: Sequence[Technique], now: Mapping[str, Any]) -> dict[str, Any]:
        """The best set beside the machine as it is, by long runs: rates at saturation known to 1 %, and the NDR."""
        on = [override for each in chosen for override in each.overrides]
        cases = {"as it is": self._lift, "best": [*on, *self._lift]}
        ask = self._ask(cases, [f"run.packets={4 * self._asked.packets}"])
        found = study.run(
            Ask(**{**ask, "until": [_CONFIRMED_WITHIN]}), self._asked.out, self._engine, progress=self._told("confirmation")
        )
        self._count(found)
        rates = {
            name: until.interval([row["carried_mpps"] for row in found.rows if row["case"] == name]) for name in cases
        }
        before, after = rates["as it is"], rates["best"]
        gain = 100 * (after[0] / before[0] - 1)
        # Of a ratio of independent means, by the sum of squares of relative half-widths.
        wide = 100 * after[0] / before[0] * math.hypot(before[1] / before[0], after[1] / after[0])
        ndr = self._search(chosen) if chosen else {"mpps": now["ndr_mpps"], "load": 0.0}
        return {
            "saturated_mpps": {"before": before[0], "after": after[0]},
            "half_width_mpps": {"before": before[1], "after": after[1]},
            "gain_pct": gain,
            "half_width_pct": wide,
            "runs": len(found.rows),
            "ndr_mpps": {"before": now["ndr_mpps"], "after": ndr["mpps"]},
        }

    def command(self, chosen: Sequence[Technique]) -> str:
        """The command line that runs a set."""
        words = ["wirespeed", "run", self.name]
        for option, given in (("--capture", self._asked.capture), ("--table", self._asked.table)):
            words += [option, os.fspath(given)] if given is not None else []
        given_set = scenarios.overrides(self._asked.set)
        added = [override for each in chosen for override in each.overrides]
        words += [text for override in [*given_set, *added] for text in ("--set", override)]
        return shlex.join(words)

    def line_mpps(self) -> float:
        """The rate of packets at which the port is full."""
        (row,) = self._study("line rate", {"line": ["traffic.load=1.0"]}, ["run.packets=20000"], 1)
        return float(row["offered_mpps"])

    def _search(self, chosen: Sequence[Technique]) -> dict[str, float]:
        on = [override for each in chosen for override in each.overrides]
        fixed = ["run.search=ndr", "run.search_resolution=0.01", "run.packets=20000"]
        (row,) = self._study("NDR", {"ndr": on}, fixed, 1, True)
        if row["error"] is not None:
            raise InputError(str(row["error"]))
        return {"mpps": float(row["search.mpps"]), "load": float(row["search.load"])}

    def _study(
        self, phase: str, cases: Mapping[str, list[str]], fixed: list[str], seeds: int, settles: bool = False
    ) -> Sequence[Mapping[str, Any]]:
        ask = self._ask(cases, fixed, settles)
        found = study.run(Ask(**ask, replications=seeds), self._asked.out, self._engine, progress=self._told(phase))
        self._count(found)
        return found.rows

    def _ask(self, cases: Mapping[str, list[str]], fixed: list[str], settles: bool = False) -> dict[str, Any]:
        warmup = [] if settles or not self.warmup else [f"run.warmup={self.warmup}"]
        return {
            "scenario": self._asked.scenario,
            "cases": cases,
            "set": [*self._set, *fixed, *warmup],
            "capture": self._asked.capture,
            "table": self._asked.table,
        }

    def _told(self, phase: str) -> Callback | None:
        told = self._asked.progress
        if told is None:
            return None
        return lambda _, done, total, note: told(phase, done, total, note)

    def _count(self, found: study.Study) -> None:
        self.runs += len(found.rows)
        self.ran += found.ran

    def _why_not(self, chosen: Sequence[Technique]) -> str | None:
        on = [override for each in chosen for override in each.overrides]
        try:
            api.resolve(self._asked.scenario, self._asked.capture, self._asked.table, [*self._set, *on])
        except InputError as e:
            return str(e)
        return None

    def _lifted(self, factor: int) -> list[str]:
        """Line rate offered, by a port and a link to the host that are so many times as fast."""
        if factor == 1:
            return ["traffic.load=1.0"]
        nic = self.resolved["nic"]
        rates = {"nic.rate": nic["rate"], "nic.pcie.rate": nic["pcie"]["rate"]}
        return ["traffic.load=1.0", *(f'{path}="{_gbps(rate) * factor:g} Gbps"' for path, rate in rates.items())]


def _screened(bench: _Bench, fit: Sequence[Technique], goal: str) -> dict[str, Any]:
    """Main effects of all techniques, and groups of interactions."""
    design = factorial.fractional(len(fit))
    sets = [frozenset(each.name for each, on in zip(fit, row, strict=True) if on) for row in design.on]
    responses = bench.measure("screening", sets, fit, SEEDS)
    main = [[place] for place in range(len(fit))]
    found: dict[str, Any] = {
        name: factorial.effects(design, responses[name], main) for name in ("rate", "p99", "loss")
    }
    groups = design.aliases()
    together = factorial.effects(design, responses[goal], [list(pairs[0]) for pairs in groups])
    found["interactions"] = _sure_interactions(fit, groups, together)
    found["mean"] = float(responses["rate"].mean())
    return found


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
    sign = 1 if goal == "rate" else -1
    helps = [(sign * effect.value, place) for place, effect in enumerate(screened[goal]) if effect.is_sure]
    return [fit[place] for value, place in sorted(helps, reverse=True) if value > 0][:BEST]


def _combined(bench: _Bench, best: Sequence[Technique], goal: str) -> dict[str, Any]:
    """Every combination of the best few, the others off."""
    design = factorial.full(len(best))
    sets = [frozenset(each.name for each, on in zip(best, row, strict=True) if on) for row in design.on]
    responses = bench.measure("the best in every combination", sets, best, SEEDS_OF_BEST)
    pairs = [[pair] for pair in itertools.combinations(range(len(best)), 2)]
    together = factorial.effects(design, responses[goal], [list(group[0]) for group in pairs])
    described = [
        {
            "techniques": sorted(chosen),
            "rate": _against(responses["rate"], place),
            "p99": _against(responses["p99"], place),
            "loss": float(responses["loss"][:, place].mean()),
        }
        for place, chosen in enumerate(sets)
    ]
    sign = 1 if goal == "rate" else -1
    top = max(described, key=lambda each: sign * each[goal]["pct"])
    # Of those that cannot be told from the best, the cheapest.
    near = [each for each in described if sign * (top[goal]["pct"] - each[goal]["pct"]) <= _slack(top[goal], each[goal])]
    chosen = min(near, key=lambda each: (_order(best, each["techniques"]), -sign * each[goal]["pct"]))
    return {"sets": described, "best": chosen, "interactions": _sure_interactions(best, pairs, together)}


def _slack(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """What two gains may differ by without being told apart; at least a tenth of a percent."""
    return max(math.hypot(a["half_width_pct"], b["half_width_pct"]), 0.1)


def _against(responses: Runs, place: int) -> dict[str, float]:
    """A set against none (the first), seed by seed, in percent with half-width."""
    mean, wide = until.interval([float(x) for x in responses[:, place] - responses[:, 0]])
    return {"pct": 100 * math.expm1(mean), "half_width_pct": 100 * math.exp(mean) * wide}


def _order(among: Sequence[Technique], names: Sequence[str]) -> tuple[int, int, int, int]:
    chosen = techniques.named(list(names), list(among))
    total = techniques.combined(chosen)
    return (total.sram_bits, total.cores, total.ways, len(chosen))


def _cheapest(bench: _Bench, fit: Sequence[Technique], screened: Mapping[str, Any], mpps: float) -> dict[str, Any]:
    """The cheapest set that carries a rate: sets by cost, and of equal cost by the rate that main effects promise."""
    gains = {each.name: effect.value for each, effect in zip(fit, screened["rate"], strict=True)}
    helpful = [each for each in fit if gains[each.name] > 0]
    helpful = sorted(helpful, key=lambda each: -gains[each.name])[:_SUBSETS_OF]
    subsets = [
        subset for size in range(len(helpful) + 1) for subset in itertools.combinations(helpful, size)
    ]
    subsets.sort(
        key=lambda subset: (
            _order(helpful, [each.name for each in subset]),
            -sum(gains[each.name] for each in subset),
        )
    )
    # Of each cost only the most promising: a target is met by what is tried, not by what is promised.
    seen: set[tuple[int, int, int, int]] = set()
    tried = []
    for subset in subsets:
        order = _order(helpful, [each.name for each in subset])
        if order in seen or len(tried) >= _MOST_TRIED:
            continue
        seen.add(order)
        met = bench.carries(subset, mpps)
        tried.append({"techniques": [each.name for each in subset], "carries": met})
        if met:
            break
    last = tried[-1]
    return {"mpps": mpps, "met": last["carries"], "techniques": last["techniques"] if last["carries"] else [], "tried": tried}


_SUBSETS_OF: Final = 8


def _ranked(
    fit: Sequence[Technique], screened: Mapping[str, Any], combined: Mapping[str, Any] | None, goal: str
) -> list[dict[str, Any]]:
    alone = {
        each["techniques"][0]: each for each in (combined or {}).get("sets", []) if len(each["techniques"]) == 1
    }
    rows = []
    for place, each in enumerate(fit):
        rate, p99, loss = (screened[name][place] for name in ("rate", "p99", "loss"))
        rows.append(
            {
                "name": each.name,
                "title": each.title,
                "system": each.system,
                "kind": each.kind,
                "rate": _percent(rate),
                "p99": _percent(p99),
                "loss": {"change": loss.value, "half_width": loss.half_width},
                "alone": alone.get(each.name),
                "cost": {"sram_bits": each.cost.sram_bits, "cores": each.cost.cores, "ways": each.cost.ways},
                "cost_words": each.cost.words,
                "set": list(each.overrides),
            }
        )
    sign = 1 if goal == "rate" else -1
    return sorted(rows, key=lambda row: -sign * row[goal]["pct"])


def _percent(effect: Effect) -> dict[str, Any]:
    return {
        "pct": 100 * math.expm1(effect.value),
        "half_width_pct": 100 * math.exp(effect.value) * effect.half_width,
        "sure": effect.is_sure,
    }


def _described(bench: _Bench, fit: Sequence[Technique], names: Iterable[str]) -> dict[str, Any]:
    chosen = techniques.named(list(names), list(fit))
    total = techniques.combined(chosen)
    return {
        "techniques": [each.name for each in chosen],
        "titles": [each.title for each in chosen],
        "set": [override for each in chosen for override in each.overrides],
        "cost": {"sram_bits": total.sram_bits, "cores": total.cores, "ways": total.ways},
        "cost_words": total.words,
        "command": bench.command(chosen),
    }


def _rate(text: str, bench: _Bench) -> float:
    """A wanted rate in Mpps. Raises InputError for what is no rate, or is more than the port carries."""
    number, _, unit = text.strip().partition(" ")
    try:
        value = float(number.removesuffix("Mpps").removesuffix("Gbps"))
    except ValueError:
        value = math.nan
    unit = (unit or text.strip()[len(number.rstrip("MmpsGgb")) :]).strip() or "Mpps"
    if not (math.isfinite(value) and value > 0) or unit.lower() not in ("mpps", "gbps"):
        raise InputError(f"--target {text!r}: must be a rate, for example '20 Mpps' or '90 Gbps'")
    line = bench.line_mpps()
    line_gbps = _gbps(bench.resolved["nic"]["rate"])
    mpps = value if unit.lower() == "mpps" else value / line_gbps * line
    if mpps > line * 1.0001:
        raise InputError(
            f"--target {text}: is more than the port's line rate, {quantities.mpps(line)} or {line_gbps:g} Gbps of this "
            "traffic; give less, or raise nic.rate"
        )
    return min(mpps, line)


def _gbps(rate: object) -> float:
    """A rate of a resolved scenario: a number of Gbps, or text such as `100 Gbps`."""
    if isinstance(rate, int | float):
        return float(rate)
    number, unit = str(rate).split()
    return float(number) * {"bps": 1e-9, "kbps": 1e-6, "Mbps": 1e-3, "Gbps": 1.0, "Tbps": 1e3}[unit]
