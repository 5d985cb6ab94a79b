//! A memory hierarchy as an open queueing network, a fixed point on CPI.

use crate::error::QueueError;
use crate::root;

/// How the printed equations are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EquationReading {
    /// Equations 1 to 16 as they stand: V enters once in T and once in U, each kind of bus transfer
    /// has a queue of its own, CO is a term of the bus only, mr_main is mr2.
    AsPrinted,
    /// Chosen among many readings because it comes nearest to the paper's results: **fitted on what
    /// it is compared with**, so it predicts none of them. One data bus with all its transfers in
    /// one queue, U = cpus S R (1 + CO + HRO1), the control bus likewise; the trailing edge of other
    /// L1s weighted by HRO1; a single CPU has the cast-out's bus term and the L2's trailing edge
    /// too. Goes with the parameters of [`MemoryModel::fitted`].
    Fitted,
}

/// One CPU, or several that share a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusSystem {
    /// L1, L2 and memory in tandem (equations 2 to 7).
    Single,
    /// Several CPUs with an L1 each, a snooping bus, a shared L2 and memory (equations 8 to 16).
    Multi,
}

/// How service times vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceVariability {
    /// Constant: M/D/1.
    Fixed,
    /// Exponential: M/M/1.
    Exponential,
}

/// Open-queueing model of a memory hierarchy as a fixed point on CPI: Duarte and Wong,
/// "Cache-based Memory Copy Hardware Accelerator for Multi-core Systems", IEEE TC 2010, equations 1
/// to 16. Rates are shares of 1, times are clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryModel {
    /// How the equations are read.
    pub reading: EquationReading,
    /// CPI with an L1 that never misses.
    pub cpi_inf: f64,
    /// Clocks per CPU cycle, of the request rate R = mr1 / (CPI t_cpu).
    pub t_cpu: f64,
    /// Misses of L1 per instruction.
    pub mr1: f64,
    /// Misses of L2 per instruction.
    pub mr2: f64,
    /// Service time of L2.
    pub s_2: f64,
    /// Service time of memory.
    pub s_main: f64,
    /// HRO1: share of L1 misses that hit in another CPU's L1.
    pub hro1: f64,
    /// FE: more visits to memory because of the accelerator, as a share of mr2. 0 without one.
    pub fe: f64,
    /// CO: cast-outs per miss.
    pub co: f64,
    /// TE: share of a line's later transfers that the CPU waits for.
    pub te: f64,
    /// Bytes of an L1 line.
    pub l1_line: f64,
    /// Bytes of an L2 line.
    pub l2_line: f64,
    /// Bytes the data bus carries in a cycle.
    pub bus_width: f64,
    /// Bytes of a control request.
    pub control_request: f64,
    /// Bytes the control bus carries in a cycle.
    pub control_width: f64,
    /// Clocks of a bus cycle.
    pub bus_cycle: f64,
    /// CPUs on the bus.
    pub cpus: f64,
}

impl MemoryModel {
    /// The paper's table 6, read as printed.
    pub const fn as_printed() -> MemoryModel {
        MemoryModel {
            reading: EquationReading::AsPrinted,
            cpi_inf: 1.0,
            t_cpu: 1.0,
            mr1: 0.10,
            mr2: 0.03,
            s_2: 15.0,
            s_main: 240.0,
            hro1: 0.20,
            fe: 0.0,
            co: 0.20,
            te: 0.10,
            l1_line: 32.0,
            l2_line: 128.0,
            bus_width: 8.0,
            control_request: 1.0,
            control_width: 1.0,
            bus_cycle: 1.0,
            cpus: 3.0,
        }
    }

    /// Table 6 with the two parameters of the fitted reading: mr1 0.20 and two clocks a cycle.
    pub const fn fitted() -> MemoryModel {
        MemoryModel { reading: EquationReading::Fitted, t_cpu: 2.0, mr1: 0.20, ..MemoryModel::as_printed() }
    }

    /// The same machine with the accelerator, as the paper models it: a lower mr2 and evictions.
    pub const fn with_accelerator(self, mr2: f64, fe: f64) -> MemoryModel {
        MemoryModel { mr2, fe, ..self }
    }

