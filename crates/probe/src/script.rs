//! A recording without what cores do not look at: what they replay.

use units::{LockId, PacketId};

use crate::{Access, FunctionCounts, MemberOffsets, Probe, Pushes, Ref, RegionId};

/// What a core replays: a recording without what cores do not look at.
///
/// Latches are left out, and instructions go with the event that comes after them, so a packet
/// takes half as many steps as [`crate::Record`] has events. A step takes 16 bytes, a copy 48.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Script {
    steps: Vec<ScriptStep>,
    /// Instructions since the last step.
    carried: u64,
}

/// What comes after some instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A memory reference.
    Touch(Ref),
    /// A copy of `dst.bytes` bytes.
    Copy {
        /// Where from.
        src: Ref,
        /// Where to.
        dst: Ref,
    },
    /// Work for a packet begins.
    Begin(PacketId),
    /// Work for a packet pauses or is complete.
    End,
    /// A lock is wanted.
    Lock(LockId),
    /// A lock is given back.
    Unlock(LockId),
    /// Nothing.
    Nothing,
}

/// Some instructions and what comes after them.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct ScriptStep {
    /// An offset, or a number, below 2^40, and above it the instructions before it.
    word: u64,
    region: u16,
    site: u16,
    bytes: u16,
    kind: ScriptTag,
    dep: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum ScriptTag {
    Touch(Access),
    /// The next two steps are the source and the target of a copy.
    Copy,
    Begin,
    End,
    Lock,
    Unlock,
    Nothing,
}

/// Offsets are below 2^38, the most memory that a machine has; no run offers 2^40 packets.
const WORD_BITS: u32 = 40;
const WORD: u64 = (1 << WORD_BITS) - 1;
const MOST_INSTRUCTIONS: u64 = u64::MAX >> WORD_BITS;

impl ScriptStep {
    /// Instructions before it.
    #[inline(always)]
    pub fn instructions(&self) -> u32 {
        (self.word >> WORD_BITS) as u32
    }

    /// The reference that it makes, if that is what it does.
    #[inline(always)]
    pub fn reference(&self) -> Option<Ref> {
        match self.kind {
            ScriptTag::Touch(access) => Some(self.touched(access)),
            _ => None,
        }
    }

    /// Of a load, a store or a prefetch: what, where, the offset there, bytes, and the references back that its address
    /// came from.
    #[inline(always)]
    pub fn simple(&self) -> Option<(Access, RegionId, u64, u16, u8)> {
        match self.kind {
            ScriptTag::Touch(access @ (Access::Load | Access::Store | Access::Prefetch)) => {
                Some((access, RegionId(self.region), self.word & WORD, self.bytes, self.dep))
            }
            _ => None,
        }
    }

    /// A reference of a member of a chain.
    #[inline(always)]
    fn number(&mut self, by: MemberOffsets) {
        (self.region, self.site) = (by.region(RegionId(self.region)).0, self.site + by.sites);
    }

    #[inline(always)]
    fn touched(&self, access: Access) -> Ref {
        Ref {
            offset: self.word & WORD,
            region: RegionId(self.region),
            site: self.site,
            bytes: self.bytes,
            access,
            dep: self.dep,
        }
    }
}

impl Script {
    /// An empty script.
    pub fn new() -> Script {
        Script::default()
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.carried = 0;
    }

    /// The step at position `at`; [`None`] at the end, which may come after [`Script::trailing`]
    /// instructions.
    #[inline(always)]
    pub fn step(&self, at: usize) -> Option<&ScriptStep> {
        self.steps.get(at)
    }

