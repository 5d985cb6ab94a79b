//! Programs that tell counters: a DPDK program's telemetry, and a server of JSON over HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::{fs, io};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, connect, listen, recv,
    send, socket_with,
};
use serde_json::{Value, json};

use crate::FakeHost;

/// How long an answer may be, as DPDK's greeting says.
const MOST: usize = 16_384;

/// Answers as DPDK's telemetry does, one connection at a time.
pub struct TelemetryServer {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TelemetryServer {
    /// Listens at `path`.
    ///
    /// # Errors
    /// As the system's.
    pub fn start(host: &FakeHost, path: &Path) -> io::Result<TelemetryServer> {
        let _ = fs::remove_file(path);
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, 4)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (host, flag) = (host.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while let Ok(peer) = accept(&socket) {
                if flag.load(Ordering::Relaxed) {
                    return;
                }
                let host = host.clone();
                std::thread::spawn(move || serve_telemetry(&host, &peer));
            }
        });
        Ok(TelemetryServer { path: path.into(), stop, thread: Some(thread) })
    }
}

impl Drop for TelemetryServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread.
        let wake = || -> io::Result<()> {
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
            Ok(connect(&socket, &SocketAddrUnix::new(&self.path)?)?)
        };
        if wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn serve_telemetry(host: &FakeHost, peer: &OwnedFd) {
    let hello = json!({"version": "DPDK 23.03.0", "pid": 1001, "max_output_len": MOST});
    if send(peer, hello.to_string().as_bytes(), SendFlags::NOSIGNAL).is_err() {
        return;
    }
    let mut buffer = [0; 1024];
    while let Ok((_, n)) = recv(peer, &mut buffer, RecvFlags::empty()) {
        if n == 0 {
            return;
        }
        let command = String::from_utf8_lossy(&buffer[..n]).into_owned();
        let answer = answer_telemetry(host, &command).to_string();
        if send(peer, answer.as_bytes(), SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

fn answer_telemetry(host: &FakeHost, command: &str) -> Value {
    let (name, argument) = command.split_once(',').unwrap_or((command, ""));
    let answer = match name {
        "/" if host.counters_now().is_some_and(|c| !c.contains_key("busy")) => {
            json!(["/", "/ethdev/list", "/ethdev/stats"])
        }
        "/" => json!(["/", "/eal/lcore/usage", "/ethdev/list", "/ethdev/stats"]),
        "/ethdev/list" => json!([0]),
        "/ethdev/stats" if argument == "0" => match host.counters() {
            Some(c) => json!({
                "ipackets": c["received"], "opackets": c["received"], "ibytes": c["io_bytes"], "obytes": c["out_bytes"],
                "imissed": c["lost"], "ierrors": 0, "oerrors": 0, "rx_nombuf": 0
            }),
            None => Value::Null,
        },
        "/eal/lcore/usage" => match host.counters_now() {
            Some(c) if c.contains_key("busy") => {
                json!({"lcore_ids": [1], "total_cycles": [c["elapsed"]], "busy_cycles": [c["busy"]]})
            }
            Some(_) | None => Value::Null,
        },
        _ => Value::Null,
    };
    json!({ name: answer })
}

/// Answers every request with the counters of devices, memory and cores.
pub struct CounterServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CounterServer {
    /// Listens on a free port of the loopback.
    ///
    /// # Errors
    /// As the system's.
    pub fn start(host: &FakeHost) -> io::Result<CounterServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (host, flag) = (host.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for peer in listener.incoming().flatten() {
                if flag.load(Ordering::Relaxed) {
                    return;
                }
                let host = host.clone();
                std::thread::spawn(move || serve_counters(&host, peer));
            }
        });
        Ok(CounterServer { address, stop, thread: Some(thread) })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for CounterServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if TcpStream::connect(self.address).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn serve_counters(host: &FakeHost, mut peer: TcpStream) {
    let Ok(reader) = peer.try_clone() else { return };
    let mut lines = BufReader::new(reader).lines();
    loop {
        // A request ends in an empty line.
        let mut asked = String::new();
        loop {
            match lines.next() {
                Some(Ok(line)) if line.is_empty() => break,
                Some(Ok(line)) if asked.is_empty() => asked = line,
                Some(Ok(_)) => {}
                _ => return,
            }
        }
        if asked.starts_with("GET /metrics") {
            let text = host.counters().map(|counters| metrics(&counters)).unwrap_or_default();
            if answer(&mut peer, "text/plain; version=0.0.4", &text).is_err() {
                return;
            }
            continue;
        }
        let counters = host.counters_now().unwrap_or_default();
        let of = |names: &[(&str, &str)]| -> Value {
            names.iter().filter_map(|(key, name)| Some((*key, *counters.get(name)?))).collect()
        };
        let body = json!({
            "Uncore": of(&[("IO hits", "io_hits"), ("IO misses", "io_misses"), ("DRAM bytes", "memory_bytes")]),
            "Cores": [of(&[("L3 misses", "core_misses"), ("L3 lookups", "core_lookups")])],
        });
        if answer(&mut peer, "application/json", &body.to_string()).is_err() {
            return;
        }
    }
}

fn answer(peer: &mut TcpStream, kind: &str, body: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
    peer.write_all((head + body).as_bytes())
}

/// What a packet program tells Prometheus: packets of two queues, times of its core in seconds.
fn metrics(counters: &BTreeMap<&'static str, u64>) -> String {
    let of = |name: &str| counters.get(name).copied().unwrap_or(0);
    let received = of("received");
    let mut text = format!(
        "# TYPE packets_received_total counter\npackets_received_total{{queue=\"0\"}} {}\n\
         packets_received_total{{queue=\"1\"}} {}\npackets_lost_total {}\nbytes_received_total {}\n",
        received / 2,
        received - received / 2,
        of("lost"),
        of("io_bytes"),
    );
    if let (Some(busy), Some(elapsed)) = (counters.get("busy"), counters.get("elapsed")) {
        // A cycle of it is a nanosecond.
        let seconds = |cycles: u64| cycles as f64 / 1e9;
        text += &format!("busy_seconds_total {}\nelapsed_seconds_total {}\n", seconds(*busy), seconds(*elapsed));
    }
    text
}
