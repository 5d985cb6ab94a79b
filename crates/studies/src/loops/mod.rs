//! Loops on one core, without packets from a wire: what a calibration measures, and what `dpdk-testpmd` does between
//! virtual devices. A loop and a machine in, nanoseconds an item out.
//!
//! | loop | an item is |
//! |---|---|
//! | `chase` | a load whose address came from the one before, along a random cycle of lines; several chains take turns |
//! | `random` | a load, or a store, of a random line; none waits for another |
//! | `stride` | a load so many bytes behind the one before |
//! | `stream` | a line read, written or copied, one after the other |
//! | `copy` | a copy of a block from and to random places |
//! | `blocks` | a line read of blocks in order, with room between them |
//! | [`forward`] | a packet that testpmd forwards |
//!
//! The loop's references are replayed on one core of the machine over its memory system, with lines as far apart as in
//! the native loops of `calibrate`, in order of time. Left out: other cores, and pages
//! smaller than those of `machine.tlb`.

mod forward;

use machine::cores::{Core, CoreStep};
use machine::memory::Hierarchy;
use probe::{Layout, Placed, Probe, Ref, RegionId, Request, Requests};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use units::{Addr, CoreId, LINE_BYTES, Ps};

pub use forward::{Devices, TestpmdSpec};

use sim::scenario::{MachineSpec, ScenarioError};

/// A loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoopSpec {
    /// Dependent loads.
    Chase {
        /// Bytes of all chains together.
        bytes: u64,
        /// Chains that take turns, 1 to 64.
        #[serde(default = "one")]
        chains: u32,
        /// Bytes between the lines that are touched: 64, or a page to measure translation.
        #[serde(default = "line")]
        step: u64,
    },
    /// Independent loads and stores of random lines.
    Random {
        /// Bytes of the set.
        bytes: u64,
        /// The share of stores.
        stores: f64,
    },
    /// Loads a fixed distance apart, over and over.
    Stride {
        /// Bytes of the set.
        bytes: u64,
        /// Bytes between loads.
        stride: u64,
    },
    /// One line after the other, over and over.
    Stream {
        /// Bytes of the set; of each of the two sets of a copy.
        bytes: u64,
        /// What is done with each line.
        operation: StreamOperation,
    },
    /// Copies of blocks between random places of two sets.
    Copy {
        /// Bytes of each set.
        bytes: u64,
        /// Bytes of a block.
        block: u64,
    },
    /// Blocks read in order, over and over, as packets in their buffers: what a prefetcher asks for beyond the end of one
    /// comes in for nothing.
    Blocks {
        /// Bytes of the set.
        bytes: u64,
        /// Bytes of a block, in whole lines.
        block: u64,
        /// Bytes from the beginning of one to the next.
        apart: u64,
    },
    /// Forwarding between virtual devices.
    Forward(TestpmdSpec),
}

/// What a stream does with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamOperation {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// Loads from one set and stores to the other.
    Copy,
}

/// What a loop took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timed {
    /// Nanoseconds an item.
    pub ns: f64,
    /// Items that were measured.
    pub items: u64,
    /// The share of items that got through; below 1 where a ring was full.
    pub through: f64,
    /// Lines an item that came from DRAM, prefetched ones included.
    pub dram_reads: f64,
}

fn one() -> u32 {
    1
}

fn line() -> u64 {
    LINE_BYTES
}

