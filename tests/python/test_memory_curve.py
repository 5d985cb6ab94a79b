"""Bandwidth against latency: what a measurement is read as, what bad rows are told, and what is printed."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import rich.console

from wirespeed import InputError, _wirespeed, curve, files, measured_curve, memory

SERVERS = Path(__file__).resolve().parents[3] / "shared" / "data" / "validation" / "servers"
PLAIN = "read_percent,bandwidth_GBps,latency_ns\n"
MESS = "system,data_set,read_percent,bandwidth_GBps,latency,latency_unit_as_published\n"
MLC = "testbed,measurement,inject_delay_or_case,bandwidth_MBps,latency_ns,source\n"
QUICK: dict[str, Any] = {"points": 3, "cores": 2, "accesses": 256, "reads": [100]}


def written(folder: Path, text: str) -> Path:
    file = folder / "measured.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_plain_measurement_is_read_as_it_stands(tmp_path: Path) -> None:
    found = measured_curve.read(written(tmp_path, PLAIN + "100,0,80\n100,50,100\n50,40,120\n100,1,82\n"), 3.0)
    assert [each["read_percent"] for each in found["curves"]] == [100, 50]
    assert (found["curves"][0]["idle_ns"], found["curves"][0]["most_gb_per_s"]) == (81, 50)
    # No point of that share is idle: the one with the least load does not stand for it.
    assert found["curves"][1]["idle_ns"] is None


def test_where_idle_is_not_known_no_latency_is_too_small(tmp_path: Path) -> None:
    found = measured_curve.read(written(tmp_path, PLAIN + "100,10,100\n100,20,60\n100,50,90\n"), 3.0)
    assert found["curves"][0]["idle_ns"] is None


def test_cycles_are_turned_into_time_by_a_clock(tmp_path: Path) -> None:
    text = MESS + "a,x,100,-0.2,240,cpu_cycles\na,x,100,40,320,cpu_cycles\n"
    found = measured_curve.read(written(tmp_path, text), 3.2)
    assert found["note"] == "cycles at 3.2 GHz"
    assert [point["latency_ns"] for point in found["curves"][0]["points"]] == [75, 100]
    # Noise around an idle system's own traffic.
    assert found["curves"][0]["points"][0]["bandwidth_gb_per_s"] == 0


def test_of_both_sockets_half_is_taken(tmp_path: Path) -> None:
    text = (
        MLC
        + "skx,idle_latency,,,80.5,s\nskx,loaded_latency_all_reads_both_sockets,00100,200000.0,200,s\n"
        + "skx,loaded_latency_all_reads_both_sockets,20000,2000.0,82,s\n"
        + "skx,max_bandwidth_both_sockets,1:1 Reads-Writes,150000,,s\nhsw,idle_latency,,,99,s\n"
    )
    file = written(tmp_path, text)
    found = measured_curve.read(file, 3.0, "skx")
    reads, mixed = found["curves"]
    assert (reads["idle_ns"], reads["most_gb_per_s"], mixed["read_percent"], mixed["most_gb_per_s"]) == (
        80.5,
        100,
        50,
        75,
    )
    assert mixed["points"][0]["latency_ns"] is None
    with pytest.raises(InputError, match="several systems, skx, hsw: choose one"):
        measured_curve.read(file, 3.0)
    with pytest.raises(InputError, match=r"no system 'skl'"):
        measured_curve.read(file, 3.0, "skl")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("100,0,80\n100,-3,80\n100,50,100\n", r"csv:3: bandwidth_GBps = -3: allowed is a number of GB/s, 0 or more"),
        ("100,0,80\n100,nan,80\n", r"csv:3: bandwidth_GBps = nan: allowed is a number of GB/s"),
        ("100,0,80\n100,5,inf\n", r"csv:3: latency_ns = inf: allowed is a number of ns above 0"),
        ("100,0,-80\n", r"csv:2: latency_ns = -80: allowed is a number of ns above 0"),
        (
            "100,0,80\n\n100,20,60\n100,50,90\n",
            r"csv:4: latency = 60 ns at 20 GB/s: allowed is 80% or more of the idle",
        ),
        ("101,0,80\n", r"csv:2: read_percent = 101: allowed are 0 to 100 percent"),
        ("-1,0,80\n", r"csv:2: read_percent = -1: allowed are 0 to 100 percent"),
        ("100,,80\n", r"csv:2: bandwidth_GBps = '': allowed is a number"),
        ("100,5\n", r"csv:2: 2 fields \(100,5\): allowed are 3, as in the head"),
        ("100,0,80\n\n# by hand\n100,0,5,86\n", r"csv:5: 4 fields \(100,0,5,86\): allowed are 3, as in the head"),
        ("100,0,80\n100\n", r"csv:3: 1 field \(100\): allowed are 3"),
        ("", r"csv: has no rows"),
    ],
)
def test_rows_that_make_no_sense_say_where_and_what_is_allowed(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        measured_curve.read(written(tmp_path, PLAIN + rows), 3.0)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"csv:1: the head is a,b: allowed are read_percent,bandwidth_GBps,latency_ns, or"
    ):
        measured_curve.read(written(tmp_path, "a,b\n1,2\n"), 3.0)
    with pytest.raises(InputError, match=r"fields are separated by ; here: write commas"):
        measured_curve.read(written(tmp_path, PLAIN.replace(",", ";") + "100;0,5;86\n"), 3.0)
    with pytest.raises(InputError, match=r"the head is x{200}…: allowed are"):
        measured_curve.read(written(tmp_path, "x" * 5000), 3.0)
    for content in (b"\x89PNG\r\n\x1a\n\xff", b"read_percent\0", PLAIN.encode("utf-16")):
        (tmp_path / "binary.csv").write_bytes(content)
        with pytest.raises(InputError, match=r"binary\.csv: is not text: allowed is a CSV file in UTF-8$"):
            measured_curve.read(tmp_path / "binary.csv", 3.0)
    with pytest.raises(InputError, match="cannot be read"):
        measured_curve.read(tmp_path / "missing.csv", 3.0)
    with pytest.raises(InputError, match=r"latency_unit_as_published = 'us': allowed are cpu_cycles, ns"):
        measured_curve.read(written(tmp_path, MESS + "a,x,100,0,1,us\n"), 3.0)
    with pytest.raises(InputError, match="names no systems"):
        measured_curve.read(written(tmp_path, PLAIN + "100,0,80\n"), 3.0, "a")


def test_a_byte_order_mark_and_comments_are_passed_over(tmp_path: Path) -> None:
    text = "\ufeff# of mlc, 2 sockets\n" + PLAIN + "# idle\n100,0,80\n100, 50, 100\n"
    found = measured_curve.read(written(tmp_path, text), 3.0)
    assert [point["latency_ns"] for point in found["curves"][0]["points"]] == [80, 100]


def test_cycles_are_of_the_clock_that_is_given_or_it_is_told(tmp_path: Path) -> None:
    cycles = written(tmp_path, MESS + "a,x,100,0,240,cpu_cycles\na,x,100,10,320,cpu_cycles\n")
    for clock in ("3.2 GHz", "3200 MHz", 3.2):
        found = memory.curve("xeon-gold-6140", measured=cycles, measured_clock=clock, **QUICK)
        assert (found["deviations"][0]["measured"], found["deviation_notes"]) == (75, [])
    found = memory.curve("xeon-gold-6140", measured=cycles, **QUICK)
    assert found["deviations"][0]["measured"] == pytest.approx(240 / 2.3)
    warning = "cycles are taken at 2.3 GHz, this machine's: --measured-clock gives the measured processor's"
    assert found["deviation_notes"] == [warning]
    for wrong in ("fast", "3.2 ns", "3200", "3.2G", "0 GHz", "1e400 GHz", math.nan):
        with pytest.raises(InputError, match=r"measured_clock = .*: allowed are 0\.1 to 10 GHz, as in '3\.2 GHz'"):
            memory.curve("xeon-gold-6140", measured=cycles, measured_clock=wrong, **QUICK)
    with pytest.raises(InputError, match="give measured, too"):
        memory.curve("xeon-gold-6140", measured_clock="3.2 GHz", **QUICK)
    plain = written(tmp_path, PLAIN + "100,0,80\n")
    with pytest.raises(InputError, match="its latencies are nanoseconds: leave it out"):
        memory.curve("xeon-gold-6140", measured=plain, measured_clock="3.2 GHz", **QUICK)


@pytest.fixture
def idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be simulated."""

    def simulated(*_: object) -> str:
        raise AssertionError("was simulated")

    monkeypatch.setattr(curve._wirespeed, "memory_curve", simulated)


