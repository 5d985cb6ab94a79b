//! Packet functions under a warp: the functions that run on cores, a packet a lane, merged by minimum site.

use engine::Seed;
use functions::lookup::{Dir24_8, Dir24Spec, FibEntry, NextHop};
use functions::{Forward, ForwardSpec, LookupMode, PacketFunction, Ttl, Verdict};
use machine::simt::{Code, HermesSpec, LaneRecorder, Merger, SimtSpec, WARP, WarpOperation};
use packet::{Packet, Prefix, internet_checksum};
use probe::{Probe, Ref, RegionId};
use rand::Rng;
use studies::simt::point::Workloads;
use studies::simt::{HermesPreset, SimtApplication, SimtPoint, SimtSystem};
use units::{PacketId, Ps};

/// The program of the lanes that `record` leaves, one call a lane.
fn warp(mut recorder: LaneRecorder, mut record: impl FnMut(usize, &mut LaneRecorder)) -> Code {
    for lane in 0..WARP {
        record(lane, &mut recorder);
        recorder.end_lane();
    }
    let (mut code, all) = (Code::new(), Vec::from_iter(0..WARP as u32));
    Merger::new().merge(&recorder.into_lanes(), &all, &mut code).unwrap();
    code
}

#[test]
fn lookups_of_one_or_two_levels_need_their_latch() {
    let mut routes = vec![(10 << 24, 8, NextHop::from(0))];
    // Of 256 networks, 108 (42 %) have a route of 25 bits.
    let long = |net: u32| net * 108 / 256 != (net + 1) * 108 / 256;
    routes.extend((0..256).filter(|&n| long(n)).map(|n| (10 << 24 | n << 8, 25, NextHop::from(1))));
    let table = Dir24_8::<u16>::new(routes, Dir24Spec::default()).unwrap();
    let efficiency = |latches: bool| {
        let mut rng = Seed(3).stream("lookups");
        let code = warp(LaneRecorder::new(&[]).unwrap(), |_, r| {
            for _ in 0..16 {
                let dst = 10 << 24 | rng.next_u32() & 0xffff;
                let mut entry = table.first(dst);
                r.touch(Ref::load(RegionId(16), Dir24_8::<u16>::tbl24_index(dst) as u64 * 2, 2, 1));
                if let Some((at, found)) = table.step(entry, dst, 1) {
                    r.touch(Ref::load(RegionId(17), at as u64 * 2, 2, 2).after(1));
                    entry = found;
                }
                assert_eq!(entry.next_hop(), table.lookup(dst));
                if latches {
                    r.latch(3);
                }
            }
        });
        code.program(0).efficiency()
    };
    let (with, without) = (efficiency(true), efficiency(false));
    // Both instructions of a body are issued, the second with 42 % of the lanes: (1 + 0.42) / 2.
    assert!((0.69..0.73).contains(&with), "{with}");
    assert!(without < 0.5, "{without}");
}

fn ipv4(dst: [u8; 4]) -> Packet {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut header = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, dst[0], dst[1], dst[2], dst[3]];
    let sum = internet_checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    frame.extend(header);
    frame.resize(60, 0);
    let mut packet = Packet { id: PacketId(0), ..Packet::default() };
    packet.set_frame(&frame, 60);
    packet
}

fn function(mut function: impl PacketFunction, dst: impl Fn(usize) -> [u8; 4]) -> Code {
    let recorder = LaneRecorder::new(&function.regions()).unwrap();
    warp(recorder, |lane, recorder| {
        let mut verdicts = Vec::new();
        function.process_burst(Ps::ZERO, &mut [ipv4(dst(lane))], recorder, &mut verdicts);
        assert!(matches!(verdicts[..], [Verdict::Forward { .. }]));
    })
}

fn forward() -> Forward {
    let route = |addr, len, id| (Prefix::V4 { addr, len }, NextHop::from(id));
    let network = 198 << 24 | 18 << 16;
    let routes = [route(network, 16, 0u16), route(network | 1 << 8 | 128, 25, 1)];
    let spec = ForwardSpec { prefetch: false, lookup: LookupMode::Single, ..ForwardSpec::default() };
    Forward::new(routes.into_iter(), 2, &spec).unwrap()
}

