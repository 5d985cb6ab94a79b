//! What a program tells Prometheus, and a name as in a query, which is the first line: any text.

#![no_main]

use host::prometheus::{Selector, ToldMetrics};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (name, metrics) = text.split_once('\n').unwrap_or((&text, ""));
    let (Ok(selector), Ok(metrics)) = (name.parse::<Selector>(), ToldMetrics::parse(metrics)) else { return };
    if let Ok(sum) = metrics.sum(&selector) {
        assert!(sum >= 0.0);
    }
});
