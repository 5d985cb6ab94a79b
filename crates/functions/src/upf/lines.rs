//! What packets read and change, line by line as it lies in memory: a session, a rule of each kind.

use std::net::Ipv4Addr;

use units::Ps;

use super::headers::Parsed;
use super::{Action, Far, Pdr, PduSession, Qer, SdfFilter, TokenBucket, Trigger, Urr, UsageReport, Volume};
use crate::DropReason;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct SessionLine {
    pub(super) seid: u64,
    /// The first 64 bits of the UE's IPv6 addresses.
    pub(super) ue_v6: u64,
    pub(super) ue_v4: u32,
    pub(super) has: u32,
    /// The place of the first rule, and how many there are, uplink and downlink.
    pub(super) pdrs: [(u32, u32); 2],
    pub(super) uplink_teid: u32,
    pub(super) fars: (u32, u32),
    pub(super) qers: (u32, u32),
    /// Of the session or of the place's next one: another with each change.
    pub(super) generation: u32,
}

pub(super) const GENERATION_OFFSET: u64 = std::mem::offset_of!(SessionLine, generation) as u64;
pub(super) const HAS_V4: u32 = 1;
pub(super) const HAS_V6: u32 = 2;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct PdrLine {
    pub(super) remote_ports: (u16, u16),
    pub(super) ue_ports: (u16, u16),
    /// Protocol, QoS flow, and the bits below; in the last byte the bits of the remote address that do not
    /// count.
    pub(super) what: u32,
    /// The bits of `what` that a packet's have to equal.
    pub(super) mask: u32,
    pub(super) remote: u128,
    pub(super) far: u32,
    pub(super) qers: [u32; 2],
    pub(super) id: u32,
    pub(super) urrs: [u32; 2],
    pub(super) precedence: u32,
}

/// Bits of [`PdrLine::what`] and [`Parsed::what`]: of the user's packet, IPv4 and whether it has ports; of a
/// rule, whether it has a remote address.
pub(super) const IS_V4: u32 = 1 << 16;
pub(super) const HAS_PORTS: u32 = 1 << 17;
pub(super) const HAS_REMOTE: u32 = 1 << 18;
pub(super) const PROTO: u32 = 0xff;
pub(super) const QFI: u32 = 0xff00;
pub(super) const QFI_SHIFT: u32 = 8;
/// No flow: identifiers have 6 bits.
pub(super) const NO_QFI: u8 = 0xff;
pub(super) const HOST_BITS_SHIFT: u32 = 24;
pub(super) const PDR_KEY_BYTES: u16 = 16;
pub(super) const PDR_REMOTE_OFFSET: u64 = 16;
pub(super) const PDR_ACTION_OFFSET: u64 = 32;
pub(super) const PDR_ACTION_BYTES: u16 = 24;
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct FarLine {
    pub(super) id: u32,
    pub(super) action: FarAction,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum FarAction {
    ToCore,
    ToAccess { peer: Ipv4Addr, teid: u32, qfi: u8 },
    Drop,
    Buffer,
}

#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
#[repr(C, align(64))]
pub(super) struct QerLine {
    /// Uplink, downlink.
    pub(super) meters: [QosMeter; 2],
}

/// A gate, and a token bucket in 10^-12 bits; a rate of 0 is no limit.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct QosMeter {
    pub(super) bits_per_s: u64,
    pub(super) tokens: u64,
    pub(super) at: u64,
    pub(super) bytes: u32,
    pub(super) closed: u32,
}

pub(super) const TOKENS_A_BYTE: u64 = 8 * 1_000_000_000_000;

#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
#[repr(C, align(64))]
pub(super) struct UrrLine {
    pub(super) bytes: [u64; 2],
    pub(super) packets: [u32; 2],
    pub(super) first: u64,
    pub(super) last: u64,
    /// Of the quota.
    pub(super) left: u64,
    /// 0 for none, as the next.
    pub(super) volume_threshold: u64,
    pub(super) time_threshold_s: u32,
    pub(super) flags: u32,
}

pub(super) const HAS_QUOTA: u32 = 1;
pub(super) const USED_UP: u32 = 2;
/// What of a [`UrrLine`] a packet changes.
pub(super) const URR_STATE_BYTES: u16 = 48;

