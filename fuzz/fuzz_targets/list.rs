//! Prefix lists: any text.

#![no_main]

use traffic::Table;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(table) = Table::from_bytes(data.to_vec(), "fuzz") {
        for route in &table.routes {
            assert_eq!(route.prefix.to_string().parse(), Ok(route.prefix));
        }
    }
});
