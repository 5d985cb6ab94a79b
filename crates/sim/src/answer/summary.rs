//! A run as one JSON document, `wirespeed.run/1`: what the command line prints and reports draw.

use std::borrow::Cow;

use machine::dram::{CommandReport, ControllerSetting, EnergyModel, PagePolicy, Work};
use machine::memory::{CopyEngineSpec, TailCounters};
use serde_json::{Map, Value, json};
use stats::{Attribution, Histogram, Reason};
use units::{LINE_BYTES, Ps};

use crate::answer::rates::{Rates, dram_bandwidth, is_stationary};
use crate::answer::verdict::verdict;
use crate::load::Routing;
use crate::run::measure::{CLASSES, Interval, Measure};
use crate::run::simulate::Measured;
use crate::run::{RunResult, SearchOutcome, Trial};
use crate::scenario::NeighbourSpec;
use crate::scenario::files::file_name;
use crate::scenario::{FunctionKind, Scenario, Search};
use crate::server::Loss;
use crate::server::clos;
use crate::server::neighbours::NeighbourCounters;
use crate::server::owners;

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Shares of the CDF that two points are apart, at most.
const CDF_STEP: f64 = 1.0 / 150.0;
/// In the tail, what is left above a point is this share of what was left above the one before.
const CDF_TAIL: f64 = 0.8;
/// Where a CDF's points need not come nearer to 1.
const CDF_END: f64 = 1e-6;

/// Hashes the resolved scenario, its seed included, the content of the files it names, and the version: equal ids,
/// equal results. Where the files lie and what they are called does not matter.
pub fn run_id(result: &RunResult) -> String {
    hash(&format!("{VERSION}\n{}", by_content(result).to_toml()))
}

/// The scenario without its titles, and with the hash of each file's content in place of its path.
fn by_content(result: &RunResult) -> Scenario {
    let mut scenario = result.scenario.clone();
    scenario.name.clear();
    scenario.machine.name.clear();
    scenario.rename_files(|setting, _| {
        let read = result.inputs.iter().find(|file| file.kind == setting.kind)?;
        Some(read.blake3.as_str().into())
    });
    // All that a file of a machine says is in the scenario.
    if scenario.machine.preset.as_deref().is_some_and(|name| name.ends_with(".toml")) {
        scenario.machine.preset = None;
    }
    scenario
}

/// Identifies the packets that a run is measured by: two runs with equal ids see the same ones at the
/// same times, if as many were offered.
pub fn traffic_id(result: &RunResult) -> String {
    let s = &by_content(result);
    let traffic = toml::to_string(&s.traffic).unwrap_or_default();
    let forward = &s.function.forward;
    let users = match s.function.kind {
        FunctionKind::Upf => toml::to_string(&s.function.upf).unwrap_or_default(),
        _ => String::new(),
    };
    hash(&format!(
        "{traffic}\n{users}{} {} {} {} {:e} {:?} {} {}",
        s.run.seed,
        s.run.packets,
        result.measured.warmup.packets,
        s.nic.rate,
        result.load,
        forward.table,
        forward.prefixes,
        forward.next_hops,
    ))
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_string()
}

/// What the policy saw and did; null where nobody sets the ways.
fn policy(result: &RunResult) -> Value {
    let Some(spec) = &result.scenario.policy else { return Value::Null };
    let intervals = &result.measured.control;
    json!({
        "kind": spec.kind,
        "interval_ns": spec.interval.ps().as_ns(),
        "changes": intervals.iter().filter(|i| i.decided_io_ways.is_some_and(|ways| ways != i.io_ways)).count(),
        "io_ways": intervals.last().map(|i| i.decided_io_ways.unwrap_or(i.io_ways)),
        "ways": result.scenario.machine.llc.ways,
        "intervals": intervals,
    })
}

