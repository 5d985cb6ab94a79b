//! The sites, tables and locks of one member of a chain behind those of the members before it.
//!
//! A recording that keeps what is pushed is numbered when the member has pushed it, so that a member's code is compiled for
//! no other probe than that of a function alone.

use units::LockId;

use crate::{Access, CopyLoop, Probe, Ref, RegionId};

/// By how much the numbers of a member stand behind its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberOffsets {
    /// Sites.
    pub sites: u16,
    /// Regions, but for those of the packet.
    pub regions: u16,
    /// Locks.
    pub locks: u32,
}

impl MemberOffsets {
    /// A region's number.
    #[inline(always)]
    pub(crate) fn region(self, region: RegionId) -> RegionId {
        if region.is_of_packet() { region } else { RegionId(region.0 + self.regions) }
    }

    /// A lock's number.
    #[inline(always)]
    pub(crate) fn lock(self, lock: LockId) -> LockId {
        LockId(lock.0 + self.locks)
    }
}

/// What pushes into whichever probe it is given.
pub trait Pushes {
    /// Pushes.
    fn push<P: Probe>(self, probe: &mut P);
}

/// What a function did, in numbers.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    derive_more::AddAssign,
    derive_more::Sub,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct FunctionCounts {
    /// References of all kinds but prefetches; a copy counts a load and a store for each line.
    pub references: u64,
    /// Prefetches.
    pub prefetches: u64,
    /// Instructions.
    pub instructions: u64,
}

impl FunctionCounts {
    #[inline(always)]
    pub(crate) fn touch(&mut self, access: Access) {
        match access {
            Access::Prefetch => self.prefetches += 1,
            _ => self.references += 1,
        }
    }

    pub(crate) fn copy(&mut self, src: Ref, dst: Ref) {
        self.references += 2 * CopyLoop::new(src, dst).count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use units::PacketId;

    use super::*;
    use crate::{Count, Null, ProbeEvent, Record, Script};

    const BEHIND: MemberOffsets = MemberOffsets { sites: 100, regions: 5, locks: 1 << 26 };

    /// A member, with some of everything.
    struct Member;

    impl Pushes for Member {
        fn push<P: Probe>(self, probe: &mut P) {
            probe.begin(PacketId(1));
            probe.touch(Ref::load(RegionId::PACKET, 3, 4, 7));
            probe.touch(Ref::load(RegionId::FIRST_TABLE, 0, 8, 8).with_access(Access::Prefetch));
            probe.copy(Ref::load(RegionId::PACKET, 0, 100, 9), Ref::store(RegionId(17), 0, 100, 10));
            probe.work(11, 40);
            probe.lock(LockId(2));
            probe.latch(12);
            probe.unlock(LockId(2));
            probe.end(PacketId(1));
            probe.work(13, 2);
        }
    }

    const SEEN: FunctionCounts = FunctionCounts { references: 5, prefetches: 1, instructions: 42 };

    /// As a chain pushes what comes before, and the member.
    fn pushed<P: Probe>(mut probe: P) -> (P, FunctionCounts) {
        probe.begin(PacketId(1));
        probe.work(1, 9);
        probe.touch(Ref::load(RegionId::FIRST_TABLE, 0, 8, 1));
        probe.end(PacketId(1));
        let seen = probe.behind(BEHIND, Member);
        (probe, seen)
    }

    #[test]
    fn tables_sites_and_locks_move_and_the_packet_does_not() {
        let (record, seen) = pushed(Record::new());
        assert_eq!(seen, SEEN);
        let events: Vec<_> = record.iter().skip(5).collect();
        assert_eq!(events[0], ProbeEvent::Touch(Ref::load(RegionId::PACKET, 3, 4, 107)));
        assert!(matches!(events[1], ProbeEvent::Touch(r) if r.region == RegionId(21) && r.site == 108));
        assert!(
            matches!(events[2], ProbeEvent::Copy { src, dst } if src.region == RegionId::PACKET && dst.region == RegionId(22))
        );
        assert_eq!(events[3], ProbeEvent::Work { site: 111, instructions: 40 });
        assert_eq!(events[4], ProbeEvent::Lock(LockId((1 << 26) + 2)));
        assert_eq!(events[5..7], [ProbeEvent::Latch { site: 112 }, ProbeEvent::Unlock(LockId((1 << 26) + 2))]);
        assert_eq!(
            record.event(2),
            Some((ProbeEvent::Touch(Ref::load(RegionId::FIRST_TABLE, 0, 8, 1)), 3)),
            "what came before"
        );
    }

    #[test]
    fn every_probe_is_told_the_same() {
        let (record, _) = pushed(Record::new());
        let (script, seen) = pushed(Script::new());
        assert_eq!(seen, SEEN);
        let mut again = Script::new();
        record.replay(&mut again);
        let all = |script: &Script| {
            let mut at = 0;
            let mut steps = Vec::new();
            while let Some(step) = script.step(at) {
                let (act, next) = script.act(at);
                steps.push((step.instructions(), act));
                at = next;
            }
            (steps, script.trailing())
        };
        assert_eq!(all(&script), all(&again));
        let (both, seen) = pushed((Count::default(), Record::new()));
        let mut count = Count::default();
        record.replay(&mut count);
        assert_eq!((both.0, seen), (count, SEEN));
        assert!(both.1.iter().eq(record.iter()));
        assert_eq!(pushed(Null).1, FunctionCounts::default());
    }
}
