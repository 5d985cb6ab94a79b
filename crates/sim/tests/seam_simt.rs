//! Seam: packet functions under a warp (`gpu-router`): lookups, forwarding, and NAT with locks.
//!
//! The function runs once a lane and each lane's stream is recorded. Lanes are merged into warp
//! instructions by minimum site; a latch at the end of a loop body is where lanes meet again; a
//! lane that waits for a lock is left out until it can have it, or the lanes before it would wait
//! for it for ever. References are placed lane by lane and coalesced into 32-byte sectors.

use std::collections::{BTreeSet, HashMap};

use engine::Seed;
use functions::lookup::{Dir24_8, Dir24Spec, Entry, NextHop};
use functions::{Forward, ForwardSpec, PacketFunction, Verdict};
use packet::{Packet, Prefix, internet_checksum};
use probe::{Event, Layout, Null, Placed, Probe, Record, Ref, RegionId, Request, Requests};
use rand::Rng;
use units::{Addr, Clos, CoreId, LINE_BYTES, LockId, PacketId, Ps};

const LANES: usize = 32;
const SECTOR: u64 = 32;

/// Tables one after the other, packets 2 KiB apart.
struct Flat;

impl Layout for Flat {
    fn place(&self, r: &Ref, packet: &Placed, out: &mut Requests) {
        let start = match r.region {
            RegionId::PACKET => packet.data.0,
            RegionId::MBUF => packet.mbuf.0,
            RegionId(n) => u64::from(n) << 32,
        };
        let (mut at, end) = (start + r.offset, start + r.offset + u64::from(r.bytes));
        while at < end {
            let bytes = (LINE_BYTES - at % LINE_BYTES).min(end - at);
            let Placed { clos, core, .. } = *packet;
            out.push(Request { addr: Addr(at), bytes: bytes as u16, site: r.site, access: r.access, clos, core });
            at += bytes;
        }
    }
}

fn placed(lane: usize) -> Placed<'static> {
    let at = lane as u64 * 2048;
    let (packet, mbuf, data) = (PacketId(lane as u64), Addr(at), Addr(at + 256));
    Placed { packet, core: CoreId(0), clos: Clos(0), mbuf, data, cells: &[] }
}

/// A warp instruction: who takes part, and the sectors it touches.
#[derive(Debug, PartialEq)]
struct Instruction {
    site: u16,
    lanes: Vec<usize>,
    sectors: usize,
}

/// Lanes that wait for each other's locks.
#[derive(Debug, PartialEq)]
struct Deadlock(Vec<usize>);

struct Lane {
    at: usize,
    site: u16,
}

/// Merges lanes by minimum site. Work, latches and unlocks order the lanes but count as nothing.
fn merge(records: &[Record], latches: bool) -> Result<Vec<Instruction>, Deadlock> {
    let mut lanes: Vec<_> = records.iter().map(|_| Lane { at: 0, site: 0 }).collect();
    let mut holder: HashMap<LockId, usize> = HashMap::new();
    let mut out = Vec::new();
    loop {
        let mut next: Vec<(u16, usize, Event, usize)> = Vec::new();
        let mut blocked = Vec::new();
        for (i, lane) in lanes.iter_mut().enumerate() {
            while let Some((event, after)) = records[i].event(lane.at) {
                let skip = matches!(event, Event::Begin(_) | Event::End(_))
                    || matches!(event, Event::Latch { .. } if !latches);
                if !skip {
                    match event {
                        Event::Touch(r) => lane.site = r.site,
                        Event::Copy { src, .. } => lane.site = src.site,
                        Event::Work { site, .. } | Event::Latch { site } => lane.site = site,
                        // Locks have no place of their own: they are where the lane was last.
                        _ => {}
                    }
                    match event {
                        Event::Lock(lock) if holder.get(&lock).is_some_and(|&h| h != i) => blocked.push(i),
                        _ => next.push((lane.site, i, event, after)),
                    }
                    break;
                }
                lane.at = after;
            }
        }
        let Some(&(site, _, first, _)) = next.iter().min_by_key(|n| (n.0, n.1)) else {
            return if blocked.is_empty() { Ok(out) } else { Err(Deadlock(blocked)) };
        };
        next.retain(|n| n.0 == site && std::mem::discriminant(&n.2) == std::mem::discriminant(&first));
        let (mut active, mut sectors) = (Vec::new(), BTreeSet::new());
        let mut requests = Requests::new();
        for (_, i, event, after) in next {
            match event {
                // Of the lanes that want the same lock one gets it.
                Event::Lock(lock) if *holder.entry(lock).or_insert(i) != i => continue,
                Event::Unlock(lock) => assert_eq!(holder.remove(&lock), Some(i)),
                Event::Touch(r) => Flat.place(&r, &placed(i), &mut requests),
                _ => {}
            }
            lanes[i].at = after;
            active.push(i);
        }
        for r in &requests {
            sectors.extend(r.addr.0 / SECTOR..=(r.addr.0 + u64::from(r.bytes) - 1) / SECTOR);
        }
        if matches!(first, Event::Touch(_) | Event::Lock(_)) {
            out.push(Instruction { site, lanes: active, sectors: sectors.len() });
        }
    }
}

