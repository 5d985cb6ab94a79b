"""Packets of a capture, as far as the control of a mobile network needs them: IP packets, one after the other.

pcap (microseconds and nanoseconds, either byte order) and pcapng, plain or compressed with gzip or xz; link types
Ethernet with VLAN tags, raw IP, BSD null, Linux cooked v1 and v2. Lengths in a file are bounded before they are
believed. A file that is cut ends where it is cut, and says so. The simulator reads captures by itself
(`crates/traffic`); this gives bytes of single packets to Python, which the simulator does not.

Sources: pcap and pcapng as in the IETF drafts draft-ietf-opsawg-pcap and -pcapng, link types as in the tcpdump group's
registry. Left out: reassembly of fragments, IPv6 extension headers.
"""

from __future__ import annotations

import gzip
import lzma
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import IO, BinaryIO, Final, cast

from wirespeed.errors import InputError

Address = IPv4Address | IPv6Address

_PCAP: Final = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000)}
_PCAP_NANO: Final = {b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}
_PCAPNG: Final = b"\x0a\x0d\x0d\x0a"
_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
MOST_FRAME: Final = 1 << 18
"""Bytes of a packet; more is a damaged length. tcpdump's own bound."""
_MOST_BLOCK: Final = 1 << 24
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLANS: Final = (0x8100, 0x88A8, 0x9100)
_UDP: Final = 17


@dataclass(frozen=True, slots=True)
class IpFrame:
    """An IP packet of a capture, from its IP header on."""

    number: int
    """From 1, as Wireshark counts."""
    time_ns: int
    ip: bytes


@dataclass(frozen=True, slots=True)
class Datagram:
    """A UDP datagram, or the first fragment of one."""

    src: Address
    dst: Address
    src_port: int
    dst_port: int
    payload: bytes
    is_fragment: bool


@dataclass(slots=True)
class CapturedFrames:
    """The IP packets of a capture; complete once iterated, when `packets` and `notes` are those of the whole file."""

    path: Path
    packets: int = 0
    notes: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[IpFrame]:
        """Each IP packet. Raises InputError for what is no capture, and OSError."""
        with _plain(self.path) as file:
            frames = self._frames(file)
            while True:
                try:
                    number, time_ns, link, data = next(frames)
                except StopIteration:
                    return
                except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as e:
                    self.notes.append(f"{self.path}: the compression is damaged behind packet {self.packets}: {e}")
                    return
                ip = _ip_of(link, data)
                if ip:
                    yield IpFrame(number, time_ns, ip)

    def _frames(self, file: IO[bytes]) -> Iterator[tuple[int, int, int, bytes]]:
        magic = file.read(4)
        if magic in _PCAP or magic in _PCAP_NANO:
            yield from self._pcap(file, *(_PCAP.get(magic) or _PCAP_NANO[magic]))
        elif magic == _PCAPNG:
            yield from self._pcapng(file)
        else:
            came = magic.hex() or "nothing"
            raise InputError(f"{self.path}: begins with {came}: a pcap or pcapng file is wanted, plain, .gz or .xz")

    def _pcap(self, file: IO[bytes], order: str, scale: int) -> Iterator[tuple[int, int, int, bytes]]:
        head = file.read(20)
        if len(head) < 20:
            raise InputError(f"{self.path}: ends within the header of a pcap file: take the capture again")
        (link,) = struct.unpack(f"{order}16xI", head)
        while record := file.read(16):
            if len(record) < 16:
                self._cut()
                return
            seconds, parts, kept, _ = struct.unpack(f"{order}IIII", record)
            if kept > MOST_FRAME:
                self.notes.append(
                    f"{self.path}: packet {self.packets + 1} says {kept} B: damaged, the rest is left out"
                )
                return
            data = file.read(kept)
            if len(data) < kept:
                self._cut()
                return
            self.packets += 1
            yield self.packets, seconds * 1_000_000_000 + parts * scale, link & 0xFFFF, data

    def _pcapng(self, file: IO[bytes]) -> Iterator[tuple[int, int, int, bytes]]:
        order, interfaces, kind = "<", list[tuple[int, int]](), _PCAPNG
        while kind:
            length = file.read(4)
            body = b""
            if kind == _PCAPNG:
                body = file.read(4)
                order = ">" if body == b"\x1a\x2b\x3c\x4d" else "<"
                interfaces = []
            if len(kind) < 4 or len(length) < 4:
                self._cut()
                return
            (total,) = struct.unpack(f"{order}I", length)
            if total < 12 + len(body) or total > _MOST_BLOCK or total % 4:
                self.notes.append(
                    f"{self.path}: a block of {total} B behind packet {self.packets}: damaged, the rest is left out"
                )
                return
            rest = file.read(total - 8 - len(body))
            if len(rest) < total - 8 - len(body):
                self._cut()
                return
            found = self._block(struct.unpack(f"{order}I", kind)[0], order, rest[:-4], interfaces)
            if found is not None:
                yield found
            kind = file.read(4)

    def _block(
        self, kind: int, order: str, body: bytes, interfaces: list[tuple[int, int]]
    ) -> tuple[int, int, int, bytes] | None:
        """The packet of a block, or nothing where it has none or is damaged."""
        if kind == 1 and len(body) >= 8:
            interfaces.append((struct.unpack_from(f"{order}H", body)[0], _resolution(order, body[8:])))
        heads = {6: ("IIIII", 20), 2: ("HHIIII", 20), 3: ("I", 4)}
        if kind not in heads:
            return None
        self.packets += 1
        shape, size = heads[kind]
        if len(body) < size or not interfaces:
            self.notes.append(f"{self.path}: packet {self.packets}: its block is damaged, and is passed over")
            return None
        fields = struct.unpack_from(order + shape, body)
        at, high, low, kept = (0, 0, 0, fields[0]) if kind == 3 else (fields[0], *fields[-4:-1])
        if at >= len(interfaces) or (kept > len(body) - size and kind != 3):
            self.notes.append(f"{self.path}: packet {self.packets}: its block is damaged, and is passed over")
            return None
        link, per_second = interfaces[at]
        time_ns = ((high << 32) | low) * 1_000_000_000 // per_second
        return self.packets, time_ns, link, body[size : size + kept]

    def _cut(self) -> None:
        self.notes.append(f"{self.path}: the file is cut behind packet {self.packets}")


