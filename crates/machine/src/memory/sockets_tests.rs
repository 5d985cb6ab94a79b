//! Several sockets, against times added up by hand and against what no cache may lose.

use std::collections::{BTreeMap, HashMap};

use probe::{Access, Request};
use proptest::prelude::*;
use stats::Reason;
use units::{Addr, Cbm, Clos, CoreId, Line, Ps, Rate, Size, Span};

use super::llc::Requester;
use super::{Extent, Hierarchy, HomeSocket, Inclusion, LlcSpec, MemorySpec, SocketsSpec, Ways};
use crate::cache::CacheSpec;
use crate::copy_table::Move;
use crate::dram::{DramSpec, PagePolicy};
use crate::{Response, Served};

const NS: u64 = 1_000;
const LLC: u64 = 20 * NS;
/// Closed bank: overhead, row, column, burst.
const MISS: u64 = (20 + 14 + 14 + 3) * NS;
const HOP: u64 = 40 * NS;
/// 16 and 80 bytes at 20 bytes a nanosecond.
const MESSAGE: u64 = 800;
const DATA: u64 = 4 * NS;
const ROUND: u64 = 2 * HOP + MESSAGE + DATA;

fn memory(inclusion: Inclusion) -> MemorySpec {
    let ns = Span::from_ns;
    let cache =
        |lines: u64, ways: u32, latency| CacheSpec { size: Size::from_bytes(lines * 64), ways, latency: ns(latency) };
    MemorySpec {
        l1: cache(8, 2, 1.0),
        l2: cache(16, 4, 4.0),
        tlb: None,
        prefetcher: None,
        waiting_prefetches: 0,
        llc: LlcSpec {
            size: Size::from_bytes(32 * 64),
            ways: 4,
            latency: ns(20.0),
            slices: 2,
            hash: Default::default(),
            interval: ns(0.0),
            interconnect: None,
            inclusion,
            replacement: Default::default(),
            core_age: 2,
            io_age: 3,
            core_ways: None,
            io_ways: Ways::Mask(Cbm(0b0011)),
            inclusive_ways: None,
            snoop: ns(10.0),
            coherence: Default::default(),
            tenants: None,
        },
        dram: DramSpec {
            standard: None,
            page: PagePolicy::Closed,
            channels: 2,
            banks: 64,
            row: Size::from_bytes(2048),
            t_cl: ns(14.0),
            t_rcd: ns(14.0),
            t_rp: ns(14.0),
            t_ras: ns(32.0),
            t_burst: ns(3.0),
            // Far from what is measured.
            t_refi: ns(1e9),
            currents: None,
            t_rfc: ns(350.0),
            overhead: ns(20.0),
            all_hits: false,
            controller: None,
        },
        copy_table: None,
        copy_engine: None,
    }
}

fn sockets() -> SocketsSpec {
    SocketsSpec {
        count: 2,
        cores: Vec::new(),
        nic: 0,
        hop: Span::from_ns(40.0),
        rate: Rate::from_gbps(160.0),
        memory: HomeSocket::Local,
        regions: BTreeMap::new(),
    }
}

/// Four cores, two on each socket; the second megabyte is core 3's.
fn extents() -> Vec<Extent> {
    let extent = |name: &str, group, core: Option<u16>, at: u64| Extent {
        name: name.into(),
        group,
        core: core.map(CoreId),
        bytes: at << 20..(at + 1) << 20,
    };
    vec![extent("mbufs", "mempool", None, 0), extent("rx ring", "rings", Some(3), 1)]
}

fn build(inclusion: Inclusion, sockets: &SocketsSpec) -> Hierarchy {
    let spec = memory(inclusion);
    let mut memory = Hierarchy::new(&spec, 4, "machine").unwrap();
    memory.on_sockets(sockets, &spec, &extents(), "machine").unwrap();
    memory
}

fn request(core: u16, addr: u64, access: Access) -> Request {
    Request { addr: Addr(addr), bytes: 8, site: 0, access, clos: Clos(0), core: CoreId(core), mapping: 0 }
}

fn after(memory: &mut Hierarchy, core: u16, addr: u64, access: Access, now: u64) -> (u64, Response) {
    let response = memory.access(&request(core, addr, access), Ps(now));
    assert_eq!(response.path.total(), response.at - Ps(now), "{:?}", response.path);
    (response.at.0 - now, response)
}

