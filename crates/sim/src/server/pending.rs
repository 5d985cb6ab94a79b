//! The server over memory that answers later: which wake-ups are due, and what goes on when a device's transaction is
//! answered.
//!
//! Answers become known at an event of their own, ahead of their time, and a core that can act on one sooner than it
//! meant to is woken. Packets reach their ring in the order of their descriptors, and leave a transmit queue in its
//! order, whatever their transactions take.

use std::collections::VecDeque;

use machine::cores::CoreStep;
use machine::memory::{MemoryReply, Transaction};
use machine::nic::Received;
use units::{PortId, Ps};

use super::cores::{CoreInput, CoreState};
use super::egress::{HandedOver, Leaving};
use super::functional::Device;
use super::gpu::CopyWay;
use super::lives::LifeStage;
use super::output::Block;
use super::{DepartureObserver, PRIORITY_CORE, PRIORITY_NIC, Server, ServerEvent};

/// Built for a machine whose memory has controllers.
#[derive(Clone, Debug)]
pub(super) struct PendingIo {
    /// When memory has its next turn; [`Ps::MAX`] if no event is scheduled for it.
    due: Ps,
    answers: Vec<MemoryReply>,
    /// By transaction.
    then: Vec<Then>,
    cores: Vec<WakeTurn>,
    /// Of each core, packets that are being written, in order.
    writing: Vec<VecDeque<Writing>>,
    /// Of each core and port, packets that are being read, in order.
    reading: Vec<VecDeque<PendingRead>>,
    ports: usize,
    /// Packets wait for credits whose return is not known.
    out_of_credits: bool,
}

state::state!(PendingIo {
    values: [due, then, cores, writing, reading, out_of_credits],
    arrays: [],
    parts: [],
    built: [answers, ports],
});

/// What a transaction's answer is for.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
enum Then {
    Nothing,
    /// A packet of this core's receive queue.
    Received(usize),
    /// The descriptors of this batch, asked for at the first time; they have crossed PCIe at the second.
    Descriptors(usize, Ps, Ps),
    /// A packet of this core and port.
    Sent(usize, PortId),
    /// A block of one.
    Block(Block),
    /// Lines that the GPU's copy engine moves this way, with what their translation takes.
    Copied(CopyWay, Ps),
    /// A piece of this block of this storage device, with what its translation takes.
    Stored(usize, u32, Ps),
}

