//! The server over small scenarios: packets are conserved, sojourns are accounted for to the picosecond. What is drawn is in `draws`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use engine::Seed;
use functions::{Forward, Function, NextHop, Vhost};
use sim::server::{Departure, DepartureObserver, PacketFate, Pause, Server};
use sim::{Overrides, Scenario};
use traffic::{Blueprint, Table};
use units::Ps;

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::synthetic(1, 2_000, 8));
static FORWARDING: LazyLock<[Forward; 2]> = LazyLock::new(|| {
    [1, 2].map(|ports| {
        let routes = TABLE.routes.iter().map(|r| (r.prefix, NextHop::new(r.next_hop.unwrap()).unwrap()));
        Forward::new(routes, ports, &Default::default()).unwrap()
    })
});

/// What became of a packet, with its sojourn and what that was spent on in all.
type End = (u64, Ps, PacketFate, Ps, Ps);

#[derive(Default)]
struct Ends {
    all: Vec<End>,
}

impl DepartureObserver for Ends {
    fn departure(&mut self, d: &Departure) {
        self.all.push((d.packet.0, d.arrival, d.fate, d.sojourn, d.attribution.total()));
    }
}

fn scenario(set: &[String]) -> Scenario {
    let quick = ["traffic.flows.count=500", "traffic.flows.new_share=0.01", "mempool.size=4096", "mempool.cache=32"];
    let set = quick.iter().map(|s| s.to_string()).chain(set.iter().cloned()).collect();
    Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap()
}

fn server(scenario: &Scenario, offer: u64) -> Server {
    let blueprint = Blueprint::new(&scenario.traffic.source(), Some(&TABLE)).unwrap();
    let source = blueprint.source(scenario.run.seed, &scenario.traffic.offered(scenario.nic.rate)).unwrap();
    let forward = FORWARDING[usize::from(scenario.nic.ports) - 1].clone();
    let function = match &scenario.function.copy {
        Some(copy) => Function::Vhost(Vhost::new(copy, forward).unwrap()),
        None => Function::Forward(forward),
    };
    Server::new(scenario, function, source, offer, Seed(scenario.run.seed)).unwrap()
}

/// Runs to the end; checks what holds of every run.
fn ends(scenario: &Scenario, offer: u64) -> Ends {
    let mut server = server(scenario, offer);
    let mut ends = Ends::default();
    let pause = Pause { offered: u64::MAX, at: Ps::MAX };
    while server.advance(1_000, pause, &mut ends) {
        assert!(ends.all.len() as u64 <= server.offered(), "more packets have ended than were offered");
    }
    assert_eq!(server.offered(), offer);
    assert_eq!(server.ring_occupancy(), 0, "nothing is left inside");
    let mut ids: Vec<u64> = ends.all.iter().map(|e| e.0).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..offer), "each packet ends once");
    for (id, _, fate, sojourn, total) in &ends.all {
        assert_eq!(sojourn, total, "packet {id}: what its sojourn was spent on");
        assert_eq!(matches!(fate, PacketFate::Sent(_)), *sojourn > Ps::ZERO, "packet {id}");
    }
    ends
}

fn tally(ends: &Ends) -> BTreeMap<&'static str, usize> {
    let mut tally = BTreeMap::new();
    for (_, _, fate, ..) in &ends.all {
        let name = match fate {
            PacketFate::Sent(_) => "sent",
            PacketFate::Rejected(reason) => reason.name(),
            PacketFate::Lost(loss) => loss.name(),
        };
        *tally.entry(name).or_default() += 1;
    }
    tally
}

fn set(text: &str) -> Vec<String> {
    text.split_whitespace().map(|s| s.replace('_', " ").replace("--", "_")).collect()
}

#[test]
fn packets_are_conserved_whatever_they_are_lost_for() {
    // Underscores stand for blanks here, two dashes for an underscore.
    for (reason, settings) in [
        ("no_rx_descriptor", "machine.cores=1 machine.core.frequency=0.8_GHz nic.rx--descriptors=64 traffic.load=0.9"),
        // The transmit queue can hold all of the pool's mbufs, and gives none back before it is nearly full.
        (
            "no_mbuf",
            "machine.cores=1 nic.ports=1 nic.rx--descriptors=512 nic.tx--descriptors=2048 mempool.size=600 \
             mempool.cache=0 traffic.load=0.3",
        ),
        ("no_buffer", "nic.rx--descriptors=512 buffer.size=16_KiB traffic.load=0.9"),
        ("nic_fifo_full", "nic.rx--descriptors=512 nic.pcie.rate=4_Gbps nic.fifo=4_KiB traffic.load=0.5"),
        (
            "no_tx_descriptor",
            "machine.cores=1 nic.ports=1 nic.rx--descriptors=1024 nic.tx--descriptors=32 nic.pcie.latency=20_us \
             traffic.load=0.3",
        ),
        (
            "queue_full",
            "machine.cores=2 machine.core.frequency=0.8_GHz pipeline={rx--cores=1,queue=64,instructions=0} \
             nic.rx--descriptors=512 traffic.load=0.9",
        ),
        ("no_route", "nic.rx--descriptors=512 traffic.load=0.3 traffic.flows.destinations.pool=[\"203.0.113.0/24\"]"),
    ] {
        let tally = tally(&ends(&scenario(&set(settings)), 20_000));
        assert!(tally.get(reason).is_some_and(|n| *n > 200), "{reason}: {tally:?}");
        assert!(tally.len() <= 3, "{reason}: {tally:?}");
    }
}

