//! Routing tables: prefixes with a next hop.
//!
//! Read from MRT (TABLE_DUMP, TABLE_DUMP_V2) or from plain lists, plain or compressed, or made with
//! the shape of a real full table. A table keeps one route per prefix, the first that its file has;
//! later ones are counted. What a lookup needs of a next hop is that equal ones are equal, so a
//! next hop is a small number, its class, and [`Table::next_hops`] says what it stands for.

mod list;
mod mrt;
mod synthetic;

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::io::{self, Cursor, Read};
use std::net::IpAddr;
use std::path::Path;

use hashbrown::HashTable;
use packet::Prefix;
use serde::Serialize;

use crate::damage::{Damage, DamageKind};
use crate::error::TrafficError;
use crate::input::{Compression, InputStream, Stop};

pub use mrt::{Update, UpdateKind, Updates};

/// Bytes of a line: the longest sound one has two addresses.
const MAX_LINE: usize = 4096;
/// A list whose first so many lines are all damaged is not a list.
const LINES_WITHOUT_PREFIX: u64 = 10_000;
/// Routes that are read: seven full tables, in some 800 MB while it is read.
const MOST_ROUTES: usize = 8 << 20;
const FORMATS: &str = "MRT TABLE_DUMP or TABLE_DUMP_V2, or a text list of prefixes";

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub prefix: Prefix,
    /// The class of its next hop, an index of [`Table::next_hops`]; [`None`] if the file has none.
    pub next_hop: Option<u32>,
}

/// What a class of next hop stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextHopClass {
    /// An address.
    Address(IpAddr),
    /// An autonomous system, in lists that give the origin instead of a next hop.
    As(u32),
    /// A number without further meaning, of a table that was made.
    Class(u32),
}

impl fmt::Display for NextHopClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NextHopClass::Address(a) => write!(f, "{a}"),
            NextHopClass::As(n) => write!(f, "AS{n}"),
            NextHopClass::Class(n) => write!(f, "next hop {n}"),
        }
    }
}

/// How a table was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TableFormat {
    /// Text, one prefix a line.
    List,
    /// MRT TABLE_DUMP or TABLE_DUMP_V2.
    Mrt,
    /// Made, not read.
    Synthetic,
}

/// A routing table.
#[derive(Clone, Debug)]
pub struct Table {
    /// One route per prefix, in the order of the file.
    pub routes: Vec<Route>,
    /// What the classes stand for.
    pub next_hops: Vec<NextHopClass>,
    /// How it was written.
    pub format: TableFormat,
    /// How that was compressed.
    pub compression: Compression,
    /// Entries for a prefix that had a route already.
    pub duplicates: u64,
    /// What could not be read.
    pub damage: Damage,
    /// The BLAKE3 hash of the file, in hex, where [`Table::open_until`] has read one.
    pub content: Option<String>,
}

/// How many prefixes of which length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableCounts {
    /// IPv4 prefixes.
    pub ipv4: u64,
    /// IPv6 prefixes.
    pub ipv6: u64,
    /// IPv4 prefixes by length, 0 to 32.
    pub ipv4_by_len: Vec<u64>,
    /// IPv6 prefixes by length, 0 to 128.
    pub ipv6_by_len: Vec<u64>,
    /// Different next hops.
    pub next_hops: u64,
    /// Entries for a prefix that had a route already.
    pub duplicates: u64,
}

impl Table {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, has no known format, or has no usable prefix.
    pub fn open(path: impl AsRef<Path>) -> Result<Table, TrafficError> {
        let path = path.as_ref();
        Table::load(InputStream::open(path)?, path.display().to_string())
    }

    /// As [`Table::open`], and hashes the file; gives up soon after `stop` is set.
    ///
    /// # Errors
    /// As [`Table::open`], and [`TrafficError::Stopped`].
    pub fn open_until(path: impl AsRef<Path>, stop: &Stop) -> Result<Table, TrafficError> {
        let path = path.as_ref();
        Table::load(InputStream::open_watched(path, stop)?, path.display().to_string())
    }

