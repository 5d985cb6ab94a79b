//! A G/G/c/K queue: the yardstick of the engine and its statistics.
//!
//! Customers arrive after spans drawn from one source, are lost when K are in the system, wait in
//! order of arrival for the first of c servers to be free and are served for a span drawn from
//! another source. With exponential spans it is M/M/c/K (Kendall), whose mean sojourn and loss are
//! closed forms. Left out: priorities, several classes, servers that differ.

use std::collections::VecDeque;

use rand_pcg::Pcg64;
use units::Ps;

use crate::{Draw, Engine, Model};

/// What happens in a [`Queue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEvent {
    /// A customer arrives.
    Arrival,
    /// The customer that arrived at `arrived` has been served.
    Departure {
        /// When it arrived.
        arrived: Ps,
    },
}

/// Sees the customers of a [`Queue`].
pub trait QueueObserver {
    /// A customer leaves `sojourn` after it arrived.
    fn served(&mut self, sojourn: Ps);
    /// A customer finds the system full.
    fn lost(&mut self) {}
}

/// A G/G/c/K queue in first-come-first-served order.
#[derive(Clone, Debug)]
pub struct Queue<A, S, O> {
    /// Sees the customers.
    pub observer: O,
    arrivals: A,
    services: S,
    free: usize,
    /// How many may wait.
    room: usize,
    waiting: VecDeque<Ps>,
    servers: usize,
}

impl<A: Draw, S: Draw, O: QueueObserver> Queue<A, S, O> {
    /// A queue of `servers` servers (at least one) and room for `capacity` customers in all (at
    /// least as many as servers), and the first arrival in `engine`.
    pub fn new(
        arrivals: A,
        services: S,
        servers: usize,
        capacity: usize,
        observer: O,
        engine: &mut Engine<QueueEvent>,
    ) -> Queue<A, S, O> {
        let servers = servers.max(1);
        let mut queue = Queue {
            observer,
            arrivals,
            services,
            free: servers,
            room: capacity.saturating_sub(servers),
            waiting: VecDeque::new(),
            servers,
        };
        engine.after(queue.arrivals.draw(), 0, QueueEvent::Arrival);
        queue
    }

    /// How many customers are in the system.
    pub fn customers(&self) -> usize {
        self.servers - self.free + self.waiting.len()
    }

    /// Takes over the state of `other`, and keeps its own sources of random spans.
    pub fn resume_from(&mut self, other: &Queue<A, S, O>)
    where
        O: Clone,
    {
        self.observer.clone_from(&other.observer);
        self.waiting.clone_from(&other.waiting);
        (self.free, self.room, self.servers) = (other.free, other.room, other.servers);
    }

    /// Makes what is drawn from now on independent of copies of this queue.
    pub fn restream(&mut self, rng: &mut Pcg64) {
        self.arrivals.restream(rng);
        self.services.restream(rng);
    }
}

impl<A: Draw, S: Draw, O: QueueObserver> Model for Queue<A, S, O> {
    type Event = QueueEvent;

    #[inline]
    fn handle(&mut self, event: QueueEvent, engine: &mut Engine<QueueEvent>) {
        let now = engine.now();
        match event {
            QueueEvent::Arrival => {
                engine.after(self.arrivals.draw(), 0, QueueEvent::Arrival);
                if self.free > 0 {
                    self.free -= 1;
                    engine.after(self.services.draw(), 0, QueueEvent::Departure { arrived: now });
                } else if self.waiting.len() < self.room {
                    self.waiting.push_back(now);
                } else {
                    self.observer.lost();
                }
            }
            QueueEvent::Departure { arrived } => {
                self.observer.served(now.since(arrived));
                match self.waiting.pop_front() {
                    Some(arrived) => engine.after(self.services.draw(), 0, QueueEvent::Departure { arrived }),
                    None => self.free += 1,
                }
            }
        }
    }
}
