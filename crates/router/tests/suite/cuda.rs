//! What is done with a GPU, up to the GPU: every mode against a made driver that runs the kernels of this host, and every way in
//! which a driver may fail. That it works on a device is not shown here.
//!
//! The driver is compiled here, once a behaviour. Without a C compiler, which building this crate needs too, there is no test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use functions::inspect::Method;
use functions::lookup::Structure;
use functions::{ChecksumCheck, Forward, ForwardSpec, Lookup, NextHop, PacketFunction};
use packet::{Packet, Prefix};
use probe::Null;
use router::bench::{
    BenchMode, BenchPoint, BenchSpec, REPEAT_COLUMNS, RepeatSpec, SharesSpec, bench, bench_past, bench_repeats,
    bench_shares,
};
use router::cuda::{
    BatchMode, GatheredBatch, Gpu, GpuContext, GpuSpec, KernelBatch, PTX, PacketPlacement, measure_link,
};
use router::persistent::KernelSetup;
use router::setup::{Choice, FunctionNames, GpuMode, RouterSpec};
use router::{Backend, Commit, Persistent, RoundTasks, RouteOptions, RouterError, RouterProgram, route};
use units::{PacketId, PortId, Ps};

use crate::made::{Kept, Made, expected};

const DEADLINE: Duration = Duration::from_secs(20);

/// A driver of that behaviour, by its name in `driver.c`.
fn driver(behaviour: &str) -> PathBuf {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver/driver.c");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libdriver_{behaviour}.so"));
    // Tests run at the same time: each writes a file of its own, and moves it into place.
    let made = out.with_extension(format!("{:?}.so", std::thread::current().id()));
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-shared", "-pthread", "-x", "c"]);
    match behaviour {
        "WITHOUT_GRAPHS" | "WITHOUT_LOADING" => compiler.arg(format!("-D{behaviour}")),
        behaviour => compiler.arg(format!("-DBEHAVIOUR={behaviour}")),
    };
    let done = compiler.arg(kernels).arg("-o").arg(&made).status().expect("a C compiler");
    assert!(done.success());
    std::fs::rename(made, &out).unwrap();
    out
}

/// A short table: made ones have many routes.
fn table() -> Option<PathBuf> {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("routes.txt");
    let made = out.with_extension(format!("{:?}", std::thread::current().id()));
    std::fs::write(&made, "10.0.0.0/8 1\n172.16.0.0/12 2\n192.0.2.0/24 3\n198.51.100.128/25 4\n").unwrap();
    std::fs::rename(made, &out).unwrap();
    Some(out)
}

pub fn spec(behaviour: &str, placement: PacketPlacement) -> GpuSpec {
    let library = Some(driver(behaviour).to_string_lossy().into_owned());
    GpuSpec { library, placement, ..GpuSpec::default() }
}

fn forward() -> Forward {
    let routes = ["10.0.0.0/8", "10.1.2.128/25"];
    let routes = (0u16..).zip(routes).map(|(i, prefix)| (prefix.parse().unwrap(), NextHop::from(i)));
    Forward::new(routes, 3, &ForwardSpec::default()).unwrap()
}

fn check(what: &str, backend: &mut dyn Backend, packets: u64, batch: u32) {
    let mut kept = Kept::default();
    let options = RouteOptions { batch, ..RouteOptions::default() };
    let report = route(&mut Made { next: 0, end: packets }, backend, &mut kept, &options).unwrap();
    assert_eq!((report.packets, report.reordered), (packets, 0), "{what}");
    assert!(kept.0 == expected(forward(), packets), "{what}: what left is what should have");
}

#[test]
fn persistent_kernels_route_in_order_in_host_memory_and_in_their_own() {
    for placement in [PacketPlacement::ZeroCopy, PacketPlacement::Resident] {
        for commit in [Commit::Device, Commit::Host] {
            let gpu = Gpu::open(&spec("SOUND", placement)).unwrap();
            assert_eq!((gpu.offer().name.as_str(), gpu.offer().warps_per_core), ("made GPU", 4));
            let setup = KernelSetup { commit, deadline: DEADLINE, slots: 4096, ..KernelSetup::default() };
            let mut backend = Persistent::new(gpu, &RouterProgram::forward(forward()), setup).unwrap();
            check(&format!("{placement:?}, {commit:?}"), &mut backend, 10_007, 32);
        }
    }
}

