"""PFCP, GTP-U and captures, made by hand for tests: written here from the standards, and not by what reads them."""

from __future__ import annotations

import struct
from ipaddress import ip_address

SMF, UPF, GNB, UE, FAR_END = "10.0.0.1", "10.0.0.2", "10.0.1.1", "10.45.0.2", "198.51.100.7"


def ie(kind: int, *parts: bytes) -> bytes:
    """An information element."""
    body = b"".join(parts)
    return struct.pack(">HH", kind, len(body)) + body


def message(kind: int, seid: int | None, sequence: int, *parts: bytes, follow: bool = False) -> bytes:
    """A message, of a session if it has an identifier."""
    head = b"" if seid is None else seid.to_bytes(8)
    body = head + (sequence << 8).to_bytes(4) + b"".join(parts)
    return struct.pack(">BBH", 0x20 | (seid is not None) | follow << 2, kind, len(body)) + body


def ip(address: str) -> bytes:
    """An address."""
    return ip_address(address).packed


def fseid(seid: int, address: str = SMF) -> bytes:
    """An F-SEID of IPv4."""
    return ie(57, b"\x02", seid.to_bytes(8), ip(address))


def fteid(teid: int, address: str = UPF) -> bytes:
    """An F-TEID of IPv4."""
    return ie(21, b"\x01", teid.to_bytes(4), ip(address))


def choose(choose_id: int | None = None) -> bytes:
    """An F-TEID that the user plane is to choose."""
    return ie(21, b"\x05") if choose_id is None else ie(21, b"\x0d", bytes((choose_id,)))


def number(kind: int, value: int, count: int = 4) -> bytes:
    """An element of one number."""
    return ie(kind, value.to_bytes(count))


def ue(address: str = UE) -> bytes:
    """A UE's address."""
    return ie(93, b"\x02" if "." in address else b"\x01", ip(address))


def pdr(
    id_: int, source: int, far: int, *pdi: bytes, precedence: int = 255, kind: int = 1, rules: bytes = b""
) -> bytes:
    """A detection rule, to create (1) or to update (9)."""
    inner = ie(2, ie(20, bytes((source,))), *pdi)
    return ie(kind, number(56, id_, 2), number(29, precedence), inner, number(108, far), rules)


def far(id_: int, action: int, destination: int | None = None, outer: bytes = b"", kind: int = 3) -> bytes:
    """A forwarding rule, to create (3) or to update (10)."""
    forwarding = b"" if destination is None else ie(11 if kind == 10 else 4, ie(42, bytes((destination,))), outer)
    return ie(kind, number(108, id_), ie(44, bytes((action,))), forwarding)


def outer(teid: int, address: str = GNB) -> bytes:
    """The header of a tunnel to a base station."""
    return ie(84, b"\x01\x00", teid.to_bytes(4), ip(address))


def sdf(text: str) -> bytes:
    """A filter of a flow description."""
    return ie(23, b"\x01\x00", len(text).to_bytes(2), text.encode())


ACCEPTED = ie(19, b"\x01")


def establish(
    sequence: int, *, seid: int = 1, pdi: bytes | None = None, rules: bytes = b"", far2: bytes = b""
) -> bytes:
    """An establishment of two rules; the tunnel is chosen by the user plane where `pdi` does not name one."""
    return message(
        50,
        0,
        sequence,
        ie(60, b"\x00", ip(SMF)),
        fseid(seid),
        pdr(1, 0, 1, choose() if pdi is None else pdi, ue(), rules=rules),
        pdr(2, 1, 2, ue(), rules=rules),
        far(1, 2, 1),
        far2 or far(2, 12),
    )


def established(sequence: int, *, seid: int = 1, up: int = 0x77, teid: int = 0x1001) -> bytes:
    """Its answer, with what was chosen."""
    return message(51, seid, sequence, ACCEPTED, fseid(up, UPF), ie(8, number(56, 1, 2), fteid(teid)))


def udp(src: str, dst: str, port: int, payload: bytes, src_port: int | None = None) -> bytes:
    """An IP packet with a datagram."""
    head = struct.pack(">HHHH", src_port or port, port, 8 + len(payload), 0)
    if ":" in src:
        return struct.pack(">IHBB", 6 << 28, 8 + len(payload), 17, 64) + ip(src) + ip(dst) + head + payload
    total = 28 + len(payload)
    return struct.pack(">BBHHHBBH", 0x45, 0, total, 0, 0, 64, 17, 0) + ip(src) + ip(dst) + head + payload


