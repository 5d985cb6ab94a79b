//! What is written down of references that leave the private caches, where somebody wants to see them one by one.

use probe::{Access, Request};
use stats::Path;
use units::{CoreId, Line, Ps, Ticket};

use super::Hierarchy;
use crate::{Reply, Served};

/// A reference that a core's private caches did not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRecord {
    /// Whose.
    pub core: CoreId,
    /// Of what.
    pub line: Line,
    /// What for.
    pub access: Access,
    /// The slice of the LLC that the line belongs to.
    pub slice: u32,
    /// When the LLC was asked.
    pub at: Ps,
    /// When the answer came, who gave it, and what it waited for; not known as long as a controller has the request.
    pub answer: Result<(Ps, Served, Path), Ticket>,
}

impl Hierarchy {
    /// References that leave private caches are written down from now on, or no more.
    pub fn keep_records(&mut self, keep: bool) {
        self.records = keep.then(Vec::new);
    }

    /// Gives what was written down since it was last asked for, in the order in which the LLC was asked, with what
    /// prefetchers asked for.
    pub fn take_records(&mut self, into: &mut Vec<FetchRecord>) {
        if let Some(records) = &mut self.records {
            into.append(records);
        }
    }

    #[cold]
    pub(super) fn record(&mut self, request: &Request, reply: &Reply, now: Ps) {
        let line = request.addr.line();
        let slice = self.llc.spot(line).slice() as u32;
        let answer = match reply {
            Reply::Done(response) => Ok((response.at, response.served, response.path)),
            Reply::Pending(ticket) => Err(*ticket),
        };
        if let Some(records) = &mut self.records {
            records.push(FetchRecord { core: request.core, line, access: request.access, slice, at: now, answer });
        }
    }
}
