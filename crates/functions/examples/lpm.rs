//! Times our DIR-24-8 on the routes and keys that `benches/lpm/run.py` prepares, in the same way
//! as `benches/lpm/rte_lpm.c` times DPDK's, and prints the same lines.
//!
//! Usage: `lpm 2|4 ROUTES huge|base REPEATS KEYS...`. Routes are triples of 32-bit little-endian
//! integers (address, length, next hop), keys are addresses of the same kind.

use std::hint::black_box;
use std::time::Instant;

use functions::NextHop;
use functions::lookup::{Dir24_8, Dir24Spec, FibEntry, Pages};

const BURST: usize = 32;

fn words(path: &str) -> Result<Vec<u32>, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{path}: {e}"))?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
}

fn payload(answer: Option<NextHop>) -> u64 {
    answer.map_or(0, |next_hop| u64::from(next_hop.id()) + 1)
}

#[inline(never)]
fn single<E: FibEntry>(table: &Dir24_8<E>, keys: &[u32]) -> u64 {
    keys.iter().map(|&key| payload(table.lookup(key))).sum()
}

#[inline(never)]
fn bulk<E: FibEntry>(table: &Dir24_8<E>, keys: &[u32]) -> u64 {
    let mut answers = [None; BURST];
    let mut sum = 0;
    for keys in keys.as_chunks::<BURST>().0 {
        table.lookup_bulk(keys, &mut answers);
        sum += answers.iter().map(|&answer| payload(answer)).sum::<u64>();
    }
    sum
}

fn run<E: FibEntry>(args: &[String]) -> Result<(), String> {
    let [routes, pages, repeats, key_files @ ..] = args else {
        return Err("usage: lpm 2|4 ROUTES huge|base REPEATS KEYS...".into());
    };
    let routes: Vec<(u32, u8, NextHop)> = words(routes)?
        .as_chunks::<3>()
        .0
        .iter()
        .map(|&[addr, len, next_hop]| Some((addr, len as u8, NextHop::new(next_hop)?)))
        .collect::<Option<_>>()
        .ok_or("a next hop is too large")?;
    let repeats: usize = repeats.parse().map_err(|e| format!("REPEATS: {e}"))?;
    let pages = if pages == "huge" { Pages::Huge } else { Pages::Base };
    let (start, n) = (Instant::now(), routes.len());
    let table = Dir24_8::<E>::new(routes, Dir24Spec { groups: None, pages }).map_err(|e| e.to_string())?;
    let name = format!("wirespeed/{}", E::BYTES);
    println!("build {name} {:.3} s for {n} routes, {} groups", start.elapsed().as_secs_f64(), table.groups());
    let variants = [("single", single::<E> as fn(&Dir24_8<E>, &[u32]) -> u64), ("bulk", bulk::<E>)];
    for path in key_files {
        let keys = words(path)?;
        let hash = keys.iter().fold(0u64, |hash, &key| {
            (hash ^ payload(table.lookup(key))).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1)
        });
        for _ in 0..repeats {
            for (variant, f) in variants {
                let start = Instant::now();
                let sum = f(black_box(&table), black_box(&keys));
                let rate = keys.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
                println!("time {name} {variant} {path} {rate:.3} {sum:016x} {hash:016x}");
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("2") => run::<u16>(&args[1..]),
        Some("4") => run::<u32>(&args[1..]),
        _ => Err("usage: lpm 2|4 ROUTES huge|base REPEATS KEYS...".into()),
    }
}
