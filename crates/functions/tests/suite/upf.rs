//! What the user plane function decides, what it does to the bytes, and which references it makes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use functions::upf::{
    Action, Capacity, Direction, Far, GPDU, GTPU_PORT, NaiveUpf, PDU_SESSION_CONTAINER, Pdr, PduSession, Qer,
    SdfFilter, TokenBucket, Trigger, Urr, parse_gtpu,
};
use functions::{Chain, DropReason, Function, LookupMode, PacketFunction, Upf, UpfSpec, Verdict};
use packet::{L3, MBUF_HEADER_BYTES, MBUF_HEADROOM_BYTES, Packet, internet_checksum, layers};
use probe::{Access, Count, Null, ProbeEvent, Record, Ref, RegionId};
use proptest::prelude::*;
use units::{PacketId, PortId, Ps};

const UPF: Ipv4Addr = Ipv4Addr::new(192, 168, 252, 3);
const BASE_STATION: Ipv4Addr = Ipv4Addr::new(10, 16, 0, 9);
const REMOTE: &str = "198.51.100.7";
const SECOND: u64 = 1_000_000_000_000;

fn frame(id: u64, ethertype: u16, l3: &[u8]) -> Packet {
    let mut frame = vec![0xee; 12];
    frame.extend(ethertype.to_be_bytes());
    frame.extend(l3);
    let mut packet = Packet { id: PacketId(id), ..Packet::default() };
    packet.set_frame(&frame, frame.len() as u32);
    packet
}

/// An IP packet with `payload`.
fn ip(src: IpAddr, dst: IpAddr, proto: u8, payload: &[u8]) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let total = (20 + payload.len() as u16).to_be_bytes();
            let mut out = vec![0x45, 0, total[0], total[1], 0, 1, 0, 0, 64, proto, 0, 0];
            out.extend(src.octets());
            out.extend(dst.octets());
            let sum = internet_checksum(&out).to_be_bytes();
            out[10..12].copy_from_slice(&sum);
            out.extend(payload);
            out
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut out = vec![0x60, 0, 0, 0];
            out.extend((payload.len() as u16).to_be_bytes());
            out.extend([proto, 64]);
            out.extend(src.octets());
            out.extend(dst.octets());
            out.extend(payload);
            out
        }
        _ => panic!("one family"),
    }
}

fn l4(proto: u8, src: u16, dst: u16) -> Vec<u8> {
    let mut out = [src.to_be_bytes(), dst.to_be_bytes()].concat();
    out.extend(if proto == 17 { vec![0, 28, 0, 0] } else { vec![0; 16] });
    out.extend([0xaa; 20]);
    out
}

fn user(src: &str, dst: &str, proto: u8, ports: (u16, u16)) -> Vec<u8> {
    ip(src.parse().unwrap(), dst.parse().unwrap(), proto, &l4(proto, ports.0, ports.1))
}

/// A GTP-U message; `chain` is what follows the first 8 bytes of the header.
fn gtpu(flags: u8, message: u8, teid: u32, chain: &[u8], user: &[u8]) -> Vec<u8> {
    let mut out = vec![flags, message];
    out.extend(((chain.len() + user.len()) as u16).to_be_bytes());
    out.extend(teid.to_be_bytes());
    out.extend(chain);
    out.extend(user);
    out
}

