//! A recorded program: the references that a program has made for its packets, made again.
//!
//! **Computes** nothing: each packet is taken for one of those that were recorded, and what the program did for that one
//! is done again. References to the recorded packet's bytes and mbuf go to the packet at hand; all others go where they
//! went, in the memory of the recording. The verdict is that of the recorded packet; what is forwarded leaves by the other
//! port of a pair.
//!
//! **References per packet**: those of the recorded packet, in its order.
//!
//! **Regions**: those of the recording. What the program shares between cores is one region, of the rest each core has a copy.
//!
//! Left out, since a recording cannot tell: that another packet would have led the program elsewhere (another flow finds another
//! entry of a table; only the packet's own bytes move), more memory than was touched while recording, what depends on time
//! or on other cores, waits for locks. A reference behind the end of a packet that is shorter than the recorded one goes
//! to its last byte. Instructions are those that were recorded.
//!
//! **See also** `work`, for functions that are made and not recorded.

use std::sync::Arc;

use packet::Packet;
use probe::{Access, Probe, Ref, RegionId, RegionSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Ps;

use crate::verdict::across;
use crate::{DropReason, FunctionError, PacketFunction, Verdict};

/// Which recorded packet stands for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// One after the other, in the order of arrival.
    #[default]
    InTurn,
    /// Of those whose frame length is nearest, one after the other.
    ByLength,
}

/// What addresses wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dependence {
    /// What was recorded: nothing, unless the program has said so.
    #[default]
    Recorded,
    /// Every load's address comes from the load before it, as in a pointer chase: a lower bound of speed.
    Chained,
}

/// What a program did, in the order in which it did it.
#[derive(Clone, Debug, Default)]
pub struct RecordedProgram {
    /// The memory it touched besides packets, [`RegionId::FIRST_TABLE`] and up.
    pub regions: Vec<RegionSpec>,
    /// Packets, at least one.
    pub packets: Vec<RecordedWork>,
    /// The steps of all packets, one packet after the other.
    pub steps: Vec<TraceStep>,
}

/// A recorded packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedWork {
    /// Bytes of the frame.
    pub bytes: u32,
    /// Its steps: from the first one until before the last one.
    pub steps: (usize, usize),
    /// Instructions after the last step.
    pub tail: u32,
    /// Whether it was dropped.
    pub dropped: bool,
}

/// Some instructions, and the reference after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// Instructions before it.
    pub work: u32,
    /// The reference; of a copy where it goes.
    pub to: Ref,
    /// Where a copy comes from.
    pub from: Option<Ref>,
}

/// Makes a recorded program's references again. See the module header.
#[derive(Clone, Debug)]
pub struct Trace {
    recorded: Arc<RecordedProgram>,
    pick: Pick,
    chained: bool,
    /// Indices of packets by length, and in their order within a length.
    by_length: Arc<Vec<u32>>,
    ports: u16,
}

state::state!(Trace { values: [], arrays: [], parts: [], built: [recorded, pick, chained, by_length, ports] });

impl Trace {
    /// Makes `recorded` again on a machine of `ports` ports.
    ///
    /// # Errors
    /// No packet.
    pub fn new(
        recorded: Arc<RecordedProgram>,
        pick: Pick,
        dependence: Dependence,
        ports: u16,
    ) -> Result<Trace, FunctionError> {
        if recorded.packets.is_empty() {
            return Err(FunctionError::Spec {
                path: "function.trace.skip",
                came: "all packets".into(),
                allowed: "less than the recording has".into(),
                remedy: "skip fewer, or record more packets",
            });
        }
        let mut by_length: Vec<u32> = (0..recorded.packets.len() as u32).collect();
        by_length.sort_by_key(|&i| recorded.packets[i as usize].bytes);
        let chained = dependence == Dependence::Chained;
        Ok(Trace { recorded, pick, chained, by_length: by_length.into(), ports })
    }