#[test]
fn an_unloaded_remote_read_takes_a_local_one_and_the_way_there_and_back() {
    let mut memory = build(Inclusion::NonInclusive, &sockets());
    // The mempool is at the NIC's socket, which is that of cores 0 and 1; the ring is at core 3's.
    assert_eq!(after(&mut memory, 0, 0, Access::Load, 0).0, LLC + MISS);
    assert_eq!(after(&mut memory, 2, 1 << 12, Access::Load, NS * 1000).0, LLC + MISS + ROUND);
    assert_eq!(after(&mut memory, 3, 1 << 20, Access::Load, NS * 2000).0, LLC + MISS);
    let (took, far) = after(&mut memory, 1, (1 << 20) + (1 << 12), Access::Load, NS * 3000);
    assert_eq!(took, LLC + MISS + ROUND);
    let link = far.path.iter().find(|(reason, _)| *reason == Reason::SocketLink);
    assert_eq!(link, Some((Reason::SocketLink, Ps(ROUND))));
    let counters = memory.socket_counters().unwrap();
    assert_eq!((counters.local_reads, counters.remote_reads), (2, 2));
    assert_eq!(counters.links.iter().map(|(.., link)| link.bytes).sum::<u64>(), 2 * (16 + 80));
    assert_eq!(memory.dram_counters().reads, 4);
    // Two channels on each of two sockets.
    assert_eq!(memory.dram_peak_bytes_per_s(), 4.0 * 64.0 / 3e-9);
}

#[test]
fn what_another_socket_has_comes_from_there() {
    let mut memory = build(Inclusion::NonInclusive, &sockets());
    after(&mut memory, 2, 0, Access::Store, 0);
    // Dirty in core 2: its socket is asked, and the data come over the link.
    let (took, response) = after(&mut memory, 0, 0, Access::Load, NS * 1000);
    assert_eq!((took, response.served), (LLC + 10 * NS + ROUND, Served::Snoop));
    // Core 1 finds it in its own socket's LLC then.
    assert_eq!(after(&mut memory, 1, 0, Access::Load, NS * 2000).0, LLC);
    // The LLC of core 3's socket had it as it was before core 2's store, and has it no more: core 2 gives it to core 3. To write
    // it the others have to give it up, without data.
    let (took, response) = after(&mut memory, 3, 0, Access::Store, NS * 3000);
    assert_eq!((took, response.served), (LLC + 10 * NS + 2 * HOP + 2 * MESSAGE, Served::Snoop));
    assert_eq!(memory.socket_counters().unwrap().remote_snoops, 1);

    // A device writes what the other socket has in its LLC alone.
    let mut memory = build(Inclusion::NonInclusive, &sockets());
    after(&mut memory, 2, 0, Access::Load, 0);
    for line in 1..40u64 {
        after(&mut memory, 2, line * 64 * 64, Access::Load, NS * 1000 * line);
    }
    let far = memory.socket_counters().unwrap().remote_llc;
    memory.dma_write(Line(0), 1, Ps(NS * 100_000));
    let (took, response) = after(&mut memory, 3, 0, Access::Load, NS * 200_000);
    assert_eq!((took, response.served), (LLC + LLC + ROUND, Served::Dram), "DDIO placed it at the NIC's socket");
    assert_eq!(after(&mut memory, 0, 0, Access::Load, NS * 300_000).0, LLC);
    assert_eq!(memory.socket_counters().unwrap().remote_llc, far + 1);
}

#[test]
fn a_device_reads_what_a_core_of_another_socket_has_over_the_link() {
    let mut memory = build(Inclusion::NonInclusive, &sockets());
    after(&mut memory, 2, 0, Access::Store, 0);
    assert_eq!(memory.dma_read(Line(0), 1, Ps(NS * 1000)), Ps(NS * 1000 + LLC + ROUND));
    assert_eq!(memory.socket_counters().unwrap().remote_snoops, 1);
    // A core of the NIC's own socket answers at the LLC's time.
    after(&mut memory, 1, 64, Access::Store, NS * 2000);
    assert_eq!(memory.dma_read(Line(1), 1, Ps(NS * 3000)), Ps(NS * 3000 + LLC));
}

