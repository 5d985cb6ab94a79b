//! VPP's statistics segment: any bytes.

#![no_main]

use host::vpp::StatsSegment;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(segment) = StatsSegment::open(data.to_vec(), "fuzz".into()) {
        let _ = segment.totals(&["eth0".into()], &["rx-miss".into()]);
    }
});
