//! Recorded programs: what a scenario says of them, and how they are made from their recording.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use functions::chain::SITES_A_MEMBER;
use functions::trace::{Dependence, RecordedWork, TraceStep};
use functions::{RecordedProgram, Trace};
use probe::{Access, Ref, RegionId, RegionSpec, Sharing};
use serde::Serialize;
use traffic::{RecordedKind, RecordedPlace, Recording, Stop};
use units::LINE_BYTES;

use crate::scenario::files::file_name;
use crate::scenario::{ScenarioError, TraceSpec};

impl TraceSpec {
    /// Reads the recording: the function, the file's hash, and what is to be said.
    pub(crate) fn build(
        &self,
        ports: u16,
        in_chain: bool,
        stop: &Stop,
    ) -> Result<(Trace, Option<String>, Vec<String>), ScenarioError> {
        let path = self.file.clone().unwrap_or_default();
        let recording = Recording::open_until(&path, stop)?;
        let notes = self.notes(&recording, &file_name(&path));
        let sites = if in_chain { SITES_A_MEMBER } else { u16::MAX };
        let trace = Trace::new(Arc::new(self.recorded(&recording, sites)), self.pick, self.dependence, ports)
            .map_err(|source| ScenarioError::Application { path: "function.trace", source })?;
        Ok((trace, recording.content, notes))
    }

    /// Tables of the function out of a recording, with `sites` places in the program.
    fn recorded(&self, recording: &Recording, sites: u16) -> RecordedProgram {
        let regions = recording.regions.iter().enumerate().map(|(i, region)| RegionSpec {
            id: RegionId(RegionId::FIRST_TABLE.0 + i as u16),
            name: region.name.clone(),
            bytes: region.bytes,
            sharing: if region.shared { Sharing::Shared } else { Sharing::PerCore },
        });
        let mut made = RecordedProgram { regions: regions.collect(), ..RecordedProgram::default() };
        // Spread so that a packet's instructions are the whole number nearest to what is asked for.
        let per_reference = if recording.instructions() == 0 { self.instructions_per_reference } else { 0.0 };
        for (index, packet) in recording.packets.iter().enumerate().skip(self.skip as usize) {
            let (first, mut told) = (made.steps.len(), 0.0);
            for (i, step) in recording.steps_of(index).iter().enumerate() {
                let due = (per_reference * (i + 1) as f64).round();
                let assumed = (due - std::mem::replace(&mut told, due)) as u32;
                let (region, offset) = located(step.place);
                let access = match step.kind {
                    RecordedKind::Load => Access::Load,
                    RecordedKind::Store | RecordedKind::CopyFrom(_) => Access::Store,
                    RecordedKind::Prefetch => Access::Prefetch,
                    RecordedKind::Atomic => Access::Atomic,
                };
                let (bytes, site) = (step.bytes, step.site % sites);
                let to = Ref { offset, region, site, bytes, access, dep: step.dep };
                let from = match step.kind {
                    RecordedKind::CopyFrom(place) => {
                        let (region, offset) = located(place);
                        Some(Ref { offset, region, access: Access::Load, ..to })
                    }
                    _ => None,
                };
                made.steps.push(TraceStep { work: step.work + assumed, to, from });
            }
            made.packets.push(RecordedWork {
                bytes: packet.bytes,
                steps: (first, made.steps.len()),
                tail: packet.tail,
                dropped: packet.dropped,
            });
        }
        made
    }

    fn notes(&self, recording: &Recording, name: &str) -> Vec<String> {
        let packets = recording.packets.len().saturating_sub(self.skip as usize);
        let kib = recording.regions.iter().map(|r| r.bytes).sum::<u64>() / 1024;
        let mut notes = vec![format!(
            "the function is {packets} recorded packets of {name}, again and again: it does not see what the packets of the \
             traffic hold, and never touches more than its regions, {kib} KiB"
        )];
        if recording.instructions() == 0 {
            notes.push(format!(
                "{name} tells of no instructions: {} for each reference are assumed \
                 (function.trace.instructions_per_reference)",
                self.instructions_per_reference
            ));
        }
        if self.dependence == Dependence::Recorded && recording.steps.iter().all(|step| step.dep == 0) {
            notes.push(format!(
                "{name} does not tell which references wait for which: none does \
                 (function.trace.dependence = \"chained\" lets each wait for the load before it, the other bound)"
            ));
        }
        let guessed = recording.regions.iter().filter(|r| !r.named && r.shared).count();
        if guessed > 0 {
            notes.push(format!(
                "{guessed} stretches of memory without a name, which the program has only read, are shared by the cores; of \
                 those that it has written each core has its own"
            ));
        }
        if recording.outside > 0 {
            let (outside, within) = (recording.outside, recording.steps.len());
            notes.push(format!("{outside} references between packets are left out, {within} within packets are kept"));
        }
        if recording.unfinished {
            notes.push(format!("{name} ends within a packet, which is left out"));
        }
        notes
    }
}