/// Lanes that take part in an instruction, on average, of those there are.
fn efficiency(instructions: &[Instruction], lanes: usize) -> f64 {
    let active: usize = instructions.iter().map(|i| i.lanes.len()).sum();
    active as f64 / (instructions.len() * lanes) as f64
}

fn record(f: impl FnOnce(&mut Record)) -> Record {
    let mut record = Record::new();
    f(&mut record);
    record
}

fn load(site: u16, offset: u64) -> Ref {
    Ref::load(RegionId::FIRST_TABLE, offset, 4, site)
}

#[test]
fn uniform_lanes_are_one_instruction_stream_and_share_sectors() {
    let lanes: Vec<_> = (0..LANES as u64)
        .map(|lane| {
            record(|r| {
                r.touch(load(1, lane * 4));
                r.touch(load(2, lane * 64));
                r.touch(Ref::load(RegionId::PACKET, 30, 4, 3));
            })
        })
        .collect();
    let merged = merge(&lanes, true).unwrap();
    assert_eq!(efficiency(&merged, LANES), 1.0);
    // 8 lanes a sector; a sector a lane; bytes 286 to 289 of each packet's 2 KiB cross a sector.
    assert_eq!(merged.iter().map(|i| i.sectors).collect::<Vec<_>>(), [4, 32, 64]);
}

#[test]
fn without_a_latch_the_shorter_body_runs_ahead() {
    let body = |r: &mut Record, long: bool| {
        r.touch(load(1, 0));
        if long {
            r.touch(load(2, 0));
        }
        r.latch(3);
    };
    let lanes = [false, true].map(|long| record(|r| (0..2).for_each(|_| body(r, long))));
    let sites = |latches| merge(&lanes, latches).unwrap().iter().map(|i| (i.site, i.lanes.len())).collect::<Vec<_>>();
    assert_eq!(sites(true), [(1, 2), (2, 1), (1, 2), (2, 1)]);
    assert_eq!(sites(false), [(1, 2), (1, 1), (2, 1), (1, 1), (2, 1)]);
}

#[test]
fn lookups_of_one_or_two_levels_need_their_latch() {
    let mut rng = Seed(3).stream("lookups");
    let mut routes = vec![(10 << 24, 8, NextHop::from(0))];
    // Of 256 networks, 108 (42 %) have a route of 25 bits.
    let long = |net: u32| net * 108 / 256 != (net + 1) * 108 / 256;
    routes.extend((0..256).filter(|&n| long(n)).map(|n| (10 << 24 | n << 8, 25, NextHop::from(1))));
    let table = Dir24_8::<u16>::new(routes, Dir24Spec::default()).unwrap();
    let lanes: Vec<_> = (0..LANES)
        .map(|_| {
            record(|r| {
                for _ in 0..16 {
                    let dst = 10 << 24 | rng.next_u32() & 0xffff;
                    let mut entry = table.first(dst);
                    r.touch(Ref::load(RegionId(16), Dir24_8::<u16>::tbl24_index(dst) as u64 * 2, 2, 1));
                    if let Some((at, found)) = table.step(entry, dst, 1) {
                        r.touch(Ref::load(RegionId(17), at as u64 * 2, 2, 2).after(1));
                        entry = found;
                    }
                    assert_eq!(entry.next_hop(), table.lookup(dst));
                    r.latch(3);
                }
            })
        })
        .collect();
    let with = efficiency(&merge(&lanes, true).unwrap(), LANES);
    let without = efficiency(&merge(&lanes, false).unwrap(), LANES);
    // Both instructions of a body are issued, the second with 42 % of the lanes: (1 + 0.42) / 2.
    assert!((0.69..0.73).contains(&with), "{with}");
    assert!(without < 0.5, "{without}");
}

fn ipv4(dst: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut header = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, dst[0], dst[1], dst[2], dst[3]];
    let sum = internet_checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    frame.extend(header);
    frame.resize(60, 0);
    frame
}

