//! DPDK's telemetry: a socket of sequenced packets that answers commands in JSON.
//!
//! On connection DPDK says how long an answer can be; then each command, `/ethdev/stats,0` for example, is answered by an
//! object with the command's name as its only key. Source: DPDK, Telemetry Library; `lib/telemetry/telemetry.c` (22.11).

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{connect, recv, send, socket_with};
use serde_json::{Map, Value};

use crate::HostError;

/// A connection to a DPDK program.
pub struct Telemetry {
    path: PathBuf,
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// Running totals of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortTotals {
    /// Packets received.
    pub received: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets lost for want of a descriptor or buffer.
    pub lost: u64,
}

impl PortTotals {
    /// Of what `/ethdev/stats` answers; `path` is who has answered.
    ///
    /// # Errors
    /// A total that is not there, with those that are.
    pub fn from_json(stats: &Value, path: &str) -> Result<PortTotals, HostError> {
        let total = |key: &str| number(stats, key, path);
        Ok(PortTotals {
            received: total("ipackets")?,
            received_bytes: total("ibytes")?,
            sent: total("opackets")?,
            sent_bytes: total("obytes")?,
            lost: total("imissed")?.saturating_add(total("rx_nombuf")?),
        })
    }
}

/// Cores with their busy and all cycles, of what `/eal/lcore/usage` answers; `path` is who has answered.
///
/// # Errors
/// Lists that are not there, of different lengths, or of other things than numbers.
pub fn core_cycles(usage: &Value, path: &str) -> Result<Vec<(u32, u64, u64)>, HostError> {
    let list = |key: &str| -> Result<Vec<u64>, HostError> {
        let list = usage.get(key).and_then(Value::as_array);
        let list = list.ok_or_else(|| HostError::Key { path: path.into(), key: key.into(), known: keys(usage) })?;
        let numbers: Option<Vec<u64>> = list.iter().map(Value::as_u64).collect();
        // A number that is left out would give a core another's cycles.
        numbers.ok_or_else(|| HostError::form(format!("{path} {key}"), &usage.to_string(), "numbers alone"))
    };
    let (ids, total, busy) = (list("lcore_ids")?, list("total_cycles")?, list("busy_cycles")?);
    if ids.len() != total.len() || ids.len() != busy.len() {
        return Err(HostError::form(path, &usage.to_string(), "as many totals as cores"));
    }
    let core = |id: u64| u32::try_from(id).map_err(|_| HostError::form(path, &id.to_string(), "a core's number"));
    ids.iter().zip(busy).zip(total).map(|((id, busy), total)| Ok((core(*id)?, busy, total))).collect()
}

/// A program that answers more slowly hangs.
const PATIENCE: Duration = Duration::from_millis(500);
/// No program says that it answers at more length.
const MOST_BYTES: u64 = 1 << 22;
const HELLO_BYTES: usize = 4096;

impl Telemetry {
    /// The socket of a program: `dpdk_telemetry.v2` in the folder of its file prefix below DPDK's run folder.
    pub fn socket_of(run: &Path, file_prefix: &str) -> PathBuf {
        run.join(file_prefix).join("dpdk_telemetry.v2")
    }

