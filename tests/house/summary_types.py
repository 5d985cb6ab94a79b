"""Writes Python's types of a run's summary by its JSON Schema, which is made from the fields of the extension.

`make schema` runs this, and a test fails where the file is another.
"""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "docs" / "schema" / "summary.schema.json"
FILE = ROOT / "python" / "wirespeed" / "summary_types.py"
HEAD = '''"""The summary of a run as the extension writes it, `wirespeed.run/1`.

Made by `make schema` from the fields of the extension: change those.
"""

from __future__ import annotations

from typing import Literal, TypedDict
'''
WIDTH = 116
SCALARS = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}

Node = dict[str, Any]


def text() -> str:
    """The file: each object a TypedDict with its fields in their order, those it needs before it."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    definitions = schema.get("$defs", {})
    parts = [HEAD]
    written: set[str] = set()

    def add(name: str, node: Node) -> None:
        if name in written:
            return
        written.add(name)
        for needed in references(node):
            add(needed, definitions[needed])
        parts.append(alias(name, node) if "properties" not in node else typed_dict(name, node))

    add("Summary", schema)
    return formatted("\n\n".join(part.rstrip("\n") + "\n" for part in parts))


def references(node: Any) -> Iterator[str]:
    """The names of the definitions that a node leads to."""
    if isinstance(node, list):
        for inner in node:
            yield from references(inner)
    elif isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].rpartition("/")[2]
        for key, inner in node.items():
            if key != "$defs":
                yield from references(inner)


def typed_dict(name: str, node: Node) -> str:
    """An object; where a field's name is a keyword, in the form of a call."""
    fields = node["properties"]
    if any(keyword.iskeyword(field) for field in fields):
        rows = [f"{comment(about(of), '        ')}        {field!r}: {kind(of)}," for field, of in fields.items()]
        head = f"{comment(about(node), '')}{name} = TypedDict(\n    {name!r},\n    {{\n"
        return head + "\n".join(rows) + "\n    },\n    total=False,\n)"
    rows = [f"    {field}: {kind(of)}\n{docstring(about(of))}" for field, of in fields.items()]
    return f"class {name}(TypedDict, total=False):\n{docstring(about(node))}\n" + "".join(rows)


def alias(name: str, node: Node) -> str:
    """A choice of words."""
    arms = node.get("oneOf", [node])
    rows = [f"{comment(about(arm), '    ')}    {word!r}," for arm in arms for word in words(arm)]
    return f"{comment(about(node), '')}{name} = Literal[\n" + "\n".join(rows) + "\n]"


def words(arm: Node) -> list[str]:
    return [arm["const"]] if "const" in arm else list(arm["enum"])


def kind(node: Node) -> str:
    """A field's type."""
    if "$ref" in node:
        return str(node["$ref"].rpartition("/")[2])
    if "const" in node or "enum" in node:
        return f"Literal[{', '.join(map(repr, words(node)))}]"
    for choice in ("anyOf", "oneOf"):
        if choice in node:
            return " | ".join(kind(arm) for arm in node[choice])
    kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
    return " | ".join(plain(each, node) for each in kinds)


def plain(name: str, node: Node) -> str:
    if name == "array":
        return f"list[{kind(node['items'])}]"
    if name == "object":
        return f"dict[str, {kind(node['additionalProperties'])}]"
    return SCALARS[name]


def about(node: Node) -> str:
    """What it is, in one line; links of rustdoc lose their brackets."""
    return " ".join(re.sub(r"\[(`[^`]+`)\](?!\()", r"\1", node.get("description", "")).split())


def docstring(words: str) -> str:
    """In one line, or its first sentence, and the rest below."""
    if not words:
        return ""
    if len(words) <= WIDTH - 10:
        return f'    """{words}"""\n'
    first, stop, rest = words.partition(". ")
    if len(first) > WIDTH - 8:
        first, stop, rest = "", "", words
    lines = [f'"""{first}.', "", *textwrap.wrap(rest, WIDTH - 4)] if stop else textwrap.wrap(f'"""{rest}', WIDTH - 4)
    return "".join(f"    {line}".rstrip() + "\n" for line in [*lines, '"""'])


def comment(words: str, indent: str) -> str:
    return "".join(f"{indent}# {line}\n" for line in textwrap.wrap(" ".join(words.split()), WIDTH - len(indent)))


def formatted(source: str) -> str:
    """As `make fmt` leaves it."""
    for step in (["check", "--fix", "--quiet", "--select=I"], ["format"]):
        command = [sys.executable, "-m", "ruff", *step, "--stdin-filename", str(FILE), "-"]
        source = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    return source


def main() -> None:
    """Writes it."""
    FILE.write_text(text(), encoding="utf-8")
    print(FILE.name)


if __name__ == "__main__":
    sys.exit(main())
