//! The seam between packet functions and machines.
//!
//! A packet function says *what* it touches: it pushes a [`Ref`] (region, offset, bytes, kind of
//! access) for each memory reference, and marks instructions, loop ends, locks and packets. A
//! [`Layout`] says *where* that lies. A machine says *how long* it takes. The function is generic
//! over [`Probe`]; with [`Null`] every call is empty and compiles to nothing, so the function that
//! is simulated is the function that runs.

#![forbid(unsafe_code)]

mod copy;
mod event;
mod layout;
mod probes;
mod rebase;
mod script;

pub use copy::CopyLoop;
pub use event::{Access, Ref, RegionId, RegionSpec, Sharing};
pub use layout::{Layout, Placed, Request, Requests};
pub use probes::{Count, Null, ProbeEvent, Record, StackDistance};
pub use rebase::{FunctionCounts, MemberOffsets, Pushes};
pub use script::{Act, Script, ScriptStep};

use units::{LockId, PacketId};

/// Receives what a packet function does, in program order.
///
/// `site` is the static place in the function (the role of a program counter). Sites grow in
/// program order within a function, so that the lanes of a warp can be merged by minimum site.
pub trait Probe {
    /// Whether anybody listens. What only a probe wants to know is not kept for one that does not: that is decided when
    /// the function is compiled, not left to the optimiser.
    const LIVE: bool = true;

    /// One memory reference.
    fn touch(&mut self, r: Ref);

    /// `dst.bytes` bytes go from `src` to `dst`: what a copy engine may take over.
    ///
    /// By default the copy is made by loads and stores, a line at a time, each store depending on
    /// its load.
    #[inline]
    fn copy(&mut self, src: Ref, dst: Ref) {
        for (load, store) in CopyLoop::new(src, dst) {
            self.touch(load);
            self.touch(store);
        }
    }

    /// `instructions` instructions have retired since the last call, memory instructions included.
    #[inline]
    fn work(&mut self, site: u16, instructions: u32) {
        let _ = (site, instructions);
    }

    /// The end of a loop body: where the lanes of a warp meet again.
    #[inline]
    fn latch(&mut self, site: u16) {
        let _ = site;
    }

    /// `lock` is wanted; what follows happens once it is held.
    #[inline]
    fn lock(&mut self, lock: LockId) {
        let _ = lock;
    }

    /// `lock` is given back.
    #[inline]
    fn unlock(&mut self, lock: LockId) {
        let _ = lock;
    }

    /// What follows is done for packet `packet`. A packet may be begun and ended several times in a
    /// burst that is processed stage by stage; pairs do not nest.
    #[inline]
    fn begin(&mut self, packet: PacketId) {
        let _ = packet;
    }

    /// The work for `packet` pauses or is complete.
    #[inline]
    fn end(&mut self, packet: PacketId) {
        let _ = packet;
    }

    /// Has `member` push, numbered `by` so much behind; says what it pushed. A probe that keeps nothing is told what a
    /// recording has kept.
    fn behind<M: Pushes>(&mut self, by: MemberOffsets, member: M) -> FunctionCounts
    where
        Self: Sized,
    {
        if !Self::LIVE {
            member.push(&mut Null);
            return FunctionCounts::default();
        }
        let mut record = Record::new();
        let seen = record.behind(by, member);
        record.replay(self);
        seen
    }
}

impl<P: Probe + ?Sized> Probe for &mut P {
    const LIVE: bool = P::LIVE;
    #[inline]
    fn touch(&mut self, r: Ref) {
        (**self).touch(r);
    }
    #[inline]
    fn copy(&mut self, src: Ref, dst: Ref) {
        (**self).copy(src, dst);
    }
    #[inline]
    fn work(&mut self, site: u16, instructions: u32) {
        (**self).work(site, instructions);
    }
    #[inline]
    fn latch(&mut self, site: u16) {
        (**self).latch(site);
    }
    #[inline]
    fn lock(&mut self, lock: LockId) {
        (**self).lock(lock);
    }
    #[inline]
    fn unlock(&mut self, lock: LockId) {
        (**self).unlock(lock);
    }
    #[inline]
    fn begin(&mut self, packet: PacketId) {
        (**self).begin(packet);
    }
    #[inline]
    fn end(&mut self, packet: PacketId) {
        (**self).end(packet);
    }
}

/// Two probes side by side: both see everything.
impl<A: Probe, B: Probe> Probe for (A, B) {
    const LIVE: bool = A::LIVE || B::LIVE;
    #[inline]
    fn touch(&mut self, r: Ref) {
        self.0.touch(r);
        self.1.touch(r);
    }
    #[inline]
    fn copy(&mut self, src: Ref, dst: Ref) {
        self.0.copy(src, dst);
        self.1.copy(src, dst);
    }
    #[inline]
    fn work(&mut self, site: u16, instructions: u32) {
        self.0.work(site, instructions);
        self.1.work(site, instructions);
    }
    #[inline]
    fn latch(&mut self, site: u16) {
        self.0.latch(site);
        self.1.latch(site);
    }
    #[inline]
    fn lock(&mut self, lock: LockId) {
        self.0.lock(lock);
        self.1.lock(lock);
    }
    #[inline]
    fn unlock(&mut self, lock: LockId) {
        self.0.unlock(lock);
        self.1.unlock(lock);
    }
    #[inline]
    fn begin(&mut self, packet: PacketId) {
        self.0.begin(packet);
        self.1.begin(packet);
    }
    #[inline]
    fn end(&mut self, packet: PacketId) {
        self.0.end(packet);
        self.1.end(packet);
    }
}
