//! The shell that answers in order of arrival.

use engine::{Draw, Exponential, Seed};
use probe::Request;
use stats::{Path, Reason};
use units::{Line, Ps};

use super::{StackedSpec, Timing};
use crate::error::MachineError;
use crate::level::{Level, Response, Served};

/// What a request had of its bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
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
#[derive(Clone, Debug)]
pub struct Stacked {
    timing: Timing,
    link: Ps,
    banks: usize,
    /// When each bank is free again; a channel's banks side by side.
    free: Vec<Ps>,
    /// When each channel's data bus is free again.
    bus: Vec<Ps>,
    /// Service times by how many other banks of the channel are busy; empty where they are fixed.
    draws: Vec<Exponential>,
    /// Requests that began while another bank of their channel was busy.
    interleaved: u64,
    requests: u64,
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
        let draws = match &timing {
            Timing::Rates { means, exponential: true } => {
                let stream = |n: usize| seed.stream(&format!("{path}.service.{n}"));
                means.iter().enumerate().map(|(n, mean)| Exponential::new(*mean, stream(n))).collect()
            }
            _ => Vec::new(),
        };
        Ok(Stacked {
            timing,
            link: spec.link(),
            banks,
            free: vec![Ps(0); channels * banks],
            bus: vec![Ps(0); channels],
            draws,
            interleaved: 0,
            requests: 0,
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

    /// The partial table that has a line: by a hash, so that banks are wanted equally often.
    #[inline]
    pub fn bank_of(&self, line: Line) -> usize {
        ((line.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % self.banks as u64) as usize
    }

    /// Writes to partial table `bank` on every channel, from `now` on: the time that all these banks are busy with it.
    pub fn write_all(&mut self, bank: usize, now: Ps) -> Ps {
        let mut busy = Ps::ZERO;
        for channel in 0..self.free.len() / self.banks {
            let at = channel * self.banks;
            let begin = self.free[at + bank].max(now);
            let others = self.free[at..at + self.banks].iter().filter(|free| **free > begin).count();
            let (free, _) = self.settle(channel, others, begin);
            self.free[at + bank] = free;
            busy += free - begin;
        }
        busy
    }

    /// Serves a request for partial table `bank` that arrives at `now`.
    pub fn serve(&mut self, bank: usize, now: Ps) -> Turn {
        let busy = |channel: &[Ps], at: Ps| channel.iter().filter(|free| **free > at).count();
        let best = self.free.chunks_exact(self.banks).enumerate().min_by_key(|(place, channel)| {
            let begin = channel[bank].max(now);
            (begin, busy(channel, begin), *place)
        });
        let Some((channel, begin, others)) = best.map(|(place, channel)| {
            let begin = channel[bank].max(now);
            (place, begin, busy(channel, begin))
        }) else {
            return Turn { begin: now, done: now, free: now };
        };
        self.requests += 1;
        self.interleaved += u64::from(others > 0);
        let (free, done) = self.settle(channel, others, begin);
        self.free[channel * self.banks + bank] = free;
        Turn { begin, done, free }
    }

    /// When a bank of `channel` that begins at `begin`, with so many others busy, is free again, and when its data are there.
    fn settle(&mut self, channel: usize, others: usize, begin: Ps) -> (Ps, Ps) {
        match &self.timing {
            Timing::Rates { means, .. } => {
                let rate = others.min(means.len() - 1);
                let done = begin + self.draws.get_mut(rate).map_or(means[rate], Draw::draw);
                (done, done)
            }
            Timing::Device { first_data, burst, cycle } => {
                let data = (begin + *first_data).max(self.bus[channel]);
                self.bus[channel] = data + *burst;
                // A bank whose data wait for the bus holds its row so much longer.
                (data + *cycle - *first_data, data + *burst)
            }
        }
    }
}

impl Level for Stacked {
    fn access(&mut self, request: &Request, now: Ps) -> Response {
        let bank = self.bank_of(request.addr.line());
        let arrives = now + self.link;
        let Turn { begin, done, .. } = self.serve(bank, arrives);
        let mut path = Path::of(Reason::Interconnect, self.link);
        path.push(Reason::BankBusy, begin - arrives);
        path.push(Reason::RowMiss, done - begin);
        path.push(Reason::Interconnect, self.link);
        Response { at: done + self.link, served: Served::Dram, path }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Service;
    use super::*;

    fn fixed(channels: u32) -> StackedSpec {
        let service = Service::Rates { per_us: vec![8.0, 5.6], exponential: false };
        StackedSpec { channels, service, ..StackedSpec::default() }
    }

    #[test]
    fn a_channel_serves_alone_then_interleaved_then_makes_wait() {
        let mut memory = Stacked::new(&fixed(1), "stacked", Seed(0)).unwrap();
        let turn = |begin, done| Turn { begin: Ps(begin), done: Ps(done), free: Ps(done) };
        assert_eq!(memory.serve(0, Ps(0)), turn(0, 125_000));
        assert_eq!(memory.serve(1, Ps(0)), turn(0, 178_571));
        assert_eq!(memory.serve(0, Ps(0)).begin, Ps(125_000));
        assert!((memory.interleaved_share() - 2.0 / 3.0).abs() < 1e-12);
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
        let service = Service::Device { standard: "hmc-2.1-vault".into(), bytes: 32 };
        let spec = StackedSpec { channels: 1, banks: 1, service, link_ns: 0.0 };
        let Timing::Device { first_data, burst, cycle } = spec.resolve("stacked").unwrap() else {
            panic!("a device has device timings");
        };
        assert!(cycle > first_data && burst > Ps(0));
        let mut memory = Stacked::new(&spec, "stacked", Seed(0)).unwrap();
        let first = memory.serve(0, Ps(0));
        assert_eq!(first, Turn { begin: Ps(0), done: first_data + burst, free: cycle });
        // The bank is busy without a gap.
        let second = Turn { begin: cycle, done: cycle + first_data + burst, free: cycle + cycle };
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
                s.service = Service::Rates { per_us: per_us.clone(), exponential: true };
            }
        };
        assert!(of(&|s| s.channels = 65).starts_with("stacked.channels = 65: allowed is 1 to 64"));
        assert!(of(&|s| s.banks = 0).starts_with("stacked.banks = 0: allowed is 1 to 16"));
        assert!(of(&|s| s.link_ns = f64::NAN).starts_with("stacked.link_ns = NaN"));
        assert!(of(&rates(vec![])).contains("one rate or more"));
        assert!(of(&rates(vec![8.0, 9.0])).contains("rates that do not grow"));
        let named = of(&|s| s.service = Service::Device { standard: "hmc".into(), bytes: 32 });
        assert!(named.contains("hmc-2.1-vault"), "{named}");
    }
}
