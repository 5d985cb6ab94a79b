//! A kernel that stays: its warps take tasks from a ring one after the other, and no task waits for the others that were there with it.
//!
//! A warp that waits for a task takes no slot here, so that no issue slots are spent on polling; one that has a task holds a slot from
//! then on until its task is complete. Before it begins it *acquires* what the host has written: its core's L1 is of before.
//!
//! Who drives it says how far it may go, so that it can share memory with others in order of time.

use serde::{Deserialize, Serialize};

use super::backing::SimtBacking;
use super::core::{Deadlock, FinishedWarp, Shaders};
use super::merge::Code;

/// Instructions that are kept at least before those that are done are given up.
const MOST_INSTRUCTIONS: usize = 1 << 16;

/// See the module header.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PersistentKernel {
    /// The core that is asked first for a slot.
    turn: usize,
    /// Instructions that were left when those that are done were given up last.
    kept: usize,
}

impl PersistentKernel {
    /// A slot for a task at `now`: its core and its number; [`None`] if all are taken.
    pub fn reserve(&mut self, shaders: &mut Shaders, now: u64) -> Option<(usize, u32)> {
        let core = shaders.with_room(self.turn)?;
        let slot = shaders.reserve(core, now)?;
        self.turn = (core + 1) % shaders.cores();
        Some((core, slot))
    }

    /// Room for another program: before it is merged into `code`.
    pub fn make_room(&mut self, shaders: &mut Shaders, code: &mut Code) {
        if code.instructions() > MOST_INSTRUCTIONS.max(2 * self.kept) {
            shaders.shorten(code);
            self.kept = code.instructions();
        }
    }

    /// Goes on to the last clock of which `may_go` says so, before the next answer of `shared`, and up to the first at which warps are
    /// complete, which are appended to `done`: the clock of that, or at which it goes on. A clock that never comes stands for one that an
    /// answer, or another task, will tell.
    ///
    /// # Errors
    /// Warps that wait for each other's locks.
    pub fn step<S: SimtBacking>(
        &self,
        shaders: &mut Shaders,
        code: &Code,
        shared: &mut S,
        may_go: impl Fn(u64) -> bool,
        done: &mut Vec<FinishedWarp>,
    ) -> Result<u64, Deadlock> {
        loop {
            let now = shaders.next();
            let waits = S::IS_SHARED && shaders.memory().time(now) >= shared.next_answer();
            if now == u64::MAX || waits || !may_go(now) {
                return Ok(now);
            }
            if S::IS_SHARED {
                shaders.step_over(now, code, done, shared)?;
            } else {
                shaders.step(now, code, done)?;
            }
            if !done.is_empty() {
                return Ok(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use probe::{Probe, Ref, RegionId};
    use proptest::prelude::*;

    use super::super::backing::OwnMemory;
    use super::super::kernel::{Kernel, KernelStep};
    use super::super::merge::{Merger, WARP, WarpPlacement};
    use super::super::spec::paper;
    use super::super::{LaneRecorder, Lanes, SimtSpec};
    use super::*;

    /// Lanes of a warp that loads a sector of each packet and computes so long.
    fn lanes(instructions: u32) -> Lanes {
        let mut recorder = LaneRecorder::new(&[]).unwrap();
        for _ in 0..WARP {
            recorder.touch(Ref::load(RegionId::PACKET, 0, 4, 1));
            recorder.work(2, instructions);
            recorder.end_lane();
        }
        recorder.into_lanes()
    }

    fn at(n: usize) -> WarpPlacement {
        WarpPlacement { base: 0, stride: 32, slots: 1 << 16, first: (n * WARP) as u32 }
    }

    /// Tasks that come at these clocks and take so many instructions: when each was complete. After each step programs that are done are
    /// given up, if `shortens` says so.
    fn run(spec: &SimtSpec, tasks: &[(u64, u32)], resident: u32, shortens: bool) -> (Vec<u64>, u64) {
        let (mut shaders, mut kernel) = (Shaders::new(spec, resident).unwrap(), PersistentKernel::default());
        let (mut code, mut merger, mut done) = (Code::new(), Merger::new(), Vec::new());
        let wanted: Vec<u32> = (0..WARP as u32).collect();
        let (mut ends, mut waiting, mut next, mut now) = (vec![0; tasks.len()], VecDeque::new(), 0, 0);
        loop {
            while next < tasks.len() && tasks[next].0 <= now {
                waiting.push_back(next);
                next += 1;
            }
            while let Some(&task) = waiting.front()
                && let Some((core, slot)) = kernel.reserve(&mut shaders, now)
            {
                waiting.pop_front();
                let program = merger.merge(&lanes(tasks[task].1), &wanted, &mut code).unwrap();
                shaders.start(core, slot, program, at(task), task as u32, &code, now);
            }
            let coming = tasks.get(next).map_or(u64::MAX, |task| task.0);
            if coming == u64::MAX && shaders.next() == u64::MAX {
                return (ends, shaders.issued());
            }
            let clock = kernel.step(&mut shaders, &code, &mut OwnMemory, |clock| clock <= coming, &mut done).unwrap();
            now = if done.is_empty() { clock.min(coming) } else { clock };
            for FinishedWarp { core, slot, tag } in done.drain(..) {
                shaders.release(core, slot, now);
                ends[tag as usize] = now;
            }
            if shortens {
                shaders.shorten(&mut code);
                assert!(code.is_empty());
            }
        }
    }

    #[test]
    fn tasks_that_come_together_take_as_long_as_a_kernel_of_them() {
        let (tasks, count) = ([(100, 50); 40], 40);
        let (ends, issued) = run(&paper(), &tasks, 8, false);
        let (mut shaders, mut kernel) = (Shaders::new(&paper(), 8).unwrap(), Kernel::default());
        let (mut code, wanted) = (Code::new(), (0..WARP as u32).collect::<Vec<_>>());
        let program = Merger::new().merge(&lanes(50), &wanted, &mut code).unwrap();
        kernel.begin((0..count).map(|n| (program, at(n))), 1, 100);
        let end = kernel.step(&mut shaders, &code, &mut OwnMemory, |_| true).unwrap();
        assert_eq!(end, KernelStep::Done(ends.iter().copied().max().unwrap()));
        assert_eq!(issued, shaders.issued());
    }

    #[test]
    fn a_task_does_not_wait_for_a_longer_one_that_came_with_it() {
        let (ends, _) = run(&paper(), &[(0, 5_000), (0, 10), (50, 10)], 8, false);
        assert!(ends[1] < 1_000 && ends[2] < 1_000 && ends[0] > 5_000, "{ends:?}");
    }

    proptest! {
        /// However often programs that are done are given up, the same happens at the same clocks.
        #[test]
        fn what_is_left_of_programs_goes_on_as_if_all_were_there(
            tasks in prop::collection::vec((0u64..400, 1u32..300), 1..60),
            resident in 1u32..4, cores in 1u32..4,
        ) {
            let spec = SimtSpec { cores, ..paper() };
            let tasks: Vec<(u64, u32)> = tasks.iter().scan(0, |at, &(gap, work)| { *at += gap; Some((*at, work)) }).collect();
            prop_assert_eq!(run(&spec, &tasks, resident, true), run(&spec, &tasks, resident, false));
        }
    }
}
