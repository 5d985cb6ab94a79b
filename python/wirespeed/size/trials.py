"""Trials: a machine is offered the target until it surely fails, or has as many packets behind it as the loss asks for.

A trial is one run, or several with seeds of their own, which are one sample together. The first is short; who fails it
surely is not tried further. Whether a machine meets the target is judged at the full length alone, by the upper ends of
the intervals of loss and 99th percentile, so that "meets" is what was shown and not what was not refuted.

Rings that fill more slowly than a run lasts are no reserve. So a machine fails, too, where what waits grows from the
first quarter of a run to the last by more than chance: at the edge of overload the sum of n independent arrivals
wanders by the square root of n. An overload of less than twice that, 2 / sqrt(n), does not show.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from wirespeed import _wirespeed, files, quantities, scenarios, units
from wirespeed.errors import InputError
from wirespeed.size.aim import Aim, Wish
from wirespeed.size.dimensions import BY_NAME, Machine, Resolved, Space, rule
from wirespeed.sweep import until
from wirespeed.sweep.metrics import METRICS, columns, ring_fills, waits_more

Outcome = Literal["meets", "fails", "open"]
Cause = Literal["rate", "loss", "p99", "stalls", "start", ""]
Summary = Mapping[str, Any]

FIRST: Final = 60_000
_LONGEST: Final = 500_000
# A first run is so many times as long as what receive rings and the NIC's memory hold: a shorter one cannot lose any.
_OF_HELD: Final = 1.25
_SATURATED: Final = 0.95
_WANDERS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What a machine did under the target so far. Times in ns, rates in Mpps; ends of intervals at 95 %."""

    machine: Machine
    outcome: Outcome
    cause: Cause
    why: str
    packets: int = 0
    runs: int = 0
    offered_mpps: float = 0.0
    carried_mpps: float = 0.0
    carried_half_width: float | None = None
    rejected: float = 0.0
    """The share of packets that the function rejects, for a rate that it polices say: neither lost nor carried."""
    lost: int = 0
    loss: float = 0.0
    loss_upper: float = 1.0
    stall_loss: float = 0.0
    p99_ns: float | None = None
    p99_low: float | None = None
    p99_high: float | None = None
    grows: float = 0.0
    """So many packets more wait at the end of the longest run than at its beginning."""
    busy: float = 0.0
    """Of the busiest core."""
    last: Summary | None = None
    """The summary of the last run."""

    @property
    def meets(self) -> bool:
        """Whether the target was shown to be met."""
        return self.outcome == "meets"

    @property
    def served_mpps(self) -> float:
        """What is not lost: what is carried, and what the function rejects, whatever the machine."""
        return self.carried_mpps + self.rejected * self.offered_mpps

    def lacks(self, aim: Aim) -> float:
        """How far from the target: the largest of what lacks of rate, and of p99 beyond what is allowed, as shares."""
        if self.cause == "start":
            return math.inf
        backlog = max(self.grows, 0.0) / max(self.packets / max(self.runs, 1), 1.0)
        rate = self.offered_mpps / max(self.served_mpps, 1e-9) - 1.0 + backlog
        p99 = (self.p99_ns or 0.0) / aim.p99_ns - 1.0 if aim.p99_ns else 0.0
        return max(rate, p99, 0.0)


