"""The registry of papers: claims are judged by numbers, found by name, and fit a terminal."""

from __future__ import annotations

import datetime
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyarrow import parquet
from rich.cells import cell_len
from rich.console import Console

from wirespeed import InputError, _wirespeed, papers, terminal
from wirespeed import quantities as q
from wirespeed.papers import (
    Claim,
    Expected,
    Kept,
    Kind,
    Measured,
    Outcome,
    Paper,
    Part,
    Request,
    cite,
    clock,
    fact,
    figures,
    latex,
    readme,
    sentences,
    show,
    takes,
    tally,
)
from wirespeed.papers import paper as files
from wirespeed.papers.rooms import korikawa_2020

ROOT = Path(__file__).resolve().parents[2]
HEAD = "id,claim,where,paper,unit,tolerance_pct,kind\n"
EXPECTED = HEAD + (
    'rate,Throughput of the proposed architecture at a load of 0.7,"section V-D, p. 9",89.8,Gbps,2,seen\n'
    "wait,Average effective waiting time,section V-D,333,ns,5,seen\n"
    "order,Proposed is best at every number of entries,fig. 13,holds,,,predicted\n"
    "fitted,What the rate was fitted on,table 7,1,Gbps,2,calibrated\n"
)


def number(paper: float = 100.0, tolerance: float = 5.0, kind: Kind = Kind.seen) -> Expected:
    return Expected("x", "a number", "fig. 1", paper, "ns", tolerance, kind)


def trend(kind: Kind = Kind.seen) -> Expected:
    return Expected("t", "a trend", "fig. 2", "grows", "", None, kind)


RIGHT, WRONG = Part(1.0), Part(-1.0)


@pytest.mark.parametrize(
    ("measured", "status"),
    [
        (Measured(105.0), "reproduced"),
        (Measured(95.0), "reproduced"),
        (Measured(105.1), "not"),
        (Measured(105.1, holds=RIGHT), "partly"),
        (Measured(105.1, holds=WRONG), "not"),
        (Measured(104.0, holds=WRONG), "reproduced"),
        (Measured(None, note="no data"), "not"),
        (Measured(float("nan")), "not"),
        # The right side is worth something up to a factor of two, both ways, and where it is more than chance.
        (Measured(200.0, holds=RIGHT), "partly"),
        (Measured(200.1, holds=RIGHT), "not"),
        (Measured(50.0, holds=RIGHT), "partly"),
        (Measured(49.9, holds=RIGHT), "not"),
        (Measured(150.0, holds=Part(1.0, half_width=1.0)), "not"),
        # Within the tolerance by chance is not reproduced.
        (Measured(104.0, half_width=4.9), "reproduced"),
        (Measured(104.0, half_width=5.0), "not"),
        (Measured(104.0, half_width=5.0, holds=RIGHT), "partly"),
    ],
)
def test_a_number_is_judged_by_its_deviation(measured: Measured, status: str) -> None:
    assert Claim(number(), measured).status == status


@pytest.mark.parametrize(
    ("paper", "ours", "status"), [(-44.0, -38.0, "partly"), (-44.0, -21.9, "not"), (-44.0, 44.0, "not")]
)
def test_a_negative_number_has_a_factor_too(paper: float, ours: float, status: str) -> None:
    assert Claim(number(paper), Measured(ours, holds=RIGHT)).status == status


def test_fifty_times_what_the_paper_has_is_not_partly() -> None:
    hermes = number(paper=5.0, tolerance=25.0)
    assert Claim(hermes, Measured(233.0, holds=RIGHT)).status == "not"
    assert Claim(hermes, Measured(233.0, holds=RIGHT)).loosely == "partly"


