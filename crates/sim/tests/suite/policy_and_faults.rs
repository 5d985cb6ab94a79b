//! Seam: a policy that sees stale and missing counters, and an actuator that fails (`upf-cache`).
//!
//! A policy judges each step of the I/O ways by the response of throughput. It must hold still on
//! what is missing, judge no interval twice and none that began before its last step took effect,
//! and not take a step that was never applied for one without effect. The same policy drives a
//! simulated plant and a fake host that is read and written as text, and decides the same.

use control::{Actuator, Allocation, Counter, Observation, Policy, Sample};
use units::{Cbm, Ps};

const INTERVAL: Ps = Ps::from_ns(1_000_000_000);
const WAYS: u32 = 11;

/// Adds an I/O way as long as device writes miss and each step pays.
#[derive(Default)]
struct OneMore {
    /// The throughput before the step that is to be judged, and its ways.
    step: Option<(f64, u32)>,
    /// The ways in force when last seen, and since when.
    settled: Option<(u32, Ps)>,
    stop: bool,
}

/// A step is kept if throughput gains by this factor.
const PAYS: f64 = 1.003;

impl Policy for OneMore {
    fn decide(&mut self, seen: &Observation) -> Option<Allocation> {
        let ways = seen.in_force.io_ways?.ways();
        if self.settled.is_none_or(|(w, _)| w != ways) {
            self.settled = Some((ways, seen.at));
        }
        let since = self.settled?.1;
        // Of an interval that was over before the settings were in force nothing can be learnt.
        let counter = |c: Counter| c.filter(|s| seen.at.since(s.age + s.interval) >= since).map(|s| s.value);
        let (pps, miss) = (counter(seen.received_pps)?, counter(seen.ddio_write_miss_rate)?);
        if self.stop {
            return None;
        }
        let set = |ways| Some(Allocation { io_ways: Some(Cbm::low(ways)), ..Allocation::default() });
        if let Some((before, wanted)) = self.step {
            if ways != wanted {
                return set(wanted);
            }
            self.step = None;
            if pps < before * PAYS {
                self.stop = true;
                return set(wanted - 1);
            }
        }
        if miss < 0.05 || ways == WAYS {
            return None;
        }
        self.step = Some((pps, ways + 1));
        set(ways + 1)
    }
}

/// What goes wrong in an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The throughput counter is not there.
    Missing,
    /// All counters are those of the interval before.
    Stale,
    /// Nothing can be read.
    Blind,
    /// Settings are refused.
    Refused,
}
use Fault::{Blind, Missing, None as Fine, Refused, Stale};

/// More ways help up to five.
fn packets(ways: u32) -> u64 {
    4_000_000 + 300_000 * u64::from(ways.min(5))
}

/// A running total as a counter, from reads that can fail.
#[derive(Clone, Copy, Default)]
struct Meter {
    total: u64,
    at: Ps,
    last: Counter,
}

impl Meter {
    /// What was added since the last read that did not fail, and over which time.
    fn read(&mut self, total: Option<u64>, now: Ps) -> Option<(u64, Ps)> {
        let total = total?;
        let since = (total.checked_sub(self.total)?, now - self.at);
        (self.total, self.at) = (total, now);
        Some(since)
    }

    /// `value` per whole of the interval, or the last one again, older, when nothing new came.
    fn sample(&mut self, fresh: Option<(f64, Ps)>, stale: bool) -> Counter {
        self.last = if stale {
            self.last.map(|s| Sample { age: s.age + INTERVAL, ..s })
        } else {
            fresh.map(|(value, interval)| Sample { value, age: Ps::ZERO, interval })
        };
        self.last
    }
}

/// Received packets, device writes, and those that missed.
type Totals = [Option<u64>; 3];

/// Makes an observation of totals and of the settings read back.
fn observation(meters: &mut [Meter; 3], totals: Totals, io_ways: Option<Cbm>, at: Ps, stale: bool) -> Observation {
    let fresh = |i: usize, meters: &mut [Meter; 3]| if stale { None } else { meters[i].read(totals[i], at) };
    let [packets, writes, misses] = [0, 1, 2].map(|i| fresh(i, meters));
    let rate = packets.map(|(n, over)| (n as f64 / over.as_secs(), over));
    let share = misses.zip(writes).map(|((m, over), (w, _))| (m as f64 / w as f64, over));
    Observation {
        at,
        interval: INTERVAL,
        received_pps: meters[0].sample(rate, stale),
        ddio_write_miss_rate: meters[1].sample(share, stale),
        in_force: Allocation { io_ways, ..Allocation::default() },
        ..Observation::default()
    }
}

/// The plant as the simulator has it.
struct Plant {
    faults: Vec<Fault>,
    interval: usize,
    io_ways: Cbm,
    totals: [u64; 3],
    meters: [Meter; 3],
    applied: u32,
}

impl Plant {
    fn new(faults: &[Fault]) -> Plant {
        let faults = faults.to_vec();
        Plant { faults, interval: 0, io_ways: Cbm::low(2), totals: [0; 3], meters: Default::default(), applied: 0 }
    }

    fn run(&mut self) -> Ps {
        self.interval += 1;
        let ways = self.io_ways.ways();
        for (total, more) in self.totals.iter_mut().zip([packets(ways), 1_000_000, 500_000 / u64::from(ways)]) {
            *total += more;
        }
        INTERVAL * self.interval as u64
    }

