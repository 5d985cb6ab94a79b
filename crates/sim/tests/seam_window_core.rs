//! Seam: `Ref::dep` tells a pointer chase from misses that can overlap, on a core with a limited
//! number of outstanding misses.
//!
//! A core of a few lines replays a recording through a `Layout` into a `Level` of fixed latency.
//! The times are closed forms: n references that depend on each other take n latencies, n
//! independent ones n latencies over the misses that may be outstanding.

use machine::{Level, Response, Served};
use probe::{Event, Layout, Placed, Probe, Record, Ref, RegionId, Request, Requests};
use stats::{Path, Reason};
use units::{Addr, Clos, CoreId, LINE_BYTES, PacketId, Ps};

const LATENCY: Ps = Ps::from_ns(100);

/// Memory in which everything takes the same time.
struct Fixed;

impl Level for Fixed {
    fn access(&mut self, _: &Request, now: Ps) -> Response {
        let mut path = Path::default();
        path.push(Reason::RowMiss, LATENCY);
        Response { at: now + LATENCY, served: Served::Dram, path }
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
            out.push(Request { addr, bytes: bytes as u16, site: r.site, access: r.access, clos, core });
            at += bytes;
        }
    }
}

/// When the last of a recording's references is done, with `outstanding` misses at most.
fn replay(record: &Record, outstanding: usize) -> Ps {
    let nowhere = Addr(0);
    let placed =
        Placed { packet: PacketId(0), core: CoreId(0), clos: Clos(0), mbuf: nowhere, data: nowhere, cells: &[] };
    let mut free = vec![Ps::ZERO; outstanding];
    let mut done: Vec<Ps> = Vec::new();
    let mut requests = Requests::new();
    for event in record.iter() {
        let Event::Touch(r) = event else { continue };
        let address_known = match r.dep {
            0 => Ps::ZERO,
            back => done[done.len() - usize::from(back)],
        };
        requests.clear();
        Flat.place(&r, &placed, &mut requests);
        // A reference is done when all its requests are.
        let mut all = address_known;
        for request in &requests {
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
    assert_eq!(replay(&copy.0, 16), LATENCY * 2);
    assert_eq!(replay(&copy.0, 1), LATENCY * 16);
}
