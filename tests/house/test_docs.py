"""What is written about inputs and results is what the program does."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hooks
import jsonschema
import pictures
import pyarrow as pa
import pytest
import sample
import suites
import summary_types

import wirespeed
from wirespeed import _wirespeed
from wirespeed.advise import techniques
from wirespeed.sweep.metrics import METRICS

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "docs" / "schema" / "scenario.schema.json"
SUMMARY = ROOT / "docs" / "schema" / "summary.schema.json"
RESULTS = ROOT / "docs" / "reference" / "results.md"
QUICK = {"run.packets": 5_000, "run.curve": [0.5], "run.curve_packets": 1_000, "run.search_packets": 1_000}
QUICK |= {"run.search_resolution": 0.5, "function.forward.prefixes": 5_000}


def test_the_schema_is_not_stale() -> None:
    printed = json.dumps(wirespeed.schema(), sort_keys=True)
    kept = json.dumps(json.loads(SCHEMA.read_text()), sort_keys=True) if SCHEMA.exists() else ""
    assert printed == kept, f"{SCHEMA.relative_to(ROOT)} is not what `wirespeed schema` prints: run `make schema`"


def test_the_schema_of_a_summary_and_its_types_in_python_are_not_stale() -> None:
    kept = SUMMARY.read_text() if SUMMARY.exists() else ""
    assert _wirespeed.summary_schema() + "\n" == kept, f"{SUMMARY.relative_to(ROOT)} is stale: run `make schema`"
    assert summary_types.text() == summary_types.FILE.read_text(), (
        f"{summary_types.FILE.name} is stale: run `make schema`"
    )


def test_the_sample_of_the_readme_is_what_is_printed() -> None:
    assert sample.kept() == sample.printed(), "README.md shows another run: run `make sample`"


@pytest.fixture(scope="module")
def result() -> wirespeed.Result:
    return wirespeed.run("forwarding", set=QUICK, search="pdr")


def documented() -> set[str]:
    names = set(re.findall(r"`(?:\w+\.)*(\w+)(?:\[\])?`", RESULTS.read_text()))
    rows = hooks.fields(json.loads(SUMMARY.read_text())).splitlines()[2:]
    return names | {row.split("`")[1].rpartition(".")[2] for row in rows}


def test_every_field_of_the_summary_is_described(result: wirespeed.Result) -> None:
    schema = json.loads(SUMMARY.read_text())
    objects = [schema, *schema["$defs"].values()]
    for node in objects:
        # What the schema does not name is no field.
        node["additionalProperties"] = False
    jsonschema.validate(result.summary, schema, jsonschema.Draft202012Validator)
    rows = hooks.fields(schema).splitlines()[2:]
    assert len(rows) > 250
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_reason_is_described(result: wirespeed.Result) -> None:
    missing = sorted(set(result.summary["attribution_labels"]) - documented())
    assert not missing, f"{RESULTS.relative_to(ROOT)} does not describe {', '.join(missing)}"


def test_every_reason_to_drop_is_described() -> None:
    verdicts = (ROOT / "crates" / "functions" / "src" / "verdict.rs").read_text()
    losses = (ROOT / "crates" / "sim" / "src" / "server" / "mod.rs").read_text()
    names = re.findall(r' = "(\w+)";', verdicts) + re.findall(r'Loss::\w+ => "(\w+)"', losses)
    assert len(names) > 10
    missing = sorted(set(names) - documented())
    assert not missing, f"{RESULTS.relative_to(ROOT)} does not describe {', '.join(missing)}"


def test_every_column_is_described(result: wirespeed.Result) -> None:
    for name in ("runs", "counters", "packets", "series"):
        columns = pa.table(getattr(result, name)).column_names
        missing = sorted({c for c in columns if not c.startswith("at_")} - documented())
        assert not missing, f"{RESULTS.relative_to(ROOT)} does not describe {', '.join(missing)} of {name}"


def section(schema: str) -> set[str]:
    """What the section of a document describes."""
    text = RESULTS.read_text().partition(f": `{schema}`\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`(?:\w+\.)*(\w+)`", text))


def fields(value: Any, given: set[str]) -> set[str]:
    """The names of all fields; those of a field in `given` are names that somebody gave."""
    if isinstance(value, list):
        return set().union(*(fields(inner, given) for inner in value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(fields(inner, given) for name, inner in value.items() if name not in given))


def test_every_field_of_a_sweep_is_described() -> None:
    vary = {"traffic.load": [0.2, 0.4]}
    with ThreadPoolExecutor(2) as pool:
        study = wirespeed.sweep("forwarding", vary, set=QUICK, until=["loss 5%"], executor=pool, most_replications=3)
    found = fields(study.document, {"at"})
    assert {"half_width", "overrides", "same_packets"} <= found
    described = section("wirespeed.sweep/1")
    missing = sorted(found - described - set(METRICS))
    assert not missing, f"{RESULTS.relative_to(ROOT)} does not describe {', '.join(missing)} of sweep.json"
    missing = sorted({name for row in study.rows for name in row if "." not in name} - documented())
    assert not missing, f"{RESULTS.relative_to(ROOT)} does not describe {', '.join(missing)} of results.parquet"


def test_every_field_of_advice_is_described() -> None:
    quick = QUICK | {"run.warmup": 9_000, "mempool.size": 8192, "traffic.profile": "min64", "machine.cores": 1}
    quick.pop("run.packets")
    kept = ("short_rings", "core")
    without = [name for name, *_ in techniques._ALL if name not in kept]
    found = set()
    # One that the machine carries as it is, and one that it does not.
    for target in ("1 Mpps", "24 Mpps"):
        advice = wirespeed.advise("forwarding", set=quick, packets=2000, without=without, target=target)
        found |= fields(advice.document, {"elsewhere"})
    assert {"sure", "gain_pct", "tried", "carries", "same_for_every_seed", "answered"} <= found
    missing = sorted(found - section("wirespeed.advice/1"))
    assert not missing, f"{RESULTS.relative_to(ROOT)} does not describe {', '.join(missing)} of advice.json"


def test_every_field_of_a_size_is_described() -> None:
    quick = QUICK | {"run.warmup": 6_000, "traffic.profile": "min64", "machine.cores": 1, "nic.fifo": "32 KiB"}
    quick.pop("run.packets")
    found: set[str] = set()
    # One that the machine carries as it is, one that it does not, and one that none does.
    for target, cores in (("1 Mpps", 2), ("24 Mpps", 3), ("140 Mpps", 1)):
        more = {"vary": [f"cores=1..{cores}"], "fix": ["rings", "burst", "io_ways"], "loss": 1e-4}
        found |= fields(wirespeed.size("forwarding", target, set=quick, **more).document, {"machine", "dimensions"})
    assert {"cores_by_share", "where", "least_ring", "cores_beyond_error", "grows_packets"} <= found
    missing = sorted(found - section("wirespeed.size/1"))
    assert not missing, f"{RESULTS.relative_to(ROOT)} does not describe {', '.join(missing)} of size.json"


def test_every_field_of_accuracy_is_described() -> None:
    row = {"source": "lab", "case": "one", "machine": "xeon-gold-6140", "metric": "carried_mpps", "measured": 30}
    sets = {"run.packets": 2_000, "run.warmup": 1_000, "function.forward.prefixes": 500}
    found = fields(wirespeed.accuracy([row | {"kind": "rate", "set": sets}]), set())
    assert {"median_of_medians", "within_10", "error_text", "not_asked", "wall_s"} <= found
    missing = sorted(found - section("wirespeed.accuracy/1"))
    assert not missing, f"{RESULTS.relative_to(ROOT)} does not describe {', '.join(missing)} of an accuracy"


def test_the_example_of_the_scenario_page_is_a_scenario() -> None:
    page = (ROOT / "docs" / "guide" / "scenarios.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert blocks
    for block in blocks:
        wirespeed.resolve(block)


def test_a_capture_that_is_routed_comes_with_its_routes() -> None:
    # Without --table a table is made, and most destinations of a real capture are not in it.
    texts = [
        ROOT / "README.md",
        ROOT / "docs" / "guide" / "router.md",
        ROOT / "python/wirespeed/commands/router/run.py",
    ]
    lines = [line for text in texts for line in text.read_text().splitlines() if "wirespeed router run --" in line]
    routed = [line for line in lines if "--capture" in line]
    assert len(routed) >= len(texts)
    assert [line for line in routed if "--table" not in line] == []


def test_make_test_builds_the_site_and_takes_warnings_for_errors() -> None:
    (suite,) = (suite for suite in suites.tests() if suite.name == "docs")
    assert list(suite.command) == ["env", "PICTURES=short", "mkdocs", "build", "--strict", "--quiet"]
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^test-build: .*\$\(STAMPS\)/docs$", makefile, re.MULTILINE), "its packages are not installed"


FEWEST_PICTURES = 25


def test_every_picture_is_drawn_and_shown() -> None:
    shown = {
        name
        for page in (ROOT / "docs").rglob("*.md")
        for name in re.findall(r"!\[[^\]]+\]\((?:\.\./)*pictures/([\w-]+)\.svg\)", page.read_text(encoding="utf-8"))
    }
    assert shown == set(pictures.PICTURES)
    assert len(shown) >= FEWEST_PICTURES
