//! One simulation: a machine, its traffic at one rate, warm-up, and what is measured after it.
//!
//! # When measurement begins
//! A machine begins with empty caches and untouched buffers, and what it does until they are in use is not what it
//! does later. Unless the scenario says how many packets are to be cut (`run.warmup`), measurement begins when
//! - a tenth as many packets were offered as are going to be measured,
//! - as many packets were stored as there are mbufs in the pool: a pool that gives back the mbuf that has been
//!   free for longest touches another one with every packet until then,
//! - and MSER-5 (`stats::mser5`), over means of the sojourns since the first packet, cuts in the first half: what
//!   it finds to be settled is then at least as long as what it finds not to be.
//!
//! This is looked at after a number of packets that doubles each time, so that runs that differ a little in their
//! machine begin to measure at the same packet. Where the sojourn does not settle within as many packets as are
//! going to be measured (four times as many while mbufs are unused), warm-up ends there and the result says so.

use engine::Seed;
use functions::upf::FlowCounters;
use functions::{Function, Share};
use machine::buffer::BufferCounters;
use machine::dram::{CommandReport, DramCounters, Work};
use machine::memory::{
    ApplicationState, ClassCounters, CopyCounters, EngineCounters, LevelCounters, MemoryCounters, SnoopCounters,
    SocketCounters, StackedCounters, TailCounters,
};
use stats::{BatchMeans, mser5};
use traffic::{Blueprint, Load};
use units::Ps;

use crate::run::measure::{Activity, Measure};
use crate::run::schedule::Watch;
use crate::run::steer::{ControlInterval, Steer};
use crate::scenario::clos::{CLASSES, RX_CLASS, WORK_CLASS};
use crate::scenario::{Scenario, ScenarioError};
use crate::server::clos;
use crate::server::neighbours::NeighbourCounters;
use crate::server::owners::{self, ApplicationFound};
use crate::server::{CoreCounters, Departure, Fate, Loss, Observer, Pause, Server};

/// Events between two looks at whether to stop.
const EVENTS_PER_CHECK: usize = 20_000;
/// Times an interval of the series is divided for its mean ring occupancy.
const SAMPLES: u64 = 4;
/// Means of sojourns that MSER-5 looks at, at most.
const SOJOURN_MEANS: usize = 1_000;
/// Warm-up is not extended beyond this many times the measured packets, however large the pool is.
const MOST_FOR_THE_POOL: u64 = 4;

/// What one simulation has measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Packets.
    pub measure: Measure,
    /// What was cut before.
    pub warmup: WarmUp,
    /// Memory counters of the measured part.
    pub memory: MemoryCounters,
    /// Lookups of the LLC in the measured part by cores that receive, and by those that work on what others have received.
    pub classes: [LevelCounters; 2],
    /// What each class of service did in the measured part, and has at its end.
    pub clos: [ClassCounters; CLASSES],
    /// Counters of the copy table in the measured part; zeros without one.
    pub copies: CopyCounters,
    /// What the copy engine did; zeros without one.
    pub engine: EngineCounters,
    /// What was done at the LLC for the applications that it tells apart.
    pub applications: Vec<ApplicationFound>,
    /// What the stacked DRAM did in the measured part; none without one.
    pub stacked: Option<StackedCounters>,
    /// What the NIC's SRAM for the tails of receive queues did in the measured part; none without it.
    pub tails: Option<TailCounters>,
    /// DRAM counters of the measured part.
    pub dram: DramCounters,
    /// What DRAM did in the measured part that takes energy.
    pub dram_work: Work,
    /// Core counters of the measured part.
    pub cores: Vec<CoreCounters>,
    /// Payload bytes over PCIe in the measured part: to the host, from the host.
    pub pcie_bytes: (u64, u64),
    /// The same with framing and headers.
    pub pcie_carried: (u64, u64),
    /// The time the counters cover: from the end of warm-up to the last departure.
    pub span: Ps,
    /// DRAM peak in bytes a second.
    pub dram_peak: f64,
    /// What DRAM controllers did in the measured part; none where DRAM answers at once.
    pub controllers: Option<CommandReport>,
    /// What went between sockets in the measured part; none of one socket.
    pub sockets: Option<SocketCounters>,
    /// What snooping did in the measured part; none where a directory knows.
    pub snooping: Option<SnoopCounters>,
    /// What the packet buffer did in the measured part; none where packets lie in their mbufs.
    pub buffer: Option<BufferCounters>,
    /// Packets that were simulated, warm-up included.
    pub simulated: u64,
    /// Of a chain: what each member did in the measured time; none of a function alone.
    pub members: Vec<Share>,
    /// What the user plane's flow tables did in the measured time, all cores together; none without them.
    pub flow_tables: Option<FlowCounters>,
    /// What each of the scenario's neighbours did in the measured time.
    pub neighbours: Vec<NeighbourCounters>,
    /// Lines of the LLC at the end of the measured time that devices, receiving cores, working cores and others have
    /// brought in.
    pub llc_lines: [u64; 4],
    /// Intervals of the policy, from the first packet on; none without one.
    pub control: Vec<ControlInterval>,
    /// The user ended it early.
    pub partial: bool,
}

