//! A packet function on its way to a backend: as threads run it, and, where kernels have it too, its tables as they lie in
//! memory.

use std::sync::Arc;

use functions::classify::{ClassifyTables, RuleSearch};
use functions::inspect::{InspectTables, Method};
use functions::lookup::{LookupTables, PoptrieNode, Structure};
use functions::{
    Chain, ChecksumCheck, Classify, ClassifySpec, DropReason, Entries, Forward, Fragment, FragmentSpec, Function,
    HeaderCheck, Inspect, InspectSpec, Lookup, PacketFunction, Ttl, Verdict,
};
use packet::Rule;
use units::PortId;

use crate::RouterError;
use crate::layout::{KernelTables, MOST_MEMBERS, Members};
use crate::machine::KernelMachine;

/// Bytes of a frame that kernels see where headers are all that is read.
const HEADERS: usize = 2048;
/// And where payloads are: what a link with jumbo frames carries.
const PAYLOADS: usize = 9234;

/// What the router does with each packet.
#[derive(Clone, Debug)]
pub struct RouterProgram {
    function: Function,
    lowered: Vec<Lowered>,
    /// What kernels do that threads do in another form: fragments are gathered, and not copied.
    gathering: Option<Function>,
}

/// What a kernel needs of a member.
#[derive(Clone, Debug)]
enum Lowered {
    /// With its next hops as words.
    Forward(Forward, Arc<[u32]>),
    Check(ChecksumCheck, u16),
    Lookup(Lookup, u16),
    Ttl(u16),
    /// Whether what no rule matches is dropped, ports.
    Classify(Arc<ClassifyTables>, bool, u16),
    /// Bytes of a payload, whether what has a pattern is dropped, ports.
    Inspect(Arc<InspectTables>, u32, bool, u16),
    /// MTU, ports.
    Fragment(u32, u16),
}

/// What a member of a chain has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MemberWork {
    /// Its name.
    pub name: &'static str,
    /// Packets that came to it.
    pub packets: u64,
    /// Packets that it dropped.
    pub dropped: u64,
    /// Nanoseconds that workers took for it, all of them together; none where kernels do it, which have no clock for that.
    pub time_ns: Option<u64>,
}

impl MemberWork {
    /// Adds what the same member has done elsewhere.
    pub(crate) fn add(&mut self, other: &MemberWork) {
        self.packets += other.packets;
        self.dropped += other.dropped;
        self.time_ns = self.time_ns.zip(other.time_ns).map(|(sum, time)| sum + time);
    }
}

impl RouterProgram {
    fn one(function: Function, lowered: Lowered) -> RouterProgram {
        RouterProgram { function, lowered: vec![lowered], gathering: None }
    }

    /// IP forwarding: header check, lookup, time to live, Ethernet addresses.
    pub fn forward(forward: Forward) -> RouterProgram {
        let hops = forward.tables().adjacencies.iter().flat_map(|hop| {
            let (mut bytes, mut word) = ([0; 16], [0; 4]);
            bytes[..6].copy_from_slice(&hop.dst_mac);
            bytes[6..12].copy_from_slice(&hop.src_mac);
            bytes[12..14].copy_from_slice(&hop.port.0.to_ne_bytes());
            for (word, bytes) in word.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
            word
        });
        let hops = hops.collect();
        RouterProgram::one(Function::Forward(forward.clone()), Lowered::Forward(forward, hops))
    }

    /// The header check alone.
    pub fn check(checksum: ChecksumCheck, ports: u16) -> RouterProgram {
        let function = Function::HeaderCheck(HeaderCheck::new(checksum, ports));
        RouterProgram::one(function, Lowered::Check(checksum, ports.max(1)))
    }

    /// Route lookup alone, on a router of `ports` ports as `lookup` has it.
    pub fn lookup(lookup: Lookup, ports: u16) -> RouterProgram {
        RouterProgram::one(Function::Lookup(lookup.clone()), Lowered::Lookup(lookup, ports.max(1)))
    }

