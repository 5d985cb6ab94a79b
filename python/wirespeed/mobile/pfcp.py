"""Messages of PFCP, the protocol between the control and the user plane of a mobile core: decoded, strictly.

A message is a header and a row of information elements (type, length, value), some of which hold others. What sessions
are made of is decoded; other elements are kept as bytes. Every length is held against what is there: a message is
whole and sound, or a `PfcpError` that names the byte. Elements may stand in any order. Bytes behind those that this
version knows belong to later versions, and are passed over, as the standard asks (7.2.2).

Source: 3GPP TS 29.244 V17.9, sections 7.2 (header), 7.5 (session messages), 8.2 (elements). Libraries looked
at: scapy's `contrib.pfcp` is GPL-2.0; pycrate 0.8.1 is LGPL-2.1 and a wheel of 13 MB; dpkt (BSD) has no PFCP.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from wirespeed.errors import InputError

PORT: Final = 8805
ESTABLISH, ESTABLISHED, MODIFY, MODIFIED, DELETE, DELETED = 50, 51, 52, 53, 54, 55
SESSION_MESSAGES: Final = range(50, 58)
"""Messages of sessions; of nodes those below."""


class PfcpError(InputError):
    """A message that is not sound: what is wrong, and at which byte of the message."""

    def __init__(self, offset: int, what: str) -> None:
        """`offset` counts bytes from the first of the message's header."""
        super().__init__(f"byte {offset}: {what}")
        self.offset = offset
        self.what = what


class Ie:
    """Numbers of information elements (TS 29.244, table 8.1.2-1)."""

    CREATE_PDR, PDI, CREATE_FAR, FORWARDING, DUPLICATING = 1, 2, 3, 4, 5
    CREATE_URR, CREATE_QER, CREATED_PDR = 6, 7, 8
    UPDATE_PDR, UPDATE_FAR, UPDATE_FORWARDING, UPDATE_URR, UPDATE_QER = 9, 10, 11, 13, 14
    REMOVE_PDR, REMOVE_FAR, REMOVE_URR, REMOVE_QER = 15, 16, 17, 18
    CAUSE, SOURCE_INTERFACE, F_TEID, SDF_FILTER, GATE_STATUS, MBR = 19, 20, 21, 23, 25, 26
    PRECEDENCE, VOLUME_THRESHOLD, TIME_THRESHOLD, DESTINATION_INTERFACE, APPLY_ACTION = 29, 31, 32, 42, 44
    PDR_ID, F_SEID, NODE_ID, URR_ID, OUTER_HEADER_CREATION = 56, 57, 60, 81, 84
    UE_ADDRESS, OUTER_HEADER_REMOVAL, FAR_ID, QER_ID = 93, 95, 108, 109
    QFI = 124
    CREATE_ENDPOINT, CREATED_ENDPOINT, UPDATE_ENDPOINT, REMOVE_ENDPOINT, ENDPOINT_ID = 127, 128, 129, 130, 131
    UPDATED_PDR = 256


@dataclass(frozen=True, slots=True)
class FSeid:
    """A session's identifier at one end, and that end's addresses."""

    seid: int
    v4: IPv4Address | None
    v6: IPv6Address | None


@dataclass(frozen=True, slots=True)
class FTeid:
    """A tunnel endpoint of the user plane; without an identifier it is left to the user plane to choose."""

    teid: int | None
    v4: IPv4Address | None = None
    v6: IPv6Address | None = None
    choose_id: int | None = None
    """Rules that name one get one endpoint in common."""


@dataclass(frozen=True, slots=True)
class UeAddress:
    """Addresses of a UE; those that the user plane is to choose are missing."""

    v4: IPv4Address | None
    v6: IPv6Address | None
    is_destination: bool


@dataclass(frozen=True, slots=True)
class OuterHeader:
    """The header that is put before a packet: a tunnel's far end, where it is GTP-U."""

    description: int
    teid: int | None
    v4: IPv4Address | None
    v6: IPv6Address | None


@dataclass(frozen=True, slots=True)
class Volumes:
    """Bytes that a report waits for."""

    total: int | None
    uplink: int | None
    downlink: int | None


@dataclass(frozen=True, slots=True)
class BothWays:
    """A value for each direction: gates (0 is open), or rates in kbit/s."""

    uplink: int
    downlink: int


Decoded = int | str | bytes | FSeid | FTeid | UeAddress | OuterHeader | Volumes | BothWays | None


