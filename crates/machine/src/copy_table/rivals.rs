//! Ways to copy, from loads and stores to the table.

use probe::Access;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{CoreId, Ps};

use super::instruction::CopyPiece;
use super::level::CopyLevel;
use super::spec::CopyInstruction;

/// Who copies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum CopyMethod {
    /// Loads and stores of a word.
    Loads(CopyLoopCost),
    /// Loads, and stores that go around the caches, a line at a time.
    NonTemporal(CopyLoopCost),
    /// A DMA engine on the I/O bus.
    Dma(DmaEngine),
    /// An engine in the memory controller.
    Controller(ControllerEngine),
    /// The copy instruction and the indexing table, with software for what they do not take.
    Table(CopyLoopCost),
}

/// A copy loop: by default glibc's of a 32-bit machine, four instructions a word.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CopyLoopCost {
    /// Bytes of a load or store.
    pub word: u32,
    /// Instructions for each pair of them.
    pub instructions: u32,
    /// Loads go around the caches, as from a NIC buffer that is mapped uncached.
    pub uncached_source: bool,
    /// Instructions of a call, checks included.
    pub call: u32,
}

impl Default for CopyLoopCost {
    fn default() -> CopyLoopCost {
        CopyLoopCost { word: 4, instructions: 4, uncached_source: false, call: 10 }
    }
}

/// How a CPU learns that an engine is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum CompletionNotice {
    /// It reads a register until then, each time for `clocks`.
    Polling {
        /// Clocks of an uncached read of a device's register.
        clocks: u32,
    },
    /// It is interrupted, which costs `clocks`, and works on meanwhile.
    Interrupt {
        /// Clocks of entry, handler and return.
        clocks: u32,
    },
}

/// A DMA engine: a peripheral that moves lines between memories by physical address.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DmaEngine {
    /// Clocks to translate, pin, write a descriptor and start it.
    pub setup: u32,
    /// How the CPU learns of the end.
    pub notice: CompletionNotice,
}

impl DmaEngine {
    /// With a notice by polling; all clocks are assumed: three uncached writes and two reads of a PCI
    /// register of about 1 us altogether (Zhao et al., IEEE TC 2007, discuss the order only).
    pub const POLLED: DmaEngine = DmaEngine { setup: 1000, notice: CompletionNotice::Polling { clocks: 300 } };
    /// With an interrupt of about 2 us, assumed.
    pub const INTERRUPT: DmaEngine = DmaEngine { setup: 1000, notice: CompletionNotice::Interrupt { clocks: 4000 } };
}

/// When the instruction that starts a controller's engine retires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Retires {
    /// When the copy is done.
    Sync,
    /// When the copy is done, but up to a window of instructions goes on meanwhile and its misses pass
    /// the copy.
    SyncBypass,
    /// At once; whoever touches the data waits.
    Async,
}

/// A copy engine in the memory controller (Zhao et al., "Hardware support for accelerating data movement
/// in server platform", IEEE TC 2007).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControllerEngine {
    /// When the instruction retires.
    pub retires: Retires,
    /// Clocks to translate and hand over a copy.
    pub setup: u32,
    /// Instructions of the window, for [`Retires::SyncBypass`].
    pub window: u32,
}

impl ControllerEngine {
    /// Setup and window are assumed.
    pub const fn new(retires: Retires) -> ControllerEngine {
        ControllerEngine { retires, setup: 20, window: 128 }
    }
}

/// A copy by a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRequest {
    /// Which CPU.
    pub core: CoreId,
    /// First byte from.
    pub src: u64,
    /// First byte to.
    pub dst: u64,
    /// How many.
    pub bytes: u64,
}

/// What a copy took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// When the CPU goes on.
    pub at: Ps,
    /// When the target can be read.
    pub done: Ps,
    /// Instructions of the CPU.
    pub instructions: u64,
}

