//! Shader cores: warps that are resident, and which of them is issued.
//!
//! A core issues an instruction of one warp in a clock (with fewer lanes than a warp has, in every 32 / width clocks). A
//! warp's next instruction can go once the pipeline is through, and, if its address or operands come from memory, once
//! the warp's loads are back. So a core with few warps has clocks in which none can go.
//!
//! Woken warps wait in a wheel of 64 clocks, those that wait longer in a wheel of 64 times 64; both are bits, so that a clock
//! costs a few instructions of the host whatever the number of warps.
//!
//! A warp that begins a run of instructions without memory, while no other warp is ready, *runs alone*: its instructions go a
//! pipeline apart, and as long as nobody else is ready in one of these clocks, nothing has to be done before the last of
//! them. Who is ready in such a clock ends that: the warp is one of those that are ready then, with what is left of its run. So
//! a core in which few warps are ready costs the host little for each instruction, and nothing that is simulated changes.
//!
//! A core whose slots are all taken by warps that are not complete *runs ahead*: until one of them is, nobody can bring it
//! another warp, and what its warps compute is nobody else's business. So it goes on by itself up to the next instruction with
//! memory, the first or last one of a run, or the next end, each of which it does at its clock, in turn with the other cores.
//!
//! A warp whose next instruction waits for a line of which memory does not say yet when it comes *is put by*: it is in no wheel until
//! the answer. So long its core does not run ahead.
//!
//! Where a program is a chain of functions, the time of each resident warp is told by function: it is the next one's from when
//! the first instruction of that could go, so that a function waits for its own loads, and until its slot is released.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use units::{Ps, Ticket};

use super::backing::{OwnMemory, SimtBacking};
use super::later::WarpPlace;
use super::memory::{Sectors, SimtMemory};
use super::merge::{Code, MEMBERS, WarpOperation, WarpPlacement};
use super::spec::{Scheduler, SimtSpec};
use crate::MachineError;

/// Clocks of the wheel: more than the deepest pipeline. As many places has the coarse wheel, of so many clocks each.
const WHEEL: u64 = 64;
/// Warps that find their lock held this often in a row, and no other instruction in between, wait for each other.
const SPINS: u64 = 1 << 20;
/// Slots that a core can have.
const SLOTS: usize = 64;
/// Clocks at most that a core runs ahead at a time, so that who drives it is asked now and then whether to go on.
const AHEAD: u32 = 1 << 12;
/// No event.
const NEVER: u64 = u64::MAX;

/// A warp that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedWarp {
    /// Where it ran.
    pub core: u32,
    /// In which slot, which is its own until it is released.
    pub slot: u32,
    /// As it was launched with.
    pub tag: u32,
}

/// Warps wait for each other's locks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "warps wait for each other's locks at clock {now}: lock {lock} is held by warp {holder}, wanted by warp {warp}"
)]
pub struct Deadlock {
    /// When it was noticed.
    pub now: u64,
    /// A lock that is wanted.
    pub lock: u32,
    /// The tag of who has it.
    pub holder: u32,
    /// The tag of who wants it.
    pub warp: u32,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct WarpSlot {
    pc: u32,
    to: u32,
    tag: u32,
    /// When the latest load is back, of those of which that is known.
    loads: u64,
    /// Lines of which it is not, and whether the warp is put by until it is.
    later: u32,
    put_by: bool,
    /// When it wakes, if it runs alone or is in the coarse wheel; and its place there.
    wakes: u64,
    coarse: u8,
    /// In the order of launches.
    age: u64,
    at: WarpPlacement,
    /// The function of the chain that it is in, and since when.
    member: u8,
    entered: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ShaderCore {
    slots: Vec<WarpSlot>,
    /// Of each slot's run, the instructions that are left, 0 if it has not begun: all that most instructions ask for. Of a
    /// warp that runs alone what was left as it began to.
    #[serde(with = "units::arrays")]
    left: [u32; SLOTS],
    /// Bits of slots: empty, could be issued, at their last instruction.
    free: u64,
    ready: u64,
    ending: u64,
    #[serde(with = "units::arrays")]
    wheel: [u64; WHEEL as usize],
    occupied: u64,
    #[serde(with = "units::arrays")]
    coarse: [u64; WHEEL as usize],
    coarse_occupied: u64,
    /// Warps that run alone: a bit for each remainder of their clocks by the pipeline, and whose it is.
    alone: u64,
    #[serde(with = "units::arrays")]
    alone_slot: [u8; WHEEL as usize],
    pipeline: PipelineDepth,
    /// When the next instruction can be issued.
    port: u64,
    /// Whose instruction was issued last, and when, apart from those of warps that run alone.
    latest: u32,
    latest_at: u64,
    issued: u64,
    launched: u64,
    resident: u64,
    /// Warps that are put by, or complete and in a slot that is not released.
    apart: u32,
    /// Warps that are resident, summed over clocks until `since`.
    warp_clocks: u64,
    since: u64,
}

/// The pipeline's depth, and how to divide by it: each instruction does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct PipelineDepth {
    clocks: u64,
    /// 2^64 over `clocks`, rounded up where it is no power of two.
    inverse: u64,
}

impl PipelineDepth {
    fn new(clocks: u64) -> PipelineDepth {
        PipelineDepth { clocks, inverse: if clocks == 1 { u64::MAX } else { u64::MAX / clocks + 1 } }
    }

