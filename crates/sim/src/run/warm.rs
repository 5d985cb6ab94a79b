//! Warm-up: what happens before anything is measured.
//!
//! # When measurement begins
//! A machine begins with empty caches and untouched buffers, and what it does until they are in use is not what it does
//! later. An LLC of tens of MiB fills in hundreds of thousands of packets, and what the sojourn tells of it is little.
//! So warm-up goes by state, in two parts.
//!
//! *Without time* ([`WarmUpRule::without_time`]): the server goes the functional way in stretches, each as long as all before. Before
//! each of them it goes on in detail for [`CLOCK`] packets, which tell the next one how long bursts take. A stretch is the
//! last one if over its second half
//! - lines held in the LLC grew by at most [`STEADY_LINES`],
//! - reads and writes of DRAM, and device writes that hit, differ from those of its first half by at most [`STEADY`], or by
//!   no more than chance,
//! - where both lines and accesses to DRAM also count as settled if they have changed by no more than [`FEW`] of all accesses to the
//!   LLC: a cache that fills as slowly as that is the same over all that is measured,
//! - and as many packets were stored as there are mbufs in the pool: a pool that gives back the mbuf that has been free for
//!   longest touches another one with every packet until then.
//!
//! A machine whose caches are cold is slow, so that its rings may fill at a load that it carries once it is warm. Packets in full
//! rings are more than devices' ways hold, so that some machines stay as slow as that for good. So between two stretches nothing
//! arrives until rings are empty, as a trial begins with a device at rest (RFC 2544); a load that is too much fills them again.
//!
//! *In detail* ([`WarmUpRule::in_detail`]): a tenth as many packets as are going to be measured, where rings were emptied last
//! [`TO_FILL_AGAIN`] times as many as waited in them, and then until MSER-5 (`stats::mser5`),
//! over means of the sojourns of this part, cuts in its first half: what it finds to be settled is then at least as long as
//! what it finds not to be. This is looked at after a number of packets that doubles each time, so that runs that differ a
//! little in their machine begin to measure at the same packet.
//!
//! Neither goes on for ever: without time for [`MOST_UNTIMED`] times as many packets as are going to be measured, in detail
//! for as many. What had not settled by then is in the result. `run.warmup` sets the sum of both parts: as many packets as
//! settle go without time, the rest in detail.
//!
//! A policy is switched on where the first part ends.
//!
//! A server that has taken over what another one's caches hold ([`super::near`]) has less to settle, and shows it only once what it
//! does in another way has had time to tell: each of its stretches is at least [`AFTER_ANOTHER`] packets long. Mbufs that
//! stand for those of the other one count as used. Where its rings were emptied before a stretch, and are full again by the middle of it,
//! devices wrote into few buffers until then: there the two halves of the second half are compared, over which lines may grow by half as
//! much.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::StateError;
use stats::{BatchMeans, mser5};
use units::Ps;

use super::schedule::ProgressWatch;
use super::steer::{Steer, advance};
use crate::server::take_over::TakenOver;
use crate::server::{Departure, DepartureObserver, Loss, PacketFate, Pause, Server};

/// Packets in detail before each stretch without time: bursts enough of one kind of core.
const CLOCK: u64 = 2_048;
/// Packets of a stretch without time, at least, of a server that began with another one's caches.
const AFTER_ANOTHER: u64 = 32_768;
/// What may still change, as a share.
const STEADY: f64 = 0.02;
/// By how much lines of the LLC may still grow. Each is a miss: where a core is busy, one in a hundred packets makes them wait a
/// tenth longer.
const STEADY_LINES: f64 = 0.01;
/// Accesses to DRAM, or lines that come in, that count for nothing, as a share of accesses to the LLC: one in some two hundred packets.
const FEW: f64 = 0.0002;
/// Packets without time, at most, for each that is going to be measured: so many for a short run, whose half-widths are wide, and so
/// many for one of [`LONG`] packets for each of them. A run of 80,000 may so fill an LLC with two millions.
const MOST_UNTIMED: [u64; 2] = [8, 32];
const LONG: u64 = 2_500;
/// Standard deviations that two counts of events by chance may lie apart.
const CHANCE: f64 = 3.0;
/// How long nothing arrives before it is looked whether rings are empty; twice as long each further time, up to [`LONGEST_REST`].
const FIRST_REST: Ps = Ps(16_000_000);
const LONGEST_REST: Ps = Ps(100_000_000_000);
/// Means of sojourns that MSER-5 looks at, at most.
const SOJOURN_MEANS: usize = 1_000;
/// Of rings that were emptied last, packets in detail for each that waited in them.
const TO_FILL_AGAIN: u64 = 2;
/// Where mbufs are still unused after the first part, the second is not longer than this many times the measured packets for
/// their sake.
const MOST_FOR_THE_POOL: u64 = 4;

