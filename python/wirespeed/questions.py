"""What a reader asks of a run, each question with its answer in a sentence or two, from what was measured.

Nothing here runs anything: what a run does not know it does not answer, and a question without an answer is left out.
How an answer was reckoned stands in it.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wirespeed import ceilings
from wirespeed import quantities as q
from wirespeed.ceilings import CoreCeiling
from wirespeed.slowest import Slowest
from wirespeed.summary import (
    LIMITS,
    LOSSES,
    Family,
    Slice,
    core_cycles,
    curve_text,
    gpu_waits_text,
    headline,
    hot_name,
    hot_text,
    label,
    levels,
    loss_is_known,
    memory_cycles,
    pcie_use,
    proven,
    queue_shares,
    rejected_text,
    search_rejects_text,
    stages,
    status,
)
from wirespeed.summary_types import HotRing, Summary

# What the model's error is known of.
_KINDS: Final[Mapping[str, str]] = {"rate": "rates", "latency": "latency", "hits": "DDIO hits"}
# A load is that of the line from this share on.
_LINE: Final = 0.99
# A smaller gain of the rate is none: rates are reckoned.
_LEAST_GAIN: Final = 0.005
# What is more by this share, or by more, is told as a multiple.
_TIMES: Final = 2.0
# Less than this share of a whole is not worth a word.
_REMARKABLE: Final = 0.1
_DRAM: Final[tuple[Family, ...]] = ("dram",)
# Locks that take more of the cycles are told of.
_LEAST_LOCK: Final = 0.01
# A ring that is fuller on average never runs dry for long: more comes than is taken.
_BURSTS_LOSE: Final = 0.02
"""The largest loss that bursts alone are taken to cause."""
_ALWAYS_FULL: Final = 0.75
_NO_REST: Final = 0.995
"""How busy a core is that bursts alone leave no time to catch up."""
# The section that shows a limit; the path of a packet shows all others.
_WHERE: Final[Mapping[str | None, str]] = {
    "core": "cycles",
    "pcie": "pcie",
    "dram": "dram",
    "iommu": "iommu",
    "gpu": "gpu",
}
# Reasons that are named.
# The shortest ring that is taken, and mbufs that drivers of today fill in at a time, where none is named.
_LEAST_RING: Final = 32
# So many times the packets, as the verdict's own advice has it.
_LONGER: Final = 4
_MOST: Final = 10_000_000
_BULK: Final = 64
_NAMED: Final = 3
# What holds a core up that is neither an instruction nor memory.
_STALLS: Final = ("stall", "doorbell")
_FLAGS: Final = re.compile(r"--set [\w.\[\]]+=[^\s;,)]+|--search \w+")


@dataclass(frozen=True, slots=True)
class Reply:
    """A question, its answer, the section of the report that says more, and what to type; the last two may be empty."""

    question: str
    text: str
    section: str = ""
    command: str = ""


def asked_next(summary: Summary, scenario: str, slow: Slowest | None) -> list[Reply]:
    """What a verdict leaves open: one more core, rings, and where the 99th percentile comes from."""
    return [reply for reply in _left_open(summary, scenario, slow) if reply.text]


def _left_open(summary: Summary, scenario: str, slow: Slowest | None) -> list[Reply]:
    settings = ceilings.read_settings(scenario)
    return [
        Reply("What would one more core bring?", one_more_core(summary, settings), "cores"),
        Reply(
            "Which ring overflows, and how long must it be?",
            rings(summary, settings, slow),
            "cores" if summary.get("lost") else "path",
        ),
        Reply("Where does p99 come from?", _with_gpu(summary, tail(summary, slow)), "path"),
    ]


def one_more_core(summary: Summary, settings: Mapping[str, Any]) -> str:
    """How much more would be carried with one more core, and what ends first; empty where nothing is known of cores."""
    cores = ceilings.of_cores(summary, settings) if summary.get("packets") else None
    if cores is None:
        return ""
    limit = (summary.get("verdict") or {}).get("limit")
    if summary.get("lost") and limit in ("dram", "iommu", "gpu"):
        return f"Nothing: {LIMITS[limit]} is full, and cores wait for it."
    if (hot := summary.get("hot_ring")) is not None:
        return _one_ring(summary, settings, hot)
    receiving = next((len(stage) for stage in stages(summary) if stage[0].get("receives", True)), cores.cores)
    others = [ceilings.of_others(summary, settings, receiving + more * cores.receives) for more in (0, 1)]
    now, then = (
        min([mpps, *(each.mpps for each in found[:1])])
        for mpps, found in zip((cores.mpps, cores.with_one_more), others, strict=True)
    )
    ends = others[1][0] if others[1] else None
    if summary.get("lost") and limit == "core" and ends is not None and then / now - 1 < _LEAST_GAIN:
        return (
            f"What is lost: {_cores(cores)} with one more would come to {q.mpps(cores.with_one_more)}, and {ends.what} "
            f"ends at {q.mpps(ends.mpps)}. Reckoned from how busy {'it is' if cores.cores == 1 else 'they are'}."
        )
    shown = None if summary.get("lost") else proven(summary)
    if shown is not None and (carried := shown.get("carried_mpps") or 0.0) >= now:
        if shown["load"] >= _LINE:
            are = "carries" if cores.cores == 1 else "carry"
            return f"Nothing for the rate: {_cores(cores)} {are} line rate, {q.mpps(carried)}.{_relief(summary, cores)}"
        if then <= carried:
            return f"Not told: {q.mpps(carried)} was carried, more than how busy they are lets {_cores(cores)} come to."
        now = carried
        ends = None if ends is None or ends.mpps <= carried else ends
    gain = then / now - 1
    if gain < _LEAST_GAIN and ends is not None:
        least = "at least " if cores.has_short_bursts else ""
        return (
            f"Nothing for the rate: {ends.what} ends at {q.mpps(ends.mpps)}, and {_cores(cores)}, by how busy "
            f"{_are(cores)}, {_go(cores)} to {least}{q.mpps(cores.mpps)}.{_relief(summary, cores)}"
        )
    more = " or more" if cores.has_short_bursts else ""
    told = f"{q.share(gain, 0)} more: {q.mpps(then)}{more} in place of {q.mpps(now)}{more}"
    if ends is not None and ends.mpps <= then:
        told += f", where {ends.what} ends"
    told += _of_what_comes(summary, then)
    at = f", at {q.digits(cores.cycles)} cycles a packet as now" if cores.cycles else ""
    are = "is" if cores.cores == 1 else "are"
    return f"{told}. Reckoned from how busy {_cores(cores)} {are}{at}.{_locks(summary)}"


def _of_what_comes(summary: Summary, mpps: float) -> str:
    """How a rate compares with what is offered, where that is too much now."""
    offered = summary.get("offered_mpps")
    if not summary.get("lost") or not q.is_number(offered):
        return ""
    # Where one gets more than the others, more than the mean has to be carried.
    return f", which is less than the {q.mpps(offered)} that are offered" if mpps < offered else ""


def _one_ring(summary: Summary, settings: Mapping[str, Any], hot: HotRing) -> str:
    """What one more core brings where one ring is hot, and what an even spread would."""
    told = f"Little: one {hot_name(hot)} is hot, and no core but its own is short. {q.capital(hot['text'])}."
    receiving = next((stage for stage in stages(summary) if stage[0].get("receives", True)), [])
    others = ceilings.of_others(summary, settings, len(receiving))
    ends = others[0] if others and others[0].mpps < hot["even_mpps"] else None
    where = f", where {ends.what} ends" if ends is not None else ""
    return (
        f"{told} Spread evenly, the {hot['cores']} would carry up to {q.mpps(ends.mpps if ends else hot['even_mpps'])}"
        f"{where}: by {hot['remedy']}."
    )


def _cores(cores: CoreCeiling) -> str:
    kind = "" if cores.is_alone else "receiving " if cores.receives else "working "
    return f"the {kind}core" if cores.cores == 1 else f"the {cores.cores} {kind}cores"


def _are(cores: CoreCeiling) -> str:
    return "it is" if cores.cores == 1 else "they are"


def _go(cores: CoreCeiling) -> str:
    return "goes" if cores.cores == 1 else "go"


def _relief(summary: Summary, cores: CoreCeiling) -> str:
    """What one more core takes from those that there are, where it brings no rate."""
    busiest = max((core.get("busy") or 0.0 for core in summary.get("cores") or ()), default=0.0)
    if busiest < 0.5:
        return ""
    share = busiest * cores.cores / (cores.cores + 1)
    parts = summary.get("attribution_ns") or {}
    mean = (summary.get("sojourn_ns") or {}).get("mean")
    waits = sum(parts.get(name) or 0.0 for name in ("ring", "queue"))
    text = f" The busiest would be busy about {q.share(share, 0)}, now {q.share(busiest, 0)}"
    if q.is_number(mean) and waits > _REMARKABLE * mean:
        text += f", and packets would wait less for it, now {q.duration(waits)}"
    return f"{text}."


def _locks(summary: Summary) -> str:
    found = next((part.share for part in core_cycles(summary) if part.reason == "lock"), 0.0)
    if found < _LEAST_LOCK:
        return ""
    return f" Locks take {q.share(found, 0)} of the cycles, and more with each core: it brings less."


def rings(summary: Summary, settings: Mapping[str, Any], slow: Slowest | None) -> str:
    """Which ring overflows and whether a longer one helps, or how far the rings are from it; empty if unknown."""
    if not summary.get("packets"):
        return ""
    lost = {name: n for name, n in (summary.get("drops") or {}).items() if name in LOSSES and n}
    told = _overflow(summary, settings, lost, slow) if lost else _room(summary, settings, slow)
    stalls = summary.get("stalls") or {}
    if told and q.is_number(longest := stalls.get("longest_ns")):
        told += (
            f" A stall of the system of {q.duration(longest)} brings a core {q.digits(stalls.get('packets'))} packets"
        )
        least = stalls.get("least_descriptors")
        told += f": the least ring that survives it has {q.count(least)}." if least else ": no ring survives it."
    elif told and not lost:
        told += " Stalls of the system need longer ones; this run has none (machine.core.stalls)."
    return told


def _overflow(summary: Summary, settings: Mapping[str, Any], lost: Mapping[str, int], slow: Slowest | None) -> str:
    most = max(lost, key=lambda name: lost[name])
    sizes = {
        "no_rx_descriptor": (summary.get("machine") or {}).get("rx_descriptors"),
        "no_tx_descriptor": (settings.get("nic") or {}).get("tx_descriptors"),
    }
    of = f" of {q.count(size)} descriptors" if (size := sizes.get(most)) else ""
    whole = summary.get("lost") or sum(lost.values())
    full = "runs empty" if most == "no_mbuf" else "overflows"
    hot = summary.get("hot_ring")
    if hot is not None and most != ("no_rx_descriptor" if hot["receives"] else "queue_full"):
        hot = None
    told = q.capital(f"{LOSSES[most]}{of} {full}: {q.count(lost[most])} of {q.count(whole)} lost packets.")
    losing = [each for each in queue_shares(summary) if each.receives and each.of_lost]
    shared = (settings.get("nic") or {}).get("rings", "private") != "private"
    if most == "no_rx_descriptor" and hot is None and len(losing) > 1 and not shared:
        all_of = len([each for each in queue_shares(summary) if each.receives])
        every = "both cores" if all_of == 2 else f"all {all_of} cores"
        which = every if len(losing) == all_of else f"{len(losing)} of {all_of} cores"
        told = f"Receive rings{of} overflow, of {which}: {q.count(lost[most])} of {q.count(whole)} lost packets."
    if hot is not None:
        told += f" It is that of core {hot['core']}: {hot['text']}."
    limit = (summary.get("verdict") or {}).get("limit")
    because = "" if limit in (None, "other") else f" {q.capital(LIMITS[limit])} is the limit."
    if hot is not None and hot["full"] >= _ALWAYS_FULL:
        return f"{told} It is {q.share(hot['full'], 0)} full on average: no length helps, a spread over all does."
    fill = _fill(summary, settings, slow) if most == "no_rx_descriptor" else None
    if fill is None:
        return f"{told}{because}"
    held = f" The fullest is {q.share(fill, 0)} full on average"
    # Cores without rest, and those that fall behind by more than bursts explain, lose as much behind any ring: one of
    # 64 descriptors that is refilled by bursts is a third full then. So do those that leave a ring fuller.
    receiving = next((stage for stage in stages(summary) if stage[0].get("receives", True)), [])
    restless = bool(receiving) and all((core.get("busy") or 0.0) >= _NO_REST for core in receiving)
    too_much = (summary.get("loss") or 0.0) > _BURSTS_LOSE or restless
    behind = (limit == "core" and too_much) or summary.get("ring_growth")
    if fill < _ALWAYS_FULL and not behind:
        return f"{told}{held}, so that bursts overflow it: a larger one takes more of them in."
    shorter = " A shorter one (nic.rx_descriptors) keeps waits short and buffers in the LLC." if limit == "core" else ""
    return f"{told}{held}: a larger one only delays that and adds wait.{because}{shorter}"


def _fill(summary: Summary, settings: Mapping[str, Any], slow: Slowest | None) -> float | None:
    """How full the fullest receive rings of a core are on average: as counted, else rate times wait."""
    counted = [each.full for each in queue_shares(summary) if each.receives and each.full is not None]
    if counted:
        return max(counted)
    size, served = (summary.get("machine") or {}).get("rx_descriptors"), ceilings.served_mpps(summary)
    receiving = next((stage for stage in stages(summary) if stage[0].get("receives", True)), [])
    packets = sum(core["packets"] for core in receiving)
    if slow is None or not size or served is None or not packets:
        return None
    room = size * (settings.get("nic") or {}).get("queues_per_core", 1)
    # A packet is sampled on the core that works on it: of one that only receives all wait in its ring.
    of_all = (summary.get("attribution_ns") or {}).get("ring") if len(receiving) == 1 else None
    waits = ((core["packets"], slow.ring_ns.get(core["core"], of_all)) for core in receiving)
    return max((n / packets * served * wait / 1e3 / room for n, wait in waits if wait is not None), default=None)


def _room(summary: Summary, settings: Mapping[str, Any], slow: Slowest | None) -> str:
    size = (summary.get("machine") or {}).get("rx_descriptors")
    served, wait = ceilings.served_mpps(summary), (summary.get("attribution_ns") or {}).get("ring")
    if not loss_is_known(summary) or served is None or not q.is_number(wait):
        return ""
    receiving = [core for stage in stages(summary) if stage[0].get("receives", True) for core in stage]
    held = q.digits(served * wait / 1e3, 2)
    of = f" of {q.count(size)} descriptors" if size else ""
    which = f"the receive ring{of} holds" if len(receiving) == 1 else f"the {len(receiving)} receive rings{of} hold"
    told = f"No ring overflows: {which} {held} packets on average{'' if len(receiving) == 1 else ' together'}"
    ghz = (summary.get("machine") or {}).get("core_ghz")
    cycles = max((core.get("cycles_per_packet") or 0.0 for core in receiving), default=0.0)
    if slow is not None and q.is_number(ghz) and cycles > 0:
        longest, queue = q.duration(slow.longest_ring_ns), q.count(slow.longest_ring_ns * ghz / cycles)
        told += f"; the longest wait that was sampled, {longest}, is that behind about {queue} packets"
        enough = _enough(slow.longest_ring_ns * ghz / cycles, settings)
        if size and enough < size:
            told += f", so that {q.count(enough)} descriptors would do here"
    if size and served > 0 and receiving and (settings.get("nic") or {}).get("rings") != "shared":
        queues = (settings.get("nic") or {}).get("queues_per_core", 1)
        told += f". A ring holds what comes in {q.duration(1e3 * size * len(receiving) * queues / served)}"
    return f"{told}."


def _enough(queue: float, settings: Mapping[str, Any]) -> int:
    """Descriptors of a ring in which `queue` packets stand, beside a burst and those that have no mbuf yet."""
    nic = settings.get("nic") or {}
    driver = nic.get("driver")
    bulk = driver.get("rx_bulk", _BULK) if isinstance(driver, Mapping) else _BULK
    held = max(int(nic.get("burst") or 0), _LEAST_RING) + bulk
    return 1 << math.ceil(math.log2(queue + held))


def tail(summary: Summary, slow: Slowest | None) -> str:
    """What the slowest hundredth waits for and others do not; empty where no sample tells."""
    if slow is None:
        return ""
    excess = slow.slow_ns - slow.mean_ns
    of = f"{q.count(slow.slow)} of {q.count(slow.packets)} sampled packets"
    if excess < _REMARKABLE * slow.mean_ns:
        most = max(slow.slow_parts_ns, key=lambda reason: slow.slow_parts_ns[reason])
        part = _of(summary, most, slow.slow_parts_ns[most], slow.slow_ns)
        return (
            f"From what all packets wait for: the slowest 1 % ({of}) take {q.duration(slow.slow_ns)}, the mean is "
            f"{q.duration(slow.mean_ns)}. Most of it is {part}."
        )
    more = {reason: ns - slow.mean_parts_ns[reason] for reason, ns in slow.slow_parts_ns.items()}
    named = [reason for reason in sorted(more, key=lambda each: -more[each]) if more[reason] > _REMARKABLE * excess]
    parts = [_of(summary, reason, more[reason], excess) for reason in named[:_NAMED]]
    beside = f"{q.duration(slow.slow_ns)} in their mean beside {q.duration(slow.mean_ns)} ({of})"
    if not parts:
        return f"No single part: the slowest 1 % are {q.duration(excess)} slower than the mean, {beside}."
    makes = "make" if len(parts) > 1 else "makes"
    told = f"{_and(parts)} {makes} the slowest 1 % slower than the mean by {q.duration(excess)}, {beside}."
    most = max(slow.slow_parts_ns, key=lambda reason: slow.slow_parts_ns[reason])
    as_all = most == max(slow.mean_parts_ns, key=lambda reason: slow.mean_parts_ns[reason])
    if most not in named[:_NAMED] and as_all:
        part = _of(summary, most, slow.slow_parts_ns[most], slow.slow_ns)
        told += f" The largest part of their time is {part}, as of all packets."
    return q.capital(told)


def _with_gpu(summary: Summary, told: str) -> str:
    """And by which settings a GPU's batches make it, where they do."""
    waits = gpu_waits_text(summary)
    return f"{told} {waits}".lstrip() if waits else told


