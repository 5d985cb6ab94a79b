"""The report of an overload draws what the machine would carry at lower loads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import summaries
from wirespeed import below, cli

QUICK = ["machine.cores=1", "machine.core.frequency=1 GHz", "function.forward.prefixes=1000", "traffic.profile=min64"]
QUICK += ["traffic.load=0.4", "run.packets=8000", "run.warmup=12000", "run.curve=[]", "mempool.size=8192"]


def lossy(**changes: object) -> dict[str, object]:
    found = {"verdict": {"status": "loses"}, "load": 0.8, "loss": 0.5, "lost": 500, "curve": [], "search": None}
    return summaries.sound(**(found | {"partial": False} | changes))


def test_points_lie_below_what_got_through_and_between_that_and_what_was_offered() -> None:
    assert below.loads(lossy()) == [0.1, 0.2, 0.3, 0.36, 0.38, 0.5333, 0.6667]
    assert max(below.loads(lossy(load=1.5))) < 1.0
    assert below.settings(lossy(packets=5000), [0.1, 0.2])[:2] == ["run.curve=[0.1, 0.2]", "run.curve_packets=5000"]
    assert "run.curve_packets=50000" in below.settings(lossy(packets=1_000_000), [0.1])
    # So short a run by itself would be warmed up by some thousand packets, and its points be of another machine.
    assert below.settings(lossy(warmup_packets=7000), [0.1])[-1] == "run.warmup=7000"


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": {"status": "carries"}},
        {"curve": [{"load": 0.5}]},
        {"search": {"kind": "ndr"}},
        {"partial": True},
        {"loss": None},
        {"loss": 1.0},
        {"load": None},
    ],
)
def test_a_run_that_is_no_overload_or_has_a_curve_gets_none(changes: dict[str, object]) -> None:
    assert below.loads(lossy(**changes)) == []


def test_the_report_of_an_overload_has_a_load_curve_and_its_summary_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "forwarding", *(word for each in QUICK for word in ("--set", each)), "--quiet"]
    assert cli.app(args=[*words, "--out", str(tmp_path)], standalone_mode=False) == 0
    printed = re.sub(r"\s+", " ", capsys.readouterr().out)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["verdict"]["status"] == "loses"
    assert summary["curve"] == []
    page = (tmp_path / "report.html").read_text()
    assert 'id="rate"' in page
    assert "Carried packet rate over offered load" in page or "Rates, loss and sojourn over offered load" in page
    assert "Without loss up to" in printed
    assert "Without loss up to" in page
    # The points and the run itself.
    table = page[page.index("Rates, loss and sojourn over offered load") :].partition("</table>")[0]
    assert table.count("<tr>") == len(below.loads(summary)) + 1 + 1


def test_without_a_report_nothing_more_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(below, "loads", lambda _: pytest.fail("asked for a curve"))
    words = ["run", "forwarding", *(word for each in QUICK for word in ("--set", each)), "--quiet", "--no-report"]
    assert cli.app(args=[*words, "--out", str(tmp_path)], standalone_mode=False) == 0