    /// Reads from `read`; `name` is for messages.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn read(read: impl Read + Send + 'static, name: &str) -> Result<Table, TrafficError> {
        let failed = |source: io::Error| TrafficError::Open { path: name.into(), source };
        Table::load(InputStream::new(Box::new(read)).map_err(failed)?, name.into())
    }

    /// Reads from memory; `name` is for messages.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Table, TrafficError> {
        Table::read(Cursor::new(bytes), name)
    }

    /// A table of `ipv4_prefixes` routes with the prefix lengths and the nesting of a real full
    /// table, and next hops of `next_hops` classes; the same for the same `seed`. A full table of
    /// 2022 has [`Table::FULL_IPV4`] IPv4 routes. There are no IPv6 routes in it.
    pub fn synthetic(seed: u64, ipv4_prefixes: usize, next_hops: u32) -> Table {
        synthetic::make(seed, ipv4_prefixes, next_hops)
    }

    /// IPv4 routes of the real full table that [`Table::synthetic`] is shaped after.
    pub const FULL_IPV4: usize = synthetic::FULL_IPV4;

    fn load(mut input: InputStream, name: String) -> Result<Table, TrafficError> {
        let mut builder = Builder::default();
        let format = if mrt::detect(&mut input) {
            mrt::read_table(&mut input, &mut builder);
            TableFormat::Mrt
        } else if is_text(input.peek(1024)) {
            list::read(&mut input, &mut builder);
            TableFormat::List
        } else {
            return Err(input.unknown(name, "a routing table", FORMATS));
        };
        if let Some(at) = builder.full {
            let most = format!("{MOST_ROUTES} routes of different prefixes");
            let remedy = "no router holds so many, a full table has 1.3 million: split the file";
            return Err(TrafficError::TooMuch { name, at: format!("byte {at}"), most, remedy });
        }
        input.report_failure(&mut builder.damage);
        let content = input.content()?;
        if builder.routes.is_empty() {
            let why = match (builder.updates, builder.damage.is_empty()) {
                (n @ 1.., _) => format!(
                    "it has {n} BGP4MP messages, which are updates, and no RIB (give a dump of the whole table, as \
                     rib.* of Route Views or bview.* of RIPE RIS)"
                ),
                (0, true) => "it has no entry".to_string(),
                (0, false) => builder.damage.to_string(),
            };
            let format = match format {
                TableFormat::Mrt => "MRT",
                _ => "a text list",
            };
            return Err(TrafficError::NothingUsable { name, format, what: "prefix", why });
        }
        Ok(Table { content, ..builder.finish(format, input.compression) })
    }

    /// How many routes there are of which kind.
    pub fn counts(&self) -> TableCounts {
        let (mut v4, mut v6) = (vec![0; 33], vec![0; 129]);
        for route in &self.routes {
            match route.prefix {
                Prefix::V4 { len, .. } => v4[usize::from(len)] += 1,
                Prefix::V6 { len, .. } => v6[usize::from(len)] += 1,
            }
        }
        TableCounts {
            ipv4: v4.iter().sum(),
            ipv6: v6.iter().sum(),
            ipv4_by_len: v4,
            ipv6_by_len: v6,
            next_hops: self.next_hops.len() as u64,
            duplicates: self.duplicates,
        }
    }

    /// The prefixes, in the order of the routes.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.routes.iter().map(|r| r.prefix)
    }
}

/// Where in a vector a thing is: a set of places, so that each thing is kept once.
///
/// Files are anybody's, so it hashes with a seed that nobody knows. Order is that of the vector: no result depends on the seed.
#[derive(Default)]
struct Places {
    seed: RandomState,
    /// Hashes and places. With the hash beside it nothing is looked up again where the set grows.
    table: HashTable<(u32, u32)>,
}

impl Places {
    fn hash(&self, thing: impl Hash) -> u32 {
        self.seed.hash_one(thing) as u32
    }

