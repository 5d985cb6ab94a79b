//! Routes that change while a kernel looks up in their tables: every verdict is by a table that there was, on the twin, against the
//! made driver, and in every interleaving of a small case.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use functions::Adjacency;
use functions::lookup::{NextHop, Structure};
use functions::{ChecksumCheck, Forward, ForwardSpec, Lookup};
use loom::sync::atomic::AtomicU64;
use loom::thread;
use packet::{Packet, Prefix};
use router::bench::{CHANGES_PORTS, ChangesPoint, ChangesSpec, changing};
use router::cuda::{Gpu, PacketPlacement};
use router::layout::Task;
use router::persistent::KernelSetup;
use router::protocol::TaskRing;
use router::updates::{ChangingRoutes, RouteChange, UpdateDeed, UpdatePhases};
use router::{Backend, Commit, CpuThreads, KernelMachine, Persistent, RouterProgram, Twin};
use units::{PacketId, PortId};

use crate::cuda::spec;
use crate::model::{Modelled, check};

const DEADLINE: Duration = Duration::from_secs(20);
const PACKETS: usize = 4096;

fn routes(from: u16) -> impl Iterator<Item = (Prefix, NextHop)> {
    let prefixes = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.128/25", "2001:db8::/32", "2001:db8:0:1::/64"];
    (from..).zip(prefixes).map(|(i, prefix)| (prefix.parse().unwrap(), NextHop::from(i)))
}

fn lookup(from: u16, structure: Structure) -> ChangingRoutes {
    ChangingRoutes::Lookup(Lookup::new(routes(from), CHANGES_PORTS, structure).unwrap(), CHANGES_PORTS)
}

fn forward(from: u16) -> ChangingRoutes {
    let adjacency = |id| Adjacency::numbered(id, PortId(id as u16));
    let adjacencies = (0..u32::from(CHANGES_PORTS)).map(adjacency).collect();
    ChangingRoutes::Forward(Forward::with_adjacencies(routes(from), adjacencies, &ForwardSpec::default()).unwrap())
}

/// To few addresses, so that many packets meet each change.
fn packets() -> Vec<Packet> {
    let packet = |n: usize| {
        let (mut frame, last) = (vec![0xee; 12], (n / 4 % 8 * 32 + 1) as u8);
        match n % 4 {
            3 => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64]);
                frame.extend([0x20, 1, 0xd, 0xb8, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 1]);
                frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, last & 1, 0, 0, 0, 0, 0, 0, 0, last]);
            }
            n => {
                frame.extend([8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1]);
                frame.extend([10, 1, n as u8 + 1, last]);
            }
        }
        let mut packet = Packet { id: PacketId(n as u64), ..Packet::default() };
        packet.set_frame(&frame, frame.len() as u32);
        packet
    };
    (0..PACKETS).map(packet).collect()
}