    fn fault(&self) -> Fault {
        self.faults.get(self.interval - 1).copied().unwrap_or(Fine)
    }
}

impl Actuator for Plant {
    type Error = &'static str;

    fn observe(&mut self) -> Result<Observation, Self::Error> {
        let (at, fault) = (self.run(), self.fault());
        let mut totals = self.totals.map(Some);
        if fault == Blind {
            return Err("no counters");
        }
        if fault == Missing {
            totals[0] = None;
        }
        Ok(observation(&mut self.meters, totals, Some(self.io_ways), at, fault == Stale))
    }

    fn apply(&mut self, allocation: &Allocation) -> Result<(), Self::Error> {
        if self.fault() == Refused {
            return Err("refused");
        }
        self.io_ways = allocation.io_ways.unwrap_or(self.io_ways);
        self.applied += 1;
        Ok(())
    }
}

/// The same machine behind files of text.
struct Host {
    machine: Plant,
    schemata: String,
    counters: [String; 3],
    meters: [Meter; 3],
}

impl Host {
    fn new(faults: &[Fault]) -> Host {
        let machine = Plant::new(faults);
        Host { machine, schemata: "IO:0=3\n".into(), counters: Default::default(), meters: Default::default() }
    }

    fn io_ways(&self) -> Option<Cbm> {
        let mask = self.schemata.strip_prefix("IO:0=")?.trim_end();
        u32::from_str_radix(mask, 16).ok().map(Cbm)
    }
}

impl Actuator for Host {
    type Error = String;

    fn observe(&mut self) -> Result<Observation, String> {
        let io_ways = self.io_ways().ok_or("schemata is not a mask")?;
        self.machine.io_ways = io_ways;
        let (at, fault) = (self.machine.run(), self.machine.fault());
        self.counters = self.machine.totals.map(|total| format!("{total}\n"));
        if fault == Missing {
            self.counters[0] = "Unavailable\n".into();
        }
        if fault == Blind {
            return Err("Input/output error".into());
        }
        let totals = [0, 1, 2].map(|i: usize| self.counters[i].trim_end().parse().ok());
        Ok(observation(&mut self.meters, totals, Some(io_ways), at, fault == Stale))
    }

    fn apply(&mut self, allocation: &Allocation) -> Result<(), String> {
        if self.machine.fault() == Refused {
            return Err("Device or resource busy".into());
        }
        if let Some(ways) = allocation.io_ways {
            self.schemata = format!("IO:0={:x}\n", ways.0);
        }
        self.machine.applied += 1;
        Ok(())
    }
}

/// The loop that simulator and daemon share: what was decided in each interval, in ways.
fn run<A: Actuator>(mut actuator: A, intervals: usize) -> (Vec<Option<u32>>, A) {
    let mut policy = OneMore::default();
    let decide = |_| {
        let seen = actuator.observe().ok()?;
        let allocation = policy.decide(&seen)?;
        // An error needs no word to the policy: the next observation says what is in force.
        let _ = actuator.apply(&allocation);
        allocation.io_ways.map(Cbm::ways)
    };
    ((0..intervals).map(decide).collect(), actuator)
}

#[test]
fn with_all_counters_it_stops_one_step_after_the_best_and_goes_back() {
    let (decisions, plant) = run(Plant::new(&[]), 14);
    // The interval in which a step shows for the first time began before it was seen in force.
    let expected = [None, Some(3), None, Some(4), None, Some(5), None, Some(6), None, Some(5), None, None, None, None];
    assert_eq!(decisions, expected);
    assert_eq!(plant.io_ways, Cbm::low(5));
}

#[test]
fn it_holds_still_on_what_is_missing_and_goes_on_after() {
    for fault in [Missing, Blind] {
        let (decisions, _) = run(Plant::new(&[Fine, fault, fault, fault, Fine, Fine]), 7);
        assert_eq!(decisions, [None, None, None, None, Some(3), None, Some(4)], "{fault:?}");
    }
}

#[test]
fn a_stale_interval_is_judged_once() {
    // The step of interval 2 is seen in force in 3; 4 and 5 repeat the counters of 3, which began
    // before; 6 is the first that can be judged.
    let (decisions, _) = run(Plant::new(&[Fine, Fine, Fine, Stale, Stale, Fine]), 7);
    assert_eq!(decisions, [None, Some(3), None, None, None, Some(4), None]);
}

#[test]
fn a_step_that_was_refused_is_taken_again_and_not_judged() {
    let (decisions, plant) = run(Plant::new(&[Fine, Refused, Refused, Fine]), 6);
    assert_eq!(decisions, [None, Some(3), Some(3), Some(3), None, Some(4)]);
    assert_eq!(plant.applied, 2);
}

#[test]
fn simulator_and_host_decide_the_same() {
    for kind in [Missing, Stale, Blind, Refused] {
        // Every pattern of one fault over the first eight intervals.
        for pattern in 0..256u32 {
            let faults: Vec<_> = (0..8).map(|i| if pattern >> i & 1 == 1 { kind } else { Fine }).collect();
            let (simulated, plant) = run(Plant::new(&faults), 24);
            let (read, host) = run(Host::new(&faults), 24);
            assert_eq!(simulated, read, "{faults:?}");
            assert_eq!(plant.applied, host.machine.applied);
            assert_eq!(plant.io_ways, Cbm::low(5), "{faults:?}: it recovers");
        }
    }
}
