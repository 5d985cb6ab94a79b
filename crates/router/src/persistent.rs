//! The host's side of the kernel that stays: rings, posting, commits, signs of life, and the end.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use functions::Verdict;
use packet::Packet;

use crate::backend::{Backend, Commit, Committed, Watchdog, widen};
use crate::layout::{
    CONTROL_BEAT, CONTROL_STOP, CONTROL_WORDS, ENTRY_WORDS, KernelExit, KernelTables, MOST_MEMBERS, NEVER,
    RING_ENTRIES, Router, STATE_DONE, STATE_HEAD, STATE_TICKET, STATE_WORDS, STATUS_HEAD, STATUS_LEFT, STATUS_MOVES,
    STATUS_PLACE, STATUS_ROUNDS, STATUS_WORDS, Task, WARP_LANES, generation_of, make_word, unused_word,
    word_generation, word_task,
};
use crate::machine::KernelMachine;
use crate::memory::{Fragments, PacketMemory, SharedMemory};
use crate::program::{MemberWork, Tally, verdict_of};
use crate::protocol::Ledger;
use crate::updates::{ChangesMade, ChangingRoutes, RouteChange, TableUpdates, unfit};
use crate::{RouterError, RouterProgram};

/// Packets that are laid in between two signs of life.
const PUTS_A_BEAT: u64 = 4096;

/// Polls that find nothing between two questions whether the kernel failed: each is a call of the driver, and takes longer than
/// a task.
const IDLE_POLLS_A_CHECK: u32 = 1 << 12;

/// How many tasks the dispatcher asks the bus for in one round. It begins with `least`, doubles that where it has found all, and
/// halves it where it has found no more than half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoundTasks {
    /// At least: 32, 64 or 128.
    pub least: u32,
    /// At most, no less than `least`.
    pub most: u32,
}

impl Default for RoundTasks {
    fn default() -> RoundTasks {
        RoundTasks { least: 32, most: 128 }
    }
}

impl RoundTasks {
    /// Reads `64`, or `32-128`.
    ///
    /// # Errors
    /// Anything else, and other numbers than 32, 64 and 128.
    pub fn parse(text: &str) -> Result<RoundTasks, RouterError> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let number = |part: &str| part.trim().parse().ok().filter(|tasks| [32, 64, 128].contains(tasks));
        match (number(least), number(most)) {
            (Some(least), Some(most)) if least <= most => Ok(RoundTasks { least, most }),
            _ => {
                let allowed = "must be 32, 64 or 128, or two of them in order, as 32-128";
                Err(RouterError::Setting { what: "tasks a round", came: text.into(), allowed })
            }
        }
    }

    /// In warps' worth of words.
    fn parts(self) -> (u32, u32) {
        (self.least / WARP_LANES, self.most / WARP_LANES)
    }
}

/// How a persistent kernel is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSetup {
    /// Packets that fit, a power of two.
    pub slots: u64,
    /// Bytes of a frame that the kernel sees; what is beyond stays with the host.
    pub frame_bytes: usize,
    /// How tasks are committed.
    pub commit: Commit,
    /// How long host and kernel wait for each other before they give up.
    pub deadline: Duration,
    /// What the dispatcher reads at a time.
    pub round: RoundTasks,
    /// The number of the first task: 0 but in tests of what happens when generations wrap.
    pub base: u64,
}

impl Default for KernelSetup {
    fn default() -> KernelSetup {
        KernelSetup {
            slots: RING_ENTRIES * u64::from(WARP_LANES),
            frame_bytes: 2048,
            commit: Commit::Device,
            deadline: Duration::from_secs(5),
            round: RoundTasks::default(),
            base: 0,
        }
    }
}

/// A kernel that stays on `M`.
pub struct Persistent<M: KernelMachine> {
    machine: M,
    /// Its tables are read by the kernel, unless they change.
    program: Option<RouterProgram>,
    updates: Option<TableUpdates>,
    tally: Tally,
    memory: PacketMemory,
    fragments: Fragments,
    fifo: SharedWords,
    control: SharedWords,
    status: SharedWords,
    commits: SharedWords,
    ledger: Ledger,
    packets: Vec<Packet>,
    watchdog: Watchdog,
    commit: Commit,
    beat: u64,
    idle: u32,
    stopped: bool,
    /// Packets were laid into the device's memory beforehand, and are fetched at the end.
    prepared: bool,
}

