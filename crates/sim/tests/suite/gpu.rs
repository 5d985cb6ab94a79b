//! A GPU in the machine: packets are conserved, leave in order of their flow, and what their time is spent on sums to it, whatever
//! else the machine has; `draws` has that with all there is.

use std::collections::HashMap;
use std::sync::Arc;

use engine::Seed;
use packet::{FiveTuple, Packet, layers};
use sim::load::{Loaded, Stock, load};
use sim::server::{Departure, DepartureObserver, Loss, PacketFate, Pause, Server};
use sim::{Overrides, Scenario};
use stats::Reason;
use units::Ps;

/// Small enough for a test: an eighth of the shader cores of an embedded GPU.
const SMALL: &[&str] = &[
    "function.forward.prefixes=2000",
    "traffic.flows.count=500",
    "traffic.flows.new_share=0.01",
    "traffic.load=0.3",
    "mempool.size=16384",
    "mempool.cache=32",
    "machine.cores=2",
];

/// A small GPU beside it.
const GPU: &[&str] = &[
    "machine.gpu.preset=jetson-orin",
    "machine.gpu.shaders.cores=8",
    "machine.gpu.launch=\"1 us\"",
    "machine.gpu.copy=\"1 us\"",
    "machine.gpu.call=\"0.5 us\"",
    "machine.gpu.timeout=\"20 us\"",
    "machine.gpu.batch=128",
];

fn read(set: &[&str]) -> Result<Scenario, String> {
    let set = SMALL.iter().chain(GPU).chain(set).map(|s| s.to_string()).collect();
    Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).map_err(|e| e.to_string())
}

fn loaded(scenario: &Scenario) -> Loaded {
    load(std::slice::from_ref(scenario), &Arc::new(Stock::new()), &mut |_| true).unwrap().remove(0)
}

#[derive(Default)]
struct Ends {
    all: Vec<(u64, Ps, PacketFate, Ps, Ps)>,
    gpu: [Ps; 4],
    committed: Ps,
}

const OF_GPU: [Reason; 4] = [Reason::GpuFill, Reason::GpuQueue, Reason::GpuCopy, Reason::Gpu];

impl DepartureObserver for Ends {
    fn departure(&mut self, d: &Departure) {
        self.all.push((d.packet.0, d.arrival, d.fate, d.sojourn, d.attribution.total()));
        self.committed += Ps(d.attribution[Reason::Commit]);
        for (sum, reason) in self.gpu.iter_mut().zip(OF_GPU) {
            *sum += Ps(d.attribution[reason]);
        }
    }
}

/// Runs `offer` packets to their end; checks what holds of every run.
fn run(scenario: &Scenario, offer: u64) -> (Server, Ends) {
    let loaded = loaded(scenario);
    let source = || {
        let load = scenario.traffic.offered(scenario.nic.rate);
        loaded.blueprint.source(scenario.run.seed, &load).unwrap()
    };
    let mut server = Server::new(scenario, loaded.function.clone(), source(), offer, Seed(scenario.run.seed)).unwrap();
    let (mut ends, pause) = (Ends::default(), Pause { offered: u64::MAX, at: Ps::MAX });
    while server.advance(1_000, pause, &mut ends) {}
    assert_eq!(server.offered(), offer);
    let mut ids: Vec<u64> = ends.all.iter().map(|e| e.0).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..offer), "each packet ends once");
    for (id, _, _, sojourn, total) in &ends.all {
        assert_eq!(sojourn, total, "packet {id}: what its sojourn was spent on");
    }
    let states = server.mbufs();
    assert_eq!(states.queued, 0, "nothing is left with the GPU");
    // Packets of a flow leave by one port, in the order in which they came.
    let (mut again, mut packet, mut flows) = (source(), Packet::default(), Vec::new());
    while (flows.len() as u64) < offer && again.next(&mut packet) {
        flows.push(layers(&packet.data).ok().map(|l| l.five_tuple));
    }
    let mut latest: HashMap<FiveTuple, (u64, Ps)> = HashMap::new();
    let mut sent: Vec<_> = ends.all.iter().filter(|e| matches!(e.2, PacketFate::Sent(_))).collect();
    sent.sort_by_key(|e| e.1 + e.3);
    for (id, arrival, _, sojourn, _) in sent {
        let Some(flow) = flows[*id as usize] else { continue };
        if let Some((before, at)) = latest.insert(flow, (*id, *arrival + *sojourn)) {
            assert!(before < *id || at == *arrival + *sojourn, "packet {id} leaves behind {before}, of the same flow");
        }
    }
    (server, ends)
}

