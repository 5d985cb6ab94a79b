//! Rules searched one after the other.

use packet::{Rule, RuleFields};
use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};

use super::{cost, site};
use crate::tape::Tape;

const RULES: RegionId = RegionId::FIRST_TABLE;
const RULE_BYTES: u64 = size_of::<RuleLine>() as u64;

/// Rules as they lie in memory, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    rules: Vec<RuleLine>,
}

/// A rule: what decides most often in its first half.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct RuleLine {
    /// Source and its mask, destination and its mask.
    src: (u32, u32),
    dst: (u32, u32),
    src_port: (u16, u16),
    dst_port: (u16, u16),
    flags: (u16, u16),
    proto: (u8, u8),
}

/// A rule as words of 4 bytes: source and mask, destination and mask, source ports, destination ports, flags and mask,
/// protocol and mask, the first of each pair in the lower half.
pub(super) const RULE_WORDS: usize = 8;

impl RuleLine {
    pub(super) fn new(rule: &Rule) -> RuleLine {
        let masked = |(network, len): (u32, u8)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
            (network & mask, mask)
        };
        RuleLine {
            src: masked(rule.src),
            dst: masked(rule.dst),
            src_port: rule.src_port,
            dst_port: rule.dst_port,
            flags: (rule.flags.0 & rule.flags.1, rule.flags.1),
            proto: (rule.proto.0 & rule.proto.1, rule.proto.1),
        }
    }

    /// As words: see [`RULE_WORDS`].
    pub(super) fn words(&self) -> [u32; RULE_WORDS] {
        let pair = |(low, high): (u16, u16)| u32::from(low) | u32::from(high) << 16;
        let proto = u32::from(self.proto.0) | u32::from(self.proto.1) << 8;
        let (src, dst) = (self.src, self.dst);
        [src.0, src.1, dst.0, dst.1, pair(self.src_port), pair(self.dst_port), pair(self.flags), proto]
    }

    #[inline(always)]
    pub(super) fn addresses_match(&self, fields: &RuleFields) -> bool {
        ((fields.src ^ self.src.0) & self.src.1) | ((fields.dst ^ self.dst.0) & self.dst.1) == 0
    }

    /// Without a branch: a warp's lanes agree on it, and a core does not guess.
    #[inline(always)]
    pub(super) fn rest_matches(&self, fields: &RuleFields) -> bool {
        let between = |(low, high): (u16, u16), port: u16| (low <= port) & (port <= high);
        between(self.src_port, fields.src_port)
            & between(self.dst_port, fields.dst_port)
            & ((fields.proto ^ self.proto.0) & self.proto.1 == 0)
            & ((fields.flags ^ self.flags.0) & self.flags.1 == 0)
    }
}

impl Linear {
    pub(super) fn new(rules: &[Rule]) -> Linear {
        Linear { rules: rules.iter().map(RuleLine::new).collect() }
    }

    #[inline(always)]
    pub(super) fn search<P: Probe>(&self, fields: &RuleFields, tape: &mut Tape<'_, P>) -> Option<u32> {
        for (i, rule) in self.rules.iter().enumerate() {
            let at = i as u64 * RULE_BYTES;
            tape.touch(Ref::load(RULES, at, 16, site::RULE));
            let mut found = false;
            if rule.addresses_match(fields) {
                tape.touch(Ref::load(RULES, at + 16, 16, site::RULE_REST));
                tape.work(site::RULE_REST, cost::RULE_REST);
                found = rule.rest_matches(fields);
            }
            tape.work(site::RULE_LATCH, cost::RULE);
            tape.latch(site::RULE_LATCH);
            if found {
                return Some(i as u32);
            }
        }
        None
    }

    pub(super) fn words(&self) -> Vec<u32> {
        self.rules.iter().flat_map(RuleLine::words).collect()
    }

    pub(super) fn regions(&self) -> Vec<RegionSpec> {
        let bytes = (self.rules.len() as u64 * RULE_BYTES).max(RULE_BYTES);
        vec![RegionSpec { id: RULES, name: "classify_rules".into(), bytes, sharing: Sharing::Shared }]
    }
}
