//! What takes tasks and commits them, and the backend that every machine has: threads with the packet functions themselves.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use functions::{Function, Verdict};
use packet::Packet;
use serde::{Deserialize, Serialize};

use crate::layout::{RING_ENTRIES, Task, WARP_LANES};
use crate::program::MemberWork;
use crate::protocol::{Ledger, TaskRing};
use crate::split::BackendShare;
use crate::updates::{ChangesMade, RouteChange, unfit};
use crate::worker::TaskWorker;
use crate::{RouterError, RouterProgram};

/// How tasks are committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Commit {
    /// In order of arrival, by a queue where the workers are: the host sees its head.
    #[default]
    Device = 0,
    /// In order of arrival, by a queue in host memory, whose head the host finds.
    Host = 1,
    /// As they finish.
    Unordered = 2,
}

impl Commit {
    /// Each with its name.
    pub const ALL: [(&'static str, Commit); 3] =
        [("device", Commit::Device), ("host", Commit::Host), ("unordered", Commit::Unordered)];

    /// Whether packets leave in the order in which they came.
    pub fn is_ordered(self) -> bool {
        self != Commit::Unordered
    }
}

/// Packets that are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The first one's number.
    pub first: u64,
    /// How many.
    pub count: u32,
}

/// Committed packets that lie one after the other, where they were worked on. Each has its place in all of the slices.
pub struct CommittedSlots<'a> {
    /// The packets.
    pub packets: &'a [Packet],
    /// What is to become of them; taken once, and none for a packet that has no verdict.
    pub verdicts: &'a mut [Option<Verdict>],
    /// Where packets may become several the fragments after the first, which has the packet's place; else empty.
    pub fragments: &'a mut [Vec<Packet>],
}

/// Takes packets by number, and tasks of packets that follow each other; gives them back once they are committed.
pub trait Backend {
    /// Its name.
    fn name(&self) -> &'static str;

    /// How many packets it holds: number `n` lies in slot `n` modulo this. A power of two.
    fn slots(&self) -> u64;

    /// The most packets of a task.
    fn most(&self) -> u32 {
        WARP_LANES
    }

    /// How many of `count` packets from `first` on can be one task.
    fn fit(&self, _first: u64, count: u64) -> u64 {
        count.min(u64::from(self.most()))
    }

    /// The first `packets` packets are in their slots, and will be posted as they are: what can be done beforehand is done
    /// now, and what is fetched back after each task is left for [`Backend::settle`].
    ///
    /// # Errors
    /// The backend fails.
    fn prepare(&mut self, _packets: u64) -> Result<(), RouterError> {
        Ok(())
    }

    /// Ends what [`Backend::prepare`] began: the packets can be taken.
    ///
    /// # Errors
    /// The backend fails.
    fn settle(&mut self, _packets: u64) -> Result<(), RouterError> {
        Ok(())
    }

    /// Lays packet `number` into its slot, which is free, and leaves any other packet in its place.
    fn put(&mut self, number: u64, packet: &mut Packet);

    /// Free slots, at most `most` of those from packet `number`'s on, which may be received into: in place of [`Backend::put`]. Each has
    /// any packet. None where packets are laid into other memory.
    ///
    /// # Safety
    /// The slots are free: of the packets that were last there each was taken, or looked at, after its commit.
    unsafe fn slots_from(&mut self, _number: u64, _most: usize) -> Option<&mut [Packet]> {
        None
    }

    /// Posts a task; false if as many are uncommitted as there may be.
    ///
    /// # Errors
    /// The backend no longer works.
    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError>;

    /// How many tasks can be posted now.
    fn room(&self) -> u64;

    /// Takes packet `number` back as it was put, from a backend that failed; false where it may still be worked on.
    fn recall(&mut self, _number: u64, _packet: &mut Packet) -> bool {
        false
    }

    /// Whether committed packet `number` was lost with a backend that failed: it cannot be taken.
    fn lost(&self, _number: u64) -> bool {
        false
    }

