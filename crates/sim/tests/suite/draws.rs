//! Whole scenarios that are drawn: functions, rings and techniques of NICs, machines, policies, neighbours, a GPU. Of each run packets
//! are conserved, sojourns are accounted for, packets of a flow leave in order, a clone goes on as its original, and threads change
//! nothing.
//!
//! What a scenario may not have is refused by its own checks, by `sim/src/scenario/exclusions.rs` above all: a draw that is refused is drawn again, and counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use packet::{FiveTuple, Packet, layers};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};
use sim::load::{Loaded, Stock, load};
use sim::server::PacketFate;
use sim::{Overrides, RunOptions, Scenario, run, summary};
use units::{PacketId, Ps};

use super::clones::{EVENTS, End, Run, source};
use super::run::without_host;

/// Packets of a run.
const PACKETS: u64 = 1_000;

/// Small enough for thousands, large enough for misses in the LLC.
const SMALL: &[&str] = &[
    "function.forward.prefixes=2000",
    "traffic.flows.count=300",
    "traffic.flows.new_share=0.01",
    "mempool.size=4096",
    "mempool.cache=32",
    "nic.rx_descriptors=128",
    "nic.tx_descriptors=128",
    "machine.llc.size=\"704 KiB\"",
    "machine.llc.slices=1",
    "machine.l2.size=\"64 KiB\"",
    "machine.cores=2",
    "run.packets=1000",
    "run.warmup=300",
];

