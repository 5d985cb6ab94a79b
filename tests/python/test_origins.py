"""Where the numbers behind a run's cycles come from."""

from __future__ import annotations

from typing import Any

from wirespeed import api
from wirespeed.origins import origins

SUMMARY: Any = {
    "cores": [{"packets": 9, "instructions_per_packet": 300.0}],
    "machine": {"driver": None},
    "table": {"source": "made, 901899 prefixes", "format": "synthetic"},
    "routes": {"ipv4": 901899, "ipv6": 0},
}


def test_cycles_an_instruction_are_told_with_what_they_were_fitted_on() -> None:
    told = origins(SUMMARY, api.resolve("forwarding")).work
    assert told.startswith("What instructions take is their number times 0.33 cycles: machine.core.cpi is fitted")
    assert "Those of forward are what wirespeed's own code for it executes; no driver is named" in told
    own = api.resolve("forwarding", set={"machine.core.cpi": 0.5})
    assert "0.5 cycles: machine.core.cpi is as it was set." in origins(SUMMARY, own).work
    assert origins({**SUMMARY, "cores": []}, own).work == ""


def work(**settings: Any) -> str:
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return origins(SUMMARY, api.resolve("forwarding", set=given)).work


def test_a_program_was_counted_or_is_in_part_assumed_or_was_set() -> None:
    whole = work(function__program="l3fwd", nic__driver="i40e")
    assert whole.endswith("Those of l3fwd were counted; those of the driver i40e are as its preset says.")
    assert "Those of xdp-fwd are in part assumed" in work(function__program="xdp-fwd")
    # Its flows are, and not its instructions.
    assert "Those of fastclick-nat were counted" in work(function__program="fastclick-nat")
    # A user's own number is nobody's count.
    assert "Those of the program are as they were set;" in work(
        function__program="l3fwd", function__program__instructions=400
    )
    assert "those of the driver are as they were set." in work(nic__driver="i40e", nic__driver__rx_instructions=10)
    assert "those of the driver are as they were set." in work(nic__driver__rx_instructions=10)


def test_what_wirespeed_has_no_code_for_is_not_told_as_its_own() -> None:
    chain = work(function__kind="chain", function__chain=["check", "program"], function__program="l3fwd")
    assert "Those of check are what wirespeed's own code for it executes; those of l3fwd were counted;" in chain
    assert "Those of work are as they were set;" in work(function__kind="work")
    assert "what a GPU executes is not among them" in origins(SUMMARY, api.resolve("forwarding-gpu")).work


def test_tables_have_their_sizes() -> None:
    assert origins(SUMMARY, api.resolve("forwarding")).tables == (("routes", "901,899 IPv4 (made)"),)
    assert origins(SUMMARY, api.resolve("classify")).tables[-1] == ("rules", "1,000 (made)")
    assert origins(SUMMARY, api.resolve("inspect")).tables[-1] == ("strings", "2,000 (made)")
    walled = {"function.kind": "firewall", "function.firewall.made": 77}
    assert origins(SUMMARY, api.resolve("forwarding", set=walled)).tables[-1] == ("rules of the firewall", "77 (made)")
    none: Any = {**SUMMARY, "routes": {"ipv4": 0, "ipv6": 0}}
    assert origins(none, api.resolve("nat")).tables == ()
