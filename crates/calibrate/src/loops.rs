//! The loops themselves.

use std::hint::black_box;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{Ordering, compiler_fence};

use serde::{Deserialize, Serialize};

use crate::CalibrateError;

/// Bytes of a huge page.
pub(crate) const HUGE: usize = 2 << 20;
const LINE: u64 = 64;

/// What a loop does. An item is what its twin in `studies::loops` says; of [`LoopWork::Multiply`], a square and an exclusive or.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoopWork {
    /// A square and an exclusive or, each of the result before: three cycles and one on every x86-64 core of the last
    /// fifteen years, and on 64-bit ARM server cores.
    Multiply {},
    /// Dependent loads along a random cycle of lines, by several chains in turns.
    Chase {
        /// Bytes of all chains together.
        bytes: u64,
        /// Chains.
        chains: u32,
        /// Bytes between the lines that are touched.
        #[serde(default = "line")]
        step: u64,
    },
    /// Independent loads and stores of random lines.
    Random {
        /// Bytes of the set.
        bytes: u64,
        /// The share of stores.
        stores: f64,
    },
    /// Loads a fixed distance apart.
    Stride {
        /// Bytes of the set.
        bytes: u64,
        /// Bytes between loads.
        stride: u64,
    },
    /// One line after the other.
    Stream {
        /// Bytes of the set, or of each of two.
        bytes: u64,
        /// What is done with each line.
        operation: Operation,
    },
    /// Copies of blocks between random places of two sets.
    Copy {
        /// Bytes of each set.
        bytes: u64,
        /// Bytes of a block.
        block: u64,
    },
    /// Blocks read in order, over and over.
    Blocks {
        /// Bytes of the set.
        bytes: u64,
        /// Bytes of a block, in whole lines.
        block: u64,
        /// Bytes from the beginning of one to the next.
        apart: u64,
    },
}

/// What a stream does with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// Loads from one set and stores to the other.
    Copy,
    /// Stores that go around the caches, as a device's writes without DDIO; ordinary ones where the processor has none.
    StreamingWrite,
}

fn line() -> u64 {
    LINE
}

const MOST_BYTES: u64 = 4 << 30;

impl LoopWork {
    /// Bytes of memory that it works on.
    pub(crate) fn bytes(&self) -> u64 {
        match *self {
            LoopWork::Multiply {} => 4096,
            LoopWork::Chase { bytes, .. }
            | LoopWork::Random { bytes, .. }
            | LoopWork::Stride { bytes, .. }
            | LoopWork::Blocks { bytes, .. } => bytes,
            LoopWork::Stream { bytes, operation: Operation::Copy } | LoopWork::Copy { bytes, .. } => 2 * bytes,
            LoopWork::Stream { bytes, .. } => bytes,
        }
    }

    pub(crate) fn check(&self) -> Result<(), CalibrateError> {
        let error = |path, came, allowed: String| Err(CalibrateError::Value { path, came, allowed });
        let bytes = self.bytes();
        if !(4096..=MOST_BYTES).contains(&bytes) {
            return error("bytes", bytes, format!("4096 to {MOST_BYTES}"));
        }
        match *self {
            LoopWork::Chase { chains, .. } if !(1..=64).contains(&chains) => {
                error("chains", chains.into(), "1 to 64".into())
            }
            LoopWork::Chase { bytes, chains, step } if step < LINE || bytes / step < 2 * u64::from(chains) => {
                error("step", step, "64 or more, with two lines or more a chain".into())
            }
            LoopWork::Stride { bytes, stride } if stride == 0 || stride > bytes / 2 || !stride.is_multiple_of(8) => {
                error("stride", stride, "a multiple of 8 up to half of bytes".into())
            }
            LoopWork::Copy { bytes, block } if block == 0 || block > bytes / 2 => {
                error("block", block, "1 to half of bytes".into())
            }
            LoopWork::Blocks { bytes, apart, .. }
                if apart < LINE || apart > bytes / 2 || !apart.is_multiple_of(LINE) =>
            {
                error("apart", apart, "a multiple of 64 up to half of bytes".into())
            }
            LoopWork::Blocks { block, apart, .. } if block < LINE || block > apart || !block.is_multiple_of(LINE) => {
                error("block", block, "a multiple of 64 up to apart".into())
            }
            _ => Ok(()),
        }
    }

    /// The fewest items of a round.
    pub(crate) fn least(&self) -> u64 {
        match *self {
            LoopWork::Chase { chains, .. } => 256 * u64::from(chains),
            LoopWork::Copy { .. } => 16,
            // What is read of the last block beyond the items is not counted.
            LoopWork::Blocks { block, .. } => (64 * block / LINE).max(1024),
            _ => 1024,
        }
    }

