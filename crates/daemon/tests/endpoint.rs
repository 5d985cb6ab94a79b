//! The endpoint of a daemon that runs as root, pressed by any local user: it answers others, stays small, and ends nothing.
//!
//! A program of its own: it measures wall time, and holds some thousand descriptors of its process.

#[path = "suite/process/mod.rs"]
mod process;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

use fakehost::Spec;
use process::{ANY_PORT, Scene, number_of, scene, signal};

/// Who presses.
struct Press {
    open: Vec<TcpStream>,
    address: SocketAddr,
}

impl Press {
    /// Connects and sends as much of a beginning as is taken; the connection stays.
    fn send(&mut self, text: &[u8]) {
        let Ok(mut peer) = TcpStream::connect_timeout(&self.address, Duration::from_secs(5)) else { return };
        let _ = peer.set_nonblocking(true);
        let _ = peer.write(text);
        self.open.push(peer);
    }

    /// Sends more on every connection, as far as it is taken; how many are still open.
    fn more(&mut self, text: &[u8]) -> usize {
        let is_open = |peer: &mut TcpStream| match peer.write(text) {
            Ok(_) => true,
            Err(e) => e.kind() == ErrorKind::WouldBlock,
        };
        self.open.iter_mut().map(is_open).filter(|open| *open).count()
    }
}

/// A daemon on a made machine with an endpoint, and what it may not exceed.
struct Pressed {
    scene: Scene,
    child: Child,
    address: SocketAddr,
    before: fakehost::ResctrlSettings,
    /// Threads before anybody pressed.
    threads: u64,
}

/// Bytes of memory that the daemon may have.
const MOST_KIB: u64 = 32 << 10;
/// Answers take as long at most. What is pressed and who presses share this machine's processors.
const MOST_WAIT: Duration = Duration::from_secs(1);
const TRIES: u32 = 5;

fn pressed(prlimit: &[&str]) -> Option<Pressed> {
    let scene = scene(Spec::default(), ANY_PORT)?;
    let before = scene.host.state();
    let mut child = scene.spawn_within(prlimit);
    scene.until("a mask", || scene.host.writes().iter().any(|w| w.path.ends_with("wirespeed-rx/schemata")));
    let address = scene.address();
    let threads = number_of(&child, "Threads:");
    assert!(child.try_wait().unwrap().is_none());
    Some(Pressed { scene, child, address, before, threads })
}

impl Pressed {
    fn press(&self) -> Press {
        Press { open: Vec::new(), address: self.address }
    }

