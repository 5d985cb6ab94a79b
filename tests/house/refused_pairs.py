"""Settings that a scenario may not have together: docs/reference/exclusions.md, out of the table that refuses them.

python tests/house/refused_pairs.py   # writes the page; `make exclusions`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wirespeed import _wirespeed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "exclusions.md"
HEAD = """# What does not go together

Each pair of settings that a scenario may not have together, made by `make exclusions` from the table by which
scenarios are refused. An error says the same words. `wirespeed advise` never tries such a pair, and says which one it
was. As data: `wirespeed._wirespeed.exclusions()`.

- **physical**: hardware cannot be both.
- **alternatives**: two ways to say one thing.
- **limit**: the model does not know it.

A `*` is any name. What needs a third setting or a number is no pair, and its error says what is missing: cubes
(`hmc-2.1-vault`) on several sockets, `mempool.start.near_slice` without `machine.llc.interconnect`, shared rings under
a driver without completions.
"""
COLUMNS = ("one", "other", "kind", "why", "what to do")


def rows() -> Iterator[tuple[str, ...]]:
    """A row a pair, as the table has them."""
    for pair in json.loads(_wirespeed.exclusions()):
        yield (setting(pair["one"]), setting(pair["other"]), pair["kind"], pair["reason"], pair["remedy"])


def setting(of: Mapping[str, Any]) -> str:
    """A setting, and those of its values that exclude the other."""
    values = ", ".join(f"`{value}`" for value in of.get("is", ()))
    return f"`{of['path']}`" + (f" = {values}" if values else "")


def text() -> str:
    """The page."""
    head = "| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|\n"
    return f"{HEAD}\n{head}" + "".join("| " + " | ".join(row) + " |\n" for row in rows())


def main() -> None:
    """Writes it."""
    PAGE.write_text(text(), encoding="utf-8")
    print(PAGE.name)


if __name__ == "__main__":
    sys.exit(main())
