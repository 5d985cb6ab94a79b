//! When packets arrive: fixed gaps, Poisson, on/off bursts, Markov-modulated Poisson (MMPP).
//!
//! A process is a shape; the offered load scales it to a mean rate. Left out: self-similar traffic
//! (an MMPP with states of very different length comes near over a few decades), and the line rate,
//! which belongs to the port. Source for MMPP: Fischer and Meier-Hellstern, "The Markov-modulated
//! Poisson process (MMPP) cookbook", Performance Evaluation 18, 1993.

use rand::{Rng, RngExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Ps, Quantity, Span};

use crate::error::TrafficError;

/// More states than anybody fits.
const MAX_STATES: usize = 64;

/// The arrival process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ArrivalSpec {
    /// Equal gaps, as a traffic generator sends.
    Fixed,
    /// Exponential gaps.
    #[default]
    Poisson,
    /// Bursts: packets at a peak rate for a time, then none for a time.
    OnOff(OnOffSpec),
    /// Poisson at a rate that changes with a state.
    Mmpp(MmppSpec),
    /// The capture's own gaps, scaled to the load. Only with a capture that has timestamps.
    Capture,
}

impl ArrivalSpec {
    /// How packets come, in a few words.
    pub fn words(&self) -> &'static str {
        match self {
            ArrivalSpec::Fixed => "at equal gaps",
            ArrivalSpec::Poisson => "Poisson",
            ArrivalSpec::OnOff(_) => "in bursts, on and off",
            ArrivalSpec::Mmpp(_) => "Poisson at rates that change (MMPP)",
            ArrivalSpec::Capture => "as in the capture",
        }
    }
}

/// On for a time and off for a time, both exponential; the peak rate is the mean rate times
/// `(on + off) / on`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnOffSpec {
    /// The mean time that a burst takes.
    pub on: Span,
    /// The mean time between bursts.
    pub off: Span,
    /// How packets follow each other within a burst.
    #[serde(default)]
    pub spacing: Spacing,
}

/// How packets follow each other within a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// At equal gaps.
    #[default]
    Fixed,
    /// At exponential gaps: the interrupted Poisson process.
    Poisson,
}

/// A Markov-modulated Poisson process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MmppSpec {
    /// The states, two or more.
    pub states: Vec<MmppState>,
}

/// A state of an MMPP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MmppState {
    /// The rate in this state relative to the other states; 0 is silence.
    pub rate: f64,
    /// The mean time in this state; times are exponential.
    pub dwell: Span,
    /// Relative probabilities of the state that follows, one for each state, 0 for this one. All
    /// other states are equally likely if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Vec<f64>>,
}

/// Draws arrival times, in picoseconds, with a given mean rate.
#[derive(Clone, Debug)]
pub struct Arrivals {
    process: Process,
    now: Ps,
    /// What rounding to whole picoseconds has left over, so that rates do not drift.
    left_over: f64,
}

state::state!(Arrivals { values: [now, left_over], arrays: [], parts: [process], built: [] });

#[derive(Clone, Debug)]
enum Process {
    Fixed { gap: f64 },
    Poisson { gap: f64 },
    Modulated(Modulated),
}

/// The state of a modulated process; the others have none.
impl state::State for Process {
    fn write(&self, to: &mut state::Writer) -> Result<(), state::StateError> {
        // Which process at which rate: a server's load is not the scenario's.
        match self {
            Process::Modulated(modulated) => modulated.write(to),
            Process::Fixed { gap, .. } => to.value(&(1u64, gap.to_bits())),
            Process::Poisson { gap, .. } => to.value(&(2u64, gap.to_bits())),
        }
    }

    fn read(&mut self, from: &mut state::Reader) -> Result<(), state::StateError> {
        let (process, gap) = match self {
            Process::Modulated(modulated) => return modulated.read(from),
            Process::Fixed { gap, .. } => (1, *gap),
            Process::Poisson { gap, .. } => (2, *gap),
        };
        from.is_as("a process of arrivals", "the traffic", process)?;
        from.is_as("the bits of the gap between packets", "the traffic", gap.to_bits())
    }
}

