//! The kernels' packet functions do what those of `functions` do: verdicts, bytes, and references, packet by packet. Where the
//! captures and tables of `shared/data` are missing the tests say so and use made ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::options::options;
use functions::chain::SITES_A_MEMBER;
use functions::classify::RuleSearch;
use functions::inspect::{Method, Pattern};
use functions::lookup::Structure;
use functions::{
    ChecksumCheck, ClassifySpec, DropReason, Forward, ForwardSpec, Function, Inspect, InspectSpec, Lookup, LookupMode,
    NextHop, PacketFunction, Verdict,
};
use packet::{Packet, Prefix, internet_checksum};
use probe::{ProbeEvent, Record, RegionId};
use proptest::prelude::*;
use router::layout::{REGIONS_A_MEMBER, Touch};
use router::persistent::KernelSetup;
use router::{Backend, Commit, CpuThreads, Lowering, Persistent, RouterProgram, RunToCompletion, Twin};
use traffic::{Capture, FilterRules, PatternSelection, SignatureStrings, Table, UpdateKind};
use units::{LINE_BYTES, PacketId, Ps};

const BURST: usize = 64;
/// More than a packet makes on average: a classifier looks at each of a thousand rules, once or twice; an inspection at some
/// thousand bytes, a few times each.
const REFERENCES: usize = 16_384;
/// Places of references in `functions` that the lowering answers from a register: the word of the time to live, which it has
/// from the header check, and the hop limit. See DEVIATIONS.md.
const IN_REGISTERS: [u16; 2] = [42, 44];

fn shared(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(folder)
}