@pytest.mark.parametrize(
    ("holds", "status", "words"),
    [
        (RIGHT, "reproduced", "holds"),
        (WRONG, "not", "does not hold"),
        (None, "not", None),
        ({"a": RIGHT, "b": RIGHT, "c": WRONG}, "partly", "holds in 2 of 3"),
        ({"a": RIGHT, "b": WRONG}, "not", "holds in 1 of 2"),
        ({"a": RIGHT, "b": RIGHT}, "reproduced", "holds"),
        # A difference within its half-width is none, and a size that is printed has to be met within a factor of two.
        (Part(0.00013, half_width=0.032), "not", "does not hold"),
        ({"a": RIGHT, "b": Part(0.1, half_width=0.1)}, "not", "holds in 1 of 2"),
        (Part(5.0, factor=16.6), "not", "does not hold"),
        (Part(5.0, factor=1.9), "reproduced", "holds"),
    ],
)
def test_a_trend_is_judged_by_its_parts(holds: Any, status: str, words: str | None) -> None:
    claim = Claim(trend(), Measured(holds=holds))
    assert (claim.status, claim.ours, claim.deviation_pct) == (status, words, None)


def test_a_coin_flip_says_that_it_is_one() -> None:
    flip = Claim(trend(), Measured(holds=Part(0.00013, half_width=0.032)))
    assert (flip.loosely, flip.status, flip.note) == ("reproduced", "not", "the difference is within the noise")
    parts = Claim(trend(), Measured(holds={"a": Part(0.1, 0.2), "b": WRONG, "c": RIGHT}, note="and more"))
    assert parts.note == "not for b; within the noise for a; and more"
    assert "half-width is not" in Claim(number(), Measured(104.0, half_width=5.1)).note


def test_the_loose_rule_takes_the_mean_alone_and_noise_for_claims_of_no_worse() -> None:
    assert Claim(trend(), Measured(holds=Part(-0.1, 0.2))).loosely == "not"
    assert Claim(trend(), Measured(holds=Part(-0.1, 0.2, noise_counts_for_it=True))).loosely == "reproduced"
    assert Claim(trend(), Measured(holds=Part(-0.3, 0.2, noise_counts_for_it=True))).loosely == "not"
    assert Claim(trend(Kind.identity), Measured(holds=RIGHT)).loosely == "reproduced"


@pytest.mark.parametrize("kind", list(Kind))
def test_only_what_is_evidence_is_counted(kind: Kind) -> None:
    claims = [Claim(number(kind=kind), Measured(100.0)), Claim(trend(kind), Measured(holds=fact(True)))]
    if kind in {Kind.predicted, Kind.seen}:
        assert [claim.status for claim in claims] == ["reproduced", "reproduced"]
        assert tally(claims) == "2 of 2 counted claims reproduced, 0 partly, 0 not"
    else:
        assert [claim.status for claim in claims] == ["listed", "listed"]
        assert tally(claims).startswith(
            "0 of 0 counted claims reproduced, 0 partly, 0 not; 2 rows listed, not counted: 2 "
        )


def test_the_tally_names_what_is_not_counted() -> None:
    kinds = [Kind.calibrated, Kind.in_sample, Kind.arithmetic, Kind.identity, Kind.dependent]
    claims = [Claim(number(kind=kind), Measured(100.0)) for kind in kinds]
    claims += [Claim(number(), Measured(ours, holds=RIGHT)) for ours in (100.0, 150.0, 300.0)]
    assert tally(claims) == (
        "1 of 3 counted claims reproduced, 1 partly, 1 not; 5 rows listed, not counted: 2 fitted, "
        "1 dependent on others, 1 arithmetic on the paper's numbers, 1 true by construction"
    )


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
        (HEAD + "a,b,c,1,ns,5,guessed\n", "kind 'guessed': allowed are predicted, seen, calibrated"),
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
            request.progress("points", len(points), 3, "")
        measured = {
            "rate": Measured(90.0, half_width=0.123),
            "wait": Measured(400.0, half_width=3.0, holds=RIGHT, note="as far as runs go"),
            "order": Measured(holds={"load 0.1": RIGHT, "load 0.2": RIGHT, "load 0.4": WRONG}),
            "fitted": Measured(1.0),
        }
        titles = {"x_title": "load, share", "y_title": "latency, ns"}
        chart = figures.lines(points, x="load", y="ns", by="by", half_width="wide", log_x=True, **titles)
        tables = {"speeds": [{"load": 0.1, "speed": "1.5 x"}]}
        return Outcome(measured, points, [papers.Figure("fig1", "Latency over load", chart)], ["a note"], tables)

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


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_table_fits_the_terminal(toy: Paper, width: int) -> None:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    text = terminal.text(show.reports(papers.run(toy)), console)
    assert max(cell_len(line) for line in text.splitlines()) <= min(width, 100)
    for part in ("reproduced", "partly", "section V-D", "calibrated", "listed", "89.8 Gbps", "a note"):
        assert part in text, text
    words = " ".join(text.split())
    assert "1 of 3 counted claims reproduced, 2 partly, 0 not; 1 row listed, not counted: 1 fitted" in words


