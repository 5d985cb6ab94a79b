//! The baseline as PacketShader has it: of each packet only what the function reads is copied to the GPU, and what it says comes
//! back.
//!
//! A thread for each batch that may be on its way gathers what the function reads into a packed buffer, and later scatters the
//! verdicts and the bytes that are written. The host's own thread posts, copies and launches. Records of IPv4 and IPv6 lie
//! apart, so none is longer than it needs. What is no IP, or too short, is dropped here and never copied.
//!
//! For one function of headers: of chains, rules and payloads there is nothing to leave out.
//!
//! Source: Han, Jang, Park, Moon, "PacketShader", SIGCOMM 2010, sections 4.1 (three workers and a master a node), 5.3 (workers
//! gather and scatter), 6.2 (which fields).

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use functions::{DropReason, Verdict};
use packet::Packet;

use super::driver::{Handle, NOT_READY};
use super::gpu::Gpu;
use crate::backend::{Backend, Committed, Watchdog};
use crate::layout::{Descriptor, FRAME_OFFSET, GatheredRegion, Members};
use crate::machine::Twin;
use crate::memory::{Fragments, PacketMemory, SharedMemory};
use crate::program::{GatheredFunction, drop_word, forward_word, forwarded_port, verdict_of};
use crate::{RouterError, RouterProgram};

/// Threads of a block.
const BLOCK: u32 = 256;
/// Tries after which who waits makes room for others.
const PATIENCE: u32 = 64;

/// Packets whose headers are asked for before they are looked at.
const AHEAD: u64 = 16;

/// Asks for a line. Any address is allowed.
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// What a thread is to do with its batch, or has done.
mod mail {
    pub(super) const IDLE: u32 = 0;
    pub(super) const GATHER: u32 = 1;
    pub(super) const GATHERED: u32 = 2;
    /// The GPU has it.
    pub(super) const FLIES: u32 = 3;
    pub(super) const SCATTER: u32 = 4;
    pub(super) const SCATTERED: u32 = 5;
    pub(super) const LEAVE: u32 = 6;
}

/// Batches of what was gathered.
pub struct GatheredBatch {
    gpu: Gpu,
    /// Owns the packets, which never leave the host.
    _home: Twin,
    /// Its tables are on the GPU; kept for its name and its reasons.
    _program: RouterProgram,
    members: Members,
    memory: PacketMemory,
    lanes: Vec<GatherLane>,
    /// Lanes, the oldest batch first.
    flying: VecDeque<usize>,
    next: usize,
    batch: u32,
    packets: Vec<Packet>,
    watchdog: Watchdog,
}

// SAFETY: as of the GPU.
unsafe impl Send for GatheredBatch {}

/// A thread, and what it shares with the host's own.
struct GatherLane {
    post: Arc<GatherPost>,
    thread: Option<JoinHandle<()>>,
    stream: Handle,
    staged: Staged,
}

/// Whose turn it is, and with what. The state says: whoever it names has the rest.
#[derive(Default)]
struct GatherPost {
    state: AtomicU32,
    first: AtomicU64,
    count: AtomicU32,
    v4: AtomicU32,
    v6: AtomicU32,
}

/// Pinned memory of a lane, each with its place on the GPU.
#[derive(Clone, Copy)]
struct Staged {
    v4: SharedMemory,
    v6: SharedMemory,
    results: SharedMemory,
}

/// Packets as the host has them.
#[derive(Clone)]
struct HostPackets {
    descriptors: NonNull<Descriptor>,
    slots: NonNull<u8>,
    verdicts: NonNull<u32>,
    stride: usize,
    mask: u64,
    function: GatheredFunction,
}

// SAFETY: addresses; a thread uses only the packets of the batch that it was given.
unsafe impl Send for HostPackets {}

/// What becomes of a packet before the GPU sees it.
enum Sorted {
    V4,
    V6,
    Dropped(DropReason),
}

