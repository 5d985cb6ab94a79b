//! A daemon on a machine that goes wrong: whatever happens, the machine is as it was before, or as documented.

use std::collections::BTreeSet;

use crate::made::{Chance, Situation, no_wait, none_elsewhere, packet_domains, safe_or_before};
use daemon::{Daemon, Effect, IntervalStep, LoopEnd, Metrics, StateFolder, restore};
use fakehost::{FakeHost, Register, Spec};
use units::{Cbm, Ps};

const S: Ps = Ps(1_000_000_000_000);

/// One life of a daemon with random faults; how many, or what went wrong with the machine. A daemon that `restores` nothing is
/// there to see that it is noticed.
fn one_life(seed: u64, restores: bool) -> Result<u64, String> {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9));
    let mut situation = Situation::new(&mut chance);
    let before = situation.host.state();
    let registers = situation.host.registers();
    let (from, packet) = (situation.host.writes().len(), packet_domains(&situation, &before));
    let daemon = situation.start();
    let mut rewritten = BTreeSet::new();
    let mut vanished = BTreeSet::new();
    let mut died = false;
    if let Ok(mut daemon) = daemon {
        for _ in 0..12 + chance.below(30) {
            situation.tick(&mut chance);
            if chance.below(3) == 0 {
                died |= situation.break_something(&mut chance, &mut rewritten, &mut vanished);
            }
            match daemon.step(&mut no_wait) {
                IntervalStep::GoOn => {}
                IntervalStep::End(LoopEnd::GaveUp(_) | LoopEnd::Asked) => break,
            }
            if died && situation.is_dead() {
                break;
            }
        }
        if situation.is_dead() || !restores {
            // A process that was killed puts nothing back.
            drop(daemon);
        } else {
            let _ = daemon.end(&mut no_wait);
        }
    }
    // The next start, on a machine that works again.
    situation.mend();
    let state = StateFolder::lock(&situation.config.state).map_err(|e| e.to_string())?;
    if !restores {
        return safe_or_before(&situation, &before, &registers, &rewritten, &vanished).map(|()| 0);
    }
    restore(&state, &situation.parts, &mut no_wait).map_err(|e| format!("seed {seed}: {e}"))?;
    let again = restore(&state, &situation.parts, &mut no_wait).map_err(|e| e.to_string())?;
    if again != daemon::RestoreReport::default() {
        return Err(format!("seed {seed}: something was left to put back: {again:?}"));
    }
    let bad = situation.host.bad_masks();
    if bad > 0 {
        return Err(format!("seed {seed}: {bad} masks that no cache takes were written"));
    }
    if let Some(packet) = packet {
        none_elsewhere(&situation, from, &packet).map_err(|e| format!("seed {seed}: {e}"))?;
    }
    let judged = safe_or_before(&situation, &before, &registers, &rewritten, &vanished);
    judged.map(|()| situation.broken).map_err(|e| format!("seed {seed}: {e}"))
}

fn lives(seeds: std::ops::Range<u64>) -> u64 {
    let (mut faults, mut wrong) = (0, Vec::new());
    for life in seeds.map(|seed| one_life(seed, true)) {
        match life {
            Ok(n) => faults += n,
            Err(why) => wrong.push(why),
        }
    }
    assert!(wrong.is_empty(), "{} lives: {}", wrong.len(), wrong[..wrong.len().min(5)].join("\n"));
    println!("{faults} faults");
    faults
}

#[test]
fn a_daemon_that_puts_nothing_back_is_noticed() {
    let noticed = (0..60).filter(|seed| one_life(*seed, false).is_err()).count();
    assert!(noticed > 20, "{noticed} of 60: some never start, or have a machine that was as they want it");
}

#[test]
fn after_random_faults_the_machine_is_as_it_was_or_safe() {
    assert!(lives(0..1000) >= 4000);
}

#[test]
#[ignore = "four thousand lives"]
fn after_thousands_of_random_faults_the_machine_is_as_it_was_or_safe() {
    assert!(lives(1000..5000) >= 16_000);
}

