//! A copy of each packet into a guest's buffers, before it is forwarded.
//!
//! **Computes** what a software switch does for a packet that a virtual machine is to have as well (a port
//! mirror, or a vhost-user port whose guest gets everything): it takes the next free buffer of the guest,
//! copies the frame into it and tells the guest its length. Bytes are really copied. Forwarding follows.
//!
//! **References per packet**, besides forwarding's: 2 mbuf loads and 1 load of the guest's descriptor (16
//! bytes), a copy of the frame (a load and a store for each line of 64 bytes, where no copy engine takes
//! it), 1 store of the used entry (8 bytes); with `reads` a load for each line that the guest reads. With `zero_copy` a store
//! of the descriptor, which then points at the packet, in place of the copy, and the guest reads the packet itself.
//!
//! **Regions**: the guest's buffers, its descriptors (16 bytes a buffer) and its used entries (8), shared by
//! the cores.
//!
//! Left out: notifications of the guest, address translation of its buffers, chains of descriptors, and
//! the guest's own core: what the guest reads is read by the core that has copied it. Instructions are assumed,
//! not counted: they stand for moves of 32 bytes and the ring's work, and a copy engine saves none of them.
//!
//! **Source**: OASIS Virtual I/O Device (VIRTIO) 1.2, 2.7 (split virtqueues) and 5.1.6 (virtio-net); order of
//! the steps as in DPDK `lib/vhost/virtio_net.c`.

use std::ops::Range;

use packet::Packet;
use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, PortId, Ps, Size};

use crate::check::mbuf;
use crate::{Forward, FunctionError, PacketFunction, Verdict};

/// Behind those of forwarding.
const BUFFERS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 8);
const DESCRIPTORS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 9);
const USED: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 10);

const DESCRIPTOR_BYTES: u64 = 16;
const USED_BYTES: u64 = 8;
/// The largest frame that is copied: of longer ones the rest is left out.
const MOST_BYTES: u64 = 16 << 10;

/// Places of references, in program order.
mod site {
    pub(super) const DESCRIPTOR: u16 = 0;
    pub(super) const BUF_ADDR: u16 = 1;
    pub(super) const DATA_OFF: u16 = 2;
    pub(super) const COPY_FROM: u16 = 3;
    pub(super) const COPY_TO: u16 = 4;
    pub(super) const USED: u16 = 5;
    pub(super) const GUEST: u16 = 6;
    pub(super) const LATCH: u16 = 7;
}

/// Instructions, assumed: see the module header.
mod cost {
    pub(super) const PACKET: u32 = 50;
    /// Two loads and two stores of 32 bytes, and the loop's two.
    pub(super) const COPIED_LINE: u32 = 6;
    pub(super) const READ_LINE: u32 = 4;
}

/// How packets are copied into a guest's buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CopySpec {
    /// Buffers of the guest, used in turn; 1 to 1048576.
    pub buffers: u32,
    /// Bytes of a buffer: a multiple of 64, from 128 B to 16 KiB. What does not fit is left out.
    pub buffer: Size,
    /// Bytes of a buffer before the packet, below its size. 64 is a line of its own for the header, so that
    /// lines of the packet and of the buffer are aligned alike, which a copy table needs; virtio-net's
    /// header alone is 12.
    pub offset: u32,
    /// Bytes of each packet that the guest reads; 0 for none.
    pub reads: u32,
    /// Whether the guest gets the address of the packet in place of a copy, as where the NIC writes into the guest's memory. It
    /// is done with the packet before the packet is sent on.
    pub zero_copy: bool,
}

impl Default for CopySpec {
    fn default() -> CopySpec {
        CopySpec { buffers: 1024, buffer: Size::from_bytes(2048), offset: 64, reads: 0, zero_copy: false }
    }
}

impl CopySpec {
    /// Checks the ranges. `path` is where the specification stands in the scenario.
    ///
    /// # Errors
    /// A value outside its range.
    pub fn check(&self, path: &str) -> Result<(), FunctionError> {
        let error = |field: &str, came: String, allowed: String| {
            Err(FunctionError::Value { path: format!("{path}.{field}"), came, allowed })
        };
        let bytes = self.buffer.bytes();
        if !(1..=1 << 20).contains(&self.buffers) {
            return error("buffers", self.buffers.to_string(), "allowed are 1 to 1048576".into());
        }
        if !(128..=MOST_BYTES).contains(&bytes) || !bytes.is_multiple_of(LINE_BYTES) {
            let allowed = "allowed is a multiple of 64 B from 128 B to 16 KiB".into();
            return error("buffer", self.buffer.to_string(), allowed);
        }
        if u64::from(self.offset) >= bytes {
            return error("offset", self.offset.to_string(), format!("allowed is less than the buffer's {bytes} B"));
        }
        Ok(())
    }
}

/// Copies into a guest's buffers, then forwards. See the module header.
#[derive(Clone, Debug)]
pub struct Vhost {
    forward: Forward,
    spec: CopySpec,
    /// The buffers, one after the other.
    guest: Vec<u8>,
    next: u64,
}

