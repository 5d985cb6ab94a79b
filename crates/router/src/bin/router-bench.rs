//! `router-bench`: what `wirespeed router probe` and `bench` do, as one file that needs the system's C library alone. For
//! machines with a GPU and nothing else.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use router::bench::{
    BenchMode, BenchPoint, BenchSpec, ChangesPoint, PlainLoopPoint, PlainLoopSpec, REPEAT_COLUMNS, RepeatSpec,
    SharesPoint, SharesSpec, bench_changes, bench_loop, bench_past, bench_repeats, bench_shares, usual_cores,
};
use router::cuda::{GpuContext, Offer, measure_link, probe};
use router::delay::DelaySummary;
use router::setup::FunctionNames;
use router::{Commit, RoundTasks, RouterError};

const USAGE: &str = "\
router-bench probe [--driver LIBRARY]
    what this machine's GPU offers, and a thousand tasks there and back; exit code 77 where there is none
router-bench link [--driver LIBRARY] [--rounds N] [--echoes N]
    what ways over the bus take: rounds of the dispatcher, a word, and a count there and back
router-bench changes [OPTION VALUE]...
    lookups while routes change: how soon, what that costs, every verdict checked against the tables that there were
    --changes N,N      changes a second (0,10000,100000)
    --loads X,X        Mpps (20); max is all at once
router-bench loop [OPTION VALUE]...
    the router that runs to completion beside a plain loop over the same functions and packets, on one core and on all that are named
    --cores N,N        cores (the first two that may be used)
    --runs N           runs of each, in turn (9)
router-bench shares [OPTION VALUE]...
    threads and a GPU together, packets from memory and in order: shares by measured cost beside shares that are set
    --gpu S,S          shares of the GPU, or cost (cost,0,0.25,0.5,0.75,1)
    --runs N           runs of each, in turn (5)
router-bench repeats [OPTION VALUE]...
    the same lookups again and again: on the same memory, on new memory, by a host's thread on each core
    --allocations N    how often all memory is allocated anew (10)
    --runs N           runs on each (16)
    --cores N,N        cores that the host's thread is pinned to in turn (none)
router-bench [OPTION VALUE]...
    delay against throughput of every mode, every verdict checked, what tells most first

  --csv FILE         write each point to this file at once
  --seconds N        end after so many seconds (540)
  --functions F,F    forward, check, lookup, ttl, classify, inspect, fragment; a chain has + between (forward,ttl,lookup,inspect)
  --table FILE       a prefix table (a made one)
  --capture FILE     use its packets (made ones)
  --modes M,M        cpu, zero_copy, resident, batch, streams, graph, batch_gathered, streams_gathered (all)
  --commits C,C      of kernels that stay: device, host, unordered (all)
  --mcw N,N          warps a core of kernels that stay; max is as many as fit (max,1,2,4,8,16,32)
  --rounds N-M,N     tasks that the dispatcher of a kernel that stays asks the bus for: 32, 64, 128, or from one to another (32-128)
  --batches N,N      powers of two (32 to 8192)
  --shares X,X       loads, as shares of the most that is carried (0.2,0.5,0.8,0.95)
  --loads X,X        further loads, in Mpps (none)
  --threads N,N      workers of the CPU (powers of two, and one less than there are cores)
  --gatherers N,N    threads that gather for streams_gathered, a batch each (3)
  --packets N        packets a point, a power of two (524288)
  --deadline N       seconds after which a backend that does not answer is given up (5)
  --driver LIBRARY   the GPU driver's library (libcuda.so.1)
exit code: 0 fine, 1 a verdict was wrong or a point failed, 2 bad input";

const NO_GPU: u8 = 77;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("--help" | "-h" | "help") => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        Some("probe") => probed(&arguments[1..]),
        Some("bench") => benched(&arguments[1..]),
        Some("link") => linked(&arguments[1..]),
        Some("changes") => changes(&arguments[1..]),
        Some("loop") => loops(&arguments[1..]),
        Some("shares") => shares(&arguments[1..]),
        Some("repeats") => repeats(&arguments[1..]),
        _ => benched(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}

/// Options with their values.
fn pairs(arguments: &[String]) -> Result<Vec<(&str, &str)>, Box<dyn Error>> {
    arguments
        .chunks(2)
        .map(|pair| match pair {
            [name, value] if name.starts_with("--") => Ok((name.as_str(), value.as_str())),
            [name, ..] => Err(format!("{name}: an option and its value are expected; --help lists them").into()),
            [] => Err("an option is expected".into()),
        })
        .collect()
}