/// The document; `commit` names the build's commit. What is not finite is null.
pub fn summary(result: &RunResult, commit: &str) -> Value {
    let (scenario, measured) = (&result.scenario, &result.measured);
    let m = &measured.measure;
    let loss = m.loss.estimate();
    let rates = Rates::of(m);
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| out.insert(name.into(), value);
    put("schema", json!("wirespeed.run/1"));
    put("run_id", json!(run_id(result)));
    put("seed", json!(scenario.run.seed));
    put("version", json!(VERSION));
    put("commit", json!(commit));
    put("name", json!(scenario.name));
    put("partial", json!(result.partial));
    put("verdict", verdict(result).to_json());
    put("packets", json!(m.offered.packets));
    put("warmup_packets", json!(measured.warmup.packets));
    put("warmup", warmup(result));
    put("stationary", json!(is_stationary(m)));
    put("offered_mpps", json!(rates.mpps(&m.offered)));
    put("carried_mpps", json!(rates.mpps(&m.carried)));
    put("offered_gbps", json!(rates.gbps(m.offered.l1_bytes)));
    put("carried_gbps", json!(rates.gbps(m.carried.l1_bytes)));
    put("offered_l2_gbps", json!(rates.gbps(m.offered.l2_bytes)));
    put("carried_l2_gbps", json!(rates.gbps(m.carried.l2_bytes)));
    put("line_rate_gbps", json!(scenario.nic.rate.gbps()));
    put("load", json!(result.load));
    put("loss", json!(loss.value));
    put("loss_half_width", json!(loss.half_width));
    put("loss_upper_95", json!(loss.upper));
    let drops = || m.lost.iter().chain(&m.rejected);
    put("drops", drops().map(|(name, n)| (name.to_string(), json!(n))).collect::<Map<_, _>>().into());
    put(
        "drop_kinds",
        drops().map(|(name, _)| (name.to_string(), json!(drop_kind(name)))).collect::<Map<_, _>>().into(),
    );
    put("lost", json!(m.lost.values().sum::<u64>()));
    put("rejected", json!(m.rejected.values().sum::<u64>()));
    put("sojourn_ns", sojourn(m));
    put("attribution_ns", attribution(&m.attribution, m.sojourn.n()));
    put(
        "attribution_labels",
        Reason::ALL.iter().map(|r| (r.name().into(), json!(r.label()))).collect::<Map<_, _>>().into(),
    );
    put("classes", classes(m));
    put("sojourn_cdf", json!(cdf(m.sojourn.histogram())));
    put("levels", levels(measured));
    let named = scenario.machine.clos.values().any(|class| !class.cores.is_empty() || !class.neighbours.is_empty());
    // Classes tell kinds of cores apart only where nobody has put cores or neighbours into others.
    put("llc_by_cores", if named { json!([]) } else { llc_by_cores(measured) });
    put("clos", clos::summary(&scenario.machine.clos, scenario.machine.llc.ways, &measured.clos));
    put("copy_table", copy_table(scenario, measured));
    put("copy_engine", copy_engine(scenario, measured));
    put("sockets", sockets(measured));
    put("snooping", snooping(measured));
    put("applications", owners::applications(scenario, &measured.applications));
    put("stacked", owners::stacked(scenario, measured.stacked, measured.span));
    put("dram", dram(scenario, measured));
    put("pcie", pcie(scenario, measured));
    put("cores", cores(scenario, measured));
    let wanted: u64 = measured.cores.iter().map(|c| c.rx_nombuf).sum();
    put("mempool", json!({ "size": scenario.mempool.size, "starved": wanted > 0, "rx_nombuf": wanted }));
    put("packet_buffer", packet_buffer(scenario, measured));
    put("nic_cache", measured.tails.map_or(Value::Null, |tails| nic_cache(scenario, &tails)));
    put("curve", result.curve.iter().map(point).collect::<Vec<_>>().into());
    put("series", series(scenario, m).iter().map(Bin::to_json).collect::<Vec<_>>().into());
    put("policy", policy(result));
    put("search", result.search.as_ref().map_or(Value::Null, |s| search(result, s)));
    put("traffic", traffic(result));
    put(
        "machine",
        json!({
            "preset": scenario.machine.preset,
            "name": scenario.machine.name,
            "cores": scenario.machine.cores,
            "core_ghz": scenario.machine.core.frequency.ghz(),
            "ports": scenario.nic.ports,
            "rx_descriptors": scenario.nic.rx_descriptors,
            "io_ways": scenario.machine.llc.io_ways.count(),
        }),
    );
    put("members", members(measured));
    put("flow_table", flow_table(scenario, measured));
    put("neighbours", neighbours(scenario, measured));
    let owners = ["devices", "receiving", "working", "others"].into_iter().zip(measured.llc_lines);
    let owned: Map<_, _> = owners.map(|(owner, lines)| (owner.into(), json!(lines * LINE_BYTES))).collect();
    put("llc_bytes", owned.into());
    put("routes", json!({ "ipv4": result.routing.routes.0, "ipv6": result.routing.routes.1 }));
    put("table", table(&result.routing));
    put(
        "inputs",
        result.inputs.iter().map(|f| json!({ "kind": f.kind, "name": f.name, "blake3": f.blake3 })).collect(),
    );
    put("notes", json!(result.notes));
    put("batches", batches(scenario, m));
    put("wall_s", json!(result.wall_s));
    put("load_s", json!(result.load_s));
    put("simulated_s", json!(measured.span.as_secs()));
    put("simulated_packets", json!(measured.simulated));
    put("packets_per_wall_s", json!(measured.simulated as f64 / result.run_wall_s));
    Value::Object(out)
}

