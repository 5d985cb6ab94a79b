"""BibTeX of the papers and of this project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from wirespeed.papers.latex import escape
from wirespeed.papers.paper import Paper

CITATION: Final = Path(__file__).resolve().parents[1] / "CITATION.cff"
"""A copy of the one at the root of the repository: an installed package has it, too."""


def project(commit: str, citation: Path = CITATION) -> str:
    """The project as `CITATION.cff` has it, with the commit that runs. BibTeX has no entry for software."""
    facts = yaml.safe_load(citation.read_text(encoding="utf-8"))
    released = str(facts.get("date-released", ""))
    fields = {
        "title": _kept(facts["title"]),
        "author": " and ".join(_author(author) for author in facts["authors"]),
        "year": released[:4],
        "url": facts["repository-code"],
        "note": escape(f"Version {facts['version']}, commit {commit}, {facts['license']}"),
    }
    return _entry("misc", "wirespeed", fields)


def paper(of: Paper) -> str:
    """The paper, as far as its room knows it; what is not known is omitted."""
    where = {"article": "journal", "inproceedings": "booktitle"}.get(of.entry)
    fields = {
        "title": _kept(of.title),
        "author": escape(" and ".join(of.authors.split(", "))) if of.authors else "",
        **({where: escape(of.venue)} if where else {}),
        "volume": of.volume,
        "year": str(of.year),
        "doi": of.doi,
    }
    return _entry(of.entry, of.id, fields)


def entries(papers: Sequence[Paper], commit: str) -> str:
    """The project, and the papers after it."""
    return "\n\n".join([project(commit), *(paper(of) for of in papers)])


def _author(author: Mapping[str, str]) -> str:
    if "name" in author:
        return _kept(author["name"])  # braces keep a group's name from being taken apart into first and last
    return escape(" ".join(author[part] for part in ("given-names", "family-names") if part in author))


def _kept(text: str) -> str:
    """A text whose capitals no style changes."""
    return f"{{{escape(text)}}}"


def _entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = [f"  {name} = {{{value}}},\n" for name, value in fields.items() if value]
    return f"@{kind}{{{key},\n{''.join(lines)}}}"
