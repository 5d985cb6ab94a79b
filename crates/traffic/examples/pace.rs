//! How fast tables load and packets are made, on this machine: `cargo run --release --example pace [CAPTURE] [TABLE]`.

use std::time::Instant;

use packet::Packet;
use traffic::{Blueprint, Capture, Load, SourceSpec, Table};
use units::{PacketRate, Quantity};

fn main() -> Result<(), traffic::TrafficError> {
    let mut arguments = std::env::args().skip(1);
    let (capture, table) = (arguments.next(), arguments.next());

    let start = Instant::now();
    let table = match &table {
        Some(path) => Table::open(path)?,
        None => Table::synthetic(1, Table::FULL_IPV4, 16),
    };
    println!("table: {} routes in {:.3} s", table.routes.len(), start.elapsed().as_secs_f64());

    let mut specs = vec![];
    for (name, _) in traffic::SHIPPED_PROFILES {
        specs.push((name.to_string(), SourceSpec { profile: Some(name.to_string()), ..Default::default() }));
    }
    if let Some(path) = capture {
        let start = Instant::now();
        let mut reader = Capture::open(&path)?;
        let (mut packet, mut n) = (Packet::default(), 0u64);
        while reader.next(&mut packet) {
            n += 1;
        }
        let mpps = n as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("read: {n} packets, {mpps:.2} Mpps");
        specs.push((path.clone(), SourceSpec { capture: Some(path.into()), ..Default::default() }));
    }
    for (name, spec) in specs {
        let start = Instant::now();
        let blueprint = Blueprint::new(&spec, Some(&table))?;
        let resolved = start.elapsed().as_secs_f64();
        let mut source = blueprint.source(1, &Load::Packets(PacketRate::new(10.0)))?;
        let (mut packet, n) = (Packet::default(), 10_000_000u64);
        let start = Instant::now();
        for _ in 0..n {
            source.next(&mut packet);
        }
        let mpps = n as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("{name}: resolved in {resolved:.3} s, {mpps:.1} Mpps made, last at {}", packet.arrival);
    }
    Ok(())
}