    /// Fragmentation for links of that MTU. Threads copy payloads, kernels leave that to whoever sends: the fragments are the
    /// same to the byte.
    ///
    /// # Errors
    /// An MTU outside its range.
    pub fn fragment(mtu: u32, ports: u16) -> Result<RouterProgram, RouterError> {
        let spec = FragmentSpec { mtu, ..FragmentSpec::default() };
        let function = Function::Fragment(Fragment::new(&spec, ports)?);
        let gathering = Some(Function::Fragment(Fragment::gathering(&spec, ports)?));
        Ok(RouterProgram { function, lowered: vec![Lowered::Fragment(mtu, ports.max(1))], gathering })
    }

    /// The time to live alone.
    pub fn ttl(ports: u16) -> RouterProgram {
        RouterProgram::one(Function::Ttl(Ttl::new(ports)), Lowered::Ttl(ports.max(1)))
    }

    /// Classification by `rules`.
    ///
    /// # Errors
    /// Too many rules.
    pub fn classify(rules: &[Rule], spec: &ClassifySpec, ports: u16) -> Result<RouterProgram, RouterError> {
        let classify = Classify::new(rules, spec, ports)?;
        let lowered = Lowered::Classify(classify.tables().into(), spec.drop_unmatched, ports.max(1));
        Ok(RouterProgram::one(Function::Classify(classify), lowered))
    }

    /// Inspection of payloads, on a router of `ports` ports as `inspect` has it.
    pub fn inspect(inspect: Inspect, ports: u16) -> RouterProgram {
        let depth = u32::try_from(inspect.depth()).unwrap_or(u32::MAX);
        let lowered = Lowered::Inspect(inspect.tables().into(), depth, inspect.drops(), ports.max(1));
        RouterProgram::one(Function::Inspect(inspect), lowered)
    }

    /// One after the other. A program of one member is that member.
    ///
    /// # Errors
    /// None, or more than 6 members, which is what kernels take; fragmentation before another member, which would see the
    /// first fragment only.
    pub fn chain(members: Vec<RouterProgram>) -> Result<RouterProgram, RouterError> {
        let lowered: Vec<Lowered> = members.iter().flat_map(|member| member.lowered.iter().cloned()).collect();
        if !(1..=MOST_MEMBERS).contains(&lowered.len()) {
            let came = format!("{} functions", lowered.len());
            return Err(RouterError::Setting { what: "function", came, allowed: "a chain has 1 to 6 of them" });
        }
        if lowered.iter().rev().skip(1).any(|member| matches!(member, Lowered::Fragment(..))) {
            let came = members.iter().map(RouterProgram::name).collect::<Vec<_>>().join(",");
            let allowed = "fragment must be the last of a chain: what follows would see the first fragment only";
            return Err(RouterError::Setting { what: "function", came, allowed });
        }
        let joined = |mut functions: Vec<Function>| match functions.len() {
            1 => Ok(functions.remove(0)),
            _ => Chain::new(functions).map(Function::Chain),
        };
        let gathers = members.iter().any(|member| member.gathering.is_some());
        let gathering = members.iter().map(|member| member.gathering.as_ref().unwrap_or(&member.function).clone());
        let gathering = if gathers { Some(joined(gathering.collect())?) } else { None };
        let function = joined(members.into_iter().map(|member| member.function).collect())?;
        Ok(RouterProgram { function, lowered, gathering })
    }

    /// Its name on the command line; of a chain its members' names with commas between.
    pub fn name(&self) -> String {
        self.members().collect::<Vec<_>>().join(",")
    }

