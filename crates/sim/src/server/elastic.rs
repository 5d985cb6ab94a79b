//! Memory of the NIC for packets that may not go to the host yet: they wait there, and are not lost.
//!
//! CEIO (Liu et al., SIGCOMM 2025) gives flows credits for buffers that the LLC can hold, keeps what has none in the NIC's DRAM, and has it
//! fetched by the host, in order. There are two forms.
//!
//! Without credits of flows, descriptors are the credits: as many as the LLC is to hold, and back once the driver posts them. A
//! packet behind one that waits, waits too, so that a queue stays in order.
//!
//! With them ([`FlowCredits`]) a packet that finds a credit of its flow, and a descriptor, goes to the host at once: the fast path.
//! Others wait, queue by queue in order, and so does what comes behind them of the same flow: the slow path. Assumed, since what was
//! read of CEIO does not say it: a packet of the slow path takes no credit, but a queue has no more of them in the host than
//! [`FlowCreditsSpec::batch`] that its core has not worked on. A buffer is consumed once the burst is over that its packet ends or
//! leaves in. A core gives credits back together, with a doorbell that it rings anyway.

use std::collections::{BTreeMap, VecDeque};

use machine::nic::{ElasticSpec, FlowCredits, FlowCreditsSpec};
use packet::{Packet, layers};
use units::{LINE_BYTES, PacketId, Ps, Rate};

use super::cores::NextStop;
use super::rings::CommonRings;
use super::{DepartureObserver, Loss, PRIORITY_NIC, Server, ServerEvent};
use crate::scenario::Scenario;

/// Packets that wait in the NIC's memory.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Elastic {
    memory: u64,
    fetch: Ps,
    bytes: u64,
    /// By queue: those that wait, and how many of them are being fetched.
    queues: Vec<(VecDeque<Packet>, usize)>,
    /// Where the next round of fetches begins.
    turn: usize,
    /// What the memory moves: a rate is written for people, which a state is not.
    gbps: Option<f64>,
    /// When the memory is free to take in or give out the next packet.
    free_at: Ps,
    credits: Option<CreditedFlows>,
}

/// Flows with credits, and packets of theirs.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct CreditedFlows {
    flows: FlowCredits,
    batch: usize,
    /// By queue: the flows of packets that wait, in their order, and how many that were fetched its cores have not consumed.
    queues: Vec<(VecDeque<u32>, usize)>,
    /// Packets in the host, and how they came there.
    in_host: BTreeMap<PacketId, HostPath>,
    /// By core: flows whose credits it has not given back yet, one for each.
    kept: Vec<Vec<u32>>,
}

/// How a packet came to the host.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
enum HostPath {
    /// With a credit of this flow.
    Fast(u32),
    /// Out of the NIC's memory, for this queue.
    Slow(usize),
}

/// Lines of a full frame.
const FRAME_LINES: u64 = 24;

impl Scenario {
    /// Credits of all flows together; none where flows have no credits.
    pub(crate) fn flow_credits(&self) -> Option<u32> {
        let FlowCreditsSpec { total, .. } = self.nic.elastic.as_ref()?.credits.as_ref()?;
        let llc = &self.machine.llc;
        let in_ways = llc.size.bytes() / LINE_BYTES * u64::from(llc.io_ways.count()) / u64::from(llc.ways.max(1));
        total.or_else(|| u32::try_from(in_ways / FRAME_LINES).ok())
    }
}

impl CreditedFlows {
    fn of(scenario: &Scenario, queues: usize) -> Option<CreditedFlows> {
        let FlowCreditsSpec { idle, batch, .. } = scenario.nic.elastic.as_ref()?.credits.as_ref()?;
        Some(CreditedFlows {
            flows: FlowCredits::new(scenario.flow_credits()?, idle.ps()),
            batch: *batch as usize,
            queues: vec![(VecDeque::new(), 0); queues],
            in_host: BTreeMap::new(),
            kept: vec![Vec::new(); scenario.machine.cores as usize],
        })
    }

    /// Core `core` has consumed `packet`.
    fn consume(&mut self, core: usize, packet: PacketId) {
        match self.in_host.remove(&packet) {
            Some(HostPath::Fast(flow)) => self.kept[core].push(flow),
            Some(HostPath::Slow(queue)) => self.queues[queue].1 -= 1,
            None => {}
        }
    }
}

