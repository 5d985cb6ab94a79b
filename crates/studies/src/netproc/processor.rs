//! A network processor as a person describes it, a shipped preset or a file with single settings over it, and runs of it.
//!
//! What a description leaves out follows from the rest: ports are the application's, output queues are 16 or more in all, the
//! SDRAM has a clock of 100 MHz beside engines of any, and stacks of buffers and cells begin in random order.

use engine::Seed;
use machine::buffer::PacketBuffer;
use machine::microengines::sdram::Sdram;
use machine::microengines::{MicroenginesSpec, NetworkProcessor};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::study::{interval, summary};
use super::traffic::{NetprocTraffic, wrong};
use super::work::{NetprocApplication, workload};
use sim::ScenarioError;
use sim::scenario::{Preset, apply, find, get_mut, known, with_nearest};

/// Those that are shipped.
pub const PRESETS: &[Preset] =
    &[Preset { name: "ixp1200", text: include_str!("../../../../presets/microengines/ixp1200.toml") }];

/// What goes through it, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSpec {
    /// What packets go through.
    pub application: NetprocApplication,
    /// Where they come from.
    pub traffic: NetprocTraffic,
    /// Packets of a trace, which is repeated as often as needed.
    pub trace_packets: usize,
    /// Packets that leave before anything is measured.
    pub warm_up: u64,
    /// Packets that are measured.
    pub packets: u64,
    /// Runs, with seeds of their own.
    pub seeds: u64,
    /// The first seed.
    pub seed: u64,
    /// References of the window in which rows are counted.
    pub window: usize,
}

impl Default for LoadSpec {
    fn default() -> LoadSpec {
        LoadSpec {
            application: NetprocApplication::default(),
            traffic: NetprocTraffic::Named("edge".into()),
            trace_packets: 20_000,
            warm_up: 10_000,
            packets: 30_000,
            seeds: 5,
            seed: 0,
            window: 16,
        }
    }
}

/// Reads a processor: `text`, or the shipped one of the name `origin`, with `settings` (`path=value`) over it, for
/// `application`.
///
/// # Errors
/// A name that nobody ships, a text that is not TOML, settings that there are not, numbers that cannot be.
pub fn read(
    text: Option<&str>,
    origin: &str,
    settings: &[String],
    application: NetprocApplication,
) -> Result<MicroenginesSpec, ScenarioError> {
    let text = match text {
        Some(text) => text,
        None => find(PRESETS, origin).map(|preset| preset.text).ok_or_else(|| {
            let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            ScenarioError::Preset {
                origin: "presets/microengines".into(),
                path: "processor".into(),
                name: origin.into(),
                known: known(&names, origin),
            }
        })?,
    };
    let mut table: toml::Table = toml::from_str(text)
        .map_err(|e| ScenarioError::Syntax { origin: origin.into(), message: e.to_string().trim_end().to_string() })?;
    settings.iter().try_for_each(|setting| apply(&mut table, setting, false).map(drop))?;
    let given = |table: &mut toml::Table, path: &[&str]| get_mut(table, path).is_some();
    let has_ports = given(&mut table, &["ports"]);
    let has_queues = given(&mut table, &["queues"]);
    let has_clock = given(&mut table, &["sdram", "ticks_per_clock"]);
    let has_order = given(&mut table, &["buffer", "shuffled"]);
    let mut spec: MicroenginesSpec = serde_path_to_error::deserialize(table).map_err(|e| ScenarioError::Value {
        origin: origin.into(),
        path: e.path().to_string(),
        message: with_nearest(&e.into_inner().to_string()),
    })?;
    let usual = MicroenginesSpec::ixp1200(if has_ports { spec.ports } else { application.ports() }).at(spec.mhz);
    spec.ports = usual.ports;
    if !has_queues {
        spec.queues = usual.queues;
    }
    if !has_clock {
        if !spec.mhz.is_multiple_of(100) {
            return Err(ScenarioError::Value {
                origin: origin.into(),
                path: "mhz".into(),
                message: format!(
                    "{}: allowed are multiples of the SDRAM's 100 MHz (or give sdram.ticks_per_clock, engine ticks of a clock)",
                    spec.mhz
                ),
            });
        }
        spec.sdram.ticks_per_clock = usual.sdram.ticks_per_clock;
    }
    if !has_order {
        spec.buffer.shuffled = usual.row_aware(spec.buffer.allocation).buffer.shuffled;
    }
    check(&spec)?;
    Ok(spec)
}

