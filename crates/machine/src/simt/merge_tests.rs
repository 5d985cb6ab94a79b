use std::collections::{BTreeMap, BTreeSet};

use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
use proptest::prelude::*;
use units::LockId;

use super::*;
use crate::simt::lane::LaneRecorder;

fn record(lanes: &[&dyn Fn(&mut LaneRecorder)]) -> Lanes {
    let table =
        RegionSpec { id: RegionId::FIRST_TABLE, name: "table".into(), bytes: 1 << 20, sharing: Sharing::Shared };
    let mut recorder = LaneRecorder::new(&[table]).unwrap();
    for lane in lanes {
        lane(&mut recorder);
        recorder.end_lane();
    }
    recorder.into_lanes()
}

fn merged(lanes: &Lanes) -> Result<(Code, WarpProgram), MergeError> {
    let mut code = Code::new();
    let all: Vec<u32> = (0..lanes.len() as u32).collect();
    let program = Merger::new().merge(lanes, &all, &mut code)?;
    let found = code.program(program);
    Ok((code, found))
}

fn load(site: u16, offset: u64) -> Ref {
    Ref::load(RegionId::FIRST_TABLE, offset, 4, site)
}

/// The sectors of an instruction as lanes have them.
fn sectors(code: &Code, inst: &Inst) -> BTreeSet<u32> {
    let of = |&word: &u32| {
        let (table, at) = (word & TABLE_LINE, word & OFFSET);
        let first = if word & OF_PACKET == 0 { 2 * table } else { OF_PACKET | (table - at) | (2 * at) };
        (0..2).filter(move |n| word >> (SECTOR_BITS + n) & 1 == 1).map(move |n| first + n)
    };
    let words = code.words(inst);
    assert!(words.is_sorted_by(|a, b| a & !(3 << SECTOR_BITS) < b & !(3 << SECTOR_BITS)), "each line once, in order");
    words.iter().flat_map(of).collect()
}

#[test]
fn uniform_control_flow_has_full_efficiency_and_shares_sectors() {
    let mut recorder = LaneRecorder::new(&[]).unwrap();
    for lane in 0..32 {
        recorder.touch(load(1, lane * 4));
        recorder.touch(load(2, lane * 64));
        recorder.touch(Ref::load(RegionId::PACKET, 30, 4, 3));
        recorder.work(4, 10);
        recorder.end_lane();
    }
    let (code, program) = merged(&recorder.into_lanes()).unwrap();
    assert_eq!(program.efficiency(), 1.0);
    assert_eq!(program.issued, 3 + 7);
    let sectors: Vec<_> = code.insts(0).iter().map(|i| sectors(&code, i).len()).collect();
    // Eight lanes a sector; a sector a lane; bytes 30 to 33 of each packet cross a sector.
    assert_eq!(sectors, [4, 32, 64, 0]);
}

#[test]
fn without_a_latch_the_shorter_body_runs_ahead() {
    let body = |r: &mut LaneRecorder, long: bool, latch: bool| {
        for _ in 0..2 {
            r.touch(load(1, 0));
            if long {
                r.touch(load(2, 0));
            }
            if latch {
                r.latch(3);
            }
        }
    };
    let masks = |latch: bool| {
        let lanes = record(&[&|r| body(r, false, latch), &|r| body(r, true, latch)]);
        let (code, _) = merged(&lanes).unwrap();
        code.insts(0).iter().map(|i| (i.site, i.mask)).collect::<Vec<_>>()
    };
    assert_eq!(masks(true), [(1, 3), (2, 2), (1, 3), (2, 2)]);
    assert_eq!(masks(false), [(1, 3), (1, 1), (2, 2), (1, 2), (2, 2)]);
}

