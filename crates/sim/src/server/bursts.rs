//! What a core does: it polls, takes a burst, runs the function, replays what that touched, and hands on what leaves.

use std::collections::VecDeque;

use functions::{Function, PacketFunction, Verdict};
use machine::cores::{BurstPacket, CoreStep};
use machine::nic::{Received, choose_worker};
use packet::Packet;
use stats::Attribution;
use units::{PortId, Ps};

use super::control_plane::count_burst;
use super::cores::{CoreInput, CoreState, Handed, InBurst, NextStop, ServerCore};
use super::egress::Leaving;
use super::gpu::{BackFromGpu, GpuPacket, ServerGpu, WayOfBurst};
use super::{DepartureObserver, Loss, PRIORITY_CORE, PacketFate, Server, ServerEvent, placing, spread, unsent};

impl Server {
    /// A packet is visible to core `i` at `visible`: if it polls in vain it will find it.
    pub(super) fn wake(&mut self, i: usize, visible: Ps) {
        let worker = &mut self.cores[i];
        if let CoreState::Polling(since) = worker.state {
            worker.state = CoreState::Waking;
            self.engine.schedule(next_poll(since, self.poll, visible), PRIORITY_CORE, ServerEvent::Core(i));
        }
    }

    pub(super) fn core(&mut self, i: usize, observer: &mut impl DepartureObserver) {
        match self.cores[i].state {
            CoreState::Waking | CoreState::Polling(_) => self.start_burst(i),
            CoreState::Starving if self.can_refill(i) || !self.cores[i].returned.is_empty() => self.start_burst(i),
            CoreState::Starving => self.rest(i),
            CoreState::Finishing => self.finish_burst(i, observer),
            CoreState::Running => self.step(i),
        }
    }

    /// Takes a burst, does what is to be done with it, and begins to replay that.
    pub(super) fn start_burst(&mut self, i: usize) {
        let now = self.engine.now();
        let worker = &mut self.cores[i];
        if let Some(until) = worker.system.as_mut().and_then(|system| system.until(now)) {
            worker.state = CoreState::Waking;
            self.engine.schedule(until, PRIORITY_CORE, ServerEvent::Core(i));
            return;
        }
        worker.core.script().clear();
        worker.packets.clear();
        worker.in_burst.clear();
        let back = worker.returned.iter().take(self.burst).take_while(|back| back.received.visible <= now).count();
        self.verdicts.clear();
        match &mut worker.input {
            _ if back > 0 => {
                ServerGpu::call(worker.core.script());
                for back in worker.returned.drain(..back) {
                    let BackFromGpu { received, frame_bytes, before, verdict, slot } = back;
                    if let Some(gpu) = &self.gpu {
                        gpu.take_back(received.packet.id, slot, worker.core.script());
                    }
                    worker.in_burst.push(InBurst { frame_bytes, ..InBurst::of(&received, Some(before)) });
                    worker.packets.push(received.packet);
                    self.verdicts.push(verdict);
                }
            }
            CoreInput::Nic(rx) => {
                rx.receive(now, self.burst, &mut self.received, worker.core.script());
                for received in self.received.drain(..) {
                    worker.counters.waited += now.since(received.visible);
                    worker.in_burst.push(InBurst::of(&received, None));
                    worker.packets.push(received.packet);
                }
            }
            CoreInput::Queue(queue, handed) => {
                let n = handed.iter().take(self.burst).take_while(|h| h.received.visible <= now).count();
                queue.take(n, worker.core.script());
                for Handed { received, before } in handed.drain(..n) {
                    worker.counters.waited += now.since(received.visible);
                    worker.in_burst.push(InBurst::of(&received, Some(before)));
                    worker.packets.push(received.packet);
                }
            }
        }
        let mut freed = std::mem::take(&mut self.freed);
        match self.pipeline {
            _ if back > 0 => self.conclude(i, now, &mut freed),
            Some(_) if i < self.receiving => self.hand_over(i, &mut freed),
            _ => self.process(i, now, &mut freed),
        }
        let worker = &mut self.cores[i];
        let id = worker.core.id();
        let script = worker.core.script();
        if !freed.is_empty() {
            self.pool.put_bulk(id, &freed, script);
        }
        self.drop_dead(i, &freed, now);
        freed.clear();
        self.freed = freed;
        let unmapping = self.map_buffers(i, now);
        let worker = &mut self.cores[i];
        worker.unmapping = unmapping;
        let script = worker.core.script();
        if let CoreInput::Nic(rx) = &mut worker.input {
            let shared = self.nic.common.as_mut().and_then(|common| common.shared_mut());
            worker.counters.rx_nombuf += rx.refill(id, &mut self.pool, shared, script) as u64;
        }
        if let Some(parts) = self.instruction_parts {
            script.scale(parts);
        }
        if let Some(lines) = self.statistics.filter(|_| !worker.packets.is_empty()) {
            count_burst(i, lines, script);
        }
        worker.counters.packets += if back > 0 { 0 } else { worker.packets.len() as u64 };
        worker.counters.bursts += u64::from(back == 0);
        let doorbells = worker.will_ring(self.function.runs(worker.sent()));
        self.nic.down.ring(now, doorbells);
        worker.begin_at(now, self.core_spec.stalls(worker.packets.len()));
        worker.started = now;
        worker.before = worker.core.instructions();
        worker.in_detail = !self.coarse.on;
        self.lay_out(i, now);
        if self.coarse.on {
            self.replay_at_once(i);
        } else {
            self.cores[i].state = CoreState::Running;
            self.step(i);
        }
    }

