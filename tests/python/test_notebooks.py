"""A notebook a paper, and each runs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from wirespeed import papers

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"


def test_every_paper_has_a_notebook_with_cells() -> None:
    assert {file.stem for file in FOLDER.glob("*.py")} == {paper.id for paper in papers.papers()}
    for file in FOLDER.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert text.startswith("# %% [markdown]\n# # ")
        assert text.count("# %%\n") >= 2
        compile(text, file.name, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.stem)
def test_a_notebook_runs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(file))
    assert len(capsys.readouterr().out.splitlines()) >= 3
