//! What the scheduler counts of a thread: time on a processor, time waiting for one.

use crate::{HostError, Tree};

/// Running totals of a thread (`/proc/PID/task/TID/schedstat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Nanoseconds on a processor.
    pub run_ns: u64,
    /// Nanoseconds ready to run.
    pub wait_ns: u64,
    /// Times it was given a processor.
    pub slices: u64,
}

/// Of one thread.
///
/// # Errors
/// The thread has ended, or the kernel does not count (`CONFIG_SCHED_INFO`).
pub fn of_thread(proc: &dyn Tree, process: u32, thread: u32) -> Result<Schedstat, HostError> {
    let path = format!("{process}/task/{thread}/schedstat");
    let text =
        proc.read(&path).map_err(|e| HostError::system("reading", proc.root().join(&path).display().to_string(), e))?;
    parse(&text).ok_or_else(|| HostError::form(path, text.trim(), "three numbers"))
}

/// Threads of a process with their names, by number.
///
/// # Errors
/// The process has ended.
pub fn threads(proc: &dyn Tree, process: u32) -> Result<Vec<(u32, String)>, HostError> {
    let folder = format!("{process}/task");
    let fault = |e| HostError::system("reading", proc.root().join(&folder).display().to_string(), e);
    let mut found = Vec::new();
    for (name, _) in proc.list(&folder).map_err(fault)? {
        // A thread may end while it is looked at.
        if let (Ok(thread), Ok(comm)) = (name.parse(), proc.read(&format!("{folder}/{name}/comm"))) {
            found.push((thread, comm.trim().to_string()));
        }
    }
    found.sort();
    Ok(found)
}

fn parse(text: &str) -> Option<Schedstat> {
    let mut numbers = text.split_whitespace().map(|n| n.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    Some(Schedstat { run_ns: next()?, wait_ns: next()?, slices: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;

    #[test]
    fn three_numbers_are_read_and_less_is_refused() {
        assert_eq!(parse("5 6 7\n"), Some(Schedstat { run_ns: 5, wait_ns: 6, slices: 7 }));
        assert_eq!(parse("5 6\n"), None);
        assert_eq!(parse("5 x 7"), None);
    }

    #[test]
    fn this_thread_has_run() {
        let proc = Files::new("/proc");
        let me = std::process::id();
        let all = threads(&proc, me).unwrap();
        assert!(all.iter().any(|(thread, _)| *thread == me));
        assert!(of_thread(&proc, me, me).unwrap().slices > 0);
        assert!(of_thread(&proc, 4_194_305, 1).unwrap_err().is_gone());
    }
}
