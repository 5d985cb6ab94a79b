//! The made machine on the simulated server: content that is lines, and moves as they are replaced.

use std::sync::Arc;

use fakehost::{
    FakeHost, FileRoot, HostProgram, MeanField, MeanFieldSpec, Plant, PlantError, Simulated, SimulatedSpec, Spec,
};
use fakehost::{MeanFieldWorkload, Tenant};
use host::{Resctrl, Tree};
use units::{Cbm, Ps};

const S: Ps = Ps(1_000_000_000_000);
const WAY: u64 = 3 << 20;

fn made(spec: Spec) -> (FakeHost, Arc<dyn Tree>) {
    let plant = Simulated::new(SimulatedSpec::default(), spec.ways, spec.rmids).unwrap();
    let host = FakeHost::with_plant(spec, Box::new(plant));
    let tree = host.tree(FileRoot::Resctrl);
    (host, tree)
}

fn pass(host: &FakeHost, seconds: u32) {
    (0..seconds).for_each(|_| host.advance(S));
}

fn read(tree: &Arc<dyn Tree>, group: &str, counter: &str) -> u64 {
    let resctrl = Resctrl::open(tree.clone()).unwrap();
    resctrl.monitor(group, counter).unwrap()[&0].count().unwrap()
}

#[test]
fn occupancy_follows_masks_as_lines_are_replaced() {
    let (host, tree) = made(Spec::default());
    for (group, cpus, mask) in [("rx", "1\n", "180"), ("beside", "4-7\n", "00f")] {
        tree.make(group).unwrap();
        tree.write(&format!("{group}/schemata"), &format!("L3:0={mask};1={mask}\n")).unwrap();
        tree.write(&format!("{group}/cpus_list"), cpus).unwrap();
    }
    let used = || read(&tree, "beside", "llc_occupancy");
    // Private caches of 4 MiB in all fill first, and what leaves them fills the LLC.
    pass(&host, 3);
    let first = used();
    pass(&host, 14);
    let before = used();
    assert!(first > WAY / 4 && first < before / 2, "a cache fills over seconds: {first} then {before}");
    assert!(before > 7 * WAY / 2 && before <= 4 * WAY, "{before} in four ways");
    assert!(host.occupancy()[2] <= (2 * WAY) as f64, "devices have two");
    // Fewer ways: what lies in the others stays until somebody replaces it, and nobody may here but the root's group.
    tree.write("beside/schemata", "L3:0=3;1=3\n").unwrap();
    assert_eq!(used(), before, "nothing moves by itself");
    pass(&host, 1);
    let mut last = used();
    assert!(last <= before && last > 3 * WAY, "{last} of {before}");
    // Others come into them: the receiving program fills them, and devices what they have nowhere else.
    tree.write("rx/schemata", "L3:0=1fc;1=1fc\n").unwrap();
    tree.write("beside/tasks", "2001\n").unwrap();
    let io = host::IoRegister::new(host.tree(FileRoot::DevCpu), vec![0, 8]);
    io.write(&[(0, Cbm(0x00c)), (8, Cbm(0x00c))]).unwrap();
    for _ in 0..14 {
        pass(&host, 1);
        let now = used();
        assert!(now <= last + WAY / 50, "{now} after {last}: only what leaves");
        last = now;
    }
    assert!(last < before - WAY && last > 3 * WAY / 2, "{last} of {before}: two ways and what is left");
    // And back.
    io.write(&[(0, Cbm(0x600)), (8, Cbm(0x600))]).unwrap();
    tree.write("beside/schemata", "L3:0=f;1=f\n").unwrap();
    pass(&host, 15);
    assert!(used() > 3 * WAY, "{}", used());
}