/// The packets that were cut at the start, and why so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmUp {
    /// How many were offered before measurement began.
    pub packets: u64,
    /// What decided.
    pub end: WarmUpEnd,
    /// Mbufs in the pool.
    pub mbufs: u64,
    /// Packets that got an mbuf by then.
    pub stored: u64,
    /// Of the packets sent by then, after how many the sojourn had settled by MSER-5; [`None`] if too few were
    /// sent to tell.
    pub settled_after: Option<u64>,
}

/// Why measurement began when it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUpEnd {
    /// The scenario says so.
    Given,
    /// Buffers had been used and the sojourn had settled.
    Settled,
    /// They had not, but it had taken as long as it may.
    Limit,
}

impl WarmUpEnd {
    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            WarmUpEnd::Given => "given",
            WarmUpEnd::Settled => "settled",
            WarmUpEnd::Limit => "limit",
        }
    }
}

/// What simulations of a scenario share.
pub struct Setup<'a> {
    /// The machine.
    pub scenario: &'a Scenario,
    /// Clones share its tables.
    pub function: &'a Function,
    /// Where packets come from.
    pub blueprint: &'a Blueprint,
}

impl Setup<'_> {
    /// Simulates `packets` packets after warm-up at `load`.
    ///
    /// # Errors
    /// A machine or a load that cannot be.
    pub fn simulate(&self, load: &Load, packets: u64, watch: &Watch) -> Result<Measured, ScenarioError> {
        let seed = Seed(self.scenario.run.seed);
        let pps = self.blueprint.packets_per_second(load)?;
        if let Load::Timestamps(speed) = load
            && let Some(message) = self.scenario.run.outlasts_time(pps)
        {
            let message = format!("{speed}: {message}");
            return Err(ScenarioError::Value { origin: "run".into(), path: "traffic.speed".into(), message });
        }
        // The same packets at every load, and in runs that are compared.
        let mut source = self.blueprint.source(rand::Rng::next_u64(&mut seed.stream("traffic")), load)?;
        source.rotate(self.scenario.run.seed);
        let mut server = Server::new(self.scenario, self.function.clone(), source, u64::MAX, seed)?;

        let mut steer = Steer::new(self.scenario, seed)?;

        let warmup = self.warm_up(&mut server, packets, &mut steer, watch);
        server.mark_dram();
        let from = Snapshot::of(&server);
        let first = server.offered();
        server.offer_in_all(first + packets);
        let mut measure = Measure::new(first, server.now(), Ps::from_secs_f64(packets as f64 / pps));
        let mut last = from.clone();
        let mut next_sample = from.at + measure.interval / SAMPLES;
        let mut partial = false;
        loop {
            if !partial && watch.is_stopped() {
                partial = true;
                server.offer_in_all(server.offered());
            }
            let pause = Pause { offered: u64::MAX, at: next_sample };
            let more = advance(&mut server, pause, &mut measure, &mut steer);
            if server.now() >= next_sample || !more {
                let now = Snapshot::of(&server);
                measure.activity(last.at, now.activity_since(&last, &server));
                // Intervals may have become longer meanwhile.
                next_sample = now.at + measure.interval / SAMPLES;
                last = now;
            }
            if !more {
                break;
            }
            watch.tell(server.offered() - first, packets, false);
        }
        let to = last;
        Ok(Measured {
            memory: to.memory - from.memory,
            classes: std::array::from_fn(|i| to.classes[i] - from.classes[i]),
            clos: clos::between(&from.clos, &to.clos),
            copies: to.copies - from.copies,
            engine: to.engine - from.engine,
            applications: owners::between(&from.applications, &to.applications),
            stacked: to.stacked.zip(from.stacked).map(|(to, from)| to - from),
            tails: to.tails.zip(from.tails).map(|(to, from)| to - from),
            dram: to.dram - from.dram,
            dram_work: to.dram_work - from.dram_work,
            sockets: to.sockets.zip(from.sockets.clone()).map(|(to, from)| to - from),
            snooping: to.snooping.zip(from.snooping).map(|(to, from)| to - from),
            buffer: to.buffer.zip(from.buffer).map(|(to, from)| to - from),
            cores: to.cores.iter().zip(&from.cores).map(|(&a, &b)| a - b).collect(),
            neighbours: to.neighbours.iter().zip(&from.neighbours).map(|(&a, &b)| a - b).collect(),
            llc_lines: to.llc_lines,
            flow_tables: to.flow_tables.zip(from.flow_tables).map(|(to, from)| to - from),
            members: to.members.iter().zip(&from.members).map(|(&a, &b)| a - b).collect(),
            pcie_bytes: (to.pcie.0 - from.pcie.0, to.pcie.1 - from.pcie.1),
            pcie_carried: (to.pcie_carried.0 - from.pcie_carried.0, to.pcie_carried.1 - from.pcie_carried.1),
            span: to.at.since(from.at),
            controllers: server.memory().dram_report(server.now()),
            dram_peak: server.memory().dram_peak_bytes_per_s(),
            simulated: server.offered(),
            warmup,
            measure,
            control: steer.map(Steer::into_history).unwrap_or_default(),
            partial,
        })
    }

    /// Runs `server` until measurement of `packets` packets is to begin. See the module header.
    fn warm_up(&self, server: &mut Server, packets: u64, steer: &mut Option<Steer>, watch: &Watch) -> WarmUp {
        let mbufs = u64::from(self.scenario.mempool.size);
        let given = self.scenario.run.warmup;
        let least = given.unwrap_or((packets / 10).max(mbufs.min(packets.saturating_mul(MOST_FOR_THE_POOL))));
        let mut most = given.unwrap_or(packets.max(least));
        let mut next = least;
        if given.is_none()
            && let Some(all) = self.blueprint.packets()
            && all < most.saturating_add(packets)
        {
            // A source that ends keeps nine tenths of its packets to be measured.
            most = most.min(all / 10);
            next = next.min(most);
        }
        let mut seen = Transient { sojourns: BatchMeans::with_batches(SOJOURN_MEANS), refused: 0 };
        loop {
            let pause = Pause { offered: next, at: Ps::MAX };
            while server.offered() < next && !watch.is_stopped() && advance(server, pause, &mut seen, steer) {
                watch.tell(server.offered(), next, true);
            }
            let truncation = mser5(seen.sojourns.batch_means());
            let stored = server.offered() - seen.refused;
            let is_settled = truncation.is_none_or(|t| t.reliable) && stored >= mbufs;
            let ended = server.offered() < next;
            if is_settled || next >= most || ended {
                return WarmUp {
                    packets: server.offered(),
                    end: match given {
                        Some(_) => WarmUpEnd::Given,
                        None if is_settled => WarmUpEnd::Settled,
                        None => WarmUpEnd::Limit,
                    },
                    mbufs,
                    stored,
                    settled_after: truncation
                        .filter(|t| t.reliable)
                        .map(|t| t.drop as u64 * seen.sojourns.batch_size()),
                };
            }
            next = next.saturating_mul(2).min(most);
        }
    }
}

