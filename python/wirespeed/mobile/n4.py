"""Sessions of a user plane, followed through what its control plane says to it in PFCP.

A change counts when it was answered: the answer has the identifiers that the user plane chose (F-SEID, F-TEIDs, UE
addresses), and says whether it was accepted. Requests and answers are paired by their ends and their sequence number;
answers that a capture has before their requests wait for them, and changes of a session that is not there yet wait for
it. A request that nobody answers is taken as accepted, and noted.

A session's identifier and its tunnels may be used again after its deletion: each establishment is a session of its own.
Left out: what a node's restart ends, session reports, usage, packets that are injected by the control plane.

Source: 3GPP TS 29.244 V17.9, sections 6.3 (procedures), 6.4 (retransmission), 7.5 (messages).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Final

from wirespeed.mobile import pfcp
from wirespeed.mobile.frames import Address
from wirespeed.mobile.pfcp import BothWays, Element, FSeid, FTeid, Ie, Message, OuterHeader, UeAddress, Volumes

ACCESS, CORE, SGI_LAN, CONTROL = 0, 1, 2, 3
"""Interfaces that packets come from and go to (8.2.2, 8.2.24)."""
DROP, FORWARD, BUFFER = 1, 2, 4
"""Bits of Apply Action (8.2.26)."""
_ACCEPTED: Final = range(1, 64)
_SEQUENCES: Final = 1 << 24


@dataclass(slots=True)
class PdrState:
    """A packet detection rule as it stands."""

    id: int
    precedence: int | None = None
    source: int | None = None
    tunnel: FTeid | None = None
    ue: UeAddress | None = None
    endpoint: int | None = None
    filters: list[str | None] = field(default_factory=list)
    """Flow descriptions; None for a filter of another sort."""
    qfis: list[int] = field(default_factory=list)
    far: int | None = None
    qers: list[int] = field(default_factory=list)
    urrs: list[int] = field(default_factory=list)


@dataclass(slots=True)
class FarState:
    """A forwarding action rule as it stands, and where it last sent packets to."""

    id: int
    action: int = 0
    destination: int | None = None
    outer: OuterHeader | None = None
    sent_to: OuterHeader | None = None
    """The last tunnel that it had while it forwarded."""


@dataclass(slots=True)
class QerState:
    """A QoS enforcement rule as it stands."""

    id: int
    gates: BothWays | None = None
    rates: BothWays | None = None
    qfi: int | None = None


@dataclass(slots=True)
class UrrState:
    """A usage reporting rule as it stands."""

    id: int
    volumes: Volumes | None = None
    seconds: int | None = None


@dataclass(slots=True)
class EndpointState:
    """A traffic endpoint: a tunnel or an address that several rules name."""

    id: int
    tunnel: FTeid | None = None
    ue: UeAddress | None = None


@dataclass(slots=True)
class N4Session:
    """A session of a user plane, with its rules by number."""

    control: Address
    user_plane: Address
    began: int
    """The packet of its establishment's request, or of the first change of one that is older than the capture."""
    place: int = 0
    """Among all sessions, in the order in which they began."""
    is_whole: bool = True
    """Whether the capture has its establishment."""
    sequence: int = 0
    control_seid: int | None = None
    user_plane_seid: int | None = None
    ended: int | None = None
    changes: int = 0
    asked: int = 0
    """The packet of the last change's request: the user plane does it before it answers."""
    pdrs: dict[int, PdrState] = field(default_factory=dict)
    fars: dict[int, FarState] = field(default_factory=dict)
    qers: dict[int, QerState] = field(default_factory=dict)
    urrs: dict[int, UrrState] = field(default_factory=dict)
    endpoints: dict[int, EndpointState] = field(default_factory=dict)

    def tunnel_of(self, pdr: PdrState) -> FTeid | None:
        """The tunnel that packets of a rule come by, where there is one with an identifier."""
        endpoint = self.endpoints.get(pdr.endpoint) if pdr.endpoint is not None else None
        found = pdr.tunnel or (endpoint and endpoint.tunnel) or None
        return found if found is not None and found.teid is not None else None

    def ue_of(self, pdr: PdrState) -> UeAddress | None:
        """The UE's addresses that a rule names."""
        endpoint = self.endpoints.get(pdr.endpoint) if pdr.endpoint is not None else None
        return pdr.ue or (endpoint.ue if endpoint is not None else None)


