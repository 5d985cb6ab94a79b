//! The event loop: packets, cores, slices, banks.

use std::collections::VecDeque;

use engine::{Deterministic, Draw, Exponential, Seed, Tournament};
use machine::stacked::{BankTiming, BankTurn, Distributor, Recency, SkipLogic, StackedBank, Using};
use machine::{Divisor, MachineError};
use rand::Rng;
use rand_pcg::Pcg64;
use units::Ps;

use super::popularity::LinePopularity;
use super::spec::{Architecture, Isolation, OnHit, SlicesSpec};
use super::totals::{Snapshot, Totals};
use super::trace::Lookups;

mod walk;

pub(super) use walk::Visits;

/// Batches that a run's measured part is cut into.
pub(super) const BATCHES: usize = 32;

/// Lookups or arrivals between two looks at whether to go on.
const ASK_EVERY: u64 = 1 << 18;

/// Lines of all caches from which on the host is asked for sets ahead of time: tags of 32 KiB.
const LARGE: u64 = 1 << 13;

/// Where an application's lookups come from.
#[derive(Clone, Debug)]
pub(super) enum LookupSource {
    Law(LinePopularity),
    /// Recorded, and which packet comes next.
    Recorded(Lookups, usize),
}

/// What a context does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStage {
    ToSlice,
    FromSlice,
    ToDram,
    FromDram,
    Return,
}

/// A packet that a core works on.
#[derive(Clone, Copy, Debug)]
struct PacketTask {
    next: NextStage,
    /// Whether the line comes from memory.
    fill: bool,
    more: bool,
    core: u16,
    app: u16,
    slice: u16,
    /// The store of the slice that the line belongs to, and its number there.
    store: u32,
    index: u32,
    line: u32,
    /// Of recorded lookups the next of its packet.
    at: usize,
    place: StackedBank,
    began: u64,
    arrived: u64,
    /// When it came to where it waits.
    mark: u64,
}

struct ApplicationRun {
    first_core: u16,
    cores: u32,
    base: u32,
    workload: LookupSource,
    rng: Pcg64,
    /// Slices that its lines belong to now.
    slices: Vec<u16>,
    /// How many these are.
    among: Divisor,
    own: Vec<u16>,
    uses_llc: bool,
    skip: Option<SkipLogic>,
    bypass: bool,
    totals: Totals,
}

/// A slice as a server.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    /// When it is free.
    free: u64,
    /// How long it was busy.
    busy: u64,
    /// Who waits or is served.
    queue: u32,
}

#[derive(Clone, Debug)]
enum ArrivalSource {
    Exponential(Box<Exponential>),
    Fixed(Deterministic),
}

impl ArrivalSource {
    fn new(exponential: bool, mean: Ps, rng: Pcg64) -> ArrivalSource {
        if exponential {
            ArrivalSource::Exponential(Box::new(Exponential::new(mean, rng)))
        } else {
            ArrivalSource::Fixed(Deterministic(mean))
        }
    }

    #[inline]
    fn draw(&mut self) -> u64 {
        match self {
            ArrivalSource::Exponential(source) => source.draw().0,
            ArrivalSource::Fixed(source) => source.draw().0,
        }
    }
}

/// How banks serve: rates that depend on the channel's state, or a device whose times are settled on arrival.
enum Banks {
    Rates {
        table: Distributor,
        /// By partial table: contexts that wait for a bank.
        waiting: Vec<VecDeque<usize>>,
        /// By channel and bank: the context that it serves.
        serves: Vec<usize>,
        source: ArrivalSource,
        /// By busy banks less one: service time against that of a bank alone, in 1/65536.
        slower: Vec<u64>,
    },
    Device(Box<machine::stacked::Stacked>),
}

