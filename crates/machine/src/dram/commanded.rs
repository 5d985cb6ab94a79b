//! Command-level controllers as a memory system drives them: requests say when they come in, and answers are found
//! ahead of time.
//!
//! Requests may be handed in in any order as long as none comes in before the time up to which the channels have been
//! driven. A channel that is full serves others until it has room, which later requests cannot change, so it is driven
//! up to there at once. Whoever drives asks [`Commanded::earliest`] before which time no answer can come, and need not
//! look before that.
//!
//! In front of the vaults of a cube lie links and a crossbar, as in [`super::hmc`]; tags are not modelled here.

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, VecDeque};

use ::stats::{Histogram, Reason};
use rustc_hash::FxHashMap;
use units::{LINE_BYTES, Line, Ps};

use super::channel::{BusWaits, ChannelController, FinishedSink, Goal, RowOutcome};
use super::energy::EnergyEvents;
use super::map::{Decoder, DramLocation};
use super::policy::{Page, Writes};
use super::presets;
use super::simulate::REQUEST_BYTES;
use super::standard::Standard;
use super::stats::{DramReport, Gathered};
use super::{ControllerSetting, DramCounters, DramSpec, LinkSetting, PagePolicy};
use crate::MachineError;
use crate::divisor::Divisor;

/// A read that has been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedRead {
    /// The number that it was handed in with.
    pub id: u64,
    /// When its last data are at the controllers' door.
    pub at: Ps,
    /// How it found its row.
    pub reason: Reason,
    /// What it takes for that at least.
    pub service: Ps,
    /// What it waited for beyond that, as far as the data bus tells: [`Reason::Refresh`], [`Reason::Turnaround`],
    /// [`Reason::BankBusy`] and [`Reason::Bus`]. The rest was the way there and back and the controller's queue.
    pub waits: [Ps; 4],
}

impl FinishedRead {
    /// What [`FinishedRead::waits`] are.
    pub const WAITS: [Reason; 4] = [Reason::Refresh, Reason::Turnaround, Reason::BankBusy, Reason::Bus];
}

/// What the controllers have done since the mark.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandReport {
    /// Counts and shares. Its latencies are in clocks, from acceptance on.
    pub report: DramReport,
    /// Latencies of reads from the controllers' door and back, waiting before it included.
    pub read_latency: Histogram,
    /// Share of time for which requests were on a cube's links, and answers.
    pub links: Option<[f64; 2]>,
}

/// All channels. See the module header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Commanded {
    standard: Standard,
    interleave: Option<Divisor>,
    decoder: Decoder,
    channels: Vec<ChannelController<16>>,
    per_home: usize,
    /// Until when to drive each channel for something to happen; [`u64::MAX`] if there is nothing.
    due: Vec<u64>,
    /// The least clock of an answer that is not known, by channel.
    bound: Vec<u64>,
    /// The least of them.
    least: u64,
    requests: Vec<CommandedRequest>,
    free: Vec<u32>,
    /// By time, then as they were handed in.
    arriving: BinaryHeap<Reverse<(Ps, u64, u32)>>,
    handed_in: u64,
    /// Up to when channels have been driven.
    driven: Ps,
    /// Clocks from a column command to the end of its data, and from a request to an answer at the least.
    column: u64,
    quickest: u64,
    /// Clocks in which a request is served at least, by how it finds its bank.
    served_in: [u32; 3],
    found: FinishedRequests,
    links: Option<Links>,
    all_hits: bool,
    /// Before each channel, where output goes first.
    doors: Option<Vec<Doors>>,
    /// There, how many writes of a line are handed in and not done: output waits behind those of its own line.
    #[serde(serialize_with = "units::arrays::in_order")]
    writing: FxHashMap<u64, u32>,
    latency: Histogram,
    mark: Gathered,
    marked: Ps,
    paused: Option<PausedReports>,
}

/// What controllers had done when reports were paused, how long links had been busy, and when that was.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PausedReports {
    done: Gathered,
    links: Option<[Ps; 2]>,
    at: Ps,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct CommandedRequest {
    id: u64,
    came: Ps,
    channel: u32,
    line: Line,
    place: DramLocation,
    write: bool,
    /// The NIC reads it to send it.
    output: bool,
    waits: BusWaits,
}

