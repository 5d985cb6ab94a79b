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

use super::channel::{Channel, Class, Goal, Sink};
use super::map::{AddressMap, Decoder, Place};
use super::policy::{ControllerSpec, Order, Page, Refresh, Writes};
use super::presets;
use super::simulate::{Arrivals, REQUEST_BYTES, Trace, check};
use super::standard::Standard;
use super::stats::{Gathered, Latencies, Report};
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
    pub vaults: Report,
}

#[derive(Clone, Copy)]
struct Packet {
    clock: u64,
    id: u64,
    place: Place,
    write: bool,
}

struct Vault {
    channel: Channel<4>,
    /// On the way to it or before its door, in order of arrival, then of the trace.
    waiting: VecDeque<Packet>,
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
struct Link {
    /// The request that it sends next.
    next: usize,
    free: [Ps; 2],
    tags: u32,
    /// Times at which tags come back; answers come in order.
    returns: VecDeque<u64>,
    busy: [u64; 2],
}

#[derive(Default)]
struct Ready(BinaryHeap<Reverse<(u64, u64)>>);

impl Sink for Ready {
    fn done(&mut self, id: u64, _: u64, finished: u64, _: Class) {
        self.0.push(Reverse((finished, id)));
    }
}

/// Runs a trace through a cube; [`Arrivals`] count vault clocks, and saturated means that each link
/// always has a request to send.
///
/// Vaults and links are simulated one after the other for as long as the crossbar takes: what is sent in that time
/// reaches a vault, and what is answered in it a link, only after it, so that the order does not matter, nor how long
/// that time is.
///
/// # Errors
/// As [`super::simulate::simulate`]; links and vaults that contradict HMC.
pub fn simulate(spec: &CubeSpec, map: &AddressMap, trace: &Trace) -> Result<CubeOutcome, MachineError> {
    spec.check()?;
    let decoder = Decoder::new(map, &spec.vaults)?;
    check(trace, &decoder)?;
    let n = trace.addresses.len();
    let (flit, clock) = (spec.flit().0, spec.clock().0);
    let mut vaults = Vec::new();
    for _ in 0..spec.vaults.channels {
        let channel = Channel::<4>::new(&spec.vaults, &spec.controller, REQUEST_BYTES)?;
        vaults.push(Vault { channel, waiting: VecDeque::new(), due: u64::MAX });
    }
    let dealt = 0..spec.links as usize;
    let mut links: Vec<Link> = dealt.map(|next| Link { next, tags: spec.tags, ..Link::default() }).collect();
    let mut ready = Ready::default();
    let mut completions = vec![Ps::ZERO; n];
    let mut sent = vec![Ps::ZERO; n];
    let mut latency = [Histogram::new(), Histogram::new()];
    let writes = |i: usize| trace.writes.get(i).copied().unwrap_or(false);
    let offered = |i: usize| match trace.arrivals {
        Arrivals::Saturated => 0,
        Arrivals::Every(gap) => i as u64 * gap,
        Arrivals::At(at) => at[i],
    };
    let (mut answered, mut now) = (0, 0u64);
    // Which vault has something to do next.
    let mut soonest = Tournament::new(vaults.len());
    while answered < n {
        let until = now + u64::from(spec.crossbar);
        while let Some((_, which)) = soonest.first().filter(|(at, _)| at.0 < until * clock) {
            let vault = &mut vaults[which];
            while let Some(&packet) = vault.waiting.front().filter(|packet| packet.clock < until) {
                // A vault that is full serves others until it has room, which later arrivals cannot change.
                vault.channel.drive(Goal::Offer(packet.clock), &mut ready);
                vault.channel.accept(packet.id, packet.place, packet.write);
                vault.waiting.pop_front();
            }
            vault.channel.drive(Goal::Until(until), &mut ready);
            vault.due = vault.channel.next().unwrap_or(u64::MAX);
            match vault.next() {
                u64::MAX => soonest.clear(which),
                next => soonest.set(which, Ps(next * clock)),
            }
        }
        let step = links.len();
        for link in &mut links {
            while link.next < n {
                let i = link.next;
                let mut start = (offered(i) * clock).max(link.free[0].0);
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
                let flits = if writes(i) { LONG } else { SHORT };
                link.free[0] = Ps(start + flits * flit);
                link.busy[0] += flits * flit;
                sent[i] = Ps(start);
                let place = decoder.decode(trace.addresses[i]);
                let there = link.free[0].0.div_ceil(clock) + u64::from(spec.crossbar);
                let packet = Packet { clock: there, id: i as u64, place, write: writes(i) };
                let vault = &mut vaults[place.channel as usize];
                // What the other links send in the same time is all that may come in between: the place is near the end.
                let after = |earlier: &&Packet| (earlier.clock, earlier.id) > (there, i as u64);
                let behind = vault.waiting.iter().rev().take_while(after).count();
                vault.waiting.insert(vault.waiting.len() - behind, packet);
                soonest.set(place.channel as usize, Ps(vault.next() * clock));
                link.next += step;
            }
        }
        while let Some(&Reverse((finished, id))) = ready.0.peek().filter(|Reverse((finished, _))| *finished < until) {
            ready.0.pop();
            let i = id as usize;
            let which = i % links.len();
            let link = &mut links[which];
            let flits = if writes(i) { SHORT } else { LONG };
            let start = ((finished + u64::from(spec.crossbar)) * clock).max(link.free[1].0);
            link.free[1] = Ps(start + flits * flit);
            link.busy[1] += flits * flit;
            link.returns.push_back(link.free[1].0);
            completions[i] = link.free[1];
            latency[usize::from(writes(i))].record(link.free[1] - sent[i]);
            answered += 1;
        }
        // On to whatever comes first: a vault, an answer, a request.
        let mut event = soonest.first().map_or(u64::MAX, |(at, _)| at.0 / clock);
        if let Some(&Reverse((finished, _))) = ready.0.peek() {
            event = event.min(finished);
        }
        for link in links.iter().filter(|link| link.next < n) {
            let back = if link.tags > 0 { Some(&0) } else { link.returns.front() };
            event = event.min(back.map_or(u64::MAX, |&at| offered(link.next).max(at.max(link.free[0].0) / clock)));
        }
        now = until.max(if event == u64::MAX { 0 } else { event });
    }
    let mut gathered = Gathered::default();
    vaults.iter().for_each(|vault| gathered.add(&vault.channel));
    let end = completions.iter().max().copied().unwrap_or(Ps::ZERO);
    let seconds = end.as_secs();
    let share = |way: usize| {
        let busy: u64 = links.iter().map(|link| link.busy[way]).sum();
        if end == Ps::ZERO { 0.0 } else { busy as f64 / (end.0 as f64 * links.len() as f64) }
    };
    Ok(CubeOutcome {
        completions,
        sent,
        read_latency: Latencies::of(&latency[0]),
        write_latency: Latencies::of(&latency[1]),
        bytes_per_s: if n == 0 { 0.0 } else { n as f64 * f64::from(REQUEST_BYTES) / seconds },
        link_shares: [share(0), share(1)],
        vaults: gathered.report(&spec.vaults),
    })
}
