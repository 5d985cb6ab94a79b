//! Counters in JSON over HTTP, as Intel PCM's `pcm-sensor-server` offers them on port 9738.
//!
//! Which number is which counter is told by its path, `Uncore Aggregate/Uncore Counters/DRAM Reads` for example, since names differ
//! between versions and processors. Only addresses of this machine are asked. Source: Intel PCM, `pcm-sensor-server.cpp`.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;

use crate::HostError;
use crate::telemetry::keys;

/// A server of counters.
pub struct JsonServer {
    url: String,
    agent: ureq::Agent,
}

/// A server that answers more slowly hangs.
const PATIENCE: Duration = Duration::from_millis(500);
const MOST_BYTES: u64 = 16 << 20;

impl JsonServer {
    /// The one at `url`, `http://127.0.0.1:9738/` for example.
    ///
    /// # Errors
    /// Another scheme than http, or an address that is not this machine's own.
    pub fn new(url: &str) -> Result<JsonServer, HostError> {
        let wrong =
            || HostError::form("url", url, "http:// with an address of this machine, such as http://127.0.0.1:9738/");
        let uri: ureq::http::Uri = url.parse().map_err(|_| wrong())?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_own = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|a| a.is_loopback());
        if uri.scheme_str() != Some("http") || !is_own {
            return Err(wrong());
        }
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).proxy(None).build();
        Ok(JsonServer { url: url.into(), agent: config.into() })
    }

    /// Everything that it counts.
    ///
    /// # Errors
    /// It does not answer, or not in JSON.
    pub fn read(&self) -> Result<Value, HostError> {
        let absent = |e: ureq::Error| HostError::Absent {
            what: self.url.clone(),
            why: format!("no answer ({e})"),
            remedy: "start pcm-sensor-server, or leave it out of the configuration".into(),
        };
        let mut answer = self.agent.get(&self.url).header("Accept", "application/json").call().map_err(absent)?;
        let text = answer.body_mut().with_config().limit(MOST_BYTES).read_to_string().map_err(absent)?;
        serde_json::from_str(&text).map_err(|_| HostError::form(&self.url, &text, "an answer in JSON"))
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// The number at a path; steps are parted by `/`, a step into a list is its index.
///
/// # Errors
/// A step that is not there, with those that are.
pub fn number(root: &Value, path: &str) -> Result<u64, HostError> {
    let mut here = root;
    let mut gone = String::new();
    for step in path.split('/').filter(|s| !s.is_empty()) {
        let next = step.parse::<usize>().ok().and_then(|i| here.get(i)).or_else(|| here.get(step));
        here = next.ok_or_else(|| HostError::Key {
            path: if gone.is_empty() { "the answer".into() } else { gone.clone() },
            key: step.into(),
            known: here.as_array().map_or_else(|| keys(here), |l| format!("0 to {}", l.len() as i64 - 1)),
        })?;
        gone = if gone.is_empty() { step.into() } else { format!("{gone}/{step}") };
    }
    let whole = here.as_u64().or_else(|| here.as_f64().filter(|x| *x >= 0.0 && *x < 1.8e19).map(|x| x as u64));
    whole.ok_or_else(|| HostError::form(path, &here.to_string(), "a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_a_number_or_says_where_it_ends() {
        let root = serde_json::json!({"Sockets": [{"DRAM Reads": 7}], "text": "x"});
        assert_eq!(number(&root, "Sockets/0/DRAM Reads").unwrap(), 7);
        let error = |path| number(&root, path).unwrap_err().to_string();
        assert_eq!(error("Sockets/0/DRAM"), "Sockets/0: there is no \"DRAM\"; there are DRAM Reads");
        assert_eq!(error("Sockets/3"), "Sockets: there is no \"3\"; there are 0 to 0");
        assert!(error("text").contains("a number is expected"));
    }

    #[test]
    fn only_this_machine_is_asked() {
        assert!(JsonServer::new("http://127.0.0.1:9738/").is_ok());
        assert!(JsonServer::new("http://[::1]:9738/").is_ok());
        for url in ["http://10.0.0.1/", "https://127.0.0.1/", "127.0.0.1", "http://example.org/"] {
            assert!(JsonServer::new(url).is_err(), "{url}");
        }
    }
}