/// Requests that a channel has no room for yet. Without a queue for output that is first come first served, so a channel
/// is driven until it has room; where output overtakes, what comes later matters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Doors {
    /// Each with the clock from which it may be taken in.
    output: VecDeque<(u32, u64)>,
    others: VecDeque<(u32, u64)>,
}

impl Doors {
    fn is_empty(&self) -> bool {
        self.output.is_empty() && self.others.is_empty()
    }

    /// The first clock after `now` from which one more may be taken in.
    fn comes(&self, now: u64) -> Option<u64> {
        let clocks = [&self.output, &self.others].map(|door| door.front().map(|(_, clock)| *clock));
        clocks.into_iter().flatten().filter(|&clock| clock > now).min()
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct FinishedRequests {
    done: Vec<(u32, u64, RowOutcome)>,
    waits: Vec<(u32, BusWaits)>,
}

impl FinishedSink for FinishedRequests {
    #[inline(always)]
    fn done(&mut self, id: u64, _: u64, finished: u64, class: RowOutcome) {
        self.done.push((id as u32, finished, class));
    }

    #[inline(always)]
    fn waited(&mut self, id: u64, waits: BusWaits) {
        self.waits.push((id as u32, waits));
    }
}

/// A cube's links: requests take them in turn, answers come back on the same one in order of readiness.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Links {
    free: Vec<[Ps; 2]>,
    next: usize,
    /// Which link each request took, by slot.
    taken: Vec<u32>,
    flit: Ps,
    crossbar: Ps,
    /// Requests behind the crossbar.
    crossing: BinaryHeap<Reverse<(Ps, u64, u32)>>,
    /// Answers before it, with their classes.
    ready: BinaryHeap<Reverse<(Ps, u32, RowOutcome)>>,
    busy: [Ps; 2],
    marked: [Ps; 2],
}

/// Flits of a packet with the data of a request, and of one without.
const LONG: u64 = (REQUEST_BYTES / 16 + 1) as u64;
const SHORT: u64 = 1;

impl Commanded {
    /// The controllers of `setting` over `spec`'s channels.
    ///
    /// # Errors
    /// No standard, or timings that are not its; a standard, map or controller that contradicts itself or another.
    pub fn new(spec: &DramSpec, setting: &ControllerSetting, path: &str) -> Result<Commanded, MachineError> {
        Commanded::of_homes(spec, setting, 1, path)
    }