#[test]
fn a_driver_of_cuda_12_that_cannot_load_ahead_routes() {
    let gpu = Gpu::open(&spec("WITHOUT_LOADING", PacketPlacement::default())).unwrap();
    assert_eq!(gpu.offer().driver, 12_000);
    let setup = KernelSetup { deadline: DEADLINE, slots: 4096, ..KernelSetup::default() };
    let mut backend = Persistent::new(gpu, &RouterProgram::forward(forward()), setup).unwrap();
    check("without cuFuncLoad", &mut backend, 1000, 32);
}

#[test]
fn batches_route_in_order_one_at_a_time_in_streams_and_as_graphs() {
    for mode in [BatchMode::Serial, BatchMode::Streams, BatchMode::Graph] {
        for batch in [32, 256] {
            let spec = spec("SOUND", PacketPlacement::default());
            let program = RouterProgram::forward(forward());
            let mut backend =
                KernelBatch::new(Gpu::open(&spec).unwrap(), &program, mode, batch, 2048, 256, DEADLINE).unwrap();
            check(&format!("{mode:?} of {batch}"), &mut backend, 10_007, batch);
        }
    }
}

#[test]
fn gathered_batches_give_the_same_packets_one_at_a_time_and_in_streams() {
    for lanes in [1, 3] {
        for batch in [32, 256] {
            let gpu = Gpu::open(&spec("SOUND", PacketPlacement::default())).unwrap();
            let program = RouterProgram::forward(forward());
            let mut backend = GatheredBatch::new(gpu, &program, lanes, batch, 2048, 256, DEADLINE).unwrap();
            check(&format!("{lanes} lanes of {batch}"), &mut backend, 10_007, batch);
        }
    }
}

#[test]
fn gathered_verdicts_and_bytes_are_those_of_the_threads_for_every_function_of_headers() {
    let hops = |routes: &[&str]| {
        let routes = routes.iter().map(|prefix| prefix.parse().unwrap()).collect::<Vec<Prefix>>();
        (0u16..).zip(routes).map(|(i, prefix)| (prefix, NextHop::from(i))).collect::<Vec<_>>().into_iter()
    };
    let routes = ["10.0.0.0/8", "10.1.2.128/25", "2001:db8::/32", "2001:db8:0:1::/64", "2001:db8::5/128"];
    let programs = [
        RouterProgram::forward(Forward::new(hops(&routes), 3, &ForwardSpec::default()).unwrap()),
        RouterProgram::check(ChecksumCheck::Nic, 5),
        RouterProgram::lookup(Lookup::new(hops(&routes), 3, Structure::Dir24).unwrap(), 3),
        RouterProgram::ttl(5),
    ];
    let packets: Vec<_> = (0..4096).map(odd_packet).collect();
    for program in programs {
        let (mut expected, mut verdicts) = (packets.clone(), Vec::new());
        program.function().clone().process_burst(Ps::ZERO, &mut expected, &mut Null, &mut verdicts);
        let gpu = Gpu::open(&spec("SOUND", PacketPlacement::default())).unwrap();
        let mut backend = GatheredBatch::new(gpu, &program, 3, 256, 4096, 256, DEADLINE).unwrap();
        let (mut posted, mut committed, mut out) = (0, 0, Vec::new());
        (0..).zip(&packets).for_each(|(number, packet)| backend.put(number, &mut packet.clone()));
        while committed < 4096 {
            let task = backend.fit(posted, 4096 - posted);
            if task > 0 && backend.post(posted, task as u32).unwrap() {
                posted += task;
            }
            backend.poll(&mut out).unwrap();
            committed += out.drain(..).map(|done| u64::from(done.count)).sum::<u64>();
        }
        let mut kinds = std::collections::BTreeSet::new();
        for ((number, packet), verdict) in (0..).zip(&expected).zip(verdicts) {
            let mut came = Packet::default();
            assert_eq!(backend.take(number, &mut came).unwrap(), verdict, "{}: packet {number}", program.name());
            assert!(came.data == packet.data, "{}: bytes of packet {number}", program.name());
            kinds.insert(format!("{verdict:?}"));
        }
        assert!(kinds.len() > 3, "{}: {kinds:?}", program.name());
        backend.stop().unwrap();
    }
}