#[test]
fn uniform_control_flow_reads_full_simd_efficiency() {
    assert_eq!(function(Ttl::new(2), |lane| [198, 18, 0, lane as u8]).program(0).efficiency(), 1.0);
    for third in [0, 1] {
        let code = function(forward(), |lane| [198, 18, third, 128 + lane as u8]);
        assert_eq!(code.program(0).efficiency(), 1.0, "{third}");
    }
}

#[test]
fn forwarding_diverges_only_at_the_second_level() {
    let code = function(forward(), |lane| [198, 18, lane as u8 % 2, 128]);
    let partial: Vec<_> = code.insts(0).iter().filter(|i| i.mask != u32::MAX).collect();
    // The load of the second level, and the work behind it: every second lane.
    assert!(!partial.is_empty() && partial.iter().all(|i| i.mask == 0xaaaa_aaaa), "{partial:?}");
    assert_eq!(partial.iter().filter(|i| i.kind == WarpOperation::Load).count(), 1);
}

/// A point of few packets.
fn point(application: SimtApplication, change: impl FnOnce(&mut SimtSpec, &mut HermesSpec)) -> SimtPoint {
    let mut preset = HermesPreset::named("hermes").unwrap();
    change(&mut preset.gpu, &mut preset.hermes);
    let text = serde_json::json!({
        "workload": {
            "application": application.name(),
            "kernel": { "registers": 16, "shared": 0 },
            "packets": 64,
            "routes": { "prefixes": 1000, "next_hops": 8 },
            "rules": { "count": 20 },
            "strings": { "count": 20, "depth": 64 },
            "fragment": { "mtu": 576 },
        },
        "gpu": preset.gpu,
        "system": SimtSystem::Hermes(preset.hermes),
        "load": { "packets": "100 Mpps" },
        "arrivals": "poisson",
        "packets": 640,
        "runs": 2,
        "seed": 5,
    });
    SimtPoint::read(&text.to_string()).unwrap()
}

#[test]
fn every_application_runs_and_its_delay_is_the_sum_of_its_parts() {
    let all = [
        SimtApplication::CheckHeader,
        SimtApplication::Lookup,
        SimtApplication::DecTtl,
        SimtApplication::Forward,
        SimtApplication::Classify,
        SimtApplication::ClassifyTupleSpace,
        SimtApplication::Inspect,
        SimtApplication::InspectAhoCorasick,
        SimtApplication::Fragment,
    ];
    let shared = Workloads::default();
    for application in all {
        let found = point(application, |_, _| ()).run(&shared, &mut || true).unwrap().unwrap();
        let of = |name: &str| found[name]["value"].as_f64().unwrap();
        let parts: f64 = ["fill_ns", "queue_ns", "copy_in_ns", "execute_ns", "commit_ns"].iter().map(|p| of(p)).sum();
        assert!((parts - of("delay_ns")).abs() < 1e-6 * parts, "{application:?}");
        assert!((0.05..=1.0).contains(&of("simd_efficiency")), "{application:?} {}", of("simd_efficiency"));
        assert!(of("instructions_per_warp") > 20.0 && of("throughput_gbps") > 0.0, "{application:?}");
        assert_eq!(of("loss_buffer_full"), 0.0);
    }
}

#[test]
fn points_that_cannot_be_are_refused_with_their_place() {
    let text = |change: fn(&mut serde_json::Value)| {
        let mut value = serde_json::to_value(point(SimtApplication::DecTtl, |_, _| ())).unwrap();
        change(&mut value);
        SimtPoint::read(&value.to_string()).unwrap_err().to_string()
    };
    assert!(text(|v| v["gpu"]["cores"] = 0.into()).contains("gpu.cores = 0"));
    assert!(text(|v| v["packets"] = 0.into()).contains("packets"));
    assert!(text(|v| v["gpu"]["corse"] = 1.into()).contains("gpu"));
    assert!(text(|v| v["workload"]["kernel"]["registers"] = 600.into()).contains("600 registers"));
    assert!(text(|v| v["workload"]["application"] = "dpi".into()).contains("workload.application"));
}

#[test]
fn a_seed_gives_the_same_outcome() {
    let run = || point(SimtApplication::Lookup, |_, _| ()).run(&Workloads::default(), &mut || true).unwrap().unwrap();
    assert_eq!(run(), run());
}