/// The packets that were cut at the start, and why so many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WarmUp {
    /// How many were offered before measurement began.
    pub packets: u64,
    /// Of those, how many went through the machine without time, only to leave it warm.
    pub untimed: u64,
    /// What decided.
    pub end: WarmUpEnd,
    /// What had not settled.
    pub unsettled: Vec<WarmthMeasure>,
    /// Lines in the LLC when measurement began.
    pub llc_lines: u64,
    /// Lines that fit into it.
    pub llc_capacity: u64,
    /// Mbufs in the pool.
    pub mbufs: u64,
    /// Packets that got an mbuf by then.
    pub stored: u64,
    /// Lines that the LLC began with: those of another machine that was warm, from which this one started; 0 where it started from
    /// nothing.
    pub taken_over: u64,
    /// Of the packets sent in detail after those without time, after how many the sojourn had settled by MSER-5;
    /// [`None`] if too few were sent to tell.
    pub settled_after: Option<u64>,
}

/// Why measurement began when it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarmUpEnd {
    /// The scenario says so.
    Given,
    /// Everything had settled.
    Settled,
    /// Something had not, but it had taken as long as it may.
    Limit,
}

/// What is watched to tell whether a machine is warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarmthMeasure {
    /// Lines in the LLC.
    LlcLines,
    /// Reads and writes of DRAM a packet, for cores and devices.
    DramAccesses,
    /// Device writes that hit in the LLC, a packet.
    DdioHits,
    /// Mbufs that have been used.
    Mbufs,
    /// Sojourns.
    Sojourn,
}

impl WarmthMeasure {
    /// A few words for it.
    pub fn label(self) -> &'static str {
        match self {
            WarmthMeasure::LlcLines => "lines held in the LLC",
            WarmthMeasure::DramAccesses => "accesses to DRAM a packet",
            WarmthMeasure::DdioHits => "device writes that hit the LLC",
            WarmthMeasure::Mbufs => "packet buffers used",
            WarmthMeasure::Sojourn => "the sojourn",
        }
    }
}

/// A server after the first part of its warm-up. Clones go on from there, each at a rate of its own.
#[derive(Clone)]
pub(crate) struct WarmServer {
    pub server: Server,
    untimed: u64,
    refused: u64,
    unsettled: Vec<WarmthMeasure>,
    taken: TakenOver,
    /// Packets that waited in rings before they were emptied, where nothing has come since.
    emptied: u64,
}

state::state!(WarmServer {
    values: [untimed, refused, unsettled, taken, emptied],
    arrays: [],
    parts: [server],
    built: []
});

/// What a server begins with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited {
    taken: TakenOver,
    /// What had not settled where that came from.
    unsettled: Vec<WarmthMeasure>,
}

impl WarmServer {
    /// The state; `of` is what it belongs to.
    ///
    /// # Errors
    /// As [`Server::save`].
    pub(crate) fn seal(&self, version: &str, of: &str) -> Result<Vec<u8>, StateError> {
        state::seal(self, version, of)
    }