#[test]
fn lines_stay_with_the_id_under_which_they_came() {
    let (host, tree) = made(Spec { rmids: 3, ..Spec::default() });
    tree.make("a").unwrap();
    tree.write("a/cpus_list", "4-7\n").unwrap();
    pass(&host, 4);
    let (before, fetched) = (read(&tree, "a", "llc_occupancy"), read(&tree, "a", "mbm_total_bytes"));
    assert!(before > WAY && fetched > before, "{before} {fetched}");
    tree.make("b").unwrap();
    tree.write("b/cpus_list", "4-7\n").unwrap();
    let (a, b) = (read(&tree, "a", "llc_occupancy"), read(&tree, "b", "llc_occupancy"));
    assert_eq!((a, b), (before, 0), "a program that moves leaves its lines behind");
    pass(&host, 1);
    assert!(read(&tree, "b", "llc_occupancy") > WAY / 4);
    assert!(read(&tree, "a", "llc_occupancy") > before / 2);
    // 40 million references a second, of which nearly all miss.
    let rate = read(&tree, "b", "mbm_total_bytes") as f64;
    assert!((1.5e9..2.7e9).contains(&rate), "{rate} bytes in its first second");
    // An id whose lines are still there is not given out again.
    tree.remove("a").unwrap();
    assert_eq!(tree.make("c").unwrap_err().raw_os_error(), Some(16));
    for _ in 0..60 {
        pass(&host, 2);
        if tree.make("c").is_ok() {
            assert_eq!(read(&tree, "c", "mbm_total_bytes"), 0, "a new group has no history");
            return;
        }
    }
    panic!("it is never free");
}

/// Where both can be asked the same, the small model says what the server says.
#[test]
fn the_mean_field_agrees() {
    let (io, masks) = (Cbm(0x600), [Cbm(0x1f0), Cbm(0x00f)]);
    let beside = MeanFieldWorkload { program: HostProgram::beside(), bytes: 200.0 * 1_048_576.0, references: 40e6 };
    let packets = MeanFieldSpec::default().workloads.remove(0);
    let mut small = MeanField::new(MeanFieldSpec { workloads: vec![packets, beside], ..MeanFieldSpec::default() }, 11);
    let mut server = Simulated::new(SimulatedSpec::default(), 11, 160).unwrap();
    let tenants = [Tenant { ways: masks[0], owner: 1 }, Tenant { ways: masks[1], owner: 2 }];
    // The small model has no private caches, which fill first.
    while server.occupancy(2, &[1, 2]) < WAY as f64 / 8.0 {
        server.advance(Ps(S.0 / 10), &tenants, io);
    }
    let begun = server.totals();
    small.advance(Ps(S.0 / 1000 / 8), &tenants, io);
    // The server's second is a thousandth of the small one's.
    let both: Vec<[f64; 2]> = (0..20)
        .map(|_| {
            small.advance(Ps(S.0 / 1000), &tenants, io);
            server.advance(S, &tenants, io);
            [small.occupancy(2, &[1, 2]), server.occupancy(2, &[1, 2])].map(|bytes| bytes / (11 * WAY) as f64)
        })
        .collect();
    // Lines come to sets of the server by chance: when as many have come as four ways hold, E[min(X, 4)] / 4 = 0.80 of them are
    // full (X Poisson with mean 4), which is 7 points of the LLC. The small one's ways fill evenly.
    for (second, [small, server]) in both.iter().enumerate() {
        let within = if second < 15 { 0.08 } else { 0.02 };
        assert!((small - server).abs() < within, "after {second} s: {small} and {server} of the LLC");
    }
    let received = (server.totals()["received"] - begun["received"]) as f64 / 20.0;
    assert!((received / 2e6 - 1.0).abs() < 0.1, "{received} packets a second");
}

#[test]
fn a_mask_with_a_gap_is_followed() {
    let (host, tree) = made(Spec { rmids: 16, ..Spec::amd() });
    tree.make("g").unwrap();
    tree.write("g/schemata", "L3:0=a005;1=a005\n").unwrap();
    tree.write("g/cpus_list", "4-7\n").unwrap();
    pass(&host, 20);
    let (used, way) = (read(&tree, "g", "llc_occupancy"), (33u64 << 20) / 16);
    assert!(used > 3 * way && used <= 4 * way, "{used} in four ways of {way}");
}

#[test]
fn a_plant_that_cannot_be_says_why() {
    let said = |spec, ways, rmids| Simulated::new(spec, ways, rmids).err().map(|e: PlantError| e.to_string()).unwrap();
    let own = SimulatedSpec::default;
    assert!(said(own(), 11, 256).starts_with("rmids = 256: allowed are 0 to 255"));
    assert!(said(SimulatedSpec { slow: 0, ..own() }, 11, 16).starts_with("slow = 0"));
    assert!(said(SimulatedSpec { programs: vec![], ..own() }, 11, 16).starts_with("programs: 0: allowed is 2"));
    assert!(said(SimulatedSpec { scenario: "upff".into(), ..own() }, 11, 16).contains("\"upff\": no such preset"));
    assert!(said(own(), 33, 16).contains("machine.llc.ways"));
}
