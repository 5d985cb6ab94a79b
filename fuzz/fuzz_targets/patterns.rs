//! Tables of strings: any text. What is taken fits what was asked for, each once.

#![no_main]

use traffic::{PatternSelection, SignatureStrings};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(read) = SignatureStrings::from_bytes(data.to_vec(), "fuzz") {
        assert!(read.strings.iter().all(|string| !string.bytes.is_empty()));
        let selection = PatternSelection { enabled: false, min_bytes: 2, most: 100, ..PatternSelection::default() };
        let mut taken = read.select(&selection);
        assert!(taken.len() <= 100 && taken.iter().all(|(bytes, _)| bytes.len() >= 2));
        let count = taken.len();
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), count);
    }
});
