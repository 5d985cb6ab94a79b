//! What a run measures: an observer that sees every packet's end, in memory that does not grow with
//! the number of packets.

use std::collections::BTreeMap;

use machine::dram::EnergyEvents;
use machine::memory::ApplicationState;
use stats::{Attribution, BatchMeans, Histogram, Latency, Ratio, Reason};
use units::{PacketId, Ps};

use super::counts::ServerCounts;
use super::growth::RingGrowth;
use super::in_order::LossInOrder;
use crate::server::{Departure, DepartureObserver, PacketFate, Server};

/// Frame sizes in classes, upper bounds in bytes without FCS.
pub const CLASSES: [(&str, u32); 4] = [("<=64 B", 64), ("65-576 B", 576), ("577-1499 B", 1499), (">=1500 B", u32::MAX)];

/// Packets kept as rows of the `packets` table, at most.
const SAMPLE: usize = 20_000;
/// Intervals of the `series` table, at most.
const INTERVALS: usize = 200;
/// Batches of windows, at most: as many as are never merged.
const MOST_BATCHES: u32 = 31;
/// Looks at the machine in each, for the mean of what is in its rings.
const LOOKS: u64 = 4;

/// A packet of the sample.
#[derive(Clone, Debug)]
pub struct PacketRow {
    /// Which.
    pub packet: PacketId,
    /// When its last bit arrived.
    pub arrival: Ps,
    /// Bytes without FCS.
    pub frame_bytes: u32,
    /// The core it went to.
    pub core: u16,
    /// The port it left by.
    pub port: Option<u16>,
    /// "sent", or the name of the reason.
    pub verdict: &'static str,
    /// Last bit in to first bit out.
    pub sojourn: Ps,
    /// What it was spent on.
    pub attribution: Attribution,
    /// Which of the measured packets it is.
    order: u64,
}

/// Packets of a size class.
#[derive(Clone, Debug, Default)]
pub struct ClassTally {
    /// Sojourns of those that were sent.
    pub sojourn: Histogram,
    /// What their sojourns were spent on, summed.
    pub attribution: Attribution,
}

/// What the machine did in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Activity {
    /// How long.
    pub span: Ps,
    /// Packets sent.
    pub sent: u64,
    /// The cores' lookups in the LLC that hit.
    pub llc_hits: u64,
    /// The cores' lookups in the LLC.
    pub llc_lookups: u64,
    /// Lines read from and written to DRAM.
    pub dram_lines: u64,
    /// What DRAM did that takes energy.
    pub dram_work: EnergyEvents,
    /// Time in bursts, summed over the cores.
    pub busy: Ps,
    /// Packets in the receive rings at the end of each stretch, summed.
    pub waiting: u64,
    /// Mbufs by where they are at the end of each stretch, summed: descriptors, software queues, sending, free.
    pub mbufs: [u64; 4],
    /// How many stretches are summed.
    pub samples: u64,
}

impl Activity {
    /// What a server did between two states, and where its packets and mbufs are at the second.
    fn between(
        from: &ServerCounts<ApplicationState>,
        to: &ServerCounts<ApplicationState>,
        server: &Server,
    ) -> Activity {
        let llc = to.memory.llc - from.memory.llc;
        let dram = to.dram - from.dram;
        let busy = |counts: &ServerCounts<ApplicationState>| counts.cores.iter().map(|c| c.busy.0).sum();
        let mbufs = server.mbufs();
        Activity {
            span: to.span.since(from.span),
            sent: to.sent - from.sent,
            llc_hits: llc.hits,
            llc_lookups: llc.lookups(),
            dram_lines: dram.reads + dram.writes,
            dram_work: to.dram_work - from.dram_work,
            busy: Ps(busy(to)).since(Ps(busy(from))),
            waiting: server.ring_occupancy() as u64,
            mbufs: [mbufs.descriptors, mbufs.queued, mbufs.sending, mbufs.free],
            samples: 1,
        }
    }
}

impl std::ops::AddAssign for Activity {
    fn add_assign(&mut self, other: Activity) {
        self.span += other.span;
        self.sent += other.sent;
        self.llc_hits += other.llc_hits;
        self.llc_lookups += other.llc_lookups;
        self.dram_lines += other.dram_lines;
        self.dram_work += other.dram_work;
        self.busy += other.busy;
        self.waiting += other.waiting;
        self.mbufs.iter_mut().zip(other.mbufs).for_each(|(sum, n)| *sum += n);
        self.samples += other.samples;
    }
}

