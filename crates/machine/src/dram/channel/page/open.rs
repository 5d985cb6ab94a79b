//! A row stays open until another one of its bank is wanted: lazy precharge.

use super::IdlePolicy;

pub(super) struct Open;

impl IdlePolicy for Open {
    const CLOSES: bool = false;
}