def test_the_command_prints_claims_as_a_list_of_objects(toy: Paper, wirespeed: Any) -> None:
    code, out, _ = wirespeed("papers", "run", toy.id, "--format", "json", "-q")
    documents = json.loads(out)
    assert code == 0
    assert [d["status"] for d in documents] == ["reproduced", "partly", "partly", "listed"]
    assert [d["ours"] for d in documents] == [90.0, 400.0, "holds in 2 of 3", 1.0]
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
            "--claim ordr: no such claim; there are rate, wait, order, fitted (did you mean",
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
    # How many hold, then the figures, then the long table; and colours for a dark screen.
    counted = page.index("Reading literal: 1 of 3 counted claims reproduced")
    assert counted < page.index("<svg") < page.index("<table>")
    assert "not for load 0.4" in page
    assert "prefers-color-scheme:dark" in page
    assert r"\begin{longtable}" in (tmp_path / "claims.tex").read_text()
    rows = parquet.read_table(tmp_path / "claims.parquet").to_pylist()
    for row, document in zip(rows, json.loads((tmp_path / "claims.json").read_text()), strict=True):
        # A number or words: one of the two columns has it, and the other nothing.
        for name in ("paper", "ours"):
            number, words = row.pop(name), row.pop(f"{name}_words")
            assert (number is None) != (words is None)
            assert document.pop(name) == (words if number is None else number)
        assert row == document
    with (tmp_path / "kept.jsonl").open("a") as file:
        file.write('{"cut off by a cra')
    assert wirespeed("papers", "run", toy.id, "--out", str(tmp_path))[0] == 0
    assert len(computed) == 3


def test_claims_in_latex_have_a_cell_for_every_column_and_no_command_by_chance() -> None:
    row = Expected("x", "Rate of A & B_1 is 50% of {all} #2 ~ ^", "fig. 1 \\ 2", 100.0, "$/s", 5.0, Kind.seen)
    text = latex.claims([("2020-a_b", "A", [Claim(row, Measured(104.0, half_width=1.5)), Claim(trend(), Measured())])])
    assert (
        r"Rate of A \& B\_1 is 50\% of \{all\} \#2 \textasciitilde{} \textasciicircum{} & fig. 1 \textbackslash{} 2 & "
        r"100 \$/s & 104 $\pm$ 1.5 & +4.0 \% & 5 \% & seen & reproduced \\"
    ) in text
    assert r"\label{tab:2020-a-b-A}" in text
    bare = re.sub(r"\\[\\&%$#_{}]", "", text)
    assert bare.count("{") == bare.count("}")
    columns = latex._COLUMNS.replace("@{}", "")
    rows = [line for line in bare.splitlines() if " & " in line and not line.startswith("\\caption")]
    assert len(rows) == 4
    assert {line.count("&") + 1 for line in rows} == {len(re.sub(r"p\{[^}]*\}", "p", columns))}


def test_bibtex_has_the_project_as_its_citation_file_has_it_and_each_paper(toy: Paper, wirespeed: Any) -> None:
    facts = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    code, out, _ = wirespeed("papers", "cite")
    assert code == 0
    project, paper = out.split("\n\n")
    assert project.startswith("@misc{wirespeed,\n")
    for fact_ in (facts["title"], facts["version"], facts["repository-code"], _wirespeed.commit()):
        assert fact_ in project
    assert paper == (
        "@misc{2020-toy-nobody,\n  title = {{A \\textless{}toy\\textgreater{} of [brackets]}},\n"
        "  author = {N. Obody},\n  year = {2020},\n  doi = {10.0/0},\n}\n"
    )
    assert wirespeed("papers", "cite", "nobody")[1] == out
    code, _, err = wirespeed("papers", "cite", "nobdy-2020")
    assert (code, "allowed are 2020-toy-nobody" in err) == (2, True)


