//! Runs as a whole: what they come to does not depend on threads, on where files lie, or on how a run is stopped.

use std::path::PathBuf;

use serde_json::Value;
use sim::{Overrides, Progress, RateSearch, RunOptions, Scenario, ScenarioError, run, run_all, summary};
use stats::Reason;

/// Fields of what the host took.
const HOST: [&str; 3] = ["wall_s", "load_s", "packets_per_wall_s"];

pub(super) fn scenario(set: &[&str], search: Option<RateSearch>) -> Scenario {
    let quick = [
        "run.packets=4000",
        "mempool.size=2048",
        "mempool.cache=32",
        "nic.rx_descriptors=128",
        "nic.tx_descriptors=128",
        "machine.llc.size=2.75 MiB",
        "machine.llc.slices=2",
        "function.forward.prefixes=2000",
        "traffic.flows.count=500",
        "traffic.profile=min64",
    ];
    let set = quick.iter().chain(set).map(|s| s.to_string()).collect();
    Scenario::read("", "test", &Overrides { set, search, ..Overrides::default() }).unwrap()
}

fn document(scenario: &Scenario, threads: usize) -> Value {
    without_host(summary(
        &run(scenario, RunOptions { threads, ..RunOptions::default() }, &mut |_| true).unwrap(),
        "test",
    ))
}

pub(super) fn without_host(mut document: Value) -> Value {
    HOST.iter().for_each(|field| document[*field] = Value::Null);
    document
}

#[test]
fn a_result_is_the_same_on_any_number_of_threads() {
    let curve = scenario(&["traffic.load=0.2", "run.curve=[0.1, 0.4, 0.7, 1.0]", "run.curve_packets=2000"], None);
    let set = ["machine.cores=2", "run.search_packets=3000", "run.search_resolution=0.02", "run.loss_limit=0.01"];
    let search = scenario(&set, Some(RateSearch::Pdr));
    let gpu = [
        "machine.gpu.preset=jetson-orin",
        "machine.gpu.attached=integrated",
        "machine.gpu.shaders.cores=8",
        "machine.gpu.timeout=\"10 us\"",
        "machine.dram.controller={}",
        "machine.dram.standard=ddr4-2400u",
        "machine.llc.io_ways=0",
        "run.curve=[0.1, 0.4]",
        "run.curve_packets=2000",
    ];
    for scenario in [curve, search, scenario(&gpu, None)] {
        let alone = document(&scenario, 1);
        assert_eq!(alone["partial"], false);
        for threads in [2, 4, 9] {
            assert_eq!(document(&scenario, threads), alone, "{threads} threads");
        }
    }
}

/// Packets that find no room are lost as they arrive, and those that found some are sent a ring's length later.
#[test]
fn a_steady_overload_knows_its_loss() {
    // Batches of four bursts: of two, one that comes a burst later than the others has half.
    let set = ["traffic.load=1.0", "run.packets=16000", "machine.cores=1", "nic.rx_descriptors=512"];
    let of = document(&scenario(&set, None), 1);
    let (loss, half_width) = (of["loss"].as_f64().unwrap(), of["loss_half_width"].as_f64().unwrap());
    assert!(loss > 0.3 && half_width < 0.02 * loss, "{loss} ± {half_width}");
    // What is carried once all have arrived is in no batch, however long that takes.
    let carried: Vec<f64> = of["batches"]["carried_mpps"].as_array().unwrap().iter().flat_map(Value::as_f64).collect();
    let mean = of["carried_mpps"].as_f64().unwrap();
    assert!(carried.len() >= 8 && carried.iter().all(|rate| rate / mean > 0.7), "{carried:?}, {mean}");
}

/// An overload that rings take in until the run ends loses nothing, and is no rate without loss.
#[test]
fn what_fills_its_ring_is_no_rate_without_loss() {
    let rings = ["machine.cores=1", "nic.rx_descriptors=4096", "mempool.size=16384", "run.packets=20000"];
    // What a packet takes is little of memory's, which a full ring makes slower.
    let long = [&rings[..], &["function.kind=work", "function.work.packet_instructions=2000"]].concat();
    let at = |rate: f64, search| {
        let rate = format!("traffic.packet_rate={rate} Mpps");
        let set = ["run.search_packets=20000", "run.search_resolution=0.01", rate.as_str()];
        document(&scenario(&[&long[..], &set].concat(), search), 1)
    };
    // Of what is offered few are served: a rate takes many.
    let full = document(&scenario(&[&long[..], &["traffic.load=1.0", "run.packets=300000"]].concat(), None), 1);
    assert!(full["ring_growth"] == 0.0 && full["lost"].as_u64() > Some(0), "it was full when the run began");
    let served = full["offered_mpps"].as_f64().unwrap() * (1.0 - full["loss"].as_f64().unwrap());
    let [over, below] = [1.06, 0.9].map(|share| at(share * served, None));
    let growth = over["ring_growth"].as_f64().unwrap();
    assert_eq!(
        (&over["lost"], &over["stationary"], &over["verdict"]["status"]),
        (&0.into(), &false.into(), &"nothing".into())
    );
    assert!((0.02..0.08).contains(&growth), "{growth}: what comes beyond what it serves");
    assert_eq!((&below["ring_growth"], &below["verdict"]["status"]), (&0.0.into(), &"carries".into()));
    // Nor is it one to a search, whose trials are too short to fill a ring.
    let found = at(served, Some(RateSearch::Ndr));
    let found = found["search"]["load"].as_f64().unwrap() / full["load"].as_f64().unwrap()
        * full["offered_mpps"].as_f64().unwrap();
    assert!(found < 1.045 * served, "{found} Mpps, {served} are served");
}

