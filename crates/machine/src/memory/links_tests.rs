//! Whose lines wait for each other on busy links.

use probe::{Access, Request};
use units::{Addr, Clos, CoreId, Line, Ps, Size, Span};

use super::applications::REUSED;
use super::engines_tests::spec as with_engine;
use super::{
    ApplicationSpec, CopyEngineSpec, CopyTableSpec, Hierarchy, HomeSocket, Inclusion, Interconnect, MemorySpec,
    SocketsSpec,
};
use crate::cache::Victim;
use crate::{Memory, PrivateLookup, Served};

const INTERVAL: u64 = 50_000;

fn request(core: u16, line: u64) -> Request {
    Request {
        addr: Addr(line * 64),
        bytes: 64,
        site: 0,
        access: Access::Load,
        clos: Clos(0),
        core: CoreId(core),
        mapping: 0,
    }
}

/// Of two lines of the same slice, away from stop 0, that are asked for together: what the second takes longer because
/// links are busy.
fn waits(run: impl Fn(&MemorySpec, [u64; 2]) -> (Ps, Served), served: Served) -> u64 {
    let took = [None, Some(Span::from_ns(INTERVAL as f64 / 1000.0))].map(|interval| {
        let mut spec = MemorySpec { copy_engine: None, ..with_engine(CopyEngineSpec::NonTemporal, 0b0011) };
        (spec.llc.slices, spec.llc.inclusion) = (2, Inclusion::NonInclusive);
        spec.llc.size = Size::from_bytes(64 * 64 * 2);
        spec.llc.interconnect = Some(Interconnect::Ring { hop: Span::from_ns(0.5), interval, device: 0 });
        let memory = Hierarchy::new(&spec, 2, "machine").unwrap();
        let mut far = (0..16).filter(|&line| memory.llc.spot(Line(line)).slice() == 1);
        let lines = [far.next().unwrap(), far.next().unwrap()];
        let (took, by) = run(&spec, lines);
        assert_eq!(by, served);
        took
    });
    took[1].since(took[0]).0
}

#[test]
fn what_passes_the_llc_waits_for_links() {
    let past = |spec: &MemorySpec, lines: [u64; 2]| {
        let mut memory = Hierarchy::new(spec, 2, "machine").unwrap();
        let none = ApplicationSpec { llc: false, ..ApplicationSpec::default() };
        memory.tell_apart(&[("tables", &none)], &[std::iter::once(0..100).collect()], "machine.applications").unwrap();
        let responses = lines.map(|line| memory.access(&request(0, line), Ps(1_000_000)));
        assert_eq!(responses[1].path.total(), responses[1].at - Ps(1_000_000));
        (responses[1].at, responses[1].served)
    };
    assert_eq!(waits(past, Served::Dram), INTERVAL);
}

#[test]
fn what_leaves_l2_for_a_slice_or_memory_takes_links_and_nothing_else_does() {
    let bypass = ApplicationSpec { bypass: true, ..ApplicationSpec::default() };
    // Of a device's write from stop 0 to slice 1, when a line has just left the L2 of core 0, at stop 0, for there.
    let waits = |dirty: bool, owner: u8, is_there: bool| {
        let took = [false, true].map(|leaves| {
            let mut spec = MemorySpec { copy_engine: None, ..with_engine(CopyEngineSpec::NonTemporal, 0b0011) };
            (spec.llc.slices, spec.llc.inclusion) = (2, Inclusion::NonInclusive);
            spec.llc.size = Size::from_bytes(64 * 64 * 2);
            let interval = Some(Span::from_ns(INTERVAL as f64 / 1000.0));
            spec.llc.interconnect = Some(Interconnect::Ring { hop: Span::from_ns(0.5), interval, device: 0 });
            let mut memory = Hierarchy::new(&spec, 2, "machine").unwrap();
            let ranges = [std::iter::once(0..100).collect()];
            memory.tell_apart(&[("tables", &bypass)], &ranges, "machine.applications").unwrap();
            let mut far = (0..16).filter(|&line| memory.llc.spot(Line(line)).slice() == 1);
            let [line, other] = [far.next().unwrap(), far.next().unwrap()];
            if is_there {
                memory.dma_write(Line(line), 1, Ps(1_000));
            }
            let now = Ps(10_000_000);
            if leaves {
                let victim = Victim { line: Line(line), dirty, owner };
                let lookup = PrivateLookup { victims: [Some(victim), None], ..PrivateLookup::default() };
                memory.settle(&lookup, &request(0, 1000), now);
            }
            memory.dma_write(Line(other), 1, now) - now
        });
        took[1] > took[0]
    };
    for is_there in [false, true] {
        assert!(waits(true, 0, is_there) && waits(true, REUSED, is_there));
        assert!(!waits(false, 0, is_there));
        assert_eq!(waits(false, REUSED, is_there), !is_there);
    }
}

#[test]
fn what_a_copy_table_serves_waits_for_links() {
    let copied = |spec: &MemorySpec, lines: [u64; 2]| {
        let table =
            CopyTableSpec { entries: Some(64), ways: 2, latency: Span::from_ns(1.0), ..CopyTableSpec::default() };
        let spec = MemorySpec { copy_table: Some(table), ..spec.clone() };
        let mut memory = Hierarchy::new(&spec, 2, "machine").unwrap();
        for (i, line) in lines.into_iter().enumerate() {
            memory.copy(&request(0, line), &request(0, 1000 + line), Ps(1_000_000 * i as u64));
        }
        let responses = lines.map(|line| memory.access(&request(0, 1000 + line), Ps(10_000_000)));
        assert_eq!(responses[1].path.total(), responses[1].at - Ps(10_000_000));
        (responses[1].at, responses[1].served)
    };
    assert_eq!(waits(copied, Served::Engine), INTERVAL);
}

#[test]
fn what_another_sockets_llc_serves_waits_for_its_links() {
    let afar = |spec: &MemorySpec, lines: [u64; 2]| {
        let mut memory = Hierarchy::new(spec, 4, "machine").unwrap();
        let sockets = SocketsSpec {
            count: 2,
            cores: Vec::new(),
            nic: 0,
            hop: Span::from_ns(40.0),
            rate: "160 Gbps".parse().unwrap(),
            memory: HomeSocket::Local,
            regions: Default::default(),
        };
        memory.on_sockets(&sockets, spec, &[], "machine").unwrap();
        for line in lines {
            memory.dma_write(Line(line), 1, Ps(1_000_000 * line));
        }
        // Core 3 is where slice 1 of its own socket is: no links of its own are on the way.
        let responses = lines.map(|line| memory.access(&request(3, line), Ps(100_000_000)));
        assert_eq!(responses[1].path.total(), responses[1].at - Ps(100_000_000));
        assert_eq!(memory.socket_counters().unwrap().remote_llc, 2);
        (responses[1].at, responses[1].served)
    };
    assert_eq!(waits(afar, Served::Dram), INTERVAL);
}
