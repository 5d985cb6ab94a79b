"""The network processor on the command line and from Python: presets, switches, results, and what is refused."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from wirespeed import InputError, _wirespeed, cli, microengines

SHORT: dict[str, Any] = {"packets": 500, "warm_up": 200, "trace_packets": 500}


def test_the_preset_is_listed_and_printed() -> None:
    assert ("microengines", "ixp1200") in [(kind, name) for kind, name, _ in _wirespeed.presets()]
    assert tomllib.loads(_wirespeed.preset("microengines", "ixp1200"))["transmit"]["slots"] == 16


def test_what_is_left_out_follows_from_the_rest() -> None:
    filled = tomllib.loads(microengines.spec(set={"mhz": 200, "buffer.allocation": "cells"}, application="nat"))
    assert filled["ports"] == 2
    assert filled["queues"] == 16
    assert filled["sdram"]["ticks_per_clock"] == 2
    assert filled["buffer"]["shuffled"] is True


def test_all_combinations_of_switches_run() -> None:
    switches = {
        "sdram.queues": ("direction", "bank_parity"),
        "sdram.precharge": ("lazy", "eager"),
        "sdram.prefetch": (False, True),
        "sdram.output_first": (False, True),
        "sdram.map": ("round_robin", "halves"),
        "transmit.block": (1, 4),
        "cache_cells": (0, 4),
    }
    for chosen in itertools.product(*switches.values()):
        settings = dict(zip(switches, chosen, strict=True))
        found = microengines.run(set=settings, seeds=1, packets=100, warm_up=50, trace_packets=200)
        assert found["gbps"]["mean"] > 0.5, chosen


def test_the_document_has_half_widths_idle_times_rows_stalls_and_fragmentation() -> None:
    small = {"buffer.size": "64 KiB", "buffer.allocation": "fixed"}
    found = microengines.run(set=small, application="nat", seeds=2, **SHORT)
    for name in (
        *("gbps", "sdram_utilization", "sdram_idle", "engine_idle_input", "engine_idle_output"),
        *("rows_input", "rows_output", "fragmentation", "stalls_memory", "stalls_in_flight", "stalls_with_room"),
        "discarded",
    ):
        assert found[name]["half_width"] is not None, name
    assert found["stalls_memory"]["mean"] > 0
    # Nearly half of the packets have 40 bytes, and 2 KiB each.
    assert 0.5 < found["fragmentation"]["mean"] < 0.9
    assert found["processor"]["buffer"]["size"] == "64 KiB"
    again = ["buffer.size=64 KiB", "buffer.allocation=fixed"]
    assert found == microengines.run(set=again, application="nat", seeds=2, **SHORT)
    assert microengines.run(seeds=1, **SHORT)["gbps"]["half_width"] is None


@pytest.mark.parametrize("traffic", ["fixed=64", "packmime", "imix", "forwarding,traffic.sizes.fixed=200"])
def test_traffic_of_every_kind_goes_through(traffic: str) -> None:
    found = microengines.run(traffic=traffic, application="firewall", seeds=1, **SHORT)
    assert found["packets"] >= 500


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"processor": "ixp2400"}, "ixp2400"),
        ({"processor": "missing.toml"}, "missing.toml"),
        ({"set": {"queues": 8}}, r"queues = 8 for 16 ports"),
        ({"set": {"ports": 32, "queues": 16}}, r"queues = 16 for 32 ports"),
        ({"set": {"buffer.page": "32 B"}}, r"page = 32 B with cells of 64 B"),
        ({"set": {"buffer.longest": "3000 B"}}, r"packets of up to 3000 bytes, a page of 2048 bytes"),
        ({"set": {"buffer.longest": "1000 B"}}, r"1500 bytes: allowed is 1 to 1000 bytes"),
        ({"set": {"sdram.prefech": True}}, r"did you mean `prefetch`"),
        ({"set": {"sdram.queues": "odd"}}, r"sdram\.queues"),
        ({"set": ["sdram.prefetch"]}, "must be PATH=VALUE"),
        ({"traffic": "fixed=9"}, "fixed=9"),
        ({"traffic": "missing.pcap"}, "missing.pcap"),
        ({"application": "router"}, "l3fwd16, nat, firewall"),
        ({"seeds": 0}, "seeds = 0"),
        ({"window": 0}, "window = 0"),
    ],
)
def test_what_cannot_be_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        microengines.run(**{"seeds": 1, **SHORT, **asked})


def test_the_command_prints_a_table_or_json_and_ends_with_2_on_bad_input(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("mhz = 200\n[sdram]\nbanks = 2\n", encoding="utf-8")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "wirespeed.cli", "microengines", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    short = ("--packets", "500", "--warm-up", "100", "--seeds", "2")
    table = run(str(mine), *short)
    assert table.returncode == 0, table.stderr
    assert "throughput, Gbps" in table.stdout
    assert max(map(len, table.stdout.splitlines())) <= 80
    found = json.loads(run(str(mine), *short, "--format", "json", "--set", "sdram.prefetch=true").stdout)
    assert (found["processor"]["mhz"], found["processor"]["sdram"]["prefetch"]) == (200, True)
    shown = tomllib.loads(run("--show", "--application", "nat").stdout)
    assert shown["ports"] == 2
    bad = run("--set", "queues=3")
    assert bad.returncode == 2
    assert "queues = 3 for 16 ports" in bad.stderr
    assert "Traceback" not in bad.stderr


def test_counts_have_separators_and_quiet_is_an_option_as_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    short = ["--packets=500", "--warm-up=200", "--seeds=1"]
    assert cli.app(args=["microengines", *short, "--quiet"], prog_name="wirespeed", standalone_mode=False) == 0
    said = capsys.readouterr()
    assert "20,000 packets of 20,000 flows" in said.out
    assert not said.err