#[test]
fn a_tenant_in_a_class_of_its_own_has_no_more_than_its_ways() {
    let tenant = "neighbours=[{name=\"tenant\", working_set=\"8 MiB\", cores=2}]";
    let class = "machine.clos={3={ways=1, neighbours=[\"tenant\"]}, 4={ways=\"0b1100\", cores=[1]}}";
    // So small an L2 that its victims fill the LLC in a short run.
    let set = [tenant, "machine.cores=2", "run.packets=12000", "machine.l2.size=64 KiB", "traffic.load=0.1"];
    let free = document(&scenario(&set, None), 1);
    assert_eq!(free["clos"], Value::Null);
    let held = document(&scenario(&[&set[..], &[class]].concat(), None), 1);
    let [of_tenant, of_core] = &held["clos"].as_array().unwrap()[..] else { panic!("{}", held["clos"]) };
    assert_eq!((&of_tenant["clos"], &of_core["clos"]), (&3.into(), &4.into()));
    let bytes = |class: &Value| class["llc_bytes"].as_u64().unwrap();
    // 2.75 MiB of 11 ways: all of one, which is full, and at most two.
    let way = 2_883_584 / 11;
    assert!((way * 9 / 10..=way).contains(&bytes(of_tenant)), "{of_tenant}");
    assert!((1..=2 * way).contains(&bytes(of_core)), "{of_core}");
    assert!(free["llc_bytes"]["others"].as_u64().unwrap() > 2 * way, "{}", free["llc_bytes"]);
    assert_eq!((&held["llc_bytes"]["others"], &held["llc_by_cores"]), (&0.into(), &Value::Array(Vec::new())));
    let misses = |d: &Value| d["neighbours"][0]["llc_miss_rate"].as_f64().unwrap();
    assert!(misses(&held) > misses(&free) + 0.02, "{} {}", misses(&held), misses(&free));
}

#[test]
fn cores_of_a_class_ask_for_no_more_than_its_bandwidth_and_others_have_what_that_leaves() {
    let tenant = "neighbours=[{name=\"tenant\", working_set=\"64 MiB\", cores=6}]";
    // Device writes and a tenant meet at one channel.
    let set =
        ["machine.llc.io_ways=0", "machine.dram.channels=1", "machine.l2.size=64 KiB", "run.packets=12000", tenant];
    let held_to = |bandwidth: &str| {
        let class = format!("machine.clos.3={{ways=11, neighbours=[\"tenant\"], bandwidth=\"{bandwidth}\"}}");
        document(&scenario(&[&set[..], &["machine.cores=2", "traffic.load=0.3", &class]].concat(), None), 1)
    };
    let [free, half, tenth] = ["640 GB/s", "0.5 GB/s", "0.1 GB/s"].map(held_to);
    // Each of its references is of a line that no L2 has, but for one in a thousand.
    let asks = |d: &Value| d["neighbours"][0]["references_per_s"].as_f64().unwrap() * 64.0 / 6.0;
    // One that asks again once the answer is there misses a turn now and then.
    assert!((0.97..1.01).contains(&(asks(&half) / 5e8)), "{} B/s a core", asks(&half));
    assert!((0.98..1.01).contains(&(asks(&tenth) / 1e8)), "{} B/s a core", asks(&tenth));
    assert!(asks(&free) > 6e8, "{} B/s a core", asks(&free));
    let mean = |d: &Value| d["sojourn_ns"]["mean"].as_f64().unwrap();
    assert!(
        mean(&free) > mean(&half) && mean(&half) > mean(&tenth),
        "{} {} {}",
        mean(&free),
        mean(&half),
        mean(&tenth)
    );
}

