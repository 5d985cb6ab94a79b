"""Sessions of a capture as the file of sessions that `function.upf.sessions` takes.

The simulated function has one user plane, and per session one tunnel each way, IPv4 towards base stations, and rules
with a filter each. What a session has beyond that is not bent to fit: it is left out, and noted with its count.

A rule that buffers at the end of a capture, since its UE is idle, sends where it last sent. Volume quotas are left
out: a control plane grants the next before one is used up. Token buckets hold 1 MB, which is assumed: PFCP has no size
of a bucket.
"""

from __future__ import annotations

import ipaddress
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from wirespeed.mobile import n4
from wirespeed.mobile.core import MobileCapture, Usage, UserPlaneNode
from wirespeed.mobile.frames import Address
from wirespeed.mobile.n4 import FarState, N4Session, PdrState, QerState

_UPLINK, _DOWNLINK = "uplink", "downlink"
_MOST: Final = 2
"""QoS and usage rules that a detection rule of the simulated function has."""
_LAST: Final = 0xFFFF_FFFF
"""The precedence of a rule that has none."""


@dataclass(slots=True)
class SessionRow:
    """A session as the file has it."""

    seid: int
    ue: list[str]
    uplink_teid: int
    peer: IPv4Address
    downlink_teid: int
    qfi: int
    rules: str
    """Its set of rules, as TOML without a name."""
    packets: int
    v6_packets: int


@dataclass(slots=True)
class SessionRows:
    """The sessions of a user plane that fit, and what of them does not."""

    rows: list[SessionRow] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def packets(self) -> int:
        """Packets from and to the access network of the sessions that fit."""
        return sum(row.packets for row in self.rows)


def rows(capture: MobileCapture, node: UserPlaneNode) -> SessionRows:
    """The sessions of a user plane of a capture that fit.

    Of those that have a tunnel or an address in common, one after the other, the one with most packets stands.
    """
    found = SessionRows()
    taken: dict[object, SessionRow] = {}
    candidates = []
    for session in node.sessions:
        row = _row(session, capture.of(session), found.left_out)
        if row is not None:
            candidates.append(row)
    # Cores give out one prefix several times; it stays with the session whose packets have it.
    owners = {row.ue[1]: row for row in sorted(candidates, key=lambda row: row.v6_packets) if len(row.ue) == _MOST}
    for row in sorted(candidates, key=lambda row: -row.packets):
        if len(row.ue) == _MOST and owners[row.ue[1]] is not row:
            row.ue.pop()
            found.left_out[
                "IPv6 prefixes: another session has them, and the simulated function knows one UE by one"
            ] += 1
        keys: list[object] = [("teid", row.uplink_teid), ("seid", row.seid), *row.ue]
        if any(key in taken for key in keys):
            found.left_out["sessions: another one with more packets has their tunnel or address at another time"] += 1
            continue
        taken.update(dict.fromkeys(keys, row))
        found.rows.append(row)
    return found


def toml(found: SessionRows, source: str) -> str:
    """The file of sessions. Sets of rules that are alike stand once."""
    names: dict[str, str] = {}
    for row in found.rows:
        names.setdefault(row.rules, f"rules-{len(names) + 1}")
    parts = [
        f"# Sessions of {''.join(c if c.isprintable() else ' ' for c in source)}, made by `wirespeed import`.",
        "# Identifiers, addresses, tunnels and rules are told by PFCP; burst = 1000000 is assumed.",
        "",
    ]
    for rules, name in names.items():
        parts += ["[[rules]]", f"name = {json.dumps(name)}", rules]
    for row in found.rows:
        parts += [
            "[[session]]",
            f"seid = {row.seid}",
            f"ue = {json.dumps(row.ue)}",
            f"uplink_teid = {row.uplink_teid}",
            f'peer = "{row.peer}"',
            f"downlink_teid = {row.downlink_teid}",
            f"qfi = {row.qfi}",
            f"rules = {json.dumps(names[row.rules])}",
            "",
        ]
    return "\n".join(parts)


def _row(session: N4Session, usage: Usage, left_out: Counter[str]) -> SessionRow | None:
    ue = _addresses(session, usage)
    if not ue:
        left_out["sessions: no UE address, neither told nor of a packet"] += 1
        return None
    uplink = [pdr for pdr in _ordered(session) if pdr.source == n4.ACCESS and session.tunnel_of(pdr) is not None]
    teids = [tunnel.teid or 0 for pdr in uplink if (tunnel := session.tunnel_of(pdr)) is not None]
    if not any(teids):
        left_out["sessions: no tunnel from the access network"] += 1
        return None
    teid = max(dict.fromkeys(teids), key=lambda teid: (usage.by_teid[teid], -teids[::-1].index(teid)))
    others = usage.by_teid.total() - usage.by_teid[teid]
    if others:
        left_out["packets: by another tunnel of their session; the simulated function has one"] += others
    outer = _far_end(session)
    if outer is None and any(_sends(far) for far in session.fars.values()):
        left_out["sessions: a base station with an IPv6 address; packets to it are buffered"] += 1
    peer, downlink_teid = outer or (IPv4Address(0), 0)
    rules, qfi = _rules(session, teid, outer is not None, {str(a).partition("/")[0] for a in ue}, left_out)
    seid = session.user_plane_seid if session.user_plane_seid is not None else session.control_seid or 0
    v6_packets = sum(count for address, count in usage.addresses.items() if isinstance(address, IPv6Address))
    return SessionRow(seid, ue, teid, peer, downlink_teid, qfi, rules, usage.all, v6_packets)


