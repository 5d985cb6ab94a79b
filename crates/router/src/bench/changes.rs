//! Routes that change while packets are looked up: how soon, what it costs, and that every verdict is that of a table that there
//! was between a packet's post and its commit.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use functions::Adjacency;
use functions::lookup::{NextHop, Structure};
use functions::{DropReason, Forward, ForwardSpec, Lookup, PacketFunction, Verdict};
use packet::{L3, Packet, Prefix};
use probe::Null;
use serde::Serialize;
use units::{PortId, Ps};

use super::measure;
use super::run::{FRAME_BYTES, packets};
use super::{BenchMode, BenchSpec};
use crate::RouterError;
use crate::backend::{Backend, Commit, Committed};
use crate::cuda::{Gpu, GpuContext, PacketPlacement};
use crate::delay::Delays;
use crate::layout::WARP_LANES;
use crate::persistent::{KernelSetup, Persistent};
use crate::setup::{FunctionName, FunctionNames, table};
use crate::updates::{ChangesMade, ChangingRoutes, RouteChange};

/// More than there are ports, so that verdicts tell next hops apart.
pub const PORTS: u16 = 997;
/// Changes that may be asked for and not done.
const MOST_WAITING: u64 = 4096;

/// How routes change.
#[derive(Clone, Copy, Debug)]
pub struct ChangesSpec {
    /// Changes a second; 0 is none.
    pub per_second: f64,
    /// Packets that are waited for.
    pub batch: u32,
    /// Millions of packets a second; none is all at once.
    pub mpps: Option<f64>,
    /// Seed of what changes.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct ChangesPoint {
    /// Packets a second, in millions, from the first arrival to the last commit.
    pub carried_mpps: f64,
    /// Of packets, from arrival to commit; none where all packets were there at once.
    pub delay_us: Option<f64>,
    /// 99 % of it.
    pub delay_p99_us: Option<f64>,
    /// Changes that were asked for.
    pub asked: u64,
    /// Done while packets went, and refused.
    pub made: ChangesDone,
    /// From asking to when packets that are posted see it.
    pub change_us: Option<f64>,
    /// 99 % of it.
    pub change_p99_us: Option<f64>,
    /// Packets.
    pub packets: u64,
    /// Packets of which the first table says something else.
    pub other: u64,
    /// Packets of which no table says that which there was between post and commit: 0, or there is a bug.
    pub wrong: u64,
}

/// Of changes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChangesDone {
    /// Done.
    pub done: u64,
    /// Of them refused, for want of room.
    pub refused: u64,
}

impl ChangesPoint {
    /// The columns of the CSV.
    pub const COLUMNS: &str = "mode,commit,batch,offered_mpps,per_second,carried_mpps,mean_us,p99_us,asked,done,refused,\
                               change_us,change_p99_us,packets,other,wrong";

    /// A line of it, without its end.
    pub fn csv(&self, mode: &str, commit: Commit, spec: &ChangesSpec) -> String {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
        let commit = Commit::ALL.into_iter().find(|&(_, own)| own == commit).map_or("", |(name, _)| name);
        let cells = [
            mode.into(),
            commit.into(),
            spec.batch.to_string(),
            number(spec.mpps),
            spec.per_second.to_string(),
            number(Some(self.carried_mpps)),
            number(self.delay_us),
            number(self.delay_p99_us),
            self.asked.to_string(),
            self.made.done.to_string(),
            self.made.refused.to_string(),
            number(self.change_us),
            number(self.change_p99_us),
            self.packets.to_string(),
            self.other.to_string(),
            self.wrong.to_string(),
        ];
        cells.join(",")
    }
}

/// A task, and which changes it may have seen: all that were done when it was posted, none that had not begun when its commit was
/// seen.
#[derive(Clone, Copy, Debug)]
struct Window {
    first: u64,
    count: u32,
    done: u64,
    begun: u64,
}

