//! Seam: device writes into I/O ways under masks that change while running (`upf-cache`).
//!
//! A `control::Allocation` is applied to the LLC of a running machine at a simulated time. A mask
//! limits where a device write may allocate; hits are anywhere; changing it moves nothing. The
//! settings are checked before any is applied, since an actuator applies all or none.

use control::{Actuator, Allocation, Observation};
use engine::{Engine, Model};
use machine::cache::CacheSpec;
use machine::dram::DramSpec;
use machine::memory::{Hierarchy, LlcSpec, MemorySpec, Ways};
use probe::{Access, Request};
use units::{Cbm, Clos, CoreId, Line, Ps, Size, Span};

const SETS: u64 = 16;
const WAYS: u32 = 11;

fn hierarchy(io_ways: Cbm, core_ways: Cbm) -> Hierarchy {
    let ns = Span::from_ns;
    let cache = |sets: u64, ways: u32, latency| CacheSpec {
        size: Size::from_bytes(sets * u64::from(ways) * 64),
        ways,
        latency: ns(latency),
    };
    let spec = MemorySpec {
        l1: cache(1, 2, 1.0),
        l2: cache(1, 4, 4.0),
        tlb: None,
        prefetcher: None,
        waiting_prefetches: 0,
        copy_table: None,
        copy_engine: None,
        llc: LlcSpec {
            slices: 1,
            hash: Default::default(),
            interconnect: None,
            size: Size::from_bytes(SETS * u64::from(WAYS) * 64),
            ways: WAYS,
            latency: ns(20.0),
            interval: ns(1.0),
            inclusion: Default::default(),
            replacement: Default::default(),
            core_age: 2,
            io_age: 3,
            core_ways: Some(Ways::Mask(core_ways)),
            io_ways: Ways::Mask(io_ways),
            snoop: ns(20.0),
            coherence: Default::default(),
            inclusive_ways: None,
            tenants: None,
        },
        dram: DramSpec {
            standard: None,
            currents: None,
            page: machine::dram::PagePolicy::Open,
            channels: 1,
            banks: 16,
            row: Size::from_bytes(8192),
            t_cl: ns(14.0),
            t_rcd: ns(14.0),
            t_rp: ns(14.0),
            t_ras: ns(32.0),
            t_burst: ns(3.0),
            t_refi: ns(7800.0),
            t_rfc: ns(350.0),
            overhead: ns(20.0),
            all_hits: false,
            controller: None,
        },
    };
    Hierarchy::new(&spec, 1, "machine.memory").unwrap()
}

/// The machine as an actuator.
struct Plant {
    memory: Hierarchy,
    now: Ps,
    io_ways: Cbm,
}

impl Actuator for Plant {
    type Error = Cbm;

    fn observe(&mut self) -> Result<Observation, Cbm> {
        let in_force = Allocation { io_ways: Some(self.io_ways), ..Allocation::default() };
        Ok(Observation { at: self.now, in_force, ..Observation::default() })
    }

    fn apply(&mut self, allocation: &Allocation) -> Result<(), Cbm> {
        let masks = || allocation.io_ways.into_iter().chain(allocation.classes.iter().map(|c| c.1));
        if let Some(bad) = masks().find(|m| !m.is_contiguous() || m.0 & !Cbm::low(WAYS).0 != 0) {
            return Err(bad);
        }
        if let Some(ways) = allocation.io_ways {
            self.io_ways = ways;
            self.memory.set_io_ways(ways).map_err(|_| ways)?;
        }
        for &(clos, ways) in &allocation.classes {
            self.memory.set_class_ways(clos, ways).map_err(|_| ways)?;
        }
        Ok(())
    }
}

fn plant(io_ways: Cbm, core_ways: Cbm) -> Plant {
    Plant { memory: hierarchy(io_ways, core_ways), now: Ps::ZERO, io_ways }
}

impl Plant {
    fn access(&mut self, line: u64, access: Access) {
        let request =
            Request { addr: Line(line).addr(), bytes: 64, site: 0, access, clos: Clos(0), core: CoreId(0), mapping: 0 };
        let response = self.memory.access(&request, self.now);
        assert_eq!(response.path.total(), response.at - self.now);
        self.now = response.at;
    }

    /// Writes `lines` as a device does: how many were hits and how many were not.
    fn dma(&mut self, lines: std::ops::Range<u64>) -> (u64, u64) {
        let before = self.memory.counters().dma_write;
        lines.for_each(|line| self.access(line, Access::DmaWrite));
        let after = self.memory.counters().dma_write;
        (after.hits - before.hits, after.misses - before.misses)
    }
}

fn io(ways: Cbm) -> Allocation {
    Allocation { io_ways: Some(ways), ..Allocation::default() }
}

