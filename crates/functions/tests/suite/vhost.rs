//! What a copy into a guest's buffers does to the bytes, and which references it makes.

use functions::{CopySpec, Forward, NextHop, PacketFunction, Vhost};
use packet::Packet;
use probe::{Null, ProbeEvent, Record, RegionId};
use units::{PacketId, Ps, Size};

fn forward() -> Forward {
    let routes = [("0.0.0.0/0".parse().unwrap(), NextHop::from(1u16))];
    Forward::new(routes.into_iter(), 2, &Default::default()).unwrap()
}

fn packets(bytes: &[usize]) -> Vec<Packet> {
    let make = |(i, &n): (usize, &usize)| {
        let mut frame: Vec<u8> = (0..n).map(|b| (b * 7 + i) as u8).collect();
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        let mut packet = Packet { id: PacketId(i as u64), ..Packet::default() };
        packet.set_frame(&frame, n as u32);
        packet
    };
    bytes.iter().enumerate().map(make).collect()
}

#[test]
fn each_packet_is_in_its_buffer_as_it_came_and_forwarding_decides_as_without_copies() {
    let spec = CopySpec { buffers: 3, buffer: Size::from_bytes(256), ..CopySpec::default() };
    let mut vhost = Vhost::new(&spec, forward()).unwrap();
    let before = packets(&[60, 100, 150, 90, 400]);
    let (mut burst, mut alone) = (before.clone(), before.clone());
    let (mut verdicts, mut expected) = (Vec::new(), Vec::new());
    vhost.process_burst(Ps::ZERO, &mut burst, &mut Null, &mut verdicts);
    forward().process_burst(Ps::ZERO, &mut alone, &mut Null, &mut expected);
    assert_eq!(verdicts, expected);
    for (packet, same) in burst.iter().zip(&alone) {
        assert_eq!(packet.data, same.data);
    }
    // The last three are in the three buffers; what does not fit is left out.
    for (i, packet) in before.iter().enumerate().skip(2) {
        let kept = packet.data.len().min(256 - 64);
        assert_eq!(vhost.buffer(i as u64)[..kept], packet.data[..kept], "packet {i}");
    }
}

#[test]
fn references_lie_in_their_regions_and_are_what_the_header_says() {
    let spec = CopySpec { buffers: 2, reads: 100, ..CopySpec::default() };
    let mut vhost = Vhost::new(&spec, forward()).unwrap();
    let regions = vhost.regions();
    let (mut with, mut without) = (Record::new(), Record::new());
    vhost.process_burst(Ps::ZERO, &mut packets(&[1000, 60, 300]), &mut with, &mut Vec::new());
    forward().process_burst(Ps::ZERO, &mut packets(&[1000, 60, 300]), &mut without, &mut Vec::new());
    let touches = |record: &Record| record.iter().filter(|e| matches!(e, ProbeEvent::Touch(_))).count();
    // Two mbuf loads, descriptor and used entry; the guest reads 2, 1 and 2 lines.
    assert_eq!(touches(&with) - touches(&without), 3 * 4 + 5);
    let mut copies = Vec::new();
    for event in with.iter() {
        let refs = match event {
            ProbeEvent::Touch(r) => vec![r],
            ProbeEvent::Copy { src, dst } => {
                copies.push((src.region, src.bytes, dst.offset));
                vec![dst]
            }
            _ => continue,
        };
        for r in refs.iter().filter(|r| !r.region.is_of_packet()) {
            let region = regions.iter().find(|spec| spec.id == r.region).unwrap();
            assert!(r.offset + u64::from(r.bytes) <= region.bytes, "{r:?} in {region:?}");
        }
    }
    let packet = RegionId::PACKET;
    assert_eq!(copies, [(packet, 1000, 64), (packet, 60, 2048 + 64), (packet, 300, 64)]);
}

/// The descriptor is written in place of a copy, and the guest reads two lines of the packet.
#[test]
fn without_a_copy_the_guest_reads_the_packet() {
    let spec = CopySpec { buffers: 2, reads: 100, zero_copy: true, ..CopySpec::default() };
    let (mut with, mut without) = (Record::new(), Record::new());
    Vhost::new(&spec, forward()).unwrap().process_burst(Ps::ZERO, &mut packets(&[1000]), &mut with, &mut Vec::new());
    forward().process_burst(Ps::ZERO, &mut packets(&[1000]), &mut without, &mut Vec::new());
    let packet = |record: &Record| {
        record.iter().filter(|e| matches!(e, ProbeEvent::Touch(r) if r.region == RegionId::PACKET)).count()
    };
    let touches = |record: &Record| record.iter().filter(|e| matches!(e, ProbeEvent::Touch(_))).count();
    assert!(with.iter().all(|e| !matches!(e, ProbeEvent::Copy { .. })));
    assert_eq!((packet(&with) - packet(&without), touches(&with) - touches(&without)), (2, 5 + 2));
}

#[test]
fn errors_say_what_came_and_what_is_allowed() {
    let error = |spec: CopySpec| Vhost::new(&spec, forward()).unwrap_err().to_string();
    let spec = CopySpec::default();
    insta::assert_snapshot!(
        [
            error(CopySpec { buffers: 0, ..spec.clone() }),
            error(CopySpec { buffer: Size::from_bytes(100), ..spec.clone() }),
            error(CopySpec { offset: 2048, ..spec }),
        ]
        .join("\n"),
        @r"
    function.copy.buffers = 0: allowed are 1 to 1048576
    function.copy.buffer = 100 B: allowed is a multiple of 64 B from 128 B to 16 KiB
    function.copy.offset = 2048: allowed is less than the buffer's 2048 B
    "
    );
}
