"""Captures of mobile cores: PFCP decoded as Wireshark does, sessions followed, users' packets matched and run."""

from __future__ import annotations

import gzip
import lzma
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import xml.etree.ElementTree as Xml
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import n4_packets as made
import wirespeed as ws
from wirespeed.errors import InputError
from wirespeed.mobile import core, frames, n4, pfcp, rules
from wirespeed.mobile.frames import Address, CapturedFrames
from wirespeed.mobile.n4 import N4, N4Packet, N4Session
from wirespeed.mobile.pfcp import Element, FTeid, Ie, PfcpError
from wirespeed.operators import captures, import_files

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "mobile"
# Elements of every type in no order, made to try dissectors: Wireshark opens groups that sessions do not have.
FORGED = "ndpi_pfcp.pcapng.gz"
CAPTURES = (
    "open5gs_srsenb.pcapng.gz",
    "open5gs_testregistration.pcapng.gz",
    "open5gs_5g-roaming-hr.pcapng.gz",
    "open5gs_5g-roaming-lbo.pcapng.gz",
    "telekom_free5gc.pcap.gz",
    FORGED,
)
TSHARK = shutil.which("tshark")


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip("wants ../shared/data/mobile")
    return path


def core_of(tmp_path: Path, *packets: bytes) -> core.MobileCapture:
    (tmp_path / "core.pcap").write_bytes(made.pcap(list(packets)))
    return core.read(tmp_path / "core.pcap")


def session_of(tmp_path: Path, *packets: bytes) -> N4Session:
    [session] = core_of(tmp_path, *packets).sessions
    return session


BEGIN = (made.n4(made.establish(2)), made.n4(made.established(2), back=True))


def change(sequence: int, *parts: bytes, cause: int = 1, seid: int = 0x77) -> tuple[bytes, bytes]:
    """A modification and its answer."""
    return (
        made.n4(made.message(52, seid, sequence, *parts)),
        made.n4(made.message(53, 1, sequence, made.ie(19, bytes((cause,)))), back=True),
    )


# --- against tshark --------------------------------------------------------------------------------------------------

# What of an element is compared: Wireshark's names of its fields, in the order in which they stand.
SHOWN = {
    Ie.CAUSE: ["cause"],
    Ie.SOURCE_INTERFACE: ["source_interface"],
    Ie.DESTINATION_INTERFACE: ["dst_interface"],
    Ie.F_TEID: ["f_teid.choose_id", "f_teid.teid", "f_teid.ipv4_addr", "f_teid.ipv6_addr"],
    Ie.F_SEID: ["seid", "f_seid.ipv4", "f_seid.ipv6"],
    Ie.UE_ADDRESS: ["ue_ip_addr_ipv4", "ue_ip_addr_ipv6"],
    Ie.OUTER_HEADER_CREATION: ["outer_hdr_creation.teid", "outer_hdr_creation.ipv4", "outer_hdr_creation.ipv6"],
    Ie.SDF_FILTER: ["flow_desc"],
    Ie.GATE_STATUS: ["gate_status.ulgate", "gate_status.dlgate"],
    Ie.MBR: ["ul_mbr", "dl_mbr"],
    Ie.PRECEDENCE: ["precedence"],
    Ie.PDR_ID: ["pdr_id"],
    Ie.FAR_ID: ["far_id"],
    Ie.QER_ID: ["qer_id"],
    Ie.URR_ID: ["urr_id"],
    Ie.QFI: ["qfi_value"],
    Ie.TIME_THRESHOLD: ["time_threshold"],
    Ie.VOLUME_THRESHOLD: ["volume_threshold.tovol", "volume_threshold.ulvol", "volume_threshold.dlvol"],
    Ie.OUTER_HEADER_REMOVAL: ["out_hdr_desc"],
}


def fields(kind: int, value: Any) -> list[str]:
    """The fields of a decoded element that Wireshark shows, as text."""
    if isinstance(value, FTeid):
        found: list[Any] = [value.choose_id, value.teid, value.v4, value.v6]
    elif isinstance(value, pfcp.FSeid):
        found = [value.seid, value.v4, value.v6]
    elif isinstance(value, pfcp.UeAddress):
        found = [value.v4, value.v6]
    elif isinstance(value, pfcp.OuterHeader):
        found = [value.teid, value.v4, value.v6]
    elif isinstance(value, pfcp.Volumes):
        found = [value.total, value.uplink, value.downlink]
    elif isinstance(value, pfcp.BothWays):
        found = [value.uplink, value.downlink]
    else:
        found = [value]
    return [str(each) for each in found if each is not None]


def flat(element: Element) -> Iterator[tuple[int, list[str]]]:
    for each in element.inner:
        yield (each.kind, fields(each.kind, each.value) if each.kind in SHOWN else [])
        yield from flat(each)


def as_number(text: str) -> str:
    """Wireshark's numbers as ours: hexadecimal ones, and those with more behind them."""
    return str(int(text, 16)) if text.startswith("0x") else text


