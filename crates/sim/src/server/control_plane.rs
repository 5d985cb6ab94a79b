//! A control plane beside the data plane: a thread on a core of its own that reads the counters of packet cores every so often, and
//! writes routes into the tables that packet cores look up. What that costs them is lines: those of counters go to and fro between
//! who counts and who reads, and copies of table lines are given up to who writes them.
//!
//! A route that is written anew is one of the table, each as likely, and has what it had, so that verdicts stay. Its update writes all
//! its entries (2^(24-n) of DIR-24-8's first table for a prefix of n bits, or those of a second-level group), a store a line, lowest first.
//!
//! Assumed: updates come independently of each other, at a mean rate (BGP's come in batches); each route is as likely, where in BGP a few
//! prefixes make most of the changes; the instructions of an entry and of a line of counters. Entries that longer prefixes cover are
//! written, too: an update looks at each of them. Left out: what the control plane computes and keeps besides, such as routes by
//! protocol, new groups and those given back, and waits until no reader is left (RCU).

use std::sync::Arc;

use functions::RoutePlace;
use machine::nic::STATISTICS;
use probe::{Access, Probe, Ref, Script};
use rand::RngExt;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Ps};

use crate::scenario::NeighbourSpec;

/// While it has nothing to do it looks at the clock so often.
const LOOK: Ps = Ps(1_000_000);
/// Instructions for an entry that is written: assumed, a comparison and a store in a loop.
const ENTRY_INSTRUCTIONS: u32 = 4;
/// Instructions for a line of counters, to count and to read: assumed, a load, an addition and a store for each of a few.
const COUNTERS_INSTRUCTIONS: u32 = 12;
/// Before the first entry: assumed, the route is found among those of the control plane.
const UPDATE_INSTRUCTIONS: u32 = 200;
const SITE_READ: u16 = 60_110;
const SITE_WRITE: u16 = 60_111;
const SITE_COUNT: u16 = 60_112;

/// What a control plane did.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::AddAssign, derive_more::Sub, Serialize, Deserialize,
)]
pub struct ControlCounters {
    /// Readings of all packet cores' counters.
    pub readings: u64,
    /// Routes written.
    pub updates: u64,
    /// Lines of tables written.
    pub lines: u64,
    /// Copies of other cores that were given up for that.
    pub invalidated: u64,
    /// Lines that it took from another core's private caches.
    pub taken: u64,
}

/// What control planes of a server work on.
#[derive(Clone)]
pub(crate) struct ControlTables {
    /// Routes, by what an update writes.
    pub(super) routes: Arc<[RoutePlace]>,
    /// Packet cores.
    pub(super) cores: u32,
    /// Lines of counters from one packet core's to the next.
    pub(super) stride: u32,
}

/// What a control plane is to do, and when.
#[derive(Clone)]
pub(crate) struct ControlPlane {
    tables: ControlTables,
    /// Between readings.
    interval: Option<Ps>,
    lines: u32,
    /// Between updates, in the mean.
    gap: Option<Ps>,
}

/// When it is to do what, and what it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ControlAgenda {
    reading: Ps,
    update: Ps,
    task: ControlTask,
}

/// What it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ControlTask {
    Look,
    Read,
    /// So many lines.
    Write(u64),
}

impl Default for ControlAgenda {
    fn default() -> ControlAgenda {
        ControlAgenda { reading: Ps::MAX, update: Ps::MAX, task: ControlTask::Look }
    }
}

impl ControlPlane {
    /// That of `spec`.
    pub(super) fn new(spec: &NeighbourSpec, tables: &ControlTables) -> ControlPlane {
        ControlPlane {
            tables: tables.clone(),
            interval: spec.statistics_interval.map(|span| span.ps()),
            lines: spec.counters().unwrap_or(0),
            gap: spec.routes.map(|routes| Ps::from_secs_f64(1.0 / routes)),
        }
    }

