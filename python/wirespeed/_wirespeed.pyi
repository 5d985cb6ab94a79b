"""The compiled half of wirespeed: scenarios are judged, traffic is read and machines run there."""

from collections.abc import Callable
from typing import Any, final

__all__ = [
    "InputError",
    "Run",
    "Scenario",
    "Table",
    "Trace",
    "commit",
    "compare",
    "inspect",
    "inspect_table",
    "preset",
    "presets",
    "run",
    "schema",
    "simulate_cache",
    "simulate_dram",
    "version",
]

class InputError(ValueError): ...

@final
class Run:
    @property
    def summary_json(self) -> str: ...
    @property
    def resolved(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def partial(self) -> bool: ...
    def table(self, name: str) -> Any: ...
    def write(self, dir: str) -> list[str]: ...

@final
class Scenario:
    def __new__(
        cls,
        text: str,
        origin: str,
        overrides: list[str],
        *,
        capture: str | None = None,
        table: str | None = None,
        seed: int | None = None,
        search: str | None = None,
    ) -> Scenario: ...
    @property
    def resolved(self) -> str: ...

@final
class Table:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

@final
class Trace:
    def __new__(cls, addresses: object, writes: object = None, clocks: object = None) -> Trace: ...
    @staticmethod
    def read(path: str, format: str | None = None) -> Trace: ...
    def __len__(self) -> int: ...
    @property
    def format(self) -> str: ...
    @property
    def compression(self) -> str: ...
    def addresses(self) -> bytes: ...
    def writes(self) -> bytes: ...
    def clocks(self) -> bytes: ...
    def write(self, path: str) -> None: ...

def version() -> str: ...
def commit() -> str: ...
def schema() -> str: ...
def presets() -> list[tuple[str, str, str]]: ...
def preset(kind: str, name: str) -> str: ...
def run(
    scenarios: list[Scenario],
    *,
    threads: int | None = None,
    same_packets: bool = False,
    progress: Callable[[str, int, int, str], None] | None = None,
) -> list[Run]: ...
def compare(a: Run | str, b: Run | str) -> str: ...
def inspect(path: str, progress: Callable[[str, int, int, str], None] | None = None) -> str: ...
def inspect_table(path: str) -> str: ...
def simulate_dram(
    trace: Trace,
    preset: str,
    *,
    standard: str | None = None,
    map: str | None = None,
    offered: str | None = None,
    queue: int | None = None,
    order: str | None = None,
    writes: str | None = None,
    page: str | None = None,
    refresh: str | None = None,
    record: bool = False,
) -> tuple[str, bytes, bytes]: ...
def simulate_cache(trace: Trace, levels: str, seed: int = 0) -> str: ...
