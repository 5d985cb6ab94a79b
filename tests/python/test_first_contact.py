"""What a reader meets first (README, pages, help, docstrings) says what it seems to say."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "python").rglob("*.py"))]


@pytest.mark.parametrize("of", ["machine.llc.ways=", '"machine.llc.ways":'])
def test_examples_take_ways_from_cores_and_not_associativity_from_the_cache(of):
    # `machine.llc.ways` makes another cache, of another size: who knows CAT reads something else into it.
    found = [str(page.relative_to(ROOT)) for page in PAGES if of in page.read_text(encoding="utf-8")]
    assert not found


def test_the_readme_says_what_its_first_screen_may_be_read_for_more_than():
    screen = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Your own")[0]
    assert "Absolute rates are less sure" in screen
    assert "half of line rate" in screen


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "how-do-i.md"])
def test_commands_without_a_path_are_explained(page):
    assert ". .venv/bin/activate" in page.read_text(encoding="utf-8")


def test_the_example_that_needs_polars_says_how_it_comes():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    example = text[text.index("import polars") :].partition("```")[0]
    assert "wirespeed[polars]" in example
