//! Where time goes: each picosecond of a packet's sojourn is charged once, to what blocks its
//! oldest unfinished work, so the reasons sum exactly to the sojourn.

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Index, IndexMut, Sub};

use units::Ps;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $name:literal $family:ident $label:literal;)*) => {
        /// What a picosecond is charged to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Reason { $($(#[$doc])* $variant,)* }

        impl Reason {
            /// All reasons, in the order in which a packet meets them.
            pub const ALL: [Reason; Reason::COUNT] = [$(Reason::$variant),*];
            /// How many there are.
            pub const COUNT: usize = [$($name),*].len();

            /// The name in tables and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name),* }
            }

            /// What of the machine it belongs to.
            pub const fn family(self) -> ReasonFamily {
                match self { $(Reason::$variant => ReasonFamily::$family),* }
            }

            /// A few words for a reader who does not know the name.
            pub const fn label(self) -> &'static str {
                match self { $(Reason::$variant => $label),* }
            }
        }
    };
}

/// Parts of a machine in which packets spend their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasonFamily {
    /// The NIC, PCIe and what translates for them.
    Io,
    /// A queue, a batch or a lock.
    Wait,
    /// Instructions of a core, and what holds them up that is no memory.
    Core,
    /// A core's own caches and TLB.
    Private,
    /// What cores share on their chip, and the links to other sockets.
    Shared,
    /// DRAM and its controllers.
    Dram,
    /// A copy engine or a GPU.
    Other,
}

impl ReasonFamily {
    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            ReasonFamily::Io => "io",
            ReasonFamily::Wait => "wait",
            ReasonFamily::Core => "core",
            ReasonFamily::Private => "private",
            ReasonFamily::Shared => "shared",
            ReasonFamily::Dram => "dram",
            ReasonFamily::Other => "other",
        }
    }
}

reasons! {
    /// The NIC: its pipelines, and the wait for its packet rate and that of a queue.
    Nic "nic" Io "inside the NIC";
    /// PCIe transfer of the packet and its descriptor, both directions, as on an idle link.
    Pcie "pcie" Io "PCIe transfer";
    /// Other transfers are before it on the link, or its ring is read in order, or there are no credits for a write.
    PcieQueue "pcie_queue" Wait "waiting for PCIe";
    /// What devices write and read is in the memory system.
    DmaMemory "dma_memory" Io "DMA in LLC or DRAM";
    /// Translation of a device's addresses.
    Iommu "iommu" Io "IOMMU page walk";
    /// In the receive ring, until a core takes the packet.
    Ring "ring" Wait "waiting in the RX ring";
    /// A software queue between cores.
    Queue "queue" Wait "waiting in a software queue";
    /// In a burst, while other packets of it are worked on.
    Burst "burst" Wait "waiting for others of its burst";
    /// Instructions.
    Core "core" Core "executing instructions";
    /// A packet or a burst holds the core up whatever memory does: mispredicted branches, chains of instructions.
    Stall "stall" Core "stalled by branches and chains";
    /// Doorbells of the driver: a write that the next one, or a full store buffer, waits for.
    Doorbell "doorbell" Io "waiting for doorbells";
    /// Core waits for its L1.
    L1 "l1" Private "L1 hit";
    /// Core waits for its L2.
    L2 "l2" Private "L2 hit";
    /// Address translation.
    Tlb "tlb" Private "TLB and page walk";
    /// Hops between core and LLC slice.
    Interconnect "interconnect" Shared "on-chip interconnect";
    /// Messages and lines between sockets.
    SocketLink "socket_link" Shared "link between sockets";
    /// Another request is served by the slice.
    SliceQueue "slice_queue" Shared "queue at an LLC slice";
    /// LLC lookup.
    Llc "llc" Shared "LLC hit or lookup";
    /// Data come from another core's cache.
    Snoop "snoop" Shared "transfer from another core's cache";
    /// No free miss-status register.
    Mshr "mshr" Shared "all outstanding misses in use";
    /// The fixed way to DRAM's controller and back.
    DramPath "dram_path" Dram "way to the DRAM controller and back";
    /// The controller's queue.
    DramQueue "dram_queue" Dram "DRAM controller queue";
    /// The bank still serves another request.
    BankBusy "bank_busy" Dram "DRAM bank busy";
    /// Column access in an open row.
    RowHit "row_hit" Dram "DRAM row hit";
    /// Activate and column access.
    RowMiss "row_miss" Dram "DRAM row miss";
    /// Precharge, activate and column access.
    RowConflict "row_conflict" Dram "DRAM row conflict";
    /// The data bus carries other data.
    Bus "bus" Dram "DRAM data bus busy";
    /// The data bus turns from reads to writes or back.
    Turnaround "turnaround" Dram "DRAM bus turnaround";
    /// Refresh.
    Refresh "refresh" Dram "DRAM refresh";
    /// A copy engine works.
    Copy "copy" Other "copy engine";
    /// Another core holds the lock.
    Lock "lock" Wait "waiting for a lock";
    /// Until a batch for the GPU is full, or its time is up.
    GpuFill "gpu_fill" Wait "waiting for a GPU batch to fill";
    /// A full batch waits for its launch, and for the batches before it.
    GpuQueue "gpu_queue" Wait "waiting for the GPU";
    /// A batch is copied to the GPU, or back.
    GpuCopy "gpu_copy" Other "copy to and from the GPU";
    /// A kernel starts and works on the batch.
    Gpu "gpu" Other "kernel on the GPU";
    /// Waits for earlier packets, to leave in order.
    Commit "commit" Wait "waiting to leave in order";
    /// In the transmit ring, until the port is free.
    TxQueue "tx_queue" Wait "waiting for the TX port";
}

