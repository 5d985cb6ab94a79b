//! What this machine offers of all that can be read and set, what is missing, and what to do. Nothing is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use units::Cbm;

use crate::resctrl::IoAlloc;
use crate::{
    CpuIdentity, Files, GroupMode, HostError, IoRegister, IoWaysRegister, Resctrl, Tree, generation, json, perf,
};

/// How far something can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// It can.
    Works,
    /// In part, or with care.
    Limited,
    /// It cannot.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SurveyFinding {
    /// What.
    pub what: &'static str,
    /// Whether it can be used.
    pub state: Support,
    /// What was found.
    pub detail: String,
    /// What to do, if there is something to do.
    pub remedy: Option<String>,
}

/// All that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// The processor.
    pub processor: String,
    /// In the order in which things depend on each other.
    pub findings: Vec<SurveyFinding>,
    /// What `wirespeedd` can do here.
    pub verdict: String,
}

/// Intel PCM's usual address.
pub const PCM_URL: &str = "http://127.0.0.1:9738/";

/// Looks at the machine below `root` (`/` for this one).
pub fn survey(root: &Path) -> Survey {
    let tree = |path: &str| -> Arc<dyn Tree> { Arc::new(Files::new(root.join(path))) };
    let (proc, sys, dev) = (tree("proc"), tree("sys"), tree("dev/cpu"));
    let cpu = CpuIdentity::read(&*proc).unwrap_or_default();
    let mut findings = vec![processor(&cpu)];
    let resctrl = Resctrl::open(tree("sys/fs/resctrl"));
    findings.push(allocation(&resctrl, &cpu, &*proc));
    let io = io_ways(&cpu, dev, resctrl.as_ref().ok());
    findings.push(io.0);
    if let Ok(resctrl) = &resctrl {
        findings.push(monitoring(resctrl));
        findings.push(groups(resctrl, io.1));
        findings.push(io_alloc(&cpu, resctrl));
    }
    findings.push(counters(&*sys, &*proc));
    findings.push(telemetry(root));
    findings.push(pcm(root));
    findings.push(scheduler(&*proc));
    findings.push(huge_pages(&*proc));
    let works = |what: &str| findings.iter().any(|f| f.what == what && f.state == Support::Works);
    let verdict = match (works(ALLOCATION), works(IO) || works(IO_ALLOC)) {
        (true, true) => "wirespeedd can divide the LLC between packet cores and devices here.",
        (true, false) => {
            "wirespeedd can give packet cores ways of their own here; the ways of device writes stay as they are."
        }
        (false, _) => {
            "wirespeedd has nothing to set here. Simulation, tuning and calibration work all the same: they need none of this."
        }
    };
    let name = if cpu.name.is_empty() { "unknown".into() } else { cpu.name };
    Survey { processor: name, findings, verdict: verdict.into() }
}

const ALLOCATION: &str = "cache allocation";
const IO: &str = "I/O ways (MSR 0xC8B)";
const IO_ALLOC: &str = "I/O allocation (io_alloc)";

fn finding(what: &'static str, state: Support, detail: impl Into<String>, remedy: Option<&str>) -> SurveyFinding {
    SurveyFinding { what, state, detail: detail.into(), remedy: remedy.map(Into::into) }
}

fn processor(cpu: &CpuIdentity) -> SurveyFinding {
    let what = "processor";
    if cpu.processors == 0 {
        return finding(what, Support::Missing, "/proc/cpuinfo says nothing", Some("mount /proc"));
    }
    let kind = generation(cpu).map_or("not in our table", |g| g.name);
    let detail = format!(
        "{} family {} model {} ({kind}), processors: {}, packages: {}",
        cpu.vendor,
        cpu.family,
        cpu.model,
        cpu.processors,
        cpu.packages.len()
    );
    if cpu.has("hypervisor") {
        let remedy = "registers and uncore counters belong to the host: run there, or let it pass them through";
        return finding(what, Support::Limited, format!("{detail}; a virtual machine"), Some(remedy));
    }
    finding(what, Support::Works, detail, None)
}

