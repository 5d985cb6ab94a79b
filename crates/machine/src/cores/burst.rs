//! The burst that a core replays: its recording, its packets, and what each has been charged.

use probe::{CopyLoop, Placed, Script};
use stats::{Attribution, Path, Reason};
use units::{Addr, Clos, CoreId, LockId, PacketId, Ps};

/// Where a packet of the current burst lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BurstPacket {
    /// The packet.
    pub id: PacketId,
    /// Its mbuf header.
    pub mbuf: Addr,
    /// Its first data byte, if it lies in one piece.
    pub data: Addr,
    /// How many of [`super::Core::cells`] it has; 0 if it lies in one piece.
    pub cells: u32,
}

/// Why [`Core::step`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreStep {
    /// The burst is complete at this time.
    Done(Ps),
    /// The core needs shared memory at this time: step again once that is the present.
    At(Ps),
    /// A controller has to answer first: see [`Core::complete`].
    Wait,
    /// The core wants a lock from this time on: see [`Core::grant`].
    Lock(LockId, Ps),
    /// The core gives a lock back at this time. Step again.
    Unlock(LockId, Ps),
}

/// A burst under replay: what was recorded, for which packets, and what each has been charged.
#[derive(Clone, Debug)]
pub(super) struct Burst {
    pub script: Script,
    pub cursor: usize,
    /// A copy that is being made by loads and stores.
    pub copying: Option<CopyLoop>,
    packets: Vec<BurstPacket>,
    /// Time charged to each packet of the burst, and last to none of them.
    own: Vec<Attribution>,
    started: Ps,
    /// Where the packet lies whose events are dispatched, but for its cells.
    pub placed: Placed<'static>,
    /// The cells of packets that do not lie in one piece, in the order of the packets.
    pub cells: Vec<Addr>,
    /// Where the cells of each packet end; empty if all packets lie in one piece.
    ends: Vec<u32>,
    /// Those of the packet whose events are dispatched.
    scattered: std::ops::Range<usize>,
    /// The index after that of the packet begun last.
    next_begun: usize,
    /// When the last instruction has retired.
    pub retired: Ps,
    /// The packet whose work retires.
    pub retiring: usize,
}

state::state!(Burst {
    values: [script, cursor, copying, packets, own, started, cells, ends, scattered, next_begun, retired, retiring],
    arrays: [],
    parts: [placed],
    built: [],
});

impl Burst {
    pub(super) fn new(core: CoreId) -> Burst {
        Burst {
            script: Script::new(),
            cursor: 0,
            copying: None,
            packets: Vec::new(),
            own: Vec::new(),
            started: Ps::ZERO,
            placed: Placed { packet: PacketId(0), core, clos: Clos(0), mbuf: Addr(0), data: Addr(0), cells: &[] },
            cells: Vec::new(),
            ends: Vec::new(),
            scattered: 0..0,
            next_begun: 0,
            retired: Ps::ZERO,
            retiring: 0,
        }
    }

    /// Where the packet lies whose events are dispatched.
    #[inline(always)]
    pub(super) fn placed(&self) -> Placed<'_> {
        if self.ends.is_empty() {
            return self.placed;
        }
        Placed { cells: &self.cells[self.scattered.clone()], ..self.placed }
    }

    pub(super) fn start(&mut self, packets: impl IntoIterator<Item = BurstPacket>, at: Ps) {
        self.packets.clear();
        self.packets.extend(packets);
        self.ends.clear();
        if self.packets.iter().any(|p| p.cells > 0) {
            let mut end = 0;
            self.ends.extend(self.packets.iter().map(|p| {
                end += p.cells;
                end
            }));
        }
        debug_assert_eq!(self.ends.last().map_or(0, |&end| end as usize), self.cells.len());
        self.cursor = 0;
        self.own.clear();
        self.own.resize(self.packets.len() + 1, Attribution::default());
        self.started = at;
        self.retired = at;
        self.next_begun = 0;
        self.end();
        self.retiring = self.packets.len();
    }

    /// What is dispatched from here on is for `packet`: its index. One that is not of the burst has the
    /// index of none.
    #[inline]
    pub(super) fn begin(&mut self, packet: PacketId) -> usize {
        // Stage by stage, a function works on the packets of a burst in order: the next one is looked at first.
        let index = match self.packets.get(self.next_begun) {
            Some(next) if next.id == packet => self.next_begun,
            _ => self.packets.iter().position(|p| p.id == packet).unwrap_or(self.packets.len()),
        };
        self.next_begun = index + 1;
        self.place(self.packets.get(index).copied().unwrap_or(NOWHERE));
        if let Some(&end) = self.ends.get(index) {
            self.scattered = (end - self.packets[index].cells) as usize..end as usize;
        }
        index
    }

    /// What is dispatched from here on is for none: its index.
    #[inline(always)]
    pub(super) fn end(&mut self) -> usize {
        self.place(NOWHERE);
        self.scattered = 0..0;
        self.packets.len()
    }

    #[inline(always)]
    fn place(&mut self, packet: BurstPacket) {
        (self.placed.packet, self.placed.mbuf, self.placed.data) = (packet.id, packet.mbuf, packet.data);
    }

    /// Waits until `at` for `reason`.
    #[inline]
    pub(super) fn charge(&mut self, at: Ps, reason: Reason) {
        let wait = at.since(self.retired);
        self.own[self.retiring].charge(reason, wait);
        self.retired += wait;
    }

    /// Charges what was kept apart; `retired` is brought up to date by whoever has kept it.
    #[inline(always)]
    pub(super) fn charge_all(&mut self, times: [(Reason, Ps); 4]) {
        let own = &mut self.own[self.retiring];
        times.into_iter().for_each(|(reason, time)| own.charge(reason, time));
    }

    #[inline(always)]
    pub(super) fn charge_work(&mut self, work: Ps) {
        self.own[self.retiring].charge(Reason::Core, work);
        self.retired += work;
    }

    /// Waits until `at`, which is later than `retired`, for a private hit: beyond its own latency lies the
    /// wait for its address.
    #[inline(always)]
    pub(super) fn charge_hit(&mut self, at: Ps, reason: Reason, latency: Ps, address: Reason) {
        let wait = at - self.retired;
        let own = &mut self.own[self.retiring];
        own.charge(reason, wait.min(latency));
        own.charge(address, wait.since(latency));
        self.retired = at;
    }

    /// Waits until `at`, which is later than `retired`, for data that come along `path`.
    #[inline]
    pub(super) fn charge_path(&mut self, at: Ps, path: &Path, address: Reason) {
        path.charge_tail(at - self.retired, address, &mut self.own[self.retiring]);
        self.retired = at;
    }

    /// Charges a wait of `blocked` for data that come along `path`.
    #[inline]
    pub(super) fn charge_tail(&mut self, path: &Path, blocked: Ps) {
        path.charge_tail(blocked, Reason::Mshr, &mut self.own[self.retiring]);
    }

    pub(super) fn attribution(&self, index: usize) -> Attribution {
        let mut own = self.own[index];
        own.charge(Reason::Burst, (self.retired - self.started).since(own.total()));
        own
    }

    pub(super) fn total(&self) -> Attribution {
        self.own.iter().fold(Attribution::default(), |sum, own| &sum + own)
    }
}

/// Of packets that are not in the burst.
const NOWHERE: BurstPacket = BurstPacket { id: PacketId(0), mbuf: Addr(0), data: Addr(0), cells: 0 };