#[test]
fn what_has_nothing_to_gather_is_refused() {
    let chain = RouterProgram::chain(vec![RouterProgram::ttl(1), RouterProgram::ttl(1)]).unwrap();
    for program in [chain, RouterProgram::check(ChecksumCheck::Software, 1)] {
        let gpu = Gpu::open(&spec("SOUND", PacketPlacement::default())).unwrap();
        let error = GatheredBatch::new(gpu, &program, 1, 32, 1024, 256, DEADLINE).err().unwrap().to_string();
        assert!(error.contains("gathered copies are for forward, check"), "{error}");
    }
}

#[test]
fn what_a_driver_lacks_is_a_typed_error_that_says_what_to_do() {
    let error = |behaviour: &str| {
        let gpu = Gpu::open(&spec(behaviour, PacketPlacement::default()));
        gpu.err().unwrap_or_else(|| panic!("{behaviour}: a GPU was found"))
    };
    let no_driver = Gpu::open(&GpuSpec { library: Some("libcuda_nowhere.so.1".into()), ..GpuSpec::default() });
    let no_driver = no_driver.err().unwrap();
    assert!(matches!(no_driver, RouterError::NoDriver { .. }) && no_driver.is_no_gpu(), "{no_driver}");
    for (behaviour, says) in [
        (
            "NO_DEVICE",
            "the GPU driver finds no GPU (cuInit: CUDA_ERROR_NO_DEVICE (100)); check nvidia-smi, or use --backend cpu",
        ),
        (
            "OLD_VERSION",
            "the GPU driver supports CUDA 11.8, and the kernels need 12.0: install a driver of the 525 series or newer, or use \
             --backend cpu",
        ),
        (
            "OLD_GPU",
            "GPU made GPU: compute capability 6.0, and the kernels need 7.5 (Turing) or more; use another one, or --backend cpu",
        ),
    ] {
        let error = error(behaviour);
        assert_eq!(error.to_string(), says);
        assert!(error.is_no_gpu(), "{error}");
    }
    let missing = error("WITHOUT_GRAPHS");
    assert!(matches!(missing, RouterError::OldDriver { symbol: "cuGraphExecDestroy", .. }), "{missing}");
    assert!(missing.is_no_gpu());
    let unread = error("BAD_PTX");
    assert!(matches!(unread, RouterError::Driver { code: 222, .. }) && !unread.is_no_gpu(), "{unread}");
    assert!(unread.to_string().contains("525 series"), "{unread}");
}

#[test]
fn too_little_memory_is_told_with_what_it_was_for() {
    let gpu = Gpu::open(&spec("NO_MEMORY", PacketPlacement::ZeroCopy)).unwrap();
    let setup = KernelSetup { slots: 1024, ..KernelSetup::default() };
    let error = Persistent::new(gpu, &RouterProgram::forward(forward()), setup).err().unwrap();
    let RouterError::Memory { what, bytes, .. } = &error else { panic!("{error}") };
    assert_eq!((what.as_str(), *bytes), ("tbl24", 32 << 20));
    assert!(error.to_string().contains("bytes are free"), "{error}");
}

#[test]
fn a_kernel_that_does_not_answer_is_given_up_within_its_deadline() {
    let deadline = Duration::from_millis(200);
    let gpu = Gpu::open(&spec("SILENT_KERNEL", PacketPlacement::ZeroCopy)).unwrap();
    let setup = KernelSetup { slots: 1024, deadline, ..KernelSetup::default() };
    let mut backend = Persistent::new(gpu, &RouterProgram::forward(forward()), setup).unwrap();
    let asked = Instant::now();
    let error = route(&mut Made { next: 0, end: 64 }, &mut backend, &mut Kept::default(), &RouteOptions::default());
    let error = error.unwrap_err();
    assert!(matches!(error, RouterError::Silent { backend: "cuda", uncommitted: 2, .. }), "{error}");
    let error = backend.stop().unwrap_err();
    assert!(matches!(error, RouterError::Stuck { backend: "cuda", .. }), "{error}");
    drop(backend);
    assert!(asked.elapsed() < 20 * deadline, "{:?}", asked.elapsed());
}

