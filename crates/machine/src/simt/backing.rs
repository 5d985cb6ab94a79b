//! What the L2 of a GPU is a cache of: memory of its own, or a memory system that it shares with others.

use units::{Line, Ps, Ticket};

/// Where a line is among banks and channels: the lowest five bits are mixed with those above, so that packets, which
/// begin at multiples of their slots, do not all begin in one channel. No two lines come to the same place.
#[inline(always)]
pub(super) fn spread(line: u32) -> u32 {
    let above = line >> 5 ^ line >> 10 ^ line >> 15 ^ line >> 20;
    line ^ above & 31
}

/// The memory system that shader cores share with others.
pub trait SimtBacking {
    /// Whether there is one: without it the L2 and the DRAM are the GPU's own.
    const IS_SHARED: bool;
    /// Whether it has to be asked in order of time over all who share it: at the clock of issue, in place of that at which the L2 is.
    const IN_ORDER_OF_TIME: bool = true;
    /// Whether lines have their places over banks already; those of memory elsewhere the L2 spreads itself.
    const IS_SPREAD: bool = false;

    /// Where a line of a program lies.
    fn place(&self, line: u32) -> Line;

    /// `lines` are used next: the host may be asked to bring what is known of them, which changes nothing.
    #[inline(always)]
    fn prefetch(&self, lines: impl Iterator<Item = Line>) {
        let _ = lines;
    }

    /// Uses `line` of the L2, which brings it in if need be, at `now`: the present of all who share the memory, or where it
    /// need not be asked in order of time when the L2 is.
    fn use_line(&mut self, line: Line, write: bool, now: Ps) -> SharedAnswer;

    /// Nothing may be asked for from here on before an answer is known.
    fn next_answer(&self) -> Ps;
}

/// What became of a line of the L2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedAnswer {
    /// Where it is, as the number of its set times that of the ways plus its way.
    pub slot: Option<usize>,
    /// When it comes, if the request had come to the memory system at once.
    pub comes: Coming,
}

/// When a line comes to the L2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming {
    /// It was there, or is on its way already.
    There,
    /// At this time.
    At(Ps),
    /// An answer will say.
    Later(Ticket),
}

/// Memory of one's own: there is nobody to share with.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnMemory;

impl SimtBacking for OwnMemory {
    const IS_SHARED: bool = false;
    const IS_SPREAD: bool = true;

    fn place(&self, line: u32) -> Line {
        Line(line.into())
    }

    fn use_line(&mut self, _: Line, _: bool, _: Ps) -> SharedAnswer {
        SharedAnswer { slot: None, comes: Coming::There }
    }

    fn next_answer(&self) -> Ps {
        Ps::MAX
    }
}
