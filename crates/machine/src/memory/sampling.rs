//! Set sampling: L2, LLC and DRAM are followed line by line for one of every so many sets of the LLC, and what happens to
//! the other lines is taken from what happened to followed ones of their class lately.
//!
//! Of each `one_in` sets that follow each other in a slice, one, drawn by a hash, is followed, and so in all slices: strides
//! of buffers meet followed sets as often as others. What goes to these sets is simulated as it is without sampling. L2
//! has so many times fewer sets, each as full as it would be. L1, the directory, TLBs, prefetchers, the queues of slices
//! and the timing of cores and DRAM see all lines.
//!
//! Classes of cores' requests are a site, a kind of access and a class of service. Each keeps its last outcomes: who
//! served it, and how many lines that sent to DRAM, from where. A line that is not followed gets them in turn. Lines of
//! devices go by row, lines of all slices that share a set: their classes (descriptors, and three places in a packet)
//! keep the shares of hits and of lines sent to DRAM, and a row that is not followed gets these shares of its lines,
//! what is left of a line being kept for the next. Results depend on nothing but the seed. A class none of whose lines
//! is followed, or of cores has been for long, has its lines followed nevertheless.
//!
//! How far shares may be off is told from parts of the followed sets, as in `cache::simulate_sample` (Cochran, Sampling
//! Techniques, 3rd ed., section 6.4: the ratio estimator over groups). Left out: back-invalidations by an inclusive LLC
//! of lines that are not followed, and what L1 writes down to them.

use std::ops::Sub;

use probe::{Access, Request};
use units::Line;

use super::LevelCounters;
use super::mix::mix;
use crate::divisor::Divisor;
use crate::{MachineError, Served};

/// Parts of the followed sets that are compared.
pub const PARTS: usize = 16;
/// Student's t for 95 % at 15 degrees of freedom.
const STUDENT: f64 = 2.131;
/// Outcomes that a class keeps.
const RING: usize = 64;
/// Outcomes that a class has to have before others are taken from it.
const ENOUGH: u32 = 8;
/// The lines that a device's class remembers.
const MEMORY: i64 = 256;
/// So many lines in a row, times the lines that one stands for, may be taken from a class without another outcome.
const STALE: u32 = 1024;
/// Classes of cores: 256 sites, three kinds of access, four classes of service.
const CORE_CLASSES: usize = 4096;
/// Classes of devices: reads and writes, descriptors and three places in a packet.
const DEVICE_CLASSES: usize = 8;
/// A whole line, in [`Shares`].
const ONE: i64 = 1 << 20;

/// What happened to a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Who served it.
    pub(super) found: Found,
    /// Lines that went to DRAM for it.
    pub(super) writes: u8,
    /// Another core keeps it, too.
    pub(super) shared: bool,
    /// From the line to the last of them.
    pub(super) away: i32,
}

/// Where a line was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Found {
    /// In L2, and nowhere else.
    L2,
    /// In L2, and perhaps with others.
    L2Shared,
    Llc,
    /// With another core.
    Snoop,
    #[default]
    Dram,
}

impl Found {
    pub(super) fn by(served: Served) -> Found {
        match served {
            Served::L1 | Served::L2 => Found::L2,
            Served::Llc | Served::Engine => Found::Llc,
            Served::Snoop => Found::Snoop,
            Served::Dram => Found::Dram,
        }
    }

    pub(super) fn in_l2(self) -> bool {
        matches!(self, Found::L2 | Found::L2Shared)
    }
}

/// How a request that misses L1 finds out what happens to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// It goes through the levels.
    #[default]
    Followed,
    /// It goes through the levels, and its class remembers what happened.
    Observed(u32),
    /// This happens to it.
    Drawn(Outcome),
}

impl Route {
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Route::Drawn(outcome) if outcome.shared)
    }
}

#[derive(Clone, Debug)]
struct Class {
    outcomes: [Outcome; RING],
    /// Outcomes seen.
    seen: u32,
    /// The next one to be taken.
    next: u32,
    /// Lines that took one since the last was seen.
    taken: u32,
}

impl Class {
    const EMPTY: Class = Class {
        outcomes: [Outcome { found: Found::Dram, writes: 0, shared: false, away: 0 }; RING],
        seen: 0,
        next: 0,
        taken: 0,
    };
}

