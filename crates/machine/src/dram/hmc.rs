//! A Hybrid Memory Cube: links, crossbar, and vaults with closed pages.
//!
//! Requests are dealt to the links in turn, and each link sends its own in their order, whatever the others do: one for
//! as long as its flits last. The crossbar takes it to its vault, where it waits its turn in order of arrival, of those
//! that arrive in one clock in that of the trace; the vault's controller serves it; the answer goes back through the
//! crossbar and takes the same link's other direction in order of readiness, in that of the trace where several are ready
//! in one clock. A link has so many tags: one is out from the request's first flit to the answer's last, and without one
//! the link's next request waits, and those behind it.
//!
//! Source: Hybrid Memory Cube specification 2.1: packets of 16-byte flits with one flit of header and
//! tail, so a 64-byte read asks with 1 flit and is answered with 5, and a write the other way round.
//! The crossbar's latency is assumed. Left out: retries, the links' power states, atomics, and that
//! a link is nearer to its own quadrant's vaults.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ::stats::Histogram;
use engine::Tournament;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Ps;

use super::channel::{ChannelController, FinishedSink, Goal, RowOutcome};
use super::map::{AddressMap, Decoder, DramLocation};
use super::policy::{ControllerSpec, Order, Page, Refresh, Writes};
use super::presets;
use super::simulate::{DramTrace, REQUEST_BYTES, RequestArrivals, check};
use super::standard::Standard;
use super::stats::{DramReport, Gathered, Latencies};
use crate::MachineError;

/// A cube.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CubeSpec {
    /// The vaults: one channel each.
    pub vaults: Standard,
    /// Their controllers.
    pub controller: ControllerSpec,
    /// Links to the host.
    pub links: u32,
    /// Lanes of a link in one direction.
    pub lanes: u32,
    /// Gb/s of a lane.
    pub lane_gbps: u32,
    /// Clocks of the vaults through the crossbar, one way.
    pub crossbar: u32,
    /// Requests a link may have under way, until their answers have come.
    pub tags: u32,
}

impl Default for CubeSpec {
    /// HMC 2.1, 8 GiB, four full-width links at 25 Gb/s a lane.
    fn default() -> CubeSpec {
        CubeSpec {
            vaults: presets::hmc_vault(),
            controller: ControllerSpec {
                queue: 32, // DRAMsim3 HMC2_8GB_4Lx16
                order: Order::FrFcfs { cap: 0 },
                writes: Writes::Mixed,
                page: Page::Closed, // HMC 2.1
                refresh: Refresh::AllBank,
            },
            links: 4,      // HMC 2.1
            lanes: 16,     // HMC 2.1, full width
            lane_gbps: 25, // DRAMsim3 HMC2_8GB_4Lx16
            crossbar: 5,   // assumed: 4 ns
            tags: 128,     // assumed; HMC 2.1 has 11 bits for a tag
        }
    }
}

/// Bytes of a flit.
const FLIT: u32 = 16;
/// Flits of a packet with the data of a request, and of one without.
const LONG: u64 = (REQUEST_BYTES / FLIT + 1) as u64;
const SHORT: u64 = 1;

impl CubeSpec {
    /// Time of a flit on a link.
    pub fn flit(&self) -> Ps {
        Ps(u64::from(FLIT) * 8 * 1000 / u64::from(self.lanes * self.lane_gbps))
    }

    /// A vault clock.
    pub fn clock(&self) -> Ps {
        Ps(1_000_000 / u64::from(self.vaults.clock_mhz))
    }

    /// A read that meets an idle cube, from its first flit to the answer's last: flits, crossbar both
    /// ways, the ingress register, and the vault's own unloaded read. Up to a clock more where it
    /// arrives between clocks.
    pub fn unloaded_read(&self) -> Ps {
        let clocks = 2 * self.crossbar + 1 + self.vaults.unloaded_read(self.vaults.bursts(REQUEST_BYTES));
        Ps(self.flit().0 * (SHORT + LONG) + self.clock().0 * u64::from(clocks))
    }

    /// The most data that reads can bring, in bytes a second: what links or vaults allow.
    pub fn peak_read_bytes_per_s(&self) -> f64 {
        self.peak_bytes_per_s(1, 0)
    }

