//! Answers a `GET` on the loopback, and stays small whatever is asked: any local user can ask, and the daemon is root's.
//!
//! One thread, [`MOST_OPEN`] connections, [`MOST_REQUEST`] bytes of each, [`PATIENCE`] for the whole of each. A body is not read, and
//! each connection ends after its answer. Where a new connection finds no place, or no descriptor, the oldest one goes: who sends a
//! request at once is answered before as many others can have come. A panic loses connections, never the thread.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::{Resource, getrlimit};

use crate::{DaemonError, Metrics};

/// What is said to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpResponse {
    /// HTTP's code.
    pub(crate) code: u16,
    /// The content's type.
    pub(crate) kind: &'static str,
    /// The content.
    pub(crate) text: String,
}

impl HttpResponse {
    fn plain(code: u16, text: impl Into<String>) -> HttpResponse {
        HttpResponse { code, kind: "text/plain; charset=utf-8", text: text.into() }
    }
}

/// Connections at once, where there are descriptors for four times as many: the loop needs some, to put the machine back for one.
const MOST_OPEN: usize = 128;
/// Bytes of a request line and its headers.
const MOST_REQUEST: usize = 8192;
/// From the first byte of a connection to the last one of its answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Connections that are taken before those that are there are looked at again.
const MOST_ACCEPTED: usize = 64;
/// Connections that wait to be taken; the kernel may allow fewer.
const BACKLOG: i32 = 1024;
/// What the kernel keeps of what a connection sends.
const KEPT_BYTES: usize = 16_384;
/// After a panic, and where the system has no descriptors and none is ours to give back.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers `/metrics` and `/healthz` (200 while intervals end, 503 when none has for `patience`). Returns where, unless `listen` is
/// empty: port 0 is any that is free.
///
/// # Errors
/// The address is taken, or is not of the loopback.
pub fn serve(listen: &str, metrics: Metrics, patience: Duration) -> Result<Option<SocketAddr>, DaemonError> {
    if listen.is_empty() {
        return Ok(None);
    }
    let (listener, address) = open(listen)?;
    let answer = move |target: &str| match target {
        "/metrics" => HttpResponse {
            code: 200,
            kind: "application/openmetrics-text; version=1.0.0; charset=utf-8",
            text: metrics.text(),
        },
        "/healthz" => {
            let (code, text) = metrics.health(patience);
            HttpResponse::plain(code, text)
        }
        _ => HttpResponse::plain(404, "there are /metrics and /healthz\n"),
    };
    start(listener, answer).map_err(|e| DaemonError::file("starting a thread for", listen.as_ref(), e))?;
    Ok(Some(address))
}

/// A listener on an address of the loopback.
fn open(listen: &str) -> Result<(TcpListener, SocketAddr), DaemonError> {
    let wrong = |why: String| DaemonError::Setting { path: "listen".into(), came: format!("{listen:?}"), allowed: why };
    let address: SocketAddr = listen.parse().map_err(|_| wrong("an address such as 127.0.0.1:9736".into()))?;
    if !address.ip().is_loopback() {
        return Err(wrong("an address of the loopback".into()));
    }
    let bound = || -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        // Connections have it from the listener.
        set_socket_recv_buffer_size(&listener, KEPT_BYTES)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    bound().map_err(|e| wrong(format!("{e} (another program has it: name another port)")))
}

/// Answers until the process ends.
fn start(
    listener: TcpListener,
    answer: impl FnMut(&str) -> HttpResponse + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = (descriptors / 4).clamp(1, MOST_OPEN as u64) as usize;
    thread::Builder::new().name("endpoint".into()).spawn(move || {
        let mut endpoint = Endpoint { listener, open: Vec::new(), most, answer };
        loop {
            // Connections are dropped after a panic, so nothing half done is looked at again.
            if catch_unwind(AssertUnwindSafe(|| endpoint.round())).is_err() {
                endpoint.open.clear();
                tracing::error!(event = "endpoint", "an answer failed; open connections are dropped");
                thread::sleep(PAUSE);
            }
        }
    })
}

struct Endpoint<A> {
    listener: TcpListener,
    /// Oldest first.
    open: Vec<Connection>,
    /// How many there may be.
    most: usize,
    answer: A,
}

struct Connection {
    peer: TcpStream,
    since: Instant,
    state: ConnectionState,
}

enum ConnectionState {
    /// What has come of the request.
    Reads(Vec<u8>),
    /// The answer, and how much of it has gone.
    Writes(Vec<u8>, usize),
    /// All is said. What the peer still sends is not read: closing now could take the answer from him.
    Lingers,
    Done,
}

