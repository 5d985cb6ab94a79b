//! Other programs on the machine: the control plane beside a user plane, or a tenant. Each keeps a core of its own busy
//! with loads and stores of random lines of its working set, at a given pace or as fast as memory lets it, all the time
//! or in turns. It shares LLC, DRAM and what lies between with packet cores, in class of service 0 ("everyone else") unless
//! `machine.clos` says otherwise.
//!
//! One of kind `storage` reads what a device writes into memory: [`super::storage`].
//!
//! One of kind `control` reads packet cores' counters and writes their tables: [`super::control_plane`].
//!
//! Left out: what the program computes, shared data with packet cores but for that, and moves from core to core. Working sets of real
//! control planes are not published; 5GC2ache, section 3.1, measures their LLC occupancy below 500 KB.

use super::control_plane::{ControlAgenda, ControlCounters, ControlPlane, ControlTables};
use super::storage::StorageCounters;
use crate::scenario::clos::{ClosSpecs, held, of_neighbour};
use crate::scenario::neighbours::{lines, lines_of_all};
use crate::scenario::{NeighbourKind, NeighbourSpec};
use machine::cores::{Core, CoreSpec, CoreStep};
use machine::memory::{Hierarchy, LevelCounters, MemoryCounters, SnoopCounters};
use machine::nic::{NEIGHBOURS, ServerLayout};
use machine::{MachineError, Response};
use probe::{Access, Probe, Ref};
use rand::RngExt;
use rand_pcg::Pcg64;
use units::{Clos, CoreId, LINE_BYTES, Ps, Ticket};

/// References that a core replays before it looks at the clock.
const STINT: u64 = 32;
/// Instructions around a reference: assumed, as of a loop over a hash table.
const INSTRUCTIONS: u32 = 12;
const SITE: u16 = 60_100;

/// What a neighbour did.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    derive_more::AddAssign,
    derive_more::Sub,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct NeighbourCounters {
    /// References.
    pub references: u64,
    /// Its lookups in the LLC.
    pub llc: LevelCounters,
    /// Of a control plane.
    pub control: ControlCounters,
    /// Of a storage device.
    pub storage: StorageCounters,
}

/// A block that a core reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct BlockRead {
    block: u32,
    /// Its lines before this one have been read.
    line: u64,
}

/// A core of a neighbour.
#[derive(Clone)]
pub(crate) struct Neighbour {
    core: Core,
    spec: NeighbourSpec,
    /// Which of the scenario's neighbours it belongs to.
    pub(crate) of: usize,
    first_line: u64,
    started: Ps,
    /// For an answer of memory.
    waits: bool,
    /// A stint in detail has begun and not ended.
    under_way: bool,
    /// It has been in detail since it began.
    in_detail: bool,
    /// How long the one took that ended last, until asked for.
    took: Option<Ps>,
    random: Pcg64,
    counters: NeighbourCounters,
    /// Of a control plane: what it is to do.
    agenda: ControlAgenda,
    /// See `agenda`; none of other programs.
    control: Option<Box<ControlPlane>>,
    /// References of the stint that is under way.
    references: u64,
    /// Of a storage device's: what it reads, all of it once it is done.
    reading: Option<BlockRead>,
}

state::state!(Neighbour {
    values: [started, waits, under_way, in_detail, took, random, counters, agenda, references, reading],
    arrays: [],
    parts: [core],
    built: [spec, of, first_line, control],
});

