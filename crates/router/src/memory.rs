//! The shared packet memory: what takes the place of copies between host and device.
//!
//! The paper's `RMalloc` and `RFree` are [`rmalloc`] and [`rfree`]: memory that host and kernel both see. Its `packetIdx`, the
//! only index that a kernel needs once there are no thread blocks, is a packet's number here, and `packet_idx` in
//! `kernels/functions.h`.
//!
//! Source: Zhu, Deng, Chen, DAC 2011, section 3.3.

use std::ptr::NonNull;

use functions::fragment::{assemble, part_bytes};
use packet::{L3, Packet};

use crate::layout::{Descriptor, FRAME_OFFSET, PacketRegion, SLOT_MARGIN};
use crate::machine::KernelMachine;
use crate::program::is_cut;
use crate::{RouterError, RouterProgram};

/// Memory that the host and a device see, each by its own address.
#[derive(Clone, Copy, Debug)]
pub struct SharedMemory {
    /// As the host sees it.
    pub host: NonNull<u8>,
    /// As the device sees it.
    pub device: u64,
    /// How long it is.
    pub bytes: usize,
}

// SAFETY: an address; who uses it follows the protocol of the ring that it belongs to.
unsafe impl Send for SharedMemory {}

/// Zeroed memory for packets or rings, seen by host and device: `RMalloc`.
///
/// # Errors
/// No memory.
pub fn rmalloc(machine: &mut impl KernelMachine, what: &str, bytes: usize) -> Result<SharedMemory, RouterError> {
    machine.packets(what, bytes)
}

/// Gives back what [`rmalloc`] gave: `RFree`.
///
/// # Safety
/// Neither host nor device uses it any more.
pub unsafe fn rfree(machine: &mut impl KernelMachine, memory: SharedMemory) {
    // SAFETY: as the caller promises.
    unsafe { machine.release(memory) }
}

/// Packets in shared memory: number `n` in slot `n` modulo the number of slots.
#[derive(Debug)]
pub(crate) struct PacketMemory {
    pub(crate) descriptors: SharedMemory,
    pub(crate) slots: SharedMemory,
    pub(crate) verdicts: SharedMemory,
    pub(crate) classes: SharedMemory,
    /// Of fragmentation: what fragments are put together from, and bytes of a slot's part of it.
    parts: Option<(SharedMemory, usize)>,
    pub(crate) count: u64,
    pub(crate) stride: usize,
    /// Packets of whose frames only a part had room, where a verdict depends on all of it.
    pub(crate) cut: u64,
    writes: bool,
    classifies: bool,
    payloads: bool,
}

impl PacketMemory {
    /// `count` slots, a power of two, each for frames of up to `frame_bytes`; of longer ones the first part.
    pub(crate) fn new(
        machine: &mut impl KernelMachine,
        program: &RouterProgram,
        count: u64,
        frame_bytes: usize,
    ) -> Result<PacketMemory, RouterError> {
        if !count.is_power_of_two() || count > 1 << 31 {
            let allowed = "must be a power of two, up to 2^31";
            return Err(RouterError::Setting { what: "slots", came: count.to_string(), allowed });
        }
        let stride = (frame_bytes.clamp(64, 1 << 16) + SLOT_MARGIN).next_multiple_of(64);
        let slots = count as usize;
        let parts = match program.mtu().map(part_bytes) {
            Some(bytes) => Some((rmalloc(machine, "parts of fragments", slots * bytes)?, bytes)),
            None => None,
        };
        Ok(PacketMemory {
            parts,
            descriptors: rmalloc(machine, "packet descriptors", slots * size_of::<Descriptor>())?,
            slots: rmalloc(machine, "packet memory", slots * stride)?,
            verdicts: rmalloc(machine, "verdicts", slots * 4)?,
            classes: rmalloc(machine, "classes", slots * 4)?,
            count,
            stride,
            cut: 0,
            writes: program.writes(),
            classifies: program.classifies(),
            payloads: program.reads_payloads(),
        })
    }

