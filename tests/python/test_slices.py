"""`wirespeed slices`: three architectures side by side, on a Zipf-like table and on what packet functions look up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wirespeed import _wirespeed, cli, scenarios, slices
from wirespeed.errors import InputError
from wirespeed.papers.paper import KEPT_FILE, Kept

SHORT = ["--set", "requests=20000"]

# How near previews of recorded lookups are: points of hit rates of L1 and L2, and of the LLC; what is carried where
# nothing saturates, and where something does; waits above 10 ns where nothing does.
PRIVATE, LLC, CARRIED, CARRIED_SATURATED, WAITS = 0.1, 0.3, 0.1, 0.4, 0.5


def run(*arguments: str) -> dict[str, Any]:
    """The command's JSON."""
    done = CliRunner().invoke(cli.app, ["slices", "--quiet", "--format", "json", *arguments])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def outcomes(found: dict[str, Any]) -> dict[str, Any]:
    """By architecture."""
    return {row["architecture"]: row for row in found["architectures"]}


def test_three_architectures_stand_side_by_side_with_closed_forms_and_their_error() -> None:
    found = outcomes(run(*SHORT))
    assert list(found) == ["proposed", "no_llc", "shared_llc"]
    waits = {name: row["outcome"]["wait_ns"]["value"] for name, row in found.items()}
    assert waits["proposed"] < waits["no_llc"] < waits["shared_llc"]
    assert found["shared_llc"]["outcome"]["saturated"] == "slices"
    assert found["proposed"]["outcome"]["saturated"] is None
    for name in ("proposed", "no_llc"):
        assert abs(found[name]["errors"]["throughput_per_us"]) < 0.05
        assert abs(found[name]["errors"]["l2_hits"]) < 0.03


def test_a_preview_simulates_nothing() -> None:
    found = run("--preview", "--real-size")
    assert all(row["outcome"] is None and row["preview"]["wait_ns"] > 0 for row in found["architectures"])
    assert found["spec"]["caches"]["slice"]["bytes"] == 1 << 20


@pytest.mark.parametrize("function", ["forward", "nat", "classify"])
def test_functions_are_looked_up_as_they_touch_their_tables(function: str) -> None:
    lookups = recorded(function, 3000)
    facts = json.loads(lookups.facts())
    assert facts["packets"] == 3000
    assert facts["lines"] == sum(region["lines"] for region in facts["regions"]) >= facts["touched"] > 0
    found = outcomes(slices.study(slices.default(["requests=20000"]), lookups))
    held = {name: row["outcome"]["held_ns"]["value"] for name, row in found.items()}
    # A core is held for every lookup of a packet: at least by L1 each time.
    assert all(ns > facts["per_packet"] * 1.25 for ns in held.values())
    for name, row in found.items():
        as_near_as_stated(function, name, row)


def as_near_as_stated(function: str, architecture: str, row: dict[str, Any]) -> None:
    """The accuracy of previews of recorded lookups that docs/papers/2020-access-korikawa.md states."""
    errors, outcome = row["errors"], row["outcome"]
    for level, points in (("l1_hits", PRIVATE), ("l2_hits", PRIVATE), ("llc_hits", LLC)):
        assert errors[level] is None or abs(errors[level]) <= points, (function, architecture, level, errors)
    carried = CARRIED if outcome["saturated"] is None else CARRIED_SATURATED
    assert abs(errors["throughput_per_us"]) <= carried, (function, architecture, errors)
    if outcome["wait_ns"]["value"] > 10 and outcome["saturated"] is None:
        assert abs(errors["wait_ns"]) <= WAITS, (function, architecture, errors)


def test_previews_of_recorded_lookups_hold_at_real_sizes() -> None:
    spec = slices.default(["requests=10000", "applications.0.rho=0.4"], real_size=True)
    for name, row in outcomes(slices.study(spec, recorded("nat", 3000))).items():
        as_near_as_stated("nat", name, row)