@dataclass(frozen=True, slots=True)
class N4Packet:
    """A message on its way: who says it to whom, and in which packet of the capture."""

    number: int
    src: Address
    dst: Address
    message: Message


_Key = tuple[Address, Address, int, int]
_Change = tuple[N4Packet, N4Packet | None]


@dataclass(slots=True)
class N4:
    """Sessions that messages tell of; complete once `finish` was called."""

    sessions: list[N4Session] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _live: dict[tuple[Address, int], N4Session] = field(default_factory=dict)
    _asked: dict[_Key, N4Packet] = field(default_factory=dict)
    _answered: dict[_Key, N4Packet] = field(default_factory=dict)
    _done: dict[_Key, Element] = field(default_factory=dict)
    _waiting: dict[tuple[Address, int], list[_Change]] = field(default_factory=dict)
    """Changes of sessions that are not there, by the session's end and identifier, in the order of their numbers."""

    def feed(self, packet: N4Packet) -> list[N4Session]:
        """Follows a message; returns the sessions that it has changed."""
        kind = packet.message.kind
        if kind in (pfcp.ESTABLISH, pfcp.MODIFY, pfcp.DELETE):
            key = (packet.src, packet.dst, kind, packet.message.sequence)
            if self._done.get(key) == packet.message.body or key in self._asked:
                return []  # sent again
            answer = self._answered.pop(key, None)
            if answer is None:
                self._asked[key] = packet
                return []
            return self._pair(key, packet, answer)
        if kind in (pfcp.ESTABLISHED, pfcp.MODIFIED, pfcp.DELETED):
            key = (packet.dst, packet.src, kind - 1, packet.message.sequence)
            asked = self._asked.pop(key, None)
            if asked is not None:
                return self._pair(key, asked, packet)
            if key not in self._done:
                self._answered[key] = packet
        return []

    def finish(self) -> list[N4Session]:
        """Settles what is left: requests without an answer, answers without a request."""
        changed: list[N4Session] = []
        for asked in self._asked.values():
            self.note(asked.number, f"{_NAMES[asked.message.kind]} is not answered: taken as accepted")
            changed += self._follow(asked, None)
        for answer in self._answered.values():
            self.note(answer.number, f"{_NAMES[answer.message.kind - 1]} is answered, and the request is not there")
        left = (each for waiting in self._waiting.values() for each in waiting)
        for asked, answer_ in sorted(left, key=lambda each: each[0].number):
            if asked.message.kind == pfcp.MODIFY and not _is_refused(answer_):
                changed += self._older(asked, answer_)
            else:
                self.note(asked.number, f"{_NAMES[asked.message.kind]} of a session that is older than the capture")
        self._asked, self._answered, self._waiting = {}, {}, {}
        self.sessions.sort(key=lambda session: session.began)
        for place, session in enumerate(self.sessions):
            session.place = place
        return changed

    def note(self, number: int, what: str) -> None:
        """Adds what a reader has to know of a packet."""
        self.notes.append(f"packet {number}: {what}")

    def _pair(self, key: _Key, asked: N4Packet, answer: N4Packet) -> list[N4Session]:
        self._done[key] = asked.message.body
        cause = answer.message.body.number(Ie.CAUSE)
        if _is_refused(answer):
            self.note(answer.number, f"{_NAMES[asked.message.kind]} is refused with cause {cause}: nothing changes")
            return []
        return self._follow(asked, answer)

    def _follow(self, asked: N4Packet, answer: N4Packet | None) -> list[N4Session]:
        if asked.message.kind == pfcp.ESTABLISH:
            return self._establish(asked, answer)
        session = self._live.get((asked.dst, asked.message.seid or 0))
        if session is None:
            waiting = self._waiting.setdefault((asked.dst, asked.message.seid or 0), [])
            insort(waiting, (asked, answer), key=_sequence)
            return []
        self._change(session, asked, answer)
        return [session]

    def _change(self, session: N4Session, asked: N4Packet, answer: N4Packet | None) -> None:
        session.changes += 1
        session.asked = asked.number
        if asked.message.kind == pfcp.DELETE:
            session.ended = (answer or asked).number
            self._live.pop((asked.dst, asked.message.seid or 0), None)
            return
        body = asked.message.body
        _remove(session, body)
        _create(session, body)
        for missing in _update(session, body):
            self.note(asked.number, f"changes {missing}, which the session has not: passed over")
        if isinstance(fseid := body.first(Ie.F_SEID), FSeid):
            session.control_seid = fseid.seid
        _choose(session, answer)

    def _establish(self, asked: N4Packet, answer: N4Packet | None) -> list[N4Session]:
        session = N4Session(asked.src, asked.dst, asked.number, sequence=asked.message.sequence, asked=asked.number)
        if isinstance(fseid := asked.message.body.first(Ie.F_SEID), FSeid):
            session.control_seid = fseid.seid
        _create(session, asked.message.body)
        _choose(session, answer)
        self.sessions.append(session)
        fseid = answer.message.body.first(Ie.F_SEID) if answer is not None else None
        if not isinstance(fseid, FSeid):
            self.note(asked.number, "establishes a session whose identifier at the user plane is not told")
            return [session]
        session.user_plane_seid = fseid.seid
        before = self._live.get((asked.dst, fseid.seid))
        if before is not None:
            before.ended = asked.number
            self.note(asked.number, f"establishes SEID {fseid.seid:#x}, which another session has: that one has ended")
        self._live[asked.dst, fseid.seid] = session
        return [session, *([before] if before is not None else []), *self._catch_up(session)]

    def _catch_up(self, session: N4Session) -> list[N4Session]:
        """Makes the changes of a session that a capture has before its establishment."""
        at = (session.user_plane, session.user_plane_seid or 0)
        waiting = self._waiting.get(at)
        if waiting is None:
            return []
        # Later is what the next half of all numbers has, and numbers begin again at 0: two slices at most.
        begin, end = session.sequence, session.sequence + _SEQUENCES // 2
        mine = _taken(waiting, begin, end) + _taken(waiting, 0, end - _SEQUENCES)
        if not waiting:
            del self._waiting[at]
        for asked, answer in mine:
            self._change(session, asked, answer)
        return [session] if mine else []

    def _older(self, asked: N4Packet, answer: N4Packet | None) -> list[N4Session]:
        """Changes a session that is older than the capture: what is told of it is known from here on."""
        at = (asked.dst, asked.message.seid or 0)
        session = self._live.get(at)
        if session is None:
            session = N4Session(asked.src, asked.dst, asked.number, is_whole=False, user_plane_seid=at[1])
            self.note(asked.number, f"changes a session (SEID {at[1]:#x}) that is older than the capture")
            self.sessions.append(session)
            self._live[at] = session
        self._change(session, asked, answer)
        return [session]


