//! Probes: nothing, counts, a whole recording.

use units::{LINE_BYTES, LockId, PacketId};

use crate::{Access, FunctionCounts, MemberOffsets, Probe, Pushes, Ref, RegionId};

/// Sees nothing and costs nothing: the probe of the real data plane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Probe for Null {
    const LIVE: bool = false;
    #[inline(always)]
    fn touch(&mut self, _: Ref) {}
    #[inline(always)]
    fn copy(&mut self, _: Ref, _: Ref) {}
    #[inline(always)]
    fn behind<M: Pushes>(&mut self, _: MemberOffsets, member: M) -> FunctionCounts {
        member.push(self);
        FunctionCounts::default()
    }
}

/// Counts references by kind, lines, and instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// References by [`Access`], in the order of its variants.
    pub by_access: [u64; 6],
    /// Line touches: a reference over two lines counts twice.
    pub lines: u64,
    /// Instructions reported by `work`.
    pub instructions: u64,
    /// How often a packet was begun.
    pub begun: u64,
}

impl Count {
    /// References of all kinds.
    pub fn refs(&self) -> u64 {
        self.by_access.iter().sum()
    }
}

impl Probe for Count {
    #[inline]
    fn touch(&mut self, r: Ref) {
        self.by_access[r.access as usize] += 1;
        self.lines += (r.offset % LINE_BYTES + u64::from(r.bytes).max(1)).div_ceil(LINE_BYTES);
    }
    #[inline]
    fn work(&mut self, _: u16, instructions: u32) {
        self.instructions += u64::from(instructions);
    }
    #[inline]
    fn begin(&mut self, _: PacketId) {
        self.begun += 1;
    }
}

/// What a [`Record`] holds, in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeEvent {
    /// A memory reference.
    Touch(Ref),
    /// A copy of `dst.bytes` bytes.
    Copy {
        /// Where from.
        src: Ref,
        /// Where to.
        dst: Ref,
    },
    /// Instructions.
    Work {
        /// The place in the function.
        site: u16,
        /// How many.
        instructions: u32,
    },
    /// The end of a loop body.
    Latch {
        /// The place in the function.
        site: u16,
    },
    /// A lock is wanted.
    Lock(LockId),
    /// A lock is given back.
    Unlock(LockId),
    /// Work for a packet begins.
    Begin(PacketId),
    /// Work for a packet pauses or is complete.
    End(PacketId),
}

/// Keeps everything for replay. An event takes 16 bytes, a copy 48.
#[derive(Clone, Debug, Default)]
pub struct Record {
    raw: Vec<Raw>,
}

/// An event in 16 bytes: a reference as it is, anything else with a tag in place of the access.
#[derive(Clone, Copy, Debug)]
struct Raw {
    word: u64,
    region: u16,
    site: u16,
    bytes: u16,
    kind: RecordTag,
    dep: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordTag {
    Touch(Access),
    /// The next two entries are the source and the target of a copy.
    Copy,
    Work,
    Latch,
    Lock,
    Unlock,
    Begin,
    End,
}

impl Raw {
    fn reference(r: Ref) -> Raw {
        Raw {
            word: r.offset,
            region: r.region.0,
            site: r.site,
            bytes: r.bytes,
            kind: RecordTag::Touch(r.access),
            dep: r.dep,
        }
    }
    fn word(kind: RecordTag, site: u16, word: u64) -> Raw {
        Raw { word, region: 0, site, bytes: 0, kind, dep: 0 }
    }
    fn touched(&self) -> Option<Ref> {
        match self.kind {
            RecordTag::Touch(access) => Some(self.reference_with(access)),
            _ => None,
        }
    }
    fn reference_with(&self, access: Access) -> Ref {
        Ref {
            offset: self.word,
            region: RegionId(self.region),
            site: self.site,
            bytes: self.bytes,
            access,
            dep: self.dep,
        }
    }
}

impl Record {
    /// An empty recording.
    pub fn new() -> Record {
        Record::default()
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.raw.clear();
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The event at position `at` and the position of the next one; `None` at the end. Replay keeps
    /// a position across simulated waits, where an iterator would hold a borrow.
    #[inline]
    pub fn event(&self, at: usize) -> Option<(ProbeEvent, usize)> {
        let raw = self.raw.get(at)?;
        let event = match raw.kind {
            RecordTag::Touch(access) => ProbeEvent::Touch(raw.reference_with(access)),
            RecordTag::Copy => {
                let [src, dst] = [self.raw.get(at + 1)?.touched()?, self.raw.get(at + 2)?.touched()?];
                return Some((ProbeEvent::Copy { src, dst }, at + 3));
            }
            RecordTag::Work => ProbeEvent::Work { site: raw.site, instructions: raw.word as u32 },
            RecordTag::Latch => ProbeEvent::Latch { site: raw.site },
            RecordTag::Lock => ProbeEvent::Lock(LockId(raw.word as u32)),
            RecordTag::Unlock => ProbeEvent::Unlock(LockId(raw.word as u32)),
            RecordTag::Begin => ProbeEvent::Begin(PacketId(raw.word)),
            RecordTag::End => ProbeEvent::End(PacketId(raw.word)),
        };
        Some((event, at + 1))
    }

    /// All events in program order.
    pub fn iter(&self) -> impl Iterator<Item = ProbeEvent> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (event, next) = self.event(at)?;
            at = next;
            Some(event)
        })
    }

    /// Pushes every event into another probe, as the function did.
    pub fn replay(&self, probe: &mut impl Probe) {
        for event in self.iter() {
            match event {
                ProbeEvent::Touch(r) => probe.touch(r),
                ProbeEvent::Copy { src, dst } => probe.copy(src, dst),
                ProbeEvent::Work { site, instructions } => probe.work(site, instructions),
                ProbeEvent::Latch { site } => probe.latch(site),
                ProbeEvent::Lock(lock) => probe.lock(lock),
                ProbeEvent::Unlock(lock) => probe.unlock(lock),
                ProbeEvent::Begin(packet) => probe.begin(packet),
                ProbeEvent::End(packet) => probe.end(packet),
            }
        }
    }
}

