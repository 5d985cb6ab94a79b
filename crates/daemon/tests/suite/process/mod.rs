//! `wirespeedd` as a process on a mounted machine.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fakehost::{CounterServer, FakeHost, Mounted, ResctrlSettings, Spec, TelemetryServer};
use units::Ps;

/// A mounted machine with programs that tell its counters.
pub struct Scene {
    pub host: FakeHost,
    pub folder: tempfile::TempDir,
    pub config: PathBuf,
    _mounted: Mounted,
    _telemetry: TelemetryServer,
    _counters: CounterServer,
}

/// Needs `/dev/fuse` and the right to mount: without them the tests say so and pass.
pub fn scene(spec: Spec, more: &str) -> Option<Scene> {
    let host = FakeHost::new(spec);
    host.set_pace(Ps(1_000_000_000_000));
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let at = folder.path().join("machine");
    std::fs::create_dir(&at).unwrap();
    let mounted = match Mounted::at(&host, &at) {
        Ok(mounted) => mounted,
        Err(why) => {
            println!("skipped: no FUSE here ({why})");
            return None;
        }
    };
    let socket = folder.path().join("dpdk_telemetry.v2");
    let telemetry = TelemetryServer::start(&host, &socket).unwrap();
    let counters = CounterServer::start(&host).unwrap();
    let config = folder.path().join("wirespeedd.toml");
    let at = at.display();
    let text = format!(
        "state = \"{state}\"\ninterval = \"100 ms\"\nwatchdog = \"2 s\"\n{more}\n\
         [roots]\nresctrl = \"{at}/resctrl\"\ndev_cpu = \"{at}/cpu\"\nproc = \"{at}/proc\"\nsys = \"{at}/sys\"\n\
         [[classes]]\nname = \"rx\"\nrole = \"receive\"\ncpus = \"1\"\n\
         [telemetry]\nsocket = \"{socket}\"\n\
         [json]\nurl = \"{url}\"\nddio_hits = [\"Uncore/IO hits\"]\nddio_misses = [\"Uncore/IO misses\"]\n\
         memory_bytes = [\"Uncore/DRAM bytes\"]\nllc_misses.rx = [\"Cores/0/L3 misses\"]\nllc_lookups.rx = [\"Cores/0/L3 lookups\"]\n\
         [io]\nverify_intervals = 3\n",
        state = folder.path().join("state").display(),
        socket = socket.display(),
        url = counters.url(),
    );
    std::fs::write(&config, text).unwrap();
    Some(Scene { host, folder, config, _mounted: mounted, _telemetry: telemetry, _counters: counters })
}

impl Scene {
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeedd"));
        command.args(arguments).arg("--config").arg(&self.config).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn spawn(&self) -> Child {
        self.spawn_within(&[])
    }

    /// With limits, as prlimit (util-linux) takes them.
    pub fn spawn_within(&self, limits: &[&str]) -> Child {
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let plain = self.command(&["run", "--apply"]);
        let mut command = if limits.is_empty() { plain } else { within(limits, &plain) };
        command.stderr(log).spawn().unwrap()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(30), "waited for {what}: {}", self.log());
            std::thread::yield_now();
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// Where the daemon says that it answers.
    pub fn address(&self) -> SocketAddr {
        let mut found = None;
        self.until("an address", || {
            let log = self.log();
            let line = log.lines().find(|l| l.contains("\"event\":\"listening\""));
            found = line.and_then(|l| l.split("\"address\":\"").nth(1)?.split('"').next()?.parse().ok());
            found.is_some()
        });
        found.unwrap()
    }

    pub fn is_as(&self, state: &ResctrlSettings) {
        assert_eq!(self.host.state(), *state);
        assert_eq!(self.host.registers(), [0x600, 0x600]);
        assert_eq!(self.host.bad_masks(), 0);
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// The same command under limits.
fn within(limits: &[&str], plain: &Command) -> Command {
    let mut command = Command::new("prlimit");
    command.args(limits).arg("--").arg(plain.get_program()).args(plain.get_args()).stdin(Stdio::null());
    command
}

/// A number of `/proc/PID/status`.
pub fn number_of(child: &Child, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let found = status.lines().find_map(|l| l.strip_prefix(key)?.trim().split(' ').next()?.parse().ok());
    found.unwrap_or_else(|| panic!("{key} is not in {status:?}"))
}

/// The daemon takes a port that nobody has, and says which.
pub const ANY_PORT: &str = "listen = \"127.0.0.1:0\"";
