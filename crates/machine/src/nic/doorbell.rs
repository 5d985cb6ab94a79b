//! Doorbells: stores to the NIC that no cache takes.

use units::{Ps, Span};

use super::NicSpec;

/// A core's doorbells. A store to a device leaves the core's way once it is in the store buffer, but they reach the device one
/// after the other: the next one waits until the one before is through.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Doorbells {
    takes: Ps,
    interval: Ps,
    /// When the next one may begin.
    next: Ps,
}

impl Doorbells {
    /// Those of `nic`.
    pub fn new(nic: &NicSpec) -> Doorbells {
        let time = |span: Option<Span>| span.map_or(Ps::ZERO, Span::ps);
        Doorbells { takes: time(nic.doorbell), interval: time(nic.doorbell_interval), next: Ps::ZERO }
    }

    /// The core rings one at `now`; when it goes on.
    pub fn ring(&mut self, now: Ps) -> Ps {
        let begins = now.max(self.next);
        self.next = begins + self.interval;
        begins + self.takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doorbell_waits_for_the_one_before_and_for_no_other() {
        let mut bells = Doorbells { takes: Ps(30), interval: Ps(120), next: Ps::ZERO };
        assert_eq!([0, 50, 500].map(|at| bells.ring(Ps(at))), [Ps(30), Ps(150), Ps(530)]);
        let mut alone = Doorbells { takes: Ps(30), ..Doorbells::default() };
        assert_eq!([0, 0, 40].map(|at| alone.ring(Ps(at))), [Ps(30), Ps(30), Ps(70)]);
    }
}