def flat_of_tshark(field: Xml.Element) -> Iterator[tuple[int, list[str]]]:
    """The elements below a field, in order, with what is compared of each."""
    for each in field:
        named = [inner for inner in each if inner.get("name") == "pfcp.ie_type"]
        if not named:
            continue
        kind = int(named[0].get("show") or 0)
        wanted = [f"pfcp.{name}" for name in SHOWN.get(kind, [])]
        leaves = [leaf for inner in each for leaf in inner.iter("field")]
        found = [as_number(leaf.get("show") or "") for leaf in leaves if leaf.get("name") in wanted]
        if kind in (Ie.FAR_ID, Ie.QER_ID, Ie.URR_ID):  # Wireshark takes the highest bit, who allocated it, for itself
            found = [str(int(each.get("value", "")[8:], 16))]
        if kind == Ie.F_TEID and (choice := [x for x in leaves if x.get("name") == "pfcp.f_teid.choose_id"]):
            found = [str(int(choice[0].get("value") or "", 16))]
        yield kind, found
        yield from flat_of_tshark(each)


def tshark(path: Path, *arguments: str) -> str:
    if TSHARK is None:
        pytest.skip("wants tshark")
    command = [TSHARK, "-r", str(path), "-o", "pfcp.track_pfcp_session:TRUE", "-Y", "pfcp && !icmp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def packets_of(path: Path) -> Iterator[N4Packet]:
    for frame in CapturedFrames(path):
        found = frames.datagram(frame.ip)
        if found is not None and pfcp.PORT in (found.src_port, found.dst_port):
            for message in pfcp.messages(found.payload):
                yield N4Packet(frame.number, found.src, found.dst, message)


@pytest.mark.parametrize("name", CAPTURES)
def test_messages_are_decoded_as_tshark_decodes_them(name: str) -> None:
    path = shared(name)
    document = Xml.fromstring(tshark(path, "-T", "pdml", "-J", "pfcp"))
    theirs = []
    for packet in document:
        number = next(f.get("show") for f in packet.iter("field") if f.get("name") == "num")
        for proto in (p for p in packet if p.get("name") == "pfcp"):
            by_name = {f.get("name"): as_number(f.get("show") or "") for f in reversed(list(proto))}
            head = tuple(by_name.get(f"pfcp.{each}") for each in ("msg_type", "seid", "seqno"))
            theirs.append((number, head, list(flat_of_tshark(proto))))
    ours = []
    for packet in packets_of(path):
        message = packet.message
        head = (str(message.kind), None if message.seid is None else str(message.seid), str(message.sequence))
        ours.append((str(packet.number), head, list(flat(message.body))))
    assert len(theirs) > 5
    assert [each[:2] for each in ours] == [each[:2] for each in theirs]
    for mine, their in zip(ours, theirs, strict=True):
        of_sessions = int(mine[1][0] or 0) in range(pfcp.ESTABLISH, pfcp.DELETED + 1)
        assert not of_sessions or name == FORGED or mine[2] == their[2], mine[0]


@pytest.mark.parametrize("name", CAPTURES[:-1])
def test_every_session_is_tsharks(name: str) -> None:
    """Wireshark numbers sessions by itself, and marks answers with them."""
    path = shared(name)
    theirs: dict[str, set[int]] = {}
    for line in tshark(
        path, "-T", "fields", "-e", "frame.number", "-e", "pfcp.session", "-e", "pfcp.msg_type"
    ).splitlines():
        number, session, kind = line.split("\t")
        if session and int(kind) in (pfcp.ESTABLISHED, pfcp.MODIFIED, pfcp.DELETED):
            theirs.setdefault(session, set()).add(int(number))
    following, ours = N4(), dict[int, set[int]]()
    for packet in packets_of(path):
        for session in following.feed(packet):
            ours.setdefault(id(session), set()).add(packet.number)
    assert following.finish() == []
    assert sorted(map(sorted, ours.values())) == sorted(map(sorted, theirs.values()))
    assert len(following.sessions) == len(theirs)


@pytest.mark.parametrize("name", CAPTURES[:-1])
def test_tunnels_and_addresses_of_sessions_are_tsharks(name: str) -> None:
    """The last word of each session on its F-TEIDs, UE addresses and far ends, followed in Wireshark's fields alone."""
    path = shared(name)
    names = ["frame.number", "pfcp.msg_type", "pfcp.seqno", "pfcp.f_teid.teid", "pfcp.ue_ip_addr_ipv4"]
    names += ["pfcp.outer_hdr_creation.teid", "pfcp.session", "ip.src"]
    rows = tshark(path, "-T", "fields", *(part for each in names for part in ("-e", each))).splitlines()
    theirs: dict[str, dict[str, set[str]]] = {}
    asked: dict[tuple[str, str], list[str]] = {}
    for row in (line.split("\t") for line in rows):
        if int(row[1]) in (50, 52):
            asked[row[2], str(int(row[1]) + 1)] = row
        elif int(row[1]) in (51, 53) and (before := asked.pop((row[2], row[1]), None)):
            of = theirs.setdefault(row[6], {"teids": set(), "ues": set(), "far": set()})
            of["teids"] |= set(filter(None, f"{before[3]},{row[3]}".split(",")))
            of["ues"] |= set(filter(None, before[4].split(",")))
            of["far"] |= set(filter(None, before[5].split(",")))
    sessions = core.read(path).sessions
    assert len(sessions) == len(theirs)
    for session, their in zip(sessions, theirs.values(), strict=True):
        mine = [session.tunnel_of(pdr) for pdr in session.pdrs.values()]
        assert {f"{t.teid:#010x}" for t in mine if t is not None} == their["teids"]
        addresses = {str(ue.v4) for pdr in session.pdrs.values() if (ue := session.ue_of(pdr)) and ue.v4}
        assert addresses == their["ues"]
        ends = {f"{far.outer.teid:#010x}" for far in session.fars.values() if far.outer is not None}
        assert ends <= their["far"]
        assert bool(ends) == bool(their["far"])


@pytest.mark.parametrize("name", CAPTURES[:-1])
def test_users_packets_of_real_captures_are_sessions(name: str) -> None:
    capture = core.read(shared(name))
    assert capture.tunnelled >= 2
    assert capture.matched >= 0.95 * capture.tunnelled
    assert capture.damaged == 0


def test_a_capture_of_open5gs_runs_through_the_user_plane(tmp_path: Path, wirespeed: Any) -> None:
    path, out = shared("open5gs_srsenb.pcapng.gz"), tmp_path / "core.toml"
    code, printed, _ = wirespeed("import", str(path), "--out", str(out))
    assert code == 0
    assert "1,844 of 1,844 users' packets are a session's" in re.sub(r"\s+", " ", printed)
    summary = ws.run(out, set={"run.packets": 1844, "run.warmup": 0}).summary
    assert summary["packets"] == 1844
    assert sum(summary["drops"].values()) <= 0.05 * 1844


# --- the decoder -----------------------------------------------------------------------------------------------------

WHOLE = made.establish(
    7,
    pdi=made.fteid(9) + made.sdf("permit out ip from any to assigned") + made.number(124, 9, 1),
    rules=made.number(109, 1) + made.number(81, 1),
)


def test_a_message_cut_anywhere_is_refused_at_a_byte_of_it() -> None:
    assert len(pfcp.messages(WHOLE)) == 1
    for length in range(len(WHOLE)):
        with pytest.raises(PfcpError) as refused:
            pfcp.messages(WHOLE[:length])
        assert 0 <= refused.value.offset <= length
        assert str(refused.value).startswith(f"byte {refused.value.offset}: ")


def test_an_element_cut_within_a_sound_message_names_its_byte() -> None:
    for kind, body, offset in (
        (Ie.F_TEID, b"\x01\x00\x00", 21),  # behind the flags, 4 B are wanted
        (Ie.F_SEID, b"\x02" + bytes(8) + b"\x0a", 29),
        (Ie.UE_ADDRESS, b"\x01" + bytes(15), 21),
        (Ie.OUTER_HEADER_CREATION, b"\x01\x00\x00\x00\x00\x01", 26),
        (Ie.SDF_FILTER, b"\x01\x00\x00\x05perm", 24),
        (Ie.PRECEDENCE, b"\x00", 20),
        (Ie.NODE_ID, b"\x05", 20),
    ):
        with pytest.raises(PfcpError) as refused:
            pfcp.messages(made.message(52, 1, 1, made.ie(kind, body)))
        assert refused.value.offset == offset, kind


def test_what_is_wrong_with_a_header_is_said() -> None:
    for data, what in (
        (b"\x40" + WHOLE[1:], "version 2"),
        (b"\x20" + WHOLE[1:], "has no SEID"),
        (WHOLE[:2] + b"\x00\x04" + WHOLE[4:], "less than the header"),
        (WHOLE[:2] + b"\xff\xff" + WHOLE[4:], "a length of 65535 B"),
        (b"", "a header has 8"),
    ):
        with pytest.raises(PfcpError, match=what):
            pfcp.messages(data)


def test_groups_may_not_nest_without_end() -> None:
    body = b""
    for _ in range(5000):
        body = made.ie(2, body)
        if len(body) > 60_000:
            break
    with pytest.raises(PfcpError, match="nest more than"):
        pfcp.messages(made.message(52, 1, 1, body))


def test_several_messages_stand_in_one_datagram() -> None:
    first = made.message(52, 1, 1, follow=True)
    assert [each.sequence for each in pfcp.messages(first + made.message(52, 2, 2))] == [1, 2]
    with pytest.raises(PfcpError):
        pfcp.messages(first)


def test_what_later_versions_add_is_passed_over() -> None:
    longer = made.ie(21, b"\x01", (5).to_bytes(4), made.ip(made.UPF), b"later")
    [found] = pfcp.messages(made.message(52, 1, 1, longer, made.ie(0x8001, b"vendor"), made.ie(300, b"?")))
    assert found.body.first(Ie.F_TEID) == FTeid(5, frames.IPv4Address(made.UPF))
    assert [each.kind for each in found.body.inner] == [21, 0x8001, 300]


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=200), flips=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))))
def test_no_bytes_do_anything_but_decode_or_be_refused(data: bytes, flips: list[tuple[int, int]]) -> None:
    changed = bytearray(WHOLE)
    for at, bits in flips:
        changed[at] ^= bits
    for each in (data, b"\x21\x34" + len(data).to_bytes(2) + data, bytes(changed)):
        refused = None
        try:
            pfcp.messages(each)
        except PfcpError as e:
            refused = e
        assert refused is None or 0 <= refused.offset <= len(each)