/// Words of 8 bytes that host and kernel see.
struct SharedWords {
    memory: SharedMemory,
    words: NonNull<AtomicU64>,
}

// SAFETY: atomics.
unsafe impl Send for SharedWords {}

impl SharedWords {
    fn new(machine: &mut impl KernelMachine, what: &str, words: usize) -> Result<SharedWords, RouterError> {
        let memory = machine.shared(what, words * 8)?;
        Ok(SharedWords { memory, words: memory.host.cast() })
    }

    /// Word `at`, which must be one.
    fn at(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.memory.bytes / 8);
        // SAFETY: within the memory, which is aligned to a page and lives as long as `self`.
        unsafe { self.words.add(at).as_ref() }
    }

    fn fill(&self, value: impl Fn(u64) -> u64) {
        for place in 0..self.memory.bytes / 8 {
            self.at(place).store(value(place as u64), Ordering::Relaxed);
        }
    }
}

impl<M: KernelMachine> Persistent<M> {
    /// Allocates, then launches: nothing is allocated while the kernel runs.
    ///
    /// # Errors
    /// No memory, slots that are no power of two, a kernel that cannot be launched.
    pub fn new(machine: M, program: &RouterProgram, setup: KernelSetup) -> Result<Persistent<M>, RouterError> {
        let (mut made, _) = Persistent::launched(machine, program, setup)?;
        made.program = Some(program.clone());
        Ok(made)
    }

    /// `routes`, which [`Backend::change`] changes while packets go; `before` and `after` are what else a chain has on either side.
    ///
    /// # Errors
    /// As [`Persistent::new`] and [`RouterProgram::chain`]; a lookup of another structure than DIR-24-8.
    pub fn with_updates(
        mut machine: M,
        routes: &ChangingRoutes,
        before: &[RouterProgram],
        after: &[RouterProgram],
        setup: KernelSetup,
    ) -> Result<Persistent<M>, RouterError> {
        machine.open_tables()?;
        let own = routes.unshared()?;
        let members: Vec<RouterProgram> =
            before.iter().cloned().chain([own.program()]).chain(after.iter().cloned()).collect();
        // Programs before may be chains themselves.
        let place = before.iter().map(|program| program.members().count()).sum::<usize>();
        let (mut made, tables) = Persistent::launched(machine, &RouterProgram::chain(members)?, setup)?;
        made.updates = Some(TableUpdates::new(own, &tables[place])?);
        Ok(made)
    }

    /// With the tables of its members.
    fn launched(
        mut machine: M,
        program: &RouterProgram,
        setup: KernelSetup,
    ) -> Result<(Persistent<M>, [KernelTables; MOST_MEMBERS]), RouterError> {
        let memory = PacketMemory::new(&mut machine, program, setup.slots, setup.frame_bytes)?;
        let any = program.is_any();
        let entries = RING_ENTRIES as usize;
        let unused = |place| unused_word(place, setup.base, RING_ENTRIES);
        let fifo = SharedWords::new(&mut machine, "the task FIFO", entries)?;
        let commits = SharedWords::new(&mut machine, "the delay commit queue", entries)?;
        let control = SharedWords::new(&mut machine, "control words", CONTROL_WORDS)?;
        let status = SharedWords::new(&mut machine, "status words", STATUS_WORDS)?;
        fifo.fill(unused);
        commits.fill(unused);
        control.at(CONTROL_STOP).store(NEVER, Ordering::Relaxed);
        status.at(STATUS_HEAD).store(setup.base, Ordering::Relaxed);
        let ring: Vec<u64> = (0..RING_ENTRIES).map(unused).collect();
        let entries: Vec<[u64; ENTRY_WORDS]> = ring.iter().map(|&word| [word, NEVER]).collect();
        let mut state = [0; STATE_WORDS];
        (state[STATE_TICKET], state[STATE_HEAD], state[STATE_DONE]) = (setup.base, setup.base, setup.base);
        let mut near = |what, words: &[u64]| {
            let at = machine.near(what, words.len() * 8)?;
            machine.write(at, words)?;
            Ok::<u64, RouterError>(at)
        };
        let (tasks, done) = (near("published tasks", entries.as_flattened())?, near("the delay commit queue", &ring)?);
        let state = near("counters", &state)?;
        let (least_parts, most_parts) = setup.round.parts();
        let router = Router {
            program: program.place(&mut machine)?,
            packets: memory.layout(),
            fifo: fifo.memory.device,
            control: control.memory.device,
            status: status.memory.device,
            commits: commits.memory.device,
            tasks,
            done,
            state,
            base: setup.base,
            deadline_ns: setup.deadline.as_nanos() as u64,
            warps: machine.warps(any),
            commit: setup.commit as u32,
            least_parts,
            most_parts,
        };
        machine.launch(&router, any)?;
        let made = Persistent {
            machine,
            tally: Tally::new(program),
            program: None,
            updates: None,
            packets: vec![Packet::default(); memory.count as usize],
            memory,
            fragments: Fragments::default(),
            fifo,
            control,
            status,
            commits,
            ledger: Ledger::new(RING_ENTRIES, setup.base),
            watchdog: Watchdog::new(setup.deadline),
            commit: setup.commit,
            beat: 0,
            idle: 0,
            stopped: false,
            prepared: false,
        };
        Ok((made, router.program.member))
    }

