//! Where kernels run. A GPU is one such place ([`crate::cuda::Gpu`]); threads of this host are another: the same source,
//! compiled as C, with a thread in place of each warp.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::RouterError;
use crate::backend::run_on;
use crate::layout::{Members, PacketRegion, Router, Touch, TraceBuffer};
use crate::memory::SharedMemory;

/// Memory, and a kernel that stays.
pub trait KernelMachine: Send {
    /// The backend's name.
    fn name(&self) -> &'static str;

    /// Zeroed memory that host and kernel see.
    ///
    /// # Errors
    /// No memory.
    fn shared(&mut self, what: &str, bytes: usize) -> Result<SharedMemory, RouterError>;

    /// Zeroed memory for packets, which the host fills: shared, or a device's own with a copy for the host.
    ///
    /// # Errors
    /// No memory.
    fn packets(&mut self, what: &str, bytes: usize) -> Result<SharedMemory, RouterError> {
        self.shared(what, bytes)
    }

    /// Whether packets have to be carried between the host's copy and the device's.
    fn carries(&self) -> bool {
        false
    }

    /// Carries bytes of packet memory to the device.
    ///
    /// # Errors
    /// The device fails.
    fn upload(&mut self, _memory: &SharedMemory, _at: usize, _bytes: usize) -> Result<(), RouterError> {
        Ok(())
    }

    /// Carries bytes of packet memory to the host.
    ///
    /// # Errors
    /// The device fails.
    fn download(&mut self, _memory: &SharedMemory, _at: usize, _bytes: usize) -> Result<(), RouterError> {
        Ok(())
    }

    /// Gives it back.
    ///
    /// # Safety
    /// Nobody uses it any more.
    unsafe fn release(&mut self, memory: SharedMemory);

    /// Zeroed memory near the kernel, which the host does not see.
    ///
    /// # Errors
    /// No memory.
    fn near(&mut self, what: &str, bytes: usize) -> Result<u64, RouterError>;

    /// Writes words to memory near the kernel.
    ///
    /// # Errors
    /// The device fails.
    fn write(&mut self, at: u64, words: &[u64]) -> Result<(), RouterError>;

    /// The address of a table for the kernel. The caller keeps the table for as long as the kernel runs.
    ///
    /// # Errors
    /// No memory.
    fn table(&mut self, what: &str, bytes: &[u8]) -> Result<u64, RouterError>;

    /// From now on tables are memory of the machine's own, which [`KernelMachine::change`] may write while a kernel reads.
    ///
    /// # Errors
    /// No memory.
    fn open_tables(&mut self) -> Result<(), RouterError>;

    /// Writes `count` equal entries of 4 bytes to a table, from address `at` on, after all that was written before. They may arrive
    /// later.
    ///
    /// # Errors
    /// The device fails.
    fn change(&mut self, at: u64, entry: u32, count: usize) -> Result<(), RouterError>;

    /// Whether all that was written has arrived, so that a task that is posted from now on sees it.
    ///
    /// # Errors
    /// The device fails.
    fn changed(&mut self) -> Result<bool, RouterError>;

    /// Warps that can run at once, the dispatcher included, of the kernel for any program or of the one for headers.
    fn warps(&self, any: bool) -> u32;

    /// Starts the kernel that stays: the one for any program, or the one for headers.
    ///
    /// # Errors
    /// It cannot be started.
    fn launch(&mut self, router: &Router, any: bool) -> Result<(), RouterError>;

    /// Whether the kernel failed, as far as the machine knows.
    ///
    /// # Errors
    /// How.
    fn check(&mut self) -> Result<(), RouterError>;

    /// Waits for a kernel that was asked to leave.
    ///
    /// # Errors
    /// It does not leave in time. Its memory is then kept for good: it may still be written.
    fn join(&mut self, deadline: Duration) -> Result<(), RouterError>;
}

unsafe extern "C" {
    fn wirespeed_router_warp(router: *const Router, warp: u32, any: u32, trace: *mut TraceBuffer);
    fn wirespeed_router_batch(
        program: *const Members,
        packets: *const PacketRegion,
        first: u64,
        count: u32,
        any: u32,
        trace: *mut TraceBuffer,
    );
}