/// Whether a drop is for want of a resource ("lost") or a function's verdict ("rejected").
pub fn drop_kind(name: &str) -> &'static str {
    if Loss::ALL.iter().any(|loss| loss.name() == name) { "lost" } else { "rejected" }
}

fn sojourn(m: &Measure) -> Value {
    let mut out = of_histogram(m.sojourn.histogram());
    let mean = m.sojourn.mean();
    out["half_width"] = json!(mean.half_width / 1e3);
    for (name, q) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        let quantile = m.sojourn.quantile(q);
        let ns = |t: Option<Ps>| json!(t.map(Ps::as_ns));
        out[&format!("{name}_half_width")] = json!(quantile.map_or(f64::NAN, |q| q.half_width() / 1e3));
        out[&format!("{name}_low")] = ns(quantile.map(|q| q.low));
        out[&format!("{name}_high")] = ns(quantile.and_then(|q| q.high));
    }
    out
}

fn of_histogram(h: &Histogram) -> Value {
    let ns = |t: Option<Ps>| t.map(Ps::as_ns);
    json!({
        "mean": h.mean() / 1e3,
        "min": ns(h.min()),
        "p50": ns(h.quantile(0.5)),
        "p99": ns(h.quantile(0.99)),
        "p999": ns(h.quantile(0.999)),
        "max": ns(h.max()),
    })
}

fn attribution(sum: &Attribution, packets: u64) -> Value {
    let mean = |time: Ps| if packets == 0 { 0.0 } else { time.as_ns() / packets as f64 };
    sum.iter().map(|(reason, time)| (reason.name().to_string(), json!(mean(time)))).collect::<Map<_, _>>().into()
}

fn classes(m: &Measure) -> Value {
    let class = |(tally, (name, _)): (&crate::run::measure::ClassTally, &(&str, u32))| {
        json!({
            "name": name,
            "packets": tally.sojourn.n(),
            "sojourn_ns": of_histogram(&tally.sojourn),
            "attribution_ns": attribution(&tally.attribution, tally.sojourn.n()),
        })
    };
    m.classes.iter().zip(&CLASSES).filter(|(tally, _)| tally.sojourn.n() > 0).map(class).collect()
}