/// Checks all of a processor, before any traffic is read.
fn check(spec: &MicroenginesSpec) -> Result<(), ScenarioError> {
    spec.check("microengines")?;
    PacketBuffer::new(&spec.buffer, "microengines.buffer", |_| 0)?;
    let rows = spec.buffer.size.bytes().div_ceil(spec.sdram.row.bytes().max(1)) as u32;
    Sdram::new(&spec.sdram, "microengines.sdram", rows)?;
    Ok(())
}

/// Runs `spec` under `load`: means over the seeds and half-widths of 95 %. `go_on` is asked after each run.
///
/// # Errors
/// A processor that cannot be, traffic that cannot be read, packets that the processor's buffer does not take.
pub fn run(
    spec: &MicroenginesSpec,
    load: &LoadSpec,
    mut go_on: impl FnMut(u64, u64) -> bool,
) -> Result<Value, ScenarioError> {
    for (name, came, least, most) in [
        ("seeds", load.seeds, 1, 1000),
        ("packets", load.packets, 1, 1_000_000_000),
        ("warm_up", load.warm_up, 0, 1_000_000_000),
    ] {
        if !(least..=most).contains(&came) {
            return Err(wrong(name, &came.to_string(), &format!("{least} to {most}")));
        }
    }
    check(spec)?;
    let mut outcomes = Vec::with_capacity(load.seeds as usize);
    let mut note = String::new();
    for k in 0..load.seeds {
        let seed = Seed(load.seed).child(k).0;
        let packets = load.traffic.packets(load.trace_packets, seed)?;
        let work = workload(load.application, spec.ports, &packets)?;
        note = work.1;
        let mut order = Seed(seed).stream("netproc.buffer");
        let mut machine = NetworkProcessor::new(spec, &work.0, load.window, |n| order.random_range(0..n))?;
        let broken = |e: machine::buffer::NotHeld| wrong("microengines.buffer", &e.to_string(), "cells that are held");
        outcomes.push(machine.run(load.warm_up, load.packets).map_err(broken)?);
        if !go_on(k + 1, load.seeds) {
            return Err(ScenarioError::Stopped { during: "run of the network processor".into() });
        }
    }
    let mut all = summary(spec, &outcomes, &note);
    let mut put = |name: &str, of: &dyn Fn(&machine::microengines::NetprocOutcome) -> f64| {
        let (mean, half_width) = interval(&outcomes.iter().map(of).collect::<Vec<f64>>());
        all.insert(name.into(), json!({ "mean": mean, "half_width": half_width }));
    };
    put("mpps", &|o| o.packets as f64 / o.seconds / 1e6);
    put("engine_idle_input", &|o| o.engine_idle[0]);
    put("engine_idle_output", &|o| o.engine_idle[1]);
    put("stalls_with_room", &|o| o.buffer.stalls_with_room as f64);
    put("discarded", &|o| o.discarded as f64);
    all.insert("schema".into(), json!("wirespeed.microengines/1"));
    all.insert("processor".into(), json!(spec));
    all.insert("load".into(), json!(load));
    Ok(Value::Object(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(settings: &[&str], application: NetprocApplication) -> Result<MicroenginesSpec, ScenarioError> {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        read(None, "ixp1200", &settings, application)
    }

    #[test]
    fn the_preset_is_the_processor_that_the_program_knows() {
        for application in [NetprocApplication::L3fwd16, NetprocApplication::Nat, NetprocApplication::Firewall] {
            assert_eq!(with(&[], application).unwrap(), MicroenginesSpec::ixp1200(application.ports()));
        }
        assert_eq!(with(&["mhz=200"], NetprocApplication::L3fwd16).unwrap(), MicroenginesSpec::ixp1200(16).at(200));
    }

    #[test]
    fn settings_make_every_system_of_the_paper_and_others() {
        let reference = [
            "buffer.allocation=fixed",
            "buffer.pools=2",
            "sdram.queues=bank_parity",
            "sdram.output_first=true",
            "sdram.precharge=eager",
            "sdram.map=halves",
        ];
        assert_eq!(with(&reference, NetprocApplication::L3fwd16).unwrap(), MicroenginesSpec::ixp1200(16).reference());
        // The reference controller with prefetch, which the paper does not have.
        let prefetching =
            with(&[&reference[..], &["sdram.prefetch=true"]].concat(), NetprocApplication::L3fwd16).unwrap();
        assert!(prefetching.sdram.prefetch && prefetching.sdram.output_first);
    }

    #[test]
    fn ports_and_one_bank_can_be_set_for_every_application() {
        use NetprocApplication::{Firewall, L3fwd16, Nat};
        for (application, ports) in [(L3fwd16, 4), (L3fwd16, 1), (Nat, 4), (Firewall, 1)] {
            let spec = with(&[&format!("ports={ports}"), "sdram.banks=1"], application).unwrap();
            let load = LoadSpec {
                application,
                trace_packets: 500,
                warm_up: 200,
                packets: 500,
                seeds: 1,
                ..LoadSpec::default()
            };
            let found = run(&spec, &load, |_, _| true).unwrap();
            assert!(found["gbps"]["mean"].as_f64().unwrap() > 0.1, "{application:?} {ports}: {found}");
            let packets = load.traffic.packets(500, 0).unwrap();
            let works = workload(application, ports, &packets).unwrap().0.works;
            let used: std::collections::BTreeSet<u16> = works.iter().filter_map(|work| work.port).collect();
            assert_eq!(used.len(), ports as usize, "{application:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_path_value_and_remedy() {
        for (setting, words) in [
            ("queues=8", "queues = 8 for 16 ports"),
            ("buffer.page=32 B", "page = 32 B with cells of 64 B"),
            ("buffer.longest=4 KiB", "packets of up to 4096 bytes, a page of 2048 bytes"),
            ("buffer.size=1 KiB", "1 KiB in 1 pools with pages of 2 KiB"),
            ("buffer.size=64 GiB", "buffer.size"),
            ("sdram.banks=3", "microengines.sdram.banks = 3"),
            ("sdram.queues=odd", "sdram.queues: unknown variant `odd`"),
            ("sdram.prefech=true", "did you mean `prefetch`"),
            ("threads=17", "threads = 17"),
            ("transmit.drain_ns=-1", "transmit.drain_ns"),
            ("sdram.row=100 B", "a power of two"),
            ("cache_cells=3", "cache_cells = 3 cells"),
        ] {
            let error = with(&[setting], NetprocApplication::L3fwd16).unwrap_err().to_string();
            assert!(error.contains(words), "{setting}: {error}");
        }
        let error = read(None, "ixp1201", &[], NetprocApplication::Nat).unwrap_err().to_string();
        assert!(error.contains("did you mean ixp1200"), "{error}");
    }

    #[test]
    fn packets_longer_than_the_buffer_takes_are_refused_with_both_numbers() {
        let spec = with(&["buffer.longest=1000 B"], NetprocApplication::L3fwd16).unwrap();
        let load = LoadSpec { trace_packets: 200, seeds: 1, ..LoadSpec::default() };
        let error = run(&spec, &load, |_, _| true).unwrap_err().to_string();
        assert!(error.contains("1500 bytes: allowed is 1 to 1000 bytes"), "{error}");
    }

    #[test]
    fn idle_shares_and_half_widths_are_there() {
        let spec = with(&["sdram.prefetch=true"], NetprocApplication::Firewall).unwrap();
        let load = LoadSpec {
            application: NetprocApplication::Firewall,
            trace_packets: 500,
            warm_up: 200,
            packets: 500,
            seeds: 2,
            ..LoadSpec::default()
        };
        let found = run(&spec, &load, |_, _| true).unwrap();
        let share = |name: &str| found[name]["mean"].as_f64().unwrap();
        assert!(share("gbps") > 1.0);
        let idle = (share("engine_idle_input") * 4.0 + share("engine_idle_output") * 2.0) / 6.0;
        assert!((idle - share("engine_idle")).abs() < 1e-12);
        assert!(found["gbps"]["half_width"].as_f64().unwrap() > 0.0);
    }
}
