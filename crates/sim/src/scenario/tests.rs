use std::path::PathBuf;

use machine::memory::Ways;
use units::Rate;

use super::presets::{DRIVERS, PROCESSORS, PROGRAMS};
use super::*;

fn read(text: &str, set: &[&str]) -> Result<Scenario, ScenarioError> {
    let set = set.iter().map(|s| s.to_string()).collect();
    Scenario::read(text, "test.toml", &Overrides { set, ..Overrides::default() })
}

#[test]
fn every_shipped_machine_and_scenario_is_valid() {
    for machine in MACHINES {
        let s = read(&format!("[machine]\npreset = {:?}", machine.name), &[]).unwrap();
        machine::memory::Hierarchy::new(&s.machine.memory(), s.machine.cores, "machine").unwrap();
        assert!(!s.machine.name.is_empty());
        assert!(machine.title().len() > 10, "{}", machine.name);
    }
    for scenario in SCENARIOS {
        read(scenario.text, &[]).unwrap();
        assert!(scenario.title().len() > 10, "{}", scenario.name);
    }
}

#[test]
fn a_title_tells_what_was_changed_and_whose_traffic_it_is() {
    let forwarding = find(SCENARIOS, "forwarding").unwrap().text;
    let name = |text: &str, origin: &str, set: &[&str], capture: Option<&str>| {
        let set = set.iter().map(|s| s.to_string()).collect();
        let overrides = Overrides { set, capture: capture.map(PathBuf::from), ..Overrides::default() };
        Scenario::read(text, origin, &overrides).unwrap().name
    };
    let shipped = name(forwarding, "forwarding", &[], None);
    assert_eq!(name(forwarding, "forwarding", &["run.packets=5000", "run.seed=3"], None), shipped);
    let changed = name(forwarding, "forwarding", &["machine.llc.ways=8", "traffic.rate=40 Gbps"], None);
    assert_eq!(changed, format!("{shipped} (machine.llc.ways=8, traffic.rate=40 Gbps)"));
    assert_eq!(name(forwarding, "forwarding", &[], Some("a/b.pcap")), "forwarding (traffic.capture=b.pcap)");
    assert_eq!(name("name = \"mine\"", "mine.toml", &[], Some("b.pcap")), "mine (traffic.capture=b.pcap)");
    assert_eq!(name(forwarding, "forwarding", &["name=other", "nic.burst=8"], None), "other");
    let switched = name(forwarding, "forwarding", &["machine.copy_table={}"], None);
    assert_eq!(switched, format!("{shipped} (machine.copy_table={{}})"));
    let many = ["nic.burst=8", "nic.ports=1", "nic.fifo=1 MiB", "mempool.cache=64"];
    assert!(name(forwarding, "forwarding", &many, None).ends_with(" and 1 more)"));
    // What is changed again is told once.
    let again = |title: &str, set: &[&str]| name(&format!("name = '{title}'"), "summary.json", set, None);
    assert_eq!(again("a b (nic.burst=8)", &["nic.burst=16"]), "a b (nic.burst=16)");
    let told = |title: &str, set: &[&str]| {
        let text =
            format!("name = '{title}'\nnic = {{ burst = 8, ports = 1, fifo = '1 MiB' }}\nmempool = {{ cache = 64 }}");
        name(&text, "summary.json", set, None)
    };
    assert_eq!(told("a (nic.burst=8, nic.ports=1)", &["nic.burst=16"]), "a (nic.burst=16, nic.ports=1)");
    let list = "a (nic.fifo=[64, 1500], nic.ports=1, nic.burst=2 and 4 more)";
    assert_eq!(told(list, &["mempool.cache=32"]), "a (mempool.cache=32, nic.fifo=[64, 1500], nic.ports=1 and 5 more)");
    assert_eq!(told("my (old) box (nic.burst=8)", &["nic.burst=16"]), "my (old) box (nic.burst=16)");
    // A title's own words stay.
    for own in ["a (of 2026)", "a (nic.burst=8, as in 2019)", "a (rev=2, site=B)", "a (nic.burst=8 and no more)"] {
        assert_eq!(told(own, &["nic.burst=16"]), format!("{own} (nic.burst=16)"));
    }
}

#[test]
fn a_machine_of_a_result_is_named_by_what_it_has_now() {
    let read = |text: &str, set: &[&str]| {
        let overrides = Overrides { set: set.iter().map(|s| s.to_string()).collect(), ..Overrides::default() };
        Scenario::read(text, "summary.json", &overrides).unwrap()
    };
    let first = read("", &["machine.cores=2"]);
    assert!(first.machine.name.ends_with(" with cores=2"), "{}", first.machine.name);
    let resolved = first.to_toml();
    assert_eq!(read(&resolved, &[]).machine.name, first.machine.name);
    let again = read(&resolved, &["machine.cores=3"]).machine.name;
    assert_eq!(again, first.machine.name.replace("cores=2", "cores=3"));
    let nic = read("", &["nic.model=82599"]);
    let other = read(&nic.to_toml(), &["nic.model=connectx-5"]).machine.name;
    assert!(!other.contains("82599"), "{other}");
    // A name of one's own stays, whatever it looks like.
    for own in [" with two fans", " with turbo=off"] {
        let text = resolved.replace(&first.machine.name, &first.machine.name.replace(" with cores=2", own));
        assert!(read(&text, &["machine.cores=3"]).machine.name.ends_with(own));
    }
    assert_eq!(read("", &["machine.name=mine", "machine.cores=3"]).machine.name, "mine");
}