impl Neighbour {
    /// One for each core that `neighbours` take, with numbers behind those of packet cores; control planes work on `tables`. `random` gives a stream a core.
    ///
    /// # Errors
    /// A core that cannot be.
    pub(crate) fn of_all(
        neighbours: &[NeighbourSpec],
        classes: &ClosSpecs,
        core: &CoreSpec,
        tables: &ControlTables,
        mut random: impl FnMut(u32) -> Pcg64,
    ) -> Result<Vec<Neighbour>, MachineError> {
        let mut all = Vec::new();
        for (of, (spec, own)) in neighbours.iter().zip(lines_of_all(neighbours)).enumerate() {
            for nth in 0..spec.cores {
                let number = all.len() as u32;
                let id = CoreId((tables.cores + number) as u16);
                let clos = of_neighbour(classes, spec);
                let mut core = Core::new(&held(classes, clos, core), id, "machine.core")?;
                core.set_clos(clos);
                all.push(Neighbour {
                    core,
                    spec: spec.clone(),
                    of,
                    first_line: own.start
                        + if spec.kind == NeighbourKind::Storage { 0 } else { u64::from(nth) * lines(spec) },
                    started: Ps::ZERO,
                    waits: false,
                    under_way: false,
                    in_detail: false,
                    took: None,
                    random: random(number),
                    counters: NeighbourCounters::default(),
                    agenda: ControlAgenda::default(),
                    control: (spec.kind == NeighbourKind::Control).then(|| Box::new(ControlPlane::new(spec, tables))),
                    references: 0,
                    reading: None,
                });
            }
        }
        Ok(all)
    }

    /// What it did so far.
    pub(crate) fn counters(&self) -> NeighbourCounters {
        self.counters
    }

    /// Its class of service from now on.
    pub(crate) fn set_clos(&mut self, clos: Clos) {
        self.core.set_clos(clos);
    }

    /// When it begins: neighbours are not in step.
    pub(crate) fn begin(&mut self) -> Ps {
        if let Some(control) = &self.control {
            (self.agenda, self.started) = control.begin(&mut self.random);
            self.record();
            return self.started;
        }
        if self.spec.kind == NeighbourKind::Storage {
            return self.started;
        }
        self.started = Ps(self.random.random_range(0..self.stint().0.max(self.spec.period.ps().0).max(1)));
        self.record();
        self.started
    }

    /// Whether it reads blocks of a storage device, and has none that is not read.
    pub(crate) fn wants_block(&self) -> bool {
        let is_read = |read: BlockRead| read.line * LINE_BYTES == self.spec.storage().block;
        self.spec.kind == NeighbourKind::Storage && !self.under_way && self.reading.is_none_or(is_read)
    }

    /// The block that it has read, if it has not been told yet.
    pub(super) fn block_read(&mut self) -> Option<u32> {
        self.reading.take().map(|read| read.block)
    }

    /// Reads `block` from `now` on.
    pub(super) fn read_block(&mut self, block: u32, now: Ps) {
        self.reading = Some(BlockRead { block, line: 0 });
        self.started = now;
        self.record();
    }

    /// Goes on at `now`, up to `horizon`; when to be called again, or [`None`] if memory answers later. What it does is
    /// no work of packets, and does not count among what memory does for them.
    pub(crate) fn step(&mut self, memory: &mut Hierarchy, layout: &ServerLayout, now: Ps, horizon: Ps) -> Option<Ps> {
        self.in_detail |= !self.under_way;
        self.under_way = true;
        let (before, snooped) = (memory.counters(), memory.snoop_counters());
        let at = loop {
            match self.core.step(memory, layout, now, horizon) {
                CoreStep::Done(at) => {
                    self.took = self.in_detail.then_some(at.max(now) - self.started);
                    (self.under_way, self.in_detail) = (false, false);
                    break Some(self.rest(at.max(now)));
                }
                CoreStep::At(at) => break Some(at.max(now)),
                CoreStep::Wait => break None,
                // It takes no locks, and nobody waits for it.
                CoreStep::Lock(_, at) => self.core.grant(at),
                CoreStep::Unlock(..) => {}
            }
        };
        self.waits = at.is_none();
        self.count_apart(memory, before, snooped);
        at
    }