impl Elastic {
    /// That of `scenario`; none where such packets are lost.
    pub(super) fn of(scenario: &Scenario) -> Option<Box<Elastic>> {
        let ElasticSpec { memory, fetch, rate, .. } = scenario.nic.elastic.as_ref()?;
        let queues = (scenario.receiving_cores() * scenario.nic.queues_per_core) as usize;
        Some(Box::new(Elastic {
            memory: memory.bytes(),
            fetch: fetch.ps(),
            bytes: 0,
            queues: vec![(VecDeque::new(), 0); queues],
            turn: 0,
            gbps: rate.map(Rate::gbps),
            free_at: Ps::ZERO,
            credits: CreditedFlows::of(scenario, queues),
        }))
    }

    /// Whether any wait.
    pub(super) fn holds(&self) -> bool {
        self.bytes > 0
    }

    /// How many packets of queue `queue` may be fetched, as far as it is not for descriptors.
    fn fetchable(&self, queue: usize) -> usize {
        let (held, fetches) = &self.queues[queue];
        let more = held.len() - fetches;
        match &self.credits {
            Some(credits) => more.min(credits.batch.saturating_sub(fetches + credits.queues[queue].1)),
            None => more,
        }
    }

    /// When the memory is done with `bytes` bytes more from `now` on.
    fn moves(&mut self, bytes: u32, now: Ps) -> Ps {
        let took = self.gbps.map_or(Ps::ZERO, |gbps| Rate::from_gbps(gbps).time_for(bytes.into()));
        self.free_at = self.free_at.max(now) + took;
        self.free_at
    }
}

impl Server {
    /// What the NIC has to say of a packet of queue `queue`, of all: whether it has to wait, and its flow where those have credits.
    pub(super) fn admit(&mut self, packet: &Packet, queue: usize) -> (bool, Option<u32>) {
        let now = self.engine.now();
        let Some(elastic) = self.nic.elastic.as_deref_mut() else { return (false, None) };
        let Some(credits) = &mut elastic.credits else { return (!elastic.queues[queue].0.is_empty(), None) };
        let flow = credits.flows.arrives(layers(&packet.data).ok().map(|layers| layers.hashed()), now);
        let has_credit = credits.flows.may_take(flow);
        self.nic.placing.uncredited_packets += u64::from(!has_credit);
        // Descriptors that fetches will take are not for others.
        (!has_credit || self.free_descriptors(queue) == 0, Some(flow))
    }

    /// `packet` goes to the host with a credit of `flow`.
    pub(super) fn take_credit(&mut self, packet: PacketId, flow: Option<u32>) {
        if let Some(flow) = flow
            && let Some(credits) = self.nic.elastic.as_deref_mut().and_then(|elastic| elastic.credits.as_mut())
        {
            credits.flows.take(flow);
            credits.in_host.insert(packet, HostPath::Fast(flow));
        }
    }

    /// `packet` of queue `queue`, of all, and of `flow`, has to wait: it does so in the NIC's memory, or is lost where there is none or no
    /// room.
    pub(super) fn hold_or_lose(
        &mut self,
        packet: Packet,
        (queue, flow): (usize, Option<u32>),
        loss: Loss,
        observer: &mut impl DepartureObserver,
    ) {
        let (bytes, now) = (packet.frame_bytes, self.engine.now());
        match &mut self.nic.elastic {
            Some(elastic) if elastic.bytes + u64::from(bytes) <= elastic.memory => {
                elastic.bytes += u64::from(bytes);
                elastic.moves(bytes, now);
                elastic.queues[queue].0.push_back(packet);
                if let (Some(credits), Some(flow)) = (&mut elastic.credits, flow) {
                    credits.flows.wait(flow);
                    credits.queues[queue].0.push_back(flow);
                }
                self.nic.placing.held_packets += 1;
                self.fetch_held();
            }
            _ => self.lose(packet, queue / self.nic.queues_per_core, loss, observer),
        }
    }

    /// The burst of core `i` that ends has consumed the packets that end or leave in it; the core gives credits back, if they are
    /// enough or it has nothing else to do.
    pub(super) fn consume(&mut self, i: usize) {
        let now = self.engine.now();
        let Some(elastic) = self.nic.elastic.as_deref_mut() else { return };
        let Some(credits) = &mut elastic.credits else { return };
        let worker = &self.cores[i];
        for (entry, packet) in worker.in_burst.iter().zip(&worker.packets) {
            if matches!(entry.next, NextStop::Ends(_)) {
                credits.consume(i, packet.id);
            }
        }
        if credits.kept[i].len() >= credits.batch || worker.oldest().is_none() {
            for flow in std::mem::take(&mut credits.kept[i]) {
                credits.flows.give_back(flow, now);
            }
        }
    }

