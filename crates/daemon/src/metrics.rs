//! What the daemon tells others: Prometheus metrics and health, on the loopback.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use policy::Outcome;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tiny_http::{Header, Response, Server};

use crate::{DaemonError, Effect};

/// A class.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Class {
    clos: u8,
}

/// What came of an interval.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Decision {
    outcome: &'static str,
}

type Real = Gauge<f64, AtomicU64>;

/// Numbers of the loop, which the server shows.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    decisions: Family<Decision, Counter>,
    faults: Counter,
    io_ways: Gauge,
    effect: Gauge,
    received: Real,
    lost: Real,
    ddio: Real,
    memory: Real,
    ways: Family<Class, Gauge>,
    llc_bytes: Family<Class, Real>,
    llc_miss: Family<Class, Real>,
    busy: Family<Class, Real>,
    last: Arc<Mutex<Instant>>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// All at nothing.
    pub fn new() -> Metrics {
        let mut registry = Registry::with_prefix("wirespeedd");
        let mut metrics = Metrics {
            registry: Arc::new(Registry::default()),
            decisions: Family::default(),
            faults: Counter::default(),
            io_ways: Gauge::default(),
            effect: Gauge::default(),
            received: Real::default(),
            lost: Real::default(),
            ddio: Real::default(),
            memory: Real::default(),
            ways: Family::default(),
            llc_bytes: Family::default(),
            llc_miss: Family::default(),
            busy: Family::default(),
            last: Arc::new(Mutex::new(Instant::now())),
        };
        let m = &metrics;
        registry.register("intervals", "Intervals by what came of them", m.decisions.clone());
        registry.register("counter_faults", "Sources of counters that could not be read", m.faults.clone());
        registry.register("io_ways", "Ways that device writes may fill", m.io_ways.clone());
        registry.register(
            "io_ways_effect",
            "Changes of them have an effect: 1 yes, 0 no, -1 unknown",
            m.effect.clone(),
        );
        registry.register("received_pps", "Packets received a second", m.received.clone());
        registry.register("lost_pps", "Packets lost a second", m.lost.clone());
        registry.register("ddio_write_miss_ratio", "Share of device writes that missed the LLC", m.ddio.clone());
        registry.register("memory_bytes_per_second", "Bytes to and from DRAM a second", m.memory.clone());
        registry.register("class_ways", "Ways that a class may fill", m.ways.clone());
        registry.register("class_llc_bytes", "Bytes of the LLC that a class occupies", m.llc_bytes.clone());
        registry.register("class_llc_miss_ratio", "Share of a class's LLC lookups that missed", m.llc_miss.clone());
        registry.register("class_busy_ratio", "Share of a class's time not spent polling in vain", m.busy.clone());
        metrics.registry = Arc::new(registry);
        metrics
    }

    /// Takes in an interval.
    pub fn interval(&self, outcome: &Outcome<DaemonError>, faults: &[String], effect: Option<Effect>) {
        let name = match outcome {
            Outcome::Held(_) => "hold",
            Outcome::Applied(..) => "apply",
            Outcome::Refused(..) => "refused",
            Outcome::Blind(_) => "blind",
        };
        self.decisions.get_or_create(&Decision { outcome: name }).inc();
        self.faults.inc_by(faults.len() as u64);
        self.effect.set(match effect {
            Some(Effect::Measured) => 1,
            Some(Effect::None) => 0,
            Some(Effect::Unknown) | None => -1,
        });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let Some(seen) = outcome.seen() else { return };
        // A counter that is missing is no number, which is not the same as 0.
        let set = |gauge: &Real, counter: control::Counter| {
            gauge.set(counter.map_or(f64::NAN, |s| s.value));
        };
        set(&self.received, seen.received_pps);
        set(&self.lost, seen.lost_pps);
        set(&self.ddio, seen.ddio_write_miss_rate);
        set(&self.memory, seen.memory_bytes_per_s);
        self.io_ways.set(seen.in_force.io_ways.map_or(-1, |w| i64::from(w.ways())));
        for (clos, mask) in &seen.in_force.classes {
            self.ways.get_or_create(&Class { clos: clos.0 }).set(i64::from(mask.ways()));
        }
        for class in &seen.classes {
            let of = Class { clos: class.clos.0 };
            set(&self.llc_bytes.get_or_create(&of), class.llc_bytes);
            set(&self.llc_miss.get_or_create(&of), class.llc_miss_rate);
            set(&self.busy.get_or_create(&of), class.busy);
        }
    }

    /// Since the last interval ended.
    pub fn since_last(&self) -> Duration {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// As Prometheus reads them.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Answers `/metrics` and `/healthz` (200 while intervals end, 503 when none has for `patience`).
///
/// # Errors
/// The address is taken, or is not of the loopback.
pub fn serve(listen: &str, metrics: Metrics, patience: Duration) -> Result<Option<JoinHandle<()>>, DaemonError> {
    if listen.is_empty() {
        return Ok(None);
    }
    let wrong = |why: String| DaemonError::Setting { path: "listen".into(), came: format!("{listen:?}"), allowed: why };
    let address: SocketAddr = listen.parse().map_err(|_| wrong("an address such as 127.0.0.1:9736".into()))?;
    if !address.ip().is_loopback() {
        return Err(wrong("an address of the loopback".into()));
    }
    let server =
        Server::http(address).map_err(|e| wrong(format!("{e} (another program has it: name another port)")))?;
    Ok(Some(std::thread::spawn(move || {
        for request in server.incoming_requests() {
            let (code, text) = match request.url() {
                "/metrics" => (200, metrics.text()),
                "/healthz" if metrics.since_last() < patience => (200, "ok\n".into()),
                "/healthz" => (503, "no interval has ended for too long\n".into()),
                _ => (404, "there are /metrics and /healthz\n".into()),
            };
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            let kind = if request.url() == "/metrics" { kind } else { "text/plain; charset=utf-8" };
            let mut answer = Response::from_string(text).with_status_code(code);
            if let Ok(header) = Header::from_bytes("Content-Type", kind) {
                answer = answer.with_header(header);
            }
            // Who asked may have gone.
            let _ = request.respond(answer);
        }
    })))
}

#[cfg(test)]
mod tests {
    use control::{Observation, Sample};
    use units::Ps;

    use super::*;

    #[test]
    fn a_counter_that_is_missing_is_no_number() {
        let metrics = Metrics::new();
        let sample = Sample { value: 5.0, age: Ps::ZERO, interval: Ps(1) };
        let seen = Observation { received_pps: Some(sample), ..Observation::default() };
        metrics.interval(&Outcome::Held(seen), &["x".into()], Some(Effect::None));
        let text = metrics.text();
        for line in [
            "wirespeedd_received_pps 5.0",
            "wirespeedd_lost_pps NaN",
            "wirespeedd_intervals_total{outcome=\"hold\"} 1",
            "wirespeedd_counter_faults_total 1",
            "wirespeedd_io_ways_effect 0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn only_the_loopback_is_listened_on() {
        assert!(serve("0.0.0.0:0", Metrics::new(), Duration::from_secs(1)).is_err());
        assert!(serve("", Metrics::new(), Duration::from_secs(1)).unwrap().is_none());
    }
}
