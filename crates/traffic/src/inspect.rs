//! What is in a capture: sizes, rates, flows, destinations, popularity, locality, damage.
//!
//! One pass, bounded memory. Distinct flows, sources and destinations are counted exactly up to
//! [`EXACT_LIMIT`] each and by HyperLogLog (Flajolet et al., AofA 2007; 2^14 registers, standard
//! error 0.8 %) beyond, and say so. Popularity is then that of those seen first. Sizes are original
//! frame lengths without check sequence, as captures count them. Flows, addresses and protocols are
//! those of the outer IP header.

mod count;
mod fit;
mod stack;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::Path;

use packet::{FiveTuple, L3, Malformed, PROTO_ICMP, PROTO_ICMPV6, PROTO_TCP, PROTO_UDP, Packet, layers};
use serde::Serialize;
use units::Ps;

use crate::arrivals::ArrivalSpec;
use crate::capture::{Capture, CaptureFormat, Gaps};
use crate::damage::Damage;
use crate::error::TrafficError;
use crate::flows::{DestinationSpec, FlowSpec, Popularity};
use crate::input::Compression;
use crate::link::link_name;
use crate::profile::{MixSpec, ProfileSpec};
use crate::sizes::{LONGEST, SHORTEST, SizeBin, SizeSpec};

pub use count::{Distinct, EXACT_LIMIT};
pub use fit::PopularityFit;

use count::SeenTally;
use stack::LruStack;

/// Cache sizes for which [`Inspection::destination_lru_hits`] tells the share of hits.
pub const LRU_SIZES: [usize; 7] = [16, 64, 256, 1024, 4096, 16_384, 65_536];

const GTP_U_PORT: u16 = 2152;
const PFCP_PORT: u16 = 8805;
const FCS: u32 = 4;
/// Sizes with at least this share of the packets have a bin of their own in the histogram.
const OWN_BIN_SHARE: f64 = 0.005;
/// The other sizes are put together up to these.
const BIN_ENDS: [u32; 12] = [63, 127, 191, 255, 319, 383, 511, 639, 767, 1023, 1279, 1535];
/// Sizes are counted one by one up to here; longer ones (offload aggregates) together.
const COUNTED_SIZES: usize = 9_601;

/// What [`inspect`] has found.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// The capture's name.
    pub name: String,
    /// The format.
    pub format: CaptureFormat,
    /// The compression.
    pub compression: Compression,
    /// Records by link type.
    pub link_types: BTreeMap<String, u64>,
    /// Records that were whole.
    pub records: u64,
    /// Packets that could be used.
    pub packets: u64,
    /// Original bytes of all frames.
    pub bytes: u64,
    /// Mean original bytes of a frame.
    pub mean_bytes: f64,
    /// The share of those bytes that the capture has kept.
    pub captured_share: f64,
    /// Why the timestamps make no sense as one clock; [`None`] if they do. There are no times and rates then.
    pub timestamps: Option<String>,
    /// From the first packet to the last, in seconds; [`None`] without usable timestamps.
    pub duration_s: Option<f64>,
    /// Rates; [`None`] if the capture has no usable timestamps.
    pub rates: Option<CaptureRates>,
    /// Packets by size class.
    pub size_classes: SizeClasses,
    /// Packets by size: sizes with 0.5 % of the packets or more on their own, the others in ranges.
    pub sizes: Vec<SizeCount>,
    /// IPv4 packets.
    pub ipv4: u64,
    /// IPv6 packets.
    pub ipv6: u64,
    /// Packets that are not IP.
    pub not_ip: u64,
    /// Packets with an IP header that makes no sense, by what is wrong.
    pub malformed: BTreeMap<String, u64>,
    /// Packets by protocol.
    pub protocols: BTreeMap<String, u64>,
    /// Fragments, first ones included.
    pub fragments: u64,
    /// Packets with a VLAN tag.
    pub vlan: u64,
    /// Packets with an MPLS label.
    pub mpls: u64,
    /// Packets from or to UDP port 2152.
    pub gtp_u: u64,
    /// Packets from or to UDP port 8805.
    pub pfcp: u64,
    /// Different five-tuples.
    pub flows: Distinct,
    /// Different destination addresses.
    pub destinations: Distinct,
    /// Different source addresses.
    pub sources: Distinct,
    /// Zipf's law fitted to the packets of flows.
    pub flow_popularity: Option<PopularityFit>,
    /// Zipf's law fitted to the packets of destinations.
    pub destination_popularity: Option<PopularityFit>,
    /// Zipf's law fitted to the flows of destinations.
    pub flows_per_destination: Option<PopularityFit>,
    /// Of the IP packets, the share whose destination is among the `n` used last, for each `n` of
    /// [`LRU_SIZES`]: hits of a fully associative LRU cache of destinations that starts empty.
    pub destination_lru_hits: Vec<(usize, f64)>,
    /// Share of TCP among the flows.
    pub tcp_flow_share: f64,
    /// Share of IPv6 among the destinations.
    pub ipv6_destination_share: f64,
    /// Steps back in time of up to a second.
    pub disordered: u64,
    /// Steps back in time of more than a second.
    pub clock_jumps: u64,
    /// Damage.
    pub damage: Damage,
}

