//! A traffic source: a specification, a load and a seed give packets one after the other.
//!
//! The load is resolved with the mean size of the packets: exact for made traffic, measured in a
//! first pass over at most [`MEASURED_PACKETS`] packets for a capture. A capture that fits into
//! [`KEPT_BYTES`] is kept in memory, so that replaying it again and again does not read it again.
//!
//! A looped capture is replayed as it is, from where [`Source::rotate`] has it start: order, gaps and addresses are those of the file in every
//! round, and the last packet is followed by the first after the mean gap. Caches of flows and
//! routes therefore see the same working set in every round.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use packet::{ETHERNET_FCS_BYTES, ETHERNET_OVERHEAD_BYTES, L3, MIN_FRAME_BYTES, PROTO_TCP, Packet, Prefix};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::{Reader, State, StateError, Writer};
use units::{PacketId, PacketRate, PortId, Ps, Rate};

use crate::arrivals::{ArrivalSpec, Arrivals};
use crate::capture::{Capture, CaptureReport, Gaps};
use crate::destinations::{CaptureDestinations, RoutedDestinations};
use crate::error::TrafficError;
use crate::flows::{FlowSpec, Flowing, Flows, PrefixPool};
use crate::frame;
use crate::input::Stop;
use crate::mobile::{Mobile, Subscriber, Tunnels};
use crate::payload::{Payload, PayloadSpec};
use crate::phases::{PhaseSpec, Phases, Schedule};
use crate::profile::{MixSpec, ProfileSpec};
use crate::sizes::{SizeSpec, Sizes};
use crate::table::Table;

/// Packets of a capture that are read to learn its mean size and rate.
pub const MEASURED_PACKETS: u64 = 2_000_000;
/// Stored bytes of a capture that are kept in memory for replay.
pub const KEPT_BYTES: usize = 64 << 20;

/// The profile where a specification names nothing.
const DEFAULT_PROFILE: &str = "isp";

/// What traffic there is. Without `profile` and `capture` it is the shipped profile `isp`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// A shipped profile (isp, imix, min64) or the path of a profile file. Not with `capture`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The path of a capture to replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<PathBuf>,
    /// When packets arrive, in place of the profile's; for a capture its own gaps, scaled, are the
    /// default where it has timestamps, and `fixed` where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<ArrivalSpec>,
    /// How long frames are, in place of the profile's. Not with `capture`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<SizeSpec>,
    /// Protocols, in place of the profile's. Not with `capture`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixSpec>,
    /// Flows and destinations, in place of the profile's. Not with `capture`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<FlowSpec>,
    /// How often a capture is replayed; as often as packets are wanted if left out. Only with
    /// `capture`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Whose addresses a capture's packets go to. Only with `capture`, and a routing table.
    #[serde(default, skip_serializing_if = "CaptureDestinations::are_captured")]
    pub destinations: CaptureDestinations,
    /// What made packets carry; only their first bytes are there when left out. Not with `capture`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadSpec>,
    /// Times of other rates and sizes that follow each other, and begin again after the last. Not with `capture`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseSpec>,
}

/// How much traffic is offered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// Packets a second.
    Packets(PacketRate),
    /// Bits a second on the wire, with preamble and gap.
    L1(Rate),
    /// Bits a second of frames with their check sequence.
    L2(Rate),
    /// A share of a line's rate: 1 keeps it busy all the time.
    LineShare {
        /// 0 to 1; more overloads the line.
        share: f64,
        /// The line's rate, L1.
        line: Rate,
    },
    /// The capture's own timestamps, this many times as fast.
    Timestamps(f64),
}

/// Mean bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanSize {
    /// On the wire, with preamble, gap and check sequence (L1).
    pub l1: f64,
    /// Of the frame with its check sequence (L2).
    pub l2: f64,
}

/// A resolved specification: what takes time or memory is done once, then any number of sources
/// start from it.
#[derive(Clone, Debug)]
pub struct Blueprint {
    kind: SourcePlan,
    arrivals: ArrivalSpec,
    mean: MeanSize,
    notes: Vec<String>,
    content: Option<String>,
}

#[derive(Clone, Debug)]
enum SourcePlan {
    Made { schedule: Schedule, flows: Box<Flows>, mobile: Option<Arc<Mobile>>, payload: Option<Arc<Payload>> },
    Replayed(Arc<Replay>),
}

/// What the first pass over a capture has learnt.
#[derive(Debug)]
struct Replay {
    path: PathBuf,
    rounds: u64,
    /// All packets, if they fit.
    kept: Option<Kept>,
    /// Of packets as they come from the file; those that are kept have been through it.
    routed: Option<RoutedDestinations>,
    packets: u64,
    /// Of the frames of the first pass, without check sequence.
    longest: u32,
    /// The time of a round: from the first packet to the first of the next round.
    period: Ps,
    report: CaptureReport,
    checksums: Checksums,
    content: Option<String>,
    /// Learnt from a capture of tunnels.
    subscribers: Vec<Subscriber>,
}

/// IPv4 header checksums of a capture's first pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksums {
    /// IPv4 headers that are whole.
    pub headers: u64,
    /// Of those, checksums that are 0 and should not be: erased by who published the capture, or left to
    /// the network card that sent the packet.
    pub zero: u64,
    /// Of those, others that are wrong.
    pub wrong: u64,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    records: Vec<KeptRecord>,
}

#[derive(Debug)]
struct KeptRecord {
    arrival: Ps,
    end: usize,
    frame_bytes: u32,
    l3_offset: u16,
    l3: L3,
}

/// Gives packets in order of arrival. A clone goes on from where this stands; of a capture that is not kept it reads the
/// file again up to there, when it is first asked for a packet.
#[derive(Clone)]
pub struct Source {
    packets: u64,
    kind: Running,
}

state::state!(Source { values: [packets], arrays: [], parts: [kind], built: [] });

#[derive(Clone)]
enum Running {
    Made {
        phases: Phases,
        flows: Box<Flowing>,
        mobile: Option<Arc<Mobile>>,
        payload: Option<Arc<Payload>>,
        rng: Pcg64,
        flow_rng: Pcg64,
    },
    Replayed {
        replay: Arc<Replay>,
        pacing: Pacing,
        place: ReplayPosition,
        round: u64,
        rng: Pcg64,
    },
}

impl Running {
    /// A number for what a source is of.
    fn kind(&self) -> u64 {
        match self {
            Running::Made { .. } => 0,
            Running::Replayed { .. } => 1,
        }
    }
}

