//! A load of sessions: UEs that have registered, each with a PDU session and its rules.
//!
//! What a session is given follows what operators' policies give (3GPP TS 23.503 6.3, TS 23.501 5.7): a
//! few rules for signalling and voice, rules for applications that are charged or treated apart, and a
//! default that matches everything, one pair of uplink and downlink for each. Applications come from a
//! catalogue that all UEs draw from; their addresses and ports are made. A session has two forwarding
//! action rules (to the data network; to its base station) and one that drops, for an application that
//! is blocked; a QoS rule with the session's aggregate rate and one for voice; usage rules for the session and for
//! rating groups of its applications.
//!
//! The numbers (20,000 UEs, 40 rules) are those of the 5GC2ache paper, section 7.1; which filters a
//! commercial core has is not published.

use std::net::{Ipv4Addr, Ipv6Addr};

use packet::{PROTO_TCP, PROTO_UDP, Prefix};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Action, Capacity, Direction, Far, Pdr, PduSession, Qer, SdfFilter, TokenBucket, Urr};
use crate::FunctionError;

/// How many sessions are registered and what rules they have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionLoad {
    /// UEs with a session each, 1 to 1000000.
    pub ues: u32,
    /// Packet detection rules of a session, half of them uplink: an even number of 2 to 200.
    pub pdrs: u32,
    /// The share of sessions with an IPv6 prefix beside their IPv4 address.
    pub ipv6: f64,
    /// Base stations that the UEs are spread over, 1 to 65536.
    pub base_stations: u32,
    /// Applications in the catalogue, 1 to 4096.
    pub applications: u32,
    /// The session's aggregate maximum bit rate each way, in Mbit/s; 0 for no limit.
    pub ambr_mbps: u32,
    /// Another seed gives other filters.
    pub seed: u64,
}

impl Default for SessionLoad {
    fn default() -> SessionLoad {
        SessionLoad { ues: 20_000, pdrs: 40, ipv6: 0.0, base_stations: 64, applications: 256, ambr_mbps: 0, seed: 5 }
    }
}

/// Forwarding, QoS and usage rules of a made session, by id.
const TO_CORE: u32 = 1;
const TO_ACCESS: u32 = 2;
const BLOCKED: u32 = 3;
const AMBR: u32 = 1;
const VOICE: u32 = 2;
const SESSION_USAGE: u32 = 1;
const RATING_GROUPS: u32 = 3;
/// QoS flows: default and voice (5QI 9 and 1).
const DEFAULT_QFI: u8 = 9;
const VOICE_QFI: u8 = 1;
/// UEs are 10.64.0.0/10 upwards and 2001:db8:1000::/36, base stations 10.16.0.0/16.
const FIRST_UE: u32 = 0x0a40_0000;
const FIRST_BASE_STATION: u32 = 0x0a10_0001;
/// Applications are in networks of this block (RFC 2544's block for tests is too small for them).
const FIRST_APPLICATION: u32 = 0x6440_0000;

impl SessionLoad {
    /// Checks the numbers.
    ///
    /// # Errors
    /// A number that is not allowed; `path` is where the specification stands.
    pub fn check(&self, path: &str) -> Result<(), FunctionError> {
        let within = |what: &str, came: u32, from: u32, to: u32| match (from..=to).contains(&came) {
            true => Ok(()),
            false => Err(FunctionError::Value {
                path: format!("{path}.{what}"),
                came: came.to_string(),
                allowed: format!("allowed are {from} to {to}"),
            }),
        };
        within("ues", self.ues, 1, 1_000_000)?;
        within("pdrs", self.pdrs, 2, 200)?;
        within("base_stations", self.base_stations, 1, 65_536)?;
        within("applications", self.applications, 1, 4_096)?;
        if !self.pdrs.is_multiple_of(2) {
            return Err(FunctionError::Value {
                path: format!("{path}.pdrs"),
                came: self.pdrs.to_string(),
                allowed: "an even number is wanted, a pair for uplink and downlink each".into(),
            });
        }
        if !(0.0..=1.0).contains(&self.ipv6) {
            return Err(FunctionError::Value {
                path: format!("{path}.ipv6"),
                came: self.ipv6.to_string(),
                allowed: "a share of 0 to 1 is wanted".into(),
            });
        }
        Ok(())
    }