    /// Of several backends, what each was given.
    fn split(&self) -> Vec<BackendShare> {
        Vec::new()
    }

    /// Appends what was committed since.
    ///
    /// # Errors
    /// The backend no longer works, or did nothing for longer than its deadline though there is something to do.
    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError>;

    /// Asks for a change of a route, which is made while packets go: [`Backend::poll`] brings it on, and [`Backend::changes`] says
    /// how far.
    ///
    /// # Errors
    /// The backend's tables do not change while it runs.
    fn change(&mut self, _change: RouteChange) -> Result<(), RouterError> {
        Err(unfit())
    }

    /// How many changes have come how far.
    fn changes(&self) -> ChangesMade {
        ChangesMade::default()
    }

    /// Which changes were refused: by number, from 0 in the order in which they were asked for, ascending.
    fn refused_changes(&self) -> &[u64] {
        &[]
    }

    /// Takes committed packet `number` out of its slot, and leaves any other packet in its place.
    ///
    /// # Errors
    /// There is no verdict.
    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError>;

    /// Committed packets from `first` on, at least one and at most `count`, in their slots, which are free from then on: in place of
    /// [`Backend::take`]. None where packets cannot be looked at in their slots.
    ///
    /// # Safety
    /// All of them were committed ([`Backend::poll`]), and none was taken or looked at since.
    unsafe fn committed_slots(&mut self, _first: u64, _count: u32) -> Option<CommittedSlots<'_>> {
        None
    }

    /// Of the packet that was taken last, the fragments after the first, which has the packet's place.
    fn fragments(&self) -> &[Packet] {
        &[]
    }

    /// Of a chain, what each member has done with what was taken; of one function nothing. Complete after the end.
    fn shares(&self) -> Vec<MemberWork> {
        Vec::new()
    }

    /// Packets of which only a part could be inspected, since a slot has no room for all.
    fn cut(&self) -> u64 {
        0
    }

    /// Lets all that was posted be done, and ends. Nothing may be posted after.
    ///
    /// # Errors
    /// It does not end within its deadline.
    fn stop(&mut self) -> Result<(), RouterError>;
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn slots(&self) -> u64 {
        (**self).slots()
    }
    fn most(&self) -> u32 {
        (**self).most()
    }
    fn fit(&self, first: u64, count: u64) -> u64 {
        (**self).fit(first, count)
    }
    fn prepare(&mut self, packets: u64) -> Result<(), RouterError> {
        (**self).prepare(packets)
    }
    fn settle(&mut self, packets: u64) -> Result<(), RouterError> {
        (**self).settle(packets)
    }
    fn put(&mut self, number: u64, packet: &mut Packet) {
        (**self).put(number, packet);
    }
    unsafe fn slots_from(&mut self, number: u64, most: usize) -> Option<&mut [Packet]> {
        // SAFETY: as the caller promises; the same below.
        unsafe { (**self).slots_from(number, most) }
    }
    unsafe fn committed_slots(&mut self, first: u64, count: u32) -> Option<CommittedSlots<'_>> {
        // SAFETY: as above.
        unsafe { (**self).committed_slots(first, count) }
    }
    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError> {
        (**self).post(first, count)
    }
    fn room(&self) -> u64 {
        (**self).room()
    }
    fn recall(&mut self, number: u64, packet: &mut Packet) -> bool {
        (**self).recall(number, packet)
    }
    fn lost(&self, number: u64) -> bool {
        (**self).lost(number)
    }
    fn split(&self) -> Vec<BackendShare> {
        (**self).split()
    }
    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        (**self).poll(out)
    }
    fn change(&mut self, change: RouteChange) -> Result<(), RouterError> {
        (**self).change(change)
    }
    fn changes(&self) -> ChangesMade {
        (**self).changes()
    }
    fn refused_changes(&self) -> &[u64] {
        (**self).refused_changes()
    }
    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        (**self).take(number, packet)
    }
    fn fragments(&self) -> &[Packet] {
        (**self).fragments()
    }
    fn shares(&self) -> Vec<MemberWork> {
        (**self).shares()
    }
    fn cut(&self) -> u64 {
        (**self).cut()
    }
    fn stop(&mut self) -> Result<(), RouterError> {
        (**self).stop()
    }
}

