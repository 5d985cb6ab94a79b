//! MRT: routing tables (TABLE_DUMP, TABLE_DUMP_V2) and update messages (BGP4MP).
//!
//! Source: RFC 6396, RFC 8050 (add-path), RFC 4271 and 4760 for the attributes. Of a prefix that
//! several peers announce the first entry counts. Left out: multicast and generic RIBs, AS paths.
//!
//! Why not `bgpkit-parser`: it builds every attribute of every entry, stops at the first damaged
//! record, and needs a calendar and a JSON library; a forwarding table needs a prefix and a next hop.

use std::collections::VecDeque;
use std::io::{self, Cursor, Read};
use std::net::IpAddr;
use std::path::Path;

use packet::Prefix;
use units::Ps;

use super::{Builder, Damage, DamageKind, InputStream, NextHopClass, TrafficError};

const HEADER: usize = 12;
/// A RIB entry list of 1,000 peers with long paths is well below this.
const MAX_RECORD: usize = 1 << 19;
const RESYNC_NEED: usize = MAX_RECORD + 2 * HEADER;

const TABLE_DUMP: u16 = 12;
const TABLE_DUMP_V2: u16 = 13;
const BGP4MP: u16 = 16;
const BGP4MP_ET: u16 = 17;

const ATTRIBUTE_NEXT_HOP: u8 = 3;
const ATTRIBUTE_MP_REACH: u8 = 14;
const ATTRIBUTE_MP_UNREACH: u8 = 15;
const AFI_IPV4: u16 = 1;
const AFI_IPV6: u16 = 2;
const BGP_UPDATE: u8 = 2;
const SAFI_UNICAST: u8 = 1;

#[derive(Clone, Copy)]
struct Header {
    seconds: u32,
    kind: u16,
    subtype: u16,
    length: usize,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Header> {
        let mut c = Fields(bytes);
        Some(Header { seconds: c.u32()?, kind: c.u16()?, subtype: c.u16()?, length: c.u32()? as usize })
    }

    fn is_sound(&self) -> bool {
        let known = match self.kind {
            // AFIs 3 and 4 were IPv6 with and without 32-bit AS numbers in old Zebra.
            TABLE_DUMP => (1..=4).contains(&self.subtype),
            TABLE_DUMP_V2 => (1..=12).contains(&self.subtype),
            BGP4MP | BGP4MP_ET => self.subtype <= 11,
            // BGP, OSPF, IS-IS: passed over.
            5 | 11 | 32 | 33 | 48 | 49 => true,
            _ => false,
        };
        known && self.length <= MAX_RECORD
    }
}

/// Whether the input starts with an MRT record.
pub(super) fn detect(input: &mut InputStream) -> bool {
    Header::read(input.peek(HEADER)).is_some_and(|h| h.is_sound())
}

/// Passes over to the next whole record: its header, with the body as the next `length` bytes.
fn next_record(input: &mut InputStream, damage: &mut Damage) -> Option<Header> {
    loop {
        let offset = input.offset();
        let bytes = input.peek(HEADER);
        if bytes.is_empty() {
            return None;
        }
        let came = bytes.len();
        let Some(header) = Header::read(bytes) else {
            damage.add(DamageKind::Truncated, offset, || {
                format!("the input ends {came} bytes into a record header of {HEADER}")
            });
            input.consume(came);
            return None;
        };
        if !header.is_sound() {
            damage.add(DamageKind::Corrupt, offset, || {
                format!("a record of type {}, subtype {} and {} bytes", header.kind, header.subtype, header.length)
            });
            let two = |bytes: &[u8], at_end: bool| {
                Header::read(bytes).filter(Header::is_sound).is_some_and(|h| match bytes.get(HEADER + h.length..) {
                    Some([]) => at_end,
                    Some(rest) => Header::read(rest)
                        .is_some_and(|n| n.is_sound() && n.kind == h.kind && n.seconds.abs_diff(h.seconds) <= 86_400),
                    None => false,
                })
            };
            if !crate::capture::resync(input, damage, RESYNC_NEED, two) {
                return None;
            }
            continue;
        }
        input.consume(HEADER);
        let came = input.peek(header.length).len();
        if came < header.length {
            damage.add(DamageKind::Truncated, offset, || {
                format!("the input ends {came} bytes into a record of {}", header.length)
            });
            input.consume(came);
            return None;
        }
        return Some(header);
    }
}

