//! A burst on its way through the stages: parse all, find all flows or sessions, then rules and rewriting.

use packet::Packet;
use probe::{Access, CopyLoop, Probe, Ref, RegionId};
use units::Ps;

use super::flows::{self, FlowSlot};
use super::headers::{Parsed, data_address, leave, prefetch_header, read};
use super::lines::{
    FarAction, GENERATION_OFFSET, HAS_REMOTE, IS_V4, PDR_ACTION_BYTES, PDR_ACTION_OFFSET, PDR_KEY_BYTES,
    PDR_REMOTE_OFFSET, URR_STATE_BYTES,
};
use super::table::{self, BucketLookup, BucketTable};
use super::{
    BUFFER, BUFFER_BYTES, FAR_BYTES, FARS, FLOWS, Kept, LINE, PDRS, PREFETCH_AHEAD, QERS, SESSIONS, TEIDS, UE_V4,
    UE_V6, URRS, Upf, UpfRules, cost, site,
};
use crate::lookup::prefetch;
use crate::tape::{Tape, TapeMark, Trail};
use crate::{DropReason, Verdict};

/// What is known about a packet between the stages.
#[derive(Clone, Copy)]
enum UpfFate {
    Drop(DropReason),
    /// To be found in this bucket.
    Uplink(u32),
    Downlink(u32),
    /// The place of its session.
    UplinkOf(u32),
    DownlinkOf(u32),
    /// In its flow's entry, which is the one at this place.
    Flow(u32),
}

/// Where a packet's rules are known from.
#[derive(Clone, Copy)]
enum Whence {
    /// They are to be looked for in the session at this place, and remembered under this hash.
    Session(u32, u64),
    /// What is remembered of its flow, and where that stands.
    Flow(flows::FlowRules, FlowSlot),
}

impl Upf {
    /// `N` packets at a time; `K` is `N` with flow tables, and 0 without, so that they cost nothing then.
    pub(super) fn stages<const N: usize, const K: usize, P: Probe>(
        &mut self,
        now: Ps,
        burst: &mut [Packet],
        probe: &mut P,
        out: &mut Vec<Verdict>,
    ) {
        let mut tape = Tape::new(probe);
        if self.prefetch {
            burst.iter().take(PREFETCH_AHEAD).for_each(|packet| prefetch_header(packet, &mut tape));
        }
        let mut rest = burst;
        while !rest.is_empty() {
            let mut fates = [UpfFate::Drop(DropReason::NotIp); N];
            let mut keys = [Parsed::default(); N];
            // Of each packet's flow: its hash, and what is remembered.
            let mut hashes = [0u64; K];
            let mut known = [flows::FlowRules::NOTHING; K];
            let mut trail = Trail::<P, N>::new();
            self.parse(rest, (&mut fates, &mut keys, &mut hashes), &mut trail, &mut tape);
            let n = rest.len().min(N);
            for i in 0..n {
                tape.begin(trail.id(i));
                let flow = hashes.get(i).zip(known.get_mut(i)).map(|(&hash, known)| (hash, now, known));
                fates[i] = self.find(fates[i], &keys[i], flow, &mut trail, i, &mut tape);
                tape.end(trail.id(i));
                tape.latch(site::FOUND_LATCH);
            }
            let (packets, after) = rest.split_at_mut(n);
            for (i, packet) in packets.iter_mut().enumerate().take(N) {
                tape.begin(packet.id);
                let hash = hashes.get(i).copied().unwrap_or(0);
                let from = trail.mark(i);
                let verdict = match fates[i] {
                    UpfFate::UplinkOf(at) => {
                        self.apply::<K, P>(now, packet, &keys[i], (Whence::Session(at, hash), 0, from), &mut tape)
                    }
                    UpfFate::DownlinkOf(at) => {
                        self.apply::<K, P>(now, packet, &keys[i], (Whence::Session(at, hash), 1, from), &mut tape)
                    }
                    UpfFate::Flow(place) => {
                        let way = usize::from(keys[i].teid == 0);
                        let found = known.get(i).copied().unwrap_or(flows::FlowRules::NOTHING);
                        let whence = Whence::Flow(found, FlowSlot::from(place));
                        self.apply::<K, P>(now, packet, &keys[i], (whence, way, from), &mut tape)
                    }
                    UpfFate::Drop(reason) => Verdict::Drop(reason),
                    UpfFate::Uplink(_) => Verdict::Drop(DropReason::UnknownTeid),
                    UpfFate::Downlink(_) => Verdict::Drop(DropReason::UnknownUe),
                };
                out.push(verdict);
                tape.end(packet.id);
                tape.latch(site::DONE_LATCH);
            }
            rest = after;
        }
    }