    /// Quotient and remainder of `now`, which is below 2^50: the product is too large by less than `now`.
    #[inline(always)]
    fn divide(self, now: u64) -> (u64, u64) {
        if self.clocks == 1 {
            return (now, 0);
        }
        let quotient = ((u128::from(now) * u128::from(self.inverse)) >> 64) as u64;
        (quotient, now - quotient * self.clocks)
    }
}

impl ShaderCore {
    fn new(warps: u32, pipeline: u64) -> ShaderCore {
        ShaderCore {
            slots: vec![WarpSlot::default(); warps as usize],
            left: [0; SLOTS],
            free: if warps >= 64 { u64::MAX } else { (1 << warps) - 1 },
            ready: 0,
            ending: 0,
            wheel: [0; WHEEL as usize],
            occupied: 0,
            coarse: [0; WHEEL as usize],
            coarse_occupied: 0,
            alone: 0,
            alone_slot: [0; WHEEL as usize],
            pipeline: PipelineDepth::new(pipeline),
            port: 0,
            latest: warps - 1,
            latest_at: 0,
            issued: 0,
            launched: 0,
            resident: 0,
            apart: 0,
            warp_clocks: 0,
            since: 0,
        }
    }

    #[inline(always)]
    fn schedule(&mut self, slot: u32, at: u64, now: u64) {
        if at - now < WHEEL {
            self.schedule_soon(slot, at);
        } else {
            // What is beyond the coarse wheel waits in its last place, to be put where it belongs then.
            let place = (at / WHEEL).min(now / WHEEL + WHEEL - 1) % WHEEL;
            (self.slots[slot as usize].wakes, self.slots[slot as usize].coarse) = (at, place as u8);
            self.coarse[place as usize] |= 1 << slot;
            self.coarse_occupied |= 1 << place;
        }
    }

    /// As [`ShaderCore::schedule`], in less than [`WHEEL`] clocks.
    #[inline(always)]
    fn schedule_soon(&mut self, slot: u32, at: u64) {
        self.wheel[(at % WHEEL) as usize] |= 1 << slot;
        self.occupied |= 1 << (at % WHEEL);
    }

    /// `slot` wakes no more.
    fn cancel(&mut self, slot: u32) {
        let WarpSlot { wakes, coarse, .. } = self.slots[slot as usize];
        let place = (wakes % WHEEL) as usize;
        if self.wheel[place] >> slot & 1 != 0 {
            self.wheel[place] &= !(1 << slot);
            self.occupied &= !(u64::from(self.wheel[place] == 0) << place);
        } else {
            let place = usize::from(coarse);
            self.coarse[place] &= !(1 << slot);
            self.coarse_occupied &= !(u64::from(self.coarse[place] == 0) << place);
        }
    }

