"""Packet buffers on the command line: rows touched, the comparison on DRAM of today, and a paper's run in small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wirespeed import InputError, _wirespeed, buffers
from wirespeed.papers import find

CALIBRATION = {
    "t_rp": 2,
    "t_rcd": 4,
    "handshake": 180,
    "drain_ns": 1500,
    "in_flight": 100,
    "receive_slots": 3,
}


def test_frontiers_touch_fewer_rows_than_stacks_and_the_heat_map_shows_all_four(tmp_path: Path) -> None:
    found = buffers.rows_touched("edge", 16, packets=3000)
    rows = {each["allocation"]: each["rows_input"] for each in found["allocations"]}
    assert rows["linear"] < rows["piecewise"] < rows["cells"]
    svg = buffers.heat_map(found)
    assert svg.startswith("<svg")
    assert all(name in svg for name in ("fixed", "cells", "linear", "piecewise"))


def test_a_scenario_stands_for_its_traffic(tmp_path: Path) -> None:
    scenario = tmp_path / "mine.toml"
    scenario.write_text('[traffic]\nprofile = "imix"\n', encoding="utf-8")
    assert buffers.traffic_of(str(scenario)) == "imix"
    assert buffers.traffic_of("edge") == "edge"


def test_today_a_frontier_beats_shuffled_cells_where_many_ports_share_a_channel() -> None:
    found = buffers.compare(memories=["ddr4-3200aa"], orders=["fr-fcfs"], blocks=[1], seeds=1, requests=20_000)
    gain = {row["allocation"]: row["gain_over_cells_pct"] for row in found["rows"]}
    assert gain["cells"] == 0
    assert gain["linear"] > 20
    assert gain["piecewise"] > 20


def test_the_same_seed_gives_the_same_run() -> None:
    runs = [{"application": "nat", "system": "all-pf", "banks": 4, "traffic": "packmime"}]
    spec = {
        "calibration": CALIBRATION,
        "runs": runs,
        "packets": 2000,
        "warm_up": 500,
        "trace_packets": 2000,
        "seeds": 2,
    }
    first, again = (json.loads(_wirespeed.study_network_processor(json.dumps(spec))) for _ in range(2))
    assert first == again
    assert first["runs"][0]["gbps"]["mean"] > 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"longest": "1000 B"}, "1500 bytes: allowed is 1 to 1000 bytes"),
        ({"banks": 3}, "banks = 3"),
        ({"traffic": "fixed=9"}, "fixed=9"),
        ({"buffer": "64 KiB", "system": "adapt"}, "buffer.size = 4 KiB a queue"),
    ],
)
def test_what_cannot_be_is_refused_with_both_numbers(change: dict[str, object], words: str) -> None:
    run = {"application": "l3fwd16", "system": "p-alloc", "banks": 4, "traffic": "edge"} | change
    spec = {"calibration": CALIBRATION, "runs": [run], "trace_packets": 500, "seeds": 1}
    with pytest.raises(InputError, match=words.replace("[", r"\[")):
        _wirespeed.study_network_processor(json.dumps(spec))


def test_every_claim_of_the_paper_has_a_tolerance_or_is_a_trend() -> None:
    rows = find("2003-isca-hasan").expected()
    assert len(rows) > 70
    assert sum(row.unit == "Gbps" for row in rows) == 38
    assert all(row.kind.value != "predicted" for row in rows if row.id.startswith("l3fwd16") and row.id.endswith("-2"))
