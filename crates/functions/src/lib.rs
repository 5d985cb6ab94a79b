//! Packet functions: what a router does to a packet, with every memory reference it makes.
//!
//! A function works on bursts of real packets and tables, and pushes what it touches into a
//! [`Probe`]. With [`probe::Null`] those calls compile to nothing, so the function that is
//! simulated is the function that runs. Each function has its file or folder, whose header says
//! what it computes, its references per packet, its regions, and its source.

pub mod chain;
mod check;
pub mod classify;
mod error;
pub mod firewall;
mod forward;
pub mod fragment;
pub mod inspect;
pub mod lookup;
pub mod nat;
pub mod program;
pub mod socket;
mod tape;
pub mod trace;
pub mod ttl;
pub mod upf;
mod verdict;
pub mod vhost;
pub mod work;

pub use chain::{Chain, MemberTotals};
pub use check::HeaderCheck;
pub use classify::{Classify, ClassifySpec};
pub use error::FunctionError;
pub use firewall::{Firewall, FirewallSpec, Template};
pub use forward::{Adjacency, ChecksumCheck, Entries, Forward, ForwardSpec, ForwardTables, LookupMode};
pub use fragment::{Fragment, FragmentSpec};
pub use inspect::{Inspect, InspectSpec};
pub use lookup::{Lookup, NextHop, RoutePlace};
pub use nat::{Nat, NatKey, NatSpec, NatTimeouts};
pub use program::{Program, ProgramSpec};
pub use socket::{Socket, SocketSpec};
pub use trace::{RecordedProgram, Trace};
pub use ttl::Ttl;
pub use upf::{Upf, UpfSpec};
pub use verdict::{DropReason, Verdict};
pub use vhost::{CopySpec, Vhost};
pub use work::{Work, WorkSpec};

use std::ops::Range;

use packet::Packet;
use probe::{Probe, RegionSpec};
use state::{Reader, State, StateError, Writer};
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
    ///
    /// It is compiled once a probe: [`probe::Null`] for who forwards, [`probe::Script`] for cores that replay,
    /// [`probe::Record`] for all others, which are told what the recording has kept.
    fn process_burst<P: Probe>(&mut self, now: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>);
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident, $routes:literal;)*) => {
        /// Every packet function: closed, so that a burst is dispatched once.
        #[derive(Clone, Debug)]
        pub enum Function {
            $($(#[$doc])* $name($name),)*
            /// Functions one after the other.
            Chain(Chain),
        }

        impl Function {
            /// Whether the port of its verdicts is chosen by the packet's destination or session, and not just the other
            /// one of a pair.
            pub fn routes(&self) -> bool {
                match self {
                    $(Function::$name(_) => $routes,)*
                    Function::Chain(chain) => chain.members().any(Function::routes),
                }
            }

            /// The fragments of the latest burst's packets, but for the first one of each, which has the packet's place.
            pub fn fragments(&self) -> &[Packet] {
                match self {
                    Function::Fragment(f) => f.fragments(),
                    Function::Chain(chain) => chain.members().map(Function::fragments).find(|f| !f.is_empty()).unwrap_or(&[]),
                    _ => &[],
                }
            }

            /// The same, for who takes them out and leaves other packets in their places.
            pub fn fragments_mut(&mut self) -> &mut [Packet] {
                match self {
                    Function::Fragment(f) => f.fragments_mut(),
                    Function::Chain(chain) => chain.fragments_mut(),
                    _ => &mut [],
                }
            }

            /// What its flow tables have done, where it has any: a user plane's, or those of all in a chain.
            pub fn flow_counters(&self) -> Option<upf::FlowCounters> {
                match self {
                    Function::Upf(upf) => upf.flow_counters(),
                    Function::Chain(chain) => {
                        let each = chain.members().filter_map(Function::flow_counters);
                        each.reduce(|mut all, own| {
                            all += own;
                            all
                        })
                    }
                    _ => None,
                }
            }

            /// What the update of each of its routes writes; nothing where it has none, or their structure is not DIR-24-8.
            pub fn route_places(&self) -> Vec<RoutePlace> {
                match self {
                    Function::Forward(f) => f.route_places(),
                    Function::Lookup(f) => f.route_places(),
                    Function::Chain(chain) => chain.route_places(),
                    _ => Vec::new(),
                }
            }

            /// Says which core has the next bursts, to a function that keeps tables of each core.
            pub fn on_core(&mut self, core: usize) {
                match self {
                    Function::Upf(upf) => upf.on_core(core),
                    Function::Chain(chain) => chain.on_core(core),
                    _ => {}
                }
            }

            /// [`PacketFunction::process_burst`] of anything but a chain, whose members are no chains: told apart here so
            /// that the probe of a member is not that of a member of a member, without end. A chain does nothing.
            pub(crate) fn process_alone<P: Probe>(
                &mut self,
                now: Ps,
                burst: &mut [Packet],
                probe: &mut P,
                out: &mut Vec<Verdict>,
            ) {
                match self {
                    $(Function::$name(f) => f.process_burst(now, burst, probe, out),)*
                    Function::Chain(_) => {}
                }
            }
        }

        impl State for Function {
            fn write(&self, to: &mut Writer) -> Result<(), StateError> {
                to.value(&u64::from(state::shape(self.name())))?;
                match self {
                    $(Function::$name(f) => f.write(to),)*
                    Function::Chain(f) => f.write(to),
                }
            }

            fn read(&mut self, from: &mut Reader) -> Result<(), StateError> {
                from.is_as("name", "the packet function", u64::from(state::shape(self.name())))?;
                match self {
                    $(Function::$name(f) => f.read(from),)*
                    Function::Chain(f) => f.read(from),
                }
            }
        }

        impl PacketFunction for Function {
            fn name(&self) -> &'static str {
                match self {
                    $(Function::$name(f) => f.name(),)*
                    Function::Chain(f) => f.name(),
                }
            }

            fn regions(&self) -> Vec<RegionSpec> {
                match self {
                    $(Function::$name(f) => f.regions(),)*
                    Function::Chain(f) => f.regions(),
                }
            }

            fn process_burst<P: Probe>(&mut self, now: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
                match self {
                    Function::Chain(f) => f.process_burst(now, burst, probe, out),
                    one => one.process_alone(now, burst, probe, out),
                }
            }
        }
    };
}