@pytest.mark.usefixtures("idle_machine")
@pytest.mark.parametrize(
    ("rows", "reads", "said"),
    [
        ("80,0,80\n60,0,80\n", [100, 50], r"measured are 80, 60 % reads, simulated 100, 50: .*give --reads 80,60$"),
        ("20,0,80\n", [100], r"measured are 20 % reads, simulated 100: .*allowed are shares of 50 to 100 percent$"),
    ],
)
def test_nothing_in_common_is_told_before_anything_runs(
    tmp_path: Path, rows: str, reads: list[float], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        memory.curve("xeon-gold-6140", measured=written(tmp_path, PLAIN + rows), reads=reads)


def test_what_is_not_compared_is_told(tmp_path: Path) -> None:
    measured = written(tmp_path, PLAIN + "100,60,90\n100,300,100\n75,0,90\n75,9,95\n66.7,9,95\n")
    found = memory.curve("xeon-gold-6140", measured=measured, **QUICK)
    assert found["deviation_notes"] == [
        "no idle latency of 100 % reads: no point below 2 % of the most bandwidth",
        "measured and not simulated: 75, 66.7 % reads",
    ]
    rows = {row["quantity"]: row for row in found["deviations"]}
    assert "idle latency" not in rows
    most = found["curves"][0]["most_gb_per_s"]
    half = rows["latency at half of the most"]
    assert (half["simulated"], half["deviation_pct"]) == (None, None)
    assert half["note"] == f"not reached: most is {most:.1f} GB/s"
    assert rows["most bandwidth"]["note"] is None


def test_a_measurement_that_is_the_simulation_deviates_by_nothing(tmp_path: Path) -> None:
    found = memory.curve("xeon-gold-6140", **QUICK)
    points = found["curves"][0]["points"]
    rows = "".join(f"100,{p['bandwidth_gb_per_s']!r},{p['latency_ns']!r}\n" for p in points[1:])
    idle = f"100,0,{points[0]['latency_ns']!r}\n"
    again = memory.curve("xeon-gold-6140", measured=written(tmp_path, PLAIN + idle + rows), **QUICK)
    assert again["curves"] == found["curves"]
    deviations = {row["quantity"]: row["deviation_pct"] for row in again["deviations"]}
    assert len(deviations) == 4
    # The idle point of the simulation has the chase's own bandwidth.
    assert all(abs(pct) < 2 for pct in deviations.values()), deviations
    assert deviations["most bandwidth"] == deviations["idle latency"] == 0


def test_dram_by_commands_has_the_machines_ranks_and_channels() -> None:
    found = memory.curve("xeon-gold-6140", dram="commands", **QUICK)
    assert (found["dram"]["model"], found["dram"]["standard"], found["dram"]["channels"]) == (
        "commands",
        "ddr4-2666v",
        6,
    )
    assert found["dram"]["peak_gb_per_s"] == pytest.approx(128, rel=0.001)
    assert found["curves"][0]["points"][0]["all_reads_ns"] is not None
    at_once = memory.curve("xeon-gold-6140", dram="at-once", **QUICK)
    assert (at_once["dram"]["model"], at_once["dram"]["controller"]) == ("at-once", None)
    # By commands is usual where the part is known.
    assert found["curves"] == memory.curve("xeon-gold-6140", **QUICK)["curves"]
    assert found["notes"] == []
    assert any("far below a controller's" in note for note in at_once["notes"])
    sixteen = memory.curve("xeon-platinum-8480", dram="commands", **QUICK)
    assert sixteen["dram"]["peak_gb_per_s"] == pytest.approx(307.2, rel=0.01)


def _without_currents(machine: str) -> str:
    """A machine's file that is the shipped one with all that its parts say, but for what its DIMMs are."""
    resolved = _wirespeed.Scenario("", "none", [f"machine.preset={machine}"]).resolved
    kept, within = [], False
    for line in resolved.splitlines(True):
        if line.startswith("["):
            within = line.startswith(("[machine", "[nic", "[mempool"))
        if within and not line.startswith(("currents", "preset", "processor", 'model = "100g"')):
            kept.append(line)
    return "".join(kept)


def test_dram_is_at_once_where_it_cannot_be_by_commands_and_says_why(tmp_path: Path) -> None:
    slow = memory.curve("xeon-gold-6140", set={"machine.dram.t_cl": "20 ns"}, **QUICK)
    assert slow["dram"]["model"] == "at-once"
    assert slow["notes"][0].startswith("not by commands: machine.dram.t_cl = 20 ns: allowed is the standard's")
    mine = tmp_path / "mine.toml"
    mine.write_text(_without_currents("xeon-gold-6140"))
    unknown = memory.curve(mine, **QUICK)
    assert unknown["dram"]["model"] == "at-once"
    assert unknown["notes"][0].startswith("not by commands: the machine does not say which part")
    with pytest.raises(InputError, match="does not say which part"):
        memory.curve(mine, dram="commands", **QUICK)


def test_closed_forms_hold_of_a_shipped_machine() -> None:
    found = memory.curve("xeon-gold-6140", dram="commands", reads=[100, 50], points=4, accesses=512)
    assert (found["streams"], found["streams_are"][:11]) == (17, "all but one")
    idle = found["curves"][0]["idle_ns"]
    # A row may be open, or a refresh under way.
    assert found["unloaded_ns"]["sum"] - 0.5 < idle < found["unloaded_ns"]["sum"] + 14.25 + 8
    for each in found["curves"]:
        assert each["most_gb_per_s"] < found["dram"]["peak_gb_per_s"]
        for point in each["points"]:
            assert point["controller_ns"] < point["behind_llc_ns"] < point["latency_ns"]
            assert math.isclose(sum(point["parts_ns"].values()), point["latency_ns"], rel_tol=1e-6)


def test_settings_that_cannot_be_say_why() -> None:
    with pytest.raises(InputError, match="allowed are 50 to 100 percent"):
        memory.curve("xeon-gold-6140", reads=[30])
    with pytest.raises(InputError, match="allowed are commands and at-once"):
        memory.curve("xeon-gold-6140", dram="slow")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="give measured, too"):
        memory.curve("xeon-gold-6140", system="skx")
    for other in ({"run.seed": 4}, ["machines.cores=2"], {"nic.ports": 1}):
        with pytest.raises(InputError, match=r"^--set .*: allowed are settings below machine, as in"):
            memory.curve("xeon-gold-6140", set=other)
    with pytest.raises(InputError, match="xeon-gold-614"):
        memory.curve("xeon-gold-614")