    /// The most data that a mix of so many reads and writes can move, in bytes a second: what the busier direction of the
    /// links, or the vaults, allow.
    pub fn peak_bytes_per_s(&self, reads: u64, writes: u64) -> f64 {
        let flits = (reads * LONG + writes * SHORT).max(reads * SHORT + writes * LONG) as f64;
        let data = (reads + writes) as f64 * f64::from(REQUEST_BYTES);
        let links = f64::from(self.links) * data / (flits * self.flit().as_secs());
        // Of no request it is the vaults' alone.
        links.min(self.vaults.peak_bytes_per_s())
    }

    /// Whether numbers agree with each other.
    ///
    /// # Errors
    /// Links that HMC has not; vaults that contradict themselves.
    pub fn check(&self) -> Result<(), MachineError> {
        let ranges = [
            ("links", self.links, 1, 8),
            ("lanes", self.lanes, 1, 16),
            ("lane_gbps", self.lane_gbps, 1, 100),
            ("crossbar", self.crossbar, 1, 1000),
            ("tags", self.tags, 1, 2048),
        ];
        for (field, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(MachineError::new(
                    format!("dram.hmc.{field}"),
                    value.to_string(),
                    format!("{least} to {most}"),
                    "HMC 2.1 has 4 links of 16 lanes".into(),
                ));
            }
        }
        if self.vaults.ranks * self.vaults.groups > 4 || !1_000_000u32.is_multiple_of(self.vaults.clock_mhz) {
            return Err(MachineError::new(
                "dram.hmc.vaults",
                format!("{} at {} MHz", self.vaults.name, self.vaults.clock_mhz),
                "up to 4 bank groups, a clock of whole picoseconds",
                "take the preset hmc-2.1-vault".into(),
            ));
        }
        self.vaults.check()
    }
}

/// What a cube's simulation gives.
#[derive(Clone, Debug)]
pub struct CubeOutcome {
    /// By request, when the answer's last flit has come.
    pub completions: Vec<Ps>,
    /// By request, when its first flit was sent.
    pub sent: Vec<Ps>,
    /// From the request's first flit to the answer's last, in picoseconds.
    pub read_latency: Latencies,
    /// The same of writes.
    pub write_latency: Latencies,
    /// Bytes of data a second over the whole run.
    pub bytes_per_s: f64,
    /// Share of time for which requests were on the links, and answers.
    pub link_shares: [f64; 2],
    /// The vaults alone.
    pub vaults: DramReport,
}

#[derive(Clone, Copy)]
struct CubePacket {
    clock: u64,
    id: u64,
    place: DramLocation,
    write: bool,
}

struct Vault {
    channel: ChannelController<4>,
    /// On the way to it or before its door, in order of arrival, then of the trace.
    waiting: VecDeque<CubePacket>,
    /// Until when to drive it for something to happen.
    due: u64,
}

impl Vault {
    /// When it has something to do next.
    fn next(&self) -> u64 {
        self.due.min(self.waiting.front().map_or(u64::MAX, |packet| packet.clock))
    }
}

#[derive(Default)]
struct CubeLink {
    /// The request that it sends next.
    next: usize,
    free: [Ps; 2],
    tags: u32,
    /// Times at which tags come back; answers come in order.
    returns: VecDeque<u64>,
    busy: [u64; 2],
}

impl CubeLink {
    /// Something that takes `time` leaves at `start`: a request on way 0, an answer on way 1.
    fn carry(&mut self, way: usize, start: Ps, time: u64) {
        self.free[way] = start + Ps(time);
        self.busy[way] += time;
    }
}

#[derive(Default)]
struct Ready(BinaryHeap<Reverse<(u64, u64)>>);

impl FinishedSink for Ready {
    fn done(&mut self, id: u64, _: u64, finished: u64, _: RowOutcome) {
        self.0.push(Reverse((finished, id)));
    }
}

