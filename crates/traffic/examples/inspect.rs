//! Measures captures: `cargo run --release --example inspect FILE...`; `--profile` prints a profile of them instead.

fn main() {
    let (profile, files): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|a| a == "--profile");
    for file in files {
        match traffic::inspect_file(&file) {
            Ok(seen) if profile.is_empty() => println!("{seen:#?}"),
            Ok(seen) => println!("{}", seen.profile().to_toml()),
            Err(e) => eprintln!("{e}"),
        }
    }
}
