"""What is assumed of a machine is read from its parts, and how much it matters is measured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wirespeed import api, assumed

LATENCY = "nic.pcie.latency"
INSTRUCTIONS = {f"nic.driver.{what}_instructions" for what in ("rx", "post", "tx", "free", "call")}


def paths(**settings: object) -> dict[str, assumed.Assumed]:
    resolved = api.resolve("forwarding", set={path.replace("__", "."): value for path, value in settings.items()})
    return {each.path: each for each in assumed.numbers(resolved)}


def test_what_a_part_says_is_assumed_is_listed_with_the_part_that_says_so() -> None:
    found = paths()
    assert found[LATENCY].value == "250 ns"
    assert found[LATENCY].part == "nic 100g"
    assert found["machine.core.poll_cycles"].part == "architecture skylake-sp"
    assert found["machine.llc.hash"].part == "processor xeon-gold-6140"
    # Published, or the user's own choice.
    assert not found.keys() & {"machine.core.frequency", "machine.llc.ways", "machine.cores", "nic.ports", "nic.rate"}


def test_likewise_is_as_the_line_above_says() -> None:
    stall = paths()["machine.core.packet_stall"]
    assert (stall.part, stall.says) == ("architecture skylake-sp", "fitted: validation/servers")
    lines = "a = 1 # assumed\nb = 2 # likewise\nc = 3 # manual\nd = 4 # likewise\n[t]\ne = 5 # likewise\n"
    found = {path: says for path, _, says in assumed._lines(lines)}
    assert found == {"a": "assumed", "b": "assumed", "c": "manual", "d": "manual", "t.e": ""}


def test_what_somebody_sets_is_no_longer_assumed() -> None:
    assert LATENCY not in paths(nic__pcie__latency="300 ns")
    # The same said in another way is not another number.
    assert LATENCY in paths(nic__pcie__latency="0.25 us")


def test_a_driver_that_nobody_names_is_assumed_and_a_counted_one_is_not() -> None:
    assert paths().keys() >= INSTRUCTIONS
    assert not paths(nic__driver="i40e").keys() & INSTRUCTIONS
    own = paths(nic__driver="xdp-mlx5e")
    assert own.keys() >= INSTRUCTIONS
    assert own["nic.driver.rx_instructions"].value == 70


def test_a_number_that_was_fitted_is_listed_in_cycles_too() -> None:
    assert paths()["machine.core.cpi"].value == 0.33
    # 62 cycles of the processor's clock.
    haswell = {"machine__processor": "xeon-e5-2697a-v4"}
    stall = "machine.core.packet_stall"
    assert str(paths(**haswell)[stall].value).endswith(" ns")
    assert stall not in paths(**haswell, machine__core__packet_stall="20 ns")


@pytest.mark.parametrize("value", [0, 0.0, "0 ns", "xor_fold"])
def test_what_is_zero_or_no_number_cannot_be_more_by_a_share(value: str | float) -> None:
    assert assumed.Assumed("machine.llc.io_ways", value, "", "").changed(0.2) is None


def test_what_a_nic_takes_at_most_moves_what_is_carried() -> None:
    paced = {
        "traffic.profile": "min64",
        "traffic.packet_rate": "70 Mpps",
        "nic.model": "connectx-5",
        "machine.cores": 6,
    }
    found = api.sensitivity("forwarding", set=paced | {"mempool.size": 32_768}, packets=20_000)
    effects = {each.assumed.path: each for each in found.effects}
    assert effects["nic.packet_interval"].carried == pytest.approx(-1 / 6, abs=0.02)
    assert "what is carried by at most 17 % (nic.packet_interval)" in found.sentence()


def test_a_longer_way_over_the_link_moves_the_sojourn_by_as_often_as_it_is_gone() -> None:
    found = api.sensitivity("forwarding", set={"traffic.load": 0.1}, share=0.4, packets=5_000)
    effects = {each.assumed.path: each for each in found.effects}
    way = effects[LATENCY]
    mean = api.run("forwarding", set={"traffic.load": 0.1, "run.packets": 5_000, "run.curve": []}).summary
    # Written once; doorbell, the request for descriptors, they, the request for data, it.
    ways = way.sojourn * mean["sojourn_ns"]["mean"] / 100  # type: ignore[operator]
    assert ways == pytest.approx(6, abs=0.1)
    assert abs(way.core_time or 1) < 0.005
    assert all((effects[path].core_time or 0) > 0 for path in INSTRUCTIONS)
    assert [each.size for each in found.effects] == sorted((each.size for each in found.effects), reverse=True)
    # What cannot be changed says why.
    assert effects["machine.llc.hash"].why == "a choice, not a number that can be more by a share"
    assert "allowed is 0 to 3" in effects["machine.llc.io_age"].why


def test_the_command_tells_the_largest_first_and_refuses_what_is_no_share(wirespeed: Any) -> None:
    few = ["forwarding", "--packets", "2000", "--set", "traffic.load=0.1", "-q"]
    _, printed, _ = wirespeed("sensitivity", *few, "--format", "json")
    document = json.loads(printed)
    assert document["share"] == 0.2
    assert document["effects"][0]["setting"] == LATENCY
    _, shown, _ = wirespeed("sensitivity", *few)
    assert "settings of this machine are assumed or fitted" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80
    for share in ("0", "-1", "3", "nan"):
        code, _, said = wirespeed("sensitivity", *few, "--by", share)
        assert code == 2
        assert "above 0 and at most 1" in said


def test_a_report_says_what_is_assumed_and_how_to_learn_what_it_matters() -> None:
    result = api.run("forwarding", set={"run.packets": 2_000, "run.curve": []})
    page = result._page("")
    assert "What is assumed" in page
    assert "nic.pcie.latency = 250 ns" in page
    assert "wirespeed sensitivity scenario.toml" in page