pub(super) fn read_table(input: &mut InputStream, builder: &mut Builder) {
    let mut peers = Vec::new();
    while builder.full.is_none()
        && let Some(header) = next_record(input, &mut builder.damage)
    {
        let offset = input.offset();
        let body = &input.peek(header.length)[..header.length];
        let entry = match (header.kind, header.subtype) {
            (TABLE_DUMP, subtype) => table_dump(body, subtype),
            (TABLE_DUMP_V2, 1) => {
                peers = peer_index(body);
                Ok(None)
            }
            (TABLE_DUMP_V2, subtype @ (2 | 4 | 8 | 10)) => rib(body, subtype, &peers),
            _ => Ok(None),
        };
        match entry {
            Ok(Some((prefix, next_hop))) => builder.add(offset, prefix, next_hop.map(NextHopClass::Address)),
            Ok(None) => builder.updates += u64::from(matches!(header.kind, BGP4MP | BGP4MP_ET)),
            Err(what) => {
                builder.damage.add(DamageKind::Corrupt, offset, || format!("a table entry with {what}"));
            }
        }
        input.consume(header.length);
    }
}

type RibEntry = Option<(Prefix, Option<IpAddr>)>;
const SHORT: &str = "less bytes than its fields";

/// RFC 6396 section 4.2.
fn table_dump(body: &[u8], subtype: u16) -> Result<RibEntry, &'static str> {
    let v6 = subtype != AFI_IPV4;
    let mut c = Fields(body);
    let parsed = (|| {
        c.take(4)?;
        let addr = c.address(v6)?;
        let len = c.u8()?;
        c.take(5)?;
        let peer = c.address(v6)?;
        // AS numbers take 4 bytes in the later Zebra subtypes.
        c.take(if subtype > 2 { 4 } else { 2 })?;
        let length = c.u16()?;
        Some((addr, len, peer, c.take(length.into())?))
    })();
    let (addr, len, peer, attributes) = parsed.ok_or(SHORT)?;
    let prefix = prefix(addr, len).ok_or("a prefix length that cannot be")?;
    Ok(Some((prefix, Some(next_hop_of(attributes).unwrap_or(peer)))))
}

/// RFC 6396 section 4.3.1: the peers' addresses.
fn peer_index(body: &[u8]) -> Vec<IpAddr> {
    let mut c = Fields(body);
    let mut peers = Vec::new();
    let _ = (|| {
        c.take(4)?;
        let name = c.u16()?;
        c.take(name.into())?;
        for _ in 0..c.u16()? {
            let kind = c.u8()?;
            c.take(4)?;
            peers.push(c.address(kind & 1 != 0)?);
            c.take(if kind & 2 != 0 { 4 } else { 2 })?;
        }
        Some(())
    })();
    peers
}

/// RFC 6396 section 4.3.2, RFC 8050 section 4: the first entry of a prefix.
fn rib(body: &[u8], subtype: u16, peers: &[IpAddr]) -> Result<RibEntry, &'static str> {
    let v6 = matches!(subtype, 4 | 10);
    let mut c = Fields(body);
    c.take(4).ok_or(SHORT)?;
    let prefix = c.nlri(v6)?.ok_or(SHORT)?;
    let entries = c.u16().ok_or(SHORT)?;
    if entries == 0 {
        return Ok(None);
    }
    let parsed = (|| {
        let peer = c.u16()?;
        c.take(if subtype >= 8 { 8 } else { 4 })?;
        let length = c.u16()?;
        Some((peer, c.take(length.into())?))
    })();
    let (peer, attributes) = parsed.ok_or(SHORT)?;
    let next_hop = next_hop_of(attributes).or_else(|| peers.get(usize::from(peer)).copied());
    Ok(Some((prefix, next_hop)))
}

