//! Processors with private caches, a shared cache and the indexing table, without time.

use units::{Cbm, CoreId, Line};

use super::cache::CopyCache;
use super::moves::{DataSource, Fault, Move, Steps};
use super::spec::{CopySystemSpec, WritePolicy};
use crate::MachineError;
use crate::cache::TagArray;

/// CPUs with an L1 each on a snooping bus, and a shared cache with the indexing table, as state
/// without time. Without L1s, CPUs use the shared cache itself.
///
/// L1 lines follow MESI: modified is a dirty line, exclusive one that no other L1 has. A line that
/// the table serves or points at is never given as exclusive: its first write is to reach the
/// table. Devices are coherent: what they read or write is settled first.
///
/// An L1's line may be a part of one of the shared cache. Lines that a CPU reads or writes are those of an L1; lines that
/// are copied, and those of devices, are those of the shared cache.
#[derive(Clone, Debug)]
pub struct CopySystem {
    l1: Vec<TagArray>,
    policy: WritePolicy,
    /// A line of the shared cache has this power of two of lines of an L1.
    parts: u32,
    shared: CopyCache,
    fault: Fault,
}

/// Where the bytes of a write go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteTarget {
    /// Who had the line.
    pub source: DataSource,
    /// The writer's L1 has the line and gets the bytes.
    pub l1: bool,
    /// The shared cache gets the bytes.
    pub shared: bool,
}

impl CopySystem {
    /// An empty system.
    ///
    /// # Errors
    /// What is wrong in `spec`.
    pub fn new(spec: &CopySystemSpec) -> Result<CopySystem, MachineError> {
        CopySystem::with_fault(spec, Fault::None)
    }

    /// A system that leaves out a rule, for tests.
    ///
    /// # Errors
    /// As [`CopySystem::new`].
    pub fn with_fault(spec: &CopySystemSpec, fault: Fault) -> Result<CopySystem, MachineError> {
        let shape = spec.shape()?;
        let l1 = match shape.l1 {
            Some((sets, ways, _)) => (0..spec.cpus).map(|_| TagArray::new(sets, ways)).collect(),
            None => Vec::new(),
        };
        let policy = shape.l1.map_or(WritePolicy::Through, |(.., policy)| policy);
        let shared = CopyCache::new(shape.sets, shape.ways, spec.table).with_fault(fault);
        Ok(CopySystem { l1, policy, parts: shape.parts, shared, fault })
    }

    /// The shared cache.
    pub fn shared(&self) -> &CopyCache {
        &self.shared
    }

    /// Whether CPUs have L1s.
    #[inline]
    pub fn has_l1(&self) -> bool {
        !self.l1.is_empty()
    }

    /// `core` reads some of `line`.
    #[inline]
    pub fn read(&mut self, core: CoreId, line: Line, steps: &mut impl Steps) -> DataSource {
        let me = core.0 as usize;
        if self.l1.is_empty() {
            return self.shared.read(self.around(line), steps);
        }
        if self.l1[me].use_line(line).is_some() {
            return DataSource::L1;
        }
        self.bring(core, line, false, steps)
    }

    /// `core` writes some of `line`.
    #[inline]
    pub fn write(&mut self, core: CoreId, line: Line, steps: &mut impl Steps) -> WriteTarget {
        let me = core.0 as usize;
        if self.l1.is_empty() {
            let hit = self.shared.write(self.around(line), steps);
            let source = if hit { DataSource::Cache } else { DataSource::Memory };
            return WriteTarget { source, l1: false, shared: true };
        }
        if self.policy != WritePolicy::Back {
            return self.write_through(core, line, steps);
        }
        if let Some(slot) = self.l1[me].use_line(line) {
            if !self.l1[me].is_exclusive(slot) {
                self.drop_from_others(me, line, true, steps);
                self.shared.own(self.around(line), steps);
                self.l1[me].set_exclusive(line, true);
            }
            self.l1[me].set_dirty(slot, true);
            return WriteTarget { source: DataSource::L1, l1: true, shared: false };
        }
        self.drop_from_others(me, line, true, steps);
        self.shared.own(self.around(line), steps);
        let source = self.bring(core, line, true, steps);
        WriteTarget { source, l1: true, shared: false }
    }

    /// A store passes an L1, which keeps what it has of it or takes its line.
    fn write_through(&mut self, core: CoreId, line: Line, steps: &mut impl Steps) -> WriteTarget {
        let me = core.0 as usize;
        let there = self.l1[me].use_line(line).is_some();
        self.drop_from_others(me, line, false, steps);
        let hit = self.shared.write(self.around(line), steps);
        let source = match (there, hit) {
            (true, _) => DataSource::L1,
            (false, true) => DataSource::Cache,
            (false, false) => DataSource::Memory,
        };
        let takes = self.policy == WritePolicy::ThroughAllocate;
        if takes && !there {
            steps.push(Move::L1Fill { core, from: line, line });
            self.fill_l1(core, line, false, false, steps);
        }
        WriteTarget { source, l1: there || takes, shared: true }
    }

    /// All of `src` becomes the content of `dst` by a pointer of the table; `false`, and nothing has
    /// happened, without a table.
    ///
    /// L1s write back what they have of the source, and give up what they have of both.
    pub fn copy(&mut self, src: Line, dst: Line, steps: &mut impl Steps) -> bool {
        if self.shared.table().is_none() {
            return false;
        }
        if src == dst {
            return true;
        }
        for core in 0..self.l1.len() {
            if self.fault != Fault::KeepSourceInL1 {
                self.give_up_all(core, src, true, steps);
            }
            if self.fault != Fault::KeepTargetInL1 {
                self.give_up_all(core, dst, false, steps);
            }
        }
        self.shared.copy(src, dst, steps)
    }