#[test]
fn a_search_tries_half_the_interval_each_time_and_ends_at_the_resolution() {
    let set = ["machine.cores=1", "run.search_packets=3000", "run.search_resolution=0.02"];
    let document = document(&scenario(&set, Some(RateSearch::Ndr)), 3);
    let trials = document["search"]["trials"].as_array().unwrap();
    assert_eq!(trials[0]["load"], 1.0);
    assert_eq!(trials[1]["load"], 0.5);
    assert_eq!(trials.len(), 7, "1, then halves down to 1/64");
    let passed = trials.iter().filter(|t| t["pass"] == true).map(|t| t["load"].as_f64().unwrap());
    assert_eq!(passed.fold(0.0, f64::max), document["search"]["load"].as_f64().unwrap());
    assert!(document["search"]["sufficient_packets"].as_u64() > document["search"]["packets"].as_u64());
    let advice = document["verdict"]["advice"].to_string();
    assert!(advice.contains("Trials of 3,000 packets are too short"), "{advice}");
}

#[test]
fn cores_that_wait_for_a_full_dram_are_not_called_the_limit() {
    let set = [
        "traffic.profile=isp",
        "traffic.load=1.0",
        "machine.cores=4",
        "machine.llc.io_ways=0",
        "machine.dram.standard=ddr4-3200aa",
        "machine.dram.channels=1",
    ];
    let advice = |order: &str| {
        let set: Vec<&str> = set.iter().copied().chain([order]).collect();
        document(&scenario(&set, None), 1)["verdict"]["advice"].to_string()
    };
    let in_order = advice("machine.dram.controller.order=fcfs");
    assert!(in_order.contains("DRAM is the limit") && in_order.contains("fr-fcfs"), "{in_order}");
    assert!(!in_order.contains("cores are the limit"), "{in_order}");
    let one_core =
        document(&scenario(&["traffic.load=1.0", "machine.cores=1"], None), 1)["verdict"]["advice"].to_string();
    assert!(one_core.contains("cores are the limit"), "{one_core}");
}

#[test]
fn runs_that_are_compared_are_measured_from_the_same_packet_on() {
    let slow = scenario(&["traffic.load=0.05"], None);
    let given = scenario(&["traffic.load=0.05", "run.warmup=90000"], None);
    let options = RunOptions { threads: 2, same_packets: true, ..RunOptions::default() };
    let results = run_all(&[slow.clone(), given.clone()], options, &mut |_| true).unwrap();
    let documents: Vec<Value> = results.iter().map(|r| without_host(summary(r, "test"))).collect();
    assert_eq!(documents[0]["warmup_packets"], 90_000);
    assert_eq!(documents[0]["traffic"]["id"], documents[1]["traffic"]["id"]);
    // It says what it did: run alone, it gives the same again.
    assert_eq!(documents[0], document(&results[0].scenario, 1));
    assert_ne!(documents[0]["run_id"], document(&slow, 1)["run_id"]);
}

#[test]
fn warm_up_goes_on_until_every_mbuf_was_used_and_says_so() {
    let document = document(&scenario(&["traffic.load=0.05", "run.packets=20000"], None), 1);
    let warmup = &document["warmup"];
    assert!(warmup["stored"].as_u64().unwrap() >= 2048, "{warmup}");
    assert_eq!(warmup["packets"], document["warmup_packets"]);
    assert_eq!(document["packets"], 20_000);
    assert!(document["verdict"]["details"].to_string().contains("cut as warm-up"));
    let none = scenario(&["run.warmup=0"], None);
    let measured = run(&none, RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true).unwrap().measured;
    assert_eq!((measured.warmup.packets, measured.simulated), (0, 4000));
}

/// Packets touch a table that L2 does not hold.
pub(super) const SLOW: [&str; 5] = [
    "run.packets=40000",
    "traffic.load=0.2",
    "machine.l2.size=64 KiB",
    "function.forward.prefixes=20000",
    "traffic.flows.count=20000",
];

#[test]
fn a_short_overload_does_not_carry_what_only_fills_rings() {
    // Two cores carry a third of what comes. Its warm-up ends at its limit, behind rings that were emptied: as many packets as they
    // hold are four fifths of what the short run sends.
    let carried = |packets: u64| {
        let packets = format!("run.packets={packets}");
        let set =
            ["machine.cores=2", "nic.rx_descriptors=1024", "mempool.size=8192", "traffic.load=1.0", packets.as_str()];
        let found = document(&scenario(&set, None), 2);
        (found["carried_mpps"].as_f64().unwrap(), found["warmup"]["end"].clone())
    };
    let (long, _) = carried(100_000);
    for packets in [4_000, 8_000] {
        let (short, end) = carried(packets);
        assert!((short / long - 1.0).abs() < 0.06, "{packets}: {short} Mpps, and {long} of a long run ({end})");
    }
}

