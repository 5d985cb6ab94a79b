//! What examples that measure speed share.

use rustix::time::{ClockId, clock_gettime};

/// Seconds that this thread has spent on a processor: what others take of a shared host does not count. The time in
/// `/proc/thread-self/schedstat` goes on in ticks of some milliseconds.
pub fn cpu_seconds() -> f64 {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    at.tv_sec as f64 + at.tv_nsec as f64 / 1e9
}
