use probe::{Probe, Ref, RegionId};
use proptest::prelude::*;
use units::LockId;

use super::*;
use crate::simt::lane::{LaneRecorder, Lanes};
use crate::simt::merge::Merger;
use crate::simt::spec::paper;

/// A program a lane: every warp here has one.
fn programs(lanes: &Lanes) -> Code {
    let (mut code, mut merger) = (Code::new(), Merger::new());
    for lane in 0..lanes.len() as u32 {
        merger.merge(lanes, &[lane], &mut code).unwrap();
    }
    code
}

fn code(record: impl Fn(&mut LaneRecorder)) -> Code {
    let mut recorder = LaneRecorder::new(&[]).unwrap();
    record(&mut recorder);
    recorder.end_lane();
    programs(&recorder.into_lanes())
}

/// Runs until all are complete: when each was, by tag.
fn drain(shaders: &mut Shaders, code: &Code) -> Result<Vec<(u32, u64)>, Deadlock> {
    let (mut done, mut out) = (Vec::new(), Vec::new());
    while shaders.next() < NEVER {
        let now = shaders.next();
        shaders.step(now, code, &mut done)?;
        for FinishedWarp { core, slot, tag } in done.drain(..) {
            shaders.release(core, slot, now);
            out.push((tag, now));
        }
    }
    Ok(out)
}

/// Clocks for `warps` warps of 100 instructions on one core.
fn clocks(warps: u32, change: impl Fn(&mut SimtSpec)) -> u64 {
    let mut spec = paper();
    change(&mut spec);
    let code = code(|r| r.work(1, 100));
    let mut shaders = Shaders::new(&spec, 32).unwrap();
    for tag in 0..warps {
        assert!(shaders.launch(0, 0, WarpPlacement::default(), tag, &code, 0).is_some());
    }
    drain(&mut shaders, &code).unwrap().iter().map(|d| d.1).max().unwrap()
}

#[test]
fn a_warp_alone_issues_once_a_pipeline_and_24_warps_every_clock() {
    // The first goes in clock 1; the last is through the pipeline of 24 clocks after its issue.
    assert_eq!(clocks(1, |_| ()), 1 + 100 * 24);
    assert_eq!(clocks(8, |_| ()), 1 + 100 * 24 + 7);
    assert_eq!(clocks(24, |_| ()), 1 + 100 * 24 + 23);
    // Beyond that the issue slot is what is short.
    assert_eq!(clocks(32, |_| ()), 3200 + 24);
    // Oldest first: 24 warps fill every clock until they are complete, then the other eight are alone.
    assert_eq!(clocks(32, |s| s.scheduler = Scheduler::GreedyThenOldest), 1 + 2 * 100 * 24 + 7);
}

#[test]
fn a_narrow_core_issues_an_instruction_in_several_clocks() {
    assert_eq!(clocks(32, |s| s.simd_width = 8), 1 + (3200 - 1) * 4 + 24);
    assert_eq!(clocks(1, |s| s.simd_width = 8), 1 + 100 * 24);
}

#[test]
fn operands_from_memory_are_waited_for_and_independent_loads_overlap() {
    let time = |record: fn(&mut LaneRecorder)| {
        let code = code(record);
        let mut shaders = Shaders::new(&paper(), 8).unwrap();
        let miss = shaders.memory().unloaded_miss();
        shaders.launch(0, 0, WarpPlacement::default(), 0, &code, 0);
        (drain(&mut shaders, &code).unwrap()[0].1, miss)
    };
    fn load(site: u16, offset: u64) -> Ref {
        Ref::load(RegionId::FIRST_TABLE, offset, 4, site)
    }
    let (one, miss) = time(|r| r.touch(load(1, 0)));
    assert_eq!(one, 1 + miss);
    // Two lines of different channels: the second is issued a pipeline later, not a miss later.
    let (two, miss) = time(|r| [load(1, 0), load(2, 64)].into_iter().for_each(|x| r.touch(x)));
    assert_eq!(two, 1 + 24 + miss);
    let (chain, miss) = time(|r| [load(1, 0), load(2, 64).after(1)].into_iter().for_each(|x| r.touch(x)));
    assert_eq!(chain, 1 + 2 * miss);
    let (used, miss) = time(|r| {
        r.touch(load(1, 0));
        r.work(1, 3);
    });
    assert_eq!(used, 1 + miss + 2 * 24);
}