    /// Solves equation 16 for CPI.
    ///
    /// FCP falls as CPI grows, so CPI - CPI_inf - FCP has one root above the CPI at which the
    /// busiest server is saturated; a bracket around it is shrunk. Plain iteration, as the paper
    /// describes it, starts beyond saturation and oscillates on the printed model.
    ///
    /// # Errors
    /// [`QueueError::Parameter`] for one that is negative, not finite, or zero where it divides;
    /// [`QueueError::MissRates`] for mr2 > mr1; [`QueueError::Visits`] for HRO1 + mr2 / mr1 > 1 on
    /// several CPUs.
    ///
    /// ```
    /// use queueing::{MemoryModel, ServiceVariability, BusSystem};
    /// let base = MemoryModel::as_printed();
    /// let fcp = |m: MemoryModel| m.solve(BusSystem::Single, ServiceVariability::Fixed).map(|a| a.fcp);
    /// let less = 1.0 - fcp(base.with_accelerator(0.005, 0.01))? / fcp(base)?;
    /// assert_eq!((100.0 * less).round(), 74.0); // the paper prints 57.1
    /// # Ok::<(), queueing::QueueError>(())
    /// ```
    pub fn solve(&self, system: BusSystem, service: ServiceVariability) -> Result<MemoryAnswer, QueueError> {
        self.check(system)?;
        let saturated = self.servers(system).iter().map(|s| s.load).fold(0.0, f64::max);
        let low = self.cpi_inf.max(saturated);
        let far = self.fcp(system, service, 2.0 * low);
        let high = (2.0 * low).max(self.cpi_inf + far);
        // Without any delay FCP is 0 and CPI the end itself.
        let root = if far == 0.0 {
            root::Root { x: self.cpi_inf, evaluations: 1 }
        } else {
            root::decreasing(|cpi| self.cpi_inf + self.fcp(system, service, cpi) - cpi, low, high, 1e-14)
        };
        let mut answer = self.at(system, service, root.x)?;
        answer.cpi = self.cpi_inf + answer.fcp;
        answer.evaluations = root.evaluations;
        Ok(answer)
    }

    /// Delays and FCP where requests come as at `cpi`: the right side of equation 16.
    ///
    /// # Errors
    /// As [`MemoryModel::solve`], and [`QueueError::Saturated`] where a server would be busy all
    /// the time or more.
    pub fn at(&self, system: BusSystem, service: ServiceVariability, cpi: f64) -> Result<MemoryAnswer, QueueError> {
        self.check(system)?;
        if !(cpi.is_finite() && cpi > 0.0) {
            return Err(QueueError::Parameter { name: "cpi", value: cpi, allowed: "a positive finite number" });
        }
        let mut seen = Vec::new();
        for server in self.servers(system) {
            let u = server.load / cpi;
            if u >= 1.0 {
                return Err(QueueError::Saturated { server: server.name, u, cpi });
            }
            // Equations 6, 12 and 15.
            let q = match service {
                ServiceVariability::Fixed => (u - 0.5 * u * u) / (1.0 - u),
                ServiceVariability::Exponential => u / (1.0 - u),
            };
            let t = server.visits * server.s * stretch(service, u);
            seen.push(ServerAnswer { name: server.name, u, t, q });
        }
        let t_total = seen.iter().map(|s| s.t).sum::<f64>() + self.trailing_edges(system);
        let fcp = self.mr1 * t_total;
        Ok(MemoryAnswer { cpi, fcp, t_total, servers: seen, evaluations: 1 })
    }

    fn fcp(&self, system: BusSystem, service: ServiceVariability, cpi: f64) -> f64 {
        let delay = |s: &ServiceCentre| {
            let u = s.load / cpi;
            if u < 1.0 { s.visits * s.s * stretch(service, u) } else { f64::INFINITY }
        };
        self.mr1 * (self.servers(system).iter().map(delay).sum::<f64>() + self.trailing_edges(system))
    }

