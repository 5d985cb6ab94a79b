//! Recordings of programs: any bytes. What is read lies in its regions.

#![no_main]

use traffic::{RecordedKind, RecordedPlace, Recording};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(read) = Recording::from_bytes(data.to_vec(), "fuzz") {
        for step in &read.steps {
            let mut places = vec![step.place];
            if let RecordedKind::CopyFrom(from) = step.kind {
                places.push(from);
            }
            for place in places {
                if let RecordedPlace::Region(index, offset) = place {
                    assert!(offset + u64::from(step.bytes) <= read.regions[usize::from(index)].bytes);
                }
            }
        }
    }
});
