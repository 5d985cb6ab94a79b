//! A run as four tables, in memory and as Parquet files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::{Map, Value};
use stats::Reason;

use crate::answer::summary::{IntervalSummary, VERSION, run_id, series};
use crate::run::RunResult;
use crate::run::measure::CLASSES;
use crate::scenario::ScenarioError;

/// The names of the tables.
pub const TABLES: [&str; 4] = ["runs", "counters", "packets", "series"];

/// A run's tables, with what they are made of.
#[derive(Clone, Debug)]
pub struct RunTables {
    /// One row: what was run, and its headline numbers.
    pub runs: RecordBatch,
    /// A row a counter.
    pub counters: RecordBatch,
    /// A row a packet of the sample.
    pub packets: RecordBatch,
    /// A row an interval.
    pub series: RecordBatch,
}

/// Collects columns.
#[derive(Default)]
struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn add(&mut self, name: &str, array: ArrayRef) {
        // Numbers that are not finite and ports of packets that did not leave are missing.
        let nullable = matches!(array.data_type(), DataType::Float64 | DataType::UInt16);
        self.fields.push(Field::new(name, array.data_type().clone(), nullable));
        self.arrays.push(array);
    }

    fn text<T: AsRef<str>>(&mut self, name: &str, values: impl IntoIterator<Item = T>) {
        self.add(name, Arc::new(StringArray::from_iter_values(values)));
    }

    fn float(&mut self, name: &str, values: impl IntoIterator<Item = f64>) {
        // What is not finite is missing: a rate over no time, a mean of nothing.
        let finite = values.into_iter().map(|x| x.is_finite().then_some(x));
        self.add(name, Arc::new(finite.collect::<Float64Array>()));
    }

    fn count(&mut self, name: &str, values: impl IntoIterator<Item = u64>) {
        self.add(name, Arc::new(UInt64Array::from_iter_values(values)));
    }

    fn batch(self) -> RecordBatch {
        // Every column is made from the same rows, so that lengths agree.
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays).expect("columns of equal length")
    }
}

impl RunTables {
    /// The tables of a run; `summary` is its document.
    pub fn new(result: &RunResult, summary: &Value) -> RunTables {
        let id = run_id(result);
        RunTables {
            runs: runs(result, summary, &id),
            counters: counters(summary, &id),
            packets: packets(result, &id),
            series: series_table(result, &id),
        }
    }

    /// The table of that name.
    pub fn get(&self, name: &str) -> Option<&RecordBatch> {
        match name {
            "runs" => Some(&self.runs),
            "counters" => Some(&self.counters),
            "packets" => Some(&self.packets),
            "series" => Some(&self.series),
            _ => None,
        }
    }

    /// Writes the tables, `summary.json` and `scenario.toml` into `folder`, which is made if it is
    /// not there. Returns the files. Every table carries what is needed to make it again.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path, summary: &Value, scenario: &str) -> Result<Vec<PathBuf>, ScenarioError> {
        let failed = |path: &Path, message: String| ScenarioError::Output { path: path.display().to_string(), message };
        std::fs::create_dir_all(folder).map_err(|e| failed(folder, e.to_string()))?;
        let text = |name: &str| summary[name].as_str().unwrap_or_default().to_string();
        let metadata = [
            ("wirespeed.scenario", scenario.to_string()),
            ("wirespeed.seed", summary["seed"].to_string()),
            ("wirespeed.version", text("version")),
            ("wirespeed.commit", text("commit")),
            ("wirespeed.run_id", text("run_id")),
        ];
        let metadata = metadata.into_iter().map(|(key, value)| KeyValue::new(key.to_string(), value)).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(format!("wirespeed {VERSION}"))
            .set_key_value_metadata(Some(metadata))
            .build();
        let mut files = Vec::new();
        for (name, table) in TABLES.into_iter().filter_map(|name| Some((name, self.get(name)?))) {
            let path = folder.join(format!("{name}.parquet"));
            let write = || -> parquet::errors::Result<()> {
                let mut writer = ArrowWriter::try_new(File::create(&path)?, table.schema(), Some(properties.clone()))?;
                writer.write(table)?;
                writer.close().map(|_| ())
            };
            write().map_err(|e| failed(&path, e.to_string()))?;
            files.push(path);
        }
        let pretty = serde_json::to_string_pretty(summary).unwrap_or_default();
        for (name, content) in [("summary.json", pretty + "\n"), ("scenario.toml", scenario.to_string())] {
            let path = folder.join(name);
            std::fs::write(&path, content).map_err(|e| failed(&path, e.to_string()))?;
            files.push(path);
        }
        Ok(files)
    }
}

/// Headline numbers in the `runs` table: the column and where the document has it.
const HEADLINES: [(&str, &str); 17] = [
    ("offered_mpps", "/offered_mpps"),
    ("carried_mpps", "/carried_mpps"),
    ("offered_gbps", "/offered_gbps"),
    ("carried_gbps", "/carried_gbps"),
    ("line_rate_gbps", "/line_rate_gbps"),
    ("load", "/load"),
    ("loss", "/loss"),
    ("loss_half_width", "/loss_half_width"),
    ("loss_upper_95", "/loss_upper_95"),
    ("sojourn_mean_ns", "/sojourn_ns/mean"),
    ("sojourn_mean_half_width_ns", "/sojourn_ns/half_width"),
    ("sojourn_p50_ns", "/sojourn_ns/p50"),
    ("sojourn_p99_ns", "/sojourn_ns/p99"),
    ("sojourn_p999_ns", "/sojourn_ns/p999"),
    ("sojourn_max_ns", "/sojourn_ns/max"),
    ("dram_gb_per_s", "/dram/bandwidth_gb_per_s"),
    ("wall_s", "/wall_s"),
];

