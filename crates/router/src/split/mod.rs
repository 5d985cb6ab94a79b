//! Several backends at once: batches go to CPU threads or to a GPU by measured cost, and leave in order.
//!
//! A packet waits in a slot of its own until its batch is posted; then it goes into a slot of the backend that [`CostSplit`]
//! chooses, under a number of that backend's. Where packets leave in order, a batch that is done before an earlier one waits for
//! it, whichever backend has it: flows may move between backends from batch to batch, and their order stays.
//!
//! A backend that fails gets nothing from then on. What it had not committed is taken back and goes to another one, where the
//! backend still has packets as they were: a kernel works on copies. Threads work on the packets themselves, and may do so still:
//! those are lost, and counted. The failure is in the report. If no backend is left, the run ends with it.

mod cost;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use functions::Verdict;
use packet::Packet;
use serde::{Serialize, Serializer};

pub use self::cost::{CostSplit, GivenBatch, SplitPolicy, SplitShare};
use crate::RouterError;
use crate::backend::{Backend, Committed};
use crate::program::MemberWork;

/// What a backend of several did.
#[derive(Clone, Debug, Serialize)]
pub struct BackendShare {
    /// Its name.
    pub backend: &'static str,
    /// What it was given.
    #[serde(flatten)]
    pub share: SplitShare,
    /// Packets that it had when it failed, and that another one did.
    pub redone: u64,
    /// Packets that were lost with it.
    pub lost: u64,
    /// Why it gets nothing any more.
    #[serde(serialize_with = "told")]
    pub failed: Option<Arc<RouterError>>,
}

impl BackendShare {
    /// Adds what the backends of another queue were given, in the same order. Shares are of all packets of all queues.
    pub(crate) fn add_all(sum: &mut Vec<BackendShare>, other: Vec<BackendShare>) {
        let known = sum.len();
        for (place, own) in other.into_iter().enumerate() {
            match sum.get_mut(place).filter(|_| place < known) {
                Some(sum) => {
                    sum.share.add(&own.share);
                    sum.redone += own.redone;
                    sum.lost += own.lost;
                    sum.failed = sum.failed.take().or(own.failed);
                }
                None => sum.push(own),
            }
        }
        let whole = sum.iter().map(|own| own.share.packets).sum::<u64>().max(1) as f64;
        sum.iter_mut().for_each(|own| own.share.share = own.share.packets as f64 / whole);
    }
}

fn told<S: Serializer>(failed: &Option<Arc<RouterError>>, to: S) -> Result<S::Ok, S::Error> {
    match failed {
        Some(error) => to.collect_str(error),
        None => to.serialize_none(),
    }
}

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In this value's slot.
    Here,
    /// In a backend's, by its number there.
    At(u32, u64),
    /// Committed there.
    Done(u32, u64),
    Lost,
}

/// A batch in order of arrival.
struct Batch {
    first: u64,
    count: u32,
    left: u32,
}

/// A part of a batch that a backend has.
struct Posted {
    batch: u64,
    /// Its packets' numbers, here and there.
    first: u64,
    own: u64,
    count: u32,
    left: u32,
    given: GivenBatch,
}

struct SplitPart {
    backend: Box<dyn Backend>,
    next: u64,
    /// By slot of the backend: whether a packet is there that has not been taken. What was taken back from another backend has a
    /// later number here than packets that leave after it, so that slots do not get free in the order of numbers.
    held: Vec<bool>,
    posted: VecDeque<Posted>,
    failed: Option<Arc<RouterError>>,
    redone: u64,
    lost: u64,
}

/// Several backends that do the same program.
pub struct SplitBackend {
    name: &'static str,
    members: Vec<SplitPart>,
    cost: CostSplit,
    ordered: bool,
    most: u32,
    packets: Vec<Packet>,
    places: Vec<Place>,
    /// Those that have not all been given out, and the number of the first.
    batches: VecDeque<Batch>,
    oldest: u64,
    /// Packets that were taken back from a backend that failed: batch, first, how many.
    redo: VecDeque<(u64, u64, u32)>,
    /// Seconds since its start.
    clock: Box<dyn Fn() -> f64>,
    latest: usize,
    out: Vec<Committed>,
    /// Batches that are done and not yet given out, where they need not leave in order.
    done: Vec<u64>,
}