fn tunnelled(id: u64, message: &[u8]) -> Packet {
    let mut udp = vec![8, 104];
    udp.extend(GTPU_PORT.to_be_bytes());
    udp.extend(((message.len() + 8) as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(message);
    frame(id, 0x0800, &ip(BASE_STATION.into(), UPF.into(), 17, &udp))
}

const CONTAINER: [u8; 8] = [0, 0, 0, PDU_SESSION_CONTAINER, 1, 0x10, 9, 0];

fn uplink(id: u64, teid: u32, user: &[u8]) -> Packet {
    tunnelled(id, &gtpu(0x34, GPDU, teid, &CONTAINER, user))
}

fn downlink(id: u64, user: &[u8]) -> Packet {
    let v4 = user[0] >> 4 == 4;
    frame(id, if v4 { 0x0800 } else { 0x86dd }, user)
}

fn pdr(id: u16, precedence: u32, direction: Direction, filters: &[&str], far: u32) -> Pdr {
    let filters = filters.iter().map(|f| f.parse().unwrap()).collect();
    Pdr { id, precedence, direction, filters, qfi: None, far, qers: vec![1], urrs: vec![1] }
}

/// References of a packet but for the rules that are looked at.
const UPLINK_REFS: u64 = 31;
const DOWNLINK_REFS: u64 = 25;

/// UE 10.64.0.1 and 2001:db8:1::/64: web by rule 1 and 2, a blocked host by 3 and 4, all else by 5 and 6.
fn session() -> PduSession {
    use Direction::{Downlink, Uplink};
    let web = ["permit out 6 from any 443 to assigned", "permit out 6 from any 80 to assigned"];
    let blocked = ["permit out ip from 203.0.113.0/24 to assigned"];
    PduSession {
        seid: 1,
        ue_v4: Some(Ipv4Addr::new(10, 64, 0, 1)),
        ue_v6: Some("2001:db8:1::".parse().unwrap()),
        uplink_teid: 100,
        pdrs: vec![
            pdr(1, 20, Uplink, &web, 1),
            pdr(2, 20, Downlink, &web, 2),
            pdr(3, 10, Uplink, &blocked, 3),
            pdr(4, 10, Downlink, &blocked, 3),
            pdr(5, 255, Uplink, &[], 1),
            pdr(6, 255, Downlink, &[], 2),
        ],
        fars: vec![
            Far { id: 1, action: Action::ToCore },
            Far { id: 2, action: Action::ToAccess { peer: BASE_STATION, teid: 77, qfi: 9 } },
            Far { id: 3, action: Action::Drop },
        ],
        qers: vec![Qer { id: 1, ..Qer::default() }],
        urrs: vec![Urr { id: 1, ..Urr::default() }],
    }
}

fn upf(sessions: &[PduSession]) -> Upf {
    Upf::with_sessions(&UpfSpec { buffer: 2, ..UpfSpec::default() }, sessions).unwrap()
}

fn run_at(upf: &mut Upf, now: Ps, packets: &mut [Packet]) -> Vec<Verdict> {
    let mut out = Vec::new();
    upf.process_burst(now, packets, &mut Null, &mut out);
    out
}

fn run(upf: &mut Upf, packets: &mut [Packet]) -> Vec<Verdict> {
    run_at(upf, Ps::ZERO, packets)
}

const TO_CORE: Verdict = Verdict::Forward { port: PortId(1) };
const TO_ACCESS: Verdict = Verdict::Forward { port: PortId(0) };

#[test]
fn an_uplink_packet_leaves_its_tunnel_and_a_downlink_packet_enters_one() {
    for (ue, remote) in [("10.64.0.1", REMOTE), ("2001:db8:1::42", "2001:db8:ffff::1")] {
        let mut upf = upf(&[session()]);
        let up = user(ue, remote, 6, (50_000, 443));
        let down = user(remote, ue, 6, (443, 50_000));
        let mut packets = [uplink(0, 100, &up), downlink(1, &down)];
        assert_eq!(run(&mut upf, &mut packets), [TO_CORE, TO_ACCESS]);
        let [out, tunnel] = packets;
        assert_eq!(&out.data[14..], up);
        assert_eq!(out.frame_bytes as usize, 14 + up.len());
        let read = layers(&out.data).unwrap();
        assert_eq!((read.l3, read.five_tuple.dst), (out.l3, remote.parse().unwrap()));
        let read = layers(&tunnel.data).unwrap();
        assert_eq!((read.five_tuple.src, read.five_tuple.dst), (UPF.into(), BASE_STATION.into()));
        assert_eq!((tunnel.l3, tunnel.l3_offset, tunnel.frame_bytes as usize), (L3::V4, 14, tunnel.data.len()));
        assert_eq!(internet_checksum(&tunnel.data[14..34]), 0);
        let header = parse_gtpu(&tunnel.data[42..], tunnel.data.len() - 42).unwrap();
        assert_eq!((header.teid, header.qfi, header.message), (77, Some(9), GPDU));
        assert_eq!(&tunnel.data[42 + header.payload..], down);
        let usage = upf.usage(1, 1).unwrap();
        assert_eq!(usage.map(|v| (v.bytes, v.packets)), [(up.len() as u64, 1), (down.len() as u64, 1)]);
    }
}

/// Of a frame only the first part may be there; lengths are those of the whole.
#[test]
fn a_frame_that_is_cut_keeps_its_length() {
    let mut up = user("10.64.0.1", REMOTE, 6, (50_000, 443));
    up.extend([0; 1400]);
    let total = (up.len() as u16).to_be_bytes();
    up[2..4].copy_from_slice(&total);
    let whole = uplink(0, 100, &up);
    let mut cut = [whole.clone()];
    cut[0].data.truncate(128);
    assert_eq!(run(&mut upf(&[session()]), &mut cut), [TO_CORE]);
    assert_eq!((cut[0].frame_bytes as usize, cut[0].data.len()), (14 + up.len(), 128 - 44));
    assert_eq!(cut[0].data[14..], up[..128 - 58]);
}

#[test]
fn every_reason_to_drop_is_met_by_the_packet_that_deserves_it() {
    use DropReason::*;
    let ok = || user("10.64.0.1", REMOTE, 6, (50_000, 443));
    let up = |user: &[u8]| uplink(0, 100, user);
    let message = |flags, message, chain: &[u8]| tunnelled(0, &gtpu(flags, message, 100, chain, &ok()));
    let changed = |mut p: Packet, f: &dyn Fn(&mut Packet)| {
        f(&mut p);
        p
    };
    let gates = |closed: bool| {
        let mut s = session();
        s.qers[0] = Qer { id: 1, uplink_closed: closed, downlink_closed: closed, ..Qer::default() };
        s
    };
    let metered = || {
        let mut s = session();
        s.qers[0].uplink = Some(TokenBucket { bits_per_s: 1000, bytes: 64 });
        s.urrs[0].volume_quota = Some(1);
        s
    };
    let idle = |buffer: usize| {
        let mut s = session();
        s.fars[1].action = Action::Buffer;
        (s, buffer)
    };
    let few = || {
        let mut s = session();
        s.pdrs.retain(|p| p.id != 6);
        s
    };
    let to_ue = || downlink(0, &user(REMOTE, "10.64.0.1", 17, (53, 9)));
    let mut cases: Vec<(PduSession, Packet, DropReason)> = [
        (frame(0, 0x0806, &[0; 28]), NotIp),
        (changed(up(&ok()), &|p| p.data.truncate(30)), Truncated),
        (changed(up(&ok()), &|p| p.data.truncate(40)), Truncated),
        (changed(up(&ok()), &|p| p.data.truncate(48)), Truncated),
        (changed(up(&ok()), &|p| p.data.truncate(52)), Truncated),
        (changed(up(&ok()), &|p| p.data.truncate(56)), Truncated),
        (changed(up(&ok()), &|p| p.data.truncate(70)), Truncated),
        (changed(up(&ok()), &|p| p.data.truncate(80)), Truncated),
        (changed(up(&ok()), &|p| p.data[14] = 0x65), BadVersion),
        (changed(up(&ok()), &|p| p.data[14] = 0x55), BadVersion),
        (changed(up(&ok()), &|p| p.data[14] = 0x44), BadHeaderLength),
        (changed(up(&ok()), &|p| p.data[16] = 0xff), BadTotalLength),
        (changed(up(&ok()), &|p| p.data[20] = 0x20), OuterFragment),
        (changed(up(&ok()), &|p| p.data[38] = 0xff), BadUdpLength),
        (changed(up(&ok()), &|p| p.data[39] = 7), BadUdpLength),
        (changed(up(&ok()), &|p| p.data[38..40].copy_from_slice(&[0, 12])), GtpuTruncated),
        (message(0x50, GPDU, &[]), GtpuBadVersion),
        (message(0x20, GPDU, &[]), GtpPrime),
        (changed(up(&ok()), &|p| p.data[44] = 0xff), GtpuBadLength),
        (message(0x34, GPDU, &[0, 0, 0, 0x85, 0, 0, 0, 0]), GtpuBadExtension),
        (message(0x34, GPDU, &[0, 0, 0, 0x85, 200, 0, 0, 0]), GtpuBadExtension),
        (message(0x34, GPDU, &[0, 0, 0, 0xff, 1, 0, 0, 0]), GtpuUnknownExtension),
        (message(0x30, 1, &[]), GtpuNotUserData),
        (uplink(0, 101, &ok()), UnknownTeid),
        (uplink(0, 0, &ok()), UnknownTeid),
        (up(&[0x12; 40]), InnerNotIp),
        (up(&[]), InnerBadHeader),
        (up(&ok()[..12]), InnerBadHeader),
        (up(&[&[0x44], &ok()[1..]].concat()), InnerBadHeader),
        (up(&ok()[..50]), InnerBadLength),
        (up(&user("10.64.0.2", REMOTE, 6, (1, 443))), UeSpoofed),
        (up(&user("2001:db8:2::1", "2001:db8:ffff::1", 6, (1, 443))), UeSpoofed),
        (downlink(0, &user(REMOTE, "10.64.0.2", 6, (443, 1))), UnknownUe),
        (downlink(0, &user("2001:db8:ffff::1", "2001:db8:2::1", 6, (443, 1))), UnknownUe),
        (downlink(0, &user("203.0.113.9", "10.64.0.1", 6, (443, 1))), FarDrop),
        (up(&user("10.64.0.1", "203.0.113.9", 6, (1, 443))), FarDrop),
    ]
    .map(|(packet, reason)| (session(), packet, reason))
    .into();
    cases.push((few(), to_ue(), NoPdr));
    cases.push((gates(true), up(&ok()), GateClosed));
    cases.push((gates(true), to_ue(), GateClosed));
    cases.push((idle(1).0, to_ue(), Buffered));
    let mut met = BTreeSet::new();
    for (i, (session, packet, reason)) in cases.into_iter().enumerate() {
        let mut after = [packet.clone()];
        let verdicts = run(&mut upf(std::slice::from_ref(&session)), &mut after);
        assert_eq!(verdicts, [Verdict::Drop(reason)], "case {i}");
        assert_eq!(after[0], packet, "case {i}: a dropped packet is left as it was");
        let mut naive = NaiveUpf::new(UPF, 2, std::slice::from_ref(&session));
        assert_eq!(naive.process(Ps::ZERO, &mut after[0]), Verdict::Drop(reason), "case {i}");
        met.insert(reason);
    }
    // What takes more than one packet.
    let mut upf3 = upf(&[idle(2).0]);
    assert_eq!(run(&mut upf3, &mut [to_ue(), to_ue(), to_ue()])[2], Verdict::Drop(BufferFull));
    let mut metered_upf = upf(&[metered()]);
    let small = || up(&user("10.64.0.1", REMOTE, 17, (1, 53)));
    assert_eq!(run(&mut metered_upf, &mut [small(), small()]), [TO_CORE, Verdict::Drop(RateExceeded)]);
    assert_eq!(run_at(&mut metered_upf, Ps(SECOND), &mut [small()]), [Verdict::Drop(QuotaExhausted)]);
    met.extend([BufferFull, RateExceeded, QuotaExhausted]);
    // Those before are forwarding's, those behind are of other functions.
    let own = |r: &DropReason| *r > HopLimitExceeded && *r <= QuotaExhausted;
    let wanted: BTreeSet<_> = DropReason::ALL.iter().copied().filter(own).collect();
    assert!(met.is_superset(&wanted), "without a case: {:?}", wanted.difference(&met));
}

#[test]
fn of_two_rules_that_match_the_lower_precedence_counts_and_then_the_lower_id() {
    let mut s = session();
    s.urrs = (1..=3).map(|id| Urr { id, ..Urr::default() }).collect();
    let all = |id, precedence, urr| Pdr { urrs: vec![urr], ..pdr(id, precedence, Direction::Uplink, &[], 1) };
    s.pdrs = vec![all(9, 5, 1), all(4, 5, 2), all(1, 6, 3)];
    let mut upf = upf(&[s]);
    run(&mut upf, &mut [uplink(0, 100, &user("10.64.0.1", REMOTE, 6, (1, 2)))]);
    assert_eq!([1, 2, 3].map(|urr| upf.usage(1, urr).unwrap()[0].packets), [0, 1, 0]);
}

#[test]
fn buffered_packets_come_back_in_order_when_the_ue_does() {
    let mut s = session();
    s.fars[1].action = Action::Buffer;
    let mut upf = upf(&[s]);
    let packet = |id: u64| downlink(id, &user(REMOTE, "10.64.0.1", 17, (53, id as u16)));
    let mut packets = [packet(3), packet(5)];
    assert_eq!(run(&mut upf, &mut packets), [Verdict::Drop(DropReason::Buffered); 2]);
    let back = Action::ToAccess { peer: BASE_STATION, teid: 8, qfi: 1 };
    let mut kept = upf.set_action(1, 2, back).unwrap();
    assert_eq!(kept, packets);
    assert_eq!(run(&mut upf, &mut kept), [TO_ACCESS; 2]);
    assert_eq!(upf.set_action(1, 9, back), None);
    assert_eq!(upf.set_action(2, 2, back), None);
}

#[test]
fn a_token_bucket_lets_its_size_and_then_its_rate_pass() {
    let mut s = session();
    let bytes = user("10.64.0.1", REMOTE, 17, (1, 53)).len() as u64;
    s.qers[0].uplink = Some(TokenBucket { bits_per_s: bytes * 8 * 10, bytes: 5 * bytes as u32 });
    let mut upf = upf(&[s]);
    let mut passed = |at: u64, n: usize| {
        let mut packets: Vec<_> =
            (0..n).map(|i| uplink(i as u64, 100, &user("10.64.0.1", REMOTE, 17, (1, 53)))).collect();
        run_at(&mut upf, Ps(at), &mut packets).iter().filter(|v| **v == TO_CORE).count()
    };
    assert_eq!(passed(0, 8), 5);
    assert_eq!(passed(SECOND / 10 - 1, 2), 0, "a picosecond before");
    assert_eq!(passed(SECOND / 10, 2), 1);
    assert_eq!(passed(1000 * SECOND, 8), 5, "it holds no more than its size");
}

#[test]
fn usage_is_reported_by_volume_time_quota_and_release() {
    let mut s = session();
    let bytes = user("10.64.0.1", REMOTE, 17, (1, 53)).len() as u64;
    s.urrs[0] =
        Urr { id: 1, volume_threshold: Some(3 * bytes), time_threshold_s: Some(2), volume_quota: Some(6 * bytes) };
    let mut upf = upf(&[s]);
    let mut send = |at: u64, n: usize| {
        let mut packets: Vec<_> = (0..n).map(|_| uplink(0, 100, &user("10.64.0.1", REMOTE, 17, (1, 53)))).collect();
        run_at(&mut upf, Ps(at * SECOND), &mut packets);
        upf.take_reports()
            .iter()
            .map(|r| (r.trigger, r.uplink.packets, r.first.0 / SECOND, r.last.0 / SECOND))
            .collect::<Vec<_>>()
    };
    assert_eq!(send(1, 3), [(Trigger::Volume, 3, 1, 1)]);
    assert_eq!(send(5, 1), []);
    assert_eq!(send(7, 1), [(Trigger::Time, 2, 5, 7)]);
    assert_eq!(send(8, 2), [(Trigger::Quota, 1, 8, 8)]);
    assert!(upf.release(1) && !upf.release(1));
    assert_eq!(upf.take_reports().len(), 1);
    assert_eq!(upf.sessions(), 0);
}

#[test]
fn sessions_that_cannot_be_are_told_why() {
    let mut upf = upf(&[session()]);
    let mut error = |change: &dyn Fn(&mut PduSession)| {
        let mut s = session();
        (s.seid, s.uplink_teid, s.ue_v4, s.ue_v6) = (2, 200, Some(Ipv4Addr::new(10, 64, 0, 2)), None);
        change(&mut s);
        upf.establish(&s).unwrap_err().to_string()
    };
    let errors = [
        error(&|s| s.seid = 1),
        error(&|s| s.uplink_teid = 100),
        error(&|s| s.ue_v4 = Some(Ipv4Addr::new(10, 64, 0, 1))),
        error(&|s| s.ue_v6 = session().ue_v6),
        error(&|s| s.ue_v6 = Some("2001:db8::1".parse().unwrap())),
        error(&|s| s.ue_v4 = None),
        error(&|s| s.pdrs[0].id = 2),
        error(&|s| s.fars[0].id = 2),
        error(&|s| s.pdrs[0].far = 7),
        error(&|s| s.pdrs[0].far = 2),
        error(&|s| s.pdrs[1].far = 1),
        error(&|s| s.pdrs[0].qers = vec![1, 1, 1]),
        error(&|s| s.pdrs[0].urrs = vec![9]),
        error(&|s| s.pdrs[0].qfi = Some(64)),
        error(&|s| s.qers[0].uplink = Some(TokenBucket { bits_per_s: 0, bytes: 1000 })),
        error(&|s| s.qers[0].uplink = Some(TokenBucket { bits_per_s: 1, bytes: 3 << 20 })),
        error(&|_| ()),
    ];
    insta::assert_snapshot!(errors.join("\n"));
    assert!(upf.release(1));
    let mut again = session();
    again.seid = 2;
    upf.establish(&again).unwrap();
    assert_eq!(run(&mut upf, &mut [uplink(0, 100, &user("10.64.0.1", REMOTE, 6, (1, 443)))]), [TO_CORE]);
}

#[test]
fn references_per_packet_are_what_the_module_header_says() {
    let refs = |session: PduSession, mut packet: Packet| {
        let mut count = Count::default();
        upf(&[session]).process_burst(Ps::ZERO, std::slice::from_mut(&mut packet), &mut count, &mut Vec::new());
        count.refs()
    };
    // Rules without remote address: the two filters of rule 1 come first, rule 5 is the third.
    let mut s = session();
    s.pdrs.retain(|p| p.id != 3 && p.id != 4);
    s.qers[0].uplink = Some(TokenBucket { bits_per_s: 1 << 30, bytes: 1 << 20 });
    s.qers[0].downlink = s.qers[0].uplink;
    for (port, k) in [(443, 1), (80, 2), (81, 3)] {
        let up = uplink(0, 100, &user("10.64.0.1", REMOTE, 6, (50_000, port)));
        let down = downlink(0, &user(REMOTE, "10.64.0.1", 6, (port, 50_000)));
        assert_eq!(refs(s.clone(), up), UPLINK_REFS + k, "uplink, rule {k}");
        assert_eq!(refs(s.clone(), down), DOWNLINK_REFS + k, "downlink, rule {k}");
    }
    assert_eq!(refs(session(), frame(0, 0x0806, &[0; 28])), 6, "not IP");
}

#[test]
fn references_of_a_flow_that_is_remembered_are_what_the_module_header_says() {
    let mut s = session();
    s.pdrs.retain(|p| p.id != 3 && p.id != 4);
    s.qers[0].uplink = Some(TokenBucket { bits_per_s: 1 << 30, bytes: 1 << 20 });
    s.qers[0].downlink = s.qers[0].uplink;
    let mut upf = Upf::with_sessions(&UpfSpec { flow_table: 64, ..UpfSpec::default() }, &[s]).unwrap();
    let refs = |upf: &mut Upf, mut packet: Packet| {
        let mut count = Count::default();
        upf.process_burst(Ps::ZERO, std::slice::from_mut(&mut packet), &mut count, &mut Vec::new());
        count.refs()
    };
    for (port, k) in [(443, 1), (80, 2), (81, 3)] {
        let up = uplink(0, 100, &user("10.64.0.1", REMOTE, 6, (50_000, port)));
        let down = downlink(0, &user(REMOTE, "10.64.0.1", 6, (port, 50_000)));
        for (packet, walked, known) in
            [(up, UPLINK_REFS + k + 4, UPLINK_REFS - 1), (down, DOWNLINK_REFS + k + 4, DOWNLINK_REFS - 1)]
        {
            assert_eq!(refs(&mut upf, packet.clone()), walked, "rule {k}, a new flow");
            assert_eq!(refs(&mut upf, packet.clone()), known, "rule {k}");
        }
    }
    upf.set_action(1, 1, Action::ToCore).unwrap();
    let up = uplink(0, 100, &user("10.64.0.1", REMOTE, 6, (50_000, 443)));
    assert_eq!(refs(&mut upf, up), UPLINK_REFS + 1 + 6, "its entry and its session's generation are looked at in vain");
}

#[test]
fn a_core_remembers_its_own_flows_until_their_session_changes_or_others_take_their_place() {
    let spec = UpfSpec { flow_table: 8, ..UpfSpec::default() };
    let mut upf = Upf::with_sessions(&spec, &[session()]).unwrap();
    let of_port = |port: u16| uplink(0, 100, &user("10.64.0.1", REMOTE, 6, (port, 443)));
    let mut now = 0;
    let mut done = |upf: &mut Upf, ports: std::ops::Range<u16>| {
        now += SECOND;
        let before = upf.flow_counters().unwrap();
        let mut packets: Vec<_> = ports.map(of_port).collect();
        packets.chunks_mut(1).for_each(|packet| {
            now += 1 << 20;
            run_at(upf, Ps(now), packet);
        });
        let after = upf.flow_counters().unwrap() - before;
        (after.hits, after.misses, after.stale, after.evictions)
    };
    assert_eq!(done(&mut upf, 0..8), (0, 8, 0, 0));
    assert_eq!(done(&mut upf, 0..8), (8, 0, 0, 0));
    upf.on_core(3);
    assert_eq!(done(&mut upf, 0..1), (0, 1, 0, 0), "another core's table");
    upf.on_core(0);
    upf.set_action(1, 1, Action::ToCore).unwrap();
    assert_eq!(done(&mut upf, 0..8), (0, 8, 8, 0), "the session has changed");
    assert_eq!(done(&mut upf, 8..10), (0, 2, 0, 2), "the bucket was full");
    assert_eq!(done(&mut upf, 2..10), (8, 0, 0, 0), "the two that were used longest ago went");
    // In one burst a new flow comes before the one that was used longest ago.
    let mut burst = [of_port(10), of_port(2)];
    run_at(&mut upf, Ps(10 * SECOND), &mut burst);
    assert_eq!(done(&mut upf, 2..3), (1, 0, 0, 0), "it was just used");
    assert_eq!(done(&mut upf, 3..4), (0, 1, 0, 1), "the next oldest went");
    let error = Upf::new(&UpfSpec { flow_table: (1 << 22) + 1, ..spec }, Capacity::default()).unwrap_err().to_string();
    assert_eq!(error, "upf.flow_table = 4194305: allowed are up to 4194304");
}

#[test]
fn as_a_member_of_a_chain_it_has_a_table_for_each_core_too() {
    let upf = Upf::with_sessions(&UpfSpec { flow_table: 8, ..UpfSpec::default() }, &[session()]).unwrap();
    let mut chain = Function::Chain(Chain::new(vec![Function::Upf(upf)]).unwrap());
    for core in [0, 0, 3, 0, 3] {
        chain.on_core(core);
        let mut packet = [uplink(0, 100, &user("10.64.0.1", REMOTE, 6, (1, 443)))];
        chain.process_burst(Ps::ZERO, &mut packet, &mut Null, &mut Vec::new());
    }
    let done = chain.flow_counters().unwrap();
    assert_eq!((done.hits, done.misses), (3, 2));
}

/// The place whose reference gives the address of the reference at each place.
fn source_of(site: u16) -> Option<&'static [u16]> {
    Some(match site {
        2 => &[1],
        8..=13 | 15..=17 => &[5],
        18 | 21 | 24 | 25 | 26 => &[9, 16],
        22 => &[21],
        23 => &[22],
        28 | 32 => &[25],
        33..=36 => &[32],
        37 | 39 | 40 | 42 | 43 => &[22, 36],
        38 => &[22, 25],
        47 => &[46, 47],
        48 => &[46],
        _ => return None,
    })
}

fn any_filter() -> impl Strategy<Value = SdfFilter> {
    let remote = prop_oneof![
        Just(None),
        (0u32..8, 24u8..=32).prop_map(|(host, len)| packet::Prefix::v4(0xc633_6400 + host, len)),
        (0u128..4, 60u8..=128).prop_map(|(n, len)| packet::Prefix::v6(0x2001_0db8_ffff << 80 | n, len)),
    ];
    let ports = || prop_oneof![Just((0, u16::MAX)), (0u16..4, 0u16..4).prop_map(|(a, b)| (a.min(b), a.max(b)))];
    let proto = prop::option::of(prop_oneof![Just(6u8), Just(17), Just(1)]);
    (proto, remote, ports(), ports()).prop_map(|(proto, remote, remote_ports, ue_ports)| SdfFilter {
        proto,
        remote,
        remote_ports,
        ue_ports,
    })
}

fn any_action(direction: Direction) -> impl Strategy<Value = u32> {
    // 1 to the core, 2 to the access, 3 drop, 4 buffer.
    let forward = if direction == Direction::Uplink { 1u32 } else { 2 };
    prop_oneof![6 => Just(forward), 1 => Just(3), 1 => Just(4)]
}

fn any_pdr() -> impl Strategy<Value = Pdr> {
    let direction = prop_oneof![Just(Direction::Uplink), Just(Direction::Downlink)];
    direction.prop_flat_map(|direction| {
        let parts = (
            0u32..4,
            prop::collection::vec(any_filter(), 0..3),
            prop::option::weighted(0.2, 8u8..10),
            any_action(direction),
            prop::collection::vec(1u32..4, 0..3),
            prop::collection::vec(1u32..4, 0..3),
        );
        parts.prop_map(move |(precedence, filters, qfi, far, qers, urrs)| Pdr {
            id: 0,
            precedence,
            direction,
            filters,
            qfi,
            far,
            qers,
            urrs,
        })
    })
}

fn any_qer(id: u32) -> impl Strategy<Value = Qer> {
    let bucket = || {
        prop::option::of(
            (1_000u64..5_000_000, 64u32..400).prop_map(|(bits_per_s, bytes)| TokenBucket { bits_per_s, bytes }),
        )
    };
    (prop::bool::weighted(0.1), prop::bool::weighted(0.1), bucket(), bucket()).prop_map(
        move |(uplink_closed, downlink_closed, uplink, downlink)| Qer {
            id,
            uplink_closed,
            downlink_closed,
            uplink,
            downlink,
        },
    )
}

fn any_urr(id: u32) -> impl Strategy<Value = Urr> {
    let volume = || prop::option::weighted(0.3, 1u64..600);
    (volume(), prop::option::weighted(0.3, 0u32..2), prop::option::weighted(0.1, 1u64..600)).prop_map(
        move |(volume_threshold, time_threshold_s, volume_quota)| Urr {
            id,
            volume_threshold,
            time_threshold_s,
            volume_quota,
        },
    )
}

/// Session `n` has UE 10.64.0.n, 2001:db8:n::/64 and identifier 100 + n.
fn any_session(n: u8) -> impl Strategy<Value = PduSession> {
    let rules = (
        prop::collection::vec(any_pdr(), 0..12),
        [any_qer(1), any_qer(2), any_qer(3)],
        [any_urr(1), any_urr(2), any_urr(3)],
        0u8..3,
    );
    rules.prop_map(move |(mut pdrs, qers, urrs, family)| {
        // Ids fall while the list grows, so that ties are not decided by the order of the list.
        for (i, pdr) in pdrs.iter_mut().enumerate() {
            pdr.id = 100 - i as u16;
        }
        let fars = vec![
            Far { id: 1, action: Action::ToCore },
            Far { id: 2, action: Action::ToAccess { peer: BASE_STATION, teid: 1000 + u32::from(n), qfi: 9 } },
            Far { id: 3, action: Action::Drop },
            Far { id: 4, action: Action::Buffer },
        ];
        PduSession {
            seid: n.into(),
            ue_v4: (family != 1).then(|| Ipv4Addr::new(10, 64, 0, n)),
            ue_v6: (family != 0).then(|| Ipv6Addr::from(0x2001_0db8_0000u128 << 80 | u128::from(n) << 80)),
            uplink_teid: 100 + u32::from(n),
            pdrs,
            fars,
            qers: qers.into(),
            urrs: urrs.into(),
        }
    })
}

const SESSIONS: u8 = 4;

fn any_sessions() -> impl Strategy<Value = Vec<PduSession>> {
    [any_session(1), any_session(2), any_session(3), any_session(4)].prop_map(Vec::from)
}

/// A packet of one of the sessions or of none, some of them damaged.
fn any_packet() -> impl Strategy<Value = Packet> {
    let proto = prop_oneof![Just(6u8), Just(17), Just(1), Just(132)];
    let who = (0..=SESSIONS, prop::bool::weighted(0.3), any::<bool>(), prop::bool::weighted(0.1));
    let flow = (proto, 0u16..5, 0u16..5, 0u8..8, 0u8..6);
    let damage =
        prop::option::weighted(0.35, (any::<prop::sample::Index>(), any::<u8>(), any::<prop::sample::Index>()));
    (who, flow, damage, 0u8..8).prop_map(|((n, v6, up, spoof), (proto, a, b, host, form), damage, vlan)| {
        let claimed = if spoof { n.wrapping_add(1) } else { n };
        let (ue, remote): (IpAddr, IpAddr) = if v6 {
            let ue = Ipv6Addr::from((0x2001_0db8_0000u128 << 80 | u128::from(claimed) << 80) + 5);
            (ue.into(), Ipv6Addr::from(0x2001_0db8_ffff_u128 << 80 | u128::from(host)).into())
        } else {
            (Ipv4Addr::new(10, 64, 0, claimed).into(), Ipv4Addr::new(198, 51, 100, host).into())
        };
        let mut packet = if up {
            let user = ip(ue, remote, proto, &l4(proto, a, b));
            let teid = 100 + u32::from(n);
            match form {
                0 => tunnelled(0, &gtpu(0x30, GPDU, teid, &[], &user)),
                1 => tunnelled(
                    0,
                    &gtpu(0x36, GPDU, teid, &[0, 1, 0, 0x40, 1, 0, 0, 0xc0, 1, 0, 0, 0x85, 1, 16, 8, 0], &user),
                ),
                2 => tunnelled(0, &gtpu(0x32, 254, teid, &[0; 4], &user)),
                _ => uplink(0, teid, &user),
            }
        } else {
            downlink(0, &ip(remote, ue, proto, &l4(proto, b, a)))
        };
        let mut frame = packet.data.clone();
        if let Some((at, byte, keep)) = damage {
            let at = at.index(frame.len());
            frame[at] = byte;
            frame.truncate(keep.index(frame.len() * 3).min(frame.len()));
        }
        if vlan == 0 && frame.len() > 12 {
            frame.splice(12..12, [0x81, 0, 0, 1]);
        }
        // What was cut is missing from the capture, or from the frame itself.
        let claimed = if vlan % 2 == 0 { packet.frame_bytes } else { 0 };
        packet.set_frame(&frame, claimed);
        packet
    })
}

fn any_spec() -> impl Strategy<Value = UpfSpec> {
    let flow_table = prop_oneof![Just(0u32), Just(1), Just(64)];
    (any::<bool>(), any::<bool>(), flow_table).prop_map(|(prefetch, single, flow_table)| UpfSpec {
        prefetch,
        lookup: if single { LookupMode::Single } else { LookupMode::Bulk },
        buffer: 3,
        flow_table,
        ..UpfSpec::default()
    })
}

fn burst() -> impl Strategy<Value = Vec<Packet>> {
    prop::collection::vec(any_packet(), 0..70).prop_map(|mut packets| {
        packets.iter_mut().enumerate().for_each(|(i, packet)| packet.id = PacketId(i as u64));
        packets
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// Random rules with ties of precedence, random packets, damaged ones, time that goes on.
    #[test]
    fn upf_matches_naive(sessions in any_sessions(), spec in any_spec(), packets in burst(), cut in 1usize..40, step in 0u64..SECOND) {
        let mut naive = NaiveUpf::new(spec.address, spec.buffer, &sessions);
        let mut function = Upf::with_sessions(&spec, &sessions).unwrap();
        let (mut expected, mut found) = (packets.clone(), packets.clone());
        let mut verdicts = Vec::new();
        let mut reports = Vec::new();
        for (i, (burst, same)) in found.chunks_mut(cut).zip(expected.chunks_mut(cut)).enumerate() {
            let now = Ps(step * i as u64);
            verdicts.clear();
            // A probe that looks changes nothing.
            match i % 2 {
                0 => function.process_burst(now, burst, &mut Null, &mut verdicts),
                _ => function.process_burst(now, burst, &mut Record::new(), &mut verdicts),
            }
            for ((verdict, packet), same) in verdicts.iter().zip(burst.iter()).zip(same) {
                let wanted = naive.process(now, same);
                prop_assert_eq!(*verdict, wanted, "{:?}", same);
                prop_assert_eq!(packet, same);
            }
            reports.extend(function.take_reports());
        }
        prop_assert_eq!(&reports[..], naive.reports());
    }

    /// Sessions that come and go leave others as they are.
    #[test]
    fn sessions_that_come_and_go_match_naive(sessions in any_sessions(), ops in prop::collection::vec(0usize..4, 0..30), packets in burst()) {
        let mut function = Upf::with_sessions(&UpfSpec::default(), &sessions).unwrap();
        let mut there = [true; 4];
        for i in ops {
            if there[i] {
                prop_assert!(function.release(sessions[i].seid));
            } else {
                function.establish(&sessions[i]).unwrap();
            }
            there[i] = !there[i];
        }
        let left: Vec<_> = sessions.iter().zip(there).filter(|(_, t)| *t).map(|(s, _)| s.clone()).collect();
        let mut naive = NaiveUpf::new(UPF, 1024, &left);
        for packet in packets {
            let mut found = [packet.clone()];
            prop_assert_eq!(run(&mut function, &mut found)[0], naive.process(Ps::ZERO, &mut packet.clone()));
        }
    }

    /// Flows keep coming while sessions change under them, on cores with tables of one bucket and more: what becomes of each
    /// packet, what is reported and what is buffered is as without tables.
    #[test]
    fn flow_tables_give_what_the_walk_gives(
        sessions in any_sessions(),
        others in any_sessions(),
        spec in any_spec(),
        few in any::<bool>(),
        packets in burst(),
        ops in prop::collection::vec((0u8..4, 0usize..4, 0usize..3, 1u32..5), 1..24),
        step in 0u64..SECOND,
    ) {
        let room = Capacity { sessions: 4, pdrs: 400, fars: 64, qers: 64, urrs: 64 };
        let with = UpfSpec { flow_table: if few { 1 } else { 256 }, ..spec.clone() };
        let mut walks = Upf::new(&UpfSpec { flow_table: 0, ..spec }, room).unwrap();
        let mut remembers = Upf::new(&with, room).unwrap();
        for session in &sessions {
            walks.establish(session).unwrap();
            remembers.establish(session).unwrap();
        }
        let mut there = [true; 4];
        let mut lookups = 0;
        for (t, (op, which, core, far)) in ops.into_iter().enumerate() {
            let seid = sessions[which].seid;
            match op {
                0 if there[which] => {
                    prop_assert!(walks.release(seid) && remembers.release(seid));
                    there[which] = false;
                }
                // Back as it was, or with other rules, in the place that any of those who left has left.
                0 => {
                    let session = if far % 2 == 0 { &sessions[which] } else { &others[which] };
                    walks.establish(session).unwrap();
                    remembers.establish(session).unwrap();
                    there[which] = true;
                }
                1 => {
                    let action = [Action::ToCore, Action::Drop, Action::Buffer][core];
                    prop_assert_eq!(walks.set_action(seid, far, action), remembers.set_action(seid, far, action));
                }
                _ => {
                    let now = Ps(step * t as u64);
                    remembers.on_core(core);
                    let (mut expected, mut found) = (packets.clone(), packets.clone());
                    prop_assert_eq!(run_at(&mut remembers, now, &mut found), run_at(&mut walks, now, &mut expected));
                    prop_assert_eq!(found, expected);
                    lookups += 1;
                }
            }
            prop_assert_eq!(walks.take_reports(), remembers.take_reports());
        }
        for (session, urr) in sessions.iter().flat_map(|s| s.urrs.iter().map(move |u| (s.seid, u.id))) {
            prop_assert_eq!(walks.usage(session, urr), remembers.usage(session, urr));
        }
        let before_again = remembers.flow_counters().unwrap();
        // Flows that have just come are known when they come again, but for those that had to leave.
        let mut again = |t: u64| {
            let verdicts = run_at(&mut remembers, Ps(step * t), &mut packets.clone());
            let forwarded = verdicts.iter().filter(|v| matches!(v, Verdict::Forward { .. })).count() as u64;
            (forwarded, remembers.flow_counters().unwrap())
        };
        let ((_, first), (forwarded, second)) = (again(1_000), again(1_001));
        if second.evictions == before_again.evictions {
            prop_assert!(second.hits - first.hits >= forwarded, "{} of {forwarded}", second.hits - first.hits);
        }
        lookups += 2;
        let done = remembers.flow_counters().unwrap();
        prop_assert!(done.hits + done.misses <= lookups * packets.len() as u64 && done.stale <= done.misses);
        prop_assert_eq!(walks.flow_counters(), None);
    }

    /// What a layout and a machine rely on.
    #[test]
    fn references_lie_in_their_regions_and_depend_on_what_gave_their_address(sessions in any_sessions(), spec in any_spec(), packets in burst()) {
        let mut function = Function::Upf(Upf::with_sessions(&spec, &sessions).unwrap());
        let sizes: BTreeMap<RegionId, u64> = function.regions().into_iter().map(|r| (r.id, r.bytes)).collect();
        let (mut record, mut burst) = (Record::new(), packets.clone());
        function.process_burst(Ps::ZERO, &mut burst, &mut record, &mut Vec::new());
        let mut current = None;
        let mut history: Vec<(Option<PacketId>, Ref)> = Vec::new();
        for event in record.iter() {
            match event {
                ProbeEvent::Begin(id) => {
                    prop_assert_eq!(current, None, "pairs do not nest");
                    current = Some(id);
                }
                ProbeEvent::End(id) => {
                    prop_assert_eq!(current, Some(id));
                    current = None;
                }
                ProbeEvent::Touch(r) => {
                    let packet = &packets[current.expect("within a pair").0 as usize];
                    let size = match r.region {
                        RegionId::PACKET if r.access == Access::Prefetch => u64::MAX,
                        RegionId::PACKET => packet.data.len() as u64,
                        // Outer headers go into the headroom, and over the Ethernet header behind it.
                        RegionId::MBUF => MBUF_HEADER_BYTES + MBUF_HEADROOM_BYTES + packet.data.len() as u64,
                        table => sizes[&table],
                    };
                    prop_assert!(r.bytes >= 1 && r.offset + u64::from(r.bytes) <= size, "{r:?} in {size} bytes");
                    let from = history.len().checked_sub(r.dep.into()).filter(|_| r.dep > 0).map(|at| history[at]);
                    match (source_of(r.site), from) {
                        (Some(sites), Some((id, source))) => {
                            prop_assert_eq!(id, current, "{:?} depends on another packet", r);
                            prop_assert!(sites.contains(&source.site), "{:?} depends on {:?}", r, source);
                        }
                        // Further back than `dep` can say.
                        (Some(_), None) => prop_assert!(history.len() >= 255, "{:?} has no source", r),
                        (None, from) => prop_assert_eq!(from, None, "{:?}", r),
                    }
                    history.push((current, r));
                }
                ProbeEvent::Work { .. } => prop_assert!(current.is_some(), "work is somebody's"),
                _ => {}
            }
        }
        prop_assert_eq!(current, None);
    }

    /// A warp's lane runs the function on one packet: places then only grow, except in loops, whose
    /// ends are marked.
    #[test]
    fn sites_grow_in_program_order_from_latch_to_latch(sessions in any_sessions(), spec in any_spec(), packet in any_packet()) {
        let mut record = Record::new();
        Upf::with_sessions(&spec, &sessions).unwrap().process_burst(Ps::ZERO, &mut [packet], &mut record, &mut Vec::new());
        let mut latest = 0;
        // Loops by their latches: the first place of the body.
        let start_of = BTreeMap::from([(14u16, 13u16), (27, 24), (35, 33), (41, 39), (44, 42)]);
        let mut may_go_back = None;
        for event in record.iter() {
            let site = match event {
                ProbeEvent::Touch(r) => r.site,
                ProbeEvent::Work { site, .. } => site,
                ProbeEvent::Latch { site } => {
                    prop_assert!(site >= latest);
                    (latest, may_go_back) = (site, start_of.get(&site));
                    continue;
                }
                _ => continue,
            };
            let back = may_go_back.is_some_and(|start| site >= *start);
            prop_assert!(site >= latest || back, "site {site} after {latest}");
            (latest, may_go_back) = (site, None);
        }
    }
}
