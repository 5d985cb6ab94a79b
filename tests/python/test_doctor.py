"""`wirespeed doctor` on this machine, and on made ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import wirespeed
from wirespeed import doctor


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "wirespeed.cli", "doctor", *arguments], capture_output=True, text=True)


def of(found: dict, what: str) -> dict:
    return next(finding for finding in found["findings"] if finding["what"].startswith(what))


def test_this_machine_is_told_whatever_it_lacks() -> None:
    found = doctor.survey()
    assert found["processor"]
    assert {"processor", "cache allocation", "perf counters", "huge pages"} <= {f["what"] for f in found["findings"]}
    for finding in found["findings"]:
        assert finding["detail"]
        assert finding["state"] in doctor.MARKS


def skylake(root: Path) -> Path:
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Xeon Gold\n"
        "physical id\t: 0\nflags\t\t: msr cat_l3 cqm\n"
    )
    (root / "proc/filesystems").write_text("nodev\tresctrl\n")
    return root


def test_what_is_missing_is_told_with_what_to_do(tmp_path: Path) -> None:
    found = doctor.survey(skylake(tmp_path))
    allocation = of(found, "cache allocation")
    assert (allocation["state"], allocation["remedy"]) == ("missing", "mount -t resctrl resctrl /sys/fs/resctrl")
    assert of(found, "I/O ways")["remedy"] == "modprobe msr"
    assert "Skylake-SP" in of(found, "processor")["detail"]


def test_cores_and_devices_that_share_ways_are_told(tmp_path: Path) -> None:
    root = skylake(tmp_path)
    info = root / "sys/fs/resctrl/info/L3"
    info.mkdir(parents=True)
    for name, text in {
        "cbm_mask": "7ff",
        "min_cbm_bits": "1",
        "num_closids": "16",
        "shareable_bits": "600",
        "sparse_masks": "0",
    }.items():
        (info / name).write_text(text + "\n")
    (root / "sys/fs/resctrl/schemata").write_text("    L3:0=7ff\n")
    (root / "sys/fs/resctrl/mode").write_text("shareable\n")
    (root / "dev/cpu/0").mkdir(parents=True)
    register = bytearray(0xC8B + 8)
    register[0xC8B : 0xC8B + 2] = (0x600).to_bytes(2, "little")
    (root / "dev/cpu/0/msr").write_bytes(register)
    found = doctor.survey(root)
    assert of(found, "cache allocation")["state"] == "works"
    assert "0b11000000000" in of(found, "I/O ways")["detail"]
    assert "evict each other" in of(found, "groups")["remedy"]
    assert "between packet cores and devices" in found["verdict"]


def test_the_command_prints_a_page_or_json_and_ends_with_0(tmp_path: Path) -> None:
    shown = command()
    assert shown.returncode == 0, shown.stderr
    assert "cache allocation" in shown.stdout
    assert json.loads(command("--format", "json", "--root", str(skylake(tmp_path))).stdout)["findings"]


def test_a_root_that_is_none_is_bad_input() -> None:
    with pytest.raises(wirespeed.InputError, match="no such folder"):
        doctor.survey("/no/such/folder")
    assert command("--root", "/no/such/folder").returncode == 2