#[test]
fn every_allocation_of_the_packet_buffer_carries_the_packets_that_mbufs_do() {
    let usual = tally(&ends(&scenario(&set("nic.rx--descriptors=512 traffic.load=0.3")), 20_000));
    for settings in
        ["fixed buffer.shuffled=true", "cells buffer.shuffled=true", "linear", "piecewise", "cells buffer.cell=128_B"]
    {
        let settings =
            format!("nic.rx--descriptors=512 traffic.load=0.3 buffer.size=4_MiB buffer.allocation={settings}");
        assert_eq!(tally(&ends(&scenario(&set(&settings)), 20_000)), usual, "{settings}");
    }
}

/// Other programs take cache and bandwidth, keep their pace, and end with the packets; what they do is not counted
/// among what is done for packets.
#[test]
fn a_neighbour_takes_cache_and_keeps_its_pace() {
    let run = |settings: &str| {
        let settings = format!("machine.cores=2 nic.rx--descriptors=512 traffic.load=0.3 {settings}");
        let mut server = server(&scenario(&set(&settings)), 20_000);
        let mut ends = Ends::default();
        while server.advance(1_000, Pause { offered: u64::MAX, at: Ps::MAX }, &mut ends) {}
        assert_eq!(ends.all.len(), 20_000);
        server
    };
    let alone = run("");
    let beside = run("neighbours=[{working--set=\"8_MiB\",every=\"10_ns\",chained=0}]");
    let [neighbour] = beside.neighbours()[..] else { panic!("one neighbour") };
    let pace = neighbour.references as f64 / (beside.last_departure().as_ns() / 10.0);
    assert!((0.98..1.02).contains(&pace), "{pace} of its pace");
    let [.., nobody] = alone.llc_lines();
    let [.., others] = beside.llc_lines();
    // 8 MiB are 131,072 lines; an L2 of 1 MiB holds some of them.
    assert!(nobody == 0 && (20_000..=131_072).contains(&others), "{nobody} lines alone, {others} beside");
    let lookups = |server: &Server| server.memory().counters().l1.hits + server.memory().counters().l1.misses;
    assert!((lookups(&alone) as f64 / lookups(&beside) as f64 - 1.0).abs() < 0.01, "its references are its own");
    // In a class of service with one way of eleven it keeps no more than that.
    let mut confined = server(&scenario(&set("machine.cores=2 neighbours=[{working--set=\"8_MiB\"}]")), 20_000);
    let ways = |mask| units::Cbm(mask);
    confined.set_ways(&control::Allocation { io_ways: None, classes: vec![(units::Clos(0), ways(1))] }).unwrap();
    let mut ends = Ends::default();
    while confined.advance(1_000, Pause { offered: u64::MAX, at: Ps::MAX }, &mut ends) {}
    let way = 25_952_256 / 11 / 64;
    assert!((1..=way).contains(&confined.llc_lines()[3]), "{} of {way} lines", confined.llc_lines()[3]);
    // A burst of a third of each period.
    let bursts = run("neighbours=[{working--set=\"16_KiB\",every=\"10_ns\",chained=0,period=\"100_us\",busy=0.3}]");
    let share = bursts.neighbours()[0].references as f64 / (bursts.last_departure().as_ns() / 10.0);
    assert!((0.27..0.33).contains(&share), "busy for {share}");
}

/// Equation 2 of 5GC2ache: every mbuf is in a descriptor, in a queue, on its way out, or free.
#[test]
fn mbufs_are_somewhere() {
    let settings = "machine.cores=3 pipeline={rx--cores=1,queue=64} nic.rx--descriptors=512 traffic.load=0.8";
    let mut server = server(&scenario(&set(settings)), 20_000);
    let mut ends = Ends::default();
    let mut most = [0; 4];
    while server.advance(500, Pause { offered: u64::MAX, at: Ps::MAX }, &mut ends) {
        let m = server.mbufs();
        assert_eq!(m.descriptors + m.queued + m.sending + m.free, 4096, "{m:?}");
        assert!(m.descriptors <= 512, "{m:?}");
        let each = [m.descriptors, m.queued, m.sending, m.free];
        most.iter_mut().zip(each).for_each(|(most, n)| *most = n.max(*most));
    }
    assert!(most.iter().all(|&n| n > 0), "{most:?}");
}