/// What happened to lines of a device's class lately, in shares of [`ONE`], and what lines that are not followed are
/// still owed of that.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    hits: i64,
    writes: i64,
    /// Of lines that were not written back behind the one before.
    runs: i64,
    hits_owed: i64,
    writes_owed: i64,
    runs_owed: i64,
    /// From a line to the one that was written back for it.
    away: i64,
    /// Lines seen.
    seen: u32,
}

/// What happens to a row of lines that a device accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowOutcome {
    /// Lines that a cache has.
    pub hits: u64,
    /// Lines that go to DRAM for them.
    pub writes: u64,
    /// Runs of lines that follow each other among these.
    pub runs: u64,
    /// From a line to one of these.
    pub away: i64,
}

/// Hits and misses of the followed lines, by part: of L2, of the LLC, of device writes and of device reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleCounters {
    parts: [[LevelCounters; 4]; PARTS],
}

/// What is counted in [`SampleCounters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// L2 lookups by cores.
    L2,
    /// LLC lookups by cores.
    Llc,
    /// Lines written by devices.
    DmaWrite,
    /// Lines read by devices.
    DmaRead,
}

impl SampleCounters {
    /// The share of hits, and its half-width at 95 %, where one in `one_in` sets was followed; [`None`] if nothing was.
    pub fn hit_rate(&self, of: Sampled, one_in: u32) -> Option<(f64, f64)> {
        let parts = self.parts.map(|part| part[of as usize]);
        let n = |c: &LevelCounters| (c.hits + c.misses) as f64;
        let lookups: f64 = parts.iter().map(n).sum();
        if lookups == 0.0 {
            return None;
        }
        let ratio = parts.iter().map(|c| c.hits as f64).sum::<f64>() / lookups;
        let mean = lookups / PARTS as f64;
        let squares: f64 = parts.iter().map(|c| (c.hits as f64 - ratio * n(c)).powi(2)).sum();
        let not_seen = 1.0 - 1.0 / f64::from(one_in);
        let variance = not_seen * squares / (PARTS * (PARTS - 1)) as f64 / mean.powi(2);
        Some((ratio, STUDENT * variance.sqrt()))
    }

    /// Followed lines that were counted.
    pub fn lines(&self, of: Sampled) -> u64 {
        self.parts.iter().map(|part| part[of as usize]).map(|c| c.hits + c.misses).sum()
    }
}

impl Sub for SampleCounters {
    type Output = SampleCounters;
    /// What was counted since `rhs`, an earlier state of the same counters.
    fn sub(self, rhs: SampleCounters) -> SampleCounters {
        let of = |p: usize| std::array::from_fn(|i| self.parts[p][i] - rhs.parts[p][i]);
        SampleCounters { parts: std::array::from_fn(of) }
    }
}

/// Which lines are followed, and what happened to them. See the module header.
#[derive(Clone, Debug)]
pub(super) struct Sampling {
    one_in: u32,
    sets: Divisor,
    shift: u32,
    /// Of each run of sets: which one is followed.
    followed: Vec<u8>,
    classes: Vec<Class>,
    devices: [Shares; DEVICE_CLASSES],
    counters: SampleCounters,
}

/// The most sets of which one is followed.
pub const MOST_SAMPLED: u32 = 64;

impl Sampling {
    /// One of `one_in` of the `sets` of a slice.
    ///
    /// # Errors
    /// A number that is no power of two, greater than 64, or does not divide the sets into 16 parts.
    pub(super) fn new(one_in: u32, sets: u64, path: &str) -> Result<Sampling, MachineError> {
        let error = |allowed: String, remedy: &str| {
            Err(MachineError::new(format!("{path}.sampling"), one_in.to_string(), allowed, remedy.into()))
        };
        if !one_in.is_power_of_two() || one_in > MOST_SAMPLED {
            return error(format!("a power of two, 1 to {MOST_SAMPLED}"), "8 follows one set of eight; 1 follows all");
        }
        if !sets.is_multiple_of(u64::from(one_in) * PARTS as u64) {
            return error(
                format!("a number that divides the {sets} sets of a slice of the LLC into a multiple of {PARTS}"),
                "use a smaller number, or 1 to follow all sets",
            );
        }
        let runs = sets as u32 / one_in;
        let drawn = |run: u32| (mix(run.wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995) & (one_in - 1)) as u8;
        Ok(Sampling {
            one_in,
            sets: Divisor::new(sets as u32),
            shift: one_in.trailing_zeros(),
            followed: (0..runs).map(drawn).collect(),
            classes: vec![Class::EMPTY; CORE_CLASSES],
            devices: [Shares::default(); DEVICE_CLASSES],
            counters: SampleCounters::default(),
        })
    }

