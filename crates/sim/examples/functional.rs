//! The functional way beside detail: packets a second on this host, and what a stretch of each finds in caches, rings and
//! mbufs: `cargo run --release --example functional [SCENARIO] [PATH=VALUE]...`. `PACKETS` says how many of each.
//!
//! `BEFORE` says after how many both begin, and `ONLY=detail` or `ONLY=functional` makes one of them alone, for a profiler.
//!
//! Both begin with the same server, after as many packets in detail.

use std::sync::Arc;
use std::time::Instant;

use engine::Seed;
use sim::load::{Stock, load};
use sim::scenario::{SCENARIOS, find};
use sim::server::{Departure, DepartureObserver, Pause, Server};
use sim::{Overrides, Scenario};
use units::Ps;

struct Nobody;

impl DepartureObserver for Nobody {
    fn departure(&mut self, _: &Departure) {}
}

/// What is seen in a stretch of a server, a number a column.
fn stretch(server: &mut Server, packets: u64) -> Vec<(&'static str, f64)> {
    /// Times a stretch is looked at.
    const LOOKS: u64 = 100;
    let began = Instant::now();
    let (memory, dram, lost) = (server.memory().counters(), server.memory().dram_counters(), server.lost());
    let (cores, from, first) = (server.cores(), server.now(), server.offered());
    let (mut waiting, mut sending) = (0.0, 0.0);
    for look in 1..=LOOKS {
        let pause = Pause { offered: first + packets * look / LOOKS, at: Ps::MAX };
        while server.offered() < pause.offered && server.advance(20_000, pause, &mut Nobody) {}
        waiting += server.ring_occupancy() as f64 / LOOKS as f64;
        sending += server.mbufs().sending as f64 / LOOKS as f64;
    }
    let seconds = began.elapsed().as_secs_f64();
    let did = server.memory().counters() - memory;
    let reads = server.memory().dram_counters().reads - dram.reads;
    let each = (server.offered() - first) as f64;
    let busy: f64 = server.cores().iter().zip(&cores).map(|(to, from)| (to.busy - from.busy).as_secs()).sum();
    let bursts: u64 = server.cores().iter().zip(&cores).map(|(to, from)| to.bursts - from.bursts).sum();
    vec![
        ("M packets/s", each / seconds / 1e6),
        ("busy", busy / (server.now() - from).as_secs() / cores.len() as f64),
        ("packets a burst", each / bursts as f64),
        ("lost", (server.lost() - lost) as f64 / each),
        ("LLC hits", did.llc.hits as f64 / did.llc.lookups() as f64),
        ("DDIO hits", did.dma_write.hits as f64 / did.dma_write.lookups() as f64),
        ("DMA read hits", did.dma_read.hits as f64 / did.dma_read.lookups() as f64),
        ("DRAM reads a packet", reads as f64 / each),
        ("in rings", waiting),
        ("mbufs sending", sending),
    ]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).peekable();
    let name = args.next_if(|a| !a.contains('=')).unwrap_or_else(|| SCENARIOS[0].name.into());
    let preset = find(SCENARIOS, &name).ok_or("no such scenario")?;
    let packets = std::env::var("PACKETS").ok().map_or(Ok(200_000), |n| n.parse())?;
    let overrides = Overrides { set: args.collect(), ..Overrides::default() };
    let scenario = Scenario::read(preset.text, preset.name, &overrides)?;
    let loaded = load(std::slice::from_ref(&scenario), &Arc::new(Stock::new()), &mut |_| true)?.remove(0);
    let source = loaded.blueprint.source(7, &scenario.traffic.offered(scenario.nic.rate))?;
    let seed = Seed(scenario.run.seed);
    let mut server = Server::new(&scenario, loaded.function.clone(), source, u64::MAX, seed)?;
    let before = std::env::var("BEFORE").ok().map_or(Ok(packets), |n| n.parse())?;
    stretch(&mut server, before);
    let mut functional = server.clone();
    functional.set_functional(true);
    // A profiler wants one of them alone.
    let only = std::env::var("ONLY").unwrap_or_default();
    let detail = if only == "functional" { Vec::new() } else { stretch(&mut server, packets) };
    let other = if only == "detail" { Vec::new() } else { stretch(&mut functional, packets) };
    if !only.is_empty() {
        for (name, a) in detail.iter().chain(&other) {
            println!("{name:<22}{a:>12.4}");
        }
        return Ok(());
    }
    println!("{:<22}{:>12}{:>12}", "", "detail", "functional");
    for ((name, a), (_, b)) in detail.iter().zip(&other) {
        println!("{name:<22}{a:>12.4}{b:>12.4}");
    }
    Ok(())
}