    /// What [`WarmServer::seal`] gave of a server that was built as `built`, which has done nothing yet.
    ///
    /// # Errors
    /// As [`Server::resume`].
    pub(crate) fn open(built: Server, version: &str, of: &str, bytes: &[u8]) -> Result<WarmServer, StateError> {
        let mut warm = WarmServer {
            server: built,
            untimed: 0,
            refused: 0,
            unsettled: Vec::new(),
            taken: TakenOver::default(),
            emptied: 0,
        };
        state::open(&mut warm, version, of, bytes)?;
        warm.server.is_resumed();
        Ok(warm)
    }

    /// `server`, which has done nothing yet, begins with what the caches of this one hold; see [`Server::take_over`].
    pub(crate) fn hand_over(&self, server: &mut Server, same_tables: bool) -> Inherited {
        let taken = server.take_over(&self.server, same_tables);
        // Mbufs that were not used here have not been there either.
        let used = self.server.offered() - self.refused + self.taken.mbufs;
        let unsettled = self.unsettled.iter().filter(|measure| **measure != WarmthMeasure::Mbufs);
        Inherited {
            taken: TakenOver { mbufs: taken.mbufs.min(used), ..taken },
            unsettled: unsettled.copied().collect(),
        }
    }
}

/// What the second half of a stretch is compared by.
struct Look {
    lines: u64,
    dram: u64,
    accesses: u64,
    ddio_hits: u64,
}

impl Look {
    fn at(server: &Server) -> Look {
        let memory = server.memory();
        let did = memory.counters();
        Look {
            lines: memory.llc_occupancy(),
            dram: did.llc.misses + did.dma_read.misses + did.writebacks,
            accesses: did.llc.lookups() + did.dma_write.lookups() + did.dma_read.lookups(),
            ddio_hits: did.dma_write.hits,
        }
    }
}

/// Whether two counts of as many packets are the same but for [`STEADY`] and chance.
fn is_steady(before: u64, after: u64) -> bool {
    let apart = before.abs_diff(after) as f64;
    apart <= STEADY * before.max(after) as f64 || apart <= CHANCE * ((before + after) as f64).sqrt()
}

/// Lets `server` go on until `offered` packets were offered; `false` if it ends or is stopped before.
fn go_on(
    server: &mut Server,
    offered: u64,
    seen: &mut impl DepartureObserver,
    steer: &mut Option<Steer>,
    watch: &ProgressWatch,
) -> bool {
    let pause = Pause { offered, at: Ps::MAX };
    while server.offered() < offered && !watch.is_stopped() && advance(server, pause, seen, steer) {
        watch.tell(server.offered(), offered, true);
    }
    server.offered() >= offered
}

/// The first part of the warm-up of a `server` that has done nothing yet and begins with `from`, where `mbufs` mbufs are to be used:
/// see the module header. It ends before packet `room`.
fn warm_by_state(mut server: Server, from: Inherited, mbufs: u64, room: u64, watch: &ProgressWatch) -> WarmServer {
    use WarmthMeasure::{DdioHits, DramAccesses, LlcLines, Mbufs};
    let Inherited { taken, unsettled: inherited } = from;
    let mut seen = Refused::default();
    let mut untimed = 0;
    let mut unsettled = vec![LlcLines, DramAccesses, DdioHits, Mbufs];
    // Packets in rings before they were emptied.
    let mut emptied = 0;
    while !unsettled.is_empty() {
        let from = server.offered() + CLOCK;
        let stretch = if taken.lines > 0 { from.max(AFTER_ANOTHER) } else { from };
        let (middle, to) = (from + stretch / 2, from + stretch);
        let quarter = if taken.lines > 0 { middle + (to - middle) / 2 } else { middle };
        if to > room || !go_on(&mut server, from, &mut seen, &mut None, watch) {
            break;
        }
        server.set_functional(true);
        let mut in_rings = 0;
        let looks = [from, middle, quarter, to].map(|until| {
            go_on(&mut server, until, &mut seen, &mut None, watch);
            in_rings = if until == middle { server.ring_occupancy() } else { in_rings };
            Look::at(&server)
        });
        server.set_functional(false);
        untimed += server.offered() - from;
        if server.offered() < to {
            break;
        }
        let filled = taken.lines > 0 && emptied > 0 && in_rings + server.in_full_bursts() >= emptied;
        let [first, second, third] =
            if filled { [&looks[1], &looks[2], &looks[3]] } else { [&looks[0], &looks[1], &looks[3]] };
        let per_half = |count: fn(&Look) -> u64| [count(second) - count(first), count(third) - count(second)];
        let few = FEW * per_half(|look| look.accesses)[1] as f64;
        let steady_lines = if filled { STEADY_LINES / 2.0 } else { STEADY_LINES };
        let is_settled = |measure: WarmthMeasure| match measure {
            LlcLines => third.lines.saturating_sub(second.lines) as f64 <= few.max(steady_lines * third.lines as f64),
            DramAccesses => {
                let [before, after] = per_half(|look| look.dram);
                is_steady(before, after) || before.abs_diff(after) as f64 <= few
            }
            DdioHits => {
                let [before, after] = per_half(|look| look.ddio_hits);
                is_steady(before, after)
            }
            _ => server.offered() - seen.packets >= mbufs,
        };
        unsettled = vec![LlcLines, DramAccesses, DdioHits, Mbufs];
        unsettled.retain(|&measure| !is_settled(measure));
        emptied = if unsettled.is_empty() { 0 } else { rest(&mut server, &mut seen, watch) };
    }
    // What had not settled there shows here only after as long as there.
    for measure in inherited {
        if !unsettled.contains(&measure) {
            unsettled.push(measure);
        }
    }
    WarmServer { server, untimed, refused: seen.packets, unsettled, taken, emptied: emptied as u64 }
}

