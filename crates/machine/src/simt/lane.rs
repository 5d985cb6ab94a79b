//! What a lane does, compactly: 12 bytes an operation, in place of 16 an event and placed already.

use serde::{Deserialize, Serialize};

use probe::{Access, Probe, Ref, RegionId, RegionSpec};
use units::LockId;

/// Bytes of a sector: what the lanes of a warp coalesce into.
pub const SECTOR_BYTES: u64 = 32;

/// Sectors of the packet are numbered from its start, with this bit.
pub(super) const OF_PACKET: u32 = 1 << 31;

/// What an operation is. Those of one site are merged in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum OpKind {
    /// A load.
    Load,
    /// A store, or an atomic.
    Store,
    /// A lock is wanted.
    Lock,
    /// A lock is given back.
    Unlock,
    /// Instructions without memory.
    Work,
    /// The end of a loop body.
    Latch,
}

/// An operation of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneOp {
    /// First sector, lock, or number of instructions.
    pub word: u32,
    /// The place in the function.
    pub site: u16,
    /// Sectors that are touched.
    pub sectors: u16,
    /// What it is.
    pub kind: OpKind,
    /// Whether the address came from an earlier load.
    pub depends: bool,
}

/// The streams of many lanes, one after the other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Lanes {
    ops: Vec<LaneOp>,
    ends: Vec<u32>,
}

impl Lanes {
    /// How many lanes there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The operations of lane `n`; none if there is no such lane.
    pub fn lane(&self, n: usize) -> &[LaneOp] {
        let from = n.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let to = self.ends.get(n).copied().unwrap_or(from);
        &self.ops[from as usize..to as usize]
    }

    /// Appends a lane that does `first`, what the only lane of `of` does, and `last`.
    pub fn append(&mut self, first: LaneOp, of: &Lanes, last: LaneOp) {
        self.ops.push(first);
        self.ops.extend_from_slice(of.lane(0));
        self.ops.push(last);
        self.ends.push(self.ops.len() as u32);
    }

    /// As [`Lanes::append`], of a lane that has its packet in registers: what it does to the packet takes an instruction each, and
    /// `last` another.
    pub fn append_in_registers(&mut self, first: LaneOp, of: &Lanes, last: LaneOp) {
        let in_register = |op: LaneOp| LaneOp { word: 1, sectors: 0, kind: OpKind::Work, depends: false, ..op };
        let of_packet = |op: &LaneOp| matches!(op.kind, OpKind::Load | OpKind::Store) && op.word & OF_PACKET != 0;
        self.ops.push(first);
        self.ops.extend(of.lane(0).iter().map(|&op| if of_packet(&op) { in_register(op) } else { op }));
        self.ops.push(in_register(last));
        self.ends.push(self.ops.len() as u32);
    }

    /// Lines of its packet that lane `n` loads, and those that it stores to: a bit each, the first 32 of them.
    pub fn packet_lines(&self, n: usize) -> [u32; 2] {
        let mut found = [0; 2];
        for op in self.lane(n).iter().filter(|op| op.word & OF_PACKET != 0) {
            let which = match op.kind {
                OpKind::Load => 0,
                OpKind::Store => 1,
                _ => continue,
            };
            let (first, count) = (op.word & !OF_PACKET, u32::from(op.sectors).max(1));
            for line in first / 2..=((first + count - 1) / 2).min(31) {
                found[which] |= 1u32.checked_shl(line).unwrap_or(0);
            }
        }
        found
    }

    /// Forgets all of them, keeps the memory.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.ends.clear();
    }

    /// Bytes that the streams take.
    pub fn bytes(&self) -> usize {
        self.ops.len() * size_of::<LaneOp>() + self.ends.len() * size_of::<u32>()
    }
}

/// Records lanes: the probe that a packet function runs with, a packet a lane.
///
/// Tables lie one after the other from address 0, each on a boundary of 256 bytes. What is done to the mbuf is left
/// out: on the GPU the packet's index gives its address. A prefetch is left out, an atomic counts as a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaneRecorder {
    lanes: Lanes,
    /// Of each table, by its number: the first sector.
    starts: Vec<u32>,
    /// Sectors of all tables.
    table_sectors: u32,
    /// Memory instructions since the latest work, which counts them too.
    touched: u32,
    site: u16,
}

/// Tables may take 32 GiB: so many lines has a word of a program room for.
/// Of a word: the bits of its two sectors, the line of a table below them.
pub(super) const SECTOR_BITS: u32 = 29;
const TABLE_SECTORS: u64 = 2 << SECTOR_BITS;

impl LaneRecorder {
    /// For a function with tables `regions`; [`None`] if they take more than 32 GiB.
    pub fn new(regions: &[RegionSpec]) -> Option<LaneRecorder> {
        let (mut starts, mut next) = (Vec::new(), 0u64);
        for region in regions {
            let number = usize::from(region.id.0.saturating_sub(RegionId::FIRST_TABLE.0));
            if starts.len() <= number {
                starts.resize(number + 1, 0);
            }
            starts[number] = next as u32;
            next = next.checked_add(region.bytes.div_ceil(256) * (256 / SECTOR_BYTES))?;
            if next > TABLE_SECTORS {
                return None;
            }
        }
        Some(LaneRecorder { lanes: Lanes::default(), starts, table_sectors: next as u32, touched: 0, site: 0 })
    }

