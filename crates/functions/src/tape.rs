use probe::{Probe, Ref};
use units::PacketId;

/// Counts references on their way into a probe, so that a reference can say how many references
/// back its address came from even when other packets' references lie between.
///
/// The count feeds nothing but `dep`: with [`probe::Null`] it is dead code.
pub(crate) struct Tape<'a, P> {
    probe: &'a mut P,
    count: u32,
}

/// A reference that was pushed: where later ones may have their address from.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mark(u32);

impl<'a, P: Probe> Tape<'a, P> {
    #[inline(always)]
    pub(crate) fn new(probe: &'a mut P) -> Tape<'a, P> {
        Tape { probe, count: 0 }
    }

    /// Pushes a reference whose address was at hand.
    #[inline(always)]
    pub(crate) fn touch(&mut self, r: Ref) -> Mark {
        self.count = self.count.wrapping_add(1);
        self.probe.touch(r);
        Mark(self.count)
    }

    /// Pushes a reference whose address came from the reference `from`.
    #[inline(always)]
    pub(crate) fn touch_after(&mut self, from: Mark, r: Ref) -> Mark {
        let back = self.count.wrapping_add(1).wrapping_sub(from.0);
        self.touch(r.after(u8::try_from(back).unwrap_or(0)))
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
    pub(crate) fn begin(&mut self, packet: PacketId) {
        self.probe.begin(packet);
    }

    #[inline(always)]
    pub(crate) fn end(&mut self, packet: PacketId) {
        self.probe.end(packet);
    }
}