#[test]
fn a_run_begins_on_a_machine_that_is_as_warm_as_a_much_later_one() {
    let settled = document(&scenario(&SLOW, None), 1);
    let later = document(&scenario(&[&SLOW[..], &["run.warmup=300000"]].concat(), None), 1);
    let cold = document(&scenario(&[&SLOW[..], &["run.warmup=2500"]].concat(), None), 1);
    let warmup = &settled["warmup"];
    assert_eq!((&warmup["end"], &warmup["unsettled"]), (&"settled".into(), &Value::Array(Vec::new())), "{warmup}");
    assert!(warmup["untimed"].as_u64().unwrap() > 20_000, "{warmup}");
    assert_ne!(cold["warmup"]["unsettled"], Value::Array(Vec::new()));
    let reads = |document: &Value| document["dram"]["reads"].as_f64().unwrap() / 40_000.0;
    assert!((reads(&settled) / reads(&later) - 1.0).abs() < 0.1, "{} and {}", reads(&settled), reads(&later));
    assert!(reads(&cold) > 2.0 * reads(&later), "{} and {}", reads(&cold), reads(&later));
}

#[test]
fn points_of_a_curve_begin_with_the_machine_of_the_run() {
    let alone = run(&scenario(&SLOW, None), RunOptions::default(), &mut |_| true).unwrap();
    let curve = [&SLOW[..], &["run.curve=[0.2, 0.4]", "run.curve_packets=40000"]].concat();
    let result =
        run(&scenario(&curve, None), RunOptions { threads: 2, ..RunOptions::default() }, &mut |_| true).unwrap();
    assert_eq!(alone.measured.warmup, result.measured.warmup);
    let [own, faster] = &result.curve[..] else { panic!("{:?}", result.curve) };
    for run in [&alone, &result] {
        let quantile = |q| run.measured.measure.sojourn.histogram().quantile(q).unwrap().as_ns();
        assert_eq!((own.p50_ns, own.p99_ns), (quantile(0.5), quantile(0.99)), "at its own rate it is the run");
    }
    assert!((faster.offered_mpps / own.offered_mpps - 2.0).abs() < 0.01, "{faster:?}");
    assert!(faster.warmup_packets > alone.measured.warmup.untimed);
}

#[test]
fn a_run_that_loses_goes_on_at_lower_loads_and_stays_what_it_is() {
    let options = RunOptions { threads: 2, lower_loads: true, ..RunOptions::default() };
    let over = scenario(&[&SLOW[..], &["traffic.load=1.0", "run.packets=30000"]].concat(), None);
    let alone = run(&over, RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true).unwrap();
    let result = run(&over, options, &mut |_| true).unwrap();
    assert_eq!(without_host(summary(&alone, "test")), without_host(summary(&result, "test")), "the same to the bit");
    assert!(alone.lower_loads.is_empty() && alone.measured.measure.lost.values().sum::<u64>() > 0);
    let points = &result.lower_loads;
    let loads: Vec<f64> = points.iter().map(|point| point.load).collect();
    assert!(loads.is_sorted() && loads.len() == 7 && loads[6] < result.load, "{loads:?}");
    let measure = &alone.measured.measure;
    let lost = measure.lost.values().sum::<u64>() as f64;
    let through = result.load * (1.0 - lost / measure.offered.packets as f64);
    assert!((loads[4] / through - 0.95).abs() < 1e-9, "{loads:?} {through}");
    assert!(points.iter().all(|point| point.packets == 30_000), "no more than the run");
    assert!(
        points[..3].iter().all(|point| point.lost == 0) && points[5..].iter().all(|point| point.lost > 0),
        "{points:?}"
    );
    // With rings that still fill an overload would carry more than cores can.
    let most = measure.carried.packets as f64 / (measure.window().as_secs() * 1e6);
    assert!(points.iter().all(|point| point.carried_mpps <= 1.02 * most), "{most}: {points:?}");
    // Whoever stops the points has all of the run, and none of them.
    let stop = &mut |p: &Progress| !p.phase.starts_with("at ");
    let stopped = run(&over, RunOptions { threads: 1, ..options }, stop).unwrap();
    assert!(!stopped.partial && stopped.lower_loads.is_empty());
    assert_eq!(without_host(summary(&alone, "test")), without_host(summary(&stopped, "test")));
    // What loses nothing, or has a curve, is done when it is.
    for set in [["traffic.load=0.05"], ["run.curve=[0.5]"]] {
        let none = scenario(
            &[&SLOW[..], &["traffic.load=1.0", "run.packets=3000", "run.warmup=3000"], &set[..]].concat(),
            None,
        );
        assert!(run(&none, options, &mut |_| true).unwrap().lower_loads.is_empty());
    }
}

