"""What people write for a rate, a count and a size, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wirespeed import gate, units
from wirespeed.errors import InputError


@pytest.mark.parametrize(
    "text",
    ["100 Gbps", "100Gbps", "100G", "100 Gbit", "100Gb/s", "100 Gbit/s", "100 Gbits/s", "100 gbps", "1e5 Mbps"],
)
def test_every_spelling_of_a_rate_of_bits_is_the_same(text):
    assert units.rate("--target", text) == units.Quantity(1e11, "bits")


@pytest.mark.parametrize("text", ["20 Mpps", "20mpps", "20 Mp/s", "20 Mpackets/s", "20000 kpps", "2e7 pps"])
def test_every_spelling_of_a_rate_of_packets_is_the_same(text):
    assert units.rate("--target", text) == units.Quantity(2e7, "packets")


@pytest.mark.parametrize("text", ["20", "1e6", "20_000"])
def test_a_bare_number_is_no_rate_and_the_error_says_what_to_write(text):
    with pytest.raises(InputError, match=f"Write '{text} Mpps' or '{text} Gbps'"):
        units.rate("--target", text)


@pytest.mark.parametrize("text", ["", "fast", "-3 Mpps", "0 Mpps", "20 MHz", "20 Mbogus", "nan Mpps", "1e999 bps"])
def test_what_is_no_rate_is_refused_with_examples(text):
    with pytest.raises(InputError, match="'20 Mpps', '90 Gbps' or '100G'"):
        units.rate("--target", text)


@pytest.mark.parametrize(("text", "value"), [("20k", 20_000), ("1M", 1_000_000), ("2G", 2 * 10**9), ("1_000", 1000)])
def test_a_count_may_have_a_prefix(text, value):
    assert units.count("--packets", text) == value


@pytest.mark.parametrize("text", ["1.5", "20 kB", "", "many", "1.0001k"])
def test_what_is_no_count_is_refused(text):
    with pytest.raises(InputError, match="20000, 20k or 1M"):
        units.count("--packets", text)


@pytest.mark.parametrize(
    ("text", "value"), [("4096", 4096), ("4096 B", 4096), ("4 KiB", 4096), ("4KB", 4000), ("1MiB", 2**20)]
)
def test_a_size_is_bytes_or_has_a_unit(text, value):
    assert units.size("--size", text) == value


def test_a_size_with_half_a_unit_says_which_two_are_meant():
    with pytest.raises(InputError, match=r"write 64KiB or 64KB"):
        units.size("--size", "64K")


# --- the same in every command ---


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["advise", "forwarding", "--target", "20"], "Write '20 Mpps' or '20 Gbps'"),
        (["cost", "--size", "64K"], "write 64KiB or 64KB"),
        (["cost", "--size", "10"], "at least 1024"),
        (["slices", "--packets", "1.5"], "20000, 20k or 1M"),
        (["advise", "forwarding", "--packets", "many"], "20000, 20k or 1M"),
        (["tune", "--target", "testpmd", "--size", "1.5kpps"], "must be a size"),
    ],
)
def test_commands_refuse_what_is_no_quantity_with_what_to_write(command, says, tmp_path):
    ran = subprocess.run([sys.executable, "-m", "wirespeed", *command], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 2
    assert says in " ".join(ran.stderr.replace("│", " ").split())


def test_commands_take_quantities_as_people_write_them():
    ran = [
        subprocess.run([sys.executable, "-m", "wirespeed", "cost", "--size", each], capture_output=True, text=True)
        for each in ("1MiB", "1048576", "1024 KiB")
    ]
    assert ran[0].returncode == 0
    assert ran[0].stdout == ran[1].stdout == ran[2].stdout


@pytest.mark.parametrize("text", ["carried_mpps < 5 Mpps", "carried_mpps < 5Mp/s", "carried_mpps < 5000 kpps"])
def test_conditions_take_the_same_units(text):
    assert gate.parse(text).value == 5.0
