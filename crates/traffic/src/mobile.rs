//! Users' traffic of a mobile network, as it reaches the user plane function of its core.
//!
//! Made traffic: flows of a profile are spread over subscribers, each with an address and a tunnel. An
//! uplink packet comes from a base station in GTP-U (TS 29.281) with a PDU session container; a
//! downlink packet comes from the data network. Sizes are those of frames as they arrive: an uplink frame
//! carries 44 bytes less of the user's.
//!
//! Captures: in one taken between base stations and core both directions are tunnelled. What comes from
//! a UE stays as it is; what goes to one is taken out of its tunnel, as it was when it reached the core.
//! Which end of a tunnelled packet is the UE is learnt: an address that is one already, or the private one of
//! two (RFC 1918), or the source of the first packet.
//!
//! Left out: handover, idle UEs, and IPv6 outside the tunnel.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use packet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, FiveTuple, L3, PROTO_UDP, Packet, Prefix, internet_checksum, layers};
use rand::{Rng, RngExt};

use crate::error::TrafficError;
use crate::flows::mix;
use crate::frame::{self, ETHERNET};
use crate::input::text_of;

const GTPU_PORT: u16 = 2152;
const GPDU: u8 = 255;
const PDU_SESSION_CONTAINER: u8 = 0x85;
/// IPv4, UDP, and GTP-U with a PDU session container.
const OUTER: usize = 20 + 8 + 16;
/// Of a file that names sessions: some hundred thousand of them.
const MOST_SESSION_BYTES: u64 = 32 << 20;

/// A UE with a PDU session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// Its IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// Its IPv6 prefix, 64 bits long.
    pub v6: Option<Ipv6Addr>,
    /// The tunnel endpoint identifier of its uplink.
    pub uplink_teid: u32,
    /// Its base station.
    pub peer: Ipv4Addr,
    /// The tunnel endpoint identifier at the base station; 0 where it is not known.
    pub downlink_teid: u32,
    /// Its QoS flow.
    pub qfi: u8,
}

/// A text file that names sessions, and the BLAKE3 hash of its content in hex.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
pub fn read_sessions(path: &Path) -> Result<(String, String), TrafficError> {
    let text = text_of(path, MOST_SESSION_BYTES)?;
    let content = blake3::hash(text.as_bytes()).to_hex().to_string();
    Ok((text, content))
}

/// Whose traffic there is, and which way it goes.
#[derive(Clone, Debug)]
pub struct Mobile {
    subscribers: Vec<Subscriber>,
    /// Places of those with an IPv4 address, and with an IPv6 prefix.
    v4: Vec<u32>,
    v6: Vec<u32>,
    /// The core's address towards base stations.
    core: Ipv4Addr,
    uplink: f64,
    remotes: Vec<Prefix>,
}

impl Mobile {
    /// Traffic of `subscribers`, of whose packets the share `uplink` is uplink; far ends are drawn from `remotes` unless
    /// the profile names prefixes of its own. `path` is where the specification stands, for messages.
    ///
    /// # Errors
    /// No subscriber, or a share that is not one.
    pub fn new(
        subscribers: Vec<Subscriber>,
        core: Ipv4Addr,
        uplink: f64,
        remotes: Vec<Prefix>,
        path: &str,
    ) -> Result<Mobile, TrafficError> {
        if !(0.0..=1.0).contains(&uplink) {
            return Err(TrafficError::spec(format!("{path}.uplink"), uplink, "a share of 0 to 1 can be"));
        }
        let having = |has: fn(&Subscriber) -> bool| -> Vec<u32> {
            (0u32..).zip(&subscribers).filter(|(_, s)| has(s)).map(|(i, _)| i).collect()
        };
        let (v4, v6) = (having(|s| s.v4.is_some()), having(|s| s.v6.is_some()));
        if v4.is_empty() && v6.is_empty() {
            return Err(TrafficError::spec(
                format!("{path}.sessions"),
                "none",
                "at least one with an address is wanted",
            ));
        }
        Ok(Mobile { subscribers, v4, v6, core, uplink, remotes })
    }

    /// Where far ends are, if the profile does not say.
    pub(crate) fn remotes(&self) -> &[Prefix] {
        &self.remotes
    }

    /// The share of uplink packets.
    pub(crate) fn uplink(&self) -> f64 {
        self.uplink
    }

    /// Whether there are subscribers for both families that traffic has.
    pub(crate) fn covers(&self, ipv6: f64) -> bool {
        (ipv6 <= 0.0 || !self.v6.is_empty()) && (ipv6 >= 1.0 || !self.v4.is_empty())
    }

