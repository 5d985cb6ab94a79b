//! The NIC: links, rings, queues and what it holds between the wire and memory.

use std::collections::VecDeque;

use machine::memory::TargetsSpec;
use machine::nic::{Credits, DriverSpec, Mempool, PcieLink, RSS_KEY, ServerLayout, Toeplitz};
use units::{Line, Ps, Span};

use super::egress::TxBurst;
use super::elastic::Elastic;
use super::ingress::Crossing;
use super::intake::Intake;
use super::nic_memory::NicMemory;
use super::output::NicOutput;
use super::placing::{DeadPackets, PacketStarts, PlacingCounters};
use super::rings::CommonRings;
use crate::scenario::{Scenario, ScenarioError};

/// The NIC of a server, of its ports together.
#[derive(Clone)]
pub(super) struct ServerNic {
    pub(super) rss: Toeplitz,
    pub(super) queues_per_core: usize,
    pub(super) up: PcieLink,
    pub(super) credits: Credits,
    pub(super) down: PcieLink,
    pub(super) fifo_bytes: u64,
    /// Packets that cross PCIe, in order.
    pub(super) crossing: VecDeque<Crossing>,
    /// When each packet that the NIC's packet memory holds for the link will have left it, its bytes, and those that go with it for
    /// the driver, in order.
    pub(super) leaving: VecDeque<(Ps, u64, u64)>,
    pub(super) leaving_bytes: u64,
    /// How many that have crossed, the oldest, wait for credits only, and their bytes, which the NIC holds.
    pub(super) stalled: usize,
    pub(super) stalled_bytes: u64,
    /// What the NIC sends, where queues take turns.
    pub(super) output: Option<Box<NicOutput>>,
    /// Rings of empty buffers, where not each queue takes from its own alone.
    pub(super) common: Option<Box<CommonRings>>,
    /// Where what the NIC receives goes, if not the usual way.
    pub(super) targets: Option<TargetsSpec>,
    /// Packets whose lines are given up once they are dead.
    pub(super) dead: Option<Box<DeadPackets>>,
    pub(super) placing: PlacingCounters,
    /// Packets that wait in the NIC's memory for want of descriptors.
    pub(super) elastic: Option<Box<Elastic>>,
    /// Payload that stays in the NIC.
    pub(super) memory: Option<Box<NicMemory>>,
    /// Where packets begin in their mbufs.
    pub(super) starts: Option<Box<PacketStarts>>,
    /// Packets that the NIC has not taken in yet, where it takes its time for each.
    pub(super) intake: Option<Box<Intake>>,
    /// When the NIC may have the next packet to send.
    pub(super) next_read: Ps,
    pub(super) packet_interval: Ps,
    pub(super) rx_pipeline: Ps,
    pub(super) tx_pipeline: Ps,
    /// When each port is free to send.
    pub(super) port_free: Vec<Ps>,
    pub(super) batches: Vec<Option<TxBurst>>,
    pub(super) free_batches: Vec<usize>,
    /// Of the descriptors that the NIC reads.
    pub(super) lines: Vec<Line>,
    pub(super) driver: DriverSpec,
}

state::state!(ServerNic {
    values: [
        credits,
        crossing,
        leaving,
        leaving_bytes,
        stalled,
        stalled_bytes,
        common,
        dead,
        placing,
        elastic,
        memory,
        starts,
        batches,
        free_batches,
        intake,
        next_read
    ],
    arrays: [port_free],
    parts: [up, down, output],
    // What is as the scenario has it, and what is empty between two events.
    built: [rss, queues_per_core, fifo_bytes, targets, lines, driver, packet_interval, rx_pipeline, tx_pipeline],
});

impl ServerNic {
    /// Bytes of packets in the packet memory at `now`: of those that are on their way over the link, wait for it or for credits, or
    /// were not taken in yet. What else goes over the link takes time of it, and no room here.
    pub(super) fn held_bytes(&mut self, now: Ps) -> u64 {
        while let Some(&(at, bytes, _)) = self.leaving.front()
            && at <= now
        {
            self.leaving_bytes -= bytes;
            self.leaving.pop_front();
        }
        self.leaving_bytes + self.stalled_bytes + self.intake.as_ref().map_or(0, |intake| intake.bytes())
    }

    /// Bytes of packets, and of what tells of them, that have not left over the link by `now`.
    pub(super) fn still_there(&self, now: Ps) -> u64 {
        self.leaving.iter().rev().take_while(|(at, ..)| *at > now).map(|(_, bytes, told)| bytes + told).sum()
    }

    /// A packet of `bytes`, and `told` for the driver, cross the link until `at`, latency included.
    pub(super) fn leaves(&mut self, bytes: u64, told: u64, at: Ps) {
        self.leaving.push_back((at - self.up.latency(), bytes, told));
        self.leaving_bytes += bytes;
    }

    /// That of `scenario`, which takes from `pool` what is in rings that queues share.
    ///
    /// # Errors
    /// Rings that cannot be filled.
    pub(super) fn of(
        scenario: &Scenario,
        layout: &ServerLayout,
        pool: &mut Mempool,
    ) -> Result<ServerNic, ScenarioError> {
        let (cores, nic, ports) = (scenario.machine.cores as usize, &scenario.nic, usize::from(scenario.nic.ports));
        let queues = scenario.receiving_cores() * nic.queues_per_core;
        Ok(ServerNic {
            rss: Toeplitz::new(&RSS_KEY, queues as u16),
            queues_per_core: nic.queues_per_core as usize,
            up: PcieLink::new(&nic.pcie),
            credits: Credits::new(&nic.pcie),
            down: PcieLink::new(&nic.pcie),
            fifo_bytes: nic.fifo.bytes(),
            crossing: VecDeque::new(),
            leaving: VecDeque::new(),
            leaving_bytes: 0,
            stalled: 0,
            stalled_bytes: 0,
            output: nic.output_block.map(|n| Box::new(NicOutput::new(n, nic.cache_cells, cores, ports))),
            common: CommonRings::of(scenario, pool)?,
            targets: nic.targets.clone(),
            dead: DeadPackets::of(scenario),
            placing: PlacingCounters::default(),
            elastic: Elastic::of(scenario),
            memory: NicMemory::of(scenario, layout),
            starts: PacketStarts::of(scenario),
            intake: Intake::of(nic, queues).map(Box::new),
            next_read: Ps::ZERO,
            packet_interval: nic.packet_interval.map_or(Ps::ZERO, Span::ps),
            rx_pipeline: nic.rx_pipeline.map_or(Ps::ZERO, Span::ps),
            tx_pipeline: nic.tx_pipeline.map_or(Ps::ZERO, Span::ps),
            port_free: vec![Ps::ZERO; ports],
            batches: Vec::new(),
            free_batches: Vec::new(),
            lines: Vec::new(),
            driver: nic.driver.clone(),
        })
    }
}