/// An interval of the run: its packets by the time of their arrival, its activity by the time at which it was.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Packets that arrived in it.
    pub offered: u64,
    /// Of those, sent.
    pub carried: u64,
    /// Of those, lost.
    pub lost: u64,
    /// Sum of the sojourns of those sent, in picoseconds.
    pub sojourn_sum: u128,
    /// What the machine did.
    pub activity: Activity,
}

impl Interval {
    pub(crate) fn merged(some: &[Interval]) -> Interval {
        let mut sum = Interval::default();
        for one in some {
            sum.offered += one.offered;
            sum.carried += one.carried;
            sum.lost += one.lost;
            sum.sojourn_sum += one.sojourn_sum;
            sum.activity += one.activity;
        }
        sum
    }
}

/// Everything measured after warm-up: of all packets, or of windows one after the other.
#[derive(Clone, Debug)]
pub struct Measure {
    /// The packets of this window: the first, and the first beyond it.
    first: PacketId,
    until: PacketId,
    /// When the last packet before the window and the last one of it arrived.
    begin: Ps,
    end: Ps,
    /// The windows before: packets, and time.
    before: (u64, Ps),
    /// Packets of this window whose end is known.
    known: u64,
    /// How many packets windows stand for, those of them that have left, and the time in which they came.
    pub stands_for: Option<(u64, PacketTally, Ps)>,
    /// Packets, and their bytes on the wire (L1) and with FCS (L2): offered and carried.
    pub offered: PacketTally,
    /// See `offered`.
    pub carried: PacketTally,
    /// Packets by what they were lost for.
    pub lost: BTreeMap<&'static str, u64>,
    /// Packets by why the function rejected them.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Sojourns of sent packets.
    pub sojourn: Latency,
    loss: LossInOrder,
    /// Batch means of each reason, in nanoseconds a packet.
    pub reasons: Vec<BatchMeans>,
    /// What all sojourns were spent on.
    pub attribution: Attribution,
    /// By [`CLASSES`].
    pub classes: Vec<ClassTally>,
    /// A systematic sample: every `sample_step`-th packet.
    pub sample: Vec<PacketRow>,
    /// See `sample`.
    pub sample_step: u64,
    /// Since the first packet, each `interval` long; of measured time, where there are windows.
    pub intervals: Vec<Interval>,
    /// See `intervals`.
    pub interval: Ps,
    /// What rings held more at the last arrival than at the first; not known of windows.
    pub growth: Option<RingGrowth>,
    /// A bound that any account which does not sum to its sojourn raises.
    pub unattributed: u64,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketTally {
    /// Packets.
    pub packets: u64,
    /// Bytes with FCS, preamble and gap.
    pub l1_bytes: u64,
    /// Bytes with FCS.
    pub l2_bytes: u64,
}

impl PacketTally {
    pub(crate) fn add(&mut self, frame_bytes: u32) {
        let l2 = (u64::from(frame_bytes) + packet::ETHERNET_FCS_BYTES).max(packet::MIN_FRAME_BYTES);
        self.packets += 1;
        self.l2_bytes += l2;
        self.l1_bytes += l2 + packet::ETHERNET_OVERHEAD_BYTES;
    }
}

impl Measure {
    /// Measures from packet `first` on, the first to arrive after `begin`; `span` is about how long the
    /// measured part takes.
    pub fn new(first: u64, begin: Ps, span: Ps) -> Measure {
        let (sojourn, loss) = (Latency::new(), Ratio::new());
        Measure::with(first, begin, span, sojourn, loss, BatchMeans::new())
    }

    /// As [`Measure::new`], of windows of `packets` packets: batches are of whole ones.
    pub(crate) fn of_windows(first: u64, begin: Ps, span: Ps, windows: u32, packets: u64) -> Measure {
        let batch = packets * u64::from(windows.div_ceil(MOST_BATCHES));
        let (sojourn, loss) = (Latency::with_batches_of(batch), Ratio::with_batches_of(batch));
        let none_yet = PacketId(first);
        Measure {
            until: none_yet,
            ..Measure::with(first, begin, span, sojourn, loss, BatchMeans::with_batches_of(batch))
        }
    }

    fn with(first: u64, begin: Ps, span: Ps, sojourn: Latency, loss: Ratio, reason: BatchMeans) -> Measure {
        Measure {
            first: PacketId(first),
            until: PacketId(u64::MAX),
            begin,
            end: begin,
            before: (0, Ps::ZERO),
            known: 0,
            stands_for: None,
            offered: PacketTally::default(),
            carried: PacketTally::default(),
            lost: BTreeMap::new(),
            rejected: BTreeMap::new(),
            sojourn,
            loss: LossInOrder::new(loss, first),
            reasons: vec![reason; Reason::COUNT],
            attribution: Attribution::default(),
            classes: vec![ClassTally::default(); CLASSES.len()],
            sample: Vec::new(),
            sample_step: 1,
            intervals: Vec::new(),
            interval: Ps((span.0 / (INTERVALS as u64 * 3 / 4)).max(1)),
            growth: None,
            unattributed: 0,
        }
    }