def _of(summary: Summary, reason: str, ns: float, whole: float) -> str:
    return f"{label(reason, summary.get('attribution_labels'))} ({q.share(min(ns / whole, 1.0), 0)})"


def _and(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def ten(summary: Summary, scenario: str, slow: Slowest | None, assumed: str) -> list[Reply]:
    """The ten questions that a report is read for, in the order in which they come up."""
    if not summary.get("packets"):
        return []
    more = _left_open(summary, scenario, slow)
    settings = ceilings.read_settings(scenario)
    found = [
        Reply("Does it keep wire speed?", _keeps(summary, settings), "numbers"),
        Reply("By how much?", _margin(summary, settings), "rate"),
        Reply("What limits it?", _limit(summary), _WHERE.get((summary.get("verdict") or {}).get("limit"), "path")),
        *more[:2],
        Reply("What is DDIO's share?", ddio := _ddio(summary), "levels", _without_ddio(ddio)),
        *more[2:],
        Reply("How sure is this?", _sure(summary), "assumed"),
        Reply("Does it hold for my server?", _holds(summary, assumed), "assumed"),
        Reply("What do I type next?", *_next(summary)),
    ]
    return [reply for reply in found if reply.text]


def _keeps(summary: Summary, settings: Mapping[str, Any]) -> str:
    packets, lost, upper = summary.get("packets"), summary.get("lost"), summary.get("loss_upper_95")
    bound = f"; fewer than {upper * 1e6:.3g} in a million, at 95 %" if q.is_number(upper) else ""
    none = f"none of {q.count(packets)} packets was lost{bound}"
    told = search_rejects_text(summary) or rejected_text(summary)
    rejects = f" {told}." if told else ""
    match status(summary):
        case "line_rate":
            return f"Yes: at line rate {none}.{_doubt(summary)}{rejects}"
        case "loses":
            offered = _of_line(summary)
            return f"No: {q.count(lost)} of {q.count(packets)} packets were lost at {offered}.{rejects}"
        case "found":
            return f"No: {_found(summary)}.{rejects}"
        case "carries":
            further = curve_text(summary) or _line_rate(summary, settings)
            return f"At {_of_line(summary)} yes: {none}. {further}{_doubt(summary)}{rejects}"
    # What rejects keeps up with what is offered, and carries less.
    return f"None was lost, but not all is carried. {told}." if told and not summary.get("lost") else headline(summary)


def _line_rate(summary: Summary, settings: Mapping[str, Any]) -> str:
    """What is known of line rate where it was not offered."""
    served, load, cores = ceilings.served_mpps(summary), summary.get("load"), ceilings.of_cores(summary, settings)
    if served is None or not q.is_number(load) or not 0 < load < 1 or cores is None or cores.mpps >= served / load:
        return "Line rate was not offered."
    may = "may end" if cores.has_short_bursts else "end"
    may = f"{may}s" if cores.cores == 1 and not cores.has_short_bursts else may
    line = f"Not at line rate, {q.mpps(served / load)}, which was not offered"
    return f"{line}: {_cores(cores)} {may} at {q.mpps(cores.mpps)}."


def _doubt(summary: Summary) -> str:
    """That measured servers of its kind came to less than is offered, where the model's error leaves room for that."""
    errors = (summary.get("verdict") or {}).get("model_errors") or []
    high = next((each.get("high") for each in errors if each.get("kind") == "rate" and each.get("rows")), None)
    (_, full), offered = _rate_told(summary), summary.get("offered_mpps")
    if not q.is_number(high) or full is None or not q.is_number(offered) or full / (1 + high) >= offered:
        return ""
    return (
        f" That is in simulation: by its error on measured servers a real one may end at {q.mpps(full / (1 + high))}."
    )


def _of_line(summary: Summary) -> str:
    offered, line = summary.get("offered_gbps"), summary.get("line_rate_gbps")
    if not q.is_number(offered) or not q.is_number(line) or line <= 0:
        return "what was offered"
    return "line rate" if offered >= _LINE * line else f"{q.share(offered / line, 0)} of line rate"


def _found(summary: Summary) -> str:
    search = summary.get("search") or {}
    kind, load = str(search.get("kind", "")).upper(), q.share(search.get("load"))
    return f"{kind} is {q.mpps(search.get('mpps'))}, {load} of line rate"


def _margin(summary: Summary, settings: Mapping[str, Any]) -> str:
    verdict = summary.get("verdict") or {}
    headroom, beyond = verdict.get("headroom"), verdict.get("beyond_model_error")
    served, offered = ceilings.served_mpps(summary), summary.get("offered_mpps")
    if status(summary) == "found":
        told = f"{_found(summary)}: {q.share(1 - (summary.get('search') or {}).get('load', 1.0))} short"
    elif summary.get("lost") and q.is_number(offered) and served is not None:
        told = f"{q.mpps(served)} of {q.mpps(offered)} get through: {q.share(1 - served / offered)} short"
    elif q.is_number(headroom):
        told = _left(summary, settings, headroom)
    else:
        return ""
    return f"{told}.{_margin_by_model(summary, headroom, beyond)}"


def _margin_by_model(summary: Summary, headroom: object, beyond: bool | None) -> str:
    """What the model's error makes of the answer to wire speed, and of what is left."""
    told = {
        True: " The model's error would not change the answer to wire speed.",
        False: " The model's error could change the answer to wire speed.",
        None: "",
    }[beyond]
    errors = (summary.get("verdict") or {}).get("model_errors") or []
    ends = next(((each["low"], each["high"]) for each in errors if each["kind"] == "rate" and each.get("rows")), None)
    if (
        summary.get("lost")
        or not q.is_number(headroom)
        or headroom >= _TIMES
        or ends is None
        or status(summary) == "found"
    ):
        return told
    low, high = ends
    if not q.is_number(low) or not q.is_number(high) or low <= -1:
        return told
    shown, load = proven(summary), summary.get("load")
    if shown is not None and q.is_number(load) and load > 0 and shown["load"] / load - 1 >= headroom:
        return told
    limit = (summary.get("verdict") or {}).get("limit")
    least, most = ((1 + headroom) / (1 + end) - 1 for end in (high, low))
    from_least = f"{q.share(abs(least), 0)}{' less' if least < 0 else ''}"
    what = LIMITS[limit] if limit else "it"
    return f"{told} By the model's error {what} is full at {from_least} to {q.share(most, 0)} more."


def _left(summary: Summary, settings: Mapping[str, Any], headroom: float) -> str:
    """How much more could be offered than was."""
    limit, load = (summary.get("verdict") or {}).get("limit"), summary.get("load")
    cores = ceilings.of_cores(summary, settings)
    is_least = limit == "core" and cores is not None and cores.has_short_bursts
    earliest = ", and later as bursts grow" if is_least else ""
    to_line = 1 / load - 1 if q.is_number(load) and load > 0 else 0.0
    shown = proven(summary)
    if shown is not None and q.is_number(load) and load > 0 and (further := shown["load"] / load - 1) > _LEAST_GAIN:
        if shown["load"] >= _LINE:
            full = f"; {LIMITS[limit]} is full at {_more(headroom)}{earliest}" if limit and to_line < headroom else ""
            return q.capital(f"line rate is {_more(to_line)}, and was carried without loss{full}")
        if further >= headroom:
            return q.capital(f"at least {_more(further)} was carried without loss; line rate is {_more(to_line)}")
    if to_line < _LEAST_GAIN:
        full = f"{q.share(headroom)} above" if headroom < _TIMES else f"{q.digits(1 + headroom, 2)} times"
        told = f"{LIMITS[limit]} is full at {full} line rate{earliest}"
    elif to_line < headroom:
        told = f"line rate is {_more(to_line)}; {LIMITS[limit]} is full at {_more(headroom)}{earliest}"
    else:
        told = f"{LIMITS[limit]} is full at {_more(headroom)}{earliest}; line rate is {_more(to_line)}"
    return q.capital(told)


def _more(share: float) -> str:
    """So much more than was offered."""
    if share >= _TIMES:
        return f"{q.digits(1 + share, 2)} times what was offered"
    return f"{q.share(share, 1 if share < 1 else 0)} more"


def _limit(summary: Summary) -> str:
    verdict, dram = summary.get("verdict") or {}, summary.get("dram") or {}
    limit = verdict.get("limit")
    if limit is None:
        return ""
    near = "" if summary.get("lost") or status(summary) == "found" else "Nothing yet; nearest is "
    told = q.capital(f"{near}{LIMITS[limit]}")
    if limit == "core":
        hot = hot_text(summary)
        return f"{told}{_busiest(summary)}{'' if hot is None else f' {hot}'}"
    if limit == "pcie" and (use := pcie_use(summary)) is not None:
        way = use.fuller
        told += f": {q.digits(way.gbps)} of {q.digits(use.rate_gbps)} Gbps {way.name}, headers included."
        return told + _at_line_rate(summary, way.gbps, use.rate_gbps)
    if limit == "dram":
        moved, peak = dram.get("bandwidth_gb_per_s"), dram.get("peak_gb_per_s")
        return f"{told}: {q.digits(moved)} of {q.digits(peak)} GB/s."
    return f"{told}."


def _ddio(summary: Summary) -> str:
    found = next((level for level in levels(summary) if level.get("name") == "DDIO"), None)
    if found is None:
        return "No share: the machine has no I/O ways." if (summary.get("machine") or {}).get("io_ways") == 0 else ""
    if (summary.get("gpu") or {}).get("attached") == "discrete":
        return "Not told: what the GPU's copies write is counted with what the NIC writes."
    rate = found.get("hit_rate")
    if not q.is_number(rate):
        return ""
    told = f"Of the lines that the NIC writes, {q.share(rate, 0)} are in the LLC already{_allocated(summary, found)}."
    told += f" {_missed(summary)}"
    return f"{told.strip()}{_WITHOUT if _waits_for_dram(summary) else ''}"


def _allocated(summary: Summary, ddio: Mapping[str, Any]) -> str:
    """Lines that are allocated for a packet that a core took, and writes of DRAM: lines that were written, and go."""
    misses, packets = ddio.get("misses") or 0, summary.get("taken_packets") or summary.get("packets") or 0
    writes = (summary.get("dram") or {}).get("writes")
    if not packets or misses < _FEW_LINES * packets:
        return ""
    told = f"; the rest is {q.digits(misses / packets)} lines a packet"
    return told + (
        f", beside {q.digits(writes / packets)} writes of DRAM for all reasons" if q.is_number(writes) else ""
    )


def _first_come(summary: Summary) -> tuple[int, int]:
    """Lines of packets that a core or a prefetch of its has come for first: those that a cache had, and all of them."""
    firsts = [_counts(each) for each in levels(summary) if each.get("name") in ("first touch", "first prefetch")]
    return sum(hits for hits, _ in firsts), sum(lookups for _, lookups in firsts)


def _touches(summary: Summary) -> tuple[int, int] | None:
    """Lines that a core or a prefetch came for first and a cache had, and all of them; None where none were counted.

    Where some skip the LLC, or a table answers before it, its lookups do not have them.
    """
    llc = next((each for each in levels(summary) if each["name"] == "LLC"), None)
    (hits, touched), (llc_hits, asked) = _first_come(summary), _counts(llc or {})
    if summary.get("applications") or summary.get("copy_table") or not 0 < touched <= asked:
        return None
    return (hits, touched) if hits <= llc_hits and touched - hits <= asked - llc_hits else None


def _counts(level: Mapping[str, Any]) -> tuple[int, int]:
    """Hits and lookups."""
    hits = level.get("hits") or 0
    return hits, hits + (level.get("misses") or 0)


def _busiest(summary: Summary) -> str:
    """Of the cores that a packet passes those with the busiest: how busy, and what their cycles go to."""
    found = stages(summary)
    if not found:
        return "."
    busy = [max(core.get("busy") or 0.0 for core in stage) for stage in found]
    most = busy.index(max(busy))
    least = min(core.get("busy") or 0.0 for core in found[most])
    told = f": the busiest is busy {q.share(busy[most], 0)} of the time"
    if len(found) == 1 and len(found[0]) > 1 and least > ceilings.SATURATED:
        told = f": all {len(found[0])} are busy {q.share(least, 0)} of the time"
    if len(found) > 1:
        does = ("receives", "works") if found[most][0].get("receives", True) else ("works", "receives")
        told = f" that {does[0]}{told}, the busiest that {does[1]} {q.share(busy[1 - most], 0)}"
    parts = core_cycles(summary, [found[most]])
    return f"{told}.{_spent(parts) if parts else ''}"


def _spent(parts: Sequence[Slice]) -> str:
    """What the cycles of a packet go to: instructions and memory, and what of that most."""
    work = sum(part.share for part in parts if part.reason == "core")
    held = sum(part.share for part in parts if part.reason in _STALLS)
    of = {family: sum(part.share for part in parts if part.family == family) for family in ("dram", "shared")}
    told = f" Of a packet's cycles there {q.share(work, 0)} execute instructions"
    if held >= _LEAST_LOCK:
        told += f", {q.share(held, 0)} are stalls of branches, chains and doorbells"
    told += "; memory's share is"
    return (
        f"{told} {q.share(sum(of.values()), 0)}: {q.share(of['dram'], 0)} wait for DRAM, {q.share(of['shared'], 0)} "
        f"for the LLC and other cores."
    )


def _at_line_rate(summary: Summary, gbps: float | None, rate: float) -> str:
    """How full a link would be at line rate, where less was offered and none lost: by bytes a packet as now."""
    load = summary.get("load")
    if summary.get("lost") or not q.is_number(gbps) or not q.is_number(load) or not 0 < load < _LINE:
        return ""
    full = gbps / load / rate
    return f" Line rate would take {q.share(full, 0)} of it." if full < 1 else " Line rate would take more than it has."


def _without_ddio(told: str) -> str:
    """The command that measures what DDIO brings, where the answer ends with it."""
    return "wirespeed compare scenario.toml scenario.toml,machine.llc.io_ways=0" if told.endswith(":") else ""


# A smaller share of the cycles would be told as none.
_LEAST_SHARE: Final = 0.001
# Fewer lines a packet that the NIC's writes allocate push out nothing worth a word.
_FEW_LINES: Final = 0.01
_WITHOUT: Final = " What DDIO brings in all is the difference to a run without it:"


def _waits_for_dram(summary: Summary) -> bool:
    """Whether cores wait for DRAM, as far as their cycles are known."""
    missed, whole = memory_cycles(summary, _DRAM), sum(part.ns for part in core_cycles(summary))
    ghz = (summary.get("machine") or {}).get("core_ghz")
    return q.is_number(ghz) and missed is not None and 0 < missed < whole


def _missed(summary: Summary) -> str:
    """What cores pay for lines that the LLC lacks: packets that have left it before a core came, and all else."""
    ghz = (summary.get("machine") or {}).get("core_ghz")
    missed, whole = memory_cycles(summary, _DRAM), sum(part.ns for part in core_cycles(summary))
    if not q.is_number(ghz) or missed is None or missed >= whole:
        return ""
    found, first = _first_come(summary)
    kept = f"{q.share(found / first, 0)} of packets' lines are still cached when a core first comes" if first else ""
    if not missed:
        return f"Cores wait for no DRAM: more ways for devices bring them nothing.{f' {kept}.' if kept else ''}"
    llc = next((each for each in levels(summary) if each.get("name") == "LLC"), None)
    touched, lacked = _touches(summary), (llc or {}).get("misses") or 0
    wait = f"cores wait {q.duration(missed / ghz)} a packet for DRAM, {q.share(missed / whole)} of their cycles"
    by_prefetch = any(each.get("name") == "first prefetch" and _counts(each)[1] for each in levels(summary))
    if touched is None or not lacked or by_prefetch:
        return f"{q.capital(wait)}, for packets and tables.{f' {kept}.' if kept else ''}"
    gone = (touched[1] - touched[0]) / lacked * missed / whole
    share = f"about {q.share(gone)}" if gone >= _LEAST_SHARE else "next to none"
    return (
        f"Packets that had left the LLC when a core first came take {share} of the cores' cycles"
        f"{f': {kept}' if kept else ''}. In all {wait}, the rest for tables and all else."
    )


def _sure(summary: Summary) -> str:
    sojourn = summary.get("sojourn_ns") or {}
    chance = [
        f"{words} from {q.ends(*within)}"
        for name, words in (("mean", "mean sojourn"), ("p99", "p99"))
        if (within := _by_chance(summary, name)) is not None
    ]
    loss, wide = summary.get("loss"), summary.get("loss_half_width")
    if summary.get("lost") and q.is_number(loss) and q.is_number(wide) and wide > 0:
        chance.append(f"loss from {q.probability(max(loss - wide, 0.0))} to {q.probability(min(loss + wide, 1.0))}")
    told = [f"By chance, at 95 %: {_and(chance)}."] if chance else []
    if chance and q.is_number(sojourn.get("p99")) and sojourn.get("p99_half_width", 0.0) is None:
        told.append("Too few packets bound p99.")
    if summary.get("stationary") is False:
        told.append("The run had not settled: what is a mean depends on how long it ran.")
    if unsettled := _unsettled(summary):
        told.append(f"Not settled when measuring began: {unsettled}")
    return " ".join([*told, *_model(summary)])


def _unsettled(summary: Summary) -> str:
    """What had not settled when measuring began; empty where all had."""
    return ((summary.get("warmup") or {}).get("why") or "").partition("Not settled: ")[2]


def _by_chance(summary: Summary, name: str) -> tuple[float, float] | None:
    """From where to where the mean or a quantile of the sojourn is, at 95 %; None where that is not bounded."""
    sojourn: Mapping[str, Any] = summary.get("sojourn_ns") or {}
    value, wide = sojourn.get(name), sojourn.get("half_width" if name == "mean" else f"{name}_half_width")
    if not q.is_number(value) or not q.is_number(wide) or value <= 0:
        return None
    low, high = sojourn.get(f"{name}_low"), sojourn.get(f"{name}_high")
    if q.is_number(low) and q.is_number(high):
        return low, high
    return max(value - wide, 0.0), value + wide


def _model(summary: Summary) -> Iterator[str]:
    """What the model's error on measured servers makes of what is told: from where to where it is."""
    errors = (summary.get("verdict") or {}).get("model_errors") or []
    for each in errors:
        low, high = each.get("low"), each.get("high")
        if each.get("rows") and q.is_number(low) and q.is_number(high):
            sources = "source" if each["sources"] == 1 else "sources"
            most = "nine in ten of " if each.get("beyond") else ""
            of = f"{most}{q.count(each['rows'])} measurements of {each['sources']} {sources}"
            band = f"were {_band(low, high, each['kind'])} in {of}"
            within = _by_model(summary, each["kind"], low, high)
            noun = _KINDS[each["kind"]]
            yield f"With the model's error {within} (predictions {band})." if within else f"Predicted {noun} {band}."
    missing = [_KINDS[each["kind"]] for each in errors if not each.get("rows")]
    if missing:
        yield f"No server was measured that tells how far off {_and(missing)} {_is(missing)}."


def _by_model(summary: Summary, kind: str, low: float, high: float) -> str:
    """What the run says, less the errors of predictions: they are predicted over measured less 1, of hits points."""
    if kind == "hits":
        rate = next((each.get("hit_rate") for each in levels(summary) if each.get("name") == "DDIO"), None)
        if not q.is_number(rate):
            return ""
        return f"DDIO hits from {q.share(max(rate - high, 0.0), 0)} to {q.share(min(rate - low, 1.0), 0)}"
    if low <= -1:
        return ""  # nothing was predicted of some: what is measured is not bounded
    if kind == "rate":
        what, mpps = _rate_told(summary)
        if mpps is None:
            return ""
        # No more gets through than is offered.
        offered = summary.get("offered_mpps") if summary.get("lost") else None
        most = offered if offered is not None and q.is_number(offered) else math.inf
        return f"{what} from {q.mpps(min(mpps / (1 + high), most))} to {q.mpps(min(mpps / (1 + low), most))}"
    within = _by_chance(summary, "p99")
    return "" if within is None else f"p99 from {q.ends(within[0] / (1 + high), within[1] / (1 + low))}"


def _rate_told(summary: Summary) -> tuple[str, float | None]:
    """The rate that the run says, and its name: what was searched, what got through, or where something is full."""
    verdict, search = summary.get("verdict") or {}, summary.get("search") or {}
    served = ceilings.served_mpps(summary)
    if status(summary) == "found":
        return str(search.get("kind", "")).upper(), search.get("mpps")
    if summary.get("lost"):
        return "what gets through", served
    headroom, limit = verdict.get("headroom"), verdict.get("limit")
    if served is None or limit is None or not q.is_number(headroom):
        return "", None
    return f"the rate at which {LIMITS[limit]} is full", served * (1 + headroom)


def _band(low: float, high: float, kind: str) -> str:
    """From how much too low to how much too high."""
    unit = "points" if kind == "hits" else "%"
    ends = [f"{abs(end) * 100:.0f} {unit} too {'low' if end < 0 else 'high'}" for end in (low, high)]
    return " to ".join(ends)


def _is(nouns: list[str]) -> str:
    return "is" if nouns == ["latency"] else "are"


def _holds(summary: Summary, assumed: str) -> str:
    machine = (summary.get("machine") or {}).get("name")
    if not machine:
        return ""
    errors = (summary.get("verdict") or {}).get("model_errors") or []
    shared = sorted({part for each in errors for part in each["shared"]})
    known = [_KINDS[each["kind"]] for each in errors if each.get("rows")]
    unknown = [_KINDS[each["kind"]] for each in errors if not each.get("rows")]
    if known:
        of = f" with its {', '.join(shared)}" if shared else ""
        told = f"On a {machine}: {_and(known)} {_is(known)} checked by measured servers{of}"
        told += f", {_and(unknown)} by none" if unknown else ""
    else:
        told = f"On a {machine}: nothing of it is checked by a measured server"
    told += (
        ". On another processor, NIC or driver: no, until it is described (wirespeed import lscpu.json --out mine.toml"
        ", or wirespeed calibrate on it). Comparisons hold better than numbers."
    )
    if assumed:
        told += f" {assumed.split(':')[0]}."
    return told


def to_type(summary: Summary, again: Sequence[str], advise: Sequence[str], out: str = "") -> tuple[str, str]:
    """What to try next, and the whole command that does: `again` runs the scenario again, `advise` asks for advice.

    Settings are added to them, and `--out` with `out`, where pages are wanted.
    """
    kept = ["--out", out] if out else []
    advice = (summary.get("verdict") or {}).get("advice") or []
    if longer := _longer(summary):
        words = ["--set", f"run.packets={longer}"]
        return "The run had not settled: a longer one first.", shlex.join([*_without(again, words), *words, *kept])
    # What limits comes first. Where that has no setting to type, those of what costs less would be no answer.
    for each in advice[:1]:
        # Of several ways the first that can be typed: together they were never meant.
        flags = next((found for way in each.split(", or ") if (found := _FLAGS.findall(way))), None)
        if flags:
            words = [word for flag in flags for word in flag.split(" ", 1)]
            return each, shlex.join([*_without(again, words), *words, *kept])
    if advice:
        return f"{advice[0]} What else would pay:", shlex.join([*advise, *kept])
    if not summary.get("search"):
        search = shlex.join([*again, "--search", "ndr", *kept])
        return "The highest rate without loss is found by a search.", search
    return "What would pay most:", shlex.join([*advise, *kept])


def _longer(summary: Summary) -> int | None:
    """Packets of a run that is to settle, where this one had not and lost nothing: they bound its warm-up, too."""
    packets, lost = summary.get("packets") or 0, summary.get("lost") or 0
    had_not = summary.get("stationary") is False or bool(_unsettled(summary))
    # A search has a length of its own, and what has not settled after so many may never do.
    ends = bool(summary.get("search")) or packets > _MOST
    return _LONGER * packets if had_not and packets and not lost and not ends else None


def _without(again: Sequence[str], words: Sequence[str]) -> list[str]:
    """The words of a command less the settings that `words` make anew: the last would hold, and a reader see both."""
    anew = {value.split("=", 1)[0] for flag, value in itertools.pairwise(words) if flag == "--set"}
    kept: list[str] = []
    for word in again:
        if kept and kept[-1] == "--set" and word.split("=", 1)[0] in anew:
            kept.pop()
        else:
            kept.append(word)
    return kept


def _next(summary: Summary) -> tuple[str, str, str]:
    """What to try, the section that says how to run again, and the command: in the folder of the report."""
    scenario = "scenario.toml"
    text, command = to_type(summary, ["wirespeed", "run", scenario], ["wirespeed", "advise", scenario], "next")
    return text, "again", command
