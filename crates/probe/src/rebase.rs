//! A probe for one member of a chain: its sites, tables and locks behind those before it.

use units::{LockId, PacketId};

use crate::{Access, Probe, Ref, RegionId};

/// Passes on what one function of several does, with its sites, tables and locks numbered behind those of the
/// functions before it, and counts what it sees.
///
/// Functions number their sites from 0 and their tables from [`RegionId::FIRST_TABLE`]; several that share a probe
/// would collide. The packet and its mbuf keep their numbers. Where the probe behind does not listen, nothing is
/// counted either.
#[derive(Debug)]
pub struct Rebase<'a, P> {
    probe: &'a mut P,
    /// Added to sites, to numbers of tables, and to locks.
    sites: u16,
    regions: u16,
    locks: u32,
    /// What has passed.
    pub seen: Seen,
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
pub struct Seen {
    /// References of all kinds but prefetches; a copy counts a load and a store for each line.
    pub references: u64,
    /// Prefetches.
    pub prefetches: u64,
    /// Instructions.
    pub instructions: u64,
}

impl<'a, P: Probe> Rebase<'a, P> {
    /// Numbers from `sites`, `regions` and `locks` on, instead of from where the function does.
    #[inline(always)]
    pub fn new(probe: &'a mut P, sites: u16, regions: u16, locks: u32) -> Rebase<'a, P> {
        Rebase { probe, sites, regions, locks, seen: Seen::default() }
    }

    #[inline(always)]
    fn numbered(&self, r: Ref) -> Ref {
        let region = if r.region.is_of_packet() { r.region } else { RegionId(r.region.0 + self.regions) };
        Ref { region, site: r.site + self.sites, ..r }
    }
}

impl<P: Probe> Probe for Rebase<'_, P> {
    const LIVE: bool = P::LIVE;

    #[inline(always)]
    fn touch(&mut self, r: Ref) {
        if const { P::LIVE } {
            match r.access {
                Access::Prefetch => self.seen.prefetches += 1,
                _ => self.seen.references += 1,
            }
            self.probe.touch(self.numbered(r));
        }
    }

    #[inline(always)]
    fn copy(&mut self, src: Ref, dst: Ref) {
        if const { P::LIVE } {
            self.seen.references += 2 * crate::CopyLoop::new(src, dst).count() as u64;
            self.probe.copy(self.numbered(src), self.numbered(dst));
        }
    }

    #[inline(always)]
    fn work(&mut self, site: u16, instructions: u32) {
        if const { P::LIVE } {
            self.seen.instructions += u64::from(instructions);
            self.probe.work(site + self.sites, instructions);
        }
    }

    #[inline(always)]
    fn latch(&mut self, site: u16) {
        self.probe.latch(site + self.sites);
    }

    #[inline(always)]
    fn lock(&mut self, lock: LockId) {
        self.probe.lock(LockId(lock.0 + self.locks));
    }

    #[inline(always)]
    fn unlock(&mut self, lock: LockId) {
        self.probe.unlock(LockId(lock.0 + self.locks));
    }

    #[inline(always)]
    fn begin(&mut self, packet: PacketId) {
        self.probe.begin(packet);
    }

    #[inline(always)]
    fn end(&mut self, packet: PacketId) {
        self.probe.end(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Null, Record};

    #[test]
    fn tables_sites_and_locks_move_and_the_packet_does_not() {
        let mut record = Record::new();
        let mut probe = Rebase::new(&mut record, 100, 5, 1 << 26);
        probe.touch(Ref::load(RegionId::PACKET, 3, 4, 7));
        probe.touch(Ref::load(RegionId::FIRST_TABLE, 0, 8, 8).with_access(Access::Prefetch));
        probe.copy(Ref::load(RegionId::PACKET, 0, 100, 9), Ref::store(RegionId(17), 0, 100, 10));
        probe.work(11, 40);
        probe.lock(LockId(2));
        probe.latch(12);
        probe.unlock(LockId(2));
        let seen = Seen { references: 5, prefetches: 1, instructions: 40 };
        assert_eq!(probe.seen, seen);
        let events: Vec<_> = record.iter().collect();
        assert_eq!(events[0], Event::Touch(Ref::load(RegionId::PACKET, 3, 4, 107)));
        assert!(matches!(events[1], Event::Touch(r) if r.region == RegionId(21) && r.site == 108));
        assert!(
            matches!(events[2], Event::Copy { src, dst } if src.region == RegionId::PACKET && dst.region == RegionId(22))
        );
        assert_eq!(events[3], Event::Work { site: 111, instructions: 40 });
        assert_eq!(events[4], Event::Lock(LockId((1 << 26) + 2)));
        assert_eq!(events[5..], [Event::Latch { site: 112 }, Event::Unlock(LockId((1 << 26) + 2))]);
    }

    #[test]
    fn nothing_is_counted_for_a_probe_that_does_not_listen() {
        let mut null = Null;
        let mut probe = Rebase::new(&mut null, 1, 1, 1);
        probe.touch(Ref::load(RegionId::PACKET, 0, 4, 0));
        probe.work(0, 9);
        assert_eq!(probe.seen, Seen::default());
        const { assert!(!<Rebase<'_, Null> as Probe>::LIVE && !<(Null, &mut Null) as Probe>::LIVE) };
    }
}
