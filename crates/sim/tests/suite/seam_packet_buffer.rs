//! Seam: a packet buffer of a network processor (`row-locality`) through `Layout`, `Placed::cells`
//! and a reordering `Controller`.
//!
//! An allocator scatters a packet over 64-byte cells; one reference to the packet becomes a request
//! a cell; a controller with open rows serves them out of order, on the engine, and pushes back
//! when it is full. The packet leaves by a port's queue and frees its cells. What must hold: every
//! ticket is answered once, every cell comes back, the parts of a path sum to the latency, and the
//! allocator decides the row hits. Times are those of a 100 MHz, 64-bit SDRAM.

use std::collections::{HashMap, VecDeque};

use engine::{Engine, Model, Seed};
use machine::{Controller, Full, Level, Response, Served};
use probe::{Access, Layout, Placed, Ref, RegionId, Request, Requests};
use proptest::prelude::*;
use rand::seq::SliceRandom;
use stats::{Path, Reason};
use units::{Addr, Clos, CoreId, PacketId, Ps, Ticket};

const CELL: u64 = 64;
const CELLS: u64 = 4096;
const CELLS_A_PAGE: u64 = 32;
const ROW: u64 = 4096;
const CLOCK: Ps = Ps::from_ns(10);
const TRANSFER: Ps = Ps(CLOCK.0 * 8);
const RCD: Ps = Ps(CLOCK.0 * 4);
const RP: Ps = Ps(CLOCK.0 * 2);

/// Where free cells come from.
#[derive(Clone)]
enum Allocator {
    /// Single cells, handed out as they came back.
    FineGrain(VecDeque<Addr>),
    /// A frontier within one page; a page returns to the pool when all its cells have.
    PieceWise { pool: VecDeque<u64>, frontier: Option<(u64, u64)>, used: Vec<u64> },
}

impl Allocator {
    fn fine_grain() -> Allocator {
        let mut cells: Vec<_> = (0..CELLS).map(|c| Addr(c * CELL)).collect();
        cells.shuffle(&mut Seed(1).stream("cells"));
        Allocator::FineGrain(cells.into())
    }

    fn piece_wise() -> Allocator {
        let pages = CELLS / CELLS_A_PAGE;
        Allocator::PieceWise { pool: (0..pages).collect(), frontier: None, used: vec![0; pages as usize] }
    }

    /// One cell, [`None`] when there is none.
    fn take(&mut self) -> Option<Addr> {
        match self {
            Allocator::FineGrain(free) => free.pop_front(),
            Allocator::PieceWise { pool, frontier, used } => {
                let (page, next) = match *frontier {
                    Some((page, next)) if next < CELLS_A_PAGE => (page, next),
                    _ => (pool.pop_front()?, 0),
                };
                *frontier = Some((page, next + 1));
                used[page as usize] += 1;
                Some(Addr((page * CELLS_A_PAGE + next) * CELL))
            }
        }
    }

    /// All cells of a packet or none.
    fn allocate(&mut self, bytes: u64) -> Option<Vec<Addr>> {
        let mut cells = Vec::new();
        for _ in 0..bytes.div_ceil(CELL) {
            match self.take() {
                Some(cell) => cells.push(cell),
                None => {
                    self.free(&cells);
                    return None;
                }
            }
        }
        Some(cells)
    }

    fn free(&mut self, cells: &[Addr]) {
        match self {
            Allocator::FineGrain(free) => free.extend(cells),
            Allocator::PieceWise { pool, frontier, used } => {
                for cell in cells {
                    let page = cell.0 / CELL / CELLS_A_PAGE;
                    used[page as usize] -= 1;
                    let open = matches!(*frontier, Some((p, next)) if p == page && next < CELLS_A_PAGE);
                    if used[page as usize] == 0 && !open {
                        pool.push_back(page);
                    }
                }
            }
        }
    }

    /// Cells that are not in a packet: free ones, and those a page holds back.
    fn idle(&self) -> u64 {
        match self {
            Allocator::FineGrain(free) => free.len() as u64,
            Allocator::PieceWise { used, .. } => CELLS - used.iter().sum::<u64>(),
        }
    }
}

/// Packet data in cells, cut at their boundaries.
struct Cells;

impl Layout for Cells {
    fn place(&self, r: &Ref, packet: &Placed, out: &mut Requests) {
        assert_eq!(r.region, RegionId::PACKET);
        let mut offset = r.offset;
        let end = r.offset + u64::from(r.bytes);
        while offset < end {
            let bytes = (CELL - offset % CELL).min(end - offset);
            let addr = Addr(packet.cells[(offset / CELL) as usize].0 + offset % CELL);
            let Placed { clos, core, .. } = *packet;
            out.push(Request { addr, bytes: bytes as u16, site: r.site, access: r.access, clos, core, mapping: 0 });
            offset += bytes;
        }
    }
}