def gtpu(teid: int, inner: bytes, qfi: int | None = None) -> bytes:
    """A user's packet in its tunnel, with a PDU session container where there is a QoS flow."""
    extension = b"" if qfi is None else bytes((0, 0, 0, 0x85, 1, 0x10, qfi, 0))
    flags = 0x34 if extension else 0x30
    return struct.pack(">BBHI", flags, 255, len(extension) + len(inner), teid) + extension + inner


def uplink(teid: int, source: str = UE, station: str = GNB) -> bytes:
    """A UE's packet to the far end, from its base station."""
    return udp(station, UPF, 2152, gtpu(teid, udp(source, FAR_END, 443, b"x" * 20), 9))


def downlink(teid: int, to: str = UE, station: str = GNB) -> bytes:
    """The far end's packet to a UE, to its base station."""
    return udp(UPF, station, 2152, gtpu(teid, udp(FAR_END, to, 443, b"y" * 40)))


def n4(payload: bytes, back: bool = False) -> bytes:
    """A message from the control plane to the user plane, or back."""
    return udp(*((UPF, SMF) if back else (SMF, UPF)), 8805, payload)


def two_hops() -> list[bytes]:
    """A core with a gateway before its user plane: both their sessions, and a UE's packets on both hops."""
    gateway, control = "10.0.0.3", "10.0.0.4"
    before = message(
        50,
        0,
        5,
        fseid(6, control),
        pdr(1, 0, 1, fteid(0x51, gateway)),
        pdr(2, 1, 2, fteid(0x52, gateway)),
        far(1, 2, 1, outer(0x1001, UPF)),
        far(2, 2, 0, outer(7)),
    )
    found = [
        n4(establish(2, far2=far(2, 2, 0, outer(0x52, gateway)))),
        n4(established(2), back=True),
        udp(control, gateway, 8805, before),
        udp(gateway, control, 8805, message(51, 6, 5, ACCEPTED, fseid(9, gateway))),
    ]
    up, down = udp(UE, FAR_END, 443, b"x" * 20), udp(FAR_END, UE, 443, b"y" * 400)
    for _ in range(20):
        found += [
            udp(GNB, gateway, 2152, gtpu(0x51, up)),
            udp(gateway, UPF, 2152, gtpu(0x1001, up)),
            udp(UPF, gateway, 2152, gtpu(0x52, down)),
            udp(gateway, GNB, 2152, gtpu(7, down)),
        ]
    return found


_MADE = bytes((2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2))


def framed(packet: bytes, link: int) -> bytes:
    """An IP packet as a frame of a link type."""
    kind = (0x86DD if packet[0] >> 4 == 6 else 0x0800).to_bytes(2)
    heads = {
        1: _MADE + b"\x81\x00\x00\x05" + kind,
        0: b"\x02\x00\x00\x00" if packet[0] >> 4 == 4 else b"\x1e\x00\x00\x00",
        101: b"",
        113: bytes(14) + kind,
        276: kind + bytes(18),
    }
    return heads[link] + packet


def pcap(packets: list[bytes], link: int = 1, order: str = "<", nano: bool = False) -> bytes:
    """A pcap file of packets a millisecond apart."""
    magic, unit = (0xA1B23C4D, 1_000_000) if nano else (0xA1B2C3D4, 1_000)
    found = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    records = [found]
    for at, packet in enumerate(packets):
        data = framed(packet, link)
        seconds, parts = divmod(at * unit, 1000 * unit)
        records.append(struct.pack(f"{order}IIII", 1000 + seconds, parts, len(data), len(data)) + data)
    return b"".join(records)


def block(order: str, kind: int, body: bytes) -> bytes:
    """A block of pcapng."""
    body += bytes(-len(body) % 4)
    return struct.pack(f"{order}II", kind, 12 + len(body)) + body + struct.pack(f"{order}I", 12 + len(body))


def pcapng(packets: list[bytes], link: int = 1, order: str = "<") -> bytes:
    """The same as pcapng, in nanoseconds."""
    found = block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    options = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)
    found += block(order, 1, struct.pack(f"{order}HHI", link, 0, 0) + options)
    for at, packet in enumerate(packets):
        data, time = framed(packet, link), 1_000_000_000_000 + at * 1_000_000
        head = struct.pack(f"{order}IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data))
        found += block(order, 6, head + data)
    return found
