//! DDIO against the measurements in `validation/ddio`: hit rate of the NIC's writes by I/O ways, miss rate by
//! receive descriptors.
//!
//! `cargo test --release -p wirespeed-sim --test suite validation_ddio:: -- --ignored --nocapture` prints all points.

use sim::{Overrides, RunOptions, Scenario};

const SCENARIO: &str = include_str!("../../../../validation/ddio/scenario.toml");
const REFERENCE: &str = include_str!("../../../../validation/ddio/reference.csv");

/// Points of the hit or miss rate within which a measurement has to be met.
const TOLERANCE: f64 = 3.0;
/// Ways and descriptors of the points that miss it: rows of `validation/ddio/DEVIATIONS.md`.
const DEVIATIONS: [(u32, u32); 1] = [(2, 2048)];
/// Mbufs in circulation beyond the ring: a burst and the transmit ring.
const BEYOND_THE_RING: u32 = 96;

struct Point {
    curve: &'static str,
    frame: u32,
    descriptors: u32,
    ways: u32,
    /// Percent of writes that hit.
    hits: f64,
}

fn points() -> Vec<Point> {
    let point = |line: &'static str| {
        let fields: Vec<&str> = line.splitn(7, ',').collect();
        let number = |i: usize| fields[i].parse().unwrap();
        let value: f64 = fields[5].parse().unwrap();
        let hits = if fields[4] == "hit" { value } else { 100.0 - value };
        Point { curve: fields[0], frame: number(1), descriptors: number(2), ways: number(3), hits }
    };
    REFERENCE.lines().skip(1).map(point).collect()
}

/// Percent of the NIC's writes that hit.
fn simulate(point: &Point, packets: u64) -> f64 {
    let set = vec![
        format!("nic.rx_descriptors={}", point.descriptors),
        format!("mempool.size={}", point.descriptors + BEYOND_THE_RING),
        format!("traffic.sizes.fixed={}", point.frame - 4),
        format!("machine.llc.io_ways={}", point.ways),
        format!("run.packets={packets}"),
    ];
    let scenario = Scenario::read(SCENARIO, "scenario.toml", &Overrides { set, ..Overrides::default() }).unwrap();
    let result = sim::run(&scenario, RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true).unwrap();
    let counted = result.measured.counts.memory.dma_write;
    100.0 * counted.hits as f64 / (counted.hits + counted.misses) as f64
}

fn compare(points: &[Point], packets: u64) {
    println!("{:<12} {:>5} {:>11} {:>8} {:>8} {:>9}", "curve", "ways", "descriptors", "measured", "model", "deviation");
    let mut wrong = Vec::new();
    for point in points {
        let model = simulate(point, packets);
        let deviation = model - point.hits;
        let Point { curve, ways, descriptors, hits, .. } = point;
        println!("{curve:<12} {ways:>5} {descriptors:>11} {hits:>7.2}% {model:>7.2}% {deviation:>+9.2}");
        if (deviation.abs() <= TOLERANCE) == DEVIATIONS.contains(&(*ways, *descriptors)) {
            wrong.push(format!("{ways} ways, {descriptors} descriptors: {deviation:+.2}"));
        }
    }
    assert!(wrong.is_empty(), "not as DEVIATIONS.md says: {wrong:?}");
}

#[test]
fn one_point_of_each_curve_is_met() {
    let of = |descriptors, ways| points().into_iter().find(|p| (p.descriptors, p.ways) == (descriptors, ways)).unwrap();
    compare(&[of(4096, 3), of(512, 2)], 25_000);
}

#[test]
#[ignore = "eleven runs of 100,000 packets"]
fn every_point_is_met_or_a_row_of_deviations() {
    compare(&points(), 100_000);
}
