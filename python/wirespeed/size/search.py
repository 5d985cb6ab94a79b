"""The search: the cheapest machine that meets the target, the fewest cores first.

One trial of the machine as it is, and one at line rate, say how many cores the target takes; that number and one less
are tried, and the rest is halving. Then fewer cores are given what may make up for them (other rings, bursts, ways),
one at a time and the best of them together, as far down as cores could carry the target at all. Where no number of
cores does it, what brings most is kept, and cores are searched again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wirespeed.size.aim import Aim
from wirespeed.size.dimensions import Machine, Space, cost
from wirespeed.size.trials import Cause, Trial, Trials

# Cores that saturate carry less each than they do just below it, and fewer of them have more of the LLC each: a machine
# may carry so much more than its share of what others carried.
_MORE_THAN_SHARE: Final = 1.3
# What other settings may bring beyond that.
_BY_SETTINGS: Final = 1.2
# A machine with so much less than the target is not tried with other settings: none that is tried here brings as much.
_HOPELESS: Final = 0.15
# A setting that closes so much of the gap is kept although it does not close it.
_BETTER: Final = 0.95
_ROUNDS: Final = 4
# Machines that fall short by the same, but for so much.
_ALIKE: Final = 0.02
_MANY_MORE: Final = 1.5

Towards = tuple[int, int]
"""How many values below, and how many above the present one."""
# What may help where that lacks: by dimension how many values on either side are tried.
_HELPS: Final[Mapping[Cause, Mapping[str, Towards]]] = {
    "rate": {
        "receivers": (0, 3),
        "burst": (0, 1),
        "io_ways": (1, 1),
        "core_ways": (1, 1),
        "rings": (2, 0),
        "pool": (1, 0),
    },
    "loss": {"rings": (0, 3), "burst": (0, 1), "queues": (0, 1), "io_ways": (0, 2)},
    "stalls": {"rings": (0, 9), "queues": (0, 2)},
    "p99": {"burst": (2, 0), "rings": (3, 0), "io_ways": (1, 2), "receivers": (0, 1)},
}
_OF_THE_NIC: Final[Mapping[str, Towards]] = {"queues": (0, 2), "receivers": (0, 2)}


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to."""

    now: Trial
    answer: Trial | None
    nearest: Trial
    """The answer, or what falls short by least."""
    least_ring: int | None = None
    """The least ring with which the answer's machine meets the target, of those tried."""