/// A line that is aligned alike on both sides goes to the table, the rest, and all
/// without a table, is loads and stores.
#[test]
fn a_copy_table_takes_the_whole_lines_of_each_packet() {
    let copied = |settings: &str| {
        let settings = format!(
            "traffic.sizes={{\"fixed\"=\"1000_B\"}} traffic.load=0.3 machine.cores=2 function.copy.reads=64 \
             {settings}"
        );
        let mut server = server(&scenario(&set(&settings)), 2_000);
        let mut ends = Ends::default();
        while server.advance(1_000, Pause { offered: u64::MAX, at: Ps::MAX }, &mut ends) {}
        assert_eq!(tally(&ends).len(), 1, "all are sent");
        server.memory().copy_counters()
    };
    // 996 bytes without FCS: 15 lines and an end.
    let table = copied("machine.copy--table={}");
    assert_eq!((table.fills, table.hits > 1_000), (2_000 * 15, true), "{table:?}");
    assert_eq!(copied("").fills, 0);
    assert_eq!(copied("machine.copy--table={} function.copy.offset=12").fills, 0);
}

/// Energy by what reserved banks did beside energy by every command, on the same machine with the same packets and lines
/// in the same banks (a map that spreads lines over bank groups opens more rows, and is another memory). Reads,
/// refreshes and standby are the same but for chance: 5 %. Controllers reorder for open rows and gather writes, and rows
/// of banks that are reserved stay open up to the next refresh: activates and writes within 20 %, all together within 8 %.
#[test]
fn energy_by_reserved_banks_is_that_by_commands() {
    let measured = |load: &str, controller: &str| {
        let settings = format!(
            "machine.cores=2 traffic.load={load} traffic.sizes={{\"fixed\"=\"512_B\"}} machine.dram.standard=ddr4-2666v \
             machine.dram.channels=2 machine.llc.io--ways=0 {controller}"
        );
        let scenario = scenario(&set(&settings));
        let mut server = server(&scenario, 30_000);
        let mut ends = Ends::default();
        while server.advance(10_000, Pause { offered: u64::MAX, at: Ps::MAX }, &mut ends) {}
        let model = scenario.machine.dram.energy("machine.dram").unwrap().unwrap();
        model.of(&server.memory().dram_work(server.now()))
    };
    for load in ["0.05", "0.4"] {
        let [reserved, commands] = ["", "machine.dram.controller.map=permuted:row_rank_group_bank_column"]
            .map(|controller| measured(load, controller));
        let close = |a: f64, b: f64, within: f64| (a / b - 1.0).abs() < within;
        let told = format!("load {load}: {reserved:?} {commands:?}");
        assert!(close(reserved.total(), commands.total(), 0.08), "{told}");
        assert!(close(reserved.read, commands.read, 0.05), "{told}");
        assert!(close(reserved.refresh, commands.refresh, 0.05), "{told}");
        assert!(close(reserved.background, commands.background, 0.05), "{told}");
        assert!(close(reserved.write, commands.write, 0.2), "{told}");
        assert!(close(reserved.activate, commands.activate, 0.2), "{told}");
    }
}

/// Where nothing waits for DRAM but its own latency, controllers and reserved banks are about the same; each line that
/// is missed is read, each victim written.
#[test]
fn controllers_of_commands_do_what_reserved_banks_do_at_low_load() {
    let measured = |controller: &str| {
        let settings = format!(
            "machine.cores=2 traffic.load=0.05 traffic.sizes={{\"fixed\"=\"512_B\"}} machine.dram.standard=ddr4-2400u \
             {controller}"
        );
        let mut server = server(&scenario(&set(&settings)), 30_000);
        let mut ends = Ends::default();
        while server.advance(10_000, Pause { offered: u64::MAX, at: Ps::MAX }, &mut ends) {}
        let sojourn = ends.all.iter().map(|e| e.3.as_ns()).sum::<f64>() / ends.all.len() as f64;
        (sojourn, server.memory().counters(), server.memory().dram_counters())
    };
    let reserved = measured("");
    let commands = measured("machine.dram.controller={}");
    let off = commands.0 / reserved.0 - 1.0;
    assert!(off.abs() < 0.05, "{} against {}", commands.0, reserved.0);
    // Bursts differ a little, and so do the driver's references.
    let close = |a: u64, b: u64| a.abs_diff(b) as f64 <= 0.01 * a.max(b) as f64 + 10.0;
    assert!(close(reserved.1.l1.misses, commands.1.l1.misses), "{:?} {:?}", reserved.1, commands.1);
    assert!(close(reserved.1.llc.misses, commands.1.llc.misses), "{:?} {:?}", reserved.1, commands.1);
    assert!(close(reserved.2.reads, commands.2.reads), "{:?} {:?}", reserved.2, commands.2);
    assert_eq!(commands.2.writes, commands.1.writebacks);
}
