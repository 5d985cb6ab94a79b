//! Posts packets that lie in their slots already, and sees them committed.

use std::time::{Duration, Instant};

use crate::RouterError;
use crate::backend::{Backend, Committed};
use crate::delay::Delays;

/// A load is sustained if packets come out at this share of its rate.
const SUSTAINED: f64 = 0.99;
/// Polls that find nothing after which the core is left to others: letting go of it takes longer than a poll.
const PATIENCE: u32 = 64;
/// From when a backend is made to the first arrival.
const SETTLING: Duration = Duration::from_millis(2);

/// What one run took.
#[derive(Clone, Debug)]
pub struct BenchTimes {
    /// Packets.
    pub packets: u64,
    /// From the first packet's arrival to the last commit.
    pub wall: Duration,
    /// Whether batches came out as fast as they came in; true where all packets were there at once.
    pub sustained: bool,
    /// From arrival to commit; empty where all packets were there at once.
    pub delays: Delays,
}

impl BenchTimes {
    /// Millions of packets a second of wall time.
    pub fn carried_mpps(&self) -> f64 {
        self.packets as f64 / self.wall.as_secs_f64().max(1e-9) / 1e6
    }
}

/// Posts packets 0 to `count`, which lie in their slots already, and sees all of them committed.
///
/// With a rate packet `n` arrives `n` gaps after the first, and whole batches are posted; without one all are posted as
/// fast as the backend takes them. The clock starts with the first arrival.
///
/// # Errors
/// The backend fails.
pub fn measure(
    backend: &mut dyn Backend,
    count: u64,
    batch: u32,
    mpps: Option<f64>,
) -> Result<BenchTimes, RouterError> {
    // Whoever starts threads has them by then; before the clock starts, since no packet waits for it.
    std::thread::sleep(SETTLING);
    let start = Instant::now();
    let gap = mpps.map(|mpps| 1e3 / mpps);
    let mut watch = CommitWatch { batch: u64::from(batch).min(count), gap, ..CommitWatch::default() };
    watch.seen.reserve(gap.map_or(0, |_| count as usize / 16));
    let (mut ready, mut posted, mut empty, mut out) = (0, 0, 0, Vec::new());
    while watch.committed < count {
        let now = start.elapsed().as_nanos() as f64;
        let arrived = gap.map_or(count, |gap| ((now / gap) as u64 + 1).min(count));
        // Whole batches; the last packets, fewer than one, wait for nothing that will come.
        ready = if arrived == count { count } else { ready + (arrived - ready) / u64::from(batch) * u64::from(batch) };
        while posted < ready {
            let task = backend.fit(posted, ready - posted);
            if !backend.post(posted, task as u32)? {
                break;
            }
            posted += task;
        }
        backend.poll(&mut out)?;
        if out.is_empty() {
            empty += 1;
            if empty % PATIENCE == 0 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            continue;
        }
        let now = start.elapsed();
        out.drain(..).for_each(|done| watch.see(done, now));
    }
    Ok(BenchTimes { packets: count, wall: watch.last, sustained: watch.sustained(), delays: watch.delays() })
}

/// Sees packets committed.
#[derive(Default)]
struct CommitWatch {
    batch: u64,
    /// Nanoseconds between arrivals.
    gap: Option<f64>,
    committed: u64,
    /// When as many packets were committed as a batch has, and how many were by then.
    first_batch: Option<(Duration, u64)>,
    last: Duration,
    /// Where there is a rate, what was committed when. Packets are counted after the run: one by one as they come, they would
    /// hold up what is measured.
    seen: Vec<(Committed, Duration)>,
}

impl CommitWatch {
    fn see(&mut self, done: Committed, now: Duration) {
        self.committed += u64::from(done.count);
        self.last = now;
        if self.committed >= self.batch {
            self.first_batch.get_or_insert((now, self.committed));
        }
        if self.gap.is_some() {
            self.seen.push((done, now));
        }
    }

    /// Of each packet from its own arrival.
    fn delays(&self) -> Delays {
        let (mut delays, gap) = (Delays::default(), self.gap.unwrap_or(0.0));
        for (done, now) in &self.seen {
            for number in done.first..done.first + u64::from(done.count) {
                delays.add((now.as_nanos() as f64 - number as f64 * gap).max(0.0) as u64);
            }
        }
        delays
    }

    /// Whether the batches after the first came out in the time in which they came in. The first one's own time is in
    /// neither: a large batch that is waited for is no slack.
    fn sustained(&self) -> bool {
        let (Some(gap), Some((first, by_then))) = (self.gap, self.first_batch) else { return true };
        let due = (self.committed - by_then) as f64 * gap;
        (self.last - first).as_nanos() as f64 * SUSTAINED <= due
    }
}
