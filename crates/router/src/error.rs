//! Why a router cannot start, or had to stop.

use std::path::PathBuf;
use std::time::Duration;

use crate::layout::KernelExit;

/// Why a router cannot start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// There is no driver for GPUs.
    #[error("no GPU driver: {library} cannot be loaded ({reason}); install the NVIDIA driver, or use --backend cpu")]
    NoDriver {
        /// What was tried.
        library: String,
        /// What the loader says.
        reason: String,
    },
    /// The driver lacks a function that the router calls.
    #[error(
        "the GPU driver is too old: {library} has no {symbol}; a driver of the 525 series or newer is needed, or use \
         --backend cpu"
    )]
    OldDriver {
        /// The library.
        library: String,
        /// What it lacks.
        symbol: &'static str,
    },
    /// The driver is there, and old.
    #[error(
        "the GPU driver supports CUDA {}.{}, and the kernels need {}.{}: install a driver of the 525 series or newer, or use \
         --backend cpu", found / 1000, found % 1000 / 10, needed / 1000, needed % 1000 / 10
    )]
    OldCuda {
        /// 1000 times the major version and 10 times the minor one.
        found: i32,
        /// The same of what is needed.
        needed: i32,
    },
    /// No GPU.
    #[error("the GPU driver finds no GPU ({reason}); check nvidia-smi, or use --backend cpu")]
    NoGpu {
        /// What the driver says.
        reason: String,
    },
    /// A GPU that cannot do it.
    #[error("GPU {name}: {lacks}; use another one, or --backend cpu")]
    Unfit {
        /// Its name.
        name: String,
        /// What it lacks.
        lacks: String,
    },
    /// Memory that there is not.
    #[error("{bytes} bytes of {what} are not to be had ({reason}); {remedy}")]
    Memory {
        /// What they were for.
        what: String,
        /// How many.
        bytes: usize,
        /// What the system or the driver says.
        reason: String,
        /// What helps.
        remedy: &'static str,
    },
    /// A call of the driver failed.
    #[error("{call} failed: {name} ({code}){hint}")]
    Driver {
        /// Which call.
        call: &'static str,
        /// The error's name.
        name: String,
        /// The error's number.
        code: i32,
        /// What it means here, with a separator before it.
        hint: &'static str,
    },
    /// Nothing was committed for a long time.
    #[error(
        "the {backend} backend stopped answering: {uncommitted} tasks posted and none committed for {waited:?}; it was given up"
    )]
    Silent {
        /// Which.
        backend: &'static str,
        /// Tasks that were posted and not committed.
        uncommitted: u64,
        /// How long was waited.
        waited: Duration,
    },
    /// The kernel has left though nobody asked it to.
    #[error("the kernel of the {backend} backend left by itself: {why}")]
    Left {
        /// Which.
        backend: &'static str,
        /// What it said.
        why: KernelExit,
    },
    /// The kernel does not leave.
    #[error(
        "the kernel of the {backend} backend was asked to leave and did not within {waited:?}; its memory is not freed"
    )]
    Stuck {
        /// Which.
        backend: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// A copy to or from a GPU does not end.
    #[error("a copy to or from the GPU did not end within {waited:?}: the GPU has died, or is held by another program")]
    Copy {
        /// How long was waited.
        waited: Duration,
    },
    /// A ring said what it cannot say.
    #[error("the {backend} backend broke the protocol: {what}; this is a bug")]
    Protocol {
        /// Which.
        backend: &'static str,
        /// What was seen.
        what: String,
    },
    /// A worker's thread ended by a panic.
    #[error("a worker of the {backend} backend panicked; this is a bug")]
    Panicked {
        /// Which.
        backend: &'static str,
    },
    /// A queue's own thread ended by a panic.
    #[error("the thread of queue {queue} panicked, and the run was ended; this is a bug")]
    QueuePanicked {
        /// Which.
        queue: u32,
    },
    /// A queue's own thread cannot be started.
    #[error("the thread of queue {queue} cannot be started: {source}; take fewer queues, or raise ulimit -u")]
    QueueThread {
        /// Which.
        queue: u32,
        /// What the system says.
        source: std::io::Error,
    },
    /// A setting that cannot be.
    #[error("{what} = {came}: {allowed}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What came.
        came: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A network interface that cannot be used.
    #[error("interface {name}: {doing}: {source}{hint}")]
    Interface {
        /// Which.
        name: String,
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: std::io::Error,
        /// What helps, with a separator before it.
        hint: &'static str,
    },
    /// Traffic or tables that cannot be used.
    #[error(transparent)]
    Traffic(#[from] traffic::TrafficError),
    /// A packet function that cannot be made.
    #[error(transparent)]
    Function(#[from] functions::FunctionError),
}

impl RouterError {
    /// Whether it says that this machine has no GPU that can be used: what `--backend auto` falls back to `cpu` for.
    pub fn is_no_gpu(&self) -> bool {
        use RouterError::{NoDriver, NoGpu, OldCuda, OldDriver, Unfit};
        matches!(self, NoDriver { .. } | OldDriver { .. } | OldCuda { .. } | NoGpu { .. } | Unfit { .. })
    }
}
