//! What host and kernel both know, as `kernels/router.h` has it: words, rings, and the structures that cross the border.
//!
//! Addresses are numbers here: they may be a device's.

use std::fmt;

/// Tasks that may be uncommitted: the entries of the task FIFO and of the DCQ.
pub const RING_ENTRIES: u64 = 1024;
/// Lanes of a warp: packets of a task.
pub const WARP_LANES: u32 = 32;
/// Where a frame begins in its slot, so that the IP header behind an Ethernet header is aligned to 32 bytes.
pub const FRAME_OFFSET: usize = 18;
/// A slot's bytes that are not the frame's: the offset, and what aligned loads of 16 bytes may read beyond a header.
pub const SLOT_MARGIN: usize = FRAME_OFFSET + 32;

/// Bits of a packet's number in a task's word.
pub const FIRST_BITS: u32 = 40;
/// Bits of the count.
pub const COUNT_BITS: u32 = 8;

pub(crate) const STATE_TICKET: usize = 0;
pub(crate) const STATE_HEAD: usize = 16;
pub(crate) const STATE_DONE: usize = 48;
pub(crate) const STATE_WORDS: usize = 112;
/// Of an entry of the ring of published tasks: the task, and tasks after which to stop.
pub(crate) const ENTRY_WORDS: usize = 2;
pub(crate) const CONTROL_STOP: usize = 0;
pub(crate) const CONTROL_BEAT: usize = 16;
pub(crate) const CONTROL_WORDS: usize = 32;
pub(crate) const STATUS_HEAD: usize = 0;
pub(crate) const STATUS_LEFT: usize = 16;
pub(crate) const STATUS_PLACE: usize = 17;
pub(crate) const STATUS_ROUNDS: usize = 18;
pub(crate) const STATUS_MOVES: usize = 32;
pub(crate) const STATUS_WORDS: usize = 48;
/// Of what the kernel that measures the bus writes: ns of all rounds of each part, and whether they are there.
pub(crate) const LINK_PARTS: usize = 7;
pub(crate) const LINK_DONE: usize = 7;
pub(crate) const LINK_WORDS: usize = 9;
pub(crate) const NEVER: u64 = u64::MAX;

/// What a task's word says: generation 16 | count 8 | first 40.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The number of the first packet, modulo 2^40.
    pub first: u64,
    /// How many packets.
    pub count: u32,
}

/// The generation of entry `number` of a ring of `entries`: how often it was used up to then, modulo 2^16.
#[inline]
pub const fn generation_of(number: u64, entries: u64) -> u64 {
    (number / entries + 1) & 0xffff
}

/// The word of a task.
#[inline]
pub const fn make_word(generation: u64, task: Task) -> u64 {
    generation << (FIRST_BITS + COUNT_BITS)
        | ((task.count & 0xff) as u64) << FIRST_BITS
        | task.first & ((1 << FIRST_BITS) - 1)
}

/// The generation of a word.
#[inline]
pub const fn word_generation(word: u64) -> u64 {
    word >> (FIRST_BITS + COUNT_BITS)
}

/// The task of a word.
#[inline]
pub const fn word_task(word: u64) -> Task {
    Task { first: word & ((1 << FIRST_BITS) - 1), count: (word >> FIRST_BITS) as u32 & 0xff }
}

/// What an entry of a ring holds before its first use, when the ring's first number is `base`: a word of the lap before.
pub(crate) const fn unused_word(place: u64, base: u64, entries: u64) -> u64 {
    let first = base - base % entries + place;
    let first = if first < base { first + entries } else { first };
    make_word(generation_of(first, entries).wrapping_sub(1) & 0xffff, Task { first: 0, count: 0 })
}

/// Why a kernel has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelExit {
    /// It was asked to.
    Asked,
    /// It did not hear of the host for longer than its deadline.
    HostSilent,
    /// Its workers did not hear of the dispatcher.
    DispatcherSilent,
    /// The host posted over tasks that were not committed.
    Overrun,
    /// A number that nobody knows.
    Unknown(u64),
}

impl KernelExit {
    pub(crate) fn of(word: u64) -> Option<KernelExit> {
        Some(match word {
            0 => return None,
            1 => KernelExit::Asked,
            2 => KernelExit::HostSilent,
            3 => KernelExit::DispatcherSilent,
            4 => KernelExit::Overrun,
            other => KernelExit::Unknown(other),
        })
    }
}

impl fmt::Display for KernelExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelExit::Asked => f.write_str("it was asked to"),
            KernelExit::HostSilent => f.write_str("it heard nothing of the host within its deadline"),
            KernelExit::DispatcherSilent => {
                f.write_str("its workers heard nothing of its dispatcher within their deadline")
            }
            KernelExit::Overrun => f.write_str("the task FIFO was written over uncommitted tasks"),
            KernelExit::Unknown(word) => write!(f, "status {word}"),
        }
    }
}

