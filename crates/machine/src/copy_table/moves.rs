//! The steps of an operation, which a shell charges and a functional memory applies.

use serde::{Deserialize, Serialize};
use units::{CoreId, Line};

/// A step of an operation. Steps are listed in the order in which they happen: a shell charges them,
/// [`super::Functional`] applies them to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Move {
    /// Memory to the cache.
    Fill(Line),
    /// The cache to memory; the line stays, clean.
    WriteBack(Line),
    /// The cached source goes to memory as the target's content.
    Settle {
        /// Has the data.
        src: Line,
        /// Gets them, in memory.
        dst: Line,
    },
    /// Out of the cache, without a trace in memory.
    Drop(Line),
    /// An entry of the table was written or read after its class was searched up to `place`, from 0.
    Search {
        /// Entries of the class before the one that was wanted.
        place: u32,
    },
    /// `from`, in the cache, to a core's L1 as `line`; the two differ where the table serves it. Lines are the L1's, here
    /// and below.
    L1Fill {
        /// Whose L1.
        core: CoreId,
        /// Has the data.
        from: Line,
        /// Whose data they are.
        line: Line,
    },
    /// A core's L1 to the cache; the line stays in L1, clean.
    L1WriteBack {
        /// Whose L1.
        core: CoreId,
        /// Which.
        line: Line,
    },
    /// Out of a core's L1.
    L1Drop {
        /// Whose L1.
        core: CoreId,
        /// Which.
        line: Line,
    },
}

/// The steps of an operation, reused from operation to operation.
pub type Moves = Vec<Move>;

/// Who is told of the steps of an operation, in the order in which they happen.
pub trait Steps {
    /// The next step.
    fn push(&mut self, step: Move);
}

impl Steps for Moves {
    #[inline]
    fn push(&mut self, step: Move) {
        Vec::push(self, step);
    }
}

/// Who has the data of a line that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// The reader's L1.
    L1,
    /// The cache.
    Cache,
    /// The table points at a cached line.
    Table {
        /// Which.
        src: Line,
    },
    /// Another core's L1, through the cache.
    Snoop,
    /// Memory, through the cache.
    Memory,
}

/// A rule that is left out, to see that a test notices. For tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// None: the table is right.
    None,
    /// A write to a source leaves copies pointing at it.
    KeepOnSourceWrite,
    /// A write to a target leaves its entry.
    KeepOnTargetWrite,
    /// A write to a target forgets its entry without settling it.
    ForgetOnTargetWrite,
    /// A source leaves the cache without its copies being settled.
    ForgetOnEviction,
    /// A copy onto a source leaves the copies of what it overwrites.
    KeepOnCopyOntoSource,
    /// A copy leaves the target's old entry beside the new one.
    KeepTargetEntry,
    /// A copy leaves the target's old content in the cache.
    KeepTargetCached,
    /// A copy leaves the target's old content in L1s.
    KeepTargetInL1,
    /// A copy leaves the source modified in an L1, where the table does not see it.
    KeepSourceInL1,
    /// A copy of a copy points at the copy.
    PointAtCopy,
    /// A copy back to the source makes an entry that points at itself.
    PointAtSelf,
    /// A full class forgets its oldest entry without settling it.
    ForgetOldest,
    /// A settled copy counts as the source's own write-back.
    SettleCleansSource,
    /// A device's write does not look into the table.
    DeviceWriteMissesTable,
    /// A device's read does not look into the table.
    DeviceReadMissesTable,
    /// A device's read does not look into the L1s.
    DeviceReadMissesL1,
    /// A modified line of another L1 is not written back before it is read.
    SnoopMissesModified,
    /// Overlapping copies always go upwards.
    AlwaysUpwards,
    /// A copy that fits no line boundary is taken by the table all the same.
    SkipAlignmentCheck,
}

impl Fault {
    /// All but [`Fault::None`].
    pub const ALL: [Fault; 19] = [
        Fault::KeepOnSourceWrite,
        Fault::KeepOnTargetWrite,
        Fault::ForgetOnTargetWrite,
        Fault::ForgetOnEviction,
        Fault::KeepOnCopyOntoSource,
        Fault::KeepTargetEntry,
        Fault::KeepTargetCached,
        Fault::KeepTargetInL1,
        Fault::KeepSourceInL1,
        Fault::PointAtCopy,
        Fault::PointAtSelf,
        Fault::ForgetOldest,
        Fault::SettleCleansSource,
        Fault::DeviceWriteMissesTable,
        Fault::DeviceReadMissesTable,
        Fault::DeviceReadMissesL1,
        Fault::SnoopMissesModified,
        Fault::AlwaysUpwards,
        Fault::SkipAlignmentCheck,
    ];
}