@dataclass(frozen=True, slots=True)
class Element:
    """An information element: its value, or the elements that it holds."""

    kind: int
    offset: int
    value: Decoded = None
    inner: tuple[Element, ...] = ()

    def all(self, kind: int) -> Iterator[Element]:
        """The elements of a kind that it holds."""
        return (each for each in self.inner if each.kind == kind)

    def first(self, kind: int) -> Decoded:
        """The value of the first of a kind that it holds, or nothing."""
        return next((each.value for each in self.all(kind)), None)

    def number(self, kind: int) -> int | None:
        """The same of a number."""
        value = self.first(kind)
        return value if isinstance(value, int) else None

    def group(self, kind: int) -> Element | None:
        """The first of a kind that it holds."""
        return next(self.all(kind), None)


@dataclass(frozen=True, slots=True)
class Message:
    """A message: its header, and its elements as those of an element of kind 0."""

    kind: int
    seid: int | None
    sequence: int
    body: Element


def messages(data: bytes) -> list[Message]:
    """The messages of a datagram: one, or several bundled. Raises PfcpError."""
    found, at = [], 0
    while True:
        message, end, more = _message(data, at)
        found.append(message)
        if not more:
            return found
        at = end


def _message(data: bytes, at: int) -> tuple[Message, int, bool]:
    if len(data) - at < 8:
        raise PfcpError(at, f"{len(data) - at} B: a header has 8 at least")
    flags, kind, length = struct.unpack_from(">BBH", data, at)
    if flags >> 5 != 1:
        raise PfcpError(at, f"version {flags >> 5}: 1 is known")
    end = at + 4 + length
    if end > len(data):
        raise PfcpError(at + 2, f"a length of {length} B, of which {len(data) - at - 4} are there (a cut capture?)")
    has_seid = bool(flags & 1)
    head = 16 if has_seid else 8
    if 4 + length < head:
        raise PfcpError(at + 2, f"a length of {length} B, less than the header has")
    if kind in SESSION_MESSAGES and not has_seid:
        raise PfcpError(at, f"message {kind} is one of a session, and has no SEID")
    seid = int.from_bytes(data[at + 4 : at + 12]) if has_seid else None
    sequence = int.from_bytes(data[at + head - 4 : at + head - 1])
    body = Element(0, at, None, tuple(_elements(data, at + head, end, 0)))
    return Message(kind, seid, sequence, body), end, bool(flags & 4)


# Groups nest three deep in the standard; a forged message may not nest as deep as it is long.
_DEEPEST: Final = 6
_OTHERS: Final = (78, 79, 80, 85, 86, 87)
"""Usage reports and buffering action rules: opened, and not followed."""
_GROUPS: Final = frozenset(
    (
        *range(Ie.CREATE_PDR, Ie.CREATED_PDR + 1),
        *(Ie.UPDATE_PDR, Ie.UPDATE_FAR, Ie.UPDATE_FORWARDING, Ie.UPDATE_URR, Ie.UPDATE_QER),
        *(Ie.REMOVE_PDR, Ie.REMOVE_FAR, Ie.REMOVE_URR, Ie.REMOVE_QER),
        *range(Ie.CREATE_ENDPOINT, Ie.REMOVE_ENDPOINT + 1),
        *_OTHERS,
        Ie.UPDATED_PDR,
    )
)


def _elements(data: bytes, at: int, end: int, depth: int) -> Iterator[Element]:
    if depth > _DEEPEST:
        raise PfcpError(at, f"groups nest more than {_DEEPEST} deep")
    while at < end:
        if end - at < 4:
            raise PfcpError(at, f"{end - at} B are left: an element has a type and a length, 4 B")
        kind, length = struct.unpack_from(">HH", data, at)
        start, stop = at + 4, at + 4 + length
        if stop > end:
            raise PfcpError(at + 2, f"element {kind} has a length of {length} B, of which {end - start} are there")
        if kind in _GROUPS:
            yield Element(kind, at, None, tuple(_elements(data, start, stop, depth + 1)))
        else:
            decode = _DECODERS.get(kind)
            cursor = _Cursor(data[start:stop], start, kind)
            yield Element(kind, at, cursor.rest() if decode is None else decode(cursor))
        at = stop


