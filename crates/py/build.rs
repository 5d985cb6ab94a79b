//! Names the commit that is built, and lists the data files of `papers/`, which the extension carries.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() {
    let git = |arguments: &[&str]| -> Option<String> {
        let out = Command::new("git").args(arguments).output().ok().filter(|out| out.status.success())?;
        let text = String::from_utf8(out.stdout).ok()?;
        Some(text.trim().to_string()).filter(|text| !text.is_empty())
    };
    let head = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".into());
    let commit = format!("{head}{}", changes(&git).unwrap_or_default());
    println!("cargo:rustc-env=WIRESPEED_COMMIT={commit}");
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    if let Err(e) = list_papers() {
        println!("cargo:error=papers/ cannot be read: {e}");
    }
}

/// What of the source is in no commit, as `+` and eight digits: results are kept by the build, and a build that was changed is
/// another one. Nothing where all is committed.
fn changes(git: &dyn Fn(&[&str]) -> Option<String>) -> Option<String> {
    let crates = Path::new("..");
    for folder in sorted(crates).ok()? {
        println!("cargo:rerun-if-changed={}", folder.join("src").display());
    }
    let source = [":(top,glob)crates/*/src/**", ":(top)Cargo.lock"];
    let changed = git(&[&["diff", "HEAD", "--"], source.as_slice()].concat());
    let new = git(&[&["ls-files", "--others", "--exclude-standard", "--full-name", "--"], source.as_slice()].concat());
    let mut hash = DefaultHasher::new();
    changed.hash(&mut hash);
    for name in new.iter().flat_map(|names| names.lines()) {
        (name, fs::read(crates.join("..").join(name)).ok()?).hash(&mut hash);
    }
    (changed.is_some() || new.is_some()).then(|| format!("+{:08x}", hash.finish() as u32))
}

/// Writes `papers.rs`: room, file name and text of every CSV and TOML file of `papers/<room>/`.
fn list_papers() -> io::Result<()> {
    let missing = |name: &str| io::Error::other(format!("{name} is not set"));
    let manifest = env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| missing("CARGO_MANIFEST_DIR"))?;
    let rooms = Path::new(&manifest).join("../../papers");
    let mut listed = String::from("&[\n");
    println!("cargo:rerun-if-changed={}", rooms.display());
    for room in sorted(&rooms)?.into_iter().filter(|path| path.is_dir()) {
        println!("cargo:rerun-if-changed={}", room.display());
        for file in sorted(&room)? {
            if file.extension().is_some_and(|e| e == "csv" || e == "toml") {
                let (of, name) = (room.file_name().unwrap_or_default(), file.file_name().unwrap_or_default());
                let text = file.canonicalize()?;
                writeln!(listed, "    ({of:?}, {name:?}, include_str!({text:?})),").map_err(io::Error::other)?;
            }
        }
    }
    listed.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| missing("OUT_DIR"))?;
    fs::write(Path::new(&out).join("papers.rs"), listed)
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    found.sort();
    Ok(found)
}
