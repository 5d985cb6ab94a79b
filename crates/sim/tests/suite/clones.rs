//! A server that is cloned in the middle, or written and put into another: all of them go on as one that nobody
//! interrupted, packet by packet and counter by counter, and none sees what the others do.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use engine::Seed;
use sim::load::{Loaded, Stock, load};
use sim::run::steer::Steer;
use sim::scenario::{SCENARIOS, find};
use sim::server::{Departure, DepartureObserver, PacketFate, Pause, Server, belonging};
use sim::{Overrides, Scenario, ScenarioError};
use stats::Attribution;
use traffic::Source;
use units::{CoreId, PacketId, Ps};

/// Packets of a run: caches and rings are in use, and some are lost where any are.
const PACKETS: u64 = 3_000;
/// Events between two looks at the policy.
pub(super) const EVENTS: usize = 500;

/// Small enough for a test, large enough for misses in the LLC.
const SMALL: &[&str] = &[
    "function.forward.prefixes=2000",
    "traffic.flows.count=500",
    "traffic.flows.new_share=0.01",
    "mempool.size=8192",
    "mempool.cache=32",
    "nic.rx_descriptors=128",
    "machine.llc.size=\"1408 KiB\"",
    "machine.llc.slices=1",
    "machine.cores=3",
];