/// A backend whose routes change, and what may have been seen of that.
struct Changing<'a> {
    inner: &'a mut dyn Backend,
    /// Those that are asked for in turn.
    changes: &'a [RouteChange],
    gap: Duration,
    begin: Option<Instant>,
    asked: usize,
    /// When those that are not done were asked for.
    waiting: VecDeque<Instant>,
    done: u64,
    took: Delays,
    /// In the order in which they were posted, so by first packet.
    windows: Vec<Window>,
}

impl Changing<'_> {
    fn ask(&mut self) -> Result<(), RouterError> {
        let Some(begin) = self.begin else { return Ok(()) };
        while self.asked < self.changes.len()
            && begin.elapsed() >= self.gap * self.asked as u32
            && (self.waiting.len() as u64) < MOST_WAITING
        {
            self.inner.change(self.changes[self.asked])?;
            self.waiting.push_back(Instant::now());
            self.asked += 1;
        }
        let ChangesMade { done, .. } = self.inner.changes();
        while self.done < done {
            self.done += 1;
            if let Some(asked) = self.waiting.pop_front() {
                self.took.add(asked.elapsed().as_nanos() as u64);
            }
        }
        Ok(())
    }
}

impl Backend for Changing<'_> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn slots(&self) -> u64 {
        self.inner.slots()
    }

    fn put(&mut self, number: u64, packet: &mut Packet) {
        self.inner.put(number, packet);
    }

    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError> {
        self.begin.get_or_insert_with(Instant::now);
        let done = self.inner.changes().done;
        let posted = self.inner.post(first, count)?;
        if posted {
            self.windows.push(Window { first, count, done, begun: u64::MAX });
        }
        Ok(posted)
    }

    fn room(&self) -> u64 {
        self.inner.room()
    }

    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        self.ask()?;
        let before = out.len();
        self.inner.poll(out)?;
        let begun = self.inner.changes().begun;
        for done in &out[before..] {
            if let Ok(at) = self.windows.binary_search_by_key(&done.first, |window| window.first) {
                self.windows[at].begun = begun;
            }
        }
        Ok(())
    }

    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        self.inner.take(number, packet)
    }

    fn stop(&mut self) -> Result<(), RouterError> {
        self.inner.stop()
    }
}

/// Sends `packets` through `backend`, whose tables are those of `routes` with ports of [`PORTS`] next hops, while routes change. Their
/// number is a multiple of 32.
///
/// # Errors
/// The backend fails, or its tables do not change.
pub fn changing(
    backend: &mut dyn Backend,
    packets: &[Packet],
    routes: &ChangingRoutes,
    spec: &ChangesSpec,
) -> Result<ChangesPoint, RouterError> {
    let count = packets.len() as u64;
    let keys: Vec<Option<IpAddr>> = packets.iter().map(destination).collect();
    let changes = made_changes(&keys, spec);
    for (number, packet) in (0..).zip(packets) {
        backend.put(number, &mut packet.clone());
    }
    backend.prepare(count)?;
    let mut changing = Changing {
        inner: backend,
        changes: &changes,
        gap: Duration::try_from_secs_f64(1.0 / spec.per_second).unwrap_or_default(),
        begin: None,
        asked: 0,
        waiting: VecDeque::new(),
        done: 0,
        took: Delays::default(),
        windows: Vec::new(),
    };
    let measured = measure(&mut changing, count, spec.batch, spec.mpps)?;
    let (asked, took, windows) = (changing.asked as u64, changing.took.summary(), changing.windows);
    backend.stop()?;
    backend.settle(count)?;
    let made = backend.changes();
    let mut verdicts = Vec::with_capacity(packets.len());
    let mut packet = Packet::default();
    for number in 0..count {
        verdicts.push(backend.take(number, &mut packet)?);
    }
    // What was refused is no change, and what had not begun was never tried.
    let mut refused = backend.refused_changes().iter().peekable();
    let changed = (0..).zip(&changes[..made.begun as usize]);
    let changed: Vec<_> = changed.map(|(n, change)| refused.next_if_eq(&&n).is_none().then_some(*change)).collect();
    let (other, wrong) = judge(routes, packets, &keys, &verdicts, windows, &changed)?;
    let delay = measured.delays.summary();
    Ok(ChangesPoint {
        carried_mpps: measured.carried_mpps(),
        delay_us: delay.map(|delay| delay.mean_us),
        delay_p99_us: delay.map(|delay| delay.p99_us),
        asked,
        made: ChangesDone { done: made.done, refused: made.refused },
        change_us: took.map(|took| took.mean_us),
        change_p99_us: took.map(|took| took.p99_us),
        packets: count,
        other,
        wrong,
    })
}

