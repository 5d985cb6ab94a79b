//! Cores that replay what a packet function did, and take the time it takes.
//!
//! One mechanism serves two models. Instructions retire in order at `cpi` cycles each; a reference
//! retires when its data are there. What differs is how far the core looks ahead:
//!
//! - **in-order**: the next reference starts when the one before has retired. Stores and prefetches
//!   do not block.
//! - **window**: references start as soon as they are within `rob` instructions of the oldest
//!   unretired one and the reference their address came from (`dep`) is done; at most
//!   `outstanding` private misses are under way.
//!
//! The gap between one retirement and the next is instructions, then a wait, which is charged to
//! the tail of the blocking reference's path: each picosecond once, so the charges sum to the time
//! (the accounting of Eyerman et al., ASPLOS 2006, "A performance counter architecture for
//! computing accurate CPI components").
//!
//! Cores share memory, so misses of one may hold up those of another. `lookahead` says how exactly:
//!
//! - **0**: misses go out in order of time over all cores and devices, and memory may take its time to
//!   answer ([`Ordered`]).
//! - **more**: a core replays up to so much beyond the next event elsewhere before others have their turn,
//!   and its misses reserve shared resources in program order, at the times at which they would go out
//!   ([`Ahead`]). A single core over memory without queues takes the same time either way; with others, the
//!   waits for each other are those of requests that are out of turn by up to `lookahead` and a
//!   chain of misses (the bound phase of Sanchez and Kozyrakis, ISCA 2013, "ZSim", without its weave phase).
//!
//! Left out: branch mispredictions, instruction fetch, functional units, memory disambiguation.
//! `cpi` stands for them all.

mod ahead;
mod burst;
mod fills;
mod ordered;
mod spec;

pub use burst::{BurstPacket, Step};
pub use spec::{CoreModel, CoreSpec};

use probe::{Layout, Script};
use stats::Attribution;
use units::{Clos, CoreId, Ps, Ticket};

use crate::{MachineError, Memory, Response};
use ahead::Ahead;
use burst::Burst;
use ordered::Ordered;

/// A core that replays a recorded burst. See the module header of `cores`.
#[derive(Clone, Debug)]
pub struct Core(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Ordered(Box<Ordered>),
    Ahead(Box<Ahead>),
}

macro_rules! either {
    ($core:expr, $name:ident => $body:expr) => {
        match $core {
            Kind::Ordered($name) => $body,
            Kind::Ahead($name) => $body,
        }
    };
}

impl Core {
    /// A core at rest.
    ///
    /// # Errors
    /// A value of the specification outside its range.
    pub fn new(spec: &CoreSpec, id: CoreId, path: &str) -> Result<Core, MachineError> {
        Ok(Core(if spec.lookahead.ps() == Ps::ZERO {
            Kind::Ordered(Box::new(Ordered::new(spec, id, path)?))
        } else {
            Kind::Ahead(Box::new(Ahead::new(spec, id, path)?))
        }))
    }

    #[inline]
    fn burst(&self) -> &Burst {
        either!(&self.0, core => &core.burst)
    }

    #[inline]
    fn burst_mut(&mut self) -> &mut Burst {
        either!(&mut self.0, core => &mut core.burst)
    }

    /// What is replayed; filled by whoever runs the function.
    pub fn script(&mut self) -> &mut Script {
        &mut self.burst_mut().script
    }

    /// The 64-byte cells of the packets of the next burst that do not lie in one piece, packet by packet; filled
    /// before [`Core::start`].
    pub fn cells(&mut self) -> &mut Vec<units::Addr> {
        &mut self.burst_mut().cells
    }

    /// Which core it is.
    pub fn id(&self) -> CoreId {
        self.burst().placed.core
    }

    /// Puts the core's requests into a class of service.
    pub fn set_clos(&mut self, clos: Clos) {
        self.burst_mut().placed.clos = clos;
    }

    /// Begins to replay the script at `at` for the packets of `burst`.
    pub fn start(&mut self, burst: impl IntoIterator<Item = BurstPacket>, at: Ps) {
        either!(&mut self.0, core => core.start(burst, at));
    }

    /// Instructions replayed so far.
    pub fn instructions(&self) -> u64 {
        either!(&self.0, core => core.instructions())
    }

    /// What the burst's time went to for packet `index`: its own work by reason, the work for
    /// others as [`stats::Reason::Burst`]. Sums exactly to the burst's duration.
    pub fn attribution(&self, index: usize) -> Attribution {
        self.burst().attribution(index)
    }

    /// What the whole burst's time went to.
    pub fn burst_attribution(&self) -> Attribution {
        self.burst().total()
    }

    /// Hands over the answer to a request that a controller had. Only cores without lookahead ask controllers.
    pub fn complete(&mut self, ticket: Ticket, response: &Response) {
        if let Kind::Ordered(core) = &mut self.0 {
            core.complete(ticket, response);
        }
    }

    /// The lock that [`Step::Lock`] asked for is the core's from `at` on.
    pub fn grant(&mut self, at: Ps) {
        either!(&mut self.0, core => core.grant(at));
    }

    /// Replays on, until the burst is complete or something outside is needed.
    ///
    /// `now` is the simulation's present. Shared memory may be used up to `horizon`, the time of the
    /// next event elsewhere, and by a core with lookahead by so much longer. Regions stay where `layout` has them, but for
    /// those that move with packets.
    #[inline]
    pub fn step<M: Memory, L: Layout>(&mut self, memory: &mut M, layout: &L, now: Ps, horizon: Ps) -> Step {
        match &mut self.0 {
            Kind::Ordered(core) => core.step(memory, layout, now, horizon),
            Kind::Ahead(core) => core.step(memory, layout, horizon),
        }
    }
}
