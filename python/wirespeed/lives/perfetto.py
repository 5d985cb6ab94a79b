"""A trace in the JSON object form of the Trace Event Format, which Perfetto and Chrome open.

A track a chosen packet, with what it is in; a track a core, with bursts that have one of them; a track a core and a
slice for what such bursts fetch beyond the private caches. Arrows lead from a packet into its burst and back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from wirespeed.lives.documents import CHOSEN, SERVED, STAGES, Burst, Life, Lives, began

# Processes: of them Perfetto makes groups of tracks, in this order.
_PACKETS, _CORES, _FETCHES, _SLICES = 1, 2, 3, 4
_GROUPS: Final = {
    _PACKETS: "packets",
    _CORES: "cores: bursts",
    _FETCHES: "cores: fetches beyond L2",
    _SLICES: "LLC slices: who asks",
}
# The format's unit of time is a microsecond.
_PS: Final = 1e6


def document(lives: Lives) -> dict[str, Any]:
    """The trace; its time begins with the first packet."""
    start = began(lives)
    bursts = {burst["burst"]: burst for burst in lives["bursts"]}
    events = list(_names(lives))
    for life in lives["packets"]:
        events += _packet(life, start)
        events += _arrows(life, bursts, start)
    for burst in lives["bursts"]:
        events += _burst(burst, start)
    for loss in lives["losses"]:
        name = f"packet {loss['packet']} lost: {loss['reason']}"
        at = (loss["at"] - start) / _PS
        events.append({"ph": "i", "s": "g", "name": name, "ts": at, "pid": _CORES, "tid": loss["core"] + 1})
    return {"displayTimeUnit": "ns", "traceEvents": events, "otherData": {"time_origin_ps": start}}


def _names(lives: Lives) -> Iterator[dict[str, Any]]:
    """Names of groups and tracks."""
    named: dict[tuple[int, int], str] = {}
    for life in lives["packets"]:
        named[_PACKETS, life["packet"] + 1] = (
            f"packet {life['packet']} ({', '.join(CHOSEN[why] for why in life['chosen'])})"
        )
    for burst in lives["bursts"]:
        core = burst["core"]
        named[_CORES, core + 1] = named[_FETCHES, core + 1] = f"core {core}"
        for fetch in burst["fetches"]:
            named[_SLICES, fetch["slice"] + 1] = f"slice {fetch['slice']}"
    for loss in lives["losses"]:
        named.setdefault((_CORES, loss["core"] + 1), f"core {loss['core']}")
    for pid, name in _GROUPS.items():
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
    for (pid, tid), name in named.items():
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def _packet(life: Life, start: int) -> Iterator[dict[str, Any]]:
    told = {
        "fate": life["fate"],
        "frame_bytes": life["frame_bytes"],
        "sojourn_ns": life["sojourn"] / 1e3,
        **({"port": life["port"]} if "port" in life else {}),
    }
    for span in life["spans"]:
        name, _ = STAGES[span["stage"]]
        more = {key: span[key] for key in ("core", "burst") if key in span}
        yield {
            **_event("X", name, span["from"], start, _PACKETS, life["packet"] + 1),
            "dur": (span["to"] - span["from"]) / _PS,
            "cat": span["stage"],
            "args": {**told, **more},
        }


def _burst(burst: Burst, start: int) -> Iterator[dict[str, Any]]:
    core, packets = burst["core"] + 1, burst["packets"]
    yield {
        **_event("X", f"burst of {packets}", burst["from"], start, _CORES, core),
        "dur": (burst["to"] - burst["from"]) / _PS,
        "cat": "burst",
        "args": {"burst": burst["burst"], "packets": packets, "fetches": len(burst["fetches"])},
    }
    for number, fetch in enumerate(burst["fetches"]):
        by = SERVED.get(fetch["served"], fetch["served"])
        path: Counter[str] = Counter()
        for reason, time in fetch["path"]:
            path[reason] += time
        args = {"line": hex(fetch["line"] * 64), "slice": fetch["slice"], "core": burst["core"], "path_ps": path}
        for pid, tid in ((_FETCHES, core), (_SLICES, fetch["slice"] + 1)):
            # They overlap, so they are asynchronous.
            both = {"id": f"{burst['burst']}.{number}", "cat": f"fetch {tid}", "args": args}
            name = f"{fetch['access']}: {by}"
            yield {**_event("b", name, fetch["from"], start, pid, tid), **both}
            yield {**_event("e", name, fetch["to"], start, pid, tid), **both}


def _arrows(life: Life, bursts: dict[int, Burst], start: int) -> Iterator[dict[str, Any]]:
    """From where a packet waits into its burst, and from there to where it goes."""
    packet = life["packet"]
    for before, span, after in zip(life["spans"], life["spans"][1:], [*life["spans"][2:], None], strict=False):
        burst = bursts.get(span.get("burst"))
        if burst is None:
            continue
        both = {"id": f"{packet}.{burst['burst']}", "cat": "life"}
        yield {**_event("s", "life", before["from"], start, _PACKETS, packet + 1), **both}
        yield {**_event("t", "life", burst["from"], start, _CORES, burst["core"] + 1), **both}
        if after is not None:
            yield {**_event("f", "life", after["from"], start, _PACKETS, packet + 1), **both, "bp": "e"}


def _event(phase: str, name: str, at: int, start: int, pid: int, tid: int) -> dict[str, Any]:
    return {"ph": phase, "name": name, "ts": (at - start) / _PS, "pid": pid, "tid": tid}
