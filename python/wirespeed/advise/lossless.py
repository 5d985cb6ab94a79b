"""The highest rate without loss of many sets of techniques at a time, on the same packets.

The search of `run.search` begins at line rate and halves, which behind a port that is much faster than the machine
spends most trials far from the answer. Here each set begins near the rate that it carries at saturation, goes up or
down in growing steps until one rate passes and one does not, and halves (by ratio) what lies between. All sets try at
the same time, so that every round keeps all processes busy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

STEP: Final = 1.15
"""The first step up or down from a rate at saturation: what comes without loss may lie above it, as overload has
buffers leave the caches, or below."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """Where one search is. Rates are in Mpps."""

    guess: float
    step: float
    passed: float = 0.0
    failed: float = math.inf

    def after(self, rate: float, passes: bool) -> Bracket:
        """After a trial at `rate`. Steps grow, as a guess that was far off is better left fast."""
        passed, failed = (rate, self.failed) if passes else (self.passed, rate)
        beside = passed > 0.0 and failed < math.inf
        return Bracket(self.guess, self.step if beside or rate == self.guess else self.step**2, passed, failed)

    def next(self, within: float, floor: float, top: float) -> float | None:
        """The next rate to try; None where the answer is known to the share `within`, or lies beyond floor or top."""
        if self.passed >= top or self.failed <= floor or self.failed <= self.passed * (1 + within):
            return None
        if self.passed == 0.0 and self.failed == math.inf:
            rate = self.guess
        elif self.passed == 0.0:
            rate = self.failed / self.step
        elif self.failed == math.inf:
            rate = self.passed * self.step
        else:
            rate = math.sqrt(self.passed * self.failed)
        return min(max(rate, floor), top)


def highest(
    trial: Callable[[int, Mapping[int, float]], Mapping[int, bool]],
    guesses: Sequence[float],
    step: float,
    within: float,
    floor: float,
    top: float,
) -> list[float]:
    """The highest rate of each set that passes, to the share `within`.

    Rates are from `floor` to `top`; 0 where not even the floor passes. `trial(round, rates by set)` says which pass.
    """
    states = [Bracket(min(max(guess, floor), top), step) for guess in guesses]
    rounds = 0
    while True:
        rates = {place: state.next(within, floor, top) for place, state in enumerate(states)}
        tried = {place: rate for place, rate in rates.items() if rate is not None}
        if not tried:
            return [state.passed for state in states]
        rounds += 1
        passes = trial(rounds, tried)
        for place, rate in tried.items():
            states[place] = states[place].after(rate, passes[place])
