"""What may be measured: a run's summary by dotted names, names of their own, what memory and DMA reads answer."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from wirespeed import _wirespeed, units
from wirespeed.errors import InputError, nearest

Columns: TypeAlias = Mapping[str, Any]
"""The numbers of a summary by dotted name, as a sweep has them (`wirespeed.sweep.metrics.columns`)."""
Kind: TypeAlias = Literal["rate", "cycles", "latency", "bandwidth", "hits", "loss"]

KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("rate", "cycles", "latency", "bandwidth"), "%"),
    **dict.fromkeys(("hits", "loss"), "points"),
}
"""The kinds of rows, and what the error of each is in."""

ALIASES: Final[Mapping[str, str]] = {
    "ndr_mpps": "search.mpps",
    "pdr_mpps": "search.mpps",
    "mean_ns": "sojourn_ns.mean",
    "p50_ns": "sojourn_ns.p50",
    "p99_ns": "sojourn_ns.p99",
    "p999_ns": "sojourn_ns.p999",
    "l1_hit_rate": "levels.L1d.hit_rate",
    "l2_hit_rate": "levels.L2.hit_rate",
    "llc_hit_rate": "levels.LLC.hit_rate",
    "llc_miss_rate": "levels.LLC.miss_rate",
    "ddio_hit_rate": "levels.DDIO.hit_rate",
    "ddio_miss_rate": "levels.DDIO.miss_rate",
    "dram_gb_per_s": "dram.bandwidth_gb_per_s",
}
"""Short names, and the fields that they stand for."""
OVER_CORES: Final = ("cycles_per_packet", "instructions_per_packet")
"""Of cores[], over all cores: weighted by the packets that each took."""
IPC: Final = "ipc"
MEMORY: Final[Mapping[str, str]] = {
    "memory.idle_ns": "idle latency of a dependent load",
    "memory.read_gbps": "the most bandwidth, GB/s (memory.most_gb_per_s is the same)",
    "memory.latency_ns": "latency of a dependent load at a bandwidth: memory.latency_ns@54.2GB/s",
}
"""What `wirespeed memory curve` answers."""

DMA: Final[Mapping[str, str]] = {
    "pcie.dma_read_ns": "mean time of a DMA read as the device sees it",
    "pcie.dma_read_gbps": "data that DMA reads bring, Gbps",
}
"""What `wirespeed memory dma` answers."""

_MOST: Final = ("memory.read_gbps", "memory.most_gb_per_s")
_AT: Final = re.compile(r"memory\.latency_ns@\s*(\d+(?:\.\d+)?)\s*(?:GB/s|GBps|GB_per_s)?")
_RELATIVE: Final = " relative to "
_PER_PACKET: Final = "_per_packet"
# Counts of packets by their own arrival; all others are the machine's.
_OF_PACKETS: Final = ("lost", "rejected", "drops", "classes")
_SEARCHES: Final = {"ndr_mpps": "ndr", "pdr_mpps": "pdr"}
# What a number of a summary is in, by the end of its name: the kind of its unit, and the unit in base ones.
_UNITS: Final[Mapping[str, tuple[units.Kind, float]]] = {
    "_mpps": ("packets", 1e6),
    "search.mpps": ("packets", 1e6),
    "memory.read_gbps": ("bytes", 1e9),
    "_gbps": ("bits", 1e9),
    "_gb_per_s": ("bytes", 1e9),
    "_ns": ("time", 1e-9),
}
_TIMES: Final = ("sojourn_ns.", "attribution_ns.")
_SHARES: Final = re.compile(r"(.*[._])?(hit_rate|miss_rate|loss|loss_\w+|busy|polling|load|\w*share)")
_PLAIN: Final = ("cycles", "instructions", "lines", "packets", "accesses", "nJ")
_EXAMPLES: Final = {"packets": "Mpps, kpps, pps", "bits": "Gbps, Mbps", "bytes": "GB/s, MB/s", "time": "ns, us, ms"}


@dataclass(frozen=True, slots=True)
class Metric:
    """What a row asks for: a name, and the case whose prediction it is divided by, if any."""

    name: str
    base: str | None = None

    @property
    def column(self) -> str:
        """The field of a summary that it stands for."""
        return ALIASES.get(self.name, self.name)

    @property
    def search(self) -> str | None:
        """The search that a run has to make for it."""
        return _SEARCHES.get(self.name)

    @property
    def of_memory(self) -> bool:
        """Whether the curve of the machine's memory answers, and no run."""
        return self.name.startswith("memory.")

    @property
    def of_dma(self) -> bool:
        """Whether DMA reads of a window answer, and no run."""
        return self.name in DMA

    @property
    def at_gb_per_s(self) -> float | None:
        """The bandwidth at which a latency of memory is wanted."""
        found = _AT.fullmatch(self.name)
        return None if found is None else float(found[1])

    @property
    def is_share(self) -> bool:
        """Whether it is a share, of which errors in points have a sense."""
        return self.base is None and _SHARES.fullmatch(self.column) is not None


