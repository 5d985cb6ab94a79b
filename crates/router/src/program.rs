//! A packet function on its way to a backend: as threads run it, and, where kernels have it too, its tables as they lie in
//! memory.

use std::sync::Arc;

use functions::classify::Search;
use functions::{
    ChecksumCheck, Classify, ClassifySpec, DropReason, Entries, Forward, Function, HeaderCheck, Inspect, Lookup,
    PacketFunction, Ttl, Verdict,
};
use packet::Rule;
use units::PortId;

use crate::RouterError;
use crate::layout::Tables;
use crate::machine::Machine;

/// What the router does with each packet.
#[derive(Clone, Debug)]
pub struct Program {
    function: Function,
    lowered: Lowered,
}

/// What a kernel needs of it.
#[derive(Clone, Debug)]
enum Lowered {
    Forward(Forward),
    Check(ChecksumCheck, u16),
    Lookup(Lookup, u16),
    Ttl(u16),
    /// Rules, whether what none matches is dropped, ports.
    Classify(Arc<[Line]>, bool, u16),
    Not,
}

/// A rule as kernels read it: source and mask, destination and mask, source ports, destination ports, flags and mask,
/// protocol and mask.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Line([u32; 8]);

impl Line {
    fn of(rule: &Rule) -> Line {
        let mask = |len: u8| u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
        let pair = |(low, high): (u16, u16)| u32::from(low) | u32::from(high) << 16;
        let (src, dst) = (mask(rule.src.1), mask(rule.dst.1));
        let (flags, proto) = (rule.flags, rule.proto);
        Line([
            rule.src.0 & src,
            src,
            rule.dst.0 & dst,
            dst,
            pair(rule.src_port),
            pair(rule.dst_port),
            pair((flags.0 & flags.1, flags.1)),
            u32::from(proto.0 & proto.1) | u32::from(proto.1) << 8,
        ])
    }
}

impl Program {
    /// IP forwarding: header check, lookup, time to live, Ethernet addresses.
    pub fn forward(forward: Forward) -> Program {
        Program { function: Function::Forward(forward.clone()), lowered: Lowered::Forward(forward) }
    }

    /// The header check alone.
    pub fn check(checksum: ChecksumCheck, ports: u16) -> Program {
        let function = Function::HeaderCheck(HeaderCheck::new(checksum, ports));
        Program { function, lowered: Lowered::Check(checksum, ports.max(1)) }
    }

    /// Route lookup alone, on a router of `ports` ports as `lookup` has it. By a Poptrie, kernels do not have it.
    pub fn lookup(lookup: Lookup, ports: u16) -> Program {
        let function = Function::Lookup(lookup.clone());
        let lowered = if lookup.tables().is_some() { Lowered::Lookup(lookup, ports.max(1)) } else { Lowered::Not };
        Program { function, lowered }
    }

    /// The time to live alone.
    pub fn ttl(ports: u16) -> Program {
        Program { function: Function::Ttl(Ttl::new(ports)), lowered: Lowered::Ttl(ports.max(1)) }
    }

    /// Classification by `rules`. By tuple space, kernels do not have it.
    ///
    /// # Errors
    /// Too many rules.
    pub fn classify(rules: &[Rule], spec: &ClassifySpec, ports: u16) -> Result<Program, RouterError> {
        let function = Function::Classify(Classify::new(rules, spec, ports)?);
        let lines = || rules.iter().map(Line::of).collect();
        let lowered = match spec.search {
            Search::Linear => Lowered::Classify(lines(), spec.drop_unmatched, ports.max(1)),
            Search::TupleSpace => Lowered::Not,
        };
        Ok(Program { function, lowered })
    }

