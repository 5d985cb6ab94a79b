"""The registry of papers: claims are judged by numbers, found by name, and fit a terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from wirespeed import InputError, _wirespeed, cli, papers, terminal
from wirespeed.papers import Claim, Expected, Kept, Kind, Measured, Outcome, Paper, Request, figures, show
from wirespeed.papers import paper as files

ROOT = Path(__file__).resolve().parents[2]
HEAD = "id,claim,where,paper,unit,tolerance_pct,kind\n"
EXPECTED = HEAD + (
    'rate,Throughput of the proposed architecture at a load of 0.7,"section V-D, p. 9",89.8,Gbps,2,in-sample\n'
    "wait,Average effective waiting time,section V-D,333,ns,5,in-sample\n"
    "order,Proposed is best at every number of entries,fig. 13,holds,,,predicted\n"
)


def number(paper: float = 100.0, tolerance: float = 5.0) -> Expected:
    return Expected("x", "a number", "fig. 1", paper, "ns", tolerance, Kind.predicted)


def trend() -> Expected:
    return Expected("t", "a trend", "fig. 2", "grows", "", None, Kind.predicted)


@pytest.mark.parametrize(
    ("measured", "status"),
    [
        (Measured(105.0), "reproduced"),
        (Measured(95.0), "reproduced"),
        (Measured(105.1), "not"),
        (Measured(105.1, holds=True), "partly"),
        (Measured(105.1, holds=False), "not"),
        (Measured(104.0, holds=False), "reproduced"),
        (Measured(None, note="no data"), "not"),
        (Measured(float("nan")), "not"),
    ],
)
def test_a_number_is_judged_by_its_deviation(measured: Measured, status: str) -> None:
    assert Claim(number(), measured).status == status


@pytest.mark.parametrize(
    ("holds", "status", "words"),
    [
        (True, "reproduced", "holds"),
        (False, "not", "does not hold"),
        (None, "not", None),
        ({"a": True, "b": True, "c": False}, "partly", "holds in 2 of 3"),
        ({"a": True, "b": False}, "not", "holds in 1 of 2"),
        ({"a": True, "b": True}, "reproduced", "holds"),
    ],
)
def test_a_trend_is_judged_by_its_parts(holds: Any, status: str, words: str | None) -> None:
    claim = Claim(trend(), Measured(holds=holds))
    assert (claim.status, claim.ours, claim.deviation_pct) == (status, words, None)


def test_a_document_has_the_fields_that_are_promised_and_is_json() -> None:
    document = Claim(number(), Measured(float("inf"), half_width=1.0), "A").document()
    assert {
        "claim", "where", "paper", "ours", "half_width", "deviation_pct", "tolerance_pct", "kind", "status"
    } <= set(document)  # fmt: skip
    assert json.loads(json.dumps(document, allow_nan=False))["ours"] is None
    assert Claim(number(), Measured(90.0)).document()["deviation_pct"] == pytest.approx(-10.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,claim\n", "first line must be id,claim,where,paper"),
        (HEAD + "a,b,c,1,ns\n", "e.csv:2: 7 fields are wanted"),
        (HEAD + "a,b,c,1,ns,5,predicted,more\n", "e.csv:2: 7 fields are wanted"),
        (HEAD + "a,b,c,1,ns,,predicted\n", "e.csv:2: a number has a tolerance_pct"),
        (HEAD + "a,b,c,1,ns,-1,predicted\n", "e.csv:2: a number has a tolerance_pct"),
        (HEAD + "a,b,c,grows,ns,5,predicted\n", "a trend has none"),
        (HEAD + "a,b,c,1,ns,5,guessed\n", "kind 'guessed': allowed are calibrated, in-sample, predicted"),
        (HEAD + "a,b,c,1,ns,5,predicted\na,b,c,1,ns,5,predicted\n", "e.csv:3: id 'a' stands twice"),
    ],
)
def test_a_file_of_claims_that_cannot_be_used_says_where(text: str, says: str) -> None:
    with pytest.raises(InputError) as raised:
        papers.parse_expected(text, "e.csv")
    assert says in str(raised.value)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Paper:
    def measure(request: Request) -> Outcome:
        points = []
        for load in (0.1, 0.2, 0.4):
            key = Kept.key([request.reading, load])
            point = request.kept.get(key)
            if point is None:
                computed.append(load)
                point = {"load": load, "ns": 100 * load, "by": "ours", "wide": 1.0}
                request.kept.add(key, point)
            points.append(point)
        measured = {
            "rate": Measured(90.0, half_width=0.123),
            "wait": Measured(400.0, half_width=3.0, holds=True, note="as far as runs go"),
            "order": Measured(holds={"load 0.1": True, "load 0.2": True, "load 0.4": False}),
        }
        chart = figures.lines(points, x="load", y="ns", by="by", half_width="wide", log_x=True)
        return Outcome(measured, points, [papers.Figure("fig1", "Latency over load", chart)], ["a note"])

    computed: list[float] = []
    paper = Paper(
        id="2020-toy-nobody",
        title="A <toy> of [brackets]",
        authors="N. Obody",
        venue="Journal of Toys",
        year=2020,
        doi="10.0/0",
        readings={"literal": "as the text has it", "other": "as it may be meant"},
        default_readings=("literal",),
        measure=measure,
    )
    monkeypatch.setattr(papers, "papers", lambda: [paper])
    monkeypatch.setattr(_wirespeed, "paper_file", lambda room, name: EXPECTED if name == "expected.csv" else None)
    monkeypatch.setattr(sys.modules[__name__], "COMPUTED", computed, raising=False)
    return paper


@pytest.fixture
def wirespeed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["wirespeed", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        printed = capsys.readouterr()
        return left.value.code, printed.out, printed.err

    return call


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_table_fits_the_terminal(toy: Paper, width: int) -> None:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    text = terminal.text(show.reports(papers.run(toy)), console)
    assert max(cell_len(line) for line in text.splitlines()) <= min(width, 100)
    for part in ("reproduced", "partly", "section V-D", "in-sample", "89.8 Gbps", "a note"):
        assert part in text, text
    assert "1 reproduced, 2 partly, 0 not" in text


def test_the_command_prints_claims_as_a_list_of_objects(toy: Paper, wirespeed: Any) -> None:
    code, out, _ = wirespeed("papers", "run", toy.id, "--format", "json", "-q")
    documents = json.loads(out)
    assert code == 0
    assert [d["status"] for d in documents] == ["reproduced", "partly", "partly"]
    assert [d["ours"] for d in documents] == [90.0, 400.0, "holds in 2 of 3"]
    assert documents[2]["note"] == "not for load 0.4"
    code, out, _ = wirespeed(
        "papers", "run", "nobody", "--claim", "waiting", "--reading", "all", "--format", "json", "-q"
    )
    assert [(d["id"], d["reading"]) for d in json.loads(out)] == [("wait", "literal"), ("wait", "other")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["2020-toy-nobdy"], "paper `2020-toy-nobdy`: allowed are 2020-toy-nobody (did you mean `2020-toy-nobody`?)"),
        (
            ["2020-toy-nobody", "--claim", "ordr"],
            "--claim ordr: no such claim; there are rate, wait, order (did you mean",
        ),
        (["2020-toy-nobody", "--reading", "litral"], "has literal, other, all (did you mean `literal`?)"),
        (["2020-toy-nobody", "--real-size"], "has no other sizes than its own"),
    ],
)
def test_what_there_is_not_is_told_with_what_there_is(
    toy: Paper, wirespeed: Any, arguments: list[str], says: str
) -> None:
    code, out, err = wirespeed("papers", "run", *arguments)
    assert (code, out) == (2, "")
    assert says in err


def test_results_are_written_and_a_second_run_computes_nothing_again(
    toy: Paper, wirespeed: Any, tmp_path: Path
) -> None:
    computed: list[float] = globals()["COMPUTED"]
    assert wirespeed("papers", "run", toy.id, "--out", str(tmp_path))[0] == 0
    assert computed == [0.1, 0.2, 0.4]
    assert json.loads((tmp_path / "claims.json").read_text())[0]["id"] == "rate"
    assert (tmp_path / "points.csv").read_text().splitlines()[0] == "reading,load,ns,by,wide"
    assert (tmp_path / "fig1-literal.svg").read_text().startswith("<svg")
    page = (tmp_path / "figures.html").read_text()
    assert "A &lt;toy&gt;" in page
    assert "<svg" in page
    with (tmp_path / "kept.jsonl").open("a") as file:
        file.write('{"cut off by a cra')
    assert wirespeed("papers", "run", toy.id, "--out", str(tmp_path))[0] == 0
    assert len(computed) == 3


def test_the_list_names_papers_and_readings(toy: Paper, wirespeed: Any) -> None:
    code, out, _ = wirespeed("papers", "list")
    assert code == 0
    for part in (toy.id, "A <toy> of [brackets]", "as it may be meant"):
        assert part in out


def test_an_order_that_was_not_measured_is_a_bug_and_not_a_claim(toy: Paper) -> None:
    request = papers.run(toy, claims=["rate"])
    assert [claim.expected.id for claim in request[0].claims] == ["rate"]


@pytest.mark.parametrize("paper", papers.papers(), ids=lambda paper: paper.id)
def test_every_paper_has_its_room_and_its_claims(paper: Paper) -> None:
    room = ROOT / "papers" / paper.id
    assert {"README.md", "expected.csv", "DEVIATIONS.md"} <= {file.name for file in room.iterdir()}
    assert paper.file("expected.csv") == (room / "expected.csv").read_text(), "expected.csv was changed: build again"
    assert paper.expected()
    assert set(paper.default_readings) <= set(paper.readings)


def test_every_room_has_its_module() -> None:
    rooms = {folder.name for folder in (ROOT / "papers").iterdir() if folder.is_dir()}
    assert rooms == {paper.id for paper in papers.papers()}
    assert files.EXPECTED == "expected.csv"