def test_the_command_prints_a_table_json_and_a_picture(tmp_path: Path, wirespeed: Any) -> None:
    measured = written(tmp_path, PLAIN + "100,0,90\n100,10,100\n100,20,150\n")
    svg = tmp_path / "curve.svg"
    quick = ("--points", "3", "--cores", "2", "--accesses", "256", "--reads", "100", "--measured", str(measured))
    code, out, _ = wirespeed("memory", "curve", "xeon-gold-6140", *quick, "--svg", str(svg))
    assert code == 0
    assert "Xeon Gold 6140: DRAM by commands (ddr4-2666v)" in out
    assert "latency at half of the most" in out
    drawn = svg.read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert "DRAM by commands" in drawn
    # What the command wrote it replaces.
    code, out, _ = wirespeed("memory", "curve", "xeon-gold-6140", *quick, "--svg", str(svg), "--dram", "at-once")
    assert code == 0
    assert "DRAM that answers at once" in out
    assert "DRAM that answers at once" in svg.read_text(encoding="utf-8")
    code, out, _ = wirespeed("memory", "curve", "xeon-gold-6140", *quick, "--format", "json")
    assert (code, json.loads(out)["schema"]) == (0, "wirespeed.memory_curve/1")
    code, _, err = wirespeed("memory", "curve", "xeon-gold-6140", "--reads", "100;50")
    assert code == 2
    assert "between commas, as in 100,75,50" in err


