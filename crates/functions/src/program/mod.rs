//! A program as its source describes it: the stages that packets go through, the lines that each touches, its instructions.
//!
//! **Computes** what the program does: with a table of routes what `forward` does, otherwise packets leave by the other port of a
//! pair, with their Ethernet addresses exchanged where a stage writes to the packet. Bytes of the packet are really changed.
//!
//! **References per packet**: those that its stages name. A lookup reads one entry a level: see [`TableForm`]. An address comes
//! from what was touched before in the same stage: data from the mbuf, a table from the data, a record from the table.
//!
//! **Regions**: the table of routes; records of routes, of next hops and of flows; counters of routes and next hops, which each
//! core has for itself (16 bytes each).
//!
//! A burst passes stage after stage, as in VPP or l3fwd, or each packet all of them, as in testpmd.
//!
//! Left out: packets that are not IPv4 go through the stages without routes; sockets, control plane, timers.
//!
//! **Source**: of each shipped program its own, named in its file.
//!
//! **See also** `forward`, `trace`.

mod touch;
mod trie;

use std::sync::Arc;

use packet::{L3, Packet, Prefix, layers};
use probe::{Access, Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{LINE_BYTES, Ps};

use crate::lookup::NextHop;
use crate::tape::{Tape, TapeMark};
use crate::verdict::across;
use crate::{Forward, FunctionError, PacketFunction, Verdict};

pub use touch::ProgramTouch;
use touch::{Manner, Thing};
pub use trie::TableForm;
use trie::{Trie, TriePath};

const ROOT: RegionId = RegionId::FIRST_TABLE;
const BELOW: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 1);
const ENTRIES: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 2);
const NEXT_HOPS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 3);
const ENTRY_COUNTERS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 4);
const NEXT_HOP_COUNTERS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 5);
const FLOWS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 6);

/// Packets and bytes.
const COUNTER_BYTES: u64 = 16;
/// A ply of the mtrie: 256 leaves of 4 bytes, their prefix lengths, two counters, on whole lines.
const PLY_BYTES: u64 = 1344;

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramSpec {
    /// The shipped program that fills in what is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Instructions of a packet in all, the driver's too, as `perf stat` counts them of the real program: what its parts count is
    /// scaled so that full bursts come to this. Left out: what its parts count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    /// Whether a burst passes stage after stage. Otherwise each packet passes all of them.
    pub by_stages: bool,
    /// Whether packets are sent flow by flow: each run of packets of one flow in a burst is handed to the driver in a call of its own,
    /// with a doorbell, in the course of the burst. Otherwise a burst is handed over at its end.
    pub by_flow: bool,
    /// The table of routes; packets leave by the other port of a pair when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableForm>,
    /// Bytes of a record that the program keeps for each route, up to 256.
    pub entry_bytes: u32,
    /// Bytes of a record that it keeps for each next hop, up to 512.
    pub next_hop_bytes: u32,
    /// Records of flows, found by a hash; up to 2^26.
    pub flows: u32,
    /// Bytes of one, up to 512.
    pub flow_bytes: u32,
    /// In their order; 1 to 32.
    pub stages: Vec<ProgramStage>,
}

/// A stage of a program: a node of a graph, an element, a loop over a burst.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramStage {
    /// Its name.
    pub name: String,
    /// Instructions of a packet.
    pub instructions: u32,
    /// Instructions of a burst.
    pub burst_instructions: u32,
    /// What is prefetched, of the packet that is `ahead` packets further on.
    pub prefetch: Vec<ProgramTouch>,
    /// How far ahead, 0 to 64.
    pub ahead: u32,
    /// What is touched of each packet, in order.
    pub touches: Vec<ProgramTouch>,
}

const MOST_STAGES: usize = 32;
const MOST_TOUCHES: usize = 64;