fn located(place: RecordedPlace) -> (RegionId, u64) {
    match place {
        RecordedPlace::Packet(offset) => (RegionId::PACKET, offset.into()),
        RecordedPlace::Mbuf(offset) => (RegionId::MBUF, offset.into()),
        RecordedPlace::Region(index, offset) => (RegionId(RegionId::FIRST_TABLE.0 + index), offset),
    }
}

/// What a recording holds, as JSON.
#[derive(Debug, Serialize)]
pub struct Description {
    /// How it was written.
    pub format: &'static str,
    /// Packets.
    pub packets: usize,
    /// Of these, dropped by the program.
    pub dropped: usize,
    /// Mean bytes of a packet's frame.
    pub mean_bytes: f64,
    /// References of all packets.
    pub references: usize,
    /// Instructions of all packets; 0 where the recording does not tell.
    pub instructions: u64,
    /// References whose address is known to come from another one.
    pub dependent: usize,
    /// References between packets, which are left out.
    pub outside: u64,
    /// References to the headroom of packets, taken for their first byte.
    pub headroom: u64,
    /// Whether the recording ends within a packet.
    pub unfinished: bool,
    /// Where references go.
    pub places: Vec<DescribedPlace>,
}

/// The packet, its mbuf, or a region.
#[derive(Debug, Default, Serialize)]
pub struct DescribedPlace {
    /// What it is called.
    pub name: String,
    /// Its first address; none of what moves with the packet.
    pub base: Option<u64>,
    /// Its bytes; 0 of what moves with the packet.
    pub bytes: u64,
    /// Whether cores share it.
    pub shared: bool,
    /// Whether the program has named it.
    pub named: bool,
    /// References.
    pub references: u64,
    /// Of these, stores.
    pub stores: u64,
    /// Lines of 64 bytes that are touched at all; 0 of what moves with the packet.
    pub lines: usize,
}

/// Reads a recording and says what it holds; gives up soon after `stop` is set.
///
/// # Errors
/// Those of [`Recording::open_until`].
pub fn describe(path: &Path, stop: &Stop) -> Result<Description, ScenarioError> {
    let recording = Recording::open_until(path, stop)?;
    let of_packet = |name: &str| DescribedPlace { name: name.into(), named: true, ..DescribedPlace::default() };
    let mut places = vec![of_packet("packet"), of_packet("mbuf")];
    places.extend(recording.regions.iter().map(|region| DescribedPlace {
        name: region.name.clone(),
        base: Some(region.base),
        bytes: region.bytes,
        shared: region.shared,
        named: region.named,
        ..DescribedPlace::default()
    }));
    let mut lines = vec![HashSet::new(); recording.regions.len()];
    let mut count = |place: RecordedPlace, stores: bool, bytes: u16| {
        let index = match place {
            RecordedPlace::Packet(_) => 0,
            RecordedPlace::Mbuf(_) => 1,
            RecordedPlace::Region(index, offset) => {
                let last = offset + u64::from(bytes) - 1;
                lines[usize::from(index)].extend(offset / LINE_BYTES..=last / LINE_BYTES);
                2 + usize::from(index)
            }
        };
        places[index].references += 1;
        places[index].stores += u64::from(stores);
    };
    for step in &recording.steps {
        let stores = !matches!(step.kind, RecordedKind::Load | RecordedKind::Prefetch);
        count(step.place, stores, step.bytes);
        if let RecordedKind::CopyFrom(from) = step.kind {
            count(from, false, step.bytes);
        }
    }
    for (place, lines) in places.iter_mut().skip(2).zip(lines) {
        place.lines = lines.len();
    }
    let bytes: u64 = recording.packets.iter().map(|p| u64::from(p.bytes)).sum();
    Ok(Description {
        format: recording.format.name(),
        packets: recording.packets.len(),
        dropped: recording.packets.iter().filter(|p| p.dropped).count(),
        mean_bytes: bytes as f64 / recording.packets.len() as f64,
        references: recording.steps.len(),
        instructions: recording.instructions(),
        dependent: recording.steps.iter().filter(|step| step.dep > 0).count(),
        outside: recording.outside,
        headroom: recording.headroom,
        unfinished: recording.unfinished,
        places,
    })
}
