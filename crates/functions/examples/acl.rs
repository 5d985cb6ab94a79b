//! Classifies the rules and keys that `benches/acl/run.py` prepares, as `benches/acl/rte_acl.c` does with DPDK's library, and
//! prints the same lines.
//!
//! Usage: `acl linear|tuple_space RULES KEYS REPEATS ANSWERS`; the files are those of `rte_acl.c`.

use std::hint::black_box;
use std::time::Instant;

use functions::classify::RuleSearch;
use functions::{Classify, ClassifySpec};
use packet::{Rule, RuleFields};

fn words(path: &str) -> Result<Vec<u32>, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{path}: {e}"))?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [search, rules, keys, repeats, answers] = &args[..] else {
        return Err("usage: acl linear|tuple_space RULES KEYS REPEATS ANSWERS".into());
    };
    let (low, high) = (|word: u32| word as u16, |word: u32| (word >> 16) as u16);
    let rule = |w: &[u32; 8]| Rule {
        src: (w[0], w[1] as u8),
        dst: (w[2], w[3] as u8),
        src_port: (low(w[4]), high(w[4])),
        dst_port: (low(w[5]), high(w[5])),
        proto: (w[6] as u8, (w[6] >> 8) as u8),
        flags: (low(w[7]), high(w[7])),
    };
    let fields = |w: &[u32; 5]| RuleFields {
        src: w[0],
        dst: w[1],
        src_port: low(w[2]),
        dst_port: high(w[2]),
        proto: w[3] as u8,
        flags: w[4] as u16,
    };
    let rules: Vec<Rule> = words(rules)?.as_chunks().0.iter().map(rule).collect();
    let keys: Vec<RuleFields> = words(keys)?.as_chunks().0.iter().map(fields).collect();
    let repeats: usize = repeats.parse().map_err(|e| format!("REPEATS: {e}"))?;
    let how = if search == "linear" { RuleSearch::Linear } else { RuleSearch::TupleSpace };
    let start = Instant::now();
    let classify =
        Classify::new(&rules, &ClassifySpec { search: how, drop_unmatched: false }, 2).map_err(|e| e.to_string())?;
    println!("build {search} {:.3} s for {} rules", start.elapsed().as_secs_f64(), rules.len());
    let mut classes = vec![0u32; keys.len()];
    for _ in 0..repeats {
        let start = Instant::now();
        for (class, key) in classes.iter_mut().zip(&keys) {
            *class = classify.class(black_box(key)).map_or(0, |number| number + 1);
        }
        println!("time {search} {:.4}", keys.len() as f64 / start.elapsed().as_secs_f64() * 1e-6);
    }
    let bytes: Vec<u8> = classes.iter().flat_map(|class| class.to_le_bytes()).collect();
    std::fs::write(answers, bytes).map_err(|e| format!("{answers}: {e}"))
}