fn files(folder: &str) -> Vec<PathBuf> {
    let Ok(listed) = std::fs::read_dir(shared(folder)) else {
        println!("skipped: no shared/data/{folder}");
        return Vec::new();
    };
    let mut files: Vec<_> = listed.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

fn table() -> Table {
    let path = shared("tables/full_table_v4v6.txt.gz");
    match path.exists() {
        true => Table::open(path).unwrap(),
        false => {
            println!("no full table in shared/data: a made one takes its place");
            Table::synthetic(1, 200_000, 500)
        }
    }
}

fn forward(table: &Table, checksum: ChecksumCheck, entry_bytes: u8) -> Forward {
    let routes = table
        .routes
        .iter()
        .enumerate()
        .filter_map(|(i, route)| Some((route.prefix, NextHop::new(route.next_hop.unwrap_or(i as u32) % 30_000)?)));
    let spec = ForwardSpec {
        entry_bytes: Some(entry_bytes),
        prefetch: false,
        lookup: LookupMode::Single,
        checksum,
        ..ForwardSpec::default()
    };
    Forward::new(routes, 4, &spec).unwrap()
}

type Lines = BTreeMap<(RegionId, u64), u32>;

fn add(lines: &mut Lines, region: RegionId, offset: u64, bytes: u16) {
    for line in offset / LINE_BYTES..=(offset + u64::from(bytes) - 1) / LINE_BYTES {
        *lines.entry((region, line)).or_default() += 1;
    }
}

/// The number that kernels have for a region of that name: functions alone number their regions in their own way.
fn region_of(name: &str) -> RegionId {
    let tables = [
        &["tbl24", "tbl8", "tbl24_v6", "tbl8_v6", "next_hops"][..],
        &["classify_rules"],
        &["classify_tuples", "classify_buckets", "classify_entries"],
        &[
            "inspect_patterns",
            "inspect_root",
            "inspect_states",
            "inspect_wide_states",
            "inspect_outputs",
            "inspect_lists",
        ],
        &["inspect_patterns", "inspect_filters", "inspect_buckets", "inspect_entries"],
        &[
            "poptrie_direct",
            "poptrie_nodes",
            "poptrie_leaves",
            "poptrie_direct_v6",
            "poptrie_nodes_v6",
            "poptrie_leaves_v6",
        ],
        &["fragment_parts"],
    ];
    let at = tables.iter().find_map(|tables| tables.iter().position(|&table| table == name));
    RegionId(RegionId::FIRST_TABLE.0 + at.unwrap_or_else(|| panic!("kernels have no region {name}")) as u16)
}

/// What kernels call the regions of a function, or of a chain's members one behind the other.
fn named(function: &Function) -> BTreeMap<RegionId, RegionId> {
    let all = function.regions();
    let Function::Chain(chain) = function else {
        return all.iter().map(|region| (region.id, region_of(&region.name))).collect();
    };
    let (mut named, mut rest) = (BTreeMap::new(), all.iter());
    for (member, function) in (0..).zip(chain.members()) {
        for (own, region) in function.regions().iter().zip(rest.by_ref()) {
            named.insert(region.id, RegionId(region_of(&own.name).0 + member * REGIONS_A_MEMBER));
        }
    }
    named
}

/// By packet, how often each line is touched, but for the mbuf and for what the lowering has in registers.
fn lines_of_function(function: &Function, record: &Record, packets: usize) -> Vec<Lines> {
    let named = named(function);
    let (mut lines, mut packet) = (vec![Lines::new(); packets], None);
    for event in record.iter() {
        match event {
            ProbeEvent::Begin(id) => packet = Some(id.0 as usize),
            ProbeEvent::End(_) => packet = None,
            ProbeEvent::Touch(r)
                if r.region != RegionId::MBUF && !IN_REGISTERS.contains(&(r.site % SITES_A_MEMBER)) =>
            {
                let region = named.get(&r.region).copied().unwrap_or(r.region);
                add(&mut lines[packet.expect("within a packet")], region, r.offset, r.bytes);
            }
            _ => {}
        }
    }
    lines
}

fn lines_of_lowering(touches: &[Touch], packets: usize) -> Vec<Lines> {
    let (mut lines, mut descriptors) = (vec![Lines::new(); packets], vec![0; packets]);
    for touch in touches {
        let packet = touch.packet as usize;
        match RegionId(touch.region) {
            RegionId::MBUF => descriptors[packet] += 1,
            region => add(&mut lines[packet], region, touch.offset, touch.bytes),
        }
    }
    assert!(descriptors.iter().all(|&loads| loads == 1), "one load of the descriptor a packet");
    lines
}

#[derive(Default)]
struct Compared {
    packets: u64,
    verdicts: BTreeMap<String, u64>,
    references: u64,
    fragments: u64,
}

fn compare(function: &mut Function, lowering: &mut Lowering, burst: &[Packet], so_far: &mut Compared) {
    let (mut ours, mut theirs) = (burst.to_vec(), burst.to_vec());
    for (i, packet) in ours.iter_mut().chain(&mut theirs).enumerate() {
        packet.id = PacketId((i % burst.len()) as u64);
    }
    let (mut record, mut expected, mut found) = (Record::new(), Vec::new(), Vec::new());
    function.process_burst(Ps::ZERO, &mut ours, &mut record, &mut expected);
    let touches = lowering.process_burst(&mut theirs, REFERENCES * BURST, &mut found).unwrap();
    let (by_function, by_lowering) =
        (lines_of_function(function, &record, burst.len()), lines_of_lowering(&touches, burst.len()));
    for i in 0..burst.len() {
        let what = || format!("packet {} after {}: {:x?}", i, so_far.packets, burst[i]);
        assert_eq!(found[i], expected[i], "verdict of {}", what());
        assert_eq!(theirs[i].data, ours[i].data, "bytes of {}", what());
        assert_eq!(theirs[i].frame_bytes, ours[i].frame_bytes, "length of {}", what());
        assert_eq!(by_lowering[i], by_function[i], "lines of {}", what());
        match &*function {
            Function::Classify(classifier) => {
                assert_eq!(lowering.classes(burst.len())[i], classifier.classes()[i], "class of {}", what());
            }
            Function::Inspect(inspect) => {
                let first = inspect.found().iter().find(|(id, _)| id.0 == i as u64).map(|(_, found)| found.pattern);
                assert_eq!(lowering.classes(burst.len())[i], first, "first pattern of {}", what());
            }
            _ => {}
        }
        let name = match expected[i] {
            Verdict::Forward { .. } => "forward",
            Verdict::Drop(reason) => reason.name(),
        };
        *so_far.verdicts.entry(name.into()).or_default() += 1;
        so_far.references += by_function[i].values().map(|&n| u64::from(n)).sum::<u64>();
    }
    assert_eq!(lowering.fragments(), function.fragments(), "fragments after {} packets", so_far.packets);
    so_far.fragments += function.fragments().len() as u64;
    so_far.packets += burst.len() as u64;
}

/// Up to `most` packets of a capture.
fn compare_capture(path: &Path, most: u64, function: &mut Function, lowering: &mut Lowering, so_far: &mut Compared) {
    let Ok(mut capture) = Capture::open(path) else { return };
    let (mut burst, mut packet) = (Vec::new(), Packet::default());
    let end = so_far.packets + most;
    while so_far.packets < end && capture.next(&mut packet) {
        burst.push(packet.clone());
        if burst.len() == BURST {
            compare(function, lowering, &burst, so_far);
            burst.clear();
        }
    }
    compare(function, lowering, &burst, so_far);
}

#[test]
fn the_lowering_equals_the_functions_on_real_captures_with_the_full_table() {
    let table = table();
    for (checksum, entry_bytes) in [(ChecksumCheck::Software, 2), (ChecksumCheck::Nic, 4)] {
        let program = RouterProgram::forward(forward(&table, checksum, entry_bytes));
        let (mut forward, mut lowering) = both(&program, 2048);
        let mut so_far = Compared::default();
        for path in files("traces") {
            compare_capture(&path, 20_000, &mut forward, &mut lowering, &mut so_far);
        }
        println!("{checksum:?}: {} packets, {} lines, {:?}", so_far.packets, so_far.references, so_far.verdicts);
        if so_far.packets > 0 {
            assert!(so_far.packets > 50_000, "of all captures");
            // Most of these captures have their checksums erased.
            let least = if checksum == ChecksumCheck::Nic { so_far.packets / 20 } else { so_far.packets / 50 };
            assert!(so_far.verdicts["forward"] > least, "{:?}", so_far.verdicts);
        }
    }
}

#[test]
fn malformed_packets_get_the_same_verdict_with_a_reason() {
    let table = Table::synthetic(1, 20_000, 500);
    let bursts = malformed();
    for program in programs(forward(&table, ChecksumCheck::Software, 2), &table) {
        let (mut function, mut lowering) = both(&program, 1 << 16);
        let mut so_far = Compared::default();
        let (stride, bursts_of_it) = if is_slow(&program) { (5, 1) } else { (1, usize::MAX) };
        for capture in &bursts {
            // References of inspecting 60 KB are some hundred thousand: long packets are compared by verdict, on the backends.
            let capture: Vec<Packet> =
                capture.iter().filter(|packet| stride == 1 || packet.data.len() <= 1024).cloned().collect();
            for burst in capture.chunks(BURST).step_by(stride).take(bursts_of_it) {
                compare(&mut function, &mut lowering, burst, &mut so_far);
            }
        }
        println!("{}: {} packets, {:?}", program.name(), so_far.packets, so_far.verdicts);
        assert!(bursts.is_empty() || so_far.verdicts.len() > 2, "reasons beyond that it is not IP");
    }
}

/// And on the backend of threads, whatever the task in which a packet comes: what `wirespeed router run` does.
#[test]
fn malformed_packets_get_the_same_verdict_on_the_backends() {
    let table = Table::synthetic(1, 20_000, 500);
    let packets: Vec<Packet> = malformed().into_iter().flat_map(|capture| capture.into_iter().take(100)).collect();
    let deadline = Duration::from_secs(60);
    let setup = KernelSetup { deadline, ..KernelSetup::default() };
    for program in programs(forward(&table, ChecksumCheck::Software, 2), &table) {
        let few = &packets[..if is_slow(&program) { packets.len().min(2_000) } else { packets.len() }];
        let (mut function, mut expected) = (program.function().clone(), Vec::new());
        function.process_burst(Ps::ZERO, &mut few.to_vec(), &mut probe::Null, &mut expected);
        let setup = KernelSetup { frame_bytes: 1 << 16, slots: 256, ..setup };
        let backends: [Box<dyn Backend>; 3] = [
            Box::new(RunToCompletion::new(&program, 256).unwrap()),
            Box::new(CpuThreads::new(&program, 2, 256, Commit::Device, deadline).unwrap()),
            Box::new(Persistent::new(Twin::new(2), &program, setup).unwrap()),
        ];
        for mut backend in backends {
            let verdicts = through(&mut *backend, few);
            for (i, (found, wanted)) in verdicts.iter().zip(&expected).enumerate() {
                assert_eq!(found, wanted, "{} on {}: {:x?}", program.name(), backend.name(), few[i]);
            }
            assert_eq!(verdicts.len(), expected.len());
            let Function::Chain(chain) = &function else { continue };
            let wanted = chain.shares().into_iter();
            let wanted: Vec<_> = wanted.map(|share| (share.name, share.packets, share.dropped)).collect();
            let shares: Vec<_> =
                backend.shares().iter().map(|share| (share.name, share.packets, share.dropped)).collect();
            assert_eq!(shares, wanted, "{} on {}", program.name(), backend.name());
        }
    }
}

/// Lays packets in, tasks of 1 to 32 of them, and takes verdicts out.
fn through(backend: &mut dyn Backend, packets: &[Packet]) -> Vec<Verdict> {
    let (mut verdicts, mut out, mut put, mut spare) = (Vec::new(), Vec::new(), 0, Packet::default());
    while verdicts.len() < packets.len() {
        while put < packets.len() && put + 32 - verdicts.len() < 256 {
            let count = (1 + put % 32).min(packets.len() - put);
            for (number, packet) in (put..).zip(&packets[put..put + count]) {
                backend.put(number as u64, &mut packet.clone());
            }
            assert!(backend.post(put as u64, count as u32).unwrap());
            put += count;
        }
        backend.poll(&mut out).unwrap();
        for done in out.drain(..) {
            for number in done.first..done.first + u64::from(done.count) {
                verdicts.push(backend.take(number, &mut spare).unwrap());
            }
        }
    }
    backend.stop().unwrap();
    verdicts
}

/// A linear search of many rules takes long.
fn is_slow(program: &RouterProgram) -> bool {
    program.name().contains("classify") || program.name().contains("inspect")
}

/// The packets of the adversarial captures, also of those in archives. Frames beyond 65,535 bytes, of which a kernel sees no
/// more (DEVIATIONS.md), are left out and told.
fn malformed() -> Vec<Vec<Packet>> {
    let mut all = all_malformed();
    let most = usize::from(u16::MAX);
    let before: usize = all.iter().map(Vec::len).sum();
    all.iter_mut().for_each(|capture| capture.retain(|packet| packet.data.len() <= most));
    println!("{before} packets, of which {} are too long", before - all.iter().map(Vec::len).sum::<usize>());
    all
}

fn all_malformed() -> Vec<Vec<Packet>> {
    let mut all = Vec::new();
    for path in files("adversarial") {
        if !path.to_string_lossy().contains(".tar.") {
            all.extend(Capture::open(&path).map(|capture| taken(capture, 5_000)));
            continue;
        }
        let mut data = Vec::new();
        std::io::Read::read_to_end(&mut liblzma::read::XzDecoder::new(std::fs::File::open(&path).unwrap()), &mut data)
            .unwrap();
        let before = all.len();
        all.extend(members(&data).filter_map(|file| Some(taken(Capture::from_bytes(file, "member").ok()?, 300))));
        assert!(all.len() > before + 15, "captures in {}", path.display());
    }
    all
}

fn taken(mut capture: Capture, most: usize) -> Vec<Packet> {
    let (mut packets, mut packet) = (Vec::new(), Packet::default());
    while packets.len() < most && capture.next(&mut packet) {
        packets.push(packet.clone());
    }
    packets
}

/// The files of a tar archive: a header of 512 bytes, with the length in octal digits, then as many blocks.
fn members(data: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let digits = std::str::from_utf8(data.get(at + 124..at + 135)?).ok()?.trim_matches(['\0', ' ']);
        let bytes = usize::from_str_radix(digits, 8).ok()?;
        let file = data.get(at + 512..at + 512 + bytes)?.to_vec();
        at += 512 + bytes.next_multiple_of(512);
        Some(file)
    })
}