_NAMES: Final = {pfcp.ESTABLISH: "an establishment", pfcp.MODIFY: "a modification", pfcp.DELETE: "a deletion"}


def _sequence(change: _Change) -> int:
    return change[0].message.sequence


def _taken(waiting: list[_Change], begin: int, end: int) -> list[_Change]:
    """Takes the changes out that have a number from `begin` up to before `end`."""
    first, last = (bisect_left(waiting, at, key=_sequence) for at in (begin, end))
    taken = waiting[first:last]
    del waiting[first:last]
    return taken


def _is_refused(answer: N4Packet | None) -> bool:
    cause = None if answer is None else answer.message.body.number(Ie.CAUSE)
    return cause is not None and cause not in _ACCEPTED


def _create(session: N4Session, body: Element) -> None:
    for group in body.all(Ie.CREATE_ENDPOINT):
        if (number := group.number(Ie.ENDPOINT_ID)) is not None:
            session.endpoints[number] = _set_endpoint(EndpointState(number), group)
    for group in body.all(Ie.CREATE_PDR):
        if (number := group.number(Ie.PDR_ID)) is not None:
            session.pdrs[number] = _set_pdr(PdrState(number), group)
    for group in body.all(Ie.CREATE_FAR):
        if (number := group.number(Ie.FAR_ID)) is not None:
            session.fars[number] = _set_far(FarState(number), group, Ie.FORWARDING)
    for group in body.all(Ie.CREATE_QER):
        if (number := group.number(Ie.QER_ID)) is not None:
            session.qers[number] = _set_qer(QerState(number), group)
    for group in body.all(Ie.CREATE_URR):
        if (number := group.number(Ie.URR_ID)) is not None:
            session.urrs[number] = _set_urr(UrrState(number), group)