impl SessionLine {
    /// Whether the inner source is the UE's.
    #[inline(always)]
    pub(super) fn is_of(&self, key: &Parsed) -> bool {
        if key.what & IS_V4 != 0 {
            self.has & HAS_V4 != 0 && key.ue == u128::from(self.ue_v4)
        } else {
            self.has & HAS_V6 != 0 && (key.ue >> 64) as u64 == self.ue_v6
        }
    }
}

impl PdrLine {
    pub(super) fn new(pdr: &Pdr, filter: &SdfFilter, session: &PduSession, fars: u32, qers: u32, urrs: u32) -> PdrLine {
        let place = |at: Option<usize>, first: u32| at.map_or(NONE, |at| first + at as u32);
        let qer = |i: usize| place(pdr.qers.get(i).and_then(|id| session.qers.iter().position(|q| q.id == *id)), qers);
        let urr = |i: usize| place(pdr.urrs.get(i).and_then(|id| session.urrs.iter().position(|u| u.id == *id)), urrs);
        let whole = (0, u16::MAX);
        let (remote, host_bits, family, family_mask) = match filter.remote {
            None => (0, 0, 0, 0),
            Some(packet::Prefix::V4 { addr, len }) => (addr.into(), 32 - len, HAS_REMOTE | IS_V4, IS_V4),
            Some(packet::Prefix::V6 { addr, len }) => (addr, 128 - len, HAS_REMOTE, IS_V4),
        };
        let any_ports = filter.remote_ports == whole && filter.ue_ports == whole;
        let ports = if any_ports { 0 } else { HAS_PORTS };
        let qfi = u32::from(pdr.qfi.unwrap_or(0)) << QFI_SHIFT;
        PdrLine {
            remote_ports: filter.remote_ports,
            ue_ports: filter.ue_ports,
            what: u32::from(filter.proto.unwrap_or(0)) | qfi | ports | family | u32::from(host_bits) << HOST_BITS_SHIFT,
            mask: filter.proto.map_or(0, |_| PROTO) | pdr.qfi.map_or(0, |_| QFI) | ports | family_mask,
            remote,
            far: place(session.fars.iter().position(|f| f.id == pdr.far), fars),
            qers: [qer(0), qer(1)],
            id: pdr.id.into(),
            urrs: [urr(0), urr(1)],
            precedence: pdr.precedence,
        }
    }

    /// All but the remote address.
    #[inline(always)]
    pub(super) fn fits(&self, key: &Parsed) -> bool {
        // Where ports do not matter the ranges are whole.
        let within = |port: u16, (from, to): (u16, u16)| port.wrapping_sub(from) <= to - from;
        (self.what ^ key.what) & self.mask == 0
            && within(key.ports.0, self.remote_ports)
            && within(key.ports.1, self.ue_ports)
    }

    /// Whether the remote address is one of the rule's; families are compared before.
    #[inline(always)]
    pub(super) fn reaches(&self, key: &Parsed) -> bool {
        let host_bits = self.what >> HOST_BITS_SHIFT;
        if self.what & IS_V4 != 0 {
            (self.remote as u64 ^ key.remote as u64) >> host_bits == 0
        } else {
            (self.remote ^ key.remote).checked_shr(host_bits).unwrap_or(0) == 0
        }
    }
}

impl From<Action> for FarAction {
    fn from(action: Action) -> FarAction {
        match action {
            Action::ToCore => FarAction::ToCore,
            Action::ToAccess { peer, teid, qfi } => FarAction::ToAccess { peer, teid, qfi },
            Action::Drop => FarAction::Drop,
            Action::Buffer => FarAction::Buffer,
        }
    }
}

impl From<&Far> for FarLine {
    fn from(far: &Far) -> FarLine {
        FarLine { id: far.id, action: far.action.into() }
    }
}

