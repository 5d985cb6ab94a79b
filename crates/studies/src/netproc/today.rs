//! Does row-aware allocation pay on DRAM of today? The allocators of `machine::buffer` in front of the command-level
//! controllers of `machine::dram`.
//!
//! Models a packet buffer that ports fill and drain at full rate: each input port writes its packet in bursts of
//! lines, in turns with the others; when `depth` packets are held, each output port reads the packet at the head of
//! its queue in blocks of lines, in turns likewise. The controller takes the requests as fast as it can (saturated), or
//! at a share of the peak. Left out: the function in between, descriptors, caches (all of it is DRAM traffic,
//! as where packets stay for longer than a cache keeps them).
//!
//! **Source** of the question: Hasan, Chandra, Vijaykumar, ISCA 2003, section 8.

use std::collections::VecDeque;

use engine::Seed;
use machine::buffer::{BufferAllocation, BufferSpec, PacketBuffer};
use machine::dram::standard::Standard;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use traffic::RequestTrace;
use units::{LINE_BYTES, Size};

use super::study::interval;
use super::traffic::{NetprocTraffic, ip_bytes, wrong};
use crate::memory::{CheckedDram, DramSettings, standard};
use sim::ScenarioError;

/// Which memories, allocators and controllers are put together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TodaySpec {
    /// Presets of DRAM.
    pub memories: Vec<String>,
    /// Ways to allocate.
    pub allocations: Vec<BufferAllocation>,
    /// Orders of the controller, as `wirespeed memory dram --order` has them.
    pub orders: Vec<String>,
    /// How rows are closed, likewise.
    pub pages: Vec<String>,
    /// Lines that an output port reads in a row.
    pub blocks: Vec<u32>,
    /// Lines that an input port writes in a row.
    pub burst: u32,
    /// Ports, both ways.
    pub ports: u32,
    /// Packets held.
    pub depth: usize,
    /// The packet buffer.
    pub buffer: Size,
    /// Packets of the trace.
    pub traffic: NetprocTraffic,
    /// Requests of a run.
    pub requests: usize,
    /// The map of addresses, as `wirespeed memory dram --map` has it.
    pub map: String,
    /// Rates whose number of memories is told, in Gbps.
    pub rates: Vec<f64>,
    /// The first seed.
    pub seed: u64,
    /// Runs of each.
    pub seeds: u64,
}

impl Default for TodaySpec {
    fn default() -> TodaySpec {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        TodaySpec {
            memories: texts(&["ddr4-3200aa", "ddr5-6400b", "hbm2-2000"]),
            allocations: BufferAllocation::ALL.to_vec(),
            orders: texts(&["fcfs", "batch=direction/4/1", "fr-fcfs"]),
            pages: texts(&["open"]),
            blocks: vec![1, 4],
            burst: 4,
            ports: 16,
            depth: 2000,
            buffer: Size::from_bytes(32 << 20),
            traffic: NetprocTraffic::Named("edge".into()),
            requests: 200_000,
            map: "row rank bank column group channel".into(),
            rates: vec![40.0, 100.0, 200.0, 400.0],
            seed: 0,
            seeds: 5,
        }
    }
}

/// The share of the peak at which latency is taken.
const OFFERED: f64 = 0.5;

/// A stream of references to a packet buffer, and what share of their bytes is packets'.
struct Stream {
    requests: RequestTrace,
    packet_share: f64,
    fragmentation: f64,
    stalls: u64,
}

