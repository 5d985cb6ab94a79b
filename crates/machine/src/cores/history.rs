//! Retired references within the reorder buffer.

use units::Ps;

/// Retired references within the reorder buffer: instruction and time, oldest first, in a ring.
#[derive(Clone, Debug)]
pub(super) struct History {
    ring: Box<[(u64, Ps)]>,
    first: usize,
    next: usize,
    /// The instruction that has to wait for the first of them.
    pub(super) end: u64,
}

state::state!(History { values: [first, next, end], arrays: [ring], parts: [], built: [] });

impl History {
    pub(super) fn new(rob: u64) -> History {
        // One entry an instruction at most, of which `rob` are kept.
        let ring = vec![(0, Ps::ZERO); (rob as usize + 2).next_power_of_two()];
        History { ring: ring.into(), first: 0, next: 0, end: u64::MAX }
    }

    pub(super) fn clear(&mut self) {
        (self.first, self.next, self.end) = (0, 0, u64::MAX);
    }

    #[inline(always)]
    fn at(&mut self, index: usize) -> &mut (u64, Ps) {
        let last = self.ring.len() - 1;
        &mut self.ring[index & last]
    }

    /// A reference of `instruction` has retired at `time`. Those of one stretch of instructions count as one.
    #[inline(always)]
    pub(super) fn push(&mut self, instruction: u64, time: Ps, rob: u64) {
        if self.next != self.first {
            let newest = self.next - 1;
            let newest = self.at(newest);
            if newest.0 == instruction {
                newest.1 = time;
                return;
            }
        } else {
            self.end = instruction + rob;
        }
        debug_assert!(
            self.next - self.first < self.ring.len(),
            "at most one entry an instruction of the reorder buffer"
        );
        let next = self.next;
        *self.at(next) = (instruction, time);
        self.next += 1;
    }

    /// When the first reference has retired; it leaves the reorder buffer.
    #[inline]
    pub(super) fn pop(&mut self, rob: u64) -> Ps {
        let first = self.first;
        let time = self.at(first).1;
        self.first += 1;
        let first = self.first;
        self.end = if first == self.next { u64::MAX } else { self.at(first).0 + rob };
        time
    }
}
