//! Techniques of packet buffers on the server: each does what it is for. That every combination runs `draws` holds.

use std::sync::LazyLock;

use engine::Seed;
use functions::{Forward, Function, NextHop};
use sim::server::{Departure, DepartureObserver, PacketFate, Pause, Server};
use sim::{Overrides, Scenario};
use stats::Reason;
use traffic::{Blueprint, Table};
use units::{Line, Ps};

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::synthetic(1, 2_000, 8));
static FORWARDING: LazyLock<[Forward; 2]> = LazyLock::new(|| {
    [1, 2].map(|ports| {
        let routes = TABLE.routes.iter().map(|r| (r.prefix, NextHop::new(r.next_hop.unwrap()).unwrap()));
        Forward::new(routes, ports, &Default::default()).unwrap()
    })
});

#[derive(Default)]
struct Ends {
    sent: u64,
    all: u64,
    /// Of sent packets, waits for memory of the NIC.
    memory: Ps,
    /// Runs of lines that the NIC reads.
    reads: Vec<(Line, u64)>,
    last: Ps,
}

impl DepartureObserver for Ends {
    fn departure(&mut self, d: &Departure) {
        self.all += 1;
        if let PacketFate::Sent(_) = d.fate {
            self.sent += 1;
            self.memory += Ps(d.attribution[Reason::DmaMemory]);
            assert_eq!(d.attribution.total(), d.sojourn, "what its sojourn was spent on");
            self.last = self.last.max(d.arrival + d.sojourn);
        }
    }

    fn packet_lines(&mut self, first: Line, lines: u64, write: bool) {
        if !write {
            self.reads.push((first, lines));
        }
    }
}

fn scenario(set: &[&str]) -> Result<Scenario, String> {
    let quick = [
        "traffic.flows.count=500",
        "mempool.size=8192",
        "mempool.cache=32",
        "nic.rx_descriptors=128",
        "nic.tx_descriptors=128",
        "machine.dram.standard=ddr4-3200aa",
        "machine.dram.channels=1",
        "machine.llc.io_ways=0",
    ];
    let set = quick.iter().chain(set).map(|s| (*s).to_string()).collect();
    Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).map_err(|e| e.to_string())
}

fn server(set: &[&str], offer: u64) -> Result<Server, String> {
    let scenario = scenario(set)?;
    let blueprint = Blueprint::new(&scenario.traffic.source(), Some(&TABLE)).unwrap();
    let source = blueprint.source(scenario.run.seed, &scenario.traffic.offered(scenario.nic.rate)).unwrap();
    let function = Function::Forward(FORWARDING[usize::from(scenario.nic.ports) - 1].clone());
    Server::new(&scenario, function, source, offer, Seed(scenario.run.seed)).map_err(|e| e.to_string())
}

/// Runs to the end and checks what holds of every run: packets, cells and cached lines are conserved.
fn run(set: &[&str], offer: u64) -> (Ends, Server) {
    let mut server = server(set, offer).unwrap();
    let mut ends = Ends::default();
    let pause = Pause { offered: u64::MAX, at: Ps::MAX };
    while server.advance(1_000, pause, &mut ends) {}
    assert_eq!(ends.all, offer, "each packet ends once, sent or with a cause");
    assert_eq!(server.buffer_held(), 0, "every cell comes back");
    if let Some(tails) = server.memory().tails() {
        let gone = tails.gathered + tails.bypassed + tails.replaced;
        assert_eq!(tails.written, gone + server.memory().tail_lines(), "{tails:?}");
    }
    (ends, server)
}

fn hits(server: &Server) -> f64 {
    let dram = server.memory().dram_counters();
    dram.row_hits as f64 / (dram.row_hits + dram.row_misses + dram.row_conflicts) as f64
}

#[test]
fn lines_of_sixteen_queues_by_turns_open_more_rows_than_whole_packets_do() {
    let base = [
        "machine.cores=8",
        "machine.core.packet_stall=0 ns",
        "nic.ports=2",
        "traffic.load=1",
        "buffer.allocation=piecewise",
        "machine.dram.controller.order=fcfs=4",
    ];
    let with = |block: &str| {
        let block = format!("nic.output_block={block}");
        run(&[&base[..], &[&block]].concat(), 4000)
    };
    let [(_, single), (_, four), (_, whole)] = ["1", "4", "1024"].map(with);
    assert!(hits(&single) < hits(&four) && hits(&four) < hits(&whole));
    let opened = |server: &Server| 1.0 - hits(server);
    assert!(opened(&single) > 1.2 * opened(&whole), "{} and {}", opened(&single), opened(&whole));
}