impl State for Running {
    fn write(&self, to: &mut Writer) -> Result<(), StateError> {
        to.value(&self.kind())?;
        match self {
            Running::Made { phases, flows, mobile: _, payload: _, rng, flow_rng } => {
                phases.write(to)?;
                flows.write(to)?;
                to.value(&(rng, flow_rng))
            }
            Running::Replayed { replay: _, pacing, place, round, rng } => {
                pacing.write(to)?;
                place.write(to)?;
                to.value(&(round, rng))
            }
        }
    }

    fn read(&mut self, from: &mut Reader) -> Result<(), StateError> {
        from.is_as("kind", "traffic", self.kind())?;
        match self {
            Running::Made { phases, flows, mobile: _, payload: _, rng, flow_rng } => {
                phases.read(from)?;
                flows.read(from)?;
                (*rng, *flow_rng) = from.value()?;
            }
            Running::Replayed { replay: _, pacing, place, round, rng } => {
                pacing.read(from)?;
                place.read(from)?;
                (*round, *rng) = from.value()?;
            }
        }
        Ok(())
    }
}

#[derive(Clone)]
enum ReplayPosition {
    Kept(usize),
    File(FilePosition),
    /// The file could not be opened again, or all rounds are done.
    Ended,
}

/// A file is opened again by who reads: one that is not there any more ends the traffic, as at the end of a round.
impl State for ReplayPosition {
    fn write(&self, to: &mut Writer) -> Result<(), StateError> {
        to.value(&match self {
            ReplayPosition::Kept(index) => (0u8, *index as u64),
            ReplayPosition::File(reading) => (1, reading.given),
            ReplayPosition::Ended => (2, 0),
        })
    }

    fn read(&mut self, from: &mut Reader) -> Result<(), StateError> {
        let (kind, given): (u8, u64) = from.value()?;
        *self = match kind {
            0 => ReplayPosition::Kept(given as usize),
            1 => ReplayPosition::File(FilePosition { given, capture: None }),
            _ => ReplayPosition::Ended,
        };
        Ok(())
    }
}

/// Where in a round a file is.
struct FilePosition {
    /// Packets that were read.
    given: u64,
    /// Behind them; [`None`] until it is opened again.
    capture: Option<Box<Capture>>,
}

impl Clone for FilePosition {
    /// A stream that is being unpacked has no copy: the clone opens the file itself.
    fn clone(&self) -> FilePosition {
        FilePosition { given: self.given, capture: None }
    }
}

impl FilePosition {
    /// At the first packet.
    fn start(path: &Path) -> Result<FilePosition, TrafficError> {
        Ok(FilePosition { given: 0, capture: Some(Box::new(Capture::open(path)?)) })
    }

    /// The next packet of the file at `path`; false at its end, and where it cannot be opened again.
    fn next(&mut self, path: &Path, packet: &mut Packet) -> bool {
        if self.capture.is_none() {
            let mut passed = Packet::default();
            self.capture = Capture::open(path).ok().map(Box::new);
            if let Some(capture) = &mut self.capture {
                (0..self.given).for_each(|_| _ = capture.next(&mut passed));
            }
        }
        let more = self.capture.as_mut().is_some_and(|capture| capture.next(packet));
        self.given += u64::from(more);
        more
    }
}

#[derive(Clone)]
enum Pacing {
    Process(Arrivals),
    /// Record times divided by `speed`.
    Own {
        speed: f64,
        last: Ps,
        now: f64,
        whole: Ps,
    },
}

impl State for Pacing {
    fn write(&self, to: &mut Writer) -> Result<(), StateError> {
        match self {
            Pacing::Process(arrivals) => {
                to.value(&0u64)?;
                arrivals.write(to)
            }
            Pacing::Own { speed: _, last, now, whole } => to.value(&(1u64, last, now, whole)),
        }
    }

    fn read(&mut self, from: &mut Reader) -> Result<(), StateError> {
        match self {
            Pacing::Process(arrivals) => {
                from.is_as("pacing", "the capture", 0)?;
                arrivals.read(from)
            }
            Pacing::Own { speed: _, last, now, whole } => {
                from.is_as("pacing", "the capture", 1)?;
                (*last, *now, *whole) = from.value()?;
                Ok(())
            }
        }
    }
}

impl Blueprint {
    /// Resolves `spec`: reads the profile, builds the tables to draw from, makes the first pass
    /// over a capture. Destinations are drawn from `table`; without one from all of unicast IPv4.
    ///
    /// # Errors
    /// Values that cannot be, files that cannot be read, a capture with nothing usable.
    pub fn new(spec: &SourceSpec, table: Option<&Table>) -> Result<Blueprint, TrafficError> {
        Blueprint::new_until(spec, table, &Stop::new())
    }

    /// As [`Blueprint::new`]; gives up soon after `stop` is set.
    ///
    /// # Errors
    /// As [`Blueprint::new`], and [`TrafficError::Stopped`].
    pub fn new_until(spec: &SourceSpec, table: Option<&Table>, stop: &Stop) -> Result<Blueprint, TrafficError> {
        match &spec.capture {
            Some(path) => Blueprint::replayed(spec, path, None, table, stop),
            None => Blueprint::made(spec, table, None),
        }
    }

    /// As [`Blueprint::new_until`], for made traffic of a mobile network's users as it reaches the core.
    ///
    /// # Errors
    /// As [`Blueprint::new`]; a family that no subscriber has an address of.
    pub fn mobile(spec: &SourceSpec, mobile: Mobile) -> Result<Blueprint, TrafficError> {
        Blueprint::made(spec, None, Some(mobile))
    }

    /// As [`Blueprint::new_until`], for a capture of tunnels between base stations and core, whose frames are
    /// replayed as they reached the core: see [`mobile`](crate::mobile).
    ///
    /// # Errors
    /// As [`Blueprint::new`]; a capture that is too large to be kept, or without any UE that sends.
    pub fn mobile_capture(spec: &SourceSpec, path: &Path, stop: &Stop) -> Result<Blueprint, TrafficError> {
        Blueprint::replayed(spec, path, Some(Tunnels::default()), None, stop)
    }

    /// The UEs that a capture of tunnels has taught; none of other traffic.
    pub fn subscribers(&self) -> &[Subscriber] {
        match &self.kind {
            SourcePlan::Replayed(replay) => &replay.subscribers,
            SourcePlan::Made { .. } => &[],
        }
    }

