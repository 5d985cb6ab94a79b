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
    lost: u64,
    /// Of packets that arrive from then on.
    from: Ps,
    sent: u64,
    sojourn: Ps,
}

impl DepartureObserver for Ends {
    fn departure(&mut self, d: &Departure) {
        self.lost += u64::from(matches!(d.fate, PacketFate::Lost(_)));
        if d.arrival >= self.from && matches!(d.fate, PacketFate::Sent(_)) {
            self.sent += 1;
            self.sojourn += d.sojourn;
        }
    }
}

/// What a stretch shows of a server.
#[derive(Debug)]
struct Seen {
    lost: f64,
    busy: f64,
    llc_hits: f64,
    ddio_hits: f64,
    first_touches: f64,
    /// Of DRAM, for each packet that a core got.
    reads: f64,
    instructions: f64,
    /// Packets in rings, and mbufs of what is being sent, in the mean.
    waiting: f64,
    sending: f64,
    /// In nanoseconds, of packets that arrive in the second half of the stretch.
    sojourn: f64,
}

impl Seen {
    /// The mean of several.
    fn mean(of: &[Seen]) -> Seen {
        let mean = |field: fn(&Seen) -> f64| of.iter().map(field).sum::<f64>() / of.len() as f64;
        Seen {
            lost: mean(|seen| seen.lost),
            busy: mean(|seen| seen.busy),
            llc_hits: mean(|seen| seen.llc_hits),
            ddio_hits: mean(|seen| seen.ddio_hits),
            first_touches: mean(|seen| seen.first_touches),
            reads: mean(|seen| seen.reads),
            instructions: mean(|seen| seen.instructions),
            waiting: mean(|seen| seen.waiting),
            sending: mean(|seen| seen.sending),
            sojourn: mean(|seen| seen.sojourn),
        }
    }
}

fn server(case: (&str, &[&str])) -> Server {
    server_of(case, 7)
}

fn server_of((name, set): (&str, &[&str]), seed: u64) -> Server {
    let set = SMALL.iter().chain(set).map(|s| s.to_string()).collect();
    let preset = find(SCENARIOS, name).unwrap();
    let scenario = Scenario::read(preset.text, preset.name, &Overrides { set, ..Overrides::default() }).unwrap();
    let loaded = load(std::slice::from_ref(&scenario), &Arc::new(Stock::new()), &mut |_| true).unwrap().remove(0);
    let source = loaded.blueprint.source(seed, &scenario.traffic.offered(scenario.nic.rate)).unwrap();
    Server::new(&scenario, loaded.function.clone(), source, u64::MAX, Seed(1)).unwrap()
}

