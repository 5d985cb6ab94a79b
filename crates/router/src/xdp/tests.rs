//! The end of sending, where a test is the kernel: no real driver here gives chunks back late.

use std::fs::File;

use super::*;

const CHUNKS: u32 = 8;

/// A sink whose rings nobody but the test reads, and which no call wakes.
fn sink() -> XdpSink {
    let nothing = || OwnedFd::from(File::open("/dev/null").unwrap());
    let attached = Attached { sockets: SocketMap::none(), mode: Attach::Generic, _link: nothing() };
    XdpSink {
        name: "made0".into(),
        socket: Arc::new(nothing()),
        memory: Arc::new(Mapping::anonymous(CHUNKS as usize * CHUNK_BYTES).unwrap()),
        _attached: Arc::new(attached),
        tx: Ring::made(CHUNKS),
        completion: Ring::made(CHUNKS),
        chunks: CHUNKS,
        free: (0..u64::from(CHUNKS)).map(|chunk| chunk * CHUNK_BYTES as u64).collect(),
        completes_by_call: true,
        refused: 0,
    }
}

fn send(sink: &mut XdpSink, frames: u32) {
    let mut packet = Packet::default();
    packet.set_frame(&[7; 60], 60);
    (0..frames).for_each(|_| sink.send(&packet, PortId(0)).unwrap());
    sink.flush().unwrap();
}

/// The kernel has read `taken` descriptors, and has sent the frames of the first `sent` of them.
fn kernel(sink: &XdpSink, taken: u32, sent: u32) {
    sink.tx.tell(false, taken);
    for count in 0..sent {
        // Chunks are taken from the end.
        sink.completion.set(count, u64::from(CHUNKS - 1 - count) * CHUNK_BYTES as u64);
    }
    sink.completion.tell(true, sent);
}

#[test]
fn the_end_waits_for_frames_that_the_kernel_has_taken_and_not_sent() {
    let mut sink = sink();
    send(&mut sink, 3);
    kernel(&sink, 3, 1);
    let begun = Instant::now();
    sink.finish().unwrap();
    assert!(begun.elapsed() >= LAST_FRAMES, "it took {:?}", begun.elapsed());
    assert_eq!((sink.outstanding(), sink.refused()), (2, 2), "what never came back was not sent");
}

#[test]
fn the_end_waits_no_longer_than_for_the_last_frame() {
    let mut sink = sink();
    send(&mut sink, 3);
    kernel(&sink, 3, 3);
    let begun = Instant::now();
    sink.finish().unwrap();
    assert!(begun.elapsed() < LAST_FRAMES / 2, "it took {:?}", begun.elapsed());
    assert_eq!((sink.outstanding(), sink.refused()), (0, 0));
}

#[test]
fn frames_that_the_kernel_never_took_are_not_sent_either() {
    let mut sink = sink();
    send(&mut sink, CHUNKS + 2);
    assert_eq!(sink.refused(), 2, "there are eight chunks");
    kernel(&sink, 5, 4);
    sink.finish().unwrap();
    assert_eq!((sink.outstanding(), sink.refused()), (4, 6));
}
