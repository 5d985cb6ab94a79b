//! ERF has no magic: sound first records, then any bytes.

#![no_main]

mod read_capture;

/// An Ethernet record of 40 bytes.
const SOUND: [u8; 40] = {
    let mut record = [0; 40];
    (record[8], record[11], record[15]) = (2, 40, 60);
    record
};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    read_capture::read_capture([&SOUND.repeat(4)[..], data].concat());
});