    /// As [`Commanded::new`], with so many channels at each of `homes` sockets, none of which has the lines of another.
    ///
    /// # Errors
    /// As [`Commanded::new`]; cubes at several homes, whose links are modelled for one.
    pub fn of_homes(
        spec: &DramSpec,
        setting: &ControllerSetting,
        homes: u32,
        path: &str,
    ) -> Result<Commanded, MachineError> {
        let error = |field: &str, came: String, allowed: String, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        let Some(part) = &spec.standard else {
            let allowed = format!("with dram.standard, one of {}", presets::NAMES.join(", "));
            return error("controller", "no standard".into(), allowed, "its commands keep the timings of a standard");
        };
        let name = part.name();
        let of_standard = DramSpec::of_part(part, spec.overhead)?;
        let is_given = spec.page != of_standard.page;
        let mut standard = part.standard().unwrap_or_else(presets::ddr4_2400u);
        standard.ranks = spec.ranks_of(&standard);
        let (channels, page, banks) = (spec.channels, spec.page, standard.banks_per_channel());
        let same = DramSpec { channels, page, banks, ..of_standard };
        if let Some((field, came, has)) = changed(&DramSpec { controller: None, ..spec.clone() }, &same) {
            let allowed = format!("the standard's {has} with a controller");
            return error(field, came, allowed, "leave it out, or remove dram.controller");
        }
        if let Some(page) =
            setting.page.filter(|&page| is_given && (page == Page::Closed) != (spec.page == PagePolicy::Closed))
        {
            let came = format!("{page} with {path}.page = {}", spec.page);
            return error("controller.page", came, "one that says the same".into(), "leave one of them out");
        }
        let (round_robin, map) = setting.address_map(&mut standard, spec.channels, path)?;
        let interleave = round_robin.then(|| Divisor::new(spec.channels));
        let mut decoder = Decoder::new(&map, &standard)?;
        if spec.all_hits {
            decoder = decoder.with_one_row(&standard);
        }
        let controller = setting.spec(spec.page);
        let channels = (0..spec.channels * homes)
            .map(|_| {
                let mut channel = ChannelController::new(&standard, &controller, REQUEST_BYTES)?;
                channel.watch();
                if spec.all_hits {
                    channel.set_all_hits();
                }
                if setting.output_first {
                    channel.set_output_first(controller.queue)?;
                }
                Ok(channel)
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e: MachineError| MachineError {
                path: e.path.replace("dram.controller", &format!("{path}.controller")),
                ..e
            })?;
        let links = match (&setting.links, name.starts_with("hmc")) {
            (_, true) if homes > 1 => {
                let allowed = "a standard without links to a cube with several sockets".into();
                return error("standard", name.into(), allowed, "use DDR or HBM, or leave out machine.sockets");
            }
            (None, false) => None,
            (Some(_), false) => {
                let allowed = "with an HMC standard".into();
                return error("controller.links", format!("links with {name}"), allowed, "remove controller.links");
            }
            (links, true) => Some(Links::new(&links.unwrap_or_default(), &standard, &format!("{path}.controller"))?),
        };
        let t = |timing| standard.timing(timing).map(u64::from);
        let column = t("CL")? + t("BL")?;
        let n = channels.len();
        let (gap, activate, precharge) = (standard.column_gap(), standard.timing("RCD")?, standard.timing("RP")?);
        let hit = standard.timing("CL")? + standard.timing("BL")? + (standard.bursts(REQUEST_BYTES) - 1) * gap;
        Ok(Commanded {
            interleave,
            decoder,
            per_home: spec.channels as usize,
            channels,
            due: vec![u64::MAX; n],
            bound: vec![u64::MAX; n],
            least: u64::MAX,
            requests: Vec::new(),
            free: Vec::new(),
            arriving: BinaryHeap::new(),
            handed_in: 0,
            driven: Ps::ZERO,
            column,
            // A read of a line that the write queue holds is answered from it.
            quickest: if matches!(controller.writes, Writes::Drain { .. }) { 2 } else { column },
            served_in: [hit, activate + hit, precharge + activate + hit],
            found: FinishedRequests::default(),
            links,
            all_hits: spec.all_hits,
            doors: setting.output_first.then(|| vec![Doors::default(); n]),
            writing: FxHashMap::default(),
            latency: Histogram::new(),
            mark: Gathered::default(),
            marked: Ps::ZERO,
            paused: None,
            standard,
        })
    }

    /// Channels.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    /// The data buses' peak, in bytes a second.
    pub fn peak_bytes_per_s(&self) -> f64 {
        self.standard.peak_bytes_per_s() / f64::from(self.standard.channels) * self.channels.len() as f64
    }

    /// The latency of a read that meets an idle memory and a closed bank, from the controllers' door and back: up to a
    /// clock more where it comes in between clocks. Over links their flits and the crossbar are in it.
    pub fn unloaded_miss(&self) -> Ps {
        let open = if self.all_hits { self.standard.timings.get("RCD").copied().unwrap_or(0) } else { 0 };
        let clocks = 1 + self.standard.unloaded_read(self.standard.bursts(REQUEST_BYTES)) - open;
        let links = self.links.as_ref().map_or(Ps::ZERO, |l| l.flit * (SHORT + LONG) + l.crossbar * 2);
        self.time(u64::from(clocks)) + links
    }

    /// Hands in a request to `home` that comes in at `at`, or as soon after as it may: to which channel. Of writes nothing is
    /// heard again but that they were accepted. `output`: the NIC reads it to send it.
    pub fn hand_in(&mut self, id: u64, home: usize, line: Line, write: bool, output: bool, at: Ps) -> usize {
        let (channel, place) = self.place(line);
        let channel = channel + (home * self.per_home) as u32;
        let at = at.max(self.driven);
        let request =
            CommandedRequest { id, came: at, channel, line, place, write, output, waits: BusWaits::default() };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.requests[slot as usize] = request;
                slot
            }
            None => {
                self.requests.push(request);
                self.requests.len() as u32 - 1
            }
        };
        self.handed_in += 1;
        self.arriving.push(Reverse((at, self.handed_in, slot)));
        channel as usize
    }

