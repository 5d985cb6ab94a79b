//! A core of the server: where it takes packets from, its burst, and what it counts.

use std::collections::VecDeque;

use engine::Seed;
use functions::Verdict;
use machine::cores::Core;
use machine::nic::{Doorbells, Mempool, Received, RxQueues, SoftQueue, TxQueue};
use packet::Packet;
use stats::{Attribution, Reason};
use units::{CoreId, PortId, Ps};

use super::gpu::{BackFromGpu, CommitOrder, GpuTask};
use super::stalls::SystemStalls;
use super::{CoreCounters, Loss, PacketFate};
use crate::scenario::clos::{RX_CLASS, WORK_CLASS, held, of_core};
use crate::scenario::{Scenario, ScenarioError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum CoreState {
    /// Polls since this time; an event is scheduled only if a packet is there.
    Polling(Ps),
    /// A poll that will find a packet is scheduled.
    Waking,
    /// No packet is there, and none can come: a poll that looks for mbufs is scheduled.
    Starving,
    Running,
    /// The burst is replayed and its end is scheduled.
    Finishing,
}

/// Where a core takes packets from.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) enum CoreInput {
    Nic(RxQueues),
    /// What a receiving core has handed over, and its queue.
    Queue(SoftQueue, VecDeque<Handed>),
}

/// A packet that a receiving core has handed over at `visible`.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Handed {
    pub(super) received: Received,
    /// What the time from its arrival until it was handed over was spent on.
    pub(super) before: Box<Attribution>,
}

impl CoreInput {
    /// When the oldest packet became visible.
    pub(super) fn oldest(&self) -> Option<Ps> {
        match self {
            CoreInput::Nic(rx) => rx.oldest(),
            CoreInput::Queue(_, handed) => handed.front().map(|h| h.received.visible),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        match self {
            CoreInput::Nic(rx) => rx.waiting(),
            CoreInput::Queue(_, handed) => handed.len(),
        }
    }

    /// What the packets that wait have waited by `now`, summed.
    pub(super) fn waited(&self, now: Ps) -> Ps {
        match self {
            CoreInput::Nic(rx) => rx.waited(now),
            CoreInput::Queue(_, handed) => handed.iter().map(|h| now.since(h.received.visible)).sum(),
        }
    }
}

#[derive(Clone)]
pub(super) struct ServerCore {
    pub(super) core: Core,
    pub(super) input: CoreInput,
    /// A transmit queue a port.
    pub(super) tx: Vec<TxQueue>,
    pub(super) state: CoreState,
    /// The latest time at which a packet became visible: descriptors complete in order.
    pub(super) latest_visible: Ps,
    pub(super) started: Ps,
    pub(super) in_burst: Vec<InBurst>,
    pub(super) packets: Vec<Packet>,
    /// Packets that the GPU has worked on, in order.
    pub(super) returned: VecDeque<BackFromGpu>,
    /// Those that leave in order, where some are not back.
    pub(super) commit: CommitOrder,
    /// Until when it launches batches.
    pub(super) busy_until: Ps,
    /// Batches whose time was up while it worked on its burst.
    pub(super) to_launch: u32,
    /// Of its burst's time, what it launched batches in, which is counted where they are launched.
    pub(super) launching: Ps,
    /// Of its burst's time, what packets and burst stall it for, whatever memory does.
    pub(super) stalling: Ps,
    /// When the NIC began to read the packets of its latest batch.
    pub(super) read_from: Ps,
    /// Mbufs that its burst gives up, each with its packet.
    pub(super) dead: Vec<(u32, u64)>,
    /// Its doorbells, and those of its burst: see [`ServerCore::will_ring`].
    pub(super) bells: Doorbells,
    pub(super) to_ring: ToRing,
    /// What they take, and the stalls of its burst; what it waits for buffers to be unmapped is in it, too.
    pub(super) ringing: Ps,
    /// What it waits for buffers to be unmapped.
    pub(super) unmapping: Ps,
    /// What the system takes from it.
    pub(super) system: Option<Box<SystemStalls>>,
    /// Its burst was replayed the functional way.
    pub(super) at_once: bool,
    /// Its burst has been in detail since it began.
    pub(super) in_detail: bool,
    /// Instructions before its burst.
    pub(super) before: u64,
    pub(super) counters: CoreCounters,
}

impl ServerCore {
    /// When the oldest packet became visible that it has to take.
    pub(super) fn oldest(&self) -> Option<Ps> {
        let back = self.returned.front().map(|back| back.received.visible);
        self.input.oldest().into_iter().chain(back).min()
    }

    pub(super) fn is_in_burst(&self) -> bool {
        matches!(self.state, CoreState::Running | CoreState::Finishing)
    }

