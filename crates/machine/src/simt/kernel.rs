//! A kernel over warps that are known when it begins: blocks of them go to shader cores with room, and a block holds its core's
//! slots until its last warp is complete.
//!
//! Who drives it says how far it may go, so that it can share memory with others in order of time.

use serde::{Deserialize, Serialize};

use super::backing::SimtBacking;
use super::core::{Deadlock, FinishedWarp, Shaders};
use super::merge::{Code, WarpPlacement};

/// See the module header.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Kernel {
    /// Programs, and where their packets lie.
    warps: Vec<(u32, WarpPlacement)>,
    /// The first that has not been launched.
    next: usize,
    /// Warps of a block.
    block: u32,
    /// Of each block the warps that are not complete, and the slots of those that are.
    blocks: Vec<(u32, Vec<(u32, u32)>)>,
    running: u32,
    /// The core that is asked first for room.
    turn: usize,
    now: u64,
    #[serde(skip)]
    done: Vec<FinishedWarp>,
}

/// How far a kernel has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelStep {
    /// It goes on at this clock.
    At(u64),
    /// Its last warp was complete at this clock.
    Done(u64),
}

impl Kernel {
    /// Begins at clock `now` with `warps` in blocks of `block`, on cores that hold as many.
    pub fn begin(&mut self, warps: impl Iterator<Item = (u32, WarpPlacement)>, block: u32, now: u64) {
        self.warps.clear();
        self.warps.extend(warps);
        self.blocks.clear();
        (self.next, self.running, self.block, self.now) = (0, 0, block.max(1), now);
    }

    /// Goes on to the last clock of which `may_go` says so, and before the next answer of `shared`. A clock that never comes stands for
    /// one that an answer will tell.
    ///
    /// # Errors
    /// Warps that wait for each other's locks.
    pub fn step<S: SimtBacking>(
        &mut self,
        shaders: &mut Shaders,
        code: &Code,
        shared: &mut S,
        may_go: impl Fn(u64) -> bool,
    ) -> Result<KernelStep, Deadlock> {
        while may_go(self.now) && (!S::IS_SHARED || shaders.memory().time(self.now) < shared.next_answer()) {
            if shaders.next() <= self.now {
                if S::IS_SHARED {
                    shaders.step_over(self.now, code, &mut self.done, shared)?;
                } else {
                    shaders.step(self.now, code, &mut self.done)?;
                }
                self.release(shaders);
            }
            self.launch(shaders, code);
            if self.running == 0 && self.next == self.warps.len() {
                return Ok(KernelStep::Done(self.now));
            }
            self.now = shaders.next();
        }
        Ok(KernelStep::At(self.now))
    }

    /// Memory has answered: when it goes on; [`u64::MAX`] if that waits for another answer.
    pub fn told(&mut self, shaders: &Shaders) -> u64 {
        self.now = self.now.min(shaders.next());
        self.now
    }

    /// Slots of blocks that are complete are free again.
    fn release(&mut self, shaders: &mut Shaders) {
        for finished in self.done.drain(..) {
            self.running -= 1;
            let (left, slots) = &mut self.blocks[finished.tag as usize];
            *left -= 1;
            slots.push((finished.core, finished.slot));
            if *left == 0 {
                slots.drain(..).for_each(|(core, slot)| shaders.release(core, slot, self.now));
            }
        }
    }

