//! Which buffer the NIC takes for a packet: of the queue's own ring, of one ring for all cores, or of any core's.

use machine::nic::{Mempool, RxRings, SharedRing};

use super::cores::CoreState;
use super::{Loss, Server};
use crate::scenario::{Scenario, ScenarioError};

/// The rings of empty buffers, where not each queue takes from its own alone.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) enum CommonRings {
    /// One for all.
    Shared(SharedRing),
    /// Any core's: the one that gave a buffer for another's packet last.
    Bisected(usize),
}

/// A buffer that the NIC has taken for a packet.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct TakenBuffer {
    pub mbuf: u32,
    /// Whose ring it was in; of a shared one the first core's.
    pub ring: u16,
    /// Where its descriptor is in that ring, counted in descriptors.
    pub slot: u64,
    /// The number of the arrival in the queue that the packet is for.
    pub number: u64,
}

impl CommonRings {
    /// Those of `scenario`, filled with mbufs of `pool`; none where each queue has its own.
    pub(super) fn of(scenario: &Scenario, pool: &mut Mempool) -> Result<Option<Box<CommonRings>>, ScenarioError> {
        Ok(match scenario.nic.rings {
            RxRings::Private => None,
            RxRings::Shared => {
                let ring = SharedRing::new(&scenario.nic, pool).ok_or_else(|| scenario.pool_too_small())?;
                Some(Box::new(CommonRings::Shared(ring)))
            }
            RxRings::Bisected => Some(Box::new(CommonRings::Bisected(0))),
        })
    }

    /// The shared ring.
    pub(super) fn shared(&self) -> Option<&SharedRing> {
        match self {
            CommonRings::Shared(ring) => Some(ring),
            CommonRings::Bisected(_) => None,
        }
    }

    /// As [`CommonRings::shared`].
    pub(super) fn shared_mut(&mut self) -> Option<&mut SharedRing> {
        match self {
            CommonRings::Shared(ring) => Some(ring),
            CommonRings::Bisected(_) => None,
        }
    }
}

impl Server {
    /// The NIC takes a buffer for a packet of queue `queue` of core `core`.
    pub(super) fn take_buffer(&mut self, core: usize, queue: usize) -> Result<TakenBuffer, Loss> {
        if self.nic.common.is_some() {
            return self.take_common_buffer(core, queue);
        }
        let Some(rx) = self.cores[core].rx() else { return Err(Loss::NoRxDescriptor) };
        match rx.take_descriptor(queue) {
            Some((number, mbuf)) => {
                Ok(TakenBuffer { mbuf, ring: core as u16, slot: rx.queue(queue).at(number), number })
            }
            None if rx.queue(queue).is_starved() => Err(Loss::NoMbuf),
            None => Err(Loss::NoRxDescriptor),
        }
    }

    /// As [`Server::take_buffer`], where rings are not each queue's own.
    fn take_common_buffer(&mut self, core: usize, queue: usize) -> Result<TakenBuffer, Loss> {
        let has_room = self.cores[core].rx().is_some_and(|rx| rx.queue(queue).has_room());
        if !has_room {
            return Err(Loss::NoRxDescriptor);
        }
        let taken = match self.nic.common.as_deref_mut() {
            Some(CommonRings::Shared(ring)) => ring.take().map(|taken| (0, taken)),
            Some(CommonRings::Bisected(_)) => self.take_from_any(core, queue),
            None => None,
        };
        let Some((ring, (slot, mbuf))) = taken else { return Err(self.want(core)) };
        let Some(rx) = self.cores[core].rx() else { return Err(Loss::NoRxDescriptor) };
        let number = rx.queue_mut(queue).deliver();
        if matches!(self.nic.common.as_deref(), Some(CommonRings::Bisected(_))) {
            self.nic.placing.foreign_buffers += u64::from(ring != core);
            self.wake_to_refill(ring);
        }
        Ok(TakenBuffer { mbuf, ring: ring as u16, slot, number })
    }

    /// Of the queue itself, or of the next core that has any.
    fn take_from_any(&mut self, core: usize, queue: usize) -> Option<(usize, (u64, u32))> {
        let rx = self.cores[core].rx()?.queue_mut(queue);
        if let Some((number, mbuf)) = rx.take_posted() {
            return Some((core, (rx.at(number), mbuf)));
        }
        let Some(CommonRings::Bisected(turn)) = self.nic.common.as_deref_mut() else { return None };
        let n = self.receiving;
        let found = (1..=n).map(|k| (*turn + k) % n).find_map(|other| {
            let taken = self.cores[other].rx()?.take_any_posted()?;
            Some((other, taken))
        })?;
        *turn = found.0;
        Some(found)
    }

    /// For want of what a packet of core `core` finds no buffer in any ring.
    fn want(&self, core: usize) -> Loss {
        let bulk = self.nic.driver.rx_bulk as usize;
        if self.pool.has(self.cores[core].core.id(), bulk) { Loss::NoRxDescriptor } else { Loss::NoMbuf }
    }

    /// Core `ring` has buffers to post in its ring: if it polls in vain it posts them at its next poll.
    fn wake_to_refill(&mut self, ring: usize) {
        let starved = self.cores[ring].rx().is_some_and(|rx| rx.queues().any(|rx| rx.is_starved()));
        if starved && matches!(self.cores[ring].state, CoreState::Polling(_)) {
            self.wake(ring, self.engine.now());
        }
    }
}