def _remove(session: N4Session, body: Element) -> None:
    for kind, name, rules in (
        (Ie.REMOVE_PDR, Ie.PDR_ID, session.pdrs),
        (Ie.REMOVE_FAR, Ie.FAR_ID, session.fars),
        (Ie.REMOVE_QER, Ie.QER_ID, session.qers),
        (Ie.REMOVE_URR, Ie.URR_ID, session.urrs),
        (Ie.REMOVE_ENDPOINT, Ie.ENDPOINT_ID, session.endpoints),
    ):
        for group in body.all(kind):
            rules.pop(group.number(name) or 0, None)


def _update(session: N4Session, body: Element) -> list[str]:
    """Changes rules; returns those that are not there."""
    missing = []
    for group in body.all(Ie.UPDATE_ENDPOINT):
        _set_endpoint(session.endpoints.setdefault(at := group.number(Ie.ENDPOINT_ID) or 0, EndpointState(at)), group)
    for group in body.all(Ie.UPDATE_PDR):
        number = group.number(Ie.PDR_ID) or 0
        if (pdr := session.pdrs.get(number)) is not None:
            _set_pdr(pdr, group)
        else:
            missing.append(f"PDR {number}")
    for group in body.all(Ie.UPDATE_FAR):
        number = group.number(Ie.FAR_ID) or 0
        if (far := session.fars.get(number)) is not None:
            _set_far(far, group, Ie.UPDATE_FORWARDING)
        else:
            missing.append(f"FAR {number}")
    for group in body.all(Ie.UPDATE_QER):
        number = group.number(Ie.QER_ID) or 0
        if (qer := session.qers.get(number)) is not None:
            _set_qer(qer, group)
        else:
            missing.append(f"QER {number}")
    for group in body.all(Ie.UPDATE_URR):
        number = group.number(Ie.URR_ID) or 0
        if (urr := session.urrs.get(number)) is not None:
            _set_urr(urr, group)
        else:
            missing.append(f"URR {number}")
    return missing


def _set_endpoint(endpoint: EndpointState, group: Element) -> EndpointState:
    if isinstance(tunnel := group.first(Ie.F_TEID), FTeid):
        endpoint.tunnel = tunnel
    if isinstance(ue := group.first(Ie.UE_ADDRESS), UeAddress):
        endpoint.ue = ue
    return endpoint