/// Notices that nothing happens any more.
#[derive(Debug)]
pub(crate) struct Watchdog {
    deadline: Duration,
    since: Instant,
}

impl Watchdog {
    pub(crate) fn new(deadline: Duration) -> Watchdog {
        Watchdog { deadline, since: Instant::now() }
    }

    /// Something was committed, or nothing is left to do.
    pub(crate) fn calm(&mut self) {
        self.since = Instant::now();
    }

    /// How long nothing happened, if that is too long.
    pub(crate) fn bark(&self) -> Option<Duration> {
        Some(self.since.elapsed()).filter(|&waited| waited > self.deadline)
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// Threads that work on tasks with the packet functions of `functions`, in their interleaved and prefetching form.
pub struct CpuThreads {
    shared: Arc<SharedTasks>,
    workers: Vec<JoinHandle<()>>,
    ledger: Ledger,
    commit: Commit,
    watchdog: Watchdog,
    slots: u64,
    /// Of the packet that was taken last.
    fragments: Vec<Packet>,
    name: String,
    mtu: Option<u32>,
}

struct SharedTasks {
    ring: TaskRing<AtomicU64>,
    packets: Box<[UnsafeCell<Packet>]>,
    verdicts: Box<[UnsafeCell<Option<Verdict>>]>,
    /// Where packets may become several: by slot, the fragments after the first.
    fragments: Box<[UnsafeCell<Vec<Packet>>]>,
    /// Of a chain: what the workers that have ended have done.
    shares: Mutex<Vec<MemberWork>>,
    /// What took the place of the function that the workers began with, and how often that happened.
    replaced: Mutex<Option<Function>>,
    replacements: AtomicU64,
}

// SAFETY: a slot belongs to the host until a task with it is posted, then to the worker that draws that task's ticket, and to
// the host again once the task is committed. The ring's words carry the order: see `protocol`.
unsafe impl Sync for SharedTasks {}
// SAFETY: as above.
unsafe impl Send for SharedTasks {}

impl SharedTasks {
    /// A worker ends, or its function is replaced: what it has done is added up.
    fn add(&self, done: Vec<MemberWork>) {
        let Ok(mut all) = self.shares.lock() else { return };
        if all.is_empty() {
            all.extend(done);
        } else {
            all.iter_mut().zip(done).for_each(|(sum, share)| sum.add(&share));
        }
    }
}

/// What a test may have happen to a task before it is done.
pub type Hook = Arc<dyn Fn(Task) + Send + Sync>;

/// Workers, and what they share.
#[derive(Clone)]
pub struct WorkerSetup {
    /// How many.
    pub threads: usize,
    /// Packets that fit, a power of two.
    pub slots: u64,
    /// How tasks are committed.
    pub commit: Commit,
    /// How long nothing may happen.
    pub deadline: Duration,
    /// The number of the first task.
    pub base: u64,
    /// What happens before each task.
    pub hook: Option<Hook>,
    /// The CPU of each worker; none is wherever the system wants.
    pub cpus: Vec<usize>,
}

impl CpuThreads {
    /// `threads` workers, room for `slots` packets (a power of two), numbers of tasks from `base`.
    ///
    /// # Errors
    /// No threads, no slots.
    pub fn new(
        program: &RouterProgram,
        threads: usize,
        slots: u64,
        commit: Commit,
        deadline: Duration,
    ) -> Result<CpuThreads, RouterError> {
        let (base, hook, cpus) = (0, None, Vec::new());
        CpuThreads::with_setup(program, WorkerSetup { threads, slots, commit, deadline, base, hook, cpus })
    }

    /// As [`CpuThreads::new`], with tasks numbered from `base`, and something that happens before each task.
    ///
    /// # Errors
    /// As [`CpuThreads::new`].
    pub fn with_hook(
        program: &RouterProgram,
        threads: usize,
        slots: u64,
        commit: Commit,
        deadline: Duration,
        base: u64,
        hook: Option<Hook>,
    ) -> Result<CpuThreads, RouterError> {
        let cpus = Vec::new();
        CpuThreads::with_setup(program, WorkerSetup { threads, slots, commit, deadline, base, hook, cpus })
    }

    /// As [`CpuThreads::new`], with all that can be set.
    ///
    /// # Errors
    /// As [`CpuThreads::new`].
    pub fn with_setup(program: &RouterProgram, setup: WorkerSetup) -> Result<CpuThreads, RouterError> {
        let WorkerSetup { threads, slots, commit, deadline, base, hook, cpus } = setup;
        if !(1..=1024).contains(&threads) {
            let allowed = "allowed are 1 to 1024";
            return Err(RouterError::Setting { what: "threads", came: threads.to_string(), allowed });
        }
        if !slots.is_power_of_two() || slots > 1 << 31 {
            let allowed = "must be a power of two, up to 2^31";
            return Err(RouterError::Setting { what: "slots", came: slots.to_string(), allowed });
        }
        let shared = Arc::new(SharedTasks {
            ring: TaskRing::new(RING_ENTRIES, base),
            packets: (0..slots).map(|_| UnsafeCell::default()).collect(),
            verdicts: (0..slots).map(|_| UnsafeCell::new(None)).collect(),
            fragments: (0..if program.mtu().is_some() { slots } else { 0 }).map(|_| UnsafeCell::default()).collect(),
            shares: Mutex::default(),
            replaced: Mutex::default(),
            replacements: AtomicU64::new(0),
        });
        let workers = (0..threads)
            .map(|worker| {
                let (shared, function, hook) = (shared.clone(), program.function().clone(), hook.clone());
                let cpu = cpus.get(worker).copied();
                std::thread::spawn(move || {
                    run_on(cpu);
                    work(&shared, function, commit, hook.as_deref());
                })
            })
            .collect();
        let (ledger, watchdog) = (Ledger::new(RING_ENTRIES, base), Watchdog::new(deadline));
        Ok(CpuThreads {
            shared,
            workers,
            ledger,
            commit,
            watchdog,
            slots,
            fragments: Vec::new(),
            name: program.name(),
            mtu: program.mtu(),
        })
    }

    /// From the next task that is posted on, packets go through `program`; those that were posted before may still go through
    /// the one before. A worker gives that up, and the tables that it shares, with the first task that it draws from now on,
    /// or at its end. So that tables change while packets go: one copy is looked up in, the other is updated, and they change
    /// places.
    ///
    /// # Errors
    /// Members of another number or with other names, or fragmentation of another MTU.
    pub fn replace(&mut self, program: &RouterProgram) -> Result<(), RouterError> {
        if program.name() != self.name || program.mtu() != self.mtu {
            let (came, allowed) = (program.name(), "must be the functions that the backend was made for");
            return Err(RouterError::Setting { what: "function", came, allowed });
        }
        *self.shared.replaced.lock().map_err(|_| RouterError::Panicked { backend: "cpu" })? =
            Some(program.function().clone());
        // Before any task that is posted from now on, which a worker draws by an acquiring load.
        self.shared.replacements.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn place(&self, number: u64) -> usize {
        (number & (self.slots - 1)) as usize
    }
}

/// This thread runs on `cpu` alone, if there is one. Whoever chose it has seen that it can be had; a worker without it is slower, not
/// wrong.
pub(crate) fn run_on(cpu: Option<usize>) {
    #[cfg(target_os = "linux")]
    let _ = cpu.map(crate::affinity::pin);
    #[cfg(not(target_os = "linux"))]
    let _ = cpu;
}

fn work(shared: &SharedTasks, function: Function, commit: Commit, hook: Option<&(dyn Fn(Task) + Send + Sync)>) {
    let mut verdicts = Vec::with_capacity(256);
    let mut worker = TaskWorker::new(function, !shared.fragments.is_empty());
    let mut seen = 0;
    let mask = shared.packets.len() - 1;
    loop {
        let ticket = shared.ring.draw();
        let Some(task) = shared.ring.wait(ticket) else { return shared.add(worker.shares()) };
        let latest = shared.replacements.load(Ordering::Acquire);
        if latest != seen {
            seen = latest;
            let next = shared.replaced.lock().ok().and_then(|replaced| replaced.clone());
            if let Some(next) = next {
                shared.add(worker.replace(next));
            }
        }
        if let Some(hook) = hook {
            hook(task);
        }
        verdicts.clear();
        let first = task.first as usize & mask;
        let before_the_end = (task.count as usize).min(mask + 1 - first);
        // A task over the end of the slots is done in two parts.
        for (from, n) in [(first, before_the_end), (0, task.count as usize - before_the_end)] {
            // SAFETY: this worker has the task, so nobody else uses its slots, of which there are as many from there on. The
            // pointer is into all of them, not into one; an UnsafeCell has the layout of what it holds.
            let burst = unsafe {
                let slots = shared.packets.as_ptr().add(from);
                std::slice::from_raw_parts_mut(UnsafeCell::raw_get(slots), n)
            };
            worker.process(burst, &mut verdicts, |place, fragment| {
                // SAFETY: as above.
                unsafe { (*shared.fragments[from + place].get()).push(fragment) };
            });
        }
        for (i, &verdict) in verdicts.iter().enumerate() {
            // SAFETY: as above.
            unsafe { *shared.verdicts[(first + i) & mask].get() = Some(verdict) };
        }
        match commit {
            Commit::Unordered => shared.ring.finish(ticket),
            Commit::Device | Commit::Host => shared.ring.commit(ticket),
        }
    }
}

impl Backend for CpuThreads {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn slots(&self) -> u64 {
        self.slots
    }

    fn put(&mut self, number: u64, packet: &mut Packet) {
        let place = self.place(number);
        // SAFETY: the slot is free: it is the host's.
        unsafe {
            std::ptr::swap(self.shared.packets[place].get(), packet);
            *self.shared.verdicts[place].get() = None;
        }
    }

    unsafe fn slots_from(&mut self, number: u64, most: usize) -> Option<&mut [Packet]> {
        let range = slots_in_turn(number, most, self.shared.packets.len());
        // SAFETY: as the caller promises these slots are free: they are the host's. An UnsafeCell has the layout of what it holds.
        unsafe {
            for verdict in &self.shared.verdicts[range.clone()] {
                *verdict.get() = None;
            }
            let first = UnsafeCell::raw_get(self.shared.packets.as_ptr().add(range.start));
            Some(std::slice::from_raw_parts_mut(first, range.len()))
        }
    }

    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError> {
        let Some(number) = self.ledger.room() else { return Ok(false) };
        if self.ledger.uncommitted() == 0 {
            self.watchdog.calm();
        }
        let task = Task { first, count };
        self.ledger.post(task);
        self.shared.ring.post(number, task);
        Ok(true)
    }

    fn room(&self) -> u64 {
        self.ledger.free()
    }

    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        let before = out.len();
        let ring = &self.shared.ring;
        let broken = |what: String| RouterError::Protocol { backend: "cpu", what };
        if self.commit.is_ordered() {
            let head = ring.head();
            for number in self.ledger.oldest()..head {
                let task = self.ledger.commit(number).ok_or_else(|| broken(format!("head {head}")))?;
                out.push(Committed { first: task.first, count: task.count });
            }
        } else {
            while let Some(low) = ring.finished(self.ledger.committed()) {
                let number = widen(low, self.ledger.oldest());
                let task = self.ledger.commit(number).ok_or_else(|| broken(format!("ticket {number} finished")))?;
                out.push(Committed { first: task.first, count: task.count });
            }
        }
        if out.len() > before || self.ledger.uncommitted() == 0 {
            self.watchdog.calm();
        } else if self.workers.iter().any(JoinHandle::is_finished) {
            return Err(RouterError::Panicked { backend: "cpu" });
        } else if let Some(waited) = self.watchdog.bark() {
            return Err(RouterError::Silent { backend: "cpu", uncommitted: self.ledger.uncommitted(), waited });
        }
        Ok(())
    }

    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        let place = self.place(number);
        // SAFETY: the packet was committed: its slot is the host's.
        let verdict = unsafe {
            std::ptr::swap(self.shared.packets[place].get(), packet);
            if let Some(fragments) = self.shared.fragments.get(place) {
                self.fragments.clear();
                self.fragments.append(&mut *fragments.get());
            }
            (*self.shared.verdicts[place].get()).take()
        };
        verdict.ok_or_else(|| without_verdict("cpu", number))
    }

    unsafe fn committed_slots(&mut self, first: u64, count: u32) -> Option<CommittedSlots<'_>> {
        let range = slots_in_turn(first, count as usize, self.shared.packets.len());
        let (shared, start, n) = (&self.shared, range.start, range.len());
        // SAFETY: as the caller promises the packets were committed: their slots are the host's, and nobody else's until others are
        // posted there, which takes `self`. An UnsafeCell has the layout of what it holds.
        unsafe {
            let fragments = match shared.fragments.get(range) {
                Some(slots) => std::slice::from_raw_parts_mut(UnsafeCell::raw_get(slots.as_ptr()), n),
                None => &mut [],
            };
            Some(CommittedSlots {
                packets: std::slice::from_raw_parts(UnsafeCell::raw_get(shared.packets.as_ptr().add(start)), n),
                verdicts: std::slice::from_raw_parts_mut(UnsafeCell::raw_get(shared.verdicts.as_ptr().add(start)), n),
                fragments,
            })
        }
    }

