"""What the room of 5GC2ache makes of its points; here they are made, and none is simulated."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wirespeed.papers import Measured
from wirespeed.papers.rooms import fivegc2ache_2024 as room

PIPELINE = Path(__file__).parents[2] / "papers" / "2024-5gc2ache" / "pipeline.toml"
EVERY = SimpleNamespace(wants=lambda claim: True, paper=room.PAPER)
PRINTED = room.PAPER.printed()
NONE = SimpleNamespace(wants=lambda claim: False)


def held(measured: Measured) -> dict[str, bool]:
    return {name: part.holds for name, part in measured.parts.items()}


def bed(monkeypatch: pytest.MonkeyPatch, run: Any) -> room.Testbed:
    """A testbed whose runs are `run(size, settings, words)`."""
    request: Any = SimpleNamespace(parameters=lambda name: tomllib.loads(PIPELINE.read_text()), seed=0)
    monkeypatch.setattr(room.Testbed, "_run", lambda self, size, settings, words, seed=None: run(size, settings, words))
    return room.Testbed(request)


def test_occupancy_of_the_llc_has_to_rise_and_others_to_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    of = bed(monkeypatch, lambda size, settings, words: {"llc_mib": len(words), "llc_others_mib": 0.4})
    by_load = dict(zip(of.loads(), (2.0, 3.0, 3.0, 9.0), strict=True))
    monkeypatch.setattr(
        of, "occupancy", lambda mbps: {"llc_mib": by_load[mbps], "llc_others_mib": 0.6 if mbps == 50 else 0.4}
    )
    drawn: list[Any] = []
    found = room.occupancy(EVERY, of, drawn)  # type: ignore[arg-type]
    assert (found["occupancy_low"].ours, found["occupancy_high"].ours) == (2.0, 9.0)
    assert held(found["occupancy_low"]) == {"": True}
    assert held(found["occupancy_rises"]) == {"5 < 50": True, "50 < 500": False, "500 < 5000": True}
    # 500,000 bytes are 0.48 MiB.
    assert held(found["occupancy_others"]) == {
        "5 Mbit/s": True, "50 Mbit/s": False, "500 Mbit/s": True, "5000 Mbit/s": True
    }  # fmt: skip
    assert [figure.name for figure in drawn] == ["fig6"]
    assert room.occupancy(NONE, of, drawn) == {}  # type: ignore[arg-type]


def test_a_point_of_occupancy_lasts_as_long_as_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run(size: int, settings: Any, words: str) -> room.Point:
        asked.append(settings)
        return {"llc_mib": 1.0, "llc_others_mib": 0.1}

    of = bed(monkeypatch, run)
    for mbps in (5.0, 5000.0, 5.0):
        assert of.occupancy(mbps)["mbps"] == mbps
    assert len(asked) == 2
    # 5000 Mbit/s of 1500 B are 416,667 packets a second.
    assert asked[1]["run.packets"] == pytest.approx(1.05 * 416_667, rel=1e-5)
    assert asked[0]["run.packets"] == 1000


def test_the_allocator_rests_in_two_states_with_one_number_of_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    def interval(place: int, state: str, ways: int) -> dict[str, Any]:
        return {"at_ns": 1e5 * place, "io_ways": ways, "state": state}

    searches = [interval(place, "DDIO", place % 7) for place in range(10)]
    rests = [interval(10 + place, room.AIMS[place % 2], 5) for place in range(10)]
    runs: list[Any] = []

    def run(size: int, settings: Any, words: str) -> room.Point:
        runs.append(settings)
        return {"gbps": 50.0, "steered": searches + rests}

    of = bed(monkeypatch, run)
    drawn: list[Any] = []
    found = room.states(EVERY, of, drawn)["rests"]  # type: ignore[arg-type]
    assert held(found) == {"no bottleneck or balance": True, "one number of ways": True}
    assert "100 ± 0 % in these states, 100 ± 0 % with one number of ways (5, 5, 5)" in found.note
    assert [figure.name for figure in drawn] == ["fig12"]
    # Each seed is among the points, once, without its intervals.
    assert of.steered()["steered"] == searches + rests
    assert len(runs) == of.allocator_seeds == 3
    assert of.points() == [{"case": "default, allocator", "gbps": 50.0}] * 3
    # The other way round it searches to the end.
    monkeypatch.setattr(of, "steered", lambda place: {"steered": rests + searches})
    found = room.states(EVERY, of, drawn)["rests"]  # type: ignore[arg-type]
    assert held(found) == {"no bottleneck or balance": False, "one number of ways": False}
    # One seed of three that rests by chance is not enough: the half-width over seeds is larger than the margin.
    monkeypatch.setattr(of, "steered", lambda place: {"steered": searches + rests if place else rests + searches})
    found = room.states(EVERY, of, drawn)["rests"]  # type: ignore[arg-type]
    assert held(found) == {"no bottleneck or balance": False, "one number of ways": False}
    assert room.states(NONE, of, drawn) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(("fewer", "holds"), [(1.0, True), (1.059, True), (1.07, False)])
def test_fewer_mbufs_may_lose_as_much_as_many_and_a_twentieth_more(
    fewer: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = bed(monkeypatch, lambda size, settings, words: {"loss_pct": fewer if "mempool.size" in settings else 1.0})
    only: Any = SimpleNamespace(wants=lambda claim: claim == "loss_m16384")
    found = room.descriptors(only, of, [])
    assert set(found) == {"loss_m16384"}
    assert (found["loss_m16384"].ours, held(found["loss_m16384"])) == (fewer, {"": holds})
    assert "1 % with 262140 mbufs" in found["loss_m16384"].note
    assert len(of.points()) == 2


def test_what_was_simulated_is_drawn_by_case(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(size: int, settings: Any, words: str) -> room.Point:
        states = {f"mbufs_{state}": 10.0 for state in ("descriptors", "queued", "sending", "free")}
        rates = {"rx_miss_pct": None if size == 64 else 5.0, "tx_miss_pct": 4.0, "ddio_write_miss_pct": None}
        return {"gbps": 50.0, "memory_gb_s": 9.0, "pool": settings.get("mempool.size", 262140), **rates, **states}

    of = bed(monkeypatch, run)
    assert room.by_case(of, PRINTED) == []
    of.point("default")
    # Three measures of one case, but no line of one point.
    assert [figure.name for figure in room.by_case(of, PRINTED)] == ["fig15"]
    for case in ("d512", "m16384", "all"):
        of.point(case)
    of.point("default", 64)
    # Isolation of the default with other ways is another figure's.
    of.point("default", room.LARGEST, 3)
    found = {figure.name: figure for figure in room.by_case(of, PRINTED)}
    assert set(found) == {"fig9a", "fig10a", "fig10c", "fig15", "fig16", "fig18a"}
    assert len(of.points()) == 6
    # The paper's own numbers stand in the figure, whether or not the case was run.
    rows = [row for rows in found["fig15"].chart.to_dict()["datasets"].values() for row in rows]
    assert (2, PRINTED["rx_miss_resq"]) in {(row["x"], row["y"]) for row in rows}


def test_what_is_not_known_is_left_out_of_means() -> None:
    assert room._percent(None) is None
    assert room._percent(0.25) == 75.0
    assert room._mean([1.0, None, 3.0]) == 2.0


def test_which_number_of_ways_is_best_is_known_as_far_as_others_are_slower() -> None:
    def point(gbps: float, half_width: float) -> room.Point:
        return {"gbps": gbps, "gbps_half_width": half_width}

    clear = {2: point(50, 0.1), 5: point(60, 0.1), 6: point(59, 0.1), 8: point(52, 0.1)}
    assert room._best(clear) == (5, 0)
    # 0.03 % apart with half-widths of 0.13 %: a plateau.
    plateau = {4: point(30.00, 0.04), 6: point(30.01, 0.04), 7: point(30.01, 0.04), 8: point(29.0, 0.04)}
    assert room._best(plateau) == (6, 2)


def test_a_step_of_the_order_that_is_within_the_noise_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    gbps = dict(zip(room.ORDER, (54.5, 63.6, 66.8, 67.6, 75.3, 75.4), strict=True))
    of = bed(monkeypatch, lambda *_: {})
    monkeypatch.setattr(of, "point", lambda case, *_: {"gbps": gbps[case], "gbps_half_width": 0.2})
    only: Any = SimpleNamespace(wants=lambda claim: claim in {"order", "over_resq", "gbps_all_allocator"})
    steady = [{"at_ns": 1.0, "io_ways": 5, "state": "balance"}]
    monkeypatch.setattr(
        of, "steered", lambda place, case: {"steered": steady, "gbps_settled": gbps[case] + 0.1 * (place - 1)}
    )
    steps = list(held(room.cases(only, of)["order"]).values())
    assert steps == [True, True, True, True, False]
    over = room.gains(only, of)["over_resq"]
    assert over.ours == pytest.approx(100 * (75.4 / 63.6 - 1))
    # 0.25 of three seeds and 0.2 of ResQ's.
    assert over.half_width == pytest.approx(0.54, abs=0.01)
    own = room.allocated(only, of)["gbps_all_allocator"]
    assert (own.ours, own.note) == (pytest.approx(75.4), "with 5, 5, 5 I/O ways most of the time")


def test_misses_by_ways_fall_at_the_receiver_and_are_not_least_at_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    def point(case: str, size: int = room.LARGEST, ways: int | None = None) -> room.Point:
        return {
            "rx_miss_pct": 60.0 if ways is None else 60 - 4.0 * ways,
            "tx_miss_pct": 30.0 if ways is None else 4.0 * ways,
        }

    of = bed(monkeypatch, lambda *_: {})
    monkeypatch.setattr(of, "point", point)
    drawn: list[Any] = []
    found = room.misses_by_ways(EVERY, of, drawn)  # type: ignore[arg-type]
    assert (found["rx_fall_ways"].ours, found["tx_fall_ways"].ours) == (pytest.approx(100 / 3), pytest.approx(100 / 3))
    assert all(held(found["rx_by_ways"]).values())
    assert all(held(found["tx_by_ways"]).values())
    assert [figure.name for figure in drawn] == ["fig19b"]