#[test]
fn ways_that_somebody_took_meanwhile_are_not_fought_for() {
    let mut situation = Situation::plain(Spec { shareable: Cbm(0), domains: 1, ..Spec::default() });
    let tree = situation.host.tree(fakehost::FileRoot::Resctrl);
    tree.make("wirespeed-rx").unwrap();
    tree.write("wirespeed-rx/schemata", "L3:0=3f\n").unwrap();
    let mut daemon = situation.start().unwrap();
    for _ in 0..20 {
        situation.host.advance(S);
        assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
    }
    tree.write("schemata", "L3:0=1fe\n").unwrap();
    tree.make("realtime").unwrap();
    tree.write("realtime/schemata", "L3:0=1\n").unwrap();
    tree.write("realtime/mode", "exclusive\n").unwrap();
    let report = daemon.end(&mut no_wait).unwrap();
    assert!(report.safe.len() == 1 && report.safe[0].contains("Overlaps with exclusive group"), "{report:?}");
    let state = situation.host.state();
    assert_eq!((state.groups["wirespeed-rx"].masks[0], state.groups["realtime"].masks[0]), (Cbm(0x7fe), Cbm(1)));
}

/// Every operation, one after the other, is the last one that a daemon does.
#[test]
fn whenever_a_daemon_dies_its_journal_puts_all_back() {
    let mut last = 0;
    for at in 1..150 {
        let mut situation = Situation::plain(Spec::default());
        let before = situation.host.state();
        let from = situation.host.operations() + at;
        situation.host.faults(|f| f.dead_from = Some(from));
        if let Ok(mut daemon) = situation.start() {
            for _ in 0..8 {
                situation.host.advance(S);
                let _ = daemon.step(&mut no_wait);
            }
        }
        last = situation.host.operations();
        situation.mend();
        let state = StateFolder::lock(&situation.config.state).unwrap();
        restore(&state, &situation.parts, &mut no_wait).unwrap();
        assert_eq!(situation.host.state(), before, "died at operation {at}");
        assert_eq!(situation.host.registers(), [0x600, 0x600], "died at operation {at}");
    }
    assert!(last > 60, "{last}: the daemon did something");
}

#[test]
fn a_register_without_effect_is_found_out_put_back_and_remembered() {
    let mut situation = Situation::plain(Spec { register: Register::NoEffect, ..Spec::default() });
    // The few ways of cores cost more packets than a measurement may by default.
    situation.config.io.verify_loss = 1.0;
    let mut daemon = situation.start().unwrap();
    for _ in 0..40 {
        situation.host.advance(S);
        assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
    }
    assert_eq!(daemon.effect(), Some(Effect::None));
    assert_eq!(situation.host.registers(), [0x600, 0x600], "as it was");
    // Cores keep out of the ways that devices fill all the same.
    let rx = situation.host.state().groups["wirespeed-rx"].masks[0];
    assert_eq!(rx, Cbm(0x1fe));
    daemon.end(&mut no_wait).unwrap();
    let mut again = situation.start().unwrap();
    let writes = situation.host.writes().len();
    for _ in 0..5 {
        situation.host.advance(S);
        again.step(&mut no_wait);
    }
    let later = &situation.host.writes()[writes..];
    assert!(later.iter().all(|w| !w.path.starts_with("cpu/")), "it is not written to again: {later:?}");
    again.end(&mut no_wait).unwrap();
}

/// Intervals in which cores had the few ways of the measurement, and what it found.
fn squeezed(verify_loss: f64) -> (usize, Option<Effect>) {
    let mut situation = Situation::plain(Spec { register: Register::NoEffect, ..Spec::default() });
    situation.config.io.verify_loss = verify_loss;
    let mut daemon = situation.start().unwrap();
    let mut squeezed = 0;
    for _ in 0..40 {
        situation.host.advance(S);
        assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
        let rx = situation.host.state().groups["wirespeed-rx"].masks[0];
        squeezed += usize::from(daemon.effect().is_none() && rx.ways() <= 2);
    }
    let effect = daemon.effect();
    daemon.end(&mut no_wait).unwrap();
    (squeezed, effect)
}

