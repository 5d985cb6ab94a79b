//! Blocked output: the NIC reads a few lines of a packet of one transmit queue, then of the next queue's.
//!
//! Without it (the server's own way) a batch's packets are asked for as soon as their descriptors are there, each in one
//! go. With it queues that have something to send take turns, round robin, a block of lines each, and a block is asked for
//! when PCIe is free for its data. A packet is sent when its last line is there, after those before it in its queue. As
//! the output side of Hasan, Chandra, Vijaykumar, ISCA 2003, section 4.3, whose ports are the queues of core and port here.
//! With SRAM for the heads of queues (section 4.5) a turn fetches as many lines as that holds, of as many packets as that
//! takes: what the NIC has of a queue when its turn comes has crossed PCIe before.
//! Left out: a bound on what the NIC has asked for and not yet got.

use std::collections::VecDeque;

use machine::memory::Transaction;
use units::{LINE_BYTES, Line, Ps};

use super::egress::{HandedOver, Leaving};
use super::{DepartureObserver, PRIORITY_NIC, Server, ServerEvent};

/// What the NIC has to send.
#[derive(Clone, Debug)]
pub(super) struct NicOutput {
    /// Lines of a block.
    block: u64,
    /// A turn goes on with the next packet of its queue until it has fetched so many lines.
    cells: u64,
    /// By core and port.
    queues: Vec<OutputQueue>,
    ports: usize,
    /// Queues with something to read, in turn.
    turns: VecDeque<usize>,
    /// A turn is scheduled.
    scheduled: bool,
    /// PCIe is free for the next block.
    free: Ps,
}

state::state!(NicOutput {
    values: [queues, turns, scheduled, free],
    arrays: [],
    parts: [],
    built: [block, cells, ports]
});

/// A transmit queue: packets that are read, or are to be.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct OutputQueue {
    packets: VecDeque<BlockRead>,
    /// How many of them, the oldest, are asked for to their end.
    asked: usize,
    /// Packets that have left before.
    left: u64,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct BlockRead {
    packet: Leaving,
    batch: HandedOver,
    /// What is to be read: stretches of lines, whether they are of the packet as it came, and its bytes.
    runs: VecDeque<(Line, u64, bool)>,
    bytes: u64,
    /// Blocks that are on their way.
    under_way: u32,
    /// When the block that is there last has crossed PCIe, memory apart, and what memory and translation took.
    there: [Ps; 3],
}

/// A block that is on its way.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Block {
    queue: usize,
    /// Packets that left the queue before its own.
    packet: u64,
    since: Ps,
    crossed: Ps,
    translated: Ps,
}

impl NicOutput {
    /// Blocks of `block` lines; with SRAM for `cells` lines a queue they are as long at least, and of several packets.
    pub(super) fn new(block: u32, cells: u32, cores: usize, ports: usize) -> NicOutput {
        NicOutput {
            block: block.max(cells).into(),
            cells: cells.into(),
            queues: (0..cores * ports).map(|_| OutputQueue::default()).collect(),
            ports,
            turns: VecDeque::new(),
            scheduled: false,
            free: Ps::ZERO,
        }
    }
}

impl Server {
    /// `packet`, of which `bytes` bytes are read, waits for its turns; it lies in `runs`, each told with whether it is of the packet as it came.
    pub(super) fn read_in_blocks(
        &mut self,
        packet: Leaving,
        batch: HandedOver,
        bytes: u64,
        runs: impl Iterator<Item = (Line, u64, bool)>,
    ) {
        let now = self.engine.now();
        let Some(output) = &mut self.nic.output else { return };
        let at = batch.core * output.ports + usize::from(packet.port.0);
        let queue = &mut output.queues[at];
        if queue.asked == queue.packets.len() {
            output.turns.push_back(at);
        }
        let runs = runs.filter(|(_, count, _)| *count > 0).collect();
        queue.packets.push_back(BlockRead {
            packet,
            batch,
            runs,
            bytes,
            under_way: 0,
            there: [now, Ps::ZERO, Ps::ZERO],
        });
        if !output.scheduled {
            output.scheduled = true;
            self.engine.schedule(output.free.max(now), PRIORITY_NIC, ServerEvent::Output);
        }
    }