    /// Core `i` begins its burst with its packets where they lie.
    pub(super) fn lay_out(&mut self, i: usize, now: Ps) {
        let worker = &mut self.cores[i];
        let (layout, starts) = (&self.layout, self.nic.starts.as_deref());
        let scattered = self.scattered.as_deref();
        let cells = worker.core.cells();
        cells.clear();
        if let Some(scattered) = scattered {
            worker.in_burst.iter().for_each(|entry| cells.extend(scattered.lines_of(entry.mbuf)));
        }
        let nic_memory = self.nic.memory.as_deref();
        if let Some(memory) = nic_memory {
            for entry in &worker.in_burst {
                memory.cells(entry.mbuf, placing::data(layout, starts, entry.mbuf), cells);
            }
        }
        let places = worker.packets.iter().zip(&worker.in_burst).map(|(packet, entry)| BurstPacket {
            id: packet.id,
            mbuf: layout.mbuf(entry.mbuf),
            data: placing::data(layout, starts, entry.mbuf),
            cells: match (scattered, nic_memory) {
                (Some(scattered), _) => scattered.lines_of(entry.mbuf).len() as u32,
                (None, Some(memory)) => memory.count(entry.mbuf),
                (None, None) => 0,
            },
        });
        worker.core.start(places, now);
    }

    /// Runs the function on the burst of core `i` and sends what leaves. `freed` gets the mbufs of what does not.
    pub(super) fn process(&mut self, i: usize, now: Ps, freed: &mut Vec<u32>) {
        let (own, is_held) = if self.gpu.is_some() { self.offload(i, now) } else { (usize::MAX, false) };
        let worker = &mut self.cores[i];
        let id = worker.core.id();
        let script = worker.core.script();
        self.verdicts.clear();
        self.function.on_core(usize::from(id.0));
        let own = own.min(worker.packets.len());
        let held = if is_held { worker.packets.len() - own } else { 0 };
        self.function.process_burst(now, &mut worker.packets[..own + held], script, &mut self.verdicts);
        lengthen(&self.function, &mut worker.packets);
        for (entry, verdict) in worker.in_burst[own..].iter_mut().zip(self.verdicts.drain(own..)) {
            entry.next = NextStop::Held(verdict);
        }
        self.conclude(i, now, freed);
    }