impl HostPackets {
    fn sort(&self, packet: &Descriptor) -> Sorted {
        let needed = |bytes: usize| usize::from(packet.captured) >= usize::from(packet.l3_offset) + bytes;
        let [v4, v6] = self.function.header_bytes();
        match packet.l3 {
            4 if needed(v4) => Sorted::V4,
            6 if needed(v6) => Sorted::V6,
            4 | 6 => Sorted::Dropped(DropReason::Truncated),
            _ => Sorted::Dropped(DropReason::NotIp),
        }
    }

    /// Packets `first` and on with their place in memory.
    ///
    /// # Safety
    /// They are this thread's, and so are their slots.
    unsafe fn each(&self, first: u64, count: u32, mut each: impl FnMut(usize, &Descriptor, NonNull<u8>)) {
        for number in first..first + u64::from(count) {
            let place = (number & self.mask) as usize;
            // Slots lie two and more lines apart, and a header takes longer to come than a record to be written.
            let ahead = ((number + AHEAD) & self.mask) as usize;
            prefetch(self.slots.as_ptr().wrapping_add(ahead * self.stride + FRAME_OFFSET + 14));
            // SAFETY: within the memory; the frame begins where `PacketMemory::put` wrote it.
            unsafe {
                let descriptor = self.descriptors.add(place).as_ref();
                let header = self.slots.add(place * self.stride + FRAME_OFFSET + usize::from(descriptor.l3_offset));
                each(place, descriptor, header);
            }
        }
    }

    /// Writes records, and the verdicts of what is dropped here; how many records of IPv4 and IPv6.
    ///
    /// # Safety
    /// As of [`HostPackets::each`]; the records have room for as many.
    unsafe fn gather(&self, first: u64, count: u32, staged: &Staged) -> (u32, u32) {
        let ([mut v4, mut v6], mut counts) = ([staged.v4.host.cast::<u32>(), staged.v6.host.cast::<u32>()], (0, 0));
        // SAFETY: as the caller promises; headers are aligned to four bytes, and captured as far as `sort` has seen.
        unsafe {
            self.each(first, count, |place, packet, header| match self.sort(packet) {
                Sorted::V4 => {
                    v4 = self.function.record(false, packet, header.cast(), v4);
                    counts.0 += 1;
                }
                Sorted::V6 => {
                    v6 = self.function.record(true, packet, header.cast(), v6);
                    counts.1 += 1;
                }
                Sorted::Dropped(reason) => self.verdicts.add(place).write(drop_word(reason)),
            });
        }
        counts
    }

    /// Writes verdicts, and what the function writes of the packets.
    ///
    /// # Safety
    /// As of [`HostPackets::each`]; the results are those of what was gathered.
    unsafe fn scatter(&self, first: u64, count: u32, v4_count: u32, staged: &Staged) {
        let words = self.function.result_words();
        let mut v4 = staged.results.host.cast::<u32>();
        // SAFETY: as the caller promises: a result for each record, those of IPv4 first.
        unsafe {
            let mut v6 = v4.add(v4_count as usize * words);
            self.each(first, count, |place, packet, header| {
                let result = match self.sort(packet) {
                    Sorted::V4 => &mut v4,
                    Sorted::V6 => &mut v6,
                    Sorted::Dropped(_) => return,
                };
                let verdict = self.function.write(packet, header, *result);
                *result = result.add(words);
                self.verdicts.add(place).write(verdict);
            });
        }
    }
}

impl GatheredFunction {
    /// Writes a packet's record, and returns where the next one begins.
    ///
    /// # Safety
    /// The header is there, as long as [`GatheredFunction::header_bytes`] says, and so is room for the record.
    unsafe fn record(&self, is_v6: bool, packet: &Descriptor, header: NonNull<u32>, to: NonNull<u32>) -> NonNull<u32> {
        let (from, words, carried) = self.fields(is_v6);
        // SAFETY: as the caller promises.
        unsafe {
            if carried {
                to.write(packet.frame_bytes.saturating_sub(u32::from(packet.l3_offset)));
            }
            let begin = to.add(usize::from(carried));
            ptr::copy_nonoverlapping(header.add(from).as_ptr(), begin.as_ptr(), words);
            begin.add(words)
        }
    }

