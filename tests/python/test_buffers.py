"""Packet buffers on the command line: rows touched, the comparison on DRAM of today, and a paper's run in small."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest
from rich.console import Console

import wirespeed
from wirespeed import InputError, _wirespeed, buffers
from wirespeed import papers as registry
from wirespeed.papers import find

CALIBRATION = {"drain_ns": 1500, "in_flight": 92, "receive_slots": 10}


def test_frontiers_touch_fewer_rows_than_stacks_and_the_heat_map_shows_all_four(tmp_path: Path) -> None:
    found = buffers.rows_touched("edge", 16, packets=3000)
    rows = {each["allocation"]: each["rows_input"] for each in found["allocations"]}
    assert rows["linear"] < rows["piecewise"] < rows["cells"]
    svg = buffers.heat_map(found)
    assert svg.startswith("<svg")
    assert all(name in svg for name in ("fixed", "cells", "linear", "piecewise"))


def test_a_scenario_stands_for_its_traffic_as_it_resolves(tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "c.pcap").write_bytes(b"")
    scenario = folder / "mine.toml"
    scenario.write_text('[traffic]\ncapture = "c.pcap"\n', encoding="utf-8")
    traffic = buffers.traffic_of(str(scenario))
    assert isinstance(traffic, dict)
    assert traffic["capture"] == str(folder / "c.pcap")
    assert buffers.traffic_of("edge") == "edge"
    fixed = buffers.traffic_of("forwarding,traffic.sizes.fixed=9000")
    assert isinstance(fixed, dict)
    assert fixed["sizes"] == {"fixed": "9 KB"}


MADE = "function.forward.prefixes=2000,mempool.size=8192"


def test_rows_are_those_of_the_scenario(tmp_path: Path) -> None:
    first = buffers.rows_touched(f"forwarding,{MADE}", packets=1000)
    others = (
        f"forwarding,{MADE},traffic.sizes.fixed=1400",
        "nat,mempool.size=8192,machine.dram.channels=2",
        f"forwarding,{MADE},buffer.allocation=cells,buffer.size=1 MiB",
    )
    for other in others:
        assert buffers.rows_touched(other, packets=1000)["allocations"] != first["allocations"], other
    own = [each["allocation"] for each in first["allocations"] if each["own"]]
    assert own == ["mbufs"]
    assert all(name in buffers.heat_map(first) for name in ("mbufs", "piecewise"))
    mine = tmp_path / "mine.toml"
    mine.write_text('[traffic]\nprofile = "imix"\n[function.forward]\nprefixes = 2000\n', encoding="utf-8")
    assert buffers.rows_touched(str(mine), packets=1000)["of"] == "server"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[machine]\npreset = "nope"\n', "nope"),
        ('[bufer]\nallocation = "cells"\n', "bufer"),
        ('[traffic]\ncapture = "missing.pcap"\n', "missing.pcap"),
        ('[traffic.sizes]\nfixed = "9000 B"\n[buffer]\nallocation = "cells"\n', "buffer.longest: 1518 bytes"),
    ],
)
def test_a_scenario_that_cannot_be_run_has_no_rows(tmp_path: Path, text: str, words: str) -> None:
    scenario = tmp_path / "mine.toml"
    scenario.write_text(text + "[function.forward]\nprefixes = 2000\n", encoding="utf-8")
    with pytest.raises(InputError, match=words):
        buffers.rows_touched(str(scenario), packets=1000)


def test_latency_in_overload_is_called_that() -> None:
    found = buffers.compare(memories=["hbm2-2000"], orders=["fr-fcfs"], blocks=[1], seeds=1, requests=20_000)
    overloaded = {row["allocation"]: row["half_peak_is_overload"] for row in found["rows"]}
    assert overloaded["fixed"]
    assert not overloaded["linear"]
    shown = Console(width=80, file=io.StringIO())
    with shown.capture() as printed:
        shown.print(buffers.comparison_table(found))
    title, *lines = printed.get().splitlines()
    assert title.strip() == "hbm2-2000, fr-fcfs, open page, 1 a block"
    lines = [line for line in lines if line.split()[:1] and line.split()[0] in overloaded]
    assert ["overload" in line for line in lines] == [row["half_peak_is_overload"] for row in found["rows"]]


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


class Asked:
    """Stands in place of the study: remembers what is asked for, and from which threads."""

    def __init__(self, at_a_time: int) -> None:
        self.runs: list[dict[str, object]] = []
        self.threads: set[int] = set()
        self.together = threading.Barrier(at_a_time)

    def __call__(self, spec: str) -> str:
        run = json.loads(spec)["runs"][0]
        self.runs.append(run)
        self.threads.add(threading.get_ident())
        # Passed by as many threads as there are; by fewer never.
        self.together.wait(timeout=20)
        value = {"mean": 1.0, "half_width": 0.1}
        names = ("gbps", "sdram_utilization", "rows_input", "rows_output", "batch_reads", "batch_writes", "engine_idle")
        return json.dumps({"runs": [{"run": run, "traffic": "-", "sdram_idle": value} | dict.fromkeys(names, value)]})


def test_a_claim_runs_what_it_needs_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(1)
    monkeypatch.setattr(_wirespeed, "study_network_processor", asked)
    for claim, runs in (
        ("rows-l-alloc-input", 1),
        ("order-4", 13),
        ("mean-gain", 6),
        ("figure5-peak", 5),
        ("idle-dram-400-64", 1),
        ("utilization-600-mhz", 1),
        ("in-sample-rms", 38),
        ("nat-all-pf-2", 1),
    ):
        asked.runs.clear()
        (report,) = registry.run(find("2003-isca-hasan"), claims=[claim], threads=1)
        assert len(asked.runs) == runs, claim
        assert claim in [judged.expected.id for judged in report.claims]


def test_threads_run_points_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(3)
    monkeypatch.setattr(_wirespeed, "study_network_processor", asked)
    # Six runs, three at a time.
    registry.run(find("2003-isca-hasan"), claims=["mean-gain"], threads=3)
    assert len(asked.threads) == 3


def test_the_nics_sram_tells_what_became_of_its_lines():
    shape = ["machine.llc.io_ways=0", "nic.cache_cells=4096", "run.packets=3000", "run.warmup=500", "run.curve=[]"]
    found = wirespeed.run("forwarding", set=[*shape, "function.forward.prefixes=1000", "mempool.size=8192"]).summary
    cache = found["nic_cache"]
    assert cache["cells"] == 4096
    assert cache["written"] > 3000
    # Some were written before what is measured began.
    assert 0 < cache["bypassed"] <= cache["written"] + 4096 * 4
    assert wirespeed.run("forwarding", set=[*shape[2:], "function.forward.prefixes=1000"]).summary["nic_cache"] is None