pub(super) struct SlicesSystem {
    now: u64,
    arrival: u64,
    next: Tournament,
    work: Vec<PacketTask>,
    outstanding: usize,
    /// By core: contexts that are idle, a bit each.
    idle: Vec<u64>,
    /// By core: when waiting packets arrived.
    queues: Vec<VecDeque<u64>>,
    applications: Vec<ApplicationRun>,
    /// Of 2^32, at which draw which application's packet arrives.
    mix: Vec<u32>,
    l1: Vec<Recency>,
    l2: Vec<Recency>,
    stores: Vec<Recency>,
    slices: Vec<Slice>,
    queue_room: u32,
    reading_l2: OnHit,
    reading_llc: OnHit,
    store_of: StoreOf,
    banks: Banks,
    bank_count: u32,
    /// By partial table: how long its banks were busy.
    bank_busy: Vec<u64>,
    link: u64,
    header: Vec<u64>,
    header_read: u64,
    /// Whether the caches' tags are more than the host's first-level cache holds.
    is_large: bool,
    in_system: u32,
    limit: u32,
    arrivals: Exponential,
    choice: Pcg64,
    l1_time: ArrivalSource,
    l2_time: ArrivalSource,
    llc_time: ArrivalSource,
}

/// Which store holds what of a slice.
#[derive(Clone, Copy, Debug)]
enum StoreOf {
    /// Each slice has one.
    Slice,
    /// All have one.
    Pool,
    /// Each application has one in each of so many slices.
    Ways(u32),
}

impl ApplicationRun {
    /// Those of `spec`, and how many lines their tables have in all.
    fn of_all(
        spec: &SlicesSpec,
        seed: Seed,
        recorded: &[Option<Lookups>],
    ) -> Result<(Vec<ApplicationRun>, usize), MachineError> {
        let stream = |name: &str| seed.stream(&format!("slices.{name}"));
        let has_llc = spec.architecture != Architecture::NoLlc;
        let shared = spec.architecture == Architecture::SharedLlc;
        let per_line = spec.entries_per_line();
        let (mut applications, mut base, mut core, mut slice) = (Vec::new(), 0u64, 0u32, 0u32);
        for (n, a) in spec.applications.iter().enumerate() {
            let workload = match recorded.get(n).cloned().flatten() {
                Some(lookups) => LookupSource::Recorded(lookups, 0),
                None => {
                    let mut spread = stream(&format!("applications.{n}.table"));
                    LookupSource::Law(LinePopularity::new(
                        a.entries,
                        per_line,
                        a.alpha,
                        spec.reading.ranks,
                        &mut spread,
                    ))
                }
            };
            let lines = match &workload {
                LookupSource::Recorded(lookups, _) => lookups.lines(),
                LookupSource::Law(_) => spec.lines(a),
            };
            let own: Vec<u16> = match (shared, spec.isolation) {
                (true, _) => vec![0],
                (false, Isolation::Slices) => (slice..slice + a.slices).map(|s| s as u16).collect(),
                (false, _) => (0..spec.slices).map(|s| s as u16).collect(),
            };
            let fills = (own.len() * spec.lines_of(&spec.caches.slice)) as u64;
            applications.push(ApplicationRun {
                first_core: core as u16,
                cores: a.cores,
                base: base as u32,
                workload,
                rng: stream(&format!("applications.{n}.lookups")),
                among: Divisor::new(own.len().max(1) as u32),
                slices: own.clone(),
                own,
                uses_llc: has_llc,
                skip: a.skip.as_ref().filter(|_| has_llc).map(|s| SkipLogic::new(s, fills, "skip")).transpose()?,
                bypass: a.bypass,
                totals: Totals::default(),
            });
            base += lines;
            core += a.cores;
            slice += a.slices;
        }
        Ok((applications, base as usize))
    }
}

/// How many slices the LLC has, and what each is.
fn slices(spec: &SlicesSpec) -> (usize, &super::spec::SlicesLevel) {
    match spec.architecture {
        Architecture::SharedLlc => (1, &spec.caches.shared),
        _ => (spec.slices as usize, &spec.caches.slice),
    }
}

