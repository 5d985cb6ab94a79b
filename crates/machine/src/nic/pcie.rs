//! A PCIe link: transactions, bytes on the wire, credits for posted writes.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Ps, Rate, Size, Span};

use crate::MachineError;

/// A PCIe link. Source of the model: Neugebauer et al., SIGCOMM 2018, "Understanding PCIe
/// performance for end host networking", section 3: payload is cut into transaction-layer packets,
/// each with a fixed overhead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PcieSpec {
    /// Bits a second each way after encoding and data-link overhead.
    pub rate: Rate,
    /// Bytes of payload in a transaction-layer packet.
    pub max_payload: u32,
    /// Bytes of framing and headers of such a packet.
    pub overhead: u32,
    /// From the device into the memory system, or back, one way.
    pub latency: Span,
    /// Posted data that the root complex takes in before memory has it (data credits); without limit
    /// when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<Size>,
    /// Bytes that a read request asks for at most: 128, 256 and so on to 4096; 512 when left out, as the PCI Express Base
    /// Specification has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_read: Option<u32>,
}

/// What a device asks for at once where nothing is said: `Max_Read_Request_Size` after a reset.
const MAX_READ: u32 = 512;

impl PcieSpec {
    /// Bytes that a read request asks for at most.
    pub fn max_read(&self) -> u64 {
        self.max_read.unwrap_or(MAX_READ).into()
    }

    pub(crate) fn check(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, "see the shipped machine presets".into()))
        };
        if !(0.1..=10_000.0).contains(&self.rate.gbps()) {
            return error("rate", self.rate.to_string(), "0.1 Gbps to 10 Tbps");
        }
        if !(64..=4096).contains(&self.max_payload) {
            return error("max_payload", self.max_payload.to_string(), "64 to 4096 bytes");
        }
        if self.overhead > 256 {
            return error("overhead", self.overhead.to_string(), "at most 256 bytes");
        }
        if self.latency.ps() > Ps::from_ns(1_000_000) {
            return error("latency", self.latency.to_string(), "at most 1 ms");
        }
        if let Some(most) = self.max_read
            && !((128..=4096).contains(&most) && most.is_power_of_two())
        {
            return error("max_read", most.to_string(), "128, 256, 512, 1024, 2048 and 4096 bytes");
        }
        if let Some(credits) = self.credits
            && credits.bytes() < u64::from(self.max_payload)
        {
            return error("credits", credits.to_string(), "at least max_payload, or no packet could ever be sent");
        }
        Ok(())
    }
}

/// Credits for posted writes: each holds what it takes until memory has it, and they end in order
/// (PCI Express Base Specification 3.0, 2.6.1).
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Credits {
    limit: u64,
    held: u64,
    /// Of that, what is held by writes whose end is not known.
    kept: u64,
    /// What comes back, and when.
    releases: VecDeque<(Ps, u64)>,
}

impl Credits {
    /// All credits of `spec` at hand.
    pub fn new(spec: &PcieSpec) -> Credits {
        Credits::of(spec.credits.map_or(u64::MAX, |c| c.bytes()))
    }

    /// All credits at hand, for `limit` bytes.
    pub fn of(limit: u64) -> Credits {
        Credits { limit, held: 0, kept: 0, releases: VecDeque::new() }
    }

    /// Takes credits for `bytes` at `now`.
    ///
    /// # Errors
    /// When there will be enough, [`Ps::MAX`] if that is not known; nothing is taken then. A write of more than all
    /// credits goes once the others have ended.
    pub fn take(&mut self, now: Ps, bytes: u64) -> Result<(), Ps> {
        while let Some(&(at, freed)) = self.releases.front()
            && at <= now
        {
            self.held -= freed;
            self.releases.pop_front();
        }
        let mut held = self.held;
        let mut enough = None;
        for &(at, freed) in &self.releases {
            if held.saturating_add(bytes) <= self.limit {
                break;
            }
            held -= freed;
            enough = Some(at);
        }
        if self.kept > 0 && held.saturating_add(bytes) > self.limit {
            return Err(Ps::MAX);
        }
        if let Some(at) = enough {
            return Err(at);
        }
        self.held += bytes;
        Ok(())
    }