    /// Descriptors that the NIC can use for queue `queue`, of all, and that no fetch under way will take.
    fn free_descriptors(&mut self, queue: usize) -> usize {
        let (core, own) = (queue / self.nic.queues_per_core, queue % self.nic.queues_per_core);
        let fetches = self.nic.elastic.as_ref().map_or(0, |elastic| match self.nic.common.as_deref() {
            None => elastic.queues[queue].1,
            Some(_) => elastic.queues.iter().map(|held| held.1).sum(),
        });
        let posted = match self.nic.common.as_deref() {
            Some(CommonRings::Shared(ring)) => ring.posted(),
            Some(CommonRings::Bisected(_)) => {
                let of = |core: &mut super::ServerCore| core.rx().map_or(0, |rx| rx.queues().map(|q| q.posted()).sum());
                self.cores.iter_mut().map(of).sum()
            }
            None => self.cores[core].rx().map_or(0, |rx| rx.queue(own).posted()),
        };
        posted.saturating_sub(fetches)
    }

    /// The NIC fetches packets that wait, as far as there are descriptors for them.
    pub(super) fn fetch_held(&mut self) {
        let Some(elastic) = self.nic.elastic.as_deref().filter(|elastic| elastic.holds()) else { return };
        let (n, first, now) = (elastic.queues.len(), elastic.turn, self.engine.now());
        for queue in (0..n).map(|k| (first + k) % n) {
            let free = self.free_descriptors(queue);
            let Some(elastic) = &mut self.nic.elastic else { return };
            let more = free.min(elastic.fetchable(queue));
            elastic.turn = if more > 0 { (queue + 1) % n } else { elastic.turn };
            for _ in 0..more {
                let (held, fetches) = &mut elastic.queues[queue];
                let bytes = held.get(*fetches).map_or(0, |packet| packet.frame_bytes);
                *fetches += 1;
                let at = elastic.moves(bytes, now) + elastic.fetch;
                self.engine.schedule(at, PRIORITY_NIC, ServerEvent::Fetched(queue));
            }
        }
    }

