"""The model's error in verdicts: who is a measured neighbour, how near an answer is, and the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import wirespeed
from wirespeed import summary
from wirespeed.accuracy import accuracy, judging

PARTS = {
    "machine.processor": "xeon-gold-6140",
    "nic.model": "connectx-5",
    "nic.driver": "mlx5",
    "function.program": "l2fwd",
    "machine.cores": 1,
}


def run(scenario: str = "forwarding-64b", **settings: Any) -> dict[str, Any]:
    made = PARTS | {"run.packets": 20_000, "run.curve": []} | {n.replace("__", "."): v for n, v in settings.items()}
    found = wirespeed.run(scenario, set={name: value for name, value in made.items() if value is not None})
    return dict(found.summary)


def of_kind(found: dict[str, Any], kind: str) -> dict[str, Any]:
    (only,) = [each for each in found["verdict"]["model_errors"] if each["kind"] == kind]
    return dict(only)


@pytest.fixture(scope="module")
def overload() -> dict[str, Any]:
    return run(traffic__load=1)


def test_overload_names_the_core_and_what_a_server_would_carry(overload: dict[str, Any]) -> None:
    verdict, rate = overload["verdict"], of_kind(overload, "rate")
    assert (verdict["status"], verdict["limit"], verdict["headroom"]) == ("loses", "core", None)
    assert rate["shared"] == ["core skylake-sp", "driver mlx5"]
    assert rate["rows"] >= 20
    assert rate["low"] < rate["high"]
    # An eighth of line rate is far beyond what the model is off.
    assert verdict["beyond_model_error"] is True
    last = verdict["reasons"][-1]
    assert last.startswith("Model's error on measured servers: rates ")
    low, high = (overload["carried_mpps"] / (1 + rate[end]) for end in ("high", "low"))
    said = last.split("A server would carry ")[1].split(" Mpps")[0].split(" to ")
    assert [float(each) for each in said] == pytest.approx([low, high], rel=6e-3)


def test_less_left_than_the_error_is_said_and_is_not_green(overload: dict[str, Any]) -> None:
    capacity = overload["carried_mpps"]
    near, far = (run(traffic__packet_rate=f"{share * capacity} Mpps")["verdict"] for share in (0.97, 0.15))
    high = of_kind(overload, "rate")["high"]
    assert near["headroom"] < high < far["headroom"]
    assert (near["status"], near["beyond_model_error"], far["beyond_model_error"]) == ("carries", False, True)
    assert near["headline"].startswith("By less than the model's error: carries")
    assert far["headline"].startswith("Carries")
    told = [{"packets": 1, "verdict": each} for each in (near, far)]
    assert [summary.holds(each) for each in told] == [False, True]  # type: ignore[arg-type]
    # Below line rate neither is a yes; at line rate what is near its limit is none either.
    assert [summary.mark(each).tone for each in told] == ["open", "open"]  # type: ignore[arg-type]
    at_line_rate = [{"packets": 1, "verdict": {**each, "status": "line_rate"}} for each in (near, far)]
    assert [summary.mark(each).tone for each in at_line_rate] == ["open", "good"]  # type: ignore[arg-type]


def test_short_bursts_leave_open_how_near_it_is(overload: dict[str, Any]) -> None:
    verdict = run(traffic__packet_rate=f"{0.6 * overload['carried_mpps']} Mpps")["verdict"]
    assert (verdict["status"], verdict["beyond_model_error"]) == ("carries", None)
    assert verdict["headroom"] < 0.01
    assert any("is never idle" in reason for reason in verdict["reasons"])
    assert any("at least" in reason and "since bursts of" in reason for reason in verdict["reasons"])
    assert not any("saturated" in advice for advice in verdict["advice"])


@pytest.mark.parametrize(
    ("settings", "shared"),
    [
        # Cascade Lake has Skylake's core.
        ({"machine__processor": "xeon-gold-6248r"}, ["core skylake-sp", "driver mlx5"]),
        # Nobody measured Zen 2 here; the driver is still the same.
        ({"machine__processor": "epyc-7402p"}, ["driver mlx5"]),
        # A core that the scenario changes is of no server.
        ({"machine__core__cpi": 0.5}, ["driver mlx5"]),
        ({"machine__core__cpi": 0.5, "nic__driver": None, "function__program": None}, []),
    ],
)
def test_neighbours_share_the_core_or_else_the_driver(settings: dict[str, Any], shared: list[str]) -> None:
    found = run(traffic__load=1, **settings)
    rate = of_kind(found, "rate")
    assert rate["shared"] == shared
    if not shared:
        assert (rate["rows"], rate["low"], rate["high"]) == (0, None, None)
        assert found["verdict"]["beyond_model_error"] is None
        assert "no measured neighbour for rates" in found["verdict"]["reasons"][-1]


def test_errors_by_parts_are_those_of_rows_that_count(tmp_path: Path) -> None:
    quick = "run.packets=2000; run.warmup=1000; traffic.load=1; machine.cores=1; function.forward.prefixes=500"
    row = {"source": "lab", "machine": "xeon-gold-6140; driver=mlx5", "set": quick, "kind": "rate", "measured": 10}
    rows = [
        row | {"case": "one", "metric": "carried_mpps"},
        row | {"case": "fitted", "metric": "carried_mpps", "fitted": "cpi"},
        row | {"case": "ratio", "metric": "carried_mpps relative to one"},
        row | {"case": "unknown", "metric": "nothing"},
    ]
    found = accuracy(rows)
    (told,) = json.loads(judging.errors_by_parts(found))
    assert told == {
        "source": "lab",
        "core": "skylake-sp",
        "nic": "100g",
        "driver": "mlx5",
        "kind": "rate",
        "limit": "core",
        "error": round(found["rows"][0]["error"], 1),
    }