#[test]
fn a_batch_that_does_not_end_is_given_up_within_its_deadline() {
    let deadline = Duration::from_millis(200);
    let spec = spec("SILENT_BATCH", PacketPlacement::default());
    let asked = Instant::now();
    let program = RouterProgram::forward(forward());
    let mut backend =
        KernelBatch::new(Gpu::open(&spec).unwrap(), &program, BatchMode::Streams, 32, 1024, 256, deadline).unwrap();
    let error = route(&mut Made { next: 0, end: 64 }, &mut backend, &mut Kept::default(), &RouteOptions::default());
    let error = error.unwrap_err();
    assert!(matches!(error, RouterError::Silent { backend: "cuda streams", .. }), "{error}");
    drop(backend);
    assert!(asked.elapsed() < 30 * deadline, "{:?}", asked.elapsed());
}

#[test]
fn a_kernel_that_fails_is_told_by_its_error() {
    let gpu = Gpu::open(&spec("FAILING_KERNEL", PacketPlacement::ZeroCopy)).unwrap();
    let setup = KernelSetup { slots: 1024, ..KernelSetup::default() };
    let mut backend = Persistent::new(gpu, &RouterProgram::forward(forward()), setup).unwrap();
    let error = route(&mut Made { next: 0, end: 64 }, &mut backend, &mut Kept::default(), &RouteOptions::default());
    let error = error.unwrap_err();
    assert!(matches!(error, RouterError::Driver { code: 719, .. }), "{error}");
}

#[test]
fn the_bus_is_timed_and_who_does_not_answer_is_given_up() {
    let on = |behaviour: &str, deadline| {
        let context = GpuContext::open(Some(&driver(behaviour).to_string_lossy()), 0).unwrap();
        measure_link(&context, 100, 50, deadline)
    };
    let times = on("SOUND", DEADLINE).unwrap();
    // How long each takes on a host that is busy says nothing.
    let parts = [[times.word_ns; 3], times.asked_ns, times.handed_on_ns];
    assert!(parts.as_flattened().iter().all(|ns| ns.is_finite() && *ns > 0.0), "{times:?}");
    assert_eq!(times.echo.unwrap().packets, 50, "each count came back");
    let asked = Instant::now();
    let error = on("SILENT_KERNEL", Duration::from_millis(200)).unwrap_err();
    assert!(matches!(error, RouterError::Silent { backend: "cuda", .. }), "{error}");
    assert!(asked.elapsed() < DEADLINE, "{:?}", asked.elapsed());
    let error = on("FAILING_KERNEL", DEADLINE).unwrap_err();
    assert!(matches!(error, RouterError::Driver { code: 719, .. }), "{error}");
}

#[test]
fn only_auto_falls_back_to_the_cpu_and_says_so() {
    let run = |backend, driver: &Path| {
        let driver = Some(driver.to_string_lossy().into_owned());
        let (packets, deadline_s) = (Some(1000), Some(20.0));
        let spec = RouterSpec { backend, driver, packets, deadline_s, table: table(), ..RouterSpec::default() };
        router::setup::run(&spec)
    };
    let nowhere = Path::new("libcuda_nowhere.so.1");
    let error = run(Choice::Cuda, nowhere).unwrap_err();
    assert!(matches!(error, RouterError::NoDriver { .. }), "{error}");
    let routed = run(Choice::Auto, nowhere).unwrap();
    assert_eq!((routed.report.backend, routed.report.packets), ("cpu", 1000));
    assert!(routed.notes.iter().any(|note| note.contains("cpu is used in its place")), "{:?}", routed.notes);
    let routed = run(Choice::Auto, &driver("SOUND")).unwrap();
    assert_eq!(routed.report.backend, "cuda");
    // A GPU that is there and fails is no reason to go on without.
    let error = run(Choice::Auto, &driver("BAD_PTX")).unwrap_err();
    assert!(matches!(error, RouterError::Driver { code: 222, .. }), "{error}");
}

