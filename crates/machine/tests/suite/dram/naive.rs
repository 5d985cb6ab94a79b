//! The controller once more, clock by clock: every clock looks at every bank and asks the checker what
//! is allowed. What it issues is what the engine has to issue.

use machine::dram::checker::{Checker, Issued};
use machine::dram::map::{Decoder, DramLocation};
use machine::dram::policy::{BatchBy, ControllerSpec, Order, Page, Refresh, Writes};
use machine::dram::standard::{DramCommand, Standard};

#[derive(Clone, Copy)]
pub struct Request {
    pub address: u64,
    pub write: bool,
    pub offered: u64,
}

#[derive(Clone, Copy)]
struct Waiting {
    id: usize,
    place: DramLocation,
    write: bool,
    accepted: u64,
    seq: usize,
    left: u32,
}

#[derive(Clone, Copy)]
struct Bank {
    passed: u32,
    last_use: u64,
    timeout: u32,
    closed_row: Option<u32>,
}

pub struct Naive<'a> {
    standard: &'a Standard,
    spec: &'a ControllerSpec,
    checker: Checker,
    queue: Vec<Waiting>,
    seq: usize,
    banks: Vec<Bank>,
    writing: bool,
    /// By refresh target: when it falls due, and whether it has.
    refresh: Vec<(u64, bool)>,
    /// By refresh target, the next of the banks that take turns.
    turns: Vec<u32>,
    chosen: Option<usize>,
    active: usize,
    served: u32,
    data_end: u64,
    /// What has been accepted and has not reached the queue.
    ingress: Option<Waiting>,
    pub commands: Vec<Issued>,
    pub completions: Vec<u64>,
    pub accepted: Vec<u64>,
}

