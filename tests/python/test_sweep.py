"""Sweeps: designs, replications, runs that are known, workers and drivers that die, input that is wrong."""

import fcntl
import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
import tomllib
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from rich.console import Console

import stock
import wirespeed
from wirespeed import cli, files, scenarios
from wirespeed.commands import sweep as command
from wirespeed.sweep import Ask, Plan, study
from wirespeed.sweep import chart as charts
from wirespeed.sweep import engine as engines
from wirespeed.sweep import page as pages
from wirespeed.sweep import text as words
from wirespeed.sweep import until as rule
from wirespeed.sweep import work as worker
from wirespeed.sweep.axes import parse
from wirespeed.sweep.folder import Folder
from wirespeed.sweep.metrics import METRICS, columns
from wirespeed.sweep.plan import read
from wirespeed.sweep.work import Outcome, Task

SMALL = {"run.packets": 2000, "run.warmup": 500, "run.curve": [], "function.forward.prefixes": 1000}
LOADS = {"traffic.load": [0.2, 0.4, 0.8]}


def threads(n=2):
    return ThreadPoolExecutor(n)


def small(vary=None, **given):
    """A sweep of short runs, in threads: no process has to be started."""
    with threads() as pool:
        return wirespeed.sweep("forwarding", vary or LOADS, set=SMALL, executor=pool, **given)


def same(a: Path, b: Path) -> bool:
    return (a / study.RESULTS_FILE).read_bytes() == (b / study.RESULTS_FILE).read_bytes()


# --- the machine that points begin near ---


def test_a_warm_machine_on_disk_changes_no_result_and_a_damaged_one_is_named(tmp_path, monkeypatch):
    given = {name: value for name, value in SMALL.items() if name != "run.warmup"} | {
        "machine.llc.size": "704 KiB",
        "machine.llc.slices": 1,
    }

    def found(cache):
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        monkeypatch.setattr(worker, "_stocks", {})  # as another process has it
        with threads() as pool:
            asked = wirespeed.sweep("forwarding", LOADS, set=given, executor=pool)
        return asked.rows, asked.refused

    kept, none = tmp_path / "wirespeed" / "warm", tmp_path / "file"
    none.write_text("")
    rows, refused = found(none)
    assert refused == ()
    assert all(row["error"] is None for row in rows)
    assert found(tmp_path) == (rows, ())
    (file,) = kept.iterdir()
    whole = file.read_bytes()
    assert found(tmp_path) == (rows, ())
    assert kept.stat().st_mode & 0o777 == 0o700
    # What was used least lately goes where all is too much, and what a kill has left.
    old, left, other = kept / "old.warm", kept / ".x.1.part", kept / "notes"
    for path in (old, left, other):
        path.touch()
        os.utime(path, (0, 0))
    os.truncate(old, 1 << 30)  # it has holes
    os.utime(old, (0, 0))
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    again, refused = found(tmp_path)
    assert again == rows
    assert len(refused) == 1
    assert re.fullmatch(rf"{file}: the state is damaged, \d+ bytes .*; it is made again", refused[0])
    assert set(kept.iterdir()) == {file, other}
    assert file.read_bytes() == whole
    # Whoever finds that another process makes it waits for that.
    file.unlink()
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        brings = threading.Timer(1.0, lambda: files.write(file, whole))
        brings.start()
        began = time.monotonic()
        assert found(tmp_path) == (rows, ())
        assert time.monotonic() - began > 0.9
        brings.join()
    assert file.read_bytes() == whole
    # Nobody waits for what found no room, nor opens what others could have put there.
    file.unlink()
    no_room, lock = file.with_suffix(".no-room"), file.with_suffix(".lock")
    no_room.touch()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert found(tmp_path) == (rows, ())
    assert no_room.exists()
    file.write_bytes(whole[:-1])
    kept.chmod(0o777)
    assert found(tmp_path) == (rows, ())
    assert file.read_bytes() == whole[:-1]


# --- designs ---


def test_a_grid_has_every_combination_once_and_the_last_axis_turns_fastest():
    plan = Plan(Ask("forwarding", {"traffic.load": [0.2, 0.4], "machine.llc.slices": [1, 9, 18]}, set=SMALL))
    at = [tuple(plan.values(place).values()) for place in range(6)]
    assert at == [(0.2, 1), (0.2, 9), (0.2, 18), (0.4, 1), (0.4, 9), (0.4, 18)]