    /// The names of its members: one, if it is no chain.
    pub fn members(&self) -> impl Iterator<Item = &'static str> {
        let names = match &self.function {
            Function::Chain(chain) => chain.members().map(PacketFunction::name).collect(),
            one => vec![one.name()],
        };
        names.into_iter()
    }

    /// As threads run it.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// As kernels run it: the references that they make are this one's, and its verdicts and packets are those of
    /// [`RouterProgram::function`].
    pub fn lowered(&self) -> &Function {
        self.gathering.as_ref().unwrap_or(&self.function)
    }

    /// The MTU of fragmentation, where that is a member: packets may become several.
    pub(crate) fn mtu(&self) -> Option<u32> {
        self.lowered.iter().find_map(|member| match member {
            Lowered::Fragment(mtu, _) => Some(*mtu),
            _ => None,
        })
    }

    /// Whether it takes the kernels for any function and any chain, or those for one function of headers will do, which take
    /// fewer registers.
    pub(crate) fn is_any(&self) -> bool {
        let tuples = |tables: &ClassifyTables| matches!(tables, ClassifyTables::TupleSpace { .. });
        match &self.lowered[..] {
            [Lowered::Classify(tables, ..)] => tuples(tables),
            [Lowered::Inspect(..) | Lowered::Fragment(..)] => true,
            [Lowered::Lookup(lookup, _)] => matches!(lookup.tables(), LookupTables::Poptrie(..)),
            [_] => false,
            _ => true,
        }
    }

    /// Bytes of a frame that a kernel has to see.
    pub fn frame_bytes(&self) -> usize {
        if self.reads_payloads() { PAYLOADS } else { HEADERS }
    }

    /// Whether a verdict depends on what is behind the headers.
    pub fn reads_payloads(&self) -> bool {
        self.lowered.iter().any(|member| matches!(member, Lowered::Inspect(..)))
    }

    /// What of a packet it reads, where that alone is copied.
    ///
    /// # Errors
    /// It is no function of headers alone, or sums the options of IPv4 headers.
    pub(crate) fn gathered(&self) -> Result<GatheredFunction, RouterError> {
        match &self.lowered[..] {
            [Lowered::Forward(forward, hops)] if forward.tables().checksum == ChecksumCheck::Nic => {
                Ok(GatheredFunction::Forward(hops.clone()))
            }
            [Lowered::Check(ChecksumCheck::Nic, ports)] => Ok(GatheredFunction::Check(*ports)),
            [Lowered::Lookup(lookup, _)] if matches!(lookup.tables(), LookupTables::Dir24(_)) => {
                Ok(GatheredFunction::Lookup)
            }
            [Lowered::Ttl(ports)] => Ok(GatheredFunction::Ttl(*ports)),
            _ => {
                let allowed =
                    "gathered copies are for forward, check, lookup by DIR-24-8 and ttl alone, without checksums";
                Err(RouterError::Setting { what: "function", came: self.name(), allowed })
            }
        }
    }

    /// Whether packets are changed: where they are not, a copy of them need not come back.
    pub(crate) fn writes(&self) -> bool {
        self.lowered
            .iter()
            .any(|member| matches!(member, Lowered::Forward(..) | Lowered::Ttl(_) | Lowered::Fragment(..)))
    }

    /// Whether packets get a class.
    pub(crate) fn classifies(&self) -> bool {
        self.lowered.iter().any(|member| matches!(member, Lowered::Classify(..) | Lowered::Inspect(..)))
    }

    /// The tables, brought to where `machine` reads them.
    ///
    /// # Errors
    /// Kernels do not have a function; no memory.
    pub(crate) fn place(&self, machine: &mut impl KernelMachine) -> Result<Members, RouterError> {
        let mut members = Members { count: self.lowered.len() as u32, ..Members::default() };
        for (i, lowered) in self.lowered.iter().enumerate() {
            members.routes |= u32::from(matches!(lowered, Lowered::Forward(..) | Lowered::Lookup(..))) << i;
            members.member[i] = lowered.place(machine)?;
        }
        Ok(members)
    }
}

/// What of a packet one function of headers reads and writes, where that alone is copied: `kernels/gather.h`.
#[derive(Clone, Debug)]
pub(crate) enum GatheredFunction {
    /// With its next hops as words.
    Forward(Arc<[u32]>),
    /// Ports.
    Check(u16),
    Lookup,
    /// Ports.
    Ttl(u16),
}

impl GatheredFunction {
    /// Bytes of an IP header that must be there, of IPv4 and IPv6.
    pub(crate) fn header_bytes(&self) -> [usize; 2] {
        if matches!(self, GatheredFunction::Ttl(_)) { [12, 8] } else { [20, 40] }
    }