#[test]
fn each_function_alone_equals_its_lowering_on_real_captures() {
    let table = Table::synthetic(2, 50_000, 500);
    for program in programs(forward(&table, ChecksumCheck::Nic, 2), &table) {
        let (mut function, mut lowering) = both(&program, 1 << 16);
        let mut so_far = Compared::default();
        for path in files("traces").iter().chain(&files("mobile")) {
            // A classifier looks at a thousand rules for most packets.
            let most = if is_slow(&program) { 128 } else { 1_000 };
            compare_capture(path, most, &mut function, &mut lowering, &mut so_far);
        }
        println!("{}: {} packets, {} lines, {:?}", program.name(), so_far.packets, so_far.references, so_far.verdicts);
        if program.name().ends_with("fragment") && so_far.packets > 10_000 {
            println!("{} fragments", so_far.fragments);
            assert!(so_far.fragments > 0, "packets of captures are cut");
        }
    }
}

fn both(program: &RouterProgram, frame_bytes: usize) -> (Function, Lowering) {
    (program.lowered().clone(), Lowering::new(program, BURST, frame_bytes).unwrap())
}

/// Strings of a rule set for intrusion detection, with some that occur in any traffic, of one byte and of many.
fn patterns() -> Vec<Pattern> {
    let path = shared("dpi/et_open_2021_contents.tsv.xz");
    let strings = if path.exists() { SignatureStrings::open(path).unwrap() } else { SignatureStrings::made(3, 2_000) };
    let taken = strings.select(&PatternSelection::default()).into_iter().step_by(7);
    let often =
        [("HTTP/1.1", true), ("http/1.1\r\nHost: ", true), ("Get ", false), ("GET ", false), ("\u{1}\u{1}", false)];
    let often = often.map(|(text, nocase)| (text.as_bytes().to_vec(), nocase));
    taken.take(2_000).chain(often).map(|(bytes, nocase)| Pattern { bytes, nocase }).collect()
}

