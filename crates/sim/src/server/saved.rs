//! A server's state as bytes, for another process that has built the server of the same scenario.
//!
//! Written are the memory system, the pool, rings and queues, packets inside and what each has been charged, cores in the
//! middle of a burst, events to come, what the packet function keeps, and where the traffic stands. What the scenario and
//! its files say is not: of that [`belonging`] makes a hash, without which no state is taken.

use engine::Seed;
use state::StateError;

use super::Server;
use crate::load::InputFile;
use crate::scenario::{RunSpec, Scenario};

/// The program, and how its states are laid out: to be raised when a type changes whose fields are not named in
/// [`state::state!`].
pub const STATE_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/12");

/// What a server's state belongs to, in words: the scenario's name, and a hash of all in it that a server is built of, of
/// the content of its files, and of the seed. How long and how often it runs, and the policy, do not count.
pub fn belonging(scenario: &Scenario, inputs: &[InputFile], seed: Seed) -> String {
    let mut built = Scenario { run: RunSpec::default(), policy: None, name: String::new(), ..scenario.clone() };
    built.machine.name.clear();
    built.forget_parts();
    built.rename_files(|setting, _| {
        let read = inputs.iter().find(|file| file.kind == setting.kind)?;
        Some(read.blake3.as_str().into())
    });
    let hash = blake3::hash(format!("{}\n{}", seed.0, built.to_toml()).as_bytes()).to_hex();
    format!("{:?} ({})", scenario.name, &hash[..16])
}

impl Server {
    /// The state; `of` is [`belonging`].
    ///
    /// # Errors
    /// A value that cannot be written, which is a defect of its type.
    pub fn save(&self, of: &str) -> Result<Vec<u8>, StateError> {
        state::seal(self, STATE_VERSION, of)
    }

    /// Goes on from where the server that was saved stood. This one was built of the same scenario, function and seed.
    /// After an error nothing has changed.
    ///
    /// # Errors
    /// Bytes that are no state, or not whole; a state of another version, or of another scenario.
    pub fn resume(&mut self, of: &str, bytes: &[u8]) -> Result<(), StateError> {
        let mut resumed = self.clone();
        state::open(&mut resumed, STATE_VERSION, of, bytes)?;
        resumed.is_resumed();
        *self = resumed;
        Ok(())
    }

    /// What a state was put into behaves as it says.
    pub(crate) fn is_resumed(&mut self) {
        self.memory.set_untimed(self.coarse.on);
    }
}
