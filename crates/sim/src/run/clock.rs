//! The host's clock: what a run took. A browser's module has none, and says so: there all runs take no time, and who called
//! measures.

#[cfg(not(target_family = "wasm"))]
pub(crate) use std::time::Instant;

/// A moment where there is no clock.
#[cfg(target_family = "wasm")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant;

#[cfg(target_family = "wasm")]
impl Instant {
    pub(crate) fn now() -> Instant {
        Instant
    }

    pub(crate) fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    pub(crate) fn duration_since(&self, _: Instant) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}
