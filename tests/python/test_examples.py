"""The examples that are programs of Python: run in short, from end to end. Those in C: `test_recording`."""

import importlib.util
import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def program(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / "five-systems" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_study_of_five_systems_runs_and_writes_what_the_documents_show(tmp_path, monkeypatch, capsys):
    study = program("study")
    short = "run.packets=2000,run.warmup=500,run.search_packets=1000,function.forward.prefixes=1000"
    monkeypatch.setattr(study, "SCENARIO", f"{study.SCENARIO},{short}")
    monkeypatch.setattr(study, "NAMES", ["slices", "io_ways"])
    monkeypatch.setattr(study, "REPLICATIONS", 2)
    monkeypatch.setattr(study, "BEST", 1)
    monkeypatch.setattr(study.sys, "argv", ["study.py", str(tmp_path), "5"])
    study.main()
    document = json.loads((tmp_path / "results.json").read_text())
    kept = json.loads((FOLDER / "five-systems" / "results.json").read_text())
    assert document.keys() == kept.keys()
    assert document["effects"].keys() == {"slices", "io_ways"}
    assert set(document["saturated_mpps"]) == {"as_it_is", "slices", "io_ways", "slices_io_ways"}
    assert capsys.readouterr().out == (tmp_path / "results.md").read_text()


def test_every_technique_of_the_study_starts_alone_and_all_together(tmp_path):
    study = program("study")
    for on in [(name,) for name in study.NAMES] + [tuple(study.NAMES)]:
        study.wirespeed.resolve(study.SCENARIO, set=study.settings(on))


def test_every_example_is_run_by_a_test():
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    for example in FOLDER.iterdir():
        assert f'"{example.name}"' in tests or f"/{example.name}" in tests, f"no test runs {example.name}"
