//! Any bytes as they are, and behind the magic of pcapng.

#![no_main]

mod read_capture;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    read_capture::read_capture(data.to_vec());
    read_capture::read_capture([&[0x0a, 0x0d, 0x0d, 0x0a][..], data].concat());
});