def is_capture(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a capture does, under its compression. Raises OSError."""
    try:
        with _plain(Path(path)) as file:
            magic = file.read(4)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile):
        return False
    return magic == _PCAPNG or magic in _PCAP or magic in _PCAP_NANO


def datagram(ip: bytes) -> Datagram | None:
    """The UDP datagram of an IP packet; nothing where it is none, or not its first fragment.

    A datagram that a capture has cut has the payload that is there.
    """
    if not ip:
        return None
    if ip[0] >> 4 == 4 and len(ip) >= 20:
        at, total = (ip[0] & 15) * 4, int.from_bytes(ip[2:4])
        flags = int.from_bytes(ip[6:8])
        if ip[9] != _UDP or flags & 0x1FFF or at < 20:
            return None
        src: Address = IPv4Address(ip[12:16])
        dst: Address = IPv4Address(ip[16:20])
        is_fragment = bool(flags & 0x2000)
    elif ip[0] >> 4 == 6 and len(ip) >= 40 and ip[6] == _UDP:
        at, total, is_fragment = 40, 40 + int.from_bytes(ip[4:6]), False
        src, dst = IPv6Address(ip[8:24]), IPv6Address(ip[24:40])
    else:
        return None
    udp = ip[at : max(total, at)]
    if len(udp) < 8:
        return None
    src_port, dst_port, length = struct.unpack_from(">HHH", udp)
    return Datagram(src, dst, src_port, dst_port, udp[8 : max(length, 8)], is_fragment)


def ethernet(frame: IpFrame) -> bytes:
    """The packet in an Ethernet frame of made addresses."""
    kind = _IPV6 if frame.ip[0] >> 4 == 6 else _IPV4
    return bytes((2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2)) + kind.to_bytes(2) + frame.ip


def write_header(file: IO[bytes]) -> None:
    """Begins a pcap file of Ethernet frames with nanoseconds."""
    file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, MOST_FRAME, 1))


def write_frame(file: IO[bytes], frame: IpFrame) -> None:
    """Adds a packet to a pcap file of Ethernet frames. IP's length tells how many bytes were cut off before."""
    data = ethernet(frame)
    has_total = frame.ip[2:4] if frame.ip[0] >> 4 == 4 else frame.ip[4:6]
    total = int.from_bytes(has_total) + (40 if frame.ip[0] >> 4 == 6 else 0)
    seconds, rest = divmod(frame.time_ns, 1_000_000_000)
    file.write(struct.pack("<IIII", seconds & 0xFFFFFFFF, rest, len(data), max(len(data), 14 + total)))
    file.write(data)


def _plain(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        magic = file.read(6)
    if magic[:2] == _GZIP:
        return cast("BinaryIO", gzip.open(path, "rb"))
    if magic == _XZ:
        return cast("BinaryIO", lzma.open(path, "rb"))
    return path.open("rb")


def _resolution(order: str, options: bytes) -> int:
    """Ticks a second of an interface: its option if_tsresol, or a million."""
    at = 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(f"{order}HH", options, at)
        if code == 0:
            break
        if code == 9 and length >= 1 and at + 4 < len(options):
            value = options[at + 4]
            return int(2 ** (value & 0x7F) if value & 0x80 else 10 ** min(value, 18))
        at += 4 + (length + 3) // 4 * 4
    return 1_000_000


def _ip_of(link: int, data: bytes) -> bytes:
    """The IP packet in a frame of a link type, or nothing."""
    at, kind = 0, 0
    if link == 1 and len(data) >= 14:
        at, kind = 14, int.from_bytes(data[12:14])
        while kind in _VLANS and len(data) >= at + 4:
            kind, at = int.from_bytes(data[at + 2 : at + 4]), at + 4
    elif link == 113 and len(data) >= 16:
        at, kind = 16, int.from_bytes(data[14:16])
    elif link == 276 and len(data) >= 20:
        at, kind = 20, int.from_bytes(data[:2])
    elif link in (0, 108) and len(data) >= 4:
        at = 4
        kind = _IPV4 if 2 in (data[0], data[3]) else _IPV6
    elif link in (12, 14, 101, 228, 229) and data:
        kind = {4: _IPV4, 6: _IPV6}.get(data[0] >> 4, 0)
    return data[at:] if kind in (_IPV4, _IPV6) and len(data) > at else b""
