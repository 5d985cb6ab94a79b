"""Comparisons for people: a sentence, words for names, files, and as many operands as there are."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import pytest
from rich.console import Console

import stock
import wirespeed
from wirespeed import comparing, gate, same_traffic, summary, terminal
from wirespeed.result import Comparison
from wirespeed.same_traffic import Differing
from wirespeed.sweep import metrics
from wirespeed.sweep import text as sweep_text

SMALL = ["run.packets=3000", "run.warmup=500", "run.curve=[]", "function.forward.prefixes=1000"]


def metric(name, a, b, change, wide, better=None, unit="ns"):
    return {
        "metric": name, "unit": unit, "a": a, "b": b, "change_pct": change, "half_width_pct": wide,
        "significant": better is not None, "better": better,
    }  # fmt: skip


def pair(*metrics, identical=True, without="", differing=()):
    about = {side: {"name": "x", "run_id": side, "packets": 0 if side in without else 1000} for side in "ab"}
    return Comparison(json.dumps({**about, "identical_traffic": identical, "metrics": metrics}), differing)


LOSSLESS = metric("loss", 0.0, 0.0, None, None, unit="1")


def test_several_operands_begin_with_how_many_are_better_and_worse():
    faster = pair(metric("carried_mpps", 8.0, 10.0, 25.0, 1.0, True, "Mpps"))
    mixed = pair(metric("carried_mpps", 8.0, 10.0, 25.0, 1.0, True, "Mpps"), metric("p99", 1.0, 1.2, 20.0, 2.0, False))
    small = pair(LOSSLESS, metric("mean", 1000.0, 999.0, -0.1, 0.05, True))
    unknown = pair(without="ab")
    assert comparing.overview("x", [faster, faster, mixed, small, unknown]) == (
        "Of 5 beside x, 2 are better, 1 is better and worse, 1 is not surely other, 1 is not known."
    )
    assert "<h1>Of 2 beside x, 1 is better, 1 is not surely other.</h1>" in comparing.page(
        ["x", "y", "z"], [faster, small], [[], []]
    )


def test_a_sentence_says_what_is_surely_better_and_worse():
    found = pair(
        metric("carried_mpps", 8.0, 10.0, 25.0, 1.0, True, "Mpps"),
        LOSSLESS,
        metric("p99", 100.0, 120.0, 20.0, 2.0, False),
    )
    assert comparing.sentence(found) == (
        "b is better: carried rate +25 ± 1.0 % (8.00 Mpps to 10.0 Mpps); "
        "worse: p99 sojourn +20 ± 2.0 % (100 ns to 120 ns)."
    )
    nothing = pair(LOSSLESS, metric("p99", 100.0, 101.0, 1.0, 2.0))
    assert comparing.sentence(nothing) == "No sure difference in carried rate, loss or sojourn."
    small = pair(LOSSLESS, metric("mean", 1000.0, 999.0, -0.1, 0.05, True))
    assert comparing.sentence(small).startswith(
        "No difference of 1 % or more in carried rate, loss or sojourn; sure but"
    )
    load = [Differing("traffic.load", "0.5", "0.3")]
    assert comparing.sentence(pair(LOSSLESS, identical=False, differing=load)).startswith(
        "The runs saw different traffic; b is"
    )
    assert comparing.sentence(pair(LOSSLESS, identical=False)).startswith("The runs saw other packets of the same")


def of_a_run_without_packets(side):
    values = {"a": 0.0, "b": 0.0}
    other = "b" if side == "a" else "a"
    loss = metric("loss", 0.0, 0.0, None, None, unit="1") | {side: None}
    p99 = metric("p99", 100.0, 100.0, None, None) | {side: None}
    change = -100.0 if side == "b" else None
    ring = metric("ring", None, None, change, 1.0) | values | {other: 40.0, "significant": True}
    return pair(loss, p99, ring, identical=False, without=side)


@pytest.fixture(scope="module")
def few():
    """Runs of so few packets that rings and NIC memory take in all, at two loads."""
    return [wirespeed.run("forwarding", set=[*SMALL, f"traffic.load={load}"]) for load in (0.2, 0.9)]


def test_a_run_that_could_not_lose_a_packet_has_no_loss_anywhere(few):
    for run in few:
        assert run.summary["verdict"]["status"] == "nothing"
        assert not run.summary["verdict"]["loss_is_known"]
        assert (run.summary["lost"], run.summary["loss"]) == (0, 0.0)
        assert summary.loss_text(run.summary) == ("–", "3,000 packets are too few to lose one")
        assert "loss" not in metrics.columns(run.summary)
    found = wirespeed.compare(*few)
    loss = found.metrics["loss"]
    assert (loss["a"], loss["b"], loss["significant"], loss["better"]) == (None, None, False, None)
    assert found.unmeasured == ()
    assert comparing.sentence(found).endswith("Loss is not known: both runs offered too few packets to lose one.")
    for condition in ("loss > 0", "loss < 1", "loss > +5%"):
        judged = gate.judge(gate.parse(condition), found.metrics)
        assert judged.outcome == "not known", condition
        assert "too few packets to lose one" in judged.sentence
    assert gate.judge(gate.parse("p99 > 1 s"), found.metrics).outcome == "ok"


def test_a_loss_beside_one_that_is_not_known_is_judged_by_itself(few):
    long = wirespeed.run("forwarding", set=["run.packets=30000", *SMALL[1:], "traffic.load=0.2"])
    assert long.summary["verdict"]["loss_is_known"]
    found = wirespeed.compare(few[0], long)
    assert comparing.sentence(found).endswith("Loss is not known: the run of a offered too few packets to lose one.")
    assert gate.judge(gate.parse("loss > 0.001"), found.metrics).outcome == "ok"
    assert gate.judge(gate.parse("loss > +5%"), found.metrics).outcome == "not known"
    assert gate.judge(gate.parse("loss > 0.001"), wirespeed.compare(long, few[0]).metrics).outcome == "not known"


def test_a_sweep_says_where_loss_is_not_known():
    packets = {"run.packets": [3000, 30000]}
    with ThreadPoolExecutor(2) as pool:
        study = wirespeed.sweep("forwarding", packets, set=[*SMALL[1:], "traffic.load=0.2"], executor=pool)
    short, long = study.document["results"]
    assert "loss" not in short
    assert "carried_mpps" in short
    assert long["loss"]["mean"] == 0.0
    (line,) = [line for line in sweep_text.widths(study.document) if line.startswith("loss is not known")]
    assert line.startswith("loss is not known of run.packets=3000")


@pytest.mark.parametrize("side", ["a", "b"])
def test_with_a_run_that_measured_nothing_there_is_nothing_to_compare(side):
    found = of_a_run_without_packets(side)
    says = f"{side} measured no packet after warm-up: there is nothing to compare."
    assert comparing.sentence(found) == says
    assert comparing.rows(found) == []
    assert found.rows() == []
    texts = [
        repr(found),
        found._repr_html_(),
        terminal.text(terminal.comparison(found, [], ("x", "y")), Console(width=100, color_system=None)),
        comparing.page(["x", "y"], [found], [[]]),
    ]
    for text in texts:
        assert says in text
        assert "100 %" not in text
        assert "ring" not in text.replace("string", "")
        assert "traffic" not in text
    (ring,) = (
        each for each in comparing.document([found], [[]])["comparisons"][0]["metrics"] if each["metric"] == "ring"
    )
    assert (ring[side], ring["change_pct"], ring["significant"]) == (None, None, False)
    # Of b nothing can be held against a limit; a value of b that is there needs no baseline.
    outcome = gate.judge(gate.parse("ring > +5%"), found.metrics).outcome
    assert outcome == ("fails" if side == "b" else "not known")


def test_two_runs_that_measured_nothing_are_not_called_alike():
    found = pair(metric("loss", None, None, None, None, unit="1"), metric("ring", 0.0, 0.0, None, None), without="ab")
    assert comparing.sentence(found) == "Neither run measured a packet after warm-up: there is nothing to compare."
    assert repr(found).startswith("<wirespeed comparison: Neither run")


def test_rows_have_words_for_names_and_loss_even_where_there_is_none():
    found = pair(LOSSLESS, metric("mshr", 1.0, 2.0, 100.0, 1.0), metric("slice_queue", 1.0, 2.0, 100.0, 1.0))
    assert [row[0] for row in comparing.rows(found, {"mshr": "all outstanding misses in use"})] == [
        "Loss",
        "all outstanding misses in use",
        "slice queue",
    ]


@pytest.mark.parametrize(
    ("change", "wide", "says"),
    [
        (20.0, 2.0, "p99 > +5% holds: p99 changed by +20 ± 2.0 %"),
        (-0.6, 1.4, "p99 > +5% does not hold: p99 changed by -0.60 ± 1.4 %"),
        (6.0, 2.0, "p99 > +5% cannot be told: it holds for the measured value, but not for all within its half-width"),
    ],
)
def test_a_condition_says_first_whether_it_holds(change, wide, says):
    found = pair(metric("p99", 100.0, 100.0 + change, change, wide, change < 0))
    assert gate.judge(gate.parse("p99 > +5%"), found.metrics).sentence.startswith(says)


def test_the_command_takes_a_capture_and_a_table_names_operands_as_given_and_writes_a_page(tmp_path):
    stock.inputs(tmp_path)
    operand = "forwarding,machine.llc.io_ways=0,machine.copy_table={}"
    command = [sys.executable, "-m", "wirespeed", "compare", "forwarding", operand, "-q"]
    command += ["--capture", "trace.pcap.gz", "--table", "rib.gz", "--out", "compared", "--fail-if", "p99 > +500%"]
    command += [part for each in SMALL if "prefixes" not in each for part in ("--set", each)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert operand in ran.stdout.replace("\n", " ")
    first = ran.stdout.splitlines()[0]
    assert first.startswith(("b is ", "No sure difference"))
    document = json.loads((tmp_path / "compared" / "comparison.json").read_text())
    assert document["comparisons"][0]["sentence"].startswith(first)
    assert operand in (tmp_path / "compared" / "comparison.html").read_text()


def test_a_page_of_two_operands_says_its_sentence_once():
    found = pair(metric("p99", 100.0, 120.0, 20.0, 2.0, False))
    says = comparing.sentence(found)
    assert comparing.page(["a", "b"], [found], [[]]).count(says) == 1
    assert comparing.page(["a", "b", "c"], [found, found], [[], []]).count(says) == 2


def gated(*words, cwd=None):
    command = [sys.executable, "-m", "wirespeed", "compare", *words, "-q"]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def test_a_gate_refuses_runs_of_different_traffic_before_they_run_unless_it_is_meant(tmp_path):
    small = [part for each in SMALL for part in ("--set", each)]
    # Of so many packets that it would run for hours.
    endless = ["--set", "run.packets=1000M", "--set", "run.curve=[]"]
    other = "forwarding,traffic.load=0.3,traffic.profile=imix"
    condition = ["--fail-if", "p99 > +500%"]
    refused = gated("forwarding", other, "forwarding,machine.cores=2", *endless, *condition)
    told = refused.stderr.replace("\n", " ")
    assert refused.returncode == 2, told
    assert "traffic.load (0.5 in a, 0.3 in b)" in told
    assert "traffic.profile (isp in a, imix in b)" in told
    assert "machine.cores" not in told
    assert "--different-traffic" in told
    meant = gated("forwarding", other, *small, *condition, "--different-traffic", "--format", "json")
    assert meant.returncode in (0, 4), meant.stderr
    (found,) = json.loads(meant.stdout)["comparisons"]
    assert {"setting": "traffic.load", "a": "0.5", "b": "0.3"} in found["different_traffic"]
    assert not found["identical_traffic"]
    # Without a condition nothing is refused, and both pages say what differs.
    shown = gated("forwarding", other, *small, "--out", str(tmp_path / "both"))
    assert shown.returncode == 0
    for text in (shown.stdout, (tmp_path / "both" / "comparison.html").read_text()):
        assert "traffic.load (0.5 in a, 0.3 in b)" in " ".join(text.split())


def test_a_gate_takes_other_packets_of_the_same_traffic():
    small = [part for each in SMALL for part in ("--set", each)]
    ran = gated("forwarding", "forwarding,run.seed=3", *small, "--fail-if", "p99 > +500%")
    assert ran.returncode in (0, 4), ran.stderr
    assert "other packets of the same traffic" in ran.stdout.replace("\n", " ")


def test_results_are_told_apart_by_what_their_captures_hold(tmp_path):
    stock.inputs(tmp_path)
    (tmp_path / "short.pcap").write_bytes(gzip.decompress((tmp_path / "trace.pcap.gz").read_bytes())[: 24 + 60 * 76])
    small = {"run.packets": 1000, "run.warmup": 500, "run.curve": [], "function.forward.prefixes": 1000}
    for name in ("trace.pcap.gz", "mine.pcap.gz", "short.pcap"):
        wirespeed.run("forwarding", capture=tmp_path / name, set=small).write(tmp_path / f"of-{name}")
    condition = ["--fail-if", "loss > 0.5"]
    same = gated("of-trace.pcap.gz", "of-mine.pcap.gz", *condition, cwd=tmp_path)
    assert same.returncode != 2, same.stderr
    other = gated("of-trace.pcap.gz", "of-short.pcap", *condition, cwd=tmp_path)
    assert other.returncode == 2
    assert "traffic.capture" in other.stderr
    # Scenarios whose captures lie here are told apart before they run.
    trace, mine, short = (
        f"forwarding,traffic.capture={tmp_path / n}" for n in ("trace.pcap.gz", "mine.pcap.gz", "short.pcap")
    )
    few = [part for path, value in small.items() for part in ("--set", f"{path}={value}")]
    assert gated(trace, mine, *few, *condition).returncode != 2
    assert "traffic.capture" in gated(trace, short, "--set", "run.packets=1000M", *condition).stderr


def test_a_summary_without_its_scenario_is_told_apart_by_what_it_tells():
    told = [
        {"traffic": {"source": source, "mean_frame_bytes": size}, "offered_mpps": rate, "line_rate_gbps": 100.0}
        for source, size, rate in (
            ("profile isp", 640.0, 9.0),
            ("profile isp", 641.0, 9.05),
            ("profile imix", 350.0, 9.0),
        )
    ]
    seen = [same_traffic.of_run(each, "") for each in told]
    assert same_traffic.differing(seen[0], seen[1], (told[0], told[1])) == []
    found = same_traffic.differing(seen[0], seen[2], (told[0], told[2]))
    assert [each.path for each in found] == ["source", "mean frame, bytes"]
    # A load that a search found is an answer.
    searched = [{**told[0], "search": {"mpps": rate}, "offered_mpps": rate} for rate in (5.0, 9.0)]
    seen = [same_traffic.of_run(each, "") for each in searched]
    assert same_traffic.differing(*seen, tuple(searched)) == []


def test_python_compares_as_many_as_the_command_does():
    names = [f"forwarding,traffic.load={load}" for load in (0.2, 0.3, 0.4)]
    assert isinstance(wirespeed.compare(*names[:2], set=SMALL), Comparison)
    found = wirespeed.compare(*names, set=SMALL)
    assert [each.document["b"]["name"] for each in found] == [
        wirespeed.run(name, set=SMALL).summary["name"] for name in names[1:]
    ]


# --- what a scenario may be ---


def test_a_dict_is_a_scenario():
    base = {"traffic": {"load": 0.25, "profile": "imix"}, "run.seed": 7}
    resolved = wirespeed.resolve(base)
    assert "load = 0.25" in resolved
    assert "seed = 7" in resolved
    assert wirespeed.resolve({}) == wirespeed.resolve("\n")
    with pytest.raises(wirespeed.InputError, match="did you mean `traffic`"):
        wirespeed.resolve({"trafic": {}})


def test_studies_and_tunings_take_a_dict_too():
    small = {"run": {"packets": 2000, "warmup": 500}, "function": {"forward": {"prefixes": 1000}}}
    with ThreadPoolExecutor(1) as pool:
        study = wirespeed.sweep(small, {"traffic.load": [0.2, 0.4]}, executor=pool)
    assert not study.failed
    found = wirespeed.tune(small, {"nic.burst": [16, 32]}, evaluations=2, jobs=1)
    assert found.document["best"]["value"] > 0


def test_what_is_no_scenario_says_what_is():
    with pytest.raises(wirespeed.InputError, match="the name of a shipped one or a dict, not a int"):
        wirespeed.resolve(3)


@pytest.mark.parametrize(
    ("name", "option"), [("trace.pcap.gz", "--capture"), ("rib.gz", "--table"), ("a b.pcap.gz", "--capture")]
)
def test_a_capture_or_table_in_place_of_a_scenario_says_the_command(name, option, tmp_path):
    stock.inputs(tmp_path)
    (tmp_path / "a b.pcap.gz").write_bytes((tmp_path / "trace.pcap.gz").read_bytes())
    with pytest.raises(wirespeed.InputError) as e:
        wirespeed.run(str(tmp_path / name))
    assert f"wirespeed run forwarding {option} " in str(e.value)
    assert ("'" in str(e.value)) == (" " in name)


def test_conditions_are_junits_xml():
    found = pair(metric("p99", 100.0, 120.0, 20.0, 2.0, False))
    judged = [gate.judge(gate.parse(text), found.metrics) for text in ("p99 > +5%", "p99 > +50%", "p99 > +21%")]
    root = ElementTree.fromstring(comparing.junit(["a & <x>", "b"], [judged]))
    (suite,) = root
    assert suite.attrib == {"name": "b beside a & <x>", "tests": "3", "failures": "1", "skipped": "1"}
    assert [(case.get("name"), case[0].tag) for case in suite] == [
        ("p99 > +5%", "failure"),
        ("p99 > +50%", "system-out"),
        ("p99 > +21%", "skipped"),
    ]
    assert "cannot be told" in suite[2][0].get("message")
    assert "verdict fails" in comparing.page(["a", "b"], [found], [judged])
    assert "verdict open" in comparing.page(["a", "b"], [found], [judged[1:]])
    assert "verdict keeps" in comparing.page(["a", "b"], [found], [judged[1:2]])
    document = comparing.document([found], [judged[1:]])
    assert (document["failed"], document["undecided"]) == (False, True)


def test_a_run_beside_itself_differs_by_nothing_not_even_by_chance():
    same = pair(metric("p99", 100.0, 100.0, 0.0, 2.0, None)).document
    one = Comparison(json.dumps({**same, "a": same["a"] | {"run_id": "r"}, "b": same["b"] | {"run_id": "r"}}))
    assert gate.judge(gate.parse("p99 > +1%"), one.metrics).outcome == "ok"
    other = Comparison(json.dumps({**same, "a": same["a"] | {"run_id": "q"}, "b": same["b"] | {"run_id": "r"}}))
    assert gate.judge(gate.parse("p99 > +1%"), other.metrics).outcome == gate.UNDECIDED


def test_junit_without_a_condition_is_told(tmp_path):
    command = [sys.executable, "-m", "wirespeed", "compare", "forwarding", "upf", "--junit", str(tmp_path / "x.xml")]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 2
    assert "there is none; give one" in found.stderr.replace("\n", " ")