#[test]
fn health_says_that_the_measurement_loses_packets() {
    let mut situation = Situation::plain(Spec { register: Register::NoEffect, ..Spec::default() });
    situation.config.io.verify_loss = 1.0;
    let metrics = Metrics::new();
    let (config, parts, sources) = (situation.config.clone(), situation.parts.clone(), situation.sources());
    let clock = situation.clock();
    let mut daemon = Daemon::new(config, parts, sources, metrics.clone(), true, &mut no_wait, clock).unwrap();
    let mut told = Vec::new();
    while daemon.effect().is_none() {
        situation.host.advance(S);
        assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
        told.push(metrics.health(std::time::Duration::from_secs(60)).1);
    }
    assert_eq!(told[0], "ok\n");
    let loses =
        told.iter().filter(|line| line.starts_with("degraded: the measurement of what ways of devices do loses"));
    assert!(loses.count() > 10, "{told:?}");
    situation.host.advance(S);
    daemon.step(&mut no_wait);
    assert_eq!(metrics.health(std::time::Duration::from_secs(60)), (200, "ok\n".into()), "it is over");
    daemon.end(&mut no_wait).unwrap();
}

#[test]
fn the_policy_begins_with_the_ways_that_the_machine_has() {
    let begun = |spec: Spec, asked: Option<u32>| {
        let mut situation = Situation::plain(spec);
        situation.config.io.verify = false;
        situation.config.policy.io_ways = asked;
        let mut daemon = situation.start().unwrap();
        situation.host.advance(S);
        assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
        let seen = daemon.guarded().machine().resctrl().io_alloc().unwrap();
        let ways = match seen {
            host::resctrl::IoAlloc::Enabled(masks) => masks[0].1.ways(),
            _ => situation.host.registers()[0].count_ones(),
        };
        daemon.end(&mut no_wait).unwrap();
        ways
    };
    let wide = || Spec { io_ways: Cbm(0x7e0), ..Spec::default() };
    assert_eq!((begun(wide(), None), begun(wide(), Some(2)), begun(Spec::default(), None)), (6, 2, 2));
    assert_eq!(begun(Spec::amd(), None), 2, "off, the kernel does not say how many");
}

#[test]
fn a_measurement_that_loses_packets_ends_at_once() {
    assert_eq!(squeezed(0.01), (1, Some(Effect::Unknown)));
    // Nothing else ended it.
    let (intervals, effect) = squeezed(1.0);
    assert!(intervals > 10 && effect == Some(Effect::None), "{intervals} {effect:?}");
}

#[test]
fn a_measurement_is_not_begun_without_the_counters_that_it_needs() {
    let mut situation = Situation::plain(Spec::default());
    // Nor of losses, for which the policy would give devices a way without knowing their misses.
    situation.host.faults(|f| f.absent = vec!["io_hits", "core_misses", "lost"]);
    let mut daemon = situation.start().unwrap();
    for _ in 0..10 {
        situation.host.advance(S);
        assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
        assert_eq!(situation.host.registers(), [0x600, 0x600]);
    }
    assert_eq!(daemon.effect(), Some(Effect::Unknown));
    daemon.end(&mut no_wait).unwrap();
}

#[test]
fn an_effect_that_is_there_is_measured_and_ways_move() {
    let mut situation = Situation::plain(Spec::default());
    let mut daemon = situation.start().unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..60 {
        situation.host.advance(S);
        assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
        if daemon.effect().is_some() {
            seen.insert(situation.host.registers()[0]);
        }
    }
    assert_eq!(daemon.effect(), Some(Effect::Measured));
    assert!(seen.len() > 1, "{seen:x?}");
    daemon.end(&mut no_wait).unwrap();
}

#[test]
fn on_amd_the_kernel_sets_the_ways_of_devices() {
    let mut situation = Situation::plain(Spec::amd());
    let before = situation.host.state();
    let mut daemon = situation.start().unwrap();
    for _ in 0..30 {
        situation.host.advance(S);
        assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
    }
    assert!(situation.host.state().io_alloc.is_some());
    daemon.end(&mut no_wait).unwrap();
    assert_eq!(situation.host.state(), before);
}

