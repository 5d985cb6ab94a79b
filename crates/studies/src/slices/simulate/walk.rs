//! Lookups through the caches alone, without time: what warms them up, and what recorded packets find there.

use super::{ASK_EVERY, PacketTask, SlicesSystem};

/// Lookups that warm the caches up, by line that they hold.
const WALKED: u64 = 4;

/// What a packet's lookups are, by what they come to: L1, L2, LLC (or the way past it), memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in super::super) struct Visits {
    /// Lookups of a packet that come so far, on average.
    pub(in super::super) mean: [f64; 4],
    /// The mean product of each two of these.
    pub(in super::super) products: [[f64; 4]; 4],
}

impl Visits {
    /// Of one lookup, given which share of lookups comes how far.
    pub(in super::super) fn of_one(mean: [f64; 4]) -> Visits {
        let mut products = [[0.0; 4]; 4];
        for (i, row) in products.iter_mut().enumerate() {
            for (j, product) in row.iter_mut().enumerate() {
                // Who comes to the later one has been at the other.
                *product = mean[i.max(j)];
            }
        }
        Visits { mean, products }
    }
}

impl SlicesSystem {
    /// Fills the caches; false if `go_on`, which is asked now and then, says no.
    pub(in super::super) fn warm_up(&mut self, factor: u64, go_on: &mut dyn FnMut() -> bool) -> bool {
        let mut left = WALKED * self.capacity() * factor;
        while left > 0 {
            let some = left.min(ASK_EVERY);
            self.walk(some);
            left -= some;
            if !go_on() {
                return false;
            }
        }
        true
    }

    /// What packets that make about `lookups` lookups find in the caches as they are.
    pub(in super::super) fn visits(&mut self, lookups: u64) -> Visits {
        let walker = self.work.len() - 1;
        self.work[walker].more = false;
        let (mut found, mut packets, mut left) = (Visits::default(), 0.0, lookups);
        while left > 0 {
            let (app, core) = self.choose();
            let mut came = [0.0; 4];
            loop {
                let (line, more) = self.draw(walker, app);
                self.work[walker].more = more;
                for level in &mut came[..=self.walk_one(core, app, line)] {
                    *level += 1.0;
                }
                left = left.saturating_sub(1);
                if !more {
                    break;
                }
            }
            packets += 1.0;
            for (i, n) in came.iter().enumerate() {
                found.mean[i] += n;
                for (j, other) in came.iter().enumerate() {
                    found.products[i][j] += n * other;
                }
            }
        }
        found.mean.iter_mut().for_each(|sum| *sum /= packets);
        found.products.iter_mut().flatten().for_each(|sum| *sum /= packets);
        found
    }

    fn walk(&mut self, lookups: u64) {
        /// So many at a time, to have the host bring their sets before they are needed.
        const GROUP: u64 = 16;
        let mut group = [(0usize, 0usize, 0u32); GROUP as usize];
        let walker = self.work.len() - 1;
        let mut left = lookups;
        while left > 0 {
            let some = left.min(GROUP) as usize;
            for place in &mut group[..some] {
                let PacketTask { more, app, core, .. } = self.work[walker];
                let (app, core) = if more { (usize::from(app), usize::from(core)) } else { self.choose() };
                let (line, more) = self.draw(walker, app);
                let work = &mut self.work[walker];
                (work.more, work.app, work.core) = (more, app as u16, core as u16);
                self.prefetch(core, app, line);
                *place = (core, app, line);
            }
            for (core, app, line) in group[..some].iter().copied() {
                self.walk_one(core, app, line);
            }
            left -= some as u64;
        }
    }

    /// How far a lookup comes: 0 is L1, 3 is memory.
    #[inline]
    fn walk_one(&mut self, core: usize, app: usize, line: u32) -> usize {
        if self.l1[core].touch(line, line) {
            return 0;
        }
        let came = if self.hit_l2(core, line) {
            1
        } else if self.applications[app].uses_llc {
            let (_, store, index) = self.home(app, line);
            3 - usize::from(self.hit_llc(store, index, line))
        } else {
            3
        };
        self.fill(core, app, line);
        came
    }
}