#[test]
fn what_a_core_is_busy_with_is_all_of_its_busy_time() {
    // One packet a burst, full bursts, and cores that receive beside cores that work.
    for set in [
        &["traffic.load=0.1"][..],
        &["traffic.load=1.0", "machine.cores=1"],
        &["traffic.load=0.3", "machine.cores=3", "pipeline.rx_cores=1"],
    ] {
        let result =
            run(&scenario(&[set, &["run.packets=20000"]].concat(), None), RunOptions::default(), &mut |_| true);
        let result = result.unwrap();
        for core in &result.measured.counts.cores {
            // But for bursts that were under way when measurement began or ended.
            let (spent, busy) = (core.spent.total().as_ns(), core.busy.as_ns());
            assert!((spent / busy - 1.0).abs() < 0.01, "{spent} {busy} {set:?}");
            assert!(core.spent[Reason::Core] > 0 && core.spent[Reason::Pcie] == 0 && core.spent[Reason::Burst] == 0);
        }
        let document = summary(&result, "test");
        for core in document["cores"].as_array().unwrap() {
            let sum: f64 = core["cycles"].as_object().unwrap().values().map(|cycles| cycles.as_f64().unwrap()).sum();
            assert!((sum / core["cycles_per_packet"].as_f64().unwrap() - 1.0).abs() < 0.01, "{core}");
        }
    }
}

#[test]
fn a_ring_that_gets_most_packets_is_told_with_what_it_loses() {
    let one_flow =
        ["traffic.load=0.25", "machine.cores=4", "traffic.flows.popularity={zipf = 3.0}", "run.packets=20000"];
    let result = run(&scenario(&one_flow, None), RunOptions::default(), &mut |_| true).unwrap();
    let cores = &result.measured.counts.cores;
    let hot = cores.iter().max_by_key(|core| core.offered).unwrap();
    let all: u64 = cores.iter().map(|core| core.offered).sum();
    assert!(hot.offered as f64 > 0.5 * all as f64 && hot.lost > 0, "{cores:?}");
    // Every packet that came was taken, lost, or waits; what waited before measuring began was taken, too.
    for core in cores {
        let rings = 128 + 32;
        assert!(core.offered.abs_diff(core.packets + core.lost) <= rings, "{core:?}");
    }
    let measure = &result.measured.measure;
    let lost: u64 = measure.lost.values().sum();
    assert!(lost.abs_diff(cores.iter().map(|core| core.lost).sum()) <= 4 * 160, "{lost}");
    let document = summary(&result, "test");
    let told = |core: &Value, field: &str| core[field].as_f64().unwrap();
    for (core, counted) in document["cores"].as_array().unwrap().iter().zip(cores) {
        assert_eq!(core["lost"], counted.lost);
        assert!((told(core, "ring_full") * 128.0 / told(core, "ring_packets") - 1.0).abs() < 1e-9);
        let is_hot = std::ptr::eq(counted, hot);
        assert_eq!(told(core, "ring_full") > 0.5, is_hot, "{core}");
    }
    let verdict = document["verdict"].to_string();
    assert!(verdict.contains("an even share is 25") && verdict.contains("ethtool -X"), "{verdict}");
    assert!(
        verdict.contains("--set traffic.flows.popularity=uniform") && !verdict.contains("machine.cores="),
        "{verdict}"
    );
    // One decision: the verdict has its words from the same.
    let told = &document["hot_ring"];
    assert_eq!((&told["receives"], &told["cores"]), (&true.into(), &4.into()));
    assert_eq!(cores[told["core"].as_u64().unwrap() as usize].lost, hot.lost);
    assert!(verdict.contains(told["text"].as_str().unwrap()) && verdict.contains(told["remedy"].as_str().unwrap()));
    let even = [&one_flow[..], &["traffic.flows.popularity=uniform"]].concat();
    assert_eq!(self::document(&scenario(&even, None), 1)["hot_ring"], Value::Null);
}

#[test]
fn a_worker_whose_queue_gets_most_packets_is_told_as_such() {
    let set = [
        "run.packets=20000",
        "function.kind=nat",
        "machine.cores=6",
        "pipeline.rx_cores=2",
        "pipeline.queue=256",
        "mempool.size=4096",
        "traffic.flows.popularity={zipf = 3.0}",
        "traffic.load=0.06",
    ];
    let of = |more: &[&str]| document(&scenario(&[&set[..], more].concat(), None), 1);
    let found = of(&[]);
    let (hot, verdict) = (&found["hot_ring"], found["verdict"].to_string());
    assert_eq!((&hot["receives"], &hot["cores"]), (&false.into(), &4.into()), "{verdict}");
    let core = &found["cores"][hot["core"].as_u64().unwrap() as usize];
    let lost = |of: &Value| of["lost"].as_u64().unwrap();
    assert!(core["receives"] == false && lost(core).abs_diff(lost(&found)) < 64, "{core}");
    assert_eq!(core["ring_full"], hot["full"]);
    assert!(verdict.contains("its software queue loses") && verdict.contains("One software queue is hot"), "{verdict}");
    // What the NIC spreads is no remedy, and one more core none either.
    assert!(!verdict.contains("ethtool") && !verdict.contains("machine.cores="), "{verdict}");
    let by_user = of(&["pipeline.spread=user"])["verdict"].to_string();
    assert!(by_user.contains("--set pipeline.spread=flow"), "{by_user}");
}