def test_a_person_is_cited_by_both_names(tmp_path: Path) -> None:
    file = tmp_path / "CITATION.cff"
    file.write_text(
        "title: T\nversion: 1\nlicense: MIT\nrepository-code: u\ndate-released: 2026-11-26\n"
        "authors:\n  - {given-names: A. B., family-names: See}\n  - {name: The Group}\n"
    )
    entry = cite.project("abc", file)
    assert "author = {A. B. See and {The Group}}" in entry
    assert "year = {2026}" in entry


def test_papers_that_appeared_somewhere_say_where() -> None:
    known = {paper.id: cite.paper(paper) for paper in papers.papers()}
    assert "@article{2020-access-korikawa," in known["2020-access-korikawa"]
    assert "journal = {IEEE Access},\n  volume = {8},\n  year = {2020}" in known["2020-access-korikawa"]
    assert "@inproceedings{2011-dac-hermes," in known["2011-dac-hermes"]
    assert "Y. Zhu and Y. Deng and Y. Chen" in known["2011-dac-hermes"]


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rooms' files as they are in the source, whatever the extension was built of."""

    def read(room: str, name: str) -> str | None:
        file = ROOT / "papers" / room / name
        return file.read_text() if file.is_file() else None

    monkeypatch.setattr(_wirespeed, "paper_file", read)


def test_the_list_omits_what_is_not_known_and_says_how_long_a_run_takes(carried: None) -> None:
    for paper in papers.papers():
        takes = paper.takes
        assert takes is not None, f"run `python -m wirespeed.papers.clock {paper.id}`"
        assert show.about(paper).endswith(f" Takes {q.digits(takes.seconds, 2)} s of CPU ({takes.host}, {takes.date}).")
    known = papers.find("5gc2ache")
    assert show.about(known).startswith("5GC2ache: Improving 5G UPF Performance via Cache Optimization. 2024. Takes ")


def test_a_room_that_was_never_timed_says_nothing_of_it(toy: Paper) -> None:
    assert toy.takes is None
    assert show.about(toy) == "N. Obody: A <toy> of [brackets]. Journal of Toys, 2020. doi:10.0/0"


def test_what_a_run_takes_is_measured_and_read_back(
    toy: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "papers" / toy.id).mkdir(parents=True)
    monkeypatch.setattr(clock, "ROOT", tmp_path)
    assert clock.main([toy.id]) == 0
    found = takes.parse((tmp_path / "papers" / toy.id / "takes.toml").read_text(), "takes.toml")
    assert globals()["COMPUTED"] == [0.1, 0.2, 0.4]
    assert 0 <= found.seconds < 60
    assert (found.date, found.version) == (datetime.date.today(), _wirespeed.version())
    assert f"{toy.id}: {found}\n" == capsys.readouterr().out
    assert clock.main(["nobdy-2020"]) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seconds = ", "t.toml: is no TOML"),
        ('seconds = 1.0\nhost = "h"', "`date` lacks; `version` lacks"),
        ('seconds = -1\nhost = "h"\ndate = 2026-11-26\nversion = "1"', "`seconds` is -1: a number above 0 is wanted"),
        ('seconds = 1\nhost = "h"\ndate = "today"\nversion = "1"', "`date` is 'today': a day such as"),
        ('minutes = 1\nhost = "h"\ndate = 2026-11-26\nversion = "1"', "`minutes` is none of seconds, host"),
    ],
)
def test_times_that_cannot_be_used_say_why(text: str, says: str) -> None:
    with pytest.raises(InputError) as raised:
        takes.parse(text, "t.toml")
    assert says in str(raised.value)


