//! A network processor: multithreaded engines around an SRAM and a packet buffer.
//!
//! Models engines whose threads run between memory operations and switch at each of them, a receive FIFO whose
//! slots limit the writes that a thread has under way, SRAM with locks that are granted in order, a packet buffer
//! ([`crate::buffer`]) in SDRAM ([`sdram`]), output queues by port and class, an output scheduler, and a transmit
//! FIFO whose slots are filled by blocks and drained cell by cell. A packet's software is a list of [`ThreadStep`]s
//! that a packet function left; the machine replays them, allocates, writes the packet to SDRAM, queues it,
//! reads it block by block, and transmits it. Packets of a flow leave in the order in which they came.
//!
//! A thread that waits for memory lets others run. One that waits for something to do looks again and again, which takes
//! its engine's time, and sees what comes at its next look.
//!
//! Input never waits for a packet to arrive (ports are scaled so that one is always there, as in the paper), so
//! what comes out is the most that the processor carries.
//!
//! Left out: instruction fetch, the bus between FIFOs and ports, the control processor, what a packet's bytes
//! are (prefix and suffix caches count words).
//!
//! **Source**: Hasan, Chandra, Vijaykumar, "Efficient use of memory bandwidth to improve network processor
//! throughput", ISCA 2003, sections 4 and 5; Spalink, Karlin, Peterson, Gottlieb, "Building a robust
//! software-based router using network processors", SOSP 2001 (times of the IXP1200's memories, instructions a cell).

mod run;
pub mod sdram;
mod wheel;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Size;

pub use run::{NetprocOutcome, NetworkProcessor, Watched};

use crate::MachineError;
use crate::buffer::{BufferAllocation, BufferSpec};
use sdram::{Precharge, RowMap, SdramQueueing, SdramSpec};

/// Threads of all input engines, and of all output engines; engines of either; slots of the transmit FIFO.
const MOST_INPUTS: u32 = 256;
const MOST_OUTPUTS: u32 = 64;
const MOST_ENGINES: u32 = 64;
const MOST_SLOTS: u32 = 64;
/// Threads of an engine, a power of two.
const MOST_THREADS: usize = 16;
/// Each cell has a place in memory here.
const LARGEST_BUFFER: u64 = 4 << 30;

/// What a step ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Nothing: the thread goes on.
    Compute,
    /// A reference to SRAM, which it waits for.
    Sram,
    /// A lock in SRAM, which it waits for.
    Lock(u32),
    /// The lock is given back, by a reference to SRAM.
    Unlock(u32),
}

/// Instructions of a thread up to a memory operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadStep {
    /// Engine ticks.
    pub ticks: u32,
    /// What it ends in.
    pub op: Op,
}

/// A packet that comes in, and what software does for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketWork {
    /// Bytes of the packet.
    pub bytes: u32,
    /// Its flow: packets of a flow keep their order.
    pub flow: u32,
    /// The port that it leaves by; [`None`]: it is discarded after its steps.
    pub port: Option<u16>,
    /// Its steps: from, to.
    pub steps: (u32, u32),
}

/// Packets with their software, in order of arrival; repeated as often as needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetprocWorkload {
    /// The packets.
    pub works: Vec<PacketWork>,
    /// All their steps.
    pub steps: Vec<ThreadStep>,
}

/// Which class of a port goes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClassScheduling {
    /// In turns, packet by packet.
    #[default]
    RoundRobin,
    /// The lowest number first.
    Strict,
}

/// A network processor. Times are ticks of the engines' clock where nothing else is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MicroenginesSpec {
    /// The engines' clock.
    pub mhz: u32,
    /// Engines that take packets in.
    pub input_engines: u32,
    /// Engines that put packets out.
    pub output_engines: u32,
    /// Threads of an engine.
    pub threads: u32,
    /// Ports.
    pub ports: u32,
    /// Output queues over all ports; the same number each.
    pub queues: u32,
    /// Which queue of a port goes next.
    pub classes: ClassScheduling,
    /// SRAM.
    pub sram: SramSpec,
    /// What software costs around a packet function.
    pub software: SoftwareSpec,
    /// Writes to the packet buffer that an input thread has under way: its slots of the receive FIFO.
    pub receive_slots: u32,
    /// The way out.
    pub transmit: TransmitSpec,
    /// Packets between allocation and release; input stalls on it.
    pub in_flight: u32,
    /// The packet buffer.
    pub buffer: BufferSpec,
    /// SDRAM and its controller.
    pub sdram: SdramSpec,
    /// Cells of a prefix and of a suffix cache, each queue having one of either in SRAM; 0: none. With them, queues
    /// lie linearly in the packet buffer, and move by so many cells at a time.
    pub cache_cells: u32,
}

