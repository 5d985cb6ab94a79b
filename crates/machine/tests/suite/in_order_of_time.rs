//! Several cores and a device over one memory, event by event as the server goes, against the same machine clock by clock.
//!
//! The definition turns a clock of a picosecond. At each of its ticks the device goes first and cores follow by number, each no
//! further than that tick: nobody looks ahead at memory that others use. The server's way goes from event to event, and lets a core use
//! memory up to the next event elsewhere. Both have to leave the same times, attributions and counters.
//!
//! So this test joins what others hold of the parts: a core alone follows its definition and no horizon matters to it (`core.rs`), with answers
//! that come later too (`controllers.rs`); tag arrays, DRAM and what agents have of a line match naive twins (`cache`,
//! `dram`, `memory/together_tests.rs`). Not told apart here: a core looks into its own caches in program order, as far ahead as its
//! window goes, in both ways.

use machine::cores::{BurstPacket, Core, CoreModel, CoreStep};
use machine::memory::{Hierarchy, MemoryCounters, Translation};
use machine::{Memory, PrivateLookup, Reply, Served};
use probe::Request;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use stats::{Attribution, Reason};
use units::{Addr, CoreId, Line, PacketId, Ps};

use super::core::{Op, PACKETS, PREFETCHERS, Plain, hierarchy, ops, record, spec};

/// Lines below this are everybody's, others a core's own.
const SHARED: u64 = 60;
/// From one core's own lines to the next one's.
const APART: u64 = 1 << 12;

/// Time since the one before, first line, lines, and whether it writes.
type Transfer = (u64, u64, u64, bool);

/// Who does something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Device,
    Core(usize),
}

/// What is left of a run: when each burst was done with its attribution, when each transfer was, and what memory counted.
#[derive(Debug, PartialEq)]
struct Outcome {
    bursts: Vec<Vec<(Ps, Vec<Attribution>)>>,
    transfers: Vec<Ps>,
    counters: MemoryCounters,
    dram: machine::dram::DramCounters,
    lines: u64,
}

/// A memory that tells of each use of what is shared, and has no short cut.
struct Told<'a> {
    memory: &'a mut Hierarchy,
    uses: &'a mut Vec<(Ps, Who)>,
    core: usize,
}

impl Memory for Told<'_> {
    fn next_prefetch(&mut self, core: CoreId) -> Option<(Request, PrivateLookup)> {
        self.memory.next_prefetch(core)
    }
    fn translate(&mut self, request: &Request) -> Translation {
        self.memory.translate(request)
    }
    fn lookup(&mut self, request: &Request) -> PrivateLookup {
        self.memory.lookup(request)
    }
    fn settle(&mut self, lookup: &PrivateLookup, request: &Request, now: Ps) {
        self.memory.settle(lookup, request, now);
    }
    fn fetch(&mut self, request: &Request, lookup: &PrivateLookup, now: Ps) -> Reply {
        self.uses.push((now, Who::Core(self.core)));
        self.memory.fetch(request, lookup, now)
    }
    fn private_latency(&self, served: Served) -> (Reason, Ps) {
        self.memory.private_latency(served)
    }
}

/// The machine with what is still to do.
struct Drawn<'a> {
    cores: Vec<Core>,
    bursts: &'a [Vec<Vec<Op>>],
    transfers: &'a [Transfer],
    memory: Hierarchy,
    /// When each core, and the device, goes on; none where all is done.
    due: Vec<Option<Ps>>,
    device: Option<Ps>,
    outcome: Outcome,
    started: Vec<Ps>,
    uses: Vec<(Ps, Who)>,
}

