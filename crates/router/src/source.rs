//! Where packets come from: a capture, a generator, a network interface.

use std::time::{Duration, Instant};

use packet::Packet;
use serde::{Deserialize, Serialize};

use crate::RouterError;

/// What a source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextFrame {
    /// A packet, whose `arrival` counts from the start of the run.
    Packet,
    /// Nothing yet: ask again.
    NotYet,
    /// Nothing any more.
    End,
}

/// Gives packets in order of arrival.
pub trait FrameSource {
    /// Fills `packet` with the next packet, if there is one.
    ///
    /// # Errors
    /// It cannot be read.
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError>;

    /// Fills packets from the first on, as long as there are any: how many, and what came after the last of them, if not a packet.
    ///
    /// # Errors
    /// As [`FrameSource::next`].
    fn fill(&mut self, packets: &mut [Packet]) -> Result<(usize, NextFrame), RouterError> {
        one_by_one(self, packets)
    }

    /// Whether packets arrive when they do, not when `arrival` says.
    fn is_live(&self) -> bool {
        false
    }

    /// When the latest packet arrived, where a live source knows it; or else it counts as arriving when it is taken.
    fn arrived(&self) -> Option<Instant> {
        None
    }

    /// Since 1970 the time that arrival 0 stands for, where there is one: of made traffic there is none.
    fn epoch(&self) -> Option<Duration> {
        None
    }

    /// Packets that came and could not be taken, if that is known.
    fn missed(&mut self) -> Option<u64> {
        None
    }
}

/// [`FrameSource::fill`] by [`FrameSource::next`].
pub(crate) fn one_by_one<S: FrameSource + ?Sized>(
    source: &mut S,
    packets: &mut [Packet],
) -> Result<(usize, NextFrame), RouterError> {
    for (count, packet) in packets.iter_mut().enumerate() {
        let next = source.next(packet)?;
        if next != NextFrame::Packet {
            return Ok((count, next));
        }
    }
    Ok((packets.len(), NextFrame::Packet))
}

/// Where the program of AF_XDP runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XdpMode {
    /// In the driver if it has XDP, or else behind it.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// Behind the driver, in the kernel's stack.
    Generic,
}

/// Who carries frames to the memory that AF_XDP shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XdpCopy {
    /// The driver if it can, or else the kernel.
    #[default]
    Auto,
    /// The driver.
    ZeroCopy,
    /// The kernel.
    Copy,
}

impl FrameSource for traffic::Source {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        Ok(if traffic::Source::next(self, packet) { NextFrame::Packet } else { NextFrame::End })
    }
}

impl FrameSource for traffic::Capture {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        Ok(if traffic::Capture::next(self, packet) { NextFrame::Packet } else { NextFrame::End })
    }

    fn epoch(&self) -> Option<Duration> {
        self.begun()
    }
}

#[cfg(target_os = "linux")]
pub use crate::interface::{FanoutGroup, PacketRing, RawSocket, RingSpec};
#[cfg(target_os = "linux")]
pub use crate::xdp::{XdpInterface, XdpLosses, XdpSocket, XdpSocketSpec};