impl Function {
    /// In how many calls it hands the packets of a burst that are `sent` to the driver, where it does that run by run: see [`ProgramSpec::by_flow`].
    pub fn runs<'a>(&self, sent: impl Iterator<Item = &'a Packet> + Clone) -> Option<u32> {
        match self {
            Function::Program(program) => program.runs(sent),
            Function::Chain(chain) => chain.members().find_map(|member| member.runs(sent.clone())),
            _ => None,
        }
    }

    /// As [`PacketFunction::process_burst`], of a chain by the members of these numbers alone; of copies 0 is the copy, and 1 forwards.
    pub fn process_part<P: Probe>(
        &mut self,
        members: Range<usize>,
        now: Ps,
        burst: &mut [Packet],
        probe: &mut P,
        out: &mut Vec<Verdict>,
    ) {
        match self {
            Function::Chain(chain) => chain.process_members(members, now, burst, probe, out, |_| {}),
            Function::Vhost(vhost) => vhost.process_part(members, now, burst, probe, out),
            one => one.process_alone(now, burst, probe, out),
        }
    }

    /// Its regions, of a chain and of copies those of the parts from number `first` on.
    pub fn regions_from(&self, first: usize) -> Vec<RegionSpec> {
        match self {
            Function::Chain(chain) => chain.regions_from(first),
            Function::Vhost(vhost) => vhost.regions_from(first),
            one => one.regions(),
        }
    }

    /// As [`Function::routes`], of a chain by the members from number `first` on.
    pub fn routes_from(&self, first: usize) -> bool {
        match self {
            Function::Chain(chain) => chain.members().skip(first).any(Function::routes),
            one => one.routes(),
        }
    }
}

functions! {
    /// IP forwarding.
    Forward, true;
    /// The user plane function of a 5G core.
    Upf, true;
    /// Source network address translation.
    Nat, true;
    /// Filtering by templates.
    Firewall, false;
    /// A copy into a guest's buffers, and forwarding.
    Vhost, true;
    /// Copies to sockets and the application, and forwarding.
    Socket, true;
    /// The header check alone.
    HeaderCheck, false;
    /// Classification by rules.
    Classify, false;
    /// Route lookup alone.
    Lookup, true;
    /// The time to live alone.
    Ttl, false;
    /// Fragmentation.
    Fragment, false;
    /// Inspection of payloads.
    Inspect, false;
    /// Made work.
    Work, false;
    /// A recorded program.
    Trace, false;
    /// A program as its source describes it.
    Program, true;
}