fn runs(result: &RunResult, summary: &Value, id: &str) -> RecordBatch {
    let mut c = Columns::default();
    let text = |name: &str| summary[name].as_str().unwrap_or_default().to_string();
    c.text("run_id", [id]);
    c.text("name", [text("name")]);
    c.count("seed", [result.scenario.run.seed]);
    for name in ["packets", "lost", "rejected"] {
        c.count(name, [summary[name].as_u64().unwrap_or(0)]);
    }
    for (name, at) in HEADLINES {
        c.float(name, [summary.pointer(at).and_then(Value::as_f64).unwrap_or(f64::NAN)]);
    }
    c.add("partial", Arc::new(BooleanArray::from(vec![result.partial])));
    c.text("scenario", [result.scenario.to_toml()]);
    c.text("version", [text("version")]);
    c.text("commit", [text("commit")]);
    c.batch()
}

/// The unit of a number in the document, by how its name ends.
fn unit(name: &str) -> &'static str {
    const UNITS: [(&str, &str); 5] =
        [("_ns", "ns"), ("_mpps", "Mpps"), ("_gbps", "Gbps"), ("gb_per_s", "GB/s"), ("rate", "share")];
    const SHARES: [&str; 3] = ["busy", "polling", "share"];
    let ending = UNITS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, unit)| *unit);
    ending.unwrap_or(if SHARES.contains(&name) { "share" } else { "1" })
}

/// A row for every number of the document's levels, DRAM, PCIe, cores, drops and attribution.
fn counters(summary: &Value, id: &str) -> RecordBatch {
    let mut rows: Vec<(String, String, f64, &str)> = Vec::new();
    let mut add = |component: &str, values: &Value, forced: Option<&'static str>| {
        for (name, value) in values.as_object().into_iter().flatten() {
            if let Some(number) = value.as_f64() {
                rows.push((component.into(), name.clone(), number, forced.unwrap_or_else(|| unit(name))));
            }
        }
    };
    for level in summary["levels"].as_array().into_iter().flatten() {
        add(level["name"].as_str().unwrap_or_default(), level, None);
    }
    add("DRAM", &summary["dram"], None);
    add("DRAM bus", &summary["dram"]["share"], Some("share"));
    add("DRAM controllers", &summary["dram"]["controllers"], None);
    add("DRAM read latency", &summary["dram"]["controllers"]["read_latency_ns"], Some("ns"));
    add("DRAM energy", &summary["dram"]["energy_nj"], Some("nJ"));
    add("flow table", &summary["flow_table"], None);
    for (n, application) in summary["applications"].as_array().into_iter().flatten().enumerate() {
        add(&format!("LLC application {n}"), application, None);
    }
    add("stacked DRAM", &summary["stacked"], None);
    add("PCIe", &summary["pcie"], None);
    for core in summary["cores"].as_array().into_iter().flatten() {
        add(&format!("core {}", core["core"]), core, None);
    }
    add("drops", &summary["drops"], Some("packets"));
    add("attribution", &summary["attribution_ns"], Some("ns"));
    rows.retain(|row| !(row.0.starts_with("core ") && row.1 == "core"));
    let mut c = Columns::default();
    c.text("run_id", rows.iter().map(|_| id));
    c.text("component", rows.iter().map(|r| &r.0));
    c.text("counter", rows.iter().map(|r| &r.1));
    c.float("value", rows.iter().map(|r| r.2));
    c.text("unit", rows.iter().map(|r| r.3));
    c.batch()
}

fn packets(result: &RunResult, id: &str) -> RecordBatch {
    // Rows are kept as packets end; the table is in order of arrival.
    let mut rows: Vec<_> = result.measured.measure.sample.iter().collect();
    rows.sort_by_key(|r| r.packet);
    let class = |bytes: u32| CLASSES.iter().find(|(_, most)| bytes <= *most).map_or("", |(name, _)| *name);
    let mut c = Columns::default();
    c.text("run_id", rows.iter().map(|_| id));
    c.count("packet", rows.iter().map(|r| r.packet.0));
    c.float("arrival_ns", rows.iter().map(|r| r.arrival.as_ns()));
    c.add("frame_bytes", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.frame_bytes))));
    c.text("class", rows.iter().map(|r| class(r.frame_bytes)));
    c.add("port_out", Arc::new(rows.iter().map(|r| r.port).collect::<UInt16Array>()));
    c.add("core", Arc::new(UInt16Array::from_iter_values(rows.iter().map(|r| r.core))));
    c.text("verdict", rows.iter().map(|r| r.verdict));
    let sent = |r: &crate::run::measure::PacketRow| r.port.is_some();
    let of_sent = |r: &crate::run::measure::PacketRow, ns: f64| if sent(r) { ns } else { f64::NAN };
    c.float("sojourn_ns", rows.iter().map(|r| of_sent(r, r.sojourn.as_ns())));
    for reason in Reason::ALL {
        let at = rows.iter().map(|r| of_sent(r, r.attribution[reason] as f64 / 1e3));
        c.float(&format!("at_{}_ns", reason.name()), at);
    }
    c.batch()
}

/// A column for each field of an interval, in their order.
fn series_table(result: &RunResult, id: &str) -> RecordBatch {
    let intervals = series(&result.scenario, &result.measured.measure);
    let rows: Vec<Value> = intervals.iter().map(|i| serde_json::to_value(i).unwrap_or_default()).collect();
    let schema = schemars::schema_for!(IntervalSummary);
    let mut c = Columns::default();
    c.text("run_id", rows.iter().map(|_| id));
    for name in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        c.float(name, rows.iter().map(|row| row[name].as_f64().unwrap_or(f64::NAN)));
    }
    c.batch()
}
