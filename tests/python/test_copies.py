"""Workloads of copies, hardware cost, and predictions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wirespeed
from wirespeed import api, cli, copies, cost, predict
from wirespeed.commands import run as command
from wirespeed.errors import InputError

CAPTURE = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "traces" / "mpls_10k.pcap.gz"
FEW = {"kind": "receive", "packets": {"packets": 300}}


def test_the_table_saves_clocks_and_instructions() -> None:
    software = copies.run(FEW, "loads", machine={"table": False})
    hardware = copies.run(FEW, "table")
    assert hardware["clocks"] < software["clocks"]
    assert hardware["instructions"] < software["instructions"]
    assert hardware["copies"] == software["copies"] == 300
    assert hardware["counts"]["lines_by_table"] > 0 == software["counts"]["lines_by_table"]


def test_hit_rates_of_an_l1_that_takes_lines_for_stores_are_near_the_papers() -> None:
    # Table 5, without reads; L1 has lines of 64 B over an L2 with 128 B.
    machine = {"l1": {"writes": "through-allocate"}}
    # 16 turns of 251 buffers: in one of them source and target share sets, as buffers at random places do.
    workload = {"kind": "receive", "nic_slots": 251, "packets": {"packets": 16 * 251}}
    for method, read, write in (("loads", 92.12, 89.53), ("table", 98.05, 96.02)):
        found = copies.run(workload, method, machine=machine | {"table": method == "table"})
        assert 100 * found["read_hit"] == pytest.approx(read, abs=3)
        assert 100 * found["write_hit"] == pytest.approx(write, abs=3)


def test_a_table_that_is_not_there_is_software() -> None:
    without = copies.run(FEW, "table", machine={"table": False})
    assert without["clocks"] == copies.run(FEW, "loads", machine={"table": False})["clocks"]


@pytest.mark.parametrize("kind", ["stream", "receive", "vhost", "messages"])
@pytest.mark.parametrize(
    "method",
    [
        "loads",
        "non-temporal",
        "table",
        {"by": "dma", "setup": 1000, "notice": {"by": "polling", "clocks": 300}},
        {"by": "dma", "setup": 1000, "notice": {"by": "interrupt", "clocks": 4000}},
        {"by": "controller", "retires": "sync", "setup": 20, "window": 128},
        {"by": "controller", "retires": "sync-bypass", "setup": 20, "window": 128},
        {"by": "controller", "retires": "async", "setup": 20, "window": 128},
    ],
)
def test_every_workload_runs_by_every_method(kind: str, method: str | dict[str, Any]) -> None:
    few = {"stream": {"rounds": 50}, "receive": {"packets": {"packets": 50}}, "vhost": {"packets": 50}}
    workload = {"kind": kind, **few.get(kind, {"rounds": 5})}
    found = copies.run(workload, method, machine={"cpus": 3})
    assert found["items"] > 0
    assert found["clocks"] > 0
    assert found["bytes"] > 0


@pytest.mark.skipif(not CAPTURE.exists(), reason="shared/data is not there: no real capture is received")
def test_a_real_capture_is_received() -> None:
    found = copies.run({"kind": "receive", "packets": {"capture": str(CAPTURE)}, "reads": True})
    assert found["items"] > 5_000
    assert found["counts"]["table_hits"] > 0


@pytest.mark.parametrize(
    ("workload", "machine", "words"),
    [
        ({"kind": "vhost"}, {"cpus": 1}, "machine.cpus: 1: this workload needs 2 or more"),
        ({"kind": "receive", "copies": 3}, {}, "workload.copies: 3: allowed is 1 or 2"),
        ({"kind": "stream", "bytes": 0}, {}, "workload.bytes: 0: allowed is 1 or more"),
        ({"kind": "stream"}, {"line": 48}, "machine.copy_table.line = 48"),
        ({"kind": "stream"}, {"l1": {"line": 256}}, "machine.copy_table.l1.line = 256"),
        ({"kind": "steam"}, {}, "unknown variant"),
        ({"kind": "receive", "packets": {"capture": "nowhere.pcap"}}, {}, "nowhere.pcap"),
    ],
)
def test_what_cannot_be_is_an_error(workload: dict[str, Any], machine: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        copies.run(workload, machine=machine)


def test_hardware_cost_is_arithmetic_on_fields() -> None:
    # 1 MB, 4 ways, 128 B: 8,192 lines, 11 bits of index, 14 of tag.
    assert cost.cache(1 << 20, 128, 4).all == 8_192 * (1_024 + 14 + 2)
    assert cost.copy_table(1 << 20, 128, 4).all == 8_192 * (14 + 14 + 11 + 1 + 2)
    assert cost.table_of_section_1_1(1 << 20, 128, 4).all == 8_192 * (14 + 11 + 1)
    assert cost.entry(1 << 20, 128, 4) == cost.Entry(target=14, source=14 + 11, state=1 + 2)
    assert cost.hermes().all == int(5.5 * 1024 * 8)
    assert cost.Bits(100, 10).rbe == pytest.approx(195 + 60 + 20)


def test_bits_area_and_energy_follow_from_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(row for row in cost.document()["copy_table"] if (row["line"], row["ways"]) == (128, 4))
    assert row["bits"] == 8_192 * row["entry_bits"]
    # A search for a target compares the 4 ways of a class, one for a source all entries.
    assert row["target_search_pj"] == pytest.approx(4 * 14 * 2.89e-3)
    assert row["source_search_pj"] == pytest.approx(8_192 * 25 * 2.89e-3)
    monkeypatch.setattr(cost, "entry", lambda *_: cost.Entry(target=1, source=1, state=0))
    small = next(row for row in cost.document()["copy_table"] if (row["line"], row["ways"]) == (128, 4))
    assert (small["bits"], small["entry_bits"]) == (2 * 8_192, 2)
    assert small["area_pct"] < row["area_pct"]
    assert small["source_search_pj"] == pytest.approx(8_192 * 2.89e-3)


@pytest.mark.parametrize(("line", "ways"), [(100, 4), (64, 0), (64, 3)])
def test_a_cache_that_cannot_be_has_no_cost(line: int, ways: int) -> None:
    with pytest.raises(InputError):
        cost.copy_table(1 << 20, line, ways)


def test_cost_prints_both_forms() -> None:
    for form in ("table", "json"):
        command = [str(Path(sys.executable).parent / "wirespeed"), "cost", "--format", form]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert "Hermes" in out
    assert {row["technique"] for row in json.loads(out)["others"]}


QUICK = {"run.packets": 40_000, "run.curve": [], "function.forward.prefixes": 20_000}


@pytest.mark.parametrize(
    "more",
    [
        {"traffic.load": 0.5},
        {"traffic.load": 0.3, "machine.preset": "epyc-7402p"},
        {"traffic.load": 0.3, "function.copy": {}, "machine.copy_table": {}},
    ],
)
def test_a_prediction_is_near_the_simulation(more: dict[str, Any]) -> None:
    settings = {**QUICK, **more}
    found = api.predict("forwarding", set=settings)
    rows = {row["what"]: row for row in predict.errors(found, wirespeed.run("forwarding", set=settings).summary)}
    assert abs(rows["carried, Mpps"]["error_pct"]) < 1
    assert abs(rows["mean sojourn, ns"]["error_pct"]) < 10
    assert abs(rows["CPI"]["error_pct"]) < 25
    assert found["cpi"] == pytest.approx(found["cpi_inf"] + found["fcp"])
    assert 0 <= found["mr_llc"] <= found["mr2"] <= found["mr1"]


@pytest.mark.parametrize("quiet", [False, True])
def test_a_prediction_shows_the_progress_of_its_check_unless_quiet(
    quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ran(*arguments: Any) -> Any:
        asked.append(arguments[-1])
        raise InputError("ran")

    monkeypatch.setattr(command, "simulate", ran)
    words = ["predict", "forwarding", "--check", "--set", "run.packets=1000", "--set", "function.forward.prefixes=100"]
    with pytest.raises(InputError, match="ran"):
        cli.app(args=[*words, *["--quiet"] * quiet], prog_name="wirespeed", standalone_mode=False)
    assert asked == [quiet]


@pytest.mark.skipif(not CAPTURE.exists(), reason="shared/data is not there: no real capture is predicted")
def test_what_the_function_rejects_is_not_carried() -> None:
    # The capture has packets that no router forwards.
    settings = {**QUICK, "traffic.load": 0.2}
    found = api.predict("forwarding", capture=CAPTURE, set=settings)
    summary = wirespeed.run("forwarding", capture=CAPTURE, set=settings).summary
    assert found["rejected_share"] == pytest.approx(summary["rejected"] / summary["packets"], abs=0.02)
    assert found["carried_mpps"] == pytest.approx(summary["carried_mpps"], rel=0.03)
    assert found["carried_mpps"] + found["rejected_mpps"] == pytest.approx(found["offered_mpps"])


def test_a_profile_answers_for_any_load_as_the_load_alone() -> None:
    settings = {"run.packets": 20_000, "function.forward.prefixes": 20_000}
    found = api.predict("forwarding", set=settings, loads=[0.2, 0.9])
    alone = api.predict("forwarding", set={**settings, "traffic.load": 0.9})
    assert [answer["load"] for answer in found["loads"]] == [0.2, 0.9]
    for name in ("carried_mpps", "sojourn_ns", "cpi", "utilisation", "bound"):
        assert found["loads"][1][name] == alone[name]
    assert found["solve_ms"] < found["profile_ms"]
    with pytest.raises(InputError, match=r"load 1.5: must be a share of the port's line rate, above 0 up to 1"):
        api.predict("forwarding", set=settings, loads=[1.5])


def test_a_pipeline_is_not_predicted() -> None:
    with pytest.raises(InputError, match=r"pipeline: is not predicted: allowed are cores that do both"):
        api.predict("upf-pipeline")


def test_a_prediction_beyond_saturation_has_no_waiting_time() -> None:
    found = api.predict("forwarding-one-core", set={"function.forward.prefixes": 20_000})
    assert found["bound"] == "cores"
    assert found["waiting_ns"] is None
    assert found["carried_mpps"] < found["offered_mpps"]


def test_every_other_way_to_copy_is_beside_the_table() -> None:
    rows = {row["name"]: row for row in copies.compare(FEW)}
    assert list(rows) == list(copies.METHODS)
    assert rows["loads and stores"]["reduction_pct"] == 0.0
    assert rows["copy table"]["counts"]["lines_by_table"] > 0
    assert all(row["counts"]["lines_by_table"] == 0 for name, row in rows.items() if name != "copy table")
    # Who need not wait saves no less.
    engines = [rows[f"engine, {how}"]["reduction_pct"] for how in ("synchronous", "with bypass", "asynchronous")]
    assert engines == sorted(engines)


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "wirespeed"), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_copies_prints_both_forms_within_80_columns() -> None:
    few = ("--set", "workload.packets.packets=100")
    shown = _command("copies", "receive", *few)
    assert shown.returncode == 0
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    assert "copy table" in shown.stdout
    document = json.loads(_command("copies", "receive", *few, "--format", "json").stdout)
    assert [row["name"] for row in document["methods"]] == list(copies.METHODS)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("vhost", "--capture", "a.pcap"), "--capture goes with the workload receive"),
        (("stream", "--reads"), "--reads goes with the workloads receive and messages"),
        (("receive", "--set", "caches=1"), "that begin with workload, machine, costs"),
        (("receive", "--set", "machine.table=true"), "machine.table: each method says by itself"),
        (("receive", "--format", "xml"), "allowed are table and json"),
        (("steam",), "'steam' is not one of"),
    ],
)
def test_copies_says_what_is_wrong(words: tuple[str, ...], error: str) -> None:
    found = _command("copies", *words)
    assert found.returncode == 2
    assert error in found.stderr


SOCKET = {"run.packets": 10_000, "run.warmup": 10_000, "run.curve": [], "function.forward.prefixes": 20_000}


def test_what_a_copy_table_did_is_in_the_summary_and_in_the_report(tmp_path: Path) -> None:
    result = wirespeed.run("socket", set={**SOCKET, "machine.copy_table": {}})
    found = result.summary["copy_table"]
    assert found is not None
    assert min(found[name] for name in ("fills", "hits", "searches", "fallbacks")) > 0
    result.report(tmp_path / "report.html")
    assert "copied by a pointer" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert wirespeed.run("socket", set=SOCKET).summary["copy_table"] is None


RIVALS = {
    "non-temporal": {"by": "non-temporal"},
    "polled": {"by": "dma"},
    "interrupt": {"by": "dma", "notice": {"by": "interrupt", "cost": "2 us"}},
    "sync": {"by": "controller", "retires": "sync"},
    "bypass": {"by": "controller", "retires": "sync-bypass"},
    "async": {"by": "controller", "retires": "async"},
}


@pytest.mark.parametrize("scenario", ["vhost", "socket"])
def test_rivals_of_the_table_copy_on_the_server(scenario: str, tmp_path: Path) -> None:
    settings = {**SOCKET, "run.packets": 4_000, "run.warmup": 8_000}
    loads = wirespeed.run(scenario, set=settings).summary
    assert loads["copy_engine"] is None
    cycles = {}
    for name, engine in RIVALS.items():
        result = wirespeed.run(scenario, set={**settings, "machine.copy_engine": engine})
        found = result.summary["copy_engine"]
        assert found is not None
        assert found["by"] == engine["by"]
        assert found["lines"] >= found["copies"] > 0
        # Each packet's bytes are copied, by whatever hand.
        assert found["lines"] / result.summary["packets"] > 3
        cycles[name] = sum(core["cycles_per_packet"] for core in result.summary["cores"])
    result.report(tmp_path / "report.html")
    assert "Engine at the controller" in (tmp_path / "report.html").read_text(encoding="utf-8")
    # Who waits longer for the same engine takes longer; an interrupt costs more than looking for the end.
    assert cycles["async"] <= cycles["bypass"] <= cycles["sync"]
    assert cycles["interrupt"] > cycles["polled"]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"by": "magic"}, "unknown variant `magic`"),
        ({"by": "controller"}, "`retires` is missing: allowed are sync, sync-bypass and async"),
        ({"by": "dma", "notice": {"by": "polling", "period": "0 ns"}}, "copy_engine.notice.period = 0"),
    ],
)
def test_engines_that_cannot_be_are_an_error(engine: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        wirespeed.run("vhost", set={**SOCKET, "machine.copy_engine": engine})


def test_a_table_and_an_engine_are_an_error() -> None:
    more = {"machine.copy_table": {}, "machine.copy_engine": {"by": "non-temporal"}}
    with pytest.raises(
        InputError, match=r"machine\.copy_engine: given with machine\.copy_table: allowed is one of them"
    ):
        wirespeed.run("vhost", set={**SOCKET, **more})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"function.socket.copies": 3}, "function.socket.copies: 3: allowed are 0, 1 and 2"),
        ({"function.copy": {}}, "function.copy: given with function.socket: allowed is one of them"),
        ({"function.kind": "upf"}, "function.socket: given with function.kind = upf: allowed is one of them"),
    ],
)
def test_sockets_that_cannot_be_are_an_error(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        wirespeed.run("socket", set={**SOCKET, **more})
