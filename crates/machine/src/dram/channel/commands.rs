//! What a command does to the stages: columns, activates, precharges. Refreshes are in [`super::refresh`].

use super::rows::Opened;
use super::{ACT, ChannelController, FinishedSink, KINDS, NO_ROW, OUTPUT, PRE, WR};
use crate::dram::checker::Issued;
use crate::dram::standard::DramCommand;

impl<const G: usize> ChannelController<G> {
    /// Whether a request was finished.
    #[inline(always)]
    pub(super) fn issue_column(&mut self, bank: usize, sink: &mut impl FinishedSink) -> bool {
        let want = self.candidates.of(bank);
        let (kind, index) = (want.kind(), want.slot);
        let write = kind == WR;
        self.note(KINDS[kind & 3], bank, self.rows.bank[bank].open);
        self.charge(bank, write, index);
        self.clocks.take_bus(&self.timing, kind & 3);
        self.keep_apart(kind & 3, bank);
        let end = self.clocks.now + self.timing.delay[usize::from(write)] + self.timing.burst;
        self.bus.data_end = end;
        self.bus.end = self.clocks.outside(end);
        self.page.used(bank, self.clocks.now);
        let slot = self.queues.slot_mut(index);
        slot.left -= 1;
        if slot.left > 0 {
            self.candidates.again(&self.clocks, bank, kind & 3);
            return false;
        }
        let (entry, class) = (slot.entry, slot.class);
        self.account.finished(write, end - entry.accepted);
        if self.watch.is_on() {
            let (accepted, begin) = (self.clocks.outside(entry.accepted), self.clocks.outside(end - self.timing.burst));
            let waits = self.watch.waits(entry.id as usize, accepted, &self.account.counters.gaps, begin);
            sink.waited(entry.id, waits);
        }
        sink.done(entry.id, self.clocks.outside(entry.accepted), self.clocks.outside(end), class);
        self.remove(index, bank);
        true
    }

    /// Charges the data bus's time since its last data, and counts the request.
    #[inline(always)]
    fn charge(&mut self, bank: usize, write: bool, index: u8) {
        let row = &mut self.rows.bank[bank];
        let slot = self.queues.slot_mut(index);
        if !slot.begun {
            slot.begun = true;
            slot.class = row.found();
            self.account.begun(bank, slot.class, write);
        }
        let counters = &mut self.account.counters;
        counters.columns[usize::from(write)] += 1;
        self.bus.charge(&self.timing, self.clocks.now, (bank, row), write, &mut counters.gaps);
        row.fresh = false;
    }

    /// Takes a served request out.
    #[inline(always)]
    fn remove(&mut self, index: u8, bank: usize) {
        let entry = &self.queues.slot(index).entry;
        let queue = if entry.output { OUTPUT } else { self.queues.queue_of(entry.write) };
        let (which, at) = self.list_of(entry, queue);
        if self.queues.take_out(index, queue, which, at) {
            self.rows.bank[bank].passed += 1;
        }
        self.was_served(bank);
        if self.queues.none_queued()
            && let Some(entry) = self.queues.ingress
        {
            self.bus.pending_from = entry.accepted + 1;
        }
    }

    #[inline(always)]
    pub(super) fn issue_row(&mut self, bank: usize) {
        let want = self.candidates.of(bank);
        if want.kind() == ACT {
            let row = self.queues.slot(want.slot).entry.place.row;
            self.activate(bank, row);
        } else {
            self.rows.bank[bank].opened = Opened::Conflict;
            self.page.conflicted(bank);
            self.precharge(bank);
        }
        self.look_at(bank);
    }

    /// Closes an idle row.
    pub(super) fn close(&mut self, bank: usize) {
        self.page.closed(bank, self.rows.bank[bank].open);
        self.rows.bank[bank].opened = Opened::Miss;
        self.precharge(bank);
        self.page.stays(bank);
        self.look_at(bank);
    }

    #[inline(always)]
    fn activate(&mut self, bank: usize, row: u32) {
        self.note(DramCommand::Act, bank, row);
        self.clocks.take_bus(&self.timing, ACT);
        self.keep_apart(ACT, bank);
        self.candidates.forget_least(ACT);
        self.clocks.keep_four_apart(&self.timing, bank);
        self.page.opened(bank, row, self.clocks.now);
        self.bus.last_opened = self.rows.activate(bank, row, self.clocks.now);
        self.account.counters.activates += 1;
    }

    #[inline(always)]
    fn precharge(&mut self, bank: usize) {
        self.note(DramCommand::Pre, bank, 0);
        self.clocks.take_bus(&self.timing, PRE);
        self.keep_apart(PRE, bank);
        self.rows.bank[bank].open = NO_ROW;
        self.shut(1 << bank);
        self.account.counters.precharges += 1;
    }

    /// Keeps away what may not follow a command, in this bank and beyond.
    #[inline(always)]
    pub(super) fn keep_apart(&mut self, kind: usize, bank: usize) {
        let candidates = &mut self.candidates;
        self.clocks.keep_apart(&self.timing, kind, bank, |next| candidates.forget_least(next));
    }

    /// Counts banks as closed.
    #[inline(always)]
    pub(super) fn shut(&mut self, banks: u64) {
        self.account.counters.open_clocks += u64::from(self.rows.shut(banks, self.clocks.now));
    }

    #[inline(always)]
    pub(super) fn note(&mut self, command: DramCommand, bank: usize, row: u32) {
        if let Some(log) = &mut self.account.log {
            let clock = self.clocks.clock();
            log.push(Issued { clock, command, bank: bank as u32, row });
        }
    }
}
