//! Doorbells: stores to the NIC that no cache takes, and what they hold up.
//!
//! Stores leave a core in their order (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3, 9.2.2), so those
//! behind a doorbell wait in the store buffer until the device has it. The core goes on until that buffer is full.
//! Left out: barriers, and stores that are many at a place and few at another.

use std::collections::VecDeque;

use units::{Ps, Span};

use super::NicSpec;
use crate::cores::CoreSpec;

/// A core's doorbells. A store to a device leaves the core's way once it is in the store buffer, but they reach the device one
/// after the other.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Doorbells {
    takes: Ps,
    interval: Ps,
    /// When the last one has reached the device.
    next: Ps,
    /// Of instructions, in 1/1024, those that store, and places for stores. [`None`]: a doorbell waits for the one before it,
    /// and no other store for either.
    buffer: Option<(u64, u64)>,
    /// Stores so far, in 1/1024.
    stores: u64,
    /// Those that have not reached the device: which store each is, and when it will have.
    waiting: VecDeque<(u64, Ps)>,
}

impl Doorbells {
    /// Those of a core of `core` for `nic`.
    pub fn new(nic: &NicSpec, core: &CoreSpec) -> Doorbells {
        let time = |span: Option<Span>| span.map_or(Ps::ZERO, Span::ps);
        let share = core.store_share.map(|share| (share * SCALE as f64).round() as u64);
        Doorbells {
            takes: time(nic.doorbell),
            interval: time(nic.doorbell_interval),
            buffer: share.map(|share| (share, u64::from(core.store_buffer))),
            ..Doorbells::default()
        }
    }

    /// The core works on so many instructions from `from` to `until`; when it is through, since its stores may find the buffer full.
    pub fn work(&mut self, from: Ps, until: Ps, instructions: u64) -> Ps {
        match self.buffer {
            Some((share, _)) => self.store(from, until, instructions * share),
            None => until,
        }
    }

    /// The core rings one at `now`; when it goes on.
    pub fn ring(&mut self, now: Ps) -> Ps {
        if self.buffer.is_none() {
            let begins = now.max(self.next);
            self.next = begins + self.interval;
            return begins + self.takes;
        }
        let number = self.stores;
        let begins = self.store(now, now, SCALE);
        self.next = self.next.max(begins) + self.interval;
        self.waiting.push_back((number, self.next));
        begins + self.takes
    }

    /// So many stores, in 1/1024, evenly from `from` to `until`; when the last one is in the buffer.
    fn store(&mut self, from: Ps, until: Ps, stores: u64) -> Ps {
        let places = self.buffer.map_or(0, |(_, places)| places) * SCALE;
        let (first, took) = (self.stores, until.since(from));
        let mut stalled = Ps::ZERO;
        for &(number, leaves) in &self.waiting {
            // Stores to come that have a place while this doorbell has one.
            let full = (number + places).saturating_sub(first);
            if full >= stores {
                break;
            }
            let at = from + Ps((u128::from(took.0) * u128::from(full) / u128::from(stores)) as u64) + stalled;
            stalled += leaves.since(at);
        }
        self.stores += stores;
        let end = until + stalled;
        while self.waiting.front().is_some_and(|&(_, leaves)| leaves <= end) {
            self.waiting.pop_front();
        }
        end
    }
}

/// Stores are counted in parts of it.
const SCALE: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn buffered(share: u64, places: u64) -> Doorbells {
        let buffer = Some((share, places));
        Doorbells { takes: Ps(30), interval: Ps(120), buffer, ..Doorbells::default() }
    }

    #[test]
    fn a_doorbell_waits_for_the_one_before_and_for_no_other() {
        let mut bells = Doorbells { takes: Ps(30), interval: Ps(120), ..Doorbells::default() };
        assert_eq!([0, 50, 500].map(|at| bells.ring(Ps(at))), [Ps(30), Ps(150), Ps(530)]);
        let mut alone = Doorbells { takes: Ps(30), ..Doorbells::default() };
        assert_eq!([0, 0, 40].map(|at| alone.ring(Ps(at))), [Ps(30), Ps(30), Ps(70)]);
        assert_eq!(alone.work(Ps(70), Ps(100), 1_000_000), Ps(100));
    }

    #[test]
    fn stores_behind_a_doorbell_stall_the_core_once_the_buffer_is_full() {
        // Half of the instructions store, and 10 stores have a place: the doorbell's and 9 more.
        let after = |instructions| {
            let mut bells = buffered(512, 10);
            assert_eq!(bells.ring(Ps::ZERO), Ps(30));
            bells.work(Ps(30), Ps(30 + instructions), instructions)
        };
        // Of 18 instructions, a picosecond each, all stores have a place; the next one waits until the doorbell is through.
        assert_eq!(after(18), Ps(48));
        assert_eq!(after(20), Ps(122));
        assert_eq!(after(200), Ps(120 + 182));
        // Who comes later than that finds it empty.
        let mut bells = buffered(512, 10);
        bells.ring(Ps::ZERO);
        assert_eq!(bells.work(Ps(110), Ps(310), 200), Ps(310));
    }

    #[test]
    fn doorbells_on_end_come_as_fast_as_the_device_takes_them() {
        let mut bells = buffered(512, 10);
        let mut now = Ps::ZERO;
        for _ in 0..100 {
            now = bells.ring(now);
            now = bells.work(now, now + Ps(2), 2);
        }
        // Ten stores are in the buffer, five of them doorbells.
        assert!((95 * 120..=100 * 120).contains(&now.0), "{now:?}");
    }

    proptest! {
        #[test]
        fn a_store_buffer_matches_naive(
            acts in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..60), 1..60), places in 1u64..12,
        ) {
            let mut bells = Doorbells { takes: Ps::ZERO, interval: Ps(50), ..buffered(SCALE, places) };
            let (mut now, mut left, mut last) = (Ps::ZERO, Vec::<Ps>::new(), Ps::ZERO);
            for (rings, idle, stores) in acts {
                now += Ps(idle);
                let naive_from = now;
                // Naive: each store alone, a picosecond of work before it, and the time that each one leaves.
                let mut naive = naive_from;
                for k in 0..if rings { 1 } else { stores } {
                    naive += Ps(u64::from(!rings && k > 0));
                    if let Some(before) = (left.len() as u64).checked_sub(places) {
                        naive = naive.max(left[before as usize]);
                    }
                    last = last.max(naive) + if rings { Ps(50) } else { Ps::ZERO };
                    left.push(last);
                }
                naive += Ps(u64::from(!rings && stores > 0));
                now = if rings { bells.ring(now) } else { bells.work(now, now + Ps(stores), stores) };
                prop_assert_eq!(now, naive);
            }
        }
    }
}
