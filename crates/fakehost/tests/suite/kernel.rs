//! The made resctrl beside what Linux 6.19 answers: error numbers and texts.

use std::sync::Arc;

use fakehost::{FakeHost, FileRoot, Register, Spec};
use host::resctrl::IoAlloc;
use host::{MonitorReading, Resctrl, Tree};
use proptest::prelude::*;
use units::{Cbm, Ps};

const S: Ps = Ps(1_000_000_000_000);

fn made(spec: Spec) -> (FakeHost, Arc<dyn Tree>) {
    let host = FakeHost::new(spec);
    let tree = host.tree(FileRoot::Resctrl);
    (host, tree)
}

/// The error number, 0 for none, and what `last_cmd_status` says.
fn answer(tree: &dyn Tree, done: std::io::Result<()>) -> (i32, String) {
    let errno = done.err().map_or(0, |e| e.raw_os_error().unwrap_or(-1));
    (errno, tree.read("info/last_cmd_status").unwrap())
}

#[test]
fn errors_and_texts_are_the_kernels() {
    let (_, tree) = made(Spec { min_cbm_bits: 2, ..Spec::default() });
    tree.make("g").unwrap();
    let said = |path: &str, text: &str| answer(&*tree, tree.write(path, text));
    let ok = (0, "ok\n".to_string());
    let refused = |text: &str| (22, text.to_string());
    assert_eq!(said("g/schemata", "L3:0=ff;1=ff\n"), ok);
    for (text, why) in [
        ("L3:0=505\n", "The mask 505 has non-consecutive 1-bits\n"),
        ("L3:0=1\n", "Need at least 2 bits in the mask\n"),
        ("L3:0=0\n", "Mask out of range\n"),
        ("L3:0=fff\n", "Mask out of range\n"),
        ("L3:0=xyz\n", "Non-hex character in the mask xyz\n"),
        ("L3:0\n", "Missing '=' or non-numeric domain\n"),
        ("L3:a=3\n", "Missing '=' or non-numeric domain\n"),
        ("L3:0=3;0=3\n", "Duplicate domain 0\n"),
        ("L3\n", "Missing ':'\n"),
        ("L3:\n", "Missing 'L3' value\n"),
        ("L2:0=3\n", "Unknown or unsupported resource name 'L2'\n"),
        ("MB:0=5\n", "MB value 5 out of range [10,100]\n"),
        ("MB:0=ten\n", "Invalid MB value ten\n"),
    ] {
        assert_eq!(said("g/schemata", text), refused(why), "{text}");
    }
    // Without a newline, and for a domain that is not there, there is an error number only.
    assert_eq!(tree.write("g/schemata", "L3:0=3").unwrap_err().raw_os_error(), Some(22));
    assert_eq!(said("g/schemata", "L3:7=3\n"), refused("ok\n"));
    assert_eq!(said("g/mode", "loud\n"), refused("Unknown or unsupported mode\n"));
    assert_eq!(said("g/tasks", "4242\n").0, 3);
    assert_eq!(said("g/tasks", "x\n"), refused("Task list parsing error pid x\n"));
    assert_eq!(said("g/cpus_list", "99\n"), refused("Can only assign online CPUs\n"));
    assert_eq!(said("g/cpus", "zz\n"), refused("Bad CPU list/mask\n"));
    assert_eq!(said("cpus_list", "1\n"), refused("Can't drop CPUs from default group\n"));
    assert_eq!(tree.make("g").unwrap_err().raw_os_error(), Some(17));
    assert_eq!(tree.make("g/h").unwrap_err().raw_os_error(), Some(1));
    assert_eq!(tree.remove("info").unwrap_err().raw_os_error(), Some(1));
    assert_eq!(tree.read("h/schemata").unwrap_err().raw_os_error(), Some(2));
}

