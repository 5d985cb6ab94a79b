//! Which CPUs threads run on: those near the interface's NIC, one a thread, and no two on one core while another core is free.
//!
//! Threads here never sleep, so two on the CPUs of one core have half of it each. A thread that is pinned to a CPU has the memory that it first touches on that CPU's node, so rings and slots that it makes are
//! near the NIC as well.
//!
//! Source: Linux, sched_setaffinity(2); Documentation/ABI/stable/sysfs-devices-node, `numa_node` of sysfs-bus-pci,
//! `thread_siblings_list` of sysfs-devices-system-cpu.

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

/// The first CPU of the core that `cpu` is of; itself where the system does not say.
fn core_of(cpu: usize) -> usize {
    let told = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
    told.ok().and_then(|told| listed(&told).into_iter().min()).unwrap_or(cpu)
}

/// CPUs for so many threads: one of each core first, of the interface's node before others, each once as long as there are enough.
/// And what is to be said.
pub(crate) fn plan(threads: usize, interface: Option<&str>) -> (Vec<usize>, Option<String>) {
    let near = interface.and_then(node_of);
    place(threads, &allowed(), near, core_of)
}

fn place(
    threads: usize,
    allowed: &[usize],
    near: Option<(u32, Vec<usize>)>,
    core_of: impl Fn(usize) -> usize,
) -> (Vec<usize>, Option<String>) {
    let is_near = |cpu: &usize| near.as_ref().is_none_or(|(_, cpus)| cpus.contains(cpu));
    let mut seen: Vec<usize> = Vec::new();
    // How many of a core's CPUs come before this one; then whether it is far; then its number, as the sort is stable.
    let mut all: Vec<(usize, bool, usize)> = allowed
        .iter()
        .map(|&cpu| {
            let core = core_of(cpu);
            let before = seen.iter().filter(|&&one| one == core).count();
            seen.push(core);
            (before, !is_near(&cpu), cpu)
        })
        .collect();
    all.sort_by_key(|&(before, is_far, _)| (before, is_far));
    let cores = all.iter().filter(|&&(before, ..)| before == 0).count();
    let close = all.iter().filter(|&&(before, is_far, _)| before == 0 && !is_far).count();
    let cpus: Vec<usize> =
        all.iter().map(|&(.., cpu)| cpu).cycle().take(if all.is_empty() { 0 } else { threads }).collect();
    let note = match &near {
        _ if threads > all.len() => Some(format!("{threads} threads are pinned to {} CPUs: some share one", all.len())),
        _ if threads > cores => {
            Some(format!("{threads} threads are pinned to as many CPUs of {cores} cores: some share a core"))
        }
        Some((node, _)) if threads > close => Some(format!(
            "node {node}, where the NIC is, has {close} cores for {threads} threads: others are far from it"
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
        let (all, alone) = ([0, 1, 2, 3], |cpu| cpu);
        assert_eq!(place(3, &all, None, alone), (vec![0, 1, 2], None));
        assert_eq!(place(2, &all, Some((1, vec![2, 3])), alone), (vec![2, 3], None));
        let (cpus, note) = place(3, &all, Some((1, vec![2, 3, 9])), alone);
        assert_eq!(cpus, [2, 3, 0]);
        assert!(note.unwrap().starts_with("node 1, where the NIC is, has 2 cores for 3 threads"));
        let (cpus, note) = place(5, &all, None, alone);
        assert_eq!(cpus, [0, 1, 2, 3, 0]);
        assert_eq!(note.unwrap(), "5 threads are pinned to 4 CPUs: some share one");
    }

    #[test]
    fn no_two_threads_are_on_one_core_while_another_is_free() {
        // CPUs of a core beside each other, and half of all apart.
        for core_of in [|cpu| cpu / 2 * 2, |cpu| cpu % 4] {
            let all: Vec<usize> = (0..8).collect();
            let cores = |threads, near| {
                let mut cores: Vec<usize> = place(threads, &all, near, core_of).0.into_iter().map(core_of).collect();
                cores.sort_unstable();
                cores.dedup();
                cores.len()
            };
            for threads in 1..=4 {
                assert_eq!(cores(threads, None), threads);
                assert_eq!(cores(threads, Some((1, vec![4, 5, 6, 7]))), threads);
            }
            let (cpus, note) = place(6, &all, None, core_of);
            assert_eq!(note.unwrap(), "6 threads are pinned to as many CPUs of 4 cores: some share a core");
            assert_eq!(cpus.iter().collect::<std::collections::BTreeSet<_>>().len(), 6);
        }
        // A core of which this process has the second CPU only.
        assert_eq!(place(2, &[1, 2, 3], None, |cpu| cpu / 2 * 2).0, [1, 2]);
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
