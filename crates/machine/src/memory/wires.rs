//! What messages wait for on the links of a ring, a mesh or a bus.
//!
//! A line goes from stop to stop: the shorter way round a ring, along the row and then along the column of a mesh. Each
//! direction of each link carries one line at a time; a bus is one link, which everyone shares. Requests and snoops have wires
//! of their own, as on Intel's rings and meshes, which have a data ring beside those for addresses and acknowledgements
//! (Intel Xeon Processor E5 v2 Uncore Performance Monitoring Reference Manual, 2.5: AD, BL, AK, IV). What is told to all stops
//! goes round a ring both ways until the halves meet, and in a mesh along its row and from each stop of that along the column, so
//! that it takes each link on its way once. Left out: bouncing off a full stop.

use serde::{Deserialize, Serialize};
use units::Ps;

/// How stops are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireTopology {
    /// A ring, which is passed the shorter way round.
    Ring,
    /// A mesh, whose rows are passed before its columns.
    Mesh {
        /// Stops of a row.
        columns: u32,
    },
    /// One link for all.
    Bus,
}

impl WireTopology {
    /// Hops from stop `a` to stop `b` of `stops`.
    pub fn hops(self, stops: u32, a: u32, b: u32) -> u32 {
        match self {
            WireTopology::Ring => a.abs_diff(b).min(stops - a.abs_diff(b)),
            WireTopology::Mesh { columns } => (a % columns).abs_diff(b % columns) + (a / columns).abs_diff(b / columns),
            WireTopology::Bus => 1,
        }
    }
}

/// The links of a ring, mesh or bus, and until when each is busy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Wires {
    shape: WireTopology,
    stops: u32,
    hop: Ps,
    /// What a message takes on a link.
    interval: Ps,
    /// By stop and direction away from it: up, down, and in a mesh to the next row and to the one before. Of a bus the first is all.
    links: Vec<WireLink>,
    /// Nothing waits, and nothing takes a link: see [`super::warm`].
    #[serde(skip)]
    pub(super) untimed: bool,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct WireLink {
    latest: Ps,
    free: Ps,
}

impl WireLink {
    /// What a message that is here at `time` waits, which then takes the link for `interval`.
    fn take(&mut self, time: Ps, interval: Ps) -> Ps {
        // Who is out of turn waits as if it came with the latest.
        self.latest = self.latest.max(time);
        let start = self.latest.max(self.free);
        self.free = start + interval;
        start - self.latest
    }
}

impl Wires {
    pub(super) fn new(shape: WireTopology, stops: u32, hop: Ps, interval: Ps) -> Wires {
        Wires { shape, stops, hop, interval, links: vec![WireLink::default(); stops as usize * 4], untimed: false }
    }

    /// Whether every stop hears what goes from one to another.
    pub(super) fn are_heard_by_all(&self) -> bool {
        self.shape == WireTopology::Bus
    }

    /// One way from stop `a` to stop `b`, if nothing is in the way.
    pub(super) fn distance(&self, a: u32, b: u32) -> Ps {
        self.hop * u64::from(self.shape.hops(self.stops, a, b))
    }

    fn take(&mut self, link: usize, time: Ps) -> Ps {
        if self.untimed { Ps::ZERO } else { self.links[link].take(time, self.interval) }
    }

    /// What a line that leaves `from` for `to` at `now` waits on its way beyond its hops.
    pub(super) fn carry(&mut self, from: u32, to: u32, now: Ps) -> Ps {
        if self.shape == WireTopology::Bus {
            return self.take(0, now);
        }
        let (mut at, mut time, mut waited) = (from, now, Ps::ZERO);
        while at != to {
            let (direction, next) = self.step(at, to);
            let wait = self.take(at as usize * 4 + direction, time);
            waited += wait;
            time += wait + self.hop;
            at = next;
        }
        waited
    }

    /// Tells all stops something from `from` on at `now`: when each hears it, by stop.
    pub(super) fn broadcast(&mut self, from: u32, now: Ps, heard: &mut Vec<Ps>) {
        heard.clear();
        heard.resize(self.stops as usize, now);
        match self.shape {
            WireTopology::Bus => {
                let wait = self.take(0, now);
                heard.fill(now + wait + self.hop);
            }
            WireTopology::Ring => {
                let (up, down) = (self.stops / 2, (self.stops - 1) / 2);
                self.tell(from, up, 0, heard);
                self.tell(from, down, 1, heard);
            }
            WireTopology::Mesh { columns } => {
                let (column, row, rows) = (from % columns, from / columns, self.stops / columns);
                self.tell(from, columns - 1 - column, 0, heard);
                self.tell(from, column, 1, heard);
                for stop in row * columns..(row + 1) * columns {
                    self.tell(stop, rows - 1 - row, 2, heard);
                    self.tell(stop, row, 3, heard);
                }
            }
        }
    }

    /// Goes on from `from`, which has heard it, for `hops` in one direction.
    fn tell(&mut self, from: u32, hops: u32, direction: usize, heard: &mut [Ps]) {
        let mut at = from;
        for _ in 0..hops {
            let time = heard[at as usize];
            let wait = self.take(at as usize * 4 + direction, time);
            at = self.next(at, direction);
            heard[at as usize] = time + wait + self.hop;
        }
    }