fn allocation(resctrl: &Result<Resctrl, HostError>, cpu: &CpuIdentity, proc: &dyn Tree) -> SurveyFinding {
    let what = ALLOCATION;
    match resctrl {
        Ok(resctrl) => match resctrl.rule() {
            Ok(rule) => {
                let kind = if rule.sparse { "any" } else { "contiguous" };
                let detail = format!(
                    "resctrl: {} ways, {kind} masks of {} ways or more, {} classes of service",
                    rule.ways(),
                    rule.min_bits,
                    rule.closids
                );
                let may_write = resctrl.tree().lock().is_ok();
                if may_write {
                    finding(what, Support::Works, detail, None)
                } else {
                    finding(
                        what,
                        Support::Limited,
                        format!("{detail}; another program holds its lock"),
                        Some("wait for it"),
                    )
                }
            }
            Err(why) => finding(what, Support::Missing, why.to_string(), None),
        },
        Err(HostError::NotMounted { .. }) => {
            let known = proc.read("filesystems").is_ok_and(|t| t.lines().any(|l| l.ends_with("\tresctrl")));
            match (cpu.has("cat_l3"), known) {
                (true, true) => finding(
                    what,
                    Support::Missing,
                    "resctrl is not mounted",
                    Some("mount -t resctrl resctrl /sys/fs/resctrl"),
                ),
                (true, false) => finding(
                    what,
                    Support::Missing,
                    "the processor has CAT, the kernel has no resctrl",
                    Some("a kernel with CONFIG_X86_CPU_RESCTRL, without rdt=!l3cat on its command line"),
                ),
                (false, _) => finding(
                    what,
                    Support::Missing,
                    "the processor shows no CAT for L3 (cat_l3)",
                    Some("Intel Xeon from Broadwell-EP on, or AMD EPYC from Rome on; a virtual machine rarely has it"),
                ),
            }
        }
        Err(why) => finding(what, Support::Missing, why.to_string(), Some("run as root")),
    }
}

fn monitoring(resctrl: &Resctrl) -> SurveyFinding {
    let what = "cache monitoring";
    match resctrl.monitoring() {
        Ok(Some(m)) => {
            finding(what, Support::Works, format!("{} monitoring ids: {}", m.rmids, m.features.join(", ")), None)
        }
        Ok(None) => finding(
            what,
            Support::Missing,
            "no L3_MON",
            Some("a processor with CMT and MBM; occupancy is shown, not needed"),
        ),
        Err(why) => finding(what, Support::Limited, why.to_string(), None),
    }
}

/// Other programs' groups, and where cores and devices share ways.
fn groups(resctrl: &Resctrl, io: Option<Cbm>) -> SurveyFinding {
    let what = "groups";
    let look = || -> Result<SurveyFinding, HostError> {
        let (groups, rule) = (resctrl.groups()?, resctrl.rule()?);
        let mut told = Vec::new();
        let mut shares = false;
        for group in &groups {
            let masks = resctrl.masks(group)?;
            let mode = resctrl.mode(group).unwrap_or(GroupMode::Shareable);
            let text = masks.iter().map(|(d, m)| format!("{d}={:x}", m.0)).collect::<Vec<_>>().join(";");
            let name = if group.is_empty() { "(default)" } else { group };
            told.push(format!(
                "{name} {text}{}",
                if mode == GroupMode::Shareable { String::new() } else { format!(" {mode}") }
            ));
            shares |= io.is_some_and(|io| masks.iter().any(|(_, m)| m.0 & io.0 != 0));
        }
        let free = rule.closids.saturating_sub(groups.len() as u32);
        let detail = format!("{}; {free} of {} classes are free", told.join(", "), rule.closids);
        let (state, remedy) = match (free, shares) {
            (0, _) => (Support::Limited, Some("no class is left for wirespeedd: remove a group that nobody needs")),
            (_, true) => (
                Support::Limited,
                Some(
                    "cores fill ways that device writes fill too, so packets and their tables evict each other: \
                     `wirespeedd plan` shows a division",
                ),
            ),
            _ => (Support::Works, None),
        };
        Ok(finding(what, state, detail, remedy))
    };
    look().unwrap_or_else(|why| finding(what, Support::Limited, why.to_string(), None))
}

