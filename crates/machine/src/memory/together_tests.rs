//! Features of the memory system together: sets of them are drawn, with settings and what cores and devices do, and each reader
//! gets what flat memory has.
#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some of them of one")]

use std::collections::BTreeMap;

use engine::Seed;
use proptest::prelude::*;
use units::{Addr, CoreId, Ps, Rate, Size, Span};

use super::twin_tests::{CORES, LINES, NOBODYS, Op, Twin, op, spec};
use super::{
    ApplicationSpec, Coherence, CopyEngineSpec, DmaTarget, EXCLUSIONS, EngineNotice, Exclusion, Hierarchy, HomeSocket,
    Inclusion, Interconnect, IommuMode, IommuSpec, SocketsSpec, StackedTablesSpec, Ways,
};
use crate::cache::CacheSpec;
use crate::copy_table::Retires;
use crate::dram::{ControllerSetting, DramSpec};
use crate::stacked::SkipSpec;

/// What a machine has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    inclusion: Inclusion,
    /// Lines of devices that cores read move to ways of their own.
    inclusive_ways: bool,
    /// Slices are apart on a ring.
    wires: bool,
    /// All private caches hear of each request, over that ring.
    snooping: bool,
    /// Entries of the copy table.
    copies: Option<u32>,
    engine: Option<Engine>,
    /// Controllers by command.
    pub controllers: bool,
    /// Where two sockets have their memory.
    sockets: Option<HomeSocket>,
    /// The first eight lines, and the next: who skips the LLC, bypasses it, has slices of its own.
    applications: Option<[Role; 2]>,
    stacked: bool,
    /// Some lines are the NIC's own memory.
    window: bool,
    /// Lines of a receive queue's tail.
    tails: Option<u32>,
    /// Addresses of devices are translated; buffers stay mapped, or do not.
    iommu: Option<IommuMode>,
    /// The last core is an agent with a cache of its own shape.
    agent: bool,
    /// Devices write into the L2 of a core, and past all caches.
    targets: bool,
    /// Lines are given up once they are dead.
    dead: bool,
}

/// The NIC's own memory.
const WINDOW: std::ops::Range<u64> = 18..22;

impl Features {
    /// Of caches and DRAM alone, with `controllers` or without.
    pub(super) fn plain(controllers: bool) -> Features {
        Features {
            inclusion: Inclusion::NonInclusive,
            inclusive_ways: false,
            wires: false,
            snooping: false,
            copies: None,
            engine: None,
            controllers,
            sockets: None,
            applications: None,
            stacked: false,
            window: false,
            tails: None,
            iommu: None,
            agent: false,
            targets: false,
            dead: false,
        }
    }

    /// The feature that [`EXCLUSIONS`] has at `path`, with the values that count there: whether it is there; it is not any more, if `take`.
    fn named(&mut self, path: &str, take: bool) -> bool {
        fn of<T: Default + PartialEq>(feature: &mut T, take: bool) -> bool {
            let given = *feature != T::default();
            if take {
                *feature = T::default();
            }
            given
        }
        match path {
            "machine.copy_table" => of(&mut self.copies, take),
            "machine.copy_engine.by" if !matches!(self.engine, Some(Engine::Controller(_))) => false,
            "machine.copy_engine" | "machine.copy_engine.by" => of(&mut self.engine, take),
            "machine.dram.controller" => of(&mut self.controllers, take),
            "machine.llc.coherence" => of(&mut self.snooping, take),
            "machine.sockets" => of(&mut self.sockets, take),
            "machine.llc.inclusive_ways" => of(&mut self.inclusive_ways, take),
            "machine.llc.inclusion" if self.inclusion == Inclusion::Inclusive => {
                if take {
                    self.inclusion = Inclusion::NonInclusive;
                }
                true
            }
            "machine.llc.inclusion" => false,
            path if path.starts_with("machine.applications.") => of(&mut self.applications, take),
            _ => panic!("{path} excludes something, and is not drawn here"),
        }
    }

    /// Of what excludes each other only one, the first if `first`.
    fn settled(mut self, first: bool) -> Features {
        for Exclusion { one, other, .. } in EXCLUSIONS {
            if self.named(one.path, false) && self.named(other.path, false) {
                self.named(if first { other } else { one }.path, true);
            }
        }
        self.wires |= self.snooping;
        // What the twin copies is there at once: engines over controllers are drawn with whole servers.
        if self.controllers {
            self.engine = None;
        }
        self
    }