    /// A device, or a store around the caches, is about to write `line` in memory.
    pub fn before_memory_write(&mut self, line: Line, whole: bool, steps: &mut impl Steps) {
        for core in 0..self.l1.len() {
            self.give_up_all(core, line, !whole, steps);
        }
        self.shared.before_memory_write(line, whole, steps);
    }

    /// A device writes all of `line` into the shared cache.
    pub fn place(&mut self, line: Line, steps: &mut impl Steps) {
        for core in 0..self.l1.len() {
            self.give_up_all(core, line, false, steps);
        }
        self.shared.take(line, steps);
    }

    /// A device, or a load around the caches, is about to read `line` from memory.
    pub fn before_memory_read(&mut self, line: Line, steps: &mut impl Steps) {
        if self.fault != Fault::DeviceReadMissesL1 {
            for core in 0..self.l1.len() {
                for part in self.parts_of(line) {
                    self.write_back(core, part, steps);
                }
            }
        }
        self.shared.before_memory_read(line, steps);
    }

    /// Whether all rules between caches and table hold.
    pub fn is_consistent(&self) -> bool {
        self.shared.is_consistent()
    }

    /// `line` comes into the L1 of `core`, as modified or not.
    fn bring(&mut self, core: CoreId, line: Line, modified: bool, steps: &mut impl Steps) -> DataSource {
        let me = core.0 as usize;
        let mut alone = true;
        let mut snooped = false;
        for other in (0..self.l1.len()).filter(|&other| other != me) {
            if self.l1[other].set_exclusive(line, false).is_some() {
                alone = false;
                snooped |= self.write_back(other, line, steps);
            }
        }
        let whole = self.around(line);
        let source = self.shared.read(whole, steps);
        let src = if let DataSource::Table { src } = source {
            self.shared.share(whole);
            src
        } else {
            whole
        };
        steps.push(Move::L1Fill { core, from: self.same_part(line, src), line });
        // One that the table serves is never exclusive: its first write is to reach the table.
        let exclusive =
            modified || alone && self.policy == WritePolicy::Back && src == whole && self.shared.gives_exclusive(whole);
        self.fill_l1(core, line, modified, exclusive, steps);
        if snooped { DataSource::Snoop } else { source }
    }

    /// The L1 of `core` has `line`; what had to go for it is written back if it was modified.
    fn fill_l1(&mut self, core: CoreId, line: Line, modified: bool, exclusive: bool, steps: &mut impl Steps) {
        let filled = self.l1[core.0 as usize].fill(line, Cbm(u32::MAX), modified, exclusive);
        let Ok(Some(victim)) = filled else { return };
        if victim.dirty {
            self.take_part(victim.line, steps);
            steps.push(Move::L1WriteBack { core, line: victim.line });
        }
        steps.push(Move::L1Drop { core, line: victim.line });
    }

    /// The shared cache gets the latest content of an L1's line, whose other parts it fetches where it has them not.
    fn take_part(&mut self, line: Line, steps: &mut impl Steps) {
        if self.parts == 0 {
            self.shared.take(line, steps);
        } else {
            self.shared.write(self.around(line), steps);
        }
    }

    /// The shared cache's line around one of an L1.
    #[inline]
    fn around(&self, line: Line) -> Line {
        Line(line.0 >> self.parts)
    }

    /// The lines of an L1 in one of the shared cache.
    fn parts_of(&self, line: Line) -> impl Iterator<Item = Line> + use<> {
        let first = line.0 << self.parts;
        (first..first + (1 << self.parts)).map(Line)
    }

    /// The L1's line that has the place in `of` which `line` has in its own line of the shared cache.
    fn same_part(&self, line: Line, of: Line) -> Line {
        Line((of.0 << self.parts) + (line.0 & ((1 << self.parts) - 1)))
    }

    /// The L1 of `core` writes `line` back if it has it modified; says so.
    fn write_back(&mut self, core: usize, line: Line, steps: &mut impl Steps) -> bool {
        let Some(slot) = self.l1[core].find(line) else { return false };
        if !self.l1[core].is_dirty(slot) || self.fault == Fault::SnoopMissesModified {
            return false;
        }
        self.l1[core].set_dirty(slot, false);
        self.l1[core].set_exclusive(line, false);
        // Copies of the line's old content are settled before the new one comes.
        self.take_part(line, steps);
        steps.push(Move::L1WriteBack { core: CoreId(core as u16), line });
        true
    }

    /// The L1 of `core` gives `line` up, its data saved if `keep`.
    fn give_up(&mut self, core: usize, line: Line, keep: bool, steps: &mut impl Steps) {
        if keep {
            self.write_back(core, line, steps);
        }
        if self.l1[core].remove(line).is_some() {
            steps.push(Move::L1Drop { core: CoreId(core as u16), line });
        }
    }

    /// As [`CopySystem::give_up`], of all that is in a line of the shared cache.
    fn give_up_all(&mut self, core: usize, line: Line, keep: bool, steps: &mut impl Steps) {
        for part in self.parts_of(line) {
            self.give_up(core, part, keep, steps);
        }
    }

    fn drop_from_others(&mut self, me: usize, line: Line, keep: bool, steps: &mut impl Steps) {
        for other in (0..self.l1.len()).filter(|&other| other != me) {
            self.give_up(other, line, keep, steps);
        }
    }
}