#[test]
fn warps_that_want_a_lock_have_it_one_after_the_other() {
    let code = code(|r| {
        r.latch(1);
        r.lock(LockId(5));
        r.work(2, 10);
        r.latch(3);
        r.unlock(LockId(5));
    });
    let mut shaders = Shaders::new(&paper(), 8).unwrap();
    (0..4).for_each(|tag| {
        assert!(shaders.launch(tag as usize % 2, 0, WarpPlacement::default(), tag, &code, 0).is_some())
    });
    let ends: Vec<u64> = drain(&mut shaders, &code).unwrap().iter().map(|d| d.1).collect();
    assert_eq!(ends.len(), 4);
    // Lock, ten instructions and unlock are a pipeline each.
    assert!(ends.windows(2).all(|w| w[1] - w[0] >= 11 * 24), "{ends:?}");
}

#[test]
fn warps_that_wait_for_each_other_are_named() {
    let mut recorder = LaneRecorder::new(&[]).unwrap();
    for order in [[0, 1], [1, 0]] {
        recorder.latch(1);
        recorder.lock(LockId(order[0]));
        recorder.work(2, 10);
        recorder.latch(3);
        recorder.lock(LockId(order[1]));
        recorder.latch(4);
        order.iter().for_each(|&l| recorder.unlock(LockId(l)));
        recorder.end_lane();
    }
    let code = programs(&recorder.into_lanes());
    let mut shaders = Shaders::new(&paper(), 8).unwrap();
    (0..2).for_each(|n| assert!(shaders.launch(n as usize, n, WarpPlacement::default(), n + 7, &code, 0).is_some()));
    let error = drain(&mut shaders, &code).unwrap_err();
    assert!((error.holder, error.warp) == (7, 8) || (error.holder, error.warp) == (8, 7), "{error}");
}

/// A warp of the twin.
struct Warp {
    tag: u32,
    pc: usize,
    left: u32,
    wake: u64,
    loads: u64,
    age: u64,
}