/// What a NIC tells of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Descriptor {
    /// Bytes on the wire, without FCS.
    pub frame_bytes: u32,
    /// Bytes of the frame that are in the slot.
    pub captured: u16,
    /// Where the network header starts.
    pub l3_offset: u16,
    /// 4, 6, or 0 for neither.
    pub l3: u16,
    /// Bytes 12 and 13 of the frame as they lie in memory.
    pub ethertype: u16,
    /// The port it came in by.
    pub port: u32,
}

/// The shared packet memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PacketRegion {
    /// [`Descriptor`]s.
    pub descriptors: u64,
    /// Slots.
    pub slots: u64,
    /// A word a packet.
    pub verdicts: u64,
    /// A word a packet: of the latest classifier a rule's number, of the latest inspection the first pattern found; or all
    /// ones.
    pub classes: u64,
    /// Of fragmentation: a buffer for each slot, as [`functions::fragment::assemble`] reads it.
    pub parts: u64,
    /// Slots less 1; their number is a power of two.
    pub mask: u32,
    /// Bytes of a slot, a multiple of 64.
    pub stride: u32,
    /// Bytes of a slot's buffer, a multiple of 64.
    pub part_bytes: u32,
    /// Nothing.
    pub unused: u32,
}

/// A function's tables.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct KernelTables {
    /// tbl24 of IPv4.
    pub tbl24: u64,
    /// tbl8 of IPv4.
    pub tbl8: u64,
    /// tbl24 of IPv6.
    pub tbl24_v6: u64,
    /// tbl8 of IPv6.
    pub tbl8_v6: u64,
    /// Next hops, 16 bytes each.
    pub next_hops: u64,
    /// Entries of tbl8.
    pub tbl8_entries: u64,
    /// Entries of tbl8_v6.
    pub tbl8_v6_entries: u64,
    /// How many next hops.
    pub next_hop_count: u32,
    /// Bytes of an IPv4 entry.
    pub entry_bytes: u32,
    /// Whether the function sums IPv4 headers.
    pub software_checksum: u32,
    /// Which function.
    pub function: u32,
    /// Rules, 32 bytes each; of a tuple space its tuples, 32 bytes each.
    pub rules: u64,
    /// How many of them.
    pub rule_count: u32,
    /// Whether packets that no rule matches are dropped; for an inspection, packets with a pattern.
    pub drop_unmatched: u32,
    /// Ports of the router.
    pub ports: u32,
    /// Bytes of a payload that are inspected.
    pub depth: u32,
    /// Of a tuple space or of windows: the first entry of each, or all ones.
    pub buckets: u64,
    /// Of a tuple space 64 bytes each, of windows 32.
    pub entries: u64,
    /// Buckets of windows less 1.
    pub bucket_mask: u32,
    /// Lengths of windows.
    pub length_count: u32,
    /// The patterns' bytes, and 8 more.
    pub text: u64,
    /// Of an automaton: 256 states.
    pub root: u64,
    /// Of an automaton, 16 bytes each; of windows their filters.
    pub states: u64,
    /// Of an automaton, 64 bytes each; of windows their lengths, 16 bytes each.
    pub wide: u64,
    /// Of an automaton, 12 bytes each.
    pub outputs: u64,
    /// Of an automaton, 12 bytes each.
    pub lists: u64,
    /// Of a Poptrie for IPv4, whose direct table is `tbl24` and whose nodes, 24 bytes each, are `tbl8`.
    pub leaves: u64,
    /// Of a Poptrie for IPv6.
    pub leaves_v6: u64,
    /// Of fragmentation.
    pub mtu: u32,
    /// Nothing.
    pub unused: u32,
}

/// Members of a chain that kernels take.
pub const MOST_MEMBERS: usize = 6;
/// Where the regions of tables of a chain's member are, behind those of the member before.
pub const REGIONS_A_MEMBER: u16 = 16;

/// One function, or a chain of them: what kernels are given.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Members {
    /// How many.
    pub count: u32,
    /// A bit for each that chooses a port.
    pub routes: u32,
    /// Their tables.
    pub member: [KernelTables; MOST_MEMBERS],
}

/// What of packets was gathered: `kernels/gather.h` says which words.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GatheredRegion {
    /// Records of IPv4.
    pub v4: u64,
    /// Records of IPv6.
    pub v6: u64,
    /// Results, those of IPv4 first.
    pub results: u64,
    /// Records of IPv4.
    pub count_v4: u32,
    /// Records of IPv6.
    pub count_v6: u32,
}