    /// The next queue's turn.
    pub(super) fn output_turn(&mut self, observer: &mut impl DepartureObserver) {
        let Some(output) = &mut self.nic.output else { return };
        output.scheduled = false;
        let Some(at) = output.turns.pop_front() else { return };
        let (mut lines, cells) = (output.block, output.cells);
        let mut fetched = 0;
        loop {
            fetched += self.ask_for_block(at, lines, observer);
            let Some(output) = &mut self.nic.output else { return };
            let queue = &output.queues[at];
            let more = queue.asked < queue.packets.len();
            if more && fetched < cells {
                lines = cells - fetched;
                continue;
            }
            if more {
                output.turns.push_back(at);
            }
            if !output.turns.is_empty() && !output.scheduled {
                output.scheduled = true;
                self.engine.schedule(output.free.max(self.engine.now()), PRIORITY_NIC, ServerEvent::Output);
            }
            return;
        }
    }

    /// Asks for up to `lines` lines of the packet that queue `at` is at; how many they are.
    fn ask_for_block(&mut self, at: usize, lines: u64, observer: &mut impl DepartureObserver) -> u64 {
        let now = self.engine.now();
        let Some(output) = &mut self.nic.output else { return lines };
        let queue = &mut output.queues[at];
        let packet = queue.left + queue.asked as u64;
        let Some(reading) = queue.packets.get_mut(queue.asked) else { return lines };
        let (mut left, mut there) = (lines, now);
        self.memory.open();
        while left > 0
            && let Some((first, count, came)) = reading.runs.front_mut()
        {
            let some = left.min(*count);
            if *came {
                observer.packet_lines(*first, some, false);
            }
            there = there.max(self.memory.dma_read(*first, some, now));
            (left, *first, *count) = (left - some, Line(first.0 + some), *count - some);
            if *count == 0 {
                reading.runs.pop_front();
            }
        }
        let state = self.memory.close(there);
        let translated = self.memory.translated();
        let is_last = reading.runs.is_empty();
        // The last block has what is left, be it in no line of its own.
        let bytes = if is_last { reading.bytes } else { ((lines - left) * LINE_BYTES).min(reading.bytes) };
        reading.bytes -= bytes;
        reading.under_way += 1;
        queue.asked += usize::from(is_last);
        let mut crossed = now;
        // What came with its descriptor is whole, and not asked for.
        if bytes > 0 {
            self.nic.up.ask(now, bytes);
            crossed = self.nic.down.transfer(now, bytes);
            output.free = crossed - self.nic.down.latency();
        }
        self.block_asked(Block { queue: at, packet, since: now, crossed, translated }, state, observer);
        lines - left
    }

    fn block_asked(&mut self, block: Block, state: Result<Ps, Transaction>, observer: &mut impl DepartureObserver) {
        match state {
            Ok(at) => self.block_read(block, at, observer),
            Err(transaction) => self.expect_block(transaction, block),
        }
    }

    /// Memory has given a block at `at`: sends the packets of its queue that are whole.
    pub(super) fn block_read(&mut self, block: Block, at: Ps, observer: &mut impl DepartureObserver) {
        let Some(output) = &mut self.nic.output else { return };
        let queue = &mut output.queues[block.queue];
        let Some(reading) = queue.packets.get_mut((block.packet - queue.left) as usize) else { return };
        reading.under_way -= 1;
        let there = [block.crossed, at.since(block.since), block.translated];
        let sum = |times: [Ps; 3]| times.into_iter().fold(Ps::ZERO, |sum, time| sum + time);
        if sum(there) > sum(reading.there) {
            reading.there = there;
        }
        while let Some(output) = &mut self.nic.output
            && let queue = &mut output.queues[block.queue]
            && queue.packets.front().is_some_and(|reading| reading.under_way == 0 && reading.runs.is_empty())
            && let Some(BlockRead { mut packet, batch, there, .. }) = queue.packets.pop_front()
        {
            let [crossed, memory, translated] = there;
            packet.translated = translated;
            queue.left += 1;
            queue.asked -= 1;
            self.send(packet, batch, crossed, memory, observer);
        }
    }
}