    /// Of a header the first word that is copied and how many, and whether how much follows goes before them.
    pub(crate) fn fields(&self, is_v6: bool) -> (usize, usize, bool) {
        match (self, is_v6) {
            (GatheredFunction::Lookup, false) => (4, 1, false),
            (GatheredFunction::Lookup, true) => (6, 4, false),
            (GatheredFunction::Ttl(_), false) => (2, 1, false),
            (GatheredFunction::Ttl(_), true) => (1, 1, false),
            (_, false) => (0, 5, true),
            (_, true) => (0, 10, true),
        }
    }

    /// Words of a record.
    pub(crate) fn record_words(&self, is_v6: bool) -> usize {
        let (_, words, carried) = self.fields(is_v6);
        words + usize::from(carried)
    }

    /// Words of a result.
    pub(crate) fn result_words(&self) -> usize {
        match self {
            GatheredFunction::Forward(_) => 3,
            GatheredFunction::Ttl(_) => 2,
            _ => 1,
        }
    }

    /// The word of a header that is written.
    pub(crate) fn written_word(&self, is_v6: bool) -> Option<usize> {
        matches!(self, GatheredFunction::Forward(_) | GatheredFunction::Ttl(_)).then_some(if is_v6 { 1 } else { 2 })
    }

    /// Of forwarding, the next hops: 16 bytes each, of which 12 are put onto the frame.
    pub(crate) fn hops(&self) -> Option<&[u32]> {
        match self {
            GatheredFunction::Forward(hops) => Some(hops),
            _ => None,
        }
    }

    /// Whether it chooses the port.
    pub(crate) fn routes(&self) -> bool {
        matches!(self, GatheredFunction::Forward(_) | GatheredFunction::Lookup)
    }

    /// The port that a function sends by which does not route: the other one of a pair.
    pub(crate) fn across(&self, port: u32) -> u16 {
        match self {
            GatheredFunction::Check(ports) | GatheredFunction::Ttl(ports) => (port as u16 ^ 1) % ports,
            _ => 0,
        }
    }
}

impl Lowered {
    fn place(&self, machine: &mut impl KernelMachine) -> Result<KernelTables, RouterError> {
        let none = KernelTables { ports: 1, entry_bytes: 4, ..KernelTables::default() };
        Ok(match self {
            Lowered::Forward(forward, hops) => {
                let tables = forward.tables();
                let (tbl24, _, entry_bytes) = raw(tables.tbl24);
                let (tbl8, tbl8_entries, _) = raw(tables.tbl8);
                KernelTables {
                    tbl24: machine.table("tbl24", tbl24)?,
                    tbl8: machine.table("tbl8", tbl8)?,
                    tbl24_v6: machine.table("tbl24_v6", bytes(tables.tbl24_v6))?,
                    tbl8_v6: machine.table("tbl8_v6", bytes(tables.tbl8_v6))?,
                    next_hops: machine.table("next hops", bytes(hops))?,
                    tbl8_entries,
                    tbl8_v6_entries: tables.tbl8_v6.len() as u64,
                    next_hop_count: hops.len() as u32 / 4,
                    entry_bytes,
                    software_checksum: u32::from(tables.checksum == ChecksumCheck::Software),
                    ..none
                }
            }
            Lowered::Check(checksum, ports) => KernelTables {
                function: 1,
                software_checksum: u32::from(*checksum == ChecksumCheck::Software),
                ports: u32::from(*ports),
                ..none
            },
            Lowered::Lookup(lookup, ports) => {
                let none = KernelTables { ports: u32::from(*ports), ..none };
                match lookup.tables() {
                    LookupTables::Dir24([tbl24, tbl8, tbl24_v6, tbl8_v6]) => KernelTables {
                        function: 2,
                        tbl24: machine.table("tbl24", bytes(tbl24))?,
                        tbl8: machine.table("tbl8", bytes(tbl8))?,
                        tbl24_v6: machine.table("tbl24_v6", bytes(tbl24_v6))?,
                        tbl8_v6: machine.table("tbl8_v6", bytes(tbl8_v6))?,
                        tbl8_entries: tbl8.len() as u64,
                        tbl8_v6_entries: tbl8_v6.len() as u64,
                        ..none
                    },
                    LookupTables::Poptrie(v4, v6) => {
                        let ((direct, nodes, leaves), (direct_v6, nodes_v6, leaves_v6)) = (v4.tables(), v6.tables());
                        KernelTables {
                            function: 8,
                            tbl24: machine.table("the Poptrie's table", bytes(direct))?,
                            tbl8: machine.table("the Poptrie's nodes", bytes(nodes))?,
                            leaves: machine.table("the Poptrie's leaves", bytes(leaves))?,
                            tbl24_v6: machine.table("the table of the Poptrie of IPv6", bytes(direct_v6))?,
                            tbl8_v6: machine.table("the nodes of the Poptrie of IPv6", bytes(nodes_v6))?,
                            leaves_v6: machine.table("the leaves of the Poptrie of IPv6", bytes(leaves_v6))?,
                            ..none
                        }
                    }
                }
            }
            Lowered::Ttl(ports) => KernelTables { function: 3, ports: u32::from(*ports), ..none },
            Lowered::Classify(tables, drop_unmatched, ports) => {
                let (drop_unmatched, ports) = (u32::from(*drop_unmatched), u32::from(*ports));
                let none = KernelTables { drop_unmatched, ports, ..none };
                place_rules(tables, none, machine)?
            }
            Lowered::Inspect(tables, depth, drop, ports) => {
                let (depth, drop_unmatched, ports) = (*depth, u32::from(*drop), u32::from(*ports));
                let none = KernelTables { depth, drop_unmatched, ports, ..none };
                place_patterns(tables, none, machine)?
            }
            Lowered::Fragment(mtu, ports) => KernelTables { function: 9, mtu: *mtu, ports: u32::from(*ports), ..none },
        })
    }
}

