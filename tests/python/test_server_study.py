"""The study of three architectures on a server: its cases start, its tables are of its data, and it runs in short."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOM = ROOT / "papers" / "2020-access-korikawa"


@pytest.fixture
def server() -> ModuleType:
    spec = importlib.util.spec_from_file_location("server", ROOM / "server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_case_starts_and_sets_what_its_name_says(server: ModuleType) -> None:
    cases = server.cases()
    assert len(cases) == len(server.keys()) == 3 * 3 * 6 * 2
    resolved = {name: server.wirespeed.resolve(server.SCENARIO, set=settings) for name, settings in cases.items()}
    assert len(set(resolved.values())) == len(cases)
    # The same packets for all ways and memories of a table and a load.
    for (table, way, memory, load), settings in zip(server.keys(), cases.values(), strict=True):
        traffic = {name: value for name, value in settings.items() if name.startswith(("traffic", "run", "function"))}
        base = cases[server.name((table, "shared", "DDR4", load))]
        assert all(base[name] == value for name, value in traffic.items()), (table, way, memory, load)


def test_the_page_is_made_of_what_was_measured(server: ModuleType) -> None:
    document = json.loads((ROOM / "server.json").read_text())
    assert set(document["cases"]) == set(server.cases())
    assert all(len(case["value"]) == server.REPLICATIONS for case in document["cases"].values())
    assert (ROOM / "server.md").read_text() == server.page(document)


def test_less_delay_and_more_packets_are_better_and_noise_is_not(server: ModuleType) -> None:
    assert server.gain([90.0, 90.0, 90.0], [100.0, 100.0, 100.0], "delay") == (pytest.approx(10.0), pytest.approx(0.0))
    assert server.gain([90.0, 90.0, 90.0], [100.0, 100.0, 100.0], "rate") == (pytest.approx(-10.0), pytest.approx(0.0))
    values = {("t", way, "m", "rate"): [10.0, 10.1, 10.2] for way in server.WAYS}
    assert server.best(values, "t", "m", "rate") == "not told apart"
    assert server.best(values | {("t", "none", "m", "rate"): [11.0, 11.1, 11.2]}, "t", "m", "rate") == "none"
    assert server.best(values | {("t", "own", "m", "rate"): [9.0, 10.0, 12.5]}, "t", "m", "rate") == "not told apart"


def test_it_runs_in_short_and_goes_on_where_it_was(
    server: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short = {"run.packets": 1000, "run.warmup": 500, "function.forward.prefixes": 1000}
    monkeypatch.setattr(server, "HERE", tmp_path)
    monkeypatch.setattr(server, "PACKETS", server.PACKETS | short)
    monkeypatch.setattr(server, "TABLES", {"routes, few": server.TABLES["routes, few"]})
    monkeypatch.setattr(server, "MEMORIES", {name: server.MEMORIES[name] for name in ("DDR4", "stacked, vaults")})
    monkeypatch.setattr(server, "REPLICATIONS", 2)
    assert server.main([str(tmp_path / "study")]) == 0
    document = json.loads((tmp_path / "server.json").read_text())
    assert len(document["cases"]) == 12
    stacked, ddr4 = (document["cases"][f"routes, few / none / {m} / delay"] for m in ("stacked, vaults", "DDR4"))
    # What lies in the stack is not read from the machine's DRAM.
    assert max(stacked["dram_reads"]) < min(ddr4["dram_reads"])
    assert capsys.readouterr().out == (tmp_path / "server.md").read_text()
    runs = sorted((tmp_path / "study" / "runs").iterdir())
    times = [run.stat().st_mtime_ns for run in runs]
    assert server.main([str(tmp_path / "study")]) == 0
    assert [run.stat().st_mtime_ns for run in sorted((tmp_path / "study" / "runs").iterdir())] == times