class _Cursor:
    """The bytes of an element, taken from the front."""

    __slots__ = ("at", "data", "kind", "start")

    def __init__(self, data: bytes, start: int, kind: int) -> None:
        self.data, self.start, self.kind, self.at = data, start, kind, 0

    def take(self, count: int, what: str) -> bytes:
        """The next bytes. Raises PfcpError where there are fewer."""
        if self.at + count > len(self.data):
            left = len(self.data) - self.at
            raise PfcpError(
                self.start + self.at, f"element {self.kind} ends within its {what}: {left} B of {count} are there"
            )
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, count: int, what: str) -> int:
        return int.from_bytes(self.take(count, what))

    def v4(self, has: int) -> IPv4Address | None:
        return IPv4Address(self.take(4, "IPv4 address")) if has else None

    def v6(self, has: int) -> IPv6Address | None:
        return IPv6Address(self.take(16, "IPv6 address")) if has else None

    def rest(self) -> bytes:
        self.at = len(self.data)
        return self.data


def _f_seid(c: _Cursor) -> FSeid:
    flags = c.number(1, "flags")
    return FSeid(c.number(8, "SEID"), c.v4(flags & 2), c.v6(flags & 1))


def _f_teid(c: _Cursor) -> FTeid:
    flags = c.number(1, "flags")
    if flags & 4:
        return FTeid(None, choose_id=c.number(1, "choose id") if flags & 8 else None)
    return FTeid(c.number(4, "TEID"), c.v4(flags & 1), c.v6(flags & 2))


def _ue_address(c: _Cursor) -> UeAddress:
    flags = c.number(1, "flags")
    # V6, V4, S/D, IPv6D, CHV4, CHV6: what is to be chosen has no bytes.
    return UeAddress(c.v4(flags & 2), c.v6(flags & 1), bool(flags & 4))


def _outer_header(c: _Cursor) -> OuterHeader:
    description = c.number(2, "description")
    # Bits of the first octet: GTP-U/UDP/IPv4, /IPv6, UDP/IPv4, /IPv6, IPv4, IPv6.
    kinds = description >> 8
    teid = c.number(4, "TEID") if kinds & 0b11 else None
    return OuterHeader(description, teid, c.v4(kinds & 0b010101), c.v6(kinds & 0b101010))


def _node_id(c: _Cursor) -> str:
    kind = c.number(1, "type") & 15
    if kind == 0:
        return str(c.v4(1))
    if kind == 1:
        return str(c.v6(1))
    if kind != 2:
        raise PfcpError(c.start, f"a node's id of type {kind}: allowed are 0 (IPv4), 1 (IPv6) and 2 (a name)")
    labels = []
    while c.at < len(c.data):
        labels.append(c.take(c.number(1, "label"), "label").decode("ascii", "replace"))
    return ".".join(labels)


def _sdf_filter(c: _Cursor) -> str | None:
    flags = c.number(1, "flags")
    c.number(1, "spare")
    if not flags & 1:
        return None
    return c.take(c.number(2, "length"), "flow description").decode("ascii", "replace")


def _gates(c: _Cursor) -> BothWays:
    value = c.number(1, "gates")
    return BothWays(value >> 2 & 3, value & 3)


def _volumes(c: _Cursor) -> Volumes:
    flags = c.number(1, "flags")
    return Volumes(*(c.number(8, "volume") if flags & bit else None for bit in (1, 2, 4)))


def _apply_action(c: _Cursor) -> int:
    """The first octet: drop, forward, buffer, notify, duplicate from the lowest bit on."""
    return c.number(1, "flags")


def _whole(count: int, mask: int = -1) -> Callable[[_Cursor], int]:
    return lambda c: c.number(count, "value") & mask


_DECODERS: Final[Mapping[int, Callable[[_Cursor], Decoded]]] = {
    Ie.CAUSE: _whole(1),
    Ie.SOURCE_INTERFACE: _whole(1, 15),
    Ie.F_TEID: _f_teid,
    Ie.SDF_FILTER: _sdf_filter,
    Ie.GATE_STATUS: _gates,
    Ie.MBR: lambda c: BothWays(c.number(5, "uplink rate"), c.number(5, "downlink rate")),
    Ie.PRECEDENCE: _whole(4),
    Ie.VOLUME_THRESHOLD: _volumes,
    Ie.TIME_THRESHOLD: _whole(4),
    Ie.DESTINATION_INTERFACE: _whole(1, 15),
    Ie.APPLY_ACTION: _apply_action,
    Ie.PDR_ID: _whole(2),
    Ie.F_SEID: _f_seid,
    Ie.NODE_ID: _node_id,
    Ie.URR_ID: _whole(4),
    Ie.OUTER_HEADER_CREATION: _outer_header,
    Ie.UE_ADDRESS: _ue_address,
    Ie.OUTER_HEADER_REMOVAL: _whole(1),
    Ie.FAR_ID: _whole(4),
    Ie.QER_ID: _whole(4),
    Ie.QFI: _whole(1, 63),
    Ie.ENDPOINT_ID: _whole(1),
}