fn next_hop_of(attributes: &[u8]) -> Option<IpAddr> {
    let mut next_hop = None;
    for (kind, value) in Attributes(Fields(attributes)) {
        match kind {
            ATTRIBUTE_NEXT_HOP => next_hop = next_hop.or_else(|| Fields(value).address(false)),
            ATTRIBUTE_MP_REACH => next_hop = mp_next_hop(value).or(next_hop),
            _ => {}
        }
    }
    next_hop
}

/// The next hop of MP_REACH_NLRI, whole or (in TABLE_DUMP_V2) without AFI, SAFI and prefixes.
fn mp_next_hop(value: &[u8]) -> Option<IpAddr> {
    let mut c = Fields(value);
    if value.first() == Some(&0) {
        c.take(3)?;
    }
    match c.u8()? {
        4 => c.address(false),
        16 | 32 => c.address(true),
        _ => None,
    }
}

fn prefix(addr: IpAddr, len: u8) -> Option<Prefix> {
    match addr {
        IpAddr::V4(a) => Prefix::v4(a.into(), len),
        IpAddr::V6(a) => Prefix::v6(a.into(), len),
    }
}

/// Big-endian fields, taken from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(front)
    }
    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }
    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk().map(|b| u16::from_be_bytes(*b))
    }
    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|b| u32::from_be_bytes(*b))
    }
    fn address(&mut self, v6: bool) -> Option<IpAddr> {
        if v6 {
            self.take(16)?.first_chunk::<16>().map(|b| IpAddr::from(*b))
        } else {
            self.take(4)?.first_chunk::<4>().map(|b| IpAddr::from(*b))
        }
    }
    /// A prefix as BGP writes it: its length in bits, and as many bytes as that takes. [`None`] if
    /// the bytes end first.
    fn nlri(&mut self, v6: bool) -> Result<Option<Prefix>, &'static str> {
        let Some(len) = self.u8() else {
            return Ok(None);
        };
        if len > if v6 { 128 } else { 32 } {
            return Err("a prefix length that cannot be");
        }
        let Some(bytes) = self.take(usize::from(len).div_ceil(8)) else {
            return Ok(None);
        };
        let mut whole = [0u8; 16];
        whole[..bytes.len()].copy_from_slice(bytes);
        let [a, b, c, d, ..] = whole;
        Ok(if v6 {
            Prefix::v6(u128::from_be_bytes(whole), len)
        } else {
            Prefix::v4(u32::from_be_bytes([a, b, c, d]), len)
        })
    }
}

/// Path attributes: type and value, as far as they are whole.
struct Attributes<'a>(Fields<'a>);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u8, &'a [u8]);
    fn next(&mut self) -> Option<Self::Item> {
        const EXTENDED_LENGTH: u8 = 0x10;
        let flags = self.0.u8()?;
        let kind = self.0.u8()?;
        let length = if flags & EXTENDED_LENGTH != 0 { usize::from(self.0.u16()?) } else { usize::from(self.0.u8()?) };
        Some((kind, self.0.take(length)?))
    }
}

/// A route that comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// Since the first message of the file; messages of one second arrive together unless the file
    /// has microseconds.
    pub at: Ps,
    /// The peer that says so.
    pub peer: IpAddr,
    /// For where.
    pub prefix: Prefix,
    /// What happens.
    pub kind: UpdateKind,
}

/// What an update does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    /// The route is there, by this next hop.
    Announce(Option<IpAddr>),
    /// The route is gone.
    Withdraw,
}

/// BGP4MP update messages as a stream of single announcements and withdrawals, in the order of the
/// file (within a message withdrawals first).
pub struct Updates {
    input: InputStream,
    ready: VecDeque<Update>,
    base: Option<i128>,
    state_changes: u64,
    damage: Damage,
    ended: bool,
}

impl Updates {
    /// Opens an MRT file of update messages.
    ///
    /// # Errors
    /// The file cannot be read or is not MRT.
    pub fn open(path: impl AsRef<Path>) -> Result<Updates, TrafficError> {
        let path = path.as_ref();
        Updates::start(InputStream::open(path)?, path.display().to_string())
    }

    /// Reads from `read`; `name` is for messages.
    ///
    /// # Errors
    /// As [`Updates::open`].
    pub fn new(read: impl Read + Send + 'static, name: &str) -> Result<Updates, TrafficError> {
        let failed = |source: io::Error| TrafficError::Open { path: name.into(), source };
        Updates::start(InputStream::new(Box::new(read)).map_err(failed)?, name.into())
    }