    /// Has the row of `line` at `home` open, if nothing waits for its channel: what a read takes if nothing is in the way.
    /// It is `now`: refreshes up to then have closed what they close.
    pub fn touch(&mut self, home: usize, line: Line, now: Ps) -> Ps {
        let (channel, place) = self.place(line);
        let clock = self.clock(now);
        let channel = &mut self.channels[channel as usize + home * self.per_home];
        if channel.is_empty() && channel.clock() < clock {
            drive(channel, Goal::Until(clock), &mut self.found);
        }
        channel.touch(place);
        self.time(self.column)
    }

    /// Before this no answer comes that is not known; [`None`] if nothing is left to do. With `acceptance` the same of
    /// the acceptance of writes.
    pub fn earliest(&self, acceptance: bool) -> Option<Ps> {
        let behind = self.links.as_ref().map_or(Ps::ZERO, |l| l.crossbar + l.flit);
        let came = |heap: &BinaryHeap<Reverse<(Ps, u64, u32)>>| {
            // Clocks are rounded up, and their sums not more than once.
            let soonest = if acceptance { Ps::ZERO } else { self.time(self.quickest).since(Ps(1)) };
            heap.peek().map(|Reverse((at, ..))| *at + soonest)
        };
        let commands = (self.least != u64::MAX).then(|| self.time(self.least) + behind);
        let linked = self.links.as_ref().and_then(|l| {
            let ready = l.ready.peek().map(|Reverse((at, ..))| *at + l.flit);
            [came(&l.crossing), ready].into_iter().flatten().min()
        });
        [came(&self.arriving), commands, linked].into_iter().flatten().min()
    }

    /// Does all that happens up to `until`, before which no request comes in any more. Appends reads that are answered,
    /// and the channels that have accepted writes, with when.
    pub fn drive(&mut self, until: Ps, finished: &mut Vec<FinishedRead>, accepted: &mut Vec<(u32, Ps)>) {
        if until < self.driven {
            return;
        }
        while let Some(&Reverse((at, order, slot))) = self.arriving.peek()
            && at <= until
        {
            self.arriving.pop();
            match &mut self.links {
                None => self.enter(slot, at, accepted),
                Some(links) => {
                    let there = links.send(slot, at, self.requests[slot as usize].write);
                    links.crossing.push(Reverse((there, order, slot)));
                }
            }
        }
        while let Some(&Reverse((at, _, slot))) = self.links.as_ref().and_then(|l| l.crossing.peek())
            && at <= until
        {
            if let Some(links) = &mut self.links {
                links.crossing.pop();
            }
            self.enter(slot, at, accepted);
        }
        let clock = self.clock(until);
        for i in 0..self.channels.len() {
            if self.due[i] <= clock + 1 {
                self.admit(i, clock + 1, accepted);
                drive(&mut self.channels[i], Goal::Until(clock + 1), &mut self.found);
                self.look(i);
            }
        }
        self.driven = until;
        self.least = self.bound.iter().copied().min().unwrap_or(u64::MAX);
        for (slot, waits) in self.found.waits.drain(..) {
            self.requests[slot as usize].waits = waits;
        }
        let mut found = std::mem::take(&mut self.found.done);
        for (slot, clock, class) in found.drain(..) {
            let at = self.time(clock);
            match &mut self.links {
                None => self.answer(slot, at, class, finished),
                Some(links) => links.ready.push(Reverse((at + links.crossbar, slot, class))),
            }
        }
        self.found.done = found;
        // What is not known yet is ready after this.
        while let Some(links) = &mut self.links
            && let Some(&Reverse((ready, slot, class))) = links.ready.peek()
            && ready <= until + links.crossbar
        {
            links.ready.pop();
            let at = links.receive(slot, ready, self.requests[slot as usize].write);
            self.answer(slot, at, class, finished);
        }
    }

    /// Statistics count from now on.
    pub fn mark(&mut self, now: Ps) {
        self.mark = self.gathered();
        self.marked = now;
        self.latency.reset();
        self.channels.iter_mut().flat_map(|c| &mut c.account.latency).for_each(Histogram::reset);
        if let Some(links) = &mut self.links {
            links.marked = links.busy;
        }
    }