/// Every function that kernels have, and chains of them, forwarding as given.
fn programs(forward: Forward, table: &Table) -> Vec<RouterProgram> {
    let path = shared("rules/acl1_1k.rules.gz");
    let rules = if path.exists() { FilterRules::open(path).unwrap() } else { FilterRules::made(1, 1000, table) };
    let linear = |drop_unmatched| ClassifySpec { search: RuleSearch::Linear, drop_unmatched };
    let routes = table.routes.iter().filter(|route| route.prefix.prefix_len() > 8).enumerate();
    let routes = routes.filter_map(|(i, route)| Some((route.prefix, NextHop::new(i as u32 % 1000)?)));
    let routes: Vec<_> = routes.collect();
    let lookup = |structure| RouterProgram::lookup(Lookup::new(routes.iter().copied(), 5, structure).unwrap(), 5);
    let (lookup, poptrie) = (lookup(Structure::Dir24), lookup(Structure::Poptrie));
    let fragment = |mtu, ports| RouterProgram::fragment(mtu, ports).unwrap();
    let classify = |search, drop_unmatched| {
        RouterProgram::classify(&rules.rules, &ClassifySpec { search, drop_unmatched }, 2).unwrap()
    };
    let patterns = patterns();
    let inspect = |method, depth, drop| {
        RouterProgram::inspect(Inspect::new(&patterns, &InspectSpec { method, depth, drop }, 3).unwrap(), 3)
    };
    let chain = |members| RouterProgram::chain(members).unwrap();
    vec![
        RouterProgram::forward(forward.clone()),
        RouterProgram::check(ChecksumCheck::Software, 2),
        RouterProgram::check(ChecksumCheck::Nic, 4),
        lookup.clone(),
        RouterProgram::ttl(3),
        RouterProgram::classify(&rules.rules, &linear(false), 2).unwrap(),
        RouterProgram::classify(&rules.rules[..200], &linear(true), 2).unwrap(),
        classify(RuleSearch::TupleSpace, false),
        classify(RuleSearch::TupleSpace, true),
        inspect(Method::AhoCorasick, 0, true),
        inspect(Method::AhoCorasick, 0, false),
        inspect(Method::Bloom, 0, true),
        inspect(Method::Bloom, 100, false),
        // The paper's chain, one whose latest router is not its last member, and one that routes nowhere.
        chain(vec![
            RouterProgram::check(ChecksumCheck::Software, 4),
            classify(RuleSearch::TupleSpace, false),
            inspect(Method::Bloom, 0, true),
            lookup.clone(),
            RouterProgram::ttl(4),
        ]),
        chain(vec![
            lookup.clone(),
            RouterProgram::ttl(3),
            inspect(Method::AhoCorasick, 200, true),
            RouterProgram::forward(forward),
            RouterProgram::check(ChecksumCheck::Nic, 2),
            classify(RuleSearch::TupleSpace, true),
        ]),
        chain(vec![RouterProgram::ttl(2), RouterProgram::ttl(2)]),
        poptrie.clone(),
        fragment(1500, 1),
        fragment(576, 4),
        fragment(68, 3),
        // Fragments go where the lookup says, with what is left of their time to live.
        chain(vec![RouterProgram::check(ChecksumCheck::Nic, 2), poptrie, RouterProgram::ttl(4), fragment(300, 4)]),
    ]
}

