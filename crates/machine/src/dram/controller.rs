//! The engine as a [`Controller`]: for whoever drives memory request by request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ::stats::{Path, Reason};
use probe::Request;
use units::{Ps, Ticket};

use super::channel::{Channel, Class, Goal, Sink};
use super::map::{AddressMap, Decoder};
use super::policy::ControllerSpec;
use super::simulate::REQUEST_BYTES;
use super::standard::Standard;
use super::stats::{Gathered, Report};
use crate::{Controller, Full, MachineError, Response, Served};

/// All channels of a memory behind one door.
///
/// A request is accepted in the first clock that does not begin before it is submitted, if the
/// ingress register of its channel is empty then. Addresses wrap at the device's capacity.
#[derive(Clone, Debug)]
pub struct DramController {
    standard: Standard,
    decoder: Decoder,
    /// Groups of up to 16: the widest form of the engine fits every standard.
    channels: Vec<Channel<16>>,
    /// Until when to drive each channel for something to happen.
    due: Vec<Option<u64>>,
    submitted: Vec<Ps>,
    free: Vec<u32>,
    finished: Finished,
}

#[derive(Clone, Debug, Default)]
struct Finished(BinaryHeap<Reverse<(u64, u64, Class)>>);

impl Sink for Finished {
    fn done(&mut self, id: u64, _: u64, finished: u64, class: Class) {
        self.0.push(Reverse((finished, id, class)));
    }
}

impl DramController {
    /// Builds the channels.
    ///
    /// # Errors
    /// A standard, map or controller that contradicts itself.
    pub fn new(standard: &Standard, map: &AddressMap, spec: &ControllerSpec) -> Result<DramController, MachineError> {
        let decoder = Decoder::new(map, standard)?;
        let channels = (0..standard.channels)
            .map(|_| Channel::new(standard, spec, REQUEST_BYTES))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(DramController {
            standard: standard.clone(),
            decoder,
            due: vec![None; channels.len()],
            channels,
            submitted: Vec::new(),
            free: Vec::new(),
            finished: Finished::default(),
        })
    }

    /// What it has done so far.
    pub fn report(&self) -> Report {
        let mut gathered = Gathered::default();
        self.channels.iter().for_each(|channel| gathered.add(channel));
        gathered.report(&self.standard)
    }

    /// When `clock` begins.
    fn time(&self, clock: u64) -> Ps {
        Ps((u128::from(clock) * 1_000_000).div_ceil(u128::from(self.standard.clock_mhz)) as u64)
    }

    /// The clock that `time` lies in.
    fn clock(&self, time: Ps) -> u64 {
        (u128::from(time.0) * u128::from(self.standard.clock_mhz) / 1_000_000) as u64
    }

    fn response(&self, submitted: Ps, finished: u64, class: Class) -> Response {
        let at = self.time(finished).max(submitted);
        let t = |name: &str| self.standard.timings.get(name).copied().unwrap_or(0);
        let column = t("CL") + t("BL");
        let (reason, clocks) = match class {
            Class::Hit => (Reason::RowHit, column),
            Class::Miss => (Reason::RowMiss, t("RCD") + column),
            Class::Conflict => (Reason::RowConflict, t("RP") + t("RCD") + column),
        };
        let service = self.time(u64::from(clocks)).min(at - submitted);
        let mut path = Path::default();
        path.push(Reason::DramQueue, at - submitted - service);
        path.push(reason, service);
        Response { at, served: Served::Dram, path }
    }
}

impl Controller for DramController {
    fn submit(&mut self, request: &Request, now: Ps) -> Result<Ticket, Full> {
        let place = self.decoder.decode(request.addr.0 % self.decoder.capacity());
        // The first clock that does not begin before now.
        let within = self.clock(now);
        let clock = if self.time(within) >= now { within } else { within + 1 };
        let channel = &mut self.channels[place.channel as usize];
        channel.drive(Goal::Until(clock), &mut self.finished);
        let accepts = channel.can_accept();
        if accepts {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.submitted.push(Ps::ZERO);
                self.submitted.len() as u32 - 1
            });
            self.submitted[slot as usize] = now;
            channel.accept(u64::from(slot), place, request.access.writes());
            self.due[place.channel as usize] = channel.next();
            return Ok(Ticket(u64::from(slot)));
        }
        self.due[place.channel as usize] = channel.next();
        Err(Full)
    }

    fn next(&self) -> Option<Ps> {
        let work = self.due.iter().flatten().min().map(|&clock| self.time(clock));
        let done = self.finished.0.peek().map(|Reverse((finished, ..))| self.time(*finished));
        [work, done].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Ps, done: &mut Vec<(Ticket, Response)>) {
        let clock = self.clock(now);
        for (channel, due) in self.channels.iter_mut().zip(&mut self.due) {
            if due.is_some_and(|due| due <= clock) {
                channel.drive(Goal::Until(clock), &mut self.finished);
                *due = channel.next();
            }
        }
        while let Some(&Reverse((finished, id, class))) = self.finished.0.peek()
            && finished <= clock
        {
            self.finished.0.pop();
            let submitted = self.submitted[id as usize];
            self.free.push(id as u32);
            done.push((Ticket(id), self.response(submitted, finished, class)));
        }
    }
}
