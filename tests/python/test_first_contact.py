"""What a reader meets first (README, pages, help, docstrings) says what it seems to say."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "python").rglob("*.py"))]


@pytest.mark.parametrize("of", ["machine.llc.ways=", '"machine.llc.ways":'])
def test_examples_take_ways_from_cores_and_not_associativity_from_the_cache(of):
    # `machine.llc.ways` keeps the size and makes more sets: who knows CAT reads something else into it.
    found = [str(page.relative_to(ROOT)) for page in PAGES if of in page.read_text(encoding="utf-8")]
    assert not found