/// Which row each bank has open: the state that both timing shells share.
#[derive(Clone)]
struct Rows {
    open: Vec<Option<u64>>,
    hits: u64,
    all: u64,
}

impl Rows {
    fn new(banks: usize) -> Rows {
        Rows { open: vec![None; banks], hits: 0, all: 0 }
    }
    fn split(&self, addr: Addr) -> (usize, u64) {
        let (row, banks) = (addr.0 / ROW, self.open.len() as u64);
        ((row % banks) as usize, row / banks)
    }
    fn hits(&self, addr: Addr) -> bool {
        let (bank, row) = self.split(addr);
        self.open[bank] == Some(row)
    }
    /// Opens the row; what that takes before the transfer, and the reason.
    fn access(&mut self, addr: Addr) -> (Reason, Ps) {
        let (bank, row) = self.split(addr);
        self.all += 1;
        match self.open[bank].replace(row) {
            Some(open) if open == row => {
                self.hits += 1;
                (Reason::RowHit, Ps::ZERO)
            }
            Some(_) => (Reason::RowConflict, RP + RCD),
            None => (Reason::RowMiss, RCD),
        }
    }
}

/// First ready, first come, first served: the oldest row hit among those queued, else the oldest.
#[derive(Clone)]
struct FrFcfs {
    rows: Rows,
    depth: usize,
    queue: VecDeque<(Ticket, Addr, Ps)>,
    /// The transfer under way and its end.
    current: Option<(Ticket, Response)>,
    free_at: Ps,
    tickets: u64,
}

impl FrFcfs {
    fn new(banks: usize, depth: usize) -> FrFcfs {
        let queue = VecDeque::new();
        FrFcfs { rows: Rows::new(banks), depth, queue, current: None, free_at: Ps::ZERO, tickets: 0 }
    }

    fn start(&mut self) {
        let Some(&(_, _, oldest)) = self.queue.front() else { return };
        let at = oldest.max(self.free_at);
        // Only what has arrived by then can be chosen.
        let seen = self.queue.iter().take_while(|q| q.2 <= at);
        let choice = seen.into_iter().position(|q| self.rows.hits(q.1)).unwrap_or(0);
        let Some((ticket, addr, arrived)) = self.queue.remove(choice) else { return };
        let (reason, opening) = self.rows.access(addr);
        let mut path = Path::default();
        path.push(Reason::DramQueue, at - arrived);
        path.push(reason, opening + TRANSFER);
        self.free_at = at + opening + TRANSFER;
        self.current = Some((ticket, Response { at: self.free_at, served: Served::Dram, path }));
    }
}

impl Controller for FrFcfs {
    fn submit(&mut self, request: &Request, now: Ps) -> Result<Ticket, Full> {
        if self.queue.len() == self.depth {
            return Err(Full);
        }
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.queue.push_back((ticket, request.addr, now));
        Ok(ticket)
    }

    fn next(&self) -> Option<Ps> {
        match self.current {
            Some((_, response)) => Some(response.at),
            None => self.queue.front().map(|q| q.2.max(self.free_at)),
        }
    }

    fn advance(&mut self, now: Ps, done: &mut Vec<(Ticket, Response)>) {
        while self.next().is_some_and(|at| at <= now) {
            done.extend(self.current.take());
            self.start();
        }
    }
}

/// The same rows behind a busy-until shell.
struct InOrder {
    rows: Rows,
    free_at: Ps,
}

impl Level for InOrder {
    fn access(&mut self, request: &Request, now: Ps) -> Response {
        let at = now.max(self.free_at);
        let (reason, opening) = self.rows.access(request.addr);
        let mut path = Path::default();
        path.push(Reason::DramQueue, at - now);
        path.push(reason, opening + TRANSFER);
        self.free_at = at + opening + TRANSFER;
        Response { at: self.free_at, served: Served::Dram, path }
    }
}

struct InBuffer {
    bytes: u64,
    cells: Vec<Addr>,
}

#[derive(Clone, Copy)]
enum Event {
    Arrive,
    /// The controller may have something to do. Nothing takes an event back, so one may be stale.
    Controller,
}

