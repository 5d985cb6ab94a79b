//! Misses of a core under way: fill buffers, the prefetcher's queue, and the way into L1.

use stats::Path;
use units::{Line, Ps};

use super::CoreSpec;
use crate::cache::equal_tags;

/// Private misses under way: those in the core's line fill buffers, and those of its prefetcher, which may have a queue of
/// its own.
#[derive(Clone, Debug)]
pub(super) struct FillBuffers {
    /// Padded to whole vectors.
    lines: Vec<u32>,
    until: Vec<Ps>,
    fills: Vec<(u64, Path)>,
    port: FillPort,
    /// So many are the core's; those behind them are the prefetcher's.
    own: usize,
    /// The one that is free first, of each.
    first_free: [usize; 2],
    /// When the last of them has its data.
    latest: Ps,
    /// A bit for each of 64 classes of lines that may be under way.
    classes: u64,
}

state::state!(FillBuffers {
    values: [first_free, latest, classes],
    arrays: [lines, until, fills],
    parts: [port],
    built: [own],
});

/// The way by which lines enter L1, in program order: a core goes on ahead of it by as many lines as it has buffers for.
#[derive(Clone, Debug)]
pub(super) struct L1Port {
    interval: Ps,
    ahead: Ps,
    free: Ps,
}

state::state!(L1Port { values: [free], arrays: [], parts: [], built: [interval, ahead] });

impl L1Port {
    pub(super) fn new(spec: &CoreSpec) -> L1Port {
        let interval = spec.l1_fill_interval.map_or(Ps::ZERO, |each| each.ps());
        L1Port { interval, ahead: Ps(interval.0 * u64::from(spec.outstanding)), free: Ps::ZERO }
    }

    /// It is never busy.
    #[inline(always)]
    pub(super) fn is_free(&self) -> bool {
        self.interval == Ps::ZERO
    }

    /// A line that a reference dispatched at `at` brings: when that can be dispatched.
    #[inline(always)]
    pub(super) fn enter(&mut self, at: Ps) -> Ps {
        if self.is_free() {
            return at;
        }
        let turn = self.free.max(at);
        self.free = turn + self.interval;
        at.max(Ps(turn.0.saturating_sub(self.ahead.0)))
    }
}

/// Who has a line brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum For {
    /// An instruction, or a page walk.
    Core,
    /// The prefetcher.
    Prefetcher,
}

/// The way by which lines enter the private caches: one request for a line in each stretch of time. Requests come in
/// program order, which need not be that of time.
#[derive(Clone, Debug)]
struct FillPort {
    /// How long a stretch is; [`Ps::ZERO`] for a port that is never busy.
    interval: Ps,
    /// The last stretch that was taken, of each class of stretches.
    taken: Box<[u64]>,
}

state::state!(FillPort { values: [], arrays: [taken], parts: [], built: [interval] });

/// Stretches in a row of which is known whether they are taken: at the least interval longer than an access to DRAM.
const STRETCHES: usize = 2048;

impl FillPort {
    fn new(interval: Ps) -> FillPort {
        let stretches = if interval == Ps::ZERO { 0 } else { STRETCHES };
        FillPort { interval, taken: vec![u64::MAX; stretches].into() }
    }

    /// The first stretch that is free from `at` on, and when in it a request may go out.
    #[inline]
    fn first_free(&self, at: Ps) -> (u64, Ps) {
        let first = at.0 / self.interval.0;
        let mut stretch = first;
        while self.taken[stretch as usize % STRETCHES] == stretch {
            stretch += 1;
        }
        (stretch, if stretch == first { at } else { Ps(stretch * self.interval.0) })
    }
}

/// In place of a line that none is brought.
const NO_LINE: u32 = u32::MAX;

/// The bit of a line's class.
#[inline(always)]
fn class(line: Line) -> u64 {
    1 << (line.0 & 63)
}

impl FillBuffers {
    /// Of a core at rest. Without a queue of its own the prefetcher has what the core has free.
    pub(super) fn new(spec: &CoreSpec) -> FillBuffers {
        let own = spec.outstanding as usize;
        let buffers = own + spec.outstanding_prefetches.map_or(0, |n| n as usize);
        FillBuffers {
            lines: vec![NO_LINE; buffers.next_multiple_of(8)],
            until: vec![Ps::ZERO; buffers],
            fills: vec![(0, Path::default()); buffers],
            port: FillPort::new(spec.fill_interval.map_or(Ps::ZERO, |each| each.ps())),
            own,
            first_free: [0, if buffers > own { own } else { 0 }],
            latest: Ps::ZERO,
            classes: 0,
        }
    }

    /// The prefetcher has a queue of its own.
    #[inline(always)]
    pub(super) fn are_apart(&self) -> bool {
        self.until.len() > self.own
    }

    /// When a request for a line that may go out from `at` on has its turn at the port; takes it.
    #[inline(always)]
    pub(super) fn take_turn(&mut self, at: Ps) -> Ps {
        if self.port.interval == Ps::ZERO {
            return at;
        }
        let (stretch, from) = self.port.first_free(at);
        self.port.taken[stretch as usize % STRETCHES] = stretch;
        from
    }