impl Probe for Record {
    #[inline]
    fn touch(&mut self, r: Ref) {
        self.raw.push(Raw::reference(r));
    }
    #[inline]
    fn copy(&mut self, src: Ref, dst: Ref) {
        self.raw.push(Raw::word(RecordTag::Copy, src.site, 0));
        self.raw.push(Raw::reference(src));
        self.raw.push(Raw::reference(dst));
    }
    #[inline]
    fn work(&mut self, site: u16, instructions: u32) {
        self.raw.push(Raw::word(RecordTag::Work, site, u64::from(instructions)));
    }
    #[inline]
    fn latch(&mut self, site: u16) {
        self.raw.push(Raw::word(RecordTag::Latch, site, 0));
    }
    #[inline]
    fn lock(&mut self, lock: LockId) {
        self.raw.push(Raw::word(RecordTag::Lock, 0, u64::from(lock.0)));
    }
    #[inline]
    fn unlock(&mut self, lock: LockId) {
        self.raw.push(Raw::word(RecordTag::Unlock, 0, u64::from(lock.0)));
    }
    #[inline]
    fn begin(&mut self, packet: PacketId) {
        self.raw.push(Raw::word(RecordTag::Begin, 0, packet.0));
    }
    #[inline]
    fn end(&mut self, packet: PacketId) {
        self.raw.push(Raw::word(RecordTag::End, 0, packet.0));
    }
    fn behind<M: Pushes>(&mut self, by: MemberOffsets, member: M) -> FunctionCounts {
        let from = self.raw.len();
        member.push(self);
        let mut seen = FunctionCounts::default();
        for raw in &mut self.raw[from..] {
            raw.site = raw.site.wrapping_add(by.sites);
            match raw.kind {
                RecordTag::Touch(access) => {
                    raw.region = by.region(RegionId(raw.region)).0;
                    seen.touch(access);
                }
                RecordTag::Work => seen.instructions += raw.word,
                RecordTag::Lock | RecordTag::Unlock => raw.word = by.lock(LockId(raw.word as u32)).0.into(),
                RecordTag::Copy | RecordTag::Latch | RecordTag::Begin | RecordTag::End => {}
            }
        }
        // The two references behind a copy have been counted as such.
        let mut at = from;
        while let Some((event, next)) = self.event(at) {
            if let ProbeEvent::Copy { src, dst } = event {
                seen.references -= 2;
                seen.copy(src, dst);
            }
            at = next;
        }
        seen
    }
}

/// LRU stack distances of table lines (Mattson et al., IBM Systems Journal 1970): the miss ratio of
/// every fully associative LRU cache size from one pass.
///
/// Regions of the packet are left out, since a recycled buffer's address is the layout's business.
/// Uses a Fenwick tree over access times, rebuilt when it is full: O(log lines) a reference.
#[derive(Clone, Debug)]
pub struct StackDistance {
    last: std::collections::HashMap<(u16, u64), usize>,
    /// Fenwick tree: 1 at the time of each line's latest access.
    tree: Vec<u32>,
    now: usize,
    counts: Vec<u64>,
    cold: u64,
}

impl Default for StackDistance {
    fn default() -> Self {
        StackDistance { last: Default::default(), tree: vec![0; 1 << 12], now: 0, counts: Vec::new(), cold: 0 }
    }
}

impl StackDistance {
    /// References to a line never seen before.
    pub fn cold(&self) -> u64 {
        self.cold
    }

