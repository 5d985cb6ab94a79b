//! The loop of observe, decide and apply.

use control::{Actuator, Allocation, Observation, Policy};

/// What came of one interval.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome<E> {
    /// Nothing was to be changed.
    Held(Observation),
    /// Settings were applied.
    Applied(Observation, Allocation),
    /// Settings were decided and could not be applied; the next observation shows those in force.
    Refused(Observation, Allocation, E),
    /// The machine could not be observed.
    Blind(E),
}

impl<E> StepOutcome<E> {
    /// What was seen.
    pub fn seen(&self) -> Option<&Observation> {
        match self {
            StepOutcome::Held(seen) | StepOutcome::Applied(seen, _) | StepOutcome::Refused(seen, ..) => Some(seen),
            StepOutcome::Blind(_) => None,
        }
    }
}

/// The loop of observe, decide and apply: the simulator and the daemon call [`Steering::step`] once an
/// interval, and wait in between each in its own time.
#[derive(Clone, Debug)]
pub struct Steering<P> {
    policy: P,
    /// Decides, and applies nothing.
    dry_run: bool,
}

impl<P: Policy> Steering<P> {
    /// A loop that applies what `policy` decides.
    pub fn new(policy: P) -> Steering<P> {
        Steering { policy, dry_run: false }
    }

    /// A loop that only says what it would apply: every outcome is [`StepOutcome::Applied`] or held, the machine stays as it
    /// is.
    pub fn dry_run(policy: P) -> Steering<P> {
        Steering { policy, dry_run: true }
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// One interval. An error needs no word to the policy: the next observation says what is in force.
    pub fn step<A: Actuator>(&mut self, machine: &mut A) -> StepOutcome<A::Error> {
        let seen = match machine.observe() {
            Ok(seen) => seen,
            Err(error) => return StepOutcome::Blind(error),
        };
        match self.policy.decide(&seen) {
            None => StepOutcome::Held(seen),
            Some(allocation) if self.dry_run => StepOutcome::Applied(seen, allocation),
            Some(allocation) => match machine.apply(&allocation) {
                Ok(()) => StepOutcome::Applied(seen, allocation),
                Err(error) => StepOutcome::Refused(seen, allocation, error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Cbm;

    use super::*;

    struct Machine {
        io_ways: Cbm,
        blind: bool,
        refuses: bool,
    }

    impl Actuator for Machine {
        type Error = &'static str;
        fn observe(&mut self) -> Result<Observation, &'static str> {
            let in_force = Allocation { io_ways: Some(self.io_ways), ..Allocation::default() };
            if self.blind { Err("no counters") } else { Ok(Observation { in_force, ..Observation::default() }) }
        }
        fn apply(&mut self, a: &Allocation) -> Result<(), &'static str> {
            if self.refuses {
                return Err("busy");
            }
            self.io_ways = a.io_ways.unwrap_or(self.io_ways);
            Ok(())
        }
    }

    struct Wants(Cbm);

    impl Policy for Wants {
        fn decide(&mut self, seen: &Observation) -> Option<Allocation> {
            let allocation = Allocation { io_ways: Some(self.0), ..Allocation::default() };
            (seen.in_force.io_ways != allocation.io_ways).then_some(allocation)
        }
    }

    #[test]
    fn a_step_observes_decides_and_applies_and_says_what_failed() {
        let mut machine = Machine { io_ways: Cbm(1), blind: true, refuses: true };
        let mut steering = Steering::new(Wants(Cbm(3)));
        assert_eq!(steering.step(&mut machine), StepOutcome::Blind("no counters"));
        machine.blind = false;
        assert!(matches!(steering.step(&mut machine), StepOutcome::Refused(_, _, "busy")));
        machine.refuses = false;
        assert!(matches!(Steering::dry_run(Wants(Cbm(3))).step(&mut machine), StepOutcome::Applied(..)));
        assert_eq!(machine.io_ways, Cbm(1), "a dry run changes nothing");
        assert!(matches!(steering.step(&mut machine), StepOutcome::Applied(..)));
        assert_eq!(machine.io_ways, Cbm(3));
        assert!(steering.step(&mut machine).seen().is_some());
        assert!(matches!(steering.step(&mut machine), StepOutcome::Held(_)));
    }
}