/// Where a packet goes to, if a lookup reads that.
fn destination(packet: &Packet) -> Option<IpAddr> {
    let header = packet.data.get(usize::from(packet.l3_offset)..)?;
    match packet.l3 {
        L3::V4 => Some(IpAddr::from(<[u8; 4]>::try_from(header.get(16..20)?).ok()?)),
        L3::V6 => Some(IpAddr::from(<[u8; 16]>::try_from(header.get(24..40)?).ok()?)),
        _ => None,
    }
}

/// Changes of routes that packets take: longer ones than there are are added and removed, so that groups of tbl8 come and go, and
/// next hops change.
fn made_changes(keys: &[Option<IpAddr>], spec: &ChangesSpec) -> Vec<RouteChange> {
    let mut state = spec.seed.wrapping_mul(2).wrapping_add(1);
    // Knuth's multiplier; the upper bits are the random ones.
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % below.max(1)
    };
    let (mut added, mut changes): (Vec<Prefix>, Vec<RouteChange>) = (Vec::new(), Vec::new());
    let most = if spec.per_second > 0.0 && !keys.is_empty() { 1 << 16 } else { 0 };
    while changes.len() < most {
        let hop = NextHop::from(random(usize::from(PORTS)) as u16);
        if random(2) == 0 && !added.is_empty() {
            let prefix = added.swap_remove(random(added.len()));
            changes.push(RouteChange { prefix, next_hop: None });
            continue;
        }
        let prefix = match keys[random(keys.len())] {
            Some(IpAddr::V4(addr)) => Prefix::v4(addr.into(), [24, 25, 28, 32][random(4)]),
            Some(IpAddr::V6(addr)) => Prefix::v6(addr.into(), [32, 56, 64, 128][random(4)]),
            None => Prefix::v4(0, 0),
        };
        let Some(prefix) = prefix else { continue };
        added.push(prefix);
        changes.push(RouteChange { prefix, next_hop: Some(hop) });
    }
    changes
}

/// Why each packet is dropped where all have a route.
fn drops_anyway(routes: &ChangingRoutes, packets: &[Packet]) -> Result<Vec<Option<DropReason>>, RouterError> {
    let mut all = routes.unshared()?;
    for prefix in [Prefix::v4(0, 0), Prefix::v6(0, 0)].into_iter().flatten() {
        all.update(RouteChange { prefix, next_hop: NextHop::new(0) }).transpose()?;
    }
    let (mut function, mut verdicts) = (all.program().function().clone(), Vec::with_capacity(packets.len()));
    for burst in packets.chunks(WARP_LANES as usize) {
        function.process_burst(Ps::ZERO, &mut burst.to_vec(), &mut Null, &mut verdicts);
    }
    let reason = |verdict| match verdict {
        Verdict::Drop(reason) => Some(reason),
        Verdict::Forward { .. } => None,
    };
    Ok(verdicts.into_iter().map(reason).collect())
}