/// Where more packets wait than cores take in a burst each: nothing arrives until rings are empty, without time. How many waited
/// where that was so and they are empty, else 0.
fn rest(server: &mut Server, seen: &mut Refused, watch: &ProgressWatch) -> usize {
    let waited = server.ring_occupancy();
    let mut gap = FIRST_REST;
    server.set_functional(true);
    while server.ring_occupancy() > server.in_full_bursts() && gap <= LONGEST_REST {
        server.delay_arrivals(gap);
        // The one that was on its way, and the first one behind the gap.
        let until = server.offered() + 2;
        if !go_on(server, until, seen, &mut None, watch) {
            break;
        }
        gap = gap * 2;
    }
    server.set_functional(false);
    let is_empty = server.ring_occupancy() <= server.in_full_bursts();
    if gap > FIRST_REST && is_empty { waited } else { 0 }
}

/// How long the warm-up of a run is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarmUpRule {
    /// Packets that are going to be measured.
    pub packets: u64,
    /// Packets that are going to follow, those between measured ones included.
    pub follow: u64,
    /// Packets before them, if the scenario says so.
    pub given: Option<u64>,
    /// Packets that there are, of a source that ends.
    pub all: Option<u64>,
    /// Mbufs in the pool.
    pub mbufs: u64,
    /// Lines that fit into the LLC.
    pub llc_capacity: u64,
}

impl WarmUpRule {
    /// A tenth of what is measured, of a source that ends of what it has.
    fn least(&self) -> u64 {
        let tenth = self.packets / 10;
        self.all.map_or(tenth, |all| tenth.min(all / 20))
    }

    /// The most packets before measurement, where a source that ends keeps nine tenths of its own.
    fn most(&self, wanted: u64) -> u64 {
        match self.all {
            Some(all) if all < wanted.saturating_add(self.follow) => wanted.min(all / 10),
            _ => wanted,
        }
    }

    /// Packets without time for each that is measured, at most.
    fn most_untimed(&self) -> u64 {
        let [short, long] = MOST_UNTIMED;
        (self.packets / LONG).clamp(short, long)
    }

    /// The first part of the warm-up of `server`, which has done nothing yet and begins with `from`. See the module header.
    pub(crate) fn without_time(&self, server: Server, from: Inherited, watch: &ProgressWatch) -> WarmServer {
        let room = self.given.unwrap_or(self.most(self.packets.saturating_mul(self.most_untimed())));
        let mbufs = self.mbufs.saturating_sub(from.taken.mbufs);
        warm_by_state(server, from, mbufs, room.saturating_sub(self.least()), watch)
    }