/// References recorded before they are replayed.
const CHUNK: u64 = 4096;
/// So often is every line of a set touched before measurement, where that is affordable.
const ROUNDS: u64 = 2;
/// So often may every line of the caches have been replaced.
const FILLS: u64 = 3;
/// Items that are measured: the mean of as many hits as misses is within half a percent.
const MEASURED: u64 = 65_536;
/// Instructions of an item, the load or store included, counted in what rustc 1.95 makes of the native loops for x86-64: the
/// place, its bound, a counter.
const CHASE_INSTRUCTIONS: u32 = 8;
/// As above.
const STRIDE_INSTRUCTIONS: u32 = 7;
/// As above, and a random number by two multiplications.
const RANDOM_INSTRUCTIONS: u32 = 18;
/// A line read: four vectors of 16 bytes, each an exclusive or, and its share of the loop.
const READ_INSTRUCTIONS: u32 = 10;
/// What stands between two blocks of lines: the sums are stored, the next place, its bounds.
const BLOCK_INSTRUCTIONS: u32 = 35;
/// A line written by the C library: two vectors of 32 bytes and its share of a call for eight lines.
const WRITE_INSTRUCTIONS: u32 = 4;
/// A line copied by DPDK where it is compiled for every x86-64 (`rte_memcpy` of 22.11, aligned): four loads and four stores of 16
/// bytes, and the loop.
const COPY_INSTRUCTIONS: u32 = 12;
/// A line copied by the C library: two loads and two stores of 32 bytes, and its share of the loop.
const LIBRARY_COPY_INSTRUCTIONS: u32 = 5;
/// Sets begin so far apart at least, and at a power of two that holds the largest: no two share a page, and what is kept for
/// each line up to the last one is little.
const LEAST_APART: u64 = 2 << 20;
/// Of regions, by their number.
const SETS: u64 = 16;
const SET: RegionId = RegionId::FIRST_TABLE;
const OTHER_SET: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 1);

/// Runs a loop on one core of `machine`.
///
/// # Errors
/// A machine or a loop that cannot be.
pub fn run(machine: &MachineSpec, spec: &LoopSpec, seed: u64) -> Result<Timed, ScenarioError> {
    check(spec)?;
    let mut bench = LoopMachine::new(machine, spec)?;
    let mut random = Pcg64::seed_from_u64(seed);
    if let LoopSpec::Forward(spec) = spec {
        return forward::run(spec, machine, &mut bench);
    }
    let mut references = References::new(spec, &mut random);
    let items = references.items();
    // What is much larger than all caches is as cold the first time as ever.
    let capacity = (machine.llc.size.bytes() + machine.l2.size.bytes()) / LINE_BYTES;
    let warmup = (items * ROUNDS).min(FILLS * capacity).max(CHUNK);
    let mut done = 0;
    while done < warmup {
        done += references.record(&mut bench, &mut random);
        bench.replay();
    }
    let (from, reads) = (bench.now, bench.memory.dram().counters().reads);
    let mut measured = 0;
    while measured < MEASURED {
        measured += references.record(&mut bench, &mut random);
        bench.replay();
    }
    Ok(bench.timed(from, reads, measured, 1.0))
}

/// Runs loops given as a JSON array; an array of what they took.
///
/// # Errors
/// As [`run`], and a text that is no array of loops.
pub fn run_json(machine: &MachineSpec, loops: &str, seed: u64) -> Result<Value, ScenarioError> {
    let read = &mut serde_json::Deserializer::from_str(loops);
    let loops: Vec<LoopSpec> =
        serde_path_to_error::deserialize(read).map_err(|e| value(&e.path().to_string(), e.inner().to_string()))?;
    let timed: Result<Vec<Value>, ScenarioError> =
        loops.iter().map(|each| run(machine, each, seed).map(|timed| json!(timed))).collect();
    Ok(Value::Array(timed?))
}

impl LoopSpec {
    /// Bytes of the largest set.
    fn largest(&self) -> u64 {
        match *self {
            LoopSpec::Chase { bytes, .. }
            | LoopSpec::Random { bytes, .. }
            | LoopSpec::Stride { bytes, .. }
            | LoopSpec::Stream { bytes, .. }
            | LoopSpec::Copy { bytes, .. }
            | LoopSpec::Blocks { bytes, .. } => bytes,
            LoopSpec::Forward(ref spec) => spec.largest(),
        }
    }
}

fn value(path: &str, message: String) -> ScenarioError {
    ScenarioError::Value { origin: "loops".into(), path: path.into(), message }
}

