//! A virtual switch and a guest that copy packets to each other.

use probe::Access;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::at_least_one;
use super::cpu::{Cpus, STACK};
use sim::scenario::ScenarioError;

/// A virtual switch and a guest: CPU 0 copies packets from its buffers into the guest's (dequeued by CPU
/// 1) and those that the guest sends back into its own, as vhost does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VhostSpec {
    /// Packets to the guest; each comes back.
    pub packets: u64,
    /// Bytes of one.
    pub bytes: u64,
    /// Bytes that the guest reads of one.
    pub guest_reads: u64,
    /// Instructions of the switch for a packet, each way; assumed.
    pub switch_instructions: u64,
    /// Instructions of the guest for a packet; assumed.
    pub guest_instructions: u64,
    /// Buffers on each side, 2 KiB each.
    pub slots: u64,
    /// Whether the NIC puts packets into the shared cache.
    pub placed: bool,
}

impl Default for VhostSpec {
    fn default() -> VhostSpec {
        VhostSpec {
            packets: 20_000,
            bytes: 1_500,
            guest_reads: 64,
            switch_instructions: 150,
            guest_instructions: 100,
            slots: 256,
            placed: true,
        }
    }
}

const SLOT: u64 = 2 << 10;
const SWITCH: usize = 0;
const GUEST: usize = 1;

pub(super) fn run(spec: &VhostSpec, cpus: &mut Cpus) -> Result<u64, ScenarioError> {
    let (bytes, slots) =
        (at_least_one("workload.bytes", spec.bytes)?.min(SLOT), at_least_one("workload.slots", spec.slots)?);
    let side = slots * SLOT;
    for n in 0..spec.packets {
        let at = n % slots * SLOT;
        let (host, guest, back) = (at, side + 128 + at, 2 * side + 256 + at);
        cpus.device_write(host, bytes, spec.placed);
        cpus.execute(SWITCH, spec.switch_instructions, STACK);
        cpus.read(SWITCH, host, 64.min(bytes), 8, 1);
        let done = cpus.copy(SWITCH, host, guest, bytes);
        cpus.wait(GUEST, done.max(cpus.now(SWITCH)));
        cpus.execute(GUEST, spec.guest_instructions, STACK);
        cpus.read(GUEST, guest, spec.guest_reads.min(bytes), 8, 1);
        // It swaps the addresses and sends the packet back.
        cpus.touch(GUEST, Access::Store, guest, 8);
        cpus.execute(SWITCH, spec.switch_instructions, STACK);
        cpus.wait(SWITCH, cpus.now(GUEST));
        let done = cpus.copy(SWITCH, guest, back, bytes);
        cpus.wait(SWITCH, done);
    }
    Ok(spec.packets)
}