/// A chain in one kernel: what its functions take sums to what the whole takes, and each one's instructions are those that it
/// takes alone where all packets come to it.
#[test]
fn a_chain_tells_what_each_function_takes_and_the_sums_are_the_whole() {
    let members =
        [SimtApplication::CheckHeader, SimtApplication::Inspect, SimtApplication::Lookup, SimtApplication::DecTtl];
    let shared = Workloads::default();
    let batch = |point: &mut SimtPoint| {
        let link = "64 Gbps";
        let batch = serde_json::json!({ "batch": {
            "packets": 128, "block": 8, "overlap": "nothing", "results": "frames", "link": link, "copy": "10 us",
            "launch": "5 us", "buffer": { "size": "1 MiB", "slot": "2 KiB", "nic": true },
        }});
        point.system = serde_json::from_value(batch).unwrap();
    };
    for is_batch in [false, true] {
        let with = |first: SimtApplication, then: &[SimtApplication]| {
            let mut point = point(first, |_, _| ());
            point.workload.then = then.to_vec();
            if is_batch {
                batch(&mut point);
            }
            point.run(&shared, &mut || true).unwrap().unwrap()
        };
        let chain = with(members[0], &members[1..]);
        let of = |found: &serde_json::Value, name: &str| found[name]["value"].as_f64().unwrap();
        let shares = chain["members"].as_array().unwrap();
        let names: Vec<_> = shares.iter().map(|share| share["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["check_header", "inspect", "lookup", "dec_ttl"]);
        let sum = |name: &str| shares.iter().map(|share| of(share, name)).sum::<f64>();
        let equal = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * a.max(b), "{a} {b}");
        // Of the warps that were resident, which each core counts apart.
        equal(sum("time_share"), 1.0);
        equal(sum("instructions_per_warp"), of(&chain, "instructions_per_warp"));
        equal(sum("sectors_per_warp"), of(&chain, "sectors_per_warp"));
        let lanes: f64 = shares.iter().map(|s| of(s, "instructions_per_warp") * of(s, "simd_efficiency")).sum();
        assert!((lanes / of(&chain, "instructions_per_warp") / of(&chain, "simd_efficiency") - 1.0).abs() < 0.01);
        for share in shares {
            assert!(of(share, "time_share") > 0.0 && of(share, "references_per_warp") > 0.0, "{share}");
            assert!(
                of(share, "packets_share") <= 1.0 && of(share, "clocks_per_warp") > of(share, "instructions_per_warp")
            );
        }
        // The header check comes first: it does what it does alone. Of the others a chain lets fewer packets come, and all of
        // these are among those that came before.
        let alone = with(members[0], &[]);
        assert!(alone.get("members").is_none(), "one function has no shares");
        equal(of(&shares[0], "instructions_per_warp"), of(&alone, "instructions_per_warp"));
        equal(of(&shares[0], "sectors_per_warp"), of(&alone, "sectors_per_warp"));
        equal(of(&shares[0], "packets_share"), 1.0);
        // Inspection reads payloads, a byte at a time.
        let inspect = of(&shares[1], "time_share");
        assert!(inspect > 0.9 && shares.iter().all(|share| of(share, "time_share") <= inspect), "{inspect}");
    }
}

#[test]
fn chains_that_cannot_be_are_refused() {
    let error = |first, then: &[SimtApplication]| {
        let mut point = point(first, |_, _| ());
        point.workload.then = then.to_vec();
        point.run(&Workloads::default(), &mut || true).unwrap_err().to_string()
    };
    let refused = error(SimtApplication::Fragment, &[SimtApplication::DecTtl]);
    assert!(refused.contains("workload.then") && refused.contains("fragment as the last"), "{refused}");
    let refused = error(SimtApplication::DecTtl, &[SimtApplication::DecTtl; 6]);
    assert!(refused.contains("6 applications: allowed is up to 5"), "{refused}");
}

#[test]
fn functions_of_a_chain_are_told_apart_by_the_sites_that_chains_give_them() {
    assert_eq!(machine::simt::SITES_A_MEMBER, functions::chain::SITES_A_MEMBER);
}