/// AMD without io_alloc: hardware fills no way of which resctrl knows.
#[test]
fn cores_are_kept_out_of_the_ways_that_the_machine_says_devices_fill() {
    let masks = |spec: Spec, fixed: Option<u32>| {
        let mut situation = Situation::plain(spec);
        situation.config.io.fixed = fixed;
        situation.config.io.backend = daemon::IoWaysBackend::Fixed;
        let mut daemon = situation.start().unwrap();
        for _ in 0..3 {
            situation.host.advance(S);
            assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
        }
        let mask = situation.host.state().groups["wirespeed-rx"].masks[0];
        daemon.end(&mut no_wait).unwrap();
        mask
    };
    let amd = || Spec { io_alloc: false, ..Spec::amd() };
    assert_eq!(masks(amd(), None), Cbm(0xfffe), "all but the others' way");
    assert_eq!(masks(amd(), Some(2)), Cbm(0x3ffe), "as it is told");
    assert_eq!(masks(Spec::default(), None), Cbm(0x1fe), "resctrl's shareable_bits are the highest two");
    assert_eq!(masks(Spec { shareable: Cbm(0x3), ..Spec::default() }, None), Cbm(0x7fe), "not the highest");
}

#[test]
fn a_dry_run_and_a_plan_write_nothing() {
    let situation = Situation::plain(Spec::default());
    let before = situation.host.writes();
    let plan = daemon::plan(&situation.config, &situation.parts, situation.sources()).unwrap();
    assert!(plan.writes.iter().any(|w| w.starts_with("mkdir") && w.ends_with("wirespeed-rx")), "{plan}");
    assert!(plan.writes.iter().any(|w| w.contains("wrmsr -p 0 0xc8b 0x600") || w.contains("0xc8b")), "{plan}");
    let (config, parts) = (situation.config.clone(), situation.parts.clone());
    let sources = situation.sources();
    let mut daemon =
        Daemon::new(config, parts, sources, Metrics::new(), false, &mut no_wait, situation.clock()).unwrap();
    for _ in 0..20 {
        situation.host.advance(S);
        assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
    }
    assert_eq!(situation.host.writes(), before);
    assert!(!situation.config.state.join("journal.json").exists());
}

#[test]
fn a_plan_says_that_settings_are_left_to_be_put_back() {
    let mut situation = Situation::plain(Spec::default());
    let plan = |s: &Situation| daemon::plan(&s.config, &s.parts, s.sources()).unwrap().to_string();
    assert!(!plan(&situation).contains("journal"));
    drop(situation.start().unwrap());
    assert!(plan(&situation).contains("# the journal is not empty"));
}

#[test]
fn groups_of_others_are_never_written() {
    let mut situation = Situation::plain(Spec::default());
    let tree = situation.host.tree(fakehost::FileRoot::Resctrl);
    tree.make("besteffort").unwrap();
    tree.write("besteffort/schemata", "L3:0=3;1=3\n").unwrap();
    let from = situation.host.writes().len();
    let mut daemon = situation.start().unwrap();
    for _ in 0..30 {
        situation.host.advance(S);
        daemon.step(&mut no_wait);
    }
    daemon.end(&mut no_wait).unwrap();
    let own = |path: &str| path.starts_with("resctrl/wirespeed-") || path.starts_with("cpu/");
    let writes = situation.host.writes();
    assert!(writes[from..].iter().all(|w| own(&w.path)), "{:?}", &writes[from..]);
    assert!(writes.len() > from + 5);
    assert_eq!(situation.host.state().groups["besteffort"].masks, [Cbm(3), Cbm(3)]);
}

