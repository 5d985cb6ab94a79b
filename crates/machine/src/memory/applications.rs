//! Applications that the LLC tells apart by their lines: slices or ways of their own, the skip selection logic, and allocation
//! bypass.
//!
//! An application is the memory that somebody works on: the tables of the packet function, or a neighbour's working set. It may
//! own slices (`placement`), be held to some ways, stay out of the LLC altogether, or begin to when its measured miss rate
//! exceeds a threshold ([`SkipLogic`]). Then its L2 misses go to memory without a look at the LLC, which has none of its lines any
//! more, and the slices that it owns go to other applications that own some, or to everyone else. Lines of other cores are
//! still looked for in the directory: what one of them has modified comes from there by the usual way, and with snooping
//! also what they have clean.
//!
//! With `bypass` a line is put into the LLC only when it leaves L2 after it was used again there, or if it was missed
//! before within as many misses of its application as the LLC has lines (what decides is which lines were reused, as in Albericio et al.,
//! MICRO 2013, "The reuse cache"). Dirty lines go to memory.
//!
//! Source of skipping and of released slices: T. Korikawa, A. Kawabata, F. He, E. Oki, IEEE Access 8, 2020, sections III and V-E.
//! CAT gives a class of service ways, and so all lines of its cores; `ways` holds the lines of an application, whoever brings them in.
//! Left out: who counts misses for the logic takes no time.

use std::ops::Range;

use probe::Request;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{Cbm, CoreId, Line, Ps};

use super::behind::Fill;
use super::exclusions::OF_AN_INCLUSIVE_LLC;
use super::llc::{FillRule, Requester};
use super::pending::Asked;
use super::placement::{SlicePlacement, owner};
use super::{Hierarchy, Inclusion, LevelCounters, Snooped, Ways};
use crate::cache::Victim;
use crate::stacked::{SkipLogic, SkipSpec, Using};
use crate::{MachineError, PrivateLookup, Reply, Response, Served};

/// An application whose lines the LLC tells from others'.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApplicationSpec {
    /// Slices that hold its lines and nobody else's, counted from the first that is left; those of everyone else when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices: Option<u32>,
    /// Ways that its lines may fill: how many, from the lowest on, or which, as text; those of who brings them in when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<Ways>,
    /// Whether its lines may be in the LLC at all.
    pub llc: bool,
    /// When to skip the LLC, by its measured miss rate; never when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<SkipSpec>,
    /// Lines that are unlikely to be used again are not put into the LLC.
    pub bypass: bool,
}

impl Default for ApplicationSpec {
    /// As if nobody told it apart.
    fn default() -> ApplicationSpec {
        ApplicationSpec { slices: None, ways: None, llc: true, skip: None, bypass: false }
    }
}

/// What was done for an application at the LLC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Sub, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationCounters {
    /// Its lookups.
    #[serde(skip)]
    pub llc: LevelCounters,
    /// L2 misses that went to memory past the LLC.
    pub skipped: u64,
    /// Lines that left L2 and were not put into the LLC.
    pub bypassed: u64,
    /// How often it began to skip the LLC, or to use it.
    pub changes: u64,
    /// Lines that had to leave the LLC since the application does not use it any more, or slices changed hands.
    pub flushed: u64,
}

crate::whole!(whole: ApplicationCounters { llc, skipped, bypassed, changes, flushed });

/// An application now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationState {
    /// What was done for it so far.
    pub counters: ApplicationCounters,
    /// Whether it skips the LLC.
    pub skips: bool,
    /// Slices that hold its lines and nobody else's, those that others have released included; [`None`] where it has what
    /// everyone has.
    pub slices: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Applications {
    ranges: Vec<(Range<u64>, u8)>,
    all: Vec<LlcOwner>,
    /// Slices that no application owns.
    rest: Vec<u8>,
    /// Lines that leave, while they do.
    leaving: Vec<Victim>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct LlcOwner {
    own: Option<Vec<u8>>,
    /// What it has now.
    has: Option<Vec<u8>>,
    ways: Option<Cbm>,
    uses_llc: bool,
    skip: Option<SkipLogic>,
    reuse: Option<Reuse>,
    #[serde(with = "whole")]
    counters: ApplicationCounters,
}

/// Lines that were missed of late.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Reuse {
    missed: Vec<u32>,
}

