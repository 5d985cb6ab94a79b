//! A row is closed when no waiting request wants it: eager precharge.

use super::IdlePolicy;

pub(super) struct ClosedPage;

impl IdlePolicy for ClosedPage {
    const CLOSES: bool = true;
    const AT_ONCE: bool = true;
}
