//! `Ref::dep` tells a pointer chase from misses that can overlap, on a core with a limited
//! number of outstanding misses.
//!
//! The core of the machine, and a core of a few lines that is its twin here, replay a recording
//! through a `Layout` into memory of fixed latency. The times are closed forms: n references that
//! depend on each other take n latencies, n independent ones n latencies over the misses that may
//! be outstanding.

use machine::cores::{BurstPacket, Core, CoreModel, CoreSpec, CoreStep};
use machine::{Memory, PrivateLookup, Reply, Response, Served};
use probe::{Layout, Placed, Probe, ProbeEvent, Record, Ref, RegionId, Request, Requests};
use stats::{Path, Reason};
use units::{Addr, Clos, CoreId, LINE_BYTES, Line, PacketId, Ps};

const LATENCY: Ps = Ps::from_ns(100);

/// Memory in which everything takes the same time, except the line that a core has.
struct Fixed;

const PRIVATE: Line = Line((16 << 32) / LINE_BYTES + 1000);

impl Fixed {
    fn access(&mut self, _: &Request, now: Ps) -> Response {
        let mut path = Path::default();
        path.push(Reason::RowMiss, LATENCY);
        Response { at: now + LATENCY, served: Served::Dram, path }
    }
}

impl Memory for Fixed {
    fn lookup(&mut self, request: &Request) -> PrivateLookup {
        let hit = (request.addr.line() == PRIVATE).then_some(Served::L1);
        PrivateLookup { hit, ..PrivateLookup::default() }
    }
    fn settle(&mut self, _: &PrivateLookup, _: &Request, _: Ps) {}
    fn fetch(&mut self, request: &Request, _: &PrivateLookup, now: Ps) -> Reply {
        Reply::Done(self.access(request, now))
    }
    fn private_latency(&self, _: Served) -> (Reason, Ps) {
        (Reason::L1, Ps::ZERO)
    }
}

/// One region after the other, a request a line.
struct Flat;

impl Layout for Flat {
    fn place(&self, r: &Ref, packet: &Placed, out: &mut Requests) {
        let (mut at, end) = (r.offset, r.offset + u64::from(r.bytes));
        while at < end {
            let bytes = (LINE_BYTES - at % LINE_BYTES).min(end - at);
            let addr = Addr(u64::from(r.region.0) << 32 | at);
            let Placed { clos, core, .. } = *packet;
            out.push(Request { addr, bytes: bytes as u16, site: r.site, access: r.access, clos, core, mapping: 0 });
            at += bytes;
        }
    }
}

/// When the last of a recording's references is done, with `outstanding` misses at most: the
/// machine's core and its twin agree.
fn replay(record: &Record, outstanding: usize) -> Ps {
    let time = twin(record, outstanding);
    assert_eq!(core(record, outstanding), time, "the machine's core, {outstanding} outstanding");
    time
}

fn core(record: &Record, outstanding: usize) -> Ps {
    let spec = CoreSpec {
        model: CoreModel::Window,
        frequency: "1 GHz".parse().expect("a frequency"),
        cpi: 1.0,
        rob: 512,
        outstanding: outstanding as u32,
        outstanding_prefetches: None,
        waiting_prefetches: None,
        fill_interval: None,
        l1_fill_interval: None,
        store_buffer: 64,
        poll_cycles: 1,
        store_share: None,
        packet_stall: None,
        burst_stall: None,
        stalls: None,
    };
    let mut core = Core::new(&spec, CoreId(0), "core").expect("a core");
    record.replay(core.script());
    core.start([BurstPacket { id: PacketId(0), mbuf: Addr(0), data: Addr(0), cells: 0 }], Ps::ZERO);
    match core.step(&mut Fixed, &Flat, Ps::ZERO, Ps::MAX) {
        CoreStep::Done(at) => at,
        other => panic!("{other:?}"),
    }
}