    /// Equations 7 to 11: what is visited, for how long, and how busy it is.
    fn servers(&self, system: BusSystem) -> Vec<ServiceCentre> {
        // U = V S R and R = rate / CPI.
        let rate = self.mr1 / self.t_cpu;
        let hro1 = if system == BusSystem::Multi { self.hro1 } else { 0.0 };
        let v_2 = 1.0 - hro1 - self.mr2 / self.mr1;
        let v_main = self.mr2 * (1.0 + self.fe) / self.mr1;
        let server = |name, visits: f64, s: f64, busy: f64| ServiceCentre { name, visits, s, load: busy * s * rate };
        let mut servers = vec![server("l2", v_2, self.s_2, v_2), server("memory", v_main, self.s_main, v_main)];
        let data = self.bus_cycle * self.l1_line / self.bus_width;
        let control = self.bus_cycle * self.control_request / self.control_width;
        let all = 1.0 + self.co + hro1;
        let mut bus = |name, visits, s, busy| servers.push(server(name, visits, s, busy));
        match (system, self.reading) {
            (BusSystem::Single, EquationReading::AsPrinted) => {}
            (BusSystem::Single, EquationReading::Fitted) => bus("cast-out data bus", self.co, data, self.co),
            (BusSystem::Multi, EquationReading::AsPrinted) => {
                bus("own L1 data bus", 1.0, data, 1.0);
                bus("own L1 control bus", 1.0, control, 1.0);
                bus("cast-out data bus", self.co, data, self.co);
                bus("other L1 data bus", 0.5 * hro1, data, self.cpus * hro1);
                bus("other L1 control bus", 0.5 * hro1, control, self.cpus * hro1);
            }
            (BusSystem::Multi, EquationReading::Fitted) => {
                bus("data bus", 1.0 + self.co + 0.5 * hro1, data, self.cpus * all);
                bus("control bus", 1.0 + 0.5 * hro1, control, self.cpus * all);
            }
        }
        servers
    }

    /// Equation 13.
    fn trailing_edges(&self, system: BusSystem) -> f64 {
        let edge = |line: f64| (line / self.bus_width - 1.0).max(0.0) * self.te * self.bus_cycle;
        match (system, self.reading) {
            (BusSystem::Single, EquationReading::AsPrinted) => 0.0,
            (BusSystem::Single, EquationReading::Fitted) => edge(self.l2_line),
            (BusSystem::Multi, EquationReading::AsPrinted) => edge(self.l1_line) + edge(self.l2_line),
            (BusSystem::Multi, EquationReading::Fitted) => self.hro1 * edge(self.l1_line) + edge(self.l2_line),
        }
    }

    fn check(&self, system: BusSystem) -> Result<(), QueueError> {
        let bad = |name, value, allowed| Err(QueueError::Parameter { name, value, allowed });
        for (name, value) in [
            ("cpi_inf", self.cpi_inf),
            ("t_cpu", self.t_cpu),
            ("mr1", self.mr1),
            ("bus_width", self.bus_width),
            ("control_width", self.control_width),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return bad(name, value, "a positive finite number");
            }
        }
        for (name, value) in [
            ("mr2", self.mr2),
            ("s_2", self.s_2),
            ("s_main", self.s_main),
            ("hro1", self.hro1),
            ("fe", self.fe),
            ("co", self.co),
            ("te", self.te),
            ("l1_line", self.l1_line),
            ("l2_line", self.l2_line),
            ("control_request", self.control_request),
            ("bus_cycle", self.bus_cycle),
            ("cpus", self.cpus),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return bad(name, value, "a finite number of 0 or more");
            }
        }
        if self.mr2 > self.mr1 {
            return Err(QueueError::MissRates { mr1: self.mr1, mr2: self.mr2 });
        }
        let visits = self.hro1 + self.mr2 / self.mr1;
        if system == BusSystem::Multi && visits > 1.0 {
            return Err(QueueError::Visits { hro1: self.hro1, mr1: self.mr1, mr2: self.mr2, sum: visits });
        }
        Ok(())
    }
}

/// What the model says of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryAnswer {
    /// Cycles per instruction, of the whole system.
    pub cpi: f64,
    /// Finite cache penalty, in cycles per instruction.
    pub fcp: f64,
    /// Mean delay of an L1 miss.
    pub t_total: f64,
    /// The servers in the order of the equations.
    pub servers: Vec<ServerAnswer>,
    /// How often the equations were evaluated.
    pub evaluations: u32,
}

/// One server of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerAnswer {
    /// "l2", "memory", or which use of a bus.
    pub name: &'static str,
    /// Utilisation.
    pub u: f64,
    /// Its part of the delay of an L1 miss.
    pub t: f64,
    /// Mean number there.
    pub q: f64,
}