/// Rates of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CaptureRates {
    /// Million packets a second over the whole capture.
    pub mean_mpps: f64,
    /// Gigabits a second over the whole capture, L1.
    pub mean_gbps: f64,
    /// The most in a window of 1 ms, in million packets a second.
    pub peak_1ms_mpps: f64,
    /// The most in a window of 1 ms, in gigabits a second, L1.
    pub peak_1ms_gbps: f64,
    /// The most in a window of 10 ms, in million packets a second.
    pub peak_10ms_mpps: f64,
    /// The most in a window of 10 ms, in gigabits a second, L1.
    pub peak_10ms_gbps: f64,
}

/// Packets by original size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SizeClasses {
    /// Up to 64 bytes.
    pub to_64: u64,
    /// 65 to 576 bytes.
    pub to_576: u64,
    /// 577 to 1,499 bytes.
    pub to_1499: u64,
    /// 1,500 bytes and more.
    pub above: u64,
}

/// Packets of a size or a range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeCount {
    /// The smallest.
    pub from: u32,
    /// The largest.
    pub to: u32,
    /// How many packets.
    pub packets: u64,
}

/// Reads a capture file to its end and measures it.
///
/// # Errors
/// As [`Capture::open`].
pub fn inspect_file(path: impl AsRef<Path>) -> Result<Inspection, TrafficError> {
    Ok(inspect(Capture::open(path)?))
}

/// Reads a capture to its end and measures it.
pub fn inspect(mut capture: Capture) -> Inspection {
    let mut seen = CaptureCounts::default();
    let mut packet = Packet::default();
    while capture.next(&mut packet) {
        seen.packet(&packet);
    }
    seen.finish(&capture)
}

struct CaptureCounts {
    packets: u64,
    bytes: u64,
    wire_bytes: u64,
    stored: u64,
    gaps: Gaps,
    short: Window,
    long: Window,
    classes: SizeClasses,
    sizes: Vec<u64>,
    longest: u32,
    ipv4: u64,
    ipv6: u64,
    not_ip: u64,
    malformed: HashMap<Malformed, u64>,
    protocols: [u64; 256],
    fragments: u64,
    vlan: u64,
    mpls: u64,
    gtp_u: u64,
    pfcp: u64,
    flows: SeenTally<FiveTuple>,
    destinations: SeenTally<IpAddr>,
    sources: SeenTally<IpAddr>,
    stack: LruStack,
}

impl Default for CaptureCounts {
    fn default() -> CaptureCounts {
        CaptureCounts {
            packets: 0,
            bytes: 0,
            wire_bytes: 0,
            stored: 0,
            gaps: Gaps::default(),
            short: Window::new(Ps(1_000_000_000)),
            long: Window::new(Ps(10_000_000_000)),
            classes: SizeClasses::default(),
            sizes: vec![0; COUNTED_SIZES + 1],
            longest: 0,
            ipv4: 0,
            ipv6: 0,
            not_ip: 0,
            malformed: HashMap::new(),
            protocols: [0; 256],
            fragments: 0,
            vlan: 0,
            mpls: 0,
            gtp_u: 0,
            pfcp: 0,
            flows: SeenTally::default(),
            destinations: SeenTally::default(),
            sources: SeenTally::default(),
            stack: LruStack::new(&LRU_SIZES),
        }
    }
}