#[test]
fn what_stands_in_the_way_is_told_and_nothing_is_written() {
    let told = |prepare: &dyn Fn(&FakeHost), change: &dyn Fn(&mut daemon::DaemonConfig)| {
        let mut situation = Situation::plain(Spec::default());
        prepare(&situation.host);
        change(&mut situation.config);
        let (state, from) = (situation.host.state(), situation.host.writes().len());
        let why = situation.start().err().expect("it cannot start").to_string();
        assert_eq!(situation.host.state(), state, "{why}");
        assert!(situation.host.writes()[from..].iter().all(|w| w.errno != 0 || w.path.contains("wirespeed-")));
        why
    };
    let tree = |h: &FakeHost| h.tree(fakehost::FileRoot::Resctrl);
    let full = told(&|h| (0..15).for_each(|i| tree(h).make(&format!("pod{i}")).unwrap()), &|_| ());
    assert!(full.contains("are free") && full.contains("pod3") && full.contains("reserve_closids"), "{full}");
    let cpu = told(
        &|h| {
            tree(h).make("guaranteed").unwrap();
            tree(h).write("guaranteed/cpus_list", "1\n").unwrap();
        },
        &|_| (),
    );
    assert!(cpu.contains("processor 1 is in group \"guaranteed\""), "{cpu}");
    let alone = told(
        &|h| {
            tree(h).make("realtime").unwrap();
            tree(h).write("schemata", "L3:0=3f;1=3f\n").unwrap();
            tree(h).write("realtime/schemata", "L3:0=c0;1=c0\n").unwrap();
            tree(h).write("realtime/mode", "exclusive\n").unwrap();
        },
        &|_| (),
    );
    assert!(alone.contains("\"realtime\" has ways 0b11000000 for itself"), "{alone}");
    let no_right = told(&|h| h.faults(|f| f.errors.push(("wirespeed-rx".into(), true, libc_eperm(), 9))), &|_| ());
    assert!(no_right.contains("run as root"), "{no_right}");
    let absent = told(&|_| (), &|c| c.classes[0].cpus = "1,16-99".into());
    assert!(
        absent.starts_with("classes[0].cpus = \"1,16-99\": 16-99 is not there; this machine has processors 0-15"),
        "{absent}"
    );
    let busy = told(&|h| h.faults(|f| f.errors.push(("wirespeed-rx".into(), true, 16, 9))), &|_| ());
    assert!(busy.contains("still draining"), "{busy}");
    let narrow = told(&|_| (), &|c| c.policy.others = 10);
    assert!(narrow.contains("more than the 11 ways"), "{narrow}");
}

fn libc_eperm() -> i32 {
    1
}

#[test]
fn memory_and_journal_stay_flat() {
    intervals_are_flat(3_000);
}

#[test]
#[ignore = "a hundred thousand intervals"]
fn memory_stays_flat_over_100_000_intervals() {
    intervals_are_flat(100_000);
}

fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    text.lines().find_map(|l| l.strip_prefix("VmRSS:")?.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

fn intervals_are_flat(intervals: u32) {
    let mut situation = Situation::plain(Spec::default());
    situation.host.faults(|f| f.quiet = true);
    let mut daemon = situation.start().unwrap();
    let journal = situation.config.state.join("journal.json");
    let (mut early, mut size) = (0, 0);
    for i in 0..intervals {
        situation.host.advance(S);
        // Traffic changes now and then, so that ways keep moving.
        situation.host.offer(if i / 200 % 2 == 0 { 2e6 } else { 3e6 }, if i / 400 % 2 == 0 { 1500.0 } else { 600.0 });
        assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
        if i == intervals / 10 {
            (early, size) = (resident_kib(), std::fs::metadata(&journal).unwrap().len());
        }
    }
    let late = resident_kib();
    assert_eq!(std::fs::metadata(&journal).unwrap().len(), size, "the journal does not grow");
    println!("{early} KiB after {} intervals, {late} KiB after {intervals}", intervals / 10);
    assert!(late < early + 2048, "{early} KiB became {late} KiB");
    daemon.end(&mut no_wait).unwrap();
}

/// A machine on which somebody else makes a group just before we do.
struct Faster(std::sync::Arc<dyn host::Tree>);

impl host::Tree for Faster {
    fn read(&self, path: &str) -> std::io::Result<String> {
        self.0.read(path)
    }
    fn write(&self, path: &str, text: &str) -> std::io::Result<()> {
        self.0.write(path, text)
    }
    fn list(&self, path: &str) -> std::io::Result<Vec<(String, bool)>> {
        self.0.list(path)
    }
    fn make(&self, path: &str) -> std::io::Result<()> {
        self.0.make(path)?;
        self.0.make(path)
    }
    fn remove(&self, path: &str) -> std::io::Result<()> {
        self.0.remove(path)
    }
    fn read_register(&self, path: &str, offset: u64) -> std::io::Result<u64> {
        self.0.read_register(path, offset)
    }
    fn write_register(&self, path: &str, offset: u64, value: u64) -> std::io::Result<()> {
        self.0.write_register(path, offset, value)
    }
    fn lock(&self) -> std::io::Result<Box<dyn std::any::Any>> {
        self.0.lock()
    }
    fn claim(&self, path: &str) -> std::io::Result<Box<dyn std::any::Any + Send>> {
        self.0.claim(path)
    }
    fn root(&self) -> &std::path::Path {
        self.0.root()
    }
}

#[test]
fn a_group_that_somebody_else_made_first_is_not_removed() {
    let mut situation = Situation::plain(Spec::default());
    situation.parts.resctrl = std::sync::Arc::new(Faster(situation.parts.resctrl.clone()));
    let why = situation.start().err().expect("the group is taken").to_string();
    assert!(why.contains("wirespeed-rx") && why.contains("exists"), "{why}");
    assert!(situation.host.state().groups.contains_key("wirespeed-rx"));
    let state = StateFolder::lock(&situation.config.state).unwrap();
    assert!(state.journal("wirespeed-").unwrap().is_empty());
}

#[test]
fn a_start_of_the_machine_that_cannot_be_told_loses_no_journal() {
    let mut situation = Situation::plain(Spec::default());
    let proc = tempfile::tempdir().unwrap();
    let boot = proc.path().join("sys/kernel/random/boot_id");
    std::fs::create_dir_all(boot.parent().unwrap()).unwrap();
    std::fs::write(proc.path().join("cpuinfo"), situation.parts.proc.read("cpuinfo").unwrap()).unwrap();
    std::fs::write(&boot, "one\n").unwrap();
    situation.parts.proc = std::sync::Arc::new(host::Files::new(proc.path()));
    let before = situation.host.state();
    drop(situation.start().unwrap());
    assert_ne!(situation.host.state(), before);
    std::fs::remove_file(&boot).unwrap();
    let state = StateFolder::lock(&situation.config.state).unwrap();
    restore(&state, &situation.parts, &mut no_wait).unwrap();
    assert_eq!(situation.host.state(), before);
    drop(state);
    // After another start of the machine nothing of a journal is in force: it is dropped, and nothing is written.
    std::fs::write(&boot, "two\n").unwrap();
    drop(situation.start().unwrap());
    std::fs::write(&boot, "three\n").unwrap();
    let (writes, state) = (situation.host.writes(), StateFolder::lock(&situation.config.state).unwrap());
    let report = restore(&state, &situation.parts, &mut no_wait).unwrap();
    assert!(report.restored[0].contains("started since"), "{report:?}");
    assert_eq!(situation.host.writes(), writes);
    assert!(state.journal("wirespeed-").unwrap().is_empty());
}

#[test]
fn a_domain_that_came_meanwhile_has_all_ways_again() {
    let mut situation = Situation::plain(Spec { shareable: Cbm(0), ..Spec::default() });
    let tree = situation.host.tree(fakehost::FileRoot::Resctrl);
    situation.host.set_domain(1, false);
    tree.make("wirespeed-rx").unwrap();
    tree.write("wirespeed-rx/schemata", "L3:0=3f\n").unwrap();
    let mut daemon = situation.start().unwrap();
    let steps = |daemon: &mut Daemon| {
        for _ in 0..20 {
            situation.host.advance(S);
            assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
        }
    };
    steps(&mut daemon);
    situation.host.set_domain(1, true);
    steps(&mut daemon);
    assert_ne!(situation.host.state().groups["wirespeed-rx"].masks[1], Cbm(0x7ff), "it is set like the others");
    daemon.end(&mut no_wait).unwrap();
    assert_eq!(situation.host.state().groups["wirespeed-rx"].masks, [Cbm(0x3f), Cbm(0x7ff)]);
}

#[test]
fn a_package_whose_register_cannot_be_reached_keeps_no_other_from_its_own() {
    let mut situation = Situation::plain(Spec::default());
    situation.config.classes[0].cpus = "1,8".into();
    let mut daemon = situation.start().unwrap();
    for _ in 0..10 {
        situation.host.advance(S);
        daemon.step(&mut no_wait);
    }
    assert!(!situation.host.registers().contains(&0x600), "both packages are set");
    // ENXIO: the first package's processor is offline.
    situation.host.faults(|f| f.errors = vec![("cpu/0/msr".into(), false, 6, 99), ("cpu/0/msr".into(), true, 6, 99)]);
    let why = daemon.end(&mut no_wait).unwrap_err().to_string();
    assert!(why.contains("cpu/0/msr"), "{why}");
    assert_eq!(situation.host.registers()[1], 0x600);
    situation.mend();
    let state = StateFolder::lock(&situation.config.state).unwrap();
    restore(&state, &situation.parts, &mut no_wait).unwrap();
    assert_eq!(situation.host.registers(), [0x600, 0x600]);
}

#[test]
fn a_dry_run_on_a_register_without_effect_writes_no_file() {
    let situation = Situation::plain(Spec { register: Register::NoEffect, ..Spec::default() });
    let state = StateFolder::lock(&situation.config.state).unwrap();
    state.keep_effect("GenuineIntel 6/85", Effect::None).unwrap();
    drop(state);
    let file = situation.config.state.join("io-effect.json");
    let before = std::fs::metadata(&file).unwrap();
    let (config, parts) = (situation.config.clone(), situation.parts.clone());
    let sources = situation.sources();
    let daemon = Daemon::new(config, parts, sources, Metrics::new(), false, &mut no_wait, situation.clock()).unwrap();
    assert_eq!(daemon.effect(), Some(Effect::None));
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(&file).unwrap().ino(), before.ino(), "it is not written anew");
}

