"""A joined scenario as TOML, each line with where it comes from, and as the document that the command prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wirespeed import scenarios
from wirespeed.operators.facts import FACTS, MEASURED, Fact, Told
from wirespeed.operators.joining import Joined
from wirespeed.operators.signs import Finding

SCHEMA: Final = "wirespeed.import/1"
# In the order in which a scenario has them.
_TABLES: Final = ("traffic", "function", "machine", "nic", "mempool")


def toml(joined: Joined, files: Sequence[str], changes: Mapping[str, object] | None = None) -> str:
    """The scenario, its sources behind each setting. `changes` replace values of settings, by path."""
    by_table: dict[str, list[str]] = {}
    for setting in joined.settings:
        table, _, key = setting.path.rpartition(".")
        value = (changes or {}).get(setting.path, setting.value)
        comment = _plain(f"{setting.state}: {setting.where}")
        by_table.setdefault(table, []).append(f"{key} = {scenarios.toml_value(value)} # {comment}")
    head = [
        f"# Made by `wirespeed import` of {_plain(', '.join(files))}",
        "#",
        "# told: a file says so. derived: computed of what files say. assumed: no file says so.",
        "",
    ]
    ordered = sorted(by_table, key=lambda table: _TABLES.index(table.partition(".")[0]))
    body = [line for table in ordered for line in (f"[{table}]", *by_table[table], "")]
    return "\n".join([*head, *body])


def _plain(text: str) -> str:
    """Text on one line, without what a comment of TOML may not hold."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def document(joined: Joined, told: Sequence[Told], found: Sequence[Finding], text: str) -> dict[str, Any]:
    """What was read, taken and found, as JSON has it."""
    return {
        "schema": SCHEMA,
        "files": [
            {
                "file": each.file,
                "kind": each.kind,
                "source": each.title,
                "facts": [_fact(fact) for fact in each.facts],
                "notes": each.notes,
            }
            for each in told
        ],
        "settings": [
            {"path": each.path, "value": each.value, "state": each.state, "from": each.where}
            for each in joined.settings
        ],
        "conflicts": [
            {"name": each.name, "taken": _fact(each.taken), "others": [_fact(other) for other in each.others]}
            for each in joined.conflicts
        ],
        "measured": [
            {
                "name": each.name,
                "value": each.value,
                "unit": MEASURED[each.name].unit,
                "of": each.of,
                "from": each.where,
            }
            for one in told
            for each in one.measured
        ],
        "nodes": [
            {"name": node.name, "cycles_per_packet": node.cycles, "packets_per_call": node.packets_per_call}
            for one in told
            for node in one.nodes
        ],
        "findings": [{"what": each.what, "do": each.do} for each in found],
        "notes": joined.notes,
        "scenario": text,
    }


def _fact(fact: Fact) -> dict[str, Any]:
    return {
        "name": fact.name,
        "value": fact.value,
        "unit": FACTS[fact.name].unit,
        "from": fact.where,
        "trust": fact.trust.name.lower(),
        "note": fact.note,
    }