    #[inline(always)]
    fn parse<const N: usize, const K: usize, P: Probe>(
        &self,
        rest: &[Packet],
        (fates, keys, hashes): (&mut [UpfFate; N], &mut [Parsed; N], &mut [u64; K]),
        trail: &mut Trail<P, N>,
        tape: &mut Tape<'_, P>,
    ) {
        for (i, packet) in rest.iter().enumerate().take(N) {
            if self.prefetch
                && let Some(ahead) = rest.get(i + PREFETCH_AHEAD)
            {
                prefetch_header(ahead, tape);
            }
            tape.begin(packet.id);
            trail.enter(i, packet.id);
            fates[i] = match read(packet, tape) {
                Ok((key, mark)) => {
                    let (table, region, value) = self.table_of(&key);
                    let bucket = table.home(value);
                    if const { K > 0 }
                        && let (Some(flows), Some(hash)) = (self.flows.get(self.core), hashes.get_mut(i))
                    {
                        *hash = flows::hash(&key);
                        tape.work(site::BUCKET_PREFETCH, cost::FLOW_HASH);
                        if self.prefetch {
                            let slot = flows.bucket(*hash);
                            prefetch(flows.address(slot));
                            let line = Ref::load(FLOWS, slot.tags(), LINE as u16, site::BUCKET_PREFETCH);
                            tape.touch_after(mark, line.with_access(Access::Prefetch));
                        }
                    } else if self.prefetch {
                        prefetch(table.address(bucket));
                        let at = bucket as u64 * table::BUCKET_BYTES;
                        let line = Ref::load(region, at, LINE as u16, site::BUCKET_PREFETCH);
                        tape.touch_after(mark, line.with_access(Access::Prefetch));
                    }
                    trail.keep(i, mark);
                    keys[i] = key;
                    let uplink = region == TEIDS;
                    tape.work(site::PARSED, if uplink { cost::UPLINK } else { cost::DOWNLINK });
                    if uplink { UpfFate::Uplink(bucket as u32) } else { UpfFate::Downlink(bucket as u32) }
                }
                Err(reason) => {
                    tape.work(site::PARSED, if reason == DropReason::NotIp { cost::NOT_IP } else { cost::BAD });
                    UpfFate::Drop(reason)
                }
            };
            tape.end(packet.id);
            tape.latch(site::PARSE_LATCH);
        }
    }

    /// The table that has the packet's session, and the key to look for.
    #[inline(always)]
    fn table_of(&self, key: &Parsed) -> (&BucketTable, RegionId, u64) {
        let rules = &*self.rules;
        if key.teid != 0 {
            (&rules.teids, TEIDS, key.teid.into())
        } else if key.what & IS_V4 != 0 {
            (&rules.ue_v4, UE_V4, key.ue as u64)
        } else {
            (&rules.ue_v6, UE_V6, (key.ue >> 64) as u64)
        }
    }