state::state!(Vhost { values: [next], arrays: [guest], parts: [], built: [forward, spec] });

impl Vhost {
    /// Copies as `spec` has it before `forward`.
    ///
    /// # Errors
    /// A value of `spec` outside its range.
    pub fn new(spec: &CopySpec, forward: Forward) -> Result<Vhost, FunctionError> {
        spec.check("function.copy")?;
        let guest = vec![0; spec.buffers as usize * spec.buffer.bytes() as usize];
        Ok(Vhost { forward, spec: spec.clone(), guest, next: 0 })
    }

    /// Part 0 copies and lets all packets pass, part 1 forwards.
    pub(crate) fn process_part<P: Probe>(
        &mut self,
        parts: Range<usize>,
        now: Ps,
        burst: &mut [Packet],
        probe: &mut P,
        out: &mut Vec<Verdict>,
    ) {
        if parts.contains(&0) {
            for packet in burst.iter() {
                self.copy(packet, probe);
            }
        }
        if parts.contains(&1) {
            self.forward.process_burst(now, burst, probe, out);
        } else {
            out.extend(burst.iter().map(|_| Verdict::Forward { port: PortId(0) }));
        }
    }

    /// The regions of the parts from `first` on.
    pub(crate) fn regions_from(&self, first: usize) -> Vec<RegionSpec> {
        if first == 0 { self.regions() } else { self.forward.regions() }
    }

    /// The bytes of buffer `index` from the packet on.
    pub fn buffer(&self, index: u64) -> &[u8] {
        let bytes = self.spec.buffer.bytes() as usize;
        let at = (index % u64::from(self.spec.buffers)) as usize * bytes;
        &self.guest[at + self.spec.offset as usize..at + bytes]
    }

    fn copy<P: Probe>(&mut self, packet: &Packet, probe: &mut P) {
        let slot = self.next % u64::from(self.spec.buffers);
        self.next += 1;
        let start = slot * self.spec.buffer.bytes() + u64::from(self.spec.offset);
        let room = self.spec.buffer.bytes() - u64::from(self.spec.offset);
        let bytes = u64::from(packet.frame_bytes).min(room);
        // A capture may have kept less than the frame.
        let kept = if self.spec.zero_copy { 0 } else { packet.data.len().min(bytes as usize) };
        self.guest[start as usize..start as usize + kept].copy_from_slice(&packet.data[..kept]);

        probe.begin(packet.id);
        probe.touch(Ref::load(DESCRIPTORS, slot * DESCRIPTOR_BYTES, DESCRIPTOR_BYTES as u16, site::DESCRIPTOR));
        probe.touch(Ref::load(RegionId::MBUF, mbuf::BUF_ADDR, 8, site::BUF_ADDR));
        probe.touch(Ref::load(RegionId::MBUF, mbuf::DATA_OFF, 2, site::DATA_OFF));
        let lines = |bytes: u64| bytes.div_ceil(LINE_BYTES) as u32;
        let zero_copy = self.spec.zero_copy;
        if zero_copy {
            probe.touch(
                Ref::store(DESCRIPTORS, slot * DESCRIPTOR_BYTES, DESCRIPTOR_BYTES as u16, site::COPY_TO).after(2),
            );
        } else {
            probe.copy(
                Ref::load(RegionId::PACKET, 0, bytes as u16, site::COPY_FROM),
                Ref::store(BUFFERS, start, bytes as u16, site::COPY_TO),
            );
        }
        probe.touch(Ref::store(USED, slot * USED_BYTES, USED_BYTES as u16, site::USED));
        let read = u64::from(self.spec.reads).min(bytes);
        let (region, start) = if zero_copy { (RegionId::PACKET, 0) } else { (BUFFERS, start) };
        let mut at = start;
        while at < start + read {
            let next = ((at / LINE_BYTES + 1) * LINE_BYTES).min(start + read);
            probe.touch(Ref::load(region, at, (next - at) as u16, site::GUEST));
            at = next;
        }
        let copied = if zero_copy { 0 } else { lines(bytes) };
        let instructions = cost::PACKET + cost::COPIED_LINE * copied + cost::READ_LINE * lines(read);
        probe.work(site::GUEST, instructions);
        probe.end(packet.id);
        probe.latch(site::LATCH);
    }
}

impl PacketFunction for Vhost {
    fn name(&self) -> &'static str {
        "vhost"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        let buffers = u64::from(self.spec.buffers);
        let region = |id, name: &str, bytes| RegionSpec { id, name: name.into(), bytes, sharing: Sharing::Shared };
        let mut regions = self.forward.regions();
        regions.push(region(BUFFERS, "guest buffers", buffers * self.spec.buffer.bytes()));
        regions.push(region(DESCRIPTORS, "guest descriptors", buffers * DESCRIPTOR_BYTES));
        regions.push(region(USED, "guest used entries", buffers * USED_BYTES));
        regions
    }

    fn process_burst<P: Probe>(&mut self, now: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        self.process_part(0..2, now, burst, probe, out);
    }
}