    /// All bits of the set's own hash, of which it uses both ends.
    fn spread(hash: u32) -> u64 {
        u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn find(&self, hash: u32, is: impl Fn(usize) -> bool) -> Option<u32> {
        let found = self.table.find(Places::spread(hash), |&(of, place)| of == hash && is(place as usize));
        found.map(|&(_, place)| place)
    }

    fn insert(&mut self, hash: u32, place: u32) {
        self.table.insert_unique(Places::spread(hash), (hash, place), |&(of, _)| Places::spread(of));
    }
}

/// Collects routes and numbers next hops.
#[derive(Default)]
struct Builder {
    routes: Vec<Route>,
    next_hops: Vec<NextHopClass>,
    /// Of the routes, by their prefixes.
    seen: Places,
    /// Of the next hops.
    classes: Places,
    duplicates: u64,
    /// Messages that are updates of a table, and no table.
    updates: u64,
    damage: Damage,
    /// The byte at which there was a route too many: nothing more is to be read.
    full: Option<u64>,
}

impl Builder {
    /// Adds a route that stands at byte `at` of the input.
    fn add(&mut self, at: u64, prefix: Prefix, next_hop: Option<NextHopClass>) {
        let hash = self.seen.hash(prefix);
        if self.seen.find(hash, |place| self.routes[place].prefix == prefix).is_some() {
            self.duplicates += 1;
            return;
        }
        if self.routes.len() >= MOST_ROUTES {
            self.full.get_or_insert(at);
            return;
        }
        self.seen.insert(hash, self.routes.len() as u32);
        let next_hop = next_hop.map(|hop| self.class(hop));
        self.routes.push(Route { prefix, next_hop });
    }

    fn class(&mut self, hop: NextHopClass) -> u32 {
        let hash = self.classes.hash(hop);
        if let Some(place) = self.classes.find(hash, |place| self.next_hops[place] == hop) {
            return place;
        }
        let place = self.next_hops.len() as u32;
        self.classes.insert(hash, place);
        self.next_hops.push(hop);
        place
    }

    fn finish(self, format: TableFormat, compression: Compression) -> Table {
        let Builder { routes, next_hops, duplicates, damage, .. } = self;
        Table { routes, next_hops, format, compression, duplicates, damage, content: None }
    }
}

/// Whether this can be the start of a text: no control bytes but white space, and not nothing.
fn is_text(head: &[u8]) -> bool {
    !head.is_empty() && head.iter().all(|&b| b >= 0x20 || matches!(b, b'\t' | b'\n' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_route_of_a_prefix_is_kept_and_the_others_are_counted() {
        let table = Table::from_bytes(b"10.0.0.0/8 192.0.2.1\n10.0.0.1/8 192.0.2.2\n".to_vec(), "t").unwrap();
        assert_eq!((table.routes.len(), table.duplicates), (1, 1));
        assert_eq!(table.next_hops, [NextHopClass::Address("192.0.2.1".parse().unwrap())]);
    }

    #[test]
    fn what_is_no_table_is_told_what_is_allowed() {
        let error = |bytes: &[u8]| Table::from_bytes(bytes.to_vec(), "x").unwrap_err().to_string();
        assert_eq!(
            error(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0]),
            "x: not a routing table: it starts with bytes d4 c3 b2 a1 02 00 04 00 (allowed: MRT TABLE_DUMP or \
             TABLE_DUMP_V2, or a text list of prefixes; plain or compressed with gzip, xz or zstd)"
        );
        assert!(error(b"").contains("nothing: it is empty"));
        assert_eq!(error(b"# only this\n"), "x: a text list with no usable prefix: it has no entry");
        assert!(error(b"hello\n").contains("at byte 0: line 1: \"hello\" is not an IPv4 or IPv6 address or prefix"));
    }

    #[test]
    fn counts_are_by_family_and_length() {
        let table = Table::from_bytes(b"10.0.0.0/8\n10.1.0.0/16\n2001:db8::/32\n0.0.0.0/0".to_vec(), "t").unwrap();
        let counts = table.counts();
        assert_eq!((counts.ipv4, counts.ipv6), (3, 1));
        assert_eq!((counts.ipv4_by_len[0], counts.ipv4_by_len[8], counts.ipv4_by_len[16]), (1, 1, 1));
        assert_eq!(counts.ipv6_by_len[32], 1);
    }
}