    /// Bytes of the shortest uplink frame, check sequence included.
    pub(crate) fn shortest_uplink(v6: bool, tcp: bool) -> u32 {
        (ETHERNET + OUTER + if v6 { 40 } else { 20 } + if tcp { 20 } else { 8 } + 4) as u32
    }

    /// Writes a frame of `l2_bytes` bytes of a flow: its source decides the subscriber, its destination is the far end.
    #[inline]
    pub(crate) fn make(
        &self,
        packet: &mut Packet,
        flow: &FiveTuple,
        (l2_bytes, identification, first): (u32, u16, bool),
        rng: &mut impl Rng,
    ) {
        let uplink = rng.random::<f64>() < self.uplink;
        let (subscriber, ue) = self.subscriber(flow);
        let mut tuple = FiveTuple { src: ue, ..*flow };
        if !uplink {
            tuple = FiveTuple {
                src: tuple.dst,
                dst: tuple.src,
                src_port: tuple.dst_port,
                dst_port: tuple.src_port,
                proto: tuple.proto,
            };
            frame::make(packet, &tuple, l2_bytes, identification, first);
            return;
        }
        let v6 = ue.is_ipv6();
        let least = Mobile::shortest_uplink(v6, tuple.proto != PROTO_UDP);
        // Padding of a short user's frame is not tunnelled.
        frame::make(
            packet,
            &tuple,
            (l2_bytes.max(least) - OUTER as u32).max(least - OUTER as u32),
            identification,
            first,
        );
        self.encapsulate(packet, subscriber, identification);
    }

    fn subscriber(&self, flow: &FiveTuple) -> (&Subscriber, IpAddr) {
        let (list, hash) = match flow.src {
            IpAddr::V4(a) => (&self.v4, mix(u32::from(a).into())),
            IpAddr::V6(a) => (&self.v6, mix(u128::from(a) as u64 ^ (u128::from(a) >> 64) as u64)),
        };
        // Blueprints are made for families that there are subscribers of.
        let at = list.get((((hash >> 32) * list.len() as u64) >> 32) as usize).copied().unwrap_or(0);
        let subscriber = &self.subscribers[at as usize];
        let address = match (flow.src, subscriber.v4, subscriber.v6) {
            (IpAddr::V6(_), _, Some(prefix)) => Ipv6Addr::from(u128::from(prefix) | 1).into(),
            (_, Some(v4), _) => v4.into(),
            (other, ..) => other,
        };
        (subscriber, address)
    }

    /// Puts an Ethernet frame's packet into its subscriber's tunnel.
    fn encapsulate(&self, packet: &mut Packet, of: &Subscriber, identification: u16) {
        let user = packet.frame_bytes as usize - ETHERNET;
        let mut out = [0u8; ETHERNET + OUTER];
        out[..12].copy_from_slice(&packet.data[..12]);
        out[12..14].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
        let ip = &mut out[ETHERNET..];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&((user + OUTER) as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&identification.to_be_bytes());
        ip[8..10].copy_from_slice(&[64, PROTO_UDP]);
        ip[12..16].copy_from_slice(&of.peer.octets());
        ip[16..20].copy_from_slice(&self.core.octets());
        let checksum = internet_checksum(&ip[..20]);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        let udp = &mut ip[20..];
        udp[..2].copy_from_slice(&GTPU_PORT.to_be_bytes());
        udp[2..4].copy_from_slice(&GTPU_PORT.to_be_bytes());
        udp[4..6].copy_from_slice(&((user + OUTER - 20) as u16).to_be_bytes());
        let gtpu = &mut udp[8..];
        gtpu[..2].copy_from_slice(&[0x34, GPDU]);
        gtpu[2..4].copy_from_slice(&((user + 8) as u16).to_be_bytes());
        gtpu[4..8].copy_from_slice(&of.uplink_teid.to_be_bytes());
        // A PDU session container of one word: uplink, the flow, no further header.
        gtpu[11..16].copy_from_slice(&[PDU_SESSION_CONTAINER, 1, 0x10, of.qfi & 0x3f, 0]);
        packet.data.splice(..ETHERNET, out);
        packet.frame_bytes += OUTER as u32;
        (packet.l3_offset, packet.l3) = (ETHERNET as u16, L3::V4);
    }
}

/// Learns the UEs of a capture, and turns its frames into those that reach the core.
#[derive(Clone, Debug, Default)]
pub struct Tunnels {
    subscribers: Vec<Subscriber>,
    /// Seeded, as all that hashes what a file has.
    by_address: HashMap<IpAddr, usize>,
    /// Frames taken out of their tunnel.
    pub unwrapped: u64,
    /// Frames that carry a UE's packet to the core.
    pub uplink: u64,
}