    /// `counts()[d]` references found exactly `d` other lines touched since their line's last use.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The share of references that miss in a fully associative LRU cache of `lines` lines, cold
    /// misses included; 0 when nothing was seen.
    pub fn miss_ratio(&self, lines: usize) -> f64 {
        let all = self.cold + self.counts.iter().sum::<u64>();
        let hits: u64 = self.counts.iter().take(lines).sum();
        if all == 0 { 0.0 } else { (all - hits) as f64 / all as f64 }
    }

    fn add(&mut self, at: usize, by: i32) {
        let mut i = at + 1;
        while i < self.tree.len() {
            self.tree[i] = self.tree[i].wrapping_add_signed(by);
            i += i & i.wrapping_neg();
        }
    }

    fn sum_to(&self, at: usize) -> u64 {
        let (mut i, mut sum) = (at + 1, 0);
        while i > 0 {
            sum += u64::from(self.tree[i]);
            i &= i - 1;
        }
        sum
    }

    /// Renumbers the lines 0, 1, … in the order of their last use, in a tree with room to grow.
    fn compact(&mut self) {
        let mut lines: Vec<_> = self.last.iter().map(|(&line, &at)| (at, line)).collect();
        lines.sort_unstable();
        self.tree = vec![0; (lines.len() * 4).max(1 << 12)];
        self.now = lines.len();
        for (at, (_, line)) in lines.into_iter().enumerate() {
            self.last.insert(line, at);
            self.add(at, 1);
        }
    }

    fn line(&mut self, line: (u16, u64)) {
        if self.now + 1 >= self.tree.len() {
            self.compact();
        }
        let now = self.now;
        self.now += 1;
        match self.last.insert(line, now) {
            None => self.cold += 1,
            Some(then) => {
                let distance = (self.last.len() as u64 - self.sum_to(then)) as usize;
                if self.counts.len() <= distance {
                    self.counts.resize(distance + 1, 0);
                }
                self.counts[distance] += 1;
                self.add(then, -1);
            }
        }
        self.add(now, 1);
    }
}

impl Probe for StackDistance {
    fn touch(&mut self, r: Ref) {
        if r.region.is_of_packet() {
            return;
        }
        let first = r.offset / LINE_BYTES;
        let last = (r.offset + u64::from(r.bytes).max(1) - 1) / LINE_BYTES;
        for line in first..=last {
            self.line((r.region.0, line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: RegionId = RegionId::FIRST_TABLE;

    fn load(line: u64) -> Ref {
        Ref::load(TABLE, line * LINE_BYTES, 4, 0)
    }

    #[test]
    fn a_reference_and_a_raw_event_take_16_bytes() {
        assert_eq!(size_of::<Ref>(), 16);
        assert_eq!(size_of::<Raw>(), 16);
    }

    #[test]
    fn a_tuple_shows_both_probes_the_same() {
        let mut both = (Count::default(), Record::new());
        both.begin(PacketId(7));
        both.touch(load(3));
        both.copy(load(0), Ref::store(RegionId::PACKET, 60, 100, 1));
        both.work(1, 12);
        both.latch(1);
        both.lock(LockId(4));
        both.unlock(LockId(4));
        both.end(PacketId(7));
        let mut again = (Count::default(), Record::new());
        both.1.replay(&mut again);
        assert_eq!(both.0, again.0);
        assert!(both.1.iter().eq(again.1.iter()));
        assert_eq!(both.1.iter().count(), 8);
        // 100 bytes from line offset 0 to line offset 60 stop at 4, 64, 68 and 100: four pairs.
        assert_eq!(both.0.by_access[Access::Load as usize], 1 + 4);
        assert_eq!(both.0.by_access[Access::Store as usize], 4);
        assert_eq!(both.0.instructions, 12);
    }

    fn naive_distances(lines: &[u64]) -> (u64, Vec<u64>) {
        let (mut stack, mut cold, mut counts) = (Vec::new(), 0, Vec::new());
        for &line in lines {
            match stack.iter().rev().position(|&l| l == line) {
                None => cold += 1,
                Some(d) => {
                    if counts.len() <= d {
                        counts.resize(d + 1, 0);
                    }
                    counts[d] += 1;
                    stack.remove(stack.len() - 1 - d);
                }
            }
            stack.push(line);
        }
        (cold, counts)
    }

    proptest! {
        #[test]
        fn stack_distance_matches_naive(lines in prop::collection::vec(0u64..300, 0..6000)) {
            let mut probe = StackDistance::default();
            lines.iter().for_each(|&l| probe.touch(load(l)));
            let (cold, counts) = naive_distances(&lines);
            prop_assert_eq!(probe.cold(), cold);
            prop_assert_eq!(probe.counts(), &counts[..]);
        }
    }
}