impl From<&Qer> for QerLine {
    fn from(qer: &Qer) -> QerLine {
        let meter = |bucket: Option<TokenBucket>, closed: bool| {
            let TokenBucket { bits_per_s, bytes } = bucket.unwrap_or(TokenBucket { bits_per_s: 0, bytes: 0 });
            QosMeter { bits_per_s, tokens: u64::from(bytes) * TOKENS_A_BYTE, at: 0, bytes, closed: closed.into() }
        };
        QerLine { meters: [meter(qer.uplink, qer.uplink_closed), meter(qer.downlink, qer.downlink_closed)] }
    }
}

impl QerLine {
    #[inline(always)]
    pub(super) fn pass(&mut self, now: Ps, way: usize, bytes: u32) -> Result<(), DropReason> {
        let meter = &mut self.meters[way];
        if meter.closed != 0 {
            return Err(DropReason::GateClosed);
        }
        if meter.bits_per_s > 0 {
            let full = u64::from(meter.bytes) * TOKENS_A_BYTE;
            let gained = u128::from(now.0.saturating_sub(meter.at)) * u128::from(meter.bits_per_s);
            let tokens = u128::from(meter.tokens) + gained;
            meter.tokens = u64::try_from(tokens).map_or(full, |t| t.min(full));
            meter.at = meter.at.max(now.0);
            let cost = u64::from(bytes) * TOKENS_A_BYTE;
            meter.tokens = meter.tokens.checked_sub(cost).ok_or(DropReason::RateExceeded)?;
        }
        Ok(())
    }
}

impl From<&Urr> for UrrLine {
    fn from(urr: &Urr) -> UrrLine {
        UrrLine {
            volume_threshold: urr.volume_threshold.unwrap_or(0),
            left: urr.volume_quota.unwrap_or(0),
            time_threshold_s: urr.time_threshold_s.unwrap_or(0),
            flags: HAS_QUOTA * u32::from(urr.volume_quota.is_some()),
            ..UrrLine::default()
        }
    }
}

impl UrrLine {
    /// Counts a packet; says what is to be reported.
    #[inline(always)]
    pub(super) fn count(&mut self, now: Ps, way: usize, bytes: u32) -> Result<Option<Trigger>, DropReason> {
        if self.flags & USED_UP != 0 {
            return Err(DropReason::QuotaExhausted);
        }
        if self.packets == [0, 0] {
            self.first = now.0;
        }
        self.last = now.0;
        self.bytes[way] += u64::from(bytes);
        self.packets[way] = self.packets[way].wrapping_add(1);
        let mut trigger = None;
        if self.volume_threshold > 0 && self.bytes[0] + self.bytes[1] >= self.volume_threshold {
            trigger = Some(Trigger::Volume);
        } else if self.time_threshold_s > 0
            && now.0.saturating_sub(self.first) >= u64::from(self.time_threshold_s) * 1_000_000_000_000
        {
            trigger = Some(Trigger::Time);
        }
        if self.flags & HAS_QUOTA != 0 {
            // The packet that reaches the quota still passes.
            self.left = self.left.saturating_sub(bytes.into());
            if self.left == 0 {
                self.flags |= USED_UP;
                trigger = Some(Trigger::Quota);
            }
        }
        Ok(trigger)
    }

    #[cold]
    pub(super) fn report(&mut self, seid: u64, urr: u32, trigger: Trigger) -> UsageReport {
        let volume = |i: usize| Volume { bytes: self.bytes[i], packets: self.packets[i].into() };
        let report = UsageReport {
            seid,
            urr,
            trigger,
            uplink: volume(0),
            downlink: volume(1),
            first: Ps(self.first),
            last: Ps(self.last),
        };
        (self.bytes, self.packets) = ([0; 2], [0; 2]);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::super::FAR_BYTES;
    use super::*;

    #[test]
    fn lines_are_lines() {
        assert_eq!(size_of::<SessionLine>(), 64);
        assert_eq!(size_of::<PdrLine>(), 64);
        assert_eq!(size_of::<QerLine>(), 64);
        assert_eq!(size_of::<UrrLine>(), 64);
        assert_eq!(size_of::<FarLine>() as u64, FAR_BYTES);
        assert_eq!(std::mem::offset_of!(PdrLine, remote) as u64, PDR_REMOTE_OFFSET);
        assert_eq!(std::mem::offset_of!(PdrLine, far) as u64, PDR_ACTION_OFFSET);
    }
}
