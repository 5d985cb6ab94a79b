//! Running totals of a program that tells them to Prometheus, as `vpp_prometheus_export` and many packet programs do.
//!
//! A counter is named as in a query: `_if_rx_packets` or `_if_rx_packets{interface="1"}`. Series that it fits are added up.
//! Source: Prometheus, "Exposition formats" and "Querying basics".

use std::collections::BTreeMap;

use prometheus_parse::{Scrape, Value};

use crate::HostError;
use crate::http::LocalServer;

/// What is wanted of a program that does not answer.
const REMEDY: &str = "start the program that tells them, or leave [prometheus] out of the configuration";
/// Names that a message lists, at most.
const MOST_NAMES: usize = 20;

/// A name and labels that a series has to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    name: String,
    labels: Vec<(String, String)>,
}

impl std::str::FromStr for Selector {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Selector, HostError> {
        let wrong =
            || HostError::form("a metric", text, "a name, or a name with labels: packets{port=\"0\",queue=\"1\"}");
        let (name, labels) = match text.trim().split_once('{') {
            None => (text.trim(), ""),
            Some((name, rest)) => (name.trim(), rest.strip_suffix('}').ok_or_else(wrong)?),
        };
        let is_name = |text: &str, more: &str| {
            !text.is_empty()
                && !text.starts_with(|c: char| c.is_ascii_digit())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        if !is_name(name, "_:") {
            return Err(wrong());
        }
        let mut found = Vec::new();
        let mut rest = labels.trim();
        while !rest.is_empty() {
            let (label, value) = rest.split_once('=').ok_or_else(wrong)?;
            let value = value.trim_start().strip_prefix('"').ok_or_else(wrong)?;
            let (value, behind) = value.split_once('"').ok_or_else(wrong)?;
            if !is_name(label.trim(), "_") {
                return Err(wrong());
            }
            found.push((label.trim().to_string(), value.to_string()));
            let behind = behind.trim_start();
            rest = behind.strip_prefix(',').map_or(behind, str::trim_start);
            if rest.len() == behind.len() && !rest.is_empty() {
                return Err(wrong());
            }
        }
        Ok(Selector { name: name.into(), labels: found })
    }
}

/// What a program tells at one moment.
pub struct ToldMetrics {
    scrape: Scrape,
    /// Lines by name, those that the parser passes over included.
    lines: BTreeMap<String, usize>,
}

impl ToldMetrics {
    /// # Errors
    /// Text that is not in the exposition format.
    pub fn parse(text: &str) -> Result<ToldMetrics, HostError> {
        let lines = text.lines().map(|line| Ok(line.to_string()));
        let scrape =
            Scrape::parse(lines).map_err(|e| HostError::form("metrics", &e.to_string(), "Prometheus's text"))?;
        let mut lines = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(|c: char| c == '{' || c.is_whitespace()).next().unwrap_or_default();
            *lines.entry(name.to_string()).or_default() += 1;
        }
        Ok(ToldMetrics { scrape, lines })
    }

    /// The sum over series that `selector` fits.
    ///
    /// # Errors
    /// There is none, with names that there are; or one that is no number (a histogram, NaN).
    pub fn sum(&self, selector: &Selector) -> Result<f64, HostError> {
        let fits = |sample: &&prometheus_parse::Sample| {
            sample.metric == selector.name
                && selector.labels.iter().all(|(label, value)| sample.labels.get(label) == Some(value.as_str()))
        };
        let read = self.scrape.samples.iter().filter(|sample| sample.metric == selector.name).count();
        let told = self.lines.get(&selector.name).copied().unwrap_or(0);
        if read < told {
            let came = format!("{read} of {told} lines");
            return Err(HostError::form(&selector.name, &came, "lines without }, commas and = within labels"));
        }
        let mut sum = None;
        for sample in self.scrape.samples.iter().filter(fits) {
            let value = match sample.value {
                Value::Counter(x) | Value::Gauge(x) | Value::Untyped(x) if x.is_finite() && x >= 0.0 => x,
                _ => return Err(HostError::form(&selector.name, &format!("{:?}", sample.value), "a running total")),
            };
            sum = Some(sum.unwrap_or(0.0) + value);
        }
        sum.ok_or_else(|| self.unknown(selector))
    }

