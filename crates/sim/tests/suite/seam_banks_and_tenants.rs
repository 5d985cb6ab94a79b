//! Seam: one `Ref` on several banks or tenants (`slices-and-stacked-dram`).
//!
//! Stacked memory holds a table split over the banks of a channel and copied to every channel; a
//! distributor sends a read to the channel that is free first, a write to all. That choice depends
//! on the state of the machine at the time of the request, which a `Layout` neither has nor should:
//! the layout gives the one address that software knows, and the machine owns the copies. Placement
//! that software decides - the memory of tenants, lines whose slice hash falls on owned slices - is
//! the layout's. Where the service rate depends on what arrives later, a `Level` cannot answer and
//! a `Controller` can; its next event then moves later, too.

use engine::{Engine, Model};
use machine::{Controller, Full, Level, Response, Served};
use probe::{Access, Layout, Placed, Ref, RegionId, Request, Requests};
use proptest::prelude::*;
use stats::{Path, Reason};
use units::{Addr, Clos, CoreId, LINE_BYTES, Line, PacketId, Ps, Ticket};

const SERVICE: Ps = Ps::from_ns(100);
const TABLE: RegionId = RegionId::FIRST_TABLE;

fn placed(packet: u64, clos: u8) -> Placed<'static> {
    let nowhere = Addr(0);
    let (packet, clos, core) = (PacketId(packet), Clos(clos), CoreId(0));
    Placed { packet, core, clos, mbuf: nowhere, data: nowhere, cells: &[] }
}

fn request(line: u64, access: Access) -> Request {
    Request { addr: Line(line).addr(), bytes: 8, site: 0, access, clos: Clos(0), core: CoreId(0), mapping: 0 }
}

/// A copy of the table in each channel, split over its two banks by line.
struct Copies {
    busy_until: Vec<[Ps; 2]>,
    /// By packet, as a layout could choose, instead of by what is free.
    fixed: bool,
    asked: u64,
}

impl Copies {
    fn new(channels: usize, fixed: bool) -> Copies {
        Copies { busy_until: vec![[Ps::ZERO; 2]; channels], fixed, asked: 0 }
    }
}

impl Level for Copies {
    fn access(&mut self, request: &Request, now: Ps) -> Response {
        let bank = request.addr.line().0 as usize % 2;
        let n = self.busy_until.len() as u64;
        self.asked += 1;
        let channels = if request.access.writes() {
            0..self.busy_until.len()
        } else {
            let at = if self.fixed {
                (self.asked % 2 % n) as usize
            } else {
                (0..self.busy_until.len()).min_by_key(|&c| self.busy_until[c][bank]).unwrap_or(0)
            };
            at..at + 1
        };
        // A write is done when its last copy is; the path is that of the last.
        let mut start = now;
        for channel in &mut self.busy_until[channels] {
            start = start.max(channel[bank]);
            channel[bank] = channel[bank].max(now) + SERVICE;
        }
        let mut path = Path::default();
        path.push(Reason::BankBusy, start - now);
        path.push(Reason::RowMiss, SERVICE);
        Response { at: start + SERVICE, served: Served::Dram, path }
    }
}

#[test]
fn reads_take_the_channel_that_is_free_and_writes_take_all() {
    let mut copies = Copies::new(3, false);
    let mut at = |line, access| {
        let response = copies.access(&request(line, access), Ps::ZERO);
        assert_eq!(response.path.total(), response.at);
        response.at.0 / SERVICE.0
    };
    // Three reads of one line at once, on three copies; a fourth waits; the other banks are free.
    assert_eq!([0; 4].map(|line| at(line, Access::Load)), [1, 1, 1, 2]);
    assert_eq!([1; 3].map(|line| at(line, Access::Load)), [1, 1, 1]);
    // The write is done with the busiest copy, and after it no copy is free before 2.
    assert_eq!(at(0, Access::Store), 3);
    assert_eq!([0; 3].map(|line| at(line, Access::Load)), [3, 3, 4]);
}

#[test]
fn a_choice_made_without_the_state_of_the_machine_waits_while_a_copy_is_idle() {
    let last = |mut copies: Copies| (0..4).map(|_| copies.access(&request(0, Access::Load), Ps::ZERO).at).max();
    assert_eq!(last(Copies::new(4, false)), Some(SERVICE));
    assert_eq!(last(Copies::new(4, true)), Some(SERVICE * 2));
}

/// A channel whose two banks slow each other down: alone a request is served at full speed, both
/// banks together at half speed each (processor sharing; mu1 and mu2 of the paper).
#[derive(Default)]
struct Interleaved {
    /// Ticket, arrival, work left, and where the time went.
    banks: [Option<(Ticket, Ps, Ps, Path)>; 2],
    now: Ps,
    tickets: u64,
}

impl Interleaved {
    fn slowdown(&self) -> u64 {
        self.banks.iter().flatten().count() as u64
    }
}

impl Controller for Interleaved {
    fn submit(&mut self, request: &Request, now: Ps) -> Result<Ticket, Full> {
        assert_eq!(self.now, now, "what happened before is done first");
        let bank = &mut self.banks[request.addr.line().0 as usize % 2];
        if bank.is_some() {
            return Err(Full);
        }
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        *bank = Some((ticket, now, SERVICE, Path::default()));
        Ok(ticket)
    }

    fn next(&self) -> Option<Ps> {
        let left = self.banks.iter().flatten().map(|b| b.2).min()?;
        Some(self.now + left * self.slowdown())
    }

