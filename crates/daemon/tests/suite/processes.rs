//! `wirespeedd` as a process on a mounted machine: killed, stopped, hung, refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::made::Chance;
use crate::process::{ANY_PORT, Scene, scene, signal, text};
use fakehost::{FileRoot, Register, Spec};
use units::Ps;

#[test]
fn on_sigterm_all_is_put_back() {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let before = scene.host.state();
    let mut child = scene.spawn();
    scene.until("a mask", || scene.host.writes().iter().any(|w| w.path.ends_with("wirespeed-rx/schemata")));
    signal(&child, "-TERM");
    assert!(child.wait().unwrap().success(), "{}", scene.log());
    scene.is_as(&before);
    // One structured line for each decision.
    let log = scene.log();
    let decisions: Vec<&str> = log.lines().filter(|l| l.contains("\"event\":\"decision\"")).collect();
    assert!(!decisions.is_empty(), "{log}");
    assert!(decisions.iter().all(|l| l.starts_with('{') && l.contains("\"io_ways\"")), "{log}");
}

/// kill -9 whenever it happens, then `restore`, or another start.
fn killed(times: u64, seed: u64) {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let before = scene.host.state();
    let mut chance = Chance(seed);
    let mut inside = 0;
    for round in 0..times {
        let from = scene.host.operations();
        let after = 1 + chance.below(1200);
        let mut child = scene.spawn();
        let start = Instant::now();
        while scene.host.operations() < from + after && start.elapsed() < Duration::from_secs(3) {
            std::thread::park_timeout(Duration::from_micros(200));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        inside += u64::from(scene.host.state() != before);
        if chance.below(2) == 0 {
            let restored = scene.run(&["restore"]);
            assert!(restored.status.success(), "round {round}: {}", text(&restored.stderr));
        } else {
            let again = scene.run(&["run", "--apply", "--intervals", "1"]);
            assert!(again.status.success(), "round {round}: {}", text(&again.stderr));
        }
        scene.is_as(&before);
    }
    println!("{times} kills, {inside} of them with settings changed");
    assert!(inside * 4 > times, "most kills come while settings are changed: {inside} of {times}");
}

#[test]
fn after_kill_9_the_next_start_or_restore_puts_all_back() {
    killed(8, 1);
}

#[test]
#[ignore = "hundreds of processes"]
fn after_hundreds_of_kills_the_next_start_or_restore_puts_all_back() {
    killed(300, 2);
}

#[test]
fn a_loop_that_hangs_is_ended_by_the_watchdog_and_all_is_put_back() {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let before = scene.host.state();
    let mut child = scene.spawn();
    scene.until("a mask", || scene.host.writes().iter().any(|w| w.path.ends_with("wirespeed-rx/schemata")));
    // A read that never returns.
    scene.host.faults(|f| f.hang = Some("mon_data".into()));
    // Registers come after groups.
    scene.until("all to be put back beside the read", || {
        scene.host.state() == before && scene.host.registers() == [0x600, 0x600]
    });
    scene.is_as(&before);
    // A process can end when its read has.
    scene.host.faults(|f| f.hang = None);
    assert_eq!(child.wait().unwrap().code(), Some(3), "{}", scene.log());
    let restored = scene.run(&["restore"]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    scene.is_as(&before);
}

/// Who reads the log stops reading: the loop hangs as it writes a line, with the lock of standard error.
#[test]
fn a_log_that_nobody_reads_does_not_keep_the_watchdog_from_putting_all_back() {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let before = scene.host.state();
    let (_reader, mut writer) = std::io::pipe().unwrap();
    // Some lines fit, so that settings are changed before it hangs.
    writer.write_all(&[b'\n'; 12 * 4096]).unwrap();
    let mut child = scene.command(&["run", "--apply", "--log", "debug"]).stderr(writer).spawn().unwrap();
    scene.until("a mask", || scene.host.writes().iter().any(|w| w.path.ends_with("wirespeed-rx/schemata")));
    scene.until("the watchdog to end it", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    scene.is_as(&before);
}

#[test]
fn a_log_that_is_closed_ends_nothing() {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let before = scene.host.state();
    let mut child = scene.command(&["run", "--apply", "--log", "debug"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    scene.until("a mask", || scene.host.writes().iter().any(|w| w.path.ends_with("wirespeed-rx/schemata")));
    let from = scene.host.operations();
    scene.until("some intervals more", || scene.host.operations() > from + 100);
    signal(&child, "-TERM");
    assert!(child.wait().unwrap().success());
    scene.is_as(&before);
}

/// `WatchdogSec` shorter than an interval: systemd hears of the loop in between.
#[test]
fn systemd_hears_of_an_interval_that_is_longer_than_its_patience() {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let slow = std::fs::read_to_string(&scene.config).unwrap();
    let slow = slow.replace("interval = \"100 ms\"", "interval = \"60 s\"");
    std::fs::write(&scene.config, slow.replace("watchdog = \"2 s\"", "watchdog = \"200 s\"")).unwrap();
    let at = scene.folder.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = scene.command(&["run"]);
    command.env("NOTIFY_SOCKET", &at).env("WATCHDOG_USEC", "300000").env_remove("WATCHDOG_PID");
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut heard = 0;
    let mut buffer = [0; 256];
    while heard < 5 {
        let n = socket.recv(&mut buffer).unwrap();
        heard += usize::from(text(&buffer[..n]).contains("WATCHDOG=1"));
    }
    signal(&child, "-TERM");
    assert!(child.wait().unwrap().success());
}

#[test]
fn plan_prints_writes_and_makes_none() {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let before = scene.host.writes();
    let plan = scene.run(&["plan"]);
    let out = text(&plan.stdout);
    assert!(plan.status.success(), "{}", text(&plan.stderr));
    assert!(out.contains("mkdir ") && out.contains("/wirespeed-rx/schemata") && out.contains("0xc8b"), "{out}");
    let dry = scene.run(&["run", "--intervals", "3"]);
    assert!(dry.status.success(), "{}", text(&dry.stderr));
    assert!(text(&dry.stderr).contains("would_apply"), "{}", text(&dry.stderr));
    assert_eq!(scene.host.writes(), before);
}

#[test]
fn metrics_and_health_are_told_on_the_loopback() {
    let Some(scene) = scene(Spec::default(), ANY_PORT) else { return };
    let mut child = scene.spawn();
    scene.until("a mask", || scene.host.writes().iter().any(|w| w.path.ends_with("wirespeed-rx/schemata")));
    let address = scene.address();
    let ask = |path: &str| get(address, path);
    scene.until("packets", || {
        let metrics = ask("/metrics");
        metrics.contains("wirespeedd_received_pps ") && !metrics.contains("wirespeedd_received_pps NaN")
    });
    let health = ask("/healthz");
    assert!(health.starts_with("HTTP/1.1 200") && health.ends_with("ok\n"), "{health}");
    assert!(ask("/other").starts_with("HTTP/1.1 404"));
    signal(&child, "-TERM");
    assert!(child.wait().unwrap().success());
}

/// Another state folder is another journal: two daemons would put back each other's settings.
#[test]
fn one_daemon_at_a_time_sets_a_machine_whatever_its_state_folder() {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let before = scene.host.state();
    let other = scene.folder.path().join("other.toml");
    let text_of = std::fs::read_to_string(&scene.config).unwrap();
    std::fs::write(&other, text_of.replace("/state\"", "/other-state\"")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeedd"));
        command.args(arguments).arg("--config").arg(&other).output().unwrap()
    };
    let mut child = scene.spawn();
    scene.until("a mask", || scene.host.writes().iter().any(|w| w.path.ends_with("wirespeed-rx/schemata")));
    for arguments in [&["run", "--apply", "--intervals", "1"][..], &["restore"]] {
        let second = run(arguments);
        let said = text(&second.stderr);
        assert_eq!(second.status.code(), Some(1), "{said}");
        assert!(said.contains("/resctrl/info: another wirespeedd runs"), "{said}");
    }
    assert!(run(&["run", "--intervals", "1"]).status.success(), "a dry run sets nothing");
    signal(&child, "-TERM");
    assert!(child.wait().unwrap().success(), "{}", scene.log());
    scene.is_as(&before);
    assert!(run(&["run", "--apply", "--intervals", "1"]).status.success(), "after it another one may");
    scene.is_as(&before);
}

/// An answer's head and body.
fn get(address: SocketAddr, path: &str) -> String {
    let start = Instant::now();
    let mut peer = loop {
        match TcpStream::connect(address) {
            Ok(peer) => break peer,
            // It listens soon.
            Err(why) => assert!(start.elapsed() < Duration::from_secs(20), "{why}"),
        }
        std::thread::park_timeout(Duration::from_millis(5));
    };
    write!(peer, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    peer.read_to_string(&mut answer).unwrap();
    answer
}

/// Lines of the log with an event.
fn events(scene: &Scene, event: &str) -> Vec<String> {
    let of = format!("\"event\":\"{event}\"");
    scene.log().lines().filter(|l| l.contains(&of)).map(Into::into).collect()
}

/// DPDK 22.11, say, or no counter of misses: nothing is decided, packets are lost, and everybody hears of it.
fn undecided(absent: &[&'static str], reason: &str, words: &str) {
    let Some(scene) = scene(Spec::default(), ANY_PORT) else { return };
    scene.host.faults(|f| f.absent = absent.to_vec());
    let mut child = scene.spawn();
    let address = scene.address();
    let metric = format!("wirespeedd_policy_undecided{{reason=\"{reason}\"}}");
    scene.until("it to be told", || get(address, "/metrics").contains(&format!("{metric} 1")));
    let health = get(address, "/healthz");
    assert!(health.starts_with("HTTP/1.1 200") && health.contains("\r\n\r\ndegraded: "), "{health}");
    assert!(health.contains(words) && health.contains("packets a second are lost"), "{health}");
    let from = scene.host.operations();
    scene.until("many intervals", || scene.host.operations() > from + 300);
    // Once, and once more where loss began later.
    let told = events(&scene, "undecided");
    assert!((1..=2).contains(&told.len()) && told.iter().all(|l| l.contains(words)), "{told:?}");
    assert!(told.last().unwrap().contains("packets a second are lost"), "{told:?}");
    scene.host.faults(|f| f.absent.clear());
    if reason != "no_busy_time" {
        scene.until("it to be over", || get(address, "/healthz").ends_with("\r\n\r\nok\n"));
        assert!(get(address, "/metrics").contains(&format!("{metric} 0")));
        // What is served is set before the line is written.
        scene.until("the line of it", || events(&scene, "decides").len() == 1);
    }
    signal(&child, "-TERM");
    assert!(child.wait().unwrap().success());
}

#[test]
fn without_busy_time_it_says_that_it_cannot_decide() {
    undecided(&["busy"], "no_busy_time", "DPDK 23.03");
}

#[test]
fn without_miss_rates_it_says_that_it_cannot_decide() {
    undecided(&["io_hits", "core_misses"], "no_miss_rates", "misses are unknown");
}

/// Of a program that has no telemetry: what it tells Prometheus stands for it.
#[test]
fn a_program_that_tells_prometheus_is_judged_as_one_with_telemetry() {
    let Some(scene) = scene(Spec::default(), ANY_PORT) else { return };
    let config = std::fs::read_to_string(&scene.config).unwrap();
    let (before, behind) = config.split_once("[telemetry]").unwrap();
    let (_, behind) = behind.split_once("[json]").unwrap();
    let url = behind.split('"').nth(1).unwrap();
    let metrics = format!(
        "[prometheus]\nurl = \"{url}metrics\"\nreceived = [\"packets_received_total\"]\nlost = [\"packets_lost_total\"]\n\
         pcie_write_bytes = [\"bytes_received_total\"]\nbusy.rx = [\"busy_seconds_total\"]\n\
         elapsed.rx = [\"elapsed_seconds_total\"]\n"
    );
    std::fs::write(&scene.config, format!("{before}{metrics}[json]{behind}")).unwrap();
    let before = scene.host.state();
    let mut child = scene.spawn();
    let address = scene.address();
    let ways = |scene: &Scene| scene.host.writes().iter().filter(|w| w.path.ends_with("wirespeed-rx/schemata")).count();
    scene.until("packets and busy time", || {
        let metrics = get(address, "/metrics");
        let known = |name: &str| metrics.contains(name) && !metrics.contains(&format!("{name} NaN"));
        known("wirespeedd_received_pps") && known("wirespeedd_class_busy_ratio{class=\"rx\"}")
    });
    scene.until("a decision", || ways(&scene) > 1);
    assert!(events(&scene, "undecided").is_empty(), "{}", scene.log());
    signal(&child, "-TERM");
    assert!(child.wait().unwrap().success());
    scene.is_as(&before);
}

#[test]
fn metrics_name_classes_as_the_configuration_does() {
    let more = format!("{ANY_PORT}\ndefault_group = true");
    let Some(scene) = scene(Spec::default(), &more) else { return };
    let mut child = scene.spawn();
    let address = scene.address();
    scene.until("a class", || get(address, "/metrics").contains("wirespeedd_class_ways{class=\"rx\"}"));
    let metrics = get(address, "/metrics");
    assert!(metrics.contains("wirespeedd_class_ways{class=\"default\"}") && !metrics.contains("clos="), "{metrics}");
    signal(&child, "-TERM");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_dry_run_tells_each_interval_at_debug_and_news_at_info() {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let lines = |level: &str| {
        let dry = scene.run(&["run", "--intervals", "8", "--log", level]);
        assert!(dry.status.success(), "{}", text(&dry.stderr));
        text(&dry.stderr).lines().filter(|l| l.contains("would_apply")).count()
    };
    assert_eq!((lines("info"), lines("debug")), (1, 8));
}

#[test]
fn what_is_wrong_is_told_in_a_line_with_an_exit_code() {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let before = scene.host.state();
    let good = std::fs::read_to_string(&scene.config).unwrap();
    let told = |text_of: &str, arguments: &[&str]| {
        std::fs::write(&scene.config, text_of).unwrap();
        let out = scene.run(arguments);
        let said = text(&out.stderr);
        let line = said.lines().find(|l| l.starts_with("wirespeedd: ")).unwrap_or_else(|| panic!("{said}")).to_string();
        (out.status.code().unwrap(), line)
    };
    let run = ["run", "--apply", "--intervals", "1"];
    let (code, line) = told(&good.replace("interval = \"100 ms\"", "interval = \"1 ms\""), &["check"]);
    assert!(code == 2 && line.contains("interval = 1 ms: allowed are"), "{code} {line}");
    let (code, line) = told(&good.replace("resctrl = ", "resctrll = "), &run);
    assert!(code == 2 && line.contains("roots.resctrll") && line.contains("expected"), "{code} {line}");
    let (code, line) = told(&good.replace("/resctrl\"", "/proc\""), &run);
    assert!(code == 1 && line.contains("resctrl is not mounted there"), "{code} {line}");
    assert_eq!(scene.host.state(), before);
}

#[test]
fn counters_that_are_not_there_are_told_with_those_that_are() {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let good = std::fs::read_to_string(&scene.config).unwrap();
    std::fs::write(&scene.config, good.replace("Uncore/IO hits", "Uncore/IO hit")).unwrap();
    let plan = scene.run(&["plan"]);
    let out = text(&plan.stdout);
    assert!(out.contains("there is no \"IO hit\"; there are DRAM bytes, IO hits, IO misses"), "{out}");
}

/// CPU time of a process per interval: at an interval a second, under 1 % of one core.
#[test]
fn an_interval_takes_less_than_a_hundredth_of_a_second_of_cpu() {
    let Some(scene) = scene(Spec::default(), "listen = \"\"") else { return };
    let mut child = scene.spawn();
    let cpu_ticks = |pid: u32| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<u64> = stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|n| n.parse().ok())
            .collect();
        fields.iter().sum()
    };
    let counted = |scene: &Scene| scene.host.counters_now().map_or(0, |c| c["elapsed"]);
    scene.until("the first intervals", || counted(&scene) > 3_000_000_000);
    let (ticks, intervals) = (cpu_ticks(child.id()), counted(&scene) / 1_000_000_000);
    scene.until("forty intervals", || counted(&scene) / 1_000_000_000 >= intervals + 40);
    let took = (cpu_ticks(child.id()) - ticks) as f64 / 100.0;
    let n = (counted(&scene) / 1_000_000_000 - intervals) as f64;
    println!("{:.2} ms of CPU an interval: {:.2} % at 1 Hz", took / n * 1e3, took / n * 100.0);
    assert!(took / n < 0.01, "{took} s of CPU in {n} intervals");
    signal(&child, "-TERM");
    child.wait().unwrap();
}

/// Debian's `pqos`, unmodified, in a mount namespace of its own where resctrl is ours.
fn pqos(scene: &Scene, arguments: &str) -> Option<Output> {
    if !Path::new("/usr/sbin/pqos").exists() {
        println!("skipped: pqos is not installed (apt-get install intel-cmt-cat)");
        return None;
    }
    let at = scene.folder.path().join("machine").display().to_string();
    let script = format!(
        "mount -t tmpfs none /sys/fs && mkdir /sys/fs/resctrl && mount --bind {at}/resctrl /sys/fs/resctrl && \
         mount --bind {at}/proc/cpuinfo /proc/cpuinfo && mount --bind {at}/proc/filesystems /proc/filesystems && \
         pqos -I {arguments}"
    );
    let out = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
    if text(&out.stderr).contains("Operation not permitted") || text(&out.stderr).contains("unshare failed") {
        println!("skipped: no private mount namespace here: {}", text(&out.stderr));
        return None;
    }
    Some(out)
}

#[test]
fn pqos_drives_it_and_sees_what_we_see() {
    // As many processors as this machine has: pqos asks the system for their topology.
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let spec = Spec { domains: 1, cpus: cpus.max(2), register: Register::Works, ..Spec::default() };
    let Some(scene) = scene(spec, "listen = \"\"") else { return };
    let Some(shown) = pqos(&scene, "-s") else { return };
    let out = text(&shown.stdout) + &text(&shown.stderr);
    assert!(shown.status.success(), "{out}");
    assert!(out.contains("0x7ff"), "{out}");
    let set = pqos(&scene, "-e 'llc:1=0x00f;llc:2=0x7f0'").unwrap();
    let out = text(&set.stdout) + &text(&set.stderr);
    assert!(set.status.success(), "{out}");
    let state = scene.host.state();
    let masks: Vec<u32> = state.groups.values().map(|g| g.masks[0].0).collect();
    assert!(masks.contains(&0x00f) && masks.contains(&0x7f0), "{masks:x?} {out}");
    // And what our own types write, pqos shows.
    let resctrl = host::Resctrl::open(scene.host.tree(FileRoot::Resctrl)).unwrap();
    let group = resctrl.groups().unwrap().into_iter().find(|g| resctrl.masks(g).unwrap()[0].1.0 == 0x00f).unwrap();
    resctrl.set_masks(&group, &[(0, units::Cbm(0x03c))], &resctrl.rule().unwrap()).unwrap();
    let shown = text(&pqos(&scene, "-s").unwrap().stdout);
    assert!(shown.contains("0x3c") && shown.contains("0x7f0"), "{shown}");
    // What it monitors is what we read: the bytes in the cache of the receiving program, which has a class of its own.
    let moved = pqos(&scene, "-a 'llc:1=1'").unwrap();
    assert!(moved.status.success(), "{}", text(&moved.stdout) + &text(&moved.stderr));
    (0..5).for_each(|_| scene.host.advance(Ps(1_000_000_000_000)));
    let monitored =
        text(&pqos(&scene, "--disable-mon-ipc --disable-mon-llc_miss -m llc:1 -t 1 -u csv").unwrap().stdout);
    let kib: Option<f64> = monitored.lines().rev().find_map(|l| l.rsplit(',').next()?.trim().parse().ok());
    let own = scene.host.occupancy()[0] / 1024.0;
    assert!(kib.is_some_and(|k| (k - own).abs() < own / 50.0 + 1.0), "{own} KiB; {monitored}");
    // A mask with a gap is refused, and nothing changes.
    let before = scene.host.state();
    let gap = pqos(&scene, "-e 'llc:1=0x505'").unwrap();
    assert!(!gap.status.success() || text(&gap.stdout).to_lowercase().contains("error"), "{}", text(&gap.stdout));
    assert_eq!(scene.host.state(), before);
}
