//! Packets of the 2003 network processor simulated a second of one core:
//! `cargo run --release -p wirespeed-studies --example netproc_speed [PACKETS]`, the best of three each.

use clock::cpu_seconds;
use studies::netproc::study::{self, Calibration, NetprocRunSpec, PaperColumn, StudySpec};
use studies::netproc::work::NetprocApplication;

#[path = "../../machine/examples/clock/mod.rs"]
mod clock;

/// As the paper's room fits them.
const CALIBRATION: Calibration = Calibration { drain_ns: 1500, in_flight: 92, receive_slots: 10 };

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let packets: u64 = std::env::args().nth(1).map_or(Ok(400_000), |a| a.parse())?;
    let mut speeds = Vec::new();
    for application in [NetprocApplication::L3fwd16, NetprocApplication::Nat, NetprocApplication::Firewall] {
        for system in
            [PaperColumn::RefBase, PaperColumn::OurBase, PaperColumn::Block, PaperColumn::AllPf, PaperColumn::AdaptPf]
        {
            let run = NetprocRunSpec {
                application,
                ..serde_json::from_str(&format!("{{\"system\": {}, \"banks\": 2}}", serde_json::to_string(&system)?))?
            };
            let spec = |packets| StudySpec {
                calibration: CALIBRATION,
                runs: vec![run.clone()],
                trace_packets: 20_000,
                warm_up: 1,
                packets,
                seeds: 1,
                seed: 0,
                window: 16,
            };
            // What a run takes before its first packet is not simulation: the difference of two runs leaves it out.
            // What else the host does only makes a run longer, so the shortest of three is nearest to its own time.
            let time = |packets| -> Result<f64, sim::ScenarioError> {
                let mut best = f64::INFINITY;
                for _ in 0..3 {
                    let start = cpu_seconds();
                    study::run(&spec(packets), |_, _| true)?;
                    best = best.min(cpu_seconds() - start);
                }
                Ok(best)
            };
            let (few, many) = (time(1000)?, time(1000 + packets)?);
            let speed = packets as f64 / (many - few);
            println!("{application:?} {system:?}: {speed:.0} packets/s");
            speeds.push(speed);
        }
    }
    let harmonic = speeds.len() as f64 / speeds.iter().map(|speed| 1.0 / speed).sum::<f64>();
    let lowest = speeds.iter().fold(f64::INFINITY, |a, &b| a.min(b));
    println!("lowest {lowest:.0}, harmonic mean {harmonic:.0} packets/s");
    Ok(())
}
