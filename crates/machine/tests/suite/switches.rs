//! Techniques of packet buffers at the controllers behind a server's LLC: a queue for output that goes first, a map in
//! halves, and rows that are all open.

use machine::buffer::{BufferAllocation, BufferSpec, PacketBuffer};
use machine::dram::map::Decoder;
use machine::dram::{Commanded, ControllerSetting, Dram, DramSpec, FinishedRead, presets};
use proptest::prelude::*;
use units::{LINE_BYTES, Line, Ps, Size, Span};

const STANDARD: &str = "ddr4-3200aa";
const ORDERS: [&str; 7] =
    ["fr-fcfs", "fr-fcfs=4", "fcfs", "fcfs=4", "batch=direction/4/0", "batch=bank-parity/1/2", "batch=direction/8/4"];

#[derive(Clone, Copy, Debug)]
struct Asked {
    line: u64,
    write: bool,
    output: bool,
    at: Ps,
}

fn dram(channels: u32, all_hits: bool) -> DramSpec {
    let spec = DramSpec::of_standard(STANDARD, Span::from_ns(0.0)).unwrap();
    DramSpec { channels, all_hits, ..spec }
}

fn setting(order: &str) -> ControllerSetting {
    ControllerSetting { order: order.parse().unwrap(), ..ControllerSetting::default() }
}

/// When each read is answered, and how many writes were accepted; nothing comes before it was said to at the least.
fn serve(spec: &DramSpec, setting: &ControllerSetting, asked: &[Asked]) -> (Vec<Option<Ps>>, usize) {
    let mut dram = Commanded::new(spec, setting, "machine.dram").unwrap();
    let mut answers = vec![None; asked.len()];
    let (mut finished, mut accepted, mut writes): (Vec<FinishedRead>, Vec<(u32, Ps)>, usize) =
        (Vec::new(), Vec::new(), 0);
    let mut next = 0;
    loop {
        // What comes in before something may happen is handed in before that.
        let earliest = dram.earliest(true);
        let until = match (asked.get(next), earliest) {
            (Some(request), at) if at.is_none_or(|at| request.at <= at) => {
                dram.hand_in(next as u64, 0, Line(request.line), request.write, request.output, request.at);
                next += 1;
                continue;
            }
            (_, Some(at)) => at,
            (_, None) => return (answers, writes),
        };
        dram.drive(until, &mut finished, &mut accepted);
        for (_, at) in accepted.drain(..) {
            assert!(at >= until, "a write is accepted at {at}, before {until}");
            writes += 1;
        }
        for FinishedRead { id, at, .. } in finished.drain(..) {
            assert!(at >= until, "an answer comes at {at}, before {until}");
            assert!(at > asked[id as usize].at);
            assert_eq!(answers[id as usize].replace(at), None, "{id} is answered twice");
        }
    }
}

/// So many reads of random rows in a burst, and every 8th of them the NIC's.
fn burst(count: u64, output: bool) -> Vec<Asked> {
    let place = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (0..count)
        .map(|i| Asked { line: place(i), write: i % 3 == 0, output: output && i % 8 == 1, at: Ps(i * 500) })
        .map(|asked| Asked { write: asked.write && !asked.output, ..asked })
        .collect()
}

