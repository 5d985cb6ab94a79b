//! Writers of small captures. What they write is what the formats' documents say, not what the
//! readers accept.

use std::io::Write;

use packet::internet_checksum;
use traffic::CaptureFormat;

/// A frame with Ethernet and IPv4 headers.
#[derive(Clone)]
pub struct Frame {
    /// Since the epoch.
    pub ns: u64,
    pub wire: u32,
    pub data: Vec<u8>,
}

/// How exactly a format keeps time.
#[derive(Clone, Copy)]
pub enum Resolution {
    Exact,
    Micros,
    None,
}

/// Frames of 60 to 1,514 bytes of which 60 are kept; gaps of 1,234,567 ns.
pub fn frames(n: u64) -> Vec<Frame> {
    let frame = |i: u64| {
        let wire = [60, 60, 590, 1514][i as usize % 4];
        let mut data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        data.extend([0x45, 0, ((wire - 14) >> 8) as u8, (wire - 14) as u8, 0, i as u8, 0, 0, 64, 17, 0, 0]);
        data.extend([10, 0, 0, 1, 192, 0, 2, i as u8]);
        let checksum = internet_checksum(&data[14..34]).to_be_bytes();
        data[24..26].copy_from_slice(&checksum);
        data.extend((34..60).map(|b| b as u8 ^ i as u8));
        Frame { ns: 1_263_340_800_000_000_000 + i * 1_234_567, wire, data }
    };
    (0..n).map(frame).collect()
}

/// The same frames in every format.
pub fn sound_captures(frames: &[Frame]) -> Vec<(String, CaptureFormat, Vec<u8>, Resolution)> {
    use CaptureFormat::*;
    let mut all = Vec::new();
    for big in [true, false] {
        let order = if big { "big" } else { "little" };
        all.push((format!("pcap ns {order}"), Pcap, pcap(frames, big, true), Resolution::Exact));
        all.push((format!("pcap us {order}"), Pcap, pcap(frames, big, false), Resolution::Micros));
        all.push((format!("pcap modified {order}"), Pcap, pcap_modified(frames, big), Resolution::Micros));
        all.push((format!("pcapng {order}"), Pcapng, pcapng(frames, big, 1, None), Resolution::Micros));
        all.push((format!("pcapng ns {order}"), Pcapng, pcapng(frames, big, 1, Some(9)), Resolution::Exact));
        all.push((format!("pcapng old {order}"), Pcapng, pcapng_old(frames, big), Resolution::Micros));
    }
    all.push(("pcapng simple".into(), Pcapng, pcapng_simple(frames), Resolution::None));
    all.push(("tsh".into(), Tsh, tsh(frames), Resolution::Micros));
    all.push(("erf".into(), Erf, erf(frames), Resolution::Exact));
    all
}

fn u32s(values: &[u64], big: bool) -> Vec<u8> {
    values.iter().flat_map(|&v| if big { (v as u32).to_be_bytes() } else { (v as u32).to_le_bytes() }).collect()
}

fn u16s(values: &[u16], big: bool) -> Vec<u8> {
    values.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }).collect()
}

fn pcap_header(magic: u64, big: bool) -> Vec<u8> {
    [u32s(&[magic], big), u16s(&[2, 4], big), u32s(&[0, 0, 65_535, 1], big)].concat()
}

pub fn pcap(frames: &[Frame], big: bool, nanoseconds: bool) -> Vec<u8> {
    let mut out = pcap_header(if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }, big);
    for f in frames {
        let fraction = f.ns % 1_000_000_000 / if nanoseconds { 1 } else { 1000 };
        out.extend(u32s(&[f.ns / 1_000_000_000, fraction, f.data.len() as u64, f.wire.into()], big));
        out.extend(&f.data);
    }
    out
}

