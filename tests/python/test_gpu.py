"""`wirespeed gpu`: closed forms of what binds, both systems, settings, scenarios, what is refused and printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

import wirespeed
from wirespeed import InputError, _wirespeed, cli
from wirespeed.gpu import machines
from wirespeed.gpu.documents import GpuDocument, GpuFound
from wirespeed.gpu.work import APPLICATIONS

ROOT = Path(__file__).resolve().parents[2]
PRESETS = sorted((ROOT / "presets" / "gpus").glob("*.toml"))
SHIPPED = ROOT / "docs" / "reference" / "presets.md"
SMALL = {"workload.packets": 256, "workload.routes.prefixes": 2000, "workload.rules.count": 64}
# Four cores that do nothing but issue: one clock to an L1 of a MiB each.
ISSUE = {"gpu.cores": 4, "gpu.pipeline": 1, "gpu.interconnect": 0, "gpu.l2.latency": 1, "gpu.l2.size": "64 MiB"}
ISSUE |= {"gpu.l2.banks": 256, "hermes.fifo": 4096, "hermes.dcq.entries": 4096, "kernel.registers": 16}


def ran(what: str = "ttl", preset: str = "hermes", **more: Any) -> GpuDocument:
    more["set"] = {**SMALL, **more.get("set", {})}
    return wirespeed.gpu(what, preset, **{"packets": 4096, "threads": 1, **more})


def one(document: GpuDocument, system: str = "hermes") -> GpuFound:
    return next(each for each in document["points"][0]["systems"] if each["system"] == system)


def bound(found: GpuFound, resource: str) -> float:
    return next(each["mpps"] for each in found["bounds"] if each["resource"] == resource)


@pytest.mark.parametrize("width", [32, 16])
def test_a_kernel_that_issues_carries_cores_x_clock_over_instructions(width: int) -> None:
    found = one(ran("classify_linear", system="hermes", packets=16_384, set={**ISSUE, "gpu.simd_width": width}))
    # Lanes that are active do a packet's instructions: warps issue 1 / efficiency as many.
    closed = 4 * 1e3 * width * found["simd_efficiency"] / found["instructions_per_packet"]
    assert found["gpu_limit"] == "issue"
    assert bound(found, "issue") == pytest.approx(closed, rel=0.02)
    assert found["gpu_mpps"] == pytest.approx(closed, rel=0.1)
    assert 0.1 < found["simd_efficiency"] < 0.999


def test_a_kernel_that_waits_for_memory_carries_bandwidth_over_bytes() -> None:
    # A line of the header comes and goes, through one channel of 32 GB/s.
    few = {"gpu.cores": 16, "gpu.memory.channels": 1, "gpu.l2.size": "64 KiB", "kernel.registers": 16}
    found = one(ran("ttl", system="hermes", packets=32_768, set=few))
    assert found["gpu_limit"] == "DRAM"
    assert found["dram_bytes_per_packet"] == pytest.approx(128, rel=0.1)
    closed = 32e3 / 128
    assert bound(found, "DRAM") == pytest.approx(closed, rel=0.1)
    assert 0.9 * closed < found["gpu_mpps"] <= 1.02 * closed
    # Half the warps do not hide the memory's latency.
    found = one(ran("ttl", system="hermes", packets=32_768, set=few | {"gpu.cores": 8}))
    assert found["gpu_limit"] == "latency: 32 warps a core, by the core"
    assert found["gpu_mpps"] < 0.8 * closed


DISPATCHER: Final = {"least": 4, "most": 8, "word": "1 us", "task": "10 ns", "publish": "500 ns", "tell": "2 us"}


def test_a_fifo_in_software_carries_tasks_of_a_round_over_its_time() -> None:
    own = {"gpu.cores": 16, "hermes.dispatcher": DISPATCHER}
    found = one(ran("ttl", system="hermes", packets=32_768, set=own))
    # 8 tasks of 32 packets a round of 1 us, 7 x 10 ns and 500 ns.
    closed = 8 * 32 / 1.570
    assert bound(found, "dispatcher") == pytest.approx(closed, rel=1e-3)
    assert found["gpu_limit"] == "dispatcher"
    assert found["gpu_mpps"] == pytest.approx(closed, rel=0.05)
    # Of two equal parts each has half of the tasks: together they carry as much.
    halves = one(ran("ttl", system="hermes", packets=32_768, set=own | {"gpu.cores": 32, "parts": 2}))
    assert halves["gpu_mpps"] == pytest.approx(found["gpu_mpps"], rel=0.05)
    # Where little comes a packet takes the ways over the bus: until it is seen, the rest of that round, and back.
    alone = ran("ttl", system="hermes", rate="1 Gbps", packets=16_384, set={"gpu.cores": 16})
    polled = ran("ttl", system="hermes", rate="1 Gbps", packets=16_384, set=own)
    more = one(polled)["delay_ns"]["mean"] - one(alone)["delay_ns"]["mean"]
    assert more == pytest.approx(1030 + 500 + 2000, rel=0.1)
    for name, wrong in (("least", 9), ("word", "0 ns")):
        with pytest.raises(InputError, match=r"hermes\.dispatcher"):
            ran("ttl", system="hermes", set={"hermes.dispatcher": DISPATCHER | {name: wrong}})


def test_batches_carry_what_their_slowest_stage_does() -> None:
    stages = {"batch.overlap": "three_streams", "batch.copy": "20 us", "batch.launch": "5 us", "batch.packets": 256}
    found = one(ran("ttl", system="batch", packets=16_384, profile="min64", set=stages), "batch")
    # 256 packets a copy of 20 us and 256 x 60 B at 8 GB/s.
    closed = 256 / (20 + 256 * 60 / 8e3)
    assert found["limit"] in ("copy in", "copy back")
    assert bound(found, "copy in") == pytest.approx(closed, rel=1e-6)
    assert found["carries_mpps"] == pytest.approx(closed, rel=0.06)
    assert sum(found["delay_ns"]["parts"].values()) == pytest.approx(found["delay_ns"]["mean"])
    # Half a batch's packets in the mean, at 90 % of that.
    assert found["delay_ns"]["parts"]["fill"] == pytest.approx(255 / 2 / (0.9 * found["carries_mpps"]) * 1e3, rel=0.15)


def test_both_systems_are_side_by_side_and_a_resident_kernel_does_not_wait_for_batches() -> None:
    document = ran("lookup", rate="2 Gbps")
    resident, batch = document["points"][0]["systems"]
    assert (resident["system"], batch["system"]) == ("hermes", "batch")
    for found in (resident, batch):
        # 2 Gbps on the wire are less in frames.
        assert found["offered_gbps"] == pytest.approx(
            2.0 * document["frame_bytes"] / (document["frame_bytes"] + 24), rel=0.1
        )
        assert found["keeps_up"]
        assert sum(found["delay_ns"]["parts"].values()) == pytest.approx(found["delay_ns"]["mean"])
        assert found["delay_ns"]["p50"] <= found["delay_ns"]["p99"]
    assert resident["delay_ns"]["mean"] < batch["delay_ns"]["mean"] / 10
    assert resident["limit"] == "packet I/O"
    assert resident["carries_gbps"] == pytest.approx(64.0)
    assert one(ran("lookup", rate="90 Mpps"))["keeps_up"] is False


def test_registers_and_shared_memory_limit_the_warps() -> None:
    held = one(ran(system="hermes", set={"kernel.registers": 40, "kernel.shared": 2048}))["occupancy"]
    assert (held["warps"], held["of"], held["by_registers"], held["by_shared"]) == (8, 32, 13, 8)
    assert held["limit"] == "shared memory"
    held = one(ran(system="hermes", set={"kernel.registers": 94}))["occupancy"]
    assert (held["warps"], held["limit"], held["by_shared"]) == (5, "registers", None)


def test_a_part_of_a_gpu_carries_its_share_and_rates_are_of_the_whole() -> None:
    # Caches so small that what they keep is not the same for more packets.
    few = {"gpu.memory.channels": 2, "gpu.l2.size": "64 KiB", "kernel.registers": 16, "batch.packets": 512}
    whole = ran("ttl", packets=32_768, set={**few, "parts": 1})
    halves = ran("ttl", packets=16_384, set={**few, "parts": 2})
    assert (whole["parts"], halves["parts"]) == (1, 2)
    for system, within in (("hermes", 0.1), ("batch", 0.1)):
        assert one(halves, system)["gpu_mpps"] == pytest.approx(one(whole, system)["gpu_mpps"], rel=within)
    assert any("2 equal parts" in note for note in halves["notes"])
    # At a load that leaves most of it idle the whole is simulated: packets wait for a warp's worth no longer.
    fill = [one(each)["delay_ns"]["parts"]["fill"] for each in (whole, halves)]
    assert fill[1] == pytest.approx(fill[0], rel=0.1)


def test_a_setting_is_varied_with_a_row_for_each_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = [f"--set={path}={value}" for path, value in SMALL.items()]
    command = ["gpu", "ttl", "--preset", "hermes", "--packets", "2048", "-q", *small]
    svg = tmp_path / "cores.svg"
    vary = ["--vary", "gpu.cores=1..4*2", "--system", "hermes", "--svg", str(svg)]
    assert cli.app(args=[*command, *vary], prog_name="wirespeed", standalone_mode=False) == 0
    rows = re.findall(r"^ +(\d+) +resident ", capsys.readouterr().out, re.MULTILINE)
    assert rows == ["1", "2", "4"]
    assert svg.read_text().count("<svg") == 1
    assert cli.app(args=[*command, "--format", "json"], prog_name="wirespeed", standalone_mode=False) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "wirespeed.gpu/1"
    assert document == json.loads(json.dumps(ran("ttl", packets=2048)))
    points = ran(system="hermes", packets=64, vary="gpu.cores=8..132")["points"]
    assert [point["value"] for point in points] == [8, 26, 43, 61, 79, 97, 114, 132]
    alone = [
        of["gpu_mpps"] for point in ran(system="hermes", vary="gpu.cores=1,2")["points"] for of in point["systems"]
    ]
    assert alone[0] < alone[1]


def test_a_roofline_is_drawn(tmp_path: Path) -> None:
    from wirespeed.gpu import chart

    drawn = chart.chart(ran("check,ttl"))
    assert drawn.startswith("<svg")
    assert "a byte of DRAM" in drawn
    assert chart.SVG_MARK in drawn


def test_scenarios_and_chains_become_what_a_gpu_does() -> None:
    chain = ran("check,lookup,ttl", system="hermes")
    assert [member["name"] for member in one(chain)["members"]] == ["check", "lookup", "ttl"]
    assert sum(member["time_share"] for member in one(chain)["members"]) == pytest.approx(1, abs=0.01)
    found = ran("forwarding-64b", system="hermes")
    assert found["functions"] == ["forward"]
    assert found["load"] == {"packets": "30 Mpps"}
    assert found["frame_bytes"] == pytest.approx(60)
    assert one(found)["offered_mpps"] == pytest.approx(30, rel=0.1)
    chain = ran("router-chain", system="hermes", packets=256)
    assert chain["functions"] == ["check", "inspect", "classify", "lookup", "ttl", "fragment"]


@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_function_runs(name: str) -> None:
    found = ran(name, packets=256, set={"workload.packets": 64, "workload.strings": {"count": 16, "depth": 32}})
    assert all(each["carries_mpps"] > 0 for each in found["points"][0]["systems"])


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_every_shipped_gpu_runs_from_its_file(path: Path) -> None:
    gpu = machines.find(str(path))
    # A hundredth of it, which every build runs: the whole takes a new one.
    few = {"parts": 1, "gpu.cores": 4, "gpu.memory.channels": 4, "memory": "80 GB", "io": "100 Gbps"}
    found = ran("ttl", str(path), packets=512, set=few)
    assert found["title"] == gpu.title
    assert found["points"][0]["systems"][0]["carries_mpps"] > 0
    part, parts = gpu.part()
    assert part["gpu"]["cores"] * parts == gpu.spec["gpu"]["cores"]
    assert part["gpu"]["memory"]["channels"] * parts == pytest.approx(machines.channels_of(gpu.spec["gpu"]["memory"]))


def test_what_an_idle_gpu_takes_is_its_closed_form() -> None:
    idle = machines.idle(machines.find("hermes"))
    # As `an_idle_memory_takes_its_closed_form` of the simulator: 62, and 20 + 12 + 12 + 2 more.
    assert idle == {"l2_hit_clocks": 62.0, "miss_clocks": 108.0, "l2_gb_per_s": 256.0, "dram_gb_per_s": 256.0}


def test_the_page_of_presets_compares_them_with_what_was_measured() -> None:
    rows = re.findall(
        r"^\| `([\w-]+)` \| ([^|]+) \| ([\d,]+)[^|]*\| ([\d,]+) \| ([+-][\d.]+) % \|", SHIPPED.read_text(), re.MULTILINE
    )
    fields = {"L1 hit": "l1_hit_clocks", "L2 hit": "l2_hit_clocks", "DRAM,": "miss_clocks"}
    fields |= {"L2 read": "l2_gb_per_s", "DRAM peak": "dram_gb_per_s"}
    told = 0
    for name, what, measured, here, deviation in rows:
        idle = machines.idle(machines.find(str(ROOT / "presets" / "gpus" / f"{name}.toml")))
        field = next((field for words, field in fields.items() if what.startswith(words)), None)
        assert field is not None, what
        was, now = (float(number.replace(",", "")) for number in (measured, here))
        assert now == pytest.approx(idle[field], abs=0.5), (name, what)
        assert float(deviation) == pytest.approx(100 * (now / was - 1), abs=0.06), (name, what)
        told += 1
    assert told >= 12
    assert {name for name, *_ in rows} >= {"a100", "h100", "gh200", "mi300a"}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"what": "nat"}, ["nat: has no form for the lanes of a warp; a GPU runs forward"]),
        ({"what": "nat,lokup"}, ["nat: has no form", "lokup: no such function (did you mean `lookup`?)"]),
        ({"what": "fragment,ttl"}, ["fragment: is the last of a chain"]),
        ({"what": "upf"}, ["upf: has no form"]),
        ({"preset": "hermse"}, ["--preset hermse: no shipped GPU of that name (did you mean `hermes`?)"]),
        ({"preset": "missing.toml"}, ["missing.toml: No such file"]),
        ({"rate": "0 Gbps"}, ["must be a rate above 0"]),
        ({"rate": "20"}, ["of packets or of bits?"]),
        (
            {"what": "lokup", "preset": "hermse", "rate": "-1 Mpps", "system": "bath"},
            ["lokup", "hermse", "-1 Mpps", "bath"],
        ),
        ({"set": {"gpu.cores": 0, "gpu.frequency": "0 GHz"}}, ["gpu.cores = 0", "gpu.frequency = '0 GHz'"]),
        ({"set": {"gpu.cres.x": 1}}, ["no cres here (did you mean `cores`?)"]),
        ({"set": {"gpu.mcw": 65}}, ["gpu.mcw = 65: allowed is 1 to 64"]),
        ({"set": {"gpu.memory.standard": "gddr9"}}, ["gddr9"]),
        ({"set": {"kernel.registers": 600}}, ["kernel of hermes: 600 registers a lane"]),
        ({"set": {"kernel.warps": 1}}, ["kernel.warps: no such setting"]),
        ({"set": {"memory": "1 GB"}}, ["memory = '1 GB': tables of", "do not fit"]),
        ({"vary": "gpu.cores"}, ["--vary 'gpu.cores': must be PATH=VALUES"]),
        ({"packets": 0}, ["packets = 0: allowed are 1 and more"]),
    ],
)
def test_what_cannot_be_is_refused_all_at_once(asked: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        ran(**{"packets": 64, **asked})
    assert all(each in str(refused.value) for each in told), refused.value


def test_a_file_that_is_no_gpu_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    for text, told in (("[gpu]\ncores = 1\n", "lacks [hermes], [batch]"), ("gpu = [", "is no TOML")):
        (tmp_path / "mine.toml").write_text(text)
        with pytest.raises(InputError, match=re.escape(told)):
            wirespeed.gpu("ttl", tmp_path / "mine.toml")


def test_two_rates_are_one_too_many() -> None:
    for words, told in (
        (["--rate", "1 Gbps", "--packet-rate", "1 Mpps"], "both say how much is offered"),
        (["--packet-rate", "1 Gbps"], "is of bits"),
    ):
        with pytest.raises(InputError, match=told):
            cli.app(args=["gpu", "ttl", "--preset", "hermes", *words], prog_name="wirespeed", standalone_mode=False)


def test_shipped_gpus_are_listed() -> None:
    listed = {name for kind, name, _ in _wirespeed.presets() if kind == "gpu"}
    assert "hermes" in listed
    assert listed <= {path.stem for path in PRESETS}
