//! What forwarding executes, for `tests/instructions.rs` to count under valgrind: with the null
//! probe, and as a copy written by hand in which no probe occurs.
//!
//! Usage: `forward_instructions null|hand|report WORKLOAD`. `report` prints the instructions that
//! the function reports to a probe; the other two print a digest of verdicts and bytes, and do the
//! work in the functions `forward_null` and `forward_by_hand`. All print the number of packets.

use functions::lookup::{Dir24_8, Dir24Spec, FibEntry, Lpm6};
use functions::{
    Adjacency, ChecksumCheck, DropReason, Forward, ForwardSpec, LookupMode, NextHop, PacketFunction, Verdict, ttl,
};
use packet::{L3, Packet, Prefix, internet_checksum};
use probe::{Count, Null};
use units::{PacketId, PortId, Ps};

const BURST: usize = 32;
const BURSTS: usize = 64;
const PORTS: u16 = 4;

/// Networks of 24, 28 and 20 bits, and of 32, 48 and 64.
fn routes() -> Vec<(Prefix, NextHop)> {
    let v4 = (0..256u32).flat_map(|i| {
        let net = (20 << 24) | (i << 16);
        [(net, 24), (net + 0x100, 28), (net + 0x1000, 20)].map(|(addr, len)| (Prefix::V4 { addr, len }, i as u16))
    });
    let v6 = (0..64u128).flat_map(|i| {
        let net = (0x2001_0db8 << 96) | (i << 80);
        [(net, 48), (net | 1 << 64, 64)].map(|(addr, len)| (Prefix::V6 { addr, len }, i as u16))
    });
    v4.chain(v6).map(|(prefix, id)| (prefix, NextHop::from(id))).collect()
}

fn frame(workload: &str, i: usize) -> Vec<u8> {
    let mut frame = vec![0u8; 12];
    let kind = match workload {
        "mixed" => ["v4", "v4", "v4", "v4_long", "v4", "no_route", "v4", "arp", "v4", "ttl", "v6", "v4"][i % 12],
        other => other,
    };
    let n = (i * 37 % 256) as u32;
    if kind == "arp" {
        frame.extend([0x08, 0x06]);
        frame.extend([0; 46]);
    } else if kind.starts_with("v6") {
        // Routes of 64 bits lie below those of 48: an address near them is looked up one level deeper.
        let subnet = if kind == "v6" { 7 } else { 0x107 };
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64]);
        frame.extend(0x2a00_u128.wrapping_shl(112).to_be_bytes());
        frame.extend(((0x2001_0db8_u128 << 96) | (u128::from(n % 64) << 80) | (subnet << 64)).to_be_bytes());
        frame.extend([0; 20]);
    } else {
        let net = (20 << 24) | (n << 16);
        let dst = match kind {
            "v4_long" => net + 0x105,
            "no_route" => net + 0x8000,
            _ => net + 7,
        };
        let mut header =
            [0x45, 0, 0, 46, 1, 2, 0, 0, if kind == "ttl" { 1 } else { 64 }, 17, 0, 0, 11, 2, 3, 4, 0, 0, 0, 0];
        header[16..].copy_from_slice(&dst.to_be_bytes());
        let sum = internet_checksum(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        frame.extend([0x08, 0]);
        frame.extend(header);
        frame.extend([0; 26]);
    }
    frame
}

fn packets(workload: &str) -> Vec<Packet> {
    let packet = |i| {
        let mut packet = Packet { id: PacketId(i as u64), ..Packet::default() };
        let frame = frame(workload, i);
        packet.set_frame(&frame, frame.len() as u32);
        packet
    };
    (0..BURST * BURSTS).map(packet).collect()
}

#[unsafe(no_mangle)]
#[inline(never)]
fn forward_null(forward: &mut Forward, burst: &mut [Packet], out: &mut Vec<Verdict>) {
    forward.process_burst(Ps::ZERO, burst, &mut Null, out);
}

