//! Traces of memory requests: any bytes; what is read survives the binary form.

#![no_main]

use traffic::RequestTrace;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(read) = RequestTrace::from_bytes(data.to_vec(), "fuzz", None) {
        let mut binary = Vec::new();
        read.to_binary(&mut binary).unwrap();
        let again = RequestTrace::from_bytes(binary, "fuzz", None).unwrap();
        assert_eq!((again.writes, again.clocks), (read.writes, read.clocks));
        assert!(again.addresses.iter().zip(&read.addresses).all(|(a, b)| *a == b & !1));
    }
});