/// Goes on to `pause`, or to the end of the policy's interval and lets it decide; `false` once all is done.
pub(crate) fn advance(
    server: &mut Server,
    pause: Pause,
    observer: &mut impl Observer,
    steer: &mut Option<Steer>,
) -> bool {
    let Some(steer) = steer else { return server.advance(EVENTS_PER_CHECK, pause, observer) };
    let more = server.advance(EVENTS_PER_CHECK, Pause { at: pause.at.min(steer.next()), ..pause }, observer);
    if server.now() >= steer.next() {
        steer.step(server);
    }
    more
}

/// What warm-up is judged by.
#[derive(Clone)]
struct Transient {
    sojourns: BatchMeans,
    /// Packets that were lost before they got an mbuf.
    refused: u64,
}

impl Observer for Transient {
    fn departure(&mut self, d: &Departure) {
        match d.fate {
            Fate::Sent(_) => self.sojourns.record(d.sojourn.as_ns()),
            Fate::Lost(Loss::NoRxDescriptor | Loss::NoMbuf | Loss::NicFifoFull | Loss::NoBuffer) => self.refused += 1,
            _ => {}
        }
    }
}

#[derive(Clone)]
struct Snapshot {
    at: Ps,
    memory: MemoryCounters,
    classes: [LevelCounters; 2],
    clos: [ClassCounters; CLASSES],
    copies: CopyCounters,
    engine: EngineCounters,
    applications: Vec<ApplicationState>,
    stacked: Option<StackedCounters>,
    tails: Option<TailCounters>,
    dram: DramCounters,
    dram_work: Work,
    sockets: Option<SocketCounters>,
    snooping: Option<SnoopCounters>,
    buffer: Option<BufferCounters>,
    cores: Vec<CoreCounters>,
    pcie: (u64, u64),
    pcie_carried: (u64, u64),
    members: Vec<Share>,
    flow_tables: Option<FlowCounters>,
    neighbours: Vec<NeighbourCounters>,
    llc_lines: [u64; 4],
}