#[test]
fn the_series_has_what_the_machine_did_and_sums_to_what_was_measured() {
    let scenario = scenario(&["traffic.load=0.1", "run.packets=20000"], None);
    let result = run(&scenario, RunOptions::default(), &mut |_| true).unwrap();
    let measured = &result.measured;
    let mut sum = sim::run::measure::Activity::default();
    measured.measure.intervals.iter().for_each(|i| sum += i.activity);
    assert_eq!(sum.span, measured.counts.span);
    assert_eq!(sum.llc_hits, measured.counts.memory.llc.hits);
    assert_eq!(sum.dram_lines, measured.counts.dram.reads + measured.counts.dram.writes);
    assert_eq!(sum.busy.0, measured.counts.cores.iter().map(|c| c.busy.0).sum::<u64>());
    let document = summary(&result, "test");
    let series = document["series"].as_array().unwrap();
    assert!(series.len() > 50);
    for bin in &series[1..series.len() - 1] {
        let busy = bin["core_busy"].as_f64().unwrap();
        assert!(busy > 0.0 && busy <= 1.0, "{bin}");
        assert!(bin["ring_packets"].is_number() && bin["dram_gb_per_s"].is_number());
    }
}

#[test]
fn stopping_leaves_a_partial_result_on_any_number_of_threads() {
    let set = ["traffic.load=0.05", "run.packets=100000000", "run.warmup=3000", "run.curve=[0.1, 0.2, 0.3]"];
    let scenario = scenario(&set, None);
    for threads in [1, 3] {
        let mut stop_in_the_run = |p: &Progress| !(p.phase == "run" && p.done > 0);
        let result = run(&scenario, RunOptions { threads, ..RunOptions::default() }, &mut stop_in_the_run).unwrap();
        let document = summary(&result, "test");
        assert_eq!(document["partial"], true);
        let count = |name: &str| document[name].as_u64().unwrap();
        assert!(count("packets") > 0 && count("packets") < 100_000_000);
        let carried = result.measured.measure.carried.packets;
        assert_eq!(count("packets"), carried + count("lost") + count("rejected"));
    }
}

#[test]
fn stopping_a_search_leaves_the_trials_that_were_complete() {
    let scenario = scenario(&["run.search_packets=30000"], Some(RateSearch::Ndr));
    let stop = &mut |p: &Progress| !p.phase.starts_with("trial at 50");
    let result = run(&scenario, RunOptions { threads: 1, ..RunOptions::default() }, stop).unwrap();
    assert!(result.partial);
    // The run behind the search was never begun.
    assert_eq!((result.measured.measure.offered.packets, &summary(&result, "test")["packets"]), (0, &Value::from(0)));
    assert_eq!(result.search.unwrap().trials.len(), 1);
}

#[test]
fn stopping_while_loading_says_that_there_is_no_result() {
    let stopped = run(&scenario(&[], None), RunOptions::default(), &mut |_| false).unwrap_err();
    assert!(matches!(stopped, ScenarioError::Stopped { .. }));
    let told = stopped.to_string();
    assert!(told.starts_with("stopped while loading") && told.ends_with("there is no result"), "{told}");
}

/// A folder of its own for a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wirespeed-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_run_is_known_by_the_content_of_its_files_and_not_by_their_names() {
    let folder = Folder::new("content");
    let prefixes = b"10.0.0.0/8\n192.0.2.0/24\n198.51.100.0/25\n";
    let profile = "sizes = \"imix\"\n[flows]\ncount = 100\n";
    let of = |table: &str, profile: &str| {
        let set = [format!("function.forward.table={table:?}"), format!("traffic.profile={profile:?}")];
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let document = document(&scenario(&set, None), 1);
        let id = |at: &str| document.pointer(at).unwrap().as_str().unwrap().to_string();
        (id("/run_id"), id("/traffic/id"))
    };
    let (here, there) = (folder.file("a.txt", prefixes), folder.file("b.txt", prefixes));
    let (one, same) = (folder.file("one.toml", profile.as_bytes()), folder.file("same.toml", profile.as_bytes()));
    let first = of(&here, &one);
    assert_eq!(of(&there, &same), first);
    folder.file("b.txt", b"10.0.0.0/8\n192.0.2.0/24\n198.51.100.0/26\n");
    folder.file("same.toml", profile.replace("100", "101").as_bytes());
    let (table, traffic) = (of(&there, &one), of(&here, &same));
    assert_ne!(table.0, first.0);
    assert!(traffic.0 != first.0 && traffic.1 != first.1);
}