@pytest.mark.usefixtures("idle_machine")
def test_a_picture_replaces_no_file_of_anybody_elses_and_it_is_told_before_anything_runs(
    tmp_path: Path, wirespeed: Any
) -> None:
    theirs, measured = tmp_path / "theirs.svg", tmp_path / "measured.svg"
    theirs.write_text("<svg></svg>")
    measured.write_text(PLAIN + "100,0,80\n")
    (tmp_path / "link.svg").symlink_to(tmp_path / "nowhere.svg")
    (tmp_path / "folder.svg").mkdir()
    for name, said in {
        "theirs.svg": "was not written by `wirespeed memory curve`",
        "measured.svg": "is the file of --measured",
        "sub/../measured.svg": "is the file of --measured",
        "curve.png": "allowed are names that end in .svg",
        "missing/curve.svg": "is no folder",
        "link.svg": "is a symbolic link",
        "folder.svg": "was not written by",
    }.items():
        svg = str(tmp_path / name)
        code, _, err = wirespeed("memory", "curve", "xeon-gold-6140", "--measured", str(measured), "--svg", svg)
        assert (code, said in " ".join(err.split())) == (2, True), (name, err)
    assert theirs.read_text() == "<svg></svg>"
    assert measured.read_text() == PLAIN + "100,0,80\n"


