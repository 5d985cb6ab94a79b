//! Reads a capture to its end and checks what every reader promises.

use packet::Packet;
use traffic::{Capture, LATEST_ARRIVAL, MAX_STORED_BYTES};

pub fn read_capture(bytes: Vec<u8>) {
    let most = bytes.len() as u64;
    let Ok(mut capture) = Capture::from_bytes(bytes, "fuzz") else { return };
    let (mut packet, mut last, mut packets) = (Packet::default(), Default::default(), 0u64);
    while capture.next(&mut packet) {
        assert!(packet.data.len() <= packet.frame_bytes as usize);
        assert!(packet.frame_bytes as usize <= MAX_STORED_BYTES + 14);
        assert!(packet.arrival >= last && packet.arrival <= LATEST_ARRIVAL);
        let _ = packet::layers(&packet.data);
        last = packet.arrival;
        packets += 1;
    }
    // The shortest record of any format has 12 bytes, and a byte decompresses to a thousand at most.
    assert!(packets <= most * 100);
    assert_eq!(capture.report().packets, packets);
}
