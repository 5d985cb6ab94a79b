//! Why a queue has no answer.

/// Why a queue has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QueueError {
    /// A rate or a service time must be positive and finite.
    #[error("{name} = {value}: must be a positive finite number")]
    Rate {
        /// `lambda`, `mu`, `demand` or `customers`.
        name: &'static str,
        /// What came.
        value: f64,
    },
    /// A squared coefficient of variation cannot be negative.
    #[error("scv = {value}: must be a finite number of 0 or more (0 fixed, 1 exponential service)")]
    Scv {
        /// What came.
        value: f64,
    },
    /// A queue that loses nothing and cannot keep up has no steady state.
    #[error(
        "rho = {rho}: an open queue has a steady state only below 1 (lower lambda, raise mu or c, or give it a capacity)"
    )]
    Unstable {
        /// lambda / (c mu).
        rho: f64,
    },
    /// At least one server.
    #[error("c = 0: a queue has at least 1 server")]
    NoServer,
    /// The capacity counts those in service.
    #[error("capacity = {capacity}: must be at least the number of servers, {servers}")]
    Capacity {
        /// What came.
        capacity: u32,
        /// Servers.
        servers: u32,
    },
    /// At least one priority.
    #[error("classes = []: a queue with priorities has at least 1 class")]
    NoClass,
    /// At least one station.
    #[error("stations = []: a closed network has at least 1 station")]
    NoStation,
    /// A parameter of the memory model.
    #[error("{name} = {value}: must be {allowed}")]
    Parameter {
        /// Which.
        name: &'static str,
        /// What came.
        value: f64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// L2 misses are among L1's.
    #[error("mr2 = {mr2}: L2 cannot miss more often than L1 does, mr1 = {mr1} (both are misses per instruction)")]
    MissRates {
        /// Misses of L1.
        mr1: f64,
        /// What came.
        mr2: f64,
    },
    /// An L1 miss is answered once.
    #[error(
        "hro1 + mr2 / mr1 = {hro1} + {mr2} / {mr1} = {sum}: the shares of L1 misses that other L1s and memory answer must be at most 1 together (lower hro1 or mr2)"
    )]
    Visits {
        /// Share answered by other L1s.
        hro1: f64,
        /// Misses of L1.
        mr1: f64,
        /// Misses of L2.
        mr2: f64,
        /// Their sum.
        sum: f64,
    },
    /// A server that is always busy has no mean delay.
    #[error("U of {server} = {u} at CPI {cpi}: must be below 1 (raise the CPI, lower its visits or its service time)")]
    Saturated {
        /// Which.
        server: &'static str,
        /// Its utilisation.
        u: f64,
        /// Where.
        cpi: f64,
    },
}

pub(crate) fn positive(scv: f64) -> Result<f64, QueueError> {
    if scv.is_finite() && scv >= 0.0 { Ok(scv) } else { Err(QueueError::Scv { value: scv }) }
}

pub(crate) fn rate(name: &'static str, value: f64) -> Result<f64, QueueError> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(QueueError::Rate { name, value }) }
}

#[cfg(test)]
mod tests {
    use crate::*;

    #[test]
    fn errors_say_what_came_and_what_is_allowed() {
        let base = MemoryModel::as_printed();
        let memory = |m: MemoryModel| m.solve(BusSystem::Multi, ServiceVariability::Fixed).unwrap_err();
        let texts = [
            mm1(0.0, 1.0).unwrap_err(),
            mm1(0.5, f64::NAN).unwrap_err(),
            mm1(3.0, 2.0).unwrap_err(),
            mg1(0.5, 1.0, -1.0).unwrap_err(),
            mmc(1.0, 1.0, 0).unwrap_err(),
            mmck(1.0, 1.0, 4, 3).unwrap_err(),
            mg1_priority(&[]).unwrap_err(),
            mva(&[], 3).unwrap_err(),
            mva(&[Station::queue(-1.0)], 3).unwrap_err(),
            memory(MemoryModel { mr2: -0.01, ..base }),
            memory(MemoryModel { mr1: 0.0, ..base }),
            memory(MemoryModel { mr2: 0.2, ..base }),
            memory(MemoryModel { hro1: 0.75, ..base }),
            base.at(BusSystem::Single, ServiceVariability::Fixed, 6.0).unwrap_err(),
        ]
        .map(|e| e.to_string());
        assert_eq!(
            texts,
            [
                "lambda = 0: must be a positive finite number",
                "mu = NaN: must be a positive finite number",
                "rho = 1.5: an open queue has a steady state only below 1 (lower lambda, raise mu or c, or give it a capacity)",
                "scv = -1: must be a finite number of 0 or more (0 fixed, 1 exponential service)",
                "c = 0: a queue has at least 1 server",
                "capacity = 3: must be at least the number of servers, 4",
                "classes = []: a queue with priorities has at least 1 class",
                "stations = []: a closed network has at least 1 station",
                "demand = -1: must be a positive finite number",
                "mr2 = -0.01: must be a finite number of 0 or more",
                "mr1 = 0: must be a positive finite number",
                "mr2 = 0.2: L2 cannot miss more often than L1 does, mr1 = 0.1 (both are misses per instruction)",
                "hro1 + mr2 / mr1 = 0.75 + 0.03 / 0.1 = 1.05: the shares of L1 misses that other L1s and memory answer must be at most 1 together (lower hro1 or mr2)",
                "U of memory = 1.2 at CPI 6: must be below 1 (raise the CPI, lower its visits or its service time)",
            ]
        );
    }
}
