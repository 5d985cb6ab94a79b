//! What a DMA read takes as a device sees it: reads of a window of the host's memory, one at a time or several in flight.
//!
//! A read request crosses PCIe, its address is translated (`machine.iommu`), LLC or memory answers, and the data cross back.
//! Its time is from the first bit of the request to the last bit of the data. So measures pcie-bench (Neugebauer et al.,
//! SIGCOMM 2018, "Understanding PCIe performance for end host networking", `LAT_RD` and `BW_RD`), which includes its NIC's own
//! engine: `nic.pcie.latency` has to have that in it, and is then one number for each host.
//!
//! The window is cold (no cache has it), or the device has written it before, a line after the other, so that the I/O ways of
//! the LLC have what they hold of it, or a core has. Left out: what a device takes for a request and between two of them; tags
//! and credits of a link, of which `in_flight` stands for the first; other sockets; controllers of DRAM, which answers at once.

use engine::{Engine, Seed};
use machine::memory::{Hierarchy, IommuCounters};
use machine::nic::PcieLink;
use probe::{Access, Request};
use rand::RngExt;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sim::scenario::{Scenario, ScenarioError};
use units::{Addr, Clos, CoreId, LINE_BYTES, Line, Ps, Size};

/// What is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DmaReadSpec {
    /// What is read of, each the lines of a read up to 16 GiB. All windows are asked for, with all of `bytes` and `cache`.
    pub windows: Vec<Size>,
    /// Of a read, each 1 to 4096.
    pub bytes: Vec<u32>,
    /// Who has the window.
    pub cache: Vec<WindowState>,
    /// Which read comes next.
    pub order: ReadOrder,
    /// Reads that are measured, 16 to 10,000,000. As many are made before them without time.
    pub reads: u64,
    /// So many at a time, 1 to 1024.
    pub in_flight: u32,
    /// Every random draw follows from it.
    pub seed: u64,
}

impl Default for DmaReadSpec {
    fn default() -> DmaReadSpec {
        DmaReadSpec {
            windows: vec![Size::from_bytes(4096)],
            bytes: vec![64],
            cache: vec![WindowState::Cold],
            order: ReadOrder::Random,
            reads: 20_000,
            in_flight: 1,
            seed: 1,
        }
    }
}

/// What is in caches of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WindowState {
    /// Nothing.
    Cold,
    /// What is left of it after the device has written it from its beginning to its end.
    Device,
    /// What is left of it after a core has.
    Host,
}

/// Which read comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadOrder {
    /// Any.
    Random,
    /// The one behind.
    Sequential,
}

/// Runs `spec`, JSON, on the machine and NIC of `scenario`: the documented object.
///
/// # Errors
/// A text that is no such thing, settings out of their ranges, a machine that cannot be.
pub fn run_json(scenario: &Scenario, spec: &str) -> Result<Value, ScenarioError> {
    let read = &mut serde_json::Deserializer::from_str(spec);
    let spec: DmaReadSpec =
        serde_path_to_error::deserialize(read).map_err(|e| value(&e.path().to_string(), e.inner().to_string()))?;
    run(scenario, &spec)
}

/// As [`run_json`], of settings.
///
/// # Errors
/// Settings out of their ranges, a machine that cannot be.
pub fn run(scenario: &Scenario, spec: &DmaReadSpec) -> Result<Value, ScenarioError> {
    check(spec)?;
    let mut points = Vec::new();
    for &cache in &spec.cache {
        for &bytes in &spec.bytes {
            for window in &spec.windows {
                let mut reads = DmaReads::new(scenario, spec, WindowReads { window: window.bytes(), bytes, cache })?;
                reads.fill_caches();
                reads.settle();
                reads.measure();
                points.push(reads.point());
            }
        }
    }
    let pcie = &scenario.nic.pcie;
    Ok(json!({
        "schema": "wirespeed.dma_reads/1",
        "machine": scenario.machine.name,
        "order": spec.order,
        "reads": spec.reads,
        "in_flight": spec.in_flight,
        "seed": spec.seed,
        "pcie": {
            "rate_gbps": pcie.rate.gbps(),
            "latency_ns": pcie.latency.ps().as_ns(),
            "max_payload": pcie.max_payload,
            "overhead": pcie.overhead,
        },
        "points": points,
        "notes": notes(scenario),
    }))
}