/// Steps of the distribution function, dense in the tail.
fn cdf(h: &Histogram) -> Vec<(f64, f64)> {
    let Some(min) = h.min() else { return Vec::new() };
    let (mut points, mut below, n) = (vec![(min.as_ns(), 0.0)], 0, h.n() as f64);
    let mut last = 0.0;
    for (value, count) in h.buckets() {
        below += count;
        let share = below as f64 / n;
        let tail = 1.0 - share <= (1.0 - last) * CDF_TAIL && 1.0 - last > CDF_END;
        if share - last >= CDF_STEP || tail || below == h.n() {
            points.push((value.min(h.max().unwrap_or(value)).as_ns(), share));
            last = share;
        }
    }
    points
}

fn levels(measured: &Measured) -> Value {
    let c = &measured.memory;
    let levels = [("L1d", c.l1), ("L2", c.l2), ("LLC", c.llc), ("DDIO", c.dma_write), ("DMA read", c.dma_read)];
    let level = |(name, l): (&str, machine::memory::LevelCounters)| {
        json!({
            "name": name,
            "hits": l.hits,
            "misses": l.misses,
            "hit_rate": l.hits as f64 / (l.hits + l.misses) as f64,
        })
    };
    levels.into_iter().map(level).collect()
}

/// Of each kind of core that made any lookup.
fn llc_by_cores(measured: &Measured) -> Value {
    let kinds = ["receiving", "working"].into_iter().zip(&measured.classes);
    let lookups = |l: &machine::memory::LevelCounters| l.hits + l.misses;
    kinds
        .filter(|(_, l)| lookups(l) > 0)
        .map(|(kind, l)| json!({ "cores": kind, "lookups": lookups(l), "miss_rate": l.misses as f64 / lookups(l) as f64 }))
        .collect()
}

/// What the allocator of `[buffer]` did in the measured part; null where packets lie in their mbufs.
fn packet_buffer(scenario: &Scenario, measured: &Measured) -> Value {
    let Some((spec, did)) = scenario.buffer.as_ref().zip(measured.buffer) else { return Value::Null };
    json!({
        "allocation": spec.allocation.name(),
        "size_bytes": spec.size.bytes(),
        "longest_bytes": spec.longest.bytes(),
        "packets": did.packets,
        "stalls": did.stalls,
        "stalls_with_room": did.stalls_with_room,
        "too_long": did.too_long,
        "fragmentation": did.fragmentation(),
    })
}

/// What the NIC's SRAM for the tails of receive queues did in the measured part.
fn nic_cache(scenario: &Scenario, tails: &TailCounters) -> Value {
    json!({
        "cells": scenario.nic.cache_cells,
        "written": tails.written,
        "gathered": tails.gathered,
        "bypassed": tails.bypassed,
        "replaced": tails.replaced,
        "to_cores": tails.to_cores,
    })
}

/// What each neighbour did after warm-up.
fn neighbours(scenario: &Scenario, measured: &Measured) -> Value {
    let seconds = measured.span.as_secs();
    let one = |(spec, did): (&NeighbourSpec, &NeighbourCounters)| {
        json!({
            "name": spec.name,
            "cores": spec.cores,
            "working_set_bytes": spec.working_set.bytes(),
            "references_per_s": did.references as f64 / seconds,
            "llc_lookups": did.llc.hits + did.llc.misses,
            "llc_miss_rate": did.llc.misses as f64 / (did.llc.hits + did.llc.misses) as f64,
        })
    };
    scenario.neighbours.iter().zip(&measured.neighbours).map(one).collect()
}

/// Of a chain: what each member did after warm-up, and its shares of the whole. Null of a function alone.
fn members(measured: &Measured) -> Value {
    if measured.members.is_empty() {
        return Value::Null;
    }
    let sum = |of: fn(&functions::Share) -> u64| measured.members.iter().map(of).sum::<u64>() as f64;
    let (references, instructions) = (sum(|m| m.seen.references), sum(|m| m.seen.instructions));
    let member = |m: &functions::Share| {
        json!({
            "name": m.name,
            "packets": m.packets,
            "dropped": m.dropped,
            "references": m.seen.references,
            "reference_share": m.seen.references as f64 / references,
            "instructions": m.seen.instructions,
            "instruction_share": m.seen.instructions as f64 / instructions,
        })
    };
    measured.members.iter().map(member).collect()
}

