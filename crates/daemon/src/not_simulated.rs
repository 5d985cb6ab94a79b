//! In place of `simulate.rs` in a build without the made machine: nothing can be asked of it, and there is none.

use clap::Args;
use units::Ps;

pub use self::{NoArguments as SimulateArguments, NoMachine as MadeMachine};
use crate::{DaemonConfig, DaemonError, Parts};

/// No arguments.
#[derive(Args, Debug)]
pub struct NoArguments {}

/// There is none.
pub enum NoMachine {}

impl NoArguments {
    /// Whether a made machine is asked for: never.
    pub fn is_asked(&self) -> bool {
        false
    }

    /// Whether intervals follow each other at once: never.
    pub fn no_wait(&self) -> bool {
        false
    }

    /// No machine.
    ///
    /// # Errors
    /// None.
    pub fn start(&self, _: Option<DaemonConfig>) -> Result<Option<NoMachine>, DaemonError> {
        Ok(None)
    }
}

impl NoMachine {
    /// Its configuration.
    pub fn config(&self) -> &DaemonConfig {
        match *self {}
    }

    /// Its files.
    pub fn parts(&self) -> &Parts {
        match *self {}
    }

    /// Lets an interval pass.
    pub fn advance(&self) {
        match *self {}
    }

    /// Its clock.
    pub fn clock(&self) -> Box<dyn FnMut() -> Ps + Send> {
        match *self {}
    }
}