    /// Reads from memory; `name` is for messages.
    ///
    /// # Errors
    /// As [`Updates::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Updates, TrafficError> {
        Updates::new(Cursor::new(bytes), name)
    }

    fn start(mut input: InputStream, name: String) -> Result<Updates, TrafficError> {
        if !detect(&mut input) {
            return Err(input.unknown(name, "a file of BGP updates", "MRT BGP4MP"));
        }
        Ok(Updates {
            input,
            ready: VecDeque::new(),
            base: None,
            state_changes: 0,
            damage: Damage::default(),
            ended: false,
        })
    }

    /// Changes of a session's state so far.
    pub fn state_changes(&self) -> u64 {
        self.state_changes
    }

    /// What could not be read so far.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    fn message(&mut self, header: Header) {
        let offset = self.input.offset();
        let body = &self.input.peek(header.length)[..header.length];
        let mut c = Fields(body);
        let parsed = (|| {
            let micros = if header.kind == BGP4MP_ET { c.u32()? } else { 0 };
            c.take(if matches!(header.subtype, 1 | 6 | 8 | 10) { 4 } else { 8 })?;
            c.take(2)?;
            let v6 = c.u16()? == AFI_IPV6;
            let peer = c.address(v6)?;
            c.address(v6)?;
            c.take(16)?;
            let length = usize::from(c.u16()?);
            let kind = c.u8()?;
            Some((micros, peer, kind, c.take(length.checked_sub(19)?)?))
        })();
        let Some((micros, peer, kind, message)) = parsed else {
            self.damage.add(DamageKind::Corrupt, offset, || format!("a message with {SHORT}"));
            return;
        };
        if kind != BGP_UPDATE {
            return;
        }
        let time = i128::from(header.seconds) * 1_000_000 + i128::from(micros);
        let since = time - *self.base.get_or_insert(time);
        let at = Ps(u64::try_from(since.max(0) * 1_000_000).unwrap_or(u64::MAX));
        let add_path = header.subtype >= 8;
        let before = self.ready.len();
        if let Err(what) = update(message, add_path, |prefix, kind| {
            self.ready.push_back(Update { at, peer, prefix, kind });
        }) {
            let kept = self.ready.len() - before;
            self.damage.add(DamageKind::Corrupt, offset, || format!("an update with {what}, {kept} routes of it used"));
        }
    }
}

impl Iterator for Updates {
    type Item = Update;
    fn next(&mut self) -> Option<Update> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                return Some(update);
            }
            if self.ended {
                return None;
            }
            let Some(header) = next_record(&mut self.input, &mut self.damage) else {
                self.ended = true;
                self.input.report_failure(&mut self.damage);
                continue;
            };
            if matches!(header.kind, BGP4MP | BGP4MP_ET) {
                match header.subtype {
                    0 | 5 => self.state_changes += 1,
                    1 | 4 | 6..=11 => self.message(header),
                    _ => {}
                }
            }
            self.input.consume(header.length);
        }
    }
}

