"""Closed forms of queues, in Kendall's notation, closed networks, and CPI as a fixed point.

All are evaluated in Rust (`crates/queueing`). Rates are per one unit of time, in which waits come out. Raises
InputError with the computed value where a queue has no steady state.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from wirespeed import _wirespeed
from wirespeed.errors import InputError

__all__ = ["md1", "memory", "mg1", "mm1", "mmc", "mmc_priority", "mmck", "mva", "priority"]


def _ask(model: str, **parameters: Any) -> Any:
    for name, value in parameters.items():
        _check(name, value)
    return json.loads(_wirespeed.queueing_model(json.dumps({"model": model, **parameters})))


def _check(name: str, value: Any) -> None:
    """JSON has no way to write what is not finite."""
    if isinstance(value, Mapping):
        for inner, each in value.items():
            _check(inner, each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _check(name, each)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} = {value}: must be a finite number")


def mm1(lambda_: float, mu: float) -> dict[str, float]:
    """M/M/1: rho, w_q (mean wait), w (mean sojourn), l_q and l (mean numbers).

    >>> mm1(0.9, 1.0)["w"]
    10.000000000000002
    """
    return dict(_ask("mm1", **{"lambda": lambda_}, mu=mu))


def md1(lambda_: float, mu: float) -> dict[str, float]:
    """M/D/1, as `mm1`."""
    return dict(_ask("md1", **{"lambda": lambda_}, mu=mu))


def mg1(lambda_: float, mu: float, scv: float) -> dict[str, float]:
    """M/G/1 with service times of squared coefficient of variation `scv`, as `mm1`."""
    return dict(_ask("mg1", **{"lambda": lambda_}, mu=mu, scv=scv))


def mmc(lambda_: float, mu: float, servers: int) -> dict[str, float]:
    """M/M/c, as `mm1`."""
    return dict(_ask("mmc", **{"lambda": lambda_}, mu=mu, servers=servers))


def mmck(lambda_: float, mu: float, servers: int, capacity: int) -> dict[str, float]:
    """M/M/c/K: rho, blocking (share lost), w_q, w, l."""
    return dict(_ask("mmck", **{"lambda": lambda_}, mu=mu, servers=servers, capacity=capacity))


def priority(classes: Sequence[tuple[float, float, float]], *, preemptive: bool) -> list[dict[str, float]]:
    """M/G/1 with priorities: classes (lambda, mu, scv), the first goes first; w_q, w and l of each."""
    return list(_ask("priority", classes=list(classes), preemptive=preemptive))


def mmc_priority(lambdas: Sequence[float], mu: float, servers: int) -> list[dict[str, float]]:
    """M/M/c with priorities and without preemption, as `priority`."""
    return list(_ask("mmcpriority", lambdas=list(lambdas), mu=mu, servers=servers))


def mva(stations: Sequence[tuple[float, int]], customers: int, *, approximate: bool = False) -> dict[str, Any]:
    """A closed network by mean value analysis: stations (demand, servers), 0 servers for a delay.

    Returns throughput, cycle (mean time of a round), and residence, l and rho of each station.
    """
    return dict(_ask("mva", stations=list(stations), customers=customers, approximate=approximate))


def memory(
    reading: str = "as-printed", *, multi: bool = False, exponential: bool = False, **parameters: float
) -> dict[str, Any]:
    """Finite cache penalty and CPI of Duarte and Wong (IEEE TC 2010), equations 1 to 16; table 6 but for `parameters`.

    Reading "as-printed" or "fitted". Parameters: cpi_inf t_cpu mr1 mr2 s_2 s_main hro1 fe co te cpus l1_line l2_line,
    shares of 1 and clocks; `cpi` evaluates the equations there in place of solving them. Returns cpi, fcp, t_total,
    evaluations, and u, t and q of each server. Raises InputError for U >= 1, mr2 > mr1 and HRO1 + mr2 / mr1 > 1.

    >>> round(memory()["fcp"], 6)
    12.444996
    """
    return dict(_ask("memory", reading=reading, multi=multi, exponential=exponential, parameters=parameters))