/// Packets come in, are written, wait in one of `PORTS` queues, are read and leave.
struct Router {
    controller: FrFcfs,
    allocator: Allocator,
    sizes: Vec<u64>,
    arrived: usize,
    dropped: u64,
    left: u64,
    packets: HashMap<PacketId, InBuffer>,
    ports: Vec<VecDeque<PacketId>>,
    turn: usize,
    /// Requests that the controller would not take.
    refused: VecDeque<(PacketId, Request)>,
    full: u64,
    waiting: HashMap<Ticket, (PacketId, Ps)>,
    /// Requests of a packet's current reference that are not answered.
    open: HashMap<PacketId, (Access, u64)>,
    armed: Option<Ps>,
    order: Vec<Ticket>,
}

const PORTS: usize = 4;
/// Packets that wait in a port's queue before the first leaves: a standing queue mixes ages.
const STANDING: usize = 12;

impl Router {
    fn new(allocator: Allocator, banks: usize, depth: usize, sizes: Vec<u64>) -> Router {
        Router {
            controller: FrFcfs::new(banks, depth),
            allocator,
            sizes,
            arrived: 0,
            dropped: 0,
            left: 0,
            packets: HashMap::new(),
            ports: vec![VecDeque::new(); PORTS],
            turn: 0,
            refused: VecDeque::new(),
            full: 0,
            waiting: HashMap::new(),
            open: HashMap::new(),
            armed: None,
            order: Vec::new(),
        }
    }

    fn reference(&mut self, packet: PacketId, access: Access) {
        let InBuffer { bytes, cells } = &self.packets[&packet];
        let (core, clos, nowhere) = (CoreId(0), Clos(0), Addr(u64::MAX));
        let placed = Placed { packet, core, clos, mbuf: nowhere, data: nowhere, cells };
        let mut requests = Requests::new();
        let whole = Ref::load(RegionId::PACKET, 0, *bytes as u16, 0).with_access(access);
        Cells.place(&whole, &placed, &mut requests);
        assert_eq!(requests.iter().map(|r| u64::from(r.bytes)).sum::<u64>(), *bytes);
        assert!(self.open.insert(packet, (access, requests.len() as u64)).is_none());
        self.refused.extend(requests.into_iter().map(|r| (packet, r)));
    }

    fn submit(&mut self, now: Ps) {
        while let Some((packet, request)) = self.refused.front() {
            match self.controller.submit(request, now) {
                Ok(ticket) => {
                    assert!(self.waiting.insert(ticket, (*packet, now)).is_none(), "tickets are new");
                    self.refused.pop_front();
                }
                Err(Full) => {
                    self.full += 1;
                    break;
                }
            }
        }
    }

    fn send_one(&mut self, drain: bool) -> bool {
        let keep = if drain { 0 } else { STANDING };
        let Some(port) = (0..PORTS).map(|i| (self.turn + i) % PORTS).find(|&p| self.ports[p].len() > keep) else {
            return false;
        };
        self.turn = port + 1;
        let Some(packet) = self.ports[port].pop_front() else { return false };
        self.reference(packet, Access::DmaRead);
        true
    }

    fn answer(&mut self, ticket: Ticket, response: &Response) {
        let (packet, since) = self.waiting.remove(&ticket).expect("each ticket is answered once");
        assert_eq!(response.path.total(), response.at - since);
        self.order.push(ticket);
        let Some((access, left)) = self.open.get_mut(&packet) else { panic!("no open reference") };
        *left -= 1;
        if *left > 0 {
            return;
        }
        let access = *access;
        self.open.remove(&packet);
        if access == Access::DmaWrite {
            self.ports[packet.0 as usize % PORTS].push_back(packet);
        } else {
            let gone = self.packets.remove(&packet).expect("a packet leaves once");
            self.allocator.free(&gone.cells);
            self.left += 1;
        }
    }

    fn held(&self) -> u64 {
        self.packets.values().map(|p| p.cells.len() as u64).sum()
    }
}

impl Model for Router {
    type Event = Event;

    fn handle(&mut self, event: Event, engine: &mut Engine<Event>) {
        let now = engine.now();
        let mut done = Vec::new();
        self.controller.advance(now, &mut done);
        for (ticket, response) in &done {
            self.answer(*ticket, response);
        }
        if matches!(event, Event::Arrive) && self.arrived < self.sizes.len() {
            let packet = PacketId(self.arrived as u64);
            let bytes = self.sizes[self.arrived];
            self.arrived += 1;
            match self.allocator.allocate(bytes) {
                Some(cells) => {
                    self.packets.insert(packet, InBuffer { bytes, cells });
                    self.reference(packet, Access::DmaWrite);
                }
                None => self.dropped += 1,
            }
            engine.after(TRANSFER * bytes.div_ceil(CELL) * 3, 0, Event::Arrive);
        }
        // Two packets at most are read at a time.
        while self.open.values().filter(|o| o.0 == Access::DmaRead).count() < 2
            && self.send_one(self.arrived == self.sizes.len())
        {}
        self.submit(now);
        assert_eq!(self.allocator.idle() + self.held(), CELLS, "cells are conserved");
        if let Some(at) = self.controller.next()
            && self.armed != Some(at.max(now))
        {
            self.armed = Some(at.max(now));
            engine.schedule(at.max(now), 1, Event::Controller);
        }
    }
}

