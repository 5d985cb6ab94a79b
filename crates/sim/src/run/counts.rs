//! What a server counts, component by component: read at two moments, what happened between them.
//!
//! A counter more of a component is a field of the component's own counters. A component more has three lines here: its
//! field, where it is read, and the difference.

use functions::MemberTotals;
use functions::upf::FlowCounters;
use machine::buffer::BufferCounters;
use machine::dram::{DramCounters, EnergyEvents};
use machine::memory::{
    ApplicationState, ClassCounters, CopyCounters, EngineCounters, IommuCounters, LevelCounters, MemoryCounters,
    SnoopCounters, SocketCounters, StackedCounters, TailCounters,
};
use units::Ps;

use crate::scenario::clos::{CLASSES, RX_CLASS, WORK_CLASS};
use crate::server::clos;
use crate::server::gpu::GpuCounters;
use crate::server::neighbours::NeighbourCounters;
use crate::server::owners::{self, ApplicationFound};
use crate::server::placing::PlacingCounters;
use crate::server::{CoreCounters, Server};

/// The counts of a server, `A` of each application that the LLC tells apart.
#[derive(Clone, Debug)]
pub struct ServerCounts<A = ApplicationFound> {
    /// When they were read, or the time between.
    pub span: Ps,
    /// Packets sent, whenever they arrived: for those that arrived and wait nothing was done yet.
    pub sent: u64,
    /// Memory.
    pub memory: MemoryCounters,
    /// Lookups of the LLC by cores that receive, and by those that work on what others have received.
    pub classes: [LevelCounters; 2],
    /// What each class of service did, and has at the end.
    pub clos: [ClassCounters; CLASSES],
    /// The copy table; zeros without one.
    pub copies: CopyCounters,
    /// The copy engine; zeros without one.
    pub engine: EngineCounters,
    /// Translation of devices' addresses; none without it.
    pub iommu: Option<IommuCounters>,
    /// What was done at the LLC for the applications that it tells apart.
    pub applications: Vec<A>,
    /// The stacked DRAM; none without one.
    pub stacked: Option<StackedCounters>,
    /// The NIC's SRAM for the tails of receive queues; none without it.
    pub tails: Option<TailCounters>,
    /// What became of received packets beside the LLC's I/O ways; none where nothing of it is on.
    pub placing: Option<PlacingCounters>,
    /// DRAM.
    pub dram: DramCounters,
    /// What DRAM did that takes energy.
    pub dram_work: EnergyEvents,
    /// Cores.
    pub cores: Vec<CoreCounters>,
    /// Payload bytes over PCIe: to the host, from the host.
    pub pcie_bytes: (u64, u64),
    /// The same with framing and headers.
    pub pcie_carried: (u64, u64),
    /// What went between sockets; none of one socket.
    pub sockets: Option<SocketCounters>,
    /// Snooping; none where a directory knows.
    pub snooping: Option<SnoopCounters>,
    /// The packet buffer; none where packets lie in their mbufs.
    pub buffer: Option<BufferCounters>,
    /// Of a chain, what each member did; none of a function alone.
    pub members: Vec<MemberTotals>,
    /// The user plane's flow tables, all cores together; none without them.
    pub flow_tables: Option<FlowCounters>,
    /// Each of the scenario's neighbours.
    pub neighbours: Vec<NeighbourCounters>,
    /// The GPU; none without one.
    pub gpu: Option<GpuCounters>,
    /// Lines of the LLC at the end that devices, receiving cores, working cores and others have brought in.
    pub llc_lines: [u64; 4],
}

impl<A> ServerCounts<A> {
    /// Packets that the first `receiving` cores took from their rings.
    pub(crate) fn taken(&self, receiving: u32) -> u64 {
        self.cores.iter().take(receiving as usize).map(|core| core.packets).sum()
    }
}

impl ServerCounts<ApplicationState> {
    /// What `server` has counted so far.
    pub(crate) fn of(server: &Server) -> ServerCounts<ApplicationState> {
        let memory = server.memory();
        ServerCounts {
            span: server.now(),
            sent: server.sent(),
            memory: memory.counters(),
            classes: [RX_CLASS, WORK_CLASS].map(|clos| memory.class(clos).llc),
            clos: clos::counters(memory),
            copies: memory.copy_counters(),
            engine: memory.engine_counters(),
            iommu: memory.iommu_counters(),
            applications: memory.applications(),
            stacked: memory.stack_counters(),
            tails: memory.tails(),
            placing: server.placing(),
            dram: memory.dram_counters(),
            dram_work: memory.dram_work(server.now()),
            cores: server.cores(),
            pcie_bytes: server.pcie_bytes(),
            pcie_carried: server.pcie_carried(),
            sockets: memory.socket_counters(),
            snooping: memory.snoop_counters(),
            buffer: server.buffer(),
            members: server.members(),
            flow_tables: server.flow_tables(),
            neighbours: server.neighbours(),
            gpu: server.gpu(),
            llc_lines: server.llc_lines(),
        }
    }

    /// What was counted since `from`, an earlier state of the same server.
    pub(crate) fn since(&self, from: &ServerCounts<ApplicationState>) -> ServerCounts {
        self.minus(from, owners::between(&from.applications, &self.applications))
    }

    /// A state since which `done` has been counted: what was counted before this one, but for `done`, is left out.
    pub(crate) fn leaving_out_all_but(&self, done: &ServerCounts) -> ServerCounts<ApplicationState> {
        self.minus(done, owners::without(&self.applications, &done.applications))
    }

    /// Every count less that of `from`, with these `applications`.
    fn minus<A, B>(&self, from: &ServerCounts<A>, applications: Vec<B>) -> ServerCounts<B> {
        let to = self;
        let pair = |to: (u64, u64), from: (u64, u64)| (to.0 - from.0, to.1 - from.1);
        ServerCounts {
            span: to.span.since(from.span),
            sent: to.sent - from.sent,
            memory: to.memory - from.memory,
            classes: std::array::from_fn(|i| to.classes[i] - from.classes[i]),
            clos: clos::between(&from.clos, &to.clos),
            copies: to.copies - from.copies,
            engine: to.engine - from.engine,
            iommu: to.iommu.zip(from.iommu).map(|(to, from)| to - from),
            applications,
            stacked: to.stacked.zip(from.stacked).map(|(to, from)| to - from),
            tails: to.tails.zip(from.tails).map(|(to, from)| to - from),
            placing: to.placing.zip(from.placing).map(|(to, from)| to - from),
            dram: to.dram - from.dram,
            dram_work: to.dram_work - from.dram_work,
            cores: to.cores.iter().zip(&from.cores).map(|(&to, &from)| to - from).collect(),
            pcie_bytes: pair(to.pcie_bytes, from.pcie_bytes),
            pcie_carried: pair(to.pcie_carried, from.pcie_carried),
            sockets: to.sockets.clone().zip(from.sockets.clone()).map(|(to, from)| to - from),
            snooping: to.snooping.zip(from.snooping).map(|(to, from)| to - from),
            buffer: to.buffer.zip(from.buffer).map(|(to, from)| to - from),
            members: to.members.iter().zip(&from.members).map(|(&to, &from)| to - from).collect(),
            flow_tables: to.flow_tables.zip(from.flow_tables).map(|(to, from)| to - from),
            neighbours: to.neighbours.iter().zip(&from.neighbours).map(|(&to, &from)| to - from).collect(),
            gpu: to.gpu.zip(from.gpu).map(|(to, from)| to - from),
            llc_lines: to.llc_lines,
        }
    }
}