/// A recording beside a table: each stands for itself.
#[test]
fn a_recording_is_known_by_its_content_too() {
    let folder = Folder::new("recordings");
    let text = b"wirespeed-probe 1\nB 60 100\nL 100 8\nE forward\n";
    let (one, same) = (folder.file("a.probe", text), folder.file("b.probe", text));
    let other = folder.file("c.probe", b"wirespeed-probe 1\nB 60 100\nL 100 8\nL 900 8\nE forward\n");
    let table = folder.file("t.txt", b"10.0.0.0/8\n");
    let of = |file: &str, table: Option<&str>| {
        let mut set = vec!["function.kind=trace".to_string(), format!("function.trace.file={file:?}")];
        set.extend(table.map(|table| format!("function.forward.table={table:?}")));
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        document(&scenario(&set, None), 1)["run_id"].as_str().unwrap().to_string()
    };
    let first = of(&one, None);
    assert_eq!(of(&same, None), first);
    assert_ne!(of(&other, None), first);
    assert_ne!(of(&one, Some(&table)), first, "the table is not taken for the recording");
}

/// The last interval of a series is what remains, or part of the one before: no rate is of picoseconds.
#[test]
fn the_last_interval_of_a_series_is_at_least_half_as_wide_as_the_others() {
    for packets in [6_000, 6_001, 6_037, 6_500, 7_777] {
        let set = [format!("run.packets={packets}"), "machine.cores=1".into(), "traffic.load=0.9".into()];
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let found = document(&scenario(&set, None), 1);
        let series = found["series"].as_array().unwrap();
        let width = |bin: &serde_json::Value| bin["width_ns"].as_f64().unwrap();
        let (first, last) = (width(&series[0]), width(series.last().unwrap()));
        assert!(
            series.len() > 2 && last >= 0.5 * first - 1.0 && last < 1.5 * first + 1.0,
            "{first} and {last} of {packets}"
        );
        let offered: f64 = series.iter().map(|bin| bin["offered_mpps"].as_f64().unwrap() * width(bin) * 1e-3).sum();
        assert!((offered - packets as f64).abs() < 1.5, "{offered} of {packets}");
    }
}

/// A pcap with one UDP packet, its IPv4 header checksum as given, `n` times.
fn capture(checksum: [u8; 2], n: u32) -> Vec<u8> {
    let mut out = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
    for i in 0..n {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, checksum[0], checksum[1], 192, 0, 2, 1, 198, 51, 100, 7]);
        frame.extend([0; 26]);
        out.extend([[0; 4], (i * 10).to_le_bytes(), 60u32.to_le_bytes(), 60u32.to_le_bytes()].concat());
        out.extend(frame);
    }
    out
}

#[test]
fn erased_checksums_are_noted_with_the_remedy() {
    let folder = Folder::new("checksums");
    let table = folder.file("table.txt", b"198.51.100.0/24\n");
    let notes = |checksum: [u8; 2], who: &str| {
        let file = folder.file("trace.pcap", &capture(checksum, 50));
        let set =
            ["run.packets=2000".to_string(), "traffic.load=0.1".into(), format!("function.forward.table={table:?}")];
        let set = set.into_iter().chain([format!("function.forward.lookup.checksum={who}")]).collect();
        let overrides = Overrides { set, capture: Some(file.into()), ..Overrides::default() };
        let scenario = Scenario::read("", "test", &overrides).unwrap();
        let document = document(&scenario, 1);
        (document["notes"].to_string(), document["rejected"].as_u64().unwrap())
    };
    let (told, rejected) = notes([0, 0], "nic");
    assert!(told.contains("checksum is 0 in 50 of 50 packets") && told.contains("forwarded as if"), "{told}");
    assert_eq!(rejected, 0);
    let (told, rejected) = notes([0, 0], "software");
    assert!(told.contains("--set function.forward.lookup.checksum=nic forwards them"), "{told}");
    assert_eq!(rejected, 2000);
    let sum = packet::internet_checksum(&capture([0, 0], 1)[54..74]).to_be_bytes();
    assert!(!notes(sum, "software").0.contains("checksum"), "{:?}", notes(sum, "software"));
}

#[test]
fn damage_of_the_table_is_counted_by_kind_with_its_line() {
    let folder = Folder::new("damage");
    let table = folder.file("table.txt", b"10.0.0.0/8\nnonsense\n192.0.2.0/24\n1.2.3.4/99\n");
    let document = document(&scenario(&[&format!("function.forward.table={table:?}")], None), 1);
    let table = &document["table"];
    assert_eq!((&table["damage_count"], &table["source"]), (&Value::from(2), &Value::from("table.txt")));
    let kind = &table["damage_by_kind"][0];
    assert_eq!((&kind["kind"], &kind["count"], &kind["offset"]), (&"corrupt".into(), &2.into(), &11.into()));
    assert!(kind["what"].as_str().unwrap().starts_with("line 2: "));
}