class Search:
    """Looks for the cheapest machine."""

    def __init__(self, trials: Trials, aim: Aim, mpps: float, per_core: float) -> None:
        """`per_core` is what a core of the machine as it is carries at line rate, in Mpps, `mpps` what is wanted."""
        self._trials, self._aim, self._mpps = trials, aim, mpps
        self._space: Space = trials.space
        start = self._space.start
        self._start: Machine = start if start == self._space.now else trials.fitted(start)
        self._per_core = per_core

    def found(self, least: bool) -> Found:
        """The answer; `least`: also where the machine as it is meets the target."""
        (now,) = self._trials.thorough([self._space.now], "as it is")
        is_allowed = self._space.allows(now.machine)
        if now.meets and is_allowed and not least:
            return Found(now, now, now)
        self._learn(now)
        answer = self._fewer(self._by_cores(self._start) or self._by_settings())
        if answer is None and now.meets and is_allowed:
            answer = now
        if answer is None:
            return Found(now, None, min(self._tried(), key=self._nearness))
        return Found(now, answer, answer, self._least_ring(answer.machine))

    def _tried(self) -> list[Trial]:
        """Those that were allowed and ran; where none ran, the machine as it is."""
        ran = [each for each in self._trials.made() if each.packets]
        return [each for each in ran if self._space.allows(each.machine)] or ran

    def _distance(self, trial: Trial) -> tuple[float, tuple[int, ...]]:
        return trial.lacks(self._aim), cost(trial.machine, self._space.now)

    def _nearness(self, trial: Trial) -> tuple[int, tuple[int, ...]]:
        """Of machines that lack as much, to a hundredth, the cheapest is nearest: what brings nothing is no advice."""
        lacks = trial.lacks(self._aim)
        return 10**6 if lacks == math.inf else math.ceil(100 * lacks), cost(trial.machine, self._space.now)

    def _with(self, machine: Machine, **more: int) -> dict[str, int]:
        return self._trials.fitted({**machine, **more}) if more else dict(machine)

    def _machine(self, base: Machine, cores: int) -> dict[str, int]:
        if base == self._start and cores == base["cores"]:
            return dict(base)
        return self._with(base, cores=cores)

    def _learn(self, trial: Trial) -> None:
        """What a core serves where a machine served less than it was offered."""
        if trial.served_mpps < 0.99 * self._mpps and trial.packets:
            self._per_core = max(self._per_core, trial.served_mpps / trial.machine["cores"])

    def _by_cores(self, base: Machine) -> Trial | None:
        """The fewest cores with which `base` meets the target; None where no number does."""
        values = self._space.values["cores"]

        def meets(places: Sequence[int]) -> list[bool]:
            machines = [self._machine(base, values[place]) for place in places]
            found = self._first(machines, f"{', '.join(str(values[place]) for place in places)} cores")
            for each in machines:
                self._learn(self._trials.trial(each))
            return found

        def guess() -> int:
            # More cores carry less each, so the most that were not enough say best how many more it takes.
            short = [each for each in self._like(base) if each.cause == "rate"]
            most = max(short, key=lambda each: each.machine["cores"], default=None)
            each_carries = most.served_mpps / most.machine["cores"] if most is not None else self._per_core
            wanted = self._mpps / max(each_carries, 1e-9)
            return next((place for place, cores in enumerate(values) if cores >= wanted), len(values) - 1)

        place = least(len(values), meets, guess, lambda: self._is_flat(base))
        if place is None:
            return None
        # Flows spread unevenly over some numbers of cores: fewer may do where more do not.
        for fewer in range(place):
            if self._could(values[fewer], _MORE_THAN_SHARE) and meets([fewer])[0]:
                place = fewer
                break
        return self._trials.trial(self._machine(base, values[place]))

    def _first(self, machines: Sequence[Machine], phase: str) -> list[bool]:
        """Which of machines that grow meet the target, tried side by side; behind the first all are taken to do so."""
        self._trials.quick(machines, phase)
        found: list[bool] = []
        for each in machines:
            found.append(any(found) or self._trials.thorough([each], phase)[0].meets)
        return found

    def _is_flat(self, base: Machine) -> bool:
        """Whether many more cores carried no more, as behind a receiving core that is full: yet more are in vain."""
        tried = [each for each in self._like(base) if each.cause == "rate"]
        return any(
            more.machine["cores"] >= _MANY_MORE * few.machine["cores"]
            and more.served_mpps < (1 + _ALIKE) * few.served_mpps
            for few in tried
            for more in tried
        )

    def _like(self, base: Machine) -> list[Trial]:
        """What was tried that differs from a machine by its cores, and by the pool that they take."""
        rest = {name: value for name, value in base.items() if name not in ("cores", "pool")}
        return [each for each in self._tried() if all(each.machine[name] == value for name, value in rest.items())]

    def _could(self, cores: int, more: float) -> bool:
        """Whether so many cores could carry the target, by what cores carried."""
        return cores * self._per_core * more >= self._mpps

    def _by_settings(self) -> Trial | None:
        """Where no number of cores does it: what brings most is kept, and cores are searched again."""
        base = self._start
        for _ in range(_ROUNDS):
            tried = self._like(base)
            helped = self._helped(self._anchor(tried)) if tried else None
            if helped is None:
                return None
            if helped.meets:
                # With that, fewer cores may do.
                return self._by_cores(helped.machine) or helped
            base = helped.machine
            if (found := self._by_cores(base)) is not None:
                return found
        return None

    def _anchor(self, tried: Sequence[Trial]) -> Trial:
        """Of the numbers of cores that were tried the fewest that fall short by no more than the best does."""
        best = min(each.lacks(self._aim) for each in tried)
        return min(
            (each for each in tried if each.lacks(self._aim) <= best + _ALIKE), key=lambda each: each.machine["cores"]
        )

    def _fewer(self, found: Trial | None) -> Trial | None:
        """With other settings on fewer cores, as far down as they could carry the target."""
        while found is not None:
            fewer = [each for each in self._space.values["cores"] if each < found.machine["cores"]]
            if not fewer or not self._could(fewer[-1], _MORE_THAN_SHARE * _BY_SETTINGS):
                break
            (short,) = self._trials.quick([self._machine(found.machine, fewer[-1])], f"{fewer[-1]} cores")
            if short.cause == "rate" and short.lacks(self._aim) > _HOPELESS:
                break
            helped = self._helped(short)
            if helped is None or not helped.meets:
                break
            found = helped
        return found

    def _helped(self, short: Trial) -> Trial | None:
        """The cheapest machine that meets the target by other settings than one that falls short.

        Where none does, the one that falls short by least, if that is less; None where nothing helps.
        """
        variants = list(self._variants(short))
        tried = self._trials.quick(variants, "other settings")
        if (met := self._cheapest(tried)) is not None:
            return met
        gap = short.lacks(self._aim)
        best: dict[str, tuple[float, int]] = {}
        for each in tried:
            names = [name for name in each.machine if name != "pool" and each.machine[name] != short.machine[name]]
            lacks = each.lacks(self._aim)
            if len(names) == 1 and lacks < _BETTER * gap:
                this = (lacks, each.machine[names[0]])
                best[names[0]] = min(best.get(names[0], this), this)
        if len(best) > 1:
            together = self._with(short.machine, **{name: value for name, (_, value) in best.items()})
            (both,) = self._trials.quick([together], "other settings together")
            if (met := self._cheapest([both])) is not None:
                return self._pruned(met, short.machine)
            tried = [*tried, both]
        nearest = min(tried, key=self._distance, default=None)
        return nearest if nearest is not None and nearest.lacks(self._aim) < _BETTER * gap else None

    def _cheapest(self, tried: Sequence[Trial]) -> Trial | None:
        """The cheapest of those that may meet the target that does."""
        now = self._space.now
        hopeful = sorted((each for each in tried if each.outcome != "fails"), key=lambda each: cost(each.machine, now))
        for each in hopeful:
            (whole,) = self._trials.thorough([each.machine], "other settings")
            if whole.meets:
                return whole
        return None

    def _pruned(self, found: Trial, before: Machine) -> Trial:
        """Without the changes that it meets the target without."""
        for name in [each for each in found.machine if each != "pool" and found.machine[each] != before[each]]:
            (less,) = self._trials.thorough([self._with(found.machine, **{name: before[name]})], "fewer settings")
            found = less if less.meets else found
        return found

    def _variants(self, short: Trial) -> Iterator[dict[str, int]]:
        """Machines with one setting changed towards what may help."""
        limit = ((short.last or {}).get("verdict") or {}).get("limit")
        towards = _OF_THE_NIC if limit == "nic" and short.cause == "rate" else _HELPS.get(short.cause, {})
        for name, (below, above) in towards.items():
            if name == "pool" and name not in self._space.given:
                continue  # it is as rings and bursts need it
            values = self._space.values.get(name, ())
            now = short.machine.get(name, 0)
            lower, higher = [each for each in values if each < now], [each for each in values if each > now]
            chosen = [*lower[::-1][:below], *higher[:above]]
            if name == "rings" and short.cause == "stalls":
                survives = int(((short.last or {}).get("stalls") or {}).get("least_descriptors") or 0)
                chosen = [each for each in higher if each >= survives][:1] or higher[-1:]
            for value in chosen:
                machine = {**short.machine, name: value}
                machine = machine if name == "pool" else self._trials.fitted(machine)
                if self._trials.why_not(machine) is None:
                    yield machine

    def _least_ring(self, machine: Machine) -> int | None:
        """The least ring that the target is met with, by halving; None where rings changed: then it is the answer's."""
        if machine["rings"] != self._space.now["rings"]:
            return None
        values = [each for each in self._space.values["rings"] if each <= machine["rings"]]
        machines = [{**machine, "rings": each} for each in values]
        usable = [each for each in machines if self._trials.why_not(each) is None]
        if not usable:
            return None

        def meets(places: Sequence[int]) -> list[bool]:
            return self._first([usable[place] for place in places], "least ring")

        place = least(len(usable), meets, lambda: (len(usable) - 1) // 2)
        return None if place is None else usable[place]["rings"]


def _never() -> bool:
    return False


def least(
    count: int,
    meets: Callable[[Sequence[int]], list[bool]],
    guess: Callable[[], int],
    is_vain: Callable[[], bool] = _never,
) -> int | None:
    """The first of so many places that meets, where all behind one that meets do; None where none does.

    A guess and the place before it, or behind it where that is known, are asked for together: where the guess is right,
    that is all. `is_vain` says that no place behind those that were asked for meets.

    >>> asked = []
    >>> least(16, lambda places: [asked.append(each) or each >= 5 for each in places], lambda: 5), asked
    (5, [4, 5])
    """
    low, high, guessed = -1, count, guess()
    while high - low > 1 and not (high == count and is_vain()):
        middle = guessed if low < guessed < high else (low + high) // 2
        pair = (middle - 1, middle) if middle - 1 > low else (middle, middle + 1)
        places = [place for place in pair if low < place < high]
        for place, does in zip(places, meets(places), strict=True):
            if does:
                high = min(high, place)
            elif place < high:
                low = max(low, place)
        # What was learnt moves the guess; where it does not, the interval is halved.
        again = guess()
        guessed = again if again != guessed else -1
    return high if high < count else None


def limits(trial: Trial) -> Any:
    """What holds a machine back, as its verdict has it."""
    return ((trial.last or {}).get("verdict") or {}).get("limit")
