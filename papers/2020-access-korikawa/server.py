"""The paper's three architectures on a server, over four kinds of memory: where each pays.

    python papers/2020-access-korikawa/server.py [FOLDER]   # some minutes of CPU

Every combination of a table, a way to use the LLC, a memory and a load, three seeds each, the same packets for all.
Finished runs are kept in FOLDER (study), so that what was stopped goes on. Beside this file it writes `server.json` and
`server.md`; `docs/study/three-architectures.md` shows them.

Nothing here is judged: the paper's processor has blocking cores and caches of a few lines, this one neither.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import wirespeed
from wirespeed.sweep.until import interval

HERE: Final = Path(__file__).parent
SCENARIO: Final = "forwarding-64b"
REPLICATIONS: Final = 3
PACKETS: Final = {"run.packets": 30_000, "run.warmup": 400_000, "run.curve": []}
FLAT: Final = {
    "traffic.flows.count": 2_000_000,
    "traffic.flows.popularity.zipf": 0,
    "traffic.flows.destinations.count": 2_000_000,
    "traffic.flows.destinations.popularity.zipf": 0,
}
# A packet touches two dozen lines of the rules' table: the LLC is full of them much earlier.
RULES: Final = {
    "function.kind": "upf",
    "function.upf.load.ues": 20_000,
    "function.upf.load.pdrs": 40,
    "run.packets": 20_000,
    "run.warmup": 100_000,
}
TABLES: Final[dict[str, tuple[str, Mapping[str, Any]]]] = {
    "routes, few": (
        "a full routing table; 100,000 flows alike, each to its destination",
        {"traffic.flows.count": 100_000},
    ),
    "routes, many": ("the same; two million flows to two million destinations", FLAT),
    "rules": ("a 5G user plane's, 20,000 UEs of 40 rules each: two dozen lines a packet miss L2", RULES),
}
WAYS: Final[dict[str, tuple[str, Mapping[str, Any]]]] = {
    "shared": ("the LLC is everybody's, as shipped", {}),
    "own": ("tables own 9 of 18 slices", {"machine.applications.tables.slices": 9}),
    "none": ("tables skip the LLC", {"machine.applications.tables.llc": False}),
}
VAULT: Final = {"standard": "hmc-2.1-vault", "bytes": 64}
MEMORIES: Final[dict[str, tuple[str, Mapping[str, Any]]]] = {
    "DDR4": ("6 channels of DDR4-2666", {"machine.dram.standard": "ddr4-2666v"}),
    "DDR5": ("6 modules of DDR5-4800, two channels each", {"machine.dram.standard": "ddr5-4800b"}),
    "HBM3": ("one stack of HBM3-6400", {"machine.dram.standard": "hbm3-6400"}),
    "stacked, rates": (
        "tables in 32 channels of 2 banks at the paper's rates, packets in DDR4",
        {"machine.dram.standard": "ddr4-2666v", "machine.stacked.memory.channels": 32},
    ),
    # As far away as the machine's own controller is: 30 ns there and back.
    "stacked, vaults": (
        "the same with the timings of vaults of HMC 2.1, and 15 ns each way",
        {
            "machine.dram.standard": "ddr4-2666v",
            "machine.stacked.memory.service.device": VAULT,
            "machine.stacked.memory.link_ns": 15,
        },
    ),
    "stacked, no way": (
        "vaults, and no time on the way",
        {"machine.dram.standard": "ddr4-2666v", "machine.stacked.memory.service.device": VAULT},
    ),
}
# All carry the first, none the second.
LOADS: Final[dict[str, dict[str, str]]] = {
    "delay": {"routes, few": "10 Mpps", "routes, many": "10 Mpps", "rules": "2 Mpps"},
    "rate": {"routes, few": "120 Mpps", "routes, many": "120 Mpps", "rules": "20 Mpps"},
}
METRICS: Final = {"delay": "sojourn_ns.mean", "rate": "carried_mpps"}

Key = tuple[str, str, str, str]
"""Table, way to use the LLC, memory and load."""
Values = Mapping[Key, Sequence[float]]
"""By combination, a value a seed."""


def cases() -> dict[str, dict[str, Any]]:
    """What each combination sets, by its name."""
    return {
        name(key): dict(PACKETS)
        | dict(TABLES[key[0]][1])
        | dict(WAYS[key[1]][1])
        | dict(MEMORIES[key[2]][1])
        | {"traffic.packet_rate": LOADS[key[3]][key[0]]}
        for key in keys()
    }


def keys() -> list[Key]:
    """All combinations."""
    return list(itertools.product(TABLES, WAYS, MEMORIES, LOADS))


def name(key: Key) -> str:
    """A combination's name as a case of a sweep."""
    return " / ".join(key)


def measure(folder: Path, jobs: int = 1) -> dict[str, Any]:
    """Runs what is not kept in the folder: of each combination a value a seed."""
    study = wirespeed.sweep(SCENARIO, cases=cases(), replications=REPLICATIONS, out=folder, jobs=jobs)
    wrong = [row for row in study.rows if row["error"]]
    if wrong:
        raise SystemExit(f"{len(wrong)} runs failed; the first, {wrong[0]['case']}: {wrong[0]['error']}")
    found: dict[str, Any] = {"version": wirespeed.__version__, "cases": {}}
    for key in keys():
        rows = [row for row in study.rows if row["case"] == name(key)]
        found["cases"][name(key)] = {
            "value": [row[METRICS[key[3]]] for row in rows],
            "dram_reads": [row["dram.reads"] / row["packets"] for row in rows],
            # Of accesses to the stack, how many found another bank of their channel busy.
            "interleaved": [row["stacked.interleaved_share"] for row in rows] if "stacked" in key[2] else None,
        }
    return found