#[test]
fn all_packets_go_over_a_gpu_and_come_back() {
    for attached in ["discrete", "integrated"] {
        let (server, ends) = run(&read(&[&format!("machine.gpu.attached={attached}")]).unwrap(), 3_000);
        let did = server.gpu().unwrap();
        let lost = ends.all.iter().filter(|e| matches!(e.2, PacketFate::Lost(_))).count();
        assert_eq!(did.packets + lost as u64, 3_000, "{attached}");
        assert_eq!(did.packets, did.launched);
        assert!(did.batches >= 3_000 / 128 && did.late > 0, "{attached}: {did:?}");
        // What packets were charged for is what the GPU has counted, but for those that the function rejects.
        let counted = [did.fill, did.queue, did.copy, did.kernel];
        for (charged, counted) in ends.gpu.into_iter().zip(counted) {
            assert!(charged <= counted && charged.0 * 10 >= counted.0 * 9, "{attached}: {:?} {counted:?}", ends.gpu);
        }
        let copies = attached == "discrete";
        assert_eq!(did.copy > Ps::ZERO, copies);
        assert_eq!(did.llc.lookups() > 0, !copies);
        assert!(did.instructions > 0 && did.memory.sectors > 0);
        // Each warp instruction has a lane at least, and 32 at most.
        assert!(did.lanes >= did.instructions && did.lanes <= did.instructions * 32);
    }
}

#[test]
fn a_gpu_past_the_caches_asks_dram_for_what_cores_have_flushed() {
    let of = |more: &[&str]| {
        let set = ["machine.gpu.attached=integrated", "traffic.sizes={fixed=\"64 B\"}", "machine.gpu.results=frames"];
        run(&read(&[&set[..], more].concat()).unwrap(), 3_000)
    };
    for more in [&[][..], CONTROLLERS] {
        let ((coherent, _), (past, ends)) = (of(more), of(&[more, &["machine.gpu.coherent=false"]].concat()));
        let (did, other) = (past.gpu().unwrap(), coherent.gpu().unwrap());
        let lost = ends.all.iter().filter(|e| matches!(e.2, PacketFate::Lost(_))).count();
        assert_eq!(did.packets + lost as u64, 3_000);
        // The LLC is not asked, and what its packets are read and written for is DRAM's.
        assert_eq!((did.llc.lookups(), other.flushed), (0, 0));
        assert!(other.llc.lookups() > 0);
        // A line of the packet at least, and each batch's entries.
        assert!(did.flushed >= did.packets, "{} of {}", did.flushed, did.packets);
        let (own, theirs) = (past.memory().dram_counters(), coherent.memory().dram_counters());
        assert!(own.reads >= theirs.reads + did.packets, "{} and {}", own.reads, theirs.reads);
        assert!(own.writes >= theirs.writes + did.packets, "{} and {}", own.writes, theirs.writes);
        assert!(did.kernel > other.kernel, "{:?} and {:?}", did.kernel, other.kernel);
    }
    // What a line takes is the core's time.
    let busy = |flush: &str| {
        let (server, _) = of(&["machine.gpu.coherent=false", &format!("machine.gpu.flush=\"{flush}\"")]);
        let did = server.gpu().unwrap();
        (server.cores().iter().map(|core| core.busy.0).sum::<u64>() as f64 / 1e3, did.flushed)
    };
    let ((short, lines), (long, _)) = (busy("1 ns"), busy("101 ns"));
    let each = (long - short) / lines as f64;
    assert!((50.0..=150.0).contains(&each), "{each} ns a line more, of 100");
}