/// The table: one object for each memory, allocation, order, page and block, with the gain over fixed buffers under
/// the same controller and block.
///
/// # Errors
/// Names that nobody knows, traffic that cannot be read, numbers of 0.
pub fn run(spec: &TodaySpec, mut progress: impl FnMut(usize, usize) -> bool) -> Result<Value, ScenarioError> {
    if spec.ports == 0 || spec.burst == 0 || spec.seeds == 0 || spec.blocks.contains(&0) || spec.requests == 0 {
        return Err(wrong("ports, burst, blocks, requests, seeds", "0", "1 or more of each"));
    }
    let total = spec.memories.len() * spec.blocks.len() * spec.allocations.len() * spec.seeds as usize;
    let mut done = 0;
    let mut rows: Vec<Value> = Vec::new();
    for memory in &spec.memories {
        let standard = standard(memory, None)?;
        let settings: Vec<Setting> =
            spec.orders.iter().flat_map(|order| spec.pages.iter().map(move |page| Setting { order, page })).collect();
        for &block in &spec.blocks {
            let mut baseline: Vec<Vec<f64>> = Vec::new();
            for &allocation in &spec.allocations {
                let mut found = vec![SettingResults::default(); settings.len()];
                let (mut fragmentation, mut stalls) = (Vec::new(), 0);
                for k in 0..spec.seeds {
                    let stream = stream(spec, allocation, block, Seed(spec.seed).child(k).0)?;
                    fragmentation.push(stream.fragmentation);
                    stalls += stream.stalls;
                    for (setting, found) in settings.iter().zip(&mut found) {
                        found.measure(spec, memory, setting, &standard, &stream)?;
                    }
                    done += 1;
                    if !progress(done, total) {
                        return Err(ScenarioError::Stopped { during: "allocators on DRAM of today".into() });
                    }
                }
                if baseline.is_empty() {
                    baseline.extend(found.iter().map(|found| found.gbps.clone()));
                }
                for ((setting, found), baseline) in settings.iter().zip(&found).zip(&baseline) {
                    rows.push(json!({
                        "memory": memory,
                        "peak_gb_per_s": standard.peak_bytes_per_s() / 1e9,
                        "allocation": allocation.name(),
                        "order": setting.order,
                        "page": setting.page,
                        "block": block,
                        "gbps": mean(&found.gbps),
                        "gain_pct": mean(&found.gains(baseline)),
                        "row_hit_rate": mean(&found.hits),
                        "peak_share": mean(&found.share),
                        "p99_read_ns_at_half_peak": mean(&found.latency),
                        // Offered more than it carries, requests wait for as long as the trace is: no latency of the memory.
                        "half_peak_is_overload": found.share.iter().any(|share| *share < OFFERED),
                        "nj_per_byte": mean(&found.energy),
                        "fragmentation": mean(&fragmentation),
                        "stalls": stalls,
                        "memories": found.memories(&spec.rates),
                    }));
                }
            }
        }
    }
    Ok(json!({ "spec": spec, "rows": rows }))
}

/// How a controller is set.
struct Setting<'a> {
    order: &'a String,
    page: &'a String,
}

/// What was found under one setting, a number a seed.
#[derive(Clone, Debug, Default)]
struct SettingResults {
    gbps: Vec<f64>,
    hits: Vec<f64>,
    latency: Vec<f64>,
    energy: Vec<f64>,
    share: Vec<f64>,
}

impl SettingResults {
    /// Simulates `stream` as fast as it goes, and at [`OFFERED`].
    fn measure(
        &mut self,
        spec: &TodaySpec,
        memory: &str,
        setting: &Setting,
        standard: &Standard,
        stream: &Stream,
    ) -> Result<(), ScenarioError> {
        let dram = |offered: &str| {
            CheckedDram::new(&DramSettings {
                preset: memory,
                map: Some(&spec.map),
                offered: Some(offered),
                order: Some(setting.order),
                page: Some(setting.page),
                ..DramSettings::default()
            })
        };
        let peak = standard.peak_bytes_per_s();
        let number = |document: &Value, key: &str| document[key].as_f64().unwrap_or(0.0);
        let document = dram("saturated")?.simulate(&stream.requests, false)?.document;
        self.share.push(number(&document, "peak_share"));
        let bytes_per_s = number(&document, "peak_share") * peak;
        // Each byte is written and read.
        self.gbps.push(bytes_per_s * stream.packet_share * 8e-9 / 2.0);
        let found: f64 = ["row_hits", "row_misses", "row_conflicts"].iter().map(|key| number(&document, key)).sum();
        self.hits.push(number(&document, "row_hits") / found.max(1.0));
        let carried = number(&document, "bytes") * stream.packet_share;
        self.energy.push(document["energy_nj"]["total"].as_f64().unwrap_or(f64::NAN) / carried);
        // As requests a clock over all channels.
        let per_clock = OFFERED * peak / (f64::from(standard.clock_mhz) * 1e6 * LINE_BYTES as f64);
        let mut paced = stream.requests.clone();
        paced.clocks = (0..paced.addresses.len()).map(|i| (i as f64 / per_clock) as u64).collect();
        let document = dram("trace")?.simulate(&paced, false)?.document;
        let clocks = document["read_latency_clk"]["p99"].as_f64().unwrap_or(f64::NAN);
        self.latency.push(clocks * 1e3 / f64::from(standard.clock_mhz));
        Ok(())
    }

    /// Over `baseline`, in per cent.
    fn gains(&self, baseline: &[f64]) -> Vec<f64> {
        self.gbps.iter().zip(baseline).map(|(ours, base)| (ours / base - 1.0) * 100.0).collect()
    }

