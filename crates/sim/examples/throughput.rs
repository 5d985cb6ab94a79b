//! Packets simulated a second on this host: `cargo run --release --example throughput [SCENARIO] [PATH=VALUE]...`

use sim::scenario::{SCENARIOS, find};
use sim::{Overrides, Scenario};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).peekable();
    let name = args.next_if(|a| !a.contains('=')).unwrap_or_else(|| SCENARIOS[0].name.into());
    let preset = find(SCENARIOS, &name).ok_or("no such scenario")?;
    let mut set = vec!["run.curve=[]".to_string()];
    set.extend(args);
    let scenario = Scenario::read(preset.text, preset.name, &Overrides { set, ..Overrides::default() })?;
    let result = sim::run(&scenario, sim::RunOptions { threads: 1, ..Default::default() }, &mut |_| true)?;
    let m = &result.measured.measure;
    println!(
        "{} packets in {:.2} s (load {:.2} s): {:.2} M/s, lost {:?}, rejected {:?}, mean {:.0} ns, unattributed {} ps",
        result.measured.simulated,
        result.wall_s,
        result.load_s,
        result.measured.simulated as f64 / result.wall_s / 1e6,
        m.lost,
        m.rejected,
        m.sojourn.mean().value / 1e3,
        m.unattributed,
    );
    for (reason, time) in m.attribution.iter().filter(|(_, t)| t.0 > 0) {
        println!("{:>14} {:10.1} ns", reason.name(), time.as_ns() / m.carried.packets as f64);
    }
    println!("{:?}\n{:?}", result.measured.counts.memory, result.measured.counts.dram);
    for core in &result.measured.counts.cores {
        println!(
            "{core:?} busy {:.3} instr/pkt {:.1} ns/pkt {:.1}",
            core.busy.as_secs() / result.measured.counts.span.as_secs(),
            core.instructions as f64 / core.packets as f64,
            core.busy.as_ns() / core.packets as f64
        );
    }
    for interval in &result.measured.control {
        println!("{interval:?}");
    }
    Ok(())
}
