//! The network processor as a whole: what is conserved, what keeps its order, what the closed forms are.

use std::collections::BTreeMap;

use machine::buffer::{BufferAllocation, BufferSpec};
use machine::microengines::{MicroenginesSpec, NetprocWorkload, NetworkProcessor, Op, PacketWork, ThreadStep, Watched};
use proptest::prelude::*;
use units::Size;

fn draw() -> impl FnMut(usize) -> usize {
    let mut state = 1u64;
    move |n| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    }
}

/// `count` packets of the paper's sizes, of `flows` flows.
fn workload(count: u32, ports: u16, flows: u32, locked: bool) -> NetprocWorkload {
    let mut draw = draw();
    let mut workload = NetprocWorkload::default();
    for _ in 0..count {
        let from = workload.steps.len() as u32;
        workload.steps.push(ThreadStep { ticks: 30, op: Op::Sram });
        if locked {
            workload.steps.push(ThreadStep { ticks: 10, op: Op::Lock(draw(4) as u32) });
            let Op::Lock(lock) = workload.steps[workload.steps.len() - 1].op else { unreachable!() };
            workload.steps.push(ThreadStep { ticks: 10, op: Op::Sram });
            workload.steps.push(ThreadStep { ticks: 10, op: Op::Unlock(lock) });
        }
        let flow = draw(flows as usize) as u32;
        workload.works.push(PacketWork {
            bytes: [40, 40, 576, 1500][draw(4)],
            flow,
            port: (draw(10) > 0).then_some((flow % u32::from(ports)) as u16),
            steps: (from, workload.steps.len() as u32),
        });
    }
    workload
}

fn processor(ports: u32) -> MicroenginesSpec {
    MicroenginesSpec::ixp1200(ports)
}

/// What left in which order, and the bytes written and read.
#[derive(Default)]
struct Seen {
    sent: Vec<u32>,
    written: u64,
    read: u64,
}

impl Watched for Seen {
    fn reference(&mut self, _: u64, _: u64, bytes: u32, write: bool) {
        *(if write { &mut self.written } else { &mut self.read }) += u64::from(bytes);
    }
    fn leaves(&mut self, work: u32) {
        self.sent.push(work);
    }
}

fn run(
    spec: &MicroenginesSpec,
    workload: &NetprocWorkload,
    packets: u64,
) -> (machine::microengines::NetprocOutcome, Seen) {
    let mut processor = NetworkProcessor::watched(spec, workload, 16, draw(), Seen::default()).unwrap();
    let outcome = processor.run(0, packets).unwrap();
    (outcome, processor.into_watched())
}