    /// Makes the references of its next stint at `now`, the functional way; it takes `took`, or what its instructions take. When to
    /// be called again.
    pub(crate) fn warm(&mut self, memory: &mut Hierarchy, layout: &ServerLayout, now: Ps, took: Option<Ps>) -> Ps {
        let first = self.core.instructions();
        let (before, snooped) = (memory.counters(), memory.snoop_counters());
        self.core.warm(&mut memory.warm(), layout, now);
        self.count_apart(memory, before, snooped);
        let took = took.unwrap_or(self.core.time_of(self.core.instructions() - first));
        self.rest(now + took.max(Ps(1)))
    }

    /// What memory has done since it had counted `before` and `snooped` was for this neighbour.
    fn count_apart(&mut self, memory: &mut Hierarchy, before: MemoryCounters, snooped: Option<SnoopCounters>) {
        let did = memory.set_counters(before);
        memory.set_snoop_counters(snooped);
        self.counters.llc.hits += did.llc.hits - before.llc.hits;
        self.counters.llc.misses += did.llc.misses - before.llc.misses;
        if self.control.is_some() {
            self.counters.control.invalidated += did.invalidations - before.invalidations;
            self.counters.control.taken += did.snoops - before.snoops;
        }
    }

    /// What it is at goes on with a memory that answers at once.
    pub(crate) fn leave_detail(&mut self) {
        self.in_detail = false;
    }

    /// Whether a stint in detail has begun and not ended.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// How long a stint in detail took that has ended since this was asked last.
    pub(crate) fn took(&mut self) -> Option<Ps> {
        self.took.take()
    }

    /// Memory has answered; says whether it goes on with that.
    pub(crate) fn answered(&mut self, ticket: Ticket, response: &Response) -> bool {
        self.core.complete(ticket, response);
        std::mem::take(&mut self.waits)
    }

    fn stint(&self) -> Ps {
        Ps(self.spec.every.ps().0 * STINT)
    }

    /// A stint has ended at `at`: when the next one begins.
    fn rest(&mut self, at: Ps) -> Ps {
        self.counters.references += self.references;
        if let Some(control) = &self.control {
            self.started = control.done(&mut self.agenda, at, &mut self.random, &mut self.counters.control);
            self.record();
            return self.started;
        }
        if let Some(reading) = &mut self.reading {
            reading.line += self.references;
            self.started = at;
            self.record();
            return at;
        }
        let mut next = at.max(self.started + self.stint());
        let period = self.spec.period.ps().0;
        if period > 0 {
            let within = next.0 % period;
            if within as f64 >= self.spec.busy * period as f64 {
                next = Ps(next.0 - within + period);
            }
        }
        self.started = next;
        self.record();
        next
    }

    /// Records the next stint, to be replayed from `started` on.
    fn record(&mut self) {
        let lines = lines(&self.spec);
        let script = self.core.script();
        script.clear();
        if let Some(control) = &self.control {
            self.references = control.record(&mut self.agenda, &mut self.random, script);
            self.core.start([], self.started);
            return;
        }
        if let Some(BlockRead { block, line }) = self.reading {
            let of_block = self.spec.storage().block / LINE_BYTES;
            self.references = STINT.min(of_block - line);
            for line in line..line + self.references {
                let at = self.first_line + u64::from(block) * of_block + line;
                script.touch(Ref::load(NEIGHBOURS, at * LINE_BYTES, 8, SITE));
                script.work(SITE, INSTRUCTIONS);
            }
            self.core.start([], self.started);
            return;
        }
        self.references = STINT;
        for _ in 0..STINT {
            let line = self.first_line + self.random.random_range(0..lines);
            let load = Ref::load(NEIGHBOURS, line * LINE_BYTES, 8, SITE);
            let store = self.random.random_bool(self.spec.stores);
            let r = if store { load.with_access(Access::Store) } else { load };
            let chained = self.random.random_bool(self.spec.chained);
            script.touch(if chained { r.after(1) } else { r });
            script.work(SITE, INSTRUCTIONS);
        }
        self.core.start([], self.started);
    }
}