    fn made(spec: &SourceSpec, table: Option<&Table>, mobile: Option<Mobile>) -> Result<Blueprint, TrafficError> {
        if let Some(rounds) = spec.rounds {
            let allowed = "only a capture is replayed in rounds (set `capture`, or leave `rounds` out)";
            return Err(TrafficError::spec("traffic.rounds", rounds, allowed));
        }
        if !spec.destinations.are_captured() {
            let allowed = "made packets go where there are routes (set `capture`, or leave `destinations` out)";
            return Err(TrafficError::spec("traffic.destinations", "routed", allowed));
        }
        let mut profile = ProfileSpec::load(spec.profile.as_deref().unwrap_or(DEFAULT_PROFILE))?;
        let content = blake3::hash(profile.to_toml().as_bytes()).to_hex().to_string();
        if let Some(arrivals) = &spec.arrivals {
            profile.arrivals = arrivals.clone();
        }
        if let Some(sizes) = &spec.sizes {
            profile.sizes = sizes.clone();
        }
        if let Some(mix) = spec.mix {
            profile.mix = mix;
        }
        if let Some(flows) = &spec.flows {
            profile.flows = flows.clone();
        }
        for (share, field) in [(profile.mix.tcp, "tcp"), (profile.mix.ipv6, "ipv6")] {
            if !(0.0..=1.0).contains(&share) {
                let path = format!("traffic.mix.{field}");
                return Err(TrafficError::spec(path, share, "a share of 0 to 1 can be"));
            }
        }
        let schedule = Schedule::new(Sizes::new(&profile.sizes, "traffic.sizes")?, &spec.phases, "traffic.phases")?;
        let mut notes = Vec::new();
        let pool = pool(&profile, table, mobile.as_ref(), &mut notes)?;
        let ipv6 = pool.ipv6_share();
        // Frames that are too short for IPv6 and TCP or UDP are made longer.
        let mean_with = |bytes: u64| {
            let l2 = schedule.mean(|sizes| {
                let v6 = |header: u32| sizes.mean_at_least(header) * ipv6;
                sizes.mean() * (1.0 - ipv6) + profile.mix.tcp * v6(78) + (1.0 - profile.mix.tcp) * v6(66)
            });
            l2 + bytes as f64
        };
        let (tcp, mut mean) = (profile.mix.tcp, MeanSize { l1: mean_with(ETHERNET_OVERHEAD_BYTES), l2: mean_with(0) });
        if let Some(mobile) = &mobile {
            if !mobile.covers(ipv6) {
                let allowed =
                    "no session has an address of one of the families (give sessions IPv6 prefixes, or change the mix)";
                return Err(TrafficError::spec("traffic.mix.ipv6", ipv6, allowed));
            }
            // A tunnelled frame is at least as long as its headers.
            let least = |v6, tcp| schedule.mean(|sizes| sizes.mean_at_least(Mobile::shortest_uplink(v6, tcp)));
            let of = |v6| tcp * least(v6, true) + (1.0 - tcp) * least(v6, false);
            let up = ipv6 * of(true) + (1.0 - ipv6) * of(false);
            let l2 = mobile.uplink() * up + (1.0 - mobile.uplink()) * mean.l2;
            mean = MeanSize { l1: l2 + ETHERNET_OVERHEAD_BYTES as f64, l2 };
        }
        let flows = Flows::new(&profile.flows, profile.mix.tcp, pool, "traffic.flows")?;
        if mobile.is_some() && spec.payload.is_some() {
            let allowed = "tunnelled packets carry headers only (leave it out)";
            return Err(TrafficError::spec("traffic.payload", "given", allowed));
        }
        let payload = spec.payload.map(|spec| Arc::new(Payload::new(spec)));
        let kind = SourcePlan::Made { schedule, flows: Box::new(flows), mobile: mobile.map(Arc::new), payload };
        Ok(Blueprint { kind, arrivals: profile.arrivals, mean, notes, content: Some(content) })
    }

    fn replayed(
        spec: &SourceSpec,
        path: &Path,
        tunnels: Option<Tunnels>,
        table: Option<&Table>,
        stop: &Stop,
    ) -> Result<Blueprint, TrafficError> {
        let given = [
            ("profile", spec.profile.is_some()),
            ("sizes", spec.sizes.is_some()),
            ("mix", spec.mix.is_some()),
            ("flows", spec.flows.is_some()),
            ("payload", spec.payload.is_some()),
            ("phases", !spec.phases.is_empty()),
        ];
        if let Some((field, _)) = given.iter().find(|g| g.1) {
            let allowed = "a capture has its own (leave out either this or `capture`)";
            return Err(TrafficError::spec(format!("traffic.{field}"), "given", allowed));
        }
        let mut notes = Vec::new();
        let rounds = spec.rounds.unwrap_or(u64::MAX);
        if rounds == 0 {
            return Err(TrafficError::spec("traffic.rounds", 0, "1 or more can be"));
        }
        let routed = match (spec.destinations, table) {
            (CaptureDestinations::Captured, _) => None,
            (CaptureDestinations::Routed, Some(table)) => Some(RoutedDestinations::new(table)),
            (CaptureDestinations::Routed, None) => {
                let allowed = "packets of a function without routes keep their destinations (leave it out)";
                return Err(TrafficError::spec("traffic.destinations", "routed", allowed));
            }
        };
        let (replay, mean, trouble) = Replay::measure(path, rounds, tunnels, routed, stop, &mut notes)?;
        let arrivals = match &spec.arrivals {
            Some(arrivals) => {
                if let (ArrivalSpec::Capture, Some(trouble)) = (arrivals, &trouble) {
                    let allowed = format!(
                        "the capture's timestamps make no sense as one clock, {trouble} (use fixed or poisson)"
                    );
                    return Err(TrafficError::spec("traffic.arrivals", "\"capture\"", allowed));
                }
                arrivals.clone()
            }
            None => match trouble {
                None => ArrivalSpec::Capture,
                Some(trouble) => {
                    let note = "the capture's timestamps make no sense as one clock";
                    notes.push(format!("{note}, {trouble}: packets arrive at equal gaps"));
                    ArrivalSpec::Fixed
                }
            },
        };
        let content = replay.content.clone();
        Ok(Blueprint { kind: SourcePlan::Replayed(Arc::new(replay)), arrivals, mean, notes, content })
    }

    /// The mean size of a packet: exact for made IPv4 traffic; for IPv6 with the share of
    /// destinations taken for that of packets; for a capture that of the packets of the first pass.
    pub fn mean_size(&self) -> MeanSize {
        self.mean
    }

