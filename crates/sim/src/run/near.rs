//! Machines near one that is warm.
//!
//! A study runs many machines that differ in a ring, some ways, a technique, and most of what each would do before it is
//! measured is to fill the same caches with the same tables. Here one of them, the base, warms up from nothing, once for each seed
//! of the traffic. Each other machine takes over what the base's caches hold (`Server::take_over`), goes on until its own state
//! has settled, once, too, at its own rate of packets, and its runs go on from clones of that. What a run finds depends
//! on its scenario and on the base's alone, not on what ran before it or beside it. Bases may be kept for other processes ([`super::kept`]).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use engine::Seed;
use traffic::Load;

use crate::load::{InputFile, Stock, load};
use crate::run::kept::{BaseStore, find_or_make};
use crate::run::schedule::ProgressWatch;
use crate::run::simulate::SimulationSetup;
use crate::run::warm::{Inherited, WarmServer};
use crate::scenario::{Scenario, ScenarioError};
use crate::server::{Server, belonging};

/// Warm machines that are kept, each of some 10 to 20 MB: those of a round of a search.
const KEPT: usize = 32;
/// Between two looks at whether a machine is made.
const EVERY: Duration = Duration::from_millis(2);
/// Bases that are kept.
const KEPT_BASES: usize = 4;
/// The base warms up as for a run of so many packets, at least: what has not settled there has not settled anywhere near it.
const LEAST_OF_BASE: u64 = 250_000;

/// A base, and machines near it that are warm. See the module header.
pub struct Near {
    scenario: Scenario,
    /// By seed.
    bases: Mutex<Kept<u64>>,
    machines: Mutex<Kept<String>>,
    /// Keeps bases for other processes.
    store: Option<Arc<dyn BaseStore>>,
}

/// Where a warm machine is put once it is made; whoever wants it meanwhile waits.
type WarmSlot = Arc<Mutex<Option<WarmServer>>>;

/// Warm machines, the one used last behind the others.
struct Kept<K> {
    most: usize,
    all: Vec<(K, WarmSlot)>,
}

impl<K: PartialEq> Kept<K> {
    fn new(most: usize) -> Mutex<Kept<K>> {
        Mutex::new(Kept { most, all: Vec::new() })
    }

    fn slot(&mut self, key: K) -> WarmSlot {
        let at = self.all.iter().position(|(of, _)| *of == key);
        let entry = at.map_or_else(|| (key, WarmSlot::default()), |at| self.all.remove(at));
        let slot = entry.1.clone();
        self.all.push(entry);
        let over = self.all.len().saturating_sub(self.most);
        self.all.drain(..over);
        slot
    }
}

impl fmt::Debug for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Near").field("base", &self.scenario.name).finish_non_exhaustive()
    }
}

/// Waits for a machine that somebody else makes, but no longer than until this one is to stop.
fn await_turn<'a>(
    slot: &'a WarmSlot,
    watch: &ProgressWatch,
) -> Result<MutexGuard<'a, Option<WarmServer>>, ScenarioError> {
    loop {
        match slot.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if watch.is_stopped() => {
                return Err(ScenarioError::Stopped { during: "warm-up".into() });
            }
            Err(TryLockError::WouldBlock) => thread::park_timeout(EVERY),
        }
    }
}

impl Near {
    /// Machines near that of `scenario`.
    pub fn new(mut scenario: Scenario) -> Near {
        // It is as warm as it gets, whatever is cut of runs near it.
        scenario.run.warmup = None;
        Near { scenario, bases: Kept::new(KEPT_BASES), machines: Kept::new(KEPT), store: None }
    }

    /// Looks for bases in `store` before it warms them up, and keeps them there.
    pub fn kept_in(mut self, store: Arc<dyn BaseStore>) -> Near {
        self.store = Some(store);
        self
    }

    /// What names the base in the ids of runs near it, with packets of `seed`.
    pub(super) fn id(&self, inputs: &[InputFile], seed: u64) -> String {
        let run = &self.scenario.run;
        format!("{} {}", belonging(&self.scenario, inputs, Seed(seed)), run.packets)
    }

    /// The machine of `setup` after the part of its warm-up that goes without time, at its own rate `load`, for runs of `packets`
    /// packets.
    ///
    /// # Errors
    /// A machine or a load that cannot be; input of the base that cannot be read.
    pub(super) fn warm(
        &self,
        setup: &SimulationSetup<'_>,
        stock: &Arc<Stock>,
        inputs: &[InputFile],
        load: &Load,
        watch: &ProgressWatch,
    ) -> Result<WarmServer, ScenarioError> {
        let run = &setup.scenario.run;
        let packets = run.packets;
        let key = format!("{} {packets}", belonging(setup.scenario, inputs, Seed(run.seed)));
        let slot = self.machines.lock().unwrap_or_else(PoisonError::into_inner).slot(key);
        let mut slot = await_turn(&slot, watch)?;
        if let Some(warm) = &*slot {
            return Ok(warm.clone());
        }
        let begun = self.begin(setup, load, stock, watch)?;
        let warm = setup.warm(begun, packets, watch);
        *slot = (!watch.is_stopped()).then(|| warm.clone());
        Ok(warm)
    }

    /// The machine of `setup` with what the base's caches hold.
    fn begin(
        &self,
        setup: &SimulationSetup<'_>,
        load: &Load,
        stock: &Arc<Stock>,
        watch: &ProgressWatch,
    ) -> Result<(Server, Inherited), ScenarioError> {
        let seed = setup.scenario.run.seed;
        let slot = self.bases.lock().unwrap_or_else(PoisonError::into_inner).slot(seed);
        let mut base = await_turn(&slot, watch)?;
        let (warm, is_whole) = match base.take() {
            Some(warm) => (warm, true),
            None => (self.base(seed, stock, watch)?, !watch.is_stopped()),
        };
        let begun = setup.server(load).map(|mut server| {
            // Tables are filled by what the function is, and used by the flows that there are.
            let (here, there) = (setup.scenario, &self.scenario);
            let same_tables = here.function == there.function && here.traffic.source() == there.traffic.source();
            let taken = warm.hand_over(&mut server, same_tables);
            (server, taken)
        });
        *base = is_whole.then_some(warm);
        begun
    }

    /// The base with packets of `seed`, warm.
    fn base(&self, seed: u64, stock: &Arc<Stock>, watch: &ProgressWatch) -> Result<WarmServer, ScenarioError> {
        let mut scenario = self.scenario.clone();
        scenario.run.seed = seed;
        let scenario = &scenario;
        let loaded = load(std::slice::from_ref(scenario), stock, &mut |_| !watch.is_stopped())?;
        let Some(loaded) = loaded.first() else {
            return Err(ScenarioError::Stopped { during: "load".into() });
        };
        let setup = SimulationSetup { scenario, function: &loaded.function, blueprint: &loaded.blueprint };
        let own = scenario.traffic.offered(scenario.nic.rate);
        let packets = scenario.run.packets.max(LEAST_OF_BASE);
        let make = || setup.warm_at(&own, packets, watch);
        let Some(store) = &self.store else {
            return make();
        };
        let of = format!("{} {packets}", belonging(scenario, &loaded.inputs, Seed(seed)));
        find_or_make(store.as_ref(), &of, || setup.server(&own), make, watch)
    }
}
