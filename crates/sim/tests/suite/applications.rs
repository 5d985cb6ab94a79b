//! The functions of a router in scenarios: the shipped ones, files of rules and strings, chains, and what cannot be.

use std::path::Path;

use serde_json::Value;
use sim::{Overrides, RunOptions, Scenario, run, summary};

const QUICK: [&str; 11] = [
    "run.packets=3000",
    "run.warmup=500",
    "mempool.size=2048",
    "mempool.cache=32",
    "nic.rx_descriptors=128",
    "nic.tx_descriptors=128",
    "machine.llc.size=2.75 MiB",
    "machine.llc.slices=2",
    "machine.cores=2",
    "traffic.flows.count=3000",
    "function.forward.prefixes=20000",
];

fn scenario(text: &str, set: &[&str]) -> Result<Scenario, String> {
    let set = QUICK.iter().chain(set).map(|s| s.to_string()).collect();
    Scenario::read(text, "test", &Overrides { set, ..Overrides::default() }).map_err(|e| e.to_string())
}

fn document(text: &str, set: &[&str]) -> Result<Value, String> {
    let scenario = scenario(text, set)?;
    let result =
        run(&scenario, RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true).map_err(|e| e.to_string())?;
    Ok(summary(&result, "test"))
}

fn notes(document: &Value) -> String {
    document["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_function_runs_alone_on_made_traffic() {
    for (kind, more) in [
        ("check", "function.check.checksum=nic"),
        ("classify", "function.classify.search=linear"),
        ("classify", "function.classify.search=tuple_space"),
        ("lookup", "function.lookup.structure=dir24"),
        ("lookup", "function.lookup.structure=poptrie"),
        ("ttl", "traffic.load=0.004"),
        ("fragment", "function.fragment.mtu=600"),
        ("inspect", "function.inspect.method=aho_corasick"),
        ("nat", "function.nat.sessions=4096"),
        ("firewall", "function.firewall.form=compiled"),
    ] {
        let set = [&format!("function.kind={kind}"), "traffic.load=0.004", "traffic.payload=text", more];
        let found = document("", &set).unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert_eq!(found["packets"], 3000, "{kind}");
        let rejected = found["rejected"].as_u64().unwrap();
        // Some of a profile's packets run out of routes or sessions.
        assert!(rejected < 300, "{kind} {more}: {}", found["drops"]);
        assert_eq!(found["lost"], 0, "{kind} {more}");
        assert!(found["members"].is_null());
    }
}

/// With their own machines and loads, which lose nothing; a smaller table and fewer packets.
#[test]
fn shipped_scenarios_of_the_functions_run_without_loss() {
    for name in ["classify", "inspect", "nat", "router-chain"] {
        let text = sim::scenario::find(sim::scenario::SCENARIOS, name).unwrap().text;
        let set = ["run.packets=3000", "run.warmup=300", "function.forward.prefixes=20000"].map(String::from).to_vec();
        let scenario = Scenario::read(text, name, &Overrides { set, ..Overrides::default() }).unwrap();
        let result = run(&scenario, RunOptions { threads: 1, ..RunOptions::default() }, &mut |_| true).unwrap();
        let found = summary(&result, "test");
        let busy: Vec<_> =
            found["cores"].as_array().unwrap().iter().map(|core| core["busy"].as_f64().unwrap()).collect();
        println!("{name}: {} Mpps, busy {busy:?}, members {}", found["carried_mpps"], found["members"]);
        assert_eq!(found["lost"], 0, "{name}: {}", found["verdict"]);
    }
}

#[test]
fn a_chain_tells_the_shares_of_its_members() {
    let chain = "[traffic]\nload = 0.01\npayload = \"text\"\n[function]\nkind = \"chain\"\n\
                 chain = [\"check\", \"inspect\", \"classify\", \"lookup\", \"ttl\", \"fragment\"]\n";
    let found = document(chain, &["function.fragment.mtu=800"]).unwrap();
    let members = found["members"].as_array().unwrap();
    let names: Vec<&str> = members.iter().filter_map(|m| m["name"].as_str()).collect();
    assert_eq!(names, ["check", "inspect", "classify", "lookup", "ttl", "fragment"]);
    for share in ["reference_share", "instruction_share"] {
        let sum: f64 = members.iter().filter_map(|m| m[share].as_f64()).sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }
    // Payloads take most of it, as everywhere, and rules most of the rest.
    assert!(members[1]["instruction_share"].as_f64() > Some(0.6), "{members:?}");
    assert!(found["routes"]["ipv4"].as_u64() > Some(19_000));
    assert!(
        notes(&found).contains("payloads are searched for") && notes(&found).contains("classified by 1000 rules, made")
    );
}

#[test]
fn rules_and_strings_come_from_files_whose_content_tells_runs_apart() {
    let folder = std::env::temp_dir().join(format!("applications-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let rules = folder.join("my.rules");
    let rule = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x06/0xFF 0x0000/0x0000\n";
    std::fs::write(&rules, rule).unwrap();
    let set = format!("function.classify.rules={rules:?}");
    let set = ["function.kind=classify", "function.classify.drop_unmatched=true", "traffic.load=0.02", &set];
    let found = document("", &set).unwrap();
    assert_eq!((&found["inputs"][0]["kind"], &found["inputs"][0]["name"]), (&"rules".into(), &"my.rules".into()));
    let unmatched = found["drops"]["unclassified"].as_u64().unwrap();
    // What is not TCP.
    assert!((100..1500).contains(&unmatched), "{unmatched}");
    std::fs::write(&rules, rule.replace("0x06", "0x11")).unwrap();
    let other = document("", &set).unwrap();
    assert_ne!(found["run_id"], other["run_id"]);
    std::fs::write(&rules, format!("{rule}@1.2.3.4/33 nothing\n")).unwrap();
    let error = document("", &set).unwrap_err();
    assert!(error.contains("my.rules:2: `@1.2.3.4/33 nothing`: expected `@SRC/LEN DST/LEN"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_cannot_be_is_told_with_its_path() {
    let error = |set: &[&str]| document("", set).unwrap_err();
    assert!(error(&["function.kind=chain"]).contains("function.chain: it is empty"));
    let nested = error(&["function.kind=chain", "function.chain=[\"ttl\", \"chain\"]"]);
    assert!(nested.contains("function.chain: \"chain\" cannot stand in a chain"), "{nested}");
    assert!(error(&["function.kind=classfy"]).contains("did you mean `classify`"));
    assert!(
        error(&["function.kind=inspect", "function.inspect.made=0"])
            .contains("function.inspect.made: 0: allowed are 1 to")
    );
    let mtu = error(&["function.kind=fragment", "function.fragment.mtu=67"]);
    assert!(mtu.starts_with("function.fragment: fragment.mtu = 67"), "{mtu}");
    assert!(error(&["function.kind=nat", "function.nat.sessions=0"]).starts_with("function.nat: nat.sessions = 0"));
    assert!(error(&["function.kind=ttl", "function.copy.buffers=8"]).contains("function.copy"));
    assert!(
        error(&["function.kind=classify", "function.classify.rules=/no/such"]).contains("/no/such: cannot be read")
    );
}

/// The published rules and strings, where they are.
#[test]
fn published_rules_and_strings_run_in_a_scenario() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if !folder.is_dir() {
        println!("skipped: {} is not there", folder.display());
        return;
    }
    let rules = format!("function.classify.rules={:?}", folder.join("rules/fw1_10k.rules.gz"));
    let strings = format!("function.inspect.patterns={:?}", folder.join("dpi/et_open_2021_contents.tsv.xz"));
    let set =
        ["function.kind=chain", "function.chain=[\"classify\", \"inspect\"]", "traffic.load=0.005", &rules, &strings];
    let found = document("", &set).unwrap();
    assert!(
        notes(&found).contains("9379 rules, fw1_10k.rules.gz") && notes(&found).contains("13283 strings"),
        "{}",
        notes(&found)
    );
}
