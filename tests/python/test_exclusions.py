"""What cannot be on one machine: one table, which the guide repeats."""

import json
from pathlib import Path

from wirespeed import _wirespeed

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "scenarios.md"


def test_the_guide_has_each_exclusion_with_its_reason_and_no_other():
    rows = [f"| `{e['one']}` | `{e['other']}` | {e['reason']} |" for e in json.loads(_wirespeed.exclusions())]
    text = GUIDE.read_text()
    section = text[text.index("## What does not go together") :].split("\n## ")[0]
    assert [line for line in section.splitlines() if line.startswith("| `") and "machine.`" not in line] == rows
    assert len(rows) <= 4