/// What the user plane's flow tables did after warm-up; null without them.
fn flow_table(scenario: &Scenario, measured: &Measured) -> Value {
    let Some(c) = measured.flow_tables else { return Value::Null };
    let lookups = c.hits + c.misses;
    json!({
        "flows_per_core": scenario.function.upf.processing.flow_capacity(),
        "hits": c.hits,
        "misses": c.misses,
        "stale": c.stale,
        "evictions": c.evictions,
        "hit_rate": c.hits as f64 / lookups as f64,
    })
}

/// What the copy table did; null without one.
fn copy_table(scenario: &Scenario, measured: &Measured) -> Value {
    if scenario.machine.copy_table.is_none() {
        return Value::Null;
    }
    let c = &measured.copies;
    json!({
        "fills": c.fills,
        "hits": c.hits,
        "settled": c.settled,
        "searches": c.searches,
        "fallbacks": c.fallbacks,
    })
}

/// What went between sockets; null of one.
fn sockets(measured: &Measured) -> Value {
    let Some(counters) = &measured.sockets else { return Value::Null };
    let span = measured.span.as_secs();
    json!({
        "local_reads": counters.local_reads,
        "remote_reads": counters.remote_reads,
        "remote_llc": counters.remote_llc,
        "remote_snoops": counters.remote_snoops,
        "remote_writes": counters.remote_writes,
        "links": counters.links.iter().map(|(from, to, link)| json!({
            "from": from,
            "to": to,
            "gb_per_s": link.bytes as f64 / span / 1e9,
            "busy": link.busy.as_secs() / span,
            "waited_ns": link.waited.as_ns(),
        })).collect::<Vec<_>>(),
    })
}

/// What snooping did; null where a directory knows who has a line.
fn snooping(measured: &Measured) -> Value {
    let Some(counters) = &measured.snooping else { return Value::Null };
    json!({
        "broadcasts": counters.broadcasts,
        "lookups": counters.lookups,
        "supplied": {
            "modified": counters.modified,
            "exclusive": counters.exclusive,
            "shared": counters.shared,
        },
        "invalidations": counters.invalidations,
        "waited_ns": counters.waited.as_ns(),
    })
}

/// What the copy engine did; null without one.
fn copy_engine(scenario: &Scenario, measured: &Measured) -> Value {
    let Some(spec) = &scenario.machine.copy_engine else { return Value::Null };
    let by = match spec {
        CopyEngineSpec::NonTemporal => "non-temporal",
        CopyEngineSpec::Dma { .. } => "dma",
        CopyEngineSpec::Controller { .. } => "controller",
    };
    let e = &measured.engine;
    json!({ "by": by, "copies": e.copies, "lines": e.lines, "cleaned": e.cleaned, "waits": e.waits })
}

fn dram(scenario: &Scenario, measured: &Measured) -> Value {
    let d = &measured.dram;
    let data = d.bus_busy.as_secs() / (measured.span.as_secs() * f64::from(scenario.machine.dram_channels()));
    let mut out = json!({
        "reads": d.reads,
        "writes": d.writes,
        "row_hits": d.row_hits,
        "row_misses": d.row_misses,
        "row_conflicts": d.row_conflicts,
        "bandwidth_gb_per_s": dram_bandwidth(measured) / 1e9,
        "peak_gb_per_s": measured.dram_peak / 1e9,
        "share": { "data": data, "idle": 1.0 - data },
    });
    if let (Some(found), Some(setting)) = (&measured.controllers, &scenario.machine.dram.controller) {
        let s = &found.report.shares;
        out["share"] = json!({
            "data": s.data,
            "turnaround": s.turnaround,
            "bank_group": s.bank_group,
            "row_miss": s.row_miss,
            "bank_conflict": s.bank_conflict,
            "refresh": s.refresh,
            "idle": s.idle,
        });
        out["controllers"] = controllers(found, setting, scenario.machine.dram.page);
    }
    let energy = energy_model(scenario).map(|model| model.of(&measured.dram_work));
    let carried = measured.measure.carried.packets;
    out["energy_nj_per_packet"] =
        json!(energy.as_ref().ok().filter(|_| carried > 0).map(|e| e.total() / carried as f64));
    out["energy_missing"] = json!(energy.as_ref().err());
    out["energy_nj"] = json!(energy.ok().map(|e| json!({
        "total": e.total(),
        "activate": e.activate,
        "read": e.read,
        "write": e.write,
        "refresh": e.refresh,
        "background": e.background,
    })));
    out
}

