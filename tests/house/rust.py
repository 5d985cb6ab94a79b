"""What the house tests read of the Rust side: the rooms, their edges, and source without comments and tests."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Room:
    """A crate of the workspace. Edges are named by the folder of the crate they lead to."""

    name: str
    folder: Path
    uses: frozenset[str]
    tests_use: frozenset[str]
    optional: frozenset[str]
    """Of those that it uses the ones that a feature brings in."""
    outside: frozenset[str]
    """Crates from the registry that it links, without those of its tests."""


@functools.cache
def rooms() -> dict[str, Room]:
    """Every crate of the workspace by the name of its folder, as cargo sees it."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    packages = json.loads(subprocess.check_output(command, cwd=ROOT))["packages"]
    by_package = {p["name"]: Path(p["manifest_path"]).parent.name for p in packages}
    found = {}
    for package in packages:
        folder = Path(package["manifest_path"]).parent
        linked = [d for d in package["dependencies"] if d["kind"] in (None, "build")]
        tested = [d for d in package["dependencies"] if d["kind"] == "dev"]
        found[folder.name] = Room(
            name=folder.name,
            folder=folder,
            uses=frozenset(by_package[d["name"]] for d in linked if d["name"] in by_package),
            tests_use=frozenset(by_package[d["name"]] for d in tested if d["name"] in by_package),
            optional=frozenset(by_package[d["name"]] for d in linked if d["optional"] and d["name"] in by_package),
            outside=frozenset(d["name"] for d in linked if d["name"] not in by_package),
        )
    return found


def sources(room: Room) -> Iterator[tuple[str, str]]:
    """The Rust files that are linked (not tests, examples or benches): path in the crate, text without comments and
    without modules of tests."""
    for path in sorted((room.folder / "src").rglob("*.rs")):
        yield path.relative_to(room.folder).as_posix(), without_tests(without_comments(path.read_text()))


def without_comments(text: str) -> str:
    """Line comments blanked; `//` in a string starts none."""
    kept = []
    for line in text.splitlines():
        at = line.find("//")
        while at >= 0 and line.count('"', 0, at) % 2 == 1:
            at = line.find("//", at + 2)
        kept.append(line if at < 0 else line[:at])
    return "\n".join(kept)


def without_tests(text: str) -> str:
    """Without modules of tests, in the file or declared in it; their lines are left blank."""
    attributes = r"^#\[cfg\(test\)\]\s*\n(?:\s*#\[.*\]\s*\n)*"
    module = rf"{attributes}(?:pub(?:\([^)]*\))? )?mod \w+(?:;| \{{\}}| \{{\n(?s:.*?)^\}})"
    return re.sub(module, lambda found: "\n" * found[0].count("\n"), text, flags=re.MULTILINE)


def tests() -> set[str]:
    """The names of all Rust and Python tests."""
    names: set[str] = set()
    for path in ROOT.glob("crates/**/*.rs"):
        if "target" not in path.parts:
            names |= set(re.findall(r"fn (\w+)", path.read_text()))
    for path in ROOT.glob("tests/**/test_*.py"):
        names |= set(re.findall(r"def (test_\w+)", path.read_text()))
    return names
