//! A policy in the loop of a simulated server: once an interval of simulated time its counters are read, as a
//! profiler on a real machine reads them, the policy decides, and the masks change while packets go on.
//!
//! What is read: packets received and lost, bytes over PCIe, DDIO write misses, DRAM bandwidth, and of each class
//! of service LLC misses, occupancy and busy time. Counters can be made as bad as real ones: noisy, late, missing.
//! Core class 1 receives and class 2 works (all are class 1 without a pipeline); class 0 is everyone else.

use std::collections::VecDeque;

use control::{Actuator, Allocation, ClassObservation, Counter, Observation, Policy};
use engine::Seed;
use policy::baseline::{IatLike, Isolated, SharedWays, Thresholds};
use policy::{Allocator, AllocatorSpec, Meter, Steering, StepOutcome};
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use schemars::JsonSchema;
use serde::Serialize;
use units::{Cbm, Clos, LINE_BYTES, Ps};

use crate::scenario::clos::{RX_CLASS, WORK_CLASS};
use crate::scenario::{PolicyKind, PolicySpec};
use crate::scenario::{Scenario, ScenarioError};
use crate::server::{DepartureObserver, Pause, Server};

impl PolicySpec {
    fn policy(&self, ways: u32) -> Result<InLoop, ScenarioError> {
        let floors = self.floors(ways);
        Ok(match self.kind {
            PolicyKind::Shared => InLoop::Shared(SharedWays::new(floors, self.io_ways)),
            PolicyKind::Isolated => InLoop::Isolated(Isolated::new(floors, self.io_ways)),
            PolicyKind::Thresholds => InLoop::Thresholds(Thresholds::new(floors, self.miss_rate)),
            PolicyKind::Iat => InLoop::Iat(IatLike::new(floors)),
            PolicyKind::Allocator => {
                let spec =
                    AllocatorSpec { floors, start_io: self.io_ways, rx_class: RX_CLASS.0, ..AllocatorSpec::default() };
                let allocator = Allocator::new(spec).map_err(|e| ScenarioError::Value {
                    origin: "scenario".into(),
                    path: "policy".into(),
                    message: e.to_string(),
                })?;
                InLoop::Allocator(Box::new(allocator))
            }
        })
    }
}

/// The policy of a run.
#[derive(Clone)]
enum InLoop {
    Allocator(Box<Allocator>),
    Shared(SharedWays),
    Isolated(Isolated),
    Thresholds(Thresholds),
    Iat(IatLike),
}

impl Policy for InLoop {
    fn decide(&mut self, seen: &Observation) -> Option<Allocation> {
        match self {
            InLoop::Allocator(allocator) => allocator.decide(seen),
            InLoop::Shared(policy) => policy.decide(seen),
            InLoop::Isolated(policy) => policy.decide(seen),
            InLoop::Thresholds(policy) => policy.decide(seen),
            InLoop::Iat(policy) => policy.decide(seen),
        }
    }
}

/// Events between two looks at whether to stop.
const EVENTS_PER_CHECK: usize = 20_000;

/// What one interval showed and what was decided.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ControlInterval {
    /// When it ended, in nanoseconds of simulated time.
    pub at_ns: f64,
    /// Ways of devices in force during it.
    pub io_ways: u32,
    /// Ways of receiving cores in force during it.
    pub core_ways: u32,
    /// The allocator's state at its end; nothing of other policies.
    pub state: Option<&'static str>,
    /// Ways of devices from its end on, where the policy changed something.
    pub decided_io_ways: Option<u32>,
    /// Packets that receiving cores took during it: counted, and not as read.
    pub received: u64,
    /// The share of it that receiving cores were busy in the mean: counted, and not as read.
    pub busy: f64,
    /// Packets received a second, as read.
    pub received_pps: Option<f64>,
    /// Share of device writes that missed, as read.
    pub ddio_write_miss_rate: Option<f64>,
    /// LLC miss rate of receiving and of working cores, as read.
    pub llc_miss_rate: [Option<f64>; 2],
    /// Bytes of LLC that devices, receiving cores, working cores and others have brought in.
    pub llc_bytes: [u64; 4],
}

/// The loop. [`Steer::step`] is to be called when [`Steer::next`] has come.
#[derive(Clone)]
pub struct Steer {
    steering: Steering<InLoop>,
    profiler: Profiler,
    interval: Ps,
    next: Ps,
    /// When the last interval ended, packets that receiving cores had taken by then, and how long they had been busy.
    before: (Ps, u64, Ps),
    history: Vec<ControlInterval>,
}

impl Steer {
    /// The loop that the scenario asks for, if it does.
    ///
    /// # Errors
    /// Numbers that the policy refuses.
    pub fn new(scenario: &Scenario, seed: Seed) -> Result<Option<Steer>, ScenarioError> {
        let Some(spec) = &scenario.policy else { return Ok(None) };
        let interval = spec.interval.ps();
        Ok(Some(Steer {
            steering: Steering::new(spec.policy(scenario.machine.llc.ways)?),
            profiler: Profiler::new(spec, scenario.pipeline.is_some(), seed),
            interval,
            next: interval,
            before: (Ps::ZERO, 0, Ps::ZERO),
            history: Vec::new(),
        }))
    }