    /// From now on `packets` packets are measured, from `first` on, the first to arrive after `begin`.
    pub fn next_window(&mut self, first: u64, packets: u64, begin: Ps) {
        self.before = (self.before.0 + self.known, self.window());
        (self.first, self.until, self.begin, self.end) = (PacketId(first), PacketId(first + packets), begin, begin);
        self.known = 0;
        self.loss.skip_to(first);
    }

    /// Packets of this window whose end is known.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// Loss over offered, in batches by the order in which packets arrived.
    pub fn loss(&self) -> Ratio {
        self.loss.ratio()
    }

    /// The measured time: n packets and the n gaps before them.
    pub fn window(&self) -> Ps {
        self.before.1 + self.end.since(self.begin)
    }

    /// Between two looks at the machine.
    pub(crate) fn between_looks(&self) -> Ps {
        self.interval / LOOKS
    }

    /// Looks at what the machine has done since `last`, which it gives as it is now.
    pub(crate) fn look(
        &mut self,
        last: ServerCounts<ApplicationState>,
        server: &Server,
    ) -> ServerCounts<ApplicationState> {
        let now = ServerCounts::of(server);
        self.interval_of(last.span).activity += Activity::between(&last, &now, server);
        now
    }

    fn interval_of(&mut self, time: Ps) -> &mut Interval {
        let measured = self.before.1 + time.since(self.begin);
        let mut at = (measured.0 / self.interval.0) as usize;
        while at >= INTERVALS {
            self.intervals = self.intervals.chunks(2).map(Interval::merged).collect();
            self.interval = self.interval * 2;
            at = (measured.0 / self.interval.0) as usize;
        }
        if self.intervals.len() <= at {
            self.intervals.resize_with(at + 1, Interval::default);
        }
        &mut self.intervals[at]
    }

    fn keep(&mut self, d: &Departure, verdict: &'static str) {
        let order = self.before.0 + (d.packet.0 - self.first.0);
        if !order.is_multiple_of(self.sample_step) {
            return;
        }
        self.sample.push(PacketRow {
            packet: d.packet,
            arrival: d.arrival,
            frame_bytes: d.frame_bytes,
            core: d.core.0,
            port: match d.fate {
                PacketFate::Sent(port) => Some(port.0),
                _ => None,
            },
            verdict,
            sojourn: d.sojourn,
            attribution: *d.attribution,
            order,
        });
        if self.sample.len() >= SAMPLE {
            self.sample_step *= 2;
            let step = self.sample_step;
            self.sample.retain(|row| row.order.is_multiple_of(step));
        }
    }
}

impl DepartureObserver for Measure {
    fn departure(&mut self, d: &Departure) {
        if !(self.first..self.until).contains(&d.packet) {
            return;
        }
        self.known += 1;
        self.offered.add(d.frame_bytes);
        self.end = self.end.max(d.arrival);
        self.loss.record(d.packet.0, matches!(d.fate, PacketFate::Lost(_)));
        let interval = self.interval_of(d.arrival);
        interval.offered += 1;
        match d.fate {
            PacketFate::Sent(_) => {
                interval.carried += 1;
                interval.sojourn_sum += u128::from(d.sojourn.0);
                self.carried.add(d.frame_bytes);
                self.sojourn.record(d.sojourn);
                self.attribution += d.attribution;
                for (means, (_, time)) in self.reasons.iter_mut().zip(d.attribution.iter()) {
                    means.record(time.as_ns());
                }
                self.unattributed += d.attribution.total().0.abs_diff(d.sojourn.0);
                let class = CLASSES.iter().position(|(_, most)| d.frame_bytes <= *most).unwrap_or(0);
                self.classes[class].sojourn.record(d.sojourn);
                self.classes[class].attribution += d.attribution;
                self.keep(d, "sent");
            }
            PacketFate::Rejected(reason) => {
                *self.rejected.entry(reason.name()).or_default() += 1;
                self.keep(d, reason.name());
            }
            PacketFate::Lost(loss) => {
                interval.lost += 1;
                *self.lost.entry(loss.name()).or_default() += 1;
                self.keep(d, loss.name());
            }
        }
    }
}
