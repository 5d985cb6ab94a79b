"""Lives of packets, one by one: where each is at any time, and what its bursts fetch beyond the private caches.

`wirespeed run --trace FILE` writes them for Perfetto (https://ui.perfetto.dev), and a page beside it.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

from wirespeed import files
from wirespeed.errors import InputError
from wirespeed.lives.documents import Life, Lives, Span
from wirespeed.summary_types import Summary

__all__ = ["Life", "Lives", "Span", "check", "write"]


def check(path: str | os.PathLike[str], force: bool = False) -> tuple[Path, Path]:
    """The files that `write` makes. Raises InputError for a name that is none, and for files in the way."""
    trace = Path(path)
    suffixes = "".join(trace.suffixes[-2:]) if trace.suffix == ".gz" else trace.suffix
    if suffixes not in (".json", ".json.gz"):
        raise InputError(
            f"--trace {path}: a trace's name ends in .json or .json.gz, which Perfetto opens; a page goes beside it"
        )
    page = trace.with_name(trace.name.removesuffix(suffixes) + ".html")
    if not force:
        for file in (trace, page):
            if file.exists():
                raise InputError(f"--trace {path}: {file} is there already; name another file, or give --force")
    return trace, page


def write(
    lives: Lives, path: str | os.PathLike[str], summary: Summary | None = None, force: bool = False
) -> list[Path]:
    """Writes a trace for Perfetto and the page; returns both. Raises as `check`, and OSError.

    `summary` is that of their run: with it the page tells slow packets from the mean.
    """
    from wirespeed.lives import page, perfetto

    trace, beside = check(path, force)
    text = json.dumps(perfetto.document(lives), separators=(",", ":")).encode()
    files.write(trace, gzip.compress(text, mtime=0) if trace.suffix == ".gz" else text)
    files.write(beside, page.page(lives, summary))
    return [trace, beside]
