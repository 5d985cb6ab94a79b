//! Packet functions: what a router does to a packet, with every memory reference it makes.
//!
//! A function works on bursts of real packets and tables, and pushes what it touches into a
//! [`Probe`]. With [`probe::Null`] those calls compile to nothing, so the function that is
//! simulated is the function that runs. Each function has its file or folder, whose header says
//! what it computes, its references per packet, its regions, and its source.

mod check;
mod error;
pub mod firewall;
mod forward;
pub mod lookup;
pub mod nat;
mod tape;
pub mod ttl;
pub mod upf;
mod verdict;
pub mod vhost;

pub use error::FunctionError;
pub use firewall::{Firewall, FirewallSpec, Template};
pub use forward::{Adjacency, ChecksumCheck, Entries, Forward, ForwardSpec, ForwardTables, LookupMode};
pub use lookup::NextHop;
pub use nat::{Nat, NatKey, NatSpec, NatTimeouts};
pub use upf::{Upf, UpfSpec};
pub use verdict::{DropReason, Verdict};
pub use vhost::{CopySpec, Vhost};

use packet::Packet;
use probe::{Probe, RegionSpec};
use units::Ps;

/// Something a router does to each packet of a burst.
///
/// A function runs to its end in zero simulated time; what depends on time gets `now`.
pub trait PacketFunction {
    /// Its name in scenarios and tables, in snake_case.
    fn name(&self) -> &'static str;

    /// The tables it touches, with their sizes in bytes, so that a layout can place them. Every
    /// reference it pushes lies within one of them, or in the packet or its mbuf.
    fn regions(&self) -> Vec<RegionSpec>;

    /// Processes `burst` at time `now`, modifies its bytes, and appends one verdict per packet to
    /// `out`, in the order of the burst. A burst may have any length.
    ///
    /// Each packet's part of each stage stands between `probe.begin(id)` and `probe.end(id)`.
    fn process_burst<P: Probe>(&mut self, now: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>);
}

/// Every packet function: closed, so that a burst is dispatched once.
#[derive(Clone, Debug)]
pub enum Function {
    /// IP forwarding.
    Forward(Forward),
    /// The user plane function of a 5G core.
    Upf(Upf),
    /// Source network address translation.
    Nat(Nat),
    /// Filtering by templates.
    Firewall(Firewall),
    /// A copy into a guest's buffers, and forwarding.
    Vhost(Vhost),
}

impl PacketFunction for Function {
    fn name(&self) -> &'static str {
        match self {
            Function::Forward(f) => f.name(),
            Function::Upf(f) => f.name(),
            Function::Nat(f) => f.name(),
            Function::Firewall(f) => f.name(),
            Function::Vhost(f) => f.name(),
        }
    }

    fn regions(&self) -> Vec<RegionSpec> {
        match self {
            Function::Forward(f) => f.regions(),
            Function::Upf(f) => f.regions(),
            Function::Nat(f) => f.regions(),
            Function::Firewall(f) => f.regions(),
            Function::Vhost(f) => f.regions(),
        }
    }

    fn process_burst<P: Probe>(&mut self, now: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        match self {
            Function::Forward(f) => f.process_burst(now, burst, probe, out),
            Function::Upf(f) => f.process_burst(now, burst, probe, out),
            Function::Nat(f) => f.process_burst(now, burst, probe, out),
            Function::Firewall(f) => f.process_burst(now, burst, probe, out),
            Function::Vhost(f) => f.process_burst(now, burst, probe, out),
        }
    }
}
