//! Sessions from a file.
//!
//! The file is TOML. Sets of rules stand once and are named by sessions, as predefined rules are in
//! PFCP (TS 29.244 5.19), so that 20,000 sessions of 40 rules are 20,000 short entries:
//!
//! ```toml
//! [[rules]]
//! name = "internet"
//! far = [{ id = 1, action = "to_core" }, { id = 2, action = "to_access" }]
//! qer = [{ id = 1, uplink_bps = 50_000_000, downlink_bps = 100_000_000, burst = 1_000_000 }]
//! urr = [{ id = 1, volume_threshold = 1_000_000_000, time_threshold_s = 600 }]
//!
//! [[rules.pdr]]
//! id = 1
//! precedence = 100
//! direction = "uplink"
//! filters = ["permit out 6 from 198.51.100.0/24 443 to assigned"]
//! far = 1
//! qers = [1]
//! urrs = [1]
//!
//! [[session]]
//! seid = 1
//! ue = ["10.45.0.2", "2001:db8:1::/64"]
//! uplink_teid = 1
//! peer = "192.168.0.10"     # the base station
//! downlink_teid = 7         # its identifier
//! qfi = 9
//! rules = "internet"
//! ```
//!
//! `action` is `to_core`, `to_access` (to the session's base station), `drop` or `buffer`.

use std::net::Ipv4Addr;

use packet::Prefix;
use serde::Deserialize;
use toml::Spanned;

use super::{Action, Direction, Far, Pdr, PduSession, Qer, SdfFilter, TokenBucket, Urr};
use crate::FunctionError;

