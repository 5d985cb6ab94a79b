"""Scenarios as configurations: what is written is allowed, and read again it is what was meant."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from wirespeed import operators
from wirespeed.errors import InputError
from wirespeed.operators import catalogue, emitting

DRIVERS = ("ice", "i40e", "ixgbe", "mlx5")
# Settings that a program has, of those that are drawn.
HAS = {
    "vpp": ("cores", "ports", "queues_per_core", "rx", "tx", "pool"),
    "testpmd": ("cores", "ports", "queues_per_core", "rx", "tx", "pool", "cache", "burst", "program"),
    "l3fwd": ("cores", "ports", "queues_per_core", "rx", "tx", "cache", "burst"),
    "ovs": ("cores", "ports", "queues_per_core", "rx", "tx"),
    "suricata": ("cores", "ports", "rx", "tx", "pool", "cache"),
    "grout": ("cores", "ports", "queues_per_core", "rx", "burst"),
}
PATHS = {
    "cores": "machine.cores",
    "ports": "nic.ports",
    "queues_per_core": "nic.queues_per_core",
    "rx": "nic.rx_descriptors",
    "tx": "nic.tx_descriptors",
    "burst": "nic.burst",
    "pool": "mempool.size",
    "cache": "mempool.cache",
    "program": "function.program",
}


@st.composite
def drawn(draw: st.DrawFn) -> dict[str, Any]:
    """Settings that all programs have: rings of a power of two, queues that ports share out evenly."""
    ports = draw(st.sampled_from((1, 2, 4)))
    values = {
        "ports": ports,
        "cores": ports * draw(st.integers(1, 4)),
        "queues_per_core": draw(st.integers(1, 3)),
        "rx": 1 << draw(st.integers(8, 12)),
        "tx": 1 << draw(st.integers(8, 12)),
        "burst": draw(st.sampled_from((16, 32, 64, 256))),
        "cache": draw(st.sampled_from((64, 128, 256, 512))),
        "program": draw(st.sampled_from(("testpmd-io", "testpmd-mac"))),
        "driver": draw(st.sampled_from(DRIVERS)),
    }
    held = values["cores"] * (values["rx"] * values["queues_per_core"] + ports * values["tx"] + 256 + 768)
    return {**values, "pool": max(1 << (held - 1).bit_length(), 4096)}


def scenario(values: dict[str, Any]) -> dict[str, Any]:
    return {
        "function": {"program": values["program"]},
        "machine": {"cores": values["cores"]},
        "nic": {
            "driver": values["driver"],
            "ports": values["ports"],
            "queues_per_core": values["queues_per_core"],
            "rx_descriptors": values["rx"],
            "tx_descriptors": values["tx"],
            "burst": values["burst"],
        },
        "mempool": {"size": values["pool"], "cache": values["cache"]},
    }


def again(text: str, program: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{program}.conf"
        file.write_text(text)
        found = {each["path"]: each["value"] for each in operators.import_files([file])["settings"]}
    return {"nic.queues_per_core": 1, **found}


@pytest.mark.parametrize("program", operators.PROGRAMS)
@settings(max_examples=40, deadline=None)
@given(values=drawn())
def test_what_is_emitted_and_imported_again_is_what_was_meant(program: str, values: dict[str, Any]) -> None:
    if program == "suricata":
        values |= {"queues_per_core": 1}
    found = again(operators.emit(scenario(values), program), program)
    for name in HAS[program]:
        assert found[PATHS[name]] == values[name], name


@pytest.mark.parametrize("program", operators.PROGRAMS)
@settings(max_examples=60, deadline=None)
@given(
    ring=st.integers(64, 65536),
    burst=st.integers(1, 64),
    cache=st.integers(0, 512),
    cores=st.integers(1, 12),
    ports=st.integers(1, 5),
    driver=st.sampled_from(DRIVERS),
)
def test_what_is_written_is_in_bounds_and_what_differs_is_said(
    program: str, ring: int, burst: int, cache: int, cores: int, ports: int, driver: str
) -> None:
    values = {
        "cores": cores,
        "ports": ports,
        "queues_per_core": 1,
        "rx": ring,
        "tx": ring,
        "burst": burst,
        "cache": cache,
        "pool": 1 << 24,
        "program": "testpmd-mac",
        "driver": driver,
    }
    text = operators.emit(scenario(values), program)
    limits = catalogue.LIMITS[driver]
    pattern = r"(?:num-rx-desc |--rxd=|--rx-queue-size |n_rxq_desc=|\brx-descriptors: |qsize )(\d+)"
    written = {int(found) for found in re.findall(pattern, bare(text))}
    assert len(written) == 1
    (length,) = written
    assert limits.least <= length <= limits.most
    assert length % limits.multiple == 0
    if limits.power or program == "ovs":
        assert length.bit_count() == 1
    if length != ring:
        assert f"the scenario has {ring}; allowed are" in text
    said = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    if program in ("vpp", "ovs", "suricata") and burst not in (32, 256):
        assert f"Burst: the scenario has {burst}" in said


def bare(text: str) -> str:
    return "\n".join(line.partition("#")[0] for line in text.splitlines())


def test_what_a_program_cannot_set_is_a_comment() -> None:
    base = scenario(
        {
            "cores": 2,
            "ports": 2,
            "queues_per_core": 1,
            "rx": 1024,
            "tx": 512,
            "burst": 48,
            "cache": 100,
            "pool": 16384,
            "program": "l3fwd",
            "driver": "ice",
        }
    )
    told = {program: operators.emit(base, program) for program in operators.PROGRAMS}
    assert "# Burst: the scenario has 48; a vector of VPP is 256" in told["vpp"]
    assert "# Burst: the scenario has 48; it is 32 in OVS" in told["ovs"]
    assert "# Pool: the scenario has 16384; l3fwd has no flag for it" in told["l3fwd"]
    assert "# Pool: the scenario has 16384; OVS makes its own" in told["ovs"]
    assert "# TX ring: the scenario has 512; qsize is one number" in told["grout"]
    assert "# Cache: the scenario has 100; 64 is the largest divisor of 8192" in told["suricata"]
    assert all("restart" in text for text in told.values())


def test_queues_that_ports_cannot_share_evenly_are_said() -> None:
    text = operators.emit("forwarding-one-core", "testpmd")
    assert "# Queues: the scenario has 1 RX queues; 2 ports of 1 have 2" in text


@pytest.mark.parametrize("name", ["forwarding", "upf", "inspect", "nat", "router-chain"])
@pytest.mark.parametrize("program", operators.PROGRAMS)
def test_shipped_scenarios_are_emitted_for_every_program(name: str, program: str) -> None:
    assert again(operators.emit(name, program), program)["nic.rx_descriptors"] == 1024


def test_devices_and_cores_are_those_that_are_given() -> None:
    where = operators.Deployment(("0000:86:00.0", "0000:af:00.1"), first_core=8)
    text = operators.emit("forwarding", "ovs", where)
    assert "dpdk-devargs=0000:86:00.0" in text
    assert "dpdk-devargs=0000:af:00.1" in text
    assert f"pmd-cpu-mask={0b1111 << 9:#x}" in text
    assert "examples: put in" not in text


def test_a_pci_address_of_suricata_stays_text() -> None:
    where = operators.Deployment(("0000:03:00.0", "0000:04:00.0"))
    found = yaml.safe_load(operators.emit("forwarding", "suricata", where))
    assert [each["interface"] for each in found["dpdk"]["interfaces"]] == ["0000:03:00.0", "0000:04:00.0"]


def test_what_cannot_be_emitted_is_refused() -> None:
    with pytest.raises(InputError, match=r"--for testpdm: must be one of .* \(did you mean `testpmd`\?\)"):
        operators.emit("forwarding", "testpdm")
    with pytest.raises(InputError, match="--device is given 1 times, and the scenario has 2 ports"):
        operators.emit("forwarding", "vpp", operators.Deployment(("0000:3b:00.0",)))
    for device in ("a b", "x;rm", "", "a" * 200, "a\nb"):
        with pytest.raises(InputError, match="must be a PCI address"):
            operators.Deployment((device,))
    with pytest.raises(InputError, match="must be 0 to 4095"):
        operators.Deployment(first_core=-1)
    with pytest.raises(InputError, match=r"nic\.ports"):
        operators.emit({"nic": {"ports": 0}}, "vpp")


def test_a_title_cannot_break_out_of_a_comment() -> None:
    text = operators.emit({"name": "a\ndpdk { }"}, "vpp")
    assert text.splitlines()[0].startswith("# vpp, as the scenario (a dpdk { })")


@pytest.mark.parametrize(("most", "of", "found"), [(512, 4095, 455), (512, 65535, 257), (512, 8191, 1), (0, 7, 1)])
def test_a_divisor_is_the_largest_that_is_allowed(most: int, of: int, found: int) -> None:
    assert emitting._divisor(most, of) == found


def test_the_command_prints_or_writes(wirespeed: Any, tmp_path: Path) -> None:
    code, printed, _ = wirespeed("emit", "forwarding,nic.rx_descriptors=512", "--for", "vpp")
    assert code == 0
    assert "num-rx-desc 512" in printed
    out = tmp_path / "startup.conf"
    code, printed, said = wirespeed("emit", "forwarding", "--for", "vpp", "--out", str(out))
    assert (code, printed) == (0, "")
    assert "wrote" in said
    assert "corelist-workers 2-5" in out.read_text()
    assert wirespeed("emit", "forwarding", "--for", "nobody")[0] == 2


def test_the_order_of_the_pool_goes_there_and_back() -> None:
    for kind in ("lifo", "fifo"):
        text = operators.emit({"mempool": {"kind": kind}}, "testpmd")
        assert again(text, "testpmd").get("mempool.kind", "fifo") == kind


def test_cores_of_a_pipeline_and_ways_are_said() -> None:
    given = {"machine": {"cores": 4, "llc": {"core_ways": 8}}, "pipeline": {"rx_cores": 1}}
    text = operators.emit(given, "vpp")
    assert "corelist-workers 2\n" in text
    assert "# Pipeline: cores that receive are meant, 1; 3 more work" in text
    assert "# Ways of the LLC: the scenario sets them" in text
