//! Runs an experiment of copies given as JSON:
//! `cargo run --release -p wirespeed-sim --example copies -- '{"method": {"by": "table"}, "workload": {"kind": "receive"}}'`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::env::args().nth(1).ok_or("an experiment as JSON is wanted")?;
    let begun = std::time::Instant::now();
    let found = sim::copies::run_json(&text)?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{}", serde_json::to_string_pretty(&found)?);
    println!("{:.1} million accesses a second", found["accesses"].as_f64().unwrap_or(0.0) / seconds / 1e6);
    Ok(())
}
