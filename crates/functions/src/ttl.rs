//! Time to live and the header checksum.
//!
//! **Computes** the IPv4 time to live less one, with the checksum updated from the change alone;
//! the IPv6 hop limit less one.
//!
//! **References per packet**: a load and a store of the 4 bytes time to live, protocol and
//! checksum; of 1 byte for IPv6. The caller pushes them. As a function of its own ([`Ttl`]) 3 mbuf loads before (where
//! the data lies, and the packet's type): 5. Best 3 (not IP).
//!
//! **Regions**: the packet, and its mbuf where the function stands alone.
//!
//! **Source**: RFC 1624 (A. Rijsinghani, 1994), equation 3: HC' = ~(~HC + ~m + m').

use packet::{L3, Packet};
use probe::{Probe, Ref, RegionId, RegionSpec};
use units::{PortId, Ps};

use crate::check::{data_address, mbuf};
use crate::tape::Tape;
use crate::verdict::across;
use crate::{DropReason, PacketFunction, Verdict};

/// Places of references, in program order.
mod site {
    pub(super) const BUF_ADDR: u16 = 0;
    pub(super) const DATA_OFF: u16 = 1;
    pub(super) const PACKET_TYPE: u16 = 2;
    pub(super) const V4_LOAD: u16 = 3;
    pub(super) const V4_STORE: u16 = 4;
    pub(super) const V6_LOAD: u16 = 5;
    pub(super) const V6_STORE: u16 = 6;
    pub(super) const DONE: u16 = 7;
    pub(super) const LATCH: u16 = 8;
}

/// Instructions of each part as compiled for x86-64; see `tests/instructions.rs`.
mod cost {
    pub(super) const NOT_IP: u32 = 31;
    pub(super) const EXPIRED: u32 = 46;
    pub(super) const V4: u32 = 59;
    pub(super) const V6: u32 = 47;
}

/// Decrements the time to live or the hop limit, and nothing else.
#[derive(Clone, Debug)]
pub struct Ttl {
    ports: u16,
}

state::state!(Ttl { values: [], arrays: [], parts: [], built: [ports] });

impl Ttl {
    /// On a machine of `ports` ports.
    pub fn new(ports: u16) -> Ttl {
        Ttl { ports }
    }

    #[inline(always)]
    fn one<P: Probe>(&self, packet: &mut Packet, tape: &mut Tape<'_, P>) -> Result<PortId, DropReason> {
        let data = data_address(tape, site::BUF_ADDR, site::DATA_OFF);
        tape.touch(Ref::load(RegionId::MBUF, mbuf::RX_FIELDS, 4, site::PACKET_TYPE));
        let at = usize::from(packet.l3_offset);
        let port = across(packet.port, self.ports);
        match packet.l3 {
            L3::V4 => {
                let word = packet.data.get_mut(at + 8..).and_then(|rest| rest.first_chunk_mut::<4>());
                let Some(word) = word else {
                    tape.work(site::DONE, cost::NOT_IP);
                    return Err(DropReason::Truncated);
                };
                tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64 + 8, 4, site::V4_LOAD));
                let Some(less) = decrement(*word) else {
                    tape.work(site::DONE, cost::EXPIRED);
                    return Err(DropReason::TtlExpired);
                };
                *word = less;
                tape.touch_after(data, Ref::store(RegionId::PACKET, at as u64 + 8, 4, site::V4_STORE));
                tape.work(site::DONE, cost::V4);
            }
            L3::V6 => {
                let Some(hops) = packet.data.get_mut(at + 7) else {
                    tape.work(site::DONE, cost::NOT_IP);
                    return Err(DropReason::Truncated);
                };
                tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64 + 7, 1, site::V6_LOAD));
                if *hops <= 1 {
                    tape.work(site::DONE, cost::EXPIRED);
                    return Err(DropReason::HopLimitExceeded);
                }
                *hops -= 1;
                tape.touch_after(data, Ref::store(RegionId::PACKET, at as u64 + 7, 1, site::V6_STORE));
                tape.work(site::DONE, cost::V6);
            }
            L3::Other => {
                tape.work(site::DONE, cost::NOT_IP);
                return Err(DropReason::NotIp);
            }
        }
        Ok(port)
    }
}

impl PacketFunction for Ttl {
    fn name(&self) -> &'static str {
        "ttl"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        Vec::new()
    }

    fn process_burst<P: Probe>(&mut self, _: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        let mut tape = Tape::new(probe);
        for packet in burst {
            tape.begin(packet.id);
            out.push(match self.one(packet, &mut tape) {
                Ok(port) => Verdict::Forward { port },
                Err(reason) => Verdict::Drop(reason),
            });
            tape.end(packet.id);
            tape.latch(site::LATCH);
        }
    }
}