def _addresses(session: N4Session, usage: Usage) -> list[str]:
    """The UE's addresses: those that its rules name, or of a session that names none, those of its packets."""
    v4: dict[IPv4Address, None] = {}
    v6: dict[str, None] = {}
    told: list[Address] = [
        a for pdr in session.pdrs.values() if (ue := session.ue_of(pdr)) for a in (ue.v4, ue.v6) if a is not None
    ]
    for address in told or [address for address, _ in usage.addresses.most_common()]:
        if isinstance(address, IPv4Address) and not address.is_unspecified:
            v4[address] = None
        elif isinstance(address, IPv6Address) and not address.is_unspecified and not address.is_link_local:
            v6[f"{IPv6Address(int(address) >> 64 << 64)}/64"] = None
    return [*map(str, list(v4)[:1]), *list(v6)[:1]]


def _ordered(session: N4Session) -> list[PdrState]:
    return sorted(session.pdrs.values(), key=lambda pdr: (_precedence(pdr), pdr.id))


def _precedence(pdr: PdrState) -> int:
    return _LAST if pdr.precedence is None else pdr.precedence


def _far_end(session: N4Session) -> tuple[IPv4Address, int] | None:
    """The base station's end of the tunnel of the rule that is looked at last, which takes whatever is left."""
    for pdr in reversed(_ordered(session)):
        far = session.fars.get(pdr.far or 0)
        if pdr.source in (n4.CORE, n4.SGI_LAN) and far is not None and _sends(far):
            outer = far.sent_to
            if outer is not None and outer.v4 is not None and outer.teid is not None:
                return outer.v4, outer.teid
    return None


def _rules(session: N4Session, teid: int, has_far_end: bool, ue: set[str], left_out: Counter[str]) -> tuple[str, int]:
    """The set of rules of a session, and its QoS flow."""
    lines: list[str] = []
    fars: dict[tuple[int, str], tuple[int, str]] = {}
    qers: dict[int, None] = {}
    urrs: dict[int, None] = {}
    qfi = 0
    for pdr in _ordered(session):
        direction = _direction(session, pdr, teid, left_out)
        filters = None if direction is None else _filters(pdr, ue, left_out)
        if direction is None or filters is None:
            continue
        action = _action(session.fars.get(pdr.far or 0), direction, has_far_end)
        far, _ = fars.setdefault((pdr.far or 0, direction), (len(fars) + 1, action))
        of = [number for number in dict.fromkeys(pdr.qers) if number in session.qers][:_MOST]
        counted = [number for number in dict.fromkeys(pdr.urrs) if number in session.urrs][:_MOST]
        if len(set(pdr.qers)) > _MOST or len(set(pdr.urrs)) > _MOST:
            left_out["rules: more than two QoS or usage rules of one; the first two stand"] += 1
        qers.update(dict.fromkeys(of))
        urrs.update(dict.fromkeys(counted))
        if direction == _DOWNLINK:
            qfi = next((q for n in of if (q := session.qers[n].qfi) is not None), next(iter(pdr.qfis), qfi))
        lines += [
            "[[rules.pdr]]",
            f"id = {pdr.id}",
            f"precedence = {_precedence(pdr)}",
            f'direction = "{direction}"',
            *([f"filters = {json.dumps(filters)}"] if filters else []),
            *([f"qfi = {pdr.qfis[0]}"] if direction == _UPLINK and len(pdr.qfis) == 1 else []),
            f"far = {far}",
            f"qers = {_places(of, qers)}",
            f"urrs = {_places(counted, urrs)}",
            "",
        ]
    head = [
        _table("far", (_far(at, action) for at, action in fars.values())),
        _table("qer", (_qer(at, session.qers[number]) for at, number in enumerate(qers, 1))),
        _table("urr", (_urr(at, session, number) for at, number in enumerate(urrs, 1))),
        "",
    ]
    return "\n".join([*head, *lines]), qfi


def _table(name: str, rows: Iterable[str]) -> str:
    return f"{name} = [{', '.join(rows)}]"


def _far(at: int, action: str) -> str:
    return f'{{ id = {at}, action = "{action}" }}'


def _places(numbers: Iterable[int], all_: dict[int, None]) -> list[int]:
    """Rules by their place in the set, so that sets of sessions that number them differently are alike."""
    order = list(all_)
    return [order.index(number) + 1 for number in numbers]


