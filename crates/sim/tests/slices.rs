//! The slices model against closed forms, its analytic twin, and its own rules.

use sim::slices::{Application, Architecture, Isolation, Outcome, Point, Reading, SlicesSpec, preview};

fn run(spec: SlicesSpec) -> Outcome {
    Point { spec, seed: 5, runs: 1 }.run(&[], &mut || true).expect("a sound setting").expect("nobody stops it")
}

fn quick(architecture: Architecture) -> SlicesSpec {
    SlicesSpec { architecture, requests: 200_000, ..SlicesSpec::default() }
}

const ALL: [Architecture; 3] = [Architecture::Proposed, Architecture::NoLlc, Architecture::SharedLlc];

#[test]
fn try_preview() {
    for architecture in ALL {
        for entries in [1000u64, 20_000, 60_000] {
            let mut spec = quick(architecture);
            spec.applications[0].entries = entries;
            let p = preview(&spec).unwrap();
            let o = run(spec);
            println!(
                "{architecture:?} {entries} blk {:.4}/{:.4} wait {:.1}/{:.1} l1 {:.4}/{:.4} l2 {:.4}/{:.4} llc {:.4}/{:.4} thr {:.1}/{:.1}",
                p.blocking,
                o.blocking.value,
                p.wait_ns,
                o.wait_ns.value,
                p.l1_hits,
                o.l1_hits.value,
                p.l2_hits,
                o.l2_hits.value,
                p.llc_hits,
                o.llc_hits.value,
                p.throughput_per_us,
                o.throughput_per_us.value
            );
        }
    }
    let _ = (Application::default(), Isolation::Ways, Reading::default());
}
