"""What a scenario may not have together: one table, which the page and `advise` read, and scenarios are refused by."""

from __future__ import annotations

import itertools
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from wirespeed import _wirespeed, api
from wirespeed.advise import exclusions, techniques
from wirespeed.errors import InputError

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "house"))

import refused_pairs  # noqa: E402

# What most techniques fit: an interconnect, address translation, shuffled mbufs, a copy of each packet.
FITTING = [
    "machine.cores=4",
    "machine.llc.slices=4",
    'machine.llc.interconnect={topology="ring", hop="0.5 ns"}',
    'machine.llc.hash="modulo"',
    "mempool.shuffled=true",
    "function.copy={}",
]


def test_the_page_has_each_pair_with_its_reason_and_no_other():
    assert refused_pairs.PAGE.read_text() == refused_pairs.text(), "make exclusions writes it"


def test_every_pair_has_a_reason_of_one_sentence_and_something_to_do():
    rows = json.loads(_wirespeed.exclusions())
    assert len(rows) > 30
    for row in rows:
        assert row["kind"] in ("physical", "alternatives", "limit")
        assert set(row["one"]) | set(row["other"]) <= {"path", "is"}
        assert not re.search(r"[.;]", row["reason"])
        assert 2 <= len(row["reason"].split()) <= 30
        assert row["remedy"]
    sides = [(row["one"]["path"], *row["one"].get("is", ()), row["other"]["path"]) for row in rows]
    assert len(set(sides)) == len(sides)


@pytest.mark.parametrize("inclusion", ["victim", "inclusive"])
def test_two_techniques_are_refused_together_where_the_table_has_them_and_nowhere_else(inclusion):
    """Nothing else in the project refuses a pair of techniques, and `advise` knows each that is refused."""
    base = [*FITTING, f"machine.llc.inclusion={inclusion}"]
    fit, unfit = techniques.fitting(resolved(base))
    assert len(fit) >= 20
    leave_out = [each.why for each in unfit if each.name in ("skip_llc", "bypass")]
    assert len(leave_out) == (2 if inclusion == "inclusive" else 0)
    assert all("machine.llc.inclusion = inclusive exclude each other: an inclusive LLC" in why for why in leave_out)
    excluded = 0
    for one, other in itertools.combinations(fit, 2):
        between = exclusions.between(exclusions.tables(one.overrides), exclusions.tables(other.overrides))
        try:
            resolved([*base, *one.overrides, *other.overrides])
            refused = None
        except InputError as e:
            refused = str(e)
        names = f"{one.name} and {other.name}"
        if between is None:
            assert refused is None, f"{names}: {refused}"
        else:
            excluded += 1
            assert refused is not None, names
            assert between.rpartition(": ")[2] in refused, names
            assert between in str(techniques.excluded(one, [other])), names
    assert excluded >= 4


def test_a_technique_that_the_scenario_excludes_does_not_fit_and_the_row_says_why():
    fit, unfit = techniques.fitting(resolved([*FITTING, "buffer.allocation=piecewise"]))
    assert not {"drop_dead", "elastic_nic", "flow_credits", "nic_payload", "near_slice"} & {each.name for each in fit}
    why = {each.name: each.why for each in unfit}
    assert why["nic_payload"] == (
        "nic.payload_memory and buffer exclude each other: cells of a packet buffer hold whole packets"
    )


def resolved(overrides):
    """A scenario as it is resolved."""
    return tomllib.loads(api.resolve("forwarding", set=list(overrides)))