    /// What they do from now on is in no report, until [`Commanded::go_on_reporting`]. A read counts when it is answered, as data do.
    pub fn pause_reports(&mut self, now: Ps) {
        let links = self.links.as_ref().map(|links| links.busy);
        self.paused = Some(PausedReports { done: self.gathered(), links, at: now });
    }

    /// See [`Commanded::pause_reports`].
    pub fn go_on_reporting(&mut self, now: Ps) {
        let Some(paused) = self.paused.take() else { return };
        let clocks = self.clock(now) - self.clock(paused.at);
        let after = self.gathered();
        self.mark.leave_out(&paused.done, &after, clocks, &self.standard);
        self.marked += now.since(paused.at);
        if let Some((links, before)) = self.links.as_mut().zip(paused.links) {
            for (marked, (busy, before)) in links.marked.iter_mut().zip(links.busy.iter().zip(before)) {
                *marked += busy.since(before);
            }
        }
    }

    /// What they have done since the mark, up to `now`.
    pub fn report(&self, now: Ps) -> CommandReport {
        let paused = self.paused.as_ref().map(|paused| (paused.done.clone(), paused.at));
        let (done, now) = paused.unwrap_or_else(|| (self.gathered(), now));
        let report = done.since(&self.mark, self.clock(now), &self.standard);
        let links = self.links.as_ref().map(|l| {
            let time = now.since(self.marked).as_secs() * l.free.len() as f64;
            std::array::from_fn(|way| {
                if time > 0.0 {
                    (self.paused.as_ref().and_then(|p| p.links).unwrap_or(l.busy)[way] - l.marked[way]).as_secs() / time
                } else {
                    0.0
                }
            })
        });
        CommandReport { report, read_latency: self.latency.clone(), links }
    }

    /// Counters over all time.
    pub fn counters(&self) -> DramCounters {
        let mut sum = DramCounters::default();
        let burst = self.standard.timings.get("BL").copied().unwrap_or(1);
        let mut columns = 0;
        for channel in &self.channels {
            let counters = channel.account.counters;
            sum.reads += counters.reads;
            sum.writes += counters.writes;
            columns += counters.columns[0] + counters.columns[1];
            for [hits, misses, conflicts] in &channel.account.heat {
                sum.row_hits += hits;
                sum.row_misses += misses;
                sum.row_conflicts += conflicts;
            }
        }
        sum.bus_busy = self.time(columns * u64::from(burst));
        sum
    }

    /// What they have done up to `now` that takes energy.
    pub fn work(&self, now: Ps) -> EnergyEvents {
        let mut sum = EnergyEvents::default();
        for channel in &self.channels {
            sum += channel.counters().work(&self.standard, self.clock(now));
        }
        sum
    }

    /// Reads that were answered from a write queue, over all time.
    pub fn forwarded(&self) -> u64 {
        self.channels.iter().map(|c| c.account.counters.forwarded).sum()
    }

    fn gathered(&self) -> Gathered {
        let mut gathered = Gathered::default();
        self.channels.iter().for_each(|channel| gathered.add(channel));
        gathered
    }

    fn place(&self, line: Line) -> (u32, DramLocation) {
        let (within, channel) = match self.interleave {
            Some(channels) => channels.divide(line.0 as u32),
            None => (line.0 as u32, 0),
        };
        let place = self.decoder.decode(u64::from(within) * LINE_BYTES % self.decoder.capacity());
        (if self.interleave.is_some() { channel } else { place.channel }, place)
    }

    /// When `clock` begins.
    fn time(&self, clock: u64) -> Ps {
        begins(clock, &self.standard)
    }

    /// The clock that `time` lies in.
    fn clock(&self, time: Ps) -> u64 {
        let mhz = self.standard.clock_mhz;
        // Of the first hours in few instructions.
        time.0
            .checked_mul(mhz.into())
            .map_or_else(|| (u128::from(time.0) * u128::from(mhz) / 1_000_000) as u64, |clocks| clocks / 1_000_000)
    }