/// Kernels that stay, on both kinds of GPU.
fn persistent(attached: &str, more: &[&str]) -> Result<Scenario, String> {
    let attached = format!("machine.gpu.attached={attached}");
    let all = [
        "machine.gpu.posting=persistent",
        "machine.gpu.batch=32",
        "machine.gpu.timeout=\"0 ns\"",
        "machine.gpu.fifo=64",
        &attached,
    ];
    read(&[&all[..], more].concat())
}

#[test]
fn all_packets_go_over_a_kernel_that_stays_and_come_back() {
    for attached in ["discrete", "integrated"] {
        for more in [&[][..], CONTROLLERS, &["machine.gpu.timeout=\"3 us\"", "traffic.load=0.6"]] {
            let (server, ends) = run(&persistent(attached, more).unwrap(), 3_000);
            let did = server.gpu().unwrap();
            let lost = ends.all.iter().filter(|e| matches!(e.2, PacketFate::Lost(_))).count();
            assert_eq!(did.packets + lost as u64, 3_000, "{attached} {more:?}");
            assert_eq!(did.packets, did.launched);
            let counted = [did.fill, did.queue, did.copy, did.kernel];
            for (charged, counted) in ends.gpu.into_iter().zip(counted) {
                assert!(
                    charged <= counted && charged.0 * 10 >= counted.0 * 9,
                    "{attached}: {:?} {counted:?}",
                    ends.gpu
                );
            }
            let discrete = attached == "discrete";
            assert_eq!((did.copy > Ps::ZERO, did.copying_in > Ps::ZERO), (discrete, discrete));
            assert_eq!(did.llc.lookups() > 0, !discrete);
            assert_eq!(did.dispatching > Ps::ZERO, discrete);
            assert!(did.lanes >= did.instructions && did.lanes <= did.instructions * 32);
        }
    }
}

#[test]
fn a_kernel_that_stays_answers_sooner_than_one_that_is_launched() {
    for (attached, least) in [("discrete", 10_000.0), ("integrated", 5_000.0)] {
        let mean = |ends: &Ends| ends.all.iter().map(|e| e.3.as_ns()).sum::<f64>() / ends.all.len() as f64;
        // Of as many packets at most, that wait for each other as long; launches and copies take what a card's do.
        let alike = [
            "machine.gpu.timeout=\"20 us\"",
            "machine.gpu.call=\"3.8 us\"",
            "machine.gpu.launch=\"2.4 us\"",
            "machine.gpu.copy=\"6.5 us\"",
            "traffic.load=0.02",
        ];
        let launched = persistent(attached, &[&alike[..], &["machine.gpu.posting=batches"]].concat()).unwrap();
        let saved = mean(&run(&launched, 3_000).1) - mean(&run(&persistent(attached, &alike).unwrap(), 3_000).1);
        assert!(saved > least, "{attached}: {saved}");
    }
}

#[test]
fn a_task_over_an_idle_bus_takes_its_closed_form() {
    let of = |word: u32, publish: u32, tell: u32| {
        let bus = format!(
            "machine.gpu.dispatcher={{ least = 1, most = 1, word = \"{word} ns\", task = \"0 ns\", publish = \"{publish} ns\", tell = \"{tell} ns\" }}"
        );
        let (server, _) = run(&persistent("discrete", &[&bus, "traffic.load=0.0005", "machine.cores=1"]).unwrap(), 200);
        let did = server.gpu().unwrap();
        assert_eq!(did.batches, did.packets, "one at a time");
        let each = |time: Ps| time.as_ns() / did.packets as f64;
        (each(did.queue), each(did.copy), each(did.kernel))
    };
    let (short, long) = (of(1_000, 100, 500), of(2_000, 400, 1_500));
    // A round sees a task half a word after it has come, in the mean, and has it half a word and `publish` later.
    assert!((short.0 - 1_100.0).abs() < 80.0, "{}", short.0);
    assert!((long.0 - 2_400.0).abs() < 160.0, "{}", long.0);
    // A word for a line of the packet there and back, and `tell`; a line takes the bus 5 ns, there and back.
    assert!((short.1 - 1_512.0).abs() < 12.0, "{}", short.1);
    assert!((long.1 - short.1 - 2_000.0).abs() < 2.0, "{} {}", long.1, short.1);
    assert!((long.2 / short.2 - 1.0).abs() < 0.01, "{} {}", long.2, short.2);
}