class Trials:
    """Makes trials, a few machines at a time, and keeps them."""

    def __init__(self, wish: Wish, aim: Aim, space: Space, of: Resolved) -> None:
        self._wish, self._aim, self._of, self.space = wish, aim, of, space
        self._found = scenarios.find(scenarios.as_text(wish.scenario))
        self._given = [*self._found.overrides, *scenarios.overrides(wish.set)]
        # All machines begin near the one that there is.
        near = self._scenario(space.now, aim.offered, FIRST, 0)
        self._stock = _wirespeed.Stock().near(near, files.warm_folder())
        self._kept: dict[tuple[tuple[str, int], ...], list[Summary]] = {}
        self._faults: dict[tuple[tuple[str, int], ...], str] = {}
        self._frame = 64.0
        self.runs = self.packets = 0

    def saturated(self, machine: Machine) -> Summary:
        """What a machine does at the port's line rate, in a run as short as a first one."""
        (found,) = self._run([self._scenario(machine, "traffic.load=1.0", FIRST, 0)], "line rate")
        self._frame = float(found["traffic"]["mean_frame_bytes"])
        return found

    def quick(self, machines: Sequence[Machine], phase: str) -> list[Trial]:
        """Trials of at least one run each: they say who surely fails."""
        self._more([each for each in machines if not self._kept.get(key(each))], phase)
        return [self.trial(each) for each in machines]

    def thorough(self, machines: Sequence[Machine], phase: str) -> list[Trial]:
        """Trials that say who meets the target and who does not."""
        self.quick(machines, phase)
        while wanting := [each for each in machines if self.trial(each).outcome == "open"]:
            self._more(wanting, phase)
        return [self.trial(each) for each in machines]

    def made(self) -> list[Trial]:
        """All trials, in the order in which they began."""
        return [self.trial(dict(each)) for each in [*self._kept, *self._faults]]

    def trial(self, machine: Machine) -> Trial:
        """What is known of a machine."""
        name = key(machine)
        if name in self._faults:
            return Trial(machine, "fails", "start", self._faults[name])
        return judge(machine, self._kept.get(name, []), self._aim, self._receivers(machine))

    def settings(self, machine: Machine) -> list[str]:
        """What makes a machine of the one that there is: nothing but what is another there."""
        now = self.space.now
        if machine == now:
            return []
        # A preset's pool follows the cores by itself; what was tried is said.
        return [f"{BY_NAME[n].path}={v}" for n, v in machine.items() if v != now[n] or n == "pool"]

    def fitted(self, machine: Machine) -> dict[str, int]:
        """With a pool that is as it is where it is enough, and else as large as rings and bursts need."""
        needed, now = rule(self._of, machine), self.space.now["pool"]
        if "pool" in self.space.given:
            values = self.space.values["pool"]
            return {**machine, "pool": next((each for each in values if each >= needed), values[-1])}
        return {**machine, "pool": max(now, needed)}

    def resolved(self, machine: Machine, packets: int) -> str:
        """The scenario that offers the target to a machine, as TOML."""
        return self._scenario(machine, self._aim.offered, packets, 0).resolved

    def why_not(self, machine: Machine) -> str | None:
        """Why a machine cannot start; None where it can."""
        try:
            self._scenario(machine, "traffic.load=1.0", FIRST, 0)
        except InputError as e:
            return str(e)
        return None

    def _receivers(self, machine: Machine) -> int:
        return min(machine.get("receivers", machine["cores"]), machine["cores"])

    def _first(self, machine: Machine) -> int:
        fifo = _bytes(self._of["nic"]["fifo"]) / self._frame
        held = self._receivers(machine) * machine["queues"] * machine["rings"] + fifo
        return max(min(FIRST, max(self._aim.packets, 1)), math.ceil(_OF_HELD * held))

    def _next(self, machine: Machine) -> tuple[int, int]:
        """Packets and number of the next run."""
        done = self._kept.get(key(machine), [])
        if not done:
            return self._first(machine), 0
        if self._of["traffic"].get("capture"):
            # A capture is the same for every seed: one long run has more of it than several short ones.
            return max(self._aim.packets, self._first(machine)), 0
        left = self._aim.packets - sum(each["packets"] for each in done)
        return max(min(left, _LONGEST), self._first(machine)), len(done)

    def _more(self, machines: Sequence[Machine], phase: str) -> None:
        """One run more of each."""
        made: list[tuple[Machine, _wirespeed.Scenario]] = []
        for each in {key(each): each for each in machines}.values():
            packets, number = self._next(each)
            try:
                made.append((each, self._scenario(each, self._aim.offered, packets, number)))
            except InputError as e:
                self._faults[key(each)] = str(e)
        found = self._run([scenario for _, scenario in made], phase) if made else []
        for (each, _), summary in zip(made, found, strict=True):
            done = self._kept.setdefault(key(each), [])
            if done and self._of["traffic"].get("capture"):
                done.clear()
            done.append(summary)

    def _run(self, made: list[_wirespeed.Scenario], phase: str) -> list[Summary]:
        told, before = self._wish.progress, self.runs

        def tell(_: str, done: int, total: int, note: str) -> None:
            if told is not None:
                told("size", before, 0, f"{phase} {note}".rstrip())

        runs = _wirespeed.run(made, threads=self._wish.threads, progress=tell, stock=self._stock)
        self._wish.refused.extend(self._stock.refused())
        if any(run.partial for run in runs):
            raise KeyboardInterrupt("stopped before there was an answer")
        found = [json.loads(run.summary_json) for run in runs]
        self.runs += len(found)
        self.packets += sum(int(each["packets"]) for each in found)
        return found

    def _scenario(self, machine: Machine, offered: str, packets: int, number: int) -> _wirespeed.Scenario:
        wish = self._wish
        seed = until.seed(int(self._of["run"]["seed"]), number)
        rest = [*self.settings(machine), offered, f"run.packets={packets}", "run.curve=[]", f"run.seed={seed}"]
        capture, table = _path(wish.capture), _path(wish.table)
        given = [each for each in self._given if each.partition("=")[0].strip() != "run.seed"]
        return _wirespeed.Scenario(self._found.text, self._found.origin, [*given, *rest], capture=capture, table=table)


def key(machine: Machine) -> tuple[tuple[str, int], ...]:
    """A machine as a key."""
    return tuple(machine.items())


def judge(machine: Machine, runs: Sequence[Summary], aim: Aim, receivers: int) -> Trial:
    """What runs of a machine under the target say."""
    if not runs:
        return Trial(machine, "open", "", "not tried")
    found = _pooled(machine, runs)
    limit = (runs[-1].get("verdict") or {}).get("limit")
    outcome, cause, why = _outcome(found, runs, aim, receivers * machine["burst"])
    if cause == "loss" and (found.busy > _SATURATED or limit in ("dram", "pcie", "nic", "iommu")):
        cause = "rate"
    fields = {name: getattr(found, name) for name in Trial.__dataclass_fields__}
    return Trial(**{**fields, "outcome": outcome, "cause": cause, "why": why})


