//! Which of several backends a batch goes to: to the one by which it is expected to be done sooner, as measured.
//!
//! For each backend two costs are estimated, by size of batch (powers of two), from what its batches took:
//!
//! - the **unloaded time** of a batch, from posting to commit, where nothing was before it;
//! - the **seconds a packet** between commits while it has something to do: what it carries at its load.
//!
//! With `q` packets before it a batch of `n` is expected to take the longer of the unloaded time and `(q + n)` times the seconds
//! a packet: the first binds where workers are free, the second where they are not. What it waits for others counts twice, as later
//! batches wait for it. Under load the shares so become those of what the backends carry, and without load all goes to the
//! faster one. No share is set; it is what comes of it.
//!
//! - **No more ahead than is of use.** A backend with two unloaded times and 0.3 ms of work before it gets no more: that is enough for
//!   all its workers. What waits can still go elsewhere when costs change, and holds up less where packets leave in order.
//! - **Decay**: a batch has the weight of 1/32, and more the longer ago the last one was, so one batch is enough after a pause.
//! - **Hysteresis**: batches stay with the backend of the last one unless another is a tenth sooner.
//! - **Exploration**: who had nothing for 64 batches gets one, as an estimate of what nobody tries is old. A try takes at most a
//!   fiftieth of the time, and adds at most a fiftieth to the mean delay where all others wait for it to keep the order. A backend
//!   that takes long is so tried more rarely, but once in ten seconds. How many tries there were is reported.
//!
//! The simulator's GPU takes a set share of flows (`share`), or bursts above a number of packets that wait (`above`): its costs do
//! not change while it runs, and are what it is to find out.
//!
//! Nothing here looks at a clock or starts anything: [`SplitBackend`](super::SplitBackend) does.
//!
//! **Source**: shortest expected delay routing: S. Banawan, J. Zahorjan, "Load sharing in heterogeneous queueing systems", INFOCOM
//! 1989. How a batch between CPU and GPU may be chosen by load: Han, Jang, Park, Moon, "PacketShader", SIGCOMM 2010, section 5.3
//! (opportunistic offloading).

use serde::Serialize;

/// Weight of the latest batch.
const LATEST: f64 = 1.0 / 32.0;
/// Seconds after which what was measured before weighs less by a factor of e.
const MEMORY_S: f64 = 0.01;
/// By which share of its time another backend must be sooner.
const SOONER: f64 = 0.1;
/// What a wait behind others counts for: later batches wait behind this one.
const WAITING: f64 = 2.0;
/// Unloaded times, and seconds, that a backend may have before it: enough to keep all its workers at work. What else there is
/// waits for whoever is free first.
const AHEAD: f64 = 2.0;
const AHEAD_S: f64 = 3e-4;
/// Batches without one, after which a backend is tried.
const TRY_AFTER: u64 = 64;
/// What trying may add to the best backend's mean delay.
const TRIES_ADD: f64 = 0.02;
/// Seconds after which it is tried however long it takes.
const TRY_AT_LAST_S: f64 = 10.0;
/// Sizes of batches that are told apart: powers of two.
const SIZES: usize = 24;

/// How batches are split.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SplitPolicy {
    /// By measured cost.
    #[default]
    Adaptive,
    /// This share of packets, 0 to 1, goes to the last backend, in whole batches; the others have the rest evenly.
    Share(f64),
}

/// A mean of which the weight of old values fades.
#[derive(Clone, Copy, Debug, Default)]
struct FadingMean {
    sum: f64,
    weight: f64,
    at: f64,
}

impl FadingMean {
    fn fade(&mut self, now: f64) {
        let kept = (1.0 - LATEST) * (-(now - self.at).max(0.0) / MEMORY_S).exp();
        (self.sum, self.weight, self.at) = (self.sum * kept, self.weight * kept, now);
    }

    /// `sum` over `weight` of something.
    fn add(&mut self, now: f64, sum: f64, weight: f64) {
        self.fade(now);
        (self.sum, self.weight) = (self.sum + sum, self.weight + weight);
    }

    fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// What one backend takes.
#[derive(Clone, Debug)]
struct BackendCost {
    /// By size: seconds of a batch with nothing before it, seconds a packet with something.
    unloaded: [FadingMean; SIZES],
    a_packet: [FadingMean; SIZES],
    /// Packets that are posted and not done, in batches.
    waiting: u64,
    batches: u64,
    /// Since when it has had something to do. When it last finished one, and when and as the how-manieth of all it last was given one.
    busy_since: f64,
    finished: f64,
    given: f64,
    given_at: u64,
    usable: bool,
}

fn size(packets: u64) -> usize {
    (packets.max(1).ilog2() as usize).min(SIZES - 1)
}

/// The estimate of that size, or of the next one that has one.
fn nearest(of: &[FadingMean; SIZES], size: usize) -> Option<f64> {
    let at = |at: usize| of.get(at).and_then(FadingMean::value);
    (0..SIZES).find_map(|away| size.checked_sub(away).and_then(at).or_else(|| at(size + away)))
}

impl BackendCost {
    fn new() -> BackendCost {
        BackendCost {
            unloaded: [FadingMean::default(); SIZES],
            a_packet: [FadingMean::default(); SIZES],
            waiting: 0,
            batches: 0,
            busy_since: 0.0,
            finished: 0.0,
            given: 0.0,
            given_at: 0,
            usable: true,
        }
    }

    /// Of a batch of `packets` that it is given now: seconds until it is done where nothing is before it, and with what is. Nothing
    /// known is nothing taken, one batch long.
    fn expected(&self, packets: u64) -> (f64, f64) {
        let size = size(packets);
        let (alone, flow) = (nearest(&self.unloaded, size), self.flow(packets));
        if alone.or(flow).is_none() && self.batches > 0 {
            return (f64::INFINITY, f64::INFINITY);
        }
        let alone = alone.unwrap_or(0.0);
        (alone, alone.max((self.waiting + packets) as f64 * flow.unwrap_or(0.0)))
    }

    /// Seconds a packet at its load.
    fn flow(&self, packets: u64) -> Option<f64> {
        nearest(&self.a_packet, size(packets))
    }

    /// By which backends are compared.
    fn price(&self, packets: u64) -> f64 {
        let (alone, loaded) = self.expected(packets);
        if alone.is_finite() { alone + WAITING * (loaded - alone) } else { alone }
    }

    /// Whether it has enough to do.
    fn is_busy(&self, packets: u64) -> bool {
        let (alone, loaded) = self.expected(packets);
        self.waiting > 0 && loaded > AHEAD * alone + AHEAD_S
    }
}

/// A batch that a backend was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GivenBatch {
    /// Which backend.
    pub which: usize,
    /// When, in seconds.
    pub at: f64,
    /// Its packets, and those that the backend had before it.
    pub packets: u64,
    /// Those.
    pub ahead: u64,
}

/// What became of a backend's share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SplitShare {
    /// Batches and packets that it was given.
    pub batches: u64,
    /// Those packets.
    pub packets: u64,
    /// Of all packets.
    pub share: f64,
    /// Batches that it was given to learn what it takes now, though another was expected to be sooner.
    pub explored: u64,
    /// Seconds a packet as it was estimated last, in batches of the size that it had last; none before the first is done.
    pub s_per_packet: Option<f64>,
}

impl SplitShare {
    /// Adds what the same backend of another queue was given. The share of all packets is the caller's.
    pub(crate) fn add(&mut self, other: &SplitShare) {
        let both = |own: f64, its: f64| {
            let (own_packets, its_packets) = (self.packets.max(1) as f64, other.packets.max(1) as f64);
            (own * own_packets + its * its_packets) / (own_packets + its_packets)
        };
        self.s_per_packet = match (self.s_per_packet, other.s_per_packet) {
            (Some(own), Some(its)) => Some(both(own, its)),
            (one, another) => one.or(another),
        };
        self.batches += other.batches;
        self.packets += other.packets;
        self.explored += other.explored;
    }
}

/// Chooses.
#[derive(Clone, Debug)]
pub struct CostSplit {
    policy: SplitPolicy,
    costs: Vec<BackendCost>,
    shares: Vec<SplitShare>,
    last: usize,
    /// Packets that the last backend is short of its fixed share.
    due: f64,
    given: u64,
    packets: u64,
    latest_size: u64,
}

impl CostSplit {
    /// Over so many backends.
    pub fn new(backends: usize, policy: SplitPolicy) -> CostSplit {
        CostSplit {
            policy,
            costs: vec![BackendCost::new(); backends],
            shares: vec![SplitShare::default(); backends],
            last: 0,
            due: 0.0,
            given: 0,
            packets: 0,
            latest_size: 1,
        }
    }