/// Picoseconds by [`Reason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Attribution(#[serde(with = "units::arrays")] [u64; Reason::COUNT]);

impl Default for Attribution {
    fn default() -> Self {
        Attribution([0; Reason::COUNT])
    }
}

impl Attribution {
    /// Charges `time` to `reason`.
    #[inline]
    pub fn charge(&mut self, reason: Reason, time: Ps) {
        self.0[reason as usize] += time.0;
    }

    /// The sum over all reasons.
    pub fn total(&self) -> Ps {
        Ps(self.0.iter().sum())
    }

    /// Reasons with their time, in the order of [`Reason::ALL`], zeros included.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, Ps)> + '_ {
        Reason::ALL.into_iter().zip(self.0.iter().map(|&t| Ps(t)))
    }
}

impl Index<Reason> for Attribution {
    type Output = u64;
    fn index(&self, reason: Reason) -> &u64 {
        &self.0[reason as usize]
    }
}
impl IndexMut<Reason> for Attribution {
    fn index_mut(&mut self, reason: Reason) -> &mut u64 {
        &mut self.0[reason as usize]
    }
}
impl AddAssign<&Attribution> for Attribution {
    #[inline]
    fn add_assign(&mut self, rhs: &Attribution) {
        for (a, b) in self.0.iter_mut().zip(&rhs.0) {
            *a += b;
        }
    }
}
impl Add for &Attribution {
    type Output = Attribution;
    #[inline]
    fn add(self, rhs: &Attribution) -> Attribution {
        let mut sum = *self;
        sum += rhs;
        sum
    }
}
impl Sub for Attribution {
    type Output = Attribution;
    #[inline]
    fn sub(self, rhs: Attribution) -> Attribution {
        <&Attribution as Sub>::sub(&self, &rhs)
    }
}
impl Sub for &Attribution {
    type Output = Attribution;
    /// What was charged since `rhs`, an earlier state of the same account.
    #[inline]
    fn sub(self, rhs: &Attribution) -> Attribution {
        let mut out = *self;
        for (a, b) in out.0.iter_mut().zip(&rhs.0) {
            *a -= b;
        }
        out
    }
}