    /// Connects.
    ///
    /// # Errors
    /// No such socket, no permission, a greeting that is none.
    pub fn connect(path: &Path) -> Result<Telemetry, HostError> {
        let name = path.display().to_string();
        let fault = |e: Errno| HostError::system("connecting to", name.as_str(), e.into());
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(fault)?;
        for which in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&socket, which, Some(PATIENCE)).map_err(fault)?;
        }
        connect(&socket, &SocketAddrUnix::new(path).map_err(fault)?).map_err(fault)?;
        let mut telemetry = Telemetry { path: path.into(), socket, buffer: vec![0; HELLO_BYTES] };
        let hello = telemetry.receive()?;
        let most = hello.get("max_output_len").and_then(Value::as_u64).filter(|n| (1..=MOST_BYTES).contains(n));
        let most = most.ok_or_else(|| HostError::form(name, &hello.to_string(), "a greeting with max_output_len"))?;
        telemetry.buffer = vec![0; most as usize];
        Ok(telemetry)
    }

    /// What a command answers.
    ///
    /// # Errors
    /// The program has ended or hangs; it does not know the command.
    pub fn ask(&mut self, command: &str) -> Result<Value, HostError> {
        let name = command.split(',').next().unwrap_or(command);
        match send(&self.socket, command.as_bytes(), SendFlags::NOSIGNAL) {
            Ok(n) if n == command.len() => {}
            Ok(n) => return Err(HostError::form(self.name(), &format!("{n} bytes taken"), "all of the command")),
            Err(e) => return Err(HostError::system("writing to", self.name(), e.into())),
        }
        let mut answer = self.receive()?;
        let known = keys(&answer);
        match answer.get_mut(name).map(Value::take) {
            // A command that is not known, or has no such port, answers null.
            Some(Value::Null) | None => {
                Err(HostError::Key { path: self.name(), key: command.into(), known: self.commands().unwrap_or(known) })
            }
            Some(value) => Ok(value),
        }
    }

    /// Numbers of ports.
    ///
    /// # Errors
    /// As [`Telemetry::ask`].
    pub fn ports(&mut self) -> Result<Vec<u64>, HostError> {
        let list = self.ask("/ethdev/list")?;
        let numbers = list.as_array().map(|l| l.iter().filter_map(Value::as_u64).collect());
        numbers.ok_or_else(|| HostError::form(self.name(), &list.to_string(), "a list of ports"))
    }

    /// Running totals of a port.
    ///
    /// # Errors
    /// As [`Telemetry::ask`]; a total that is not there.
    pub fn port(&mut self, port: u64) -> Result<PortTotals, HostError> {
        let stats = self.ask(&format!("/ethdev/stats,{port}"))?;
        PortTotals::from_json(&stats, &self.name())
    }

    /// Busy and all cycles of the program's cores since its start, by core, where the program tells them
    /// (`/eal/lcore/usage`, from DPDK 23.03).
    ///
    /// # Errors
    /// As [`Telemetry::ask`]; as [`core_cycles`].
    pub fn cores(&mut self) -> Result<Vec<(u32, u64, u64)>, HostError> {
        let usage = self.ask("/eal/lcore/usage")?;
        core_cycles(&usage, &self.name())
    }

    fn commands(&mut self) -> Option<String> {
        send(&self.socket, b"/", SendFlags::NOSIGNAL).ok()?;
        let answer = self.receive().ok()?;
        let list = answer.get("/")?.as_array()?;
        Some(list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
    }

    fn receive(&mut self) -> Result<Value, HostError> {
        let fault = |e: Errno, path: &Path| HostError::system("reading", path.display().to_string(), e.into());
        let (_, n) = recv(&self.socket, &mut self.buffer, RecvFlags::TRUNC).map_err(|e| fault(e, &self.path))?;
        if n == 0 {
            return Err(fault(Errno::CONNRESET, &self.path));
        }
        let text = self.buffer.get(..n).ok_or_else(|| {
            HostError::form(self.name(), &format!("{n} bytes"), format!("an answer of {} at most", self.buffer.len()))
        })?;
        serde_json::from_slice(text)
            .map_err(|_| HostError::form(self.name(), &String::from_utf8_lossy(text), "an answer in JSON"))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn number(object: &Value, key: &str, path: &str) -> Result<u64, HostError> {
    let value =
        object.get(key).ok_or_else(|| HostError::Key { path: path.into(), key: key.into(), known: keys(object) })?;
    value.as_u64().ok_or_else(|| HostError::form(format!("{path} {key}"), &value.to_string(), "a running total"))
}

pub(crate) fn keys(object: &Value) -> String {
    // Whether objects keep the order of a text hangs on who else is built with them.
    let names = |o: &Map<String, Value>| {
        let mut names: Vec<&str> = o.keys().map(String::as_str).collect();
        names.sort_unstable();
        names.join(", ")
    };
    object.as_object().map(names).filter(|n| !n.is_empty()).unwrap_or_else(|| "no keys".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_that_is_not_there_is_told_with_those_that_are() {
        let stats = serde_json::json!({"ipackets": 5, "ibytes": "x"});
        assert_eq!(number(&stats, "ipackets", "s").unwrap(), 5);
        assert_eq!(
            number(&stats, "imissed", "s").unwrap_err().to_string(),
            "s: there is no \"imissed\"; there are ibytes, ipackets"
        );
        assert!(number(&stats, "ibytes", "s").is_err());
    }

    #[test]
    fn cycles_are_those_of_their_cores_or_none() {
        let usage = |ids: &str, busy: &str| {
            let text = format!("{{\"lcore_ids\": {ids}, \"total_cycles\": [9, 8], \"busy_cycles\": {busy}}}");
            core_cycles(&serde_json::from_str(&text).unwrap(), "s").map_err(|e| e.to_string())
        };
        assert_eq!(usage("[1, 4]", "[5, 6]"), Ok(vec![(1, 5, 9), (4, 6, 8)]));
        assert!(usage("[1, 4, null]", "[5, null, 6]").unwrap_err().contains("numbers alone"), "not 6 for core 4");
        assert!(usage("[1]", "[5]").unwrap_err().contains("as many totals as cores"));
        assert!(usage("[1, 4294967297]", "[5, 6]").unwrap_err().contains("a core's number"), "it is not core 1 again");
    }

    #[test]
    fn a_socket_that_is_not_there_is_told() {
        let path = Telemetry::socket_of(Path::new("/nowhere"), "rte");
        let error = Telemetry::connect(&path).err().unwrap();
        assert!(error.is_gone(), "{error}");
        assert!(error.to_string().contains("/nowhere/rte/dpdk_telemetry.v2"));
    }
}