impl Tunnels {
    /// Looks at a frame, and takes it out of its tunnel if it goes to a UE.
    pub fn reach_core(&mut self, packet: &mut Packet) {
        let Some(found) = tunnelled(packet) else { return };
        let at = &packet.data[found.inner..];
        let Some((src, dst)) = addresses(at) else { return };
        let known = |a: &IpAddr| self.by_address.contains_key(&ue_key(*a));
        let is_uplink = match (known(&src), known(&dst)) {
            (true, false) => true,
            (false, true) => false,
            // Both, or neither: the private one; else whoever sends first.
            _ => is_private(src) || !is_private(dst),
        };
        let (ue, teid) = (ue_key(if is_uplink { src } else { dst }), found.teid);
        let place = *self.by_address.entry(ue).or_insert_with(|| {
            self.subscribers.push(Subscriber {
                v4: if let IpAddr::V4(a) = ue { Some(a) } else { None },
                v6: if let IpAddr::V6(a) = ue { Some(a) } else { None },
                uplink_teid: 0,
                peer: Ipv4Addr::UNSPECIFIED,
                downlink_teid: 0,
                qfi: found.qfi,
            });
            self.subscribers.len() - 1
        });
        let subscriber = &mut self.subscribers[place];
        if is_uplink {
            if subscriber.uplink_teid == 0 {
                (subscriber.uplink_teid, subscriber.peer) = (teid, found.src);
            }
            self.uplink += 1;
        } else {
            if subscriber.downlink_teid == 0 {
                subscriber.downlink_teid = teid;
            }
            let ethertype = if src.is_ipv4() { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
            let missing = packet.frame_bytes as usize - packet.data.len();
            packet.data.drain(ETHERNET..found.inner);
            packet.data[12..14].copy_from_slice(&ethertype.to_be_bytes());
            packet.frame_bytes = (packet.data.len() + missing) as u32;
            packet.parse();
            self.unwrapped += 1;
        }
    }

    /// The UEs that have sent something, each identifier once.
    pub fn subscribers(&self) -> Vec<Subscriber> {
        let (mut out, mut places) = (Vec::<Subscriber>::new(), HashMap::<u32, usize>::new());
        for s in self.subscribers.iter().filter(|s| s.uplink_teid != 0) {
            // A bearer with both families is one session.
            match places.entry(s.uplink_teid) {
                Entry::Occupied(place) => {
                    let o: &mut Subscriber = &mut out[*place.get()];
                    (o.v4, o.v6) = (o.v4.or(s.v4), o.v6.or(s.v6));
                }
                Entry::Vacant(place) => {
                    place.insert(out.len());
                    out.push(*s);
                }
            }
        }
        out
    }
}

/// A user's packet in a tunnel.
struct Tunnelled {
    teid: u32,
    qfi: u8,
    src: Ipv4Addr,
    inner: usize,
}

/// A G-PDU whose header is sound as far as it must be to find the user's packet.
fn tunnelled(packet: &Packet) -> Option<Tunnelled> {
    let data = packet.data.as_slice();
    let layers = layers(data).ok()?;
    let tuple = layers.five_tuple;
    let IpAddr::V4(src) = tuple.src else { return None };
    if layers.fragment
        || tuple.proto != PROTO_UDP
        || tuple.dst_port != GTPU_PORT
        || packet.l3_offset as usize != ETHERNET
    {
        return None;
    }
    let mut at = usize::from(layers.l4_offset?) + 8;
    let header = data.get(at..)?.first_chunk::<8>()?;
    if header[0] >> 4 != 3 || header[1] != GPDU {
        return None;
    }
    let teid = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let (mut qfi, options) = (0, header[0] & 7);
    at += 8;
    if options != 0 {
        let mut next = if options & 4 != 0 { *data.get(at + 3)? } else { 0 };
        at += 4;
        while next != 0 {
            let bytes = usize::from(*data.get(at)?) * 4;
            if bytes == 0 {
                return None;
            }
            if next == PDU_SESSION_CONTAINER {
                qfi = data.get(at + 2)? & 0x3f;
            }
            at += bytes;
            next = *data.get(at - 1)?;
        }
    }
    (teid != 0).then_some(Tunnelled { teid, qfi, src, inner: at })
}

fn addresses(data: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match data.first()? >> 4 {
        4 => {
            let of = |at: usize| data.get(at..)?.first_chunk::<4>().map(|a| IpAddr::from(*a));
            Some((of(12)?, of(16)?))
        }
        6 => {
            let of = |at: usize| data.get(at..)?.first_chunk::<16>().map(|a| IpAddr::from(*a));
            Some((of(8)?, of(24)?))
        }
        _ => None,
    }
}

/// What a UE is known by: its address, or the first 64 bits of it.
fn ue_key(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(a) => Ipv6Addr::from(u128::from(a) >> 64 << 64).into(),
        v4 => v4,
    }
}