/// How a single latency is made up: segments in the order in which they pass.
///
/// Where a core overlaps a latency with other work, only its tail blocks; [`Path::charge_tail`]
/// charges exactly that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    times: [u32; Path::MAX],
    /// Indices into [`Reason::ALL`].
    reasons: [u8; Path::MAX],
    len: u8,
}

impl Path {
    /// The most segments a path holds; what comes beyond is added to the last one of the same reason, or to the last.
    pub const MAX: usize = 8;

    /// A path of one segment.
    #[inline]
    pub fn of(reason: Reason, time: Ps) -> Path {
        let mut path = Path::default();
        path.push(reason, time);
        path
    }

    /// Appends a segment; zero-length ones are left out. A segment holds up to 4.29 ms; what is
    /// longer is cut to that, and the rest is charged to whatever [`Path::charge_tail`] is told.
    #[inline]
    pub fn push(&mut self, reason: Reason, time: Ps) {
        if time.0 == 0 {
            return;
        }
        let part = time.0.min(u64::from(u32::MAX)) as u32;
        let at = usize::from(self.len);
        if at < Self::MAX {
            self.times[at] = part;
            self.reasons[at] = reason as u8;
            self.len += 1;
        } else {
            let same = self.reasons.iter().rposition(|&r| r == reason as u8).unwrap_or(Self::MAX - 1);
            self.times[same] = self.times[same].saturating_add(part);
        }
    }

    /// Appends another path's segments.
    #[inline]
    pub fn extend(&mut self, other: &Path) {
        for (reason, time) in other.iter() {
            self.push(reason, time);
        }
    }

    /// How many segments there are.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The segments in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Reason, Ps)> + '_ {
        let n = usize::from(self.len);
        let reasons = self.reasons[..n].iter().map(|&r| Reason::ALL[usize::from(r)]);
        reasons.zip(self.times[..n].iter().map(|&t| Ps(u64::from(t))))
    }

    /// The whole latency.
    pub fn total(&self) -> Ps {
        self.iter().map(|(_, t)| t).sum()
    }

    /// Charges the last `blocked` picoseconds of the path to their reasons; what exceeds the path
    /// goes to `otherwise`. The charges sum to `blocked` exactly.
    #[inline]
    pub fn charge_tail(&self, mut blocked: Ps, otherwise: Reason, to: &mut Attribution) {
        for i in (0..usize::from(self.len)).rev() {
            let part = u64::from(self.times[i]).min(blocked.0);
            to.0[usize::from(self.reasons[i])] += part;
            blocked.0 -= part;
            if blocked.0 == 0 {
                return;
            }
        }
        to.charge(otherwise, blocked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_unique_snake_case() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::COUNT);
        assert!(names.iter().all(|n| n.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')));
    }

    proptest! {
        #[test]
        fn a_tail_is_charged_exactly(
            parts in prop::collection::vec((0..Reason::COUNT, 0u64..200_000_000), 0..20),
            share in 0.0f64..1.5,
        ) {
            let mut path = Path::default();
            let mut sum = Ps::ZERO;
            let parts = parts.into_iter().take(if share < 1.0 { Path::MAX } else { 20 });
            for (reason, time) in parts {
                path.push(Reason::ALL[reason], Ps(time));
                sum += Ps(time);
            }
            prop_assert_eq!(path.total(), sum);
            let blocked = Ps((sum.0 as f64 * share) as u64);
            let mut to = Attribution::default();
            path.charge_tail(blocked, Reason::Mshr, &mut to);
            prop_assert_eq!(to.total(), blocked);
        }
    }

    #[test]
    fn a_full_path_keeps_the_time_of_each_of_its_reasons() {
        let mut path = Path::default();
        for round in 1..=3 {
            for (i, reason) in Reason::ALL.into_iter().take(Path::MAX).enumerate() {
                path.push(reason, Ps(round * 100 + i as u64));
            }
        }
        let times: Vec<u64> = path.iter().map(|(_, time)| time.0).collect();
        assert_eq!(times, (0..Path::MAX as u64).map(|i| 600 + 3 * i).collect::<Vec<u64>>());
    }
}