    /// Carries the packets from `first` on to the device, where it has a copy of its own.
    pub(crate) fn upload(&self, machine: &mut impl KernelMachine, first: u64, count: u64) -> Result<(), RouterError> {
        for (place, count) in self.ranges(first, count) {
            let bytes = size_of::<Descriptor>();
            machine.upload(&self.descriptors, place * bytes, count * bytes)?;
            machine.upload(&self.slots, place * self.stride, count * self.stride)?;
        }
        Ok(())
    }

    /// Carries them, and their verdicts, back.
    pub(crate) fn download(&self, machine: &mut impl KernelMachine, first: u64, count: u64) -> Result<(), RouterError> {
        for (place, count) in self.ranges(first, count) {
            for (memory, bytes) in self.results() {
                machine.download(memory, place * bytes, count * bytes)?;
            }
        }
        Ok(())
    }

    /// What comes back, with its bytes a packet: verdicts; packets if they are changed, classes if they get one, what
    /// fragments are put together from if they are cut.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&SharedMemory, usize)> {
        let all =
            [(true, &self.verdicts, 4), (self.writes, &self.slots, self.stride), (self.classifies, &self.classes, 4)];
        let parts = self.parts.iter().map(|(memory, bytes)| (memory, *bytes));
        all.into_iter().filter(|&(comes, ..)| comes).map(|(_, memory, bytes)| (memory, bytes)).chain(parts)
    }

    /// Places that follow each other: two runs where the packets go over the end.
    pub(crate) fn ranges(&self, first: u64, count: u64) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (place, count, slots) = (self.place(first), count as usize, self.count as usize);
        let before_the_end = count.min(slots - place);
        [(place, before_the_end), (0, count - before_the_end)].into_iter().filter(|&(_, count)| count > 0)
    }

    pub(crate) fn place(&self, number: u64) -> usize {
        (number & (self.count - 1)) as usize
    }

    /// As kernels see it.
    pub(crate) fn layout(&self) -> PacketRegion {
        PacketRegion {
            descriptors: self.descriptors.device,
            slots: self.slots.device,
            verdicts: self.verdicts.device,
            classes: self.classes.device,
            parts: self.parts.as_ref().map_or(0, |(memory, _)| memory.device),
            mask: (self.count - 1) as u32,
            stride: self.stride as u32,
            part_bytes: self.parts.as_ref().map_or(0, |&(_, bytes)| bytes as u32),
            unused: 0,
        }
    }

    /// The class of packet `number`, where a classifier has been.
    ///
    /// # Safety
    /// The packet was committed.
    pub(crate) unsafe fn class(&self, number: u64) -> Option<u32> {
        // SAFETY: within the memory.
        let class = unsafe { self.classes.host.as_ptr().cast::<u32>().add(self.place(number)).read() };
        (class != u32::MAX).then_some(class)
    }

    /// Bytes of a frame that a slot holds.
    pub(crate) fn room(&self) -> usize {
        self.stride - SLOT_MARGIN
    }

    /// Writes packet `number` as a NIC would.
    ///
    /// # Safety
    /// No kernel works on the slot.
    pub(crate) unsafe fn put(&mut self, number: u64, packet: &Packet) {
        let place = self.place(number);
        let kept = packet.data.len().min(self.room()).min(usize::from(u16::MAX));
        let descriptor = describe(packet, kept);
        self.cut += u64::from(self.payloads && kept < packet.data.len());
        // SAFETY: the slot and the descriptor lie within their memory, and nobody else uses them, as the caller promises.
        unsafe {
            let slot = self.slots.host.as_ptr().add(place * self.stride + FRAME_OFFSET);
            std::ptr::copy_nonoverlapping(packet.data.as_ptr(), slot, kept);
            self.descriptors.host.as_ptr().cast::<Descriptor>().add(place).write(descriptor);
            self.verdicts.host.as_ptr().cast::<u32>().add(place).write(0);
        }
    }

    /// The verdict on packet `number`, whose changed bytes go into `packet`, which [`PacketMemory::put`] was given. If it was
    /// cut, the packet becomes its first fragment, and `fragments` has the others.
    ///
    /// # Safety
    /// The packet was committed.
    pub(crate) unsafe fn take(&self, number: u64, packet: &mut Packet, fragments: &mut Fragments) -> u32 {
        // SAFETY: as the caller promises.
        let word = unsafe { self.back(number, packet) };
        fragments.made = 0;
        if is_cut(word)
            && let Some((parts, bytes)) = &self.parts
        {
            // SAFETY: the packet's buffer, which belongs to the host as the slot does, and is aligned to 64 bytes.
            let parts = unsafe {
                let at = parts.host.as_ptr().add(self.place(number) * bytes);
                std::slice::from_raw_parts(at.cast::<u32>(), bytes / 4)
            };
            let Some(made) = assemble(packet, parts, &mut fragments.packets, 0) else {
                // No verdict is this: whoever asked says that the protocol is broken.
                return 0;
            };
            fragments.made = made;
        }
        word
    }

    unsafe fn back(&self, number: u64, packet: &mut Packet) -> u32 {
        let place = self.place(number);
        let kept = packet.data.len().min(self.room()).min(usize::from(u16::MAX));
        // SAFETY: as for `put`.
        unsafe {
            let slot = self.slots.host.as_ptr().add(place * self.stride + FRAME_OFFSET);
            std::ptr::copy_nonoverlapping(slot, packet.data.as_mut_ptr(), kept);
            self.verdict(number)
        }
    }

    /// The verdict on packet `number`.
    ///
    /// # Safety
    /// The packet was committed.
    pub(crate) unsafe fn verdict(&self, number: u64) -> u32 {
        // SAFETY: within the memory.
        unsafe { self.verdicts.host.as_ptr().cast::<u32>().add(self.place(number)).read() }
    }
}

