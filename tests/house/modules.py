"""Every module with one sentence: docs/reference/modules.md, out of the headers of the modules.

python tests/house/modules.py   # writes the page; `make modules`
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import rust

ROOT = rust.ROOT
PAGE = ROOT / "docs" / "reference" / "modules.md"
PYTHON = ROOT / "python" / "wirespeed"
HEAD = """# Modules

Every module with the first sentence of its header, made by `make modules`. `ARCHITECTURE.md` has the rooms, what holds
in each, and how a packet and a memory reference go through them.
"""


def sentence(header: str) -> str:
    """The first sentence of a header, without the brackets of rustdoc's links."""
    paragraph = re.sub(r"\s+", " ", header.strip().partition("\n\n")[0])
    first = re.split(r"(?<=[.?!])(?<!\b[A-Z]\.)(?<!\bal\.)(?<!\bvol\.) (?=[A-Z`\[(])", paragraph, maxsplit=1)[0]
    # What introduces a list or an example ends there.
    return re.sub(r"\[(`[^`]+`)\](?:\([^)]*\))?", r"\1", first).rstrip(": ")


def header(text: str) -> str:
    """The `//!` lines that a Rust file begins with."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line[3:].strip())
    return "\n".join(lines)


def is_test(path: Path) -> bool:
    """Whether a file of `src` is linked into tests only, by its name."""
    return path.stem == "tests" or path.stem.endswith("_tests")


def of_crate(room: rust.Room) -> dict[str, str]:
    """The headers of a crate's modules by the path of each, the root first."""
    found = {}
    for path in sorted((room.folder / "src").rglob("*.rs")):
        name = path.relative_to(room.folder / "src").with_suffix("").as_posix().removesuffix("/mod").replace("/", "::")
        if not is_test(path):
            found["" if name in ("lib", "main") else name] = header(path.read_text(encoding="utf-8"))
    return dict(sorted(found.items()))


def of_python() -> dict[str, str]:
    """The docstrings of the package's modules by the path of each, the package first."""
    found = {}
    for path in sorted(PYTHON.rglob("*.py")):
        name = path.relative_to(PYTHON).with_suffix("").as_posix().removesuffix("__init__").rstrip("/")
        name = name.replace("/", ".")
        found[name] = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return dict(sorted(found.items()))


def page() -> str:
    """The whole page: crates, then Python."""
    crates = [section(f"crates/{name}", of_crate(rust.rooms()[name])) for name in in_order()]
    return "\n".join([HEAD, *crates, section("python/wirespeed", of_python())])


def in_order() -> list[str]:
    """Rooms in the order of ARCHITECTURE.md's code map."""
    return re.findall(r"^\| `crates/(\w+)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE)


def section(title: str, modules: dict[str, str]) -> str:
    """A title, what the room is, and a line for each module in it."""
    lines = [f"## `{title}`", "", sentence(modules.pop("", "")), ""]
    lines += [f"- `{name}`: {sentence(words)}" for name, words in modules.items()]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