/// Clock by clock, warp by warp, with its own memory: which tag is complete when, and how many slots were used for
/// instructions. A warp's slot is taken again `held` clocks after its end.
fn naive(spec: &SimtSpec, resident: usize, code: &Code, warps: &[u32], held: u64) -> (Vec<(u32, u64)>, u64) {
    let mut memory = SimtMemory::new(spec).unwrap();
    let cores = spec.cores as usize;
    let mut slots: Vec<Vec<Option<Warp>>> = (0..cores).map(|_| (0..resident).map(|_| None).collect()).collect();
    let (mut latest, mut port, mut ages) = (vec![resident - 1; cores], vec![0u64; cores], vec![0u64; cores]);
    let mut until = vec![vec![0; resident]; cores];
    let (mut next, mut now, mut out, mut issued) = (0usize, 0u64, Vec::new(), 0);
    loop {
        for core in 0..cores {
            for (slot, until) in slots[core].iter_mut().zip(&mut until[core]) {
                let ends =
                    slot.as_ref().is_some_and(|w| w.pc == code.insts(warps[w.tag as usize]).len() && w.wake <= now);
                if ends {
                    out.extend(slot.take().map(|w| (w.tag, now)));
                    *until = now + held;
                }
            }
            let ready = |s: usize| {
                let of = slots[core][s].as_ref();
                of.is_some_and(|w| w.pc < code.insts(warps[w.tag as usize]).len() && w.wake <= now)
            };
            let chosen = match spec.scheduler {
                _ if port[core] > now => None,
                Scheduler::GreedyThenOldest if ready(latest[core]) => Some(latest[core]),
                Scheduler::RoundRobin => (1..=resident).map(|n| (latest[core] + n) % resident).find(|&s| ready(s)),
                Scheduler::GreedyThenOldest => {
                    let age = |s: &usize| slots[core][*s].as_ref().map(|w| w.age);
                    (0..resident).filter(|&s| ready(s)).min_by_key(age)
                }
            };
            let Some(slot) = chosen else { continue };
            let warp = slots[core][slot].as_mut().unwrap();
            let insts = code.insts(warps[warp.tag as usize]);
            let inst = &insts[warp.pc];
            issued += 1;
            latest[core] = slot;
            port[core] = now + 32 / u64::from(spec.simd_width);
            warp.wake = now + u64::from(spec.pipeline);
            if inst.kind == WarpOperation::Alu {
                warp.left = if warp.left == 0 { inst.word - 1 } else { warp.left - 1 };
                if warp.left > 0 {
                    continue;
                }
            } else {
                let sectors = Sectors { words: code.words(inst), at: &WarpPlacement::default() };
                let back = memory.access(core, inst, &sectors, now);
                if inst.kind == WarpOperation::Load {
                    warp.loads = warp.loads.max(back);
                }
            }
            warp.pc += 1;
            if insts.get(warp.pc).is_none_or(|inst| inst.waits) {
                warp.wake = warp.wake.max(warp.loads);
            }
        }
        for core in 0..cores {
            let free =
                slots[core].iter_mut().zip(&until[core]).filter(|(slot, until)| slot.is_none() && **until <= now);
            for (slot, _) in free {
                if next < warps.len() {
                    ages[core] += 1;
                    let age = ages[core];
                    *slot = Some(Warp { tag: next as u32, pc: 0, left: 0, wake: now + 1, loads: 0, age });
                    next += 1;
                }
            }
        }
        if next == warps.len() && slots.iter().flatten().all(Option::is_none) {
            return (out, issued);
        }
        now += 1;
    }
}