fn mean_wait(asked: &[Asked], answers: &[Option<Ps>], of: impl Fn(&Asked) -> bool) -> f64 {
    let waits: Vec<f64> = (asked.iter().zip(answers))
        .filter(|(asked, _)| of(asked))
        .filter_map(|(asked, at)| at.map(|at| (at - asked.at).as_ns()))
        .collect();
    waits.iter().sum::<f64>() / waits.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]
    #[test]
    fn under_any_switches_each_request_is_served_once_and_none_before_it_was_said_to_be_possible(
        order in 0..ORDERS.len(),
        output_first in any::<bool>(),
        all_hits in any::<bool>(),
        halves in any::<bool>(),
        queue in 1u32..40,
        page in prop::sample::select(vec![None, Some("closed"), Some("adaptive=64")]),
        refresh in prop::sample::select(vec!["all-bank", "off"]),
        channels in 1u32..4,
        gaps in prop::collection::vec((0u64..40_000, 0u64..1 << 22, any::<bool>(), any::<bool>()), 1..300),
    ) {
        let mut at = 0;
        let asked: Vec<Asked> = gaps
            .into_iter()
            .map(|(gap, line, write, output)| {
                at += gap * u64::from(gap > 20_000);
                Asked { line, write, output: output && !write, at: Ps(at) }
            })
            .collect();
        let setting = ControllerSetting {
            halves: halves.then(|| Size::from_bytes((1 << 20) * u64::from(channels))),
            queue,
            output_first,
            page: page.map(|page| page.parse().unwrap()),
            refresh: refresh.parse().unwrap(),
            ..setting(ORDERS[order])
        };
        let (answers, writes) = serve(&dram(channels, all_hits), &setting, &asked);
        prop_assert_eq!(writes, asked.iter().filter(|a| a.write).count());
        for (asked, answer) in asked.iter().zip(&answers) {
            prop_assert_eq!(answer.is_some(), !asked.write);
        }
    }

    #[test]
    fn a_map_in_halves_keeps_every_line_apart_and_tells_banks_by_stretch(
        lines in prop::collection::btree_set(0u64..1 << 26, 2..200),
        stretch in 12u32..30,
        map in prop::sample::select(vec![
            "permuted:row rank bank column group", "row rank bank group column", "bank row column group",
        ]),
    ) {
        let mut standard = presets::preset(STANDARD).unwrap();
        let halves = Some(Size::from_bytes(1 << stretch));
        let setting = ControllerSetting { map: map.into(), halves, ..ControllerSetting::default() };
        let (_, map) = setting.address_map(&mut standard, 1, "machine.dram").unwrap();
        let decoder = Decoder::new(&map, &standard).unwrap();
        let mut seen = std::collections::HashSet::new();
        for line in lines {
            let place = decoder.decode(line * LINE_BYTES);
            prop_assert!(seen.insert(place), "two lines at {place:?}");
            prop_assert_eq!(u64::from(place.bank & 1), ((line * LINE_BYTES) >> stretch) & 1);
        }
    }
}

#[test]
fn packets_of_two_pools_alternate_between_even_and_odd_banks_in_a_map_of_halves() {
    let size = 8u64 << 20;
    let mut standard = presets::preset(STANDARD).unwrap();
    let halves = Some(Size::from_bytes(size / 2));
    let setting = ControllerSetting { halves, ..ControllerSetting::default() };
    let (_, map) = setting.address_map(&mut standard, 1, "machine.dram").unwrap();
    let decoder = Decoder::new(&map, &standard).unwrap();
    for allocation in BufferAllocation::ALL {
        let parities = |pools| {
            let spec = BufferSpec { allocation, size: Size::from_bytes(size), pools, ..BufferSpec::default() };
            let mut buffer = PacketBuffer::new(&spec, "buffer", |_| 0).unwrap();
            let mut cells = Vec::new();
            (0..100u32)
                .map(|i| {
                    cells.clear();
                    assert!(buffer.allocate(64 + i * 14, &mut cells));
                    let mut banks: Vec<u32> =
                        cells.iter().map(|&cell| decoder.decode(3 * size + buffer.addr(cell).0).bank & 1).collect();
                    banks.dedup();
                    assert_eq!(banks.len(), 1, "a packet lies in banks of one parity");
                    banks[0]
                })
                .collect::<Vec<_>>()
        };
        let alternating: Vec<u32> = (0..100).map(|i| i % 2).collect();
        assert_eq!(parities(2), alternating, "{allocation:?}");
        assert_ne!(parities(1), alternating, "{allocation:?}");
    }
}

#[test]
fn rows_that_are_all_open_are_never_slower_and_refresh_stays() {
    let asked = burst(3000, false);
    for order in ORDERS {
        for page in [None, Some("closed")] {
            let setting = ControllerSetting { page: page.map(|p| p.parse().unwrap()), ..setting(order) };
            let last = |all_hits, setting: &ControllerSetting| {
                let (answers, _) = serve(&dram(1, all_hits), setting, &asked);
                answers.into_iter().flatten().max().unwrap()
            };
            let (ideal, real) = (last(true, &setting), last(false, &setting));
            assert!(ideal < real, "{order}, {page:?}: {ideal} is not before {real}");
            let off = ControllerSetting { refresh: "off".parse().unwrap(), ..setting };
            assert!(last(true, &off) < ideal, "{order}: refreshes take time");
        }
    }
}

