"""What is printed: it fits, it is complete, it is never markup."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

import summaries
import wirespeed
from wirespeed import terminal
from wirespeed.report import page
from wirespeed.report.notebook import card
from wirespeed.summary import placing_text


def printed(renderable: Any, width: int) -> str:
    return terminal.text(renderable, Console(file=io.StringIO(), width=width, color_system=None))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("name", summaries.CASES)
def test_a_summary_fits_the_terminal(name: str, width: int) -> None:
    lines = printed(terminal.run_summary(summaries.CASES[name]()), width).splitlines()
    assert max(cell_len(line) for line in lines) <= min(width, 100)


def test_the_verdict_is_the_first_line() -> None:
    first = printed(terminal.run_summary(summaries.lossless()), 80).splitlines()[0]
    assert first.startswith("~ Carries the 4.00 Gbps offered (40 % of line rate)")
    first = printed(terminal.run_summary(summaries.sound()), 80).splitlines()[0]
    assert first.startswith("✗ Does not keep wire speed")


def test_the_key_numbers_stand_with_their_half_widths() -> None:
    # So narrow a terminal wraps the longest of them.
    text = " ".join(printed(terminal.run_summary(summaries.sound()), 60).split())
    for part in ("10.0 Gbps", "14.9 Mpps", "7.90 %", "p99 ± 124 ns", "p99.9 ± 494 ns", "79,000 of 1,000,000"):
        assert part in text


def test_what_stalls_of_the_system_cost_stands_beside_what_was_measured() -> None:
    with_stalls = summaries.sound()
    with_stalls["stalls"] = {"p999_ns": 9_870.0, "delayed": 0.0123}
    without = {"mpps": 13.9, "trial_s": 60.0, "stalls": 60.0, "bound": True}
    with_stalls["search"]["without_stalls"] = without
    text = printed(terminal.run_summary(with_stalls), 100)
    for part in ("9.87 µs", "99.9 % with stalls", "1.23 % of the packets wait for one"):
        assert part in text
    assert "NDR without stalls 13.9 Mpps, with stalls 12.9 Mpps, bound by the ring: a trial of 60 s has 60.0" in text
    without["bound"] = False
    assert "NDR with stalls and without: 12.9 Mpps" in printed(terminal.run_summary(with_stalls), 100)
    assert "with stalls" not in printed(terminal.run_summary(summaries.sound()), 100)


def test_what_a_control_plane_did_stands_with_its_neighbours() -> None:
    did = {"updates": 1_234, "lines": 5_678, "invalidated": 90, "readings": 12}
    neighbours = [{"name": "bgpd", "references_per_s": 1e6, "llc_miss_rate": 0.5, "control": did}]
    text = printed(terminal.run_summary(summaries.sound(neighbours=neighbours)), 100)
    assert "bgpd: 1,234 routes written in 5,678 lines, for which other cores gave up 90 copies" in text
    neighbours[0]["control"] = None
    assert "routes written" not in printed(terminal.run_summary(summaries.sound(neighbours=neighbours)), 100)


def test_what_a_storage_device_wrote_stands_with_its_neighbours() -> None:
    did = {"written_gbps": 47.5, "write_hit_rate": 0.25, "blocks_read_per_s": 45_300.0}
    neighbours = [{"name": "nvme", "references_per_s": 9e7, "llc_miss_rate": 0.9, "control": None, "storage": did}]
    text = " ".join(printed(terminal.run_summary(summaries.sound(neighbours=neighbours)), 100).split())
    assert "nvme: 47.5 Gbps written into memory, 25.0 % of it in place of lines that a cache had" in text
    assert "; 45.3 k blocks read a second" in text


def test_the_bar_has_a_key_for_all_its_parts() -> None:
    text = printed(terminal.run_summary(summaries.sound()), 80)
    shares = [
        line.split()[-2] for line in text.splitlines() if line.startswith(" ") and " ns " in line and "±" not in line
    ]
    assert sum(float(share) for share in shares) == pytest.approx(100, abs=0.5)


@pytest.mark.parametrize("name", ["empty", "odd"])
def test_a_partial_result_says_so(name: str) -> None:
    assert "Partial result" in printed(terminal.run_summary(summaries.CASES[name]()), 80)
    assert "Partial result" not in printed(terminal.run_summary(summaries.sound()), 80)


def stopped_in_warm_up() -> dict[str, Any]:
    """What a run has that is stopped in its warm-up: counts of the machine, and no packet."""
    whole = summaries.lossless()
    counted = {name: whole[name] for name in ("levels", "dram", "cores", "series")}
    neighbours = [{"name": "reader", "cores": 1, "references_per_s": 1e8, "llc_lookups": 9, "llc_miss_rate": 0.5}]
    others = {"neighbours": neighbours, "llc_bytes": {"others": 1 << 20}, "simulated_s": 1e-6}
    return summaries.empty() | counted | others


def test_a_run_that_is_stopped_in_its_warm_up_shows_no_numbers_of_the_machine() -> None:
    summary = stopped_in_warm_up()
    shown = {
        "terminal": printed(terminal.run_summary(summary), 80),
        "report": page(summary, ""),
        "notebook": card(summary),
    }
    counted = ("Hit rates", "L1d", "DRAM", "Cores</h2>", "over time", "Neighbours", "reader", "simulated time")
    for name, raw in shown.items():
        text = " ".join(raw.split())
        assert "he run was stopped before it measured a packet: there are no numbers." in text, name
        assert [each for each in ("hold for", *counted) if each in text] == [], name
    assert "Hit rates" in printed(terminal.run_summary(summaries.sound()), 80)
    assert "over time" in page(summaries.lossless(), "")


def test_a_run_is_told_on_a_screen_and_its_details_where_they_are_asked_for() -> None:
    short = printed(terminal.run_summary(summaries.lossless(), whole=False), 80)
    assert len(short.splitlines()) <= 23  # and two of what is typed next
    # A key of the bar stands with its time on one line, and no line says what another says.
    assert "░░ executing instructions 653 ns, 15.8 %" in short
    assert ("Offered" in short, short.count("1,000,000")) == (False, 1)
    assert "99.9 % within" not in short
    assert "Where the time goes" in short
    assert "--details" in short
    whole = printed(terminal.run_summary(summaries.lossless()), 80)
    for kept in ("Hit rates", "What would one more core bring?"):
        assert kept in whole
        assert kept not in short
    assert "--details" not in whole
    # What a verdict says of a loss is never folded.
    lossy = printed(terminal.run_summary(summaries.sound(), whole=False), 80)
    assert "What to change" in lossy
    assert "Offered" in lossy


def test_brackets_in_names_are_kept() -> None:
    assert "[red]L1d[/red]" in printed(terminal.run_summary(summaries.odd()), 200)


@pytest.mark.parametrize("name", summaries.CASES)
def test_no_raw_none_or_nan_is_printed(name: str) -> None:
    words = printed(terminal.run_summary(summaries.CASES[name]()), 80).split()
    assert not {"nan", "None", "inf"} & set(words)


def test_an_inspection_shows_every_value() -> None:
    document = {
        "packets": 1_234_567,
        "zipf": {"exponent": 1.023, "r2": 0.98},
        "sizes": [{"bytes": "64", "share": 0.5}, {"bytes": "1500", "share": 0.25}],
        "empty": [],
        "first_ns": 1500.0,
    }
    text = printed(terminal.inspection("x.pcap", document), 60)
    for part in ("x.pcap", "1,234,567", "1.02", "50.0 %", "1500", "1.50 µs"):
        assert part in text


def test_of_a_long_list_of_counts_the_largest_rows_are_shown_in_their_order() -> None:
    # A full table: /24 is the 17th length that it has, and more than half of all prefixes.
    lengths = [{"length": length, "prefixes": 500_000 if length == 24 else 10 * length} for length in range(8, 33)]
    sizes = [{"from": 64 * i, "to": 64 * i + 63, "packets": 9_999 if i == 24 else i} for i in range(1, 25)]
    text = printed(terminal.inspection("rib", {"ipv4_by_length": lengths, "sizes": sizes}), 80)
    assert "500,000" in text
    assert "9,999" in text
    assert text.count("more (all with --format json)") == 2
    shown = [int(word) for word in re.findall(r"^ *(\d\d?) +[\d,]+ *$", text, re.MULTILINE)]
    assert len(shown) == 16
    assert shown == sorted(shown)
    assert 24 in shown
    assert 8 not in shown, "the smallest is left for --format json"


def test_energy_is_told_by_cause_or_why_it_is_not_known() -> None:
    summary = summaries.sound()
    parts = {"total": 4e6, "activate": 1e6, "read": 1e6, "write": 0.0, "refresh": 0.0, "background": 2e6}
    summary["dram"] |= {"energy_nj": parts, "energy_nj_per_packet": 41.2, "energy_missing": None}
    assert "41.2 nJ a packet: activate 25.0 %" in " ".join(printed(terminal.run_summary(summary), 100).split())
    missing = {"energy_nj": None, "energy_nj_per_packet": None, "energy_missing": "no currents of x are known"}
    summary["dram"] |= missing
    assert "not known: no currents of x are known" in printed(terminal.run_summary(summary), 100)


def test_what_a_verdict_leaves_open_is_said_in_the_terminal() -> None:
    text = " ".join(printed(terminal.run_summary(summaries.sound()), 80).split())
    assert (
        "Which ring overflows, and how long must it be? A receive ring overflows: 78,900 of 79,000 lost packets."
        in text
    )
    assert "What would one more core bring? " in text
    assert "Where does p99 come from?" not in text
    assert "Which ring overflows, and how long must it be?" not in printed(terminal.run_summary(summaries.empty()), 80)


def test_what_became_of_received_packets_is_told_where_a_technique_is_on() -> None:
    on = {"nic.drop_dead": True, "nic.targets.header": "l2", "nic.tx_descriptors": 128}
    settings = {**on, "run.packets": 2000, "run.warmup": 2000, "run.curve": []}
    told = placing_text(wirespeed.run("forwarding", set=settings).summary)
    assert told is not None
    assert "lines written to L2" in told
    assert "write-backs spared" in told
    assert placing_text(summaries.sound()) is None