    /// The request in `slot` is before its channel at `at`.
    fn enter(&mut self, slot: u32, at: Ps, accepted: &mut Vec<(u32, Ps)>) {
        let CommandedRequest { channel, line, place, write, output, .. } = self.requests[slot as usize];
        let within = self.clock(at);
        let clock = within + u64::from(self.time(within) < at);
        let i = channel as usize;
        if let Some(doors) = &mut self.doors {
            if write {
                *self.writing.entry(line.0).or_default() += 1;
            }
            // The others have an ingress register to pass.
            match output && !write && !self.writing.contains_key(&line.0) {
                true => doors[i].output.push_back((slot, clock + 1)),
                false => doors[i].others.push_back((slot, clock)),
            }
            self.admit(i, clock, accepted);
            return self.look(i);
        }
        drive(&mut self.channels[i], Goal::Offer(clock), &mut self.found);
        if write {
            accepted.push((channel, self.time(self.channels[i].clock()).max(at)));
        }
        self.channels[i].accept(u64::from(slot), place, write);
        self.look(i);
    }

    /// Does what the clocks of channel `i` before `until` hold, and takes in what waits before it as soon as it may, output
    /// before what came sooner.
    fn admit(&mut self, i: usize, until: u64, accepted: &mut Vec<(u32, Ps)>) {
        let Some(doors) = &mut self.doors else { return };
        let (doors, channel) = (&mut doors[i], &mut self.channels[i]);
        while !doors.is_empty() {
            let now = channel.clock();
            let there =
                |door: &VecDeque<(u32, u64)>| door.front().filter(|(_, clock)| *clock <= now).map(|door| door.0);
            if let Some(slot) = there(&doors.output)
                && channel.can_accept_output()
            {
                doors.output.pop_front();
                channel.accept_output(u64::from(slot), self.requests[slot as usize].place, &mut self.found);
            } else if let Some(slot) = there(&doors.others)
                && channel.can_accept()
            {
                doors.others.pop_front();
                let CommandedRequest { came, place, write, .. } = self.requests[slot as usize];
                if write {
                    accepted.push((i as u32, begins(now, &self.standard).max(came)));
                }
                channel.accept(u64::from(slot), place, write);
            } else if now < until {
                let goal = Goal::Room(doors.comes(now).map_or(until, |clock| clock.min(until)));
                drive(channel, goal, &mut self.found);
            } else {
                // The register may pass what it has on in this clock still.
                let was_free = channel.can_accept();
                drive(channel, Goal::Room(until), &mut self.found);
                if was_free || !channel.can_accept() {
                    return;
                }
            }
        }
    }

    /// Looks for what channel `i` does next.
    fn look(&mut self, i: usize) {
        let channel = &mut self.channels[i];
        let mut due = channel.next();
        let mut least = if channel.can_accept() { self.column } else { self.quickest };
        if let Some(doors) = &self.doors
            && !doors[i].is_empty()
        {
            (due, least) = ([due, doors[i].comes(channel.clock())].into_iter().flatten().min(), 0);
        }
        self.due[i] = due.unwrap_or(u64::MAX);
        self.bound[i] = due.map_or(u64::MAX, |due| due - 1 + least);
    }

    fn answer(&mut self, slot: u32, at: Ps, class: RowOutcome, finished: &mut Vec<FinishedRead>) {
        let request = self.requests[slot as usize];
        self.free.push(slot);
        if request.write {
            if let Entry::Occupied(mut writes) = self.writing.entry(request.line.0) {
                *writes.get_mut() -= 1;
                if *writes.get() == 0 {
                    writes.remove();
                }
            }
            return;
        }
        let reason = [Reason::RowHit, Reason::RowMiss, Reason::RowConflict][class as usize];
        let clocks = self.served_in[class as usize];
        let took = at.since(request.came);
        if self.paused.is_none() {
            self.latency.record(took);
        }
        let service = self.time(clocks.into()).min(took);
        // Opening its own row is what it was served for.
        let BusWaits { refresh, turnaround, row, data } = request.waits;
        let mut left = took - service;
        let waits = [refresh, turnaround, row.saturating_sub(clocks - self.served_in[RowOutcome::Hit as usize]), data]
            .map(|clocks| {
                let part = self.time(clocks.into()).min(left);
                left -= part;
                part
            });
        finished.push(FinishedRead { id: request.id, at, reason, service, waits });
    }
}

