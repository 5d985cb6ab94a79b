//! The baseline: packets are waited for, copied to the GPU, worked on by a kernel that ends, and copied back.
//!
//! Packets lie in a ring of sections of a batch each, in pinned memory, with a ring of the same shape on the GPU. A task never
//! goes over the end of a section, so sections can be on their way at the same time.
//!
//! Source: Zhu, Deng, Chen, DAC 2011, section 2.3 and 4 (the CPU/GPU system: wait for a batch, transfer, compute, one after
//! the other); Han, Jang, Park, Moon, "PacketShader", SIGCOMM 2010, section 5.4 (concurrent copy and execution).

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;
use std::time::Duration;

use functions::Verdict;
use packet::Packet;
use serde::Serialize;

use super::driver::{Handle, NOT_READY};
use super::gpu::Gpu;
use crate::backend::{Backend, Committed, Watchdog};
use crate::layout::{Descriptor, Members};
use crate::memory::{Fragments, PacketMemory};
use crate::program::{MemberWork, Tally, verdict_of};
use crate::{RouterError, RouterProgram};

/// Threads of a block.
const BLOCK: u32 = 256;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads' calls are not in the way.
const THREAD_LOCAL: u32 = 1;

/// How batches follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchMode {
    /// One after the other: nothing overlaps.
    Serial,
    /// Three at a time, each in a stream of its own.
    Streams,
    /// As streams, with the copies and the kernel of a whole batch as one graph.
    Graph,
}

impl BatchMode {
    /// Batches on their way at a time.
    fn streams(self) -> usize {
        match self {
            BatchMode::Serial => 1,
            BatchMode::Streams | BatchMode::Graph => 3,
        }
    }

    fn name(self) -> &'static str {
        match self {
            BatchMode::Serial => "cuda batch",
            BatchMode::Streams => "cuda streams",
            BatchMode::Graph => "cuda graph",
        }
    }
}

/// A kernel a batch.
pub struct KernelBatch {
    gpu: Gpu,
    /// Its tables are on the GPU; kept for its name and its reasons.
    _program: RouterProgram,
    tally: Tally,
    members: Members,
    any: bool,
    memory: PacketMemory,
    fragments: Fragments,
    mode: BatchMode,
    batch: u32,
    streams: Vec<Handle>,
    /// By section.
    graphs: Vec<Handle>,
    flying: VecDeque<(Committed, Handle)>,
    packets: Vec<Packet>,
    watchdog: Watchdog,
}

// SAFETY: as of the GPU.
unsafe impl Send for KernelBatch {}

impl KernelBatch {
    /// Batches of up to `batch` packets, a power of two, in a ring of `slots`.
    ///
    /// # Errors
    /// No memory; a driver that refuses; sizes that are no power of two, or fewer than four batches in the ring.
    pub fn new(
        gpu: Gpu,
        program: &RouterProgram,
        mode: BatchMode,
        batch: u32,
        slots: u64,
        frame_bytes: usize,
        deadline: Duration,
    ) -> Result<KernelBatch, RouterError> {
        if !batch.is_power_of_two() || u64::from(batch) * 4 > slots {
            let allowed = "must be a power of two, up to a quarter of the slots";
            return Err(RouterError::Setting { what: "batch", came: batch.to_string(), allowed });
        }
        // Resident: pinned memory on the host, and memory of its own on the GPU.
        let mut gpu = gpu.resident();
        let program = program.clone();
        let memory = PacketMemory::new(&mut gpu, &program, slots, frame_bytes)?;
        let members = program.place(&mut gpu)?;
        let mut made = KernelBatch {
            streams: (0..mode.streams()).map(|_| gpu.stream()).collect::<Result<_, _>>()?,
            packets: vec![Packet::default(); slots as usize],
            gpu,
            tally: Tally::new(&program),
            any: program.is_any(),
            _program: program,
            members,
            memory,
            fragments: Fragments::default(),
            mode,
            batch,
            graphs: Vec::new(),
            flying: VecDeque::new(),
            watchdog: Watchdog::new(deadline),
        };
        if mode == BatchMode::Graph {
            made.graphs = (0..slots / u64::from(batch)).map(|section| made.graph(section)).collect::<Result<_, _>>()?;
        }
        Ok(made)
    }