/// To addresses that share no entry of tbl24: each route to one of them takes up to 13 groups of tbl8, of which there are 256.
fn far_apart() -> Vec<Packet> {
    let packet = |n: usize| {
        let mut frame = vec![0xee; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64]);
        frame.extend([0x20, 1, 0xd, 0xb8, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame.extend([0x20, 2, (n % 64) as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let mut packet = Packet { id: PacketId(n as u64), ..Packet::default() };
        packet.set_frame(&frame, frame.len() as u32);
        packet
    };
    (0..PACKETS).map(packet).collect()
}

fn changed(machine: impl KernelMachine, commit: Commit, told: &ChangingRoutes) -> ChangesPoint {
    changed_for(machine, commit, told, &packets(), 32)
}

fn changed_for(
    machine: impl KernelMachine,
    commit: Commit,
    told: &ChangingRoutes,
    packets: &[Packet],
    batch: u32,
) -> ChangesPoint {
    changed_in(machine, (&lookup(0, Structure::Dir24), &[], &[]), (commit, batch), told, packets)
}

/// Routes, and what a chain has before and after them.
type Around<'a> = (&'a ChangingRoutes, &'a [RouterProgram], &'a [RouterProgram]);

fn changed_in(
    machine: impl KernelMachine,
    (routes, before, after): Around<'_>,
    (commit, batch): (Commit, u32),
    told: &ChangingRoutes,
    packets: &[Packet],
) -> ChangesPoint {
    let setup = KernelSetup { slots: PACKETS as u64, commit, deadline: DEADLINE, ..KernelSetup::default() };
    let mut backend = Persistent::with_updates(machine, routes, before, after, setup).unwrap();
    // A packet a 50 us, and a change a 20 us.
    let spec = ChangesSpec { per_second: 50_000.0, batch, mpps: Some(0.02), seed: 7 };
    changing(&mut backend, packets, told, &spec).unwrap()
}

fn sound(what: &str, point: &ChangesPoint) {
    assert_eq!((point.wrong, point.made.refused, point.packets), (0, 0, PACKETS as u64), "{what}: {point:?}");
    // Changes were done while packets went, and packets saw them.
    assert!(point.made.done > 100 && point.other > 100, "{what}: {point:?}");
}

#[test]
fn on_the_twin_every_verdict_is_by_a_table_that_there_was() {
    for (name, commit) in Commit::ALL {
        sound(name, &changed(Twin::new(2), commit, &lookup(0, Structure::Dir24)));
    }
}

#[test]
fn on_a_gpu_every_verdict_is_by_a_table_that_there_was() {
    for placement in [PacketPlacement::ZeroCopy, PacketPlacement::Resident] {
        let gpu = Gpu::open(&spec("SOUND", placement)).unwrap();
        sound(&format!("{placement:?}"), &changed(gpu, Commit::Device, &lookup(0, Structure::Dir24)));
    }
}

#[test]
fn in_forwarding_and_in_a_chain_every_verdict_is_by_a_table_that_there_was() {
    let packets = packets();
    let (check, ttl) = (RouterProgram::check(ChecksumCheck::Nic, CHANGES_PORTS), RouterProgram::ttl(CHANGES_PORTS));
    let alone =
        |told: &ChangingRoutes| changed_in(Twin::new(2), (&forward(0), &[], &[]), (Commit::Device, 32), told, &packets);
    sound("forward", &alone(&forward(0)));
    assert!(alone(&forward(100)).wrong > 100, "verdicts by other tables are found");
    let within = lookup(0, Structure::Dir24);
    let chain: Around<'_> = (&within, std::slice::from_ref(&check), &[]);
    sound("check,lookup", &changed_in(Twin::new(2), chain, (Commit::Host, 32), &within, &packets));
    // The port is the lookup's where what follows chooses none.
    let gpu = Gpu::open(&spec("SOUND", PacketPlacement::ZeroCopy)).unwrap();
    let routes = forward(0);
    let chain: Around<'_> = (&routes, std::slice::from_ref(&check), std::slice::from_ref(&ttl));
    sound("check,forward,ttl", &changed_in(gpu, chain, (Commit::Device, 32), &routes, &packets));
}

#[test]
fn a_next_hop_without_adjacency_is_refused_and_changes_nothing() {
    let mut routes = forward(0).unshared().unwrap();
    let to = |hop: u32| RouteChange { prefix: "10.9.0.0/16".parse().unwrap(), next_hop: NextHop::new(hop) };
    assert!(routes.update(to(u32::from(CHANGES_PORTS))).unwrap().is_err());
    let address = "10.9.1.1".parse().unwrap();
    assert_eq!(routes.next_hop(address), NextHop::new(0));
    assert_eq!(routes.update(to(5)).unwrap().unwrap(), None);
    assert_eq!(routes.next_hop(address), NextHop::new(5));
    let shared = routes.clone();
    assert!(routes.update(to(6)).is_none() && shared.next_hop(address) == NextHop::new(5));
}

#[test]
fn verdicts_by_other_tables_are_found() {
    let point = changed(Twin::new(1), Commit::Device, &lookup(100, Structure::Dir24));
    assert!(point.wrong > 100, "{point:?}");
}

#[test]
fn a_change_that_was_refused_is_not_judged_as_made() {
    let point = changed_for(Twin::new(1), Commit::Device, &lookup(0, Structure::Dir24), &far_apart(), 32);
    // Groups that rest have no room for what those who make the changes again would have room for.
    assert!(point.made.refused > 50 && point.other > 100, "{point:?}");
    assert_eq!(point.wrong, 0, "{point:?}");
}

#[test]
fn packets_of_tasks_that_are_shorter_than_a_warp_are_all_judged() {
    let told = lookup(100, Structure::Dir24);
    let wrong = |batch| changed_for(Twin::new(1), Commit::Device, &told, &packets(), batch).wrong;
    let (short, whole) = (wrong(8), wrong(32));
    assert!(short * 2 > whole && whole > 100, "{short} wrong in tasks of 8, {whole} in tasks of 32");
}

#[test]
fn what_cannot_change_says_so() {
    let change = RouteChange { prefix: "10.0.0.0/8".parse().unwrap(), next_hop: None };
    let program = lookup(0, Structure::Dir24).program();
    let mut threads = CpuThreads::new(&program, 1, 1024, Commit::Device, DEADLINE).unwrap();
    let setup = KernelSetup { slots: 1024, deadline: DEADLINE, ..KernelSetup::default() };
    let mut kernel = Persistent::new(Twin::new(1), &program, setup).unwrap();
    let poptrie = Persistent::with_updates(Twin::new(1), &lookup(0, Structure::Poptrie), &[], &[], setup);
    for error in [threads.change(change).err(), kernel.change(change).err(), poptrie.err()] {
        let error = error.unwrap().to_string();
        assert!(error.contains("by DIR-24-8 alone"), "{error}");
    }
}

/// A table of two entries, which are next hops, or from `GROUP` on a group of one word that says what each address has.
struct SmallTable {
    ring: TaskRing<Modelled>,
    entries: [AtomicU64; 2],
    group: AtomicU64,
}

const GROUP: u64 = 1 << 32;

impl SmallTable {
    fn look_up(&self, address: usize) -> u64 {
        let entry = self.entries[address].load(Ordering::Relaxed);
        if entry < GROUP { entry } else { self.group.load(Ordering::Relaxed) }
    }
}

/// Which of the two graces is kept.
#[derive(Clone, Copy)]
struct Graces {
    before_links: bool,
    before_use: bool,
}

/// The group goes from address 0, which has 10 in it, to address 1, which has 20 in it, while workers look up the one and the other:
/// each has its own answer. Entries and groups are written as [`UpdatePhases`] says.
fn moved(graces: Graces) {
    check(2, move || {
        let entries = [AtomicU64::new(GROUP), AtomicU64::new(20)];
        let table = Arc::new(SmallTable { ring: TaskRing::new(4, 0), entries, group: AtomicU64::new(10) });
        // A worker for each task, which is there when it comes.
        let post = |number: u64, address| {
            table.ring.post(number, Task { first: address, count: 1 });
            let table = table.clone();
            thread::spawn(move || {
                let ticket = table.ring.draw();
                let Some(task) = table.ring.wait(ticket) else { return };
                let answer = table.look_up(task.first as usize);
                assert_eq!(answer, [10, 20][task.first as usize], "another address's answer");
                table.ring.commit(ticket);
            })
        };
        let mut workers = vec![post(0, 0)];
        let mut phases = UpdatePhases::default();
        let advance = |phases: &mut UpdatePhases, wanted: UpdateDeed, posted, keeps: bool| {
            while phases.next(true, posted, if keeps { table.ring.head() } else { posted }) != wanted {
                thread::yield_now();
            }
        };
        // Address 0 has 10 by itself, and the group is free once nobody is in it.
        phases.begin(false);
        table.entries[0].store(10, Ordering::Relaxed);
        advance(&mut phases, UpdateDeed::Rested, 1, graces.before_use);
        // It is address 1's once nobody is left who has not seen what is in it. Who comes meanwhile has seen it.
        workers.push(post(1, 1));
        phases.begin(true);
        table.group.store(20, Ordering::Relaxed);
        assert_eq!(phases.next(true, 2, 0), UpdateDeed::Wait);
        workers.push(post(2, 1));
        advance(&mut phases, UpdateDeed::Link, 2, graces.before_links);
        table.entries[1].store(GROUP, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn a_group_is_never_seen_with_what_another_address_has() {
    moved(Graces { before_links: true, before_use: true });
}

/// What is checked here is that the model can see it at all.
#[test]
fn without_its_graces_the_model_finds_a_mixed_answer() {
    let found = |before_links, before_use| {
        let found = std::panic::catch_unwind(|| moved(Graces { before_links, before_use })).err();
        found
            .is_some_and(|why| why.downcast_ref::<String>().is_some_and(|why| why.contains("another address's answer")))
    };
    assert!(found(false, true), "the model misses a group that is linked before it is seen");
    assert!(found(true, false), "the model misses a group that is used again too early");
}