def test_a_figure_has_what_the_paper_prints_in_the_colour_of_its_line() -> None:
    points = [{"x": x, "y": x * f, "by": by} for x in (1.0, 2.0) for by, f in (("ours", 1.0), ("other", 2.0))]
    theirs = [{"x": 2.0, "y": 2.5, "by": "ours"}, {"x": 0.0, "y": 1.0, "by": "ours"}]
    colours = {"ours": "#111111", "other": "#222222"}
    chart = figures.lines(points, x="x", y="y", by="by", log_x=True, printed=theirs, colours=colours).to_dict()
    *_, diamond, words = chart["layer"]
    drawn = chart["datasets"][diamond["data"]["name"]]
    assert (diamond["mark"]["shape"], words["mark"]["text"]) == ("diamond", "paper")
    # A point at 0 has no place on a logarithmic axis.
    assert [row["y"] for row in drawn] == [2.5]
    scales = {json.dumps(layer["encoding"]["color"]["scale"]) for layer in chart["layer"]}
    assert scales == {json.dumps({"domain": ["ours", "other"], "range": ["#111111", "#222222"]})}
    plain = figures.lines(points, x="x", y="y", by="by").to_dict()
    assert [layer["mark"]["type"] for layer in plain["layer"]] == ["line", "point"]
    titles = {"x_title": "cores", "y_title": "rate, Gbps"}
    drawn = figures.lines(points, x="x", y="y", by="by", printed=theirs, **titles)
    assert "<svg" in papers.Figure("f", "A figure", drawn).svg()


def test_an_architecture_has_one_hue_in_every_figure() -> None:
    lines = ("Proposed, L = 16", "Proposed, L = 4", "Without LLC", "With LLC")
    colours = korikawa_2020._colours(lines)
    assert [colours[name] for name in lines] == [
        *korikawa_2020._HUES["Proposed"][:2],
        korikawa_2020._HUES["Without LLC"][0],
        korikawa_2020._HUES["With LLC"][0],
    ]
    assert korikawa_2020._colours(["alpha 0.64"]) == {"alpha 0.64": korikawa_2020._HUES["Proposed"][0]}


def test_the_list_names_papers_and_readings(toy: Paper, wirespeed: Any) -> None:
    code, out, _ = wirespeed("papers", "list")
    assert code == 0
    for part in (toy.id, "A <toy> of [brackets]", "as it may be meant"):
        assert part in out


def test_a_run_says_which_paper_it_is_from_the_start(toy: Paper) -> None:
    phases: list[str] = []
    papers.run(papers.find("nobody"), progress=lambda phase, *_: phases.append(phase))
    assert phases == ["2020-toy-nobody, points"] * 3


def test_claims_are_found_by_where_they_stand(toy: Paper) -> None:
    assert [row.id for row in papers.selected(toy.expected(), ["table 7"])] == ["fitted"]
    assert [row.id for row in papers.selected(toy.expected(), ["FIG."])] == ["order"]


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


PAGE = """# A page

Between <!--= rate -->old<!--/--> and <!--= wait.status@other -->old<!--/-->: <!--= tally -->old<!--/-->.
The paper has <!--= wait.paper@other -->old<!--/-->.

<!-- begin claims literal rate w* -->
old
<!-- end -->
<!-- begin notes literal -->
<!-- end -->
<!-- begin tally -->
<!-- end -->
<!-- begin table speeds -->
<!-- end -->
<!-- begin table speeds other -->
<!-- end -->
"""


def test_a_page_is_filled_from_a_run_and_from_nothing_else(toy: Paper) -> None:
    record = json.loads(readme.text(readme.run(toy, ["literal", "other"])))
    page = readme.filled(PAGE, toy, record)
    assert "old" not in page
    assert "The paper has <!--= wait.paper@other -->333 ns<!--/-->." in page
    assert "Between <!--= rate -->90.0 ± 0.12<!--/--> and <!--= wait.status@other -->partly<!--/-->" in page
    assert (
        "| Average effective waiting time | section V-D | 333 ns | 400 ± 3.0 | +20 % | 5 % | seen | partly |\n" in page
    )
    assert "Proposed is best" not in page
    assert "- `order`: not for load 0.4.\n" in page
    assert "| literal | loose | 2 | 2 | 0 | 0 |\n| literal | as judged | 1 | 2 | 0 | 1 |\n" in page
    assert "| reading | load | speed |\n|---|---|---|\n| literal | 0.1 | 1.5 x |\n| other | 0.1 | 1.5 x |\n" in page
    assert page.endswith(
        "<!-- begin table speeds other -->\n| load | speed |\n|---|---|\n| 0.1 | 1.5 x |\n<!-- end -->\n"
    )
    assert readme.filled(page, toy, record) == page


