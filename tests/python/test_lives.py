"""`wirespeed run --trace`: a trace that Perfetto opens, and the page beside it."""

import gzip
import itertools
import json
from collections import Counter
from html.parser import HTMLParser

import pytest

import wirespeed
from wirespeed import lives
from wirespeed.cli import main
from wirespeed.lives import page, perfetto
from wirespeed.lives.documents import STAGES

FEW = ["--set", "function.forward.prefixes=5000", "--set", "run.packets=4000", "--set", "run.warmup=1000", "--quiet"]
LOSING = ["--set", "machine.cores=1", "--set", "traffic.load=0.9", "--set", "nic.rx_descriptors=64"]


def run(monkeypatch, *words):
    """The exit code of `wirespeed run`."""
    monkeypatch.setattr("sys.argv", ["wirespeed", "run", *words])
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code


@pytest.fixture(scope="module")
def result():
    """An overload."""
    settings = [word for word in [*FEW[:-1], *LOSING] if word != "--set"]
    return wirespeed.run("forwarding", set=[*settings, "run.curve=[]", "run.trace={slowest=5, losses=1}"])


@pytest.fixture(scope="module")
def told(result):
    """Lives of slow packets, and of those around a loss."""
    return result.lives()


def test_a_trace_has_each_chosen_packet_from_wire_to_wire(told):
    events = perfetto.document(told)["traceEvents"]
    spans = [event for event in events if event["pid"] == 1 and event["ph"] == "X"]
    assert {event["tid"] - 1 for event in spans} == {life["packet"] for life in told["packets"]}
    for life in told["packets"]:
        mine = [event for event in spans if event["tid"] == life["packet"] + 1]
        # One behind the other, to a picosecond in microseconds.
        for one, next_one in itertools.pairwise(mine):
            assert one["ts"] + one["dur"] == pytest.approx(next_one["ts"], abs=1e-6)
        if life["fate"] == "sent":
            inside = sum(event["dur"] for event in mine if not event["cat"].startswith("wire"))
            assert inside * 1e3 == pytest.approx(life["sojourn"] / 1e3, abs=0.01)
    assert min(event["ts"] for event in events if "ts" in event) == 0