    /// Puts the packets of the burst of core `i` whose flows go to the GPU behind the others, and hands them over: how many are left
    /// for the core, and whether it is to work on those behind as well and to hold them.
    pub(super) fn offload(&mut self, i: usize, now: Ps) -> (usize, bool) {
        let Some(gpu) = &mut self.gpu else { return (usize::MAX, false) };
        let worker = &mut self.cores[i];
        let waiting = worker.input.waiting() + worker.packets.len();
        let way = gpu.way(waiting, !worker.commit.is_empty());
        if way == WayOfBurst::Core {
            return (usize::MAX, false);
        }
        let (packets, entries) = (std::mem::take(&mut worker.packets), std::mem::take(&mut worker.in_burst));
        let (theirs, own): (Vec<_>, Vec<_>) =
            packets.into_iter().zip(entries).partition(|(packet, _)| gpu.wants(packet));
        let count = own.len();
        (worker.packets, worker.in_burst) = own.into_iter().chain(theirs).unzip();
        if way == WayOfBurst::Held {
            return (count, true);
        }
        let script = worker.core.script();
        if count < worker.packets.len() {
            ServerGpu::call(script);
        }
        // What cores do of it, and what that says.
        let theirs = &mut worker.packets[count..];
        let so_far = &mut self.verdicts;
        so_far.clear();
        match gpu.first() {
            0 => so_far.resize(theirs.len(), Verdict::Forward { port: PortId(0) }),
            first => {
                self.function.on_core(i);
                self.function.process_part(0..first, now, theirs, script, so_far);
            }
        }
        let entries = &mut worker.in_burst[count..];
        for ((packet, entry), so_far) in theirs.iter_mut().zip(entries).zip(so_far.drain(..)) {
            if let Verdict::Drop(reason) = so_far {
                entry.next = NextStop::Ends(PacketFate::Rejected(reason));
            } else if gpu.has_room() {
                entry.task = Some(gpu.hand_over(&mut self.function, now, packet, so_far, script));
                entry.next = NextStop::Gpu;
                lengthen(&self.function, std::slice::from_mut(packet));
            } else {
                entry.next = NextStop::Ends(PacketFate::Lost(Loss::QueueFull));
            }
        }
        (count, false)
    }

    /// What leaves of the burst of core `i` is handed to its transmit queues, as verdicts say; what they are of are its first packets.
    pub(super) fn conclude(&mut self, i: usize, now: Ps, freed: &mut Vec<u32>) {
        let worker = &mut self.cores[i];
        let id = worker.core.id();
        let script = worker.core.script();
        let lost = worker.in_burst[self.verdicts.len()..].iter();
        freed.extend(lost.filter(|entry| matches!(entry.next, NextStop::Ends(_))).map(|entry| entry.mbuf));
        let stride = self.layout.mbuf_stride();
        for ((packet, verdict), entry) in worker.packets.iter().zip(&self.verdicts).zip(&mut worker.in_burst) {
            let fate = match *verdict {
                Verdict::Forward { port } => {
                    let port = PortId(port.0 % worker.tx.len() as u16);
                    let tx = &mut worker.tx[usize::from(port.0)];
                    tx.reclaim(now, id, &mut self.pool, stride, &mut self.gone, script);
                    match tx.send(packet.id, packet.frame_bytes, entry.mbuf, script) {
                        true => PacketFate::Sent(port),
                        false => PacketFate::Lost(Loss::NoTxDescriptor),
                    }
                }
                Verdict::Drop(reason) => PacketFate::Rejected(reason),
            };
            if !matches!(fate, PacketFate::Sent(_)) {
                freed.push(entry.mbuf);
            }
            entry.next = NextStop::Ends(fate);
        }
    }

    /// Chooses a worker for each packet of the burst of receiving core `i` and puts it into that one's queue.
    /// `freed` gets the mbufs of those that find it full.
    pub(super) fn hand_over(&mut self, i: usize, freed: &mut Vec<u32>) {
        let Some(pipeline) = &self.pipeline else { return };
        let (receiving, working) = self.cores.split_at_mut(self.receiving);
        let ServerCore { core, packets, in_burst, .. } = &mut receiving[i];
        let script = core.script();
        let mut counts = vec![0; working.len()];
        for (packet, entry) in packets.iter().zip(in_burst) {
            choose_worker(&pipeline.spec, packet.id, packet.frame_bytes, script);
            let to = match working.len() {
                1 => 0,
                _ => pipeline.workers.queue(spread::key(pipeline.spec.spread, &packet.data).as_ref()),
            };
            let ServerCore { input, counters, .. } = &mut working[to];
            let CoreInput::Queue(queue, _) = input else { continue };
            counters.offered += 1;
            if counts[to] < queue.room() {
                counts[to] += 1;
                entry.next = NextStop::Worker(self.receiving + to);
            } else {
                entry.next = NextStop::Ends(PacketFate::Lost(Loss::QueueFull));
                counters.lost += 1;
                freed.push(entry.mbuf);
            }
        }
        for (worker, n) in working.iter_mut().zip(counts) {
            if let CoreInput::Queue(queue, _) = &mut worker.input
                && n > 0
            {
                queue.put(n, script);
            }
        }
    }