    pub(super) fn one_in(&self) -> u32 {
        self.one_in
    }

    pub(super) fn counters(&self) -> SampleCounters {
        self.counters
    }

    pub(super) fn set_counters(&mut self, counters: SampleCounters) {
        self.counters = counters;
    }

    /// Whether what the slices know as `within` is followed.
    #[inline(always)]
    pub(super) fn follows(&self, within: Line) -> bool {
        let set = self.sets.remainder(within.0 as u32);
        u32::from(self.followed[(set >> self.shift) as usize]) == set & (self.one_in - 1)
    }

    /// The class of a core's request.
    #[inline(always)]
    pub(super) fn core_class(request: &Request) -> u32 {
        let kind = match request.access {
            Access::Prefetch => 2,
            access => u32::from(access.writes()),
        };
        u32::from(request.site & 255) | kind << 8 | u32::from(request.clos.0 & 3) << 10
    }

    /// The class of lines at `place` of a packet and beyond that a device writes or reads; descriptors have no place.
    #[inline(always)]
    pub(super) fn device_class(write: bool, place: Option<u64>) -> usize {
        usize::from(write) * 4 + place.map_or(0, |place| 1 + place.min(2) as usize)
    }

    /// What is to be done about a line of `class` that the slices know as `within`.
    #[inline(always)]
    pub(super) fn route(&mut self, within: Line, class: u32) -> Route {
        if self.follows(within) {
            return Route::Observed(class);
        }
        let class = &mut self.classes[class as usize];
        if class.seen < ENOUGH || class.taken > STALE * self.one_in {
            return Route::Followed;
        }
        class.taken += 1;
        let last = class.seen.min(RING as u32);
        class.next = if class.next + 1 >= last { 0 } else { class.next + 1 };
        Route::Drawn(class.outcomes[class.next as usize % RING])
    }

    /// What happens to `count` lines of a device's class that are not followed; [`None`] where that is not known.
    #[inline(always)]
    pub(super) fn row_outcome(&mut self, class: usize, count: u64) -> Option<RowOutcome> {
        let shares = &mut self.devices[class];
        if shares.seen < ENOUGH {
            return None;
        }
        let whole = |share: i64, owed: &mut i64| {
            *owed += share * count as i64;
            // Half a line too many or too few at most.
            let lines = ((*owed + ONE / 2) / ONE).max(0);
            *owed -= lines * ONE;
            lines as u64
        };
        let hits = whole(shares.hits, &mut shares.hits_owed).min(count);
        let writes = whole(shares.writes, &mut shares.writes_owed);
        let runs = whole(shares.runs, &mut shares.runs_owed);
        Some(RowOutcome { hits, writes, runs, away: shares.away })
    }

    /// This happened to `count` followed lines of a device's class.
    pub(super) fn saw_row(&mut self, class: usize, count: u64, outcome: RowOutcome) {
        let shares = &mut self.devices[class];
        // A mean of all lines at first, and a moving one later.
        let before = i64::from(shares.seen).min(MEMORY);
        let all = before + count as i64;
        shares.hits = (shares.hits * before + outcome.hits as i64 * ONE) / all;
        shares.writes = (shares.writes * before + outcome.writes as i64 * ONE) / all;
        shares.runs = (shares.runs * before + outcome.runs as i64 * ONE) / all;
        if outcome.writes > 0 {
            shares.away = outcome.away;
        }
        shares.seen = all.min(MEMORY) as u32;
    }

    /// This happened to a line of `class`.
    #[inline]
    pub(super) fn saw(&mut self, class: u32, outcome: Outcome) {
        let class = &mut self.classes[class as usize];
        class.outcomes[class.seen as usize % RING] = outcome;
        class.taken = 0;
        // Counts on within the ring once it is full.
        class.seen = if class.seen + 1 >= 2 * RING as u32 { RING as u32 } else { class.seen + 1 };
    }