fn value(path: &str, message: String) -> ScenarioError {
    ScenarioError::Value { origin: "dma".into(), path: path.into(), message }
}

fn check(spec: &DmaReadSpec) -> Result<(), ScenarioError> {
    for (name, given) in [("windows", spec.windows.len()), ("bytes", spec.bytes.len()), ("cache", spec.cache.len())] {
        if given == 0 {
            return Err(value(name, "none: allowed are one or more".into()));
        }
    }
    if let Some(bytes) = spec.bytes.iter().find(|bytes| !(1..=4096).contains(*bytes)) {
        return Err(value("bytes", format!("{bytes}: allowed are 1 to 4096 of a read")));
    }
    let most = u64::from(spec.bytes.iter().copied().max().unwrap_or(1)).next_multiple_of(LINE_BYTES);
    if let Some(window) = spec.windows.iter().find(|window| !(most..=16 << 30).contains(&window.bytes())) {
        return Err(value("windows", format!("{window}: allowed are {most} B, the lines of a read, up to 16 GiB")));
    }
    if !(16..=10_000_000).contains(&spec.reads) {
        return Err(value("reads", format!("{}: allowed are 16 to 10000000", spec.reads)));
    }
    if !(1..=1024).contains(&spec.in_flight) {
        return Err(value("in_flight", format!("{}: allowed are 1 to 1024", spec.in_flight)));
    }
    Ok(())
}

/// What is read of which window.
#[derive(Clone, Copy)]
struct WindowReads {
    window: u64,
    bytes: u32,
    cache: WindowState,
}

/// A read on its way.
#[derive(Clone, Copy)]
enum ReadEvent {
    /// The request of this slot is at the root complex.
    Asked(usize),
    /// Memory has answered it.
    Answered(usize),
}

/// Reads under way, and what came of those before.
struct DmaReads<'a> {
    spec: &'a DmaReadSpec,
    of: WindowReads,
    memory: Hierarchy,
    up: PcieLink,
    down: PcieLink,
    draw: Pcg64,
    /// Lines from one read to the next, and how many reads the window has.
    stride: u64,
    places: u64,
    next: u64,
    /// When the request of each slot was sent.
    sent: Vec<Ps>,
    took: Vec<Ps>,
    in_memory: Ps,
    translated: Ps,
    end: Ps,
    cached: [u64; 2],
    iommu: Option<IommuCounters>,
}

