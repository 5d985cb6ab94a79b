//! Sessions and their rules as the control plane gives them (3GPP TS 29.244 V17, 5.2).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use packet::Prefix;
use serde::{Deserialize, Serialize};

use crate::FunctionError;

/// A PDU session with its rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PduSession {
    /// The session endpoint identifier: its name towards the control plane.
    pub seid: u64,
    /// The UE's IPv4 address.
    pub ue_v4: Option<Ipv4Addr>,
    /// The UE's IPv6 prefix: the first 64 bits of its addresses.
    pub ue_v6: Option<Ipv6Addr>,
    /// The tunnel endpoint identifier that uplink packets come with.
    pub uplink_teid: u32,
    /// Packet detection rules.
    pub pdrs: Vec<Pdr>,
    /// Forwarding action rules.
    pub fars: Vec<Far>,
    /// QoS enforcement rules.
    pub qers: Vec<Qer>,
    /// Usage reporting rules.
    pub urrs: Vec<Urr>,
}

/// From where a packet comes: PDI source interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the access network, through a tunnel.
    Uplink,
    /// From the data network, to the address of a UE.
    Downlink,
}

/// A packet detection rule. A packet takes the matching rule with the least precedence value; of equal
/// ones the one with the least id, which the standard leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdr {
    /// Unique within the session.
    pub id: u16,
    /// Lower values are looked at first.
    pub precedence: u32,
    /// Which way.
    pub direction: Direction,
    /// The rule matches if any of these does; without any it matches every packet.
    pub filters: Vec<SdfFilter>,
    /// The QoS flow that an uplink packet has to come by.
    pub qfi: Option<u8>,
    /// The rule's forwarding action rule, by id.
    pub far: u32,
    /// QoS enforcement rules by id, at most [`MOST_QERS`].
    pub qers: Vec<u32>,
    /// Usage reporting rules by id, at most [`MOST_URRS`].
    pub urrs: Vec<u32>,
}

/// QoS enforcement rules of a detection rule, at most: the flow's and the session's.
pub const MOST_QERS: usize = 2;
/// Usage reporting rules of a detection rule, at most: a rating group's and the session's.
pub const MOST_URRS: usize = 2;

/// A service data flow filter: an IPFilterRule (RFC 6733 4.3.1) as TS 29.212 5.4.2 restricts it,
/// `permit out ip from REMOTE [PORTS] to assigned [PORTS]`, written as for downlink and turned round for
/// uplink. `assigned` is the UE's address. A range of ports is `80-443`; lists are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdfFilter {
    /// IP protocol; any if left out (`ip`).
    pub proto: Option<u8>,
    /// The far end's addresses; any if left out (`any`).
    pub remote: Option<Prefix>,
    /// The far end's ports. A packet without ports is matched by the whole range only.
    pub remote_ports: (u16, u16),
    /// The UE's ports.
    pub ue_ports: (u16, u16),
}

impl Default for SdfFilter {
    /// Matches everything.
    fn default() -> SdfFilter {
        SdfFilter { proto: None, remote: None, remote_ports: (0, u16::MAX), ue_ports: (0, u16::MAX) }
    }
}

impl FromStr for SdfFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<SdfFilter, String> {
        let bad = |what: &str, came: &str| {
            format!(
                "{text:?}: {what} {came:?}: a filter is `permit out PROTOCOL from ADDRESS [PORTS] to assigned [PORTS]`, \
                 as in `permit out 6 from 198.51.100.0/24 443 to assigned`, PROTOCOL `ip` or a number, ADDRESS `any` or a prefix"
            )
        };
        let mut words = text.split_whitespace().peekable();
        for wanted in ["permit", "out"] {
            let word = words.next().unwrap_or_default();
            if word != wanted {
                return Err(bad(&format!("not {wanted}"), word));
            }
        }
        let word = words.next().unwrap_or_default();
        let proto = match word {
            "ip" => None,
            _ => Some(word.parse().map_err(|_| bad("not a protocol", word))?),
        };
        let ports = |words: &mut std::iter::Peekable<std::str::SplitWhitespace<'_>>| match words.peek() {
            Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) => {
                let word = words.next().unwrap_or_default();
                let (from, to) = word.split_once('-').unwrap_or((word, word));
                match (from.parse::<u16>(), to.parse::<u16>()) {
                    (Ok(from), Ok(to)) if from <= to => Ok((from, to)),
                    _ => Err(bad("not a range of ports", word)),
                }
            }
            _ => Ok((0, u16::MAX)),
        };
        let word = words.next().unwrap_or_default();
        if word != "from" {
            return Err(bad("not from", word));
        }
        let word = words.next().unwrap_or_default();
        let remote = match word {
            "any" => None,
            _ => Some(word.parse().map_err(|_| bad("not an address", word))?),
        };
        let remote_ports = ports(&mut words)?;
        for wanted in ["to", "assigned"] {
            let word = words.next().unwrap_or_default();
            if word != wanted {
                return Err(bad(&format!("not {wanted}"), word));
            }
        }
        let ue_ports = ports(&mut words)?;
        match words.next() {
            None => Ok(SdfFilter { proto, remote, remote_ports, ue_ports }),
            Some(word) => Err(bad("too much", word)),
        }
    }
}