impl CopyMethod {
    /// Copies `bytes` bytes, which do not overlap unless the method is loads and stores or the table.
    pub fn copy(&self, level: &mut CopyLevel, copy: CopyRequest, now: Ps) -> Copied {
        let CopyRequest { src, dst, bytes, .. } = copy;
        match self {
            CopyMethod::Loads(words) => words.copy(level, copy, now, Stores::Cached),
            CopyMethod::NonTemporal(words) => words.copy(level, copy, now, Stores::NonTemporal),
            CopyMethod::Table(words) => words.copy(level, copy, now, Stores::Table),
            CopyMethod::Dma(engine) => {
                let clock = level.clocks().clock;
                let start = now + Ps(clock.0 * u64::from(engine.setup));
                let done = level.by_memory(src, dst, bytes, start);
                let (at, done, polls) = match engine.notice {
                    CompletionNotice::Polling { clocks } => {
                        let period = clock.0 * u64::from(clocks.max(1));
                        let polls = done.since(start).0.div_ceil(period).max(1);
                        let at = start + Ps(polls * period);
                        (at, at, polls)
                    }
                    CompletionNotice::Interrupt { clocks } => {
                        let cost = Ps(clock.0 * u64::from(clocks));
                        (start + cost, done.max(start) + cost, 0)
                    }
                };
                Copied { at, done, instructions: SETUP_INSTRUCTIONS + polls }
            }
            CopyMethod::Controller(engine) => {
                let clock = level.clocks().clock;
                let start = now + Ps(clock.0 * u64::from(engine.setup));
                let done = level.by_memory(src, dst, bytes, start);
                let window = Ps(clock.0 * u64::from(engine.window));
                let at = match engine.retires {
                    Retires::Sync => done,
                    Retires::SyncBypass => Ps(done.0.saturating_sub(window.0)).max(start),
                    Retires::Async => start,
                };
                Copied { at, done, instructions: CALL_INSTRUCTIONS }
            }
        }
    }
}

/// Instructions that write a DMA engine's descriptor and start it; assumed.
const SETUP_INSTRUCTIONS: u64 = 60;
/// Instructions that hand a copy to a controller; assumed.
const CALL_INSTRUCTIONS: u64 = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stores {
    Cached,
    NonTemporal,
    Table,
}

impl CopyLoopCost {
    fn copy(&self, level: &mut CopyLevel, copy: CopyRequest, now: Ps, stores: Stores) -> Copied {
        let CopyRequest { core, src, dst, bytes } = copy;
        let (word, each) = (u64::from(self.word.max(1)), u64::from(self.instructions));
        let clock = level.clocks().clock;
        let mut instructions = u64::from(self.call);
        let mut at = now + Ps(clock.0 * instructions);
        let instruction = level.instruction();
        let plan = CopyInstruction::plan(&instruction, src, dst, bytes, level.line_bytes());
        let plan = if stores == Stores::Table { plan } else { plan.by_software() };
        for piece in plan {
            if let CopyPiece::Line { src, dst } = piece
                && let Some(done) = level.copy_line(src, dst, at)
            {
                at = done;
                continue;
            }
            let n = piece.bytes(level.line_bytes()).div_ceil(word);
            instructions += n * each;
            if stores != Stores::NonTemporal && !self.uncached_source {
                at = level.by_words(core, piece, word, each, at);
                continue;
            }
            let (from, to, bytes) = piece.span(level.line_bytes());
            at += Ps(clock.0 * n * each);
            for i in 0..n {
                at = if self.uncached_source {
                    level.uncached(false, from + i * word, false, at)
                } else {
                    level.word(core, Access::Load, from + i * word, word.min(bytes - i * word), at)
                };
                if stores != Stores::NonTemporal {
                    at = level.word(core, Access::Store, to + i * word, word.min(bytes - i * word), at);
                }
            }
            if stores == Stores::NonTemporal {
                // Stores of a line are combined before they leave.
                at = level.uncached(true, to, bytes == level.line_bytes(), at);
            }
        }
        Copied { at, done: at, instructions }
    }
}