# --- sessions --------------------------------------------------------------------------------------------------------


def test_what_the_user_plane_chose_stands_in_its_answer(tmp_path: Path) -> None:
    session = session_of(tmp_path, *BEGIN)
    assert (session.control_seid, session.user_plane_seid) == (1, 0x77)
    assert session.tunnel_of(session.pdrs[1]) == FTeid(0x1001, frames.IPv4Address(made.UPF))
    assert session.tunnel_of(session.pdrs[2]) is None


def test_rules_that_choose_together_get_one_tunnel(tmp_path: Path) -> None:
    ask = made.message(
        50, 0, 2, made.fseid(1), made.pdr(1, 0, 1, made.choose(5)), made.pdr(3, 0, 1, made.choose(5)), made.far(1, 2, 1)
    )
    session = session_of(tmp_path, made.n4(ask), BEGIN[1])
    assert {session.tunnel_of(pdr).teid for pdr in session.pdrs.values()} == {0x1001}  # type: ignore[union-attr]


def test_a_traffic_endpoint_stands_for_the_tunnel_of_its_rules(tmp_path: Path) -> None:
    endpoint = made.ie(127, made.number(131, 4, 1), made.choose(), made.ue())
    ask = made.message(50, 0, 2, made.fseid(1), endpoint, made.pdr(1, 0, 1, made.number(131, 4, 1)), made.far(1, 2, 1))
    chosen = made.ie(128, made.number(131, 4, 1), made.fteid(0x2002))
    answer = made.message(51, 1, 2, made.ACCEPTED, made.fseid(0x77, made.UPF), chosen)
    session = session_of(tmp_path, made.n4(ask), made.n4(answer, back=True))
    assert session.tunnel_of(session.pdrs[1]).teid == 0x2002  # type: ignore[union-attr]
    assert str(session.ue_of(session.pdrs[1]).v4) == made.UE  # type: ignore[union-attr]


