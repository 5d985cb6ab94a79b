"""Up to which packet rate each part of a machine goes, reckoned from how busy it was in a run.

A part that was busy for a share of the time at some rate has no time left at that rate over the share. Cores go by the
busiest: flows stay spread as they are, and a packet goes on taking the cycles that it took. Where bursts fill as the
load grows a packet takes fewer, so cores then go further than this says.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wirespeed import quantities as q
from wirespeed import units
from wirespeed.summary import stages
from wirespeed.summary_types import CoreSummary, Summary

SATURATED: Final = 0.95
"""A core that is busier has no time left, as verdicts have it."""
# Bursts of less than this share of `nic.burst` are short, as verdicts have it.
_SHORT: Final = 0.5


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The rate at which a part of the machine has no time left."""

    what: str
    mpps: float


@dataclass(frozen=True, slots=True)
class CoreCeiling:
    """The same of the cores of a stage: how many they are, and what they would come to with one more."""

    cores: int
    receives: bool
    is_alone: bool
    """Whether a packet passes no other stage."""
    cycles: float
    """What a packet takes of one of them."""
    mpps: float
    with_one_more: float
    has_short_bursts: bool
    """Whether a packet takes fewer cycles when more come, so that the rates are the least ones."""


def served_mpps(summary: Summary) -> float | None:
    """Packets that were not lost, in millions a second."""
    offered, loss = summary.get("offered_mpps"), summary.get("loss")
    if not q.is_number(offered) or offered <= 0:
        return None
    return offered * (1 - (loss if q.is_number(loss) else 0.0))


def of_cores(summary: Summary, settings: Mapping[str, Any]) -> CoreCeiling | None:
    """The ceiling of the stage that has the busiest core; None where nothing is known of cores."""
    served, found = served_mpps(summary), stages(summary)
    busy = [max((core.get("busy") or 0.0 for core in stage), default=0.0) for stage in found]
    if served is None or not busy or max(busy) <= 0:
        return None
    most = max(busy)
    stage = found[busy.index(most)]
    full = bool(summary.get("lost")) and most > SATURATED
    mpps = served / (1.0 if full else most)
    busiest = max(stage, key=lambda core: core.get("busy") or 0.0)
    return CoreCeiling(
        cores=len(stage),
        receives=bool(busiest.get("receives", True)),
        is_alone=len(found) == 1,
        cycles=_cycles(stage if full else [busiest]),
        mpps=mpps,
        with_one_more=mpps * (len(stage) + 1) / len(stage),
        has_short_bursts=_short(busiest, settings) and not summary.get("lost"),
    )


def _cycles(cores: Sequence[CoreSummary]) -> float:
    """What a packet takes on average of those that work on it."""
    packets = sum(core["packets"] for core in cores)
    return sum((core.get("cycles_per_packet") or 0.0) * core["packets"] for core in cores) / packets if packets else 0.0


def _short(core: CoreSummary, settings: Mapping[str, Any]) -> bool:
    burst, most = core.get("packets_per_burst"), (settings.get("nic") or {}).get("burst")
    return q.is_number(burst) and q.is_number(most) and burst < _SHORT * most


def of_others(summary: Summary, settings: Mapping[str, Any], cores: int) -> list[Ceiling]:
    """Ceilings of all but the busiest cores, the lowest first; the NIC has the queues of `cores` cores.

    They are the other stage of a pipeline, PCIe, DRAM's peak, the NIC's own rate and line rate.
    """
    served = served_mpps(summary)
    if served is None:
        return []
    out = _other_stages(summary, served)
    pcie, dram = summary.get("pcie") or {}, summary.get("dram") or {}
    ways = (pcie.get("to_host_link_gbps"), pcie.get("from_host_link_gbps"))
    carried = max((gbps for gbps in ways if q.is_number(gbps)), default=0.0)
    if carried > 0 and q.is_number(rate := pcie.get("rate_gbps")):
        out.append(Ceiling("PCIe", served * rate / carried))
    moved, peak = dram.get("bandwidth_gb_per_s"), dram.get("peak_gb_per_s")
    if q.is_number(moved) and q.is_number(peak) and moved > 0:
        out.append(Ceiling("DRAM's peak", served * peak / moved))
    if (nic := nic_mpps(settings, cores)) < math.inf:
        out.append(Ceiling("the NIC's packet rate", nic))
    offered, load = summary.get("offered_mpps"), summary.get("load")
    if q.is_number(offered) and q.is_number(load) and load > 0:
        out.append(Ceiling("line rate", offered / load))
    return sorted(out, key=lambda each: each.mpps)


def _other_stages(summary: Summary, served: float) -> list[Ceiling]:
    """The stages without the busiest core."""
    found = [(max(core.get("busy") or 0.0 for core in stage), stage) for stage in stages(summary)]
    most = max((busy for busy, _ in found), default=0.0)
    rest = [(busy, stage) for busy, stage in found if 0 < busy < most]
    return [
        Ceiling("the receiving stage" if stage[0].get("receives", True) else "the working stage", served / busy)
        for busy, stage in rest
    ]


def nic_mpps(settings: Mapping[str, Any], cores: int) -> float:
    """What a NIC takes at most by its own rate and that of the queues of `cores` receiving cores, in Mpps."""
    nic = settings.get("nic") or {}
    queues = cores * nic.get("queues_per_core", 1)
    ceiling = math.inf
    for name, times in (("packet_interval", 1), ("queue_interval", queues)):
        interval = units.parse(nic.get(name, ""))
        if interval is not None and interval.value > 0:
            ceiling = min(ceiling, 1e-6 * times / interval.value)
    return ceiling


def read_settings(scenario: str) -> dict[str, Any]:
    """The tables of a resolved scenario; none where it is no TOML."""
    try:
        return tomllib.loads(scenario)
    except tomllib.TOMLDecodeError:
        return {}