impl<A: FnMut(&str) -> HttpResponse> Endpoint<A> {
    /// Waits until something can be done, and does it.
    fn round(&mut self) {
        self.open.retain(|c| !matches!(c.state, ConnectionState::Done) && c.since.elapsed() < PATIENCE);
        let wait = self.open.first().map(|oldest| PATIENCE.saturating_sub(oldest.since.elapsed()));
        let wait = wait.and_then(|w| Timespec::try_from(w + Duration::from_millis(1)).ok());
        let mut polled: Vec<PollFd<'_>> = self.open.iter().map(Connection::wants).collect();
        polled.push(PollFd::new(&self.listener, PollFlags::IN));
        if poll(&mut polled, wait.as_ref()).is_err() {
            // An interrupted call; and never a loop without rest.
            thread::sleep(Duration::from_millis(1));
            return;
        }
        let ready: Vec<bool> = polled.iter().map(|p| !p.revents().is_empty()).collect();
        for (connection, _) in self.open.iter_mut().zip(&ready).filter(|(_, ready)| **ready) {
            connection.go_on(&mut self.answer);
        }
        if ready.last() == Some(&true) {
            self.accept();
        }
    }

    fn accept(&mut self) {
        for _ in 0..MOST_ACCEPTED {
            self.open.retain(|c| !matches!(c.state, ConnectionState::Done));
            match self.listener.accept() {
                Ok((peer, _)) => {
                    if self.open.len() >= self.most {
                        self.open.remove(0);
                    }
                    if peer.set_nonblocking(true).is_ok() {
                        let mut connection =
                            Connection { peer, since: Instant::now(), state: ConnectionState::Reads(Vec::new()) };
                        // Most have sent their request by now.
                        connection.go_on(&mut self.answer);
                        self.open.push(connection);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // The peer has gone before it was taken.
                Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {}
                // No descriptors, or no memory.
                Err(_) if self.open.is_empty() => return thread::sleep(PAUSE),
                Err(_) => drop(self.open.remove(0)),
            }
        }
    }
}

impl Connection {
    fn wants(&self) -> PollFd<'_> {
        let wanted = match self.state {
            ConnectionState::Reads(_) => PollFlags::IN,
            ConnectionState::Writes(..) => PollFlags::OUT,
            ConnectionState::Lingers | ConnectionState::Done => PollFlags::RDHUP,
        };
        PollFd::new(&self.peer, wanted)
    }

    /// As far as it goes without waiting.
    fn go_on(&mut self, answer: &mut impl FnMut(&str) -> HttpResponse) {
        if let ConnectionState::Reads(came) = &mut self.state {
            match read(&mut self.peer, came) {
                Ok(None) => return,
                Ok(Some(end)) => self.state = ConnectionState::Writes(respond(came, end, answer), 0),
                Err(_) => self.state = ConnectionState::Done,
            }
        }
        if let ConnectionState::Writes(text, gone) = &mut self.state {
            match write(&mut self.peer, text, gone) {
                Ok(false) => return,
                Ok(true) if self.peer.shutdown(Shutdown::Write).is_ok() => self.state = ConnectionState::Lingers,
                _ => self.state = ConnectionState::Done,
            }
            return;
        }
        // The peer has closed.
        self.state = ConnectionState::Done;
    }
}

/// Where a request ends.
enum RequestEnd {
    /// In an empty line.
    Whole,
    /// Nowhere within what is read of it.
    TooLong,
}

/// Reads what is there; [`None`]: more is to come.
fn read(peer: &mut TcpStream, came: &mut Vec<u8>) -> io::Result<Option<RequestEnd>> {
    let mut part = [0; 2048];
    loop {
        let left = (MOST_REQUEST - came.len()).min(part.len());
        // The end may have begun in what came before.
        let from = came.len().saturating_sub(3);
        match peer.read(&mut part[..left]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => came.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
        if is_whole(&came[from..]) {
            return Ok(Some(RequestEnd::Whole));
        }
        if came.len() >= MOST_REQUEST {
            return Ok(Some(RequestEnd::TooLong));
        }
    }
}

/// Writes what is taken; whether that is all.
fn write(peer: &mut TcpStream, text: &[u8], gone: &mut usize) -> io::Result<bool> {
    while let Some(left) = text.get(*gone..).filter(|left| !left.is_empty()) {
        match peer.write(left) {
            Ok(n) => *gone += n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

/// Whether the empty line that ends a request is in it.
fn is_whole(came: &[u8]) -> bool {
    came.windows(4).any(|w| w == b"\r\n\r\n") || came.windows(2).any(|w| w == b"\n\n")
}

/// The answer to a request, as it is sent.
fn respond(came: &[u8], end: RequestEnd, answer: &mut impl FnMut(&str) -> HttpResponse) -> Vec<u8> {
    let line = came.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let answer = match (end, words.as_slice()) {
        (RequestEnd::TooLong, _) => HttpResponse::plain(431, format!("a request has {MOST_REQUEST} bytes at most\n")),
        (RequestEnd::Whole, ["GET" | "HEAD", target, version]) if version.starts_with("HTTP/1.") => {
            answer(target.split('?').next().unwrap_or_default())
        }
        (RequestEnd::Whole, [_, _, version]) if version.starts_with("HTTP/") => {
            HttpResponse::plain(405, "GET and HEAD are answered\n")
        }
        _ => HttpResponse::plain(400, "that is no request of HTTP/1.1\n"),
    };
    let HttpResponse { code, kind, text } = answer;
    let allow = if code == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {code} {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        reason(code),
        text.len()
    );
    let body = if words.first() == Some(&"HEAD") { "" } else { &text };
    [head.as_bytes(), body.as_bytes()].concat()
}

fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(answer: impl FnMut(&str) -> HttpResponse + Send + 'static) -> SocketAddr {
        let (listener, address) = open("127.0.0.1:0").unwrap();
        start(listener, answer).unwrap();
        address
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        peer.write_all(request).unwrap();
        let mut answer = String::new();
        let _ = peer.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn only_the_loopback_is_listened_on() {
        assert!(serve("0.0.0.0:0", Metrics::new(), Duration::from_secs(1)).is_err());
        assert!(serve("", Metrics::new(), Duration::from_secs(1)).unwrap().is_none());
    }

    #[test]
    fn a_get_is_answered_and_what_is_none_is_told() {
        let address = started(|target| HttpResponse::plain(200, format!("this is {target}\n")));
        let get = ask(address, b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(get.starts_with("HTTP/1.1 200 OK\r\n") && get.ends_with("\r\n\r\nthis is /a\n"), "{get}");
        assert!(get.contains("Content-Length: 11\r\n") && get.contains("Connection: close\r\n"), "{get}");
        let head = ask(address, b"HEAD /a HTTP/1.0\n\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("close\r\n\r\n"), "{head}");
        assert!(head.contains("Content-Length: 11\r\n"), "as long as a GET's: {head}");
        for (request, code) in [
            (&b"POST /a HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nxyz"[..], 405),
            (b"\r\n\r\n", 400),
            (b"GET /a\r\n\r\n", 400),
            (b"\x16\x03\x01\x02\x00\x01\n\n", 400),
            (b"GET /a b HTTP/1.1\r\n\r\n", 400),
        ] {
            let answer = ask(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{code}: {answer}");
        }
        let long = ask(address, &[b'a'; MOST_REQUEST]);
        assert!(long.starts_with("HTTP/1.1 431"), "{long}");
    }

    #[test]
    fn a_request_in_pieces_is_one() {
        let address = started(|_| HttpResponse::plain(200, "x"));
        let mut peer = TcpStream::connect(address).unwrap();
        for part in ["GE", "T / HTTP/1.1\r\n", "\r", "\n"] {
            peer.write_all(part.as_bytes()).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
        let mut answer = String::new();
        peer.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    #[test]
    fn an_answer_longer_than_what_is_taken_at_once_is_whole() {
        let address = started(|_| HttpResponse::plain(200, "x".repeat(8 << 20)));
        let answer = ask(address, b"GET / HTTP/1.1\r\n\r\n");
        assert!(answer.len() > 8 << 20, "{}", answer.len());
    }

    #[test]
    fn a_panic_ends_connections_and_not_the_endpoint() {
        let address = started(|target| {
            assert_ne!(target, "/panic");
            HttpResponse::plain(200, "well\n")
        });
        for _ in 0..3 {
            assert_eq!(ask(address, b"GET /panic HTTP/1.1\r\n\r\n"), "");
            assert!(ask(address, b"GET / HTTP/1.1\r\n\r\n").ends_with("well\n"));
        }
    }

    #[test]
    fn who_says_nothing_gives_way_to_who_does() {
        let address = started(|_| HttpResponse::plain(200, "well\n"));
        let silent: Vec<TcpStream> = (0..3 * MOST_OPEN).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert!(ask(address, b"GET / HTTP/1.1\r\n\r\n").ends_with("well\n"));
        // Without anybody in their place they go when their time is over.
        for mut peer in silent {
            peer.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            assert!(matches!(peer.read(&mut [0; 1]), Ok(0) | Err(_)));
        }
    }
}