impl fmt::Display for SdfFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = |(from, to): (u16, u16)| match (from, to) {
            (0, u16::MAX) => String::new(),
            _ if from == to => format!(" {from}"),
            _ => format!(" {from}-{to}"),
        };
        let proto = self.proto.map_or("ip".into(), |p| p.to_string());
        let remote = self.remote.map_or("any".into(), |p| p.to_string());
        write!(f, "permit out {proto} from {remote}{} to assigned{}", ports(self.remote_ports), ports(self.ue_ports))
    }
}

/// A forwarding action rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    /// Unique within the session.
    pub id: u32,
    /// What is done.
    pub action: Action,
}

/// What is done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It goes to the data network as it came out of the tunnel.
    ToCore,
    /// It goes through a tunnel to the access network (outer header creation).
    ToAccess {
        /// The base station's address.
        peer: Ipv4Addr,
        /// The base station's tunnel endpoint identifier.
        teid: u32,
        /// The QoS flow, in the PDU session container.
        qfi: u8,
    },
    /// It is discarded.
    Drop,
    /// A copy is kept until the action changes.
    Buffer,
}

/// A QoS enforcement rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qer {
    /// Unique within the session.
    pub id: u32,
    /// Whether the uplink gate is closed.
    pub uplink_closed: bool,
    /// Whether the downlink gate is closed.
    pub downlink_closed: bool,
    /// Maximum uplink bit rate; no limit if left out.
    pub uplink: Option<TokenBucket>,
    /// Maximum downlink bit rate; no limit if left out.
    pub downlink: Option<TokenBucket>,
}

/// A token bucket: full at the start, filled at a rate, a packet passes if it holds its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Bits a second of users' packets (inner IP).
    pub bits_per_s: u64,
    /// Its size in bytes, up to [`TokenBucket::MOST_BYTES`].
    pub bytes: u32,
}

impl TokenBucket {
    /// What the 64-bit counter of 10^-12 bits holds.
    pub const MOST_BYTES: u32 = 2 << 20;
}

/// A usage reporting rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Urr {
    /// Unique within the session.
    pub id: u32,
    /// Bytes of users' packets (both ways) that make a report.
    pub volume_threshold: Option<u64>,
    /// Seconds since the first packet of a report that make one, at the next packet.
    pub time_threshold_s: Option<u32>,
    /// Bytes after which nothing passes any more.
    pub volume_quota: Option<u64>,
}