/// Makes the changes again, one after the other, but for those that were refused, and compares each packet with every table in its
/// window. How many have another verdict than by the first table, and how many a wrong one.
fn judge(
    routes: &ChangingRoutes,
    packets: &[Packet],
    keys: &[Option<IpAddr>],
    verdicts: &[Verdict],
    mut windows: Vec<Window>,
    changes: &[Option<RouteChange>],
) -> Result<(u64, u64), RouterError> {
    let mut tables = routes.unshared()?;
    let drops = drops_anyway(routes, packets)?;
    windows.sort_by_key(|window| window.done);
    let said = |tables: &ChangingRoutes, number: u64| {
        let Some(key) = keys[number as usize] else { return true };
        let verdict = tables.next_hop(key).map(|hop| PortId((hop.id() % u32::from(PORTS)) as u16));
        match verdicts[number as usize] {
            Verdict::Forward { port } => verdict == Some(port) && drops[number as usize].is_none(),
            Verdict::Drop(DropReason::NoRoute) => verdict.is_none(),
            Verdict::Drop(reason) => drops[number as usize] == Some(reason),
        }
    };
    let other = (0..keys.len() as u64).filter(|&number| !said(&tables, number)).count() as u64;
    let (mut open, mut coming, mut wrong): (Vec<(u64, u64)>, _, _) = (Vec::new(), windows.into_iter().peekable(), 0);
    for version in 0..=changes.len() as u64 {
        if let Some(change) = version.checked_sub(1).and_then(|made| changes[made as usize]) {
            // No group rests here: there is room for what the backend had room for.
            tables.update(change).transpose()?;
        }
        while let Some(window) = coming.next_if(|window| window.done <= version) {
            open.extend((window.first..window.first + u64::from(window.count)).map(|number| (number, window.begun)));
        }
        open.retain(|&(number, begun)| {
            let right = said(&tables, number);
            wrong += u64::from(!right && begun <= version);
            !right && begun > version
        });
    }
    Ok((other, wrong + open.len() as u64 + coming.count() as u64))
}

/// Measures lookups, or forwarding where that is the function of `spec`, while routes change: by each mode of a kernel that stays and
/// each commit of `spec`, at its first batch, each rate of `mpps` and each of `per_second`. The first commit is the usual one.
///
/// # Errors
/// Settings, files or traffic that cannot be used; no GPU; a backend that fails.
pub fn bench_changes(
    spec: &BenchSpec,
    mpps: &[Option<f64>],
    per_second: &[f64],
    mut each: impl FnMut(&str),
) -> Result<u64, RouterError> {
    spec.check()?;
    let begun = Instant::now();
    let table = table(spec.table.as_ref(), spec.seed, spec.capture.is_some(), &mut Vec::new())?;
    let gpu = GpuContext::open(spec.driver.as_deref(), 0)?;
    // A next hop a port, so that each has an adjacency.
    let routes = (0u32..)
        .zip(&table.routes)
        .filter_map(|(i, route)| Some((route.prefix, NextHop::new(route.next_hop.unwrap_or(i) % u32::from(PORTS))?)));
    let routes = match spec.function.has(FunctionName::Forward) {
        true => {
            let adjacencies = (0..u32::from(PORTS)).map(|id| Adjacency::numbered(id, PortId(id as u16))).collect();
            ChangingRoutes::Forward(Forward::with_adjacencies(routes, adjacencies, &ForwardSpec::default())?)
        }
        false => ChangingRoutes::Lookup(Lookup::new(routes, PORTS, Structure::Dir24)?, PORTS),
    };
    let packets = packets(spec, &FunctionNames::from(FunctionName::Lookup), &table)?;
    let (slots, deadline) = (spec.packets, Duration::try_from_secs_f64(spec.deadline_s).unwrap_or_default());
    let batch = spec.batches.first().copied().unwrap_or(WARP_LANES);
    let mut wrong = 0;
    for &per_second in per_second {
        for &mpps in mpps {
            for &mode in spec.modes.iter().filter(|mode| mode.stays()) {
                for &commit in &spec.commits {
                    if spec.seconds.is_some_and(|seconds| begun.elapsed().as_secs_f64() > seconds) {
                        return Ok(wrong);
                    }
                    let placement = match mode {
                        BenchMode::Resident => PacketPlacement::Resident,
                        _ => PacketPlacement::ZeroCopy,
                    };
                    let setup =
                        KernelSetup { slots, frame_bytes: FRAME_BYTES, commit, deadline, ..KernelSetup::default() };
                    let gpu = Gpu::on(&gpu, placement, None)?;
                    let mut backend = Persistent::with_updates(gpu, &routes, &[], &[], setup)?;
                    let own = ChangesSpec { per_second, batch, mpps, seed: spec.seed };
                    let point = changing(&mut backend, &packets, &routes, &own)?;
                    wrong += point.wrong;
                    each(&point.csv(mode.name(), commit, &own));
                }
            }
        }
    }
    Ok(wrong)
}
