//! What cores see of memory, and how it answers.
//!
//! State (tag arrays, row buffers, allocators) is free of time and knows hits and misses. What answers at once reserves
//! resources in the order of arrival; a controller queues, may reorder, and answers later, under a ticket.

use probe::Request;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{CoreId, Line, Ps, Ticket};

use crate::cache::Victim;
use crate::memory::{PrivateLevels, Translation};

/// Who answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Served {
    /// The core's first-level cache.
    L1,
    /// The core's second-level cache.
    L2,
    /// The last-level cache.
    Llc,
    /// Another core's private cache.
    Snoop,
    /// What is behind the caches of its socket: DRAM, another socket's LLC, a tail, a home.
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

/// What a core's request leads to beyond its private caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Answered at once.
    Done(Response),
    /// A controller has it; whoever drives the controller hands the response to the core.
    Pending(Ticket),
}

impl Reply {
    /// Who has the line. A controller has only what comes from memory, or joins what does.
    pub(crate) fn served(&self) -> Served {
        match self {
            Reply::Done(response) => response.served,
            Reply::Pending(_) => Served::Dram,
        }
    }
}

/// The memory system as a core sees it: private caches that only the core touches, and the rest.
pub trait Memory {
    /// Translates the request's address, in its core's program order.
    #[inline]
    fn translate(&mut self, request: &Request) -> Translation {
        let _ = request;
        Translation::Free
    }
    /// Looks into the private caches of the request's core, in that core's program order.
    fn lookup(&mut self, request: &Request) -> PrivateLookup;
    /// Whether `core` uses a line again that its L1 has used last of its set: a hit that changes
    /// nothing, counted like any other. A short cut past [`Memory::lookup`]; `false` says nothing.
    #[inline]
    fn repeat(&mut self, core: CoreId, line: Line, write: bool) -> bool {
        let _ = (core, line, write);
        false
    }
    /// The caches of `core`, for a short cut past [`Memory::lookup`] for what they serve alone; [`None`] where there is
    /// none.
    #[inline]
    fn private_levels(&mut self, core: CoreId) -> Option<PrivateLevels<'_>> {
        let _ = core;
        None
    }
    /// Counts what [`Memory::private_levels`] have served.
    #[inline]
    fn count_private_hits(&mut self, l1: u64, l2: u64) {
        let _ = (l1, l2);
    }
    /// What `core`'s prefetcher asks for next, and what its private caches said; [`None`] when there are no more. [`Memory::fetch`] must follow.
    #[inline]
    fn next_prefetch(&mut self, core: CoreId) -> Option<(Request, PrivateLookup)> {
        let _ = core;
        None
    }
    /// Delivers what left the private caches on a hit, at the simulation's present.
    fn settle(&mut self, lookup: &PrivateLookup, request: &Request, now: Ps);
    /// The shared part of a request whose lookup did not hit; in order of `now` over all requesters.
    fn fetch(&mut self, request: &Request, lookup: &PrivateLookup, now: Ps) -> Reply;
    /// Whether a copy engine takes the copy of what `src` reads to what `dst` writes, each within a line; or else
    /// it is made by loads and stores.
    #[inline]
    fn takes_copy(&mut self, src: &Request, dst: &Request) -> bool {
        let _ = (src, dst);
        false
    }
    /// Whether the engine takes copies as a whole, where source and target each lie in one piece, and not by lines.
    #[inline]
    fn takes_whole_copies(&self) -> bool {
        false
    }
    /// Whether no later instruction starts before the answer to a copy.
    #[inline]
    fn copies_hold(&self) -> bool {
        false
    }
    /// Instructions of software for a copy of so many bytes that an engine has taken: they are not executed.
    #[inline]
    fn copy_saves(&self, bytes: u32) -> u32 {
        let _ = bytes;
        0
    }
    /// Makes a copy that [`Memory::takes_copy`] takes; in order of `now` over all requesters, as
    /// [`Memory::fetch`]. Without an engine nothing happens.
    fn copy(&mut self, src: &Request, dst: &Request, now: Ps) -> Reply {
        let _ = (src, dst);
        Reply::Done(Response { at: now, served: Served::Engine, path: Path::default() })
    }
    /// Before this nothing is answered that a controller has; [`Ps::MAX`] if it has nothing.
    #[inline]
    fn next_answer(&self) -> Ps {
        Ps::MAX
    }
    /// What a private hit is charged to, and its load-to-use latency.
    fn private_latency(&self, served: Served) -> (Reason, Ps);
}

/// What a core's private caches said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PrivateLookup {
    /// [`Served::L1`] or [`Served::L2`] for a hit; [`None`] means [`Memory::fetch`] must follow.
    pub hit: Option<Served>,
    /// The line is there and only has to be taken from other cores.
    pub upgrade: bool,
    /// Lines that left the private caches and go down.
    pub victims: [Option<Victim>; 2],
    /// [`Memory::next_prefetch`] has something.
    pub prefetches: bool,
}

impl PrivateLookup {
    /// Whether [`Memory::settle`] has something to do.
    #[inline]
    pub fn has_victims(&self) -> bool {
        self.victims[0].is_some() || self.victims[1].is_some()
    }
}