#[test]
fn every_mode_gives_the_same_verdicts() {
    let library = Some(driver("SOUND").to_string_lossy().into_owned());
    let run = |backend, mode| {
        let spec = RouterSpec {
            backend,
            mode,
            driver: library.clone(),
            packets: Some(20_000),
            ordered: true,
            verify_checksum: true,
            deadline_s: Some(20.0),
            table: table(),
            ..RouterSpec::default()
        };
        let routed = router::setup::run(&spec).unwrap();
        assert_eq!(routed.report.reordered, 0);
        (routed.report.forwarded, routed.report.dropped, routed.report.ports)
    };
    let cpu = run(Choice::Cpu, GpuMode::default());
    assert!(cpu.0 > 15_000);
    assert_eq!(run(Choice::Twin, GpuMode::default()), cpu, "twin");
    for mode in [GpuMode::ZeroCopy, GpuMode::Resident, GpuMode::Batch, GpuMode::Streams, GpuMode::Graph] {
        assert_eq!(run(Choice::Cuda, mode), cpu, "{mode:?}");
    }
}

#[test]
fn a_run_has_the_commit_and_the_warps_that_it_is_told() {
    let run = |commit, warps_per_core| {
        let spec = RouterSpec {
            backend: Choice::Cuda,
            driver: Some(driver("SOUND").to_string_lossy().into_owned()),
            packets: Some(3_000),
            ordered: true,
            commit,
            warps_per_core,
            deadline_s: Some(20.0),
            table: table(),
            ..RouterSpec::default()
        };
        router::setup::run(&spec).map(|routed| (routed.report.reordered, routed.report.forwarded))
    };
    let usual = run(None, None).unwrap();
    assert!(usual.0 == 0 && usual.1 > 2_000, "{usual:?}");
    assert_eq!(run(Some(Commit::Host), Some(2)).unwrap(), usual);
    let error = run(None, Some(64)).unwrap_err().to_string();
    assert!(error.contains("warps a core = 64"), "{error}");
    let error = run(Some(Commit::Unordered), None).unwrap_err().to_string();
    assert!(error.contains("commit = unordered"), "{error}");
}

#[test]
fn chains_and_inspection_have_kernels_of_their_own_in_every_mode() {
    let library = Some(driver("SOUND").to_string_lossy().into_owned());
    let run = |backend, mode, function: &str, method| {
        let spec = RouterSpec {
            backend,
            mode,
            function: FunctionNames::try_from(String::from(function)).unwrap(),
            method,
            driver: library.clone(),
            packets: Some(3_000),
            ordered: true,
            deadline_s: Some(20.0),
            table: table(),
            ..RouterSpec::default()
        };
        let report = router::setup::run(&spec).unwrap().report;
        // Threads tell the time of each, too.
        let chain: Vec<_> = report.chain.into_iter().map(|of| (of.name, of.packets, of.dropped)).collect();
        (report.forwarded, report.dropped, report.ports, chain)
    };
    for (function, method) in [("inspect", Method::Bloom), ("check,inspect,lookup,ttl", Method::AhoCorasick)] {
        let cpu = run(Choice::Cpu, GpuMode::default(), function, method);
        for mode in [GpuMode::ZeroCopy, GpuMode::Resident, GpuMode::Batch, GpuMode::Graph] {
            assert_eq!(run(Choice::Cuda, mode, function, method), cpu, "{function}, {mode:?}");
        }
    }
}

#[test]
fn a_probe_tries_the_kernel_that_stays() {
    let library = |behaviour: &str| driver(behaviour).to_string_lossy().into_owned();
    let offer = router::cuda::probe(Some(&library("SOUND"))).unwrap();
    let round_trip = offer.round_trip.unwrap();
    assert!(offer.name == "made GPU" && round_trip.packets == 1000 && round_trip.p50_us > 0.0, "{offer:?}");
    let error = router::cuda::probe(Some(&library("SILENT_KERNEL"))).unwrap_err();
    assert!(matches!(error, RouterError::Silent { .. }) && !error.is_no_gpu(), "{error}");
}