/// RFC 4271 section 4.3, RFC 4760 sections 3 and 4.
fn update(message: &[u8], add_path: bool, mut give: impl FnMut(Prefix, UpdateKind)) -> Result<(), &'static str> {
    let mut c = Fields(message);
    let length = c.u16().ok_or(SHORT)?;
    let withdrawn = c.take(length.into()).ok_or(SHORT)?;
    let length = c.u16().ok_or(SHORT)?;
    let attributes = c.take(length.into()).ok_or(SHORT)?;
    let mut each = |bytes: &[u8], v6, kind| -> Result<(), &'static str> {
        let mut c = Fields(bytes);
        while !c.0.is_empty() {
            if add_path {
                c.take(4).ok_or(SHORT)?;
            }
            give(c.nlri(v6)?.ok_or(SHORT)?, kind);
        }
        Ok(())
    };
    each(withdrawn, false, UpdateKind::Withdraw)?;
    for (kind, value) in Attributes(Fields(attributes)) {
        if !matches!(kind, ATTRIBUTE_MP_REACH | ATTRIBUTE_MP_UNREACH) {
            continue;
        }
        let mut c = Fields(value);
        let (afi, safi) = (c.u16().ok_or(SHORT)?, c.u8().ok_or(SHORT)?);
        if safi != SAFI_UNICAST || !matches!(afi, AFI_IPV4 | AFI_IPV6) {
            continue;
        }
        if kind == ATTRIBUTE_MP_UNREACH {
            each(c.0, afi == AFI_IPV6, UpdateKind::Withdraw)?;
        } else {
            let length = c.u8().ok_or(SHORT)?;
            // The next hop, and a reserved byte.
            c.take(usize::from(length) + 1).ok_or(SHORT)?;
            each(c.0, afi == AFI_IPV6, UpdateKind::Announce(mp_next_hop(value)))?;
        }
    }
    let next_hop = Attributes(Fields(attributes)).find(|a| a.0 == ATTRIBUTE_NEXT_HOP);
    let next_hop = next_hop.and_then(|a| Fields(a.1).address(false));
    each(c.0, false, UpdateKind::Announce(next_hop))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Table, TableFormat};
    use super::*;

    fn record(kind: u16, subtype: u16, body: &[u8]) -> Vec<u8> {
        [
            &1_000u32.to_be_bytes()[..],
            &kind.to_be_bytes(),
            &subtype.to_be_bytes(),
            &(body.len() as u32).to_be_bytes(),
            body,
        ]
        .concat()
    }

    /// ORIGIN, then NEXT_HOP 192.0.2.`hop` with an extended length.
    fn attributes(hop: u8) -> Vec<u8> {
        vec![0x40, 1, 1, 0, 0x50, 3, 0, 4, 192, 0, 2, hop]
    }

    fn table_dump_entry(third: u8, hop: u8) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 7, 10, 1, third, 0, 24, 1, 0, 0, 0, 0, 198, 51, 100, 1, 0xfd, 0xe8, 0, 12];
        body.extend(attributes(hop));
        record(TABLE_DUMP, AFI_IPV4, &body)
    }

    fn peer_table() -> Vec<u8> {
        let mut body = vec![1, 2, 3, 4, 0, 2, b'v', b'w', 0, 2];
        body.extend([2, 9, 9, 9, 9, 198, 51, 100, 1, 0, 0, 0xfd, 0xe8]);
        body.extend([1, 9, 9, 9, 9]);
        body.extend([0x20; 16]);
        body.extend([0xfd, 0xe8]);
        record(TABLE_DUMP_V2, 1, &body)
    }

    fn v2_files() -> Vec<u8> {
        let entry =
            |peer: u8, attributes: &[u8]| [&[0, peer, 0, 0, 0, 0, 0, attributes.len() as u8][..], attributes].concat();
        let v4 =
            [&[0, 0, 0, 1, 20, 10, 16, 0x30, 0, 2][..], &entry(0, &attributes(7)), &entry(1, &attributes(8))].concat();
        // The abbreviated MP_REACH of RFC 6396 section 4.3.4.
        let reach = [&[0x80, 14, 17, 16][..], &[0x20; 16]].concat();
        let v6 = [&[0, 0, 0, 2, 32, 0x20, 1, 0xd, 0xb8, 0, 1][..], &entry(1, &reach)].concat();
        let no_hop = [&[0, 0, 0, 3, 8, 11, 0, 1][..], &entry(0, &[0x40, 1, 1, 0])].concat();
        [peer_table(), record(TABLE_DUMP_V2, 2, &v4), record(TABLE_DUMP_V2, 4, &v6), record(TABLE_DUMP_V2, 2, &no_hop)]
            .concat()
    }

    fn shown(table: &Table) -> Vec<String> {
        let hop = |h: Option<u32>| h.map_or("-".into(), |h| table.next_hops[h as usize].to_string());
        table.routes.iter().map(|r| format!("{} via {}", r.prefix, hop(r.next_hop))).collect()
    }

    #[test]
    fn table_dump_entries_become_routes() {
        let bytes = [table_dump_entry(1, 5), table_dump_entry(2, 6), table_dump_entry(1, 9)].concat();
        let table = Table::from_bytes(bytes, "t").unwrap();
        assert_eq!((table.format, table.duplicates), (TableFormat::Mrt, 1));
        assert_eq!(shown(&table), ["10.1.1.0/24 via 192.0.2.5", "10.1.2.0/24 via 192.0.2.6"]);
    }

    #[test]
    fn table_dump_v2_takes_the_first_entry_and_the_peer_where_no_next_hop_is() {
        let table = Table::from_bytes(v2_files(), "t").unwrap();
        assert_eq!(
            shown(&table),
            [
                "10.16.48.0/20 via 192.0.2.7",
                "2001:db8::/32 via 2020:2020:2020:2020:2020:2020:2020:2020",
                "11.0.0.0/8 via 198.51.100.1"
            ]
        );
        assert!(table.damage.is_empty());
    }

    #[test]
    fn a_broken_record_is_named_and_the_next_sound_one_is_found() {
        let mut broken = table_dump_entry(9, 9);
        broken[4] = 0xff;
        let offset = table_dump_entry(1, 5).len();
        let bytes = [table_dump_entry(1, 5), broken, table_dump_entry(2, 6), table_dump_entry(3, 6)].concat();
        let table = Table::from_bytes(bytes, "t").unwrap();
        assert_eq!(table.routes.len(), 3);
        assert_eq!((table.damage.count, table.damage.first[0].offset), (1, offset as u64));
        assert_eq!(table.damage.skipped_bytes, offset as u64);
    }

    fn update_file() -> Vec<u8> {
        let head = [&[0xfd, 0xe8, 0xfd, 0xe9, 0, 0, 0, 1, 198, 51, 100, 1, 198, 51, 100, 2][..], &[0xff; 16]].concat();
        let reach = [&[0x80, 14, 26, 0, 2, 1, 16][..], &[0x20; 16], &[0, 32, 0x20, 1, 0xd, 0xb8]].concat();
        let unreach = [0x80, 15, 5, 0, 2, 1, 8, 0x30];
        let attributes = [attributes(3), reach, unreach.to_vec()].concat();
        let update = [&[0, 2, 8, 10][..], &[0, attributes.len() as u8], &attributes, &[24, 192, 0, 2, 0]].concat();
        let message = [&head, &(update.len() as u16 + 19).to_be_bytes()[..], &[BGP_UPDATE], &update].concat();
        let keepalive = [&head[..], &[0, 19, 4]].concat();
        [record(BGP4MP, 0, &[0; 20]), record(BGP4MP, 1, &keepalive), record(BGP4MP, 1, &message)].concat()
    }

    #[test]
    fn updates_are_single_routes_in_order() {
        let mut updates = Updates::from_bytes(update_file(), "t").unwrap();
        let all: Vec<String> = updates.by_ref().map(|u| format!("{} {} {:?}", u.peer, u.prefix, u.kind)).collect();
        assert_eq!(
            all,
            [
                "198.51.100.1 10.0.0.0/8 Withdraw",
                "198.51.100.1 2001:db8::/32 Announce(Some(2020:2020:2020:2020:2020:2020:2020:2020))",
                "198.51.100.1 3000::/8 Withdraw",
                "198.51.100.1 192.0.2.0/24 Announce(Some(192.0.2.3))",
                "198.51.100.1 0.0.0.0/0 Announce(Some(192.0.2.3))"
            ]
        );
        assert_eq!((updates.state_changes(), updates.damage().count), (1, 0));
    }

    proptest! {
        #[test]
        fn mutated_files_are_a_table_or_an_error(places in prop::collection::vec((any::<u16>(), any::<u8>()), 0..8), cut in 0..400usize, which in 0..3) {
            let mut bytes = match which {
                0 => v2_files(),
                1 => update_file(),
                _ => [table_dump_entry(1, 5), table_dump_entry(2, 6)].concat(),
            };
            for (at, value) in places {
                let at = usize::from(at) % bytes.len();
                bytes[at] = value;
            }
            bytes.truncate(cut);
            let _ = Table::from_bytes(bytes.clone(), "t");
            if let Ok(updates) = Updates::from_bytes(bytes, "t") {
                prop_assert!(updates.count() < 1000);
            }
        }
    }
}
