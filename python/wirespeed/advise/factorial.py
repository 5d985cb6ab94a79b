"""Two-level factorial designs of resolution IV, and what their runs say.

A factor's column is the product of an odd number of base columns. So a product of two factors is even and of three odd:
no main effect is confused with an interaction of two (Box and Hunter, Technometrics 1961; Wu and Hamada, "Experiments",
chapter 5). Interactions of two are confused among themselves; `aliases` says which.

The error of an effect comes from replications: what a contrast differs by from seed to seed, pooled over all contrasts.
It says how well the simulated effect is known, not how well the model fits a machine. Where replications see the same
packets (a capture in `traffic.rounds`), the error comes from `within`: the half-width of each response by
itself. Runs on the same packets are taken as independent there, so the intervals are wider than need be.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Runs = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Design:
    """Which factors are on in which run: `on[run, factor]`."""

    words: tuple[int, ...]
    """Of each factor the base columns that it is the product of, as bits."""
    on: npt.NDArray[np.bool_]

    @property
    def is_full(self) -> bool:
        """Whether every combination is among the runs."""
        return bool(len(self.on) == 1 << len(self.words))

    def aliases(self) -> list[list[tuple[int, int]]]:
        """Pairs of factors whose interactions cannot be told apart, in groups; one pair a group in a full design."""
        groups: dict[int, list[tuple[int, int]]] = {}
        for i, j in itertools.combinations(range(len(self.words)), 2):
            groups.setdefault(self.words[i] ^ self.words[j], []).append((i, j))
        return list(groups.values())


@dataclass(frozen=True, slots=True)
class Effect:
    """By how much the response changes from off to on, with its 95 % half-width."""

    value: float
    half_width: float

    @property
    def is_sure(self) -> bool:
        """Whether the interval leaves out zero."""
        return abs(self.value) > self.half_width


def fractional(factors: int) -> Design:
    """The smallest design of resolution IV (a full one up to four factors): 2^b runs for up to 2^(b-1) factors."""
    if factors <= 4:
        return full(factors)
    base = math.ceil(math.log2(factors)) + 1
    odd = [word for word in range(1, 1 << base) if word.bit_count() % 2]
    words = sorted(odd, key=lambda word: (word.bit_count(), word))[:factors]
    return _design(words, base)


def full(factors: int) -> Design:
    """Every combination; the first run has all off."""
    return _design([1 << i for i in range(factors)], factors)


def effects(
    design: Design,
    replications: Runs,
    products: Sequence[Sequence[int]],
    together: bool = False,
    within: Runs | None = None,
) -> list[Effect]:
    """Effects of products of factors (one factor: its main effect), on responses `replications[replication, run]`.

    An effect is the mean where the product is positive less where it is negative; of an interaction half of it, as is
    usual, so that effects of a model add up. `together`: that all intervals hold is 95 % sure (Bonferroni), for where
    products are picked by being sure; else each of them is. `within` are the 95 % half-widths of the responses `[run]`
    where replications say nothing.

    Of a single replication the error is Lenth's pseudo standard error, from all contrasts of the design, most of which
    are nothing (R. V. Lenth, "Quick and easy analysis of unreplicated factorials", Technometrics 31, 1989).
    """
    from scipy.special import ndtri, stdtrit

    signs = np.where(design.on, 1.0, -1.0)
    found = []
    for product in products:
        column = np.prod(signs[:, list(product)], axis=1)
        found.append(replications @ column * 2 / len(column))
    if not found:
        return []
    each = np.array(found)  # product, replication
    count = replications.shape[0]
    mean = each.mean(axis=1)
    outside = 0.025 / (len(found) if together else 1)
    if within is not None:
        wide = 2 / len(within) * math.sqrt(float((within**2).sum())) * float(ndtri(1 - outside) / ndtri(0.975))
        return [Effect(float(value), wide) for value in mean]
    contrasts = _all_contrasts(design, replications)
    if count < 2:
        error, degrees = _lenth(np.abs(contrasts[:, 0]))
        wide = float(stdtrit(degrees, 1 - outside)) * error if degrees >= 1 else math.inf
        return [Effect(float(value), wide) for value in mean]
    degrees = contrasts.shape[0] * (count - 1)
    variance = float(contrasts.var(axis=1, ddof=1).mean())
    wide = float(stdtrit(degrees, 1 - outside)) * math.sqrt(variance / count)
    return [Effect(float(value), wide) for value in mean]


def _lenth(sizes: Runs) -> tuple[float, float]:
    """The pseudo standard error of contrasts of these sizes, and its degrees of freedom."""
    first = 1.5 * float(np.median(sizes))
    small = sizes[sizes < 2.5 * first]
    return (1.5 * float(np.median(small)) if len(small) else 0.0), len(sizes) / 3


def moderated(variances: Runs, degrees: int) -> tuple[Runs, float]:
    """Variances of `degrees` degrees of freedom, each drawn towards what all share, and the degrees it has then.

    How far is estimated from how much they differ beyond chance: by the empirical Bayes method of G. K. Smyth, "Linear
    models and empirical Bayes methods for assessing differential expression in microarray experiments", Stat. Appl.
    Genet. Mol. Biol. 3, 2004, section 6. Variances of 0 are not among what it is estimated from.
    """
    from scipy.special import digamma, polygamma

    known = variances[variances > 0]
    half = degrees / 2
    if len(known) < _LEAST_KNOWN:
        return np.full_like(variances, variances.mean()), float(degrees * len(variances))
    logs = np.log(known) - digamma(half) + math.log(half)
    beyond = float(logs.var(ddof=1) - polygamma(1, half))
    if beyond <= 0:
        # They differ by no more than chance.
        return np.full_like(variances, known.mean()), float(degrees * len(known))
    prior = 2 * _inverse_trigamma(beyond)
    common = math.exp(float(logs.mean()) + float(digamma(prior / 2)) - math.log(prior / 2))
    return (prior * common + degrees * variances) / (prior + degrees), prior + degrees


def _inverse_trigamma(value: float) -> float:
    """By Newton's method, as in the appendix of Smyth's paper: it converges from there for every value."""
    from scipy.special import polygamma

    at = 0.5 + 1 / value
    for _ in range(_NEWTON_STEPS):
        trigamma = float(polygamma(1, at))
        at += trigamma * (1 - trigamma / value) / float(polygamma(2, at))
    return at


_LEAST_KNOWN: Final = 3
_NEWTON_STEPS: Final = 20


def _all_contrasts(design: Design, replications: Runs) -> Runs:
    """Every orthogonal contrast but the mean, by replication: all have the same error."""
    runs = len(design.on)
    base = runs.bit_length() - 1
    levels = (np.arange(runs)[:, None] >> np.arange(base)) & 1
    signs = 1.0 - 2.0 * levels
    rows = []
    for word in range(1, runs):
        column = np.prod(signs[:, [i for i in range(base) if word >> i & 1]], axis=1)
        rows.append(replications @ column * 2 / runs)
    return np.array(rows)


def _design(words: Sequence[int], base: int) -> Design:
    runs = 1 << base
    on = np.zeros((runs, len(words)), dtype=np.bool_)
    for run in range(runs):
        for factor, word in enumerate(words):
            # The product of columns that are -1 where the run's bit is not set; the first run has all off.
            off = word.bit_count() - (run & word).bit_count()
            on[run, factor] = off % 2 == 0
    return Design(tuple(words), on)