    /// How many of the memory each rate takes.
    fn memories(&self, rates: &[f64]) -> Vec<Value> {
        let mean = interval(&self.gbps).0;
        rates.iter().map(|rate| json!({ "gbps": rate, "memories": (rate / mean).ceil() })).collect()
    }
}

fn mean(values: &[f64]) -> Value {
    let (mean, half_width) = interval(values);
    json!({ "mean": finite(mean), "half_width": half_width.and_then(finite) })
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

struct Held {
    bytes: u32,
    cells: Vec<u32>,
    at: usize,
}

fn stream(spec: &TodaySpec, allocation: BufferAllocation, block: u32, seed: u64) -> Result<Stream, ScenarioError> {
    let packets = spec.traffic.packets(20_000, seed)?;
    let sizes: Vec<u32> = packets.iter().filter_map(ip_bytes).collect();
    let longest = sizes.iter().copied().max().unwrap_or(64).max(packet::USUAL_FRAME_BYTES as u32);
    let mut order = Seed(seed).stream("netproc.today.buffer");
    let buffer = BufferSpec {
        allocation,
        size: spec.buffer,
        shuffled: matches!(allocation, BufferAllocation::Fixed | BufferAllocation::Cells),
        longest: Size::from_bytes(u64::from(longest)),
        ..BufferSpec::default()
    };
    let mut buffer = PacketBuffer::new(&buffer, "buffer", |n| order.random_range(0..n))?;
    let mut chance = Seed(seed).stream("netproc.today.ports");
    let ports = spec.ports as usize;
    let mut writing: Vec<Option<Held>> = (0..ports).map(|_| None).collect();
    let mut queues: Vec<VecDeque<Held>> = (0..ports).map(|_| VecDeque::new()).collect();
    let (mut addresses, mut writes) = (Vec::with_capacity(spec.requests), Vec::with_capacity(spec.requests));
    let (mut next, mut held, mut in_port, mut out_port, mut packet_bytes) = (0usize, 0usize, 0, 0, 0u64);
    let (mut waits, mut warm) = (0, false);
    let mut cells = Vec::new();
    while addresses.len() < spec.requests {
        // Input: the next port's next burst, unless memory or the depth is used up.
        let full = held >= spec.depth;
        let port = in_port % ports;
        if writing[port].is_none() && !full {
            cells.clear();
            let bytes = sizes[next % sizes.len()];
            if buffer.allocate(bytes, &mut cells) {
                writing[port] = Some(Held { bytes, cells: cells.clone(), at: 0 });
                held += 1;
                next += 1;
            } else {
                waits += 1;
            }
        }
        if let Some(packet) = &mut writing[port] {
            for _ in 0..spec.burst {
                let Some(&cell) = packet.cells.get(packet.at) else { break };
                if warm {
                    addresses.push(buffer.addr(cell).0);
                    writes.push(true);
                }
                packet.at += 1;
            }
            if packet.at == packet.cells.len()
                && let Some(mut packet) = writing[port].take()
            {
                packet_bytes += if warm { u64::from(packet.bytes) } else { 0 };
                packet.at = 0;
                queues[chance.random_range(0..ports)].push_back(packet);
            }
        }
        in_port += 1;
        // Output runs while the buffer is as full as it gets, as many lines as came in.
        if !full && waits == 0 {
            continue;
        }
        warm = true;
        let mut budget = 2 * spec.burst.max(block);
        for _ in 0..ports {
            let port = out_port % ports;
            out_port += 1;
            let Some(packet) = queues[port].front_mut() else { continue };
            for _ in 0..block {
                let Some(&cell) = packet.cells.get(packet.at) else { break };
                addresses.push(buffer.addr(cell).0);
                writes.push(false);
                packet.at += 1;
                budget = budget.saturating_sub(1);
            }
            if packet.at == packet.cells.len()
                && let Some(packet) = queues[port].pop_front()
            {
                held -= 1;
                let broken = |e: machine::buffer::NotHeld| wrong("buffer", &e.to_string(), "cells that somebody has");
                buffer.free(packet.bytes, &packet.cells).map_err(broken)?;
            }
            if budget == 0 {
                break;
            }
        }
        waits = 0;
    }
    let written = writes.iter().filter(|&&write| write).count() as u64;
    let counters = buffer.counters();
    Ok(Stream {
        packet_share: (packet_bytes as f64 / (written * LINE_BYTES).max(1) as f64).min(1.0),
        requests: RequestTrace::new(addresses, writes, Vec::new()),
        fragmentation: counters.fragmentation(),
        stalls: counters.stalls,
    })
}