impl SplitBackend {
    /// `backends` take batches of up to `most` packets between them, by `policy`; each has at least `slots` slots, a power of two.
    ///
    /// # Errors
    /// No backend, or more than two; one with fewer slots, or too few tasks for a batch; a share that is none.
    pub fn new(
        name: &'static str,
        backends: Vec<Box<dyn Backend>>,
        policy: SplitPolicy,
        slots: u64,
        most: u32,
        ordered: bool,
    ) -> Result<SplitBackend, RouterError> {
        let wrong = |what, came, allowed| Err(RouterError::Setting { what, came, allowed });
        if let SplitPolicy::Share(share) = policy
            && !(0.0..=1.0).contains(&share)
        {
            return wrong("share", share.to_string(), "must be a share of packets, 0 to 1");
        }
        // Of three, what one that fails leaves to the others could wait for slots of packets that leave behind it.
        if backends.len() > 2 {
            return wrong("backends", backends.len().to_string(), "allowed are one and two");
        }
        if backends.is_empty() || !slots.is_power_of_two() || backends.iter().any(|own| own.slots() < slots) {
            return wrong("slots", slots.to_string(), "must be a power of two, and no more than each backend has");
        }
        if most == 0 || u64::from(most) > slots / 2 {
            return wrong("batch", most.to_string(), "allowed are 1 and more, up to half the slots");
        }
        // Batches may begin anywhere among a backend's tasks, and then take one more.
        let takes = |own: &dyn Backend| {
            let (mut done, mut tasks) = (0, 1);
            while done < u64::from(most) {
                done += own.fit(done, u64::from(most) - done);
                tasks += 1;
            }
            tasks <= own.room()
        };
        if let Some(short) = backends.iter().find(|own| !takes(own.as_ref())) {
            let came = format!("{most}, with {}", short.name());
            return wrong("batch", came, "must be less, or the mode one that has several batches under way");
        }
        let member = |backend: Box<dyn Backend>| {
            let held = vec![false; backend.slots() as usize];
            SplitPart { backend, next: 0, held, posted: VecDeque::new(), failed: None, redone: 0, lost: 0 }
        };
        let start = Instant::now();
        Ok(SplitBackend {
            name,
            cost: CostSplit::new(backends.len(), policy),
            members: backends.into_iter().map(member).collect(),
            ordered,
            most,
            packets: vec![Packet::default(); slots as usize],
            places: vec![Place::Here; slots as usize],
            batches: VecDeque::new(),
            oldest: 0,
            redo: VecDeque::new(),
            clock: Box::new(move || start.elapsed().as_secs_f64()),
            latest: 0,
            out: Vec::new(),
            done: Vec::new(),
        })
    }

