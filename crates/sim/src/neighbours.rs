//! Other programs on the machine: the control plane beside a user plane, or a tenant. Each keeps a core of its own busy
//! with loads and stores of random lines of its working set, at a given pace or as fast as memory lets it, all the time
//! or in turns. It shares LLC, DRAM and what lies between with packet cores, in class of service 0 ("everyone else") unless
//! `machine.clos` says otherwise.
//!
//! Left out: what the program computes, shared data with packet cores, and moves from core to core. Working sets of real
//! control planes are not published; 5GC2ache, section 3.1, measures their LLC occupancy below 500 KB.

use std::ops::Range;

use crate::clos::{self, Classes};
use machine::cores::{Core, CoreSpec, Step};
use machine::memory::{Hierarchy, LevelCounters};
use machine::nic::{NEIGHBOURS, ServerLayout};
use machine::{MachineError, Response};
use probe::{Access, Probe, Ref, RegionSpec, Sharing};
use rand::RngExt;
use rand_pcg::Pcg64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Clos, CoreId, LINE_BYTES, Ps, Size, Span, Ticket};

/// A program beside the packet functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NeighbourSpec {
    /// A name for people.
    #[serde(default = "control_plane")]
    pub name: String,
    /// Cores that it keeps busy, beside `machine.cores`.
    #[serde(default = "one")]
    pub cores: u32,
    /// Bytes that each of its cores works on, apart from each other.
    pub working_set: Size,
    /// From one reference of a core to its next; 0 for as fast as memory lets it.
    #[serde(default)]
    pub every: Span,
    /// The share of references that are stores, 0 to 1.
    #[serde(default = "fifth")]
    pub stores: f64,
    /// The share of references that wait for the one before, 0 to 1.
    #[serde(default = "half")]
    pub chained: f64,
    /// It works for a stretch of each period and sleeps for the rest; 0 for always.
    #[serde(default)]
    pub period: Span,
    /// That stretch, as a share of the period.
    #[serde(default = "whole")]
    pub busy: f64,
}

fn control_plane() -> String {
    "control plane".into()
}
fn one() -> u32 {
    1
}
fn fifth() -> f64 {
    0.2
}
fn half() -> f64 {
    0.5
}
fn whole() -> f64 {
    1.0
}

/// References that a core replays before it looks at the clock.
const STINT: u64 = 32;
/// Instructions around a reference: assumed, as of a loop over a hash table.
const INSTRUCTIONS: u32 = 12;
const SITE: u16 = 60_100;

impl NeighbourSpec {
    /// Checks the ranges; the message begins with the field.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        if !(1..=64).contains(&self.cores) {
            return Err(("cores", format!("{}: allowed are 1 to 64", self.cores)));
        }
        if !(4096..=1 << 34).contains(&self.working_set.bytes()) {
            return Err(("working_set", format!("{}: allowed are 4 KiB to 16 GiB", self.working_set)));
        }
        for (field, share) in [("stores", self.stores), ("chained", self.chained)] {
            if !(0.0..=1.0).contains(&share) {
                return Err((field, format!("{share}: allowed is a share of 0 to 1")));
            }
        }
        if !(self.busy > 0.0 && self.busy <= 1.0) {
            return Err(("busy", format!("{}: allowed is a share above 0, up to 1", self.busy)));
        }
        for (field, span) in [("every", self.every), ("period", self.period)] {
            if span.ps() > Ps::from_ns(1_000_000_000) {
                return Err((field, format!("{span}: allowed are 0 to 1 s")));
            }
        }
        Ok(())
    }
}

/// Cores that `neighbours` take in all.
pub fn cores(neighbours: &[NeighbourSpec]) -> u32 {
    neighbours.iter().map(|n| n.cores).sum()
}

/// The memory that they work on.
pub fn region(neighbours: &[NeighbourSpec]) -> Option<RegionSpec> {
    let bytes = neighbours.iter().map(|n| u64::from(n.cores) * lines(n) * LINE_BYTES).sum();
    (bytes > 0).then(|| RegionSpec { id: NEIGHBOURS, name: "neighbours".into(), bytes, sharing: Sharing::Shared })
}