APART = (
    "applications=[{cores=20, slices=14, rho=0.5, entries=2000000}, {cores=8, slices=14, rho=0.2, entries=8000}]",
    "caches.slice.bytes=1024",
)


def test_several_applications_have_figures_each_and_own_slices_keep_a_noisy_neighbour_out() -> None:
    given = [word for setting in APART for word in ("--set", setting)]
    apart, shared = (outcomes(run(*SHORT, *given, *more)) for more in ((), ("--set", "isolation=shared")))
    both = [found["proposed"]["outcome"]["applications"] for found in (apart, shared)]
    assert [one["packets"] for one in both[0]] == pytest.approx([20_000 * 5 / 7, 20_000 * 2 / 7], rel=0.05)
    own, among = (applications[1]["llc_hits"]["value"] for applications in both)
    assert own > among + 0.1
    assert all(row["preview"] is None for row in apart.values())
    assert "several applications" in apart["proposed"]["preview_leaves_out"][0]


def test_the_table_of_several_applications_names_each() -> None:
    given = [word for setting in APART for word in ("--set", setting)]
    done = CliRunner().invoke(cli.app, ["slices", "--quiet", *SHORT, *given])
    assert done.exit_code == 0, done.output
    assert "2 applications on 28 cores, rho 0.7, isolation slices" in done.output
    assert "applications[1]: 8,000 entries, alpha 0.83; 8 cores, 14 slices, rho 0.2" in done.output
    assert done.output.count("wait for a core W_e") == 3
    assert "In brackets" not in done.output
    assert "Note: closed forms leave out several applications" in done.output


def test_what_a_preview_does_not_know_is_told() -> None:
    skip = ["--set", "applications.0.bypass=true", "--set", "applications.0.skip={threshold=0.1}"]
    header = ["--set", "header_read={channels=1,read_ns=500.0}"]
    done = CliRunner().invoke(cli.app, ["slices", "--quiet", "--preview", *skip, *header])
    assert done.exit_code == 0, done.output
    for name in ("skip", "bypass", "header_read"):
        assert f"Note: closed forms leave out {name}" in done.output
    alone = CliRunner().invoke(cli.app, ["slices", "--quiet", "--preview"]).output
    assert "closed forms leave out" not in alone


@pytest.mark.parametrize(
    "given",
    [(), ("--set", "slices=25", "--set", "applications.0.slices=25"), ("--set", "applications.0.slices=14")],
)
def test_a_preview_alone_tells_what_a_simulation_tells_of_the_setting(given: tuple[str, ...]) -> None:
    told, simulated = (run(*given, *more)["notes"] for more in (["--preview"], ["--set", "requests=2000"]))
    assert told == simulated
    assert [*told, ""][0].startswith("applications[0]: 28 slices do not divide 625 lines") == (not given)
    shown = CliRunner().invoke(cli.app, ["slices", "--quiet", "--preview", *given]).output
    assert shown.count("Note: ") == len(told)


def test_lookups_are_recorded_in_lines_of_the_setting() -> None:
    found = []
    for n in (32, 64, 128):
        spec = slices.default([f"line_bytes={n}"])
        found.append(slices.study(spec, recorded("lookup", 500, n), preview=True)["lookups"])
    assert [facts["line_bytes"] for facts in found] == [32, 64, 128]
    lines, touched = ([facts[name] for facts in found] for name in ("lines", "touched"))
    assert lines[0] == pytest.approx(2 * lines[1], rel=0.01)
    assert lines[1] == pytest.approx(2 * lines[2], rel=0.01)
    assert touched[0] >= touched[1] >= touched[2] > 0


