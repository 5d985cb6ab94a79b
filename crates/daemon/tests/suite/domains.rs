//! Masks by domain: what runs in another socket or core complex keeps its ways.

use crate::made::{Situation, no_wait, none_elsewhere};
use daemon::{Daemon, DaemonConfig, IntervalStep, IoWaysBackend, Role, WritePlan};
use fakehost::{FileRoot, Register, Spec};
use units::{Cbm, Ps};

const S: Ps = Ps(1_000_000_000_000);

fn steps(situation: &Situation, daemon: &mut Daemon, n: u32) {
    for _ in 0..n {
        situation.host.advance(S);
        assert_eq!(daemon.step(&mut no_wait), IntervalStep::GoOn);
    }
}

/// Workers beside the core that receives.
fn work(config: &mut DaemonConfig, cpus: &str) {
    let mut class = config.classes[0].clone();
    (class.name, class.role, class.cpus) = ("work".into(), Role::Work, cpus.into());
    config.classes.push(class);
}

fn plan_of(situation: &Situation) -> WritePlan {
    daemon::plan(&situation.config, &situation.parts, situation.sources()).unwrap()
}

#[test]
fn a_domain_without_packet_cores_is_left_alone() {
    let mut situation = Situation::plain(Spec::default());
    situation.config.default_group = true;
    let before = situation.host.state();
    let plan = plan_of(&situation);
    assert!(plan.notes.iter().any(|n| n.contains("packet cores are in L3 domains 0: no others are set")), "{plan}");
    assert!(plan.writes.iter().all(|w| !w.contains("1=") && !w.contains("wrmsr -p 8")), "{plan}");
    let mut daemon = situation.start().unwrap();
    steps(&situation, &mut daemon, 40);
    let state = situation.host.state();
    for group in ["", "wirespeed-rx"] {
        let masks = &state.groups[group].masks;
        assert!(masks[0] != Cbm(0x7ff) && masks[1] == Cbm(0x7ff), "{group:?} {masks:?}");
    }
    none_elsewhere(&situation, 0, &[0].into()).unwrap();
    assert!(situation.host.writes().iter().all(|w| !w.path.starts_with("cpu/8")), "the other package's register");
    daemon.end(&mut no_wait).unwrap();
    assert_eq!((situation.host.state(), situation.host.registers()), (before, vec![0x600, 0x600]));
}

#[test]
fn where_devices_ways_are_not_moved_cores_keep_out_of_those_that_they_fill() {
    let mut situation = Situation::plain(Spec::default());
    situation.config.default_group = true;
    situation.config.io.domains = Some(vec![0]);
    work(&mut situation.config, "8-9");
    let before = situation.host.state();
    let mut daemon = situation.start().unwrap();
    steps(&situation, &mut daemon, 40);
    let state = situation.host.state();
    let [rx, work, others] = ["wirespeed-rx", "wirespeed-work", ""].map(|group| state.groups[group].masks.clone());
    assert_eq!((rx[1], work[0]), (Cbm(0x7ff), Cbm(0x7ff)), "neither is where the other is");
    assert_eq!((work[1], others[0], others[1]), (Cbm(0x1fe), Cbm(1), Cbm(1)));
    assert_eq!(situation.host.registers()[1], 0x600, "its package's register stays");
    assert_eq!(rx[0].0 & situation.host.registers()[0] as u32, 0);
    daemon.end(&mut no_wait).unwrap();
    assert_eq!((situation.host.state(), situation.host.registers()), (before, vec![0x600, 0x600]));
}

#[test]
fn ways_that_hardware_fills_are_looked_up_in_each_domain() {
    let spec = Spec { io_alloc: false, shareable_of: vec![(1, Cbm(0xc000))], ..Spec::amd() };
    let mut situation = Situation::plain(spec);
    situation.config.io.backend = IoWaysBackend::Fixed;
    situation.config.classes[0].cpus = "1,8".into();
    let mut daemon = situation.start().unwrap();
    steps(&situation, &mut daemon, 3);
    assert_eq!(situation.host.state().groups["wirespeed-rx"].masks, [Cbm(0xfffe), Cbm(0x3ffe)]);
    daemon.end(&mut no_wait).unwrap();
    let spec = Spec { io_alloc: false, shareable_of: vec![(0, Cbm(0xfffc))], ..Spec::amd() };
    let mut narrow = Situation::plain(spec);
    narrow.config.io.backend = IoWaysBackend::Fixed;
    let why = narrow.start().err().expect("a way is too few").to_string();
    assert!(why.starts_with("in L3 domain 0 devices fill") && why.contains("policy.core_floor"), "{why}");
}