    /// Memory will have the `bytes` of the last write at `at`.
    pub fn give_back(&mut self, bytes: u64, at: Ps) {
        let after = self.releases.back().map_or(Ps::ZERO, |r| r.0);
        self.releases.push_back((at.max(after), bytes));
    }
}

/// Writes whose end is not known when they begin.
impl Credits {
    /// It is not known when memory has the `bytes` of the last write.
    pub fn keep(&mut self, bytes: u64) {
        self.kept += bytes;
    }

    /// Memory has the `bytes` of a write that [`Credits::keep`] was told of at `at`.
    pub fn give_back_later(&mut self, bytes: u64, at: Ps) {
        self.kept -= bytes;
        self.give_back(bytes, at);
    }
}

/// One direction of a link: transfers one after the other.
///
/// A device's read takes the way from the host for what is read, and a header of the way to the host for each request
/// ([`PcieLink::ask`]). Not modelled are records of doorbells in memory, which a NIC reads by itself.
#[derive(Clone, Debug)]
pub struct PcieLink {
    rate: Rate,
    max_payload: u64,
    max_read: u64,
    overhead: u64,
    latency: Ps,
    free: Ps,
    bytes: u64,
    /// With framing and headers.
    carried: u64,
}

state::state!(PcieLink {
    values: [free, bytes, carried],
    arrays: [],
    parts: [],
    built: [rate, max_payload, max_read, overhead, latency],
});

impl PcieLink {
    /// What a doorbell stores: 8 bytes to mlx5's page of registers, and 4 to a tail register, which are taken as 8.
    pub const DOORBELL_BYTES: u64 = 8;

    /// An idle direction.
    pub fn new(spec: &PcieSpec) -> PcieLink {
        PcieLink {
            rate: spec.rate,
            max_payload: u64::from(spec.max_payload),
            max_read: spec.max_read(),
            overhead: u64::from(spec.overhead),
            latency: spec.latency.ps(),
            free: Ps::ZERO,
            bytes: 0,
            carried: 0,
        }
    }

    /// Transaction-layer packets of `bytes` of payload.
    pub fn packets(bytes: u64, max_payload: u64) -> u64 {
        bytes.div_ceil(max_payload).max(1)
    }

    /// What `bytes` of payload are on a link: each transaction-layer packet has its framing and headers.
    pub fn with_headers(bytes: u64, max_payload: u64, overhead: u64) -> u64 {
        bytes + PcieLink::packets(bytes, max_payload) * overhead
    }

    /// Sends `bytes` of payload at `now` or when the link is free; the time the last byte has
    /// crossed, latency included.
    pub fn transfer(&mut self, now: Ps, bytes: u64) -> Ps {
        self.transfer_in(now, bytes, PcieLink::packets(bytes, self.max_payload))
    }

    /// As [`PcieLink::transfer`], in so many transaction-layer packets.
    pub fn transfer_in(&mut self, now: Ps, bytes: u64, packets: u64) -> Ps {
        let with_headers = bytes + packets * self.overhead;
        self.free = self.free.max(now) + self.rate.time_for(with_headers);
        self.bytes += bytes;
        self.carried += with_headers;
        self.free + self.latency
    }

    /// Sends a packet's `bytes` and `beside` for the driver, which begin a transaction-layer packet of their own if
    /// `begins`, or else end in the last one's. As [`PcieLink::transfer`].
    pub fn transfer_with(&mut self, now: Ps, bytes: u64, (beside, begins): (u64, bool)) -> Ps {
        self.transfer_in(now, bytes + beside, PcieLink::packets(bytes, self.max_payload) + u64::from(begins))
    }

    /// Asks for `bytes`. Packets wait in the NIC, whose arbiter lets a request go between them: it takes its header of the link, and
    /// waits for none of them. Its own crossing, a header's, is not counted.
    pub fn ask(&mut self, now: Ps, bytes: u64) {
        self.request(now, bytes.div_ceil(self.max_read));
    }

    /// As [`PcieLink::ask`], in so many requests.
    pub fn request(&mut self, now: Ps, requests: u64) {
        self.transfer_in(now, 0, requests);
    }

    /// So many doorbells. They go between what is read, and their own crossing is not counted.
    pub fn ring(&mut self, now: Ps, doorbells: u64) {
        self.transfer_in(now, PcieLink::DOORBELL_BYTES * doorbells, doorbells);
    }