    /// Writes what a result says into the packet; its verdict.
    ///
    /// # Safety
    /// The result and the packet are there.
    unsafe fn write(&self, packet: &Descriptor, header: NonNull<u8>, result: NonNull<u32>) -> u32 {
        // SAFETY: as the caller promises. A frame begins `l3_offset` bytes before its header.
        unsafe {
            let verdict = result.read();
            let Some(port) = forwarded_port(verdict) else {
                self.written(packet, header, result);
                return verdict;
            };
            self.written(packet, header, result);
            if let Some(hops) = self.hops() {
                let hop = result.add(2).read() as usize * 4;
                let frame = header.sub(usize::from(packet.l3_offset));
                ptr::copy_nonoverlapping(hops[hop..hop + 3].as_ptr().cast::<u8>(), frame.as_ptr(), 12);
            }
            forward_word(if self.routes() { port } else { self.across(packet.port) })
        }
    }

    /// The word that the function writes, which is as it was where the packet is dropped.
    ///
    /// # Safety
    /// As of [`GatheredFunction::write`].
    unsafe fn written(&self, packet: &Descriptor, header: NonNull<u8>, result: NonNull<u32>) {
        if let Some(at) = self.written_word(packet.l3 == 6) {
            // SAFETY: as the caller promises.
            unsafe { header.cast::<u32>().add(at).write(result.add(1).read()) };
        }
    }
}

/// Gathers and scatters until it is told to leave.
fn serve(post: &GatherPost, packets: &HostPackets, staged: &Staged) {
    let mut tries = 0;
    loop {
        let state = post.state.load(Ordering::Acquire);
        let (first, count) = (post.first.load(Ordering::Relaxed), post.count.load(Ordering::Relaxed));
        let next = match state {
            mail::GATHER => {
                // SAFETY: the batch is this thread's until it says that it has gathered.
                let (v4, v6) = unsafe { packets.gather(first, count, staged) };
                post.v4.store(v4, Ordering::Relaxed);
                post.v6.store(v6, Ordering::Relaxed);
                mail::GATHERED
            }
            mail::SCATTER => {
                // SAFETY: the same; the results have come back.
                unsafe { packets.scatter(first, count, post.v4.load(Ordering::Relaxed), staged) };
                mail::SCATTERED
            }
            mail::LEAVE => return,
            _ => {
                tries += 1;
                if tries < PATIENCE {
                    std::hint::spin_loop()
                } else {
                    std::thread::yield_now()
                }
                continue;
            }
        };
        tries = 0;
        // Unless it was told to leave meanwhile.
        let _ = post.state.compare_exchange(state, next, Ordering::Release, Ordering::Relaxed);
    }
}

impl GatheredBatch {
    /// Batches of up to `batch` packets, a power of two, in a ring of `slots`, of which `lanes` may be on their way.
    ///
    /// # Errors
    /// A program that is more than one function of headers, or sums IPv4 headers; no memory; a driver that refuses; sizes that
    /// are no power of two, or fewer than four batches in the ring.
    pub fn new(
        gpu: Gpu,
        program: &RouterProgram,
        lanes: usize,
        batch: u32,
        slots: u64,
        frame_bytes: usize,
        deadline: Duration,
    ) -> Result<GatheredBatch, RouterError> {
        if !batch.is_power_of_two() || u64::from(batch) * 4 > slots {
            let allowed = "must be a power of two, up to a quarter of the slots";
            return Err(RouterError::Setting { what: "batch", came: batch.to_string(), allowed });
        }
        let function = program.gathered()?;
        // Resident: pinned memory on the host, and memory of its own on the GPU.
        let (mut gpu, mut home) = (gpu.resident(), Twin::new(1));
        let program = program.clone();
        let memory = PacketMemory::new(&mut home, &program, slots, frame_bytes)?;
        let members = program.place(&mut gpu)?;
        let packets = HostPackets {
            descriptors: memory.descriptors.host.cast(),
            slots: memory.slots.host,
            verdicts: memory.verdicts.host.cast(),
            stride: memory.stride,
            mask: slots - 1,
            function: function.clone(),
        };
        let mut made = GatheredBatch {
            gpu,
            _home: home,
            _program: program,
            members,
            memory,
            lanes: Vec::new(),
            flying: VecDeque::new(),
            next: 0,
            batch,
            packets: vec![Packet::default(); slots as usize],
            watchdog: Watchdog::new(deadline),
        };
        for _ in 0..lanes.max(1) {
            let lane = made.lane(&function, packets.clone())?;
            made.lanes.push(lane);
        }
        Ok(made)
    }