/// Of the packet that was taken last: its fragments after the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    /// Those behind `made` are kept for their memory.
    packets: Vec<Packet>,
    made: usize,
}

impl Fragments {
    pub(crate) fn all(&self) -> &[Packet] {
        &self.packets[..self.made]
    }
}

/// What a NIC tells of `packet`, of which `kept` bytes are in memory.
pub(crate) fn describe(packet: &Packet, kept: usize) -> Descriptor {
    let ethertype = packet.data.get(12..14).map_or([0; 2], |bytes| [bytes[0], bytes[1]]);
    Descriptor {
        frame_bytes: packet.frame_bytes,
        captured: kept as u16,
        l3_offset: packet.l3_offset,
        // An Ethernet header and tags of four bytes: anything else is not what `Packet::parse` finds.
        l3: match packet.l3 {
            L3::V4 if packet.l3_offset % 4 == 2 => 4,
            L3::V6 if packet.l3_offset % 4 == 2 => 6,
            _ => 0,
        },
        ethertype: u16::from_ne_bytes(ethertype),
        port: u32::from(packet.port.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Twin;

    #[test]
    fn shared_memory_is_zeroed_aligned_and_the_same_for_both_until_it_is_given_back() {
        let mut machine = Twin::new(1);
        let memory = rmalloc(&mut machine, "packets", 10_000).unwrap();
        assert_eq!((memory.host.as_ptr() as u64 % 4096, memory.bytes), (0, 10_000));
        assert_eq!(memory.device, memory.host.as_ptr() as u64);
        // SAFETY: memory of that length, which nobody else uses.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.host.as_ptr(), memory.bytes) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        bytes.fill(7);
        // SAFETY: nobody uses it any more.
        unsafe { rfree(&mut machine, memory) };
    }

    #[test]
    fn slots_are_a_power_of_two_and_ranges_go_over_their_end() {
        let mut machine = Twin::new(1);
        assert!(PacketMemory::new(&mut machine, &RouterProgram::ttl(1), 100, 64).is_err());
        let memory = PacketMemory::new(&mut machine, &RouterProgram::ttl(1), 128, 64).unwrap();
        assert_eq!((memory.stride, memory.room()), (128, 78));
        assert_eq!(memory.ranges(120, 8).collect::<Vec<_>>(), [(120, 8)]);
        assert_eq!(memory.ranges(128 + 120, 20).collect::<Vec<_>>(), [(120, 8), (0, 12)]);
    }
}