struct ServiceCentre {
    name: &'static str,
    /// Weight in T.
    visits: f64,
    /// Service time.
    s: f64,
    /// Utilisation at a CPI of 1.
    load: f64,
}

/// 1 + wait over service time (equations 5 and 14).
fn stretch(service: ServiceVariability, u: f64) -> f64 {
    let weight = match service {
        ServiceVariability::Fixed => 0.5,
        ServiceVariability::Exponential => 1.0,
    };
    1.0 + weight * u / (1.0 - u)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CASES: [(BusSystem, ServiceVariability); 3] = [
        (BusSystem::Single, ServiceVariability::Fixed),
        (BusSystem::Multi, ServiceVariability::Fixed),
        (BusSystem::Multi, ServiceVariability::Exponential),
    ];

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} for {b}");
    }

    fn decrease(base: MemoryModel, (system, service): (BusSystem, ServiceVariability)) -> f64 {
        let fcp = |m: MemoryModel| m.solve(system, service).unwrap().fcp;
        100.0 * (1.0 - fcp(base.with_accelerator(0.005, 0.01)) / fcp(base))
    }

    /// Worked out by hand from table 6 at CPI 20, R = 0.005.
    #[test]
    fn printed_delays_at_a_given_cpi_are_those_worked_out_by_hand() {
        let base = MemoryModel::as_printed();
        // V 0.7 and 0.3, U 0.0525 and 0.36.
        let l2_and_memory = 10.5 * (1.0 + 0.02625 / 0.9475) + 72.0 * (1.0 + 0.18 / 0.64);
        let single = base.at(BusSystem::Single, ServiceVariability::Fixed, 20.0).unwrap();
        close(single.t_total, l2_and_memory);
        close(single.fcp, 10.304_089_709_762_533);
        close(single.servers[1].q, (0.36 - 0.5 * 0.36 * 0.36) / 0.64);
        // V2 0.5; buses of 4 and 1 clocks; U 0.02, 0.005, 0.004, 0.012, 0.003; edges 0.3 and 1.5.
        let multi = base.at(BusSystem::Multi, ServiceVariability::Fixed, 20.0).unwrap();
        let buses = 4.0 * (1.0 + 0.01 / 0.98)
            + (1.0 + 0.0025 / 0.995)
            + 0.8 * (1.0 + 0.002 / 0.996)
            + 0.4 * (1.0 + 0.006 / 0.988)
            + 0.1 * (1.0 + 0.0015 / 0.997);
        let l2 = 7.5 * (1.0 + 0.018_75 / 0.9625);
        close(multi.t_total, l2 + 72.0 * (1.0 + 0.18 / 0.64) + buses + 1.8);
        close(multi.t_total, 108.043_618_812_303_02);
        close(
            base.at(BusSystem::Multi, ServiceVariability::Exponential, 20.0).unwrap().t_total,
            128.487_237_624_606_05,
        );
    }

    /// Fixed points by bisection in rational arithmetic, 100 binary digits.
    #[test]
    fn printed_fixed_points_are_those_of_rational_arithmetic() {
        let base = MemoryModel::as_printed();
        let expected = [
            (13.444_996_399_952_56, 4.240_198_227_100_07, 73.963_847_614_191_18),
            (13.747_421_005_552_418, 4.571_427_588_707_075, 71.983_136_140_624_35),
            (15.821_952_084_198_344, 4.918_025_733_549_788, 73.566_061_263_099_16),
        ];
        for (case, (without, with, percent)) in CASES.into_iter().zip(expected) {
            close(base.solve(case.0, case.1).unwrap().cpi, without);
            close(base.with_accelerator(0.005, 0.01).solve(case.0, case.1).unwrap().cpi, with);
            close(decrease(base, case), percent);
        }
        let fcp = |m: MemoryModel, service| m.solve(BusSystem::Multi, service).unwrap().fcp;
        let more = |m| 100.0 * (fcp(m, ServiceVariability::Exponential) / fcp(m, ServiceVariability::Fixed) - 1.0);
        close(more(base), 16.274_123_822_711_424);
        close(more(base.with_accelerator(0.005, 0.01)), 9.704_750_725_974_783);
    }

    /// The reading's own numbers, which were chosen to be near 57.1, 54.1, 54.6, 9.2 and 7.9.
    #[test]
    fn the_fitted_reading_has_the_numbers_it_was_chosen_for() {
        let base = MemoryModel::fitted();
        let tenth = |x: f64| (10.0 * x).round() / 10.0;
        assert_eq!(CASES.map(|case| tenth(decrease(base, case))), [56.5, 54.2, 55.1]);
        let solve = |m: MemoryModel, case: (BusSystem, ServiceVariability)| m.solve(case.0, case.1).unwrap();
        let more = |m| tenth(100.0 * (solve(m, CASES[2]).fcp / solve(m, CASES[1]).fcp - 1.0));
        assert_eq!([more(base), more(base.with_accelerator(0.005, 0.01))], [9.7, 7.5]);
        let single = |m| solve(m, CASES[0]).fcp;
        let rise = |m| tenth(100.0 * (single(m) / single(base) - 1.0));
        assert_eq!([rise(MemoryModel { co: 0.4, ..base }), rise(MemoryModel { te: 0.3, ..base })], [1.2, 4.4]);
        let cpi = solve(base.with_accelerator(0.005, 0.01), CASES[1]).cpi / solve(base, CASES[1]).cpi;
        assert_eq!(tenth(100.0 * (1.0 - cpi)), 50.1);
    }

    #[test]
    fn plain_iteration_oscillates_where_the_bracket_does_not() {
        // What the paper describes: CPI into the equations, the sum back into CPI, from CPI_inf on,
        // without a look at U.
        let base = MemoryModel::as_printed();
        let raw = |cpi: f64| {
            let servers = base.servers(BusSystem::Single);
            let t: f64 =
                servers.iter().map(|s| s.visits * s.s * stretch(ServiceVariability::Fixed, s.load / cpi)).sum();
            base.cpi_inf + base.mr1 * t
        };
        let seen: Vec<f64> = std::iter::successors(Some(1.0), |&cpi| Some(raw(cpi))).take(1000).collect();
        let exact = base.solve(BusSystem::Single, ServiceVariability::Fixed).unwrap().cpi;
        let steps = seen.iter().position(|x| (x / exact - 1.0).abs() < 1e-3);
        assert!(steps.is_none_or(|n| n > 10), "the paper says at most 10: {steps:?}");
    }

    proptest! {
        #[test]
        fn every_allowed_memory_has_one_fixed_point_below_saturation(
            mr1 in 1e-4f64..1.0, share in 0.0f64..1.0, hro1 in 0.0f64..1.0, fe in 0.0f64..0.4, co in 0.0f64..1.0,
            te in 0.0f64..1.0, s_main in 0.0f64..1e4, exponential: bool, fitted: bool, multi: bool,
        ) {
            let base = if fitted { MemoryModel::fitted() } else { MemoryModel::as_printed() };
            let model = MemoryModel { mr1, mr2: mr1 * share, hro1: hro1 * (1.0 - share) * 0.999, fe, co, te, s_main, ..base };
            let system = if multi { BusSystem::Multi } else { BusSystem::Single };
            let service = if exponential { ServiceVariability::Exponential } else { ServiceVariability::Fixed };
            let answer = model.solve(system, service).unwrap();
            prop_assert!(answer.servers.iter().all(|s| (0.0..1.0).contains(&s.u)), "{answer:?}");
            let again = model.at(system, service, answer.cpi).unwrap();
            prop_assert!(((model.cpi_inf + again.fcp) / answer.cpi - 1.0).abs() < 1e-7, "{answer:?} {again:?}");
            prop_assert!(answer.evaluations < 100, "{answer:?}");
        }

        #[test]
        fn more_memory_misses_cost_more(less in 0.0f64..0.999, more in 0.0f64..0.999, fitted: bool) {
            let base = if fitted { MemoryModel::fitted() } else { MemoryModel::as_printed() };
            // HRO1 + mr2 / mr1 is at most 1.
            let most = base.mr1 * (1.0 - base.hro1);
            for (system, service) in CASES {
                let fcp = |share: f64| MemoryModel { mr2: most * share, ..base }.solve(system, service).unwrap().fcp;
                prop_assert!(fcp(less.max(more)) >= fcp(less.min(more)));
            }
        }
    }
}