    /// Replays until the burst is complete or something else comes first.
    pub(super) fn step(&mut self, i: usize) {
        loop {
            let now = self.engine.now();
            self.call_memory();
            let horizon = self.engine.peek().unwrap_or(Ps::MAX);
            let step = self.cores[i].core.step(&mut self.memory, &self.layout, now, horizon);
            if self.waits(i, step) {
                return;
            }
            match step {
                CoreStep::Done(at) => {
                    let worker = &mut self.cores[i];
                    worker.state = CoreState::Finishing;
                    let end = worker.rung(at.max(now));
                    self.engine.schedule(end, PRIORITY_CORE, ServerEvent::Core(i));
                    return;
                }
                CoreStep::At(at) => {
                    self.engine.schedule(at.max(now), PRIORITY_CORE, ServerEvent::Core(i));
                    return;
                }
                CoreStep::Lock(lock, at) => match self.locks.take(lock.0, i, at) {
                    Some(granted) => self.cores[i].core.grant(granted),
                    None => return,
                },
                CoreStep::Unlock(lock, at) => {
                    if let Some(next) = self.locks.give(lock.0) {
                        self.cores[next].core.grant(at);
                        self.engine.schedule(at.max(now), PRIORITY_CORE, ServerEvent::Core(next));
                    }
                }
                // Without controllers memory answers at once.
                CoreStep::Wait => unreachable!("no controller in this machine"),
            }
        }
    }

    /// Counts the burst of core `i` that ends; whether it was worked on at once.
    pub(super) fn close_burst(&mut self, i: usize, now: Ps) -> bool {
        let worker = &mut self.cores[i];
        let took = now - worker.started;
        worker.counters.busy += took.since(worker.launching);
        let packets = worker.packets.len() as u64;
        worker.counters.burst_squares += packets * packets;
        worker.counters.burst_time += packets * took.0;
        let at_once = std::mem::take(&mut worker.at_once);
        if worker.in_detail {
            let work = worker.core.time_of(worker.core.instructions() - worker.before);
            self.coarse.burst(i, worker.packets.len(), took, work);
            let mut spent = worker.core.burst_attribution();
            worker.charge_ringing(&mut spent);
            worker.counters.spent += &spent;
        }
        at_once
    }

    /// The burst of core `i` is complete: its packets go where they go from there, and the core looks for more.
    pub(super) fn finish_burst(&mut self, i: usize, observer: &mut impl DepartureObserver) {
        let now = self.engine.now();
        self.drop_ended(i, now);
        let worker = &mut self.cores[i];
        if let CoreInput::Nic(rx) = &mut worker.input {
            rx.doorbell(self.nic.common.as_mut().and_then(|common| common.shared_mut()));
        }
        self.consume(i);
        self.fetch_held();
        let worker = &mut self.cores[i];
        if let Some(system) = &mut worker.system {
            system.rest(now);
        }
        self.write_burst(i, now);
        let at_once = self.close_burst(i, now);
        let launches = std::mem::take(&mut self.cores[i].to_launch);
        self.launch(i, launches);
        let worker = &mut self.cores[i];
        let (mut leaving, mut to_gpu, mut held) = (Vec::new(), Vec::new(), Vec::new());
        let mut ended = Vec::new();
        let mut handed = std::mem::take(&mut self.handed);
        let mut beside = Attribution::default();
        worker.charge_ringing(&mut beside);
        for (index, (entry, packet)) in worker.in_burst.drain(..).zip(worker.packets.drain(..)).enumerate() {
            let spent = || {
                if at_once {
                    return Attribution::default();
                }
                let mut on_core = worker.core.attribution(index);
                on_core += &beside;
                entry.spent(on_core, worker.started)
            };
            let fate = match entry.next {
                NextStop::Ends(fate) => {
                    self.lost += u64::from(matches!(fate, PacketFate::Lost(_)));
                    fate
                }
                NextStop::Worker(to) => {
                    let before = Box::new(spent());
                    let received = Received { packet, mbuf: entry.mbuf, visible: now, ..Received::default() };
                    handed.push((to, Handed { received, before }));
                    continue;
                }
                NextStop::Gpu => {
                    let before = Box::new(spent());
                    let received = Received { packet, mbuf: entry.mbuf, ..Received::default() };
                    let Some(task) = entry.task else { continue };
                    to_gpu.push(GpuPacket::new(received, entry.frame_bytes, before, task));
                    continue;
                }
                NextStop::Held(verdict) => {
                    let before = Box::new(spent());
                    let received = Received { packet, mbuf: entry.mbuf, visible: now, ..Received::default() };
                    let frame_bytes = entry.frame_bytes;
                    held.push(BackFromGpu { received, frame_bytes, before, verdict, slot: None });
                    continue;
                }
            };
            if let PacketFate::Sent(port) = fate {
                leaving.push(Leaving {
                    id: packet.id,
                    arrival: entry.arrival,
                    frame_bytes: entry.frame_bytes,
                    sent_bytes: packet.frame_bytes,
                    moved: packet.moved,
                    port,
                    mbuf: entry.mbuf,
                    attribution: spent(),
                    translated: Ps::ZERO,
                    crossing: Ps::ZERO,
                });
            } else {
                if let Some(scattered) = &mut self.scattered {
                    scattered.free(entry.mbuf);
                }
                ended.push(entry.mbuf);
                self.inside -= 1;
                let ended = (packet.id, entry.arrival, entry.frame_bytes, fate);
                unsent(ended, i, now, &mut self.lives, observer);
            }
            self.spare.push(packet);
        }
        ended.into_iter().for_each(|mbuf| self.release_payload(mbuf));
        self.hand_to_nic(i, leaving);
        for (to, packet) in handed.drain(..) {
            if let CoreInput::Queue(_, queue) = &mut self.cores[to].input {
                queue.push_back(packet);
            }
            self.wake(to, now);
        }
        self.handed = handed;
        self.gather(i, to_gpu);
        self.cores[i].commit.extend(held.into_iter().map(Some));
        self.commit(i);
        self.look_for_more(i);
    }

