//! Answers of a DPDK program: any JSON.

#![no_main]

use host::{PortTotals, core_cycles};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(answer) = serde_json::from_slice(data) else { return };
    let _ = PortTotals::from_json(&answer, "fuzz");
    if let Ok(cores) = core_cycles(&answer, "fuzz") {
        assert_eq!(Some(cores.len()), answer["lcore_ids"].as_array().map(Vec::len));
    }
});
