//! What a system with a copy table is made of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Size;

use crate::MachineError;

/// What an L1 does with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WritePolicy {
    /// Passes it on, and keeps a copy only of lines that it has.
    Through,
    /// Takes the line, and passes the store on.
    ThroughAllocate,
    /// Takes the line, and writes it back when it leaves.
    Back,
}

/// A private first-level cache. The default is table 2 of the paper; whether its L1 takes a line for a store is not said
/// there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct L1Spec {
    /// Capacity; a multiple of ways times lines.
    pub size: Size,
    /// Bytes of its lines, a power of two from 16 up to a line of the shared cache.
    pub line: u32,
    /// Ways of a set, 1 to 32.
    pub ways: u32,
    /// What it does with a store.
    pub writes: WritePolicy,
}

impl Default for L1Spec {
    fn default() -> L1Spec {
        L1Spec { size: Size::from_bytes(32 << 10), line: 64, ways: 1, writes: WritePolicy::Through }
    }
}

/// CPUs, their caches and the indexing table. The default is table 2 of the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CopySystemSpec {
    /// CPUs on the bus, 1 to 64.
    pub cpus: u32,
    /// Bytes of a line of the shared cache and the table, 16 to 128, a power of two.
    pub line: u32,
    /// Each CPU's L1. Without one, CPUs use the shared cache itself.
    pub l1: Option<L1Spec>,
    /// Capacity of the shared cache; a multiple of ways times lines.
    pub size: Size,
    /// Ways of a set of the shared cache, 1 to 32; 1 is direct-mapped.
    pub ways: u32,
    /// Whether the indexing table is there.
    pub table: bool,
    /// What the copy instruction takes.
    pub instruction: CopyInstruction,
}

/// What the copy instruction checks before it uses the table; the rest is done by software.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CopyInstruction {
    /// Copies of fewer bytes are left to software.
    pub least: u64,
    /// Copies of more bytes are left to software.
    pub most: u64,
}

impl Default for CopyInstruction {
    fn default() -> CopyInstruction {
        CopyInstruction { least: 1, most: 1 << 20 }
    }
}

impl Default for CopySystemSpec {
    fn default() -> CopySystemSpec {
        CopySystemSpec {
            cpus: 1,
            line: 128,
            l1: Some(L1Spec::default()),
            size: Size::from_bytes(2 << 20),
            ways: 8,
            table: true,
            instruction: CopyInstruction::default(),
        }
    }
}

/// Sets and ways.
pub(super) struct TableShape {
    pub l1: Option<(u64, u32, WritePolicy)>,
    /// A line of the shared cache has this power of two of lines of an L1.
    pub parts: u32,
    pub sets: u64,
    pub ways: u32,
}

impl CopySystemSpec {
    pub(super) fn shape(&self) -> Result<TableShape, MachineError> {
        let wrong = |field: &str, came: String, allowed: &str, remedy: &str| {
            MachineError::new(format!("machine.copy_table.{field}"), came, allowed, remedy.into())
        };
        if !(1..=64).contains(&self.cpus) {
            return Err(wrong("cpus", self.cpus.to_string(), "1 to 64 CPUs", "choose a number in that range"));
        }
        if !(16..=128).contains(&self.line) || !self.line.is_power_of_two() {
            let remedy = "choose one of these; real caches have 64";
            return Err(wrong("line", self.line.to_string(), "16, 32, 64 or 128 bytes", remedy));
        }
        let CopyInstruction { least, most } = self.instruction;
        if least > most {
            let came = format!("{least} to {most} bytes");
            return Err(wrong("instruction", came, "least up to most", "raise most or lower least"));
        }
        let part = self.l1_line();
        if !(16..=self.line).contains(&part) || !part.is_power_of_two() {
            let allowed = format!("a power of two from 16 to {} bytes, the shared cache's line", self.line);
            return Err(wrong("l1.line", part.to_string(), &allowed, "choose one of these"));
        }
        let sets = |field: &str, size: Size, ways: u32, line: u32| {
            if !(1..=32).contains(&ways) {
                let remedy = "choose a number of ways in that range";
                return Err(wrong(&format!("{field}ways"), ways.to_string(), "1 to 32 ways", remedy));
            }
            let set = u64::from(ways) * u64::from(line);
            let bytes = size.bytes();
            if bytes == 0 || !bytes.is_multiple_of(set) || bytes > 1 << 32 {
                let came = format!("{size} with {ways} ways of {line} B");
                let allowed = "a multiple of ways x line, up to 4 GiB";
                let remedy = crate::cache::nearest_size(bytes, set);
                return Err(wrong(&format!("{field}size"), came, allowed, &remedy));
            }
            Ok(bytes / set)
        };
        let l1 = match &self.l1 {
            Some(l1) => Some((sets("l1.", l1.size, l1.ways, l1.line)?, l1.ways, l1.writes)),
            None => None,
        };
        let parts = (self.line / part).trailing_zeros();
        Ok(TableShape { l1, parts, sets: sets("", self.size, self.ways, self.line)?, ways: self.ways })
    }

    /// Bytes of a line as CPUs see it: of an L1, or of the shared cache where there is none.
    pub fn l1_line(&self) -> u32 {
        self.l1.as_ref().map_or(self.line, |l1| l1.line)
    }
}
