//! Routing tables and updates in MRT: any bytes, and any bytes behind a header of each type.

#![no_main]

use traffic::{Table, Updates};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    read(data.to_vec());
    let length = (data.len() as u32).to_be_bytes();
    for kind in [[0, 12, 0, 1], [0, 12, 0, 2], [0, 13, 0, 1], [0, 13, 0, 2], [0, 13, 0, 4], [0, 16, 0, 1], [0, 16, 0, 4]] {
        read([&[0; 4][..], &kind, &length, data].concat());
    }
});

fn read(bytes: Vec<u8>) {
    let most = bytes.len();
    if let Ok(table) = Table::from_bytes(bytes.clone(), "fuzz") {
        assert!(table.routes.iter().all(|r| r.next_hop.is_none_or(|h| (h as usize) < table.next_hops.len())));
    }
    if let Ok(updates) = Updates::from_bytes(bytes, "fuzz") {
        assert!(updates.count() <= most * 1000);
    }
}
