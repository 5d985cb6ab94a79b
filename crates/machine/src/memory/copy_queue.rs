//! Copies by engines in memory controllers that answer later.
//!
//! Each socket's engine makes one copy after the other, and when one ends is known only when its reads are answered. So a
//! copy that is handed over waits in a queue: caches give up its lines at once, its reads begin when the engine is free, and
//! the target is written when all of the source is there. Until then the target's lines are on their way, and whoever wants
//! one waits for the copy's end. A line of the source that an earlier copy still writes comes from that copy; later ones
//! that write it are not waited for.

use probe::Request;
use serde::{Deserialize, Serialize};
use stats::{Path, Reason};
use units::{Line, Ps};

use super::llc::Requester;
use super::pending::{MemoryReply, PendingMemory, Transaction};
use super::{Hierarchy, engines};
use crate::{Reply, Response, Served};

/// A copy that has been handed over.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct QueuedCopy {
    socket: usize,
    /// It begins no sooner.
    start: Ps,
    /// Lines of the source that memory has, each from a time on.
    from: Vec<(Line, Ps)>,
    /// The first line of the target, and lines.
    to: (Line, u64),
    /// When caches have given the target up.
    clear: Ps,
    /// What stands for the target until the end.
    fill: u32,
    /// What its reads are parts of.
    transaction: u32,
}

/// Of all sockets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct CopyQueue {
    /// In the order in which they were handed over.
    waiting: Vec<QueuedCopy>,
    running: Vec<(Transaction, QueuedCopy)>,
}

impl CopyQueue {
    /// Whether the end of no copy is waited for.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// The next copy of `socket`, whose engine is free.
    fn next(&mut self, socket: usize) -> Option<QueuedCopy> {
        if self.running.iter().any(|(_, copy)| copy.socket == socket) {
            return None;
        }
        let at = self.waiting.iter().position(|copy| copy.socket == socket)?;
        Some(self.waiting.remove(at))
    }

    /// The copy whose reads are `transaction`.
    fn end(&mut self, transaction: Transaction) -> Option<QueuedCopy> {
        let at = self.running.iter().position(|&(of, _)| of == transaction)?;
        Some(self.running.remove(at).1)
    }
}

impl Hierarchy {
    /// Hands a copy over to the engine of the socket of its core, which takes `setup` of the core's time; the core goes on then, or
    /// when the copy has ended if it `waits`.
    pub(super) fn hand_over(&mut self, src: &Request, dst: &Request, now: Ps, setup: Ps, waits: bool) -> Reply {
        let handed = now + setup;
        let path = Path::of(Reason::Core, setup);
        self.enter(Requester::Core(src.core));
        let socket = self.behind.fabric.here();
        let ((first, n), to) = (engines::lines(src), engines::lines(dst));
        let start = self.after_other_engines([(first, n), to], now, handed);
        let from: Vec<_> = (first.0..first.0 + n).map(|line| (Line(line), self.clean(Line(line), start))).collect();
        let mut clear = start;
        for (i, line) in (to.0.0..to.0.0 + to.1).enumerate() {
            let whole = !engines::is_edge(dst, to.1, i as u64);
            clear = clear.max(self.take_from_caches(Line(line), whole, Requester::Device, start));
        }
        let mut answers = Vec::new();
        if let Some(pending) = &mut self.behind.pending {
            let (transaction, from) = pending.await_earlier_copies(from);
            let fill = pending.stand_for(to);
            let ticket = waits.then(|| pending.wait_for_copy(fill, src.core, handed, Ps(1), path));
            self.behind.copies.waiting.push(QueuedCopy { socket, start, from, to, clear, fill, transaction });
            self.begin_copy(socket, &mut answers);
            if let Some(ticket) = ticket {
                // It has ended where all memory that is concerned answers at once.
                return match answers[..] {
                    [MemoryReply::Core(_, _, response)] => Reply::Done(response),
                    _ => Reply::Pending(ticket),
                };
            }
        }
        Reply::Done(Response { at: handed, served: Served::Engine, path })
    }

    /// Copies of `socket` begin, as many as end at once and one more.
    fn begin_copy(&mut self, socket: usize, answers: &mut Vec<MemoryReply>) {
        while let Some(copy) = self.behind.copies.next(socket) {
            let free = self.engine.as_ref().map_or(Ps::ZERO, |engine| engine.free_from(socket));
            let begins = copy.start.max(free);
            let before = self.enter_socket(socket);
            if let Some(pending) = &mut self.behind.pending {
                pending.go_on_with(copy.transaction);
            }
            let mut at = begins;
            for &(line, clean) in &copy.from {
                at = at.max(self.behind.read_alone(line, clean.max(begins)));
            }
            let closed = self.close(at);
            self.enter_socket(before);
            match closed {
                Ok(at) => self.end_copy(&copy, at, answers),
                Err(transaction) => self.behind.copies.running.push((transaction, copy)),
            }
        }
    }

    /// The data of `copy` are there at `at`: its target is written, and who waited for it is answered.
    fn end_copy(&mut self, copy: &QueuedCopy, at: Ps, answers: &mut Vec<MemoryReply>) {
        let before = self.enter_socket(copy.socket);
        let (first, count) = copy.to;
        let at = at.max(copy.clear);
        let mut done = at;
        for line in first.0..first.0 + count {
            done = done.max(self.behind.write(Line(line), at).0);
        }
        self.enter_socket(before);
        let Some(pending) = &mut self.behind.pending else { return };
        let waits = pending.end_stand_in(copy.fill, copy.to, done, Ps::ZERO, answers);
        if let Some(engine) = &mut self.engine {
            engine.was_busy(copy.socket, done);
            engine.end_later(vec![(first.0, count, [done; 2])], waits);
        }
    }

    /// Copies whose reads are among `answers` end, and those behind them begin.
    pub(super) fn go_on_copying(&mut self, answers: &mut Vec<MemoryReply>) {
        let mut n = 0;
        while let Some(&answer) = answers.get(n) {
            let ended = match answer {
                MemoryReply::Device(transaction, at) => self.behind.copies.end(transaction).map(|copy| (copy, at)),
                MemoryReply::Core(..) => None,
            };
            let Some((copy, at)) = ended else {
                n += 1;
                continue;
            };
            answers.remove(n);
            self.end_copy(&copy, at, answers);
            self.begin_copy(copy.socket, answers);
        }
    }
}

impl PendingMemory {
    /// The parts of a copy that earlier copies write, of lines `from`: its transaction, and the other lines.
    fn await_earlier_copies(&mut self, from: Vec<(Line, Ps)>) -> (u32, Vec<(Line, Ps)>) {
        let transaction = self.open_apart();
        let others = from.into_iter().filter(|&(line, _)| !self.join_copy(line, transaction)).collect();
        (transaction, others)
    }
}