    /// Blocks go to cores that have room for one.
    fn launch(&mut self, shaders: &mut Shaders, code: &Code) {
        let (cores, mut idle) = (shaders.cores(), 0);
        while self.next < self.warps.len() && idle < cores {
            let count = (self.warps.len() - self.next).min(self.block as usize);
            if (shaders.free(self.turn) as usize) < count {
                (self.turn, idle) = ((self.turn + 1) % cores, idle + 1);
                continue;
            }
            idle = 0;
            let tag = self.blocks.len() as u32;
            self.blocks.push((count as u32, Vec::with_capacity(count)));
            for &(program, at) in &self.warps[self.next..self.next + count] {
                shaders.launch(self.turn, program, at, tag, code, self.now);
            }
            self.running += count as u32;
            self.next += count;
            self.turn = (self.turn + 1) % cores;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
    use units::{Line, Ps, Ticket};

    use super::super::backing::{Coming, OwnMemory, SharedAnswer};
    use super::super::merge::{Merger, WARP};
    use super::super::spec::{SimtSpec, paper};
    use super::super::{CacheLevelSpec, LaneRecorder};
    use super::*;

    /// Programs of `warps` warps that load a sector of each packet and compute.
    fn programs(warps: usize) -> (Code, Vec<(u32, WarpPlacement)>) {
        let mut recorder = LaneRecorder::new(&[]).unwrap();
        for _ in 0..WARP {
            recorder.touch(Ref::load(RegionId::PACKET, 0, 4, 1));
            recorder.work(2, 50);
            recorder.end_lane();
        }
        let (lanes, mut code) = (recorder.into_lanes(), Code::new());
        let wanted: Vec<u32> = (0..WARP as u32).collect();
        let program = Merger::new().merge(&lanes, &wanted, &mut code).unwrap();
        let at = |n| WarpPlacement { base: 0, stride: 32, slots: 1 << 16, first: n as u32 * WARP as u32 };
        (code, (0..warps).map(|n| (program, at(n))).collect())
    }

    #[test]
    fn a_kernel_that_is_held_up_now_and_then_ends_as_one_that_is_not() {
        let (code, warps) = programs(40);
        let run = |stride: u64| {
            let (mut shaders, mut kernel) = (Shaders::new(&paper(), 8).unwrap(), Kernel::default());
            kernel.begin(warps.iter().copied(), 4, 100);
            let mut until = 100;
            loop {
                match kernel.step(&mut shaders, &code, &mut OwnMemory, |clock| clock <= until).unwrap() {
                    KernelStep::Done(at) => return (at, shaders.issued()),
                    KernelStep::At(at) => until = at.max(until + stride),
                }
            }
        };
        let (at, issued) = run(u64::MAX / 2);
        assert_eq!(issued, 40 * 50);
        assert!(at > 100 + 50);
        for stride in [1, 7, 1000] {
            assert_eq!(run(stride), (at, issued));
        }
    }

    const TABLE: RegionId = RegionId::FIRST_TABLE;

    /// Programs of `warps` warps that follow a table of `lines` lines, which they have in common, write and load packets, and compute.
    fn walks(warps: usize, lines: u64) -> (Code, Vec<(u32, WarpPlacement)>) {
        let table = RegionSpec { id: TABLE, name: "table".into(), bytes: lines * 64, sharing: Sharing::Shared };
        let mut recorder = LaneRecorder::new(&[table]).unwrap();
        for lane in 0..warps * WARP {
            let place = |step: u64| (lane as u64 * 7 + step * 13) % lines * 64;
            recorder.touch(Ref::load(RegionId::PACKET, 0, 4, 1));
            recorder.work(2, 3 + lane as u32 / 32 % 5);
            recorder.touch(Ref::load(TABLE, place(0), 4, 3));
            recorder.touch(Ref::load(TABLE, place(1), 4, 4).after(1));
            recorder.touch(Ref::store(RegionId::PACKET, 64, 4, 5));
            recorder.work(6, 40);
            recorder.touch(Ref::load(RegionId::PACKET, 64, 4, 7));
            recorder.end_lane();
        }
        let base = recorder.table_sectors().div_ceil(2);
        let (lanes, mut code, mut merger) = (recorder.into_lanes(), Code::new(), Merger::new());
        let at = |n: usize| WarpPlacement { base, stride: 32, slots: 1 << 16, first: (n * WARP) as u32 };
        let warps = (0..warps).map(|n| {
            let wanted: Vec<u32> = (n * WARP..(n + 1) * WARP).map(|lane| lane as u32).collect();
            (merger.merge(&lanes, &wanted, &mut code).unwrap(), at(n))
        });
        let warps = warps.collect();
        (code, warps)
    }

    /// Memory elsewhere that takes 100 to 355 ns for a line, and says so at once, or 40 ns before.
    #[derive(Default)]
    struct Elsewhere {
        later: bool,
        places: HashMap<u64, usize>,
        answers: BTreeMap<(Ps, u64), Ps>,
        asked: u64,
    }

    impl SimtBacking for Elsewhere {
        const IS_SHARED: bool = true;

        fn place(&self, line: u32) -> Line {
            Line(line.into())
        }

        fn use_line(&mut self, line: Line, _: bool, now: Ps) -> SharedAnswer {
            let next = self.places.len();
            let (slot, is_new) = match self.places.get(&line.0) {
                Some(slot) => (*slot, false),
                None => (next, true),
            };
            self.places.insert(line.0, slot);
            if !is_new {
                return SharedAnswer { slot: Some(slot), comes: Coming::There };
            }
            let at = now + Ps::from_ns(100 + (line.0 * 37) % 256);
            if !self.later {
                return SharedAnswer { slot: Some(slot), comes: Coming::At(at) };
            }
            self.asked += 1;
            self.answers.insert((at - Ps::from_ns(40), self.asked), at);
            SharedAnswer { slot: Some(slot), comes: Coming::Later(Ticket(self.asked)) }
        }

        fn next_answer(&self) -> Ps {
            self.answers.keys().next().map_or(Ps::MAX, |&(known, _)| known)
        }
    }

    #[test]
    fn a_kernel_whose_memory_answers_later_goes_as_one_whose_memory_says_at_once_how_long_it_takes() {
        let l1 = CacheLevelSpec { size: units::Size::from_bytes(2 << 10), ways: 4, latency: 4, banks: 1 };
        for (l1, warps, resident, lines) in
            [(None, 40, 8, 64), (Some(l1), 40, 8, 64), (Some(l1), 100, 2, 200), (None, 3, 4, 1)]
        {
            let (code, warps) = walks(warps, lines);
            let run = |later: bool| {
                let spec = SimtSpec { l1, cores: 3, ..paper() };
                let period = spec.frequency.period().0;
                let (mut shaders, mut kernel) = (Shaders::new(&spec, resident).unwrap(), Kernel::default());
                let (mut memory, mut answered) = (Elsewhere { later, ..Elsewhere::default() }, 0);
                kernel.begin(warps.iter().copied(), 2, 100);
                loop {
                    if let KernelStep::Done(at) = kernel.step(&mut shaders, &code, &mut memory, |_| true).unwrap() {
                        let clocks = shaders.warp_clocks(at);
                        return ((at, shaders.issued(), shaders.memory().counters(), clocks), answered);
                    }
                    let ((known, ticket), at) = memory.answers.pop_first().unwrap();
                    shaders.answered(Ticket(ticket), at, known.0 / period, &code);
                    kernel.told(&shaders);
                    answered += 1;
                }
            };
            let ((at_once, none), (later, answered)) = (run(false), run(true));
            assert_eq!(at_once, later);
            assert!(none == 0 && answered > 0, "{answered}");
        }
    }

    #[test]
    fn a_block_waits_for_a_core_that_holds_all_of_it() {
        let (code, warps) = programs(3);
        let spec = super::super::SimtSpec { cores: 1, ..paper() };
        let (mut shaders, mut kernel) = (Shaders::new(&spec, 2).unwrap(), Kernel::default());
        kernel.begin(warps.into_iter(), 2, 0);
        kernel.step(&mut shaders, &code, &mut OwnMemory, |clock| clock == 0).unwrap();
        assert_eq!((shaders.free(0), kernel.next), (0, 2));
        let end = kernel.step(&mut shaders, &code, &mut OwnMemory, |_| true).unwrap();
        assert!(matches!(end, KernelStep::Done(_)));
        assert_eq!((shaders.free(0), kernel.next), (2, 3));
    }
}