def test_modifications_add_change_and_remove_rules(tmp_path: Path) -> None:
    session = session_of(
        tmp_path,
        *BEGIN,
        *change(3, made.far(2, 2, 0, made.outer(7), kind=10)),
        *change(4, made.pdr(5, 0, 9, made.fteid(0x3003), precedence=1), made.far(9, 1)),
        *change(5, made.ie(15, made.number(56, 1, 2)), made.ie(16, made.number(108, 1))),
    )
    assert set(session.pdrs) == {2, 5}
    assert set(session.fars) == {2, 9}
    assert session.fars[2].action == n4.FORWARD
    assert session.fars[2].outer is not None
    assert (str(session.fars[2].outer.v4), session.fars[2].outer.teid) == (made.GNB, 7)
    assert session.pdrs[5].precedence == 1


def test_a_far_that_buffers_remembers_where_it_sent(tmp_path: Path) -> None:
    idle = change(4, made.far(2, 12, kind=10))
    session = session_of(tmp_path, *BEGIN, *change(3, made.far(2, 2, 0, made.outer(7), kind=10)), *idle)
    assert session.fars[2].action == 12
    assert session.fars[2].sent_to is not None
    assert session.fars[2].sent_to.teid == 7


def test_a_refused_change_changes_nothing(tmp_path: Path) -> None:
    capture = core_of(tmp_path, *BEGIN, *change(3, made.ie(15, made.number(56, 1, 2)), cause=65))
    assert set(capture.sessions[0].pdrs) == {1, 2}
    assert any("refused with cause 65" in note for note in capture.notes)


def test_what_is_sent_again_counts_once(tmp_path: Path) -> None:
    modify = change(3, made.far(2, 2, 0, made.outer(7), kind=10))
    session = session_of(tmp_path, BEGIN[0], *BEGIN, *modify, *modify, BEGIN[0], BEGIN[1])
    assert session.changes == 1


def test_the_order_of_packets_does_not_matter(tmp_path: Path) -> None:
    ask, answer = BEGIN
    far = change(3, made.far(2, 2, 0, made.outer(7), kind=10))
    more = change(4, made.pdr(5, 0, 1, made.fteid(0x3003)))
    wanted = session_of(tmp_path, ask, answer, *far, *more)
    order = random.Random(7)
    for _ in range(20):
        packets = [ask, answer, *far, *more]
        order.shuffle(packets)
        found = session_of(tmp_path, *packets)
        assert (found.pdrs, found.fars, found.user_plane_seid) == (wanted.pdrs, wanted.fars, wanted.user_plane_seid)


def test_an_identifier_and_a_tunnel_may_be_used_again(tmp_path: Path) -> None:
    end = (
        made.n4(made.message(54, 0x77, 3)),
        made.n4(made.message(55, 1, 3, made.ACCEPTED), back=True),
    )
    again = (made.n4(made.establish(4)), made.n4(made.established(4), back=True))
    capture = core_of(tmp_path, *BEGIN, made.uplink(0x1001), *end, made.uplink(0x1001), *again, made.uplink(0x1001))
    first, second = capture.sessions
    assert (first.ended, second.ended) == (5, None)
    assert (capture.tunnelled, capture.matched) == (3, 2)
    assert [capture.of(each).packets[core.Way.UPLINK] for each in (first, second)] == [1, 1]


