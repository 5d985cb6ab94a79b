//! Which CPUs threads run on: those near the interface's NIC, one a thread.
//!
//! A thread that is pinned to a CPU has the memory that it first touches on that CPU's node, so rings and slots that it makes are
//! near the NIC as well.
//!
//! Source: Linux, sched_setaffinity(2); Documentation/ABI/stable/sysfs-devices-node, `numa_node` of sysfs-bus-pci.

use std::io;
use std::mem::{size_of, zeroed};

use crate::RouterError;

/// The CPUs that this thread may run on.
pub(crate) fn allowed() -> Vec<usize> {
    // SAFETY: all zero is a value of it.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: room of this length.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
        return Vec::new();
    }
    // SAFETY: below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// This thread runs on `cpu` alone from now on.
pub(crate) fn pin(cpu: usize) -> Result<(), RouterError> {
    // SAFETY: all zero is a value of it.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    if cpu < libc::CPU_SETSIZE as usize {
        // SAFETY: below the size of the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: a set of this length.
    if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } == 0 {
        return Ok(());
    }
    let came = format!("true (CPU {cpu}: {})", io::Error::last_os_error());
    Err(RouterError::Setting {
        what: "pin",
        came,
        allowed: "the CPUs of this process must be online, and it must be allowed to use them",
    })
}

/// The CPUs of a list as the kernel writes them: `0-3,8`.
fn listed(text: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse().ok()?..=to.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// The node of an interface's NIC, and its CPUs; none where there is one node, or no NIC.
fn node_of(interface: &str) -> Option<(u32, Vec<usize>)> {
    let read = |path: String| std::fs::read_to_string(path).ok();
    let node = read(format!("/sys/class/net/{interface}/device/numa_node"))?.trim().parse().ok()?;
    let cpus = listed(&read(format!("/sys/devices/system/node/node{node}/cpulist"))?);
    Some((node, cpus))
}

/// CPUs for so many threads: those of the interface's node first, each once as long as there are enough. And what is to be said.
pub(crate) fn plan(threads: usize, interface: Option<&str>) -> (Vec<usize>, Option<String>) {
    let near = interface.and_then(node_of);
    place(threads, &allowed(), near)
}

fn place(threads: usize, allowed: &[usize], near: Option<(u32, Vec<usize>)>) -> (Vec<usize>, Option<String>) {
    let is_near = |cpu: &usize| near.as_ref().is_none_or(|(_, cpus)| cpus.contains(cpu));
    let (close, far): (Vec<usize>, Vec<usize>) = allowed.iter().partition(|cpu| is_near(cpu));
    let all: Vec<usize> = close.iter().chain(&far).copied().collect();
    let cpus = all.iter().copied().cycle().take(if all.is_empty() { 0 } else { threads }).collect();
    let note = match &near {
        _ if threads > all.len() => Some(format!("{threads} threads are pinned to {} CPUs: some share one", all.len())),
        Some((node, _)) if threads > close.len() => Some(format!(
            "node {node}, where the NIC is, has {} CPUs for {threads} threads: others are far from it",
            close.len()
        )),
        _ => None,
    };
    (cpus, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_placed_near_the_nic_first_and_a_cpu_each() {
        assert_eq!(listed("0-2,8, 10-11\n"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(listed("\n"), [0; 0]);
        let all = [0, 1, 2, 3];
        assert_eq!(place(3, &all, None), (vec![0, 1, 2], None));
        assert_eq!(place(2, &all, Some((1, vec![2, 3]))), (vec![2, 3], None));
        let (cpus, note) = place(3, &all, Some((1, vec![2, 3, 9])));
        assert_eq!(cpus, [2, 3, 0]);
        assert!(note.unwrap().starts_with("node 1, where the NIC is, has 2 CPUs for 3 threads"));
        let (cpus, note) = place(5, &all, None);
        assert_eq!(cpus, [0, 1, 2, 3, 0]);
        assert_eq!(note.unwrap(), "5 threads are pinned to 4 CPUs: some share one");
    }

    #[test]
    fn a_pinned_thread_runs_on_that_cpu_alone() {
        std::thread::spawn(|| {
            let cpu = *allowed().last().unwrap();
            pin(cpu).unwrap();
            assert_eq!(allowed(), [cpu]);
            let refused = pin(1 << 20).unwrap_err().to_string();
            assert!(refused.starts_with("pin = true (CPU 1048576: "), "{refused}");
        })
        .join()
        .unwrap();
    }
}