def _set_pdr(pdr: PdrState, group: Element) -> PdrState:
    """A rule with what a group says; a new PDI replaces the old one."""
    pdi = group.group(Ie.PDI)
    if pdi is not None:
        chosen = pdr.tunnel
        tunnel, ue = pdi.first(Ie.F_TEID), pdi.first(Ie.UE_ADDRESS)
        pdr.source = pdi.number(Ie.SOURCE_INTERFACE)
        pdr.tunnel = tunnel if isinstance(tunnel, FTeid) else None
        if pdr.tunnel is not None and pdr.tunnel.teid is None and chosen is not None and chosen.teid is not None:
            pdr.tunnel = chosen  # asked for again: what was chosen stays
        pdr.ue = ue if isinstance(ue, UeAddress) else None
        pdr.endpoint = pdi.number(Ie.ENDPOINT_ID)
        pdr.filters = [each.value if isinstance(each.value, str) else None for each in pdi.all(Ie.SDF_FILTER)]
        pdr.qfis = [each.value for each in pdi.all(Ie.QFI) if isinstance(each.value, int)]
    if (precedence := group.number(Ie.PRECEDENCE)) is not None:
        pdr.precedence = precedence
    if (far := group.number(Ie.FAR_ID)) is not None:
        pdr.far = far
    pdr.qers = _numbers(group, Ie.QER_ID) or pdr.qers
    pdr.urrs = _numbers(group, Ie.URR_ID) or pdr.urrs
    return pdr


def _numbers(group: Element, kind: int) -> list[int]:
    return [each.value for each in group.all(kind) if isinstance(each.value, int)]


def _set_far(far: FarState, group: Element, parameters: int) -> FarState:
    if (action := group.number(Ie.APPLY_ACTION)) is not None:
        far.action = action
    found = group.group(parameters)
    if found is not None:
        if (destination := found.number(Ie.DESTINATION_INTERFACE)) is not None:
            far.destination = destination
        if isinstance(outer := found.first(Ie.OUTER_HEADER_CREATION), OuterHeader):
            far.outer = outer
    if far.action & FORWARD and far.outer is not None:
        far.sent_to = far.outer
    return far


def _set_qer(qer: QerState, group: Element) -> QerState:
    if isinstance(gates := group.first(Ie.GATE_STATUS), BothWays):
        qer.gates = gates
    if isinstance(rates := group.first(Ie.MBR), BothWays):
        qer.rates = rates
    if (qfi := group.number(Ie.QFI)) is not None:
        qer.qfi = qfi
    return qer


def _set_urr(urr: UrrState, group: Element) -> UrrState:
    if isinstance(volumes := group.first(Ie.VOLUME_THRESHOLD), Volumes):
        urr.volumes = volumes
    if (seconds := group.number(Ie.TIME_THRESHOLD)) is not None:
        urr.seconds = seconds
    return urr


def _choose(session: N4Session, answer: N4Packet | None) -> None:
    """Takes the tunnels and addresses that the user plane has chosen."""
    if answer is None:
        return
    shared: dict[int, FTeid] = {}
    for kind in (Ie.CREATED_PDR, Ie.UPDATED_PDR):
        for group in answer.message.body.all(kind):
            pdr = session.pdrs.get(group.number(Ie.PDR_ID) or 0)
            if pdr is None:
                continue
            tunnel, ue = group.first(Ie.F_TEID), group.first(Ie.UE_ADDRESS)
            if isinstance(tunnel, FTeid):
                if pdr.tunnel is not None and pdr.tunnel.choose_id is not None:
                    shared[pdr.tunnel.choose_id] = tunnel
                pdr.tunnel = tunnel
            if isinstance(ue, UeAddress):
                pdr.ue = ue
    for pdr in session.pdrs.values():
        if pdr.tunnel is not None and pdr.tunnel.teid is None and pdr.tunnel.choose_id in shared:
            pdr.tunnel = shared[pdr.tunnel.choose_id or 0]
    for group in answer.message.body.all(Ie.CREATED_ENDPOINT):
        if (number := group.number(Ie.ENDPOINT_ID)) in session.endpoints:
            _set_endpoint(session.endpoints[number or 0], group)