@pytest.mark.parametrize(
    "marker",
    [
        "<!--= rte -->1<!--/-->",
        "<!--= rate.worth -->1<!--/-->",
        "<!--= rate@litral -->1<!--/-->",
        "<!-- begin chart -->\n<!-- end -->",
        "<!-- begin table distances -->\n<!-- end -->",
        "<!-- begin claims litral -->\n<!-- end -->",
    ],
)
def test_a_marker_that_names_nothing_is_refused(toy: Paper, marker: str) -> None:
    record = readme.run(toy, ["literal"])
    with pytest.raises(InputError, match=r"page: "):
        readme.filled(marker, toy, record)


def test_pages_that_differ_from_their_run_are_found(
    toy: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    room = tmp_path / "papers" / toy.id
    room.mkdir(parents=True)
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    page = room / "README.md"
    page.write_text(PAGE)
    assert readme.main([toy.id]) == 2
    assert "claims.json: cannot be read" in capsys.readouterr().err
    assert readme.main([toy.id, "--run", "--kept", str(tmp_path / "kept")]) == 0
    assert readme.main([toy.id, "--check"]) == 0
    page.write_text(page.read_text().replace("90.0 ± 0.12", "91.0 ± 0.12"))
    assert readme.main([toy.id, "--check"]) == 1
    assert "91.0" in page.read_text()
    assert readme.main([toy.id]) == 0
    assert "90.0 ± 0.12" in page.read_text()


@pytest.mark.parametrize("paper", papers.papers(), ids=lambda paper: paper.id)
def test_the_pages_of_a_paper_say_what_its_last_run_came_to(paper: Paper) -> None:
    record = readme.read(paper)
    expected = {row.id: row for row in paper.expected()}
    assert set(record["readings"]) == set(paper.readings)
    for reading in record["readings"].values():
        assert set(reading["claims"]) == set(expected)
        for id, claim in reading["claims"].items():
            assert (claim["status"] == "listed") is not expected[id].kind.is_counted, id
    differing = readme.fill(paper, check=True)
    assert not differing, f"run `python -m wirespeed.papers.readme {paper.id}`"
    # Claims and tallies stand in the README between markers, and nowhere as written by hand.
    text = (ROOT / "papers" / paper.id / "README.md").read_text()
    assert "<!-- begin tally -->" in text
    assert "<!-- begin claims " in text


SENTENCES = "where,says,rows,why_not\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("where,says\n", "s.csv: the first line must be where,says,rows,why_not"),
        (SENTENCES + "fig. 1,A is 2 x as fast,rate\n", "s.csv:2: 4 fields are wanted"),
        (SENTENCES + "fig. 1,A is 2 x as fast,rate wait-*,\n", "s.csv:2: no row is called `wait-*`"),
        (SENTENCES + "fig. 1,A is 2 x as fast,,\n", "s.csv:2: rows that judge it are wanted, or a reason"),
        (SENTENCES + "fig. 1,A is 2 x as fast,rate,a parameter\n", "and not both"),
    ],
)
def test_sentences_that_cannot_be_used_say_where(text: str, says: str) -> None:
    with pytest.raises(InputError) as raised:
        sentences.parse(text, "s.csv", ["rate", "rate-max"])
    assert says in str(raised.value)


