"""The sample in README.md is what the demo's scenario really prints; `make sample` puts it there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCK = re.compile(r"(?<=<!-- sample: make sample -->\n```text\n).*?(?=```\n)", re.DOTALL)


def printed() -> str:
    """The verdict's first line, the key numbers, where the time goes, and the hit rates."""
    command = [sys.executable, "-m", "wirespeed.cli", "run", "forwarding", "--set", "run.curve=[]", "--quiet"]
    env = os.environ | {"COLUMNS": "88", "NO_COLOR": "1"}
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    lines = [line.rstrip() for line in out.splitlines()]
    begin = next(i for i, line in enumerate(lines) if line.startswith((" Offered", " Carried")))
    after = {"Drops by reason", "Noted", "What to change", "What do I type next?"}
    end = next((i for i, line in enumerate(lines) if i > begin and line in after), len(lines))
    return "\n".join([lines[0], "", *lines[begin:end]]).rstrip() + "\n"


def kept() -> str:
    """What README.md has."""
    found = BLOCK.search(README.read_text(encoding="utf-8"))
    return found[0] if found else ""


if __name__ == "__main__":
    text = printed()
    README.write_text(BLOCK.sub(lambda _: text, README.read_text(encoding="utf-8"), count=1), encoding="utf-8")
