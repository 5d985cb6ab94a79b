"""DMA reads: what the command prints, and what it is told to ask."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wirespeed import InputError, memory


def test_the_command_asks_what_the_library_asks(wirespeed: Any) -> None:
    asked = [
        "memory",
        "dma",
        "xeon-gold-6140",
        "--windows",
        "4 KiB, 1 MiB",
        "--bytes",
        "8,64",
        "--cache",
        "device,cold",
    ]
    asked += ["--reads", "500", "--set", "machine.iommu.iotlb_entries=64"]
    code, out, _ = wirespeed(*asked, "--format", "json")
    found = json.loads(out)
    windows, sizes, caches = ["4 KiB", 1 << 20], [8, 64], ["device", "cold"]
    given = {"machine.iommu.iotlb_entries": 64}
    same = memory.dma("xeon-gold-6140", windows=windows, bytes=sizes, cache=caches, reads=500, set=given)
    assert (code, found) == (0, same)
    assert found["schema"] == "wirespeed.dma_reads/1"
    assert len(found["points"]) == 8
    for point in found["points"]:
        assert sum(point["parts_ns"].values()) == pytest.approx(point["read_ns"]["mean"])
        assert point["cached_share"] == (1 if point["cache"] == "device" else 0)
    code, out, _ = wirespeed(*asked)
    assert code == 0
    assert "1 MiB" in out
    assert "IO-TLB" in out
    assert "the device has written" in out


def test_without_translation_no_column_speaks_of_it(wirespeed: Any) -> None:
    code, out, _ = wirespeed("memory", "dma", "xeon-gold-6140", "--reads", "100", "--in-flight", "8")
    assert code == 0
    assert "8 at a time" in out
    assert "IO-TLB" not in out


def test_what_cannot_be_asked_is_named(wirespeed: Any) -> None:
    with pytest.raises(InputError, match=r"bytes: 5000: allowed are 1 to 4096 of a read"):
        memory.dma("xeon-gold-6140", bytes=[5000])
    with pytest.raises(InputError, match=r"machine.iommu.page = 8 KiB: allowed is 4 KiB, 2 MiB or 1 GiB"):
        memory.dma("xeon-gold-6140", set={"machine.iommu.page": "8 KiB"})
    code, _, told = wirespeed("memory", "dma", "xeon-gold-6140", "--bytes", "a")
    assert code == 2
    assert "--bytes a: allowed are numbers of bytes" in told
    code, _, told = wirespeed("memory", "dma", "xeon-gold-6140", "--cache", "lukewarm")
    assert code == 2
    assert "lukewarm" in told