    /// Items after which everything has been touched twice, within reason.
    pub(crate) fn warmup(&self) -> u64 {
        let items = match *self {
            LoopWork::Multiply {} => 1 << 16,
            LoopWork::Chase { bytes, step, .. } => 2 * bytes / step,
            LoopWork::Random { bytes, .. } | LoopWork::Stream { bytes, .. } => 2 * bytes / LINE,
            LoopWork::Stride { bytes, stride } => 2 * bytes / stride.min(LINE),
            LoopWork::Copy { bytes, block } => 4 * bytes / block,
            LoopWork::Blocks { bytes, block, apart } => 2 * (bytes / apart) * (block / LINE),
        };
        items.min(1 << 22)
    }

    /// The loop, ready to run on `memory`.
    pub(crate) fn prepare<'a>(&self, memory: &'a mut [u8]) -> RunningLoop<'a> {
        let lead = memory.as_ptr().align_offset(HUGE);
        let bytes = self.bytes() as usize;
        let set = &mut memory[lead..lead + bytes];
        let mut at = Vec::new();
        if let LoopWork::Chase { chains, step, .. } = *self {
            at = lay_cycle(set, step as usize, chains as usize);
        }
        RunningLoop { work: self.clone(), set, at, random: Congruence(0x9e37_79b9_7f4a_7c15), place: 0 }
    }
}

/// A loop in the middle of its work.
pub(crate) struct RunningLoop<'a> {
    work: LoopWork,
    set: &'a mut [u8],
    at: Vec<u32>,
    random: Congruence,
    place: usize,
}

impl RunningLoop<'_> {
    /// Goes on for so many items.
    pub(crate) fn run(&mut self, items: u64) {
        match self.work {
            LoopWork::Multiply {} => {
                let (mut x, by) = (black_box(0x1234_5677u64), black_box(0x5851_f42d_4c95_7f2du64));
                for _ in 0..items {
                    // No compiler finds a shorter way to this, as there is to a product of equal factors.
                    x = x.wrapping_mul(x) ^ by;
                }
                black_box(x);
            }
            LoopWork::Chase { chains, .. } => match chains {
                1 => chase::<1>(self.set, &mut self.at, items),
                2 => chase::<2>(self.set, &mut self.at, items),
                4 => chase::<4>(self.set, &mut self.at, items),
                8 => chase::<8>(self.set, &mut self.at, items),
                12 => chase::<12>(self.set, &mut self.at, items),
                16 => chase::<16>(self.set, &mut self.at, items),
                24 => chase::<24>(self.set, &mut self.at, items),
                32 => chase::<32>(self.set, &mut self.at, items),
                48 => chase::<48>(self.set, &mut self.at, items),
                64 => chase::<64>(self.set, &mut self.at, items),
                _ => chase_any(self.set, &mut self.at, items),
            },
            LoopWork::Random { bytes, stores } => self.random(bytes / LINE, stores, items),
            LoopWork::Stride { stride, .. } => self.stride(stride as usize, items),
            LoopWork::Stream { bytes, operation } => self.stream(bytes as usize, operation, items),
            LoopWork::Copy { bytes, block } => self.copy(bytes as usize, block as usize, items),
            LoopWork::Blocks { block, apart, .. } => self.blocks(block as usize, apart as usize, items),
        }
    }

    /// Reads all of the set in order: prefetchers make that fast.
    pub(crate) fn bring(&mut self) {
        let mut sum = 0u64;
        for line in self.set.chunks_exact(LINE as usize) {
            sum ^= u64::from_ne_bytes(line[..8].try_into().unwrap_or_default());
        }
        black_box(sum);
    }

    /// Of each ten items the first are stores: a pattern that branch prediction learns.
    fn random(&mut self, lines: u64, stores: f64, items: u64) {
        let (set, mut number, mut sum) = (&mut *self.set, self.place as u64, 0u64);
        let below = ((stores * 10.0).round() as u64).min(10);
        let mut left = items;
        while left > 0 {
            for _ in 0..below.min(left) {
                let (at, drawn) = drawn(&mut number, lines);
                if let Some(word) = set.get_mut(at..at + 8) {
                    word.copy_from_slice(&drawn.to_ne_bytes());
                }
            }
            left -= below.min(left);
            for _ in 0..(10 - below).min(left) {
                let (at, _) = drawn(&mut number, lines);
                sum = sum.wrapping_add(word_at(set, at));
            }
            left -= (10 - below).min(left);
        }
        self.place = number as usize;
        black_box(sum);
    }

    fn stride(&mut self, stride: usize, items: u64) {
        let (mut sum, mut at, mut left) = (0u64, self.place, items as usize);
        while left > 0 {
            let loads = left.min((self.set.len() - at) / stride).max(1);
            for each in self.set[at..].chunks_exact(stride).take(loads) {
                sum = sum.wrapping_add(word_at(each, 0));
            }
            left -= loads;
            at += loads * stride;
            if at + stride > self.set.len() {
                // The next round takes the lines between.
                at = (at + LINE as usize) % stride.max(LINE as usize);
            }
        }
        self.place = at;
        black_box(sum);
    }

    fn stream(&mut self, bytes: usize, operation: Operation, items: u64) {
        let mut left = items as usize;
        while left > 0 {
            let lines = left.min((bytes - self.place) / LINE as usize).max(1);
            let (from, to) = (self.place, (self.place + lines * LINE as usize).min(bytes));
            match operation {
                Operation::Read => read(&self.set[from..to]),
                Operation::Write => {
                    // A few lines at a time: a large set is filled by instructions that read nothing first.
                    for lines in self.set[from..to].chunks_mut(8 * LINE as usize) {
                        black_box(lines).fill(7);
                    }
                }
                Operation::Copy => {
                    let (src, dst) = self.set.split_at_mut(bytes);
                    copy_lines(&mut dst[from..to], &src[from..to]);
                }
                Operation::StreamingWrite => streaming_write(&mut self.set[from..to]),
            }
            self.place = if to >= bytes { 0 } else { to };
            left -= lines.min(left);
        }
    }

    fn copy(&mut self, bytes: usize, block: usize, items: u64) {
        let apart = block.next_multiple_of(LINE as usize);
        let blocks = (bytes / apart) as u64;
        let (src, dst) = self.set.split_at_mut(bytes);
        for _ in 0..items {
            let [from, to] = [0, 1].map(|_| (((self.random.next() >> 32) * blocks) >> 32) as usize * apart);
            black_box(&mut dst[to..to + block]).copy_from_slice(&src[from..from + block]);
        }
    }

    /// Whole blocks: the last one of a call may go beyond its items.
    fn blocks(&mut self, block: usize, apart: usize, items: u64) {
        let mut left = items as usize;
        while left > 0 {
            read(&self.set[self.place..self.place + block]);
            self.place += apart;
            if self.place + apart > self.set.len() {
                self.place = 0;
            }
            left = left.saturating_sub(block / LINE as usize);
        }
    }
}

