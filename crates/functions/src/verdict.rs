use std::fmt;

use units::PortId;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It leaves the router.
    Forward {
        /// By which port.
        port: PortId,
    },
    /// It is discarded.
    Drop(DropReason),
}

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// Why a packet function discards a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[$doc])* $name,)*
        }

        impl DropReason {
            /// Every reason, in the order in which they are checked.
            pub const ALL: &[DropReason] = &[$(DropReason::$name,)*];

            /// The name in tables: stable, snake_case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DropReason::$name => $text,)*
                }
            }
        }
    };
}

drop_reasons! {
    /// Neither IPv4 nor IPv6.
    NotIp = "not_ip";
    /// The frame, or what the capture kept of it, ends before the header does (RFC 1812 5.2.2 (1)).
    Truncated = "truncated";
    /// The version field is not that of the EtherType (RFC 1812 5.2.2 (3), RFC 8200 3).
    BadVersion = "bad_version";
    /// An IPv4 header of less than 20 bytes (RFC 1812 5.2.2 (4)).
    BadHeaderLength = "bad_header_length";
    /// A total or payload length below the header's, or above what the frame carries (RFC 1812
    /// 5.2.2 (5)).
    BadTotalLength = "bad_total_length";
    /// The IPv4 header checksum is wrong (RFC 1812 5.2.2 (2)).
    BadChecksum = "bad_checksum";
    /// A source address that no packet on a wire has: 0/8, 127/8, multicast, 240/4; ::, ::1, ff00::/8
    /// (RFC 1812 5.3.7, RFC 4291 2.5-2.7).
    SourceMartian = "source_martian";
    /// A destination that no packet on a wire has: 0/8, 127/8, 240/4; ::, ::1 (RFC 1812 5.3.7).
    DestinationMartian = "destination_martian";
    /// A multicast destination: there is no multicast routing (RFC 1812 5.2.1.1).
    DestinationMulticast = "destination_multicast";
    /// The limited broadcast address, never forwarded (RFC 1812 5.3.5.1).
    DestinationBroadcast = "destination_broadcast";
    /// A link-local source or destination, never forwarded (RFC 3927 7, RFC 4291 2.5.6).
    LinkLocal = "link_local";
    /// No route covers the destination (RFC 1812 5.2.4.3).
    NoRoute = "no_route";
    /// The IPv4 time to live runs out here (RFC 1812 5.3.1).
    TtlExpired = "ttl_expired";
    /// The IPv6 hop limit runs out here (RFC 8200 3).
    HopLimitExceeded = "hop_limit_exceeded";
    /// A filter refuses it.
    Denied = "denied";
    /// Address translation has no way to translate it: neither TCP, UDP nor an ICMP query or error, a
    /// fragment without ports, IPv6.
    NatUntranslatable = "nat_untranslatable";
    /// It belongs to no session of address translation, and may not begin one.
    NatNoSession = "nat_no_session";
    /// Address translation has no session left (RFC 3022 6.1).
    NatTableFull = "nat_table_full";
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_number_themselves_in_order_and_have_distinct_names() {
        for (i, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
            assert!(reason.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            assert!(DropReason::ALL[..i].iter().all(|other| other.name() != reason.name()));
        }
    }

    #[test]
    fn a_verdict_takes_4_bytes() {
        assert_eq!(size_of::<Verdict>(), 4);
    }
}
