//! A machine to try `wirespeedd` and `pqos` on: mounts it in a folder, with a program that receives packets, and writes a
//! configuration that fits. Ends with the first line on standard input.
//!
//! `cargo run --release -p wirespeed-fakehost --example mount -- FOLDER [no-effect | amd | pqos]`
//!
//! With `pqos` it has as many processors as this machine, since pqos asks the system for them.

use std::path::PathBuf;
use std::process::ExitCode;

use fakehost::{CounterServer, FakeHost, Mounted, Register, Spec, TelemetryServer};
use units::Ps;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next().map(PathBuf::from) else {
        eprintln!("mount FOLDER [no-effect | amd | pqos]: name a folder that is there");
        return ExitCode::from(2);
    };
    let spec = match arguments.next().as_deref() {
        None => Spec::default(),
        Some("no-effect") => Spec { register: Register::NoEffect, ..Spec::default() },
        Some("amd") => Spec::amd(),
        Some("pqos") => {
            let cpus = std::thread::available_parallelism().map_or(2, |n| n.get() as u32);
            Spec { domains: 1, cpus: cpus.max(2), ..Spec::default() }
        }
        Some(other) => {
            eprintln!("{other}: allowed are no-effect, amd and pqos");
            return ExitCode::from(2);
        }
    };
    match serve(&folder, spec) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{}: {why} (FUSE needs /dev/fuse, and root or fusermount3)", folder.display());
            ExitCode::from(1)
        }
    }
}

fn serve(folder: &std::path::Path, spec: Spec) -> std::io::Result<()> {
    let folder = folder.canonicalize()?;
    let at = folder.join("machine");
    std::fs::create_dir_all(&at)?;
    let host = FakeHost::new(spec);
    // Each reading of the counters is a second of the machine's time.
    host.set_pace(Ps(1_000_000_000_000));
    let _mounted = Mounted::at(&host, &at)?;
    let socket = folder.join("dpdk_telemetry.v2");
    let _telemetry = TelemetryServer::start(&host, &socket)?;
    let counters = CounterServer::start(&host)?;
    let config = folder.join("wirespeedd.toml");
    let (folder, at) = (folder.display(), at.display());
    let text = format!(
        "state = \"{folder}/state\"\n\n[roots]\nresctrl = \"{at}/resctrl\"\ndev_cpu = \"{at}/cpu\"\nproc = \"{at}/proc\"\n\n\
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
