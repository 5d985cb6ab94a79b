/// Why a queue has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QueueError {
    /// A rate must be positive and finite.
    #[error("{name} = {value}: a rate must be a positive finite number")]
    Rate {
        /// `lambda` or `mu`.
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
}

pub(crate) fn rate(name: &'static str, value: f64) -> Result<f64, QueueError> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(QueueError::Rate { name, value }) }
}

#[cfg(test)]
mod tests {
    use crate::*;

    #[test]
    fn errors_say_what_came_and_what_is_allowed() {
        let texts = [
            mm1(0.0, 1.0).unwrap_err(),
            mm1(0.5, f64::NAN).unwrap_err(),
            mm1(3.0, 2.0).unwrap_err(),
            mg1(0.5, 1.0, -1.0).unwrap_err(),
            mmc(1.0, 1.0, 0).unwrap_err(),
            mmck(1.0, 1.0, 4, 3).unwrap_err(),
        ]
        .map(|e| e.to_string());
        assert_eq!(
            texts,
            [
                "lambda = 0: a rate must be a positive finite number",
                "mu = NaN: a rate must be a positive finite number",
                "rho = 1.5: an open queue has a steady state only below 1 (lower lambda, raise mu or c, or give it a capacity)",
                "scv = -1: must be a finite number of 0 or more (0 fixed, 1 exponential service)",
                "c = 0: a queue has at least 1 server",
                "capacity = 3: must be at least the number of servers, 4",
            ]
        );
    }
}