def test_a_latin_hypercube_has_one_point_in_each_row_of_each_axis():
    ask = Ask(
        "forwarding", ["traffic.load=0.1..0.9", "nic.rx_descriptors=64..4096"], set=SMALL, design="latin", samples=16
    )
    plan = Plan(ask)
    loads = sorted(plan.values(place)["traffic.load"] for place in range(16))
    assert [int((load - 0.1) / 0.8 * 16) for load in loads] == list(range(16))
    sizes = sorted(plan.values(place)["nic.rx_descriptors"] for place in range(16))
    assert [(size - 64) * 16 // 4033 for size in sizes] == list(range(16))


def test_a_sobol_sequence_of_a_power_of_two_is_balanced_over_listed_values():
    ask = Ask(
        "forwarding", ["machine.llc.slices=1,2,4,8", "traffic.load=0.1..0.9"], set=SMALL, design="sobol", samples=32
    )
    plan = Plan(ask)
    slices = [plan.values(place)["machine.llc.slices"] for place in range(32)]
    assert [slices.count(n) for n in (1, 2, 4, 8)] == [8, 8, 8, 8]


def test_a_design_depends_on_its_seed_alone():
    def points(seed):
        plan = Plan(Ask("forwarding", ["traffic.load=0.1..0.9"], set=SMALL, design="latin", samples=5, seed=seed))
        return [plan.values(place) for place in range(5)]

    assert points(3) == points(3) != points(4)


def test_cases_are_bundles_under_a_name():
    found = small({"traffic.load": [0.3]}, cases={"narrow": {"machine.llc.io_ways": 1}, "as it is": {}})
    assert [row["case"] for row in found.rows] == ["narrow", "as it is"]
    assert (
        found.rows[0]["levels.DDIO.hit_rate"] != found.rows[1]["levels.DDIO.hit_rate"]
        or found.rows[0]["key"] != (found.rows[1]["key"])
    )


# --- what a study comes to ---


def test_a_point_has_no_curve_unless_one_is_asked_for():
    def curve(vary=LOADS, **given):
        return tomllib.loads(Plan(Ask("forwarding", vary, **given)).task(0, 0).scenario)["run"]["curve"]

    assert curve() == []
    assert curve(set={"run.curve": [0.5]}) == [0.5]
    assert curve({"run.curve": [[0.25], [0.5]]}) == [0.25]
    assert curve(cases={"a": {"run.curve": [0.75]}}) == [0.75]


def test_a_point_is_what_a_run_is():
    found = small({"traffic.load": [0.4]}, near=None)
    result = wirespeed.run("forwarding", set={**SMALL, "traffic.load": 0.4})
    (row,) = found.rows
    assert row["run_id"] == result.run_id
    assert row["carried_mpps"] == result.summary["carried_mpps"]
    assert row["sojourn_ns.p99"] == result.summary["sojourn_ns"]["p99"]
    assert "wall_s" not in row


def test_the_result_does_not_depend_on_who_runs_it(tmp_path):
    small().write(tmp_path / "threads")
    for jobs in (1, 2):
        found = wirespeed.sweep("forwarding", LOADS, set=SMALL, jobs=jobs, out=tmp_path / f"{jobs} processes")
        found.write(tmp_path / f"{jobs} processes")
        assert same(tmp_path / "threads", tmp_path / f"{jobs} processes")


def test_what_is_finished_is_never_run_twice(tmp_path):
    first = small(out=tmp_path)
    again = small({"traffic.load": [0.2, 0.4, 0.6, 0.8]}, out=tmp_path)
    assert (first.ran, again.ran) == (3, 1)
    assert [row["key"] for row in again.rows if row["traffic.load"] != 0.6] == [row["key"] for row in first.rows]
    assert small(out=tmp_path).rows == first.rows


def test_a_damaged_file_of_a_run_is_run_again(tmp_path):
    first = small(out=tmp_path)
    files = sorted((tmp_path / "runs").glob("*.parquet"))
    files[0].write_bytes(files[0].read_bytes()[:100])
    files[1].write_bytes(b"")
    again = small(out=tmp_path)
    assert again.ran == 2
    assert again.rows == first.rows


def test_two_points_that_are_the_same_scenario_run_once():
    found = small({"traffic.load": [0.4]}, cases={"a": {"nic.burst": 32}, "b": {}})
    assert found.ran == 1
    assert found.rows[0]["key"] == found.rows[1]["key"]


def test_a_key_follows_the_content_of_files_and_not_where_they_lie(tmp_path):
    def key(table):
        return Plan(Ask("forwarding", LOADS, set=SMALL, table=table)).task(0, 0).key

    for name, text in (("a", "10.0.0.0/8\n"), ("b", "10.0.0.0/8\n"), ("c", "11.0.0.0/8\n")):
        (tmp_path / name).write_text(text)
    assert key(tmp_path / "a") == key(tmp_path / "b") != key(tmp_path / "c")


def test_a_run_that_fails_is_recorded_and_the_others_go_on(tmp_path):
    # More than the port carries is found when traffic is made; a pool too small for its rings when settings are read.
    vary = {"traffic.packet_rate": ["1 Mpps", "900 Mpps"]}
    found = small({**vary, "mempool.size": [16384, 2048], "nic.rx_descriptors": [256, 1024]}, out=tmp_path)
    assert [row["error"] is None for row in found.rows] == [True, False, True, True] + [False] * 4
    assert "line rate" in found.rows[4]["error"]
    assert "enlarge the pool" in found.rows[1]["error"]
    found.write(tmp_path)
    assert "line rate" in (tmp_path / study.PAGE_FILE).read_text()
    # Those that the settings' rules refuse have not run.
    assert [result["runs"] for result in found.document["results"]] == [1, 0, 1, 1, 1, 0, 1, 1]
    assert "8 points, 6 runs of" in words.counted(found.document)
    assert words.counted(found.document).endswith("; 2 cannot start, 3 failed")
    told = words.closing(found.document)
    assert told.startswith("of 8 points 2 cannot start, 3 failed; the first is traffic.packet_rate=1 Mpps, ")
    assert "enlarge the pool" in told
    cells = [row[-1] for row in words.rows(found.document)[1]]
    assert [cells[place] for place in (1, 4, 5)] == ["no start", "failed", "no start"]
    # What failed is known too, unless it is asked for.
    assert small(vary, out=tmp_path).ran == 0
    assert small(vary, out=tmp_path, retry_failed=True).ran == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"vary": LOADS, "capture": "nope.pcap"}, r"nope\.pcap: no such file"),
        ({"vary": LOADS, "table": "nope.txt"}, r"nope\.txt: no such file"),
        ({"vary": {"traffic.profile": ["isp", "nope"]}}, "--vary traffic.profile, value nope: .* no shipped profile"),
        ({"vary": {"traffic.profile": ["imx"]}}, "did you mean `imix`"),
        ({"vary": {"traffic.capture": ["nope.pcap"]}}, r"--vary traffic.capture, value nope\.pcap: .*no such file"),
        ({"vary": LOADS, "capture": "."}, "is no regular file"),
    ],
)
def test_a_file_or_profile_that_is_not_there_is_told_before_anything_runs(given, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(wirespeed.InputError, match=says):
        wirespeed.sweep("forwarding", **given, set=SMALL, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_last_line_says_how_many_points_have_no_result_and_why(tmp_path, capsys):
    assert swept("--vary", "traffic.packet_rate=1 Mpps,900 Mpps,901 Mpps", out=tmp_path) == command.EXIT_INCOMPLETE
    *_, last = capsys.readouterr().err.strip().splitlines()
    assert last.startswith("wirespeed: of 3 points 2 failed; the first is traffic.packet_rate=900 Mpps: ")
    assert "line rate" in last
    assert swept("--vary", "traffic.packet_rate=1 Mpps,2 Mpps", out=tmp_path) in (None, 0)
    assert not capsys.readouterr().err


def test_a_sweep_of_which_every_run_fails_does_not_succeed(tmp_path):
    with pytest.raises(wirespeed.InputError, match=r"every run failed; the first: .*line rate"):
        swept("--vary", "traffic.packet_rate=800 Mpps,900 Mpps", out=tmp_path)
    # It is recorded all the same.
    assert (tmp_path / study.RESULTS_FILE).exists()


def test_points_that_are_measured_from_different_packets_say_so():
    pools = {"mempool.size": [4096, 16384]}
    given = {name: value for name, value in SMALL.items() if name != "run.warmup"} | {"nic.rx_descriptors": 128}
    with threads() as pool:
        found = wirespeed.sweep("forwarding", pools, set=given, executor=pool, near=None).document
        asked = wirespeed.sweep("forwarding", {"run.warmup": [500, 600]}, set=given, executor=pool).document
    cut = [result["warmup_packets"] for result in found["results"]]
    assert cut[0] != cut[1]
    (told,) = words.warm_ups(found)
    assert told.startswith("points are not measured from the same packet on: their warm-ups end by themselves, after ")
    assert told.endswith(f"--set run.warmup={max(cut)} measures all from one on")
    terminal = Console(file=io.StringIO(), width=400)
    terminal.print(words.summary(found, 400))
    assert told in terminal.file.getvalue()
    assert told[1:] in pages.page(found)
    assert told[1:] in pages.fragment(found)
    # All from one on, or from where it was asked for.
    assert words.warm_ups(small().document) == []
    assert [result["warmup_packets"] for result in asked["results"]] == [500, 600]
    assert words.warm_ups(asked) == []
    assert words.warm_ups({**found, "results": [{**each, "warmup_packets": None} for each in found["results"]]}) == []


def test_the_exit_code_tells_points_that_failed_from_those_that_cannot_start(tmp_path):
    failed = swept("--vary", "traffic.packet_rate=1 Mpps,900 Mpps", out=tmp_path / "failed")
    assert failed == command.EXIT_INCOMPLETE
    # What was measured is written.
    table = pyarrow.parquet.read_table(tmp_path / "failed" / study.RESULTS_FILE)
    assert [error is None for error in table["error"].to_pylist()] == [True, False]
    assert table["carried_mpps"][0].as_py() > 0
    corner = ["--vary", "mempool.size=16384,2048", "--vary", "nic.rx_descriptors=256,1024"]
    assert swept(*corner, out=tmp_path / "corner") in (None, 0)


def swept(*words, out):
    """The command, with short runs."""
    words = ["sweep", "forwarding", *words, "--jobs=1", "--quiet", f"--out={out}"]
    sets = [f"--set={override}" for override in scenarios.overrides(SMALL)]
    return cli.app(args=[*words, *sets], prog_name="wirespeed", standalone_mode=False)


def test_results_are_tables_that_others_read(tmp_path):
    found = small()
    found.write(tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / study.RESULTS_FILE)
    assert table.column("traffic.load").to_pylist() == [0.2, 0.4, 0.8]
    assert json.loads(table.schema.metadata[b"wirespeed.sweep"])["scenario"] == "forwarding"
    assert found.table.to_polars().shape == (3, table.num_columns)
    assert (tmp_path / study.CSV_FILE).read_text().count("\n") == 4


def test_the_page_has_a_chart_of_each_metric_and_every_point(tmp_path):
    vary = {"traffic.load": [0.2, 0.4, 0.6], "machine.llc.slices": [1, 2, 4, 6, 8, 9, 18]}
    page = small(vary, metrics=["carried_mpps", "p99"]).write(tmp_path)[3].read_text()
    assert page.count("<svg") == 2
    assert page.count("<tr>") == 22
    assert "http://" not in page.replace("http://www.w3.org", "")


def labels(at, means, metric="carried_mpps"):
    """The texts of a chart of one axis."""
    results = [
        {"at": {"cores": x}, metric: {"mean": mean, "half_width": None}} for x, mean in zip(at, means, strict=True)
    ]
    drawn = pages.figure(
        charts.figure({"design": "grid", "axes": [{"name": "cores"}], "results": results}, METRICS[metric]),
        metric,
    )
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


def test_ticks_of_a_chart_tell_its_values_apart_and_whole_axes_have_whole_ticks():
    shown = labels([1, 2, 3], [9.588, 9.588, 9.5885])
    assert any(each.startswith("9.588") for each in shown)
    assert {"1", "2", "3"} <= set(shown)
    assert not any("." in each and each[0] in "123" for each in shown)
    assert len({each for each in labels([1, 2], [52.50, 52.57]) if each.startswith("52.5")}) >= 2
    many = labels(range(1, 21), range(1, 21))
    assert not any("." in each for each in many)
    assert "0.5" in labels([0.25, 0.5, 1.0], [1, 2, 3])


# --- replications ---


def test_replications_have_seeds_that_are_the_same_at_all_points():
    found = small(replications=3)
    seeds = [row["seed"] for row in found.rows]
    assert seeds[:3] == seeds[3:6] == seeds[6:]
    assert len(set(seeds)) == 3
    assert seeds[0] == 1  # the scenario's own


def test_a_point_is_run_until_its_half_width_is_met():
    found = small({"traffic.load": [0.4]}, until=["mean 3%"], most_replications=12)
    values = [row["sojourn_ns.mean"] for row in found.rows]
    mean, wide = rule.interval(values)
    assert len(values) >= 3
    assert wide <= 0.03 * mean or len(values) == 12
    # One run fewer was not enough.
    assert len(values) == 3 or rule.interval(values[:-1])[1] > 0.03 * rule.interval(values[:-1])[0]


def test_a_capture_in_rounds_is_the_same_for_every_seed_and_is_run_no_more_than_it_takes_to_see_it(tmp_path):
    frames = [stock.frame(i) for i in range(300)]
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = [struct.pack("<IIII", 1, 10 * i, len(each), len(each)) + each for i, each in enumerate(frames)]
    (tmp_path / "trace.pcap").write_bytes(head + b"".join(records))
    (tmp_path / "all.txt").write_text("0.0.0.0/0\n")
    # In so many rounds every seed starts at the first packet.
    settings = {"run.packets": 10_000, "run.warmup": 500, "run.curve": [], "traffic.rounds": 1000}
    with threads() as pool:
        found = wirespeed.sweep(
            "forwarding",
            {"machine.cores": [1, 2]},
            set=settings,
            capture=tmp_path / "trace.pcap",
            table=tmp_path / "all.txt",
            until=["mean 0.0001%", "carried_mpps 50%"],
            executor=pool,
        )
    assert len(found.rows) == 2 * rule.LEAST
    results = found.document["results"]
    assert all(result["same_packets"] for result in results)
    # The half-width is that of the batches of one run, not none.
    assert results[0]["mean"]["half_width"] >= found.rows[0]["sojourn_ns.half_width"] > 0.01
    assert results[0]["carried_mpps"]["half_width"] > 0
    told = words.widths(found.document)
    assert "the capture is the same for every seed" in told[0]
    assert "'mean 0.0001%' is not met at 2 of 2 points" in told[1]
    page = pages.page(found.document)
    assert "of batches of packets of one run. " in page
    assert "over replications" not in page


def test_one_run_a_point_has_the_half_widths_of_its_batches_and_says_so(tmp_path):
    found = small({"run.seed": [1, 2]}, metrics=["carried_mpps", "mean", "p50", "llc_hit_rate"], near=None)
    for row, result in zip(found.rows, found.document["results"], strict=True):
        assert result["runs"] == 1
        assert result["mean"]["half_width"] == row["sojourn_ns.half_width"] > 0
        assert result["p50"]["half_width"] == row["sojourn_ns.p50_half_width"] > 0
        assert result["carried_mpps"]["half_width"] > 0
        assert result["llc_hit_rate"]["half_width"] is None
    told = words.extremes(found.document)
    # Two seeds of the same machine differ by no more than their batches do.
    assert "Mean sojourn: no point is surely better than the others" in told[1]
    assert told[-1].startswith("Hit rate of the LLC: best at ")
    assert "(one run a point, and none tells an interval of it)" in told[-1]
    assert "half-widths are those of batches of its packets" in words.widths(found.document)[0]
    assert "of batches of packets of one run. " in pages.page(found.document)
    twice = small(replications=2)
    [line] = words.widths(twice.document)
    assert line.startswith("loss is not known of any point: rings and NIC memory take in all packets")
    assert not words.widths(small(replications=2, metrics=["mean"]).document)
    assert "over replications" in pages.page(twice.document)


def searched(runs, same, half_width):
    """A result of one point with a searched rate."""
    ndr = {"mean": 9.0, "half_width": half_width}
    return {"at": {"x": 1}, "error": None, "runs": runs, "same_packets": same, "ndr": ndr}


def studied(*results):
    return {"metrics": ["ndr"], "until": [], "results": list(results), "axes": [{"name": "x"}]} | {
        "name": "x",
        "scenario": "x",
        "build": "x",
        "replications": [1, 30],
    }


@pytest.mark.parametrize(
    ("results", "note"),
    [
        ([searched(1, False, None)], None),
        ([searched(3, True, None)], None),
        ([searched(1, False, 0.1)], "half-width, of batches of packets of one run. "),
        ([searched(3, True, 0.1)], "half-width, of batches of packets of one run. "),
        ([searched(3, False, 0.1)], "half-width, over replications. "),
        ([searched(3, False, 0.1), searched(1, False, None)], "half-width, over replications. "),
        (
            [searched(3, False, 0.1), searched(3, True, 0.1)],
            "over replications; where there is one run, or all see the same",
        ),
    ],
)
def test_the_page_says_what_half_widths_are_of_where_there_are_any(results, note):
    page = pages.page(studied(*results))
    assert note in page if note else "±" not in page


def test_half_widths_are_announced_where_there_are_any():
    assert not words.widths(studied(searched(1, False, None)))
    assert "one run a point: half-widths are those of batches" in words.widths(studied(searched(1, False, 0.1)))[0]
    told = words.widths(studied(searched(3, True, None)))
    assert len(told) == 1
    assert "the same for every seed; more packets (run.packets) say more, more runs do not" in told[0]
    assert "half-widths there are those of batches of one run" in words.widths(studied(searched(3, True, 0.1)))[0]


def test_a_metric_that_no_run_reports_is_not_waited_for():
    """A machine whose DRAM has no currents, and one that forwards nothing, reported none until the most runs."""
    rules = rule.replications(None, ["dram_energy 1%"], 30)
    done = [{"carried_mpps": 1.0 + seed} for seed in range(3)]
    assert not rules.enough(done[:2])
    assert rules.enough(done)
    document = {
        "metrics": ["dram_energy"],
        "until": ["dram_energy 1%"],
        "results": [{"at": {"x": 1}, "error": None, "same_packets": False, "runs": 3}],
    }
    assert words.widths(document) == ["dram_energy has no value at any point: 'dram_energy 1%' is not waited for there"]


def test_the_half_width_of_a_run_is_students_over_its_batches():
    run = columns({"carried_mpps": 2.0, "carried_gbps": 20.0, "batches": {"carried_mpps": [1.0, 2.0, 3.0]}})
    _, wide = rule.interval([1.0, 2.0, 3.0])
    assert rule.within(METRICS["carried_mpps"], run) == pytest.approx(wide)
    assert rule.within(METRICS["carried_gbps"], run) == pytest.approx(10 * wide)
    assert rule.within(METRICS["dram_energy"], run) is None
    assert rule.within(METRICS["loss"], {"loss_half_width": 0.1}) == 0.1


def test_a_half_width_of_zero_is_not_shown():
    assert "±" not in words.value("ndr", {"mean": 10.0, "half_width": 0.0})
    assert "±" in words.value("ndr", {"mean": 10.0, "half_width": 0.1})


def test_a_wanted_half_width_that_is_out_of_reach_ends_at_the_most_runs():
    found = small({"traffic.load": [0.4, 0.8]}, until=["p99 0.001 ns"], most_replications=4)
    assert [row["replication"] for row in found.rows] == [0, 1, 2, 3] * 2


@pytest.mark.parametrize("text", ["loss 0.1 mpps", "p99 0.5 Mpps", "carried_mpps 3 ns", "carried_mpps 3 Gbps"])
def test_a_width_in_the_unit_of_something_else_is_told(text):
    with pytest.raises(wirespeed.InputError, match="the unit is"):
        rule.parse(text)


def test_intervals_are_students():
    assert rule.interval([1.0, 2.0, 3.0, 4.0]) == pytest.approx((2.5, 3.182446 * (5 / 3 / 4) ** 0.5))


# --- workers and drivers that die ---


class Flaky(Executor):
    """Runs at once; a task for which `kills` says so breaks it, with all that is under way, as a pool does."""

    def __init__(self, kills):
        self._kills, self._broken = kills, False

    def submit(self, call, task):  # type: ignore[override]
        if self._broken:
            raise BrokenProcessPool("broken")
        future: Future = Future()
        if self._kills(task):
            self._broken = True
            future.set_exception(BrokenProcessPool("a worker died"))
        else:
            future.set_result(Outcome(task.key, {"carried_mpps": 1.0}))
        return future


class FlakyEngine:
    workers, died = 2, (BrokenProcessPool,)

    def __init__(self, kills):
        self._kills = kills

    def again(self):
        return Flaky(self._kills)


def run_flaky(keys, kills):
    found: dict[str, list[Outcome]] = {}

    def finished(outcome):
        found.setdefault(outcome.key, []).append(outcome)
        return []

    engine = FlakyEngine(kills)
    engines.run(engine, engine.again(), [Task(key, "", "") for key in keys], finished, lambda: None)
    assert all(len(outcomes) == 1 for outcomes in found.values())
    return {key: outcomes[0] for key, outcomes in found.items()}


def test_a_task_that_takes_its_worker_down_each_time_fails_and_the_others_go_on():
    found = run_flaky("abcdefgh", lambda task: task.key == "c")
    assert set(found) == set("abcdefgh")
    assert [key for key, outcome in found.items() if outcome.error] == ["c"]
    assert "its worker died 5 times" in found["c"].error


def test_workers_that_die_by_chance_cost_no_task_its_result():
    left = dict.fromkeys("abcdefgh", 2)

    def kills(task):
        left[task.key] -= 1
        return left[task.key] >= 0

    assert not any(outcome.error for outcome in run_flaky("abcdefgh", kills).values())


def test_an_executor_of_the_callers_that_breaks_ends_the_study_and_says_so():
    class Once(engines.Given):
        pass

    engine = Once(Flaky(lambda task: True), 1)
    with pytest.raises(wirespeed.InputError, match="the executor broke"):
        engines.run(engine, Flaky(lambda task: True), [Task("a", "", "")], lambda outcome: [], lambda: None)


class Cancelling(Executor):
    """Cancels what it is given, as Dask's does when its scheduler has ended."""

    def submit(self, call, task):  # type: ignore[override]
        future: Future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_a_scheduler_that_ends_is_no_result_of_the_runs_under_way():
    kept = []
    with pytest.raises(wirespeed.InputError, match=r"has cancelled runs.*run the study again"):
        engines.run(engines.Given(Cancelling(), 2), Cancelling(), [Task("a", "", "")], kept.append, lambda: None)
    assert kept == []


def test_the_end_of_one_study_leaves_the_workers_of_another_alone():
    one, other = engines.Local(1), engines.Local(1)
    try:
        one.start(()).submit(os.getpid).result()
        pool = other.start(())
        worker_of_other = pool.submit(os.getpid).result()
        one.close()
        assert pool.submit(os.getpid).result() == worker_of_other
    finally:
        one.close()
        other.close()
    wait_for(lambda: not Path(f"/proc/{worker_of_other}").exists())


def test_a_file_is_known_by_its_content_and_only_settings_that_are_files_are(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rules").write_text("10.0.0.0/8\n")
    monkeypatch.setattr(worker._wirespeed, "file_settings", lambda: ["function.forward.table", "machine.clos.*.name"])

    def keys(folder, title):
        ask = Ask("forwarding", LOADS, set=SMALL, table=tmp_path / folder / "rules")
        plan = Plan(ask)
        # A title is no file, whatever it looks like.
        plan._resolved = [(text.replace("a point of a study", title), why) for text, why in plan._resolved]
        return [plan.task(place, 0).key for place in range(3)], plan.files

    first, used = keys("a", str(tmp_path / "a" / "rules"))
    assert used == ((str(tmp_path / "a" / "rules"), 11),)
    assert keys("b", str(tmp_path / "a" / "rules"))[0] == first
    assert keys("a", "another title")[0] != first
    (tmp_path / "a" / "rules").write_text("11.0.0.0/8\n")
    assert keys("a", str(tmp_path / "a" / "rules"))[0] != first


def test_a_recording_that_changed_is_run_again(tmp_path):
    text = '[function]\nkind = "trace"\ntrace.file = "c.probe"\n[run]\npackets = 2000\nwarmup = 100\ncurve = []\n'
    (tmp_path / "s.toml").write_text(text)
    p50s = []
    for loads in (2, 400):
        lines = ["wirespeed-probe 1", "B 60 100", *(f"L {100 + 64 * i} 8" for i in range(loads)), "E forward", ""]
        (tmp_path / "c.probe").write_text("\n".join(lines))
        command = ["sweep", "s.toml", "--vary=traffic.load=0.1", "--jobs=1", "--out=sw", "--format=json"]
        command += ["--metric=p50", "--cold"]
        ran = subprocess.run(
            [sys.executable, "-m", "wirespeed", *command], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        p50s.append(json.loads(ran.stdout)["results"][0]["p50"]["mean"])
    alone = subprocess.run(
        [sys.executable, "-m", "wirespeed", "run", "s.toml", "--set=traffic.load=0.1", "--format=json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert p50s[1] == pytest.approx(json.loads(alone.stdout)["sojourn_ns"]["p50"])
    assert p50s[1] > p50s[0]


def test_a_failed_run_that_is_wanted_again_is_not_found(tmp_path):
    with Folder(tmp_path) as folder:
        folder.put(Outcome("good", {"loss": 0.0}), {})
        folder.put(Outcome("bad", error="no memory"), {})
    with Folder(tmp_path) as folder:
        folder.find(["good"])
        folder.forget_failed()
        # Replications beyond the least are looked for as they are wanted.
        folder.find(["bad"])
        assert folder.get("bad") is None
        assert folder.get("good") is not None


MANY = {"traffic.load": "0.1..1.0/6", "nic.rx_descriptors": [256, 512, 1024, 2048]}


def children(parent):
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True
    ).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "spawn_main" in line]


def driver(out, vary, packets):
    settings = {**SMALL, "run.packets": packets}
    code = (
        "import wirespeed, sys\n"
        "if __name__ == '__main__':\n"
        f"    given = dict(set={settings!r}, engine='local', jobs=2, out={str(out)!r})\n"
        f"    found = wirespeed.sweep('forwarding', {vary!r}, **given)\n"
        f"    found.write({str(out)!r})\n"
    )
    script = Path(out).with_suffix(".py")
    script.write_text(code)
    return subprocess.Popen([sys.executable, str(script)])


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("did not happen in time")


def runs(out):
    return len(list((out / "runs").glob("*.parquet")))


def test_killed_workers_and_a_killed_driver_change_nothing(tmp_path):
    """The short form of the slow test below: a worker is killed twice, the driver once."""
    packets = 8000
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    # In threads of this process: what comes out does not depend on who runs it, and no worker has to start for it.
    settings = {**SMALL, "run.packets": packets}
    wirespeed.sweep("forwarding", MANY, set=settings, jobs=2, out=undisturbed).write(undisturbed)
    with driver(disturbed, MANY, packets) as process:
        for done in (2, 8):
            wait_for(lambda done=done: runs(disturbed) >= done and children(process.pid))
            os.kill(children(process.pid)[0], signal.SIGKILL)
        wait_for(lambda: runs(disturbed) >= 12)
        left = children(process.pid)
        process.kill()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))  # workers end with their driver
    before = {file.name: file.stat().st_mtime_ns for file in (disturbed / "runs").glob("*.parquet")}
    assert 12 <= len(before) < 24
    with driver(disturbed, MANY, packets) as process:
        assert process.wait() == 0
    after = {file.name: file.stat().st_mtime_ns for file in (disturbed / "runs").glob("*.parquet")}
    assert {name: after[name] for name in before} == before  # none was run again
    assert len(after) == 24
    assert same(undisturbed, disturbed)


@pytest.mark.slow
def test_a_thousand_points_with_a_worker_killed_every_20_s_and_the_driver_once_are_bit_identical(tmp_path):
    vary = {"traffic.load": "0.01..1.0/100", "nic.rx_descriptors": [128, 256, 512, 1024, 2048], "nic.burst": [16, 32]}
    packets = 20_000
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    with driver(undisturbed, vary, packets) as process:
        assert process.wait() == 0
    kills = 0
    for last in (False, True):
        with driver(disturbed, vary, packets) as process:
            killed_at = time.monotonic()
            while process.poll() is None:
                if not last and runs(disturbed) >= 500:
                    process.kill()
                    break
                if time.monotonic() - killed_at > 20 and (found := children(process.pid)):
                    os.kill(found[0], signal.SIGKILL)
                    kills, killed_at = kills + 1, time.monotonic()
                threading.Event().wait(0.1)
        assert process.returncode == (0 if last else -signal.SIGKILL)
    assert kills >= 1
    rows = pyarrow.parquet.read_table(disturbed / study.RESULTS_FILE)
    assert rows.num_rows == len(set(rows.column("key").to_pylist())) == 1000
    assert rows.column("error").null_count == 1000
    assert same(undisturbed, disturbed)


# --- input that is wrong, before anything runs ---


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"vary": {"machine.llc.slicez": [1, 2]}}, "did you mean `slices`"),
        ({"vary": {"traffic.load": [0.2, 7]}}, "allowed is a share of line rate"),
        ({"vary": {"traffic.load": []}}, "there are no values"),
        ({"vary": ["traffic.load=0.9..0.1/3"]}, "the range is empty"),
        ({"vary": ["traffic.load=0.9..0.1"], "design": "latin", "samples": 4}, "the interval is empty"),
        ({"vary": ["traffic.load=0.1,0.2", "traffic.load=0.3"]}, "is given twice"),
        ({"vary": {"traffic.load": [0.1], "traffic.rate": ["1 Gbps"]}}, "only one of them would hold"),
        ({"vary": {"traffic.load": [0.1]}, "set": {"traffic.load": 0.5}}, "only one of them would hold"),
        ({"vary": {"run.seed": [1, 2]}, "replications": 2}, "replications have seeds of their own"),
        ({"vary": {}}, "nothing to vary"),
        (
            {"vary": {"traffic.capture": ["a.pcap"], "traffic.profile": ["imix", "isp"]}},
            "sets traffic.profile, but --vary traffic.capture sets traffic.capture",
        ),
        (
            {"vary": {"traffic.flows.count": [1, 2]}, "set": {"traffic.capture": "a.pcap"}},
            "only one of them would hold",
        ),
        ({"vary": {"traffic.profile": ["isp"]}, "capture": "a.pcap"}, "--capture sets traffic.capture"),
        ({"vary": {"function.forward.table": ["a", "b"]}, "table": "a"}, "--table sets function.forward.table"),
        ({"vary": LOADS, "set": {"function.forward.table": "b"}, "table": "a"}, "--table and --set"),
        ({"vary": LOADS, "set": {"run.search": "pdr"}, "metrics": ["ndr"]}, "--metric ndr and --set run.search"),
        ({"vary": LOADS, "seed": 5}, "simulation is --set run.seed=5"),
        ({"vary": ["traffic.load=0.1..1.0"]}, "in which steps.*--design latin"),
        ({"vary": LOADS, "design": "grit"}, "did you mean `grid`"),
        ({"vary": LOADS, "design": "sobol"}, "needs --samples"),
        ({"vary": LOADS, "samples": 4}, "a grid has as many points"),
        ({"vary": LOADS, "until": ["p98 1%"]}, "did you mean `p99`"),
        ({"vary": LOADS, "until": ["p99 -1%"]}, "above 0"),
        ({"vary": LOADS, "until": ["p99 1 parsec"]}, "the unit is"),
        ({"vary": LOADS, "until": ["p99 0%"]}, "above 0"),
        ({"vary": LOADS, "metrics": ["carried"]}, "must be one of"),
        ({"vary": LOADS, "engine": "slurm"}, "must be one of threads, local, dask"),
        ({"vary": LOADS, "engine": "dask"}, "needs --scheduler"),
        ({"vary": LOADS, "scheduler": "tcp://nowhere:1"}, "goes with --engine dask"),
        ({"vary": LOADS, "jobs": 0}, "must be at least 1"),
        ({"vary": ["run.packets=1..1000000"]}, "at most 1000"),
    ],
)
def test_wrong_input_is_told_before_anything_runs(given, says, tmp_path):
    with pytest.raises(wirespeed.InputError, match=says):
        wirespeed.sweep("forwarding", **({"set": SMALL} if "set" not in given else {}), **given, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- from Python, as a script ---


def script(folder, text, *, stdin=False):
    """Runs a script, from a file or from stdin; its exit code and what it printed."""
    (folder / "study.py").write_text(text)
    told = {"input": text} if stdin else {}
    called = [sys.executable, "-" if stdin else "study.py"]
    ran = subprocess.run(called, cwd=folder, capture_output=True, text=True, timeout=300, **told)
    return ran.returncode, ran.stdout, ran.stderr


def printed_example():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "sweep.md").read_text()
    return re.search(r"```python\n(import wirespeed\n.*?)```", page, re.DOTALL).group(1)