    /// Bytes of the longest frame, without check sequence; of a capture that is too long to be kept, of its first pass.
    pub fn longest_frame(&self) -> u32 {
        match &self.kind {
            SourcePlan::Made { schedule, mobile, .. } => {
                let least = if mobile.is_some() { Mobile::shortest_uplink(true, true) } else { 0 };
                schedule.longest().max(least) - ETHERNET_FCS_BYTES as u32
            }
            SourcePlan::Replayed(replay) => replay.longest,
        }
    }

    /// Packets a second that `load` comes to.
    ///
    /// # Errors
    /// A load that is not above 0, or timestamps of traffic that has none.
    pub fn packets_per_second(&self, load: &Load) -> Result<f64, TrafficError> {
        let of = |bits: f64, bytes: f64| bits / (bytes * 8.0);
        let pps = match *load {
            Load::Packets(rate) => rate.mpps() * 1e6,
            Load::L1(rate) => of(rate.gbps() * 1e9, self.mean.l1),
            Load::L2(rate) => of(rate.gbps() * 1e9, self.mean.l2),
            Load::LineShare { share, line } => of(share * line.gbps() * 1e9, self.mean.l1),
            Load::Timestamps(speed) => match &self.kind {
                SourcePlan::Replayed(replay) if self.has_own_times() => speed * replay.own_rate(),
                _ => {
                    let allowed = "only a capture with sound timestamps has its own (give a rate)";
                    return Err(TrafficError::spec("traffic.speed", speed, allowed));
                }
            },
        };
        if pps.is_finite() && pps > 0.0 {
            return Ok(pps);
        }
        let allowed = "a load gives more than 0 packets a second";
        Err(TrafficError::spec("load", format!("{pps} packets/s"), allowed))
    }

    fn has_own_times(&self) -> bool {
        match &self.kind {
            SourcePlan::Replayed(replay) => replay.period > Ps::ZERO,
            SourcePlan::Made { .. } => false,
        }
    }

    /// How packets come.
    pub fn arrivals(&self) -> &ArrivalSpec {
        &self.arrivals
    }

    /// Flows that there are at a time; none of a capture.
    pub fn flows(&self) -> Option<u64> {
        match &self.kind {
            SourcePlan::Made { flows, .. } => Some(flows.count()),
            SourcePlan::Replayed(_) => None,
        }
    }

    /// What was assumed where the specification left it open, in words.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the first pass over a capture found; [`None`] for made traffic. Complete if the pass
    /// reached the end, which a note says otherwise.
    pub fn capture_report(&self) -> Option<&CaptureReport> {
        match &self.kind {
            SourcePlan::Replayed(replay) => Some(&replay.report),
            SourcePlan::Made { .. } => None,
        }
    }

    /// The BLAKE3 hash, in hex, of what the packets are made from: of the capture's file, or of the
    /// profile as it is written out. [`None`] of nothing that lasts.
    pub fn content(&self) -> Option<&str> {
        self.content.as_deref()
    }

    /// How sound a capture's IPv4 header checksums are; nothing but sound ones for made traffic.
    pub fn checksums(&self) -> Checksums {
        match &self.kind {
            SourcePlan::Replayed(replay) => replay.checksums,
            SourcePlan::Made { .. } => Checksums::default(),
        }
    }

    /// How many packets a source gives before it ends; [`None`] if as many as are wanted.
    pub fn packets(&self) -> Option<u64> {
        match &self.kind {
            SourcePlan::Replayed(replay) => replay.packets.checked_mul(replay.rounds),
            SourcePlan::Made { .. } => None,
        }
    }

    /// Starts a source: the same `seed` and `load` give the same packets.
    ///
    /// # Errors
    /// As [`Blueprint::packets_per_second`]; a capture that cannot be opened again.
    pub fn source(&self, seed: u64, load: &Load) -> Result<Source, TrafficError> {
        let pps = self.packets_per_second(load)?;
        let mut rng = Pcg64::seed_from_u64(seed);
        let kind = match &self.kind {
            SourcePlan::Made { schedule, flows, mobile, payload } => Running::Made {
                mobile: mobile.clone(),
                payload: payload.clone(),
                flows: Box::new(flows.start(seed)),
                phases: schedule.start(&self.arrivals, pps, "traffic.arrivals", &mut rng)?,
                // Arrivals and contents draw apart, so that a change of one leaves the other alone.
                flow_rng: Pcg64::seed_from_u64(rng.random()),
                rng,
            },
            SourcePlan::Replayed(replay) => {
                let own = matches!(load, Load::Timestamps(_)) || self.arrivals == ArrivalSpec::Capture;
                let pacing = if own {
                    Pacing::Own { speed: pps / replay.own_rate(), last: Ps::ZERO, now: 0.0, whole: Ps::ZERO }
                } else {
                    Pacing::Process(Arrivals::new(&self.arrivals, pps, "traffic.arrivals", &mut rng)?)
                };
                let place = match replay.kept {
                    Some(_) => ReplayPosition::Kept(0),
                    None => ReplayPosition::File(FilePosition::start(&replay.path)?),
                };
                Running::Replayed { replay: replay.clone(), pacing, place, round: 0, rng }
            }
        };
        Ok(Source { packets: 0, kind })
    }
}

/// The prefixes that destinations are drawn from.
fn pool(
    profile: &ProfileSpec,
    table: Option<&Table>,
    mobile: Option<&Mobile>,
    notes: &mut Vec<String>,
) -> Result<PrefixPool, TrafficError> {
    let to = &profile.flows.destinations;
    let prefixes: Vec<Prefix> = match (&to.pool, table) {
        (Some(pool), _) => {
            let at = |i: usize| format!("traffic.flows.destinations.pool[{i}]");
            let parsed = pool
                .iter()
                .enumerate()
                .map(|(i, text)| text.parse().map_err(|source| TrafficError::Prefix { path: at(i), source }));
            parsed.collect::<Result<_, _>>()?
        }
        (None, Some(table)) => table.prefixes().collect(),
        (None, None) if mobile.is_some_and(|m| !m.remotes().is_empty()) => {
            mobile.map(|m| m.remotes().to_vec()).unwrap_or_default()
        }
        (None, None) => {
            notes.push("without a routing table destinations are drawn from all of unicast IPv4".into());
            (1..224u32).filter(|b| !matches!(b, 10 | 127)).filter_map(|b| Prefix::v4(b << 24, 8)).collect()
        }
    };
    let (pool, has_ipv6) = PrefixPool::new(&prefixes, to.prefixes, profile.mix.ipv6).ok_or_else(|| {
        let allowed = "at least one prefix is wanted to draw destinations from";
        TrafficError::spec("traffic.flows.destinations.pool", "no prefix", allowed)
    })?;
    if profile.mix.ipv6 > 0.0 && !has_ipv6 {
        notes.push("there are no IPv6 prefixes to draw destinations from: all traffic is IPv4".into());
    }
    Ok(pool)
}