impl CaptureCounts {
    fn packet(&mut self, packet: &Packet) {
        let size = packet.frame_bytes;
        self.packets += 1;
        self.bytes += u64::from(size);
        self.wire_bytes += packet.wire_bytes();
        self.stored += packet.data.len() as u64;
        self.gaps.see(packet.arrival);
        self.short.add(packet);
        self.long.add(packet);
        match size {
            0..=64 => self.classes.to_64 += 1,
            65..=576 => self.classes.to_576 += 1,
            577..=1499 => self.classes.to_1499 += 1,
            _ => self.classes.above += 1,
        }
        self.sizes[(size as usize).min(COUNTED_SIZES)] += 1;
        self.longest = self.longest.max(size);
        let (vlan, mpls) = tags(&packet.data);
        self.vlan += u64::from(vlan);
        self.mpls += u64::from(mpls);
        let layers = match layers(&packet.data) {
            Ok(layers) => layers,
            Err(Malformed::NotIp) => {
                self.not_ip += 1;
                return;
            }
            Err(malformed) => {
                *self.malformed.entry(malformed).or_default() += 1;
                return;
            }
        };
        match layers.l3 {
            L3::V6 => self.ipv6 += 1,
            _ => self.ipv4 += 1,
        }
        let flow = layers.five_tuple;
        self.fragments += u64::from(layers.fragment);
        self.protocols[usize::from(flow.proto)] += 1;
        if flow.proto == PROTO_UDP {
            let on = |port| u64::from(flow.src_port == port || flow.dst_port == port);
            self.gtp_u += on(GTP_U_PORT);
            self.pfcp += on(PFCP_PORT);
        }
        self.flows.add(flow);
        self.sources.add(flow.src);
        if let Some(number) = self.destinations.add(flow.dst) {
            self.stack.touch(number);
        } else {
            self.stack.miss();
        }
    }

    fn finish(self, capture: &Capture) -> Inspection {
        let report = capture.report();
        let share = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
        let duration_s = self.gaps.last.as_secs();
        let trouble = capture.clock_trouble(&self.gaps);
        let rates = trouble.is_none().then(|| CaptureRates {
            mean_mpps: self.packets as f64 / duration_s / 1e6,
            mean_gbps: self.wire_bytes as f64 * 8.0 / duration_s / 1e9,
            peak_1ms_mpps: self.short.peak_mpps(),
            peak_1ms_gbps: self.short.peak_gbps(),
            peak_10ms_mpps: self.long.peak_mpps(),
            peak_10ms_gbps: self.long.peak_gbps(),
        });
        let mut to: HashMap<IpAddr, u64> = HashMap::new();
        let mut tcp = 0u64;
        for flow in self.flows.keys() {
            *to.entry(flow.dst).or_default() += 1;
            tcp += u64::from(flow.proto == PROTO_TCP);
        }
        let v6 = self.destinations.keys().filter(|d| d.is_ipv6()).count() as u64;
        let protocols = self.protocols.iter().zip(0..=u8::MAX).filter(|(n, _)| **n > 0);
        Inspection {
            name: capture.name().into(),
            format: report.format,
            compression: report.compression,
            link_types: report.link_types.iter().map(|(&link, &n)| (link_name(link), n)).collect(),
            records: report.records,
            packets: self.packets,
            bytes: self.bytes,
            mean_bytes: self.bytes as f64 / self.packets.max(1) as f64,
            captured_share: share(self.stored, self.bytes),
            duration_s: trouble.is_none().then_some(duration_s),
            timestamps: trouble.map(|trouble| format!("make no sense as one clock: {trouble}")),
            rates,
            size_classes: self.classes,
            sizes: size_counts(&self.sizes, self.packets, self.longest),
            ipv4: self.ipv4,
            ipv6: self.ipv6,
            not_ip: self.not_ip,
            malformed: self.malformed.iter().map(|(what, &n)| (what.to_string(), n)).collect(),
            protocols: protocols.map(|(&n, proto)| (protocol_name(proto), n)).collect(),
            fragments: self.fragments,
            vlan: self.vlan,
            mpls: self.mpls,
            gtp_u: self.gtp_u,
            pfcp: self.pfcp,
            tcp_flow_share: share(tcp, self.flows.keys().count() as u64),
            ipv6_destination_share: share(v6, self.destinations.keys().count() as u64),
            flow_popularity: PopularityFit::of(self.flows.counts()),
            destination_popularity: PopularityFit::of(self.destinations.counts()),
            flows_per_destination: PopularityFit::of(to.into_values().collect()),
            flows: self.flows.distinct(),
            destinations: self.destinations.distinct(),
            sources: self.sources.distinct(),
            destination_lru_hits: self.stack.hit_shares(),
            disordered: report.disordered,
            clock_jumps: report.clock_jumps,
            damage: report.damage.clone(),
        }
    }
}