#[test]
fn a_benchmark_has_every_mode_at_every_batch_and_finds_every_verdict_right() {
    let spec = BenchSpec {
        batches: vec![32, 256],
        shares: vec![0.5],
        packets: 2048,
        threads: vec![2],
        driver: Some(driver("SOUND").to_string_lossy().into_owned()),
        deadline_s: 20.0,
        table: table(),
        ..BenchSpec::default()
    };
    let mut points = Vec::new();
    let done = bench(&spec, |point| {
        points.push(point.clone());
        true
    });
    let done = done.unwrap();
    assert_eq!((done.gpu.as_deref(), done.points), (Some("made GPU"), points.len()));
    let modes = BenchMode::ALL.map(|(name, _)| name);
    // All of the larger batch first: it is the one in the middle.
    let at = |batch| modes.iter().map(move |&mode| (mode, batch));
    let expected = at(256).chain(at(32)).chain(at(256)).chain(at(32));
    assert!(points.iter().map(|point| (point.mode, point.batch)).eq(expected), "{points:?}");
    for point in &points {
        assert_eq!((point.wrong, point.packets), (0, 2048), "{point:?}");
        assert_eq!(point.mean_us.is_some(), point.offered_mpps.is_some(), "{point:?}");
        assert_eq!(point.csv().split(',').count(), BenchPoint::COLUMNS.split(',').count());
    }
}

#[test]
fn a_benchmark_has_every_commit_and_every_number_of_warps_of_the_kernels_that_stay() {
    let spec = BenchSpec {
        function: FunctionNames::try_from(String::from("ttl")).unwrap(),
        modes: vec![BenchMode::ZeroCopy, BenchMode::Resident],
        commits: Commit::ALL.iter().map(|&(_, commit)| commit).collect(),
        warps_per_core: vec![None, Some(2), Some(3), Some(64)],
        batches: vec![32],
        shares: vec![],
        packets: 2048,
        driver: Some(driver("SOUND").to_string_lossy().into_owned()),
        deadline_s: 20.0,
        table: table(),
        ..BenchSpec::default()
    };
    let (mut seen, mut failures) = (Vec::new(), Vec::new());
    let each = |point: &BenchPoint| {
        assert_eq!((point.wrong, point.device.as_str()), (0, "made GPU"), "{point:?}");
        seen.push((point.mode, point.commit.unwrap(), point.warps_per_core.unwrap()));
        true
    };
    bench_past(&spec, each, |what, error| {
        failures.push(format!("{what}: {error}"));
        Ok(())
    })
    .unwrap();
    let expected = ["zero_copy", "resident"].into_iter().flat_map(|mode| {
        Commit::ALL.into_iter().flat_map(move |(_, commit)| [4, 2, 3].map(|warps| (mode, commit, warps)))
    });
    assert!(seen.len() == 18 && expected.into_iter().all(|one| seen.contains(&one)), "{seen:?}");
    // More than fit is refused, and the others are measured.
    assert!(failures.len() == 6 && failures[0].contains("warps a core"), "{failures:?}");
}

#[test]
fn threads_and_a_gpu_are_measured_together_at_each_share_and_by_cost() {
    let spec = BenchSpec {
        packets: 1 << 12,
        driver: Some(driver("SOUND").to_string_lossy().into_owned()),
        deadline_s: 20.0,
        table: table(),
        ..BenchSpec::default()
    };
    let shares = vec![None, Some(0.0), Some(1.0)];
    let compared = SharesSpec { threads: 1, shares, runs: 2, packets: 4096, batch: 64 };
    let mut points = Vec::new();
    bench_shares(&spec, &compared, |point| points.push(point.clone())).unwrap();
    assert_eq!(points.len(), 6);
    for point in &points {
        assert!(point.mpps > 0.0 && point.reordered == 0 && point.forwarded == points[0].forwarded, "{point:?}");
        let expected = point.share.unwrap_or(point.of_gpu);
        assert!(point.of_gpu == expected && (0.0..=1.0).contains(&expected), "{point:?}");
    }
    assert!(points[0].forwarded > 0);
}