impl ProgramSpec {
    /// Checks the ranges. `path` is where the specification stands in the scenario.
    ///
    /// # Errors
    /// A value outside its range, a touch of what there is not.
    pub fn check(&self, path: &str) -> Result<(), FunctionError> {
        let error = |field: String, came: String, allowed: String| {
            Err(FunctionError::Value { path: format!("{path}.{field}"), came, allowed })
        };
        if let Some(n) = self.instructions.filter(|n| !(1.0..=1e6).contains(n)) {
            return error("instructions".into(), n.to_string(), "allowed are 1 to 1000000 a packet".into());
        }
        for (field, value, most) in [
            ("entry_bytes", self.entry_bytes, 256),
            ("next_hop_bytes", self.next_hop_bytes, 512),
            ("flows", self.flows, 1 << 26),
            ("flow_bytes", self.flow_bytes, 512),
        ] {
            if value > most {
                return error(field.into(), value.to_string(), format!("allowed are 0 to {most}"));
            }
        }
        if !(1..=MOST_STAGES).contains(&self.stages.len()) {
            let remedy = "name a shipped program in function.program, or write [[function.program.stages]]";
            let allowed = format!("allowed are 1 to {MOST_STAGES} ({remedy})");
            return error("stages".into(), format!("{} stages", self.stages.len()), allowed);
        }
        for (i, stage) in self.stages.iter().enumerate() {
            let at = format!("stages[{i}]");
            for (field, value, most) in [
                ("instructions", stage.instructions, 1_000_000),
                ("burst_instructions", stage.burst_instructions, 1_000_000),
                ("ahead", stage.ahead, 64),
            ] {
                if value > most {
                    return error(format!("{at}.{field}"), value.to_string(), format!("allowed are 0 to {most}"));
                }
            }
            for (field, touches) in [("prefetch", &stage.prefetch), ("touches", &stage.touches)] {
                if touches.len() > MOST_TOUCHES {
                    let allowed = format!("allowed are up to {MOST_TOUCHES}");
                    return error(format!("{at}.{field}"), touches.len().to_string(), allowed);
                }
                if let Some((touch, wanted)) = touches.iter().find_map(|touch| Some((touch, self.lacks(touch)?))) {
                    return error(format!("{at}.{field}"), format!("{touch:?}", touch = touch.to_string()), wanted);
                }
            }
        }
        Ok(())
    }

    /// Instructions of a packet that its stages count, in bursts of `burst`.
    pub fn counted(&self, burst: u32) -> f64 {
        let of = |stage: &ProgramStage| {
            f64::from(stage.instructions) + f64::from(stage.burst_instructions) / f64::from(burst.max(1))
        };
        self.stages.iter().map(of).sum()
    }

    /// What `touch` needs and this has not.
    fn lacks(&self, touch: &ProgramTouch) -> Option<String> {
        let routed = self.table.is_some();
        let end = (u32::from(touch.line) + 1) * LINE_BYTES as u32;
        let counts = touch.manner == Manner::Count;
        let too_short = |bytes: u32| !counts && bytes.next_multiple_of(LINE_BYTES as u32) < end;
        match touch.thing {
            Thing::Data | Thing::Mbuf if counts => Some("allowed are counts of entry and next_hop".into()),
            Thing::Flow if counts => Some("allowed are counts of entry and next_hop".into()),
            Thing::Lookup | Thing::Entry | Thing::NextHop if !routed => {
                Some("allowed where there are routes (set table)".into())
            }
            Thing::Entry if too_short(self.entry_bytes) => {
                Some("allowed are lines of a record (set entry_bytes)".into())
            }
            Thing::NextHop if too_short(self.next_hop_bytes) => {
                Some("allowed are lines of a record (set next_hop_bytes)".into())
            }
            Thing::Flow if too_short(self.flow_bytes) || self.flows == 0 => {
                Some("allowed are lines of a record (set flows and flow_bytes)".into())
            }
            _ => None,
        }
    }

    fn writes_packets(&self) -> bool {
        let writes = |touch: &ProgramTouch| (touch.manner, touch.thing) == (Manner::Store, Thing::Data);
        self.stages.iter().any(|stage| stage.touches.iter().any(writes))
    }
}

/// What a routing program knows.
#[derive(Debug)]
struct ProgramRoutes {
    form: TableForm,
    trie: Trie,
    /// By route.
    next_hops: Vec<u32>,
}

