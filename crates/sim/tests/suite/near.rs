//! Machines that begin with what a like machine's caches hold find what they find from nothing, and sooner.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sim::{BaseClaim, BaseStore, Near, RunOptions, RunResult, Scenario, Stock, run, run_from, summary};

use state::StateError;

use super::run::{SLOW, scenario, without_host};

fn of(set: &[&str]) -> Scenario {
    // More flows than the private caches hold, and a pool that goes through more than the LLC.
    let machine = [
        "machine.llc.size=704 KiB",
        "machine.cores=2",
        "function.forward.prefixes=60000",
        "traffic.flows.count=20000",
        "run.packets=30000",
    ];
    scenario(&[&SLOW[..], &machine, set].concat(), None)
}

fn near(base: &Near, scenarios: &[Scenario]) -> Vec<RunResult> {
    let stock = Arc::new(Stock::new());
    run_from(&stock, Some(base), scenarios, RunOptions { threads: 2, ..RunOptions::default() }, &mut |_| true).unwrap()
}

fn told(result: &RunResult) -> Value {
    without_host(summary(result, "test"))
}

/// By packet: busy time of cores in ns, reads of DRAM; and the share of device writes that hit.
fn found(result: &RunResult) -> [f64; 3] {
    let (counts, packets) = (&result.measured.counts, result.measured.measure.offered.packets as f64);
    let busy: f64 = counts.cores.iter().map(|core| core.busy.as_ns()).sum();
    let written = counts.memory.dma_write;
    [busy / packets, counts.dram.reads as f64 / packets, written.hits as f64 / written.lookups() as f64]
}

#[test]
fn what_a_machine_does_is_the_same_wherever_its_warm_up_began() {
    let base = Near::new(of(&[]));
    for set in [
        &[][..],
        &["nic.rx_descriptors=512"],
        &["machine.llc.io_ways=4"],
        &["machine.llc.core_ways=6", "mempool.kind=lifo"],
        &["machine.cores=3"],
        &["mempool.size=1024"],
        &["mempool.size=1536"],
        &["machine.llc.replacement=age"],
        &["machine.llc.inclusion=inclusive", "machine.l2.size=64 KiB"],
        &["machine.dram.standard=ddr4-2666v", "machine.dram.controller={}"],
        &["traffic.load=0.6"],
        &["traffic.load=1.0"],
    ] {
        let (mut a, mut b) = ([0.0; 3], [0.0; 3]);
        // One seed of so short a run says little of DRAM: the means of four are compared.
        for seed in [1, 2, 3, 4].map(|seed| format!("run.seed={seed}")) {
            let one = of(&[set, &[seed.as_str()]].concat());
            let alone = run(&one, RunOptions::default(), &mut |_| true).unwrap();
            let beside = near(&base, std::slice::from_ref(&one)).remove(0);
            let warm = &beside.measured.warmup;
            assert_eq!(alone.measured.warmup.taken_over, 0, "{set:?}");
            assert!(warm.taken_over > warm.llc_capacity / 2, "{set:?}: {warm:?}");
            for (sums, result) in [(&mut a, &alone), (&mut b, &beside)] {
                sums.iter_mut().zip(found(result)).for_each(|(sum, value)| *sum += value / 4.0);
            }
        }
        for ((a, b), (what, within)) in a.iter().zip(&b).zip([("busy", 0.02), ("reads", 0.07), ("hits", 0.03)]) {
            assert!((a - b).abs() <= within * a.abs().max(0.05), "{set:?}: {what}: {a} from nothing and {b}");
        }
    }
}

#[test]
fn what_a_run_finds_depends_on_no_run_before_it() {
    let (first, second) = (of(&["nic.rx_descriptors=256"]), of(&["machine.cores=1"]));
    let curve = of(&["run.curve=[0.2, 0.7]", "run.curve_packets=4000"]);
    let all = [first, second, curve];
    let base = Near::new(of(&[]));
    let together: Vec<Value> = near(&base, &all).iter().map(told).collect();
    let again: Vec<Value> = near(&base, &all).iter().map(told).collect();
    assert_eq!(together, again);
    for (one, told_of) in all.iter().zip(&together).rev() {
        let alone = near(&Near::new(of(&[])), std::slice::from_ref(one));
        assert_eq!(&told(&alone[0]), told_of, "{}", one.to_toml());
    }
    assert_eq!(together[2]["curve"].as_array().unwrap().len(), 2);
}