#[test]
fn a_capture_and_a_profile_are_one_or_the_other() {
    let read = |text: &str, set: &[&str], capture: Option<&str>| {
        let set = set.iter().map(|s| s.to_string()).collect();
        let overrides = Overrides { set, capture: capture.map(PathBuf::from), ..Overrides::default() };
        Scenario::read(text, "own.toml", &overrides).map(|s| s.traffic).map_err(|e| e.to_string())
    };
    let both =
        "given with traffic.capture: allowed is one of them: a capture brings its own packets (remove the other)";
    for (set, key) in [
        ("traffic.sizes={fixed=\"64 B\"}", "sizes"),
        ("traffic.payload=text", "payload"),
        ("traffic.phases=[{time=\"1 ms\"}]", "phases"),
    ] {
        assert_eq!(read("", &[set], Some("b.pcap")).unwrap_err(), format!("own.toml: traffic.{key}: {both}"));
    }
    let text = "traffic = { capture = \"b.pcap\", profile = \"imix\" }";
    assert_eq!(read(text, &[], None).unwrap_err(), format!("own.toml: traffic.profile: {both}"));
    // What comes later replaces what the file has.
    let own = "traffic = { profile = \"imix\", payload = \"text\", phases = [{ time = \"1 ms\" }] }";
    assert!(read(own, &[], Some("b.pcap")).unwrap().phases.is_empty());
    let found = read("traffic = { profile = \"imix\" }", &["traffic.capture=b.pcap"], None).unwrap();
    assert_eq!((found.profile, found.capture), (None, Some("b.pcap".into())));
    let found = read("traffic = { capture = \"b.pcap\" }", &["traffic.profile=imix"], None).unwrap();
    assert_eq!((found.profile, found.capture), (Some("imix".into()), None));
    assert!(read("", &["traffic.arrivals=poisson"], Some("b.pcap")).unwrap().arrivals.is_some());
}

#[test]
fn a_capture_keeps_the_gaps_of_a_users_file_and_tells_what_it_takes_the_place_of() {
    let read = |origin: &str, set: &[&str], capture: Option<&str>| {
        let text = "traffic = { profile = \"imix\", flows = { count = 5 }, arrivals = \"poisson\" }";
        let set = set.iter().map(|s| s.to_string()).collect();
        let overrides = Overrides { set, capture: capture.map(PathBuf::from), ..Overrides::default() };
        Scenario::read(text, origin, &overrides).unwrap()
    };
    for (set, capture) in [(&[][..], Some("b.pcap")), (&["traffic.capture=b.pcap"], None)] {
        let own = read("mine.toml", set, capture);
        assert!(own.traffic.arrivals.is_some());
        let notes = own.idle_settings();
        assert!(notes[0].contains("mine.toml") && notes[0].contains("profile = \"imix\", flows = {"), "{notes:?}");
        let shipped = read("forwarding", set, capture);
        assert!(shipped.traffic.arrivals.is_none());
        assert_eq!(shipped.idle_settings(), Vec::<String>::new());
    }
}

#[test]
fn what_is_said_twice_is_refused() {
    let read = |overrides: Overrides| Scenario::read("", "own.toml", &overrides).unwrap_err().to_string();
    let set = |set: &[&str]| Overrides { set: set.iter().map(|s| s.to_string()).collect(), ..Overrides::default() };
    for (overrides, path, option) in [
        (
            Overrides { table: Some("a".into()), ..set(&["function.forward.table=b"]) },
            "function.forward.table",
            "--table",
        ),
        (Overrides { seed: Some(3), ..set(&["run.seed=4"]) }, "run.seed", "--seed"),
        (Overrides { search: Some(RateSearch::Ndr), ..set(&["run.search=pdr"]) }, "run.search", "--search"),
        (set(&["traffic.capture=a.pcap", "traffic.profile=isp"]), "traffic.capture", "--set traffic.profile"),
    ] {
        let allowed = "allowed is one of them (remove the other)";
        assert_eq!(read(overrides), format!("--set: {path}: given with {option}: {allowed}"));
    }
}

#[test]
fn a_table_without_a_lookup_is_told_of() {
    let idle = |set: &[&str]| read("", set).unwrap().idle_settings();
    assert_eq!(idle(&["function.forward.table=t"]), Vec::<String>::new());
    assert!(idle(&["function.forward.table=t", "function.kind=nat"])[0].ends_with("only says where made packets go"));
    let left = idle(&["function.forward.table=t", "function.kind=nat", "traffic.capture=a.pcap"]);
    assert!(left[0].ends_with("it has nothing to do"));
}

