//! What a prediction takes on this host, in CPU time: input, profile, closed forms:
//! `cargo run --release -p wirespeed-sim --example predict_speed [SCENARIO] [PATH=VALUE]...`

use clock::cpu_seconds;
use sim::run::predict::{Profile, load_one};
use sim::scenario::{SCENARIOS, find};
use sim::{Overrides, Scenario};

#[path = "../../machine/examples/clock/mod.rs"]
mod clock;

const SOLVED: u32 = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).peekable();
    let name = args.next_if(|a| !a.contains('=')).unwrap_or_else(|| SCENARIOS[0].name.into());
    let preset = find(SCENARIOS, &name).ok_or("no such scenario")?;
    let scenario =
        Scenario::read(preset.text, preset.name, &Overrides { set: args.collect(), ..Overrides::default() })?;
    let begun = cpu_seconds();
    let loaded = load_one(&scenario)?;
    let read = cpu_seconds();
    let profile = Profile::new(&scenario, &loaded)?;
    let profiled = cpu_seconds();
    for n in 1..=SOLVED {
        profile.predict(Some(f64::from(n) / f64::from(SOLVED)))?;
    }
    let solved = cpu_seconds();
    println!(
        "{name}: input {:.1} ms, profile {:.1} ms, closed forms {:.1} us a load",
        (read - begun) * 1e3,
        (profiled - read) * 1e3,
        (solved - profiled) * 1e6 / f64::from(SOLVED),
    );
    Ok(())
}