def test_the_format_is_that_of_trace_events(told):
    document = perfetto.document(told)
    events = document["traceEvents"]
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    named = {(event["pid"], event.get("tid")) for event in events if event["ph"] == "M"}
    for event in events:
        assert event["ph"] in "XMbestfi"
        assert isinstance(event["pid"], int)
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] != "M":
            assert (event["pid"], event["tid"]) in named, event
    # What is asynchronous ends as often as it begins; arrows begin, go through a burst, and end on a packet.
    for begin, end in ("be", "sf"):
        began = Counter(event["id"] for event in events if event["ph"] == begin)
        ended = Counter(event["id"] for event in events if event["ph"] == end)
        assert began
        assert all(began[key] == n for key, n in ended.items())
    bursts = sorted((e["tid"], e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == 2)
    for one, other in itertools.pairwise(bursts):
        assert one[0] != other[0] or one[2] <= other[1] + 1e-6, "bursts of a core do not overlap"


class Tags(HTMLParser):
    """What a page has of each tag."""

    def __init__(self):
        super().__init__()
        self.count, self.open = Counter(), []

    def handle_starttag(self, tag, attrs):
        self.count[tag] += 1
        if tag not in ("meta", "rect", "path", "i"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()


def test_the_page_draws_each_packet_and_loads_nothing(told, result):
    text = page.page(told, {**result.summary, "name": "<test>"})
    tags = Tags()
    tags.feed(text)
    assert tags.open == [] or set(tags.open) <= {"i"}
    assert tags.count["script"] == 0
    assert "http://" not in text
    assert "src=" not in text
    assert "Packets of &lt;test&gt;" in text
    assert "is lost: no_rx_descriptor" in text
    assert tags.count["details"] == 5
    for life in told["packets"][:5]:
        assert all(STAGES[span["stage"]][0] in text for span in life["spans"])
    assert page.headline(told).startswith("The 5 slowest packets stay ")
    assert "longer than the mean" not in page.headline(told)


def test_the_headline_says_where_slow_packets_are_slower_than_the_mean(told, result):
    mean = {**dict.fromkeys(result.summary["attribution_ns"], 0.0), "pcie": 1500.0, "core": 900.0, "ring": 800.0}
    spans = [("wire_in", 100), ("pcie_in", 500), ("queue", 3800), ("core", 1200), ("tx_ring", 1000), ("wire_out", 90)]
    made, at = [], 0
    for stage, ns in spans:
        made.append({"stage": stage, "from": at, "to": at + ns * 1000})
        at += ns * 1000
    life = {"packet": 1, "chosen": ["slowest"], "frame_bytes": 60, "fate": "sent", "sojourn": 6_500_000, "spans": made}
    said = page.headline({"packets": [life], "bursts": [], "losses": []}, {**result.summary, "attribution_ns": mean})
    # In rings 3 of 3.3 us; the wire is no part of a sojourn.
    assert "3.30 µs longer than the mean: 91 % of that in a ring" in said


def test_a_loss_is_drawn_with_what_was_inside_for_its_core():
    def life(packet, core):
        spans = [{"stage": "wire_in", "from": 0, "to": 10}, {"stage": "queue", "from": 10, "to": 90, "core": core}]
        return {"packet": packet, "chosen": ["loss"], "frame_bytes": 60, "fate": "sent", "sojourn": 80, "spans": spans}

    lost = {**life(9, 0), "fate": "no_mbuf", "sojourn": 0, "spans": [{"stage": "wire_in", "from": 40, "to": 50}]}
    loss = {"packet": 9, "at": 50, "core": 0, "reason": "no_mbuf"}
    text = page.page({"packets": [life(1, 0), life(2, 1), lost], "bursts": [], "losses": [loss]})
    drawn = text.split("<h2>One by one</h2>")[0]
    assert "packet 1, sent" in drawn
    assert "packet 9, no_mbuf" in drawn
    assert "packet 2, sent" not in drawn


def test_the_command_writes_both_and_says_so(tmp_path, monkeypatch):
    for name, force in (("slow.json", ()), ("slow.json.gz", ("--force",))):
        assert run(monkeypatch, "forwarding", *FEW, "--trace", str(tmp_path / name), *force) == 0
    plain = (tmp_path / "slow.json").read_text()
    assert json.loads(plain) == json.loads(gzip.decompress((tmp_path / "slow.json.gz").read_bytes()))
    assert (tmp_path / "slow.html").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--trace", "trace.txt"], "a trace's name ends in .json or .json.gz"),
        (["--trace", "there.json"], "is there already; name another file, or give --force"),
        (["--trace", "new.json", "--set", "run.sampling={windows=30}"], "run.trace: given with run.sampling"),
        (["--trace", "new.json", "--set", "run.trace.slowest=-1"], "run.trace.slowest"),
    ],
)
def test_what_cannot_be_is_said_before_anything_runs(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.json").write_text("mine")
    assert run(monkeypatch, "forwarding", "--set", "run.packets=1000000", *words) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "there.json").read_text() == "mine"


def test_a_scenario_says_whose_lives_are_written(tmp_path, monkeypatch):
    text = 'name = "own"\n[run]\npackets = 4000\nwarmup = 1000\n[run.trace]\nslowest = 3\nlosses = 0\n'
    (tmp_path / "own.toml").write_text(text + "[function.forward]\nprefixes = 5000\n")
    words = [str(tmp_path / "own.toml"), "--quiet", "--trace", str(tmp_path / "t.json")]
    assert run(monkeypatch, *words) == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert len({event["tid"] for event in events if event["pid"] == 1 and event["ph"] == "X"}) == 3


def test_a_result_without_a_trace_has_no_lives(tmp_path):
    result = wirespeed.run("forwarding", set=["run.packets=2000", "run.warmup=1000", "run.curve=[]"])
    assert result.lives() is None
    with pytest.raises(wirespeed.InputError, match="ends in"):
        lives.check(tmp_path / "x")
