"""The command and the API on real runs: small ones of the shipped scenario, and captures where shared data is there."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import documents
import wirespeed
import wirespeed.summary
from wirespeed import api
from wirespeed.summary import REASONS

SCENARIO = "forwarding"
# Small enough to be quick, large enough to have quantiles.
QUICK = {"run.packets": 20_000, "run.curve": [], "function.forward.prefixes": 20_000}
QUICK_OPTIONS = ["--set=run.packets=20000", "--set=run.curve=[]", "--set=function.forward.prefixes=20000"]
SHARED = Path(__file__).parents[3] / "shared" / "data"
CAPTURE = SHARED / "traces" / "isp_nz_20100113.pcap.gz"
PREFIXES = SHARED / "tables" / "full_table_v4v6.txt.gz"


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "wirespeed.cli", *arguments]
    return subprocess.run(call, capture_output=True, text=True, timeout=300, **options)


@pytest.fixture(scope="module")
def result() -> wirespeed.Result:
    return wirespeed.run(SCENARIO, set=QUICK, seed=3)


def test_the_summary_holds_what_is_promised(result: wirespeed.Result) -> None:
    summary = result.summary
    promised = {"packets", "carried_mpps", "loss", "sojourn_ns", "attribution_ns", "wall_s", "seed", "run_id"}
    assert promised <= set(summary)
    assert {"mean", "p50", "p99", "p999"} <= set(summary["sojourn_ns"])
    assert (summary["packets"], summary["seed"], summary["schema"]) == (20_000, 3, "wirespeed.run/1")
    assert summary["sojourn_ns"]["p50"] <= summary["sojourn_ns"]["p99"] <= summary["sojourn_ns"]["p999"]


def test_the_reasons_are_those_that_are_known_here_in_path_order(result: wirespeed.Result) -> None:
    assert list(result.summary["attribution_labels"]) == list(REASONS)
    parts = result.summary["attribution_ns"]
    assert set(parts) <= set(REASONS)
    assert sum(parts.values()) == pytest.approx(result.summary["sojourn_ns"]["mean"], rel=1e-9)


def test_losses_and_verdicts_add_up_to_the_drops(result: wirespeed.Result) -> None:
    kinds = {"lost": 0, "rejected": 0}
    for drop in wirespeed.summary.drops(result.summary):
        kinds[drop.kind] += drop.packets
    assert kinds == {"lost": result.summary["lost"], "rejected": result.summary["rejected"]}


def without_host_times(result: wirespeed.Result) -> dict[str, Any]:
    return {k: v for k, v in result.summary.items() if k not in {"wall_s", "load_s", "packets_per_wall_s"}}


def test_a_seed_gives_the_same_result_on_any_number_of_threads(result: wirespeed.Result) -> None:
    small = QUICK | {"run.packets": 5_000, "run.curve": [0.3, 0.6, 0.9], "run.curve_packets": 3_000}
    small |= {"run.search_packets": 3_000, "run.search_resolution": 0.1, "machine.cores": 1}
    for search in (None, "ndr"):
        first, *others = (
            wirespeed.run(SCENARIO, set=small, seed=3, threads=threads, search=search)  # type: ignore[arg-type]
            for threads in (1, 2, 4)
        )
        for other in others:
            assert without_host_times(other) == without_host_times(first)
            assert pl.DataFrame(other.packets).equals(pl.DataFrame(first.packets))
    assert wirespeed.run(SCENARIO, set=QUICK, seed=4).run_id != result.run_id


def test_what_is_compared_is_measured_from_the_same_packet_on(result: wirespeed.Result) -> None:
    longer = f"{SCENARIO},run.warmup=200000"
    first, second, third = api.operands([SCENARIO, longer, result], set=QUICK, seed=3, threads=2)
    assert first.summary["warmup_packets"] == second.summary["warmup_packets"] == 200_000
    assert wirespeed.compare(first, second).identical_traffic
    assert third is result
    alone = wirespeed.run(longer, set=QUICK, seed=3, threads=1)
    assert without_host_times(alone) == without_host_times(second)


def test_every_table_is_read_by_polars_pandas_and_pyarrow(result: wirespeed.Result) -> None:
    for table in (result.runs, result.counters, result.packets, result.series):
        rows = len(pl.DataFrame(table))
        assert rows > 0
        assert len(pd.DataFrame.from_arrow(table)) == rows
        assert pa.table(table).num_rows == rows
    packets = pl.DataFrame(result.packets)
    parts = packets.select(pl.col(r"^at_.*_ns$")).sum_horizontal()
    assert (parts - packets["sojourn_ns"]).abs().max() < 1e-3


def test_progress_is_told_and_can_stop_the_run() -> None:
    seen: list[tuple[str, int, int]] = []

    def stop(phase: str, done: int, total: int, note: str) -> None:
        seen.append((phase, done, total))
        if phase == "run" and done > 0:
            raise KeyboardInterrupt

    stopped = wirespeed.run(SCENARIO, set=QUICK | {"run.packets": 5_000_000}, progress=stop)
    assert stopped.partial
    assert 0 < stopped.summary["packets"] < 5_000_000
    assert all(0 <= done <= total for _, done, total in seen if total)


def test_a_written_result_is_compared_with_a_run(result: wirespeed.Result, tmp_path: Path) -> None:
    files = result.write(tmp_path)
    assert {file.name for file in files} >= {"summary.json", "scenario.toml", "packets.parquet", "report.html"}
    read = wirespeed.read(tmp_path)
    assert pl.DataFrame(read.packets).equals(pl.DataFrame(result.packets))
    same = wirespeed.compare(tmp_path, result)
    assert same.identical_traffic
    assert {m["change_pct"] for m in same.metrics.values()} <= {0.0, None}
    assert not any(m["significant"] for m in same.metrics.values())


def test_the_written_scenario_runs_again_to_the_same_result(result: wirespeed.Result, tmp_path: Path) -> None:
    result.write(tmp_path, report=False)
    assert wirespeed.run(tmp_path / "scenario.toml").run_id == result.run_id


def test_run_prints_one_json_object() -> None:
    ran = command("run", SCENARIO, *QUICK_OPTIONS, "--format", "json")
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["packets"] == 20_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "forwardin"], "did you mean `forwarding`"),
        (["run", SCENARIO, "--set", "machine.llc.way=8"], "machine.llc"),
        (["run", SCENARIO, "--set", "machine.cores=0"], "machine.cores"),
        (["run", SCENARIO, "--capture", "missing.pcap"], "missing.pcap"),
        (["inspect", "missing.pcap"], "missing.pcap"),
        (["inspect", __file__], "neither a capture nor a prefix table"),
        (["presets", "--kind", "machin"], "did you mean `machine`"),
        (["compare", SCENARIO, "forwardin"], "did you mean `forwarding`"),
    ],
)
def test_bad_input_is_a_message_and_exit_code_2(arguments: list[str], said: str) -> None:
    ran = command(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


_INTERRUPTED: Final = (
    "import signal, sys, wirespeed.cli as c; signal.signal(signal.SIGINT, signal.default_int_handler);"
    " print('imported', file=sys.stderr, flush=True)"
)


def test_ctrl_c_writes_a_partial_result_and_exits_130(tmp_path: Path) -> None:
    # A shell hands an ignored SIGINT on to what it runs in the background; a user's terminal does not.
    main = f"{_INTERRUPTED}; c.main()"
    curve = ["--set=run.curve=[0.2,0.4]", "--threads=2"]
    options = [*QUICK_OPTIONS, "--set=run.packets=200000000", *curve, "--out", str(tmp_path)]
    started = subprocess.Popen(
        [sys.executable, "-c", main, "run", SCENARIO, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stderr is not None
    assert started.stderr.readline() == "imported\n"
    # It has begun to measure by then, and takes minutes.
    time.sleep(10)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 130, err
    assert "Partial result" in out
    assert json.loads((tmp_path / "summary.json").read_text())["partial"] is True
    assert 'class="banner"' in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_ctrl_c_while_loading_ends_at_once_and_says_that_there_is_no_result(tmp_path: Path) -> None:
    # Nobody writes into this pipe: opening it waits for ever.
    os.mkfifo(tmp_path / "trace.pcap")
    main = f"{_INTERRUPTED}; c.main()"
    options = ["--capture", str(tmp_path / "trace.pcap"), "--out", str(tmp_path / "out")]
    started = subprocess.Popen(
        [sys.executable, "-c", main, "run", SCENARIO, *QUICK_OPTIONS, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # A pipe can be opened for writing as soon as it is read.
    writes = None
    while writes is None and started.poll() is None:
        with contextlib.suppress(OSError):
            writes = os.open(tmp_path / "trace.pcap", os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.01)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=30)
    if writes is not None:
        os.close(writes)
    assert (started.returncode, out) == (130, "")
    assert "stopped while loading the capture trace.pcap" in err
    assert "no result" in err
    assert not (tmp_path / "out").exists()


def test_a_condition_decides_over_the_exit_code() -> None:
    worse = f"{SCENARIO},machine.cores=1,machine.core.frequency=1.2 GHz"
    ran = command("compare", SCENARIO, worse, *QUICK_OPTIONS, "--fail-if", "p99 > +5%")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "✗ fails" in ran.stdout
    ran = command("compare", SCENARIO, SCENARIO, *QUICK_OPTIONS, "--fail-if", "p99 > +5%")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_schema_presets_and_version() -> None:
    assert json.loads(command("schema").stdout)["$schema"].endswith("2020-12/schema")
    assert SCENARIO in command("presets").stdout
    assert "[machine]" in command("presets", SCENARIO).stdout
    # A machine is called after its processor, and comes first.
    assert 'processor = "xeon-gold-6140"' in command("presets", "xeon-gold-6140").stdout
    assert 'processor = "skylake-sp"' in command("presets", "--kind", "processor", "xeon-gold-6140").stdout
    assert "ConnectX-6 Dx" in command("presets", "connectx-6-dx").stdout
    assert command("--version").stdout.startswith(f"wirespeed {wirespeed.__version__} (commit ")
    module = subprocess.run(
        [sys.executable, "-m", "wirespeed", "--version"], capture_output=True, text=True, check=True
    )
    assert module.stdout == command("--version").stdout


@pytest.mark.skipif(not CAPTURE.exists(), reason="shared/data is not there: no real capture is inspected")
def test_a_real_capture_is_inspected_and_run(tmp_path: Path) -> None:
    ran = command("inspect", str(CAPTURE), "--format", "json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["packets"] == 10_000
    shown = command("inspect", str(CAPTURE), env=os.environ | {"COLUMNS": "60"})
    assert max(map(len, shown.stdout.splitlines()[1:])) <= 60
    ran = command("run", SCENARIO, *QUICK_OPTIONS, "--capture", str(CAPTURE), "--out", str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert CAPTURE.name in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("routes", ["default", "rewrite"])
def test_packets_that_no_route_covers_get_one(tmp_path: Path, routes: str) -> None:
    frames = [documents.frame(i) for i in range(300)]
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = [struct.pack("<IIII", 1, 10 * i, len(each), len(each)) + each for i, each in enumerate(frames)]
    (tmp_path / "trace.pcap").write_bytes(head + b"".join(records))
    (tmp_path / "one.txt").write_text("192.0.2.0/24\n")
    files = ["--capture", str(tmp_path / "trace.pcap"), "--table", str(tmp_path / "one.txt"), "--format=json"]
    short = [*files, "--set=run.packets=3000", "--set=run.curve=[]"]
    rejected = json.loads(command("run", SCENARIO, *short).stdout)
    assert rejected["drops"] == {"no_route": 3000}
    assert "--routes rewrite" in str(rejected["verdict"]["advice"])
    ran = command("run", SCENARIO, *short, "--routes", routes)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["drops"], found["packets"]) == ({}, 3000)
    told = [note for note in found["notes"] if "have a route" in note or "has no route" in note]
    assert bool(told) == (routes == "rewrite"), found["notes"]


@pytest.mark.skipif(not PREFIXES.exists(), reason="shared/data is not there: no real prefix table is inspected")
def test_a_real_prefix_table_is_inspected() -> None:
    assert command("inspect", str(PREFIXES)).returncode == 0