    /// Is switched on at `server`, which has run without it so far.
    pub fn begin(&mut self, server: &Server) {
        if server.now() == Ps::ZERO {
            return;
        }
        // What was counted before is nothing that it reads.
        self.profiler.read(server);
        self.next = server.now() + self.interval;
        self.before = received(server);
    }

    /// When the current interval ends.
    pub fn next(&self) -> Ps {
        self.next
    }

    /// Ends the interval: reads, decides, applies.
    pub fn step(&mut self, server: &mut Server) {
        self.next = server.now() + self.interval;
        let ways = |server: &Server, clos| server.memory().class_ways(clos).ways();
        let (io_ways, core_ways) = (server.memory().io_ways().ways(), ways(server, RX_CLASS));
        let lines = server.llc_lines();
        let now = received(server);
        let before = std::mem::replace(&mut self.before, now);
        let elapsed = now.0.since(before.0).0 * server.receiving_cores() as u64;
        let outcome = self.steering.step(&mut ServerPlant { server, profiler: &mut self.profiler });
        let decided = match &outcome {
            StepOutcome::Applied(_, allocation) => allocation.io_ways.map(Cbm::ways),
            _ => None,
        };
        let value = |c: Counter| c.map(|s| s.value);
        let seen = outcome.seen();
        let miss = |clos: Clos| {
            seen.and_then(|s| s.classes.iter().find(|c| c.clos == clos)).and_then(|c| value(c.llc_miss_rate))
        };
        self.history.push(ControlInterval {
            at_ns: server.now().as_ns(),
            io_ways,
            core_ways,
            state: match self.steering.policy() {
                InLoop::Allocator(allocator) => Some(allocator.state().name()),
                _ => None,
            },
            decided_io_ways: decided,
            received: now.1 - before.1,
            busy: if elapsed == 0 { 0.0 } else { now.2.since(before.2).0 as f64 / elapsed as f64 },
            received_pps: seen.and_then(|s| value(s.received_pps)),
            ddio_write_miss_rate: seen.and_then(|s| value(s.ddio_write_miss_rate)),
            llc_miss_rate: [miss(RX_CLASS), miss(WORK_CLASS)],
            llc_bytes: lines.map(|l| l * LINE_BYTES),
        });
    }

    /// All intervals so far.
    pub fn into_history(self) -> Vec<ControlInterval> {
        self.history
    }
}

/// The time, packets that receiving cores have taken by now, and how long they have been busy.
fn received(server: &Server) -> (Ps, u64, Ps) {
    let cores = server.cores();
    let receiving = &cores[..server.receiving_cores()];
    let took = receiving.iter().map(|c| c.packets).sum();
    (server.now(), took, Ps(receiving.iter().map(|c| c.busy.0).sum()))
}

/// Goes on to `pause`, or to the end of the policy's interval and lets it decide; `false` once all is done.
pub(crate) fn advance(
    server: &mut Server,
    pause: Pause,
    observer: &mut impl DepartureObserver,
    steer: &mut Option<Steer>,
) -> bool {
    let Some(steer) = steer else { return server.advance(EVENTS_PER_CHECK, pause, observer) };
    let more = server.advance(EVENTS_PER_CHECK, Pause { at: pause.at.min(steer.next()), ..pause }, observer);
    // Not where the events ran out after the interval's end and before the next arrival, which hangs on how they are counted.
    if (server.is_paused() || !more) && server.now() >= steer.next() {
        steer.step(server);
    }
    more
}

/// Reads counters as a real machine gives them.
#[derive(Clone)]
struct Profiler {
    pipeline: bool,
    noise: f64,
    missing: f64,
    lag: usize,
    random: Pcg64,
    last: Ps,
    received: Meter,
    lost: Meter,
    pcie_write: Meter,
    pcie_read: Meter,
    ddio: Meter,
    memory: Meter,
    /// LLC misses and busy time of each class.
    classes: Vec<(Clos, Meter, Meter)>,
    /// Observations not yet handed out.
    late: VecDeque<Observation>,
}

impl Profiler {
    fn new(spec: &PolicySpec, pipeline: bool, seed: Seed) -> Profiler {
        let classes = if pipeline { vec![RX_CLASS, WORK_CLASS] } else { vec![RX_CLASS] };
        Profiler {
            pipeline,
            noise: spec.noise,
            missing: spec.missing,
            lag: spec.lag as usize,
            random: seed.stream("policy.counters"),
            last: Ps::ZERO,
            received: Meter::new(),
            lost: Meter::new(),
            pcie_write: Meter::new(),
            pcie_read: Meter::new(),
            ddio: Meter::new(),
            memory: Meter::new(),
            classes: classes.into_iter().map(|c| (c, Meter::new(), Meter::new())).collect(),
            late: VecDeque::new(),
        }
    }