def parse(text: str) -> Metric:
    """A metric as a row names it. Raises InputError with the nearest name for one that no summary has.

    >>> parse("carried_mpps relative to one core"), parse("cores[0].busy").name
    (Metric(name='carried_mpps', base='one core'), 'cores.0.busy')
    """
    name, relative, base = text.partition(_RELATIVE)
    name = re.sub(r"\[(\w+)\]", r".\1", name.strip())
    if not name or (relative and not base.strip()):
        raise InputError(f"metric {text!r}: allowed is a field of a summary, or METRIC relative to CASE")
    found = Metric(name, base.strip() or None)
    if found.of_memory:
        if found.at_gb_per_s is None and name not in (*_MOST, "memory.idle_ns"):
            raise InputError(
                f"metric {name}: of memory allowed are {'; '.join(f'{n}: {w}' for n, w in MEMORY.items())}"
            )
        return found
    if found.of_dma:
        return found
    if not _is_known(found.column):
        raise InputError(f"metric {name}: no field of a run's summary, {_near(name)}")
    return found


def value(metric: Metric, columns: Columns) -> float:
    """The number of a run. Raises InputError where this run does not report it.

    >>> run = {"packets": 10.0, "taken_packets": 8.0, "levels.LLC.misses": 4.0, "levels.LLC.hit_rate": 0.75}
    >>> value(parse("levels.LLC.misses_per_packet"), run), value(parse("llc_miss_rate"), run)
    (0.5, 0.25)
    """
    found = _value(metric.column, columns)
    if found is None:
        raise InputError(f"metric {metric.name}: this run does not report it{nearest(metric.column, columns)}")
    return found


def own_unit(metric: Metric) -> tuple[units.Kind | None, float]:
    """The kind of its unit and the unit in base ones; no kind where it is a plain number."""
    column = metric.column
    if metric.at_gb_per_s is not None or column.startswith(_TIMES):
        return "time", 1e-9
    return next((unit for end, unit in _UNITS.items() if column.endswith(end)), (None, 1.0))


def factor(metric: Metric, unit: str) -> float:
    """What a prediction is multiplied by to be in a row's unit. Raises InputError for a unit of something else.

    >>> factor(parse("carried_mpps"), "kpps"), factor(parse("loss"), "%"), factor(parse("p50_ns"), "us")
    (1000.0, 100.0, 0.001)
    """
    kind, own = own_unit(metric)
    if metric.base is not None or metric.is_share:
        scale = {"": 1.0, "share": 1.0, "ratio": 1.0, "%": 100.0}.get(unit)
        if scale is None:
            raise InputError(f"unit {unit!r}: {metric.name} is a share or a ratio here: allowed are %, share, ratio")
        return scale
    if not unit:
        return 1.0
    if kind is None:
        if unit.split("/")[0] not in _PLAIN:
            raise InputError(
                f"unit {unit!r}: {metric.name} is a plain number: allowed are {', '.join(_PLAIN)}, nothing"
            )
        return 1.0
    said = units.parse(f"1 {unit.removesuffix('/s') if kind == 'bytes' else unit}")
    if said is None or said.kind != kind:
        raise InputError(f"unit {unit!r}: {metric.name} is in another: allowed are {_EXAMPLES[kind]}")
    return round(own / said.value, 12)