/// Settings that a server may have, with what each needs beside it; the first line is what it is known by.
const FEATURES: &[&[&str]] = &[
    &["machine.copy_engine = { by = \"dma\" }"],
    &["machine.copy_engine = { by = \"controller\", retires = \"sync\" }"],
    &["machine.copy_engine = { by = \"non-temporal\" }"],
    &["machine.copy_table = {}"],
    &["machine.dram.controller = {}", "machine.dram.standard = \"ddr4-2400u\""],
    &["machine.llc.coherence = \"snoop\"", "machine.llc.slices = 4", RING],
    &["machine.sockets = { count = 2, hop = \"60 ns\", rate = \"166 Gbps\" }"],
    &["machine.applications.tables = {}"],
    &["machine.applications.tables.skip = {}"],
    &["machine.applications.tables.bypass = true"],
    &["machine.applications.tables.llc = false"],
    &["machine.llc.inclusion = \"inclusive\""],
    &["machine.llc.inclusion = \"victim\""],
    &["machine.llc.inclusive_ways = 1"],
    &["neighbours = [{ kind = \"storage\", rate = \"1 GB/s\", dca = false }]"],
    &["machine.stacked = {}"],
    &["machine.iommu = { mode = \"on\" }"],
    &["machine.iommu = { mode = \"strict\", iotlb_entries = 32 }", "mempool.element = \"4096 B\""],
    &["machine.gpu = { preset = \"jetson-orin\", attached = \"integrated\" }", "mempool.size = 65536"],
    &["machine.gpu = { preset = \"jetson-orin\", attached = \"discrete\" }", "mempool.size = 65536"],
    &["machine.gpu.coherent = false", "machine.gpu.preset = \"jetson-orin\"", "mempool.size = 65536"],
    &["machine.gpu.posting = \"persistent\"", "machine.gpu.preset = \"jetson-orin\"", "mempool.size = 65536"],
    &["machine.clos.1.ways = 2"],
    &["machine.clos.0.ways = 2"],
    &["machine.llc.core_ways = 3"],
    &["policy = {}"],
    &["pipeline.rx_cores = 1"],
    &["nic.cache_cells = 4"],
    &["nic.drop_dead = true"],
    &["nic.payload_memory = {}"],
    &["nic.elastic = {}"],
    &["nic.elastic.credits = {}"],
    &["nic.rings = \"shared\"", "nic.driver.rx_completion = 32"],
    &["nic.rings = \"bisected\"", "nic.driver.rx_completion = 32"],
    &["nic.targets = { header = \"l2\" }"],
    &["buffer = {}"],
    &["mempool.start = { near_slice = 8 }", "machine.llc.slices = 4", RING],
    &["function.copy = {}"],
    &["function.socket = {}"],
    &["function.kind = \"nat\""],
    &["function.kind = \"lookup\""],
    &["function.kind = \"chain\"", "function.chain = [\"check\", \"lookup\"]"],
    &["run.trace = {}"],
    &["run.sampling = {}"],
    &["traffic.load = 0.5"],
    &["traffic.rate = \"10 Gbps\""],
    &["traffic.packet_rate = \"1 Mpps\""],
    &["traffic.speed = 1.0", CAPTURE],
    &[CAPTURE],
    &["traffic.profile = \"imix\""],
    &["traffic.sizes = { fixed = \"64 B\" }"],
    &["traffic.mix = { tcp = 0.5, ipv6 = 0.1 }"],
    &["traffic.flows = { count = 5 }"],
    &["traffic.payload = \"text\""],
    &["traffic.phases = [{ time = \"1 ms\" }]"],
];
const RING: &str = "machine.llc.interconnect = { topology = \"ring\", hop = \"0.5 ns\" }";
const CAPTURE: &str = "traffic.capture = \"a.pcap\"";

/// Whether `settings` have what `setting` is of, as they are written.
fn says(settings: &toml::Value, setting: &machine::memory::ExcludedSetting) -> bool {
    let mut at = vec![settings];
    for key in setting.path.split('.') {
        at = at
            .into_iter()
            .filter_map(toml::Value::as_table)
            .flat_map(|table| {
                table.iter().filter(|(name, _)| key == "*" || key == name.as_str()).map(|(_, value)| value)
            })
            .collect();
    }
    let word = |value: &&toml::Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    if setting.is.is_empty() { !at.is_empty() } else { at.iter().map(word).any(|word| setting.is.contains(&&*word)) }
}