fn io_alloc(cpu: &CpuIdentity, resctrl: &Resctrl) -> SurveyFinding {
    let known = generation(cpu);
    match resctrl.io_alloc() {
        Ok(IoAlloc::Unsupported) if known.is_some_and(|g| g.io_alloc) => finding(
            IO_ALLOC,
            Support::Missing,
            "the kernel has none",
            Some("Linux 6.19 or later, where this processor has SDCI (SDCIAE)"),
        ),
        Ok(IoAlloc::Unsupported) => finding(
            IO_ALLOC,
            Support::Missing,
            "the kernel or the processor has none",
            Some("Linux 6.19 on AMD with SDCI; Intel's servers have the register instead"),
        ),
        Ok(IoAlloc::Disabled) => {
            finding(IO_ALLOC, Support::Works, "there, and off; on, it takes the highest class", None)
        }
        Ok(IoAlloc::Enabled(masks)) => {
            let text = masks.iter().map(|(d, m)| format!("{d}={:x}", m.0)).collect::<Vec<_>>().join(";");
            finding(IO_ALLOC, Support::Works, format!("on: {text}"), None)
        }
        Err(why) => finding(IO_ALLOC, Support::Limited, why.to_string(), None),
    }
}

fn io_ways(cpu: &CpuIdentity, dev: Arc<dyn Tree>, resctrl: Option<&Resctrl>) -> (SurveyFinding, Option<Cbm>) {
    let known = generation(cpu);
    let absent = |why: &str, remedy: Option<&str>| (finding(IO, Support::Missing, why, remedy), None);
    match known.map(|g| g.io_ways) {
        None => return absent("this processor is in no row of our table", None),
        Some(IoWaysRegister::Absent) if known.is_some_and(|g| g.io_alloc) => {
            let has = resctrl.is_some_and(|r| matches!(r.io_alloc(), Ok(IoAlloc::Disabled | IoAlloc::Enabled(_))));
            let remedy = if has {
                "the kernel's io_alloc sets them here"
            } else {
                "the kernel's io_alloc would set them, which is not here: Linux 6.19 or later with resctrl mounted, where this \
                 processor has SDCI (SDCIAE)"
            };
            return absent("no such register is known of this processor", Some(remedy));
        }
        Some(IoWaysRegister::Absent) => return absent("no such register is known of this processor", None),
        Some(_) if cpu.has("hypervisor") => {
            return absent("the hypervisor keeps the register to itself", Some("run on the host"));
        }
        Some(_) => {}
    }
    let read = IoRegister::new(dev, cpu.packages.clone()).read();
    let ways = match read {
        Ok(ways) => ways,
        Err(why) if why.is_gone() => return absent("no /dev/cpu/0/msr", Some("modprobe msr")),
        Err(why) => return absent(&why.to_string(), Some("run as root; a locked-down kernel keeps registers closed")),
    };
    let shared = resctrl.and_then(|r| r.rule().ok()).map(|r| r.shareable);
    let told = format!(
        "device writes fill {ways}{}{}{}",
        known.and_then(|g| g.ways).map(|all| format!(", {} of {all} ways", ways.ways())).unwrap_or_default(),
        match known.and_then(|g| g.default) {
            Some(default) if default != ways => format!(" (after a start: {default})"),
            _ => String::new(),
        },
        match shared {
            Some(s) if s != ways && s.0 != 0 => format!(" (resctrl still says {s}: it shows the default)"),
            _ => String::new(),
        }
    );
    let (generation_name, source) = known.map_or(("this processor", ""), |g| (g.name, g.source));
    let finding = match known.map(|g| g.io_ways) {
        Some(IoWaysRegister::Works) => finding(IO, Support::Works, told, None),
        Some(IoWaysRegister::NoEffect) => finding(
            IO,
            Support::Limited,
            format!("{told}; on {generation_name} a write reads back and changes nothing ({source})"),
            Some("wirespeedd leaves it alone and divides the other ways"),
        ),
        _ => finding(
            IO,
            Support::Limited,
            format!("{told}; whether a write has an effect on {generation_name} is not known ({source})"),
            Some("wirespeedd leaves it alone unless io.backend = \"register\", and measures the effect then"),
        ),
    };
    (finding, Some(ways))
}