    fn advance(&mut self, now: Ps, done: &mut Vec<(Ticket, Response)>) {
        while self.now < now {
            let until = self.next().map_or(now, |next| next.min(now));
            let slowdown = self.slowdown().max(1);
            for slot in &mut self.banks {
                let Some((ticket, _, left, path)) = slot else { continue };
                let elapsed = until - self.now;
                let served = elapsed / slowdown;
                *left -= served;
                path.push(Reason::RowMiss, served);
                path.push(Reason::Bus, elapsed - served);
                if *left == Ps::ZERO {
                    done.push((*ticket, Response { at: until, served: Served::Dram, path: *path }));
                    *slot = None;
                }
            }
            self.now = until;
        }
    }
}

#[derive(Clone, Copy)]
enum Event {
    Arrive(u64),
    Controller,
}

#[derive(Default)]
struct Driver {
    controller: Interleaved,
    done: Vec<(Ticket, Response)>,
    /// The latest wake-up that was arranged. Without it each one in vain would arrange another.
    armed: Option<Ps>,
    in_vain: u64,
}

impl Model for Driver {
    type Event = Event;

    fn handle(&mut self, event: Event, engine: &mut Engine<Event>) {
        let before = self.done.len();
        self.controller.advance(engine.now(), &mut self.done);
        match event {
            Event::Arrive(line) => _ = self.controller.submit(&request(line, Access::Load), engine.now()),
            Event::Controller => self.in_vain += u64::from(self.done.len() == before),
        }
        let next = self.controller.next();
        if let Some(at) = next.filter(|_| next != self.armed) {
            engine.schedule(at, 0, Event::Controller);
        }
        self.armed = next;
    }
}

#[test]
fn a_later_request_slows_an_earlier_one_down_and_its_first_wake_up_is_in_vain() {
    let (mut driver, mut engine) = (Driver::default(), Engine::new());
    engine.schedule(Ps::ZERO, 0, Event::Arrive(0));
    engine.schedule(SERVICE / 2, 0, Event::Arrive(1));
    engine.run(&mut driver, Ps::MAX);
    // Half alone, half shared: 150. The other then has half of its work left: 200.
    let answers: Vec<_> = driver.done.iter().map(|(t, r)| (t.0, r.at)).collect();
    assert_eq!(answers, [(0, SERVICE / 2 * 3), (1, SERVICE * 2)]);
    assert_eq!(driver.in_vain, 1, "the wake-up at 100, as foreseen before the second request");
    assert_eq!(driver.done[0].1.path.total(), SERVICE / 2 * 3);
    assert_eq!(driver.done[1].1.path.total(), SERVICE * 2 - SERVICE / 2);
}

const SLICES: u64 = 4;

/// A slice hash of XORed address bits, as processors have it.
fn slice_of(line: Line) -> u64 {
    let bit = |i: u32| line.0 >> i & 1;
    (bit(0) ^ bit(3) ^ bit(5)) | (bit(1) ^ bit(2) ^ bit(7)) << 1
}

/// A tenant's memory: from `base` on, those lines whose hash falls on its slices.
struct Owned {
    base: Line,
    slices: Vec<u64>,
}

impl Owned {
    /// The `n`-th line. In each aligned group of lines every slice occurs once.
    fn line(&self, n: u64) -> Line {
        let owned = self.slices.len() as u64;
        let group = self.base.0 + n / owned * SLICES;
        let wanted = self.slices[(n % owned) as usize];
        (group..group + SLICES).map(Line).find(|&l| slice_of(l) == wanted).expect("the hash permutes a group")
    }
}

/// A layout a tenant, told apart by class of service; regions have the same numbers in each.
struct Tenants(Vec<Owned>);

impl Layout for Tenants {
    fn place(&self, r: &Ref, packet: &Placed, out: &mut Requests) {
        let tenant = &self.0[usize::from(packet.clos.0)];
        let (mut at, end) = (r.offset, r.offset + u64::from(r.bytes));
        while at < end {
            let bytes = (LINE_BYTES - at % LINE_BYTES).min(end - at);
            let addr = Addr(tenant.line(at / LINE_BYTES).addr().0 + at % LINE_BYTES);
            let Placed { clos, core, .. } = *packet;
            out.push(Request { addr, bytes: bytes as u16, site: r.site, access: r.access, clos, core, mapping: 0 });
            at += bytes;
        }
    }
}

proptest! {
    #[test]
    fn tenants_stay_on_their_slices_and_apart(offsets in prop::collection::vec((0u64..40_000, 1u16..200), 1..40)) {
        let tenants = Tenants(vec![
            Owned { base: Line(0), slices: vec![0, 1, 2] },
            Owned { base: Line(4096), slices: vec![3] },
        ]);
        let mut seen = std::collections::HashMap::new();
        for (offset, bytes) in offsets {
            for clos in [0, 1] {
                let mut out = Requests::new();
                tenants.place(&Ref::load(TABLE, offset, bytes, 0), &placed(0, clos), &mut out);
                prop_assert_eq!(out.iter().map(|r| r.bytes).sum::<u16>(), bytes);
                for (i, request) in out.iter().enumerate() {
                    let line = request.addr.line();
                    prop_assert_eq!((request.addr.0 + u64::from(request.bytes) - 1) / LINE_BYTES, line.0);
                    prop_assert_eq!(slice_of(line) == 3, clos == 1);
                    // The same line always holds the same bytes of the same tenant.
                    let what = (clos, offset / LINE_BYTES + i as u64);
                    prop_assert_eq!(*seen.entry(line).or_insert(what), what);
                }
            }
        }
    }
}