/// A shipped scenario, and what is changed of it.
const CASES: &[(&str, &[&str])] = &[
    ("forwarding", &["machine.core.model=window", "traffic.load=0.5"]),
    ("forwarding", &["traffic.load=1.0", "machine.core.frequency=\"0.8 GHz\"", "traffic.arrivals=poisson"]),
    (
        "forwarding",
        &["traffic.phases=[{ time = \"5 us\", rate = 3.0 }, { time = \"20 us\", rate = 1.0, sizes = \"imix\" }]"],
    ),
    (
        "forwarding",
        &["neighbours=[{ kind = \"control\", statistics_interval = \"2 us\", routes = 2e6 }]", "traffic.load=0.4"],
    ),
    ("upf", &["function.upf.load.ues=60", "function.upf.load.pdrs=4", "function.upf.processing.flow_table=64"]),
    ("router-chain", &["function.inspect.depth=64", "traffic.load=0.3"]),
    ("nat", &["function.nat.sessions=256", "traffic.load=0.6"]),
    ("classify", &[]),
    ("inspect", &[]),
    ("vhost", &["function.copy.buffers=7", "function.copy.reads=100", "machine.copy_table={}"]),
    ("vhost", &["machine.copy_engine={ by = \"dma\" }", "traffic.load=0.4"]),
    (
        "vhost",
        &[
            "machine.copy_engine={ by = \"dma\" }",
            "machine.dram.controller={}",
            "machine.dram.standard=ddr4-2400u",
            "traffic.load=0.4",
        ],
    ),
    (
        "vhost",
        &[
            "machine.copy_engine={ by = \"non-temporal\" }",
            "machine.dram.controller={}",
            "machine.dram.standard=ddr4-2400u",
            "machine.llc.io_ways=0",
            "traffic.load=0.4",
        ],
    ),
    ("socket", &["function.socket.sessions=16", "function.socket.socket=\"32 KiB\""]),
    (
        "forwarding",
        &[
            "pipeline.rx_cores=1",
            "pipeline.queue=64",
            "traffic.load=0.9",
            "neighbours=[{ working_set = \"4 MiB\", every = \"20 ns\", period = \"3 us\", busy = 0.5 }]",
        ],
    ),
    (
        "forwarding",
        &[
            "pipeline.rx_cores=1",
            "traffic.load=0.8",
            "policy={ kind = \"allocator\", interval = \"20 us\", noise = 0.1, missing = 0.1, lag = 1 }",
        ],
    ),
    ("forwarding", &["machine.dram.controller={}", "machine.dram.standard=ddr4-2400u", "machine.llc.io_ways=0"]),
    (
        "forwarding",
        &[
            "machine.dram.controller.page=closed",
            "machine.dram.channels=1",
            "machine.dram.standard=ddr4-2400u",
            "nic.output_block=4",
            "nic.cache_cells=8",
            "neighbours=[{ working_set = \"4 MiB\", every = \"50 ns\" }]",
            "traffic.load=0.6",
        ],
    ),
    (
        "forwarding",
        &["buffer.size=\"256 KiB\"", "buffer.allocation=piecewise", "nic.output_block=2", "traffic.load=0.9"],
    ),
    ("forwarding", &["machine.sockets={ count = 2, hop = \"50 ns\", rate = \"100 Gbps\" }", "machine.cores=4"]),
    ("forwarding", &["machine.iommu={ iotlb_entries = 16, walks = 1 }", "nic.output_block=4", "traffic.load=0.6"]),
    (
        "forwarding",
        &[
            "machine.iommu={ iotlb_entries = 32 }",
            "machine.dram.controller={}",
            "machine.dram.standard=ddr4-2400u",
            "machine.llc.io_ways=0",
            "nic.pcie.credits=\"8 KiB\"",
        ],
    ),
    ("forwarding", &["machine.iommu={ mode = \"strict\", iotlb_entries = 32 }", "mempool.element=\"4096 B\""]),
    (
        "forwarding",
        &["machine.iommu={ mode = \"lazy\", flush_unmaps = 40 }", "nic.driver=\"i40e\"", "traffic.load=0.6"],
    ),
    (
        "forwarding",
        &[
            "machine.gpu={ preset = \"jetson-orin\", attached = \"discrete\" }",
            "machine.gpu.shaders.cores=8",
            "machine.gpu.batch=200",
            "machine.gpu.launch=\"2 us\"",
        ],
    ),
    (
        "forwarding",
        &[
            "machine.gpu.preset=jetson-orin",
            "machine.gpu.attached=integrated",
            "machine.gpu.shaders.cores=8",
            "machine.gpu.above=40",
            "machine.gpu.timeout=\"10 us\"",
            "traffic.load=0.9",
        ],
    ),
    (
        "forwarding",
        &[
            "machine.gpu.preset=jetson-orin",
            "machine.gpu.attached=integrated",
            "machine.gpu.shaders.cores=8",
            "machine.gpu.timeout=\"10 us\"",
            "machine.dram.controller={}",
            "machine.dram.standard=ddr4-2400u",
            "machine.llc.io_ways=0",
            "traffic.load=0.6",
        ],
    ),
    (
        "forwarding",
        &[
            "machine.gpu.preset=jetson-orin",
            "machine.gpu.attached=integrated",
            "machine.gpu.coherent=false",
            "machine.gpu.shaders.cores=8",
            "machine.gpu.timeout=\"10 us\"",
            "machine.dram.controller={}",
            "machine.dram.standard=ddr4-2400u",
            "traffic.load=0.6",
        ],
    ),
    (
        "forwarding",
        &[
            "machine.gpu={ preset = \"jetson-orin\", attached = \"discrete\" }",
            "machine.gpu.shaders.cores=8",
            "machine.gpu.batch=200",
            "machine.dram.controller={}",
            "machine.dram.standard=ddr4-2400u",
            "machine.llc.io_ways=0",
        ],
    ),
    (
        "forwarding",
        &[
            "machine.gpu={ preset = \"jetson-orin\", posting = \"persistent\" }",
            "machine.gpu.shaders.cores=8",
            "machine.dram.controller={}",
            "machine.dram.standard=ddr4-2400u",
            "machine.llc.io_ways=0",
            "traffic.load=0.6",
        ],
    ),
    (
        "forwarding",
        &[
            "machine.gpu={ preset = \"jetson-orin\", posting = \"persistent\", attached = \"discrete\", fifo = 64 }",
            "machine.gpu.shaders.cores=8",
            "machine.gpu.results=verdicts",
            "machine.dram.controller={}",
            "machine.dram.standard=ddr4-2400u",
            "machine.llc.io_ways=0",
            "traffic.load=0.6",
        ],
    ),
    ("forwarding", &["nic.driver=\"mlx5\"", "nic.rings=shared", "nic.rx_descriptors=512", "traffic.load=0.8"]),
    (
        "forwarding",
        &[
            "nic.driver=\"mlx5\"",
            "nic.rings=bisected",
            "nic.deliveries=256",
            "nic.drop_dead=true",
            "nic.targets={ descriptors = \"l2\", header = \"l2\", payload = \"memory\" }",
            "traffic.flows.popularity={ zipf = 1.2 }",
            "traffic.load=0.9",
        ],
    ),
    (
        "forwarding",
        &[
            "nic.elastic={}",
            "nic.payload_memory={ size = \"64 KiB\" }",
            "nic.rx_descriptors=64",
            "mempool.start={ stagger = 1 }",
            "traffic.load=1.0",
            "machine.core.frequency=\"0.9 GHz\"",
        ],
    ),
    (
        "forwarding",
        &[
            "nic.elastic={ rate = \"100 Gbps\", credits = { total = 40, idle = \"5 us\", batch = 8 } }",
            "traffic.flows.popularity={ zipf = 1.2 }",
            "traffic.load=1.0",
            "machine.core.frequency=\"0.9 GHz\"",
        ],
    ),
    ("forwarding", &["machine.stacked.memory.channels=8", "mempool.shuffled=true", "mempool.kind=lifo"]),
];

