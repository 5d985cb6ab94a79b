//! A packet function on its way to a kernel: its tables as they lie in memory, and verdicts as words.

use functions::{ChecksumCheck, DropReason, Entries, Forward, Verdict};
use units::PortId;

use crate::RouterError;
use crate::layout::Tables;
use crate::machine::Machine;

/// What the router does with each packet.
#[derive(Clone, Debug)]
pub enum Program {
    /// IP forwarding: header check, lookup, time to live, Ethernet addresses.
    Forward(Forward),
}

impl Program {
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Program::Forward(_) => "forward",
        }
    }

    /// The tables, brought to where `machine` reads them.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn place(&self, machine: &mut impl Machine) -> Result<Tables, RouterError> {
        let Program::Forward(forward) = self;
        let tables = forward.tables();
        let (tbl24, _, entry_bytes) = raw(tables.tbl24);
        let (tbl8, tbl8_entries, _) = raw(tables.tbl8);
        Ok(Tables {
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
            unused: 0,
        })
    }
}

fn raw(entries: Entries<'_>) -> (&[u8], u64, u32) {
    match entries {
        Entries::Narrow(entries) => (bytes(entries), entries.len() as u64, 2),
        Entries::Wide(entries) => (bytes(entries), entries.len() as u64, 4),
    }
}

/// The bytes of entries or adjacencies: integers, and arrays of bytes with padding at their end, which is only copied.
fn bytes<T: Copy>(of: &[T]) -> &[u8] {
    // SAFETY: the same memory for as long as it is borrowed. What is read of it is what a kernel reads: whole fields.
    unsafe { std::slice::from_raw_parts(of.as_ptr().cast(), size_of_val(of)) }
}

/// In the order of `kernels/router.h`.
const REASONS: [DropReason; 14] = [
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
];

/// What a kernel's word says; [`None`] if it says nothing that there is.
pub fn verdict_of(word: u32) -> Option<Verdict> {
    match word >> 16 {
        1 => Some(Verdict::Forward { port: PortId(word as u16) }),
        2 => REASONS.get(usize::from(word as u16)).map(|&reason| Verdict::Drop(reason)),
        _ => None,
    }
}