#[test]
fn a_line_that_fails_applies_nothing() {
    let (host, tree) = made(Spec::default());
    tree.make("g").unwrap();
    let before = host.state();
    for text in ["MB:0=50\nL3:0=3;1=505\n", "L3:0=3;1=3\nL3:0=7\n", "L3:0=3\nMB:9=50\n", "L3:0=3\n\n"] {
        assert!(tree.write("g/schemata", text).is_err(), "{text}");
        assert_eq!(host.state(), before, "{text}");
    }
    tree.write("g/schemata", "L3:0=3;1=c\nMB:1=45\n").unwrap();
    let g = &host.state().groups["g"];
    assert_eq!(
        (g.masks.clone(), g.bandwidth.clone()),
        (vec![Cbm(3), Cbm(12)], vec![100, 50]),
        "bandwidth is rounded up"
    );
}

#[test]
fn classes_and_monitoring_ids_run_out() {
    let (_, tree) = made(Spec { closids: 3, ..Spec::default() });
    tree.make("a").unwrap();
    tree.make("b").unwrap();
    assert_eq!(answer(&*tree, tree.make("c")), (28, "Out of CLOSIDs\n".into()));
    let (host, tree) = made(Spec { rmids: 2, ..Spec::default() });
    tree.make("a").unwrap();
    assert_eq!(answer(&*tree, tree.make("b")), (28, "Out of RMIDs\n".into()));
    // One that was given back still has lines.
    host.advance(S);
    tree.remove("a").unwrap();
    assert_eq!(answer(&*tree, tree.make("b")), (16, "Out of RMIDs\n".into()));
    host.advance(S);
    tree.make("b").unwrap();
}

#[test]
fn an_exclusive_group_has_its_ways_alone() {
    let (_, tree) = made(Spec { shareable: Cbm(0), ..Spec::default() });
    tree.make("g").unwrap();
    let said = |path: &str, text: &str| answer(&*tree, tree.write(path, text));
    assert_eq!(said("g/mode", "exclusive\n"), (22, "Schemata overlaps\n".into()));
    tree.write("schemata", "L3:0=7f0;1=7f0\n").unwrap();
    tree.write("g/schemata", "L3:0=f;1=f\n").unwrap();
    assert_eq!(said("g/mode", "exclusive\n").0, 0);
    assert_eq!(said("schemata", "L3:0=7f8\n"), (22, "Overlaps with exclusive group\n".into()));
    assert_eq!(said("g/schemata", "L3:0=1f\n"), (22, "Overlaps with other group\n".into()));
    assert_eq!(tree.read("info/L3/bit_usage").unwrap(), "0=SSSSSSSEEEE;1=SSSSSSSEEEE\n");
    // A new group gets what is shared or unused.
    tree.make("h").unwrap();
    assert!(tree.read("h/schemata").unwrap().contains("L3:0=7f0;1=7f0"));
    // Ways that hardware fills too are nobody's alone.
    let (_, tree) = made(Spec::default());
    tree.make("g").unwrap();
    tree.write("schemata", "L3:0=f;1=f\n").unwrap();
    tree.write("g/schemata", "L3:0=7f0;1=7f0\n").unwrap();
    assert_eq!(answer(&*tree, tree.write("g/mode", "exclusive\n")), (22, "Schemata overlaps\n".into()));
}

#[test]
fn io_allocation_takes_the_highest_class() {
    let (_, tree) = made(Spec::default());
    let resctrl = Resctrl::open(tree.clone()).unwrap();
    assert_eq!(resctrl.io_alloc().unwrap(), IoAlloc::Unsupported);
    assert_eq!(answer(&*tree, tree.write("info/L3/io_alloc", "1\n")), (19, "io_alloc is not supported on L3\n".into()));
    let (host, tree) = made(Spec { closids: 3, ..Spec::amd() });
    let resctrl = Resctrl::open(tree.clone()).unwrap();
    assert_eq!(resctrl.io_alloc().unwrap(), IoAlloc::Disabled);
    let early = answer(&*tree, tree.write("info/L3/io_alloc_cbm", "0=f\n"));
    assert_eq!(early, (19, "io_alloc is not enabled on L3\n".into()));
    tree.make("a").unwrap();
    tree.make("b").unwrap();
    let taken = answer(&*tree, tree.write("info/L3/io_alloc", "1\n"));
    assert_eq!(taken, (28, "CLOSID (ctrl_hw_id) 2 for io_alloc is used by b group\n".into()));
    tree.remove("b").unwrap();
    let rule = resctrl.rule().unwrap();
    let masks = vec![(0, Cbm(0xf000)), (1, Cbm(0xc000))];
    resctrl.set_io_alloc(&IoAlloc::Enabled(masks.clone()), &rule).unwrap();
    assert_eq!(resctrl.io_alloc().unwrap(), IoAlloc::Enabled(masks));
    assert_eq!(tree.make("c").unwrap_err().raw_os_error(), Some(28), "the class is taken");
    resctrl.set_io_alloc(&IoAlloc::Disabled, &rule).unwrap();
    host.advance(S);
    tree.make("c").unwrap();
}

