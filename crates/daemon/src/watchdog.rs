//! Puts all back when the loop hangs: a read of a driver or of a file may never return.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::restore::{RestoreReport, put_back_all};
use crate::{DaemonConfig, DaemonError, Parts, StateFolder};

/// Beats with every interval.
#[derive(Clone, Debug, Default)]
pub struct Heart(Arc<AtomicU64>);

impl Heart {
    /// An interval has ended.
    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Looks at a heart from a thread of its own; when it has not beaten for `patience`, calls `stalled`, once.
pub fn watch(heart: &Heart, patience: Duration, stalled: impl FnOnce() + Send + 'static) {
    let heart = heart.clone();
    thread::spawn(move || {
        let mut last = (heart.0.load(Ordering::Relaxed), Instant::now());
        loop {
            thread::sleep(patience / 8);
            let beats = heart.0.load(Ordering::Relaxed);
            if beats != last.0 {
                last = (beats, Instant::now());
            } else if last.1.elapsed() >= patience {
                return stalled();
            }
        }
    });
}

/// Puts back what the journal says, beside a loop that hangs. The journal stays, since the loop might go on before the process ends:
/// whoever restores next finds it.
///
/// # Errors
/// The journal cannot be read; something could not be put back.
pub fn put_back(config: &DaemonConfig) -> Result<RestoreReport, DaemonError> {
    let journal = StateFolder::read_only(&config.state).journal(&config.prefix)?;
    let (report, left) = put_back_all(&journal, &Parts::of(config), &mut pause);
    if left.is_empty() { Ok(report) } else { Err(DaemonError::NotRestored(report.failed.join("; "))) }
}

/// Says something on standard error for as long as it may take: who reads there may be what hangs, and a writer that hangs has its
/// lock.
pub fn say_within(text: String, patience: Duration) {
    let said = thread::Builder::new().spawn(move || {
        let _ = writeln!(io::stderr(), "{text}");
    });
    let start = Instant::now();
    while said.as_ref().is_ok_and(|t| !t.is_finished()) && start.elapsed() < patience {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Between tries: longer each time, 10 ms to 1.3 s.
pub fn pause(tries: u32) {
    thread::sleep(Duration::from_millis(10 << tries.min(7)));
}