    /// Slots that wake at `now`.
    #[inline(always)]
    fn wake(&mut self, now: u64) -> u64 {
        // The coarse wheel's place begins with its first clock, in which no core sleeps that has something there.
        if now.is_multiple_of(WHEEL) {
            let place = (now / WHEEL) % WHEEL;
            if self.coarse_occupied >> place & 1 != 0 {
                let mut left = std::mem::take(&mut self.coarse[place as usize]);
                self.coarse_occupied &= !(1 << place);
                while left != 0 {
                    let slot = left.trailing_zeros();
                    left &= left - 1;
                    self.schedule(slot, self.slots[slot as usize].wakes, now);
                }
            }
        }
        let place = now % WHEEL;
        let mut woken = 0;
        if self.occupied >> place & 1 != 0 {
            woken = std::mem::take(&mut self.wheel[place as usize]);
            self.occupied &= !(1 << place);
        }
        woken
    }

    /// When something can happen again.
    #[inline(always)]
    fn next(&self, now: u64) -> u64 {
        let port = if self.ready == 0 { NEVER } else { self.port.max(now + 1) };
        if port == now + 1 {
            return port;
        }
        let near = match self.occupied.rotate_right(((now + 1) % WHEEL) as u32) {
            0 => NEVER,
            bits => now + 1 + u64::from(bits.trailing_zeros()),
        };
        let block = now / WHEEL + 1;
        let far = match self.coarse_occupied.rotate_right((block % WHEEL) as u32) {
            0 => NEVER,
            bits => (block + u64::from(bits.trailing_zeros())) * WHEEL,
        };
        near.min(far).min(port)
    }

    /// Warp `slot`, of whose instructions `left` are still to go, has issued one at `now` and runs alone.
    #[inline(always)]
    fn run_alone(&mut self, slot: u32, left: u32, now: u64) {
        let (_, rest) = self.pipeline.divide(now);
        self.alone |= 1 << rest;
        self.alone_slot[rest as usize] = slot as u8;
        self.issued += u64::from(left - 1);
        let wakes = now + u64::from(left) * self.pipeline.clocks;
        self.slots[slot as usize].wakes = wakes;
        self.schedule(slot, wakes, now);
    }

    /// Warp `slot` is the one whose instruction is issued at `now`.
    #[inline(always)]
    fn take(&mut self, slot: u32, now: u64, slots_an_instruction: u64) {
        self.ready &= !(1 << slot);
        (self.latest, self.latest_at) = (slot, now);
        self.port = now + slots_an_instruction;
        self.issued += 1;
    }

    /// Of the warps that are ready at `now` the one whose instruction is issued, if one can be.
    #[inline(always)]
    fn choose(&mut self, now: u64, scheduler: Scheduler) -> Option<u32> {
        if self.ready == 0 || self.port > now {
            return None;
        }
        if self.alone != 0 {
            self.join(now);
        }
        Some(self.pick(scheduler))
    }

    /// Does what comes after `now` as long as it is nobody else's business: instructions without memory, in a core to which no
    /// warp can come before one of its own is complete. When the first of what is left is to be done.
    #[inline(always)]
    fn run_ahead(&mut self, mut now: u64, scheduler: Scheduler, slots_an_instruction: u64) -> u64 {
        for _ in 0..AHEAD {
            let next = self.next(now);
            if self.free != 0 || self.apart != 0 || next == NEVER {
                return next;
            }
            let woken = self.wake(next);
            if woken & self.ending != 0 {
                let place = next % WHEEL;
                self.wheel[place as usize] = woken;
                self.occupied |= 1 << place;
                return next;
            }
            self.ready |= woken;
            if let Some(slot) = self.choose(next, scheduler) {
                let left = self.left[slot as usize];
                if left <= 1 {
                    // It is chosen again when its time has come.
                    return next;
                }
                self.take(slot, next, slots_an_instruction);
                self.run_on(slot, left - 1, next, slots_an_instruction == 1);
            }
            now = next;
        }
        self.next(now)
    }

    /// Warp `slot` has issued an instruction of a run at `now`, of which `left` are still to go.
    #[inline(always)]
    fn run_on(&mut self, slot: u32, left: u32, now: u64, may_be_alone: bool) {
        self.left[slot as usize] = left;
        // Where somebody wakes in the next clock, most clocks are somebody's: it would not be alone for long.
        let busy = self.occupied >> ((now + 1) % WHEEL) & 1 != 0;
        if left > 1 && self.ready == 0 && !busy && may_be_alone {
            self.run_alone(slot, left, now);
        } else {
            self.schedule_soon(slot, now + self.pipeline.clocks);
        }
    }