    /// By another clock, which gives seconds and never goes back: what it chooses can be tested in made time.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> f64 + 'static) -> SplitBackend {
        SplitBackend { clock: Box::new(clock), ..self }
    }

    fn place(&self, number: u64) -> usize {
        (number & (self.packets.len() as u64 - 1)) as usize
    }

    fn now(&self) -> f64 {
        (self.clock)()
    }

    /// Gives a part of a batch to a backend that has room; false if none is to have it yet.
    fn give(&mut self, batch: u64, first: u64, count: u32) -> Result<bool, RouterError> {
        let room: Vec<bool> = self.members.iter().map(|member| member.has_room(u64::from(count))).collect();
        let now = self.now();
        let Some(given) = self.cost.choose(now, u64::from(count), &room) else { return Ok(false) };
        let chosen = given.which;
        let member = &mut self.members[chosen];
        let own = member.next;
        member.posted.push_back(Posted { batch, first, own, count, left: count, given });
        let (mut done, mask) = (0, self.packets.len() as u64 - 1);
        while done < u64::from(count) {
            let task = member.backend.fit(member.next, u64::from(count) - done);
            for i in 0..task {
                let place = ((first + done + i) & mask) as usize;
                member.put(member.next + i, &mut self.packets[place]);
                self.places[place] = Place::At(chosen as u32, member.next + i);
            }
            let (from, backend) = (member.next, member.backend.name());
            member.next += task;
            done += task;
            let refused = || RouterError::Protocol { backend, what: "it refused a task that it had room for".into() };
            if let Err(error) = member.backend.post(from, task as u32).and_then(|t| t.then_some(()).ok_or_else(refused))
            {
                self.give_up(chosen, error)?;
                break;
            }
        }
        Ok(true)
    }

    /// Backend `which` gets nothing any more, and what it has not done goes to others.
    fn give_up(&mut self, which: usize, error: RouterError) -> Result<(), RouterError> {
        self.cost.give_up(which);
        if self.members.iter().enumerate().all(|(i, member)| i == which || member.failed.is_some()) {
            return Err(error);
        }
        let mask = self.packets.len() as u64 - 1;
        let member = &mut self.members[which];
        member.failed = Some(Arc::new(error));
        let mut undone = 0;
        for posted in std::mem::take(&mut member.posted) {
            for number in posted.first..posted.first + u64::from(posted.count) {
                let place = (number & mask) as usize;
                match self.places[place] {
                    Place::At(at, own) if at as usize == which => {
                        undone += 1;
                        if !member.backend.recall(own, &mut self.packets[place]) {
                            self.places[place] = Place::Lost;
                            member.lost += 1;
                            let batch = &mut self.batches[(posted.batch - self.oldest) as usize];
                            batch.left -= 1;
                            if batch.left == 0 {
                                self.done.push(posted.batch);
                            }
                            continue;
                        }
                        member.redone += 1;
                    }
                    // It was not yet put there.
                    Place::Here => undone += 1,
                    _ => continue,
                }
                self.places[place] = Place::Here;
                match self.redo.back_mut() {
                    Some((batch, first, count))
                        if *batch == posted.batch && *first + u64::from(*count) == number && *count < self.most =>
                    {
                        *count += 1;
                    }
                    _ => self.redo.push_back((posted.batch, number, 1)),
                }
            }
        }
        self.cost.take_back(which, undone);
        Ok(())
    }

    /// Gives what was taken back to others, as far as they have room.
    fn redo(&mut self) -> Result<(), RouterError> {
        while let Some(&(batch, first, count)) = self.redo.front() {
            // Taken out before: a backend that fails with it puts it there again.
            self.redo.pop_front();
            if !self.give(batch, first, count)? {
                self.redo.push_front((batch, first, count));
                break;
            }
        }
        Ok(())
    }

    /// SplitPart `which` has committed these of its packets.
    fn commit(&mut self, which: usize, committed: Committed, now: f64) -> Result<(), RouterError> {
        let (mut own, end) = (committed.first, committed.first + u64::from(committed.count));
        while own < end {
            let backend = self.members[which].backend.name();
            let has = |posted: &Posted| (posted.own..posted.own + u64::from(posted.count)).contains(&own);
            let Some(at) = self.members[which].posted.iter().position(has) else {
                let what = format!("packet {own} was committed, which it does not have");
                return Err(RouterError::Protocol { backend, what });
            };
            let posted = &self.members[which].posted[at];
            let count = (posted.own + u64::from(posted.count)).min(end) - own;
            let (batch, first) = (posted.batch, posted.first + (own - posted.own));
            let is_there = |i| self.places[self.place(first + i)] == Place::At(which as u32, own + i);
            if let Some(twice) = (0..count).find(|&i| !is_there(i)) {
                let what = format!("packet {} was committed twice", own + twice);
                return Err(RouterError::Protocol { backend, what });
            }
            for i in 0..count {
                let place = self.place(first + i);
                self.places[place] = Place::Done(which as u32, own + i);
            }
            let posted = &mut self.members[which].posted[at];
            posted.left -= count as u32;
            if posted.left == 0 {
                let given = posted.given;
                self.members[which].posted.remove(at);
                self.cost.done(&given, now);
            }
            let waits = &mut self.batches[(batch - self.oldest) as usize];
            waits.left -= count as u32;
            if waits.left == 0 {
                self.done.push(batch);
            }
            own += count;
        }
        Ok(())
    }

    /// Appends batches that may leave.
    fn give_out(&mut self, out: &mut Vec<Committed>) {
        for done in self.done.drain(..).filter(|_| !self.ordered) {
            let batch = &mut self.batches[(done - self.oldest) as usize];
            out.push(Committed { first: batch.first, count: std::mem::take(&mut batch.count) });
        }
        while let Some(batch) = self.batches.front().filter(|batch| batch.left == 0) {
            if batch.count > 0 {
                out.push(Committed { first: batch.first, count: batch.count });
            }
            self.batches.pop_front();
            self.oldest += 1;
        }
    }
}