    /// The packets of its burst that are sent.
    pub(super) fn sent(&self) -> impl Iterator<Item = &Packet> + Clone {
        let is_sent = |entry: &InBurst| matches!(entry.next, NextStop::Ends(PacketFate::Sent(_)));
        self.packets.iter().zip(&self.in_burst).filter(move |(_, entry)| is_sent(entry)).map(|(packet, _)| packet)
    }

    /// Notes and counts what its burst rings, which hands over `runs` of packets one by one, or all at once: a doorbell for its receive
    /// queue, where that was refilled, and for what it sends one of each port that something goes to, or of each run. How many they are.
    pub(super) fn will_ring(&mut self, runs: Option<u32>) -> u64 {
        let refilled = matches!(&self.input, CoreInput::Nic(rx) if rx.rings());
        let ports = self.in_burst.iter().fold(0u64, |ports, entry| match entry.next {
            NextStop::Ends(PacketFate::Sent(PortId(port))) => ports | 1 << port,
            _ => ports,
        });
        let ports = ports.count_ones();
        let sent = runs.map_or(ports, |runs| if ports > 0 { runs } else { 0 });
        let doorbells = u64::from(refilled) + u64::from(sent);
        self.counters.doorbells += doorbells;
        self.to_ring = ToRing { refilled, sent, one_by_one: runs.is_some() };
        doorbells
    }
}

/// The doorbells of a burst.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct ToRing {
    /// Whether one is for its receive queue.
    pub(super) refilled: bool,
    /// How many are for what it sends.
    pub(super) sent: u32,
    /// Whether these are rung one by one in the course of the burst, and not at its end.
    pub(super) one_by_one: bool,
}

impl ServerCore {
    /// Its burst begins at `now` and stalls it so long, once it has launched what it launches.
    pub(super) fn begin_at(&mut self, now: Ps, stalls: Ps) {
        self.launching = self.busy_until.since(now);
        self.stalling = stalls;
        self.ringing = stalls + self.launching;
    }

    /// Charges what its burst took beside its replay: launches are work of the core's own, and what is none of the others is doorbells.
    pub(super) fn charge_ringing(&self, to: &mut Attribution) {
        let known = self.stalling + self.launching + self.unmapping;
        to.charge(Reason::Core, self.launching);
        to.charge(Reason::Stall, self.stalling);
        to.charge(Reason::Iommu, self.unmapping);
        to.charge(Reason::Doorbell, self.ringing.since(known));
    }

    /// Its burst is replayed at `at`; when its doorbells are rung and its stalls are over. That of the receive queue is rung
    /// in the middle of the burst, which that is taken to be, and those of what it sends at the end, or each after its part of the
    /// burst.
    pub(super) fn rung(&mut self, at: Ps) -> Ps {
        let to_ring = std::mem::take(&mut self.to_ring);
        let (replayed, instructions) = (at + self.ringing + self.unmapping, self.core.instructions() - self.before);
        let took = replayed.since(self.started);
        // In parts of the burst: the receive queue's is rung at the end of one.
        let parts = if to_ring.one_by_one { u64::from(to_ring.sent.max(2)) } else { 2 };
        let mut end = self.started;
        for part in 1..=parts {
            let until = |part| took.0 * part / parts;
            let work = Ps(until(part) - until(part - 1));
            end = self.bells.work(end, end + work, instructions * part / parts - instructions * (part - 1) / parts);
            if to_ring.refilled && part == parts.div_ceil(2) {
                end = self.bells.ring(end);
            }
            // Of one run the only part that has a doorbell is the last.
            if to_ring.one_by_one && part + u64::from(to_ring.sent) > parts {
                end = self.bells.ring(end);
            }
        }
        for _ in 0..if to_ring.one_by_one { 0 } else { to_ring.sent } {
            end = self.bells.ring(end);
        }
        self.ringing = end - at;
        end
    }
}

state::state!(ServerCore {
    values: [
        input,
        tx,
        state,
        latest_visible,
        started,
        in_burst,
        packets,
        returned,
        commit,
        busy_until,
        to_launch,
        launching,
        stalling,
        read_from,
        dead,
        bells,
        to_ring,
        ringing,
        unmapping,
        system,
        at_once,
        in_detail,
        before
    ],
    arrays: [],
    parts: [core, counters],
    built: [],
});

/// A packet of the burst that a core works on.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct InBurst {
    pub(super) arrival: Ps,
    pub(super) frame_bytes: u32,
    pub(super) dma_memory: Ps,
    pub(super) in_nic: Ps,
    pub(super) translated: Ps,
    pub(super) crossing: Ps,
    pub(super) visible: Ps,
    /// What became of a packet before this core had it.
    pub(super) before: Option<Box<Attribution>>,
    pub(super) next: NextStop,
    pub(super) mbuf: u32,
    /// What goes to the GPU with it.
    pub(super) task: Option<Box<GpuTask>>,
}