#[cfg(test)]
pub(crate) fn twin_layout(which: u32) -> u32 {
    unsafe extern "C" {
        fn wirespeed_router_layout(which: u32) -> u32;
    }
    // SAFETY: a function of its argument.
    unsafe { wirespeed_router_layout(which) }
}

/// The kernels on threads of this host: for tests, and to see the protocol at work where there is no GPU.
pub struct Twin {
    warps: u32,
    cpus: Vec<usize>,
    blocks: Vec<(NonNull<u8>, Layout)>,
    threads: Vec<JoinHandle<()>>,
    record: usize,
    own_tables: bool,
    left: Arc<AtomicU64>,
    lost: Arc<AtomicBool>,
    touches: Arc<std::sync::Mutex<Vec<Touch>>>,
}

// SAFETY: the blocks are owned, and what points into them is handed out by address only.
unsafe impl Send for Twin {}

impl Twin {
    /// `workers` warps and the dispatcher.
    pub fn new(workers: u32) -> Twin {
        Twin::recording(workers, 0)
    }

    /// As [`Twin::new`]; each warp records up to `references` references, which [`Twin::touches`] gives after the end.
    pub fn recording(workers: u32, references: usize) -> Twin {
        Twin {
            warps: workers.max(1) + 1,
            cpus: Vec::new(),
            blocks: Vec::new(),
            threads: Vec::new(),
            record: references,
            own_tables: false,
            left: Arc::default(),
            lost: Arc::default(),
            touches: Arc::default(),
        }
    }

    /// Each thread runs on a CPU of its own: the dispatcher on the first of these, then the workers; without any wherever the system
    /// wants.
    #[must_use]
    pub fn on(mut self, cpus: Vec<usize>) -> Twin {
        self.cpus = cpus;
        self
    }

    /// What was recorded, after the end, and whether anything had to be left out.
    pub fn touches(&self) -> (Vec<Touch>, bool) {
        let touches = self.touches.lock().map(|touches| touches.clone()).unwrap_or_default();
        (touches, self.lost.load(Ordering::Acquire))
    }

    fn block(&mut self, what: &str, bytes: usize) -> Result<NonNull<u8>, RouterError> {
        let refused = || RouterError::Memory {
            what: what.into(),
            bytes,
            reason: "the system refuses".into(),
            remedy: "ask for fewer slots",
        };
        // Page-aligned, as pinned memory is.
        let layout = Layout::from_size_align(bytes.max(1), 4096).map_err(|_| refused())?;
        // SAFETY: of a size above 0.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(refused)?;
        self.blocks.push((block, layout));
        Ok(block)
    }

    /// Runs a batch on the caller's thread, as the kernel of that name does, and returns what it touched, if `record`.
    ///
    /// # Safety
    /// Both tell of memory that is there and that nobody else uses, with every packet of the batch in its slot.
    pub(crate) unsafe fn batch(
        (program, any): (&Members, bool),
        packets: &PacketRegion,
        first: u64,
        count: u32,
        record: usize,
    ) -> (Vec<Touch>, bool) {
        // SAFETY: the kernel writes every touch that it counts while there is room; for the rest, as the caller promises.
        unsafe { recorded(record, |to| wirespeed_router_batch(program, packets, first, count, u32::from(any), to)) }
    }
}

/// What `work` touches, up to `record` references, and whether there were more; with room for none it is told to record nothing.
///
/// # Safety
/// `work` writes every touch that it counts while there is room, and no other.
unsafe fn recorded(record: usize, work: impl FnOnce(*mut TraceBuffer)) -> (Vec<Touch>, bool) {
    // Not cleared: tests make room for the most of a burst, 25 MB, and clearing that took longer than the burst.
    let mut touches = Vec::with_capacity(record);
    let mut trace = TraceBuffer { touches: touches.as_mut_ptr(), capacity: record as u64, count: 0 };
    work(if record == 0 { std::ptr::null_mut() } else { &raw mut trace });
    // SAFETY: there is room for `record`, and the first `count` of them are written, as the caller promises.
    unsafe { touches.set_len(record.min(trace.count as usize)) };
    (touches, trace.count as usize > record)
}