/// When a core is woken.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct WakeTurn {
    /// An event for an earlier version is out of date.
    version: u32,
    at: Ps,
    /// Whether it replays, and not waits for a lock.
    replays: bool,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Writing {
    received: Received,
    bytes: u64,
    since: Ps,
    /// Under way, or when it is written.
    state: Result<Ps, Transaction>,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct PendingRead {
    packet: Leaving,
    batch: HandedOver,
    /// When it has crossed PCIe, what memory takes apart.
    crossed: Ps,
    since: Ps,
    state: Result<Ps, Transaction>,
}

impl PendingIo {
    pub(super) fn new(cores: usize, ports: usize) -> PendingIo {
        PendingIo {
            due: Ps::MAX,
            answers: Vec::new(),
            then: Vec::new(),
            cores: vec![WakeTurn { version: 0, at: Ps::MAX, replays: false }; cores],
            writing: (0..cores).map(|_| VecDeque::new()).collect(),
            reading: (0..cores * ports).map(|_| VecDeque::new()).collect(),
            ports,
            out_of_credits: false,
        }
    }

    fn expect(&mut self, transaction: Transaction, then: Then) {
        let at = transaction.0 as usize;
        if self.then.len() <= at {
            self.then.resize(at + 1, Then::Nothing);
        }
        self.then[at] = then;
    }
}

impl Server {
    /// Sees to it that memory has its turn in time.
    #[inline]
    pub(super) fn call_memory(&mut self) {
        if let Some(pending) = &mut self.pending
            && let Some(at) = self.memory.next()
            && at < pending.due
        {
            pending.due = at;
            self.engine.schedule(at.max(self.engine.now()), PRIORITY_NIC, ServerEvent::Memory);
        }
    }

    /// Memory's turn: answers become known.
    pub(super) fn memory_turn(&mut self, observer: &mut impl DepartureObserver) {
        let now = self.engine.now();
        let Some(pending) = &mut self.pending else { return };
        if now < pending.due {
            // It has had its turn in the meantime.
            return;
        }
        pending.due = Ps::MAX;
        let mut answers = std::mem::take(&mut pending.answers);
        self.memory.advance(now, &mut answers);
        // Memory gives the number of one that is answered to the next that begins, which may be while others are told here.
        let expected = |answer: &MemoryReply| match answer {
            MemoryReply::Device(transaction, _) => {
                std::mem::replace(&mut pending.then[transaction.0 as usize], Then::Nothing)
            }
            MemoryReply::Core(..) => Then::Nothing,
        };
        let thens: Vec<Then> = answers.iter().map(expected).collect();
        for (answer, then) in answers.drain(..).zip(thens) {
            match answer {
                MemoryReply::Core(core, ticket, response) => {
                    let i = usize::from(core.0);
                    if let Some(neighbour) = i.checked_sub(self.cores.len()).and_then(|k| self.neighbours.get_mut(k)) {
                        if neighbour.answered(ticket, &response) {
                            let (at, k) = (response.at.max(now), i - self.cores.len());
                            self.engine.schedule(at, PRIORITY_CORE, ServerEvent::Neighbour(k));
                        }
                        continue;
                    }
                    if i >= self.cores.len() {
                        self.answer_gpu(ticket, response.at);
                        continue;
                    }
                    self.write_answer(core, ticket, &response);
                    self.cores[i].core.complete(ticket, &response);
                    if self.cores[i].state == CoreState::Running {
                        self.wake_replay(i, response.at);
                    }
                }
                MemoryReply::Device(transaction, at) => self.answered(transaction, then, at, observer),
            }
        }
        if let Some(pending) = &mut self.pending {
            pending.answers = answers;
        }
    }

    /// Core `i` goes on with its replay at `at`, or sooner if it has meant to.
    fn wake_replay(&mut self, i: usize, at: Ps) {
        let Some(pending) = &mut self.pending else { return };
        let turn = &mut pending.cores[i];
        if turn.replays && at < turn.at {
            let at = at.max(self.engine.now());
            turn.version = turn.version.wrapping_add(1);
            turn.at = at;
            self.engine.schedule(at, PRIORITY_CORE, ServerEvent::Replay(i, turn.version));
        }
    }

    /// Core `i` has come back from its replay with `step`; says whether it waits for its turn.
    pub(super) fn waits(&mut self, i: usize, step: CoreStep) -> bool {
        let Some(pending) = &mut self.pending else { return false };
        let turn = &mut pending.cores[i];
        turn.version = turn.version.wrapping_add(1);
        turn.at = Ps::MAX;
        turn.replays = matches!(step, CoreStep::At(_) | CoreStep::Wait);
        if let CoreStep::At(at) = step {
            self.wake_replay(i, at);
        }
        matches!(step, CoreStep::At(_) | CoreStep::Wait)
    }

    /// The turn of core `i` that was given as `version`.
    pub(super) fn replay_turn(&mut self, i: usize, version: u32) {
        let is_valid = self.pending.as_ref().is_some_and(|p| p.cores[i].version == version && p.cores[i].replays);
        if is_valid && self.cores[i].state == CoreState::Running {
            self.step(i);
        }
    }

    /// A packet of core `i`'s receive queue is written at `state`, or by that transaction: when it is visible, if that
    /// is known now.
    pub(super) fn written(
        &mut self,
        i: usize,
        received: Received,
        bytes: u64,
        state: Result<Ps, Transaction>,
    ) -> Option<Ps> {
        let now = self.engine.now();
        let Some(pending) = &mut self.pending else {
            return state.ok().map(|at| self.visible(i, received, now, at));
        };
        if let Err(transaction) = state {
            pending.expect(transaction, Then::Received(i));
        } else if pending.writing[i].is_empty() {
            return state.ok().map(|at| self.visible(i, received, now, at));
        }
        pending.writing[i].push_back(Writing { received, bytes, since: now, state });
        None
    }

    /// The descriptors of batch `slot` are read at `state`, or by that transaction; on PCIe they take until `crossed`.
    pub(super) fn descriptors_read(&mut self, slot: usize, crossed: Ps, state: Result<Ps, Transaction>) {
        let now = self.engine.now();
        match (state, &mut self.pending) {
            (Err(transaction), Some(pending)) => pending.expect(transaction, Then::Descriptors(slot, now, crossed)),
            (state, _) => self.ask_for_packets(slot, now, crossed, state.unwrap_or(now)),
        }
    }

    fn ask_for_packets(&mut self, slot: usize, since: Ps, crossed: Ps, at: Ps) {
        let Some(batch) = &mut self.nic.batches[slot] else { return };
        let waited = self.coarse.device(Device::Descriptors, at.since(since) + batch.translated);
        batch.in_memory = batch.in_memory.max(waited);
        // The NIC reads a ring in order: a later burst does not overtake one whose descriptors took longer.
        let latest = &mut self.cores[batch.core].read_from;
        let there = (crossed + batch.in_memory + self.nic.down.latency()).max(*latest);
        *latest = there;
        self.engine.schedule(there.max(self.engine.now()), PRIORITY_NIC, ServerEvent::ReadPackets(slot));
    }

    /// `packet` is read from memory at `state`, or by that transaction.
    pub(super) fn read(
        &mut self,
        packet: Leaving,
        batch: HandedOver,
        crossed: Ps,
        state: Result<Ps, Transaction>,
        observer: &mut impl DepartureObserver,
    ) {
        let now = self.engine.now();
        let Some(pending) = &mut self.pending else {
            return self.send(packet, batch, crossed, state.unwrap_or(now) - now, observer);
        };
        let queue = batch.core * pending.ports + usize::from(packet.port.0);
        match state {
            Ok(at) if pending.reading[queue].is_empty() => self.send(packet, batch, crossed, at - now, observer),
            state => {
                if let Err(transaction) = state {
                    pending.expect(transaction, Then::Sent(batch.core, packet.port));
                }
                pending.reading[queue].push_back(PendingRead { packet, batch, crossed, since: now, state });
            }
        }
    }

    /// What the GPU's copy engine has asked for since memory's transaction was opened ends that, and its lines take `translated` more
    /// for their translation: how many copies that are answered later this makes.
    pub(super) fn close_copy(&mut self, way: CopyWay, translated: Ps) -> u32 {
        match (self.memory.close(self.engine.now()), &mut self.pending) {
            (Err(transaction), Some(pending)) => {
                pending.expect(transaction, Then::Copied(way, translated));
                1
            }
            _ => 0,
        }
    }

    /// The answer to `transaction` is that of a piece of `block` of a storage device, whose translation takes `translated` more.
    pub(super) fn expect_stored(&mut self, transaction: Transaction, device: usize, block: u32, translated: Ps) {
        if let Some(pending) = &mut self.pending {
            pending.expect(transaction, Then::Stored(device, block, translated));
        }
    }

    /// Nobody waits for the answer to `transaction`.
    pub(super) fn expect_nothing(&mut self, transaction: Transaction) {
        if let Some(pending) = &mut self.pending {
            pending.expect(transaction, Then::Nothing);
        }
    }

    /// The answer to `transaction` is that of a block.
    pub(super) fn expect_block(&mut self, transaction: Transaction, block: Block) {
        if let Some(pending) = &mut self.pending {
            pending.expect(transaction, Then::Block(block));
        }
    }

    /// There are no credits before `at`; if that is not known, a write that ends calls again.
    pub(super) fn wait_for_credits(&mut self, at: Ps) {
        match &mut self.pending {
            Some(pending) if at == Ps::MAX => pending.out_of_credits = true,
            _ => self.engine.schedule(at, PRIORITY_NIC, ServerEvent::Credits),
        }
    }

    fn answered(&mut self, transaction: Transaction, then: Then, at: Ps, observer: &mut impl DepartureObserver) {
        let Some(pending) = &mut self.pending else { return };
        match then {
            Then::Nothing => {}
            Then::Descriptors(slot, since, crossed) => self.ask_for_packets(slot, since, crossed, at),
            Then::Block(block) => self.block_read(block, at, observer),
            Then::Stored(device, block, translated) => self.stored_later(device, block, at + translated),
            Then::Copied(way, translated) => self.copied(way, at + translated),
            Then::Received(i) => {
                for writing in pending.writing[i].iter_mut().filter(|w| w.state == Err(transaction)) {
                    writing.state = Ok(at);
                }
                while let Some(pending) = &mut self.pending
                    && let Some(Writing { state: Ok(_), .. }) = pending.writing[i].front()
                    && let Some(Writing { received, bytes, since, state: Ok(at) }) = pending.writing[i].pop_front()
                {
                    let retry = std::mem::take(&mut pending.out_of_credits);
                    // A write that was held up may be known to be done only now.
                    let visible = self.visible(i, received, since, at.max(self.engine.now()));
                    self.nic.credits.give_back_later(bytes, visible);
                    if retry {
                        self.engine.schedule(visible, PRIORITY_NIC, ServerEvent::Credits);
                    }
                }
            }
            Then::Sent(core, port) => {
                let queue = core * pending.ports + usize::from(port.0);
                for reading in pending.reading[queue].iter_mut().filter(|r| r.state == Err(transaction)) {
                    reading.state = Ok(at);
                }
                while let Some(pending) = &mut self.pending
                    && let Some(PendingRead { state: Ok(_), .. }) = pending.reading[queue].front()
                    && let Some(reading) = pending.reading[queue].pop_front()
                    && let PendingRead { packet, batch, crossed, since, state: Ok(at) } = reading
                {
                    self.send(packet, batch, crossed, at - since, observer);
                }
            }
        }
    }

    /// A packet is in memory at `written`, asked for at `since`: when the core may see it.
    pub(super) fn visible(&mut self, i: usize, mut received: Received, since: Ps, written: Ps) -> Ps {
        if let Some(lives) = &mut self.lives {
            lives.goes_on(received.packet.id, LifeStage::Credits, since);
        }
        let worker = &mut self.cores[i];
        // A write that was under way when time was left may have taken longer than the mean.
        let waited = self.coarse.device(Device::Write, written - since + received.translated);
        let written = (since + waited).max(self.engine.now());
        let visible = written.max(worker.latest_visible);
        worker.latest_visible = visible;
        received.translated = received.translated.min(visible - since);
        received.dma_memory = visible - since - received.translated;
        received.visible = visible;
        if let Some(lives) = &mut self.lives {
            lives.goes_on(received.packet.id, LifeStage::MemoryWrite, visible);
        }
        if let CoreInput::Nic(rx) = &mut worker.input {
            rx.complete(received);
        }
        self.wake(i, visible);
        visible
    }
}