    /// The second part, until measurement is to begin. See the module header.
    pub(crate) fn in_detail(
        &self,
        warm: WarmServer,
        steer: &mut Option<Steer>,
        watch: &ProgressWatch,
    ) -> (Server, WarmUp) {
        let WarmServer { mut server, untimed, refused, mut unsettled, taken, emptied } = warm;
        let WarmUpRule { packets, given, llc_capacity, .. } = *self;
        let mbufs = self.mbufs.saturating_sub(taken.mbufs);
        let from = server.offered();
        // A policy needs time, too.
        let for_the_pool = if from - refused < mbufs || steer.is_some() {
            mbufs.min(packets.saturating_mul(MOST_FOR_THE_POOL))
        } else {
            0
        };
        // Rings that a load fills have to be full again, and long enough for MSER-5 to see it.
        let least = self.least().max(for_the_pool).max(emptied.saturating_mul(TO_FILL_AGAIN));
        let most = given.unwrap_or(self.most(from + packets.max(least)));
        let mut next = given.unwrap_or((from + least).min(most));
        let mut seen =
            Transient { sojourns: BatchMeans::with_batches(SOJOURN_MEANS), refused: Refused { packets: refused } };
        loop {
            let more = go_on(&mut server, next, &mut seen, steer, watch);
            let truncation = mser5(seen.sojourns.batch_means());
            let stored = server.offered() - seen.refused.packets;
            let has_settled = truncation.is_none_or(|t| t.reliable);
            if has_settled && stored >= mbufs || next >= most || !more {
                unsettled.retain(|measure| *measure != WarmthMeasure::Mbufs);
                unsettled.extend((stored < mbufs).then_some(WarmthMeasure::Mbufs));
                unsettled.extend((!has_settled).then_some(WarmthMeasure::Sojourn));
                let memory = server.memory();
                let warmup = WarmUp {
                    packets: server.offered(),
                    untimed,
                    end: match given {
                        Some(_) => WarmUpEnd::Given,
                        None if unsettled.is_empty() => WarmUpEnd::Settled,
                        None => WarmUpEnd::Limit,
                    },
                    unsettled,
                    llc_lines: memory.llc_occupancy(),
                    llc_capacity,
                    mbufs: self.mbufs,
                    stored,
                    taken_over: taken.lines,
                    settled_after: truncation
                        .filter(|t| t.reliable)
                        .map(|t| t.drop as u64 * seen.sojourns.batch_size()),
                };
                return (server, warmup);
            }
            next = from.saturating_add((next - from).max(1).saturating_mul(2)).min(most);
        }
    }
}

/// Packets that were lost before they got an mbuf.
#[derive(Clone, Copy, Default)]
struct Refused {
    packets: u64,
}

impl DepartureObserver for Refused {
    fn departure(&mut self, d: &Departure) {
        use Loss::{NicFifoFull, NoBuffer, NoMbuf, NoRxDescriptor};
        let refused = matches!(d.fate, PacketFate::Lost(NoRxDescriptor | NoMbuf | NicFifoFull | NoBuffer));
        self.packets += u64::from(refused);
    }
}

/// What warm-up in detail is judged by.
#[derive(Clone)]
struct Transient {
    sojourns: BatchMeans,
    refused: Refused,
}

impl DepartureObserver for Transient {
    fn departure(&mut self, d: &Departure) {
        if let PacketFate::Sent(_) = d.fate {
            self.sojourns.record(d.sojourn.as_ns());
        }
        self.refused.departure(d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_steady_within_a_share_or_within_chance() {
        for (before, after, steady) in [
            (0, 0, true),
            (0, 9, true),
            (0, 10, false),
            (100, 140, true),
            (100, 150, false),
            (1_000_000, 1_019_000, true),
            (1_000_000, 1_021_000, false),
            (1_021_000, 1_000_000, false),
        ] {
            assert_eq!(is_steady(before, after), steady, "{before} and {after}");
        }
    }
}