    /// What is read now.
    fn read(&mut self, server: &Server) -> Observation {
        let now = server.now();
        let memory = server.memory();
        let counters = memory.counters();
        let dram = memory.dram_counters();
        let cores = server.cores();
        let receiving = &cores[..server.receiving_cores()];
        let (written, read) = server.pcie_bytes();
        let classes = self
            .classes
            .iter_mut()
            .map(|(clos, misses, busy)| {
                let class = memory.class(*clos);
                let of_class = if self.pipeline && *clos == WORK_CLASS { &cores[receiving.len()..] } else { receiving };
                let total = of_class.iter().map(|c| c.busy.0).sum::<u64>();
                let elapsed = now.0 * of_class.len() as u64;
                ClassObservation {
                    clos: *clos,
                    llc_miss_rate: misses.share(Some(class.llc.misses), Some(class.llc.hits + class.llc.misses), now),
                    llc_bytes: Some(control::Sample {
                        value: (class.lines * LINE_BYTES) as f64,
                        age: Ps::ZERO,
                        interval: now.since(self.last),
                    }),
                    busy: busy.share(Some(total), Some(elapsed), now),
                }
            })
            .collect();
        let ddio = counters.dma_write;
        let seen = Observation {
            at: now,
            interval: now.since(self.last),
            received_pps: self.received.rate(Some(receiving.iter().map(|c| c.packets).sum()), now),
            lost_pps: self.lost.rate(Some(server.lost()), now),
            pcie_write_bytes_per_s: self.pcie_write.rate(Some(written), now),
            pcie_read_bytes_per_s: self.pcie_read.rate(Some(read), now),
            ddio_write_miss_rate: self.ddio.share(Some(ddio.misses), Some(ddio.hits + ddio.misses), now),
            memory_bytes_per_s: self.memory.rate(Some((dram.reads + dram.writes) * LINE_BYTES), now),
            classes,
            in_force: Allocation::default(),
        };
        self.last = now;
        seen
    }

    /// Makes counters of a perfect reading as bad as the scenario says.
    fn spoil(&mut self, seen: &mut Observation) {
        let Profiler { noise, missing, random, .. } = self;
        let mut spoil = |counter: &mut Counter, most: f64| {
            let draw: f64 = StandardNormal.sample(random);
            if random.random::<f64>() < *missing {
                *counter = None;
            } else if let Some(sample) = counter {
                sample.value = (sample.value * (1.0 + *noise * draw)).clamp(0.0, most);
            }
        };
        let Observation { received_pps, lost_pps, pcie_write_bytes_per_s, pcie_read_bytes_per_s, .. } = seen;
        for counter in [received_pps, lost_pps, pcie_write_bytes_per_s, pcie_read_bytes_per_s] {
            spoil(counter, f64::INFINITY);
        }
        spoil(&mut seen.memory_bytes_per_s, f64::INFINITY);
        spoil(&mut seen.ddio_write_miss_rate, 1.0);
        for class in &mut seen.classes {
            spoil(&mut class.llc_miss_rate, 1.0);
            spoil(&mut class.llc_bytes, f64::INFINITY);
            spoil(&mut class.busy, 1.0);
        }
    }
}

/// The server as the loop sees it.
struct ServerPlant<'a> {
    server: &'a mut Server,
    profiler: &'a mut Profiler,
}

impl Actuator for ServerPlant<'_> {
    type Error = machine::MachineError;

    fn observe(&mut self) -> Result<Observation, Self::Error> {
        let mut read = self.profiler.read(self.server);
        self.profiler.spoil(&mut read);
        self.profiler.late.push_back(read);
        let is_late = self.profiler.late.len() > self.profiler.lag;
        let mut seen =
            if is_late { self.profiler.late.pop_front().unwrap_or_default() } else { Observation::default() };
        let late = self.server.now().since(seen.at);
        for counter in counters(&mut seen) {
            counter.age += late;
        }
        seen.at = self.server.now();
        let memory = self.server.memory();
        let classes = [Clos(0), RX_CLASS, WORK_CLASS];
        seen.in_force = Allocation {
            io_ways: Some(memory.io_ways()),
            classes: classes.map(|c| (c, memory.class_ways(c))).to_vec(),
        };
        Ok(seen)
    }

    fn apply(&mut self, allocation: &Allocation) -> Result<(), Self::Error> {
        self.server.set_ways(allocation)
    }
}

fn counters(seen: &mut Observation) -> impl Iterator<Item = &mut control::Sample> {
    let classes = seen.classes.iter_mut().flat_map(|c| [&mut c.llc_miss_rate, &mut c.llc_bytes, &mut c.busy]);
    let own = [
        &mut seen.received_pps,
        &mut seen.lost_pps,
        &mut seen.pcie_write_bytes_per_s,
        &mut seen.pcie_read_bytes_per_s,
        &mut seen.ddio_write_miss_rate,
        &mut seen.memory_bytes_per_s,
    ];
    own.into_iter().chain(classes).flatten()
}