fn counters(sys: &dyn Tree, proc: &dyn Tree) -> SurveyFinding {
    let what = "perf counters";
    let paranoid = proc.read("sys/kernel/perf_event_paranoid").ok().map(|t| t.trim().to_string());
    match perf::offered(sys) {
        Ok(kinds) => {
            let detail = kinds.iter().map(|(k, n)| if *n > 1 { format!("{k} x{n}") } else { k.clone() });
            let detail = detail.collect::<Vec<_>>().join(", ");
            let uncore = kinds.keys().any(|k| k.starts_with("uncore_cha") || k.starts_with("amd_l3"));
            let paranoid = paranoid.map(|p| format!("; perf_event_paranoid {p}")).unwrap_or_default();
            if uncore {
                finding(what, Support::Works, format!("{detail}{paranoid}"), None)
            } else {
                let remedy = "DDIO misses and memory bandwidth need the uncore's units; without them the allocator sees packets, \
                              loss and busy time only";
                finding(
                    what,
                    Support::Limited,
                    format!("no uncore units of the LLC; there are {detail}{paranoid}"),
                    Some(remedy),
                )
            }
        }
        Err(why) => finding(what, Support::Missing, why.to_string(), None),
    }
}

fn telemetry(root: &Path) -> SurveyFinding {
    let what = "DPDK telemetry";
    let mut found: Vec<PathBuf> = Vec::new();
    for run in ["var/run/dpdk", "run/dpdk"] {
        let tree = Files::new(root.join(run));
        for (prefix, _) in tree.list("").unwrap_or_default() {
            let socket = crate::Telemetry::socket_of(tree.root(), &prefix);
            let real = socket.canonicalize().unwrap_or(socket);
            if real.exists() && !found.contains(&real) {
                found.push(real);
            }
        }
    }
    let listed = found.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
    match found.iter().find_map(|p| crate::Telemetry::connect(p).ok()) {
        Some(mut telemetry) => match telemetry.cores() {
            Ok(cores) if !cores.is_empty() => finding(what, Support::Works, listed, None),
            _ => finding(
                what,
                Support::Limited,
                format!("{listed}: packets and loss, but not how busy its cores are (/eal/lcore/usage)"),
                Some(
                    "wirespeedd's allocator cannot decide without busy time: DPDK 23.03 or later, and a program that records its \
                     cycles, as testpmd does with --record-core-cycles",
                ),
            ),
        },
        None if found.is_empty() => finding(
            what,
            Support::Missing,
            "no DPDK program offers a socket",
            Some("start one without --no-telemetry, as the same user, and not with --in-memory"),
        ),
        None => finding(
            what,
            Support::Limited,
            format!("{listed}: nobody answers"),
            Some("the program has ended: start it again"),
        ),
    }
}

fn pcm(root: &Path) -> SurveyFinding {
    let what = "Intel PCM sensor server";
    let missing = |why: &str| {
        finding(
            what,
            Support::Missing,
            why,
            Some("pcm-sensor-server, if DDIO and DRAM counters are wanted without perf"),
        )
    };
    if root != Path::new("/") {
        return missing("not asked: the root is not this machine's");
    }
    match json::JsonServer::new(PCM_URL).and_then(|s| s.read()) {
        Ok(_) => finding(what, Support::Works, PCM_URL, None),
        Err(_) => missing("nobody answers at http://127.0.0.1:9738/"),
    }
}

fn scheduler(proc: &dyn Tree) -> SurveyFinding {
    let what = "scheduler statistics";
    match proc.read("self/schedstat") {
        Ok(_) => finding(what, Support::Works, "/proc/PID/schedstat counts CPU time by thread", None),
        Err(_) => finding(
            what,
            Support::Missing,
            "/proc/self/schedstat is not there",
            Some("a kernel with CONFIG_SCHED_INFO"),
        ),
    }
}

fn huge_pages(proc: &dyn Tree) -> SurveyFinding {
    let what = "huge pages";
    let text = proc.read("meminfo").unwrap_or_default();
    let of = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.trim().split(' ').next()?.parse::<u64>().ok());
    match (of("HugePages_Total:"), of("HugePages_Free:"), of("Hugepagesize:")) {
        (Some(total), Some(free), Some(kib)) if total > 0 => {
            finding(what, Support::Works, format!("{free} of {total} free, {kib} KiB each"), None)
        }
        _ => finding(
            what,
            Support::Limited,
            "none reserved",
            Some("echo 1024 > /proc/sys/vm/nr_hugepages, or run DPDK with --no-huge and more TLB misses"),
        ),
    }
}