fn check(spec: &LoopSpec) -> Result<(), ScenarioError> {
    let sets = |bytes: u64| {
        if (4096..=1 << 33).contains(&bytes) {
            return Ok(());
        }
        Err(value("bytes", format!("{bytes}: allowed are 4096 to {}", 1u64 << 33)))
    };
    match *spec {
        LoopSpec::Chase { bytes, chains, step } => {
            sets(bytes)?;
            if !(1..=64).contains(&chains) {
                return Err(value("chains", format!("{chains}: allowed are 1 to 64")));
            }
            if step < LINE_BYTES || bytes / step < 2 * u64::from(chains) {
                return Err(value("step", format!("{step}: allowed is 64 or more, with two lines or more a chain")));
            }
        }
        LoopSpec::Random { bytes, stores } => {
            sets(bytes)?;
            if !(0.0..=1.0).contains(&stores) {
                return Err(value("stores", format!("{stores}: allowed is a share of 0 to 1")));
            }
        }
        LoopSpec::Stride { bytes, stride } => {
            sets(bytes)?;
            if !(8..=bytes / 2).contains(&stride) || !stride.is_multiple_of(8) {
                return Err(value("stride", format!("{stride}: allowed are multiples of 8 up to half of bytes")));
            }
        }
        LoopSpec::Stream { bytes, .. } => sets(bytes)?,
        LoopSpec::Copy { bytes, block } => {
            sets(bytes)?;
            if !(1..=bytes / 2).contains(&block) {
                return Err(value("block", format!("{block}: allowed are 1 to half of bytes")));
            }
        }
        LoopSpec::Blocks { bytes, block, apart } => {
            sets(bytes)?;
            if !(LINE_BYTES..=bytes / 2).contains(&apart) || !apart.is_multiple_of(LINE_BYTES) {
                return Err(value("apart", format!("{apart}: allowed are multiples of 64 up to half of bytes")));
            }
            if !(LINE_BYTES..=apart).contains(&block) || !block.is_multiple_of(LINE_BYTES) {
                return Err(value("block", format!("{block}: allowed are multiples of 64 up to apart")));
            }
        }
        LoopSpec::Forward(ref spec) => spec.check()?,
    }
    Ok(())
}

/// One core over its memory system.
struct LoopMachine {
    core: Core,
    memory: Hierarchy,
    layout: Sets,
    now: Ps,
}

impl LoopMachine {
    fn new(machine: &MachineSpec, spec: &LoopSpec) -> Result<LoopMachine, ScenarioError> {
        machine.core.check("machine.core")?;
        let largest = spec.largest();
        Ok(LoopMachine {
            core: Core::new(&machine.core, CoreId(0), "machine.core")?,
            memory: Hierarchy::new(&machine.memory_at_once(), machine.cores, "machine")?,
            layout: Sets { apart: largest.next_power_of_two().max(LEAST_APART) },
            now: Ps::ZERO,
        })
    }

    /// Replays what was recorded, and forgets it.
    fn replay(&mut self) {
        self.core.start([], self.now);
        loop {
            match self.core.step(&mut self.memory, &self.layout, self.now, Ps(u64::MAX / 2)) {
                CoreStep::Done(at) => {
                    self.now = at;
                    break;
                }
                CoreStep::At(at) => self.now = at,
                // No loop takes locks, and the memory system answers at once.
                CoreStep::Lock(_, at) => self.core.grant(at),
                CoreStep::Wait | CoreStep::Unlock(..) => {}
            }
        }
        self.core.script().clear();
    }

    fn timed(&self, from: Ps, reads: u64, items: u64, through: f64) -> Timed {
        let each = |total: f64| total / items.max(1) as f64;
        Timed {
            ns: each(self.now.since(from).as_ns()),
            items,
            through,
            dram_reads: each((self.memory.dram().counters().reads - reads) as f64),
        }
    }
}

/// Each region has its own part of memory.
struct Sets {
    apart: u64,
}

impl Sets {
    fn address(&self, r: &Ref) -> Addr {
        Addr(u64::from(r.region.bare().0) % SETS * self.apart + r.offset)
    }
}