/// What work takes on the scenario's DRAM, or why that is not known.
fn energy_model(scenario: &Scenario) -> Result<EnergyModel, String> {
    let dram = &scenario.machine.dram;
    if scenario.machine.stacked.is_some() {
        return Err("what the stacked DRAM of machine.stacked takes is not known".into());
    }
    let Some(name) = dram.of_currents() else {
        return Err("machine.dram names no standard whose currents its devices have (machine.dram.currents)".into());
    };
    match dram.energy("machine.dram") {
        Ok(Some(model)) => Ok(model),
        Ok(None) => Err(format!("no currents of {name} are known")),
        Err(e) => Err(e.to_string()),
    }
}

/// What DRAM controllers did in the measured part.
fn controllers(found: &CommandReport, setting: &ControllerSetting, page: PagePolicy) -> Value {
    let (report, spec) = (&found.report, setting.spec(page));
    let latency = &found.read_latency;
    let mut reads = of_histogram(latency);
    reads["n"] = json!(latency.n());
    reads["p90"] = json!(latency.quantile(0.9).map(Ps::as_ns));
    json!({
        "map": setting.map,
        "queue": spec.queue,
        "order": spec.order.to_string(),
        "writes": spec.writes.to_string(),
        "page": spec.page.to_string(),
        "refresh": spec.refresh.to_string(),
        "read_latency_ns": reads,
        "forwarded": report.forwarded,
        "activates": report.activates,
        "refreshes": report.refreshes,
        "drain_switches": report.drain_switches,
        "links": found.links.map(|[to, from]| json!({ "to": to, "from": from })),
        "banks": report.heat,
    })
}

fn pcie(scenario: &Scenario, measured: &Measured) -> Value {
    let gbps = |bytes: u64| bytes as f64 * 8.0 / measured.span.as_secs() / 1e9;
    json!({
        "to_host_gbps": gbps(measured.pcie_bytes.0),
        "from_host_gbps": gbps(measured.pcie_bytes.1),
        "to_host_link_gbps": gbps(measured.pcie_carried.0),
        "from_host_link_gbps": gbps(measured.pcie_carried.1),
        "rate_gbps": scenario.nic.pcie.rate.gbps(),
    })
}

fn cores(scenario: &Scenario, measured: &Measured) -> Value {
    let ghz = scenario.machine.core.frequency.ghz();
    let core = |(i, c): (usize, &crate::server::CoreCounters)| {
        let (packets, busy) = (c.packets as f64, c.busy.as_secs() / measured.span.as_secs());
        json!({
            "core": i,
            "packets": c.packets,
            "busy": busy,
            "polling": 1.0 - busy,
            "packets_per_burst": packets / c.bursts as f64,
            "instructions_per_packet": c.instructions as f64 / packets,
            "cycles_per_packet": c.busy.as_ns() * ghz / packets,
        })
    };
    measured.cores.iter().enumerate().map(core).collect()
}

fn point(trial: &Trial) -> Value {
    json!({
        "load": trial.load,
        "offered_mpps": trial.offered_mpps,
        "carried_mpps": trial.carried_mpps,
        "loss": trial.loss(),
        "lost": trial.lost,
        "packets": trial.packets,
        "warmup_packets": trial.warmup_packets,
        "p50_ns": trial.p50_ns,
        "p99_ns": trial.p99_ns,
    })
}

