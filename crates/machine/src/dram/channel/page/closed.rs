//! A row is closed when no waiting request wants it: eager precharge.

use super::IdlePolicy;

pub(super) struct Closed;

impl IdlePolicy for Closed {
    const CLOSES: bool = true;
    const AT_ONCE: bool = true;
}
