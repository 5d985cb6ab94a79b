//! Time to live and the header checksum.
//!
//! **Computes** the IPv4 time to live less one, with the checksum updated from the change alone;
//! the IPv6 hop limit less one.
//!
//! **References per packet**: a load and a store of the 4 bytes time to live, protocol and
//! checksum; of 1 byte for IPv6. The caller pushes them.
//!
//! **Regions**: the packet.
//!
//! **Source**: RFC 1624 (A. Rijsinghani, 1994), equation 3: HC' = ~(~HC + ~m + m').

/// The checksum after one 16-bit word of what it covers changed from `old` to `new`. All three are
/// in the byte order of the packet or all in the host's: one's complement sums do not care.
///
/// RFC 1624 equation 3. Over data that is not all zero, as an IP header never is, the result is
/// what a full computation gives, never 0xffff for 0x0000.
#[inline(always)]
pub const fn update_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = (!checksum) as u32 + (!old) as u32 + new as u32;
    // At most 3 * 0xffff: the first fold leaves at most 0x10000, the second no carry.
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum + (sum >> 16)) as u16)
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
    use packet::internet_checksum;
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