#[test]
fn lanes_that_still_load_go_before_those_that_work() {
    let lanes = record(&[&|r| r.work(5, 3), &|r| {
        r.touch(load(5, 0));
        r.work(5, 3);
    }]);
    let (code, program) = merged(&lanes).unwrap();
    let steps: Vec<_> = code.insts(0).iter().map(|i| (i.kind, i.mask, i.word)).collect();
    // The run lasts as long as its longest lane: 3 instructions, of which one lane's load was one.
    assert_eq!(steps, [(WarpOperation::Load, 2, 0), (WarpOperation::Alu, 3, 3)]);
    assert_eq!((program.issued, program.lanes), (4, 1 + 3 + 2));
}

#[test]
fn lanes_that_want_the_same_lock_go_one_after_the_other() {
    let critical = |r: &mut LaneRecorder| {
        r.latch(1);
        r.lock(LockId(7));
        r.touch(load(2, 0));
        r.latch(3);
        r.unlock(LockId(7));
        r.touch(load(4, 0));
    };
    let (code, _) = merged(&record(&[&critical, &critical])).unwrap();
    let steps: Vec<_> = code.insts(0).iter().map(|i| (i.site, i.kind, i.mask)).collect();
    use WarpOperation::{Load, Lock, Unlock};
    let one_by_one = [(1, Lock, 1), (2, Load, 1), (3, Unlock, 1), (1, Lock, 2), (2, Load, 2), (3, Unlock, 2)];
    assert_eq!(steps[..6], one_by_one);
    assert_eq!(steps[6..], [(4, Load, 3)]);
}

#[test]
fn locks_taken_in_opposite_orders_are_a_deadlock_that_is_named() {
    let lanes = record(&[&|r| [0, 1].iter().for_each(|&l| r.lock(LockId(l))), &|r| {
        [1, 0].iter().for_each(|&l| r.lock(LockId(l)))
    }]);
    let error = merged(&lanes).unwrap_err();
    assert_eq!(error, MergeError::Deadlock { lanes: vec![0, 1], locks: vec![1, 0] });
    let lanes = record(&[&|r| r.unlock(LockId(3))]);
    assert_eq!(merged(&lanes).unwrap_err(), MergeError::NotHeld { lane: 0, lock: 3 });
    let mut code = Code::new();
    assert_eq!(Merger::new().merge(&lanes, &[0; 33], &mut code), Err(MergeError::TooMany(33)));
}

#[test]
fn lines_of_packets_are_those_of_their_slots() {
    let at = WarpPlacement { base: 1000, stride: 32, slots: 40, first: 39 };
    let line = |sector| at.line(word_of(sector));
    assert_eq!((line(17), line(18)), (8, 9));
    assert_eq!(line(OF_PACKET | 5), 1000 + 39 * 32 + 2);
    // Lane 1 is in slot 0 again.
    assert_eq!(line(OF_PACKET | 1 << LANE_SHIFT | 5), 1000 + 2);
    assert_eq!(line(OF_PACKET | 31 << LANE_SHIFT), 1000 + 30 * 32);
    // The highest sectors that there are.
    assert_eq!(line((1 << 30) - 1), (1 << 29) - 1);
    assert_eq!(WarpPlacement::default().line(word_of(OF_PACKET | OFFSET)), OFFSET / 2);
}

/// What a warp did: site, kind, lanes, sectors or locks or the length of a run.
type Step = (u16, u8, BTreeSet<usize>, BTreeSet<u32>, u32);

