//! Prefix and suffix caches: what goes to and comes from the packet buffer moves by units of some cells.
//! A unit is as many transfers, which follow one another (section 6.7).

use super::{NetworkProcessor, PacketSlot, ThreadPhase, Watched, place};

impl<W: Watched> NetworkProcessor<'_, W> {
    /// A piece of a packet has reached the queue's prefix cache; a full one is written out.
    pub(super) fn cached(&mut self, thread: u16) {
        let state = self.threads[place(thread)];
        let slot = &self.slots[usize::from(state.slot)];
        let queue = usize::from(slot.queue);
        let bytes = self.piece(slot, state.at);
        let words = self.words(bytes);
        if self.caches[queue].prefix + words > self.unit_words && self.caches[queue].writing > 0 {
            self.caches[queue].blocked.push_back(thread);
            return;
        }
        self.caches[queue].prefix += words;
        self.threads[place(thread)].at += bytes;
        self.flush(queue);
        self.next_write(thread);
    }

    fn flush(&mut self, queue: usize) {
        let cache = &mut self.caches[queue];
        if cache.prefix >= self.unit_words && cache.writing == 0 {
            cache.prefix -= self.unit_words;
            cache.writing = self.spec.cache_cells;
            let at = cache.to;
            self.move_unit(queue, at, true);
        }
    }

    fn move_unit(&mut self, queue: usize, at: u64, write: bool) {
        let bytes = u64::from(self.unit_words * self.spec.sdram.width);
        let addr = (queue as u64 * self.region + at % self.region) * bytes;
        for k in 0..u64::from(self.spec.cache_cells) {
            self.submit(self.others + queue as u16, addr + (k << self.cell_shift), self.cell, write);
        }
    }

    /// A cell of a unit has moved. A thread may take it from the suffix at once; room in the prefix is there when all of
    /// the unit has left.
    pub(super) fn cell_moved(&mut self, queue: usize, write: bool) {
        let words = self.words(self.cell);
        let cache = &mut self.caches[queue];
        let now = self.wheel.now();
        if write {
            cache.writing -= 1;
            if cache.writing > 0 {
                return;
            }
            cache.to += 1;
            self.flush(queue);
            while let Some(blocked) = self.caches[queue].blocked.pop_front() {
                self.wheel.schedule(now, blocked);
            }
        } else {
            cache.reading -= 1;
            cache.suffix += words;
            cache.from += u64::from(cache.reading == 0);
        }
        while let Some(starved) = self.caches[queue].starved.pop_front() {
            self.threads[place(starved)].phase = ThreadPhase::Suffix;
            self.wheel.schedule(now, starved);
        }
    }

    /// An output thread takes its block from the suffix cache, or waits until that has been refilled.
    pub(super) fn refill(&mut self, thread: u16) {
        let state = self.threads[place(thread)];
        let slot = &self.slots[usize::from(state.slot)];
        let queue = usize::from(slot.queue);
        let words = self.words_of(slot, state.at, state.block);
        let cache = &mut self.caches[queue];
        if cache.suffix < words && cache.from == cache.to && cache.writing == 0 {
            // The queue is so short that memory has nothing of it: prefix and suffix meet.
            cache.suffix += cache.prefix;
            cache.prefix = 0;
        }
        let enough = cache.suffix >= words;
        if enough {
            cache.suffix -= words;
        }
        // The next unit is asked for when what is left is less than a cell of eight words.
        let ask = (!enough || cache.suffix < 8) && cache.reading == 0 && cache.from < cache.to;
        let at = cache.from;
        if ask {
            cache.reading = self.spec.cache_cells;
            self.move_unit(queue, at, false);
        }
        if !enough {
            self.threads[place(thread)].phase = ThreadPhase::Reading;
            self.threads[place(thread)].outstanding = 0;
            self.caches[queue].starved.push_back(thread);
            return;
        }
        let fill = self.spec.software.fill;
        let filled = self.compute(thread, fill);
        let at = filled + u64::from(self.spec.sram.latency) + u64::from(self.spec.transmit.handshake);
        self.threads[place(thread)].phase = ThreadPhase::Handshake;
        self.wheel.schedule(at, thread);
    }

    /// Words that the pieces of a block took in the prefix cache.
    fn words_of(&self, slot: &PacketSlot, from: u32, bytes: u32) -> u32 {
        let (mut at, mut words) = (from, 0);
        while at < from + bytes {
            let piece = self.piece(slot, at).min(from + bytes - at);
            words += self.words(piece);
            at += piece;
        }
        words
    }
}
