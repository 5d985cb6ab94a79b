"""What is tuned: something that runs with settings and is measured. The search knows no more of it than `Target`.

The only target so far is a simulated scenario. A real program is another one: `evaluate` starts it with the settings,
offers it traffic and reads its counters.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from wirespeed import _wirespeed, api, scenarios
from wirespeed.errors import InputError

Settings = Mapping[str, object]
"""Values by dotted path, as `--set` takes them: `{"nic.rx_descriptors": 256}`."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One evaluation: values by the name of the metric, in the unit the name ends in (`Mpps`, `ns`, else shares)."""

    values: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    """What it took on this machine."""
    infeasible: str | None = None
    """Why it cannot start with these settings; then there are no values."""


class Target(Protocol):
    """Something to tune. Equal settings give equal values, as far as the target can."""

    @property
    def identity(self) -> str:
        """Changes whenever a measurement kept from an earlier search would no longer hold."""

    def check(self, settings: Settings) -> str | None:
        """Why it cannot start with these settings, found without running; None where it can."""

    def evaluate(self, settings: Settings, is_stopped: Callable[[], bool]) -> Measurement:
        """Runs with these settings. Called from several threads at a time; raises KeyboardInterrupt once stopped."""


# Metric: where it stands in the summary of a run.
_SUMMARY: Final[Mapping[str, tuple[str, ...]]] = {
    "carried_mpps": ("carried_mpps",),
    "carried_gbps": ("carried_gbps",),
    "loss": ("loss",),
    "mean_ns": ("sojourn_ns", "mean"),
    "p50_ns": ("sojourn_ns", "p50"),
    "p99_ns": ("sojourn_ns", "p99"),
    "p999_ns": ("sojourn_ns", "p999"),
    "search_mpps": ("search", "mpps"),
    "offered_mpps": ("offered_mpps",),
    "offered_l2_gbps": ("offered_l2_gbps",),
}


class Simulated:
    """A scenario. The simulator runs outside Python's lock, so threads evaluate side by side."""

    def __init__(
        self,
        scenario: api.PathLike,
        capture: api.PathLike | None = None,
        table: api.PathLike | None = None,
        set: scenarios.Overrides = None,
    ) -> None:
        """The arguments are those of `wirespeed.run`. Raises InputError for a scenario that is not sound."""
        self._scenario, self._capture, self._table = scenario, capture, table
        self._set = scenarios.overrides(set)
        self.resolved: dict[str, Any] = tomllib.loads(self._resolve({}))
        """The scenario as it is, with all defaults."""

    @property
    def identity(self) -> str:
        """The hash of the resolved scenario, the build, and size and time of change of every file it names."""
        stamps = []
        for text in _texts(self.resolved):
            if "\n" not in text and len(text) < 4096 and Path(text).is_file():
                status = Path(text).stat()
                stamps.append([text, status.st_size, status.st_mtime_ns])
        whole = [self.resolved, stamps, _wirespeed.version(), _wirespeed.commit()]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]

    def check(self, settings: Settings) -> str | None:
        """What the scenario's own parser says against these settings."""
        try:
            self._resolve(settings)
        except InputError as e:
            return str(e)
        return None

    def evaluate(self, settings: Settings, is_stopped: Callable[[], bool]) -> Measurement:
        """One run, on one thread."""

        def stop(phase: str, done: int, total: int, note: str) -> None:
            if is_stopped():
                raise KeyboardInterrupt

        try:
            result = api.run(
                self._scenario,
                capture=self._capture,
                table=self._table,
                set=self._overrides(settings),
                threads=1,
                progress=stop,
            )
        except InputError as e:
            return Measurement(infeasible=str(e))
        if result.partial:
            raise KeyboardInterrupt
        summary: Mapping[str, Any] = result.summary
        found = {name: _at(summary, where) for name, where in _SUMMARY.items()}
        values = {name: float(value) for name, value in found.items() if value is not None}
        return Measurement(values, float(summary.get("wall_s") or 0.0))

    def _resolve(self, settings: Settings) -> str:
        return api.resolve(self._scenario, self._capture, self._table, self._overrides(settings))

    def _overrides(self, settings: Settings) -> list[str]:
        return [*self._set, *scenarios.overrides(settings)]


def _at(document: Mapping[str, Any], where: tuple[str, ...]) -> Any:
    value: Any = document
    for name in where:
        value = (value or {}).get(name)
    return value


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
