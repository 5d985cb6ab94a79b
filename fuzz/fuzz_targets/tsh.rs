//! TSH has no magic: a first record that is sound, then any bytes.

#![no_main]

mod read_capture;

const SOUND: [u8; 44] = {
    let mut record = [0; 44];
    (record[8], record[11]) = (0x45, 40);
    record
};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    read_capture::read_capture([&SOUND.repeat(8)[..], data].concat());
});
