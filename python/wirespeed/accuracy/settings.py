"""What a row asks of the simulator: machine and settings of its columns, as `--set` has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from wirespeed import _wirespeed, files, scenarios
from wirespeed.accuracy.rows import Row
from wirespeed.errors import InputError
from wirespeed.sweep import work
from wirespeed.sweep.work import Task

BASE: Final = "forwarding-64b"
"""The scenario of a row that names none."""
PACKETS: Final = 100_000
"""Packets of a run, where a row does not say."""
SHORT: Final[Mapping[str, str]] = {
    "processor": "machine.processor",
    "dimms": "machine.dram.standard",
    "nic": "nic.model",
    "driver": "nic.driver",
    "program": "function.program",
    "frequency": "machine.core.frequency",
}
"""Short names of settings, and the paths that they stand for."""

SCENARIO: Final = "scenario"
READS: Final = "reads"
DMA: Final[Mapping[str, str]] = {"window": "4 KiB", "bytes": "64", "cache": "cold", "in_flight": "1"}
"""What a row says of DMA reads, and what holds where it does not: as `wirespeed memory dma`."""
# Parts of a machine stand between semicolons, or as in a sentence.
_PARTS: Final = re.compile(r";| \+ ")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a row's machine does what: a scenario, settings, the reads of a memory curve, and what DMA reads are of."""

    scenario: str
    settings: tuple[str, ...]
    reads: float = 100.0
    dma: tuple[tuple[str, str], ...] = ()

    def task(self, search: str | None = None) -> Task:
        """A run of it; two rows that ask for the same have tasks of one key. Raises InputError as the reader does."""
        found = scenarios.find(self.scenario)
        said = [*found.overrides, *self.settings]
        if search is not None:
            said.append(f'run.search="{search}"')
        # One title for all: what is the same but for a name is the same run.
        text = _wirespeed.Scenario(found.text, found.origin, [*self._defaults(said), *said, "name=a row"]).resolved
        build = work.build()
        return Task(files.digest(f"{build}\n{text}".encode()), text, build)

    def machine(self) -> list[str]:
        """The settings of the machine alone, which is all that its memory is measured with."""
        return [each for each in self.settings if scenarios.is_within(_path(each), "machine")]

    def dma_reads(self) -> dict[str, Any]:
        """What DMA reads are of, as `wirespeed.memory.dma` takes it. Raises InputError for what are no numbers."""
        said = dict(DMA) | dict(self.dma)
        numbers = {}
        for name in ("bytes", "in_flight"):
            if not said[name].removesuffix("B").strip().isdigit():
                raise InputError(f"set: {name}={said[name]}: allowed is a number, as in {name}={DMA[name]}")
            numbers[name] = int(said[name].removesuffix("B"))
        of = {"windows": [said["window"]], "bytes": [numbers["bytes"]], "cache": [said["cache"]]}
        return {**of, "in_flight": numbers["in_flight"]}

    def _defaults(self, said: list[str]) -> list[str]:
        paths = [_path(each) for each in said]
        own = {"run.packets": str(PACKETS), "run.curve": "[]"}
        return [f"{path}={value}" for path, value in own.items() if path not in paths]


def of(row: Row) -> Asked:
    """What a row asks for. Raises InputError for what is no setting, and where no machine is named."""
    scenario, reads, dma = BASE, 100.0, dict(DMA)
    settings = _machine(row)
    for path, value in _pairs("set", row["set"].split(";")):
        if path == SCENARIO:
            scenario = _file(row, value)
        elif path == READS:
            reads = _share(value)
        elif path in DMA:
            dma[path] = value
        else:
            settings.append(f"{SHORT.get(path, path)}={value}")
    return Asked(scenario, tuple(settings), reads, tuple(dma.items()))


def _machine(row: Row) -> list[str]:
    parts = [part.strip() for part in _PARTS.split(row["machine"]) if part.strip()]
    if not parts:
        allowed = (
            "a shipped machine (`wirespeed presets` lists them), a machine file (.toml), or parts as processor=NAME"
        )
        raise InputError(f"machine is empty: allowed are {allowed}")
    settings = []
    if "=" not in parts[0]:
        settings = scenarios.overrides({"machine.preset": _file(row, parts.pop(0))})
    return settings + [f"{SHORT.get(path, path)}={value}" for path, value in _pairs("machine", parts)]


def _pairs(column: str, parts: list[str]) -> list[tuple[str, str]]:
    found = []
    for part in parts:
        path, equals, value = (each.strip() for each in part.partition("="))
        if not part.strip():
            continue
        if not equals or not path or not value:
            raise InputError(
                f"{column}: {part.strip()!r}: allowed is PATH=VALUE, several by ';', as in "
                "machine.cores=2; frequency=3.1 GHz"
            )
        found.append((path, value))
    return found


def _file(row: Row, name: str) -> str:
    """A file's path starts at the folder of the CSV; a name is left as it is."""
    beside = row.folder / name
    return str(beside.resolve()) if name.endswith(".toml") and beside.is_file() else name


def _share(value: str) -> float:
    try:
        found = float(value.removesuffix("%"))
    except ValueError:
        found = -1.0
    if not 50 <= found <= 100:
        raise InputError(f"set: reads={value}: allowed are 50 to 100, percent of the lines that memory moves")
    return found


def _path(setting: str) -> str:
    return setting.partition("=")[0].strip()