    /// The lane that was recorded is complete.
    pub fn end_lane(&mut self) {
        self.lanes.ends.push(self.lanes.ops.len() as u32);
        (self.touched, self.site) = (0, 0);
    }

    /// The sector of byte `offset` of table `region`, which is one of those that it was made for.
    pub fn sector(&self, region: RegionId, offset: u64) -> u32 {
        let number = usize::from(region.0.saturating_sub(RegionId::FIRST_TABLE.0));
        self.starts.get(number).copied().unwrap_or(0) + (offset / SECTOR_BYTES) as u32
    }

    /// Sectors that the tables take: the packets lie behind them.
    pub fn table_sectors(&self) -> u32 {
        self.table_sectors
    }

    /// The lanes since they were asked for last, or since the beginning.
    pub fn take_lanes(&mut self) -> Lanes {
        std::mem::take(&mut self.lanes)
    }

    /// All lanes.
    pub fn into_lanes(self) -> Lanes {
        self.lanes
    }

    fn push(&mut self, kind: OpKind, site: u16, word: u32, sectors: u16, depends: bool) {
        self.lanes.ops.push(LaneOp { word, site, sectors, kind, depends });
    }
}

impl Probe for LaneRecorder {
    fn touch(&mut self, r: Ref) {
        self.site = r.site;
        if r.region == RegionId::MBUF || r.access == Access::Prefetch {
            return;
        }
        let first = (r.offset / SECTOR_BYTES) as u32;
        let last = ((r.offset + u64::from(r.bytes).max(1) - 1) / SECTOR_BYTES) as u32;
        let start = if r.region == RegionId::PACKET {
            OF_PACKET
        } else {
            let number = usize::from(r.region.0.saturating_sub(RegionId::FIRST_TABLE.0));
            self.starts.get(number).copied().unwrap_or(0)
        };
        let kind = if r.access.writes() { OpKind::Store } else { OpKind::Load };
        self.touched += 1;
        self.push(kind, r.site, start + first, (last - first + 1) as u16, r.dep > 0);
    }

    fn work(&mut self, site: u16, instructions: u32) {
        self.site = site;
        let other = instructions.saturating_sub(std::mem::take(&mut self.touched));
        if other > 0 {
            self.push(OpKind::Work, site, other, 0, false);
        }
    }

    fn latch(&mut self, site: u16) {
        self.site = site;
        self.push(OpKind::Latch, site, 0, 0, false);
    }

    fn lock(&mut self, lock: LockId) {
        // Locks have no place of their own: they are where the lane was last.
        self.push(OpKind::Lock, self.site, lock.0, 0, false);
    }

    fn unlock(&mut self, lock: LockId) {
        self.push(OpKind::Unlock, self.site, lock.0, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::Sharing;

    #[test]
    fn an_operation_takes_12_bytes() {
        assert_eq!(size_of::<LaneOp>(), 12);
    }

    #[test]
    fn lanes_keep_their_operations_and_work_counts_memory_instructions_once() {
        let table = |number, bytes| RegionSpec {
            id: RegionId(RegionId::FIRST_TABLE.0 + number),
            name: "table".into(),
            bytes,
            sharing: Sharing::Shared,
        };
        let mut recorder = LaneRecorder::new(&[table(0, 100), table(1, 1000)]).unwrap();
        recorder.touch(Ref::load(RegionId::PACKET, 30, 4, 1));
        recorder.touch(Ref::load(RegionId::MBUF, 0, 8, 1));
        recorder.touch(Ref::store(RegionId(RegionId::FIRST_TABLE.0 + 1), 64, 4, 2).after(1));
        recorder.work(3, 10);
        recorder.end_lane();
        recorder.latch(4);
        recorder.end_lane();
        assert_eq!(recorder.table_sectors(), 8 + 32);
        let lanes = recorder.into_lanes();
        let ops: Vec<_> = lanes.lane(0).iter().map(|o| (o.kind, o.word, o.sectors, o.depends)).collect();
        // Bytes 30 to 33 of the packet lie in two sectors; the second table begins at sector 8.
        let expected =
            [(OpKind::Load, OF_PACKET, 2, false), (OpKind::Store, 8 + 2, 1, true), (OpKind::Work, 8, 0, false)];
        assert_eq!(ops, expected);
        assert_eq!(lanes.lane(1).len(), 1);
        assert_eq!((lanes.len(), lanes.lane(2).len()), (2, 0));
    }

    #[test]
    fn tables_beyond_the_sector_numbers_are_refused() {
        let spec = |bytes| RegionSpec { id: RegionId::FIRST_TABLE, name: "t".into(), bytes, sharing: Sharing::Shared };
        assert!(LaneRecorder::new(&[spec(1 << 35)]).is_some());
        assert!(LaneRecorder::new(&[spec((1 << 35) + 1)]).is_none());
    }
}