    /// Core `i` has nothing in hand: it begins its next burst, or polls for one.
    pub(super) fn look_for_more(&mut self, i: usize) {
        let now = self.engine.now();
        let worker = &mut self.cores[i];
        match worker.oldest() {
            Some(visible) if visible <= now => {
                worker.state = CoreState::Waking;
                self.start_burst(i);
            }
            Some(visible) => {
                worker.state = CoreState::Waking;
                self.engine.schedule(next_poll(now, self.poll, visible), PRIORITY_CORE, ServerEvent::Core(i));
            }
            None => self.rest(i),
        }
    }

    /// Core `i` polls in vain from now on. One whose descriptors are all without mbufs looks for some at each poll,
    /// as long as packets come.
    pub(super) fn rest(&mut self, i: usize) {
        let now = self.engine.now();
        let worker = &mut self.cores[i];
        let shared = self.nic.common.as_ref().and_then(|common| common.shared());
        let more = self.more || self.nic.elastic.as_ref().is_some_and(|elastic| elastic.holds());
        worker.state = match &worker.input {
            CoreInput::Nic(rx) if rx.is_dry(shared) && more => {
                self.engine.schedule(now + self.poll.max(Ps(1)), PRIORITY_CORE, ServerEvent::Core(i));
                CoreState::Starving
            }
            _ => CoreState::Polling(now),
        };
    }

    pub(super) fn can_refill(&self, i: usize) -> bool {
        let worker = &self.cores[i];
        matches!(&worker.input, CoreInput::Nic(rx) if rx.can_refill(worker.core.id(), &self.pool))
    }
}

/// Fragments leave behind the first one of their packet, and take as long on the wire as they all do.
pub(super) fn lengthen(function: &Function, packets: &mut [Packet]) {
    for fragment in function.fragments() {
        if let Some(first) = packets.iter_mut().find(|packet| packet.id == fragment.id) {
            first.frame_bytes += (fragment.wire_bytes()) as u32;
        }
    }
}

/// The first poll at or after `visible` of a core that polls every `period` from `since` on.
pub(super) fn next_poll(since: Ps, period: Ps, visible: Ps) -> Ps {
    since + period * visible.since(since).0.div_ceil(period.0.max(1))
}

/// Locks of functions: who holds each, and who waits, first come first served.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Locks {
    pub(super) held: std::collections::BTreeMap<u32, VecDeque<usize>>,
}

impl Locks {
    /// The time from which core `core` has the lock; [`None`] if it has to wait.
    pub(super) fn take(&mut self, lock: u32, core: usize, at: Ps) -> Option<Ps> {
        match self.held.get_mut(&lock) {
            Some(waiting) => {
                waiting.push_back(core);
                None
            }
            None => {
                self.held.insert(lock, VecDeque::new());
                Some(at)
            }
        }
    }

    /// The core that has the lock next.
    pub(super) fn give(&mut self, lock: u32) -> Option<usize> {
        let next = self.held.get_mut(&lock)?.pop_front();
        if next.is_none() {
            self.held.remove(&lock);
        }
        next
    }
}