fn ipv4(options: usize, ttl: u8, dst: [u8; 4], tags: usize) -> Vec<u8> {
    let mut frame = vec![0xee; 12];
    for _ in 0..tags {
        frame.extend([0x81, 0, 0, 7]);
    }
    frame.extend([8, 0]);
    let bytes = 20 + 4 * options;
    let mut header = vec![0x40 | (bytes / 4) as u8, 0, 0, (bytes + 47) as u8, 0, 1, 0, 0, ttl, 17, 0, 0, 192, 0, 2, 1];
    header.extend(dst);
    header.extend(vec![1; 4 * options]);
    let sum = internet_checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    frame.extend(header);
    frame.extend([0; 8]);
    frame.extend(b"get / GET \x01\x01\x01 HTTP/1.1\r\nHoST: x.example");
    frame
}

fn ipv6(hop_limit: u8, dst: u128, tags: usize) -> Vec<u8> {
    let mut frame = vec![0xee; 12];
    for _ in 0..tags {
        frame.extend([0x81, 0, 0, 7]);
    }
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 35, 6, hop_limit]);
    frame.extend((0x2001_0db8_u128 << 96 | 5).to_be_bytes());
    frame.extend(dst.to_be_bytes());
    frame.extend([0, 80, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12, 0, 0, 0, 0, 0, 0]);
    frame.extend(b"GET HTTP/1.1\r\n\x01");
    frame
}