#[test]
fn a_fifo_that_is_full_loses_packets_and_no_mbuf() {
    for attached in ["discrete", "integrated"] {
        let slow = ["machine.gpu.shaders.frequency=\"20 MHz\"", "traffic.load=0.9", "machine.gpu.fifo=8"];
        let (server, ends) = run(&persistent(attached, &slow).unwrap(), 10_000);
        let full = ends.all.iter().filter(|e| e.2 == PacketFate::Lost(Loss::QueueFull)).count();
        assert!(full > 500, "{attached}: {full} of 10000");
        let did = server.gpu().unwrap();
        assert!(did.posted.0 * 10 > server.now().0 * 8, "{did:?} {:?}", server.now());
        // What waits for room is gathered: tasks are not those of a burst each.
        assert!(did.launched > 20 * did.batches, "{did:?}");
    }
}

/// However short a window is, nothing is busy for longer than it.
#[test]
fn a_gpu_is_busy_when_it_is_and_not_when_it_ends() {
    for (attached, stays) in [("discrete", false), ("integrated", false), ("discrete", true), ("integrated", true)] {
        let scenario = if stays {
            persistent(attached, &["traffic.load=0.9", "machine.gpu.link=\"10 Gbps\""]).unwrap()
        } else {
            read(&[&format!("machine.gpu.attached={attached}")]).unwrap()
        };
        let loaded = loaded(&scenario);
        let source = loaded.blueprint.source(scenario.run.seed, &scenario.traffic.offered(scenario.nic.rate)).unwrap();
        let seed = Seed(scenario.run.seed);
        let mut server = Server::new(&scenario, loaded.function.clone(), source, 3_000, seed).unwrap();
        let (mut ends, mut before, mut more) = (Ends::default(), (Ps::ZERO, server.gpu().unwrap()), true);
        while more {
            let at = server.now() + Ps::from_ns(300);
            more = server.advance(1_000, Pause { offered: u64::MAX, at }, &mut ends);
            let (now, gpu) = (server.now(), server.gpu().unwrap());
            let (time, did) = (now.since(before.0), gpu - before.1);
            for busy in [did.busy, did.copying_in, did.copying_back] {
                assert!(busy <= time, "{attached}: {busy:?} of {time:?} up to {now:?}");
            }
            before = (now, gpu);
        }
        assert!(stays || before.1.busy > Ps::from_ns(10_000), "{:?}", before.1);
        assert_eq!(before.1.copying_back > Ps::ZERO, attached == "discrete");
    }
}

#[test]
fn an_integrated_gpu_finds_packets_where_ddio_has_put_them() {
    let (server, _) = run(&read(&["machine.gpu.attached=integrated"]).unwrap(), 3_000);
    let with = server.gpu().unwrap().llc;
    let (server, _) = run(&read(&["machine.gpu.attached=integrated", "machine.llc.io_ways=0"]).unwrap(), 3_000);
    let without = server.gpu().unwrap().llc;
    assert!(with.hits > with.misses, "{with:?}");
    assert!(without.misses > with.misses * 2, "{without:?} {with:?}");
}

/// DRAM whose controllers answer later.
const CONTROLLERS: &[&str] = &["machine.dram.controller={}", "machine.dram.standard=ddr4-2400u"];

