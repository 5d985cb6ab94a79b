//! The shell that answers in order of arrival.
//!
//! A channel's banks slow each other down for as long as they are busy together. What a channel has been given is known as
//! the time at which each bank is done with it; a request that comes on top of it moves these times for the other banks, so that
//! a channel never serves faster than its rates. An answer that was given stays as it was: it was early by at most what
//! later requests on other banks take from one service.

use engine::{Draw, Exponential, Seed};
use probe::Request;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{Line, Ps};

use super::{BankTiming, StackedSpec};
use crate::error::MachineError;
use crate::level::{Response, Served};

/// What a request had of its bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankTurn {
    /// When its bank takes it.
    pub begin: Ps,
    /// When its data are there.
    pub done: Ps,
    /// When its bank takes the next one: later than `done` where a row is to be closed.
    pub free: Ps,
}

/// A stacked DRAM as a [`Level`]: each request takes, of the banks that hold its partial table, the one that is free
/// first, and of those that are free already one in a channel with the fewest busy banks.
///
/// The partial table of a line is chosen by a hash of the line, so that banks are wanted equally often.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stacked {
    timing: BankTiming,
    link: Ps,
    banks: usize,
    /// When each bank is done with all it has been given; a channel's banks side by side.
    free: Vec<Ps>,
    /// When each channel's data bus is free again.
    bus: Vec<Ps>,
    /// Service times of a bank that is busy alone; [`None`] where they are fixed.
    draw: Option<Exponential>,
    /// Requests that began while another bank of their channel was busy.
    interleaved: u64,
    requests: u64,
    /// Nothing waits, and nothing takes a bank.
    #[serde(skip)]
    untimed: bool,
}

impl Stacked {
    /// Idle. `path` is where the specification stands in the scenario; service times are drawn from streams of that
    /// name.
    ///
    /// # Errors
    /// Those of [`StackedSpec::resolve`].
    pub fn new(spec: &StackedSpec, path: &str, seed: Seed) -> Result<Stacked, MachineError> {
        let (channels, banks) = (spec.channels as usize, spec.banks as usize);
        let timing = spec.resolve(path)?;
        let draw = match &timing {
            BankTiming::Rates { means, exponential: true } => {
                Some(Exponential::new(means[0], seed.stream(&format!("{path}.service"))))
            }
            _ => None,
        };
        Ok(Stacked {
            timing,
            link: spec.link(),
            banks,
            free: vec![Ps(0); channels * banks],
            bus: vec![Ps(0); channels],
            draw,
            interleaved: 0,
            requests: 0,
            untimed: false,
        })
    }