    /// Inspection, which kernels do not have.
    pub fn inspect(inspect: Inspect) -> Program {
        Program { function: Function::Inspect(inspect), lowered: Lowered::Not }
    }

    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        self.function.name()
    }

    /// As threads run it.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// The tables, brought to where `machine` reads them.
    ///
    /// # Errors
    /// Kernels do not have the function; no memory.
    pub(crate) fn place(&self, machine: &mut impl Machine) -> Result<Tables, RouterError> {
        let none = Tables { ports: 1, entry_bytes: 4, ..Tables::default() };
        Ok(match &self.lowered {
            Lowered::Forward(forward) => {
                let tables = forward.tables();
                let (tbl24, _, entry_bytes) = raw(tables.tbl24);
                let (tbl8, tbl8_entries, _) = raw(tables.tbl8);
                Tables {
                    tbl24: machine.table("tbl24", tbl24)?,
                    tbl8: machine.table("tbl8", tbl8)?,
                    tbl24_v6: machine.table("tbl24_v6", bytes(tables.tbl24_v6))?,
                    tbl8_v6: machine.table("tbl8_v6", bytes(tables.tbl8_v6))?,
                    next_hops: machine.table("next hops", bytes(tables.adjacencies))?,
                    tbl8_entries,
                    tbl8_v6_entries: tables.tbl8_v6.len() as u64,
                    next_hop_count: tables.adjacencies.len() as u32,
                    entry_bytes,
                    software_checksum: u32::from(tables.checksum == ChecksumCheck::Software),
                    ..none
                }
            }
            Lowered::Check(checksum, ports) => Tables {
                function: 1,
                software_checksum: u32::from(*checksum == ChecksumCheck::Software),
                ports: u32::from(*ports),
                ..none
            },
            Lowered::Lookup(lookup, ports) => {
                let function = self.name();
                let [tbl24, tbl8, tbl24_v6, tbl8_v6] = lookup.tables().ok_or(RouterError::NoLowering { function })?;
                Tables {
                    function: 2,
                    tbl24: machine.table("tbl24", bytes(tbl24))?,
                    tbl8: machine.table("tbl8", bytes(tbl8))?,
                    tbl24_v6: machine.table("tbl24_v6", bytes(tbl24_v6))?,
                    tbl8_v6: machine.table("tbl8_v6", bytes(tbl8_v6))?,
                    tbl8_entries: tbl8.len() as u64,
                    tbl8_v6_entries: tbl8_v6.len() as u64,
                    ports: u32::from(*ports),
                    ..none
                }
            }
            Lowered::Ttl(ports) => Tables { function: 3, ports: u32::from(*ports), ..none },
            Lowered::Classify(rules, drop_unmatched, ports) => Tables {
                function: 4,
                rules: machine.table("rules", bytes(rules))?,
                rule_count: rules.len() as u32,
                drop_unmatched: u32::from(*drop_unmatched),
                ports: u32::from(*ports),
                ..none
            },
            Lowered::Not => return Err(RouterError::NoLowering { function: self.name() }),
        })
    }
}

fn raw(entries: Entries<'_>) -> (&[u8], u64, u32) {
    match entries {
        Entries::Narrow(entries) => (bytes(entries), entries.len() as u64, 2),
        Entries::Wide(entries) => (bytes(entries), entries.len() as u64, 4),
    }
}

/// The bytes of entries, rules or adjacencies: integers, and arrays of bytes with padding at their end, which is only
/// copied.
fn bytes<T: Copy>(of: &[T]) -> &[u8] {
    // SAFETY: the same memory for as long as it is borrowed. What is read of it is what a kernel reads: whole fields.
    unsafe { std::slice::from_raw_parts(of.as_ptr().cast(), size_of_val(of)) }
}

/// In the order of `kernels/router.h`.
const REASONS: [DropReason; 15] = [
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
];

/// What a kernel's word says; [`None`] if it says nothing that there is.
pub fn verdict_of(word: u32) -> Option<Verdict> {
    match word >> 16 {
        1 => Some(Verdict::Forward { port: PortId(word as u16) }),
        2 => REASONS.get(usize::from(word as u16)).map(|&reason| Verdict::Drop(reason)),
        _ => None,
    }
}