fn twin(record: &Record, outstanding: usize) -> Ps {
    let nowhere = Addr(0);
    let placed =
        Placed { packet: PacketId(0), core: CoreId(0), clos: Clos(0), mbuf: nowhere, data: nowhere, cells: &[] };
    let mut free = vec![Ps::ZERO; outstanding];
    let mut done: Vec<Ps> = Vec::new();
    let mut requests = Requests::new();
    for event in record.iter() {
        let ProbeEvent::Touch(r) = event else { continue };
        let address_known = match r.dep {
            0 => Ps::ZERO,
            back => done[done.len() - usize::from(back)],
        };
        requests.clear();
        Flat.place(&r, &placed, &mut requests);
        // A reference is done when all its requests are.
        let mut all = address_known;
        for request in requests.iter().filter(|r| r.addr.line() != PRIVATE) {
            let miss = free.iter_mut().min().expect("at least one");
            *miss = Fixed.access(request, address_known.max(*miss)).at;
            all = all.max(*miss);
        }
        done.push(all);
    }
    done.into_iter().max().unwrap_or(Ps::ZERO)
}

fn load(line: u64) -> Ref {
    Ref::load(RegionId::FIRST_TABLE, line * LINE_BYTES, 8, 0)
}

fn record(refs: impl IntoIterator<Item = Ref>) -> Record {
    let mut record = Record::new();
    refs.into_iter().for_each(|r| record.touch(r));
    record
}

#[test]
fn a_pointer_chase_takes_every_latency() {
    let chase = record((0..64).map(|i| load(i).after(u8::from(i > 0))));
    for outstanding in [1, 4, 16] {
        assert_eq!(replay(&chase, outstanding), LATENCY * 64);
    }
}

#[test]
fn independent_misses_share_latency_by_the_misses_outstanding() {
    let independent = record((0..64).map(load));
    for outstanding in [1, 4, 16] {
        assert_eq!(replay(&independent, outstanding), LATENCY * (64 / outstanding as u64));
    }
}

#[test]
fn interleaved_chains_overlap_by_their_number() {
    for chains in [2, 4, 8] {
        let interleaved = record((0..64).map(|i| load(i).after(if i < chains { 0 } else { chains as u8 })));
        assert_eq!(replay(&interleaved, 16), LATENCY * (64 / chains));
        assert_eq!(replay(&interleaved, 2), LATENCY * 32, "two at a time");
    }
}

#[test]
fn what_depends_on_a_reference_over_two_lines_waits_for_both() {
    let across = Ref::load(RegionId::FIRST_TABLE, 60, 8, 0);
    let then = record([across, load(9).after(1)]);
    assert_eq!(replay(&then, 2), LATENCY * 2);
    assert_eq!(replay(&then, 1), LATENCY * 3, "the second line, then the dependent load");
}

#[test]
fn what_depends_on_a_reference_over_two_lines_waits_for_the_first_if_that_is_late() {
    let across = Ref::load(RegionId::FIRST_TABLE, 1000 * LINE_BYTES - 4, 8, 0);
    let then = record([across, load(9).after(1)]);
    assert_eq!(twin(&then, 2), LATENCY * 2);
    assert_eq!(replay(&then, 2), LATENCY * 2);
}

#[test]
fn a_copy_loop_keeps_loads_independent_and_stores_after_their_loads() {
    struct Loop(Record);
    impl Probe for Loop {
        fn touch(&mut self, r: Ref) {
            self.0.touch(r);
        }
    }
    let mut copy = Loop(Record::new());
    let (src, dst) = (Ref::load(RegionId(16), 0, 512, 0), Ref::store(RegionId(17), 0, 512, 1));
    copy.copy(src, dst);
    assert_eq!(copy.0.iter().count(), 16);
    assert_eq!(twin(&copy.0, 16), LATENCY * 2);
    assert_eq!(twin(&copy.0, 1), LATENCY * 16);
    assert_eq!(core(&copy.0, 16), LATENCY, "stores retire before their lines are there");
}
