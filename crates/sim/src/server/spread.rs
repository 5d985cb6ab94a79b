//! What the hash that chooses a packet's worker covers.
//!
//! A user plane function keeps state of each user: token buckets, volumes. With [`Spread::User`] both directions of a
//! user hash to the same worker, as a load balancer in front of workers without locks has to arrange. Of an IPv6
//! user the prefix of 64 bits counts, which is what a session is given (3GPP TS 23.501, 5.8.2.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use functions::upf::{GPDU, GTPU_PORT, parse_gtpu};
use machine::nic::Spread;
use packet::{FiveTuple, PROTO_UDP, layers};

const UDP_BYTES: usize = 8;

/// What is hashed of a frame; [`None`] if it has no readable IP header.
pub(crate) fn key(spread: Spread, data: &[u8]) -> Option<FiveTuple> {
    let outer = layers(data).ok()?;
    match spread {
        Spread::Flow => Some(outer.hashed()),
        Spread::User => {
            let tuple = &outer.five_tuple;
            let user = if tuple.proto == PROTO_UDP && tuple.dst_port == GTPU_PORT && !outer.fragment {
                let payload = data.get(usize::from(outer.l4_offset?) + UDP_BYTES..)?;
                inner_source(payload).unwrap_or(tuple.src)
            } else {
                tuple.dst
            };
            let other = match user {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            };
            Some(FiveTuple { src: session(user), dst: other, src_port: 0, dst_port: 0, proto: 0 })
        }
    }
}

/// The source of the packet that a UDP payload carries through a tunnel.
fn inner_source(payload: &[u8]) -> Option<IpAddr> {
    // Of the message only the first bytes may be here; its length is judged by the function, not by the balancer.
    let stated = payload.get(2..4).map_or(0, |b| usize::from(u16::from_be_bytes([b[0], b[1]])));
    let header = parse_gtpu(payload, (stated + UDP_BYTES).max(payload.len())).ok()?;
    let inner = payload.get(header.payload..).filter(|_| header.message == GPDU)?;
    match inner.first()? >> 4 {
        4 => Some(IpAddr::V4(Ipv4Addr::from(*inner.get(12..)?.first_chunk::<4>()?))),
        6 => Some(IpAddr::V6(Ipv6Addr::from(*inner.get(8..)?.first_chunk::<16>()?))),
        _ => None,
    }
}

/// The address without what a user chooses in it.
fn session(user: IpAddr) -> IpAddr {
    match user {
        IpAddr::V4(_) => user,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::user_plane::UserPlane;
    use crate::{Overrides, Scenario};
    use packet::Packet;
    use std::collections::HashMap;

    #[test]
    fn both_directions_of_a_user_have_one_key_and_flows_have_many() {
        let text = "function.kind = \"upf\"\nfunction.upf.uplink = 0.5\nfunction.upf.load.ues = 40\n[machine]";
        let scenario = Scenario::read(text, "test", &Overrides::default()).unwrap();
        let plane =
            UserPlane::load(&scenario.function.upf, &scenario.traffic.source(), &traffic::Stop::default()).unwrap();
        let load = scenario.traffic.offered(scenario.nic.rate);
        let loaded = plane.loaded(&scenario);
        let mut source = loaded.blueprint.source(7, &load).unwrap();
        let mut packet = Packet::default();
        let mut seen: HashMap<IpAddr, [u32; 2]> = HashMap::new();
        let mut flows = std::collections::HashSet::new();
        for _ in 0..4000 {
            assert!(source.next(&mut packet));
            let user = key(Spread::User, &packet.data).unwrap();
            let uplink = layers(&packet.data).unwrap().five_tuple.dst_port == GTPU_PORT;
            seen.entry(user.src).or_default()[usize::from(uplink)] += 1;
            flows.insert(key(Spread::Flow, &packet.data).unwrap());
        }
        assert_eq!(seen.len(), 40, "one key a user");
        assert!(seen.values().all(|n| n[0] > 0 && n[1] > 0), "{seen:?}");
        assert!(flows.len() > 100);
    }

    #[test]
    fn what_is_not_ip_has_no_key_and_a_broken_tunnel_has_its_senders() {
        assert_eq!(key(Spread::User, &[0; 60]), None);
        let frame = "02000000000102000000000208004500002400000000401100000a1000010a0a0a0a0868086800100000";
        let data: Vec<u8> =
            (0..frame.len() / 2).map(|i| u8::from_str_radix(&frame[2 * i..2 * i + 2], 16).unwrap()).collect();
        assert_eq!(key(Spread::User, &data).unwrap().src, IpAddr::V4(Ipv4Addr::new(10, 16, 0, 1)));
    }
}