    /// As [`FillBuffers::take_turn`], and takes nothing.
    #[inline(always)]
    pub(super) fn turn(&self, at: Ps) -> Ps {
        // What is not known yet stays so.
        if self.port.interval == Ps::ZERO || at == Ps::MAX { at } else { self.port.first_free(at).1 }
    }

    /// How many of the prefetcher's are free at `at`.
    pub(super) fn free_ahead(&self, at: Ps) -> usize {
        self.until[self.own..].iter().filter(|&&until| until <= at).count()
    }

    /// When one is free.
    #[inline(always)]
    pub(super) fn free_from(&self, by: For) -> Ps {
        self.until[self.first_free[by as usize]]
    }

    /// The answer for `slot` comes at `until`, with the data of `line` where it brings one.
    #[inline]
    pub(super) fn insert(&mut self, by: For, line: Option<Line>, until: Ps, slot: u64, path: &Path) {
        self.set(self.first_free[by as usize], line, until, slot, path);
    }

    /// The data for `slot` come at a time that is not known yet.
    pub(super) fn reserve(&mut self, by: For, slot: u64) {
        let at = self.first_free[by as usize];
        self.lines[at] = NO_LINE;
        self.until[at] = Ps::MAX;
        self.fills[at].0 = slot;
        self.look(at);
    }

    /// The answer for `slot`, which has a buffer, comes at `until`: see [`FillBuffers::insert`].
    pub(super) fn complete(&mut self, line: Option<Line>, until: Ps, slot: u64, path: &Path) {
        let reserved = self.until.iter().zip(&self.fills).position(|(at, fill)| *at == Ps::MAX && fill.0 == slot);
        debug_assert!(reserved.is_some(), "a slot that waits for its data has a buffer");
        if let Some(at) = reserved {
            self.set(at, line, until, slot, path);
        }
    }

    #[inline]
    fn set(&mut self, at: usize, line: Option<Line>, until: Ps, slot: u64, path: &Path) {
        self.lines[at] = line.map_or(NO_LINE, |line| line.0 as u32);
        self.until[at] = until;
        self.fills[at] = (slot, *path);
        self.latest = self.latest.max(until);
        self.classes |= line.map_or(0, class);
        self.look(at);
    }

    /// Looks for the buffer that is free first, among those that `changed` is one of.
    #[inline]
    fn look(&mut self, changed: usize) {
        let apart = self.are_apart();
        let (from, to) = if changed < self.own { (0, self.own) } else { (self.own, self.until.len()) };
        let mut first = from;
        let mut earliest = self.until[from];
        for (i, &until) in self.until[from + 1..to].iter().enumerate() {
            if until < earliest {
                (first, earliest) = (from + 1 + i, until);
            }
        }
        self.first_free[usize::from(from > 0)] = first;
        if !apart {
            self.first_free[1] = first;
        }
    }

    /// What brings `line` if its data come after `time`: of several that do, what was asked for last.
    #[inline(always)]
    pub(super) fn under_way(&self, line: Line, time: Ps) -> Option<(Ps, &Path)> {
        if time >= self.latest || self.classes & class(line) == 0 { None } else { self.search(line, time) }
    }

    /// Nobody asks for times before `time` from now on.
    pub(super) fn forget(&mut self, time: Ps) {
        if self.latest <= time {
            self.classes = 0;
        }
    }

    /// The slot that `line` was asked for last.
    #[inline]
    pub(super) fn slot_for(&self, line: Line) -> Option<u64> {
        if self.classes & class(line) == 0 { None } else { self.last_for(line).map(|at| self.fills[at].0) }
    }

    /// The slot that `line` was asked for last and when its data come, if that is after `time`.
    pub(super) fn coming(&self, line: Line, time: Ps) -> Option<(u64, Ps)> {
        let (until, _) = self.under_way(line, time)?;
        self.slot_for(line).map(|slot| (slot, until))
    }

    #[inline(never)]
    fn search(&self, line: Line, time: Ps) -> Option<(Ps, &Path)> {
        let at = self.last_for(line)?;
        (self.until[at] > time).then(|| (self.until[at], &self.fills[at].1))
    }

    /// The buffer of the last slot that `line` was asked for.
    fn last_for(&self, line: Line) -> Option<usize> {
        let mut last: Option<usize> = None;
        for (group, lines) in self.lines.chunks(32).enumerate() {
            let mut found = equal_tags(lines, line.0 as u32);
            while found != 0 {
                let at = group * 32 + found.trailing_zeros() as usize;
                found &= found - 1;
                if last.is_none_or(|last| self.fills[last].0 < self.fills[at].0) {
                    last = Some(at);
                }
            }
        }
        last
    }

    pub(super) fn path_of(&self, slot: u64) -> Option<Path> {
        self.fills.iter().find(|f| f.0 == slot).map(|f| f.1)
    }
}