    fn lane(&mut self, function: &GatheredFunction, packets: HostPackets) -> Result<GatherLane, RouterError> {
        let room = |words: usize| self.batch as usize * words * 4;
        let (v4, v6) = (room(function.record_words(false)), room(function.record_words(true)));
        let results = room(function.result_words());
        let staged = Staged {
            v4: crate::memory::rmalloc(&mut self.gpu, "records of IPv4", v4)?,
            v6: crate::memory::rmalloc(&mut self.gpu, "records of IPv6", v6)?,
            results: crate::memory::rmalloc(&mut self.gpu, "results", results)?,
        };
        let (stream, post) = (self.gpu.stream()?, Arc::new(GatherPost::default()));
        let own = post.clone();
        let thread = std::thread::spawn(move || serve(&own, &packets, &staged));
        Ok(GatherLane { post, thread: Some(thread), stream, staged })
    }

    /// The copies and the kernel of what a lane has gathered.
    fn launch(&self, lane: &GatherLane) -> Result<(), RouterError> {
        let (v4, v6) = (lane.post.v4.load(Ordering::Relaxed), lane.post.v6.load(Ordering::Relaxed));
        let count = v4 + v6;
        if count == 0 {
            return Ok(());
        }
        let function = self._program.gathered()?;
        let mut members = self.members;
        let mut region = GatheredRegion {
            v4: lane.staged.v4.device,
            v6: lane.staged.v6.device,
            results: lane.staged.results.device,
            count_v4: v4,
            count_v6: v6,
        };
        let mut arguments: [*mut c_void; 2] = [(&raw mut members).cast(), (&raw mut region).cast()];
        // SAFETY: memory that lives until the stream has ended, and is the GPU's until then; a kernel of these arguments, which
        // the driver copies.
        unsafe {
            for (memory, count, is_v6) in [(&lane.staged.v4, v4, false), (&lane.staged.v6, v6, true)] {
                let bytes = count as usize * function.record_words(is_v6) * 4;
                if bytes > 0 {
                    self.gpu.to_device(memory.device, memory.host.as_ptr(), bytes, lane.stream)?;
                }
            }
            let status = (self.gpu.driver().call.launch)(
                self.gpu.on.gathered,
                count.div_ceil(BLOCK),
                1,
                1,
                BLOCK,
                1,
                1,
                0,
                lane.stream,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            );
            self.gpu.driver().check("cuLaunchKernel", status)?;
            let (results, bytes) = (&lane.staged.results, count as usize * function.result_words() * 4);
            self.gpu.to_host(results.host.as_ptr(), results.device, bytes, lane.stream)
        }
    }