impl SplitPart {
    fn slot(&self, number: u64) -> usize {
        (number & (self.held.len() as u64 - 1)) as usize
    }

    fn put(&mut self, number: u64, packet: &mut Packet) {
        let slot = self.slot(number);
        self.held[slot] = true;
        self.backend.put(number, packet);
    }

    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        let slot = self.slot(number);
        self.held[slot] = false;
        self.backend.take(number, packet)
    }

    /// Whether all tasks of a batch of so many packets can be posted, and their packets' slots are free.
    fn has_room(&self, packets: u64) -> bool {
        if self.failed.is_some() || (self.next..self.next + packets).any(|number| self.held[self.slot(number)]) {
            return false;
        }
        let (mut done, mut tasks) = (0, 0);
        while done < packets {
            done += self.backend.fit(self.next + done, packets - done);
            tasks += 1;
        }
        tasks <= self.backend.room()
    }
}

impl Backend for SplitBackend {
    fn name(&self) -> &'static str {
        self.name
    }

    fn slots(&self) -> u64 {
        self.packets.len() as u64
    }

    fn most(&self) -> u32 {
        self.most
    }

    fn put(&mut self, number: u64, packet: &mut Packet) {
        let place = self.place(number);
        std::mem::swap(&mut self.packets[place], packet);
        self.places[place] = Place::Here;
    }

    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError> {
        self.redo()?;
        if !self.redo.is_empty() {
            return Ok(false);
        }
        let number = self.oldest + self.batches.len() as u64;
        self.batches.push_back(Batch { first, count, left: count });
        let given = self.give(number, first, count)?;
        if !given {
            self.batches.pop_back();
        }
        Ok(given)
    }

    fn room(&self) -> u64 {
        u64::from(self.redo.is_empty() && self.members.iter().any(|member| member.has_room(u64::from(self.most))))
    }

    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        self.redo()?;
        for which in 0..self.members.len() {
            if self.members[which].failed.is_some() {
                continue;
            }
            let mut committed = std::mem::take(&mut self.out);
            let polled = self.members[which].backend.poll(&mut committed);
            let now = self.now();
            let done = committed.drain(..).try_for_each(|part| self.commit(which, part, now));
            self.out = committed;
            if let Err(error) = polled.and(done) {
                self.give_up(which, error)?;
            }
        }
        self.give_out(out);
        Ok(())
    }

    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        let place = self.place(number);
        let Place::Done(which, own) = self.places[place] else {
            let what = format!("packet {number} was not committed");
            return Err(RouterError::Protocol { backend: self.name, what });
        };
        self.latest = which as usize;
        // The slot is free: whoever asks has the packet now.
        self.members[self.latest].take(own, packet)
    }

    fn lost(&self, number: u64) -> bool {
        self.places[self.place(number)] == Place::Lost
    }

    fn fragments(&self) -> &[Packet] {
        self.members[self.latest].backend.fragments()
    }

    fn shares(&self) -> Vec<MemberWork> {
        let mut all: Vec<MemberWork> = Vec::new();
        for own in self.members.iter().map(|member| member.backend.shares()) {
            match all.is_empty() {
                true => all = own,
                false => all.iter_mut().zip(&own).for_each(|(sum, share)| sum.add(share)),
            }
        }
        all
    }

    fn cut(&self) -> u64 {
        self.members.iter().map(|member| member.backend.cut()).sum()
    }

    fn split(&self) -> Vec<BackendShare> {
        let told = |(member, share): (&SplitPart, SplitShare)| BackendShare {
            backend: member.backend.name(),
            share,
            redone: member.redone,
            lost: member.lost,
            failed: member.failed.clone(),
        };
        self.members.iter().zip(self.cost.shares()).map(told).collect()
    }

    fn stop(&mut self) -> Result<(), RouterError> {
        let working = self.members.iter_mut().filter(|member| member.failed.is_none());
        // All are asked, whichever of them fails.
        let ended: Vec<_> = working.map(|member| member.backend.stop()).collect();
        ended.into_iter().collect()
    }
}