/// Runs a program. A clone shares the tables.
#[derive(Clone, Debug)]
pub struct Program {
    spec: Arc<ProgramSpec>,
    routes: Option<Arc<ProgramRoutes>>,
    /// What is done to packets where there are routes.
    forward: Option<Forward>,
    exchanges: bool,
    ports: u16,
    /// Of the packets of a burst: where their tables are read.
    found: Vec<Found>,
}

state::state!(Program { values: [], arrays: [], parts: [], built: [spec, routes, forward, exchanges, ports, found] });

/// What of the tables a packet concerns.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    path: Option<TriePath>,
    next_hop: u32,
    flow: Option<u64>,
}

impl Program {
    /// The program of `spec` on a machine of `ports` ports. With a table it routes by `routes`, as `forward` does.
    ///
    /// # Errors
    /// A value of `spec` outside its range.
    pub fn new(
        spec: &ProgramSpec,
        routes: impl Iterator<Item = (Prefix, NextHop)>,
        forward: Option<Forward>,
        ports: u16,
    ) -> Result<Program, FunctionError> {
        spec.check("function.program")?;
        let routes = spec.table.map(|form| {
            let of_v4 = routes.filter_map(|(prefix, next_hop)| match prefix {
                Prefix::V4 { addr, len } if len <= 32 => Some(((addr, len), next_hop.id())),
                _ => None,
            });
            let (prefixes, next_hops): (Vec<(u32, u8)>, Vec<u32>) = of_v4.unzip();
            Arc::new(ProgramRoutes { form, trie: Trie::new(&prefixes), next_hops })
        });
        Ok(Program {
            exchanges: spec.writes_packets(),
            spec: Arc::new(spec.clone()),
            forward: forward.filter(|_| routes.is_some()),
            routes,
            ports,
            found: Vec::new(),
        })
    }