impl Reuse {
    /// Whether `line` was missed before; it is now.
    fn again(&mut self, line: Line) -> bool {
        let number = line.0 as u32;
        let at = super::mix::mix(number) as usize & (self.missed.len() - 1);
        std::mem::replace(&mut self.missed[at], number) == number
    }
}

/// What an L2 notes of a line that was used again there, or is expected to be.
pub(super) const REUSED: u8 = 1;

impl Hierarchy {
    /// Tells `specs`, each with its name, apart from now on: application n has the lines of `ranges[n]`. For an empty
    /// memory system. `path` is where the specifications stand.
    ///
    /// # Errors
    /// More slices than there are, none left for everyone else, ways that the LLC does not have, a skip logic that cannot be,
    /// lines of two applications, an LLC that cannot do this.
    pub fn tell_apart(
        &mut self,
        specs: &[(&str, &ApplicationSpec)],
        ranges: &[Vec<Range<u64>>],
        path: &str,
    ) -> Result<(), MachineError> {
        if specs.is_empty() {
            return Ok(());
        }
        let error = |at: String, came: String, allowed: String, remedy: &str| {
            Err(MachineError::new(format!("{path}{at}"), came, allowed, remedy.into()))
        };
        let slices = self.llc.slice_count();
        let (mut all, mut next) = (Vec::new(), 0u32);
        for (name, spec) in specs {
            let own = match spec.slices {
                None => None,
                Some(own) => {
                    let most = slices.saturating_sub(next + 1);
                    if own == 0 || own > most {
                        let allowed = if most == 0 {
                            "nothing: leave it out".into()
                        } else {
                            format!("1 to {most} of {slices} slices, beside those before it and one for everyone else")
                        };
                        let remedy = "set machine.llc.slices higher, or llc = false to own none";
                        return error(format!(".{name}.slices"), own.to_string(), allowed, remedy);
                    }
                    let own_ones = (next..next + own).map(|slice| slice as u8).collect::<Vec<u8>>();
                    next += own;
                    Some(own_ones)
                }
            };
            let ways = spec.ways.map(|ways| ways.lowest(&format!("{path}.{name}.ways"), self.llc.ways()));
            let ways = ways.transpose()?;
            if !spec.llc && (spec.slices.is_some() || spec.ways.is_some() || spec.skip.is_some() || spec.bypass) {
                let (came, allowed) = ("false with slices, ways, skip or bypass".into(), "one of them".into());
                return error(format!(".{name}.llc"), came, allowed, "its lines never come into the LLC");
            }
            if self.inclusion == Inclusion::Inclusive && (spec.skip.is_some() || spec.bypass || !spec.llc) {
                let came = "told to leave lines out of an inclusive LLC".into();
                let (reason, remedy) = OF_AN_INCLUSIVE_LLC;
                return error(format!(".{name}"), came, format!("another LLC: {reason}"), remedy);
            }
            let lines = self.llc.sets() * u64::from(slices) * u64::from(self.llc.ways());
            let skip = match &spec.skip {
                Some(skip) => {
                    let fills = self.misses_that_fill(spec, own.as_ref().map_or(slices, |own| own.len() as u32));
                    Some(SkipLogic::new(skip, fills, &format!("{path}.{name}.skip"))?)
                }
                None => None,
            };
            all.push(LlcOwner {
                has: own.clone(),
                own,
                ways,
                uses_llc: spec.llc,
                skip: skip.filter(|_| spec.llc),
                reuse: spec.bypass.then(|| Reuse { missed: vec![u32::MAX; lines.next_power_of_two() as usize] }),
                counters: ApplicationCounters::default(),
            });
        }
        let mut owned: Vec<(Range<u64>, u8)> = Vec::new();
        for (n, ranges) in ranges.iter().enumerate() {
            owned.extend(ranges.iter().map(|range| (range.clone(), n as u8)));
        }
        owned.sort_by_key(|(range, _)| range.start);
        if let Some(pair) = owned.windows(2).find(|pair| pair[0].0.end > pair[1].0.start) {
            let name = |n: u8| specs[usize::from(n)].0;
            let (first, second) = (name(pair[0].1.min(pair[1].1)), name(pair[0].1.max(pair[1].1)));
            let came = format!("given with {path}.{first}, of which it has lines");
            return error(format!(".{second}"), came, "memory of nobody else".into(), "leave one of them out");
        }
        let rest: Vec<u8> = (next..slices).map(|slice| slice as u8).collect();
        if next > 0 {
            let own: Vec<Option<Vec<u8>>> = all.iter().map(|a| a.own.clone()).collect();
            let before = self.behind.fabric.here();
            for socket in 0..self.behind.fabric.sockets() {
                self.enter_socket(socket);
                self.llc.place_by(SlicePlacement::new(&owned, &own, &rest));
            }
            self.enter_socket(before);
        }
        if let Some(pending) =
            self.behind.pending.as_mut().filter(|_| specs.iter().any(|(_, s)| !s.llc || s.skip.is_some()))
        {
            // Who skips the LLC asks without its latency.
            pending.look_less_ahead(self.l2_latency);
        }
        self.applications = Some(Box::new(Applications { ranges: owned, all, rest, leaving: Vec::new() }));
        Ok(())
    }

