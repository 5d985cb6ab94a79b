//! What `wirespeed doctor` says of made machines: no tick for what cannot be used.

use std::path::Path;

use fakehost::{FakeHost, Spec, TelemetryServer};
use host::{Support, SurveyFinding, survey};

fn finding(root: &Path, what: &str) -> SurveyFinding {
    survey(root).findings.into_iter().find(|f| f.what.starts_with(what)).expect("it is looked at")
}

#[test]
fn telemetry_without_busy_time_is_limited() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().join("run/dpdk/rte");
    std::fs::create_dir_all(&at).unwrap();
    let host = FakeHost::new(Spec::default());
    let _server = TelemetryServer::start(&host, &at.join("dpdk_telemetry.v2")).unwrap();
    let of = || finding(root.path(), "DPDK telemetry");
    assert_eq!((of().state, of().remedy), (Support::Works, None));
    // DPDK 22.11 has no /eal/lcore/usage.
    host.faults(|f| f.absent = vec!["busy"]);
    let told = of();
    assert_eq!(told.state, Support::Limited, "{told:?}");
    assert!(told.detail.contains("/eal/lcore/usage") && told.remedy.unwrap().contains("DPDK 23.03"));
}

#[test]
fn io_alloc_is_said_to_be_there_only_where_it_is() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    std::fs::create_dir_all(at("proc")).unwrap();
    std::fs::write(
        at("proc/cpuinfo"),
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nphysical id\t: 0\nflags\t\t: msr cat_l3\n",
    )
    .unwrap();
    let remedy = || finding(root.path(), "I/O ways").remedy.unwrap();
    assert!(remedy().contains("which is not here: Linux 6.19"), "without resctrl: {}", remedy());
    let info = at("sys/fs/resctrl/info/L3");
    std::fs::create_dir_all(&info).unwrap();
    assert!(remedy().contains("which is not here"), "an older kernel: {}", remedy());
    std::fs::write(info.join("io_alloc"), "not supported\n").unwrap();
    assert!(remedy().contains("which is not here"), "no SDCI: {}", remedy());
    std::fs::write(info.join("io_alloc"), "disabled\n").unwrap();
    assert_eq!(remedy(), "the kernel's io_alloc sets them here");
}