impl Layout for Sets {
    fn place(&self, r: &Ref, packet: &Placed, out: &mut Requests) {
        let addr = self.address(r);
        let first = (LINE_BYTES - addr.0 % LINE_BYTES).min(u64::from(r.bytes));
        out.push(Request::new(r, packet, addr, first as u16));
        let mut at = first;
        while at < u64::from(r.bytes) {
            let part = (u64::from(r.bytes) - at).min(LINE_BYTES);
            out.push(Request::new(r, packet, Addr(addr.0 + at), part as u16));
            at += part;
        }
    }

    fn place_line(&self, r: &Ref, _: &Placed) -> Option<Addr> {
        let addr = self.address(r);
        (addr.0 % LINE_BYTES + u64::from(r.bytes) <= LINE_BYTES).then_some(addr)
    }
}

/// The references of a loop, endless.
enum References {
    Chase { order: Vec<u32>, at: Vec<u32>, step: u64 },
    Random { lines: u64, stores: f64 },
    Stride { bytes: u64, stride: u64, at: u64 },
    Stream { lines: u64, operation: StreamOperation, at: u64 },
    Copy { bytes: u64, block: u64 },
    Blocks { blocks: u64, lines: u64, apart: u64, at: u64 },
}

impl References {
    fn new(spec: &LoopSpec, random: &mut Pcg64) -> References {
        match *spec {
            LoopSpec::Chase { bytes, chains, step } => {
                let order = cycle((bytes / step) as usize, random);
                let apart = order.len() / chains as usize;
                // Chains are stretches of one cycle: begin where the cycle is after so many steps.
                let (mut at, mut here) = (Vec::new(), 0u32);
                for i in 0..apart * chains as usize {
                    if i % apart == 0 {
                        at.push(here);
                    }
                    here = order[here as usize];
                }
                References::Chase { order, at, step }
            }
            LoopSpec::Random { bytes, stores } => References::Random { lines: bytes / LINE_BYTES, stores },
            LoopSpec::Stride { bytes, stride } => References::Stride { bytes, stride, at: 0 },
            LoopSpec::Stream { bytes, operation } => References::Stream { lines: bytes / LINE_BYTES, operation, at: 0 },
            LoopSpec::Copy { bytes, block } => References::Copy { bytes, block },
            LoopSpec::Blocks { bytes, block, apart } => {
                References::Blocks { blocks: bytes / apart, lines: block / LINE_BYTES, apart, at: 0 }
            }
            LoopSpec::Forward(_) => References::Random { lines: 1, stores: 0.0 },
        }
    }

    /// Items after which all of the set has been touched.
    fn items(&self) -> u64 {
        match *self {
            References::Chase { ref order, .. } => order.len() as u64,
            References::Random { lines, .. } => 2 * lines,
            References::Stride { bytes, stride, .. } => bytes / stride.min(LINE_BYTES),
            References::Stream { lines, .. } => lines,
            References::Copy { bytes, block } => 2 * bytes / block,
            References::Blocks { blocks, lines, .. } => blocks * lines,
        }
    }

