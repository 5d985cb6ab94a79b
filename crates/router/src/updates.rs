//! Routes that change while a kernel looks up in their tables.
//!
//! The host has tables of its own. It makes a change there, and then writes what the change wrote into the kernel's tables: runs
//! of equal entries, in order. Each entry is one aligned word, so a packet sees the old one or the new one. What is more than a
//! word is a group of tbl8, and what it says must never be mixed:
//!
//! 1. a group that no entry leads to is written first, and **linked only after a grace**: until all tasks that were posted before
//!    it had arrived are committed. Whoever runs then was posted later, and has seen it when it acquired its task;
//! 2. a group that no entry leads to any more **rests until a grace is over**, before it may be used again.
//!
//! So the generation that a kernel reads with acquire once a task is the one of its task: it needs no other. Nothing waits in the
//! kernel, and no table is copied.
//!
//! Source: McKenney, Slingwine, "Read-Copy Update", PDCS 1998 (a grace period is over when all who read have passed a quiescent
//! state: here the commit of their task).

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;

use functions::lookup::{Dir24_8, EntryRun, GROUP_ENTRIES, Lookup, Lpm6, NextHop};
use functions::{Forward, FunctionError};
use packet::Prefix;

use crate::layout::KernelTables;
use crate::machine::KernelMachine;
use crate::{RouterError, RouterProgram};

/// Changes that are made at once: their graces are the same.
const MOST_AT_ONCE: usize = 64;

/// A route that is added or replaced, or without a next hop removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteChange {
    /// The route's prefix.
    pub prefix: Prefix,
    /// Where it leads from now on.
    pub next_hop: Option<NextHop>,
}

/// How many changes have come how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangesMade {
    /// Begun: packets that are on their way may see them.
    pub begun: u64,
    /// Done: packets that are posted from now on see them.
    pub done: u64,
    /// Of those done, refused, since the tables have no room. They changed nothing.
    pub refused: u64,
}

/// What is to be done next: see [`UpdatePhases::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateDeed {
    /// Nothing yet.
    Wait,
    /// New groups have been seen by all: what leads to them is written.
    Link,
    /// What was written is there for all who are posted from now on.
    Seen,
    /// Nobody is in a group that was given back.
    Rested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Groups are on their way.
    Filling,
    /// Until all tasks before this one are committed.
    Hidden(u64),
    /// Entries are on their way.
    Linking,
    /// Until all tasks before this one are committed.
    Resting(u64),
}

/// In which order groups and entries are written, and how long is waited between.
#[derive(Debug)]
pub struct UpdatePhases(Phase);

impl Default for UpdatePhases {
    fn default() -> UpdatePhases {
        UpdatePhases(Phase::Idle)
    }
}

impl UpdatePhases {
    /// Whether changes may begin.
    pub fn is_idle(&self) -> bool {
        self.0 == Phase::Idle
    }

    /// Whether something is on its way of which it matters that it has arrived.
    pub fn is_writing(&self) -> bool {
        matches!(self.0, Phase::Filling | Phase::Linking)
    }

    /// New groups are being written; without any, entries are.
    pub fn begin(&mut self, has_groups: bool) {
        self.0 = if has_groups { Phase::Filling } else { Phase::Linking };
    }

    /// What is to be done, where what was written `has_arrived` or not, tasks before `posted` were posted, and all before
    /// `oldest` are committed.
    pub fn next(&mut self, has_arrived: bool, posted: u64, oldest: u64) -> UpdateDeed {
        let (next, deed) = match self.0 {
            Phase::Filling if has_arrived => (Phase::Hidden(posted), UpdateDeed::Wait),
            Phase::Hidden(until) if oldest >= until => (Phase::Linking, UpdateDeed::Link),
            Phase::Linking if has_arrived => (Phase::Resting(posted), UpdateDeed::Seen),
            Phase::Resting(until) if oldest >= until => (Phase::Idle, UpdateDeed::Rested),
            same => (same, UpdateDeed::Wait),
        };
        self.0 = next;
        deed
    }
}

/// What has routes that can change under a kernel: tables of DIR-24-8, by themselves or within forwarding.
#[derive(Clone, Debug)]
pub enum ChangingRoutes {
    /// A lookup by DIR-24-8, on a router of so many ports.
    Lookup(Lookup, u16),
    /// Forwarding. A change to a next hop that has no adjacency is refused.
    Forward(Forward),
}

impl ChangingRoutes {
    /// The same routes in tables that nobody shares.
    ///
    /// # Errors
    /// No memory.
    pub fn unshared(&self) -> Result<ChangingRoutes, FunctionError> {
        Ok(match self {
            ChangingRoutes::Lookup(lookup, ports) => ChangingRoutes::Lookup(lookup.unshared()?, *ports),
            ChangingRoutes::Forward(forward) => ChangingRoutes::Forward(forward.unshared()?),
        })
    }

    /// The program that looks up in these tables.
    pub fn program(&self) -> RouterProgram {
        match self {
            ChangingRoutes::Lookup(lookup, ports) => RouterProgram::lookup(lookup.clone(), *ports),
            ChangingRoutes::Forward(forward) => RouterProgram::forward(forward.clone()),
        }
    }

    /// The next hop of `addr`.
    pub fn next_hop(&self, addr: IpAddr) -> Option<NextHop> {
        match self {
            ChangingRoutes::Lookup(lookup, _) => lookup.next_hop(addr),
            ChangingRoutes::Forward(forward) => forward.next_hop(addr),
        }
    }