impl PduSession {
    /// Checks what the tables rely on.
    ///
    /// # Errors
    /// Two rules of a kind with one id, a rule that names another that is not there, too many, no address,
    /// identifier 0, an action that does not go with its direction, a bucket that is too large.
    pub fn check(&self) -> Result<(), FunctionError> {
        let path = |what: &str| format!("session[seid = {}].{what}", self.seid);
        let error = |what: &str, came: String, allowed: &str| {
            Err(FunctionError::Value { path: path(what), came, allowed: allowed.into() })
        };
        if self.uplink_teid == 0 {
            return error("uplink_teid", "0".into(), "allowed are 1 to 4294967295 (0 is for path management)");
        }
        if self.ue_v4.is_none() && self.ue_v6.is_none() {
            return error("ue", "nothing".into(), "an IPv4 address or an IPv6 prefix is wanted");
        }
        if let Some(v6) =
            self.ue_v6.filter(|a| u128::from(*a) as u64 != 0 || !packet::is_unicast_v6(u128::from(*a) | 2))
        {
            return error("ue", v6.to_string(), "a unicast prefix of 64 bits is wanted, with zeros behind it");
        }
        let mut ids: Vec<u16> = self.pdrs.iter().map(|p| p.id).collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|w| w[0] == w[1]) {
            return error("pdr.id", twice[0].to_string(), "given twice (number the session's rules apart)");
        }
        let unique = |what: &str, ids: &mut dyn Iterator<Item = u32>| {
            let mut ids: Vec<u32> = ids.collect();
            ids.sort_unstable();
            match ids.windows(2).find(|w| w[0] == w[1]) {
                Some(twice) => error(what, twice[0].to_string(), "given twice (number the session's rules apart)"),
                None => Ok(()),
            }
        };
        unique("far.id", &mut self.fars.iter().map(|f| f.id))?;
        unique("qer.id", &mut self.qers.iter().map(|q| q.id))?;
        unique("urr.id", &mut self.urrs.iter().map(|u| u.id))?;
        for pdr in &self.pdrs {
            let at = |what: &str| format!("pdr[{}].{what}", pdr.id);
            let Some(far) = self.fars.iter().find(|f| f.id == pdr.far) else {
                return error(&at("far"), pdr.far.to_string(), "the session has no such forwarding action rule");
            };
            match (far.action, pdr.direction) {
                (Action::ToCore, Direction::Downlink) => {
                    return error(&at("far"), pdr.far.to_string(), "a downlink packet goes to the access network");
                }
                (Action::ToAccess { .. }, Direction::Uplink) => {
                    return error(&at("far"), pdr.far.to_string(), "an uplink packet goes to the core network");
                }
                _ => {}
            }
            if pdr.qers.len() > MOST_QERS {
                return error(&at("qers"), format!("{} rules", pdr.qers.len()), "up to 2 are allowed");
            }
            if pdr.urrs.len() > MOST_URRS {
                return error(&at("urrs"), format!("{} rules", pdr.urrs.len()), "up to 2 are allowed");
            }
            if let Some(id) = pdr.qers.iter().find(|id| self.qers.iter().all(|q| q.id != **id)) {
                return error(&at("qers"), id.to_string(), "the session has no such QoS enforcement rule");
            }
            if let Some(id) = pdr.urrs.iter().find(|id| self.urrs.iter().all(|u| u.id != **id)) {
                return error(&at("urrs"), id.to_string(), "the session has no such usage reporting rule");
            }
            if let Some(qfi) = pdr.qfi.filter(|q| *q > 63) {
                return error(&at("qfi"), qfi.to_string(), "allowed are 0 to 63");
            }
        }
        for qer in &self.qers {
            for bucket in [qer.uplink, qer.downlink].into_iter().flatten() {
                let at = format!("qer[{}]", qer.id);
                if !(1..=1_000_000_000_000).contains(&bucket.bits_per_s) {
                    return error(&at, format!("{} bit/s", bucket.bits_per_s), "allowed are 1 to 1e12");
                }
                if !(64..=TokenBucket::MOST_BYTES).contains(&bucket.bytes) {
                    return error(&at, format!("{} B of burst", bucket.bytes), "allowed are 64 to 2097152");
                }
            }
        }
        Ok(())
    }

    /// The session's addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.ue_v4.map(IpAddr::from).into_iter().chain(self.ue_v6.map(IpAddr::from))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn filters_are_read_and_errors_show_the_form() {
        let filter: SdfFilter = "permit out 6 from 198.51.100.7/24 443 to assigned 1024-65535".parse().unwrap();
        assert_eq!(filter.remote, Some("198.51.100.0/24".parse().unwrap()));
        assert_eq!((filter.proto, filter.remote_ports, filter.ue_ports), (Some(6), (443, 443), (1024, 65535)));
        assert_eq!("permit out ip from any to assigned".parse(), Ok(SdfFilter::default()));
        for bad in [
            "deny out ip from any to assigned",
            "permit out tcp from any to assigned",
            "permit out ip from 10.0.0.0/33 to assigned",
            "permit out ip from any 9-8 to assigned",
            "permit out ip from any to any",
            "permit out ip from any to assigned 80 81",
            "",
        ] {
            let error = bad.parse::<SdfFilter>().unwrap_err();
            assert!(error.contains("as in `permit out 6 from 198.51.100.0/24 443 to assigned`"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_filter_reads_back(proto: Option<u8>, addr: u32, len in 0u8..=32, any in any::<bool>(), a: (u16, u16), b: (u16, u16)) {
            let range = |(x, y): (u16, u16)| (x.min(y), x.max(y));
            let remote = if any { None } else { Prefix::v4(addr, len) };
            let filter = SdfFilter { proto, remote, remote_ports: range(a), ue_ports: range(b) };
            prop_assert_eq!(filter.to_string().parse(), Ok(filter));
        }
    }
}
