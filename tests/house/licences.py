"""What is linked into the extension and the daemon, under which licence: THIRD-PARTY.md, and the texts for a wheel.

python tests/house/licences.py              # writes THIRD-PARTY.md
python tests/house/licences.py --texts FILE # writes every licence text, each once, with the crates that are under it
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "THIRD-PARTY.md"
# What a wheel carries.
SHIPPED = ("wirespeed-py", "wirespeed-daemon")
NAMES = ("licen", "copying", "copyright", "notice", "unlicense")
HEAD = """# What is linked into wirespeed

Crates that the Python extension and `wirespeedd` are linked with, made by `make licences` from `Cargo.lock`;
`deny.toml` says which licences may be among them. A wheel carries the texts. Python packages that wirespeed depends on
are installed beside it, each with its own.

| crate | version | licence |
|---|---|---|
"""


def metadata() -> dict[str, Any]:
    """What cargo knows of the packages in Cargo.lock, for this platform."""
    host = next(
        line.split()[1]
        for line in subprocess.check_output(["rustc", "-vV"], text=True).splitlines()
        if line.startswith("host:")
    )
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host]
    found: dict[str, Any] = json.loads(subprocess.check_output(command, cwd=ROOT, text=True))
    return found


def linked() -> list[dict[str, Any]]:
    """Packages from registries that are linked into what is shipped, by name and version."""
    found = metadata()
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    todo = [id for id, package in packages.items() if package["name"] in SHIPPED]
    seen = set(todo)
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if normal and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    found_in = [packages[id] for id in seen if packages[id]["source"]]
    return sorted(found_in, key=lambda package: (package["name"], package["version"]))


def table() -> str:
    """THIRD-PARTY.md as it ought to be."""
    rows = [f"| {p['name']} | {p['version']} | {p['license'] or 'in its file'} |" for p in linked()]
    return HEAD + "\n".join(rows) + "\n"


def texts() -> str:
    """Every licence text once, with the crates that come with it."""
    by_text: dict[str, list[str]] = {}
    for package in linked():
        folder = Path(package["manifest_path"]).parent
        files = sorted(f for f in folder.iterdir() if f.is_file() and f.name.lower().startswith(NAMES))
        name = f"{package['name']} {package['version']} ({package['license']})"
        kept = [file.read_text(encoding="utf-8", errors="replace").strip() for file in files]
        for text in kept or [f"(the crate comes without a text; its manifest says {package['license']})"]:
            by_text.setdefault(text, []).append(name)
    rule = "\n\n" + "-" * 80 + "\n\n"
    return rule.join("\n".join(names) + "\n\n" + text for text, names in by_text.items()) + "\n"


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--texts":
        Path(sys.argv[2]).write_text(texts(), encoding="utf-8")
    else:
        TABLE.write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    main()