    /// Where it runs.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The shader core that dispatches, once it does.
    pub fn dispatcher(&self) -> u64 {
        self.status.at(STATUS_PLACE).load(Ordering::Acquire)
    }

    /// Rounds in which the dispatcher found a task, and moves of the head of the delay commit queue in the device's memory.
    pub fn counts(&self) -> (u64, u64) {
        let count = |at| self.status.at(at).load(Ordering::Relaxed);
        (count(STATUS_ROUNDS), count(STATUS_MOVES))
    }

    /// A sign of life. Whoever does not poll must give it.
    pub fn beat(&mut self) {
        self.beat += 1;
        self.control.at(CONTROL_BEAT).store(self.beat, Ordering::Relaxed);
    }

    fn left(&self) -> Option<KernelExit> {
        KernelExit::of(self.status.at(STATUS_LEFT).load(Ordering::Acquire))
    }

    fn give(&mut self, number: u64, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        let backend = self.machine.name();
        let (oldest, posted) = (self.ledger.oldest(), self.ledger.posted());
        let what = || format!("task {number} was committed, and {oldest} to {posted} are uncommitted");
        let task = self.ledger.commit(number).ok_or_else(|| RouterError::Protocol { backend, what: what() })?;
        if !self.prepared {
            self.memory.download(&mut self.machine, task.first, u64::from(task.count))?;
        }
        out.push(Committed { first: task.first, count: task.count });
        Ok(())
    }
}

