"""Makes the references of scenarios and summaries out of their JSON Schemas, so that they cannot be stale.

A page that holds the line `<!-- scenario reference -->` gets one table per section of a scenario there; one that holds
`<!-- summary reference -->` gets a table of all fields of a run's summary.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parent / "schema"

Node = dict[str, Any]


def on_pre_build(**_: Any) -> None:
    """Called by mkdocs before it looks for files: pictures are made from runs."""
    sys.path.insert(0, str(Path(__file__).parent))
    pictures = importlib.import_module("pictures")
    pictures.draw()


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    for document, made in (("scenario", reference), ("summary", fields)):
        mark = f"<!-- {document} reference -->"
        if mark in markdown:
            schema = json.loads((SCHEMAS / f"{document}.schema.json").read_text())
            markdown = markdown.replace(mark, made(schema))
    return markdown


def fields(schema: Node) -> str:
    """A row for each field of a document, by its dotted name; `[]` stands for each of a list."""
    definitions = schema.get("$defs", {})
    rows = ["| field | value | what it is |\n|---|---|---|"]

    def add(name: str, node: Node) -> None:
        target = resolved(node, definitions)
        words = [about(node, definitions)]
        words += [
            f"`{arm['const']}`: {arm.get('description', '')}" for arm in target.get("oneOf", []) if "const" in arm
        ]
        rows.append(f"| `{name}` | {kind(node, definitions)} | {cell(' '.join(words))} |")
        path = name
        while "items" in target:
            target, path = resolved(target["items"], definitions), f"{path}[]"
        for inner, child in target.get("properties", {}).items():
            add(f"{path}.{inner}", child)

    for name, node in schema["properties"].items():
        add(name, node)
    return "\n".join(rows)


def reference(schema: Node) -> str:
    """Sections in the order in which a scenario has them; each ends with the objects that it leads to."""
    definitions = schema.get("$defs", {})
    out: list[str] = []
    done: set[str] = set()

    def section(path: str, node: Node, depth: int) -> None:
        later: list[tuple[str, Node]] = []
        rows = []
        for name, child in node.get("properties", {}).items():
            target = resolved(child, definitions)
            rows.append(f"| `{name}` | {kind(child, definitions)} | {cell(about(child, definitions))} |")
            if target.get("properties"):
                later.append((f"{path}.{name}" if path else name, target))
        if path:
            out.append(f"\n{'#' * min(depth, 4)} `[{path}]`\n")
            out.append(f"{node.get('description', '')}\n")
        out.append("| setting | value | what it is |\n|---|---|---|\n" + "\n".join(rows) + "\n")
        for inner, target in later:
            section(inner, target, depth + 1)

    def settings(target: Node, depth: int) -> None:
        """The settings of a table inside a choice, and those of the tables that a list of them holds."""
        target = resolved(target.get("items", target), definitions)
        for part, spec in target.get("properties", {}).items():
            out.append(f"{'    ' * depth}- `{part}`: {kind(spec, definitions)}. {cell(about(spec, definitions))}")
            settings(resolved(spec, definitions), depth + 1)

    def choices(name: str, node: Node) -> None:
        """An enum whose arms hold settings of their own."""
        arms = [arm for arm in node.get("oneOf", node.get("anyOf", [])) if arm.get("properties")]
        if not arms or name in done:
            return
        done.add(name)
        out.append(f"\n### {name}\n\n{node.get('description', '')}\n")
        for arm in node.get("oneOf", node.get("anyOf", [])):
            if "const" in arm or "enum" in arm:
                words = cell(arm.get("description", ""))
                out.extend(f'- `"{value}"`: {words}' for value in arm.get("enum", [arm.get("const")]))
            for key, value in arm.get("properties", {}).items():
                target = resolved(value, definitions)
                words = cell(arm.get("description") or target.get("description", ""))
                out.append(f"- `{{ {key} = … }}` ({kind(value, definitions)}): {words}")
                settings(target, 1)
        out.append("")

    section("", schema, 1)
    out.append("\n## Choices with settings of their own\n")
    for name, node in definitions.items():
        choices(name, node)
    return "\n".join(out)


def resolved(node: Node, definitions: Node) -> Node:
    """The definition that a reference leads to; of an optional value the value."""
    for key in ("anyOf", "oneOf"):
        real = [arm for arm in node.get(key, []) if arm.get("type") != "null"]
        if len(real) == 1 and len(node[key]) == 2:
            return resolved(real[0], definitions)
    if "allOf" in node and len(node["allOf"]) == 1:
        return resolved(node["allOf"][0], definitions)
    if "$ref" in node:
        return definitions[node["$ref"].rpartition("/")[2]]
    return node


def about(node: Node, definitions: Node) -> str:
    """What a setting is, with its default."""
    words = node.get("description") or resolved(node, definitions).get("description", "")
    default = node.get("default")
    if default is not None and not isinstance(default, dict):
        words += f" Default: `{json.dumps(default)}`."
    return words


def kind(node: Node, definitions: Node) -> str:
    """A few words for what may be written."""
    node = resolved(node, definitions) | {k: v for k, v in node.items() if k in {"minimum", "maximum"}}
    names = [arm for key in ("oneOf", "anyOf") for arm in node.get(key, [])]
    if "enum" in node:
        return " or ".join(f"`{json.dumps(value)}`" for value in node["enum"])
    if names:
        plain = [json.dumps(v) for arm in names for v in arm.get("enum", [arm["const"]] if "const" in arm else [])]
        tables = [f"{{ {key} = … }}" for arm in names for key in arm.get("properties", {})]
        if plain or tables:
            return " or ".join(f"`{each}`" for each in plain + tables)
        if node.get("examples"):
            return quantity(node)
        return " or ".join(kind(arm, definitions) for arm in names)
    kinds = [
        k for k in ([node.get("type")] if isinstance(node.get("type"), str) else node.get("type", [])) if k != "null"
    ]
    words = {
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "string": "text",
        "object": "table",
    }
    if kinds == ["array"]:
        return f"list of {kind(node.get('items', {}), definitions)}"
    if node.get("examples"):
        return quantity(node)
    return " or ".join(words.get(k, str(k)) for k in kinds) or "any"


def quantity(node: Node) -> str:
    """Its name out of the schema's `a size as a number with a unit (…)`, and an example."""
    name = re.match(r"an? (.*?) as a number", node.get("description", ""))
    return f"{name[1] if name else 'quantity'}, `{json.dumps(node['examples'][0])}`"


def cell(text: str) -> str:
    """One line, fit for a table; links of rustdoc lose their brackets."""
    text = re.sub(r"\[(`[^`]+`)\](?!\()", r"\1", text)
    return " ".join(text.split()).replace("|", "\\|")
