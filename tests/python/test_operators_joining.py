"""Several files of operators as one scenario: what wins, what is assumed, what is found, and that it runs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import wirespeed
from operator_files import BUFFERS, COMMAND, DMI_DDR4, HARDWARE, HARDWARE_TWO, RUNTIME, SAMPLES, STARTUP, XEON_TEXT
from wirespeed import operators
from wirespeed.errors import InputError
from wirespeed.operators import catalogue, joining

ETHTOOL_G = SAMPLES["ethtool-g"][0].text


def imported(folder: Path, *texts: str) -> dict[str, Any]:
    files = []
    for n, text in enumerate(texts):
        files.append(folder / f"{n}.txt")
        files[-1].write_text(text)
    return operators.import_files(files)


def settings(document: dict[str, Any]) -> dict[str, Any]:
    return {each["path"]: each["value"] for each in document["settings"]}


def test_two_outputs_of_vpp_are_one_scenario(tmp_path: Path) -> None:
    found = settings(imported(tmp_path, HARDWARE, RUNTIME))
    wanted = {
        "function.program": "vpp-ip4-dpdk",
        "nic.model": "e810",
        "nic.driver": "ice",
        "nic.rx_descriptors": 1024,
        "nic.burst": 256,
        "machine.cores": 2,
        "mempool.cache": 512,
        "traffic.sizes": {"fixed": "64 B"},
        "traffic.packet_rate": "24 Mpps",
    }
    assert wanted.items() <= found.items()


def test_where_the_cycles_go_and_which_ring_to_set_is_said(tmp_path: Path) -> None:
    document = imported(tmp_path, HARDWARE, RUNTIME)
    dearest = max(document["nodes"], key=lambda node: node["cycles_per_packet"])
    assert dearest["name"] == "dpdk-input"
    lost = next(each for each in document["findings"] if "lost at the port" in each["what"])
    assert "123,456" in lost["what"]
    assert "Raise nic.rx_descriptors from 1024, up to 8160" in lost["do"]


def test_where_cores_are_busy_no_ring_is_said_to_help(tmp_path: Path) -> None:
    busy = SAMPLES["ovs-stats"][1].text
    lost = SAMPLES["ethtool-S"][2].text
    document = imported(tmp_path, busy, lost)
    assert any("no ring helps" in each["do"] for each in document["findings"])


def test_a_processor_of_the_catalogue_is_taken_as_it_is(tmp_path: Path) -> None:
    text = XEON_TEXT.replace("Gold 6130 CPU @ 2.10GHz", "Gold 6140 CPU @ 2.30GHz").replace("44 MiB", "49.5 MiB")
    document = imported(tmp_path, text)
    found = settings(document)
    assert found["machine.processor"] == "xeon-gold-6140"
    assert "machine.llc.size" not in found
    assert next(each for each in document["settings"] if each["path"] == "machine.processor")["state"] == "told"


def test_another_processor_is_the_nearest_with_its_own_caches_and_clock(tmp_path: Path) -> None:
    document = imported(tmp_path, XEON_TEXT)
    found = settings(document)
    assert found["machine.processor"] == "xeon-gold-6140"
    assert found["machine.llc.size"] == "22 MiB"
    assert found["machine.llc.slices"] == 16
    assert found["machine.core.frequency"] == "2.1 GHz"
    assert next(each for each in document["settings"] if each["path"] == "machine.processor")["state"] == "assumed"


@pytest.mark.parametrize(
    ("model", "preset", "is_exact"),
    [
        ("Intel(R) Xeon(R) Platinum 8480+", "xeon-platinum-8480", True),
        ("INTEL(R) XEON(R) PLATINUM 8562Y+", "xeon-platinum-8562y-plus", True),
        ("Intel(R) Xeon(R) CPU E5-2697A v4 @ 2.60GHz", "xeon-e5-2697a-v4", True),
        ("AMD EPYC 7402P 24-Core Processor", "epyc-7402p", True),
        ("Intel(R) Xeon(R) Gold 6230N CPU @ 2.30GHz", "xeon-gold-6248r", False),
        ("Intel(R) Xeon(R) CPU E5-2650 v3 @ 2.30GHz", "xeon-e5-2699-v3", False),
        ("AMD EPYC 9354 32-Core Processor", "epyc-9654", False),
        ("Neoverse-V2", "neoverse-v2-grace", False),
        ("Something of nobody", catalogue.ASSUMED_PROCESSOR, False),
    ],
)
def test_names_of_processors_are_found_in_the_catalogue(model: str, preset: str, is_exact: bool) -> None:
    part = catalogue.processor({"cpu": model})
    assert (part.preset, part.is_exact) == (preset, is_exact)


@pytest.mark.parametrize("numbers", catalogue._MODELS)
def test_numbers_of_processors_lead_to_shipped_ones(numbers: tuple[int, int, int, int, str, bool]) -> None:
    family, model, stepping, _, preset, _ = numbers
    found = catalogue.processor({"cpu": "x", "cpu_family": family, "cpu_number": model, "cpu_stepping": stepping})
    assert found.preset == preset
    assert preset in catalogue.shipped("processor")


@pytest.mark.parametrize(
    ("words", "model", "driver"),
    [
        ("Intel Corporation Ethernet Controller E810-C for QSFP", "e810", "ice"),
        ("Ethernet Controller XXV710 for 25GbE SFP28", "xxv710", "i40e"),
        ("Ethernet Controller X710 for 10GbE SFP+", "xl710", "i40e"),
        ("82599ES 10-Gigabit SFI/SFP+ Network Connection", "82599", "ixgbe"),
        ("MT2892 Family [ConnectX-6 Dx]", "connectx-6-dx", "mlx5"),
        ("15b3:1017", "connectx-5", "mlx5"),
        ("15b3:1021", "connectx-7", "mlx5"),
        ("10ge2p1x710", "xl710", "i40e"),
        ("100ge2p1cx556a", "connectx-5", "mlx5"),
        ("100ge2p1e810cq", "e810", "ice"),
    ],
)
def test_names_of_nics_are_found_in_the_catalogue(words: str, model: str, driver: str) -> None:
    assert catalogue.nic(words) == (model, driver)
    assert model in catalogue.shipped("nic")
    assert driver in catalogue.shipped("driver")


def test_dimms_set_channels_and_their_rate(tmp_path: Path) -> None:
    found = settings(imported(tmp_path, XEON_TEXT, DMI_DDR4))
    assert found["machine.dram.channels"] == 2
    assert found["machine.dram.t_burst"] == "2.73 ns"


def test_running_state_wins_over_a_command_line_that_over_a_file_and_all_over_the_kernel(tmp_path: Path) -> None:
    hardware = HARDWARE_TWO.replace("desc 512", "desc 256")
    document = imported(tmp_path, ETHTOOL_G, STARTUP, COMMAND.replace("rxd=1024", "rxd=2048"), hardware)
    assert settings(document)["nic.rx_descriptors"] == 256
    conflict = next(each for each in document["conflicts"] if each["name"] == "rx_descriptors")
    assert conflict["taken"]["trust"] == "running"
    assert {other["value"] for other in conflict["others"]} == {2048, 1024}
    for texts, wins in (((ETHTOOL_G, STARTUP), 1024), ((ETHTOOL_G,), 2048)):
        assert settings(imported(tmp_path, *texts))["nic.rx_descriptors"] == wins


def test_of_equals_the_first_file_wins_and_both_are_shown(tmp_path: Path) -> None:
    one, other = HARDWARE, HARDWARE.replace("desc 1024", "desc 512")
    for texts, wins, loses in (((one, other), 1024, 512), ((other, one), 512, 1024)):
        document = imported(tmp_path, *texts)
        assert settings(document)["nic.rx_descriptors"] == wins
        conflict = next(each for each in document["conflicts"] if each["name"] == "rx_descriptors")
        assert [other["value"] for other in conflict["others"]] == [loses]


def test_a_pool_that_is_too_small_is_said_and_enlarged(tmp_path: Path) -> None:
    text = COMMAND.replace("16384", "2048")
    document = imported(tmp_path, text)
    assert settings(document)["mempool.size"] >= 2 * (1024 + 2 * 1024 + 32) + 2 * 250 * 3 // 2
    assert any("pool is too small" in note for note in document["notes"])


def test_what_no_file_tells_is_assumed_and_listed(tmp_path: Path) -> None:
    document = imported(tmp_path, BUFFERS)
    states = {each["path"]: each["state"] for each in document["settings"]}
    assert states["machine.processor"] == states["machine.cores"] == states["traffic.load"] == "assumed"
    assert states["mempool.size"] == "told"


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_sample_alone_makes_a_scenario_that_is_accepted(kind: str, tmp_path: Path) -> None:
    for sample in SAMPLES[kind]:
        if not sample.facts and not sample.measured:
            with pytest.raises(InputError, match="nothing in it is a setting or a measurement"):
                imported(tmp_path, sample.text)
            continue
        document = imported(tmp_path, sample.text)
        tomllib.loads(document["scenario"])
        json.dumps(document, allow_nan=False)
        wirespeed.resolve(document["scenario"])


RUNS = {
    "vpp": (XEON_TEXT, DMI_DDR4, HARDWARE, RUNTIME, BUFFERS),
    "testpmd": (SAMPLES["testpmd"][0].text, SAMPLES["telemetry"][0].text),
    "ovs": (SAMPLES["ovs-perf"][0].text, SAMPLES["ovs-rxq"][0].text, SAMPLES["mempool"][2].text),
    "suricata": (SAMPLES["suricata"][0].text, SAMPLES["suricata-stats"][1].text),
    "grout": (SAMPLES["grout"][0].text, SAMPLES["lscpu"][2].text),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_scenario_runs(name: str, tmp_path: Path) -> None:
    document = imported(tmp_path, *RUNS[name])
    result = wirespeed.run(document["scenario"], set={"run.packets": 2000})
    assert result.summary["packets"] >= 2000
    assert len(result.summary["cores"]) == settings(document)["machine.cores"]


REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "operator"


def test_real_outputs_together_run() -> None:
    names = ["lscpu.json", "lscpu-caches.json", "numactl-H.txt", "lshw.json", "testpmd-22.11.txt"]
    if not all((REAL / name).exists() for name in names):
        pytest.skip("wants ../shared/data/operator")
    document = operators.import_files([REAL / name for name in names])
    assert settings(document)["function.program"] == "testpmd-mac"
    assert wirespeed.run(document["scenario"], set={"run.packets": 2000}).summary["packets"] >= 2000


def test_values_from_files_cannot_break_out_of_a_comment(tmp_path: Path) -> None:
    text = XEON_TEXT.replace("Intel(R) Xeon(R) Gold 6130", 'x" \x0b\x1f # ] [nic]\rports = 9')
    assert "ports = 9" not in [line.strip() for line in imported(tmp_path, text)["scenario"].splitlines()]


@pytest.mark.parametrize(("bytes_", "words"), [(25952256, "24.75 MiB"), (36 << 10, "36 KiB"), (100, "100 B")])
def test_sizes_are_written_exactly(bytes_: int, words: str) -> None:
    assert joining.size_words(bytes_) == words
    assert catalogue.resolved_size(words) == bytes_


def test_the_command_prints_tables_or_json_and_writes_a_scenario(wirespeed: Any, tmp_path: Path) -> None:
    hardware, runtime = tmp_path / "hardware.txt", tmp_path / "runtime.txt"
    hardware.write_text(HARDWARE)
    runtime.write_text(RUNTIME)
    out = tmp_path / "mine.toml"
    code, printed, said = wirespeed("import", str(hardware), str(runtime), "--out", str(out))
    assert code == 0
    for words in ("Where the cycles go", "Taken", "Assumed", "Read", "dpdk-input"):
        assert words in printed
    assert f"wirespeed run {out}" in said
    assert tomllib.loads(out.read_text())["nic"]["rx_descriptors"] == 1024
    code, printed, _ = wirespeed("import", str(hardware), str(runtime), "--format", "json")
    assert code == 0
    assert json.loads(printed)["schema"] == "wirespeed.import/1"


def test_the_command_compares_with_what_is_measured(wirespeed: Any, tmp_path: Path) -> None:
    stats = tmp_path / "perf.txt"
    stats.write_text(SAMPLES["testpmd"][1].text)
    code, printed, _ = wirespeed("import", str(stats), "--compare", "--packets", "1000", "--format", "json", "-q")
    assert code == 0
    compared = json.loads(printed)["compared"]
    pair = next(each for each in compared["measured"] if each["name"] == "work_per_packet")
    assert pair["unit"] == "ns"
    assert pair["measured"] == pytest.approx(31.2 / 2.1)
    assert pair["predicted"] > 0
    lengths = [each["rx_descriptors"] for each in compared["rings"]]
    assert lengths == sorted(lengths)
    assert sum(each["is_now"] for each in compared["rings"]) == 1


def test_the_command_refuses_what_it_cannot_use(wirespeed: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text(HARDWARE)
    assert wirespeed("import", str(tmp_path / "none.txt"))[0] == 2
    code, _, said = wirespeed("import", str(file), "--out", str(file))
    assert code == 2
    assert "is one of the files that are read" in said
    code, _, said = wirespeed("import", str(file), "--kind", "nothing")
    assert code == 2
    assert "must be one of lscpu" in said
    assert wirespeed("import", str(file), "--out", str(tmp_path))[0] == 2


def test_of_several_files_that_count_losses_the_largest_counts(tmp_path: Path) -> None:
    quiet = SAMPLES["telemetry"][1].text
    document = imported(tmp_path, quiet, HARDWARE)
    assert any("123,456 packets" in each["what"] and "1.txt:" in each["what"] for each in document["findings"])


def test_several_nics_that_are_known_are_shown(tmp_path: Path) -> None:
    document = imported(tmp_path, SAMPLES["lshw"][0].text, SAMPLES["lshw"][1].text)
    assert settings(document)["nic.model"] == "xxv710"
    assert {each["name"] for each in document["conflicts"]} >= {"nic", "driver", "cpu"}


def test_the_kernels_rings_are_left_out_where_a_program_is_told(tmp_path: Path) -> None:
    document = imported(tmp_path, ETHTOOL_G, SAMPLES["ethtool-l"][1].text, RUNTIME)
    assert settings(document)["nic.rx_descriptors"] == 1024
    assert "nic.queues_per_core" not in settings(document)
    assert any("are the kernel's" in note for note in document["notes"])


def test_the_speed_of_a_port_that_packets_do_not_take_is_left_out(tmp_path: Path) -> None:
    text = (
        '[{"id": "network:0", "class": "network", "product": "I350 Gigabit", "size": 1000000000},'
        ' {"id": "cpu", "class": "processor", "product": "AMD EPYC 9654"}]\n'
    )
    assert "nic.rate" not in settings(imported(tmp_path, text))