#[test]
fn what_a_gpu_reads_and_writes_is_in_the_counts_of_the_controllers() {
    let of = |attached: &str, more: &[&str]| {
        let attached = format!("machine.gpu.attached={attached}");
        let (server, _) = run(&read(&[&[attached.as_str(), "machine.llc.io_ways=0"], more].concat()).unwrap(), 3_000);
        let memory = server.memory();
        let (cores, dram, report) = (memory.counters(), memory.dram_counters(), memory.dram_report(server.now()));
        (server.gpu().unwrap(), cores, dram, report)
    };
    let mut of_devices = [0; 2];
    for (attached, devices) in ["integrated", "discrete"].into_iter().zip(&mut of_devices) {
        let (gpu, cores, dram, report) = of(attached, CONTROLLERS);
        // Whatever misses the LLC is read in memory, but for a few that join what is on its way.
        let misses = gpu.llc.misses + cores.llc.misses + cores.dma_read.misses;
        assert!(dram.reads <= misses && dram.reads * 100 >= misses * 97, "{attached}: {dram:?} of {misses}");
        assert_eq!(gpu.llc.misses * 100 > misses * 5, attached == "integrated", "{gpu:?} of {misses}");
        assert!(report.is_some());
        *devices = cores.dma_read.misses;
        // As many as without controllers, but for what comes at other times.
        let (_, _, at_once, none) = of(attached, &[CONTROLLERS[1]]);
        let ratio = dram.reads as f64 / at_once.reads as f64;
        assert!((0.97..1.03).contains(&ratio), "{attached}: {dram:?} {at_once:?}");
        assert!(none.is_none());
    }
    // The copy engine of a discrete one reads frames in memory, and the NIC does so again.
    assert!(of_devices[1] * 10 > of_devices[0] * 15, "{of_devices:?}");
}

/// On a channel that others keep busy the controllers make a kernel and a copy wait.
#[test]
fn a_gpu_waits_for_memory_that_answers_later() {
    let of = |attached: &str, channels: u32| {
        let set = [
            format!("machine.gpu.attached={attached}"),
            format!("machine.dram.channels={channels}"),
            "machine.llc.io_ways=0".into(),
            "machine.llc.size=\"1408 KiB\"".into(),
            "machine.llc.slices=1".into(),
            "neighbours=[{ working_set = \"64 MiB\", every = \"10 ns\", cores = 2 }]".into(),
        ];
        let set: Vec<&str> = set.iter().map(String::as_str).chain(CONTROLLERS.iter().copied()).collect();
        run(&read(&set).unwrap(), 3_000).0.gpu().unwrap()
    };
    let each = |time: Ps, gpu: &sim::server::gpu::GpuCounters| time.as_ns() / gpu.packets as f64;
    let (wide, narrow) = (of("integrated", 6), of("integrated", 1));
    assert!(each(narrow.busy, &narrow) > 1.05 * each(wide.busy, &wide), "{narrow:?} {wide:?}");
    let (wide, narrow) = (of("discrete", 6), of("discrete", 1));
    assert!(each(narrow.copying_in, &narrow) > 1.01 * each(wide.copying_in, &wide), "{narrow:?} {wide:?}");
}

#[test]
fn a_gpu_that_falls_behind_loses_packets_and_no_mbuf() {
    for attached in ["discrete", "integrated"] {
        let slow = ["machine.gpu.shaders.frequency=\"20 MHz\"", "traffic.load=0.9"];
        let attached = format!("machine.gpu.attached={attached}");
        let (server, ends) = run(&read(&[slow[0], slow[1], &attached]).unwrap(), 20_000);
        let full = ends.all.iter().filter(|e| e.2 == PacketFate::Lost(Loss::QueueFull)).count();
        assert!(full > 500, "{attached}: {full} of 20000");
        assert!(server.gpu().unwrap().late <= 1);
    }
}

/// What waits for a GPU that is busy is gathered, however long ago its time was up.
#[test]
fn batches_fill_while_others_wait_for_the_gpu() {
    for attached in ["discrete", "integrated"] {
        let slow = ["machine.gpu.shaders.frequency=\"20 MHz\"", "machine.gpu.timeout=\"1 us\"", "traffic.load=0.3"];
        let attached = format!("machine.gpu.attached={attached}");
        let (server, _) = run(&read(&[&slow[..], &[attached.as_str()]].concat()).unwrap(), 10_000);
        let did = server.gpu().unwrap();
        assert!(did.launched > 100 * did.batches, "{attached}: {did:?}");
        assert!(did.late < did.batches / 4, "{attached}: {did:?}");
    }
}

#[test]
fn a_share_of_flows_goes_to_the_gpu() {
    for share in [0.1, 0.5, 0.9] {
        let (server, _) = run(&read(&[&format!("machine.gpu.share={share}")]).unwrap(), 5_000);
        let found = server.gpu().unwrap().packets as f64 / 5_000.0;
        assert!((found - share).abs() < 0.06, "{found} of {share}");
    }
}