def test_a_sentence_is_told_with_the_rows_that_judge_it() -> None:
    text = SENTENCES + "fig. 1,A is 2 x as fast,rate*,\nsection 2,8 cores,,a parameter\n"
    ids = ["rate", "wait", "rate-max", "rate-min", "rate-mean", "rate-p99"]
    fast, cores = sentences.parse(text, "s.csv", ids)
    assert fast.rows == ("rate", "rate-max", "rate-min", "rate-mean", "rate-p99")
    statuses = dict.fromkeys(ids, "not") | {"rate-min": "reproduced", "rate": "listed"}
    assert fast.judged(statuses) == (
        "`rate`, `rate-max`, `rate-min`, `rate-mean` and 1 more: 1 reproduced, 3 not, 1 listed"
    )
    assert cores.judged(statuses) == "not judged: a parameter"


@pytest.mark.parametrize("paper", papers.papers(), ids=lambda paper: paper.id)
def test_every_counted_row_judges_a_sentence_of_the_paper(paper: Paper) -> None:
    file = ROOT / "papers" / paper.id / "sentences.csv"
    rows = paper.expected()
    said = sentences.parse(file.read_text(), file.name, [row.id for row in rows])
    judging = {id for sentence in said for id in sentence.rows}
    assert {row.id for row in rows if row.kind.is_counted} <= judging
    assert len({(each.where, each.says) for each in said}) == len(said)
    page = (ROOT / "papers" / paper.id / "README.md").read_text()
    (reading,) = re.findall(r"<!-- begin sentences (\S+) -->", page)
    assert reading in paper.readings


def test_a_page_shows_sentences_with_what_their_rows_came_to(
    toy: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = readme.run(toy, ["literal"])
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    marked = "<!-- begin sentences literal -->\n<!-- end -->\n"
    with pytest.raises(InputError, match=r"papers/2020-toy-nobody/sentences\.csv: lacks"):
        readme.filled(marked, toy, record)
    room = tmp_path / "papers" / toy.id
    room.mkdir(parents=True)
    (room / "sentences.csv").write_text(SENTENCES + "p. 9,89.8 Gbps,rate wait,\np. 2,8 cores,,a parameter\n")
    assert readme.filled(marked, toy, record) == (
        "<!-- begin sentences literal -->\n| where | what the paper says | judged by |\n|---|---|---|\n"
        "| p. 9 | 89.8 Gbps | `rate`, `wait`: 1 reproduced, 1 partly |\n"
        "| p. 2 | 8 cores | not judged: a parameter |\n<!-- end -->\n"
    )


PAGES = sorted((ROOT / "docs" / "papers").glob("*.md"))
TEN = ["Built", "Holds", "Fails", "New"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_room_opens_with_ten_lines_whose_numbers_are_of_its_claims(page: Path) -> None:
    title, head, lines = page.read_text().split("\n\n")[:3]
    assert (title[:2], head) == ("# ", "## In ten lines")
    found = re.findall(r"^- \*\*(\w+)\.\*\* .+\.$", lines, re.MULTILINE)
    assert len(found) == len(lines.splitlines()) == 10
    assert list(dict.fromkeys(found)) == TEN
    assert found == sorted(found, key=TEN.index)
    assert "<!--= tally" in lines
    by_hand = re.sub(r"<!--=.*?<!--/-->|\]\([^)]*\)", "", lines)
    # Names may have digits in them (DDR4, L1, Hermes-8); a number by itself is a claim's.
    assert not re.findall(r"(?<![\w-])[-+]?\d[\d.,]*", by_hand)


def test_every_paper_has_its_page() -> None:
    assert [page.stem for page in PAGES] == [paper.id for paper in papers.papers()]


@pytest.mark.slow
@pytest.mark.parametrize("paper", papers.papers(), ids=lambda paper: paper.id)
def test_a_fresh_run_comes_to_what_stands_in_the_room(paper: Paper) -> None:
    reading = papers.chosen(paper, None)[0]
    kept, fresh = readme.read(paper)["readings"][reading], readme.run(paper, [reading])["readings"][reading]
    assert fresh["tally"] == kept["tally"]
    for id, claim in fresh["claims"].items():
        assert claim["status"] == kept["claims"][id]["status"], id
        if isinstance(claim["ours"], float):
            assert claim["ours"] == pytest.approx(kept["claims"][id]["ours"], rel=1e-4, abs=1e-9), id
        else:
            assert claim["ours"] == kept["claims"][id]["ours"], id