/// Rules of a classifier.
fn place_rules(
    tables: &ClassifyTables,
    none: KernelTables,
    machine: &mut impl KernelMachine,
) -> Result<KernelTables, RouterError> {
    Ok(match tables {
        ClassifyTables::Linear { rules } => KernelTables {
            function: 4,
            rules: machine.table("rules", bytes(rules))?,
            rule_count: rules.len() as u32 / 8,
            ..none
        },
        ClassifyTables::TupleSpace { tuples, buckets, entries } => KernelTables {
            function: 5,
            rules: machine.table("tuples", bytes(tuples))?,
            rule_count: tuples.len() as u32 / 8,
            buckets: machine.table("buckets of rules", bytes(buckets))?,
            entries: machine.table("rules", bytes(entries))?,
            ..none
        },
    })
}

/// Patterns of an inspection.
fn place_patterns(
    tables: &InspectTables,
    none: KernelTables,
    machine: &mut impl KernelMachine,
) -> Result<KernelTables, RouterError> {
    Ok(match tables {
        InspectTables::Automaton { text, root, states, wide, outputs, lists } => KernelTables {
            function: 6,
            text: machine.table("patterns", bytes(text))?,
            root: machine.table("the automaton's root", bytes(root))?,
            states: machine.table("states", bytes(states))?,
            wide: machine.table("wide states", bytes(wide))?,
            outputs: machine.table("outputs", bytes(outputs))?,
            lists: machine.table("lists of patterns", bytes(lists))?,
            ..none
        },
        InspectTables::Windows { text, lengths, filters, buckets, entries } => KernelTables {
            function: 7,
            text: machine.table("patterns", bytes(text))?,
            wide: machine.table("lengths of windows", bytes(lengths))?,
            length_count: lengths.len() as u32 / 4,
            states: machine.table("Bloom filters", bytes(filters))?,
            buckets: machine.table("buckets of patterns", bytes(buckets))?,
            bucket_mask: buckets.len() as u32 - 1,
            entries: machine.table("windows", bytes(entries))?,
            ..none
        },
    })
}

fn raw(entries: Entries<'_>) -> (&[u8], u64, u32) {
    match entries {
        Entries::Narrow(entries) => (bytes(entries), entries.len() as u64, 2),
        Entries::Wide(entries) => (bytes(entries), entries.len() as u64, 4),
    }
}

/// Integers, and what consists of them: every byte of them is one.
trait PlainBytes: Copy {}
impl PlainBytes for u16 {}
impl PlainBytes for u32 {}
impl PlainBytes for PoptrieNode {}

