"""Sentences and words of a page of Markdown, as far as they are prose.

Headings, tables, code, comments and pictures are none. A block is a paragraph or an item of a list. Inline code is one
word, and a link is its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["of_page", "sentences", "words"]

NO_PROSE = re.compile(r"(?s:<!--.*?-->)|^ *```(?s:.*?)^ *```$|^ {4}\S*wirespeed.*(?:\\\n.*)*$", re.MULTILINE)
NO_BLOCK = ("#", "|", "--8<--", "![", "<")
ITEM = re.compile(r"\s*(?:[->]|\*(?!\*)|\d+\.|!!!|\?\?\?)\s+")
ENDS = re.compile(r"(?<=[.!?])(?<!al\.)(?<!e\.g\.)(?<!i\.e\.)[\"”)*]*\s+(?=[\"“(*]*[A-Z0-9`])")
FEWEST = 3
"""Words of a sentence; what is shorter is a label."""


def of_page(text: str) -> list[int]:
    """How many words each sentence of a page has."""
    counts = [words(each) for block in _blocks(NO_PROSE.sub("", text)) for each in sentences(block)]
    return [count for count in counts if count >= FEWEST]


def sentences(block: str) -> list[str]:
    """The sentences of a paragraph or a cell."""
    return [each for each in ENDS.split(_plain(block)) if each]


def words(text: str) -> int:
    """What has a letter or a digit between spaces; links are their text, and code is a word."""
    return sum(1 for each in _plain(text).split() if re.search(r"\w", each))


def _plain(text: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", lambda code: "`" + re.sub(r"\W", "x", code[0][1:-1]) + "`", text)


def _blocks(text: str) -> Iterator[str]:
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        ends = not line.strip() or line.lstrip().startswith(NO_BLOCK)
        item = ITEM.match(line)
        if block and (ends or item):
            yield " ".join(block)
            block = []
        if not ends:
            block.append(line[item.end() if item else 0 :].strip())