/// Decrements the time to live in the word of an IPv4 header at byte 8, as it lies in memory: time
/// to live, protocol, checksum. [`None`] if it is 0 or 1, so that the packet must not go on.
///
/// With m' = m - 0x100, equation 3 is HC' = HC + 0x100 with the carry added back, and 0xffff
/// written as 0.
#[inline(always)]
pub const fn decrement(word: [u8; 4]) -> Option<[u8; 4]> {
    let word = u32::from_be_bytes(word);
    if word < 2 << 24 {
        return None;
    }
    let sum = (word & 0xffff) + 0x100;
    let checksum = (sum + (sum >= 0xffff) as u32) & 0xffff;
    Some((((word - (1 << 24)) & 0xffff_0000) | checksum).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{internet_checksum, update_checksum};
    use proptest::prelude::*;

    fn with_checksum(mut header: Vec<u8>) -> Vec<u8> {
        header[10..12].fill(0);
        let sum = internet_checksum(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        header
    }

    fn decremented(header: &[u8]) -> Option<Vec<u8>> {
        let mut after = header.to_vec();
        after[8..12].copy_from_slice(&decrement(*header[8..].first_chunk()?)?);
        Some(after)
    }

    #[test]
    fn decrementing_is_equation_3_for_every_checksum_and_ttl() {
        for ttl in 2..=255 {
            for checksum in 0..=u16::MAX {
                let [c0, c1] = checksum.to_be_bytes();
                let [d0, d1] =
                    update_checksum(checksum, u16::from(ttl) << 8 | 6, u16::from(ttl - 1) << 8 | 6).to_be_bytes();
                assert_eq!(decrement([ttl, 6, c0, c1]), Some([ttl - 1, 6, d0, d1]));
            }
        }
    }

    #[test]
    fn a_packet_with_ttl_0_or_1_does_not_go_on() {
        assert_eq!(decrement([0, 6, 1, 2]), None);
        assert_eq!(decrement([1, 6, 1, 2]), None);
        assert_eq!(decrement([2, 6, 1, 2]).map(|w| w[0]), Some(1));
    }

    /// The example of RFC 1624 section 4: HC 0xdd2f, m 0x5555, m' 0x3285 gives 0x0000; equation 2
    /// of RFC 1141 would give 0xffff.
    #[test]
    fn the_corner_of_rfc_1624_gives_zero() {
        assert_eq!(update_checksum(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    /// Every identification, so every checksum, and both writings of zero.
    #[test]
    fn every_checksum_is_updated_as_recomputed() {
        let mut seen_zero = false;
        for id in 0..=u16::MAX {
            let [a, b] = id.to_be_bytes();
            let header = vec![0x45, 0, 0, 40, a, b, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7];
            let before = with_checksum(header);
            let after = decremented(&before).unwrap();
            assert_eq!(after, with_checksum(after.clone()), "id {id:#06x}");
            seen_zero |= after[10..12] == [0, 0];
            if before[10..12] == [0, 0] {
                let mut negative_zero = before.clone();
                negative_zero[10..12].fill(0xff);
                assert_eq!(internet_checksum(&negative_zero), 0, "0xffff is right as well");
                assert_eq!(decremented(&negative_zero).unwrap(), after);
            }
        }
        assert!(seen_zero, "the sweep meets the corner");
    }

    proptest! {
        #[test]
        fn incremental_checksum_matches_recomputation(header in prop::collection::vec(any::<u8>(), 20..=60)) {
            let mut header = header;
            header.truncate(header.len() / 4 * 4);
            header[0] = 0x40 | (header.len() / 4) as u8;
            let before = with_checksum(header);
            match decremented(&before) {
                None => prop_assert!(before[8] <= 1),
                Some(after) => {
                    prop_assert_eq!(after[8], before[8] - 1);
                    prop_assert_eq!(&after, &with_checksum(after.clone()));
                }
            }
        }

        #[test]
        fn any_changed_word_matches_recomputation(header in prop::collection::vec(any::<u8>(), 20), at in 0usize..10, new: u16) {
            prop_assume!(at != 5);
            let mut header = header;
            header[0] = 0x45;
            let mut after = with_checksum(header);
            let word = |h: &[u8], i: usize| u16::from_be_bytes([h[i], h[i + 1]]);
            let new = if at == 0 { new | 0x4000 } else { new };
            let updated = update_checksum(word(&after, 10), word(&after, at * 2), new);
            after[at * 2..][..2].copy_from_slice(&new.to_be_bytes());
            after[10..12].copy_from_slice(&updated.to_be_bytes());
            prop_assert_eq!(&after, &with_checksum(after.clone()));
        }
    }
}