    /// What `bytes` of payload take to cross an idle link, latency included.
    pub fn unloaded(&self, bytes: u64) -> Ps {
        self.unloaded_in(bytes, PcieLink::packets(bytes, self.max_payload))
    }

    /// As [`PcieLink::unloaded`], in so many transaction-layer packets.
    pub fn unloaded_in(&self, bytes: u64, packets: u64) -> Ps {
        self.rate.time_for(bytes + packets * self.overhead) + self.latency
    }

    /// As [`PcieLink::unloaded`], of what [`PcieLink::transfer_with`] sends.
    pub fn unloaded_with(&self, bytes: u64, (beside, begins): (u64, bool)) -> Ps {
        self.unloaded_in(bytes + beside, PcieLink::packets(bytes, self.max_payload) + u64::from(begins))
    }

    /// One-way latency.
    pub fn latency(&self) -> Ps {
        self.latency
    }

    /// Payload bytes asked to be sent so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that have passed by `now`, framing and headers included: what the rate is for. What waits for the link is not among
    /// them.
    pub fn carried(&self, now: Ps) -> u64 {
        let waits = self.free.since(now).as_ns() * self.rate.gbps() / 8.0;
        self.carried.saturating_sub(waits.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 bytes a nanosecond.
    fn spec() -> PcieSpec {
        PcieSpec {
            rate: Rate::from_gbps(64.0),
            max_payload: 256,
            overhead: 24,
            latency: Span::from_ns(400.0),
            credits: None,
            max_read: None,
        }
    }

    #[test]
    fn each_payload_pays_its_overhead_and_transfers_queue() {
        let mut link = PcieLink::new(&spec());
        // 600 B in three packets: 672 B at 8 B/ns are 84 ns.
        assert_eq!((link.unloaded(600), link.transfer(Ps::ZERO, 600)), (Ps::from_ns(484), Ps::from_ns(484)));
        assert_eq!(link.transfer(Ps::ZERO, 600), Ps::from_ns(568));
        assert_eq!((link.bytes(), link.carried(Ps::from_ns(168))), (1200, 1344));
        // What has not passed does not count: the second begins at 84 ns.
        assert_eq!(link.carried(Ps::from_ns(84)), 672);
        assert_eq!(link.carried(Ps::from_ns(126)), 1008);
        assert_eq!(link.carried(Ps::from_ns(999)), 1344);
    }

    #[test]
    fn requests_and_completions_take_headers_of_the_way_to_the_host() {
        let mut link = PcieLink::new(&PcieSpec { max_read: Some(1024), ..spec() });
        // 60 B in a packet, and 64 B of a completion in another: 172 B at 8 B/ns are 21.5 ns.
        assert_eq!(link.unloaded_with(60, (64, true)), Ps(421_500));
        assert_eq!(link.transfer_with(Ps::ZERO, 60, (64, true)), Ps(421_500));
        // One that ends a line which is under way has no header of its own: 92 B.
        assert_eq!(link.transfer_with(Ps::ZERO, 60, (8, false)), Ps(433_000));
        // 1,500 B take two requests, and a write that comes then waits for them.
        link.ask(Ps::ZERO, 1500);
        assert_eq!(link.transfer(Ps::ZERO, 56), Ps(449_000));
        assert_eq!((link.bytes(), link.carried(Ps::from_ns(9_999))), (248, 172 + 92 + 48 + 80));
        // Two doorbells have a header each.
        link.ring(Ps::ZERO, 2);
        link.ring(Ps::ZERO, 0);
        assert_eq!((link.bytes(), link.carried(Ps::from_ns(9_999))), (264, 392 + 64));
    }

    #[test]
    fn a_write_waits_until_enough_of_the_others_have_ended() {
        let mut credits = Credits::new(&PcieSpec { credits: Some(Size::from_bytes(1000)), ..spec() });
        for until in [100, 200, 300] {
            assert_eq!(credits.take(Ps(0), 300), Ok(()));
            credits.give_back(300, Ps(until));
        }
        assert_eq!(credits.take(Ps(0), 300), Err(Ps(100)));
        assert_eq!(credits.take(Ps(0), 500), Err(Ps(200)));
        // More than there are: alone.
        assert_eq!(credits.take(Ps(150), 2000), Err(Ps(300)));
        assert_eq!(credits.take(Ps(300), 2000), Ok(()));
    }
}