    /// What all sessions take.
    pub fn capacity(&self) -> Capacity {
        Capacity {
            sessions: self.ues,
            pdrs: self.ues * self.pdrs,
            fars: self.ues * 3,
            qers: self.ues * 2,
            urrs: self.ues * (RATING_GROUPS + 1),
        }
    }

    /// The networks of the catalogue's applications: where users' traffic goes to.
    pub fn remotes(&self) -> Vec<Prefix> {
        (0..self.applications).filter_map(|a| self.application(a).remote).collect()
    }

    /// All sessions, one after the other.
    pub fn sessions(&self) -> impl Iterator<Item = PduSession> + '_ {
        (0..self.ues).map(|ue| self.session(ue))
    }

    fn application(&self, number: u32) -> SdfFilter {
        let draw = mix(self.seed ^ u64::from(number) << 32);
        // A /18 each, of which the application has a part: networks of applications do not overlap.
        let len = 20 + (draw % 9) as u8;
        let (proto, port) = match (draw >> 8) % 8 {
            0..4 => (PROTO_TCP, 443),
            4 => (PROTO_UDP, 443),
            5 => (PROTO_TCP, 80),
            _ => {
                return SdfFilter {
                    remote: Prefix::v4(FIRST_APPLICATION + (number << 14), len),
                    ..SdfFilter::default()
                };
            }
        };
        SdfFilter {
            proto: Some(proto),
            remote: Prefix::v4(FIRST_APPLICATION + (number << 14), len),
            remote_ports: (port, port),
            ..SdfFilter::default()
        }
    }

    fn session(&self, ue: u32) -> PduSession {
        let draw = mix(self.seed ^ mix(u64::from(ue)));
        let has_v6 = ((draw >> 11) as f64) < self.ipv6 * (1u64 << 53) as f64;
        let peer = Ipv4Addr::from(FIRST_BASE_STATION + (mix(draw) % u64::from(self.base_stations)) as u32);
        let fars = vec![
            Far { id: TO_CORE, action: Action::ToCore },
            Far { id: TO_ACCESS, action: Action::ToAccess { peer, teid: 0x0100_0000 + ue, qfi: DEFAULT_QFI } },
            Far { id: BLOCKED, action: Action::Drop },
        ];
        let rate = Some(TokenBucket { bits_per_s: u64::from(self.ambr_mbps) * 1_000_000, bytes: 1 << 20 })
            .filter(|b| b.bits_per_s > 0);
        let voice = Some(TokenBucket { bits_per_s: 1_000_000, bytes: 1 << 14 });
        let qers = vec![
            Qer { id: AMBR, uplink: rate, downlink: rate, ..Qer::default() },
            Qer { id: VOICE, uplink: voice, downlink: voice, ..Qer::default() },
        ];
        let urrs = (0..=RATING_GROUPS).map(|g| Urr { id: SESSION_USAGE + g, ..Urr::default() }).collect();
        let mut pdrs = Vec::with_capacity(self.pdrs as usize);
        let pairs = self.pdrs / 2;
        for pair in 0..pairs {
            let is_last = pair + 1 == pairs;
            // Signalling and voice first, where there is room for applications and a default beside them.
            let special = pair < 2 && pairs >= 4;
            let pick = mix(draw ^ u64::from(pair)) % u64::from(self.applications);
            let filter = match pair {
                _ if is_last => None,
                0 if special => Some(SdfFilter {
                    proto: Some(PROTO_UDP),
                    remote: Prefix::v4(0x0a0a_0000, 24),
                    remote_ports: (5060, 5061),
                    ..SdfFilter::default()
                }),
                1 if special => Some(SdfFilter {
                    proto: Some(PROTO_UDP),
                    remote: Prefix::v4(0x0a0a_0100, 24),
                    remote_ports: (49_152, 65_535),
                    ..SdfFilter::default()
                }),
                _ => Some(self.application(pick as u32)),
            };
            // One application of the catalogue in 128 is blocked.
            let blocked = !special && !is_last && mix(self.seed ^ pick).is_multiple_of(128);
            let qers = if pair == 1 && special { vec![VOICE, AMBR] } else { vec![AMBR] };
            let group = SESSION_USAGE + 1 + (pair % RATING_GROUPS);
            for direction in [Direction::Uplink, Direction::Downlink] {
                let far = match direction {
                    _ if blocked => BLOCKED,
                    Direction::Uplink => TO_CORE,
                    Direction::Downlink => TO_ACCESS,
                };
                pdrs.push(Pdr {
                    id: pdrs.len() as u16 + 1,
                    precedence: 100 + pair,
                    direction,
                    filters: filter.into_iter().collect(),
                    qfi: None,
                    far,
                    qers: qers.clone(),
                    urrs: if is_last { vec![SESSION_USAGE] } else { vec![group, SESSION_USAGE] },
                });
            }
        }
        PduSession {
            seid: u64::from(ue) + 1,
            ue_v4: Some(Ipv4Addr::from(FIRST_UE + ue)),
            ue_v6: has_v6.then(|| Ipv6Addr::from(0x2001_0db8_1000u128 << 80 | u128::from(ue) << 64)),
            uplink_teid: ue + 1,
            pdrs,
            fars,
            qers,
            urrs,
        }
    }

    /// The QoS flow of a session's default traffic.
    pub const fn qfi(&self) -> u8 {
        DEFAULT_QFI
    }

    /// The QoS flow of its voice.
    pub const fn voice_qfi(&self) -> u8 {
        VOICE_QFI
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mix(x: u64) -> u64 {
    let mut x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::{Upf, UpfSpec};
    use super::*;

    #[test]
    fn a_load_of_sessions_registers_and_takes_what_it_says() {
        for load in [
            SessionLoad { ues: 300, ipv6: 0.5, ..SessionLoad::default() },
            SessionLoad { ues: 5, pdrs: 2, ..SessionLoad::default() },
        ] {
            let sessions: Vec<_> = load.sessions().collect();
            assert_eq!(Capacity::of(&sessions), load.capacity());
            let mut upf = Upf::new(&UpfSpec::default(), load.capacity()).unwrap();
            for session in &sessions {
                upf.establish(session).unwrap();
            }
            assert_eq!((upf.sessions(), upf.pdrs()), (load.ues as usize, u64::from(load.ues * load.pdrs)));
            assert_eq!(sessions, load.sessions().collect::<Vec<_>>());
        }
        let load = SessionLoad { ues: 4000, ipv6: 0.25, ..SessionLoad::default() };
        let v6 = load.sessions().filter(|s| s.ue_v6.is_some()).count();
        assert!((900..1100).contains(&v6), "{v6} of 4000 with IPv6");
        let mut remotes = load.remotes();
        remotes.sort_unstable();
        assert!(remotes.windows(2).all(|w| match (w[0], w[1]) {
            (Prefix::V4 { addr: a, len }, Prefix::V4 { addr: b, .. }) => a + (1 << (32 - len)) <= b,
            _ => false,
        }));
    }

    #[test]
    fn numbers_that_cannot_be_are_told_what_can() {
        let error = |load: SessionLoad| load.check("function.upf.load").unwrap_err().to_string();
        let load = SessionLoad::default;
        assert_eq!(error(SessionLoad { ues: 0, ..load() }), "function.upf.load.ues = 0: allowed are 1 to 1000000");
        assert_eq!(
            error(SessionLoad { pdrs: 41, ..load() }),
            "function.upf.load.pdrs = 41: an even number is wanted, a pair for uplink and downlink each"
        );
        assert!(error(SessionLoad { ipv6: 2.0, ..load() }).contains("a share of 0 to 1"));
    }
}