/// What the LLC's slices hold lines of `universe` lines in.
fn stores(spec: &SlicesSpec, universe: usize) -> (StoreOf, Vec<Recency>) {
    let caches = &spec.caches;
    let has_llc = spec.architecture != Architecture::NoLlc;
    let shared = spec.architecture == Architecture::SharedLlc;
    let (slices, level) = slices(spec);
    let cache = |level: &super::spec::SlicesLevel| Recency::new(spec.lines_of(level), level.ways as usize, universe);
    match (has_llc, shared, spec.reading.pooled, spec.isolation) {
        (false, ..) => (StoreOf::Slice, Vec::new()),
        (_, false, true, _) => (StoreOf::Pool, vec![cache(&caches.shared)]),
        (_, false, false, Isolation::Ways) => {
            let ways = |a: &super::spec::Application| {
                let all = if level.ways == 0 { spec.lines_of(level) as u32 } else { level.ways };
                all * a.slices / spec.slices
            };
            let sets = if level.ways == 0 { 1 } else { spec.lines_of(level) / level.ways as usize };
            let of = |a| Recency::new(sets * ways(a) as usize, ways(a) as usize, universe);
            let stores = spec.applications.iter().flat_map(|a| (0..slices).map(move |_| of(a))).collect();
            (StoreOf::Ways(slices as u32), stores)
        }
        _ => (StoreOf::Slice, (0..slices).map(|_| cache(level)).collect()),
    }
}

impl Banks {
    fn new(spec: &SlicesSpec, seed: Seed) -> Result<Banks, MachineError> {
        let timing = spec.dram.resolve("dram")?;
        let places = (spec.dram.channels * spec.dram.banks) as usize;
        Ok(match timing {
            BankTiming::Rates { means, exponential } => Banks::Rates {
                table: Distributor::new(spec.dram.channels, spec.dram.banks),
                waiting: vec![VecDeque::new(); spec.dram.banks as usize],
                serves: vec![0; places],
                source: ArrivalSource::new(exponential, means[0], seed.stream("slices.dram.service")),
                slower: (0..spec.dram.banks as usize)
                    .map(|n| {
                        let mean = means[n.min(means.len() - 1)].0 as f64;
                        (mean / means[0].0 as f64 * 65536.0).round() as u64
                    })
                    .collect(),
            },
            BankTiming::Device { .. } => {
                // The hop is charged here.
                let inside = machine::stacked::StackedSpec { link_ns: 0.0, ..spec.dram.clone() };
                Banks::Device(Box::new(machine::stacked::Stacked::new(&inside, "slices.dram", seed)?))
            }
        })
    }
}