/// Everything the persistent kernel is given.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Router {
    /// The functions.
    pub program: Members,
    /// The packets.
    pub packets: PacketRegion,
    /// The task FIFO, in host memory.
    pub fifo: u64,
    /// What the host tells, in host memory.
    pub control: u64,
    /// What the kernel tells, in host memory.
    pub status: u64,
    /// Commits, in host memory.
    pub commits: u64,
    /// The ring of published tasks, in device memory.
    pub tasks: u64,
    /// The DCQ in device memory.
    pub done: u64,
    /// Counters, in device memory.
    pub state: u64,
    /// The number of the first task.
    pub base: u64,
    /// How long the kernel waits for signs of life.
    pub deadline_ns: u64,
    /// Warps, the dispatcher included.
    pub warps: u32,
    /// A [`Commit`](crate::Commit) as a number.
    pub commit: u32,
    /// Of 32 words that a round of the dispatcher reads at least: 1, 2 or 4.
    pub least_parts: u32,
    /// And at most.
    pub most_parts: u32,
}

/// What the kernel that measures the bus is given: `kernels/link.h` says what it does.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LinkProbe {
    /// Words of a task FIFO, in host memory.
    pub fifo: u64,
    /// The count that the host writes, in host memory.
    pub asked: u64,
    /// Where it comes back, in host memory.
    pub answered: u64,
    /// What was measured, in host memory.
    pub times: u64,
    /// A ring of published tasks, in device memory.
    pub tasks: u64,
    /// How long the kernel waits for the next count.
    pub deadline_ns: u64,
    /// Rounds of each part.
    pub rounds: u32,
    /// Counts that come back.
    pub echoes: u32,
}

/// A reference that the host's build of the kernel has recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Touch {
    /// The packet's number.
    pub packet: u64,
    /// Bytes from the start of the region.
    pub offset: u64,
    /// As [`probe::RegionId`] numbers it.
    pub region: u16,
    /// How many bytes.
    pub bytes: u16,
    /// 0 for a load, 1 for a store.
    pub access: u32,
}

/// Where references are recorded.
#[derive(Debug)]
#[repr(C)]
pub struct TraceBuffer {
    pub(crate) touches: *mut Touch,
    pub(crate) capacity: u64,
    pub(crate) count: u64,
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::machine::twin_layout;

    #[test]
    fn both_sides_have_the_same_layout() {
        let ours = [
            size_of::<Descriptor>(),
            size_of::<PacketRegion>(),
            size_of::<KernelTables>(),
            size_of::<Router>(),
            offset_of!(Router, fifo),
            offset_of!(Router, base),
            offset_of!(Router, commit),
            offset_of!(KernelTables, entry_bytes),
            size_of::<Touch>(),
            RING_ENTRIES as usize,
            STATE_WORDS,
            CONTROL_WORDS,
            STATUS_WORDS,
            size_of::<Members>(),
            offset_of!(Members, member),
            offset_of!(KernelTables, lists),
            usize::from(REGIONS_A_MEMBER),
            offset_of!(PacketRegion, parts),
            offset_of!(PacketRegion, part_bytes),
            offset_of!(KernelTables, leaves),
            offset_of!(KernelTables, mtu),
            FRAME_OFFSET,
            ENTRY_WORDS,
            size_of::<GatheredRegion>(),
            offset_of!(GatheredRegion, count_v6),
            offset_of!(Router, least_parts),
            size_of::<LinkProbe>(),
            offset_of!(LinkProbe, rounds),
            LINK_WORDS,
        ];
        for (which, ours) in ours.into_iter().enumerate() {
            assert_eq!(twin_layout(which as u32) as usize, ours, "item {which}");
        }
    }

    #[test]
    fn words_hold_generation_count_and_first() {
        for (generation, count, first) in [(0, 0, 0), (0xffff, 32, (1 << 40) - 1), (1, 1, 0x12_3456_789a)] {
            let word = make_word(generation, Task { first, count });
            assert_eq!((word_generation(word), word_task(word)), (generation, Task { first, count }));
        }
        assert_eq!(word_task(make_word(3, Task { first: 1 << 40 | 5, count: 7 })).first, 5);
    }

    #[test]
    fn an_unused_entry_is_of_the_lap_before_its_first() {
        for base in [0, 1, 1023, 1024, 1500, 65_535 * 1024, 65_535 * 1024 + 7, 65_536 * 1024] {
            for number in base..base + RING_ENTRIES {
                let word = unused_word(number % RING_ENTRIES, base, RING_ENTRIES);
                let behind = generation_of(number, RING_ENTRIES).wrapping_sub(word_generation(word)) & 0xffff;
                assert_eq!(behind, 1, "number {number} from {base}");
            }
        }
    }
}