    /// A warp that runs alone and has an instruction to issue at `now`, in which another one is ready or it is its last, is one
    /// of those that are ready; and `latest` is whose instruction went last.
    #[inline(always)]
    fn join(&mut self, now: u64) {
        let (_, rest) = self.pipeline.divide(now);
        if self.alone >> rest & 1 != 0 {
            self.alone &= !(1 << rest);
            let slot = u32::from(self.alone_slot[rest as usize]);
            let wakes = self.slots[slot as usize].wakes;
            let more = self.pipeline.divide(wakes - now).0;
            self.left[slot as usize] = more as u32 + 1;
            if more > 0 {
                self.issued -= more;
                self.cancel(slot);
                self.ready |= 1 << slot;
            }
            if now - self.pipeline.clocks > self.latest_at {
                (self.latest, self.latest_at) = (slot, now - self.pipeline.clocks);
            }
        }
        if self.alone != 0 && self.ready & (self.ready - 1) != 0 {
            // Of those that run alone, the one whose remainder is the next below.
            let below = self.alone & ((1 << rest) - 1);
            let (place, round) = match below {
                0 => (self.alone.ilog2(), self.pipeline.clocks),
                _ => (below.ilog2(), 0),
            };
            let at = now - (rest + round - u64::from(place));
            if at > self.latest_at {
                (self.latest, self.latest_at) = (u32::from(self.alone_slot[place as usize]), at);
            }
        }
    }

    #[inline(always)]
    fn pick(&self, scheduler: Scheduler) -> u32 {
        match scheduler {
            Scheduler::RoundRobin => {
                let turn = (self.latest + 1) % 64;
                (self.ready.rotate_right(turn).trailing_zeros() + turn) % 64
            }
            Scheduler::GreedyThenOldest => {
                if self.ready >> self.latest & 1 != 0 {
                    return self.latest;
                }
                let (mut left, mut oldest) = (self.ready, (u64::MAX, 0));
                while left != 0 {
                    let slot = left.trailing_zeros();
                    left &= left - 1;
                    oldest = oldest.min((self.slots[slot as usize].age, slot));
                }
                oldest.1
            }
        }
    }

    fn count(&mut self, now: u64) {
        self.warp_clocks += self.resident * now.saturating_sub(self.since);
        self.since = self.since.max(now);
    }
}

/// All shader cores and their memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shaders {
    cores: Vec<ShaderCore>,
    next: Vec<u64>,
    /// The least of `next`.
    soonest: u64,
    /// Slots of all cores in which no warp is.
    free: u32,
    memory: SimtMemory,
    /// Held locks: the holder's core and slot.
    #[serde(serialize_with = "units::arrays::in_order")]
    locks: HashMap<u32, (u32, u32)>,
    spins: u64,
    scheduler: Scheduler,
    pipeline: u64,
    slots_an_instruction: u64,
    /// Clocks of warps by the function of the chain that they were in.
    #[serde(with = "units::arrays")]
    member_clocks: [u64; MEMBERS],
    #[serde(skip)]
    told: Vec<(WarpPlace, u64)>,
}