def test_the_answer_is_printed_though_the_picture_fails(
    tmp_path: Path, wirespeed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "curve.svg")

    monkeypatch.setattr(files, "write", full)
    quick = ("--points", "3", "--cores", "2", "--accesses", "256", "--svg", str(tmp_path / "curve.svg"))
    code, out, err = wirespeed("memory", "curve", "xeon-gold-6140", *quick)
    assert code != 0
    assert "GB/s at most" in out
    assert "No space left" in err


def test_the_table_has_no_empty_columns_and_rises_with_bandwidth(wirespeed: Any) -> None:
    quick = ("memory", "curve", "xeon-gold-6140", "--points", "4", "--cores", "2", "--accesses", "256")
    _, out, _ = wirespeed(*quick, "--reads", "100")
    # Heads stand a word a line, whole.
    assert re.search(
        r"^ +of +latency, +behind +all +row *\n +GB/s +pins +reads +ns +LLC +controller +reads +hits", out, re.MULTILINE
    )
    assert re.search(r"idle is \d+\.\d ns above that, by refreshes and rows left open", out)
    _, closed, _ = wirespeed(*quick, "--reads", "100", "--set", "machine.dram.page=closed")
    assert re.search(r"idle is \d+\.\d ns above that, by refreshes$", closed, re.MULTILINE)
    _, at_once, _ = wirespeed(*quick, "--reads", "100", "--dram", "at-once")
    assert not re.search(r"\ball\b", at_once)
    assert "idle is" not in at_once
    found = memory.curve("xeon-gold-6140", **QUICK)
    found["curves"][0]["points"].reverse()
    lines = printed(curve.table(found)).splitlines()
    loads = [float(line.split()[0]) for line in lines if re.match(r" *\d+\.\d .*%", line) and "±" in line]
    assert loads == sorted(loads)
    assert len(loads) == 3


def printed(drawn: Any) -> str:
    console = rich.console.Console(width=150, file=io.StringIO())
    console.print(drawn)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_what_is_between_points_is_on_a_line() -> None:
    points = [{"bandwidth_gb_per_s": x, "latency_ns": y} for x, y in ((10, 90), (0, 80), (20, None))]
    assert curve.latency_at(points, 2.5) == 82.5
    assert curve.latency_at(points, 11) is None


@pytest.mark.parametrize(("name", "system"), [("mess_skylake_6146.csv", None), ("csit_mlc.csv", "skx")])
def test_published_measurements_are_read(name: str, system: str | None) -> None:
    if not (SERVERS / name).exists():
        pytest.skip("published measurements of servers are not beside the checkout")
    found = measured_curve.read(SERVERS / name, 3.2, system)
    by_share = {each["read_percent"]: each for each in found["curves"]}
    assert by_share[100]["most_gb_per_s"] == pytest.approx(108.4, abs=0.1)
    assert {50.0, 100.0} <= set(by_share)