#[test]
fn what_somebody_sets_in_another_domain_meanwhile_stays() {
    let mut situation = Situation::plain(Spec { shareable: Cbm(0), ..Spec::default() });
    let tree = situation.host.tree(FileRoot::Resctrl);
    tree.make("wirespeed-rx").unwrap();
    tree.write("wirespeed-rx/cpus_list", "1\n").unwrap();
    tree.write("wirespeed-rx/schemata", "L3:0=3f;1=3f\n").unwrap();
    let mut daemon = situation.start().unwrap();
    steps(&situation, &mut daemon, 20);
    tree.write("wirespeed-rx/schemata", "L3:1=f0\n").unwrap();
    steps(&situation, &mut daemon, 20);
    daemon.end(&mut no_wait).unwrap();
    assert_eq!(situation.host.state().groups["wirespeed-rx"].masks, [Cbm(0x3f), Cbm(0xf0)]);
}

#[test]
fn a_kept_domain_that_somebody_sets_is_set_again() {
    let mut situation = Situation::plain(Spec { register: Register::Works, ..Spec::default() });
    situation.config.io.domains = Some(vec![0]);
    work(&mut situation.config, "8-9");
    let tree = situation.host.tree(FileRoot::Resctrl);
    let mut daemon = situation.start().unwrap();
    steps(&situation, &mut daemon, 30);
    tree.write("wirespeed-work/schemata", "L3:1=3\n").unwrap();
    steps(&situation, &mut daemon, 30);
    assert_eq!(situation.host.state().groups["wirespeed-work"].masks[1], Cbm(0x1fe));
    daemon.end(&mut no_wait).unwrap();
}

#[test]
fn a_class_whose_cores_are_not_known_is_set_everywhere() {
    let mut situation = Situation::plain(Spec::default());
    situation.config.classes[0].cpus = String::new();
    let plan = plan_of(&situation);
    assert!(plan.notes.iter().any(|n| n.contains("in which L3 domains class \"rx\" runs is not known")), "{plan}");
    let mut daemon = situation.start().unwrap();
    steps(&situation, &mut daemon, 10);
    let masks = situation.host.state().groups["wirespeed-rx"].masks.clone();
    assert!(masks[0] == masks[1] && masks[0] != Cbm(0x7ff), "{masks:?}");
    daemon.end(&mut no_wait).unwrap();
}

#[test]
fn domains_that_are_not_there_are_told_with_those_that_are() {
    let mut situation = Situation::plain(Spec::default());
    situation.config.io.domains = Some(vec![0, 7]);
    let why = situation.start().err().expect("there is no domain 7").to_string();
    assert!(why.starts_with("io.domains = [0, 7]: some of this machine's L3 domains 0, 1"), "{why}");
}

#[test]
fn on_amd_device_writes_are_moved_where_packet_cores_are() {
    let mut situation = Situation::plain(Spec { domains: 4, ..Spec::amd() });
    situation.config.classes[0].cpus = "9".into();
    let before = situation.host.state();
    let mut daemon = situation.start().unwrap();
    steps(&situation, &mut daemon, 20);
    let state = situation.host.state();
    let io = state.io_alloc.clone().expect("it is on");
    assert!(io[2] != Cbm(0xffff) && io[2].0 & state.groups["wirespeed-rx"].masks[2].0 == 0, "{io:?}");
    assert!([0, 1, 3].iter().all(|d| state.groups["wirespeed-rx"].masks[*d] == Cbm(0xffff)));
    daemon.end(&mut no_wait).unwrap();
    assert_eq!(situation.host.state(), before);
}