impl Shaders {
    /// Idle cores of `resident` slots each, over an empty memory system.
    ///
    /// # Errors
    /// What cannot be.
    pub fn new(spec: &SimtSpec, resident: u32) -> Result<Shaders, MachineError> {
        spec.check()?;
        if !(1..=SLOTS as u32).contains(&resident) {
            return Err(MachineError::new(
                "resident",
                resident.to_string(),
                "1 to 64",
                "as `SimtSpec::resident`".into(),
            ));
        }
        Ok(Shaders {
            cores: vec![ShaderCore::new(resident, u64::from(spec.pipeline)); spec.cores as usize],
            next: vec![NEVER; spec.cores as usize],
            soonest: NEVER,
            free: resident * spec.cores,
            memory: SimtMemory::new(spec)?,
            locks: HashMap::new(),
            spins: 0,
            scheduler: spec.scheduler,
            pipeline: u64::from(spec.pipeline),
            slots_an_instruction: u64::from(super::merge::WARP as u32 / spec.simd_width),
            member_clocks: [0; MEMBERS],
            told: Vec::new(),
        })
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Slots of `core` in which no warp is.
    pub fn free(&self, core: usize) -> u32 {
        self.cores[core].free.count_ones()
    }

    /// The first core from `turn` on, and then from 0 on, that has a free slot.
    #[inline]
    pub fn with_room(&self, turn: usize) -> Option<usize> {
        if self.free == 0 {
            return None;
        }
        let (before, from) = self.cores.split_at(turn.min(self.cores.len()));
        let has_room = |core: &ShaderCore| core.free != 0;
        from.iter().position(has_room).map(|n| turn + n).or_else(|| before.iter().position(has_room))
    }

    /// The memory system.
    pub fn memory(&self) -> &SimtMemory {
        &self.memory
    }

    /// The memory system, for devices.
    pub fn memory_mut(&mut self) -> &mut SimtMemory {
        &mut self.memory
    }

    /// Issue slots that were used; of warps that are not complete also some that are used later.
    pub fn issued(&self) -> u64 {
        self.cores.iter().map(|core| core.issued).sum()
    }

    /// Warps that were resident, summed over cores and over the clocks up to `now`.
    pub fn warp_clocks(&mut self, now: u64) -> u64 {
        self.cores.iter_mut().for_each(|core| core.count(now));
        self.cores.iter().map(|core| core.warp_clocks).sum()
    }

    /// Clocks of the warps that were released, by the function of the chain that they were in: they sum to
    /// [`Shaders::warp_clocks`] once all are.
    pub fn member_clocks(&self) -> &[u64; MEMBERS] {
        &self.member_clocks
    }

    /// When the next thing happens; `u64::MAX` if nothing does.
    #[inline]
    pub fn next(&self) -> u64 {
        self.soonest
    }

    /// A warp comes to a free slot of `core`, which is returned; its first instruction can go in the next clock.
    /// [`None`], and nothing has happened, if there is no free slot.
    pub fn launch(
        &mut self,
        core: usize,
        program: u32,
        at: WarpPlacement,
        tag: u32,
        code: &Code,
        now: u64,
    ) -> Option<u32> {
        let slot = self.reserve(core, now)?;
        self.start(core, slot, program, at, tag, code, now);
        Some(slot)
    }

    /// A warp without anything to do takes a free slot of `core`, which is returned; [`None`] if there is no free slot.
    pub fn reserve(&mut self, core: usize, now: u64) -> Option<u32> {
        let of = &mut self.cores[core];
        if of.free == 0 {
            return None;
        }
        of.count(now);
        let slot = of.free.trailing_zeros();
        of.free &= !(1 << slot);
        of.left[slot as usize] = 0;
        of.slots[slot as usize] = WarpSlot { entered: now, ..WarpSlot::default() };
        of.apart += 1;
        self.free -= 1;
        of.resident += 1;
        Some(slot)
    }

    /// The warp in a slot that was [reserved](Shaders::reserve) has something to do: its first instruction can go in the next clock.
    #[allow(clippy::too_many_arguments, reason = "a slot, and what `launch` is given")]
    pub fn start(&mut self, core: usize, slot: u32, program: u32, at: WarpPlacement, tag: u32, code: &Code, now: u64) {
        let program = code.program(program);
        let of = &mut self.cores[core];
        of.apart = of.apart.saturating_sub(1);
        of.launched += 1;
        let member = if program.from == program.to { 0 } else { code.inst(program.from).member() as u8 };
        let age = of.launched;
        let entered = of.slots[slot as usize].entered;
        of.slots[slot as usize] =
            WarpSlot { pc: program.from, to: program.to, tag, age, at, member, entered, ..WarpSlot::default() };
        if program.from == program.to {
            of.ending |= 1 << slot;
        }
        of.schedule(slot, now + 1, now);
        self.next[core] = self.next[core].min(now + 1);
        self.soonest = self.soonest.min(now + 1);
    }

    /// Slots of all cores.
    pub fn slots(&self) -> u32 {
        self.cores.iter().map(|core| core.slots.len() as u32).sum()
    }

    /// Of `code` only what warps still have to do is left, and no program has a number any more.
    pub fn shorten(&mut self, code: &mut Code) {
        let mut kept = Code::new();
        for core in &mut self.cores {
            let mut taken = !core.free & if core.slots.len() >= SLOTS { u64::MAX } else { (1 << core.slots.len()) - 1 };
            while taken != 0 {
                let warp = &mut core.slots[taken.trailing_zeros() as usize];
                taken &= taken - 1;
                (warp.pc, warp.to) = kept.take_from(code, warp.pc..warp.to);
            }
        }
        *code = kept;
    }

    /// A slot of a warp that [`Shaders::step`] said is complete is free again; nothing else may be released.
    pub fn release(&mut self, core: u32, slot: u32, now: u64) {
        let of = &mut self.cores[core as usize];
        of.count(now);
        if of.free >> slot & 1 == 0 {
            let WarpSlot { member, entered, .. } = of.slots[slot as usize];
            self.member_clocks[usize::from(member)] += now - entered;
            of.resident -= 1;
            debug_assert!(of.apart > 0, "slot {slot} of core {core} is released before its warp is complete");
            of.apart = of.apart.saturating_sub(1);
            of.free |= 1 << slot;
            self.free += 1;
        }
    }

    /// What happens at `now`, which is [`Shaders::next`]: at most an instruction a core, and what a full core computes behind
    /// it. Warps that are complete are appended to `done`.
    ///
    /// # Errors
    /// Warps that wait for each other's locks.
    #[inline]
    pub fn step(&mut self, now: u64, code: &Code, done: &mut Vec<FinishedWarp>) -> Result<(), Deadlock> {
        let Some(mut own) = self.memory.lend_controllers() else {
            return self.step_over(now, code, done, &mut OwnMemory);
        };
        own.answers(now, |ticket, at| self.answered(ticket, at, now, code));
        let stepped = self.step_over(now, code, done, &mut *own);
        self.soonest = self.soonest.min(own.due(now));
        self.memory.give_back(own);
        stepped
    }

    /// As [`Shaders::step`], where `shared` is behind the cores.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn step_over<S: SimtBacking>(
        &mut self,
        now: u64,
        code: &Code,
        done: &mut Vec<FinishedWarp>,
        shared: &mut S,
    ) -> Result<(), Deadlock> {
        let mut soonest = NEVER;
        for core in 0..self.cores.len() {
            let mut next = self.next[core];
            if next <= now {
                next = self.step_core(core, now, code, done, shared)?;
            }
            soonest = soonest.min(next);
        }
        self.soonest = soonest;
        Ok(())
    }