    /// The share of requests that began while another bank of their channel was busy; 0 before the first.
    pub fn interleaved_share(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.interleaved as f64 / self.requests as f64 }
    }

    /// Requests that began while another bank of their channel was busy.
    pub fn interleaved(&self) -> u64 {
        self.interleaved
    }

    /// Whether requests are answered at once from now on, and take nothing up.
    pub fn set_untimed(&mut self, untimed: bool) {
        self.untimed = untimed;
    }

    /// The partial table that has a line: by a hash, so that banks are wanted equally often.
    #[inline]
    pub fn bank_of(&self, line: Line) -> usize {
        ((line.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % self.banks as u64) as usize
    }

    /// Writes to partial table `bank` on every channel, from `now` on: the time that all these banks are busy with it.
    pub fn write_all(&mut self, bank: usize, now: Ps) -> Ps {
        if self.untimed {
            return Ps::ZERO;
        }
        let mut busy = Ps::ZERO;
        for channel in 0..self.free.len() / self.banks {
            let begin = self.free[channel * self.banks + bank].max(now);
            let (free, _) = self.settle(channel, bank, begin);
            busy += free - begin;
        }
        busy
    }

    /// Serves a request for partial table `bank` that arrives at `now`.
    pub fn serve(&mut self, bank: usize, now: Ps) -> BankTurn {
        if self.untimed {
            return BankTurn { begin: now, done: now, free: now };
        }
        let busy = |channel: &[Ps], at: Ps| channel.iter().filter(|free| **free > at).count();
        let best = self.free.chunks_exact(self.banks).enumerate().min_by_key(|(place, channel)| {
            let begin = channel[bank].max(now);
            (begin, busy(channel, begin), *place)
        });
        let Some((channel, begin, others)) = best.map(|(place, channel)| {
            let begin = channel[bank].max(now);
            (place, begin, busy(channel, begin))
        }) else {
            return BankTurn { begin: now, done: now, free: now };
        };
        self.requests += 1;
        self.interleaved += u64::from(others > 0);
        let (free, done) = self.settle(channel, bank, begin);
        BankTurn { begin, done, free }
    }

    /// Gives `bank` of `channel` a request that it begins at `begin`: when the bank is free again, and when the data are there.
    fn settle(&mut self, channel: usize, bank: usize, begin: Ps) -> (Ps, Ps) {
        let free = &mut self.free[channel * self.banks..][..self.banks];
        match &self.timing {
            BankTiming::Rates { means, .. } => {
                let work = self.draw.as_mut().map_or(means[0], Draw::draw);
                share_out(free, bank, begin, work, means);
                (free[bank], free[bank])
            }
            BankTiming::Device { first_data, burst, cycle } => {
                let data = (begin + *first_data).max(self.bus[channel]);
                self.bus[channel] = data + *burst;
                // A bank whose data wait for the bus holds its row so much longer.
                free[bank] = data + *cycle - *first_data;
                (free[bank], data + *burst)
            }
        }
    }
}

/// Banks of a channel, at most.
const MOST_BANKS: usize = 16;

/// Gives `bank`, which is free at `begin`, `work`: the time that it takes alone. `free` holds when each bank of the channel is done, and
/// `means` what a request takes while 1, 2, ... of them are busy; the last holds for all above.
fn share_out(free: &mut [Ps], bank: usize, begin: Ps, work: Ps, means: &[Ps]) {
    let alone = means[0].0 as f64;
    let pace = |busy: usize| means[busy.clamp(1, means.len()) - 1].0 as f64 / alone;
    // What is left of the others' work at `begin`, the first to end first.
    let mut left = [(0.0f64, 0usize); MOST_BANKS];
    let mut count = 0;
    for (other, free) in free.iter().enumerate().filter(|(other, free)| *other != bank && **free > begin) {
        left[count] = ((*free - begin).0 as f64, other);
        count += 1;
    }
    if count == 0 {
        free[bank] = begin + work;
        return;
    }
    left[..count].sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut since, mut done) = (0.0, 0.0);
    for (n, (until, _)) in left[..count].iter_mut().enumerate() {
        done += (*until - since) / pace(count - n);
        (since, *until) = (*until, done);
    }
    let place = left[..count].iter().position(|(other, _)| *other > work.0 as f64).unwrap_or(count);
    left.copy_within(place..count, place + 1);
    left[place] = (work.0 as f64, bank);
    count += 1;
    let (mut since, mut at) = (0.0, 0.0);
    for (n, (work, bank)) in left[..count].iter().enumerate() {
        at += (work - since) * pace(count - n);
        since = *work;
        free[*bank] = begin + Ps(at.round() as u64);
    }
}