    fn next(&self, at: u32, direction: usize) -> u32 {
        match (self.shape, direction) {
            (WireTopology::Mesh { .. }, 0) => at + 1,
            (WireTopology::Mesh { .. }, 1) => at - 1,
            (WireTopology::Mesh { columns }, 2) => at + columns,
            (WireTopology::Mesh { columns }, _) => at - columns,
            (_, 0) => (at + 1) % self.stops,
            _ => (at + self.stops - 1) % self.stops,
        }
    }

    /// The direction to take at stop `at`, and the stop that it leads to.
    fn step(&self, at: u32, to: u32) -> (usize, u32) {
        let direction = match self.shape {
            WireTopology::Mesh { columns } => match (at % columns, to % columns) {
                (here, there) if here < there => 0,
                (here, there) if here > there => 1,
                _ if at < to => 2,
                _ => 3,
            },
            _ => {
                let up = (to + self.stops - at) % self.stops;
                usize::from(up > self.stops - up)
            }
        };
        (direction, self.next(at, direction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Wires {
        Wires::new(WireTopology::Ring, 6, Ps(1000), Ps(2000))
    }

    #[test]
    fn lines_on_the_same_link_follow_each_other_and_others_do_not_wait() {
        let mut ring = ring();
        assert_eq!(ring.carry(0, 2, Ps(0)), Ps(0));
        // Behind the first on its first link; on the second it has caught up with nobody.
        assert_eq!(ring.carry(0, 2, Ps(0)), Ps(2000));
        assert_eq!(ring.carry(1, 2, Ps(0)), Ps(2000), "as if it came with the second, which is there at 3 ns");
        // The other direction, and the other side of the ring.
        assert_eq!(ring.carry(2, 0, Ps(0)), Ps(0));
        assert_eq!(ring.carry(0, 5, Ps(0)), Ps(0));
        assert_eq!(ring.carry(3, 3, Ps(0)), Ps(0));
    }

    #[test]
    fn a_saturated_link_carries_a_line_an_interval() {
        let mut ring = ring();
        let last = (0..1000).map(|_| ring.carry(0, 1, Ps(0))).last();
        assert_eq!(last, Some(Ps(999 * 2000)));
    }

    #[test]
    fn every_way_is_as_long_as_its_distance() {
        let hops = |wires: &Wires, from, to| {
            let (mut at, mut n) = (from, 0);
            while at != to {
                at = wires.step(at, to).1;
                n += 1;
            }
            n
        };
        let (ring, mesh) = (ring(), Wires::new(WireTopology::Mesh { columns: 4 }, 12, Ps(1), Ps(1)));
        for from in 0..12u32 {
            for to in 0..12u32 {
                let apart = (from % 4).abs_diff(to % 4) + (from / 4).abs_diff(to / 4);
                assert_eq!(hops(&mesh, from, to), apart, "{from} {to}");
                if from < 6 && to < 6 {
                    assert_eq!(hops(&ring, from, to), from.abs_diff(to).min(6 - from.abs_diff(to)), "{from} {to}");
                }
            }
        }
    }

    #[test]
    fn a_broadcast_is_with_everyone_after_his_distance_and_takes_each_link_once() {
        for (shape, stops) in [
            (WireTopology::Ring, 6),
            (WireTopology::Ring, 7),
            (WireTopology::Ring, 1),
            (WireTopology::Mesh { columns: 4 }, 12),
            (WireTopology::Mesh { columns: 1 }, 3),
            (WireTopology::Bus, 5),
        ] {
            for from in 0..stops {
                let mut wires = Wires::new(shape, stops, Ps(1000), Ps(1000));
                let mut heard = Vec::new();
                wires.broadcast(from, Ps(500), &mut heard);
                for to in (0..stops).filter(|&to| to != from || shape == WireTopology::Bus) {
                    assert_eq!(heard[to as usize], Ps(500) + wires.distance(from, to), "{shape:?} {from} {to}");
                }
                let taken = wires.links.iter().filter(|link| link.free > Ps::ZERO).count();
                assert_eq!(taken, if shape == WireTopology::Bus { 1 } else { stops as usize - 1 });
                // The next one is a slot behind it everywhere.
                let before = heard.clone();
                wires.broadcast(from, Ps(500), &mut heard);
                for to in (0..stops as usize).filter(|&to| to != from as usize || shape == WireTopology::Bus) {
                    assert_eq!(heard[to], before[to] + Ps(1000), "{shape:?} {from} {to}");
                }
            }
        }
    }

    #[test]
    fn on_a_bus_everything_waits_for_everything() {
        let mut bus = Wires::new(WireTopology::Bus, 4, Ps(1000), Ps(2000));
        assert_eq!(
            [bus.carry(0, 1, Ps(0)), bus.carry(2, 3, Ps(0)), bus.carry(1, 1, Ps(0))],
            [Ps(0), Ps(2000), Ps(4000)]
        );
    }
}
