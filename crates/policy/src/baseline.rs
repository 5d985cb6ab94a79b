//! Policies to compare with: fixed settings, thresholds, and two from the literature.

use control::{Allocation, Counter, Observation, Policy};
use units::{Cbm, Clos, LINE_BYTES};

use crate::{Floors, Partition};

/// The settings of a server that nobody has set: two ways for devices at the top, all ways for everyone.
#[derive(Clone, Debug)]
pub struct SharedWays {
    floors: Floors,
    io: u32,
}

impl SharedWays {
    /// Device writes in `io` ways that cores fill too.
    pub fn new(floors: Floors, io: u32) -> SharedWays {
        SharedWays { floors, io }
    }
}

impl Policy for SharedWays {
    fn decide(&mut self, seen: &Observation) -> Option<Allocation> {
        let all = Cbm::low(self.floors.ways);
        let io = Cbm::span(self.floors.ways.saturating_sub(self.io), self.io);
        let classes = self.floors.core_classes.iter().chain(&self.floors.other_classes);
        let wanted = Allocation { io_ways: Some(io), classes: classes.map(|c| (Clos(*c), all)).collect() };
        let is_there = seen.in_force.io_ways? == io
            && wanted.classes.iter().all(|(c, m)| seen.in_force.classes.iter().all(|(d, n)| c != d || m == n));
        (!is_there).then_some(wanted)
    }
}

/// Isolation with a fixed number of ways for devices: two, as ResQ leaves them (Tootoonchian et al., NSDI 2018),
/// which sizes the rings instead.
#[derive(Clone, Debug)]
pub struct Isolated {
    floors: Floors,
    partition: Partition,
}

impl Isolated {
    /// `io` ways for devices.
    pub fn new(floors: Floors, io: u32) -> Isolated {
        Isolated { partition: Partition::new(io, &floors), floors }
    }

    /// ResQ's.
    pub fn resq(floors: Floors) -> Isolated {
        Isolated::new(floors, 2)
    }

    /// The most descriptors by ResQ's rule: buffers of `packet_bytes` bytes that fit into the I/O ways, in a power of
    /// two.
    pub fn resq_descriptors(io_bytes: u64, packet_bytes: u64) -> u64 {
        let fit = io_bytes / packet_bytes.max(1);
        if fit == 0 { 0 } else { 1 << fit.ilog2() }
    }
}

impl Policy for Isolated {
    fn decide(&mut self, seen: &Observation) -> Option<Allocation> {
        apply(self.partition, &self.floors, seen)
    }
}

/// The paper's states taken literally: above a threshold a miss rate is a bottleneck, and gets a way an
/// interval.
#[derive(Clone, Debug)]
pub struct Thresholds {
    floors: Floors,
    partition: Partition,
    miss_rate: f64,
}

impl Thresholds {
    /// A threshold for both miss rates.
    pub fn new(floors: Floors, miss_rate: f64) -> Thresholds {
        Thresholds { partition: Partition::new(2, &floors), floors, miss_rate }
    }
}

impl Policy for Thresholds {
    fn decide(&mut self, seen: &Observation) -> Option<Allocation> {
        if let Some(io) = value(seen.ddio_write_miss_rate) {
            let cores = seen.classes.iter().filter(|c| self.floors.core_classes.contains(&c.clos.0));
            let core = cores.filter_map(|c| value(c.llc_miss_rate)).fold(0.0, f64::max);
            let ways = match (io > self.miss_rate, core > self.miss_rate) {
                (true, false) => self.partition.io() + 1,
                (false, true) => self.partition.io().saturating_sub(1),
                _ => self.partition.io(),
            };
            self.partition = Partition::new(ways, &self.floors);
        }
        apply(self.partition, &self.floors, seen)
    }
}

/// After IAT (Yuan et al., ISCA 2021, section V): I/O demand by DDIO misses a second, reclaimed when they are few; cores are
/// given back a way when their misses rise while device writes hit. Its tenants' part is left out.
#[derive(Clone, Debug)]
pub struct IatLike {
    floors: Floors,
    partition: Partition,
    last: Option<[f64; 3]>,
}

/// DDIO misses a second above which I/O wants more: 1 M (section V.C).
const IAT_MISSES: f64 = 1e6;
/// Changes below this share are none (table I: 3 %).
const IAT_STABLE: f64 = 0.03;
/// The most ways that I/O is given (table I: 6).
const IAT_MOST: u32 = 6;

impl IatLike {
    /// At two ways.
    pub fn new(floors: Floors) -> IatLike {
        IatLike { partition: Partition::new(2, &floors), floors, last: None }
    }
}

impl Policy for IatLike {
    fn decide(&mut self, seen: &Observation) -> Option<Allocation> {
        let cores = seen.classes.iter().filter(|c| self.floors.core_classes.contains(&c.clos.0));
        let core = cores.filter_map(|c| value(c.llc_miss_rate)).fold(0.0, f64::max);
        if let (Some(miss), Some(bytes)) = (value(seen.ddio_write_miss_rate), value(seen.pcie_write_bytes_per_s)) {
            let misses = miss * bytes / LINE_BYTES as f64;
            let hits = (1.0 - miss) * bytes / LINE_BYTES as f64;
            let now = [misses, hits, core];
            let io = self.partition.io();
            let moved = |i: usize, last: [f64; 3]| (now[i] - last[i]) / last[i].abs().max(1e-9);
            let is_stable = self.last.is_some_and(|last| (0..3).all(|i| moved(i, last).abs() < IAT_STABLE));
            let core_wants = self.last.is_some_and(|last| moved(1, last) < -IAT_STABLE && moved(2, last) > IAT_STABLE);
            let ways = match () {
                () if core_wants => io.saturating_sub(1),
                () if misses > IAT_MISSES && !is_stable => (io + 1).min(IAT_MOST.max(io)),
                () if misses <= IAT_MISSES / 10.0 => io.saturating_sub(1),
                () => io,
            };
            self.last = Some(now);
            self.partition = Partition::new(ways, &self.floors);
        }
        apply(self.partition, &self.floors, seen)
    }
}