/// Runs a trace through a cube; [`RequestArrivals`] count vault clocks, and saturated means that each link
/// always has a request to send.
///
/// Vaults and links are simulated one after the other for as long as the crossbar takes: what is sent in that time
/// reaches a vault, and what is answered in it a link, only after it, so that the order does not matter, nor how long
/// that time is.
///
/// # Errors
/// As [`super::simulate::simulate`]; links and vaults that contradict HMC.
pub fn simulate(spec: &CubeSpec, map: &AddressMap, trace: &DramTrace) -> Result<CubeOutcome, MachineError> {
    spec.check()?;
    let decoder = Decoder::new(map, &spec.vaults)?;
    check(trace, &decoder)?;
    let mut cube = Cube::new(spec, decoder, trace)?;
    let mut now = 0u64;
    while cube.answered < trace.addresses.len() {
        let until = now + u64::from(spec.crossbar);
        cube.drive_vaults(until);
        cube.send_requests(now, until);
        cube.send_answers(until);
        let event = cube.next_event();
        now = until.max(if event == u64::MAX { 0 } else { event });
    }
    Ok(cube.outcome())
}

/// A cube at work on a trace. Clocks are those of its vaults.
struct Cube<'a> {
    spec: &'a CubeSpec,
    trace: &'a DramTrace<'a>,
    decoder: Decoder,
    /// What a flit takes on a link, and a clock, in picoseconds.
    flit: u64,
    clock: u64,
    vaults: Vec<Vault>,
    links: Vec<CubeLink>,
    /// Which vault has something to do next.
    soonest: Tournament,
    ready: Ready,
    completions: Vec<Ps>,
    sent: Vec<Ps>,
    /// Of reads and writes.
    latency: [Histogram; 2],
    answered: usize,
}

