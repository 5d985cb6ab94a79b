use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
use proptest::prelude::*;
use units::{Size, Span};

use super::super::core::Shaders;
use super::super::lane::LaneRecorder;
use super::super::merge::{Code, Merger, WARP, WarpPlacement};
use super::super::spec::{CacheLevelSpec, MemoryOrder, first_ready, paper};
use super::super::{Kernel, KernelStep, OwnMemory};
use super::*;
use crate::dram::ControllerSetting;

const TABLE: RegionId = RegionId::FIRST_TABLE;

/// Where lane `lane` loads or stores in step `step`, and whether it waits for the load before.
type Reference = fn(u64, u64) -> u64;

/// Programs of `warps` warps of `steps` references to a table of `lines` lines, each behind `work` instructions; every `stores`-th is a store.
fn programs(warps: usize, lines: u64, steps: u64, work: u32, stores: u64, at: Reference) -> Programs {
    let table = RegionSpec { id: TABLE, name: "table".into(), bytes: lines * 64, sharing: Sharing::Shared };
    let mut recorder = LaneRecorder::new(&[table]).unwrap();
    for lane in 0..(warps * WARP) as u64 {
        for step in 0..steps {
            let (place, site) = (at(lane, step) % lines * 64, 1 + step as u16 * 2);
            let reference = if stores > 0 && step % stores == stores - 1 {
                Ref::store(TABLE, place, 4, site)
            } else {
                Ref::load(TABLE, place, 4, site)
            };
            recorder.touch(if step > 0 { reference.after(1) } else { reference });
            recorder.work(site + 1, work.max(1));
        }
        recorder.end_lane();
    }
    let (lanes, mut code, mut merger) = (recorder.into_lanes(), Code::new(), Merger::new());
    let placement = WarpPlacement { base: lines as u32, stride: 32, slots: 1 << 10, first: 0 };
    let warps = (0..warps).map(|n| {
        let wanted: Vec<u32> = (n * WARP..(n + 1) * WARP).map(|lane| lane as u32).collect();
        (merger.merge(&lanes, &wanted, &mut code).unwrap(), placement)
    });
    let warps = warps.collect();
    Programs { code, warps }
}

struct Programs {
    code: Code,
    warps: Vec<(u32, WarpPlacement)>,
}

/// A generator of places without order.
fn scattered(lane: u64, step: u64) -> u64 {
    let mut x = lane.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ step.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 31).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 29
}

/// The lines of 512 warps behind each other, then those of their next step.
fn streamed(lane: u64, step: u64) -> u64 {
    step * 512 * WARP as u64 + lane
}

/// What a run has come to: its end, the lines of warps, the DRAM's counters once all that was asked for is done, and reads that a queue
/// of writes has answered.
#[derive(Debug, PartialEq)]
struct Ran {
    end: u64,
    issued: u64,
    clocks: u64,
    missed: u64,
    dram: DramCounters,
    forwarded: u64,
}

/// Runs all warps, each when its slot is free; `every_clock` looks at the memory in each clock, as a naive simulator does.
fn run(spec: &SimtSpec, resident: u32, programs: &Programs, every_clock: bool) -> Ran {
    let mut shaders = Shaders::new(spec, resident).unwrap();
    let (mut done, mut next, mut running, mut now) = (Vec::new(), 0, 0, 0);
    loop {
        if every_clock || shaders.next() <= now {
            shaders.step(now, &programs.code, &mut done).unwrap();
            for finished in done.drain(..) {
                shaders.release(finished.core, finished.slot, now);
                running -= 1;
            }
        }
        while let Some(&(program, at)) = programs.warps.get(next)
            && let Some(core) = shaders.with_room(next % shaders.cores())
        {
            shaders.launch(core, program, at, next as u32, &programs.code, now).unwrap();
            (next, running) = (next + 1, running + 1);
        }
        if running == 0 && next == programs.warps.len() {
            break;
        }
        now = if every_clock { now + 1 } else { shaders.next() };
        assert!(now < 1 << 40, "no warp wakes any more");
    }
    let clocks = shaders.warp_clocks(now);
    shaders.memory_mut().settle(now + (1 << 20));
    let counters = shaders.memory().counters();
    let missed = counters.l2_loads - counters.l2_hits;
    let (dram, issued) = (shaders.memory().dram(), shaders.issued());
    let forwarded = shaders.memory_mut().lend_controllers().map_or(0, |own| own.dram.forwarded());
    Ran { end: now, issued, clocks, missed, dram, forwarded }
}

