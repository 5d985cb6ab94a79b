//! A server as a response surface, for many long runs: what a pipeline of one receiving core and six workers does with a
//! number of I/O ways.
//!
//! - Device writes leak as `queueing::cyclic_leakage` has it, for a pool whose buffers come round in a circle through the I/O
//!   ways of 49152 sets (33 MiB, 11 ways). That form is within 3 points of a simulated cache, and of a measured one at all
//!   points but one.
//! - Lines that cores come back to (pool ring, mbuf headers, queues, rules of UEs) are drawn at random from a working set with a
//!   hot part; with random replacement a working set of W lines in C lines of core ways hits C / W.
//! - The receiving core needs a time for its instructions, and for each line that misses a time that overlaps with others; so
//!   do the workers, six of them. The slower of the two is the program's capacity; below it cores poll in vain.
//! - A burst costs beside its packets, and bursts are the shorter the less arrives: a packet's time falls with the load.
//! - A change of ways takes effect over time: each interval half of what is left.
//!
//! No number is fitted on the paper: they were set so that leakage and core misses cost about as much. The plant of
//! `sim` has the caches themselves; this one has their response only.

use control::{Actuator, Allocation, ClassObservation, Counter, Observation, Sample};
use queueing::{CyclicBuffers, DdioWays, cyclic_leakage};
use units::{Cbm, Clos, Ps};

pub const WAYS: u32 = 11;
/// Of devices: one way is the others', two at least the cores'.
pub const MOST_IO: u32 = WAYS - 3;
pub const INTERVAL: Ps = Ps::from_ns(100_000_000);
const SETS: f64 = 49_152.0;
const MISS_NS: f64 = 60.0;
/// Packets of a burst, where the core is always busy; fewer in proportion where it is not.
const MOST_BURST: f64 = 32.0;

/// A program's needs.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Mbufs that come round.
    pub buffers: f64,
    /// Lines that cores come back to, and the share of references to the hot tenth of them.
    pub lines: f64,
    pub hot: f64,
    /// Of a receiving core's and a worker's packet: nanoseconds, and lines of their own.
    pub rx: (f64, f64),
    pub work: (f64, f64),
    /// How much of a miss is not hidden by others.
    pub overlap: f64,
    /// Nanoseconds that a burst costs beside, of at most [`MOST_BURST`] packets.
    pub burst: f64,
}

/// What arrives: packets a second and bytes of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    pub pps: f64,
    pub bytes: f64,
}

/// What the plant does with a number of I/O ways.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// Packets a second that the program can do at most.
    pub capacity: f64,
    /// Packets of a busy second, at the load that is offered.
    pub efficiency: f64,
    pub leak: f64,
    pub core_miss: f64,
}

/// A program's responses to packets of one size.
#[derive(Clone, Debug)]
pub struct Surface {
    program: Program,
    bytes: f64,
    /// Leakage by I/O ways, from 1.
    leaks: Vec<f64>,
}

impl Program {
    pub fn surface(&self, bytes: f64) -> Surface {
        let lines = (bytes / 64.0).ceil();
        let of = CyclicBuffers { buffers: self.buffers, lines, touched: 1.0_f64.min(lines - 0.5) };
        let at = |ways| cyclic_leakage(&of, &DdioWays { sets: SETS, ways }).expect("sound numbers");
        Surface { program: *self, bytes, leaks: (1..WAYS).map(at).collect() }
    }
}

impl Surface {
    /// What the program does with `io` I/O ways, between two numbers while lines are still leaving, of `pps` packets a second.
    pub fn response(&self, io: f64, pps: f64) -> Response {
        let Surface { program, bytes, leaks } = self;
        let at = |ways: f64| leaks[ways as usize - 1];
        let leak = at(io.floor()) * (1.0 - io.fract()) + at(io.ceil()) * io.fract();
        let room = (f64::from(WAYS) - 1.0 - io) * SETS;
        let hits = |lines: f64, room: f64| (room / lines).min(1.0);
        // The hot tenth is used so often that it stays first.
        let hot_lines = program.lines / 10.0;
        let cold_room = (room - hot_lines).max(room * 0.05);
        let hot = program.hot * hits(hot_lines, room);
        let core_miss = 1.0 - hot - (1.0 - program.hot) * hits(program.lines - hot_lines, cold_room);
        let payload = ((bytes / 64.0).ceil() * 0.25).max(1.0);
        let stall = |own: f64| program.overlap * MISS_NS * (leak * payload + core_miss * own);
        let rx = program.rx.0 + stall(program.rx.1);
        let work = (program.work.0 + stall(program.work.1)) / 6.0;
        let of_packets = |packets: f64| 1e9 / (rx + program.burst / packets).max(work);
        let capacity = of_packets(MOST_BURST);
        let efficiency = of_packets((MOST_BURST * pps / capacity).clamp(1.0, MOST_BURST));
        Response { capacity, efficiency, leak, core_miss }
    }

