//! Scenario files and overrides: any text, of which lines that begin with `--set ` are overrides.

#![no_main]

use sim::{Overrides, Scenario};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let set = text.lines().filter_map(|line| line.strip_prefix("--set ")).map(str::to_string).collect();
    let text: String = text.lines().filter(|line| !line.starts_with("--set ")).map(|line| format!("{line}\n")).collect();
    match Scenario::read(&text, "fuzz.toml", &Overrides { set, ..Overrides::default() }) {
        // What was judged sound is so when it is read again with everything filled in.
        Ok(scenario) => {
            let again = Scenario::read(&scenario.to_toml(), "again.toml", &Overrides::default());
            assert!(again.is_ok(), "{}", again.unwrap_err());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