    /// What is remembered of a packet's flow.
    #[inline(always)]
    fn flow<const N: usize, P: Probe>(
        &mut self,
        key: &Parsed,
        (hash, now, known): (u64, Ps, &mut flows::FlowRules),
        trail: &mut Trail<P, N>,
        i: usize,
        tape: &mut Tape<'_, P>,
    ) -> Option<UpfFate> {
        let flows = self.flows.get_mut(self.core)?;
        let tags = Ref::load(FLOWS, flows.bucket(hash).tags(), LINE as u16, site::FLOW_TAGS);
        let bucket = tape.touch_after(trail.mark(i), tags);
        tape.work(site::FLOW_TAGS, cost::FLOW_TAGS);
        if let Some(slot) = flows.signed(hash) {
            let line = Ref::load(FLOWS, slot.entry(self.flow_buckets), LINE as u16, site::FLOW_ENTRY);
            let entry = tape.touch_after(bucket, line);
            tape.work(site::FLOW_ENTRY, cost::FLOW_ENTRY);
            if let Some((found, generation)) = flows.look(slot, key) {
                let at = u64::from(found.session) * LINE + GENERATION_OFFSET;
                tape.touch_after(entry, Ref::load(SESSIONS, at, 4, site::FLOW_GENERATION));
                if self.rules.sessions.get(found.session as usize).is_some_and(|s| s.generation == generation) {
                    flows.counters.hits += 1;
                    // Now, and not when its rules are applied: a new flow of the burst would take its place.
                    flows.keep(slot, now.0);
                    trail.keep(i, entry);
                    *known = found;
                    return Some(UpfFate::Flow(slot.into()));
                }
                flows.counters.stale += 1;
            }
        }
        flows.counters.misses += 1;
        None
    }

    /// The session of a packet, or what is remembered of its flow.
    #[inline(always)]
    fn find<const N: usize, P: Probe>(
        &mut self,
        fate: UpfFate,
        key: &Parsed,
        flow: Option<(u64, Ps, &mut flows::FlowRules)>,
        trail: &mut Trail<P, N>,
        i: usize,
        tape: &mut Tape<'_, P>,
    ) -> UpfFate {
        let (uplink, mut bucket) = match fate {
            UpfFate::Uplink(bucket) => (true, bucket as usize),
            UpfFate::Downlink(bucket) => (false, bucket as usize),
            other => return other,
        };
        if let Some(flow) = flow
            && let Some(flow) = self.flow(key, flow, trail, i, tape)
        {
            return flow;
        }
        let (table, region, value) = self.table_of(key);
        let from = trail.mark(i);
        // As many buckets as there are at most: a table that is full of others ends there.
        for _ in 0..table.bytes() / table::BUCKET_BYTES {
            let at = bucket as u64 * table::BUCKET_BYTES;
            tape.touch_after(from, Ref::load(region, at, table::VALUE_OFFSET as u16, site::KEYS));
            tape.work(site::KEYS, cost::BUCKET);
            match table.look(bucket, value) {
                BucketLookup::Here(slot, session) => {
                    let offset = at + table::VALUE_OFFSET + 4 * slot as u64;
                    let mark = tape.touch_after(from, Ref::load(region, offset, 4, site::VALUE));
                    if self.prefetch
                        && let Some(line) = self.rules.sessions.get(session as usize)
                    {
                        prefetch(std::ptr::from_ref(line).cast::<u8>());
                        let at = u64::from(session) * LINE;
                        let line = Ref::load(SESSIONS, at, LINE as u16, site::SESSION_PREFETCH);
                        tape.touch_after(mark, line.with_access(Access::Prefetch));
                    }
                    trail.keep(i, mark);
                    tape.work(site::FOUND, cost::FOUND);
                    return if uplink { UpfFate::UplinkOf(session) } else { UpfFate::DownlinkOf(session) };
                }
                found => {
                    tape.touch_after(from, Ref::load(region, at + table::PASSED_OFFSET, 4, site::PASSED));
                    tape.work(site::PASSED, cost::NOT_FOUND);
                    tape.latch(site::BUCKET_LATCH);
                    if found == BucketLookup::Nowhere {
                        break;
                    }
                    bucket = table.next(bucket);
                }
            }
        }
        UpfFate::Drop(if uplink { DropReason::UnknownTeid } else { DropReason::UnknownUe })
    }