    /// In how many runs of one flow `sent` falls, where packets are sent by flow. A packet without a flow is a run of its own.
    pub fn runs<'a>(&self, sent: impl Iterator<Item = &'a Packet>) -> Option<u32> {
        let flow = |packet: &Packet| layers(&packet.data).ok().map(|layers| layers.five_tuple);
        self.spec.by_flow.then(|| {
            let mut last = None;
            sent.fold(0, |runs, packet| {
                let before = std::mem::replace(&mut last, flow(packet));
                runs + u32::from(last.is_none() || last != before)
            })
        })
    }

    fn find(&self, packet: &Packet) -> Found {
        let mut found = Found::default();
        if let (Some(routes), L3::V4) = (&self.routes, packet.l3)
            && let Some(dst) = packet.data.get(usize::from(packet.l3_offset) + 16..).and_then(|d| d.first_chunk::<4>())
        {
            let path = routes.trie.walk(u32::from_be_bytes(*dst));
            found.next_hop = path.route.map_or(0, |route| routes.next_hops[route as usize]);
            found.path = Some(path);
        }
        if self.spec.flows > 0
            && let Ok(layers) = layers(&packet.data)
        {
            use std::hash::{DefaultHasher, Hash, Hasher};
            // With its fixed keys.
            let mut hasher = DefaultHasher::new();
            layers.five_tuple.hash(&mut hasher);
            found.flow = Some(hasher.finish() % u64::from(self.spec.flows));
        }
        found
    }

    /// Stage number `number` for packet `i` of the burst.
    fn stage<P: Probe>(&self, number: usize, i: usize, burst: &[Packet], tape: &mut Tape<'_, P>) {
        let stage = &self.spec.stages[number];
        let site = number as u16 * SITES;
        if let Some(ahead) = burst.get(i + stage.ahead as usize).filter(|_| !stage.prefetch.is_empty()) {
            tape.begin(ahead.id);
            let found = self.found[i + stage.ahead as usize];
            let mut marks = StageMarks::default();
            for (k, touch) in stage.prefetch.iter().enumerate() {
                let touch = ProgramTouch { manner: Manner::Prefetch, ..*touch };
                self.touch(touch, &found, ahead, site + FIRST_PREFETCH + k as u16, &mut marks, tape);
            }
            tape.end(ahead.id);
        }
        let packet = &burst[i];
        tape.begin(packet.id);
        let mut marks = StageMarks::default();
        for (k, &touch) in stage.touches.iter().enumerate() {
            self.touch(touch, &self.found[i], packet, site + k as u16, &mut marks, tape);
        }
        tape.work(site + LAST, stage.instructions);
        tape.end(packet.id);
        tape.latch(site + LATCH);
    }

    fn touch<P: Probe>(
        &self,
        touch: ProgramTouch,
        found: &Found,
        packet: &Packet,
        site: u16,
        marks: &mut StageMarks,
        tape: &mut Tape<'_, P>,
    ) {
        let line = u64::from(touch.line) * LINE_BYTES;
        let whole = LINE_BYTES as u16;
        // Of a record of so many bytes, those in this line of it.
        let left = |bytes: u32| u64::from(bytes).saturating_sub(line).min(LINE_BYTES) as u16;
        match touch.thing {
            Thing::Mbuf => marks.mbuf = Some(push(touch.manner, RegionId::MBUF, line, whole, site, None, tape)),
            Thing::Data if line < u64::from(packet.frame_bytes) => {
                let bytes = (u64::from(packet.frame_bytes) - line).min(LINE_BYTES) as u16;
                marks.data = Some(push(touch.manner, RegionId::PACKET, line, bytes, site, marks.mbuf, tape));
            }
            Thing::Data => {}
            Thing::Lookup => self.look_up(found, site, marks, tape),
            Thing::Entry => {
                let Some(route) = found.path.and_then(|path| path.route) else { return };
                let (from, route) = (marks.table.or(marks.mbuf), u64::from(route));
                let at = match touch.manner {
                    Manner::Count => (ENTRY_COUNTERS, route * COUNTER_BYTES, COUNTER_BYTES as u16),
                    _ => (ENTRIES, route * u64::from(self.spec.entry_bytes) + line, left(self.spec.entry_bytes)),
                };
                marks.entry = Some(push(touch.manner, at.0, at.1, at.2, site, from, tape));
            }
            Thing::NextHop => {
                let Some(Some(_)) = found.path.map(|path| path.route) else { return };
                let (from, hop) = (marks.entry.or(marks.table).or(marks.mbuf), u64::from(found.next_hop));
                let at = match touch.manner {
                    Manner::Count => (NEXT_HOP_COUNTERS, hop * COUNTER_BYTES, COUNTER_BYTES as u16),
                    _ => (NEXT_HOPS, hop * u64::from(self.spec.next_hop_bytes) + line, left(self.spec.next_hop_bytes)),
                };
                push(touch.manner, at.0, at.1, at.2, site, from, tape);
            }
            Thing::Flow => {
                let Some(flow) = found.flow else { return };
                let offset = flow * u64::from(self.spec.flow_bytes) + line;
                let bytes = left(self.spec.flow_bytes);
                push(touch.manner, FLOWS, offset, bytes, site, marks.data, tape);
            }
        }
    }

    /// The entries that a lookup reads, one after the other.
    fn look_up<P: Probe>(&self, found: &Found, site: u16, marks: &mut StageMarks, tape: &mut Tape<'_, P>) {
        let (Some(routes), Some(path)) = (&self.routes, found.path) else { return };
        let from = marks.data.or(marks.mbuf);
        let load = |region, offset, bytes, from, tape: &mut Tape<'_, P>| {
            push(Manner::Load, region, offset, bytes, site, from, tape)
        };
        let ply = |index: u32| u64::from(index / 256) * PLY_BYTES + u64::from(index % 256) * 4;
        let mut mark;
        match routes.form {
            TableForm::Mtrie => {
                mark = load(ROOT, u64::from(path.root) * 4, 4, from, tape);
                let second = routes.trie.plies()[0];
                if let Some(index) = path.second {
                    mark = load(BELOW, ply(index), 4, Some(mark), tape);
                }
                if let Some(index) = path.third {
                    mark = load(BELOW, second * PLY_BYTES + ply(index), 4, Some(mark), tape);
                }
            }
            TableForm::Dir24 | TableForm::Dir24Narrow => {
                let bytes = if routes.form == TableForm::Dir24 { 4 } else { 2 };
                mark = load(ROOT, u64::from(path.dst >> 8) * bytes, bytes as u16, from, tape);
                if let Some(index) = path.third {
                    mark = load(BELOW, u64::from(index) * bytes, bytes as u16, Some(mark), tape);
                }
            }
        }
        marks.table = Some(mark);
    }
}

