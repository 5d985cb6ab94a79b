"""What is measured at a point: the numbers of a run's summary as columns, and words for those that people want."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from wirespeed import quantities as q
from wirespeed.errors import InputError, nearest
from wirespeed.summary import measured
from wirespeed.summary_types import Summary


@dataclass(frozen=True, slots=True)
class Metric:
    """A measured quantity: its column, its title, the unit of an axis, and what the column is divided by for it."""

    name: str
    column: str
    title: str
    unit: str
    scale: float = 1.0
    better: int = 1
    """1 where more is better, -1 where less is."""

    def text(self, value: float | None) -> str:
        """A value of the column for people."""
        if self.unit == "µs":
            return q.duration(value)
        if self.name == "loss":
            return q.probability(value)
        if self.unit == "%":
            return q.share(value)
        return q.MISSING if not q.is_number(value) else f"{q.digits(value, 4)} {self.unit}"


METRICS: Final[Mapping[str, Metric]] = {
    each.name: each
    for each in (
        Metric("carried_mpps", "carried_mpps", "Carried rate", "Mpps"),
        Metric("carried_gbps", "carried_gbps", "Carried rate", "Gbps"),
        Metric("loss", "loss", "Loss", "%", 0.01, -1),
        Metric("mean", "sojourn_ns.mean", "Mean sojourn", "µs", 1e3, -1),
        Metric("p50", "sojourn_ns.p50", "Median sojourn", "µs", 1e3, -1),
        Metric("p99", "sojourn_ns.p99", "99th percentile of sojourn", "µs", 1e3, -1),
        Metric("p999", "sojourn_ns.p999", "99.9th percentile of sojourn", "µs", 1e3, -1),
        Metric("ndr", "search.mpps", "Highest rate without loss", "Mpps"),
        Metric("pdr", "search.mpps", "Highest rate with little loss", "Mpps"),
        Metric("llc_hit_rate", "levels.LLC.hit_rate", "Hit rate of the LLC", "%", 0.01),
        Metric("ddio_hit_rate", "levels.DDIO.hit_rate", "Device writes in place", "%", 0.01),
        Metric("dram_gb_per_s", "dram.bandwidth_gb_per_s", "DRAM bandwidth", "GB/s", better=-1),
        Metric("gpu_fill", "gpu.fill", "Fill of a GPU's batch", "%", 0.01),
        Metric("dram_energy", "dram.energy_nj_per_packet", "DRAM energy a packet", "nJ", better=-1),
    )
}
SEARCHED: Final = ("ndr", "pdr")

# What is not measured but given, belongs to one run only, or differs from host to host.
_LEFT_OUT: Final = frozenset(
    {"batches", "inputs", "load_s", "machine", "packets_per_wall_s", "routes", "seed", "series", "table", "traffic"}
    | {"wall_s", "sojourn_cdf", "schema", "attribution_labels", "drop_kinds", "notes", "policy", "warmup"}
)
_BATCHED: Final = ("carried_mpps", "dram_energy")
# The sojourn's growth is from the first such part of a run to the last.
_PARTS: Final = 4
_TEXTS: Final = ("run_id", "version", "commit")
# Texts of objects in the summary: by which parts a machine is known, and what holds its rate back.
_INNER_TEXTS: Final = ("verdict.limit", "gpu.limited_by", "machine.core", "machine.nic", "machine.driver")
# Neither is measured by the run.
_NOT_OF_THE_RUN: Final = ("verdict.model_errors", "verdict.beyond_model_error")


def metric(name: str) -> Metric:
    """The metric of that name. Raises InputError with the nearest one."""
    if name not in METRICS:
        raise InputError(f"--metric {name}: must be one of {', '.join(METRICS)}{nearest(name, METRICS)}")
    return METRICS[name]


def columns(summary: Mapping[str, Any]) -> dict[str, float | str]:
    """The numbers of a summary by dotted name, in the units of the summary; truths are 0 and 1.

    >>> columns({"loss": 0.5, "sojourn_ns": {"p99": 7}, "levels": [{"name": "L2", "hits": 3}], "wall_s": 9})
    {'loss': 0.5, 'sojourn_ns.p99': 7.0, 'levels.L2.hits': 3.0}
    >>> columns({"packets": 0, "levels": [{"name": "L2", "hits": 3}]})
    {'packets': 0.0}
    """
    texts = {name: str(summary[name]) for name in _TEXTS if name in summary}
    for name in _INNER_TEXTS:
        section, _, key = name.partition(".")
        text = (summary.get(section) or {}).get(key)
        if text is not None:
            texts[name] = str(text)
    numbers = {name: value for name, value in measured(cast(Summary, summary)).items() if name not in _LEFT_OUT}
    return {**texts, **dict(_flat("", numbers)), **_batches(summary.get("batches") or {})}


def waits_more(run: Mapping[str, Any]) -> float | None:
    """By how many packets more wait in the last part of a run than in the first, by its `columns`; None of a short one.

    By Little's law, of the mean sojourn of either part: wherever they wait, in the NIC, a GPU or a ring.

    >>> waits_more({"batches.mean.growth": 500.0, "offered_mpps": 10.0})
    5.0
    """
    longer = run.get("batches.mean.growth")
    return None if longer is None else float(longer) * float(run["offered_mpps"]) / 1e3


def ring_fills(run: Mapping[str, Any]) -> float:
    """The share of what comes to one core by which its ring fills, beyond chance, of a run by its `columns`, or 0."""
    return float(run.get("ring_growth") or 0.0)


def _batches(means: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """What gives a half-width to a rate and to energy, of which a run reports none; Student's factor is the driver's.

    >>> _batches({"carried_mpps": [1.0, 3.0], "loss": [0.0, 0.0]})
    {'batches.carried_mpps.count': 2.0, 'batches.carried_mpps.variance': 2.0}
    """
    found = {}
    for name in _BATCHED:
        values = means.get(name) or ()
        if len(values) > 1:
            found[f"batches.{name}.count"] = float(len(values))
            found[f"batches.{name}.variance"] = statistics.variance(values)
    sojourn = means.get("mean") or ()
    if len(sojourn) >= _PARTS:
        part = len(sojourn) // _PARTS
        found["batches.mean.growth"] = statistics.fmean(sojourn[-part:]) - statistics.fmean(sojourn[:part])
    return found


def _flat(prefix: str, value: object) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            path = f"{prefix}.{name}" if prefix else str(name)
            if path not in _NOT_OF_THE_RUN:
                yield from _flat(path, inner)
    elif isinstance(value, int | float):
        if math.isfinite(value):
            yield prefix, float(value)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for place, inner in enumerate(value):
            if isinstance(inner, Mapping) and prefix != "search.trials":
                yield from _flat(f"{prefix}.{inner.get('name', place)}", inner)
