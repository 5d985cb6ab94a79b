"""Sampled sets: the command that compares them with all sets, and what a run says of itself."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from wirespeed import InputError, api, cli, run, sampling

QUICK: dict[str, Any] = {
    "run.packets": 5_000,
    "run.warmup": 3_000,
    "run.curve": [],
    "function.forward.prefixes": 2_000,
    "mempool.size": 8192,
}


@pytest.fixture
def wirespeed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["wirespeed", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        printed = capsys.readouterr()
        return left.value.code, printed.out, printed.err

    return call


def test_a_run_with_all_sets_says_nothing_of_sampling_and_one_with_some_states_its_error() -> None:
    assert run("forwarding", set=QUICK).summary["sampling"] is None
    summary = run("forwarding", set={**QUICK, "machine.sampling": 8}).summary
    found = summary["sampling"]
    assert found is not None
    assert found["one_in"] == 8
    assert {level["name"] for level in found["levels"]} == {"L2", "LLC", "DDIO", "DMA read"}
    assert all(0.0 <= level["half_width"] < 1.0 and level["lines"] > 0 for level in found["levels"])
    assert all(level["levels_half_width"] >= level["half_width"] for level in found["levels"])
    # The bound is that half-width and how far the rate of all lines is from that of the followed ones.
    rates = {level["name"]: level["hit_rate"] for level in summary["levels"]}
    for level in found["levels"]:
        apart = abs(rates[level["name"]] - level["hit_rate"])
        assert level["levels_half_width"] == pytest.approx(level["half_width"] + apart)
    assert any("one in 8 sets of the LLC was followed" in note for note in summary["notes"])


def test_the_comparison_is_of_the_same_packets_and_has_each_difference() -> None:
    found = api.sampling("forwarding", set=QUICK, one_in=4)
    assert found["one_in"] == 4
    rows = {row["what"]: row for row in found["rows"]}
    for row in rows.values():
        if row["difference"] is not None:
            assert row["difference"] == pytest.approx(row["sampled"] - row["all"])
    # L1 holds all lines.
    assert abs(rows["L1d misses"]["difference"]) < 0.002
    assert rows["carried_mpps"]["difference"] == pytest.approx(0.0, abs=0.01 * rows["carried_mpps"]["all"])
    assert rows["LLC misses"]["stated"] is not None
    assert sampling.table(found).row_count == len(rows) + 1


def test_a_scenario_with_sampling_is_compared_at_its_own() -> None:
    assert api.sampling("forwarding", set={**QUICK, "machine.sampling": 2})["one_in"] == 2
    assert api.sampling("forwarding", set=QUICK)["one_in"] == sampling.DEFAULT


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"machine.sampling": 3}, "machine.sampling = 3: allowed is a power of two, 1 to 64"),
        ({"machine.sampling": 0}, "machine.sampling = 0: allowed is a power of two, 1 to 64"),
        ({"machine.sampling": 8, "machine.copy_table": {}}, "machine.sampling = 8 with machine.copy_table"),
    ],
)
def test_what_cannot_be_sampled_is_an_error_with_its_path(changed: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run("forwarding", set={**QUICK, **changed})


def test_the_command_prints_both_and_the_difference(wirespeed: Any) -> None:
    settings = [word for path, value in QUICK.items() for word in ("--set", f"{path}={json.dumps(value)}")]
    code, out, _ = wirespeed("sampling", "forwarding", *settings)
    assert code == 0
    assert "One set in 8 beside all sets" in out
    assert "sojourn_ns.mean" in out
    assert "packets/s simulated" in out
    code, out, _ = wirespeed("sampling", "forwarding", "--format", "json", *settings)
    assert code == 0
    assert json.loads(out)["one_in"] == 8
    code, _, complaint = wirespeed("sampling", "forwarding", "--one-in", "5", *settings)
    assert code == 2
    assert "machine.sampling = 5" in complaint
