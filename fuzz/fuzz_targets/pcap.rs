//! Any bytes as they are, and behind the magic of pcap.

#![no_main]

mod read_capture;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    read_capture::read_capture(data.to_vec());
    read_capture::read_capture([&[0xd4, 0xc3, 0xb2, 0xa1][..], data].concat());
});