#[unsafe(no_mangle)]
#[inline(never)]
fn forward_by_hand(router: &by_hand::Router, burst: &mut [Packet], out: &mut Vec<Verdict>) {
    router.process_burst(burst, out);
}

fn digest(packets: &[Packet], out: &[Verdict]) -> u64 {
    let mut hash = 0u64;
    let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    for (packet, verdict) in packets.iter().zip(out) {
        mix(match verdict {
            Verdict::Forward { port } => u64::from(port.0),
            Verdict::Drop(reason) => 1 << 32 | *reason as u64,
        });
        packet.data.iter().for_each(|&byte| mix(u64::from(byte)));
    }
    hash
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mode, workload] = &args[..] else {
        return Err("usage: forward_instructions null|hand|report WORKLOAD[+single][+software]".into());
    };
    let mut options = workload.split('+');
    let workload = options.next().unwrap_or_default();
    let mut spec = ForwardSpec::default();
    for option in options {
        match option {
            "single" => spec.lookup = LookupMode::Single,
            "software" => spec.checksum = ChecksumCheck::Software,
            "no_prefetch" => spec.prefetch = false,
            other => return Err(format!("{other}: unknown option").into()),
        }
    }
    let mut packets = packets(workload);
    let mut out = Vec::with_capacity(packets.len());
    let mut forward = Forward::new(routes().into_iter(), PORTS, &spec)?;
    match mode.as_str() {
        "null" => packets.chunks_mut(BURST).for_each(|burst| forward_null(&mut forward, burst, &mut out)),
        "hand" => {
            let router = by_hand::Router::new()?;
            packets.chunks_mut(BURST).for_each(|burst| forward_by_hand(&router, burst, &mut out));
        }
        _ => {
            let mut count = Count::default();
            packets.chunks_mut(BURST).for_each(|burst| forward.process_burst(Ps::ZERO, burst, &mut count, &mut out));
            println!("{} {}", packets.len(), count.instructions);
            return Ok(());
        }
    }
    println!("{} {:016x}", packets.len(), digest(&packets, &out));
    Ok(())
}

/// Forwarding with the default options, line by line the same, without a probe.
mod by_hand {
    use std::hint::black_box;
    use std::sync::Arc;

    use super::*;

    pub struct Router {
        fib: Arc<Fib>,
        prefetch: bool,
        lookup: LookupMode,
        checksum: ChecksumCheck,
    }

    struct Fib {
        v4: Fib4,
        v6: Lpm6,
        adjacencies: Vec<Adjacency>,
    }

    enum Fib4 {
        Narrow(Dir24_8<u16>),
        Wide(Dir24_8<u32>),
    }

    #[derive(Clone, Copy)]
    enum Fate {
        Drop(DropReason),
        V4(Option<NextHop>),
        V6(Option<NextHop>),
    }

    struct Keys<const N: usize, A> {
        n: usize,
        at: [u8; N],
        dst: [A; N],
    }

    impl<const N: usize, A: Copy> Keys<N, A> {
        #[inline(always)]
        fn push(&mut self, at: usize, dst: A) {
            self.at[self.n % N] = at as u8;
            self.dst[self.n % N] = dst;
            self.n += 1;
        }
        #[inline(always)]
        fn get(&self, k: usize) -> (usize, A) {
            (usize::from(self.at[k]) % N, self.dst[k])
        }
    }

    struct Lanes<const N: usize, E> {
        fate: [Fate; N],
        v4: Keys<N, u32>,
        v6: Keys<N, u128>,
        entry: [E; N],
    }

    enum Checked {
        V4(u32),
        V6(u128),
    }