/// SRAM beside the engines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SramSpec {
    /// From a reference to its answer.
    pub latency: u32,
    /// Between references.
    pub occupancy: u32,
    /// Locks that can be told apart; others share.
    pub locks: u32,
}

/// Instructions and SRAM references around a packet function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SoftwareSpec {
    /// To receive a packet's first cell.
    pub receive: u32,
    /// For each write or block of reads that is issued.
    pub issue: u32,
    /// To take in each cell behind the first.
    pub cell: u32,
    /// To hand a slot of the transmit FIFO over, once its data is there.
    pub fill: u32,
    /// Of a look by a thread that waits for something to do; it looks again after a reference to SRAM. 0: it is woken.
    pub poll: u32,
    /// SRAM references to allocate.
    pub allocate: u32,
    /// SRAM references to put a packet's descriptor into its queue, and to take it out.
    pub queue: u32,
    /// SRAM references to choose what an output thread does next.
    pub select: u32,
}

/// The transmit FIFO.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransmitSpec {
    /// Slots, the same number for each port.
    pub slots: u32,
    /// Cells of a slot: `t`.
    pub block: u32,
    /// From data in the slot to the thread's being free again, beyond its instructions.
    pub handshake: u32,
    /// For which a cell holds its slot, in nanoseconds: handshake and drain, whose clock is not the engines'.
    pub drain_ns: u32,
}

impl Default for SramSpec {
    fn default() -> SramSpec {
        // SOSP 2001, table 3: 22 cycles of 5 ns for 4 bytes; assumed to keep pace with the engines.
        SramSpec { latency: 22, occupancy: 4, locks: 4096 }
    }
}

impl Default for SoftwareSpec {
    fn default() -> SoftwareSpec {
        // SOSP 2001, table 2: 171 instructions to take in a packet of one cell, 109 to put it out. What is done once a packet
        // is in steps of its own, of 10 instructions each: 5 on the way in, 3 on the way out. Of what remains on the
        // way out, a slot's choice and its reads have a step each, too.
        SoftwareSpec { receive: 121, issue: 10, cell: 121, fill: 59, poll: 10, allocate: 1, queue: 2, select: 1 }
    }
}

impl Default for TransmitSpec {
    fn default() -> TransmitSpec {
        TransmitSpec { slots: 16, block: 1, handshake: 0, drain_ns: 1500 }
    }
}

impl Default for MicroenginesSpec {
    fn default() -> MicroenginesSpec {
        MicroenginesSpec::ixp1200(16)
    }
}

impl MicroenginesSpec {
    /// The paper's processor: an IXP1200 with six engines of four threads at 400 MHz beside SDRAM at 100 MHz, and
    /// `ports` ports. Controller and allocator are the plain row-aware ones; what the paper does not give is fitted to
    /// one column of its tables (`papers/2003-isca-hasan`).
    pub fn ixp1200(ports: u32) -> MicroenginesSpec {
        MicroenginesSpec {
            mhz: 400,
            input_engines: 4,
            output_engines: 2,
            threads: 4,
            ports,
            queues: ports.max(16) / ports.max(1) * ports,
            classes: ClassScheduling::RoundRobin,
            sram: SramSpec::default(),
            software: SoftwareSpec::default(),
            receive_slots: 10,
            transmit: TransmitSpec::default(),
            in_flight: 92,
            buffer: BufferSpec { size: Size::from_bytes(80 << 20), ..BufferSpec::default() },
            sdram: SdramSpec::default(),
            cache_cells: 0,
        }
    }

    /// The same with engines at `mhz`, a multiple of the SDRAM's 100 MHz.
    pub fn at(mut self, mhz: u32) -> MicroenginesSpec {
        self.mhz = mhz;
        self.sdram.ticks_per_clock = (mhz / 100).max(1);
        self
    }

    /// The reference controller (section 6.2): odd and even pools, banks and queues in alternation, output first,
    /// eager precharge; with shuffled buffers of 2 KiB.
    pub fn reference(mut self) -> MicroenginesSpec {
        self.buffer = BufferSpec { allocation: BufferAllocation::Fixed, pools: 2, shuffled: true, ..self.buffer };
        self.sdram.queues = SdramQueueing::BankParity;
        self.sdram.output_first = true;
        self.sdram.precharge = Precharge::Eager;
        self.sdram.map = RowMap::Halves;
        self
    }

