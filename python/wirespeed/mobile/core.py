"""A capture of a mobile core: its sessions, and which tunnelled packets are whose.

One pass follows PFCP (`n4`) and looks each user's packet up in the tunnels that sessions have at that point of the
capture: those that packets come by (the user plane's F-TEIDs), and those that it sends by (outer headers of forwarding
rules). A packet between two user planes is one of both. A user plane makes a change before it answers: what passes
between a request and its answer is looked up again then. What is found is told by session, and by user plane.

Left out: tunnels of outer fragments, GTP-U on another port than 2152, usage of packets that a capture has twice.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

from wirespeed.errors import InputError
from wirespeed.mobile import n4, pfcp
from wirespeed.mobile.frames import Address, CapturedFrames, Datagram, datagram
from wirespeed.mobile.n4 import N4, N4Packet, N4Session
from wirespeed.mobile.pfcp import FTeid

GTPU_PORT: Final = 2152
_GPDU: Final = 255
_EARLY: Final = 256
"""Packets that are kept for an answer on its way; a user plane answers within milliseconds."""
_INNER: Final = 40
"""Bytes of a user's packet that its addresses stand in."""
MOST_NOTES: Final = 20
"""Notes of a capture that are kept."""


class Way(IntEnum):
    """How a tunnelled packet meets a session's user plane."""

    UPLINK = 0
    """It comes from the access network."""
    DOWNLINK = 1
    """It is sent to the access network."""
    FROM_CORE = 2
    """It comes from another user plane, or from the control plane."""
    TO_CORE = 3
    """It is sent to another user plane, or to the control plane."""


@dataclass(frozen=True, slots=True)
class TunnelUse:
    """A session's use of a tunnel."""

    session: N4Session
    way: Way


@dataclass(slots=True)
class Usage:
    """Tunnelled packets of a session, and the UE's addresses that they have."""

    packets: Counter[Way] = field(default_factory=Counter)
    by_teid: Counter[int] = field(default_factory=Counter)
    """Uplink packets by tunnel."""
    addresses: Counter[Address] = field(default_factory=Counter)
    first_ns: int | None = None
    last_ns: int = 0

    @property
    def all(self) -> int:
        """Packets from and to the access network."""
        return self.packets[Way.UPLINK] + self.packets[Way.DOWNLINK]


@dataclass(frozen=True, slots=True)
class UserPlaneNode:
    """A user plane of a capture: its address towards the control plane, its sessions and those of its tunnels."""

    address: Address
    sessions: tuple[N4Session, ...]
    tunnels: frozenset[Address]
    packets: int
    """From and to the access network."""
    seconds: float
    """From the first of them to the last."""


@dataclass(slots=True)
class MobileCapture:
    """What a capture tells of a mobile core."""

    path: Path
    sessions: list[N4Session] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    packets: int = 0
    messages: int = 0
    """PFCP messages that were decoded."""
    damaged: int = 0
    """Datagrams of PFCP that could not be."""
    tunnelled: int = 0
    """Users' packets in GTP-U."""
    matched: int = 0
    """Those of a session."""
    usage: dict[int, Usage] = field(default_factory=dict)
    """By a session's place in `sessions`."""
    crossing: dict[Address, set[tuple[Address, int]]] = field(default_factory=dict)
    """Of each user plane the tunnels between it and other nodes of the core, by their end."""
    _nodes: list[UserPlaneNode] | None = field(default=None, repr=False, compare=False)
    """Found once: several tell of them."""

    def of(self, session: N4Session) -> Usage:
        """What packets a session has."""
        return self.usage[session.place]

    def nodes(self) -> list[UserPlaneNode]:
        """The user planes, the one with most packets of UEs with a told address first."""
        if self._nodes is None:
            self._nodes = self._found_nodes()
        return self._nodes

    def _found_nodes(self) -> list[UserPlaneNode]:
        by_address: dict[Address, list[N4Session]] = {}
        for session in self.sessions:
            by_address.setdefault(session.user_plane, []).append(session)
        nodes = []
        for address, sessions in by_address.items():
            tunnels = {a for s in sessions for p in s.pdrs.values() for a in _ends(s.tunnel_of(p))}
            usage = [used for session in sessions if (used := self.of(session)).first_ns is not None]
            first, last = (min((u.first_ns or 0 for u in usage), default=0), max((u.last_ns for u in usage), default=0))
            packets = sum(used.all for used in usage)
            nodes.append(
                UserPlaneNode(address, tuple(sessions), frozenset(tunnels), packets, max(last - first, 0) / 1e9)
            )
        return sorted(nodes, key=lambda node: (-_told(node.sessions), -node.packets))


