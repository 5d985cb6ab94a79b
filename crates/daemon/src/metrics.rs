//! What the daemon tells others: numbers for Prometheus, and health.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use policy::StepOutcome;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use units::{Cbm, Clos};

use crate::undecided::{REASONS, Undecided, reason};
use crate::{DaemonError, Effect};

/// A class, by its name in the configuration.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ClassMetrics {
    class: String,
}

/// A class in a domain of the cache.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DomainLabels {
    class: String,
    domain: u32,
}

/// Why the policy cannot decide.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
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
    ways: Family<ClassMetrics, Gauge>,
    domain_ways: Family<DomainLabels, Gauge>,
    llc_bytes: Family<ClassMetrics, Real>,
    llc_miss: Family<ClassMetrics, Real>,
    busy: Family<ClassMetrics, Real>,
    undecided: Family<ReasonLabel, Gauge>,
    last: Arc<Mutex<Last>>,
}

/// What health is judged by.
struct Last {
    ended: Instant,
    undecided: Option<Undecided>,
    experiment_loses: Option<f64>,
}

/// What is known of an interval beside what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// Sources of counters that could not be read.
    pub faults: &'a [String],
    /// Of changing the ways of devices.
    pub effect: Option<Effect>,
    /// Why the policy cannot decide.
    pub undecided: Option<Undecided>,
    /// Packets a second that the daemon's own measurement loses.
    pub experiment_loses: Option<f64>,
    /// Names of classes by number.
    pub classes: &'a BTreeMap<u8, String>,
    /// Masks by class and domain.
    pub masks: &'a [(Clos, Vec<(u32, Cbm)>)],
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
            domain_ways: Family::default(),
            llc_bytes: Family::default(),
            llc_miss: Family::default(),
            busy: Family::default(),
            undecided: Family::default(),
            last: Arc::new(Mutex::new(Last { ended: Instant::now(), undecided: None, experiment_loses: None })),
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
        registry.register(
            "class_domain_ways",
            "Ways that a class may fill, in each L3 domain in which it is set",
            m.domain_ways.clone(),
        );
        registry.register("class_llc_bytes", "Bytes of the LLC that a class occupies", m.llc_bytes.clone());
        registry.register("class_llc_miss_ratio", "Share of a class's LLC lookups that missed", m.llc_miss.clone());
        registry.register("class_busy_ratio", "Share of a class's time not spent polling in vain", m.busy.clone());
        registry.register(
            "policy_undecided",
            "The policy lacks what it decides by: 1 for the reason",
            m.undecided.clone(),
        );
        for reason in REASONS {
            m.undecided.get_or_create(&ReasonLabel { reason }).set(0);
        }
        metrics.registry = Arc::new(registry);
        metrics
    }

    /// Takes in an interval.
    pub fn interval(&self, outcome: &StepOutcome<DaemonError>, of: &Circumstances<'_>) {
        let name = match outcome {
            StepOutcome::Held(_) => "hold",
            StepOutcome::Applied(..) => "apply",
            StepOutcome::Refused(..) => "refused",
            StepOutcome::Blind(_) => "blind",
        };
        self.decisions.get_or_create(&Decision { outcome: name }).inc();
        self.faults.inc_by(of.faults.len() as u64);
        self.effect.set(match of.effect {
            Some(Effect::Measured) => 1,
            Some(Effect::None) => 0,
            Some(Effect::Unknown) | None => -1,
        });
        let undecided = of.undecided;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) =
            Last { ended: Instant::now(), undecided, experiment_loses: of.experiment_loses };
        for each in REASONS {
            let is_it = undecided.is_some_and(|u| reason(u.lack) == each);
            self.undecided.get_or_create(&ReasonLabel { reason: each }).set(i64::from(is_it));
        }
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
        let named =
            |clos: u8| ClassMetrics { class: of.classes.get(&clos).cloned().unwrap_or_else(|| clos.to_string()) };
        // A domain that is offline has no ways, and a class of such domains alone has none.
        self.ways.clear();
        for (clos, mask) in &seen.in_force.classes {
            self.ways.get_or_create(&named(clos.0)).set(i64::from(mask.ways()));
        }
        self.domain_ways.clear();
        for (clos, masks) in of.masks {
            for (domain, mask) in masks {
                let labels = DomainLabels { class: named(clos.0).class, domain: *domain };
                self.domain_ways.get_or_create(&labels).set(i64::from(mask.ways()));
            }
        }
        for class in &seen.classes {
            let of = named(class.clos.0);
            set(&self.llc_bytes.get_or_create(&of), class.llc_bytes);
            set(&self.llc_miss.get_or_create(&of), class.llc_miss_rate);
            set(&self.busy.get_or_create(&of), class.busy);
        }
    }

    /// HTTP's code and a line: 503 when no interval has ended for `patience`, else 200, with what the policy lacks if it lacks
    /// something, or what the daemon's own measurement loses. Then the loop goes on and nothing is set wrong, so a new start would mend nothing.
    pub fn health(&self, patience: Duration) -> (u16, String) {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match (&last.undecided, last.experiment_loses) {
            _ if last.ended.elapsed() >= patience => (503, "no interval has ended for too long\n".into()),
            (Some(undecided), _) => (200, format!("degraded: {undecided}\n")),
            (None, Some(lost)) => {
                let what = "the measurement of what ways of devices do loses";
                (200, format!("degraded: {what} {lost:.0} packets a second (io.verify = false omits it)\n"))
            }
            (None, None) => (200, "ok\n".into()),
        }
    }

    /// As Prometheus reads them.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use control::{Allocation, Observation, Sample};
    use units::Ps;

    use super::*;

    #[test]
    fn a_counter_that_is_missing_is_no_number() {
        let metrics = Metrics::new();
        let sample = Sample { value: 5.0, age: Ps::ZERO, interval: Ps(1) };
        let in_force = Allocation { classes: vec![(Clos(1), Cbm(0x3e))], ..Allocation::default() };
        let seen = Observation { received_pps: Some(sample), in_force, ..Observation::default() };
        let (faults, classes) = (["x".to_string()], BTreeMap::new());
        let masks = [(Clos(1), vec![(2, Cbm(0x3e))])];
        let of = Circumstances {
            faults: &faults,
            effect: Some(Effect::None),
            undecided: None,
            experiment_loses: Some(1234.4),
            classes: &classes,
            masks: &masks,
        };
        metrics.interval(&StepOutcome::Held(seen), &of);
        let text = metrics.text();
        for line in [
            "wirespeedd_received_pps 5.0",
            "wirespeedd_lost_pps NaN",
            "wirespeedd_intervals_total{outcome=\"hold\"} 1",
            "wirespeedd_counter_faults_total 1",
            "wirespeedd_io_ways_effect 0",
            "wirespeedd_class_ways{class=\"1\"} 5",
            "wirespeedd_class_domain_ways{class=\"1\",domain=\"2\"} 5",
            "wirespeedd_policy_undecided{reason=\"no_busy_time\"} 0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let health = metrics.health(Duration::from_secs(60));
        assert_eq!(
            (health.0, health.1.contains("loses 1234 packets a second (io.verify")),
            (200, true),
            "{}",
            health.1
        );
        let seen = Observation::default();
        metrics.interval(&StepOutcome::Held(seen), &Circumstances { experiment_loses: None, masks: &[], ..of });
        assert_eq!(metrics.health(Duration::from_secs(60)), (200, "ok\n".into()));
        let text = metrics.text();
        assert!(!text.contains("_ways{class="), "ways of domains that are offline by now\n{text}");
    }
}
