"""Closed forms of queues beside SciPy and Ciw, and their errors."""

from __future__ import annotations

import math

import pytest

from wirespeed import queueing
from wirespeed.errors import InputError

NO_SCIPY = "SciPy is not installed (pip install scipy)"
NO_CIW = "Ciw is not installed (pip install ciw)"


@pytest.mark.parametrize(("lambda_", "servers"), [(0.5, 1), (5.0, 10), (25.2, 28), (900.0, 1000)])
def test_loss_without_room_is_the_truncated_poisson_distribution_of_scipy(lambda_: float, servers: int) -> None:
    poisson = pytest.importorskip("scipy.stats", reason=NO_SCIPY).poisson
    exact = poisson.pmf(servers, lambda_) / poisson.cdf(servers, lambda_)
    assert queueing.mmck(lambda_, 1.0, servers, servers)["blocking"] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("exponential", [False, True])
@pytest.mark.parametrize("reading", ["as-printed", "fitted"])
def test_the_fixed_point_of_the_memory_model_is_that_of_scipy(reading: str, multi: bool, exponential: bool) -> None:
    optimize = pytest.importorskip("scipy.optimize", reason=NO_SCIPY)
    settings = {"multi": multi, "exponential": exponential}

    def excess(cpi: float) -> float:
        return 1.0 + float(queueing.memory(reading, **settings, cpi=cpi)["fcp"]) - cpi

    found = queueing.memory(reading, **settings)
    # Memory saturates at 7.2 clocks or 3.6 an instruction.
    low = 7.2 if reading == "as-printed" else 3.6
    assert found["cpi"] == pytest.approx(optimize.brentq(excess, low * (1 + 1e-9), 1e3, xtol=1e-12), rel=1e-9)


@pytest.mark.parametrize(
    ("name", "lambda_", "servers", "capacity"),
    [("M/M/1", 0.6, 1, math.inf), ("M/M/3", 2.1, 3, math.inf), ("M/M/2/5", 1.8, 2, 3)],
)
def test_ciw_simulates_what_the_closed_forms_say(name: str, lambda_: float, servers: int, capacity: float) -> None:
    ciw = pytest.importorskip("ciw", reason=NO_CIW)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(lambda_)],
        service_distributions=[ciw.dists.Exponential(1.0)],
        number_of_servers=[servers],
        queue_capacities=[capacity],
    )
    means = []
    for seed in range(8):
        ciw.seed(seed)
        simulation = ciw.Simulation(network)
        simulation.simulate_until_max_time(4_000)
        records = [r for r in simulation.get_all_records() if r.record_type == "service" and r.arrival_date > 200]
        means.append(sum(r.waiting_time + r.service_time for r in records) / len(records))
    mean = sum(means) / len(means)
    deviation = math.sqrt(sum((m - mean) ** 2 for m in means) / (len(means) - 1))
    # Student's t of 7 degrees at 99.9 %: 5.41.
    half_width = 5.41 * deviation / math.sqrt(len(means))
    if math.isinf(capacity):
        exact = queueing.mmc(lambda_, 1.0, servers)["w"]
    else:
        exact = queueing.mmck(lambda_, 1.0, servers, servers + int(capacity))["w"]
    assert abs(mean - exact) <= half_width, f"{name}: {mean} +- {half_width} for {exact}"
    assert half_width < 0.12 * exact


def test_priorities_and_closed_networks_have_textbook_values() -> None:
    waits = queueing.priority([(0.2, 1.0, 1.0), (0.3, 1.0, 1.0)], preemptive=False)
    assert [w["w_q"] for w in waits] == pytest.approx([0.625, 1.25])
    assert queueing.mva([(4.0, 0), (1.0, 1)], 1)["throughput"] == pytest.approx(0.2)
    assert queueing.mmc_priority([0.5], 1.0, 1)[0]["w"] == pytest.approx(queueing.mm1(0.5, 1.0)["w"])
    assert queueing.md1(0.8, 1.0)["w_q"] == pytest.approx(queueing.mg1(0.8, 1.0, 0.0)["w_q"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cpi": 6.0}, "U of memory = 1.2 at CPI 6: must be below 1"),
        ({"mr2": -0.01}, "mr2 = -0.01: must be a finite number of 0 or more"),
        ({"mr2": 0.2}, "mr2 = 0.2: L2 cannot miss more often than L1 does, mr1 = 0.1"),
        ({"hro1": 0.75, "multi": True}, "= 1.05: the shares of L1 misses"),
        ({"mr3": 1.0}, "memory: no parameter `mr3`: allowed are cpi_inf"),
        ({"mr1": float("nan")}, "mr1 = nan: must be a finite number"),
        ({"reading": "as-written"}, "memory: reading `as-written`: allowed are as-printed and fitted"),
    ],
)
def test_what_cannot_be_is_an_error_with_the_computed_value(settings: dict[str, float | bool], words: str) -> None:
    with pytest.raises(InputError, match=words.replace(".", r"\.")):
        queueing.memory(**settings)  # type: ignore[arg-type]


def test_an_unstable_queue_is_an_error() -> None:
    with pytest.raises(InputError, match=r"rho = 1\.5"):
        queueing.mm1(1.5, 1.0)