fn bytes<T: PlainBytes>(of: &[T]) -> &[u8] {
    // SAFETY: the same memory for as long as it is borrowed, with no byte that is not initialised.
    unsafe { std::slice::from_raw_parts(of.as_ptr().cast(), size_of_val(of)) }
}

/// In the order of `kernels/router.h`.
const REASONS: [DropReason; 19] = [
    DropReason::NotIp,
    DropReason::Truncated,
    DropReason::BadVersion,
    DropReason::BadHeaderLength,
    DropReason::BadTotalLength,
    DropReason::BadChecksum,
    DropReason::SourceMartian,
    DropReason::DestinationMartian,
    DropReason::DestinationMulticast,
    DropReason::DestinationBroadcast,
    DropReason::LinkLocal,
    DropReason::NoRoute,
    DropReason::TtlExpired,
    DropReason::HopLimitExceeded,
    DropReason::Unclassified,
    DropReason::SignatureFound,
    DropReason::FragmentationNeeded,
    DropReason::PacketTooBig,
    DropReason::Unfragmentable,
];

/// What a kernel's word says; [`None`] if it says nothing that there is.
pub fn verdict_of(word: u32) -> Option<Verdict> {
    match word >> 16 & 0xff {
        1 | 3 => Some(Verdict::Forward { port: PortId(word as u16) }),
        2 => REASONS.get(usize::from(word as u16)).map(|&reason| Verdict::Drop(reason)),
        _ => None,
    }
}

/// The word that drops a packet for `reason`.
pub(crate) fn drop_word(reason: DropReason) -> u32 {
    2 << 16 | REASONS.iter().position(|&own| own == reason).unwrap_or_default() as u32
}

/// The word that forwards a packet by `port`.
pub(crate) fn forward_word(port: u16) -> u32 {
    1 << 16 | u32::from(port)
}

/// The port of a word that forwards.
pub(crate) fn forwarded_port(word: u32) -> Option<u16> {
    (word >> 16 == 1).then_some(word as u16)
}

/// Whether a kernel's word says that the packet became several.
pub(crate) fn is_cut(word: u32) -> bool {
    word >> 16 & 0xff == 3
}

/// Counts by the words of kernels what each member of a chain has done.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    names: Vec<&'static str>,
    packets: u64,
    dropped: [u64; MOST_MEMBERS],
}

impl Tally {
    pub(crate) fn new(program: &RouterProgram) -> Tally {
        Tally { names: program.members().collect(), packets: 0, dropped: [0; MOST_MEMBERS] }
    }

    pub(crate) fn count(&mut self, word: u32) {
        self.packets += 1;
        if word >> 16 & 0xff == 2
            && let Some(dropped) = self.dropped.get_mut((word >> 24) as usize)
        {
            *dropped += 1;
        }
    }

    /// Of a chain; of one function nothing.
    pub(crate) fn shares(&self) -> Vec<MemberWork> {
        let mut packets = self.packets;
        let share = |(&name, &dropped)| {
            let share = MemberWork { name, packets, dropped, time_ns: None };
            packets -= dropped;
            share
        };
        if self.names.len() < 2 { Vec::new() } else { self.names.iter().zip(&self.dropped).map(share).collect() }
    }
}

/// How rules are searched, and payloads and routes, and how long packets may be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Methods {
    /// Of rules; linear if left out.
    pub search: Option<RuleSearch>,
    /// Of payloads.
    pub method: Method,
    /// Of routes; DIR-24-8 if left out.
    pub structure: Option<Structure>,
    /// Of the links that fragments are for; 1500 if left out.
    pub mtu: Option<u32>,
}

impl Methods {
    /// As the classifier is told.
    pub fn classify(&self) -> ClassifySpec {
        ClassifySpec { search: self.search.unwrap_or(RuleSearch::Linear), ..ClassifySpec::default() }
    }

    /// As the inspection is told: a packet with a string is dropped.
    pub fn inspect(&self) -> InspectSpec {
        InspectSpec { method: self.method, drop: true, ..InspectSpec::default() }
    }
}