    impl Router {
        pub fn new() -> Result<Router, functions::FunctionError> {
            let (mut v4, mut v6) = (Vec::new(), Vec::new());
            for (prefix, next_hop) in routes() {
                match prefix {
                    Prefix::V4 { addr, len } => v4.push((addr, len, next_hop)),
                    Prefix::V6 { addr, len } => v6.push((addr, len, next_hop)),
                }
            }
            let adjacencies = (0..256).map(|id| Adjacency::numbered(id, PortId((id % 4) as u16))).collect();
            let v4 = match black_box(2) {
                2 => Fib4::Narrow(Dir24_8::new(v4, Dir24Spec::default())?),
                _ => Fib4::Wide(Dir24_8::new(v4, Dir24Spec::default())?),
            };
            let fib = Fib { v4, v6: Lpm6::new(v6, Dir24Spec::default())?, adjacencies };
            let (prefetch, lookup, checksum) = black_box((true, LookupMode::Bulk, ChecksumCheck::Nic));
            Ok(Router { fib: Arc::new(fib), prefetch, lookup, checksum })
        }

        pub fn process_burst(&self, burst: &mut [Packet], out: &mut Vec<Verdict>) {
            match (&self.fib.v4, self.lookup) {
                (Fib4::Narrow(table), LookupMode::Bulk) => self.stages::<BURST, _>(table, burst, out),
                (Fib4::Wide(table), LookupMode::Bulk) => self.stages::<BURST, _>(table, burst, out),
                (Fib4::Narrow(table), LookupMode::Single) => self.stages::<1, _>(table, burst, out),
                (Fib4::Wide(table), LookupMode::Single) => self.stages::<1, _>(table, burst, out),
            }
        }

        fn stages<const N: usize, E: FibEntry>(&self, v4: &Dir24_8<E>, burst: &mut [Packet], out: &mut Vec<Verdict>) {
            if self.prefetch {
                burst.iter().take(3).for_each(|packet| prefetch(packet.data.as_ptr()));
            }
            let mut rest = burst;
            while !rest.is_empty() {
                let mut lanes = Lanes::<N, E> {
                    fate: [Fate::V4(None); N],
                    v4: Keys { n: 0, at: [0; N], dst: [0; N] },
                    v6: Keys { n: 0, at: [0; N], dst: [0; N] },
                    entry: [E::default(); N],
                };
                self.check(rest, &mut lanes);
                self.look_up_v4(v4, &mut lanes);
                if lanes.v6.n > 0 {
                    self.look_up_v6(&mut lanes);
                }
                let (packets, after) = rest.split_at_mut(rest.len().min(N));
                self.rewrite(packets, &lanes, out);
                rest = after;
            }
        }

        #[inline(always)]
        fn check<const N: usize, E: FibEntry>(&self, rest: &[Packet], lanes: &mut Lanes<N, E>) {
            for (i, packet) in rest.iter().enumerate().take(N) {
                if self.prefetch
                    && let Some(ahead) = rest.get(i + 3)
                {
                    prefetch(ahead.data.as_ptr());
                }
                let checked = match packet.l3 {
                    L3::V4 => self.ipv4(packet),
                    L3::V6 => ipv6(packet),
                    L3::Other => Err(DropReason::NotIp),
                };
                match checked {
                    Ok(Checked::V4(dst)) => lanes.v4.push(i, dst),
                    Ok(Checked::V6(dst)) => lanes.v6.push(i, dst),
                    Err(reason) => lanes.fate[i] = Fate::Drop(reason),
                }
            }
        }

        #[inline(always)]
        fn ipv4(&self, packet: &Packet) -> Result<Checked, DropReason> {
            let at = usize::from(packet.l3_offset);
            let header = packet.data.get(at..).and_then(|h| h.first_chunk::<20>()).ok_or(DropReason::Truncated)?;
            let word = |i: usize| u32::from_ne_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
            let [w0, w1, w2, w3, w4] = [word(0), word(4), word(8), word(12), word(16)];
            let [version_ihl, _, t0, t1] = w0.to_ne_bytes();
            let total = usize::from(u16::from_be_bytes([t0, t1]));
            let header_bytes = usize::from(version_ihl & 15) * 4;
            if version_ihl >> 4 != 4 {
                return Err(DropReason::BadVersion);
            }
            if header_bytes < 20 {
                return Err(DropReason::BadHeaderLength);
            }
            if total < header_bytes || total > (packet.frame_bytes as usize).saturating_sub(at) {
                return Err(DropReason::BadTotalLength);
            }
            match self.checksum {
                ChecksumCheck::Nic => {}
                ChecksumCheck::Software => {
                    let mut sum = [w0, w1, w2, w3, w4].map(u64::from).iter().sum();
                    if header_bytes > 20 {
                        sum += options(packet, header_bytes).ok_or(DropReason::Truncated)?;
                    }
                    if !folds_to_ones(sum) {
                        return Err(DropReason::BadChecksum);
                    }
                }
            }
            let (src, dst) = (u32::from_be(w3), u32::from_be(w4));
            if is_special(src) | is_special(dst) { Err(special(src, dst)) } else { Ok(Checked::V4(dst)) }
        }