impl KernelMachine for Twin {
    fn name(&self) -> &'static str {
        "twin"
    }

    fn shared(&mut self, what: &str, bytes: usize) -> Result<SharedMemory, RouterError> {
        let host = self.block(what, bytes)?;
        Ok(SharedMemory { host, device: host.as_ptr() as u64, bytes })
    }

    unsafe fn release(&mut self, memory: SharedMemory) {
        if let Some(at) = self.blocks.iter().position(|(block, _)| *block == memory.host) {
            let (block, layout) = self.blocks.swap_remove(at);
            // SAFETY: allocated with this layout, and no longer used, as the caller promises.
            unsafe { dealloc(block.as_ptr(), layout) };
        }
    }

    fn near(&mut self, what: &str, bytes: usize) -> Result<u64, RouterError> {
        Ok(self.block(what, bytes)?.as_ptr() as u64)
    }

    fn write(&mut self, at: u64, words: &[u64]) -> Result<(), RouterError> {
        // SAFETY: an address that `near` gave, of at least as many bytes; no kernel runs yet.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), at as *mut u64, words.len()) };
        Ok(())
    }

    fn table(&mut self, what: &str, bytes: &[u8]) -> Result<u64, RouterError> {
        if !self.own_tables {
            return Ok(bytes.as_ptr() as u64);
        }
        let own = self.block(what, bytes.len())?;
        // SAFETY: new memory of that length.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), own.as_ptr(), bytes.len()) };
        Ok(own.as_ptr() as u64)
    }

    fn open_tables(&mut self) -> Result<(), RouterError> {
        self.own_tables = true;
        Ok(())
    }

    fn change(&mut self, at: u64, entry: u32, count: usize) -> Result<(), RouterError> {
        for i in 0..count as u64 {
            // SAFETY: an entry of a table that `table` has made, which lives as long as `self` and is only read by atomic loads.
            unsafe { AtomicU32::from_ptr((at + 4 * i) as *mut u32) }.store(entry, Ordering::Relaxed);
        }
        Ok(())
    }

    fn changed(&mut self) -> Result<bool, RouterError> {
        Ok(true)
    }

    fn warps(&self, _: bool) -> u32 {
        self.warps
    }

    fn launch(&mut self, router: &Router, any: bool) -> Result<(), RouterError> {
        self.left.store(0, Ordering::Release);
        for warp in 0..router.warps {
            let (router, record) = (*router, self.record);
            let (left, lost, all) = (self.left.clone(), self.lost.clone(), self.touches.clone());
            // A thread begins on the CPU of who starts it, which is at work itself.
            let cpu = self.cpus.get(warp as usize).copied();
            self.threads.push(std::thread::spawn(move || {
                run_on(cpu);
                // SAFETY: the kernel writes every touch that it counts while there is room; the memory that the router names lives
                // until the threads have ended: see `join`.
                let (mut touches, more) =
                    unsafe { recorded(record, |to| wirespeed_router_warp(&router, warp, u32::from(any), to)) };
                lost.fetch_or(more, Ordering::AcqRel);
                if let Ok(mut all) = all.lock() {
                    all.append(&mut touches);
                }
                left.fetch_add(1, Ordering::AcqRel);
            }));
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), RouterError> {
        Ok(())
    }

    fn join(&mut self, deadline: Duration) -> Result<(), RouterError> {
        let asked = Instant::now();
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if asked.elapsed() > deadline {
                // They may still write: what they write to stays.
                self.blocks.clear();
                self.threads.clear();
                return Err(RouterError::Stuck { backend: "twin", waited: asked.elapsed() });
            }
            std::thread::yield_now();
        }
        match self.threads.drain(..).map(JoinHandle::join).filter(Result::is_err).count() {
            0 => Ok(()),
            _ => Err(RouterError::Panicked { backend: "twin" }),
        }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        if self.threads.iter().any(|thread| !thread.is_finished()) {
            return;
        }
        for (block, layout) in self.blocks.drain(..) {
            // SAFETY: allocated with this layout; no thread runs that could use it.
            unsafe { dealloc(block.as_ptr(), layout) };
        }
    }
}