impl Replay {
    fn measure(
        path: &Path,
        rounds: u64,
        mut tunnels: Option<Tunnels>,
        routed: Option<RoutedDestinations>,
        stop: &Stop,
        notes: &mut Vec<String>,
    ) -> Result<(Replay, MeanSize, Option<String>), TrafficError> {
        let mut capture = Capture::open_watched(path, stop)?;
        let mut checksums = Checksums::default();
        let mut kept = Some(Kept::default());
        let mut packet = Packet::default();
        let (mut packets, mut l1, mut l2) = (0u64, 0u64, 0u64);
        let (mut gaps, mut longest_frame) = (Gaps::default(), 0);
        let (mut complete, mut rewritten) = (true, 0u64);
        while capture.next(&mut packet) {
            if let Some(tunnels) = &mut tunnels {
                tunnels.reach_core(&mut packet);
            }
            if let Some(routed) = &routed {
                rewritten += u64::from(routed.rewrite(&mut packet));
            }
            packets += 1;
            l1 += packet.wire_bytes();
            l2 += packet.l2_bytes();
            longest_frame = packet.frame_bytes.max(longest_frame);
            checksums.count(&packet);
            gaps.see(packet.arrival);
            if let Some(all) = &mut kept {
                if all.bytes.len() + packet.data.len() <= KEPT_BYTES && packets <= MEASURED_PACKETS {
                    all.push(&packet);
                } else {
                    kept = None;
                }
            }
            if packets >= MEASURED_PACKETS && kept.is_none() {
                complete = false;
                notes.push(format!("mean size and rate of the capture are those of its first {packets} packets"));
                break;
            }
        }
        let content = capture.content()?;
        let report = capture.report().clone();
        if !report.damage.is_empty() {
            notes.push(format!("the capture is damaged: {}", report.damage));
        }
        let trouble = capture.clock_trouble(&gaps);
        let last = gaps.last;
        let period = if trouble.is_none() { last + last / (packets - 1) } else { Ps::ZERO };
        let mean = MeanSize { l1: l1 as f64 / packets as f64, l2: l2 as f64 / packets as f64 };
        let kept = kept.filter(|_| complete);
        let mut subscribers = Vec::new();
        if let Some(tunnels) = tunnels {
            let error = |came: String, allowed: &str| Err(TrafficError::spec("traffic.capture", came, allowed));
            if kept.is_none() {
                return error(
                    format!("{packets} packets or more"),
                    "a capture of tunnels has to fit into 64 MiB (cut it)",
                );
            }
            subscribers = tunnels.subscribers();
            if subscribers.is_empty() {
                return error(
                    path.display().to_string(),
                    "no user's packet comes through a GTP-U tunnel in it (give sessions, or another capture)",
                );
            }
            notes.push(format!(
                "the capture has {} UEs: {} packets of theirs come through tunnels; {} to them were taken out of theirs",
                subscribers.len(),
                tunnels.uplink,
                tunnels.unwrapped
            ));
        }
        if routed.is_some() {
            notes.push(format!(
                "{rewritten} of {packets} packets go where the routing table has no route: their destinations were replaced by others \
                 that it has one to (traffic.destinations)"
            ));
        }
        let (longest, path) = (longest_frame, path.into());
        let replay =
            Replay { path, rounds, kept, routed, packets, longest, period, report, checksums, content, subscribers };
        Ok((replay, mean, trouble))
    }

    /// Packets a second by the capture's own clock.
    fn own_rate(&self) -> f64 {
        self.packets as f64 / self.period.as_secs()
    }
}

impl Checksums {
    fn count(&mut self, packet: &Packet) {
        let header = packet.data.get(usize::from(packet.l3_offset)..).filter(|_| packet.l3 == L3::V4);
        let bytes = header.and_then(|h| h.first()).map_or(0, |version_ihl| usize::from(version_ihl & 15) * 4);
        let Some(header) = header.and_then(|h| h.get(..bytes)).filter(|h| h.len() >= 20) else { return };
        self.headers += 1;
        if packet::internet_checksum(header) != 0 {
            let zero = header[10] == 0 && header[11] == 0;
            self.zero += u64::from(zero);
            self.wrong += u64::from(!zero);
        }
    }
}

impl Kept {
    fn push(&mut self, packet: &Packet) {
        self.bytes.extend_from_slice(&packet.data);
        self.records.push(KeptRecord {
            arrival: packet.arrival,
            end: self.bytes.len(),
            frame_bytes: packet.frame_bytes,
            l3_offset: packet.l3_offset,
            l3: packet.l3,
        });
    }

    fn get(&self, index: usize, packet: &mut Packet) -> bool {
        let Some(record) = self.records.get(index) else {
            return false;
        };
        let start = index.checked_sub(1).map_or(0, |i| self.records[i].end);
        packet.data.clear();
        packet.data.extend_from_slice(&self.bytes[start..record.end]);
        packet.arrival = record.arrival;
        packet.frame_bytes = record.frame_bytes;
        (packet.l3_offset, packet.l3) = (record.l3_offset, record.l3);
        true
    }
}

impl Source {
    /// Resolves `spec` and starts a source in one step; see [`Blueprint`].
    ///
    /// # Errors
    /// As [`Blueprint::new`] and [`Blueprint::source`].
    pub fn new(spec: &SourceSpec, seed: u64, load: &Load, table: Option<&Table>) -> Result<Source, TrafficError> {
        Blueprint::new(spec, table)?.source(seed, load)
    }

