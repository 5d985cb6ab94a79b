use probe::{Probe, Ref, RegionId};
use proptest::prelude::*;
use units::Span;

use super::*;
use crate::simt::lane::LaneRecorder;
use crate::simt::spec::paper;

const KERNEL: KernelSpec = KernelSpec { registers: 16, shared: 0 };

fn hermes(dcq: Option<u32>) -> HermesSpec {
    HermesSpec {
        fifo: 1024,
        timeout: WarpTimeout { warps: 2.0, estimated: false, weight: weight() },
        dispatcher: None,
        dcq: dcq.map(|entries| DcqSpec { entries, commits: 1 }),
        buffer: PacketBufferSpec { size: Size::from_bytes(16 << 20), slot: Size::from_bytes(2048), nic: true },
    }
}

/// Lane n loads its header and works for `work(n)` instructions.
fn lanes(count: u32, work: impl Fn(u32) -> u32) -> Lanes {
    let mut recorder = LaneRecorder::new(&[]).unwrap();
    for n in 0..count {
        recorder.touch(Ref::load(RegionId::PACKET, 14, 20, 1));
        recorder.work(2, work(n));
        recorder.end_lane();
    }
    recorder.into_lanes()
}

fn every(gap: u64, count: u32, lanes: u32) -> Vec<PacketArrival> {
    (0..count).map(|n| PacketArrival { at: u64::from(n) * gap, bytes: 64, lane: n % lanes }).collect()
}

fn go(gpu: &SimtSpec, spec: &HermesSpec, lanes: &Lanes, arrivals: &[PacketArrival], gap: f64) -> SimtOutcome {
    run(gpu, spec, &KERNEL, lanes, 0, arrivals, gap, &mut || true).unwrap()
}

/// Each accepted packet is handed on once; times of a packet never go back; what is not accepted is lost.
fn conserved(outcome: &SimtOutcome, arrivals: &[PacketArrival], in_order: bool) {
    let mut seen = vec![0; outcome.accepted.len()];
    for warp in &outcome.warps {
        for n in warp.first..warp.first + warp.count {
            seen[n as usize] += 1;
            let at = arrivals[outcome.accepted[n as usize] as usize].at;
            let times = [at, warp.filled, warp.started, warp.copied, warp.finished, warp.committed];
            assert!(times.is_sorted(), "{times:?}");
            assert_eq!(warp.parts(at).iter().sum::<u64>(), warp.committed - at);
        }
    }
    assert!(seen.iter().all(|&n| n == 1), "exactly once");
    assert_eq!(outcome.accepted.len() + outcome.lost.len(), arrivals.len());
    if in_order {
        assert!(outcome.warps.windows(2).all(|w| w[0].first + w[0].count == w[1].first), "in order");
    }
}

#[test]
fn a_lonely_packet_goes_when_time_is_up_and_takes_its_closed_form() {
    let lanes = lanes(1, |_| 11);
    let arrivals = every(1, 1, 1);
    let outcome = go(&paper(), &hermes(Some(1024)), &lanes, &arrivals, 10.0);
    let [warp] = outcome.warps[..] else { panic!("{:?}", outcome.warps) };
    // Two warp times of 32 packets every 10 clocks.
    assert_eq!(warp.filled, 640);
    assert_eq!(warp.started, 640);
    // The load, which finds its line in DRAM since the NIC wrote it there, then ten instructions.
    let miss = Shaders::new(&paper(), 32).unwrap().memory().unloaded_miss();
    // The NIC's line left its row open 640 clocks ago: a row hit saves tRCD, 12 ns.
    assert_eq!(warp.finished, 640 + 1 + miss - 12 + 9 * 24 + 24);
    assert_eq!((warp.committed, outcome.partial), (warp.finished, 1));
    conserved(&outcome, &arrivals, true);
}

/// A dispatcher that polls over a bus, as long as clocks of the paper's GPU are even.
fn polled(least: u32, most: u32) -> DispatcherSpec {
    let clocks = |n: f64| Span::from_ns(n * paper().frequency.period().as_ns());
    DispatcherSpec {
        least,
        most,
        word: clocks(1000.0),
        task: clocks(2.0),
        publish: clocks(500.0),
        tell: clocks(1200.0),
    }
}

#[test]
fn a_lonely_packet_takes_the_ways_over_the_bus_where_the_fifo_is_the_hosts() {
    let lanes = lanes(1, |_| 11);
    let arrivals = every(1, 1, 1);
    let spec = HermesSpec { dispatcher: Some(polled(4, 16)), ..hermes(Some(1024)) };
    let outcome = go(&paper(), &spec, &lanes, &arrivals, 10.0);
    let [warp] = outcome.warps[..] else { panic!("{:?}", outcome.warps) };
    // Posted at 640; rounds of 1,006 clocks see at 500 and 1,506, so the second finds it: at its end and 500 later it is there.
    assert_eq!((warp.filled, warp.started), (640, 2 * 1006 + 500));
    assert_eq!(warp.committed, warp.finished + 1200);
    conserved(&outcome, &arrivals, true);
}