    /// How many misses fill the caches that an application with so many slices has. Lines that leave L2 fill a victim LLC, and with
    /// `bypass` a line comes in when it is missed again.
    fn misses_that_fill(&self, spec: &ApplicationSpec, slices: u32) -> u64 {
        let ways = spec.ways.map_or(self.llc.ways(), Ways::count);
        let llc = self.llc.sets() * u64::from(slices) * u64::from(ways) * self.behind.fabric.sockets() as u64;
        let l2: u64 = self.cores.iter().map(|core| core.l2.lines()).sum();
        (llc + l2) * if spec.bypass { 8 } else { 1 }
    }

    /// The applications, in the order in which they were given.
    pub fn applications(&self) -> Vec<ApplicationState> {
        let all = self.applications.as_ref().map_or(&[][..], |a| &a.all);
        let state = |a: &LlcOwner| ApplicationState {
            counters: a.counters,
            skips: !a.uses_llc,
            slices: a.has.as_ref().map(|slices| slices.len() as u32),
        };
        all.iter().map(state).collect()
    }

    #[inline]
    fn application_of(&mut self, line: Line) -> Option<(usize, &mut LlcOwner)> {
        let applications = self.applications.as_deref_mut()?;
        let n = usize::from(owner(&applications.ranges, line)?);
        Some((n, &mut applications.all[n]))
    }

    /// The part of [`crate::Memory::fetch`] for an application that skips the LLC; [`None`] for others, and where another core has
    /// the only current copy.
    #[inline(never)]
    pub(super) fn fetch_past_llc(&mut self, request: &Request, lookup: &PrivateLookup, now: Ps) -> Option<Reply> {
        let (line, core, write) = (request.addr.line(), request.core, request.access.writes());
        // What a tail has, or a pointer represents, is found beside the LLC.
        if self.behind.tails.is_some() && self.behind.tail_has(line)
            || self.copies.as_ref().is_some_and(|c| c.has(line))
        {
            return None;
        }
        let (n, application) = self.application_of(line)?;
        if application.uses_llc || lookup.upgrade {
            return None;
        }
        application.counters.skipped += 1;
        let back = application.skip.as_mut().and_then(SkipLogic::skipped);
        if let Some(using) = back {
            self.change_use(n, using, now);
        }
        let others = self.directory.get(line) & !(1 << core.0);
        if self.is_modified(line, others) {
            return None;
        }
        let share = self.share_of(request.clos);
        let (by, spot) = (Requester::Core(core), self.llc.spot(line));
        self.meet_tenants(spot, now);
        let cast = self.cast(spot, by, now);
        let snooped = if others == 0 { Snooped::Nothing } else { self.snoop(line, others, write, by, share, now) };
        let mut path = Path::of(Reason::L2, self.l2_latency);
        let held = cast.answered.since(now + self.l2_latency);
        path.push(Reason::Snoop, held);
        let mut at = now + self.l2_latency + held;
        if write && others != 0 && self.has_sockets() {
            // Cores of other sockets give it up.
            let link = self.across_sockets(line, others, false, true, at);
            path.push(Reason::SocketLink, link);
            at += link;
        }
        self.directory.insert(line, core);
        if snooped == Snooped::Nothing || write {
            let super::Private { l1, l2, .. } = &mut self.cores[usize::from(core.0)];
            for array in [l1, l2] {
                array.set_exclusive(line, true);
            }
        }
        if snooped == Snooped::Clean
            && let Some((mut done, mut path)) = self.supplied(by, now)
        {
            self.counters.snoops += 1;
            if write {
                // Who writes hears from the slice's stop that all have given the line up.
                let acknowledged = self.acknowledged(cast, spot, by).since(done);
                path.push(Reason::Snoop, acknowledged);
                done += acknowledged;
            }
            if let Some(until) = self.behind.in_flight.get(line, done) {
                // Who supplies it is still waiting for it.
                path.push(Reason::Mshr, until - done);
                done = until;
            }
            let asked = Asked { core, path, ready: done, distance: Ps::ZERO, served: Served::Snoop, copy: Ps::ZERO };
            return Some(match self.behind.join(line, &asked) {
                Some(ticket) => Reply::Pending(ticket),
                None => Reply::Done(Response { at: done, served: Served::Snoop, path }),
            });
        }
        // The line comes over the wires as from its slice, whose stop its memory controller is taken to be at.
        let back = self.llc.carry(spot, by, false, at);
        path.push(Reason::Interconnect, back);
        let mut asked = Asked { core, path, ready: at + back, distance: back, served: Served::Dram, copy: Ps::ZERO };
        Some(match self.read_behind(line, write, at, &mut asked) {
            Fill::At(filled) => {
                self.on_its_way(line, filled + back);
                Reply::Done(Response { at: filled + back, served: Served::Dram, path: asked.path })
            }
            Fill::Later(ticket) => Reply::Pending(ticket),
        })
    }