prop_compose! {
    fn machines()(
        (order, writes) in prop_oneof![
            Just(("fr-fcfs", "drain=32/24/8")), Just(("fr-fcfs=1", "drain=8/6/2")), Just(("fr-fcfs=4", "mixed")),
            Just(("fcfs=2", "mixed")),
        ],
        queue in prop_oneof![Just(2u32), Just(32)],
        standard in prop_oneof![Just("gddr5-8000"), Just("hbm2-2000"), Just("hbm3-6400")],
        (channels, cores) in (1u32..4, 1u32..4),
        overhead in prop_oneof![Just(0.0), Just(20.0), Just(151.3)],
        (interconnect, pipeline) in (prop_oneof![Just(0u32), Just(1), Just(20)], prop_oneof![Just(1u32), Just(24)]),
        (has_l1, ghz) in (any::<bool>(), prop_oneof![Just(1.0), Just(1.98), Just(0.3)]),
    ) -> SimtSpec {
        let mut spec = paper();
        spec.memory = super::super::SimtMemorySpec {
            standard: standard.into(),
            channels: Some(channels),
            overhead: Span::from_ns(overhead),
            controller: MemoryOrder::Commands(ControllerSetting {
                order: order.parse().unwrap(),
                writes: Some(writes.parse().unwrap()),
                queue,
                ..ControllerSetting::default()
            }),
        };
        let l1 = CacheLevelSpec { size: Size::from_bytes(2 << 10), ways: 4, latency: 4, banks: 1 };
        let l2 = CacheLevelSpec { size: Size::from_bytes(16 << 10), latency: 1, ..spec.l2 };
        SimtSpec { cores, interconnect, pipeline, l1: has_l1.then_some(l1), l2, frequency: units::Frequency::from_ghz(ghz), ..spec }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Looking at the memory only where a warp can wake comes to the same as looking in each clock; every warp ends, and each
    /// line that was missed is read once.
    #[test]
    fn steps_between_which_no_warp_wakes_match_naive(
        spec in machines(),
        (warps, resident, steps, work) in (1usize..24, 1u32..9, 1u64..6, 0u32..40),
        (stores, lines) in (0u64..4, prop_oneof![Just(64u64), Just(4096)]),
    ) {
        let programs = programs(warps, lines, steps, work, stores, scattered);
        let (quick, naive) = (run(&spec, resident, &programs, false), run(&spec, resident, &programs, true));
        prop_assert_eq!(&quick, &naive);
        prop_assert_eq!(quick.missed, quick.dram.reads + quick.forwarded);
    }
}

#[test]
fn an_idle_controller_takes_its_closed_form() {
    let programs = programs(1, 64, 1, 1, 0, |_, _| 7);
    let (spec, naive) = (first_ready(), paper());
    let miss = Shaders::new(&spec, 1).unwrap().memory().unloaded_miss();
    // A DRAM clock of 0.5 ns more, the second column 3 clocks behind the first in place of 2.
    let in_order = Shaders::new(&naive, 1).unwrap().memory().unloaded_miss();
    assert_eq!(miss, in_order + 1);
    let run = run(&spec, 1, &programs, false);
    // Launched at 0, it loads at 1.
    assert_eq!(run.end, 1 + miss);
    assert_eq!((run.missed, run.dram.reads), (1, 1));
}

/// Lines of DRAM in a clock of 1 ns.
fn lines_a_clock(spec: &SimtSpec, programs: &Programs) -> f64 {
    let ran = run(spec, 32, programs, false);
    (ran.dram.reads + ran.dram.writes) as f64 / ran.end as f64
}

/// Of 8 channels whose lines take 2 ns each (2 bursts of 2 clocks), refreshes of 74 in 3800 clocks taken off.
const PEAK: f64 = 8.0 / 2.0 * (1.0 - 74.0 / 3800.0);

#[test]
fn a_stream_comes_near_the_bus_and_scattered_reads_to_what_activates_allow() {
    let of = |at: Reference| lines_a_clock(&first_ready(), &programs(512, 1 << 18, 16, 1, 0, at));
    let share = of(streamed) / PEAK;
    assert!((0.95..=1.0).contains(&share), "stream {share}");
    // An activate a channel every 10 clocks of 0.5 ns (tRRD, and four in tFAW); few lines find their row open.
    let activates = PEAK * 2.0 / 5.0;
    let share = of(scattered) / activates;
    assert!((0.6..=1.25).contains(&share), "random {share}");
}

#[test]
fn lines_a_slot_apart_meet_all_banks_of_the_l2_as_in_order() {
    // 128 lines, each of which is there after its first use.
    let programs = programs(64, 1 << 12, 16, 1, 0, |lane, _| lane * 32);
    let (ran, in_order) = (run(&first_ready(), 32, &programs, false), run(&paper(), 32, &programs, false));
    assert_eq!((ran.missed, in_order.missed), (128, 128));
    let longer = ran.end as f64 / in_order.end as f64;
    assert!((0.95..=1.05).contains(&longer), "{longer} times as long");
}

#[test]
fn a_turn_of_the_bus_is_paid_once_a_drain() {
    // Every second step writes 32 lines that lie together, which go before they are used again.
    let programs = programs(512, 1 << 18, 16, 1, 2, streamed);
    let mut before = 0.0;
    for (queue, high, low) in [(16, 12, 4), (32, 24, 8), (64, 56, 8)] {
        let mut spec = first_ready();
        let writes = Some(format!("drain={queue}/{high}/{low}").parse().unwrap());
        spec.memory.controller = MemoryOrder::Commands(ControllerSetting { writes, ..ControllerSetting::default() });
        let rate = lines_a_clock(&spec, &programs);
        // As many reads as writes of a drain, and a turn there (21 clocks of 0.5 ns) and back (19).
        let lines = f64::from(2 * (high - low));
        let share = rate / (PEAK * 2.0 * lines / (2.0 * lines + 20.0));
        assert!((0.75..=1.0).contains(&share), "drain {high} to {low}: {rate}, {share} of the closed form");
        assert!(rate > 1.1 * before, "drain {high} to {low}: {rate}, shorter ones {before}");
        before = rate;
    }
}

#[test]
fn a_kernel_over_its_own_controllers_ends_however_far_it_may_go_at_a_time() {
    let programs = programs(40, 4096, 4, 10, 3, scattered);
    let run = |stride: u64| {
        let (mut shaders, mut kernel) = (Shaders::new(&first_ready(), 8).unwrap(), Kernel::default());
        kernel.begin(programs.warps.iter().copied(), 4, 100);
        let mut until = 100;
        loop {
            match kernel.step(&mut shaders, &programs.code, &mut OwnMemory, |clock| clock <= until).unwrap() {
                KernelStep::Done(at) => return (at, shaders.issued()),
                KernelStep::At(at) => until = at.max(until + stride),
            }
        }
    };
    let whole = run(u64::MAX / 2);
    assert!(whole.0 > 100);
    for stride in [1, 7, 1000] {
        assert_eq!(run(stride), whole);
    }
}

#[test]
fn devices_that_flood_the_memory_hold_up_what_comes_behind_them_and_nothing_is_lost() {
    let programs = programs(1, 64, 1, 1, 0, |_, _| 7);
    let mut shaders = Shaders::new(&first_ready(), 1).unwrap();
    shaders.memory_mut().device(1 << 12, 100_000, true, 0);
    let (program, at) = programs.warps[0];
    shaders.launch(0, program, at, 0, &programs.code, 0).unwrap();
    let (mut done, mut now) = (Vec::new(), 0);
    while done.is_empty() {
        now = shaders.next();
        shaders.step(now, &programs.code, &mut done).unwrap();
    }
    // 12,500 lines a channel go before it, a clock each.
    assert!((12_400..40_000).contains(&now), "{now}");
    shaders.memory_mut().settle(now + 1000);
    assert_eq!((shaders.memory().dram().writes, shaders.memory().counters().device_lines), (100_000, 100_000));
}
