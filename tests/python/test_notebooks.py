"""A notebook a paper, as Python with cells and as Jupyter opens it, and each runs."""

from __future__ import annotations

import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

from wirespeed import papers

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "house"))
import notebooks  # noqa: E402


def test_every_paper_has_a_notebook_with_cells() -> None:
    assert {file.stem for file in notebooks.files()} == {paper.id for paper in papers.papers()}
    for file in notebooks.files():
        text = file.read_text(encoding="utf-8")
        assert text.startswith("# %% [markdown]\n# # ")
        assert text.count("# %%\n") >= 2
        compile(text, file.name, "exec")


@pytest.mark.parametrize("file", notebooks.files(), ids=lambda file: file.stem)
def test_the_notebook_that_jupyter_opens_is_that_of_the_python_file(file: Path) -> None:
    written = file.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert written == notebooks.notebook(file), "`make notebooks` writes it"
    assert '"outputs": []' in written


@pytest.mark.slow
@pytest.mark.parametrize("file", notebooks.files(), ids=lambda file: file.stem)
def test_a_notebook_runs(file: Path, tmp_path: Path) -> None:
    read = nbformat.read(file.with_suffix(".ipynb"), as_version=4)
    nbclient.NotebookClient(read, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [
        output.text for cell in read.cells if cell.cell_type == "code" for output in cell.outputs if "text" in output
    ]
    assert len("".join(printed).splitlines()) >= 3