    /// `line`, read past the LLC, is with a core at `until`: with snooping that supplies others, and not before it has it.
    fn on_its_way(&mut self, line: Line, until: Ps) {
        if self.protocol.asks_all() {
            self.behind.in_flight.insert(line, until);
        }
    }

    /// A core has looked for `line` in the LLC, which `served` it or not.
    #[inline(never)]
    pub(super) fn looked_in_llc(&mut self, request: &Request, served: Served, now: Ps) {
        let missed = match served {
            Served::Llc => false,
            Served::Dram => true,
            _ => return,
        };
        let line = request.addr.line();
        let Some((n, application)) = self.application_of(line) else { return };
        application.counters.llc.count(!missed);
        let again = missed && application.reuse.as_mut().is_some_and(|reuse| reuse.again(line));
        let next = application.skip.as_mut().filter(|_| application.uses_llc).and_then(|skip| skip.saw(missed));
        if again {
            self.mark_reused(request);
        }
        if let Some(using) = next {
            self.change_use(n, using, now);
        }
    }

    /// A core has used a line of its L2 again.
    #[inline(never)]
    pub(super) fn mark_reused(&mut self, request: &Request) {
        let l2 = &mut self.cores[usize::from(request.core.0)].l2;
        if let Some(slot) = l2.find(request.addr.line()) {
            l2.set_owner(slot, REUSED);
        }
    }

    /// Whether a miss of `line` leaves the LLC as it is.
    #[inline(never)]
    pub(super) fn stays_out(&mut self, line: Line) -> bool {
        self.application_of(line).is_some_and(|(_, a)| !a.uses_llc || a.reuse.is_some())
    }

    /// Settles `victim`, which has left the L2 of `core` at `now`, of an application that skips or bypasses the LLC; `false` if
    /// nothing is done, and it goes the usual way.
    #[inline(never)]
    pub(super) fn settle_apart(&mut self, victim: &Victim, core: CoreId, share: FillRule, now: Ps) -> bool {
        let line = victim.line;
        let represented = !victim.dirty && self.copies.as_ref().is_some_and(|copies| copies.has(line));
        let Some((_, application)) = self.application_of(line) else { return false };
        let uses = application.uses_llc;
        if uses && application.reuse.is_none() {
            return false;
        }
        let comes_in = uses && victim.owner == REUSED && !represented;
        application.counters.bypassed += u64::from(uses && !comes_in);
        if comes_in && (victim.dirty || self.inclusion == Inclusion::Victim) {
            return false;
        }
        if victim.dirty && self.copies.is_some() {
            self.before_write_back(line, now);
        }
        let spot = self.llc.spot(line);
        self.meet_tenants(spot, now);
        let mut is_sent = victim.dirty;
        if comes_in {
            // A miss has not filled the LLC.
            if !self.llc.use_line(spot) {
                self.fill_llc(line, spot, false, share, now);
                is_sent = true;
            }
        } else if victim.dirty && !self.llc.write_line(spot) {
            self.write_back(line, now);
        }
        if is_sent {
            self.llc.carry(spot, Requester::Core(core), true, now);
        }
        true
    }

