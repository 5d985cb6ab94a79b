//! What ways over the bus take on this machine: numbers of which what a kernel that stays can carry follows.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::gpu::{Gpu, GpuContext, PacketPlacement};
use crate::RouterError;
use crate::delay::{DelaySummary, Delays};
use crate::layout::{ENTRY_WORDS, LINK_DONE, LINK_PARTS, LINK_WORDS, LinkProbe, RING_ENTRIES};
use crate::machine::KernelMachine;
use crate::memory::SharedMemory;

/// Words from one to the next that are not to share a line of the host, or two that it fetches together.
const APART: usize = 32;
/// Each check is a call of the driver, which takes longer than what is timed.
const TRIES_A_CHECK: u32 = 1 << 16;

/// Ways over the bus, in the mean, one after the other and nothing beside them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkTimes {
    /// A word of the host's memory that one lane asks for, ns.
    pub word_ns: f64,
    /// A round of the dispatcher that asks for 32, 64 and 128 words of tasks and finds none of them, ns.
    pub asked_ns: [f64; 3],
    /// The same and what follows a find: a fence, as many entries of the ring on the device, a word that tells the host; ns.
    pub handed_on_ns: [f64; 3],
    /// From the host's writing of a word to its seeing the kernel's answer; none where none was asked for.
    pub echo: Option<DelaySummary>,
}

/// Times `rounds` of each kind, and `echoes` words there and back. Nothing else may run on the GPU.
///
/// # Errors
/// No memory, a driver that refuses, a kernel that does not answer within `deadline`.
pub fn measure_link(
    context: &Arc<GpuContext>,
    rounds: u32,
    echoes: u32,
    deadline: Duration,
) -> Result<LinkTimes, RouterError> {
    let mut gpu = Gpu::on(context, PacketPlacement::ZeroCopy, None)?;
    let fifo = gpu.shared("the task FIFO", RING_ENTRIES as usize * 8)?;
    // The count, its answer, and the times.
    let words = gpu.shared("words of the link", (2 * APART + LINK_WORDS) * 8)?;
    let tasks = gpu.near("published tasks", RING_ENTRIES as usize * ENTRY_WORDS * 8)?;
    let device = |at: usize| words.device + at as u64 * 8;
    gpu.launch_link(LinkProbe {
        fifo: fifo.device,
        asked: device(0),
        answered: device(APART),
        times: device(2 * APART),
        tasks,
        deadline_ns: deadline.as_nanos() as u64,
        rounds,
        echoes,
    })?;
    wait_for(&mut gpu, &words, 2 * APART + LINK_DONE, 1, deadline)?;
    let mut ns = [0.0; LINK_PARTS];
    for (part, ns) in ns.iter_mut().enumerate() {
        *ns = word(&words, 2 * APART + part).load(Ordering::Relaxed) as f64 / f64::from(rounds);
    }
    let mut delays = Delays::default();
    for count in 1..=u64::from(echoes) {
        let asked = Instant::now();
        word(&words, 0).store(count, Ordering::Release);
        wait_for(&mut gpu, &words, APART, count, deadline)?;
        delays.add(asked.elapsed().as_nanos() as u64);
    }
    gpu.join(deadline)?;
    let echo = delays.summary();
    let [a, b, c, d, e, f, word_ns] = ns;
    Ok(LinkTimes { word_ns, asked_ns: [a, b, c], handed_on_ns: [d, e, f], echo })
}

/// Word `at` of what host and device share.
fn word(words: &SharedMemory, at: usize) -> &AtomicU64 {
    assert!(at < words.bytes / 8);
    // SAFETY: within the memory, which is aligned to a page and lives as long as the GPU's part.
    unsafe { words.host.cast::<AtomicU64>().add(at).as_ref() }
}

/// Until word `at` is `value`; asks now and then whether the kernel failed.
fn wait_for(gpu: &mut Gpu, words: &SharedMemory, at: usize, value: u64, deadline: Duration) -> Result<(), RouterError> {
    let (asked, mut tries) = (Instant::now(), 0u32);
    while word(words, at).load(Ordering::Acquire) != value {
        tries = tries.wrapping_add(1);
        if tries.is_multiple_of(TRIES_A_CHECK) {
            gpu.check()?;
            let waited = asked.elapsed();
            if waited > deadline {
                gpu.abandon();
                return Err(RouterError::Silent { backend: "cuda", uncommitted: 1, waited });
            }
        }
        spin_loop();
    }
    Ok(())
}