def test_the_printed_example_works_as_a_script(tmp_path):
    # On a machine that is warm soon, as on the page of it in test_documents.py.
    printed = '{"run.packets": 20_000}'
    example = printed_example()
    assert example.count(printed) == 1
    example = example.replace(printed, repr({**SMALL, "run.packets": 20_000}))
    code, out, err = script(tmp_path, example + "print(study)\n")
    assert (code, err) == (0, "")
    assert "8 points, 24 runs>" in out
    # And as what a shell hands to Python; everything is known by now.
    code, out, err = script(tmp_path, example + "print(study.ran, study)\n", stdin=True)
    assert (code, out, err) == (0, "0 <wirespeed study: 8 points, 24 runs>\n", "")


def test_processes_that_cannot_start_are_no_failure_of_the_runs(tmp_path):
    call = f"wirespeed.sweep('forwarding', {LOADS!r}, set={SMALL!r}, out='study', engine='local', jobs=2)"
    code, _, err = script(tmp_path, f"import wirespeed\nprint({call})\n")
    assert code == 1
    # Python itself may have a word on the pool's pipes after it, on its way out.
    said = [line for line in err.splitlines() if "InputError: the processes" in line]
    assert 'put what it does under `if __name__ == "__main__":`, or leave the engine out' in said[-1]
    assert not list((tmp_path / "study" / "runs").iterdir())
    code, out, _ = script(tmp_path, f"import wirespeed\nif __name__ == '__main__':\n    print({call})\n")
    assert (code, out) == (0, "<wirespeed study: 3 points, 3 runs>\n")


