"""Predictions beside measurements: what a row asks for, its error, and what is said of rows that make no sense."""

from __future__ import annotations

import csv
import functools
import io
import itertools
import json
import re
import statistics
import sys
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import documents
import wirespeed
from wirespeed import InputError, api, cli, curve, dma
from wirespeed.accuracy import accuracy, chart, judging, metrics, rows, running, settings, target, text

SMALL = {"run.packets": 2000, "run.warmup": 1000, "function.forward.prefixes": 500}
QUICK = "; ".join(f"{path}={value}" for path, value in SMALL.items())
ONE = {"traffic.load": 1, "machine.cores": 1}


def asked(more: dict[str, Any]) -> str:
    return "; ".join(f"{path}={value}" for path, value in (SMALL | more).items())


def row(**more: Any) -> dict[str, Any]:
    return {
        "source": "lab",
        "case": "one",
        "machine": "xeon-gold-6140",
        "set": QUICK,
        "metric": "carried_mpps",
        "measured": 30,
        "kind": "rate",
    } | more


def document(*given: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What is found, less what differs from run to run."""
    found: dict[str, Any] = accuracy(given, **more)  # type: ignore[assignment]
    for each in found["rows"]:
        del each["wall_s"]
    return found


def written(folder: Path, given: list[dict[str, Any]]) -> Path:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for each in given for name in each)))
    writer.writeheader()
    writer.writerows(given)
    file = folder / "measured.csv"
    file.write_text(out.getvalue(), encoding="utf-8")
    return file


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["wirespeed", "accuracy", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        printed = capsys.readouterr()
        return left.value.code, printed.out, printed.err

    return call


@pytest.fixture(scope="module")
def run() -> dict[str, Any]:
    """The summary that rows of `ONE` are asked of."""
    base = {"machine.preset": "xeon-gold-6140", "run.curve": []}
    return dict(api.run("forwarding-64b", set=base | SMALL | ONE).summary)


def test_what_the_simulator_itself_gave_is_predicted_without_error(run: dict[str, Any]) -> None:
    level = {each["name"]: each for each in run["levels"]}
    (core,) = run["cores"]
    measured = {
        "carried_mpps": ("rate", run["carried_mpps"], "Mpps"),
        "carried_gbps": ("rate", run["carried_gbps"] * 1e3, "Mbps"),
        "cycles_per_packet": ("cycles", core["cycles_per_packet"], "cycles"),
        "cores[0].instructions_per_packet": ("cycles", core["instructions_per_packet"], ""),
        "ipc": ("rate", core["instructions_per_packet"] / core["cycles_per_packet"], ""),
        "sojourn_ns.p50": ("latency", run["sojourn_ns"]["p50"] / 1e3, "us"),
        "p99_ns": ("latency", run["sojourn_ns"]["p99"], ""),
        "levels.DDIO.hit_rate": ("hits", level["DDIO"]["hit_rate"] * 100, "%"),
        "llc_miss_rate": ("hits", 1 - level["LLC"]["hit_rate"], ""),
        "levels.LLC.misses_per_packet": ("rate", level["LLC"]["misses"] / run["taken_packets"], ""),
        "loss": ("loss", run["loss"], "share"),
        "dram_gb_per_s": ("bandwidth", run["dram"]["bandwidth_gb_per_s"] * 1e3, "MB/s"),
    }
    given = [
        row(case=metric, metric=metric, kind=kind, measured=repr(value), unit=unit, set=asked(ONE))
        for metric, (kind, value, unit) in measured.items()
    ]
    totals = set()
    found = document(*given, progress=lambda phase, done, total, note: totals.add(total))
    assert [each["error_text"] for each in found["rows"]] == [None] * len(given)
    assert [each["error"] for each in found["rows"]] == pytest.approx([0.0] * len(given), abs=1e-9)
    # However many rows ask for it, a run is made once.
    assert totals == {1}
    assert found["overall"]["counted"] == len(given)
    assert found["overall"]["median_of_medians_percent"] == pytest.approx(0.0, abs=1e-9)


def test_a_search_is_a_run_of_its_own() -> None:
    more = {"machine.cores": 1, "run.search_packets": 2000, "run.search_resolution": 0.2}
    searched = api.run("forwarding-64b", set=SMALL | more | {"run.curve": []}, search="pdr").summary["search"]
    assert searched is not None
    given = row(metric="pdr_mpps", measured=searched["mpps"], set=asked(more))
    found = document(given, given | {"metric": "carried_mpps", "measured": 1})
    assert found["rows"][0]["error"] == 0.0
    assert found["rows"][1]["predicted"] != found["rows"][0]["predicted"]


def test_a_relative_row_is_the_ratio_of_two_predictions() -> None:
    whole = [row(case=f"{n} cores", set=asked(ONE | {"machine.cores": n})) for n in (1, 2)]
    ratio = whole[1] | {"case": "ratio", "metric": "carried_mpps relative to 1 cores", "measured": 1.6}
    other = ratio | {"source": "another", "case": "nowhere"}
    found = document(*whole, ratio, other)["rows"]
    predicted = found[1]["predicted"] / found[0]["predicted"]
    assert found[2]["predicted"] == predicted
    assert found[2]["error"] == pytest.approx((predicted - 1.6) / 1.6 * 100)
    assert found[3]["error_text"] == "metric: relative to '1 cores': no other row of this source has that case"
    # What it is relative to need not be shown.
    (alone,) = document(*whole, ratio, only="ratio")["rows"]
    assert alone == found[2]
    # A case that stands for two machines says nothing.
    (*_, twice) = document(*whole, whole[1] | {"case": "1 cores"}, ratio)["rows"]
    assert "rows of that case differ in machine or set: row 1, row 3" in twice["error_text"]


def test_hits_and_loss_are_judged_in_points_whatever_their_unit() -> None:
    given = [row(metric="ddio_hit_rate", kind="hits", measured=m, unit=u) for m, u in ((90, "%"), (0.9, ""))]
    found = document(*given)["rows"]
    assert found[0]["predicted"] == pytest.approx(100 * found[1]["predicted"])
    assert [each["error"] for each in found] == pytest.approx([found[0]["predicted"] - 90] * 2)
    assert {each["error_unit"] for each in found} == {"points"}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"machine": "xeon-gold-6141"}, r"machine\.preset = \"xeon-gold-6141\": no such preset: did you mean xeon-gold-61"),
    ({"machine": ""}, r"machine is empty: allowed are a shipped machine"),
    ({"machine": "xeon-gold-6140; cores"}, r"machine: 'cores': allowed is PATH=VALUE, several by ';'"),
    ({"set": "machine.cores 2"}, r"set: 'machine.cores 2': allowed is PATH=VALUE, several by ';'"),
    ({"set": "machine.core.frequncy=1 GHz"}, r"machine\.core\.frequncy.*did you mean `frequency`"),
    ({"set": "scenario=forwrding"}, r"scenario `forwrding`: no such file.*did you mean `forwarding`"),
    ({"set": "reads=20"}, r"set: reads=20: allowed are 50 to 100"),
    ({"metric": "pcie.dma_read_ns", "kind": "latency", "set": "bytes=many"}, r"set: bytes=many: allowed is a number"),
    (
        {"metric": "pcie.dma_read_ns", "kind": "latency", "set": "window=1 B"},
        r"windows: 1 B: allowed are 64 B, the li",
    ),
    ({"metric": "carryed_mpps"}, r"metric carryed_mpps: no field of a run's summary, did you mean `carried_mpps`\?"),
    ({"metric": "levels.DDIO.hitrate"}, r"did you mean `levels.DDIO.hit_rate`\?"),
    ({"metric": "levels.L9.hits"}, r"metric levels.L9.hits: this run does not report it \(did you mean `levels\.L"),
    ({"metric": "memory.idle"}, r"metric memory.idle: of memory allowed are memory.idle_ns"),
    ({"metric": ""}, r"metric '': allowed is a field of a summary, or METRIC relative to CASE"),
    ({"measured": "24 Mpps"}, r"measured '24 Mpps': allowed is a number above 0; its unit has a column of its own"),
    ({"measured": "nan"}, r"measured 'nan': allowed is a number above 0"),
    ({"measured": 0}, r"measured '0': allowed is a number above 0"),
    ({"measured": -1, "kind": "loss", "metric": "loss"}, r"measured '-1': allowed is a number, 0 or more"),
    ({"measured": 98, "kind": "hits", "metric": "ddio_hit_rate"}, r"measured 98: is more than all: unit % is for perc"),
    ({"unit": "Gbps"}, r"unit 'Gbps': carried_mpps is in another: allowed are Mpps, kpps, pps"),
    ({"unit": "Mpps", "metric": "loss", "kind": "loss", "measured": 0}, r"unit 'Mpps': loss is a share"),
    ({"unit": "us", "metric": "cycles_per_packet"}, r"unit 'us': cycles_per_packet is a plain number"),
    ({"kind": "speed"}, r"kind 'speed': allowed are rate, cycles, latency, bandwidth, hits, loss"),
    ({"kind": "hits"}, r"kind hits: its error is in points of a share, and carried_mpps is none"),
]


def test_a_row_that_cannot_be_asked_says_why_and_the_others_go_on() -> None:
    sound = row(measured=30)
    found = document(sound, *(row() | more for more, _ in BAD), sound)["rows"]
    assert [found[place]["error_text"] for place in (0, -1)] == [None, None]
    for (more, said), got in zip(BAD, found[1:-1], strict=True):
        assert re.search(said, got["error_text"] or "", re.DOTALL), (more, got["error_text"])
        assert (got["predicted"], got["error"]) == (None, None)


def test_rows_of_a_file_say_their_line(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    head = "source,case,machine,metric,measured,kind\n"
    file.write_text(f"# by hand\n\n{head}lab,x,xeon-gold-6140,carried_mpps,3\nlab,y,z,carried_mpps,1,rate,more\n")
    found = accuracy(file)["rows"]
    assert [each["place"] for each in found] == [f"{file}:4", f"{file}:5"]
    assert "has 5 fields: allowed are 6, as in the head" in found[0]["error_text"]
    assert "has 7 fields: allowed are 6" in found[1]["error_text"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", r"has no rows: `wirespeed accuracy --template` prints"),
        ("source,case,machine,metric,measured,kind\n", r"has no rows"),
        ("source,case,machine,metric,kind\n", r":1: the head has no column measured: needed are source, case, machine"),
        ("source;case;machine\n", r":1: the head has no column source, case, machine"),
        ("source,case,machine,metric,measured,kind,kind\n", r":1: the head has the column kind more than once"),
        ("a\0b", r"is not text: allowed is a CSV file in UTF-8"),
    ],
)
def test_a_file_that_is_unusable_ends_the_command_with_2(tmp_path: Path, command: Any, content: str, said: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(content)
    code, out, err = command(str(file), "-q")
    assert (code, out) == (2, "")
    assert re.search(said, err)


def test_a_file_that_is_not_there_and_text_that_no_row_has_end_with_2(tmp_path: Path, command: Any) -> None:
    assert command(str(tmp_path / "none.csv"))[0] == 2
    code, _, err = command(str(written(tmp_path, [row()])), "--only", "elsewhere")
    assert code == 2
    assert "--only elsewhere: no source, case or machine of 1 rows has it; sources are lab" in err


def test_the_result_does_not_depend_on_how_many_run_at_a_time(tmp_path: Path, command: Any) -> None:
    given = [row(case=str(n), set=asked({"machine.cores": n, "traffic.load": 1})) for n in (1, 2, 3)]
    given += [given[0] | {"case": "bad", "metric": "nothing"}]
    alone, beside = document(*given, jobs=1), document(*given, jobs=3)
    assert alone == beside
    file = written(tmp_path, given)
    code, out, _ = command(str(file), "--jobs", "2", "--format", "json", "-q")
    by_processes = json.loads(out)["rows"]
    for each, same in zip(by_processes, alone["rows"], strict=True):
        assert each["predicted"] == same["predicted"]
        assert each["error"] == same["error"]
    assert code == 0


def test_a_median_above_the_limit_ends_with_1(tmp_path: Path, command: Any) -> None:
    file = written(tmp_path, [row(), row(case="fitted", measured=3, fitted="cpi"), row(kind="speed")])
    assert command(str(file), "-q", "--fail-above", "5")[0] == 0
    file = written(tmp_path, [row(measured=25)])
    code, _, err = command(str(file), "-q", "--fail-above", "5")
    assert code == 1
    assert "--fail-above 5: lab, rate: the median error is 20.0 %" in err
    # Of a file in which nothing counts there is no median.
    code, _, err = command(str(written(tmp_path, [row(kind="speed")])), "-q", "--fail-above", "5")
    assert code == 1
    assert "no row counts" in err
    assert command(str(file), "-q", "--fail-above", "-1")[0] == 2


def test_the_template_is_a_file_that_can_be_asked(tmp_path: Path, command: Any) -> None:
    code, out, _ = command("--template")
    assert code == 0
    file = tmp_path / "mine.csv"
    file.write_text(out)
    found = rows.read(file)
    assert len(found) == 2
    for each in found:
        assert set(each.fields) == set(rows.COLUMNS)
        assert each.fault is None
        target.of(each, metrics.parse(each["metric"]))
        settings.of(each).task()
    assert metrics.parse(found[1]["metric"]).base == found[0]["case"]
    for name in rows.COLUMNS:
        assert f"# {name}: " in out


NUMBER = {"type": ["number", "null"]}
ROW = {
    "type": "object",
    "required": [
        *rows.COLUMNS,
        *("place", "predicted", "error", "error_unit", "error_text", "scenario", "wall_s"),
        *running.PARTS,
    ],
    "properties": {
        **{name: {"type": "string"} for name in rows.COLUMNS},
        "measured": {"type": ["number", "string"]},
        "predicted": NUMBER,
        "error": NUMBER,
        "wall_s": NUMBER,
        "error_unit": {"enum": ["%", "points", None]},
        "error_text": {"type": ["string", "null"]},
        "scenario": {"type": ["string", "null"]},
        "settings": {"type": ["array", "null"], "items": {"type": "string"}},
        "place": {"type": "string"},
        "note": {"const": "kept"},
        **{name: {"type": ["string", "null"]} for name in running.PARTS},
    },
    # Whatever came is kept, and a row has a prediction or a reason.
    "additionalProperties": False,
    "oneOf": [
        {"properties": {"error": {"type": "number"}, "error_text": {"type": "null"}}},
        {"properties": {"error": {"type": "null"}, "error_text": {"type": "string"}}},
    ],
}


def test_rows_of_the_document_are_those_that_were_given_and_what_came_of_them(tmp_path: Path, command: Any) -> None:
    given = [row(note="kept"), row(note="kept", kind="speed"), row(note="kept", fitted="cpi", measured="30.0")]
    file = written(tmp_path, given)
    _, out, _ = command(str(file), "-q", "--format", "json")
    found = json.loads(out)
    jsonschema.validate(found["rows"], {"type": "array", "items": ROW}, jsonschema.Draft202012Validator)
    for before, after in zip(given, found["rows"], strict=True):
        assert {name: after[name] for name in before} == before | {"measured": after["measured"]}
    assert found["overall"]["fitted"] == 1
    assert found["schema"] == "wirespeed.accuracy/1"
    _, out, _ = command(str(file), "-q", "--format", "csv")
    (first, *_) = csv.DictReader(io.StringIO(out))
    assert float(first["predicted"]) == found["rows"][0]["predicted"]
    assert first["settings"] == "; ".join(found["rows"][0]["settings"])


def judged(source: str, case: str, error: float | None, kind: str = "rate", fitted: str = "") -> dict[str, Any]:
    why = None if error is not None else "why"
    found = {"source": source, "case": case, "error": error, "kind": kind, "fitted": fitted, "error_text": why}
    return found | {"error_unit": metrics.KINDS[kind]}


def test_medians_are_those_of_rows_that_count() -> None:
    errors = [-30.0, -12.0, 4.0, 9.0, 15.0]
    given = [judged("a", str(error), error) for error in errors]
    given += [judged("a", "fitted", 0.0, fitted="cpi"), judged("a", "bad", None)]
    given += [judged("b", "b", 2.0), judged("b", "h", -3.0, kind="hits")]
    groups = judging._groups(given)
    (first, second, hits) = groups
    sizes = [abs(error) for error in errors]
    assert first["errors"] == {
        "n": 5,
        "median_abs": statistics.median(sizes),
        "median": statistics.median(errors),
        "within_10": 2 / 5,
        "within_20": 4 / 5,
        "worst": -30.0,
        "worst_case": "-30.0",
    }
    assert (first["fitted"], first["not_asked"]) == (1, 1)
    of_kind = judging._of_kind("rate", groups, given)
    assert (of_kind["sources"], of_kind["median_of_medians"], of_kind["errors"]["n"]) == (2, (12 + 2) / 2, 6)
    overall = judging._overall(given, groups)
    assert overall["median_of_medians_percent"] == 7.0
    assert overall["median_of_medians_points"] == 3.0
    assert (overall["rows"], overall["counted"], overall["fitted"], overall["not_asked"]) == (9, 7, 1, 1)
    assert second["errors"]["n"] == hits["errors"]["n"] == 1


def test_parts_and_short_names_are_settings() -> None:
    (parsed,) = rows.given(
        [row(machine="processor=a; nic=b + driver = c;program=d", set="frequency=3 GHz; nic.burst=8")]
    )
    assert settings.of(parsed).settings == (
        "machine.processor=a",
        "nic.model=b",
        "nic.driver=c",
        "function.program=d",
        "machine.core.frequency=3 GHz",
        "nic.burst=8",
    )
    (mapped,) = rows.given([row(set={"machine.cores": 2, "machine.dram.controller.page": "adaptive=128"})])
    assert settings.of(mapped).settings[1:] == (
        "machine.cores=2",
        'machine.dram.controller.page="adaptive=128"',
    )


def test_paths_start_at_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text(api._wirespeed.preset("machine", "xeon-gold-6140"))
    (tmp_path / "what.toml").write_text('[traffic]\nprofile = "min64"\npacket_rate = "3 Mpps"\n')
    monkeypatch.chdir("/")
    file = written(tmp_path, [row(machine="mine.toml", measured=3, set=f"scenario=what.toml; {QUICK}")])
    (found,) = accuracy(file)["rows"]
    assert found["error_text"] is None
    assert found["error"] == pytest.approx(0.0, abs=0.5)


def test_runs_have_as_many_packets_as_a_row_says_or_the_default() -> None:
    (said, unsaid) = (settings.of(rows.given([row(set=each)])[0]).task().scenario for each in (QUICK, ""))
    assert "packets = 2000\n" in said
    assert f"packets = {settings.PACKETS}\n" in unsaid


def test_memory_is_answered_by_its_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curve, "curve", functools.partial(curve.curve, points=5, accesses=256))
    given = {"machine.cores": 2}
    found = curve.curve("xeon-gold-6140", reads=[75], set=given)
    (share,) = found["curves"]
    at = round(share["most_gb_per_s"] / 2, 1)
    measured = {
        "memory.idle_ns": (share["idle_ns"], "ns", "latency"),
        "memory.read_gbps": (share["most_gb_per_s"] * 1e3, "MB/s", "bandwidth"),
        f"memory.latency_ns@{at}GB/s": (curve.latency_at(share["points"], at), "", "latency"),
        "memory.latency_ns@9999GB/s": (1.0, "", "latency"),
    }
    asks = [
        row(metric=name, measured=value, unit=unit, kind=kind, set="machine.cores=2; reads=75; nic.burst=8")
        for name, (value, unit, kind) in measured.items()
    ]
    *sound, beyond = document(*asks)["rows"]
    assert [each["error"] for each in sound] == pytest.approx([0.0, 0.0, 0.0], abs=1e-9)
    assert "not reached: most is" in beyond["error_text"]


def test_dma_reads_are_answered_by_themselves() -> None:
    of = {"windows": ["2 MiB"], "bytes": [8], "cache": ["device"], "in_flight": 4}
    (point,) = dma.dma("xeon-gold-6140", set={"machine.iommu.iotlb_entries": 16}, **of)["points"]
    given = "machine.iommu.iotlb_entries=16; window=2 MiB; bytes=8; cache=device; in_flight=4"
    wanted = {"pcie.dma_read_ns": (point["read_ns"]["mean"] / 1e3, "us"), "pcie.dma_read_gbps": (point["gbps"], "Gbps")}
    asks = [
        row(metric=name, measured=value, unit=unit, kind="latency", set=given) for name, (value, unit) in wanted.items()
    ]
    assert [each["error"] for each in document(*asks)["rows"]] == pytest.approx([0.0, 0.0], abs=1e-9)


def test_the_table_fits_80_columns_and_the_picture_has_every_prediction() -> None:
    hits = row(case="h", metric="ddio_hit_rate", kind="hits", measured=0.9, fitted="x")
    long = row(case="a long case, longer than there is room for in a line")
    found = accuracy([long, row(case="ü<b>"), hits, row(kind="no")])
    console = wirespeed.console.Console(width=80, file=io.StringIO())
    with console.capture() as shown:
        console.print(text.summary(found))
    lines = shown.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("…" in line and "carried_mpps" in line for line in lines)
    drawn = chart.chart(found)
    assert chart.SVG_MARK in drawn
    assert "prefers-color-scheme:dark" in drawn
    root = xml.etree.ElementTree.fromstring(drawn)
    labels = [each.get("aria-label") or "" for each in root.iter()]
    assert sum(label.startswith("lab, ") for label in labels) == 3
    assert not re.search(r"(fill|stroke)=\"(#000|black|#fff|white)\"", drawn)
    xml.etree.ElementTree.fromstring(chart.chart(accuracy([row(kind="no")])))


def test_a_picture_goes_over_its_own_kind_only(tmp_path: Path, command: Any) -> None:
    file = written(tmp_path, [row()])
    theirs = tmp_path / "theirs.svg"
    theirs.write_text("<svg/>")
    code, _, err = command(str(file), "--svg", str(theirs), "-q")
    assert code == 2
    assert "was not written by `wirespeed accuracy`" in err
    for _ in range(2):
        assert command(str(file), "--svg", str(tmp_path / "ours.svg"), "-q")[0] == 0


def test_errors_go_over_their_own_kind_only(tmp_path: Path, command: Any) -> None:
    table, out = tmp_path / "rows.csv", tmp_path / "errors.json"
    head = "source,case,machine,set,metric,measured,unit,kind,fitted"
    quick = "run.packets=2000; run.warmup=1000; function.forward.prefixes=500"
    table.write_text(f"{head}\nlab,one,xeon-gold-6140,{quick},carried_mpps,10,Mpps,rate,\n")
    asked = [str(table), "--quiet", "--jobs", "1", "--errors"]
    for _ in range(2):
        assert command(*asked, str(out))[0] == 0
    assert [each["kind"] for each in json.loads(out.read_text())] == ["rate"]
    out.write_text('{"mine": 1}')
    for path, said in ((out, "holds something else"), (table, "names that end in .json")):
        code, _, err = command(*asked, str(path))
        assert (code, said in err) == (2, True)
    assert out.read_text() == '{"mine": 1}'


def test_shipped_rows_are_sound_and_take_nothing_from_what_was_measured() -> None:
    found = rows.shipped()
    assert len(found) > 100
    unknown = set()
    for each in found:
        assert each.fault is None
        asks = settings.of(each)
        try:
            metric = metrics.parse(each["metric"])
        except InputError:
            unknown.add(each["metric"])
            continue
        goal = target.of(each, metric)
        assert re.search(r"\(\S+@\w{7}", each["source"]), each.place
        numbers = [part for setting in asks.settings for part in re.findall(r"\d+\.?\d*", setting.partition("=")[2])]
        # One of three digits or more that is a setting, too, was put there.
        digits = each["measured"].replace(".", "").lstrip("0")
        assert len(digits) < 3 or goal.measured not in map(float, numbers), each.place
        if metric.base is not None:
            same = [other for other in found if (other["source"], other["case"]) == (each["source"], metric.base)]
            assert same, each.place
    assert not unknown
    page = (documents.ROOT / "validation" / "servers" / "README.md").read_text(encoding="utf-8")
    counted = dict(re.findall(r"^\| `(\w+\.csv)` \| (\d+) \|", page, re.MULTILINE))
    places = [each.place.partition(":")[0] for each in found]
    assert counted == {name: str(places.count(name)) for name in dict.fromkeys(places)}
    keys = [(each["source"], each["case"], each["metric"]) for each in found]
    assert [key for key, group in itertools.groupby(sorted(keys)) if len(list(group)) > 1] == []
