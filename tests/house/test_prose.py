"""Sentences of the documentation are short."""

from __future__ import annotations

import statistics

import prose
import pytest
import rust

DOCS = rust.ROOT / "docs"
PAGES = {
    page.relative_to(DOCS).as_posix(): page
    for page in sorted(DOCS.rglob("*.md"))
    if "reference" not in page.relative_to(DOCS).parts
}
"""All pages but the reference, much of which is made."""
MOST_OF_ALL = 16
MOST_OF_A_PAGE = 20
"""Words of the median sentence: of all pages together, and of one that is no account of a paper or a study."""
ACCOUNTS = ("papers", "study")


def test_the_median_sentence_of_all_pages_is_short() -> None:
    counts = [count for page in PAGES.values() for count in prose.of_page(page.read_text(encoding="utf-8"))]
    assert len(counts) > 1000, "sentences are no longer found"
    assert statistics.median(counts) <= MOST_OF_ALL


@pytest.mark.parametrize("name", [name for name in PAGES if not name.startswith(ACCOUNTS)])
def test_the_median_sentence_of_a_page_is_short(name: str) -> None:
    counts = prose.of_page(PAGES[name].read_text(encoding="utf-8"))
    if counts:
        middle = statistics.median(counts)
        assert middle <= MOST_OF_A_PAGE, f"docs/{name}: {middle} words; one fact, one sentence"


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("One two three. Four five six seven.\n", [3, 4]),
        ("One two\nthree four.\n\n- Five six seven\n- Eight nine ten\n", [4, 3, 3]),
        (
            "# A heading is none\n\n| nor is | a cell |\n\n```sh\nnor a command\n```\n\n    wirespeed run x\n",
            [],
        ),
        ("See [the page of it](a/b.md), or `run --set x=1` there.\n", [8]),
        ("Hasan et al. Wrote of 3.5 GB/s. `run` says so.\n", [7, 3]),
        ("<!-- not\ncompared -->\n**Bold begins** a line here.\n", [5]),
    ],
)
def test_sentences_are_told_apart(text: str, counts: list[int]) -> None:
    assert prose.of_page(text) == counts
