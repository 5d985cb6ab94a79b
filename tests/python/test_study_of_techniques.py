"""The study of techniques (`examples/techniques`): its design, its command in short, its page against its results."""

import csv
import importlib
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from wirespeed import scenarios
from wirespeed.sweep import engine

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "techniques"
PAGE = ROOT / "docs" / "study" / "techniques.md"
SMALL = {
    "function.nat.sessions": 4_096,
    "traffic.flows.count": 1_000,
    "traffic.flows.destinations.count": 500,
    "run.warmup": 300,
}
# A mean with its half-width, as tables and text have them.
INTERVAL = re.compile(r"([+-]?\d+(?:\.\d+)?) ± (\d+(?:\.\d+)?)")


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("study")


@pytest.fixture
def findings(study):
    return study.findings


def table(file):
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_the_design_is_balanced_and_has_the_base(findings):
    on = findings.design().on
    assert not on[0].any()
    assert len(np.unique(on, axis=0)) == len(on) == 32
    for i, j in itertools.combinations(range(on.shape[1]), 2):
        corners, counts = np.unique(on[:, [i, j]], axis=0, return_counts=True)
        assert len(corners) == 4
        assert set(counts) == {8}


def test_the_design_is_of_resolution_six(findings):
    signs = np.where(findings.design().on, 1, -1)
    lengths = [
        size
        for size in range(1, signs.shape[1] + 1)
        for word in itertools.combinations(range(signs.shape[1]), size)
        if abs(np.prod(signs[:, list(word)], axis=1).sum()) == len(signs)
    ]
    assert lengths == [6]


def test_no_pair_is_mixed_up_with_another_or_with_a_main_effect(findings):
    design = findings.design()
    assert all(len(group) == 1 for group in design.aliases())
    pairs = {a ^ b for a, b in itertools.combinations(design.words, 2)}
    assert not pairs & set(design.words)


def test_effects_are_what_responses_were_made_of(findings):
    on = findings.design().on
    rows = []
    for seed, noise in enumerate((0.0, 0.001, -0.001)):
        for run, chosen in zip(on, findings.sets("nat"), strict=True):
            # 10 % by the first, 5 % by the second, and both together 2 % more.
            rate = 10 * 1.1 ** run[0] * 1.05 ** run[1] * 1.02 ** (run[0] and run[1]) * (1 + noise)
            where = {"part": "design", "server": "100", "function": "nat", "seed": seed}
            rows.append({**where, "set": findings.named(chosen), "carried_mpps": rate})
    found = findings.of_design(rows, ("100", "nat"), "rate")
    assert found["short_rings", "wide_io"].value == pytest.approx(2.0, abs=0.01)
    assert found["short_rings",].value == pytest.approx(100 * (1.1 * 1.02**0.5 - 1), abs=0.01)
    assert abs(found["stash_header",].value) < 1e-9
    assert findings.expected(rows, ("100", "nat"), "rate")(("short_rings", "wide_io")) == pytest.approx(
        np.log(1.1 * 1.05 * 1.02), abs=1e-4
    )
    assert findings.recommended(rows, ("100", "nat"), findings.FACTORS) == ("short_rings", "wide_io")


def test_every_set_of_the_study_starts(study):
    for server, function in itertools.product(study.SERVERS, study.FUNCTIONS):
        cell = study.Cell(server, function)
        for chosen in [*study.findings.sets(function), *cell.alone()]:
            study.wirespeed.resolve(function, set=[*scenarios.overrides(cell.base), *cell.settings(chosen)])


def test_the_smallest_form_of_the_study_writes_what_the_page_shows(study, tmp_path, monkeypatch):
    small = {name: {**settings, **SMALL} for name, settings in study.SERVERS.items()}
    monkeypatch.setattr(study, "SERVERS", small)
    for name in ("SATURATED", "HALF", "TRIAL"):
        monkeypatch.setattr(study, name, 1_000)
    monkeypatch.setattr(study, "WITHIN", 0.2)
    asked = [str(tmp_path), "--functions", "nat", "--servers", "100", "--seeds", "2"]
    study.main(asked)
    made = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    assert made.keys() == {"results.csv", "effects.csv", "tables.md", "techniques.svg"}
    for name in ("results.csv", "effects.csv"):
        assert table(tmp_path / name)[0].keys() == table(FOLDER / name)[0].keys()
    assert {row["part"] for row in table(tmp_path / "results.csv")} == {"design", "alone", "chosen", "search"}

    def none_may_run(*_, **__):
        raise AssertionError("a finished run ran again")

    monkeypatch.setattr(engine, "run", none_may_run)
    study.main(asked)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()} == made


def test_results_beside_the_study_are_whole(study):
    rows = [row for row in study.read(FOLDER / "results.csv") if row["part"] == "design"]
    assert {(row["server"], row["function"]) for row in rows} == set(itertools.product(study.SERVERS, study.FUNCTIONS))
    for server, function in itertools.product(study.SERVERS, study.FUNCTIONS):
        its = [row for row in rows if (row["server"], row["function"]) == (server, function)]
        sets = [study.named(chosen) for chosen in study.findings.sets(function)]
        seeds = {row["seed"] for row in its}
        assert seeds == set(range(len(seeds)))
        assert sorted((row["seed"], row["set"]) for row in its) == sorted(itertools.product(seeds, sets))


def test_tables_and_effects_are_those_of_the_results(study, findings, tmp_path):
    study.write(tmp_path, study.read(FOLDER / "results.csv"))
    assert (tmp_path / "effects.csv").read_text() == (FOLDER / "effects.csv").read_text()
    assert (tmp_path / "tables.md").read_text() == (FOLDER / "tables.md").read_text()


def test_every_interval_of_the_page_is_in_the_effects():
    known = {f"{float(row['value']):+.1f} ± {float(row['half_width']):.1f}" for row in table(FOLDER / "effects.csv")}
    text = PAGE.read_text(encoding="utf-8")
    told = INTERVAL.findall(text)
    assert told
    for value, wide in told:
        assert f"{float(value):+.1f} ± {float(wide):.1f}" in known, f"{value} ± {wide}"


def test_every_other_number_of_the_answer_is_in_the_tables():
    tables = (FOLDER / "tables.md").read_text()
    text = PAGE.read_text(encoding="utf-8")
    answer = text[text.index("**Answer.**") : text.index("## What was run")]
    found = text[text.index("## Effects, averaged") : text.index("## Limits")]
    told = re.findall(r"(\d+(?:\.\d+)?) (?:%|Mpps|µs|B)(?![\w±])", INTERVAL.sub("", answer + found))
    assert len(told) > 10
    missing = [each for each in told if not re.search(rf"(?<![\d.]){re.escape(each)}(?![\d.]\d)", tables)]
    # The least that a pair is told from, and what is searched to, are of the program.
    assert [each for each in missing if float(each) not in (2.0, 3.0)] == []
