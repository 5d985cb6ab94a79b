//! The daemon's journal: any bytes. What is believed has its checksum, and names groups of the daemon's alone.

#![no_main]

use daemon::{Journal, JournalEntry};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(journal) = Journal::parse(data, "wirespeed-") {
        for entry in &journal.entries {
            if let JournalEntry::Made { group } | JournalEntry::Masks { group, .. } = entry {
                assert!(group.is_empty() || group.starts_with("wirespeed-"));
                assert!(!group.contains(['/', '\0']));
            }
        }
    }
});
