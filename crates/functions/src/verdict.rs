//! What becomes of a packet, and why it is dropped.

use std::fmt;

use units::PortId;

/// The port that a function that does not route sends by: the other one of the pair 0 and 1, 2 and 3, as far as there
/// are so many.
#[inline(always)]
pub(crate) fn across(port: PortId, ports: u16) -> PortId {
    PortId((port.0 ^ 1) % ports.max(1))
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
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
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
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
    /// A fragment of an outer packet: tunnel endpoints here do not reassemble.
    OuterFragment = "outer_fragment";
    /// A UDP length below 8 or above what the IP packet carries (RFC 768).
    BadUdpLength = "bad_udp_length";
    /// The UDP payload ends before the GTP-U header or its optional fields do (TS 29.281 5.1).
    GtpuTruncated = "gtpu_truncated";
    /// A GTP version other than 1 (TS 29.281 5.1).
    GtpuBadVersion = "gtpu_bad_version";
    /// Protocol type 0, which is GTP' (charging), on the user plane's port (TS 29.281 5.1).
    GtpPrime = "gtp_prime";
    /// A length field above what the UDP payload carries (TS 29.281 5.1).
    GtpuBadLength = "gtpu_bad_length";
    /// An extension header of length 0, or one that ends after the message (TS 29.281 5.2.1).
    GtpuBadExtension = "gtpu_bad_extension";
    /// An extension header that the endpoint has to comprehend and does not (TS 29.281 5.2.1).
    GtpuUnknownExtension = "gtpu_unknown_extension";
    /// Not user data: echo, error indication, end marker. The control plane's, not the fast path's.
    GtpuNotUserData = "gtpu_not_user_data";
    /// No session has the tunnel endpoint identifier (TS 29.281 7.3.1 has an error indication sent).
    UnknownTeid = "unknown_teid";
    /// What the tunnel carries is neither IPv4 nor IPv6.
    InnerNotIp = "inner_not_ip";
    /// The inner packet ends before its header does, or its header length is impossible.
    InnerBadHeader = "inner_bad_header";
    /// The inner packet's length field is above what the tunnel carries, or below its header's.
    InnerBadLength = "inner_bad_length";
    /// The inner source is not the address of the session's UE (TS 29.244 5.2.1A, UE IP address).
    UeSpoofed = "ue_spoofed";
    /// No session has the destination as the address of its UE.
    UnknownUe = "unknown_ue";
    /// No packet detection rule of the session matches (TS 29.244 5.2.1).
    NoPdr = "no_pdr";
    /// The forwarding action rule says drop (TS 29.244 8.2.26).
    FarDrop = "far_drop";
    /// Not lost: the forwarding action rule says buffer, and a copy is kept (TS 29.244 8.2.26).
    Buffered = "buffered";
    /// It would have been buffered, but the buffer is full.
    BufferFull = "buffer_full";
    /// A QoS enforcement rule's gate is closed in this direction (TS 29.244 8.2.7).
    GateClosed = "gate_closed";
    /// A QoS enforcement rule's maximum bit rate is used up (TS 29.244 8.2.8).
    RateExceeded = "rate_exceeded";
    /// A usage reporting rule's volume quota is used up (TS 29.244 8.2.50).
    QuotaExhausted = "quota_exhausted";
    /// A filter refuses it.
    Denied = "denied";
    /// Address translation has no way to translate it: neither TCP, UDP nor an ICMP query or error, a
    /// fragment without ports, IPv6.
    NatUntranslatable = "nat_untranslatable";
    /// It belongs to no session of address translation, and may not begin one.
    NatNoSession = "nat_no_session";
    /// Address translation has no session left (RFC 3022 6.1).
    NatTableFull = "nat_table_full";
    /// No rule of the classifier matches, and such packets are not to pass.
    Unclassified = "unclassified";
    /// Longer than the MTU, and not to be fragmented: its sender is due an ICMP destination unreachable, code 4, with the
    /// MTU of the next hop (RFC 791 3.2, RFC 1191 4).
    FragmentationNeeded = "fragmentation_needed";
    /// An IPv6 packet longer than the MTU, which routers never fragment: its sender is due an ICMPv6 packet too big
    /// (RFC 8200 5, RFC 4443 3.2).
    PacketTooBig = "packet_too_big";
    /// It cannot be cut at multiples of 8 bytes: its fragment offset would pass 65,535 bytes, or the MTU has no room for
    /// 8 bytes of payload (RFC 791 3.2).
    Unfragmentable = "unfragmentable";
    /// The payload has a string that is looked for, and such packets are not to pass.
    SignatureFound = "signature_found";
    /// The recorded program dropped the packet that this one stands for.
    Recorded = "recorded";
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