#[test]
fn a_block_is_no_longer_than_it_may_be_and_all_lines_are_read() {
    let base = ["machine.cores=4", "nic.ports=2", "traffic.load=0.3", "buffer.allocation=cells", "buffer.size=4 MiB"];
    let lines = |set: &[&str]| {
        let (ends, _) = run(&[&base[..], set].concat(), 1500);
        assert_eq!(ends.sent, 1500);
        (ends.reads.iter().map(|r| r.1).sum::<u64>(), ends.reads.iter().map(|r| r.1).max().unwrap())
    };
    let (all, longest) = lines(&[]);
    assert!(longest > 4);
    assert_eq!(lines(&["nic.output_block=1"]), (all, 1));
    assert_eq!(lines(&["nic.output_block=4"]).0, all);
    assert!(lines(&["nic.output_block=4"]).1 <= 4);
    assert_eq!(lines(&["nic.output_block=1", "nic.cache_cells=16"]).0, all);
}

#[test]
fn a_packet_alone_waits_for_memory_no_longer_in_blocks() {
    let mean = |set: &[&str]| {
        let base = ["machine.cores=1", "nic.ports=1", "traffic.load=0.001", "traffic.sizes.fixed=1024"];
        let (ends, _) = run(&[&base[..], set].concat(), 200);
        ends.memory.as_ns() / ends.sent as f64
    };
    // A block is asked for when the one before has crossed, and its data are there while others cross.
    assert!(mean(&["nic.output_block=1"]) <= mean(&[]) + 1.0);
}

#[test]
fn rows_that_are_all_open_carry_more_under_overload() {
    for controller in [&[][..], &["machine.dram.controller.order=fcfs"], &["machine.dram.controller.order=fr-fcfs=16"]]
    {
        let base = ["machine.cores=8", "traffic.load=1", "buffer.allocation=cells", "buffer.shuffled=true"];
        let sent = |set: &[&str]| run(&[&base[..], controller, set].concat(), 4000).0.sent;
        let (real, ideal) = (sent(&[]), sent(&["machine.dram.all_hits=true"]));
        // Without a controller DRAM may be fast enough either way.
        let more = if controller.is_empty() { 0 } else { real / 20 };
        assert!(ideal >= real + more, "{controller:?}: {ideal} of 4000, {real} with rows");
    }
}

#[test]
fn the_nic_waits_less_for_memory_that_cores_load_where_output_goes_first() {
    let base = [
        "machine.cores=2",
        "traffic.load=0.1",
        "machine.dram.controller.order=fr-fcfs=16",
        r#"neighbours=[{name="load", cores=6, working_set="512 MiB"}]"#,
    ];
    let waits = |set: &[&str]| {
        let (ends, _) = run(&[&base[..], set].concat(), 2000);
        ends.memory.as_ns() / ends.sent as f64
    };
    let (plain, first) = (waits(&[]), waits(&["machine.dram.controller.output_first=true"]));
    assert!(first < plain, "{first} ns of {plain} ns");
}

#[test]
fn tails_gather_writes_answer_cores_and_what_is_sent_soon_never_reaches_dram() {
    let base = ["machine.cores=1", "traffic.load=0.05", "buffer.allocation=linear", "buffer.size=4 MiB"];
    let with = |set: &[&str]| {
        let (ends, server) = run(&[&base[..], set].concat(), 1500);
        assert_eq!(ends.sent, 1500);
        (server.memory().tails(), server.memory().dram_counters(), ends)
    };
    let (none, plain, _) = with(&[]);
    assert_eq!(none, None);
    // Four lines are full before the packet is on its way out.
    let (four, _, _) = with(&["nic.cache_cells=4"]);
    let four = four.unwrap();
    assert!(four.gathered > four.written / 2 && four.to_cores > 0, "{four:?}");
    // 256 KiB hold a packet longer than the server does.
    let (large, few, _) = with(&["nic.cache_cells=4096"]);
    let large = large.unwrap();
    assert!(large.bypassed > large.written / 2, "{large:?}");
    // The line of the TTL is loaded, and then stored to: from then on the core has it alone.
    assert!(large.replaced >= 1500, "{large:?}");
    assert!(few.reads + few.writes < (plain.reads + plain.writes) / 2, "{few:?} of {plain:?}");
    // With ways for devices the LLC takes what they write.
    let (ways, _, _) = with(&["nic.cache_cells=4", "machine.llc.io_ways=0x600"]);
    assert_eq!(ways.unwrap().written, 0);
}

#[test]
fn a_driver_that_touches_fresh_mbufs_fetches_their_lines_when_it_posts_them() {
    const PACKETS: u64 = 2000;
    // Each mbuf is used once, so that all its lines are cold, and none is freed.
    let cold = ["machine.cores=1", "nic.ports=1", "traffic.load=0.05", "mempool.cache=0", "nic.tx_descriptors=4096"];
    let read = |refill: &str| {
        let (ends, server) = run(&[&cold[..], &[refill]].concat(), PACKETS);
        assert_eq!(ends.sent, PACKETS);
        server.memory().dram_counters().reads
    };
    let computed = read("nic.refill=computed");
    let more = |refill: &str| read(refill) - computed;
    // The first line is fetched in any case, when the packet's fields are written; what is posted at the end is fetched
    // for nothing. The second line is written by one path only.
    let (read, written) = (more("nic.refill=read"), more("nic.refill=written"));
    assert!(read <= 128, "{read} of {PACKETS}");
    assert!((PACKETS - 128..PACKETS + 256).contains(&written), "{written} of {PACKETS}");
}

