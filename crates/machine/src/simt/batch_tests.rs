use probe::{Probe, Ref, RegionId};
use proptest::prelude::*;
use units::Size;

use super::*;
use crate::simt::lane::LaneRecorder;
use crate::simt::spec::paper;

const KERNEL: KernelSpec = KernelSpec { registers: 16, shared: 0 };

fn batch(packets: u32, overlap: Overlap) -> BatchSpec {
    BatchSpec {
        packets,
        block: 8,
        link: Rate::from_gbps(64.0),
        copy: Span::from_ns(0.0),
        launch: Span::from_ns(0.0),
        overlap,
        results: Results::Frames,
        buffer: PacketBufferSpec { size: Size::from_bytes(16 << 20), slot: Size::from_bytes(2048), nic: false },
    }
}

fn lanes(work: u32) -> Lanes {
    let mut recorder = LaneRecorder::new(&[]).unwrap();
    for _ in 0..32 {
        recorder.touch(Ref::load(RegionId::PACKET, 14, 20, 1));
        recorder.work(2, work);
        recorder.end_lane();
    }
    recorder.into_lanes()
}

fn every(gap: u64, count: u32) -> Vec<PacketArrival> {
    (0..count).map(|n| PacketArrival { at: u64::from(n) * gap, bytes: 800, lane: n % 32 }).collect()
}

fn go(spec: &BatchSpec, lanes: &Lanes, arrivals: &[PacketArrival]) -> SimtOutcome {
    run(&paper(), spec, &KERNEL, lanes, 0, arrivals, &mut || true).unwrap()
}

#[test]
fn a_batch_waits_for_its_packets_is_copied_processed_and_copied_back() {
    let arrivals = every(10, 256);
    let outcome = go(&batch(256, Overlap::Serial), &lanes(11), &arrivals);
    let [one] = outcome.warps[..] else { panic!("{:?}", outcome.warps) };
    // 256 packets of 800 B at 8 B a clock.
    assert_eq!((one.filled, one.started, one.copied), (2550, 2550, 2550 + 25_600));
    assert_eq!(one.committed - one.finished, 25_600);
    assert!(one.finished - one.copied > 24 * 10);
    let verdicts = BatchSpec { results: Results::Verdicts, ..batch(256, Overlap::Serial) };
    let one = go(&verdicts, &lanes(11), &arrivals).warps[0];
    assert_eq!(one.committed - one.finished, 128);
    let slow = BatchSpec { copy: Span::from_ns(10_000.0), launch: Span::from_ns(5000.0), ..verdicts };
    let other = go(&slow, &lanes(11), &arrivals).warps[0];
    assert_eq!(other.committed - other.filled, one.committed - one.filled + 25_000);
}

#[test]
fn serial_batches_follow_each_other_and_three_streams_overlap() {
    let arrivals = every(1, 256 * 12);
    let serial = go(&batch(256, Overlap::Serial), &lanes(2000), &arrivals);
    assert!(serial.warps.windows(2).all(|w| w[1].started == w[0].committed), "saturated: without a gap");
    let streams = go(&batch(256, Overlap::ThreeStreams), &lanes(2000), &arrivals);
    assert!(streams.warps.windows(2).any(|w| w[1].started < w[0].committed));
    for warps in streams.warps.windows(2) {
        assert!(warps[1].started >= warps[0].copied, "one copy at a time goes in");
        assert!(warps[1].finished > warps[0].finished);
    }
    for warps in streams.warps.windows(4) {
        assert!(warps[3].started >= warps[0].committed, "three buffers");
    }
    // In the steady state the slowest of the three stages sets the pace.
    let pace = |o: &SimtOutcome| (o.warps[11].committed - o.warps[3].committed) as f64 / 8.0;
    let stages = streams.warps.iter().map(|w| w.finished - w.copied.max(w.started)).min().unwrap_or(0);
    let slowest = 25_600.max(stages) as f64;
    assert!(pace(&streams) < 1.1 * slowest && pace(&streams) < 0.6 * pace(&serial), "{} {slowest}", pace(&streams));
}

#[test]
fn read_to_the_letter_the_times_of_a_batch_add_up() {
    let arrivals = every(10, 256 * 4);
    let letter = go(&batch(256, Overlap::Nothing), &lanes(100), &arrivals);
    for warps in letter.warps.windows(2) {
        assert_eq!(warps[1].started - warps[0].committed, 255 * 10, "collected once the one before is back");
    }
    assert!(letter.end > go(&batch(256, Overlap::Serial), &lanes(100), &arrivals).end);
}

#[test]
fn a_full_buffer_loses_packets_and_the_rest_is_handed_on_in_order() {
    let arrivals = every(1, 4000);
    let mut spec = batch(256, Overlap::Serial);
    spec.buffer.size = Size::from_bytes(512 * 2048);
    let outcome = go(&spec, &lanes(100), &arrivals);
    assert!(!outcome.lost.is_empty());
    assert_eq!(outcome.accepted.len() + outcome.lost.len(), 4000);
    assert!(outcome.most_buffered <= 512);
}

#[test]
fn specifications_that_cannot_be_are_refused() {
    let refuse = |change: fn(&mut BatchSpec)| {
        let mut spec = batch(256, Overlap::Serial);
        change(&mut spec);
        match run(&paper(), &spec, &KERNEL, &lanes(1), 0, &every(1, 1), &mut || true) {
            Err(SimtError::Machine(error)) => error.path,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refuse(|s| s.packets = 0), "batch.packets");
    assert_eq!(refuse(|s| s.block = 65), "batch.block");
    assert_eq!(refuse(|s| s.link = Rate::from_gbps(0.0)), "batch.link");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn packets_are_conserved_through_batches(
        gaps in prop::collection::vec(0u64..300, 1..600),
        (packets, block, slots) in (1u32..200, 1u32..40, 32u64..400),
        streams: bool,
    ) {
        let mut at = 0;
        let arrivals: Vec<_> = gaps.iter().enumerate().map(|(n, gap)| {
            at += gap;
            PacketArrival { at, bytes: 64 + n as u32 % 1000, lane: n as u32 % 32 }
        }).collect();
        let mut spec = batch(packets, if streams { Overlap::ThreeStreams } else { Overlap::Serial });
        spec.block = block;
        spec.buffer.size = Size::from_bytes(slots * 2048);
        let outcome = go(&spec, &lanes(50), &arrivals);
        prop_assert_eq!(outcome.accepted.len() + outcome.lost.len(), arrivals.len());
        prop_assert!(outcome.warps.windows(2).all(|w| w[0].first + w[0].count == w[1].first));
        prop_assert_eq!(outcome.warps.iter().map(|w| w.count as usize).sum::<usize>(), outcome.accepted.len());
        for warp in &outcome.warps {
            let at = arrivals[outcome.accepted[warp.first as usize] as usize].at;
            let times = [at, warp.filled, warp.started, warp.copied, warp.finished, warp.committed];
            prop_assert!(times.is_sorted(), "{:?}", times);
        }
    }
}