impl<'a> DmaReads<'a> {
    fn new(scenario: &Scenario, spec: &'a DmaReadSpec, of: WindowReads) -> Result<DmaReads<'a>, ScenarioError> {
        let machine = &scenario.machine;
        let mut memory = machine.memory_at_once();
        memory.tlb = None;
        let mut memory = Hierarchy::new(&memory, 1, "machine")?;
        if let Some(iommu) = &machine.iommu {
            memory.translate_devices(iommu, Addr(of.window), "machine.iommu")?;
        }
        let stride = u64::from(of.bytes).div_ceil(LINE_BYTES);
        Ok(DmaReads {
            spec,
            of,
            memory,
            up: PcieLink::new(&scenario.nic.pcie),
            down: PcieLink::new(&scenario.nic.pcie),
            draw: Seed(spec.seed).stream("dma.reads"),
            stride,
            places: of.window / (stride * LINE_BYTES),
            next: 0,
            sent: vec![Ps::ZERO; spec.in_flight as usize],
            took: Vec::with_capacity(spec.reads as usize),
            in_memory: Ps::ZERO,
            translated: Ps::ZERO,
            end: Ps::ZERO,
            cached: [0; 2],
            iommu: None,
        })
    }

    /// Whoever is to have the window writes it, in order.
    fn fill_caches(&mut self) {
        let mut memory = self.memory.warm();
        let bytes = LINE_BYTES as u16;
        for line in 0..self.of.window / LINE_BYTES {
            match self.of.cache {
                WindowState::Cold => return,
                WindowState::Device => memory.dma_write(Line(line), 1, Ps::ZERO),
                WindowState::Host => {
                    let (core, clos, addr) = (CoreId(0), Clos(0), Addr(line * LINE_BYTES));
                    let access = Access::Store;
                    memory.access(&Request { addr, bytes, site: 0, access, clos, core, mapping: 0 }, Ps::ZERO);
                }
            }
        }
    }

    /// The first line of the next read.
    fn place(&mut self) -> Line {
        let place = match self.spec.order {
            ReadOrder::Random => self.draw.random_range(0..self.places),
            ReadOrder::Sequential => self.next % self.places,
        };
        self.next += 1;
        Line(place * self.stride)
    }

    /// Reads without time, so that the IO-TLB has what it has after long.
    fn settle(&mut self) {
        for _ in 0..self.spec.reads {
            let first = self.place();
            self.memory.warm().dma_read(first, self.stride, Ps::ZERO);
        }
        let counters = self.memory.counters().dma_read;
        self.cached = [counters.hits, counters.misses];
        self.iommu = self.memory.iommu_counters();
    }

    fn measure(&mut self) {
        let mut engine: Engine<ReadEvent> = Engine::new();
        let mut left = self.spec.reads;
        for slot in 0..self.sent.len().min(left as usize) {
            engine.schedule(self.up.transfer(Ps::ZERO, 0), 0, ReadEvent::Asked(slot));
            left -= 1;
        }
        while let Some(event) = engine.pop() {
            let now = engine.now();
            match event {
                ReadEvent::Asked(slot) => {
                    let first = self.place();
                    let answered = self.memory.dma_read(first, self.stride, now);
                    let translated = self.memory.translated();
                    self.in_memory += answered - now;
                    self.translated += translated;
                    engine.schedule(answered + translated, 0, ReadEvent::Answered(slot));
                }
                ReadEvent::Answered(slot) => {
                    let done = self.down.transfer(now, self.of.bytes.into());
                    self.took.push(done - self.sent[slot]);
                    self.end = done;
                    if left > 0 {
                        left -= 1;
                        self.sent[slot] = done;
                        engine.schedule(self.up.transfer(done, 0), 0, ReadEvent::Asked(slot));
                    }
                }
            }
        }
    }

    fn point(mut self) -> Value {
        self.took.sort_unstable();
        let n = self.took.len() as f64;
        let mean = self.took.iter().map(|time| time.as_ns()).sum::<f64>() / n;
        let at = |share: f64| self.took[((n * share) as usize).min(self.took.len() - 1)].as_ns();
        let (in_memory, translated) = (self.in_memory.as_ns() / n, self.translated.as_ns() / n);
        let counters = self.memory.counters().dma_read;
        let lines = [counters.hits - self.cached[0], counters.misses - self.cached[1]];
        let iommu = self.memory.iommu_counters().zip(self.iommu).map(|(to, from)| to - from);
        json!({
            "window_bytes": self.of.window,
            "bytes": self.of.bytes,
            "cache": self.of.cache,
            "read_ns": { "mean": mean, "p50": at(0.5), "p95": at(0.95), "p999": at(0.999) },
            "parts_ns": { "pcie": mean - in_memory - translated, "memory": in_memory, "iommu": translated },
            "gbps": n * f64::from(self.of.bytes) * 8.0 / self.end.as_ns(),
            "cached_share": lines[0] as f64 / (lines[0] + lines[1]) as f64,
            "iommu": iommu.map(|counters| json!({
                "hits": counters.hits,
                "misses": counters.misses,
                "hit_rate": counters.hits as f64 / (counters.hits + counters.misses) as f64,
                "walk_ns": Some(counters.walked.as_ns() / counters.misses as f64).filter(|ns| ns.is_finite()),
                "references": counters.references,
            })),
        })
    }
}

/// What of the scenario is not in the answer.
fn notes(scenario: &Scenario) -> Vec<String> {
    let machine = &scenario.machine;
    let left_out = [
        (machine.sockets.is_some(), "machine.sockets", "memory is at the NIC's socket"),
        (machine.dram.controller.is_some(), "machine.dram.controller", "DRAM answers at once"),
        (machine.stacked.is_some(), "machine.stacked", "the window lies in DRAM"),
    ];
    let given = left_out.iter().filter(|(given, ..)| *given);
    given.map(|(_, path, instead)| format!("{path} is not looked at: {instead}")).collect()
}

#[cfg(test)]
mod tests {
    use sim::Overrides;