    /// The backend for a batch of `packets` at `now`, in seconds; none where it is better to wait. `room` says who has room for
    /// it. What is chosen counts as given.
    pub fn choose(&mut self, now: f64, packets: u64, room: &[bool]) -> Option<GivenBatch> {
        let (chosen, explored) = match self.policy {
            SplitPolicy::Share(share) => (self.by_share(packets, share)?, false),
            SplitPolicy::Adaptive => self.by_cost(now, packets, room)?,
        };
        if !room.get(chosen).copied().unwrap_or(false) {
            return None;
        }
        if let SplitPolicy::Share(share) = self.policy {
            self.due += packets as f64 * (share - f64::from(chosen + 1 == self.costs.len()));
        }
        (self.last, self.latest_size) = (chosen, packets);
        self.given += 1;
        self.packets += packets;
        let (cost, told) = (&mut self.costs[chosen], &mut self.shares[chosen]);
        let given = GivenBatch { which: chosen, at: now, packets, ahead: cost.waiting };
        if cost.waiting == 0 {
            cost.busy_since = now;
        }
        cost.waiting += packets;
        cost.batches += 1;
        (cost.given, cost.given_at) = (now, self.given);
        told.batches += 1;
        told.packets += packets;
        told.explored += u64::from(explored);
        Some(given)
    }

    fn by_share(&self, packets: u64, share: f64) -> Option<usize> {
        let last = self.costs.len().checked_sub(1)?;
        let others = || (0..last).filter(|&i| self.costs[i].usable).min_by_key(|&i| self.shares[i].packets);
        let wanted = self.due + packets as f64 * share >= packets as f64 / 2.0;
        match wanted && self.costs[last].usable {
            true => Some(last),
            false => others().or_else(|| self.costs[last].usable.then_some(last)),
        }
    }

    fn by_cost(&self, now: f64, packets: u64, room: &[bool]) -> Option<(usize, bool)> {
        let usable = || (0..self.costs.len()).filter(|&i| self.costs[i].usable);
        let price = |i: usize| self.costs[i].price(packets);
        let free = || usable().filter(|&i| !self.costs[i].is_busy(packets));
        let best = free().min_by(|&a, &b| price(a).total_cmp(&price(b)))?;
        let lowest = price(best);
        // Nobody knows anything yet, and all have one: the next waits for what is learnt.
        if lowest.is_infinite() {
            return None;
        }
        let due = |i: usize| {
            let (cost, (takes, _)) = (&self.costs[i], self.costs[i].expected(packets));
            let idle = cost.batches > 0 && self.given - cost.given_at >= TRY_AFTER;
            // Half of what it takes is waited for on average by what comes meanwhile; and no more than so much of all time.
            let pause = (takes / (2.0 * self.costs[best].expected(packets).0.max(1e-9))).max(1.0) * takes / TRIES_ADD;
            idle && cost.waiting == 0 && now - cost.given >= pause.min(TRY_AT_LAST_S)
        };
        if let Some(tried) = usable().find(|&i| i != best && i != self.last && due(i) && room.get(i) == Some(&true)) {
            return Some((tried, true));
        }
        let stays = free().any(|i| i == self.last) && price(self.last) * (1.0 - SOONER) <= lowest;
        Some((if stays { self.last } else { best }, false))
    }

    /// What was given is done at `now`.
    pub fn done(&mut self, given: &GivenBatch, now: f64) {
        let GivenBatch { which, at, packets, ahead } = *given;
        let cost = &mut self.costs[which];
        let size = size(packets);
        cost.waiting = cost.waiting.saturating_sub(packets);
        let (took, unloaded) = (now - at, &mut cost.unloaded[size]);
        match unloaded.value() {
            // With others before it, it is done no sooner than without, and in the time that may be before it.
            Some(alone) if ahead > 0 && took >= alone => {
                if took > 2.0 * (AHEAD * alone + AHEAD_S) {
                    unloaded.add(now, took / AHEAD, 1.0);
                }
            }
            _ => unloaded.add(now, took, 1.0),
        }
        // Of several workers many may be done at once: only all of them tell what the backend carries.
        cost.a_packet[size].add(now, now - cost.finished.max(cost.busy_since), packets as f64);
        cost.finished = now;
    }

    /// Backend `which` gets nothing any more.
    pub fn give_up(&mut self, which: usize) {
        self.costs[which].usable = false;
        self.costs[which].waiting = 0;
    }

    /// `packets` of what `which` was given go to another one, which [`CostSplit::choose`] finds.
    pub fn take_back(&mut self, which: usize, packets: u64) {
        self.shares[which].packets -= packets;
        self.packets -= packets;
    }

    /// What each was given.
    pub fn shares(&self) -> Vec<SplitShare> {
        let whole = self.packets.max(1) as f64;
        let of = |(told, cost): (&SplitShare, &BackendCost)| {
            let s_per_packet = cost.flow(self.latest_size);
            SplitShare { share: told.packets as f64 / whole, s_per_packet, ..*told }
        };
        self.shares.iter().zip(&self.costs).map(of).collect()
    }
}