def values(document: Mapping[str, Any]) -> Values:
    """The values of a document by combination."""
    return {key: document["cases"][name(key)]["value"] for key in keys()}


def gain(of: Sequence[float], base: Sequence[float], load: str) -> tuple[float, float]:
    """By how many per cent `of` is better, seed by seed, with its half-width: more packets, or less delay."""
    sign = 1 if load == "rate" else -1
    mean, wide = interval([sign * 100 * (a / b - 1) for a, b in zip(of, base, strict=True)])
    return mean, wide


def best(found: Values, table: str, memory: str, load: str) -> str:
    """The way to use the LLC that is better than both others beyond the half-widths; `none can be told` without one."""
    for way in WAYS:
        others = [gain(found[table, way, memory, load], found[table, o, memory, load], load) for o in WAYS if o != way]
        if all(mean > wide for mean, wide in others):
            return way
    return "not told apart"


def page(document: Mapping[str, Any]) -> str:
    """The tables of the page that shows this."""
    found = values(document)
    lines: list[str] = []
    for load, offered in LOADS.items():
        what = "Mean delay (ns)" if load == "delay" else "Packets carried (Mpps)"
        rates = ", ".join(f"{table}: {rate}" for table, rate in offered.items())
        lines += [
            f"### {what}",
            "",
            f"Offered: {rates}.",
            "",
            "| table | tables and LLC | " + " | ".join(MEMORIES) + " |",
        ]
        lines += ["|" + "---|" * (2 + len(MEMORIES))]
        for table, way in itertools.product(TABLES, WAYS):
            cells = [_cell(found, (table, way, memory, load)) for memory in MEMORIES]
            lines.append(f"| {table} | {way} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += _memories(found) + _reads(document) + _interleaved(document)
    lines += ["### Which way is best", "", "| table | load | " + " | ".join(MEMORIES) + " |"]
    lines += ["|" + "---|" * (2 + len(MEMORIES))]
    for table, load in itertools.product(TABLES, LOADS):
        cells = [best(found, table, memory, load) for memory in MEMORIES]
        lines.append(f"| {table} | {load} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _memories(found: Values) -> list[str]:
    """What each memory brings over DDR4, the LLC shared."""
    others = [memory for memory in MEMORIES if memory != "DDR4"]
    lines = ["### What memory brings", "", "Over DDR4, the LLC shared: less delay, and more packets.", ""]
    lines += ["| table | load | " + " | ".join(others) + " |", "|" + "---|" * (2 + len(others))]
    for table, load in itertools.product(TABLES, LOADS):
        base = found[table, "shared", "DDR4", load]
        gains = [_gain(gain(found[table, "shared", memory, load], base, load)) for memory in others]
        lines.append(f"| {table} | {load} | " + " | ".join(gains) + " |")
    return [*lines, ""]


def _reads(document: Mapping[str, Any]) -> list[str]:
    """DRAM reads a packet where no packet is lost."""
    lines = ["### DRAM reads a packet", "", "With DDR4, at the load that all carry.", ""]
    lines += ["| table | " + " | ".join(WAYS) + " |", "|" + "---|" * (1 + len(WAYS))]
    for table in TABLES:
        of = [document["cases"][name((table, way, "DDR4", "delay"))]["dram_reads"] for way in WAYS]
        cells = [f"{mean:.3g} ± {wide:.2g}" for mean, wide in map(interval, of)]
        lines.append(f"| {table} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _interleaved(document: Mapping[str, Any]) -> list[str]:
    """How often banks of a stack's channel serve at once, under overload."""
    stacks = [memory for memory in MEMORIES if "stacked" in memory]
    lines = [
        "### Interleaving",
        "",
        "Accesses to the stack that find another bank of their channel busy, under overload.",
        "",
    ]
    columns = list(itertools.product(stacks, WAYS))
    lines += ["| table | " + " | ".join(f"{memory}: {way}" for memory, way in columns) + " |"]
    lines += ["|" + "---|" * (1 + len(columns))]
    for table in TABLES:
        of = [document["cases"][name((table, way, memory, "rate"))]["interleaved"] for memory, way in columns]
        cells = [f"{100 * mean:.1f} ± {100 * wide:.1f} %" for mean, wide in map(interval, of)]
        lines.append(f"| {table} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _gain(found: tuple[float, float]) -> str:
    mean, wide = found
    return f"{mean:+.{_places(wide)}f} ± {wide:.{_places(wide)}f} %"


def _cell(found: Values, key: Key) -> str:
    """The value, and for the ways that are not as shipped the gain over that one."""
    table, way, memory, load = key
    mean, wide = interval(found[key])
    text = f"{mean:.{_places(wide)}f} ± {wide:.{_places(wide)}f}"
    if way == "shared":
        return text
    return f"{text} ({_gain(gain(found[key], found[table, 'shared', memory, load], load))})"


def _places(wide: float) -> int:
    """Decimals at which a half-width has two digits, of 0 to 2."""
    return 2 if wide <= 0 else min(2, max(0, 1 - math.floor(math.log10(wide))))


def main(arguments: Sequence[str]) -> int:
    """Runs the study and writes what came out."""
    document = measure(Path(arguments[0] if arguments else "study"))
    (HERE / "server.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = page(document)
    (HERE / "server.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