    /// The share of who brings `line` in, within the ways of its application; [`None`] if that skips the LLC.
    #[inline(never)]
    pub(super) fn admitted(&mut self, line: Line, share: FillRule) -> Option<FillRule> {
        let Some((_, application)) = self.application_of(line) else { return Some(share) };
        let ways = application.ways.unwrap_or(share.ways);
        application.uses_llc.then_some(FillRule { ways, ..share })
    }

    /// Application `n` begins to skip the LLC or to use it: slices change hands, and lines that have no business there any
    /// more leave.
    pub(super) fn change_use(&mut self, n: usize, using: Using, now: Ps) {
        let Some(applications) = self.applications.as_deref_mut() else { return };
        let uses = using != Using::Nothing;
        let application = &mut applications.all[n];
        if application.uses_llc == uses {
            return;
        }
        application.uses_llc = uses;
        application.counters.changes += 1;
        applications.share_out();
        let has: Vec<Option<Vec<u8>>> = applications.all.iter().map(|a| a.has.clone()).collect();
        let everyones = applications.everyones();
        let before = self.behind.fabric.here();
        for socket in 0..self.behind.fabric.sockets() {
            self.enter_socket(socket);
            if let Some(placement) = self.llc.placement_mut() {
                placement.assign(&has, &everyones);
            }
            self.drain_llc(n, now);
        }
        self.enter_socket(before);
    }

    /// What has no business in the LLC any more, since application `n` has changed its use of it, leaves.
    fn drain_llc(&mut self, n: usize, now: Ps) {
        let Some(applications) = self.applications.as_deref_mut() else { return };
        let mut leaving = std::mem::take(&mut applications.leaving);
        let ranges = &applications.ranges;
        let skips: Vec<bool> = applications.all.iter().map(|a| !a.uses_llc).collect();
        let goes = |line| owner(ranges, line).is_some_and(|owner| skips[usize::from(owner)]);
        self.llc.drain(goes, &mut leaving);
        applications.all[n].counters.flushed += leaving.len() as u64;
        for victim in leaving.drain(..) {
            if self.copies.is_some() {
                self.after_eviction(victim.line, now);
            }
            if victim.dirty {
                self.write_back(victim.line, now);
            }
        }
        if let Some(applications) = self.applications.as_deref_mut() {
            applications.leaving = leaving;
        }
    }
}

impl Applications {
    /// Slices of those that skip go round those that do not and own some.
    fn share_out(&mut self) {
        let released: Vec<u8> =
            self.all.iter().filter(|a| !a.uses_llc).flat_map(|a| a.own.iter().flatten().copied()).collect();
        for application in &mut self.all {
            application.has = if application.uses_llc {
                application.own.clone()
            } else {
                application.own.as_ref().map(|_| Vec::new())
            };
        }
        let mut users: Vec<&mut Vec<u8>> =
            self.all.iter_mut().filter(|a| a.uses_llc).filter_map(|a| a.has.as_mut()).collect();
        let n = users.len();
        for (i, slice) in released.into_iter().enumerate() {
            if n > 0 {
                users[i % n].push(slice);
            }
        }
    }

    /// Slices of everyone else: what nobody owns, and what was released where no application is left to have it.
    fn everyones(&self) -> Vec<u8> {
        let has: Vec<u8> = self.all.iter().filter_map(|a| a.has.as_ref()).flatten().copied().collect();
        let owned = self.all.iter().filter_map(|a| a.own.as_ref()).flatten().copied();
        self.rest.iter().copied().chain(owned.filter(|slice| !has.contains(slice))).collect()
    }
}