#[test]
fn no_core_launches_more_than_it_has_time_for_and_no_engine_is_busier_than_always() {
    for batch in ["1", "8", "64"] {
        let slow = format!("machine.gpu.batch={batch}");
        let settings = [
            slow.as_str(),
            "machine.gpu.call=\"20 us\"",
            "machine.gpu.launch=\"0 ns\"",
            "machine.gpu.copy=\"0 ns\"",
            "machine.gpu.timeout=\"5 us\"",
            "machine.cores=1",
            "traffic.load=0.3",
        ];
        let (server, _) = run(&read(&settings).unwrap(), 4_000);
        let (gpu, time) = (server.gpu().unwrap(), server.now());
        assert!(gpu.batches > 10, "{batch}: {}", gpu.batches);
        assert!(gpu.batches * 20_000_000 <= time.0 + 20_000_000, "{batch}: {} batches in {time:?}", gpu.batches);
        for (what, busy) in [("in", gpu.copying_in), ("kernel", gpu.busy), ("back", gpu.copying_back)] {
            assert!(busy <= time, "{batch}: {what}: {busy:?} of {time:?}");
        }
    }
}

#[test]
fn a_gpu_has_the_end_of_a_chain_and_cores_what_comes_before() {
    let chain = ["function.kind=chain", "function.chain=[\"check\", \"lookup\", \"ttl\"]"];
    let of = |more: &[&str]| run(&read(&[&chain[..], more].concat()).unwrap(), 2_000);
    let fates = |ends: &Ends| {
        let mut all: Vec<_> = ends.all.iter().map(|e| (e.0, e.2)).collect();
        all.sort_unstable_by_key(|e| e.0);
        all
    };
    let (all, of_all) = of(&[]);
    let (end, of_end) = of(&["machine.gpu.functions=[\"ttl\"]"]);
    assert_eq!(fates(&of_all), fates(&of_end));
    let lanes = |server: &Server| server.gpu().unwrap().lanes;
    assert!(lanes(&end) * 3 < lanes(&all), "{} {}", lanes(&end), lanes(&all));
    let instructions = |server: &Server| server.cores().iter().map(|core| core.instructions).sum::<u64>();
    assert!(instructions(&end) > instructions(&all));
}

#[test]
fn cores_copy_what_a_gpu_forwards() {
    let fates = |ends: &Ends| {
        let mut all: Vec<_> = ends.all.iter().map(|e| (e.0, e.2)).collect();
        all.sort_unstable_by_key(|e| e.0);
        all
    };
    for attached in ["discrete", "integrated"] {
        let (plain, alone) = run(&persistent(attached, &[]).unwrap(), 2_000);
        let copies = ["function.copy.reads=200", "machine.copy_table={}"];
        let (server, both) = run(&persistent(attached, &copies).unwrap(), 2_000);
        assert_eq!(fates(&alone), fates(&both), "{attached}");
        let made = server.memory().copy_counters();
        assert!(made.fills >= 2_000 && made.settled > 0, "{made:?}");
        // The GPU does as much as where nothing is copied.
        let each = |server: &Server| server.gpu().unwrap().lanes;
        assert_eq!(each(&plain), each(&server), "{attached}");
    }
}

#[test]
fn bursts_go_to_the_gpu_when_many_packets_wait_and_what_is_done_before_waits_in_order() {
    let of = |load: f64, above: u32| {
        let (load, above) = (format!("traffic.load={load}"), format!("machine.gpu.above={above}"));
        run(&read(&[&load, &above, "machine.cores=1"]).unwrap(), 6_000)
    };
    let (idle, _) = of(0.02, 30);
    let (busy, ends) = of(0.9, 30);
    assert!(idle.gpu().unwrap().packets < 600, "{:?}", idle.gpu());
    assert!(busy.gpu().unwrap().packets > 600, "{:?}", busy.gpu());
    assert!(ends.committed > Ps::ZERO);
}

