//! Running totals become rates and shares, each with its age.

use control::{Counter, Sample};
use units::Ps;

/// A running total as it was read: what it counts goes on while a read fails.
pub type Total = Option<u64>;

/// Turns reads of running totals into [`Sample`]s: rates and shares over the time since the last read that did
/// not fail. A failed read gives no sample; a total that has fallen (a counter that was reset or has wrapped) gives none
/// either, and counting starts anew.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    last: Option<(Ps, [u64; 2])>,
}

impl Meter {
    /// A meter that has seen nothing.
    pub fn new() -> Meter {
        Meter::default()
    }

    /// The rate a second of a total that was read at `now`.
    pub fn rate(&mut self, total: Total, now: Ps) -> Counter {
        let ([more, _], over) = self.since([total, Some(0)], now)?;
        sample(more as f64 / over.as_secs(), over)
    }

    /// The share that one total has of another, both read at `now`; nothing if the whole has not grown.
    pub fn share(&mut self, part: Total, whole: Total, now: Ps) -> Counter {
        let ([part, whole], over) = self.since([part, whole], now)?;
        if whole == 0 { None } else { sample(part as f64 / whole as f64, over) }
    }

    fn since(&mut self, totals: [Total; 2], now: Ps) -> Option<([u64; 2], Ps)> {
        let totals = [totals[0]?, totals[1]?];
        let (then, before) = self.last.replace((now, totals))?;
        let over = Ps(now.0.checked_sub(then.0).filter(|d| *d > 0)?);
        let more = |i: usize| totals[i].checked_sub(before[i]);
        Some(([more(0)?, more(1)?], over))
    }
}

fn sample(value: f64, interval: Ps) -> Counter {
    value.is_finite().then_some(Sample { value, age: Ps::ZERO, interval })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000_000;

    #[test]
    fn a_total_goes_on_while_it_cannot_be_read() {
        let mut meter = Meter::new();
        assert_eq!(meter.rate(Some(100), Ps(S)), None, "nothing to compare with");
        let value = |c: Counter| c.map(|s| (s.value, s.interval.0 / S));
        assert_eq!(value(meter.rate(Some(300), Ps(2 * S))), Some((200.0, 1)));
        assert_eq!(meter.rate(None, Ps(3 * S)), None);
        assert_eq!(value(meter.rate(Some(500), Ps(4 * S))), Some((100.0, 2)), "over the longer time");
        assert_eq!(meter.rate(Some(10), Ps(5 * S)), None, "it was reset");
        assert_eq!(value(meter.rate(Some(40), Ps(6 * S))), Some((30.0, 1)));
        assert_eq!(meter.rate(Some(40), Ps(6 * S)), None, "no time has passed");
    }

    #[test]
    fn a_share_needs_both_totals_and_something_to_be_a_share_of() {
        let mut meter = Meter::new();
        let mut share = |part, whole, at: u64| meter.share(part, whole, Ps(at * S)).map(|s| s.value);
        assert_eq!(share(Some(0), Some(0), 0), None);
        assert_eq!(share(Some(30), Some(100), 1), Some(0.3));
        assert_eq!(share(Some(30), Some(100), 2), None, "nothing happened");
        assert_eq!(share(None, Some(200), 3), None);
        assert_eq!(share(Some(80), Some(200), 4), Some(0.5));
    }
}