/// The function that runs on cores, a packet a lane.
fn forward(dst: impl Fn(usize) -> [u8; 4]) -> Vec<Instruction> {
    let route = |addr, len, id| (Prefix::V4 { addr, len }, NextHop::from(id));
    let network = 198 << 24 | 18 << 16;
    let routes = [route(network, 16, 0u16), route(network | 1 << 8 | 128, 25, 1)];
    let mut function = Forward::new(routes.into_iter(), 2, &ForwardSpec::default()).unwrap();
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let mut packet = Packet { id: PacketId(lane as u64), ..Packet::default() };
            packet.set_frame(&ipv4(dst(lane)), 60);
            let mut verdicts = Vec::new();
            let record = record(|r| function.process_burst(Ps::ZERO, &mut [packet], r, &mut verdicts));
            assert!(matches!(verdicts[..], [Verdict::Forward { .. }]));
            record
        })
        .collect();
    merge(&lanes, true).unwrap()
}

#[test]
fn forwarding_diverges_only_at_the_second_level() {
    for third in [0, 1] {
        let merged = forward(|lane| [198, 18, third, 128 + lane as u8]);
        assert_eq!(efficiency(&merged, LANES), 1.0, "{third}");
    }
    let merged = forward(|lane| [198, 18, lane as u8 % 2, 128]);
    let diverged: Vec<_> = merged.iter().map(|i| i.lanes.len()).filter(|&n| n < LANES).collect();
    assert_eq!(diverged, [LANES / 2]);
}

/// Translation of a flow in a hash table of chained buckets, each with a lock. 64 bytes an entry.
#[derive(Default)]
struct Nat {
    buckets: HashMap<u32, Vec<u64>>,
}

impl Nat {
    const ENTRIES: RegionId = RegionId(17);

    fn translate<P: Probe>(&mut self, flow: u64, bucket: u32, probe: &mut P) {
        // The lock has no site: what comes before gives it one that all lanes share.
        probe.latch(1);
        probe.lock(LockId(bucket));
        probe.touch(Ref::load(RegionId::FIRST_TABLE, u64::from(bucket) * 8, 8, 2));
        let chain = self.buckets.entry(bucket).or_default();
        let entry = |i: usize| (u64::from(bucket) * 64 + i as u64) * 64;
        let mut found = false;
        for (i, &other) in chain.iter().enumerate() {
            probe.touch(Ref::load(Nat::ENTRIES, entry(i), 16, 3).after(1));
            found = other == flow;
            if found {
                break;
            }
            probe.latch(4);
        }
        if !found {
            probe.touch(Ref::store(Nat::ENTRIES, entry(chain.len()), 64, 5));
            chain.push(flow);
        }
        probe.latch(6);
        probe.unlock(LockId(bucket));
        probe.touch(Ref::store(RegionId::PACKET, 26, 8, 7));
    }
}

fn nat(lanes: usize, bucket: impl Fn(usize) -> u32) -> Vec<Instruction> {
    let mut function = Nat::default();
    let lane = |i| record(|r| function.translate(i as u64, bucket(i), r));
    let lanes: Vec<_> = (0..lanes).map(lane).collect();
    merge(&lanes, true).unwrap()
}

#[test]
fn lanes_with_locks_of_their_own_stay_together() {
    let merged = nat(LANES, |lane| lane as u32);
    assert_eq!(merged.iter().map(|i| i.site).collect::<Vec<_>>(), [1, 2, 5, 7]);
    assert_eq!(efficiency(&merged, LANES), 1.0);
    Nat::default().translate(0, 0, &mut Null);
}

#[test]
fn lanes_that_want_the_same_lock_go_one_after_the_other() {
    let merged = nat(2, |_| 0);
    let steps: Vec<_> = merged.iter().map(|i| (i.site, i.lanes.as_slice())).collect();
    let (first, second, both): (&[_], &[_], &[_]) = (&[0], &[1], &[0, 1]);
    let expected = [
        // Lock, bucket, new entry; then the other lane, which passes the first one's entry.
        (1, first),
        (2, first),
        (5, first),
        (1, second),
        (2, second),
        (3, second),
        (5, second),
        (7, both),
    ];
    assert_eq!(steps, expected);
    // All 32: lane i passes i entries. Four instructions a lane, the last shared by all.
    let merged = nat(LANES, |_| 0);
    assert_eq!(merged.len(), LANES * 3 + LANES * (LANES - 1) / 2 + 1);
    assert_eq!(merged.last().unwrap().lanes.len(), LANES);
}

#[test]
fn locks_taken_in_opposite_orders_are_a_deadlock_that_is_named() {
    let lanes = [[0, 1], [1, 0]].map(|order| record(|r| order.iter().for_each(|&l| r.lock(LockId(l)))));
    assert_eq!(merge(&lanes, true), Err(Deadlock(vec![0, 1])));
}