    /// What it is to do first, and when.
    pub(super) fn begin(&self, random: &mut Pcg64) -> (ControlAgenda, Ps) {
        let reading = self.interval.map_or(Ps::MAX, |interval| Ps(random.random_range(0..interval.0.max(1))));
        let update = self.gap.map_or(Ps::MAX, |gap| drawn(gap, random));
        let mut agenda = ControlAgenda { reading, update, task: ControlTask::Look };
        let next = self.next(&mut agenda, Ps::ZERO);
        (agenda, next)
    }

    /// What it was at has ended at `at`: counts it, and says when it goes on.
    pub(super) fn done(
        &self,
        agenda: &mut ControlAgenda,
        at: Ps,
        random: &mut Pcg64,
        counters: &mut ControlCounters,
    ) -> Ps {
        match agenda.task {
            ControlTask::Look => {}
            ControlTask::Read => {
                counters.readings += 1;
                agenda.reading = self.interval.map_or(Ps::MAX, |interval| agenda.reading + interval);
            }
            ControlTask::Write(lines) => {
                counters.updates += 1;
                counters.lines += lines;
                agenda.update = self.gap.map_or(Ps::MAX, |gap| agenda.update + drawn(gap, random));
            }
        }
        self.next(agenda, at)
    }

    fn next(&self, agenda: &mut ControlAgenda, at: Ps) -> Ps {
        let due = agenda.reading.min(agenda.update);
        let look = at + LOOK;
        if due > look {
            agenda.task = ControlTask::Look;
            return look;
        }
        agenda.task = if agenda.reading <= agenda.update { ControlTask::Read } else { ControlTask::Write(0) };
        due.max(at)
    }

    /// Writes into `script` what the task of `agenda` touches; how many references that is.
    pub(super) fn record(&self, agenda: &mut ControlAgenda, random: &mut Pcg64, script: &mut Script) -> u64 {
        match agenda.task {
            ControlTask::Look => 0,
            ControlTask::Read => {
                for core in 0..self.tables.cores {
                    for line in 0..self.lines {
                        let at = u64::from(core * self.tables.stride + line) * LINE_BYTES;
                        script.touch(Ref::load(STATISTICS, at, LINE_BYTES as u16, SITE_READ));
                        script.work(SITE_READ, COUNTERS_INSTRUCTIONS);
                    }
                }
                u64::from(self.tables.cores) * u64::from(self.lines)
            }
            ControlTask::Write(_) => {
                let routes = &self.tables.routes;
                if routes.is_empty() {
                    return 0;
                }
                let place = routes[random.random_range(0..routes.len())];
                script.work(SITE_WRITE, UPDATE_INSTRUCTIONS);
                let (mut at, end) = (place.offset, place.offset + u64::from(place.bytes));
                let mut lines = 0;
                while at < end {
                    let stop = end.min((at / LINE_BYTES + 1) * LINE_BYTES);
                    let entries = (stop - at).div_ceil(u64::from(place.entry.max(1)));
                    let store = Ref::load(place.region, at, place.entry.into(), SITE_WRITE);
                    script.touch(store.with_access(Access::Store));
                    script.work(SITE_WRITE, ENTRY_INSTRUCTIONS * entries as u32);
                    (at, lines) = (stop, lines + 1);
                }
                agenda.task = ControlTask::Write(lines);
                lines
            }
        }
    }
}

/// A packet core's burst is counted in its lines of counters, `stride` of them.
pub(super) fn count_burst(core: usize, stride: u32, script: &mut Script) {
    for line in 0..u64::from(stride) {
        let at = (core as u64 * u64::from(stride) + line) * LINE_BYTES;
        script.touch(Ref::load(STATISTICS, at, 8, SITE_COUNT).with_access(Access::Store));
        script.work(SITE_COUNT, COUNTERS_INSTRUCTIONS);
    }
}

/// An exponential time with this mean.
fn drawn(mean: Ps, random: &mut Pcg64) -> Ps {
    let share: f64 = random.random();
    Ps((-(1.0 - share).ln() * mean.0 as f64) as u64)
}
