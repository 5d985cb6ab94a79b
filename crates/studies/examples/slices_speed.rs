//! Requests of the slices model simulated a CPU second, at the paper's sizes and at real ones:
//! `cargo run --release -p wirespeed-studies --example slices_speed [paper|small|large] [REQUESTS]`

use std::time::Instant;

use studies::slices::{Architecture, SlicesPoint, SlicesSpec};

/// As `papers/2020-access-korikawa/study.toml` has them.
const REAL: &str = "[caches.l1]\nbytes = 65536\nways = 8\nper_us = 800\n[caches.l2]\nbytes = 524288\nways = 16\nper_us = 400\n\
    [caches.slice]\nbytes = 1048576\nways = 16\nper_us = 80\n[caches.shared]\nbytes = 29360128\nways = 16\nper_us = 80\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let sizes = arguments.next().unwrap_or("paper".into());
    let requests: u64 = arguments.next().map_or(Ok(2_000_000), |a| a.parse())?;
    for architecture in [Architecture::Proposed, Architecture::NoLlc, Architecture::SharedLlc] {
        let mut spec = SlicesSpec::read(if sizes == "paper" { "" } else { REAL })?;
        spec.architecture = architecture;
        match sizes.as_str() {
            "small" => spec.applications[0].entries = 1 << 24,
            "large" => spec.applications[0].entries = 1 << 27,
            _ => {}
        }
        // What a run takes before its first packet is not simulation: the difference of two runs leaves it out.
        let time = |requests| -> Result<f64, studies::slices::SlicesError> {
            let start = Instant::now();
            let point = SlicesPoint { spec: SlicesSpec { requests, ..spec.clone() }, seed: 1, runs: 1 };
            let found =
                point.run(&[], &mut || true)?.ok_or(studies::slices::SlicesError::Text("nobody stops it".into()))?;
            if requests > 1_000 {
                println!("{architecture:?}: {:.3} ns, {:.3} Gbps", found.wait_ns.value, found.throughput_gbps.value);
            }
            Ok(start.elapsed().as_secs_f64())
        };
        let (few, many) = (time(1_000)?, time(1_000 + requests)?);
        println!("{architecture:?}: {:.2}M requests/s", requests as f64 / (many - few) / 1e6);
    }
    Ok(())
}
