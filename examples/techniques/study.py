"""Which techniques pay on a server of 100 and of 400 Gbps, for four functions, and what they do to each other.

    python study.py [FOLDER] [--functions nat,upf] [--servers 100] [--seeds 1] [--skip-search]

runs a two-level design of six techniques at saturation and at half of what the base carries then; each other technique
alone; and the search for the highest rate without loss of the base and of what the design recommends. The same packets
for all. FOLDER (study) keeps finished runs, so that what was stopped goes on. Into it go `results.csv` (a row a run),
`effects.csv`, `tables.md` and `techniques.svg`; those beside this file are of three seeds.
"""

from __future__ import annotations

import argparse
import csv
import functools
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import findings  # beside this file
from findings import ALONE, SETTINGS, Set, factors, named, recommended

import wirespeed
from wirespeed import csvs
from wirespeed.advise import lossless, techniques
from wirespeed.advise.techniques import Technique
from wirespeed.sweep import until

FUNCTIONS: Final = ("forwarding", "nat", "upf", "vhost")
"""Scenarios as shipped, with their traffic: the ISP profile."""
SERVERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "100": {
        "machine.preset": "xeon-gold-6140",
        "machine.cores": 2,
        "nic.model": "connectx-5",
        "nic.driver": "mlx5",
    },
    "400": {
        "machine.preset": "xeon-platinum-8480",
        "machine.cores": 4,
        "nic.model": "connectx-7",
        "nic.driver": "mlx5",
        "nic.rate": "400 Gbps",
    },
}
SEEDS: Final = 3
SATURATED: Final = 8_000
HALF: Final = 6_000
TRIAL: Final = 20_000
WITHIN: Final = 0.02
JOBS: Final = 2
PARTS: Final = ("design", "alone", "chosen", "search")
SEARCH_SEED: Final = 1000
"""Of the search: no set was chosen by its packets."""


@dataclass(frozen=True)
class Cell:
    """A function on a server."""

    server: str
    function: str

    @property
    def base(self) -> dict[str, Any]:
        """What makes the scenario this server's."""
        return {**SERVERS[self.server], "run.curve": []}

    @functools.cached_property
    def known(self) -> dict[str, Technique]:
        """The techniques that fit, as `wirespeed advise` has them."""
        resolved = tomllib.loads(wirespeed.resolve(self.function, set=self.base))
        return {each.name: each for each in techniques.fitting(resolved)[0]}

    def settings(self, chosen: Iterable[str]) -> list[str]:
        """What switches a set on."""
        return [override for name in chosen for override in self.known[name].overrides]

    def alone(self) -> list[Set]:
        """The base, and each technique by itself."""
        others = (name for name in (*factors(self.function), *ALONE) if name in self.known)
        return [(), *((name,) for name in dict.fromkeys(others))]


class Bench:
    """Runs sets of a cell, and keeps what is finished."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def saturated(self, cell: Cell, sets: Sequence[Set], seeds: int) -> list[dict[str, Any]]:
        """At line rate."""
        return self._runs(cell, sets, {"traffic.load": 1.0, "run.packets": SATURATED}, seeds, "saturated")

    def at_half(self, cell: Cell, sets: Sequence[Set], seeds: int) -> list[dict[str, Any]]:
        """At half of what the base carries at line rate with the first seed."""
        (row,) = self.saturated(cell, [()], 1)
        offered = {"traffic.packet_rate": f"{row['carried_mpps'] / 2:.3g} Mpps", "run.packets": HALF}
        return self._runs(cell, sets, offered, seeds, "half")

    def without_loss(self, cell: Cell, sets: Sequence[Set], guesses: Sequence[float], seed: int) -> list[float]:
        """The highest rate of each at which nothing is lost and what waits does not grow: as `wirespeed advise`."""
        (line,) = self.saturated(cell, [()], 1)
        top = float(line["offered_mpps"])
        resolved = tomllib.loads(wirespeed.resolve(cell.function, set=cell.base))
        growth = WITHIN * TRIAL + int(resolved["machine"]["cores"]) * int(resolved["nic"]["burst"])
        at_half = f"traffic.packet_rate={line['carried_mpps'] / 2:.3g} Mpps"

        def trial(_: int, rates: Mapping[int, float]) -> dict[int, bool]:
            cases = {
                str(place): [*cell.settings(sets[place]), f"traffic.packet_rate={rate:.6g} Mpps"]
                for place, rate in rates.items()
            }
            more = {"run.packets": TRIAL, "run.seed": until.seed(int(resolved["run"]["seed"]), seed)}
            rows = self._sweep(cell, cases, more, 1, "search", near=[at_half])
            return {int(row["case"]): _keeps_up(row, growth) for row in rows}

        return lossless.highest(trial, guesses, lossless.STEP, WITHIN, 0.05 * top, top)

    def _runs(
        self, cell: Cell, sets: Sequence[Set], more: Mapping[str, Any], seeds: int, phase: str
    ) -> list[dict[str, Any]]:
        cases = {named(each): cell.settings(each) for each in sets}
        return self._sweep(cell, cases, more, seeds, phase)

    def _sweep(
        self,
        cell: Cell,
        cases: Mapping[str, list[str]],
        more: Mapping[str, Any],
        seeds: int,
        phase: str,
        near: Sequence[str] = (),
    ) -> list[dict[str, Any]]:
        found = wirespeed.sweep(
            cell.function,
            cases=cases,
            set={**cell.base, **more},
            replications=seeds,
            near=near,
            out=self._folder / f"{cell.server}-{cell.function}-{phase}",
            jobs=JOBS,
        )
        if failed := next((row for row in found.rows if row["error"] is not None), None):
            raise SystemExit(f"{cell.function}, {cell.server} Gbps, {failed['case']}: {failed['error']}")
        return list(found.rows)


def _keeps_up(row: Mapping[str, Any], growth: float) -> bool:
    # By Little's law, of what waits in the first and in the last quarter. A run too short to tell does not keep up.
    longer = float(row.get("batches.mean.growth", math.inf))
    return bool(row.get("loss") == 0.0 and longer * float(row["offered_mpps"]) / 1e3 <= growth)


def measured(bench: Bench, cell: Cell, part: str, sets: Sequence[Set], seeds: int) -> list[dict[str, Any]]:
    """A row a set and seed: what it carries at saturation, and p99 and DRAM's bytes a packet at half."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for row in bench.saturated(cell, sets, seeds):
        rows[row["case"], row["replication"]] = {
            "part": part,
            "server": cell.server,
            "function": cell.function,
            "seed": row["replication"],
            "set": row["case"],
            "offered_mpps": f"{row['offered_mpps']:.5g}",
            "carried_mpps": f"{row['carried_mpps']:.5g}",
            "dram_saturated": f"{_dram(row):.4g}",
        }
    for row in bench.at_half(cell, sets, seeds):
        rows[row["case"], row["replication"]] |= {
            "half_mpps": f"{row['offered_mpps']:.4g}",
            # Not known of runs so short that rings take in all packets.
            "loss_half": f"{row['loss']:.3g}" if "loss" in row else "",
            "p99_ns": f"{row['sojourn_ns.p99']:.5g}",
            "dram_half": f"{_dram(row):.4g}",
        }
    return list(rows.values())


