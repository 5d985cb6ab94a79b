//! Credits by flow: how many packets of each flow may be in host memory at once, as a NIC counts them.
//!
//! CEIO (Liu et al., SIGCOMM 2025): the NIC keeps credits of each flow, their sum is what the LLC holds for I/O, a packet without one
//! waits in the NIC, credits come back when a core has consumed the buffer, and flows that are idle lose theirs. Who gets how many
//! is assumed: each active flow has an equal share, rounded down, and what rounding leaves is one more for each that comes first. A
//! flow that comes makes all shares smaller at once. Flows with more in use than their share then owe the difference: what they
//! give back is not theirs again.
//!
//! So a flow within its share finds a credit, unless others owe theirs.

use std::collections::{BTreeMap, BTreeSet};

use packet::FiveTuple;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Ps, Span};

use super::LONGEST;
use crate::MachineError;

/// Credits of flows for packets in host memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowCreditsSpec {
    /// Of all flows together, in packets, 1 to 16777216; as many full frames (24 lines) as the LLC's I/O ways hold when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
    /// How long a flow without a packet in the server keeps its share, at most 1 ms.
    pub idle: Span,
    /// Credits that a core gives back together, unless it has nothing else to do; and packets without one that a queue has fetched
    /// and its core has not worked on, at the most. 1 to 1024.
    pub batch: u32,
}

impl Default for FlowCreditsSpec {
    /// Assumed, both: what has been read of CEIO names neither.
    fn default() -> FlowCreditsSpec {
        FlowCreditsSpec { total: None, idle: Span::from_ns(100_000.0), batch: 32 }
    }
}

const MOST_CREDITS: u32 = 1 << 24;

impl FlowCreditsSpec {
    pub(super) fn check(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: &str, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        if let Some(total) = self.total.filter(|total| !(1..=MOST_CREDITS).contains(total)) {
            let remedy = "a credit is a packet that the LLC is to hold";
            return error("total", total.to_string(), &format!("1 to {MOST_CREDITS}"), remedy);
        }
        if self.idle.ps() > LONGEST {
            let remedy = "flows that keep credits longer keep them from those that have packets";
            return error("idle", self.idle.to_string(), "at most 1 ms", remedy);
        }
        if !(1..=1024).contains(&self.batch) {
            let remedy = "a core gives credits back by bursts: take nic.burst";
            return error("batch", self.batch.to_string(), "1 to 1024", remedy);
        }
        Ok(())
    }
}

/// What a NIC tells flows by; all that is not IP is one.
pub type CreditKey = Option<FiveTuple>;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct FlowAccount {
    key: CreditKey,
    /// Credits in use: packets in host memory.
    used: u32,
    /// Packets that wait in the NIC.
    waiting: u32,
    /// When it last had a packet, where it has none.
    quiet_since: Ps,
}

/// The NIC's counts. See the module header. A flow is named by a number from its first packet on until it is idle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowCredits {
    total: u32,
    idle: Ps,
    used: u32,
    accounts: Vec<FlowAccount>,
    unused: Vec<u32>,
    by_key: BTreeMap<CreditKey, u32>,
    /// Flows without a packet, and since when.
    quiet: BTreeSet<(Ps, u32)>,
    /// How many flows use so many credits, of those that use any.
    by_used: BTreeMap<u32, u32>,
}

impl FlowCredits {
    /// `total` credits, of which a flow has a share until it was without packets for `idle`.
    pub fn new(total: u32, idle: Ps) -> FlowCredits {
        FlowCredits {
            total,
            idle,
            used: 0,
            accounts: Vec::new(),
            unused: Vec::new(),
            by_key: BTreeMap::new(),
            quiet: BTreeSet::new(),
            by_used: BTreeMap::new(),
        }
    }

    /// Credits in use, of all flows.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Flows that have a share.
    pub fn active(&self) -> usize {
        self.by_key.len()
    }

    /// The flow of a packet that comes at `now`, which is active from then on.
    pub fn arrives(&mut self, key: CreditKey, now: Ps) -> u32 {
        while let Some(&(since, flow)) = self.quiet.first().filter(|(since, _)| *since + self.idle <= now) {
            self.quiet.remove(&(since, flow));
            self.by_key.remove(&self.accounts[flow as usize].key);
            self.unused.push(flow);
        }
        if let Some(&flow) = self.by_key.get(&key) {
            self.settle(flow, now);
            return flow;
        }
        let account = FlowAccount { key, used: 0, waiting: 0, quiet_since: now };
        let flow = match self.unused.pop() {
            Some(flow) => {
                self.accounts[flow as usize] = account;
                flow
            }
            None => {
                self.accounts.push(account);
                self.accounts.len() as u32 - 1
            }
        };
        self.by_key.insert(key, flow);
        self.quiet.insert((now, flow));
        flow
    }