/// A packet's end, whole.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct End {
    pub packet: PacketId,
    pub arrival: Ps,
    pub frame_bytes: u32,
    pub core: CoreId,
    pub fate: PacketFate,
    pub sojourn: Ps,
    pub attribution: Attribution,
}

impl End {
    /// When the last was heard of it.
    pub fn at(&self) -> Ps {
        self.arrival + self.sojourn
    }
}

#[derive(Clone, Default)]
pub(super) struct Ends(pub Vec<End>);

impl DepartureObserver for Ends {
    fn departure(&mut self, d: &Departure) {
        let Departure { packet, arrival, frame_bytes, core, fate, sojourn, attribution } = *d;
        self.0.push(End { packet, arrival, frame_bytes, core, fate, sojourn, attribution: *attribution });
    }
}

/// A simulation under way: the server, what has left it, and the policy that steers it.
#[derive(Clone)]
pub(super) struct Run {
    pub server: Server,
    pub ends: Ends,
    steer: Option<Steer>,
    /// From after which packet to after which one the server goes the functional way.
    pub functional: Range<u64>,
}

fn scenario((name, set): (&str, &[&str])) -> Scenario {
    let set = SMALL.iter().chain(set).map(|s| s.to_string()).collect();
    let preset = find(SCENARIOS, name).unwrap();
    Scenario::read(preset.text, preset.name, &Overrides { set, ..Overrides::default() }).unwrap()
}

fn loaded(scenario: &Scenario) -> Loaded {
    load(std::slice::from_ref(scenario), &Arc::new(Stock::new()), &mut |_| true).unwrap().remove(0)
}

/// What arrives.
pub(super) fn source(scenario: &Scenario, loaded: &Loaded) -> Source {
    let mut source = loaded.blueprint.source(7, &scenario.traffic.offered(scenario.nic.rate)).unwrap();
    source.rotate(3);
    source
}

impl Run {
    fn new(scenario: &Scenario, loaded: &Loaded) -> Run {
        Run::of(scenario, loaded, PACKETS).unwrap()
    }

    /// Of so many packets.
    ///
    /// # Errors
    /// A server that cannot be.
    pub fn of(scenario: &Scenario, loaded: &Loaded, packets: u64) -> Result<Run, ScenarioError> {
        let seed = Seed(scenario.run.seed);
        let source = source(scenario, loaded);
        Ok(Run {
            server: Server::new(scenario, loaded.function.clone(), source, packets, seed)?,
            ends: Ends::default(),
            steer: Steer::new(scenario, seed)?,
            functional: 0..0,
        })
    }

    /// Handles up to `events` events.
    pub fn advance(&mut self, events: usize) -> bool {
        let at = self.steer.as_ref().map_or(Ps::MAX, Steer::next);
        let Range { start, end } = self.functional;
        let now = self.server.offered();
        self.server.set_functional(self.functional.contains(&now));
        let offered = [start, end].into_iter().filter(|&turn| turn > now).min().unwrap_or(u64::MAX);
        let more = self.server.advance(events, Pause { offered, at }, &mut self.ends);
        if let Some(steer) = &mut self.steer
            && (self.server.is_paused() || !more)
            && self.server.now() >= steer.next()
        {
            steer.step(&mut self.server);
        }
        more
    }

    pub fn finish(mut self) -> Run {
        while self.advance(EVENTS) {}
        self
    }

    /// All that can be seen of it from outside, in words.
    fn look(&self) -> Vec<String> {
        let (server, memory) = (&self.server, self.server.memory());
        let classes: Vec<_> = (0..16).map(|clos| memory.class(units::Clos(clos))).collect();
        vec![
            format!("{:?}", (server.now(), server.offered(), server.lost(), server.last_departure())),
            format!("{:?}", (server.cores(), server.mbufs(), server.ring_occupancy())),
            format!("{:?}", (server.members(), server.flow_tables())),
            format!("{:?}", (server.neighbours(), server.llc_lines(), server.buffer(), server.buffer_held())),
            format!("{:?}", server.gpu()),
            format!("{:?}", (server.pcie_bytes(), server.pcie_carried())),
            format!("{:?}", (memory.counters(), memory.slices(), classes, memory.io_ways())),
            format!("{:?}", (memory.copy_counters(), memory.engine_counters(), memory.applications())),
            format!("{:?}", (memory.dram_counters(), memory.dram_work(server.now()), memory.dram_report(server.now()))),
            format!("{:?}", (memory.socket_counters(), memory.snoop_counters(), memory.stack_counters())),
            format!("{:?}", (memory.tails(), memory.tail_lines(), memory.iommu_counters())),
            format!("{:?}", self.steer.clone().map(Steer::into_history)),
        ]
    }