#[test]
fn all_hits_open_no_row_and_take_the_time_of_a_hit() {
    let asked: Vec<Asked> =
        (0..40).map(|i| Asked { line: i * 77_777, write: false, output: false, at: Ps::from_ns(i * 100) }).collect();
    let mut dram = Commanded::new(&dram(1, true), &setting("fr-fcfs"), "machine.dram").unwrap();
    let standard = presets::preset(STANDARD).unwrap();
    for (i, asked) in asked.iter().enumerate() {
        dram.hand_in(i as u64, 0, Line(asked.line), false, false, asked.at);
    }
    let (mut finished, mut accepted) = (Vec::new(), Vec::new());
    while let Some(at) = dram.earliest(false) {
        dram.drive(at, &mut finished, &mut accepted);
    }
    let clocks = 1 + standard.timing("CL").unwrap() + standard.timing("BL").unwrap();
    assert_eq!(finished.len(), asked.len());
    for done in &finished {
        let took = (done.at - asked[done.id as usize].at).as_ns();
        // Up to a clock until the next one begins.
        let least = f64::from(clocks) * 1e3 / f64::from(standard.clock_mhz);
        assert!((least - 0.01..least + 0.64).contains(&took), "{took} ns for {least} ns");
    }
    let counters = dram.counters();
    assert_eq!((counters.row_hits, counters.row_misses, counters.row_conflicts), (40, 0, 0));
    assert_eq!(dram.work(Ps::from_ns(10_000)).activates, 0);
}

#[test]
fn without_a_controller_all_hits_take_the_time_of_a_hit_too() {
    let mut ideal = Dram::new(&dram(2, true), "machine.dram").unwrap();
    let hit = ideal.unloaded_miss();
    for i in 0..100u64 {
        let now = Ps::from_ns(400 + i * 200);
        let took = ideal.line(Line(i * 999_983), i % 2 == 0, now).at - now;
        assert!(took == hit || took > hit + Ps::from_ns(50), "{took}: a hit, or in a refresh");
    }
    let (counters, work) = (ideal.counters(), ideal.work(Ps::from_ns(30_000)));
    assert_eq!((counters.row_hits, counters.row_misses + counters.row_conflicts, work.activates), (100, 0, 0));
    let mut real = Dram::new(&dram(2, false), "machine.dram").unwrap();
    assert_eq!(real.unloaded_miss() - hit, dram(2, false).t_rcd.ps());
    let run = |dram: &mut Dram| (0..5000).map(|i| dram.line(Line(i * 999_983), false, Ps(i * 100)).at).max();
    assert!(run(&mut ideal) < run(&mut real));
}

#[test]
fn output_that_goes_first_waits_less_under_load_and_the_others_more() {
    let asked = burst(3000, true);
    for order in ORDERS {
        for writes in ["mixed", "drain=32/24/8"] {
            if writes != "mixed" && !order.starts_with("fr") {
                continue;
            }
            let wait = |output_first| {
                let writes = Some(writes.parse().unwrap());
                let setting = ControllerSetting { output_first, writes, ..setting(order) };
                let (answers, _) = serve(&dram(1, false), &setting, &asked);
                [true, false].map(|output| mean_wait(&asked, &answers, |a| a.output == output && !a.write))
            };
            let ([plain, others], [first, behind]) = (wait(false), wait(true));
            assert!(first < plain / 2.0, "{order}, {writes}: {first} ns beside {plain} ns");
            assert!(behind > others * 0.9, "{order}, {writes}: {behind} ns beside {others} ns");
        }
    }
}

#[test]
fn a_queue_for_output_changes_nothing_where_there_is_no_output() {
    let asked = burst(2000, false);
    for order in ORDERS {
        let answers = |output_first| {
            let setting = ControllerSetting { output_first, ..setting(order) };
            serve(&dram(2, false), &setting, &asked).0
        };
        assert_eq!(answers(true), answers(false), "{order}");
    }
}

#[test]
fn what_contradicts_itself_is_named() {
    let error =
        |setting: ControllerSetting| Commanded::new(&dram(3, false), &setting, "machine.dram").unwrap_err().to_string();
    let queue = error(ControllerSetting { queue: 60, output_first: true, ..setting("fr-fcfs") });
    assert_eq!(
        queue,
        "machine.dram.controller.output_first = 60 entries for output, with 60 and 32 for writes: allowed is up to 128 \
         together (make controller.queue smaller: output has a queue as long)"
    );
    let halves = |bytes| error(ControllerSetting { halves: Some(Size::from_bytes(bytes)), ..setting("fcfs") });
    assert!(halves(4 << 20).starts_with("machine.dram.controller.halves = 4 MiB over 3 channels: allowed is as many"));
    assert!(halves(9 << 20).starts_with("machine.dram.controller.halves = stretches of 3145728 B: allowed is a power"));
}