    /// A good client's question.
    fn ask(&self, path: &str) -> std::io::Result<String> {
        let start = Instant::now();
        let mut peer = TcpStream::connect_timeout(&self.address, MOST_WAIT)?;
        peer.set_read_timeout(Some(MOST_WAIT))?;
        write!(peer, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        peer.read_to_string(&mut answer)?;
        if start.elapsed() > MOST_WAIT { Err(ErrorKind::TimedOut.into()) } else { Ok(answer) }
    }

    /// Others are answered, and the daemon is as small as it was.
    fn holds(&mut self, what: &str) {
        for path in ["/healthz", "/metrics"] {
            // Again, where this machine was busy with others for a second.
            let answer = (0..TRIES).map(|_| self.ask(path)).find(|answer| answer.as_ref().is_ok_and(|a| !a.is_empty()));
            let answer = answer.unwrap_or_else(|| panic!("{what}: {path}: no answer; {}", self.scene.log())).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
        }
        assert!(self.child.try_wait().unwrap().is_none(), "{what}: it has ended: {}", self.scene.log());
        let (kib, threads) = (number_of(&self.child, "VmHWM:"), number_of(&self.child, "Threads:"));
        assert!(kib < MOST_KIB, "{what}: {kib} KiB");
        // A name may be looked up meanwhile, for [json], in a thread of its own.
        assert!(threads <= self.threads + 2, "{what}: {threads} threads, {} before", self.threads);
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count();
        assert!(descriptors < 200, "{what}: {descriptors} descriptors");
        println!("{what}: {kib} KiB, {threads} threads, {descriptors} descriptors");
    }

    /// Ended, it leaves the machine as it was.
    fn end(mut self) {
        signal(&self.child, "-TERM");
        assert!(self.child.wait().unwrap().success(), "{}", self.scene.log());
        self.scene.is_as(&self.before);
    }
}

/// What is read of a body is nothing, so its declared length is nothing to the daemon.
#[test]
fn requests_with_bodies_of_any_declared_length_are_refused_and_end_nothing() {
    let Some(mut pressed) = pressed(&[]) else { return };
    let mut press = pressed.press();
    for (method, length, body) in [
        ("POST", "99999999999", ""),
        ("POST", "18446744073709551615", ""),
        ("POST", "20000000000", ""),
        ("POST", "5", ""),
        ("GET", "99999999999", ""),
        ("GET", "18446744073709551615", "ab"),
        ("PUT", "-1", "abc"),
        ("POST", "20", "half of it"),
    ] {
        press.send(format!("{method} /metrics HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes());
        pressed.holds(&format!("{method} with Content-Length: {length}"));
    }
    press.send(b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n");
    press.send(b"POST /metrics HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 99\r\n\r\n");
    pressed.holds("chunks and expectations");
    // Who sends a body is answered too, as far as he listens.
    let mut peer = TcpStream::connect(pressed.address).unwrap();
    peer.write_all(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc").unwrap();
    let mut answer = String::new();
    peer.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    pressed.end();
}

#[test]
fn headers_without_an_end_take_no_memory() {
    let Some(mut pressed) = pressed(&[]) else { return };
    let mut press = pressed.press();
    press.send(b"GET /metrics HTTP/1.1\r\n");
    press.send(b"GET /");
    let line = vec![b'a'; 1 << 20];
    let start = Instant::now();
    // 200 MiB and more, where anybody takes them.
    for _ in 0..200 {
        press.more(&line);
        press.send(b"GET / HTTP/1.1\r\nX: ");
    }
    pressed.holds("headers without an end");
    // And they are gone by themselves.
    pressed.scene.until("all to be closed", || press.more(b"a") == 0);
    println!("gone after {:?}", start.elapsed());
    pressed.end();
}

#[test]
fn three_thousand_slow_connections_keep_nobody_from_an_answer() {
    let Some(mut pressed) = pressed(&[]) else { return };
    let mut press = pressed.press();
    for round in 0..30 {
        for i in 0..100 {
            press.send([&b""[..], b"G", b"GET /metrics HTTP/1.1\r\n"][i % 3]);
        }
        press.more(b"a");
        pressed.holds(&format!("{} slow connections", (round + 1) * 100));
    }
    assert!(press.open.len() > 2900, "{}", press.open.len());
    pressed.end();
}

#[test]
fn a_flood_that_goes_on_keeps_nobody_from_an_answer() {
    let Some(mut pressed) = pressed(&[]) else { return };
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (flag, mut press) = (stop.clone(), pressed.press());
    let flood = std::thread::spawn(move || {
        let mut sent = 0u64;
        while !flag.load(std::sync::atomic::Ordering::Relaxed) {
            press.send(b"GET /metrics HTTP/1.1\r\nX: ");
            sent += 1;
            if press.open.len() > 200 {
                press.open.remove(0);
            }
        }
        sent
    });
    for i in 0..100 {
        pressed.holds(&format!("question {i} in a flood"));
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    println!("{} connections", flood.join().unwrap());
    pressed.end();
}

/// 256 descriptors: the loop keeps some of them, and those of slow connections come back.
#[test]
fn with_few_descriptors_the_loop_goes_on_and_others_are_answered() {
    let Some(mut pressed) = pressed(&["--nofile=256:256"]) else { return };
    let mut press = pressed.press();
    for _ in 0..600 {
        press.send(b"GET");
    }
    pressed.holds("600 slow connections, 256 descriptors");
    let from = pressed.scene.host.operations();
    pressed.scene.until("intervals beside them", || pressed.scene.host.operations() > from + 50);
    drop(press);
    pressed.holds("after they have left");
    pressed.end();
}