    /// Records some items; how many.
    fn record(&mut self, bench: &mut LoopMachine, random: &mut Pcg64) -> u64 {
        let script = bench.core.script();
        match self {
            References::Chase { order, at, step } => {
                let chains = at.len() as u64;
                let dep = if chains <= 255 { chains as u8 } else { 0 };
                for _ in 0..CHUNK / chains {
                    for here in at.iter_mut() {
                        *here = order[*here as usize];
                        script.touch(Ref::load(SET, u64::from(*here) * *step, 8, 1).after(dep));
                        script.work(1, CHASE_INSTRUCTIONS);
                    }
                }
                CHUNK / chains * chains
            }
            References::Random { lines, stores } => {
                for _ in 0..CHUNK {
                    let offset = random.random_range(0..*lines) * LINE_BYTES;
                    let load = Ref::load(SET, offset, 8, 1);
                    let store = random.random_bool(*stores);
                    script.touch(if store { load.with_access(probe::Access::Store) } else { load });
                    script.work(1, RANDOM_INSTRUCTIONS);
                }
                CHUNK
            }
            References::Stride { bytes, stride, at } => {
                for _ in 0..CHUNK {
                    script.touch(Ref::load(SET, *at, 8, 1));
                    script.work(1, STRIDE_INSTRUCTIONS);
                    *at += *stride;
                    if *at + *stride > *bytes {
                        // The next round takes the lines between.
                        *at = (*at + LINE_BYTES) % (*stride).max(LINE_BYTES);
                    }
                }
                CHUNK
            }
            References::Stream { lines, operation, at } => {
                for _ in 0..CHUNK {
                    let offset = *at * LINE_BYTES;
                    *at = (*at + 1) % *lines;
                    let load = Ref::load(SET, offset, 64, 1);
                    match operation {
                        StreamOperation::Read => script.touch(load),
                        StreamOperation::Write => script.touch(Ref::store(SET, offset, 64, 2)),
                        StreamOperation::Copy => {
                            script.touch(load);
                            script.touch(Ref::store(OTHER_SET, offset, 64, 2).after(1));
                        }
                    }
                    let instructions = match operation {
                        StreamOperation::Read => READ_INSTRUCTIONS,
                        StreamOperation::Write => WRITE_INSTRUCTIONS,
                        StreamOperation::Copy => COPY_INSTRUCTIONS,
                    };
                    script.work(1, instructions);
                }
                CHUNK
            }
            References::Copy { bytes, block } => {
                let lines = block.div_ceil(LINE_BYTES);
                let blocks = *bytes / (lines * LINE_BYTES);
                let items = (CHUNK / lines).max(1);
                for _ in 0..items {
                    let [src, dst] = [0, 1].map(|_| random.random_range(0..blocks) * lines * LINE_BYTES);
                    copy_lines(script, (SET, src), (OTHER_SET, dst), *block, 1, LIBRARY_COPY_INSTRUCTIONS);
                    script.work(3, 30);
                }
                items
            }
            References::Blocks { blocks, lines, apart, at } => {
                let rounds = (CHUNK / *lines).max(1);
                for _ in 0..rounds {
                    for line in 0..*lines {
                        script.touch(Ref::load(SET, *at * *apart + line * LINE_BYTES, 64, 1));
                        script.work(1, READ_INSTRUCTIONS);
                    }
                    script.work(1, BLOCK_INSTRUCTIONS);
                    *at = (*at + 1) % *blocks;
                }
                rounds * *lines
            }
        }
    }
}

/// A copy: loads and stores of vectors, a line at a time.
fn copy_lines(
    probe: &mut impl Probe,
    src: (RegionId, u64),
    dst: (RegionId, u64),
    bytes: u64,
    site: u16,
    instructions: u32,
) {
    let mut at = 0;
    while at < bytes {
        let part = (bytes - at).min(LINE_BYTES) as u16;
        probe.touch(Ref::load(src.0, src.1 + at, part, site));
        probe.touch(Ref::store(dst.0, dst.1 + at, part, site + 1).after(1));
        probe.work(site, instructions);
        at += u64::from(part);
    }
}