#[test]
fn any_two_features_go_together_but_for_what_the_table_of_exclusions_has() {
    let (mut pairs, mut told) = (0, std::collections::HashSet::new());
    for (i, one) in FEATURES.iter().enumerate() {
        for other in &FEATURES[i + 1..] {
            let key = |line: &str| line.split(" = ").next().unwrap().to_string();
            let mut lines: Vec<&str> = one.iter().chain(*other).copied().collect();
            lines.sort_unstable();
            lines.dedup();
            let (first, second) = (key(one[0]), key(other[0]));
            // Two values of one setting.
            if lines.iter().enumerate().any(|(n, line)| lines[..n].iter().any(|before| key(before) == key(line)))
                || format!("{second}.").starts_with(&format!("{first}."))
                || format!("{first}.").starts_with(&format!("{second}."))
            {
                continue;
            }
            let text = lines.join("\n");
            let settings: toml::Value = toml::from_str(&text).unwrap();
            let expected: Vec<_> =
                exclusions::all().filter(|pair| says(&settings, &pair.one) && says(&settings, &pair.other)).collect();
            let found = read(&format!("machine.cores = 4\n{text}"), &[]).map_err(|e| e.to_string());
            match found {
                Ok(_) => assert_eq!(expected, [], "{text}"),
                Err(message) => {
                    assert_eq!(message.lines().count(), expected.len(), "{text}\n{message}");
                    for pair in expected {
                        let why = format!("allowed is one of them: {} ({})", pair.reason, pair.remedy);
                        assert!(message.contains(&why), "{text}\n{message}");
                        told.insert((pair.one.path, pair.one.is, pair.other.path));
                    }
                }
            }
            pairs += 1;
        }
    }
    assert!(pairs > 900, "{pairs}");
    // Each row was met.
    let all: std::collections::HashSet<_> =
        exclusions::all().map(|pair| (pair.one.path, pair.one.is, pair.other.path)).collect();
    assert_eq!(all.difference(&told).collect::<Vec<_>>(), Vec::<&_>::new());
}