def _told(sessions: Sequence[N4Session]) -> bool:
    """Whether a session's rules name a UE's address: a gateway to a data network, and not one before it."""
    return any(session.ue_of(pdr) is not None for session in sessions for pdr in session.pdrs.values())


def read(path: str | os.PathLike[str]) -> MobileCapture:
    """Follows a capture from its first packet to its last. Raises InputError for what is no capture, and OSError."""
    frames = CapturedFrames(Path(path))
    following = _Following(MobileCapture(frames.path))
    for frame in frames:
        found = datagram(frame.ip)
        if found is not None:
            following.packet(frame.number, frame.time_ns, found)
    capture = following.finish()
    capture.packets = frames.packets
    capture.notes = [*frames.notes, *capture.notes]
    return capture


class _Following:
    """One pass over a capture."""

    def __init__(self, capture: MobileCapture) -> None:
        self.capture = capture
        self.n4 = N4()
        # Uses by session, since many may have one tunnel.
        self.tunnels: dict[tuple[Address, int], dict[tuple[int, Way], TunnelUse]] = {}
        self.keys: dict[int, list[tuple[Address, int, Way]]] = {}
        self.usage: dict[int, Usage] = {}
        # Packets of no tunnel, of which an answer on its way may yet tell one.
        self.early: deque[tuple[int, tuple[Address, int, bytes, int]]] = deque(maxlen=_EARLY)

    def packet(self, number: int, time_ns: int, found: Datagram) -> None:
        """Follows a datagram."""
        if pfcp.PORT in (found.src_port, found.dst_port):
            self._control(number, found)
        elif found.dst_port == GTPU_PORT:
            tunnel = gpdu(found.payload)
            if tunnel is not None:
                self.capture.tunnelled += 1
                teid, inner = tunnel
                user = (found.dst, teid, inner[:_INNER], time_ns)
                if not self._user(*user):
                    self.early.append((number, user))

    def _control(self, number: int, found: Datagram) -> None:
        try:
            messages = pfcp.messages(found.payload)
        except pfcp.PfcpError as e:
            self.capture.damaged += 1
            why = " (a fragment: they are not put together)" if found.is_fragment else ""
            self.n4.note(number, f"PFCP that is not sound is passed over{why}: {e}")
            return
        for message in messages:
            self.capture.messages += 1
            for session in self.n4.feed(N4Packet(number, found.src, found.dst, message)):
                self._lay(session)
                self._again(session.asked)

    def _again(self, asked: int) -> None:
        """Looks packets up again that came after a request."""
        left = [each for each in self.early if each[0] < asked or not self._user(*each[1])]
        self.early.clear()
        self.early.extend(left)

    def _lay(self, session: N4Session) -> None:
        """Lays a session's tunnels anew, after a change."""
        for end, teid, way in self.keys.pop(id(session), []):
            del self.tunnels[end, teid][id(session), way]
        if session.ended is not None:
            return
        keys = self.keys[id(session)] = []
        for end, teid, way in _tunnels(session):
            self.tunnels.setdefault((end, teid), {})[id(session), way] = TunnelUse(session, way)
            keys.append((end, teid, way))
            if way in (Way.FROM_CORE, Way.TO_CORE):
                self.capture.crossing.setdefault(session.user_plane, set()).add((end, teid))

    def _user(self, dst: Address, teid: int, inner: bytes, time_ns: int) -> bool:
        """Counts a user's packet; whether its tunnel is one of a session."""
        uses = self.tunnels.get((dst, teid))
        if not uses:
            return False
        self.capture.matched += 1
        for use in uses.values():
            usage = self.usage.setdefault(id(use.session), Usage())
            usage.packets[use.way] += 1
            if use.way is Way.UPLINK:
                usage.by_teid[teid] += 1
            if use.way not in (Way.UPLINK, Way.DOWNLINK):
                continue
            usage.first_ns = time_ns if usage.first_ns is None else min(usage.first_ns, time_ns)
            usage.last_ns = max(usage.last_ns, time_ns)
            address = _address(inner, use.way)
            if address is not None:
                usage.addresses[address] += 1
        return True

    def finish(self) -> MobileCapture:
        """Settles what is left."""
        self.n4.finish()
        capture = self.capture
        capture.sessions = self.n4.sessions
        capture.usage = {at: self.usage.get(id(s), Usage()) for at, s in enumerate(capture.sessions)}
        notes = [f"{capture.path}: {note}" for note in self.n4.notes]
        more = len(notes) - MOST_NOTES
        capture.notes = notes[:MOST_NOTES] + ([f"{capture.path}: {more} more notes"] if more > 0 else [])
        return capture


