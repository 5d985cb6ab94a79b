"""What `wirespeed gpu` prints for people: a sentence, the systems side by side, and what binds; or a row a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wirespeed import quantities as q
from wirespeed.gpu.documents import GpuDocument, GpuFound, GpuPoint

NAMES: Final[Mapping[str, str]] = {"hermes": "resident", "batch": "batches"}
_SUBJECTS: Final[Mapping[str, str]] = {"hermes": "a resident kernel carries", "batch": "batches carry"}
_PARTS: Final[Mapping[str, str]] = {
    "fill": "until a warp or batch is full",
    "queue": "until it is its turn",
    "copy_in": "copy in",
    "execute": "on the GPU",
    "commit": "in order, or copy back",
}


def summary(document: GpuDocument) -> RenderableType:
    """The document as text."""
    points = document["points"]
    parts: list[RenderableType] = [Text(sentence(document), "bold"), Text("")]
    if document["vary"] is None:
        parts.append(_systems(points[0]))
        for each in points[0]["systems"]:
            parts += [Text(""), Text(_bound(each)), _bounds(each)]
        if members := points[0]["systems"][0]["members"]:
            parts += [Text(""), Text("Functions of the chain"), _members(members)]
    else:
        parts.append(_varied(document))
    parts += [Text(f"Note: {note}") for note in document["notes"]]
    return Group(*parts)


def sentence(document: GpuDocument) -> str:
    """The answer: what is carried, and by what it is limited."""
    first = document["points"][0]
    told = "; ".join(
        f"{_SUBJECTS[each['system']]} {q.mpps(each['carries_mpps'])} ({q.gbps(each['carries_gbps'])}), limited by "
        f"{each['limit']}"
        for each in first["systems"]
    )
    at = "" if document["vary"] is None else f" At {document['vary']} = {first['value']}:"
    frames = f"frames of {document['frame_bytes']:.0f} B"
    return f"{', '.join(document['functions'])} on {document['preset']}, {frames}.{at} {told[0].upper()}{told[1:]}."


def _systems(point: GpuPoint) -> Table:
    shown = Table(box=None)
    shown.add_column("")
    for each in point["systems"]:
        shown.add_column(NAMES[each["system"]], justify="right", no_wrap=True)
    rows = [_cells(each) for each in point["systems"]]
    for name in rows[0]:
        shown.add_row(name, *(row[name] for row in rows))
    return shown


def _cells(of: GpuFound) -> dict[str, str]:
    delay, held = of["delay_ns"], of["occupancy"]
    return {
        "carries": q.mpps(of["carries_mpps"]),
        "the GPU alone": q.mpps(of["gpu_mpps"]),
        "offered": f"{q.mpps(of['offered_mpps'])}{'' if of['keeps_up'] else ', too much'}",
        "delay, mean": q.duration(delay["mean"]),
        "delay, 99th percentile": q.duration(delay["p99"]),
        **{f"  {words}": q.duration(delay["parts"][name]) for name, words in _PARTS.items()},
        "SIMD efficiency": q.share(of["simd_efficiency"]),
        "instructions a packet": q.digits(of["instructions_per_packet"]),
        "sectors of 32 B a packet": q.digits(of["sectors_per_packet"]),
        "hits in the L2": q.share(of["l2_hit_rate"]),
        "warps a core, at most": f"{held['warps']} of {held['of']}, by {held['limit']}",
    }


def _bound(of: GpuFound) -> str:
    alone = "" if of["limit"] == of["gpu_limit"] else f"; the GPU alone: {of['gpu_limit']}"
    return f"What binds, {NAMES[of['system']]}: {of['limit']}{alone}"


def _bounds(of: GpuFound) -> Table:
    shown = Table(box=None)
    shown.add_column("")
    shown.add_column("is full at", justify="right")
    shown.add_column("used", justify="right")
    for bound in of["bounds"]:
        shown.add_row(bound["resource"], q.mpps(bound["mpps"]), q.share(bound["used"]))
    return shown


def _members(members: list[dict[str, Any]]) -> Table:
    shown = Table(box=None)
    for head in ("", "share of time", "SIMD efficiency", "instructions a warp", "sectors a warp"):
        shown.add_column(head, justify="right" if head else "left")
    for of in members:
        shown.add_row(
            str(of["name"]),
            q.share(of["time_share"]),
            q.share(of["simd_efficiency"]),
            q.digits(of["instructions_per_warp"]),
            q.digits(of["sectors_per_warp"]),
        )
    return shown


def _varied(document: GpuDocument) -> Table:
    shown = Table(box=None)
    shown.add_column(str(document["vary"]), justify="right", no_wrap=True)
    shown.add_column("")
    for head in ("carries", "GPU alone", "mean", "p99"):
        shown.add_column(head, justify="right", no_wrap=True)
    shown.add_column("limited by", no_wrap=True)
    for point in document["points"]:
        for of in point["systems"]:
            shown.add_row(
                str(point["value"]),
                NAMES[of["system"]],
                q.mpps(of["carries_mpps"]),
                q.mpps(of["gpu_mpps"]),
                q.duration(of["delay_ns"]["mean"]),
                q.duration(of["delay_ns"]["p99"]),
                of["limit"].partition(":")[0],
            )
    return shown
