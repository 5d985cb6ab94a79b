//! Runs an experiment of copies given as JSON:
//! `cargo run --release -p wirespeed-studies --example copies -- '{"method": {"by": "table"}, "workload": {"kind": "receive"}}'`.

use clock::cpu_seconds;

#[path = "../../machine/examples/clock/mod.rs"]
mod clock;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::env::args().nth(1).ok_or("an experiment as JSON is wanted")?;
    let begun = cpu_seconds();
    let found = studies::copies::run_json(&text)?;
    let seconds = cpu_seconds() - begun;
    println!("{}", serde_json::to_string_pretty(&found)?);
    println!("{:.1} million accesses a second of CPU time", found["accesses"].as_f64().unwrap_or(0.0) / seconds / 1e6);
    Ok(())
}