    /// The packet of queue `queue`, of all, that was held for longest is there.
    pub(super) fn fetched(&mut self, queue: usize) {
        let now = self.engine.now();
        let (core, own) = (queue / self.nic.queues_per_core, queue % self.nic.queues_per_core);
        let Some(elastic) = &mut self.nic.elastic else { return };
        let (held, fetches) = &mut elastic.queues[queue];
        *fetches -= 1;
        let Some(packet) = held.pop_front() else { return };
        let bytes = u64::from(packet.frame_bytes);
        match self.take_buffer(core, own) {
            Ok(buffer) => {
                if let Some(elastic) = &mut self.nic.elastic {
                    elastic.bytes -= bytes;
                    if let Some(credits) = &mut elastic.credits {
                        let (flows, in_host) = &mut credits.queues[queue];
                        *in_host += 1;
                        if let Some(flow) = flows.pop_front() {
                            credits.flows.fetched(flow, now);
                        }
                        credits.in_host.insert(packet.id, HostPath::Slow(queue));
                    }
                }
                self.cross(packet, core, own, buffer);
            }
            // Somebody else's packet has taken it.
            Err(_) => {
                if let Some(elastic) = &mut self.nic.elastic {
                    elastic.queues[queue].0.push_front(packet);
                }
            }
        }
        self.fetch_held();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::Seed;

    use super::*;
    use crate::load::{Stock, load};
    use crate::scenario::{Overrides, ScenarioError};
    use crate::server::{Departure, Pause};

    struct Nobody;

    impl DepartureObserver for Nobody {
        fn departure(&mut self, _: &Departure) {}
    }

    fn scenario(set: &[&str]) -> Result<Scenario, ScenarioError> {
        let small =
            ["function.forward.prefixes=500", "traffic.flows.count=40", "traffic.flows.popularity={ zipf = 1.2 }"];
        let set = small.iter().chain(set).map(ToString::to_string).collect();
        Scenario::read("", "test", &Overrides { set, ..Overrides::default() })
    }

    fn server(set: &[&str], packets: u64) -> Server {
        let scenario = scenario(set).unwrap();
        let loaded = load(std::slice::from_ref(&scenario), &Arc::new(Stock::new()), &mut |_| true).unwrap().remove(0);
        let source = loaded.blueprint.source(7, &scenario.traffic.offered(scenario.nic.rate)).unwrap();
        Server::new(&scenario, loaded.function.clone(), source, packets, Seed(1)).unwrap()
    }

    fn credits(server: &Server) -> &CreditedFlows {
        server.nic.elastic.as_ref().unwrap().credits.as_ref().unwrap()
    }

    /// What is counted, without when.
    fn counts(server: &Server) -> String {
        let CreditedFlows { flows, queues, in_host, kept, .. } = credits(server);
        let ids: Vec<_> = in_host.keys().collect();
        format!("{} {} {queues:?} {ids:?} {kept:?} {:?}", flows.used(), flows.active(), server.nic.placing)
    }

    /// Packets that come one by one, so that both ways have them in one order.
    #[test]
    fn both_ways_leave_the_same_credits() {
        let set = ["traffic.load=0.004", "nic.elastic.credits={ total = 30, idle = \"1 ms\", batch = 3 }"];
        let packets = 2_000;
        let mut timed = server(&set, packets);
        let mut functional = timed.clone();
        functional.set_functional(true);
        for offered in (100..=packets).step_by(100) {
            for server in [&mut timed, &mut functional] {
                while server.offered() < offered {
                    server.advance(1_000, Pause { offered, at: Ps::MAX }, &mut Nobody);
                }
            }
            assert_eq!(counts(&timed), counts(&functional), "after {offered}");
        }
        assert!(credits(&timed).flows.active() > 20);
    }

    /// Far too much comes, and then nothing more: all leaves, all credits are back, and never were there more in use than there are.
    #[test]
    fn credits_all_come_back() {
        for functional in [false, true] {
            let set = [
                "traffic.load=1.0",
                "machine.core.frequency=\"0.8 GHz\"",
                "machine.cores=2",
                "nic.elastic.credits={ total = 20, batch = 4 }",
            ];
            let packets = 5_000;
            let mut server = server(&set, packets);
            server.set_functional(functional);
            let mut most = 0;
            while server.advance(1, Pause { offered: u64::MAX, at: Ps::MAX }, &mut Nobody) {
                most = most.max(credits(&server).flows.used());
                assert!(credits(&server).queues.iter().all(|queue| queue.1 <= 4));
            }
            // Of flows that owe, what is given back is nobody's for a while.
            assert!((10..=20).contains(&most), "{most}");
            let elastic = server.nic.elastic.as_ref().unwrap();
            let credits = credits(&server);
            assert!(!elastic.holds() && credits.in_host.is_empty() && credits.flows.used() == 0);
            assert!(
                credits.kept.iter().all(Vec::is_empty) && credits.queues.iter().all(|q| q.0.is_empty() && q.1 == 0)
            );
            assert_eq!((server.lost(), server.sent() > packets * 9 / 10), (0, true));
            assert!(server.nic.placing.uncredited_packets > 1_000);
        }
    }

    #[test]
    fn credits_are_what_the_io_ways_hold() {
        let ways =
            ["machine.llc.size=\"22 MiB\"", "machine.llc.slices=16", "machine.llc.ways=11", "machine.llc.io_ways=2"];
        let of = |more: &[&str]| scenario(&[&ways[..], more].concat()).map(|scenario| scenario.flow_credits());
        // 4 MiB in frames of 24 lines.
        assert_eq!(of(&["nic.elastic.credits={}"]).unwrap(), Some(2730));
        assert_eq!(of(&["nic.elastic.credits={ total = 7 }"]).unwrap(), Some(7));
        assert_eq!(of(&["nic.elastic={}"]).unwrap(), None);
        let said = of(&["machine.llc.io_ways=0", "nic.elastic.credits={}"]).unwrap_err().to_string();
        assert!(
            said.contains("nic.elastic.credits.total: left out, and the LLC's I/O ways hold no full frame"),
            "{said}"
        );
        let said = of(&["nic.elastic.credits={ total = 0 }"]).unwrap_err().to_string();
        assert!(said.contains("nic.elastic.credits.total = 0: allowed is 1 to 16777216"), "{said}");
        let said = of(&["nic.elastic.rate=\"10 Mbps\""]).unwrap_err().to_string();
        assert!(said.contains("nic.elastic.rate = 10 Mbps: allowed is 1 Gbps to 100 Tbps"), "{said}");
    }
}
