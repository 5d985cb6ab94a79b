//! `router-bench` itself: what it prints, writes and returns, and what it needs.

/// Where cargo puts it, beside the folder of this test. What cargo says of that at compile time has a hyphen in its name, which a
/// shell between the two (`tests/house/rustc.sh`) does not hand on.
fn built() -> std::path::PathBuf {
    let own = std::env::current_exe().unwrap();
    let at = own.ancestors().nth(2).unwrap().join("router-bench");
    assert!(at.exists(), "{} is not there", at.display());
    at
}

/// The program that is taken to other machines, as it was built for tests.
fn program(arguments: &[&str]) -> std::process::Output {
    std::process::Command::new(built()).args(arguments).output().unwrap()
}

#[test]
fn the_program_measures_without_a_gpu_and_says_what_it_lacks() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("program.csv");
    let csv = out.to_str().unwrap();
    let small = ["--packets", "1024", "--batches", "32", "--shares", "0.5", "--functions", "ttl"];
    let run = program(&[&["--modes", "cpu", "--threads", "1", "--csv", csv][..], &small].concat());
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && told.contains("0 wrong verdicts"), "{told}");
    let lines: Vec<String> = std::fs::read_to_string(&out).unwrap().lines().map(String::from).collect();
    let cells = |line: &String| line.split(',').count();
    assert!(lines.len() == 3 && lines[0].starts_with("function,mode,commit"), "{lines:?}");
    assert!(lines.iter().all(|line| cells(line) == cells(&lines[0])), "{lines:?}");
    // Each run of two at each number of cores, and what comes of it.
    let run = program(&[&["loop", "--runs", "2", "--csv", csv][..], &small].concat());
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && told.contains("ttl: the router takes"), "{told}");
    let ways = 2 * router::bench::usual_cores(2).len();
    assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 1 + 2 * ways);
    for command in ["probe", "link"] {
        let run = program(&[command, "--driver", "/nowhere/libcuda.so.1"]);
        let told = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.code() == Some(77) && told.contains("/nowhere/libcuda.so.1"), "{command}: {told}");
    }
    for (wrong, told) in [
        (&["--rounds", "33"][..], "--rounds 33"),
        (&["--modes", "gpu"], "--modes gpu"),
        (&["loop", "--cores", "x"], "--cores x"),
        (&["link", "--rounds", "0"], "--rounds 0"),
        (&["--batches"], "an option and its value"),
    ] {
        let run = program(wrong);
        let error = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.code() == Some(2) && error.contains(told), "{wrong:?}: {error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_program_needs_nothing_but_the_systems_own_libraries() {
    let told = std::process::Command::new("readelf").arg("-d").arg(built()).output();
    let Ok(told) = told else { return println!("readelf is not installed: the libraries are not looked at") };
    let told = String::from_utf8_lossy(&told.stdout);
    let needed: Vec<&str> = told.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(!needed.is_empty(), "{told}");
    for library in needed {
        let name = library.split(['[', ']']).nth(1).unwrap();
        let own = ["libc.so", "libm.so", "libgcc_s.so", "ld-linux", "libpthread.so", "libdl.so", "librt.so"];
        assert!(own.iter().any(|start| name.starts_with(start)), "{library}");
    }
}