def _direction(session: N4Session, pdr: PdrState, teid: int, left_out: Counter[str]) -> str | None:
    """Which way a rule's packets go; nothing for rules that the simulated function does not have."""
    tunnel = session.tunnel_of(pdr)
    far = session.fars.get(pdr.far or 0)
    if far is None:
        left_out["rules: name a forwarding rule that the session does not have"] += 1
        return None
    if pdr.source == n4.CONTROL or far.destination == n4.CONTROL:
        left_out["rules: from or to the control plane"] += 1
        return None
    if pdr.source == n4.ACCESS:
        if tunnel is None or tunnel.teid != teid:
            left_out["rules: of another uplink tunnel of their session"] += 1
            return None
        return _UPLINK
    if pdr.source in (n4.CORE, n4.SGI_LAN):
        return _DOWNLINK
    left_out["rules: from an interface that is neither access nor core"] += 1
    return None


def _action(far: FarState | None, direction: str, has_far_end: bool) -> str:
    if far is None or far.action & n4.DROP or not far.action & (n4.FORWARD | n4.BUFFER):
        return "drop"
    if direction == _UPLINK:
        return "to_core" if far.action & n4.FORWARD else "buffer"
    # What is buffered for an idle UE goes where its packets went: the UE is paged, and comes back.
    return "to_access" if _sends(far) and has_far_end else "buffer"


def _sends(far: FarState) -> bool:
    """Whether its packets go to a tunnel, or went there until it buffered them."""
    return far.sent_to is not None and not far.action & n4.DROP


def _qer(at: int, qer: QerState) -> str:
    words = [f"id = {at}"]
    for way in (_UPLINK, _DOWNLINK):
        if qer.gates is not None and getattr(qer.gates, way) == 1:
            words.append(f"{way}_closed = true")
        rate = 0 if qer.rates is None else getattr(qer.rates, way)
        if rate:  # kbit/s; a rate of 0 is no limit that the standard defines
            words.append(f"{way}_bps = {rate * 1000}")
    return f"{{ {', '.join(words)} }}"


def _urr(at: int, session: N4Session, number: int) -> str:
    urr = session.urrs[number]
    words = [f"id = {at}"]
    if urr.volumes is not None and urr.volumes.total:
        words.append(f"volume_threshold = {urr.volumes.total}")
    if urr.seconds:
        words.append(f"time_threshold_s = {urr.seconds}")
    return f"{{ {', '.join(words)} }}"


def _filters(pdr: PdrState, ue: set[str], left_out: Counter[str]) -> list[str] | None:
    """A rule's filters as the simulated function writes them; nothing where one has no such form."""
    found: list[str] = []
    for text in pdr.filters:
        as_written = None if text is None else flow_filter(text, ue)
        if as_written is None:
            left_out[f"rules: a filter that the simulated function does not have ({shown_filter(text)})"] += 1
            return None
        found += as_written
    return found


def shown_filter(text: str | None) -> str:
    """A filter's text as a message has it."""
    return "no flow description" if text is None else "".join(c if c.isprintable() else "?" for c in text)[:80]


def flow_filter(text: str, ue: set[str]) -> list[str] | None:
    """An IPFilterRule as filters `permit out PROTOCOL from ADDRESS [PORTS] to assigned [PORTS]`, one a pair of ports.

    Nothing for a rule that says more. `ue` are addresses that stand for `assigned`. A rule whose UE is on the left, as
    cores write it for uplink, is turned round.

    >>> flow_filter("permit out 6 from 198.51.100.7/24 80,443 to 10.45.0.2", {"10.45.0.2"})
    ['permit out 6 from 198.51.100.0/24 80 to assigned', 'permit out 6 from 198.51.100.0/24 443 to assigned']
    >>> flow_filter("deny in ip from any to any", set())
    """
    words = text.split()
    if len(words) < 7 or words[:2] != ["permit", "out"] or words[3] != "from" or "to" not in words[5:7]:
        return None
    protocol, to = words[2], words.index("to", 5)
    left, right = words[4:to], words[to + 1 :]
    if not 1 <= len(right) <= _MOST or (protocol != "ip" and not _is_number(protocol, 255)):
        return None
    is_ue = [side[0] == "assigned" or side[0].partition("/")[0] in ue for side in (left, right)]
    if is_ue == [True, False]:
        left, right = right, left
    elif is_ue == [True, True] or (not is_ue[1] and right[0] != "any"):
        return None
    remote, far_ports, ue_ports = _network(left[0]), _ports(left[1:]), _ports(right[1:])
    if remote is None or far_ports is None or ue_ports is None:
        return None
    return [
        " ".join(filter(None, ("permit out", protocol, "from", remote, far, "to assigned", near)))
        for far in far_ports
        for near in ue_ports
    ]


def _network(word: str) -> str | None:
    if word == "any":
        return word
    try:
        return str(ipaddress.ip_network(word, strict=False))
    except ValueError:
        return None


def _ports(words: Sequence[str]) -> list[str] | None:
    """Ports and ranges of a list; one empty word where there is none."""
    found = words[0].split(",") if words else [""]
    for each in found:
        first, dash, last = each.partition("-")
        is_sound = _is_number(first, 65535) and (not dash or (_is_number(last, 65535) and int(first) <= int(last)))
        if words and not is_sound:
            return None
    return found


def _is_number(word: str, most: int) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 5 and int(word) <= most  # 5 digits: a port's