    /// What the step at position `at` asks for, and the position of the next step. The end asks for nothing.
    #[inline]
    pub fn act(&self, at: usize) -> (Act, usize) {
        let reference = |at: usize| self.steps.get(at).and_then(ScriptStep::reference);
        let Some(step) = self.steps.get(at) else { return (Act::Nothing, at) };
        let word = step.word & WORD;
        let act = match step.kind {
            ScriptTag::Touch(access) => Act::Touch(step.touched(access)),
            ScriptTag::Begin => Act::Begin(PacketId(word)),
            ScriptTag::End => Act::End,
            ScriptTag::Lock => Act::Lock(LockId(word as u32)),
            ScriptTag::Unlock => Act::Unlock(LockId(word as u32)),
            ScriptTag::Nothing => Act::Nothing,
            ScriptTag::Copy => match (reference(at + 1), reference(at + 2)) {
                (Some(src), Some(dst)) => return (Act::Copy { src, dst }, at + 3),
                _ => Act::Nothing,
            },
        };
        (act, at + 1)
    }

    /// Takes every instruction `parts` times in [`Script::WHOLE`]: in all as many as that makes of their sum, to one less.
    pub fn scale(&mut self, parts: u64) {
        let mut left = 0;
        let mut scaled = |instructions: u64, most: u64| {
            let wanted = instructions * parts + left;
            let now = (wanted / Self::WHOLE).min(most);
            left = wanted - now * Self::WHOLE;
            now
        };
        for step in &mut self.steps {
            let now = scaled(step.word >> WORD_BITS, MOST_INSTRUCTIONS);
            step.word = step.word & WORD | now << WORD_BITS;
        }
        self.carried = scaled(self.carried, u64::MAX);
    }

    /// What [`Script::scale`] leaves as it is.
    pub const WHOLE: u64 = 1 << 16;

    /// Instructions after the last step.
    pub fn trailing(&self) -> u32 {
        self.carried as u32
    }

    #[inline(always)]
    fn push(&mut self, kind: ScriptTag, word: u64) {
        let step = ScriptStep { word: self.stamp(word), region: 0, site: 0, bytes: 0, kind, dep: 0 };
        self.steps.push(step);
    }

    #[inline(always)]
    fn push_reference(&mut self, r: Ref) {
        let word = self.stamp(r.offset);
        let (region, kind) = (r.region.0, ScriptTag::Touch(r.access));
        self.steps.push(ScriptStep { word, region, site: r.site, bytes: r.bytes, kind, dep: r.dep });
    }

    /// `word` with the instructions before it.
    #[inline(always)]
    fn stamp(&mut self, word: u64) -> u64 {
        debug_assert!(word <= WORD, "{word} does not fit {WORD_BITS} bits");
        word & WORD | std::mem::take(&mut self.carried) << WORD_BITS
    }
}

