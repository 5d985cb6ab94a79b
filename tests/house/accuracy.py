"""Predicts the published measurements of real servers, prints errors, and holds the table that verdicts read to them.

Ends with 1 where `presets/accuracy.json` says something else than what comes out: `make accuracy` writes it anew.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

from rich.console import Console

import wirespeed
from wirespeed.accuracy import judging, text

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "presets" / "accuracy.json"


def main() -> int:
    """1 where the table is stale."""
    found = wirespeed.accuracy(engine="threads", jobs=1)
    Console(width=100, no_color=True).print(text.summary(found, 100))
    now, then = judging.errors_by_parts(found), SHIPPED.read_text()
    if now == then:
        return 0
    lines = difflib.unified_diff(
        then.splitlines(), now.splitlines(), str(SHIPPED.relative_to(ROOT)), "now", lineterm="", n=0
    )
    print("\n".join(lines))
    print(f"{SHIPPED.relative_to(ROOT)} is stale: `make accuracy` writes it anew for the next build")
    return 1


if __name__ == "__main__":
    sys.exit(main())