    /// That nobody can tell it from `other`.
    pub fn is_as(&self, other: &Run, what: &str) {
        assert_eq!(self.ends.0.len(), other.ends.0.len(), "{what}: packets that have ended");
        for (own, others) in self.ends.0.iter().zip(&other.ends.0) {
            assert_eq!(own, others, "{what}: a packet's end");
        }
        for (own, others) in self.look().iter().zip(&other.look()) {
            assert_eq!(own, others, "{what}");
        }
    }
}

/// How many events `run` has to its end, in steps of `EVENTS`.
fn steps(mut run: Run) -> usize {
    let mut steps = 0;
    while run.advance(EVENTS) {
        steps += 1;
    }
    steps
}

/// A scenario under way: what it is, and what its runs begin with.
struct Case {
    what: String,
    scenario: Scenario,
    loaded: Loaded,
}

impl Case {
    fn new(what: String, scenario: Scenario) -> Case {
        let loaded = loaded(&scenario);
        Case { what, scenario, loaded }
    }

    fn start(&self) -> Run {
        Run::new(&self.scenario, &self.loaded)
    }

    fn belonging(&self) -> String {
        belonging(&self.scenario, &self.loaded.inputs, Seed(self.scenario.run.seed))
    }

    /// `run` through bytes into `other`, which has been built for itself; the policy is cloned.
    fn through_bytes(&self, run: &Run, other: Run) -> Run {
        let bytes = run.server.save(&self.belonging()).unwrap();
        let mut other =
            Run { ends: run.ends.clone(), steer: run.steer.clone(), functional: run.functional.clone(), ..other };
        other.server.resume(&self.belonging(), &bytes).unwrap();
        assert!(other.server.save(&self.belonging()).unwrap() == bytes, "{}: written again", self.what);
        other
    }

    /// Original, clone, and what went through bytes, parted after a third and after two thirds, end as a whole run.
    fn parts_well(&self) {
        self.run_parts_well(self.start(), &[(1, true), (2, false)]);
    }

    /// As [`Case::parts_well`], parted after so many thirds and put into a new server or into one that has run. How often `start`
    /// was parted while it went the functional way.
    fn run_parts_well(&self, start: Run, parts: &[(usize, bool)]) -> u32 {
        let (what, mut parted_without_time) = (&self.what, 0);
        let whole = start.clone().finish();
        assert_eq!(whole.ends.0.len() as u64, PACKETS, "{what}");
        let end = whole.server.save(&self.belonging()).unwrap();
        let steps = steps(start.clone());
        assert!(steps > 6, "{what}: {steps} steps");
        let mut elsewhere = start.clone();
        (0..steps / 2).for_each(|_| _ = elsewhere.advance(EVENTS));
        for &(thirds, is_new) in parts {
            let part = thirds * steps / 3;
            let mut original = start.clone();
            for _ in 0..part {
                // Not where the run without a break stops.
                assert!(original.advance(EVENTS - 1));
            }
            let other = if is_new { self.start() } else { elsewhere.clone() };
            parted_without_time += u32::from(start.functional.contains(&original.server.offered()));
            let (clone, written) = (original.clone(), self.through_bytes(&original, other));
            for (which, run) in [("the original", original), ("the clone", clone)] {
                run.finish().is_as(&whole, &format!("{what}: {which} from step {part} on"));
            }
            let written = written.finish();
            written.is_as(&whole, &format!("{what}: bytes from step {part} on, in a new server: {is_new}"));
            let state = written.server.save(&self.belonging()).unwrap();
            assert!(state == end, "{what}: the state at the end of bytes from step {part} on");
        }
        parted_without_time
    }
}

#[test]
fn all_go_on_as_if_nothing_had_been() {
    for (name, set) in CASES {
        Case::new(format!("{name} {set:?}"), scenario((name, set))).parts_well();
    }
}