    /// Whether a packet of `flow` finds a credit: none does behind one that waits, so that they stay in order.
    pub fn may_take(&self, flow: u32) -> bool {
        let FlowAccount { used, waiting, .. } = self.accounts[flow as usize];
        if waiting > 0 || self.used >= self.total {
            return false;
        }
        let active = self.active().max(1) as u32;
        let share = self.total / active;
        let above = || self.by_used.range(share + 1..).map(|(_, flows)| flows).sum::<u32>();
        used < share || used == share && above() < self.total - share * active
    }

    /// A packet of `flow` goes to host memory, as [`FlowCredits::may_take`] allows.
    pub fn take(&mut self, flow: u32) {
        self.stir(flow);
        self.used += 1;
        self.change_used(flow, |used| used + 1);
    }

    /// A packet of `flow` waits in the NIC.
    pub fn wait(&mut self, flow: u32) {
        self.stir(flow);
        self.accounts[flow as usize].waiting += 1;
    }

    /// The credit of a packet of `flow` is back.
    pub fn give_back(&mut self, flow: u32, now: Ps) {
        self.used -= 1;
        self.change_used(flow, |used| used - 1);
        self.settle(flow, now);
    }

    /// A packet of `flow` waits no longer.
    pub fn fetched(&mut self, flow: u32, now: Ps) {
        self.accounts[flow as usize].waiting -= 1;
        self.settle(flow, now);
    }

    fn change_used(&mut self, flow: u32, to: impl Fn(u32) -> u32) {
        let account = &mut self.accounts[flow as usize];
        let (before, after) = (account.used, to(account.used));
        account.used = after;
        if let Some(flows) = self.by_used.get_mut(&before) {
            *flows -= 1;
            if *flows == 0 {
                self.by_used.remove(&before);
            }
        }
        if after > 0 {
            *self.by_used.entry(after).or_default() += 1;
        }
    }

    /// `flow` has a packet.
    fn stir(&mut self, flow: u32) {
        self.quiet.remove(&(self.accounts[flow as usize].quiet_since, flow));
    }

