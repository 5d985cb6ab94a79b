"""The command line around a run: what goes where, and with which exit code. The run itself is stood in for."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import summaries
from wirespeed import InputError, api, cli, files
from wirespeed.result import Comparison, Result
from wirespeed.stored import TABLES
from wirespeed.tables import Table

OPERANDS = api.operands


class StandIn:
    """What the extension would hand back, made of a summary."""

    lower_loads_json = "[]"

    def __init__(self, summary: dict[str, Any]) -> None:
        self.summary_json = json.dumps(summary)
        self.resolved = "seed = 1\n"
        self.run_id = summary["run_id"]
        self.partial = summary.get("partial", False)

    def write(self, folder: str) -> list[str]:
        files = {"summary.json": self.summary_json, "scenario.toml": self.resolved}
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        return [str(Path(folder) / name) for name in files]


def result(summary: dict[str, Any]) -> Result:
    tables = {name: Table(name, pa.table({"run_id": [summary["run_id"]], "value": [1.5]})) for name in TABLES}
    run = StandIn(summary)
    return Result(run.summary_json, run.resolved, tables, run, None)  # type: ignore[arg-type]


class Ran:
    """An exit code and what was printed."""

    def __init__(self, code: object, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def wirespeed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["wirespeed", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        printed = capsys.readouterr()
        return Ran(left.value.code, printed.out, printed.err)

    return call


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stands in for what runs; the summary that the next run gives is put into the list first."""
    given: list[dict[str, Any]] = []

    def run(scenario: str, **options: Any) -> Result:
        options["progress"]("run", 500, 1000, "")
        return result(given[0] if len(given) == 1 else given.pop(0))

    def operands(names: list[str], settings: Any, seed: Any, threads: Any, progress: Any, *_: Any) -> list[Result]:
        return [run(name, progress=progress) for name in names]

    monkeypatch.setattr(api, "run", run)
    monkeypatch.setattr(api, "operands", operands)
    return given


@pytest.mark.parametrize("name", ["sound", "lossless", "odd", "minimal"])
def test_json_on_stdout_is_the_summary_and_nothing_else(wirespeed: Any, runs: Any, name: str, tmp_path: Path) -> None:
    runs.append(summaries.CASES[name]())
    ran = wirespeed("run", "x", "--format", "json", "--out", str(tmp_path))
    assert ran.out == json.dumps(runs[0]) + "\n"


def test_the_table_starts_with_the_verdict_and_leaves_progress_to_stderr(wirespeed: Any, runs: Any) -> None:
    runs.append(summaries.lossless())
    ran = wirespeed("run", "x")
    assert ran.code == 0
    assert ran.out.startswith("~ Carries the 4.00 Gbps offered")
    assert "--out DIR" in ran.err
    assert "--out DIR" not in ran.out


def test_quiet_says_nothing_on_stderr(wirespeed: Any, runs: Any, tmp_path: Path) -> None:
    runs.append(summaries.lossless())
    assert wirespeed("run", "x", "--quiet", "--out", str(tmp_path)).err == ""


def test_out_writes_the_result_and_says_where(wirespeed: Any, runs: Any, tmp_path: Path) -> None:
    runs.append(summaries.lossless())
    folder = tmp_path / "a" / "b"
    ran = wirespeed("run", "x", "--out", str(folder))
    kept = {"summary.json", "scenario.toml", "report.html"}
    assert {file.name for file in folder.iterdir()} == {*kept, files.LIST_FILE}
    assert "report.html" in ran.err
    assert f"wirespeed run x --out {folder}" in (folder / "report.html").read_text(encoding="utf-8")


def test_no_report_leaves_the_report_out(wirespeed: Any, runs: Any, tmp_path: Path) -> None:
    runs.append(summaries.lossless())
    wirespeed("run", "x", "--out", str(tmp_path), "--no-report")
    assert not (tmp_path / "report.html").exists()


