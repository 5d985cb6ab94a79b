//! Time that the system takes from a core that polls: interrupts, kernel threads, firmware.
//!
//! A stall begins when it is due, or at the end of the burst that is under way then, and the core does nothing while it lasts.
//! Times between stalls are exponential, so that they come independently of traffic; lengths are drawn from those given.

use machine::cores::StallSpec;
use rand::RngExt;
use rand_pcg::Pcg64;
use units::Ps;

/// Of one core.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct SystemStalls {
    every: Ps,
    lengths: Vec<Ps>,
    random: Pcg64,
    /// When the next one begins, if the core is not busy.
    due: Ps,
    /// Since when it is not.
    free: Ps,
}

impl SystemStalls {
    /// Those of `spec`, with `random` as their stream.
    pub(super) fn new(spec: &StallSpec, random: Pcg64) -> SystemStalls {
        let mut stalls =
            SystemStalls { every: spec.every.ps(), lengths: spec.times(), random, due: Ps::ZERO, free: Ps::ZERO };
        stalls.draw(Ps::ZERO);
        stalls
    }

    fn draw(&mut self, from: Ps) {
        let share: f64 = self.random.random();
        self.due = from + Ps((-(1.0 - share).ln() * self.every.0 as f64) as u64);
    }

    /// The core has nothing in hand from `now` on.
    pub(super) fn rest(&mut self, now: Ps) {
        self.free = now;
    }

    /// When the stall is over that keeps the core from working at `now`, if there is one.
    pub(super) fn until(&mut self, now: Ps) -> Option<Ps> {
        while self.due <= now {
            let length = match self.lengths.len() {
                0 => return None,
                n => self.lengths[self.random.random_range(0..n)],
            };
            let end = self.due.max(self.free) + length;
            self.free = end;
            self.draw(end);
            if end > now {
                return Some(end);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Seed;
    use machine::cores::StallLengths;
    use units::Span;

    fn stalls(every: f64, lengths: &[f64]) -> SystemStalls {
        let lengths = StallLengths::Given(lengths.iter().map(|&ns| Span::from_ns(ns)).collect());
        SystemStalls::new(&StallSpec { every: Span::from_ns(every), lengths }, Seed(3).stream("stalls"))
    }

    #[test]
    fn a_core_that_polls_loses_the_share_that_stalls_take() {
        let mut stalls = stalls(9_000.0, &[500.0, 1_500.0]);
        let (mut lost, step, end) = (0, 100, 400_000_000);
        let mut now = Ps::ZERO;
        while now.0 < end {
            // It looks for work every 100 ps, and finds none.
            now = match stalls.until(now) {
                Some(until) => {
                    lost += until.0 - now.0;
                    until
                }
                None => now + Ps(step),
            };
        }
        let share = lost as f64 / end as f64;
        // A stall of 1 us in the mean after 9 us in the mean.
        assert!((share - 0.1).abs() < 0.02, "{share}");
    }

    #[test]
    fn a_stall_that_is_due_in_a_burst_begins_at_its_end() {
        let mut stalls = stalls(1_000.0, &[50.0]);
        let end = stalls.due + Ps(777);
        stalls.rest(end);
        assert_eq!(stalls.until(end), Some(end + Ps::from_ns(50)));
        // One that came and went while nobody looked costs nothing.
        let mut stalls = super::tests::stalls(1e9, &[50.0]);
        let late = stalls.due + Ps::from_ns(51);
        assert_eq!(stalls.until(late), None);
    }
}