    /// The rules of a packet among those of its session, and the reference that names them. `way` is 0 for uplink, 1 for
    /// downlink.
    #[inline(always)]
    fn walk<P: Probe>(
        rules: &UpfRules,
        key: &Parsed,
        (at, way, from): (u32, usize, TapeMark),
        tape: &mut Tape<'_, P>,
    ) -> Result<(flows::FlowRules, TapeMark), DropReason> {
        let Some(session) = rules.sessions.get(at as usize) else { return Err(DropReason::NoPdr) };
        let here = tape.touch_after(from, Ref::load(SESSIONS, u64::from(at) * LINE, LINE as u16, site::SESSION));
        if way == 0 && !session.is_of(key) {
            tape.work(site::DONE, cost::RULES);
            return Err(DropReason::UeSpoofed);
        }
        let (first, n) = session.pdrs[way];
        let list = rules.pdrs.get(first as usize..(first + n) as usize).unwrap_or_default();
        let mut found = None;
        for (i, pdr) in list.iter().enumerate() {
            let line = u64::from(first + i as u32) * LINE;
            tape.touch_after(here, Ref::load(PDRS, line, PDR_KEY_BYTES, site::PDR));
            if pdr.fits(key) {
                let mut matches = true;
                if pdr.what & HAS_REMOTE != 0 {
                    tape.touch_after(here, Ref::load(PDRS, line + PDR_REMOTE_OFFSET, 16, site::PDR_REMOTE));
                    matches = pdr.reaches(key);
                }
                if matches {
                    tape.work(site::PDR_LATCH, cost::PDR);
                    tape.latch(site::PDR_LATCH);
                    found = Some((pdr, line));
                    break;
                }
            }
            tape.work(site::PDR_LATCH, cost::PDR);
            tape.latch(site::PDR_LATCH);
        }
        let Some((pdr, line)) = found else {
            tape.work(site::DONE, cost::RULES);
            return Err(DropReason::NoPdr);
        };
        let action = Ref::load(PDRS, line + PDR_ACTION_OFFSET, PDR_ACTION_BYTES, site::PDR_ACTION);
        let action = tape.touch_after(here, action);
        Ok((flows::FlowRules { session: at, far: pdr.far, qers: pdr.qers, urrs: pdr.urrs }, action))
    }

