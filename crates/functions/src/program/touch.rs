//! What a stage of a program touches, as a scenario writes it: `load data 0`, `store mbuf 1`, `load lookup`, `count entry`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How it is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Load,
    Store,
    Prefetch,
    /// Loaded, and stored with one more.
    Count,
}

/// What is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thing {
    /// A line of the packet.
    Data,
    /// A line of its mbuf: 0 and 1 of `struct rte_mbuf`, 2 and 3 of what a program keeps behind it.
    Mbuf,
    /// The table of routes, as deep as the destination goes.
    Lookup,
    /// A line of what the program keeps for the route.
    Entry,
    /// A line of what it keeps for the next hop.
    NextHop,
    /// A line of what it keeps for the flow.
    Flow,
}

/// A touch of a stage: `load`, `store`, `prefetch` or `count`; `data`, `mbuf`, `lookup`, `entry`, `next_hop` or `flow`; and a
/// line, 0 when left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ProgramTouch {
    pub(super) manner: Manner,
    pub(super) thing: Thing,
    pub(super) line: u16,
}

const MANNERS: [(&str, Manner); 4] =
    [("load", Manner::Load), ("store", Manner::Store), ("prefetch", Manner::Prefetch), ("count", Manner::Count)];
/// With the most lines of each.
const THINGS: [(&str, Thing, u16); 6] = [
    ("data", Thing::Data, 32),
    ("mbuf", Thing::Mbuf, 4),
    ("lookup", Thing::Lookup, 1),
    ("entry", Thing::Entry, 4),
    ("next_hop", Thing::NextHop, 8),
    ("flow", Thing::Flow, 8),
];

fn name<T: PartialEq>(all: impl IntoIterator<Item = (&'static str, T)>, is: T) -> &'static str {
    all.into_iter().find(|(_, one)| *one == is).map_or("", |(name, _)| name)
}

impl TryFrom<String> for ProgramTouch {
    type Error = String;

    fn try_from(text: String) -> Result<ProgramTouch, String> {
        let allowed = || {
            let (manners, things) = (MANNERS.map(|m| m.0).join(", "), THINGS.map(|t| t.0).join(", "));
            format!("{text:?}: allowed is one of {manners}, then one of {things}, then a line, as in \"load data 0\"")
        };
        let mut words = text.split_whitespace();
        let manner = words.next().and_then(|word| MANNERS.iter().find(|(name, _)| *name == word));
        let thing = words.next().and_then(|word| THINGS.iter().find(|(name, ..)| *name == word));
        let (Some((_, manner)), Some(&(named, thing, lines))) = (manner, thing) else { return Err(allowed()) };
        let line = words.next().map_or(Ok(0), str::parse::<u16>).map_err(|_| allowed())?;
        if line >= lines {
            return Err(format!("{text:?}: allowed are lines 0 to {} of {named}", lines - 1));
        }
        if words.next().is_some() {
            return Err(allowed());
        }
        if thing == Thing::Lookup && !matches!(manner, Manner::Load) {
            return Err(format!("{text:?}: a lookup is loaded (write \"load lookup\")"));
        }
        Ok(ProgramTouch { manner: *manner, thing, line })
    }
}

impl From<ProgramTouch> for String {
    fn from(touch: ProgramTouch) -> String {
        touch.to_string()
    }
}

impl fmt::Display for ProgramTouch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (manner, thing) =
            (name(MANNERS, self.manner), name(THINGS.map(|(name, thing, _)| (name, thing)), self.thing));
        write!(f, "{manner} {thing}")?;
        if self.thing == Thing::Lookup { Ok(()) } else { write!(f, " {}", self.line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_anything_else_is_refused() {
        for text in
            ["load data 0", "store mbuf 2", "load lookup", "prefetch data 1", "count entry 0", "load next_hop 7"]
        {
            assert_eq!(ProgramTouch::try_from(text.to_string()).unwrap().to_string(), text);
        }
        assert_eq!(ProgramTouch::try_from("load data".to_string()).unwrap().line, 0);
        for (text, expected) in [
            ("read data 0", "allowed is one of load, store, prefetch, count"),
            ("load packet 0", "then one of data, mbuf, lookup, entry, next_hop, flow"),
            ("load mbuf 4", "allowed are lines 0 to 3 of mbuf"),
            ("load data x", "as in \"load data 0\""),
            ("load data 0 1", "as in \"load data 0\""),
            ("store lookup", "a lookup is loaded"),
            ("", "allowed is one of load"),
        ] {
            let error = ProgramTouch::try_from(text.to_string()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