#[test]
fn who_is_to_write_a_line_has_the_only_copy_of_three_sockets() {
    let three = SocketsSpec { count: 3, cores: vec![0, 1, 1, 2], ..sockets() };
    let mut memory = build(Inclusion::NonInclusive, &three);
    for (core, from) in [(1, 0), (3, NS * 100_000)] {
        // Lines of the same set of L2, and of another set of the LLC.
        for (i, line) in [0u64, 4, 12, 20, 28].into_iter().enumerate() {
            after(&mut memory, core, line * 64, Access::Load, from + NS * 1000 * i as u64);
        }
    }
    memory.enter(Requester::Core(CoreId(0)));
    assert!(memory.others_have(Line(0)));
    after(&mut memory, 0, 0, Access::Store, NS * 300_000);
    assert!(!memory.others_have(Line(0)), "a copy that is out of date from now on");
}

#[test]
fn a_device_hits_what_the_llc_of_another_socket_has() {
    let mut memory = build(Inclusion::NonInclusive, &sockets());
    // Core 2 reads a line and pushes it out of its L2; the LLC of its socket keeps it.
    for (i, line) in [0u64, 4, 12, 20, 28].into_iter().enumerate() {
        after(&mut memory, 2, line * 64, Access::Load, NS * 1000 * i as u64);
    }
    memory.enter(Requester::Device);
    assert!(memory.others_have(Line(0)) && !memory.private_has(Line(0), memory.directory.get(Line(0))));
    memory.dma_read(Line(0), 1, Ps(NS * 100_000));
    let counters = memory.counters();
    assert_eq!((counters.dma_read.hits, counters.dma_read.misses), (1, 0));
    assert_eq!(memory.socket_counters().unwrap().remote_llc, 1);
    memory.dma_write(Line(0), 1, Ps(NS * 200_000));
    let counters = memory.counters();
    assert_eq!((counters.dma_write.hits, counters.dma_write.misses), (1, 0));
    memory.dma_read(Line(1 << 12), 1, Ps(NS * 300_000));
    memory.dma_write(Line(1 << 13), 1, Ps(NS * 400_000));
    let counters = memory.counters();
    assert_eq!((counters.dma_read.misses, counters.dma_write.misses), (1, 1), "no cache has these");
}

#[test]
fn work_of_all_sockets_takes_energy() {
    let mut far = sockets();
    far.memory = HomeSocket::Socket(1);
    let mut memory = build(Inclusion::NonInclusive, &far);
    let at = after(&mut memory, 0, 0, Access::Load, 0).0;
    assert_eq!(memory.dram_work(Ps(at)).activates, 1);
}

#[test]
fn a_saturated_link_carries_its_rate() {
    let mut far = sockets();
    far.memory = HomeSocket::Socket(1);
    let mut memory = build(Inclusion::NonInclusive, &far);
    let lines = 4000u64;
    // Lines in channels and banks in turn, which are faster than the link.
    let read = |line| memory.access(&request(0, line * 33 * 64, Access::Load), Ps(0)).at.0;
    let last = (0..lines).map(read).max().unwrap();
    let expected = lines * DATA;
    assert!(last >= expected && last < expected + expected / 50, "{last} {expected}");
    let counters = memory.socket_counters().unwrap();
    let (.., back) = counters.links.iter().find(|(from, ..)| *from == 1).unwrap();
    assert_eq!((back.bytes, back.busy), (lines * 80, Ps(lines * DATA)));
}

#[test]
fn memory_lies_where_it_is_said_to() {
    let homes = |change: &dyn Fn(&mut SocketsSpec)| {
        let mut spec = sockets();
        change(&mut spec);
        let mut memory = build(Inclusion::NonInclusive, &spec);
        // Pages of the mempool, of the ring, and of what no region has, read from socket 0.
        for (i, page) in [0u64, 1, 256, 257, 512, 513].into_iter().enumerate() {
            after(&mut memory, 0, page << 12, Access::Load, NS * 1000 * i as u64);
        }
        memory.socket_counters().unwrap().remote_reads
    };
    assert_eq!(homes(&|_| {}), 2, "the ring of core 3");
    assert_eq!(homes(&|s| s.memory = HomeSocket::Interleaved), 3);
    assert_eq!(homes(&|s| s.memory = HomeSocket::Socket(1)), 6);
    assert_eq!(homes(&|s| s.cores = vec![0]), 0);
    assert_eq!(homes(&|s| s.nic = 1), 6, "tables of pages too");
    assert_eq!(
        homes(&|s| {
            s.regions.insert("mempool".into(), HomeSocket::Socket(1));
            s.regions.insert("rx ring".into(), HomeSocket::Socket(0));
        }),
        2
    );
}

