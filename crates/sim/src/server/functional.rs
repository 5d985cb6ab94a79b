//! The functional way through a server: packets, rings, mbufs and caches change as in detail, and nothing is timed but by
//! what the last stretch in detail has shown.
//!
//! A burst's references are made at its start, in program order, and it ends after the time that bursts of its size took
//! its core: a line through bursts and packets, by least squares. A device's access is done after the mean of what such
//! accesses waited for memory. Arrivals, the NIC's links, polls and doorbells keep their times, so that rings fill and mbufs
//! are held about as in detail: their number decides what DDIO finds in the LLC.
//!
//! What bursts were under way when a stretch began go on with a memory that answers at once. Packets that leave in a stretch
//! have no account of their time. DRAM controllers count what they serve, which is nothing then. Nobody waits for a lock there:
//! such waits are among what bursts took in detail.

use units::Ps;

use super::cores::CoreState;
use super::{PRIORITY_CORE, Server, ServerEvent};

/// Bursts of a core that say how long its next ones take; with fewer, those of all cores of its kind do. With fewer of those,
/// too, and for anything else that was seen less often, what was known before holds, and counting goes on.
const ENOUGH: u64 = 64;

/// What stands for time while a server goes the functional way.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct CoarseClock {
    /// Whether it does.
    pub on: bool,
    /// By core.
    bursts: Vec<Bursts>,
    /// By [`Device`].
    devices: [Waits; 3],
    /// By neighbour: how long a stint took.
    stints: Vec<Waits>,
}

/// Whose access to memory.
#[derive(Clone, Copy)]
pub(super) enum Device {
    /// Writes of packets and their descriptors.
    Write,
    /// Reads of the descriptors of a batch.
    Descriptors,
    /// Reads of packets.
    Read,
}

/// Bursts of a core: sums over them, and the line that the sums gave last.
#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
struct Bursts {
    count: u64,
    packets: u64,
    squares: u64,
    /// In picoseconds.
    time: u64,
    /// Of packets and picoseconds.
    products: u128,
    /// What their instructions take, in picoseconds.
    work: u64,
    cost: Option<BurstCost>,
}

/// Picoseconds of a burst and of each of its packets.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct BurstCost {
    burst: f64,
    packet: f64,
}

/// Waits, and their mean over the last stretch in detail that had any.
#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
struct Waits {
    count: u64,
    sum: Ps,
    mean: Option<Ps>,
}

impl Waits {
    fn record(&mut self, wait: Ps) {
        self.count += 1;
        self.sum += wait;
    }

    fn settle(&mut self) {
        if self.count >= ENOUGH || self.mean.is_none() {
            self.mean = self.sum.0.checked_div(self.count).map(Ps);
            (self.count, self.sum) = (0, Ps::ZERO);
        }
    }
}

impl Bursts {
    fn record(&mut self, packets: u64, time: Ps, work: Ps) {
        self.work += work.0;
        self.count += 1;
        self.packets += packets;
        self.squares += packets * packets;
        self.time += time.0;
        self.products += u128::from(packets) * u128::from(time.0);
    }

    fn add(mut self, other: &Bursts) -> Bursts {
        self.count += other.count;
        self.packets += other.packets;
        self.squares += other.squares;
        self.time += other.time;
        self.products += other.products;
        self.work += other.work;
        self
    }

    /// The line of least squares; through the origin where it would have a negative part, or bursts of several packets are all
    /// alike. Of single packets their instructions are the packet's, and the rest the burst's. [`None`] of no packets.
    fn cost(&self) -> Option<BurstCost> {
        if self.packets == 0 {
            return None;
        }
        let (n, x, y) = (self.count as f64, self.packets as f64, self.time as f64);
        let (xx, xy) = (self.squares as f64, self.products as f64);
        if self.squares == self.count && self.packets == self.count {
            let packet = self.work as f64 / x;
            return Some(BurstCost { burst: (y / n - packet).max(0.0), packet });
        }
        let spread = n * xx - x * x;
        let packet = if spread > 0.0 { (n * xy - x * y) / spread } else { -1.0 };
        let burst = (y - packet * x) / n;
        // A negative part would be noise, or bursts of other packets.
        Some(if packet < 0.0 || burst < 0.0 {
            BurstCost { burst: 0.0, packet: y / x }
        } else {
            BurstCost { burst, packet }
        })
    }
}

impl CoarseClock {
    pub(super) fn new(cores: usize, neighbours: usize) -> CoarseClock {
        CoarseClock {
            bursts: vec![Bursts::default(); cores],
            stints: vec![Waits::default(); neighbours],
            ..CoarseClock::default()
        }
    }

    /// A burst in detail of core `i` has ended; `work` is what its instructions take.
    #[inline]
    pub(super) fn burst(&mut self, i: usize, packets: usize, time: Ps, work: Ps) {
        self.bursts[i].record(packets as u64, time, work);
    }

    /// What a device's access waits for memory that in detail waits `wait`.
    #[inline]
    pub(super) fn device(&mut self, device: Device, wait: Ps) -> Ps {
        let waits = &mut self.devices[device as usize];
        if self.on {
            return waits.mean.unwrap_or(wait);
        }
        waits.record(wait);
        wait
    }

    /// A stint in detail of neighbour `i` has ended.
    pub(super) fn stint(&mut self, i: usize, time: Ps) {
        self.stints[i].record(time);
    }

    /// How long a stint of neighbour `i` takes, if one was seen in detail.
    pub(super) fn stint_of(&self, i: usize) -> Option<Ps> {
        self.stints[i].mean
    }

    /// Fits what the stretch in detail that ends has shown. The first `receiving` cores are of one kind, the others of
    /// another.
    fn fit(&mut self, receiving: usize) {
        let (these, those) = self.bursts.split_at_mut(receiving);
        for kind in [these, those] {
            let all = kind.iter().fold(Bursts::default(), Bursts::add);
            for bursts in kind {
                let from = if bursts.count >= ENOUGH { &*bursts } else { &all };
                if from.count >= ENOUGH || bursts.cost.is_none() {
                    *bursts = Bursts { cost: from.cost(), ..Bursts::default() };
                }
            }
        }
        self.devices.iter_mut().chain(&mut self.stints).for_each(Waits::settle);
    }
}

impl Server {
    /// Goes the functional way from now on, or in detail again. See the module header.
    pub fn set_functional(&mut self, on: bool) {
        if on && !self.coarse.on {
            self.coarse.fit(self.receiving);
            // What is under way ends sooner than it would: the memory that it waits for answers at once.
            self.cores.iter_mut().for_each(|core| core.in_detail = false);
            self.neighbours.iter_mut().for_each(|neighbour| neighbour.leave_detail());
        }
        self.coarse.on = on;
        self.memory.set_untimed(on);
    }

    /// Makes all references of the burst that core `i` has begun, and has it end when such bursts do.
    pub(super) fn replay_at_once(&mut self, i: usize) {
        let now = self.engine.now();
        let worker = &mut self.cores[i];
        let before = worker.core.instructions();
        worker.core.warm(&mut self.memory.warm(), &self.layout, now);
        let took = match self.coarse.bursts[i].cost {
            Some(cost) => Ps((cost.burst + cost.packet * worker.packets.len() as f64) as u64),
            // Nothing is known of it: what its instructions take.
            None => worker.rung(now + worker.core.time_of(worker.core.instructions() - before)) - now,
        };
        worker.state = CoreState::Finishing;
        worker.at_once = true;
        self.engine.schedule(now + took.max(Ps(1)), PRIORITY_CORE, ServerEvent::Core(i));
    }
}