fn search(result: &RunResult, found: &SearchOutcome) -> Value {
    let trials = found.trials.iter().map(|trial| {
        let mut value = point(trial);
        value["pass"] = json!(trial.loss() <= found.loss_limit);
        value
    });
    let best = found.trials.iter().rfind(|t| t.load == found.load);
    json!({
        "kind": if found.kind == Search::Ndr { "ndr" } else { "pdr" },
        "mpps": best.map_or(0.0, |t| t.offered_mpps),
        "gbps": found.load * result.scenario.nic.rate.gbps(),
        "load": found.load,
        "loss_limit": found.loss_limit,
        "packets": found.packets,
        "sufficient_packets": found.sufficient_packets,
        "trials": Value::Array(trials.collect()),
    })
}

/// An interval of the series, with its rates.
pub(crate) struct Bin {
    pub(crate) start_ns: f64,
    pub(crate) width_ns: f64,
    pub(crate) offered_mpps: f64,
    pub(crate) carried_mpps: f64,
    pub(crate) loss: f64,
    pub(crate) sojourn_mean_ns: f64,
    pub(crate) ring_packets: f64,
    /// In descriptors, in software queues, sending, free.
    pub(crate) mbufs: [f64; 4],
    pub(crate) llc_hit_rate: f64,
    pub(crate) dram_gb_per_s: f64,
    pub(crate) core_busy: f64,
}

impl Bin {
    fn to_json(&self) -> Value {
        json!({
            "start_ns": self.start_ns,
            "width_ns": self.width_ns,
            "offered_mpps": self.offered_mpps,
            "carried_mpps": self.carried_mpps,
            "loss": self.loss,
            "sojourn_mean_ns": self.sojourn_mean_ns,
            "ring_packets": self.ring_packets,
            "mbufs_descriptors": self.mbufs[0],
            "mbufs_queued": self.mbufs[1],
            "mbufs_sending": self.mbufs[2],
            "mbufs_free": self.mbufs[3],
            "llc_hit_rate": self.llc_hit_rate,
            "dram_gb_per_s": self.dram_gb_per_s,
            "core_busy": self.core_busy,
        })
    }
}

/// The intervals of a run, and how long the last of them is. What remains after the last whole one is an interval of its own from half
/// an interval on; less goes into the one before, or rates would be of a packet in picoseconds.
fn intervals(m: &Measure) -> (Cow<'_, [Interval]>, Ps) {
    let n = m.intervals.len();
    let left = |before: usize| Ps(m.window().0.saturating_sub(m.interval.0.saturating_mul(before as u64)));
    if n < 2 || left(n - 1).0 >= m.interval.0 / 2 {
        return (Cow::Borrowed(&m.intervals), Ps(left(n.saturating_sub(1)).0.min(m.interval.0)));
    }
    let mut merged = m.intervals[..n - 1].to_vec();
    merged[n - 2] = Interval::merged(&m.intervals[n - 2..]);
    (Cow::Owned(merged), left(n - 2))
}

/// The series since measurement began. The last interval is as wide as it was measured. Packets count where they
/// arrived, what cores and memory did counts when it was done; after the last arrival, of the last interval.
pub(crate) fn series(scenario: &Scenario, m: &Measure) -> Vec<Bin> {
    let (intervals, last) = intervals(m);
    let mut bins = Vec::with_capacity(intervals.len());
    let mut start = Ps::ZERO;
    for (n, interval) in intervals.iter().enumerate() {
        let width = if n + 1 == intervals.len() { last } else { m.interval };
        let us = width.as_secs() * 1e6;
        let a = &interval.activity;
        bins.push(Bin {
            start_ns: start.as_ns(),
            width_ns: width.as_ns(),
            offered_mpps: interval.offered as f64 / us,
            carried_mpps: interval.carried as f64 / us,
            loss: interval.lost as f64 / interval.offered as f64,
            sojourn_mean_ns: interval.sojourn_sum as f64 / interval.carried as f64 / 1e3,
            ring_packets: a.waiting as f64 / a.samples as f64,
            mbufs: a.mbufs.map(|sum| sum as f64 / a.samples as f64),
            llc_hit_rate: a.llc_hits as f64 / a.llc_lookups as f64,
            dram_gb_per_s: (a.dram_lines * LINE_BYTES) as f64 / a.span.as_secs() / 1e9,
            core_busy: a.busy.as_secs() / (a.span.as_secs() * f64::from(scenario.machine.cores)),
        });
        start += m.interval;
    }
    bins
}