    /// The copies and the kernel of one task, into `stream`.
    fn enqueue(&self, first: u64, count: u32, stream: Handle) -> Result<(), RouterError> {
        let (place, n) = (self.memory.place(first), count as usize);
        let PacketMemory { descriptors, slots, stride, .. } = &self.memory;
        let stride = *stride;
        // SAFETY: within the memory, which lives until the streams have ended; the packets are the GPU's until then.
        unsafe {
            for (memory, bytes) in [(descriptors, size_of::<Descriptor>()), (slots, stride)] {
                let from = memory.host.as_ptr().add(place * bytes);
                self.gpu.to_device(memory.device + (place * bytes) as u64, from, n * bytes, stream)?;
            }
            self.launch(place as u32, count, stream)?;
            for (memory, bytes) in self.memory.results() {
                let to = memory.host.as_ptr().add(place * bytes);
                self.gpu.to_host(to, memory.device + (place * bytes) as u64, n * bytes, stream)?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// As of [`KernelBatch::enqueue`].
    unsafe fn launch(&self, first: u32, count: u32, stream: Handle) -> Result<(), RouterError> {
        let packets = self.memory.layout();
        let (mut members, mut packets, mut first, mut count) = (self.members, packets, first, count);
        let mut arguments: [*mut c_void; 4] =
            [(&raw mut members).cast(), (&raw mut packets).cast(), (&raw mut first).cast(), (&raw mut count).cast()];
        let call = &self.gpu.driver().call;
        // SAFETY: a function of these four arguments, which the driver copies.
        let status = unsafe {
            (call.launch)(
                self.gpu.kernels(self.any).batch,
                count.div_ceil(BLOCK),
                1,
                1,
                BLOCK,
                1,
                1,
                0,
                stream,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.gpu.driver().check("cuLaunchKernel", status)
    }

    /// A whole batch in section `section`, to be launched at once.
    fn graph(&self, section: u64) -> Result<Handle, RouterError> {
        let (driver, stream) = (self.gpu.driver(), self.streams[0]);
        let (mut graph, mut exec) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a stream of this context, and places for handles.
        unsafe {
            driver.check("cuStreamBeginCapture", (driver.call.capture_begin)(stream, THREAD_LOCAL))?;
            let enqueued = self.enqueue(section * u64::from(self.batch), self.batch, stream);
            let ended = (driver.call.capture_end)(stream, &mut graph);
            // A call that failed ends the capture, too: it is the cause.
            enqueued?;
            driver.check("cuStreamEndCapture", ended)?;
            let made = (driver.call.graph_instantiate)(&mut exec, graph, 0);
            (driver.call.graph_destroy)(graph);
            driver.check("cuGraphInstantiate", made)?;
        }
        Ok(exec)
    }
}

impl Backend for KernelBatch {
    fn name(&self) -> &'static str {
        self.mode.name()
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
        if self.flying.len() >= self.mode.streams() {
            return Ok(false);
        }
        self.gpu.current()?;
        if self.flying.is_empty() {
            self.watchdog.calm();
        }
        // In turn: a stream is free once the oldest task is committed.
        let last = self.flying.back().and_then(|(_, used)| self.streams.iter().position(|stream| stream == used));
        let stream = self.streams[last.map_or(0, |last| (last + 1) % self.streams.len())];
        if self.mode == BatchMode::Graph && count == self.batch {
            let graph = self.graphs[(first / u64::from(self.batch)) as usize % self.graphs.len()];
            let driver = self.gpu.driver();
            // SAFETY: a graph and a stream of this context.
            driver.check("cuGraphLaunch", unsafe { (driver.call.graph_launch)(graph, stream) })?;
        } else {
            self.enqueue(first, count, stream)?;
        }
        self.flying.push_back((Committed { first, count }, stream));
        Ok(true)
    }

    fn room(&self) -> u64 {
        self.mode.streams().saturating_sub(self.flying.len()) as u64
    }

    fn recall(&mut self, number: u64, packet: &mut Packet) -> bool {
        // The kernel works on the copy in its slot.
        std::mem::swap(&mut self.packets[(number & (self.memory.count - 1)) as usize], packet);
        true
    }

    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        while let Some(&(task, stream)) = self.flying.front() {
            self.gpu.current()?;
            // SAFETY: a stream of this context.
            match unsafe { (self.gpu.driver().call.stream_query)(stream) } {
                NOT_READY => match self.watchdog.bark() {
                    None => return Ok(()),
                    Some(waited) => {
                        let (backend, uncommitted) = (self.mode.name(), self.flying.len() as u64);
                        return Err(RouterError::Silent { backend, uncommitted, waited });
                    }
                },
                status => self.gpu.driver().check("cuStreamQuery", status)?,
            }
            self.flying.pop_front();
            self.watchdog.calm();
            out.push(task);
        }
        Ok(())
    }

    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        std::mem::swap(&mut self.packets[(number & (self.memory.count - 1)) as usize], packet);
        // SAFETY: the packet was committed.
        let word = unsafe { self.memory.take(number, packet, &mut self.fragments) };
        self.tally.count(word);
        let what = || format!("packet {number} was committed with verdict {word:#x}");
        verdict_of(word).ok_or_else(|| RouterError::Protocol { backend: self.mode.name(), what: what() })
    }

    fn fragments(&self) -> &[Packet] {
        self.fragments.all()
    }

    fn shares(&self) -> Vec<MemberWork> {
        self.tally.shares()
    }

    fn cut(&self) -> u64 {
        self.memory.cut
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

impl Drop for KernelBatch {
    fn drop(&mut self) {
        if self.stop().is_err() {
            // Something still runs: freeing would wait for it.
            self.gpu.abandon();
            return;
        }
        let call = &self.gpu.driver().call;
        // SAFETY: handles made here; nothing runs.
        unsafe {
            for graph in self.graphs.drain(..) {
                (call.graph_exec_destroy)(graph);
            }
            for stream in self.streams.drain(..) {
                (call.stream_destroy)(stream);
            }
        }
    }
}
