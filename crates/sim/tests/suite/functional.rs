//! The functional way beside detail, from the same state on: what both leave in caches, rings and mbufs.

use std::sync::Arc;

use engine::Seed;
use sim::load::{Stock, load};
use sim::scenario::{SCENARIOS, find};
use sim::server::{Departure, DepartureObserver, PacketFate, Pause, Server};
use sim::{Overrides, Scenario};
use units::Ps;

/// Small enough for a test, large enough for misses in the LLC.
const SMALL: &[&str] = &[
    "function.forward.prefixes=2000",
    "traffic.flows.count=2000",
    "mempool.size=8192",
    "mempool.cache=32",
    "nic.rx_descriptors=256",
    "machine.llc.size=\"1408 KiB\"",
    "machine.llc.slices=1",
    "machine.cores=3",
];
/// Packets of each stretch.
const PACKETS: u64 = 20_000;
/// Times a stretch is looked at.
const LOOKS: u64 = 100;

#[derive(Default)]
struct Ends {
    ended: u64,
    lost: u64,
}

impl DepartureObserver for Ends {
    fn departure(&mut self, d: &Departure) {
        self.ended += 1;
        self.lost += u64::from(matches!(d.fate, PacketFate::Lost(_)));
    }
}

/// What a stretch shows of a server.
#[derive(Debug)]
struct Seen {
    lost: f64,
    busy: f64,
    llc_hits: f64,
    ddio_hits: f64,
    /// Of DRAM, for each packet that a core got.
    reads: f64,
    instructions: f64,
    /// Packets in rings, and mbufs of what is being sent, in the mean.
    waiting: f64,
    sending: f64,
}

fn server((name, set): (&str, &[&str])) -> Server {
    let set = SMALL.iter().chain(set).map(|s| s.to_string()).collect();
    let preset = find(SCENARIOS, name).unwrap();
    let scenario = Scenario::read(preset.text, preset.name, &Overrides { set, ..Overrides::default() }).unwrap();
    let loaded = load(std::slice::from_ref(&scenario), &Arc::new(Stock::new()), &mut |_| true).unwrap().remove(0);
    let source = loaded.blueprint.source(7, &scenario.traffic.offered(scenario.nic.rate)).unwrap();
    Server::new(&scenario, loaded.function.clone(), source, u64::MAX, Seed(1)).unwrap()
}

fn stretch(server: &mut Server) -> Seen {
    let (memory, dram, cores) = (server.memory().counters(), server.memory().dram_counters(), server.cores());
    let (from, first, mut ends) = (server.now(), server.offered(), Ends::default());
    let (mut waiting, mut sending) = (0, 0);
    for look in 1..=LOOKS {
        let pause = Pause { offered: first + PACKETS * look / LOOKS, at: Ps::MAX };
        while server.offered() < pause.offered {
            server.advance(20_000, pause, &mut ends);
        }
        waiting += server.ring_occupancy();
        sending += server.mbufs().sending;
    }
    let did = server.memory().counters() - memory;
    let span = (server.now() - from).as_secs() * cores.len() as f64;
    let sum = |of: fn(&sim::server::CoreCounters) -> f64| -> f64 {
        server.cores().iter().map(of).sum::<f64>() - cores.iter().map(of).sum::<f64>()
    };
    let received = sum(|c| c.packets as f64);
    Seen {
        lost: ends.lost as f64 / PACKETS as f64,
        busy: sum(|c| c.busy.as_secs()) / span,
        llc_hits: did.llc.hits as f64 / did.llc.lookups() as f64,
        ddio_hits: did.dma_write.hits as f64 / did.dma_write.lookups() as f64,
        reads: (server.memory().dram_counters().reads - dram.reads) as f64 / received,
        instructions: sum(|c| c.instructions as f64) / received,
        waiting: waiting as f64 / LOOKS as f64,
        sending: sending as f64 / LOOKS as f64,
    }
}

/// Light load, a core at its limit, and more than it can do; a user plane, copies, a pipeline, controllers, neighbours.
const CASES: &[(&str, &[&str])] = &[
    ("forwarding", &["traffic.load=0.1"]),
    ("forwarding", &["traffic.load=0.14", "machine.core.frequency=\"0.8 GHz\"", "traffic.sizes={fixed=\"64 B\"}"]),
    ("forwarding", &["traffic.load=0.3", "machine.core.frequency=\"0.8 GHz\"", "traffic.sizes={fixed=\"64 B\"}"]),
    ("upf", &["function.upf.load.ues=600", "function.upf.load.pdrs=4", "traffic.load=0.3"]),
    ("vhost", &["function.copy.buffers=7", "function.copy.reads=100", "traffic.load=0.2"]),
    ("forwarding", &["pipeline.rx_cores=1", "pipeline.queue=64", "traffic.load=0.5"]),
    ("forwarding", &["machine.dram.controller={}", "machine.dram.standard=ddr4-2400u", "traffic.load=0.5"]),
    ("forwarding", &["traffic.load=0.5", "neighbours=[{ working_set = \"4 MiB\", every = \"20 ns\", chained = 0.5 }]"]),
];

#[test]
fn a_stretch_without_time_leaves_what_one_in_detail_leaves() {
    for case in CASES {
        let mut detail = server(*case);
        stretch(&mut detail);
        // What has filled caches took longer: what stands for time is of the second stretch.
        detail.set_functional(true);
        detail.set_functional(false);
        stretch(&mut detail);
        let mut functional = detail.clone();
        functional.set_functional(true);
        let (a, b) = (stretch(&mut detail), stretch(&mut functional));
        for (what, one, other, allowed) in [
            ("packets lost", a.lost, b.lost, 0.02),
            ("busy", a.busy, b.busy, 0.1 * a.busy),
            ("LLC hits", a.llc_hits, b.llc_hits, 0.01),
            ("DDIO hits", a.ddio_hits, b.ddio_hits, 0.02),
            ("DRAM reads a packet", a.reads, b.reads, 0.02 * a.reads + 0.01),
            ("instructions a packet", a.instructions, b.instructions, 0.02 * a.instructions),
            ("packets in rings", a.waiting, b.waiting, 0.15 * a.waiting + 1.0),
            ("mbufs being sent", a.sending, b.sending, 0.05 * a.sending + 1.0),
        ] {
            // Controllers count what they have served, and nothing is asked of them.
            if what == "DRAM reads a packet" && functional.memory().has_controllers() {
                assert_eq!(other, 0.0);
                continue;
            }
            assert!((one - other).abs() <= allowed, "{case:?}: {what}: {one} in detail, {other} without time");
        }
    }
}