impl Links {
    fn new(setting: &LinkSetting, standard: &Standard, path: &str) -> Result<Links, MachineError> {
        let ranges = [
            ("links", setting.links, 1, 8),
            ("lanes", setting.lanes, 1, 16),
            ("lane_gbps", setting.lane_gbps, 1, 100),
            ("crossbar", setting.crossbar, 0, 1000),
        ];
        for (field, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                let (path, allowed) = (format!("{path}.links.{field}"), format!("{least} to {most}"));
                return Err(MachineError::new(
                    path,
                    value.to_string(),
                    allowed,
                    "HMC 2.1 has 4 links of 16 lanes".into(),
                ));
            }
        }
        Ok(Links {
            free: vec![[Ps::ZERO; 2]; setting.links as usize],
            next: 0,
            taken: Vec::new(),
            flit: Ps(128_000 / u64::from(setting.lanes * setting.lane_gbps)),
            crossbar: Ps(u64::from(setting.crossbar) * 1_000_000 / u64::from(standard.clock_mhz)),
            crossing: BinaryHeap::new(),
            ready: BinaryHeap::new(),
            busy: [Ps::ZERO; 2],
            marked: [Ps::ZERO; 2],
        })
    }

    /// Sends a request at `at`: when it is behind the crossbar.
    fn send(&mut self, slot: u32, at: Ps, write: bool) -> Ps {
        let link = self.next;
        self.next = (link + 1) % self.free.len();
        if self.taken.len() <= slot as usize {
            self.taken.resize(slot as usize + 1, 0);
        }
        self.taken[slot as usize] = link as u32;
        self.pass(link, 0, at, write) + self.crossbar
    }

    /// Sends back the answer that is ready at `at`: when it is there.
    fn receive(&mut self, slot: u32, at: Ps, write: bool) -> Ps {
        self.pass(self.taken[slot as usize] as usize, 1, at, !write)
    }

    fn pass(&mut self, link: usize, way: usize, at: Ps, long: bool) -> Ps {
        let time = self.flit * if long { LONG } else { SHORT };
        let free = &mut self.free[link][way];
        *free = at.max(*free) + time;
        self.busy[way] += time;
        *free
    }
}

/// One copy of the engine for all places that drive a channel.
#[inline(never)]
fn drive(channel: &mut ChannelController<16>, goal: Goal, found: &mut FinishedRequests) {
    channel.drive(goal, found);
}

/// When `clock` begins.
fn begins(clock: u64, standard: &Standard) -> Ps {
    let mhz = standard.clock_mhz;
    Ps(clock.checked_mul(1_000_000).map_or_else(
        || (u128::from(clock) * 1_000_000).div_ceil(u128::from(mhz)) as u64,
        |time| time.div_ceil(mhz.into()),
    ))
}

impl DramSpec {
    /// How many ranks of `standard` its banks make; that one's own where they make none.
    fn ranks_of(&self, standard: &Standard) -> u32 {
        let of_a_rank = standard.groups * standard.banks;
        if self.banks.is_multiple_of(of_a_rank) { self.banks / of_a_rank } else { standard.ranks }
    }
}

/// The first field that is not the standard's: its name, what came, and what the standard has.
fn changed(spec: &DramSpec, standard: &DramSpec) -> Option<(&'static str, String, String)> {
    let spans = [
        ("t_cl", &spec.t_cl, &standard.t_cl),
        ("t_rcd", &spec.t_rcd, &standard.t_rcd),
        ("t_rp", &spec.t_rp, &standard.t_rp),
        ("t_ras", &spec.t_ras, &standard.t_ras),
        ("t_burst", &spec.t_burst, &standard.t_burst),
        ("t_refi", &spec.t_refi, &standard.t_refi),
        ("t_rfc", &spec.t_rfc, &standard.t_rfc),
    ];
    if spec.banks != standard.banks {
        let has = format!("{}, or as many for each of several ranks", standard.banks);
        return Some(("banks", spec.banks.to_string(), has));
    }
    if spec.row != standard.row {
        return Some(("row", spec.row.to_string(), standard.row.to_string()));
    }
    // What is read back from a text may differ in the last picosecond.
    let far = |a: Ps, b: Ps| a.since(b).max(b.since(a)) > Ps(1);
    let (field, came, has) = spans.into_iter().find(|(_, came, has)| far(came.ps(), has.ps()))?;
    Some((field, came.to_string(), has.to_string()))
}