    fn fragments(&self) -> &[Packet] {
        &self.fragments
    }

    fn shares(&self) -> Vec<MemberWork> {
        self.shared.shares.lock().map(|shares| shares.clone()).unwrap_or_default()
    }

    fn stop(&mut self) -> Result<(), RouterError> {
        self.shared.ring.stop(self.ledger.posted());
        let asked = Instant::now();
        while self.workers.iter().any(|worker| !worker.is_finished()) {
            if asked.elapsed() > self.watchdog.deadline() {
                return Err(RouterError::Stuck { backend: "cpu", waited: asked.elapsed() });
            }
            std::thread::yield_now();
        }
        let ended = self.workers.drain(..).map(JoinHandle::join).collect::<Vec<_>>();
        match ended.into_iter().any(|worker| worker.is_err()) {
            true => Err(RouterError::Panicked { backend: "cpu" }),
            false => Ok(()),
        }
    }
}

impl Drop for CpuThreads {
    fn drop(&mut self) {
        self.shared.ring.stop(0);
    }
}

/// Places of the slots of at most `most` packets from `first` on, of `slots`, a power of two: up to the end of the slots.
#[inline]
pub(crate) fn slots_in_turn(first: u64, most: usize, slots: usize) -> std::ops::Range<usize> {
    let place = first as usize & (slots - 1);
    place..place + most.min(slots - place)
}

/// Committed, and nothing is said of what is to become of it.
pub(crate) fn without_verdict(backend: &'static str, number: u64) -> RouterError {
    RouterError::Protocol { backend, what: format!("packet {number} was committed without a verdict") }
}

/// A number of which the lower 40 bits are `low`, and which is `near` or at most a ring above it.
pub(crate) fn widen(low: u64, near: u64) -> u64 {
    near + (low.wrapping_sub(near) & ((1 << crate::layout::FIRST_BITS) - 1))
}
