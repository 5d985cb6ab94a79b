//! Rules in the form of ClassBench: any text. What is read reads what it writes.

#![no_main]

use traffic::FilterRules;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(read) = FilterRules::from_bytes(data.to_vec(), "fuzz") {
        for rule in &read.rules {
            assert_eq!(rule.to_string().parse(), Ok(*rule));
        }
    }
});