fn stretch(server: &mut Server) -> Seen {
    let (memory, dram, cores) = (server.memory().counters(), server.memory().dram_counters(), server.cores());
    let (from, first, mut ends) = (server.now(), server.offered(), Ends { from: Ps::MAX, ..Ends::default() });
    let (mut waiting, mut sending) = (0, 0);
    for look in 1..=LOOKS {
        let pause = Pause { offered: first + PACKETS * look / LOOKS, at: Ps::MAX };
        while server.offered() < pause.offered {
            server.advance(20_000, pause, &mut ends);
        }
        if look == LOOKS / 2 {
            ends.from = server.now();
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
        first_touches: did.first_come().hits as f64 / did.first_come().lookups() as f64,
        reads: (server.memory().dram_counters().reads - dram.reads) as f64 / received,
        instructions: sum(|c| c.instructions as f64) / received,
        waiting: waiting as f64 / LOOKS as f64,
        sending: sending as f64 / LOOKS as f64,
        sojourn: ends.sojourn.as_ns() / ends.sent as f64,
    }
}

/// Seeds of a case: in so few packets, hits of one differ by as much as is allowed, either way.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=4;

/// A stretch in detail and one without time, from the same state on, and one in detail behind each; whether memory has controllers.
fn both_ways(case: (&str, &[&str]), seed: u64) -> ([Seen; 4], bool) {
    let mut detail = server_of(case, seed);
    stretch(&mut detail);
    // What has filled caches took longer: the coarse clock is of the second stretch.
    detail.set_functional(true);
    detail.set_functional(false);
    stretch(&mut detail);
    let mut functional = detail.clone();
    functional.set_functional(true);
    let (a, b) = (stretch(&mut detail), stretch(&mut functional));
    functional.set_functional(false);
    ([a, b, stretch(&mut detail), stretch(&mut functional)], functional.memory().has_controllers())
}

/// Light load, a core at its limit, and more than it can do; a user plane, copies, a pipeline, controllers, neighbours.
const CASES: &[(&str, &[&str])] = &[
    ("forwarding", &["traffic.load=0.1"]),
    (
        "forwarding",
        &[
            "traffic.load=0.12",
            "machine.core.frequency=\"0.8 GHz\"",
            "machine.l1.latency=1.74 ns",
            "machine.l2.latency=6.09 ns",
            "traffic.sizes={fixed=\"64 B\"}",
        ],
    ),
    (
        "forwarding",
        &[
            "traffic.load=0.3",
            "machine.core.frequency=\"0.8 GHz\"",
            "machine.l1.latency=1.74 ns",
            "machine.l2.latency=6.09 ns",
            "traffic.sizes={fixed=\"64 B\"}",
        ],
    ),
    ("upf", &["function.upf.load.ues=600", "function.upf.load.pdrs=4", "traffic.load=0.3"]),
    ("vhost", &["function.copy.buffers=7", "function.copy.reads=100", "traffic.load=0.2"]),
    ("forwarding", &["pipeline.rx_cores=1", "pipeline.queue=64", "traffic.load=0.5"]),
    ("forwarding", &["machine.dram.controller={}", "machine.dram.standard=ddr4-2400u", "traffic.load=0.5"]),
    (
        "forwarding",
        &["traffic.load=0.3", "neighbours=[{ kind = \"control\", statistics_interval = \"5 us\", routes = 1e6 }]"],
    ),
    ("forwarding", &["traffic.load=0.5", "neighbours=[{ working_set = \"4 MiB\", every = \"20 ns\", chained = 0.5 }]"]),
];

#[test]
fn a_stretch_without_time_leaves_what_one_in_detail_leaves() {
    for case in CASES {
        let mut seen = [const { Vec::new() }; 4];
        let mut has_controllers = false;
        for seed in SEEDS {
            let (stretches, controllers) = both_ways(*case, seed);
            seen.iter_mut().zip(stretches).for_each(|(all, one)| all.push(one));
            has_controllers = controllers;
        }
        let [a, b, later, behind] = seen.map(|of| Seen::mean(&of));
        // Near saturation a core that is busy 1 % more has a queue that is as much longer.
        let queue = (0.05 + 0.01 / (1.0 - a.busy).max(0.01)).min(0.4);
        // Where some are lost others survive: other flows are in the caches.
        let others = a.lost;
        for (what, one, other, allowed) in [
            ("packets lost", a.lost, b.lost, 0.03 * a.lost),
            ("busy", a.busy, b.busy, 0.05 * a.busy),
            ("LLC hits", a.llc_hits, b.llc_hits, 0.001 + 0.006 * others),
            ("DDIO hits", a.ddio_hits, b.ddio_hits, 0.001),
            ("first touches that hit", a.first_touches, b.first_touches, 0.001 + 0.006 * others),
            ("DRAM reads a packet", a.reads, b.reads, (0.03 + 0.06 * others) * a.reads + 0.001),
            ("instructions a packet", a.instructions, b.instructions, 0.02 * a.instructions),
            ("packets in rings", a.waiting, b.waiting, queue * a.waiting + 0.1),
            ("mbufs being sent", a.sending, b.sending, 0.005 * a.sending),
        ] {
            // Controllers count what they have served, and nothing is asked of them.
            if what == "DRAM reads a packet" && has_controllers {
                assert_eq!(other, 0.0);
                continue;
            }
            assert!((one - other).abs() <= allowed, "{case:?}: {what}: {one} in detail, {other} without time");
        }
        // Back in detail it goes on as if it had been all the while.
        let (a, b) = (later, behind);
        for (what, one, other, allowed) in [
            ("packets lost", a.lost, b.lost, 0.03 * a.lost),
            ("busy", a.busy, b.busy, 0.02 * a.busy),
            ("sojourn", a.sojourn, b.sojourn, queue * a.sojourn),
            ("LLC hits", a.llc_hits, b.llc_hits, 0.005),
        ] {
            assert!(
                (one - other).abs() <= allowed,
                "{case:?}, in detail again: {what}: {one}, {other} after a stretch"
            );
        }
    }
}

/// Of a machine that has never been in detail nothing is known.
#[test]
fn without_any_detail_time_goes_on() {
    for set in [
        &["traffic.load=0.3"][..],
        &["traffic.load=0.3", "neighbours=[{ working_set = \"4 MiB\" }]"],
        &["traffic.load=0.3", "neighbours=[{ working_set = \"4 MiB\", period = \"3 us\", busy = 0.5 }]"],
        &["pipeline.rx_cores=1", "pipeline.queue=64", "traffic.load=0.9"],
    ] {
        let mut server = server(("forwarding", set));
        server.set_functional(true);
        let seen = stretch(&mut server);
        assert!(seen.busy > 0.05 && seen.busy <= 1.0, "{set:?}: {seen:?}");
        let references: u64 = server.neighbours().iter().map(|n| n.references).sum();
        assert_eq!(references > 1_000, set[1..].iter().any(|s| s.starts_with("neighbours")), "{set:?}: {references}");
    }
}

/// Writes past the LLC that controllers hold up are answered after time has stood still, and not before the present.
#[test]
fn what_was_under_way_is_not_answered_in_the_past() {
    let set = [
        "machine.dram.controller={}",
        "machine.dram.standard=ddr4-2400u",
        "machine.dram.channels=1",
        "machine.llc.io_ways=0",
        "traffic.load=0.9",
    ];
    let mut server = server(("forwarding", &set));
    for turn in 0..40 {
        server.set_functional(turn % 2 == 1);
        let (before, pause) = (server.now(), Pause { offered: server.offered() + 250, at: Ps::MAX });
        while server.offered() < pause.offered {
            server.advance(1_000, pause, &mut Ends { from: Ps::MAX, ..Ends::default() });
        }
        assert!(server.now() > before, "turn {turn}");
    }
}
