"""A capture of a mobile core among an operator's files: its sessions and its users' packets as a scenario.

Of several user planes the one that most UEs' packets pass stands. What crosses between it and other nodes of the core
is left out, so that no packet is played twice; so is what UEs and the control plane say to each other by link-local
addresses. Two files stand beside the scenario: sessions, and that user plane's packets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from wirespeed import files
from wirespeed.errors import InputError
from wirespeed.mobile import core, rules
from wirespeed.mobile.core import MobileCapture, UserPlaneNode, Way
from wirespeed.mobile.frames import Address, CapturedFrames, datagram, is_capture, write_frame, write_header
from wirespeed.mobile.n4 import N4Session
from wirespeed.mobile.rules import SessionRows
from wirespeed.operators.facts import Told

PathLike = str | os.PathLike[str]
KIND: Final = "pfcp"
TITLE: Final = "a capture with PFCP and GTP-U"
_SESSIONS, _PACKETS = ".sessions.toml", ".n3.pcap"


@dataclass(frozen=True, slots=True)
class ImportedCapture:
    """A capture, the user plane that was taken of it, and what of its sessions fits."""

    capture: MobileCapture
    node: UserPlaneNode
    rows: SessionRows

    def told(self, out: PathLike | None = None) -> Told:
        """What it tells of a scenario that is written to `out`."""
        told = Told(KIND, TITLE, str(self.capture.path))
        sessions, packets = names(out if out is not None else self.capture.path)
        told.fact("function", "upf", None, note="the user plane of a mobile core")
        told.fact("sessions", sessions.name, None, note=f"{len(self.rows.rows)} of {len(self.node.sessions)} sessions")
        told.fact("capture", packets.name, None, note=f"user plane {self.node.address}")
        ends = [end for end in self.node.tunnels if end.version == 4]
        if ends:
            told.fact("tunnel_address", str(min(ends)), None, note="its end of the tunnels")
        if self.node.seconds > 0:
            rate = self.node.packets / self.node.seconds
            told.fact("packet_rate", rate, None, note=f"{self.node.packets} packets in {self.node.seconds:.4g} s")
        for what, count in self.rows.left_out.items():
            told.note(f"left out: {count} {what}")
        others = [node for node in self.capture.nodes() if node.address != self.node.address]
        for node in others:
            told.note(f"another user plane, {node.address}, has {len(node.sessions)} sessions; it is left out")
        told.notes += self.capture.notes
        return told

    def write(self, out: PathLike) -> tuple[Path, Path]:
        """Writes both files beside a scenario. Raises InputError and OSError as `files.write`."""
        sessions, packets = names(out)
        files.write(sessions, rules.toml(self.rows, self.capture.path.name))
        with files.whole(packets) as file:
            write_header(file)
            for frame in CapturedFrames(self.capture.path):
                found = datagram(frame.ip)
                if found is None or found.dst_port != core.GTPU_PORT:
                    continue
                tunnel = core.gpdu(found.payload)
                if tunnel is None or core.is_link_local(tunnel[1]):
                    continue
                if self._is_played(found.src, found.dst, tunnel[0]):
                    write_frame(file, frame)
        return sessions, packets

    def _is_played(self, src: Address, dst: Address, teid: int) -> bool:
        """Whether a packet comes from the access network to this user plane, or goes there from it."""
        crosses = (dst, teid) in self.capture.crossing.get(self.node.address, ())
        return (dst in self.node.tunnels or src in self.node.tunnels) and not crosses

    def document(self) -> dict[str, Any]:
        """What the capture has, as JSON."""
        capture = self.capture
        return {
            "file": str(capture.path),
            "packets": capture.packets,
            "pfcp_messages": capture.messages,
            "pfcp_damaged": capture.damaged,
            "gtpu_packets": capture.tunnelled,
            "gtpu_matched": capture.matched,
            "user_plane": str(self.node.address),
            "sessions": [_session(capture, each) for each in capture.sessions],
            "left_out": dict(self.rows.left_out),
        }


def names(out: PathLike) -> tuple[Path, Path]:
    """The files beside a scenario: of sessions, and of packets."""
    path = Path(out)
    stem = path.with_name(path.name.partition(".")[0] or path.name)
    return stem.with_name(stem.name + _SESSIONS), stem.with_name(stem.name + _PACKETS)


def separated(given: Iterable[PathLike], kind: str | None) -> tuple[list[PathLike], ImportedCapture | None]:
    """The files that are text, and the capture among them. Raises InputError, where there are two, and OSError."""
    texts: list[PathLike] = []
    captures: list[PathLike] = []
    for file in given:
        # What comes by a pipe is read once: it is text.
        is_one = kind == KIND or (kind is None and Path(file).is_file() and is_capture(file))
        (captures if is_one else texts).append(file)
    if len(captures) > 1:
        raise InputError(f"{captures[1]}: is a second capture; one at a time is read (mergecap joins them)")
    return texts, read(captures[0]) if captures else None


def read(path: PathLike) -> ImportedCapture:
    """A capture and the user plane to take of it. Raises InputError where no session of it can be used, and OSError."""
    if Path(path).exists() and not Path(path).is_file():
        raise InputError(f"{path}: is no regular file; a capture is read twice (write it to a file first)")
    capture = core.read(path)
    if not capture.sessions:
        raise core.no_sessions(capture)
    found = [ImportedCapture(capture, node, rules.rows(capture, node)) for node in capture.nodes()]
    best = next((each for each in found if each.rows.rows), None)
    if best is None:
        why = "; ".join(f"{n} {what}" for each in found for what, n in each.rows.left_out.items())
        raise InputError(f"{path}: no session of it can be used: {why}")
    return best


def _session(capture: MobileCapture, session: N4Session) -> dict[str, Any]:
    """A session with its rules."""
    usage = capture.of(session)
    return {
        "control_plane": str(session.control),
        "user_plane": str(session.user_plane),
        "control_plane_seid": session.control_seid,
        "user_plane_seid": session.user_plane_seid,
        "began": session.began,
        "ended": session.ended,
        "is_whole": session.is_whole,
        "changes": session.changes,
        "pdrs": _rows(session.pdrs.values()),
        "fars": _rows(session.fars.values()),
        "qers": _rows(session.qers.values()),
        "urrs": _rows(session.urrs.values()),
        "endpoints": _rows(session.endpoints.values()),
        "packets": {way.name.lower(): usage.packets[way] for way in Way},
    }


def _rows(states: Iterable[Any]) -> Sequence[dict[str, Any]]:
    return [{key: _plain(value) for key, value in asdict(state).items()} for state in states]


def _plain(value: Any) -> Any:
    """A value as JSON has it: addresses as text."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)
