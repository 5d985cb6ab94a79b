"""What this machine offers to set and to read of its caches, what is missing, and what to do.

Looking changes nothing. What is missing is no error: most machines lack most of it, and simulation, tuning and
calibration need none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from wirespeed import _wirespeed
from wirespeed.errors import InputError

MARKS: Final = {"works": ("✓", "green"), "limited": ("~", "yellow"), "missing": ("–", "dim")}


def survey(root: str | Path = "/") -> dict[str, Any]:
    """Look at the machine below `root`.

    Returns `processor`, `verdict` and `findings`, each of which has `what`, `state` ("works", "limited" or
    "missing"), `detail` and `remedy` (None where there is nothing to do). Raises InputError if `root` is no folder.

    >>> {finding["state"] for finding in survey()["findings"]} <= set(MARKS)
    True
    """
    if not Path(root).is_dir():
        raise InputError(f"--root {root}: no such folder; / is this machine")
    found: dict[str, Any] = json.loads(_wirespeed.survey(str(root)))
    return found


def page(found: dict[str, Any]) -> Group:
    """The findings for people: a mark and what was found, below it what to do."""
    lines: list[Any] = [Text(found["processor"], style="bold"), Text()]
    for finding in found["findings"]:
        mark, style = MARKS[finding["state"]]
        lines.append(Text.assemble((f"{mark} ", style), (finding["what"], "bold")))
        lines.append(Padding(Text(finding["detail"]), (0, 0, 0, 4)))
        if finding["remedy"]:
            lines.append(Padding(Text(f"→ {finding['remedy']}", style="cyan"), (0, 0, 0, 4)))
    return Group(*lines, Text(), Text(found["verdict"]))