#[test]
fn a_doorbell_is_rung_for_each_refill_and_for_each_port_of_a_burst() {
    const PACKETS: u64 = 2000;
    let rung = |ports: &str| {
        let (ends, server) = run(&["machine.cores=1", ports, "traffic.load=0.05"], PACKETS);
        assert_eq!(ends.sent, PACKETS);
        let core = server.cores()[0];
        assert!(core.bursts > PACKETS / 4, "bursts are short");
        core.doorbells - core.bursts - PACKETS / 32
    };
    assert_eq!(rung("nic.ports=1"), 0);
    let more = rung("nic.ports=2");
    assert!(0 < more && more < PACKETS, "{more}: some bursts go to both ports");
}

#[test]
fn a_core_is_busy_for_as_long_as_its_doorbells_take() {
    const PACKETS: u64 = 2000;
    let busy = |more: &[&str]| {
        let light = ["machine.cores=1", "nic.ports=1", "traffic.load=0.005"];
        let core = run(&[&light[..], more].concat(), PACKETS).1.cores()[0];
        (core.busy, core.doorbells)
    };
    let ((without, rung), (with, _)) = (busy(&[]), busy(&["nic.doorbell=200 ns"]));
    let (longer, closed_form) = ((with - without).as_ns(), rung as f64 * 200.0);
    assert!((longer / closed_form - 1.0).abs() < 0.02, "{longer} ns, and {rung} doorbells take {closed_form} ns");
}

#[test]
fn what_does_not_go_together_is_an_error_that_says_what_to_do() {
    let error = |set: &[&str]| server(set, 1).map(|_| ()).unwrap_err();
    assert!(error(&["nic.output_block=0"]).contains("nic.output_block = 0: allowed is 1 to 1024 lines"));
    assert!(error(&["nic.cache_cells=5000"]).contains("nic.cache_cells = 5000: allowed is 0 to 4096 lines"));
    let order = "machine.dram.controller.order=fcfs";
    // Output has a queue only where there is a controller, which needs a standard.
    let plain = Overrides { set: vec!["machine.dram.controller.output_first=true".into()], ..Overrides::default() };
    let scenario = Scenario::read("", "test", &plain).map_err(|e| e.to_string());
    let built = scenario.and_then(|s| {
        machine::memory::Hierarchy::new(&s.machine.memory(), 1, "machine").map(|_| ()).map_err(|e| e.to_string())
    });
    assert!(built.unwrap_err().contains("machine.dram.controller = no standard: allowed is with dram.standard"));
    let halves = error(&[order, "machine.dram.controller.halves=3 MiB"]);
    assert!(halves.contains("machine.dram.controller.halves"), "{halves}");
    let queue = error(&["machine.dram.controller.queue=60", "machine.dram.controller.output_first=true"]);
    assert!(queue.contains("machine.dram.controller.output_first"), "{queue}");
}

#[test]
fn tails_of_one_line_take_the_time_of_none() {
    for controller in [&[][..], &["machine.dram.controller.order=fr-fcfs=16"]] {
        let base = ["machine.cores=2", "traffic.load=0.8", "buffer.allocation=cells"];
        let last = |set: &[&str]| run(&[&base[..], controller, set].concat(), 2000).0;
        let (none, one) = (last(&["nic.output_block=1024"]), last(&["nic.output_block=1024", "nic.cache_cells=1"]));
        assert_eq!(none.sent, one.sent, "{controller:?}");
        assert_eq!(none.last, one.last, "{controller:?}");
    }
}

#[test]
fn a_block_that_is_longer_than_the_cache_goes_on_to_no_other_packet() {
    let quick = "machine.core.packet_stall=0 ns";
    let base = ["machine.cores=1", quick, "traffic.load=0.9", "traffic.sizes.fixed=256", "nic.ports=2"];
    let runs = |set: &[&str]| {
        let reads = run(&[&base[..], set].concat(), 1500).0.reads;
        reads.into_iter().map(|(_, lines)| lines).collect::<Vec<u64>>()
    };
    for set in [&["nic.output_block=1024"][..], &["nic.output_block=1024", "nic.cache_cells=2"]] {
        let read = runs(set);
        // A packet of 252 bytes without its check sum.
        assert!(read.len() > 500 && read.iter().all(|&lines| lines == 4), "{set:?}: {} runs, {read:?}", read.len());
    }
    // A block that the cache has room for goes on.
    assert!(runs(&["nic.output_block=2", "nic.cache_cells=2"]).iter().any(|&lines| lines != 4));
}