/// The same with the cores.
fn fast(spec: &SimtSpec, resident: u32, code: &Code, warps: &[u32], held: u64) -> (Vec<(u32, u64)>, u64) {
    let mut shaders = Shaders::new(spec, resident).unwrap();
    let (mut next, mut now, mut out, mut done) = (0, 0, Vec::new(), Vec::new());
    let mut complete = std::collections::VecDeque::new();
    loop {
        if shaders.next() <= now {
            shaders.step(now, code, &mut done).unwrap();
        }
        for FinishedWarp { core, slot, tag } in done.drain(..) {
            complete.push_back((now + held, core, slot));
            out.push((tag, now));
        }
        while let Some(&(until, core, slot)) = complete.front()
            && until <= now
        {
            complete.pop_front();
            shaders.release(core, slot, now);
        }
        for core in 0..shaders.cores() {
            assert_eq!(shaders.with_room(core).is_some(), (0..shaders.cores()).any(|core| shaders.free(core) > 0));
            while next < warps.len() && shaders.free(core) > 0 {
                shaders.launch(core, warps[next], WarpPlacement::default(), next as u32, code, now);
                next += 1;
            }
        }
        now = complete.front().map_or(NEVER, |&(until, ..)| until).min(shaders.next());
        if now == NEVER {
            return (out, shaders.issued());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn cores_match_naive_clock_by_clock(
        programs_of in prop::collection::vec(prop::collection::vec((0u8..4, 1u32..40, 0u64..4000, any::<bool>()), 0..8), 1..6),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..30),
        (cores, resident, pipeline, width) in (1u32..4, 1u32..7, 1u32..64, 0u32..4),
        (greedy, held) in (any::<bool>(), prop_oneof![Just(0), 1u64..2000]),
    ) {
        let mut recorder = LaneRecorder::new(&[]).unwrap();
        for program in &programs_of {
            for (place, &(kind, n, offset, depends)) in program.iter().enumerate() {
                let site = place as u16;
                let at = Ref::load(RegionId::FIRST_TABLE, offset * 32, (n * 8) as u16, site).after(u8::from(depends));
                match kind {
                    0 => recorder.touch(Ref { access: probe::Access::Store, ..at }),
                    1 => recorder.touch(at),
                    // Some for longer than the coarse wheel has clocks.
                    _ => recorder.work(site, if n % 5 == 0 { n * 20 } else { n }),
                }
            }
            recorder.end_lane();
        }
        let code = programs(&recorder.into_lanes());
        let warps: Vec<u32> = order.iter().map(|n| n.index(programs_of.len()) as u32).collect();
        let mut spec = paper();
        (spec.cores, spec.pipeline, spec.simd_width) = (cores, pipeline, 4 << width);
        if greedy {
            spec.scheduler = Scheduler::GreedyThenOldest;
        }
        prop_assert_eq!(fast(&spec, resident, &code, &warps, held), naive(&spec, resident as usize, &code, &warps, held));
    }
}

#[test]
fn a_division_by_the_pipeline_matches_the_operators() {
    for clocks in 1..64 {
        let pipeline = PipelineDepth::new(clocks);
        let near = (0..500u64).map(|n| n * 0x9_e377_9b97 % (1 << 50));
        for now in
            near.flat_map(|n| [n, n / clocks * clocks, n / clocks * clocks + clocks - 1]).chain([0, (1 << 50) - 1])
        {
            assert_eq!(pipeline.divide(now), (now / clocks, now % clocks), "{now} by {clocks}");
        }
    }
}

/// How often a core has something to do until all are complete.
fn steps(warps: u32, instructions: u32) -> (u64, u64) {
    let code = code(|r| r.work(1, instructions));
    let mut shaders = Shaders::new(&paper(), 32).unwrap();
    (0..warps).for_each(|tag| assert!(shaders.launch(0, 0, WarpPlacement::default(), tag, &code, 0).is_some()));
    let (mut steps, mut done) = (0, Vec::new());
    while shaders.next() < NEVER {
        let now = shaders.next();
        shaders.step(now, &code, &mut done).unwrap();
        done.drain(..).for_each(|FinishedWarp { core, slot, .. }| shaders.release(core, slot, now));
        steps += 1;
    }
    (steps, shaders.issued())
}

#[test]
fn warps_that_run_alone_cost_the_host_nothing_for_each_instruction() {
    // The first instruction, the last, the end, and the coarse wheel's place before the last.
    assert_eq!(steps(1, 150), (4, 150));
    // Longer than the coarse wheel has clocks: once more for each time that it goes round.
    assert_eq!(steps(1, 1000), (9, 1000));
    // Two that are a clock apart do not meet again.
    let (two, issued) = steps(2, 1000);
    assert!(two <= 20, "{two}");
    assert_eq!(issued, 2000);
    // Where every clock is somebody's, each instruction is a step,
    let (all, issued) = steps(24, 100);
    assert!(all >= 2400 - 100, "{all}");
    assert_eq!(issued, 2400);
    // unless nobody can come: then only each one's first and last instruction and its end are.
    let (full, issued) = steps(32, 100);
    assert!(full <= 32 * 4, "{full}");
    assert_eq!(issued, 3200);
}

#[test]
fn a_core_that_runs_ahead_comes_back_now_and_then() {
    let (long, issued) = steps(32, 10_000);
    assert!(long >= 320_000 / u64::from(AHEAD), "{long}");
    assert_eq!(issued, 320_000);
}

#[test]
fn room_is_found_in_turn() {
    let code = code(|r| r.work(1, 1));
    let mut spec = paper();
    spec.cores = 5;
    let mut shaders = Shaders::new(&spec, 1).unwrap();
    for core in [3, 0, 4] {
        assert!(shaders.launch(core, 0, WarpPlacement::default(), 0, &code, 0).is_some());
    }
    let first: Vec<_> = (0..6).map(|turn| shaders.with_room(turn)).collect();
    assert_eq!(first, [Some(1), Some(1), Some(2), Some(1), Some(1), Some(1)]);
    [1, 2].iter().for_each(|&core| _ = shaders.launch(core, 0, WarpPlacement::default(), 0, &code, 0));
    assert_eq!(shaders.with_room(2), None);
}
