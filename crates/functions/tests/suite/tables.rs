//! The fast tables against their naive twin on real routing tables. Where the tables of
//! `shared/data` are missing the tests say so and pass.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use flate2::read::GzDecoder;
use functions::NextHop;
use functions::lookup::{Dir24_8, Dir24Spec, FibEntry, Lpm6, Naive, Poptrie};
use packet::Prefix;

fn unpacked(file: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/tables").join(file);
    let Ok(packed) = std::fs::read(&path) else {
        println!("skipped: no {file} in shared/data/tables");
        return None;
    };
    let mut data = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut data).expect("a gzip file");
    Some(data)
}

/// Lines of prefix and optional next-hop class; comments start with `;`.
fn list(file: &str) -> Option<Vec<(Prefix, NextHop)>> {
    let text = String::from_utf8(unpacked(file)?).expect("text");
    let parse = |(i, line): (usize, &str)| {
        let mut words = line.split_whitespace();
        let prefix = words.next()?.parse().ok()?;
        let class = words.next().map_or(i as u32, |class| class.parse().unwrap_or(i as u32));
        Some((prefix, NextHop::new(class % 32_000)?))
    };
    Some(text.lines().filter(|l| !l.starts_with(';')).enumerate().filter_map(parse).collect())
}

fn be(data: &[u8], at: usize, bytes: usize) -> Option<usize> {
    Some(data.get(at..at + bytes)?.iter().fold(0, |n, &b| n << 8 | usize::from(b)))
}

/// Type, subtype and body of each MRT record (RFC 6396 section 2).
fn mrt(data: &[u8]) -> Vec<(usize, usize, &[u8])> {
    let (mut at, mut records) = (0, Vec::new());
    while let (Some(kind), Some(subtype), Some(len)) = (be(data, at + 4, 2), be(data, at + 6, 2), be(data, at + 8, 4)) {
        let Some(body) = data.get(at + 12..at + 12 + len) else { break };
        records.push((kind, subtype, body));
        at += 12 + len;
    }
    records
}

fn v4_prefix(data: &[u8], at: usize, len: usize) -> Option<Prefix> {
    let bytes = len.div_ceil(8);
    Prefix::v4((be(data, at, bytes)? << (32 - 8 * bytes)) as u32, len as u8)
}

/// Withdrawn (`false`) and announced prefixes of BGP4MP messages (RFC 6396 section 4.4, RFC 4271
/// section 4.3), IPv4 only.
fn updates(data: &[u8]) -> Vec<(Prefix, bool)> {
    let mut changes = Vec::new();
    for (kind, subtype, body) in mrt(data) {
        let as_bytes = match (kind, subtype) {
            (16, 1) => 2,
            (16, 4) => 4,
            _ => continue,
        };
        let mut parse = || {
            let family = be(body, 2 * as_bytes + 2, 2)?;
            let message = 2 * as_bytes + 4 + if family == 1 { 8 } else { 32 };
            if be(body, message + 18, 1)? != 2 {
                return None;
            }
            let end = message + be(body, message + 16, 2)?;
            let mut prefixes = |mut at: usize, end: usize, announced| {
                while at < end {
                    let len = be(body, at, 1)?;
                    changes.push((v4_prefix(body, at + 1, len)?, announced));
                    at += 1 + len.div_ceil(8);
                }
                Some(())
            };
            let withdrawn = message + 21;
            let attributes = withdrawn + be(body, withdrawn - 2, 2)?;
            prefixes(withdrawn, attributes, false)?;
            prefixes(attributes + 2 + be(body, attributes, 2)?, end, true)
        };
        parse();
    }
    changes
}

struct Rng(u64);

