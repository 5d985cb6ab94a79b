//! Counters in JSON over HTTP, as Intel PCM's `pcm-sensor-server` offers them on port 9738.
//!
//! Which number is which counter is told by its path, `Uncore Aggregate/Uncore Counters/DRAM Reads` for example, since names differ
//! between versions and processors. Only addresses of this machine are asked. Source: Intel PCM, `pcm-sensor-server.cpp`.

use serde_json::Value;

use crate::HostError;
use crate::http::LocalServer;
use crate::telemetry::keys;

/// A server of counters.
pub struct JsonServer(LocalServer);

impl JsonServer {
    /// The one at `url`, `http://127.0.0.1:9738/` for example.
    ///
    /// # Errors
    /// As [`LocalServer::new`].
    pub fn new(url: &str) -> Result<JsonServer, HostError> {
        LocalServer::new(url, "http://127.0.0.1:9738/").map(JsonServer)
    }

    /// Everything that it counts.
    ///
    /// # Errors
    /// It does not answer, or not in JSON.
    pub fn read(&self) -> Result<Value, HostError> {
        let remedy = "start pcm-sensor-server, or leave it out of the configuration";
        let text = self.0.text("application/json", remedy)?;
        serde_json::from_str(&text).map_err(|_| HostError::form(self.url(), &text, "an answer in JSON"))
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        self.0.url()
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
}