impl InBurst {
    /// One that a core has just taken, which has no place in a transmit ring yet.
    pub(super) fn of(received: &Received, before: Option<Box<Attribution>>) -> InBurst {
        InBurst {
            arrival: received.packet.arrival,
            frame_bytes: received.packet.frame_bytes,
            dma_memory: received.dma_memory,
            in_nic: received.in_nic,
            translated: received.translated,
            crossing: received.crossing,
            visible: received.visible,
            before,
            next: NextStop::Ends(PacketFate::Lost(Loss::NoTxDescriptor)),
            mbuf: received.mbuf,
            task: None,
        }
    }

    /// What its time up to the end of its burst was spent on; `replayed` is that of the burst, which began at `started`.
    pub(super) fn spent(&self, replayed: Attribution, started: Ps) -> Attribution {
        let mut attribution = replayed;
        let waited = started - self.visible;
        match &self.before {
            Some(before) => {
                attribution += before;
                attribution.charge(Reason::Queue, waited);
            }
            None => {
                let elsewhere = self.in_nic + self.dma_memory + self.translated;
                attribution.charge(Reason::Nic, self.in_nic);
                let on_link = self.visible - self.arrival - elsewhere;
                attribution.charge(Reason::Pcie, self.crossing);
                attribution.charge(Reason::PcieQueue, on_link - self.crossing);
                attribution.charge(Reason::DmaMemory, self.dma_memory);
                attribution.charge(Reason::Iommu, self.translated);
                attribution.charge(Reason::Ring, waited);
            }
        }
        attribution
    }
}

/// Where a packet goes from its burst.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(super) enum NextStop {
    Ends(PacketFate),
    /// To this core.
    Worker(usize),
    /// To the GPU.
    Gpu,
    /// Nowhere before earlier packets that the GPU has; then as this says.
    Held(Verdict),
}

impl ServerCore {
    /// Those of `scenario`; receive queues take their mbufs from `pool`.
    pub(super) fn of_all(
        scenario: &Scenario,
        pool: &mut Mempool,
        poll: Ps,
        seed: Seed,
    ) -> Result<Vec<ServerCore>, ScenarioError> {
        let (m, nic) = (&scenario.machine, &scenario.nic);
        // Polls of different cores are not in step.
        let mut phases = seed.stream("machine.core.poll_phase");
        let receiving = scenario.receiving_core();
        let mut all = Vec::with_capacity(m.cores as usize);
        for i in 0..m.cores as u16 {
            let (spec, usual) =
                if u32::from(i) < scenario.receiving_cores() { (&receiving, RX_CLASS) } else { (&m.core, WORK_CLASS) };
            let clos = of_core(&m.clos, i.into()).unwrap_or(usual);
            let mut core = Core::new(&held(&m.clos, clos, spec), CoreId(i), "machine.core")?;
            let input = match &scenario.pipeline {
                Some(pipeline) if u32::from(i) >= pipeline.rx_cores => {
                    CoreInput::Queue(SoftQueue::new(pipeline, u32::from(i)), VecDeque::new())
                }
                _ => {
                    let Some(rx) = RxQueues::new(nic, scenario.mempool.stride(), CoreId(i), pool) else {
                        return Err(scenario.pool_too_small());
                    };
                    CoreInput::Nic(rx)
                }
            };
            core.set_clos(clos);
            let phase = Ps(rand::RngExt::random_range(&mut phases, 0..poll.0.max(1)));
            all.push(ServerCore {
                core,
                input,
                tx: (0..nic.ports).map(|port| TxQueue::new(nic, port)).collect(),
                state: CoreState::Polling(phase),
                latest_visible: Ps::ZERO,
                started: Ps::ZERO,
                in_burst: Vec::new(),
                packets: Vec::new(),
                returned: VecDeque::new(),
                commit: VecDeque::new(),
                busy_until: Ps::ZERO,
                to_launch: 0,
                launching: Ps::ZERO,
                stalling: Ps::ZERO,
                read_from: Ps::ZERO,
                dead: Vec::new(),
                bells: Doorbells::new(nic, &m.core),
                to_ring: ToRing::default(),
                ringing: Ps::ZERO,
                unmapping: Ps::ZERO,
                system: m.core.stalls.as_ref().map(|stalls| {
                    Box::new(SystemStalls::new(stalls, seed.stream(&format!("machine.core.stalls.{i}"))))
                }),
                at_once: false,
                in_detail: true,
                before: 0,
                counters: CoreCounters::default(),
            });
        }
        Ok(all)
    }
}
