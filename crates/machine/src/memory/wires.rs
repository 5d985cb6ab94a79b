//! What lines wait for on the links of a ring or mesh.
//!
//! A line goes from stop to stop: the shorter way round a ring, along the row and then along the column of a mesh. Each
//! direction of each link carries one line at a time. Requests and snoops have wires of their own, as on Intel's rings
//! and meshes, which have a data ring beside those for addresses and acknowledgements (Intel Xeon Processor E5 v2
//! Uncore Performance Monitoring Reference Manual, 2.5: AD, BL, AK, IV). Left out: bouncing off a full stop.

use units::Ps;

/// The links of a ring or mesh, and until when each is busy.
#[derive(Clone, Debug)]
pub(super) struct Wires {
    /// Stops of a row; [`None`] for a ring.
    columns: Option<u32>,
    stops: u32,
    hop: Ps,
    /// What a line takes on a link.
    interval: Ps,
    /// By stop and direction away from it: up, down, and in a mesh to the next row and to the one before.
    links: Vec<Link>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    latest: Ps,
    free: Ps,
}

impl Wires {
    pub(super) fn new(columns: Option<u32>, stops: u32, hop: Ps, interval: Ps) -> Wires {
        Wires { columns, stops, hop, interval, links: vec![Link::default(); stops as usize * 4] }
    }

    /// What a line that leaves `from` for `to` at `now` waits on its way beyond its hops.
    pub(super) fn carry(&mut self, from: u32, to: u32, now: Ps) -> Ps {
        let (mut at, mut time, mut waited) = (from, now, Ps::ZERO);
        while at != to {
            let (direction, next) = self.step(at, to);
            let link = &mut self.links[at as usize * 4 + direction];
            // Who is out of turn waits as if it came with the latest.
            link.latest = link.latest.max(time);
            let start = link.latest.max(link.free);
            link.free = start + self.interval;
            let wait = start - link.latest;
            waited += wait;
            time += wait + self.hop;
            at = next;
        }
        waited
    }

    /// The direction to take at stop `at`, and the stop that it leads to.
    fn step(&self, at: u32, to: u32) -> (usize, u32) {
        let Some(columns) = self.columns else {
            let up = (to + self.stops - at) % self.stops;
            return if up <= self.stops - up {
                (0, (at + 1) % self.stops)
            } else {
                (1, (at + self.stops - 1) % self.stops)
            };
        };
        let (here, there) = (at % columns, to % columns);
        if here < there {
            (0, at + 1)
        } else if here > there {
            (1, at - 1)
        } else if at < to {
            (2, at + columns)
        } else {
            (3, at - columns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Wires {
        Wires::new(None, 6, Ps(1000), Ps(2000))
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
        let (ring, mesh) = (ring(), Wires::new(Some(4), 12, Ps(1), Ps(1)));
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
}