impl Probe for Script {
    #[inline]
    fn touch(&mut self, r: Ref) {
        self.push_reference(r);
    }
    #[inline]
    fn copy(&mut self, src: Ref, dst: Ref) {
        self.push(ScriptTag::Copy, 0);
        self.push_reference(src);
        self.push_reference(dst);
    }
    #[inline]
    fn work(&mut self, _: u16, instructions: u32) {
        self.carried += u64::from(instructions);
        while self.carried > MOST_INSTRUCTIONS {
            let rest = self.carried - MOST_INSTRUCTIONS;
            self.carried = MOST_INSTRUCTIONS;
            self.push(ScriptTag::Nothing, 0);
            self.carried = rest;
        }
    }
    #[inline]
    fn lock(&mut self, lock: LockId) {
        self.push(ScriptTag::Lock, u64::from(lock.0));
    }
    #[inline]
    fn unlock(&mut self, lock: LockId) {
        self.push(ScriptTag::Unlock, u64::from(lock.0));
    }
    #[inline]
    fn begin(&mut self, packet: PacketId) {
        // An end that another packet's work follows at once need not be told.
        match self.steps.last_mut() {
            Some(last) if last.kind == ScriptTag::End && self.carried == 0 => {
                last.kind = ScriptTag::Begin;
                last.word = last.word & !WORD | packet.0 & WORD;
            }
            _ => self.push(ScriptTag::Begin, packet.0),
        }
    }
    #[inline]
    fn end(&mut self, _: PacketId) {
        self.push(ScriptTag::End, 0);
    }
    fn behind<M: Pushes>(&mut self, by: MemberOffsets, member: M) -> FunctionCounts {
        let (from, carried) = (self.steps.len(), self.carried);
        member.push(self);
        // What was carried before is in the first step, or still carried.
        let mut seen = FunctionCounts { instructions: self.carried.wrapping_sub(carried), ..FunctionCounts::default() };
        let mut at = from;
        while let Some(step) = self.steps.get_mut(at) {
            seen.instructions = seen.instructions.wrapping_add(step.instructions().into());
            at += 1;
            match step.kind {
                ScriptTag::Touch(access) => {
                    seen.touch(access);
                    step.number(by);
                }
                ScriptTag::Copy => {
                    let sides = self.steps.get_mut(at..at + 2).unwrap_or_default();
                    sides.iter_mut().for_each(|side| side.number(by));
                    if let [src, dst] = sides
                        && let (Some(src), Some(dst)) = (src.reference(), dst.reference())
                    {
                        seen.copy(src, dst);
                    }
                    at += 2;
                }
                ScriptTag::Lock | ScriptTag::Unlock => {
                    step.word = step.word & !WORD | u64::from(by.lock(LockId((step.word & WORD) as u32)).0);
                }
                ScriptTag::Begin | ScriptTag::End | ScriptTag::Nothing => {}
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_instructions_are_where_they_were_and_lose_less_than_one() {
        for parts in [Script::WHOLE / 3, Script::WHOLE, 5 * Script::WHOLE / 2] {
            let mut script = Script::new();
            for i in 0..100u32 {
                script.work(1, i * 37 % 11);
                script.touch(Ref::load(RegionId::FIRST_TABLE, 64 * u64::from(i), 8, 3));
            }
            script.work(1, 9);
            let before: Vec<ScriptStep> = script.steps.clone();
            let all = |script: &Script| {
                script.steps.iter().map(|step| u64::from(step.instructions())).sum::<u64>() + script.carried
            };
            let sum = all(&script);
            script.scale(parts);
            assert_eq!(all(&script), sum * parts / Script::WHOLE);
            let mut so_far = 0.0;
            for (was, is) in before.iter().zip(&script.steps) {
                assert_eq!(was.reference(), is.reference());
                so_far +=
                    f64::from(was.instructions()) * parts as f64 / Script::WHOLE as f64 - f64::from(is.instructions());
                assert!((0.0..1.0).contains(&so_far), "{so_far}");
            }
        }
    }

    #[test]
    fn a_script_keeps_references_owners_and_instructions() {
        let mut script = Script::new();
        let load = Ref::load(RegionId::FIRST_TABLE, 70, 8, 3).after(2);
        script.work(1, 5);
        script.latch(1);
        script.begin(PacketId(7));
        script.work(1, 6);
        script.work(2, 7);
        script.touch(load);
        script.end(PacketId(7));
        script.begin(PacketId(8));
        script.copy(load, load.with_access(Access::Store));
        script.lock(LockId(4));
        script.work(1, u32::MAX);
        script.end(PacketId(8));
        script.work(1, 9);
        let mut at = 0;
        let all: Vec<_> = std::iter::from_fn(|| {
            let instructions = script.step(at)?.instructions();
            let (act, next) = script.act(at);
            at = next;
            Some((instructions, act))
        })
        .collect();
        let copy = Act::Copy { src: load, dst: load.with_access(Access::Store) };
        let (most, rest) = (MOST_INSTRUCTIONS as u32, u32::MAX % MOST_INSTRUCTIONS as u32);
        let head = [(5, Act::Begin(PacketId(7))), (13, Act::Touch(load)), (0, Act::Begin(PacketId(8))), (0, copy)];
        assert_eq!(all[..4], head);
        assert_eq!(all[4], (0, Act::Lock(LockId(4))));
        assert!(all[5..all.len() - 1].iter().all(|&step| step == (most, Act::Nothing)));
        assert_eq!((*all.last().unwrap(), script.trailing()), ((rest, Act::End), 9));
        assert_eq!(size_of::<ScriptStep>(), 16);
    }
}