    /// The controller that techniques are added to (`OUR_BASE`): read and write queues in turns, lazy precharge, rows
    /// round robin over banks; one pool.
    pub fn row_aware(mut self, allocation: BufferAllocation) -> MicroenginesSpec {
        let shuffled = matches!(allocation, BufferAllocation::Fixed | BufferAllocation::Cells);
        self.buffer = BufferSpec { allocation, pools: 1, shuffled, ..self.buffer };
        self.sdram.queues = SdramQueueing::Direction;
        self.sdram.output_first = false;
        self.sdram.precharge = Precharge::Lazy;
        self.sdram.map = RowMap::RoundRobin;
        self
    }

    /// Ticks in a nanosecond's thousands.
    fn ticks(&self, ns: u32) -> u64 {
        u64::from(ns) * u64::from(self.mhz) / 1000
    }

    /// Checks what the parts do not check themselves.
    ///
    /// # Errors
    /// Counts of 0 or too large, more ports than queues or slots, times that do not fit together.
    pub fn check(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: String, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        let counts = [
            ("mhz", self.mhz, 100_000),
            ("input_engines", self.input_engines, MOST_ENGINES),
            ("output_engines", self.output_engines, MOST_ENGINES),
            ("threads", self.threads, MOST_THREADS as u32),
            ("ports", self.ports, 64),
            ("queues", self.queues, 4096),
            ("receive_slots", self.receive_slots, 64),
            ("in_flight", self.in_flight, 16384),
            ("sram.locks", self.sram.locks, 1 << 20),
            ("transmit.slots", self.transmit.slots, MOST_SLOTS),
            ("transmit.block", self.transmit.block, 64),
        ];
        for (field, came, most) in counts {
            if came == 0 || came > most {
                return error(field, came.to_string(), format!("1 to {most}"), "see the preset ixp1200");
            }
        }
        for (field, engines, most) in
            [("input_engines", self.input_engines, MOST_INPUTS), ("output_engines", self.output_engines, MOST_OUTPUTS)]
        {
            if engines * self.threads > most {
                let came = format!("{engines} engines of {} threads", self.threads);
                return error(field, came, format!("up to {most} threads in all"), "have fewer engines or threads");
            }
        }
        if self.queues < self.ports || !self.queues.is_multiple_of(self.ports) {
            let came = format!("{} for {} ports", self.queues, self.ports);
            return error("queues", came, "a multiple of the ports".into(), "give each port a queue or more");
        }
        if self.transmit.slots < self.ports {
            let came = format!("{} for {} ports", self.transmit.slots, self.ports);
            return error("transmit.slots", came, "a slot or more a port".into(), "give each port a slot");
        }
        if self.cache_cells > 64 {
            return error("cache_cells", self.cache_cells.to_string(), "0 to 64".into(), "the paper has 4");
        }
        let (cell, row, width) = (self.buffer.cell.bytes(), self.sdram.row.bytes(), u64::from(self.sdram.width));
        if !row.is_power_of_two() || row < cell {
            let came = format!("{} with cells of {}", self.sdram.row, self.buffer.cell);
            return error("sdram.row", came, "a power of two, a cell or more".into(), "4 KiB in the paper");
        }
        if !cell.is_multiple_of(width.max(1)) {
            let came = format!("{} on a bus of {width} bytes", self.buffer.cell);
            return error("buffer.cell", came, "a multiple of the bus".into(), "64 B on 8 bytes");
        }
        let unit = u64::from(self.cache_cells) * cell;
        if unit > 0 && !row.is_multiple_of(unit) {
            let came = format!("{} cells of {}", self.cache_cells, self.buffer.cell);
            return error("cache_cells", came, format!("what divides a row of {row} bytes"), "the paper has 4");
        }
        if self.buffer.size.bytes() > LARGEST_BUFFER {
            let allowed = format!("up to {}", Size::from_bytes(LARGEST_BUFFER));
            return error("buffer.size", self.buffer.size.to_string(), allowed, "the paper's is taken to be 8 MiB");
        }
        // A region holds what the packets in flight may fill, so that no queue's ring overruns.
        let region = self.buffer.size.bytes() / u64::from(self.queues);
        let need = u64::from(self.in_flight) * (self.buffer.longest.bytes() + unit);
        if unit > 0 && region < need {
            let came =
                format!("{} a queue, from {} over {} queues", Size::from_bytes(region), self.buffer.size, self.queues);
            let allowed = format!("{} for {} packets in flight", Size::from_bytes(need), self.in_flight);
            return error("buffer.size", came, allowed, "enlarge the buffer or have fewer queues");
        }
        Ok(())
    }
}