def _value(column: str, columns: Columns) -> float | None:
    if column in columns:
        return float(columns[column])
    if column in OVER_CORES:
        return _over_cores(column, columns)
    if column == IPC:
        pair = [_over_cores(each, columns) for each in OVER_CORES]
        return None if None in pair or not pair[0] else pair[1] / pair[0]  # type: ignore[operator]
    if column.endswith(".miss_rate"):
        hits = columns.get(column.removesuffix("miss_rate") + "hit_rate")
        return None if hits is None else 1 - hits
    if column.endswith(_PER_PACKET):
        counted = column.removesuffix(_PER_PACKET)
        count, packets = columns.get(counted), columns.get("packets", 0) - columns.get("lost", 0)
        if counted.split(".")[0] not in _OF_PACKETS:
            # What the machine did up to the last arrival, it did for what cores had taken by then.
            packets = columns.get("taken_packets", packets)
        return None if count is None or not packets else count / packets
    return None


def _over_cores(name: str, columns: Columns) -> float | None:
    total = packets = 0.0
    for core, its in _cores(columns):
        per_packet = columns.get(f"cores.{core}.{name}")
        if per_packet is not None:
            total, packets = total + its * per_packet, packets + its
    return total / packets if packets else None


def _cores(columns: Columns) -> Iterator[tuple[str, float]]:
    for name, count in columns.items():
        found = re.fullmatch(r"cores\.(\d+)\.packets", name)
        if found is not None:
            yield found[1], count


def _is_known(column: str) -> bool:
    for end, instead in ((_PER_PACKET, ""), (".miss_rate", ".hit_rate")):
        if column.endswith(end) and _is_known(column.removesuffix(end) + instead):
            return True
    return column in (*OVER_CORES, IPC) or any(_fits(column, each) for each in fields())


def _fits(column: str, field: str) -> bool:
    """Whether a dotted name is of a field, of whose steps `*` stands for any name."""
    steps, wanted = column.split("."), field.split(".")
    return len(steps) == len(wanted) and all(w in ("*", s) for s, w in zip(steps, wanted, strict=True))


def _near(name: str) -> str:
    names = [*ALIASES, *OVER_CORES, IPC, *(each for each in fields() if "*" not in each)]
    names += [f"levels.{level}.{rate}" for level in ("L1d", "L2", "LLC", "DDIO") for rate in ("hit_rate", "miss_rate")]
    near = nearest(name, [*names, *MEMORY, *DMA], 0.4)
    return near.strip(" ()") + ("" if near else "as carried_mpps; docs/reference/results.md lists them")


@functools.cache
def fields() -> tuple[str, ...]:
    """The dotted names of numbers of a summary, from its schema; a step `*` is a place or a name."""
    schema = json.loads(_wirespeed.summary_schema())
    return tuple(_fields("", schema, schema.get("$defs", {})))


def _fields(path: str, node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in node:
        node = definitions[str(node["$ref"]).rpartition("/")[2]]
    arms = [arm for arm in node.get("anyOf", ()) if arm.get("type") != "null"]
    for arm in arms:
        yield from _fields(path, arm, definitions)
    kinds = node.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if {"number", "integer", "boolean"} & set(kinds):
        yield path
    inner = [*node.get("properties", {}).items()]
    inner += [("*", node[each]) for each in ("items", "additionalProperties") if isinstance(node.get(each), dict)]
    for name, child in inner:
        yield from _fields(f"{path}.{name}" if path else name, child, definitions)