fn is_private(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(a) if a.is_private())
}

#[cfg(test)]
mod tests {
    use packet::{PROTO_TCP, layers};
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    use super::*;

    fn subscribers() -> Vec<Subscriber> {
        (0..100u32)
            .map(|i| Subscriber {
                v4: Some(Ipv4Addr::from(0x0a40_0000 + i)),
                v6: (i % 2 == 0).then(|| Ipv6Addr::from(0x2001_0db8_1000u128 << 80 | u128::from(i) << 64)),
                uplink_teid: i + 1,
                peer: Ipv4Addr::new(10, 16, 0, (i % 5) as u8),
                downlink_teid: 0,
                qfi: 9,
            })
            .collect()
    }

    #[test]
    fn made_packets_come_from_their_subscribers_tunnel_or_go_to_their_address() {
        let core = Ipv4Addr::new(192, 168, 252, 3);
        let mobile = Mobile::new(subscribers(), core, 0.3, Vec::new(), "function.upf").unwrap();
        let mut rng = Pcg64::seed_from_u64(1);
        let mut packet = Packet::default();
        let mut uplink = 0;
        for i in 0..4000u32 {
            let v6 = i % 4 == 0;
            let address = |x: u32| -> IpAddr {
                if v6 {
                    Ipv6Addr::from(0x2600u128 << 112 | u128::from(x)).into()
                } else {
                    Ipv4Addr::from(0x6400_0000 + x).into()
                }
            };
            let proto = if i % 3 == 0 { PROTO_UDP } else { PROTO_TCP };
            let flow =
                FiveTuple { src: address(i % 50), dst: address(1000 + i), proto, src_port: 50_000, dst_port: 443 };
            let size = 64 + i % 1455;
            mobile.make(&mut packet, &flow, (size, i as u16, false), &mut rng);
            let outer = layers(&packet.data).unwrap();
            if outer.five_tuple.dst == IpAddr::from(core) {
                uplink += 1;
                let least = Mobile::shortest_uplink(v6, proto == PROTO_TCP);
                assert_eq!(packet.frame_bytes, size.max(least) - 4);
                let found = tunnelled(&packet).unwrap();
                let of = subscribers()[found.teid as usize - 1];
                assert_eq!((found.src, found.qfi), (of.peer, 9));
                let mut inner = vec![0; 12];
                inner.extend(if v6 { [0x86, 0xdd] } else { [8, 0] });
                inner.extend(&packet.data[found.inner..]);
                let inner = layers(&inner).unwrap().five_tuple;
                assert_eq!((inner.dst, inner.dst_port), (flow.dst, 443));
                assert_eq!(ue_key(inner.src), of.v6.filter(|_| v6).map_or(of.v4.unwrap().into(), IpAddr::from));
                let ip = u16::from_be_bytes([packet.data[16], packet.data[17]]);
                assert_eq!(u32::from(ip) + 14, packet.frame_bytes);
                assert_eq!(internet_checksum(&packet.data[14..34]), 0);
                // What a capture of it teaches is what it was made of.
                let mut tunnels = Tunnels::default();
                tunnels.reach_core(&mut packet);
                if !v6 {
                    assert_eq!(tunnels.subscribers()[0].uplink_teid, of.uplink_teid);
                }
            } else {
                assert_eq!((outer.five_tuple.src, outer.five_tuple.src_port), (flow.dst, 443));
                let ue = ue_key(outer.five_tuple.dst);
                assert!(
                    subscribers()
                        .iter()
                        .any(|s| s.v4.map(IpAddr::from) == Some(ue) || s.v6.map(IpAddr::from) == Some(ue))
                );
            }
        }
        assert!((1000..1400).contains(&uplink), "{uplink} of 4000 uplink");
    }

    #[test]
    fn shares_and_subscribers_that_cannot_be_are_told() {
        let error = |subscribers, uplink| {
            Mobile::new(subscribers, Ipv4Addr::UNSPECIFIED, uplink, Vec::new(), "function.upf").unwrap_err().to_string()
        };
        assert_eq!(error(subscribers(), 1.5), "function.upf.uplink = 1.5: a share of 0 to 1 can be");
        assert_eq!(error(Vec::new(), 0.5), "function.upf.sessions = none: at least one with an address is wanted");
    }
}