fn run(allocator: Allocator, banks: usize, depth: usize) -> Router {
    let sizes = [40, 40, 552, 40, 1500, 40, 80, 1500, 576, 40].iter().cycle().take(2000).copied().collect();
    let mut router = Router::new(allocator, banks, depth, sizes);
    let mut engine = Engine::new();
    engine.schedule(Ps::ZERO, 0, Event::Arrive);
    engine.run(&mut router, Ps::MAX);
    assert_eq!(router.left + router.dropped, 2000, "packets are conserved");
    assert!(router.waiting.is_empty() && router.refused.is_empty() && router.packets.is_empty());
    assert_eq!(router.order.len() as u64, router.controller.tickets);
    assert_eq!(router.allocator.idle(), CELLS);
    router
}

fn hit_rate(router: &Router) -> f64 {
    router.controller.rows.hits as f64 / router.controller.rows.all as f64
}

#[test]
fn pages_hit_rows_that_scattered_cells_miss() {
    for banks in [2, 4] {
        let cells = run(Allocator::fine_grain(), banks, 8);
        let pages = run(Allocator::piece_wise(), banks, 8);
        assert_eq!(cells.dropped + pages.dropped, 0);
        assert_eq!(cells.controller.rows.all, pages.controller.rows.all);
        let (cells, pages) = (hit_rate(&cells), hit_rate(&pages));
        assert!(cells < 0.35 && pages > 0.75, "{banks} banks: cells {cells:.2}, pages {pages:.2}");
    }
}

#[test]
fn a_full_controller_reorders_and_loses_nothing() {
    let router = run(Allocator::piece_wise(), 4, 8);
    assert!(router.full > 100, "{}", router.full);
    let late = router.order.windows(2).filter(|w| w[0] > w[1]).count();
    assert!(late > 100, "{late}");
}

#[test]
fn reordering_finds_row_hits_that_arrival_order_does_not() {
    let (one, eight) = (run(Allocator::fine_grain(), 4, 1), run(Allocator::fine_grain(), 4, 8));
    assert!(one.order.is_sorted());
    assert!(hit_rate(&eight) > 1.5 * hit_rate(&one), "{} {}", hit_rate(&eight), hit_rate(&one));
}

fn request(cell: u64) -> Request {
    let (access, clos, core) = (Access::Load, Clos(0), CoreId(0));
    Request { addr: Addr(cell * CELL), bytes: 64, site: 0, access, clos, core, mapping: 0 }
}

proptest! {
    /// A queue of one keeps the order, so the two shells around the same rows must agree.
    #[test]
    fn level_and_controller_agree_where_order_is_kept(cells in prop::collection::vec((0..CELLS, 0u64..400), 1..60)) {
        let (mut level, mut controller) = (InOrder { rows: Rows::new(4), free_at: Ps::ZERO }, FrFcfs::new(4, 1));
        let (mut now, mut done) = (Ps::ZERO, Vec::new());
        for (cell, gap) in cells {
            now += Ps::from_ns(gap);
            let asked = now;
            while controller.submit(&request(cell), now) == Err(Full) {
                now = controller.next().expect("a full controller has something to do").max(now);
                controller.advance(now, &mut done);
            }
            let answer = level.access(&request(cell), asked);
            controller.advance(Ps::MAX, &mut done);
            prop_assert_eq!(done.last().map(|d| d.1.at), Some(answer.at));
            now = now.max(answer.at);
        }
        prop_assert_eq!(level.rows.hits, controller.rows.hits);
    }

    /// How often a controller is asked changes nothing.
    #[test]
    fn advancing_in_steps_is_advancing_at_once(cells in prop::collection::vec(0..CELLS, 1..8), steps in 1u64..40) {
        let mut stepped = FrFcfs::new(2, 8);
        for &cell in &cells {
            prop_assert!(stepped.submit(&request(cell), Ps::ZERO).is_ok());
        }
        let mut at_once = stepped.clone();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let end = Ps::from_ns(8 * 140);
        at_once.advance(end, &mut a);
        (0..=steps).for_each(|i| stepped.advance(Ps(end.0 * i / steps), &mut b));
        prop_assert_eq!(a.len(), cells.len());
        prop_assert_eq!(a, b);
    }
}