    fn unknown(&self, selector: &Selector) -> HostError {
        let same = self.scrape.samples.iter().filter(|sample| sample.metric == selector.name);
        let labels: Vec<String> = same.map(|sample| format!("{{{}}}", sample.labels)).collect();
        let mut known = if labels.is_empty() {
            self.scrape.samples.iter().map(|sample| sample.metric.clone()).collect()
        } else {
            labels
        };
        known.sort();
        known.dedup();
        let more = known.len().saturating_sub(MOST_NAMES);
        known.truncate(MOST_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let key = match selector.labels.as_slice() {
            [] => selector.name.clone(),
            labels => {
                let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
                format!("{}{{{}}}", selector.name, labels.join(","))
            }
        };
        HostError::Key { path: "metrics".into(), key, known: known.join(", ") + &more }
    }
}

/// A program that tells metrics.
pub struct MetricServer(LocalServer);

impl MetricServer {
    /// The one at `url`.
    ///
    /// # Errors
    /// As [`LocalServer::new`].
    pub fn new(url: &str) -> Result<MetricServer, HostError> {
        LocalServer::new(url, "http://127.0.0.1:9482/metrics").map(MetricServer)
    }

    /// All that it tells.
    ///
    /// # Errors
    /// It does not answer, or not in Prometheus's text.
    pub fn read(&self) -> Result<ToldMetrics, HostError> {
        ToldMetrics::parse(&self.0.text("text/plain;version=0.0.4", REMEDY)?)
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        self.0.url()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "# HELP rx packets\n# TYPE rx counter\nrx{port=\"0\",queue=\"0\"} 5\nrx{port=\"0\",queue=\"1\"} 7\n\
                        rx{port=\"1\",queue=\"0\"} 1e3\n# TYPE load gauge\nload 0.5\nodd NaN\n";

    fn sum(selector: &str) -> Result<f64, String> {
        let metrics = ToldMetrics::parse(TEXT).unwrap();
        metrics.sum(&selector.parse().unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn series_that_fit_are_added_up() {
        assert_eq!(sum("rx"), Ok(1012.0));
        assert_eq!(sum("rx{port=\"0\"}"), Ok(12.0));
        assert_eq!(sum(" rx { port = \"0\" , queue=\"1\", } "), Ok(7.0));
        assert_eq!(sum("load"), Ok(0.5));
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        assert_eq!(sum("tx"), Err("metrics: there is no \"tx\"; there are load, odd, rx".into()));
        let labels = sum("rx{port=\"7\"}").unwrap_err();
        assert!(
            labels.ends_with("there are {port=\"0\",queue=\"0\"}, {port=\"0\",queue=\"1\"}, {port=\"1\",queue=\"0\"}"),
            "{labels}"
        );
        assert!(sum("odd").unwrap_err().contains("a running total is expected"));
    }

    /// A sum without them would be too low, and nobody would hear of it.
    #[test]
    fn a_line_that_is_not_read_is_no_part_that_is_missing() {
        let metrics = ToldMetrics::parse("rx{port=\"0\"} 5\nrx{port=\"a}b\"} 7\ntx 3\n").unwrap();
        let sum = |name: &str| metrics.sum(&name.parse().unwrap()).map_err(|e| e.to_string());
        assert!(sum("rx").unwrap_err().contains("1 of 2 lines"), "{:?}", sum("rx"));
        assert_eq!(sum("tx"), Ok(3.0));
    }

    #[test]
    fn names_are_judged() {
        for text in
            ["", "1x", "a b", "a{", "a{b}", "a{b=c}", "a{b=\"c\"", "a{b=\"c\" d=\"e\"}", "a{=\"c\"}", "{a=\"b\"}"]
        {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_ends_it(text in "(?s).{0,300}", selector in "(?s).{0,60}") {
            let _ = selector.parse::<Selector>();
            if let Ok(metrics) = ToldMetrics::parse(&text) {
                let _ = metrics.sum(&"rx".parse().unwrap());
            }
        }
    }
}