fn any_spec() -> impl Strategy<Value = MicroenginesSpec> {
    let switches = (any::<bool>(), any::<bool>(), 1u32..6, prop::sample::select(vec![1u32, 2, 4, 8]));
    let ports = prop::sample::select(vec![1u32, 2, 4, 16]);
    let allocation = prop::sample::select(BufferAllocation::ALL.to_vec());
    (ports, allocation, switches, any::<[bool; 6]>()).prop_map(
        |(ports, allocation, (cache, hits, batch, block), flags)| {
            let mut spec = processor(ports).row_aware(allocation);
            if flags[0] {
                spec = spec.reference();
                spec.buffer.allocation = allocation;
            }
            spec.cache_cells = if cache { 4 } else { 0 };
            spec.sdram.all_hits = hits;
            spec.sdram.batch = batch;
            spec.transmit.block = block;
            spec.sdram.prefetch = flags[1];
            spec.sdram.output_first ^= flags[2];
            spec.buffer.shuffled = flags[3];
            spec.sdram.banks = if flags[4] { 2 } else { 4 };
            if flags[5] && !cache {
                spec.buffer.size = Size::from_bytes(96 << 10);
            }
            spec
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// All combinations of switches are legal: packets are conserved, a flow keeps its order, and what is read was
    /// written.
    #[test]
    fn every_combination_of_switches_conserves_packets_and_keeps_flows_in_order(
        spec in any_spec(), locked: bool, flows in prop::sample::select(vec![3u32, 40, 5000]),
    ) {
        let workload = workload(4000, spec.ports as u16, flows, locked);
        let (outcome, seen) = run(&spec, &workload, 3000);
        prop_assert_eq!(outcome.packets, 3000);
        prop_assert!((3000..=3100).contains(&seen.sent.len()));
        let mut latest: BTreeMap<u32, u32> = BTreeMap::new();
        for &work in &seen.sent {
            let flow = workload.works[work as usize].flow;
            if let Some(before) = latest.insert(flow, work) {
                prop_assert!(before < work, "packet {} of flow {} left before {}", before, flow, work);
            }
        }
        prop_assert!(seen.read <= seen.written);
        prop_assert!(outcome.sdram_utilization <= 1.0 && outcome.sdram_utilization > 0.1);
        let sdram = outcome.sdram;
        prop_assert!(sdram.reads.row_hits <= sdram.reads.transfers);
    }
}

#[test]
fn without_row_misses_and_with_wide_output_the_bus_is_the_bound() {
    let mut spec = processor(16).row_aware(BufferAllocation::Piecewise);
    spec.sdram.all_hits = true;
    spec.transmit.block = 4;
    spec.transmit.drain_ns = 100;
    let workload = workload(4000, 16, 5000, false);
    let mut processor = NetworkProcessor::new(&spec, &workload, 16, draw()).unwrap();
    let outcome = processor.run(1000, 20_000).unwrap();
    // 8 bytes at 100 MHz, each byte in and out: 3.2 Gbps but for words that are not full.
    assert!(outcome.sdram_utilization > 0.995, "{outcome:?}");
    assert!((3.1..3.2).contains(&outcome.gbps), "{}", outcome.gbps);
}

#[test]
fn slots_bound_a_port_by_their_cycle() {
    let mut spec = processor(1).row_aware(BufferAllocation::Piecewise);
    (spec.transmit.slots, spec.transmit.drain_ns, spec.sdram.all_hits, spec.software.poll) = (1, 10_000, true, 0);
    let workload = NetprocWorkload {
        works: vec![PacketWork { bytes: 64, flow: 0, port: Some(0), steps: (0, 0) }],
        steps: Vec::new(),
    };
    let outcome = NetworkProcessor::new(&spec, &workload, 16, draw()).unwrap().run(50, 500).unwrap();
    // A cell each 4,000 ticks that its slot is held, 3 references of 22 with 10 before each, 10 to post, 59 to hand over,
    // and 32 to read on an idle SDRAM, up to 3 of which wait for the clock.
    let per_packet = outcome.seconds * 400e6 / 500.0;
    assert!((4197.0..=4200.0).contains(&per_packet), "{per_packet}");
}

#[test]
fn threads_that_poll_keep_their_engine_busy_and_see_what_comes_a_look_later() {
    let workload = NetprocWorkload {
        works: vec![PacketWork { bytes: 64, flow: 0, port: Some(0), steps: (0, 0) }],
        steps: Vec::new(),
    };
    let run = |threads, poll| {
        let mut spec = processor(1).row_aware(BufferAllocation::Piecewise);
        (spec.transmit.slots, spec.transmit.drain_ns, spec.sdram.all_hits) = (1, 10_000, true);
        (spec.output_engines, spec.threads, spec.software.poll) = (1, threads, poll);
        NetworkProcessor::new(&spec, &workload, 16, draw()).unwrap().run(50, 500).unwrap()
    };
    let (woken, one, four) = (run(1, 0), run(1, 10), run(4, 10));
    // Of a cell's cycle the thread waits 4,000 ticks for the slot; of 32 it looks in 10.
    assert!(woken.engine_idle[1] > 0.97, "{woken:?}");
    assert!((one.engine_idle[1] - 22.0 / 32.0).abs() < 0.02, "{one:?}");
    assert!(four.engine_idle[1] < 0.03, "{four:?}");
    let late = (one.seconds - woken.seconds) * 400e6 / 500.0;
    assert!((0.0..=32.0).contains(&late), "{late}");
}

#[test]
fn packets_wait_for_memory_where_there_is_little() {
    let mut spec = processor(16).row_aware(BufferAllocation::Linear);
    spec.buffer = BufferSpec { size: Size::from_bytes(24 << 10), ..spec.buffer };
    let workload = workload(4000, 16, 5000, false);
    let outcome = NetworkProcessor::new(&spec, &workload, 16, draw()).unwrap().run(100, 3000).unwrap();
    assert!(outcome.stalls[1] > 0 && outcome.buffer.stalls > 0 && outcome.buffer.stalls_with_room > 0);
}

#[test]
fn what_does_not_fit_together_is_refused_with_both_numbers() {
    let workload = workload(10, 16, 10, false);
    let message = |change: &dyn Fn(&mut MicroenginesSpec)| {
        let mut spec = processor(16);
        change(&mut spec);
        NetworkProcessor::new(&spec, &workload, 16, draw()).err().unwrap().to_string()
    };
    let ports = message(&|spec| spec.queues = 8);
    assert!(ports.contains("queues = 8 for 16 ports"), "{ports}");
    let slots = message(&|spec| spec.transmit.slots = 8);
    assert!(slots.contains("8 for 16 ports"), "{slots}");
    let longest = message(&|spec| spec.buffer.longest = Size::from_bytes(1000));
    assert!(longest.contains("1500 bytes: allowed is 1 to 1000 bytes"), "{longest}");
    let page = message(&|spec| spec.buffer.page = Some(Size::from_bytes(32)));
    assert!(page.contains("32 B with cells of 64 B"), "{page}");
    let region = message(&|spec| {
        spec.cache_cells = 4;
        spec.buffer.size = Size::from_bytes(1 << 20);
    });
    assert!(region.contains("buffer.size = 64 KiB a queue") && region.contains("92 packets"), "{region}");
    let port = message(&|spec| spec.ports = 1);
    assert!(port.contains("below 1 ports"), "{port}");
}

#[test]
fn more_threads_than_there_are_marks_for_are_refused_with_both_numbers() {
    for (input_engines, output_engines, what) in
        [(32, 2, "32 engines of 16 threads"), (4, 8, "8 engines of 16 threads")]
    {
        let spec = MicroenginesSpec { input_engines, output_engines, threads: 16, ..processor(16) };
        let error = spec.check("microengines").unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("threads in all"), "{error}");
    }
    let most = MicroenginesSpec { input_engines: 16, output_engines: 4, threads: 16, ..processor(16) };
    let work = workload(50, 16, 50, false);
    let mut full = NetworkProcessor::new(&most, &work, 16, draw()).unwrap();
    assert!(full.run(10, 200).unwrap().packets >= 200);
}