impl Inspection {
    /// A profile of traffic like the capture's: its sizes, its flows and destinations with the
    /// fitted popularity, its protocols. Arrivals are Poisson; flows live for ever; the order of
    /// packets (trains of one flow) is not kept.
    pub fn profile(&self) -> ProfileSpec {
        let fitted = |fit: &Option<PopularityFit>| match fit {
            Some(fit) => Popularity::Zipf((fit.zipf * 1000.0).round() / 1000.0),
            None => Popularity::Uniform,
        };
        let frame = |bytes: u32| (bytes + FCS).clamp(SHORTEST, LONGEST);
        let bins = self.sizes.iter().map(|bin| {
            let (from, to) = (frame(bin.from), frame(bin.to));
            let share = (bin.packets as f64 / self.packets.max(1) as f64 * 1e6).round() / 1e6;
            SizeBin { bytes: from, to: (to > from).then_some(to), share }
        });
        ProfileSpec {
            arrivals: ArrivalSpec::Poisson,
            sizes: SizeSpec::Histogram(bins.collect()),
            mix: MixSpec { tcp: self.tcp_flow_share, ipv6: self.ipv6_destination_share },
            flows: FlowSpec {
                count: self.flows.count.max(1),
                popularity: fitted(&self.flow_popularity),
                new_share: 0.0,
                destinations: DestinationSpec {
                    count: Some(self.destinations.count.max(1)),
                    popularity: fitted(&self.flows_per_destination),
                    ..Default::default()
                },
            },
        }
    }
}

/// The busiest of consecutive windows of one length.
struct Window {
    length: Ps,
    index: u64,
    packets: u64,
    bytes: u64,
    peak_packets: u64,
    peak_bytes: u64,
}

impl Window {
    fn new(length: Ps) -> Window {
        Window { length, index: 0, packets: 0, bytes: 0, peak_packets: 0, peak_bytes: 0 }
    }

    fn add(&mut self, packet: &Packet) {
        let index = packet.arrival.0 / self.length.0;
        if index != self.index {
            (self.index, self.packets, self.bytes) = (index, 0, 0);
        }
        self.packets += 1;
        self.bytes += packet.wire_bytes();
        self.peak_packets = self.peak_packets.max(self.packets);
        self.peak_bytes = self.peak_bytes.max(self.bytes);
    }

    fn peak_mpps(&self) -> f64 {
        self.peak_packets as f64 / self.length.as_secs() / 1e6
    }

    fn peak_gbps(&self) -> f64 {
        self.peak_bytes as f64 * 8.0 / self.length.as_secs() / 1e9
    }
}

/// Whether there is a VLAN tag, and an MPLS label, in front of the network header.
fn tags(data: &[u8]) -> (bool, bool) {
    let mut vlan = false;
    let mut at = 12;
    while let Some(&[a, b]) = data.get(at..at + 2) {
        match u16::from_be_bytes([a, b]) {
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => (vlan, at) = (true, at + 4),
            ethertype => return (vlan, matches!(ethertype, 0x8847 | 0x8848)),
        }
    }
    (vlan, false)
}

