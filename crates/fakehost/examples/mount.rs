//! A machine to try `wirespeedd` and `pqos` on: mounts it in a folder, with a program that receives packets, and writes a
//! configuration that fits. Its time goes as the clock on the wall does. Ends with the first line on standard input.
//!
//! `cargo run --release -p wirespeed-fakehost --features fuse --example mount -- FOLDER [no-effect | amd | pqos] [mean-field]`
//!
//! With `pqos` it has as many processors as this machine, since pqos asks the system for them. What runs on it is the simulated
//! server (`sim`); with `mean-field` a small model in its place, which takes next to no time.

use std::path::PathBuf;
use std::process::ExitCode;

use fakehost::{
    CounterServer, FakeHost, HostProgram, Mounted, Register, Simulated, SimulatedSpec, Spec, TelemetryServer,
};
use units::Ps;

/// Between two moves of the machine's time.
const TICK: std::time::Duration = std::time::Duration::from_millis(100);

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next().map(PathBuf::from) else {
        eprintln!("mount FOLDER [no-effect | amd | pqos] [mean-field]: name a folder that is there");
        return ExitCode::from(2);
    };
    let mut words: Vec<String> = arguments.collect();
    let in_mean_field = words.last().is_some_and(|w| w == "mean-field");
    words.truncate(words.len() - usize::from(in_mean_field));
    if let Some(more) = words.get(1) {
        eprintln!("{more}: allowed is one of no-effect, amd and pqos, and mean-field at the end");
        return ExitCode::from(2);
    }
    let kind = words.first().map(String::as_str);
    let spec = match kind {
        None => Spec::default(),
        Some("no-effect") => Spec { register: Register::NoEffect, ..Spec::default() },
        Some("amd") => Spec::amd(),
        Some("pqos") => {
            let cpus = std::thread::available_parallelism().map_or(2, |n| n.get() as u32);
            Spec { domains: 1, cpus: cpus.max(2), ..Spec::default() }
        }
        Some(other) => {
            eprintln!("{other}: allowed are no-effect, amd and pqos, and mean-field at the end");
            return ExitCode::from(2);
        }
    };
    let host = if in_mean_field {
        FakeHost::new(spec)
    } else {
        // Where its own processors are not there the neighbour is on the first.
        let beside = if HostProgram::beside().cpus.iter().all(|&cpu| cpu < spec.cpus) {
            HostProgram::beside()
        } else {
            HostProgram { cpus: vec![0], ..HostProgram::beside() }
        };
        let plant = SimulatedSpec { programs: vec![HostProgram::receiving(), beside], ..SimulatedSpec::default() };
        match Simulated::new(plant, spec.ways, spec.rmids) {
            Ok(plant) => FakeHost::with_plant(spec, Box::new(plant)),
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::from(1);
            }
        }
    };
    match serve(&folder, host) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{}: {why} (FUSE needs /dev/fuse, and root or fusermount3)", folder.display());
            ExitCode::from(1)
        }
    }
}

fn serve(folder: &std::path::Path, host: FakeHost) -> std::io::Result<()> {
    let folder = folder.canonicalize()?;
    let at = folder.join("machine");
    std::fs::create_dir_all(&at)?;
    let clock = host.clone();
    std::thread::spawn(move || {
        let mut last = std::time::Instant::now();
        loop {
            std::thread::sleep(TICK);
            let now = std::time::Instant::now();
            clock.advance(Ps::from_ns((now - last).as_nanos() as u64));
            last = now;
        }
    });
    let _mounted = Mounted::at(&host, &at)?;
    let socket = folder.join("dpdk_telemetry.v2");
    let _telemetry = TelemetryServer::start(&host, &socket)?;
    let counters = CounterServer::start(&host)?;
    let config = folder.join("wirespeedd.toml");
    let (folder, at) = (folder.display(), at.display());
    let text = format!(
        "state = \"{folder}/state\"\n\n[roots]\nresctrl = \"{at}/resctrl\"\ndev_cpu = \"{at}/cpu\"\nproc = \"{at}/proc\"\nsys = \"{at}/sys\"\n\n\
         [[classes]]\nname = \"rx\"\nrole = \"receive\"\ncpus = \"1\"\n\n[telemetry]\nsocket = \"{}\"\n\n\
         [json]\nurl = \"{}\"\nddio_hits = [\"Uncore/IO hits\"]\nddio_misses = [\"Uncore/IO misses\"]\n\
         memory_bytes = [\"Uncore/DRAM bytes\"]\nllc_misses.rx = [\"Cores/0/L3 misses\"]\n\
         llc_lookups.rx = [\"Cores/0/L3 lookups\"]\n",
        socket.display(),
        counters.url()
    );
    std::fs::write(&config, text)?;
    println!("wirespeedd plan --config {}", config.display());
    println!("a line here ends it");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