#[test]
fn a_dispatcher_bounds_the_rate_by_tasks_of_a_round_and_keeps_all_packets() {
    let lanes = lanes(32, |_| 1);
    // All at once: more than the cores are idle for.
    let arrivals = every(0, 32 * 4096, 32);
    let mut ends = Vec::new();
    for (most, dcq) in [(4, Some(1024)), (16, Some(1024)), (16, None)] {
        let spec = HermesSpec { dispatcher: Some(polled(4, most)), fifo: 1 << 14, ..hermes(dcq) };
        let spec = HermesSpec {
            buffer: PacketBufferSpec { size: Size::from_bytes(1 << 28), nic: false, ..spec.buffer },
            ..spec
        };
        let outcome = go(&paper(), &spec, &lanes, &arrivals, 1.0);
        conserved(&outcome, &arrivals, dcq.is_some());
        // 4,096 tasks, `most` a round: the first rounds ask for fewer.
        let round = 1000 + 2 * u64::from(most - 1) + 500;
        let rounds = 4096 / u64::from(most);
        let bound = rounds * round;
        assert!((bound..bound + 4 * round + 3000).contains(&outcome.end), "{} for {bound}", outcome.end);
        ends.push(outcome.end);
    }
    assert!(ends[0] > 3 * ends[1], "{ends:?}");
}

#[test]
fn a_hosts_fifo_has_no_more_tasks_than_entries_however_many_packets_wait() {
    // Warps take long, so that packets pile up.
    let lanes = lanes(32, |_| 5000);
    let arrivals = every(1, 32 * 400, 32);
    for fifo in [1, 4, 64] {
        let spec = HermesSpec { dispatcher: Some(polled(4, 16)), fifo, ..hermes(Some(1024)) };
        let outcome = go(&SimtSpec { cores: 2, ..paper() }, &spec, &lanes, &arrivals, 1.0);
        conserved(&outcome, &arrivals, true);
        assert_eq!(outcome.most_posted, fifo);
    }
}

#[test]
fn steady_packets_go_in_full_warps_and_leave_at_their_rate() {
    let lanes = lanes(32, |_| 50);
    let arrivals = every(4, 32 * 200, 32);
    let outcome = go(&paper(), &hermes(Some(1024)), &lanes, &arrivals, 4.0);
    assert_eq!((outcome.partial, outcome.warps.len(), outcome.lost.len()), (0, 200, 0));
    let last = arrivals.last().unwrap().at;
    assert!(outcome.end - last < 3000, "{} after the last arrival", outcome.end - last);
    assert_eq!(outcome.efficiency(), 1.0);
    conserved(&outcome, &arrivals, true);
}

#[test]
fn an_estimated_timeout_follows_the_rate_and_a_fixed_one_does_not() {
    let lanes = lanes(32, |_| 10);
    // The nominal rate is 16 times what comes.
    let arrivals = every(64, 2000, 32);
    let fixed = go(&paper(), &hermes(Some(1024)), &lanes, &arrivals, 4.0);
    let mut spec = hermes(Some(1024));
    spec.timeout.estimated = true;
    let estimated = go(&paper(), &spec, &lanes, &arrivals, 4.0);
    assert!(fixed.partial > 300, "{}", fixed.partial);
    assert!(estimated.partial < 60, "{}", estimated.partial);
    conserved(&estimated, &arrivals, true);
}

#[test]
fn the_dcq_costs_no_throughput_and_adds_delay_behind_slow_warps() {
    // Every sixteenth packet takes ten times as long, and with it every second warp.
    let lanes = lanes(64, |n| if n == 0 { 2000 } else { 200 });
    let arrivals = every(6, 32 * 2000, 64);
    let with = go(&paper(), &hermes(Some(1024)), &lanes, &arrivals, 6.0);
    let without = go(&paper(), &hermes(None), &lanes, &arrivals, 6.0);
    conserved(&with, &arrivals, true);
    conserved(&without, &arrivals, false);
    let delay = |o: &SimtOutcome| o.warps.iter().map(|w| w.committed - w.filled).sum::<u64>() as f64;
    assert!(delay(&with) > delay(&without), "{} {}", delay(&with), delay(&without));
    let longer = with.end as f64 / without.end as f64;
    assert!((0.99..1.01).contains(&longer), "{longer}");
    assert!(without.warps.windows(2).any(|w| w[0].first > w[1].first), "without it warps overtake");
}