    /// Starts the replay of a capture in endless rounds at the place that `run` stands for: run 1 at its first packet,
    /// others elsewhere, spread evenly, so that runs of one capture are different samples of what it has. Made
    /// traffic, and captures that are replayed a given number of rounds, stay as they are. Before the first packet.
    pub fn rotate(&mut self, run: u64) {
        let Running::Replayed { replay, pacing, place, .. } = &mut self.kind else { return };
        if replay.rounds != u64::MAX {
            return;
        }
        // Multiples of the golden ratio (Weyl's sequence) leave no two runs near each other.
        let turn = u128::from(run.wrapping_sub(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let first = ((turn * u128::from(replay.packets)) >> 64) as usize;
        let mut packet = Packet::default();
        match place {
            ReplayPosition::Kept(index) => {
                *index = first;
                if let Some(record) = replay.kept.as_ref().and_then(|kept| kept.records.get(first)) {
                    packet.arrival = record.arrival;
                }
            }
            ReplayPosition::File(reading) => (0..first).for_each(|_| {
                reading.next(&replay.path, &mut packet);
            }),
            ReplayPosition::Ended => {}
        }
        if let Pacing::Own { last, .. } = pacing {
            *last = packet.arrival;
        }
    }

    /// Goes on with the packets that `other` would give next, at this one's own load: a source of the same blueprint and seed
    /// that has given nothing yet. A source of another kind stays as it is.
    pub fn go_on_with(&mut self, other: &Source) {
        match (&mut self.kind, &other.kind) {
            (Running::Made { flows, flow_rng, .. }, Running::Made { flows: of, flow_rng: drawn, .. }) => {
                (*flows, *flow_rng) = (of.clone(), drawn.clone());
            }
            (
                Running::Replayed { pacing, place, round, .. },
                Running::Replayed { pacing: own, place: of, round: rounds, .. },
            ) => {
                (*place, *round) = (of.clone(), *rounds);
                if let (Pacing::Own { last, .. }, Pacing::Own { last: at, .. }) = (pacing, own) {
                    *last = *at;
                }
            }
            _ => return,
        }
        self.packets = other.packets;
    }

    /// Leaves out the next packets of a replay; of made traffic nothing but the time until so many have come: sizes, flows and what
    /// packets carry go on where they were, so that no flow ends unseen. Returns how many there were, and when the last of them came.
    pub fn leave_out(&mut self, packets: u64) -> (u64, Option<Ps>) {
        let (mut last, mut left_out, mut packet) = (None, 0, Packet::default());
        while left_out < packets {
            if let Running::Made { phases, rng, .. } = &mut self.kind {
                last = Some(phases.next(rng));
            } else if self.next(&mut packet) {
                last = Some(packet.arrival);
            } else {
                break;
            }
            left_out += 1;
        }
        (left_out, last)
    }

    /// Whether any of its packets is as likely as any other at any time: not so of captures, phases, bursts and states.
    pub fn is_steady(&self) -> bool {
        match &self.kind {
            Running::Made { phases, .. } => phases.is_steady(),
            Running::Replayed { .. } => false,
        }
    }

    /// Fills `packet` with the next packet, reusing its memory; false when there is none any more.
    /// `id` counts from 0, `arrival` from the start and never decreases, `port` is 0.
    #[inline]
    pub fn next(&mut self, packet: &mut Packet) -> bool {
        match &mut self.kind {
            Running::Made { phases, flows, mobile, payload, rng, flow_rng } => {
                packet.arrival = phases.next(rng);
                let size = phases.sizes().draw(flow_rng);
                let (flow, first) = flows.draw(flow_rng);
                let (number, first) = (self.packets as u16, first && flow.proto == PROTO_TCP);
                match mobile {
                    None => frame::make(packet, &flow, size, number, first),
                    Some(mobile) => mobile.make(packet, &flow, (size, number, first), flow_rng),
                }
                if let Some(payload) = payload {
                    payload.fill(packet, self.packets);
                }
            }
            Running::Replayed { replay, pacing, place, round, rng } => {
                if !replay.next(place, round, packet) {
                    return false;
                }
                packet.arrival = match pacing {
                    Pacing::Process(arrivals) => arrivals.next(rng),
                    Pacing::Own { speed, last, now, whole } => {
                        let at = packet.arrival;
                        // The first packet of a further round comes a mean gap after the last one.
                        let gap = match at == Ps::ZERO && *round > 0 && at < *last {
                            true => replay.period.since(*last),
                            false => at.since(*last),
                        };
                        *last = at;
                        *now += gap.0 as f64 / *speed;
                        let step = *now as u64;
                        *now -= step as f64;
                        *whole = Ps(whole.0.saturating_add(step));
                        *whole
                    }
                };
            }
        }
        packet.id = PacketId(self.packets);
        packet.port = PortId(0);
        self.packets += 1;
        true
    }
}

impl Replay {
    fn next(&self, place: &mut ReplayPosition, round: &mut u64, packet: &mut Packet) -> bool {
        loop {
            let more = match place {
                ReplayPosition::Kept(index) => {
                    *index += 1;
                    self.kept.as_ref().is_some_and(|k| k.get(*index - 1, packet))
                }
                ReplayPosition::File(reading) => {
                    let more = reading.next(&self.path, packet);
                    if let Some(routed) = self.routed.as_ref().filter(|_| more) {
                        routed.rewrite(packet);
                    }
                    more
                }
                ReplayPosition::Ended => return false,
            };
            if more {
                return true;
            }
            *round += 1;
            *place = match place {
                _ if *round >= self.rounds => ReplayPosition::Ended,
                ReplayPosition::Kept(_) => ReplayPosition::Kept(0),
                _ => FilePosition::start(&self.path).map_or(ReplayPosition::Ended, ReplayPosition::File),
            };
        }
    }
}

/// L2 bytes of the shortest frame, as a check of what [`Sizes`] assumes.
const _: () = assert!(MIN_FRAME_BYTES == crate::sizes::SHORTEST as u64 && ETHERNET_FCS_BYTES == 4);

#[cfg(test)]
mod tests {
    use packet::layers;
    use rustc_hash::FxHashSet;
    use units::Span;

    use super::*;
    use crate::arrivals::{OnOffSpec, Spacing};

    fn packets(spec: &SourceSpec, seed: u64, load: &Load, n: usize) -> Vec<Packet> {
        let table = Table::synthetic(1, 20_000, 4);
        let mut source = Source::new(spec, seed, load, Some(&table)).unwrap();
        let mut packet = Packet::default();
        (0..n)
            .map(|_| {
                assert!(source.next(&mut packet));
                packet.clone()
            })
            .collect()
    }

    fn rate(mpps: f64) -> Load {
        Load::Packets(PacketRate::from_mpps(mpps))
    }

    #[test]
    fn the_same_seed_gives_the_same_packets_and_another_seed_others() {
        let spec = SourceSpec::default();
        let first = packets(&spec, 1, &rate(10.0), 2000);
        assert_eq!(first, packets(&spec, 1, &rate(10.0), 2000));
        assert_ne!(first, packets(&spec, 2, &rate(10.0), 2000));
    }

    #[test]
    fn another_load_changes_arrivals_and_nothing_else() {
        let spec = SourceSpec::default();
        let (slow, fast) = (packets(&spec, 1, &rate(1.0), 2000), packets(&spec, 1, &rate(10.0), 2000));
        for (a, b) in slow.iter().zip(&fast) {
            assert_eq!((&a.data, a.frame_bytes, a.id), (&b.data, b.frame_bytes, b.id));
        }
        assert!((slow[1999].arrival.0 as f64 / fast[1999].arrival.0 as f64 - 10.0).abs() < 0.01);
    }

    #[test]
    fn another_load_may_go_on_where_a_source_stands() {
        for arrivals in [ArrivalSpec::Poisson, ArrivalSpec::default()] {
            let spec = SourceSpec { arrivals: Some(arrivals), ..SourceSpec::default() };
            let blueprint = Blueprint::new(&spec, None).unwrap();
            let mut slow = blueprint.source(1, &rate(1.0)).unwrap();
            rest(&mut slow, 777);
            let mut fast = blueprint.source(1, &rate(10.0)).unwrap();
            fast.go_on_with(&slow);
            let (then, faster) = (rest(&mut slow, 2000), rest(&mut fast, 2000));
            for (a, b) in then.iter().zip(&faster) {
                assert_eq!((&a.data, a.frame_bytes, a.id), (&b.data, b.frame_bytes, b.id));
            }
            let took = [then, faster].map(|all| (all[1999].arrival - all[0].arrival).0 as f64);
            assert!((took[0] / took[1] - 10.0).abs() < 1.0, "{took:?}");
        }
    }

    #[test]
    fn of_made_packets_that_are_left_out_only_their_time_passes() {
        let bursts = OnOffSpec { on: Span::from_ns(900.0), off: Span::from_ns(2100.0), spacing: Spacing::Fixed };
        for (arrivals, steady) in
            [(ArrivalSpec::Poisson, true), (ArrivalSpec::Fixed, true), (ArrivalSpec::OnOff(bursts), false)]
        {
            let spec = SourceSpec { arrivals: Some(arrivals), ..SourceSpec::default() };
            let mut source = Blueprint::new(&spec, None).unwrap().source(1, &rate(10.0)).unwrap();
            assert_eq!(source.is_steady(), steady);
            rest(&mut source, 777);
            let all = rest(&mut source.clone(), 3000);
            assert_eq!(source.leave_out(0), (0, None));
            assert_eq!(source.leave_out(1000), (1000, Some(all[999].arrival)));
            for (i, packet) in rest(&mut source, 2000).iter().enumerate() {
                assert_eq!(packet.arrival, all[1000 + i].arrival, "{i}");
                assert_eq!((&packet.data, packet.frame_bytes), (&all[i].data, all[i].frame_bytes), "{i}");
            }
        }
    }

    #[test]
    fn destinations_are_of_the_table_and_frames_are_sound() {
        let table = Table::synthetic(1, 20_000, 4);
        let prefixes: FxHashSet<Prefix> = table.prefixes().collect();
        for packet in packets(&SourceSpec::default(), 3, &rate(1.0), 2000) {
            let layers = layers(&packet.data).unwrap();
            assert_eq!((packet.l3, packet.l3_offset), (L3::V4, 14));
            let std::net::IpAddr::V4(dst) = layers.five_tuple.dst else { panic!("IPv4 only") };
            assert!((8..=32).any(|len| Prefix::v4(dst.into(), len).is_some_and(|p| prefixes.contains(&p))));
        }
    }

    #[test]
    fn loads_in_bits_meet_their_rate() {
        let spec = SourceSpec { profile: Some("imix".into()), ..Default::default() };
        for (load, overhead, gbps) in [
            (Load::L1(Rate::from_gbps(40.0)), 20, 40.0),
            (Load::L2(Rate::from_gbps(40.0)), 0, 40.0),
            (Load::LineShare { share: 0.5, line: Rate::from_gbps(100.0) }, 20, 50.0),
        ] {
            let all = packets(&spec, 1, &load, 200_000);
            let bits: u64 = all.iter().map(|p| (p.l2_bytes() + overhead) * 8).sum();
            let measured = bits as f64 / all[all.len() - 1].arrival.as_ns();
            assert!((measured / gbps - 1.0).abs() < 0.01, "{load:?}: {measured}");
        }
    }

    #[test]
    fn the_mean_size_is_that_of_the_packets_also_with_ipv6() {
        let table = Table::from_bytes(b"10.0.0.0/8\n2001:db8::/32\n".to_vec(), "t").unwrap();
        let flows = FlowSpec {
            count: 1 << 20,
            popularity: Default::default(),
            new_share: 0.0,
            destinations: Default::default(),
        };
        let spec = SourceSpec {
            sizes: Some(SizeSpec::Imix),
            mix: Some(MixSpec { tcp: 0.5, ipv6: 0.3 }),
            flows: Some(flows),
            ..Default::default()
        };
        let blueprint = Blueprint::new(&spec, Some(&table)).unwrap();
        let mut source = blueprint.source(1, &rate(1.0)).unwrap();
        let (mut packet, mut l2, mut v6) = (Packet::default(), 0, 0);
        for _ in 0..400_000 {
            source.next(&mut packet);
            l2 += packet.l2_bytes();
            v6 += u64::from(packet.l3 == L3::V6);
        }
        let mean = l2 as f64 / 4e5;
        assert!((mean / blueprint.mean_size().l2 - 1.0).abs() < 0.006, "{mean} {:?}", blueprint.mean_size());
        assert!((v6 as f64 / 4e5 - 0.3).abs() < 0.003, "{v6}");
        assert!((blueprint.mean_size().l1 - blueprint.mean_size().l2 - 20.0).abs() < 1e-9);
    }

    /// The packets that `source` gives from now on, `n` at most.
    fn rest(source: &mut Source, n: usize) -> Vec<Packet> {
        let mut packet = Packet::default();
        (0..n).map_while(|_| source.next(&mut packet).then(|| packet.clone())).collect()
    }

    #[test]
    fn a_clone_goes_on_from_where_its_source_stands() {
        let poisson = SourceSpec { arrivals: Some(ArrivalSpec::Poisson), ..SourceSpec::default() };
        let mut source = Source::new(&poisson, 3, &rate(10.0), None).unwrap();
        rest(&mut source, 777);
        let mut clone = source.clone();
        assert_eq!(rest(&mut source, 3000), rest(&mut clone, 3000));
    }

    #[test]
    fn a_captures_destinations_are_routed_in_memory_and_as_it_is_read() {
        let mut bytes = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0".to_vec();
        for i in 0..100u32 {
            bytes.extend([[0; 4], i.to_le_bytes(), 60u32.to_le_bytes(), 60u32.to_le_bytes()].concat());
            let addresses = [1, 2, 3, 4, 10 + (i % 2) as u8, 0, 0, (i % 10) as u8];
            let ip = [&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0][..], &addresses, &[0; 26]].concat();
            bytes.extend([&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip].concat());
        }
        let file = std::env::temp_dir().join(format!("wirespeed-routed-{}.pcap", std::process::id()));
        std::fs::write(&file, bytes).unwrap();
        let table = Table::from_bytes(b"10.0.0.0/8\n192.0.2.0/24\n".to_vec(), "t").unwrap();
        let destinations = CaptureDestinations::Routed;
        let spec = SourceSpec { capture: Some(file.clone()), destinations, ..SourceSpec::default() };
        let packets = [true, false].map(|kept| {
            let mut blueprint = Blueprint::new(&spec, Some(&table)).unwrap();
            assert!(
                blueprint.notes().iter().any(|note| note.starts_with("50 of 100 packets")),
                "{:?}",
                blueprint.notes()
            );
            if let SourcePlan::Replayed(replay) = &mut blueprint.kind
                && !kept
            {
                Arc::get_mut(replay).unwrap().kept = None;
            }
            rest(&mut blueprint.source(1, &Load::Timestamps(1.0)).unwrap(), 250)
        });
        assert_eq!(packets[0], packets[1]);
        let to = |packet: &Packet| layers(&packet.data).unwrap().five_tuple.dst;
        let seen: FxHashSet<_> = packets[0].iter().map(to).collect();
        assert_eq!(seen.len(), 10, "five stay, and five become as many others");
        for packet in &packets[0] {
            let std::net::IpAddr::V4(to) = to(packet) else { panic!("{packet:?}") };
            assert!(to.octets()[0] == 10 || to.octets()[..3] == [192, 0, 2], "{to}");
        }
        let without = Blueprint::new(&spec, None).unwrap_err().to_string();
        assert!(without.starts_with("traffic.destinations = routed"), "{without}");
        let made = SourceSpec { destinations, ..SourceSpec::default() };
        let made = Blueprint::new(&made, Some(&table)).unwrap_err().to_string();
        assert!(made.starts_with("traffic.destinations = routed"), "{made}");
        std::fs::remove_file(&file).unwrap();
    }

    /// Of a capture in memory, and of one that is read again, packed or not; in the middle of a round and at its ends.
    #[test]
    fn a_clone_goes_on_in_its_capture() {
        let mut bytes = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0".to_vec();
        for i in 0..200u32 {
            bytes.extend([[0; 4], (i * 10 + i % 3).to_le_bytes(), 60u32.to_le_bytes(), 60u32.to_le_bytes()].concat());
            bytes.extend([&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46][..], &[i as u8; 42]].concat());
        }
        let path = |name: &str| std::env::temp_dir().join(format!("wirespeed-source-{}-{name}", std::process::id()));
        let files = [(path("a.pcap"), bytes.clone()), (path("a.pcap.gz"), crate::input::tests::gzip(&bytes))];
        for (file, bytes) in &files {
            std::fs::write(file, bytes).unwrap();
            let spec = SourceSpec { capture: Some(file.clone()), rounds: Some(3), ..SourceSpec::default() };
            for kept in [true, false] {
                let mut blueprint = Blueprint::new(&spec, None).unwrap();
                if let SourcePlan::Replayed(replay) = &mut blueprint.kind
                    && !kept
                {
                    Arc::get_mut(replay).unwrap().kept = None;
                }
                let start = blueprint.source(1, &Load::Timestamps(1.0)).unwrap();
                let whole = rest(&mut start.clone(), 1000);
                assert_eq!(whole.len(), 600);
                for at in [0, 1, 137, 199, 200, 201, 599, 600] {
                    let mut source = start.clone();
                    rest(&mut source, at);
                    let mut clone = source.clone();
                    assert_eq!(rest(&mut source, 1000), whole[at..], "the source at {at}");
                    assert_eq!(rest(&mut clone, 1000), whole[at..], "the clone at {at}");
                    // What is left out of it is as what was taken.
                    let (mut fewer, left) = (start.clone(), at.saturating_sub(1));
                    let last = left.checked_sub(1).map(|last| whole[last].arrival);
                    assert_eq!(fewer.leave_out(left as u64), (left as u64, last));
                    assert_eq!(rest(&mut fewer, 1000), whole[left..], "left out {left}");
                    assert_eq!(fewer.leave_out(7), (0, None));
                }
            }
            std::fs::remove_file(file).unwrap();
        }
    }