/// Of one stage of one packet: what later addresses come from.
#[derive(Default)]
struct StageMarks {
    mbuf: Option<TapeMark>,
    data: Option<TapeMark>,
    table: Option<TapeMark>,
    entry: Option<TapeMark>,
}

/// Sites of a stage: its touches, then its prefetches, then the end.
const SITES: u16 = 2 * MOST_TOUCHES as u16 + 2;
const FIRST_PREFETCH: u16 = MOST_TOUCHES as u16;
const LAST: u16 = SITES - 2;
const LATCH: u16 = SITES - 1;

fn push<P: Probe>(
    manner: Manner,
    region: RegionId,
    offset: u64,
    bytes: u16,
    site: u16,
    from: Option<TapeMark>,
    tape: &mut Tape<'_, P>,
) -> TapeMark {
    let access = match manner {
        Manner::Load | Manner::Count => Access::Load,
        Manner::Store => Access::Store,
        Manner::Prefetch => Access::Prefetch,
    };
    let reference = Ref::load(region, offset, bytes, site).with_access(access);
    let mark = match from {
        Some(from) => tape.touch_after(from, reference),
        None => tape.touch(reference),
    };
    if manner == Manner::Count {
        tape.touch_after(mark, Ref::store(region, offset, bytes, site));
    }
    mark
}

