//! Storage devices beside the NIC, such as NVMe drives: each writes blocks by DMA into buffers in memory, at its rate, and cores of its
//! neighbour read them. Blocks go through the I/O ways of the LLC as packets do, or past all caches where direct cache access is off
//! for the device (Park et al., ISCA 2025, "A4: microarchitecture-aware LLC management for datacenter servers with emerging
//! I/O devices"; Intel's root ports have it in `perfctrlsts`).
//!
//! A queue has so many requests, and a buffer of a block each. The device works on all of them at once, as the dies of a drive do: a piece
//! of each in turn. So what lies between a line's write and its reading is about all buffers, and not one. A core takes a block
//! once it is in memory as a whole, reads each of its lines once, and asks for another into the same buffer. With no core nobody
//! reads, and a buffer is asked for anew as soon as it is full.
//!
//! Assumed: the device always has data, so that its rate is the only limit beside its requests and what memory takes; writes of 512 B; a
//! root port of its own, with credits for as many lines as an IIO of Cascade Lake has. Left out: queues of commands and
//! completions in memory, interrupts, writes to the drive, and what programs do with a block.

use std::collections::VecDeque;

use machine::memory::LevelCounters;
use machine::nic::{Credits, NEIGHBOURS};
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Ps};

use super::{PRIORITY_CORE, PRIORITY_NIC, Server, ServerEvent, lines};
use crate::scenario::neighbours::{Storage, lines_of_all};
use crate::scenario::{NeighbourKind, NeighbourSpec};

/// Bytes of a write.
const PIECE: u64 = 512;
/// Lines under way: Vuppalapati et al., SIGCOMM 2024, "Understanding the host network", for writes of peripherals to memory.
const LINES_UNDER_WAY: u64 = 92;

/// What a storage device did.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::AddAssign, derive_more::Sub, Serialize, Deserialize,
)]
pub struct StorageCounters {
    /// Bytes that it has written.
    pub bytes: u64,
    /// Its writes by line: of lines that a cache has, and of others.
    pub writes: LevelCounters,
    /// Blocks that cores have read.
    pub read: u64,
}

/// A block that is being written.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct BlockWrite {
    /// Pieces that have not been begun.
    left: u64,
    /// Pieces that memory does not have yet.
    under_way: u64,
    /// When memory has those that it has.
    written: Ps,
}

/// A storage device.
#[derive(Clone)]
pub(super) struct StorageDevice {
    /// Which of the scenario's neighbours it is.
    pub(super) of: usize,
    storage: Storage,
    /// Of all memory of neighbours.
    first_line: u64,
    /// Whether cores read what it writes.
    is_read: bool,
    /// When it may write its next piece, and whether its turn is scheduled.
    free: Ps,
    is_scheduled: bool,
    credits: Credits,
    /// Buffers to be filled: the first has the next piece.
    asked: VecDeque<u32>,
    blocks: Vec<BlockWrite>,
    /// Blocks that are in memory, and since when, for cores to take.
    full: Vec<(u32, Ps)>,
    /// Cores, as neighbours, that wait for a block.
    idle: VecDeque<usize>,
    counters: StorageCounters,
}

state::state!(StorageDevice {
    values: [free, is_scheduled, credits, asked, blocks, full, idle, counters],
    arrays: [],
    parts: [],
    built: [of, storage, first_line, is_read],
});

impl StorageDevice {
    /// Those of `neighbours`.
    pub(super) fn of_all(neighbours: &[NeighbourSpec]) -> Vec<StorageDevice> {
        let devices = neighbours.iter().zip(lines_of_all(neighbours)).enumerate();
        let devices = devices.filter(|(_, (spec, _))| spec.kind == NeighbourKind::Storage);
        let device = |(of, (spec, lines)): (usize, (&NeighbourSpec, std::ops::Range<u64>))| {
            let storage = spec.storage();
            let unwritten = BlockWrite { left: storage.block / PIECE, ..BlockWrite::default() };
            StorageDevice {
                of,
                storage,
                first_line: lines.start,
                is_read: spec.cores > 0,
                free: Ps::ZERO,
                is_scheduled: true,
                credits: Credits::of(LINES_UNDER_WAY * LINE_BYTES),
                asked: (0..storage.queue_depth).collect(),
                blocks: vec![unwritten; storage.queue_depth as usize],
                full: Vec::new(),
                idle: VecDeque::new(),
                counters: StorageCounters::default(),
            }
        };
        devices.map(device).collect()
    }

    /// What it did so far.
    pub(super) fn counters(&self) -> StorageCounters {
        self.counters
    }

    /// The buffer of `block` is asked for anew.
    fn ask(&mut self, block: u32) {
        self.blocks[block as usize] = BlockWrite { left: self.storage.block / PIECE, ..BlockWrite::default() };
        self.asked.push_back(block);
    }

