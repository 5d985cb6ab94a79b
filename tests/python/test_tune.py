"""Tuning: what may be searched, that nothing is run twice, and that the joint search finds what the grid finds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import wirespeed
from wirespeed import InputError, cli, sealed
from wirespeed.tune import Measurement, Settings, knobs, search
from wirespeed.tune.journal import SCHEMA as JOURNAL
from wirespeed.tune.journal import Journal
from wirespeed.tune.search import Evaluator, Goal
from wirespeed.tune.target import Simulated

OVERLOADED = """
name = "one worker behind a receiving core, small LLC, overloaded"
[traffic]
profile = "imix"
packet_rate = "28 Mpps"
[function.forward]
prefixes = 20_000
[machine]
preset = "xeon-gold-6140"
cores = 2
[machine.l2]
size = "256 KiB"
[machine.llc]
size = "1.375 MiB"
slices = 4
[pipeline]
rx_cores = 1
[nic]
rx_descriptors = 2048
[mempool]
size = 32768
[run]
packets = 4_000
warmup = 6_000
"""
KNOBS = {"nic.rx_descriptors": [128, 512, 2048], "mempool.size": "2048..32768*4", "mempool.kind": ["fifo", "lifo"]}


class Hill:
    """A made target with one peak where knobs act together; the pool has to be larger than the ring."""

    identity = "hill"

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.lock = threading.Lock()

    def check(self, settings: Settings) -> str | None:
        values = self.whole(settings)
        return None if values["pool"] > values["ring"] else f"pool {values['pool']} <= ring {values['ring']}"

    def evaluate(self, settings: Settings, is_stopped: Callable[[], bool]) -> Measurement:
        with self.lock:
            self.ran.append(knobs.key(settings))
        v = self.whole(settings)
        rate = 20 - abs(v["ring"] - 3) / 2 - abs(v["pool"] - v["ring"] - 1) / 4 + (v["kind"] == "lifo") - v["queue"] / 9
        return Measurement({"carried_mpps": rate, "loss": 0.3 - 0.02 * v["queue"], "p99_ns": 10.0 * v["queue"]}, 1.0)

    def whole(self, settings: Settings) -> dict[str, Any]:
        return {"ring": 30, "pool": 31, "kind": "fifo", "queue": 3} | dict(settings)


HILL_KNOBS = knobs.knobs(["ring=1..6", "pool=1..6", "kind=fifo,lifo", "queue=0..12"])


def best(tried: search.Tried, goal: Goal) -> float:
    found = tried.best(goal)
    assert found is not None
    value = goal.value(found.found)
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=1,2,4", (1, 2, 4)),
        ("a.b=128..1000*2", (128, 256, 512)),
        ("a.b=1..3", (1, 2, 3)),
        ("a.b=4,2,1", (1, 2, 4)),
        ("a.b=0.5..1.0+0.25", (0.5, 0.75, 1.0)),
        ("a.b=fifo, lifo", ("fifo", "lifo")),
        ("a.b=true,false", (True, False)),
        ("a.b=1 MiB,2 MiB", ("1 MiB", "2 MiB")),
        ('a.b="x"', ("x",)),
    ],
)
def test_values_are_read(text: str, values: tuple[object, ...]) -> None:
    assert knobs.parse(text).values == values


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a.b", "must be PATH=VALUES"),
        ("=1", "must be PATH=VALUES"),
        ("a.b=", "a value is empty"),
        ("a.b=1,,2", "a value is empty"),
        ("a.b=9..4", "the range is empty"),
        ("a.b=1..8*1", "never ends"),
        ("a.b=0..8*2", "never ends"),
        ("a.b=1..8+0", "never ends"),
        ("a.b=x..8*2", "x is no number"),
        ("a.b=1,2,1", "given twice"),
        ("a.b=1..100000", "at most 1000"),
    ],
)
def test_bad_values_say_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        knobs.parse(text)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"knobs": ["nic.rx_descriptor=128"]}, "rx_descriptors"),
        ({"knobs": ["mempool.kind=fifo,stack"]}, "stack"),
        ({"knobs": ["nic.burst=8", "nic.burst=16"]}, "nic.burst: is given twice"),
        ({"knobs": []}, "nothing to tune"),
        ({"knobs": {"nic.burst": []}}, "no values"),
        ({"loss_limit": 1.5}, "from 0 to 1"),
        ({"loss_limit": float("nan")}, "from 0 to 1"),
        ({"metric": "p98"}, "did you mean `p9"),
        ({"evaluations": 0}, "evaluations = 0"),
        ({"jobs": 0}, "jobs = 0"),
    ],
)
def test_bad_input_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, arguments: Mapping[str, Any], words: str
) -> None:
    def run(*given: object, **named: object) -> Measurement:
        raise AssertionError("something was run")

    monkeypatch.setattr(Simulated, "evaluate", run)
    with pytest.raises(InputError, match=words):
        wirespeed.tune(OVERLOADED, **({"knobs": ["nic.burst=8,32"]} | dict(arguments)))


def test_the_command_ends_with_2_on_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["wirespeed", "tune", "forwarding", "--knob", "nic.brst=8"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == cli.EXIT_INPUT
    assert "burst" in capsys.readouterr().err


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_joint_search_comes_within_two_percent_of_the_grid(seed: int) -> None:
    goal, target = Goal("carried_mpps"), Hill()
    evaluator = Evaluator(target, Journal(None, ""), jobs=1)
    found = search.joint(HILL_KNOBS, evaluator, goal, 60, 4, seed)
    assert len(found.points) == 60
    assert len(target.ran) == len(set(target.ran)) <= 60
    truth = search.grid(HILL_KNOBS, Evaluator(Hill(), Journal(None, ""), jobs=1))
    assert best(found, goal) >= 0.98 * best(truth, goal)


def test_a_loss_limit_is_a_constraint() -> None:
    evaluator = Evaluator(Hill(), Journal(None, ""), jobs=1)
    goal = Goal("carried_mpps", 0.1)
    for tried in (search.joint(HILL_KNOBS, evaluator, goal, 40, 4, 0), search.grid(HILL_KNOBS, evaluator)):
        found = tried.best(goal)
        assert found is not None
        assert goal.is_met(found.found)
        assert found.settings["queue"] >= 10  # type: ignore[operator]


def test_what_cannot_start_is_kept_with_its_reason() -> None:
    tried = search.grid(HILL_KNOBS, Evaluator(Hill(), Journal(None, ""), jobs=2))
    failed = [point for point in tried.points if point.found.infeasible is not None]
    assert len(failed) == sum(pool <= ring for ring in range(1, 7) for pool in range(1, 7)) * 2 * 13
    assert all("<= ring" in (point.found.infeasible or "") for point in failed)


def test_the_joint_search_does_not_depend_on_jobs_or_on_being_resumed(tmp_path: Path) -> None:
    goal = Goal("carried_mpps")
    alone = search.joint(HILL_KNOBS, Evaluator(Hill(), Journal(None, ""), jobs=1), goal, 30, 4, 3)
    side_by_side = search.joint(HILL_KNOBS, Evaluator(Hill(), Journal(None, ""), jobs=3), goal, 30, 4, 3)
    assert alone.points == side_by_side.points
    with Journal(tmp_path / "journal", "hill") as journal:
        search.joint(HILL_KNOBS, Evaluator(Hill(), journal, jobs=1), goal, 13, 4, 3)
    target = Hill()
    with Journal(tmp_path / "journal", "hill") as journal:
        known = len(journal)
        resumed = search.joint(HILL_KNOBS, Evaluator(target, journal, jobs=1), goal, 30, 4, 3)
    assert best(resumed, goal) == max(goal.value(p.found) or 0 for p in resumed.points)
    assert known == 13
    asked = {knobs.key(point.settings) for point in resumed.points if point.found.infeasible is None}
    assert len(target.ran) < len(asked)


def test_a_search_over_the_whole_grid_tries_each_point_once() -> None:
    small = knobs.knobs(["ring=1..4", "kind=fifo,lifo"])
    tried = search.joint(small, Evaluator(Hill(), Journal(None, ""), jobs=1), Goal("p99"), 60, 3, 0)
    assert len(tried.points) == len({knobs.key(point.settings) for point in tried.points}) == 8


def test_one_at_a_time_takes_descriptors_and_buffers_first() -> None:
    mixed = [
        knobs.knob("nic.burst", [8, 32]),
        knobs.knob("mempool.size", [1, 2]),
        knobs.knob("nic.rx_descriptors", [1]),
    ]
    tried = search.one_at_a_time(mixed, Evaluator(Hill(), Journal(None, ""), jobs=1), Goal("carried_mpps"))
    turned = [next(reversed(point.settings), "") for point in tried.points]
    assert turned == ["", "nic.rx_descriptors", "mempool.size", "mempool.size", "nic.burst", "nic.burst"]


def test_what_a_kill_left_of_the_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(path, "x") as journal:
        journal.put({"a": 1}, Measurement({"loss": 0.5}, 1.0))
        journal.put({"a": 2}, Measurement({}, 0.0, "too small"))
    path.write_bytes(path.read_bytes() + b'{"settings": {"a": 3}, "val')
    with Journal(path, "x") as journal:
        assert journal.get({"a": 1}) == Measurement({"loss": 0.5}, 1.0)
        assert journal.get({"a": 2}) == Measurement({}, 0.0, "too small")
        assert journal.get({"a": 3}) is None
        journal.put({"a": 3}, Measurement({"loss": 0.25}, 1.0))
        with pytest.raises(InputError, match="another search writes"):
            Journal(path, "x")
    with Journal(path, "x") as journal:
        assert len(journal) == 3


def lines(*documents: dict[str, Any]) -> str:
    return "".join(json.dumps(sealed.seal(each)) + "\n" for each in documents)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (lines({"schema": JOURNAL, "target": "y"}), "of another scenario"),
        ('{"schema": "wirespeed.run/1"}\n', "is no journal"),
        ("x = 1\n", "line 1: is not a JSON object"),
        (f'{{"schema": "{JOURNAL}", "target": "x"}}\n', "line 1: does not fit its checksum"),
        (lines({"schema": JOURNAL, "target": "x"}, {"a": 1}), "line 2: is no measurement"),
    ],
)
def test_a_journal_of_something_else_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "journal").write_text(text)
    with pytest.raises(InputError, match=words):
        Journal(tmp_path / "journal", "x")
    assert (tmp_path / "journal").read_text() == text


def test_a_killed_search_runs_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(OVERLOADED)
    journal = tmp_path / "journal"
    command = [sys.executable, "-m", "wirespeed.cli", "tune", "s.toml", "--quiet", "--format", "json", "--jobs", "1"]
    command += ["--knob", "nic.rx_descriptors=128..2048*2", "--knob", "mempool.kind=fifo,lifo"]
    command += ["--evaluations", "8", "--journal", str(journal)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        ends = time.monotonic() + 60
        while time.monotonic() < ends and process.poll() is None:
            if journal.exists() and journal.read_bytes().count(b"\n") >= 4:
                break
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    kept = journal.read_bytes()
    kept = kept[: kept.rfind(b"\n") + 1]
    document = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout)
    assert journal.read_bytes().startswith(kept)
    lines = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    settings = [knobs.key(line["settings"]) for line in lines]
    assert len(settings) == len(set(settings))
    assert document["ran"] == len(lines) - (kept.count(b"\n") - 1) < len(lines)


def test_a_scenario_is_tuned_from_end_to_end(tmp_path: Path) -> None:
    scenario = tmp_path / "s.toml"
    scenario.write_text(OVERLOADED)
    found = wirespeed.tune(scenario, KNOBS, evaluations=14, grid=True, journal=tmp_path / "journal")
    document = found.document
    ways = {way["method"]: way for way in document["methods"]}
    assert list(ways) == ["ResQ's rule", "one at a time", "joint search", "grid"]
    truth = ways["grid"]["best"]["value"]
    assert ways["grid"]["evaluations"] == 18
    assert ways["grid"]["infeasible"] == 2  # a pool of 2,048 for rings of 2,048 and a burst
    assert ways["joint search"]["best"]["value"] >= 0.98 * truth
    assert document["best"]["value"] == truth > document["base"]["value"]
    failed = [point["infeasible"] for point in document["points"] if point["infeasible"]]
    assert all("nic.rx_descriptors + nic.burst) <= mempool.size" in each for each in failed)
    # The command and the settings lead to the value that is told.
    again = wirespeed.run(scenario, set=found.settings)
    assert again.summary["carried_mpps"] == document["best"]["value"]
    assert all(f"--set {path}={value}" in found.command for path, value in found.settings.items())
    page = next(file for file in found.write(tmp_path / "out") if file.suffix == ".html").read_text()
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert json.loads((tmp_path / "out" / "tuning.json").read_text()) == document


def test_the_search_library_is_imported_by_a_search_only() -> None:
    code = "import sys, wirespeed.cli; sys.exit('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