fn small() -> Forward {
    let routes =
        ["10.0.0.0/8", "10.1.2.128/25", "10.1.2.129/32", "2001:db8::/32", "2001:db8:1:2::/64", "2001:db8:1:2::7/128"];
    let routes = (0u16..).zip(routes).map(|(i, prefix)| (prefix.parse().unwrap(), NextHop::from(i)));
    let spec = ForwardSpec {
        prefetch: false,
        lookup: LookupMode::Single,
        checksum: ChecksumCheck::Software,
        ..ForwardSpec::default()
    };
    Forward::new(routes, 4, &spec).unwrap()
}

fn destinations() -> impl Strategy<Value = [u8; 4]> {
    prop_oneof![
        Just([10, 1, 2, 129]),
        Just([10, 1, 2, 130]),
        Just([10, 9, 9, 9]),
        Just([169, 254, 1, 1]),
        Just([224, 0, 0, 1]),
        Just([255; 4]),
        any::<[u8; 4]>(),
    ]
}

fn destinations_v6() -> impl Strategy<Value = u128> {
    let under = |last: u128| 0x2001_0db8_0001_0002_u128 << 64 | last;
    prop_oneof![
        Just(under(7)),
        Just(under(8)),
        Just(0x2001_0db8_u128 << 96),
        Just(1),
        Just(0xff02_u128 << 112 | 1),
        Just(0xfe80_u128 << 112 | 1),
        any::<u128>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Frames that are sound, cut off, or with any byte changed, with tags and options.
    #[test]
    fn lowering_matches_functions_on_damaged_frames(
        frames in prop::collection::vec((
            prop_oneof![
                (0usize..11, 0u8..4, destinations(), 0usize..2).prop_map(|(o, ttl, dst, tags)| ipv4(o, ttl, dst, tags)),
                (0u8..4, destinations_v6(), 0usize..2).prop_map(|(limit, dst, tags)| ipv6(limit, dst, tags)),
            ],
            prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
            prop::option::of(any::<prop::sample::Index>()),
            0u32..40,
        ), 1..BURST),
    ) {
        let burst: Vec<Packet> = frames.into_iter().map(|(mut data, change, cut, more)| {
            if let Some((at, value)) = change {
                let at = at.index(data.len());
                data[at] = value;
            }
            let frame_bytes = data.len() as u32 + more;
            if let Some(cut) = cut {
                data.truncate(cut.index(data.len()) + 1);
            }
            let mut packet = Packet::default();
            packet.set_frame(&data, frame_bytes);
            packet
        }).collect();
        for program in programs(small(), &Table::synthetic(1, 500, 9)) {
            let (mut function, mut lowering) = both(&program, 256);
            compare(&mut function, &mut lowering, &burst, &mut Compared::default());
        }
    }
}

/// The kernels for any program do for one function of headers what those for headers do: which is started is a matter of
/// registers.
#[test]
fn both_forms_of_a_program_do_the_same() {
    let bursts: Vec<Packet> = (0..48u8)
        .map(|i| {
            let mut packet = Packet::default();
            let data = if i % 3 == 0 {
                ipv6(i % 4, u128::from(i % 2 == 1) << 120 | 7, 0)
            } else {
                ipv4(0, i % 4, [10, 1, 2, 126 + i % 4], 0)
            };
            packet.set_frame(&data, data.len() as u32);
            packet
        })
        .collect();
    for program in programs(small(), &Table::synthetic(1, 500, 9)) {
        let (mut function, lowering) = both(&program, 256);
        compare(&mut function, &mut lowering.in_any_form(), &bursts, &mut Compared::default());
    }
}

/// The whole table that a Poptrie is to hold, by both structures: the lowering of each does what its function does, and the two
/// say the same.
#[test]
fn a_poptrie_of_the_full_table_equals_its_function_and_the_other_structure_on_real_captures() {
    let table = table();
    let routes = table.routes.iter().enumerate();
    let routes: Vec<_> = routes
        .filter_map(|(i, route)| Some((route.prefix, NextHop::new(route.next_hop.unwrap_or(i as u32) % 30_000)?)))
        .collect();
    let program = |structure| RouterProgram::lookup(Lookup::new(routes.iter().copied(), 7, structure).unwrap(), 7);
    let (mut poptrie, mut lowered) = both(&program(Structure::Poptrie), 2048);
    let (_, mut other) = both(&program(Structure::Dir24), 2048);
    let mut so_far = Compared::default();
    for path in files("traces") {
        compare_capture(&path, 20_000, &mut poptrie, &mut lowered, &mut so_far);
        let Ok(capture) = Capture::open(&path) else { continue };
        for burst in taken(capture, 5_000).chunks(BURST) {
            let (mut by_trie, mut by_table) = (Vec::new(), Vec::new());
            lowered.process_burst(&mut burst.to_vec(), 0, &mut by_trie).unwrap();
            other.process_burst(&mut burst.to_vec(), 0, &mut by_table).unwrap();
            assert_eq!(by_trie, by_table, "{}", path.display());
        }
    }
    println!("{} packets, {} lines, {:?}", so_far.packets, so_far.references, so_far.verdicts);
    assert!(so_far.packets == 0 || so_far.packets > 50_000, "of all captures");
}

/// A quarter of an hour of real updates, one after the other into the tables: what threads and kernels read then is what tables
/// say that are built from the routes that are left.
#[test]
fn tables_after_real_updates_are_those_that_kernels_read() {
    let path = shared("tables/ris_rrc15_updates.20100227.1600.mrt.gz");
    let mut changes: Vec<(Prefix, Option<NextHop>)> = Vec::new();
    if path.exists() {
        let updates = (0u32..).zip(traffic::Updates::open(&path).unwrap());
        changes.extend(updates.map(|(i, update)| match update.kind {
            UpdateKind::Announce(_) => (update.prefix, NextHop::new(i * 7 % 30_000)),
            UpdateKind::Withdraw => (update.prefix, None),
        }));
        assert!(changes.len() > 50_000, "{}", changes.len());
    } else {
        println!("no updates in shared/data: made ones take their place");
    }
    let table = Table::synthetic(5, 100_000, 500);
    let routes: Vec<_> = table.prefixes().zip((0u16..500).cycle().map(NextHop::from)).collect();
    // And of the table's own prefixes some go, some change.
    changes.extend(routes.iter().step_by(9).map(|&(prefix, _)| (prefix, None)));
    changes.extend(routes.iter().step_by(14).map(|&(prefix, _)| (prefix, Some(NextHop::from(501)))));
    let left: BTreeMap<String, (Prefix, Option<NextHop>)> = routes
        .iter()
        .map(|&(prefix, hop)| (prefix, Some(hop)))
        .chain(changes.iter().copied())
        .map(|(prefix, hop)| (prefix.to_string(), (prefix, hop)))
        .collect();
    // To an address of each changed prefix.
    let frames: Vec<Packet> = changes
        .iter()
        .step_by(5)
        .map(|(prefix, _)| {
            let data = match *prefix {
                Prefix::V4 { addr, .. } => ipv4(0, 9, (addr | 1).to_be_bytes(), 0),
                Prefix::V6 { addr, .. } => ipv6(9, addr | 1, 0),
            };
            let mut packet = Packet::default();
            packet.set_frame(&data, data.len() as u32);
            packet
        })
        .collect();
    for structure in [Structure::Dir24, Structure::Poptrie] {
        let mut updated = Lookup::new(routes.iter().copied(), 999, structure).unwrap();
        let shared = updated.clone();
        assert!(updated.update(changes[0].0, None).is_none(), "not while somebody looks up in it");
        drop(shared);
        for &(prefix, next_hop) in &changes {
            updated.update(prefix, next_hop).unwrap().unwrap();
        }
        let built = left.values().filter_map(|&(prefix, hop)| Some((prefix, hop?)));
        let built = RouterProgram::lookup(Lookup::new(built, 999, structure).unwrap(), 999);
        let (mut built, mut expected) = (built.function().clone(), Vec::new());
        let (mut function, mut lowering) = both(&RouterProgram::lookup(updated, 999), 256);
        let mut found = Vec::new();
        for burst in frames.chunks(BURST) {
            built.process_burst(Ps::ZERO, &mut burst.to_vec(), &mut probe::Null, &mut expected);
            compare(&mut function, &mut lowering, burst, &mut Compared::default());
            lowering.process_burst(&mut burst.to_vec(), 0, &mut found).unwrap();
        }
        assert_eq!(found, expected, "{structure:?}");
        assert!(found.contains(&Verdict::Forward { port: units::PortId(501) }));
    }
}

/// An IPv4 packet behind an Ethernet header and tags; `place` is flags and offset.
fn long(options: &[u8], payload: usize, place: u16, tags: usize) -> Packet {
    let mut frame = [vec![0xee; 12], [0x81, 0, 0, 7].repeat(tags), vec![8, 0]].concat();
    let total = (20 + options.len() + payload) as u16;
    let mut ip = vec![0x45 + (options.len() / 4) as u8, 9];
    ip.extend([total.to_be_bytes(), [0xbe, 0xef], place.to_be_bytes(), [64, 17]].concat());
    ip.extend([0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    ip.extend(options);
    let sum = internet_checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    frame.extend(ip);
    frame.extend((0..payload).map(|i| (i * 7 + i / 256) as u8));
    let mut packet = Packet::default();
    packet.set_frame(&frame, frame.len() as u32);
    packet
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any options, offsets and flags, some bytes of padding, some of the frame not captured; by the function that gathers, and
    /// the one that copies.
    #[test]
    fn fragments_of_the_lowering_match_the_functions(
        packets in prop::collection::vec(
            (options(), 0usize..4000, any::<u16>(), 0usize..3, 0u32..20, prop::option::of(any::<prop::sample::Index>())),
            1..12,
        ),
        mtu in 68u32..2000,
        flags in prop_oneof![3 => Just(0x20ffu16), 1 => Just(0xffff)],
    ) {
        let burst: Vec<Packet> = packets
            .into_iter()
            .map(|(options, bytes, place, tags, slack, cut)| {
                let mut packet = long(&options, bytes, place & flags, tags);
                packet.frame_bytes += slack;
                if let Some(cut) = cut {
                    packet.data.truncate(cut.index(packet.data.len()) + 1);
                }
                packet
            })
            .collect();
        let program = RouterProgram::fragment(mtu, 2).unwrap();
        // Slots for headers only: payloads are not the kernel's.
        let (mut function, mut lowering) = both(&program, 256);
        compare(&mut function, &mut lowering, &burst, &mut Compared::default());
        let (mut copying, mut copied, mut out) = (program.function().clone(), burst.clone(), Vec::new());
        copied.iter_mut().enumerate().for_each(|(i, packet)| packet.id = PacketId(i as u64));
        copying.process_burst(Ps::ZERO, &mut copied, &mut probe::Null, &mut out);
        prop_assert_eq!(copying.fragments(), function.fragments());
    }
}

/// A comparison that cannot fail is none: a wrong time to live, table or line is noticed.
#[test]
fn a_lowering_with_another_table_is_noticed() {
    let mut frames = Packet::default();
    let data = ipv4(0, 9, [10, 1, 2, 129], 0);
    frames.set_frame(&data, data.len() as u32);
    let mut other = Lowering::new(&RouterProgram::forward(small()), 1, 256).unwrap();
    let mut out = Vec::new();
    let touched = other.process_burst(&mut [frames.clone()], 64, &mut out).unwrap();
    assert_eq!(touched.iter().filter(|t| t.region == 17).count(), 1, "one entry of tbl8");
    let mut empty = Lowering::new(
        &RouterProgram::forward(Forward::new(std::iter::empty(), 1, &ForwardSpec::default()).unwrap()),
        1,
        256,
    )
    .unwrap();
    empty.process_burst(&mut [frames], 64, &mut out).unwrap();
    assert!(matches!(out[0], Verdict::Forward { .. }));
    assert_eq!(out[1], Verdict::Drop(DropReason::NoRoute));
}
