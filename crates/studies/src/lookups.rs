//! What a packet function looks up: its references to its tables, packet by packet, on a scenario's packets and tables, as
//! lines for [`crate::slices`].
//!
//! Packets go through the function in bursts, as on a server; references are kept with the packet they were made for. Regions
//! lie one after the other, each from a line of its own on; what every core has for itself is taken as one. Left out:
//! packets' own data and mbufs, which that model keeps apart from tables; that a reference is a store (it is told how many are).

use functions::PacketFunction;
use packet::Packet;
use probe::{Probe, Record, Ref, RegionId};
use units::PacketId;

use crate::slices::Lookups;
use sim::Loaded;
use sim::scenario::{Scenario, ScenarioError};

/// A recording, and what was found while it was made.
#[derive(Clone, Debug)]
pub struct LookupRecording {
    /// What packets look up.
    pub lookups: Lookups,
    /// Bytes of its lines.
    pub line_bytes: u32,
    /// Packets that went through the function.
    pub packets: u64,
    /// Of these, packets that looked nothing up.
    pub without: u64,
    /// Stores of all references.
    pub stores: f64,
    /// Names and lines of the function's regions.
    pub regions: Vec<(String, u64)>,
}

/// The longest line.
const MOST_BYTES: u32 = 4096;
/// Packets between two looks at whether to go on.
const CHECKED: u64 = 4096;

/// Records `packets` packets, or as many as there are, in lines of `line_bytes`. `go_on` is asked now and then; [`None`] if it says no.
///
/// # Errors
/// A rate that traffic cannot have; a function without tables, or packets that look nothing up; lines of 0 bytes or more than 4096;
/// tables of 2^31 lines and more.
pub fn record(
    scenario: &Scenario,
    loaded: &Loaded,
    packets: u64,
    line_bytes: u32,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<LookupRecording>, ScenarioError> {
    let wrong =
        |path: &str, message: String| ScenarioError::Value { origin: "scenario".into(), path: path.into(), message };
    if !(1..=MOST_BYTES).contains(&line_bytes) {
        let told = format!("{line_bytes}: allowed are 1 to {MOST_BYTES} bytes of a cache line (64 is usual)");
        return Err(wrong("line_bytes", told));
    }
    let seed = engine::Seed(scenario.run.seed);
    let load = scenario.traffic.offered(scenario.nic.rate);
    let mut source = loaded.blueprint.source(rand::Rng::next_u64(&mut seed.stream("traffic")), &load)?;
    source.rotate(scenario.run.seed);
    let mut function = loaded.function.clone();
    let burst = scenario.nic.burst.max(1) as usize;
    let mut seen = ByPacket { of: vec![Vec::new(); burst], line_bytes: line_bytes.into(), ..ByPacket::default() };
    let mut regions = Vec::new();
    let mut next = 0;
    for region in function.regions() {
        let lines = region.bytes.div_ceil(line_bytes.into());
        let at = usize::from(region.id.0);
        if seen.first.len() <= at {
            seen.first.resize(at + 1, None);
        }
        seen.first[at] = Some(next);
        next += lines;
        regions.push((region.name, lines));
    }
    if next >= 1 << 31 {
        let told = "its tables have 2^31 lines or more: allowed are less (use a smaller table or longer lines)";
        return Err(wrong("function", told.into()));
    }
    // Functions are compiled for the probe of all studies.
    let mut record = Record::new();
    let mut all: Vec<Vec<u32>> = Vec::new();
    let (mut frames, mut verdicts, mut taken) = (Vec::new(), Vec::new(), 0u64);
    let mut more = true;
    while more && taken < packets {
        frames.clear();
        while frames.len() < burst && taken < packets {
            let mut frame = Packet::default();
            more = source.next(&mut frame);
            if !more {
                break;
            }
            frame.id = PacketId(frames.len() as u64);
            frames.push(frame);
            taken += 1;
        }
        let Some(now) = frames.last().map(|frame| frame.arrival) else { break };
        let n = frames.len();
        verdicts.clear();
        record.clear();
        function.process_burst(now, &mut frames, &mut record, &mut verdicts);
        record.replay(&mut seen);
        all.extend(seen.of[..n].iter_mut().map(std::mem::take));
        if taken % CHECKED < burst as u64 && !go_on() {
            return Ok(None);
        }
    }
    let without = all.iter().filter(|lines| lines.is_empty()).count() as u64;
    let references: usize = all.iter().map(Vec::len).sum();
    let lookups = Lookups::new(all.iter().map(Vec::as_slice), next).ok_or_else(|| {
        let told =
            "looks nothing up in tables of its own: allowed is one that does, such as forward, lookup, nat, classify";
        wrong("function", told.into())
    })?;
    let stores = seen.stores as f64 / references.max(1) as f64;
    Ok(Some(LookupRecording { lookups, line_bytes, packets: taken, without, stores, regions }))
}

/// Keeps references to tables with the packet they were made for.
#[derive(Default)]
struct ByPacket {
    /// By region: its first line.
    first: Vec<Option<u64>>,
    /// By place in the burst.
    of: Vec<Vec<u32>>,
    current: usize,
    stores: u64,
    line_bytes: u64,
}

impl ByPacket {
    fn first_of(&self, region: RegionId) -> Option<u64> {
        self.first.get(usize::from(region.0)).copied().flatten()
    }
}

impl Probe for ByPacket {
    fn touch(&mut self, r: Ref) {
        let Some(first) = self.first_of(r.region) else { return };
        let Some(of) = self.of.get_mut(self.current) else { return };
        let lines = r.offset / self.line_bytes..=(r.offset + u64::from(r.bytes.max(1)) - 1) / self.line_bytes;
        for line in lines {
            of.push((first + line) as u32);
            self.stores += u64::from(r.access.writes());
        }
    }

    fn begin(&mut self, packet: PacketId) {
        self.current = packet.0 as usize;
    }
}
