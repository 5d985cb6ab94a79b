"""The room of Hermes on runs too short for their numbers: what is asked for is measured, drawn and told."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import wirespeed
from wirespeed import _wirespeed
from wirespeed.papers import Kept, Request, find, no_progress
from wirespeed.papers.rooms import zhu_2011
from wirespeed.papers.rooms.zhu_2011 import line_rates

ROOM = Path(__file__).resolve().parents[2] / "papers" / "2011-dac-hermes"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of few packets."""
    real = Request.parameters

    def few(request: Request, name: str) -> dict[str, Any]:
        parameters = real(request, name)
        parameters["runs"] |= {"seeds": 2, "batches": [64, 256], "batch": 64, "cores": [1, 2], "mcw": [8, 32]}
        parameters["workload"] |= {"rules": 16, "strings": 16, "depth": 16}
        for application in parameters["applications"].values():
            application |= {"recorded": 64, "packets": 512}
        parameters["line_rates"] |= {"packets": dict.fromkeys(parameters["line_rates"]["packets"], 512)}
        return parameters

    monkeypatch.setattr(Request, "parameters", few)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("reading", ["letter", "serial", "overlapped"])
def test_every_claim_is_measured_and_every_panel_drawn(reading: str) -> None:
    paper = find("2011-dac-hermes")
    claims = {row.id for row in paper.expected()}
    request = Request(paper, reading, frozenset(claims), False, 1, 1, Kept(), no_progress)
    found = paper.measure(request)
    assert set(found.measured) == claims
    assert [figure.name for figure in found.figures] == ["fig3a", "fig3b", "fig3c", "fig3d", "fig3e", "fig3f"]
    assert all(figure.svg().startswith("<svg") for figure in found.figures[:1])
    # FIFO 4 KiB, DCQ 1 KiB, tables of eight cores 0.5 KiB.
    assert found.measured["storage"].ours == 5.5
    rows = paper.file("real-gpu.csv").count("\n") - 1
    assert f"on a real GPU: {rows} rows in papers/{paper.id}/real-gpu.csv" in found.notes
    assert any(note.startswith("batch 256; throughput up to ") for note in found.notes)
    assert [row["application"] for row in found.tables["applications"]] == ["DPI", "Classifier", "RTL", "DecTTL"]
    assert len(found.tables["tasks"]) == 6
    assert [row["traffic"] for row in found.tables["scaling"]] == ["burst", "sparse"] * 4
    assert ("line-rates" in found.tables) == (reading == "letter")
    # A batch waits for the packets behind its first: 63 of 64.
    assert found.measured["first-wait"].ours == pytest.approx(63 / 64, rel=0.1)
    # Every claim of a run has a half-width over seeds.
    assert {row["seed"] for row in found.points} == {1, 2}
    parts = [part for claim in found.measured.values() for part in claim.parts.values()]
    assert sum(part.half_width > 0 for part in parts) > len(parts) / 2
    assert {row["system"] for row in found.points} == {"hermes", "batch"}
    assert {row["nic"] for row in found.points} == {True, False}


def test_a_factor_meets_the_papers_between_two_rates_or_nowhere() -> None:
    assert line_rates.crossing([10, 40], [2.0, 6.0], 4.0) == pytest.approx(20.0)
    assert line_rates.crossing([10, 40, 90], [2.0, 6.0, 1.0], 6.0) == pytest.approx(40.0)
    assert line_rates.crossing([10, 40, 90], [2.0, 2.0, 2.0], 2.5) is None


def test_points_that_cannot_be_are_refused_before_any_is_run() -> None:
    told: list[int] = []
    with pytest.raises(_wirespeed.InputError, match=r"points\[1\]"):
        _wirespeed.run_simt([json.dumps(_point()), json.dumps(_point() | {"packets": 0})], lambda n, _: told.append(n))
    assert not told
    with pytest.raises(_wirespeed.InputError, match="did you mean hermes"):
        _wirespeed.gpu_preset("hermse")


def _point() -> dict[str, Any]:
    request = Request(find("2011-dac-hermes"), "letter", frozenset(), False, 1, 1, Kept(), no_progress)
    return zhu_2011.Study(request).point(zhu_2011.Setting("dec_ttl", "hermes", 10.0))


def test_a_delay_that_the_dcq_adds_in_one_seed_and_takes_in_another_is_none() -> None:
    added = iter([0.001, -0.001, 0.0005, 0.0002, 0.02, 0.019, 0.021, 0.018])
    seeds = zhu_2011.Seeds.__new__(zhu_2011.Seeds)
    seeds.panels = [None] * 4  # type: ignore[list-item]
    parts = seeds.parts(lambda _, name: next(added), ("dec_ttl", "rtl"))
    assert {name: part.holds for name, part in parts.items()} == {"DecTTL": False, "RTL": True}


def test_the_study_on_a_server_shows_what_was_measured_and_its_combinations_start() -> None:
    spec = importlib.util.spec_from_file_location("hermes_server", ROOM / "server.py")
    assert spec is not None
    assert spec.loader is not None
    server = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(server)
    document = json.loads((ROOM / "server.json").read_text(encoding="utf-8"))
    combinations = server.keys()
    assert set(document["cases"]) == {server.name(key) for key in combinations}
    assert all(len(case["value"]) == server.REPLICATIONS for case in document["cases"].values())
    assert (ROOM / "server.md").read_text(encoding="utf-8") == server.page(document)
    resolved = {key: wirespeed.resolve(server.FUNCTIONS[key[1]], set=server.settings(key)) for key in combinations}
    assert len(set(resolved.values())) == len(resolved)
    assert all(("[machine.gpu]" in text) == (key[2] != "cores") for key, text in resolved.items())