impl SlicesSystem {
    /// An empty system. `spec` has been checked.
    pub(super) fn new(
        spec: &SlicesSpec,
        seed: Seed,
        recorded: &[Option<Lookups>],
    ) -> Result<SlicesSystem, MachineError> {
        let stream = |name: &str| seed.stream(&format!("slices.{name}"));
        let caches = &spec.caches;
        let (slices, level) = slices(spec);
        let (applications, universe) = ApplicationRun::of_all(spec, seed, recorded)?;
        let cache = |bytes_level: &super::spec::SlicesLevel| {
            Recency::new(spec.lines_of(bytes_level), bytes_level.ways as usize, universe)
        };
        let (store_of, stores) = stores(spec, universe);
        let banks = Banks::new(spec, seed)?;
        let total: f64 = spec.applications.iter().map(|a| a.rho).sum();
        let mut reached = 0.0;
        let mix = spec.applications.iter().map(|a| {
            reached += a.rho;
            (reached / total * 4_294_967_295.0) as u32
        });
        let mean_gap = Ps((1e6 / spec.offered_per_us()).round() as u64);
        let cores = spec.cores as usize;
        let contexts = cores * spec.outstanding as usize;
        let blank = PacketTask {
            next: NextStage::Return,
            fill: false,
            more: false,
            core: 0,
            app: 0,
            slice: 0,
            store: 0,
            index: 0,
            line: 0,
            at: 0,
            place: StackedBank { channel: 0, bank: 0 },
            began: 0,
            arrived: 0,
            mark: 0,
        };
        let exponential = caches.exponential;
        let mut system = SlicesSystem {
            now: 0,
            arrival: 0,
            next: Tournament::new(contexts),
            // The last is no core's: it goes through the caches without time.
            work: vec![blank; contexts + 1],
            outstanding: spec.outstanding as usize,
            idle: vec![u64::MAX >> (64 - spec.outstanding); cores],
            queues: vec![VecDeque::new(); cores],
            applications,
            mix: mix.collect(),
            l1: (0..cores).map(|_| cache(&caches.l1)).collect(),
            l2: (0..cores).map(|_| cache(&caches.l2)).collect(),
            stores,
            slices: vec![Slice::default(); slices],
            queue_room: spec.cores,
            reading_l2: spec.reading.l2_hit,
            reading_llc: spec.reading.llc_hit,
            store_of,
            banks,
            bank_count: spec.dram.banks,
            bank_busy: vec![0; spec.dram.banks as usize],
            link: spec.dram.link().0,
            header: spec.header_read.map_or(Vec::new(), |read| vec![0; read.channels as usize]),
            header_read: spec.header_read.map_or(0, |read| read.taken().0),
            is_large: false,
            in_system: 0,
            limit: spec.limit,
            arrivals: Exponential::new(mean_gap, stream("arrivals")),
            choice: stream("choice"),
            l1_time: ArrivalSource::new(exponential, SlicesSpec::mean(&caches.l1), stream("l1")),
            l2_time: ArrivalSource::new(exponential, SlicesSpec::mean(&caches.l2), stream("l2")),
            llc_time: ArrivalSource::new(exponential, SlicesSpec::mean(level), stream("llc")),
        };
        system.arrival = system.arrivals.draw().0;
        system.is_large = system.capacity() > LARGE;
        Ok(system)
    }

    /// Lines that all caches hold.
    fn capacity(&self) -> u64 {
        let all = self.l1.iter().chain(&self.l2).chain(&self.stores);
        all.map(|cache| cache.capacity() as u64).sum()
    }