/// What a setting may be: nothing, or one of these; each is a few settings.
type Choice = &'static [&'static [&'static str]];

const CHOICES: &[Choice] = &[
    // The function.
    &[
        &["function.kind=check"],
        &["function.kind=lookup", "function.lookup.structure=poptrie"],
        &["function.kind=ttl"],
        &["function.kind=fragment", "function.fragment.mtu=600"],
        &["function.kind=nat", "function.nat.sessions=256"],
        &["function.kind=work", "function.work.packet_instructions=500"],
        &["function.kind=inspect", "traffic.payload=text"],
        &["function.kind=upf", "function.upf.load.ues=60", "function.upf.load.pdrs=4"],
        &["function.kind=chain", "function.chain=[\"check\", \"lookup\", \"ttl\"]"],
        &["function.kind=chain", "function.chain=[\"check\", \"nat\", \"ttl\"]", "function.nat.sessions=512"],
        &["function.copy.reads=100"],
        &["function.copy.buffers=7", "function.copy.offset=12"],
        &["function.socket.sessions=16", "function.socket.socket=\"32 KiB\""],
    ],
    // What arrives.
    &[&["traffic.load=0.05"], &["traffic.load=0.9"], &["traffic.load=1.0", "machine.core.frequency=\"0.8 GHz\""]],
    &[
        &["traffic.arrivals=poisson"],
        &["traffic.arrivals={on_off={on=\"1 us\", off=\"2 us\"}}"],
        &["traffic.phases=[{ time = \"5 us\", rate = 3.0 }, { time = \"20 us\", rate = 1.0, sizes = \"imix\" }]"],
        &["traffic.flows.popularity={ zipf = 1.2 }"],
    ],
    &[&["traffic.sizes={fixed=\"64 B\"}"], &["traffic.sizes={fixed=\"1518 B\"}"], &["traffic.sizes={fixed=\"300 B\"}"]],
    // The NIC, and its driver.
    &[
        &["nic.driver=\"mlx5\""],
        &["nic.driver=\"mlx5-compressed\""],
        &["nic.driver=\"i40e\""],
        &["nic.driver=\"ixgbe\""],
        &["nic.driver=\"vpp-rdma\""],
        &["nic.driver=\"xdp-i40e\""],
    ],
    &[
        &["nic.driver=\"mlx5\"", "nic.rings=shared", "nic.rx_descriptors=512"],
        &["nic.driver=\"mlx5\"", "nic.rings=bisected", "nic.deliveries=256"],
        &["nic.driver=\"mlx5\"", "nic.rings=bisected"],
    ],
    &[
        &["nic.elastic={}"],
        &["nic.elastic={ memory = \"16 KiB\", fetch = \"300 ns\" }"],
        &["nic.elastic.credits={ total = 16, batch = 4 }"],
        &["nic.elastic={ rate = \"20 Gbps\", credits = { total = 50, idle = \"2 us\" } }"],
        &["nic.elastic={ memory = \"16 KiB\", credits = { total = 1, idle = \"0 ns\", batch = 1 } }"],
    ],
    &[&["nic.drop_dead=true"]],
    &[
        &["nic.payload_memory={ size = \"64 KiB\" }"],
        &["nic.payload_memory={ size = \"1 MiB\", header_lines = 1, read = \"200 ns\" }"],
    ],
    &[
        &["nic.targets={ descriptors = \"l2\", header = \"l2\", payload = \"memory\" }"],
        &["nic.targets={ header = \"l2\", header_lines = 4, payload = \"l2\" }"],
        &["nic.targets={ descriptors = \"memory\" }"],
    ],
    &[
        &["nic.pcie.credits=\"8 KiB\""],
        &["nic.pcie.credits=\"2 KiB\"", "nic.pcie.rate=\"20 Gbps\""],
        &["nic.fifo=\"4 KiB\""],
    ],
    &[&["nic.output_block=4", "nic.cache_cells=8"], &["nic.output_block=1"], &["nic.cache_cells=4"]],
    &[&["nic.queues_per_core=2"], &["nic.burst=4"], &["nic.rx_descriptors=32", "nic.tx_descriptors=64"]],
    &[&["nic.ports=1"], &["nic.ports=2"]],
    &[&["nic.doorbell=\"100 ns\"", "nic.doorbell_interval=\"200 ns\""], &["nic.refill=written", "nic.fast_free=true"]],
    // Where packets lie.
    &[&["mempool.kind=lifo"], &["mempool.shuffled=true"], &["mempool.cache=0"], &["mempool.start={ stagger = 1 }"]],
    &[
        &["buffer.size=\"256 KiB\"", "buffer.allocation=piecewise"],
        &["buffer.size=\"1 MiB\"", "buffer.allocation=cells", "buffer.shuffled=true"],
        &["buffer.size=\"1 MiB\"", "buffer.allocation=linear", "buffer.pools=2"],
        &["buffer.size=\"1 MiB\"", "buffer.allocation=fixed"],
    ],
    // The machine.
    &[&["machine.cores=1"], &["machine.cores=3"], &["machine.cores=3", "pipeline.rx_cores=1", "pipeline.queue=64"]],
    &[&["machine.core.model=in_order"], &["machine.core.model=window"]],
    &[&["machine.llc.inclusion=inclusive"], &["machine.llc.inclusion=victim"], &["machine.llc.replacement=age"]],
    &[
        &["machine.llc.io_ways=0"],
        &["machine.llc.io_ways=1"],
        &["machine.llc.inclusive_ways=1", "machine.llc.inclusion=victim"],
        &["machine.llc.inclusive_ways=0b1100", "machine.llc.io_ways=2"],
        &["machine.llc.core_ways=2"],
        &["machine.clos.0={ways=2}"],
        &["machine.clos.1={ways=2, bandwidth=\"1 GB/s\"}"],
    ],
    &[
        &["machine.llc.interconnect={ topology = \"ring\", hop = \"0.5 ns\" }"],
        &["machine.llc.coherence=snoop", "machine.llc.interconnect={ topology = \"bus\", hop = \"1 ns\" }"],
        &["machine.sockets={ count = 2, hop = \"50 ns\", rate = \"100 Gbps\" }", "machine.cores=4"],
        &[
            "machine.sockets={ count = 2, hop = \"50 ns\", rate = \"100 Gbps\", memory = \"interleaved\" }",
            "machine.cores=4",
        ],
    ],
    &[
        &["machine.dram.standard=ddr4-2400u", "machine.dram.controller={}"],
        &["machine.dram.standard=ddr5-6400b", "machine.dram.channels=1", "machine.dram.controller.page=closed"],
        &["machine.dram.standard=hbm2-2000", "machine.dram.controller.refresh=per-bank"],
        &["machine.dram.standard=ddr5-5600b", "machine.dram.channels=1", "machine.dram.controller.refresh=same-bank"],
        &["machine.dram.standard=ddr3-1600k", "machine.dram.channels=1", "machine.dram.controller.order=fcfs"],
        &[
            "machine.dram.standard=ddr4-2400u",
            "machine.dram.controller={order=\"batch=direction/4/2\", page=\"adaptive=64\"}",
        ],
        &[
            "machine.dram.standard=ddr4-3200aa",
            "machine.dram.channels=1",
            "machine.dram.controller.order=batch=bank-parity/1/2",
        ],
        &["machine.dram.standard=sdram-100-4", "machine.dram.channels=1", "machine.dram.controller.order=fcfs=4"],
        &["machine.dram.standard=hmc-2.1-vault", "machine.dram.controller={}"],
    ],
    &[
        &["machine.dram.all_hits=true"],
        &["machine.dram.controller.output_first=true", "machine.dram.standard=ddr4-2400u"],
        &["machine.dram.controller.halves=512 KiB", "machine.dram.standard=ddr4-2400u", "machine.dram.channels=1"],
    ],
    &[
        &["machine.iommu={ iotlb_entries = 16, walks = 1 }"],
        &["machine.iommu={ mode = \"strict\", iotlb_entries = 32 }", "mempool.element=\"4096 B\""],
        &["machine.iommu={ mode = \"lazy\", flush_unmaps = 40 }"],
    ],
    &[
        &["machine.copy_table={}", "function.copy.reads=200"],
        &["machine.copy_engine={ by = \"dma\" }", "function.copy.reads=200"],
        &["machine.copy_engine={ by = \"non-temporal\" }", "function.copy.reads=20"],
        &["machine.copy_engine={ by = \"controller\", retires = \"async\" }", "function.copy.reads=200"],
    ],
    &[&["machine.stacked.memory.channels=8"]],
    &[
        &["machine.applications.tables.bypass=true"],
        &["machine.applications.tables.llc=false"],
        &["machine.applications.tables.ways=2"],
    ],
    &[&["machine.prefetcher={kind=\"next_line\", degree=1}"]],
    // A GPU.
    &[
        &["machine.gpu.attached=discrete", "machine.gpu.overlap=serial"],
        &["machine.gpu.attached=discrete", "machine.gpu.results=verdicts", "machine.gpu.share=0.5"],
        &["machine.gpu.attached=integrated"],
        &["machine.gpu.attached=integrated", "machine.gpu.above=20", "traffic.load=0.9"],
        &["machine.gpu.attached=integrated", "machine.gpu.coherent=false"],
        &[
            "machine.gpu.attached=discrete",
            "machine.gpu.posting=persistent",
            "machine.gpu.batch=32",
            "machine.gpu.fifo=32",
        ],
        &[
            "machine.gpu.attached=integrated",
            "machine.gpu.posting=persistent",
            "machine.gpu.batch=8",
            "machine.gpu.fifo=64",
            "machine.gpu.timeout=\"1 us\"",
            "machine.gpu.share=0.7",
        ],
    ],
    // Who else is there.
    &[
        &["neighbours=[{ working_set = \"4 MiB\", every = \"20 ns\" }]"],
        &["neighbours=[{ working_set = \"1 MiB\", every = \"20 ns\", period = \"3 us\", busy = 0.5, cores = 2 }]"],
        &["neighbours=[{ kind = \"control\", statistics_interval = \"2 us\" }]"],
        &["neighbours=[{ kind = \"control\", statistics_interval = \"2 us\", routes = 2e6 }]"],
        &["neighbours=[{ kind = \"storage\", rate = \"2 GB/s\", block = \"4 KiB\", queue_depth = 16, dca = false }]"],
        &["neighbours=[{ kind = \"storage\", rate = \"6 GB/s\", block = \"1 KiB\", queue_depth = 3, cores = 2 }, \
             { kind = \"storage\", rate = \"1 GB/s\", cores = 0 }]"],
    ],
    &[
        &["policy={ kind = \"allocator\", interval = \"20 us\", noise = 0.1, missing = 0.1, lag = 1 }"],
        &["policy={ kind = \"iat\", interval = \"10 us\" }"],
        &["policy={ kind = \"thresholds\", interval = \"10 us\" }"],
    ],
    // How it runs.
    &[
        &["run.sampling={windows=30, packets=10, warmup=5, error=1.0}"],
        &["run.sampling={windows=30, packets=10, warmup=5, untimed=10, error=1.0}"],
        &["run.curve=[0.1, 0.9]", "run.curve_packets=1000"],
        &["run.trace={ slowest = 5, losses = 5, every = 100 }"],
    ],
];

/// A GPU of an eighth of an embedded one's shader cores.
const GPU: &[&str] = &[
    "machine.gpu.preset=jetson-orin",
    "machine.gpu.shaders.cores=8",
    "machine.gpu.launch=\"1 us\"",
    "machine.gpu.copy=\"1 us\"",
    "machine.gpu.call=\"0.5 us\"",
    "machine.gpu.timeout=\"20 us\"",
    "machine.gpu.batch=64",
];

#[derive(Clone, Debug)]
struct Draw {
    set: Vec<&'static str>,
    /// Which of [`CHOICES`], and which of its alternatives.
    chosen: Vec<(usize, usize)>,
    seed: u64,
    /// Steps after which it is cloned.
    cloned_after: usize,
    /// Packets that go without time.
    functional: std::ops::Range<u64>,
    /// It is run as a whole as well, on one thread and on two.
    on_threads: bool,
    /// All of the clone's state is compared, which takes longer than the run.
    state: bool,
}

fn draw() -> impl Strategy<Value = Draw> {
    // Most of what there is to choose is left as it is: what is drawn together is then rarely refused.
    let choice = |choice: &Choice| {
        let some = (choice.len() as u32 / 2).max(2);
        prop_oneof![8 => Just(None), some => (0..choice.len()).prop_map(Some)].boxed()
    };
    let choices: Vec<_> = CHOICES.iter().map(choice).collect();
    let functional = prop_oneof![3 => Just(0..0), 1 => Just(PACKETS / 10..PACKETS * 7 / 10)];
    let on_threads = prop_oneof![15 => Just(false), 1 => Just(true)];
    let state = prop_oneof![39 => Just(false), 1 => Just(true)];
    (choices, 0u64..1 << 40, 0usize..12, functional, on_threads, state).prop_map(
        |(chosen, seed, cloned_after, functional, on_threads, state)| {
            let chosen: Vec<(usize, usize)> =
                chosen.into_iter().enumerate().filter_map(|(place, chosen)| Some((place, chosen?))).collect();
            let mut set: Vec<&'static str> = Vec::new();
            for &(choice, alternative) in &chosen {
                let settings = CHOICES[choice][alternative];
                if settings.iter().any(|setting| setting.starts_with("machine.gpu.")) {
                    set.extend(GPU);
                }
                set.extend(settings);
            }
            let runs_as_a_whole = set.iter().any(|setting| setting.starts_with("run."));
            Draw { set, chosen, seed, cloned_after, functional, on_threads: on_threads || runs_as_a_whole, state }
        },
    )
}

static STOCK: LazyLock<Arc<Stock>> = LazyLock::new(|| Arc::new(Stock::new()));

impl Draw {
    /// The scenario and what it has loaded, or why it is refused.
    fn loaded(&self) -> Result<(Scenario, Loaded), String> {
        let seed = format!("run.seed={}", self.seed);
        let set = SMALL.iter().chain(&self.set).map(|s| s.to_string()).chain([seed]).collect();
        let overrides = Overrides { set, ..Overrides::default() };
        let scenario = Scenario::read("", "test", &overrides).map_err(|e| e.to_string())?;
        let loaded = load(std::slice::from_ref(&scenario), &STOCK, &mut |_| true).map_err(|e| e.to_string())?.remove(0);
        Ok((scenario, loaded))
    }
}

/// That packets of a flow leave in the order in which they came.
fn leave_in_order(scenario: &Scenario, loaded: &Loaded, ends: &[End]) -> Result<(), TestCaseError> {
    let (mut source, mut packet, mut flows) = (source(scenario, loaded), Packet::default(), Vec::new());
    while (flows.len() as u64) < PACKETS && source.next(&mut packet) {
        flows.push(layers(&packet.data).ok().map(|layers| layers.five_tuple));
    }
    let mut sent: Vec<_> = ends.iter().filter(|end| matches!(end.fate, PacketFate::Sent(_))).collect();
    sent.sort_by_key(|end| end.at());
    let mut latest: HashMap<FiveTuple, (PacketId, Ps)> = HashMap::new();
    for end in sent {
        let Some(flow) = flows[end.packet.0 as usize] else { continue };
        if let Some((before, at)) = latest.insert(flow, (end.packet, end.at())) {
            prop_assert!(before < end.packet || at == end.at(), "{:?} leaves behind {:?}", end.packet, before);
        }
    }
    Ok(())
}

/// What holds at the end of `run`: packets, mbufs, cells and cached lines are conserved.
fn is_conserved(run: &Run, scenario: &Scenario, is_timed: bool) -> Result<(), TestCaseError> {
    let (server, ends) = (&run.server, &run.ends.0);
    let mut ids: Vec<u64> = ends.iter().map(|end| end.packet.0).collect();
    ids.sort_unstable();
    prop_assert!(ids.into_iter().eq(0..PACKETS), "each packet ends once");
    let mut fates: BTreeMap<&str, u64> = BTreeMap::new();
    for end in ends {
        let name = match end.fate {
            PacketFate::Sent(_) => "sent",
            PacketFate::Rejected(reason) => reason.name(),
            PacketFate::Lost(loss) => loss.name(),
        };
        *fates.entry(name).or_default() += 1;
        if is_timed {
            prop_assert_eq!(end.sojourn, end.attribution.total(), "{:?}: what its sojourn was spent on", end.packet);
        }
    }
    let lost = ends.iter().filter(|end| matches!(end.fate, PacketFate::Lost(_))).count() as u64;
    prop_assert_eq!((server.offered(), server.lost()), (PACKETS, lost), "{:?}", fates);
    prop_assert_eq!(fates.values().sum::<u64>(), PACKETS, "{:?}", fates);
    prop_assert_eq!(
        (server.ring_occupancy(), server.buffer_held(), server.mbufs().queued),
        (0, 0, 0),
        "nothing is inside"
    );
    let mbufs = server.mbufs();
    let somewhere = mbufs.descriptors + mbufs.queued + mbufs.sending + mbufs.free;
    if scenario.buffer.is_none() {
        prop_assert_eq!(somewhere, u64::from(scenario.mempool.size), "every mbuf is somewhere: {:?}", mbufs);
    }
    if let Some(tails) = server.memory().tails() {
        let gone = tails.gathered + tails.bypassed + tails.replaced;
        prop_assert_eq!(tails.written, gone + server.memory().tail_lines(), "{:?}", tails);
    }
    Ok(())
}

/// The run as a whole comes to the same on one thread and on two, and no packet is missing in it.
fn is_the_same_on_threads(scenario: &Scenario) -> Result<(), TestCaseError> {
    let on = |threads: usize| {
        let result = run(scenario, RunOptions { threads, ..RunOptions::default() }, &mut |_| true).unwrap();
        let measure = &result.measured.measure;
        let ended: u64 = measure.lost.values().chain(measure.rejected.values()).sum();
        assert_eq!(measure.offered.packets, measure.carried.packets + ended, "{:?}", measure.lost);
        without_host(summary(&result, "test"))
    };
    prop_assert_eq!(on(1), on(2));
    Ok(())
}

fn holds(draw: &Draw, scenario: &Scenario, loaded: &Loaded) -> Result<(), TestCaseError> {
    let mut run = Run::of(scenario, loaded, PACKETS).map_err(|why| TestCaseError::reject(why.to_string()))?;
    run.functional = draw.functional.clone();
    let (mut clone, mut steps) = (None, 0);
    while run.advance(EVENTS) {
        if steps == draw.cloned_after {
            clone = Some(run.clone());
        }
        steps += 1;
    }
    is_conserved(&run, scenario, draw.functional.is_empty())?;
    if draw.functional.is_empty() {
        leave_in_order(scenario, loaded, &run.ends.0)?;
    }
    if let Some(mut clone) = clone {
        // In other steps, too.
        while clone.advance(37) {}
        clone.is_as(&run, "the clone");
        if draw.state {
            prop_assert!(clone.server.save("").unwrap() == run.server.save("").unwrap(), "the clone's state");
        }
    }
    if draw.on_threads {
        is_the_same_on_threads(scenario)?;
    }
    Ok(())
}

/// Draws until `wanted` scenarios have run.
fn all_hold(wanted: u32, rng: TestRng) {
    // Rarely is more refused than runs.
    let config = ProptestConfig {
        failure_persistence: None,
        max_global_rejects: wanted,
        max_shrink_iters: 200,
        ..ProptestConfig::with_cases(wanted)
    };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let ran = AtomicU64::new(0);
    let (refused, seen) = (Mutex::new(BTreeMap::<String, u64>::new()), Mutex::new(BTreeSet::new()));
    let result = runner.run(&draw(), |draw| {
        let (scenario, loaded) = draw.loaded().map_err(|why| {
            *refused.lock().unwrap().entry(why.clone()).or_default() += 1;
            TestCaseError::reject(why)
        })?;
        let held = holds(&draw, &scenario, &loaded);
        match &held {
            Err(TestCaseError::Reject(why)) => *refused.lock().unwrap().entry(why.to_string()).or_default() += 1,
            _ => {
                let ran = ran.fetch_add(1, Ordering::Relaxed) + 1;
                if ran.is_multiple_of(200) {
                    println!("{ran} of {wanted} scenarios ran");
                }
                seen.lock().unwrap().extend(draw.chosen.iter().copied());
            }
        }
        held
    });
    let refused = refused.into_inner().unwrap();
    let total: u64 = refused.values().sum();
    println!("{} scenarios ran, {total} draws were refused:", ran.load(Ordering::Relaxed));
    let mut most: Vec<_> = refused.into_iter().collect();
    most.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    most.iter().take(30).for_each(|(why, n)| println!("{n:6} {why}"));
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, draw)) => panic!("{why}\n{draw:#?}"),
        Err(TestError::Abort(why)) => panic!("more draws were refused than ran: {why}"),
    }
    // A check that refuses more than it should would leave something out of all this.
    let seen = seen.into_inner().unwrap();
    let never: Vec<_> = (0..CHOICES.len())
        .flat_map(|choice| (0..CHOICES[choice].len()).map(move |alternative| (choice, alternative)))
        .filter(|place| !seen.contains(place))
        .map(|(choice, alternative)| CHOICES[choice][alternative])
        .collect();
    println!("never ran: {never:?}");
    // Of a few hundred draws some are left out by chance.
    assert!(never.len() <= if wanted < 1_000 { FEW } else { 0 }, "{never:?} never ran");
}

