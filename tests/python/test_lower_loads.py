"""The report of an overload draws what the machine would carry at lower loads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import wirespeed
from wirespeed import cli

QUICK = ["machine.cores=1", "machine.core.frequency=1 GHz", "function.forward.prefixes=1000", "traffic.profile=min64"]
QUICK += ["traffic.load=0.4", "run.packets=8000", "run.warmup=12000", "run.curve=[]", "mempool.size=8192"]
POINTS = 7


def words(*more: str) -> list[str]:
    return ["run", "forwarding", *(word for each in QUICK for word in ("--set", each)), "--quiet", *more]


def test_the_report_of_an_overload_has_a_load_curve_and_its_summary_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.app(args=words("--out", str(tmp_path)), standalone_mode=False) == 0
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
    assert table.count("<tr>") == POINTS + 1 + 1


def test_without_a_report_nothing_more_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.app(args=words("--no-report", "--out", str(tmp_path)), standalone_mode=False) == 0
    assert "Without loss up to" not in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_a_program_asks_for_them() -> None:
    settings: dict[str, object] = {"machine.cores": 1, "machine.core.frequency": "1 GHz", "traffic.load": 0.4}
    settings |= {"function.forward.prefixes": 1000, "traffic.profile": "min64", "run.packets": 8000, "run.curve": []}
    settings |= {"run.warmup": 12000, "mempool.size": 8192}
    result = wirespeed.run("forwarding", set=settings, lower_loads=True)
    assert result.summary["curve"] == []
    assert [point["load"] for point in result.shown["curve"]][:POINTS] == [each["load"] for each in result.lower_loads]
    assert len(result.shown["curve"]) == POINTS + 1
    assert wirespeed.run("forwarding", set=settings).lower_loads == []
    light = wirespeed.run("forwarding", set=settings | {"traffic.load": 0.05}, lower_loads=True)
    assert light.shown == light.summary