fn value(counter: Counter) -> Option<f64> {
    counter.map(|s| s.value).filter(|v| v.is_finite())
}

fn apply(partition: Partition, floors: &Floors, seen: &Observation) -> Option<Allocation> {
    let plan = partition.plan(floors);
    (!plan.is_in_force(&seen.in_force, floors)?).then(|| plan.allocation(floors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resq_fits_the_ring_into_the_io_ways() {
        // The paper: ResQ's ring is the default's, 4096, in 6 MB of I/O ways with packets of 1500 bytes.
        assert_eq!(Isolated::resq_descriptors(6 << 20, 1500), 4096);
        assert_eq!(Isolated::resq_descriptors(4_718_592, 1500), 2048);
        assert_eq!(Isolated::resq_descriptors(100, 1500), 0);
    }

    #[test]
    fn a_server_that_nobody_has_set_shares_all_ways() {
        let mut shared = SharedWays::new(Floors::default(), 2);
        let mut seen = Observation {
            in_force: Allocation { io_ways: Some(Cbm(1)), ..Allocation::default() },
            ..Observation::default()
        };
        let wanted = shared.decide(&seen).unwrap();
        assert_eq!(wanted.io_ways, Some(Cbm(0b110_0000_0000)));
        assert!(wanted.classes.iter().all(|(_, mask)| *mask == Cbm::low(11)));
        seen.in_force = wanted;
        assert_eq!(shared.decide(&seen), None);
    }
    /// Ways of devices after each interval with so many misses and hits of device writes a second, and such a miss rate of cores.
    fn iat(intervals: &[(f64, f64, f64)]) -> Vec<u32> {
        let mut policy = IatLike::new(Floors::default());
        let sample = |value| Some(control::Sample { value, age: units::Ps::ZERO, interval: units::Ps(1) });
        let after = |(misses, hits, core): &(f64, f64, f64)| {
            let class =
                control::ClassObservation { clos: Clos(1), llc_miss_rate: sample(*core), llc_bytes: None, busy: None };
            let seen = Observation {
                ddio_write_miss_rate: sample(misses / (misses + hits)),
                pcie_write_bytes_per_s: sample((misses + hits) * LINE_BYTES as f64),
                classes: vec![class],
                ..Observation::default()
            };
            let _ = policy.decide(&seen);
            policy.partition.io()
        };
        intervals.iter().map(after).collect()
    }

    #[test]
    fn iat_gives_devices_ways_while_they_miss_and_takes_them_back() {
        let grows = [(2e6, 1e6, 0.1), (2.01e6, 1e6, 0.1), (3e6, 1e6, 0.1), (4e6, 1e6, 0.1), (5e6, 1e6, 0.1)];
        assert_eq!(iat(&grows), [3, 3, 4, 5, 6], "what moves by less than 3 % is stable");
        let all = [&grows[..], &[(6e6, 1e6, 0.1), (7e6, 1e6, 0.1)]].concat();
        assert_eq!(iat(&all)[5..], [6, 6], "six at most");
        assert_eq!(iat(&[(1e5, 1e5, 0.1)]), [1], "a tenth of a million are few");
        assert_eq!(iat(&[(1.1e5, 1e5, 0.1)]), [2]);
        assert_eq!(iat(&[(1e6, 1e6, 0.1)]), [2], "a million are not too many yet");
    }

    #[test]
    fn iat_gives_cores_a_way_back_where_hits_fall_and_their_misses_rise() {
        let then = |next| iat(&[(5e5, 1e6, 0.1), next])[1];
        assert_eq!(then((5e5, 9e5, 0.2)), 1);
        assert_eq!(then((5e5, 9e5, 0.1)), 2, "cores do not miss more");
        assert_eq!(then((5e5, 1e6, 0.2)), 2, "as many device writes hit");
        assert_eq!(then((5e5, 9.8e5, 0.2)), 2, "hits are stable");
    }

    #[test]
    fn thresholds_begin_at_two_ways_and_move_one_towards_whom_alone_misses() {
        let ways = |io: f64, core: f64| {
            let mut policy = Thresholds::new(Floors::default(), 0.1);
            let sample = |value| Some(control::Sample { value, age: units::Ps::ZERO, interval: units::Ps(1) });
            let class =
                control::ClassObservation { clos: Clos(1), llc_miss_rate: sample(core), llc_bytes: None, busy: None };
            let seen = Observation { ddio_write_miss_rate: sample(io), classes: vec![class], ..Observation::default() };
            let _ = policy.decide(&seen);
            policy.partition.io()
        };
        assert_eq!([ways(0.2, 0.0), ways(0.0, 0.2), ways(0.2, 0.2), ways(0.0, 0.0), ways(0.1, 0.1)], [3, 1, 2, 2, 2]);
    }
}