    #[inline(always)]
    fn step_core<S: SimtBacking>(
        &mut self,
        core: usize,
        now: u64,
        code: &Code,
        done: &mut Vec<FinishedWarp>,
        shared: &mut S,
    ) -> Result<u64, Deadlock> {
        let of = &mut self.cores[core];
        let woken = of.wake(now);
        let ended = woken & of.ending;
        of.ready |= woken & !ended;
        if ended != 0 {
            of.ending &= !ended;
            of.apart += ended.count_ones();
            let mut left = ended;
            while left != 0 {
                let slot = left.trailing_zeros();
                left &= left - 1;
                done.push(FinishedWarp { core: core as u32, slot, tag: of.slots[slot as usize].tag });
            }
        }
        if let Some(slot) = of.choose(now, self.scheduler) {
            of.take(slot, now, self.slots_an_instruction);
            self.issue(core, slot, now, code, shared)?;
        }
        let next = self.cores[core].run_ahead(now, self.scheduler, self.slots_an_instruction);
        self.next[core] = next;
        Ok(next)
    }

    #[inline(always)]
    fn issue<S: SimtBacking>(
        &mut self,
        core: usize,
        slot: u32,
        now: u64,
        code: &Code,
        shared: &mut S,
    ) -> Result<(), Deadlock> {
        let of = &mut self.cores[core];
        let may_be_alone = self.slots_an_instruction == 1;
        let left = of.left[slot as usize];
        if left > 1 {
            of.run_on(slot, left - 1, now, may_be_alone);
            return Ok(());
        }
        let warp = &mut of.slots[slot as usize];
        let inst = code.inst(warp.pc);
        let at = now + self.pipeline;
        match inst.kind {
            WarpOperation::Alu => {
                if left == 0 && inst.word > 1 {
                    of.run_on(slot, inst.word - 1, now, may_be_alone);
                    return Ok(());
                }
                of.left[slot as usize] = 0;
            }
            WarpOperation::Load | WarpOperation::Store => {
                let sectors = Sectors { words: code.words(inst), at: &warp.at };
                let place = WarpPlace { core: core as u32, slot };
                let (there, later) = self.memory.access_over(place, inst, &sectors, now, shared);
                warp.loads = warp.loads.max(if inst.kind == WarpOperation::Load { there } else { 0 });
                warp.later += later;
            }
            WarpOperation::Lock => {
                let me = (core as u32, slot);
                let other =
                    |lock: &u32| self.locks.get(lock).copied().filter(|&holder| holder != me).map(|h| (*lock, h));
                if let Some((lock, holder)) = code.words(inst).iter().find_map(other) {
                    self.spins += 1;
                    let tag = warp.tag;
                    of.schedule(slot, at, now);
                    if self.spins > SPINS {
                        let holder = self.cores[holder.0 as usize].slots[holder.1 as usize].tag;
                        return Err(Deadlock { now, lock, holder, warp: tag });
                    }
                    return Ok(());
                }
                self.locks.extend(code.words(inst).iter().map(|&lock| (lock, me)));
            }
            WarpOperation::Unlock => code.words(inst).iter().for_each(|lock| {
                self.locks.remove(lock);
            }),
        }
        self.spins = 0;
        warp.pc += 1;
        if S::IS_SHARED && warp.later > 0 && (warp.pc == warp.to || code.inst(warp.pc).waits) {
            (warp.loads, warp.put_by) = (warp.loads.max(at), true);
            of.apart += 1;
            return Ok(());
        }
        self.schedule_next(core, slot, at, now, code);
        Ok(())
    }

