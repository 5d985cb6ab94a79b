//! Functions one after the other.
//!
//! **Computes** what its members compute, in turn: a burst goes through the first one, what it lets pass through the
//! second, and so on. The verdict of a packet is that of the member that drops it, or the port of the latest member that
//! routes; where none routes, of the last member.
//!
//! **References per packet**: those of the members that see it. Each member's share is counted: [`Chain::shares`].
//!
//! **Regions**: those of the members, numbered behind each other; so are their sites and their locks.
//!
//! Left out: branches (a packet has one way through), what a member knows and the next could use (each parses for itself).
//! Firewall, address translation and forwarding lower the time to live themselves.
//!
//! **Source**: the order of a router's tasks in Zhu, Deng, Chen, "Hermes: An Integrated CPU/GPU Microarchitecture for IP
//! Routing", DAC 2011, section 2; a burst through one function after the other is what vector packet processing does.
//!
//! **See also** the members.

use std::ops::Range;

use packet::Packet;
use probe::{FunctionCounts, MemberOffsets, Probe, Pushes, RegionId, RegionSpec};
use units::{PortId, Ps};

use crate::{Function, FunctionError, PacketFunction, RoutePlace, Verdict};

/// Sites of each member: every function numbers its own below this.
pub const SITES_A_MEMBER: u16 = 128;
/// Locks of each member.
const LOCKS_A_MEMBER: u32 = 1 << 26;
/// Members that can be numbered.
const MOST: usize = 64;

/// Functions one after the other. See the module header.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    members: Vec<ChainMember>,
    /// Of the burst under way: which packet of the burst each place has, what becomes of each, and a member's verdicts.
    order: Vec<u32>,
    fates: Vec<Verdict>,
    verdicts: Vec<Verdict>,
}

// Between two bursts nothing of a burst is left.
state::state!(Chain { values: [], arrays: [], parts: [members], built: [order, fates, verdicts] });

#[derive(Clone, Debug)]
struct ChainMember {
    function: Function,
    routes: bool,
    regions: u16,
    share: MemberTotals,
}

state::state!(ChainMember { values: [], arrays: [], parts: [function, share], built: [routes, regions] });

/// What a member of a chain has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberTotals {
    /// The member's name.
    pub name: &'static str,
    /// Packets that came to it.
    pub packets: u64,
    /// Packets that it dropped.
    pub dropped: u64,
    /// Its references and instructions, as far as a probe listened.
    pub seen: FunctionCounts,
}

state::state!(MemberTotals { values: [packets, dropped, seen], arrays: [], parts: [], built: [name] });

impl std::ops::Sub for MemberTotals {
    type Output = MemberTotals;
    /// What was done since `rhs`, an earlier state of the same share.
    fn sub(self, rhs: MemberTotals) -> MemberTotals {
        MemberTotals {
            packets: self.packets - rhs.packets,
            dropped: self.dropped - rhs.dropped,
            seen: self.seen - rhs.seen,
            ..self
        }
    }
}

impl Chain {
    /// A chain of `functions`, up to 64. A chain among them stands for its members.
    ///
    /// # Errors
    /// More members.
    pub fn new(functions: Vec<Function>) -> Result<Chain, FunctionError> {
        let mut chain = Chain::default();
        let flat = functions.into_iter().flat_map(|function| match function {
            Function::Chain(inner) => inner.members.into_iter().map(|member| member.function).collect(),
            one => vec![one],
        });
        let flat: Vec<Function> = flat.collect();
        if flat.len() > MOST {
            return Err(FunctionError::Spec {
                path: "chain",
                came: format!("{} functions", flat.len()),
                allowed: format!("up to {MOST}"),
                remedy: "take fewer",
            });
        }
        let mut regions = 0;
        for function in flat {
            let tables = function.regions().iter().map(|region| region.id.0 - RegionId::FIRST_TABLE.0 + 1).max();
            let share = MemberTotals { name: function.name(), ..MemberTotals::default() };
            chain.members.push(ChainMember { routes: function.routes(), function, regions, share });
            regions += tables.unwrap_or(0);
        }
        Ok(chain)
    }

    /// The members in their order.
    pub fn members(&self) -> impl Iterator<Item = &Function> {
        self.members.iter().map(|member| &member.function)
    }

    pub(crate) fn fragments_mut(&mut self) -> &mut [Packet] {
        let mut each = self.members.iter_mut().map(|member| member.function.fragments_mut());
        each.find(|found| !found.is_empty()).unwrap_or_default()
    }