/// A group of the administrator's whose processors are in two domains, the second of which is offline when the daemon first writes.
fn second_comes_after_the_first_write(spec: Spec, prepare: impl Fn(&dyn host::Tree)) -> Situation {
    let mut situation = Situation::plain(spec);
    situation.config.classes[0].cpus = "1,8".into();
    situation.config.default_group = true;
    let tree = situation.host.tree(FileRoot::Resctrl);
    tree.make("wirespeed-rx").unwrap();
    tree.write("wirespeed-rx/cpus_list", "1,8\n").unwrap();
    tree.write("wirespeed-rx/schemata", "L3:0=3f;1=3f\n").unwrap();
    prepare(&*tree);
    let mut daemon = situation.start().unwrap();
    situation.host.set_domain(1, false);
    steps(&situation, &mut daemon, 20);
    situation.host.set_domain(1, true);
    steps(&situation, &mut daemon, 20);
    let masks = &situation.host.state().groups["wirespeed-rx"].masks;
    assert!(masks[0] == masks[1] && masks[0] != Cbm(0x3f), "it is set like the other: {masks:?}");
    daemon.end(&mut no_wait).unwrap();
    situation
}

#[test]
fn a_domain_that_comes_after_the_first_write_gets_all_ways_back() {
    let situation = second_comes_after_the_first_write(Spec::default(), |_| {});
    let state = situation.host.state();
    assert_eq!(state.groups["wirespeed-rx"].masks, [Cbm(0x3f), Cbm(0x7ff)]);
    assert_eq!(state.groups[""].masks, [Cbm(0x7ff), Cbm(0x7ff)]);
    let situation = second_comes_after_the_first_write(Spec::amd(), |tree| {
        tree.write("info/L3/io_alloc", "1\n").unwrap();
        tree.write("info/L3/io_alloc_cbm", "0=ff;1=f0\n").unwrap();
    });
    let state = situation.host.state();
    assert_eq!(state.groups["wirespeed-rx"].masks, [Cbm(0x3f), Cbm(0xffff)]);
    assert_eq!(state.io_alloc, Some(vec![Cbm(0xff), Cbm(0xffff)]));
}

#[test]
fn devices_get_no_ways_where_none_of_their_domains_is_online() {
    let io_writes = |situation: &Situation, from: usize| {
        let writes = situation.host.writes().split_off(from);
        writes.into_iter().filter(|w| w.path.contains("io_alloc")).map(|w| w.text).collect::<Vec<_>>()
    };
    // Offline from the first write on: I/O allocation, which is all domains', is not turned on.
    let mut situation = Situation::plain(Spec::amd());
    situation.config.classes[0].cpus = "8".into();
    let mut daemon = situation.start().unwrap();
    situation.host.set_domain(1, false);
    steps(&situation, &mut daemon, 20);
    assert_eq!(io_writes(&situation, 0), [""; 0]);
    situation.host.set_domain(1, true);
    steps(&situation, &mut daemon, 20);
    assert!(situation.host.state().io_alloc.is_some_and(|io| io[1] != Cbm(0xffff)), "it came, and is set");
    // Nobody else has set anything when it goes again, so the daemon goes on.
    situation.host.set_domain(1, false);
    let from = situation.host.writes().len();
    steps(&situation, &mut daemon, 40);
    assert_eq!(io_writes(&situation, from), [""; 0]);
    daemon.end(&mut no_wait).unwrap();
    assert_eq!(situation.host.state().io_alloc, None);
    // It was on before, and stays so.
    let mut situation = Situation::plain(Spec::amd());
    situation.config.classes[0].cpus = "8".into();
    let tree = situation.host.tree(FileRoot::Resctrl);
    tree.write("info/L3/io_alloc", "1\n").unwrap();
    tree.write("info/L3/io_alloc_cbm", "0=f0;1=f0\n").unwrap();
    let mut daemon = situation.start().unwrap();
    steps(&situation, &mut daemon, 20);
    situation.host.set_domain(1, false);
    let from = situation.host.writes().len();
    let report = daemon.end(&mut no_wait).unwrap();
    assert!(report.safe.iter().any(|what| what.starts_with("I/O allocation has none of its domains")), "{report:?}");
    assert_eq!((io_writes(&situation, from), situation.host.state().io_alloc), (Vec::new(), Some(vec![Cbm(0xf0)])));
}
