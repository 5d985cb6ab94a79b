//! Lives of packets: their spans sum to their sojourns on any machine, the chosen ones are those that were asked for, and who writes
//! them down changes nothing.

use std::sync::Arc;

use engine::Seed;
use sim::load::{Stock, load};
use sim::scenario::LifeSpec;
use sim::server::lives::{LifeStage, Lives, WhyChosen};
use sim::server::{Departure, DepartureObserver, PacketFate, Pause, Server};
use sim::{Overrides, RunOptions, Scenario, run, summary};
use units::Ps;

use super::run::{SLOW, scenario};

#[derive(Default)]
struct Ends {
    sent: Vec<(u64, Ps)>,
    lost: Vec<u64>,
}

impl DepartureObserver for Ends {
    fn departure(&mut self, d: &Departure) {
        match d.fate {
            PacketFate::Sent(_) => self.sent.push((d.packet.0, d.sojourn)),
            PacketFate::Lost(_) => self.lost.push(d.packet.0),
            PacketFate::Rejected(_) => {}
        }
    }
}

const SMALL: &[&str] = &["function.forward.prefixes=5000", "traffic.flows.count=2000", "traffic.load=0.4"];

/// Lives of the first packets of a server, and all their ends.
fn lived(set: &[&str], spec: &LifeSpec, offer: u64) -> (Server, Ends, Lives) {
    let set = SMALL.iter().chain(set).map(|s| s.to_string()).collect();
    let scenario = Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap();
    let loaded = load(std::slice::from_ref(&scenario), &Arc::new(Stock::new()), &mut |_| true).unwrap().remove(0);
    let source = loaded.blueprint.source(1, &scenario.traffic.offered(scenario.nic.rate)).unwrap();
    let mut server = Server::new(&scenario, loaded.function.clone(), source, offer, Seed(1)).unwrap();
    server.write_lives(spec);
    let (mut ends, pause) = (Ends::default(), Pause { offered: u64::MAX, at: Ps::MAX });
    while server.advance(1_000, pause, &mut ends) {}
    let lives = server.take_lives().unwrap();
    (server, ends, lives)
}

const ALL: LifeSpec = LifeSpec { slowest: 0, losses: 0, every: Some(1) };

#[test]
fn a_life_is_one_span_behind_the_other_and_sums_to_the_sojourn() {
    for set in [
        &[][..],
        &["machine.dram.standard=ddr4-2666v", "machine.dram.controller={}"],
        &["pipeline.rx_cores=1", "machine.cores=3"],
        &["machine.iommu={ iotlb_entries = 16, walks = 1 }", "nic.pcie.credits=\"8 KiB\""],
        &["machine.sockets={ count = 2, hop = \"50 ns\", rate = \"100 Gbps\" }"],
        &["nic.output_block=4", "nic.cache_cells=8", "buffer.size=\"4 MiB\"", "buffer.allocation=piecewise"],
        &["machine.gpu.preset=jetson-orin", "machine.gpu.shaders.cores=4", "machine.gpu.share=0.5"],
        &["machine.cores=1", "traffic.load=0.9", "nic.rx_descriptors=64"],
    ] {
        let (_, ends, lives) = lived(set, &ALL, 3_000);
        assert_eq!(lives.packets.len(), 3_000, "{set:?}");
        let sojourns: std::collections::HashMap<u64, Ps> = ends.sent.iter().copied().collect();
        for life in &lives.packets {
            let told = format!("{set:?}: {life:?}");
            assert_eq!(life.spans[0].stage, LifeStage::WireIn, "{told}");
            assert!(life.spans.windows(2).all(|pair| pair[0].to == pair[1].from), "{told}");
            let Some(sojourn) = sojourns.get(&life.packet) else {
                assert_ne!(life.fate, "sent", "{told}");
                continue;
            };
            assert_eq!((life.fate.as_str(), life.sojourn), ("sent", *sojourn), "{told}");
            let last = life.spans.last().unwrap();
            assert_eq!(last.stage, LifeStage::WireOut, "{told}");
            assert_eq!(last.from - life.spans[0].to, *sojourn, "{told}");
            let stages: Vec<LifeStage> = life.spans.iter().map(|span| span.stage).collect();
            for stage in [LifeStage::PcieIn, LifeStage::Core, LifeStage::TxRing, LifeStage::PcieOut] {
                assert!(stages.contains(&stage), "{told}");
            }
        }
        // With a GPU some go there, and with workers packets are in two bursts.
        let any = |stage| lives.packets.iter().any(|life| life.spans.iter().any(|span| span.stage == stage));
        assert_eq!(any(LifeStage::Gpu), set.iter().any(|s| s.contains("gpu")), "{set:?}");
        assert_eq!(any(LifeStage::Credits), set.iter().any(|s| s.contains("credits")), "{set:?}");
    }
}