impl Rng {
    /// splitmix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

/// Both ends of each prefix, the addresses beyond them, one inside, and as many random ones.
fn v4_keys(routes: &[(u32, u8, NextHop)]) -> Vec<u32> {
    let mut rng = Rng(4);
    let mut keys = BTreeSet::new();
    for &(addr, len, _) in routes {
        let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
        let last = addr | host;
        keys.extend([addr, last, addr.wrapping_sub(1), last.wrapping_add(1), addr | (rng.next() as u32 & host)]);
        keys.insert(rng.next() as u32);
    }
    keys.into_iter().collect()
}

fn v6_keys(routes: &[(u128, u8, NextHop)]) -> Vec<u128> {
    let mut rng = Rng(6);
    let mut keys = BTreeSet::new();
    for &(addr, len, _) in routes {
        let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
        let last = addr | host;
        keys.extend([addr, last, addr.wrapping_sub(1), last.wrapping_add(1), addr | (rng.wide() & host)]);
        // Anywhere, and anywhere in 2000::/3, where the routes are.
        keys.insert(rng.wide());
        keys.insert(rng.wide() >> 3 | 1 << 125);
    }
    keys.into_iter().collect()
}

fn naive(routes: &[(Prefix, NextHop)]) -> Naive {
    let mut naive = Naive::new();
    for &(prefix, next_hop) in routes {
        naive.insert(prefix, next_hop);
    }
    naive
}

fn of_v4(routes: &[(Prefix, NextHop)]) -> Vec<(u32, u8, NextHop)> {
    let v4 = |&(prefix, next_hop): &_| match prefix {
        Prefix::V4 { addr, len } => Some((addr, len, next_hop)),
        Prefix::V6 { .. } => None,
    };
    routes.iter().filter_map(v4).collect()
}

fn agrees<E: FibEntry>(table: &Dir24_8<E>, keys: &[u32], expected: &[Option<NextHop>]) {
    let mut bulk = vec![None; keys.len()];
    assert_eq!(table.lookup_bulk(keys, &mut bulk), keys.len());
    for ((&key, &expected), &bulk) in keys.iter().zip(expected).zip(&bulk) {
        assert_eq!(table.lookup(key), expected, "{}", Ipv4Addr::from(key));
        assert_eq!(bulk, expected, "{} in bulk", Ipv4Addr::from(key));
    }
}

fn poptrie_agrees(table: &Poptrie<u32>, keys: &[u32], expected: &[Option<NextHop>]) {
    for (&key, &expected) in keys.iter().zip(expected) {
        assert_eq!(table.lookup(key), expected, "{} by poptrie", Ipv4Addr::from(key));
    }
}

/// Compares both widths, poptries and IPv6 with the twin, and returns the IPv4 tables.
fn compare(file: &str, routes: &[(Prefix, NextHop)]) -> (Dir24_8<u16>, Poptrie<u32>, Naive) {
    let naive = naive(routes);
    let v4 = of_v4(routes);
    let keys = v4_keys(&v4);
    let expected: Vec<_> = keys.iter().map(|&key| naive.lookup(IpAddr::V4(key.into()))).collect();
    let narrow = Dir24_8::<u16>::new(v4.iter().copied(), Dir24Spec::default()).unwrap();
    agrees(&narrow, &keys, &expected);
    agrees(&Dir24_8::<u32>::new(v4.iter().copied(), Dir24Spec::default()).unwrap(), &keys, &expected);
    let poptrie = Poptrie::new(v4.iter().copied()).unwrap();
    poptrie_agrees(&poptrie, &keys, &expected);

    let v6: Vec<_> = routes
        .iter()
        .filter_map(|&(prefix, next_hop)| match prefix {
            Prefix::V6 { addr, len } => Some((addr, len, next_hop)),
            Prefix::V4 { .. } => None,
        })
        .collect();
    let table = Lpm6::new(v6.iter().copied(), Dir24Spec::default()).unwrap();
    let poptrie_v6 = Poptrie::new(v6.iter().copied()).unwrap();
    let keys = v6_keys(&v6);
    for &key in &keys {
        let right = naive.lookup(IpAddr::V6(key.into()));
        assert_eq!(table.lookup(key), right, "{}", Ipv6Addr::from(key));
        assert_eq!(poptrie_v6.lookup(key), right, "{} by poptrie", Ipv6Addr::from(key));
    }
    let kib = |bytes: u64| bytes / 1024;
    println!(
        "{file}: {} KiB of DIR-24-8 and {:?} KiB of poptrie for IPv4; for IPv6 {} KiB and {:?} KiB",
        kib(narrow.tbl24_bytes() + narrow.groups() as u64 * 512),
        poptrie.bytes().map(kib),
        kib(table.tbl24_bytes() + table.groups() as u64 * 1024),
        poptrie_v6.bytes().map(kib),
    );
    println!("{file}: {narrow:?}, {table:?}, {} IPv4 and {} IPv6 keys", expected.len(), keys.len());
    assert_eq!(narrow.len() + table.len(), naive.len());
    assert_eq!(poptrie.len() + poptrie_v6.len(), naive.len());
    (narrow, poptrie, naive)
}

#[test]
fn full_table_matches_naive_through_real_updates_and_back() {
    let file = "full_table_v4v6.txt.gz";
    let Some(routes) = list(file) else { return };
    assert_eq!(routes.len(), 1_062_046);
    let (mut table, mut poptrie, mut naive) = compare(file, &routes);

    // A quarter of an hour of real churn, then random churn among the table's own prefixes.
    let Some(data) = unpacked("ris_rrc15_updates.20100227.1600.mrt.gz") else { return };
    let mut changes = updates(&data);
    assert!(changes.len() > 50_000, "{}", changes.len());
    let mut rng = Rng(8);
    let v4 = of_v4(&routes);
    for _ in 0..100_000 {
        let (addr, len, _) = v4[rng.next() as usize % v4.len()];
        changes.push((Prefix::V4 { addr, len }, rng.next().is_multiple_of(2)));
    }
    let mut touched = Vec::new();
    for (prefix, announced) in changes {
        let Prefix::V4 { addr, len } = prefix else { continue };
        if announced {
            let next_hop = NextHop::from((rng.next() % 32_000) as u16);
            touched.push((addr, len, next_hop));
            let replaced = naive.insert(prefix, next_hop);
            assert_eq!(table.add(addr, len, next_hop).unwrap(), replaced);
            assert_eq!(poptrie.add(addr, len, next_hop).unwrap(), replaced);
        } else {
            let removed = naive.remove(prefix);
            assert_eq!(table.remove(addr, len), removed);
            assert_eq!(poptrie.remove(addr, len), removed);
        }
    }
    let keys = v4_keys(&touched);
    let expected: Vec<_> = keys.iter().map(|&key| naive.lookup(IpAddr::V4(key.into()))).collect();
    agrees(&table, &keys, &expected);
    poptrie_agrees(&poptrie, &keys, &expected);
    // What updates lead to is what building from the same routes gives.
    let rebuilt = Dir24_8::<u16>::new(table.routes(), Dir24Spec::default()).unwrap();
    assert_eq!(rebuilt.groups(), table.groups());
    agrees(&rebuilt, &keys, &expected);
    assert_eq!(Poptrie::new(poptrie.routes()).unwrap().bytes(), poptrie.bytes());
}

#[test]
fn table_of_2015_matches_naive() {
    let file = "ipasn_v4v6_20151101.dat.gz";
    let Some(routes) = list(file) else { return };
    assert_eq!(routes.len(), 606_138 + 27_693);
    compare(file, &routes);
}

#[test]
fn table_of_2002_matches_naive() {
    let file = "ris_rrc05_bview.20020722.2337.mrt.gz";
    let Some(data) = unpacked(file) else { return };
    // TABLE_DUMP, AFI_IPv4 (RFC 6396 section 4.2): the last entry of a prefix counts.
    let entry = |(i, (kind, subtype, body)): (usize, (usize, usize, &[u8]))| {
        let prefix = (kind == 12 && subtype == 1).then(|| v4_prefix_of(body))??;
        Some((prefix, NextHop::from((i % 32_000) as u16)))
    };
    let v4_routes: Vec<_> = mrt(&data).into_iter().enumerate().filter_map(entry).collect();
    let (table, ..) = compare(file, &v4_routes);
    assert!(table.len() > 112_000, "{}", table.len());
}

fn v4_prefix_of(body: &[u8]) -> Option<Prefix> {
    Prefix::v4(be(body, 4, 4)? as u32, be(body, 8, 1)? as u8)
}