#[test]
fn a_warm_up_that_is_said_begins_with_nothing() {
    let said = of(&["run.warmup=2000"]);
    let alone = run(&said, RunOptions::default(), &mut |_| true).unwrap();
    let beside = near(&Near::new(of(&[])), std::slice::from_ref(&said)).remove(0);
    assert_eq!(beside.measured.warmup.taken_over, 0);
    assert_eq!(told(&beside), told(&alone));
}

#[test]
fn a_base_that_cannot_be_is_the_error_of_whoever_begins_near_it() {
    let base = Near::new(of(&["function.forward.table=/nowhere/at/all"]));
    let stock = Arc::new(Stock::new());
    let failed = run_from(&stock, Some(&base), &[of(&[])], RunOptions::default(), &mut |_| true).unwrap_err();
    assert!(failed.to_string().contains("/nowhere/at/all"), "{failed}");
    let stopped = run_from(&stock, Some(&Near::new(of(&[]))), &[of(&[])], RunOptions::default(), &mut |_| false);
    assert!(stopped.is_err() || stopped.unwrap()[0].partial);
}

/// Keeps bases by name; `wrong` is given for each of them.
#[derive(Default)]
struct BasesInMemory {
    build: &'static str,
    kept: Mutex<HashMap<String, Vec<u8>>>,
    wrong: Option<Vec<u8>>,
    refused: Mutex<Vec<StateError>>,
}

impl BaseStore for BasesInMemory {
    fn build(&self) -> &str {
        self.build
    }

    fn claim(&self, name: &str) -> BaseClaim {
        let kept = self.wrong.clone().or_else(|| self.kept.lock().unwrap().get(name).cloned());
        kept.map_or_else(|| BaseClaim::Make(Box::new(())), BaseClaim::Kept)
    }

    fn keep(&self, name: &str, bytes: &[u8]) {
        self.kept.lock().unwrap().insert(name.into(), bytes.into());
    }

    fn refuse(&self, _: &str, why: &StateError) {
        self.refused.lock().unwrap().push(why.clone());
    }
}

/// What `one` finds near `base` in a process that has `shelf`.
fn beside(base: &Scenario, shelf: &Arc<BasesInMemory>, one: &Scenario) -> Value {
    told(&near(&Near::new(base.clone()).kept_in(shelf.clone()), std::slice::from_ref(one))[0])
}

#[test]
fn a_base_that_another_process_has_made_gives_the_same_result() {
    let (base, one) = (of(&[]), of(&["nic.rx_descriptors=512", "traffic.load=0.5"]));
    let alone = told(&near(&Near::new(base.clone()), std::slice::from_ref(&one))[0]);
    let shelf = Arc::new(BasesInMemory::default());
    assert_eq!(beside(&base, &shelf, &one), alone);
    let made = shelf.kept.lock().unwrap().clone();
    assert_eq!(made.len(), 1, "the base alone");
    assert_eq!(beside(&base, &shelf, &one), alone);
    assert_eq!(*shelf.kept.lock().unwrap(), made);
    assert!(shelf.refused.lock().unwrap().is_empty());
    beside(&base, &shelf, &of(&["run.seed=7"]));
    assert_eq!(shelf.kept.lock().unwrap().len(), 2, "another seed has another base");
}

#[test]
fn a_base_of_another_machine_version_or_content_is_refused_and_made_again() {
    let (base, one) = (of(&[]), of(&["traffic.load=0.5"]));
    let bytes = |base: &Scenario, build| {
        let shelf = Arc::new(BasesInMemory { build, ..BasesInMemory::default() });
        beside(base, &shelf, &one);
        let kept = shelf.kept.lock().unwrap();
        kept.values().next().unwrap().clone()
    };
    let own = bytes(&base, "");
    let alone = told(&near(&Near::new(base.clone()), std::slice::from_ref(&one))[0]);
    let cut = own[..own.len() - 1].to_vec();
    for (wrong, what) in [
        (bytes(&of(&["machine.cores=3"]), ""), "the state is of \"test ("),
        (bytes(&base, "another"), "the state is of version 0.1.0/"),
        (cut, "the state is damaged"),
        (Vec::new(), "the state begins with nothing"),
    ] {
        let shelf = Arc::new(BasesInMemory { wrong: Some(wrong), ..BasesInMemory::default() });
        assert_eq!(beside(&base, &shelf, &one), alone, "{what}");
        let refused = shelf.refused.lock().unwrap();
        assert_eq!(refused.len(), 1, "{what}");
        let said = refused[0].to_string();
        assert!(said.starts_with(what) && said.contains("allowed is"), "{said}");
        assert_eq!(shelf.kept.lock().unwrap().values().next(), Some(&own), "{what}: it is made again");
    }
}