def test_workers_that_end_before_they_have_begun_are_no_failure_of_the_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "prepare", os.abort)
    with pytest.raises(wirespeed.InputError, match="cannot start"):
        study.run(Ask("forwarding", LOADS, set=SMALL), tmp_path, engines.Local(1))
    assert not list((tmp_path / "runs").iterdir())


def test_a_study_of_which_every_run_failed_raises(tmp_path):
    class Refusing(Executor):
        def submit(self, call, *given, **named):
            done = Future()
            if call is worker.work:
                done.set_exception(RuntimeError("no luck"))
            else:
                done.set_result(call(*given, **named))
            return done

    with pytest.raises(wirespeed.InputError, match="every run failed; the first: RuntimeError: no luck"):
        wirespeed.sweep("forwarding", LOADS, set=SMALL, out=tmp_path, executor=Refusing())


def test_ctrl_c_ends_threads_that_are_in_long_runs(tmp_path):
    def press(phase, done, total, note):
        if next(calls, None) is None:
            raise KeyboardInterrupt

    calls = iter(range(10))
    before = time.monotonic()
    long = SMALL | {"run.packets": 2_000_000_000}
    with pytest.raises(KeyboardInterrupt):
        wirespeed.sweep("forwarding", LOADS, set=long, out=tmp_path, jobs=2, progress=press)
    # They would take hours.
    assert time.monotonic() - before < 60
    assert not list((tmp_path / "runs").iterdir())