#[test]
fn repeats_tell_how_many_tasks_a_round_asked_for() {
    let spec = BenchSpec {
        modes: vec![BenchMode::ZeroCopy],
        rounds: ["32", "32-128"].map(|text| RoundTasks::parse(text).unwrap()).into(),
        batches: vec![32],
        packets: 1 << 12,
        driver: Some(driver("SOUND").to_string_lossy().into_owned()),
        deadline_s: 20.0,
        table: table(),
        ..BenchSpec::default()
    };
    let mut lines: Vec<String> = Vec::new();
    let repeats = RepeatSpec { allocations: 1, runs: 2, cores: Vec::new() };
    bench_repeats(&spec, &repeats, |line| lines.push(line.into())).unwrap();
    let columns: Vec<Vec<&str>> = lines.iter().map(|line| line.split(',').collect()).collect();
    assert!(columns.len() == 4 && columns.iter().all(|cells| cells.len() == REPEAT_COLUMNS.split(',').count()));
    let rounds: Vec<_> = columns.iter().map(|cells| (cells[3], cells[4])).collect();
    assert_eq!(rounds, [("32", "32"), ("32", "32"), ("32", "128"), ("32", "128")]);
    for bad in ["16", "128-32", "32-", "x"] {
        assert!(RoundTasks::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_benchmark_ends_in_its_time_and_says_so() {
    let names = |name: &str| FunctionNames::try_from(String::from(name)).unwrap();
    let spec = BenchSpec {
        function: names("ttl"),
        further: vec![names("check")],
        // More than a second of arrivals at the slowest.
        packets: 1 << 16,
        threads: vec![1],
        cpu_only: true,
        table: table(),
        seconds: Some(1.0),
        shares: vec![0.001; 50],
        ..BenchSpec::default()
    };
    let begun = Instant::now();
    let done = bench(&spec, |_| true).unwrap();
    // Making the table and the packets counts, and the point at which the time is up is measured to its end.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!(done.points < 918, "{done:?}");
    let note = done.notes.last().unwrap();
    assert!(note.ends_with("of 918 points were measured"), "{note}");
}

#[test]
fn the_shipped_kernels_have_both_entries_and_no_single_byte_loads() {
    for entry in [
        ".entry persistent(",
        ".entry batch(",
        ".entry persistent_any(",
        ".entry batch_any(",
        ".entry batch_gathered(",
        ".entry link(",
        ".version 8.0",
    ] {
        assert!(PTX.contains(entry), "{entry}");
    }
    for width in ["u8", "s8", "b8"] {
        let bytes = PTX.lines().filter(|line| line.contains("global") && line.contains(&format!(".{width} "))).count();
        assert_eq!(bytes, 0, "single-byte accesses of global memory");
    }
    assert!(!PTX.contains(".local"), "local memory: registers were indexed by a variable");
}

/// Packet `number` of all kinds: IPv4 and IPv6 with and without a tag, whole and cut short, and what is neither.
fn odd_packet(number: u64) -> Packet {
    let mut frame = crate::made::packet(number).data.clone();
    let n = number / 8;
    if matches!(number % 8, 3 | 7) {
        let destination = [[0x20, 1, 0xd, 0xb8, 0, 0, 0, n as u8 & 1], [0x20, 2, 0, 0, 0, 0, 0, 0], [0xff; 8], [0; 8]];
        frame.truncate(12);
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8 + 40 * (n % 9 == 8) as u8, 17, [64, 1, 0, 2][n as usize % 4]]);
        frame.extend([0x20, 1, 0xd, 0xb8, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame.extend(destination[n as usize % 7 % 4]);
        frame.extend([0, 0, 0, 0, 0, 0, 0, 5 + (n % 3) as u8]);
        frame.extend([0x55; 8]);
    }
    match number % 8 {
        // A tag.
        4 | 7 => drop(frame.splice(12..12, [0x81, 0, 0, 7])),
        // Another version than the EtherType's, a header that is too short, a packet that is longer than its frame.
        2 => frame[14] = [0x45, 0x65, 0x42, 0x46][n as usize % 4],
        5 => frame.truncate(14 + n as usize % 24),
        6 => frame[12..14].copy_from_slice(&[8, [0, 6][n as usize % 2]]),
        _ => {}
    }
    let mut packet = Packet { id: PacketId(number), port: PortId((n % 3) as u16), ..Packet::default() };
    packet.set_frame(&frame, frame.len() as u32);
    packet
}