impl PacketFunction for Program {
    fn name(&self) -> &'static str {
        "program"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        let spec = &self.spec;
        let region = |id, name: &str, bytes, sharing| RegionSpec { id, name: name.into(), bytes, sharing };
        let mut regions = Vec::new();
        if let Some(routes) = &self.routes {
            let ([second, third], hops) = (routes.trie.plies(), routes.next_hops.iter().max().map_or(0, |hop| hop + 1));
            let (root, below) = match routes.form {
                TableForm::Mtrie => (4 << 16, (second + third) * PLY_BYTES),
                TableForm::Dir24 => (4 << 24, third * 256 * 4),
                TableForm::Dir24Narrow => (2 << 24, third * 256 * 2),
            };
            let (routes, hops) = (routes.next_hops.len() as u64, u64::from(hops));
            regions.push(region(ROOT, "routes", root, Sharing::Shared));
            regions.push(region(BELOW, "routes below", below, Sharing::Shared));
            regions.push(region(ENTRIES, "route records", routes * u64::from(spec.entry_bytes), Sharing::Shared));
            regions.push(region(NEXT_HOPS, "next hops", hops * u64::from(spec.next_hop_bytes), Sharing::Shared));
            regions.push(region(ENTRY_COUNTERS, "route counters", routes * COUNTER_BYTES, Sharing::PerCore));
            regions.push(region(NEXT_HOP_COUNTERS, "next hop counters", hops * COUNTER_BYTES, Sharing::PerCore));
        }
        if spec.flows > 0 {
            let bytes = u64::from(spec.flows) * u64::from(spec.flow_bytes);
            regions.push(region(FLOWS, "flows", bytes, Sharing::Shared));
        }
        regions
    }

    fn process_burst<P: Probe>(&mut self, now: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        if const { P::LIVE } {
            let mut found = std::mem::take(&mut self.found);
            found.clear();
            found.extend(burst.iter().map(|packet| self.find(packet)));
            self.found = found;
            let mut tape = Tape::new(probe);
            let stages = self.spec.stages.len();
            let (outer, inner) = if self.spec.by_stages { (stages, burst.len()) } else { (burst.len(), stages) };
            for stage in 0..stages {
                tape.work(stage as u16 * SITES + LAST, self.spec.stages[stage].burst_instructions);
            }
            for a in 0..outer {
                for b in 0..inner {
                    let (stage, i) = if self.spec.by_stages { (a, b) } else { (b, a) };
                    self.stage(stage, i, burst, &mut tape);
                }
            }
        }
        match &mut self.forward {
            Some(forward) => forward.process_burst(now, burst, &mut probe::Null, out),
            None => {
                for packet in burst {
                    if let (true, Some(addresses)) = (self.exchanges, packet.data.first_chunk_mut::<12>()) {
                        let (to, from) = addresses.split_at_mut(6);
                        to.swap_with_slice(from);
                    }
                    out.push(Verdict::Forward { port: across(packet.port, self.ports) });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::{ProbeEvent, Record};

    fn stage(touches: &[&str]) -> ProgramStage {
        let read = |text: &&str| ProgramTouch::try_from(text.to_string()).unwrap();
        ProgramStage { touches: touches.iter().map(read).collect(), instructions: 7, ..ProgramStage::default() }
    }

    fn packets(destinations: &[u32]) -> Vec<Packet> {
        let mut all = Vec::new();
        for (i, dst) in destinations.iter().enumerate() {
            let mut frame = vec![0u8; 60];
            frame[..12].copy_from_slice(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[16..18].copy_from_slice(&46u16.to_be_bytes());
            frame[22] = 64;
            frame[26..30].copy_from_slice(&[8, 8, 4, 4]);
            frame[30..34].copy_from_slice(&dst.to_be_bytes());
            let mut packet = Packet { id: units::PacketId(i as u64), ..Packet::default() };
            packet.set_frame(&frame, 60);
            all.push(packet);
        }
        all
    }

    /// Region, offset and what it came from, of each reference; and the verdicts.
    fn run(spec: &ProgramSpec, routes: &[(u32, u8)], burst: &mut [Packet]) -> (Vec<(u16, u64, u8)>, Vec<Verdict>) {
        let all: Vec<(Prefix, NextHop)> = routes
            .iter()
            .enumerate()
            .map(|(i, &(addr, len))| (Prefix::V4 { addr, len }, NextHop::from(i as u16)))
            .collect();
        let forward = Forward::new(all.iter().copied(), 2, &crate::ForwardSpec::default()).unwrap();
        let mut program = Program::new(spec, all.into_iter(), Some(forward), 2).unwrap();
        let (mut record, mut out) = (Record::default(), Vec::new());
        program.process_burst(Ps::ZERO, burst, &mut record, &mut out);
        let refs = record.iter().filter_map(|event| match event {
            ProbeEvent::Touch(r) => Some((r.region.0, r.offset, r.dep)),
            _ => None,
        });
        (refs.collect(), out)
    }

    #[test]
    fn a_route_is_looked_up_where_its_table_has_it_and_its_records_follow() {
        let routes = [(0x0a00_0000, 8), (0x0a01_0200, 24), (0x0a01_0280, 25)];
        let touches =
            ["load mbuf 0", "load data 0", "load lookup", "load entry 0", "count next_hop", "load next_hop 1"];
        let spec = |table| ProgramSpec {
            table: Some(table),
            entry_bytes: 64,
            next_hop_bytes: 256,
            stages: vec![stage(&touches)],
            ..ProgramSpec::default()
        };
        let t = RegionId::FIRST_TABLE.0;
        let (mbuf, data) = ((RegionId::MBUF.0, 0, 0), (RegionId::PACKET.0, 0, 1));
        let (refs, verdicts) = run(&spec(TableForm::Mtrie), &routes, &mut packets(&[0x0a01_0281]));
        let records = [(t + 2, 2 * 64, 1), (t + 5, 2 * 16, 1), (t + 5, 2 * 16, 1), (t + 3, 2 * 256 + 64, 3)];
        let levels = [(t, 0x0a01 * 4, 1), (t + 1, 2 * 4, 1), (t + 1, 1344 + 0x81 * 4, 1)];
        assert_eq!(refs, [&[mbuf, data][..], &levels, &records].concat());
        assert_eq!(verdicts, [Verdict::Forward { port: units::PortId(0) }]);
        let (refs, _) = run(&spec(TableForm::Dir24), &routes, &mut packets(&[0x0a01_0281]));
        let levels = [(t, 0x0a_0102 * 4, 1), (t + 1, 0x81 * 4, 1)];
        assert_eq!(refs, [&[mbuf, data][..], &levels, &records].concat());
        // Where no longer prefix is near, too, each of the first 24 bits has its entry.
        let (refs, _) = run(&spec(TableForm::Dir24), &routes, &mut packets(&[0x0a77_1234]));
        assert_eq!(refs[2], (t, 0x0a_7712 * 4, 1));
        let (refs, _) = run(&spec(TableForm::Dir24Narrow), &routes, &mut packets(&[0x0a01_0201]));
        assert_eq!(refs[2..4], [(t, 0x0a_0102 * 2, 1), (t + 1, 2, 1)]);
        // Without a route there are no records.
        let (refs, verdicts) = run(&spec(TableForm::Mtrie), &routes, &mut packets(&[0x0b00_0000]));
        assert_eq!(refs, [mbuf, data, (t, 0x0b00 * 4, 1)]);
        assert!(matches!(verdicts[..], [Verdict::Drop(_)]));
    }

    #[test]
    fn a_burst_passes_stage_after_stage_or_packet_after_packet() {
        let stages = vec![stage(&["load mbuf 0"]), stage(&["store data 0"])];
        let order = |by_stages| {
            let spec = ProgramSpec { by_stages, stages: stages.clone(), ..ProgramSpec::default() };
            let mut burst = packets(&[1, 2]);
            let (refs, verdicts) = run(&spec, &[], &mut burst);
            assert_eq!(verdicts, [Verdict::Forward { port: units::PortId(1) }; 2]);
            // It writes to the packet: the addresses are exchanged.
            assert_eq!(burst[1].data[..12], [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
            refs.iter().map(|r| r.0).collect::<Vec<_>>()
        };
        let (m, d) = (RegionId::MBUF.0, RegionId::PACKET.0);
        assert_eq!(order(true), [m, m, d, d]);
        assert_eq!(order(false), [m, d, m, d]);
    }

    #[test]
    fn what_is_sent_by_flow_is_sent_run_by_run() {
        let runs = |by_flow, destinations: &[u32]| {
            let spec = ProgramSpec { by_flow, stages: vec![stage(&["load mbuf 0"])], ..ProgramSpec::default() };
            let program = Program::new(&spec, std::iter::empty(), None, 2).unwrap();
            program.runs(packets(destinations).iter())
        };
        assert_eq!(runs(true, &[1, 1, 2, 2, 2, 1]), Some(3));
        assert_eq!(runs(true, &[1, 2, 3]), Some(3));
        assert_eq!(runs(true, &[]), Some(0));
        assert_eq!(runs(false, &[1, 2, 3]), None);
    }

    #[test]
    fn a_touch_of_what_there_is_not_is_refused() {
        let refused = |spec: ProgramSpec| spec.check("function.program").unwrap_err().to_string();
        let of = |touches: &[&str]| ProgramSpec { stages: vec![stage(touches)], ..ProgramSpec::default() };
        assert!(refused(ProgramSpec::default()).contains("function.program.stages = 0 stages: allowed are 1 to 32"));
        assert_eq!(
            refused(of(&["load lookup"])),
            "function.program.stages[0].touches = \"load lookup\": allowed where there are routes (set table)"
        );
        assert!(refused(of(&["load flow 0"])).contains("set flows and flow_bytes"));
        assert!(refused(of(&["count data 0"])).contains("allowed are counts of entry and next_hop"));
        let routed = ProgramSpec { table: Some(TableForm::Dir24), ..of(&["load entry 0"]) };
        assert!(refused(routed).contains("set entry_bytes"));
    }
}
