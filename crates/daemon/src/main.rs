//! `wirespeedd`: sets the ways of the last-level cache of packet cores and devices, and puts them back.
//!
//! Exit codes: 0 done, 1 the machine (all is put back, or the journal says what is not), 2 the configuration or the command line,
//! 3 the watchdog.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, exit};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use control::Observation;
use daemon::watchdog::{self, Heart, pause};
use daemon::{
    Daemon, DaemonConfig, DaemonError, IntervalStep, LoopEnd, MadeMachine, Metrics, Parts, SimulateArguments,
    StateFolder, plan, restore, serve,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use units::Ps;

/// Where the configuration lies if nothing is said.
const CONFIG: &str = "/etc/wirespeedd.toml";

/// Moves the ways of the last-level cache between packet cores and devices by how the program responds.
#[derive(Parser)]
#[command(name = "wirespeedd", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<DaemonCommand>,
    /// The configuration: /etc/wirespeedd.toml, or with --simulate one of its own.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    simulate: SimulateArguments,
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
            why.to_string().lines().for_each(say);
            if why.is_input() { ExitCode::from(2) } else { ExitCode::from(1) }
        }
    }
}

/// On standard error, which may be closed.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "wirespeedd: {text}");
}

/// The configuration of `--config`, or of where it lies if nothing is said.
fn configured(arguments: &Arguments) -> Result<Option<DaemonConfig>, DaemonError> {
    let path = match &arguments.config {
        None if arguments.simulate.is_asked() => return Ok(None),
        given => given.as_deref().unwrap_or(Path::new(CONFIG)),
    };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| DaemonError::Setting {
        path: "--config".into(),
        came: name.clone(),
        allowed: format!("it cannot be read: {e} (docs/guide/daemon.md has one to begin with)"),
    })?;
    DaemonConfig::parse(&text, &name).map(Some)
}

fn go(arguments: &Arguments) -> Result<ExitCode, DaemonError> {
    let configured = configured(arguments)?;
    let made = arguments.simulate.start(configured.clone())?;
    let (config, parts) = match &made {
        Some(made) => (made.config().clone(), made.parts().clone()),
        None => {
            let config = configured.unwrap_or_default();
            let parts = Parts::of(&config);
            (config, parts)
        }
    };
    let simulated = DaemonCommand::Run { apply: true, intervals: None };
    let command = arguments.command.as_ref().or(made.is_some().then_some(&simulated));
    let Some(command) = command else {
        return Err(DaemonError::Setting {
            path: "COMMAND".into(),
            came: "none".into(),
            allowed: "check, plan, run or restore, or --simulate for a made machine".into(),
        });
    };
    match *command {
        DaemonCommand::Check => {
            let name = arguments.config.as_deref().map_or(CONFIG.into(), |path| path.display().to_string());
            let own = made.is_some() && arguments.config.is_none();
            println!("{}: sound", if own { "the made machine's own configuration" } else { &name });
        }
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
        DaemonCommand::Run { apply, intervals } => {
            let ask = RunAsk { apply, intervals, no_wait: arguments.simulate.no_wait() };
            return run(config, parts, ask, made.as_ref());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is asked of a run.
struct RunAsk {
    apply: bool,
    intervals: Option<u64>,
    no_wait: bool,
}

/// A row of what a simulated machine does, for a person; `None` is the head.
fn row(number: u64, seen: Option<&Observation>) {
    let Some(seen) = seen else {
        let (ways, misses) = ("ways of devices", "device writes missed");
        let head = format!(
            "{:>8} {ways:>16} {:>14} {:>10} {misses:>21} {:>6}",
            "interval", "received, Mpps", "lost, %", "busy"
        );
        // Whoever reads it may have gone.
        let _ = writeln!(io::stdout(), "{head}");
        return;
    };
    let value = |counter: control::Counter| counter.map(|sample| sample.value);
    let told = |value: Option<f64>, by: f64, digits: usize| {
        value.map_or_else(|| "-".to_string(), |value| format!("{:.digits$}", value * by))
    };
    let (received, lost) = (value(seen.received_pps), value(seen.lost_pps));
    let share = received.zip(lost).map(|(received, lost)| 100.0 * lost / (received + lost).max(1.0));
    let busy = seen.classes.iter().find_map(|class| value(class.busy));
    let ways =
        seen.in_force.io_ways.map_or_else(|| "-".to_string(), |ways| format!("{} ({:x})", ways.0.count_ones(), ways.0));
    let _ = writeln!(
        io::stdout(),
        "{number:>8} {ways:>16} {:>14} {:>10} {:>19} % {:>4} %",
        told(received, 1e-6, 2),
        told(share, 1.0, 2),
        told(value(seen.ddio_write_miss_rate), 100.0, 0),
        told(busy, 100.0, 0),
    );
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

fn run(config: DaemonConfig, parts: Parts, ask: RunAsk, made: Option<&MadeMachine>) -> Result<ExitCode, DaemonError> {
    let RunAsk { apply, intervals, no_wait } = ask;
    let interval = Duration::from_nanos(config.interval.ps().0 / 1000);
    let patience = Duration::from_nanos(config.watchdog.ps().0 / 1000);
    // Signals are taken from here on: what comes while groups are made is answered by putting them back.
    let (sender, asked) = channel();
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let mut signals = signals.map_err(|e| DaemonError::file("handling", "signals".as_ref(), e))?;
    thread::spawn(move || signals.forever().try_for_each(|signal| sender.send(signal)));
    let metrics = Metrics::new();
    if let Some(address) = serve(&config.listen, metrics.clone(), patience)? {
        tracing::info!(event = "listening", %address);
    }
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
    let clock: Box<dyn FnMut() -> Ps + Send> = match made {
        Some(made) => made.clock(),
        None => Box::new(move || Ps(start.elapsed().as_nanos() as u64 * 1000 + 1)),
    };
    let mut daemon = Daemon::new(config, parts, sources, metrics, apply, &mut pause, clock)?;
    tracing::info!(event = "start", apply, interval_s = interval.as_secs_f64());
    // Outside of systemd there is nobody to tell.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let mut done = 0;
    if made.is_some() {
        row(0, None);
    }
    let end = loop {
        if let Some(made) = made {
            made.advance();
        }
        let step = daemon.step(&mut pause);
        if made.is_some()
            && let Some(seen) = daemon.seen()
        {
            row(done + 1, Some(seen));
        }
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
        if waits(&asked, if no_wait { Duration::ZERO } else { interval }) {
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