    /// The next instruction of warp `slot`, or its end, can go from `at` on, and when its loads are back if it waits for them.
    #[inline(always)]
    fn schedule_next(&mut self, core: usize, slot: u32, mut at: u64, now: u64, code: &Code) -> u64 {
        let of = &mut self.cores[core];
        let warp = &mut of.slots[slot as usize];
        if warp.pc == warp.to {
            of.ending |= 1 << slot;
            at = at.max(warp.loads);
        } else {
            let next = code.inst(warp.pc);
            if next.waits {
                at = at.max(warp.loads);
            }
            if next.enters {
                self.member_clocks[usize::from(warp.member)] += at - warp.entered;
                (warp.member, warp.entered) = (next.member() as u8, at);
            }
        }
        of.schedule(slot, at, now);
        at
    }

    /// Memory has answered at clock `now` what it was asked for under `ticket`, which comes at `at`: warps that were put by for it go
    /// on.
    pub fn answered(&mut self, ticket: Ticket, at: Ps, now: u64, code: &Code) {
        let mut told = std::mem::take(&mut self.told);
        self.memory.answered(ticket, at, &mut told);
        for (WarpPlace { core, slot }, there) in told.drain(..) {
            let of = &mut self.cores[core as usize];
            let warp = &mut of.slots[slot as usize];
            warp.loads = warp.loads.max(there);
            warp.later -= 1;
            if warp.later == 0 && warp.put_by {
                warp.put_by = false;
                of.apart -= 1;
                let from = warp.loads.max(now + 1);
                let at = self.schedule_next(core as usize, slot, from, now, code);
                // What is far ahead waits in the coarse wheel, which is looked at where its place begins.
                let wakes = if at - now < WHEEL { at } else { (at / WHEEL).min(now / WHEEL + WHEEL - 1) * WHEEL };
                self.next[core as usize] = self.next[core as usize].min(wakes);
                self.soonest = self.soonest.min(wakes);
            }
        }
        self.told = told;
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
