//! That the policy cannot decide, and why: said once when it begins, once more when packets are lost meanwhile, and when it ends.

use std::fmt;

use control::{Lack, Observation};

/// A policy that holds still for want of counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Undecided {
    /// What it lacks.
    pub lack: Lack,
    /// Packets lost a second, where that is known.
    pub lost_pps: Option<f64>,
}

/// What is to be said of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum UndecidedNews {
    /// It begins, for another reason, or with loss.
    Begins(Undecided),
    /// It is over.
    Ends,
}

/// What has been said.
#[derive(Debug, Default)]
pub(crate) struct UndecidedNotice {
    /// The lack, and whether packets were lost.
    said: Option<(Lack, bool)>,
}

/// Labels of all lacks.
pub(crate) const REASONS: [&str; 7] = [
    reason(Lack::Received),
    reason(Lack::DeviceBytes),
    reason(Lack::Busy),
    reason(Lack::DeviceWays),
    reason(Lack::MissRates),
    reason(Lack::DeviceMisses),
    reason(Lack::CoreMisses),
];

/// Less loss than this share of what arrives is not worth a line of its own.
const LOSS: f64 = 1e-3;

/// A lack as the label of a metric.
pub(crate) const fn reason(lack: Lack) -> &'static str {
    match lack {
        Lack::Received => "no_received_packets",
        Lack::DeviceBytes => "no_device_bytes",
        Lack::Busy => "no_busy_time",
        Lack::DeviceWays => "no_device_ways",
        Lack::MissRates => "no_miss_rates",
        Lack::DeviceMisses => "no_device_miss_rate",
        Lack::CoreMisses => "no_core_miss_rate",
    }
}

impl UndecidedNotice {
    /// What is to be said after an interval that lacked this and saw that.
    pub(crate) fn news(&mut self, undecided: Option<Undecided>, seen: Option<&Observation>) -> Option<UndecidedNews> {
        let Some(now) = undecided else { return self.said.take().map(|_| UndecidedNews::Ends) };
        let received = seen.and_then(|s| s.received_pps).map_or(0.0, |s| s.value);
        let loses = now.lost_pps.is_some_and(|lost| lost > LOSS * (lost + received));
        // Loss that comes and goes is said once.
        let said = (now.lack, loses || self.said.is_some_and(|(lack, lost)| lack == now.lack && lost));
        (self.said.replace(said) != Some(said)).then_some(UndecidedNews::Begins(now))
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the policy holds still: ")?;
        f.write_str(match self.lack {
            Lack::Received => "packets received are unknown (name [telemetry], and start its DPDK program)",
            Lack::DeviceBytes => "bytes that devices write are unknown (name [telemetry], or pcie_write_bytes)",
            Lack::Busy => {
                "busy time of the receiving cores is unknown (it takes /eal/lcore/usage: DPDK 23.03 or later, and a program that \
                 records its cycles, as testpmd does with --record-core-cycles)"
            }
            Lack::DeviceWays => "the ways of device writes cannot be read",
            Lack::MissRates => {
                "misses are unknown, of device writes and of packet cores (name ddio_hits and ddio_misses, or llc_misses and \
                 llc_lookups, in [json] or [perf])"
            }
            Lack::DeviceMisses => {
                "misses of device writes are unknown, so devices are given no way (name ddio_hits and ddio_misses in [json] or \
                 [perf])"
            }
            Lack::CoreMisses => {
                "misses of packet cores are unknown, so they are given no way (name llc_misses and llc_lookups in [json] or [perf])"
            }
        })?;
        match self.lost_pps {
            Some(lost) if lost > 0.0 => write!(f, "; {lost:.0} packets a second are lost"),
            Some(_) => f.write_str("; no packet is lost"),
            None => f.write_str("; whether packets are lost is unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_when_it_begins_when_packets_are_lost_and_when_it_ends() {
        let mut notice = UndecidedNotice::default();
        let of = |lack, lost| Some(Undecided { lack, lost_pps: Some(lost) });
        assert_eq!(notice.news(None, None), None);
        for (undecided, is_news) in [
            (of(Lack::Busy, 0.0), true),
            (of(Lack::Busy, 0.0), false),
            (of(Lack::Busy, 9.0), true),
            (of(Lack::Busy, 0.0), false),
            (of(Lack::Busy, 5.0), false),
            (of(Lack::MissRates, 0.0), true),
        ] {
            let news = notice.news(undecided, None);
            assert_eq!(news, undecided.filter(|_| is_news).map(UndecidedNews::Begins), "{undecided:?}");
        }
        assert_eq!(notice.news(None, None), Some(UndecidedNews::Ends));
        assert_eq!(notice.news(None, None), None);
    }

    #[test]
    fn what_is_lacking_comes_with_what_to_do_and_what_is_lost() {
        let text = |lost_pps| Undecided { lack: Lack::Busy, lost_pps }.to_string();
        assert!(text(Some(204_171.2)).ends_with("; 204171 packets a second are lost"), "{}", text(Some(204_171.2)));
        assert!(text(Some(0.0)).contains("DPDK 23.03") && text(Some(0.0)).ends_with("no packet is lost"));
        assert!(text(None).ends_with("unknown"));
        let mut labels = REASONS;
        labels.sort_unstable();
        assert!(labels.windows(2).all(|w| w[0] != w[1]));
    }
}