    /// If `flow` has no packet, it has been so since `now`.
    fn settle(&mut self, flow: u32, now: Ps) {
        self.stir(flow);
        let account = &mut self.accounts[flow as usize];
        if account.used == 0 && account.waiting == 0 {
            account.quiet_since = now;
            self.quiet.insert((now, flow));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::*;

    const IDLE: u64 = 20;

    fn key(n: u8) -> CreditKey {
        let of = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        (n > 0).then(|| FiveTuple { src: of(n), dst: of(1), proto: 6, src_port: n.into(), dst_port: 80 })
    }

    #[test]
    fn each_flow_has_its_share_and_what_rounding_leaves_goes_to_who_comes_first() {
        let mut credits = FlowCredits::new(11, Ps(IDLE));
        let flows: Vec<u32> = (1..=4).map(|n| credits.arrives(key(n), Ps(0))).collect();
        for (flow, share) in flows.into_iter().zip([3, 3, 3, 2]) {
            for _ in 0..share {
                assert!(credits.may_take(flow));
                credits.take(flow);
            }
            assert!(!credits.may_take(flow));
        }
        assert_eq!(credits.used(), 11);
    }

    #[test]
    fn a_flow_that_comes_gets_what_others_owe_as_they_give_it_back() {
        let mut credits = FlowCredits::new(8, Ps(IDLE));
        let first = credits.arrives(key(1), Ps(0));
        (0..8).for_each(|_| credits.take(first));
        let second = credits.arrives(key(2), Ps(1));
        assert!(!credits.may_take(second), "all are in use");
        credits.give_back(first, Ps(2));
        assert!(!credits.may_take(first) && credits.may_take(second));
        credits.take(second);
    }

    #[test]
    fn a_flow_without_packets_loses_its_share_after_its_time_and_not_before() {
        let mut credits = FlowCredits::new(8, Ps(IDLE));
        let first = credits.arrives(key(1), Ps(0));
        credits.take(first);
        let second = credits.arrives(key(2), Ps(1));
        credits.give_back(first, Ps(5));
        for _ in 0..4 {
            credits.take(second);
        }
        assert_eq!(credits.arrives(key(2), Ps(4 + IDLE)), second);
        assert!(!credits.may_take(second) && credits.active() == 2);
        credits.arrives(key(2), Ps(5 + IDLE));
        assert!(credits.may_take(second) && credits.active() == 1);
    }

    #[test]
    fn a_packet_behind_one_that_waits_waits() {
        let mut credits = FlowCredits::new(8, Ps(IDLE));
        let flow = credits.arrives(None, Ps(0));
        credits.wait(flow);
        assert!(!credits.may_take(flow));
        credits.fetched(flow, Ps(1));
        assert!(credits.may_take(flow));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_is_allowed() {
        let refused = |spec: FlowCreditsSpec| spec.check("nic.elastic.credits").map_err(|e| e.to_string()).unwrap_err();
        let spec = FlowCreditsSpec::default;
        assert_eq!(
            refused(FlowCreditsSpec { total: Some(0), ..spec() }),
            "nic.elastic.credits.total = 0: allowed is 1 to 16777216 (a credit is a packet that the LLC is to hold)"
        );
        assert!(refused(FlowCreditsSpec { idle: Span::from_ns(1_000_001.0), ..spec() }).contains("at most 1 ms"));
        assert!(refused(FlowCreditsSpec { batch: 0, ..spec() }).contains("allowed is 1 to 1024"));
        assert_eq!(spec().check("nic.elastic.credits"), Ok(()));
    }

    /// Counts all anew at each question: a list of flows, each with what it has.
    #[derive(Default)]
    struct Naive {
        flows: Vec<NaiveFlow>,
    }

    struct NaiveFlow {
        key: CreditKey,
        used: i64,
        waiting: i64,
        last: u64,
    }

    impl Naive {
        fn arrives(&mut self, key: CreditKey, now: u64) {
            self.flows.retain(|flow| flow.used > 0 || flow.waiting > 0 || flow.last + IDLE > now);
            match self.flows.iter_mut().find(|flow| flow.key == key) {
                Some(flow) => flow.last = now,
                None => self.flows.push(NaiveFlow { key, used: 0, waiting: 0, last: now }),
            }
        }

        fn of(&mut self, key: CreditKey) -> &mut NaiveFlow {
            self.flows.iter_mut().find(|flow| flow.key == key).unwrap()
        }

        fn may_take(&self, key: CreditKey, total: i64) -> bool {
            let share = total / self.flows.len() as i64;
            let used: i64 = self.flows.iter().map(|flow| flow.used).sum();
            let above = self.flows.iter().filter(|flow| flow.used > share).count() as i64;
            let flow = self.flows.iter().find(|flow| flow.key == key).unwrap();
            let spare = total - share * self.flows.len() as i64;
            flow.waiting == 0 && used < total && (flow.used < share || flow.used == share && above < spare)
        }
    }

    proptest! {
        /// Packets come, wait, are fetched and consumed in any order: the counts answer as the naive ones, are never negative nor more
        /// than there are, a flow within its share is refused only while others owe theirs, and all come back.
        #[test]
        fn credits_match_naive(
            total in 1u32..12,
            steps in prop::collection::vec((0u8..6, 0u64..12, 0u8..4, any::<prop::sample::Index>()), 1..300),
        ) {
            let (mut credits, mut naive) = (FlowCredits::new(total, Ps(IDLE)), Naive::default());
            let (mut inside, mut waiting, mut now) = (Vec::new(), Vec::new(), 0);
            for (n, wait, kind, which) in steps {
                now += wait;
                match kind {
                    0 | 1 => {
                        let key = key(n);
                        naive.arrives(key, now);
                        let flow = credits.arrives(key, Ps(now));
                        prop_assert_eq!(credits.active(), naive.flows.len());
                        let may = naive.may_take(key, total.into());
                        prop_assert_eq!(credits.may_take(flow), may);
                        let share = i64::from(total) / naive.flows.len() as i64;
                        let own = naive.of(key);
                        if !may && own.waiting == 0 && own.used < share {
                            let of_others: i64 = naive.flows.iter().map(|flow| (flow.used - share).max(0)).sum();
                            prop_assert!(of_others > i64::from(total) - share * naive.flows.len() as i64);
                        }
                        if may {
                            credits.take(flow);
                            naive.of(key).used += 1;
                            inside.push((flow, key));
                        } else if kind == 0 {
                            credits.wait(flow);
                            naive.of(key).waiting += 1;
                            waiting.push((flow, key));
                        }
                    }
                    2 if !inside.is_empty() => {
                        let (flow, key) = inside.remove(which.index(inside.len()));
                        credits.give_back(flow, Ps(now));
                        let own = naive.of(key);
                        (own.used, own.last) = (own.used - 1, now);
                    }
                    3 if !waiting.is_empty() => {
                        let (flow, key) = waiting.remove(which.index(waiting.len()));
                        credits.fetched(flow, Ps(now));
                        let own = naive.of(key);
                        (own.waiting, own.last) = (own.waiting - 1, now);
                    }
                    _ => {}
                }
                prop_assert!(naive.flows.iter().all(|flow| flow.used >= 0 && flow.waiting >= 0));
                let used: i64 = naive.flows.iter().map(|flow| flow.used).sum();
                prop_assert!(i64::from(credits.used()) == used && credits.used() <= total);
            }
            for (flow, _) in inside {
                credits.give_back(flow, Ps(now));
            }
            for (flow, _) in waiting {
                credits.fetched(flow, Ps(now));
            }
            prop_assert_eq!((credits.used(), credits.by_used.len()), (0, 0));
            credits.arrives(key(9), Ps(now + IDLE));
            prop_assert_eq!(credits.active(), 1);
        }
    }
}