    /// Applies the rules of a packet. `way` is 0 for uplink, 1 for downlink.
    #[inline(always)]
    fn apply<const K: usize, P: Probe>(
        &mut self,
        now: Ps,
        packet: &mut Packet,
        key: &Parsed,
        (whence, way, from): (Whence, usize, TapeMark),
        tape: &mut Tape<'_, P>,
    ) -> Verdict {
        let rules = &*self.rules;
        let (found, action) = match whence {
            Whence::Flow(found, _) => (found, from),
            Whence::Session(at, _) => match Upf::walk(rules, key, (at, way, from), tape) {
                Ok(found) => found,
                Err(reason) => return Verdict::Drop(reason),
            },
        };
        let at = found.session;
        let Some(far) = rules.fars.get(found.far as usize) else { return Verdict::Drop(DropReason::FarDrop) };
        let far_at = u64::from(found.far) * FAR_BYTES;
        tape.touch_after(action, Ref::load(FARS, far_at, FAR_BYTES as u16, site::FAR));
        tape.work(site::FAR, cost::RULES);
        if const { K > 0 }
            && let (Some(flows), Some(session)) = (self.flows.get_mut(self.core), rules.sessions.get(at as usize))
        {
            let slot = match whence {
                Whence::Flow(_, slot) => {
                    tape.work(site::FLOW_STORE, cost::FLOW_KEEP);
                    slot
                }
                Whence::Session(_, hash) => {
                    let slot = flows.enter(hash, key, found, session.generation, now.0);
                    let entry = Ref::store(FLOWS, slot.entry(self.flow_buckets), LINE as u16, site::FLOW_STORE);
                    tape.touch_after(from, entry);
                    let signature = slot.tags() + flows::TAG_BYTES * u64::from(slot.way);
                    tape.touch_after(from, Ref::store(FLOWS, signature, flows::TAG_BYTES as u16, site::FLOW_STORE));
                    tape.work(site::FLOW_STORE, cost::FLOW_ENTER);
                    slot
                }
            };
            let used = slot.tags() + flows::USED_OFFSET + flows::USED_BYTES * u64::from(slot.way);
            tape.touch_after(from, Ref::store(FLOWS, used, flows::USED_BYTES as u16, site::FLOW_STORE));
        }
        match far.action {
            FarAction::Drop => return Verdict::Drop(DropReason::FarDrop),
            FarAction::Buffer => {
                let Some(slot) = self.free_buffers.pop() else { return Verdict::Drop(DropReason::BufferFull) };
                let data = data_address(tape, site::LEAVE_BUF_ADDR, site::LEAVE_DATA_OFF);
                let bytes = packet.data.len().clamp(1, BUFFER_BYTES as usize) as u16;
                let src = Ref::load(RegionId::PACKET, 0, bytes, site::BUFFER_COPY);
                let dst = Ref::store(BUFFER, u64::from(slot) * BUFFER_BYTES, bytes, site::BUFFER_COPY);
                for (load, store) in CopyLoop::new(src, dst) {
                    let loaded = tape.touch_after(data, load);
                    tape.touch_after(loaded, store);
                }
                self.buffer[slot as usize] = Some(Kept { session: at, packet: packet.clone() });
                tape.work(site::DONE, cost::BUFFERED);
                return Verdict::Drop(DropReason::Buffered);
            }
            FarAction::ToCore | FarAction::ToAccess { .. } => {}
        }
        let (urrs, action_far) = (found.urrs, far.action);
        for qer_at in found.qers {
            let Some(qer) = self.qers.get_mut(qer_at as usize) else { break };
            let line = u64::from(qer_at) * LINE;
            let half = line + 32 * way as u64;
            tape.touch_after(action, Ref::load(QERS, half, 32, site::QER_LOAD));
            let passed = qer.pass(now, way, key.bytes);
            if passed != Err(DropReason::GateClosed) && qer.meters[way].bits_per_s > 0 {
                tape.touch_after(action, Ref::store(QERS, half + 8, 16, site::QER_STORE));
                tape.work(site::QER_STORE, cost::METER);
            }
            tape.work(site::QER_LATCH, cost::QER);
            tape.latch(site::QER_LATCH);
            if let Err(reason) = passed {
                return Verdict::Drop(reason);
            }
        }
        for urr_at in urrs {
            let Some(urr) = self.urrs.get_mut(urr_at as usize) else { break };
            let line = u64::from(urr_at) * LINE;
            tape.touch_after(action, Ref::load(URRS, line, LINE as u16, site::URR_LOAD));
            let counted = urr.count(now, way, key.bytes);
            if counted != Err(DropReason::QuotaExhausted) {
                tape.touch_after(action, Ref::store(URRS, line, URR_STATE_BYTES, site::URR_STORE));
            }
            tape.work(site::URR_LATCH, cost::URR);
            tape.latch(site::URR_LATCH);
            match counted {
                Ok(None) => {}
                Ok(Some(trigger)) => {
                    let seid = self.rules.sessions.get(at as usize).map_or(0, |s| s.seid);
                    let id = urr_id(&self.rules, seid, urr_at);
                    self.reports.push(urr.report(seid, id, trigger));
                }
                Err(reason) => return Verdict::Drop(reason),
            }
        }
        leave(packet, key, action_far, self.address, tape)
    }
}

/// The id of the usage reporting rule at a place.
#[cold]
fn urr_id(rules: &UpfRules, seid: u64, at: u32) -> u32 {
    let known = rules.known.get(&seid);
    known.and_then(|k| k.urrs.get(at.checked_sub(k.first_urr)? as usize)).copied().unwrap_or(0)
}
