//! What a person writes: the schema of a traffic specification, and every text an error can have.

use traffic::{Load, ProfileSpec, SourceSpec};

#[test]
fn specifications_have_a_schema_that_names_every_key() {
    let schema = schemars_json(schemars::schema_for!(SourceSpec));
    for key in
        ["profile", "capture", "arrivals", "sizes", "mix", "flows", "rounds", "zipf", "on_off", "mmpp", "new_share"]
    {
        assert!(schema.contains(&format!("\"{key}\"")), "{key}");
    }
    assert!(schema.contains("\"additionalProperties\":false"));
    assert!(schemars_json(schemars::schema_for!(ProfileSpec)).contains("\"sizes\""));
    assert!(schemars_json(schemars::schema_for!(Load)).contains("\"line_share\""));
}

fn schemars_json(schema: schemars::Schema) -> String {
    serde_json::to_string(&schema).expect("a schema is JSON")
}

#[test]
fn every_process_and_size_reads_from_toml() {
    for text in [
        "arrivals = \"fixed\"",
        "arrivals = { on_off = { on = \"10 us\", off = \"30 us\" } }",
        "arrivals = { on_off = { on = \"10 us\", off = \"30 us\", spacing = \"poisson\" } }",
        "arrivals = { mmpp = { states = [{ rate = 1, dwell = \"1 ms\" }, { rate = 5, dwell = \"100 us\" }] } }",
        "sizes = \"imix\"",
        "sizes = { fixed = \"64 B\" }",
        "sizes = { histogram = [{ bytes = 64, share = 1 }, { bytes = 65, to = 1518, share = 2 }] }",
        "flows = { count = 10, popularity = \"uniform\", destinations = { pool = [\"10.0.0.0/8\"], prefixes = \"addresses\" } }",
        "profile = \"min64\"\nmix = { tcp = 0.5, ipv6 = 0.1 }",
        "capture = \"x.pcap\"\nrounds = 3",
    ] {
        let spec: SourceSpec = toml::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let written = toml::to_string(&spec).expect("a specification is TOML");
        assert_eq!(toml::from_str::<SourceSpec>(&written).expect("and reads back"), spec, "{text}");
    }
    for text in ["{ packets = \"14.88 Mpps\" }", "{ l1 = \"10 Gbps\" }", "{ timestamps = 2.0 }"] {
        let load: Result<std::collections::BTreeMap<String, Load>, _> = toml::from_str(&format!("load = {text}"));
        assert!(load.is_ok(), "{text}: {load:?}");
    }
}