/// A chain of states, each with its gap between packets (infinite where it is silent).
#[derive(Clone, Debug)]
struct Modulated {
    states: Vec<ModulationState>,
    spacing: Spacing,
    state: usize,
    /// Until the state ends.
    remaining: f64,
}

state::state!(Modulated { values: [state, remaining], arrays: [], parts: [], built: [states, spacing] });

#[derive(Clone, Debug)]
struct ModulationState {
    gap: f64,
    dwell: f64,
    /// Cumulative probabilities of the next state.
    next: Vec<f64>,
}

impl Arrivals {
    /// Arrivals with a mean of `pps` packets a second; `path` is where the specification stands,
    /// for messages. A modulated process starts in a state drawn from its stationary distribution.
    ///
    /// # Errors
    /// Rates and times that cannot be, and [`ArrivalSpec::Capture`], which is not a process.
    pub fn new(spec: &ArrivalSpec, pps: f64, path: &str, rng: &mut impl Rng) -> Result<Arrivals, TrafficError> {
        if !(pps.is_finite() && pps > 0.0) {
            let allowed = "a load gives more than 0 packets a second";
            return Err(TrafficError::spec("load", format!("{pps} packets/s"), allowed));
        }
        let gap = 1e12 / pps;
        let process = match spec {
            ArrivalSpec::Fixed => Process::Fixed { gap },
            ArrivalSpec::Poisson => Process::Poisson { gap },
            ArrivalSpec::OnOff(on_off) => Process::Modulated(Modulated::on_off(on_off, gap, path, rng)?),
            ArrivalSpec::Mmpp(mmpp) => Process::Modulated(Modulated::mmpp(mmpp, gap, path, rng)?),
            ArrivalSpec::Capture => {
                let allowed = "a capture's own gaps need a capture (set `capture`, or use fixed or poisson)";
                return Err(TrafficError::spec(path, "\"capture\"", allowed));
            }
        };
        Ok(Arrivals { process, now: Ps::ZERO, left_over: 0.0 })
    }

    /// Whether what comes depends on what came: bursts, and states of other rates.
    pub(crate) fn is_modulated(&self) -> bool {
        matches!(self.process, Process::Modulated(_))
    }

    /// When the next packet arrives. Times never decrease.
    #[inline]
    pub fn next(&mut self, rng: &mut impl Rng) -> Ps {
        let gap = match &mut self.process {
            Process::Fixed { gap } => *gap,
            Process::Poisson { gap } => exponential(rng) * *gap,
            Process::Modulated(modulated) => modulated.gap(rng),
        };
        let exact = gap + self.left_over;
        let whole = exact as u64;
        self.left_over = exact - whole as f64;
        self.now = Ps(self.now.0.saturating_add(whole));
        self.now
    }
}

/// An exponential number with mean 1.
#[inline]
fn exponential(rng: &mut impl Rng) -> f64 {
    rng.sample(rand_distr::Exp1)
}

impl Modulated {
    fn on_off(spec: &OnOffSpec, gap: f64, path: &str, rng: &mut impl Rng) -> Result<Modulated, TrafficError> {
        let on = time(spec.on, || format!("{path}.on_off.on"))?;
        let off = time(spec.off, || format!("{path}.on_off.off"))?;
        let states = vec![
            ModulationState { gap: gap * on / (on + off), dwell: on, next: vec![0.0, 1.0] },
            ModulationState { gap: f64::INFINITY, dwell: off, next: vec![1.0, 1.0] },
        ];
        Ok(Modulated::start(states, spec.spacing, &[0.5, 0.5], rng))
    }

