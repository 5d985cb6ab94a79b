//! What examples that measure speed share.

use cpu_time::ThreadTime;

/// Seconds that this thread has spent on a processor: what others take of a shared host does not count. The time in
/// `/proc/thread-self/schedstat` goes on in ticks of some milliseconds, and rustix's clock does not run in valgrind.
pub fn cpu_seconds() -> f64 {
    ThreadTime::now().as_duration().as_secs_f64()
}