def test_a_session_without_its_end_ends_where_its_identifier_is_given_again(tmp_path: Path) -> None:
    capture = core_of(tmp_path, *BEGIN, made.n4(made.establish(9)), made.n4(made.established(9), back=True))
    assert [each.ended for each in capture.sessions] == [3, None]


def test_requests_without_an_answer_are_taken_and_noted(tmp_path: Path) -> None:
    capture = core_of(tmp_path, made.n4(made.establish(2, pdi=made.fteid(5))), made.uplink(5))
    assert len(capture.sessions) == 1
    assert any("not answered" in note for note in capture.notes)


def test_a_session_older_than_the_capture_is_known_by_its_changes(tmp_path: Path) -> None:
    capture = core_of(tmp_path, *change(30, made.pdr(1, 0, 1, made.fteid(5), made.ue()), made.far(1, 2, 1)))
    [session] = capture.sessions
    assert not session.is_whole
    assert session.pdrs[1].tunnel is not None
    assert any("older than the capture" in note for note in capture.notes)


def test_a_datagram_that_is_not_sound_costs_itself_alone(tmp_path: Path) -> None:
    capture = core_of(tmp_path, made.n4(made.establish(1)[:60]), *BEGIN)
    assert (capture.damaged, len(capture.sessions)) == (1, 1)
    assert any("packet 1: PFCP that is not sound" in note and "byte" in note for note in capture.notes)


def test_a_packet_between_request_and_answer_is_the_new_tunnels(tmp_path: Path) -> None:
    ask, answer = change(3, made.far(2, 2, 0, made.outer(7), kind=10))
    capture = core_of(tmp_path, *BEGIN, made.downlink(7), ask, made.downlink(7), answer)
    assert (capture.tunnelled, capture.matched) == (2, 1)


# --- captures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", [0, 1, 101, 113, 276])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_form_of_a_capture_has_the_same_packets(tmp_path: Path, link: int, order: str) -> None:
    packets = [*BEGIN, made.uplink(0x1001)]
    plain = made.pcap(packets, link, order)
    forms = {
        "a.pcap": plain,
        "b.pcap": made.pcap(packets, link, order, nano=True),
        "c.pcapng": made.pcapng(packets, link, order),
        "d.pcap.gz": gzip.compress(plain),
        "e.pcap.xz": lzma.compress(plain),
    }
    for name, content in forms.items():
        (tmp_path / name).write_bytes(content)
        assert frames.is_capture(tmp_path / name)
        found = list(CapturedFrames(tmp_path / name))
        assert [each.ip for each in found] == packets, name
        assert [each.time_ns for each in found] == [10**12 + at * 10**6 for at in range(3)], name


@pytest.mark.parametrize("form", [made.pcap, made.pcapng])
def test_a_capture_cut_or_damaged_anywhere_gives_what_was_before(tmp_path: Path, form: Any) -> None:
    whole, path = form([*BEGIN, made.uplink(0x1001)]), tmp_path / "cut.pcap"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        try:
            found = list(CapturedFrames(path))
        except InputError:
            assert length < 24
            continue
        assert len(found) < 3
    noise = random.Random(3)
    for _ in range(60):
        changed = bytearray(whole)
        for _ in range(4):
            changed[noise.randrange(4, len(whole))] = noise.randrange(256)
        path.write_bytes(changed)
        core.read(path)  # whatever it is, no error that is not ours