    fn mmpp(spec: &MmppSpec, gap: f64, path: &str, rng: &mut impl Rng) -> Result<Modulated, TrafficError> {
        let n = spec.states.len();
        let at = |i: usize, field: &str| format!("{path}.mmpp.states[{i}].{field}");
        if !(2..=MAX_STATES).contains(&n) {
            let allowed = format!("2 to {MAX_STATES} can be");
            return Err(TrafficError::spec(format!("{path}.mmpp.states"), format!("{n} states"), allowed));
        }
        let mut dwell = Vec::with_capacity(n);
        let mut to = Vec::with_capacity(n);
        for (i, state) in spec.states.iter().enumerate() {
            if !(state.rate.is_finite() && state.rate >= 0.0) {
                return Err(TrafficError::spec(at(i, "rate"), state.rate, "a rate is a number of 0 or more"));
            }
            dwell.push(time(state.dwell, || at(i, "dwell"))?);
            let mut next = state.next.clone().unwrap_or_else(|| (0..n).map(|j| f64::from(u8::from(j != i))).collect());
            let sum: f64 = next.iter().sum();
            let sound = next.len() == n && next[i] == 0.0 && next.iter().all(|p| *p >= 0.0) && sum > 0.0;
            if !sound || !sum.is_finite() {
                let allowed = format!("{n} probabilities, that of state {i} itself 0, at least one above 0");
                return Err(TrafficError::spec(at(i, "next"), format!("{next:?}"), allowed));
            }
            next.iter_mut().for_each(|p| *p /= sum);
            to.push(next);
        }
        let visits = stationary(&to).ok_or_else(|| {
            let allowed = "every state must be reached from every other";
            TrafficError::spec(format!("{path}.mmpp.states"), "chain with closed parts", allowed)
        })?;
        let time_all: f64 = visits.iter().zip(&dwell).map(|(v, d)| v * d).sum();
        let mean =
            visits.iter().zip(&dwell).zip(&spec.states).map(|((v, d), s)| v * d / time_all * s.rate).sum::<f64>();
        if mean <= 0.0 {
            let allowed = "at least one state must have a rate above 0";
            return Err(TrafficError::spec(format!("{path}.mmpp.states"), "silence in every state", allowed));
        }
        let states = (0..n).map(|i| ModulationState {
            gap: gap * mean / spec.states[i].rate,
            dwell: dwell[i],
            next: to[i]
                .iter()
                .scan(0.0, |sum, p| {
                    *sum += p;
                    Some(*sum)
                })
                .collect(),
        });
        Ok(Modulated::start(states.collect(), Spacing::Poisson, &visits, rng))
    }

    fn start(states: Vec<ModulationState>, spacing: Spacing, visits: &[f64], rng: &mut impl Rng) -> Modulated {
        let weights: Vec<f64> = states.iter().zip(visits).map(|(s, v)| s.dwell * v).collect();
        let mut at = rng.random::<f64>() * weights.iter().sum::<f64>();
        let state = weights
            .iter()
            .position(|w| {
                at -= w;
                at < 0.0
            })
            .unwrap_or(0);
        // What is left of an exponential time is exponential.
        let remaining = exponential(rng) * states[state].dwell;
        Modulated { states, spacing, state, remaining }
    }

    fn gap(&mut self, rng: &mut impl Rng) -> f64 {
        let mut passed = 0.0;
        // In units of the state's mean gap, which changes with the state on the way.
        let mut wanted = match self.spacing {
            Spacing::Fixed => 1.0,
            Spacing::Poisson => exponential(rng),
        };
        loop {
            let state = &self.states[self.state];
            let gap = wanted * state.gap;
            if gap <= self.remaining {
                self.remaining -= gap;
                return passed + gap;
            }
            passed += self.remaining;
            wanted -= self.remaining / state.gap;
            let draw: f64 = rng.random();
            self.state = state.next.iter().position(|p| draw < *p).unwrap_or(0);
            self.remaining = exponential(rng) * self.states[self.state].dwell;
        }
    }
}

fn time(span: Span, path: impl Fn() -> String) -> Result<f64, TrafficError> {
    let ps = span.value() * 1e3;
    // A simulated day at most: longer states would never be left.
    if (1.0..=86_400e12).contains(&ps) {
        Ok(ps)
    } else {
        Err(TrafficError::spec(path(), format!("\"{span}\""), "1 ps to 86400 s can be"))
    }
}