impl<'a> Drawn<'a> {
    fn new(
        model: CoreModel,
        outstanding: u32,
        bursts: &'a [Vec<Vec<Op>>],
        transfers: &'a [Transfer],
        mut memory: Hierarchy,
    ) -> Drawn<'a> {
        let spec = spec(model, 64, outstanding);
        let outcome = Outcome {
            bursts: vec![Vec::new(); bursts.len()],
            transfers: Vec::new(),
            counters: memory.counters(),
            dram: memory.dram().counters(),
            lines: 0,
        };
        memory.set_counters(outcome.counters);
        let cores = (0..bursts.len()).map(|i| Core::new(&spec, CoreId(i as u16), "core").unwrap()).collect();
        let (due, started) = (vec![None; bursts.len()], vec![Ps::ZERO; bursts.len()]);
        let device = transfers.first().map(|&(gap, ..)| Ps(gap));
        let mut drawn = Drawn { cores, bursts, transfers, memory, due, device, outcome, started, uses: Vec::new() };
        for i in 0..bursts.len() {
            // Cores are not in step.
            drawn.begin(i, Ps(5_000 + 83 * i as u64));
        }
        drawn
    }

    /// Core `i` begins its next burst, if there is one.
    fn begin(&mut self, i: usize, at: Ps) {
        let next = self.outcome.bursts[i].len();
        self.due[i] = self.bursts[i].get(next).map(|ops| {
            let own = |&(work, line, store, dep): &Op| {
                (work, if line < SHARED { line } else { line + APART * (i as u64 + 1) }, store, dep)
            };
            let core = &mut self.cores[i];
            record(&ops.iter().map(own).collect::<Vec<_>>(), core.script());
            core.start(
                (0..PACKETS).map(|id| BurstPacket { id: PacketId(id), mbuf: Addr(0), data: Addr(0), cells: 0 }),
                at,
            );
            self.started[i] = at;
            at
        });
    }

    fn transfer(&mut self, now: Ps) {
        let (_, first, count, write) = self.transfers[self.outcome.transfers.len()];
        self.uses.push((now, Who::Device));
        let at = if write {
            self.memory.dma_write(Line(first), count, now)
        } else {
            self.memory.dma_read(Line(first), count, now)
        };
        self.outcome.transfers.push(at);
        let next = self.transfers.get(self.outcome.transfers.len());
        self.device = next.map(|&(gap, ..)| now + Ps(gap));
    }

    fn stepped(&mut self, i: usize, now: Ps, step: CoreStep) {
        match step {
            CoreStep::At(at) => {
                assert!(at > now, "a core that could go on does");
                self.due[i] = Some(at);
            }
            CoreStep::Done(at) => {
                let shares: Vec<_> = (0..PACKETS as usize).map(|p| self.cores[i].attribution(p)).collect();
                assert!(shares.iter().all(|share| share.total() == at - self.started[i]));
                self.outcome.bursts[i].push((at, shares));
                self.begin(i, at);
            }
            other => panic!("{other:?}"),
        }
    }

    fn ended(mut self) -> (Outcome, Vec<(Ps, Who)>) {
        self.outcome.counters = self.memory.counters();
        self.outcome.dram = self.memory.dram().counters();
        self.outcome.lines = self.memory.llc_occupancy();
        (self.outcome, self.uses)
    }

    /// Tick by tick: see the module header.
    fn clock_by_clock(mut self) -> (Outcome, Vec<(Ps, Who)>) {
        let mut now = Ps::ZERO;
        while self.device.is_some() || self.due.iter().any(Option::is_some) {
            while self.device == Some(now) {
                self.transfer(now);
            }
            for i in 0..self.cores.len() {
                while self.due[i] == Some(now) {
                    let mut told = Told { memory: &mut self.memory, uses: &mut self.uses, core: i };
                    let step = self.cores[i].step(&mut told, &Plain { short_cut: false }, now, now);
                    self.stepped(i, now, step);
                }
            }
            now += Ps(1);
        }
        self.ended()
    }

    /// From event to event, a core as far as `far` says of the next one elsewhere.
    fn by_events(mut self, far: impl Fn(Ps) -> Ps) -> Outcome {
        loop {
            let cores = self.due.iter().enumerate().filter_map(|(i, due)| due.map(|at| (at, Who::Core(i))));
            let mut events: Vec<(Ps, Who)> = self.device.map(|at| (at, Who::Device)).into_iter().chain(cores).collect();
            events.sort_unstable();
            let Some(&(now, who)) = events.first() else { return self.ended().0 };
            let horizon = events.get(1).map_or(Ps::MAX, |&(next, _)| far(next));
            match who {
                Who::Device => self.transfer(now),
                Who::Core(i) => {
                    let layout = Plain { short_cut: true };
                    let step = self.cores[i].step(&mut self.memory, &layout, now, horizon.max(now));
                    self.stepped(i, now, step);
                }
            }
        }
    }
}

/// Whether two use what is shared in the same picosecond: who comes first is then the order of their events.
fn has_ties(uses: &[(Ps, Who)]) -> bool {
    uses.windows(2).any(|two| two[0].0 == two[1].0 && two[0].1 != two[1].1)
}

fn bursts() -> impl Strategy<Value = Vec<Vec<Vec<Op>>>> {
    prop::collection::vec(prop::collection::vec(ops(), 1..4), 2..4)
}

fn transfers() -> impl Strategy<Value = Vec<Transfer>> {
    prop::collection::vec((1u64..400_000, 0u64..300, 1u64..24, any::<bool>()), 0..30)
}

proptest! {
    // A machine goes through every clock: a case takes a third of a second where tests are not optimised.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cores_and_devices_over_one_memory_match_a_machine_clock_by_clock(
        bursts in bursts(), transfers in transfers(), in_order: bool, outstanding in 1u32..16,
        prefetcher in prop::option::weighted(0.3, prop::sample::select(PREFETCHERS)),
    ) {
        let model = if in_order { CoreModel::InOrder } else { CoreModel::Window };
        let drawn = || Drawn::new(model, outstanding, &bursts, &transfers, hierarchy(None, prefetcher));
        let (defined, uses) = drawn().clock_by_clock();
        prop_assert!(uses.is_sorted_by_key(|&(at, _)| at), "what is shared is used in order of time");
        prop_assert_eq!(&drawn().by_events(|next| next.since(Ps(1))), &defined);
        if !has_ties(&uses) {
            prop_assert_eq!(&drawn().by_events(|next| next), &defined);
        }
    }
}

#[test]
fn a_core_that_looks_further_ahead_is_told_from_the_definition() {
    let mut runner = TestRunner::deterministic();
    let (mut further, mut ties) = (0, 0);
    for _ in 0..40 {
        let (bursts, transfers) = (bursts(), transfers()).new_tree(&mut runner).unwrap().current();
        let drawn = || Drawn::new(CoreModel::Window, 8, &bursts, &transfers, hierarchy(None, None));
        let (defined, uses) = drawn().clock_by_clock();
        ties += usize::from(has_ties(&uses));
        further += usize::from(drawn().by_events(|next| next + Ps(100_000)) != defined);
    }
    assert!(further > 20, "{further} of 40");
    assert!(ties < 20, "in {ties} of 40 the server's own horizon is not looked at");
}
