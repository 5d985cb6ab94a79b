"""The validation rooms that need nothing but this program: what they compare holds, and a deviation is caught."""

import csv
import importlib.util

import pytest

import documents

ROOMS = documents.ROOT / "validation"


def room(name):
    spec = importlib.util.spec_from_file_location(f"validation_{name}", ROOMS / name / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shared(name):
    """The cells of a row of the independent measurements, or a reason to skip."""
    path = documents.ROOT.parent / "shared" / "reference" / "README.md"
    if not path.exists():
        pytest.skip("the reference measurements are not beside the checkout (../shared/reference)")
    line = next(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {name}"))
    return [cell.strip() for cell in line.strip("| ").split("|")[1:]]


@pytest.mark.parametrize("simulator", ["Ramulator", "DRAMsim3", "DRAMSys"])
def test_what_dram_is_compared_with_is_what_was_measured(simulator):
    cells = [float(number) for cell in shared(simulator) for number in cell.split(",")]
    with room("dram").REFERENCE.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    column = next(name for name in lines[0] if name.startswith(simulator.lower()))
    assert [float(line[column]) for line in lines] == cells


@pytest.mark.parametrize("trace", ["uniform", "zipf"])
def test_what_caches_are_compared_with_is_what_was_counted(trace):
    cells = shared(trace)
    with room("caches").REFERENCE.open(newline="", encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["trace"] == trace]
    assert [f"{line['hits']} / {line['misses']}" for line in lines] == cells


def test_dram_is_within_its_tolerances_of_three_other_simulators(capsys):
    assert room("dram").main() == 0
    rows = capsys.readouterr().out.splitlines()
    shown = (ROOMS / "dram" / "README.md").read_text(encoding="utf-8")
    assert len(rows) == 6
    for row in rows[1:]:
        deviation, tolerance, largest, _ = row.split()[-4:]
        assert f"| {deviation} | {tolerance} | {largest} |".replace("%", " %") in shown


def test_caches_have_the_counts_of_two_independent_programs(capsys):
    assert room("caches").main() == 0
    assert "differs" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("quantity", "deviation", "largest", "is_met"),
    [
        ("bandwidth", 0.009, -0.009, True),
        ("bandwidth", 0.009, -0.011, False),
        ("bandwidth", -0.011, -0.009, False),
        ("read latency", 0.009, -0.011, True),
        ("read latency", -0.011, -0.009, False),
    ],
)
def test_bandwidth_is_held_to_each_simulator_and_latency_to_their_mean(quantity, deviation, largest, is_met):
    row = {"quantity": quantity, "deviation": deviation, "largest": largest, "tolerance": "0.01"}
    assert room("dram").is_met(row) == is_met


# The second is within the tolerance of the mean, and not within that of the one simulator.
@pytest.mark.parametrize(
    ("name", "wrong"),
    [("dram", ("14.325", "15.325")), ("dram", ("14.325", "14.525")), ("caches", ("2452,", "2453,"))],
)
def test_a_number_that_is_not_met_is_told(name, wrong, tmp_path, capsys):
    module = room(name)
    text = module.REFERENCE.read_text(encoding="utf-8")
    assert wrong[0] in text
    module.REFERENCE = tmp_path / "reference.csv"
    module.REFERENCE.write_text(text.replace(*wrong), encoding="utf-8")
    assert module.main() == 1


def test_a_skylake_servers_memory_under_load_is_within_its_tolerances():
    memory = room("memory")
    measured = memory.FOLDER / "mess_skylake_6146.csv"
    if not measured.exists():
        pytest.skip("published measurements of servers are not beside the checkout (../shared/data)")
    judged = list(memory.rows(memory.simulated(measured, clock=memory.CLOCK)))
    assert len(judged) == 8
    assert [row for row, _, within in judged if not within] == []
    shown = (ROOMS / "memory" / "README.md").read_text(encoding="utf-8")
    for row, _, _ in judged:
        assert f"| {row['deviation_pct']:+.1f} % |" in shown