def _dram(row: Mapping[str, Any]) -> float:
    """Bytes a packet that was carried, read and written."""
    carried = row["carried_mpps"] / row["offered_mpps"] * row["packets"]
    return 64.0 * (row["dram.reads"] + row["dram.writes"]) / max(carried, 1.0)


def chosen(rows: Sequence[Mapping[str, Any]], cell: Cell) -> list[Set]:
    """The base, what settings alone are recommended, and what of all techniques: by the first seed alone.

    So that on the packets of the others the best is not partly luck.
    """
    where = (cell.server, cell.function)
    first = [row for row in rows if row["seed"] == 0]
    sets = (recommended(first, where, among) for among in (SETTINGS, factors(cell.function)))
    return list(dict.fromkeys([(), *sets]))


def searched(bench: Bench, cell: Cell, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a set that was chosen: the highest rate without loss, of packets that nothing was chosen by."""
    of = {
        row["set"]: float(row["carried_mpps"])
        for row in rows
        if (row["part"], row["server"], row["function"], row["seed"]) == ("chosen", cell.server, cell.function, 0)
    }
    sets = chosen(rows, cell)
    rates = bench.without_loss(cell, sets, [of[named(each)] for each in sets], SEARCH_SEED)
    where = {"part": "search", "server": cell.server, "function": cell.function, "seed": SEARCH_SEED}
    return [{**where, "set": named(each), "ndr_mpps": f"{rate:.4g}"} for each, rate in zip(sets, rates, strict=True)]


def runs(bench: Bench, cells: Sequence[Cell], seeds: int, search: bool) -> Iterator[list[dict[str, Any]]]:
    """All rows so far, again and again: what is stopped has whole seeds, and the search comes after the first."""
    found: dict[tuple[str, Cell], list[dict[str, Any]]] = {}

    def rows() -> list[dict[str, Any]]:
        return [row for part in PARTS for cell in cells for row in found.get((part, cell), [])]

    for count in range(1, seeds + 1):
        for cell in cells:
            found["design", cell] = measured(bench, cell, "design", findings.sets(cell.function), count)
        yield rows()
        for cell in cells:
            found["chosen", cell] = measured(bench, cell, "chosen", chosen(rows(), cell), count)
            if search:
                found["search", cell] = searched(bench, cell, rows())
            yield rows()
        for cell in cells:
            found["alone", cell] = measured(bench, cell, "alone", cell.alone(), count)
            yield rows()


def write(folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Effects, tables and the picture of rows."""
    effects = findings.table_of_effects(rows)
    (folder / "effects.csv").write_bytes(csvs.table(effects).encode())
    (folder / "tables.md").write_text(findings.tables(rows), encoding="utf-8")
    findings.chart(rows).save(str(folder / "techniques.svg"))


def read(file: Path) -> list[dict[str, Any]]:
    """The rows of `results.csv`."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [{**row, "seed": int(row["seed"])} for row in csv.DictReader(lines)]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("study"))
    parser.add_argument("--functions", type=lambda text: text.split(","), default=list(FUNCTIONS))
    parser.add_argument("--servers", type=lambda text: text.split(","), default=list(SERVERS))
    parser.add_argument("--seeds", type=int, default=SEEDS, help="2 or more for half-widths of single sets")
    parser.add_argument("--skip-search", action="store_true", help="without the highest rates without loss")
    asked = parser.parse_args(arguments)
    for given, known in ((asked.functions, FUNCTIONS), (asked.servers, SERVERS)):
        if unknown := [each for each in given if each not in known]:
            parser.error(f"{', '.join(unknown)}: must be of {', '.join(known)}")
    asked.folder.mkdir(parents=True, exist_ok=True)
    cells = [Cell(server, function) for server in asked.servers for function in asked.functions]
    for rows in runs(Bench(asked.folder), cells, asked.seeds, not asked.skip_search):
        (asked.folder / "results.csv").write_bytes(csvs.table(rows).encode())
        print(f"{len(rows)} rows", flush=True)
    write(asked.folder, read(asked.folder / "results.csv"))


if __name__ == "__main__":
    main()