#[test]
fn a_register_that_is_not_known_to_be_one_is_not_written() {
    let writes_of = |spec: Spec, backend: daemon::IoWaysBackend| {
        let mut situation = Situation::plain(spec);
        situation.config.io.backend = backend;
        let mut daemon = situation.start().map_err(|e| e.to_string())?;
        for _ in 0..20 {
            situation.host.advance(S);
            daemon.step(&mut no_wait);
        }
        daemon.end(&mut no_wait).unwrap();
        Ok::<_, String>(situation.host.writes().iter().filter(|w| w.path.starts_with("cpu/")).count())
    };
    use daemon::IoWaysBackend::{Auto, Register};
    let sapphire_rapids = || Spec { model: (6, 143), ..Spec::default() };
    assert_eq!(writes_of(sapphire_rapids(), Auto), Ok(0), "nobody has seen it work there");
    assert!(writes_of(sapphire_rapids(), Register).unwrap() > 0, "asked for, it is measured");
    // A virtual machine that reads 0 of registers it does not know; a value that is no run of ways.
    for holds in [Cbm(0), Cbm(0x501), Cbm(0x8000_0600)] {
        assert_eq!(writes_of(Spec { io_ways: holds, ..Spec::default() }, Auto), Ok(0));
        let why = writes_of(Spec { io_ways: holds, ..Spec::default() }, Register).unwrap_err();
        assert!(why.contains("MSR 0xC8B"), "{why}");
    }
    let other = writes_of(Spec { model: (6, 158), ..Spec::default() }, Register).unwrap_err();
    assert!(other.contains("is not known to have register 0xC8B"), "{other}");
}

/// The same daemon on the server of `sim`: packets through rings and caches, not a formula.
#[test]
fn on_the_simulated_server_it_finds_the_effect_and_leaves_all_as_it_was() {
    use fakehost::{Simulated, SimulatedSpec};
    const WARM: u32 = 12;
    for (register, expected) in [(Register::Works, Effect::Measured), (Register::NoEffect, Effect::None)] {
        let spec = Spec { register, ..Spec::default() };
        // Half of the slow motion: the caches settle within the intervals that are waited for.
        let plant = SimulatedSpec { slow: 500, ..SimulatedSpec::default() };
        let plant = Simulated::new(plant, spec.ways, spec.rmids).unwrap();
        let mut situation = Situation::on(FakeHost::with_plant(spec, Box::new(plant)));
        let before = situation.host.state();
        let registers = situation.host.registers();
        // A server that has run for a while: what fills empty caches looks like an effect.
        (0..WARM).for_each(|_| situation.host.advance(S));
        let mut daemon = situation.start().unwrap();
        for _ in 0..40 {
            situation.host.advance(S);
            assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
            if daemon.effect().is_some() {
                break;
            }
        }
        assert_eq!(daemon.effect(), Some(expected), "{register:?}");
        daemon.end(&mut no_wait).unwrap();
        assert_eq!((situation.host.state(), situation.host.registers()), (before, registers));
        assert_eq!(situation.host.bad_masks(), 0);
    }
}