def _outcome(found: Trial, runs: Sequence[Summary], aim: Aim, bursts: int) -> tuple[Outcome, Cause, str]:
    """Surely fails; or, at the full length, meets or was not shown to."""
    least = found.loss - _wide_of_loss(runs)
    grown = [(_more(each), bursts + _WANDERS * math.sqrt(each["packets"])) for each in runs]
    fills = max(ring_fills(columns(each)) for each in runs)
    if least > aim.loss:
        return "fails", "loss", f"loses {quantities.probability(found.loss)}"
    if any(growth > allowed for growth, allowed in grown):
        return "fails", "rate", "what waits grows"
    if fills:
        return "fails", "rate", f"a ring fills by {quantities.share(fills, 1)}"
    if found.stall_loss > aim.shown:
        return "fails", "stalls", f"stalls alone lose {quantities.probability(found.stall_loss)}"
    if aim.p99_ns is not None and (found.p99_low or 0.0) > aim.p99_ns:
        return "fails", "p99", f"p99 {quantities.duration(found.p99_ns)}"
    if found.packets < aim.packets or not all((each.get("verdict") or {}).get("loss_is_known", True) for each in runs):
        return "open", "", "not tried to the end"
    # Of so many packets that none may be lost, the last may be a few less by rounding.
    if found.loss_upper + found.stall_loss > aim.shown * (1 + 1e-9):
        return "fails", "loss", f"loss up to {quantities.probability(found.loss_upper + found.stall_loss)}"
    if aim.p99_ns is not None and (found.p99_high is None or found.p99_high > aim.p99_ns):
        high = "no bound" if found.p99_high is None else quantities.duration(found.p99_high)
        return "fails", "p99", f"p99 up to {high}"
    return "meets", "", "meets"


def _pooled(machine: Machine, runs: Sequence[Summary]) -> Trial:
    """Runs with seeds of their own as one sample, by their packets."""
    weights = [float(each["packets"]) for each in runs]
    whole = sum(weights)
    lost = sum(int(each["lost"]) for each in runs)
    loss = lost / whole
    wide = _wide_of_loss(runs)
    halves = [until.within(METRICS["carried_mpps"], columns(each)) for each in runs]
    known = [each for each in halves if each is not None]
    spread = math.sqrt(sum((n * h) ** 2 for n, h in zip(weights, known, strict=False))) / whole
    last = runs[-1]
    stalls = last.get("stalls") or {}
    return Trial(
        machine,
        "open",
        "",
        "",
        packets=int(whole),
        runs=len(runs),
        offered_mpps=_mean(runs, weights, "offered_mpps"),
        carried_mpps=_mean(runs, weights, "carried_mpps"),
        carried_half_width=spread if len(known) == len(runs) else None,
        rejected=sum(int(each.get("rejected") or 0) for each in runs) / whole,
        lost=lost,
        loss=loss,
        loss_upper=3.0 / whole if lost == 0 else loss + wide,
        stall_loss=float(stalls.get("loss") or 0.0),
        **_p99(runs),
        grows=max(_more(each) for each in runs),
        busy=max(float(core["busy"]) for core in last["cores"]),
        last=last,
    )


def _wide_of_loss(runs: Sequence[Summary]) -> float:
    """The half-width of the loss of all: that of independent runs, weighted by their packets."""
    whole = sum(float(each["packets"]) for each in runs)
    return math.sqrt(sum((each["packets"] * (each["loss_half_width"] or 0.0)) ** 2 for each in runs)) / whole


def _mean(runs: Sequence[Summary], weights: Sequence[float], name: str) -> float:
    return statistics.fmean([float(each[name]) for each in runs], weights)


def _p99(runs: Sequence[Summary]) -> dict[str, Any]:
    """The 99th percentile: the mean of those of the runs that bound it, by their packets, and of the ends of intervals.

    The ends are then further out than those of all packets together. Of a run that is short beside how long a queue
    lasts there is no bound; where no run has one, there is no interval.
    """
    names = ("p99", "p99_low", "p99_high")
    bounding = [each for each in runs if all(each["sojourn_ns"].get(name) is not None for name in names)]
    if not bounding:
        known = [each["sojourn_ns"].get("p99") for each in runs]
        return {"p99_ns": next((each for each in reversed(known) if each is not None), None)}
    weights = [float(each["packets"]) for each in bounding]
    means = [statistics.fmean([float(each["sojourn_ns"][name]) for each in bounding], weights) for name in names]
    return dict(zip(("p99_ns", "p99_low", "p99_high"), means, strict=True))


def _more(summary: Summary) -> float:
    """By how many packets more wait at the end of a run; 0 of one too short to tell, which is not the last."""
    return waits_more(columns(summary)) or 0.0


def _bytes(text: object) -> int:
    """Bytes of a resolved scenario: a number, or text such as `512 KiB`."""
    return int(text) if isinstance(text, int | float) else units.size("nic.fifo", str(text))


def _path(path: Any) -> str | None:
    return None if path is None else os.fspath(path)