/// The stationary distribution of a chain, by elimination; [`None`] if it is not one.
fn stationary(to: &[Vec<f64>]) -> Option<Vec<f64>> {
    // Grassmann, Taksar and Heyman (1985): elimination without subtractions.
    let n = to.len();
    let mut p: Vec<Vec<f64>> = to.to_vec();
    for k in (1..n).rev() {
        let out: f64 = p[k][..k].iter().sum();
        if out <= 0.0 {
            return None;
        }
        for i in 0..k {
            p[i][k] /= out;
            for j in 0..k {
                p[i][j] += p[i][k] * p[k][j];
            }
        }
    }
    let mut pi = vec![1.0; n];
    for k in 1..n {
        pi[k] = (0..k).map(|i| pi[i] * p[i][k]).sum();
    }
    let sum: f64 = pi.iter().sum();
    let pi: Vec<f64> = pi.into_iter().map(|x| x / sum).collect();
    pi.iter().all(|x| *x > 0.0).then_some(pi)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    use super::*;

    fn arrivals(spec: &ArrivalSpec, pps: f64, n: usize) -> Vec<u64> {
        let mut rng = Pcg64::seed_from_u64(11);
        let mut process = Arrivals::new(spec, pps, "traffic.arrivals", &mut rng).unwrap();
        (0..n).map(|_| process.next(&mut rng).0).collect()
    }

    /// Index of dispersion of counts in windows of `window` ps: variance over mean.
    fn dispersion(times: &[u64], window: u64) -> f64 {
        let mut counts = vec![0f64; (times[times.len() - 1] / window) as usize];
        for t in times {
            if let Some(c) = counts.get_mut((t / window) as usize) {
                *c += 1.0;
            }
        }
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / counts.len() as f64 / mean
    }

    fn mean_rate(times: &[u64]) -> f64 {
        times.len() as f64 / (times[times.len() - 1] as f64 / 1e12)
    }

    #[test]
    fn fixed_gaps_do_not_drift() {
        // 14.88 Mpps: 67204.301 ps.
        let times = arrivals(&ArrivalSpec::Fixed, 14.88e6, 1_488_000);
        assert!((times[1_487_999] as i64 - 100_000_000_000).abs() <= 1, "{}", times[1_487_999]);
        assert!(times.windows(2).all(|w| matches!(w[1] - w[0], 67_204 | 67_205)));
    }

    #[test]
    fn poisson_gaps_are_exponential_by_kolmogorov_smirnov() {
        let times = arrivals(&ArrivalSpec::Poisson, 1e7, 200_000);
        let mut gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e5).collect();
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps.iter().enumerate().map(|(i, g)| ((i as f64 + 0.5) / n - (1.0 - (-g).exp())).abs());
        // The 99.9 % quantile of the Kolmogorov distribution is 1.95.
        let distance = distance.fold(0.0, f64::max) * n.sqrt();
        assert!(distance < 1.95, "{distance}");
        assert!((dispersion(&times, 10_000_000) - 1.0).abs() < 0.05);
    }

    #[test]
    fn on_off_meets_its_mean_and_peak_rate_and_its_share_of_silence() {
        let spec = OnOffSpec { on: Span::from_ns(10_000.0), off: Span::from_ns(30_000.0), spacing: Spacing::Fixed };
        let times = arrivals(&ArrivalSpec::OnOff(spec), 1e6, 400_000);
        assert!((mean_rate(&times) / 1e6 - 1.0).abs() < 0.02, "{}", mean_rate(&times));
        // Within a burst the gap is that of the peak rate, 4 Mpps. A gap is longer if the burst ends in
        // it, which happens with probability 1 - exp(-0.25 us / 10 us).
        let at_peak = times.windows(2).filter(|w| (w[1] - w[0]).abs_diff(250_000) <= 1).count() as f64 / 4e5;
        assert!((at_peak - (-0.025f64).exp()).abs() < 0.002, "{at_peak}");
    }

    #[test]
    fn interrupted_poisson_has_the_dispersion_of_its_closed_form() {
        let spec = OnOffSpec { on: Span::from_ns(2_000.0), off: Span::from_ns(6_000.0), spacing: Spacing::Poisson };
        let times = arrivals(&ArrivalSpec::OnOff(spec), 1e7, 2_000_000);
        // Fischer and Meier-Hellstern, eq. 20 for long windows: 1 + 2 (l1 - l2)^2 r1 r2 /
        // ((r1 + r2)^2 (l1 r2 + l2 r1)), with rates a us: l1 = 40, l2 = 0, r1 = 1/2, r2 = 1/6.
        let (l1, r1, r2) = (40.0, 0.5, 1.0 / 6.0);
        let expected = 1.0 + 2.0 * l1 * l1 * r1 * r2 / ((r1 + r2) * (r1 + r2) * (l1 * r2));
        let measured = dispersion(&times, 400_000_000);
        assert!((measured / expected - 1.0).abs() < 0.1, "{measured} against {expected}");
    }

    #[test]
    fn mmpp_of_three_states_meets_mean_and_gap_variance() {
        let state = |rate, us: f64, next: Option<Vec<f64>>| MmppState { rate, dwell: Span::from_ns(us * 1e3), next };
        let states = vec![
            state(1.0, 100.0, Some(vec![0.0, 3.0, 1.0])),
            state(5.0, 20.0, None),
            state(0.0, 50.0, Some(vec![1.0, 0.0, 0.0])),
        ];
        let times = arrivals(&ArrivalSpec::Mmpp(MmppSpec { states }), 2e6, 3_000_000);
        assert!((mean_rate(&times) / 2e6 - 1.0).abs() < 0.02, "{}", mean_rate(&times));
        // Silence of state 2: visits 8:6:5 by hand, so times 800:120:250.
        let visits = stationary(&[vec![0.0, 0.75, 0.25], vec![0.5, 0.0, 0.5], vec![1.0, 0.0, 0.0]]).unwrap();
        for (visit, by_hand) in visits.iter().zip([8.0, 6.0, 5.0]) {
            assert!((visit - by_hand / 19.0).abs() < 1e-12);
        }
        let rate: f64 = 2e6 * 1170.0 / (800.0 * 1.0 + 120.0 * 5.0);
        // In 1 us windows far from changes counts are Poisson with the state's rate: empty windows are
        // exp(-rate) in share, up to the edges of states (1 in 20 windows).
        let window = 1_000_000;
        let mut hit = vec![false; (times[times.len() - 1] / window) as usize + 1];
        times.iter().for_each(|t| hit[(t / window) as usize] = true);
        let empty = hit.iter().filter(|h| !**h).count() as f64 / hit.len() as f64;
        let per_window: f64 = rate * 1e-6;
        let expected = (800.0 * (-per_window).exp() + 120.0 * (-5.0 * per_window).exp() + 250.0) / 1170.0;
        assert!((empty - expected).abs() < 0.012, "{empty} against {expected}");
    }

    #[test]
    fn two_states_of_equal_rate_are_poisson() {
        let state = MmppState { rate: 3.0, dwell: Span::from_ns(1_000.0), next: None };
        let spec = ArrivalSpec::Mmpp(MmppSpec { states: vec![state.clone(), state] });
        let times = arrivals(&spec, 1e7, 500_000);
        assert!((dispersion(&times, 10_000_000) - 1.0).abs() < 0.05);
    }

    #[test]
    fn impossible_processes_are_told_what_is_allowed() {
        let error = |spec: ArrivalSpec, pps| {
            Arrivals::new(&spec, pps, "traffic.arrivals", &mut Pcg64::seed_from_u64(0)).unwrap_err().to_string()
        };
        assert!(error(ArrivalSpec::Fixed, 0.0).starts_with("load = 0 packets/s"));
        assert!(error(ArrivalSpec::Capture, 1.0).contains("need a capture"));
        let state = |rate, next| MmppState { rate, dwell: Span::from_ns(1.0), next };
        let mmpp = |states| error(ArrivalSpec::Mmpp(MmppSpec { states }), 1.0);
        assert!(mmpp(vec![state(1.0, None)]).contains("1 states: 2 to 64 can be"));
        assert!(mmpp(vec![state(0.0, None), state(0.0, None)]).contains("rate above 0"));
        assert!(mmpp(vec![state(1.0, Some(vec![1.0, 1.0])), state(0.0, None)]).contains("states[0].next"));
        let off = OnOffSpec { on: Span::from_ns(0.0), off: Span::from_ns(1.0), spacing: Spacing::Fixed };
        assert!(error(ArrivalSpec::OnOff(off), 1.0).starts_with("traffic.arrivals.on_off.on = \"0 ns\""));
    }
}
