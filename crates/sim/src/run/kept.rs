//! Bases ([`super::near`]) that are kept beyond the process that has warmed them up, for others that begin near the same machine.
//!
//! Where they are kept, and for how long, is a [`BaseStore`]'s to say. A base is known by the program that made it, the machine, the
//! content of the files that it read, the seed, and for how many packets it was warmed up: one that differs in any of these is
//! not opened. What is opened goes on as the one that was written, so that a result does not depend on who made its base.

use std::any::Any;
use std::thread;
use std::time::Duration;

use state::StateError;

use crate::run::schedule::ProgressWatch;
use crate::run::warm::WarmServer;
use crate::scenario::ScenarioError;
use crate::server::{STATE_VERSION, Server};

/// Between two looks at whether another process has made a base.
const EVERY: Duration = Duration::from_millis(10);
/// Looks before it is made here, too, two minutes: a process that was stopped would keep the others waiting.
const LOOKS: u32 = 12_000;

/// Keeps bases.
pub trait BaseStore: Send + Sync {
    /// The build: states of another one are not opened.
    fn build(&self) -> &str;
    /// What is kept under `name`, which is of letters and digits, or leave to make it.
    fn claim(&self, name: &str) -> BaseClaim;
    /// Keeps a base, if there is room. What is not kept is made again.
    fn keep(&self, name: &str, bytes: &[u8]);
    /// What was kept under `name` is not used, for that reason: it is made again.
    fn refuse(&self, name: &str, why: &StateError);
}

/// What [`BaseStore::claim`] answers.
pub enum BaseClaim {
    /// It is there.
    Kept(Vec<u8>),
    /// It is to be made; others wait until this is dropped.
    Make(Box<dyn Any>),
    /// Somebody makes it.
    Busy,
}

/// The base `of` a machine, a seed and some packets, from `store` or of `make`; `built` is its server before anything has
/// happened.
///
/// # Errors
/// As of `make` and `built`.
pub(super) fn find_or_make(
    store: &dyn BaseStore,
    of: &str,
    built: impl FnOnce() -> Result<Server, ScenarioError>,
    make: impl FnOnce() -> Result<WarmServer, ScenarioError>,
    watch: &ProgressWatch,
) -> Result<WarmServer, ScenarioError> {
    let version = format!("{STATE_VERSION} {}", store.build());
    let name = &blake3::hash(format!("{version}\n{of}").as_bytes()).to_hex()[..32];
    let mut making = None;
    for _ in 0..LOOKS {
        match store.claim(name) {
            BaseClaim::Kept(bytes) => match WarmServer::open(built()?, &version, of, &bytes) {
                Ok(base) => return Ok(base),
                Err(why) => {
                    store.refuse(name, &why);
                    break;
                }
            },
            BaseClaim::Make(leave) => {
                making = Some(leave);
                break;
            }
            BaseClaim::Busy if watch.is_stopped() => {
                return Err(ScenarioError::Stopped { during: "warm-up".into() });
            }
            BaseClaim::Busy => thread::park_timeout(EVERY),
        }
    }
    let base = make()?;
    if !watch.is_stopped()
        && let Ok(bytes) = base.seal(&version, of)
    {
        store.keep(name, &bytes);
    }
    drop(making);
    Ok(base)
}