        #[inline(always)]
        fn look_up_v4<const N: usize, E: FibEntry>(&self, v4: &Dir24_8<E>, lanes: &mut Lanes<N, E>) {
            if self.prefetch {
                for k in 0..lanes.v4.n.min(N) {
                    v4.prefetch(lanes.v4.get(k).1);
                }
            }
            let mut any = 0;
            for k in 0..lanes.v4.n.min(N) {
                let (i, dst) = lanes.v4.get(k);
                let entry = v4.first(dst);
                any |= entry.bits();
                lanes.entry[k] = entry;
                lanes.fate[i] = Fate::V4(entry.next_hop());
            }
            if any & E::GROUP == 0 {
                return;
            }
            for k in 0..lanes.v4.n.min(N) {
                let (i, dst) = lanes.v4.get(k);
                if let Some((_, entry)) = v4.step(lanes.entry[k], dst, 1) {
                    lanes.fate[i] = Fate::V4(entry.next_hop());
                }
            }
        }

        #[inline(always)]
        fn look_up_v6<const N: usize, E: FibEntry>(&self, lanes: &mut Lanes<N, E>) {
            if self.prefetch {
                for k in 0..lanes.v6.n.min(N) {
                    self.fib.v6.prefetch(lanes.v6.get(k).1);
                }
            }
            let n = lanes.v6.n.min(N);
            let mut entries = [0u32; N];
            for (k, entry) in entries.iter_mut().enumerate().take(n) {
                let (i, dst) = lanes.v6.get(k);
                *entry = self.fib.v6.first(dst);
                lanes.fate[i] = Fate::V6(entry.next_hop());
            }
            for level in 1.. {
                let mut any = 0;
                for (k, latest) in entries.iter_mut().enumerate().take(n) {
                    let (i, dst) = lanes.v6.get(k);
                    if let Some((_, entry)) = self.fib.v6.step(*latest, dst, level) {
                        any |= entry;
                        *latest = entry;
                        lanes.fate[i] = Fate::V6(entry.next_hop());
                    }
                }
                if any & <u32 as FibEntry>::GROUP == 0 {
                    return;
                }
            }
        }

        #[inline(always)]
        fn rewrite<const N: usize, E: FibEntry>(
            &self,
            packets: &mut [Packet],
            lanes: &Lanes<N, E>,
            out: &mut Vec<Verdict>,
        ) {
            out.extend(packets.iter_mut().enumerate().take(N).map(|(i, packet)| match lanes.fate[i] {
                Fate::Drop(reason) => Verdict::Drop(reason),
                Fate::V4(None) | Fate::V6(None) => Verdict::Drop(DropReason::NoRoute),
                Fate::V4(Some(next_hop)) => match decrement_ttl(packet) {
                    Ok(()) => self.send(packet, next_hop),
                    Err(reason) => Verdict::Drop(reason),
                },
                Fate::V6(Some(next_hop)) => match decrement_hop_limit(packet) {
                    Ok(()) => self.send(packet, next_hop),
                    Err(reason) => Verdict::Drop(reason),
                },
            }));
        }