impl<'a> Cube<'a> {
    /// # Errors
    /// Vaults that cannot be.
    fn new(spec: &'a CubeSpec, decoder: Decoder, trace: &'a DramTrace<'a>) -> Result<Cube<'a>, MachineError> {
        let mut vaults = Vec::new();
        for _ in 0..spec.vaults.channels {
            let channel = ChannelController::<4>::new(&spec.vaults, &spec.controller, REQUEST_BYTES)?;
            vaults.push(Vault { channel, waiting: VecDeque::new(), due: u64::MAX });
        }
        let dealt = 0..spec.links as usize;
        let n = trace.addresses.len();
        Ok(Cube {
            spec,
            trace,
            decoder,
            flit: spec.flit().0,
            clock: spec.clock().0,
            soonest: Tournament::new(vaults.len()),
            vaults,
            links: dealt.map(|next| CubeLink { next, tags: spec.tags, ..CubeLink::default() }).collect(),
            ready: Ready::default(),
            completions: vec![Ps::ZERO; n],
            sent: vec![Ps::ZERO; n],
            latency: [Histogram::new(), Histogram::new()],
            answered: 0,
        })
    }

    /// Vaults serve what has reached them before clock `until`.
    fn drive_vaults(&mut self, until: u64) {
        let Cube { vaults, soonest, ready, clock, .. } = self;
        while let Some((_, which)) = soonest.first().filter(|(at, _)| at.0 < until * *clock) {
            let vault = &mut vaults[which];
            while let Some(&packet) = vault.waiting.front().filter(|packet| packet.clock < until) {
                // A vault that is full serves others until it has room, which later arrivals cannot change.
                vault.channel.drive(Goal::Offer(packet.clock), ready);
                vault.channel.accept(packet.id, packet.place, packet.write);
                vault.waiting.pop_front();
            }
            vault.channel.drive(Goal::Until(until), ready);
            vault.due = vault.channel.next().unwrap_or(u64::MAX);
            match vault.next() {
                u64::MAX => soonest.clear(which),
                next => soonest.set(which, Ps(next * *clock)),
            }
        }
    }

    /// Links send what leaves in clocks `now` to `until`.
    fn send_requests(&mut self, now: u64, until: u64) {
        let Cube { spec, trace, decoder, vaults, links, soonest, sent, .. } = self;
        let (flit, clock) = (self.flit, self.clock);
        let (n, step) = (trace.addresses.len(), links.len());
        for link in links {
            while link.next < n {
                let i = link.next;
                let mut start = (offered(trace, i) * clock).max(link.free[0].0);
                if link.tags == 0 {
                    let Some(&at) = link.returns.front().filter(|&&at| at < until * clock) else { break };
                    link.returns.pop_front();
                    link.tags += 1;
                    start = start.max(at);
                }
                if start >= until * clock {
                    break;
                }
                debug_assert!(start >= now * clock, "request {i} leaves at {start} ps, before {now} clocks");
                link.tags -= 1;
                let write = writes(trace, i);
                link.carry(0, Ps(start), if write { LONG } else { SHORT } * flit);
                sent[i] = Ps(start);
                let place = decoder.decode(trace.addresses[i]);
                let there = link.free[0].0.div_ceil(clock) + u64::from(spec.crossbar);
                let vault = &mut vaults[place.channel as usize];
                // What the other links send in the same time is all that may come in between: the place is near the end.
                let after = |earlier: &&CubePacket| (earlier.clock, earlier.id) > (there, i as u64);
                let behind = vault.waiting.iter().rev().take_while(after).count();
                let packet = CubePacket { clock: there, id: i as u64, place, write };
                vault.waiting.insert(vault.waiting.len() - behind, packet);
                soonest.set(place.channel as usize, Ps(vault.next() * clock));
                link.next += step;
            }
        }
    }

    /// Links send what vaults have answered before clock `until`.
    fn send_answers(&mut self, until: u64) {
        while let Some(&Reverse((finished, id))) = self.ready.0.peek().filter(|Reverse((at, _))| *at < until) {
            self.ready.0.pop();
            let i = id as usize;
            let write = writes(self.trace, i);
            let which = i % self.links.len();
            let link = &mut self.links[which];
            let start = ((finished + u64::from(self.spec.crossbar)) * self.clock).max(link.free[1].0);
            link.carry(1, Ps(start), if write { SHORT } else { LONG } * self.flit);
            link.returns.push_back(link.free[1].0);
            self.completions[i] = link.free[1];
            self.latency[usize::from(write)].record(link.free[1] - self.sent[i]);
            self.answered += 1;
        }
    }

    /// The clock of whatever comes first: a vault, an answer, a request; [`u64::MAX`] if nothing does.
    fn next_event(&self) -> u64 {
        let mut event = self.soonest.first().map_or(u64::MAX, |(at, _)| at.0 / self.clock);
        if let Some(&Reverse((finished, _))) = self.ready.0.peek() {
            event = event.min(finished);
        }
        for link in self.links.iter().filter(|link| link.next < self.trace.addresses.len()) {
            let back = if link.tags > 0 { Some(&0) } else { link.returns.front() };
            let next = |&at: &u64| offered(self.trace, link.next).max(at.max(link.free[0].0) / self.clock);
            event = event.min(back.map_or(u64::MAX, next));
        }
        event
    }

    fn outcome(self) -> CubeOutcome {
        let mut gathered = Gathered::default();
        self.vaults.iter().for_each(|vault| gathered.add(&vault.channel));
        let n = self.completions.len();
        let end = self.completions.iter().max().copied().unwrap_or(Ps::ZERO);
        let share = |way: usize| {
            let busy: u64 = self.links.iter().map(|link| link.busy[way]).sum();
            if end == Ps::ZERO { 0.0 } else { busy as f64 / (end.0 as f64 * self.links.len() as f64) }
        };
        CubeOutcome {
            read_latency: Latencies::of(&self.latency[0]),
            write_latency: Latencies::of(&self.latency[1]),
            bytes_per_s: if n == 0 { 0.0 } else { n as f64 * f64::from(REQUEST_BYTES) / end.as_secs() },
            link_shares: [share(0), share(1)],
            vaults: gathered.report(&self.spec.vaults),
            completions: self.completions,
            sent: self.sent,
        }
    }
}

fn writes(trace: &DramTrace, i: usize) -> bool {
    trace.writes.get(i).copied().unwrap_or(false)
}

/// The clock in which request `i` is there to be sent.
fn offered(trace: &DramTrace, i: usize) -> u64 {
    match &trace.arrivals {
        RequestArrivals::Saturated => 0,
        RequestArrivals::Every(gap) => i as u64 * gap,
        RequestArrivals::At(at) => at[i],
    }
}