    /// What stands for `packet`: the same on every core.
    fn stands_for(&self, packet: &Packet) -> &RecordedWork {
        let packets = &self.recorded.packets;
        let n = packet.id.0;
        match self.pick {
            Pick::InTurn => &packets[(n % packets.len() as u64) as usize],
            Pick::ByLength => {
                let bytes = |i: usize| packets[self.by_length[i] as usize].bytes;
                let last = self.by_length.len() - 1;
                let above = self.by_length.partition_point(|&i| packets[i as usize].bytes < packet.frame_bytes);
                let nearest = match (above.checked_sub(1), above.min(last)) {
                    (Some(below), above)
                        if bytes(above).abs_diff(packet.frame_bytes) >= bytes(below).abs_diff(packet.frame_bytes) =>
                    {
                        bytes(below)
                    }
                    (_, above) => bytes(above),
                };
                let from = self.by_length.partition_point(|&i| packets[i as usize].bytes < nearest);
                let to = self.by_length.partition_point(|&i| packets[i as usize].bytes <= nearest);
                &packets[self.by_length[from + (n % (to - from) as u64) as usize] as usize]
            }
        }
    }
}

/// `r` within a packet of `frame` bytes.
#[inline]
fn within(mut r: Ref, frame: u32) -> Ref {
    if r.region == RegionId::PACKET {
        let frame = u64::from(frame.max(1));
        r.offset = r.offset.min(frame - 1);
        r.bytes = u64::from(r.bytes).min(frame - r.offset) as u16;
    }
    r
}