/// A random permutation of one cycle (Sattolo): where each place leads.
fn cycle(n: usize, random: &mut Pcg64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n as u32).collect();
    for last in (1..n).rev() {
        order.swap(last, random.random_range(0..last));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Overrides, Scenario};

    fn machine(set: &[&str]) -> MachineSpec {
        let set = set.iter().map(|s| s.to_string()).collect();
        Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap().machine
    }

    /// With a small LLC, so that little is larger than it.
    fn small() -> MachineSpec {
        machine(&["machine.llc.size=1.375 MiB", "machine.llc.slices=1", "machine.l2.size=256 KiB"])
    }

    fn ns(spec: LoopSpec) -> f64 {
        run(&small(), &spec, 1).unwrap().ns
    }

    fn chase(bytes: u64, chains: u32) -> LoopSpec {
        LoopSpec::Chase { bytes, chains, step: 64 }
    }

    #[test]
    fn a_chase_takes_the_latency_of_the_level_that_holds_it() {
        let spec = small();
        let close = |came: f64, wanted: f64| assert!((came / wanted - 1.0).abs() < 0.02, "{came} ns, not {wanted}");
        close(ns(chase(16 << 10, 1)), spec.l1.latency.ps().as_ns());
        // Of a set that is random in L1 a part is found there.
        let l2 = ns(chase(192 << 10, 1));
        assert!(l2 > 0.9 * spec.l2.latency.ps().as_ns() && l2 < 1.01 * spec.l2.latency.ps().as_ns(), "{l2}");
        assert!(ns(chase(32 << 20, 1)) > 75.0);
    }

    #[test]
    fn chains_overlap_until_the_misses_that_a_core_may_have() {
        let alone = ns(chase(32 << 20, 1));
        let four = ns(chase(32 << 20, 4));
        let many = ns(chase(32 << 20, 48));
        assert!((alone / four - 4.0).abs() < 0.5, "{alone} ns alone, {four} by four chains");
        let outstanding = f64::from(small().core.outstanding);
        assert!((alone / many - outstanding).abs() < 0.2 * outstanding, "{alone} ns alone, {many} by 48 chains");
    }

    #[test]
    fn a_stream_of_lines_is_as_fast_as_misses_overlap() {
        let read = ns(LoopSpec::Stream { bytes: 16 << 20, operation: StreamOperation::Read });
        let copy = ns(LoopSpec::Stream { bytes: 16 << 20, operation: StreamOperation::Copy });
        assert!(copy > 1.5 * read, "{copy} and {read}");
    }

    #[test]
    fn what_is_asked_for_beyond_blocks_takes_the_place_of_what_is_read() {
        let stream = |more: &[&str]| {
            let small = ["machine.llc.size=1.375 MiB", "machine.llc.slices=1", "machine.l2.size=256 KiB"];
            let stream =
                ["machine.prefetcher.kind=stream", "machine.prefetcher.degree=4", "machine.prefetcher.streams=16"];
            machine(&[&small[..], &stream, &["machine.prefetcher.distance=16"], more].concat())
        };
        let reads = |machine: &MachineSpec, apart| {
            let blocks = LoopSpec::Blocks { bytes: 1400 * apart, block: 512, apart };
            run(machine, &blocks, 1).unwrap().dram_reads
        };
        let with = |waiting| stream(&["machine.core.outstanding_prefetches=16", waiting]);
        // Nearly all are dropped where one may wait.
        let [dropped, waited] = ["machine.core.waiting_prefetches=1", "machine.core.waiting_prefetches=64"].map(with);
        let none = small();
        // 1,400 blocks of 512 bytes are half of the LLC; with sixteen lines behind each they are half as large again as it is.
        assert!(reads(&none, 2368) < 0.01 && reads(&waited, 512) < 0.01);
        let [few, many] = [dropped, waited].map(|machine| reads(&machine, 2368));
        assert!(1.4 * few < many && many > 0.1, "{few} {many}");
    }

    #[test]
    fn loops_that_cannot_be_say_why() {
        let said = |text: &str| run_json(&machine(&[]), text, 1).unwrap_err().to_string();
        assert!(said(r#"[{"kind": "chase", "bytes": 10}]"#).contains("allowed are 4096"));
        assert!(said(r#"[{"kind": "chase", "bytes": 8192, "chains": 65}]"#).contains("allowed are 1 to 64"));
        assert!(said(r#"[{"kind": "chas", "bytes": 10}]"#).contains("unknown variant"));
        assert!(said(r#"[{"kind": "copy", "bytes": 8192, "block": 0}]"#).contains("half of bytes"));
        assert!(said(r#"[{"kind": "blocks", "bytes": 8192, "block": 64, "apart": 100}]"#).contains("multiples of 64"));
        assert!(said(r#"[{"kind": "blocks", "bytes": 8192, "block": 256, "apart": 128}]"#).contains("up to apart"));
        assert!(said(r#"[{"kind": "forward", "size": 9000}]"#).contains("size"));
    }

    #[test]
    fn a_cycle_visits_every_place_once() {
        let order = cycle(1000, &mut Pcg64::seed_from_u64(1));
        let (mut seen, mut here) = (vec![false; 1000], 0usize);
        for _ in 0..1000 {
            assert!(!std::mem::replace(&mut seen[here], true));
            here = order[here] as usize;
        }
        assert_eq!(here, 0);
    }
}