    /// The most packets of a busy second, over all numbers of I/O ways that are allowed.
    pub fn best(&self, pps: f64) -> f64 {
        (1..=MOST_IO).map(|io| self.response(io.into(), pps).efficiency).fold(0.0, f64::max)
    }
}

/// Splitmix64.
#[derive(Clone)]
pub struct Chance(pub u64);

impl Chance {
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, from: f64, to: f64) -> f64 {
        from + self.uniform() * (to - from)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.uniform() * of.len() as f64) as usize]
    }

    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// What observation adds.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Relative standard deviation of each counter.
    pub noise: f64,
    /// Counters are those of the interval before.
    pub lagged: bool,
    /// The share of counters that are not there.
    pub missing: f64,
    /// The share of settings that are refused.
    pub refused: f64,
}

pub struct Plant {
    surface: Surface,
    traffic: Traffic,
    faults: Faults,
    chance: Chance,
    in_force: Allocation,
    /// I/O ways as the cache's content has them.
    effective: f64,
    now: Ps,
    before: Option<[f64; 6]>,
    /// Packets a busy second in the last interval.
    pub efficiency: f64,
    pub applied: Vec<Allocation>,
}

impl Plant {
    pub fn new(surface: &Surface, traffic: Traffic, faults: Faults, seed: u64) -> Plant {
        let in_force = Allocation { io_ways: Some(Cbm::span(WAYS - 2, 2)), ..Allocation::default() };
        Plant {
            surface: surface.clone(),
            traffic,
            faults,
            chance: Chance(seed),
            in_force,
            effective: 2.0,
            now: Ps::ZERO,
            before: None,
            efficiency: 0.0,
            applied: Vec::new(),
        }
    }

    pub fn offer(&mut self, surface: &Surface, traffic: Traffic) {
        (self.surface, self.traffic) = (surface.clone(), traffic);
    }

    /// The load alone changes.
    pub fn load(&mut self, pps: f64) {
        self.traffic.pps = pps;
    }

    pub fn io(&self) -> u32 {
        self.in_force.io_ways.map_or(0, Cbm::ways)
    }
}

impl Actuator for Plant {
    type Error = &'static str;

    fn observe(&mut self) -> Result<Observation, &'static str> {
        self.now += INTERVAL;
        self.effective += (f64::from(self.io()) - self.effective) / 2.0;
        if (self.effective - f64::from(self.io())).abs() < 0.02 {
            self.effective = self.io().into();
        }
        let of = self.surface.response(self.effective, self.traffic.pps);
        let carried = self.traffic.pps.min(of.capacity);
        let busy = carried / of.efficiency;
        self.efficiency = of.efficiency;
        let totals = [carried, self.traffic.pps - carried, carried * self.traffic.bytes, of.leak, of.core_miss, busy];
        let shown = if self.faults.lagged { self.before.replace(totals) } else { Some(totals) };
        let age = if self.faults.lagged { INTERVAL } else { Ps::ZERO };
        let mut counter = |i: usize| -> Counter {
            let value = shown?[i] * (1.0 + self.faults.noise * self.chance.normal());
            let is_there = self.chance.uniform() >= self.faults.missing;
            is_there.then_some(Sample { value: value.max(0.0), age, interval: INTERVAL })
        };
        let class = ClassObservation { clos: Clos(1), llc_miss_rate: counter(4), llc_bytes: None, busy: counter(5) };
        Ok(Observation {
            at: self.now,
            interval: INTERVAL,
            received_pps: counter(0),
            lost_pps: counter(1),
            pcie_write_bytes_per_s: counter(2),
            ddio_write_miss_rate: counter(3),
            classes: vec![class],
            in_force: self.in_force.clone(),
            ..Observation::default()
        })
    }

    fn apply(&mut self, allocation: &Allocation) -> Result<(), &'static str> {
        if self.chance.uniform() < self.faults.refused {
            return Err("busy");
        }
        self.in_force = allocation.clone();
        self.applied.push(allocation.clone());
        Ok(())
    }
}
