//! Packets of the 2003 network processor simulated a second of wall time on one core:
//! `cargo run --release -p wirespeed-sim --example netproc_speed [PACKETS]`

use std::time::Instant;

use sim::netproc::study::{self, Calibration, RunSpec, StudySpec, System};
use sim::netproc::work::Application;

/// As the paper's room fits them.
const CALIBRATION: Calibration =
    Calibration { t_rp: 2, t_rcd: 4, handshake: 180, drain_ns: 1500, in_flight: 100, receive_slots: 3 };

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let packets: u64 = std::env::args().nth(1).map_or(Ok(400_000), |a| a.parse())?;
    for application in [Application::L3fwd16, Application::Nat, Application::Firewall] {
        for system in [System::RefBase, System::OurBase, System::Block, System::AllPf, System::AdaptPf] {
            let run = RunSpec {
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
            let time = |packets| -> Result<f64, sim::ScenarioError> {
                let start = Instant::now();
                study::run(&spec(packets), |_, _| true)?;
                Ok(start.elapsed().as_secs_f64())
            };
            let (few, many) = (time(1000)?, time(1000 + packets)?);
            println!("{application:?} {system:?}: {:.0} packets/s", packets as f64 / (many - few));
        }
    }
    Ok(())
}