    use super::*;

    fn scenario(set: &[&str]) -> Scenario {
        let set = ["machine.dram.page=closed"].iter().chain(set).map(|s| s.to_string()).collect();
        Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap()
    }

    /// Of the one point that is asked for.
    fn asked(scenario: &Scenario, spec: DmaReadSpec) -> Value {
        let mut document = run(scenario, &DmaReadSpec { reads: 4000, ..spec }).unwrap();
        document["points"][0].take()
    }

    fn window(bytes: u64) -> DmaReadSpec {
        DmaReadSpec { windows: vec![Size::from_bytes(bytes)], ..DmaReadSpec::default() }
    }

    fn number(document: &Value, at: &str) -> f64 {
        document.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("{at} of {document}"))
    }

    /// What a read of `bytes` is on the link, both ways.
    fn on_link(scenario: &Scenario, bytes: u64) -> f64 {
        let pcie = &scenario.nic.pcie;
        let carried = |bytes| PcieLink::with_headers(bytes, pcie.max_payload.into(), pcie.overhead.into());
        let time = pcie.rate.time_for(carried(0)) + pcie.rate.time_for(carried(bytes)) + pcie.latency.ps() * 2;
        time.as_ns()
    }

    #[test]
    fn a_read_takes_the_link_both_ways_and_the_llc_or_dram() {
        let scenario = scenario(&[]);
        let llc = scenario.machine.llc.latency.ps().as_ns();
        for bytes in [8, 64, 512] {
            let spec = DmaReadSpec { bytes: vec![bytes], ..window(1 << 16) };
            let warm = asked(&scenario, DmaReadSpec { cache: vec![WindowState::Device], ..spec.clone() });
            let link = on_link(&scenario, bytes.into());
            // Of eight lines some are in the same slice, a clock or two after each other.
            let wanted = link + llc;
            assert!((number(&warm, "/read_ns/mean") - wanted).abs() < 12.0, "{bytes}: {warm} and {wanted}");
            assert_eq!(number(&warm, "/cached_share"), 1.0);
            let cold = asked(&scenario, spec);
            assert_eq!(number(&cold, "/cached_share"), 0.0);
            let dram = number(&cold, "/parts_ns/memory") - number(&warm, "/parts_ns/memory");
            let dimms = &scenario.machine.dram;
            let parts = [dimms.overhead, dimms.t_rcd, dimms.t_cl, dimms.t_burst];
            let closed: f64 = parts.iter().map(|part| part.ps().as_ns()).sum();
            // Refreshes hold some up, and eight lines meet in banks and on the bus.
            let most = if bytes > 64 { 8.0 * closed } else { closed + 12.0 };
            assert!(dram > closed - 1.0 && dram < most, "{bytes}: {dram} and {closed}");
        }
    }

    #[test]
    fn what_a_device_has_written_is_there_as_far_as_the_io_ways_hold_it() {
        let scenario = scenario(&["machine.llc.io_ways=2"]);
        let llc = &scenario.machine.llc;
        let held = llc.size.bytes() as f64 * 2.0 / f64::from(llc.ways);
        for share in [0.5, 2.0, 4.0] {
            let of = window((held * share) as u64 / 4096 * 4096);
            let spec = DmaReadSpec { cache: vec![WindowState::Device], ..of };
            let found = number(&asked(&scenario, spec), "/cached_share");
            // Sets of a hash hold more or less than their part.
            assert!((found - (1.0 / share).min(1.0)).abs() < 0.04, "{share}: {found}");
        }
    }