        #[inline(always)]
        fn send(&self, packet: &mut Packet, next_hop: NextHop) -> Verdict {
            let id = next_hop.id() as usize;
            let (Some(adjacency), Some(macs)) = (self.fib.adjacencies.get(id), packet.data.first_chunk_mut::<12>())
            else {
                return Verdict::Drop(DropReason::NoRoute);
            };
            macs[..6].copy_from_slice(&adjacency.dst_mac);
            macs[6..].copy_from_slice(&adjacency.src_mac);
            Verdict::Forward { port: adjacency.port }
        }
    }

    #[inline(always)]
    fn options(packet: &Packet, header_bytes: usize) -> Option<u64> {
        let at = usize::from(packet.l3_offset);
        let options = packet.data.get(at + 20..at + header_bytes)?;
        Some(options.as_chunks::<4>().0.iter().map(|&word| u64::from(u32::from_ne_bytes(word))).sum())
    }

    #[inline(always)]
    fn folds_to_ones(sum: u64) -> bool {
        let sum = (sum & 0xffff_ffff) + (sum >> 32);
        let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
        (sum & 0xffff) + (sum >> 16) == 0xffff
    }

    #[inline(always)]
    fn is_special(addr: u32) -> bool {
        (addr.wrapping_sub(1 << 24) >= 223 << 24) | (addr >> 24 == 127) | (addr >> 16 == 0xa9fe)
    }

    #[cold]
    fn special(src: u32, dst: u32) -> DropReason {
        let link_local = |addr: u32| addr >> 16 == 0xa9fe;
        if is_special(src) && !link_local(src) {
            return DropReason::SourceMartian;
        }
        match dst >> 24 {
            _ if dst == u32::MAX => DropReason::DestinationBroadcast,
            224..240 => DropReason::DestinationMulticast,
            _ if is_special(dst) && !link_local(dst) => DropReason::DestinationMartian,
            _ => DropReason::LinkLocal,
        }
    }

    #[inline(always)]
    fn ipv6(packet: &Packet) -> Result<Checked, DropReason> {
        let at = usize::from(packet.l3_offset);
        let header = packet.data.get(at..).and_then(|h| h.first_chunk::<40>()).ok_or(DropReason::Truncated)?;
        let address = |i: usize| header[i..].first_chunk::<16>().map_or(0, |bytes| u128::from_be_bytes(*bytes));
        let (src, dst) = (address(8), address(24));
        let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if header[0] >> 4 != 6 {
            return Err(DropReason::BadVersion);
        }
        if payload + 40 > (packet.frame_bytes as usize).saturating_sub(at) {
            return Err(DropReason::BadTotalLength);
        }
        let multicast = |addr: u128| addr >> 120 == 0xff;
        let link_local = |addr: u128| addr >> 118 == 0x3fa;
        if src <= 1 || multicast(src) {
            return Err(DropReason::SourceMartian);
        }
        if dst <= 1 {
            return Err(DropReason::DestinationMartian);
        }
        if multicast(dst) {
            return Err(DropReason::DestinationMulticast);
        }
        if link_local(src) || link_local(dst) {
            return Err(DropReason::LinkLocal);
        }
        Ok(Checked::V6(dst))
    }

    #[inline(always)]
    fn decrement_ttl(packet: &mut Packet) -> Result<(), DropReason> {
        let at = usize::from(packet.l3_offset) + 8;
        let word = packet.data.get_mut(at..).and_then(|r| r.first_chunk_mut::<4>()).ok_or(DropReason::Truncated)?;
        *word = ttl::decrement(*word).ok_or(DropReason::TtlExpired)?;
        Ok(())
    }

    #[inline(always)]
    fn decrement_hop_limit(packet: &mut Packet) -> Result<(), DropReason> {
        let hop_limit = packet.data.get_mut(usize::from(packet.l3_offset) + 7).ok_or(DropReason::Truncated)?;
        if *hop_limit <= 1 {
            return Err(DropReason::HopLimitExceeded);
        }
        *hop_limit -= 1;
        Ok(())
    }

    #[inline(always)]
    fn prefetch(address: *const u8) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch does not fault.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
}