impl PacketFunction for Trace {
    fn name(&self) -> &'static str {
        "trace"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        self.recorded.regions.clone()
    }

    fn process_burst<P: Probe>(&mut self, _: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        for packet in burst {
            let work = *self.stands_for(packet);
            probe.begin(packet.id);
            let (mut since, mut site) = (0u8, 0);
            for step in &self.recorded.steps[work.steps.0..work.steps.1] {
                site = step.to.site;
                if step.work > 0 {
                    probe.work(site, step.work);
                }
                let mut to = within(step.to, packet.frame_bytes);
                if self.chained {
                    to.dep = since;
                }
                let loads = matches!(to.access, Access::Load | Access::Atomic) || step.from.is_some();
                since = if loads { 1 } else { since.saturating_add(u8::from(since > 0)) };
                match step.from {
                    None => probe.touch(to),
                    Some(from) => {
                        let from = within(Ref { dep: to.dep, ..from }, packet.frame_bytes);
                        // Both have as many bytes.
                        let bytes = from.bytes.min(to.bytes);
                        probe.copy(Ref { bytes, ..from }, Ref { bytes, dep: 0, ..to });
                    }
                }
            }
            probe.work(site, work.tail);
            out.push(if work.dropped {
                Verdict::Drop(DropReason::Recorded)
            } else {
                Verdict::Forward { port: across(packet.port, self.ports) }
            });
            probe.end(packet.id);
            probe.latch(site);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::{Count, ProbeEvent, Record, Sharing};
    use units::PacketId;

    const TABLE: RegionId = RegionId::FIRST_TABLE;

    fn recorded(lengths: &[u32]) -> Arc<RecordedProgram> {
        let mut made = RecordedProgram {
            regions: vec![RegionSpec { id: TABLE, name: "table".into(), bytes: 1 << 20, sharing: Sharing::Shared }],
            ..RecordedProgram::default()
        };
        for (i, &bytes) in lengths.iter().enumerate() {
            let first = made.steps.len();
            let at = |to: Ref| TraceStep { work: 10, to, from: None };
            made.steps.push(at(Ref::load(RegionId::PACKET, 12, 30, 0)));
            made.steps.push(at(Ref::load(TABLE, 64 * i as u64, 8, 1).after(1)));
            made.steps.push(TraceStep {
                from: Some(Ref::load(RegionId::PACKET, 0, bytes as u16, 2)),
                ..at(Ref::store(TABLE, 4096, bytes as u16, 2))
            });
            made.packets.push(RecordedWork { bytes, steps: (first, made.steps.len()), tail: 5, dropped: i == 1 });
        }
        made.into()
    }

    /// Offsets in the table, of the loads there, of packets with these lengths.
    fn played(pick: Pick, recorded_lengths: &[u32], frames: &[u32]) -> (Vec<u64>, Vec<ProbeEvent>, Vec<Verdict>) {
        let mut trace = Trace::new(recorded(recorded_lengths), pick, Dependence::Recorded, 2).unwrap();
        let packet =
            |(i, &bytes): (usize, &u32)| Packet { id: PacketId(i as u64), frame_bytes: bytes, ..Packet::default() };
        let mut burst: Vec<Packet> = frames.iter().enumerate().map(packet).collect();
        let (mut record, mut out) = (Record::default(), Vec::new());
        trace.process_burst(Ps::ZERO, &mut burst, &mut record, &mut out);
        let (mut at, mut events) = (0, Vec::new());
        while let Some((event, next)) = record.event(at) {
            events.push(event);
            at = next;
        }
        let loads = events.iter().filter_map(|event| match event {
            ProbeEvent::Touch(r) if r.region == TABLE && r.access == Access::Load => Some(r.offset / 64),
            _ => None,
        });
        (loads.collect(), events, out)
    }

    #[test]
    fn packets_stand_for_recorded_ones_in_turn_or_by_length() {
        assert_eq!(played(Pick::InTurn, &[60, 1500, 60], &[60; 5]).0, [0, 1, 2, 0, 1]);
        let frames = [60, 60, 60, 1500, 1499, 781, 780, 20, 9000];
        // The number of a packet counts within those of its length.
        assert_eq!(played(Pick::ByLength, &[60, 1500, 60], &frames).0, [0, 2, 0, 1, 1, 1, 0, 2, 1]);
    }

    #[test]
    fn verdicts_and_instructions_are_those_recorded() {
        let (_, _, verdicts) = played(Pick::InTurn, &[60, 1500, 60], &[60; 3]);
        assert_eq!(verdicts[1], Verdict::Drop(DropReason::Recorded));
        assert!(matches!(verdicts[2], Verdict::Forward { .. }));
        let mut count = Count::default();
        let mut trace = Trace::new(recorded(&[60]), Pick::InTurn, Dependence::Recorded, 2).unwrap();
        let mut burst = vec![Packet { frame_bytes: 60, ..Packet::default() }; 4];
        trace.process_burst(Ps::ZERO, &mut burst, &mut count, &mut Vec::new());
        assert_eq!(count.instructions, 4 * 35);
    }

    #[test]
    fn references_stay_within_a_packet_that_is_shorter_than_the_recorded_one() {
        let (_, events, _) = played(Pick::InTurn, &[1500], &[20, 1]);
        for event in events {
            let (r, frame) = match event {
                ProbeEvent::Touch(r) => (r, 20),
                ProbeEvent::Copy { src, dst } => {
                    assert_eq!(src.bytes, dst.bytes);
                    (src, 20)
                }
                _ => continue,
            };
            assert!(r.bytes > 0 && (r.region != RegionId::PACKET || r.offset + u64::from(r.bytes) <= frame), "{r:?}");
        }
    }

    #[test]
    fn chained_loads_wait_for_the_load_before() {
        let load =
            |offset, access| TraceStep { work: 0, to: Ref::load(TABLE, offset, 8, 0).with_access(access), from: None };
        let kinds = [Access::Load, Access::Store, Access::Store, Access::Load, Access::Load];
        let steps: Vec<TraceStep> = kinds.iter().enumerate().map(|(i, &kind)| load(i as u64, kind)).collect();
        let work = RecordedWork { bytes: 60, steps: (0, 5), ..RecordedWork::default() };
        let recorded = RecordedProgram { steps, packets: vec![work], ..(*recorded(&[])).clone() };
        let mut trace = Trace::new(recorded.into(), Pick::InTurn, Dependence::Chained, 2).unwrap();
        let mut record = Record::default();
        let mut burst = [Packet { frame_bytes: 60, ..Packet::default() }];
        trace.process_burst(Ps::ZERO, &mut burst, &mut record, &mut Vec::new());
        let (mut at, mut deps) = (0, Vec::new());
        while let Some((event, next)) = record.event(at) {
            if let ProbeEvent::Touch(r) = event {
                deps.push(r.dep);
            }
            at = next;
        }
        assert_eq!(deps, [0, 1, 2, 3, 1]);
    }

    #[test]
    fn without_packets_there_is_nothing_to_make_again() {
        let error = Trace::new(recorded(&[]), Pick::InTurn, Dependence::Recorded, 2).unwrap_err().to_string();
        assert!(error.contains("function.trace.skip = all packets"), "{error}");
    }
}