    #[test]
    fn the_cliff_of_the_io_tlb_is_where_its_entries_times_pages_end() {
        let iommu = "machine.iommu={iotlb_entries=64, walk_latency=\"200 ns\"}";
        let (with, without) = (scenario(&[iommu]), scenario(&[]));
        for (pages, misses) in [(16, 0.0), (64, 0.0), (128, 0.5), (256, 0.75), (1024, 0.9375)] {
            let (some, none) = (asked(&with, window(pages * 4096)), asked(&without, window(pages * 4096)));
            let missed = 1.0 - number(&some, "/iommu/hit_rate");
            assert!((missed - misses).abs() < 0.03, "{pages}: {missed} and {misses}");
            if misses == 0.0 {
                assert_eq!(some["read_ns"], none["read_ns"], "{pages}");
                continue;
            }
            let longer = number(&some, "/read_ns/mean") - number(&none, "/read_ns/mean");
            let wanted = missed * number(&some, "/iommu/walk_ns");
            assert!((longer - wanted).abs() < 0.06 * wanted, "{pages}: {longer} and {wanted}");
        }
        // Large pages reach 512 times as far.
        let large = scenario(&["machine.iommu={iotlb_entries=64, page=\"2 MiB\"}"]);
        assert_eq!(number(&asked(&large, window(64 << 20)), "/iommu/misses"), 0.0);
    }

    #[test]
    fn reads_in_flight_fill_the_link_or_wait_for_walks() {
        let spec = |bytes| DmaReadSpec { bytes: vec![bytes], in_flight: 64, ..window(16 << 20) };
        let plain = scenario(&["machine.dram.channels=8"]);
        let large = asked(&plain, spec(512));
        let pcie = &plain.nic.pcie;
        let payload = 512.0 / PcieLink::with_headers(512, pcie.max_payload.into(), pcie.overhead.into()) as f64;
        let full = pcie.rate.gbps() * payload;
        assert!(number(&large, "/gbps") > 0.9 * full && number(&large, "/gbps") <= full, "{large} of {full}");
        let walked = scenario(&["machine.dram.channels=8", "machine.iommu={iotlb_entries=64, walks=2}"]);
        let small = asked(&walked, spec(64));
        let by_walks = 2.0 * 64.0 * 8.0 / number(&small, "/iommu/walk_ns") / (1.0 - number(&small, "/iommu/hit_rate"));
        assert!((number(&small, "/gbps") / by_walks - 1.0).abs() < 0.05, "{small} and {by_walks}");
    }

    #[test]
    fn a_core_that_has_written_the_window_leaves_it_in_caches() {
        let spec = DmaReadSpec { cache: vec![WindowState::Host], ..window(1 << 20) };
        let found = asked(&scenario(&[]), spec);
        assert!(number(&found, "/cached_share") > 0.99, "{found}");
    }

    #[test]
    fn what_cannot_be_asked_is_named() {
        let refused = |spec: &str| run_json(&scenario(&[]), spec).unwrap_err().to_string();
        assert!(refused("{\"bytes\": [5000]}").contains("bytes: 5000: allowed are 1 to 4096"));
        assert!(refused("{\"windows\": [\"64 B\"], \"bytes\": [65]}").contains("windows: 64 B: allowed are 128 B"));
        assert!(refused("{\"cache\": []}").contains("cache: none: allowed are one or more"));
        assert!(refused("{\"reads\": 1}").contains("reads: 1: allowed are 16"));
        assert!(refused("{\"in_flight\": 0}").contains("in_flight: 0: allowed are 1 to 1024"));
        assert!(refused("{\"cache\": [\"lukewarm\"]}").contains("cache"));
    }
}