impl<M: KernelMachine> Backend for Persistent<M> {
    fn name(&self) -> &'static str {
        self.machine.name()
    }

    fn slots(&self) -> u64 {
        self.memory.count
    }

    fn put(&mut self, number: u64, packet: &mut Packet) {
        // Whoever lays in many packets before the first is posted is alive all the while.
        if number.is_multiple_of(PUTS_A_BEAT) {
            self.beat();
        }
        // SAFETY: the slot is free.
        unsafe { self.memory.put(number, packet) };
        std::mem::swap(&mut self.packets[(number & (self.memory.count - 1)) as usize], packet);
    }

    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError> {
        let Some(number) = self.ledger.room() else { return Ok(false) };
        if self.ledger.uncommitted() == 0 {
            self.watchdog.calm();
        }
        if !self.prepared {
            self.memory.upload(&mut self.machine, first, u64::from(count))?;
        }
        let task = Task { first, count };
        self.ledger.post(task);
        let word = make_word(generation_of(number, RING_ENTRIES), task);
        self.fifo.at((number % RING_ENTRIES) as usize).store(word, Ordering::Release);
        Ok(true)
    }

    fn room(&self) -> u64 {
        self.ledger.free()
    }

    fn recall(&mut self, number: u64, packet: &mut Packet) -> bool {
        // The kernel works on the copy in its slot.
        std::mem::swap(&mut self.packets[(number & (self.memory.count - 1)) as usize], packet);
        true
    }

    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        self.beat();
        if let Some(updates) = &mut self.updates {
            updates.step(&mut self.machine, self.ledger.posted(), self.ledger.oldest())?;
        }
        let before = out.len();
        match self.commit {
            Commit::Device => {
                let head = self.status.at(STATUS_HEAD).load(Ordering::Acquire);
                for number in self.ledger.oldest()..head {
                    self.give(number, out)?;
                }
            }
            Commit::Host => loop {
                let number = self.ledger.oldest();
                let word = self.commits.at((number % RING_ENTRIES) as usize).load(Ordering::Acquire);
                if word_generation(word) != generation_of(number, RING_ENTRIES) {
                    break;
                }
                self.give(number, out)?;
            },
            Commit::Unordered => loop {
                let place = self.ledger.committed();
                let word = self.commits.at((place % RING_ENTRIES) as usize).load(Ordering::Acquire);
                if word_generation(word) != generation_of(place, RING_ENTRIES) {
                    break;
                }
                self.give(widen(word_task(word).first, self.ledger.oldest()), out)?;
            },
        }
        if out.len() > before {
            self.watchdog.calm();
            return Ok(());
        }
        let backend = self.machine.name();
        if let Some(why) = self.left() {
            return Err(RouterError::Left { backend, why });
        }
        self.idle = self.idle.wrapping_add(1);
        if self.idle.is_multiple_of(IDLE_POLLS_A_CHECK) {
            self.machine.check()?;
        }
        if self.ledger.uncommitted() == 0 {
            self.watchdog.calm();
        } else if let Some(waited) = self.watchdog.bark() {
            // One that failed says more than one that is silent.
            self.machine.check()?;
            return Err(RouterError::Silent { backend, uncommitted: self.ledger.uncommitted(), waited });
        }
        Ok(())
    }

    fn prepare(&mut self, packets: u64) -> Result<(), RouterError> {
        self.prepared = true;
        self.memory.upload(&mut self.machine, 0, packets)
    }

    fn settle(&mut self, packets: u64) -> Result<(), RouterError> {
        self.memory.download(&mut self.machine, 0, packets)
    }

    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        std::mem::swap(&mut self.packets[(number & (self.memory.count - 1)) as usize], packet);
        // SAFETY: the packet was committed.
        let word = unsafe { self.memory.take(number, packet, &mut self.fragments) };
        self.tally.count(word);
        let what = || format!("packet {number} was committed with verdict {word:#x}");
        verdict_of(word).ok_or_else(|| RouterError::Protocol { backend: self.machine.name(), what: what() })
    }

    fn change(&mut self, change: RouteChange) -> Result<(), RouterError> {
        self.updates.as_mut().ok_or_else(unfit)?.ask(change);
        Ok(())
    }

    fn changes(&self) -> ChangesMade {
        self.updates.as_ref().map(TableUpdates::made).unwrap_or_default()
    }

    fn refused_changes(&self) -> &[u64] {
        self.updates.as_ref().map(TableUpdates::refused).unwrap_or_default()
    }

    fn fragments(&self) -> &[Packet] {
        self.fragments.all()
    }

    fn shares(&self) -> Vec<MemberWork> {
        self.tally.shares()
    }

    fn cut(&self) -> u64 {
        self.memory.cut
    }

    fn stop(&mut self) -> Result<(), RouterError> {
        if std::mem::replace(&mut self.stopped, true) {
            return Ok(());
        }
        self.control.at(CONTROL_STOP).store(self.ledger.posted(), Ordering::Release);
        let (asked, backend) = (Instant::now(), self.machine.name());
        let why = loop {
            self.beat();
            if let Some(why) = self.left() {
                break why;
            }
            self.machine.check()?;
            if asked.elapsed() > self.watchdog.deadline() {
                // The kernel may still read its tables.
                std::mem::forget(self.program.clone());
                self.machine.join(Duration::ZERO)?;
                return Err(RouterError::Stuck { backend, waited: asked.elapsed() });
            }
            std::thread::yield_now();
        };
        self.machine.join(self.watchdog.deadline())?;
        match why {
            KernelExit::Asked => Ok(()),
            why => Err(RouterError::Left { backend, why }),
        }
    }
}

impl<M: KernelMachine> Drop for Persistent<M> {
    fn drop(&mut self) {
        // Whoever did not ask does not want to know.
        let _ = self.stop();
    }
}