fn unknown(name: &str) -> Box<dyn Error> {
    format!("{name}: no such option; --help lists them").into()
}

fn list<T>(name: &str, text: &str, one: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Box<dyn Error>> {
    let found: Option<Vec<T>> = text.split(',').map(|part| one(part.trim())).collect();
    found.ok_or_else(|| format!("{name} {text}: see --help for what is allowed").into())
}

fn probed(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let mut driver = None;
    for (name, value) in pairs(arguments)? {
        match name {
            "--driver" => driver = Some(value),
            _ => return Err(unknown(name)),
        }
    }
    match probe(driver) {
        Ok(offer) => {
            show(&offer);
            Ok(ExitCode::SUCCESS)
        }
        Err(reason) if reason.is_no_gpu() => {
            println!("{reason}");
            Ok(ExitCode::from(NO_GPU))
        }
        Err(reason) => Err(reason.into()),
    }
}

fn show(offer: &Offer) {
    let (major, minor) = offer.capability;
    println!("{}, driver {}, {} GPUs", offer.name, offer.driver_name(), offer.devices);
    println!("compute capability {major}.{minor}, {} cores at {} MHz", offer.cores, offer.clock_mhz);
    println!("{} MiB of memory, {} KiB of L2, {} copy engines", offer.memory >> 20, offer.l2 >> 10, offer.copy_engines);
    println!("integrated: {}; a display may end kernels: {}", offer.integrated, offer.display);
    let (headers, any) = (offer.warps_per_core, offer.warps_per_core_any);
    println!("warps a core: {headers}, of the kernel for any program {any}");
    if let Some(delay) = offer.round_trip {
        let (mean, p50, p99, max) = (delay.mean_us, delay.p50_us, delay.p99_us, delay.max_us);
        println!("a task there and back: mean {mean:.2} us, p50 {p50:.2} us, p99 {p99:.2} us, max {max:.2} us");
    }
}

fn linked(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let (mut driver, mut rounds, mut echoes) = (None, 4096, 4096);
    let number = |name: &str, value: &str| {
        let found = value.parse().ok().filter(|number| (1..=1 << 17).contains(number));
        found.ok_or_else(|| format!("{name} {value}: must be 1 to 131072"))
    };
    for (name, value) in pairs(arguments)? {
        match name {
            "--driver" => driver = Some(value),
            "--rounds" => rounds = number(name, value)?,
            "--echoes" => echoes = number(name, value)?,
            _ => return Err(unknown(name)),
        }
    }
    let context = match GpuContext::open(driver, 0) {
        Ok(context) => context,
        Err(reason) if reason.is_no_gpu() => {
            println!("{reason}");
            return Ok(ExitCode::from(NO_GPU));
        }
        Err(reason) => return Err(reason.into()),
    };
    let times = measure_link(&context, rounds, echoes, Duration::from_secs(5))?;
    println!("{}, driver {}", context.offer().name, context.offer().driver_name());
    println!("a word of the host's memory: {:.0} ns", times.word_ns);
    for ((tasks, asked), handed_on) in [32, 64, 128].iter().zip(times.asked_ns).zip(times.handed_on_ns) {
        println!("a round of {tasks} tasks: {asked:.0} ns, and {handed_on:.0} ns where all are handed on");
    }
    if let Some(DelaySummary { mean_us, p50_us, p99_us, .. }) = times.echo {
        println!("a word there and back: mean {mean_us:.2} us, p50 {p50_us:.2} us, p99 {p99_us:.2} us");
    }
    Ok(ExitCode::SUCCESS)
}

/// Powers of two of workers, and as many as leave a core for ingress and egress.
fn thread_counts() -> Vec<u32> {
    let most = BenchSpec::default().threads.into_iter().max().unwrap_or(1);
    let mut counts: Vec<u32> = (0..).map(|bits| 1 << bits).take_while(|&count| count < most).collect();
    counts.push(most);
    counts
}

fn functions(name: &str, text: &str) -> Result<Vec<FunctionNames>, Box<dyn Error>> {
    list(name, text, |part| FunctionNames::try_from(part.replace('+', ",")).ok())
}

fn spec_of(arguments: &[String]) -> Result<(BenchSpec, Option<PathBuf>), Box<dyn Error>> {
    let mut spec = BenchSpec {
        commits: Commit::ALL.iter().map(|&(_, commit)| commit).collect(),
        warps_per_core: [None].into_iter().chain([1, 2, 4, 8, 16, 32].map(Some)).collect(),
        threads: thread_counts(),
        seconds: Some(540.0),
        ..BenchSpec::default()
    };
    let (mut csv, mut all) = (None, functions("--functions", "forward,ttl,lookup,inspect")?);
    for (name, value) in pairs(arguments)? {
        match name {
            "--csv" => csv = Some(PathBuf::from(value)),
            "--seconds" => {
                spec.seconds = Some(value.parse().map_err(|_| format!("--seconds {value}: must be a number"))?)
            }
            "--functions" => all = functions(name, value)?,
            "--table" => spec.table = Some(value.into()),
            "--capture" => spec.capture = Some(value.into()),
            "--modes" => spec.modes = list(name, value, mode_named)?,
            "--commits" => spec.commits = list(name, value, commit_named)?,
            "--mcw" => {
                spec.warps_per_core =
                    list(name, value, |part| if part == "max" { Some(None) } else { part.parse().ok().map(Some) })?;
            }
            "--rounds" => spec.rounds = list(name, value, |part| RoundTasks::parse(part).ok())?,
            "--batches" => spec.batches = list(name, value, |part| part.parse().ok())?,
            "--shares" => spec.shares = list(name, value, |part| part.parse().ok())?,
            "--loads" => spec.loads = list(name, value, |part| part.parse().ok())?,
            "--threads" => spec.threads = list(name, value, |part| part.parse().ok())?,
            "--gatherers" => spec.gatherers = list(name, value, |part| part.parse().ok())?,
            "--packets" => spec.packets = value.parse().map_err(|_| format!("--packets {value}: must be a number"))?,
            "--deadline" => {
                spec.deadline_s = value.parse().map_err(|_| format!("--deadline {value}: must be a number"))?;
            }
            "--driver" => spec.driver = Some(value.into()),
            _ => return Err(unknown(name)),
        }
    }
    spec.function = all.remove(0);
    spec.further = all;
    Ok((spec, csv))
}

/// The value of an option of a subcommand, which is taken out of the arguments.
fn taken(arguments: &mut Vec<String>, name: &str, usual: &str) -> String {
    match arguments.iter().position(|own| own == name).filter(|at| at + 1 < arguments.len()) {
        Some(at) => arguments.drain(at..at + 2).next_back().unwrap_or_default(),
        None => usual.into(),
    }
}

/// A sink of lines: on the terminal, and in the file that was asked for, which begins with `columns`.
fn lines(csv: Option<PathBuf>, columns: &str) -> Result<impl FnMut(&str), Box<dyn Error>> {
    let mut file = csv.map(File::create).transpose()?;
    let mut write = move |line: &str| {
        // Who reads no further ends nothing: the file is written all the same.
        let _ = writeln!(std::io::stdout(), "{line}");
        if let Some(file) = &mut file
            && let Err(error) = file.write_all(format!("{line}\n").as_bytes())
        {
            eprintln!("error: {error}");
        }
    };
    write(columns);
    Ok(write)
}

fn changes(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = arguments.to_vec();
    let per_second = taken(&mut arguments, "--changes", "0,10000,100000");
    let per_second = list("--changes", &per_second, |part| part.parse::<f64>().ok().filter(|rate| *rate >= 0.0))?;
    let loads = taken(&mut arguments, "--loads", "20");
    let loads = list("--loads", &loads, |part| if part == "max" { Some(None) } else { part.parse().ok().map(Some) })?;
    let (spec, csv) = spec_of(&arguments)?;
    let wrong = bench_changes(&spec, &loads, &per_second, lines(csv, ChangesPoint::COLUMNS)?)?;
    eprintln!("{wrong} wrong verdicts");
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn repeats(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = arguments.to_vec();
    let mut number = |name: &str, usual: &str| -> Result<u32, Box<dyn Error>> {
        let text = taken(&mut arguments, name, usual);
        text.parse().map_err(|_| format!("{name} {text}: must be a number").into())
    };
    let (allocations, runs) = (number("--allocations", "10")?, number("--runs", "16")?);
    let cores = taken(&mut arguments, "--cores", "");
    let cores = if cores.is_empty() { Vec::new() } else { list("--cores", &cores, |part| part.parse().ok())? };
    let (spec, csv) = spec_of(&arguments)?;
    bench_repeats(&spec, &RepeatSpec { allocations, runs, cores }, lines(csv, REPEAT_COLUMNS)?)?;
    Ok(ExitCode::SUCCESS)
}

fn loops(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = arguments.to_vec();
    let cores = taken(&mut arguments, "--cores", "");
    let cores = if cores.is_empty() { usual_cores(2) } else { list("--cores", &cores, |part| part.parse().ok())? };
    let runs = taken(&mut arguments, "--runs", "9");
    let runs = runs.parse().map_err(|_| format!("--runs {runs}: must be a number"))?;
    let (spec, csv) = spec_of(&arguments)?;
    spec.check()?;
    let compared = PlainLoopSpec { cores, runs, packets: spec.packets };
    let mut points = Vec::new();
    let mut write = lines(csv, PlainLoopPoint::COLUMNS)?;
    bench_loop(&spec, &compared, |point| {
        write(&point.csv());
        points.push(point.clone());
    })?;
    // Medians of what was measured in turn.
    let median = |function: &str, what: &str, cores: usize| {
        let of = points.iter().filter(|own| (own.function.as_str(), own.what, own.cores) == (function, what, cores));
        let mut all: Vec<f64> = of.map(|point| point.mpps).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let mut functions: Vec<&str> = points.iter().map(|point| point.function.as_str()).collect();
    functions.dedup();
    for function in functions {
        let (alone, router) = (median(function, "loop", 1), median(function, "router", 1));
        eprintln!(
            "{function}: the router takes {:.2} times a plain loop ({router:.1} and {alone:.1} Mpps)",
            alone / router
        );
        let cores = compared.cores.len();
        if cores > 1 {
            let (alone_all, all) = (median(function, "loop", cores), median(function, "router", cores));
            let (times, of_loop) = (all / router, alone_all / alone);
            eprintln!(
                "{function}: {cores} cores carry {times:.2} times one ({all:.1} Mpps; the loop {of_loop:.2} times)"
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn shares(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = arguments.to_vec();
    let set = taken(&mut arguments, "--gpu", "cost,0,0.25,0.5,0.75,1");
    let shares = list("--gpu", &set, |part| if part == "cost" { Some(None) } else { part.parse().ok().map(Some) })?;
    let runs = taken(&mut arguments, "--runs", "5");
    let runs = runs.parse().map_err(|_| format!("--runs {runs}: must be a number"))?;
    let (spec, csv) = spec_of(&arguments)?;
    spec.check()?;
    let threads = spec.threads.iter().copied().max().unwrap_or(1) as usize;
    let batch = spec.batches.first().copied().unwrap_or(32);
    let compared = SharesSpec { threads, shares, runs, packets: spec.packets, batch };
    let mut write = lines(csv, SharesPoint::COLUMNS)?;
    bench_shares(&spec, &compared, |point| write(&point.csv()))?;
    Ok(ExitCode::SUCCESS)
}

fn mode_named(part: &str) -> Option<BenchMode> {
    BenchMode::ALL.iter().find(|(own, _)| *own == part).map(|&(_, mode)| mode)
}

fn commit_named(part: &str) -> Option<Commit> {
    Commit::ALL.iter().find(|(own, _)| *own == part).map(|&(_, commit)| commit)
}

fn benched(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let (spec, csv) = spec_of(arguments)?;
    // Before an earlier file is written over.
    spec.check()?;
    let mut file = csv.map(File::create).transpose()?;
    if let Some(file) = &mut file {
        writeln!(file, "{}", BenchPoint::COLUMNS)?;
    }
    let (mut wrong, mut failures, mut written) = (0, 0, Ok(()));
    let each = |point: &BenchPoint| {
        let line = point.csv();
        println!("{line}");
        wrong += point.wrong;
        if let Some(file) = &mut file {
            // One write a line, so that nothing is lost when it is cut off.
            written = file.write_all(format!("{line}\n").as_bytes());
        }
        written.is_ok()
    };
    let failed = |what: &str, error: RouterError| {
        failures += 1;
        eprintln!("failed: {what}: {error}");
        Ok(())
    };
    let done = bench_past(&spec, each, failed)?;
    written?;
    for note in &done.notes {
        eprintln!("{note}");
    }
    eprintln!("{} points, {failures} failures, {wrong} wrong verdicts", done.points);
    Ok(if wrong + failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