#[test]
fn a_gpu_that_cannot_be_is_refused_with_both_numbers() {
    for (set, expected) in [
        (&["machine.gpu.share=1.5"][..], "machine.gpu.share: 1.5: allowed is a share of flows, above 0 up to 1"),
        (&["machine.gpu.share=0"], "machine.gpu.share: 0: allowed is a share of flows"),
        (
            &["machine.gpu.attached=integrated", "machine.gpu.coherent=false", "machine.gpu.posting=persistent"],
            "warps that poll for tasks see a core's store only where their L2 is coherent",
        ),
        (&["machine.gpu.batch=0"], "machine.gpu.batch: 0: allowed are 1 to 65536 packets"),
        (
            &["machine.gpu.posting=persistent", "machine.gpu.batch=33"],
            "machine.gpu.batch: 33: allowed with posting = \"persistent\" are 1 to 32 packets: a task is a warp's",
        ),
        (&["machine.gpu.fifo=0"], "machine.gpu.fifo: 0: allowed are 1 to 16384 tasks"),
        (
            &[
                "machine.gpu.dispatcher={ least = 8, most = 4, word = \"1 us\", task = \"1 ns\", publish = \"1 us\", tell = \"1 us\" }",
            ],
            "machine.gpu.dispatcher.most",
        ),
        (&["machine.gpu.preset=h1000"], "machine.gpu.preset = \"h1000\": no such preset"),
        (&["machine.gpu.shaders.mcw=65"], "machine.gpu.shaders.mcw"),
        (&["machine.gpu.kernel={registers=20000, shared=0}"], "machine.gpu.kernel"),
        (
            &["machine.gpu.functions=[\"ttl\"]"],
            "machine.gpu.functions: ttl: allowed are the last functions of the scenario's, in their order: forward",
        ),
        (
            &["function.kind=nat"],
            "function.kind: nat with machine.gpu: allowed is one of them: it has no form for a warp",
        ),
        (&["function.kind=chain", "function.chain=[\"check\", \"firewall\"]"], "firewall has no form for a warp"),
        (
            &[
                "machine.gpu.attached=discrete",
                "machine.iommu={ mode = \"strict\", iotlb_entries = 32 }",
                "mempool.element=\"4096 B\"",
            ],
            "machine.iommu.mode: strict with machine.gpu.attached = discrete: allowed is one of them: a core unmaps a packet",
        ),
        (
            &["machine.gpu.attached=integrated", "machine.cores=64"],
            "machine.cores: 64 cores with an integrated GPU, which counts as one more: allowed are 63",
        ),
    ] {
        let error = read(set).map(|_| ()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    // Tables need room in its memory.
    let scenario = read(&["machine.gpu.attached=discrete", "machine.gpu.memory=\"1 MiB\""]).unwrap();
    let loaded = loaded(&scenario);
    let source = loaded.blueprint.source(1, &scenario.traffic.offered(scenario.nic.rate)).unwrap();
    let error = Server::new(&scenario, loaded.function.clone(), source, 10, Seed(1)).err().unwrap().to_string();
    assert!(error.contains("machine.gpu.memory: 1 MiB: allowed are "), "{error}");
    assert!(error.contains("for tables of "), "{error}");
}

/// A change of these numbers is one of the model, and says why.
#[test]
fn what_small_runs_come_to() {
    let mut table = String::from(
        "attached    packets batches late  fill ns queue ns  copy ns  kernel ns  lanes  sectors  LLC hits  misses\n",
    );
    for (attached, stays) in [("discrete", false), ("integrated", false), ("discrete", true), ("integrated", true)] {
        let scenario =
            if stays { persistent(attached, &[]) } else { read(&[&format!("machine.gpu.attached={attached}")]) };
        let (server, _) = run(&scenario.unwrap(), 3_000);
        let did = server.gpu().unwrap();
        let each = |time: Ps| time.as_ns() / did.packets as f64;
        table += &format!(
            "{attached:<11} {:7} {:7} {:4} {:8.1} {:8.1} {:8.1} {:10.1} {:6.1} {:8.1} {:9} {:7}\n",
            did.packets,
            did.batches,
            did.late,
            each(did.fill),
            each(did.queue),
            each(did.copy),
            each(did.kernel),
            did.lanes as f64 / did.packets as f64,
            did.memory.sectors as f64 / did.packets as f64,
            did.llc.hits,
            did.llc.misses,
        );
    }
    insta::assert_snapshot!(table);
}
