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


def test_a_program_was_counted_or_is_in_part_assumed() -> None:
    driven: Any = {**SUMMARY, "machine": {"driver": "i40e"}}
    whole = api.resolve("forwarding", set={"function.program": "l3fwd", "nic.driver": "i40e"})
    assert (
        "Those of l3fwd were counted; those of the driver i40e are as its preset says." in origins(driven, whole).work
    )


def test_tables_have_their_sizes() -> None:
    assert origins(SUMMARY, api.resolve("forwarding")).tables == (("routes", "901,899 IPv4 (made)"),)
    assert origins(SUMMARY, api.resolve("classify")).tables[-1] == ("rules", "1,000 (made)")
    assert origins(SUMMARY, api.resolve("inspect")).tables[-1] == ("strings", "2,000 (made)")
    chain = dict(origins(SUMMARY, api.resolve("router-chain")).tables)
    assert "rules of the firewall" in chain or "rules" in chain
