//! Tuple space search: a hash table for each set of fields that rules fix.

use std::collections::HashMap;

use packet::{Rule, RuleFields};
use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};

use super::linear::{RULE_WORDS, RuleLine};
use super::{cost, site};
use crate::tape::Tape;

const TUPLES: RegionId = RegionId::FIRST_TABLE;
const BUCKETS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 1);
const ENTRIES: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 2);
const TUPLE_BYTES: u64 = size_of::<Tuple>() as u64;
const BUCKET_BYTES: u64 = 4;
const ENTRY_BYTES: u64 = size_of::<TupleRule>() as u64;
const NONE: u32 = u32::MAX;

/// Rules by the bits of the fields that they fix. A port range that is neither one port nor all of them fixes nothing, and
/// neither do flags: what was not hashed is compared.
#[derive(Clone, Debug)]
pub(super) struct TupleSpace {
    /// In the order of the best rule of each.
    tuples: Vec<Tuple>,
    /// The first entry of each bucket, of all tuples.
    buckets: Vec<u32>,
    entries: Vec<TupleRule>,
}

/// The fields that the rules of one hash table fix, and where the table is.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Tuple {
    masks: Masks,
    /// The number of its first rule.
    best: u32,
    /// Its first bucket, and how many there are less 1, which is a mask.
    first: u32,
    mask: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Masks {
    src: u32,
    dst: u32,
    src_port: u16,
    dst_port: u16,
    proto: u8,
}

/// A rule in its bucket; those of a bucket are in the order of their numbers.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct TupleRule {
    rule: RuleLine,
    number: u32,
    next: u32,
}

impl Masks {
    fn of(rule: &Rule) -> Masks {
        let prefix = |(_, len): (u32, u8)| u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
        let port = |(low, high): (u16, u16)| if low == high { u16::MAX } else { 0 };
        Masks {
            src: prefix(rule.src),
            dst: prefix(rule.dst),
            src_port: port(rule.src_port),
            dst_port: port(rule.dst_port),
            proto: rule.proto.1,
        }
    }

    /// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) over the fields that count.
    #[inline(always)]
    fn hash(&self, src: u32, dst: u32, src_port: u16, dst_port: u16, proto: u8) -> u32 {
        let addresses = u64::from(src & self.src) << 32 | u64::from(dst & self.dst);
        let ports = u64::from(src_port & self.src_port) << 24
            | u64::from(dst_port & self.dst_port) << 8
            | u64::from(proto & self.proto);
        let mut z = addresses ^ ports.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as u32
    }
}

impl TupleSpace {
    pub(super) fn new(rules: &[Rule]) -> TupleSpace {
        let mut by_masks: HashMap<Masks, Vec<u32>> = HashMap::new();
        for (number, rule) in (0..).zip(rules) {
            by_masks.entry(Masks::of(rule)).or_default().push(number);
        }
        // Each list has its rules in order, so its first one is its best.
        let mut lists: Vec<(Masks, Vec<u32>)> = by_masks.into_iter().collect();
        lists.sort_unstable_by_key(|(_, numbers)| numbers[0]);
        let mut space = TupleSpace { tuples: Vec::new(), buckets: Vec::new(), entries: Vec::new() };
        for (masks, numbers) in lists {
            let first = space.buckets.len() as u32;
            let size = (2 * numbers.len()).next_power_of_two();
            space.buckets.resize(space.buckets.len() + size, NONE);
            let mask = size as u32 - 1;
            space.tuples.push(Tuple { masks, best: numbers[0], first, mask });
            // The last first, so that each is put in front of those behind it.
            for &number in numbers.iter().rev() {
                let rule = &rules[number as usize];
                let hash = masks.hash(rule.src.0, rule.dst.0, rule.src_port.0, rule.dst_port.0, rule.proto.0);
                let bucket = (first + (hash & mask)) as usize;
                let at = space.entries.len() as u32;
                space.entries.push(TupleRule { rule: RuleLine::new(rule), number, next: space.buckets[bucket] });
                space.buckets[bucket] = at;
            }
        }
        space
    }

    pub(super) fn tuples(&self) -> usize {
        self.tuples.len()
    }

    #[inline(always)]
    pub(super) fn search<P: Probe>(&self, fields: &RuleFields, tape: &mut Tape<'_, P>) -> Option<u32> {
        let mut found = NONE;
        for (i, tuple) in self.tuples.iter().enumerate() {
            let mark = tape.touch(Ref::load(TUPLES, i as u64 * TUPLE_BYTES, TUPLE_BYTES as u16, site::TUPLE));
            if tuple.best > found {
                break;
            }
            let hash = tuple.masks.hash(fields.src, fields.dst, fields.src_port, fields.dst_port, fields.proto);
            let bucket = tuple.first + (hash & tuple.mask);
            let load = Ref::load(BUCKETS, u64::from(bucket) * BUCKET_BYTES, BUCKET_BYTES as u16, site::BUCKET);
            let mut mark = tape.touch_after(mark, load);
            let mut at = self.buckets[bucket as usize];
            while let Some(entry) = self.entries.get(at as usize) {
                mark = tape.touch_after(
                    mark,
                    Ref::load(ENTRIES, u64::from(at) * ENTRY_BYTES, ENTRY_BYTES as u16, site::ENTRY),
                );
                tape.work(site::ENTRY_LATCH, cost::ENTRY);
                tape.latch(site::ENTRY_LATCH);
                if entry.number >= found {
                    break;
                }
                if entry.rule.addresses_match(fields) & entry.rule.rest_matches(fields) {
                    found = entry.number;
                    break;
                }
                at = entry.next;
            }
            tape.work(site::TUPLE_LATCH, cost::TUPLE);
            tape.latch(site::TUPLE_LATCH);
        }
        (found != NONE).then_some(found)
    }

    /// Tuples, buckets and entries as words.
    pub(super) fn words(&self) -> [Vec<u32>; 3] {
        let tuple = |tuple: &Tuple| {
            let Tuple { masks, best, first, mask } = *tuple;
            let ports = u32::from(masks.src_port) | u32::from(masks.dst_port) << 16;
            [masks.src, masks.dst, ports, masks.proto.into(), best, first, mask, 0]
        };
        let entry = |entry: &TupleRule| {
            let mut words = [0; 16];
            words[..RULE_WORDS].copy_from_slice(&entry.rule.words());
            (words[RULE_WORDS], words[RULE_WORDS + 1]) = (entry.number, entry.next);
            words
        };
        [
            self.tuples.iter().flat_map(tuple).collect(),
            self.buckets.clone(),
            self.entries.iter().flat_map(entry).collect(),
        ]
    }

    pub(super) fn regions(&self) -> Vec<RegionSpec> {
        let region = |id, name: &str, items: usize, each: u64| RegionSpec {
            id,
            name: name.into(),
            bytes: (items as u64 * each).max(each),
            sharing: Sharing::Shared,
        };
        vec![
            region(TUPLES, "classify_tuples", self.tuples.len(), TUPLE_BYTES),
            region(BUCKETS, "classify_buckets", self.buckets.len(), BUCKET_BYTES),
            region(ENTRIES, "classify_entries", self.entries.len(), ENTRY_BYTES),
        ]
    }
}