def gpdu(payload: bytes) -> tuple[int, bytes] | None:
    """The tunnel and the user's packet of a GTP-U datagram; nothing for its other messages, or a header that is cut.

    Source: TS 29.281 V17, 5.1 and 5.2: version 1, sequence and N-PDU numbers, extension headers.
    """
    if len(payload) < 8 or payload[0] >> 4 != 3 or payload[1] != _GPDU:
        return None
    at, following = 8, 0
    if payload[0] & 7:
        if len(payload) < 12:
            return None
        at, following = 12, payload[11] if payload[0] & 4 else 0
    while following:
        length = payload[at] * 4 if at < len(payload) else 0
        if not length or at + length > len(payload):
            return None
        at, following = at + length, payload[at + length - 1]
    return int.from_bytes(payload[4:8]), payload[at:]


def _tunnels(session: N4Session) -> Iterator[tuple[Address, int, Way]]:
    """The tunnels of a session, each once: at its own end, and at far ends."""
    seen = set()
    for pdr in session.pdrs.values():
        tunnel = session.tunnel_of(pdr)
        way = Way.UPLINK if pdr.source == n4.ACCESS else Way.FROM_CORE
        for end in _ends(tunnel):
            seen.add((end, tunnel.teid or 0 if tunnel else 0, way))
    for far in session.fars.values():
        outer = far.outer
        if outer is None or outer.teid is None:
            continue
        way = Way.DOWNLINK if far.destination == n4.ACCESS else Way.TO_CORE
        for address in (outer.v4, outer.v6):
            if address is not None:
                seen.add((address, outer.teid, way))
    yield from sorted(seen, key=str)


def _ends(tunnel: FTeid | None) -> list[Address]:
    return [] if tunnel is None else [a for a in (tunnel.v4, tunnel.v6) if a is not None]


def _address(inner: bytes, way: Way) -> Address | None:
    """The UE's address in its packet: where it comes from, or goes to."""
    if len(inner) >= 20 and inner[0] >> 4 == 4:
        at = 12 if way is Way.UPLINK else 16
        return IPv4Address(inner[at : at + 4])
    if len(inner) >= 40 and inner[0] >> 4 == 6:
        at = 8 if way is Way.UPLINK else 24
        return IPv6Address(inner[at : at + 16])
    return None


def is_link_local(inner: bytes) -> bool:
    """Whether a user's packet comes from a link-local address: what configures an interface, and goes no further."""
    return len(inner) >= _INNER and inner[0] >> 4 == 6 and IPv6Address(inner[8:24]).is_link_local


def no_sessions(capture: MobileCapture) -> InputError:
    """The error about a capture that has no session."""
    what = (
        f"{capture.packets:,} packets, {capture.messages} PFCP messages, {capture.tunnelled:,} users' packets in GTP-U"
    )
    return InputError(
        f"{capture.path}: no session is established in it ({what}): take the capture where PFCP (UDP 8805) passes, "
        "from before UEs register; without PFCP `function.upf` learns UEs from tunnels by itself"
    )