impl Stacked {
    /// Serves the line of `request`, made at `now`, which never decreases from call to call.
    pub fn access(&mut self, request: &Request, now: Ps) -> Response {
        let bank = self.bank_of(request.addr.line());
        let arrives = now + self.link;
        let BankTurn { begin, done, .. } = self.serve(bank, arrives);
        let mut path = Path::of(Reason::Interconnect, self.link);
        path.push(Reason::BankBusy, begin - arrives);
        path.push(Reason::RowMiss, done - begin);
        path.push(Reason::Interconnect, self.link);
        Response { at: done + self.link, served: Served::Dram, path }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::BankService;
    use super::*;

    fn fixed(channels: u32) -> StackedSpec {
        let service = BankService::Rates { per_us: vec![8.0, 5.6], exponential: false };
        StackedSpec { channels, service, ..StackedSpec::default() }
    }

    #[test]
    fn a_channel_serves_alone_then_interleaved_then_makes_wait() {
        let mut memory = Stacked::new(&fixed(1), "stacked", Seed(0)).unwrap();
        let turn = |begin, done| BankTurn { begin: Ps(begin), done: Ps(done), free: Ps(done) };
        assert_eq!(memory.serve(0, Ps(0)), turn(0, 125_000));
        assert_eq!(memory.serve(1, Ps(0)), turn(0, 178_571));
        // The second has slowed the first down, whose answer was given.
        assert_eq!(memory.serve(0, Ps(0)).begin, Ps(178_571));
        assert!((memory.interleaved_share() - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn what_comes_later_slows_what_has_begun() {
        // Alone for 62.5 ns, half of the work; the rest and the second's first half at 5.6 M/s; its second half alone.
        let mut memory = Stacked::new(&fixed(1), "stacked", Seed(0)).unwrap();
        memory.serve(0, Ps(0));
        let second = memory.serve(1, Ps(62_500));
        let half = 178_571 / 2;
        assert!(second.done.0.abs_diff(62_500 + half + 62_500) <= 1, "{second:?}");
        assert!(memory.serve(0, Ps(62_500)).begin.0.abs_diff(62_500 + half) <= 1);
    }

    /// Requests that come as others leave, `depth` of them a bank, to banks in turn: millions a second.
    fn saturated(channels: u32, per_us: &[f64], exponential: bool) -> f64 {
        let banks = per_us.len() as u32;
        let service = BankService::Rates { per_us: per_us.to_vec(), exponential };
        let spec = StackedSpec { channels, banks, service, link_ns: 0.0 };
        let mut memory = Stacked::new(&spec, "stacked", Seed(7)).unwrap();
        let mut due = std::collections::BinaryHeap::new();
        (0..(channels * banks * 8)).for_each(|n| due.push(std::cmp::Reverse((Ps(0), n % banks))));
        let (mut last, mut served) = (Ps(0), 0u64);
        while served < 200_000 {
            let Some(std::cmp::Reverse((now, bank))) = due.pop() else { break };
            last = now;
            served += 1;
            due.push(std::cmp::Reverse((memory.serve(bank as usize, now).done, bank)));
        }
        served as f64 / (last.0 as f64 * 1e-6)
    }

    #[test]
    fn a_saturated_channel_serves_at_the_rate_of_all_its_banks() {
        for (channels, per_us) in
            [(1, &[8.0, 5.6][..]), (1, &[8.0, 4.0]), (2, &[8.0, 4.0, 2.0, 1.0]), (3, &[8.0, 6.0, 5.0])]
        {
            for exponential in [false, true] {
                let all = f64::from(channels) * per_us.len() as f64 * per_us[per_us.len() - 1];
                let rate = saturated(channels, per_us, exponential);
                assert!(
                    (rate / all - 1.0).abs() < 0.02,
                    "{channels} x {per_us:?}, {exponential}: {rate} for {all} M/s"
                );
            }
        }
    }

    proptest! {
        /// Every moment of every bank, looked at.
        #[test]
        fn share_out_matches_naive(
            steps in prop::collection::vec((0usize..4, 0u64..60, 1u64..200), 1..40), means in prop::collection::vec(1u64..4, 1..4)
        ) {
            let means: Vec<Ps> = means.iter().scan(0, |sum, m| { *sum += m; Some(Ps(*sum * 1000)) }).collect();
            let (mut free, mut now) = ([Ps(0); 4], 0);
            // Work left in each bank, and how it is drained.
            let (mut left, mut at) = ([0.0f64; 4], 0.0f64);
            let drain = |left: &mut [f64; 4], at: &mut f64, until: f64| {
                while *at < until && left.iter().any(|w| *w > 0.0) {
                    let busy = left.iter().filter(|w| **w > 0.0).count();
                    let pace = means[busy.min(means.len()) - 1].0 as f64 / means[0].0 as f64;
                    let least = left.iter().filter(|w| **w > 0.0).fold(f64::INFINITY, |a, b| a.min(*b));
                    let step = (until - *at).min(least * pace);
                    left.iter_mut().for_each(|w| *w = if *w - step / pace < 1e-6 { 0.0 } else { *w - step / pace });
                    *at += step;
                }
                *at = at.max(until.min(1e300));
            };
            for (bank, gap, work) in steps {
                now += gap * 1000;
                let begin = free[bank].max(Ps(now));
                share_out(&mut free, bank, begin, Ps(work * 1000), &means);
                drain(&mut left, &mut at, now as f64);
                left[bank] += work as f64 * 1000.0;
                for bank in 0..4 {
                    let (mut left, mut at) = (left, at);
                    while left[bank] > 0.0 {
                        let step = at + 1000.0;
                        drain(&mut left, &mut at, step);
                    }
                    // To the step of a nanosecond that the naive one looks at.
                    let ends = free[bank].max(Ps(now)).0 as f64;
                    prop_assert!((ends - at).abs() <= 1001.0, "bank {bank}: {ends} for {at}");
                }
            }
        }
    }

    #[test]
    fn an_idle_channel_is_preferred_to_an_idle_bank() {
        let mut memory = Stacked::new(&fixed(2), "stacked", Seed(0)).unwrap();
        for bank in [0, 1] {
            let turn = memory.serve(bank, Ps(0));
            assert_eq!((turn.begin, turn.done), (Ps(0), Ps(125_000)));
        }
        assert_eq!(memory.interleaved_share(), 0.0);
    }

    #[test]
    fn a_saturated_device_gives_a_request_a_bank_cycle() {
        let service = BankService::Device { standard: "hmc-2.1-vault".into(), bytes: 32 };
        let spec = StackedSpec { channels: 1, banks: 1, service, link_ns: 0.0 };
        let BankTiming::Device { first_data, burst, cycle } = spec.resolve("stacked").unwrap() else {
            panic!("a device has device timings");
        };
        assert!(cycle > first_data && burst > Ps(0));
        let mut memory = Stacked::new(&spec, "stacked", Seed(0)).unwrap();
        let first = memory.serve(0, Ps(0));
        assert_eq!(first, BankTurn { begin: Ps(0), done: first_data + burst, free: cycle });
        // The bank is busy without a gap.
        let second = BankTurn { begin: cycle, done: cycle + first_data + burst, free: cycle + cycle };
        assert_eq!(memory.serve(0, Ps(0)), second);
    }

    #[test]
    fn what_cannot_be_built_says_why() {
        let of = |change: &dyn Fn(&mut StackedSpec)| {
            let mut spec = StackedSpec::default();
            change(&mut spec);
            spec.resolve("stacked").unwrap_err().to_string()
        };
        let rates = |per_us: Vec<f64>| {
            move |s: &mut StackedSpec| {
                s.service = BankService::Rates { per_us: per_us.clone(), exponential: true };
            }
        };
        assert!(of(&|s| s.channels = 65).starts_with("stacked.channels = 65: allowed is 1 to 64"));
        assert!(of(&|s| s.banks = 0).starts_with("stacked.banks = 0: allowed is 1 to 16"));
        assert!(of(&|s| s.link_ns = f64::NAN).starts_with("stacked.link_ns = NaN"));
        assert!(of(&rates(vec![])).contains("one rate or more"));
        assert!(of(&rates(vec![8.0, 9.0])).contains("rates that do not grow"));
        let named = of(&|s| s.service = BankService::Device { standard: "hmc".into(), bytes: 32 });
        assert!(named.contains("hmc-2.1-vault"), "{named}");
    }
}
