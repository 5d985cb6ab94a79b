"""Writes each notebook of notebooks/*.py as an .ipynb beside it, without outputs.

The Python file with cells (`# %%`) is what people change and review; the .ipynb is what Jupyter, JupyterLab and GitHub
open without jupytext. `make notebooks` runs this, and a test fails where the two differ.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jupytext
import nbformat

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebook(file: Path) -> str:
    """The notebook of a Python file with cells, as JSON. Cells are numbered: the same file gives the same text."""
    read = jupytext.reads(file.read_text(encoding="utf-8"), fmt="py:percent")
    read.metadata = nbformat.NotebookNode(kernelspec=KERNEL, language_info={"name": "python"})
    for place, cell in enumerate(read.cells):
        cell.id = f"cell-{place}"
        cell.metadata = nbformat.NotebookNode()
    read.nbformat, read.nbformat_minor = 4, 5
    nbformat.validate(read)
    return nbformat.writes(read) + "\n"


def files() -> list[Path]:
    """The Python files, by name."""
    return sorted(FOLDER.glob("*.py"))


def main() -> None:
    """Writes them all."""
    for file in files():
        file.with_suffix(".ipynb").write_text(notebook(file), encoding="utf-8")
        print(file.with_suffix(".ipynb").name)


if __name__ == "__main__":
    sys.exit(main())