/// The lines of each in that memory, from its first on.
pub(crate) fn lines_of_all(neighbours: &[NeighbourSpec]) -> Vec<Range<u64>> {
    let mut first = 0;
    let each = neighbours.iter().map(|spec| {
        let from = first;
        first += u64::from(spec.cores) * lines(spec);
        from..first
    });
    each.collect()
}

fn lines(spec: &NeighbourSpec) -> u64 {
    spec.working_set.bytes().div_ceil(LINE_BYTES)
}

/// What a neighbour did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeighbourCounters {
    /// References.
    pub references: u64,
    /// Its lookups in the LLC.
    pub llc: LevelCounters,
}

impl std::ops::AddAssign for NeighbourCounters {
    fn add_assign(&mut self, other: NeighbourCounters) {
        self.references += other.references;
        self.llc.hits += other.llc.hits;
        self.llc.misses += other.llc.misses;
    }
}

impl std::ops::Sub for NeighbourCounters {
    type Output = NeighbourCounters;
    /// What was counted since `rhs`, an earlier state of the same counters.
    fn sub(self, rhs: NeighbourCounters) -> NeighbourCounters {
        NeighbourCounters { references: self.references - rhs.references, llc: self.llc - rhs.llc }
    }
}

/// A core of a neighbour.
pub(crate) struct Neighbour {
    core: Core,
    spec: NeighbourSpec,
    /// Which of the scenario's neighbours it belongs to.
    pub(crate) of: usize,
    first_line: u64,
    started: Ps,
    /// For an answer of memory.
    waits: bool,
    random: Pcg64,
    counters: NeighbourCounters,
}

impl Neighbour {
    /// One for each core that `neighbours` take, with numbers from `first` on. `random` gives a stream a core.
    ///
    /// # Errors
    /// A core that cannot be.
    pub(crate) fn of_all(
        neighbours: &[NeighbourSpec],
        classes: &Classes,
        core: &CoreSpec,
        first: u32,
        mut random: impl FnMut(u32) -> Pcg64,
    ) -> Result<Vec<Neighbour>, MachineError> {
        let mut all = Vec::new();
        let mut first_line = 0;
        for (of, spec) in neighbours.iter().enumerate() {
            for _ in 0..spec.cores {
                let number = all.len() as u32;
                let id = CoreId((first + number) as u16);
                let mut core = Core::new(core, id, "machine.core")?;
                core.set_clos(clos::of_neighbour(classes, spec));
                all.push(Neighbour {
                    core,
                    spec: spec.clone(),
                    of,
                    first_line,
                    started: Ps::ZERO,
                    waits: false,
                    random: random(number),
                    counters: NeighbourCounters::default(),
                });
                first_line += lines(spec);
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
        self.started = Ps(self.random.random_range(0..self.stint().0.max(self.spec.period.ps().0).max(1)));
        self.record();
        self.started
    }

    /// Goes on at `now`, up to `horizon`; when to be called again, or [`None`] if memory answers later. What it does is
    /// no work of packets, and does not count among what memory does for them.
    pub(crate) fn step(&mut self, memory: &mut Hierarchy, layout: &ServerLayout, now: Ps, horizon: Ps) -> Option<Ps> {
        let (before, sampled, snooped) = (memory.counters(), memory.sample_counters(), memory.snoop_counters());
        let at = loop {
            match self.core.step(memory, layout, now, horizon) {
                Step::Done(at) => break Some(self.rest(at.max(now))),
                Step::At(at) => break Some(at.max(now)),
                Step::Wait => break None,
                // It takes no locks, and nobody waits for it.
                Step::Lock(_, at) => self.core.grant(at),
                Step::Unlock(..) => {}
            }
        };
        self.waits = at.is_none();
        let did = memory.set_counters(before);
        memory.set_sample_counters(sampled);
        memory.set_snoop_counters(snooped);
        self.counters.llc.hits += did.llc.hits - before.llc.hits;
        self.counters.llc.misses += did.llc.misses - before.llc.misses;
        at
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
        self.counters.references += STINT;
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
