//! A row stays open until another one of its bank is wanted: lazy precharge.

use super::IdlePolicy;

pub(super) struct OpenPage;

impl IdlePolicy for OpenPage {
    const CLOSES: bool = false;
}