#[test]
fn a_tasks_group_goes_before_its_processors() {
    let (host, tree) = made(Spec::default());
    tree.make("by_cpu").unwrap();
    tree.make("by_task").unwrap();
    tree.write("by_cpu/cpus_list", "1,4-7\n").unwrap();
    let used = |group: &str| {
        let resctrl = Resctrl::open(host.tree(FileRoot::Resctrl)).unwrap();
        resctrl.monitor(group, "llc_occupancy").unwrap()[&0].count().unwrap()
    };
    host.advance(S);
    assert!(used("by_cpu") > 1 << 20 && used("by_task") == 0);
    tree.write("by_task/tasks", "1001\n").unwrap();
    assert!(used("by_task") > 1 << 20, "the first task of processor 1");
    tree.remove("by_task").unwrap();
    assert!(host.state().groups[""].tasks.contains(&1001), "it goes back to the root's group");
}

#[test]
fn occupancy_follows_masks_lazily_and_a_register_without_effect_changes_nothing() {
    for (register, moves) in [(Register::Works, true), (Register::NoEffect, false)] {
        let (host, _) = made(Spec { register, ..Spec::default() });
        let io = host::IoRegister::new(host.tree(FileRoot::DevCpu), vec![0, 8]);
        for _ in 0..5 {
            host.advance(S);
        }
        let (before, at_once) = (host.occupancy()[2], {
            io.write(&[(0, Cbm(0x7c0)), (8, Cbm(0x7c0))]).unwrap();
            host.occupancy()[2]
        });
        assert_eq!(io.read().unwrap(), Cbm(0x7c0), "it reads back");
        assert_eq!(before, at_once, "nothing moves by itself");
        for _ in 0..5 {
            host.advance(S);
        }
        let after = host.occupancy()[2];
        assert_eq!(after > before * 1.2, moves, "{register:?}: {before} then {after}");
    }
    let (host, tree) = made(Spec::default());
    host.faults(|f| f.unavailable = true);
    let resctrl = Resctrl::open(tree).unwrap();
    assert_eq!(resctrl.monitor("", "llc_occupancy").unwrap()[&0], MonitorReading::Unavailable);
    let io = host::IoRegister::new(host.tree(FileRoot::DevCpu), vec![0]);
    assert_eq!(io.write(&[(0, Cbm(0x800))]).unwrap_err().errno(), Some(5), "a way that is not there");
}

proptest! {
    /// Whatever is written, all of it takes effect or none, and every mask in force is one that the cache takes.
    #[test]
    fn masks_in_force_are_always_sound(writes in proptest::collection::vec("(L3|MB|X)?:?[0-2]?=?[0-9a-f]{0,4};?[0-9]?=?[0-9a-f]{0,3}\n?", 1..12)) {
        let (host, tree) = made(Spec { min_cbm_bits: 2, ..Spec::default() });
        tree.make("g").unwrap();
        let rule = Resctrl::open(tree.clone()).unwrap().rule().unwrap();
        for text in writes {
            let before = host.state();
            if tree.write("g/schemata", &text).is_err() {
                prop_assert_eq!(host.state(), before);
            }
            for group in host.state().groups.values() {
                for mask in &group.masks {
                    prop_assert!(rule.check(*mask, "g").is_ok(), "{}", mask);
                }
            }
        }
    }
}