/// The definition, with nothing remembered between steps.
fn naive(lanes: &[Vec<LaneOp>]) -> Option<Vec<Step>> {
    let mut at = vec![0; lanes.len()];
    let mut held: BTreeMap<u32, usize> = BTreeMap::new();
    let mut out: Vec<Step> = Vec::new();
    loop {
        let next = |i: usize| lanes[i].get(at[i]).copied();
        let can = |i: usize, op: &LaneOp| op.kind != OpKind::Lock || held.get(&op.word).is_none_or(|&h| h == i);
        let able: Vec<_> = (0..lanes.len()).filter_map(|i| next(i).filter(|op| can(i, op)).map(|op| (i, op))).collect();
        let Some(place) = able.iter().map(|(_, op)| (op.site, op.kind)).min() else {
            return (0..lanes.len()).all(|i| next(i).is_none()).then_some(out);
        };
        let (mut who, mut words, mut run) = (BTreeSet::new(), BTreeSet::new(), 0);
        for (i, op) in able.into_iter().filter(|(_, op)| (op.site, op.kind) == place) {
            match op.kind {
                OpKind::Lock if *held.entry(op.word).or_insert(i) != i => continue,
                OpKind::Unlock => {
                    held.remove(&op.word);
                    words.insert(op.word);
                }
                OpKind::Lock => {
                    words.insert(op.word);
                }
                OpKind::Load | OpKind::Store => words.extend((0..u32::from(op.sectors)).map(|n| {
                    let lane = if op.word & OF_PACKET == 0 { 0 } else { (i as u32) << LANE_SHIFT };
                    (op.word + n) | lane
                })),
                OpKind::Work => run = run.max(op.word),
                OpKind::Latch => {}
            }
            at[i] += 1;
            who.insert(i);
        }
        let kind = match place.1 {
            OpKind::Latch => continue,
            OpKind::Work => WarpOperation::Alu,
            OpKind::Load => WarpOperation::Load,
            OpKind::Store => WarpOperation::Store,
            OpKind::Lock => WarpOperation::Lock,
            OpKind::Unlock => WarpOperation::Unlock,
        };
        out.push((place.0, kind as u8, who, words, run));
    }
}

#[derive(Clone, Debug)]
enum Do {
    Touch(u16, u64, u16, bool, bool),
    Work(u16, u32),
    Latch(u16),
    Critical(u16, u32, u16),
}

fn act() -> impl Strategy<Value = Do> {
    prop_oneof![
        4 => (0u16..8, 0u64..600, 1u16..80, any::<bool>(), any::<bool>()).prop_map(|(s, o, b, w, p)| Do::Touch(s, o, b, w, p)),
        3 => (0u16..8, 1u32..9).prop_map(|(s, n)| Do::Work(s, n)),
        2 => (0u16..8).prop_map(Do::Latch),
        1 => (0u16..8, 0u32..3, 0u16..8).prop_map(|(s, l, t)| Do::Critical(s, l, t)),
    ]
}

proptest! {
    /// Any streams, also such that go back without a latch, or wait for ever.
    #[test]
    fn merge_matches_naive(lanes in prop::collection::vec(prop::collection::vec(act(), 0..14), 1..=32)) {
        let mut recorder = LaneRecorder::new(&[]).unwrap();
        for lane in &lanes {
            for act in lane {
                match *act {
                    Do::Touch(site, offset, bytes, store, packet) => {
                        let region = if packet { RegionId::PACKET } else { RegionId::FIRST_TABLE };
                        let r = Ref::load(region, offset, bytes, site);
                        recorder.touch(if store { Ref::store(region, offset, bytes, site) } else { r });
                    }
                    Do::Work(site, n) => recorder.work(site, n),
                    Do::Latch(site) => recorder.latch(site),
                    Do::Critical(site, lock, after) => {
                        recorder.latch(site);
                        recorder.lock(LockId(lock));
                        recorder.touch(load(after, 8));
                        recorder.unlock(LockId(lock));
                    }
                }
            }
            recorder.end_lane();
        }
        let lanes = recorder.into_lanes();
        let streams: Vec<Vec<LaneOp>> = (0..lanes.len()).map(|n| lanes.lane(n).to_vec()).collect();
        let found = merged(&lanes).ok().map(|(code, _)| {
            let insts = code.insts(0).iter();
            insts.map(|i| {
                let who = (0..32).filter(|lane| i.mask >> lane & 1 == 1).collect();
                let run = if i.kind == WarpOperation::Alu { i.word } else { 0 };
                let words = match i.kind {
                    WarpOperation::Load | WarpOperation::Store => sectors(&code, i),
                    _ => code.words(i).iter().copied().collect(),
                };
                (i.site, i.kind as u8, who, words, run)
            }).collect::<Vec<Step>>()
        });
        prop_assert_eq!(found, naive(&streams));
    }
}