    /// The core that is an agent. Beside controllers, which answer later, its cache stands for a core's.
    pub(super) fn agent(&self) -> Option<u16> {
        (self.agent && !self.controllers).then_some(CORES - 1)
    }

    /// Whether a machine that has these does `op`.
    pub(super) fn takes(&self, op: Op) -> bool {
        match op {
            Op::Copy(core, ..) => self.copies.is_some() || self.engine.is_some() && self.agent() != Some(core),
            Op::DeviceWriteTo(..) => self.targets,
            Op::GiveUp(..) => self.dead,
            Op::Unmap(..) => self.iommu.is_some_and(|mode| mode != IommuMode::On),
            Op::Read(..) | Op::Write(..) | Op::DeviceWrite(_) | Op::DeviceRead(_) => true,
        }
    }

    /// Whether `line` is in the NIC's own memory.
    pub(super) fn is_in_nic(&self, line: u64) -> bool {
        self.window && WINDOW.contains(&line)
    }
}

/// Who makes copies in place of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    NonTemporal,
    Dma,
    Interrupting,
    Controller(Retires),
}

impl Engine {
    fn spec(self) -> CopyEngineSpec {
        let ns = Span::from_ns;
        let dma = |notice| CopyEngineSpec::Dma { setup: ns(100.0), rate: Rate::from_gbps(240.0), notice, saves: 0 };
        match self {
            Engine::NonTemporal => CopyEngineSpec::NonTemporal,
            Engine::Dma => dma(EngineNotice::default()),
            Engine::Interrupting => dma(EngineNotice::Interrupt { cost: ns(1_000.0) }),
            Engine::Controller(retires) => CopyEngineSpec::Controller { retires, setup: ns(10.0), saves: 0 },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Usual,
    Owns,
    Skips,
    /// By its miss rate, back and forth.
    Wavers,
    Bypasses,
}

pub(super) fn features() -> impl Strategy<Value = Features> {
    use prop::option::of;
    use prop::sample::select;
    let role = || select(vec![Role::Usual, Role::Owns, Role::Skips, Role::Wavers, Role::Bypasses]);
    let inclusion = select(vec![Inclusion::NonInclusive, Inclusion::Inclusive, Inclusion::Victim]);
    let home = select(vec![HomeSocket::Interleaved, HomeSocket::Local, HomeSocket::Socket(1)]);
    let engine = select(vec![
        Engine::NonTemporal,
        Engine::Dma,
        Engine::Interrupting,
        Engine::Controller(Retires::Sync),
        Engine::Controller(Retires::Async),
    ]);
    let coherence = (any::<bool>(), any::<bool>(), any::<bool>());
    let copies = (of(select(vec![2u32, 8, 32])), of(engine));
    let homes = (any::<bool>(), of(home), any::<bool>(), any::<bool>());
    let iommu = of(select(vec![IommuMode::On, IommuMode::Strict, IommuMode::Lazy]));
    let devices = (of(1u32..5), iommu, any::<bool>(), any::<bool>());
    (inclusion, coherence, copies, homes, of([role(), role()]), devices, any::<bool>(), any::<bool>()).prop_map(
        |(inclusion, coherence, (copies, engine), homes, applications, devices, agent, first)| {
            let (controllers, sockets, stacked, window) = homes;
            let (tails, iommu, targets, dead) = devices;
            let (wires, snooping, inclusive_ways) = coherence;
            let features = Features {
                inclusion,
                inclusive_ways,
                wires,
                snooping,
                copies,
                engine,
                controllers,
                sockets,
                applications,
                stacked,
                window,
                tails,
                iommu,
                agent,
                targets,
                dead,
            };
            features.settled(first)
        },
    )
}

/// What cores and devices do, with what only some machines do.
pub(super) fn any_op() -> impl Strategy<Value = Op> {
    let target = prop::sample::select(vec![DmaTarget::L2, DmaTarget::L2, DmaTarget::Memory, DmaTarget::Llc]);
    let (core, line) = (0..CORES, 0..LINES);
    prop_oneof![
        17 => op(),
        3 => (target, core.clone(), line.clone()).prop_map(|(target, core, line)| Op::DeviceWriteTo(target, core, line)),
        1 => (core.clone(), line.clone()).prop_map(|(core, line)| Op::GiveUp(core, line)),
        1 => (core, line).prop_map(|(core, line)| Op::Unmap(core, line)),
    ]
}

fn application(role: Role) -> ApplicationSpec {
    let usual = ApplicationSpec::default();
    match role {
        Role::Usual => usual,
        Role::Owns => ApplicationSpec { slices: Some(1), ..usual },
        Role::Skips => ApplicationSpec { llc: false, ..usual },
        Role::Wavers => {
            let skip = SkipSpec { threshold: 0.5, hysteresis: 0.0, window: 10, retry: 20 };
            ApplicationSpec { skip: Some(skip), ..usual }
        }
        Role::Bypasses => ApplicationSpec { bypass: true, ..usual },
    }
}

/// Between two refreshes.
fn usual_refresh() -> Span {
    Span::from_ns(7800.0)
}

pub(super) fn machine(of: &Features, refresh: Span) -> Hierarchy {
    let io_ways = if of.tails.is_some() { 0 } else { 0b1100 };
    let mut spec = spec(of.inclusion, io_ways, of.copies.unwrap_or(2));
    spec.dram.t_refi = refresh;
    spec.llc.inclusive_ways = of.inclusive_ways.then_some(Ways::Count(1));
    if of.copies.is_none() {
        spec.copy_table = None;
    }
    spec.copy_engine = of.engine.map(Engine::spec);
    if of.wires {
        let (hop, interval) = (Span::from_ns(0.5), Some(Span::from_ns(1.0)));
        spec.llc.interconnect = Some(Interconnect::Ring { hop, interval, device: 0 });
    }
    if of.snooping {
        spec.llc.coherence = Coherence::Snoop;
    }
    if of.applications.is_some() {
        (spec.llc.slices, spec.llc.size) = (4, Size::from_bytes(16 * 64));
    }
    if of.controllers {
        spec.dram = DramSpec::of_standard("ddr4-2400u", Span::from_ns(20.0)).unwrap();
        spec.dram.controller = Some(ControllerSetting::default());
    }
    let mut memory = Hierarchy::new(&spec, u32::from(CORES), "machine").unwrap();
    if of.agent {
        let l2 = CacheSpec { size: Size::from_bytes(8 * 64), ways: 4, latency: Span::from_ns(0.0) };
        memory.make_agent(CoreId(CORES - 1), &l2, "machine.gpu").unwrap();
    }
    if let Some(home) = of.sockets {
        let sockets = SocketsSpec {
            count: 2,
            cores: vec![0, 1, 0],
            nic: 0,
            hop: Span::from_ns(40.0),
            rate: Rate::from_gbps(160.0),
            memory: home,
            regions: BTreeMap::new(),
        };
        memory.on_sockets(&sockets, &spec, &[], "machine").unwrap();
    }
    if let Some(roles) = of.applications {
        let specs = roles.map(application);
        let named: Vec<(&str, &ApplicationSpec)> = ["tables", "tenant"].into_iter().zip(&specs).collect();
        memory.tell_apart(&named, &[vec![0..8], vec![8..16]], "machine.applications").unwrap();
    }
    if of.stacked {
        let stacked = StackedTablesSpec::default();
        memory.put_into_stack(&stacked, vec![4..12], Seed(1), "machine.stacked").unwrap();
    }
    memory.hold_tails(of.tails.unwrap_or(0), 2, "nic.cache_cells").unwrap();
    if of.window {
        memory.put_into_nic(WINDOW, Ps::from_ns(300));
    }
    if let Some(mode) = of.iommu {
        let spec = IommuSpec { mode, ..IommuSpec::default() };
        let flush_unmaps = (mode == IommuMode::Lazy).then_some(4);
        memory.translate_devices(&IommuSpec { flush_unmaps, ..spec }, Addr(1 << 20), "machine.iommu").unwrap();
    }
    memory
}

fn twin(of: &Features) -> Twin {
    let mut twin = Twin::new(machine(of, usual_refresh()));
    (twin.agent, twin.window) = (of.agent(), if of.window { WINDOW } else { 0..0 });
    twin
}

fn check(features: &Features, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut twin = twin(features);
    let ops: Vec<Op> = ops.iter().copied().filter(|&op| features.takes(op)).collect();
    let mut clone = None;
    for (i, &op) in ops.iter().enumerate() {
        if i == ops.len() / 2 {
            clone = Some(twin.clone());
        }
        if let Some((got, wanted)) = twin.apply(op).filter(|(_, wanted)| *wanted != NOBODYS) {
            prop_assert_eq!(got, wanted, "{} {:?} of {:?}", i, op, features);
        }
        prop_assert!(twin.is_consistent(), "{} {:?} of {:?}", i, op, features);
    }
    // A clone goes on as its original does.
    if let Some(mut clone) = clone {
        ops[ops.len() / 2..].iter().for_each(|&op| _ = clone.apply(op));
        let state = |memory: &Hierarchy| serde_json::to_string(memory).unwrap();
        prop_assert_eq!(state(&clone.memory), state(&twin.memory), "{:?}", features);
    }
    twin.check_conserved();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_set_of_features_gives_every_reader_what_flat_memory_has(
        features in features(),
        ops in prop::collection::vec(any_op(), 1..400),
    ) {
        check(&features, &ops)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    #[ignore = "slow: 5,000 sets, for `make test-slow`"]
    fn many_sets_of_features_give_every_reader_what_flat_memory_has(
        features in features(),
        ops in prop::collection::vec(any_op(), 1..400),
    ) {
        check(&features, &ops)?;
    }
}

/// Each of these once gave a reader what was out of date.
#[test]
fn what_was_found_by_draws_stays_mended() {
    // A copy by pointer of a line of the NIC's memory, where the NIC then has another packet.
    let window = Features { copies: Some(2), window: true, ..Features::plain(false) };
    check(&window, &[Op::Copy(0, 18, 0), Op::DeviceWrite(18), Op::Read(1, 0)]).unwrap();
    // A packet for the L2 of a core of another socket, whose LLC includes that.
    let sockets = Some(HomeSocket::Interleaved);
    let afar = Features { inclusion: Inclusion::Inclusive, sockets, targets: true, ..Features::plain(false) };
    let reads = [2, 8].map(|line| Op::Read(1, line));
    let ops =
        [Op::DeviceWriteTo(DmaTarget::L2, 1, 6), Op::Write(1, 6), reads[0], reads[1], Op::Write(1, 0), Op::Write(2, 6)];
    check(&afar, &ops).unwrap();
}

/// An access that is answered takes the time that its path sums to, whatever the machine has.
#[test]
fn all_features_at_once_are_one_machine() {
    let features = Features {
        inclusion: Inclusion::Victim,
        copies: Some(8),
        sockets: Some(HomeSocket::Interleaved),
        applications: Some([Role::Wavers, Role::Bypasses]),
        stacked: true,
        tails: Some(4),
        iommu: Some(IommuMode::On),
        agent: true,
        ..Features::plain(true)
    };
    let mut twin = twin(&features);
    for round in 0..40 {
        for line in 0..24 {
            twin.apply(Op::DeviceWrite((line + round) % 24));
            twin.apply(Op::Copy((line % 3) as u16, line, (line + 7) % 24));
            twin.apply(Op::Write((line % 2) as u16, (line * 5) % 24));
            twin.apply(Op::Read(((line + 1) % 3) as u16, line));
            assert!(twin.is_consistent());
        }
    }
    let memory = &twin.memory;
    let (copies, tails) = (memory.copy_counters(), memory.tails().unwrap());
    assert!(copies.fills > 100 && copies.hits > 0 && copies.settled > 0, "{copies:?}");
    assert!(tails.gathered > 0 && tails.replaced > 0, "{tails:?}");
    let stack = memory.stack_counters().unwrap();
    assert!(stack.reads > 0 && stack.writes > 0 && stack.busy > Ps::ZERO, "{stack:?}");
    let sockets = memory.socket_counters().unwrap();
    assert!(sockets.remote_reads > 0 && sockets.remote_llc > 0 && sockets.remote_writes > 0, "{sockets:?}");
    assert!(memory.applications()[0].counters.skipped > 0, "{:?}", memory.applications());
    let iommu = memory.iommu_counters().unwrap();
    assert!(iommu.hits > 500 && iommu.misses == 1 && iommu.references == 4, "{iommu:?}");
    assert!(memory.dram_counters().reads > 0 && memory.dram_counters().writes > 0);
}