def test_two_studies_do_not_write_to_one_folder_at_a_time(tmp_path):
    with Folder(tmp_path), pytest.raises(wirespeed.InputError, match="another study writes"):
        small(out=tmp_path)


def test_a_worker_of_another_build_is_refused(monkeypatch):
    task = Plan(Ask("forwarding", LOADS, set=SMALL)).task(0, 0)
    monkeypatch.setattr(worker, "build", lambda: "0.0.1 (other)")
    with pytest.raises(worker.VersionMismatchError, match=r"has wirespeed 0\.0\.1"):
        worker.work(task)
    theirs = worker.identify()
    monkeypatch.undo()
    assert "install the same build" in (worker.differences([theirs]) or "")
    assert worker.differences([worker.identify()]) is None


def test_a_worker_without_the_files_is_refused(tmp_path):
    theirs = worker.identify(((str(tmp_path / "trace.pcap"), 10),))
    assert "does not have" in (worker.differences([theirs]) or "")


# --- study files ---


def test_a_study_file_is_what_the_command_line_says(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(
        'scenario = "forwarding"\nreplications = 2\nmetrics = ["p99"]\n'
        '[set]\n"run.packets" = 2000\nrun.warmup = 500\n[vary]\ntraffic.load = [0.2, 0.4]\n'
        '[cases.narrow]\n"machine.llc.io_ways" = 1\n[cases.wide]\n"machine.llc.io_ways" = 4\n'
    )
    ask = read(file)
    assert ask is not None
    plan = Plan(ask)
    assert [axis.name for axis in plan.axes] == ["case", "traffic.load"]
    assert plan.set == ["run.packets=2000", "run.warmup=500"]
    assert plan.replications.least == 2
    assert read(Path("forwarding")) is None


def asked(**said):
    """What a command line asks for."""
    return command.asked(command.Options(**said))


def test_a_zero_of_the_command_line_is_not_left_out(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text('scenario = "forwarding"\nseed = 5\nreplications = 2\n[vary]\ntraffic.load = [0.2, 0.4]\n')
    ask = asked(scenario=str(file), seed=0, replications=0, samples=None, until=[])
    assert (ask.seed, ask.samples, ask.until) == (0, None, ())
    with pytest.raises(wirespeed.InputError, match="--replications 0: must be at least 1"):
        Plan(ask)


def test_samples_of_whole_numbers_are_as_many_on_either_side_of_zero():
    axis = parse("a.b=-2..1", sampled=True)
    assert [axis.at(share).value for share in (0.0, 0.2, 0.3, 0.6, 0.9)] == [-2, -2, -1, 0, 1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("varry = {}\n", "did you mean `vary`"),
        ("vary = 3\n", "must be a table"),
        ("until = 'p99 1%'\n", "must be a list"),
        ("samples = '3'\n", "must be a whole number"),
    ],
)
def test_a_wrong_study_file_is_told(text, says, tmp_path):
    file = tmp_path / "study.toml"
    file.write_text('scenario = "forwarding"\n' + text)
    with pytest.raises(wirespeed.InputError, match=says):
        read(file)


def test_a_range_ends_where_it_says():
    def values(text):
        return [level.value for level in parse(f"traffic.load={text}").levels]

    assert values("0.1..0.3+0.1") == [0.1, 0.2, 0.3]
    assert values("0.1..1+0.1") == [round(0.1 * i, 1) for i in range(1, 11)]
    assert values("0.1..0.35+0.1") == [0.1, 0.2, 0.3]
    assert values("0.1..0.8*2") == [0.1, 0.2, 0.4, 0.8]
    assert values("0.001..1000*10") == [0.001, 0.01, 0.1, 1, 10, 100, 1000]
    assert values("1..4") == [1, 2, 3, 4]
    assert values("10000000000..10000000002") == [10**10, 10**10 + 1, 10**10 + 2]


def test_numbers_and_arrays_of_numpy_are_values(tmp_path):
    plan = Plan(
        Ask("forwarding", {"traffic.load": np.linspace(0.1, 0.3, 3), "nic.burst": np.array([16, 32])}, set=SMALL)
    )
    assert [plan.values(place)["traffic.load"] for place in (0, 2, 4)] == [0.1, 0.2, 0.3]
    assert {type(value) for value in plan.values(0).values()} == {float, int}
    loaded = [wirespeed.resolve("forwarding", set={"traffic.load": load}) for load in (np.float64(0.3), 0.3)]
    assert loaded[0] == loaded[1]
    curve = wirespeed.resolve("forwarding", set={"run.curve": np.array([0.25, 0.5])})
    assert curve == wirespeed.resolve("forwarding", set={"run.curve": [0.25, 0.5]})
    assert "ways = 4" in wirespeed.resolve("forwarding", set={"machine.llc.ways": np.int64(4)})


def test_an_option_and_a_setting_that_agree_are_one():
    plan = Plan(Ask("forwarding", LOADS, set={**SMALL, "run.search": "ndr"}, metrics=["ndr"]))
    assert len(plan.points) == 3


def test_axes_of_a_study_file_and_of_the_command_line_go_together(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text('scenario = "forwarding"\n[vary]\nmempool.shuffled = [true, false]\nnic.burst = "16..32*2"\n')
    found = asked(scenario=str(file), vary=["traffic.load=0.2,0.4"], settings=["run.packets=2000"])
    plan = Plan(found)
    assert [axis.name for axis in plan.axes] == ["mempool.shuffled", "nic.burst", "traffic.load"]
    assert len(plan.points) == 8
    assert plan.values(0)["mempool.shuffled"] is True
    for again in (["nic.burst=8"], ["traffic.load=0.2", "traffic.load=0.4"]):
        with pytest.raises(wirespeed.InputError, match=r"varies it too|is given twice"):
            asked(scenario=str(file), vary=again)
    with pytest.raises(wirespeed.InputError, match="must be PATH=VALUES"):
        asked(scenario=str(file), vary=["traffic.load"])


def many(metrics, **at):
    """A study of one point with long numbers."""
    numbers = {name: {"mean": 12345.678, "half_width": 12.3} for name in metrics}
    results = [{"at": at, "error": None, "runs": 3, "same_packets": False, **numbers}]
    axes = [{"name": name} for name in at]
    return {"metrics": metrics, "results": results, "axes": axes, "replications": [3, 3], "until": []} | {
        "name": "x",
        "scenario": "x",
    }


def test_a_table_of_many_metrics_is_cut_into_blocks_and_no_number_is():
    names = ["carried_mpps", "carried_gbps", "loss", "mean", "p50", "p99", "p999", "llc_hit_rate", "dram_gb_per_s"]
    document = many(names, **{"machine.llc.ways": 8, "machine.l2.ways": 16})
    console = Console(width=80, file=io.StringIO())
    console.print(words.summary(document, 80))
    printed = console.file.getvalue()
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert printed.count("llc.ways") - printed.count("machine.llc.ways") >= 2
    assert "l2.ways" in printed
    for name in names:
        assert words.value(name, document["results"][0][name]) in printed
        assert name in printed


def test_files_are_shown_by_their_names_where_those_tell_them_apart():
    document = many(["loss"], **{"traffic.capture": "/somewhere/far/away/trace.pcap"})
    assert words.rows(document)[1][0][0] == "trace.pcap"
    document["results"].append({**document["results"][0], "at": {"traffic.capture": "/elsewhere/trace.pcap"}})
    assert [row[0] for row in words.rows(document)[1]] == ["/somewhere/far/away/trace.pcap", "/elsewhere/trace.pcap"]


def test_truths_are_shown_as_they_are_set():
    document = described({True: 100.0, False: 300.0})
    assert [row[0] for row in words.rows(document)[1]] == ["true", "false"]
    assert "best at x=true" in words.extremes(document)[0]


def test_ranges_are_told_apart():
    assert [level.value for level in parse("nic.burst=8..32/4").levels] == [8, 16, 24, 32]
    assert [level.value for level in parse("nic.burst=8..32+8").levels] == [8, 16, 24, 32]
    assert [level.value for level in parse("nic.burst=8..32*2").levels] == [8, 16, 32]


def described(means, half_width=1.0, runs=3):
    results = [
        {
            "at": {"x": x},
            "error": None,
            "runs": runs,
            "same_packets": False,
            "p99": {"mean": mean, "half_width": half_width},
        }
        for x, mean in means.items()
    ]
    return {"metrics": ["p99"], "results": results, "axes": [{"name": "x"}], "replications": [3, 3]}


@pytest.mark.parametrize(
    ("means", "half_width", "says"),
    [
        ({1: 100.0, 2: 200.0, 3: 300.0}, 1.0, "best at x=1, 100.0 ± 1.0 ns"),
        ({1: 100.0, 2: 101.0, 3: 300.0}, 1.0, "best at x=1, 100.0 ± 1.0 ns; x=2 cannot be told from it"),
        ({1: 100.0, 2: 101.0, 3: 101.2, 4: 300.0}, 1.0, "; 2 more points cannot be told from it"),
        ({1: 100.0, 2: 101.0, 3: 101.2}, 1.0, "no point is surely better than the others"),
        ({1: 100.0, 2: 101.0}, None, "best at x=1, 100 ns (without intervals)"),
    ],
)
def test_what_is_best_is_told_with_what_cannot_be_told_from_it(means, half_width, says):
    assert says in words.extremes(described(means, half_width))[0]