/// Alternatives that 200 draws may leave out.
const FEW: usize = 6;

#[test]
fn whatever_a_scenario_has_packets_are_conserved_and_clones_and_threads_change_nothing() {
    all_hold(200, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
}

/// Others each time: a failure says what was drawn. `PROPTEST_CASES` has another number of them.
#[test]
#[ignore = "slow: 5,000 scenarios, for `make test-slow`"]
fn whatever_thousands_of_scenarios_have_packets_are_conserved_and_clones_and_threads_change_nothing() {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(5_000);
    all_hold(wanted, TestRunner::new(ProptestConfig::default()).new_rng());
}

/// Each of these was once drawn, and did not hold.
#[test]
fn what_draws_have_found_stays_mended() {
    let integrated = "machine.gpu.attached=integrated";
    for set in [
        &[integrated, "machine.gpu.batch=73", "machine.gpu.timeout=\"31 us\"", "traffic.load=0.49", "machine.cores=1"]
            [..],
        &[
            integrated,
            "machine.gpu.share=0.28",
            "machine.gpu.batch=38",
            "machine.gpu.timeout=\"18 us\"",
            "traffic.load=0.32",
            "machine.cores=3",
            "machine.llc.inclusion=inclusive",
            "machine.sockets={ count = 2, hop = \"50 ns\", rate = \"100 Gbps\" }",
        ],
        &[
            "machine.cores=1",
            "nic.ports=1",
            "nic.rx_descriptors=32",
            "nic.tx_descriptors=32",
            "nic.burst=1",
            "nic.fifo=\"4 KiB\"",
            "nic.pcie.rate=\"5 Gbps\"",
            "machine.core.frequency=\"0.5 GHz\"",
            "machine.l1.latency=\"1.74 ns\"",
            "machine.l2.latency=\"6.09 ns\"",
            "traffic.load=0.05",
            "traffic.sizes={fixed=\"64 B\"}",
            "machine.llc.io_ways=0xc",
        ],
    ] {
        let gpu = if set.contains(&integrated) { GPU } else { &[] };
        let draw = Draw {
            set: [gpu, set].concat(),
            chosen: Vec::new(),
            seed: 1,
            cloned_after: 2,
            functional: 0..0,
            on_threads: false,
            state: true,
        };
        let (scenario, loaded) = draw.loaded().unwrap();
        holds(&draw, &scenario, &loaded).unwrap_or_else(|why| panic!("{why}: {draw:?}"));
    }
}