#[test]
fn contradictions_are_named() {
    let bad = |change: &dyn Fn(&mut SocketsSpec)| {
        let mut sockets = sockets();
        change(&mut sockets);
        let spec = memory(Inclusion::Victim);
        let mut memory = Hierarchy::new(&spec, 4, "machine").unwrap();
        memory.on_sockets(&sockets, &spec, &extents(), "machine").unwrap_err().to_string()
    };
    assert!(bad(&|s| s.count = 1).starts_with("machine.sockets.count = 1: allowed is 2 to 8"));
    assert!(bad(&|s| s.nic = 2).starts_with("machine.sockets.nic = 2: allowed is 0 to 1, the last socket"));
    assert!(bad(&|s| s.cores = vec![0, 3]).starts_with("machine.sockets.cores[1] = 3: allowed is 0 to 1"));
    assert!(bad(&|s| s.memory = HomeSocket::Socket(9)).starts_with("machine.sockets.memory = 9: allowed is 0 to 1"));
    assert!(bad(&|s| s.rate = Rate::from_gbps(0.0)).starts_with("machine.sockets.rate = 0 Gbps: allowed is more"));
    let unknown = bad(&|s| {
        s.regions.insert("mbuf".into(), HomeSocket::Local);
    });
    assert_eq!(
        unknown,
        "machine.sockets.regions = mbuf: allowed is mbufs, mempool, rings, rx ring (name a group of regions or one of them)"
    );
}

/// What no private cache or LLC has dirty although DRAM does not have it, of the lines that were written.
fn lost(memory: &mut Hierarchy, written: &HashMap<u64, bool>) -> Vec<u64> {
    let mut lost = Vec::new();
    for (&line, &pending) in written.iter().filter(|(_, pending)| **pending) {
        assert!(pending);
        let line = Line(line);
        let mut dirty = false;
        for core in &memory.cores {
            for array in [&core.l1, &core.l2] {
                dirty |= array.find(line).is_some_and(|slot| array.is_dirty(slot));
            }
        }
        for core in [0, 2] {
            memory.enter(Requester::Core(CoreId(core)));
            let spot = memory.llc.spot(line);
            dirty |= memory.llc.remove(spot) == Some(true);
        }
        if !dirty {
            lost.push(line.0);
        }
    }
    lost
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_write_is_lost_and_every_path_sums(
        inclusion in prop_oneof![
            Just(Inclusion::NonInclusive), Just(Inclusion::Inclusive), Just(Inclusion::Victim)
        ],
        interleaved in any::<bool>(),
        list in prop::collection::vec((0u16..6, 0u64..96, any::<bool>()), 1..400),
    ) {
        let mut spec = sockets();
        if interleaved {
            spec.memory = HomeSocket::Interleaved;
        }
        let mut memory = build(inclusion, &spec);
        let mut written = HashMap::new();
        let mut seen = 0;
        for (i, &(who, line, write)) in list.iter().enumerate() {
            let now = Ps(i as u64 * 500);
            if who < 4 {
                let access = if write { Access::Store } else { Access::Load };
                let response = memory.access(&request(who, line * 64, access), now);
                prop_assert_eq!(response.path.total(), response.at - now, "{:?}", response);
            } else if write {
                memory.dma_write(Line(line), 1, now);
            } else {
                memory.dma_read(Line(line), 1, now);
            }
            let written_back = |moved: &Move| if let Move::WriteBack(line) = moved { Some(line.0) } else { None };
            let before: Vec<u64> = memory.log[seen..].iter().filter_map(written_back).collect();
            seen = memory.log.len();
            for &line in &before {
                written.insert(line, false);
            }
            // A line that its own write has driven out again may be in DRAM with what was written.
            if write && !before.contains(&line) {
                written.insert(line, true);
            }
        }
        let reads = memory.dram_counters().reads;
        let counters = memory.socket_counters().unwrap();
        prop_assert_eq!(counters.local_reads + counters.remote_reads, reads);
        let lost = lost(&mut memory, &written);
        prop_assert!(lost.is_empty(), "{lost:?}");
    }
}