#[test]
fn a_full_dcq_stops_the_issue_and_loses_nothing() {
    let lanes = lanes(64, |n| if n == 0 { 2000 } else { 20 });
    let arrivals = every(1, 32 * 100, 64);
    let outcome = go(&paper(), &hermes(Some(3)), &lanes, &arrivals, 1.0);
    assert_eq!((outcome.most_uncommitted, outcome.lost.len()), (3, 0));
    conserved(&outcome, &arrivals, true);
}

#[test]
fn a_full_fifo_keeps_packets_waiting_and_loses_nothing() {
    let lanes = lanes(32, |_| 3000);
    let mut spec = hermes(Some(1024));
    spec.fifo = 2;
    let mut gpu = paper();
    gpu.mcw = 1;
    gpu.cores = 1;
    let arrivals = every(1, 32 * 20, 32);
    let outcome = go(&gpu, &spec, &lanes, &arrivals, 1.0);
    assert_eq!((outcome.most_posted, outcome.lost.len()), (2, 0));
    conserved(&outcome, &arrivals, true);
}

#[test]
fn a_smaller_packet_buffer_loses_more() {
    let lanes = lanes(32, |_| 500);
    let arrivals = every(1, 32 * 300, 32);
    let lost = |slots: u64| {
        let mut spec = hermes(Some(1024));
        spec.buffer.size = Size::from_bytes(slots * 2048);
        let outcome = go(&paper(), &spec, &lanes, &arrivals, 1.0);
        conserved(&outcome, &arrivals, true);
        assert!(u64::from(outcome.most_buffered) <= slots);
        outcome.lost.len()
    };
    let lost = [64, 512, 2048, 16384].map(lost);
    assert!(lost[0] > lost[1] && lost[1] > lost[2] && lost[2] > lost[3], "{lost:?}");
    assert_eq!(lost[3], 0);
}

#[test]
fn specifications_that_cannot_be_are_refused() {
    let refuse = |change: fn(&mut HermesSpec)| {
        let mut spec = hermes(Some(1024));
        change(&mut spec);
        match run(&paper(), &spec, &KERNEL, &lanes(1, |_| 1), 0, &every(1, 1, 1), 1.0, &mut || true) {
            Err(SimtError::Machine(error)) => error.path,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refuse(|s| s.fifo = 0), "hermes.fifo");
    assert_eq!(refuse(|s| s.timeout.warps = 0.0), "hermes.timeout.warps");
    assert_eq!(refuse(|s| s.timeout.weight = 2.0), "hermes.timeout.weight");
    assert_eq!(refuse(|s| s.dcq = Some(DcqSpec { entries: 0, commits: 1 })), "dcq.entries");
    assert_eq!(refuse(|s| s.buffer.slot = Size::from_bytes(100)), "buffer.slot");
    assert_eq!(refuse(|s| s.buffer.size = Size::from_bytes(2048)), "buffer.size");
    // Tables and packets have line numbers below 2^30.
    let of = |slots: u64, tables| {
        let slot = Size::from_bytes(2048);
        PacketBufferSpec { size: Size::from_bytes(slots * 2048), slot, nic: false }.layout(tables).ok()
    };
    assert_eq!(of((1 << 25) - 1, 64), None);
    let most = WarpPlacement { base: 31, stride: 32, slots: (1 << 25) - 1, first: 0 };
    assert_eq!(of((1 << 25) - 1, 62), Some(most));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever the arrivals, sizes and queues: packets are conserved, and with a DCQ in order.
    #[test]
    fn packets_are_conserved_through_fifo_and_dcq(
        gaps in prop::collection::vec(0u64..400, 1..400),
        (fifo, dcq, slots, mcw, cores) in (1u32..5, prop::option::of(1u32..6), 32u64..200, 1u32..9, 1u32..4),
        works in prop::collection::vec(1u32..300, 1..40),
        (warps, estimated) in (0.1f64..4.0, any::<bool>()),
    ) {
        let lanes = lanes(works.len() as u32, |n| works[n as usize]);
        let mut at = 0;
        let arrivals: Vec<_> = gaps.iter().enumerate().map(|(n, gap)| {
            at += gap;
            PacketArrival { at, bytes: 64 + n as u32 % 1000, lane: n as u32 % works.len() as u32 }
        }).collect();
        let mut gpu = paper();
        (gpu.mcw, gpu.cores) = (mcw, cores);
        let mut spec = hermes(dcq);
        (spec.fifo, spec.timeout.warps, spec.timeout.estimated) = (fifo, warps, estimated);
        spec.buffer.size = Size::from_bytes(slots * 2048);
        let outcome = go(&gpu, &spec, &lanes, &arrivals, 200.0);
        conserved(&outcome, &arrivals, dcq.is_some());
        prop_assert!(outcome.most_posted <= fifo);
        prop_assert!(u64::from(outcome.most_buffered) <= slots);
        if let Some(entries) = dcq {
            prop_assert!(outcome.most_uncommitted <= entries);
        }
    }
}
