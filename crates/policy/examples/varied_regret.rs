//! What the allocator and fixed masks miss of the best, on the surrogate, over schedules in which the best ways vary:
//! `cargo run --release -p wirespeed-policy --example varied_regret [SCHEDULES [FIRST]]`
//!
//! Then how often it changes anything once settled, by the shape of the load. The allocator was tuned on seeds 0 to 59.

#[path = "../tests/suite/plant/mod.rs"]
mod plant;
#[path = "../tests/suite/varied/mod.rs"]
mod varied;

/// Intervals in which an allocator may look for its place.
const SETTLED: usize = 200;

fn main() -> Result<(), std::num::ParseIntError> {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse()).collect::<Result<_, _>>()?;
    let of = |i: usize, otherwise: u64| args.get(i).copied().unwrap_or(otherwise);
    let (count, first) = (of(0, 60), of(1, 0));
    let seeds = first..first + count;
    let stakes: Vec<f64> = seeds.clone().map(|seed| varied::schedule(seed).1).collect();
    println!("{count} schedules from seed {first}");
    println!("the best single mask of each: mean {:.2} %", 100.0 * stakes.iter().sum::<f64>() / count as f64);
    let (ours, others) = varied::studies(seeds.clone());
    ours.print();
    others.iter().for_each(varied::VariedStudy::print);
    let rests: Vec<[(usize, f64); 3]> = seeds.map(|seed| varied::at_rest(seed, SETTLED)).collect();
    for (i, shape) in varied::SHAPES.iter().enumerate() {
        let changes: usize = rests.iter().map(|each| each[i].0).sum();
        let per_200 = 200.0 * changes as f64 / (count as f64 * varied::INTERVALS as f64);
        let worst = rests.iter().map(|each| each[i].0).max().unwrap_or(0);
        let regret = 100.0 * rests.iter().map(|each| each[i].1).sum::<f64>() / count as f64;
        println!(
            "once settled, {shape:?}: {per_200:.2} changes in 200 intervals, {worst} at most in {}, regret {regret:.2} %",
            varied::INTERVALS
        );
    }
    Ok(())
}