def test_a_stopped_run_is_written_and_marked_and_exits_130(wirespeed: Any, runs: Any, tmp_path: Path) -> None:
    runs.append(summaries.lossless(partial=True))
    ran = wirespeed("run", "x", "--out", str(tmp_path))
    assert ran.code == 130
    assert "Partial result" in ran.out
    assert json.loads((tmp_path / "summary.json").read_text())["partial"]
    assert 'class="banner"' in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_written_is_bad_input(wirespeed: Any, runs: Any, tmp_path: Path) -> None:
    runs.append(summaries.lossless())
    (tmp_path / "file").write_text("")
    ran = wirespeed("run", "x", "--out", str(tmp_path / "file"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("wirespeed: ")
    assert "Traceback" not in ran.err


def test_an_input_error_is_a_message_and_exit_code_2(wirespeed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Result:
        raise InputError("machine.llc.ways = 0: must be 1..=32")

    monkeypatch.setattr(api, "run", refuse)
    ran = wirespeed("run", "x")
    assert (ran.code, ran.out, ran.err) == (2, "", "wirespeed: machine.llc.ways = 0: must be 1..=32\n")


def test_a_bug_shows_its_traceback_and_is_no_failed_condition(wirespeed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: Any, **__: Any) -> Result:
        raise RuntimeError("packets are not conserved")

    monkeypatch.setattr(api, "run", break_down)
    ran = wirespeed("run", "x")
    assert ran.code == 70
    assert "Traceback" in ran.err
    assert "this is a bug" in ran.err


@pytest.mark.parametrize("arguments", [["run"], ["run", "x", "--bogus"], ["rnu"], ["run", "x", "--threads", "0"]])
def test_a_wrong_use_is_explained_without_a_traceback(wirespeed: Any, arguments: list[str]) -> None:
    ran = wirespeed(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Usage: wirespeed" in ran.err
    assert "Traceback" not in ran.err


def test_help_names_every_option_of_run(wirespeed: Any) -> None:
    ran = wirespeed("run", "--help")
    assert ran.code == 0
    for option in ("--capture", "--table", "--set", "--seed", "--search", "--threads", "--out", "--format", "--quiet"):
        assert option in ran.out


METRICS = [
    {
        "metric": "p99",
        "unit": "ns",
        "a": 1000.0,
        "b": 1100.0,
        "change_pct": 10.0,
        "half_width_pct": 2.0,
        "significant": True,
        "better": False,
    },
    {
        "metric": "loss",
        "unit": "",
        "a": 0.0,
        "b": 0.0,
        "change_pct": 0.0,
        "half_width_pct": 0.0,
        "significant": False,
        "better": None,
    },
]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch, runs: Any) -> list[tuple[Any, Any]]:
    """Stands in for the comparison; lists what was compared."""
    pairs: list[tuple[Any, Any]] = []
    side = {"run_id": "1f0c", "name": "x"}

    def compare(a: Result, b: Result) -> Comparison:
        pairs.append((a, b))
        document = {"schema": "wirespeed.compare/1", "a": side, "b": side, "identical_traffic": True}
        return Comparison(json.dumps(document | {"metrics": METRICS}))

    monkeypatch.setattr(api, "compare", compare)
    runs.append(summaries.lossless())
    return pairs


@pytest.mark.parametrize(
    ("conditions", "code", "word"),
    [
        ([], 0, ""),
        (["p99 > +5%"], 1, "✗ fails"),
        (["p99 > +9%"], 4, "~ noise"),
        (["p99 > +9%", "loss > 0.001"], 4, "~ noise"),
        (["p99 > +9%", "p99 > +5%"], 1, "~ noise"),
        (["p99 > +20%", "loss > 0.001"], 0, "✓ ok"),
        (["loss > 0.001", "p99 > 1 us"], 1, "✗ fails"),
    ],
)
def test_a_condition_that_holds_significantly_exits_1_and_one_that_cannot_be_told_4(
    wirespeed: Any, compared: Any, conditions: list[str], code: int, word: str
) -> None:
    ran = wirespeed("compare", "a", "b", *(part for each in conditions for part in ("--fail-if", each)))
    assert ran.code == code
    assert word in ran.out
    assert ("cannot be told" in ran.err) == (code == 4)


def test_all_operands_are_compared_with_the_first(wirespeed: Any, compared: Any) -> None:
    ran = wirespeed("compare", "a", "b", "c", "--format", "json", "--fail-if", "p99 > +5%")
    document = json.loads(ran.out)
    assert [pair[0] for pair in compared] == [compared[0][0]] * 2
    assert len(document["comparisons"]) == 2
    assert document["failed"] is True
    assert document["comparisons"][1]["conditions"] == [{"condition": "p99 > +5%", "metric": "p99", "outcome": "fails"}]


def test_a_wrong_condition_is_found_before_anything_runs(wirespeed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "operands", lambda *_: pytest.fail("ran"))
    ran = wirespeed("compare", "a", "b", "--fail-if", "p98 > +5%")
    assert ran.code == 2
    assert "did you mean" in ran.err


def test_a_comparison_that_is_stopped_compares_nothing(
    wirespeed: Any, compared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(StandIn):
        def table(self, name: str) -> pa.Table:
            return pa.table({"run_id": [self.run_id]})

    summary = summaries.lossless(partial=True)
    monkeypatch.setattr(api, "operands", OPERANDS)
    monkeypatch.setattr("wirespeed._wirespeed.run", lambda wanted, **_: [Stopped(summary) for _ in wanted])
    ran = wirespeed("compare", "forwarding", "forwarding")
    assert (ran.code, ran.out, compared) == (130, "", [])
    assert "nothing is compared" in ran.err


def test_stopping_while_loading_says_that_there_is_no_result(wirespeed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> Result:
        raise KeyboardInterrupt("stopped while loading the capture x.pcap: there is no result")

    monkeypatch.setattr(api, "run", stop)
    ran = wirespeed("run", "x")
    assert (ran.code, ran.out) == (130, "")
    assert ran.err == "wirespeed: stopped while loading the capture x.pcap: there is no result\n"


def test_one_operand_is_too_few(wirespeed: Any) -> None:
    ran = wirespeed("compare", "a")
    assert ran.code == 2
    assert "at least two" in ran.err


@pytest.mark.parametrize("option", [["--set", "machine.llc.ways=8"], ["--seed", "7"], ["--threads", "2"]])
def test_settings_for_written_results_are_refused(wirespeed: Any, tmp_path: Path, option: list[str]) -> None:
    ran = wirespeed("compare", str(tmp_path), str(tmp_path), *option)
    assert ran.code == 2
    assert f"{option[0]} is for running scenarios" in ran.err


def test_a_reader_that_leaves_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run(
        [sys.executable, "-m", "wirespeed.cli", "schema"], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_two_rates_on_a_command_line_are_refused(wirespeed: Any) -> None:
    ran = wirespeed("run", "forwarding", "--set", "traffic.rate=40 Gbps", "--set", "traffic.load=0.5")
    assert ran.code == 2
    assert "--set traffic.load and --set traffic.rate: both say how much is offered" in ran.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--set", "traffic.capture=a.pcap", "--set", "traffic.profile=isp"], "both say what the traffic is"),
        (["--set", "traffic.flows.count=9", "--set", "traffic.capture=a.pcap"], "both say what the traffic is"),
        (["--seed", "3", "--set", "run.seed=4"], "--seed and --set run.seed: both say run.seed"),
        (["--search", "ndr", "--set", "run.search=pdr"], "--search and --set run.search"),
        (["--table", "a.txt", "--set", "function.forward.table=b.txt"], "--table and --set function.forward.table"),
        (["--capture", "a.pcap", "--set", "traffic.flows.count=9"], "--capture and --set traffic.flows.count"),
    ],
)
def test_settings_and_options_that_say_the_same_are_refused(wirespeed: Any, words: list[str], says: str) -> None:
    ran = wirespeed("run", "forwarding", *words)
    assert ran.code == 2
    assert says in ran.err


def test_a_seed_that_is_none_is_bad_input() -> None:
    for seed in (-1, 1 << 63):
        with pytest.raises(InputError, match="must be 0 or more"):
            api.resolve("forwarding", seed=seed)


def test_a_gate_that_cannot_be_judged_does_not_pass(wirespeed: Any) -> None:
    few = ["--set", "run.packets=2000", "--set", "run.curve=[]", "--set", "function.forward.prefixes=100", "--quiet"]
    dead = "forwarding,mempool.size=1024,nic.rx_descriptors=128"
    ran = wirespeed("compare", "forwarding", dead, *few, "--fail-if", "p99 > +5%")
    assert ran.code == 1
    assert "b has no p99: nothing was carried" in ran.out
    ran = wirespeed("compare", dead, dead, *few, "--fail-if", "p99 > 20 us", "--format", "json")
    assert ran.code == 1
    document = json.loads(ran.out)
    assert document["failed"]
    assert document["comparisons"][0]["conditions"][0]["outcome"] == "not known"


def test_a_pipe_is_inspected(wirespeed: Any, tmp_path: Path) -> None:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    capture = head + struct.pack("<IIII", 1, 0, 60, 60) + bytes(12) + b"\x08\x00" + bytes(46)
    read, write = os.pipe()
    os.write(write, capture)
    os.close(write)
    ran = wirespeed("inspect", f"/dev/fd/{read}", "--quiet", "--format", "json")
    os.close(read)
    assert (ran.code, json.loads(ran.out)["packets"]) == (0, 1)
    assert wirespeed("inspect", str(tmp_path)).err.endswith("is a folder\n")
    assert wirespeed("inspect", str(tmp_path / "x")).err.endswith("no such file\n")