    /// Warms up, then measures `requests` arrivals: running totals at the ends of batches, the first at their start.
    /// `go_on` is asked now and then; [`None`] if it said no.
    pub(super) fn run(&mut self, requests: u64, factor: u64, go_on: &mut dyn FnMut() -> bool) -> Option<Vec<Snapshot>> {
        if !self.warm_up(factor, go_on) {
            return None;
        }
        let warm = (10_000.max(100 * u64::from(self.limit))) * factor;
        self.simulate(warm);
        let mut snapshots = vec![self.snapshot()];
        for batch in 0..BATCHES as u64 {
            let mut left = requests * (batch + 1) / BATCHES as u64 - requests * batch / BATCHES as u64;
            while left > 0 {
                let some = left.min(ASK_EVERY);
                self.simulate(some);
                left -= some;
                if !go_on() {
                    return None;
                }
            }
            snapshots.push(self.snapshot());
        }
        Some(snapshots)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            now: self.now,
            applications: self.applications.iter().map(|a| a.totals).collect(),
            slices: self.slices.iter().map(|slice| slice.busy).collect(),
            banks: self.bank_busy.clone(),
        }
    }

    /// Which applications skip the LLC now.
    pub(super) fn skipping(&self) -> Vec<bool> {
        self.applications.iter().map(|a| !a.uses_llc).collect()
    }

    /// Has the host bring all that may be looked at for `line`, where that is more than its own caches hold.
    #[inline]
    fn prefetch(&self, core: usize, app: usize, line: u32) {
        if !self.is_large {
            return;
        }
        self.l1[core].prefetch(line);
        self.l2[core].prefetch(line);
        if self.applications[app].uses_llc {
            let (_, store, index) = self.home(app, line);
            self.stores[store as usize].prefetch(index);
        }
    }

    /// Goes on for so many arrivals.
    fn simulate(&mut self, arrivals: u64) {
        let mut left = arrivals;
        while left > 0 {
            match self.next.first() {
                Some((at, context)) if at.0 <= self.arrival => {
                    self.now = at.0;
                    self.step(context);
                }
                _ => {
                    self.now = self.arrival;
                    self.arrival += self.arrivals.draw().0;
                    self.arrive();
                    left -= 1;
                }
            }
        }
    }

    /// Whose packet a draw's low bits stand for.
    #[inline]
    fn whose(&self, draw: u64) -> usize {
        let app = if self.mix.len() == 1 { 0 } else { self.mix.partition_point(|edge| *edge < draw as u32) };
        app.min(self.applications.len() - 1)
    }

    /// An application and a core of it, as a packet that arrives chooses them.
    #[inline]
    fn choose(&mut self) -> (usize, usize) {
        let draw = self.choice.next_u64();
        let app = self.whose(draw);
        let ApplicationRun { first_core, cores, .. } = &self.applications[app];
        (app, usize::from(*first_core) + ((u128::from(draw >> 32) * u128::from(*cores)) >> 32) as usize)
    }

    #[inline]
    fn arrive(&mut self) {
        if self.in_system >= self.limit {
            // Nobody needs to know whose it is where there is one.
            let app = if self.mix.len() == 1 { 0 } else { self.choose().0 };
            let totals = &mut self.applications[app].totals;
            totals.arrived += 1;
            totals.blocked += 1;
            return;
        }
        self.in_system += 1;
        let (app, core) = self.choose();
        self.applications[app].totals.arrived += 1;
        if self.idle[core] == 0 {
            self.queues[core].push_back(self.now);
            return;
        }
        let slot = self.idle[core].trailing_zeros() as usize;
        self.idle[core] &= self.idle[core] - 1;
        self.begin(core * self.outstanding + slot, app, core, self.now);
    }

    /// A core takes a packet.
    #[inline]
    fn begin(&mut self, context: usize, app: usize, core: usize, arrived: u64) {
        let totals = &mut self.applications[app].totals;
        totals.begun += 1;
        totals.waited += self.now - arrived;
        let work = &mut self.work[context];
        (work.app, work.core, work.began, work.arrived) = (app as u16, core as u16, self.now, arrived);
        let mut start = self.now;
        if !self.header.is_empty() {
            // Whichever channel is free first: packets lie anywhere.
            if let Some(free) = self.header.iter_mut().min() {
                let done = (*free).max(start) + self.header_read;
                *free = done;
                totals.header += done - start;
                start = done;
            }
        }
        self.look_up(context, app, core, start);
    }

    /// The next lookup of the context's packet, from L1 on.
    #[inline]
    fn look_up(&mut self, context: usize, app: usize, core: usize, start: u64) {
        let (line, more) = self.draw(context, app);
        // While times are drawn and events pass.
        self.prefetch(core, app, line);
        let totals = &mut self.applications[app].totals;
        totals.lookups += 1;
        let first = self.l1_time.draw();
        totals.l1 += first;
        let mut at = start + first;
        let next = if self.l1[core].touch(line, line) {
            totals.l1_hits += 1;
            NextStage::Return
        } else {
            if self.is_large
                && let Some(leaves) = self.l1[core].oldest(line)
            {
                self.l2[core].prefetch(leaves);
            }
            let second = self.l2_time.draw();
            totals.l2 += second;
            at += second;
            if self.hit_l2(core, line) {
                self.applications[app].totals.l2_hits += 1;
                self.fill(core, app, line);
                NextStage::Return
            } else if self.applications[app].uses_llc {
                let (slice, store, index) = self.home(app, line);
                let work = &mut self.work[context];
                (work.slice, work.store, work.index) = (slice, store, index);
                NextStage::ToSlice
            } else {
                let application = &mut self.applications[app];
                application.totals.skipped += 1;
                application.totals.link += self.link;
                at += self.link;
                if let Some(using) = application.skip.as_mut().and_then(SkipLogic::skipped) {
                    self.assign(app, using);
                }
                NextStage::ToDram
            }
        };
        let work = &mut self.work[context];
        (work.line, work.more, work.next, work.fill) = (line, more, next, false);
        self.next.set(context, Ps(at));
    }

    /// The next line that the context's packet looks up, and whether it has more of them. Packets come in order, whichever core takes
    /// them, and a core has all lookups of its packet.
    #[inline]
    fn draw(&mut self, context: usize, app: usize) -> (u32, bool) {
        let app = &mut self.applications[app];
        match &mut app.workload {
            LookupSource::Law(popularity) => (app.base + popularity.draw(&mut app.rng), false),
            LookupSource::Recorded(lookups, packet) => {
                let work = &mut self.work[context];
                if !work.more {
                    work.at = lookups.first_of(packet);
                }
                let (line, more) = lookups.at(work.at);
                work.at += 1;
                (app.base + line, more)
            }
        }
    }

    #[inline]
    fn step(&mut self, context: usize) {
        match self.work[context].next {
            NextStage::Return => self.finish(context),
            NextStage::ToSlice => {
                let work = &mut self.work[context];
                work.next = NextStage::FromSlice;
                let slice = &mut self.slices[usize::from(work.slice)];
                let begin = slice.free.max(self.now);
                let time = self.llc_time.draw();
                slice.free = begin + time;
                slice.busy += time;
                let totals = &mut self.applications[usize::from(work.app)].totals;
                totals.slice_wait += begin - self.now;
                // Those that wait are all but the one that is served.
                totals.full += u64::from(slice.queue > self.queue_room);
                slice.queue += 1;
                self.next.set(context, Ps(begin + time));
            }
            NextStage::FromSlice => self.leave_slice(context),
            NextStage::ToDram => self.ask_memory(context),
            NextStage::FromDram => self.leave_bank(context),
        }
    }

    fn leave_slice(&mut self, context: usize) {
        let PacketTask { core, app, slice, store, index, line, .. } = self.work[context];
        self.slices[usize::from(slice)].queue -= 1;
        let hit = self.hit_llc(store, index, line);
        let (core, app) = (usize::from(core), usize::from(app));
        let application = &mut self.applications[app];
        application.totals.llc_lookups += 1;
        application.totals.llc_hits += u64::from(hit);
        if let Some(skip) = &mut application.skip
            && let Some(using) = skip.saw(!hit)
        {
            self.assign(app, using);
        }
        if hit {
            self.fill(core, app, line);
            self.finish(context);
        } else if self.link == 0 {
            self.ask_memory(context);
        } else {
            self.applications[app].totals.link += self.link;
            self.work[context].next = NextStage::ToDram;
            self.next.set(context, Ps(self.now + self.link));
        }
    }

    /// As [`SlicesSystem::prefetch`], of what leaves L2 when `line` comes in.
    fn prefetch_victims(&self, context: usize, line: u32) {
        let PacketTask { core, app, .. } = self.work[context];
        let (core, app) = (usize::from(core), usize::from(app));
        if self.applications[app].uses_llc
            && let Some(leaves) = self.l1[core].oldest(line).and_then(|first| self.l2[core].oldest(first))
        {
            let (_, store, index) = self.home(app, leaves);
            self.stores[store as usize].prefetch(index);
        }
    }

    fn ask_memory(&mut self, context: usize) {
        let line = self.work[context].line;
        if self.is_large {
            self.prefetch_victims(context, line);
        }
        let bank = ((u64::from(line.wrapping_mul(0x9E37_79B9)) * u64::from(self.bank_count)) >> 32) as u8;
        let work = &mut self.work[context];
        let totals = &mut self.applications[usize::from(work.app)].totals;
        totals.dram_requests += 1;
        work.mark = self.now;
        work.fill = true;
        match &mut self.banks {
            Banks::Device(device) => {
                let had = device.interleaved();
                let BankTurn { begin, done, free } = device.serve(usize::from(bank), Ps(self.now));
                totals.interleaved += device.interleaved() - had;
                totals.bank_wait += begin.0 - self.now;
                totals.dram += done.0 - begin.0;
                totals.link += self.link;
                self.bank_busy[usize::from(bank)] += free.0 - begin.0;
                work.next = NextStage::Return;
                self.next.set(context, Ps(done.0 + self.link));
            }
            Banks::Rates { waiting, .. } => {
                if waiting[usize::from(bank)].is_empty() && self.grant(context, bank) {
                    return;
                }
                if let Banks::Rates { waiting, .. } = &mut self.banks {
                    waiting[usize::from(bank)].push_back(context);
                }
                self.next.clear(context);
            }
        }
    }

    /// Gives the context a bank, if one is idle, and slows the others of its channel.
    fn grant(&mut self, context: usize, bank: u8) -> bool {
        let Banks::Rates { table, serves, source, slower, .. } = &mut self.banks else { return false };
        let Some(grant) = table.claim(bank) else { return false };
        let (place, busy) = (grant.place, usize::from(grant.interleaved));
        let channel = usize::from(place.channel) * self.bank_count as usize;
        let work = &mut self.work[context];
        let totals = &mut self.applications[usize::from(work.app)].totals;
        totals.bank_wait += self.now - work.mark;
        (work.mark, work.place, work.next) = (self.now, place, NextStage::FromDram);
        self.next.set(context, Ps(self.now + ((source.draw() * slower[busy - 1]) >> 16)));
        if busy > 1 {
            totals.interleaved += 1;
            let (from, to) = (slower[busy - 2], slower[busy - 1]);
            for other in 0..self.bank_count as u8 {
                if other != bank && !table.is_idle(StackedBank { channel: place.channel, bank: other }) {
                    stretch(&mut self.next, serves[channel + usize::from(other)], self.now, from, to);
                }
            }
        }
        serves[channel + usize::from(bank)] = context;
        true
    }

    fn leave_bank(&mut self, context: usize) {
        let PacketTask { app, place, mark, .. } = self.work[context];
        self.applications[usize::from(app)].totals.dram += self.now - mark;
        self.bank_busy[usize::from(place.bank)] += self.now - mark;
        let mut woken = None;
        if let Banks::Rates { table, serves, slower, waiting, .. } = &mut self.banks {
            let busy = usize::from(table.release(place));
            if busy > 0 {
                let channel = usize::from(place.channel) * self.bank_count as usize;
                let (from, to) = (slower[busy], slower[busy - 1]);
                for other in 0..self.bank_count as u8 {
                    if !table.is_idle(StackedBank { channel: place.channel, bank: other }) {
                        stretch(&mut self.next, serves[channel + usize::from(other)], self.now, from, to);
                    }
                }
            }
            woken = waiting[usize::from(place.bank)].pop_front();
        }
        if let Some(other) = woken {
            self.grant(other, place.bank);
        }
        if self.link == 0 {
            self.finish(context);
        } else {
            self.applications[usize::from(app)].totals.link += self.link;
            self.work[context].next = NextStage::Return;
            self.next.set(context, Ps(self.now + self.link));
        }
    }

    /// The data are in the core: the next lookup of the packet, or the next packet.
    #[inline]
    fn finish(&mut self, context: usize) {
        let PacketTask { core, app, line, fill, more, began, arrived, .. } = self.work[context];
        let (core, app) = (usize::from(core), usize::from(app));
        if fill {
            self.fill(core, app, line);
        }
        if more {
            self.look_up(context, app, core, self.now);
            return;
        }
        self.in_system -= 1;
        let totals = &mut self.applications[app].totals;
        totals.done += 1;
        totals.held += self.now - began;
        totals.sojourn += self.now - arrived;
        match self.queues[core].pop_front() {
            Some(arrived) => self.begin(context, app, core, arrived),
            None => {
                self.idle[core] |= 1 << (context - core * self.outstanding);
                self.next.clear(context);
            }
        }
    }

    #[inline]
    fn hit_l2(&mut self, core: usize, line: u32) -> bool {
        match self.reading_l2 {
            OnHit::Copy => self.l2[core].touch(line, line),
            OnHit::Move => self.l2[core].take(line, line),
        }
    }

    #[inline]
    fn hit_llc(&mut self, store: u32, index: u32, line: u32) -> bool {
        match self.reading_llc {
            OnHit::Copy => self.stores[store as usize].touch(index, line),
            OnHit::Move => self.stores[store as usize].take(index, line),
        }
    }

    /// Puts a line into L1; what leaves goes down.
    #[inline]
    fn fill(&mut self, core: usize, app: usize, line: u32) {
        let Some(first) = self.l1[core].insert(line, line, false) else { return };
        let Some(second) = self.l2[core].insert(first.line, first.line, first.reused) else { return };
        let application = &self.applications[app];
        if application.uses_llc && (second.reused || !application.bypass) {
            let (_, store, index) = self.home(app, second.line);
            self.stores[store as usize].insert(index, second.line, false);
        }
    }

    /// The slice of a line, the store that holds it there, and the number that chooses its set.
    #[inline]
    fn home(&self, app: usize, line: u32) -> (u16, u32, u32) {
        let application = &self.applications[app];
        let own = line - application.base;
        let among = application.among;
        let slice = application.slices[among.remainder(own) as usize];
        match self.store_of {
            StoreOf::Slice => (slice, u32::from(slice), among.divide(line).0),
            StoreOf::Pool => (slice, 0, line),
            StoreOf::Ways(slices) => (slice, app as u32 * slices + u32::from(slice), among.divide(line).0),
        }
    }

    /// An application begins to skip the LLC, or to use it: slices that nobody of their owners uses go round the others.
    fn assign(&mut self, app: usize, using: Using) {
        self.applications[app].uses_llc = using != Using::Nothing;
        self.applications[app].totals.changes += 1;
        let owned = self.stores.len() == self.slices.len() && self.applications.len() > 1;
        let exclusive = owned && self.applications.windows(2).all(|pair| pair[0].own != pair[1].own);
        if !exclusive {
            return;
        }
        let released: Vec<u16> =
            self.applications.iter().filter(|a| !a.uses_llc).flat_map(|a| a.own.iter().copied()).collect();
        let users: Vec<usize> = (0..self.applications.len()).filter(|n| self.applications[*n].uses_llc).collect();
        for &n in &users {
            let own = self.applications[n].own.clone();
            self.applications[n].slices = own;
        }
        for (slice, user) in released.into_iter().zip(users.iter().cycle()) {
            self.applications[*user].slices.push(slice);
        }
        for application in &mut self.applications {
            application.among = Divisor::new(application.slices.len().max(1) as u32);
        }
    }
}

/// Moves the completion of a context whose rate changes, and with it what is left of its service.
fn stretch(next: &mut Tournament, context: usize, now: u64, from: u64, to: u64) {
    if from != to
        && let Some(at) = next.at(context)
    {
        let left = (at.0 - now) as u128 * u128::from(to) / u128::from(from);
        next.set(context, Ps(now + left as u64));
    }
}
