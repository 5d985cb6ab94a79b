//! Runs an experiment of copies given as JSON:
//! `cargo run --release -p wirespeed-sim --example copies -- '{"method": {"by": "table"}, "workload": {"kind": "receive"}}'`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::env::args().nth(1).ok_or("an experiment as JSON is wanted")?;
    let begun = cpu_seconds()?;
    let found = sim::copies::run_json(&text)?;
    let seconds = cpu_seconds()? - begun;
    println!("{}", serde_json::to_string_pretty(&found)?);
    println!("{:.1} million accesses a second of CPU time", found["accesses"].as_f64().unwrap_or(0.0) / seconds / 1e6);
    Ok(())
}

/// CPU time of this thread: what others take of a shared host does not count.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split(' ').next().ok_or("no time in schedstat")?.parse::<f64>()? / 1e9)
}