impl Snapshot {
    fn of(server: &Server) -> Snapshot {
        Snapshot {
            at: server.now(),
            memory: server.memory().counters(),
            classes: [RX_CLASS, WORK_CLASS].map(|clos| server.memory().class(clos).llc),
            clos: clos::counters(server.memory()),
            copies: server.memory().copy_counters(),
            engine: server.memory().engine_counters(),
            dram: server.memory().dram_counters(),
            dram_work: server.memory().dram_work(server.now()),
            sockets: server.memory().socket_counters(),
            snooping: server.memory().snoop_counters(),
            buffer: server.buffer(),
            applications: server.memory().applications(),
            stacked: server.memory().stack_counters(),
            tails: server.memory().tails(),
            cores: server.cores(),
            pcie: server.pcie_bytes(),
            pcie_carried: server.pcie_carried(),
            members: server.members(),
            flow_tables: server.flow_tables(),
            neighbours: server.neighbours(),
            llc_lines: server.llc_lines(),
        }
    }

    fn activity_since(&self, last: &Snapshot, server: &Server) -> Activity {
        let llc = self.memory.llc - last.memory.llc;
        let dram = self.dram - last.dram;
        let busy = |s: &Snapshot| s.cores.iter().map(|c| c.busy.0).sum();
        let mbufs = server.mbufs();
        Activity {
            span: self.at.since(last.at),
            llc_hits: llc.hits,
            llc_lookups: llc.hits + llc.misses,
            dram_lines: dram.reads + dram.writes,
            dram_work: self.dram_work - last.dram_work,
            busy: Ps(busy(self)).since(Ps(busy(last))),
            waiting: server.ring_occupancy() as u64,
            mbufs: [mbufs.descriptors, mbufs.queued, mbufs.sending, mbufs.free],
            samples: 1,
        }
    }
}