#[test]
fn copy_engines_run_beside_the_other_parts_of_the_memory_system() {
    let two = "machine.sockets={count=2, hop=\"60 ns\", rate=\"166 Gbps\", memory=\"interleaved\"}";
    let none = "machine.applications={tables={llc=false}}";
    let ring = "machine.llc.interconnect={topology=\"ring\", hop=\"0.5 ns\"}";
    let engines = [
        "machine.copy_engine={by=\"non-temporal\"}",
        "machine.copy_engine={by=\"dma\"}",
        "machine.copy_engine={by=\"controller\", retires=\"async\"}",
    ];
    let beside: [&[&str]; 5] = [
        &[two],
        &[none],
        &["machine.stacked={}"],
        &["nic.cache_cells=4", "machine.llc.io_ways=0"],
        &["machine.llc.coherence=snoop", ring],
    ];
    let quick = ["machine.cores=2", "function.copy={buffers=64}", "traffic.load=0.2"];
    for engine in engines {
        let alone = document(&scenario(&[&quick[..], &[engine]].concat(), None), 1);
        for set in beside {
            let found = document(&scenario(&[&quick[..], &[engine], set].concat(), None), 1);
            let copied = |document: &Value| document["copy_engine"]["lines"].as_u64().unwrap();
            assert!(copied(&found) > 0 && found["partial"] == false, "{engine} {set:?}");
            assert_ne!(found["sojourn_ns"], alone["sojourn_ns"], "{engine} {set:?}");
        }
    }
}

/// Rates are of the packets up to the last arrival; rings that drain behind it are in no share of time.
#[test]
fn what_is_counted_ends_with_the_last_arrival() {
    let overload = ["traffic.load=1.0", "machine.cores=1", "nic.rx_descriptors=1024"];
    // A table that no cache holds, so that there are reads of DRAM in so short a run: what is shipped for tests has none.
    let table = ["function.forward.prefixes=100000", "traffic.flows.count=20000", "run.packets=1000"];
    let controllers = [&["machine.dram.controller={}", "machine.dram.standard=ddr4-2400u"], &table[..]].concat();
    for set in [&overload[..], &[&overload[..], &controllers[..]].concat()] {
        let result = run(&scenario(set, None), RunOptions::default(), &mut |_| true).unwrap();
        let (measure, counts) = (&result.measured.measure, &result.measured.counts);
        assert_eq!(counts.span, measure.window(), "{set:?}");
        let core = counts.cores[0];
        assert!(core.busy > counts.span * 9 / 10 && core.busy <= counts.span, "{core:?} in {:?}", counts.span);
        let activity: u64 = measure.intervals.iter().map(|interval| interval.activity.span.0).sum();
        assert_eq!(activity, counts.span.0);
        if let Some(controllers) = &result.measured.controllers {
            let data: u64 = controllers.report.channels.iter().map(|channel| channel.bursts).sum();
            assert_eq!(data, counts.dram.reads + counts.dram.writes, "all counts end at once");
            // Those that were under way when counting began are among them.
            let answered = counts.dram.reads + controllers.report.forwarded + 64;
            let n = controllers.read_latency.n();
            assert!(n > 0 && n <= answered, "{n} latencies of {answered} reads: those of the drain are none");
        }
    }
}

/// Packets that a ring took in and nobody has worked on yet are in no mean of what the machine did.
#[test]
fn energy_is_of_packets_that_left_in_the_time_in_which_it_was_taken() {
    let set = [
        "traffic.load=1.0",
        "machine.cores=1",
        "machine.dram.currents=ddr4-2400u",
        "nic.rx_descriptors=4096",
        "mempool.size=16384",
        "run.packets=6000",
        "run.warmup=0",
    ];
    let found = document(&scenario(&set, None), 1);
    let count = |name: &str| found[name].as_u64().unwrap();
    let (sent, taken, carried) = (count("sent_packets"), count("taken_packets"), count("packets") - count("lost"));
    assert!(
        sent * 2 < carried && sent <= taken && taken <= sent + 256,
        "{sent} sent of {taken} taken, {carried} carried"
    );
    let (all, each) = (&found["dram"]["energy_nj"]["total"], &found["dram"]["energy_nj_per_packet"]);
    let over = all.as_f64().unwrap() / each.as_f64().unwrap();
    assert!((over / sent as f64 - 1.0).abs() < 1e-9, "{over}");
}

#[test]
fn what_is_counted_ends_with_the_last_arrival_of_traffic_that_ends_before() {
    let folder = Folder::new("ends");
    let file = folder.file("trace.pcap", &capture([0, 0], 500));
    let set = ["run.packets=20000", "run.warmup=0", "traffic.rounds=2", "function.forward.prefixes=2000"];
    let set = set.into_iter().map(Into::into).collect();
    let scenario = Scenario::read("", "test", &Overrides { set, capture: Some(file.into()), ..Overrides::default() });
    let result = run(&scenario.unwrap(), RunOptions::default(), &mut |_| true).unwrap();
    let (measure, counts) = (&result.measured.measure, &result.measured.counts);
    assert_eq!(measure.offered.packets, 1_000);
    assert_eq!(counts.span, measure.window());
}