/// The next place of a random line, and what it was drawn as: mixed from a counter, so that none waits for the one before.
#[inline(always)]
fn drawn(number: &mut u64, lines: u64) -> (usize, u64) {
    *number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*number ^ *number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((((mixed >> 32) * lines) >> 32) as usize * LINE as usize, mixed)
}

#[inline(always)]
fn word_at(set: &[u8], at: usize) -> u64 {
    set.get(at..at + 8).map_or(0, |word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
}

/// Reads lines in order.
fn read(lines: &[u8]) {
    let mut sum = [0u64; 8];
    for line in lines.chunks_exact(LINE as usize) {
        for (sum, word) in sum.iter_mut().zip(line.chunks_exact(8)) {
            *sum ^= u64::from_ne_bytes(word.try_into().unwrap_or_default());
        }
    }
    black_box(sum);
}

/// Loads of `N` chains in turns, each address from the load before in its chain.
fn chase<const N: usize>(set: &[u8], at: &mut [u32], items: u64) {
    let Some(start) = at.first_chunk::<N>().copied() else { return };
    let mut here = start;
    for _ in 0..items / N as u64 {
        for each in &mut here {
            *each = next(set, *each);
        }
    }
    at.copy_from_slice(&black_box(here));
}

fn chase_any(set: &[u8], at: &mut [u32], items: u64) {
    for _ in 0..items / at.len().max(1) as u64 {
        for each in at.iter_mut() {
            *each = next(set, *each);
        }
    }
    black_box(at);
}

#[inline(always)]
fn next(set: &[u8], at: u32) -> u32 {
    let at = at as usize * 4;
    match set.get(at..at + 4) {
        Some(word) => u32::from_ne_bytes(word.try_into().unwrap_or_default()),
        None => 0,
    }
}

/// Writes into each place, `step` bytes apart, where a random cycle goes on, as the number of a word of 4 bytes; gives
/// places evenly apart on the cycle. Within its page or line a place is shifted, so that they do not all share a set.
fn lay_cycle(set: &mut [u8], step: usize, chains: usize) -> Vec<u32> {
    let n = set.len() / step;
    let mut random = Congruence(0x2545_f491_4f6c_dd1d);
    let mut order: Vec<u32> = (0..n as u32).collect();
    for last in (1..n).rev() {
        order.swap(last, (((random.next() >> 32) * last as u64) >> 32) as usize);
    }
    let word = |place: u32| {
        let place = place as usize;
        let lines = step / LINE as usize;
        ((place * step + (place.wrapping_mul(0x9e37) % lines) * LINE as usize) / 4) as u32
    };
    for place in 0..n as u32 {
        let at = word(place) as usize * 4;
        set[at..at + 4].copy_from_slice(&word(order[place as usize]).to_ne_bytes());
    }
    let mut found = Vec::new();
    let mut here = 0u32;
    let apart = n / chains;
    for i in 0..apart * chains {
        if i % apart == 0 {
            found.push(word(here));
        }
        here = order[here as usize];
    }
    found
}

/// Copies whole lines 16 bytes at a time, as DPDK's `rte_memcpy` does where it is compiled for every x86-64.
#[cfg(target_arch = "x86_64")]
fn copy_lines(dst: &mut [u8], src: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};
    for (to, from) in dst.chunks_exact_mut(LINE as usize).zip(src.chunks_exact(LINE as usize)) {
        let (to, from) = (to.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
        for i in 0..4 {
            // SAFETY: four times 16 bytes are a line; every x86-64 processor has SSE2, whose unaligned moves these are.
            unsafe { _mm_storeu_si128(to.add(i), _mm_loadu_si128(from.add(i))) };
        }
        // No compiler makes one large copy of it, which would go around the caches.
        compiler_fence(Ordering::SeqCst);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn copy_lines(dst: &mut [u8], src: &[u8]) {
    for (to, from) in dst.chunks_mut(32 * LINE as usize).zip(src.chunks(32 * LINE as usize)) {
        black_box(to).copy_from_slice(from);
    }
}

#[cfg(target_arch = "x86_64")]
fn streaming_write(lines: &mut [u8]) {
    use std::arch::x86_64::{_mm_sfence, _mm_stream_si64};
    // SAFETY: any bytes are a valid i64, and align_to_mut gives those that are aligned for one.
    let (_, words, _) = unsafe { lines.align_to_mut::<i64>() };
    for word in words {
        // SAFETY: the pointer is to a word that is borrowed mutably; every x86-64 processor has SSE2.
        unsafe { _mm_stream_si64(word, 7) };
    }
    // SAFETY: every x86-64 processor has SSE.
    unsafe { _mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn streaming_write(lines: &mut [u8]) {
    lines.fill(black_box(7));
    black_box(lines);
}

/// Knuth's MMIX generator.
struct Congruence(u64);

impl Congruence {
    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_visits_every_place_once_whatever_the_step() {
        for step in [64, 4096] {
            let mut set = vec![0u8; 64 * step];
            let start = lay_cycle(&mut set, step, 4);
            assert_eq!(start.len(), 4);
            let (mut here, mut seen) = (start[0], Vec::new());
            for _ in 0..64 {
                seen.push(here);
                here = next(&set, here);
            }
            assert_eq!(here, start[0]);
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 64);
        }
    }

    #[test]
    fn chains_are_the_same_by_both_loops() {
        let mut set = vec![0u8; 1 << 16];
        let start = lay_cycle(&mut set, 64, 8);
        let (mut one, mut other) = (start.clone(), start);
        chase::<8>(&set, &mut one, 800);
        chase_any(&set, &mut other, 800);
        assert_eq!(one, other);
    }

    #[test]
    fn blocks_are_read_one_after_the_other_and_again() {
        let work = LoopWork::Blocks { bytes: 8192, block: 128, apart: 1024 };
        assert!(work.check().is_ok());
        let mut memory = vec![0u8; 8192 + HUGE];
        let mut bench = work.prepare(&mut memory);
        // Seven blocks, one more for half a block, and round again.
        for (items, place) in [(14, 7 * 1024), (1, 0), (2, 1024)] {
            bench.run(items);
            assert_eq!(bench.place, place);
        }
        for (block, apart) in [(0, 128), (100, 128), (256, 128), (64, 100), (64, 8192)] {
            assert!(LoopWork::Blocks { bytes: 8192, block, apart }.check().is_err(), "{block} {apart}");
        }
    }

    #[test]
    fn a_stream_goes_over_all_of_its_set() {
        for operation in [Operation::Write, Operation::StreamingWrite] {
            let work = LoopWork::Stream { bytes: 8192, operation };
            let mut memory = vec![0u8; 8192 + HUGE];
            work.prepare(&mut memory).run(128);
            assert_eq!(
                memory.iter().filter(|&&b| b == 7).count(),
                if operation == Operation::Write { 8192 } else { 1024 }
            );
        }
    }
}