fn pcap_modified(frames: &[Frame], big: bool) -> Vec<u8> {
    let mut out = pcap_header(0xa1b2_cd34, big);
    for f in frames {
        let micros = f.ns % 1_000_000_000 / 1000;
        out.extend(u32s(&[f.ns / 1_000_000_000, micros, f.data.len() as u64, f.wire.into(), 2], big));
        out.extend(u16s(&[0x0800, 0], big));
        out.extend(&f.data);
    }
    out
}

fn block(kind: u64, body: &[u8], big: bool) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = u32s(&[padded as u64 + 12], big);
    [&u32s(&[kind], big)[..], &length, body, &vec![0; padded - body.len()], &length].concat()
}

fn section(big: bool) -> Vec<u8> {
    let body = [u32s(&[0x1a2b_3c4d], big), u16s(&[1, 0], big), vec![0xff; 8]].concat();
    block(0x0a0d_0d0a, &body, big)
}

/// An interface with a name, and if given a resolution of 10^-n and an offset of 1000 s.
fn interface(big: bool, link: u16, resolution: Option<u8>) -> Vec<u8> {
    let mut body = [u16s(&[link, 0], big), u32s(&[65_535], big)].concat();
    body.extend([u16s(&[2, 3], big), b"lo0\0".to_vec()].concat());
    if let Some(n) = resolution {
        body.extend([u16s(&[9, 1], big), vec![n, 0, 0, 0]].concat());
        let offset = 1000u64;
        body.extend(u16s(&[14, 8], big));
        body.extend(if big { offset.to_be_bytes() } else { offset.to_le_bytes() });
        body.extend(u16s(&[0, 0], big));
    }
    block(1, &body, big)
}

pub fn pcapng(frames: &[Frame], big: bool, link: u16, resolution: Option<u8>) -> Vec<u8> {
    let mut out = [section(big), interface(big, link, resolution)].concat();
    for f in frames {
        let time = match resolution {
            Some(_) => f.ns - 1000 * 1_000_000_000,
            None => f.ns / 1000,
        };
        let head = u32s(&[0, time >> 32, time, f.data.len() as u64, f.wire.into()], big);
        out.extend(block(6, &[head, f.data.clone()].concat(), big));
        // Statistics and a block nobody knows in between.
        out.extend(block(5, &[0; 12], big));
        out.extend(block(0x0bad_0000, &[1, 2, 3, 4], big));
    }
    out
}

fn pcapng_old(frames: &[Frame], big: bool) -> Vec<u8> {
    let mut out = [section(big), interface(big, 1, None)].concat();
    for f in frames {
        let time = f.ns / 1000;
        let head = [u16s(&[0, 0], big), u32s(&[time >> 32, time, f.data.len() as u64, f.wire.into()], big)].concat();
        out.extend(block(2, &[head, f.data.clone()].concat(), big));
    }
    out
}

fn pcapng_simple(frames: &[Frame]) -> Vec<u8> {
    let body = [u16s(&[1, 0], false), u32s(&[60], false)].concat();
    let mut out = [section(false), block(1, &body, false)].concat();
    for f in frames {
        out.extend(block(3, &[u32s(&[f.wire.into()], false), f.data.clone()].concat(), false));
    }
    out
}

fn tsh(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    for f in frames {
        out.extend(u32s(&[f.ns / 1_000_000_000, (1 << 24) | (f.ns % 1_000_000_000 / 1000)], true));
        out.extend(&f.data[14..50]);
    }
    out
}

/// Ethernet records of 78 bytes: 16 of header, 2 of offset and padding, the frame.
fn erf(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    for f in frames {
        let fraction = ((u128::from(f.ns % 1_000_000_000) << 32).div_ceil(1_000_000_000)) as u64;
        out.extend((((f.ns / 1_000_000_000) << 32) + fraction).to_le_bytes());
        out.extend([2, 4]);
        out.extend(u16s(&[78, 0, f.wire as u16 + 4], true));
        out.extend([0, 0]);
        out.extend(&f.data);
    }
    out
}

pub fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub fn xz(data: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}