def test_a_packet_written_is_the_packet_read(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.pcap", tmp_path / "b.pcap"
    path.write_bytes(made.pcapng([made.uplink(5), made.udp("fe80::1", "2001:db8::2", 2152, b"x" * 9)]))
    before = list(CapturedFrames(path))
    with copy.open("wb") as file:
        frames.write_header(file)
        for frame in before:
            frames.write_frame(file, frame)
    assert list(CapturedFrames(copy)) == before


# --- scenarios -------------------------------------------------------------------------------------------------------


def test_filters_are_written_as_the_function_takes_them() -> None:
    ue = {made.UE}
    for text, wanted in (
        ("permit out ip from any to assigned", ["permit out ip from any to assigned"]),
        ("permit out 17 from any to 10.45.0.2 5060", ["permit out 17 from any to assigned 5060"]),
        ("permit out ip from 10.45.0.2 to 8.8.8.8/32", ["permit out ip from 8.8.8.8/32 to assigned"]),
        ("permit out 58 from ff02::2/128 to assigned", ["permit out 58 from ff02::2/128 to assigned"]),
        ("permit out 6 from any 80,8000-8010 to any", 2),
        ("permit out 6 from any 90-80 to assigned", None),
        ("permit out 6 from any 80 to assigned frag", None),
        ("permit out 6 from 8.8.8.8 to 9.9.9.9", None),
        ("permit out 300 from any to assigned", None),
        ("deny out ip from any to assigned", None),
        ("permit out ip from", None),
        ("", None),
    ):
        found = rules.flow_filter(text, ue)
        assert (len(found or []) if isinstance(wanted, int) else found) == wanted, text


def imported(tmp_path: Path, *packets: bytes) -> tuple[captures.ImportedCapture, dict[str, Any]]:
    (tmp_path / "core.pcap").write_bytes(made.pcap(list(packets)))
    found = captures.read(tmp_path / "core.pcap")
    return found, tomllib.loads(rules.toml(found.rows, "core.pcap"))


def test_a_sessions_rules_stand_in_the_file(tmp_path: Path) -> None:
    qer = made.ie(7, made.number(109, 70), made.ie(25, b"\x04"), made.ie(26, (50).to_bytes(5), (100).to_bytes(5)))
    urr = made.ie(6, made.number(81, 8), made.number(32, 600))
    both = made.number(109, 70) + made.number(81, 8)
    parts = made.establish(2, rules=both, far2=made.far(2, 2, 0, made.outer(7)))
    ask = bytearray(parts + qer + urr)
    ask[2:4] = (len(ask) - 4).to_bytes(2)
    found, file = imported(tmp_path, made.n4(bytes(ask)), BEGIN[1], made.uplink(0x1001), made.downlink(7))
    [rule], [session] = file["rules"], file["session"]
    assert session == {
        "seid": 0x77,
        "ue": [made.UE],
        "uplink_teid": 0x1001,
        "peer": made.GNB,
        "downlink_teid": 7,
        "qfi": 0,
        "rules": "rules-1",
    }
    assert [far["action"] for far in rule["far"]] == ["to_core", "to_access"]
    assert rule["qer"] == [{"id": 1, "uplink_closed": True, "uplink_bps": 50_000, "downlink_bps": 100_000}]
    assert rule["urr"] == [{"id": 1, "time_threshold_s": 600}]
    assert [(pdr["direction"], pdr["qers"], pdr["urrs"]) for pdr in rule["pdr"]] == [
        ("uplink", [1], [1]),
        ("downlink", [1], [1]),
    ]
    assert not found.rows.left_out


@pytest.mark.parametrize(
    ("action", "actions", "teid"),
    [
        (n4.FORWARD, ["to_core", "to_access"], 7),
        (n4.BUFFER, ["to_core", "to_access"], 7),  # an idle UE is paged, and comes back
        (n4.BUFFER | 8, ["to_core", "to_access"], 7),
        (n4.DROP, ["to_core", "drop"], 0),
        (n4.DROP | 8, ["to_core", "drop"], 0),
        (8, ["to_core", "drop"], 7),
    ],
)
def test_a_rule_that_drops_drops_downlink_too_wherever_it_sent_before(
    tmp_path: Path, action: int, actions: list[str], teid: int
) -> None:
    sent = change(3, made.far(2, 2, 0, made.outer(7), kind=10))
    found, file = imported(tmp_path, *BEGIN, *sent, *change(4, made.far(2, action, kind=10)), made.uplink(0x1001))
    assert [far["action"] for far in file["rules"][0]["far"]] == actions
    assert file["session"][0]["downlink_teid"] == teid
    assert not found.rows.left_out


def test_a_rule_that_drops_uplink_drops(tmp_path: Path) -> None:
    _, file = imported(tmp_path, *BEGIN, *change(3, made.far(1, n4.DROP, kind=10)), made.uplink(0x1001))
    assert file["rules"][0]["far"][0]["action"] == "drop"


def test_a_rule_that_does_not_fit_is_left_out_and_counted(tmp_path: Path) -> None:
    odd = change(3, made.pdr(5, 0, 1, made.fteid(0x1001), made.sdf("permit out 6 from any to assigned established")))
    found, file = imported(tmp_path, *BEGIN, *odd, made.uplink(0x1001))
    assert len(file["rules"][0]["pdr"]) == 2
    assert any("a filter that the simulated function does not have" in what for what in found.rows.left_out)


def test_sessions_one_after_the_other_on_one_address_give_the_busier_one(tmp_path: Path) -> None:
    end = (made.n4(made.message(54, 0x77, 3)), made.n4(made.message(55, 1, 3, made.ACCEPTED), back=True))
    again = (made.n4(made.establish(4)), made.n4(made.established(4, up=0x78, teid=0x1002), back=True))
    busy = [made.uplink(0x1002)] * 3
    found, file = imported(tmp_path, *BEGIN, made.uplink(0x1001), *end, *again, *busy)
    assert [each["uplink_teid"] for each in file["session"]] == [0x1002]
    assert found.rows.left_out.total() == 1


def test_a_prefix_that_several_sessions_have_stays_with_the_one_that_uses_it(tmp_path: Path) -> None:
    both = made.ie(93, b"\x03", made.ip(made.UE), made.ip("2001:db8::2"))
    other = made.ie(93, b"\x03", made.ip("10.45.0.3"), made.ip("2001:db8::3"))
    packets = []
    for sequence, up, teid, ue in ((2, 0x77, 0x1001, both), (3, 0x78, 0x1002, other)):
        ask = made.message(50, 0, sequence, made.fseid(up), made.pdr(1, 0, 1, made.fteid(teid), ue), made.far(1, 2, 1))
        packets += [made.n4(ask), made.n4(made.established(sequence, up=up, teid=teid), back=True)]
    inner = made.udp("2001:db8::3", "2001:db8:1::1", 443, b"x" * 9)
    v6 = made.udp(made.GNB, made.UPF, 2152, made.gtpu(0x1002, inner, 9))
    _, file = imported(tmp_path, *packets, *[made.uplink(0x1001)] * 5, v6)
    assert {each["uplink_teid"]: each["ue"] for each in file["session"]} == {
        0x1001: [made.UE],
        0x1002: ["10.45.0.3", "2001:db8::/64"],
    }


def test_the_control_plane_may_speak_ipv6(tmp_path: Path) -> None:
    ask = made.udp("2001:db8::1", "2001:db8::2", 8805, made.establish(2))
    answer = made.udp("2001:db8::2", "2001:db8::1", 8805, made.established(2))
    session = session_of(tmp_path, ask, answer)
    assert (str(session.control), str(session.user_plane)) == ("2001:db8::1", "2001:db8::2")
    assert session.tunnel_of(session.pdrs[1]) is not None


def test_a_gateway_that_is_told_no_address_takes_it_from_its_packets(tmp_path: Path) -> None:
    ask = made.message(
        50, 0, 2, made.fseid(1), made.pdr(1, 0, 1, made.choose()), made.pdr(2, 1, 2, made.fteid(8)),
        made.far(1, 2, 1, made.outer(99, "10.0.9.9")), made.far(2, 2, 0, made.outer(7)),
    )  # fmt: skip
    onward = made.udp(made.UPF, "10.0.9.9", 2152, made.gtpu(99, b"E"))
    found, file = imported(tmp_path, made.n4(ask), BEGIN[1], made.uplink(0x1001), onward, made.downlink(7))
    assert file["session"][0]["ue"] == [made.UE]
    assert (found.capture.tunnelled, found.capture.matched) == (3, 3)
    _, packets = found.write(tmp_path / "out.toml")
    assert len(list(CapturedFrames(packets))) == 2  # what goes onward came in before


def test_an_imported_capture_runs_with_every_verdict_of_its_packets(tmp_path: Path, wirespeed: Any) -> None:
    far = change(3, made.far(2, 2, 0, made.outer(7), kind=10))
    packets = [*BEGIN, *far, *(made.uplink(0x1001), made.downlink(7), made.uplink(0x9999)) * 4]
    (tmp_path / "core.pcap").write_bytes(made.pcap(packets))
    code, printed, _ = wirespeed("import", str(tmp_path / "core.pcap"), "--out", str(tmp_path / "mine.toml"))
    assert code == 0
    assert "8 of 12 users' packets are a session's" in re.sub(r"\s+", " ", printed)
    summary = ws.run(tmp_path / "mine.toml", set={"run.packets": 1200, "run.warmup": 0}).summary
    assert {reason: count for reason, count in summary["drops"].items() if count} == {"unknown_teid": 400}


def test_the_command_refuses_what_would_lose_a_file(tmp_path: Path, wirespeed: Any) -> None:
    path = tmp_path / "mine.n3.pcap"
    path.write_bytes(made.pcap([*BEGIN, made.uplink(0x1001)]))
    again = tmp_path / "b.pcap"
    again.write_bytes(path.read_bytes())
    bare = tmp_path / "bare.pcap"
    bare.write_bytes(made.pcap([made.uplink(5)]))
    for arguments, what in (
        ([str(path), "--out", str(tmp_path / "mine.toml")], "would write mine.n3.pcap, one of the files"),
        ([str(path), str(again)], "is a second capture"),
        ([str(bare)], "no session is established in it (1 packets, 0 PFCP messages, 1 users' packets"),
        ([str(path), "--compare"], "--compare: a capture has no measurements"),
        ([str(Path(__file__)), "--kind", "pfcp"], "a pcap or pcapng file is wanted"),
    ):
        code, _, error = wirespeed("import", *arguments)
        assert code == 2, arguments
        assert what in re.sub(r"\s+", " ", error), error


def test_text_that_comes_by_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "Model name:  Intel(R) Xeon(R) Gold 6140 CPU @ 2.30GHz\n"
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    found = import_files([pipe])
    writer.join()
    assert tomllib.loads(found["scenario"])["machine"]["processor"] == "xeon-gold-6140"
    with pytest.raises(InputError, match="is no regular file"):
        import_files([pipe], "pfcp")


def steps(work: Callable[[], object]) -> int:
    """Lines of Python that work takes: the same on every machine, and however busy it is."""
    count = 0

    def traced(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def ordinary(at: int) -> list[bytes]:
    """A session, a change of one that is older than the capture, and a user's packet."""
    seid, address = at + 1, f"10.{at >> 16 & 255}.{at >> 8 & 255}.{at & 255}"
    ask = made.message(
        50, 0, at, made.fseid(seid), made.pdr(1, 0, 1, made.fteid(seid), made.ue(address)), made.far(1, 2, 1)
    )
    return [
        made.n4(ask),
        made.n4(made.established(at, seid=seid, up=seid, teid=seid), back=True),
        made.n4(made.message(52, seid + 0x100000, at, made.far(2, 2, kind=10))),
        made.n4(made.message(53, 1, at, made.ACCEPTED), back=True),
        made.uplink(seid, address),
    ]


def shares_a_tunnel(at: int) -> list[bytes]:
    """A session that sends into a tunnel which all have, and changes twice."""
    seid = at + 1
    begin = made.message(
        50, 0, 3 * at, made.fseid(seid), made.pdr(1, 0, 1, made.fteid(seid)), made.far(1, 2, 1, made.outer(9))
    )
    return [
        made.n4(begin),
        made.n4(made.established(3 * at, seid=seid, up=seid, teid=seid), back=True),
        *change(3 * at + 1, made.far(1, 4, kind=10), seid=seid),
        *change(3 * at + 2, made.far(1, 2, kind=10), seid=seid),
    ]


def takes_an_identifier_again(at: int) -> list[bytes]:
    """An establishment with the identifier of the one before."""
    return [made.n4(made.establish(at)), made.n4(made.established(at), back=True)]


def changes_an_older_one(at: int) -> list[bytes]:
    """A change of that identifier's session before all establishments."""
    return list(change((1 << 24) - 1 - at, made.far(2, 2, kind=10)))


@pytest.mark.parametrize(
    "kinds",
    [[ordinary], [shares_a_tunnel], [changes_an_older_one, takes_an_identifier_again]],
    ids=lambda kinds: kinds[-1].__name__,
)
def test_many_sessions_take_steps_in_proportion(tmp_path: Path, kinds: list[Callable[[int], list[bytes]]]) -> None:
    """Four times the sessions take four times the steps, and 16 times where each is looked for among all."""

    def taken(count: int) -> int:
        path = tmp_path / f"{count}.pcap"
        path.write_bytes(made.pcap([packet for kind in kinds for at in range(count) for packet in kind(at)]))
        found: list[core.MobileCapture] = []

        def work() -> None:
            capture = core.read(path)
            nodes = capture.nodes()
            assert capture.nodes() is nodes
            found.append(capture)
            for node in nodes:
                rules.rows(capture, node)

        count_of_steps = steps(work)
        assert len([each for each in found[0].sessions if each.is_whole]) == count
        return count_of_steps

    few, many = taken(100), taken(400)
    assert many < 4.2 * few, (few, many)


@pytest.mark.parametrize("begin", [5, (1 << 24) - 2, 1 << 23, (1 << 23) - 1])
def test_changes_that_come_early_are_made_in_their_order_where_numbers_begin_again(tmp_path: Path, begin: int) -> None:
    later = [change((begin + n) % (1 << 24), made.far(2, 2, 0, made.outer(n), kind=10)) for n in (1, 2, 3)]
    before = change((begin - 1) % (1 << 24), made.far(2, 2, 0, made.outer(99), kind=10))
    early = [packet for pair in (later[2], before, later[0], later[1]) for packet in pair]
    ask, answer = made.n4(made.establish(begin)), made.n4(made.established(begin), back=True)
    followed = N4()
    (tmp_path / "early.pcap").write_bytes(made.pcap([*early, ask, answer]))
    for packet in packets_of(tmp_path / "early.pcap"):
        followed.feed(packet)
    [session] = followed.sessions
    assert session.fars[2].outer is not None
    assert (session.changes, session.fars[2].outer.teid) == (3, 3)  # the one before waits


def test_python_reads_a_capture_beside_a_machines_files(tmp_path: Path) -> None:
    (tmp_path / "core.pcap").write_bytes(made.pcap([*BEGIN, made.uplink(0x1001)]))
    (tmp_path / "lscpu.txt").write_text("Model name:  Intel(R) Xeon(R) Gold 6140 CPU @ 2.30GHz\n")
    found = import_files([tmp_path / "lscpu.txt", tmp_path / "core.pcap"])
    scenario = tomllib.loads(found["scenario"])
    assert scenario["function"]["kind"] == "upf"
    assert scenario["machine"]["processor"] == "xeon-gold-6140"
    [session] = found["mobile"]["sessions"]
    assert session["pdrs"][0]["tunnel"] == {"teid": 0x1001, "v4": made.UPF, "v6": None, "choose_id": None}
    assert found["mobile"]["gtpu_matched"] == 1


def test_a_tunnel_is_found_behind_options_and_extensions() -> None:
    inner = b"E" * 24
    assert core.gpdu(made.gtpu(5, inner, 9)) == (5, inner)
    assert core.gpdu(made.gtpu(5, inner)) == (5, inner)
    whole = made.gtpu(5, b"", 9)
    assert [core.gpdu(whole[:length]) for length in range(8, len(whole))] == [None] * (len(whole) - 8)
    endless = bytearray(whole)
    endless[12] = 0  # an extension of no length
    assert core.gpdu(bytes(endless)) is None
    assert core.gpdu(b"\x30\x01\x00\x00\x00\x00\x00\x00") is None  # an echo


def test_ends_of_both_families_are_tunnels() -> None:
    end: Address = frames.IPv6Address("2001:db8::1")
    session = N4Session(end, end, 1)
    session.pdrs[1] = n4.PdrState(1, source=n4.ACCESS, tunnel=FTeid(5, frames.IPv4Address(made.UPF), end))
    assert {(str(a), t) for a, t, _ in core._tunnels(session)} == {(made.UPF, 5), ("2001:db8::1", 5)}