    /// Counts a followed line.
    #[inline]
    pub(super) fn count(&mut self, of: Sampled, within: Line, hit: bool) {
        let run = self.sets.remainder(within.0 as u32) >> self.shift;
        self.counters.parts[run as usize % PARTS][of as usize].count(hit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_set_of_each_run_is_followed() {
        for one_in in [2, 8, 64] {
            let sampling = Sampling::new(one_in, 2048, "machine").unwrap();
            for run in 0..2048 / u64::from(one_in) {
                let sets = run * u64::from(one_in)..(run + 1) * u64::from(one_in);
                // Also beyond the first lines of a set.
                assert_eq!(sets.filter(|&set| sampling.follows(Line(set + 5 * 2048))).count(), 1);
            }
            // Neighbours of odd and even numbers alike.
            let even = (0..2048).filter(|&set| sampling.follows(Line(set)) && set % 2 == 0).count();
            let all = 2048 / one_in as usize;
            assert!(even * 10 > all * 3 && even * 10 < all * 7, "{even} of {all}");
        }
    }

    #[test]
    fn what_cannot_be_sampled_is_refused() {
        let text = |one_in, sets| Sampling::new(one_in, sets, "machine").unwrap_err().to_string();
        assert!(text(3, 2048).starts_with("machine.sampling = 3: allowed is a power of two, 1 to 64"));
        assert!(text(128, 2048).starts_with("machine.sampling = 128: allowed is a power of two, 1 to 64"));
        assert!(text(0, 2048).starts_with("machine.sampling = 0:"));
        assert!(text(8, 100).contains("divides the 100 sets"));
    }

    #[test]
    fn a_class_that_is_not_followed_is_followed_nevertheless() {
        let mut sampling = Sampling::new(8, 2048, "machine").unwrap();
        let line = (0..).map(Line).find(|&line| !sampling.follows(line)).unwrap();
        assert_eq!(sampling.route(line, 3), Route::Followed);
        let outcome = Outcome { found: Found::Snoop, writes: 1, shared: true, away: -7 };
        (0..ENOUGH).for_each(|_| sampling.saw(3, outcome));
        let mut drawn = 0;
        while sampling.route(line, 3) == Route::Drawn(outcome) {
            drawn += 1;
        }
        // Until too many have taken what was seen long ago.
        assert_eq!(drawn, STALE * 8 + 1);
    }

    proptest! {
        #[test]
        fn rows_get_the_shares_that_were_seen(
            seen in prop::collection::vec((1u64..30, 0u64..=100, 0u64..=100), 8..60),
            counts in prop::collection::vec(1u64..30, 1..100),
        ) {
            let mut sampling = Sampling::new(64, 2048, "machine").unwrap();
            for (count, hits, writes) in seen {
                let (hits, writes) = (count * hits / 100, count * writes / 100);
                sampling.saw_row(1, count, RowOutcome { hits, writes, runs: writes, away: 5 });
            }
            let shares = sampling.devices[1];
            let (mut lines, mut hits, mut writes) = (0, 0, 0);
            for count in counts {
                if let Some(outcome) = sampling.row_outcome(1, count) {
                    lines += count as i64;
                    hits += outcome.hits as i64;
                    writes += outcome.writes as i64;
                }
            }
            prop_assert!((hits * ONE - shares.hits * lines).abs() <= ONE, "{hits} of {lines}");
            prop_assert!((writes * ONE - shares.writes * lines).abs() <= ONE, "{writes} of {lines}");
        }

        #[test]
        fn drawn_outcomes_are_those_seen_last(last in prop::collection::vec(0u8..200, RING..3 * RING)) {
            let mut sampling = Sampling::new(8, 2048, "machine").unwrap();
            for &writes in &last {
                sampling.saw(9, Outcome { writes, ..Outcome::default() });
            }
            let line = (0..).map(Line).find(|&line| !sampling.follows(line)).unwrap();
            let mut drawn: Vec<u8> = (0..RING)
                .map(|_| match sampling.route(line, 9) {
                    Route::Drawn(outcome) => outcome.writes,
                    other => panic!("{other:?}"),
                })
                .collect();
            let mut expected = last[last.len() - RING..].to_vec();
            drawn.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(drawn, expected);
        }
    }
}