#[test]
fn functions_without_a_form_for_a_warp_and_those_with_one_are_all_of_them() {
    let schema: serde_json::Value = serde_json::from_str(&Scenario::schema()).unwrap();
    let all: std::collections::BTreeSet<&str> = schema["$defs"]["FunctionKind"]["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|kind| kind["const"].as_str())
        .collect();
    let with: Vec<String> = super::gpu_checks::for_warps();
    let others = exclusions::NOT_FOR_WARPS.is.iter().copied().chain(["chain"]);
    let of_both: std::collections::BTreeSet<&str> = with.iter().map(String::as_str).chain(others).collect();
    assert_eq!(of_both, all);
    assert!(with.iter().all(|kind| exclusions::NO_FORM_FOR_A_WARP.1.contains(kind.as_str())));
    assert!(all.iter().all(|kind| *kind == "forward" || exclusions::NOT_FORWARDING.is.contains(kind)));
}

#[test]
fn a_copy_engine_without_copies_is_told_of() {
    let idle = |set: &[&str]| read("", set).unwrap().idle_settings();
    assert_eq!(idle(&[]), Vec::<String>::new());
    assert!(idle(&["machine.copy_table={}"])[0].starts_with("machine.copy_table has nothing to do"));
    assert!(idle(&["machine.copy_engine={by=\"dma\"}"])[0].starts_with("machine.copy_engine has nothing to do"));
    assert_eq!(idle(&["machine.copy_table={}", "function.copy={}"]), Vec::<String>::new());
}

#[test]
fn flushing_for_a_gpu_that_is_coherent_is_told_of() {
    let with = |set: &str| {
        let all = ["machine.gpu.preset=mi300a", set];
        read("", &all).unwrap().idle_settings()
    };
    let tells = |set: &str| with(set).iter().any(|note| note.starts_with("machine.gpu.flush has nothing to do"));
    assert!(tells("machine.gpu.flush=\"20 ns\""), "{:?}", with("machine.gpu.flush=\"20 ns\""));
    assert!(!tells("machine.gpu.coherent=true"));
}

#[test]
fn ages_and_masks_that_nobody_looks_at_are_told_of() {
    let idle = |set: &[&str]| read("", set).unwrap().idle_settings();
    assert!(idle(&["machine.llc.core_age=1"])[0].starts_with("machine.llc.core_age and io_age have nothing to do"));
    assert!(idle(&["machine.llc.io_age=0"])[0].starts_with("machine.llc.core_age and io_age have nothing to do"));
    assert!(idle(&["machine.llc.io_age=0", "machine.llc.replacement=age"]).is_empty());
    assert!(idle(&["machine.llc.io_age=0", "machine.llc.replacement=age_random"]).is_empty());
    assert!(idle(&["machine.llc.core_ways=2"]).is_empty());
}

#[test]
fn the_energy_of_every_machine_is_known_or_its_standard_has_no_currents() {
    for machine in MACHINES {
        let s = read("", &[&format!("machine.preset={}", machine.name)]).unwrap();
        let named = s.machine.dram.of_currents().unwrap_or_else(|| panic!("{} names no currents", machine.name));
        let standard = machine::dram::presets::preset(named).unwrap();
        let known = s.machine.dram.energy("machine.dram").unwrap().is_some();
        assert_eq!(known, standard.currents.is_some(), "{}", machine.name);
        assert_eq!(known, !named.starts_with("ddr5"), "{}", machine.name);
    }
}

#[test]
fn the_devices_of_every_processor_have_its_data_rate() {
    // DDR4-1866, which is no shipped standard.
    let known = PROCESSORS.iter().filter(|part| part.name != "xeon-e5-2620-v3");
    let named = known.filter_map(|part| {
        let dram = read("", &[&format!("machine.processor={}", part.name)]).unwrap().machine.dram;
        let devices = machine::dram::DramSpec::of_standard(dram.of_currents()?, dram.overhead).unwrap();
        let (own, theirs) = (dram.t_burst.ps().as_ns(), devices.t_burst.ps().as_ns());
        assert!((own / theirs - 1.0).abs() < 0.01, "{}: a burst of {own} ns, of its devices {theirs} ns", part.name);
        Some(part.name)
    });
    assert!(named.count() > 20);
}

#[test]
fn controllers_need_no_more_than_a_standard_and_read_back_equal() {
    let s = read("", &["machine.dram.standard=ddr4-3200aa", "machine.dram.controller.order=fcfs"]).unwrap();
    assert_eq!(read(&s.to_toml(), &[]).unwrap(), s);
    machine::memory::Hierarchy::new(&s.machine.memory(), 1, "machine").unwrap();
}

#[test]
fn what_is_resolved_reads_back_equal() {
    let s = read("[traffic]\nrate = \"40 Gbps\"", &["machine.llc.ways=8", "nic.rx_descriptors=256"]).unwrap();
    assert_eq!((s.machine.llc.ways, s.nic.rx_descriptors), (8, 256));
    // The preset's two I/O ways of eleven are the top two of eight; a mask that is given stays.
    assert_eq!(s.machine.llc.io_ways.highest("", 8), Ok(units::Cbm(0b1100_0000)));
    // 8 of 11 ways of 24.75 MiB; it is told of.
    assert_eq!(s.machine.llc.size, "18 MiB".parse().unwrap());
    assert!(s.idle_settings().iter().any(|note| note.contains("18 MiB in place of 24.75 MiB")));
    let sized = read("", &["machine.llc.ways=8", "machine.llc.size=22.5 MiB"]).unwrap();
    assert_eq!(sized.machine.llc.size, "22.5 MiB".parse().unwrap());
    let one = read("", &["machine.llc.ways=1"]).unwrap();
    assert!(
        one.idle_settings().iter().any(|note| note.contains("machine.llc.io_ways is 1 in place of the machine's 2"))
    );
    let given = read("", &["machine.llc.ways=8", "machine.llc.io_ways=0b11"]).unwrap();
    assert_eq!(given.machine.llc.io_ways, Ways::Mask(units::Cbm(0b11)));
    assert_eq!(read(&s.to_toml(), &[]).unwrap().to_toml(), s.to_toml());
}

#[test]
fn ways_of_cores_are_counted_as_cat_counts_them() {
    let ways = |set: &str| read("", &[set]).map(|s| s.machine.llc.core_ways.unwrap()).map_err(|e| e.to_string());
    assert_eq!(ways("machine.llc.core_ways=8"), Ok(Ways::Count(8)));
    assert_eq!(ways("machine.llc.core_ways=0b110"), Ok(Ways::Mask(units::Cbm(0b110))));
    assert!(ways("machine.llc.core_ways=2047").unwrap_err().contains("write a mask as text: \"0x7ff\""));
    for text in [
        "[machine.llc]\ncore_ways = 0b11",
        "machine.llc.core_ways = 0x3 # two",
        "[machine]\nllc = { slices = 18, \"core_ways\" = 0b11 }",
        "machine.llc.io_ways = 0b11",
        "machine = { name = 'a#b', llc = { 'io_ways' = 0x11 } }",
        "[machine.clos.1]\nways = 0xf",
        "[machine.applications.tables]\nways = 0o17",
    ] {
        let error = read(text, &[]).unwrap_err().to_string();
        assert!(error.contains("ways: 0") && error.contains("a bare number is how many ways"), "{error}");
    }
    let error = read("", &["machine.clos.1={ways=0b11}"]).unwrap_err().to_string();
    assert!(error.starts_with("--set: machine.clos.1.ways: 0b11: a bare number"), "{error}");
    assert!(refuse_counted_masks("[vary]\n\"machine.llc.io_ways\" = [0x1, 0x3]", "study.toml").is_err());
    // Other ways are numbers, and what a text says is none.
    for text in ["machine.l1.ways = 0x8", "machine.llc.ways = 0xb", "policy.io_ways = 0x2", "name = 'io_ways = 0x600'"]
    {
        read(text, &[]).unwrap();
    }
    let named = read("", &["machine.llc.io_ways=0x700"]).unwrap();
    assert!(named.name.contains("io_ways=0x700") && named.machine.name.contains("io_ways="));
    assert_eq!(read(&named.to_toml(), &[]).unwrap(), named);
    let all = read("", &["machine.llc.core_ways=8"]).unwrap();
    assert_eq!((all.machine.llc.size, all.machine.llc.ways), (read("", &[]).unwrap().machine.llc.size, 11));
    assert_eq!(read(&all.to_toml(), &[]).unwrap(), all);
}

#[test]
fn all_faults_are_told_at_once() {
    let text = "[machine]\ncores = \"many\"\n[machine.llc]\nwyas = 3\n[traffic]\nload = 3.0\nspeed = 2.0\n[run]\n\
                packets = \"20 parsecs\"\nloss_limit = 2.0\n[nic]\nburst = 0\nrate = \"100 apples\"\n";
    let error = read(text, &[]).unwrap_err().to_string();
    for path in ["machine.cores", "machine.llc.wyas", "traffic.load", "traffic.speed", "run.packets", "nic.rate"] {
        assert!(error.lines().any(|line| line.contains(&format!(" {path}: "))), "{path} is not in:\n{error}");
    }
    assert!(error.contains(" run.loss_limit: 2") && error.contains("nic.burst = 0"), "{error}");
    // What was well said stays well said.
    assert!(!error.contains("mempool") && error.lines().count() < 12, "{error}");
}

#[test]
fn what_the_machine_cannot_be_built_of_is_told_in_the_same_round() {
    let text = "[machine.llc]\nslices = 65\nio_ways = 12\ncore_ways = \"0b101\"\n[machine.l2]\nways = 0\n\
                [traffic]\nload = 3.0\n";
    let error = read(text, &[]).unwrap_err().to_string();
    for path in
        ["traffic.load", "machine.llc.slices", "machine.llc.io_ways", "machine.llc.core_ways", "machine.l2.ways"]
    {
        assert!(error.contains(path), "{path} in {error}");
    }
    let faults = |text: &str| {
        let error = read(text, &[]).unwrap_err().to_string();
        error
            .lines()
            .map(|line| line.split(['=', ':']).next().unwrap_or_default().trim().to_string())
            .collect::<Vec<_>>()
    };
    let both = "[machine.l1]\nways = 7\n[machine.llc]\nio_ways = 12\ncore_ways = 0\n";
    assert_eq!(faults(both), ["machine.l1.size", "machine.llc.core_ways", "machine.llc.io_ways"]);
    let classes =
        "[machine.clos.1]\nways = 12\n[machine.clos.2]\nways = 13\n[machine.applications.tables]\nways = 14\n";
    let wrong = ["machine.clos.1.ways", "machine.clos.2.ways", "machine.applications.tables.ways"];
    assert_eq!(faults(classes), wrong);
    assert_eq!(faults("machine.llc.ways = 0").len(), 1);
    assert_eq!(faults("[machine.l1]\nsize = \"33 KiB\"\nways = 7\n").len(), 1);
}

#[test]
fn a_number_out_of_range_is_told_what_is_allowed() {
    let error = read("[nic]\nburst = -8\n", &[]).unwrap_err().to_string();
    assert_eq!(error, "test.toml: nic.burst: -8: allowed are 0 to 4294967295");
}

#[test]
fn counts_and_shares_are_read_as_people_write_them() {
    let s = read("[run]\npackets = \"20k\"", &["run.warmup=1M", "traffic.load=50 %", "nic.rx_descriptors=1k"]).unwrap();
    assert_eq!((s.run.packets, s.run.warmup, s.traffic.load), (20_000, Some(1_000_000), Some(0.5)));
    assert_eq!(s.nic.rx_descriptors, 1000);
    assert_eq!(read("", &["traffic.rate=80 Gbit/s"]).unwrap().traffic.rate, Some(Rate::from_gbps(80.0)));
    assert!(read("", &["traffic.rate=80"]).unwrap_err().to_string().contains("\"80\" is not a bit rate"));
}

#[test]
fn what_rust_calls_a_struct_is_called_a_table() {
    let error = read("", &["machine.sockets=2"]).unwrap_err().to_string();
    assert!(error.contains("integer 2: a table of settings is wanted"), "{error}");
}

#[test]
fn times_that_cannot_be_are_refused() {
    let error = |set: &str| read("", &[set]).unwrap_err().to_string();
    for field in ["llc.latency", "llc.interval", "llc.snoop", "dram.t_cl", "dram.t_burst", "dram.overhead"] {
        let found = error(&format!("machine.{field}=1000 s"));
        assert!(found.contains(&format!("machine.{field} = ")) && found.contains("at most 1 ms"), "{found}");
    }
    assert!(error("nic.doorbell=2 ms").contains("nic.doorbell = 2 ms: allowed is at most 1 ms"));
    assert!(error("traffic.load=1e-12").contains("traffic.load: 2000000 packets may take"));
    assert!(read("", &["traffic.load=1e-6"]).is_ok());
}

#[test]
fn a_presets_pool_grows_with_what_holds_mbufs() {
    let size = |set: &[&str]| read("", set).unwrap().mempool.size;
    assert_eq!(size(&[]), 16_384, "what the preset says");
    assert_eq!(size(&["machine.cores=1"]), 16_384, "it does not shrink");
    // 8 x (1024 + 2 x 1024 + 32 + 384) = 27,904; 4 x (4096 + 2 x 1024 + 32 + 384) = 26,240.
    assert_eq!(size(&["machine.cores=8"]), 32_768);
    assert_eq!(size(&["nic.rx_descriptors=4096"]), 32_768);
    // 4 x (1632 + 2 x 1024 + 32 + 384) = 16,384: bursts, and caches with half as much again, are counted.
    assert_eq!(size(&["nic.rx_descriptors=1632"]), 16_384);
    assert_eq!(size(&["nic.rx_descriptors=1633"]), 32_768);
    // 1024 + 7 x 2 x 1024 + 7 x 4096 + 8 x (32 + 384) = 47,360.
    let queues = ["machine.cores=8", "pipeline.rx_cores=1", "pipeline.queue=4096"];
    assert_eq!(size(&queues), 65_536);
    assert_eq!(size(&["machine.cores=8", "mempool.size=20000"]), 20_000, "what is given stays");
}

#[test]
fn errors_have_a_path_and_the_nearest_name() {
    let error = |text: &str, set: &[&str]| read(text, set).unwrap_err().to_string();
    insta::assert_snapshot!(
        [
            error("", &["machine.llc.wyas=8"]),
            error("", &["machin.llc.ways=8"]),
            error("", &["machine.llc.size=33 parsecs"]),
            error("", &["machine.llc.size=-1"]),
            error("", &["machine.cores=many"]),
            error("", &["traffic.load=1.5"]),
            error("[traffic]\nload = 0.5\nrate = \"1 Gbps\"", &[]),
            error("[machine]\npreset = \"xeon-gold-6410\"", &[]),
            error("", &["traffic.speed=2"]),
            error("", &["mempool.size=100"]),
            error("", &["nic.rx_descriptors=16"]),
            error("", &["nonsense"]),
            error("", &["run.packets.x=1"]),
            error("[traffic", &[]),
            error("", &["run.packets=10"]),
            error("machine = 3", &[]),
            error("", &["machine.dram.standard=ddr4-3200"]),
            error("", &["machine.dram.controller.order=lifo", "machine.dram.standard=ddr4-2400u"]),
            error("", &["machine.dram.currents=ddr4-2666"]),
            error("", &["machine.cores=0"]),
            error("", &["machine.cores=9999"]),
            error("[neighbours]\nname = \"x\"\n", &[]),
            error("", &["machine.copy_engine={by=\"controller\"}"]),
        ]
        .join("\n")
    );
}

#[test]
fn a_standard_gives_its_organisation_and_timings_and_leaves_the_controller() {
    let of = |set: &[&str]| read("", set).unwrap().machine.dram;
    let usual = of(&[]);
    let ddr5 = of(&["machine.dram.standard=ddr5-4800b"]);
    assert_eq!((ddr5.channels, ddr5.overhead), (2 * usual.channels, usual.overhead));
    // 64 bytes over half a module's width at 4800 MT/s.
    assert_eq!(ddr5.t_burst.ps(), units::Ps(3333));
    let hbm = of(&["machine.dram.standard=hbm3-6400", "machine.dram.t_cl=20 ns", "machine.dram.channels=16"]);
    assert_eq!((hbm.channels, hbm.t_cl.ps()), (16, units::Ps::from_ns(20)));
    assert_eq!(of(&["machine.dram.standard=hmc-2.1-vault"]).page, machine::dram::PagePolicy::Closed);
}

#[test]
fn a_rate_on_the_command_line_replaces_the_scenarios() {
    let s = read("[traffic]\nload = 0.5", &["traffic.rate=\"10 Gbps\""]).unwrap();
    assert_eq!((s.traffic.load, s.traffic.rate), (None, Some(Rate::from_gbps(10.0))));
}

#[test]
fn what_each_machine_is_made_of() {
    let described = |machine: &Preset| {
        let s = read("", &[&format!("machine.preset={}", machine.name)]).unwrap();
        let mut table = toml::Table::try_from(&s).unwrap();
        table.retain(|section, _| ["machine", "nic", "mempool"].contains(&section));
        let mut lines = Vec::new();
        overlay::changed("", &toml::Table::new(), &table, &mut lines);
        let lines: Vec<String> = lines.iter().map(|(path, value)| format!("{path:<24} {value}")).collect();
        lines.join("\n")
    };
    insta::assert_snapshot!(MACHINES.iter().map(described).collect::<Vec<_>>().join("\n\n"));
}

#[test]
fn a_frequency_moves_what_is_counted_in_cycles() {
    let machine = |set: &[&str]| read("", set).unwrap();
    let usual = machine(&[]);
    let (l1, l2) = (usual.machine.l1.latency, usual.machine.l2.latency);
    assert_eq!((l1.to_string(), l2.to_string()), ("1.74 ns".into(), "6.09 ns".into()));
    let fast = machine(&["machine.core.frequency=4 GHz"]);
    assert_eq!((fast.machine.l1.latency.ps(), fast.machine.l2.latency.ps()), (units::Ps(1000), units::Ps(3500)));
    assert!(fast.idle_settings().is_empty());
    assert_eq!(fast.machine.name, "Xeon Gold 6140 with core.frequency=4 GHz");
    assert_eq!(read(&fast.to_toml(), &[]).unwrap(), fast);
    let own = machine(&[
        "machine.core.frequency=2 GHz",
        "machine.l2.latency=20 cycles",
        "machine.core.fill_interval=3 cycles",
    ]);
    assert_eq!((own.machine.l2.latency.ps(), own.machine.l1.latency.ps()), (units::Ps(10_000), units::Ps(2000)));
    assert_eq!(own.machine.core.fill_interval.unwrap().ps(), units::Ps(1500));
    let error = |set: &str| read("", &[set]).unwrap_err().to_string();
    for text in ["machine.l1.latency=x cycles", "machine.l2.latency=-4 cycles", "machine.core.fill_interval=4 bicycles"]
    {
        assert!(error(text).ends_with("or cycles of the core, for example \"14 cycles\""), "{}", error(text));
    }
    assert!(error("machine.llc.latency=70 cycles").contains("(cycles are for machine.core.burst_stall"));
    assert!(error("machine.l1.size=4 cycles").contains("\"4 cycles\" is not a size"));
    // A clock that cannot be is the only fault.
    assert_eq!(error("machine.core.frequency=0 GHz").lines().count(), 1);
    assert_eq!(error("machine.core.frequency=fast").lines().count(), 1);
}

#[test]
fn every_driver_goes_with_every_program_and_each_can_be_changed() {
    for driver in DRIVERS {
        for program in PROGRAMS {
            let (driver, program) = (driver.name, program.name);
            let s = read("", &[&format!("nic.driver={driver}"), &format!("function.program={program}")]).unwrap();
            assert_eq!(s.function.kind, FunctionKind::Program, "{program}");
            assert_eq!(
                (s.nic.driver.preset.as_deref(), s.function.program.preset.as_deref()),
                (Some(driver), Some(program))
            );
            assert!(s.idle_settings().is_empty(), "{driver} {program}: {:?}", s.idle_settings());
            assert_eq!(read(&s.to_toml(), &[]).unwrap(), s, "{driver} {program}");
        }
    }
    let s =
        read("", &["nic.driver.tx_bulk=16", "nic.driver=mlx5", "nic.burst=64", "function.program=vpp-ip4"]).unwrap();
    assert_eq!((s.nic.driver.tx_bulk, s.nic.driver.rx_completion, s.nic.burst), (16, 64, 64));
    let counted = read("", &["function.program.instructions=500", "function.program=l3fwd"]).unwrap();
    assert_eq!(counted.function.program.instructions, Some(500.0));
    let error = |set: &[&str]| read("", set).unwrap_err().to_string();
    assert!(error(&["nic.driver=mlx"]).contains("did you mean mlx5?"), "{}", error(&["nic.driver=mlx"]));
    assert!(error(&["function.program=l3fw"]).contains("did you mean l3fwd?"));
    let touch = "function.program.stages=[{touches=[\"read data 0\"]}]";
    assert!(error(&["function.kind=program", touch]).contains("allowed is one of load, store, prefetch, count"));
    let bulk = error(&["nic.driver=mlx5", "nic.driver.rx_bulk=65"]);
    assert!(bulk.contains("nic.driver.rx_bulk = 65: allowed is 1 to 64"), "{bulk}");
}

#[test]
fn a_machine_has_the_fitted_core_of_its_processor_but_where_a_scenario_was_fitted_with_another() {
    let machine = read("", &[]).unwrap();
    let named = read("", &["machine.processor=xeon-gold-6140"]).unwrap();
    for scenario in [&machine, &named] {
        // 28 cycles of 2.3 GHz.
        assert_eq!((scenario.machine.core.cpi, scenario.machine.core.stalls(10)), (0.33, units::Ps(121_700)));
        assert_eq!(&read(&scenario.to_toml(), &[]).unwrap(), scenario);
    }
    let text = super::find(super::SCENARIOS, "upf-pipeline").unwrap().text;
    let fitted = read(text, &[]).unwrap();
    assert_eq!((fitted.machine.core.cpi, fitted.machine.core.stalls(10)), (0.4, units::Ps::ZERO));
    // Its receiving core has fewer misses at a time than the hardware; without a number of its own it is as the others.
    assert_eq!((fitted.receiving_core().outstanding, fitted.machine.core.outstanding), (2, 12));
    let alike = read(&text.replace("outstanding = 2 ", "# "), &[]).unwrap();
    assert_eq!(alike.receiving_core(), alike.machine.core);
}