impl<'a> Naive<'a> {
    /// Serves all requests of one channel.
    pub fn run(standard: &'a Standard, spec: &'a ControllerSpec, decoder: &Decoder, requests: &[Request]) -> Naive<'a> {
        let mut naive = Naive::new(standard, spec, requests.len());
        let (mut next, mut clock) = (0, 0);
        while next < requests.len() || naive.is_busy() {
            naive.step(clock);
            if let Some(request) = requests.get(next)
                && request.offered <= clock
                && naive.offer(clock, next, decoder.decode(request.address), request.write)
            {
                next += 1;
            }
            clock += 1;
        }
        naive
    }

    /// A channel without requests, which are numbered below `requests`.
    pub fn new(standard: &'a Standard, spec: &'a ControllerSpec, requests: usize) -> Naive<'a> {
        let banks = standard.banks_per_channel();
        let timeout = if let Page::Adaptive { timeout } = spec.page { timeout } else { 0 };
        Naive {
            standard,
            spec,
            checker: Checker::new(standard, false).unwrap(),
            queue: Vec::new(),
            seq: 0,
            banks: vec![Bank { passed: 0, last_use: 0, timeout, closed_row: None }; banks as usize],
            writing: false,
            refresh: match spec.refresh {
                Refresh::Off => Vec::new(),
                Refresh::AllBank | Refresh::SameBank => {
                    let every = Naive::every(standard, spec);
                    let ranks = u64::from(standard.ranks);
                    (0..ranks).map(|r| (every * (r + 1) / ranks, false)).collect()
                }
                Refresh::PerBank => vec![(Naive::every(standard, spec), false)],
            },
            turns: vec![0; banks as usize],
            chosen: None,
            active: 0,
            served: 0,
            data_end: 0,
            ingress: None,
            commands: Vec::new(),
            completions: vec![0; requests],
            accepted: vec![0; requests],
        }
    }

    /// Clocks between two refreshes of a target.
    fn every(standard: &Standard, spec: &ControllerSpec) -> u64 {
        let t = |name: &str| u64::from(standard.timing(name).unwrap());
        match spec.refresh {
            Refresh::PerBank => t("REFI") / u64::from(standard.banks_per_channel()),
            Refresh::SameBank => t("REFI2") / u64::from(standard.banks),
            _ => t("REFI"),
        }
    }

    /// Whether anything is left to do for a request.
    pub fn is_busy(&self) -> bool {
        self.ingress.is_some() || !self.queue.is_empty()
    }

    /// A clock without what is offered at its end.
    pub fn step(&mut self, clock: u64) {
        for refresh in &mut self.refresh {
            refresh.1 |= clock >= refresh.0;
        }
        if let Some(waiting) = self.ingress
            && waiting.accepted < clock
            && self.has_room(waiting.write)
        {
            self.enqueue(waiting, clock);
            self.ingress = None;
        }
        self.refresh_phase(clock);
        self.column_phase(clock);
        self.row_phase(clock);
        self.closing_phase(clock);
    }

    /// Offers a request at the end of a clock; whether it is taken.
    pub fn offer(&mut self, clock: u64, id: usize, place: DramLocation, write: bool) -> bool {
        if self.ingress.is_some() {
            return false;
        }
        self.accepted[id] = clock;
        let left = self.standard.bursts(64);
        self.ingress = Some(Waiting { id, place, write, accepted: clock, seq: 0, left });
        true
    }

    fn drains(&self) -> bool {
        matches!(self.spec.writes, Writes::Drain { .. })
    }

    fn has_room(&self, write: bool) -> bool {
        match self.spec.writes {
            Writes::Mixed => self.queue.len() < self.spec.queue as usize,
            Writes::Drain { queue, .. } => {
                let capacity = if write { queue } else { self.spec.queue };
                self.queue.iter().filter(|w| w.write == write).count() < capacity as usize
            }
        }
    }

    fn enqueue(&mut self, mut waiting: Waiting, clock: u64) {
        if self.drains() && !waiting.write && self.queue.iter().any(|w| w.write && w.place == waiting.place) {
            self.completions[waiting.id] = clock + 1;
            return;
        }
        waiting.seq = self.seq;
        self.seq += 1;
        self.queue.push(waiting);
        self.changed();
    }

    /// After the queue has changed: drains start and end, batches go on.
    fn changed(&mut self) {
        if let Writes::Drain { high, low, .. } = self.spec.writes {
            let writes = self.queue.iter().filter(|w| w.write).count() as u32;
            let reads = self.queue.len() as u32 - writes;
            self.writing = if self.writing {
                writes > 0 && (reads == 0 || writes > low)
            } else {
                writes >= high || (reads == 0 && writes > 0)
            };
        }
        if self.chosen.is_none()
            && let Some((list, served, seq)) = self.choose(self.active, self.served, &[])
        {
            (self.active, self.served, self.chosen) = (list, served, Some(seq));
        }
    }

    fn list_of(&self, waiting: &Waiting) -> usize {
        match self.spec.order {
            Order::Batch { by: BatchBy::Direction, .. } => usize::from(waiting.write),
            Order::Batch { by: BatchBy::BankParity, .. } => waiting.place.bank as usize & 1,
            _ => 0,
        }
    }

    fn choose(&self, active: usize, served: u32, taken: &[usize]) -> Option<(usize, u32, usize)> {
        let head = |list| self.queue.iter().find(|w| self.list_of(w) == list && !taken.contains(&w.seq));
        let size = if let Order::Batch { size, .. } = self.spec.order { size } else { u32::MAX };
        match (head(active), head(1 - active)) {
            (None, None) => None,
            (None, Some(other)) => Some((1 - active, 1, other.seq)),
            (Some(here), other) => {
                let hit = self.checker.open_row(here.place.bank) == Some(here.place.row);
                match other {
                    Some(other) if !(served < size && (hit || served == 0)) => Some((1 - active, 1, other.seq)),
                    _ => Some((active, served.saturating_add(1).min(size), here.seq)),
                }
            }
        }
    }

    fn target(&self, i: usize) -> Vec<u32> {
        let per_rank = self.standard.groups * self.standard.banks;
        match self.spec.refresh {
            Refresh::PerBank => vec![self.turns[0]],
            Refresh::SameBank => (0..self.standard.groups)
                .map(|g| i as u32 * per_rank + g * self.standard.banks + self.turns[i])
                .collect(),
            _ => (i as u32 * per_rank..(i as u32 + 1) * per_rank).collect(),
        }
    }

    fn blocked(&self, bank: u32) -> bool {
        (0..self.refresh.len()).any(|i| self.refresh[i].1 && self.target(i).contains(&bank))
    }

    fn issue(&mut self, clock: u64, command: DramCommand, bank: u32, row: u32) -> bool {
        let issued = Issued { clock, command, bank, row };
        if self.checker.permits(issued).is_err() {
            return false;
        }
        self.checker.issue(issued).unwrap();
        self.commands.push(issued);
        true
    }

    fn refresh_phase(&mut self, clock: u64) {
        for i in 0..self.refresh.len() {
            if !self.refresh[i].1 {
                continue;
            }
            let target = self.target(i);
            let open = target.iter().any(|&b| self.checker.open_row(b).is_some());
            let (close, refresh, turns) = match self.spec.refresh {
                Refresh::PerBank => (DramCommand::Pre, DramCommand::RefBank, self.standard.banks_per_channel()),
                Refresh::SameBank => (DramCommand::PreSame, DramCommand::RefSame, self.standard.banks),
                _ => (DramCommand::PreAll, DramCommand::Ref, 1),
            };
            let command = if open { close } else { refresh };
            if self.issue(clock, command, target[0], 0) {
                if !open {
                    let every = Naive::every(self.standard, self.spec);
                    self.refresh[i] = (self.refresh[i].0 + every, false);
                    self.turns[i] = (self.turns[i] + 1) % turns;
                    self.refresh[i].1 = clock >= self.refresh[i].0;
                }
                return;
            }
        }
    }

    /// The requests that may act, with what each needs: at most one a bank, and its age.
    fn candidates(&self) -> Vec<(usize, DramCommand, Waiting)> {
        let mut found = Vec::new();
        let needs = |w: &Waiting| match self.checker.open_row(w.place.bank) {
            None => DramCommand::Act,
            Some(row) if row != w.place.row => DramCommand::Pre,
            _ if w.write => DramCommand::Wr,
            _ => DramCommand::Rd,
        };
        match self.spec.order {
            Order::FrFcfs { cap } => {
                for bank in 0..self.banks.len() as u32 {
                    let of_bank: Vec<&Waiting> = self
                        .queue
                        .iter()
                        .filter(|w| w.place.bank == bank && (!self.drains() || w.write == self.writing))
                        .collect();
                    let Some(&oldest) = of_bank.first() else { continue };
                    let hit = of_bank.iter().find(|w| self.checker.open_row(bank) == Some(w.place.row));
                    let capped = cap > 0 && self.banks[bank as usize].passed >= cap;
                    let best = match hit {
                        Some(hit) if !capped || hit.seq == oldest.seq => hit,
                        _ => oldest,
                    };
                    found.push((best.seq, needs(best), *best));
                }
            }
            Order::Fcfs { prefetch } | Order::Batch { prefetch, .. } => {
                let (mut active, mut served, mut at) = (self.active, self.served, self.chosen);
                let (mut taken, mut banks) = (Vec::new(), Vec::new());
                for age in 0..prefetch.max(1) as usize {
                    let Some(seq) = at else { break };
                    taken.push(seq);
                    let w = *self.queue.iter().find(|w| w.seq == seq).unwrap();
                    if !banks.contains(&w.place.bank) {
                        banks.push(w.place.bank);
                        let command = needs(&w);
                        if age == 0 || !command.is_column() {
                            found.push((age, command, w));
                        }
                    }
                    at = self.choose(active, served, &taken).map(|(list, count, seq)| {
                        (active, served) = (list, count);
                        seq
                    });
                }
            }
        }
        found.retain(|(_, _, w)| !self.blocked(w.place.bank));
        found.sort_by_key(|&(age, _, _)| age);
        found
    }

    /// Banks with a row that nothing in view wants.
    fn idle_rows(&self) -> Vec<u32> {
        let mut in_view = Vec::new();
        match self.spec.order {
            Order::FrFcfs { .. } => {
                in_view.extend(
                    self.queue.iter().filter(|w| !self.drains() || w.write == self.writing).map(|w| w.place.bank),
                );
            }
            Order::Fcfs { prefetch } | Order::Batch { prefetch, .. } => {
                let (mut active, mut served, mut at) = (self.active, self.served, self.chosen);
                let mut taken = Vec::new();
                for _ in 0..prefetch.max(1) {
                    let Some(seq) = at else { break };
                    taken.push(seq);
                    in_view.push(self.queue.iter().find(|w| w.seq == seq).unwrap().place.bank);
                    at = self.choose(active, served, &taken).map(|(list, count, seq)| {
                        (active, served) = (list, count);
                        seq
                    });
                }
            }
        }
        (0..self.banks.len() as u32)
            .filter(|&b| self.checker.open_row(b).is_some() && !self.blocked(b) && !in_view.contains(&b))
            .collect()
    }

    fn column_phase(&mut self, clock: u64) {
        for (_, command, w) in self.candidates() {
            if !command.is_column() || !self.issue(clock, command, w.place.bank, w.place.row) {
                continue;
            }
            self.banks[w.place.bank as usize].last_use = clock;
            let t = |name: &str| u64::from(self.standard.timing(name).unwrap());
            self.data_end = clock + t(if w.write { "CWL" } else { "CL" }) + t("BL");
            let at = self.queue.iter().position(|q| q.seq == w.seq).unwrap();
            self.queue[at].left -= 1;
            if self.queue[at].left == 0 {
                let passes = self.queue[..at]
                    .iter()
                    .any(|q| q.place.bank == w.place.bank && (!self.drains() || q.write == w.write));
                if passes {
                    self.banks[w.place.bank as usize].passed += 1;
                }
                self.queue.remove(at);
                self.completions[w.id] = self.data_end;
                self.chosen = None;
                self.changed();
            }
            return;
        }
    }

    fn row_phase(&mut self, clock: u64) {
        for (_, command, w) in self.candidates() {
            if command.is_column() {
                continue;
            }
            let ahead = !matches!(self.spec.order, Order::Fcfs { prefetch: 0 } | Order::Batch { prefetch: 0, .. });
            if command == DramCommand::Act && !ahead && clock < self.data_end {
                continue;
            }
            let row = if command == DramCommand::Act { w.place.row } else { 0 };
            if !self.issue(clock, command, w.place.bank, row) {
                continue;
            }
            let adaptive = matches!(self.spec.page, Page::Adaptive { .. });
            let bank = &mut self.banks[w.place.bank as usize];
            if command == DramCommand::Act {
                if adaptive && bank.closed_row == Some(row) {
                    bank.timeout = (bank.timeout * 2).min(4096);
                }
                bank.closed_row = None;
                bank.passed = 0;
                bank.last_use = clock;
            } else if adaptive {
                bank.timeout = (bank.timeout / 2).max(16);
            }
            return;
        }
    }

    fn closing_phase(&mut self, clock: u64) {
        if self.spec.page == Page::Open {
            return;
        }
        for bank in self.idle_rows() {
            let state = self.banks[bank as usize];
            let row = self.checker.open_row(bank);
            if clock >= state.last_use + u64::from(state.timeout) && self.issue(clock, DramCommand::Pre, bank, 0) {
                self.banks[bank as usize].closed_row = row;
                return;
            }
        }
    }
}