def test_of_recorded_lookups_no_table_and_popularity_is_told_and_none_may_be_set() -> None:
    lookups = recorded("lookup", 500)
    first = slices.study(slices.default(), lookups, preview=True)["spec"]["applications"][0]
    assert "alpha" not in first
    assert "entries" not in first
    for setting in ("applications.0.alpha=2", "applications.0.entries=1000", 'reading.ranks="contiguous"'):
        with pytest.raises(InputError, match=r"recorded lookups have a table of their own"):
            slices.study(slices.default([setting]), lookups, preview=True)
    with pytest.raises(InputError, match=r"line_bytes = 128: allowed is 64"):
        slices.study(slices.default(["line_bytes=128"]), lookups, preview=True)


def test_limits_are_named_in_the_table() -> None:
    of = ["--set", "limit=5"]
    assert "limit K" in CliRunner().invoke(cli.app, ["slices", "--quiet", *SHORT, *of]).output


def recorded(function: str, packets: int, line_bytes: int = 64) -> _wirespeed.RecordedLookups:
    """What a packet function looks up in a small table."""
    scenario = scenarios.find("forwarding")
    overrides = [f"function.kind={function}", "function.forward.prefixes=5000"]
    return slices.record(_wirespeed.Scenario(scenario.text, scenario.origin, overrides), packets, line_bytes)


def test_a_forwarded_packet_of_a_real_table_makes_one_or_two_lookups() -> None:
    data = Path(__file__).parents[3] / "shared" / "data"
    table, capture = data / "tables" / "full_table_v4v6.txt.gz", data / "traces" / "isp_nz_20100113.pcap.gz"
    if not table.is_file() or not capture.is_file():
        pytest.skip(f"not there: {table} or {capture}")
    found = run("--capture", str(capture), "--table", str(table), "--function", "lookup", "--packets", "2000", *SHORT)
    facts = found["lookups"]
    assert {file["kind"] for file in facts["files"]} >= {"capture", "table"}
    assert 1 <= facts["per_packet"] <= 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "applications.0.cores=29"], "applications[0].cores = 29: allowed is 1 to 28"),
        (["--set", "applications.0.slices=0"], "applications[0].slices = 0: allowed is 1 to 28"),
        (["--set", "applications.0.entries=600"], "applications[0].entries = 600: allowed is 865 and more"),
        (["--set", "applications.1.cores=3"], "no 1 here"),
        (["--set", "architecture=no_llc"], "all three are simulated side by side"),
        (["--packets", "500"], "--packets without traffic"),
        (["--set", "limt=3"], "limt"),
        (["--set", "slices=8"], "allowed is 1 to 8 (the system has slices = 8 for all applications together"),
        (["--set", "limit=many"], "limit: invalid type: string"),
        (["--set", "applications.0.rho=nan"], "a setting is no finite number"),
        (["--function", "nat", "--set", "line_bytes=0"], "line_bytes = 0: allowed is 1 to 4096"),
        (["--set", "caches.l3.bytes=3"], "no l3 here"),
        (["--set", "limit"], "path=value is wanted"),
        (["--function", "farward"], "farward"),
        (["--function", "ttl", "--packets", "100"], "looks nothing up in tables of its own"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(cli.app, ["slices", "--quiet", *SHORT, *arguments])
    told = f"{done.output}{done.exception}"
    assert done.exit_code != 0
    assert said in told
    assert isinstance(done.exception, InputError | _wirespeed.InputError | SystemExit)


def test_an_overload_is_marked() -> None:
    found = outcomes(run(*SHORT, "--set", "applications.0.rho=1.4", "--set", "caches.l1.bytes=0"))
    assert found["no_llc"]["outcome"]["saturated"] == "cores"


def test_points_that_were_finished_before_a_kill_are_kept_and_a_cut_line_costs_one(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.add("a", 1)
    kept.add("b", 2)
    path = tmp_path / KEPT_FILE
    path.write_bytes(path.read_bytes()[:-4])
    again = Kept(tmp_path)
    assert (again.get("a"), again.get("b")) == (1, None)
    again.add("c", 3)
    assert (Kept(tmp_path).get("a"), Kept(tmp_path).get("c")) == (1, 3)