    /// Brings a lane on by what has happened since.
    fn step(&self, lane: &GatherLane) -> Result<(), RouterError> {
        match lane.post.state.load(Ordering::Acquire) {
            mail::GATHERED => {
                self.launch(lane)?;
                lane.post.state.store(mail::FLIES, Ordering::Relaxed);
            }
            mail::FLIES => {
                // SAFETY: a stream of this context.
                match unsafe { (self.gpu.driver().call.stream_query)(lane.stream) } {
                    NOT_READY => {}
                    status => {
                        self.gpu.driver().check("cuStreamQuery", status)?;
                        lane.post.state.store(mail::SCATTER, Ordering::Release);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Backend for GatheredBatch {
    fn name(&self) -> &'static str {
        if self.lanes.len() == 1 { "cuda batch, gathered" } else { "cuda streams, gathered" }
    }

    fn slots(&self) -> u64 {
        self.memory.count
    }

    fn most(&self) -> u32 {
        self.batch
    }

    fn fit(&self, first: u64, count: u64) -> u64 {
        let batch = u64::from(self.batch);
        count.min(batch - first % batch)
    }

    fn put(&mut self, number: u64, packet: &mut Packet) {
        // SAFETY: the slot is free.
        unsafe { self.memory.put(number, packet) };
        std::mem::swap(&mut self.packets[(number & (self.memory.count - 1)) as usize], packet);
    }

    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError> {
        if self.flying.len() == self.lanes.len() {
            return Ok(false);
        }
        if self.flying.is_empty() {
            self.watchdog.calm();
        }
        let post = &self.lanes[self.next].post;
        post.first.store(first, Ordering::Relaxed);
        post.count.store(count, Ordering::Relaxed);
        post.state.store(mail::GATHER, Ordering::Release);
        self.flying.push_back(self.next);
        self.next = (self.next + 1) % self.lanes.len();
        Ok(true)
    }

    fn room(&self) -> u64 {
        (self.lanes.len() - self.flying.len()) as u64
    }

    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        if self.flying.is_empty() {
            return Ok(());
        }
        self.gpu.current()?;
        for &lane in &self.flying {
            self.step(&self.lanes[lane])?;
        }
        while let Some(&lane) = self.flying.front() {
            let post = &self.lanes[lane].post;
            if post.state.load(Ordering::Acquire) != mail::SCATTERED {
                break;
            }
            post.state.store(mail::IDLE, Ordering::Relaxed);
            out.push(Committed {
                first: post.first.load(Ordering::Relaxed),
                count: post.count.load(Ordering::Relaxed),
            });
            self.flying.pop_front();
            self.watchdog.calm();
        }
        if let Some(waited) = self.watchdog.bark().filter(|_| !self.flying.is_empty()) {
            let (backend, uncommitted) = (self.name(), self.flying.len() as u64);
            return Err(RouterError::Silent { backend, uncommitted, waited });
        }
        if self.lanes.iter().any(|lane| lane.thread.as_ref().is_some_and(JoinHandle::is_finished)) {
            return Err(RouterError::Panicked { backend: self.name() });
        }
        Ok(())
    }

    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        std::mem::swap(&mut self.packets[(number & (self.memory.count - 1)) as usize], packet);
        // SAFETY: the packet was committed.
        let word = unsafe { self.memory.take(number, packet, &mut Fragments::default()) };
        let what = || format!("packet {number} was committed with verdict {word:#x}");
        verdict_of(word).ok_or_else(|| RouterError::Protocol { backend: self.name(), what: what() })
    }

    fn stop(&mut self) -> Result<(), RouterError> {
        let mut out = Vec::new();
        while !self.flying.is_empty() {
            self.poll(&mut out)?;
            std::thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for GatheredBatch {
    fn drop(&mut self) {
        let stopped = self.stop();
        for lane in &mut self.lanes {
            lane.post.state.store(mail::LEAVE, Ordering::Release);
            // A thread that has panicked has left, too.
            let _ = lane.thread.take().map(JoinHandle::join);
        }
        if stopped.is_err() {
            // Something still runs: freeing would wait for it.
            self.gpu.abandon();
            return;
        }
        let call = &self.gpu.driver().call;
        for lane in self.lanes.drain(..) {
            // SAFETY: a stream made here, in which nothing runs.
            unsafe { (call.stream_destroy)(lane.stream) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::twin_layout;

    #[test]
    fn both_sides_have_the_same_words_of_records_and_results() {
        let functions = [
            GatheredFunction::Forward(Arc::new([])),
            GatheredFunction::Check(1),
            GatheredFunction::Lookup,
            GatheredFunction::Ttl(1),
        ];
        for (number, function) in (0..).zip(functions) {
            let words = [function.record_words(false), function.record_words(true), function.result_words()];
            let kernels = [0, 1, 2].map(|part| twin_layout(100 + 3 * number + part) as usize);
            assert_eq!(words, kernels, "{function:?}");
        }
    }
}
