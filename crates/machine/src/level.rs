//! The two timing shells around a component's state, and what cores see of memory.
//!
//! State (tag arrays, row buffers, allocators) is free of time and knows hits and misses. A
//! [`Level`] answers at once by reserving resources in arrival order; a [`Controller`] queues,
//! may reorder, and answers later. [`Memory`] is what a core talks to: a stack of levels that can
//! end in a controller.

use probe::Request;
use stats::Path;
use units::{Ps, Ticket};

/// Who answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Served {
    /// The core's first-level cache.
    L1,
    /// The core's second-level cache.
    L2,
    /// The last-level cache.
    Llc,
    /// Another core's private cache.
    Snoop,
    /// DRAM.
    Dram,
    /// Something beside the caches: a copy table, a buffer in SRAM.
    Engine,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// When the data are there, or a write is visible.
    pub at: Ps,
    /// Who answered.
    pub served: Served,
    /// What the time from the request to `at` was spent on; the parts sum to it.
    pub path: Path,
}

/// A component that answers at once by reserving busy-until resources in arrival order.
pub trait Level {
    /// Serves `request`, made at `now`.
    ///
    /// `now` never decreases from call to call; whoever drives several requesters calls in order
    /// of time.
    fn access(&mut self, request: &Request, now: Ps) -> Response;
}

/// The controller's queue is full. Ask again after [`Controller::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A component that queues requests and may reorder them.
pub trait Controller {
    /// Takes `request` at `now` and gives the ticket under which the answer will come.
    ///
    /// # Errors
    /// [`Full`], and nothing has happened.
    fn submit(&mut self, request: &Request, now: Ps) -> Result<Ticket, Full>;

    /// The earliest time at which [`Controller::advance`] may have something to do; [`None`] when
    /// it is empty.
    fn next(&self) -> Option<Ps>;

    /// Does all that happens up to `now` and appends finished requests with their responses, in
    /// order of completion.
    fn advance(&mut self, now: Ps, done: &mut Vec<(Ticket, Response)>);
}

/// What a core's request leads to beyond its private caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Answered at once.
    Done(Response),
    /// A controller has it; whoever drives the controller hands the response to the core.
    Pending(Ticket),
    /// A controller on the way is full; ask again at this time.
    Retry(Ps),
}