#[test]
fn what_bursts_fetch_is_what_the_memory_system_has_counted() {
    for set in [&[][..], &["machine.dram.standard=ddr4-2666v", "machine.dram.controller={}"]] {
        let (server, _, lives) = lived(set, &ALL, 3_000);
        let counted = server.memory().counters();
        let of = |by: &str| {
            let fetches = lives.bursts.iter().flat_map(|burst| &burst.fetches);
            fetches.filter(|fetch| fetch.served == by).count() as u64
        };
        // Polls that find nothing are no bursts: they fetch the ring's lines, which the NIC writes.
        let (hits, misses) = (counted.llc.hits, counted.llc.misses);
        assert!(of("llc") <= hits && of("llc") * 100 >= hits * 95, "{set:?}: {} of {hits}", of("llc"));
        assert!(of("dram") <= misses && of("dram") * 100 >= misses * 95, "{set:?}: {} of {misses}", of("dram"));
        for burst in &lives.bursts {
            for fetch in &burst.fetches {
                assert!(fetch.from >= burst.from && fetch.from < fetch.to, "{burst:?}");
                let path: u64 = fetch.path.iter().map(|(_, time)| time.0).sum();
                assert_eq!(path, (fetch.to - fetch.from).0, "{set:?}: {fetch:?}");
            }
        }
    }
}

#[test]
fn the_slowest_are_the_slowest_and_losses_are_told_with_what_their_ring_held() {
    let set = ["machine.cores=1", "traffic.load=0.9", "nic.rx_descriptors=64"];
    let (_, mut ends, lives) = lived(&set, &LifeSpec { slowest: 25, losses: 3, every: None }, 5_000);
    ends.sent.sort_by_key(|&(packet, sojourn)| std::cmp::Reverse((sojourn, std::cmp::Reverse(packet))));
    let slowest: Vec<Ps> = ends.sent[..25].iter().map(|&(_, sojourn)| sojourn).collect();
    let mut told: Vec<Ps> =
        lives.packets.iter().filter(|l| l.chosen.contains(&WhyChosen::Slowest)).map(|l| l.sojourn).collect();
    told.sort_by_key(|&sojourn| std::cmp::Reverse(sojourn));
    assert_eq!(told, slowest);
    let lost: Vec<u64> = lives.losses.iter().map(|loss| loss.packet).collect();
    assert_eq!(lost, ends.lost[..3]);
    for loss in &lives.losses {
        // All that was inside then, of the one core: full rings are 64, of which up to 32 are not posted anew.
        let at = |life: &&sim::server::lives::PacketLife| {
            life.chosen.contains(&WhyChosen::Loss)
                && life.spans[0].to <= loss.at
                && life.spans.last().unwrap().to >= loss.at
        };
        let inside = lives.packets.iter().filter(at).count();
        assert!((33..=70).contains(&inside), "{loss:?}: {inside}");
    }
}

#[test]
fn who_writes_lives_down_changes_nothing() {
    let document = |set: &[&str]| {
        let scenario = scenario(&[&SLOW[..], set].concat(), None);
        let result = run(&scenario, RunOptions::default(), &mut |_| true).unwrap();
        let document = summary(&result, "test");
        let told = ["sojourn_ns", "attribution_ns", "levels", "cores", "dram", "series", "batches", "simulated_s"];
        (told.map(|key| document[key].to_string()), result.measured.lives)
    };
    let (without, none) = document(&[]);
    let (with, lives) = document(&["run.trace={every=10}"]);
    assert!(none.is_none() && lives.unwrap().packets.len() >= 4_000);
    assert!(without == with && without.iter().all(|told| told != "null"));
}

#[test]
fn traces_that_cannot_be_are_refused() {
    for (set, message) in [
        ("run.trace={slowest=20000}", "run.trace.slowest: 20000: allowed are up to 10000"),
        ("run.trace={losses=151}", "run.trace.losses: 151: allowed are up to 150"),
        ("run.trace={every=2}", "run.trace.every: 2: allowed are 100 or more, as 10000 of 1000000 packets can be kept"),
        ("run.trace={slowest=0, losses=0}", "run.trace: no packet is asked for: give slowest, losses or every"),
        ("run.trace={every=0}", "run.trace.every: 0: allowed are 100 or more"),
    ] {
        let set = vec!["run.packets=1000000".to_string(), set.to_string()];
        let error = Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let set = ["run.trace={}", "run.sampling={windows=100}"].map(String::from).to_vec();
    let error = Scenario::read("", "test", &Overrides { set, ..Overrides::default() }).unwrap_err().to_string();
    assert!(
        error.contains(
            "run.trace: given with run.sampling: allowed is one of them: packets between windows have no times"
        ),
        "{error}"
    );
}
