"""What the rooms of papers make of numbers: kinds that are no evidence, noise that is no trend. Nothing is run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from wirespeed.papers import Kind, Measured, find, papers
from wirespeed.papers.rooms import duarte_2010, hasan_2003, korikawa_2020

# Rows that follow from other rows, from the paper's own numbers, or from the program's own making.
NO_EVIDENCE = {
    "2003-isca-hasan": {
        # Table 11 is twice the throughput over 6.4 Gbps; an ideal DRAM has no banks, so 4 repeat the fitted 2.
        **{f"utilization-{a}-{s}": "dependent" for a in hasan_2003.APPLICATIONS for s in ("ref-base", "all-pf")},
        "l3fwd16-ref-ideal-4": "dependent",
        "l3fwd16-ideal-plus-4": "dependent",
        "rms-4": "dependent",
        "gain-nat-all-pf-4": "dependent",
    },
    "2010-tc-duarte": {
        "fe-no-reads": "arithmetic",
        "fe-reads": "arithmetic",
        "area-line-16": "arithmetic",
        "area-line-128": "arithmetic",
        "area-ways": "arithmetic",
        "fcp-single": "in-sample",
        "index-hits-none": "identity",
    },
    "2011-dac-hermes": {
        "delay-cut": "dependent",
        "variance-cut": "dependent",
        "delay-most": "dependent",
        "variance-like-delay": "dependent",
        "storage": "arithmetic",
    },
    "2020-access-korikawa": {
        "throughput-proposed": "in-sample",
        "blocking-proposed": "dependent",
        "latency-cut-none": "dependent",
        "throughput-gain-shared": "dependent",
        "blocking-cut-none": "dependent",
    },
    "2024-5gc2ache": {
        "leakage_falls": "arithmetic",
        "resq_ring": "arithmetic",
        "mbufs_add_up": "identity",
        "mbufs_empty": "identity",
        "sizes": "identity",
        "descriptors_inside": "dependent",
    },
}
JUDGED = {
    "2003-isca-hasan": ["gain-l3fwd16-batch-4", "gain-l3fwd16-prev-pf-4"],
    "2010-tc-duarte": [
        "write-hit-sw-reads", "write-hit-hw-reads", "cycles-sw", "cycles-hw", "rival-sync", "rival-async", "payload",
        "fe-simulated", "stream-unrolled", "messages", "messages-cpi", "cpus-rise", "cpus-help", "fcp-chain",
        "mr2-falls",
    ],
    "2020-access-korikawa": ["line-hits-fall", "entries-flatten-throughput", "skip-as-none"],
    "2024-5gc2ache": ["over_resq", "memory_drop"],
}  # fmt: skip


@pytest.mark.parametrize("id", NO_EVIDENCE)
def test_what_is_no_evidence_is_listed(id: str) -> None:
    rows = {row.id: row for row in find(id).expected()}
    assert {row: rows[row].kind.value for row in NO_EVIDENCE[id]} == NO_EVIDENCE[id]
    assert not any(rows[row].kind.is_counted for row in NO_EVIDENCE[id])


@pytest.mark.parametrize("id", JUDGED)
def test_what_is_computed_is_judged(id: str) -> None:
    rows = {row.id: row for row in find(id).expected()}
    assert all(rows[row].kind.is_counted for row in JUDGED[id])


def test_nobody_who_has_seen_a_number_calls_it_predicted() -> None:
    for paper in papers():
        for real_size in {False, paper.real_size}:
            assert not [row.id for row in paper.expected(real_size) if row.kind is Kind.predicted], paper.id


def test_all_three_says_that_its_ways_are_fixed() -> None:
    three = next(row for row in find("2024-5gc2ache").expected() if row.id == "gbps_all")
    assert "in place of the allocator" in three.claim


def mean(value: float, half_width: float | None = 0.0) -> dict[str, Any]:
    return {"mean": value, "half_width": half_width}


def batches(writes: float, reads: float, half_width: float) -> dict[str, Measured]:
    """Figure 5 of Hasan, where batches of 4 have grown so many times."""
    first = {"gbps": mean(2.19), "batch_writes": mean(1.0), "batch_reads": mean(1.0)}
    last = {"gbps": mean(2.18), "batch_writes": mean(writes, half_width), "batch_reads": mean(reads, half_width)}
    return hasan_2003.figure5({1: first, 2: last, 4: last, 8: last})


def test_batches_that_grow_alike_do_not_grow_faster() -> None:
    # Seeds 1, 2 and 4 had it the other way round by as little.
    equal = batches(2.79013, 2.79, 0.022)["figure5-batches"]
    assert isinstance(equal.holds, hasan_2003.Part)
    assert (equal.holds.holds_loosely, equal.holds.holds, equal.holds.is_undecided) == (True, False, True)
    faster = batches(2.5, 1.1, 0.022)["figure5-batches"]
    assert isinstance(faster.holds, hasan_2003.Part)
    assert faster.holds.holds


def test_a_speed_up_of_short_sessions_is_judged_by_what_it_is() -> None:
    clocks = {"loads": 600.0, "table": 100.0}
    found: Any = {(m, False): {"clocks_per_item": c} for m, c in (("loads", 400.0), ("table", 100.0))}
    bench: Any = SimpleNamespace(
        parameters={"short": {}}, receive=lambda method, **_: {"clocks_per_item": clocks[method]}
    )
    short = duarte_2010.sessions(bench, found)["speedup-short"]
    assert (short.ours, short.held) == (6.0, (1, 1))
    clocks["loads"] = 300.0
    assert duarte_2010.sessions(bench, found)["speedup-short"].held == (0, 1)


def test_the_three_rows_of_area_take_one_entry() -> None:
    request: Any = SimpleNamespace(parameters=lambda _: {"table5": {
        "instructions": [1, 1], "source_writes": [0, 0], "target_writes": [0, 0]
    }})  # fmt: skip
    found = duarte_2010.hardware(request).measured
    assert found["area-line-16"].ours == pytest.approx(31.2, abs=0.1)
    assert found["area-line-128"].ours == pytest.approx(4.04, abs=0.01)
    assert "20.1 % with the entry of section 1.1" in found["area-line-16"].note


def test_a_payload_that_matters_is_found() -> None:
    faster = {1024: 1.82, 512: 1.47, 1400: 1.86}
    bench: Any = SimpleNamespace(
        parameters={"sensitivity": {"packets": 1}, "payloads": {"usual": 1024, "others": [512, 1400], "within": 0.1}},
        receive=lambda method, *, reads, packets: {
            "clocks_per_item": faster[packets["payload"]] if method == "loads" else 1.0
        },
    )
    parts = duarte_2010.payloads(bench)["payload"].parts
    assert {name: part.holds for name, part in parts.items()} == {"512 B": False, "1400 B": True}


def test_writes_are_few_only_where_they_are_as_few_as_the_papers() -> None:
    table4 = {"copies": 100_000, "writes": 224}
    for touched, holds in ((3_060, False), (44, True), (90, False), (20, False)):
        (part,) = duarte_2010.few_writes(touched, 20_000, table4).values()
        assert part.holds is holds, touched


def ran(instructions: int, fills: int, lines: int, **more: int) -> dict[str, Any]:
    """A receiver of ten packets that misses L1 30 times."""
    counts = {"loads": 400, "load_hits": 380, "stores": 100, "store_hits": 90, "fills": fills, "lines_by_table": lines}
    counts |= {"touched": 0, **more}
    clocks = 5 * instructions
    return {
        "counts": counts, "instructions": instructions, "items": 10, "clocks": clocks, "clocks_per_item": clocks / 10
    }  # fmt: skip


def test_what_the_simulation_returns_goes_into_the_equations() -> None:
    assert duarte_2010.returned(ran(1000, 5, 20, touched=2)) == {"mr1": 0.05, "mr2": 0.005, "fe": 0.002}
    software, table = ran(2000, 20, 0), ran(1000, 5, 20)
    found: Any = {(m, reads): of for m, of in (("loads", software), ("table", table)) for reads in (False, True)}
    measured, rows = duarte_2010.chain(found)
    # Misses of L2 fall from 1 to 0.5 % an instruction: equations 1 to 5 say that FCP falls.
    assert measured["mr2-falls"].held == (2, 2)
    assert isinstance(measured["fcp-chain"].ours, float)
    assert measured["fcp-chain"].ours > 0
    assert (measured["mr1-simulated"].ours, measured["mr2-simulated"].ours) == (pytest.approx(1.5), pytest.approx(1.0))
    assert [row["mr2, %"] for row in rows] == ["1.000", "0.500"] * 2


def test_a_gain_that_collapses_with_more_cpus_is_found() -> None:
    request: Any = SimpleNamespace(parameters=lambda _: {"figures": {"cpus": [3, 8, 16, 32]}})
    held = {}
    for reading in ("as-printed", "fitted"):
        measured, rows = duarte_2010.larger_systems(request, duarte_2010.Model(reading))
        held[reading] = measured["cpus-help"].held
        assert measured["cpus-rise"].held == (6, 6)
    assert held == {"as-printed": (3, 3), "fitted": (2, 3)}
    assert (rows[0]["decrease"], rows[-1]["decrease"]) == ("54.2 %", "3.5 %")


def test_a_reading_has_its_own_l1() -> None:
    parameters = {
        "machine": {"line": 128, "l1": {"line": 64, "writes": "through"}},
        "receive": {"nic_slots": 256, "copies": 1},
        "simulated": {"nic_slots": 251, "l1": {"writes": "through-allocate"}},
    }
    assert duarte_2010.as_read(parameters, "as-printed") == parameters
    own = duarte_2010.as_read(parameters, "simulated")
    assert own["machine"] == {"line": 128, "l1": {"line": 64, "writes": "through-allocate"}}
    assert own["receive"] == {"nic_slots": 251, "copies": 1}


def test_fewer_clocks_by_far_fewer_instructions_are_no_lower_cpi() -> None:
    rows = [
        {"cpus": 3, "bytes": 256, "speedup": 2.1, "cpi_decrease_pct": 17.0},
        {"cpus": 3, "bytes": 4096, "speedup": 4.4, "cpi_decrease_pct": -36.0},
        {"cpus": 8, "bytes": 4096, "speedup": 0.9, "cpi_decrease_pct": 60.0},
    ]
    found = duarte_2010.passed(rows)
    assert (found["messages"].held, found["messages-cpi"].ours) == ((2, 2), 17.0)


def test_stream_counts_reads_and_writes() -> None:
    assert duarte_2010.table3({"glibc memcpy": 300.0}) == [
        {"figure": "table3", "kernel": "glibc memcpy", "mb_s": 600.0}
    ]


def outcome(wait: float, rate: float, half_width: float) -> dict[str, Any]:
    return {
        field: {"value": value, "half_width": half_width}
        for field, value in (("wait_ns", wait), ("blocking", wait / 1000), ("throughput_per_us", rate))
    }


def test_a_step_within_the_noise_is_no_step_of_a_trend() -> None:
    waits = {1: 100.0, 2: 100.5, 4: 120.0}
    study: Any = SimpleNamespace(of=lambda setting: outcome(waits[setting.entries_per_line], 200.0, 1.0))
    row = [korikawa_2020.Setting("proposed", entries_per_line=n) for n in waits]
    parts = korikawa_2020._monotone(study, {"Proposed": row}, lambda s: s.entries_per_line)
    steps = {name: part.holds for name, part in parts.items() if "wait" in name}
    assert steps == {
        "Proposed wait 1 to 2": False, "Proposed wait 2 to 4": True, "Proposed wait from end to end": True
    }  # fmt: skip
    # The loose rule took throughputs that are equal for worse.
    equal = parts["Proposed throughput 2 to 4"]
    assert (equal.holds_loosely, equal.holds) == (True, False)


def test_who_is_better_by_less_than_the_noise_does_not_win() -> None:
    study: Any = SimpleNamespace(
        of=lambda setting: outcome(100.0 if setting.architecture == "proposed" else 100.5, 200.0, 1.0)
    )
    ours, other = (korikawa_2020.Setting(architecture) for architecture in ("proposed", "no_llc"))
    parts = korikawa_2020._beats(study, [ours], [other], "cores")
    assert [part.holds for part in parts.values()] == [False, False]
    assert parts["cores = 28: wait"].holds_loosely
