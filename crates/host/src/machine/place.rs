//! In which domains of the cache a class is set: a class whose cores are in one socket takes no ways from programs in another.

use std::collections::{BTreeMap, BTreeSet};

use units::{Cbm, Clos};

/// What a class gets in a domain in which it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainWays {
    /// The ways that the policy gives it.
    Planned,
    /// These always: the policy moves nothing there.
    Kept(Cbm),
}

/// In which domains a class is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// In all that there are, alike: where it runs is not known.
    #[default]
    Everywhere,
    /// In these; in all others it keeps what it has.
    In(BTreeMap<u32, DomainWays>),
}

impl Placement {
    /// What the class gets in a domain; [`None`] where it is not set.
    pub fn of(&self, domain: u32) -> Option<DomainWays> {
        match self {
            Placement::Everywhere => Some(DomainWays::Planned),
            Placement::In(domains) => domains.get(&domain).copied(),
        }
    }

    /// The domains in which the class is set, offline ones too; [`None`]: all.
    pub fn domains(&self) -> Option<BTreeSet<u32>> {
        match self {
            Placement::Everywhere => None,
            Placement::In(domains) => Some(domains.keys().copied().collect()),
        }
    }

    /// Of masks by domain those in which the class is set.
    pub fn own(&self, masks: &[(u32, Cbm)]) -> Vec<(u32, Cbm)> {
        masks.iter().filter(|(domain, _)| self.of(*domain).is_some()).copied().collect()
    }

    /// The masks that a class which is to have `planned` gets in these domains.
    pub fn wanted(&self, planned: Cbm, there: &[(u32, Cbm)]) -> Vec<(u32, Cbm)> {
        let of = |domain: u32| {
            self.of(domain).map(|ways| match ways {
                DomainWays::Planned => planned,
                DomainWays::Kept(mask) => mask,
            })
        };
        there.iter().filter_map(|(domain, _)| Some((*domain, of(*domain)?))).collect()
    }

    /// The one mask that masks by domain come to: what all planned domains have. The empty one where they differ, or where a
    /// kept domain has something else; [`None`] where the policy has no domain that is there and nothing is amiss.
    pub fn in_force(&self, masks: &[(u32, Cbm)]) -> Option<Cbm> {
        let mut planned = None;
        for (domain, mask) in masks {
            match self.of(*domain) {
                None => {}
                Some(DomainWays::Kept(kept)) if kept == *mask => {}
                Some(DomainWays::Planned) if planned.is_none_or(|first| first == *mask) => planned = Some(*mask),
                Some(_) => return Some(Cbm(0)),
            }
        }
        planned
    }
}

/// A class of service and the group that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceClass {
    /// As the policy numbers it.
    pub clos: Clos,
    /// The group's name.
    pub group: String,
    /// In which domains it is set.
    pub placement: Placement,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_judged_by_the_domains_in_which_it_is_set() {
        let kept = DomainWays::Kept(Cbm(0xfe));
        let placement = Placement::In(BTreeMap::from([(0, DomainWays::Planned), (2, kept), (3, DomainWays::Planned)]));
        let masks = |a, b, c| [(0, Cbm(a)), (1, Cbm(0x7ff)), (2, Cbm(b)), (3, Cbm(c))];
        assert_eq!(placement.in_force(&masks(0x3e, 0xfe, 0x3e)), Some(Cbm(0x3e)));
        assert_eq!(placement.in_force(&masks(0x3e, 0xfe, 0x7e)), Some(Cbm(0)), "domains differ");
        assert_eq!(placement.in_force(&masks(0x3e, 0x3e, 0x3e)), Some(Cbm(0)), "somebody has set what is kept");
        assert_eq!(placement.in_force(&[(1, Cbm(1)), (2, Cbm(0xfe))]), None, "its domains are offline");
        assert_eq!(placement.wanted(Cbm(0x7e), &masks(1, 1, 1)), [(0, Cbm(0x7e)), (2, Cbm(0xfe)), (3, Cbm(0x7e))]);
        assert_eq!(placement.own(&masks(1, 2, 3)), [(0, Cbm(1)), (2, Cbm(2)), (3, Cbm(3))]);
        assert_eq!(Placement::Everywhere.in_force(&masks(1, 1, 1)), Some(Cbm(0)));
        assert_eq!(Placement::Everywhere.in_force(&[(0, Cbm(3)), (1, Cbm(3))]), Some(Cbm(3)));
    }
}