    #[test]
    fn contradictions_are_told_what_to_do() {
        let error = |spec: SourceSpec, load: Load| match Source::new(&spec, 1, &load, None) {
            Ok(_) => panic!("an error"),
            Err(e) => e.to_string(),
        };
        let capture = SourceSpec { capture: Some("x.pcap".into()), sizes: Some(SizeSpec::Imix), ..Default::default() };
        assert_eq!(
            error(capture, rate(1.0)),
            "traffic.sizes = given: a capture has its own (leave out either this or `capture`)"
        );
        assert!(
            error(SourceSpec { rounds: Some(2), ..Default::default() }, rate(1.0)).starts_with("traffic.rounds = 2")
        );
        assert!(error(SourceSpec::default(), Load::Timestamps(1.0)).contains("only a capture with sound timestamps"));
        assert!(error(SourceSpec::default(), rate(0.0)).starts_with("load = 0 packets/s"));
        assert!(
            error(SourceSpec { capture: Some("none.pcap".into()), ..Default::default() }, rate(1.0))
                .starts_with("none.pcap: cannot be read")
        );
    }

    #[test]
    fn a_specification_reads_from_toml_and_refuses_unknown_keys() {
        let text = "profile = \"imix\"\narrivals = \"poisson\"\n[sizes]\nfixed = \"128 B\"\n\
                    [flows]\ncount = 10\npopularity = { zipf = 1.1 }\n";
        let spec: SourceSpec = toml::from_str(text).unwrap();
        assert_eq!(spec.arrivals, Some(ArrivalSpec::Poisson));
        assert!(packets(&spec, 1, &rate(1.0), 100).iter().all(|p| p.l2_bytes() == 128));
        let error = toml::from_str::<SourceSpec>("profil = \"imix\"").unwrap_err().to_string();
        assert!(error.contains("unknown field `profil`, expected one of `profile`, `capture`"), "{error}");
    }
}
