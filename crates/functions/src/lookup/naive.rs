//! Longest-prefix match by its definition: the twin of the fast structures.

use std::collections::HashMap;
use std::net::IpAddr;

use packet::Prefix;

use super::NextHop;

/// Longest-prefix match as its definition says: every length from the longest down, one exact
/// match each. The twin that the fast structures are compared with.
#[derive(Clone, Debug, Default)]
pub struct Naive {
    routes: HashMap<Prefix, NextHop>,
}

impl Naive {
    /// No routes.
    pub fn new() -> Naive {
        Naive::default()
    }

    /// Adds or replaces a route, and returns what it replaced.
    pub fn insert(&mut self, prefix: Prefix, next_hop: NextHop) -> Option<NextHop> {
        self.routes.insert(prefix, next_hop)
    }

    /// Removes a route, and returns its next hop.
    pub fn remove(&mut self, prefix: Prefix) -> Option<NextHop> {
        self.routes.remove(&prefix)
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// The next hop of the longest prefix that contains `addr`.
    pub fn lookup(&self, addr: IpAddr) -> Option<NextHop> {
        let of_len = |len: u8| match addr {
            IpAddr::V4(a) => Prefix::v4(a.into(), len),
            IpAddr::V6(a) => Prefix::v6(a.into(), len),
        };
        let longest = if addr.is_ipv4() { 32 } else { 128 };
        (0..=longest).rev().find_map(|len| self.routes.get(&of_len(len)?).copied())
    }
}