/// What a file of sessions holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionFile {
    /// The sessions, in the order of the file.
    pub sessions: Vec<PduSession>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rules: Vec<RuleSet>,
    #[serde(default)]
    session: Vec<Spanned<SessionRow>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSet {
    name: String,
    #[serde(default)]
    pdr: Vec<PdrEntry>,
    #[serde(default)]
    far: Vec<FarEntry>,
    #[serde(default)]
    qer: Vec<QerEntry>,
    #[serde(default)]
    urr: Vec<UrrEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PdrEntry {
    id: u16,
    precedence: u32,
    direction: Direction,
    #[serde(default)]
    filters: Vec<Spanned<String>>,
    qfi: Option<u8>,
    far: u32,
    #[serde(default)]
    qers: Vec<u32>,
    #[serde(default)]
    urrs: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FarEntry {
    id: u32,
    action: ActionName,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ActionName {
    ToCore,
    ToAccess,
    Drop,
    Buffer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QerEntry {
    id: u32,
    #[serde(default)]
    uplink_closed: bool,
    #[serde(default)]
    downlink_closed: bool,
    uplink_bps: Option<u64>,
    downlink_bps: Option<u64>,
    #[serde(default = "megabyte")]
    burst: u32,
}

fn megabyte() -> u32 {
    1_000_000
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UrrEntry {
    id: u32,
    volume_threshold: Option<u64>,
    time_threshold_s: Option<u32>,
    volume_quota: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionRow {
    seid: u64,
    ue: Vec<Spanned<String>>,
    uplink_teid: u32,
    peer: Spanned<String>,
    downlink_teid: u32,
    #[serde(default)]
    qfi: u8,
    rules: Spanned<String>,
}

/// Reads the text of a file of sessions; `origin` is its name, for messages.
///
/// # Errors
/// Not TOML, an unknown key, an address or filter that is not one, rules that no set has, sessions that
/// contradict themselves or each other: with the line.
pub fn parse(text: &str, origin: &str) -> Result<SessionFile, FunctionError> {
    let source = SessionSource { text, origin };
    let file: File = toml::from_str(text).map_err(|e| {
        let start = e.span().map_or(0, |s| s.start);
        source.error(start, e.message().trim_end().replace('\n', "; "))
    })?;
    let mut sessions = Vec::with_capacity(file.session.len());
    let mut seen = std::collections::HashMap::new();
    for spanned in &file.session {
        let (start, entry) = (spanned.span().start, spanned.get_ref());
        let Some(set) = file.rules.iter().find(|set| set.name == *entry.rules.get_ref()) else {
            let names: Vec<_> = file.rules.iter().map(|set| set.name.as_str()).collect();
            let message = format!(
                "rules = {:?}: allowed are {} (add a [[rules]] of that name)",
                entry.rules.get_ref(),
                names.join(", ")
            );
            return Err(source.error(entry.rules.span().start, message));
        };
        let session = session(entry, set, &source)?;
        session.check().map_err(|e| source.error(start, e.to_string()))?;
        let keys = [("seid", session.seid.to_string()), ("uplink_teid", session.uplink_teid.to_string())];
        let keys = keys.into_iter().chain(session.addresses().map(|a| ("ue", a.to_string())));
        for key in keys {
            if let Some(first) = seen.insert(key.clone(), start) {
                let line = source.line(first);
                let message = format!("{} = {}: the session in line {line} has it (give each its own)", key.0, key.1);
                return Err(source.error(start, message));
            }
        }
        sessions.push(session);
    }
    if sessions.is_empty() {
        return Err(source.error(0, "no [[session]] in it: at least one is wanted".into()));
    }
    Ok(SessionFile { sessions })
}

/// What is read, for messages.
struct SessionSource<'a> {
    text: &'a str,
    origin: &'a str,
}

impl SessionSource<'_> {
    /// The line of a byte, from 1.
    fn line(&self, offset: usize) -> usize {
        self.text.get(..offset).unwrap_or(self.text).matches('\n').count() + 1
    }

    fn error(&self, offset: usize, message: String) -> FunctionError {
        FunctionError::Line { origin: self.origin.into(), line: self.line(offset), message }
    }
}

/// The session of `entry`, which has the rules of `set`.
fn session(entry: &SessionRow, set: &RuleSet, source: &SessionSource) -> Result<PduSession, FunctionError> {
    let peer: Ipv4Addr = entry.peer.get_ref().parse().map_err(|_| {
        source.error(entry.peer.span().start, format!("peer = {:?}: an IPv4 address is wanted", entry.peer.get_ref()))
    })?;
    let mut session = PduSession { seid: entry.seid, uplink_teid: entry.uplink_teid, ..PduSession::default() };
    for ue in &entry.ue {
        let wanted = "an IPv4 address such as \"10.45.0.2\" or a prefix such as \"2001:db8:1::/64\" is wanted, one of each at most";
        let bad = || source.error(ue.span().start, format!("ue = {:?}: {wanted}", ue.get_ref()));
        match ue.get_ref().parse::<Prefix>() {
            Ok(Prefix::V4 { addr, len: 32 }) if session.ue_v4.is_none() => session.ue_v4 = Some(addr.into()),
            Ok(Prefix::V6 { addr, len: 64 }) if session.ue_v6.is_none() => session.ue_v6 = Some(addr.into()),
            _ => return Err(bad()),
        }
    }
    for pdr in &set.pdr {
        let filter =
            |f: &Spanned<String>| f.get_ref().parse::<SdfFilter>().map_err(|e| source.error(f.span().start, e));
        session.pdrs.push(Pdr {
            id: pdr.id,
            precedence: pdr.precedence,
            direction: pdr.direction,
            filters: pdr.filters.iter().map(filter).collect::<Result<_, _>>()?,
            qfi: pdr.qfi,
            far: pdr.far,
            qers: pdr.qers.clone(),
            urrs: pdr.urrs.clone(),
        });
    }
    let far = |far: &FarEntry| Far {
        id: far.id,
        action: match far.action {
            ActionName::ToCore => Action::ToCore,
            ActionName::ToAccess => Action::ToAccess { peer, teid: entry.downlink_teid, qfi: entry.qfi },
            ActionName::Drop => Action::Drop,
            ActionName::Buffer => Action::Buffer,
        },
    };
    let bucket = |bps: Option<u64>, bytes: u32| bps.map(|bits_per_s| TokenBucket { bits_per_s, bytes });
    let qer = |q: &QerEntry| Qer {
        id: q.id,
        uplink_closed: q.uplink_closed,
        downlink_closed: q.downlink_closed,
        uplink: bucket(q.uplink_bps, q.burst),
        downlink: bucket(q.downlink_bps, q.burst),
    };
    let urr = |u: &UrrEntry| Urr {
        id: u.id,
        volume_threshold: u.volume_threshold,
        time_threshold_s: u.time_threshold_s,
        volume_quota: u.volume_quota,
    };
    session.fars = set.far.iter().map(far).collect();
    session.qers = set.qer.iter().map(qer).collect();
    session.urrs = set.urr.iter().map(urr).collect();
    Ok(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the module's header.
    fn example() -> String {
        let lines = include_str!("sessions.rs").lines().skip_while(|l| !l.contains("```toml")).skip(1);
        lines
            .take_while(|l| !l.contains("```"))
            .map(|l| l.trim_start_matches("//!").trim_start().to_owned() + "\n")
            .collect()
    }

    #[test]
    fn the_example_reads() {
        let sessions = parse(&example(), "sessions.toml").unwrap().sessions;
        let [session] = &sessions[..] else { panic!("one session") };
        assert_eq!((session.ue_v4, session.uplink_teid), (Some(Ipv4Addr::new(10, 45, 0, 2)), 1));
        assert_eq!(session.ue_v6, Some("2001:db8:1::".parse().unwrap()));
        assert_eq!(session.pdrs[0].filters[0].to_string(), "permit out 6 from 198.51.100.0/24 443 to assigned");
        let to_access = Action::ToAccess { peer: Ipv4Addr::new(192, 168, 0, 10), teid: 7, qfi: 9 };
        assert_eq!(session.fars[1].action, to_access);
        assert_eq!(session.urrs[0].time_threshold_s, Some(600));
    }

    #[test]
    fn errors_name_the_line() {
        let good = example();
        let error = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            parse(&good.replace(from, to), "s.toml").unwrap_err().to_string()
        };
        let twice = good.clone() + &good[good.find("[[session]]").unwrap()..];
        let other = twice.replacen("seid = 1\n", "seid = 2\n", 1);
        let errors = [
            error("id = 1\nprec", "id = 1\nprce"),
            error("\"10.45.0.2\"", "\"10.45.0.0/24\""),
            error("198.51.100.0/24", "198.51.100.0/240"),
            error("rules = \"internet\"", "rules = \"ims\""),
            error("\nfar = 1", "\nfar = 9"),
            error("\nfar = 1", "\nfar = 2"),
            error("uplink_teid = 1", "uplink_teid = 0"),
            error("\"192.168.0.10\"", "\"gnb\""),
            error("action = \"to_core\"", "action = \"forward\""),
            parse(&twice, "s.toml").unwrap_err().to_string(),
            parse(&other, "s.toml").unwrap_err().to_string(),
            parse("", "s.toml").unwrap_err().to_string(),
            parse("[[session", "s.toml").unwrap_err().to_string(),
        ];
        insta::assert_snapshot!(errors.join("\n"));
    }
}
