//! A server of counters on this machine, over HTTP.

use std::net::IpAddr;
use std::time::Duration;

use crate::HostError;

/// A server that answers more slowly hangs.
const PATIENCE: Duration = Duration::from_millis(500);
const MOST_BYTES: u64 = 16 << 20;

/// A server whose address is this machine's own: nobody else is asked.
pub struct LocalServer {
    url: String,
    agent: ureq::Agent,
}

impl LocalServer {
    /// The one at `url`; `example` is one for messages.
    ///
    /// # Errors
    /// Another scheme than http, or an address that is not this machine's own.
    pub fn new(url: &str, example: &str) -> Result<LocalServer, HostError> {
        let wrong =
            || HostError::form("url", url, format!("http:// with an address of this machine, such as {example}"));
        let uri: ureq::http::Uri = url.parse().map_err(|_| wrong())?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_own = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|a| a.is_loopback());
        if uri.scheme_str() != Some("http") || !is_own {
            return Err(wrong());
        }
        let config = ureq::Agent::config_builder();
        // Who answers may not send to another machine.
        let config = config.timeout_global(Some(PATIENCE)).proxy(None).max_redirects(0).build();
        Ok(LocalServer { url: url.into(), agent: config.into() })
    }

    /// What it answers, which is to be `accept`; `remedy` is what to do where it does not answer.
    ///
    /// # Errors
    /// It does not answer.
    pub fn text(&self, accept: &str, remedy: &str) -> Result<String, HostError> {
        let wrong = |why: String| HostError::Absent { what: self.url.clone(), why, remedy: remedy.into() };
        let absent = |e: ureq::Error| wrong(format!("no answer ({e})"));
        let mut answer = self.agent.get(&self.url).header("Accept", accept).call().map_err(absent)?;
        if answer.status() != 200 {
            return Err(wrong(format!("no answer (status {})", answer.status())));
        }
        answer.body_mut().with_config().limit(MOST_BYTES).read_to_string().map_err(absent)
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked() {
        let server = |url| LocalServer::new(url, "http://127.0.0.1:9738/");
        assert!(server("http://127.0.0.1:9738/").is_ok() && server("http://[::1]:9738/").is_ok());
        for url in ["http://10.0.0.1/", "https://127.0.0.1/", "127.0.0.1", "http://example.org/"] {
            assert!(server(url).is_err(), "{url}");
        }
    }

    #[test]
    fn who_sends_to_another_address_is_not_followed() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut asked = [0; 512];
            let _ = peer.read(&mut asked);
            let _ = peer.write_all(b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n");
        });
        let told = LocalServer::new(&url, "http://127.0.0.1:9738/").unwrap().text("text/plain", "start it");
        assert!(told.unwrap_err().to_string().contains("no answer"));
        thread.join().unwrap();
    }
}
