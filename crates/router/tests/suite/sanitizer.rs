//! The kernel's host twin under the thread sanitizer of the C compiler. Where that has none, or the system does not let it run,
//! the test says so and passes.

use std::path::Path;
use std::process::{Command, Output};

/// The sanitizer's exit code for a race.
const RACE: i32 = 66;

fn build_and_run(name: &str, arguments: &[&str]) -> Option<Output> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver/race.c");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=thread", "-pthread"]).args(arguments);
    let built = compiler.arg(file).arg("-o").arg(&out).output().ok()?;
    if !built.status.success() {
        println!("skipped: no thread sanitizer: {}", String::from_utf8_lossy(&built.stderr));
        return None;
    }
    // Without random addresses: older sanitizers do not know where newer kernels put things.
    let fixed = Command::new("setarch").args(["-R"]).arg(&out).output();
    let run = match fixed {
        Ok(run) if !String::from_utf8_lossy(&run.stderr).contains("setarch:") => run,
        _ => Command::new(&out).output().ok()?,
    };
    if String::from_utf8_lossy(&run.stderr).contains("FATAL: ThreadSanitizer") {
        println!("skipped: the thread sanitizer does not run here: {}", String::from_utf8_lossy(&run.stderr));
        return None;
    }
    Some(run)
}

#[test]
fn the_kernel_has_no_data_races_and_the_sanitizer_would_see_one() {
    if let Some(run) = build_and_run("race", &[]) {
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        // Posting without release: what the sanitizer is there to find.
        let broken = build_and_run("race_broken", &["-DBROKEN", "-DTASKS=300u"]).expect("as before");
        assert_eq!(broken.status.code(), Some(RACE), "{}", String::from_utf8_lossy(&broken.stderr));
        // A group that is linked, and used again, while tasks from before are under way.
        let broken = build_and_run("race_without_grace", &["-DWITHOUT_GRACE"]).expect("as before");
        assert_eq!(broken.status.code(), Some(RACE), "{}", String::from_utf8_lossy(&broken.stderr));
    }
}
