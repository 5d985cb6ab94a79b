"""Commands begin with an answer, and their tables have one look."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wirespeed import InputError, predict
from wirespeed import quantities as q
from wirespeed.calibrate import busy
from wirespeed.tune import knobs
from wirespeed.tune import page as tuning_page
from wirespeed.tune import text as tuned

SMALL = ["--set", "function.forward.prefixes=1000"]


def run(*words):
    return subprocess.run([sys.executable, "-m", "wirespeed", *words], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        (["predict", "forwarding-64b", *SMALL], r"Carries all of 30\.0 Mpps offered and could carry [\d.]+ Mpps; "),
        (["slices", "--preview"], r"Proposed carries most, by closed form: \d+ million lookups a second"),
        (["copies", "stream", "--set", "workload.rounds=10"], r"Copy table takes least, \d+ clocks a round, "),
        (["cost"], r"A copy table beside a cache of 1024 KiB takes 4\.0 to 33 % of its bits"),
    ],
)
def test_an_answer_comes_first_and_tables_have_no_lines(command, begins):
    ran = run(*command)
    assert ran.returncode == 0, ran.stderr
    assert re.match(begins, " ".join(ran.stdout.split()))
    assert not set("┃│━─┏┌") & set(ran.stdout)


def test_a_prediction_has_no_long_times_and_no_zeros_for_small_numbers():
    printed = run("predict", "forwarding-64b", *SMALL).stdout
    assert not re.search(r"\d,\d{3}\.\d", printed)
    assert "0.000" not in printed


def test_no_preset_is_told_to_be_another_command():
    told = run("presets", "nope").stderr
    assert "did you mean" not in told
    assert "`wirespeed presets` lists all" in told
    assert "did you mean `xeon-gold-6140`" in run("presets", "xeon-god-6140").stderr


def test_a_range_with_too_many_values_is_answered_with_one_by_a_factor():
    with pytest.raises(InputError, match=r"take 128\.\.4096\*2, or 128\.\.4096/10"):
        knobs.parse("nic.rx_descriptors=128..4096", "--vary")


def test_a_knob_that_a_way_leaves_alone_says_so():
    best = {"settings": {"nic.burst": 64}}
    document = {
        "methods": [{"method": "one at a time", "best": best}],
        "knobs": {"nic.burst": [32, 64], "mempool.kind": ["fifo", "lifo"]},
    }
    assert tuned.settings(document)[1] == [["nic.burst", "64"], ["mempool.kind", "as it is"]]


def test_what_others_take_of_the_cpus_is_told_with_how_long_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stat = tmp_path / "stat"
    looks = itertools.cycle(["cpu 100 0 100 800 0 0 0 0\n", "cpu 150 0 150 850 0 0 0 50\n"])

    def next_look(*_: object) -> None:
        stat.write_text(next(looks))

    next_look()
    monkeypatch.setattr(busy.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(busy.time, "sleep", next_look)
    # Of 200 ticks of two CPUs 50 are idle.
    found = busy.others(stat)
    assert found is not None
    assert found.of == 2
    assert found.taken == pytest.approx(1.5, abs=0.1)
    assert "1.5 of 2 CPUs: expect " in busy.words(found)
    monkeypatch.setattr(busy.time, "sleep", lambda _: None)
    assert busy.others(tmp_path / "none") is None


def test_a_tuning_shows_what_each_knob_brings_and_no_chart_of_one_loss():
    points = [
        {"settings": {"nic.burst": burst, "mempool.kind": kind}, "value": value, "loss": 0.0, "infeasible": None}
        | {"on_front": False, "methods": ["grid"]}
        for burst, kind, value in ((16, "fifo", 1.0), (16, "lifo", 2.0), (64, "fifo", 3.0), (64, "lifo", 2.5))
    ]
    document = {"points": points, "knobs": ["nic.burst", "mempool.kind"], "direction": "maximize"}
    document |= {"metric": "cpu_mpps", "loss_limit": None}
    drawn = dict(tuning_page.by_knob(document))
    assert list(drawn) == ["nic.burst", "mempool.kind"]
    spec = drawn["nic.burst"].to_dict()
    dots, line = (spec["datasets"][layer["data"]["name"]] for layer in spec["layer"])
    assert sorted(row["y"] for row in dots) == [1.0, 2.0, 2.5, 3.0]
    assert [(row["x"], row["y"]) for row in line] == [("16", 2.0), ("64", 3.0)]
    assert tuning_page.chart(document) is None
    points[0]["loss"] = 0.5
    assert "<svg" in (tuning_page.chart(document) or "")


def test_a_prediction_says_that_the_nic_takes_no_more():
    paced = ["--set", "nic.packet_interval=50 ns", "--set", "traffic.packet_rate=30 Mpps"]
    printed = run("predict", "forwarding-64b", *SMALL, *paced).stdout
    assert printed.startswith("Carries 20.0 Mpps of 30.0 Mpps offered and could carry 20.0 Mpps; queues grow")
    assert re.search(r"bound by +NIC\n", printed)
    assert " left out: nic.packet_interval" in printed
    # Two queues on each of two cores.
    queues = ["--set", "nic.queue_interval=400 ns", "--set", "nic.queues_per_core=2", "--set", "machine.cores=2"]
    printed = run("predict", "forwarding-64b", *SMALL, *queues).stdout
    assert re.search(r"the NIC takes at most +10\.0 Mpps\n", printed)


def test_a_prediction_names_what_the_function_rejects():
    found = {"offered_mpps": 2.0, "carried_mpps": 1.5, "rejected_mpps": 0.5, "capacity_mpps": 5.0, "sojourn_ns": 1000.0}
    assert predict.sentence(found) == (
        "Carries all but the 0.500 Mpps that the function rejects of 2.00 Mpps offered and could carry 5.00 Mpps; "
        "a packet stays 1.00 µs."
    )
    assert predict.sentence(found | {"carried_mpps": 2.0, "rejected_mpps": 0.0}).startswith("Carries all of 2.00 Mpps")


def test_a_prediction_where_queues_are_long_says_that_it_is_about_right_in_words_and_json():
    small = ("--set", "run.packets=10000", "--set", "function.forward.prefixes=1000", "--format", "json")
    one_core = run("predict", "forwarding-one-core", *small, "--load", "0.03", "--load", "0.1")
    low, high = json.loads(one_core.stdout)["loads"]
    assert (low["long_queues"], high["long_queues"]) == (False, True)
    assert low["utilisation"] < predict.LONG_QUEUES < high["utilisation"]
    assert "about" not in predict.sentence(low)
    assert f"a packet stays about {q.duration(high['sojourn_ns'])}, queues are long here" in predict.sentence(high)