fn traffic(result: &RunResult) -> Value {
    let spec = &result.scenario.traffic;
    let capture = spec.capture.as_deref().map(file_name);
    let mut out = json!({
        "id": traffic_id(result),
        "source": match &capture {
            Some(name) => format!("capture {name}"),
            None => format!("profile {}", spec.profile.as_deref().unwrap_or("isp")),
        },
        "mean_frame_bytes": result.mean_frame_bytes,
    });
    if let Some(report) = &result.capture {
        out["packets_in_file"] = json!(report.packets);
        put_damage(&mut out, &report.damage);
    }
    out
}

/// The routing table and what was wrong in it.
fn table(routing: &Routing) -> Value {
    let mut out = json!({
        "source": routing.source,
        "format": routing.format,
        "compression": routing.compression,
        "duplicates": routing.duplicates,
    });
    put_damage(&mut out, &routing.damage);
    out
}

/// The first findings, how many there are in all, and how many of each kind with the first of it.
fn put_damage(out: &mut Value, damage: &traffic::Damage) {
    let finding = |f: &traffic::Finding| json!({ "offset": f.offset, "what": f.what });
    let kind =
        |c: &traffic::DamageCount| json!({ "kind": c.kind, "count": c.count, "offset": c.offset, "what": c.what });
    out["damage"] = damage.first.iter().map(finding).collect();
    out["damage_count"] = json!(damage.count);
    out["damage_by_kind"] = damage.by_kind.iter().map(kind).collect();
    out["damage_skipped_bytes"] = json!(damage.skipped_bytes);
}

/// What was cut at the start, and why.
fn warmup(result: &RunResult) -> Value {
    let w = &result.measured.warmup;
    json!({
        "packets": w.packets,
        "end": w.end.name(),
        "mbufs": w.mbufs,
        "stored": w.stored,
        "settled_after": w.settled_after,
        "why": crate::answer::verdict::warmup_text(w),
    })
}

/// Batches of the carried rate, at most.
const RATE_BATCHES: usize = 16;

/// Means of batches, by metric, for comparisons with other runs.
fn batches(scenario: &Scenario, m: &Measure) -> Value {
    let mut out = Map::new();
    // The last interval is cut, and neighbours depend on each other.
    let whole = &m.intervals[..m.intervals.len().saturating_sub(1)];
    let each = whole.len().div_ceil(RATE_BATCHES).max(1);
    let us = m.interval.as_secs() * 1e6 * each as f64;
    let carried = whole.chunks_exact(each).map(|c| c.iter().map(|i| i.carried).sum::<u64>() as f64 / us);
    out.insert("carried_mpps".into(), carried.collect());
    if let Ok(model) = energy_model(scenario) {
        let each = whole.chunks_exact(each).map(|intervals| {
            let mut work = Work::default();
            intervals.iter().for_each(|i| work += i.activity.dram_work);
            model.of(&work).total() / intervals.iter().map(|i| i.carried).sum::<u64>() as f64
        });
        let each: Vec<f64> = each.collect();
        // A batch that carried nothing has no energy a packet.
        if each.iter().all(|nj| nj.is_finite()) {
            out.insert("dram_energy".into(), each.into());
        }
    }
    out.insert("loss".into(), m.loss.batch_ratios().into());
    out.insert("mean".into(), m.sojourn.batch_means().iter().map(|ps| ps / 1e3).collect());
    for (reason, means) in Reason::ALL.iter().zip(&m.reasons) {
        if m.attribution[*reason] > 0 {
            out.insert(reason.name().into(), means.batch_means().to_vec().into());
        }
    }
    out.into()
}