    /// Begins the next piece: of which block, and its first byte in that. [`None`] where no buffer is asked for.
    fn begin(&mut self) -> Option<(u32, u64)> {
        let block = *self.asked.front()?;
        let write = &mut self.blocks[block as usize];
        let at = self.storage.block - write.left * PIECE;
        write.left -= 1;
        write.under_way += 1;
        match write.left {
            0 => _ = self.asked.pop_front(),
            _ => self.asked.rotate_left(1),
        }
        Some((block, at))
    }

    /// Memory has a piece of `block` at `at`; when it has all of it, if that was the last.
    fn end(&mut self, block: u32, at: Ps) -> Option<Ps> {
        let write = &mut self.blocks[block as usize];
        write.under_way -= 1;
        write.written = write.written.max(at);
        (write.left == 0 && write.under_way == 0).then_some(write.written)
    }
}

impl Server {
    /// The next turn of device `k` is at `at`, where none is scheduled.
    fn call_storage(&mut self, k: usize, at: Ps) {
        let device = &mut self.storage[k];
        if !std::mem::replace(&mut device.is_scheduled, true) {
            self.engine.schedule(at.max(device.free), PRIORITY_NIC, ServerEvent::Storage(k));
        }
    }

    /// Device `k` writes its next piece, as long as there is somebody whose neighbour it is.
    pub(super) fn storage_turn(&mut self, k: usize) {
        if !self.more && self.inside == 0 {
            return;
        }
        let now = self.engine.now();
        let device = &mut self.storage[k];
        device.is_scheduled = false;
        if device.asked.is_empty() {
            return;
        }
        match device.credits.take(now, PIECE) {
            Ok(()) => {}
            // A write that ends calls again.
            Err(Ps::MAX) => return,
            Err(at) => return self.call_storage(k, at),
        }
        let Some((block, at)) = device.begin() else { return };
        device.free = now + device.storage.rate.time_for(PIECE);
        device.counters.bytes += PIECE;
        let offset = device.first_line * LINE_BYTES + u64::from(block) * device.storage.block + at;
        let (first, count) = lines(self.layout.address(NEIGHBOURS, offset, 0), PIECE);
        let (before, snooped) = (self.memory.counters(), self.memory.snoop_counters());
        self.memory.open();
        let written = match device.storage.dca {
            true => self.memory.dma_write(first, count, now),
            false => self.memory.dma_write_past(first, count, now),
        };
        let written = self.memory.close(written);
        let translated = self.memory.translated();
        // It is no work of packets, and does not count among what memory does for them.
        let did = self.memory.set_counters(before);
        self.memory.set_snoop_counters(snooped);
        device.counters.writes.hits += did.dma_write.hits - before.dma_write.hits;
        device.counters.writes.misses += did.dma_write.misses - before.dma_write.misses;
        match written {
            Ok(at) => {
                device.credits.give_back(PIECE, at + translated);
                self.stored(k, block, at + translated);
            }
            Err(transaction) => {
                device.credits.keep(PIECE);
                self.expect_stored(transaction, k, block, translated);
            }
        }
        self.call_storage(k, now);
    }

    /// Memory that answers later has a piece of `block` of device `k` at `at`.
    pub(super) fn stored_later(&mut self, k: usize, block: u32, at: Ps) {
        let at = at.max(self.engine.now());
        self.storage[k].credits.give_back_later(PIECE, at);
        self.stored(k, block, at);
        self.call_storage(k, at);
    }

    /// Memory has a piece of `block` of device `k` at `at`: where that was the last, the block is read, or its buffer is asked for anew.
    fn stored(&mut self, k: usize, block: u32, at: Ps) {
        let device = &mut self.storage[k];
        let Some(full) = device.end(block, at) else { return };
        if !device.is_read {
            return device.ask(block);
        }
        device.full.push((block, full));
        if let Some(i) = device.idle.pop_front() {
            self.engine.schedule(full.max(self.engine.now()), PRIORITY_CORE, ServerEvent::Neighbour(i));
        }
    }

    /// Neighbour `i` has no block to read: it takes the one that is full for longest, and the buffer of the one that it has read is
    /// asked for anew. Whether it has one now; it is called when there is one.
    pub(super) fn next_block(&mut self, i: usize) -> bool {
        let now = self.engine.now();
        let neighbour = &mut self.neighbours[i];
        let Some(k) = self.storage.iter().position(|device| device.of == neighbour.of) else { return false };
        let device = &mut self.storage[k];
        let read = neighbour.block_read();
        if let Some(block) = read {
            device.counters.read += 1;
            device.ask(block);
        }
        let found = device.full.iter().position(|&(_, at)| at <= now);
        if let Some(at) = found {
            let (block, _) = device.full.remove(at);
            neighbour.read_block(block, now);
        } else if let Some(&(_, at)) = device.full.iter().min_by_key(|(_, at)| *at) {
            self.engine.schedule(at, PRIORITY_CORE, ServerEvent::Neighbour(i));
        } else {
            device.idle.push_back(i);
        }
        if read.is_some() {
            self.call_storage(k, now);
        }
        found.is_some()
    }
}