/// Every packet ends once, and the coarse clock is part of the state.
#[test]
fn all_go_on_in_a_stretch_without_time_as_if_nothing_had_been() {
    let mut parted = 0;
    for (name, set) in CASES {
        let case = Case::new(format!("{name} {set:?}, functional"), scenario((name, set)));
        let mut start = case.start();
        start.functional = PACKETS / 10..PACKETS * 9 / 10;
        parted += case.run_parts_well(start, &[(1, true)]);
    }
    // Where cores are overloaded all has been offered by then.
    assert!(parted as usize > CASES.len() / 2, "{parted} of {}", CASES.len());
}

/// A pcap of UDP packets to 50 addresses in turn, at times of their own, `n` of them.
fn capture(n: u32) -> Vec<u8> {
    let mut out = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
    for i in 0..n {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, (i * i % 50) as u8]);
        frame.extend([0; 26]);
        out.extend([[0; 4], (i * 10 + i % 7).to_le_bytes(), 60u32.to_le_bytes(), 60u32.to_le_bytes()].concat());
        out.extend(frame);
    }
    out
}

#[test]
fn all_go_on_in_a_capture() {
    let path: PathBuf = std::env::temp_dir().join(format!("wirespeed-clones-{}.pcap", std::process::id()));
    std::fs::write(&path, capture(500)).unwrap();
    for own in ["traffic.speed=2000", "traffic.load=0.3"] {
        // A capture brings its own flows.
        let small = SMALL.iter().filter(|s| !s.starts_with("traffic.flows"));
        let set = small.chain(&[own]).map(|s| s.to_string()).collect();
        let overrides = Overrides { set, capture: Some(path.clone()), ..Overrides::default() };
        let scenario = Scenario::read("", "test", &overrides).unwrap();
        Case::new(own.into(), scenario).parts_well();
    }
    std::fs::remove_file(&path).unwrap();
}

/// Of a scenario, after some packets.
fn under_way(set: &[&str]) -> (Case, Run) {
    let case = Case::new("told".into(), scenario(("forwarding", set)));
    let mut run = case.start();
    (0..10).for_each(|_| _ = run.advance(EVENTS));
    (case, run)
}

#[test]
fn a_state_of_another_scenario_seed_or_version_is_refused_and_changes_nothing() {
    let (case, run) = under_way(&[]);
    let of = case.belonging();
    let bytes = run.server.save(&of).unwrap();
    for set in
        ["machine.cores=2", "traffic.load=0.31", "run.seed=9", "machine.llc.ways=8", "function.forward.prefixes=1999"]
    {
        let other = Case::new(set.into(), scenario(("forwarding", &[set])));
        let mut server = other.start().server;
        let before = server.save("").unwrap();
        let told = server.resume(&other.belonging(), &bytes).unwrap_err().to_string();
        assert!(told.starts_with(&format!("the state is of {of}: allowed is one of ")), "{set}: {told}");
        assert!(server.save("").unwrap() == before, "{set}: nothing has changed");
    }
    // How long it runs and what it is called is not the server's.
    for set in ["run.packets=7000", "name=\"other\"", "policy.kind=shared"] {
        let other = Case::new(set.into(), scenario(("forwarding", &[set])));
        let end = |of: String| of[of.rfind('(').unwrap()..].to_string();
        assert_eq!(end(other.belonging()), end(case.belonging()), "{set}");
    }
    // Who is told that it belongs, and has built another: what differs is said.
    let told = |set: &[&str]| {
        let mut server = Case::new("other".into(), scenario(("forwarding", set))).start().server;
        server.resume(&of, &bytes).unwrap_err().to_string()
    };
    assert!(told(&["machine.cores=2"]).contains("has 3 for the parts of"), "{}", told(&["machine.cores=2"]));
    assert!(told(&["function.kind=nat"]).contains("for the name of the packet function"));
    assert!(told(&["machine.core.rob=100"]).contains("for the values of"));
}

#[test]
fn no_bytes_make_a_server_panic() {
    let (case, run) =
        under_way(&["nic.output_block=4", "machine.dram.controller={}", "machine.dram.standard=ddr4-2400u"]);
    let of = case.belonging();
    let bytes = run.server.save(&of).unwrap();
    let mut server = case.start().server;
    let mut told = |bytes: &[u8]| server.resume(&of, bytes).unwrap_err().to_string();
    assert!(told(b"").contains("nothing: it is empty"));
    assert!(told(b"wirespeed 1\n").contains("allowed is what wirespeed has written as a state"));
    for at in (0..bytes.len()).step_by(bytes.len() / 60) {
        assert!(!told(&bytes[..at]).is_empty());
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(!told(&changed).is_empty(), "at {at}");
    }
}
