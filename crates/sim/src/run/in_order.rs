//! What was lost, batched in the order in which packets arrive.

use std::collections::VecDeque;

use stats::Ratio;

/// Loss over packets whose ends become known in any order.
///
/// A packet for which there is no room is lost as it arrives; one that arrived at the same time is sent a ring's length
/// later. Batched as they become known, the first batches of a steady overload are all losses and the last none, and
/// the half-width is of that. So an end waits until all before it are known: memory is bounded by the packets that a
/// machine holds.
#[derive(Clone, Debug)]
pub(super) struct LossInOrder {
    ratio: Ratio,
    /// The first packet that `ratio` does not have.
    next: u64,
    /// Whether that one and those after it were lost, as far as known.
    waiting: VecDeque<Option<bool>>,
}

impl LossInOrder {
    /// From packet `first` on.
    pub(super) fn new(ratio: Ratio, first: u64) -> LossInOrder {
        LossInOrder { ratio, next: first, waiting: VecDeque::new() }
    }

    /// Of packet `which`, none of which was told before.
    #[inline]
    pub(super) fn record(&mut self, which: u64, is_lost: bool) {
        if which == self.next && self.waiting.is_empty() {
            self.next += 1;
            self.ratio.record(f64::from(u8::from(is_lost)), 1.0);
        } else {
            self.keep(which, is_lost);
        }
    }

    fn keep(&mut self, which: u64, is_lost: bool) {
        let at = (which - self.next) as usize;
        if self.waiting.len() <= at {
            self.waiting.resize(at + 1, None);
        }
        self.waiting[at] = Some(is_lost);
        while let Some(&Some(is_lost)) = self.waiting.front() {
            self.waiting.pop_front();
            self.next += 1;
            self.ratio.record(f64::from(u8::from(is_lost)), 1.0);
        }
    }

    /// Goes on at packet `first`. Those before it that have not ended by now never count.
    pub(super) fn skip_to(&mut self, first: u64) {
        self.ratio = self.ratio();
        self.waiting.clear();
        self.next = first;
    }

    /// Of all whose end is known.
    pub(super) fn ratio(&self) -> Ratio {
        let mut ratio = self.ratio.clone();
        for is_lost in self.waiting.iter().flatten() {
            ratio.record(f64::from(u8::from(*is_lost)), 1.0);
        }
        ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a steady overload every fourth packet is sent, 500 packets after it arrived.
    #[test]
    fn a_steady_loss_has_a_narrow_half_width() {
        let (mut in_order, mut as_known) = (LossInOrder::new(Ratio::new(), 10), Ratio::new());
        let ends = (0..32_500_u64).flat_map(|n| {
            let lost = (n % 4 != 0 && n < 32_000).then_some((n, true));
            let sent = n.checked_sub(500).filter(|at| at % 4 == 0).map(|at| (at, false));
            lost.into_iter().chain(sent)
        });
        for (n, is_lost) in ends {
            in_order.record(10 + n, is_lost);
            as_known.record(f64::from(u8::from(is_lost)), 1.0);
        }
        assert!(in_order.waiting.is_empty());
        let (in_order, as_known) = (in_order.ratio().estimate(), as_known.estimate());
        assert_eq!(in_order.value, 0.75);
        assert_eq!(as_known.value, 0.75);
        assert!(in_order.half_width < 1e-9, "{}", in_order.half_width);
        assert!(as_known.half_width > 0.005, "{}", as_known.half_width);
    }

    #[test]
    fn what_never_ended_does_not_count() {
        let mut loss = LossInOrder::new(Ratio::new(), 0);
        loss.record(1, true);
        loss.record(2, false);
        assert_eq!(loss.ratio().estimate().value, 0.5);
        loss.skip_to(100);
        loss.record(101, false);
        loss.record(100, false);
        assert_eq!(loss.ratio().estimate().value, 0.25);
    }
}