    /// Makes a change; [`None`] while anybody shares the tables, and of another structure.
    ///
    /// # Errors
    /// A change that cannot be made, and was not.
    pub fn update(&mut self, change: RouteChange) -> Option<Result<Option<NextHop>, FunctionError>> {
        match self {
            ChangingRoutes::Lookup(lookup, _) => lookup.update(change.prefix, change.next_hop),
            ChangingRoutes::Forward(forward) => forward.update(change.prefix, change.next_hop),
        }
    }

    fn tables(&mut self) -> Result<(&mut Dir24_8<u32>, &mut Lpm6), RouterError> {
        match self {
            ChangingRoutes::Lookup(lookup, _) => lookup.dir24_mut(),
            ChangingRoutes::Forward(forward) => forward.dir24_mut(),
        }
        .ok_or_else(unfit)
    }
}

/// Changes on their way to a kernel's tables.
pub(crate) struct TableUpdates {
    /// Nobody else has them.
    routes: ChangingRoutes,
    /// Where the kernel's tables are: tbl24, tbl8, and those of IPv6.
    tables: [u64; 4],
    waiting: VecDeque<RouteChange>,
    /// By table, what leads to new groups and all that is no new group.
    links: Vec<(usize, EntryRun)>,
    phases: UpdatePhases,
    made: ChangesMade,
    /// By number, in order.
    refused: Vec<u64>,
}

impl TableUpdates {
    /// Of routes that nobody shares, whose tables the kernel has as `tables` says.
    ///
    /// # Errors
    /// It is shared, or of another structure.
    pub(crate) fn new(mut routes: ChangingRoutes, tables: &KernelTables) -> Result<TableUpdates, RouterError> {
        let (v4, v6) = routes.tables()?;
        v4.follow();
        v6.follow();
        Ok(TableUpdates {
            routes,
            tables: [tables.tbl24, tables.tbl8, tables.tbl24_v6, tables.tbl8_v6],
            waiting: VecDeque::new(),
            links: Vec::new(),
            phases: UpdatePhases::default(),
            made: ChangesMade::default(),
            refused: Vec::new(),
        })
    }

    pub(crate) fn ask(&mut self, change: RouteChange) {
        self.waiting.push_back(change);
    }

    pub(crate) fn made(&self) -> ChangesMade {
        self.made
    }

    pub(crate) fn refused(&self) -> &[u64] {
        &self.refused
    }

    /// Goes on as far as it can without waiting.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn step(
        &mut self,
        machine: &mut impl KernelMachine,
        posted: u64,
        oldest: u64,
    ) -> Result<(), RouterError> {
        if self.phases.is_idle() {
            if self.waiting.is_empty() {
                return Ok(());
            }
            return self.begin(machine);
        }
        // It is a call of the driver.
        let has_arrived = self.phases.is_writing() && machine.changed()?;
        match self.phases.next(has_arrived, posted, oldest) {
            UpdateDeed::Wait => {}
            UpdateDeed::Link => {
                for (table, run) in std::mem::take(&mut self.links) {
                    self.write(machine, table, &run)?;
                }
            }
            UpdateDeed::Seen => self.made.done = self.made.begun,
            UpdateDeed::Rested => {
                let (v4, v6) = self.routes.tables()?;
                v4.end_rest();
                v6.end_rest();
            }
        }
        Ok(())
    }

    fn begin(&mut self, machine: &mut impl KernelMachine) -> Result<(), RouterError> {
        for change in self.waiting.drain(..self.waiting.len().min(MOST_AT_ONCE)) {
            // What is refused has changed nothing. Which ones are, nobody else can say: it depends on how many groups rest.
            let made = self.routes.update(change).ok_or_else(unfit)?;
            if made.is_err() {
                self.refused.push(self.made.begun);
                self.made.refused += 1;
            }
            self.made.begun += 1;
        }
        let (v4, v6) = self.routes.tables()?;
        let written = [v4.written(), v6.written()];
        let (mut fresh, mut groups) = (HashSet::new(), Vec::new());
        for (family, runs) in written.into_iter().enumerate() {
            for run in runs {
                let table = 2 * family + usize::from(run.is_tbl8);
                let group = (table, run.first / GROUP_ENTRIES);
                if run.is_fresh {
                    fresh.insert(group);
                }
                // All that these changes write to a new group, since nobody can see it before: it cannot be given back and used
                // again among them.
                let hidden = run.is_tbl8 && fresh.contains(&group);
                if hidden { groups.push((table, run)) } else { self.links.push((table, run)) }
            }
        }
        self.phases.begin(!groups.is_empty());
        let first = if groups.is_empty() { std::mem::take(&mut self.links) } else { groups };
        for (table, run) in first {
            self.write(machine, table, &run)?;
        }
        Ok(())
    }

    fn write(&self, machine: &mut impl KernelMachine, table: usize, run: &EntryRun) -> Result<(), RouterError> {
        machine.change(self.tables[table] + 4 * run.first as u64, run.entry, run.count)
    }
}

/// What cannot be updated.
pub(crate) fn unfit() -> RouterError {
    let allowed =
        "routes change under a kernel by DIR-24-8 alone, in a lookup or in forwarding whose tables nothing else shares";
    RouterError::Setting { what: "updates", came: "another function".into(), allowed }
}
