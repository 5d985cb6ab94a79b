//! Distances between references: how many references back an address came from.

use std::marker::PhantomData;

use probe::{Probe, Ref};
use units::{LockId, PacketId};

/// Counts references on their way into a probe, so that a reference can say how many references
/// back its address came from even when other packets' references lie between.
///
/// For a probe that is not [`Probe::LIVE`], as [`probe::Null`], nothing is counted and `dep` is 0. That
/// is decided when the function is compiled; left to the optimiser, stores that nobody reads survive
/// wherever a count has its address taken.
pub(crate) struct Tape<'a, P> {
    probe: &'a mut P,
    count: u32,
}

/// A reference that was pushed: where later ones may have their address from.
#[derive(Clone, Copy, Default)]
pub(crate) struct TapeMark(u32);

impl<'a, P: Probe> Tape<'a, P> {
    #[inline(always)]
    pub(crate) fn new(probe: &'a mut P) -> Tape<'a, P> {
        Tape { probe, count: 0 }
    }

    /// Pushes a reference whose address was at hand.
    #[inline(always)]
    pub(crate) fn touch(&mut self, r: Ref) -> TapeMark {
        if const { P::LIVE } {
            self.count = self.count.wrapping_add(1);
        }
        self.probe.touch(r);
        TapeMark(self.count)
    }

    /// Pushes a reference whose address came from the reference `from`.
    #[inline(always)]
    pub(crate) fn touch_after(&mut self, from: TapeMark, r: Ref) -> TapeMark {
        let mut dep = 0;
        if const { P::LIVE } {
            let back = self.count.wrapping_add(1).wrapping_sub(from.0);
            dep = u8::try_from(back).unwrap_or(0);
        }
        self.touch(r.after(dep))
    }

    /// Pushes a copy. Later references do not count back over it: see [`Tape::touch_after`].
    #[inline(always)]
    pub(crate) fn copy(&mut self, src: Ref, dst: Ref) {
        self.probe.copy(src, dst);
    }

    #[inline(always)]
    pub(crate) fn work(&mut self, site: u16, instructions: u32) {
        self.probe.work(site, instructions);
    }

    #[inline(always)]
    pub(crate) fn latch(&mut self, site: u16) {
        self.probe.latch(site);
    }

    #[inline(always)]
    pub(crate) fn lock(&mut self, lock: LockId) {
        self.probe.lock(lock);
    }

    #[inline(always)]
    pub(crate) fn unlock(&mut self, lock: LockId) {
        self.probe.unlock(lock);
    }

    #[inline(always)]
    pub(crate) fn begin(&mut self, packet: PacketId) {
        self.probe.begin(packet);
    }

    #[inline(always)]
    pub(crate) fn end(&mut self, packet: PacketId) {
        self.probe.end(packet);
    }
}

/// What only a probe wants to know of up to `N` packets that pass the stages together.
pub(crate) struct Trail<P, const N: usize> {
    id: [PacketId; N],
    /// The latest reference that a packet's next address comes from.
    mark: [TapeMark; N],
    probe: PhantomData<P>,
}

impl<P: Probe, const N: usize> Trail<P, N> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Trail { id: [PacketId(0); N], mark: [TapeMark(0); N], probe: PhantomData }
    }

    /// Packet `id` has place `i`.
    #[inline(always)]
    pub(crate) fn enter(&mut self, i: usize, id: PacketId) {
        if const { P::LIVE } {
            self.id[i] = id;
        }
    }

    #[inline(always)]
    pub(crate) fn id(&self, i: usize) -> PacketId {
        if const { P::LIVE } { self.id[i] } else { PacketId(0) }
    }

    /// The next address of the packet at place `i` comes from `mark`.
    #[inline(always)]
    pub(crate) fn keep(&mut self, i: usize, mark: TapeMark) {
        if const { P::LIVE } {
            self.mark[i] = mark;
        }
    }

    #[inline(always)]
    pub(crate) fn mark(&self, i: usize) -> TapeMark {
        if const { P::LIVE } { self.mark[i] } else { TapeMark(0) }
    }
}
