//! What is shipped for systemd: a unit that may do what the daemon does and little else, and a configuration to begin with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{scene, text};
use daemon::DaemonConfig;
use fakehost::Spec;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(name)
}

/// Settings of the section of the service by name; of those that stand more than once, the last.
fn settings() -> BTreeMap<String, String> {
    let unit = std::fs::read_to_string(shipped("wirespeedd.service")).unwrap();
    let (_, service) = unit.split_once("[Service]\n").unwrap();
    let (service, _) = service.split_once("[Install]").unwrap();
    let lines = service.lines().filter(|l| !l.starts_with('#'));
    lines.filter_map(|l| l.split_once('=')).map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

#[test]
fn the_unit_lets_the_daemon_do_what_it_does_and_little_else() {
    let settings = settings();
    for (name, value) in [
        ("CapabilityBoundingSet", "CAP_SYS_RAWIO CAP_PERFMON"),
        ("SystemCallFilter", "@system-service perf_event_open"),
        ("SystemCallArchitectures", "native"),
        ("MemoryDenyWriteExecute", "yes"),
        ("LockPersonality", "yes"),
        ("NoNewPrivileges", "yes"),
        ("RestrictNamespaces", "yes"),
        ("RestrictSUIDSGID", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("ProtectKernelModules", "yes"),
        ("ProtectKernelLogs", "yes"),
        ("ProtectKernelTunables", "yes"),
        ("ProtectClock", "yes"),
        ("ProtectControlGroups", "yes"),
        ("DevicePolicy", "closed"),
        ("DeviceAllow", "char-cpu/msr rw"),
        ("UMask", "0077"),
        ("StateDirectoryMode", "0700"),
        ("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"),
        ("IPAddressDeny", "any"),
        ("IPAddressAllow", "localhost"),
        ("ReadWritePaths", "/var/lib/wirespeedd -/sys/fs/resctrl"),
    ] {
        assert_eq!(settings.get(name).map(String::as_str), Some(value), "{name}");
    }
    // Above what tests/endpoint.rs finds, and below what would harm.
    let number = |name: &str| settings[name].trim_end_matches('M').parse::<u64>().unwrap();
    assert!((32..=64).contains(&number("MemoryMax")));
    assert!((10..=32).contains(&number("TasksMax")));
    assert!((1024..=65536).contains(&number("LimitNOFILE")));
    assert!(settings["ExecStopPost"].contains("wirespeedd restore"));
}

#[test]
fn systemd_takes_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("wirespeedd.service");
    let unit = std::fs::read_to_string(shipped("wirespeedd.service")).unwrap();
    // It is not installed here.
    std::fs::write(&at, unit.replace("/usr/bin/wirespeedd", env!("CARGO_BIN_EXE_wirespeedd"))).unwrap();
    let out = match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&at).output() {
        Ok(out) => out,
        Err(why) => {
            println!("skipped: no systemd-analyze here ({why})");
            return;
        }
    };
    let said = text(&out.stderr);
    let wrong: Vec<&str> = said.lines().filter(|l| l.contains("wirespeedd")).collect();
    assert!(out.status.success() && wrong.is_empty(), "{said}");
}

/// The page shows the file itself: there is one.
#[test]
fn the_configuration_of_the_guide_is_the_shipped_one_and_is_taken() {
    let file = shipped("wirespeedd.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    DaemonConfig::parse(&config, "wirespeedd.toml").unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/daemon.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("--8<-- \"crates/daemon/systemd/wirespeedd.toml\""), "docs/guide/daemon.md includes it");
    let check =
        Command::new(env!("CARGO_BIN_EXE_wirespeedd")).arg("check").arg("--config").arg(&file).output().unwrap();
    assert!(check.status.success(), "{}", text(&check.stderr));
    // And a machine takes it: the same file with another machine's roots.
    let Some(scene) = scene(Spec::default(), "") else { return };
    let at = scene.folder.path().join("machine").display().to_string();
    let roots = format!(
        "\n[roots]\nresctrl = \"{at}/resctrl\"\ndev_cpu = \"{at}/cpu\"\nproc = \"{at}/proc\"\nsys = \"{at}/sys\"\n"
    );
    std::fs::write(&scene.config, config + &roots).unwrap();
    for verb in ["check", "plan"] {
        let out = scene.run(&[verb]);
        assert!(out.status.success(), "{verb}: {}", text(&out.stderr));
        assert!(verb == "check" || text(&out.stdout).contains("/wirespeed-work/schemata"), "{}", text(&out.stdout));
    }
}