#[test]
fn a_mask_limits_fills_and_changing_it_moves_nothing() {
    let mut plant = plant(Cbm::low(2), Cbm::low(WAYS));
    assert_eq!(plant.dma(0..10 * SETS), (0, 10 * SETS));
    assert_eq!(plant.memory.llc_occupancy(), 2 * SETS);
    plant.apply(&io(Cbm::span(8, 3))).unwrap();
    assert_eq!(plant.memory.llc_occupancy(), 2 * SETS);
    // What lies in the ways that are no longer allowed is still hit, in place.
    assert_eq!(plant.dma(8 * SETS..10 * SETS), (2 * SETS, 0));
    assert_eq!(plant.memory.llc_occupancy(), 2 * SETS);
    // New lines take the new ways only, and leave the old ones.
    assert_eq!(plant.dma(20 * SETS..30 * SETS), (0, 10 * SETS));
    assert_eq!(plant.memory.llc_occupancy(), 5 * SETS);
    assert_eq!(plant.dma(8 * SETS..10 * SETS), (2 * SETS, 0));
}

#[test]
fn a_device_write_hits_where_a_core_has_put_the_line() {
    let mut plant = plant(Cbm::low(2), Cbm::span(2, 9));
    (0..9 * SETS).for_each(|line| plant.access(line, Access::Load));
    assert_eq!(plant.memory.llc_occupancy(), 9 * SETS);
    assert_eq!(plant.dma(0..9 * SETS), (9 * SETS, 0));
    assert_eq!(plant.memory.llc_occupancy(), 9 * SETS);
}

#[test]
fn core_fills_stay_in_their_mask_after_it_shrinks() {
    let mut plant = plant(Cbm::low(2), Cbm::span(2, 9));
    (0..9 * SETS).for_each(|line| plant.access(line, Access::Load));
    plant.apply(&Allocation { classes: vec![(Clos(0), Cbm::span(2, 1))], ..Allocation::default() }).unwrap();
    (100 * SETS..104 * SETS).for_each(|line| plant.access(line, Access::Load));
    // One way was filled again and again: eight ways still hold the lines of before.
    let (hits, _) = plant.dma(0..9 * SETS);
    assert_eq!(hits, 8 * SETS);
}

#[test]
fn of_several_settings_all_are_applied_or_none() {
    let mut plant = plant(Cbm::low(2), Cbm::low(WAYS));
    for bad in [Cbm(0b101), Cbm::span(9, 3), Cbm(0)] {
        let both = Allocation { io_ways: Some(Cbm::low(6)), classes: vec![(Clos(1), bad)] };
        assert_eq!(plant.apply(&both), Err(bad));
        assert_eq!(plant.observe().unwrap().in_force.io_ways, Some(Cbm::low(2)));
        assert_eq!(plant.dma(0..4 * SETS), (0, 4 * SETS), "still two ways");
    }
}

#[derive(Clone, Copy)]
enum Event {
    Packet(u64),
    Apply(Cbm),
}

/// A device that writes a ring of lines over and over, a line an interval.
struct Ring {
    plant: Plant,
    lines: u64,
    /// Whether each write hit.
    hits: Vec<bool>,
}

const INTERVAL: Ps = Ps::from_ns(200);

impl Model for Ring {
    type Event = Event;

    fn handle(&mut self, event: Event, engine: &mut Engine<Event>) {
        self.plant.now = engine.now();
        match event {
            Event::Packet(at) => {
                let line = at % self.lines;
                let (hits, _) = self.plant.dma(line..line + 1);
                self.hits.push(hits == 1);
                engine.after(INTERVAL, 0, Event::Packet(at + 1));
            }
            Event::Apply(ways) => self.plant.apply(&io(ways)).unwrap(),
        }
    }
}

#[test]
fn more_ways_stop_the_leak_of_a_running_ring_after_one_pass() {
    let lines = 4 * SETS;
    let mut ring = Ring { plant: plant(Cbm::low(2), Cbm::low(WAYS)), lines, hits: Vec::new() };
    let mut engine = Engine::new();
    let changed = 3 * lines;
    engine.schedule(Ps::ZERO, 0, Event::Packet(0));
    engine.schedule(INTERVAL * changed, 1, Event::Apply(Cbm::low(4)));
    engine.run(&mut ring, INTERVAL * (6 * lines));
    // A ring of four ways' lines in two ways never hits. After the change, half a pass fills the new
    // ways while the old ones keep their lines; then all is there.
    let from = ring.hits.iter().position(|&h| h).unwrap() as u64;
    assert_eq!(from, changed + 1 + 2 * SETS);
    assert!(ring.hits[from as usize..].iter().all(|&h| h));
}