fn protocol_name(proto: u8) -> String {
    match proto {
        PROTO_ICMP => "ICMP".into(),
        2 => "IGMP".into(),
        4 => "IP in IP".into(),
        PROTO_TCP => "TCP".into(),
        PROTO_UDP => "UDP".into(),
        41 => "IPv6 in IP".into(),
        47 => "GRE".into(),
        50 => "ESP".into(),
        51 => "AH".into(),
        PROTO_ICMPV6 => "ICMPv6".into(),
        89 => "OSPF".into(),
        132 => "SCTP".into(),
        n => format!("protocol {n}"),
    }
}

fn size_counts(sizes: &[u64], packets: u64, longest: u32) -> Vec<SizeCount> {
    let mut all: Vec<SizeCount> = Vec::new();
    let own = |n: u64| n as f64 >= packets as f64 * OWN_BIN_SHARE;
    let mut ends = BIN_ENDS.iter().copied().chain([COUNTED_SIZES as u32 - 1]).peekable();
    let mut range: Option<SizeCount> = None;
    for (size, &n) in (0u32..).zip(&sizes[..COUNTED_SIZES]) {
        while ends.peek().is_some_and(|&end| end < size) {
            ends.next();
            all.extend(range.take());
        }
        if n == 0 {
            continue;
        }
        if own(n) {
            all.extend(range.take());
            all.push(SizeCount { from: size, to: size, packets: n });
        } else {
            let range = range.get_or_insert(SizeCount { from: size, to: size, packets: 0 });
            range.to = size;
            range.packets += n;
        }
    }
    all.extend(range);
    if sizes[COUNTED_SIZES] > 0 {
        all.push(SizeCount { from: COUNTED_SIZES as u32, to: longest, packets: sizes[COUNTED_SIZES] });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Load, Source, SourceSpec};
    use units::{PacketRate, Quantity};

    /// A pcap of made traffic, with nanoseconds.
    fn pcap_of(spec: &SourceSpec, mpps: f64, n: usize) -> Vec<u8> {
        let mut source = Source::new(spec, 4, &Load::Packets(PacketRate::new(mpps)), None).unwrap();
        let mut out =
            [&0xa1b2_3c4du32.to_le_bytes()[..], &[2, 0, 4, 0], &[0; 8], &[0, 0, 4, 0], &[1, 0, 0, 0]].concat();
        let mut packet = Packet::default();
        for _ in 0..n {
            source.next(&mut packet);
            let ns = packet.arrival.0 / 1000;
            for field in [ns / 1_000_000_000, ns % 1_000_000_000, packet.data.len() as u64, packet.frame_bytes.into()] {
                out.extend_from_slice(&(field as u32).to_le_bytes());
            }
            out.extend_from_slice(&packet.data);
        }
        out
    }

    fn spec(text: &str) -> SourceSpec {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn made_traffic_is_measured_as_it_was_specified() {
        let made = spec(
            "arrivals = \"fixed\"\nsizes = \"imix\"\nmix = { tcp = 0.7 }\n\
             flows = { count = 500, popularity = { zipf = 0.9 }, destinations = { count = 100 } }",
        );
        let seen = inspect(Capture::from_bytes(pcap_of(&made, 2.0, 200_000), "made").unwrap());
        assert_eq!((seen.packets, seen.ipv4, seen.not_ip), (200_000, 200_000, 0));
        assert_eq!((seen.flows.count, seen.destinations.count, seen.flows.exact), (500, 100, true));
        assert!((seen.tcp_flow_share - 0.7).abs() < 0.07);
        let rates = seen.rates.unwrap();
        for mpps in [rates.mean_mpps, rates.peak_1ms_mpps, rates.peak_10ms_mpps] {
            assert!((mpps - 2.0).abs() < 0.002, "{rates:?}");
        }
        assert!((rates.mean_gbps / (2e6 * 381.83 * 8.0 / 1e9) - 1.0).abs() < 0.01, "{rates:?}");
        let fit = seen.flow_popularity.unwrap();
        assert!((fit.zipf - 0.9).abs() < 0.02 && fit.ks < 0.01, "{fit:?}");
        let sizes: Vec<u32> = seen.sizes.iter().map(|s| s.from).collect();
        assert_eq!(sizes, [60, 590, 1514]);
    }

    #[test]
    fn a_profile_of_made_traffic_makes_traffic_like_it() {
        let made = spec("flows = { count = 2000, popularity = { zipf = 1.1 }, destinations = { count = 700 } }");
        let first = inspect(Capture::from_bytes(pcap_of(&made, 1.0, 100_000), "first").unwrap());
        let profile = first.profile();
        let again = SourceSpec {
            arrivals: Some(profile.arrivals.clone()),
            sizes: Some(profile.sizes.clone()),
            mix: Some(profile.mix),
            flows: Some(profile.flows.clone()),
            ..Default::default()
        };
        let second = inspect(Capture::from_bytes(pcap_of(&again, 1.0, 100_000), "second").unwrap());
        assert!((second.mean_bytes / first.mean_bytes - 1.0).abs() < 0.02);
        let (a, b) = (first.flow_popularity.unwrap(), second.flow_popularity.unwrap());
        assert!((a.zipf - b.zipf).abs() < 0.03, "{a:?} {b:?}");
        assert_eq!(ProfileSpec::parse(&profile.to_toml(), "p").unwrap(), profile);
    }

    #[test]
    fn timestamps_that_are_no_clock_give_no_times_and_their_reason_as_a_run_does() {
        let days = 86_400;
        let capture = |seconds: &[u32]| {
            let mut out =
                [&0xa1b2_3c4du32.to_le_bytes()[..], &[2, 0, 4, 0], &[0; 8], &[0, 0, 4, 0], &[1, 0, 0, 0]].concat();
            for &at in seconds {
                out.extend([at, 0, 60, 60].map(u32::to_le_bytes).concat());
                out.extend([[2; 12].as_slice(), &[8, 0], &[0; 46]].concat());
            }
            out
        };
        for (seconds, why) in [
            (&[0, 0, 0][..], "all of them are 0"),
            (&[7, 7, 7], "all of them are the same"),
            (&[7], "one packet has no rate"),
            (&[100, 101, 102, 50], "1 steps back of more than a second"),
            // An enterprise's capture, joined of parts: 2004 to 2021.
            (&[0, 6 * days * 365, 11 * days * 365, 17 * days * 365], "they span 17.0 years"),
            (&[0, 1, 2, 3, 100], "one gap of 97.000 s is more than half of all the time, 100.000 s"),
        ] {
            let seen = inspect(Capture::from_bytes(capture(seconds), "t").unwrap());
            let expected = format!("make no sense as one clock: {why}");
            assert_eq!(seen.timestamps.as_deref(), Some(expected.as_str()), "{seconds:?}");
            assert!(seen.duration_s.is_none() && seen.rates.is_none(), "{seconds:?}");
            let file = std::env::temp_dir().join(format!("wirespeed-clock-{}.pcap", std::process::id()));
            std::fs::write(&file, capture(seconds)).unwrap();
            let replayed = SourceSpec { capture: Some(file.clone()), ..Default::default() };
            let notes = crate::Blueprint::new(&replayed, None).unwrap().notes().to_vec();
            std::fs::remove_file(file).unwrap();
            assert!(notes.iter().any(|note| note.contains(&format!("as one clock, {why}: packets"))), "{notes:?}");
        }
        let sound = inspect(Capture::from_bytes(capture(&[5, 6, 7]), "t").unwrap());
        assert_eq!((sound.timestamps, sound.duration_s), (None, Some(2.0)));
    }

    #[test]
    fn tags_are_told_apart() {
        let frame = |types: &[u8]| [&[0; 12][..], types, &[0; 20]].concat();
        assert_eq!(tags(&frame(&[8, 0])), (false, false));
        assert_eq!(tags(&frame(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0])), (true, false));
        assert_eq!(tags(&frame(&[0x81, 0, 0, 1, 0x88, 0x47])), (true, true));
        assert_eq!(tags(&[0; 13]), (false, false));
    }
}