    pub(crate) fn route_places(&self) -> Vec<RoutePlace> {
        let of = |member: &ChainMember| {
            let (behind, own) = (member.regions, member.function.route_places().into_iter());
            own.map(move |place| RoutePlace { region: RegionId(place.region.0 + behind), ..place }).collect::<Vec<_>>()
        };
        self.members.iter().flat_map(of).collect()
    }

    pub(crate) fn on_core(&mut self, core: usize) {
        self.members.iter_mut().for_each(|member| member.function.on_core(core));
    }

    /// The regions of the members from number `first` on, as [`PacketFunction::regions`] of all.
    pub(crate) fn regions_from(&self, first: usize) -> Vec<RegionSpec> {
        let numbered = |member: &ChainMember| {
            let behind = member.regions;
            let own = member.function.regions().into_iter();
            own.map(move |region| RegionSpec { id: RegionId(region.id.0 + behind), ..region }).collect::<Vec<_>>()
        };
        self.members.iter().skip(first).flat_map(numbered).collect()
    }

    /// What each member has done so far, in their order.
    pub fn shares(&self) -> Vec<MemberTotals> {
        self.members.iter().map(|member| member.share).collect()
    }
}

impl PacketFunction for Chain {
    fn name(&self) -> &'static str {
        "chain"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        self.regions_from(0)
    }

    fn process_burst<P: Probe>(&mut self, now: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        self.process_in_turn(now, burst, probe, out, |_| {});
    }
}

/// A member's part of a burst.
struct Alone<'a> {
    function: &'a mut Function,
    now: Ps,
    burst: &'a mut [Packet],
    verdicts: &'a mut Vec<Verdict>,
}

impl Pushes for Alone<'_> {
    fn push<P: Probe>(self, probe: &mut P) {
        self.function.process_alone(self.now, self.burst, probe, self.verdicts);
    }
}

impl Chain {
    /// As [`PacketFunction::process_burst`]; `done` hears of each member, by its number, when it has done its part of the
    /// burst, so that who has a clock can tell how long each takes.
    pub fn process_in_turn<P: Probe>(
        &mut self,
        now: Ps,
        burst: &mut [Packet],
        probe: &mut P,
        out: &mut Vec<Verdict>,
        done: impl FnMut(usize),
    ) {
        self.process_members(0..self.members.len(), now, burst, probe, out, done);
    }

    /// As [`Chain::process_in_turn`], by the members of these numbers alone.
    pub(crate) fn process_members<P: Probe>(
        &mut self,
        range: Range<usize>,
        now: Ps,
        burst: &mut [Packet],
        probe: &mut P,
        out: &mut Vec<Verdict>,
        mut done: impl FnMut(usize),
    ) {
        let Chain { members, order, fates, verdicts } = self;
        order.clear();
        order.extend(0..burst.len() as u32);
        fates.clear();
        fates.resize(burst.len(), Verdict::Forward { port: PortId(0) });
        let (mut left, mut routed) = (burst.len(), false);
        for (i, member) in members.iter_mut().enumerate().take(range.end).skip(range.start) {
            let (sites, locks) = (i as u16 * SITES_A_MEMBER, i as u32 * LOCKS_A_MEMBER);
            let by = MemberOffsets { sites, regions: member.regions, locks };
            verdicts.clear();
            let function = &mut member.function;
            member.share.seen += probe.behind(by, Alone { function, now, burst: &mut burst[..left], verdicts });
            member.share.packets += left as u64;
            let mut kept = 0;
            for (place, &verdict) in verdicts.iter().enumerate().take(left) {
                let fate = &mut fates[order[place] as usize];
                match verdict {
                    Verdict::Drop(_) => *fate = verdict,
                    Verdict::Forward { .. } => {
                        if member.routes || !routed {
                            *fate = verdict;
                        }
                        if kept < place {
                            burst.swap(kept, place);
                            order.swap(kept, place);
                        }
                        kept += 1;
                    }
                }
            }
            member.share.dropped += (left - kept) as u64;
            done(i);
            (left, routed) = (kept, routed || member.routes);
        }
        // Back to the order of arrival.
        for place in 0..order.len() {
            while order[place] as usize != place {
                let home = order[place] as usize;
                burst.swap(place, home);
                order.swap(place, home);
            }
        }
        out.extend_from_slice(fates);
    }
}
