//! `wirespeedd`: sets the ways of the last-level cache of packet cores and devices, and puts them back.
//!
//! Exit codes: 0 done, 1 the machine (all is put back, or the journal says what is not), 2 the configuration or the command line,
//! 3 the watchdog.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{ExitCode, exit};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use daemon::watchdog::{self, Heart, pause};
use daemon::{
    Daemon, DaemonConfig, DaemonError, IntervalStep, LoopEnd, Metrics, Parts, StateFolder, plan, restore, serve,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use units::Ps;

/// Moves the ways of the last-level cache between packet cores and devices by how the program responds.
#[derive(Parser)]
#[command(name = "wirespeedd", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: DaemonCommand,
    /// The configuration.
    #[arg(long, global = true, default_value = "/etc/wirespeedd.toml", value_name = "FILE")]
    config: PathBuf,
    /// What is logged: error, warn, info or debug.
    #[arg(long, global = true, default_value = "info", value_name = "LEVEL")]
    log: tracing::Level,
}

#[derive(Subcommand)]
enum DaemonCommand {
    /// Judge the configuration, touch nothing.
    Check,
    /// Print the writes that `run --apply` would make first, as shell commands; make none.
    Plan,
    /// Observe and decide once an interval; a dry run, unless told to apply.
    Run {
        /// Make the writes. Everything is put back at the end.
        #[arg(long)]
        apply: bool,
        /// End after so many intervals.
        #[arg(long, value_name = "N")]
        intervals: Option<u64>,
    },
    /// Put back what a daemon that died has left.
    Restore,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .json()
        .with_writer(std::io::stderr)
        // A log that cannot be written is no reason to die with the machine set.
        .log_internal_errors(false)
        .with_max_level(arguments.log)
        .with_target(false)
        .init();
    match go(&arguments) {
        Ok(code) => code,
        Err(why) => {
            say(&why.to_string());
            if why.is_input() { ExitCode::from(2) } else { ExitCode::from(1) }
        }
    }
}

/// On standard error, which may be closed.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "wirespeedd: {text}");
}

fn go(arguments: &Arguments) -> Result<ExitCode, DaemonError> {
    let name = arguments.config.display().to_string();
    let text = std::fs::read_to_string(&arguments.config).map_err(|e| DaemonError::Setting {
        path: "--config".into(),
        came: name.clone(),
        allowed: format!("it cannot be read: {e} (docs/guide/daemon.md has one to begin with)"),
    })?;
    let config = DaemonConfig::parse(&text, &name)?;
    let parts = Parts::of(&config);
    match arguments.command {
        DaemonCommand::Check => println!("{name}: sound"),
        DaemonCommand::Plan => {
            let mut notes = Vec::new();
            let sources = daemon::sources(&config, &parts, &mut notes)?;
            let mut plan = plan(&config, &parts, sources)?;
            plan.notes.extend(notes);
            print!("{plan}");
        }
        DaemonCommand::Restore => {
            let state = StateFolder::lock(&config.state)?;
            let _claim = parts.claim()?;
            let report = restore(&state, &parts, &mut pause)?;
            for line in report.restored.iter().chain(&report.safe) {
                println!("{line}");
            }
            if report.restored.is_empty() && report.safe.is_empty() {
                println!("nothing is to be put back");
            }
        }
        DaemonCommand::Run { apply, intervals } => return run(config, parts, apply, intervals),
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for an interval, or until a signal comes, and says which. systemd's watchdog may be less patient than an interval is long.
fn waits(asked: &Receiver<i32>, interval: Duration) -> bool {
    let piece = sd_notify::watchdog_enabled().map_or(interval, |patience| patience / 3).max(Duration::from_millis(10));
    let ends = Instant::now() + interval;
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        match asked.recv_timeout(left.min(piece)) {
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) if left <= piece => return false,
            Err(RecvTimeoutError::Timeout) => {
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
            }
        }
    }
}

fn run(config: DaemonConfig, parts: Parts, apply: bool, intervals: Option<u64>) -> Result<ExitCode, DaemonError> {
    let interval = Duration::from_nanos(config.interval.ps().0 / 1000);
    let patience = Duration::from_nanos(config.watchdog.ps().0 / 1000);
    // Signals are taken from here on: what comes while groups are made is answered by putting them back.
    let (sender, asked) = channel();
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let mut signals = signals.map_err(|e| DaemonError::file("handling", "signals".as_ref(), e))?;
    thread::spawn(move || signals.forever().try_for_each(|signal| sender.send(signal)));
    let metrics = Metrics::new();
    serve(&config.listen, metrics.clone(), patience)?;
    let heart = Heart::default();
    let watched = config.clone();
    watchdog::watch(&heart, patience, move || {
        // The machine first: what hangs may be the writing of a line to standard error.
        let outcome = match apply.then(|| watchdog::put_back(&watched)) {
            None => String::new(),
            Some(Ok(_)) => ": all is put back".into(),
            Some(Err(why)) => format!(": {why}"),
        };
        let text = format!("wirespeedd: no interval has ended for {patience:?}{outcome}");
        watchdog::say_within(text, Duration::from_secs(1));
        exit(3);
    });
    let mut notes = Vec::new();
    let sources = daemon::sources(&config, &parts, &mut notes)?;
    for note in notes {
        tracing::warn!(event = "note", note);
    }
    let start = Instant::now();
    let clock = move || Ps(start.elapsed().as_nanos() as u64 * 1000 + 1);
    let mut daemon = Daemon::new(config, parts, sources, metrics, apply, &mut pause, clock)?;
    tracing::info!(event = "start", apply, interval_s = interval.as_secs_f64());
    // Outside of systemd there is nobody to tell.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let mut done = 0;
    let end = loop {
        let step = daemon.step(&mut pause);
        heart.beat();
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
        done += 1;
        if let IntervalStep::End(end) = step {
            break end;
        }
        if intervals.is_some_and(|most| done >= most) {
            break LoopEnd::Asked;
        }
        // A loop that is late does not catch up: reading more often than asked costs packets.
        if waits(&asked, interval) {
            break LoopEnd::Asked;
        }
    };
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    let report = daemon.end(&mut pause)?;
    tracing::info!(event = "end", end = ?end, restored = ?report.restored, safe = ?report.safe);
    match end {
        LoopEnd::Asked => Ok(ExitCode::SUCCESS),
        LoopEnd::GaveUp(why) => {
            say(&format!("{why}; all is put back"));
            Ok(ExitCode::from(1))
        }
    }
}
